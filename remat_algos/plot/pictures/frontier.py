"""Compute against memory: a staircase for each solver."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from remat_algos.arguments import checked_arguments
from remat_algos.plan.frontier import Frontier
from remat_algos.plan.plan import Plan
from remat_algos.plot.axes import LEGEND_ROW, axes_or_new, byte_axis, ink, label, legend_beside, title
from remat_algos.plot.colours import CURVES, GREY, PALE, YELLOW
from remat_algos.plot.text import MIN_WIDTH, fitted, wrapped
from remat_algos.text.units import format_bytes, percent
from remat_algos.text.wording import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FEW = 30  # plans of a curve with a marker each; more have some only


@checked_arguments
def frontier(frontier: Frontier, *, ax: Axes | None = None) -> Axes:
    """Draw the overhead of the plans of each solver against their peak.

    A stair reaches to the right until a plan of the solver is cheaper.

    Parameters
    ----------
    frontier : Frontier
    ax : Axes, optional
        By default those of a new figure; among other axes let `layout="constrained"` make room for the legend beside.

    Returns
    -------
    Axes
        x is in bytes, above it in % of the peak without rematerialization; y in % of one pass.

    Examples
    --------
    >>> from remat_algos import plot
    >>> from remat_algos.ir.differentiate import differentiate
    >>> from remat_algos.ir.graph import ComputationGraph
    >>> from remat_algos.plan.frontier import frontier
    >>> chain = differentiate(ComputationGraph.from_edges([(i, i + 1) for i in range(8)]))
    >>> plot.frontier(frontier(chain)).get_ylabel()
    'overhead (% of one pass)'
    """
    ax = axes_or_new(ax, 10, max(5, 2 + 1.4 * LEGEND_ROW * len(frontier.curves)))
    right = _right(frontier)
    rows = _best(ax, frontier, right) + _bounds(ax, frontier)
    for i, (solver, curve) in enumerate(frontier.curves.items()):
        if curve:
            colour, marker, style = CURVES[i % len(CURVES)]
            (stairs,) = ax.step(
                *_staircase(frontier, curve, right),
                where="post",
                color=colour,
                marker=marker,
                markersize=max(4, 9 - 1.3 * i),
                markeredgecolor="white",
                markeredgewidth=0.5,
                markevery=slice(0, len(curve), 1 + len(curve) // FEW),
                linestyle=style,
                linewidth=1.8,
                label=solver,
            )
            rows.append((stairs, f"{label(solver)}: {counted(len(curve), 'plan')}"))
    rows += _ends(ax, frontier)
    _scales(ax, frontier, right)
    title(ax, _sentences(frontier))
    legend_beside(ax, rows)
    return ax


def _right(frontier: Frontier) -> int:
    """The right end of the stairs."""
    return max([frontier.base, frontier.bound_memory, *(plan.peak_memory for plan in frontier.plans)])


def _staircase(frontier: Frontier, plans: Sequence[Plan], right: int) -> tuple[Any, Any]:
    """(bytes, % of one pass) of the plans and of the end of the last stair."""
    x = np.array([plan.peak_memory for plan in plans] + [right], np.int64)
    overhead = [100 * plan.overhead / max(1, frontier.bound_compute) for plan in plans]
    return x, np.array([*overhead, overhead[-1]])


def _best(ax: Axes, frontier: Frontier, right: int) -> list[tuple[Any, str]]:
    """Draw the Pareto frontier of all solvers as a broad band under the curves."""
    if not frontier.plans:
        return []
    x, y = _staircase(frontier, frontier.plans, right)
    (band,) = ax.step(x, y, where="post", color=YELLOW, linewidth=10, solid_joinstyle="miter", label="best of all")
    return [(band, f"best of all: {counted(len(frontier.plans), 'plan')}")]


def _bounds(ax: Axes, frontier: Frontier) -> list[tuple[Any, str]]:
    """Draw the lower bound on overhead as a line. The bound for a peak also holds for all lower ones."""
    plans = frontier.plans
    if not plans:
        return []
    one_pass = frontier.bound_compute
    bounds = [plan.bound.compute if plan.bound and plan.bound.proven else one_pass for plan in plans]
    overhead = [100 * (bound - one_pass) / max(1, one_pass) for bound in bounds]
    x = [min(frontier.bound_memory, plans[0].peak_memory), *(plan.peak_memory for plan in plans)]
    (line,) = ax.step(
        x, [overhead[0], *overhead], where="pre", color=ink(), linewidth=1.2, linestyle=(0, (4, 2)), label="lower bound"
    )
    optimal = sum(plan.gap == 0 and plan.bound is not None and plan.bound.proven for plan in plans)
    return [(line, f"lower bound; {optimal} of {len(plans)} plans proven optimal")]


def _ends(ax: Axes, frontier: Frontier) -> list[tuple[Any, str]]:
    """Draw the region below the lower bounds, and the run without rematerialization."""
    infeasible = ax.axvspan(
        0,
        frontier.bound_memory,
        facecolor=PALE,
        edgecolor="white",
        hatch="///",
        linewidth=0,
        label="bound",
        zorder=0,
    )
    (base,) = ax.plot(
        frontier.base,
        0,
        "o",
        color=ink(),
        markersize=11,
        fillstyle="none",
        clip_on=False,
        label="without rematerialization",
    )
    return [
        (base, f"without rematerialization: {format_bytes(frontier.base)}"),
        (infeasible, f"no schedule: below {format_bytes(frontier.bound_memory)}"),
    ]


def _scales(ax: Axes, frontier: Frontier, right: int) -> None:
    plans = [plan for curve in frontier.curves.values() for plan in curve]
    least = min([frontier.bound_memory, right, *(plan.peak_memory for plan in plans)])
    margin = 0.06 * (right - least or right or 1)
    ax.set_xlim(max(0, least - margin), right + margin)
    limit = max([1.0, *(100 * plan.overhead / max(1, frontier.bound_compute) for plan in plans)])
    ax.set_ylim(-0.04 * limit, 1.06 * limit)
    byte_axis(ax.xaxis, right, "peak memory")
    ax.set_ylabel("overhead (% of one pass)")
    ax.grid(color=GREY, alpha=0.25, linewidth=0.6)
    base = max(1, frontier.base)
    share = ax.secondary_xaxis(
        "top", functions=(lambda x: np.multiply(x, 100 / base), lambda x: np.multiply(x, base / 100))
    )
    share.tick_params(pad=7)  # clear of the topmost label of the y axis
    share.set_xlabel("% of the peak without rematerialization")


def _sentences(frontier: Frontier) -> list[str]:
    graph, plans = frontier.graph, frontier.plans
    lines = [f"{counted(graph.n_nodes, 'node')}; peak {format_bytes(frontier.base)} without rematerialization"]
    if plans:
        least = plans[0]
        overhead = percent(least.overhead, frontier.bound_compute)
        lines.append(
            f"lowest peak {format_bytes(least.peak_memory)}, "
            f"{percent(least.peak_memory, frontier.base)} of that, for {overhead} more compute"
        )
    if graph.resident_memory:
        lines[0] += f", residents {format_bytes(graph.resident_memory)} besides"
    if frontier.stop.reason:
        lines.append("cut short: what was found so far")
    return lines


@checked_arguments
def frontier_text(frontier: Frontier, *, width: int = 72, height: int = 12) -> str:
    """A frontier in characters: a line for each plan, its bar as long as its peak.

    Parameters
    ----------
    frontier : Frontier
    width : int
        Columns, at least 40.
    height : int
        Lines for a solver, at least 2; if there are more plans some are left out, never the first or the last.

    Returns
    -------
    str

    Examples
    --------
    >>> from remat_algos.ir.differentiate import differentiate
    >>> from remat_algos.ir.graph import ComputationGraph
    >>> from remat_algos.plan.frontier import frontier
    >>> chain = differentiate(ComputationGraph.from_edges([(i, i + 1) for i in range(8)]))
    >>> print(frontier_text(frontier(chain, solvers=["chen_sqrt"]), width=60))
    18 nodes; peak 11 B without rematerialization
    lowest peak 7 B, 63.6 % of that, for 16.0 % more compute
                peak  of base  overhead
      bound      4 B   36.4 %           █████████
    chen_sqrt: 5 plans
      *          7 B   63.6 %    16.0 % ███████████████
      *          8 B   72.7 %    12.0 % █████████████████
      *          9 B   81.8 %     8.0 % ████████████████████
      *         10 B   90.9 %     4.0 % ██████████████████████
      *         11 B  100.0 %     0.0 % ████████████████████████
    * no plan is better in both
    """
    width, lines = max(width, MIN_WIDTH), []
    for sentence in _sentences(frontier):
        lines += wrapped(sentence, width)
    best = {(plan.peak_memory, plan.overhead) for plan in frontier.plans}
    limit = max(1, _right(frontier))
    bar = width - len(COLUMNS) - 1
    lines += [COLUMNS, _row("  bound", frontier.bound_memory, frontier, "", bar, limit)]
    for solver, curve in frontier.curves.items():
        shown = _some(len(curve), max(2, height))
        few = f", {len(shown)} of them here" if len(shown) < len(curve) else ""
        lines.append(fitted(f"{solver}: {counted(len(curve), 'plan')}{few}", width).rstrip())
        for at in shown:
            plan = curve[at]
            overhead = percent(plan.overhead, frontier.bound_compute)
            mark = "  *" if (plan.peak_memory, plan.overhead) in best else ""
            lines.append(_row(mark, plan.peak_memory, frontier, overhead, bar, limit))
    return "\n".join([*lines, "* no plan is better in both"])


COLUMNS = "            peak  of base  overhead"


def _row(mark: str, peak: int, frontier: Frontier, overhead: str, bar: int, limit: int) -> str:
    filled = (2 * peak * bar + limit) // (2 * limit)
    return f"{mark:<8}{format_bytes(peak):>8}{percent(peak, frontier.base):>9}{overhead:>10} {'█' * filled}".rstrip()


def _some(count: int, limit: int) -> list[int]:
    """Indices of at most `limit` entries of a row, the ends among them."""
    return sorted({i * (count - 1) // max(1, min(count, limit) - 1) for i in range(min(count, limit))})
