assert arena(four, range(4)) == 7 and arena(equal, range(4)) == ra.allocate.Buffers(*zip(*equal)).max_live == 6
