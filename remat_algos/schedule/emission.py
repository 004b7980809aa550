"""Schedules from the orders of solvers: parameters change after the last run that reads them."""

import numpy as np

from remat_algos.arguments import checked_arguments
from remat_algos.ir.arrays import Int32, Int64
from remat_algos.ir.graph import ComputationGraph, changeable_reads
from remat_algos.schedule.schedule import Order, Schedule, as_schedule, check_nodes


def awaited(graph: ComputationGraph, order: Int32) -> Int64:
    """int64[n]: for each update the last step that reads the parameter it changes, -1 for other nodes."""
    last_read = np.full(graph.n_nodes, -1)
    if graph.updates.any():
        reader, parameter = changeable_reads(graph)
        reads = ~graph.updates[reader]
        last = np.full(graph.n_nodes, -1)
        np.maximum.at(last, order, np.arange(order.size))
        read = np.full(parameter.max() + 1, -1)
        np.maximum.at(read, parameter[reads], last[reader[reads]])
        np.maximum.at(last_read, reader[~reads], read[parameter[~reads]])
    return last_read


@checked_arguments
def emit(graph: ComputationGraph, order: Order) -> Schedule:
    """Return the schedule of a solver's order, with updates of parameters after the last run that reads them.

    A solver that is free in its order may run an update as soon as its gradient is computed, and recompute a
    reader of the parameter later, which would read the changed parameter. Nothing but updates moves.

    Parameters
    ----------
    graph : ComputationGraph
    order : Schedule, or ids or names of nodes in order
        A schedule that is otherwise sound.

    Returns
    -------
    Schedule

    Raises
    ------
    ScheduleError
        For a step that runs an unknown node.

    Examples
    --------
    Node 12 changes the weight of the last layer, which node 8, the gradient of its bias, still reads.

    >>> from remat_algos.zoo.registry import build
    >>> graph = build("feed_forward", depth=1, optimizer="sgd").graph
    >>> emit(graph, [0, 1, 2, 3, 4, 5, 6, 7, 12, 8, 9, 10, 11, 13, 14, 15]).order.tolist()[7:]
    [7, 8, 12, 9, 10, 11, 13, 14, 15]
    """
    schedule = as_schedule(graph, order, "order")
    runs = schedule.order
    check_nodes(graph.n_nodes, runs)
    waits = awaited(graph, runs)[runs]
    step = np.arange(runs.size)
    return Schedule(runs[np.lexsort((waits >= 0, np.maximum(step, waits)))]) if (waits > step).any() else schedule
