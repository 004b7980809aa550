"""Numbers of plans that change results or times, each with what it trades."""

# In blocks of at most ALL_SUBSETS members every subset is an option; MAX_OPTIONS: maximum options of a kind of block.
# Higher: better policies, more time.
ALL_SUBSETS, MAX_OPTIONS = 8, 200
# Number of members by which sets may differ from sets on the hull. Higher: better policies, more time.
HULL_CHANGES = 3
# Combinations of options up to which all are simulated. Higher: more optima, more time.
MAX_COMBINATIONS = 2**11
# MAX_BLOCK_STATES: maximum states of the dynamic program after each block. HOST_PARTS: levels to which bytes on the
# host are rounded. Higher: less rounding, more time.
MAX_BLOCK_STATES, HOST_PARTS = 2**11, 2**6
# Budgets of the dynamic program that are tried near a limit. Higher: less compute within it, more time.
BUDGET_ROUNDS = 12
# Share of one pass by which a plan with nearly the same peak must be cheaper to be mentioned. Higher: fewer hints.
NOTABLE = 0.01
# Seconds to prove one claim: PROVING in `verify`, PROVING_AGAIN in `Plan.load` for a solver's bound or an arena, which
# effort "fast" usually proves faster. Higher: more claims are checked, later ends.
PROVING, PROVING_AGAIN = 30, 1.0
