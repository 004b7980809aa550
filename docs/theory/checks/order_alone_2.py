least = ra.solve(twelve, "least", solver="live_set_search")
sums = ra.solve(twelve, "least", solver="chen_greedy")
assert least.details["proof"] and least.peak_memory == 36 and sums.peak_memory == 68
assert round(sums.peak_memory / least.peak_memory, 1) == 1.9
