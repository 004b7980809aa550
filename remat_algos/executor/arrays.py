"""NumPy and CuPy behind one face: the library, the device it runs on, and how to wait for it."""

from __future__ import annotations

import importlib
import os
import platform
import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from remat_algos.errors import BackendError

BACKENDS = ("numpy", "cupy")

Array = Any
"""uint8[n] of NumPy or of CuPy: neither library has a type for both."""


@dataclass(frozen=True, slots=True, eq=False)
class Backend:
    """An array library, and what it runs on; `backend` makes one.

    Parameters
    ----------
    name : {"numpy", "cupy"}
    xp : module
        NumPy, or CuPy, which has its functions.
    device : str
        What it runs on, in words.
    stream : cupy.cuda.Stream, optional
        The one stream that everything is done on.
    pool : cupy.cuda.MemoryPool, optional
        Of what is not to be counted: residents, scratch, temporaries.

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
        """uint8[nbytes] that no memory of a run counts."""
        with self.apart():
            return self.xp.empty(nbytes, np.uint8)

    def to_host(self, array: Array) -> NDArray[Any]:
        """The array in NumPy, once it has been computed."""
        if self.stream is None:
            return array
        found = self.xp.asnumpy(array, stream=self.stream)
        self.synchronize()
        return found

    def synchronize(self) -> None:
        """Wait until all that was started is done."""
        if self.stream is not None:
            self.stream.synchronize()

    def running(self) -> AbstractContextManager[Any]:
        """Inside it everything goes to the one stream."""
        return nullcontext() if self.stream is None else self.stream

    def apart(self) -> AbstractContextManager[Any]:
        """Inside it memory comes from a pool of its own, not from the one that is measured."""
        return nullcontext() if self.pool is None else self.xp.cuda.using_allocator(self.pool.malloc)

    def mark(self) -> Any:
        """A point in time, for `seconds`; nothing waits for it."""
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
        If no backend is called so, or the GPU cannot be used: one sentence with what is missing and what to do.

    Examples
    --------
    >>> backend("numpy").synchronize()
    """
    if name not in BACKENDS:
        raise BackendError(f"no backend is called {name!r}; known: {', '.join(BACKENDS)}")
    if name == "numpy":
        return Backend("numpy", np, _processors())
    cupy, missing = _cupy()
    if missing is not None:
        raise BackendError(f"backend cupy cannot run here: {missing}")
    runtime = cupy.cuda.runtime
    properties = runtime.getDeviceProperties(runtime.getDevice())
    stream, pool = cupy.cuda.Stream(non_blocking=True), cupy.cuda.MemoryPool()
    return Backend("cupy", cupy, properties["name"].decode(), stream, pool)


def gpu_missing() -> str | None:
    """What keeps CuPy from a GPU, in one sentence with the remedy; None if nothing does.

    Returns
    -------
    str, optional

    Examples
    --------
    >>> reason = gpu_missing()
    >>> reason is None or "; " in reason
    True
    """
    return _cupy()[1]


def _cupy() -> tuple[Any, str | None]:
    """(CuPy, None) if it can compute on a GPU, else (None, why not)."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what its import warns of is no reason to do without it
            cupy = importlib.import_module("cupy")
    except Exception as error:  # broken libraries raise anything
        if isinstance(error, ImportError) and error.name == "cupy":
            return None, "CuPy is not installed; run python -m pip install 'remat_algos[cuda12]' (or cuda13)"
        said = first_line(error)
        return None, f"CuPy cannot be loaded ({said}); install it again for the CUDA version of this machine"
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except Exception as error:
        if "NoDevice" not in str(error):
            said = first_line(error)
            return None, f"CuPy finds no CUDA driver that it can use ({said}); install one, or use backend numpy"
        count = 0
    if count == 0:
        return None, "CuPy finds no CUDA device; run on a machine with an NVIDIA GPU, or use backend numpy"
    try:
        int(cupy.zeros(1, np.uint8)[0])  # a kernel's worth of proof: devices can be there and refuse
    except Exception as error:
        return None, f"the CUDA device refuses to work ({first_line(error)}); free it, or use backend numpy"
    return cupy, None


def first_line(error: BaseException) -> str:
    """The first line of what an error says, without the full stop.

    Examples
    --------
    >>> first_line(OSError("No space left.\\nNone at all."))
    'No space left'
    """
    text = str(error).strip()
    return text.splitlines()[0].rstrip(".")[:200] if text else type(error).__name__


def _processors() -> str:
    return f"{platform.processor() or platform.machine()} with {os.cpu_count()} processors"
