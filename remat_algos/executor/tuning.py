"""Numbers of runs that change measurements or times, each with what it trades."""

# Share of the free memory that a run may need. Higher: larger runs, which may fail halfway and bring others down.
MAX_SHARE = 0.9
# Seconds to pack copies into the bytes of the host, after a quick try. Higher: more plans run, later starts.
HOST_PACKING = 2.0
# Ticks, about 0.1 ms, for which a GPU is kept busy while Python launches kernels. Higher: no gaps, longer runs.
BUSY_TICKS = 200_000
# Words per NumPy operation. Higher: fewer calls, but they leave the cache.
BLOCK_WORDS = 2**16
# Inputs passed as kernel arguments, others in a table; checksums in a block of GPU memory. Higher: fewer copies of
# tables, more memory.
MAX_POINTERS, TABLE_SLOTS = 8, 2**16
# Timed sizes in words: small ones, and one that no cache holds. Higher: surer rates, more time.
TIMED_WORDS = {"numpy": (2**10, 2**17, 2**20), "cupy": (2**10, 2**25, 2**26)}
# A size is timed only if this many arrays of it fit into free memory. Higher: smaller sizes, whose rates are less sure.
TIMED_ROOM = 32
# Timed runs after an untimed one. Higher: surer rates, more time.
TIMED_RUNS = 5
