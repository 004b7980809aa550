"""By which number the memory of a run knows what it hands out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from remat_algos.allocate.allocation import Allocation
from remat_algos.schedule.simulation import Simulation


@dataclass(frozen=True, slots=True, eq=False)
class BufferKeys:
    """By which number memory knows each instance and the workspace of each step: the buffer's, if there are buffers."""

    instance: list[int]
    workspace: list[int]
    over: list[int]  # by such a number: the one whose memory it takes over, -1 for none

    @classmethod
    def of(cls, simulation: Simulation, allocation: Allocation | None) -> BufferKeys:
        """Of a schedule; AllocationError if the allocation is of other buffers."""
        n, m = simulation.lifetimes.value.size, len(simulation.schedule)
        if allocation is None:
            return cls(list(range(n)), [n] * m, [-1] * n)
        given = allocation.buffers
        order = given.places(simulation)
        of_step = np.full(m, -1)
        of_step[given.begin[order[n:]]] = order[n:]
        return cls(order[:n].tolist(), of_step.tolist(), given.over.tolist())
