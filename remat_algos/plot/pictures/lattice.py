"""Pictures of the lattice of lower sets, of a chain, and of the memory of its blocks (kusumoto2019, formula 2)."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from remat_algos.arguments import check_kind, checked_arguments
from remat_algos.errors import ArgumentError, GraphError
from remat_algos.ir.arrays import Bool, Int64
from remat_algos.ir.graph import ComputationGraph
from remat_algos.plot import axes, tuning
from remat_algos.plot.colours import BLUE, GREY, PALE, TERMS, WHITE
from remat_algos.schedule.emission import canonical_schedule
from remat_algos.schedule.simulation import Simulation, simulate
from remat_algos.structure.lower_sets import LowerSetFamily, LowerSets, lower_set_family
from remat_algos.wording import counted, format_bytes, tabulated

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Float64 = NDArray[np.float64]


@checked_arguments
def lattice(
    family: LowerSetFamily | ComputationGraph, path: LowerSets | None = None, *, ax: Axes | None = None
) -> Axes:
    """Draw the Hasse diagram of lower sets: small sets at the bottom, and a line from each set to its covers.

    Parameters
    ----------
    family : LowerSetFamily or ComputationGraph
        For a graph, all lower sets of its forward part are drawn.
    path : LowerSets, optional
        A chain of sets in the family. Next to each set are the nodes of its block, formula (1) of kusumoto2019 up
        to the set, the bytes kept up to it, and formula (2) of the block. A broad line follows one forward pass.
    ax : Axes, optional
        Axes to draw on; by default those of a new figure. `layout="constrained"` makes room for the legend.

    Returns
    -------
    Axes
        Without axis lines. Where names do not fit, sets are dots, and high lattices run from left to right.

    Raises
    ------
    ValueError
        If there are more than 500 lower sets, or the path contains a set that is not in the family.

    Examples
    --------
    A fork and a join::

        0 -> 1 -> 3
        0 -> 2 -> 3

    >>> from remat_algos import plot
    >>> graph = ComputationGraph.from_edges([(0, 1), (0, 2), (1, 3), (2, 3)])
    >>> [text.get_text() for text in plot.lattice(graph).texts]
    ['∅', '0', '01', '02', '012', '0123']
    """
    family = _small(family)
    members = _members(family)
    cuts, passed = _way(family, members, path) if path is not None else ([], [])
    points, names = places(members), _names(family, members)
    table = _table(family.graph, path) if path is not None else []
    fills = [BLUE if i in cuts else PALE if i in passed else WHITE for i in range(len(family))]
    size = _size(points, names, table) if names else None
    beside = 2.2 if letters_only(family.graph) else 3.0
    ax, named = axes.boxes_or_dots(ax, size, np.ptp(points, axis=0) + 1, (5.4, 2.6), beside)
    lines = covers(members)
    if named:
        _boxes(ax, points * [_box(names), tuning.LEVEL], lines, names, fills, passed, table)
    else:
        _dots(ax, points, lines, fills, passed)
    ax.axis("off")
    return axes.finished(ax, _sentences(family, path), _legend(family, fills, bool(cuts), named))


def joined(graph: ComputationGraph, nodes: Iterable[int], max_length: int = 24) -> str:
    """Join node names, without commas if all are single letters; return ∅ for the empty set."""
    apart = "" if letters_only(graph) else ", "
    return axes.label(apart.join(graph.labels[v] for v in nodes) or "∅", max_length)


def letters_only(graph: ComputationGraph) -> bool:
    return all(len(graph.labels[v]) == 1 for v in np.flatnonzero(graph.forward).tolist())


def _small(family: LowerSetFamily | ComputationGraph) -> LowerSetFamily:
    remedy = "the limit is {max_drawn}; draw a family such as lower_set_family(graph, 'pruned')"
    if isinstance(family, ComputationGraph):
        try:
            return lower_set_family(family, cap=tuning.MAX_DRAWN_SETS)
        except GraphError:
            many = "the graph has too many lower sets to draw; "
            raise ArgumentError(many + remedy, max_drawn=tuning.MAX_DRAWN_SETS) from None
    if len(check_kind(family, LowerSetFamily, "family", ComputationGraph)) > tuning.MAX_DRAWN_SETS:
        many = "{n_sets:,} lower sets are too many to draw; " + remedy + " or of a part of the graph"
        raise ArgumentError(many, n_sets=len(family), max_drawn=tuning.MAX_DRAWN_SETS)
    return family


def _members(family: LowerSetFamily) -> Bool:
    bits = np.unpackbits(family.words.view(np.uint8), axis=1, count=family.nodes.size, bitorder="little")
    return bits.view(np.bool_)


def _way(family: LowerSetFamily, members: Bool, path: LowerSets) -> tuple[list[int], list[int]]:
    """Return the row in `members` of each set of the chain, and the rows that a pass in id order goes through."""
    row = {one.tobytes(): i for i, one in enumerate(members)}
    block = path.blocks(family.graph)[family.nodes]
    cuts, passed, so_far = [], [0], np.zeros(family.nodes.size, bool)
    for i in range(len(path)):
        for place in np.flatnonzero(block == i):
            so_far[place] = True
            passed.append(row.get(so_far.tobytes(), -1))
        if passed[-1] < 0:
            raise ArgumentError(
                "lower set {i} of the path is not in the family; draw the path with the family that contains it", i=i
            )
        cuts.append(passed[-1])
    return cuts, [at for at in passed if at >= 0]


def _names(family: LowerSetFamily, members: Bool) -> list[str]:
    if len(family) > 80:
        return []
    if not letters_only(family.graph):
        members = members & ~_read_inside(family, members)
    return [joined(family.graph, family.nodes[row]) for row in members]


def _read_inside(family: LowerSetFamily, members: Bool) -> Bool:
    """bool[k, f]: nodes with a reader in each set."""
    indptr, reader, flags = *family.graph.successors, np.zeros_like(members)
    for place, v in enumerate(family.nodes.tolist()):
        readers = np.isin(family.nodes, reader[indptr[v] : indptr[v + 1]])
        flags[:, place] = members[:, readers].any(axis=1)
    return flags


def _table(graph: ComputationGraph, path: LowerSets) -> list[str]:
    block, kept, terms = path.blocks(graph), path.kept(graph), path.terms(graph).sum(axis=1)
    rows, again, kept_bytes = [], 0, 0
    for i in range(len(path)):
        added = block == i
        again += int(graph.compute[added & ~kept].sum())
        kept_bytes += int(graph.node_memory[added & kept].sum())
        names = joined(graph, np.flatnonzero(added), 16)
        rows.append((names, f"{again:,}", format_bytes(kept_bytes), format_bytes(int(terms[i]))))
    return tabulated(("adds", "reruns", "kept", "formula (2)"), rows)


def _box(names: list[str]) -> float:
    return max(map(axes.text_width, [*names, "xxx"])) + 0.3


def _size(points: Float64, names: list[str], table: list[str]) -> tuple[float, float]:
    wide, high = np.ptp(points, axis=0) + 1
    return wide * _box(names) + _wide(table), (high + (1 if table else 0)) * tuning.LEVEL


def _wide(table: list[str]) -> float:
    return 1.15 * axes.text_width("\n".join(table)) + 0.4 if table else 0


def _lines(ax: Axes, points: Float64, lines: Int64, passed: list[int]) -> None:
    axes.edges(ax, points[lines], faint=min(1, max(0.25, 150 / max(1, len(lines)))))
    ax.plot(*points[passed].T, color=BLUE, linewidth=3, solid_capstyle="round", zorder=1.5, label="path")


def _boxes(
    ax: Axes, points: Float64, lines: Int64, names: list[str], fills: list[str], passed: list[int], table: list[str]
) -> None:
    _lines(ax, points, lines, passed)
    for point, name, fill in zip(points.tolist(), names, fills, strict=True):
        axes.boxed(ax, point, name, fill, BLUE if fill == BLUE else GREY)
    half, top = _box(names) / 2, points[:, 1].max()
    right = points[:, 0].max() + half
    cuts = sorted(points[[fill == BLUE for fill in fills]].tolist(), key=lambda point: point[1])
    for x, y in cuts:
        ax.plot([x, right + 0.2], [y, y], color=GREY, linewidth=0.6, linestyle=":", zorder=0)
    for y, text in zip([top + tuning.LEVEL, *(y for _, y in cuts)], table, strict=True) if table else ():
        style: dict[str, Any] = {"va": "center", "fontsize": tuning.FONT, "family": "monospace"}
        ax.text(right + 0.3, y, text, color=axes.ink() if y <= top else GREY, **style)
    ax.set_xlim(points[:, 0].min() - half, right + _wide(table))
    ax.set_ylim(-tuning.LEVEL / 2, top + tuning.LEVEL * (1.5 if table else 0.5))


def _dots(ax: Axes, points: Float64, lines: Int64, fills: list[str], passed: list[int]) -> None:
    wide, high = np.ptp(points, axis=0)
    points = points[:, ::-1] if high > wide else points
    _lines(ax, points, lines, passed)
    axes.dots(ax, points, [36 if fill == BLUE else 16 for fill in fills], fills)


def _sentences(family: LowerSetFamily, path: LowerSets | None) -> list[str]:
    graph = family.graph
    lines = [f"{counted(len(family), 'lower set')} of {counted(family.nodes.size, 'node')}"]
    if path is not None:
        peak = format_bytes(path.peak(graph))
        blocks = counted(len(path), "block")
        lines.append(f"{blocks}; overhead {path.overhead(graph):,} by formula (1), peak {peak} by formula (2)")
    return lines


def _legend(family: LowerSetFamily, fills: list[str], chain: bool, named: bool) -> list[tuple[Any, str]]:
    kinds = {
        BLUE: "set of the chain",
        PALE: "between sets of the chain",
        WHITE: "other lower set" if chain else "lower set",
    }
    rows: list[tuple[Any, str]] = []
    for fill, kind in kinds.items():
        if count := fills.count(fill):
            edge = BLUE if fill == BLUE else GREY
            rows.append((axes.dot(fill, edge, "s" if named else "o"), f"{kind} ({count:,})"))
    if chain:
        line = axes.dot(BLUE, marker="", linestyle="-", color=BLUE, linewidth=3)
        rows.append((line, "order of the forward part"))
    which = "members" if letters_only(family.graph) else "members that no member reads"
    return [*rows, *([(None, f"labels list the {which}")] if named else [])]


def covers(members: Bool) -> Int64:
    """int64[c, 2]: pairs of rows (i, j) such that set j covers set i."""
    size, counts = members.sum(axis=1), members.astype(np.float32)
    inside = (counts @ (1 - counts).T == 0) & (size[:, None] < size)
    between = inside.astype(np.float32) @ inside.astype(np.float32) > 0
    return np.argwhere(inside & ~between)


def places(members: Bool) -> Float64:
    """float64[k, 2]: (place, size) of lower sets; if there is room, lines that add the same node are parallel."""
    from scipy.optimize import isotonic_regression  # type: ignore[import-untyped]

    level = members.sum(axis=1)
    place = members @ _directions(members)
    for size in np.unique(level):
        row = np.flatnonzero(level == size)
        row, apart = row[np.argsort(place[row], kind="stable")], np.arange(row.size)
        if row.size > 1:
            place[row] = isotonic_regression(place[row] - apart).x + apart
    return np.column_stack([place, level])


def _directions(members: Bool) -> Float64:
    """float64[f]: horizontal shift for adding a node. Parallel branches lean to different sides; the mean is 0."""
    f = members.shape[1]
    below = np.array([members[members[:, v]].all(axis=0) for v in range(f)]).reshape(f, f)
    ends = [v for v in range(f + 1) if below[v:, :v].all()]
    slope = np.zeros(f)
    for begin, end in pairwise(ends):
        # `last` holds the latest node of each branch, `branch` the branch of each node.
        last: list[int] = []
        branch: list[int] = []
        for v in range(begin, end):
            at = next((i for i, u in enumerate(last) if below[v, u]), len(last))
            last[at : at + 1] = [v]
            branch.append(at)
        direction = np.array(branch) * 2 / max(1, len(last) - 1) - 1
        slope[begin:end] = (direction - direction.mean()) / 2
    return slope


@checked_arguments
def terms(
    graph: ComputationGraph,
    lower_sets: LowerSets,
    *,
    keep_last: bool = True,
    lazy: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw the four terms of formula (2) of kusumoto2019 for each block as a stacked bar, next to its simulated peak.

    Parameters
    ----------
    graph : ComputationGraph
        A graph with a backward part.
    lower_sets : LowerSets
    keep_last, lazy : bool
        Options of `canonical_schedule`, which makes the simulated schedule; formula (2) assumes that both are False.
    ax : Axes, optional
        Axes to draw on; by default those of a new figure. `layout="constrained"` makes room for the legend.

    Returns
    -------
    Axes
        y is in bytes, x in blocks, from 0.

    Raises
    ------
    GraphError
        If the chain does not fit the graph.

    References
    ----------
    kusumoto2019, section 3.

    Examples
    --------
    >>> from remat_algos import plot
    >>> from remat_algos.ir.differentiate import differentiate
    >>> chain = differentiate(ComputationGraph.from_edges([(0, 1), (1, 2), (2, 3)]))
    >>> ax = plot.terms(chain, LowerSets.of(chain, [[0, 1], [0, 1, 2, 3]]))
    >>> [text.get_text() for text in ax.get_xticklabels()]
    ['01', '23']
    """
    terms = lower_sets.terms(graph)
    simulation = simulate(graph, canonical_schedule(graph, lower_sets, keep_last=keep_last, lazy=lazy))
    peaks = peaks_of_blocks(simulation, lower_sets)
    ax = axes.of_size(ax)
    top = max(1, int(terms.sum(axis=1).max(initial=0)), int(peaks.max(initial=0)))
    ax.set_xlim(-0.6, max(1, len(lower_sets)) - 0.4)
    ax.set_ylim(0, 1.1 * top)
    rows = _bars(ax, terms, peaks)
    axes.byte_axis(ax.yaxis, top, "memory")
    _ticks(ax, graph, lower_sets)
    return axes.finished(ax, _terms_sentences(simulation, lower_sets), rows)


def peaks_of_blocks(simulation: Simulation, lower_sets: LowerSets) -> Int64:
    """int64[k]: peak of a canonical schedule in each block, over its forward, recomputation and backward steps."""
    graph, order, k = simulation.graph, simulation.schedule.order, len(lower_sets)
    block = lower_sets.blocks(graph).astype(np.int64)
    gradient = ~graph.forward[order]
    again = ~gradient & ~simulation.schedule.first_run
    of_step = np.where(gradient, block[graph.owner[order]], block[order])
    # Gradients of nodes that never run belong to no block: count them in the last one.
    of_step[of_step < 0] = k - 1
    following = np.minimum.accumulate(np.where(gradient, np.arange(order.size), order.size)[::-1])[::-1]
    of_step[again] = np.append(of_step, k - 1)[following[again]]
    peaks = np.zeros(k, np.int64)
    np.maximum.at(peaks, of_step, simulation.memory_trace)
    return peaks


def _bars(ax: Axes, terms: Int64, peaks: Int64) -> list[tuple[Any, str]]:
    # Widths of the two bars of a block; blocks are 1 apart.
    wide, narrow = 0.46, 0.34
    room = (len(terms) + 0.2) * axes.text_width("100 MiB") / narrow <= axes.inches(ax)[0]
    left, right, whole = np.arange(len(terms)) - narrow / 2, np.arange(len(terms)) + wide / 2, terms.sum(axis=1)
    rows: list[tuple[Any, str]] = [(None, "terms of formula (2) for each block:")]
    rows += axes.bars(ax, left, zip(TERMS, terms.T, strict=True), wide, _bytes if room else None)
    rows.append((ax.bar(right, peaks, narrow, color=GREY, label="simulated"), "simulated peak, with liveness"))
    if room:
        axes.above(ax, left, whole, _bytes(whole))
        axes.above(ax, right, peaks, _bytes(peaks))
    return rows


def _bytes(amounts: Int64) -> list[str]:
    return [format_bytes(amount) for amount in amounts.tolist()]


def _ticks(ax: Axes, graph: ComputationGraph, lower_sets: LowerSets) -> None:
    block = lower_sets.blocks(graph)
    names = [joined(graph, np.flatnonzero(block == i).tolist(), 18) for i in range(len(lower_sets))]
    room = axes.inches(ax)[0] / (max(1, len(names)) + 0.2)
    lying = axes.text_width("\n".join(f"{name} " for name in names)) <= room
    if lying:
        ax.set_xticks(range(len(names)), names, fontsize=tuning.FONT)
    named = lying or axes.name_ticks(ax, names, across=True)
    ax.set_xlabel("block (labels: the nodes that it adds)" if named else "block")


def _terms_sentences(simulation: Simulation, lower_sets: LowerSets) -> list[str]:
    graph, blocks = simulation.graph, counted(len(lower_sets), "block")
    peak, again = format_bytes(lower_sets.peak(graph)), lower_sets.overhead(graph)
    really = format_bytes(simulation.peak_memory)
    return [
        f"{blocks}; by formulas (1) and (2) overhead {again:,} and peak {peak}",
        f"simulated: overhead {simulation.overhead:,} and peak {really}",
    ]
