"""Tuning constants of lower bounds, with the trade-off of each. Limits of `effort` are in effort.py."""

# ---- closures and paths
# Work without a better moment before the search stops. Higher: tighter bounds on large graphs, more time.
CLOSURE_PATIENCE = 250_000_000
# Work of the two-path search, half a second, and of one pair, a tenth. Higher: tighter bounds on peaks, more time.
PATHS_WORK, PAIR_WORK = 200_000_000, 40_000_000
# Assumed reads per second of a busy core, which turn a time limit into work. Higher: more bounds, overshoots deadlines.
READS_A_SECOND = 200_000_000
# Work on cuts (milliseconds), and sets, between two checks of the deadline. Higher: less overhead, slower to stop.
PATHS_PORTION, STATES_PER_CHECK = 10_000_000, 20_000
# Work on cuts for the one-pass bound, some tenths of a second. Higher: fewer futile searches for an order, more time.
ONE_PASS_WORK = 600_000_000
# Needed nodes up to which the search over executed sets usually finishes; its maximum sets for such graphs, and for
# larger ones. Higher: more optima of one pass, more memory and time.
PROVEN_NODES, MAX_STATES, MAX_STATES_OF_MORE = 30, 4_000_000, 200_000

# ---- minimum cuts with a link
# Cuts per moment, usually 10 to 40, and cuts without a better bound before it stops. Higher: tighter bounds, more time.
MAX_LINK_CUTS, ROUNDS_WITHOUT_GAIN = 60, 60
# Optimality gap, as a share of one pass, at which a moment is done. Higher: fewer cuts, weaker bounds.
NEAR_TIME = 2e-5
# Skip a moment if its first cut is below the best bound by more than this share of the overhead. Higher: fewer skipped.
LOW_CUT = 0.05
# Lateness of stores, as a share of one pass, that adds a start to the program. Higher: fewer starts, weaker bounds.
LATE = 1e-4
# Maximum price of all bytes together, in passes. Higher: tighter bounds at low limits, less precise ones elsewhere.
MAX_LINK_PRICE = 1e6
# Maximum arcs in the networks of these cuts. Higher: larger graphs, more memory.
MAX_ARCS = 3_000_000
# Nodes up to which ancestors are counted for every node, and for a subset of them; time is quadratic. Higher: tighter
# bounds, more time.
MANY_NODES, TOO_MANY = 6_000, 16_000

# ---- integer programs of moments
# Moments per program. Higher: tighter bounds, much more time.
MAX_MOMENTS = 4
# Candidates for the next moment: nodes with the most forced bytes, and evenly spread ones. Higher: tighter bounds,
# more time.
FORCING, SPREAD = 20, 8
# Candidates whose integer program is solved: by relaxation, and by bytes. Higher: tighter bounds, more time.
BY_RELAXATION, BY_BYTES = 5, 3
# Seconds for the program of one moment, and for the first and second try with more moments. Higher: fewer unsolved
# programs, more time.
FIRST_PROGRAM_SECONDS, SHORT_SECONDS, LONG_SECONDS = 2.0, 1.0, 4.0
# Unsolved programs that get a second try. Higher: fewer unsolved programs, more time.
RETRIED = 1
# Minimum gain of a candidate's relaxation, as a share of the highest gain, and of a moment, as a share of the overhead.
# Higher: fewer programs, weaker bounds.
WORTH, MIN_GAIN = 0.25, 1e-3
# Minimum share of a core assumed, and time too short to measure it, in seconds. Higher: less time on a busy machine.
MIN_SHARE, FEW_SECONDS = 0.1, 0.02
# Largest sizes that get a rounded row of bytes each, and the limit in common divisors up to which divisors get one.
# Higher: tighter relaxations, larger programs.
ROUNDED_SIZES, FINEST = 12, 200
# Relaxations solved to find the link rows for late stores. Higher: tighter bounds, more time.
LATE_STARTS = 8
# Relative relaxation of the rows of bytes. HiGHS treats numbers that differ by 1e-6 as equal, even in rows it derives,
# and cut off a schedule of exactly the limit on a network of 52 nodes. Higher: safer bounds, weaker ones.
MARGIN = 1e-5
# Minimum seconds of a program; HiGHS reads 0 as no limit. Higher: slower to stop.
SHORTEST_PROGRAM = 1e-3
# Largest one-pass cost, in common divisors, with an integral objective; above it, units of the objective in one pass.
# Higher: exact bounds on more graphs, worse conditioned programs.
SMALL_PROGRAM, UNITS_OF_PASS = 10**5, 10_000.0
# Floating-point margin of a bound, as a share of one pass; with integral costs also a share of their common divisor.
# Higher: safer bounds, fewer proven optima.
TOLERANCE, WHOLE_TOLERANCE = 1e-6, 1e-3
