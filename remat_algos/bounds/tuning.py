"""Numbers of lower bounds that change them or their times, with what they trade. Those of `effort` are in effort.py."""

# ---- closures and paths
# Work without a better moment before the search stops. Higher: higher bounds of large graphs, more time.
CLOSURE_PATIENCE = 250_000_000
# Reads of the search of two paths, half a second, and of a pair, a tenth. Higher: higher bounds on peaks, more time.
PATHS_WORK, PAIR_WORK = 200_000_000, 40_000_000
# Reads of a busy core in a second; a time limit shortens the search by it. Higher: more bounds, later ends.
READS_A_SECOND = 200_000_000
# Work on cuts between two checks of the deadline, some milliseconds, and sets. Higher: less overhead, later ends.
PATHS_PORTION, STATES_PER_CHECK = 10_000_000, 20_000
# Work on cuts for the bound of one pass, some tenths of a second. Higher: fewer useless searches for an order.
ONE_PASS_WORK = 600_000_000
# Sets of executed nodes with up to so many needed nodes, where the search usually ends, and with more. Higher: more
# optima of one pass, more memory and time.
PROVEN_NODES, MAX_STATES, MAX_STATES_OF_MORE = 30, 4_000_000, 200_000

# ---- minimum cuts with a link
# Cuts per moment, where 10 to 40 are usual, and cuts without a better bound. Higher: higher bounds, more time.
MAX_LINK_CUTS, ROUNDS_WITHOUT_GAIN = 60, 60
# Gap, as a share of one pass, at which a moment is done. Higher: fewer cuts, lower bounds.
NEAR_TIME = 2e-5
# Share of the overhead by which the first cut of a moment may be lower than the best. Higher: fewer are skipped.
LOW_CUT = 0.05
# Lateness of stores, as a share of one pass, that adds a start. Higher: fewer starts, lower bounds.
LATE = 1e-4
# Price of all bytes, in passes. Higher: higher bounds at low limits, less exact ones.
MAX_LINK_PRICE = 1e6
# Arcs in the networks of these cuts. Higher: larger graphs, more memory.
MAX_ARCS = 3_000_000
# Nodes whose ancestors are counted, at first and at most; time grows with their square. Higher: higher bounds.
MANY_NODES, TOO_MANY = 6_000, 16_000

# ---- integer programs of moments
# Moments of one program. Higher: higher bounds, much more time.
MAX_MOMENTS = 4
# Candidates for the next moment: nodes that force most bytes, and evenly spread ones. Higher: higher bounds, slower.
FORCING, SPREAD = 20, 8
# Candidates whose program is solved: by their relaxations, and by bytes. Higher: higher bounds, slower.
BY_RELAXATION, BY_BYTES = 5, 3
# Seconds of the program of one moment; with more moments, of the first and second try. Higher: fewer are unsolved.
FIRST_PROGRAM_SECONDS, SHORT_SECONDS, LONG_SECONDS = 2.0, 1.0, 4.0
# Unsolved programs that get a second try. Higher: fewer are unsolved, more time.
RETRIED = 1
# Gain of a candidate's relaxation as a share of the highest, and of a moment as a share of the overhead, at least.
# Higher: fewer programs, lower bounds.
WORTH, MIN_GAIN = 0.25, 1e-3
# Share of a core assumed at least, and seconds too short to measure it. Higher: less time on a busy machine.
MIN_SHARE, FEW_SECONDS = 0.1, 0.02
# Largest values of a moment with a rounded row of bytes each, and the limit in common divisors of sizes up to which
# they have one. Higher: tighter relaxations, larger programs.
ROUNDED_SIZES, FINEST = 12, 200
# Relaxations solved to find the rows of the link for stores that begin late. Higher: higher bounds, slower.
LATE_STARTS = 8
# Share of the bytes of a row by which it is relaxed: HiGHS takes numbers that differ by 1e-6 as equal, even in rows
# that it derives, and cut off a schedule of exactly the limit on a network of 52 nodes. Higher: safer, lower bounds.
MARGIN = 1e-5
# Seconds of a program; HiGHS takes 0 for no limit. Higher: later ends.
SHORTEST_PROGRAM = 1e-3
# Common divisors in one pass up to which costs are whole numbers; otherwise, units of the objective in one pass.
# Higher: exact bounds of more graphs, worse conditioned programs.
SMALL_PROGRAM, UNITS_OF_PASS = 10**5, 10_000.0
# Error that is allowed for floating point in a bound: a share of one pass; with whole costs also a share of their
# common divisor. Higher:
# surely correct bounds, fewer proven optima.
TOLERANCE, WHOLE_TOLERANCE = 1e-6, 1e-3
