"""Tuning constants of allocators. The comment at each one describes its trade-off."""

# Maximum number of schedules per search to which an allocator is applied. Higher: less reserved memory, more time.
MAX_RESERVED = 24
# PACKING_SECONDS: maximum time of one packing. LAST_SECOND: minimum time of one packing, even after the deadline.
# Higher: smaller arenas, slower to stop.
PACKING_SECONDS, LAST_SECOND = 5.0, 1.0
# Share of the remaining progress that one packing covers. Higher: the reported progress rises faster at first.
PACKING_PROGRESS = 0.3
# Pairs of blocks that colouring is assumed to compare per second. Higher: more sharing, but time limits are exceeded.
PAIRS_A_SECOND = 1_000_000_000
# RANDOM_RUNS: minimum and maximum number of runs with random tie-breaking. TRIED_EVENTS: maximum total number of events
# in these runs; the minimum number of runs takes precedence. Higher: more reliable intervals, more time.
RANDOM_RUNS, TRIED_EVENTS = (4, 200), 500_000

# Maximum number of blocks for which first fit and best fit try all orders. Higher: smaller arenas, more time.
MAX_BY_GAPS = 5_000
# The exact search is skipped if blocks have more overlaps than this number times the remaining seconds, since it could
# hardly place all blocks once. Higher: smaller arenas for many blocks, or wasted time.
OVERLAPS_A_SECOND = 100_000_000
# Amount of work between two checks of the deadline; it takes a few milliseconds. BLOCKS_PER_CALL: blocks that a greedy
# rule places. WORK_PER_CALL: work of the exact search. Higher: less overhead, slower to stop.
BLOCKS_PER_CALL, WORK_PER_CALL = 2_000, 2_000_000
# Work of the shortest dives of the search; a dive is one attempt with limited work. `luby` gives the work of the other
# dives as multiples. Higher: fewer, longer dives.
FIRST_DIVE = 1_000_000
# Work in the first round for each target size; the work doubles each round. Higher: deeper searches of fewer targets.
PACKING_PATIENCE = 150_000_000
# Factors on PACKING_PATIENCE if a capacity is specified. ON_CAPACITY: factor for the capacity as target.
# ABOVE_CAPACITY: factor for larger targets. Higher: more capacities are reached, more time.
ON_CAPACITY, ABOVE_CAPACITY = 16, 0.25
# Bisection ends at an interval of 1 / COARSE of the arena in the first round. The denominator doubles each round, up to
# FINENESS. Higher: smaller arenas, more targets.
COARSE, FINENESS = 100, 2_000
# log2 of the number of 16-byte entries in the table of failed states. Higher: fewer repeated states, more memory.
TABLE_BITS = 18
# Maximum number of 8-byte entries in the table of sections by block. Higher: larger problems, more memory.
MAX_MEMORY = 50_000_000
# Number of random block orders that are tried if the exact search is skipped. Higher: smaller arenas, more time.
PACKING_ROUNDS = 200

# Number of rounds of the search over addresses before the search over assignments to arenas. Higher: easy cases end
# sooner, hard ones later.
FIRST_ROUNDS = 2
# Limits of the search over assignments to arenas. MAX_ASSIGNED: number of blocks. MAX_PACKED: number of packings of a
# single arena. Higher: more cases are decided, more time.
MAX_ASSIGNED, MAX_PACKED = 40, 20_000
# SEARCH_TIME: share of the time limit for the search. STEPS_TIME: share of the remaining time for checking whether the
# buffers of single steps fit. Higher: less time to explain failures.
SEARCH_TIME, STEPS_TIME = 0.85, 0.1
# Limits on the explanation of a failure. MAX_SHIFTS: number of fullest steps that are checked alone. MAX_LEFT_OUT:
# number of large buffers that are left out in turn. DIAGNOSIS_SECONDS: seconds for each of these two. Higher: more
# precise explanations, more time.
MAX_SHIFTS, MAX_LEFT_OUT, DIAGNOSIS_SECONDS = 50, 8, 1.0
