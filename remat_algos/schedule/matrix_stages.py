"""The matrices R and S of a schedule: the nodes that each stage computes, and those live at its start."""

from dataclasses import dataclass

import numpy as np

from remat_algos.arguments import checked_arguments
from remat_algos.errors import ScheduleError
from remat_algos.ir.arrays import Bool, Int64
from remat_algos.schedule.simulation import Simulation

MAX_ENTRIES = 25_000_000
"""Entries of each matrix: 5,000 stages of 5,000 nodes."""


@dataclass(frozen=True, slots=True, eq=False)
class StageMatrices:
    """The matrices R and S of jain2020 (Checkmate), section 4.

    Parameters
    ----------
    nodes : int64[k]
        The nodes that run, in the order of their first runs: the columns.
    starts : int64[t]
        The first step of each stage: the rows.
    R : bool[t, k]
        The stage computes the node. Each run of the schedule is one entry, and row by row the entries are the schedule.
    S : bool[t, k]
        A value of the node is live when the stage starts: it is kept from the stage before.
    """

    nodes: Int64
    starts: Int64
    R: Bool
    S: Bool


@checked_arguments
def stage_matrices(simulation: Simulation) -> StageMatrices:
    """Return the matrices R and S of any schedule.

    A stage ends with each first run of a node, as in jain2020. A schedule in another order than theirs has further
    stages: one also begins where a node runs that does not stand, in the order of first runs, after the node before it.

    Parameters
    ----------
    simulation : Simulation

    Returns
    -------
    StageMatrices

    Raises
    ------
    ScheduleError
        If a matrix would have more than 25 million entries.

    Examples
    --------
    >>> from remat_algos.ir.graph import ComputationGraph
    >>> from remat_algos.schedule.simulation import simulate
    >>> graph = ComputationGraph.from_edges([(0, 1), (0, 2), (1, 2)])
    >>> found = stage_matrices(simulate(graph, [0, 1, 0, 2]))
    >>> found.R.astype(int).tolist(), found.S.astype(int).tolist()
    ([[1, 0, 0], [0, 1, 0], [1, 0, 1]], [[0, 0, 0], [1, 0, 0], [0, 1, 0]])
    """
    order, first = simulation.schedule.order, simulation.schedule.first_run
    nodes = order[first].astype(np.int64)
    place = np.full(simulation.graph.n_nodes, -1)
    place[nodes] = np.arange(nodes.size)
    column = place[order]
    begins = np.ones(order.size, bool)
    begins[1:] = first[:-1] | (np.diff(column) <= 0)
    starts = np.flatnonzero(begins)
    shape = starts.size, nodes.size
    if starts.size * nodes.size > MAX_ENTRIES:
        raise ScheduleError(
            "the matrices R and S have {n_stages:,} stages of {n_nodes:,} nodes, above {max_entries:,} "
            "entries; make a coarser graph, such as one of layers",
            n_stages=shape[0],
            n_nodes=shape[1],
            max_entries=MAX_ENTRIES,
            step=0,
            node=-1,
        )
    R = np.zeros(shape, bool)
    R[np.cumsum(begins) - 1, column] = True
    lives = simulation.lifetimes
    at = place[simulation.graph.producer[lives.value]]
    change = np.zeros((shape[0] + 1, shape[1]), np.int16)
    np.add.at(change, (np.searchsorted(starts, lives.made_at, "right"), at), 1)
    np.subtract.at(change, (np.searchsorted(starts, lives.end, "left"), at), 1)
    S = np.cumsum(change, axis=0, dtype=np.int16)[:-1] > 0
    for matrix in (R, S):
        matrix.setflags(write=False)
    return StageMatrices(nodes, starts, R, S)
