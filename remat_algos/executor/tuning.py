"""Tuning constants of runs. The comment at each one describes its trade-off."""

# Maximum share of the free memory that a run may need. Higher: larger runs, which may fail and disturb other processes.
MAX_SHARE = 0.9
# Seconds for packing copies into host memory if a quick packing does not fit. Higher: more plans run, but start later.
HOST_PACKING = 2.0
# GPU clock ticks (about 0.1 ms) for which a GPU is kept busy during kernel launches. Higher: no gaps, longer runs.
BUSY_TICKS = 200_000
# Words per NumPy operation. Higher: fewer calls, but blocks exceed the cache.
BLOCK_WORDS = 2**16
# MAX_POINTERS: maximum number of inputs that are passed as kernel arguments instead of in a table. TABLE_SLOTS:
# checksums per block of GPU memory. Higher: fewer copies of tables, more memory.
MAX_POINTERS, TABLE_SLOTS = 8, 2**16
# Sizes at which operators are timed, in words; one exceeds all caches. Higher: more reliable rates, more time.
TIMED_WORDS = {"numpy": (2**10, 2**17, 2**20), "cupy": (2**10, 2**25, 2**26)}
# Timed sizes are reduced until this many arrays fit in free memory. Higher: smaller sizes and less reliable rates.
TIMED_ROOM = 32
# Number of timed runs after an untimed one. Higher: more reliable rates, more time.
TIMED_RUNS = 5
