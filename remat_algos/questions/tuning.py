"""Numbers of questions that change answers or times, each with what it trades."""

# Share of time and progress of a comparison for the solvers. Higher: better plans, weaker bounds.
SEARCH_SHARE = 0.9
# Default number of budgets of a frontier. Higher: a finer curve, less work for each.
POINTS = 20
# Gap, as a share of one pass, above which a budget of a frontier is solved again. Higher: less time, worse plans.
NEAR_SOLVED = 0.001
# Share of the time for the lowest peak, the beginning of a frontier. Higher: a lower peak, less time for the rest.
FLOOR_SHARE = 0.3
# Graphs that `fit` caches. Higher: fewer are built twice, more memory.
CACHED_GRAPHS = 32
