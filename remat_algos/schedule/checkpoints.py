"""Schedules of sets of kept nodes."""

import numpy as np

from remat_algos.arguments import checked_arguments
from remat_algos.ir.arrays import PerName, frozen
from remat_algos.ir.edges import in_order
from remat_algos.ir.graph import ComputationGraph
from remat_algos.schedule.mirror import clamp_counts, mirror_schedule
from remat_algos.schedule.schedule import Schedule


@checked_arguments
def checkpoint_schedule(graph: ComputationGraph, kept: PerName) -> Schedule:
    """Return the schedule that keeps some nodes and recomputes the others at most once, when a gradient needs them.

    Parameters
    ----------
    graph : ComputationGraph
    kept : bool[n]
        `once` nodes are always kept, and marks take precedence. A mapping goes by the names of nodes; others are not
        kept.

    Returns
    -------
    Schedule

    References
    ----------
    chen2016, algorithm 1, which is algorithm 2 with mirror counts of 0 and 1.

    Examples
    --------
    >>> from remat_algos.ir.differentiate import differentiate
    >>> chain = differentiate(ComputationGraph.from_edges([(0, 1), (1, 2)]))
    >>> checkpoint_schedule(chain, [False, True, True, True, True, True]).order.tolist()
    [0, 1, 2, 3, 4, 0, 5]
    """
    flags = frozen(in_order("kept", kept, graph.node_names), np.bool_, "kept", graph.n_nodes)
    return mirror_schedule(graph, clamp_counts(graph, np.where(flags, 0, 1)))
