"""Formula (2) of a chain of lower sets, term by term, beside the simulated peak of its blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from remat_algos.arguments import checked_arguments
from remat_algos.ir.arrays import Int64
from remat_algos.ir.graph import ComputationGraph
from remat_algos.plot import axes
from remat_algos.plot.colours import GREY, TERMS
from remat_algos.plot.pictures.lattice import joined
from remat_algos.schedule.canonical import canonical_schedule
from remat_algos.schedule.simulation import Simulation, simulate
from remat_algos.structure.lower_sets import LowerSets
from remat_algos.text.units import format_bytes
from remat_algos.text.wording import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Width of the bars of a block, whose room is 1.
WIDE, NARROW = 0.46, 0.34


@checked_arguments
def terms(
    graph: ComputationGraph,
    lower_sets: LowerSets,
    *,
    keep_last: bool = True,
    lazy: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw the four terms of formula (2) for each block as a bar, beside the simulated peak of the block.

    Parameters
    ----------
    graph : ComputationGraph
        With its backward part.
    lower_sets : LowerSets
    keep_last, lazy : bool
        Options of the simulated `canonical_schedule`; formula (2) assumes that both are False.
    ax : Axes, optional
        By default those of a new figure; among other axes let `layout="constrained"` make room for the legend beside.

    Returns
    -------
    Axes
        y is in bytes, x in blocks, from 0.

    Raises
    ------
    GraphError
        If the chain does not fit the graph.

    References
    ----------
    kusumoto2019, section 3.

    Examples
    --------
    >>> from remat_algos import plot
    >>> from remat_algos.ir.differentiate import differentiate
    >>> chain = differentiate(ComputationGraph.from_edges([(0, 1), (1, 2), (2, 3)]))
    >>> ax = plot.terms(chain, LowerSets.of(chain, [[0, 1], [0, 1, 2, 3]]))
    >>> [text.get_text() for text in ax.get_xticklabels()]
    ['01', '23']
    """
    terms = lower_sets.terms(graph)
    simulation = simulate(graph, canonical_schedule(graph, lower_sets, keep_last=keep_last, lazy=lazy))
    peaks = peaks_of_blocks(simulation, lower_sets)
    ax = axes.of_size(ax, 10, 4.8)
    top = max(1, int(terms.sum(axis=1).max(initial=0)), int(peaks.max(initial=0)))
    ax.set_xlim(-0.6, max(1, len(lower_sets)) - 0.4)
    ax.set_ylim(0, 1.1 * top)
    rows = _bars(ax, terms, peaks)
    axes.byte_axis(ax.yaxis, top, "memory")
    _ticks(ax, graph, lower_sets)
    return axes.finished(ax, _sentences(simulation, lower_sets), rows)


def peaks_of_blocks(simulation: Simulation, lower_sets: LowerSets) -> Int64:
    """int64[k]: peak of a canonical schedule while it runs a block, forward or backward.

    Recomputed nodes belong to the block of the next gradient.

    Examples
    --------
    Four nodes of one byte in two blocks. Gradients read the reads and values of their nodes; the last block is kept.

    >>> from remat_algos.ir.differentiate import differentiate
    >>> chain = differentiate(ComputationGraph.from_edges([(0, 1), (1, 2), (2, 3)]))
    >>> sets = LowerSets.of(chain, [[0, 1], [0, 1, 2, 3]])
    >>> peaks_of_blocks(simulate(chain, canonical_schedule(chain, sets)), sets).tolist()
    [4, 5]
    """
    graph, order, k = simulation.graph, simulation.schedule.order, len(lower_sets)
    block = lower_sets.blocks(graph).astype(np.int64)
    gradient = ~graph.forward[order]
    again = ~gradient & ~simulation.schedule.first_run
    of_step = np.where(gradient, block[graph.owner[order]], block[order])
    of_step[of_step < 0] = k - 1  # gradients of nodes that never run
    following = np.minimum.accumulate(np.where(gradient, np.arange(order.size), order.size)[::-1])[::-1]
    of_step[again] = np.append(of_step, k - 1)[following[again]]
    peaks = np.zeros(k, np.int64)
    np.maximum.at(peaks, of_step, simulation.memory_trace)
    return peaks


def _bars(ax: Axes, terms: Int64, peaks: Int64) -> list[tuple[Any, str]]:
    """Draw the terms of each block as a stack beside its peak, with numbers if blocks have room."""
    room = (len(terms) + 0.2) * 7 * axes.LETTER * axes.FONT * axes.POINT / NARROW <= axes.inches(ax)[0]
    left, right, whole = np.arange(len(terms)) - NARROW / 2, np.arange(len(terms)) + WIDE / 2, terms.sum(axis=1)
    rows: list[tuple[Any, str]] = [(None, "formula (2), the terms of a block:")]
    rows += axes.bars(ax, left, zip(TERMS, terms.T, strict=True), WIDE, _bytes if room else None)
    rows.append((ax.bar(right, peaks, NARROW, color=GREY, label="simulated"), "simulated peak, with liveness"))
    if room:
        axes.above(ax, left, whole, _bytes(whole))
        axes.above(ax, right, peaks, _bytes(peaks))
    return rows


def _bytes(amounts: Int64) -> list[str]:
    return [format_bytes(amount) for amount in amounts.tolist()]


def _ticks(ax: Axes, graph: ComputationGraph, lower_sets: LowerSets) -> None:
    """Label each block with its nodes, horizontally if there is room."""
    block = lower_sets.blocks(graph)
    names = [joined(graph, np.flatnonzero(block == i).tolist(), 18) for i in range(len(lower_sets))]
    room = axes.inches(ax)[0] / (max(1, len(names)) + 0.2)
    lying = (max(map(len, names), default=0) + 1) * axes.LETTER * axes.FONT * axes.POINT <= room
    if lying:
        ax.set_xticks(range(len(names)), names, fontsize=axes.FONT)
    named = lying or axes.name_ticks(ax, names, across=True)
    ax.set_xlabel("block, by the nodes that it adds" if named else "block")


def _sentences(simulation: Simulation, lower_sets: LowerSets) -> list[str]:
    graph, blocks = simulation.graph, counted(len(lower_sets), "block")
    peak, again = format_bytes(lower_sets.peak(graph)), lower_sets.overhead(graph)
    really = format_bytes(simulation.peak_memory)
    return [
        f"{blocks}; by formulas (1) and (2) overhead {again:,} and peak {peak}",
        f"simulated: overhead {simulation.overhead:,} and peak {really}",
    ]
