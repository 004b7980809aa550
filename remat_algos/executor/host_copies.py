"""Copies to the host and back during a run, with one engine per direction, concurrent with compute."""

from __future__ import annotations

import math
from contextlib import suppress
from queue import SimpleQueue
from threading import TIMEOUT_MAX, Lock, Thread
from typing import Any, Self

import numpy as np

from remat_algos.allocate.allocation import Buffers
from remat_algos.allocate.offsets import pack
from remat_algos.cost.links import Link
from remat_algos.errors import OutOfMemoryError
from remat_algos.executor import tuning
from remat_algos.executor.array_backend import Array, Backend
from remat_algos.schedule.simulation import Simulation, Step

Action = tuple[str, int]
"""("store" or "load", value): a copy begins. ("stored" or "loaded", value): a copy has ended. ("compute", node): a node
runs. ("free", value): a value is freed."""


ENDED = {"store": "stored", "load": "loaded"}

Ended = tuple[SimpleQueue[BaseException | None], SimpleQueue[BaseException | None]]
"""When a copy ends, both queues receive its error or None. The run waits on the first, a later load on the second."""


class ThreadEngine:
    """Copies NumPy arrays in one direction on a thread, in the order of the requests.

    A copy takes as long as it would over the link, and moves its bytes at the end of this time. So if memory is freed
    before its store ends, or read before its load ends, values are wrong. Threads communicate only through
    `SimpleQueue` and `Lock`, which are written in C, because an interrupt could leave an `Event` locked. `get` is
    called without a timeout, because a call with a short timeout may never return (CPython 3.11).
    """

    def __init__(self, host: Array, way: str, latency: float, rate: float, events: list[Action]) -> None:
        self._host, self._way, self._latency, self._rate, self._events = host, way, latency, rate, events
        self._jobs: SimpleQueue[Any] = SimpleQueue()
        self._running = Lock()  # released to stop the thread
        self._running.acquire()
        self._stopped = False
        self._thread = Thread(target=self._work, daemon=True)

    def copy(self, value: int, array: Array, offset: int, after: Ended | None) -> Ended:
        """Request a copy between an array and an offset in host memory, after the copy `after`; return a token."""
        if self._thread.ident is None:
            self._thread.start()
        ended: Ended = SimpleQueue(), SimpleQueue()
        self._jobs.put((value, array, offset, after, ended))
        return ended

    def wait(self, copy: Ended) -> None:
        error = copy[0].get()
        if error is not None:
            raise error

    def close(self) -> None:
        """Stop the engine; no copy is running when this returns."""
        with suppress(RuntimeError):  # raised by a second call
            self._running.release()
        self._jobs.put(None)
        if self._thread.is_alive():
            self._thread.join()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            value, array, offset, after, ended = job
            error = None
            try:
                self._move(value, array, offset, after)
            except BaseException as caught:
                error = caught
            # The waiting thread frees the array, so this thread must not refer to it any longer.
            del job, array
            for waiting in ended:
                waiting.put(error)

    def _move(self, value: int, array: Array, offset: int, after: Ended | None) -> None:
        if after is not None:
            error = after[1].get()
            after[1].put(error)  # for the value's next load
            if error is not None:
                raise error
        self._events.append((self._way, value))
        seconds = min(self._latency + array.size / self._rate, TIMEOUT_MAX) if array.size else 0
        self._stopped = self._stopped or self._running.acquire(timeout=seconds)
        if self._stopped:
            return
        place = self._host[offset : offset + array.size]
        np.copyto(*((place, array) if self._way == "store" else (array, place)))
        self._events.append((ENDED[self._way], value))


class StreamEngine:
    """Copies CuPy arrays to and from pinned memory on a stream of its own."""

    def __init__(self, on: Backend, host: Any, way: str) -> None:
        self._on, self._host, self._way = on, host, way
        self._stream = on.xp.cuda.Stream(non_blocking=True)

    def copy(self, value: int, array: Array, offset: int, after: Any) -> Any:
        """Enqueue a copy after all work on the compute stream and after the copy `after`; see `ThreadEngine`."""
        for event in (self._on.mark(), after):
            if event is not None:
                self._stream.wait_event(event)
        # An empty array has no address.
        if array.size:
            move = array.data.copy_to_host_async if self._way == "store" else array.data.copy_from_host_async
            move(self._host.ptr + offset, array.size, self._stream)
        ended = self._on.xp.cuda.Event()
        ended.record(self._stream)
        return ended

    def wait(self, copy: Any) -> None:
        """Make the compute stream wait for a copy; see `ThreadEngine`."""
        self._on.stream.wait_event(copy)

    def close(self) -> None:
        """Wait for all launched copies; see `ThreadEngine`."""
        self._stream.synchronize()


Engine = ThreadEngine | StreamEngine


class HostCopies:
    """The stores and loads of a run, and the bytes on the host. With NumPy, copies take the time that `link` needs."""

    def __init__(self, on: Backend, simulation: Simulation, link: Link | None = None) -> None:
        steps = list(simulation.steps())
        self.loads = [step.loads for step in steps]
        self.stores = [step.stores for step in steps]
        self.used = 0
        self.events: list[Action] = []
        self._on, self._link, self._peak = on, link, simulation.host_peak
        self._value: list[int] = simulation.lifetimes.value.tolist()
        self._size: list[int] = simulation.graph.memory.tolist()
        self._gone: list[list[int]] = [[] for _ in steps]  # per step: values to remove
        self._offset: dict[int, int] = {}
        self._capacity = self._place(steps)
        self._engines: dict[str, Engine] = {}
        # `_stored` maps values to their stores. `_leaving` and `_arriving` map instances to the stores and loads that
        # the run has not waited for yet.
        self._stored: dict[int, Any] = {}
        self._leaving: dict[int, Any] = {}
        self._arriving: dict[int, Any] = {}

    def _place(self, steps: list[Step]) -> int:
        read: dict[int, int] = {}  # instance -> first reading step
        for at, step in enumerate(steps):
            for _, i in step.reads:
                read.setdefault(i, at)
        begin = {self._value[i]: at + 1 for at, step in enumerate(steps) for i in step.stores}
        last = {self._value[i]: (i, at) for at, step in enumerate(steps) for i in step.loads}
        for x, (i, at) in last.items():
            self._gone[read.get(i, at)].append(x)
        # The host bytes of an instance that is never read stay live during the step after its load.
        end = [read.get(i, at + 1) + 1 for i, at in last.values()]
        buffers = Buffers([begin[x] for x in last], end, [self._size[x] for x in last])  # type: ignore[arg-type]
        allocation, allowed = pack(buffers, time_limit=0), None if self._link is None else self._link.host
        if allowed is not None and self._peak <= allowed < allocation.size:
            allocation = pack(buffers, capacity=allowed, time_limit=tuning.HOST_PACKING)
        self._offset = dict(zip(last, allocation.offset.tolist(), strict=True))
        return allocation.size

    def __enter__(self) -> Self:
        allowed = None if self._link is None else self._link.host
        if allowed is not None and self._capacity > allowed:
            amount, where = (self._peak, "") if self._peak > allowed else (self._capacity, " in one block")
            raise OutOfMemoryError(
                "the copies need {amount:,} bytes of host memory{where!w}, but {allowed:,} are allowed; allow more, or "
                "use a schedule with fewer loads",
                amount=amount,
                where=where,
                allowed=allowed,
                requested=amount,
                free=allowed,
            )
        try:
            host = self._on.host_memory(self._capacity)
        except (MemoryError, RuntimeError) as error:
            # A RuntimeError that does not mention memory comes from an earlier kernel.
            if isinstance(error, RuntimeError) and "memory" not in str(error).lower():
                raise
            raise OutOfMemoryError(
                "the copies need {capacity:,} bytes of host memory, which are not available; use a schedule with fewer "
                "loads",
                capacity=self._capacity,
                requested=self._capacity,
            ) from None
        self._engines = {way: self._engine(host, way) for way in ENDED}
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop both engines, the stores first, because loads wait for them."""
        for engine in self._engines.values():
            engine.close()
        self._stored.clear()
        self._leaving.clear()
        self._arriving.clear()

    def _engine(self, host: Any, way: str) -> Engine:
        if self._on.stream is not None:
            return StreamEngine(self._on, host, way)
        latency, rate = 0.0, math.inf
        if self._link is not None:
            latency, rate = self._link.latency, self._link.out if way == "store" else self._link.into
        return ThreadEngine(host, way, latency, rate, self.events)

    def load(self, i: int, array: Array) -> None:
        """Request a copy of an instance from the host; it begins when the store of its value has ended."""
        x = self._value[i]
        self._arriving[i] = self._engines["load"].copy(x, array, self._offset[x], self._stored[x])

    def store(self, i: int, array: Array) -> None:
        x = self._value[i]
        self._stored[x] = self._leaving[i] = self._engines["store"].copy(x, array, self._offset[x], None)
        self.used += self._size[x]

    def arrive(self, i: int) -> bool:
        """Wait for the load of an instance; return False if it was not loaded or the run has already waited for it."""
        copy = self._arriving.pop(i, None)
        if copy is not None:
            self._engines["load"].wait(copy)
        return copy is not None

    def leave(self, i: int) -> None:
        copy = self._leaving.pop(i, None)
        if copy is not None:
            self._engines["store"].wait(copy)

    def finish(self) -> None:
        for i in list(self._leaving):
            self.leave(i)

    def end_step(self, step: int) -> None:
        """Subtract from `used` the bytes of the values that leave the host after a step."""
        self.used -= sum([self._size[x] for x in self._gone[step]])
