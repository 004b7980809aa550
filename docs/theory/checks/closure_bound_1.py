assert [bound.amount - small.needed_compute for bound in below.values()] == [2, 4]
assert all(nodes[bound.nodes[0]] == "loss" for bound in below.values())
