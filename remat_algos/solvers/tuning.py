"""Numbers of solvers that change plans or times, each with what it trades. Those of `effort` are in effort.py."""

# Price (seconds for 1,000 nodes) up to which a solver still runs after the deadline. Higher: more plans, later ends.
CHEAP = 0.1
# Price of a solver that states none. Higher: it runs later, and not for effort "fast".
UNKNOWN_PRICE = 1.0
# Maximum steps of a schedule of `revolve` and `chain_dp`. Higher: lower peaks of long chains, more memory and time.
MAX_SCHEDULE_STEPS = 2_000_000
# Work between two checks of the deadline, by kind: at most a tenth of a second. Higher: less overhead, later ends.
SETS_PER_CHECK, PAIRS_PER_CHECK, VISITS_PER_CHECK = 100_000, 10_000, 5_000_000
STATES_PER_CHECK, ENTRIES_PER_CHECK, WORK_PER_CHECK = 20_000, 40_000_000, 2_000_000

# ---- rows of candidates
# LONGEST_ROW: maximum candidates of a row. MAX_ROW_STEPS: maximum steps of all its schedules, which shortens rows on
# large graphs. Higher: finer sweeps, more time.
LONGEST_ROW, MAX_ROW_STEPS = 2_000, 5_000_000
# Rows of at most MIN_SIMULATED candidates, or of at most MAX_SIMULATED_STEPS steps, are simulated as a whole; longer
# rows are searched near the limit. Higher: fewer plans are missed, more time.
MIN_SIMULATED, MAX_SIMULATED_STEPS = 96, 60_000
# That search starts with FIRST_PLACES evenly spaced candidates, and continues next to the BEST_PLACES best ones.
# Higher: fewer local minima are missed, but each is searched less closely.
FIRST_PLACES, BEST_PLACES = 24, 3

# ---- chains of lower sets
# COST_LEVELS: levels to which costs are rounded. TABLE_BYTES: bytes of a table, which reduce the levels of large
# families. Higher: smaller errors, more memory and time.
COST_LEVELS, TABLE_BYTES = 4_096, 2**30
# Steps between sets whose figures are stored; further ones are computed when they are read. Higher: faster, more
# memory.
MAX_STORED_STEPS = 2_000_000
# FIRST_CAP: maximum cost in the first table, in units. WORK_GROWTH: work of each table relative to the one before.
# Higher: fewer tables, more unnecessary work in the last one.
FIRST_CAP, WORK_GROWTH = 16, 3.0
# Share of the remaining progress that each table reports, since their number is unknown. Higher: the first tables
# report more.
TABLE_PROGRESS = 0.1
# Parts into which the range of costs is divided; each pass of labels takes one. Higher: less memory, more passes.
LABEL_PARTS = 64
# Maximum lower sets of a family that is solved for many budgets. Higher: finer chains, time quadratic in it.
MAX_SETS = 600
# Families of at most FEW_PAIRS pairs of sets with a limit, and of at most MAX_PAIRS without one (half a second), have
# all Pareto points tried. Higher: nothing is missed on larger graphs, more time.
FEW_PAIRS, MAX_PAIRS = 4_000, 50_000
# Under a limit, BUDGETS_SPREAD evenly spaced budgets are tried, then BISECTED ones by bisection. Higher: closer to the
# limit, more chains.
BUDGETS_SPREAD, BISECTED = 5, 6
# Without a limit, families of more than MAX_PAIRS pairs are solved for GRID_BUDGETS budgets if their steps are stored,
# and for SAMPLED_BUDGETS if not. Higher: a finer frontier, more time.
GRID_BUDGETS, SAMPLED_BUDGETS = 48, 16
# MAX_SIMULATED_CHAINS: maximum chains of a frontier that are simulated. MAX_CHAIN_STEPS: maximum steps of their
# schedules. Higher: a finer frontier, more time.
MAX_SIMULATED_CHAINS, MAX_CHAIN_STEPS = 160, 400_000
# Budgets of memory-centric chains, as multiples of the minimum. More: other trade-offs to polish, more chains.
MEMORY_CENTRIC = (1.0, 1.1, 1.25, 1.5, 2.0)
# Maximum sets, and maximum states of chains, for which `exhaustive_lower_sets` runs. Higher: larger graphs are served,
# exponential time.
MAX_EXHAUSTIVE_SETS, MAX_EXHAUSTIVE_STATES = 2_000, 500_000

# ---- liveness_dp
# Work of simulating blocks, which limits the number of sets: pairs of sets times the nodes of the forward part. Higher:
# finer chains, more time.
MAX_VISITS = 200_000_000
# A first search over COARSE_SETS sets of a large family, or SOME_SETS of a small one, bounds the search over all sets.
# Higher: tighter bounds, more time for them.
COARSE_SETS, SOME_SETS = 128, 48
# Families of at most this many sets have many chains tried, with both values of `lazy`. Higher: better plans of
# mid-sized graphs, slower.
FEW_SETS = 316
# Under a limit, families of at most TINY_FAMILY sets have all Pareto points tried, others PROMISES chains. Higher:
# fewer plans are missed, more simulations.
TINY_FAMILY, PROMISES = 60, 16
# Range of the promises of these chains: multiples of the limit, or (PROMISES_ABOVE) of the lowest promise if the limit
# is below it. Wider: fewer plans are missed far from the limit, more near it.
PROMISES_AROUND, PROMISES_ABOVE = (0.7, 1.1), (1.0, 1.5)
# While simulations fit, each promise is PROMISE_GROWTH times the one before; blocks are simulated up to WIDER_PROMISE
# times the highest promise. Higher: fewer chains and passes; some chains in between are missed, and passes are slower.
PROMISE_GROWTH, WIDER_PROMISE = 1.1, 1.5

# ---- chains of stages
# MIN_STAGES: minimum stages of a chain. MIN_STEPS: minimum steps of a recurrence. Higher: more graphs are refused, or
# planned as networks.
MIN_STAGES, MIN_STEPS = 3, 8
# Maximum values that pass from one stage to the next: the recurrence BDF6, of the highest stable order, reads six.
# Higher: wider recurrences, more states.
MAX_STATE = 6
# A graph is a recurrence only if it has this many times more steps than stages at which a single value passes. Higher:
# fewer graphs are recurrences, which take longer to plan.
MORE_STAGES = 10
# Maximum forward nodes per step of a recurrence; larger steps are networks. Higher: more graphs are recurrences.
MAX_STEP_NODES = 24
# Stages of a table by default. Higher: finer plans of long chains, time cubic in it.
MAX_STAGES = 240
# Slots of memory in a table: MIN_SLOTS, or up to MAX_SLOTS for few stages, within CHAIN_WORK reads of entries;
# MAX_TABLE: bytes of a table. Higher: less rounding, more time and memory.
MIN_SLOTS, MAX_SLOTS, CHAIN_WORK, MAX_TABLE = 500, 4_000, 1_200_000_000, 2**31
# Under a limit, up to FEW_POINTS Pareto points are all tried, otherwise POINTS_AROUND of them on each side of the
# limit. Higher: fewer plans are missed, more simulations.
FEW_POINTS, POINTS_AROUND = 96, 12
# Highest peak in the table for a limit, as a multiple of it. Higher: more promises above the limit, coarser slots.
WIDER_TABLE = 1.15
# Maximum steps of all schedules of a whole frontier. Higher: a finer frontier of long chains, more time.
MAX_FRONTIER_STEPS = 20_000_000
# MAX_COUNTS: maximum numbers of checkpoints that `revolve` tries without a limit. NEIGHBOURS: smaller numbers that it
# tries under a limit. Higher: fewer plans are missed, more time.
MAX_COUNTS, NEIGHBOURS = 128, 2

# ---- chen_greedy, two_cuts
# Cuts listed by an exact sweep, which takes about a second. Higher: all segmentations of larger graphs, more time.
MAX_CUTS = 1_000_000
# MAX_COSTS: maximum thresholds of compute per byte. FEWEST_BUDGETS: minimum budgets for each. Higher: better kept nodes
# and cuts, more time.
MAX_COSTS, FEWEST_BUDGETS = 16, 16
# Share of time and progress for the segmentations. Higher: more of them, fewer simulated in time.
WALK_SHARE = 0.3
# Limits of a whole frontier of `two_cuts`. Higher: a finer frontier, more time.
CURVE_LIMITS = 8
# The two prices of a byte differ from that of the bound by one part in this number. Higher: smaller steps, and cuts
# that are the same.
NEARLY_EQUAL = 1_024

# ---- greedy_remat
# Sizes of blocks, in the order in which they are tried. More: better plans, one more walk for each.
BLOCK_SIZES = (64, 1, 8, 2, 16, 4, 32)
# Limits for each start: MIN_LIMITS on large graphs, MAX_LIMITS on small ones. Higher: a finer frontier, more walks.
MIN_LIMITS, MAX_LIMITS = 8, 32
# A descent ends after MAX_FAILED limits without a lower peak; BISECTIONS limits follow by bisection. Higher: lower
# peaks, more walks.
MAX_FAILED, BISECTIONS = 2, 6
# Maximum runs per node of a walk. Higher: lower limits are met, by longer schedules.
MAX_WALK_RUNS = 8
# Work of the search for blocks: BLOCK_WORK times that for single runs, but at least MIN_BLOCK_WORK. Higher: better
# blocks, more time.
BLOCK_WORK, MIN_BLOCK_WORK = 2, 500_000
# Work of all walks from one start, about 2 s. Higher: lower peaks of large graphs, more time.
MAX_WALK_WORK = 200_000_000
# Nodes up to which walks begin from other orders too. Higher: better plans of larger graphs, many more walks.
MAX_NODES_RESTARTED = 100
# Walks begin from the STARTS_PER_TURN lowest schedules in each of TURNS turns, with START_BLOCKS sizes of blocks.
# Higher: lower peaks, more time.
TURNS, STARTS_PER_TURN, START_BLOCKS = 3, 8, 5
# Pairs of nodes that a walk covers in a second; a walk cannot be interrupted. Higher: more walks begin, later ends.
SCANNED_A_SECOND = 500_000_000

# ---- live_set_search, milp
# `Effort.live_sets` is divided by LOWEST_DIVISOR for the lowest peak, and by BEYOND_DIVISOR for graphs of more than
# USUAL_VALUES values, where proofs are unlikely. Higher: less time and memory, fewer proofs.
LOWEST_DIVISOR, BEYOND_DIVISOR, USUAL_VALUES = 2, 20, 64
# Factor on `Effort.live_sets` for a whole frontier. Higher: more proven points, more time.
FRONTIER_SEARCHES = 2
# Sets searched without potentials. Higher: fewer linear programs, more wasted sets where potentials are needed.
MAX_STATES_ALONE = 100_000
# Maximum potentials of a search. Higher: fewer sets, more time for each.
MAX_POTENTIALS = 5
# Maximum needed nodes of an integer program; HiGHS takes seconds to minutes for 50. Higher: larger graphs, most of
# them unsolved.
MILP_NODES = 60
# Gap up to which a program counts as solved. Higher: earlier ends, weaker proofs.
EXACT_SHARE = 1e-9
# Share of the peak of one pass by which a solution of HiGHS may exceed a limit. Higher: a retry leaves more of the
# limit unused.
PROGRAM_SLACK = 2e-6

# ---- search: the factors are on the work within one limit
# Candidates of other solvers to start from. Higher: more variety, less work for each.
N_SEEDS = 4
# Runs per node, unless a seed has more. Higher: lower peaks of deep graphs, more memory.
MAX_RUNS = 30
# Searches for lower peaks have these shares of the lowest peak as limits, each repeated while the peak falls, and
# MAX_LOWER searches in total. Closer to 1: smaller steps, which succeed more often.
LOWER_SHARES, MAX_LOWER = (0.9, 0.97), 3
# Work for the lowest peak, and the shares of it for the first searches and for each later round. Higher: lower peaks,
# more time.
LOWEST_WORK, FIRST_LOWEST, NEXT_LOWEST = 1.8, 1 / 3, 2 / 9
# Nodes up to which both runs for the lowest peak get all of that work, not half. Higher: lower peaks, more time.
ALONE_NODES = 100
# With effort "fast", if nothing fits, a second search has UNMET_WORK times the work, at most UNMET_MAX. Higher: more
# limits are met, more time for infeasible limits.
UNMET_WORK, UNMET_MAX = 8, 20_000_000
# On graphs of up to `SMALL` nodes MAX_AGAIN more searches follow, each with AGAIN_WORK times the work, at most
# AGAIN_MAX. Higher: more optima, more time.
MAX_AGAIN, AGAIN_WORK, AGAIN_MAX = 3, 8, 100_000_000
# Work that a core does in a second; it shortens searches under a time limit. Higher: more work, later ends on slow
# machines.
WORK_A_SECOND = 25_000_000
# Limits of a frontier if only the overhead is limited. Higher: a finer frontier, less work for each.
FRONTIER_LIMITS = 12
# ORDER_WORK: share of the work for an order of one pass, if the lower bound of such orders is below ORDER_ROOM of the
# peak of the id order. Higher: more graphs need no recomputation, less work for those that do.
ORDER_WORK, ORDER_ROOM = 1 / 8, 0.95
# Shares of the work of a frontier: LOWEST_PEAK_SHARE for the lowest peak and again for minimum compute at it,
# BENDS_WORK for limits at bends. Higher: less work for the other limits.
LOWEST_PEAK_SHARE, BENDS_WORK = 0.15, 0.06
# Evenly spaced limits per limit at a bend. Higher: fewer limits at bends, more work for each.
LIMITS_PER_BEND = 2

# ---- twremat, pathremat
# MAX_ORDERS: maximum elimination orders. MAX_TREE_NODES: maximum nodes of all decompositions, which leaves fewer orders
# to large graphs. Higher: better trees, more time.
MAX_ORDERS, MAX_TREE_NODES = 16, 40_000
# Minimum bags of a component that is divided. More: other trade-offs, one schedule for each.
RECURSION_LIMITS = (1, 32, 128, 512)
# Sizes of batches, as shares of the largest node. More: other trade-offs, one schedule for each.
BATCH_SHARES = {"zero": 0, "eighth": 1 / 8, "half": 1 / 2, "largest": 1}
# VARIED_TREES trees get schedules with all recursion limits; all others get FIRST_SCHEDULES schedules before trees are
# compared. Higher: a better choice, more time.
VARIED_TREES, FIRST_SCHEDULES = 2, 2
# Under a limit, the BEST_TREES best trees get all of their schedules, or every tree if schedules have fewer than
# ALL_TREES_STEPS steps in total. Higher: fewer plans are missed, more time.
BEST_TREES, ALL_TREES_STEPS = 24, 400_000
# Default maximum of the steps of a schedule per needed node. Higher: lower peaks at more compute, more time.
LENGTH_LIMIT = 30.0
# Maximum width of a decomposition. Higher: trees of dense graphs, slow to compute and with large peaks.
MAX_WIDTH = 400
