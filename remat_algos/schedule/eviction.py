"""A schedule that fits by copies alone: what is not needed for longest leaves, and comes back where it is read."""

import numpy as np

from remat_algos.context import Clock
from remat_algos.ir.arrays import Bool, Int64
from remat_algos.schedule.schedule import Schedule
from remat_algos.schedule.simulation import Simulation, simulate


def evict(simulation: Simulation, limit: int, clock: Clock | None = None, *, leaving: Bool | None = None) -> Schedule:
    """Add loads until each step is within a limit in bytes, where that can be.

    At the highest step, the value leaves that has the most bytes for the most steps until it is read. Only values of
    `leaving`, bool[n_values], do, by default all except outputs. Memory that lingers counts as free, and the result has
    none that lingers: `linger` decides that last. An error of the clock, looked at for each load, ends the search.

    Examples
    --------
    >>> from remat_algos.ir.graph import ComputationGraph
    >>> from remat_algos.schedule.simulation import simulate
    >>> graph = ComputationGraph.from_edges([(0, 3), (0, 1), (1, 2), (2, 3)], memory=[4, 2, 2, 1])
    >>> schedule = evict(simulate(graph, range(4)), 7)
    >>> schedule.loads.tolist(), simulate(graph, schedule).peak_memory
    ([[3, 0]], 7)
    """
    if simulation.schedule.lingering.size:
        simulation = simulate(simulation.graph, Schedule(simulation.schedule.order, simulation.schedule.loads))
    graph, schedule, value = simulation.graph, simulation.schedule, simulation.lifetimes.value
    trace, gaps = simulation.memory_trace.copy(), _gaps(simulation, leaving)
    size = graph.memory[value[gaps[:, 0]]]
    gaps, size = (each[np.lexsort((-gaps[:, 0], size * (gaps[:, 2] - gaps[:, 1])))] for each in (gaps, size))
    # a tree over the steps: a gap, by its place, is in a few nodes that cover its steps together, the best one last
    n_leaves = len(schedule)
    over: list[list[int]] = [[] for _ in range(2 * n_leaves)]
    for place, (before, after) in enumerate(gaps[:, 1:].tolist()):
        left, right = before + 1 + n_leaves, after + n_leaves
        while left < right:
            if left & 1:
                over[left].append(place)
                left += 1
            if right & 1:
                right -= 1
                over[right].append(place)
            left, right = left >> 1, right >> 1
    loads, gone = schedule.loads.tolist(), bytearray(len(gaps))
    while trace.size and trace[step := int(trace.argmax())] > limit:
        if clock is not None:
            clock.check()
        best, node = -1, step + n_leaves
        while node:
            places = over[node]
            while places and gone[places[-1]]:
                places.pop()
            best, node = max(best, places[-1] if places else -1), node >> 1
        if best < 0:
            break  # all that is live there is needed there
        gone[best] = True
        instance, before, after = gaps[best].tolist()
        trace[before + 1 : after] -= size[best]
        loads.append([after, int(value[instance])])
    return Schedule(schedule.order, loads)


def _gaps(simulation: Simulation, leaving: Bool | None) -> Int64:
    """int64[*, 3]: (instance, before, after) for steps between which it is live and not used; outputs have to stay."""
    graph, value = simulation.graph, simulation.lifetimes.value
    movable = ~graph.output[value] & (graph.memory[value] > 0)
    movable = (movable if leaving is None else movable & leaving[value]).tolist()
    used, found = simulation.lifetimes.made_at.tolist(), list[tuple[int, int, int]]()
    for step, taken in enumerate(simulation.steps()):
        for _, i in taken.reads:
            if movable[i] and used[i] + 1 < step:
                found.append((i, used[i], step))
            used[i] = step
    return np.array(found, np.int64).reshape(-1, 3)
