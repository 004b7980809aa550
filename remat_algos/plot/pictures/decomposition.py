"""Drawings of a tree decomposition: the tree of its bags, coloured by separator level."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from remat_algos.arguments import check_kind, checked_arguments
from remat_algos.errors import ArgumentError
from remat_algos.ir.graph import ComputationGraph
from remat_algos.plot import axes, tuning
from remat_algos.plot.characters import fitted, wrapped
from remat_algos.plot.colours import LEVELS, PALE
from remat_algos.structure.decompositions import TreeDecomposition
from remat_algos.structure.elimination import UndirectedGraph
from remat_algos.structure.separators import SeparatorTree
from remat_algos.wording import counted, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Float64 = NDArray[np.float64]
Graph = ComputationGraph | UndirectedGraph


@checked_arguments
def decomposition(
    decomposition: TreeDecomposition,
    names: Iterable[str] | None = None,
    *,
    graph: Graph | None = None,
    separators: SeparatorTree | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the tree of bags, with the root at the top; each bag is a box with its vertices.

    Parameters
    ----------
    decomposition : TreeDecomposition
    names : sequence of str, optional
        Names of vertices; by default the labels of a ComputationGraph, else ids.
    graph : ComputationGraph or UndirectedGraph, optional
        The decomposed graph; the title states its size.
    separators : SeparatorTree, optional
        Colours show the level of each bag as a separator. The top one is drawn as the root, and vertices owned by a
        separator of an upper level are in brackets.
    ax : Axes, optional
        Axes to draw on; by default those of a new figure. `layout="constrained"` makes room for the legend.

    Returns
    -------
    Axes
        Without axis lines. Where names do not fit, bags are dots, and deep trees run from left to right.

    Raises
    ------
    ValueError
        If there are more than 200 bags, too few names, or separators of another decomposition.
    GraphError
        If a bag contains a vertex that is not in the graph.

    Examples
    --------
    A path of four, the bag in its middle on top:

    >>> from remat_algos import plot
    >>> path = TreeDecomposition.from_bags([[0, 1], [1, 2], [2, 3]], [(0, 1), (1, 2)])
    >>> halves = SeparatorTree.balanced(path, 4)
    >>> [text.get_text() for text in plot.decomposition(path, "abcd", separators=halves).texts]
    ['b c', 'a (b)', '(c) d']
    """
    if decomposition.n_bags > tuning.MAX_BAGS:
        raise ArgumentError(
            "{n_bags:,} bags are too many to draw; the limit is {max_drawn}",
            n_bags=decomposition.n_bags,
            max_drawn=tuning.MAX_BAGS,
        )
    tree = bag_tree(decomposition, names, graph, separators)
    texts = [_lines_of(words) for words in tree.words]
    boxes = np.array([_box(text) for text in texts]).reshape(-1, 2)
    points = _places(tree, boxes)
    wide, high = np.ptp(_corners(points, boxes), axis=0).tolist()
    width_of = np.bincount(tree.depth, minlength=1)
    places, beside = (int(width_of.max()), width_of.size), 2.2 if separators is not None else 0
    ax, named = axes.boxes_or_dots(ax, (wide, high), places, (tuning.TITLE_WIDE, 2), beside)
    if named:
        _boxes(ax, tree, points, boxes, texts)
    else:
        _dots(ax, tree, np.diff(decomposition.bag_indptr))
    ax.axis("off")
    rows = _legend(tree, named) if separators is not None else []
    return axes.finished(ax, _sentences(decomposition, graph, separators), rows)


def _lines_of(words: list[str]) -> str:
    """Join the vertices of a bag, wrapped so that its box is about twice as wide as high."""
    drawn = [axes.label(word, 16) for word in words]
    room = max(tuning.MIN_LETTERS, round(2.2 * math.sqrt(sum(map(len, drawn)) + len(drawn))))
    return textwrap.fill(" ".join(drawn), room, break_long_words=False, break_on_hyphens=False)


def _box(text: str) -> tuple[float, float]:
    lines = text.split("\n")
    return axes.text_width(f"{text}\nxxx") + 2 * tuning.PAD, len(lines) * tuning.LINE_HIGH + 2 * tuning.PAD


def _places(tree: BagTree, boxes: Float64) -> Float64:
    """float64[b, 2]: the centre of each box in inches; a row is as high as its highest box."""
    high = _row_heights(tree, boxes)
    rows = np.cumsum(high + 0.3) - high / 2
    return np.column_stack([spread(tree, boxes[:, 0].tolist(), 0.22), rows[tree.depth]])


def _row_heights(tree: BagTree, boxes: Float64) -> Float64:
    high = np.zeros(max(tree.depth, default=0) + 1)
    np.maximum.at(high, tree.depth, boxes[:, 1])
    return high


def _corners(points: Float64, boxes: Float64) -> Float64:
    if not points.size:
        return np.zeros((2, 2))
    return np.stack([(points - boxes / 2).min(axis=0), (points + boxes / 2).max(axis=0)])


def _colour(tree: BagTree, bag: int) -> str:
    level = tree.level[bag]
    return LEVELS[min(level, len(LEVELS)) - 1] if level else PALE


def _edges(ax: Axes, tree: BagTree, points: Float64, half: Float64) -> None:
    """Draw lines from bags to their children; both ends are vertical, so that no line crosses another box."""
    lines = []
    for bag in tree.order:
        for child in tree.children[bag]:
            ends = np.repeat(points[[bag, child]], 2, axis=0)
            ends[1, 1] += half[tree.depth[bag]]
            ends[2, 1] -= half[tree.depth[child]]
            lines.append(ends)
    axes.edges(ax, lines, 1)


def _boxes(ax: Axes, tree: BagTree, points: Float64, boxes: Float64, texts: list[str]) -> None:
    _edges(ax, tree, points, _row_heights(tree, boxes) / 2)
    for bag in tree.order:
        axes.boxed(ax, points[bag].tolist(), texts[bag], _colour(tree, bag), pad=tuning.PAD / axes.text_height())
    (left, top), (right, bottom) = _corners(points, boxes).tolist()
    margin = max(0.05, (tuning.TITLE_WIDE - right + left) / 2)
    ax.set_xlim(left - margin, right + margin)
    ax.set_ylim(bottom + 0.05, top - 0.05)


def _dots(ax: Axes, tree: BagTree, sizes: NDArray[np.int64]) -> None:
    """Draw bags as dots whose sizes show the numbers of vertices; a tree deeper than wide runs from left to right."""
    points = np.column_stack([spread(tree, [0.8] * len(tree.order), 0.2), tree.depth])
    wide, deep = np.ptp(points, axis=0)
    points = points[:, ::-1] if deep > wide else points
    _edges(ax, tree, points, np.zeros(max(tree.depth) + 1))
    area = 10 + 50 * sizes / max(1, sizes.max(initial=0))
    axes.dots(ax, points, area, [_colour(tree, bag) for bag in range(len(points))])
    ax.invert_yaxis()


def _sentences(decomposition: TreeDecomposition, graph: Graph | None, separators: SeparatorTree | None) -> list[str]:
    summary = f"{counted(decomposition.n_bags, 'bag')}, width {decomposition.width}"
    if separators is not None:
        summary += f"; separators in {counted(separators.depth, 'level')}"
    if graph is None:
        return [summary]
    if isinstance(graph, ComputationGraph):
        return [f"{counted(graph.n_nodes, 'node')}, {counted(graph.read_indices.size, 'read')}", summary]
    vertices = "1 vertex" if graph.n_vertices == 1 else f"{graph.n_vertices:,} vertices"
    return [f"{vertices}, {counted(graph.n_edges, 'edge')}", summary]


def _legend(tree: BagTree, named: bool) -> list[tuple[Any, str]]:
    rows: list[tuple[Any, str]] = []
    deepest, last = max(tree.level, default=0), len(LEVELS)
    for level in range(1, min(deepest, last) + 1):
        count = tree.level.count(level) if level < last else sum(one >= last for one in tree.level)
        handle = axes.dot(LEVELS[level - 1], marker="s" if named else "o")
        rows.append((handle, f"level {level}{' and deeper' if level == last < deepest else ''} ({count:,})"))
    return [*rows, (None, "in brackets: vertices of upper levels")] if named and deepest > 1 else rows


@checked_arguments
def decomposition_text(
    decomposition: TreeDecomposition,
    names: Iterable[str] | None = None,
    *,
    graph: Graph | None = None,
    separators: SeparatorTree | None = None,
    width: int,
    height: int = 40,
) -> list[str]:
    """Return a line per bag, at most `height` lines; if a bag has several children, they are indented as branches."""
    tree = bag_tree(decomposition, names, graph, separators)
    height, n = max(4, height), decomposition.n_bags
    lines = wrapped(_sentences(decomposition, graph, separators), width)
    before = _branches(tree)
    shown = n if n <= height else height - 1
    for bag in tree.order[:shown]:
        level = f"{tree.level[bag]} " if separators is not None else ""
        words = " ".join(shortened(word, tuning.MIN_LETTERS) for word in tree.words[bag])
        lines.append(fitted(level + before[bag] + words, width).rstrip())
    return lines + ([f"… {counted(n - shown, 'more bag')}"] if shown < n else [])


def _branches(tree: BagTree) -> list[str]:
    before, below = [""] * len(tree.order), [""] * len(tree.order)
    for bag in tree.order:
        children = tree.children[bag]
        for child in children:
            ends = ("", "") if len(children) == 1 else ("└ ", "  ") if child == children[-1] else ("├ ", "│ ")
            before[child], below[child] = (below[bag] + end for end in ends)
    return before


@dataclass(frozen=True, slots=True)
class BagTree:
    """A rooted tree of bags. `order` is depth-first, parents before children; `depth` counts ancestors.

    `words` are the vertex names of each bag; vertices owned by a separator of an upper level are in brackets. The top
    separator has level 1.
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
    """Root a decomposition at its top separator or, without `separators`, at its root; check the other arguments."""
    names = _names(decomposition, names, graph)
    n = decomposition.n_bags
    if separators is None:
        root = int(np.flatnonzero(decomposition.parent < 0)[0]) if n else 0
        words = [[str(names[v]) for v in decomposition.bag(i)] for i in range(n)]
        level = [0] * n
    else:
        if separators.bag.shape[0] != n:
            others = "{n_separators:separator} do not fit {n_bags:bag}; give the separators of this decomposition"
            raise ArgumentError(others, n_separators=separators.bag.shape[0], n_bags=n)
        root = int(separators.bag[0]) if n else 0
        words = _words(decomposition, names, separators)
        level = _levels(separators)
    order, children, depth = _rooted(decomposition, root)
    return BagTree(order, children, depth, [row or ["∅"] for row in words], level)


def _names(decomposition: TreeDecomposition, names: Iterable[str] | None, graph: Graph | None) -> Sequence[str]:
    if graph is not None:
        check_kind(graph, ComputationGraph, "graph", UndirectedGraph)
        decomposition.check_vertices(graph.n_nodes if isinstance(graph, ComputationGraph) else graph.n_vertices)
    largest = int(decomposition.bag_indices.max(initial=-1))
    if names is not None:
        named = list(names)
        if len(named) <= largest:
            raise ArgumentError(
                "there are only {n_named:name}, but a bag contains vertex {largest}; give each vertex a name",
                n_named=len(named),
                largest=largest,
            )
        return named
    if isinstance(graph, ComputationGraph):
        return [graph.labels[v] for v in range(largest + 1)]
    return [str(v) for v in range(largest + 1)]


def _words(decomposition: TreeDecomposition, names: Sequence[str], separators: SeparatorTree) -> list[list[str]]:
    """Return the vertex names of each bag; vertices owned by a separator of an upper level are in brackets."""
    words: list[list[str]] = [[] for _ in range(decomposition.n_bags)]
    for s, i in enumerate(separators.bag.tolist()):
        for v in decomposition.bag(i):
            words[i].append(str(names[v]) if separators.owner[v] == s else f"({names[v]})")
    return words


def _levels(separators: SeparatorTree) -> list[int]:
    level, above = [0] * separators.bag.shape[0], list[int]()
    for s, (bag, end) in enumerate(zip(separators.bag.tolist(), separators.end.tolist(), strict=True)):
        while above and above[-1] <= s:
            above.pop()
        above.append(end)
        level[bag] = len(above)
    return level


def _rooted(decomposition: TreeDecomposition, root: int) -> tuple[list[int], list[list[int]], list[int]]:
    n = decomposition.n_bags
    neighbours: list[list[int]] = [[] for _ in range(n)]
    for i, j in decomposition.edges().tolist():
        neighbours[i].append(j)
        neighbours[j].append(i)
    order, depth, waiting = list[int](), [0] * n, [root] if n else []
    while waiting:
        bag = waiting.pop()
        order.append(bag)
        for child in neighbours[bag]:
            neighbours[child].remove(bag)
            depth[child] = depth[bag] + 1
        waiting += neighbours[bag][::-1]
    return order, neighbours, depth


def spread(tree: BagTree, wide: Sequence[float], gap: float) -> list[float]:
    """Return horizontal positions: branches are side by side, and each bag is centred above its children."""
    left, right = [each / 2 for each in wide], [each / 2 for each in wide]
    place = [0.0] * len(wide)
    # Positions are relative to the parent; `left` and `right` are the extents of a bag with its branches.
    for bag in reversed(tree.order):
        children, end = tree.children[bag], -gap
        for child in children:
            place[child] = end + gap + left[child]
            end = place[child] + right[child]
        if children:
            middle = (place[children[0]] + place[children[-1]]) / 2
            left[bag], right[bag] = max(left[bag], middle), max(right[bag], end - middle)
            for child in children:
                place[child] -= middle
    for bag in tree.order:
        for child in tree.children[bag]:
            place[child] += place[bag]
    return place
