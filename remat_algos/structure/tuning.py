"""Tuning constants of decompositions and families of lower sets, with the trade-off of each."""

# Maximum vertices for exact treewidth and pathwidth, O(2^n). Higher: more optima, doubling time and memory.
MAX_EXACT = 16
# Vertices up to which path decompositions try elimination; above, only if some boundary has at most this share (1 / 16)
# of the vertices. Higher: narrower decompositions, more time.
SMALL_GRAPH, NARROW = 1_000, 16
# Rounds without improvement before a layout is final. Higher: narrower decompositions, more time.
IDLE_ROUNDS = 2
# Entries of an elimination between deadline checks, some hundredths of a second. Higher: less overhead, slower to stop.
FILL_WORK = 4_000_000
# Vertices and edges contracted per second; a contraction cannot be interrupted. Higher: better lower bounds, overshoots
# deadlines.
CONTRACTED_A_SECOND = 300_000
# Default maximum size of the exact family. Higher: larger graphs are solved exactly, more memory.
CAP = 1_000_000
# Maximum words of bits: families built whole and then thinned (32 MiB), and any family (1 GiB). Higher: finer families,
# more memory.
WHOLE_WORDS, MAX_WORDS = 2**22, 2**27
