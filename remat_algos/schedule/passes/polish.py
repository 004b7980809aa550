"""All passes over a schedule, until nothing gets better."""

from remat_algos.ir.graph import ComputationGraph
from remat_algos.schedule.passes.cache import KEYS, ROUNDS, bytes_limit, cached_order
from remat_algos.schedule.passes.sinking import lower
from remat_algos.schedule.schedule import Schedule
from remat_algos.schedule.simulation import Simulation, check_simulation, simulate


def polished(graph: ComputationGraph, simulation: Simulation, limit: int | None) -> Simulation:
    """The best schedule that the passes make of a simulated one.

    With each key of the cache pass in turn: runs sink, which makes room, then values stay, as far as there is room,
    and so on. What comes to fit the limit is compared by compute, then by peak; if nothing does, by peak, then by
    compute, so limit 0 gives the lowest peak.

    Parameters
    ----------
    graph : ComputationGraph
    simulation : Simulation
        Of a schedule of this graph.
    limit : int or None
        Bytes of peak; None for the peak of the schedule itself.

    Returns
    -------
    Simulation
        Never worse than the given one; that one itself if nothing is better.

    Raises
    ------
    GraphError
        If the simulation is of another graph.
    TypeError
        For anything but a simulation, or a limit that is not a whole number.

    Examples
    --------
    >>> names = [("A", "B"), ("A", "C"), ("B", "D"), ("C", "D"), ("A", "E"), ("D", "E")]
    >>> graph = ComputationGraph.from_edges(names)
    >>> judged = simulate(graph, Schedule.from_names(graph, "ABCDAE"))
    >>> polished(graph, judged, None) is judged
    True
    >>> polished(graph, judged, 4).schedule.names(graph)
    ['A', 'B', 'C', 'D', 'E']
    """
    check_simulation(simulation, graph)
    limit = None if limit is None else bytes_limit(limit)
    room = simulation.peak_memory if limit is None else limit
    sunk = lower(simulation)
    found = [simulation, *(_with_key(graph, sunk, room, key) for key in KEYS)]
    return min(found, key=lambda judged: _rank(judged, room))


def _with_key(graph: ComputationGraph, judged: Simulation, room: int, key: str) -> Simulation:
    """Values stay and runs sink in turn, from a schedule whose runs have sunk."""
    for i in range(ROUNDS):
        judged = lower(judged) if i else judged
        order = cached_order(graph, judged.schedule.order, max(room, judged.peak_memory), key)
        if order.size == len(judged.schedule):
            break
        judged = simulate(graph, Schedule(order))
    return judged


def _rank(judged: Simulation, room: int) -> tuple[bool, int, int]:
    if judged.peak_memory > room:
        return True, judged.peak_memory, judged.compute
    return False, judged.compute, judged.peak_memory
