"""Criteria for choosing among plans that fit: compute and peak, or reserved bytes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from remat_algos.allocate.allocators.registry import Allocator, get_allocator
from remat_algos.allocate.buffers import check_alignment
from remat_algos.allocate.reservation import PEAK, Reservation
from remat_algos.bounds.compute import MOMENTS, ComputeBound
from remat_algos.bounds.integer_program import TOLERANCE
from remat_algos.errors import ArgumentError, about
from remat_algos.ir.graph import ComputationGraph
from remat_algos.plan.problem import Problem
from remat_algos.solvers.candidates import Candidate
from remat_algos.solvers.registry import BASELINE

SEARCHING, SEARCHING_FIRST = 0.9, 0.6  # shares of the progress; the rest is for the bound, and for addresses

Rank = tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Criterion:
    """Rank candidates by compute and peak; run the allocator on the best one only.

    Parameters
    ----------
    allocator : Allocator
        The memory budget limits its reserved bytes.
    options : mapping
        Options of the allocator.
    """

    allocator: Allocator
    options: Mapping[str, Any]

    @classmethod
    def of(cls, allocator: str = PEAK, *, alignment: int = 1, seed: int = 0) -> "Criterion":
        """The criterion for arguments of `solve`; raises the errors of `solve`.

        Examples
        --------
        >>> type(Criterion.of("cupy_pool")).__name__, Criterion.of("arena", alignment=64).options
        ('ReservedCriterion', {'alignment': 64, 'seed': 0})
        """
        alignment = check_alignment(alignment)
        reserving = get_allocator(allocator)
        if alignment != 1 and "alignment" not in reserving.options:
            raise about(
                "alignment",
                ArgumentError(
                    "alignment {alignment} goes with the allocator arena; give that too", alignment=alignment
                ),
            )
        given = {"alignment": alignment, "seed": seed}
        options = {name: value for name, value in given.items() if name in reserving.options}
        return (ReservedCriterion if reserving.candidates > 1 else Criterion)(reserving, options)

    @property
    def repeats(self) -> bool:
        """True if the search continues at ever lower peaks until the reserved bytes fit."""
        return False

    @property
    def progress_share(self) -> float:
        """The share of the progress for the search; the rest is for the allocator and the bound."""
        return SEARCHING if self.allocator.name == PEAK else SEARCHING_FIRST

    def goal(self, graph: ComputationGraph, bound: ComputeBound) -> int | None:
        """Compute at which the search may end; None if compute alone does not decide."""
        return int(bound.compute) + (int(TOLERANCE * graph.needed_compute) if bound.source == MOMENTS else 0)

    def rank(self, problem: Problem, candidate: Candidate, reservation: Reservation) -> Rank:
        """Sort key of candidates that fit, best first."""
        return problem.rank(candidate)


@dataclass(frozen=True, slots=True, eq=False)
class ReservedCriterion(Criterion):
    """Run the allocator on many candidates; for the budget "least", rank them by reserved bytes."""

    @property
    def repeats(self) -> bool:
        return True

    def goal(self, graph: ComputationGraph, bound: ComputeBound) -> int | None:
        return None

    def rank(self, problem: Problem, candidate: Candidate, reservation: Reservation) -> Rank:
        if not problem.minimizes_peak:
            return problem.rank(candidate)
        peak, compute = candidate.figures
        return reservation.memory, compute, peak, candidate.solver != BASELINE
