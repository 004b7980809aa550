"""Numbers of searches that change plans or times, each with what it trades. Those of `effort` are in effort.py."""

# ---- shares of time and progress
# Share of the time for a bound before the search. Higher: searches that end at it end earlier, others have less time.
BOUND_SHARE = 0.25
# Share of the time (LOWEST_SHARE) and of the remaining progress for the lowest peak, if the first solvers find no plan
# within the limit. Higher: more limits are met, by worse plans.
LOWEST_SHARE, PROGRESS_LOWEST = 0.5, 0.4
# Share of the progress for the search: SEARCHING without an allocator, SEARCHING_FIRST with one. Higher: less progress
# for bound and addresses.
SEARCHING, SEARCHING_FIRST = 0.9, 0.6
# Shares of time and progress for solving; the rest is for polishing, which usually ends early. Higher: less is
# polished.
SOLVING, PROGRESS_SOLVING = 0.75, 0.9
# Share of the run for the lowest peak (time and progress) spent on the first searches. Higher: better starts, less time
# after them.
FIRST_SHARE = 0.1
# Share of the time for the minimum of bytes; the rest is for the search within these. Higher: fewer bytes, more
# compute.
FEWEST_BYTES_SHARE = 0.5
# If the limit is below this share of the lowest peak found, no second search for a lower peak follows. Higher: fewer
# searches.
NEARLY = 0.9

# ---- runs of solvers
# Seconds after the deadline in which cheap solvers still run: GRACE if a plan fits, LONG_GRACE if none does. Higher:
# more plans, later ends.
GRACE, LONG_GRACE = 0.05, 1.0
# Minimum seconds per solver until a candidate fits. Higher: more reliable plans under short limits, fewer solvers.
FIRST_SECONDS = 0.25
# A solver that reached its deadline runs again if it gets this many times its time. Higher: fewer such runs, longer
# ones.
LONGER = 2.0
# Minimum share of the progress for a solver, relative to prices. Higher: quick solvers report more progress.
MIN_PRICE = 0.03
# Candidates kept per solver under a limit. Higher: more starts and choices, more memory.
MAX_KEPT = 64
# MAX_OTHERS: maximum candidates polished in addition to the best. MAX_POLISHED_STEPS: maximum steps of all schedules
# that are polished for one solver. Higher: better plans, more time.
MAX_OTHERS, MAX_POLISHED_STEPS = 12, 400_000
# Steps that polishing covers in a second; it cannot be interrupted. Higher: more is polished, later ends.
POLISHED_A_SECOND = 100_000
# On graphs of more nodes a schedule is skipped if its simulation would end after the deadline. Higher: later ends.
LARGE_SIMULATION = 10_000
# For one limit on reserved bytes: MAX_SEARCHES searches, each at another peak, and MAX_FITTING after the first result
# that fits. Higher: less compute within the limit, more time.
MAX_SEARCHES, MAX_FITTING = 6, 2
# Plans kept in the folder. Higher: more are found again, more files.
MAX_PLANS = 200

# ---- with copies
# Maximum runs of a node, unless a start has more. Higher: lower peaks, more memory.
MAX_RUNS = 30
# ALONE_PART: share of the time for the plan without copies. BOUND_PART: share of the rest for the first bound. Higher:
# better starts and proofs, less time for copies.
ALONE_PART, BOUND_PART = 0.5, 0.3
# Share of the progress for finding a schedule that fits. Higher: less progress for improvements.
LOWEST_PART = 0.5
# Work per node as a multiple of that without copies; it limits the work on small graphs. Higher: faster plans of these,
# more time.
WORK_OF_NODE = 8
# A search over a link with SLOWER times the rates and SLOWER_PART of the work provides one more start. Higher: a more
# similar link, less work for the actual one.
SLOWER, SLOWER_PART = 0.8, 0.25
# Factor on the work of effort "fast" if nothing fits without copies; little work would give slow plans. Higher: faster
# plans, more time.
UNMET_FACTOR = 2
# Share of the work after which a search for a lower peak ends if it has found none. Higher: lower peaks, more time.
FIRST_PART = 0.25
# Limits tried for the lowest peak within an overhead. Higher: lower peaks, less work for each.
LIMITS_TRIED = 7
