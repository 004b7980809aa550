"""Memory over time, and what compute and the copies to the host and back do meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from remat_algos.arguments import check_kind, checked_arguments
from remat_algos.ir.arrays import Int64
from remat_algos.plan.plan import Plan
from remat_algos.plot import axes
from remat_algos.plot.characters import GUTTER, axis, wrapped
from remat_algos.plot.colours import BLUE, MINT, ORANGE, PLUM, SKY, VERMILION, Style
from remat_algos.plot.pictures.memory import MAX_COLUMNS, NEAR, areas, bars, columns, roles_legend
from remat_algos.plot.subject import size_of
from remat_algos.schedule.timeline import ENGINES, Timeline
from remat_algos.text.units import format_bytes, format_seconds, percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WORK = (
    Style("forward", BLUE, "█"),
    Style("recomputed", ORANGE, "▒", hatch="////"),
    Style("backward", MINT, "░"),
    Style("stored", SKY, "▚"),
    Style("loaded", PLUM, "▞", hatch="\\\\\\\\"),
)
"""What engines do: compute the first three, the copies out and in one each."""

# Of a column of text, from none to all.
SHARES = " ▁▂▃▄▅▆▇█"


@checked_arguments
def timeline(subject: Plan | Timeline, *, limit: int | None = None, ax: Axes | None = None) -> Axes:
    """Draw the bytes over time, stacked by role, above a lane for each engine: compute, copies out, copies in.

    Parameters
    ----------
    subject : Plan or Timeline
        A plan with a link.
    limit : int, optional
        Bytes of the budget; by default the plan's.
    ax : Axes, optional
        By default those of a new figure; among other axes let `layout="constrained"` make room for the lanes below and
        the legend beside.

    Returns
    -------
    Axes
        y is in bytes, x in the unit of the costs. Its only child are the lanes: a collection of spans for each kind of
        work, at y = 2 (compute), 1 (out) and 0 (in). A step takes its memory at `Timeline.step_begin`.

    Raises
    ------
    ValueError
        If the plan has no link.

    Examples
    --------
    >>> from remat_algos import plot
    >>> from remat_algos.cost.links import Link
    >>> from remat_algos.ir.graph import ComputationGraph
    >>> from remat_algos.ir.labels import Labels
    >>> from remat_algos.schedule.simulation import simulate
    >>> from remat_algos.schedule.timeline import timeline
    >>> chain = ComputationGraph.from_edges([(0, 1)], compute=[3, 5], labels=Labels(compute_unit="us"))
    >>> ax = plot.timeline(timeline(simulate(chain, [0, 1]), Link.of("pcie5")))
    >>> [label.get_text() for label in ax.child_axes[0].get_yticklabels()]
    ['in 0.0 %', 'out 0.0 %', 'compute 100.0 %']
    """
    played, budget = _played(subject)
    limit = budget if limit is None else limit
    simulation, time = played.simulation, max(1, played.last)
    ax = axes.of_size(ax, 10, 6)
    edges, shown = columns(simulation, MAX_COLUMNS)
    at = np.append(played.step_begin, played.last)[edges]
    rows: list[tuple[Any, str]] = []
    near = 0 if limit is None or limit > NEAR * simulation.peak_memory else limit
    if near:
        line = ax.axhline(near, color=VERMILION, linewidth=1.6, label="budget")
        rows.append((line, f"budget {format_bytes(near)}"))
    rows += areas(ax, simulation, shown, at)
    host = simulation.host_trace
    if host.any():
        highest = np.maximum.reduceat(host, edges[:-1])
        curve = ax.stairs(highest, at, color=axes.ink(), linewidth=1.4, linestyle=(0, (4, 2)), label="on the host")
        rows.append((curve, f"on the host, at most {format_bytes(int(host.max()))}"))
    top = max(1, simulation.peak_memory, simulation.host_peak, near)
    ax.set_ylim(0, 1.08 * top)
    ax.set_xlim(0, time)
    axes.byte_axis(ax.yaxis, top, "live memory")
    # Left, bottom, width and height below the curve, in its sizes.
    lanes = ax.inset_axes((0, -0.46, 1, 0.34), sharex=ax)
    ax.tick_params(labelbottom=False)
    rows.append((None, "engines at work:"))
    rows += _lanes(lanes, played)
    _time_axis(lanes, played)
    return axes.finished(ax, _sentences(played, limit), rows)


def _played(subject: Plan | Timeline) -> tuple[Timeline, int | None]:
    """The timeline and the limit of a plan; ValueError without a link."""
    if isinstance(subject, Timeline):
        return subject, None
    played = check_kind(subject, Plan, "subject", Timeline).timeline
    if played is None:
        raise ValueError('the plan has no link, so there is no timeline; solve with one, such as link="pcie5"')
    return played, subject.limit


def _sentences(played: Timeline, limit: int | None) -> list[str]:
    """Time, peak and size."""
    simulation, one_pass = played.simulation, played.simulation.graph.needed_compute
    time = f"time {format_seconds(played.last / played.per_second)}"
    time += f", {percent(played.overhead, one_pass)} more than one pass"
    time += f"; compute waits {percent(played.waiting, one_pass)} of one pass"
    peak = f"peak {format_bytes(simulation.peak_memory)}"
    return [time, peak if limit is None else f"{peak}; budget {format_bytes(limit)}", size_of(simulation)]


def _work(played: Timeline) -> list[tuple[int, Style, Int64, Int64]]:
    """(lane, style, begins, ends) of each kind of work that takes any time."""
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


def _lanes(ax: Axes, played: Timeline) -> list[tuple[Any, str]]:
    """Draw the spans of each engine; those closer than a column are one."""
    rows = []
    for lane, style, begin, end in _work(played):
        apart = np.flatnonzero(begin[1:] - end[:-1] > played.last / MAX_COLUMNS) + 1
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
    """Ticks in the unit that suits the time; the data stay in the unit of the costs."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    seconds = played.last / played.per_second
    name, scale = next(((n, s) for n, s in (("s", 1), ("ms", 1e3), ("us", 1e6)) if seconds * s >= 1), ("ns", 1e9))
    ax.xaxis.set_major_locator(MaxNLocator(nbins=8, steps=[1, 2, 2.5, 5, 10]))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda t, _: f"{t / played.per_second * scale:g}"))
    ax.set_xlabel(f"time ({name})")


@checked_arguments
def timeline_text(subject: Plan | Timeline, *, limit: int | None = None, width: int, height: int = 12) -> list[str]:
    """Memory over time, each column the highest of its steps, above the share of it in which each engine works."""
    played, budget = _played(subject)
    limit, simulation, count = budget if limit is None else limit, played.simulation, width - GUTTER
    edges = np.linspace(0, played.last, count + 1)
    shown = _highest(played, edges) if len(simulation.schedule) else np.zeros(0, np.int64)
    lines = wrapped(_sentences(played, limit), width) + bars(simulation, limit, height, shown, 1, count)
    lines += axis("time", 0, format_seconds(played.last / played.per_second), count)
    for lane, engine in enumerate(ENGINES):
        spans = [(begin, end) for at, _, begin, end in _work(played) if at == 2 - lane]
        work = np.zeros(count) if not spans or not played.last else sum(_shares(*span, edges) for span in spans)
        level = np.ceil(np.clip(work, 0, 1) * (len(SHARES) - 1) - 1e-6).astype(int)
        lines.append(f"{engine:>{GUTTER - 2}}  {''.join(SHARES[k] for k in level)}".rstrip())
    busy = ", ".join(_busy(played))
    lines += wrapped([f"at work {busy} of the time, by height in each column"], width)
    lines += roles_legend(simulation, limit, width)
    host = simulation.host_peak
    return lines + ([f"on the host, at most {format_bytes(host)}"] if host else [])


def _busy(played: Timeline) -> list[str]:
    """The share of the time in which each engine works."""
    return [f"{engine} {percent(round(1000 * share), 1000)}" for engine, share in played.busy.items()]


def _highest(played: Timeline, edges: NDArray[np.float64]) -> Int64:
    """int64[k]: the step with the most memory between each two of the edges."""
    begin, trace = played.step_begin, played.simulation.memory_trace
    first = np.maximum(np.searchsorted(begin, edges[:-1], side="right") - 1, 0)
    last = np.append(np.searchsorted(begin, edges[1:-1], side="left"), trace.size)
    return np.array([i + int(trace[i : max(i + 1, j)].argmax()) for i, j in zip(first, last, strict=True)], np.int64)


def _shares(begin: Int64, end: Int64, edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """float64[k]: the share of each column that lies in spans, which are in order and do not overlap."""
    done = np.cumsum(end - begin)
    at = np.stack([begin, end], axis=1).ravel()
    worked = np.stack([done - (end - begin), done], axis=1).ravel()
    return np.diff(np.interp(edges, at, worked, left=0)) / np.diff(edges)
