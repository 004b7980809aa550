"""Graphs with smaller values, so that what is too large for a machine can run there."""

from __future__ import annotations

from dataclasses import replace

from remat_algos.ir.graph import ComputationGraph


def shrunk(graph: ComputationGraph, by: int) -> ComputationGraph:
    """The same graph with every size divided by a whole number and rounded up: values, workspaces and residents.

    Parameters
    ----------
    graph : ComputationGraph
    by : int
        1 or more.

    Returns
    -------
    ComputationGraph
        Its compute stays as it was.

    Raises
    ------
    ValueError
        If `by` is below 1.

    Examples
    --------
    >>> graph = ComputationGraph.from_edges([("A", "B")], memory=[1001, 0])
    >>> shrunk(graph, 1000).memory.tolist()
    [2, 0]
    """
    if by < 1:
        raise ValueError(f"sizes cannot be divided by {by}; give 1 or more")
    found = graph.with_costs(memory=-(-graph.memory // by), workspace=-(-graph.workspace // by))
    if graph.resident is None:
        return found
    return replace(found, resident=replace(graph.resident, memory=-(-graph.resident.memory // by)))
