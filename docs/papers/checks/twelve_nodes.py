assert all(
    "".join(filter(str.islower, text(run, 12))) == "abcdefghijkl" for run in [*fitting.values(), *lowest.values()]
)
assert len(low) == 1 and lowest[low[0]].runs[12:].max() > 1  # "It" in the text
assert again("drop bn-relu") == "`b`, `c`" and graph.memory[1] == graph.memory[2] == 8
assert text(echo.simulation, 12).startswith("abcdefghijkl.BCK.") and "C" not in text(echo.simulation, 12)[15:]
assert figures(echo.simulation) == figures(lowest["Echo, minimum stash"])
assert ra.solve(graph, "least", solver="live_set_search").peak_memory == bound
