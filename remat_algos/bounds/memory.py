"""Bytes that no schedule can go below."""

import numpy as np

from remat_algos.ir.graph import ComputationGraph


def least_peak_bound(graph: ComputationGraph) -> tuple[int, list[int]]:
    """The most that one needed node holds while it runs, and the nodes that hold it.

    max over v of workspace[v] + bytes of what v reads + bytes of its values: every schedule has that step, whatever
    the order and however often nodes run.

    Examples
    --------
    >>> graph = ComputationGraph.from_edges([(0, 1), (0, 2), (1, 2)], memory=[4, 2, 1])
    >>> least_peak_bound(graph)
    (7, [2])
    """
    read = np.concatenate([[0], np.cumsum(graph.memory[graph.read_indices])])
    live = np.where(graph.needed, graph.workspace + graph.node_memory + np.diff(read[graph.read_indptr]), 0)
    bound = int(live.max(initial=0))
    return bound, np.flatnonzero(graph.needed & (live == bound)).tolist()
