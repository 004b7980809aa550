"""Tuning constants of decompositions and lower-set families. The comment at each one describes its trade-off."""

# Maximum number of vertices for which the treewidth is computed exactly, in O(2^n) time. Higher: more
# optima; each vertex doubles time and memory.
MAX_EXACT = 16
# Path decompositions of graphs with at most SMALL_GRAPH vertices also try elimination orders. Larger graphs try them
# only if some order has a boundary of at most 1 / NARROW of the vertices. Higher SMALL_GRAPH: narrower decompositions,
# more time.
SMALL_GRAPH, NARROW = 1_000, 16
# Number of breadth-first orders that a path decomposition tries. Higher: narrower decompositions, more time.
STARTS = 16
# Number of rounds without improvement after which a layout is final. Higher: narrower decompositions, more time.
IDLE_ROUNDS = 2
# Number of bag entries that an elimination computes between two checks of the deadline, in a few hundredths of a
# second. Higher: less overhead, later stops.
FILL_WORK = 4_000_000
# Assumed number of vertices and edges that are contracted per second; a contraction cannot be interrupted. Higher:
# better lower bounds, but deadlines are exceeded by more.
CONTRACTED_A_SECOND = 300_000
# Default maximum number of lower sets in the exact family. Higher: larger graphs are solved exactly, more memory.
CAP = 1_000_000
# WHOLE_WORDS: maximum number of 64-bit words in a family that is built completely before it is thinned (32 MiB).
# MAX_WORDS: maximum number of words in any family (1 GiB). Higher: finer families, more memory.
WHOLE_WORDS, MAX_WORDS = 2**22, 2**27
