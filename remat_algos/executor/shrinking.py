"""Graphs with smaller values, to run a graph that is too large for a machine."""

from __future__ import annotations

from dataclasses import replace

from remat_algos.arguments import checked_arguments
from remat_algos.errors import ArgumentError, about
from remat_algos.ir.graph import ComputationGraph

LARGEST = 2**63 - 1  # divisor: sizes are int64


@checked_arguments
def shrink(graph: ComputationGraph, by: int) -> ComputationGraph:
    """A graph with the size of every value, workspace and resident divided by a whole number and rounded up.

    Parameters
    ----------
    graph : ComputationGraph
    by : int
        A whole number from 1 to `LARGEST`.

    Returns
    -------
    ComputationGraph
        Its compute is unchanged.

    Raises
    ------
    ValueError
        If `by` is invalid.

    Examples
    --------
    >>> graph = ComputationGraph.from_edges([("A", "B")], memory=[1001, 0])
    >>> shrink(graph, 1000).memory.tolist()
    [2, 0]
    """
    if not 1 <= by <= LARGEST:
        expected = "1 or more" if by < 1 else f"at most {LARGEST}"
        raise about(
            "shrink", ArgumentError("sizes cannot be divided by {by!r}; give {expected!w}", by=by, expected=expected)
        )
    smaller = graph.with_costs(memory=-(-graph.memory // by), workspace=-(-graph.workspace // by))
    if graph.resident is None:
        return smaller
    return replace(smaller, resident=replace(graph.resident, memory=-(-graph.resident.memory // by)))
