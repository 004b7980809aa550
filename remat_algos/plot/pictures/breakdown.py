"""Stacked bars of memory and compute by type of layer and by data structure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from remat_algos.arguments import checked_arguments
from remat_algos.plot.axes import LETTER, POINT, axes_or_new, byte_axis, inches, ink, label, legend_beside, title
from remat_algos.plot.characters import columns_of, fitted
from remat_algos.plot.colours import (
    BLUE,
    GREEN,
    GREY,
    MINT,
    ORANGE,
    PALE,
    PURPLE,
    SKY,
    VERMILION,
    WHITE,
    YELLOW,
    Style,
)
from remat_algos.plot.subject import Subject
from remat_algos.text.units import format_bytes, percent
from remat_algos.text.wording import quoted

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TYPE_COLOURS = (BLUE, ORANGE, GREEN, PURPLE, SKY, YELLOW, VERMILION)
"""Colours of types of layers, the largest first; small types share one."""

STRUCTURE_STYLES = (
    Style("feature maps", PALE, "█"),
    Style("other values", PALE, "▓", hatch=".."),
    Style("gradients", MINT, "░"),
    Style("weights", GREY, "▒"),
    Style("workspace", WHITE, "·", hatch="////"),
    Style("inputs", YELLOW, "-", hatch="\\\\\\\\"),
)

SMALL = "small {}s"  # the others together: layers, or operations
THINNEST = 150  # stripes that fill a bar
WIDE, APART = 0.8, 0.7  # width of a bar relative to its room 1, and room between groups
FONT = 8
LETTERS = 7  # of a share, or of a number of bytes

Subjects = Breakdown | Subject | Mapping[str, Breakdown | Subject]


@checked_arguments
def breakdown(subjects: Subjects, *, of: str = "memory", ax: Axes | None = None) -> Axes:
    """Draw stacked bars of the memory at the peak, by type of layer and by data structure, or of the compute.

    Parameters
    ----------
    subjects : Breakdown, Plan, Simulation, ComputationGraph, or mapping of names to them
        Several are side by side under their names, to compare plans.
    of : {"memory", "compute"}
        "compute" is by type of layer only, with recomputation hatched.
    ax : Axes, optional
        By default those of a new figure; among other axes let `layout="constrained"` make room for the legend beside.

    Returns
    -------
    Axes
        y is in bytes, or in percent of the compute of the first subject without recomputation.

    Raises
    ------
    ValueError
        If `of` is unknown, or there is no subject.

    References
    ----------
    echo2020, figures 4, 5, 16, 21 and 23.

    Examples
    --------
    >>> from remat_algos import plot
    >>> from remat_algos.ir.graph import ComputationGraph
    >>> from remat_algos.ir.labels import Labels
    >>> labels = Labels(names=("conv", "relu"), ops=("Convolution", "ReLU"))
    >>> ax = plot.breakdown(ComputationGraph.from_edges([(0, 1)], memory=[6, 2], labels=labels))
    >>> [int(bar.get_height()) for bars in ax.containers for bar in bars]
    [6, 2, 8]
    """
    if of not in ("memory", "compute"):
        raise ValueError(f"a breakdown is of memory or compute, not of {quoted(of)}")
    breakdowns = _named(subjects)
    ax = axes_or_new(ax, 4 + (2.2 if of == "memory" else 1.1) * max(2, len(breakdowns)), 4.8)
    legend_beside(ax, _memory(ax, breakdowns) if of == "memory" else _compute(ax, breakdowns))
    return ax


def _named(subjects: Subjects) -> dict[str, Breakdown]:
    by_name = subjects if isinstance(subjects, Mapping) else {"": subjects}
    if not by_name:
        raise ValueError("there is nothing to draw; give a breakdown")
    return {name: s if isinstance(s, Breakdown) else breakdown_of(s) for name, s in by_name.items()}


def _types(breakdowns: Mapping[str, Breakdown], amounts: Sequence[Mapping[str, int]]) -> dict[str, str]:
    """The colour of each type of layer that is large enough to be drawn alone, the largest first."""
    largest = {name: max(a.get(name, 0) for a in amounts) for b in breakdowns.values() for name in b.types}
    smallest = max(sum(a.values()) for a in amounts) / THINNEST
    alone = [name for name in sorted(largest, key=lambda name: (-largest[name], name)) if largest[name] > smallest]
    return dict(zip(alone, TYPE_COLOURS, strict=False))


def _stack(amounts: Mapping[str, int], colours: Mapping[str, str], small: str) -> dict[str, int]:
    """Amounts of the types drawn alone, and of all the small ones."""
    stack = {name: amounts.get(name, 0) for name in colours}
    rest = sum(amount for name, amount in amounts.items() if name not in colours)
    return {**stack, small: rest}


def _memory(ax: Axes, breakdowns: Mapping[str, Breakdown]) -> list[tuple[Any, str]]:
    names, places = list(breakdowns), np.arange(len(breakdowns)) * (2 + APART)
    bytes_of = [b.layers for b in breakdowns.values()]
    colours = _types(breakdowns, bytes_of)
    top = max(1, *(b.footprint for b in breakdowns.values()))
    ax.set_ylim(0, 1.12 * top)
    ax.set_xlim(-0.6, float(places[-1]) + 1.6)
    wholes = np.array([b.footprint for b in breakdowns.values()])
    small = SMALL.format(_kind(breakdowns))
    stacks = [_stack(a, colours, small) for a in bytes_of]
    kind = f"by {_kind(breakdowns)}"
    rows: list[tuple[Any, str]] = [(None, f"{kind}:")]
    styles = {**{name: Style(name, colour, "█") for name, colour in colours.items()}, small: Style(small, WHITE, "·")}
    heights = {name: np.array([stack[name] for stack in stacks]) for name in styles}
    rows += _bars(ax, places, heights, styles, wholes)
    rows.append((None, "by data structure:"))
    heights = {
        style.label: np.array([b.structures[style.label] for b in breakdowns.values()]) for style in STRUCTURE_STYLES
    }
    rows += _bars(ax, places + 1, heights, {style.label: style for style in STRUCTURE_STYLES}, wholes)
    for place, whole in zip(places, wholes.tolist(), strict=True):
        text = format_bytes(whole)
        ax.text(place + 0.5, whole + 0.015 * top, text, ha="center", va="bottom", fontsize=FONT, color=ink())
    byte_axis(ax.yaxis, top, "memory at the peak, with residents")
    if len(breakdowns) == 1:
        ax.set_xticks([0, 1], [kind, "by data structure"])
    else:
        ax.set_xticks(places + 0.5, [label(name) for name in names])
    title(ax, list(_sentences(breakdowns)))
    return rows


def _compute(ax: Axes, breakdowns: Mapping[str, Breakdown]) -> list[tuple[Any, str]]:
    names, places = list(breakdowns), np.arange(len(breakdowns)) * 1.0
    cost = [b.layer_compute for b in breakdowns.values()]
    again = [dict(zip(b.types, b.compute[:, PARTS.index("again")].tolist(), strict=True)) for b in breakdowns.values()]
    colours = _types(breakdowns, cost)
    first = next(iter(breakdowns.values())).compute
    base = max(1, int(first.sum() - first[:, PARTS.index("again")].sum()))
    wholes = np.array([100 * sum(c.values()) / base for c in cost])
    ax.set_ylim(0, 1.12 * max(1, wholes.max()))
    ax.set_xlim(-0.6, len(breakdowns) - 0.4)
    styles, heights, small = {}, {}, SMALL.format(_kind(breakdowns))
    for name in (*colours, small):
        colour = colours.get(name, WHITE)
        more = np.array([100 * _stack(a, colours, small)[name] / base for a in again])
        whole = np.array([100 * _stack(c, colours, small)[name] / base for c in cost])
        styles[name], heights[name] = Style(name, colour, "█"), whole - more
        styles[f"{name}, again"], heights[f"{name}, again"] = Style(f"{name}, again", colour, "▒", hatch="////"), more
    rows = _bars(ax, places, heights, styles, np.where(wholes > 0, wholes, 1))
    for place, amount in zip(places, wholes.tolist(), strict=True):
        ax.text(place, amount + 1, f"{amount:.1f} %", ha="center", va="bottom", fontsize=FONT, color=ink())
    ax.set_ylabel("compute (% of one pass)")
    ax.set_xticks(places, [label(name) for name in names])
    title(ax, [f"compute by {_kind(breakdowns)}"])
    return rows


def _bars(
    ax: Axes, places: Any, heights: Mapping[str, Any], styles: Mapping[str, Style], wholes: Any
) -> list[tuple[Any, str]]:
    """Draw one stack per place, from the bottom in the order of the styles, with shares if there is room."""
    bottom, rows = np.zeros(len(places), heights[next(iter(heights))].dtype), []
    for name, style in styles.items():
        height = heights[name]
        if not height.any():
            continue
        edge = ink() if style.colour == WHITE else "white"
        options: dict[str, Any] = {"hatch": style.hatch, "edgecolor": edge, "linewidth": 0.6}
        if style.hatch and style.colour in (PALE, WHITE):
            options["edgecolor"] = GREY
        bars = ax.bar(places, height, WIDE, bottom, color=style.colour, label=style.label, **options)
        rows.append((bars, style.label))
        _shares(ax, places, bottom, height, wholes)
        bottom = bottom + height
    return rows


def _shares(ax: Axes, places: Any, bottom: Any, height: Any, wholes: Any) -> None:
    wide, high = inches(ax)
    left, right = ax.get_xlim()
    if wide * WIDE / (right - left) < LETTERS * LETTER * FONT * POINT:
        return
    paper = {"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 1}
    for x, low, amount, whole in zip(places, bottom, height, wholes, strict=True):
        if amount / ax.get_ylim()[1] * high > 1.8 * FONT * POINT:
            share = percent(amount, whole)
            ax.text(x, low + amount / 2, share, ha="center", va="center", fontsize=FONT, color="black", bbox=paper)


def _kind(breakdowns: Mapping[str, Breakdown]) -> str:
    """Kind of the types: layers, or operations."""
    return next(iter(breakdowns.values())).by


def _sentences(breakdowns: Mapping[str, Breakdown]) -> Iterator[str]:
    if len(breakdowns) == 1:
        (one,) = breakdowns.values()
        yield _sentence(one)
        return
    yield f"memory at the peak: left by {_kind(breakdowns)}, right by data structure"
    (first, base), *others = breakdowns.items()
    ratios = [f"{name} {base.footprint / b.footprint:.2f}" for name, b in others if b.footprint]
    if ratios:
        yield f"{first} relative to the others: {', '.join(ratios)}"


def _sentence(one: Breakdown) -> str:
    """The footprint and its parts."""
    residents = f" and residents {format_bytes(one.resident_memory)}" if one.resident_memory else ""
    return f"footprint {format_bytes(one.footprint)}: peak {format_bytes(one.peak_memory)}{residents}"


@checked_arguments
def breakdown_text(subjects: Subjects, *, width: int) -> list[str]:
    r"""Bars of bytes by type of layer and by data structure, and of compute.

    >>> from remat_algos.ir.graph import ComputationGraph
    >>> from remat_algos.ir.labels import Labels
    >>> labels = Labels(names=("conv", "relu"), ops=("Convolution", "ReLU"))
    >>> graph = ComputationGraph.from_edges([(0, 1)], memory=[6, 2], labels=labels)
    >>> print(*breakdown_text(graph, width=48), sep="\n")
    footprint 8 B: peak 8 B
    by layer
    convolution   6 B   75.0 %  ███████████████
    activation    2 B   25.0 %  █████
    by data structure
    other values  8 B  100.0 %  ████████████████████
    compute by layer
    activation    1   50.0 %  ███████████
    convolution   1   50.0 %  ███████████
    """
    lines: list[str] = []
    for name, one in _named(subjects).items():
        costs = dict(sorted(one.layer_compute.items(), key=lambda row: (-row[1], row[0])))
        first = columns_of([*one.types, *STRUCTURES], 20)
        parts = {f"by {one.by}": one.layers, "by data structure": one.structures, f"compute by {one.by}": costs}
        lines += [*([name] if name else []), _sentence(one)]
        for heading, amounts in parts.items():
            lines += [heading, *_lines(amounts, width, first, str if amounts is costs else format_bytes)]
    return lines


def _lines(amounts: Mapping[str, int], width: int, first: int, format_amount: Callable[[int], str]) -> list[str]:
    """A bar for each amount that is not 0."""
    whole, shown = max(1, sum(amounts.values())), {name: amount for name, amount in amounts.items() if amount}
    sizes = {name: format_amount(amount) for name, amount in shown.items()}
    second = max(map(len, sizes.values()), default=0)
    room = width - first - second - 13
    return [
        f"{fitted(name, first)}  {sizes[name].ljust(second)}  {percent(amount, whole):>7}  "
        f"{'█' * round(room * amount / whole)}".rstrip()
        for name, amount in shown.items()
    ]
