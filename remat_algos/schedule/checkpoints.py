"""A set of kept nodes to a schedule."""

import numpy as np
from numpy.typing import ArrayLike

from remat_algos.arguments import checked_arguments
from remat_algos.ir.arrays import frozen
from remat_algos.ir.graph import ComputationGraph
from remat_algos.schedule.mirror import honoured, mirror_schedule
from remat_algos.schedule.schedule import Schedule


@checked_arguments
def checkpoint_schedule(graph: ComputationGraph, kept: ArrayLike) -> Schedule:
    """The order in which kept nodes run once, and the others are recomputed where a gradient needs them, at most once.

    Parameters
    ----------
    graph : ComputationGraph
    kept : bool[n]
        `once` nodes are always kept, and marks take precedence.

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
    flags = frozen(kept, np.bool_, "kept", graph.n_nodes)
    return mirror_schedule(graph, honoured(graph, np.where(flags, 0, 1)))
