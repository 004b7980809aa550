"""Schedules with one decision flipped: a recomputed node kept, or a kept node recomputed."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from remat_algos.ir.arrays import Bool, Int32, Int64
from remat_algos.ir.parts import KEEP
from remat_algos.kernels.lifetimes import serving_runs
from remat_algos.schedule.schedule import Schedule
from remat_algos.schedule.simulation import Simulation


@dataclass(frozen=True, slots=True, eq=False)
class ChangedRuns:
    """A new schedule with runs removed or added: step `here[i]` of the original is its step `there[i]`."""

    schedule: Schedule
    here: Int64
    there: Int64


def reads_of(simulation: Simulation, node: int) -> Int64:
    """int64[k]: the steps that read a value of a node, ascending."""
    return _reads_of(simulation, simulation.graph.values(node))


def keep_first_run(simulation: Simulation, node: int) -> ChangedRuns:
    """Keep only the first run of a node, and remove the runs that become useless."""
    order = simulation.schedule.order
    steps = np.flatnonzero(simulation.schedule.first_run | (order != node))
    steps = steps[serving_runs(simulation.graph.arrays, order[steps])]
    return _changed(simulation.schedule, order[steps], steps, np.arange(steps.size))


def idle_gap(simulation: Simulation, node: int) -> tuple[int, int]:
    """Return the longest time (from, to) without a read of the only run of a node; (-1, -1) if never read.

    Reads of outputs do not count: their first copy stays live to the end.
    """
    graph = simulation.graph
    freed = [x for x in graph.values(node) if not graph.output[x]]
    indptr, steps = simulation.run_steps
    uses = np.append(steps[indptr[node] : indptr[node + 1]][:1], _reads_of(simulation, freed))
    if uses.size < 2:
        return -1, -1
    longest = int(np.diff(uses).argmax())
    return int(uses[longest]), int(uses[longest + 1])


def add_second_run(simulation: Simulation, node: int) -> list[ChangedRuns]:
    """Recompute a node that runs once at the end of its longest idle time, in up to three ways.

    In the first order the values that it reads are kept until then. In the second, if it differs, those that are no
    longer live are recomputed first, if allowed. In the third these runs replace later ones, if any. The list is empty
    if the node is never idle.
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
    """Return a new order, with the copies at the steps that stay, or at the next one."""
    if not schedule.loads.size and not schedule.lingering.size:
        return ChangedRuns(Schedule(order), here, there)
    (lingering, made, until), places = schedule.lingering.T, np.append(there, order.size)

    def moved(copies: Int32) -> Int32:
        """Rows (step, value) at the steps that stay, or at the next one."""
        return np.stack([places[np.searchsorted(here, copies[:, 0])], copies[:, 1]], axis=1).astype(np.int32)

    loads = moved(schedule.loads)
    loads = loads[loads[:, 0] < order.size]  # others have no reader left
    keeps = np.isin(made, here)
    ends = np.stack([lingering, places[np.searchsorted(here, made)], places[np.searchsorted(here, until)]], axis=1)
    stores = schedule.stores[np.isin(schedule.stores[:, 1], loads[:, 1])]
    return ChangedRuns(Schedule(order, loads, ends[keeps], moved(stores)), here, there)


def _inserted(schedule: Schedule, step: int, run: Sequence[int], stays: Bool) -> ChangedRuns:
    """Return the steps that stay, with additional runs before one of them."""
    here, order = np.flatnonzero(stays), schedule.order
    before, after = here[here < step], here[here >= step]
    new = np.concatenate([order[before], np.array(run, np.int32), order[after]])
    return _changed(schedule, new, here, np.arange(here.size) + len(run) * (here >= step))


def _reads_of(simulation: Simulation, values: Sequence[int]) -> Int64:
    """int64[k]: the steps that read any of these values, ascending."""
    indptr, readers = simulation.graph.readers
    begin, steps = simulation.run_steps
    reading = {v for x in values for v in readers[indptr[x] : indptr[x + 1]].tolist()}
    reads = [steps[begin[v] : begin[v + 1]] for v in reading]
    return np.sort(np.concatenate(reads)) if reads else np.zeros(0, np.int64)


def _lacking(simulation: Simulation, node: int, step: int) -> list[int]:
    """Return the node, and all nodes without live instances that must run before it at a step, in id order."""
    graph = simulation.graph
    lives, live = simulation.lifetimes, np.zeros(graph.n_values, bool)
    made = int(lives.instance_indptr[step + 1])
    live[lives.value[:made][lives.end[:made] > step]] = True
    fixed = graph.once if graph.mark is None else graph.once | (graph.mark == KEEP)
    found, todo = {node}, [node]
    while todo:
        for value in graph.reads(todo.pop()):
            producer = int(graph.producer[value])
            if not (live[value] or fixed[producer] or producer in found):
                found.add(producer)
                todo.append(producer)
    return sorted(found)
