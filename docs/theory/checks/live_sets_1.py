assert [minimum_peak(edges, memory, most)[0] for most in (1, 2, 3, 4)] == [6, 5, 4, 4]
assert plan.peak_memory == 4 and plan.simulation.runs.max() == 3
