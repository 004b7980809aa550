"""Models of allocators: what they hold on the device while a schedule asks and gives back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from remat_algos.allocate.allocation import Allocation
from remat_algos.allocate.limits import FOREVER, checked_limit
from remat_algos.allocate.traces import GIVE_ALL_BACK, Trace
from remat_algos.errors import AllocationError
from remat_algos.ir.arrays import Int64, as_whole, brief, by_fields, frozen
from remat_algos.ir.wording import shortened
from remat_algos.kernels import _addresses, _pools
from remat_algos.schedule.simulation import Simulation

CHUNK = 512  # bytes: both allocators round up to it
MIB = 2**20
SMALL = MIB  # largest request of PyTorch's pool for small ones
SMALL_SEGMENT, LARGE_SEGMENT = 2 * MIB, 20 * MIB
OWN_SEGMENT = 10 * MIB  # a request of so many bytes gets a segment of its own size
SEGMENT_STEP = 2 * MIB  # of which that size is a multiple
SEEDS = (4, 200)  # how many times chance is tried, at least and at most,
TRIED_EVENTS = 500_000  # and in all

TIES = {
    "first": _pools.FIRST,
    "last": _pools.LAST,
    "lowest": _pools.LOWEST,
    "highest": _pools.HIGHEST,
    "random": _pools.RANDOM,
}
SEGMENTS = {"rising": _pools.RISING, "falling": _pools.FALLING, "shuffled": _pools.SHUFFLED}
REPLAYED = "replayed"


@dataclass(frozen=True, slots=True, eq=False)
class PoolRun:
    """What an allocator does with a trace if ties are broken by one rule.

    Parameters
    ----------
    rule : str
        That rule; a random one with its seed.
    used : int64[m]
        Bytes handed out during each step, each chunk as large as it is.
    reserved : int64[m]
        Bytes that the allocator reserves on the device during each step.
    ties : int64[t]
        The step of each request for which another rule might have led elsewhere.
    segment, offset : int64[k]
        Where each buffer lies: a piece of the device's memory, numbered as they come, and the byte in it. -1 for
        buffers without bytes, and for those that found no room.
    """

    rule: str
    used: Int64
    reserved: Int64
    ties: Int64
    segment: Int64
    offset: Int64

    __repr__ = brief
    __reduce__ = by_fields

    def __post_init__(self) -> None:
        for field in ("used", "reserved", "ties", "segment", "offset"):
            object.__setattr__(self, field, frozen(getattr(self, field), np.int64, field))
        if self.used.size != self.reserved.size or self.segment.size != self.offset.size:
            raise AllocationError("the steps or the buffers of a run do not match; give one entry for each in all")


@dataclass(frozen=True, slots=True, eq=False)
class PoolUse:
    """What an allocator hands out and reserves while a trace runs, over the ways to break ties.

    Parameters
    ----------
    allocator : str
    trace : Trace
    runs : tuple of PoolRun
        One if there are no ties, or if their rule is given; else one for each rule that was tried.

    Examples
    --------
    The last request does not fit into the chunk of 1024 bytes that is free by then.

    >>> from remat_algos.allocate.buffers import Buffers
    >>> use = cupy_pool(Trace.of_buffers(Buffers([0, 1, 2, 3], [2, 5, 3, 5], [1000, 500, 600, 1500])))
    >>> use.peak_used, use.peak_reserved, use.exact, f"{use.fragmentation:.2f}"
    (2048, 3072, True, '0.33')
    """

    allocator: str
    trace: Trace
    runs: tuple[PoolRun, ...]

    __repr__ = brief
    __reduce__ = by_fields

    def __post_init__(self) -> None:
        object.__setattr__(self, "runs", tuple(self.runs))
        if not isinstance(self.trace, Trace) or not all(isinstance(run, PoolRun) for run in self.runs):
            raise TypeError("PoolUse takes a Trace and a tuple of PoolRun")
        if not self.runs:
            raise AllocationError("PoolUse has no run; give one or more")
        steps, size = self.trace.steps, self.trace.size.size
        if any(run.used.size != steps or run.segment.size != size for run in self.runs):
            raise AllocationError(f"a run is not one of this trace, which has {steps} steps and {size} buffers")

    @property
    def used(self) -> Int64:
        """int64[m]: bytes handed out during each step; the maximum of all runs."""
        return np.max([run.used for run in self.runs], axis=0)

    @property
    def reserved(self) -> Int64:
        """int64[m]: bytes reserved on the device during each step; the maximum of all runs."""
        return np.max([run.reserved for run in self.runs], axis=0)

    @property
    def least_reserved(self) -> Int64:
        """int64[m]: the same, the minimum of all runs."""
        return np.min([run.reserved for run in self.runs], axis=0)

    @property
    def peak_used(self) -> int:
        """Bytes handed out at the worst step."""
        return max(int(run.used.max(initial=0)) for run in self.runs)

    @property
    def interval(self) -> tuple[int, int]:
        """The minimum and the maximum bytes of the device at the worst step; equal where that is known."""
        peaks = [int(run.reserved.max(initial=0)) for run in self.runs]
        return min(peaks), max(peaks)

    @property
    def peak_reserved(self) -> int:
        """Bytes reserved on the device at the worst step: the upper end of the interval."""
        return self.interval[1]

    @property
    def fragmentation(self) -> float:
        """Share of the reserved peak beyond the used peak."""
        return 1 - self.peak_used / self.peak_reserved if self.peak_reserved else 0.0

    @property
    def ties(self) -> Int64:
        """int64[t]: the steps of requests, in the first run, after which the rules may part."""
        return self.runs[0].ties

    @property
    def exact(self) -> bool:
        """Whether the rules of the allocator leave nothing open: no tie, or replayed."""
        return self.ties.size == 0 or self.runs[0].rule == REPLAYED

    @property
    def failed(self) -> Int64:
        """int64[f]: buffers that found no room within the limit, in some run."""
        asked = self.trace.requests[self.trace.size[self.trace.requests] > 0]
        none = np.array([run.segment[asked] < 0 for run in self.runs])
        return asked[none.any(axis=0)]


def cupy_pool(
    trace: Trace | Simulation,
    *,
    limit: int | None = None,
    ties: str | Sequence[str] | None = None,
    seeds: int | None = None,
    addresses: ArrayLike | None = None,
    before_14_1: bool = False,
) -> PoolUse:
    """What CuPy's memory pool hands out and reserves.

    Requests are rounded up to 512 bytes and get the smallest free chunk that is large enough, whose rest stays free;
    where none is, a new segment of just that size. Freed chunks join their free neighbours. Which of several
    chunks of one size is taken hangs on where Python keeps its objects, so the total is known beforehand only where no
    such tie matters: else it is tried by several rules. What is used is known in any case, unless a limit is reached.

    Parameters
    ----------
    trace : Trace or Simulation
    limit : int, optional
        Bytes that the pool can reserve (`set_limit`); beyond, it frees whole segments and retries.
    ties : str or sequence of str, optional
        Rules to try: "first" and "last" to become free, "lowest" and "highest" address, "random". All by default.
    seeds : int, optional
        Number of random runs; by default 4 to 200, the more the shorter the trace is.
    addresses : int64[k], optional
        Where the real pool put each buffer, anything for those without bytes or without room: ties are broken as it
        did, and nothing is left open.
    before_14_1 : bool
        A request above the limit on its own gives free segments back too before it fails, as CuPy did before 14.1.

    Returns
    -------
    PoolUse

    Raises
    ------
    AllocationError
        For an unknown rule or none, a limit that is not a number of bytes, or an address that the pool cannot have
        given by these rules: of chunks that are live together, none overlap.
    TypeError
        For anything but a simulation; for a plan give `plan.simulation`.

    Examples
    --------
    >>> from remat_algos.ir.graph import ComputationGraph
    >>> from remat_algos.schedule.simulation import simulate
    >>> chain = ComputationGraph.from_edges([(i, i + 1) for i in range(4)], memory=[1, 513, 1, 600, 512])
    >>> use = cupy_pool(simulate(chain, range(5)))
    >>> use.used.tolist(), use.reserved.tolist(), use.exact
    ([512, 1536, 1536, 1536, 1536], [512, 1536, 1536, 1536, 1536], True)
    """
    trace = trace if isinstance(trace, Trace) else Trace.of(trace)
    size = _rounded(trace.size, CHUNK)
    asks = _Asks(size, size, trace.stream, np.ones_like(size), np.full_like(size, FOREVER), not before_14_1, FOREVER)
    return _use("cupy_pool", trace, asks, limit, _rules(TIES, ties, _seeds(trace, seeds)), addresses)


def cuda_caching(
    trace: Trace | Simulation,
    *,
    limit: int | None = None,
    max_split_size: int | None = None,
    seeds: int | None = None,
    addresses: ArrayLike | None = None,
) -> PoolUse:
    """What PyTorch's caching allocator for CUDA hands out and reserves, with its default settings.

    Requests are rounded up to 512 bytes; those up to 1 MiB are cut from segments of 2 MiB, those below 10 MiB from
    segments of 20 MiB, larger ones get a segment of their own, a multiple of 2 MiB. The smallest free block that is
    large enough is taken, of equal ones that of the lowest address. Its rest stays free, of a large one only beyond
    1 MiB: so more may be used than was requested. How the device orders its segments is not known beforehand.

    Parameters
    ----------
    trace : Trace or Simulation
    limit : int, optional
        Bytes that can be reserved (`set_per_process_memory_fraction`, or the device); beyond, segments are released.
    max_split_size : int, optional
        Bytes from which blocks are not split (`max_split_size_mb`); none by default.
    seeds : int, optional
        How many orders of the segments by chance are tried, beside rising and falling ones; by default 4 to 200, the
        more the shorter the trace is.
    addresses : int64[k], optional
        Where the real allocator put each buffer; then nothing is left open.

    Returns
    -------
    PoolUse

    Raises
    ------
    AllocationError
        For an address that the allocator cannot have given by these rules, a limit that is not a number of bytes, or a
        `max_split_size` that is none, or up to 20 MiB.
    TypeError
        For anything but a simulation; for a plan give `plan.simulation`.

    Examples
    --------
    >>> from remat_algos.allocate.buffers import Buffers
    >>> use = cuda_caching(Trace.of_buffers(Buffers([0, 0, 0], [1, 1, 1], [1, 3 * 2**20, 11 * 2**20])))
    >>> use.peak_used - 14 * 2**20, use.peak_reserved // 2**20
    (512, 22)
    """
    oversize = checked_limit(max_split_size, "max_split_size", LARGE_SEGMENT + 1)
    trace = trace if isinstance(trace, Trace) else Trace.of(trace)
    size = _rounded(trace.size, CHUNK)
    small, own = size <= SMALL, size >= OWN_SEGMENT
    segment = np.where(small, SMALL_SEGMENT, np.where(own, _rounded(size, SEGMENT_STEP), LARGE_SEGMENT))
    rest, most = np.where(small, CHUNK, SMALL + 1), np.full_like(size, FOREVER)
    huge = size >= oversize
    rest[huge & ~small] = FOREVER
    most[~huge] = oversize - 1
    most[huge] = size[huge] + LARGE_SEGMENT - 1
    asks = _Asks(size, segment, 2 * trace.stream + small, rest, most, False, oversize)
    return _use("cuda_caching", trace, asks, limit, _rules(SEGMENTS, None, _seeds(trace, seeds)), addresses)


def arena(allocation: Allocation, *, steps: int | None = None) -> PoolUse:
    """The use of one arena at fixed addresses: all of it is reserved from the start, and nothing is left open.

    Parameters
    ----------
    allocation : Allocation
    steps : int, optional
        Of the schedule; by default up to the last that needs a buffer.

    Returns
    -------
    PoolUse

    Raises
    ------
    TypeError
        For anything but an allocation.

    Examples
    --------
    >>> from remat_algos.allocate.buffers import Buffers
    >>> from remat_algos.allocate.offsets import pack
    >>> use = arena(pack(Buffers([0, 1, 2], [2, 3, 4], [4, 2, 3])))
    >>> use.used.tolist(), use.reserved.tolist(), use.exact
    ([4, 6, 5, 3], [6, 6, 6, 6], True)
    """
    if not isinstance(allocation, Allocation):
        schedule = "plan.simulation" if hasattr(allocation, "simulation") else "simulation"
        raise TypeError(f"a {type(allocation).__name__} is not an Allocation; give pack(Buffers.of({schedule}))")
    trace = Trace.of_buffers(allocation.buffers, steps)
    segment = np.where(allocation.buffers.size > 0, 0, -1)
    reserved = np.full(trace.steps, allocation.size, np.int64)
    none = np.empty(0, np.int64)
    run = PoolRun(allocation.method, trace.requested, reserved, none, segment, allocation.offset)
    return PoolUse("arena", trace, (run,))


@dataclass(frozen=True, slots=True, eq=False)
class _Asks:
    """What an allocator makes of each request, as the kernel wants it."""

    size: Int64
    segment: Int64
    arena: Int64
    rest: Int64
    most: Int64
    hasty: bool
    oversize: int


def _rounded(size: Int64, step: int) -> Int64:
    return -(-size // step) * step


def _seeds(trace: Trace, asked: int | None) -> int:
    least, most = SEEDS
    if asked is None:
        return max(least, min(most, TRIED_EVENTS // max(1, trace.event.size)))
    if as_whole(asked) is None or asked < 0:
        raise AllocationError(f"seeds is {shortened(repr(asked))}; give a whole number of random runs")
    return int(asked)


def _rules(known: dict[str, int], asked: str | Sequence[str] | None, seeds: int) -> list[tuple[str, int, int]]:
    """(name, number, seed) of each rule; those of chance with each seed."""
    names = list(known) if asked is None else [asked] if isinstance(asked, str) else list(asked)
    for name in names:
        if name not in known:
            raise AllocationError(f"unknown rule for ties {shortened(name)!r}; use {', '.join(known)}")
    if not names:
        raise AllocationError(f"no rule for ties is given; use {', '.join(known)}")
    by_chance = ("random", "shuffled")
    plain = [(name, known[name], 0) for name in names if name not in by_chance]
    chance = [(f"{name} {seed}", known[name], seed) for name in names if name in by_chance for seed in range(seeds)]
    if not plain + chance:
        raise AllocationError("seeds is 0, and all given rules for ties are random; give 1 or more")
    return plain + chance


def _use(
    allocator: str,
    trace: Trace,
    asks: _Asks,
    limit: int | None,
    rules: Sequence[tuple[str, int, int]],
    addresses: ArrayLike | None,
) -> PoolUse:
    """One run after the other, till there is nothing left open."""
    real, limit = np.empty(0, np.int64), checked_limit(limit)
    if addresses is not None:
        real = frozen(addresses, np.int64, "addresses", len(trace.size))
        rules = [(REPLAYED, rules[0][1], 0)]
    runs: list[PoolRun] = []
    for name, rule, seed in rules:
        used, reserved, tied, segment, offset, parted = _pools.run(
            trace.event,
            asks.size,
            asks.segment,
            asks.arena,
            asks.rest,
            asks.most,
            real,
            rule,
            seed,
            limit,
            asks.hasty,
            asks.oversize,
        )
        if parted >= 0:
            raise AllocationError(
                f"buffer {parted} of {trace.size[parted]} bytes lies at {real[parted]}, where {allocator} had no "
                "chunk for it; are requests, frees and addresses of the same run?"
            )
        if real.size:
            _check_apart(allocator, trace, real, np.where(segment >= 0, asks.size, 0))
        ties = trace.step[np.flatnonzero(tied)]
        runs.append(PoolRun(name, trace.during(used), trace.during(reserved), ties, segment, offset))
        if not ties.size:
            break
    return PoolUse(allocator, trace, tuple(runs))


def _check_apart(allocator: str, trace: Trace, address: Int64, size: Int64) -> None:
    """AllocationError if two chunks of these sizes, 0 for none, share a byte while both are live."""
    asked, given_back = trace.event >= 0, (trace.event < 0) & (trace.event != GIVE_ALL_BACK)
    begin, end = np.zeros(len(size), np.int64), np.full(len(size), len(trace.event), np.int64)
    begin[trace.event[asked]] = np.flatnonzero(asked)
    end[~trace.event[given_back]] = np.flatnonzero(given_back)
    i, j = _addresses.first_clash(begin, end, size, address)
    if i >= 0:
        raise AllocationError(
            f"buffers {i} and {j} lie at {address[i]} and {address[j]}, where their chunks of {size[i]} and {size[j]} "
            f"bytes overlap while both are live; {allocator} gives no such addresses; are they of the same run?"
        )
