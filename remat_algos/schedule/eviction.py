"""A schedule that fits by copies alone: what is not needed for longest leaves, and comes back where it is read."""

from bisect import bisect_right

import numpy as np

from remat_algos.context import Clock
from remat_algos.schedule.schedule import Schedule
from remat_algos.schedule.simulation import Simulation


def evict(simulation: Simulation, limit: int, clock: Clock | None = None) -> Schedule:
    """Add loads until each step is within a limit, where that can be.

    At the highest step that leaves which has the most bytes for the most steps until it is read.

    Parameters
    ----------
    simulation : Simulation
    limit : int
        Bytes.
    clock : Clock, optional
        Looked at for each load: OutOfTime or an interrupt ends the search.

    Examples
    --------
    >>> from remat_algos.ir.graph import ComputationGraph
    >>> from remat_algos.schedule.simulation import simulate
    >>> graph = ComputationGraph.from_edges([(0, 3), (0, 1), (1, 2), (2, 3)], memory=[4, 2, 2, 1])
    >>> schedule = evict(simulate(graph, range(4)), 7)
    >>> schedule.loads.tolist(), simulate(graph, schedule).peak_memory
    ([[3, 0]], 7)
    """
    graph, schedule, lives = simulation.graph, simulation.schedule, simulation.lifetimes
    trace, made_at = simulation.memory_trace.copy(), lives.made_at
    uses: list[list[int]] = [[step] for step in made_at.tolist()]  # of each instance
    for step, taken in enumerate(simulation.steps()):
        for _, i in taken.reads:
            if uses[i][-1] < step:
                uses[i].append(step)
    movable = np.flatnonzero(~graph.output[lives.value] & (graph.memory[lives.value] > 0))
    size, begin, end = graph.memory[lives.value[movable]], made_at[movable], lives.end[movable]
    loads, gone = schedule.loads.tolist(), set[tuple[int, int]]()
    while trace.size and trace[step := int(trace.argmax())] > limit:
        if clock is not None:
            clock.check()
        best, most = None, 0
        for instance, bytes_ in zip(
            *(each[(begin < step) & (end > step + 1)].tolist() for each in (movable, size)), strict=True
        ):
            place = bisect_right(uses[instance], step)
            before, after = uses[instance][place - 1], uses[instance][place]
            if before < step and (instance, after) not in gone and bytes_ * (after - before) > most:
                best, most = (instance, before, after, bytes_), bytes_ * (after - before)
        if best is None:
            break  # all that is live there is needed there
        instance, before, after, bytes_ = best
        gone.add((instance, after))
        trace[before + 1 : after] -= bytes_
        loads.append([after, int(lives.value[instance])])
    return Schedule(schedule.order, loads, schedule.lingering)
