"""A schedule as a graph with one node per run."""

from collections import Counter

import numpy as np

from remat_algos.arguments import checked_arguments
from remat_algos.ir.arrays import from_lists, gather_rows, indptr_of
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.parts import Labels, Resident
from remat_algos.schedule.schedule import Order, check_no_loads
from remat_algos.schedule.simulation import simulate


@checked_arguments
def unroll(graph: ComputationGraph, schedule: Order) -> ComputationGraph:
    """Return the graph of the runs of a schedule, for drawing, export, and Chen's mirrored graph.

    Run in id order it has the cost and the memory trace of the schedule. Run k of `conv` is called `conv#k`, the
    first keeps its name; gradients belong to the first run of their forward node.

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
        If the schedule cannot be run.

    Examples
    --------
    >>> graph = ComputationGraph.from_edges([("A", "B"), ("A", "C"), ("B", "C")])
    >>> unroll(graph, ["A", "B", "A", "C"]).labels.names
    ('A', 'B', 'A#1', 'C')
    """
    schedule = simulate(graph, schedule).schedule
    check_no_loads(schedule, "unroll")
    order = schedule.order
    newest = np.full(graph.n_values, -1, np.int64)
    first_run = np.full(graph.n_nodes, -1, np.int32)
    reads, output = [], []
    n_instances = 0
    for step, v in enumerate(order.tolist()):
        first = first_run[v] < 0
        if first:
            first_run[v] = step
        reads.append([int(newest[x]) for x in graph.reads(v)])
        for x in graph.values(v):
            pinned = bool(graph.output[x])
            output.append(pinned and first)
            if not pinned or first:
                newest[x] = n_instances
            n_instances += 1
    read_indptr, read_indices = from_lists(reads)
    return ComputationGraph.from_arrays(
        value_indptr=indptr_of(np.diff(graph.value_indptr)[order]),
        read_indptr=read_indptr,
        read_indices=read_indices,
        memory=np.array([graph.memory[x] for v in order.tolist() for x in graph.values(v)], np.int64),
        compute=graph.compute[order],
        workspace=graph.workspace[order],
        once=graph.once[order],
        output=np.array(output, bool),
        forward_of=_forward_of(graph, order, first_run),
        resident=_resident(graph, order),
        labels=Labels(
            names=_names(graph, order),
            ops=tuple(graph.labels.op(v) for v in order.tolist()),
            compute_unit=graph.labels.compute_unit,
            compute_scale=graph.labels.compute_scale,
        ),
    )


def _names(graph: ComputationGraph, order: np.ndarray) -> tuple[str, ...]:
    """Return a name for each run: its node's, with the number of the run if it is not the first."""
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


def _forward_of(graph: ComputationGraph, order: np.ndarray, first_run: np.ndarray) -> np.ndarray | None:
    if graph.forward_of is None:
        return None
    forward_steps = np.flatnonzero(graph.forward[order])
    if not forward_steps.size:
        return None  # gradients only
    owner = graph.forward_of[order]
    ran = np.where(first_run < 0, forward_steps[0], first_run)  # a gradient of a node that never runs needs an owner
    return np.where(owner >= 0, ran[owner], owner)


def _resident(graph: ComputationGraph, order: np.ndarray) -> Resident | None:
    resident = graph.resident
    if resident is None:
        return None
    reads = gather_rows(resident.read_indptr, resident.read_indices, order)
    return Resident(resident.memory, resident.role, *reads, resident.names)
