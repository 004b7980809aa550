"""Numbers of questions that change answers or times, each with what it trades."""

# Share of time and progress of a comparison for the solvers. Higher: better plans, weaker bounds.
SEARCH_SHARE = 0.9
# Budgets of a frontier by default. Higher: a finer curve, less work for each.
POINTS = 20
# Gap as a share of one pass, above which `solve` may find better plans. Higher: fewer hints.
NEAR_SOLVED = 0.001
# Share of the time for the lowest peak, where a frontier begins. Higher: a lower begin, less for the rest.
FLOOR_SHARE = 0.3
# Graphs that `fit` keeps. Higher: fewer are built twice, more memory.
CACHED_GRAPHS = 32
