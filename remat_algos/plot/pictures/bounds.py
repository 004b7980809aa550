"""Lower bounds on compute against the limit of memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from remat_algos.arguments import checked_arguments
from remat_algos.bounds.curve import BoundCurve
from remat_algos.bounds.memory import least_peak_bound
from remat_algos.plot.axes import axes_or_new, byte_axis, title
from remat_algos.plot.colours import BLUE, GREY, PALE
from remat_algos.plot.text import MIN_WIDTH, wrapped_all
from remat_algos.schedule.baseline import baseline_peak
from remat_algos.text.units import fine_percent, format_bytes, percent
from remat_algos.text.wording import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@checked_arguments
def bounds(curve: BoundCurve, *, ax: Axes | None = None) -> Axes:
    """Draw the lower bound on overhead against the limit of the peak.

    A bound for a limit also holds for every smaller one, so stairs reach to the left.

    Parameters
    ----------
    curve : BoundCurve
    ax : Axes, optional
        By default those of a new figure.

    Returns
    -------
    Axes
        x is in bytes, y in % of one pass.

    Examples
    --------
    >>> from remat_algos import plot
    >>> from remat_algos.bounds.curve import bound_curve
    >>> from remat_algos.context import Clock
    >>> from remat_algos.ir.differentiate import differentiate
    >>> from remat_algos.ir.graph import ComputationGraph
    >>> chain = differentiate(ComputationGraph.from_edges([(i, i + 1) for i in range(8)]))
    >>> plot.bounds(bound_curve(chain, [9, 7, 5], Clock(), effort="fast")).get_ylabel()
    'overhead (% of one pass)'
    """
    ax = axes_or_new(ax, 8, 4.5)
    floor, base = least_peak_bound(curve.graph)[0], baseline_peak(curve.graph)
    fitting = [point for point, bound in zip(_points(curve), curve.bounds, strict=True) if not bound.infeasible]
    right = max([base, floor, *(limit for limit, _ in fitting)])
    ax.axvspan(0, floor, facecolor=PALE, edgecolor="white", hatch="///", linewidth=0, zorder=0)
    if fitting:
        x, y = np.array([(floor, fitting[0][1]), *fitting, (right, 0.0)]).T
        ax.fill_between(x, y, step="pre", color=PALE, alpha=0.6, linewidth=0)
        ax.step(x, y, where="pre", color=BLUE, linewidth=1.8)
        ax.plot(*np.array(fitting).T, "o", color=BLUE, markersize=4)
    margin = 0.06 * (right - floor or right or 1)
    ax.set_xlim(max(0, floor - margin), right + margin)
    ax.set_ylim(0, 1.06 * max([1.0, *(share for _, share in fitting)]))
    byte_axis(ax.xaxis, right, "limit of the peak")
    ax.set_ylabel("overhead (% of one pass)")
    ax.grid(color=GREY, alpha=0.25, linewidth=0.6)
    title(ax, _sentences(curve))
    return ax


@checked_arguments
def bounds_text(curve: BoundCurve, *, width: int = 72) -> str:
    """Lower bounds in characters: a line for each limit, its bar as long as the overhead.

    Parameters
    ----------
    curve : BoundCurve
    width : int
        Columns, at least 40.

    Returns
    -------
    str

    Examples
    --------
    >>> from remat_algos.bounds.curve import bound_curve
    >>> from remat_algos.context import Clock
    >>> from remat_algos.ir.differentiate import differentiate
    >>> from remat_algos.ir.graph import ComputationGraph
    >>> chain = differentiate(ComputationGraph.from_edges([(i, i + 1) for i in range(8)]))
    >>> print(bounds_text(bound_curve(chain, [9, 7, 5], Clock(), effort="fast"), width=40))
    lower bounds for 18 nodes; peak 11 B
    without rematerialization
    no schedule goes below 4 B, 36.4 % of
    that
       limit  of base  overhead
         5 B   45.5 %    24.0 % █████████████
         7 B   63.6 %    16.0 % █████████
         9 B   81.8 %     8.0 % ████
    """
    width = max(width, MIN_WIDTH)
    points, base = list(_points(curve)), baseline_peak(curve.graph)
    longest = max([1e-9, *(share for _, share in points)])
    lines = wrapped_all(_sentences(curve), width)
    lines.append("   limit  of base  overhead")
    for (limit, share), bound in zip(points, curve.bounds, strict=True):
        bar = "█" * round(share / longest * (width - 27))
        overhead = "none fits" if bound.infeasible else fine_percent(share, 100)
        lines.append(f"{format_bytes(limit):>8}{percent(limit, base):>9}{overhead:>10} {bar}".rstrip())
    return "\n".join(lines)


def _points(curve: BoundCurve) -> list[tuple[int, float]]:
    """Limits, rising, with the overhead in % of one pass."""
    one_pass = max(1, curve.graph.needed_compute)
    compute = [100 * (bound.compute - curve.graph.needed_compute) / one_pass for bound in curve.bounds]
    return list(zip(curve.limits, compute, strict=True))


def _sentences(curve: BoundCurve) -> list[str]:
    graph = curve.graph
    floor, base = least_peak_bound(graph)[0], baseline_peak(graph)
    return [
        f"lower bounds for {counted(graph.n_nodes, 'node')}; peak {format_bytes(base)} without rematerialization",
        f"no schedule goes below {format_bytes(floor)}, {percent(floor, base)} of that",
    ]
