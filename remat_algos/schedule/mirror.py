"""Schedules of mirror counts and of sets of kept nodes (chen2016, algorithms 1 and 2)."""

import numpy as np

from remat_algos.arguments import checked_arguments
from remat_algos.errors import GraphError
from remat_algos.ir.arrays import Int64, PerName, frozen
from remat_algos.ir.edges import in_order
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.labels import KEEP, RECOMPUTE
from remat_algos.kernels.emitter import mirror_order
from remat_algos.schedule.schedule import Schedule, emit


@checked_arguments
def checkpoint_schedule(graph: ComputationGraph, kept: PerName) -> Schedule:
    """Return the schedule that keeps some nodes and recomputes the others at most once, when a gradient needs them.

    Parameters
    ----------
    graph : ComputationGraph
    kept : bool[n]
        `once` nodes are always kept, and marks take precedence. A mapping goes by the names of nodes; others are not
        kept.

    Returns
    -------
    Schedule

    References
    ----------
    chen2016, algorithm 1, which is algorithm 2 with mirror counts of 0 and 1.

    Examples
    --------
    >>> from remat_algos.ir.differentiate import differentiate
    >>> chain = differentiate(ComputationGraph.from_edges([(0, 1), (1, 2)]))
    >>> checkpoint_schedule(chain, [False, True, True, True, True, True]).order.tolist()
    [0, 1, 2, 3, 4, 0, 5]
    """
    flags = frozen(in_order("kept", kept, graph.node_names), np.bool_, "kept", graph.n_nodes)
    return mirror_schedule(graph, clamp_counts(graph, np.where(flags, 0, 1)))


LONGEST = 2**31


@checked_arguments
def mirror_schedule(graph: ComputationGraph, mirror_count: PerName) -> Schedule:
    """Return the schedule that recomputes each node up to `mirror_count` times.

    All needed forward nodes run once; then each gradient, in id order, is preceded by the nodes it misses. Copy k of a
    node reads copy min(k, count) of its reads, a gradient reads the last copy; copies that are never read do not
    run. A pinned output is never a reason to recompute.

    Parameters
    ----------
    graph : ComputationGraph
    mirror_count : int64[n]
        0 for kept nodes; counts of backward nodes are ignored. A mapping goes by the names of nodes; others have 0.

    Returns
    -------
    Schedule

    Raises
    ------
    GraphError
        For negative counts, or a count above 0 of a node that must run only once.

    References
    ----------
    chen2016, algorithm 2.

    Examples
    --------
    >>> from remat_algos.ir.differentiate import differentiate
    >>> chain = differentiate(ComputationGraph.from_edges([(0, 1), (1, 2), (2, 3)]))
    >>> mirror_schedule(chain, [1, 0, 1, 0, 0, 0, 0, 0]).names(chain)
    ['0', '1', '2', '3', 'grad(3)', '2', 'grad(2)', 'grad(1)', '0', 'grad(0)']
    """
    count: Int64 = frozen(
        in_order("mirror_count", mirror_count, graph.node_names), np.int64, "mirror_count", graph.n_nodes
    )
    count = np.where(graph.forward, count, 0)
    if (count < 0).any():
        node = int(np.argmin(count))
        raise GraphError(
            "mirror count of {name} is {count:d}; counts are 0 or more", name=graph.labels[node], count=count[node]
        )
    if (count[graph.once] > 0).any():
        node = int(np.argmax(graph.once & (count > 0)))
        raise GraphError(
            "{name} must run only once, so its mirror count is 0, not {count:d}",
            name=graph.labels[node],
            count=count[node],
        )
    if count.sum(dtype=np.float64) + graph.n_nodes >= LONGEST:
        raise GraphError("the mirror counts add up to 2**31 runs or more; lower them")
    return emit(graph, mirror_order(graph.arrays, graph.owner, count))


def clamp_counts(graph: ComputationGraph, mirror_count: Int64) -> Int64:
    """Clamp mirror counts: to 0 for `once` nodes and keep marks, to at least 1 for recompute marks."""
    count = np.where(graph.once, 0, mirror_count)
    if graph.mark is not None:
        count = np.where(graph.mark == KEEP, 0, np.where(graph.mark == RECOMPUTE, np.maximum(count, 1), count))
    return count
