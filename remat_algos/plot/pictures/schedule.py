"""The schedule matrix: the node that each step runs, and the values live in between."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from remat_algos.arguments import checked_arguments
from remat_algos.ir.arrays import Int8, Int64
from remat_algos.plot.axes import axes_or_new, legend_beside, name_ticks, title
from remat_algos.plot.bins import bin_of, bins
from remat_algos.plot.colours import CELLS, GREY
from remat_algos.plot.subject import Subject, headline, simulated
from remat_algos.plot.text import MIN_WIDTH, columns_of, fitted, wrapped, wrapped_all
from remat_algos.schedule.simulation import Simulation
from remat_algos.text.wording import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NOT_LIVE, LIVE, FIRST_RUN, RECOMPUTED, LOADED = range(5)
MAX_CELLS = 600  # rows or columns of the picture: fewer than its pixels, so that every run is visible
CELL = 0.24  # inches
NAME = 20  # columns of text


def schedule_cells(simulation: Simulation, rows: Int64, columns: Int64) -> Int8:
    """int8[rows, columns]: state of each node at each step.

    0 not live, 1 a value of the node is live, 2 the node runs for the first time, 3 it is recomputed,
    4 the load of a value begins. Several steps or nodes in one cell show the maximum.

    Parameters
    ----------
    simulation : Simulation
    rows, columns : int64[k + 1]
        Ends of the ranges of steps in each row, and of nodes in each column.

    Examples
    --------
    >>> from remat_algos.ir.graph import ComputationGraph
    >>> from remat_algos.schedule.simulation import simulate
    >>> graph = ComputationGraph.from_edges([(0, 1), (0, 2), (1, 2)])
    >>> schedule_cells(simulate(graph, [0, 1, 0, 2]), np.arange(5), np.arange(4)).tolist()
    [[2, 0, 0], [1, 2, 0], [3, 1, 0], [1, 1, 2]]
    """
    row, column = bin_of(rows), bin_of(columns)
    made_at, end = simulation.lifetimes.made_at, simulation.lifetimes.end
    of = column[simulation.graph.producer[simulation.lifetimes.value]]
    change = np.zeros((rows.size, columns.size - 1), np.int32)
    live = end > made_at + 1
    np.add.at(change, (row[made_at[live] + 1], of[live]), 1)
    np.subtract.at(change, (row[end[live] - 1] + 1, of[live]), 1)
    cells = np.where(np.cumsum(change, axis=0)[:-1] > 0, LIVE, NOT_LIVE).astype(np.int8)
    runs = np.where(simulation.schedule.first_run, FIRST_RUN, RECOMPUTED).astype(np.int8)
    np.maximum.at(cells, (row, column[simulation.schedule.order]), runs)
    begin, value = simulation.schedule.loads.T
    cells[row[begin], column[simulation.graph.producer[value]]] = LOADED
    return cells


@checked_arguments
def schedule(subject: Subject, *, ax: Axes | None = None) -> Axes:
    """Draw steps downwards and nodes across: the runs of each node, and how long its values are live.

    Parameters
    ----------
    subject : Plan, Simulation or ComputationGraph
        For a graph its run without rematerialization.
    ax : Axes, optional
        By default those of a new figure; among other axes let `layout="constrained"` make room for the legend beside.

    Returns
    -------
    Axes
        One image of `schedule_cells`. Above 600 steps or nodes several share a row or column.

    Examples
    --------
    >>> from remat_algos import plot
    >>> from remat_algos.ir.graph import ComputationGraph
    >>> graph = ComputationGraph.from_edges([(0, 1), (0, 2), (1, 2)])
    >>> plot.schedule(graph).images[0].get_array().tolist()
    [[2, 0, 0], [1, 2, 0], [1, 1, 2]]
    """
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch

    simulation, limit = simulated(subject)
    graph, steps = simulation.graph, len(simulation.schedule)
    ax = axes_or_new(ax, 4 + min(7, max(2.5, CELL * graph.n_nodes)), 1.6 + min(7, max(2, CELL * steps)))
    cells = schedule_cells(simulation, bins(steps, MAX_CELLS), bins(graph.n_nodes, MAX_CELLS))
    ax.imshow(
        cells,
        cmap=ListedColormap([style.colour for style in CELLS]),
        vmin=-0.5,
        vmax=len(CELLS) - 0.5,
        interpolation="nearest",
        aspect="auto",
        extent=(-0.5, max(1, graph.n_nodes) - 0.5, max(1, steps) - 0.5, -0.5),
    )
    nodes_named = name_ticks(ax, [graph.labels[v] for v in range(graph.n_nodes)], across=True)
    steps_named = name_ticks(ax, simulation.schedule.names(graph), across=False)
    ax.set_xlabel("node" if nodes_named else "node, by its id")
    ax.set_ylabel("step, by the node that it runs" if steps_named else "step")
    ax.xaxis.set_ticks_position("top")
    ax.xaxis.set_label_position("top")
    if nodes_named and steps_named:  # lines between the cells
        ax.set_xticks(np.arange(graph.n_nodes + 1) - 0.5, minor=True)
        ax.set_yticks(np.arange(steps + 1) - 0.5, minor=True)
        ax.grid(which="minor", color=GREY, linewidth=0.3)
        ax.tick_params(which="minor", length=0)
    title(ax, headline(simulation, limit))
    styles = [CELLS[code] for code in (FIRST_RUN, RECOMPUTED, LOADED, LIVE) if (cells == code).any()]
    legend_beside(ax, [(Patch(facecolor=style.colour, edgecolor=GREY), style.label) for style in styles])
    return ax


@checked_arguments
def schedule_text(subject: Subject, *, width: int = 72, height: int = 40) -> str:
    """A schedule in characters: a line for each step, with its node and the state of every node.

    Parameters
    ----------
    subject : Plan, Simulation or ComputationGraph
    width : int
        Columns, at least 40.
    height : int
        Lines for steps, at least 4; if there are more, several share a line, which names the first.

    Returns
    -------
    str

    Examples
    --------
    >>> from remat_algos.ir.graph import ComputationGraph
    >>> from remat_algos.schedule.simulation import simulate
    >>> graph = ComputationGraph.from_edges([("A", "B"), ("A", "C"), ("B", "C")])
    >>> print(schedule_text(simulate(graph, [0, 1, 0, 2])))
    peak 3 B, as without recomputation, for 33.3 % more compute
    3 nodes in 4 steps, 1 extra run
    █ first run  ▒ recomputed  │ live  · not live
    step  node  012
       0  A     █··
       1  B     │█·
       2  A     ▒│·
       3  C     ││█
    """
    simulation, limit = simulated(subject)
    graph, steps, width = simulation.graph, len(simulation.schedule), max(width, MIN_WIDTH)
    names = simulation.schedule.names(graph)
    rows = bins(steps, max(4, height))
    digits = max(4, len(str(steps)))
    name = max(4, columns_of(names, min(NAME, width // 3)))
    columns = bins(graph.n_nodes, width - digits - name - 4)
    cells = schedule_cells(simulation, rows, columns)
    lines = wrapped_all(headline(simulation, limit), width)
    if rows.size <= steps or columns.size <= graph.n_nodes:
        each = counted(-(-steps // (rows.size - 1)), "step"), counted(-(-graph.n_nodes // (columns.size - 1)), "node")
        lines += wrapped(f"a line stands for up to {each[0]}, a column for up to {each[1]}", width)
    loaded = (LOADED,) if simulation.schedule.loads.size else ()
    styles = (CELLS[code] for code in (FIRST_RUN, RECOMPUTED, *loaded, LIVE, NOT_LIVE))
    lines += wrapped("  ".join(f"{style.character} {style.label}" for style in styles), width)
    lines.append(f"{'step':>{digits}}  {fitted('node', name)}  {_ruler(columns)}")
    for step, row in zip(rows[:-1].tolist(), cells, strict=True):
        if steps:
            strip = "".join(CELLS[code].character for code in row)
            lines.append(f"{step:>{digits}}  {fitted(names[step], name)}  {strip}")
    return "\n".join(lines)


def _ruler(columns: Int64) -> str:
    """Ids above their columns: all if each is a digit, else every tenth with enough room."""
    if columns[-1] <= 10:
        return "".join(str(v) for v in columns[:-1].tolist())
    marks = "".join(f"{columns[at]:<10}" for at in range(0, columns.size - 1, 10))
    whole = marks.rstrip() if len(marks.rstrip()) < columns.size else marks.rstrip().rpartition(" ")[0].rstrip()
    return whole
