"""Numbers of solvers that change plans or times, each with what it trades. Those of `effort` are in effort.py."""

# Price (seconds for 1,000 nodes) up to which a solver still runs after the deadline. Higher: more plans, later ends.
CHEAP = 0.1
# Price of a solver that states none. Higher: it runs later, and not for effort "fast".
UNKNOWN_PRICE = 1.0
# Steps of one schedule of `revolve` and `chain_dp`. Higher: lower peaks of long chains, more memory and time.
MAX_SCHEDULE_STEPS = 2_000_000
# Work between two checks of the deadline: at most a tenth of a second. Higher: less overhead, later ends.
SETS_PER_CHECK, PAIRS_PER_CHECK, VISITS_PER_CHECK = 100_000, 10_000, 5_000_000
STATES_PER_CHECK, ENTRIES_PER_CHECK, WORK_PER_CHECK = 20_000, 40_000_000, 2_000_000

# ---- rows of candidates
# Maximum candidates of a row, and maximum steps of all of them, which shortens rows on large graphs. Higher: finer
# sweeps, more time.
LONGEST_ROW, MAX_ROW_STEPS = 2_000, 5_000_000
# Candidates up to which a row is simulated as a whole, by count or by steps; longer rows are searched near the limit.
# Higher: fewer plans are missed, more time.
MIN_SIMULATED, MAX_SIMULATED_STEPS = 96, 60_000
# Evenly spaced places at which that search starts, and number of best places around which it continues. Higher: fewer
# local minima are missed, but each is searched less closely.
FIRST_PLACES, BEST_PLACES = 24, 3

# ---- chains of lower sets
# Levels to which costs are rounded, and bytes of a table, which leave fewer levels to large families. Higher: smaller
# errors, more memory and time.
COST_LEVELS, TABLE_BYTES = 4_096, 2**30
# Steps between sets up to which their figures are stored; more are computed when read. Higher: faster, more memory.
MAX_STORED_STEPS = 2_000_000
# Units of cost that the first table reaches, and work of a table relative to the one before. Higher: fewer tables,
# more work beyond the optimum in the last.
FIRST_CAP, WORK_GROWTH = 16, 3.0
# Share of the remaining progress that each of an unknown number of tables reports. Higher: progress slows down more.
TABLE_PROGRESS = 0.1
# Parts into which the range of costs is divided; each pass of labels takes one. Higher: less memory, more passes.
LABEL_PARTS = 64
# Maximum lower sets of a family that is solved for many budgets. Higher: finer chains, time quadratic in it.
MAX_SETS = 600
# Pairs of sets up to which all Pareto points are tried, with and without a limit: half a second. Higher: nothing is
# missed on larger graphs, more time.
FEW_PAIRS, MAX_PAIRS = 4_000, 50_000
# Budgets tried under a limit: spread first, then by bisection. Higher: closer to the limit, more chains.
BUDGETS_SPREAD, BISECTED = 5, 6
# Budgets tried without a limit above `MAX_PAIRS`: if steps are stored, and if not. Higher: a finer frontier, more time.
GRID_BUDGETS, SAMPLED_BUDGETS = 48, 16
# Chains of a frontier that are simulated, and steps of their schedules. Higher: a finer frontier, more time.
MAX_SIMULATED_CHAINS, MAX_CHAIN_STEPS = 160, 400_000
# Budgets of memory-centric chains, as multiples of the minimum. More: other trade-offs to polish, more chains.
MEMORY_CENTRIC = (1.0, 1.1, 1.25, 1.5, 2.0)
# Sets and states of chains of `exhaustive_lower_sets`. Higher: larger graphs are served, exponential time.
MAX_EXHAUSTIVE_SETS, MAX_EXHAUSTIVE_STATES = 2_000, 500_000

# ---- liveness_dp
# Maximum sum of block sizes over all pairs of sets, if every block were the whole part; it limits the number of sets.
# Higher: finer chains, more time.
MAX_VISITS = 200_000_000
# Sets of a first search, which bounds the search over all sets, if these are many or few. Higher: tighter bounds, more
# time for them.
COARSE_SETS, SOME_SETS = 128, 48
# Sets up to which many chains are tried, for both values of `lazy`. Higher: better plans of mid-sized graphs, slower.
FEW_SETS = 316
# Sets up to which all Pareto points are tried under a limit; chains tried otherwise. Higher: fewer plans are missed,
# more simulations.
TINY_FAMILY, PROMISES = 60, 16
# Range of these promises, as multiples of the limit, or of the lowest promise if that is above the limit. Wider: fewer
# plans are missed far from the limit, more near it.
PROMISES_AROUND, PROMISES_ABOVE = (0.7, 1.1), (1.0, 1.5)
# Ratio of each promise to the one before while simulations fit; blocks are simulated up to WIDER_PROMISE times the
# highest promise. Higher: fewer chains and passes; some chains in between are missed, and passes are slower.
PROMISE_GROWTH, WIDER_PROMISE = 1.1, 1.5

# ---- chains of stages
# Minimum number of stages of a chain, and of steps of a recurrence. Higher: more graphs are refused, or planned as
# networks.
MIN_STAGES, MIN_STEPS = 3, 8
# Maximum values that pass from one stage to the next: the recurrence BDF6, of the highest stable order, reads six.
# Higher: wider recurrences, more states.
MAX_STATE = 6
# Minimum ratio of steps of a recurrence to stages at which one value passes. Higher: fewer graphs are recurrences,
# which take longer to plan.
MORE_STAGES = 10
# Forward nodes per step of a recurrence; a larger step is a network. Higher: more graphs are recurrences.
MAX_STEP_NODES = 24
# Stages of a table by default. Higher: finer plans of long chains, time cubic in it.
MAX_STAGES = 240
# Slots of memory, by default and at most; table entries that may be read to use more slots than the default; bytes of
# the table. Higher: less rounding, more time and memory.
MIN_SLOTS, MAX_SLOTS, CHAIN_WORK, MAX_TABLE = 500, 4_000, 1_200_000_000, 2**31
# Pareto points up to which all are tried under a limit; otherwise, points tried on each side of it. Higher: fewer plans
# are missed, more simulations.
FEW_POINTS, POINTS_AROUND = 96, 12
# Highest peak in the table for a limit, as a multiple of it. Higher: more promises above the limit, coarser slots.
WIDER_TABLE = 1.15
# Steps of the schedules of a whole frontier. Higher: a finer frontier of long chains, more time.
MAX_FRONTIER_STEPS = 20_000_000
# Checkpoint counts of `revolve` without a limit; smaller counts tried under one. Higher: fewer plans are missed, more
# time.
MAX_COUNTS, NEIGHBOURS = 128, 2

# ---- chen_greedy, two_cuts
# Cuts listed by an exact sweep, which takes about a second. Higher: all segmentations of larger graphs, more time.
MAX_CUTS = 1_000_000
# Maximum thresholds of compute per byte, and minimum budgets for each. Higher: better kept nodes and cuts, more time.
MAX_COSTS, FEWEST_BUDGETS = 16, 16
# Share of time and progress for the segmentations. Higher: more of them, fewer simulated in time.
WALK_SHARE = 0.3
# Limits of a whole frontier of `two_cuts`. Higher: a finer frontier, more time.
CURVE_LIMITS = 8
# Prices of a byte just below and above the right one differ from it by one part in this number. Higher: smaller steps,
# and cuts that are the same.
NEARLY_EQUAL = 1_024

# ---- greedy_remat
# Sizes of blocks, in the order in which they are tried. More: better plans, one more walk for each.
BLOCK_SIZES = (64, 1, 8, 2, 16, 4, 32)
# Limits per start, on large and on small graphs. Higher: a finer frontier, more walks.
MIN_LIMITS, MAX_LIMITS = 8, 32
# A descent ends after this many limits without a lower peak; bisections after it. Higher: lower peaks, more walks.
MAX_FAILED, BISECTIONS = 2, 6
# Maximum runs per node of a walk. Higher: lower limits are met, by longer schedules.
MAX_WALK_RUNS = 8
# Work of the search for blocks: relative to that for single runs, and its minimum. Higher: better blocks, more time.
BLOCK_WORK, MIN_BLOCK_WORK = 2, 500_000
# Work of all walks from one start, about 2 s. Higher: lower peaks of large graphs, more time.
MAX_WALK_WORK = 200_000_000
# Nodes up to which walks begin from other orders too. Higher: better plans of larger graphs, many more walks.
MAX_NODES_RESTARTED = 100
# Such restarts: turns, lowest schedules per turn, sizes of blocks for each. Higher: lower peaks, more time.
TURNS, STARTS_PER_TURN, START_BLOCKS = 3, 8, 5
# Pairs of nodes that a walk covers in a second; a walk cannot be interrupted. Higher: more walks begin, later ends.
SCANNED_A_SECOND = 500_000_000

# ---- live_set_search, milp
# Divisors of `Effort.live_sets`: for searches of the lowest peak; for graphs of more than USUAL_VALUES values, where
# proofs are unlikely. Higher: less time and memory, fewer proofs.
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
# Gap that counts as solved. Higher: earlier ends, weaker proofs.
EXACT_SHARE = 1e-9
# Share of the peak of one pass by which a solution of HiGHS may exceed a limit. Higher: a retry leaves more of the
# limit unused.
PROGRAM_SLACK = 2e-6

# ---- search: the factors are on the work within one limit
# Candidates of other solvers to start from. Higher: more variety, less work for each.
N_SEEDS = 4
# Runs per node, unless a seed has more. Higher: lower peaks of deep graphs, more memory.
MAX_RUNS = 30
# Limits of the next searches as shares of the lowest peak, each repeated while the peak falls, and the maximum number
# of these searches. Closer to 1: smaller steps, which succeed more often.
LOWER_SHARES, MAX_LOWER = (0.9, 0.97), 3
# Work for the lowest peak; shares of the first searches, and of each later round. Higher: lower peaks, more time.
LOWEST_WORK, FIRST_LOWEST, NEXT_LOWEST = 1.8, 1 / 3, 2 / 9
# Nodes up to which both runs for the lowest peak get all of that work, not half. Higher: lower peaks, more time.
ALONE_NODES = 100
# Work of the second search by effort "fast" if nothing fits, and its maximum. Higher: more limits are met, more time
# for limits that are infeasible.
UNMET_WORK, UNMET_MAX = 8, 20_000_000
# Later searches on graphs of up to `SMALL` nodes, work of each, and its maximum. Higher: more optima, more time.
MAX_AGAIN, AGAIN_WORK, AGAIN_MAX = 3, 8, 100_000_000
# Work of a core in a second; it shortens searches under a time limit. Higher: more work, later ends on slow machines.
WORK_A_SECOND = 25_000_000
# Limits of a frontier if only the overhead is limited. Higher: a finer frontier, less work for each.
FRONTIER_LIMITS = 12
# Work for an order without recomputation, searched only if the lower bound on its peak is below this share of the peak
# of the id order. Higher: more graphs need no recomputation, less work for those that do.
ORDER_WORK, ORDER_ROOM = 1 / 8, 0.95
# Shares of a frontier's work: for the lowest peak and its minimum compute, for limits at bends. Higher: less work for
# the other limits.
LOWEST_PEAK_SHARE, BENDS_WORK = 0.15, 0.06
# Evenly spaced limits per limit at a bend. Higher: fewer limits at bends, more work for each.
LIMITS_PER_BEND = 2

# ---- twremat, pathremat
# Orders of elimination, and nodes of all their decompositions of a large graph. Higher: better trees, more time.
MAX_ORDERS, MAX_TREE_NODES = 16, 40_000
# Minimum bags of a component that is divided. More: other trade-offs, one schedule for each.
RECURSION_LIMITS = (1, 32, 128, 512)
# Sizes of batches, as shares of the largest node. More: other trade-offs, one schedule for each.
BATCH_SHARES = {"zero": 0, "eighth": 1 / 8, "half": 1 / 2, "largest": 1}
# Number of trees that get schedules with all recursion limits, and of schedules of every other tree before trees are
# compared. Higher: a better choice, more time.
VARIED_TREES, FIRST_SCHEDULES = 2, 2
# Best trees that get all of their schedules under a limit, and steps up to which every tree does. Higher: fewer plans
# are missed, more time.
BEST_TREES, ALL_TREES_STEPS = 24, 400_000
# Default maximum of the steps of a schedule per needed node. Higher: lower peaks at more compute, more time.
LENGTH_LIMIT = 30.0
# Maximum width of a decomposition. Higher: trees of dense graphs, slow to compute and with large peaks.
MAX_WIDTH = 400
