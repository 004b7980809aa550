"""Undirected graphs and their elimination orders."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from remat_algos.arguments import as_seed, check_kind, checked_arguments
from remat_algos.errors import GraphError
from remat_algos.ir.arrays import Int32, Int64, brief, by_fields, check_indptr, frozen, row, row_keys, row_of, whole
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.tables import checked_pairs
from remat_algos.kernels import elimination as kernel
from remat_algos.kernels.graph import transpose_rows
from remat_algos.rules import RuleKind
from remat_algos.structure import tuning


@dataclass(frozen=True, slots=True, eq=False)
class UndirectedGraph:
    """An undirected graph without loops or parallel edges.

    Parameters
    ----------
    indptr : int64[n + 1]
    indices : int32[2 m]
        Row v contains the neighbours of vertex v, ascending.

    Raises
    ------
    GraphError
        If the arrays are invalid. The message names the violated rule and the vertex.

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

    @classmethod
    @checked_arguments
    def from_edges(cls, n_vertices: int, edges: Iterable[tuple[int, int]] | ArrayLike) -> "UndirectedGraph":
        """Make a graph from pairs of vertices; drop loops and duplicates. Raise GraphError if a vertex is unknown."""
        pairs = checked_pairs(edges)
        n_vertices = whole(n_vertices, "n_vertices")
        if n_vertices < 0:
            raise GraphError("n_vertices is {n_vertices}; give 0 or more", n_vertices=n_vertices)
        if pairs.dtype.kind not in "iu":
            raise GraphError("edges must be pairs (u, v) of vertex ids; number the vertices from 0")
        outside = pairs[(pairs < 0) | (pairs >= n_vertices)]
        if outside.size:
            raise GraphError(
                "an edge names vertex {outside}; the {n_vertices} vertices are numbered from 0",
                outside=outside[0],
                n_vertices=n_vertices,
            )
        pairs = pairs[pairs[:, 0] != pairs[:, 1]]
        both = np.concatenate([pairs, pairs[:, ::-1]])
        # Sort the keys: np.unique would hash them, which takes fifty times as long for a million edges.
        keys = np.sort(both[:, 0] << 32 | both[:, 1])
        keys = keys[np.append(True, keys[1:] != keys[:-1])[: keys.size]]
        indptr = np.searchsorted(keys, np.arange(n_vertices + 1) << 32)
        return cls(indptr, (keys & 0xFFFFFFFF).astype(np.int32))

    @classmethod
    @checked_arguments
    def of(cls, graph: ComputationGraph) -> "UndirectedGraph":
        """Return the underlying undirected graph: nodes are adjacent if one reads a value of the other.

        Examples
        --------
        >>> UndirectedGraph.of(ComputationGraph.from_edges([(0, 1), (0, 2), (1, 2)])).edges().tolist()
        [[0, 1], [0, 2], [1, 2]]
        """
        indptr, sources = graph.predecessors
        readers = row_of(indptr)
        return cls.from_edges(graph.n_nodes, np.stack([sources, readers], axis=1))

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
    check_kind(graph, UndirectedGraph, "graph")


def _check(indptr: Int64, indices: Int32) -> None:
    n = max(indptr.shape[0] - 1, 0)
    check_indptr(indptr, n, indices.shape[0], "indptr")
    outside = indices[(indices < 0) | (indices >= n)]
    if outside.size:
        raise GraphError(
            "a row contains vertex {outside}; the {n} vertices are numbered from 0", outside=outside[0], n=n
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


RULES = ("fill", "degree")
RATIOS = ("ratio", "steep_ratio", "density")
"""Rules that, depending on the graph, are much better or much worse than the other rules."""
ELIMINATION_RULES = RuleKind(
    "elimination rule",
    ("degree", "fill", "components", "eliminated"),
    {
        "fill": ("fill",),
        "degree": ("degree",),
        "ratio": ("degree", "fill"),
        "steep_ratio": ("degree", "fill"),
        "density": ("degree", "fill"),
    },
)


class Bags:
    """A list of vertex sets in CSR form; bag i is `bag_indices[bag_indptr[i]:bag_indptr[i + 1]]`."""

    __slots__ = ()
    bag_indptr: Int64
    bag_indices: Int32

    @property
    def n_bags(self) -> int:
        """Number of bags."""
        return int(self.bag_indptr.shape[0] - 1)

    @property
    def width(self) -> int:
        """Size of the largest bag minus 1, or -1 without bags."""
        return int(np.diff(self.bag_indptr).max(initial=0)) - 1

    def bag(self, i: int) -> list[int]:
        """Return the vertices of bag i."""
        return row(self.bag_indptr, self.bag_indices, i, "bag")


@dataclass(frozen=True, slots=True, eq=False)
class Elimination(Bags):
    """An elimination order and its bags.

    Parameters
    ----------
    order : int32[k]
        The vertices, each once. If the search was interrupted, some may be missing; these are all in the last bag.
    bag_indptr : int64[k + 1]
    bag_indices : int32[b]
        Row i contains `order[i]`, followed by its neighbours at the time of its elimination.
    fill_in : int
        Number of edges added to make the neighbours of each vertex a clique.

    Examples
    --------
    A cycle of four, 0 - 1 - 2 - 3 - 0; eliminating vertex 0 joins its neighbours 1 and 3.

    >>> cycle = UndirectedGraph.from_edges(4, [(0, 1), (1, 2), (2, 3), (3, 0)])
    >>> found = elimination_of(cycle, [0, 1, 2, 3])
    >>> [sorted(found.bag(i)) for i in range(4)], found.width, found.fill_in
    ([[0, 1, 3], [1, 2, 3], [2, 3], [3]], 2, 1)
    """

    order: Int32
    bag_indptr: Int64
    bag_indices: Int32
    fill_in: int

    __repr__ = brief
    __reduce__ = by_fields

    def __post_init__(self) -> None:
        for name, dtype in (("order", np.int32), ("bag_indptr", np.int64), ("bag_indices", np.int32)):
            object.__setattr__(self, name, frozen(getattr(self, name), dtype, name))
        k = self.order.size
        check_indptr(self.bag_indptr, k, self.bag_indices.size, "bag_indptr")
        n = k + max(0, int(np.diff(self.bag_indptr[-2:])[0]) - 1) if k else 0
        place = _places(self.order, n)
        if (np.diff(self.bag_indptr) < 1).any() or (self.bag_indices[self.bag_indptr[:-1]] != self.order).any():
            raise GraphError("row i of the bags must begin with the i-th vertex of the order")
        if self.bag_indices.size and not 0 <= self.bag_indices.min() <= self.bag_indices.max() < n:
            raise GraphError("a bag contains an unknown vertex; vertices are 0 to {n!w}", n=n - 1)
        before = row_of(self.bag_indptr) > place[self.bag_indices]
        if before.any():
            at = int(np.argmax(before))
            bag = int(np.searchsorted(self.bag_indptr, at, side="right")) - 1
            raise GraphError(
                "bag {bag!w} contains vertex {bag_indices!w}, which was eliminated earlier",
                bag=bag,
                bag_indices=self.bag_indices[at],
            )
        if isinstance(self.fill_in, bool) or not isinstance(self.fill_in, int | np.integer):
            raise GraphError("fill_in is {fill_in!r}; give a whole number of edges", fill_in=self.fill_in)


@checked_arguments
def eliminate(
    graph: UndirectedGraph, rule: Any = "fill", *, seed: int | None = None, look: Callable[[], None] | None = None
) -> Elimination:
    """Eliminate vertices greedily: always the vertex with the minimum score, such as its degree.

    Parameters
    ----------
    graph : UndirectedGraph
    rule : str, function or scipy.LowLevelCallable
        The score. Let d be the degree of a vertex, and f its fill-in, the number of non-adjacent pairs of neighbours.
        "fill" is f, "degree" is d, "ratio" is f / (d + 1), "steep_ratio" is f / (d + 1)^1.5, and "density" is
        f / (d + 1)^2. A function takes one or more of these arguments, by name: degree; fill; components, the number
        of components of the remaining graph without the vertex and its neighbours; eliminated, the number of
        eliminated vertices. With one of the last two, a step takes time proportional to the whole graph.
    seed : int, optional
        Seed of a random permutation of the vertices that breaks ties. By default, ties go to the smaller degree, then
        to the smaller id.
    look : callable, optional
        Called every few hundredths of a second; an exception stops the elimination.

    Returns
    -------
    Elimination

    Raises
    ------
    ValueError
        If the rule is unknown, raises an exception, returns NaN, or is not deterministic.

    Examples
    --------
    The leaves of a star with centre 0 go first, until only two vertices remain.

    >>> eliminate(UndirectedGraph.from_edges(4, [(0, 1), (0, 2), (0, 3)])).order.tolist()
    [1, 2, 0, 3]
    """
    run = Run(graph, rule, None if seed is None else np.random.default_rng(as_seed(seed)))
    while run.go_on():
        if look is not None:
            look()
    return run.elimination()


class Run:
    """A greedy elimination, as in `eliminate`, that can be paused and stops at width `below`; `ties` may be random."""

    def __init__(
        self, graph: UndirectedGraph, rule: Any, ties: np.random.Generator | None, below: int | None = None
    ) -> None:
        check_undirected(graph)
        self._rule = ELIMINATION_RULES.rule(rule)
        self._n_vertices = n = graph.n_vertices
        rank = np.arange(n) if ties is None else ties.permutation(n)
        rank, below = rank.astype(np.int32), n if below is None else below
        with ELIMINATION_RULES.faults(self._rule):
            self._kernel = kernel.EliminationRun(graph.indptr, graph.indices, rank, self._rule, ties is None, below)
        self.state = kernel.GOING_ON

    def go_on(self) -> bool:
        """Continue for a few hundredths of a second; return True if work is left."""
        with ELIMINATION_RULES.faults(self._rule):
            self.state = self._kernel.run(tuning.FILL_WORK)
        return self.state == kernel.GOING_ON

    @property
    def done(self) -> bool:
        return self.state == kernel.DONE

    def elimination(self) -> Elimination:
        """Return the eliminated vertices and their bags."""
        return Elimination(*self._kernel.result())

    def partial_order(self) -> Int32:
        """Return the eliminated vertices and one more vertex, if any is left, int32[k]."""
        order: Int32 = self._kernel.result()[0]
        left = np.ones(self._n_vertices, bool)
        left[order] = False
        return np.append(order, np.flatnonzero(left)[:1]).astype(np.int32)


def elimination_of(graph: UndirectedGraph, order: ArrayLike) -> Elimination:
    """Return the elimination in the given order, int32[n]. Raise GraphError if the order is not a permutation."""
    check_undirected(graph)
    vertices = frozen(order, np.int32, "order", graph.n_vertices)
    _places(vertices, graph.n_vertices)
    return partial_elimination(graph, vertices)


def partial_elimination(graph: UndirectedGraph, order: Int32) -> Elimination:
    """Return the elimination of the vertices in `order`; the last bag contains all other vertices."""
    bag_indptr, bags = kernel.elimination_bags(graph.indptr, graph.indices, order)
    left = graph.n_vertices - order.size
    # Count the adjacent pairs after fill-in: each vertex with every other vertex of its bag, and all pairs of remaining
    # vertices.
    joined = bags.size - order.size + left * (left - 1) // 2
    return Elimination(order, bag_indptr, bags, joined - graph.n_edges)


def _places(order: Int32, n: int) -> Int64:
    """Return the position of each vertex in an order, int64[n]; missing vertices share the last position."""
    place = np.full(n, order.size - 1)
    if (n and not 0 <= order.min() <= order.max() < n) or np.unique(order).size < order.size:
        raise GraphError("an elimination order must name each of the vertices 0 to {n} once", n=n - 1)
    place[order] = np.arange(order.size)
    return place
