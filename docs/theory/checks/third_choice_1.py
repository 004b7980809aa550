assert graph.labels.compute_scale == 1  # costs are us
recomputed = ra.solve(graph, "92%").overhead_in_time
assert plans[12].overhead_in_time == recomputed > 0 and plans[25].overhead_in_time == 0
assert plans[25].peak_memory <= 0.92 * once.peak_memory
