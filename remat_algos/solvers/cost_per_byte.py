"""Compute of a node per byte of its values."""

import numpy as np
from numpy.typing import NDArray

from remat_algos.ir.graph import ComputationGraph


def cost_per_byte(graph: ComputationGraph) -> NDArray[np.float64]:
    """float64[n]: compute that keeping a node saves, per byte of all its values; infinite if they have no bytes.

    Examples
    --------
    >>> cost_per_byte(ComputationGraph.from_edges([(0, 1), (1, 2)], memory=[4, 2, 0], compute=[2, 4, 1])).tolist()
    [0.5, 2.0, inf]
    """
    memory = graph.node_memory
    cost = np.full(graph.n_nodes, np.inf)
    return np.divide(graph.compute / float(graph.labels.compute_scale), memory, out=cost, where=memory > 0)
