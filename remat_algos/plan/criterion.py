"""Criteria for choosing among plans that fit: compute and peak, reserved bytes, or robustness to uncertain costs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from remat_algos.allocate.allocators.registry import Allocator, get_allocator
from remat_algos.allocate.buffers import is_alignment
from remat_algos.allocate.reservation import PEAK, Reservation
from remat_algos.bounds.compute import MOMENTS, ComputeBound
from remat_algos.bounds.integer_program import TOLERANCE
from remat_algos.errors import AllocationError
from remat_algos.ir.graph import ComputationGraph
from remat_algos.plan.cost_noise import CostNoise, choose_robust, n_compared
from remat_algos.plan.problem import Problem
from remat_algos.solvers.candidates import Candidate
from remat_algos.solvers.registry import BASELINE
from remat_algos.text.wording import quoted

SEARCHING, SEARCHING_FIRST = 0.9, 0.6  # shares of the progress; the rest is for the bound, and for addresses
NOISE_SHARE = 0.9  # share of the search time, if samples of the costs are evaluated after it

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
    def of(
        cls,
        graph: ComputationGraph,
        allocator: str = PEAK,
        *,
        alignment: int = 1,
        seed: int = 0,
        cost_noise: float | None = None,
    ) -> "Criterion":
        """The criterion for arguments of `solve`; raises the errors of `solve`.

        Examples
        --------
        >>> from remat_algos.zoo.random import chain
        >>> type(Criterion.of(chain(3), "cupy_pool")).__name__, Criterion.of(chain(3), "arena", alignment=64).options
        ('ReservedCriterion', {'alignment': 64, 'seed': 0})
        """
        if not is_alignment(alignment):
            raise AllocationError(
                f"alignment is {quoted(alignment)}, which is not a power of two below 2**53; give 1, 2, 4, ..."
            )
        reserving = get_allocator(allocator)
        noise = None if cost_noise is None else CostNoise.of(graph, cost_noise, seed)
        if noise is not None and reserving.name != PEAK:
            raise ValueError(f"cost_noise goes with allocator={PEAK!r}; leave out allocator={quoted(allocator)}")
        if alignment != 1 and "alignment" not in reserving.options:
            raise ValueError(f"alignment={alignment} goes with allocator='arena'; give that too")
        given = {"alignment": int(alignment), "seed": seed}
        options = {name: value for name, value in given.items() if name in reserving.options}
        if noise is not None:
            return RobustCriterion(reserving, options, noise)
        return (ReservedCriterion if reserving.candidates > 1 else Criterion)(reserving, options)

    @property
    def repeats(self) -> bool:
        """True if the search continues at ever lower peaks until the reserved bytes fit."""
        return False

    @property
    def search_share(self) -> float:
        """The share of the search time before `choose`."""
        return 1.0

    @property
    def progress_share(self) -> float:
        """The share of the progress for the search; the rest is for the allocator and the bound."""
        return SEARCHING if self.allocator.name == PEAK else SEARCHING_FIRST

    def goal(self, graph: ComputationGraph, bound: ComputeBound) -> int | None:
        """Compute at which the search may end; None if compute alone does not decide."""
        return int(bound.compute) + (int(TOLERANCE * graph.needed_compute) if bound.source == MOMENTS else 0)

    def n_compared(self, graph: ComputationGraph) -> int:
        """The number of best candidates kept for `choose`, dominated ones included."""
        return 0

    def choose(self, problem: Problem, candidates: Sequence[Candidate]) -> tuple[Candidate, Mapping[str, Any]] | None:
        """The choice after the search and its record; None for the candidate that ranks first."""
        return None

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


@dataclass(frozen=True, slots=True, eq=False)
class RobustCriterion(Criterion):
    """Choose the candidate with the lowest 90 % quantile of the overhead over samples of the costs.

    Parameters
    ----------
    noise : CostNoise
    """

    noise: CostNoise

    @property
    def search_share(self) -> float:
        return NOISE_SHARE

    def goal(self, graph: ComputationGraph, bound: ComputeBound) -> int | None:
        return graph.needed_compute  # nothing else is the best at other costs too

    def n_compared(self, graph: ComputationGraph) -> int:
        return n_compared(graph)

    def choose(self, problem: Problem, candidates: Sequence[Candidate]) -> tuple[Candidate, Mapping[str, Any]] | None:
        return choose_robust(problem, candidates, self.noise)
