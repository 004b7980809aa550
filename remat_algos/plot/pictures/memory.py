"""Memory over the steps of a schedule, and predicted beside measured memory."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from remat_algos.arguments import checked_arguments
from remat_algos.executor.validation import Validation
from remat_algos.ir.arrays import Int64
from remat_algos.plot import axes
from remat_algos.plot.characters import GUTTER, axis, bins, fitted, framed, legend, row_at, stack, wrapped
from remat_algos.plot.colours import GREY, PALE, ROLES, VERMILION, Style
from remat_algos.plot.subject import Subject, headline, simulated
from remat_algos.schedule.baseline import baseline, baseline_peak
from remat_algos.schedule.live_set import live_set
from remat_algos.schedule.simulation import Simulation
from remat_algos.text.units import format_bytes
from remat_algos.text.wording import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_COLUMNS = 2000
# Maximum of listed values of the live set.
SHOWN = 8
# Lines higher than this many peaks are only named.
NEAR = 2.5
# Characters of a step at most.
MAX_WIDE = 4


@checked_arguments
def memory(subject: Subject, *, limit: int | None = None, ax: Axes | None = None) -> Axes:
    """Draw the bytes of each step, stacked by role, with the budget and the live set at the peak.

    A grey curve is the run without rematerialization, over its own steps.

    Parameters
    ----------
    subject : Plan, Simulation or ComputationGraph
        For a graph its run without rematerialization.
    limit : int, optional
        Bytes of the budget; by default the plan's.
    ax : Axes, optional
        By default those of a new figure; among other axes let `layout="constrained"` make room for the legend beside.

    Returns
    -------
    Axes
        y is in bytes, x in steps; step s reaches from s - 0.5 to s + 0.5. Above 2,000 steps each column shows the
        highest of several.

    Examples
    --------
    >>> from remat_algos import plot
    >>> from remat_algos.ir.graph import ComputationGraph
    >>> chain = ComputationGraph.from_edges([("A", "B"), ("B", "C")], memory=[4, 2, 1])
    >>> plot.memory(chain).get_ylabel()
    'live memory (bytes)'
    """
    simulation, budget = simulated(subject)
    limit = budget if limit is None else limit
    base, peak = baseline_peak(simulation.graph), simulation.peak_memory
    ax = axes.of_size(ax, 10, 4.8)
    edges, shown = columns(simulation, MAX_COLUMNS)
    rows = _budget(ax, limit, peak) + areas(ax, simulation, shown, edges - 0.5)
    rows += _without(ax, simulation) + _peak(ax, simulation)
    near = [line for line in (limit or 0, base, peak) if line <= NEAR * peak]
    ax.set_ylim(0, 1.08 * max(1, *near))
    ax.set_xlim(-0.5, max(1, len(simulation.schedule)) - 0.5)
    axes.byte_axis(ax.yaxis, max(near), "live memory")
    named = axes.name_ticks(ax, simulation.schedule.names(simulation.graph), across=True)
    ax.set_xlabel("step, by the node that it runs" if named else "step")
    return axes.finished(ax, headline(simulation, limit), rows)


def columns(simulation: Simulation, limit: int) -> tuple[Int64, Int64]:
    """(ends of the columns' ranges of steps, the step that each column shows: the highest of its range)."""
    trace = simulation.memory_trace
    edges = bins(trace.size, limit) if trace.size else np.zeros(1, np.int64)
    shown = [begin + int(trace[begin:end].argmax()) for begin, end in pairwise(edges.tolist())]
    return edges, np.array(shown, np.int64)


def traces(simulation: Simulation) -> list[tuple[Style, Int64]]:
    """The roles with any bytes, from the bottom of the stack."""
    found = simulation.trace_by_role()
    return [(style, found[role]) for role, style in ROLES.items() if role in found and found[role].any()]


def areas(ax: Axes, simulation: Simulation, shown: Int64, edges: NDArray[Any]) -> list[tuple[Any, str]]:
    """Draw one band per role with any bytes, stacked: the steps `shown`, each between two of the `edges`."""
    bottom, rows = np.zeros(shown.size, np.int64), []
    for style, trace in traces(simulation):
        top = bottom + trace[shown]
        area = ax.stairs(
            top,
            edges,
            baseline=bottom,
            fill=True,
            facecolor=style.colour,
            edgecolor="white" if style.hatch else "none",
            hatch=style.hatch,
            linewidth=0,
            label=style.label,
        )
        rows.append((area, style.label))
        bottom = top
    ax.stairs(bottom, edges, color=axes.ink(), linewidth=0.8, label="all")
    return rows


def _budget(ax: Axes, limit: int | None, peak: int) -> list[tuple[Any, str]]:
    """Draw the budget."""
    if limit is None:
        return []
    text = f"budget {format_bytes(limit)}" + (" (higher up)" if limit > NEAR * peak else "")
    return [(ax.axhline(limit, color=VERMILION, linewidth=1.6, label="budget"), text)]


def _without(ax: Axes, simulation: Simulation) -> list[tuple[Any, str]]:
    """Draw the curve without rematerialization over its own steps, unless the schedule peaks there too."""
    without, peak = baseline(simulation.graph), simulation.peak_memory
    if without.peak_memory == peak:
        return []
    edges, shown = columns(without, MAX_COLUMNS)
    curve = without.memory_trace[shown]
    line = ax.stairs(curve, edges - 0.5, color=GREY, linewidth=1.4, baseline=None, label="without rematerialization")
    text = f"without rematerialization {format_bytes(without.peak_memory)}"
    return [(line, text + (" (higher up)" if without.peak_memory > NEAR * peak else ""))]


def _peak(ax: Axes, simulation: Simulation) -> list[tuple[Any, str]]:
    """Mark the peak, and list the live set there."""
    from matplotlib.markers import CARETDOWN

    step = simulation.peak_step
    if step < 0:
        return []
    node = axes.label(simulation.graph.labels[int(simulation.schedule.order[step])])
    peak = simulation.peak_memory
    (mark,) = ax.plot(step, peak, color=axes.ink(), marker=CARETDOWN, markersize=9, linestyle="none", label="peak")
    mark.set_clip_on(False)
    rows: list[tuple[Any, str]] = [(mark, f"peak {format_bytes(peak)}, step {step}: {node}")]
    if simulation.graph.resident_memory:
        rows.append((None, f"residents, not included: {format_bytes(simulation.graph.resident_memory)}"))
    rows.append((None, "live there:"))
    live = live_set(simulation, step)
    for one in live[:SHOWN]:
        rows.append((axes.patch(ROLES[one.role]), f"{format_bytes(one.memory)}  {axes.label(one.name)}"))
    if len(live) > SHOWN:
        rest = sum(one.memory for one in live[SHOWN:])
        rows.append((None, f"{len(live) - SHOWN:,} more, {format_bytes(rest)}"))
    return rows


@checked_arguments
def memory_text(subject: Subject, *, limit: int | None = None, width: int, height: int = 16) -> list[str]:
    """Columns of steps, or of the highest of several, above the live set at the peak."""
    simulation, budget = simulated(subject)
    limit = budget if limit is None else limit
    _, shown = columns(simulation, width - GUTTER)
    wide = max(1, min(MAX_WIDE, (width - GUTTER) // max(1, shown.size)))
    return [
        *wrapped(headline(simulation, limit), width),
        *bars(simulation, limit, height, shown, wide, width - GUTTER),
        *axis("step", 0, max(0, len(simulation.schedule) - 1), max(1, shown.size) * wide),
        *roles_legend(simulation, limit, width),
        *_live_lines(simulation, width),
    ]


def bars(simulation: Simulation, limit: int | None, height: int, shown: Int64, wide: int, room: int) -> list[str]:
    """The chart: columns of the steps `shown`, each `wide`; the top row is left free for the mark of the peak."""
    peak, rows = simulation.peak_memory, max(height, 4) - 1
    top = max(1, peak, limit if limit is not None and limit <= NEAR * peak else 0)
    marks = {row_at(peak, top, rows): format_bytes(peak)}
    canvas = [[" "] * room for _ in range(rows + 1)]
    if limit is not None and limit <= top:
        marks[row_at(limit, top, rows)] = format_bytes(limit)
        canvas[row_at(limit, top, rows)] = ["─"] * room
    stack(canvas, [(style.character, trace[shown]) for style, trace in traces(simulation)], top, rows, wide)
    if shown.size:
        at = int((shown == simulation.peak_step).argmax()) * wide + (wide - 1) // 2
        canvas[row_at(peak, top, rows)][at] = "▼"
    return framed(canvas, marks)


def roles_legend(simulation: Simulation, limit: int | None, width: int) -> list[str]:
    """The characters of the roles, and of the budget."""
    return legend((style for style, _ in traces(simulation)), width, ["─ budget"] if limit is not None else [])


def _live_lines(simulation: Simulation, width: int) -> list[str]:
    """The live set at the peak."""
    step = simulation.peak_step
    if step < 0:
        return []
    node, live = simulation.graph.labels[int(simulation.schedule.order[step])], live_set(simulation, step)
    lines = [fitted(f"at the peak, step {step}, {node}:", width).rstrip()]
    for one in live[:SHOWN]:
        amount = f"  {ROLES[one.role].character} {format_bytes(one.memory):>7}  "
        lines.append(amount + fitted(one.name, width - len(amount)).rstrip())
    if len(live) > SHOWN:
        rest = format_bytes(sum(one.memory for one in live[SHOWN:]))
        lines.append(f"    {rest:>7}  in {len(live) - SHOWN:,} more")
    if simulation.graph.resident_memory:
        lines.append(f"    {format_bytes(simulation.graph.resident_memory):>7}  residents, not included")
    return lines


@checked_arguments
def validation(validation: Validation, *, ax: Axes | None = None) -> Axes:
    """Draw the bytes predicted for each step, those measured on top, and the first difference.

    Parameters
    ----------
    validation : Validation
    ax : Axes, optional
        By default those of a new figure; among other axes let `layout="constrained"` make room for the legend beside.

    Returns
    -------
    Axes
        y is in bytes, x in steps; step s reaches from s - 0.5 to s + 0.5. Above 2,000 steps each column shows the
        highest of several.

    Examples
    --------
    >>> from remat_algos import plot
    >>> from remat_algos.executor.validate import validate
    >>> from remat_algos.ir.graph import ComputationGraph
    >>> from remat_algos.schedule.schedule import Schedule
    >>> chain = ComputationGraph.from_edges([("A", "B"), ("B", "C")], memory=[4, 2, 1])
    >>> ax = plot.validation(validate(chain, Schedule([0, 1, 2]), repeats=0))
    >>> ax.get_ylabel()
    'memory (KiB)'
    """
    ax = axes.of_size(ax, 10, 4.8)
    edges, predicted, measured, reserved = _curves(validation, MAX_COLUMNS)
    area = ax.stairs(predicted, edges - 0.5, fill=True, facecolor=PALE, linewidth=0, label="predicted")
    line = ax.stairs(measured, edges - 0.5, baseline=None, color=axes.ink(), linewidth=1.2, label="measured")
    rows: list[tuple[Any, str]] = [
        (area, f"predicted, {format_bytes(validation.predicted_peak)}"),
        (line, f"measured, {format_bytes(validation.measured_peak)}"),
    ]
    if validation.pool_inside is not None and not np.array_equal(reserved, measured):  # on NumPy no pool reserves
        line = ax.stairs(reserved, edges - 0.5, baseline=None, color=axes.ink(), linestyle=":", label="reserved")
        rows.append((line, f"reserved, {format_bytes(validation.pool_total)}"))
    if (step := validation.first_difference) is not None:
        simulation = validation.simulation
        node = axes.label(simulation.graph.labels[int(simulation.schedule.order[step])])
        mark = ax.axvline(step, color=VERMILION, linewidth=1.4, linestyle="--", label="they part")
        rows.append((mark, f"they part at step {step}: {node}"))
    ax.set_ylim(0, 1.08 * max([1, *predicted, *measured, *reserved]))
    ax.set_xlim(-0.5, max(1, len(validation.simulation.schedule)) - 0.5)
    axes.byte_axis(ax.yaxis, max(1, validation.predicted_peak, validation.measured_peak), "memory")
    ax.set_xlabel("step")
    return axes.finished(ax, _validation_sentences(validation), rows)


@checked_arguments
def validation_text(validation: Validation, *, width: int, height: int = 16) -> list[str]:
    """Columns of steps, or of the highest of several: what is as predicted, not used, or beyond the prediction."""
    height = max(height, 4)
    edges, predicted, measured, _ = _curves(validation, width - GUTTER)
    used = max(1, min(MAX_WIDE, (width - GUTTER) // (edges.size - 1))) * (edges.size - 1)
    top = int(max([1, *predicted, *measured]))
    low, high = np.minimum(predicted, measured), np.maximum(predicted, measured)
    bands = [("█", low), ("░", predicted - low), ("+", high - predicted)]
    canvas = [[" "] * used for _ in range(height)]
    stack(canvas, bands, top, height, used // (edges.size - 1))
    lines = wrapped(_validation_sentences(validation), width) + framed(canvas, {height - 1: format_bytes(top)})
    lines += axis("step", 0, max(0, len(validation.simulation.schedule) - 1), used)
    words = {"█": "as predicted", "░": "predicted, not used", "+": "used beyond the prediction"}
    drawn = {cell for row in canvas for cell in row} | {"█"}
    return lines + wrapped(["  ".join(f"{cell} {word}" for cell, word in words.items() if cell in drawn)], width)


def _curves(validation: Validation, limit: int) -> tuple[Int64, Int64, Int64, Int64]:
    """(ends of ranges of steps, maximum predicted bytes in each, maximum measured, maximum reserved)."""
    execution = validation.execution
    edges = bins(len(validation.simulation.schedule), limit)
    if not len(validation.simulation.schedule):
        none = np.zeros(1, np.int64)
        return np.arange(2), none, none, none
    predicted, used, total = (
        np.maximum.reduceat(curve, edges[:-1]) for curve in (execution.predicted, execution.used, execution.total)
    )
    return edges, predicted, used, total


def _validation_sentences(validation: Validation) -> list[str]:
    steps, step = counted(len(validation.simulation.schedule), "step"), validation.first_difference
    apart = "0 bytes apart at each" if step is None else f"{int(validation.residual[step]):+,} bytes at step {step}"
    peaks = f"predicted {format_bytes(validation.predicted_peak)}, measured {format_bytes(validation.measured_peak)}"
    return [f"{steps} on {validation.execution.backend}, {apart}", peaks]
