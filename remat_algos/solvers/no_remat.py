"""No rematerialization."""

import numpy as np

from remat_algos.ir.graph import ComputationGraph
from remat_algos.schedule.schedule import Schedule
from remat_algos.schedule.updates import postponed
from remat_algos.solvers.registry import solver


@solver()
def no_remat(graph: ComputationGraph, limit: int | None) -> Schedule:
    """Run every needed node once, in id order, updates of parameters after all that read them: the base of every "50%".

    Examples
    --------
    >>> no_remat(ComputationGraph.from_edges([(0, 1), (1, 2)]), None).order.tolist()
    [0, 1, 2]
    """
    return Schedule(postponed(graph, np.flatnonzero(graph.needed).astype(np.int32)))
