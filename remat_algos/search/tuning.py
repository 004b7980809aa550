"""Tuning constants of `solve`. The comment at each one describes its trade-off. Limits of `effort` are in effort.py."""

# ---- shares of time and progress
# Fraction of the time limit spent on computing a bound before the search. Higher: more searches end early; the others
# have less time.
BOUND_SHARE = 0.25
# If the first solvers find no plan within the limit, a search for the lowest peak follows. LOWEST_SHARE: its share of
# the time. PROGRESS_LOWEST: its share of the remaining progress. Higher: more limits are met, but by worse plans.
LOWEST_SHARE, PROGRESS_LOWEST = 0.5, 0.4
# Share of the progress for the search: SEARCHING without an allocator, SEARCHING_FIRST with one. Higher: less progress
# is left for computing the bound and the addresses.
SEARCHING, SEARCHING_FIRST = 0.9, 0.6
# SOLVING and PROGRESS_SOLVING: shares of time and progress for solving. Polishing gets the rest, but usually ends
# early. Higher: fewer schedules are polished.
SOLVING, PROGRESS_SOLVING = 0.75, 0.9
# Share of time and progress for the searching solvers (`Solver.searches`) if they run first in a run for the lowest
# peak. Higher: better schedules for the other solvers to start from, but less time for the other solvers.
FIRST_SHARE = 0.1
# For the budget "least", share of the time for minimizing bytes; the rest is for reducing compute within these bytes.
# Higher: fewer bytes, more compute.
FEWEST_BYTES_SHARE = 0.5
# If the limit is below this share of the lowest peak found, no second search for the lowest peak follows. Higher: fewer
# second searches.
NEARLY = 0.9

# ---- runs of solvers
# Cheap solvers may still start up to this many seconds after the deadline: GRACE if a plan fits, LONG_GRACE if none
# does. Higher: more plans, but searches end later.
GRACE, LONG_GRACE = 0.05, 1.0
# Minimum seconds per solver while no candidate fits. Higher: short time limits give plans more reliably, but fewer
# solvers run.
FIRST_SECONDS = 0.25
# A solver that hit its deadline is rerun if its new time limit is this many times the first one or more. Higher: fewer,
# longer reruns.
LONGER = 2.0
# Minimum price of a solver when the progress bar is divided among the solvers in proportion to their prices. Higher:
# quick solvers get a larger share of the bar.
MIN_PRICE = 0.03
# Maximum number of candidates stored per solver if there is a limit. Higher: more starts for searches, more memory.
MAX_KEPT = 64
# MAX_OTHERS: maximum number of candidates polished in addition to the best. MAX_POLISHED_STEPS: maximum total length of
# the schedules polished for one solver. Higher: better plans, more time.
MAX_OTHERS, MAX_POLISHED_STEPS = 12, 400_000
# Steps of a schedule that polishing covers per second; a schedule that would take longer than the time left is skipped.
# Higher: more schedules are polished, but the search may end late.
POLISHED_A_SECOND = 100_000
# On graphs with more nodes than this, a schedule is skipped if its simulation would end after the deadline. Higher: the
# search may end late on more graphs.
LARGE_SIMULATION = 10_000
# MAX_SEARCHES: maximum number of searches, with different peak limits, for one limit on reserved bytes. MAX_FITTING:
# maximum number of searches after the first one whose result fits. Higher: less compute within the limit, more time.
MAX_SEARCHES, MAX_FITTING = 6, 2
# Maximum number of plans in the cache. Higher: more requests are answered from it, more files.
MAX_PLANS = 200

# ---- with copies
# Maximum number of runs of a node, unless the user's start schedule has more. Higher: lower peaks, more memory.
MAX_RUNS = 30
# ALONE_PART: share of the time for the plan without copies. Higher: a better start. BOUND_PART: share of the rest for
# the first bound. Higher: stronger proofs. Both leave less time for the search with copies.
ALONE_PART, BOUND_PART = 0.5, 0.3
# Share of the progress bar for finding a schedule that fits. Higher: a smaller share is left for improving it.
LOWEST_PART = 0.5
# The maximum work per node of a search with copies, divided by that of a search without copies. It matters only on
# small graphs. Higher: faster plans for them, more time.
WORK_OF_NODE = 8
# A search over a slower link provides one more start schedule. SLOWER: factor on the rates of the link. Higher: closer
# to the actual link. SLOWER_PART: share of the work for this search. Higher: less work for the actual link.
SLOWER, SLOWER_PART = 0.8, 0.25
# Factor on the work of effort "fast" if no plan fits without copies; without the factor, plans would be slow. Higher:
# faster plans, more search time.
UNMET_FACTOR = 2
# The search for a schedule that fits ends after this share of its work without an improvement. Higher: lower peaks,
# more time.
FIRST_PART = 0.25
# Number of limits tried in a bisection for the lowest peak within an overhead. Higher: lower peaks, less work per
# limit.
LIMITS_TRIED = 7
