"""Tuning constants of solvers. The comment at each one describes its trade-off. Limits of `effort` are in effort.py."""

# Maximum price, in seconds for 1,000 nodes, of a solver that may still run after the deadline. Higher: more plans, but
# the deadline is exceeded by more.
CHEAP = 0.1
# Default price of a solver. Higher: solvers without a price run later, and not with effort "fast".
UNKNOWN_PRICE = 1.0
# Maximum number of steps in a schedule of `revolve` or `chain_dp`. Higher: lower peaks of long chains, more time.
MAX_SCHEDULE_STEPS = 2_000_000
# Maximum number of lower sets, of pairs of lower sets, and of visits (one per pair and node) between two checks of the
# deadline, which are at most a tenth of a second apart. Higher: less overhead, later stops.
SETS_PER_CHECK, PAIRS_PER_CHECK, VISITS_PER_CHECK = 100_000, 10_000, 5_000_000
STATES_PER_CHECK, ENTRIES_PER_CHECK, WORK_PER_CHECK = 20_000, 40_000_000, 2_000_000

# ---- rows of candidates (parameter sweeps)
# LONGEST_ROW: maximum number of candidates in a row. MAX_ROW_STEPS: maximum total number of steps of the schedules in a
# row, so rows are shorter on large graphs. Higher: finer sweeps, more time.
LONGEST_ROW, MAX_ROW_STEPS = 2_000, 5_000_000
# A row is simulated completely if it has at most MIN_SIMULATED candidates, or at most MAX_SIMULATED_STEPS steps. Longer
# rows are searched near the limit. Higher: fewer plans are missed, more time.
MIN_SIMULATED, MAX_SIMULATED_STEPS = 96, 60_000
# The search of a long row starts with FIRST_PLACES evenly spaced candidates. Then it tries candidates next to the
# BEST_PLACES best ones. Higher: fewer local minima are missed, but each is searched less closely.
FIRST_PLACES, BEST_PLACES = 24, 3

# ---- chains of lower sets
# COST_LEVELS: maximum number of levels to which costs are rounded. TABLE_BYTES: maximum size of a table in bytes, which
# reduces the number of levels for large families. Higher: smaller rounding errors, more memory and time.
COST_LEVELS, TABLE_BYTES = 4_096, 2**30
# Maximum number of pairs of sets whose figures are stored. In a family with more pairs, figures are recomputed at each
# use. Higher: less time, more memory.
MAX_STORED_STEPS = 2_000_000
# FIRST_CAP: maximum cost in the first table, in units. WORK_GROWTH: work of each table relative to the table before it.
# Higher: fewer tables, more unnecessary work in the last one.
FIRST_CAP, WORK_GROWTH = 16, 3.0
# Share of the remaining progress that each table reports, since the number of tables is unknown. Higher: the first
# tables report more.
TABLE_PROGRESS = 0.1
# Parts into which the range of costs is divided; each pass of labels covers one part. Higher: less memory, more passes.
LABEL_PARTS = 64
# Maximum number of lower sets in a family that is solved for many budgets. Higher: more chains, but quadratic time.
MAX_SETS = 600
# All Pareto-optimal chains of a family are tried if it has at most this many pairs of sets: FEW_PAIRS with a limit,
# MAX_PAIRS without a limit. MAX_PAIRS pairs take half a second. Higher: no plan is missed on larger graphs, more time.
FEW_PAIRS, MAX_PAIRS = 4_000, 50_000
# Under a limit, BUDGETS_SPREAD evenly spaced budgets are tried, then BISECTED budgets by bisection. Higher: closer to
# the limit, more chains.
BUDGETS_SPREAD, BISECTED = 5, 6
# Without a limit, a family of more than MAX_PAIRS pairs is solved for GRID_BUDGETS budgets if the figures of its pairs
# are stored, otherwise for SAMPLED_BUDGETS budgets. Higher: a finer frontier, more time.
GRID_BUDGETS, SAMPLED_BUDGETS = 48, 16
# MAX_SIMULATED_CHAINS: maximum number of chains of a frontier that are simulated. MAX_CHAIN_STEPS: maximum total number
# of steps in their schedules. Higher: a finer frontier, more time.
MAX_SIMULATED_CHAINS, MAX_CHAIN_STEPS = 160, 400_000
# Budgets for memory-centric chains, as multiples of the minimum budget. More: more variety, more chains.
MEMORY_CENTRIC = (1.0, 1.1, 1.25, 1.5, 2.0)
# Maximum number of lower sets, and maximum number of states of chains, in `exhaustive_lower_sets`. Higher: larger
# graphs are accepted, in exponential time.
MAX_EXHAUSTIVE_SETS, MAX_EXHAUSTIVE_STATES = 2_000, 500_000

# ---- liveness_dp
# Maximum work to simulate blocks, which is the number of pairs of sets times the number of forward nodes. It limits the
# number of sets. Higher: more chains to choose from, more time.
MAX_VISITS = 200_000_000
# A first search over a subfamily (COARSE_SETS sets of a large family, SOME_SETS of a small one) bounds the search over
# all sets. Higher: tighter bounds, more time for the first search.
COARSE_SETS, SOME_SETS = 128, 48
# Maximum number of sets in a family for which many chains and both values of `lazy` are tried. Higher: better plans for
# mid-sized graphs, more time.
FEW_SETS = 316
# Under a limit, all Pareto-optimal chains of a family are tried if it has at most TINY_FAMILY sets. For other families,
# PROMISES chains are tried. Higher: fewer plans are missed, more simulations.
TINY_FAMILY, PROMISES = 60, 16
# Range of the predicted peaks (promises) of these chains, as multiples of the limit (PROMISES_AROUND). If the limit is
# below the lowest promise, they are multiples of the lowest promise (PROMISES_ABOVE). Wider: fewer plans are missed far
# from the limit, more of them near it.
PROMISES_AROUND, PROMISES_ABOVE = (0.7, 1.1), (1.0, 1.5)
# PROMISE_GROWTH: while chains fit the limit, each promise is this multiple of the one before. WIDER_PROMISE: blocks are
# simulated up to this multiple of the highest promise. Higher: fewer chains and passes, but passes take longer and
# chains between two promises are missed.
PROMISE_GROWTH, WIDER_PROMISE = 1.1, 1.5

# ---- chains of stages
# MIN_STAGES: minimum number of stages in a chain. MIN_STEPS: minimum number of steps in a recurrence. Higher: fewer
# graphs are treated as chains or as recurrences, respectively.
MIN_STAGES, MIN_STEPS = 3, 8
# Maximum number of values that pass from one stage to the next. BDF6, the stable backward differentiation formula of
# the highest order, reads six. Higher: wider recurrences, more states.
MAX_STATE = 6
# Let s be the number of stages if only one value may cross a cut, and t the number if several values may. A graph is
# treated as a recurrence if t is more than this many times s. Higher: fewer recurrences, which take longer to plan.
MORE_STAGES = 10
# Maximum number of forward nodes per step of a recurrence. Higher: more graphs are treated as recurrences.
MAX_STEP_NODES = 24
# Default maximum number of stages in a table. Higher: finer plans for long chains, time cubic in the number.
MAX_STAGES = 240
# A table has MIN_SLOTS memory slots, or up to MAX_SLOTS if it then reads at most CHAIN_WORK entries. MAX_TABLE: maximum
# size of a table in bytes. Higher: less rounding, more time and memory.
MIN_SLOTS, MAX_SLOTS, CHAIN_WORK, MAX_TABLE = 500, 4_000, 1_200_000_000, 2**31
# Under a limit, all Pareto points are tried if there are at most FEW_POINTS, otherwise POINTS_AROUND points on each
# side of the limit. Higher: fewer plans are missed, more simulations.
FEW_POINTS, POINTS_AROUND = 96, 12
# Highest peak in the table for a limit, as a multiple of the limit. Higher: more chains above the limit, coarser slots.
WIDER_TABLE = 1.15
# Maximum total number of steps in the schedules of a frontier. Higher: a finer frontier for long chains, more time.
MAX_FRONTIER_STEPS = 20_000_000
# MAX_COUNTS: maximum number of checkpoint counts that `revolve` tries without a limit. NEIGHBOURS: under a limit, how
# many smaller counts it tries after the largest one that fits. Higher: fewer plans are missed, more time.
MAX_COUNTS, NEIGHBOURS = 128, 2

# ---- chen_greedy, two_cuts
# Maximum total number of cuts in an exact sweep, which then takes about a second. Higher: more exact sweeps, more time.
MAX_CUTS = 1_000_000
# MAX_COSTS: maximum number of thresholds of compute per byte. FEWEST_BUDGETS: minimum number of budgets per threshold.
# Higher: better choices of kept nodes and cuts, more time.
MAX_COSTS, FEWEST_BUDGETS = 16, 16
# Share of time and progress for computing segmentations. Higher: more segmentations, but fewer are simulated in time.
WALK_SHARE = 0.3
# Number of limits for a whole frontier of `two_cuts`. Higher: a finer frontier, more time.
CURVE_LIMITS = 8
# The two prices per byte differ from the price of the bound by one part in this number. Higher: the two cuts are closer
# to the bound, but more often equal.
NEARLY_EQUAL = 1_024

# ---- greedy_remat
# Block sizes, in the order in which they are tried. More: better plans, one more walk for each.
BLOCK_SIZES = (64, 1, 8, 2, 16, 4, 32)
# Limits per initial order: MIN_LIMITS on large graphs, up to MAX_LIMITS on small ones. Higher: more plans, more time.
MIN_LIMITS, MAX_LIMITS = 8, 32
# A descent stops after MAX_FAILED limits without a lower peak. Then BISECTIONS limits are tried by bisection. Higher:
# lower peaks, more walks.
MAX_FAILED, BISECTIONS = 2, 6
# Maximum number of runs per node in a walk. Higher: lower limits are met, by longer schedules.
MAX_WALK_RUNS = 8
# Maximum work to find blocks: BLOCK_WORK times the work to find single runs, but at least MIN_BLOCK_WORK. Higher:
# better blocks, more time.
BLOCK_WORK, MIN_BLOCK_WORK = 2, 500_000
# Maximum work of all walks from one start, about two seconds. Higher: lower peaks for large graphs, more time.
MAX_WALK_WORK = 200_000_000
# Maximum number of nodes in a graph for which walks also start from orders other than the id order. Higher: better
# plans for larger graphs, many more walks.
MAX_NODES_RESTARTED = 100
# In each of TURNS turns, walks start from the STARTS_PER_TURN schedules with the lowest peaks, with START_BLOCKS block
# sizes. Higher: lower peaks, more time.
TURNS, STARTS_PER_TURN, START_BLOCKS = 3, 8, 5
# Pairs of nodes that a walk scans per second; a walk cannot be interrupted. Higher: more walks start near the deadline
# and end after it.
SCANNED_A_SECOND = 500_000_000

# ---- live_set_search, milp
# The maximum number of sets is divided by LOWEST_DIVISOR in searches for the lowest peak, and by BEYOND_DIVISOR for
# graphs of more than USUAL_VALUES values, where proofs are unlikely. Higher: less time and memory, fewer proofs.
LOWEST_DIVISOR, BEYOND_DIVISOR, USUAL_VALUES = 2, 20, 64
# The maximum number of sets is multiplied by this factor for a whole frontier. Higher: more proven points, more time.
FRONTIER_SEARCHES = 2
# Number of sets searched before potentials are computed. Higher: fewer linear programs, longer searches.
MAX_STATES_ALONE = 100_000
# Maximum number of potentials in a search. Higher: fewer sets, more time per set.
MAX_POTENTIALS = 5
# Maximum number of needed nodes in an integer program; HiGHS takes seconds to minutes for 50 nodes. Higher: larger
# graphs are accepted, but most of them remain unsolved.
MILP_NODES = 60
# Relative gap at which an integer program counts as solved. Higher: earlier stops, weaker proofs.
EXACT_SHARE = 1e-9
# HiGHS may exceed a limit by this share of the peak of one pass. The program is then solved again with a limit that is
# lower by the same amount. Higher: more of the limit remains unused in the second solution.
PROGRAM_SLACK = 2e-6

# ---- search. LOWEST_WORK, UNMET_WORK and AGAIN_WORK are multiples of the work for one limit.
# Maximum number of candidates of other solvers from which a search starts. Higher: more variety, less work for each.
N_SEEDS = 4
# Maximum number of runs per node, unless an initial schedule has more. Higher: lower peaks, more memory.
MAX_RUNS = 30
# The limit of a search for a lower peak is one of LOWER_SHARES times the lowest peak. A share is used again while the
# peak decreases, for at most MAX_LOWER searches in total. Closer to 1: smaller steps, which succeed more often.
LOWER_SHARES, MAX_LOWER = (0.9, 0.97), 3
# LOWEST_WORK: work for the lowest peak. FIRST_LOWEST, NEXT_LOWEST: shares of this work for each initial search, and for
# each later search at a lower limit. Higher: lower peaks, more time.
LOWEST_WORK, FIRST_LOWEST, NEXT_LOWEST = 1.8, 1 / 3, 2 / 9
# `search` runs twice: with and without the candidates of other solvers. On graphs of more than this many nodes, each
# run gets only half of the work for the lowest peak. Higher: lower peaks, more time.
ALONE_NODES = 100
# With effort "fast", if no schedule fits, a second search gets UNMET_WORK times the work, at most UNMET_MAX. Higher:
# more limits are met, more time for infeasible limits.
UNMET_WORK, UNMET_MAX = 8, 20_000_000
# On graphs of at most `SMALL` nodes, up to MAX_AGAIN more searches follow. Each gets AGAIN_WORK times the work, at most
# AGAIN_MAX. Higher: more optima, more time.
MAX_AGAIN, AGAIN_WORK, AGAIN_MAX = 3, 8, 100_000_000
# Assumed amount of work that a core does per second. It determines how far a time limit shortens a search. Higher: more
# work, later stops on slow machines.
WORK_A_SECOND = 25_000_000
# Number of limits in a frontier if the budget limits only the overhead. Higher: a finer frontier, less work per limit.
FRONTIER_LIMITS = 12
# ORDER_WORK: share of the work for a search over one-pass orders. This search runs only if the lower bound on the peak
# of one-pass orders is below ORDER_ROOM times the peak of the id order. Higher: less work for the other searches.
ORDER_WORK, ORDER_ROOM = 1 / 8, 0.95
# Shares of the work for a frontier. LOWEST_PEAK_SHARE: for the lowest peak, and once more for the minimum compute at
# that peak. BENDS_WORK: for limits at bends of the curve. Higher: less work for the other limits.
LOWEST_PEAK_SHARE, BENDS_WORK = 0.15, 0.06
# Number of evenly spaced limits divided by that of limits at bends. Higher: fewer limits at bends, more work for each.
LIMITS_PER_BEND = 2

# ---- twremat, pathremat
# MAX_ORDERS: maximum number of elimination orders. MAX_TREE_NODES: maximum total number of nodes in all decompositions,
# so large graphs get fewer orders. Higher: better trees, more time.
MAX_ORDERS, MAX_TREE_NODES = 16, 40_000
# Values of `recursion_limit` that are tried. More: more variety, one more schedule for each.
RECURSION_LIMITS = (1, 32, 128, 512)
# Batch sizes, as shares of the bytes of the largest node. More: more variety, one more schedule for each.
BATCH_SHARES = {"zero": 0, "eighth": 1 / 8, "half": 1 / 2, "largest": 1}
# VARIED_TREES: number of trees for which all recursion limits are tried. FIRST_SCHEDULES: number of schedules for each
# of the remaining trees before the trees are compared. Higher: a better choice, more time.
VARIED_TREES, FIRST_SCHEDULES = 2, 2
# Under a limit, all schedules are tried only for the BEST_TREES best trees, unless the schedules of all trees together
# have fewer than ALL_TREES_STEPS steps. Higher: fewer plans are missed, more time.
BEST_TREES, ALL_TREES_STEPS = 24, 400_000
# Default maximum length of a schedule, in runs per node. Higher: lower peaks with more compute, more time.
LENGTH_LIMIT = 30.0
# Maximum width of a decomposition. Higher: denser graphs are decomposed, which takes long and gives high peaks.
MAX_WIDTH = 400
