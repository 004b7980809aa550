"""All passes over a schedule, until nothing gets better."""

from remat_algos.arguments import checked_arguments
from remat_algos.ir.graph import ComputationGraph
from remat_algos.schedule.passes.cache import KEYS, ROUNDS, bytes_limit, reuse_in_order
from remat_algos.schedule.passes.sinking import sink
from remat_algos.schedule.schedule import Schedule, check_no_loads
from remat_algos.schedule.simulation import Simulation, check_simulation, simulate


@checked_arguments
def polish(graph: ComputationGraph, simulation: Simulation, limit: int | None) -> Simulation:
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
    >>> simulation = simulate(graph, Schedule.from_names(graph, "ABCDAE"))
    >>> polish(graph, simulation, None) is simulation
    True
    >>> polish(graph, simulation, 4).schedule.names(graph)
    ['A', 'B', 'C', 'D', 'E']
    """
    check_simulation(simulation, graph)
    check_no_loads(simulation.schedule, "polish")
    limit = None if limit is None else bytes_limit(limit)
    room = simulation.peak_memory if limit is None else limit
    sunk = sink(simulation)
    results = [simulation, *(_with_key(graph, sunk, room, key) for key in KEYS)]
    return min(results, key=lambda result: _rank(result, room))


def _with_key(graph: ComputationGraph, simulation: Simulation, room: int, key: str) -> Simulation:
    """Values stay and runs sink in turn, from a schedule whose runs have sunk."""
    for i in range(ROUNDS):
        simulation = sink(simulation) if i else simulation
        order = reuse_in_order(graph, simulation.schedule.order, max(room, simulation.peak_memory), key)
        if order.size == len(simulation.schedule):
            break
        simulation = simulate(graph, Schedule(order))
    return simulation


def _rank(simulation: Simulation, room: int) -> tuple[bool, int, int]:
    if simulation.peak_memory > room:
        return True, simulation.peak_memory, simulation.compute
    return False, simulation.compute, simulation.peak_memory
