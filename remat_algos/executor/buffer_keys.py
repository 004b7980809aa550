"""Keys of allocations in the memory of a run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from remat_algos.allocate.allocation import Allocation
from remat_algos.schedule.simulation import Simulation


@dataclass(frozen=True, slots=True, eq=False)
class BufferKeys:
    """Keys of the instances and of the workspace of each step: the numbers of buffers, if there is an allocation."""

    instance: list[int]
    workspace: list[int]
    over: list[int]  # by key: the key that it is written over, or -1

    @classmethod
    def of(cls, simulation: Simulation, allocation: Allocation | None) -> BufferKeys:
        """The keys of a schedule; AllocationError if the allocation is for other buffers."""
        n, m = simulation.lifetimes.value.size, len(simulation.schedule)
        if allocation is None:
            return cls(list(range(n)), [n] * m, [-1] * n)
        buffers = allocation.buffers
        order = buffers.places(simulation)
        of_step = np.full(m, -1)
        of_step[buffers.begin[order[n:]]] = order[n:]
        return cls(order[:n].tolist(), of_step.tolist(), buffers.over.tolist())
