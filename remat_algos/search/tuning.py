"""Numbers of searches that change plans or times, each with what it trades. Those of `effort` are in effort.py."""

# ---- shares of time and progress
# Time for a bound before the search. Higher: searches that end at it end earlier, others have less.
BOUND_SHARE = 0.25
# Time, and remaining progress, for the lowest peak if the first solvers find no plan within the limit. Higher: more
# limits are met, by worse plans.
LOWEST_SHARE, PROGRESS_LOWEST = 0.5, 0.4
# Progress of the search, without and with an allocator. Higher: the bound and addresses seem to do less.
SEARCHING, SEARCHING_FIRST = 0.9, 0.6
# Time and progress of solving; the rest is for polishing, which usually ends early. Higher: less is polished.
SOLVING, PROGRESS_SOLVING = 0.75, 0.9
# Time and progress of the search of a lowest peak for its first searches. Higher: better starts, less after them.
FIRST_SHARE = 0.1
# Time for the lowest bytes; the rest is for the search within them. Higher: fewer bytes, more compute.
FEWEST_BYTES_SHARE = 0.5
# Limit as a share of the lowest peak, from which the search within that peak may meet it. Higher: fewer searches.
NEARLY = 0.9

# ---- runs of solvers
# Seconds after the deadline in which cheap solvers still run, and while nothing fits. Higher: more plans, later ends.
GRACE, LONG_GRACE = 0.05, 1.0
# Seconds per solver until a candidate fits, at least. Higher: surer plans under short limits, fewer solvers.
FIRST_SECONDS = 0.25
# Factor on the time of a solver that used up its share, for another run. Higher: fewer solvers run again, longer.
LONGER = 2.0
# Price of a solver in shares of the progress, at least. Higher: quick solvers seem to do more.
MIN_PRICE = 0.03
# Candidates kept per solver under a limit. Higher: more starts and choices, more memory.
MAX_KEPT = 64
# Candidates polished besides the best, and steps of one solver's schedules. Higher: better plans, more time.
MAX_OTHERS, MAX_POLISHED_STEPS = 12, 400_000
# Steps that polishing, which cannot be interrupted, covers in a second. Higher: more is polished, later ends.
POLISHED_A_SECOND = 100_000
# Graphs of more nodes: a schedule is skipped if its simulation would end after the deadline. Higher: later ends.
LARGE_SIMULATION = 10_000
# Searches per limit on reserved bytes, each at another peak, and after the first that fits. Higher: less compute within
# the limit, more time.
MAX_SEARCHES, MAX_FITTING = 6, 2
# Plans kept in the folder. Higher: more are found again, more files.
MAX_PLANS = 200

# ---- with copies
# Runs of one node, unless a start has more. Higher: lower peaks, more memory.
MAX_RUNS = 30
# Shares of the time for the plan without copies, and of what remains for the first bound. Higher: better starts and
# proofs, less time for copies.
ALONE_PART, BOUND_PART = 0.5, 0.3
# Share of the progress for a schedule that fits. Higher: later improvements seem to do less.
LOWEST_PART = 0.5
# Work per node as a multiple of that without copies; it limits small graphs. Higher: faster plans of them, more time.
WORK_OF_NODE = 8
# Rate of a slower link as a share of the link's, and of the work for its plan, another start. Higher: less variety of
# rates, less work after it.
SLOWER, SLOWER_PART = 0.8, 0.25
# Factor on the work of effort "fast" where nothing fits without copies: few moves stay at slow plans. Higher: slower.
UNMET_FACTOR = 2
# Share of the work after which a search for a lower peak that has found nothing ends. Higher: lower peaks, slower.
FIRST_PART = 0.25
# Limits that are tried for the lowest peak within an overhead. Higher: lower peaks, less work for each.
LIMITS_TRIED = 7
