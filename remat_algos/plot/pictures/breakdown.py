"""Stacked bars of memory by layer type and by data structure, and of compute by layer type."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from remat_algos.arguments import checked_arguments
from remat_algos.errors import ArgumentError
from remat_algos.plot import axes
from remat_algos.plot.characters import columns_of, fitted
from remat_algos.plot.colours import STRUCTURES as STRUCTURES_DRAWN
from remat_algos.plot.colours import TYPES, WHITE, Style
from remat_algos.plot.lanes import Subject
from remat_algos.questions.breakdown import PARTS, STRUCTURES, Breakdown
from remat_algos.questions.breakdown import breakdown as breakdown_of
from remat_algos.text.amounts import percent
from remat_algos.wording import format_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Bands = list[tuple[Style, Any]]
Subjects = Breakdown | Subject | Mapping[str, Breakdown | Subject]


@checked_arguments
def breakdown(subjects: Subjects, *, of: str = "memory", ax: Axes | None = None) -> Axes:
    """Draw the memory at the peak, or the compute, as stacked bars.

    Parameters
    ----------
    subjects : Breakdown, Plan, Simulation, ComputationGraph, or mapping of names to them
        Several subjects are drawn side by side, with their names.
    of : {"memory", "compute"}
        Memory is drawn by layer type and by data structure; compute by layer type only, with recomputation hatched.
    ax : Axes, optional
        Axes to draw on; by default those of a new figure. `layout="constrained"` makes room for the legend.

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
    >>> from remat_algos.ir.parts import Labels
    >>> labels = Labels(names=("conv", "relu"), ops=("Convolution", "ReLU"))
    >>> ax = plot.breakdown(ComputationGraph.from_edges([(0, 1)], memory=[6, 2], labels=labels))
    >>> [int(bar.get_height()) for bars in ax.containers for bar in bars]
    [6, 2, 8]
    """
    if of not in ("memory", "compute"):
        raise ArgumentError("a breakdown shows memory or compute, not {of!r}", of=of)
    breakdowns = _named(subjects)
    ax = axes.of_size(ax, 4 + (2.2 if of == "memory" else 1.1) * max(2, len(breakdowns)), 4.8)
    return (_memory if of == "memory" else _compute)(ax, breakdowns)


def _named(subjects: Subjects) -> dict[str, Breakdown]:
    by_name = subjects if isinstance(subjects, Mapping) else {"": subjects}
    if not by_name:
        raise ArgumentError("there is nothing to draw; give a breakdown")
    return {name: s if isinstance(s, Breakdown) else breakdown_of(s) for name, s in by_name.items()}


def _large(breakdowns: Mapping[str, Breakdown], amounts: Sequence[Mapping[str, int]]) -> list[str]:
    """Return the layer types above 1/150 of the highest bar, in decreasing order; each of them gets its own band."""
    largest = {name: max(a.get(name, 0) for a in amounts) for b in breakdowns.values() for name in b.types}
    smallest = max(sum(a.values()) for a in amounts) / 150
    large = [name for name in sorted(largest, key=lambda name: (-largest[name], name)) if largest[name] > smallest]
    return large[: len(TYPES)]


def _bands(amounts: Sequence[Mapping[str, int]], large: Sequence[str], by: str) -> Bands:
    bands = [
        (Style(name, colour, "█"), np.array([a.get(name, 0) for a in amounts]))
        for name, colour in zip(large, TYPES, strict=False)
    ]
    rest = [sum(amount for name, amount in a.items() if name not in large) for a in amounts]
    return [*bands, (Style(f"small {by}s", WHITE, "·"), np.array(rest))]


def _memory(ax: Axes, breakdowns: Mapping[str, Breakdown]) -> Axes:
    every, by = list(breakdowns.values()), _by(breakdowns)
    # Each subject has two bars, with a gap to the next subject.
    places = np.arange(len(every)) * 2.7
    wholes = np.array([b.footprint for b in every])
    top = max(1, *wholes.tolist())
    ax.set_ylim(0, 1.12 * top)
    ax.set_xlim(-0.6, float(places[-1]) + 1.6)
    layers = [b.layers for b in every]
    structures = [(style, np.array([b.structures[style.label] for b in every])) for style in STRUCTURES_DRAWN]
    rows: list[tuple[Any, str]] = [(None, f"by {by}:")]
    rows += _bars(ax, places, _bands(layers, _large(breakdowns, layers), by), wholes)
    rows.append((None, "by data structure:"))
    rows += _bars(ax, places + 1, structures, wholes)
    axes.above(ax, places + 0.5, wholes + 0.015 * top, map(format_bytes, wholes.tolist()))
    axes.byte_axis(ax.yaxis, top, "memory at the peak, with residents")
    if len(every) == 1:
        ax.set_xticks([0, 1], [f"by {by}", "by data structure"])
    else:
        ax.set_xticks(places + 0.5, [axes.label(name) for name in breakdowns])
    return axes.finished(ax, _sentences(breakdowns), rows)


def _compute(ax: Axes, breakdowns: Mapping[str, Breakdown]) -> Axes:
    every, by, places = list(breakdowns.values()), _by(breakdowns), np.arange(len(breakdowns)) * 1.0
    column = PARTS.index("again")
    cost = [b.layer_compute for b in every]
    again = [dict(zip(b.types, b.compute[:, column].tolist(), strict=True)) for b in every]
    base = max(1, int(every[0].compute.sum() - every[0].compute[:, column].sum()))
    wholes = np.array([100 * sum(c.values()) / base for c in cost])
    ax.set_ylim(0, 1.12 * max(1, wholes.max()))
    ax.set_xlim(-0.6, len(every) - 0.4)
    large, bands = _large(breakdowns, cost), Bands()
    for (style, whole), (_, more) in zip(_bands(cost, large, by), _bands(again, large, by), strict=True):
        bands.append((style, 100 * (whole - more) / base))
        bands.append((replace(style, label=f"{style.label}, recomputed", hatch="////"), 100 * more / base))
    rows = _bars(ax, places, bands, np.where(wholes > 0, wholes, 1))
    axes.above(ax, places, wholes + 1, (f"{amount:.1f} %" for amount in wholes.tolist()))
    ax.set_ylabel("compute (% of one pass)")
    ax.set_xticks(places, [axes.label(name) for name in breakdowns])
    return axes.finished(ax, [f"compute by {by}"], rows)


def _bars(ax: Axes, places: Any, bands: Bands, wholes: Any) -> list[tuple[Any, str]]:
    left, right = ax.get_xlim()
    room = axes.inches(ax)[0] * 0.8 / (right - left) >= axes.text_width("100.0 %")
    shares = (lambda height: list(map(percent, height, wholes))) if room else None
    return axes.bars(ax, places, [band for band in bands if band[1].any()], 0.8, shares)


def _by(breakdowns: Mapping[str, Breakdown]) -> str:
    return next(iter(breakdowns.values())).by


def _sentences(breakdowns: Mapping[str, Breakdown]) -> Iterator[str]:
    if len(breakdowns) == 1:
        (one,) = breakdowns.values()
        yield _sentence(one)
        return
    yield f"memory at the peak: left by {_by(breakdowns)}, right by data structure"
    (first, base), *others = breakdowns.items()
    ratios = [f"{name} {base.footprint / b.footprint:.2f}" for name, b in others if b.footprint]
    if ratios:
        yield f"{first} relative to the others: {', '.join(ratios)}"


def _sentence(one: Breakdown) -> str:
    residents = f" and residents {format_bytes(one.resident_memory)}" if one.resident_memory else ""
    return f"footprint {format_bytes(one.footprint)}: peak {format_bytes(one.peak_memory)}{residents}"


@checked_arguments
def breakdown_text(subjects: Subjects, *, width: int) -> list[str]:
    """Return bars of memory by layer type and by data structure, and of compute by layer type."""
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
    whole, shown = max(1, sum(amounts.values())), {name: amount for name, amount in amounts.items() if amount}
    sizes = {name: format_amount(amount) for name, amount in shown.items()}
    second = max(map(len, sizes.values()), default=0)
    room = width - first - second - 13
    return [
        f"{fitted(name, first)}  {sizes[name].ljust(second)}  {percent(amount, whole):>7}  "
        f"{'█' * round(room * amount / whole)}".rstrip()
        for name, amount in shown.items()
    ]
