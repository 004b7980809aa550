"""Runs whose values are never read."""

import numpy as np
from numpy.typing import NDArray

from remat_algos.arguments import checked_arguments
from remat_algos.ir.arrays import Int32
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.labels import RECOMPUTE
from remat_algos.kernels.passes import dead_runs
from remat_algos.schedule.schedule import Order, Schedule, check_no_loads
from remat_algos.schedule.simulation import simulate


@checked_arguments
def drop_dead_runs(graph: ComputationGraph, schedule: Order) -> Schedule:
    """Remove the runs of which nothing is read before their node is recomputed.

    What only they read is then not read either, and so on. The first run of an output stays: it makes the copy that
    stays live. Of a node marked to be recomputed the first run stays as long as a later one does.

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
    """uint8[n]: nodes whose first run must not serve the backward part."""
    if graph.mark is None:
        return np.zeros(graph.n_nodes, np.uint8)
    return (graph.mark == RECOMPUTE).view(np.uint8)
