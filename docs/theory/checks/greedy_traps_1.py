assert best == (60, (1, 2, 3))
assert (runs[0, 1, 3].peak_memory, runs[0, 1, 3].compute) == (25, 52)
assert runs[0, 1, 2, 3].peak_memory == 25 and ra.solve(four, 24).simulation.compute == 60
assert (
    max(range(4), key=lambda v: compute[v] / memory[v]) in (0, 3)
    and min(range(4), key=lambda v: compute[v] / memory[v]) == 2
)
