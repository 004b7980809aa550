"""Views of a schedule: table of steps, matrices of stages, unrolled graph, and trace events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby, islice
from typing import Any, NamedTuple

import numpy as np

from remat_algos.arguments import checked_arguments
from remat_algos.cost.links import PER_SECOND
from remat_algos.errors import ArgumentError, ArgumentTypeError, ScheduleError
from remat_algos.ir.arrays import Bool, Int64, check_place, from_lists, gather_rows
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.parts import Labels, Resident
from remat_algos.schedule import tuning
from remat_algos.schedule.schedule import Order, check_no_loads
from remat_algos.schedule.simulation import LOADED, ROLES, Simulation, simulate
from remat_algos.schedule.timeline import Timeline
from remat_algos.wording import counted


@dataclass(frozen=True, slots=True)
class LiveValue:
    """A live value, or the workspace of the running node, with its bytes and its role as in `trace_by_role`.

    `made_at` is the step that computed the value, or the step before which its load began.
    """

    name: str
    memory: int
    role: str
    made_at: int


def live_at(simulation: Simulation, step: int) -> list[tuple[int, int]]:
    """Return (value, step that computed or loaded it) for every instance live during a step, largest first."""
    lifetimes, live = simulation.lifetimes, _live(simulation, check_place(step, len(simulation.schedule), "step"))
    return list(zip(lifetimes.value[live].tolist(), lifetimes.made_at[live].tolist(), strict=True))


def _live(simulation: Simulation, step: int) -> Int64:
    lifetimes = simulation.lifetimes
    live = np.flatnonzero((lifetimes.made_at <= step) & (lifetimes.end > step))
    return live[np.argsort(-simulation.graph.memory[lifetimes.value[live]], kind="stable")]


def live_set(simulation: Simulation, step: int) -> list[LiveValue]:
    """Return live values and workspace of a step, largest first; their bytes sum to the entry of `memory_trace`."""
    if step < 0:
        return []
    graph, roles = simulation.graph, simulation.instance_role
    node = int(simulation.schedule.order[step])
    live, instances = [], live_at(simulation, step)
    # For many values it is faster to compute all names at once.
    names = (
        graph.value_names() if len(instances) > 1_000 else {value: graph.value_name(value) for value, _ in instances}
    )
    for (value, made_at), i in zip(instances, _live(simulation, step), strict=True):
        live.append(LiveValue(names[value], int(graph.memory[value]), (*ROLES, LOADED)[roles[i]], made_at))
    if graph.workspace[node]:
        live.append(LiveValue(f"workspace of {graph.labels[node]}", int(graph.workspace[node]), "workspace", step))
    return sorted(live, key=lambda entry: -entry.memory)


COLUMNS = ("step", "action", "name", "live", "bytes", "peak")


class StepRow(NamedTuple):
    """One action: "compute", "recompute" (a later run), "free", or the start of a "load" or "store".

    `live` contains values that are live during the action (for "free", after it), oldest first, possibly truncated;
    `bytes` is the memory of all `n_live` of them, plus the workspace of a run; `peak` is True for the run at the peak.
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
    """List the actions of a schedule as a table.

    Parameters
    ----------
    simulation : Simulation
    steps : range, optional
        The steps to list, such as `range(0, 100)`; by default all.
    names : int, optional
        Maximum number of live values to name per row; by default all, which is a lot of text for long schedules.

    Returns
    -------
    iterator of StepRow
        The bytes of "compute" and "recompute" rows are the entries of `memory_trace`. The first instance of an output
        is never freed.

    Raises
    ------
    ScheduleError
        If `steps` are outside the schedule.
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
    """Return valid steps of a schedule with `count` steps, by default all; raise ScheduleError if some are invalid."""
    if steps is None:
        return range(count)
    if not isinstance(steps, range) or steps.step != 1:
        raise ArgumentTypeError("steps is {steps!r}; give a range of steps, such as range(0, 100)", steps=steps)
    if not 0 <= steps.start < steps.stop <= count:
        raise ScheduleError(
            "steps is range({start}, {stop}), but {step_remedy!w}",
            start=steps.start,
            stop=steps.stop,
            step_remedy=step_remedy(count),
            step=0,
            node=-1,
        )
    return steps


def step_remedy(count: int) -> str:
    if not count:
        return "the schedule has no steps; leave steps out"
    return f"the schedule has {counted(count, 'step')}; give a first step from 0 and a later end up to {count}"


def _rows(simulation: Simulation, steps: range, names: int | None) -> Iterator[StepRow]:
    graph, schedule = simulation.graph, simulation.schedule
    value, memory, workspace = simulation.lifetimes.value.tolist(), graph.memory.tolist(), graph.workspace.tolist()
    first, all_names = schedule.first_run.tolist(), graph.value_names()
    live: dict[int, str] = {}  # names, in order of creation
    total, peak = 0, simulation.peak_memory

    def row(action: str, name: str, extra: int = 0, *, runs: bool = False) -> StepRow:
        shown, bytes_ = tuple(islice(live.values(), names)), total + extra
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


@dataclass(frozen=True, slots=True, eq=False)
class StageMatrices:
    """The matrices R and S of jain2020 (Checkmate), section 4; rows are stages, columns nodes in order of first run.

    `starts` is the first step of each stage. An entry of R is 1 if the stage runs the node; row by row, these entries
    are the schedule. An entry of S is 1 if a value of the node is live when the stage starts.
    """

    nodes: Int64
    starts: Int64
    R: Bool
    S: Bool


@checked_arguments
def stage_matrices(simulation: Simulation) -> StageMatrices:
    """Return the matrices R and S of any schedule.

    A stage ends with each first run of a node, as in jain2020. If the runs of a stage are not in the order of first
    runs, a new stage begins at each run that breaks this order.

    Parameters
    ----------
    simulation : Simulation

    Returns
    -------
    StageMatrices

    Raises
    ------
    ScheduleError
        If a matrix would exceed 25 million entries.

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
    if starts.size * nodes.size > tuning.MAX_MATRIX_ENTRIES:
        raise ScheduleError(
            "the matrices R and S have {n_stages:,} stages of {n_nodes:,} nodes, which exceeds {max_entries:,} "
            "entries; make a coarser graph, such as one of layers",
            n_stages=shape[0],
            n_nodes=shape[1],
            max_entries=tuning.MAX_MATRIX_ENTRIES,
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


@checked_arguments
def unroll(graph: ComputationGraph, schedule: Order) -> ComputationGraph:
    """Return the graph of the runs of a schedule, for drawing or export.

    Executed in id order, the new graph has the cost and the memory trace of the schedule. It is the mirrored graph of
    chen2016 for a `mirror_schedule`. The first run of `conv` keeps its name, and run k is called `conv#k`. Gradients
    belong to the first run of their forward node.

    Parameters
    ----------
    graph : ComputationGraph
    schedule : Schedule, or ids or names of nodes in order

    Returns
    -------
    ComputationGraph

    Raises
    ------
    ScheduleError
        If the schedule is invalid.

    Examples
    --------
    >>> graph = ComputationGraph.from_edges([("A", "B"), ("A", "C"), ("B", "C")])
    >>> unroll(graph, ["A", "B", "A", "C"]).labels.names
    ('A', 'B', 'A#1', 'C')
    """
    simulation = simulate(graph, schedule)
    check_no_loads(simulation.schedule, "unroll")
    order, lifetimes = simulation.schedule.order, simulation.lifetimes
    read_indptr, read_indices = from_lists([[i for _, i in step.reads] for step in simulation.steps()])
    return ComputationGraph.from_arrays(
        value_indptr=lifetimes.instance_indptr,
        read_indptr=read_indptr,
        read_indices=read_indices,
        memory=graph.memory[lifetimes.value],
        compute=graph.compute[order],
        workspace=graph.workspace[order],
        once=graph.once[order],
        output=graph.output[lifetimes.value] & simulation.schedule.first_run[lifetimes.made_at],
        forward_of=_forward_of(graph, order),
        resident=_resident(graph, order),
        labels=Labels(
            names=_names(graph, order),
            ops=tuple(graph.labels.op(v) for v in order.tolist()),
            compute_unit=graph.labels.compute_unit,
            compute_scale=graph.labels.compute_scale,
        ),
    )


def _names(graph: ComputationGraph, order: np.ndarray) -> tuple[str, ...]:
    runs, used = Counter[int](), {graph.labels[v] for v in range(graph.n_nodes)}
    names = []
    for v in order.tolist():
        k = runs[v]
        name = graph.labels[v] if not k else f"{graph.labels[v]}#{k}"
        while k and name in used:
            name += "#"
        used.add(name)
        names.append(name)
        runs[v] += 1
    return tuple(names)


def _forward_of(graph: ComputationGraph, order: np.ndarray) -> np.ndarray | None:
    if graph.forward_of is None or not graph.forward[order].any():
        return None
    # A gradient of a node that never runs is assigned to the first forward step.
    first_run = np.full(graph.n_nodes, graph.forward[order].argmax())
    nodes, steps = np.unique(order, return_index=True)
    first_run[nodes] = steps
    owner = graph.forward_of[order]
    return np.where(owner >= 0, first_run[owner], owner)


def _resident(graph: ComputationGraph, order: np.ndarray) -> Resident | None:
    resident = graph.resident
    if resident is None:
        return None
    reads = gather_rows(resident.read_indptr, resident.read_indices, order)
    return Resident(resident.memory, resident.role, *reads, resident.names)


FORWARD, RECOMPUTED, BACKWARD = "forward", "recomputed", "backward"


class Span(NamedTuple):
    """A run ("forward", "recomputed" or "backward") or a copy ("store" or "load") on one engine, in units of cost."""

    name: str
    kind: str
    step: int
    begin: int
    end: int


def spans(played: Timeline) -> dict[str, list[Span]]:
    """Return the spans of each engine in order; without a link there is only "compute"."""
    schedule, graph = played.simulation.schedule, played.simulation.graph
    order, first = schedule.order, schedule.first_run
    kinds = np.where(first, np.where(graph.forward[order], FORWARD, BACKWARD), RECOMPUTED).tolist()
    runs = _row(schedule.names(graph), kinds, np.arange(len(order)), played.begin, played.end)
    if played.link is None:
        return {"compute": runs}
    loads, stores = schedule.loads, played.stores
    names = [[graph.value_name(x) for x in values.tolist()] for values in (stores, loads[:, 1])]
    out = _row(
        names[0],
        ["store"] * len(names[0]),
        played.simulation.store_instances[1] - 1,
        played.store_begin,
        played.store_end,
    )
    into = _row(names[1], ["load"] * len(names[1]), loads[:, 0], played.load_begin, played.load_end)
    return {"compute": runs, "out": out, "in": into}


def _row(names: list[str], kinds: list[str], steps: Any, begin: Any, end: Any) -> list[Span]:
    return [Span(*each) for each in zip(names, kinds, steps.tolist(), begin.tolist(), end.tolist(), strict=True)]


def clock(played: Timeline) -> str:
    """Describe the time axis. If costs have no time unit, say which cost is shown as one microsecond."""
    labels = played.simulation.graph.labels
    if labels.compute_unit in PER_SECOND:
        return "simulated time"
    return f"simulated; 1 us stands for a cost of {labels.compute(labels.compute_scale)}"


def trace_events(played: Timeline) -> dict[str, Any]:
    """Return trace events for Perfetto and `chrome://tracing`. Costs without a time unit count as microseconds."""
    events: list[dict[str, Any]] = [_named("process_name", name=f"plan ({clock(played)})")]
    for thread, (engine, row) in enumerate(spans(played).items()):
        events.append(_named("thread_name", thread, name=engine))
        events.append(_named("thread_sort_index", thread, sort_index=thread))
        events += _slices(played, thread, row)
    return {"displayTimeUnit": "ms", "traceEvents": [*events, *_counters(played)]}


def _named(what: str, thread: int = 0, **names: Any) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": 0, "tid": thread, "args": names}


def _slices(played: Timeline, thread: int, row: list[Span]) -> Iterator[dict[str, Any]]:
    """Yield a complete event per span and, on the compute engine, one around consecutive spans of the same kind."""
    scale = played.tick_microseconds

    def event(name: str, kind: str, begin: int, end: int, args: dict[str, Any]) -> dict[str, Any]:
        common = {"ph": "X", "name": name, "cat": kind, "pid": 0, "tid": thread}
        return {**common, "ts": begin * scale, "dur": (end - begin) * scale, "args": args}

    for kind, group in groupby(row, key=lambda span: span.kind):
        part = list(group)
        if thread == 0:
            yield event(kind, "part", part[0].begin, part[-1].end, {"runs": len(part)})
        for span in part:
            yield event(span.name, kind, span.begin, span.end, {"step": span.step})


def _counters(played: Timeline) -> Iterator[dict[str, Any]]:
    simulation, scale = played.simulation, played.tick_microseconds
    times = [*played.step_begin.tolist(), played.last]
    last = int(simulation.graph.memory[simulation.graph.output].sum())
    counted = [("device", simulation.memory_trace, last)]
    counted += [("host", simulation.host_trace, 0)] if played.link is not None else []
    for name, trace, end in counted:
        for ts, amount in zip(times, [*trace.tolist(), end], strict=True):
            yield {"ph": "C", "name": name, "pid": 0, "ts": ts * scale, "args": {"bytes": amount}}
