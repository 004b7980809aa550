plans = ra.frontier(small, solvers=["chain_dp"]).plans
assert [(plan.peak_memory, plan.overhead) for plan in plans] == [(24, 9), (25, 0)]
assert ra.solve(small, 24, solver="live_set_search").overhead == 9
assert ra.bounds.least_peak_bound(small)[0] == 24
