"""Tuning constants of questions. The comment at each one describes its trade-off."""

# Share of time and progress that the solvers get in a comparison; the rest is for bounds. Higher: better plans, weaker
# bounds.
SEARCH_SHARE = 0.9
# Default number of budgets of a frontier. Higher: a finer curve, less work per budget.
POINTS = 20
# A budget of a frontier is solved again if the compute of its plan exceeds the bound by more than this share of one
# pass. Higher: less time, worse plans.
NEAR_SOLVED = 0.001
# Share of a frontier's time for its first point, the lowest peak. Higher: a lower peak, less time for other budgets.
FLOOR_SHARE = 0.3
# Maximum number of graphs that `fit` caches. Higher: fewer graphs are built twice, more memory.
CACHED_GRAPHS = 32
