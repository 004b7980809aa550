"""By which number the memory of a run knows what it hands out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from remat_algos.allocate.allocation import Allocation
from remat_algos.allocate.buffers import Buffers
from remat_algos.errors import AllocationError
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
        wanted, given = Buffers.of(simulation), allocation.buffers
        workspace = given.instance < 0
        # buffers in the order of the schedule's own: instances, then workspaces by step
        order = np.lexsort((given.begin, np.where(workspace, n, given.instance)))
        fields = ("instance", "begin", "end", "size")
        if len(given) != len(wanted) or any(
            not np.array_equal(getattr(given, field)[order], getattr(wanted, field)) for field in fields
        ):
            raise AllocationError(
                "the allocation is not one of this schedule's buffers; allocate Buffers.of(simulate(graph, schedule))"
            )
        of_step = np.full(m, -1)
        of_step[wanted.begin[n:]] = order[n:]
        return cls(order[:n].tolist(), of_step.tolist(), given.over.tolist())
