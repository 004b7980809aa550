"""What an allocator reserves of the device for a schedule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from remat_algos.errors import AllocationError, PlanError
from remat_algos.ir.units import exact_bytes, format_bytes
from remat_algos.ir.wording import counted, shortened
from remat_algos.schedule.baseline import baseline
from remat_algos.schedule.simulation import Simulation

if TYPE_CHECKING:
    from remat_algos.ir.graph import ComputationGraph

ARENA, NONE = "arena", "none"
POOLS = ("cupy_pool", "cuda_caching")
ALLOCATORS = (*POOLS, ARENA, NONE)
FIELDS = {"used": "used_memory", "least": "least_reserved_memory", "memory": "reserved_memory", "ties": "ties"}


def known_allocator(name: str | None) -> str | None:
    """The name, None for "none"; AllocationError for one that has no model.

    Examples
    --------
    >>> known_allocator("cupy_pool"), known_allocator("none")
    ('cupy_pool', None)
    """
    if name is not None and name not in ALLOCATORS:
        raise AllocationError(f"no allocator is called {shortened(repr(name))}; known: {', '.join(ALLOCATORS)}")
    return None if name == NONE else name


@dataclass(frozen=True, slots=True)
class Reserved:
    """Peaks of what an allocator hands out and of what it holds on the device, as modelled; residents are apart.

    Parameters
    ----------
    allocator : str
    used : int
        Bytes handed out at the worst step, as the allocator rounds them.
    least, memory : int
        Bytes held on the device at the worst step: the least and the most over the ways to break ties, equal where
        nothing is left open.
    ties : int
        Requests after which these ways may part.
    interrupted : bool
        Whether the user stopped the search for a smaller arena.

    Examples
    --------
    >>> reserved = Reserved("cupy_pool", used=1024, least=1024, memory=2048, ties=3)
    >>> reserved.share(4096)
    '50.0 % of what cupy_pool reserves without rematerialization'
    >>> reserved.fragmentation
    0.5
    """

    allocator: str
    used: int
    least: int
    memory: int
    ties: int = 0
    interrupted: bool = field(default=False, compare=False)

    @classmethod
    def of(cls, simulation: Simulation, allocator: str) -> Reserved:
        """What the model of an allocator says of a schedule; an arena is packed first."""
        from remat_algos.allocate import pools

        if known_allocator(allocator) is None:
            raise AllocationError(f"{allocator} reserves nothing; known: {', '.join(ALLOCATORS[:-1])}")
        interrupted = False
        if allocator == ARENA:
            from remat_algos.allocate.buffers import Buffers
            from remat_algos.allocate.offsets import pack

            allocation = pack(Buffers.of(simulation))
            interrupted = allocation.interrupted
            use = pools.arena(allocation)
        else:
            use = (pools.cupy_pool if allocator == "cupy_pool" else pools.cuda_caching)(simulation)
        return cls(allocator, use.peak_used, *use.interval, use.ties.size, interrupted)

    @classmethod
    def claimed(cls, record: Mapping[str, Any]) -> Reserved | None:
        """What the JSON of a plan says, None where it says nothing; PlanError if that makes no sense."""
        allocator = record.get("allocator")
        if allocator is None:
            return None
        if allocator not in ALLOCATORS or allocator == NONE:
            raise PlanError(f'"allocator" of the plan is {str(allocator)[:40]!r}, of which there is no model')
        given = {own: record.get(name) for own, name in FIELDS.items()}
        for own, amount in given.items():
            if isinstance(amount, bool) or not isinstance(amount, int) or amount < 0:
                raise PlanError(f'"{FIELDS[own]}" of the plan is {str(amount)[:40]!r}, which is not of its kind')
        return cls(allocator, **given)  # type: ignore[arg-type]  # they are whole numbers

    @property
    def fragmentation(self) -> float:
        """Share of the most that is held which is never handed out at once."""
        return 1 - self.used / self.memory if self.memory else 0.0

    @property
    def remedy(self) -> str:
        """What a user can do where no schedule keeps to a limit."""
        return "give more, or pack into an arena (--packed)"

    def missed(self, limit: str) -> str:
        """That no schedule keeps to a limit."""
        return f"no schedule for which {self.allocator} reserves at most {limit} was found"

    def record(self) -> dict[str, Any]:
        """As JSON has it."""
        amounts = {name: getattr(self, own) for own, name in FIELDS.items()}
        return {"allocator": self.allocator, **amounts, "fragmentation": round(self.fragmentation, 6)}

    def said(self, base: int, limit: str = "") -> str:
        """In one line, with the share of `share_base`, and the limit in words."""
        return f"{self._interval()}, {self.share(base)}{limit}; {format_bytes(self.used)} handed out, {self._loss()}"

    def share(self, base: int) -> str:
        """How much of that it is which the same allocator reserves without rematerialization (`share_base`)."""
        of = "the peak" if self.allocator == ARENA else f"what {self.allocator} reserves"
        return f"{100 * self.memory / max(1, base):.1f} % of {of} without rematerialization"

    def rows(self) -> list[tuple[str, str]]:
        """The same as rows of a table."""
        ways = f", over the ways to break {counted(self.ties, 'tie')}" if self.least < self.memory else ""
        return [
            ("used peak", f"{exact_bytes(self.used)} handed out by {self.allocator}"),
            ("reserved peak", f"{self._interval()}{ways}"),
            ("fragmentation", self._loss().removeprefix("fragmentation ")),
        ]

    def _interval(self) -> str:
        start = "" if self.least == self.memory else f"{exact_bytes(self.least)} to "
        return f"{start}{exact_bytes(self.memory)}"

    def _loss(self) -> str:
        return f"fragmentation {'' if self.least == self.memory else 'up to '}{100 * self.fragmentation:.1f} %"


def share_base(graph: ComputationGraph, allocator: str | None = None) -> int:
    """Bytes that a share of the memory is of: what a pool reserves without rematerialization, at most; else that peak.

    An arena counts by the peak too: how small it gets depends on the time that packing may take.
    """
    run = baseline(graph)
    return Reserved.of(run, allocator).memory if allocator in POOLS else run.peak_memory
