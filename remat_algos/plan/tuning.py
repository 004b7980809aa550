"""Numbers of plans that change results or times, each with what it trades."""

# Members of a block up to which every subset is an option; maximum options of one kind. Higher: better policies, more
# time.
ALL_SUBSETS, MAX_OPTIONS = 8, 200
# Number of members by which sets may differ from sets on the hull. Higher: better policies, more time.
HULL_CHANGES = 3
# Combinations of options up to which all are simulated. Higher: more optima, more time.
MAX_COMBINATIONS = 2**11
# Maximum states of the dynamic program after each block; levels to which it rounds bytes on the host. Higher: less
# rounding, more time.
MAX_BLOCK_STATES, HOST_PARTS = 2**11, 2**6
# Budgets of the dynamic program that are tried near a limit. Higher: less compute within it, more time.
BUDGET_ROUNDS = 12
# Share of one pass by which a plan with nearly the same peak must be cheaper to be mentioned. Higher: fewer hints.
NOTABLE = 0.01
# Seconds to prove one claim: for `verify`, and for a solver's bound or an arena in `Plan.load`, which usually takes
# less with effort "fast". Higher: more claims are checked, later ends.
PROVING, PROVING_AGAIN = 30, 1.0
