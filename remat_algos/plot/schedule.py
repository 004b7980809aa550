"""The schedule matrix: which step runs which node, and what is held in between."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from remat_algos.ir.arrays import Int8, Int64
from remat_algos.plan.baseline import baseline_peak
from remat_algos.plot.axes import POINT, axes_or_new, inches, label, legend_beside
from remat_algos.plot.bins import bin_of, bins
from remat_algos.plot.colours import CELLS, GREY
from remat_algos.plot.subject import Subject, counted, judged, peak_of, size_of
from remat_algos.plot.text import LEAST_WIDTH, columns_of, fitted, wrapped
from remat_algos.schedule.simulation import Simulation

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

NOT_HELD, HELD, FIRST_RUN, RUN_AGAIN = range(4)
MOST_CELLS = 600  # rows or columns of the picture: fewer than its dots, so that no run gets lost
CELL = 0.24  # inches
TICK_SIZE = 8
NAME = 20  # columns of text


def schedule_cells(simulation: Simulation, rows: Int64, columns: Int64) -> Int8:
    """int8[rows, columns]: what a schedule does with each node at each step.

    0 not held, 1 a value of the node is held, 2 the node runs for the first time, 3 it runs again. Of several
    steps or nodes the highest counts.

    Parameters
    ----------
    simulation : Simulation
    rows, columns : int64[k + 1]
        Ends of the ranges of steps, of nodes, that stand in one row, one column.

    Examples
    --------
    >>> from remat_algos.ir.graph import ComputationGraph
    >>> from remat_algos.schedule.simulation import simulate
    >>> graph = ComputationGraph.from_edges([(0, 1), (0, 2), (1, 2)])
    >>> schedule_cells(simulate(graph, [0, 1, 0, 2]), np.arange(5), np.arange(4)).tolist()
    [[2, 0, 0], [0, 2, 0], [3, 1, 0], [1, 1, 2]]
    """
    row, column = bin_of(rows), bin_of(columns)
    made_at, end = simulation.made_at, simulation.lifetimes.end
    of = column[simulation.graph.producer[simulation.lifetimes.value]]
    change = np.zeros((rows.size, columns.size - 1), np.int32)
    held = end > made_at + 1
    np.add.at(change, (row[made_at[held] + 1], of[held]), 1)
    np.subtract.at(change, (row[end[held] - 1] + 1, of[held]), 1)
    cells = np.where(np.cumsum(change, axis=0)[:-1] > 0, HELD, NOT_HELD).astype(np.int8)
    runs = np.where(simulation.first_run, FIRST_RUN, RUN_AGAIN).astype(np.int8)
    np.maximum.at(cells, (row, column[simulation.schedule.order]), runs)
    return cells


def plot_schedule(subject: Subject, *, ax: Axes | None = None) -> Axes:
    """Draw steps downwards and nodes across: where a node runs, and how long its values are held.

    Parameters
    ----------
    subject : Plan, Simulation or ComputationGraph
        Of a graph, its run without rematerialization.
    ax : Axes, optional
        By default those of a new figure.

    Returns
    -------
    Axes
        One image of `schedule_cells`. Of more than 600 steps or nodes several share a row or column.

    Examples
    --------
    >>> from remat_algos.ir.graph import ComputationGraph
    >>> graph = ComputationGraph.from_edges([(0, 1), (0, 2), (1, 2)])
    >>> plot_schedule(graph).images[0].get_array().tolist()
    [[2, 0, 0], [1, 2, 0], [1, 1, 2]]
    """
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch

    simulation, limit = judged(subject)
    graph, steps = simulation.graph, len(simulation.schedule)
    ax = axes_or_new(ax, 4 + min(7, max(2.5, CELL * graph.n_nodes)), 1.6 + min(7, max(2, CELL * steps)))
    cells = schedule_cells(simulation, bins(steps, MOST_CELLS), bins(graph.n_nodes, MOST_CELLS))
    ax.imshow(
        cells,
        cmap=ListedColormap([look.colour for look in CELLS]),
        vmin=-0.5,
        vmax=len(CELLS) - 0.5,
        interpolation="nearest",
        aspect="auto",
        extent=(-0.5, max(1, graph.n_nodes) - 0.5, max(1, steps) - 0.5, -0.5),
    )
    wide, high = inches(ax)
    nodes = [graph.labels[v] for v in range(graph.n_nodes)]
    fit_x = _name_ticks(ax.xaxis, nodes, wide, "node", rotation=90)
    fit_y = _name_ticks(ax.yaxis, simulation.schedule.names(graph), high, "step", rotation=0)
    ax.xaxis.set_ticks_position("top")
    ax.xaxis.set_label_position("top")
    if fit_x and fit_y:  # lines between the cells
        ax.set_xticks(np.arange(graph.n_nodes + 1) - 0.5, minor=True)
        ax.set_yticks(np.arange(steps + 1) - 0.5, minor=True)
        ax.grid(which="minor", color=GREY, linewidth=0.3)
        ax.tick_params(which="minor", length=0)
    peak = peak_of(simulation, baseline_peak(graph), limit)
    ax.set_title(f"{size_of(simulation)}\n{peak}", fontsize=10, pad=10)
    looks = [CELLS[code] for code in (FIRST_RUN, RUN_AGAIN, HELD) if (cells == code).any()]
    legend_beside(ax, [(Patch(facecolor=look.colour, edgecolor=GREY), look.label) for look in looks])
    return ax


def _name_ticks(axis: Axis, names: list[str], room: float, what: str, rotation: int) -> bool:
    """Names if they fit into so many inches, else numbers; says whether they do."""
    from matplotlib.ticker import MaxNLocator

    if 0 < len(names) <= room / (1.4 * TICK_SIZE * POINT):
        axis.set_ticks(range(len(names)), [label(name, 18) for name in names], rotation=rotation, fontsize=TICK_SIZE)
        axis.set_label_text(what if what == "node" else f"{what}, by the node that it runs")
        return True
    axis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    axis.set_label_text("node, by its id" if what == "node" else what)
    return False


def schedule_text(subject: Subject, *, width: int = 72, height: int = 40) -> str:
    """The same in characters: a line for each step, with its node and what is held of every node.

    Parameters
    ----------
    subject : Plan, Simulation or ComputationGraph
    width : int
        Columns, at least 40.
    height : int
        Lines for steps, at least 4; of more steps several share a line, which names the first.

    Examples
    --------
    >>> from remat_algos.ir.graph import ComputationGraph
    >>> from remat_algos.schedule.simulation import simulate
    >>> graph = ComputationGraph.from_edges([("A", "B"), ("A", "C"), ("B", "C")])
    >>> print(schedule_text(simulate(graph, [0, 1, 0, 2])))
    3 nodes in 4 steps, 1 of them again
    peak 3 B, 100 % of that without rematerialization
    █ first run  ▒ run again  │ held  · not held
    step  node  012
       0  A     █··
       1  B     ·█·
       2  A     ▒│·
       3  C     ││█
    """
    simulation, limit = judged(subject)
    graph, steps, width = simulation.graph, len(simulation.schedule), max(width, LEAST_WIDTH)
    names = simulation.schedule.names(graph)
    rows = bins(steps, max(4, height))
    digits = max(4, len(str(steps)))
    name = max(4, columns_of(names, min(NAME, width // 3)))
    columns = bins(graph.n_nodes, width - digits - name - 4)
    cells = schedule_cells(simulation, rows, columns)
    lines = wrapped(size_of(simulation), width)
    lines += wrapped(peak_of(simulation, baseline_peak(graph), limit), width)
    if rows.size <= steps or columns.size <= graph.n_nodes:
        each = counted(-(-steps // (rows.size - 1)), "step"), counted(-(-graph.n_nodes // (columns.size - 1)), "node")
        lines += wrapped(f"a line stands for up to {each[0]}, a column for up to {each[1]}", width)
    looks = (CELLS[code] for code in (FIRST_RUN, RUN_AGAIN, HELD, NOT_HELD))
    lines += wrapped("  ".join(f"{look.character} {look.label}" for look in looks), width)
    lines.append(f"{'step':>{digits}}  {fitted('node', name)}  {_ruler(columns)}")
    for step, row in zip(rows[:-1].tolist(), cells, strict=True):
        if steps:
            strip = "".join(CELLS[code].character for code in row)
            lines.append(f"{step:>{digits}}  {fitted(names[step], name)}  {strip}")
    return "\n".join(lines)


def _ruler(columns: Int64) -> str:
    """Ids above their columns: every digit where there are ten columns, else every tenth id or so."""
    if columns.size <= 11:
        return "".join(str(v) for v in columns[:-1].tolist()) if columns[-1] <= 10 else f"{columns[0]}"
    marks = "".join(f"{columns[at]:<10}" for at in range(0, columns.size - 1, 10))
    return marks[: columns.size - 1].rstrip()
