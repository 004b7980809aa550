"""A common interface to NumPy and CuPy: arrays, device, memory, synchronization, timing and CUDA kernels."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from remat_algos.cost.backends import BACKENDS, CUDA_PARTS, processors, usable_cupy
from remat_algos.errors import BackendError
from remat_algos.executor import tuning

MEMINFO = Path("/proc/meminfo")

Array = Any
"""A NumPy or CuPy array of type uint8[n]; `Any`, because no type covers both."""


@dataclass(frozen=True, slots=True, eq=False)
class Backend:
    """An array library and its device. With CuPy, `pool` allocates the arrays that a run does not count."""

    name: str
    xp: Any
    device: str
    stream: Any = None
    pool: Any = None

    def empty(self, nbytes: int) -> Array:
        """Allocate uint8[nbytes] that is not counted in the measurements of a run."""
        with self.uncounted():
            return self.xp.empty(nbytes, np.uint8)

    def host_memory(self, nbytes: int) -> Any:
        """Allocate host memory for copies: uint8[nbytes] or, for a GPU, pinned memory with an address `ptr`."""
        if self.stream is None:
            return np.empty(nbytes, np.uint8)
        return self.xp.cuda.alloc_pinned_memory(max(nbytes, 1))

    def to_host(self, array: Array) -> NDArray[Any]:
        """Return the array as a NumPy array, after waiting for its computation."""
        if self.stream is None:
            return array
        copy = self.xp.asnumpy(array, stream=self.stream)
        self.synchronize()
        return copy

    def synchronize(self) -> None:
        if self.stream is not None:
            self.stream.synchronize()

    def running(self) -> AbstractContextManager[Any]:
        """Return a context in which all work is submitted to the stream."""
        return nullcontext() if self.stream is None else self.stream

    def uncounted(self) -> AbstractContextManager[Any]:
        """Return a context in which memory comes from a separate pool that is not measured."""
        return nullcontext() if self.pool is None else self.xp.cuda.using_allocator(self.pool.malloc)

    def release(self) -> None:
        """Return free memory of the separate pool to the device."""
        if self.pool is not None:
            self.pool.free_all_blocks()

    def keep_busy(self) -> None:
        """Keep a GPU busy for a short time, so that the next kernels are all queued before the first of them starts."""
        if self.stream is not None:
            (spin,) = cuda_kernels(self.xp, "busy.cu", "keep_busy")
            spin((1,), (1,), (np.int64(tuning.BUSY_TICKS),))

    def mark(self) -> Any:
        """Record a point in time for `seconds`, without synchronization."""
        if self.stream is None:
            return perf_counter()
        event = self.xp.cuda.Event()
        event.record(self.stream)
        return event

    def seconds(self, marks: Sequence[Any]) -> NDArray[np.float64]:
        """Return float64[k], for 2 * k marks: the time from mark 2 * i to mark 2 * i + 1."""
        self.synchronize()
        pairs = zip(marks[::2], marks[1::2], strict=True)
        if self.stream is None:
            return np.array([end - start for start, end in pairs], np.float64)
        elapsed = self.xp.cuda.get_elapsed_time
        return np.array([elapsed(start, end) / 1000 for start, end in pairs], np.float64)


def backend(name: str) -> Backend:
    """Return the backend "numpy" or "cupy", ready to run; raise BackendError if the GPU cannot be used."""
    if name not in BACKENDS:
        raise BackendError("unknown backend {name!r}; known: {known!l}", name=name, known=BACKENDS)
    if name == "numpy":
        return Backend("numpy", np, processors())
    cupy = usable_cupy()
    key = id(cupy), cupy.cuda.runtime.getDevice()
    if key not in _gpus:
        _gpus[key] = _gpu(cupy, key[1])
    return _gpus[key]


_gpus: dict[tuple[int, int], Backend] = {}
"""Backends by library and device. They are never deleted, because a deleted CuPy pool does not free device memory."""


def _gpu(cupy: Any, device: int) -> Backend:
    try_kernels(cupy)
    name = cupy.cuda.runtime.getDeviceProperties(device)["name"].decode()
    return Backend("cupy", cupy, name, cupy.cuda.Stream(non_blocking=True), cupy.cuda.MemoryPool())


def free_memory(backend: Backend) -> int | None:
    """Return the free bytes of the GPU, or of this machine for NumPy; None if they are unknown."""
    if backend.name == "cupy":
        return int(backend.xp.cuda.runtime.memGetInfo()[0])
    try:
        available = re.search(r"^MemAvailable: +(\d+) kB$", MEMINFO.read_text(), re.MULTILINE)
        if available is not None:
            return 1024 * int(available[1])
        # Linux kernels before 3.14 do not report MemAvailable.
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
    except (OSError, ValueError):
        return None


def cuda_kernels(cupy: Any, file: str, *names: str) -> list[Any]:
    """Return kernels from a file in kernels/cuda, compiled by CuPy on first use per device."""
    return _built(cupy.RawModule, cupy.cuda.runtime.getDevice(), file, names)


def try_kernels(cupy: Any) -> None:
    """Compile the kernels of every file and launch one of each; raise BackendError if the results are wrong."""
    (checksum,) = cuda_kernels(cupy, "mixing.cu", "checksum")
    (keep_busy,) = cuda_kernels(cupy, "busy.cu", "keep_busy")
    found, word = cupy.zeros(1, "uint32"), cupy.zeros(4, "uint8")
    word.fill(1)
    try:
        keep_busy((1,), (1,), (np.int64(0),))
        checksum((1,), (32,), (word, np.int64(4), found))
        total = int(found[0])
    except Exception as error:
        raise BackendError(
            "the CUDA device does not run kernels ({error!e}); free it, or use backend numpy", error=error
        ) from error
    if total == 0:
        raise BackendError("kernels run on the CUDA device, but have no effect; reinstall CuPy, or use backend numpy")


@cache
def _built(raw_module: Any, device: int, file: str, names: tuple[str, ...]) -> list[Any]:
    source = files("remat_algos.kernels").joinpath("cuda", file).read_text(encoding="utf-8")
    module = raw_module(code=source)
    try:
        return [module.get_function(name) for name in names]
    # CuPy raises various exceptions if there is no compiler.
    except Exception as error:
        raise BackendError(
            "CuPy cannot build kernels here ({error!e}); {cuda_parts!w}", error=error, cuda_parts=CUDA_PARTS
        ) from error
