"""Traces: the requests and frees of a schedule in order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from remat_algos.allocate.allocation import Buffers, whole_numbers
from remat_algos.arguments import checked_arguments
from remat_algos.errors import AllocationError
from remat_algos.ir.arrays import Int64, brief, by_fields, frozen, is_count
from remat_algos.kernels.pools import RELEASE_ALL
from remat_algos.schedule.simulation import Simulation


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """Requests and frees of buffers, step by step.

    Each step requests the values of its node in order, and then the node's workspace. After the step, the workspace is
    freed first, and then each instance that is no longer live, in ascending order of ids.

    Parameters
    ----------
    size : int64[k]
        Bytes of each buffer.
    event : int64[e]
        `b` requests buffer b, `~b` frees it; at `RELEASE_ALL` the allocator returns its free segments to the device.
    step : int64[e]
        The step of each event, ascending; within a step requests precede frees.
    steps : int
        Number of steps.
    stream : int64[k], optional
        Stream of each buffer, 0 by default; caching allocators do not share blocks between streams.

    Raises
    ------
    AllocationError
        If a buffer is requested twice, freed twice, or freed before its request, or if steps descend.

    Examples
    --------
    >>> trace = Trace.of_buffers(Buffers([0, 0, 1], [2, 1, 3], [100, 8, 20]))
    >>> trace.event.tolist(), trace.step.tolist(), trace.requested.tolist()
    ([0, 1, -2, 2, -1, -3], [0, 0, 0, 1, 1, 2], [108, 120, 20])
    """

    size: Int64
    event: Int64
    step: Int64
    steps: int
    stream: Int64 = None  # type: ignore[assignment]  # set by `__post_init__`

    __repr__ = brief
    __reduce__ = by_fields

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", whole_numbers(self.size, "size", sizes=True))
        object.__setattr__(self, "event", whole_numbers(self.event, "event"))
        object.__setattr__(self, "step", whole_numbers(self.step, "step", len(self.event)))
        stream = whole_numbers(0 if self.stream is None else self.stream, "stream", len(self.size))
        object.__setattr__(self, "stream", stream)
        # Results contain an entry for each step, so the number of steps is limited.
        if not is_count(self.steps) or self.steps >= 2**25:
            raise AllocationError(
                "a trace cannot have {steps!r} steps; give a whole number below 2**25", steps=self.steps
            )
        if stream.min(initial=0) < 0 or stream.max(initial=0) >= 2**31:
            raise AllocationError("a stream of the trace is negative, or 2**31 or more; number the streams from 0")
        if self.step.size and (self.step[0] < 0 or self.step[-1] >= self.steps or (np.diff(self.step) < 0).any()):
            raise AllocationError(
                "the steps of a trace must be ascending and from 0 to below {steps}", steps=self.steps
            )
        self._check_events()

    @classmethod
    def of(cls, simulation: Simulation) -> Trace:
        """Return the trace of a schedule, with the buffers of `Buffers.of`."""
        return cls.of_buffers(Buffers.of(simulation), len(simulation.schedule))

    @classmethod
    @checked_arguments
    def of_buffers(cls, buffers: Buffers, steps: int | None = None) -> Trace:
        """Return the trace of any buffers; an in-place chain is requested once, as its first buffer."""
        number, first = np.arange(len(buffers)), buffers.first
        requested = number[buffers.over < 0]
        last = np.ones(len(buffers), bool)
        last[buffers.over[buffers.over >= 0]] = False
        freed = number[last]
        # After a step, free workspaces (instance -1), then instances by number.
        freed = freed[np.argsort(buffers.instance[freed] >= 0, kind="stable")]
        event = np.concatenate([requested, ~first[freed]])
        step = np.concatenate([buffers.begin[requested], buffers.end[freed] - 1])
        order = np.argsort(2 * step + (event < 0), kind="stable")
        end = int(buffers.end.max(initial=0))
        return cls(buffers.size, event[order], step[order], end if steps is None else steps)

    @property
    def requests(self) -> Int64:
        """int64[r]: the buffers in order of request."""
        return self.event[self.event >= 0]

    @property
    def requested(self) -> Int64:
        """int64[m]: requested bytes that are live during each step."""
        freed = self.event < 0
        change = self.size[np.where(freed, ~self.event, self.event) % max(1, self.size.size)]
        change[self.event == RELEASE_ALL] = 0
        return self.during(np.cumsum(np.where(freed, -change, change)))

    def during(self, after: Int64) -> Int64:
        """Return int64[m]: the state during each step, after its requests; `after` is the state after each event."""
        after = frozen(after, np.int64, "after", self.event.size, "event")
        before = np.searchsorted(2 * self.step + (self.event < 0), 2 * np.arange(self.steps) + 1)
        return np.concatenate([[0], after])[before]

    def _check_events(self) -> None:
        event = self.event[self.event != RELEASE_ALL]
        buffer = np.where(event < 0, ~event, event)
        if buffer.size and buffer.max() >= len(self.size):
            raise AllocationError(
                "the trace names buffer {buffer}; buffers are 0 to {last}", buffer=buffer.max(), last=len(self.size) - 1
            )
        if np.unique(event).size != event.size:
            raise AllocationError(
                "a buffer of the trace is requested twice, or freed twice; give each buffer its own number"
            )
        late = np.full(len(self.size), event.size, np.int64)
        requested = np.flatnonzero(event >= 0)
        late[event[requested]] = requested
        freed = np.flatnonzero(event < 0)
        if (late[~event[freed]] > freed).any():
            raise AllocationError("a buffer of the trace is freed before it is requested; request it first")
        if self.event.size > 1 and (np.diff(2 * self.step + (self.event < 0)) < 0).any():
            raise AllocationError("a step of the trace has a request after a free; put requests first")
