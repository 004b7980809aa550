"""Elimination orders of undirected graphs, and their bags."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from remat_algos.arguments import as_seed, checked_arguments
from remat_algos.errors import GraphError
from remat_algos.ir.arrays import Int32, Int64, brief, by_fields, check_indptr, frozen, row, row_of
from remat_algos.kernels.elimination import (
    DEGREE,
    DENSITY,
    DONE,
    FILL,
    GOING_ON,
    RATIO,
    STEEP_RATIO,
    EliminationRun,
    elimination_bags,
)
from remat_algos.structure.undirected import UndirectedGraph, check_undirected

RULES = ("fill", "degree")
RATIOS = ("ratio", "steep_ratio", "density")
"""Rules that are far better than the others on some graphs, and far worse on others."""
_CODES = {"fill": FILL, "degree": DEGREE, "ratio": RATIO, "steep_ratio": STEEP_RATIO, "density": DENSITY}
WORK = 4_000_000
"""Entries read between two looks at the clock: about some hundredths of a second."""


@dataclass(frozen=True, slots=True, eq=False)
class Elimination:
    """An elimination order and its bags.

    Parameters
    ----------
    order : int32[k]
        The vertices, each once. A search that was cut short may leave some out: they are all in the last bag.
    bag_indptr : int64[k + 1]
    bag_indices : int32[b]
        Row i: `order[i]`, then its neighbours when it was eliminated.
    fill_in : int
        Number of edges added to make the neighbours of each vertex a clique.

    Examples
    --------
    A cycle of four, 0 - 1 - 2 - 3 - 0; without vertex 0 its neighbours 1 and 3 are joined.

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
            raise GraphError("row i of the bags begins with the i-th vertex of the order")
        if self.bag_indices.size and not 0 <= self.bag_indices.min() <= self.bag_indices.max() < n:
            raise GraphError("a bag contains an unknown vertex; vertices are 0 to {n!w}", n=n - 1)
        before = row_of(self.bag_indptr) > place[self.bag_indices]
        if before.any():
            at = int(np.argmax(before))
            bag = int(np.searchsorted(self.bag_indptr, at, side="right")) - 1
            raise GraphError(
                "bag {bag!w} contains vertex {bag_indices!w}, which was eliminated before",
                bag=bag,
                bag_indices=self.bag_indices[at],
            )
        if isinstance(self.fill_in, bool) or not isinstance(self.fill_in, int | np.integer):
            raise GraphError("fill_in is {fill_in!r}; give a whole number of edges", fill_in=self.fill_in)

    @property
    def width(self) -> int:
        """Size of the largest bag minus 1; -1 without vertices."""
        return int(np.diff(self.bag_indptr).max(initial=0)) - 1

    def bag(self, i: int) -> list[int]:
        """Return the i-th vertex of the order, then its neighbours when it was eliminated."""
        return row(self.bag_indptr, self.bag_indices, i, "bag")


@checked_arguments
def eliminate(
    graph: UndirectedGraph, rule: str = "fill", *, seed: int | None = None, look: Callable[[], None] | None = None
) -> Elimination:
    """Eliminate greedily, always the vertex of minimum fill, or of minimum degree.

    Parameters
    ----------
    graph : UndirectedGraph
    rule : str
        Choice of the next vertex, by its degree d and its fill f, the number of pairs of its neighbours that are not
        joined: minimum "fill" f, "degree" d, "ratio" f / (d + 1), "steep_ratio" f / (d + 1)^1.5 or
        "density" f / (d + 1)^2.
    seed : int, optional
        Ties go by a random rank of the vertices; by default the smallest degree, then the smallest id, wins.
    look : callable, optional
        Called every few hundredths of a second; an exception ends the elimination.

    Returns
    -------
    Elimination

    Raises
    ------
    GraphError
        If the rule is unknown.

    Examples
    --------
    The leaves of a star with 0 in the middle go first.

    >>> eliminate(UndirectedGraph.from_edges(4, [(0, 1), (0, 2), (0, 3)])).order.tolist()
    [1, 2, 0, 3]
    """
    run = Run(graph, rule, seed)
    while run.go_on():
        if look is not None:
            look()
    return run.elimination()


class Run:
    """An elimination by a rule that may be interrupted (`eliminate`); it stops once the width reaches `below`."""

    def __init__(self, graph: UndirectedGraph, rule: str, seed: int | None, below: int | None = None) -> None:
        check_undirected(graph)
        if rule not in _CODES:
            raise GraphError("unknown elimination rule {rule!r}; use {codes!w}", rule=rule, codes=", ".join(_CODES))
        self._n_vertices = n = graph.n_vertices
        rank = np.arange(n) if seed is None else np.random.default_rng(as_seed(seed)).permutation(n)
        self._kernel = EliminationRun(
            graph.indptr,
            graph.indices,
            rank.astype(np.int32),
            _CODES[rule],
            seed is None,
            n if below is None else below,
        )
        self.state = GOING_ON

    def go_on(self) -> bool:
        """Eliminate for some hundredths of a second; return True if unfinished."""
        self.state = self._kernel.run(WORK)
        return self.state == GOING_ON

    @property
    def done(self) -> bool:
        """True if all vertices are eliminated."""
        return self.state == DONE

    def elimination(self) -> Elimination:
        """Return the order and the bags after the last step."""
        return Elimination(*self._kernel.result())

    def partial_order(self) -> Int32:
        """int32[k]: the vertices eliminated so far, and the next one if any."""
        order: Int32 = self._kernel.result()[0]
        left = np.ones(self._n_vertices, bool)
        left[order] = False
        return np.append(order, np.flatnonzero(left)[:1]).astype(np.int32)


def elimination_of(graph: UndirectedGraph, order: ArrayLike) -> Elimination:
    """Return the bags of an order, int32[n], of all vertices; GraphError if it omits or repeats one.

    Examples
    --------
    >>> path = UndirectedGraph.from_edges(3, [(0, 1), (1, 2)])
    >>> elimination_of(path, [1, 0, 2]).width, elimination_of(path, [0, 1, 2]).width
    (2, 1)
    """
    check_undirected(graph)
    vertices = frozen(order, np.int32, "order", graph.n_vertices)
    _places(vertices, graph.n_vertices)
    return partial_elimination(graph, vertices)


def partial_elimination(graph: UndirectedGraph, order: Int32) -> Elimination:
    """Return the bags of an order of some vertices; all others are in the last bag."""
    bag_indptr, bags = elimination_bags(graph.indptr, graph.indices, order)
    left = graph.n_vertices - order.size
    joined = bags.size - order.size + left * (left - 1) // 2  # pairs within bags
    return Elimination(order, bag_indptr, bags, joined - graph.n_edges)


def _places(order: Int32, n: int) -> Int64:
    """int64[n]: the place of each vertex in an order, missing ones last; GraphError for a repeated one."""
    place = np.full(n, order.size - 1)
    if (n and not 0 <= order.min() <= order.max() < n) or np.unique(order).size < order.size:
        raise GraphError("an elimination order must name each of the vertices 0 to {n} once", n=n - 1)
    place[order] = np.arange(order.size)
    return place
