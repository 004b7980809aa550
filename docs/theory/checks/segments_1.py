options = {"splits": 1, "depth": 3, "candidates": "all", "keep_last": False}
plan = ra.solve(graph, solver="chen_recursive", raw=True, **options)
assert list(plan.schedule.order) == list(simulation.schedule.order)
assert mirrored(graph, [0] * 7).schedule.order.tolist() == list(range(14))
