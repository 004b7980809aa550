"""The bytes of each step as a small SVG for notebooks: no script, style or id, so that it can stand anywhere."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from itertools import groupby

import numpy as np

from remat_algos.ir.arrays import Int64
from remat_algos.plot.colours import VERMILION
from remat_algos.plot.pictures.memory import NEAR, columns, traces
from remat_algos.schedule.simulation import Simulation
from remat_algos.text.units import format_bytes
from remat_algos.text.wording import printable, shortened

WIDTH, HEIGHT, TOP, FOOT = 720, 190, 18, 34  # pixels
CURVE = HEIGHT - TOP - FOOT
MAX_COLUMNS = 480  # longer schedules show the highest of a few steps in each
LONGEST_NAME = 24  # characters
LETTER = 6.5  # pixels, about the width of one


def memory_svg(simulation: Simulation, limit: int | None = None) -> str:
    """SVG of the live bytes by role, with a tooltip for each step that every browser shows by itself.

    Text has the colour of the page around it.

    Parameters
    ----------
    simulation : Simulation
    limit : int, optional
        Bytes of the budget.

    Examples
    --------
    >>> from remat_algos.ir.graph import ComputationGraph
    >>> from remat_algos.schedule.simulation import simulate
    >>> svg = memory_svg(simulate(ComputationGraph.from_edges([("A", "B")], memory=1024), [0, 1]))
    >>> svg.count("<title>"), "step 1, B: 2 KiB" in svg
    (2, True)
    """
    edges, shown = columns(simulation, MAX_COLUMNS)
    budget = limit if limit is not None and limit <= NEAR * simulation.peak_memory else None
    top = max(1, simulation.peak_memory, budget or 0)
    at = WIDTH * edges / max(1, edges[-1])
    parts = [*_bands(simulation, shown, at, top), *_lines(simulation, budget, top), *_legend(simulation, budget)]
    parts.append('<g fill="none" pointer-events="all">' + "".join(_tips(simulation, edges, shown, at)) + "</g>")
    peak = f"peak {format_bytes(simulation.peak_memory)}"
    peak += f" at step {simulation.peak_step}" if len(simulation.schedule) else ""
    style = "max-width: 100%; height: auto"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" style="{style}" '
        f'role="img" aria-label="live bytes over the steps: {escape(peak)}" font-family="sans-serif" font-size="11" '
        f'fill="currentColor">{"".join(parts)}</svg>'
    )


def _bands(simulation: Simulation, shown: Int64, at: Int64, top: int) -> Iterator[str]:
    """The areas by role, the whole stack first, each over the one before."""
    stack, bands = np.zeros(shown.size, np.int64), []
    for style, trace in traces(simulation):
        stack = stack + trace[shown]
        bands.append((style.colour, stack))
    for colour, heights in reversed(bands):
        levels = [f"{TOP + CURVE * (1 - height / top):.0f}" for height in heights.tolist()]
        runs = [list(run) for _, run in groupby(range(len(levels)), key=levels.__getitem__)]
        path = "".join(f"V{levels[run[0]]}H{at[run[-1] + 1]:.1f}" for run in runs)
        yield f'<path fill="{colour}" d="M0 {TOP + CURVE}{path}V{TOP + CURVE}z"/>'


def _lines(simulation: Simulation, budget: int | None, top: int) -> Iterator[str]:
    """The peak, the budget, and the steps below."""
    base = TOP + CURVE
    caption = f"peak {format_bytes(simulation.peak_memory)}"
    if budget is not None:
        y = f"{TOP + CURVE * (1 - budget / top):.0f}"
        yield f'<path d="M0 {y}H{WIDTH}" stroke="{VERMILION}" stroke-dasharray="6 3"/>'
        caption += f"; budget {format_bytes(budget)}"
    m, step = len(simulation.schedule), simulation.peak_step
    if m:
        x = WIDTH * (step + 0.5) / m
        yield f'<path d="M{x:.0f} {TOP}l-4 -6h8z"/>'
    yield f'<path d="M0 {base}H{WIDTH}" stroke="currentColor"/>'
    yield f'<text x="0" y="11">{escape(caption)}</text><text x="0" y="{base + 13}">step 0</text>'
    yield f'<text x="{WIDTH}" y="{base + 13}" text-anchor="end">{max(0, m - 1):,}</text>'


def _legend(simulation: Simulation, budget: int | None) -> Iterator[str]:
    x, y = 0.0, HEIGHT - 5
    for style, _ in traces(simulation):
        yield f'<path fill="{style.colour}" d="M{x:.0f} {y}v-9h9v9z"/>'
        yield f'<text x="{x + 13:.0f}" y="{y}">{style.label}</text>'
        x += 28 + LETTER * len(style.label)
    if budget is not None:
        yield f'<path d="M{x:.0f} {y - 4}h16" stroke="{VERMILION}" stroke-dasharray="6 3"/>'
        yield f'<text x="{x + 20:.0f}" y="{y}">budget</text>'


def _tips(simulation: Simulation, edges: Int64, shown: Int64, at: Int64) -> Iterator[str]:
    """A rectangle over each column with the step, its node and its bytes."""
    schedule, trace, first = simulation.schedule, simulation.memory_trace, simulation.schedule.first_run
    for i, step in enumerate(shown.tolist()):
        name = shortened(printable(str(simulation.graph.labels[int(schedule.order[step])])), LONGEST_NAME)
        caption = f"step {step}, {name}: {format_bytes(int(trace[step]))}" + ("" if first[step] else ", recomputed")
        caption += f" (highest of {edges[i]} to {edges[i + 1] - 1})" if edges[i + 1] - edges[i] > 1 else ""
        wide = at[i + 1] - at[i]
        yield f'<path d="M{at[i]:.1f} {TOP}h{wide:.1f}v{CURVE}h-{wide:.1f}z"><title>{escape(caption)}</title></path>'
