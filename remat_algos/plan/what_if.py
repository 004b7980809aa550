"""Decisions by hand: nodes to keep and nodes to recompute."""

from collections.abc import Iterable

import numpy as np

from remat_algos.arguments import as_list, checked_arguments
from remat_algos.errors import GraphError
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.labels import KEEP, RECOMPUTE
from remat_algos.plan.flip import flip_decision
from remat_algos.schedule.mirror import checkpoint_schedule
from remat_algos.schedule.schedule import Order, Schedule, as_schedule
from remat_algos.schedule.simulation import simulate
from remat_algos.text.wording import shortened


@checked_arguments
def what_if(
    graph: ComputationGraph,
    *,
    keep: str | Iterable[str | int] = (),
    recompute: str | Iterable[str | int] = (),
    schedule: Order | None = None,
) -> Schedule:
    """The schedule for a choice of kept nodes, for `simulate`.

    Without a schedule, other forward nodes are recomputed if `keep` is given, and kept if `recompute` is.
    With one, only the decisions about the named nodes are flipped.

    Parameters
    ----------
    graph : ComputationGraph
    keep, recompute : str, or iterable of str or int
        Names of values or nodes of the forward part; numbers are names of nodes that have no others.
    schedule : Schedule, or ids or names of nodes in order, optional
        What is changed.

    Returns
    -------
    Schedule

    Raises
    ------
    GraphError
        For a name that is not known or no forward node, for a wish against `once` or a mark, and for a node that does
        not run, or is never idle, in the schedule.

    Examples
    --------
    >>> from remat_algos.ir.differentiate import differentiate
    >>> chain = differentiate(ComputationGraph.from_edges([("A", "B"), ("B", "C"), ("C", "D")]))
    >>> what_if(chain, keep=["B"]).names(chain)
    ['A', 'B', 'C', 'D', 'C', 'D', 'grad(D)', 'grad(C)', 'grad(B)', 'A', 'grad(A)']
    """
    kept, again = _nodes(graph, keep, "keep"), _nodes(graph, recompute, "recompute")
    both = [graph.labels[node] for node in kept if node in again]
    if both:
        raise GraphError(f"{shortened(both[0])} is named both to keep and to recompute; choose one")
    _check_free(graph, kept, again)
    if schedule is not None:
        return _changed(graph, kept, again, as_schedule(graph, schedule))
    if kept and again:
        raise GraphError("keep and recompute together leave open what happens to the others; give one, or an order")
    flags = np.zeros(graph.n_nodes, bool) if kept else np.ones(graph.n_nodes, bool)
    flags[kept], flags[again] = True, False
    return checkpoint_schedule(graph, flags)


def _nodes(graph: ComputationGraph, names: str | Iterable[str | int], what: str) -> list[int]:
    named = [names] if isinstance(names, str) else as_list(names, what)
    nodes = [int(graph.producer[graph.value_id(name)]) for name in named]
    for node in nodes:
        if not graph.forward[node]:
            raise GraphError(f"{shortened(graph.labels[node])} is a gradient; name values of the forward part")
    return nodes


def _check_free(graph: ComputationGraph, kept: list[int], again: list[int]) -> None:
    """Raise if `once` or a mark has already decided."""
    mark = graph.mark if graph.mark is not None else np.zeros(graph.n_nodes, np.int8)
    for node in again:
        if graph.once[node]:
            raise GraphError(f"{shortened(graph.labels[node])} must run only once; it cannot be recomputed")
        if mark[node] == KEEP:
            raise GraphError(f"{shortened(graph.labels[node])} is marked to be kept; it cannot be recomputed")
    for node in kept:
        if mark[node] == RECOMPUTE:
            raise GraphError(f"{shortened(graph.labels[node])} is marked to be recomputed; it cannot be kept")


def _changed(graph: ComputationGraph, kept: list[int], again: list[int], schedule: Schedule) -> Schedule:
    if not (kept or again):
        return simulate(graph, schedule).schedule
    for node in [*kept, *again]:
        simulation = simulate(graph, schedule)
        n_runs = int(simulation.runs[node])
        if not n_runs:
            raise GraphError(f"{shortened(graph.labels[node])} does not run in this order; leave it out")
        if (n_runs > 1) == (node in kept):
            flipped = flip_decision(simulation, node)
            if flipped is None:
                reason = "is never idle in this order, so recomputing it would free nothing"
                raise GraphError(f"{shortened(graph.labels[node])} {reason}; leave it out")
            schedule = flipped.schedule
    return schedule
