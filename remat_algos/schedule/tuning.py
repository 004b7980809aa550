"""Tuning constants of schedules. The comment at each one describes its trade-off. Other limits are in effort.py."""

from typing import NamedTuple


class Round(NamedTuple):
    """A round of searches with `share` of all work. They cool from `hot` to `cold` times the mean cost of a node."""

    share: float
    hot: float
    cold: float


# Rounds of simulated annealing. Higher temperatures: results depend less on the start. Lower: more local improvement.
ROUNDS = (Round(0.4, 2.0, 0.02), Round(0.2, 1.0, 0.01), Round(0.4, 1.0, 0.005))
# Rounds with a link. Hotter later rounds: results vary more with the seed.
COPIES_ROUNDS = (Round(0.4, 1.0, 0.02), Round(0.2, 0.5, 0.01), Round(0.4, 0.5, 0.005))
# COOL_ROUNDS are used for more than COOL_NODES nodes, where there are too few moves per node to begin hot. Higher
# temperatures: longer detours from the start.
COOL_ROUNDS, COOL_NODES = (Round(0.3, 0.3, 0.02), Round(0.7, 0.2, 0.01)), 4_000
# Rounds if no node may run twice; all orders then have the same compute. Colder: searches end in the nearest optimum.
ONE_PASS_ROUNDS = (Round(0.5, 20.0, 0.2), Round(0.25, 20.0, 0.2), Round(0.25, 10.0, 0.1))
# The round of a search that starts at the best schedule for a nearby limit. Hotter: it moves farther from its start.
WARM = Round(1.0, 0.1, 0.005)
# FIRST_WORK: minimum work per node of a search in the first round. Higher: fewer, longer searches. MIN_FIRST: minimum
# number of searches in the first round, which takes precedence. Higher: more, shorter searches.
FIRST_WORK, MIN_FIRST = 4_000, 4
# Ratio of the numbers of searches in consecutive rounds. Higher: fewer schedules continue, with more work each.
ROUND_RATIO = 4
# Limits of searches for a lower peak, as shares of the lowest peak, used in turn. Closer to 1: smaller, safer steps.
PEAK_STEPS = (0.9, 0.8)
# Work of a typical move. It converts a limit on moves to one on work. Higher: more work for the same limit.
WORK_OF_MOVE = 30
# Maximum number of orders of the stores that are simulated per schedule. Higher: less waiting for copies, more time.
STORE_ORDERS = 64
# Shares of a link's rates at which reports also print the time of a plan. More shares: longer reports.
OTHER_SHARES = (1.0, 0.8)
# Limits of a beam search for one-pass orders. MAX_BEAM: maximum number of sets kept per step (the beam). MAX_PASS_WORK:
# maximum product of the beam and the square of the number of nodes. Higher: lower peaks, more time.
MAX_BEAM, MAX_PASS_WORK = 64, 5_000_000
# Maximum moves of a one-pass search: MAX_MOVES in total, MOVES_OF_NODE per node. Higher: lower peaks, more time.
MAX_MOVES, MOVES_OF_NODE = 3_000_000, 10_000
# Number of searches in the first round for one-pass orders. Higher: more variety, less work per search.
ONE_PASS_SEARCHES = 12
# Maximum number of rounds of `reuse_values`. Higher: less compute, more time.
POLISH_ROUNDS = 6
# Maximum entries in each of the matrices R and S: 5,000 stages of 5,000 nodes. Higher: larger graphs, more memory.
MAX_MATRIX_ENTRIES = 25_000_000
