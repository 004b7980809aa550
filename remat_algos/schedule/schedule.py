"""`Schedule`: the order in which nodes run, and the copies to the host and back."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from remat_algos.arguments import as_list, check_kind, checked_arguments
from remat_algos.errors import ArgumentTypeError, ScheduleError
from remat_algos.ir.arrays import NO_PAIRS, NO_TRIPLES, Bool, Int32, Int64, as_array, by_fields, frozen, sealed, whole
from remat_algos.ir.graph import ComputationGraph, changeable_reads
from remat_algos.wording import counted, one_line


@dataclass(frozen=True, slots=True, eq=False)
class Schedule:
    """A sequence of node ids and of loads; a node that occurs more than once is recomputed.

    A value is freed after the last read that precedes the next run of its node. An output is freed at the end. Every
    value that is loaded somewhere is stored once, by default right after the first run of its node.

    Parameters
    ----------
    order : int32[m]
        Node ids.
    loads : int32[k, 2], optional
        Rows (step, value): copying the value back from the host begins before the run of the step. Loads at the same
        step begin in the order of their rows.
    lingering : int32[h, 3], optional
        Rows (value, step, until): the instance of the value that `step` creates is not freed before step `until`
        begins, for example because its copy to the host may still be in progress.
    stores : int32[s, 2], optional
        Rows (step, value): the copy of a loaded value to the host begins before the run of the step, after the stores
        in earlier rows. It copies the newest instance, which stays live until then.

    Examples
    --------
    >>> Schedule([0, 1, 0, 2]).mirror_count(3).tolist()
    [1, 0, 0]
    >>> Schedule([0, 1, 2], loads=[(2, 0)])
    <Schedule: 3 steps, 0 nodes recomputed, 1 load>
    """

    order: Int32
    loads: Int32 = field(default_factory=lambda: NO_PAIRS)
    lingering: Int32 = field(default_factory=lambda: NO_TRIPLES)
    stores: Int32 = field(default_factory=lambda: NO_PAIRS)

    def __repr__(self) -> str:
        runs = np.bincount(self.order) if self.order.size and self.order.min() >= 0 else np.zeros(0, np.int64)
        recomputed = f"{counted(int((runs > 1).sum()), 'node')} recomputed"
        loaded = (counted(len(self.loads), "load"),) if self.loads.size else ()
        return one_line(self, counted(len(self), "step"), recomputed, *loaded)

    __reduce__ = by_fields

    def __post_init__(self) -> None:
        object.__setattr__(self, "order", frozen(self.order, np.int32, "order"))
        for name, none in (("loads", NO_PAIRS), ("lingering", NO_TRIPLES), ("stores", NO_PAIRS)):
            if getattr(self, name) is not none:
                object.__setattr__(self, name, _sorted_rows(getattr(self, name), name, none))

    def __len__(self) -> int:
        return int(self.order.shape[0])

    @property
    def first_run(self) -> Bool:
        """bool[m]: True for the first run of each node."""
        first = np.zeros(len(self), bool)
        first[np.unique(self.order, return_index=True)[1]] = True
        return first

    @classmethod
    @checked_arguments
    def from_names(cls, graph: ComputationGraph, names: Iterable[str | int]) -> "Schedule":
        """Make a schedule from names or ids of nodes; raise ScheduleError, with the step, if one is unknown.

        Examples
        --------
        >>> graph = ComputationGraph.from_edges([("A", "B")])
        >>> Schedule.from_names(graph, ["A", "B"]).order.tolist()
        [0, 1]
        """
        order = []
        for step, node in enumerate(names):
            try:
                order.append(graph.node_id(node) if isinstance(node, str) else whole(node, "the id of a node"))
            except ValueError as error:
                raise ScheduleError("step {step}: {error!w}", error=error, step=step, node=-1) from error
        return cls(np.array(order, np.int32))

    @checked_arguments
    def names(self, graph: ComputationGraph) -> list[str]:
        """Return the names of the nodes in the order of their runs."""
        check_nodes(graph.n_nodes, self.order)
        names = graph.node_names()
        return [names[v] for v in self.order.tolist()]

    def mirror_count(self, n_nodes: int) -> Int64:
        """Return int64[n_nodes]: the number of recomputations of each node, m(v) in algorithm 2 of chen2016."""
        n_nodes = whole(n_nodes, "n_nodes")
        check_nodes(n_nodes, self.order)
        return np.maximum(np.bincount(self.order, minlength=n_nodes) - 1, 0)


def check_no_loads(schedule: Schedule, what: str) -> None:
    """Raise ScheduleError, with the step, if the schedule loads a value."""
    if schedule.loads.size:
        step = int(schedule.loads[0, 0])
        raise ScheduleError(
            "step {step} loads a value from the host, which {what!w} does not support; give a schedule without loads",
            what=what,
            step=step,
            node=-1,
        )


def with_copies(
    graph: ComputationGraph,
    schedule: Schedule,
    loads: Iterable[tuple[int, str | int]],
    lingering: Iterable[tuple[str | int, int, int]] = (),
    stores: Iterable[tuple[int, str | int]] = (),
) -> Schedule:
    """Return a schedule with the same order and these copies, whose values are names or ids."""
    loaded, stored = ([(step, _value(graph, value, step)) for step, value in rows] for rows in (loads, stores))
    stays = [(_value(graph, value, until), step, until) for value, step, until in lingering]
    return Schedule(schedule.order, loaded, stays, stored)  # type: ignore[arg-type]  # `__post_init__` converts


Copies = tuple[list[tuple[int, str | int]], list[tuple[str | int, int, int]], list[tuple[int, str | int]]]
"""Loads, lingering and stores of a schedule, as parameters of `with_copies`."""


def named_copies(graph: ComputationGraph, schedule: Schedule) -> Copies:
    """Return the copies of a schedule with names of values, or with ids if the graph has no names."""
    loads, lingering, stores = (rows.tolist() for rows in (schedule.loads, schedule.lingering, schedule.stores))
    value = graph.value_names() if loads and graph.labels.names is not None else range(graph.n_values)
    return (
        [(step, value[x]) for step, x in loads],
        [(value[x], step, until) for x, step, until in lingering],
        [(step, value[x]) for step, x in stores],
    )


def _value(graph: ComputationGraph, value: str | int, step: int) -> int:
    try:
        return graph.value_id(value) if isinstance(value, str) else whole(value, "the id of a value")
    except ValueError as error:
        raise ScheduleError("the copy at step {step}: {error!w}", error=error, step=step, node=-1) from error


def _sorted_rows(rows: ArrayLike, what: str, none: Int32) -> Int32:
    """Sort rows of integers by their first entry (stable); return the array `none` if there are no rows."""
    array = as_array(rows, what)
    if array.size == 0:
        return none
    if array.ndim != 2 or array.shape[1] != none.shape[1]:
        columns = "(value, step, until)" if what == "lingering" else "(step, value)"
        raise ScheduleError(
            "{what!w} has the shape {shape}; give rows of {columns!w}",
            what=what,
            shape=array.shape,
            columns=columns,
            step=-1,
            node=-1,
        )
    flat = frozen(array.ravel(), np.int32, what).reshape(array.shape)
    return sealed(flat[np.argsort(flat[:, 0], kind="stable")])


Order = Schedule | Iterable[int | str] | ArrayLike
"""A schedule argument: ids or names of nodes in the order of their runs."""


def as_schedule(graph: ComputationGraph, order: Order, what: str = "schedule") -> Schedule:
    """Convert ids or names of nodes to a schedule."""
    if isinstance(order, Schedule):
        return order
    if isinstance(order, np.ndarray) and order.dtype.kind in "iu":
        return Schedule(order)
    if isinstance(order, np.ndarray | Iterable) and not isinstance(order, str | bytes | Mapping):
        entries = as_list(order, what)
        if any(isinstance(node, str) for node in entries):
            return Schedule.from_names(graph, entries)
        if bools := [step for step, node in enumerate(entries) if isinstance(node, bool | np.bool_)]:
            raise ArgumentTypeError(
                "step {bools} of {what!w} is {entries}; give ids or names of nodes",
                bools=bools[0],
                what=what,
                entries=entries[bools[0]],
            )
        return Schedule(entries)  # type: ignore[arg-type]  # `__post_init__` converts
    if hasattr(order, "schedule"):
        return check_kind(order, Schedule, what)
    raise ArgumentTypeError(
        "{what!w} is {order!r}; give a Schedule, or a list of ids or names of nodes", what=what, order=order
    )


def check_nodes(n_nodes: int, order: Int32) -> None:
    """Raise ScheduleError, with the step, if a step runs an unknown node."""
    if order.size and not 0 <= order.min() <= order.max() < n_nodes:
        step = int(np.argmax((order < 0) | (order >= n_nodes)))
        raise ScheduleError(
            "step {step} runs node {order}; nodes are 0 to {last}",
            order=order[step],
            last=n_nodes - 1,
            step=step,
            node=int(order[step]),
        )


def awaited(graph: ComputationGraph, order: Int32) -> Int64:
    """Return int64[n]: for each update, the last step that reads its parameter; -1 for other nodes."""
    last_read = np.full(graph.n_nodes, -1)
    if graph.updates.any():
        reader, parameter = changeable_reads(graph)
        reads = ~graph.updates[reader]
        last = np.full(graph.n_nodes, -1)
        np.maximum.at(last, order, np.arange(order.size))
        read = np.full(parameter.max() + 1, -1)
        np.maximum.at(read, parameter[reads], last[reader[reads]])
        np.maximum.at(last_read, reader[~reads], read[parameter[~reads]])
    return last_read


@checked_arguments
def emit(graph: ComputationGraph, order: Order) -> Schedule:
    """Return a solver's order as a schedule, with each parameter update after the last run that reads the parameter.

    A solver may run an update as soon as its gradient is computed and recompute a reader of the parameter later, which
    would then read the updated parameter. Only updates move.

    Parameters
    ----------
    graph : ComputationGraph
    order : Schedule, or ids or names of nodes in order
        A schedule that is otherwise valid.

    Returns
    -------
    Schedule

    Raises
    ------
    ScheduleError
        If a step runs an unknown node.

    Examples
    --------
    Node 12 updates the weight of the last layer, which node 8 still reads.

    >>> from remat_algos.zoo.registry import build
    >>> graph = build("feed_forward", depth=1, optimizer="sgd").graph
    >>> emit(graph, [0, 1, 2, 3, 4, 5, 6, 7, 12, 8, 9, 10, 11, 13, 14, 15]).order.tolist()[7:]
    [7, 8, 12, 9, 10, 11, 13, 14, 15]
    """
    schedule = as_schedule(graph, order, "order")
    runs = schedule.order
    check_nodes(graph.n_nodes, runs)
    waits = awaited(graph, runs)[runs]
    step = np.arange(runs.size)
    return Schedule(runs[np.lexsort((waits >= 0, np.maximum(step, waits)))]) if (waits > step).any() else schedule
