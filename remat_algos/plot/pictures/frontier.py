"""Pictures of compute against memory: a staircase for each solver, and lower bounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from remat_algos.arguments import checked_arguments
from remat_algos.bounds.memory import least_peak_bound
from remat_algos.bounds.rising import BoundCurve
from remat_algos.plan.plan import Plan
from remat_algos.plot import axes, tuning
from remat_algos.plot.characters import fitted, row_at, wrapped
from remat_algos.plot.colours import BLUE, GREY, PALE
from remat_algos.questions.frontier import Frontier
from remat_algos.schedule.emission import baseline_peak
from remat_algos.text.amounts import fine_percent, percent
from remat_algos.wording import counted, format_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@checked_arguments
def frontier(frontier: Frontier, *, ax: Axes | None = None) -> Axes:
    """Draw the overhead of the plans of each solver against their peak.

    Each plan is a corner of the staircase of its solver. The broad staircase is the Pareto frontier of all solvers; the
    number after the name of a solver counts its plans on that frontier. A dash is the lower bound at the peak of a
    plan; it touches the frontier if the plan is proven optimal.

    Parameters
    ----------
    frontier : Frontier
    ax : Axes, optional
        Axes to draw on; by default those of a new figure. `layout="constrained"` makes room for the legend.

    Returns
    -------
    Axes
        x is in bytes, y in % of one pass. A second x axis is in % of the peak without rematerialization.

    Examples
    --------
    >>> from remat_algos import plot
    >>> from remat_algos.ir.differentiate import differentiate
    >>> from remat_algos.ir.graph import ComputationGraph
    >>> from remat_algos.questions.frontier import frontier
    >>> chain = differentiate(ComputationGraph.from_edges([(i, i + 1) for i in range(8)]))
    >>> plot.frontier(frontier(chain)).get_ylabel()
    'overhead (% of one pass)'
    """
    curves = {solver: curve for solver, curve in frontier.curves.items() if curve}
    ax = axes.of_size(ax, 10, max(5, 3 + 1.1 * tuning.LEGEND_ROW * len(curves)))
    right = _right(frontier)
    few = slice(0, len(frontier.plans), 1 + len(frontier.plans) // 30)
    rows = _best(ax, frontier, right)
    # The frontier shares its plan objects with the curves, so their ids can be compared.
    best = {id(plan) for plan in frontier.plans}
    for i, (solver, curve) in enumerate(curves.items()):
        shared = sum(id(plan) in best for plan in curve)
        line = axes.curve(
            ax, i, *_staircase(frontier, curve, right), label=solver, linewidth=1.3, drawstyle="steps-post"
        )
        rows.append((line, f"{axes.label(solver)} ({shared})" if shared else axes.label(solver)))
    rows += _bounds(ax, frontier, few) + _ends(ax, frontier)
    _scales(ax, frontier, right)
    return axes.finished(ax, _sentences(frontier), rows)


def _right(frontier: Frontier) -> int:
    return max([frontier.base, frontier.bound_memory, *(plan.peak_memory for plan in frontier.plans)])


def _staircase(frontier: Frontier, plans: Sequence[Plan], right: int) -> tuple[Any, Any]:
    """Return the (bytes, % of one pass) of the plans, and a last point at the right end."""
    x = np.array([plan.peak_memory for plan in plans] + [right], np.int64)
    overhead = [100 * plan.overhead_in_time / max(1, frontier.bound_compute) for plan in plans]
    return x, np.array([*overhead, overhead[-1]])


def _best(ax: Axes, frontier: Frontier, right: int) -> list[tuple[Any, str]]:
    if not frontier.plans:
        return []
    x, y = _staircase(frontier, frontier.plans, right)
    (line,) = ax.step(x, y, where="post", color=PALE, linewidth=7, label="best of all")
    return [(line, f"best of all: {counted(len(frontier.plans), 'plan')}"), (None, "in brackets: plans of the solver")]


def _bounds(ax: Axes, frontier: Frontier, few: slice) -> list[tuple[Any, str]]:
    plans = frontier.plans
    if not plans:
        return []
    one_pass = max(1, frontier.bound_compute)
    proven = [plan.bound.amount if plan.bound is not None and plan.bound.proven else 0 for plan in plans]
    overhead = [100 * max(0, compute - frontier.bound_compute) / one_pass for compute in proven]
    style: dict[str, Any] = {"marker": "_", "markersize": 10, "markeredgewidth": 1.6, "linestyle": "none"}
    peaks = [plan.peak_memory for plan in plans]
    (line,) = ax.plot(peaks, overhead, color=axes.ink(), markevery=few, zorder=3, label="lower bound", **style)
    optimal = sum(plan.gap == 0 and plan.bound is not None and plan.bound.proven for plan in plans)
    return [
        (line, "lower bound within the peak of a plan"),
        (None, f"{optimal} of {counted(len(plans), 'plan')} proven optimal"),
    ]


def _ends(ax: Axes, frontier: Frontier) -> list[tuple[Any, str]]:
    infeasible = _infeasible(ax, frontier.bound_memory)
    style: dict[str, Any] = {"color": axes.ink(), "markersize": 11, "fillstyle": "none", "clip_on": False}
    (base,) = ax.plot(frontier.base, 0, "o", label="without rematerialization", **style)
    return [
        (base, f"without rematerialization: {format_bytes(frontier.base)}"),
        (infeasible, f"no schedule: below {format_bytes(frontier.bound_memory)}"),
    ]


def _infeasible(ax: Axes, floor: int) -> Any:
    return ax.axvspan(0, floor, facecolor=PALE, edgecolor="white", hatch="///", linewidth=0, label="bound", zorder=0)


def _memory_against_overhead(ax: Axes, least: int, right: int, what: str) -> None:
    margin = 0.06 * (right - least or right or 1)
    ax.set_xlim(max(0, least - margin), right + margin)
    axes.byte_axis(ax.xaxis, right, what)
    ax.set_ylabel("overhead (% of one pass)")
    ax.grid(color=GREY, alpha=0.25, linewidth=0.6)


def _scales(ax: Axes, frontier: Frontier, right: int) -> None:
    plans = [plan for curve in frontier.curves.values() for plan in curve]
    least = min([frontier.bound_memory, right, *(plan.peak_memory for plan in plans)])
    _memory_against_overhead(ax, least, right, "peak memory")
    limit = max([1.0, *(100 * plan.overhead_in_time / max(1, frontier.bound_compute) for plan in plans)])
    ax.set_ylim(-0.04 * limit, 1.06 * limit)
    base = max(1, frontier.base)
    share = ax.secondary_xaxis(
        "top", functions=(lambda x: np.multiply(x, 100 / base), lambda x: np.multiply(x, base / 100))
    )
    # Keep these labels away from the topmost label of the y axis.
    share.tick_params(pad=7)
    share.set_xlabel("% of the peak without rematerialization")


def _sentences(frontier: Frontier) -> list[str]:
    graph, plans = frontier.graph, frontier.plans
    lines = [f"{counted(graph.n_nodes, 'node')}; peak {format_bytes(frontier.base)} without rematerialization"]
    if graph.resident_memory:
        lines[0] += f", plus residents of {format_bytes(graph.resident_memory)}"
    if plans:
        least = plans[0]
        share, more = percent(least.peak_memory, frontier.base), percent(least.overhead_in_time, frontier.bound_compute)
        lines.insert(0, f"down to {format_bytes(least.peak_memory)}, {share} of the memory, for {more} more compute")
    if frontier.stop.reason:
        lines.append("stopped early: incomplete")
    return lines


@checked_arguments
def frontier_text(frontier: Frontier, *, width: int, height: int = 12) -> list[str]:
    """Return a line per plan, with a bar as long as its peak; if there are too many plans, some are omitted."""
    best = {(plan.peak_memory, plan.overhead_in_time) for plan in frontier.plans}
    limit = max(1, _right(frontier))

    def row(mark: str, peak: int, overhead: str) -> str:
        bar = "█" * row_at(peak, limit, width - 36)
        return f"{mark:<8}{format_bytes(peak):>8}{percent(peak, frontier.base):>9}{overhead:>10} {bar}".rstrip()

    lines = wrapped(_sentences(frontier), width)
    lines += ["            peak  of base  overhead", row("  bound", frontier.bound_memory, "")]
    for solver, curve in frontier.curves.items():
        shown = min(len(curve), max(2, height))
        few = f", {shown} shown" if shown < len(curve) else ""
        lines.append(fitted(f"{solver}: {counted(len(curve), 'plan')}{few}", width).rstrip())
        for i in range(shown):
            plan = curve[i * (len(curve) - 1) // max(1, shown - 1)]
            mark = "  *" if (plan.peak_memory, plan.overhead_in_time) in best else ""
            lines.append(row(mark, plan.peak_memory, percent(plan.overhead_in_time, frontier.bound_compute)))
    return [*lines, "* no plan is better in both"]


@checked_arguments
def bounds(curve: BoundCurve, *, ax: Axes | None = None) -> Axes:
    """Draw the lower bound on overhead against the memory limit.

    A bound for a limit also holds for every smaller limit, so its line extends to the left.

    Parameters
    ----------
    curve : BoundCurve
    ax : Axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    Axes
        x is in bytes, y in % of one pass.

    Examples
    --------
    >>> from remat_algos import plot
    >>> from remat_algos.bounds.rising import bound_curve
    >>> from remat_algos.context import Clock
    >>> from remat_algos.ir.differentiate import differentiate
    >>> from remat_algos.ir.graph import ComputationGraph
    >>> chain = differentiate(ComputationGraph.from_edges([(i, i + 1) for i in range(8)]))
    >>> plot.bounds(bound_curve(chain, [9, 7, 5], Clock(), effort="fast")).get_ylabel()
    'overhead (% of one pass)'
    """
    ax = axes.of_size(ax, 8, 4.5)
    floor, base = least_peak_bound(curve.graph)[0], baseline_peak(curve.graph)
    fitting = [point for point, bound in zip(_points(curve), curve.bounds, strict=True) if not bound.infeasible]
    right = max([base, floor, *(limit for limit, _ in fitting)])
    _infeasible(ax, floor)
    if fitting:
        x, y = np.array([(floor, fitting[0][1]), *fitting, (right, 0.0)]).T
        ax.fill_between(x, y, step="pre", color=PALE, alpha=0.6, linewidth=0)
        ax.step(x, y, where="pre", color=BLUE, linewidth=1.8)
        ax.plot(*np.array(fitting).T, "o", color=BLUE, markersize=4)
    ax.set_ylim(0, 1.06 * max([1.0, *(share for _, share in fitting)]))
    _memory_against_overhead(ax, floor, right, "limit of the peak")
    return axes.finished(ax, _bounds_sentences(curve))


@checked_arguments
def bounds_text(curve: BoundCurve, *, width: int) -> list[str]:
    """Return a line per limit, with a bar as long as the overhead."""
    points, base = _points(curve), baseline_peak(curve.graph)
    longest = max([1e-9, *(share for _, share in points)])
    lines = [*wrapped(_bounds_sentences(curve), width), "   limit  of base  overhead"]
    for (limit, share), bound in zip(points, curve.bounds, strict=True):
        bar = "█" * round(share / longest * (width - 27))
        overhead = "none fits" if bound.infeasible else fine_percent(share, 100)
        lines.append(f"{format_bytes(limit):>8}{percent(limit, base):>9}{overhead:>10} {bar}".rstrip())
    return lines


def _points(curve: BoundCurve) -> list[tuple[int, float]]:
    """Return (limit, overhead in % of one pass) in order of increasing limit."""
    one_pass = max(1, curve.graph.needed_compute)
    compute = [100 * (bound.amount - curve.graph.needed_compute) / one_pass for bound in curve.bounds]
    return list(zip(curve.limits, compute, strict=True))


def _bounds_sentences(curve: BoundCurve) -> list[str]:
    graph = curve.graph
    floor, base = least_peak_bound(graph)[0], baseline_peak(graph)
    return [
        f"lower bounds for {counted(graph.n_nodes, 'node')}; peak {format_bytes(base)} without rematerialization",
        f"no schedule goes below {format_bytes(floor)}, {percent(floor, base)} of that",
    ]
