reserved = [
    ra.allocate.cupy_pool(ra.allocate.Trace.of_buffers(four_small(*pair))).peak_reserved // UNIT
    for pair in ((0, 1), (0, 2))
]
assert reserved == [8, 12]
