"""Tuning constants of plans and policies. The comment at each one describes its trade-off."""

# ALL_SUBSETS: maximum number of members of a block for which every subset of members is an option. MAX_OPTIONS: maximum
# number of options of a block with more members. Higher: better policies, more time.
ALL_SUBSETS, MAX_OPTIONS = 8, 200
# Maximum number of members by which an option may differ from a set on the hull. Higher: better policies, more time.
HULL_CHANGES = 3
# All combinations of options are simulated if at most this many exist. Higher: optimal policies more often, more time.
MAX_COMBINATIONS = 2**11
# MAX_BLOCK_STATES: maximum number of states of the dynamic program after each block. HOST_PARTS: number of levels to
# which bytes on the host are rounded. Higher: less rounding, more time.
MAX_BLOCK_STATES, HOST_PARTS = 2**11, 2**6
# Maximum number of budgets near a limit for which the dynamic program runs. Higher: less compute within the limit, more
# time.
BUDGET_ROUNDS = 12
# A hint mentions a cheaper plan with nearly the same peak if it saves at least this share of one pass. Higher: fewer
# hints.
NOTABLE = 0.01
# Time limits in seconds for the proof of one claim. PROVING: in `verify`. PROVING_AGAIN: in `Plan.load`, for an arena
# or for a bound by a solver; most plans of effort "fast" need less. Higher: more claims are proven, longer waits.
PROVING, PROVING_AGAIN = 30, 1.0
