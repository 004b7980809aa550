"""The peak as it packs: one arena that holds a schedule at fixed addresses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from remat_algos.allocate.buffers import Buffers, is_alignment
from remat_algos.errors import PlanError
from remat_algos.ir.units import exact_bytes, format_bytes
from remat_algos.schedule.simulation import Simulation

if TYPE_CHECKING:
    from remat_algos.context import Progress

SECONDS = 5.0  # that one packing may take


@dataclass(frozen=True, slots=True)
class Packed:
    """Bytes of an arena in which every value of a schedule has one address while it lives; residents are apart.

    Nothing is written in place, so it is no smaller than the peak of live bytes.

    Parameters
    ----------
    memory : int
        Bytes of the smallest arena that was found.
    bound : int
        Bytes that no arena for this schedule can go below.
    alignment : int
        A power of two that divides every address.
    interrupted : bool
        Whether the user stopped the search for a smaller one.

    Examples
    --------
    >>> packed = Packed(memory=104, bound=100)
    >>> packed.proven, packed.said(100)
    (False, '104 B, 1.040 of the peak (lower bound 100 B)')
    """

    memory: int
    bound: int
    alignment: int = 1
    interrupted: bool = field(default=False, compare=False)

    @classmethod
    def of(
        cls,
        simulation: Simulation,
        *,
        alignment: int = 1,
        capacity: int | None = None,
        time_limit: float = SECONDS,
        seed: int = 0,
        progress: Progress | None = None,
    ) -> Packed:
        """Pack what a schedule holds, as `pack` does; with a capacity, an arena that fits is small enough."""
        from remat_algos.allocate.offsets import pack

        found = pack(
            Buffers.of(simulation),
            capacity=capacity,
            alignment=alignment,
            time_limit=time_limit,
            seed=seed,
            progress=progress,
        )
        found.verify()
        return cls(found.size, min(found.bound, found.size), alignment, found.interrupted)

    @classmethod
    def claimed(cls, record: Mapping[str, Any]) -> Packed | None:
        """What the JSON of a plan says, None where it says nothing; PlanError if that makes no sense."""
        memory = record.get("packed_memory")
        if memory is None:
            return None
        found = cls(memory, record.get("packed_bound", 0), record.get("alignment", 1))
        for name, given in (("packed_memory", found.memory), ("packed_bound", found.bound)):
            if isinstance(given, bool) or not isinstance(given, int) or given < 0:
                raise PlanError(f'"{name}" of the plan is {str(given)[:40]!r}, which is not of its kind')
        if not is_alignment(found.alignment):
            raise PlanError(f'"alignment" of the plan is {str(found.alignment)[:40]!r}, which is no power of two')
        return found

    @property
    def proven(self) -> bool:
        """Whether no arena for this schedule is smaller."""
        return self.memory <= self.bound

    def missed(self, limit: str) -> str:
        """That no schedule keeps to a limit."""
        return f"no schedule that packs into {limit} was found"

    @property
    def remedy(self) -> str:
        """What a user can do where none does."""
        return f"give more, or an alignment below {self.alignment}" if self.alignment > 1 else "give more"

    def record(self) -> dict[str, Any]:
        """As the JSON of a plan has it."""
        return {"packed_memory": self.memory, "packed_bound": self.bound, "alignment": self.alignment}

    def said(self, peak: int) -> str:
        """In words, beside the judged peak."""
        known = "the minimum" if self.proven else f"lower bound {format_bytes(self.bound)}"
        aligned = f", addresses divisible by {self.alignment}" if self.alignment > 1 else ""
        return f"{exact_bytes(self.memory)}, {self.memory / max(1, peak):.3f} of the peak ({known}){aligned}"
