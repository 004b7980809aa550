"""Orders that run every needed node once."""

import numpy as np

from remat_algos.ir.arrays import Int32
from remat_algos.ir.graph import ComputationGraph, check_graph
from remat_algos.kernels.emitter import beam_search_order
from remat_algos.schedule.postponed_updates import postpone
from remat_algos.schedule.schedule import Schedule

MAX_BEAM = 64
MAX_WORK = 5_000_000  # nodes examined, over all steps and states


def lowest_pass(graph: ComputationGraph, beam: int | None = None) -> Schedule:
    """Every needed node once, in an order with a low peak.

    A beam search: after each step it keeps the sets of executed nodes with the lowest peaks, one order each. A beam
    wide enough to keep them all gives the minimum peak of one pass.

    Parameters
    ----------
    graph : ComputationGraph
    beam : int, optional
        Number of sets to keep; by default 64, fewer on large graphs; 0 keeps the id order.

    Returns
    -------
    Schedule

    Examples
    --------
    B is 4 bytes and C does not read it; D, after which B is freed, comes before C.

    >>> names = [("A", "B"), ("A", "C"), ("A", "D"), ("B", "D"), ("C", "E"), ("D", "E")]
    >>> graph = ComputationGraph.from_edges(names, memory=[1, 4, 2, 1, 1])
    >>> lowest_pass(graph).names(graph)
    ['A', 'B', 'D', 'C', 'E']
    """
    check_graph(graph)
    nodes = np.flatnonzero(graph.needed).astype(np.int32)
    if beam is None:
        beam = min(MAX_BEAM, MAX_WORK // max(1, nodes.size) ** 2)
    if beam < 1:
        return Schedule(postpone(graph, nodes))
    order: Int32 = beam_search_order(
        graph.value_indptr,
        graph.read_indptr,
        graph.read_indices,
        graph.producer,
        *graph.readers,
        graph.needed.view(np.uint8),
        graph.output.view(np.uint8),
        graph.memory,
        graph.workspace,
        nodes,
        beam,
    )
    return Schedule(postpone(graph, order))
