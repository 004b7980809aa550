"""The figures of kumar2019: lengths against depth, and memory against length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from remat_algos.plot.axes import byte_axis, legend_beside, of_size
from remat_algos.plot.colours import CURVES, GREY

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

Curve = Sequence[tuple[float, float]]
"""Points, each across and up."""


def plot_lengths(panels: Mapping[str, Mapping[str, Curve]]) -> Axes:
    """A panel for each family of networks: schedule length of each strategy against depth.

    Parameters
    ----------
    panels : mapping of str to mapping of str to points
        Points by family and strategy: depth, and length in units of one pass.

    Returns
    -------
    Axes
        Axes of the first panel.
    """
    from matplotlib.figure import Figure

    drawn = Figure(figsize=(5 * len(panels), 4.2), layout="constrained")
    first, *_ = flat = list(drawn.subplots(1, len(panels), sharey=True, squeeze=False).flat)
    rows: list[Line2D] = []
    for ax, (family, curves) in zip(flat, panels.items(), strict=True):
        rows = _drawn(ax, curves)
        ax.set_title(family, fontsize=10)
        ax.set_xlim(left=0)
        ax.set_ylim(bottom=0)
        ax.set_xlabel("depth")
    first.set_ylabel("length, one pass = 1")
    flat[-1].legend(rows, list(next(iter(panels.values()))), loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False)
    return first


def plot_trade(curves: Mapping[str, Curve]) -> Axes:
    """Peak memory of several strategies against schedule length on a logarithmic axis.

    Parameters
    ----------
    curves : mapping of str to points
        Points by strategy: length in units of one pass, and bytes.

    Returns
    -------
    Axes
    """
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    ax = of_size(None, 10, 5)
    lines = _drawn(ax, curves)
    ax.set_xscale("log")
    ax.xaxis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 4, 6, 8)))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda times, _: f"{times:g}"))
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.set_xlabel("length, one pass = 1")
    byte_axis(ax.yaxis, round(max(up for curve in curves.values() for _, up in curve)), "peak memory")
    ax.set_ylim(bottom=0)
    legend_beside(ax, list(zip(lines, curves, strict=True)))
    return ax


def _drawn(ax: Axes, curves: Mapping[str, Curve]) -> list[Line2D]:
    """Draw a line for each strategy, in the style of all figures."""
    lines = []
    for curve, (colour, marker, style) in zip(curves.values(), CURVES, strict=False):
        across, up = zip(*curve, strict=True)
        lines += ax.plot(across, up, color=colour, marker=marker, markersize=4, linestyle=style, linewidth=1.6)
    ax.grid(color=GREY, alpha=0.25, linewidth=0.6)
    return lines
