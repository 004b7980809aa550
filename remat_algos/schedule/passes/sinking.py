"""Runs moved on to where they are needed."""

import numpy as np

from remat_algos.arguments import checked_arguments
from remat_algos.ir.graph import ComputationGraph
from remat_algos.kernels.passes import sink_order
from remat_algos.schedule.emission import emit
from remat_algos.schedule.schedule import Order, Schedule, check_no_loads
from remat_algos.schedule.simulation import Simulation, simulate


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
    """A simulated schedule with its runs moved on; the simulation itself if none moves."""
    graph, order = simulation.graph, simulation.schedule.order
    before = simulation.memory_trace - (graph.workspace + graph.node_memory)[order]
    between = np.append(before, graph.memory[graph.output].sum())
    later = sink_order(graph.arrays, order, between, simulation.peak_memory)
    if np.array_equal(later, order):
        return simulation
    lowered = simulate(graph, emit(graph, later))
    # a parameter may only change when all have read it, whatever its update holds until then
    return lowered if lowered.peak_memory <= simulation.peak_memory else simulation
