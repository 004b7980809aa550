"""Passes that improve a schedule: they drop dead runs, keep values live, and run nodes later."""

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
    """Remove the runs whose values are not read before their node is recomputed.

    Values that only these runs read are then not read either, and so on. The first run of an output stays: it makes the
    copy that stays live. The first run of a node marked to be recomputed stays as long as a later one does.

    Parameters
    ----------
    graph : ComputationGraph
    schedule : Schedule, or ids or names of nodes in order

    Returns
    -------
    Schedule
        Never longer, nor with a higher peak.

    Raises
    ------
    ScheduleError
        If the schedule is not sound.

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
    """int32[<= m]: a sound order without its dead runs."""
    return dead_runs(graph.arrays, order, recompute_marks(graph))


def recompute_marks(graph: ComputationGraph) -> NDArray[np.uint8]:
    """uint8[n]: nodes marked to be recomputed: the backward part must not read values of their first run."""
    if graph.mark is None:
        return np.zeros(graph.n_nodes, np.uint8)
    return (graph.mark == RECOMPUTE).view(np.uint8)


KEYS = ("density", "chain")


@checked_arguments
def reuse_values(
    graph: ComputationGraph, schedule: Order, limit: int, *, key: str = "density", rounds: int = tuning.POLISH_ROUNDS
) -> Schedule:
    """Remove recomputations whose value can stay live until its next use without exceeding a peak of `limit` bytes.

    The order is run once more. A value that is not read before its node is recomputed, but after that, stays live. If
    all values of the recomputation are still live there, it is removed. Where there is no room, the node is dropped
    that frees most bytes and steps for its price. Runs without a reader are dropped, and everything is repeated until
    nothing changes.

    Parameters
    ----------
    graph : ComputationGraph
    schedule : Schedule, or ids or names of nodes in order
    limit : int
        Bytes of peak.
    key : {"density", "chain"}
        The price of a dropped node: the cost of recomputing it, alone or with the runs that serve only this one.
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
        raise ArgumentError("key is {key!r}; use {keys!w}", key=key, keys=" or ".join(map(repr, KEYS)))
    if rounds < 1:
        raise ArgumentError("rounds is {rounds}; give 1 or more", rounds=rounds)
    schedule = simulate(graph, schedule).schedule
    check_no_loads(schedule, "reuse_values")
    order = schedule.order
    return Schedule(reuse_in_order(graph, order, bytes_limit(limit), key, rounds))


def bytes_limit(limit: int) -> int:
    """Clip a limit for the kernels: no sum of sizes reaches 2**53. TypeError unless it is a whole number."""
    try:
        return max(-1, min(index(limit), LARGEST_SUM))
    except TypeError as error:
        raise ArgumentTypeError("limit is {limit!r}; give whole bytes", limit=limit) from error


def reuse_in_order(graph: ComputationGraph, order: Int32, limit: int, key: str, rounds: int) -> Int32:
    """int32[<= m]: a sound order without the recomputations that `reuse_values` removes in at most `rounds` rounds."""
    order = serving_runs(graph, order)
    for _ in range(rounds):
        before = order.size
        order = serving_runs(graph, replay(graph, order, limit, key))
        if order.size == before:
            break
    return order


def replay(graph: ComputationGraph, order: Int32, limit: int, key: str) -> Int32:
    """int32[<= m]: a sound order without the runs whose values stay."""
    # The price of a chain: a run and all runs that serve only it, directly or through others.
    price = graph.compute[order] if key == "density" else run_prices(graph.arrays, order)
    return replay_order(graph.arrays, order, price, recompute_marks(graph), limit)


@checked_arguments
def sink_runs(graph: ComputationGraph, schedule: Order) -> Schedule:
    """Move runs later, as long as each makes at least as many bytes as it frees.

    A run waits until right before its first reader, or until what it reads would stay live for it alone and is
    larger than what it makes; it is never moved past a recomputation of what it reads. A moved run stays within
    the peak of the schedule.

    Parameters
    ----------
    graph : ComputationGraph
    schedule : Schedule, or ids or names of nodes in order

    Returns
    -------
    Schedule
        The peak is never higher; each run reads what it read before.

    Raises
    ------
    ScheduleError
        If the schedule is not sound.

    Examples
    --------
    C waits until E reads it; so D, which lets the 4 bytes of B go, comes first.

    >>> names = [("A", "B"), ("A", "C"), ("A", "D"), ("B", "D"), ("C", "E"), ("D", "E")]
    >>> graph = ComputationGraph.from_edges(names, memory=[1, 4, 2, 1, 1])
    >>> sink_runs(graph, Schedule.from_names(graph, "ABCDE")).names(graph)
    ['A', 'B', 'D', 'C', 'E']
    """
    simulation = simulate(graph, schedule)
    check_no_loads(simulation.schedule, "sink_runs")
    return sink(simulation).schedule


def sink(simulation: Simulation) -> Simulation:
    """Move the runs of a simulated schedule later (`sink_runs`); return the simulation itself if none moves."""
    graph, order = simulation.graph, simulation.schedule.order
    before = simulation.memory_trace - (graph.workspace + graph.node_memory)[order]
    between = np.append(before, graph.memory[graph.output].sum())
    later = sink_order(graph.arrays, order, between, simulation.peak_memory)
    if np.array_equal(later, order):
        return simulation
    lowered = simulate(graph, emit(graph, later))
    # `emit` moves updates behind all readers of their parameter, which may raise the peak.
    return lowered if lowered.peak_memory <= simulation.peak_memory else simulation


@checked_arguments
def polish(graph: ComputationGraph, simulation: Simulation, limit: int | None) -> Simulation:
    """Improve a schedule by all passes: drop dead runs, keep values live until they are read, run nodes later.

    For each key of `reuse_values`, runs sink, which makes room, then values stay as far as there is room, and both
    repeat. Schedules within the limit are compared by compute, then by peak. If none is within it, they are compared by
    peak, then by compute, so limit 0 gives the lowest peak.

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
    """Keep values and sink runs in turn, from a schedule whose runs have sunk."""
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
