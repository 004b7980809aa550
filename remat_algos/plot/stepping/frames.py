"""What is drawn at each step of an animation: the state of every node, the bytes that are live."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from remat_algos.ir.arrays import Int64
from remat_algos.plot.layered_layout import LayeredLayout, layout
from remat_algos.schedule.simulation import Simulation

EMPTY = -1  # no value of the node is live


@dataclass(frozen=True, slots=False, eq=False)
class Frames:
    """The pictures of a schedule, one for each step.

    Parameters
    ----------
    simulation : Simulation
    limit : int or None
        The budget in bytes.
    """

    simulation: Simulation
    limit: int | None = None

    @cached_property
    def placed(self) -> LayeredLayout:
        """Where nodes and edges are."""
        return layout(self.simulation.graph)

    @cached_property
    def changes(self) -> list[list[tuple[int, int]]]:
        """For each node, (step, state) where its state changes, from step 0 on.

        The state is `EMPTY`, or the place of a role in (kept, recomputed, gradient, loaded): that of the latest of its
        live instances.
        """
        simulation, lives = self.simulation, self.simulation.lifetimes
        n, m = simulation.graph.n_nodes, len(simulation.schedule)
        node = simulation.graph.producer[lives.value]
        role = np.minimum(simulation.instance_role, 3)
        found: list[list[tuple[int, int]]] = [[(0, EMPTY)] for _ in range(n)]
        spans: list[list[tuple[int, int, int]]] = [[] for _ in range(n)]
        for v, begin, end, kind in zip(
            node.tolist(), lives.made_at.tolist(), lives.end.tolist(), role.tolist(), strict=True
        ):
            spans[v].append((begin, end, kind))
        for v, each in enumerate(spans):
            steps = sorted({step for begin, end, _ in each for step in (begin, end) if step < m})
            for step in steps:
                live = [(begin, kind) for begin, end, kind in each if begin <= step < end]
                state = max(live)[1] if live else EMPTY
                if step == 0:
                    found[v] = [(0, state)]
                elif state != found[v][-1][1]:
                    found[v].append((step, state))
        return found

    @property
    def top(self) -> int:
        """Bytes at the upper edge of the curve: the peak or the budget."""
        return max(1, self.simulation.peak_memory, self.limit or 0)

    @property
    def trace(self) -> Int64:
        """int64[m]: bytes of each step."""
        return self.simulation.memory_trace

    def states(self, step: int) -> NDArray[np.int64]:
        """int64[n]: the state of every node at a step."""
        return np.array([next(state for at, state in reversed(each) if at <= step) for each in self.changes], np.int64)
