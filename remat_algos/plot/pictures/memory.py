"""Pictures of memory over the steps of a schedule or over time, and of predicted against measured memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from remat_algos.arguments import check_kind, checked_arguments
from remat_algos.errors import ArgumentError
from remat_algos.executor.validate import Validation
from remat_algos.ir.arrays import Int64
from remat_algos.plan.plan import Plan
from remat_algos.plot import axes, tuning
from remat_algos.plot.characters import axis, bins, fitted, framed, legend, row_at, stack, wrapped
from remat_algos.plot.colours import BLUE, GREY, MINT, ORANGE, PALE, PLUM, ROLES, SKY, VERMILION, Style
from remat_algos.plot.lanes import Lanes, Subject
from remat_algos.schedule.emission import baseline, baseline_peak
from remat_algos.schedule.timeline import ENGINES, Timeline
from remat_algos.schedule.views import live_set
from remat_algos.text.amounts import format_seconds, percent
from remat_algos.wording import counted, format_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Number of live values that a legend lists.
VALUES_SHOWN = 8


@checked_arguments
def memory(subject: Subject, *, limit: int | None = None, ax: Axes | None = None) -> Axes:
    """Draw the bytes of each step, stacked by role, with the budget and the live set at the peak.

    A grey curve shows the run without rematerialization over the steps of that run.

    Parameters
    ----------
    subject : Plan, Simulation or ComputationGraph
        A graph is run without rematerialization.
    limit : int, optional
        Budget in bytes; by default that of the plan.
    ax : Axes, optional
        Axes to draw on; by default those of a new figure. `layout="constrained"` makes room for the legend.

    Returns
    -------
    Axes
        y is in bytes, x in steps; step s reaches from s - 0.5 to s + 0.5. Above 2,000 steps, each column shows the
        maximum of several steps.

    Examples
    --------
    >>> from remat_algos import plot
    >>> from remat_algos.ir.graph import ComputationGraph
    >>> chain = ComputationGraph.from_edges([("A", "B"), ("B", "C")], memory=[4, 2, 1])
    >>> plot.memory(chain).get_ylabel()
    'live memory (bytes)'
    """
    lanes = Lanes.of(subject, limit)
    peak = lanes.simulation.peak_memory
    ax = axes.of_size(ax)
    edges, shown = lanes.columns(tuning.MAX_COLUMNS)
    rows = _budget(ax, lanes.limit, peak) + areas(ax, lanes, shown, edges - 0.5)
    rows += _without(ax, lanes) + _peak(ax, lanes)
    top = max(peak, _near(lanes.limit, peak), _near(baseline_peak(lanes.graph), peak))
    ax.set_ylim(0, 1.08 * max(1, top))
    ax.set_xlim(-0.5, max(1, lanes.trace.size) - 0.5)
    axes.byte_axis(ax.yaxis, top, "live memory")
    named = axes.name_ticks(ax, lanes.names, across=True)
    ax.set_xlabel("step (labels: the node that runs)" if named else "step")
    return axes.finished(ax, lanes.title, rows)


def areas(ax: Axes, lanes: Lanes, shown: Int64, edges: NDArray[Any]) -> list[tuple[Any, str]]:
    """Draw a stacked band per role; from `edges[i]` to `edges[i + 1]` it shows the bytes of step `shown[i]`."""
    bottom, rows = np.zeros(shown.size, np.int64), []
    for style, trace in lanes.bands:
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


def _near(amount: int | None, peak: int) -> int:
    """Return the budget, or 0 if it is too far above the peak to be drawn on the same scale."""
    return 0 if amount is None or amount > tuning.MAX_PEAKS * peak else amount


def _budget(ax: Axes, limit: int | None, peak: int) -> list[tuple[Any, str]]:
    if limit is None:
        return []
    text = f"budget {format_bytes(limit)}" + (" (off the scale)" if limit > tuning.MAX_PEAKS * peak else "")
    return [(ax.axhline(limit, color=VERMILION, linewidth=1.6, label="budget"), text)]


def _without(ax: Axes, lanes: Lanes) -> list[tuple[Any, str]]:
    without, peak = baseline(lanes.graph), lanes.simulation.peak_memory
    if without.peak_memory == peak:
        return []
    edges, shown = Lanes(without).columns(tuning.MAX_COLUMNS)
    curve = without.memory_trace[shown]
    line = ax.stairs(curve, edges - 0.5, color=GREY, linewidth=1.4, baseline=None, label="without rematerialization")
    text = f"without rematerialization {format_bytes(without.peak_memory)}"
    return [(line, text + (" (off the scale)" if without.peak_memory > tuning.MAX_PEAKS * peak else ""))]


def _peak(ax: Axes, lanes: Lanes) -> list[tuple[Any, str]]:
    from matplotlib.markers import CARETDOWN

    step, peak = lanes.simulation.peak_step, lanes.simulation.peak_memory
    if step < 0:
        return []
    node = axes.label(lanes.name(step))
    (mark,) = ax.plot(step, peak, color=axes.ink(), marker=CARETDOWN, markersize=9, linestyle="none", label="peak")
    mark.set_clip_on(False)
    rows: list[tuple[Any, str]] = [(mark, f"peak {format_bytes(peak)}, step {step}: {node}")]
    if lanes.graph.resident_memory:
        rows.append((None, f"residents, not included: {format_bytes(lanes.graph.resident_memory)}"))
    rows.append((None, "live there:"))
    live = live_set(lanes.simulation, step)
    for one in live[:VALUES_SHOWN]:
        rows.append((axes.patch(ROLES[one.role]), f"{format_bytes(one.memory)}  {axes.label(one.name)}"))
    if len(live) > VALUES_SHOWN:
        rest = sum(one.memory for one in live[VALUES_SHOWN:])
        rows.append((None, f"{len(live) - VALUES_SHOWN:,} more, {format_bytes(rest)}"))
    return rows


@checked_arguments
def memory_text(subject: Subject, *, limit: int | None = None, width: int, height: int = 16) -> list[str]:
    """Return a chart of bytes, in which a column shows one or more steps, and below it the live set at the peak."""
    lanes = Lanes.of(subject, limit)
    _, shown = lanes.columns(width - tuning.GUTTER)
    wide = max(1, min(tuning.MAX_WIDE, (width - tuning.GUTTER) // max(1, shown.size)))
    return [
        *wrapped(lanes.title, width),
        *_chart(lanes, height, shown, wide, width - tuning.GUTTER),
        *axis("step", 0, max(0, lanes.trace.size - 1), max(1, shown.size) * wide),
        *_roles(lanes, width),
        *_live_lines(lanes, width),
    ]


def _chart(lanes: Lanes, height: int, shown: Int64, wide: int, room: int) -> list[str]:
    peak, limit, rows = lanes.simulation.peak_memory, lanes.limit, max(height, 4) - 1
    top = max(1, peak, _near(limit, peak))
    marks = {row_at(peak, top, rows): format_bytes(peak)}
    canvas = [[" "] * room for _ in range(rows + 1)]
    if limit is not None and limit <= top:
        marks[row_at(limit, top, rows)] = format_bytes(limit)
        canvas[row_at(limit, top, rows)] = ["─"] * room
    stack(canvas, [(style.character, trace[shown]) for style, trace in lanes.bands], top, rows, wide)
    if shown.size:
        at = int((shown == lanes.simulation.peak_step).argmax()) * wide + (wide - 1) // 2
        canvas[row_at(peak, top, rows)][at] = "▼"
    return framed(canvas, marks)


def _roles(lanes: Lanes, width: int) -> list[str]:
    return legend((style for style, _ in lanes.bands), width, ["─ budget"] if lanes.limit is not None else [])


def _live_lines(lanes: Lanes, width: int) -> list[str]:
    step = lanes.simulation.peak_step
    if step < 0:
        return []
    live = live_set(lanes.simulation, step)
    lines = [fitted(f"at the peak, step {step}, {lanes.name(step)}:", width).rstrip()]
    for one in live[:VALUES_SHOWN]:
        amount = f"  {ROLES[one.role].character} {format_bytes(one.memory):>7}  "
        lines.append(amount + fitted(one.name, width - len(amount)).rstrip())
    if len(live) > VALUES_SHOWN:
        rest = format_bytes(sum(one.memory for one in live[VALUES_SHOWN:]))
        lines.append(f"    {rest:>7}  in {len(live) - VALUES_SHOWN:,} more")
    if lanes.graph.resident_memory:
        lines.append(f"    {format_bytes(lanes.graph.resident_memory):>7}  residents, not included")
    return lines


@checked_arguments
def validation(validation: Validation, *, ax: Axes | None = None) -> Axes:
    """Draw the measured bytes of each step over the predicted bytes, and mark the first difference.

    Parameters
    ----------
    validation : Validation
    ax : Axes, optional
        Axes to draw on; by default those of a new figure. `layout="constrained"` makes room for the legend.

    Returns
    -------
    Axes
        y is in bytes, x in steps; step s reaches from s - 0.5 to s + 0.5. Above 2,000 steps, each column shows the
        maximum of several steps.

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
    ax = axes.of_size(ax)
    edges, predicted, measured, reserved = _curves(validation, tuning.MAX_COLUMNS)
    area = ax.stairs(predicted, edges - 0.5, fill=True, facecolor=PALE, linewidth=0, label="predicted")
    line = ax.stairs(measured, edges - 0.5, baseline=None, color=axes.ink(), linewidth=1.2, label="measured")
    rows: list[tuple[Any, str]] = [
        (area, f"predicted, {format_bytes(validation.predicted_peak)}"),
        (line, f"measured, {format_bytes(validation.measured_peak)}"),
    ]
    # NumPy has no memory pool, so `pool_inside` may be None.
    if validation.pool_inside is not None and not np.array_equal(reserved, measured):
        line = ax.stairs(reserved, edges - 0.5, baseline=None, color=axes.ink(), linestyle=":", label="reserved")
        rows.append((line, f"reserved, {format_bytes(validation.pool_total)}"))
    if (step := validation.first_difference) is not None:
        simulation = validation.simulation
        node = axes.label(simulation.graph.labels[int(simulation.schedule.order[step])])
        mark = ax.axvline(step, color=VERMILION, linewidth=1.4, linestyle="--", label="first difference")
        rows.append((mark, f"first difference at step {step}: {node}"))
    ax.set_ylim(0, 1.08 * max([1, *predicted, *measured, *reserved]))
    ax.set_xlim(-0.5, max(1, len(validation.simulation.schedule)) - 0.5)
    axes.byte_axis(ax.yaxis, max(1, validation.predicted_peak, validation.measured_peak), "memory")
    ax.set_xlabel("step")
    return axes.finished(ax, _validation_sentences(validation), rows)


@checked_arguments
def validation_text(validation: Validation, *, width: int, height: int = 16) -> list[str]:
    """Return a chart of the bytes used as predicted, predicted but not used, and used beyond the prediction."""
    height = max(height, 4)
    edges, predicted, measured, _ = _curves(validation, width - tuning.GUTTER)
    used = max(1, min(tuning.MAX_WIDE, (width - tuning.GUTTER) // (edges.size - 1))) * (edges.size - 1)
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
    """Return boundaries of ranges of steps, and the maximum predicted, measured and reserved bytes in each."""
    execution = validation.execution
    edges = bins(len(validation.simulation.schedule), limit)
    # The appended 0 gives a schedule without steps one entry.
    predicted, used, total = (
        np.maximum.reduceat(np.append(curve, 0), edges[:-1])
        for curve in (execution.predicted, execution.used, execution.total)
    )
    return edges, predicted, used, total


def _validation_sentences(validation: Validation) -> list[str]:
    steps, step = counted(len(validation.simulation.schedule), "step"), validation.first_difference
    difference = "each as predicted"
    if step is not None:
        difference = f"first difference {int(validation.residual[step]):+,} bytes at step {step}"
    peaks = f"predicted {format_bytes(validation.predicted_peak)}, measured {format_bytes(validation.measured_peak)}"
    return [f"{steps} on {validation.execution.backend}, {difference}", f"peak {peaks}"]


WORK = (
    Style("forward", BLUE, "█"),
    Style("recomputed", ORANGE, "▒", hatch="////"),
    Style("backward", MINT, "░"),
    Style("stored", SKY, "▚"),
    Style("loaded", PLUM, "▞", hatch="\\\\\\\\"),
)

# Characters for a column, by the share of it that is filled.
SHARES = " ▁▂▃▄▅▆▇█"


@checked_arguments
def timeline(subject: Plan | Timeline, *, limit: int | None = None, ax: Axes | None = None) -> Axes:
    """Draw the bytes over time, stacked by role, above a lane for each engine: compute, copies out, copies in.

    Parameters
    ----------
    subject : Plan or Timeline
        A plan with a link.
    limit : int, optional
        Budget in bytes; by default that of the plan.
    ax : Axes, optional
        Axes to draw on; by default those of a new figure. `layout="constrained"` makes room for lanes and legend.

    Returns
    -------
    Axes
        y is in bytes, x in the unit of the costs. Its only child axes contain the lanes: each kind of work is one
        collection of spans, at y = 2 (compute), 1 (out) or 0 (in). A step allocates memory at `Timeline.step_begin`.

    Raises
    ------
    ValueError
        If the plan has no link.

    Examples
    --------
    >>> from remat_algos import plot
    >>> from remat_algos.cost.links import Link
    >>> from remat_algos.ir.graph import ComputationGraph
    >>> from remat_algos.ir.parts import Labels
    >>> from remat_algos.schedule.simulation import simulate
    >>> from remat_algos.schedule.timeline import timeline
    >>> chain = ComputationGraph.from_edges([(0, 1)], compute=[3, 5], labels=Labels(compute_unit="us"))
    >>> ax = plot.timeline(timeline(simulate(chain, [0, 1]), Link.of("pcie5")))
    >>> [label.get_text() for label in ax.child_axes[0].get_yticklabels()]
    ['in 0.0 %', 'out 0.0 %', 'compute 100.0 %']
    """
    lanes, played = _played(subject, limit)
    simulation, limit, peak = lanes.simulation, lanes.limit, lanes.simulation.peak_memory
    ax = axes.of_size(ax, 10, 6)
    edges, shown = lanes.columns(tuning.MAX_COLUMNS)
    at = np.append(played.step_begin, played.last)[edges]
    rows = _budget(ax, limit, peak) + areas(ax, lanes, shown, at)
    host = simulation.host_trace
    if host.any():
        highest = np.maximum.reduceat(host, edges[:-1])
        curve = ax.stairs(highest, at, color=axes.ink(), linewidth=1.4, linestyle=(0, (4, 2)), label="on the host")
        rows.append((curve, f"on the host, at most {format_bytes(int(host.max()))}"))
    top = max(1, peak, simulation.host_peak, _near(limit, peak))
    ax.set_ylim(0, 1.08 * top)
    ax.set_xlim(0, max(1, played.last))
    axes.byte_axis(ax.yaxis, top, "live memory")
    # Left, bottom, width and height in units of the axes above.
    below = ax.inset_axes((0, -0.46, 1, 0.34), sharex=ax)
    ax.tick_params(labelbottom=False)
    rows.append((None, "busy engines:"))
    rows += _engines(below, played)
    _time_axis(below, played)
    return axes.finished(ax, _timeline_sentences(lanes, played), rows)


def _played(subject: Plan | Timeline, limit: int | None) -> tuple[Lanes, Timeline]:
    if isinstance(subject, Timeline):
        return Lanes(subject.simulation, limit, subject), subject
    lanes = Lanes.of(check_kind(subject, Plan, "subject", Timeline), limit)
    if lanes.timeline is None:
        raise ArgumentError('the plan has no link, so there is no timeline; solve with one, such as link="pcie5"')
    return lanes, lanes.timeline


def _timeline_sentences(lanes: Lanes, played: Timeline) -> list[str]:
    limit, one_pass = lanes.limit, lanes.graph.needed_compute
    time = f"time {format_seconds(played.last / played.per_second)}"
    time += f", {percent(played.overhead, one_pass)} more than one pass"
    time += f"; compute waits {percent(played.waiting, one_pass)} of one pass"
    peak = f"peak {format_bytes(lanes.simulation.peak_memory)}"
    return [time, peak if limit is None else f"{peak}; budget {format_bytes(limit)}", lanes.size]


def _work(played: Timeline) -> list[tuple[int, Style, Int64, Int64]]:
    """Return (lane, style, begins, ends) for each kind of work that takes time."""
    simulation = played.simulation
    first, forward = simulation.schedule.first_run, simulation.graph.forward[simulation.schedule.order]
    begin, end = played.begin, played.end
    spans = [
        (2, style, begin[among], end[among])
        for style, among in zip(WORK, (first & forward, ~first, first & ~forward), strict=False)
    ]
    spans.append((1, WORK[3], played.store_begin, played.store_end))
    spans.append((0, WORK[4], played.load_begin, played.load_end))
    return [(lane, style, begin, end) for lane, style, begin, end in spans if (end > begin).any()]


def _engines(ax: Axes, played: Timeline) -> list[tuple[Any, str]]:
    rows = []
    for lane, style, begin, end in _work(played):
        apart = np.flatnonzero(begin[1:] - end[:-1] > played.last / tuning.MAX_COLUMNS) + 1
        begin, end = begin[np.append(0, apart)], end[np.append(apart - 1, -1)]
        ax.broken_barh(
            np.stack([begin, end - begin], axis=1).tolist(),
            (lane - 0.4, 0.8),
            facecolors=style.colour,
            edgecolor="white" if style.hatch else "none",
            hatch=style.hatch,
            linewidth=0,
            label=style.label,
        )
        rows.append((axes.patch(style), style.label))
    ax.set_ylim(-0.6, 2.6)
    ax.set_yticks(range(len(ENGINES)), _busy(played)[::-1], fontsize=8)
    ax.tick_params(axis="y", length=0)
    return rows


def _time_axis(ax: Axes, played: Timeline) -> None:
    seconds = played.last / played.per_second
    name, scale = next(((n, s) for n, s in (("s", 1), ("ms", 1e3), ("us", 1e6)) if seconds * s >= 1), ("ns", 1e9))
    axes.unit_axis(ax.xaxis, played.per_second / scale, f"time ({name})")


@checked_arguments
def timeline_text(subject: Plan | Timeline, *, limit: int | None = None, width: int, height: int = 12) -> list[str]:
    """Return a chart of memory, and below it the busy share of each engine; a column shows the maximum of its steps."""
    lanes, played = _played(subject, limit)
    count, host = width - tuning.GUTTER, lanes.simulation.host_peak
    edges = np.linspace(0, played.last, count + 1)
    shown = _highest(played, edges) if lanes.trace.size else np.zeros(0, np.int64)
    lines = wrapped(_timeline_sentences(lanes, played), width) + _chart(lanes, height, shown, 1, count)
    lines += axis("time", 0, format_seconds(played.last / played.per_second), count)
    for lane, engine in enumerate(ENGINES):
        spans = [(begin, end) for at, _, begin, end in _work(played) if at == 2 - lane]
        work = np.zeros(count) if not spans or not played.last else sum(_shares(*span, edges) for span in spans)
        level = np.ceil(np.clip(work, 0, 1) * (len(SHARES) - 1) - 1e-6).astype(int)
        lines.append(f"{engine:>{tuning.GUTTER - 2}}  {''.join(SHARES[k] for k in level)}".rstrip())
    busy = ", ".join(_busy(played))
    lines += wrapped([f"busy {busy} of the time; height: busy share of a column"], width)
    lines += _roles(lanes, width)
    return lines + ([f"on the host, at most {format_bytes(host)}"] if host else [])


def _busy(played: Timeline) -> list[str]:
    return [f"{engine} {percent(round(1000 * share), 1000)}" for engine, share in played.busy.items()]


def _highest(played: Timeline, edges: NDArray[np.float64]) -> Int64:
    begin, trace = played.step_begin, played.simulation.memory_trace
    first = np.maximum(np.searchsorted(begin, edges[:-1], side="right") - 1, 0)
    last = np.append(np.searchsorted(begin, edges[1:-1], side="left"), trace.size)
    return np.array([i + int(trace[i : max(i + 1, j)].argmax()) for i, j in zip(first, last, strict=True)], np.int64)


def _shares(begin: Int64, end: Int64, edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """float64[k]: the share of each column that is inside a span; spans are sorted and do not overlap."""
    done = np.cumsum(end - begin)
    at = np.stack([begin, end], axis=1).ravel()
    worked = np.stack([done - (end - begin), done], axis=1).ravel()
    return np.diff(np.interp(edges, at, worked, left=0)) / np.diff(edges)
