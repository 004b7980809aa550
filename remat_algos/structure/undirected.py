"""Undirected graphs, for decompositions."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from remat_algos.arguments import check_kind, checked_arguments
from remat_algos.errors import GraphError
from remat_algos.ir.arrays import Int32, Int64, brief, by_fields, check_indptr, frozen, row, row_keys, row_of, whole
from remat_algos.ir.edges import checked_pairs
from remat_algos.ir.graph import ComputationGraph
from remat_algos.kernels.graph import transpose_rows


@dataclass(frozen=True, slots=True, eq=False)
class UndirectedGraph:
    """Vertices and the edges between them, without loops and parallel edges.

    Parameters
    ----------
    indptr : int64[n + 1]
    indices : int32[2 m]
        Row v: the neighbours of vertex v, ascending.

    Raises
    ------
    GraphError
        The rule that is broken, and where.

    Examples
    --------
    A triangle and an isolated vertex:

    >>> graph = UndirectedGraph.from_edges(4, [(0, 1), (2, 1), (1, 0), (2, 0)])
    >>> graph.n_vertices, graph.n_edges, graph.neighbours(1), graph.neighbours(3)
    (4, 3, [0, 2], [])
    """

    indptr: Int64
    indices: Int32

    __repr__ = brief
    __reduce__ = by_fields

    def __post_init__(self) -> None:
        object.__setattr__(self, "indptr", frozen(self.indptr, np.int64, "indptr"))
        object.__setattr__(self, "indices", frozen(self.indices, np.int32, "indices"))
        _check(self.indptr, self.indices)

    # ---------------------------------------------------------------- constructors

    @classmethod
    @checked_arguments
    def from_edges(cls, n_vertices: int, edges: Iterable[tuple[int, int]] | ArrayLike) -> "UndirectedGraph":
        """Make a graph from pairs in any direction; loops and duplicates are dropped.

        Parameters
        ----------
        n_vertices : int
        edges : pairs of int

        Raises
        ------
        GraphError
            If a pair has an unknown vertex.
        """
        pairs = checked_pairs(edges)
        n_vertices = whole(n_vertices, "n_vertices")
        if n_vertices < 0:
            raise GraphError("n_vertices is {n_vertices}; give 0 or more", n_vertices=n_vertices)
        if pairs.dtype.kind not in "iu":
            raise GraphError("edges are pairs (u, v) of vertex ids; number the vertices from 0")
        outside = pairs[(pairs < 0) | (pairs >= n_vertices)]
        if outside.size:
            raise GraphError(
                "an edge names vertex {outside}; there are {n_vertices}, numbered from 0",
                outside=outside[0],
                n_vertices=n_vertices,
            )
        pairs = pairs[pairs[:, 0] != pairs[:, 1]]
        both = np.concatenate([pairs, pairs[:, ::-1]])
        keys = np.sort(both[:, 0] << 32 | both[:, 1])  # np.unique hashes: fifty times as slow on a million edges
        keys = keys[np.append(True, keys[1:] != keys[:-1])[: keys.size]]
        indptr = np.searchsorted(keys, np.arange(n_vertices + 1) << 32)
        return cls(indptr, (keys & 0xFFFFFFFF).astype(np.int32))

    @classmethod
    @checked_arguments
    def of(cls, graph: ComputationGraph) -> "UndirectedGraph":
        """Return the underlying graph of a computation graph: an edge if one node reads a value of the other.

        Parameters
        ----------
        graph : ComputationGraph

        Examples
        --------
        >>> UndirectedGraph.of(ComputationGraph.from_edges([(0, 1), (0, 2), (1, 2)])).edges().tolist()
        [[0, 1], [0, 2], [1, 2]]
        """
        indptr, sources = graph.predecessors
        readers = row_of(indptr)
        return cls.from_edges(graph.n_nodes, np.stack([sources, readers], axis=1))

    # ---------------------------------------------------------------- derived from the arrays

    @property
    def n_vertices(self) -> int:
        """Number of vertices."""
        return int(self.indptr.shape[0] - 1)

    @property
    def n_edges(self) -> int:
        """Number of edges."""
        return int(self.indices.shape[0] // 2)

    @property
    def degree(self) -> Int64:
        """int64[n]: number of neighbours of each vertex."""
        return np.diff(self.indptr)

    def neighbours(self, vertex: int) -> list[int]:
        """Neighbours of a vertex, ascending."""
        return row(self.indptr, self.indices, vertex, "vertex")

    def edges(self) -> Int32:
        """int32[m, 2]: the edges (u, v), u < v, ascending."""
        rows = row_of(self.indptr, np.int32)
        once = rows < self.indices
        return np.stack([rows[once], self.indices[once]], axis=1)


def check_undirected(graph: Any) -> None:
    """Raise TypeError unless it is an undirected graph."""
    check_kind(graph, UndirectedGraph, "graph")


def _check(indptr: Int64, indices: Int32) -> None:
    n = max(indptr.shape[0] - 1, 0)
    check_indptr(indptr, n, indices.shape[0], "indptr")
    outside = indices[(indices < 0) | (indices >= n)]
    if outside.size:
        raise GraphError(
            "vertex {outside} is named as a neighbour; there are {n}, numbered from 0", outside=outside[0], n=n
        )
    rows = row_of(indptr, np.int32)
    loops = np.flatnonzero(rows == indices)
    if loops.size:
        raise GraphError("vertex {rows} is its own neighbour; drop the loop", rows=rows[loops[0]])
    unsorted = np.flatnonzero((rows[1:] == rows[:-1]) & (indices[1:] <= indices[:-1]))
    if unsorted.size:
        raise GraphError(
            "the neighbours of vertex {rows} are not ascending; sort them and drop duplicates", rows=rows[unsorted[0]]
        )
    reverse_indptr, reverse = transpose_rows(indptr, indices, n)
    if not (np.array_equal(reverse_indptr, indptr) and np.array_equal(reverse, indices)):
        one_way = np.setdiff1d(row_keys(indptr, indices), row_keys(reverse_indptr, reverse))
        u, v = divmod(int(one_way[0]), 1 << 32)
        raise GraphError(
            "vertex {v} is a neighbour of {u}, but {u} is not one of {v}; give edges in both directions", v=v, u=u
        )
