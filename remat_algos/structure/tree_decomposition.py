"""Tree decompositions (kumar2019)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from remat_algos.arguments import as_list, as_whole_number, checked_arguments
from remat_algos.errors import ArgumentTypeError, GraphError
from remat_algos.ir.arrays import Int32, Int64, brief, by_fields, check_indptr, frozen, gather_rows, indptr_of, row
from remat_algos.kernels.decomposition import (
    CONNECTED,
    EDGE,
    NO_TREE,
    NOT_ASCENDING,
    VERTEX,
    bags_to_tree,
    broken_law,
    first_fault,
    root_tree,
    shrink_bags,
)
from remat_algos.structure.elimination import UndirectedGraph, check_undirected

if TYPE_CHECKING:
    from remat_algos.structure.elimination import Elimination


@dataclass(frozen=True, slots=True, eq=False)
class TreeDecomposition:
    """A tree of bags of vertices: each edge lies in a bag, and the bags of a vertex are connected.

    Parameters
    ----------
    bag_indptr : int64[b + 1]
        The vertices of bag i are the range bag_indptr[i]:bag_indptr[i + 1].
    bag_indices : int32[total]
        The vertices of each bag, ascending.
    parent : int32[b]
        The bag that each bag hangs on, -1 for the root; any order.

    Raises
    ------
    GraphError
        If the arrays do not fit each other, a bag is not ascending, or the parents are not a tree.

    Examples
    --------
    A cycle of four, cut into two triangles:

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
        check_indptr(self.bag_indptr, self.n_bags, self.bag_indices.size, "bag_indptr")
        fault, bag = first_fault(self.bag_indptr, self.bag_indices, self.parent)
        if fault == NOT_ASCENDING:
            raise GraphError(
                "bag {bag:d} is {vertices!w}; give its vertices ascending, from 0, each once",
                bag=bag,
                vertices=self.bag(bag),
            )
        if fault == NO_TREE:
            raise GraphError(
                "bag {bag:d} hangs on {parent}, which makes no tree with one root, whose parent is -1",
                bag=bag,
                parent=self.parent[bag],
            )

    @classmethod
    @checked_arguments
    def of(cls, elimination: Elimination) -> TreeDecomposition:
        """Return the tree of the bags of an elimination order, one for each vertex.

        The parent of a bag is that of the first eliminated of its other vertices; other roots get the first root.

        Parameters
        ----------
        elimination : Elimination

        Returns
        -------
        TreeDecomposition

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
        return cls(bags[0], *bags_to_tree(elimination.order, *bags))

    @classmethod
    @checked_arguments
    def from_bags(cls, bags: Iterable[Iterable[int]], edges: Iterable[tuple[int, int]]) -> TreeDecomposition:
        """Return the tree of these bags, with edges as pairs of places in the list of bags; bag 0 is the root.

        Parameters
        ----------
        bags : iterable of iterables of int
        edges : iterable of pairs of int

        Returns
        -------
        TreeDecomposition

        Raises
        ------
        GraphError
            Unless the edges are a tree of all bags.

        Examples
        --------
        >>> TreeDecomposition.from_bags([{1, 2}, {0, 1}, {2, 3}], [(0, 1), (2, 0)]).parent.tolist()
        [-1, 0, 0]
        """
        rows = [sorted(set(bag)) for bag in bags]
        indptr = indptr_of(list(map(len, rows)))
        indices = frozen([v for row in rows for v in row], np.int32, "bags")
        return cls(indptr, indices, _parents(len(rows), list(edges)))

    @property
    def n_bags(self) -> int:
        """Number of bags."""
        return int(self.parent.shape[0])

    @property
    def width(self) -> int:
        """Size of the largest bag minus 1; -1 without bags."""
        return int(np.diff(self.bag_indptr).max(initial=0)) - 1

    def bag(self, i: int) -> list[int]:
        """Return the vertices of bag i, ascending."""
        return row(self.bag_indptr, self.bag_indices, i, "bag")

    def edges(self) -> Int32:
        """int32[b - 1, 2]: the tree's edges, i < j, ascending."""
        below = np.flatnonzero(self.parent >= 0).astype(np.int32)
        pairs = np.sort(np.stack([below, self.parent[below]], axis=1), axis=1)
        return pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]

    @checked_arguments
    def check_vertices(self, n_vertices: int) -> None:
        """Raise GraphError if a bag contains a vertex from `n_vertices` on."""
        if self.bag_indices.max(initial=-1) >= n_vertices:
            place = int(np.argmax(self.bag_indices >= n_vertices))
            bag = int(np.searchsorted(self.bag_indptr, place, side="right")) - 1
            raise GraphError(
                "bag {bag} contains vertex {bag_indices}, the graph's are 0 to {last}: this is the "
                "decomposition of another graph",
                bag=bag,
                bag_indices=self.bag_indices[place],
                last=n_vertices - 1,
            )

    @checked_arguments
    def verify(self, graph: UndirectedGraph) -> None:
        """Check the three laws of a decomposition of the graph.

        (i) Each vertex is in a bag. (ii) Each edge has both ends in one bag. (iii) The bags with a vertex are
        connected in the tree.

        Parameters
        ----------
        graph : UndirectedGraph

        Raises
        ------
        GraphError
            Names a broken law and where it is broken, or a vertex that the graph lacks.

        References
        ----------
        kumar2019, section 2.2.

        Examples
        --------
        >>> halves = TreeDecomposition.from_bags([[0, 1], [1, 2]], [(0, 1)])
        >>> halves.verify(UndirectedGraph.from_edges(3, [(0, 1), (0, 2)]))
        Traceback (most recent call last):
        remat_algos.errors.GraphError: law (ii) is broken: no bag contains both ends of the edge 0 - 2
        """
        check_undirected(graph)
        self.check_vertices(graph.n_vertices)
        bags = self.bag_indptr, self.bag_indices, self.parent
        law, *who = broken_law(*bags, indptr=graph.indptr, indices=graph.indices)
        if law == VERTEX:
            raise GraphError("law (i) is broken: vertex {vertex} is in no bag", vertex=who[0])
        if law == EDGE:
            raise GraphError(
                "law (ii) is broken: no bag contains both ends of the edge {vertex} - {other}",
                vertex=who[0],
                other=who[1],
            )
        if law == CONNECTED:
            raise GraphError(
                "law (iii) is broken: vertex {vertex} is in bags {bag} and {other}, but not in all bags between",
                vertex=who[0],
                bag=who[1],
                other=who[2],
            )

    def reduce(self) -> TreeDecomposition:
        """Drop bags inside a neighbour: the width is unchanged, with at most one bag for each vertex.

        The remaining bags keep their order; at least one remains.

        Returns
        -------
        TreeDecomposition

        References
        ----------
        kumar2019, lemma 1.

        Examples
        --------
        >>> TreeDecomposition.from_bags([[0, 1], [1], [1, 2]], [(0, 1), (1, 2)]).reduce().edges().tolist()
        [[0, 1]]
        """
        kept, parent = shrink_bags(self.bag_indptr, self.bag_indices, self.parent)
        return TreeDecomposition(*gather_rows(self.bag_indptr, self.bag_indices, kept), parent)


def _parents(n_bags: int, edges: list[tuple[int, int]]) -> Int32:
    """int32[b]: the parents with bag 0 as the root; GraphError if the edges are not a tree."""
    pairs = [as_list(edge, f"edges[{k}]", as_whole_number) for k, edge in enumerate(edges)]
    if any(len(pair) != 2 for pair in pairs):
        raise GraphError("the edges of the tree are not pairs of places in the list of bags; give [(0, 1), ...]")
    for i, j in pairs:
        if not (0 <= i < n_bags and 0 <= j < n_bags):
            raise GraphError(
                "edge {i} {j} of the tree leaves the bags, which are 0 to {last}", i=i, j=j, last=n_bags - 1
            )
    if len(edges) != max(0, n_bags - 1):
        raise GraphError(
            "{n_bags:bag} need {expected:edge}, found {n_edges}",
            n_bags=n_bags,
            expected=max(0, n_bags - 1),
            n_edges=len(edges),
        )
    parent: Int32 = root_tree(n_bags, np.array(edges, np.int32).reshape(-1, 2))
    apart = np.flatnonzero(parent == -2)
    if apart.size:
        raise GraphError("no edges lead from bag 0 to bag {apart}; connect all bags, without a cycle", apart=apart[0])
    return parent
