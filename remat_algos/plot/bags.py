"""The bags of a decomposition as a tree in a picture, and their horizontal positions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from remat_algos.arguments import check_kind
from remat_algos.ir.graph import ComputationGraph
from remat_algos.structure.separators import SeparatorTree
from remat_algos.structure.tree_decomposition import TreeDecomposition
from remat_algos.structure.undirected import UndirectedGraph
from remat_algos.text.wording import counted

Graph = ComputationGraph | UndirectedGraph
Ends = list[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class BagTree:
    """A tree of bags, rooted at one of them.

    Parameters
    ----------
    order : list of int
        All bags, parents before their children, each branch to its end.
    children : list of lists of int
    depth : list of int
        Number of bags above each.
    words : list of lists of str
        The vertices of each bag; in brackets those owned by an upper separator.
    level : list of int
        Level of each bag as a separator, 1 for the top one; 0 without separators.
    """

    order: list[int]
    children: list[list[int]]
    depth: list[int]
    words: list[list[str]]
    level: list[int]


def bag_tree(
    decomposition: TreeDecomposition,
    names: Iterable[str] | None = None,
    graph: Graph | None = None,
    separators: SeparatorTree | None = None,
) -> BagTree:
    """Root a decomposition at its root, or at its top separator.

    Raises GraphError if the graph lacks a vertex, ValueError for too few names and for separators of another tree.

    Examples
    --------
    >>> path = TreeDecomposition.from_bags([[0, 1], [1, 2], [2, 3]], [(0, 1), (1, 2)])
    >>> bag_tree(path, "abcd", separators=SeparatorTree.balanced(path, 4)).words
    [['a', '(b)'], ['b', 'c'], ['(c)', 'd']]
    """
    names = _names(decomposition, names, graph)
    n = decomposition.n_bags
    if separators is None:
        root = int(np.flatnonzero(decomposition.parent < 0)[0]) if n else 0
        words = [[str(names[v]) for v in decomposition.bag(i)] for i in range(n)]
        level = [0] * n
    else:
        if separators.bag.shape[0] != n:
            raise ValueError(f"{counted(separators.bag.shape[0], 'separator')} for {counted(n, 'bag')} are another's")
        root = int(separators.bag[0]) if n else 0
        words = _words(decomposition, names, separators)
        level = _levels(separators)
    order, children, depth = _rooted(decomposition, root)
    return BagTree(order, children, depth, [row or ["∅"] for row in words], level)


def _names(decomposition: TreeDecomposition, names: Iterable[str] | None, graph: Graph | None) -> Sequence[str]:
    """A name for each vertex."""
    if graph is not None:
        check_kind(graph, ComputationGraph, "graph", UndirectedGraph)
        decomposition.check_vertices(graph.n_nodes if isinstance(graph, ComputationGraph) else graph.n_vertices)
    largest = int(decomposition.bag_indices.max(initial=-1))
    if names is not None:
        named = list(names)
        if len(named) <= largest:
            raise ValueError(f"{counted(len(named), 'name')}, but a bag contains vertex {largest}; name each vertex")
        return named
    if isinstance(graph, ComputationGraph):
        return [graph.labels[v] for v in range(largest + 1)]
    return [str(v) for v in range(largest + 1)]


def _words(decomposition: TreeDecomposition, names: Sequence[str], separators: SeparatorTree) -> list[list[str]]:
    """Names of the vertices of each bag; in brackets those owned by a separator above it."""
    words: list[list[str]] = [[] for _ in range(decomposition.n_bags)]
    for s, i in enumerate(separators.bag.tolist()):
        for v in decomposition.bag(i):
            words[i].append(str(names[v]) if separators.owner[v] == s else f"({names[v]})")
    return words


def _levels(separators: SeparatorTree) -> list[int]:
    """The level of each bag: 1 for the top separator."""
    level, above = [0] * separators.bag.shape[0], list[int]()
    for s, (bag, end) in enumerate(zip(separators.bag.tolist(), separators.end.tolist(), strict=True)):
        while above and above[-1] <= s:
            above.pop()
        above.append(end)
        level[bag] = len(above)
    return level


def _rooted(decomposition: TreeDecomposition, root: int) -> tuple[list[int], list[list[int]], list[int]]:
    """(order, children, depth) of the tree rooted at a bag."""
    n = decomposition.n_bags
    beside: list[list[int]] = [[] for _ in range(n)]
    for i, j in decomposition.edges().tolist():
        beside[i].append(j)
        beside[j].append(i)
    order, depth, waiting = list[int](), [0] * n, [root] if n else []
    while waiting:
        bag = waiting.pop()
        order.append(bag)
        for child in beside[bag]:
            beside[child].remove(bag)
            depth[child] = depth[bag] + 1
        waiting += beside[bag][::-1]
    return order, beside, depth


def tidy(tree: BagTree, half: Sequence[float], gap: float) -> list[float]:
    """Horizontal positions: subtrees as close as their boxes allow, bags over the middle of their children.

    Parameters
    ----------
    tree : BagTree
    half : sequence of float
        Half the width of each box.
    gap : float
        Gap between two boxes of a row.

    Examples
    --------
    >>> star = TreeDecomposition.from_bags([[0], [0, 1], [0, 2], [0, 3]], [(0, 1), (0, 2), (0, 3)])
    >>> tidy(bag_tree(star), [1, 1, 1, 1], 0.5)
    [0.0, -2.5, 0.0, 2.5]
    """
    shift = [0.0] * len(half)  # from the parent
    outline: dict[int, Ends] = {}  # left and right ends of each subtree, row by row
    for bag in reversed(tree.order):
        children, ends = tree.children[bag], Ends()
        for child in children:
            under = outline.pop(child)
            shift[child] = max((a[1] - b[0] + gap for a, b in zip(ends, under, strict=False)), default=0.0)
            ends = _side_by_side(ends, _moved(under, shift[child]))
        middle = (shift[children[0]] + shift[children[-1]]) / 2 if children else 0.0
        for child in children:
            shift[child] -= middle
        outline[bag] = [(-half[bag], half[bag]), *_moved(ends, -middle)]
    for bag in tree.order:
        for child in tree.children[bag]:
            shift[child] += shift[bag]
    return shift


def _moved(ends: Ends, by: float) -> Ends:
    return [(left + by, right + by) for left, right in ends]


def _side_by_side(left: Ends, right: Ends) -> Ends:
    both = [(a[0], b[1]) for a, b in zip(left, right, strict=False)]
    return both + left[len(both) :] + right[len(both) :]
