"""Nested separators of a tree decomposition (kumar2019)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from remat_algos.arguments import check_kind, checked_arguments
from remat_algos.errors import GraphError
from remat_algos.ir.arrays import Int32, Int64, brief, by_fields, check_indptr, check_sizes, frozen, group_rows, row_of
from remat_algos.kernels.decomposition import separators
from remat_algos.structure.decompositions import PathDecomposition, TreeDecomposition


@dataclass(frozen=True, slots=True, eq=False)
class SeparatorTree:
    """A tree of all bags. Each bag splits a part of the decomposition into pieces; its children split these pieces.

    Separators are numbered in preorder: s and its descendants are the range s:end[s]. So a vertex lies in the part of s
    if and only if s <= owner < end[s]. The owners of two adjacent vertices lie on one path from the root.

    Parameters
    ----------
    end : int32[b]
        End of the range of descendants of each separator.
    child_indptr : int64[b + 1]
    children : int32[b - 1]
        Row s contains the separators of the pieces that remain without s, ascending.
    owner : int32[n]
        The owner of each vertex: the topmost separator whose bag contains it; -1 for a vertex in no bag.
    own_indptr : int64[b + 1]
    own : int32[n]
        Row s contains the vertices owned by s, ascending.
    n_bags : int32[b]
        Number of bags in the part that each separator splits, including the bag of the separator.
    bag : int32[b]
        Index in the decomposition of the bag of each separator.

    Examples
    --------
    A path of three bags {0, 1} - {1, 2} - {2, 3}, cut in the middle:

    >>> path = TreeDecomposition.from_bags([[0, 1], [1, 2], [2, 3]], [(0, 1), (1, 2)])
    >>> tree = SeparatorTree.balanced(path, 4)
    >>> tree.bag.tolist(), tree.owner.tolist(), tree.end.tolist(), tree.depth
    ([1, 0, 2], [1, 0, 0, 2], [3, 2, 3], 2)
    """

    end: Int32
    child_indptr: Int64
    children: Int32
    owner: Int32
    own_indptr: Int64
    own: Int32
    n_bags: Int32
    bag: Int32

    __repr__ = brief
    __reduce__ = by_fields

    def __post_init__(self) -> None:
        for name in self.__slots__:
            dtype = np.int64 if name.endswith("indptr") else np.int32
            object.__setattr__(self, name, frozen(getattr(self, name), dtype, name))
        b, s = self.end.size, np.arange(self.end.size)
        for name, size in (("n_bags", b), ("bag", b), ("children", max(0, b - 1))):
            if getattr(self, name).size != size:
                raise GraphError(
                    "{name} has {size!w} entries, expected {expected!w} for {n_separators!w} separators",
                    name=name,
                    size=getattr(self, name).size,
                    expected=size,
                    n_separators=b,
                )
        check_indptr(self.child_indptr, b, self.children.size, "child_indptr")
        check_indptr(self.own_indptr, b, self.own.size, "own_indptr")
        above, below = row_of(self.child_indptr), self.children
        if (self.end <= s).any() or (self.end > b).any() or (below <= above).any() or (below >= b).any():
            raise GraphError("separators must be numbered in preorder: the descendants of s are s + 1 to end[s] - 1")
        if (self.end[below] > self.end[above]).any() or np.unique(below).size != below.size:
            raise GraphError("the subtree of a separator must lie within the subtree of its parent")
        if b and not 0 <= self.bag.min() <= self.bag.max() < b:
            raise GraphError("a separator names an unknown bag; bags are 0 to {last!w}", last=b - 1)
        owned = np.flatnonzero(self.owner >= 0)
        if self.owner.size and not -1 <= self.owner.min() <= self.owner.max() < b:
            raise GraphError("a vertex is owned by an unknown separator; separators are 0 to {last!w}", last=b - 1)
        if not np.array_equal(np.sort(self.own), owned) or (self.owner[self.own] != row_of(self.own_indptr)).any():
            raise GraphError("`owner` and `own` do not name the same vertices for each separator")

    @classmethod
    @checked_arguments
    def balanced(cls, decomposition: TreeDecomposition, n_vertices: int) -> SeparatorTree:
        """Separate each part by a bag whose removal leaves pieces with at most half of the part's bags.

        Ties go to the smaller id. The depth of the tree is at most floor(log2(b)) + 1. `n_vertices` is the number of
        vertices in the graph. Raise GraphError if a bag contains an id of `n_vertices` or more.

        References
        ----------
        kumar2019, theorem 2 and lemma 3.

        Examples
        --------
        >>> star = TreeDecomposition.from_bags([[0], [0, 1], [0, 2], [0, 3]], [(0, 1), (0, 2), (0, 3)])
        >>> SeparatorTree.balanced(star, 4).children.tolist()
        [1, 2, 3]
        """
        if n_vertices < 0:
            raise GraphError("n_vertices is {n_vertices}; give 0 or more", n_vertices=n_vertices)
        decomposition.check_vertices(n_vertices)
        return cls._of(decomposition, np.zeros(n_vertices, np.int64))

    @classmethod
    @checked_arguments
    def cheapest(cls, decomposition: TreeDecomposition, memory: ArrayLike) -> SeparatorTree:
        """Separate each part by the balanced bag that adds the fewest bytes to the separators above it.

        A bag is balanced if each piece that its removal leaves has at most two thirds of the bags of the part. Ties go
        to the bag with the smallest pieces, then to the smaller id. `memory`, int64[n], is the number of bytes of each
        vertex. Raise GraphError if a bag contains an id of n or more, or if an entry of `memory` is negative.

        Examples
        --------
        >>> path = TreeDecomposition.from_bags([[0, 1], [1, 2], [2, 3], [3, 4]], [(0, 1), (1, 2), (2, 3)])
        >>> SeparatorTree.cheapest(path, [1, 1, 9, 1, 1]).bag.tolist()
        [1, 0, 2, 3]
        >>> SeparatorTree.cheapest(path, [9, 9, 1, 1, 1]).bag.tolist()
        [2, 1, 0, 3]
        """
        sizes = frozen(memory, np.int64, "memory")
        check_sizes(sizes, "memory")
        return cls._of(decomposition, sizes)

    @classmethod
    @checked_arguments
    def middle(cls, path: PathDecomposition, n_vertices: int) -> SeparatorTree:
        """Separate each interval of a path by its middle bag: bag (lo + hi) // 2 for bags lo to hi.

        Each separator has at most two children, the left one first. `n_vertices` is the number of vertices in the
        graph. Raise GraphError if a bag contains an id of `n_vertices` or more.

        Examples
        --------
        >>> path = PathDecomposition([0, 2, 4, 6, 8], [0, 1, 1, 2, 2, 3, 3, 4])
        >>> SeparatorTree.middle(path, 5).bag.tolist()
        [1, 0, 2, 3]
        """
        check_kind(path, PathDecomposition, "path")
        # Ties go to the smaller id, so this is the left one of two middle bags.
        return cls.balanced(path.tree(), n_vertices)

    @classmethod
    def _of(cls, decomposition: TreeDecomposition, memory: Int64) -> SeparatorTree:
        decomposition.check_vertices(memory.shape[0])
        end, above, owner, n_bags, bag = separators(
            decomposition.bag_indptr, decomposition.bag_indices, decomposition.parent, memory
        )
        n = end.shape[0]
        child, own = (np.flatnonzero(row >= 0).astype(np.int32) for row in (above, owner))
        return cls(end, *group_rows(above[child], child, n), owner, *group_rows(owner[own], own, n), n_bags, bag)

    @property
    def depth(self) -> int:
        """Number of levels of separators."""
        ended = np.cumsum(np.bincount(self.end, minlength=self.end.shape[0]))[: self.end.shape[0]]
        return int((np.arange(1, ended.shape[0] + 1) - ended).max(initial=0))
