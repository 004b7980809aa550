"""The simulator: live bytes at each step of a schedule, on the device and the host, and its cost."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from remat_algos.arguments import check_kind, checked_arguments
from remat_algos.errors import GraphError, ScheduleError
from remat_algos.hooks import html
from remat_algos.ir.arrays import Bool, Int32, Int64, brief, by_fields, check_place, indptr_of, row_of, sealed
from remat_algos.ir.graph import ComputationGraph, remembered
from remat_algos.kernels import lifetimes as kernel
from remat_algos.schedule.schedule import Order, Schedule, as_schedule, awaited
from remat_algos.text.amounts import percent
from remat_algos.wording import counted, format_bytes, one_line, shortened


@dataclass(frozen=True, slots=True, eq=False)
class Lifetimes:
    """Lifetimes of instances. Each step creates one instance of every value that it computes or loads.

    Step s creates the instances `instance_indptr[s]:instance_indptr[s + 1]`, loads first. `value[i]` is live until step
    `end[i]`: its last read before the value is computed or loaded again. An instance that is never read is freed after
    its step; the first instance of an output is live to the end of the schedule.
    """

    instance_indptr: Int64
    value: Int32
    end: Int64

    __repr__ = brief

    @property
    def made_at(self) -> Int64:
        """int64[n_instances]: the step that computes or loads each instance."""
        return row_of(self.instance_indptr)


ROLES = ("kept", "recomputed", "gradients", "workspace")
LOADED = "loaded"


class Step(NamedTuple):
    """A step of a schedule, which runs one node. Instances are indices into `lifetimes.value` and `lifetimes.end`.

    `reads` contains (value, instance) in argument order. Loads begin before the run. After the run, stores begin in the
    order of `stores`, and then the instances in `frees` are freed.
    """

    node: int
    reads: list[tuple[int, int]]
    makes: range
    frees: list[int]
    loads: range = range(0)
    stores: tuple[int, ...] = ()

    def __repr__(self) -> str:
        shown = [name for name in self._fields if name not in self._field_defaults or getattr(self, name)]
        return f"Step({', '.join(f'{name}={getattr(self, name)}' for name in shown)})"


@dataclass(frozen=True, slots=True, eq=False)
class Simulation:
    """A schedule with its live values, bytes and cost on a graph.

    Parameters
    ----------
    graph : ComputationGraph
    schedule : Schedule
    lifetimes : Lifetimes
    memory_trace : int64[m]
        Live bytes during each step, including its inputs and workspace, without residents.
    """

    graph: ComputationGraph
    schedule: Schedule
    lifetimes: Lifetimes
    memory_trace: Int64
    _derived: dict[str, Any] = field(default_factory=dict, init=False, repr=False)

    _repr_html_ = html

    def __repr__(self) -> str:
        step = self.peak_step
        at = f" at step {step} ({shortened(self.graph.labels[int(self.schedule.order[step])])})" if step >= 0 else ""
        return one_line(
            self,
            f"peak {format_bytes(self.peak_memory)}{at}",
            f"overhead {percent(self.overhead, self.graph.needed_compute)}",
            counted(len(self.schedule), "step"),
            f"{counted(int((self.runs > 1).sum()), 'node')} recomputed",
            *((counted(len(self.schedule.loads), "load"),) if self.schedule.loads.size else ()),
        )

    __reduce__ = by_fields

    def __post_init__(self) -> None:
        # Arguments from callers or pickles must match the schedule; `simulate` skips this check.
        for name, kind in (("graph", ComputationGraph), ("schedule", Schedule), ("lifetimes", Lifetimes)):
            check_kind(getattr(self, name), kind, name)
        expected = simulate(self.graph, self.schedule)
        for actual, computed in (
            (self.lifetimes.instance_indptr, expected.lifetimes.instance_indptr),
            (self.lifetimes.value, expected.lifetimes.value),
            (self.lifetimes.end, expected.lifetimes.end),
            (self.memory_trace, expected.memory_trace),
        ):
            if not np.array_equal(actual, computed):
                step = len(self.schedule)
                raise ScheduleError(
                    "the arrays do not match the schedule; call simulate(graph, order)",
                    step,
                    -1,
                )
        object.__setattr__(self, "lifetimes", expected.lifetimes)
        object.__setattr__(self, "memory_trace", expected.memory_trace)

    @property
    def peak_memory(self) -> int:
        """Maximum live bytes at a step, without residents (kumar2019: M(sigma))."""
        return int(self.memory_trace.max(initial=0))

    @property
    def peak_step(self) -> int:
        """The first step at the peak, -1 in an empty schedule."""
        return int(self.memory_trace.argmax()) if self.memory_trace.size else -1

    @property
    def compute(self) -> int:
        """Total cost of all runs."""
        return int(self.graph.compute[self.schedule.order].sum())

    @property
    def extra_runs(self) -> int:
        """Number of recomputations."""
        return int(np.maximum(self.runs - 1, 0).sum())

    @property
    def overhead(self) -> int:
        """Cost in excess of running every needed node once."""
        return self.compute - self.graph.needed_compute

    @property
    def runs(self) -> Int64:
        """int64[n]: number of runs of each node."""
        return np.bincount(self.schedule.order, minlength=self.graph.n_nodes)

    @property
    def run_steps(self) -> tuple[Int64, Int64]:
        """(int64[n + 1], int64[m]): the steps that run each node, ascending, in CSR form."""
        return remembered(
            self._derived,
            "run_steps",
            lambda: (sealed(indptr_of(self.runs)), sealed(np.argsort(self.schedule.order, kind="stable"))),
        )

    @property
    def stores(self) -> Int32:
        """int32[s]: the values that are copied to the host (all values that some step loads), ascending."""
        return np.unique(self.schedule.loads[:, 1])

    @property
    def host_trace(self) -> Int64:
        """int64[m]: bytes on the host during each step.

        A value is on the host from the step after its store until the first read after its last load.
        """
        schedule = self.schedule
        return kernel.host_bytes(self.graph.arrays, schedule.order, schedule.loads, schedule.stores)

    @property
    def host_peak(self) -> int:
        """Maximum bytes on the host at a step."""
        return int(self.host_trace.max(initial=0))

    @property
    def store_instances(self) -> tuple[Int64, Int64]:
        """(int64[s], int64[s]): the instances copied to the host, and the steps at which these stores begin.

        A store without a row in `schedule.stores` begins right after its value is first computed. Stores that begin at
        the same step are ordered by the time at which their memory is freed.

        Examples
        --------
        >>> graph = ComputationGraph.from_edges([(0, 3), (1, 3), (0, 2), (1, 2)])
        >>> simulate(graph, Schedule([0, 1, 2, 3], loads=[(3, 0), (3, 1)])).store_instances
        (array([0, 1]), array([1, 2]))
        >>> late = Schedule([0, 1, 2, 3], loads=[(3, 0), (3, 1)], stores=[(2, 0)])
        >>> simulate(graph, late).store_instances
        (array([1, 0]), array([2, 2]))
        """
        return remembered(self._derived, "store_instances", self._store_instances)

    def _store_instances(self) -> tuple[Int64, Int64]:
        lives, (step, value), n_steps = self.lifetimes, self.schedule.stores.T.astype(np.int64), len(self.schedule)
        values, first = np.unique(lives.value, return_index=True)
        by_default = first[np.searchsorted(values, np.setdiff1d(self.stores, value))]
        made_at = lives.made_at
        by_value = np.argsort(lives.value, kind="stable")
        keys = lives.value[by_value] * (n_steps + 1) + made_at[by_value]
        newest = by_value[np.searchsorted(keys, value * (n_steps + 1) + step) - 1]
        instance, steps = np.append(by_default, newest), np.append(made_at[by_default] + 1, step)
        turn = np.append(lives.end[by_default], np.full(newest.size, n_steps + 1))
        order = np.lexsort((np.arange(instance.size), turn, steps))
        return sealed(instance[order]), sealed(steps[order])

    @property
    def load_instances(self) -> Int64:
        """int64[k]: the instance created by each row of `schedule.loads`."""
        step = self.schedule.loads[:, 0]
        return self.lifetimes.instance_indptr[step] + np.arange(step.size) - np.searchsorted(step, step)

    @property
    def is_load(self) -> Bool:
        """bool[n_instances]: instances copied back from the host rather than computed."""
        loaded = np.zeros(self.lifetimes.value.size, bool)
        loaded[self.load_instances] = True
        return loaded

    @property
    def instance_role(self) -> Int64:
        """int64[n_instances]: index of the role of each instance in `(*ROLES, LOADED)`."""
        gradient = ~self.graph.forward[self.graph.producer[self.lifetimes.value]]
        role = np.where(gradient, 2, np.where(self.schedule.first_run[self.lifetimes.made_at], 0, 1))
        role[self.is_load] = len(ROLES)
        return role

    def trace_by_role(self) -> dict[str, Int64]:
        """Return the live bytes per step, int64[m], for each of `ROLES`; they sum to `memory_trace`.

        Keys: "kept" (forward values of a node's first run), "recomputed" (forward values of later runs), "gradients"
        (values of the backward part) and "workspace". If the schedule has loads, there is also "loaded".

        Examples
        --------
        >>> graph = ComputationGraph.from_edges([("A", "B"), ("A", "C"), ("B", "C")])
        >>> traces = simulate(graph, Schedule.from_names(graph, "ABAC")).trace_by_role()
        >>> traces["kept"].tolist(), traces["recomputed"].tolist()
        ([1, 2, 1, 2], [0, 0, 1, 1])
        """
        value, made_at, role = self.lifetimes.value, self.lifetimes.made_at, self.instance_role
        roles = (*ROLES, LOADED) if self.schedule.loads.size else ROLES
        change = np.zeros((len(roles), len(self.schedule) + 1), np.int64)
        np.add.at(change, (role, made_at), self.graph.memory[value])
        np.subtract.at(change, (role, self.lifetimes.end), self.graph.memory[value])
        traces = dict(zip(roles, np.cumsum(change, axis=1)[:, :-1], strict=True))
        traces["workspace"] = self.graph.workspace[self.schedule.order]
        return traces

    def breakdown(self, step: int | None = None) -> dict[str, int]:
        """Return the live bytes by role, as in `trace_by_role`, during one step; by default at the peak."""
        if step is None:
            step = self.peak_step
        elif len(self.schedule):
            step = check_place(step, len(self.schedule), "step")
        return {role: int(trace[step]) if trace.size else 0 for role, trace in self.trace_by_role().items()}

    @property
    def saved(self) -> list[tuple[int, int]]:
        """(value, instance) of all instances that are passed from the forward part to the backward part.

        These instances are computed before the first backward step, and are either outputs or read at that step or
        later. Empty if no backward node runs.

        Examples
        --------
        >>> reads = {"read_indptr": [0, 0, 1, 3], "read_indices": [0, 0, 1]}
        >>> graph = ComputationGraph.from_arrays(**reads, forward_of=[-1, -1, 0])
        >>> simulate(graph, [0, 1, 2]).saved, simulate(graph, [0, 1, 0, 2]).saved
        ([(0, 0), (1, 1)], [(1, 1), (0, 2)])
        """
        backward = ~self.graph.forward[self.schedule.order]
        if not backward.any():
            return []
        first = int(backward.argmax())
        live = np.flatnonzero((self.lifetimes.made_at < first) & (self.lifetimes.end > first))
        return list(zip(self.lifetimes.value[live].tolist(), live.tolist(), strict=True))

    def steps(self) -> Iterator[Step]:
        """Yield each step with the instances that it reads, creates and frees.

        A step reads the newest instance of a value. For an output, it reads the first, which stays live to the end and
        is never freed. Later instances of an output are never read, and are freed after their own step.

        Examples
        --------
        >>> graph = ComputationGraph.from_edges([("A", "B"), ("A", "C"), ("B", "C")])
        >>> for step in simulate(graph, Schedule.from_names(graph, "ABAC")).steps():
        ...     print(step)
        Step(node=0, reads=[], makes=range(0, 1), frees=[])
        Step(node=1, reads=[(0, 0)], makes=range(1, 2), frees=[0])
        Step(node=0, reads=[], makes=range(2, 3), frees=[])
        Step(node=2, reads=[(0, 2), (1, 1)], makes=range(3, 4), frees=[1, 2])
        """
        graph, lives = self.graph, self.lifetimes
        made_by, value = lives.instance_indptr.tolist(), lives.value.tolist()
        n_loads = np.bincount(self.schedule.loads[:, 0], minlength=len(self.schedule)).tolist()
        stored_after: dict[int, list[int]] = {}
        for i, before in zip(*(each.tolist() for each in self.store_instances), strict=True):
            stored_after.setdefault(before - 1, []).append(i)
        read_indptr, read_indices = graph.read_indptr.tolist(), graph.read_indices.tolist()
        pinned = graph.output[lives.value] & self.schedule.first_run[self.lifetimes.made_at]
        serving: dict[int, int] = {}  # newest instance of each value
        for step, (node, frees) in enumerate(zip(self.schedule.order.tolist(), self._freed(~pinned), strict=True)):
            loads = range(made_by[step], made_by[step] + n_loads[step])
            serving.update((value[i], i) for i in loads)
            reads = [(x, serving[x]) for x in read_indices[read_indptr[node] : read_indptr[node + 1]]]
            makes = range(loads.stop, made_by[step + 1])
            for i in makes:
                if value[i] not in serving or not graph.output[value[i]]:
                    serving[value[i]] = i
            yield Step(node, reads, makes, frees, loads, tuple(stored_after.get(step, ())))

    def frees(self) -> list[list[int]]:
        """Return the values to free after each step, for callers that execute `actions`.

        Outputs are never freed. If an output is recomputed, the new copy may replace the first one, since both are
        equal; the simulator keeps the first. Programs that need to distinguish the copies use `steps`.
        """
        value = self.lifetimes.value
        return [value[freed].tolist() for freed in self._freed(~self.graph.output[value])]

    def _freed(self, freeable: Bool) -> list[list[int]]:
        """Return those `freeable` instances that are freed after each step, ascending."""
        freed_after: list[list[int]] = [[] for _ in range(len(self.schedule))]
        freed = np.flatnonzero(freeable)
        for i, at in zip(freed.tolist(), self.lifetimes.end[freed].tolist(), strict=True):
            freed_after[at - 1].append(i)
        return freed_after

    def actions(self, names: bool = False) -> Iterator[tuple[str, Any]]:
        """Yield the actions of the schedule in order of execution, with ids or, if `names`, with names.

        Actions are ("compute", node) and ("free", value). If the schedule has loads, there are also ("store", value),
        which begins a copy to the host, and ("load", value), which allocates memory and begins the copy back. Executing
        them keeps exactly the bytes of `memory_trace` live at each step, with one copy per output.

        Examples
        --------
        >>> chain = ComputationGraph.from_edges([("A", "B"), ("B", "C")])
        >>> list(simulate(chain, [0, 1, 2]).actions())
        [('compute', 0), ('compute', 1), ('free', 0), ('compute', 2), ('free', 1)]
        >>> list(simulate(chain, [0, 1, 2]).actions(names=True))[:3]
        [('compute', 'A'), ('compute', 'B'), ('free', 'A')]
        """
        graph, value = self.graph, self.lifetimes.value.tolist()
        if not self.schedule.loads.size:
            for node, freed in zip(self.schedule.order.tolist(), self.frees(), strict=True):
                yield "compute", graph.labels[node] if names else node
                for x in freed:
                    yield "free", graph.value_name(x) if names else x
            return
        for step, freed in zip(self.steps(), self.frees(), strict=True):
            for i in step.loads:
                yield "load", graph.value_name(value[i]) if names else value[i]
            yield "compute", graph.labels[step.node] if names else step.node
            for i in step.stores:
                yield "store", graph.value_name(value[i]) if names else value[i]
            for x in freed:
                yield "free", graph.value_name(x) if names else x


@checked_arguments
def simulate(graph: ComputationGraph, schedule: Order) -> Simulation:
    """Simulate a schedule: live values and bytes at each step, and the cost.

    A run computes all values of its node, and a load copies one value back. A value is live until its last read before
    it is computed or loaded again; an output is live from its first run to the end. During a step its inputs, all its
    values and its workspace are live.

    Parameters
    ----------
    graph : ComputationGraph
    schedule : Schedule, or ids or names of nodes in order

    Returns
    -------
    Simulation

    Raises
    ------
    ScheduleError
        If the schedule is invalid; the error contains the violated rule, the step and the node.

    Examples
    --------
    Figure 1 of kumar2019: recomputing A saves one unit of memory.

    >>> names = [("A", "B"), ("A", "C"), ("B", "D"), ("C", "D"), ("A", "E"), ("D", "E")]
    >>> graph = ComputationGraph.from_edges(names)
    >>> [simulate(graph, Schedule.from_names(graph, order)).peak_memory for order in ("ABCDE", "ABCDAE")]
    [4, 3]
    """
    schedule = as_schedule(graph, schedule)
    if schedule.lingering.size:
        _check_lingering(graph, schedule)
    if schedule.stores.size:
        _check_stores(graph, schedule)
    law, step, about, instance_indptr, value, end, trace = kernel.instance_lifetimes(
        graph.arrays, schedule.order, schedule.loads, schedule.lingering, schedule.stores
    )
    if law:
        raise _broken(graph, schedule, law, step, about)
    if graph.mark is not None:
        _check_marks(graph, schedule)
    if graph.updates.any():
        _check_updates(graph, schedule)
    lifetimes = Lifetimes(sealed(instance_indptr), sealed(value), sealed(end))
    return unchecked(graph, schedule, lifetimes, sealed(trace))


def unchecked(graph: ComputationGraph, schedule: Schedule, lifetimes: Lifetimes, memory_trace: Int64) -> Simulation:
    """Return a simulation made of kernel results, without checks."""
    simulation = object.__new__(Simulation)
    for name, part in (
        ("graph", graph),
        ("schedule", schedule),
        ("lifetimes", lifetimes),
        ("memory_trace", memory_trace),
        ("_derived", {}),
    ):
        object.__setattr__(simulation, name, part)
    return simulation


def check_simulation(simulation: Any, graph: ComputationGraph | None = None) -> None:
    """Raise TypeError unless the argument is a Simulation, and GraphError if its graph differs from `graph`."""
    check_kind(simulation, Simulation, "simulation")
    if graph is not None and simulation.graph is not graph and simulation.graph.hash != graph.hash:
        if simulation.graph.n_nodes == graph.n_nodes:
            raise GraphError("the simulation is of another graph; simulate on this graph")
        raise GraphError(
            "the simulation is of another graph: it has {n_nodes:node}, this one has {expected:,}; simulate this graph",
            n_nodes=simulation.graph.n_nodes,
            expected=graph.n_nodes,
        )


def _broken(graph: ComputationGraph, schedule: Schedule, law: int, step: int, about: int) -> ScheduleError:
    if law == kernel.UNKNOWN_NODE:
        last = graph.n_nodes - 1
        return ScheduleError("step {step} runs node {node}; nodes are 0 to {last}", step=step, node=about, last=last)
    if law == kernel.RUN_TWICE:
        return ScheduleError(
            "step {step} recomputes {name}, which must run only once", step=step, node=about, name=graph.labels[about]
        )
    if law == kernel.UNKNOWN_VALUE:
        return ScheduleError(
            "a load at step {step} brings back value {value}; values are 0 to {last}",
            step=step,
            node=-1,
            value=about,
            last=graph.n_values - 1,
        )
    value, maker = graph.value_name(about), int(graph.producer[about])
    if law == kernel.NEVER_COMPUTED:
        name = graph.labels[maker]
        return ScheduleError(
            "output {value_name} is never computed; run {name}", step=step, node=maker, value_name=value, name=name
        )
    if law == kernel.UNKNOWN_STEP:
        return ScheduleError(
            "{value_name} is loaded at step {step}; steps are 0 to {last}",
            step=step,
            node=maker,
            value_name=value,
            last=len(schedule) - 1,
        )
    template = {
        kernel.LOADED_UNMADE: "step {step} loads {value_name} before it has been computed",
        kernel.STORED_UNMADE: "{value_name} is stored before step {step}, but not computed by then; store it later",
        kernel.LOADED_OUTPUT: "step {step} loads output {value_name}, which never leaves the device; remove the load",
    }.get(law)
    if template is not None:
        return ScheduleError(template, step=step, node=maker, value_name=value)
    node = int(schedule.order[step])
    return ScheduleError(
        "step {step} runs {name}, which reads {value_name} before it has been computed",
        step=step,
        node=node,
        name=graph.labels[node],
        value_name=value,
    )


def _check_lingering(graph: ComputationGraph, schedule: Schedule) -> None:
    value, step, until = schedule.lingering.T
    inside = (value >= 0) & (value < graph.n_values) & (step >= 0) & (step < len(schedule)) & (until <= len(schedule))
    sound = inside & (until >= 0)
    sound[inside] &= schedule.order[step[inside]] == graph.producer[value[inside]]
    loads = set(map(tuple, schedule.loads.tolist()))
    for value, step, until in schedule.lingering[~sound].tolist():
        if not 0 <= value < graph.n_values:
            raise ScheduleError(
                "`lingering` names value {value}; values are 0 to {last}",
                value=value,
                last=graph.n_values - 1,
                step=until,
                node=-1,
            )
        node, name = int(graph.producer[value]), graph.value_name(value)
        if not 0 <= until <= len(schedule):
            raise ScheduleError(
                "`lingering` keeps {name} until step {until}; steps are 0 to {n_steps}",
                name=name,
                until=until,
                n_steps=len(schedule),
                step=until,
                node=node,
            )
        if not 0 <= step < len(schedule) or (schedule.order[step] != node and (step, value) not in loads):
            raise ScheduleError(
                "`lingering` keeps {value} of step {step}, but that step neither runs {name} nor loads the value",
                value=name,
                name=graph.labels[node],
                step=step,
                node=node,
            )


def _check_stores(graph: ComputationGraph, schedule: Schedule) -> None:
    loaded = {value: step for step, value in reversed(schedule.loads.tolist())}  # first load of each value
    placed = set[int]()
    for step, value in schedule.stores.tolist():
        if not 0 <= value < graph.n_values:
            raise ScheduleError(
                "value {value} is stored; values are 0 to {last}",
                value=value,
                last=graph.n_values - 1,
                step=step,
                node=-1,
            )
        node = int(graph.producer[value])
        error = partial(ScheduleError, step=step, node=node, name=graph.value_name(value))
        if step < 0:
            raise error("{name} is stored before step {step}; steps are 0 to {last}", last=len(schedule) - 1)
        if value in placed:
            raise error("{name} is stored before step {step} a second time; store it once")
        if value not in loaded:
            raise error("{name} is stored before step {step}, but never loaded; remove the store")
        if step > loaded[value]:
            raise error(
                "{name} is stored before step {step}, but loaded before step {load}; store it earlier",
                load=loaded[value],
            )
        placed.add(value)


def _check_updates(graph: ComputationGraph, schedule: Schedule) -> None:
    waits = awaited(graph, schedule.order)[schedule.order]
    early = np.flatnonzero(waits > np.arange(len(schedule)))
    if early.size:
        step, changed_at = int(waits[early[0]]), int(early[0])
        node, update = (int(schedule.order[at]) for at in (step, changed_at))
        raise ScheduleError(
            "step {step} runs {name}, which reads what {update} changed at step {changed_at}; run the update later",
            step=step,
            node=node,
            name=graph.labels[node],
            update=graph.labels[update],
            changed_at=changed_at,
        )


def _check_marks(graph: ComputationGraph, schedule: Schedule) -> None:
    law, step, node = kernel.broken_mark(graph.arrays, schedule.order, graph.mark, graph.owner)
    if law == kernel.KEEP_MARK:
        raise ScheduleError(
            "step {step:d} recomputes {name}, which is marked to be kept", name=graph.labels[node], step=step, node=node
        )
    if law == kernel.RECOMPUTE_MARK:
        raise ScheduleError(
            "step {step:d} runs {reader}, which reads the first run of {name}, but {name} is marked to be recomputed",
            reader=graph.labels[int(schedule.order[step])],
            name=graph.labels[node],
            step=step,
            node=node,
        )
