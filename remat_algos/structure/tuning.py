"""Numbers of decompositions and families that change results or times, each with what it trades."""

# Vertices of exact treewidth and pathwidth, by a program of 2^n states. Higher: more optima, time and memory doubled.
MAX_EXACT = 16
# Vertices up to which path decompositions try elimination; above, if a boundary has at most one in so many of them.
# Higher: narrower decompositions, more time.
SMALL_GRAPH, NARROW = 1_000, 16
# Rounds without a gain before a layout counts as final. Higher: narrower decompositions, more time.
IDLE_ROUNDS = 2
# Entries of an elimination between two checks of the deadline, some hundredths of a second. Higher: later ends.
FILL_WORK = 4_000_000
# Vertices and edges that a contraction, which cannot be interrupted, takes in a second. Higher: better lower bounds,
# later ends.
CONTRACTED_A_SECOND = 300_000
# Lower sets of the exact family by default. Higher: larger graphs are solved exactly, more memory.
CAP = 1_000_000
# Bit words: families built whole and then thinned, 32 MiB, and any family, 1 GiB. Higher: finer families, more memory.
WHOLE_WORDS, MAX_WORDS = 2**22, 2**27
