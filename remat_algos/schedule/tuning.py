"""Tuning constants of schedules, with the trade-off of each. Limits of `effort` are in effort.py."""

from typing import NamedTuple


class Round(NamedTuple):
    """A round of searches with `share` of all work; each cools from `hot` to `cold`, in mean costs of a node."""

    share: float
    hot: float
    cold: float


# Rounds of simulated annealing. Hotter: results depend less on the start. Colder: more local improvement at the end.
ROUNDS = (Round(0.4, 2.0, 0.02), Round(0.2, 1.0, 0.01), Round(0.4, 1.0, 0.005))
# Rounds with a link. Hotter later rounds: results vary more with the seed.
COPIES_ROUNDS = (Round(0.4, 1.0, 0.02), Round(0.2, 0.5, 0.01), Round(0.4, 0.5, 0.005))
# Rounds above this many nodes, where there are too few moves per node to begin hot. Higher: longer detours.
COOL_ROUNDS, COOL_NODES = (Round(0.3, 0.3, 0.02), Round(0.7, 0.2, 0.01)), 4_000
# Rounds if no node may run twice; all orders then have the same compute. Colder: searches end in the nearest optimum.
ONE_PASS_ROUNDS = (Round(0.5, 20.0, 0.2), Round(0.25, 20.0, 0.2), Round(0.25, 10.0, 0.1))
# A search from the best schedule within a nearby limit. Hotter: it moves farther from its start.
WARM = Round(1.0, 0.1, 0.005)
# First round: minimum work per node in a search, and minimum number of searches. Higher: fewer and longer searches, or
# more and shorter ones.
FIRST_WORK, MIN_FIRST = 4_000, 4
# Ratio of the number of searches in consecutive rounds. Higher: fewer starts are continued, with more work each.
ROUND_RATIO = 4
# Limits in the search for a lower peak, as shares of the lowest peak, used in turn. Closer to 1: smaller, safer steps.
PEAK_STEPS = (0.9, 0.8)
# Work of a typical move, which converts limits on moves. Higher: more work for the same number of moves.
WORK_OF_MOVE = 30
# Maximum orders of stores simulated per schedule. Higher: less waiting for copies, more time.
STORE_ORDERS = 64
# Further shares of a link's rates at which the time of a plan is printed. More: longer texts.
OTHER_SHARES = (1.0, 0.8)
# Maximum states in a beam search of one pass, and maximum node visits in total. Higher: lower peaks, more time.
MAX_BEAM, MAX_PASS_WORK = 64, 5_000_000
# Maximum moves of a one-pass search, in total and per node. Higher: lower peaks, more time.
MAX_MOVES, MOVES_OF_NODE = 3_000_000, 10_000
# Short one-pass searches, the best of which continue. Higher: more variety, less work each.
ONE_PASS_SEARCHES = 12
# Rounds of reusing values under a limit. Higher: less compute, more time.
POLISH_ROUNDS = 6
# Maximum entries in each of the matrices R and S: 5,000 stages of 5,000 nodes. Higher: larger graphs, more memory.
MAX_MATRIX_ENTRIES = 25_000_000
