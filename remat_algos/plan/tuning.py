"""Numbers of plans that change results or times, each with what it trades."""

# Members of a block up to which every subset is an option, and options of one kind. Higher: better policies, more time.
ALL_SUBSETS, MAX_OPTIONS = 8, 200
# Members by which sets may differ from those on the hull. Higher: better policies, more time.
HULL_CHANGES = 3
# Choices of options up to which all are simulated. Higher: more optima, more time.
MAX_COMBINATIONS = 2**11
# States of the dynamic program after each block, and parts of the host's bytes that it tells apart. Higher: less
# rounding, more time.
MAX_BLOCK_STATES, HOST_PARTS = 2**11, 2**6
# Budgets of the dynamic program that are tried near a limit. Higher: less compute within it, more time.
BUDGET_ROUNDS = 12
# Share of one pass by which a nearby plan must be cheaper to be mentioned. Higher: fewer hints.
NOTABLE = 0.01
# Seconds to prove one claim: for `verify`, and for a solver's bound and an arena of `Plan.load`, whose effort "fast"
# mostly takes less. Higher: more claims are checked, later ends.
PROVING, PROVING_AGAIN = 30, 1.0
