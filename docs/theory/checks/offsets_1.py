assert best.size == buffers.max_live == min(counts) == 10 and best.proven
assert arena(rows, by_begin) == arena(rows, by_size) == 15
