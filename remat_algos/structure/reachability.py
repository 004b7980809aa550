"""Ancestors and descendants of nodes."""

from typing import Any

import numpy as np

from remat_algos.ir.arrays import Bool, Int64, row_of
from remat_algos.ir.graph import ComputationGraph


def ancestors(graph: ComputationGraph, node: int) -> Bool:
    """Mark a node and its ancestors, bool[n]."""
    indptr, indices = graph.predecessors
    return reached(row_of(indptr), indices, graph.n_nodes, node)


def descendants(graph: ComputationGraph, node: int) -> Bool:
    """Mark a node and its needed descendants, bool[n]."""
    indptr, indices = graph.successors
    return reached(row_of(indptr), indices, graph.n_nodes, node) & graph.needed


def reached(tail: Any, head: Any, size: int, source: int) -> Bool:
    """Mark the vertices that are reachable from a source along arcs, bool[size]."""
    from scipy.sparse import csr_array  # type: ignore[import-untyped]
    from scipy.sparse.csgraph import breadth_first_order  # type: ignore[import-untyped]

    table = csr_array((np.ones(len(tail), np.int8), (tail, head)), (size, size))
    result = np.zeros(size, bool)
    result[breadth_first_order(table, source, return_predecessors=False)] = True
    return result


def compute_up_to(graph: ComputationGraph, within: Bool) -> Int64:
    """Return the compute of each node and its ancestors, int64[n]; `within` must contain all ancestors."""
    nodes = np.flatnonzero(within)
    indptr, indices = graph.predecessors
    row = np.full(graph.n_nodes, -1)
    row[nodes] = np.arange(nodes.size)
    above = np.zeros((nodes.size, nodes.size + 7 >> 3), np.uint8)
    total = np.zeros(graph.n_nodes, np.int64)
    for i, v in enumerate(nodes.tolist()):
        above[i] = np.bitwise_or.reduce(above[row[indices[indptr[v] : indptr[v + 1]]]], axis=0)
        above[i, i >> 3] |= 128 >> (i & 7)
        total[v] = graph.compute[nodes[np.unpackbits(above[i], count=nodes.size).view(bool)]].sum()
    return total
