"""Where the bytes of a run come from, and how they are counted."""

from __future__ import annotations

import weakref
from contextlib import ExitStack
from itertools import cycle
from typing import Any, Protocol, Self

import numpy as np

from remat_algos.allocate.allocation import Allocation
from remat_algos.allocate.limits import checked_limit
from remat_algos.errors import AllocationError, OutOfMemoryError
from remat_algos.executor.arrays import Array, Backend
from remat_algos.ir.wording import shortened

CHUNK = 512  # bytes: what allocators of GPUs round up to
PATTERN = 0xA5  # over freed bytes where runs are checked: as a float32 it is tiny, as an index far outside
BYTES = range(1, 252)  # one after the other over what is handed out: bytes that are never written differ
WORD = 16  # bytes: addresses on a GPU must be multiples, or kernels stop


class Memory(Protocol):
    """What hands out the bytes of a run, and counts them."""

    @property
    def used(self) -> int:
        """Bytes handed out and not given back, each request rounded up to 512."""

    @property
    def used_raw(self) -> int:
        """The same to the byte."""

    @property
    def total(self) -> int:
        """Bytes reserved on the device."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...

    def allocate(self, nbytes: int, key: int) -> Array:
        """uint8[nbytes]; `key` gives it back. OutOfMemoryError if there is no room."""

    def free(self, key: int) -> None:
        """Give it back; nobody holds the array any more."""

    def peak(self) -> int:
        """The most that `used` was since this was last asked, temporaries of operators among it where they show."""

    def close(self) -> None:
        """Give everything back."""


class TrackingMemory:
    """Arrays of NumPy, counted as an allocator of a GPU would: each request rounded up to 512 bytes.

    An array counts until it is really gone: one that an operator still holds after `free` stays in `used`.

    Parameters
    ----------
    backend : Backend
    limit : int, optional
        Most bytes that `used` may be; 0 or more.
    pattern : bool
        Fill what is handed out, with another byte each time, and overwrite what is given back.

    Examples
    --------
    >>> from remat_algos.executor.arrays import backend
    >>> with TrackingMemory(backend("numpy")) as memory:
    ...     array = memory.allocate(513, key=7)
    ...     memory.used, memory.used_raw
    (1024, 513)
    """

    def __init__(self, backend: Backend, limit: int | None = None, pattern: bool = False) -> None:
        self.used = self.used_raw = self.total = 0
        self._limit = checked_limit(limit)
        self._pattern, self._bytes = pattern, cycle(BYTES)
        self._held: dict[int, Array] = {}
        self._overdue: dict[int, weakref.ref[Any]] = {}  # by number: arrays are no keys, nor what refers to them

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def allocate(self, nbytes: int, key: int) -> Array:
        """uint8[nbytes]; `key` gives it back. OutOfMemoryError beyond the limit."""
        chunk = -(-nbytes // CHUNK) * CHUNK
        if self.used + chunk > self._limit:
            raise OutOfMemoryError("the limit is reached", asked=nbytes, free=max(self._limit - self.used, 0))
        try:
            array = self._held[key] = np.empty(nbytes, np.uint8)
        except MemoryError:
            raise OutOfMemoryError("this machine has no more", asked=nbytes) from None
        if self._pattern:
            array.fill(next(self._bytes))
        self.used += chunk
        self.used_raw += nbytes
        if self.used > self.total:
            self.total = self.used
        return array

    def free(self, key: int) -> None:
        """Give it back; if somebody holds it, it counts until they let go."""
        array = self._held.pop(key)
        if self._pattern:
            array.fill(PATTERN)
        number = id(array)
        self._overdue[number] = weakref.ref(array, self._gone(number, array.size))  # told at once, unless it is held

    def peak(self) -> int:
        """What is used now: nothing is handed out between two questions that is not held at the second."""
        return self.used

    def close(self) -> None:
        """Let go of all arrays."""
        self._held.clear()
        self._overdue.clear()
        self.used = self.used_raw = 0

    def _count_out(self, nbytes: int) -> None:
        self.used -= -(-nbytes // CHUNK) * CHUNK
        self.used_raw -= nbytes

    def _gone(self, number: int, nbytes: int) -> Any:
        def count_out(_: object) -> None:
            if self._overdue.pop(number, None) is not None:  # None: all has been let go of
                self._count_out(nbytes)

        return count_out


class PoolMemory:
    """Arrays from a memory pool of CuPy of their own; temporaries that operators ask CuPy for come from it too.

    The counts are the pool's own, taken once a step, since the pool looks through all its chunks for them; a memory
    hook sees what comes and goes between two of them.

    Parameters
    ----------
    backend : Backend
    limit : int, optional
        Most bytes that the pool may reserve; 0 or more.
    pattern : bool
        Fill what is handed out, with another byte each time, and overwrite what is given back.
    """

    def __init__(self, backend: Backend, limit: int | None = None, pattern: bool = False) -> None:
        self.used_raw = 0
        self._xp, self._pattern, self._bytes = backend.xp, pattern, cycle(BYTES)
        bytes_allowed = checked_limit(limit)
        self._pool = backend.xp.cuda.MemoryPool()
        if limit is not None:
            self._pool.set_limit(size=max(bytes_allowed, 1))  # 0 would be no limit
        self._limit = limit
        self._hook = _watching_hook(backend.xp.cuda)
        self._held: dict[int, Array] = {}
        self._inside = ExitStack()

    @property
    def used(self) -> int:
        """Bytes handed out and not given back, each request rounded up to 512."""
        return int(self._pool.used_bytes())

    @property
    def total(self) -> int:
        """Bytes reserved on the device."""
        return int(self._pool.total_bytes())

    def __enter__(self) -> Self:
        with ExitStack() as inside:
            inside.enter_context(self._xp.cuda.using_allocator(self._malloc))
            inside.enter_context(self._hook)
            self._inside = inside.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def allocate(self, nbytes: int, key: int) -> Array:
        """uint8[nbytes]; `key` gives it back. OutOfMemoryError beyond the limit, or what the device has."""
        try:
            memory = self._malloc(nbytes)
        except MemoryError:
            raise OutOfMemoryError("the pool has no more", asked=nbytes, free=self._free()) from None
        array = self._held[key] = self._xp.ndarray((nbytes,), np.uint8, memptr=memory)
        if self._pattern and nbytes:
            array.fill(next(self._bytes))
        self.used_raw += nbytes
        return array

    def free(self, key: int) -> None:
        """Give it back; if somebody holds it, the pool counts it until they let go."""
        array = self._held.pop(key)
        self.used_raw -= array.size
        if self._pattern and array.size:
            array.fill(PATTERN)
        del array
        self._hook.high = self._hook.now  # what was there before the free is no peak of the next step

    def peak(self) -> int:
        """The most that `used` was since this was last asked, or anything was given back."""
        used = self._hook.now = self.used
        high, self._hook.high = max(self._hook.high, used), used
        return high

    def close(self) -> None:
        """Let go of all arrays and give the device its memory back."""
        self._held.clear()
        self._inside.close()
        self._pool.free_all_blocks()
        self.used_raw = 0

    def _malloc(self, nbytes: int) -> Any:
        """From this pool, and the hook knows that it is: hooks are told of every pool, but not of which."""
        self._hook.ours = True
        try:
            return self._pool.malloc(nbytes)
        finally:
            self._hook.ours = False

    def _free(self) -> int:
        """Bytes that the pool could still hand out, in however many pieces."""
        idle = int(self._pool.free_bytes())
        fresh = int(self._xp.cuda.runtime.memGetInfo()[0])
        if self._limit is not None:
            fresh = min(fresh, max(self._limit - self.total, 0))
        return idle + fresh


def _watching_hook(cuda: Any) -> Any:
    """A memory hook that counts what one pool hands out, and remembers the most; made here, since its base is CuPy's.

    It counts requests while `ours` is set, and frees of what these gave.
    """

    class Watch(cuda.MemoryHook):
        name = "remat_algos"
        ours = False
        now = high = 0

        def __init__(self) -> None:
            super().__init__()
            self._live: set[int] = set()

        def malloc_postprocess(self, *, mem_size: int, mem_ptr: int, pmem_id: int, **_: Any) -> None:
            if self.ours and mem_ptr:  # none: nothing was asked for, or there was no room
                self._live.add(pmem_id)
                self.now += mem_size
                self.high = max(self.high, self.now)

        def free_postprocess(self, *, mem_size: int, pmem_id: int, **_: Any) -> None:
            if pmem_id in self._live:
                self._live.remove(pmem_id)
                self.now -= mem_size

    return Watch()


class ArenaMemory:
    """One slab; each buffer of an allocation is a slice of it, and what is written over another one is that one's.

    Buffers are filled with a pattern when they begin, if they are not written over another one, and when they end: so
    whatever lies there and is still needed is lost, and missed. Where 512 divides all offsets, real layers make the
    same bits on a GPU as from its pool; at other offsets libraries may choose other kernels, which sum in other orders.

    Parameters
    ----------
    backend : Backend
    allocation : Allocation
        Buffers may overlap where they should not.

    Raises
    ------
    AllocationError
        If a buffer lies outside the arena, where a GPU cannot read it, or elsewhere than what it is written over.

    Examples
    --------
    >>> from remat_algos.allocate.buffers import Buffers
    >>> from remat_algos.allocate.sharing import share
    >>> from remat_algos.executor.arrays import backend
    >>> with ArenaMemory(backend("numpy"), share(Buffers([0, 1], [1, 2], [100, 100]))) as memory:
    ...     first = memory.allocate(100, key=0)
    ...     memory.free(0)
    ...     np.shares_memory(first, memory.allocate(100, key=1)), memory.total
    (True, 100)
    """

    def __init__(self, backend: Backend, allocation: Allocation) -> None:
        buffers = allocation.buffers
        _check_places(allocation, WORD if backend.name == "cupy" else 1)
        self.total = allocation.size
        self.used = self.used_raw = 0
        self._backend = backend
        self._over = buffers.over.tolist()
        self._end = (allocation.offset + buffers.size).tolist()
        self._offset = allocation.offset.tolist()
        self._held: dict[int, Array] = {}
        self._slab: Array = None

    def __enter__(self) -> Self:
        try:
            self._slab = self._backend.empty(self.total)
        except MemoryError:
            raise OutOfMemoryError("the arena does not fit", asked=self.total) from None
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def allocate(self, nbytes: int, key: int) -> Array:
        """The slice of a buffer: the very same array where it is written over another one."""
        over = self._over[key]
        if over >= 0 and over in self._held:
            array = self._held[key] = self._held.pop(over)
            return array
        array = self._held[key] = self._slab[self._offset[key] : self._end[key]]
        if nbytes:
            array.fill(PATTERN)
        self.used += -(-nbytes // CHUNK) * CHUNK
        self.used_raw += nbytes
        return array

    def free(self, key: int) -> None:
        """Its bytes may be used by others; nothing happens if another one has been written over it."""
        array = self._held.pop(key, None)
        if array is None:
            return
        self.used -= -(-array.size // CHUNK) * CHUNK
        self.used_raw -= array.size
        if array.size:
            array.fill(PATTERN)

    def peak(self) -> int:
        """What is used now."""
        return self.used

    def close(self) -> None:
        """Give the slab back."""
        self._held.clear()
        self._slab = None
        self.used = self.used_raw = 0


def _check_places(allocation: Allocation, multiple: int) -> None:
    buffers, offset = allocation.buffers, allocation.offset
    outside = (offset < 0) | (offset + buffers.size > allocation.size)
    if outside.any():
        i = int(outside.argmax())
        at = f"{offset[i]}:{offset[i] + buffers.size[i]}"
        raise AllocationError(
            f"buffer {shortened(buffers.name(i))} lies at {at}, outside the arena of {allocation.size} bytes"
        )
    above = np.flatnonzero(buffers.over >= 0)
    elsewhere = above[offset[above] != offset[buffers.over[above]]]
    if elsewhere.size:
        i = int(elsewhere[0])
        below = int(buffers.over[i])
        names = shortened(buffers.name(i)), shortened(buffers.name(below))
        lies = f"buffer {names[0]} lies at {offset[i]}, and {names[1]} at {offset[below]}"
        raise AllocationError(f"{lies}, over which it is written; give both one offset")
    if (offset % multiple).any():
        i = int((offset % multiple != 0).argmax())
        raise AllocationError(
            f"buffer {shortened(buffers.name(i))} lies at {offset[i]}, which a GPU cannot use; "
            "allocate with alignment=512"
        )
