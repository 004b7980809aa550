names = lowest.schedule.names(four)
assert lowest.simulation.compute == 23 and names.count("grad(3)") == 2
last = len(names) - 1 - names[::-1].index("grad(3)")
assert names[last + 1] == "grad(1)"
assert ra.solve(four, 17, solver="live_set_search").simulation.compute == 21
