"""Tuning constants of runs, with the trade-off of each."""

# Maximum share of the free memory that a run may need. Higher: larger runs, which may fail and disturb other processes.
MAX_SHARE = 0.9
# Seconds to pack copies into host memory, after a quick try. Higher: more plans can run, later starts.
HOST_PACKING = 2.0
# GPU clock ticks, about 0.1 ms, that a GPU is kept busy while kernels are launched. Higher: no gaps, longer runs.
BUSY_TICKS = 200_000
# Words per NumPy operation. Higher: fewer calls, but blocks exceed the cache.
BLOCK_WORDS = 2**16
# Maximum inputs passed as kernel arguments instead of a table; checksums per block of GPU memory. Higher: fewer copies
# of tables, more memory.
MAX_POINTERS, TABLE_SLOTS = 8, 2**16
# Timed sizes in words: small ones, and one that exceeds all caches. Higher: more reliable rates, more time.
TIMED_WORDS = {"numpy": (2**10, 2**17, 2**20), "cupy": (2**10, 2**25, 2**26)}
# A size is timed only if this many arrays of it fit in free memory. Higher: smaller sizes, with less reliable rates.
TIMED_ROOM = 32
# Timed runs after an untimed one. Higher: more reliable rates, more time.
TIMED_RUNS = 5
