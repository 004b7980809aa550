"""A schedule step by step: the live values of one step, and a table with a row for each action."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import numpy as np

from remat_algos.arguments import checked_arguments
from remat_algos.errors import ArgumentError, ArgumentTypeError, ScheduleError
from remat_algos.ir.arrays import Int64, check_place
from remat_algos.schedule.simulation import LOADED, ROLES, Simulation
from remat_algos.wording import counted

MANY = 1_000  # values above which naming all values at once is faster


@dataclass(frozen=True, slots=True)
class LiveValue:
    """A live value, or the workspace of the node that runs, with its bytes and its role in `Simulation.trace_by_role`.

    `made_at` is the step that computed it, or before which its load began.
    """

    name: str
    memory: int
    role: str
    made_at: int


def live_at(simulation: Simulation, step: int) -> list[tuple[int, int]]:
    """(value, step that computed or loaded it) of every instance live during a step, the largest first."""
    lifetimes, live = simulation.lifetimes, _live(simulation, check_place(step, len(simulation.schedule), "step"))
    return list(zip(lifetimes.value[live].tolist(), lifetimes.made_at[live].tolist(), strict=True))


def _live(simulation: Simulation, step: int) -> Int64:
    """Instances live during a step, the largest first."""
    lifetimes = simulation.lifetimes
    live = np.flatnonzero((lifetimes.made_at <= step) & (lifetimes.end > step))
    return live[np.argsort(-simulation.graph.memory[lifetimes.value[live]], kind="stable")]


def live_set(simulation: Simulation, step: int) -> list[LiveValue]:
    """Live values of a step and its workspace, largest first; they add up to the step's entry in `memory_trace`."""
    if step < 0:
        return []
    graph, roles = simulation.graph, simulation.instance_role
    node = int(simulation.schedule.order[step])
    live, there = [], live_at(simulation, step)
    names = graph.value_names() if len(there) > MANY else {value: graph.value_name(value) for value, _ in there}
    for (value, made_at), i in zip(there, _live(simulation, step), strict=True):
        live.append(LiveValue(names[value], int(graph.memory[value]), (*ROLES, LOADED)[roles[i]], made_at))
    if graph.workspace[node]:
        live.append(LiveValue(f"workspace of {graph.labels[node]}", int(graph.workspace[node]), "workspace", step))
    return sorted(live, key=lambda entry: -entry.memory)


COLUMNS = ("step", "action", "name", "live", "bytes", "peak")
"""Columns of a step table."""


class StepRow(NamedTuple):
    """One action of a schedule.

    Parameters
    ----------
    step : int
    action : str
        "compute", or "recompute" for a later run of a node; "free"; "load" and "store", which begin copies.
    name : str
        The node that runs, or the value that is freed or copied.
    live : tuple of str
        Values that are live with the action, after a "free" those that are left, in the order in which they were made:
        all, or the first ones if `step_table` was given `names`.
    n_live : int
        Number of values that are live.
    bytes : int
        Bytes of all of them, with the workspace of the node while it runs.
    peak : bool
        True for a run at whose step the peak is reached.
    """

    step: int
    action: str
    name: str
    live: tuple[str, ...]
    n_live: int
    bytes: int
    peak: bool


@checked_arguments
def step_table(simulation: Simulation, *, steps: range | None = None, names: int | None = None) -> Iterator[StepRow]:
    """Return a schedule as a table, a row for each action.

    Parameters
    ----------
    simulation : Simulation
    steps : range, optional
        The steps to list, such as `range(0, 100)`; by default all.
    names : int, optional
        Number of live values to name in a row; by default all. Of a long schedule all names in all rows are many.

    Returns
    -------
    iterator of StepRow
        The bytes of "compute" and "recompute" are the entries of `memory_trace`. Outputs are never freed; a later copy
        of one is.

    Raises
    ------
    ScheduleError
        If `steps` are not steps of the schedule.
    ValueError
        If `names` is negative.

    Examples
    --------
    >>> from remat_algos.ir.graph import ComputationGraph
    >>> from remat_algos.schedule.simulation import simulate
    >>> graph = ComputationGraph.from_edges([("A", "B"), ("A", "C"), ("B", "C")])
    >>> for row in step_table(simulate(graph, [0, 1, 0, 2])):
    ...     print(row.step, row.action, row.name, "".join(row.live), row.bytes)
    0 compute A A 1
    1 compute B AB 2
    1 free A B 1
    2 recompute A BA 2
    3 compute C BAC 3
    3 free B AC 2
    3 free A C 1
    """
    if names is not None and names < 0:
        raise ArgumentError("names is {names!r}; give 0 or more, or leave it out for all", names=names)
    return _rows(simulation, checked_steps(steps, len(simulation.schedule)), names)


def checked_steps(steps: range | None, count: int) -> range:
    """Return the steps of a schedule with `count` of them, by default all; ScheduleError for others."""
    if steps is None:
        return range(count)
    if not isinstance(steps, range) or steps.step != 1:
        raise ArgumentTypeError("steps is {steps!r}; give a range of steps, such as range(0, 100)", steps=steps)
    if not 0 <= steps.start < steps.stop <= count:
        raise ScheduleError(
            "steps {start} to {stop} (excluded): {step_remedy!w}",
            start=steps.start,
            stop=steps.stop,
            step_remedy=step_remedy(count),
            step=0,
            node=-1,
        )
    return steps


def step_remedy(count: int) -> str:
    """Return the clause that lists the valid steps."""
    if not count:
        return "the schedule has no step; leave them out"
    return f"the schedule has {counted(count, 'step')}, from 0; give a first step and a later end up to {count}"


def _rows(simulation: Simulation, steps: range, names: int | None) -> Iterator[StepRow]:
    graph, schedule = simulation.graph, simulation.schedule
    value, memory, workspace = simulation.lifetimes.value.tolist(), graph.memory.tolist(), graph.workspace.tolist()
    first, all_names = schedule.first_run.tolist(), graph.value_names()
    live: dict[int, str] = {}  # instances, in the order in which they were made
    total, peak = 0, simulation.peak_memory

    def row(action: str, name: str, beside: int = 0, *, runs: bool = False) -> StepRow:
        shown, bytes_ = tuple(islice(live.values(), names)), total + beside
        return StepRow(step, action, name, shown, len(live), bytes_, runs and bytes_ == peak)

    for step, each in enumerate(islice(simulation.steps(), steps.stop)):
        listed = step >= steps.start
        for i in each.loads:
            live[i] = all_names[value[i]]
            total += memory[value[i]]
            if listed:
                yield row("load", live[i])
        for i in each.makes:
            live[i] = all_names[value[i]]
            total += memory[value[i]]
        if listed:
            action = "compute" if first[step] else "recompute"
            yield row(action, graph.labels[each.node], workspace[each.node], runs=True)
            for i in each.stores:
                yield row("store", all_names[value[i]])
        for i in each.frees:
            total -= memory[value[i]]
            name = live.pop(i)
            if listed:
                yield row("free", name)
