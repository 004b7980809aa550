"""Pictures of an allocation: the addresses of its buffers over the steps."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from remat_algos.allocate.allocation import Allocation
from remat_algos.allocate.arenas import SplitAllocation
from remat_algos.arguments import check_kind, checked_arguments
from remat_algos.ir.arrays import Int64
from remat_algos.plot import axes, tuning
from remat_algos.plot.characters import axis, bins, framed, legend, wrapped
from remat_algos.plot.colours import BLUE, ROLES, VERMILION, Style
from remat_algos.schedule.simulation import LOADED, Simulation
from remat_algos.schedule.simulation import ROLES as COMPUTED
from remat_algos.wording import counted, format_bytes, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROLE_NAMES = (*COMPUTED, LOADED)
# Style of all buffers if no simulation gives their roles.
BUFFER = Style("buffer", BLUE, "█")


@checked_arguments
def addresses(
    allocation: Allocation | SplitAllocation, *, simulation: Simulation | None = None, ax: Axes | None = None
) -> Axes:
    """Draw each buffer as a rectangle: steps on the x axis, addresses on the y axis.

    Parameters
    ----------
    allocation : Allocation or SplitAllocation
        The used parts of several arenas are stacked, with a line above each.
    simulation : Simulation, optional
        Simulation of the schedule that uses the buffers; it determines their colours and names.
    ax : Axes, optional
        Axes to draw on; by default those of a new figure. `layout="constrained"` makes room for the legend.

    Returns
    -------
    Axes
        y is in bytes, x in steps; step s covers s - 0.5 to s + 0.5. One collection per role. A rectangle ends where
        another buffer overwrites its bytes in place. If there is room, it shows the name of the buffer or
        of its value, or the index of the buffer.

    Examples
    --------
    >>> from remat_algos import plot
    >>> from remat_algos.allocate.allocation import Buffers
    >>> allocation = Allocation(Buffers([0, 1], [2, 3], [4, 2]), [0, 1], [0, 4], 6, "by hand", 6)
    >>> ax = plot.addresses(allocation)
    >>> ax.get_ylabel(), len(ax.collections[0].get_paths())
    ('address (bytes)', 2)
    """
    from matplotlib.collections import PolyCollection

    ax = axes.of_size(ax)
    allocation, split = _one_above_another(allocation)
    buffers = allocation.buffers
    first, last = _span(allocation)
    ax.set_xlim(first - 0.5, last - 0.5)
    ax.set_ylim(0, 1.08 * max(1, allocation.size))
    rows: list[tuple[Any, str]] = _lines(ax, allocation) if split is None else _tops(ax, split)
    outlined = len(buffers) <= tuning.MAX_OUTLINED
    corners = _corners(allocation)
    for style, among in _styles(allocation, simulation):
        areas = PolyCollection(
            list(corners[among]),
            facecolors=style.colour,
            edgecolors="white" if outlined else "none",
            linewidths=0.6 if outlined else 0,
            hatch=style.hatch if outlined else "",
            label=style.label,
        )
        ax.add_collection(areas, autolim=False)
        rows.append((axes.patch(style if outlined else replace(style, hatch="")), style.label))
    axes.byte_axis(ax.yaxis, max(1, allocation.size), "address" if split is None else "arenas on top of each other")
    _step_axis(ax)
    _name(ax, allocation, simulation)
    return axes.finished(ax, _sentences(allocation, split), rows)


def _one_above_another(allocation: Allocation | SplitAllocation) -> tuple[Allocation, SplitAllocation | None]:
    check_kind(allocation, Allocation, "allocation", SplitAllocation)
    if not isinstance(allocation, SplitAllocation):
        return allocation, None
    offset = allocation.offset + _starts(allocation)[allocation.arena]
    storage, size = np.arange(offset.size), sum(allocation.sizes)
    return Allocation(allocation.buffers, storage, offset, size, allocation.method, 0, allocation.alignment), allocation


def _starts(split: SplitAllocation) -> Int64:
    return np.cumsum(split.sizes) - np.array(split.sizes, np.int64)


def _step_axis(ax: Axes) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator(nbins=8, steps=[1, 2, 5, 10], integer=True))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda step, _: f"{step:,.0f}"))
    ax.set_xlabel("step")


def _corners(allocation: Allocation) -> np.ndarray:
    buffers = allocation.buffers
    left, right = buffers.begin - 0.5, buffers.release_step - 0.5
    low, high = allocation.offset, allocation.offset + buffers.size
    sides = (left, low), (right, low), (right, high), (left, high)
    return np.stack([np.stack(corner, axis=-1) for corner in sides], axis=1).astype(float)


def _lines(ax: Axes, allocation: Allocation) -> list[tuple[Any, str]]:
    size, max_live = allocation.size, allocation.buffers.max_live
    arena = ax.axhline(size, color=axes.ink(), linewidth=1.2, label="arena")
    rows = [(arena, f"arena {format_bytes(size)}")]
    if max_live != size:
        line = ax.axhline(max_live, color=VERMILION, linewidth=1.4, linestyle="--", label="max live", zorder=3)
        rows.append((line, f"max live {format_bytes(max_live)}"))
    return rows


def _tops(ax: Axes, split: SplitAllocation) -> list[tuple[Any, str]]:
    rows = []
    for i, (start, size) in enumerate(zip(_starts(split).tolist(), split.sizes, strict=True)):
        if size:
            line = ax.axhline(start + size, color=axes.ink(), linewidth=1.2, label=f"arena {i}")
            rows.append((line, f"arena {i}, {format_bytes(size)}"))
    return rows


def _name(ax: Axes, allocation: Allocation, simulation: Simulation | None) -> None:
    """Write names into the rectangles with enough room; names in high, narrow rectangles are vertical."""
    buffers = allocation.buffers
    if len(buffers) > tuning.MAX_NAMED_BUFFERS:
        return
    width, height = axes.inches(ax)
    first, last = ax.get_xlim()
    end, line = buffers.release_step, 1.2 * axes.text_height(tuning.NAME_POINTS)
    sides = (end - buffers.begin) * width / (last - first), buffers.size * height / ax.get_ylim()[1]
    for i, (wide, high) in enumerate(zip(*sides, strict=True)):
        room = int(max(wide, high) / axes.text_width("x", tuning.NAME_POINTS)) - 1
        # A longer name is shortened if at least eight letters fit.
        name = axes.label(_name_of(allocation, i, simulation), min(24, max(room, 8)))
        if name and min(wide, high) > line and len(name) <= room:
            middle = (buffers.begin[i] + end[i] - 1) / 2, allocation.offset[i] + buffers.size[i] / 2
            box = {"facecolor": "white", "edgecolor": "none", "boxstyle": "round,pad=0.1", "alpha": 0.85}
            style: dict[str, Any] = {"fontsize": tuning.NAME_POINTS, "color": "black", "bbox": box}
            upright = 90 if high > wide and len(name) > 2 else 0
            ax.text(*middle, name, ha="center", va="center", rotation=upright, **style)


@checked_arguments
def addresses_text(
    allocation: Allocation | SplitAllocation, *, simulation: Simulation | None = None, width: int, height: int = 16
) -> list[str]:
    """Return a chart; a column shows one or more steps, a row a range of addresses."""
    height = max(height, 4)
    allocation, split = _one_above_another(allocation)
    first, last = _span(allocation)
    edges = first + bins(last - first, width - tuning.GUTTER)
    wide = max(1, min(tuning.MAX_WIDE, (width - tuning.GUTTER) // (edges.size - 1)))
    canvas = [[" "] * ((edges.size - 1) * wide) for _ in range(height)]
    styles = _styles(allocation, simulation)
    cells = [(cell, style) for style, among in styles for cell in _cells(allocation, among, edges, height).tolist()]
    # Draw long lifetimes last, so that they stay visible.
    for (begin, end, low, high), style in sorted(cells, key=lambda cell: cell[0][1] - cell[0][0]):
        for row in range(low, high):
            canvas[row][begin * wide : end * wide] = style.character * ((end - begin) * wide)
    marks = {0: "0", height - 1: format_bytes(allocation.size)}
    if split is not None:
        bottoms = np.rint(_starts(split) / max(1, allocation.size) * height).astype(int).tolist()
        marks = {row: f"arena {i}" for i, row in enumerate(bottoms) if split.sizes[i]}
    lines = wrapped(_sentences(allocation, split), width) + framed(canvas, marks)
    lines += axis("step", first, last - 1, (edges.size - 1) * wide, zero="")
    return lines + legend((style for style, _ in styles), width)


def _cells(allocation: Allocation, among: Int64, edges: Int64, height: int) -> Int64:
    """int64[k, 4]: (first column, end column, first row, end row) of each buffer in `among`; ends are exclusive."""
    buffers, size = allocation.buffers, max(1, allocation.size)
    low, high = allocation.offset[among], (allocation.offset + buffers.size)[among]
    begin = np.searchsorted(edges, buffers.begin[among], side="right") - 1
    end = np.searchsorted(edges, buffers.release_step[among], side="left")
    rows = [np.rint(at / size * height).astype(np.int64) for at in (low, high)]
    return np.stack([begin, end, *rows], axis=1)


def _span(allocation: Allocation) -> tuple[int, int]:
    buffers = allocation.buffers
    if len(buffers) == 0:
        return 0, 1
    return int(buffers.begin.min()), int(buffers.end.max())


def _styles(allocation: Allocation, simulation: Simulation | None) -> list[tuple[Style, Int64]]:
    buffers = allocation.buffers
    some = buffers.size > 0
    if simulation is None:
        return [(BUFFER, np.flatnonzero(some))] if some.any() else []
    # Check that the buffers belong to this schedule.
    buffers.places(simulation)
    role = np.full(len(buffers), ROLE_NAMES.index("workspace"))
    is_value = buffers.instance >= 0
    role[is_value] = simulation.instance_role[buffers.instance[is_value]]
    among = [np.flatnonzero(some & (role == k)) for k in range(len(ROLE_NAMES))]
    return [(ROLES[name], members) for name, members in zip(ROLE_NAMES, among, strict=True) if members.size]


def _name_of(allocation: Allocation, i: int, simulation: Simulation | None) -> str:
    if allocation.buffers.names:
        return allocation.buffers.names[i]
    if simulation is None:
        return str(i)
    if (instance := int(allocation.buffers.instance[i])) < 0:
        return ""
    return simulation.graph.value_name(int(simulation.lifetimes.value[instance]))


def _sentences(allocation: Allocation, split: SplitAllocation | None) -> list[str]:
    first, last = _span(allocation)
    what = f"{counted(len(allocation.buffers), 'buffer')} over {counted(last - first, 'step')}"
    what += f", {shortened(allocation.method)}"
    if split is not None:
        arenas = zip(split.sizes, split.capacities, strict=True)
        return [what, "; ".join(f"arena {i}: {_of(size, room)}" for i, (size, room) in enumerate(arenas))]
    size, max_live = allocation.size, allocation.buffers.max_live
    share = f", {size / max_live:.3f} of max live" if max_live else ""
    proven = ", which is proven minimal" if allocation.proven and size > max_live else ""
    return [what, f"arena {format_bytes(size)}{share}{proven}"]


def _of(size: int, capacity: int) -> str:
    return f"{format_bytes(size)} of {format_bytes(capacity)}"
