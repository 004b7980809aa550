"""Memory of a run: where its arrays come from, and how their bytes are counted."""

from __future__ import annotations

import weakref
from contextlib import ExitStack
from itertools import cycle
from typing import Any, Protocol, Self

import numpy as np

from remat_algos.allocate.allocation import Allocation, checked_limit
from remat_algos.allocate.pools import CHUNK
from remat_algos.errors import AllocationError, OutOfMemoryError
from remat_algos.executor.array_backend import Array, Backend

# Byte that overwrites freed memory in checking mode. Four such bytes are a tiny float32, and far out of range as an
# index.
PATTERN = 0xA5
# Each allocated array is filled with the next of these, so that unwritten bytes differ between two runs of a node.
BYTES = range(1, 252)
# Kernels on a GPU require addresses that are multiples of this.
WORD = 16


def in_chunks(nbytes: int) -> int:
    return -(-nbytes // CHUNK) * CHUNK


class Memory(Protocol):
    """Allocates the arrays of a run and counts their bytes."""

    @property
    def used(self) -> int:
        """Allocated bytes, with each request rounded up to 512 bytes."""

    @property
    def used_raw(self) -> int:
        """Allocated bytes, without rounding."""

    @property
    def total(self) -> int:
        """Bytes reserved on the device."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def allocate(self, nbytes: int, key: int) -> Array:
        """Allocate uint8[nbytes], to be freed with `key`; raise OutOfMemoryError if it does not fit."""

    def free(self, key: int) -> None:
        """Free an array; the caller must not keep references to it."""

    def peak(self) -> int:
        """Return the maximum of `used` since the last call, including temporaries of operators if they are visible."""
        # The run calls this once per step, after all allocations and before all frees, when `used` is maximum.
        return self.used

    def close(self) -> None:
        """Free all arrays."""


class TrackingMemory(Memory):
    """NumPy arrays, counted in chunks until they are garbage-collected; this reveals operators that keep references."""

    used = used_raw = total = 0

    def __init__(self, backend: Backend, limit: int | None = None, pattern: bool = False) -> None:
        self._limit = checked_limit(limit)
        self._pattern, self._bytes = pattern, cycle(BYTES)
        self._arrays: dict[int, Array] = {}
        # Keyed by a number, because neither arrays nor weak references to them are hashable.
        self._overdue: dict[int, weakref.ref[Any]] = {}

    def allocate(self, nbytes: int, key: int) -> Array:
        """Allocate uint8[nbytes], to be freed with `key`; raise OutOfMemoryError above the limit."""
        chunk = in_chunks(nbytes)
        if self.used + chunk > self._limit:
            raise OutOfMemoryError("the limit is reached", requested=nbytes, free=max(self._limit - self.used, 0))
        try:
            array = self._arrays[key] = np.empty(nbytes, np.uint8)
        except MemoryError:
            raise OutOfMemoryError("this machine has no more", requested=nbytes) from None
        if self._pattern:
            array.fill(next(self._bytes))
        self.used += chunk
        self.used_raw += nbytes
        if self.used > self.total:
            self.total = self.used
        return array

    def free(self, key: int) -> None:
        """Free an array; it counts as used until its last reference is gone."""
        array = self._arrays.pop(key)
        if self._pattern:
            array.fill(PATTERN)
        number = id(array)
        self._overdue[number] = weakref.ref(array, self._gone(number, array.size))  # callback may run at once

    def close(self) -> None:
        self._arrays.clear()
        self._overdue.clear()
        self.used = self.used_raw = 0

    def _gone(self, number: int, nbytes: int) -> Any:
        def count_out(_: object) -> None:
            if self._overdue.pop(number, None) is not None:  # None after `close`
                self.used -= in_chunks(nbytes)
                self.used_raw -= nbytes

        return count_out


class PoolMemory(Memory):
    """Arrays from a separate CuPy memory pool, which also serves the temporaries of operators.

    Each query of the bytes in use makes the pool scan all its chunks. So the run queries the pool once per step, and a
    memory hook counts the requests in between. `limit` is the maximum number of bytes that the pool reserves.
    """

    used_raw = 0

    def __init__(self, backend: Backend, limit: int | None = None, pattern: bool = False) -> None:
        self._xp, self._pattern, self._bytes = backend.xp, pattern, cycle(BYTES)
        bytes_allowed = checked_limit(limit)
        self._pool = backend.xp.cuda.MemoryPool()
        if limit is not None:
            self._pool.set_limit(size=max(bytes_allowed, 1))  # 0 means no limit
        self._limit = limit
        self._hook = _pool_hook(backend.xp.cuda)
        self._arrays: dict[int, Array] = {}
        self._inside = ExitStack()

    @property
    def used(self) -> int:
        return int(self._pool.used_bytes())

    @property
    def total(self) -> int:
        return int(self._pool.total_bytes())

    def __enter__(self) -> Self:
        with ExitStack() as inside:
            inside.enter_context(self._xp.cuda.using_allocator(self._malloc))
            inside.enter_context(self._hook)
            self._inside = inside.pop_all()
        return self

    def allocate(self, nbytes: int, key: int) -> Array:
        """Allocate uint8[nbytes], to be freed with `key`; raise OutOfMemoryError if memory does not suffice."""
        try:
            memory = self._malloc(nbytes)
        except MemoryError:
            raise OutOfMemoryError("the pool has no more", requested=nbytes, free=self._free()) from None
        array = self._arrays[key] = self._xp.ndarray((nbytes,), np.uint8, memptr=memory)
        if self._pattern and nbytes:
            array.fill(next(self._bytes))
        self.used_raw += nbytes
        return array

    def free(self, key: int) -> None:
        """Free an array; the pool counts it as used until its last reference is gone."""
        array = self._arrays.pop(key)
        self.used_raw -= array.size
        if self._pattern and array.size:
            array.fill(PATTERN)
        del array
        self._hook.high = self._hook.now  # the maximum restarts here

    def peak(self) -> int:
        """Return the maximum of `used` since the last call or the last free."""
        used = self._hook.now = self.used
        high, self._hook.high = max(self._hook.high, used), used
        return high

    def close(self) -> None:
        """Free all arrays, and return the memory of the pool to the device."""
        self._arrays.clear()
        self._inside.close()
        self._pool.free_all_blocks()
        self.used_raw = 0

    def _malloc(self, nbytes: int) -> Any:
        """Allocate from this pool with the hook enabled. CuPy calls hooks for every pool, without naming the pool."""
        self._hook.ours = True
        try:
            return self._pool.malloc(nbytes)
        finally:
            self._hook.ours = False

    def _free(self) -> int:
        """Return the bytes that the pool can still allocate, in any number of chunks."""
        idle = int(self._pool.free_bytes())
        fresh = int(self._xp.cuda.runtime.memGetInfo()[0])
        if self._limit is not None:
            fresh = min(fresh, max(self._limit - self.total, 0))
        return idle + fresh


def _pool_hook(cuda: Any) -> Any:
    """Return a CuPy memory hook that counts requests made while `ours` is set, and the releases of their memory."""

    class PoolHook(cuda.MemoryHook):
        name = "remat_algos"
        ours = False
        now = high = 0

        def __init__(self) -> None:
            super().__init__()
            self._live: set[int] = set()

        def malloc_postprocess(self, *, mem_size: int, mem_ptr: int, pmem_id: int, **_: Any) -> None:
            # The address is 0 if the request was for 0 bytes or failed.
            if self.ours and mem_ptr:
                self._live.add(pmem_id)
                self.now += mem_size
                self.high = max(self.high, self.now)

        def free_postprocess(self, *, mem_size: int, pmem_id: int, **_: Any) -> None:
            if pmem_id in self._live:
                self._live.remove(pmem_id)
                self.now -= mem_size

    return PoolHook()


class ArenaMemory(Memory):
    """One slab with a slice for each buffer of an allocation; buffers that overwrite each other share a slice.

    A buffer is filled with a pattern at the end of its lifetime, and at the start if it does not overwrite another one.
    This destroys any value that still uses these bytes. On a GPU, layers compute the same bits as with a pool if all
    offsets are multiples of 512. At other offsets, libraries may choose kernels that sum in another order.
    """

    used = used_raw = total = 0

    def __init__(self, backend: Backend, allocation: Allocation) -> None:
        buffers = allocation.buffers
        _check_places(allocation, WORD if backend.name == "cupy" else 1)
        self.total = allocation.size
        self._backend = backend
        self._over = buffers.over.tolist()
        self._end = (allocation.offset + buffers.size).tolist()
        self._offset = allocation.offset.tolist()
        self._arrays: dict[int, Array] = {}
        self._slab: Array = None

    def __enter__(self) -> Self:
        try:
            self._slab = self._backend.empty(self.total)
        except MemoryError:
            raise OutOfMemoryError("the arena does not fit", requested=self.total) from None
        return self

    def allocate(self, nbytes: int, key: int) -> Array:
        """Return the slice of a buffer; a buffer that overwrites another gets the same array."""
        over = self._over[key]
        if over >= 0 and over in self._arrays:
            array = self._arrays[key] = self._arrays.pop(over)
            return array
        array = self._arrays[key] = self._slab[self._offset[key] : self._end[key]]
        if nbytes:
            array.fill(PATTERN)
        self.used += in_chunks(nbytes)
        self.used_raw += nbytes
        return array

    def free(self, key: int) -> None:
        """Free the bytes of a buffer, unless another buffer has overwritten it."""
        array = self._arrays.pop(key, None)
        if array is None:
            return
        self.used -= in_chunks(array.size)
        self.used_raw -= array.size
        if array.size:
            array.fill(PATTERN)

    def close(self) -> None:
        self._arrays.clear()
        self._slab = None
        self.used = self.used_raw = 0


def _check_places(allocation: Allocation, multiple: int) -> None:
    buffers, offset = allocation.buffers, allocation.offset
    outside = (offset < 0) | (offset + buffers.size > allocation.size)
    if outside.any():
        i = int(outside.argmax())
        raise AllocationError(
            "buffer {name} occupies bytes {begin}:{end}, outside the arena of {size:byte}",
            name=buffers.name(i),
            begin=offset[i],
            end=offset[i] + buffers.size[i],
            size=allocation.size,
        )
    above = np.flatnonzero(buffers.over >= 0)
    elsewhere = above[offset[above] != offset[buffers.over[above]]]
    if elsewhere.size:
        i = int(elsewhere[0])
        below = int(buffers.over[i])
        raise AllocationError(
            "buffer {name} at offset {offset} overwrites buffer {below} at offset {below_offset}; give equal offsets",
            name=buffers.name(i),
            offset=offset[i],
            below=buffers.name(below),
            below_offset=offset[below],
        )
    if (offset % multiple).any():
        i = int((offset % multiple != 0).argmax())
        raise AllocationError(
            "buffer {name} is at offset {offset}, which a GPU cannot use; allocate with alignment=512",
            name=buffers.name(i),
            offset=offset[i],
        )
