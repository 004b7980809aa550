"""Tree and path decompositions (kumar2019), vertex layouts that give path decompositions, and spines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from remat_algos.arguments import as_list, as_whole_number, checked_arguments
from remat_algos.errors import ArgumentTypeError, GraphError
from remat_algos.ir.arrays import (
    Int32,
    Int64,
    brief,
    by_fields,
    check_indptr,
    frozen,
    gather_rows,
    group_rows,
    indptr_of,
    row_of,
)
from remat_algos.ir.graph import ComputationGraph
from remat_algos.kernels import decomposition as kernel
from remat_algos.structure import tuning
from remat_algos.structure.elimination import RULES, Bags, Elimination, UndirectedGraph, check_undirected, eliminate


@dataclass(frozen=True, slots=True, eq=False)
class TreeDecomposition(Bags):
    """A tree decomposition: each edge lies within a bag, and the bags that contain a vertex form a subtree.

    Parameters
    ----------
    bag_indptr : int64[b + 1]
        The vertices of bag i are the range bag_indptr[i]:bag_indptr[i + 1].
    bag_indices : int32[total]
        The vertices of each bag, ascending.
    parent : int32[b]
        The parent of each bag, -1 for the root; bags may be in any order.

    Raises
    ------
    GraphError
        If the arrays do not match, a bag is not ascending, or the parents do not form a tree.

    Examples
    --------
    A cycle of four, cut into two triangles::

        0 - 1          bags {0, 1, 2} - {1, 2, 3}
        |   |
        2 - 3

    >>> halves = TreeDecomposition([0, 3, 6], [0, 1, 2, 1, 2, 3], [-1, 0])
    >>> halves.width, halves.bag(1), halves.edges().tolist()
    (2, [1, 2, 3], [[0, 1]])
    >>> halves.verify(UndirectedGraph.from_edges(4, [(0, 1), (0, 2), (1, 3), (2, 3)]))
    """

    bag_indptr: Int64
    bag_indices: Int32
    parent: Int32

    __repr__ = brief
    __reduce__ = by_fields

    def __post_init__(self) -> None:
        object.__setattr__(self, "bag_indptr", frozen(self.bag_indptr, np.int64, "bag_indptr"))
        object.__setattr__(self, "bag_indices", frozen(self.bag_indices, np.int32, "bag_indices"))
        object.__setattr__(self, "parent", frozen(self.parent, np.int32, "parent"))
        check_indptr(self.bag_indptr, self.parent.size, self.bag_indices.size, "bag_indptr")
        fault, bag = kernel.first_fault(self.bag_indptr, self.bag_indices, self.parent)
        if fault == kernel.NOT_ASCENDING:
            raise GraphError(
                "bag {bag:d} is {vertices!w}; give its vertices in ascending order, numbered from 0, each once",
                bag=bag,
                vertices=self.bag(bag),
            )
        if fault == kernel.NO_TREE:
            raise GraphError(
                "bag {bag:d} has the parent {parent}; parents must form a tree with one root, whose parent is -1",
                bag=bag,
                parent=self.parent[bag],
            )

    @classmethod
    @checked_arguments
    def of(cls, elimination: Elimination) -> TreeDecomposition:
        """Return the tree of the bags of an elimination order, one bag per vertex.

        The bag of a vertex v consists of v and its neighbours at the time of its elimination. The parent of this bag is
        the bag of the neighbour that is eliminated first. If there are several roots, the first becomes the parent of
        the others.

        Examples
        --------
        >>> from remat_algos.structure.elimination import elimination_of
        >>> path = UndirectedGraph.from_edges(3, [(0, 1), (1, 2)])
        >>> TreeDecomposition.of(elimination_of(path, [0, 2, 1])).parent.tolist()
        [2, 2, -1]
        """
        if not hasattr(elimination, "bag_indptr") or not hasattr(elimination, "order"):
            raise ArgumentTypeError(
                "a {kind!w} is not an Elimination; give eliminate(graph)", kind=type(elimination).__name__
            )
        bags = elimination.bag_indptr, elimination.bag_indices
        return cls(bags[0], *kernel.bags_to_tree(elimination.order, *bags))

    @classmethod
    @checked_arguments
    def from_bags(cls, bags: Iterable[Iterable[int]], edges: Iterable[tuple[int, int]]) -> TreeDecomposition:
        """Return the tree with these bags and edges; bag 0 is the root.

        Edges are pairs of indices into the list of bags. Raise GraphError if they do not form a tree of all bags.

        Examples
        --------
        >>> TreeDecomposition.from_bags([{1, 2}, {0, 1}, {2, 3}], [(0, 1), (2, 0)]).parent.tolist()
        [-1, 0, 0]
        """
        rows = [sorted(set(bag)) for bag in bags]
        indptr = indptr_of(list(map(len, rows)))
        indices = frozen([v for row in rows for v in row], np.int32, "bags")
        return cls(indptr, indices, _parents(len(rows), list(edges)))

    def edges(self) -> Int32:
        """int32[b - 1, 2]: the edges (i, j) of the tree, i < j, ascending."""
        below = np.flatnonzero(self.parent >= 0).astype(np.int32)
        pairs = np.sort(np.stack([below, self.parent[below]], axis=1), axis=1)
        return pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]

    @checked_arguments
    def check_vertices(self, n_vertices: int) -> None:
        """Raise GraphError if a bag contains a vertex id of `n_vertices` or more."""
        if self.bag_indices.max(initial=-1) >= n_vertices:
            place = int(np.argmax(self.bag_indices >= n_vertices))
            bag = int(np.searchsorted(self.bag_indptr, place, side="right")) - 1
            raise GraphError(
                "bag {bag} contains vertex {bag_indices}, but the graph has the vertices 0 to {last}; the "
                "decomposition is for another graph",
                bag=bag,
                bag_indices=self.bag_indices[place],
                last=n_vertices - 1,
            )

    @checked_arguments
    def verify(self, graph: UndirectedGraph) -> None:
        """Check the three conditions of a tree decomposition of the graph.

        (i) Each vertex is in a bag. (ii) For each edge, some bag contains both of its vertices. (iii) The bags that
        contain a vertex are connected in the tree. Raise GraphError if a condition is violated or a vertex is unknown.

        References
        ----------
        kumar2019, section 2.2.

        Examples
        --------
        >>> halves = TreeDecomposition.from_bags([[0, 1], [1, 2]], [(0, 1)])
        >>> halves.verify(UndirectedGraph.from_edges(3, [(0, 1), (0, 2)]))
        Traceback (most recent call last):
        remat_algos.errors.GraphError: condition (ii) is violated: no bag contains both vertices of the edge 0 - 2
        """
        check_undirected(graph)
        self.check_vertices(graph.n_vertices)
        bags = self.bag_indptr, self.bag_indices, self.parent
        law, *who = kernel.broken_law(*bags, indptr=graph.indptr, indices=graph.indices)
        if law == kernel.VERTEX:
            raise GraphError("condition (i) is violated: vertex {vertex} is in no bag", vertex=who[0])
        if law == kernel.EDGE:
            raise GraphError(
                "condition (ii) is violated: no bag contains both vertices of the edge {vertex} - {other}",
                vertex=who[0],
                other=who[1],
            )
        if law == kernel.CONNECTED:
            raise GraphError(
                "condition (iii) is violated: vertex {vertex} is in bags {bag} and {other}, but not in all bags "
                "between them",
                vertex=who[0],
                bag=who[1],
                other=who[2],
            )

    def reduce(self) -> TreeDecomposition:
        """Remove every bag that is a subset of a neighbouring bag.

        The width and the order of the bags do not change. At most one bag per vertex remains, and at least one in all.

        References
        ----------
        kumar2019, lemma 1.

        Examples
        --------
        >>> TreeDecomposition.from_bags([[0, 1], [1], [1, 2]], [(0, 1), (1, 2)]).reduce().edges().tolist()
        [[0, 1]]
        """
        kept, parent = kernel.shrink_bags(self.bag_indptr, self.bag_indices, self.parent)
        return TreeDecomposition(*gather_rows(self.bag_indptr, self.bag_indices, kept), parent)


def _parents(n_bags: int, edges: list[tuple[int, int]]) -> Int32:
    pairs = [as_list(edge, f"edges[{k}]", as_whole_number) for k, edge in enumerate(edges)]
    if any(len(pair) != 2 for pair in pairs):
        raise GraphError("the edges of the tree are not pairs of indices into the list of bags; give [(0, 1), ...]")
    for i, j in pairs:
        if not (0 <= i < n_bags and 0 <= j < n_bags):
            raise GraphError(
                "edge {i} {j} of the tree names an unknown bag; bags are 0 to {last}", i=i, j=j, last=n_bags - 1
            )
    if len(edges) != max(0, n_bags - 1):
        raise GraphError(
            "{n_bags:bag} need {expected:edge}, found {n_edges}",
            n_bags=n_bags,
            expected=max(0, n_bags - 1),
            n_edges=len(edges),
        )
    parent: Int32 = kernel.root_tree(n_bags, np.array(edges, np.int32).reshape(-1, 2))
    apart = np.flatnonzero(parent == -2)
    if apart.size:
        raise GraphError("no path leads from bag 0 to bag {apart}; connect all bags, without a cycle", apart=apart[0])
    return parent


def spine(graph: ComputationGraph, path: PathDecomposition) -> tuple[Int32, PathDecomposition]:
    """Return a topological order u_1 .. u_n, and a path decomposition of the graph plus the edges (u_i, u_(i+1)).

    The next node is always the ready node whose first bag is leftmost. The new width is at most 2 w + 1. The idea is
    from kumar2019, section 5; the construction and the bound are original (docs/theory/path_decompositions.md).
    """
    path.verify(UndirectedGraph.of(graph))
    first, last = condensed(*path.spans(graph.n_nodes))
    indptr, _ = graph.predecessors
    order = kernel.leftmost_topological_order(indptr, *graph.successors, first)
    before, after = order[:-1], order[1:]
    last[before] = np.maximum(last[before], first[after])
    order.setflags(write=False)
    return order, PathDecomposition.from_spans(first, last)


@dataclass(frozen=True, slots=True, eq=False)
class PathDecomposition(Bags):
    """A path decomposition: each edge lies within a bag, and each vertex is in consecutive bags.

    Parameters
    ----------
    bag_indptr : int64[b + 1]
        The vertices of bag i are the range bag_indptr[i]:bag_indptr[i + 1].
    bag_indices : int32[total]
        The vertices of each bag, ascending.

    Raises
    ------
    GraphError
        If the arrays do not match, or a bag is not ascending.

    Examples
    --------
    A chain, and a vertex attached to its middle::

        0 - 1 - 2 and 1 - 3          bags {0, 1} - {1, 2} - {1, 3}

    >>> graph = UndirectedGraph.from_edges(4, [(0, 1), (1, 2), (1, 3)])
    >>> path = PathDecomposition.of(graph, [0, 1, 2, 3])
    >>> [path.bag(i) for i in range(path.n_bags)], path.width
    ([[0, 1], [1, 2], [1, 3]], 1)
    """

    bag_indptr: Int64
    bag_indices: Int32

    __repr__ = brief
    __reduce__ = by_fields

    def __post_init__(self) -> None:
        object.__setattr__(self, "bag_indptr", frozen(self.bag_indptr, np.int64, "bag_indptr"))
        object.__setattr__(self, "bag_indices", frozen(self.bag_indices, np.int32, "bag_indices"))
        self.tree()

    @classmethod
    @checked_arguments
    def of(cls, graph: UndirectedGraph, layout: ArrayLike) -> PathDecomposition:
        """Return the bags of a layout. The bag of v contains v and each vertex before v with a neighbour at or after v.

        Bags that are subsets of a neighbouring bag are removed. The width is the vertex separation of the layout: the
        maximum number of placed vertices with unplaced neighbours. Raise GraphError if the layout is not a permutation.
        """
        return cls.from_spans(*kernel.layout_spans(graph.indptr, graph.indices, _checked(graph, layout)))

    @classmethod
    def from_spans(cls, first: Int64, last: Int64) -> PathDecomposition:
        """Return the path with vertex v in bags first[v] to last[v]; remove bags that are subsets of a neighbour.

        Examples
        --------
        >>> PathDecomposition.from_spans(np.array([0, 1, 1]), np.array([2, 1, 3])).bag_indices.tolist()
        [0, 1, 2]
        """
        first = frozen(first, np.int64, "first")
        last = frozen(last, np.int64, "last", first.size)
        wrong = np.flatnonzero((first < 0) | (last < first))
        if wrong.size:
            v = int(wrong[0])
            raise GraphError(
                "vertex {v!w} is in the bags {first:d} to {last:d}; the first must be 0 or more, and at most the last",
                v=v,
                first=first[v],
                last=last[v],
            )
        first, last = condensed(first, last)
        lengths = last - first + 1
        vertices = np.repeat(np.arange(first.size, dtype=np.int32), lengths)
        starts = np.cumsum(lengths) - lengths
        bags = np.arange(vertices.size) + np.repeat(first - starts, lengths)
        return cls(*group_rows(bags, vertices, 0))

    @checked_arguments
    def spans(self, n_vertices: int) -> tuple[Int64, Int64]:
        """Return the first and the last bag of each vertex, int64[n] each; -1 for a vertex in no bag.

        Raise GraphError if a bag contains a vertex id of `n_vertices` or more.
        """
        if n_vertices < 0:
            raise GraphError("n_vertices is {n_vertices}; give 0 or more", n_vertices=n_vertices)
        self.tree().check_vertices(n_vertices)
        first, last = np.full(n_vertices, -1), np.full(n_vertices, -1)
        bags = row_of(self.bag_indptr)
        last[self.bag_indices] = bags  # the last bag wins
        first[self.bag_indices[::-1]] = bags[::-1]
        return first, last

    def tree(self) -> TreeDecomposition:
        """Return the same bags as a tree decomposition, in which each bag is the child of the previous one."""
        return TreeDecomposition(self.bag_indptr, self.bag_indices, np.arange(-1, self.n_bags - 1, dtype=np.int32))

    @checked_arguments
    def verify(self, graph: UndirectedGraph) -> None:
        """Check the three conditions of a tree decomposition, as `TreeDecomposition.verify` does."""
        self.tree().verify(graph)


def greedy_layout(
    graph: UndirectedGraph, random: np.random.Generator | None = None, *, look: Callable[[], None] | None = None
) -> Int32:
    """Find an order of the vertices, int32[n], whose prefixes have few vertices with later neighbours.

    The boundary of a prefix consists of its vertices with later neighbours. Several orders are improved: ids,
    breadth-first orders and elimination orders. An elimination order of width w is rearranged branch by branch; its
    largest boundary is then at most (w + 1)(1 + log2 n). Elimination orders are skipped on a large graph if every other
    order has a boundary of more than a sixteenth of the vertices. `look` may raise between portions of the work.
    """
    n = graph.n_vertices
    best = _best(graph, _sweeps(graph, _start_vertices(graph, random)), (np.arange(n, dtype=np.int32), n), look)
    if n <= tuning.SMALL_GRAPH or best[1] * tuning.NARROW <= n:
        best = _best(graph, _tree_orders(graph, look), best, look)
    return best[0]


def _best(
    graph: UndirectedGraph, orders: Iterable[Int32], best: tuple[Int32, int], look: Callable[[], None] | None
) -> tuple[Int32, int]:
    return min([best, *(_improved(graph, order, look) for order in orders)], key=lambda layout: layout[1])


def _sweeps(graph: UndirectedGraph, starts: Iterable[int]) -> Iterator[Int32]:
    ids = np.arange(graph.n_vertices, dtype=np.int32)
    yield ids
    yield ids[::-1].copy()
    for start in starts:
        yield kernel.breadth_first_layout(graph.indptr, graph.indices, start)


def _tree_orders(graph: UndirectedGraph, look: Callable[[], None] | None) -> Iterator[Int32]:
    for rule in RULES:
        elimination = eliminate(graph, rule, look=look)
        yield elimination.order
        yield kernel.branch_layout(elimination.order, elimination.bag_indptr, elimination.bag_indices)


def _start_vertices(graph: UndirectedGraph, random: np.random.Generator | None) -> list[int]:
    n = graph.n_vertices
    if not n:
        return []
    least = int(np.argmin(graph.degree))
    furthest = int(kernel.breadth_first_layout(graph.indptr, graph.indices, least)[-1])
    others = (random or np.random.default_rng(0)).permutation(n)[: tuning.STARTS].tolist()
    return list(dict.fromkeys([least, furthest, 0, n - 1, *others]))[: tuning.STARTS]


def _improved(graph: UndirectedGraph, order: Int32, look: Callable[[], None] | None) -> tuple[Int32, int]:
    """Improve `order` from both ends; return it and its largest boundary (docs/theory/path_decompositions.md)."""
    best, least, idle = order, graph.n_vertices, 0
    while idle < tuning.IDLE_ROUNDS:
        if look is not None:
            look()
        order, largest = kernel.place_early(graph.indptr, graph.indices, order)
        idle += 1
        if largest < least:
            best, least, idle = order, largest, 0
        first, last = kernel.layout_spans(graph.indptr, graph.indices, order)
        order = np.lexsort((-first, -last)).astype(np.int32)
    return best, least


def separation(graph: UndirectedGraph, layout: ArrayLike) -> int:
    """Return the vertex separation of an order: its largest boundary, which is also the width of its bags."""
    first, last = kernel.layout_spans(graph.indptr, graph.indices, _checked(graph, layout))
    n = graph.n_vertices
    return int(np.cumsum(np.bincount(first, minlength=n) - np.bincount(last, minlength=n)).max(initial=0))


def _checked(graph: UndirectedGraph, layout: ArrayLike) -> Int32:
    check_undirected(graph)
    order: Int32 = frozen(layout, np.int32, "layout", graph.n_vertices)
    if not np.array_equal(np.sort(order), np.arange(graph.n_vertices)):
        raise GraphError("a layout must name each of the vertices 0 to {last} once", last=graph.n_vertices - 1)
    return order


def condensed(first: Int64, last: Int64) -> tuple[Int64, Int64]:
    """Remove every bag that is a subset of a neighbouring bag; return the renumbered first and last bags of vertices.

    A bag is called "closing" if it is the last bag of some vertex. A closing bag is kept if the first bag of a vertex
    comes after the previous closing bag, but not after this bag. All other bags are removed.
    """
    ends = np.unique(last)
    first, last = np.searchsorted(ends, first), np.searchsorted(ends, last)
    begins = np.unique(first)
    return np.searchsorted(begins, first), np.searchsorted(begins, last, side="right") - 1
