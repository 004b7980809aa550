"""Numbers of allocators that change addresses or times, each with what it trades."""

# Schedules per search for which an allocator runs. Higher: less reserved memory, more time.
MAX_RESERVED = 24
# Seconds of one packing, and after the deadline. Higher: smaller arenas, later ends.
PACKING_SECONDS, LAST_SECOND = 5.0, 1.0
# Share of the remaining progress for one packing. Higher: the first seem to do more.
PACKING_PROGRESS = 0.3
# Pairs of blocks that colouring, which cannot be interrupted, compares in a second. Higher: more is shared, later ends.
PAIRS_A_SECOND = 1_000_000_000
# Random ways to break ties, at least and at most, and events of all. Higher: surer intervals, more time.
RANDOM_RUNS, TRIED_EVENTS = (4, 200), 500_000

# ---- one arena
# Blocks for orders other than by begin, which take quadratic time. Higher: smaller arenas, more time.
MAX_BY_GAPS = 5_000
# Overlaps a second of the time limit, above which a search would hardly place all blocks once. Higher: smaller arenas
# of many blocks, or time lost.
OVERLAPS_A_SECOND = 100_000_000
# Blocks of one call of a greedy rule, and work of one of the search, between checks of the deadline: milliseconds.
# Higher: less overhead, later ends.
BLOCKS_PER_CALL, WORK_PER_CALL = 2_000, 2_000_000
# Work after which the search restarts with another order; some dives are longer, see `luby`. Higher: fewer restarts.
FIRST_DIVE = 1_000_000
# Work on the bound, and on each target above it, in the first round; doubled in each. Higher: surer, fewer targets.
PACKING_PATIENCE = 150_000_000
# Factors of that work on a requested capacity, and on each target above it. Higher: more capacities are met, later.
ON_CAPACITY, ABOVE_CAPACITY = 16, 0.25
# Without a proof, targets closer than one of so many parts of the arena count as equal: at first, doubled in each
# round, and at last. Higher: smaller arenas, more targets.
COARSE, FINENESS = 100, 2_000
# Bits of the places of failed states, 16 bytes each. Higher: fewer states are visited twice, more memory.
TABLE_BITS = 18
# Entries, 8 bytes each, of the table of the sections of all blocks. Higher: more blocks are searched, more memory.
MAX_MEMORY = 50_000_000
# Shuffles where the search is too large. Higher: smaller arenas, more time.
PACKING_ROUNDS = 200

# ---- several arenas
# Rounds of the search over addresses before the search over arenas. Higher: easy cases end earlier, hard ones later.
FIRST_ROUNDS = 2
# Blocks, and packings of one arena, of the search over arenas. Higher: more cases are decided, exponential time.
MAX_ASSIGNED, MAX_PACKED = 40, 20_000
# Shares of the time limit for the search, and for the buffers of single steps. Higher: less to explain a failure.
SEARCH_TIME, STEPS_TIME = 0.85, 0.1
# Fullest steps whose buffers are tried alone, and buffers left out in turn, to explain a failure; seconds for each.
# Higher: more exact explanations, more time.
MAX_SHIFTS, MAX_LEFT_OUT, DIAGNOSIS_SECONDS = 50, 8, 1.0
