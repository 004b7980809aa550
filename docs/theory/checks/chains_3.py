answer = ra.frontier(chain([4, 1, 5, 2, 4, 1]), solvers=["chain_dp"]).plans
assert [(plan.peak_memory, plan.overhead) for plan in answer] == [(15, 2), (18, 1), (22, 0)]
