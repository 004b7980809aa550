"""Passes that improve a schedule: remove dead runs, keep values live, move runs later."""

from operator import index

import numpy as np
from numpy.typing import NDArray

from remat_algos.arguments import checked_arguments
from remat_algos.errors import ArgumentError, ArgumentTypeError
from remat_algos.ir.arrays import LARGEST_SUM, Int32
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.parts import RECOMPUTE
from remat_algos.kernels.passes import dead_runs, replay_order, run_prices, sink_order
from remat_algos.schedule import tuning
from remat_algos.schedule.schedule import Order, Schedule, check_no_loads, emit
from remat_algos.schedule.simulation import Simulation, check_simulation, simulate


@checked_arguments
def drop_dead_runs(graph: ComputationGraph, schedule: Order) -> Schedule:
    """Remove runs whose values are not read before their node is recomputed (dead-code elimination).

    Runs that only served removed runs are removed too. The first run of an output stays, because its value is the one
    that stays live. The first run of a node marked to be recomputed stays as long as a later run does.

    Parameters
    ----------
    graph : ComputationGraph
    schedule : Schedule, or ids or names of nodes in order

    Returns
    -------
    Schedule
        Never longer than the input, and never with a higher peak.

    Raises
    ------
    ScheduleError
        If the schedule is invalid.

    Examples
    --------
    >>> graph = ComputationGraph.from_edges([("A", "B"), ("B", "C"), ("A", "C")])
    >>> drop_dead_runs(graph, Schedule.from_names(graph, "ABABC")).names(graph)
    ['A', 'B', 'C']
    """
    schedule = simulate(graph, schedule).schedule
    check_no_loads(schedule, "drop_dead_runs")
    return Schedule(serving_runs(graph, schedule.order))


def serving_runs(graph: ComputationGraph, order: Int32) -> Int32:
    """Return a valid order, int32[m], without its dead runs."""
    return dead_runs(graph.arrays, order, recompute_marks(graph))


def recompute_marks(graph: ComputationGraph) -> NDArray[np.uint8]:
    """Return uint8[n]: 1 for nodes marked to be recomputed; the backward part must not read their first values."""
    if graph.mark is None:
        return np.zeros(graph.n_nodes, np.uint8)
    return (graph.mark == RECOMPUTE).view(np.uint8)


KEYS = ("density", "chain")


@checked_arguments
def reuse_values(
    graph: ComputationGraph, schedule: Order, limit: int, *, key: str = "density", rounds: int = tuning.POLISH_ROUNDS
) -> Schedule:
    """Remove recomputations whose values can stay live until their next use within a peak of `limit` bytes.

    The order is replayed. If a value is next read only after its node is recomputed, the value stays live. If all
    values of a node are still live when the node is recomputed, that recomputation is removed. If memory runs out, the
    node with the largest ratio bytes * steps / price is freed. Dead runs are then removed. The whole procedure is
    repeated until nothing changes.

    Parameters
    ----------
    graph : ComputationGraph
    schedule : Schedule, or ids or names of nodes in order
    limit : int
        Peak in bytes.
    key : {"density", "chain"}
        Price of freeing a node. "density": the cost of its recomputation. "chain": the same plus the cost of the runs
        that only serve this recomputation.
    rounds : int
        Maximum number of repetitions.

    Returns
    -------
    Schedule
        Never more compute than the input; the peak is at most the larger of `limit` and the peak of the input.

    Raises
    ------
    ScheduleError
        If the schedule is invalid.
    ValueError
        If `key` is unknown, or `rounds` is below 1.

    Examples
    --------
    Figure 1 of kumar2019: A is recomputed for a peak of three units, but not for one of four.

    >>> names = [("A", "B"), ("A", "C"), ("B", "D"), ("C", "D"), ("A", "E"), ("D", "E")]
    >>> graph = ComputationGraph.from_edges(names)
    >>> schedule = Schedule.from_names(graph, "ABCDAE")
    >>> ["".join(reuse_values(graph, schedule, limit).names(graph)) for limit in (3, 4)]
    ['ABCDAE', 'ABCDE']
    """
    if key not in KEYS:
        raise ArgumentError("key is {key!r}; use {keys!w}", key=key, keys=" or ".join(map(repr, KEYS)))
    if rounds < 1:
        raise ArgumentError("rounds is {rounds}; give 1 or more", rounds=rounds)
    schedule = simulate(graph, schedule).schedule
    check_no_loads(schedule, "reuse_values")
    order = schedule.order
    return Schedule(reuse_in_order(graph, order, bytes_limit(limit), key, rounds))


def bytes_limit(limit: int) -> int:
    """Clip a limit in bytes to 2**53, which no sum of sizes reaches; raise TypeError if it is not an integer."""
    try:
        return max(-1, min(index(limit), LARGEST_SUM))
    except TypeError as error:
        raise ArgumentTypeError("limit is {limit!r}; give a whole number of bytes", limit=limit) from error


def reuse_in_order(graph: ComputationGraph, order: Int32, limit: int, key: str, rounds: int) -> Int32:
    """Return a valid order without the recomputations that `reuse_values` removes in `rounds` rounds."""
    order = serving_runs(graph, order)
    for _ in range(rounds):
        before = order.size
        order = serving_runs(graph, replay(graph, order, limit, key))
        if order.size == before:
            break
    return order


def replay(graph: ComputationGraph, order: Int32, limit: int, key: str) -> Int32:
    """Return a valid order without the recomputations whose values can stay live until they are read."""
    # The chain of a run is the run itself and all runs that serve only it, directly or indirectly.
    price = graph.compute[order] if key == "density" else run_prices(graph.arrays, order)
    return replay_order(graph.arrays, order, price, recompute_marks(graph), limit)


@checked_arguments
def sink_runs(graph: ComputationGraph, schedule: Order) -> Schedule:
    """Move each run later if it computes at least as many bytes as it frees.

    A run moves to just before its first reader, unless values that it reads would have to stay live longer and are
    larger than the values that it computes. It never moves past a recomputation of a value that it reads, and it stays
    within the peak of the schedule.

    Parameters
    ----------
    graph : ComputationGraph
    schedule : Schedule, or ids or names of nodes in order

    Returns
    -------
    Schedule
        The peak is never higher, and each run reads the same instances as before.

    Raises
    ------
    ScheduleError
        If the schedule is invalid.

    Examples
    --------
    C waits until E reads it; then D, the last reader of B (4 bytes), runs before C.

    >>> names = [("A", "B"), ("A", "C"), ("A", "D"), ("B", "D"), ("C", "E"), ("D", "E")]
    >>> graph = ComputationGraph.from_edges(names, memory=[1, 4, 2, 1, 1])
    >>> sink_runs(graph, Schedule.from_names(graph, "ABCDE")).names(graph)
    ['A', 'B', 'D', 'C', 'E']
    """
    simulation = simulate(graph, schedule)
    check_no_loads(simulation.schedule, "sink_runs")
    return sink(simulation).schedule


def sink(simulation: Simulation) -> Simulation:
    """Move the runs of a simulated schedule later (`sink_runs`); return the same object if none moves."""
    graph, order = simulation.graph, simulation.schedule.order
    before = simulation.memory_trace - (graph.workspace + graph.node_memory)[order]
    between = np.append(before, graph.memory[graph.output].sum())
    later = sink_order(graph.arrays, order, between, simulation.peak_memory)
    if np.array_equal(later, order):
        return simulation
    lowered = simulate(graph, emit(graph, later))
    # `emit` moves each parameter update after all readers of the parameter, which may raise the peak.
    return lowered if lowered.peak_memory <= simulation.peak_memory else simulation


@checked_arguments
def polish(graph: ComputationGraph, simulation: Simulation, limit: int | None) -> Simulation:
    """Improve a schedule with all passes: remove dead runs, keep values live until they are read, move runs later.

    For each key of `reuse_values`, two passes alternate: `sink_runs` frees memory, and `reuse_values` uses it. If any
    schedule is within the limit, the result has the minimum compute, and ties are broken by the lowest peak. Otherwise
    it has the lowest peak, and ties are broken by the minimum compute. So a limit of 0 minimizes the peak.

    Parameters
    ----------
    graph : ComputationGraph
    simulation : Simulation
        The simulation of a schedule of this graph.
    limit : int or None
        Peak in bytes, or None for the peak of the schedule itself.

    Returns
    -------
    Simulation
        Never worse than the input; the same object if nothing is better.

    Raises
    ------
    GraphError
        If the simulation belongs to another graph.
    TypeError
        If `simulation` is not a Simulation, or `limit` is not an integer.

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
    """Alternate `reuse_values` and `sink_runs`; the simulated schedule is already a result of `sink_runs`."""
    rounds = tuning.POLISH_ROUNDS
    for i in range(rounds):
        simulation = sink(simulation) if i else simulation
        order = reuse_in_order(graph, simulation.schedule.order, max(room, simulation.peak_memory), key, rounds)
        if order.size == len(simulation.schedule):
            break
        simulation = simulate(graph, Schedule(order))
    return simulation


def _rank(simulation: Simulation, room: int) -> tuple[bool, int, int]:
    if simulation.peak_memory > room:
        return True, simulation.peak_memory, simulation.compute
    return False, simulation.compute, simulation.peak_memory
