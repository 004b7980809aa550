"""NumPy and CuPy behind one interface: the library, its device, synchronization and timing."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from remat_algos.cost.backends import BACKENDS, processors, usable_cupy
from remat_algos.errors import BackendError
from remat_algos.executor.cuda_kernels import cuda_kernels, try_kernels
from remat_algos.text.wording import quoted

BUSY = 200_000  # ticks: about 0.1 ms, the time in which Python launches the kernels of a synthetic node

Array = Any
"""uint8[n] of NumPy or of CuPy: neither library has a type for both."""


@dataclass(frozen=True, slots=True, eq=False)
class Backend:
    """An array library and its device; made by `backend`.

    Parameters
    ----------
    name : {"numpy", "cupy"}
    xp : module
        numpy or cupy.
    device : str
        Name of the device.
    stream : cupy.cuda.Stream, optional
        The stream of all operations.
    pool : cupy.cuda.MemoryPool, optional
        Pool of arrays that are not counted: residents, scratch, temporaries.

    Examples
    --------
    >>> here = backend("numpy")
    >>> here.name, here.to_host(here.empty(3)).size
    ('numpy', 3)
    """

    name: str
    xp: Any
    device: str
    stream: Any = None
    pool: Any = None

    def empty(self, nbytes: int) -> Array:
        """uint8[nbytes], not counted in a run."""
        with self.uncounted():
            return self.xp.empty(nbytes, np.uint8)

    def host_memory(self, nbytes: int) -> Any:
        """Memory of the host for copies: uint8[nbytes], or pinned memory with its address `ptr` for a GPU."""
        if self.stream is None:
            return np.empty(nbytes, np.uint8)
        return self.xp.cuda.alloc_pinned_memory(max(nbytes, 1))

    def to_host(self, array: Array) -> NDArray[Any]:
        """The array as a NumPy array, once it has been computed."""
        if self.stream is None:
            return array
        copy = self.xp.asnumpy(array, stream=self.stream)
        self.synchronize()
        return copy

    def synchronize(self) -> None:
        """Wait for all launched work."""
        if self.stream is not None:
            self.stream.synchronize()

    def running(self) -> AbstractContextManager[Any]:
        """Context in which all work goes to the stream."""
        return nullcontext() if self.stream is None else self.stream

    def uncounted(self) -> AbstractContextManager[Any]:
        """Context in which memory comes from a separate pool, not the measured one."""
        return nullcontext() if self.pool is None else self.xp.cuda.using_allocator(self.pool.malloc)

    def release(self) -> None:
        """Release free memory of the separate pool to the device."""
        if self.pool is not None:
            self.pool.free_all_blocks()

    def keep_busy(self) -> None:
        """Keep a GPU busy, so that the next kernels are queued completely and start without a gap."""
        if self.stream is not None:
            (spin,) = cuda_kernels(self.xp, "busy.cu", "keep_busy")
            spin((1,), (1,), (np.int64(BUSY),))

    def mark(self) -> Any:
        """A point in time, for `seconds`; does not synchronize."""
        if self.stream is None:
            return perf_counter()
        event = self.xp.cuda.Event()
        event.record(self.stream)
        return event

    def seconds(self, marks: Sequence[Any]) -> NDArray[np.float64]:
        """float64[k]: the time within each pair of 2 * k marks: from the first to the second, and so on."""
        self.synchronize()
        pairs = zip(marks[::2], marks[1::2], strict=True)
        if self.stream is None:
            return np.array([end - start for start, end in pairs], np.float64)
        elapsed = self.xp.cuda.get_elapsed_time
        return np.array([elapsed(start, end) / 1000 for start, end in pairs], np.float64)


def backend(name: str) -> Backend:
    """The backend of that name, ready to run on.

    Parameters
    ----------
    name : {"numpy", "cupy"}
        "numpy" runs on the processors, "cupy" on the GPU.

    Returns
    -------
    Backend

    Raises
    ------
    BackendError
        If the name is unknown or the GPU cannot be used: one sentence with what is missing and what to do.

    Examples
    --------
    >>> backend("numpy").synchronize()
    """
    if name not in BACKENDS:
        raise BackendError(f"no backend is called {quoted(name)}; known: {', '.join(BACKENDS)}")
    if name == "numpy":
        return Backend("numpy", np, processors())
    cupy = usable_cupy()
    key = id(cupy), cupy.cuda.runtime.getDevice()
    if key not in _gpus:
        _gpus[key] = _gpu(cupy, key[1])
    return _gpus[key]


_gpus: dict[tuple[int, int], Backend] = {}
"""One for each library and device, never dropped: the free memory of a CuPy pool is lost with the pool."""


def _gpu(cupy: Any, device: int) -> Backend:
    try_kernels(cupy)
    name = cupy.cuda.runtime.getDeviceProperties(device)["name"].decode()
    return Backend("cupy", cupy, name, cupy.cuda.Stream(non_blocking=True), cupy.cuda.MemoryPool())
