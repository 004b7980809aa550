"""Drawings of a graph: the backward part next to the forward part; colours show what a plan does with each node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from remat_algos.arguments import checked_arguments
from remat_algos.errors import ArgumentError
from remat_algos.ir.arrays import frozen, row_of
from remat_algos.ir.graph import ComputationGraph
from remat_algos.plot import axes, tuning
from remat_algos.plot.characters import columns_of, fitted, wrapped
from remat_algos.plot.colours import DARK, GREY, NODES
from remat_algos.plot.lanes import Lanes, Subject
from remat_algos.plot.layered_layout import LayeredLayout, layout
from remat_algos.schedule.emission import baseline_peak
from remat_algos.schedule.simulation import Simulation
from remat_algos.wording import counted, format_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Kinds = NDArray[np.str_]


@checked_arguments
def graph(subject: Subject, *, copies: ArrayLike | None = None, ax: Axes | None = None) -> Axes:
    """Draw a graph in layers: the forward part from top to bottom, next to it the backward part from bottom to top.

    Parameters
    ----------
    subject : Plan, Simulation or ComputationGraph
        Colours show kept and recomputed nodes; for a graph, nodes that must run only once.
    copies : bool[n], optional
        For a graph made by `unroll`: True for nodes that are a later run of another node.
    ax : Axes, optional
        Axes to draw on; by default those of a new figure. `layout="constrained"` makes room for the legend.

    Returns
    -------
    Axes
        Without axis lines. Where names do not fit, nodes are dots, and deep graphs run from left to right.

    Raises
    ------
    ValueError
        If there are more than 50,000 nodes.

    Examples
    --------
    >>> from remat_algos import plot
    >>> chain = ComputationGraph.from_edges([("A", "B"), ("B", "C")])
    >>> [text.get_text() for text in plot.graph(chain).texts]
    ['A', 'B', 'C']
    """
    graph, runs, kinds = _what(subject, copies)
    if graph.n_nodes > tuning.MAX_DOTS:
        raise ArgumentError(
            "{n_nodes:,} nodes are too many to draw; the limit is {max_drawn:,}; use the pictures memory or schedule, "
            "which show graphs of any size",
            n_nodes=graph.n_nodes,
            max_drawn=tuning.MAX_DOTS,
        )
    placed = layout(graph)
    names = [axes.label(graph.labels[v], 16) for v in range(graph.n_nodes)] if graph.n_nodes <= tuning.MAX_BOXES else []
    names = [name + _times(runs[v]) for v, name in enumerate(names)]
    size, sides = _size(placed, names) if names else None, placed.points.max(axis=0, initial=0) + 1
    ax, named = axes.boxes_or_dots(ax, size, sides, (5.4, 2.6), beside=2.8, each=0.1)
    rows = _boxes(ax, graph, placed, kinds, names) if named else _dots(ax, graph, placed, kinds)
    ax.axis("off")
    return axes.finished(ax, _sentences(subject), rows)


def _what(subject: Subject, copies: ArrayLike | None = None) -> tuple[ComputationGraph, Any, Kinds]:
    if isinstance(subject, ComputationGraph):
        kinds = np.where(subject.forward, "node" if subject.forward.all() else "forward", "gradient")
        kinds = np.where(subject.once, "once", kinds)
        if copies is not None:
            kinds = np.where(frozen(copies, np.bool_, "copies", subject.n_nodes), "copy", kinds)
        return subject, np.ones(subject.n_nodes, np.int64), kinds
    simulation = Lanes.of(subject).simulation
    return simulation.graph, simulation.runs, node_kinds(simulation)


def node_kinds(simulation: Simulation) -> Kinds:
    """str[n]: keys of `NODES`. A "freed" node runs once and has no live value when the backward part begins."""
    graph, lifetimes = simulation.graph, simulation.lifetimes
    gradients = np.flatnonzero(~graph.forward[simulation.schedule.order])
    begin = int(gradients[0]) if gradients.size else 0
    kept = np.zeros(graph.n_nodes, bool)
    kept[graph.producer[lifetimes.value[lifetimes.end > begin]]] = True
    return np.select(
        [simulation.runs == 0, simulation.runs > 2, simulation.runs == 2, ~graph.forward, kept],
        ["idle", "often", "again", "gradient", "kept"],
        "freed",
    )


def _times(runs: int) -> str:
    return f" \N{MULTIPLICATION SIGN}{runs}" if runs > 1 else ""


def _size(placed: LayeredLayout, names: list[str]) -> tuple[float, float]:
    left, right = _sides(placed)
    box = max(map(axes.text_width, names)) + axes.text_width("xxx") + axes.text_width("x") / 2
    return (right - left + 1) * box / placed.apart, max(1.8, (placed.points[:, 1].max(initial=0) + 1) * 0.36)


def _sides(placed: LayeredLayout) -> tuple[float, float]:
    places = [placed.points[:, 0], placed.across[..., 0].ravel(), placed.inside[..., 0].ravel()]
    return min(x.min(initial=0) for x in places), max(x.max(initial=0) for x in places)


def _boxes(
    ax: Axes, graph: ComputationGraph, placed: LayeredLayout, kinds: Kinds, names: list[str]
) -> list[tuple[Any, str]]:
    _edges(ax, placed, on_side=False)
    outputs = _outputs(graph)
    for v, name in enumerate(names):
        style = NODES[str(kinds[v])]
        edge, width = (axes.ink(), 2) if outputs[v] else (GREY, 0.8)
        axes.boxed(ax, placed.points[v].tolist(), name, style.colour, edge, width, pad=0.3)
    left, right = _sides(placed)
    ax.set_xlim(left - 0.5, right + 0.5)
    ax.set_ylim(placed.points[:, 1].max(initial=0) + 0.6, -0.6)
    _heads(ax, graph, placed, names)
    return _legend(graph, kinds, "downwards, gradients upwards", "s")


def _heads(ax: Axes, graph: ComputationGraph, placed: LayeredLayout, names: list[str]) -> None:
    from matplotlib.patches import FancyArrowPatch

    (left, right), (low, high), (wide, tall) = ax.get_xlim(), ax.get_ylim(), axes.inches(ax)
    # Inches per unit of place, and per layer.
    across, along = wide / (right - left), tall / abs(high - low)
    half_tall = 0.85 * axes.text_height() / along
    half_wide = [(axes.text_width(name) / 2 + 0.4 * axes.text_height()) / across for name in names]
    for v, tail in _arrivals(graph, placed):
        x, y = placed.points[v].tolist()
        dx, dy = tail[0] - x, tail[1] - y
        share = min(half_wide[v] / abs(dx) if dx else 1, half_tall / abs(dy) if dy else 1, 0.8)
        head, neck = (x + share * dx, y + share * dy), (x + (share + 0.05) * dx, y + (share + 0.05) * dy)
        shape: dict[str, Any] = {"arrowstyle": "-|>", "mutation_scale": 7, "shrinkA": 0, "shrinkB": 0, "linewidth": 0.5}
        ax.add_patch(FancyArrowPatch(neck, head, color=DARK, zorder=1, **shape))


def _arrivals(graph: ComputationGraph, placed: LayeredLayout) -> Iterator[tuple[int, list[float]]]:
    """Yield (target node, start point of the last segment) for each edge."""
    place = {tuple(point): v for v, point in enumerate(placed.points.tolist())}
    for begin, end in placed.across.tolist():
        yield place[tuple(end)], begin
    indptr, source = graph.predecessors
    target, layer = row_of(indptr), placed.points[:, 1]
    inside = graph.forward[source] == graph.forward[target]
    reads = set(zip(target[inside].tolist(), np.sign(layer[source] - layer[target])[inside].tolist(), strict=True))
    for begin, end in placed.inside.tolist():
        for here, tail in ((begin, end), (end, begin)):
            v = place.get(tuple(here))
            if v is not None and (v, np.sign(tail[1] - here[1])) in reads:
                yield v, tail


def _dots(ax: Axes, graph: ComputationGraph, placed: LayeredLayout, kinds: Kinds) -> list[tuple[Any, str]]:
    wide, deep = placed.points.max(axis=0, initial=0) + 1
    on_side = bool(deep > wide)
    _edges(ax, placed, on_side)
    points = placed.points[:, ::-1] if on_side else placed.points
    (across, upwards), sides = axes.inches(ax), (deep, wide) if on_side else (wide, deep)
    room = min(across / sides[0], upwards / sides[1]) / axes.POINT
    largest = min(90.0, max(8.0, (0.9 * room) ** 2))
    memory = graph.node_memory / max(1, int(graph.node_memory.max(initial=0)))
    area = largest * (0.3 + 0.7 * memory)
    outputs = _outputs(graph)
    for kind, style in NODES.items():
        here = kinds == kind
        widths = np.where(outputs[here], 1.2, 0.4)
        options: dict[str, Any] = {"c": style.colour, "marker": style.marker, "zorder": 2}
        # The marker "x" has no edge colour.
        if style.marker != "x":
            options |= {"edgecolors": np.where(outputs[here], axes.ink(), GREY), "linewidths": widths}
        x, y = points[here].T
        ax.scatter(x, y, s=area[here], **options)
    ax.margins(0.02, 0.08)
    ax.invert_yaxis()
    rows = _legend(graph, kinds, "to the right, gradients to the left" if on_side else "downwards, gradients upwards")
    largest_node = format_bytes(int(graph.node_memory.max(initial=0)))
    return [*rows, (None, f"size shows bytes, up to {largest_node}")]


def _edges(ax: Axes, placed: LayeredLayout, on_side: bool) -> None:
    for lines, width, alpha in ((placed.across, 0.5, 0.5), (placed.inside, 0.9, 0.9)):
        # If there are more than 800 lines, draw them fainter.
        faint = alpha * min(1, max(0.08, 800 / max(1, len(lines))))
        axes.edges(ax, lines[:, :, ::-1] if on_side else lines, width, faint)


def _outputs(graph: ComputationGraph) -> NDArray[np.bool_]:
    """bool[n]: nodes with an output of more than 0 bytes; an output of 0 bytes represents a side effect."""
    flags = np.zeros(graph.n_nodes, bool)
    flags[graph.producer[graph.output & (graph.memory > 0)]] = True
    return flags


def _legend(graph: ComputationGraph, kinds: Kinds, way: str, marker: str = "") -> list[tuple[Any, str]]:
    rows: list[tuple[Any, str]] = []
    for kind, style in NODES.items():
        if count := int((kinds == kind).sum()):
            edge = style.colour if style.marker == "x" else GREY
            rows.append((axes.dot(style.colour, edge, marker or style.marker), f"{style.label} ({count:,})"))
    if outputs := int(_outputs(graph).sum()):
        ring = axes.dot(axes.ink(), axes.ink(), marker or "o", fillstyle="none")
        rows.append((ring, f"makes an output ({outputs:,})"))
    return [*rows, (None, f"forward {way}" if graph.is_training else f"runs {way.split(',')[0]}")]


def _sentences(subject: Subject) -> list[str]:
    if not isinstance(subject, ComputationGraph):
        return Lanes.of(subject).title
    forward, edges = int(subject.forward.sum()), counted(subject.read_indices.size, "read")
    parts = f", {forward:,} forward and {subject.n_nodes - forward:,} backward" if forward < subject.n_nodes else ""
    return [
        f"{counted(subject.n_nodes, 'node')}{parts}; {edges}",
        f"peak {format_bytes(baseline_peak(subject))} without rematerialization",
    ]


@checked_arguments
def graph_text(subject: Subject, *, copies: ArrayLike | None = None, width: int, height: int = 40) -> list[str]:
    """Return a line per node, with its bytes and inputs; if there are many nodes, only the first and the last ones."""
    graph, runs, kinds = _what(subject, copies)
    counts = [(style, int((kinds == kind).sum())) for kind, style in NODES.items()]
    key = "  ".join(f"{style.character} {count:,} {style.label}" for style, count in counts if count)
    lines = wrapped([*_sentences(subject), key], width)
    # Show the first and the last nodes, and the number of nodes omitted between them.
    n, limit = graph.n_nodes, max(4, height)
    first, last = (n, n) if n <= limit else (limit // 2, n - (limit - limit // 2))
    names = {v: graph.labels[v] + _times(runs[v]) for v in (*range(first), *range(last, n))}
    name = max(4, columns_of(names.values(), width // 3))
    lines.append(f"  {fitted('node', name)}  {'bytes':>7}  reads")
    for v, word in names.items():
        if v == last:
            lines.append(f"  … {counted(last - first, 'more node')}")
        amount = f"  {format_bytes(int(graph.node_memory[v])):>7}  "
        reads = _listed([graph.value_name(x) for x in graph.reads(v)], width - name - len(amount) - 2)
        lines.append(f"{NODES[str(kinds[v])].character} {fitted(word, name)}{amount}{reads}".rstrip())
    return lines


def _listed(names: list[str], width: int) -> str:
    text = ", ".join(names)
    if columns_of([text], width + 1) > width:
        each = max(6, (width + 2) // len(names) - 2)
        text = ", ".join(fitted(name, each).rstrip() for name in names)
    return fitted(text, width)
