"""The matrices R and S: the nodes that each stage of a schedule computes, and those live at its start."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from remat_algos.arguments import checked_arguments
from remat_algos.ir.arrays import Int8, Int64
from remat_algos.plot.axes import axes_or_new, legend_beside, name_ticks, title
from remat_algos.plot.bins import bin_of, bins
from remat_algos.plot.colours import CELLS, GREY
from remat_algos.plot.pictures.schedule import FIRST_RUN, LIVE, LOADED, NOT_LIVE, RECOMPUTED
from remat_algos.plot.subject import Subject, headline, simulated
from remat_algos.plot.text import MIN_WIDTH, wrapped, wrapped_all
from remat_algos.schedule.matrix_stages import StageMatrices, stage_matrices
from remat_algos.schedule.simulation import Simulation
from remat_algos.text.wording import counted, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CELL = 0.24  # inches
MAX_CELLS = 300  # rows, or columns of a matrix: fewer than its pixels
NAMED = 25  # nodes that are named in text
BLANK = -1  # between the two matrices


def _cells(simulation: Simulation, matrices: StageMatrices, rows: Int64, columns: Int64) -> tuple[Int8, Int8]:
    """int8[r, c] of R and of S, with the entries of `schedule_cells`, for ranges of stages and nodes by their ends.

    Several stages or nodes in one cell show the maximum.
    """
    first = simulation.schedule.first_run
    row = bin_of(rows)[np.searchsorted(matrices.starts, np.arange(first.size), "right") - 1]
    place = np.zeros(simulation.graph.n_nodes, np.int64)
    place[matrices.nodes] = bin_of(columns)
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
    """Draw the matrices R and S side by side: stages downwards, nodes across.

    Parameters
    ----------
    subject : Plan, Simulation or ComputationGraph
        Of any order, see `stage_matrices`; for a graph its run without rematerialization.
    ax : Axes, optional
        By default those of a new figure.

    Returns
    -------
    Axes
        One image: R, in which loads are marked too, a blank column, S. Above 300 stages or nodes several share a row
        or column.

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
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch

    simulation, limit = simulated(subject)
    matrices = stage_matrices(simulation)
    rows, columns = bins(matrices.starts.size, MAX_CELLS), bins(matrices.nodes.size, MAX_CELLS)
    runs, live = _cells(simulation, matrices, rows, columns)
    height, width = runs.shape
    cells = np.hstack([runs, np.full((height, 1), BLANK, np.int8), live])
    ax = axes_or_new(ax, 4 + min(10, max(4, 2 * CELL * width)), 1.6 + min(7, max(2, CELL * height)))
    ax.imshow(
        np.ma.masked_equal(cells, BLANK),
        cmap=ListedColormap([style.colour for style in CELLS]),
        vmin=-0.5,
        vmax=len(CELLS) - 0.5,
        interpolation="nearest",
        aspect="auto",
    )
    names = [simulation.graph.labels[v] for v in matrices.nodes.tolist()]
    if width < len(names) or not name_ticks(ax, [*names, "", *names], across=True):
        ax.set_xticks([])
    stages = [str(at) for at in rows[:-1].tolist()]
    if not name_ticks(ax, stages, across=False):
        ax.set_yticks([0, height - 1], [stages[0], stages[-1]])
    ax.set_ylabel("stage")
    ax.set_xlabel("R: the stage computes the node          S: it is live when the stage starts")
    ax.xaxis.set_ticks_position("top")
    title(ax, headline(simulation, limit))
    styles = [CELLS[code] for code in (FIRST_RUN, RECOMPUTED, LOADED, LIVE) if (cells == code).any()]
    legend_beside(ax, [(Patch(facecolor=style.colour, edgecolor=GREY), style.label) for style in styles])
    return ax


@checked_arguments
def matrix_text(subject: Subject, *, width: int = 72, height: int = 40) -> str:
    """The matrices R and S in characters: a line for each stage, columns in the order of first runs.

    Parameters
    ----------
    subject : Plan, Simulation or ComputationGraph
    width : int
        Columns, at least 40.
    height : int
        Lines for stages, at least 4; if there are more, several share a line, which is numbered by the first.

    Returns
    -------
    str

    Examples
    --------
    >>> from remat_algos.ir.graph import ComputationGraph
    >>> from remat_algos.schedule.simulation import simulate
    >>> graph = ComputationGraph.from_edges([("A", "B"), ("A", "C"), ("B", "C")])
    >>> print(matrix_text(simulate(graph, [0, 1, 0, 2])))
    peak 3 B, as without recomputation, for 33.3 % more compute
    3 nodes in 4 steps, 1 extra run
    R: the stage computes the node; S: it is live when the stage starts
    █ first run  ▒ recomputed  │ live  · not live
    columns 0=A, 1=B, 2=C
    stage  R    S
        0  █··  ···
        1  ·█·  │··
        2  ▒·█  ·│·
    """
    simulation, limit = simulated(subject)
    matrices, width = stage_matrices(simulation), max(width, MIN_WIDTH)
    digits = max(5, len(str(matrices.starts.size)))
    rows = bins(matrices.starts.size, max(4, height))
    columns = bins(matrices.nodes.size, (width - digits - 4) // 2)
    lines = wrapped_all(headline(simulation, limit), width)
    lines += wrapped("R: the stage computes the node; S: it is live when the stage starts", width)
    per_line, per_column = (int(np.diff(ends).max()) for ends in (rows, columns))
    if per_line > 1 or per_column > 1:
        each = counted(per_line, "stage"), counted(per_column, "node")
        lines += wrapped(f"a line stands for up to {each[0]}, a column for up to {each[1]}", width)
    loaded = (LOADED,) if simulation.schedule.loads.size else ()
    styles = (CELLS[code] for code in (FIRST_RUN, RECOMPUTED, *loaded, LIVE, NOT_LIVE))
    lines += wrapped("  ".join(f"{style.character} {style.label}" for style in styles), width)
    if matrices.nodes.size <= NAMED:
        names = (f"{i}={shortened(simulation.graph.labels[v])}" for i, v in enumerate(matrices.nodes.tolist()))
        lines += wrapped(f"columns {', '.join(names)}", width)
    lines.append(f"{'stage':>{digits}}  {'R':<{columns.size - 1}}  S")
    if len(simulation.schedule):
        for stage, *row in zip(rows[:-1].tolist(), *_cells(simulation, matrices, rows, columns), strict=True):
            strips = ("".join(CELLS[code].character for code in strip) for strip in row)
            lines.append(f"{stage:>{digits}}  {'  '.join(strips)}")
    return "\n".join(lines)
