"""Frames of an animation: the state of every node at each step, and the bytes that are live."""

from bisect import bisect_right
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from remat_algos.forks import cached_property
from remat_algos.ir.arrays import Int64
from remat_algos.plot.layered_layout import LayeredLayout, layout
from remat_algos.schedule.simulation import Simulation

EMPTY = -1  # no value of the node is live
MAX_STATE = 3


@dataclass(frozen=True, slots=False, eq=False)  # cached properties need a `__dict__`
class Frames:
    """The pictures of a schedule, one for each of some steps; places in them count from the first.

    Parameters
    ----------
    simulation : Simulation
    limit : int or None
        The budget in bytes.
    steps : range
    """

    simulation: Simulation
    limit: int | None
    steps: range

    @cached_property
    def placed(self) -> LayeredLayout:
        """Where nodes and edges are."""
        return layout(self.simulation.graph)

    @cached_property
    def changes(self) -> list[list[tuple[int, int]]]:
        """For each node, (place, state) where its state changes, from place 0 on.

        The state is `EMPTY`, or the place of a role in (kept, recomputed, gradient, loaded): that of the latest of its
        live instances.
        """
        simulation, lives = self.simulation, self.simulation.lifetimes
        node = simulation.graph.producer[lives.value]
        role = np.minimum(simulation.instance_role, MAX_STATE)
        first, stop = self.steps.start, self.steps.stop
        found: list[list[tuple[int, int]]] = []
        spans: list[list[tuple[int, int, int]]] = [[] for _ in range(simulation.graph.n_nodes)]
        for v, begin, end, kind in zip(
            node.tolist(), lives.made_at.tolist(), lives.end.tolist(), role.tolist(), strict=True
        ):
            if end > first and begin < stop:
                spans[v].append((begin, end, kind))
        for each in spans:
            states: list[tuple[int, int]] = []
            live: list[
                tuple[int, int, int]
            ] = []  # a heap, the latest first; those that have ended go when they are first
            coming = sorted(each, reverse=True)
            for step in sorted({first, *(s for begin, end, _ in each for s in (begin, end) if first < s < stop)}):
                while coming and coming[-1][0] <= step:
                    begin, end, kind = coming.pop()
                    heappush(live, (-begin, -kind, end))
                while live and live[0][2] <= step:
                    heappop(live)
                state = -live[0][1] if live else EMPTY
                if not states or state != states[-1][1]:
                    states.append((step - first, state))
            found.append(states)
        return found

    @property
    def order(self) -> list[int]:
        """The node that runs at each place."""
        return self.simulation.schedule.order[self.steps.start : self.steps.stop].tolist()

    @property
    def peak(self) -> int:
        """The first place with the most bytes; 0 without a step."""
        return int(self.trace.argmax()) if self.trace.size else 0

    @property
    def top(self) -> int:
        """Bytes at the upper edge of the curve: the peak or the budget."""
        return max(1, self.simulation.peak_memory, self.limit or 0)

    @property
    def trace(self) -> Int64:
        """int64[m]: bytes at each place."""
        return self.simulation.memory_trace[self.steps.start : self.steps.stop]

    def states(self, place: int) -> NDArray[np.int64]:
        """int64[n]: the state of every node at a place."""
        return np.array([each[bisect_right(each, (place, MAX_STATE)) - 1][1] for each in self.changes], np.int64)
