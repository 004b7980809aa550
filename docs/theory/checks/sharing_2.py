assert (count(diamond, {"d"}), count(diamond, {"d"}, diamond)) == (3, 2)
assert placed["c"] == placed["a"] != placed["b"]
