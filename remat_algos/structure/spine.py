"""Topological order along a path decomposition, widened so that consecutive nodes share a bag."""

import numpy as np

from remat_algos.ir.arrays import Int32
from remat_algos.ir.graph import ComputationGraph
from remat_algos.kernels.decomposition import leftmost_topological_order
from remat_algos.structure.path_decomposition import PathDecomposition, condensed
from remat_algos.structure.undirected import UndirectedGraph


def spine(graph: ComputationGraph, path: PathDecomposition) -> tuple[Int32, PathDecomposition]:
    """A topological order u_1 .. u_n, and a path decomposition of the graph with the edges (u_i, u_(i+1)) as well.

    The next node is always the one with the leftmost first bag among those whose inputs have run. Let X be a bag with
    the bags left of it, w the width (bags inside a neighbour left out).

    - A step u -> v back over the left edge of X goes to an earlier first bag, so v had to wait for u: v reads u, and
      shares a bag with it. So v is among the at most w vertices that X shares with the bag before; each of them
      is reached by at most one such step.
    - Steps forward over the edge alternate with those, so there are at most w + 1. Their left ends are added to all
      bags up to the first bag of the right ends, so X grows by at most w + 1: the new width is at most 2 w + 1.

    Neighbours on the spine share a bag. So on the way from any bag to one, X_c, that holds u_n each bag holds a node
    as late on the spine: last(X), the place of the last node of a bag, never falls towards X_c, from either side.

    Parameters
    ----------
    graph : ComputationGraph
    path : PathDecomposition
        A decomposition of the graph; bags inside a neighbour are ignored.

    Returns
    -------
    order : int32[n]
        The spine.
    wider : PathDecomposition

    Raises
    ------
    GraphError
        If the path decomposition is not one of the graph.

    Examples
    --------
    Two chains of three nodes that do not meet, one bag after the other:

        0 -> 2 -> 4        bags {0, 2} - {2, 4} - {1, 3} - {3, 5}
        1 -> 3 -> 5        the spine 0, 2, 4, 1, 3, 5 adds 4 to {1, 3}

    >>> graph = ComputationGraph.from_edges([(0, 2), (2, 4), (1, 3), (3, 5)])
    >>> path = PathDecomposition.of(UndirectedGraph.of(graph), [0, 2, 4, 1, 3, 5])
    >>> order, wider = spine(graph, path)
    >>> order.tolist(), [wider.bag(i) for i in range(wider.n_bags)]
    ([0, 2, 4, 1, 3, 5], [[0, 2], [2, 4], [1, 3, 4], [3, 5]])

    References
    ----------
    kumar2019, section 5; the construction and the bound are ours.
    """
    path.verify(UndirectedGraph.of(graph))
    first, last = condensed(*path.spans(graph.n_nodes))
    indptr, _ = graph.predecessors
    order = leftmost_topological_order(indptr, *graph.successors, first)
    before, after = order[:-1], order[1:]
    last[before] = np.maximum(last[before], first[after])
    order.setflags(write=False)
    return order, PathDecomposition.from_spans(first, last)
