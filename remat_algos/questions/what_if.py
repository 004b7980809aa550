"""Decisions made by hand: keep or recompute chosen nodes, and add or remove runs accordingly."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from remat_algos.arguments import as_list, checked_arguments
from remat_algos.errors import GraphError
from remat_algos.ir.arrays import Bool, Int32, Int64
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.parts import KEEP, RECOMPUTE
from remat_algos.kernels.lifetimes import serving_runs
from remat_algos.result import entries
from remat_algos.schedule.emission import checkpoint_schedule
from remat_algos.schedule.schedule import Order, Schedule, as_schedule
from remat_algos.schedule.simulation import Simulation, simulate


@dataclass(frozen=True, slots=True, eq=False)
class ChangedRuns:
    """A schedule after runs were removed or added; step `here[i]` of the old one is step `there[i]` of the new one."""

    schedule: Schedule
    here: Int64
    there: Int64


def reads_of(simulation: Simulation, node: int) -> Int64:
    """Return int64[k]: the steps that read a value of a node, ascending."""
    return _reads_of(simulation, simulation.graph.values(node))


def keep_first_run(simulation: Simulation, node: int) -> ChangedRuns:
    """Remove all runs of a node except the first, and all runs that then become useless."""
    order = simulation.schedule.order
    steps = np.flatnonzero(simulation.schedule.first_run | (order != node))
    steps = steps[serving_runs(simulation.graph.arrays, order[steps])]
    return _changed(simulation.schedule, order[steps], steps, np.arange(steps.size))


def idle_gap(simulation: Simulation, node: int) -> tuple[int, int]:
    """Return the longest range of steps in which the value of a node that runs once is not read, or (-1, -1)."""
    graph = simulation.graph
    freed = [x for x in graph.values(node) if not graph.output[x]]
    indptr, steps = simulation.run_steps
    uses = np.append(steps[indptr[node] : indptr[node + 1]][:1], _reads_of(simulation, freed))
    if uses.size < 2:
        return -1, -1
    longest = int(np.diff(uses).argmax())
    return int(uses[longest]), int(uses[longest + 1])


def add_second_run(simulation: Simulation, node: int) -> list[ChangedRuns]:
    """Recompute a node that runs once, at the end of its longest `idle_gap`; return up to three such schedules.

    The first schedule keeps the inputs of the second run live until that run. The second schedule recomputes the inputs
    that are no longer live, if that is allowed. In the third schedule, these recomputations replace later runs of the
    same nodes. The list is empty if the node has no idle gap.
    """
    begin, end = idle_gap(simulation, node)
    if end - begin < 2:
        return []
    order = simulation.schedule.order
    lacking = _lacking(simulation, node, end)
    stays = np.ones(order.size, bool)
    ways = [([node], stays)]
    if lacking != [node]:
        ways.append((lacking, stays))
        later = [np.flatnonzero(order[end:] == v)[:1] + end for v in lacking if v != node]
        moved = np.concatenate(later)
        if moved.size:
            stays = stays.copy()
            stays[moved] = False
            ways.append((lacking, stays))
    return [_inserted(simulation.schedule, end, run, stays) for run, stays in ways]


def _changed(schedule: Schedule, order: Int32, here: Int64, there: Int64) -> ChangedRuns:
    """Return the schedule of a new order; copies at removed steps move to the next step that remains."""
    if not schedule.loads.size and not schedule.lingering.size:
        return ChangedRuns(Schedule(order), here, there)
    (lingering, made, until), places = schedule.lingering.T, np.append(there, order.size)

    def moved(copies: Int32) -> Int32:
        return np.stack([places[np.searchsorted(here, copies[:, 0])], copies[:, 1]], axis=1).astype(np.int32)

    loads = moved(schedule.loads)
    loads = loads[loads[:, 0] < order.size]  # useless at the end
    keeps = np.isin(made, here)
    ends = np.stack([lingering, places[np.searchsorted(here, made)], places[np.searchsorted(here, until)]], axis=1)
    stores = schedule.stores[np.isin(schedule.stores[:, 1], loads[:, 1])]
    return ChangedRuns(Schedule(order, loads, ends[keeps], moved(stores)), here, there)


def _inserted(schedule: Schedule, step: int, run: Sequence[int], stays: Bool) -> ChangedRuns:
    here, order = np.flatnonzero(stays), schedule.order
    before, after = here[here < step], here[here >= step]
    new = np.concatenate([order[before], np.array(run, np.int32), order[after]])
    return _changed(schedule, new, here, np.arange(here.size) + len(run) * (here >= step))


def _reads_of(simulation: Simulation, values: Sequence[int]) -> Int64:
    indptr, readers = simulation.graph.readers
    begin, steps = simulation.run_steps
    reading = {v for x in values for v in readers[indptr[x] : indptr[x + 1]].tolist()}
    reads = [steps[begin[v] : begin[v + 1]] for v in reading]
    return np.sort(np.concatenate(reads)) if reads else np.zeros(0, np.int64)


def _lacking(simulation: Simulation, node: int, step: int) -> list[int]:
    """Return, in id order, the nodes to recompute so that a node can run at a step, including the node itself."""
    graph = simulation.graph
    lives, live = simulation.lifetimes, np.zeros(graph.n_values, bool)
    made = int(lives.instance_indptr[step + 1])
    live[lives.value[:made][lives.end[:made] > step]] = True
    fixed = graph.once if graph.mark is None else graph.once | (graph.mark == KEEP)
    missing, todo = {node}, [node]
    while todo:
        for value in graph.reads(todo.pop()):
            producer = int(graph.producer[value])
            if not (live[value] or fixed[producer] or producer in missing):
                missing.add(producer)
                todo.append(producer)
    return sorted(missing)


@dataclass(frozen=True, slots=True, eq=False)
class FlippedDecision:
    """A schedule with one decision flipped; `freed` and `added` are the largest decrease and increase in live bytes."""

    schedule: Schedule
    compute: int
    freed: int
    freed_steps: int
    added: int
    added_steps: int
    peak_memory: int

    @classmethod
    def of(cls, simulation: Simulation, changed: ChangedRuns) -> "FlippedDecision":
        """Simulate a changed schedule; live bytes are compared at the steps that both schedules contain."""
        graph = simulation.graph
        unmarked = graph if graph.mark is None else replace(graph, mark=None)
        flipped = simulate(unmarked, changed.schedule)
        change = flipped.memory_trace[changed.there] - simulation.memory_trace[changed.here]
        return cls(
            schedule=changed.schedule,
            compute=flipped.compute - simulation.compute,
            freed=int(-change.min(initial=0)),
            freed_steps=int((change == min(change.min(initial=0), -1)).sum()),
            added=int(change.max(initial=0)),
            added_steps=int((change == max(change.max(initial=0), 1)).sum()),
            peak_memory=flipped.peak_memory,
        )

    def record(self) -> dict[str, Any]:
        """Return the JSON record."""
        return entries(self, "compute freed freed_steps added added_steps peak_memory")


def flip_decision(simulation: Simulation, node: int) -> FlippedDecision | None:
    """Keep a recomputed node, or recompute a kept one at the lowest peak; return None if it has no `idle_gap`."""
    if simulation.runs[node] > 1:
        return FlippedDecision.of(simulation, keep_first_run(simulation, node))
    ways = [FlippedDecision.of(simulation, changed) for changed in add_second_run(simulation, node)]
    return min(ways, key=lambda way: (way.peak_memory, way.freed == 0, way.compute), default=None)


@checked_arguments
def what_if(
    graph: ComputationGraph,
    *,
    keep: str | Iterable[str | int] = (),
    recompute: str | Iterable[str | int] = (),
    schedule: Order | None = None,
) -> Schedule:
    """Return a schedule that keeps or recomputes the nodes of your choice, to pass to `simulate`.

    Without a schedule, `keep` means that all other forward nodes are recomputed, and `recompute` that they are kept.
    With a schedule, only the decisions about the named nodes are flipped.

    Parameters
    ----------
    graph : ComputationGraph
    keep, recompute : str, or iterable of str or int
        Names of values or nodes of the forward part, or ids of nodes without names.
    schedule : Schedule, or ids or names of nodes in order, optional
        The schedule to change.

    Returns
    -------
    Schedule

    Raises
    ------
    GraphError
        If a name is unknown or not that of a forward node, if `once` or a mark forbids a decision, or if a node does
        not run in the schedule, or has no `idle_gap` in which it could be freed.

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
        raise GraphError("{both} is named both to keep and to recompute; choose one", both=both[0])
    _check_free(graph, kept, again)
    if schedule is not None:
        return _flipped(graph, kept, again, as_schedule(graph, schedule))
    if kept and again:
        raise GraphError(
            "keep and recompute together do not determine the other nodes; give only one of them, or a schedule"
        )
    flags = np.zeros(graph.n_nodes, bool) if kept else np.ones(graph.n_nodes, bool)
    flags[kept], flags[again] = True, False
    return checkpoint_schedule(graph, flags)


def _nodes(graph: ComputationGraph, names: str | Iterable[str | int], what: str) -> list[int]:
    named = [names] if isinstance(names, str) else as_list(names, what)
    nodes = [int(graph.producer[graph.value_id(name)]) for name in named]
    for node in nodes:
        if not graph.forward[node]:
            raise GraphError("{name} is a gradient; name values of the forward part", name=graph.labels[node])
    return nodes


def _check_free(graph: ComputationGraph, kept: list[int], again: list[int]) -> None:
    mark = graph.mark if graph.mark is not None else np.zeros(graph.n_nodes, np.int8)
    for node in again:
        if graph.once[node]:
            raise GraphError("{name} must run only once; it cannot be recomputed", name=graph.labels[node])
        if mark[node] == KEEP:
            raise GraphError("{name} is marked to be kept; it cannot be recomputed", name=graph.labels[node])
    for node in kept:
        if mark[node] == RECOMPUTE:
            raise GraphError("{name} is marked to be recomputed; it cannot be kept", name=graph.labels[node])


def _flipped(graph: ComputationGraph, kept: list[int], again: list[int], schedule: Schedule) -> Schedule:
    if not (kept or again):
        return simulate(graph, schedule).schedule
    for node in [*kept, *again]:
        simulation = simulate(graph, schedule)
        n_runs = int(simulation.runs[node])
        if not n_runs:
            raise GraphError("{name} does not run in this schedule; leave it out", name=graph.labels[node])
        if (n_runs > 1) == (node in kept):
            flipped = flip_decision(simulation, node)
            if flipped is None:
                raise GraphError(
                    "{name} is never idle in this schedule, so recomputing it would free nothing; leave it out",
                    name=graph.labels[node],
                )
            schedule = flipped.schedule
    return schedule
