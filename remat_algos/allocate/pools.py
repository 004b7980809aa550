"""Models of caching allocators: bytes reserved on the device while a schedule allocates and frees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from remat_algos.allocate import tuning
from remat_algos.allocate.allocation import NO_LIMIT, Allocation, checked_limit
from remat_algos.allocate.traces import RELEASE_ALL, Trace
from remat_algos.arguments import check_fields, check_kind, checked_arguments
from remat_algos.errors import AllocationError
from remat_algos.ir.arrays import Int64, brief, by_fields, frozen
from remat_algos.kernels.offsets import first_clash
from remat_algos.kernels.pools import FALLING, FIRST, HIGHEST, LAST, LOWEST, RANDOM, RISING, SHUFFLED, run_pool
from remat_algos.schedule.simulation import Simulation

# Both allocators round requests up to multiples of CHUNK bytes.
CHUNK = 512
# Largest request that PyTorch serves from its pool of small blocks.
MIB = SMALL_REQUEST = 2**20
SMALL_SEGMENT, LARGE_SEGMENT = 2 * MIB, 20 * MIB
# Smallest request with a segment of its own; the sizes of such segments are multiples of SEGMENT_STEP.
OWN_SEGMENT = 10 * MIB
SEGMENT_STEP = 2 * MIB

TIES = {"first": FIRST, "last": LAST, "lowest": LOWEST, "highest": HIGHEST, "random": RANDOM}
SEGMENTS = {"rising": RISING, "falling": FALLING, "shuffled": SHUFFLED}
REPLAYED = "replayed"


@dataclass(frozen=True, slots=True, eq=False)
class PoolRun:
    """A simulated run of an allocator on a trace, with one rule to break ties.

    Parameters
    ----------
    rule : str
        Name of the rule. The name of a random rule includes its seed.
    used : int64[m]
        Bytes allocated during each step, counted in whole chunks.
    reserved : int64[m]
        Bytes reserved on the device during each step.
    ties : int64[t]
        Steps of the requests for which another rule may choose another chunk.
    segment, offset : int64[k]
        Address of each buffer: a segment of device memory, numbered in order of allocation, and the offset in it; -1
        for buffers of 0 bytes and failed requests.
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
            raise AllocationError("the arrays of a run differ in length; give one entry per step or per buffer")


@dataclass(frozen=True, slots=True, eq=False)
class PoolUse:
    """Bytes that an allocator uses and reserves on a trace, under each tie-breaking rule that was tried.

    Parameters
    ----------
    allocator : str
    trace : Trace
    runs : tuple of PoolRun
        A single run if there are no ties, or only one rule; otherwise one run per rule.

    Examples
    --------
    The free chunk of 1024 bytes is too small for the last request.

    >>> from remat_algos.allocate.allocation import Buffers
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
        check_fields(self)
        if not self.runs:
            raise AllocationError("PoolUse has no run; give one or more")
        steps, size = self.trace.steps, self.trace.size.size
        if any(run.used.size != steps or run.segment.size != size for run in self.runs):
            raise AllocationError(
                "a run does not match the trace, which has {steps:d} steps and {size!w} buffers", steps=steps, size=size
            )

    @property
    def used(self) -> Int64:
        """int64[m]: bytes allocated during each step, maximum over the runs."""
        return np.max([run.used for run in self.runs], axis=0)

    @property
    def reserved(self) -> Int64:
        """int64[m]: bytes reserved on the device during each step, maximum over the runs."""
        return np.max([run.reserved for run in self.runs], axis=0)

    @property
    def peak_used(self) -> int:
        """Maximum bytes allocated at a step."""
        return max(int(run.used.max(initial=0)) for run in self.runs)

    @property
    def interval(self) -> tuple[int, int]:
        """Minimum and maximum peak of reserved bytes over the rules; equal if ties do not matter."""
        peaks = [int(run.reserved.max(initial=0)) for run in self.runs]
        return min(peaks), max(peaks)

    @property
    def peak_reserved(self) -> int:
        """Peak of reserved bytes: the maximum over the rules."""
        return self.interval[1]

    @property
    def fragmentation(self) -> float:
        """Difference between the reserved and the allocated peak, as a share of the reserved peak."""
        return 1 - self.peak_used / self.peak_reserved if self.peak_reserved else 0.0

    @property
    def ties(self) -> Int64:
        """int64[t]: steps of requests in the first run for which another rule may choose another chunk."""
        return self.runs[0].ties

    @property
    def exact(self) -> bool:
        """True if the result is certain: there is no tie, or real addresses were replayed."""
        return self.ties.size == 0 or self.runs[0].rule == REPLAYED

    @property
    def failed(self) -> Int64:
        """int64[f]: buffers whose request failed at the limit in at least one run."""
        requested = self.trace.requests[self.trace.size[self.trace.requests] > 0]
        none = np.array([run.segment[requested] < 0 for run in self.runs])
        return requested[none.any(axis=0)]


@checked_arguments
def cupy_pool(
    trace: Trace | Simulation,
    *,
    limit: int | None = None,
    ties: str | Sequence[str] | None = None,
    seeds: int | None = None,
    addresses: ArrayLike | None = None,
    before_14_1: bool = False,
) -> PoolUse:
    """Model the bytes that CuPy's memory pool allocates and reserves.

    A request is rounded up to a multiple of 512 bytes. It gets the smallest free chunk that is large enough; the rest
    of the chunk stays free. Without such a chunk, it gets a new segment of its exact size. Freed chunks merge with free
    neighbours. CuPy chooses between chunks of equal size by the addresses of Python objects, so the reserved bytes are
    predictable only if such ties do not matter; otherwise several rules are tried. Used bytes are always predictable
    unless a limit is reached.

    Parameters
    ----------
    trace : Trace or Simulation
    limit : int, optional
        Maximum bytes that the pool may reserve (`set_limit`); above it, the pool frees whole segments and retries.
    ties : str or sequence of str, optional
        Rules to try: "first" or "last" freed, "lowest" or "highest" address, "random". By default all of them.
    seeds : int, optional
        Number of random runs; by default 4 to 200, more for shorter traces.
    addresses : int64[k], optional
        Measured addresses of the buffers, arbitrary for buffers of 0 bytes or with a failed request; ties are broken as
        in the measured run.
    before_14_1 : bool
        A single request above the limit always fails. If True, the pool still frees its segments first, as CuPy did
        before 14.1.

    Returns
    -------
    PoolUse

    Raises
    ------
    AllocationError
        If `ties` or `limit` is invalid, or an address contradicts these rules: chunks that are live at the same time
        must not overlap.
    TypeError
        If `trace` is neither a Trace nor a Simulation. For a plan, pass `plan.simulation`.

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
    requests = {
        "size": size,
        "segment": size,
        "arena": trace.stream,
        "rest": np.ones_like(size),
        "max_size": np.full_like(size, NO_LIMIT),
        "fail_first": not before_14_1,
        "oversize": NO_LIMIT,
    }
    return _use("cupy_pool", trace, requests, limit, _rules(TIES, ties, seeds, trace), addresses)


@checked_arguments
def cuda_caching(
    trace: Trace | Simulation,
    *,
    limit: int | None = None,
    max_split_size: int | None = None,
    seeds: int | None = None,
    addresses: ArrayLike | None = None,
) -> PoolUse:
    """Model the bytes that PyTorch's caching allocator for CUDA allocates and reserves, with default settings.

    Requests are rounded up to multiples of 512 bytes. Requests up to 1 MiB are cut from segments of 2 MiB, larger ones
    below 10 MiB from segments of 20 MiB, and the largest get their own segment, a multiple of 2 MiB. A request gets the
    smallest free block that is large enough, at the lowest address among equals. The remainder of the block stays free.
    If a request is larger than 1 MiB, a remainder of at most 1 MiB is added to it, so it may use more than requested.
    The order of segments on the device is unknown.

    Parameters
    ----------
    trace : Trace or Simulation
    limit : int, optional
        Maximum bytes reserved (`set_per_process_memory_fraction`, or the device); above it, segments are released.
    max_split_size : int, optional
        Blocks of at least this many bytes are not split (`max_split_size_mb`); by default all may be split.
    seeds : int, optional
        Number of random segment orders tried in addition to ascending and descending order; by default 4 to 200,
        more for shorter traces.
    addresses : int64[k], optional
        Measured addresses of the buffers, which determine the result.

    Returns
    -------
    PoolUse

    Raises
    ------
    AllocationError
        If an address contradicts these rules, `limit` or `max_split_size` is invalid, or `max_split_size` is at most
        20 MiB.
    TypeError
        If `trace` is neither a Trace nor a Simulation. For a plan, pass `plan.simulation`.

    Examples
    --------
    >>> from remat_algos.allocate.allocation import Buffers
    >>> use = cuda_caching(Trace.of_buffers(Buffers([0, 0, 0], [1, 1, 1], [1, 3 * 2**20, 11 * 2**20])))
    >>> use.peak_used - 14 * 2**20, use.peak_reserved // 2**20
    (512, 22)
    """
    oversize = checked_limit(max_split_size, "max_split_size", LARGE_SEGMENT + 1)
    trace = trace if isinstance(trace, Trace) else Trace.of(trace)
    size = _rounded(trace.size, CHUNK)
    small, own = size <= SMALL_REQUEST, size >= OWN_SEGMENT
    segment = np.where(small, SMALL_SEGMENT, np.where(own, _rounded(size, SEGMENT_STEP), LARGE_SEGMENT))
    rest, max_size = np.where(small, CHUNK, SMALL_REQUEST + 1), np.full_like(size, NO_LIMIT)
    huge = size >= oversize
    rest[huge & ~small] = NO_LIMIT
    max_size[~huge] = oversize - 1
    max_size[huge] = size[huge] + LARGE_SEGMENT - 1
    requests = {
        "size": size,
        "segment": segment,
        "arena": 2 * trace.stream + small,
        "rest": rest,
        "max_size": max_size,
        "fail_first": False,
        "oversize": oversize,
    }
    return _use("cuda_caching", trace, requests, limit, _rules(SEGMENTS, None, seeds, trace), addresses)


@checked_arguments
def arena(allocation: Allocation, *, steps: int | None = None) -> PoolUse:
    """Return the use of an arena with fixed addresses; the whole arena is reserved from the start.

    Parameters
    ----------
    allocation : Allocation
    steps : int, optional
        Number of steps; by default up to the last end of a buffer.

    Returns
    -------
    PoolUse

    Raises
    ------
    TypeError
        If `allocation` is not an Allocation.

    Examples
    --------
    >>> from remat_algos.allocate.allocation import Buffers
    >>> from remat_algos.allocate.offsets import pack
    >>> use = arena(pack(Buffers([0, 1, 2], [2, 3, 4], [4, 2, 3])))
    >>> use.used.tolist(), use.reserved.tolist(), use.exact
    ([4, 6, 5, 3], [6, 6, 6, 6], True)
    """
    check_kind(allocation, Allocation, "allocation")
    trace = Trace.of_buffers(allocation.buffers, steps)
    segment = np.where(allocation.buffers.size > 0, 0, -1)
    reserved = np.full(trace.steps, allocation.size, np.int64)
    none = np.empty(0, np.int64)
    run = PoolRun(allocation.method, trace.requested, reserved, none, segment, allocation.offset)
    return PoolUse("arena", trace, (run,))


def _rounded(size: Int64, step: int) -> Int64:
    return -(-size // step) * step


def _rules(
    known: dict[str, int], ties: str | Sequence[str] | None, seeds: int | None, trace: Trace
) -> list[tuple[str, int, int]]:
    """Return (name, number, seed) for each rule; random rules have one entry per seed."""
    if seeds is None:
        fewest, highest = tuning.RANDOM_RUNS
        seeds = max(fewest, min(highest, tuning.TRIED_EVENTS // max(1, trace.event.size)))
    if seeds < 0:
        raise AllocationError("seeds is {seeds!r}; give a whole number of random runs, 0 or more", seeds=seeds)
    names = list(known) if ties is None else [ties] if isinstance(ties, str) else list(ties)
    for name in names:
        if name not in known:
            raise AllocationError(
                "unknown tie-breaking rule {name!r}; use {known!w}", name=name, known=", ".join(known)
            )
    if not names:
        raise AllocationError("no tie-breaking rule is given; use {known!w}", known=", ".join(known))
    random_rules = ("random", "shuffled")
    plain = [(name, known[name], 0) for name in names if name not in random_rules]
    random = [(f"{name} {seed}", known[name], seed) for name in names if name in random_rules for seed in range(seeds)]
    if not plain + random:
        raise AllocationError("seeds is 0, but all tie-breaking rules are random; give 1 or more")
    return plain + random


def _use(
    allocator: str,
    trace: Trace,
    requests: dict[str, Any],
    limit: int | None,
    rules: Sequence[tuple[str, int, int]],
    addresses: ArrayLike | None,
) -> PoolUse:
    """Run the rules in turn until a run has no ties; `requests` are keyword arguments of the kernel."""
    real, limit = np.empty(0, np.int64), checked_limit(limit)
    if addresses is not None:
        real = frozen(addresses, np.int64, "addresses", len(trace.size))
        rules = [(REPLAYED, rules[0][1], 0)]
    runs: list[PoolRun] = []
    for name, rule, seed in rules:
        used, reserved, tied, segment, offset, diverged = run_pool(
            trace.event, **requests, address=real, rule=rule, seed=seed, limit=limit
        )
        if diverged >= 0:
            raise AllocationError(
                "buffer {diverged:d} of {size:d} bytes has the address {real:d}, where {allocator} had no free chunk; "
                "are requests, frees and addresses from the same run?",
                diverged=diverged,
                size=trace.size[diverged],
                real=real[diverged],
                allocator=allocator,
            )
        if real.size:
            _check_apart(allocator, trace, real, np.where(segment >= 0, requests["size"], 0))
        ties = trace.step[np.flatnonzero(tied)]
        runs.append(PoolRun(name, trace.during(used), trace.during(reserved), ties, segment, offset))
        if not ties.size:
            break
    return PoolUse(allocator, trace, tuple(runs))


def _check_apart(allocator: str, trace: Trace, address: Int64, size: Int64) -> None:
    """Raise AllocationError if two chunks of these sizes overlap while both are live; size 0 stands for no chunk."""
    requested, freed = trace.event >= 0, (trace.event < 0) & (trace.event != RELEASE_ALL)
    begin, end = np.zeros(len(size), np.int64), np.full(len(size), len(trace.event), np.int64)
    begin[trace.event[requested]] = np.flatnonzero(requested)
    end[~trace.event[freed]] = np.flatnonzero(freed)
    i, j = first_clash(begin, end, size, address)
    if i >= 0:
        raise AllocationError(
            "buffers {i} and {j} have the addresses {address} and {next_address}, where their chunks of {size}"
            " and {next_size} bytes overlap while both are live; {allocator} never returns such addresses; are "
            "they from the same run?",
            i=i,
            j=j,
            address=address[i],
            next_address=address[j],
            size=size[i],
            next_size=size[j],
            allocator=allocator,
        )
