"""Predicted and measured bytes over the steps of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from remat_algos.arguments import checked_arguments
from remat_algos.executor.validation import Validation
from remat_algos.ir.arrays import Int64
from remat_algos.plot.axes import axes_or_new, byte_axis, ink, label, legend_beside, title
from remat_algos.plot.bins import bins
from remat_algos.plot.colours import PALE, VERMILION
from remat_algos.plot.text import MIN_WIDTH, wrapped, wrapped_all
from remat_algos.text.units import format_bytes
from remat_algos.text.wording import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_COLUMNS = 2000
GUTTER = 10  # columns left of the bars
MAX_WIDE = 4  # columns of a step


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
    ax = axes_or_new(ax, 10, 4.8)
    edges, predicted, measured, reserved = _curves(validation, MAX_COLUMNS)
    area = ax.stairs(predicted, edges - 0.5, fill=True, facecolor=PALE, linewidth=0, label="predicted")
    line = ax.stairs(measured, edges - 0.5, baseline=None, color=ink(), linewidth=1.2, label="measured")
    rows: list[tuple[Any, str]] = [
        (area, f"predicted, {format_bytes(validation.predicted_peak)}"),
        (line, f"measured, {format_bytes(validation.measured_peak)}"),
    ]
    if validation.pool_inside is not None and not np.array_equal(reserved, measured):  # on NumPy no pool reserves
        line = ax.stairs(reserved, edges - 0.5, baseline=None, color=ink(), linestyle=":", label="reserved")
        rows.append((line, f"reserved, {format_bytes(validation.pool_total)}"))
    if (step := validation.first_difference) is not None:
        simulation = validation.simulation
        node = label(simulation.graph.labels[int(simulation.schedule.order[step])])
        mark = ax.axvline(step, color=VERMILION, linewidth=1.4, linestyle="--", label="they part")
        rows.append((mark, f"they part at step {step}: {node}"))
    ax.set_ylim(0, 1.08 * max([1, *predicted, *measured, *reserved]))
    ax.set_xlim(-0.5, max(1, len(validation.simulation.schedule)) - 0.5)
    byte_axis(ax.yaxis, max(1, validation.predicted_peak, validation.measured_peak), "memory")
    ax.set_xlabel("step")
    title(ax, _sentences(validation))
    legend_beside(ax, rows)
    return ax


@checked_arguments
def validation_text(validation: Validation, *, width: int = 72, height: int = 16) -> str:
    """Predicted and measured memory in characters: columns are steps, or the highest of several.

    Parameters
    ----------
    validation : Validation
    width : int
        Columns, at least 40.
    height : int
        Rows of bars, at least 4.

    Returns
    -------
    str

    Examples
    --------
    >>> from remat_algos.executor.validate import validate
    >>> from remat_algos.ir.graph import ComputationGraph
    >>> from remat_algos.schedule.schedule import Schedule
    >>> chain = ComputationGraph.from_edges([("A", "B"), ("B", "C")], memory=[2000, 1000, 500])
    >>> print(validation_text(validate(chain, Schedule([0, 1, 2]), repeats=0), width=40, height=6))
    3 steps on numpy, 0 bytes apart at each
    predicted 3 KiB, measured 3 KiB
       3 KiB │    ████
             │    ████
             │████████
             │████████████
             │████████████
             │████████████
           0 └────────────
        step  0          2
    █ as predicted
    """
    width, height = max(width, MIN_WIDTH), max(height, 4)
    edges, predicted, measured, _ = _curves(validation, width - GUTTER)
    count = edges.size - 1 if predicted.size else 0
    wide = max(1, min(MAX_WIDE, (width - GUTTER) // max(1, count)))
    highest = max([1, *predicted, *measured])
    low, high = (_rows(both, highest, height) for both in (np.minimum(predicted, measured), predicted))
    top = _rows(measured, highest, height)
    lines = wrapped_all(_sentences(validation), width)
    for row in range(height)[::-1]:
        cells = np.select([row < low, row < high, row < top], ["█", "░", "+"], " ")
        mark = format_bytes(int(highest)) if row == height - 1 else ""
        lines.append(f"{mark:>{GUTTER - 2}} │{''.join(cell * wide for cell in cells)}".rstrip())
    used, last = max(1, count) * wide, str(max(0, len(validation.simulation.schedule) - 1))
    lines.append(f"{'0':>{GUTTER - 2}} └{'─' * used}")
    lines.append(f"{'step':>{GUTTER - 2}}  0{last:>{max(0, used - 1)}}" if used > len(last) else " " * GUTTER + "0")
    shown = [
        ("█ as predicted", True),
        ("░ predicted, not used", (high > low).any()),
        ("+ used beyond the prediction", (top > low).any()),
    ]
    return "\n".join([*lines, *wrapped("  ".join(text for text, there in shown if there), width)])


def _curves(validation: Validation, limit: int) -> tuple[Int64, Int64, Int64, Int64]:
    """(ends of ranges of steps, maximum predicted bytes in each, maximum measured, maximum reserved)."""
    execution = validation.execution
    edges = bins(len(validation.simulation.schedule), limit)
    if not len(validation.simulation.schedule):
        none = np.zeros(0, np.int64)
        return np.zeros(1, np.int64), none, none, none
    predicted, used, total = (
        np.maximum.reduceat(curve, edges[:-1]) for curve in (execution.predicted, execution.used, execution.total)
    )
    return edges, predicted, used, total


def _rows(amount: Int64, top: int, height: int) -> Int64:
    """Rows that amounts fill."""
    return (2 * amount * height + top) // (2 * top)


def _sentences(validation: Validation) -> list[str]:
    steps, step = counted(len(validation.simulation.schedule), "step"), validation.first_difference
    apart = "0 bytes apart at each" if step is None else f"{int(validation.residual[step]):+,} bytes at step {step}"
    peaks = f"predicted {format_bytes(validation.predicted_peak)}, measured {format_bytes(validation.measured_peak)}"
    return [f"{steps} on {validation.execution.backend}, {apart}", peaks]
