"""Measure the rates of this machine or of its GPU, and return them as a device."""

import os
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from remat_algos.arguments import checked_arguments
from remat_algos.cost import tuning
from remat_algos.cost.backends import BACKENDS, CUDA_PARTS, processors, usable_cupy
from remat_algos.cost.devices import Device, element_bytes, unknown_name
from remat_algos.cost.links import Link
from remat_algos.errors import ArgumentError, BackendError, GraphError

MEASURABLE = ("float64", "float32", "float16")  # available in both libraries


Seconds = Sequence[float]


@dataclass(frozen=True, slots=True)
class Timings:
    """Measured times of operations in seconds; each operation is timed several times.

    `products[dtype][n]` are the times of products of two n x n matrices. `streams` are pairs of the bytes that an
    element-wise operation reads and writes, and its times. `launches` are the times of an operation on one element.
    `copies` has a mapping for copies from the device to pinned memory, and one for copies back. Each maps numbers of
    bytes to times.
    """

    products: Mapping[str, Mapping[int, Seconds]]
    streams: Sequence[tuple[int, Seconds]]
    launches: Seconds
    copies: tuple[Mapping[int, Seconds], Mapping[int, Seconds]] | None = None

    def device(self, name: str, memory: int, source: str, multiprocessors: int | None = None) -> Device:
        """Return the device: best rates, median launch time, and the link that minimizes squared relative errors."""
        flops = {
            dtype: max(2 * n**3 / _fastest(seconds) for n, seconds in sizes.items())
            for dtype, sizes in self.products.items()
        }
        bandwidth = max(moved / _fastest(seconds) for moved, seconds in self.streams)
        link = None if self.copies is None else _link(self.copies, source)
        launch = statistics.median(self.launches)
        return Device(name, flops, bandwidth, launch, memory, source, link, multiprocessors)


def _link(copies: tuple[Mapping[int, Seconds], Mapping[int, Seconds]], source: str) -> Link:
    rows = [(way, size, _fastest(seconds)) for way in (0, 1) for size, seconds in copies[way].items()]
    way, size, seconds = map(np.array, zip(*rows, strict=True))
    parts = np.stack([np.ones(size.shape), size * (way == 0), size * (way == 1)]) / seconds
    latency, *slopes = np.linalg.lstsq(parts.T, np.ones(size.shape), rcond=None)[0].tolist()
    if latency < 0:
        latency, slopes = 0.0, [(part.sum() / (part @ part)).item() for part in parts[1:]]
    # If times do not grow with size, the slope is 0 or negative. A lower limit on the slope keeps the rate finite.
    out, into = (1 / max(slope, 1e-9 / size.max().item()) for slope in slopes)
    out, into, latency = (float(f"{number:.4g}") for number in (out, into, latency))  # further digits are noise
    return Link(out, into, latency, source=source)


@checked_arguments
def calibrate(*, dtype: str = "float32", backend: str = "numpy", repeats: int = 5, size: int = 8192) -> Device:
    """Measure this machine, or its GPU, as a device for `cost="measured"`; this takes a few seconds.

    Parameters
    ----------
    dtype : {"float64", "float32", "float16"}, optional
        The type whose matrix products are measured in addition to float32.
    backend : {"numpy", "cupy"}, optional
        The library to measure: "numpy" on the processors, "cupy" on the GPU.
    repeats : int, optional
        Number of timings of each operation. The fastest timing is used, and for launches the median.
    size : int, optional
        The maximum order of the matrices. Orders are doubled up to this maximum, or until products take too long.

    Returns
    -------
    Device
        `bandwidth` is the higher of two rates, of a copy and of an element-wise operation, on arrays larger than any
        cache. `launch` is the mean time of consecutive operations on one element. With "cupy", `multiprocessors` is
        the number that the driver reports. `link` is fitted to copies of 4 KiB to 64 MiB each way; it is None if
        the host cannot pin memory.

    Raises
    ------
    GraphError
        If the backend or the type is unknown.
    BackendError
        If the backend cannot run here, or lacks libraries of CUDA.
    ValueError
        If `repeats` or `size` is below 1.

    Examples
    --------
    >>> device = calibrate(repeats=1, size=64)
    >>> device.rate("float32") > 0 and device.launch > 0
    True
    """
    element_bytes(dtype)
    if dtype not in MEASURABLE:
        raise GraphError("products of {dtype} cannot be measured; use {known!l}", dtype=dtype, known=MEASURABLE)
    if backend not in BACKENDS:
        raise unknown_name("backend", backend, BACKENDS)
    if repeats < 1 or size < 1:
        raise ArgumentError("repeats is {repeats} and size is {size}; give 1 or more", repeats=repeats, size=size)
    library = _numpy() if backend == "numpy" else _cupy()
    try:
        timings = measure(library, dict.fromkeys(("float32", dtype)), repeats, size)
    except (ImportError, RuntimeError) as error:  # plain wheels lack CUDA libraries
        if backend == "numpy":
            raise
        raise BackendError(
            "{library} cannot be measured here ({error!e}); " + CUDA_PARTS, library=library.version, error=error
        ) from error
    return timings.device(
        library.name,
        library.memory,
        f"measured by remat calibrate with {library.version}",
        library.multiprocessors,
    )


@dataclass(frozen=True, slots=True)
class Library:
    """An array library and its device; `finish` waits for started operations, `pinned` allocates pinned memory."""

    arrays: Any
    finish: Callable[[], object]
    name: str
    memory: int
    version: str
    pinned: Callable[[int], Any] | None = None
    multiprocessors: int | None = None


def _numpy() -> Library:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Library(np, lambda: None, processors(), memory, f"NumPy {np.__version__}")


def _cupy() -> Library:
    cupy = usable_cupy()
    properties = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.runtime.getDevice())
    name, memory = properties["name"].decode(), int(properties["totalGlobalMem"])
    finish, pinned = cupy.cuda.runtime.deviceSynchronize, cupy.cuda.alloc_pinned_memory
    multiprocessors = int(properties["multiProcessorCount"])
    return Library(cupy, finish, name, memory, f"CuPy {cupy.__version__}", pinned, multiprocessors)


def measure(library: Library, dtypes: Iterable[str], repeats: int, size: int) -> Timings:
    """Time matrix products of `dtypes`, streams, launches and, if the library can pin host memory, copies."""
    products = {dtype: dict(_products(library, dtype, repeats, size)) for dtype in dtypes}
    return Timings(products, _streams(library, repeats), _launches(library, repeats), _copies(library, repeats))


def _products(library: Library, dtype: str, repeats: int, size: int) -> Iterator[tuple[int, Seconds]]:
    n = min(tuning.SMALLEST_PRODUCT, size)
    while True:
        left = library.arrays.ones((n, n), dtype)
        out = library.arrays.empty_like(left)
        seconds = _timed(library, repeats, partial(library.arrays.dot, left, left, out=out))
        yield n, seconds
        n *= 2
        if n > size or 8 * min(seconds) * (repeats + 1) > tuning.PRODUCT_SECONDS:
            return


def _streams(library: Library, repeats: int) -> list[tuple[int, Seconds]]:
    source = library.arrays.ones(tuning.STREAM_BYTES // 4, "float32")
    target = library.arrays.empty_like(source)
    runs = (partial(library.arrays.copyto, target, source), partial(library.arrays.multiply, source, 2, out=target))
    return [(source.nbytes + target.nbytes, _timed(library, repeats, run)) for run in runs]


def _launches(library: Library, repeats: int) -> Seconds:
    tiny = library.arrays.ones(1, "float32")

    def run() -> None:
        for _ in range(tuning.LAUNCHES_TIMED):
            library.arrays.negative(tiny, out=tiny)

    return [seconds / tuning.LAUNCHES_TIMED for seconds in _timed(library, repeats, run)]


def _copies(library: Library, repeats: int) -> tuple[dict[int, Seconds], dict[int, Seconds]] | None:
    if library.pinned is None:
        return None
    try:
        host = library.pinned(tuning.COPY_SIZES[-1])
    except RuntimeError:  # containers may limit pinned memory
        return None
    device = library.arrays.ones(tuning.COPY_SIZES[-1], "uint8")

    def seconds(copy: Callable[[int, int], object], size: int) -> Seconds:
        def run() -> None:
            for _ in range(tuning.COPIES_TIMED):
                copy(host.ptr, size)

        return [each / tuning.COPIES_TIMED for each in _timed(library, repeats, run)]

    out, into = (
        {size: seconds(copy, size) for size in tuning.COPY_SIZES}
        for copy in (device.data.copy_to_host_async, device.data.copy_from_host_async)
    )
    return out, into


def _timed(library: Library, repeats: int, run: Callable[[], object]) -> Seconds:
    run()
    library.finish()
    seconds = []
    for _ in range(repeats):
        start = perf_counter()
        run()
        library.finish()
        seconds.append(perf_counter() - start)
    return seconds


def _fastest(seconds: Seconds) -> float:
    return max(min(seconds), 1e-9)  # clocks have limited resolution
