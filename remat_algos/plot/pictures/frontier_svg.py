"""A frontier as a small SVG for notebooks: no script, style or id, so that it can stand anywhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from math import floor, log10

import numpy as np

from remat_algos.plan.plan import Plan
from remat_algos.plot.colours import BLUE, GREY
from remat_algos.plot.pictures.frontier import overhead_bound_of, trade
from remat_algos.questions.frontier import Frontier
from remat_algos.text.units import format_bytes, percent
from remat_algos.text.wording import counted, printable, shortened

WIDTH, HEIGHT, LEFT, TOP, FOOT = 720, 308, 48, 42, 34  # pixels
DEEP = HEIGHT - TOP - FOOT
MAX_POINTS = 200  # more plans are sampled
TICKS = 5  # on each axis
DASH = 7  # half the length of a bound's dash, in pixels
NAMED, LONGEST_NAME = 5, 24  # recomputed nodes of a plan that its tooltip names, and characters of a name


def frontier_svg(frontier: Frontier) -> str:
    """SVG of the overhead of the best plans against their peak, each with a tooltip that every browser shows by itself.

    Grey stairs are solvers, dashes lower bounds for the peaks of plans. Text has the colour of the page around it.

    Parameters
    ----------
    frontier : Frontier

    Examples
    --------
    >>> from remat_algos.ir.differentiate import differentiate
    >>> from remat_algos.ir.graph import ComputationGraph
    >>> from remat_algos.questions.frontier import frontier
    >>> chain = differentiate(ComputationGraph.from_edges([(i, i + 1) for i in range(8)]))
    >>> svg = frontier_svg(frontier(chain, solvers=["chen_sqrt"]))
    >>> svg.count("<title>"), "7 B, 63.6 % of the memory, for 16.0 % more compute; chen_sqrt" in svg
    (5, True)
    """
    scales = _Scales(frontier)
    parts = [*_axes(frontier, scales)]
    for curve in frontier.curves.values():
        if curve:
            parts.append(f'<path d="{_stairs(curve, scales)}" stroke="{GREY}" stroke-opacity="0.5"/>')
    if frontier.plans:
        parts.append(f'<path d="{_stairs(frontier.plans, scales)}" stroke="{BLUE}" stroke-width="2.4"/>')
    marks = "".join([*_texts(frontier, scales), *_points(frontier, scales)])
    bounds = f'<path d="{_bounds(frontier, scales)}" stroke="currentColor" stroke-width="1.6" pointer-events="none"/>'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
        f'style="max-width: 100%; height: auto" role="img" '
        f'aria-label="overhead over peak memory: {escape(_caption(frontier))}" font-family="sans-serif" font-size="11" '
        f'fill="currentColor"><g fill="none">{"".join(parts)}</g>{marks}{bounds}</svg>'
    )


class _Scales:
    """Pixels of bytes and of costs."""

    def __init__(self, frontier: Frontier) -> None:
        plans = [plan for curve in frontier.curves.values() for plan in curve]
        peaks = [frontier.bound_memory, frontier.base, *(plan.peak_memory for plan in plans)]
        self.low, self.high = min(peaks), max(peaks)
        self.top = max([frontier.bound_compute // 100, 1, *(plan.overhead_in_time for plan in plans)])

    def x(self, amount: float) -> str:
        """Where an amount of bytes is, from left to right."""
        return f"{LEFT + (WIDTH - LEFT - 8) * (0.03 + 0.97 * (amount - self.low) / max(1, self.high - self.low)):.1f}"

    def y(self, cost: float) -> str:
        """Where a cost beyond one pass is, from the bottom up."""
        return f"{TOP + DEEP * (1 - cost / self.top):.1f}"


def _stairs(plans: Sequence[Plan], scales: _Scales) -> str:
    """A stair that reaches to the right until a plan is cheaper."""
    first, *rest = [(scales.x(plan.peak_memory), scales.y(plan.overhead_in_time)) for plan in plans]
    return f"M{first[0]} {first[1]}" + "".join(f"H{x}V{y}" for x, y in rest) + f"H{scales.x(scales.high)}"


def _bounds(frontier: Frontier, scales: _Scales) -> str:
    """A dash at what no order within the peak of a plan computes less than; between plans it is not known."""
    dashes = (
        f"M{float(scales.x(plan.peak_memory)) - DASH:.1f} {scales.y(overhead_bound_of(plan, frontier))}h{2 * DASH}"
        for plan in frontier.sampled(MAX_POINTS)
    )
    return "".join(dashes)


def _axes(frontier: Frontier, scales: _Scales) -> Iterator[str]:
    """The axes, and the bytes that no schedule goes below."""
    end = float(scales.x(frontier.bound_memory))
    yield f'<path fill="{GREY}" fill-opacity="0.25" d="M{LEFT} {TOP}H{end}V{TOP + DEEP}H{LEFT}z"/>'
    yield f'<path d="M{LEFT} {TOP}V{TOP + DEEP}H{WIDTH}" stroke="currentColor"/>'


def _texts(frontier: Frontier, scales: _Scales) -> Iterator[str]:
    """The caption, and ticks of both axes."""
    yield f'<text x="0" y="12">{escape(_caption(frontier))}</text>'
    key = "more compute; grey: each solver, dashes: lower bounds for the peaks of plans"
    yield f'<text x="0" y="27" fill-opacity="0.75">{key}</text>'
    for i in range(TICKS):
        amount = scales.low + (scales.high - scales.low) * i // (TICKS - 1)
        place = "end" if i == TICKS - 1 else "middle"
        yield f'<text x="{scales.x(amount)}" y="{TOP + DEEP + 14}" text-anchor="{place}">{format_bytes(amount)}</text>'
    one_percent = max(1, frontier.bound_compute) / 100
    step = _round_step(scales.top / one_percent)
    for i in range(int(scales.top / one_percent / step) + 1):
        y = float(scales.y(i * step * one_percent)) + 4
        yield f'<text x="{LEFT - 4}" y="{y:.1f}" text-anchor="end">{i * step:g} %</text>'
    yield f'<text x="{WIDTH}" y="{HEIGHT - 5}" text-anchor="end">peak memory</text>'


def _round_step(top: float) -> float:
    """1, 2 or 5 times a power of ten, which `TICKS` of them or fewer fill."""
    power = 10.0 ** floor(log10(top / TICKS))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power * TICKS >= top)


def _points(frontier: Frontier, scales: _Scales) -> Iterator[str]:
    """A mark for each of the best plans, and what it is."""
    for plan in frontier.sampled(MAX_POINTS):
        text = f"{trade(plan, frontier)}; {printable(plan.method)}"
        if bound := overhead_bound_of(plan, frontier):
            text += f"; no order within this memory computes less than {percent(bound, frontier.bound_compute)} more"
        text += _recomputed(plan)
        where = f'cx="{scales.x(plan.peak_memory)}" cy="{scales.y(plan.overhead_in_time)}"'
        yield f'<circle {where} r="4" fill="{BLUE}" stroke="{BLUE}" stroke-opacity="0" stroke-width="6">'
        yield f"<title>{escape(text)}</title></circle>"


def _recomputed(plan: Plan) -> str:
    """The nodes that run again, some of them by name."""
    again = np.flatnonzero(plan.simulation.runs > 1).tolist()
    names = [shortened(printable(str(plan.graph.labels[v])), LONGEST_NAME) for v in again[:NAMED]]
    more = ", ..." if len(again) > NAMED else ""
    return f"; recomputes {counted(len(again), 'node')}: {', '.join(names)}{more}" if again else ""


def _caption(frontier: Frontier) -> str:
    plans = frontier.plans
    return f"down to {trade(plans[0], frontier)}" if plans else "no plan"
