"""Tuning constants of bounds. The comment at each one describes its trade-off. Limits of `effort` are in effort.py."""

# ---- closures and paths
# The closure search stops after this much work without a better bound. Higher: tighter bounds, more time.
CLOSURE_PATIENCE = 250_000_000
# PATHS_WORK: maximum work of the two-path search, half a second. PAIR_WORK: maximum work for one pair of nodes, a tenth
# of a second. Higher: tighter bounds on the peak, more time.
PATHS_WORK, PAIR_WORK = 200_000_000, 40_000_000
# Assumed reads per second of a busy core, which convert a time limit to work. Higher: more bounds, but deadlines are
# exceeded by more.
READS_A_SECOND = 200_000_000
# Between two checks of the deadline, PATHS_PORTION is the work on cuts (a few milliseconds), and STATES_PER_CHECK is
# the number of sets searched. Higher: less overhead, later stops.
PATHS_PORTION, STATES_PER_CHECK = 10_000_000, 20_000
# Maximum work on cuts for the one-pass bound, a few tenths of a second. Higher: tighter bounds, more time.
ONE_PASS_WORK = 600_000_000
# PROVEN_NODES: largest number of needed nodes for which the search over executed sets usually finishes. MAX_STATES:
# maximum number of sets on such graphs. MAX_STATES_OF_MORE: maximum number of sets on larger graphs. Higher: more
# one-pass optima, more memory and time.
PROVEN_NODES, MAX_STATES, MAX_STATES_OF_MORE = 30, 4_000_000, 200_000

# ---- minimum cuts with a link
# MAX_LINK_CUTS: maximum number of cuts for one moment; 10 to 40 usually suffice. ROUNDS_WITHOUT_GAIN: the search stops
# after this many cuts without a better bound. Higher: tighter bounds, more time.
MAX_LINK_CUTS, ROUNDS_WITHOUT_GAIN = 60, 60
# Gap between the bound and the LP optimum at which a moment is finished, as a share of one pass. Higher: fewer cuts,
# weaker bounds.
NEAR_TIME = 2e-5
# A moment is skipped if its first cut is below the best bound by more than this share of the overhead. Higher: fewer
# moments are skipped.
LOW_CUT = 0.05
# A start time for stores is added to the program if a store ends after the moment by at least this share of one pass.
# Higher: fewer start times, weaker bounds.
LATE = 1e-4
# Maximum total price of all bytes of the graph, as a multiple of the compute of one pass. Higher: tighter bounds at low
# limits, less precise bounds elsewhere.
MAX_LINK_PRICE = 1e6
# Maximum number of arcs in the networks of these cuts. Higher: larger graphs, more memory.
MAX_ARCS = 3_000_000
# Maximum number of nodes for which ancestors are computed: MANY_NODES if they are computed for all nodes of a graph,
# TOO_MANY for a subset of the nodes. The time is quadratic. Higher: tighter bounds, more time.
MANY_NODES, TOO_MANY = 6_000, 16_000

# ---- integer programs of moments
# Maximum number of moments in a program. Higher: tighter bounds, much more time.
MAX_MOMENTS = 4
# Candidates for the next moment: FORCING nodes with the most forced bytes, and SPREAD evenly spread nodes. Higher:
# tighter bounds, more time.
FORCING, SPREAD = 20, 8
# Number of candidates whose integer program is solved: BY_RELAXATION with the highest relaxation, BY_BYTES others with
# the most forced bytes. Higher: tighter bounds, more time.
BY_RELAXATION, BY_BYTES = 5, 3
# Time limits in seconds: for the program with one moment, and for the first and the second try of a program with more
# moments. Higher: fewer unsolved programs, more time.
FIRST_PROGRAM_SECONDS, SHORT_SECONDS, LONG_SECONDS = 2.0, 1.0, 4.0
# Number of unsolved programs that get a second try. Higher: fewer unsolved programs, more time.
RETRIED = 1
# WORTH: minimum gain of a candidate in the relaxation, as a share of the highest gain. MIN_GAIN: minimum gain of a new
# moment, as a share of the overhead. Higher: fewer programs, weaker bounds.
WORTH, MIN_GAIN = 0.25, 1e-3
# MIN_SHARE: the thread is assumed to get at least this share of a core. FEW_SECONDS: the share is not measured over a
# shorter time than this. Higher: less time on a busy machine.
MIN_SHARE, FEW_SECONDS = 0.1, 0.02
# ROUNDED_SIZES: number of the largest sizes that serve as units of rounded rows of bytes. FINEST: a common divisor of
# the sizes is also a unit if the limit is below FINEST times it. Higher: tighter bounds, larger programs.
ROUNDED_SIZES, FINEST = 12, 200
# Maximum number of relaxations solved to find the start times of late stores. Higher: tighter bounds, more time.
LATE_STARTS = 8
# Rows of bytes are relaxed by this share. HiGHS treats numbers that differ by 1e-6 as equal, even in rows that it
# derives. Without this share, it once cut off a schedule that needed exactly the limit. Higher: safer bounds, weaker
# bounds.
MARGIN = 1e-5
# Minimum time limit of a program in seconds; HiGHS reads 0 as no limit. Higher: later stops.
SHORTEST_PROGRAM = 1e-3
# The objective is integral, in units of the common divisor of the costs, if one pass costs at most SMALL_PROGRAM units.
# Otherwise, one pass costs UNITS_OF_PASS units. Higher: more exact bounds, worse conditioning.
SMALL_PROGRAM, UNITS_OF_PASS = 10**5, 10_000.0
# Margin of a bound for float errors: TOLERANCE is a share of one pass. If the objective is integral, WHOLE_TOLERANCE, a
# share of the common divisor, is added. Higher: safer bounds, fewer proven optima.
TOLERANCE, WHOLE_TOLERANCE = 1e-6, 1e-3
