"""Tuning constants of allocators, with the trade-off of each."""

# Schedules per search that an allocator is applied to. Higher: less reserved memory, more time.
MAX_RESERVED = 24
# Seconds for one packing, and for one after the deadline. Higher: smaller arenas, slower to stop.
PACKING_SECONDS, LAST_SECOND = 5.0, 1.0
# Share of the remaining progress that one packing reports. Higher: the first packings seem to do more of the work.
PACKING_PROGRESS = 0.3
# Pairs of blocks that colouring compares per second; it cannot be interrupted. Higher: more sharing, overshoots limits.
PAIRS_A_SECOND = 1_000_000_000
# Minimum and maximum number of random tie-breaking runs, and total events. Higher: more reliable intervals, more time.
RANDOM_RUNS, TRIED_EVENTS = (4, 200), 500_000

# ---- one arena
# Maximum blocks for orders other than by begin, which take quadratic time. Higher: smaller arenas, more time.
MAX_BY_GAPS = 5_000
# Overlaps per second of the time limit above which the search could hardly place all blocks once. Higher: smaller
# arenas for many blocks, or wasted time.
OVERLAPS_A_SECOND = 100_000_000
# Blocks per call of a greedy rule, and work per call of the search, between deadline checks, some milliseconds. Higher:
# less overhead, slower to stop.
BLOCKS_PER_CALL, WORK_PER_CALL = 2_000, 2_000_000
# Work before the search restarts with another order; some dives are longer (`luby`). Higher: fewer, longer dives.
FIRST_DIVE = 1_000_000
# Work on the bound and on each target above it in the first round, doubled each round. Higher: deeper, fewer targets.
PACKING_PATIENCE = 150_000_000
# Multiples of that work for a requested capacity and for targets above it. Higher: more capacities reached, more time.
ON_CAPACITY, ABOVE_CAPACITY = 16, 0.25
# Unproven targets are bisected down to this fraction of the arena: at first, doubled each round, and at last. Higher:
# smaller arenas, more targets.
COARSE, FINENESS = 100, 2_000
# log2 of the entries, of 16 bytes each, in the table of failed states. Higher: fewer repeated states, more memory.
TABLE_BITS = 18
# Maximum entries, of 8 bytes each, in the table of sections by block. Higher: larger problems, more memory.
MAX_MEMORY = 50_000_000
# Number of shuffles if the search is not applicable. Higher: smaller arenas, more time.
PACKING_ROUNDS = 200

# ---- several arenas
# Rounds of the search over addresses before the search over arenas. Higher: easy cases end sooner, hard ones later.
FIRST_ROUNDS = 2
# Maximum blocks, and packings of single arenas, in the search over arenas. Higher: more cases decided, more time.
MAX_ASSIGNED, MAX_PACKED = 40, 20_000
# Shares of the time limit for the search and for the buffers of single steps. Higher: less time to explain failures.
SEARCH_TIME, STEPS_TIME = 0.85, 0.1
# To explain a failure: fullest steps checked alone, large buffers left out in turn, and seconds for each. Higher: more
# precise explanations, more time.
MAX_SHIFTS, MAX_LEFT_OUT, DIAGNOSIS_SECONDS = 50, 8, 1.0
