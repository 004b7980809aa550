four = chain([2, 1, 4, 1])
lowest = ra.frontier(four, solvers=["chain_dp"]).plans[0]
raw = [ra.solve(blocks, limit, solver="chain_dp", raw=True).overhead for limit in (24, 26)]
free = [ra.solve(blocks, limit, solver="live_set_search").overhead for limit in (24, 26)]
assert all(mine > least for mine, least in zip(raw, free))
assert ra.solve(four, "least", solver="live_set_search").peak_memory < lowest.peak_memory
assert ra.solve(blocks, 24, solver="chain_dp").overhead == free[0] < raw[0]
