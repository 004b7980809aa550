"""The matrices R and S of a schedule in stages: the nodes that each stage runs, and those live at its start."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from remat_algos.arguments import checked_arguments
from remat_algos.ir.arrays import Bool, Int64
from remat_algos.plot.axes import axes_or_new, legend_beside, name_ticks, title
from remat_algos.plot.colours import CELLS, GREY
from remat_algos.plot.pictures.schedule import FIRST_RUN, LIVE, LOADED, NOT_LIVE, RECOMPUTED
from remat_algos.plot.subject import Subject, peak_of, simulated, size_of
from remat_algos.schedule.baseline import baseline_peak
from remat_algos.schedule.simulation import Simulation

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CELL = 0.24  # inches
BLANK = -1  # between the two matrices


def stage_matrices(simulation: Simulation) -> tuple[Int64, Bool, Bool]:
    """Nodes in the order of their first runs, and the matrices R and S of jain2020 over them.

    Stage t ends when the t-th node runs for the first time.

    Parameters
    ----------
    simulation : Simulation

    Returns
    -------
    nodes : int64[k]
    R : bool[k, k]
        Stage t (row) runs node i (column).
    S : bool[k, k]
        A value of node i is live when stage t starts.

    Raises
    ------
    ValueError
        If a stage does not run its nodes in that order, each once.

    Examples
    --------
    >>> from remat_algos.ir.graph import ComputationGraph
    >>> from remat_algos.schedule.simulation import simulate
    >>> graph = ComputationGraph.from_edges([(0, 1), (0, 2), (1, 2)])
    >>> nodes, R, S = stage_matrices(simulate(graph, [0, 1, 0, 2]))
    >>> R.astype(int).tolist(), S.astype(int).tolist()
    ([[1, 0, 0], [0, 1, 0], [1, 0, 1]], [[0, 0, 0], [1, 0, 0], [0, 1, 0]])
    """
    order, first = simulation.schedule.order, simulation.schedule.first_run
    nodes = order[first].astype(np.int64)
    place = np.full(simulation.graph.n_nodes, -1)
    place[nodes] = np.arange(nodes.size)
    stage: Int64 = np.cumsum(first) - first
    column = place[order]
    if ((np.diff(column) <= 0) & (np.diff(stage) == 0)).any():
        raise ValueError(
            "the schedule has no stages: between two first runs it recomputes nodes in another order than that of "
            'their first runs; draw a plan of the solver "milp", or use plot.schedule'
        )
    R = np.zeros((nodes.size, nodes.size), bool)
    R[stage, column] = True
    starts = np.searchsorted(stage, np.arange(nodes.size))  # the first step of each stage
    lifetimes = simulation.lifetimes
    live = (simulation.lifetimes.made_at[:, None] < starts) & (lifetimes.end[:, None] > starts)
    S = np.zeros_like(R)
    instance, at = np.nonzero(live)
    S[at, place[simulation.graph.producer[lifetimes.value[instance]]]] = True
    return nodes, R, S


@checked_arguments
def matrix(subject: Subject, *, ax: Axes | None = None) -> Axes:
    """Draw the matrices R and S side by side: stages downwards, nodes across.

    Parameters
    ----------
    subject : Plan, Simulation or ComputationGraph
        A schedule in stages, as made by the solver "milp"; for a graph its run without rematerialization.
    ax : Axes, optional
        By default those of a new figure.

    Returns
    -------
    Axes
        One image: R, in which loads are marked too, a blank column, S.

    Raises
    ------
    ValueError
        If the schedule has no stages.

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
    nodes, runs, live = stage_matrices(simulation)
    count = nodes.size
    recomputed = np.where(np.eye(count, dtype=bool), FIRST_RUN, RECOMPUTED)
    cells = np.full((max(1, count), 2 * count + 1), BLANK)
    cells[:count, :count] = np.where(runs, recomputed, NOT_LIVE)
    begin, value = simulation.schedule.loads.T
    first = simulation.schedule.first_run
    place = np.argsort(nodes)[np.searchsorted(np.sort(nodes), simulation.graph.producer[value])]
    cells[(np.cumsum(first) - first)[begin], place] = LOADED
    cells[:count, count + 1 :] = np.where(live, LIVE, NOT_LIVE)
    ax = axes_or_new(ax, 4 + min(10, max(4, 2 * CELL * count)), 1.6 + min(7, max(2, CELL * count)))
    ax.imshow(
        np.ma.masked_equal(cells, BLANK),
        cmap=ListedColormap([style.colour for style in CELLS]),
        vmin=-0.5,
        vmax=len(CELLS) - 0.5,
        interpolation="nearest",
        aspect="auto",
    )
    names = [simulation.graph.labels[int(v)] for v in nodes]
    if not name_ticks(ax, [*names, "", *names], across=True):
        ax.set_xticks([])
    name_ticks(ax, names, across=False)
    ax.set_ylabel("stage, by the node that it runs first")
    ax.set_xlabel("R: the stage runs the node          S: it is live when the stage starts")
    ax.xaxis.set_ticks_position("top")
    title(ax, [size_of(simulation), peak_of(simulation, baseline_peak(simulation.graph), limit)])
    styles = [CELLS[code] for code in (FIRST_RUN, RECOMPUTED, LOADED, LIVE) if (cells == code).any()]
    legend_beside(ax, [(Patch(facecolor=style.colour, edgecolor=GREY), style.label) for style in styles])
    return ax
