"""A schedule as a graph with one node per run."""

from collections import Counter

import numpy as np

from remat_algos.arguments import checked_arguments
from remat_algos.ir.arrays import from_lists, gather_rows
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


def _forward_of(graph: ComputationGraph, order: np.ndarray) -> np.ndarray | None:
    if graph.forward_of is None or not graph.forward[order].any():
        return None
    # A gradient of a node that never runs gets the first forward step.
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
