"""No rematerialization."""

import numpy as np

from remat_algos.ir.graph import ComputationGraph
from remat_algos.schedule.schedule import Schedule
from remat_algos.schedule.updates import postponed
from remat_algos.solvers.registry import solver


@solver()
def no_remat(graph: ComputationGraph, limit: int | None) -> Schedule:
    """Baseline without recomputation; percentages refer to its peak.

    Every needed node runs once, in id order; updates of parameters run after everything that reads the parameters.

    Examples
    --------
    >>> no_remat(ComputationGraph.from_edges([(0, 1), (1, 2)]), None).order.tolist()
    [0, 1, 2]
    """
    return Schedule(postponed(graph, np.flatnonzero(graph.needed).astype(np.int32)))
