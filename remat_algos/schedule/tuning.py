"""Numbers of schedules that change plans or times, each with what it trades. Those of `effort` are in effort.py."""

from typing import NamedTuple


class Round(NamedTuple):
    """Searches that start at the best of the previous round, and their share of all work.

    They cool down from `hot` to `cold`, in mean costs of a node.
    """

    share: float
    hot: float
    cold: float


# Rounds of simulated annealing. Hotter: results depend less on the start, colder: more on the last improvements.
ROUNDS = (Round(0.4, 2.0, 0.02), Round(0.2, 1.0, 0.01), Round(0.4, 1.0, 0.005))
# The same with a link. Hotter later rounds: seeds differ more.
COPIES_ROUNDS = (Round(0.4, 1.0, 0.02), Round(0.2, 0.5, 0.01), Round(0.4, 0.5, 0.005))
# The same above so many nodes, for which there are too few moves per node to begin hot. Higher: longer detours.
COOL_ROUNDS, COOL_NODES = (Round(0.3, 0.3, 0.02), Round(0.7, 0.2, 0.01)), 4_000
# The same if no node may run twice: all orders have the same compute. Colder: searches end in the nearest valley.
ONE_PASS_ROUNDS = (Round(0.5, 20.0, 0.2), Round(0.25, 20.0, 0.2), Round(0.25, 10.0, 0.1))
# A search from the best within a nearby limit. Hotter: it leaves that start.
WARM = Round(1.0, 0.1, 0.005)
# Work for each node in a search of the first round, and searches of it, at least. Higher: fewer and longer searches,
# or more and shorter ones.
FIRST_WORK, MIN_FIRST = 4_000, 4
# Ratio of the numbers of searches of consecutive rounds. Higher: fewer starts are followed, each further.
ROUND_RATIO = 4
# Limits of the searches for a lower peak, in turn, as shares of the lowest so far. Closer to 1: smaller, surer steps.
PEAK_STEPS = (0.9, 0.8)
# Work of a typical move, for limits on moves. Higher: more work for the same number of moves.
WORK_OF_MOVE = 30
# Orders of stores that are simulated for one schedule. Higher: less waiting for copies, more time.
STORE_ORDERS = 64
# Shares of a link's rates at which the time of a plan is printed besides its own. More: longer texts.
OTHER_SHARES = (1.0, 0.8)
# States of a beam search of one pass, and nodes examined over all steps and states. Higher: lower peaks, more time.
MAX_BEAM, MAX_PASS_WORK = 64, 5_000_000
# Moves of a search of one pass, in all and for each node. Higher: lower peaks, more time.
MAX_MOVES, MOVES_OF_NODE = 3_000_000, 10_000
# Short searches of one pass, of which the best go on. Higher: more variety, less work for each.
ONE_PASS_SEARCHES = 12
# Rounds of reusing values under a limit. Higher: less compute, more time.
POLISH_ROUNDS = 6
# Entries of each of the matrices R and S, as of 5,000 stages of 5,000 nodes. Higher: larger graphs, more memory.
MAX_MATRIX_ENTRIES = 25_000_000
