"""Allocators: the memory that each one reserves for a schedule."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

from remat_algos.allocate import tuning
from remat_algos.allocate.allocation import Allocation, Buffers, is_alignment
from remat_algos.arguments import checked_arguments
from remat_algos.context import Clock
from remat_algos.errors import AllocationError, PlanError
from remat_algos.ir.graph import ComputationGraph
from remat_algos.registry import Entries, Registered, check_brackets
from remat_algos.result import Result
from remat_algos.schedule.emission import baseline
from remat_algos.schedule.simulation import Simulation
from remat_algos.wording import counted, exact_bytes, format_bytes, listed

PEAK, ARENA = "peak", "arena"
POOL_KEYS = {"used": "used_memory", "least": "least_reserved_memory", "memory": "reserved_memory", "ties": "ties"}
ARENA_KEYS = {"memory": "packed_memory", "bound": "packed_bound", "alignment": "alignment"}


@dataclass(frozen=True, slots=True)
class Reservation(Result):
    """Bytes that an allocator reserves for a schedule, not counting residents. The budget limits this number.

    Parameters
    ----------
    allocator : str
    memory : int
        Bytes reserved at the peak: the maximum over the tie-breaking rules.
    used : int
        Bytes allocated at the peak, including the allocator's rounding.
    least : int
        The minimum over the tie-breaking rules; equal to `memory` if there are no ties.
    ties : int
        Number of requests at which the rules may choose different chunks.
    bound : int, optional
        Lower bound in bytes on an arena for this schedule. None if the allocator is not `arena`.
    alignment : int
        A power of two that divides every address in the arena.
    allocation : Allocation, optional
        The address of every value in the arena. None if the allocator is not `arena`, or if the arena of a plan from a
        file without addresses could not be reproduced.

    Examples
    --------
    >>> pool = Reservation("cupy_pool", memory=2048, used=1024, least=1024, ties=3)
    >>> pool.fragmentation, pool.proven
    (0.5, False)
    >>> Reservation("arena", memory=104, used=100, least=104, bound=100).text(100)
    '104 B, 1.040 of the peak (lower bound 100 B)'
    """

    allocator: str
    memory: int
    used: int
    least: int
    ties: int = 0
    bound: int | None = None
    alignment: int = 1
    allocation: Allocation | None = field(default=None, compare=False, repr=False)

    @classmethod
    @checked_arguments
    def claimed(cls, record: Mapping[str, Any], peak: int) -> Reservation:
        """Read a plan's reservation, without addresses, from its record. Raise PlanError if a number is invalid."""
        allocator = record.get("allocator") or PEAK
        if allocator == PEAK and record.get("packed_memory") is not None:
            raise PlanError('"packed_memory" of the plan requires "allocator": "arena"')
        if allocator == PEAK:
            return cls(PEAK, peak, peak, peak)
        arena = allocator == ARENA
        keys, usual = (ARENA_KEYS, {"bound": 0, "alignment": 1}) if arena else (POOL_KEYS, {})
        figures = {own: record.get(key, usual.get(own)) for own, key in keys.items()}
        for own, amount in figures.items():
            key = keys[own]
            if own == "alignment" and not is_alignment(amount):
                raise PlanError(
                    '"{key!w}" of the plan is {amount!r}, which is not a power of two', key=key, amount=amount
                )
            if isinstance(amount, bool) or not isinstance(amount, int) or amount < 0:
                shown = "missing" if amount is None else "{amount!r}"
                raise PlanError(
                    '"{key!w}" of the plan is ' + shown + '; with an "allocator" it must be a whole number, 0 or more',
                    key=key,
                    amount=amount,
                )
        return cls(allocator, **({"used": peak, "least": figures["memory"]} if arena else {}), **figures)

    @property
    def proven(self) -> bool:
        """True if no smaller arena exists for this schedule or, for a pool, if ties do not matter."""
        return self.memory <= (self.least if self.bound is None else self.bound)

    @property
    def fragmentation(self) -> float:
        """Difference between the reserved and the allocated peak, as a share of the reserved peak."""
        return 1 - self.used / self.memory if self.memory else 0.0

    def record(self) -> dict[str, Any]:
        """Return the JSON record; empty for the allocator `peak`."""
        if self.allocator == PEAK:
            return {}
        record = {"allocator": self.allocator, **{key: getattr(self, own) for own, key in POOL_KEYS.items()}}
        if self.bound is not None:
            record |= {key: getattr(self, own) for own, key in ARENA_KEYS.items()}
        return record | {"fragmentation": round(self.fragmentation, 6)}

    @checked_arguments
    def text(self, base: int, limit: str = "") -> str:
        """Return a line: bytes, their share of `base` and the limit or, for an arena, the ratio to the peak."""
        if self.bound is not None:
            bound = "the minimum" if self.proven else f"lower bound {format_bytes(self.bound)}"
            aligned = f", addresses divisible by {self.alignment}" if self.alignment > 1 else ""
            return f"{exact_bytes(self.memory)}, {self.memory / max(1, self.used):.3f} of the peak ({bound}){aligned}"
        return f"{self._interval()}, {self._share(base)}{limit}; {format_bytes(self.used)} allocated, {self._loss()}"

    def _share(self, base: int) -> str:
        of = "the peak" if self.bound is not None else f"what {self.allocator} reserves"
        return f"{100 * self.memory / max(1, base):.1f} % of {of} without rematerialization"

    @checked_arguments
    def rows(self, base: int | None = None) -> list[tuple[str, str]]:
        """Return table rows: used peak, reserved peak and fragmentation; no rows for the allocator `peak`."""
        if self.allocator == PEAK:
            return []
        ways = f", over the ways to break {counted(self.ties, 'tie')}" if self.least < self.memory else ""
        rows = [
            ("used peak", f"{exact_bytes(self.used)} allocated by {self.allocator}"),
            ("reserved peak", f"{self._interval()}{ways}"),
            ("fragmentation", self._loss().removeprefix("fragmentation ")),
        ]
        return rows if base is None else [*rows, ("reserved share", self._share(base))]

    def _interval(self) -> str:
        start = "" if self.least == self.memory else f"{exact_bytes(self.least)} to "
        return f"{start}{exact_bytes(self.memory)}"

    def _loss(self) -> str:
        return f"fragmentation {'' if self.least == self.memory else 'up to '}{100 * self.fragmentation:.1f} %"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Allocator(Registered):
    """A registered `function(simulation, clock, **options)` that computes the memory reserved for a schedule."""

    # Word for reserved memory in tables and plans; "" if it is the peak.
    noun: str = "reserved"
    # True if percentages refer to the bytes reserved without rematerialization. False if they refer to the peak without
    # rematerialization.
    own_base: bool = True
    # Maximum number of schedules per search to which the allocator is applied; 1 if a call takes seconds.
    candidates: int = tuning.MAX_RESERVED

    COLUMNS: ClassVar[tuple[str, ...]] = ("allocator", "what it reserves")

    def reserve(self, simulation: Simulation, clock: Clock | None = None, **options: Any) -> Reservation:
        """Apply the allocator with its options to a schedule; `clock` limits a search for addresses."""
        return self.function(simulation, clock or Clock(), **options)

    def base(self, graph: ComputationGraph) -> int:
        """Return the bytes reserved without rematerialization, the base of percentages."""
        run = baseline(graph)
        return self.reserve(run).memory if self.own_base else run.peak_memory


Function = TypeVar("Function", bound=Callable[..., Reservation])
ALLOCATORS: dict[str, Allocator] = {}


def allocator(
    function: object = None, /, *, noun: str = "reserved", own_base: bool = True, candidates: int = tuning.MAX_RESERVED
) -> Callable[[Function], Function]:
    """Register a function as an allocator (decorator ``@allocator()``); see `Allocator` for the parameters."""
    check_brackets("allocator", function)

    def register(function: Function) -> Function:
        entry = Allocator(function, noun, own_base, candidates)
        ALLOCATORS[entry.name] = entry
        return function

    return register


def list_allocators() -> Entries[Allocator]:
    """Return all allocators, sorted by name; the list prints as a table.

    Returns
    -------
    list of Allocator

    Examples
    --------
    >>> [allocator.name for allocator in list_allocators()]
    ['arena', 'cuda_caching', 'cupy_pool', 'peak']
    """
    return Entries(ALLOCATORS[name] for name in sorted(ALLOCATORS))


def get_allocator(name: str) -> Allocator:
    """Return the allocator called `name`. If it does not exist, raise AllocationError, which lists the known names."""
    result = ALLOCATORS.get(name) if isinstance(name, str) else None
    if result is not None:
        return result
    known = listed([each.name for each in list_allocators()])
    raise AllocationError("unknown allocator {name!r}; known: {known!w}", name=name, known=known)


@allocator(noun="", own_base=False, candidates=1)
def peak(simulation: Simulation, clock: Clock) -> Reservation:
    """Live bytes only, as simulated: no rounding, no fragmentation."""
    live = simulation.peak_memory
    return Reservation("peak", live, live, live)


@allocator(noun="packed", own_base=False, candidates=1)
def arena(simulation: Simulation, clock: Clock, *, alignment: int = 1, seed: int = 0) -> Reservation:
    """One memory block in which every value has a fixed address, computed by `pack`."""
    from remat_algos.allocate.offsets import pack

    seconds = tuning.PACKING_SECONDS
    if clock.left is not None:
        seconds = min(seconds, max(tuning.LAST_SECOND, clock.left))
    progress = clock.within_stage(tuning.PACKING_PROGRESS, "addresses: ")
    allocation = pack(Buffers.of(simulation), alignment=alignment, time_limit=seconds, seed=seed, progress=progress)
    allocation.verify()
    return Reservation(
        "arena",
        allocation.size,
        simulation.peak_memory,
        allocation.size,
        bound=min(allocation.bound, allocation.size),
        alignment=alignment,
        allocation=allocation,
    )


@allocator()
def cuda_caching(simulation: Simulation, clock: Clock) -> Reservation:
    """Bytes that PyTorch's caching allocator reserves on the device: the maximum over tie-breaking rules."""
    from remat_algos.allocate import pools

    use = pools.cuda_caching(simulation)
    lowest, highest = use.interval
    return Reservation("cuda_caching", highest, use.peak_used, lowest, use.ties.size)


@allocator()
def cupy_pool(simulation: Simulation, clock: Clock) -> Reservation:
    """Bytes that CuPy's memory pool reserves on the device: the maximum over tie-breaking rules."""
    from remat_algos.allocate import pools

    use = pools.cupy_pool(simulation)
    lowest, highest = use.interval
    return Reservation("cupy_pool", highest, use.peak_used, lowest, use.ties.size)
