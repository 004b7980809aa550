"""Pictures of a schedule: the state of each node at each step, and the matrices R and S of its stages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from remat_algos.arguments import checked_arguments
from remat_algos.ir.arrays import Int8, Int64, row_of
from remat_algos.plot import axes, tuning
from remat_algos.plot.characters import bins, columns_of, fitted, legend, wrapped
from remat_algos.plot.colours import CELLS, GREY
from remat_algos.plot.lanes import Lanes, Subject
from remat_algos.schedule.simulation import Simulation
from remat_algos.schedule.views import StageMatrices, stage_matrices
from remat_algos.wording import counted, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NOT_LIVE, LIVE, FIRST_RUN, RECOMPUTED, LOADED = range(5)
# Entry of the blank column between R and S.
BLANK = -1


def schedule_cells(simulation: Simulation, rows: Int64, columns: Int64) -> Int8:
    """int8[r, c]: for each range of steps (row) and range of nodes (column), the highest state in the cell.

    `rows` and `columns` are the boundaries of the ranges. States: 0 no live value, 1 a value of the node is live,
    2 first run, 3 recomputation, 4 the load of a value begins.
    """
    row, column = row_of(rows), row_of(columns)
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
    """Draw the runs of each node and the lifetimes of its values; steps run downwards, nodes from left to right.

    Parameters
    ----------
    subject : Plan, Simulation or ComputationGraph
        A graph is run without rematerialization.
    ax : Axes, optional
        Axes to draw on; by default those of a new figure. `layout="constrained"` makes room for the legend.

    Returns
    -------
    Axes
        One image of `schedule_cells`. Above 600 steps or nodes, several share a row or a column.

    Examples
    --------
    >>> from remat_algos import plot
    >>> from remat_algos.ir.graph import ComputationGraph
    >>> graph = ComputationGraph.from_edges([(0, 1), (0, 2), (1, 2)])
    >>> plot.schedule(graph).images[0].get_array().tolist()
    [[2, 0, 0], [1, 2, 0], [1, 1, 2]]
    """
    lanes = Lanes.of(subject)
    simulation, graph, steps = lanes.simulation, lanes.graph, lanes.trace.size
    ax = axes.of_size(ax, 4 + min(7, max(2.5, tuning.CELL * graph.n_nodes)), 1.6 + min(7, max(2, tuning.CELL * steps)))
    cells = schedule_cells(simulation, bins(steps, tuning.MAX_CELLS), bins(graph.n_nodes, tuning.MAX_CELLS))
    _image(ax, cells, extent=(-0.5, max(1, graph.n_nodes) - 0.5, max(1, steps) - 0.5, -0.5))
    nodes_named = axes.name_ticks(ax, [graph.labels[v] for v in range(graph.n_nodes)], across=True)
    steps_named = axes.name_ticks(ax, lanes.names, across=False)
    ax.set_xlabel("node" if nodes_named else "node id")
    ax.set_ylabel("step (labels: the node that runs)" if steps_named else "step")
    ax.xaxis.set_ticks_position("top")
    ax.xaxis.set_label_position("top")
    # Separate the cells by lines.
    if nodes_named and steps_named:
        ax.set_xticks(np.arange(graph.n_nodes + 1) - 0.5, minor=True)
        ax.set_yticks(np.arange(steps + 1) - 0.5, minor=True)
        ax.grid(which="minor", color=GREY, linewidth=0.3)
        ax.tick_params(which="minor", length=0)
    return axes.finished(ax, lanes.title, _legend(cells))


@checked_arguments
def schedule_text(subject: Subject, *, width: int, height: int = 40) -> list[str]:
    """Return a line per step, with its node and the state of every node; several steps may share one line."""
    lanes = Lanes.of(subject)
    simulation, graph, names, steps = lanes.simulation, lanes.graph, lanes.names, lanes.trace.size
    rows = bins(steps, max(4, height))
    digits = max(4, len(str(steps)))
    name = max(4, columns_of(names, min(20, width // 3)))
    columns = bins(graph.n_nodes, width - digits - name - 4)
    cells = schedule_cells(simulation, rows, columns)
    lines = wrapped(lanes.title, width)
    if rows.size <= steps or columns.size <= graph.n_nodes:
        each = counted(-(-steps // (rows.size - 1)), "step"), counted(-(-graph.n_nodes // (columns.size - 1)), "node")
        lines += wrapped([f"a line stands for up to {each[0]}, a column for up to {each[1]}"], width)
    lines += _legend_lines(simulation, width)
    lines.append(f"{'step':>{digits}}  {fitted('node', name)}  {_ruler(columns)}")
    for step, row in zip(rows[:-1].tolist() if steps else [], cells, strict=False):
        strip = "".join(CELLS[code].character for code in row)
        lines.append(f"{step:>{digits}}  {fitted(names[step], name)}  {strip}")
    return lines


def _image(ax: Axes, cells: NDArray[np.int8], **options: Any) -> None:
    from matplotlib.colors import ListedColormap

    colours = ListedColormap([style.colour for style in CELLS])
    ax.imshow(cells, colours, vmin=-0.5, vmax=len(CELLS) - 0.5, interpolation="nearest", aspect="auto", **options)


def _legend(cells: Int8) -> list[tuple[Any, str]]:
    styles = [CELLS[code] for code in (FIRST_RUN, RECOMPUTED, LOADED, LIVE) if (cells == code).any()]
    return [(axes.patch(style, GREY), style.label) for style in styles]


def _legend_lines(simulation: Simulation, width: int) -> list[str]:
    loaded = (LOADED,) if simulation.schedule.loads.size else ()
    return legend((CELLS[code] for code in (FIRST_RUN, RECOMPUTED, *loaded, LIVE, NOT_LIVE)), width)


def _ruler(columns: Int64) -> str:
    """Return a line of node ids above their columns: all ids if each has one digit, else multiples of ten that fit."""
    if columns[-1] <= 10:
        return "".join(str(v) for v in columns[:-1].tolist())
    marks = "".join(f"{columns[at]:<10}" for at in range(0, columns.size - 1, 10))
    return marks.rstrip() if len(marks.rstrip()) < columns.size else marks.rstrip().rpartition(" ")[0].rstrip()


def _matrix_cells(simulation: Simulation, matrices: StageMatrices, rows: Int64, columns: Int64) -> tuple[Int8, Int8]:
    """Return R and S as int8[r, c] with the same states and arguments as `schedule_cells`."""
    first = simulation.schedule.first_run
    row = row_of(rows)[np.searchsorted(matrices.starts, np.arange(first.size), "right") - 1]
    place = np.zeros(simulation.graph.n_nodes, np.int64)
    place[matrices.nodes] = row_of(columns)
    runs = np.zeros((rows.size - 1, columns.size - 1), np.int8)
    np.maximum.at(runs, (row, place[simulation.schedule.order]), np.where(first, FIRST_RUN, RECOMPUTED).astype(np.int8))
    begin, value = simulation.schedule.loads.T
    runs[row[begin], place[simulation.graph.producer[value]]] = LOADED
    if not matrices.S.size:
        return runs, np.zeros_like(runs)
    live = np.maximum.reduceat(np.maximum.reduceat(matrices.S, rows[:-1], axis=0), columns[:-1], axis=1)
    return runs, np.where(live, LIVE, NOT_LIVE).astype(np.int8)


@checked_arguments
def matrix(subject: Subject, *, ax: Axes | None = None) -> Axes:
    """Draw the matrices R and S side by side; stages run downwards, nodes from left to right.

    Parameters
    ----------
    subject : Plan, Simulation or ComputationGraph
        Any schedule order is allowed (see `stage_matrices`). A graph is run without rematerialization.
    ax : Axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    Axes
        One image: R, then a blank column, then S. The part for R also marks loads. Above 300 stages or nodes, several
        share a row or a column.

    Raises
    ------
    ScheduleError
        If a matrix would have more than 25 million entries.

    Examples
    --------
    >>> from remat_algos import plot
    >>> from remat_algos.ir.graph import ComputationGraph
    >>> graph = ComputationGraph.from_edges([(0, 1), (0, 2), (1, 2)])
    >>> plot.matrix(graph).images[0].get_array().tolist()
    [[2, 0, 0, None, 0, 0, 0], [0, 2, 0, None, 1, 0, 0], [0, 0, 2, None, 1, 1, 0]]
    """
    lanes = Lanes.of(subject)
    simulation = lanes.simulation
    matrices = stage_matrices(simulation)
    rows, columns = (bins(count.size, tuning.MAX_CELLS // 2) for count in (matrices.starts, matrices.nodes))
    runs, live = _matrix_cells(simulation, matrices, rows, columns)
    height, width = runs.shape
    cells = np.hstack([runs, np.full((height, 1), BLANK, np.int8), live])
    ax = axes.of_size(ax, 4 + min(10, max(4, 2 * tuning.CELL * width)), 1.6 + min(7, max(2, tuning.CELL * height)))
    _image(ax, np.ma.masked_equal(cells, BLANK))
    names = [simulation.graph.labels[v] for v in matrices.nodes.tolist()]
    if width < len(names) or not axes.name_ticks(ax, [*names, "", *names], across=True):
        ax.set_xticks([])
    stages = [str(at) for at in rows[:-1].tolist()]
    if not axes.name_ticks(ax, stages, across=False):
        ax.set_yticks([0, height - 1], [stages[0], stages[-1]])
    ax.set_ylabel("stage")
    ax.set_xlabel("R: the stage computes the node          S: it is live when the stage starts")
    ax.xaxis.set_ticks_position("top")
    return axes.finished(ax, lanes.title, _legend(cells))


@checked_arguments
def matrix_text(subject: Subject, *, width: int, height: int = 40) -> list[str]:
    """Return a line per stage, with columns in the order of first runs; several stages may share a line."""
    lanes = Lanes.of(subject)
    simulation = lanes.simulation
    matrices = stage_matrices(simulation)
    digits = max(5, len(str(matrices.starts.size)))
    rows = bins(matrices.starts.size, max(4, height))
    columns = bins(matrices.nodes.size, (width - digits - 4) // 2)
    sentences = [*lanes.title, "R: the stage computes the node; S: it is live when the stage starts"]
    per_line, per_column = (int(np.diff(ends).max()) for ends in (rows, columns))
    if per_line > 1 or per_column > 1:
        each = counted(per_line, "stage"), counted(per_column, "node")
        sentences.append(f"a line stands for up to {each[0]}, a column for up to {each[1]}")
    lines = wrapped(sentences, width) + _legend_lines(simulation, width)
    if matrices.nodes.size <= 25:
        names = (f"{i}={shortened(simulation.graph.labels[v])}" for i, v in enumerate(matrices.nodes.tolist()))
        lines += wrapped([f"columns {', '.join(names)}"], width)
    lines.append(f"{'stage':>{digits}}  {'R':<{columns.size - 1}}  S")
    if len(simulation.schedule):
        for stage, *row in zip(rows[:-1].tolist(), *_matrix_cells(simulation, matrices, rows, columns), strict=True):
            strips = ("".join(CELLS[code].character for code in strip) for strip in row)
            lines.append(f"{stage:>{digits}}  {'  '.join(strips)}")
    return lines
