"""Values that a schedule frees and recomputes later, kept live while there is room."""

from operator import index

from remat_algos.arguments import checked_arguments
from remat_algos.ir.arrays import LARGEST_SUM, Int32, Int64
from remat_algos.ir.graph import ComputationGraph
from remat_algos.kernels.passes import replay_order, run_prices
from remat_algos.schedule.passes.dead_runs import recompute_marks, serving_runs
from remat_algos.schedule.schedule import Order, Schedule, check_no_loads
from remat_algos.schedule.simulation import simulate
from remat_algos.text.wording import quoted, shortened

KEYS = ("density", "chain")
ROUNDS = 6


@checked_arguments
def reuse_values(
    graph: ComputationGraph, schedule: Order, limit: int, *, key: str = "density", rounds: int = ROUNDS
) -> Schedule:
    """Remove recomputations whose value can stay live until its next use without exceeding a peak of `limit` bytes.

    The order is run once more. What is not read before its node is recomputed, but after that, stays; if all of it is
    still live, the node need not be recomputed. Where there is no room, the node is dropped that gives most bytes and
    time for its price. Runs without a reader are dropped, and all is repeated until nothing changes.

    Parameters
    ----------
    graph : ComputationGraph
    schedule : Schedule, or ids or names of nodes in order
    limit : int
        Bytes of peak.
    key : {"density", "chain"}
        The price of what goes: the cost of recomputing the node, alone or with the runs that serve only this one.
    rounds : int
        Maximum number of rounds.

    Returns
    -------
    Schedule
        It never costs more; its peak is at most the greater of the limit and the peak of the given schedule.

    Raises
    ------
    ScheduleError
        If the schedule is not sound.
    ValueError
        For an unknown key, or rounds below 1.

    Examples
    --------
    Figure 1 of kumar2019: A is recomputed for a peak of three units; with four there is no need.

    >>> names = [("A", "B"), ("A", "C"), ("B", "D"), ("C", "D"), ("A", "E"), ("D", "E")]
    >>> graph = ComputationGraph.from_edges(names)
    >>> schedule = Schedule.from_names(graph, "ABCDAE")
    >>> ["".join(reuse_values(graph, schedule, limit).names(graph)) for limit in (3, 4)]
    ['ABCDAE', 'ABCDE']
    """
    if key not in KEYS:
        raise ValueError(f"key is {quoted(key)}; use {' or '.join(map(repr, KEYS))}")
    if rounds < 1:
        raise ValueError(f"rounds is {shortened(rounds)}; give 1 or more")
    schedule = simulate(graph, schedule).schedule
    check_no_loads(schedule, "reuse_values")
    order = schedule.order
    return Schedule(reuse_in_order(graph, order, bytes_limit(limit), key, rounds))


def bytes_limit(limit: int) -> int:
    """A limit as the kernels take it: no sum of sizes reaches 2**53. TypeError unless it is a whole number."""
    try:
        return max(-1, min(index(limit), LARGEST_SUM))
    except TypeError as error:
        raise TypeError(f"limit is {quoted(limit)}; give whole bytes") from error


def reuse_in_order(graph: ComputationGraph, order: Int32, limit: int, key: str, rounds: int = ROUNDS) -> Int32:
    """int32[<= m]: a sound order after at most so many rounds."""
    order = serving_runs(graph, order)
    for _ in range(rounds):
        before = order.size
        order = serving_runs(graph, replay(graph, order, limit, key))
        if order.size == before:
            break
    return order


def replay(graph: ComputationGraph, order: Int32, limit: int, key: str) -> Int32:
    """int32[<= m]: a sound order without the runs whose values stay."""
    price = graph.compute[order] if key == "density" else chain_prices(graph, order)
    return replay_order(graph.arrays, order, price, recompute_marks(graph), limit)


def chain_prices(graph: ComputationGraph, order: Int32) -> Int64:
    """int64[m]: the cost of each run with that of the runs, directly or through others, that serve it alone."""
    return run_prices(graph.arrays, order)
