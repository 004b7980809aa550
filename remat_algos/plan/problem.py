"""The limits that a plan must meet, and the ranking of candidates."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from remat_algos.allocate.allocation import check_alignment
from remat_algos.allocate.allocators import PEAK, Allocator, Reservation, get_allocator
from remat_algos.bounds.closure import ANY_ORDER, MOMENTS, ComputeBound
from remat_algos.bounds.integer_program import TOLERANCE
from remat_algos.bounds.memory import least_peak_bound
from remat_algos.bounds.rising import rising_bounds
from remat_algos.context import Clock, Stop, until_stopped
from remat_algos.errors import ArgumentError, BudgetError, about
from remat_algos.ir.arrays import LARGEST_SUM
from remat_algos.ir.budget import Budget
from remat_algos.ir.graph import ComputationGraph
from remat_algos.plan.plan import Plan
from remat_algos.plan.record import BOUND_DETAILS
from remat_algos.plan.search_report import SearchReport
from remat_algos.schedule.constraints import Constraints
from remat_algos.schedule.emission import baseline_peak
from remat_algos.solvers.candidates import Candidate, rank
from remat_algos.solvers.registry import BASELINE

# Shares of the progress; the rest is for the bound, and for addresses.
SEARCHING, SEARCHING_FIRST = 0.9, 0.6


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """A graph, the limits of its plans and the constraints on their schedules."""

    graph: ComputationGraph
    budget: Budget
    base: int
    limit: int | None
    overhead_limit: int | None
    constraints: Constraints | None = None

    @classmethod
    def of(
        cls,
        graph: ComputationGraph,
        budget: Budget,
        allocator: Allocator | None = None,
        constraints: Constraints | Mapping[str, Any] | None = None,
    ) -> "Problem":
        """Return the limits of a budget on a graph in bytes and compute, for the peak or an allocator."""
        allocator = allocator or get_allocator(PEAK)
        return cls(
            graph,
            budget,
            baseline_peak(graph),
            budget.memory_limit(allocator.base(graph), graph.resident_memory),
            budget.overhead_limit(graph.needed_compute, graph.labels.compute_scale),
            Constraints.of(graph, constraints),
        )

    @property
    def minimizes_peak(self) -> bool:
        """True if the peak ranks first: it has no limit, or the budget is "least"."""
        return self.limit is None or self.budget.least

    @property
    def solver_limit(self) -> int | None:
        """The limit for solvers in bytes; None: they yield their whole frontier.

        For the lowest peak it is a lower bound.
        """
        if self.limit is not None and not self.budget.least:
            return min(self.limit, LARGEST_SUM)  # sums stay below it, and it fits in 64 bits
        return least_peak_bound(self.graph)[0] if self.overhead_limit is None else None

    def compute_bound(
        self,
        clock: Clock,
        *,
        effort: str,
        peak: int | None = None,
        closure: ComputeBound | None = None,
        goal: int | None = None,
    ) -> tuple[ComputeBound, Stop]:
        """Lower bound on the compute of every schedule within the limit, and how the search ended.

        If the peak is minimized, of every schedule within `peak`, or without `peak` of every schedule. `closure` is the
        closure bound, if known. `goal` is the compute of a schedule that a search found: a bound that meets it ends
        this one.
        Whatever stops it, the best bound so far is valid.
        """
        bound = closure or ComputeBound(self.graph.needed_compute)
        limit = peak if self.minimizes_peak else self.limit
        with until_stopped() as ending:
            last = goal is not None
            for rising in rising_bounds(self.graph, limit, effort=effort, closure=closure, last=last, clock=clock):
                bound = rising
                if goal is not None and bound.compute >= goal - int(TOLERANCE * self.graph.needed_compute):
                    ending.stop = Stop.PROVEN
                    break
        return bound, ending.stop

    def own_bound(self, candidate: Candidate) -> int | None:
        """Return the candidate's own bound, if it counts here.

        If the peak is minimized, it counts only if it holds at the candidate's own peak: the solver also bounds peaks,
        had no limit, or its limit equals the peak.
        """
        own_peak = candidate.peak_bound is not None or self.solver_limit in (None, candidate.figures[0])
        return candidate.bound if own_peak or not self.minimizes_peak else None

    def proven(self, candidate: Candidate, bound: ComputeBound) -> ComputeBound:
        """Return the larger of a bound and the candidate's own, if that is valid here and holds for any order."""
        own = self.own_bound(candidate) if candidate.scope == ANY_ORDER else None
        return bound if own is None or own <= bound.compute else ComputeBound(own, solver=candidate.solver)

    def fits(self, candidate: Candidate) -> bool:
        """True if peak and overhead are within the budget."""
        return not self.rank(candidate)[0]

    def rank(self, candidate: Candidate) -> tuple[int, int, int, bool]:
        """Sort key of a candidate, best first; of equal ones, no rematerialization comes first."""
        extra, one_pass = self.overhead_limit, self.graph.needed_compute
        compute_limit = None if extra is None else one_pass + extra
        best_first = rank(candidate.figures, self.limit, compute_limit, lowest=self.minimizes_peak)
        return (*best_first, candidate.solver != BASELINE)

    def plan(
        self,
        candidate: Candidate,
        *,
        solver: str,
        options: Mapping[str, Any],
        seconds: float,
        report: SearchReport,
        bound: ComputeBound | Callable[[], tuple[ComputeBound, Stop]],
        reservation: Reservation | None = None,
    ) -> Plan:
        """Return the plan of a candidate; by default its peak is the reservation.

        Its bound is `proven`, or computed when it is first read. A bound for fewer schedules than those of any order
        stands beside it.
        """
        own, narrower, peak_bound = self.own_bound(candidate), None, candidate.peak_bound
        if own is not None and candidate.scope not in (None, ANY_ORDER):
            narrower = ComputeBound(own, scope=candidate.scope, solver=candidate.solver)
        known = self.proven(candidate, bound) if isinstance(bound, ComputeBound) else None
        return Plan(
            graph=self.graph,
            budget=self.budget,
            limit=self.limit,
            simulation=candidate.simulated,
            solver=solver,
            method=candidate.solver,
            options=options,
            bound=known,
            seconds=seconds,
            details={name: value for name, value in candidate.details.items() if name not in BOUND_DETAILS},
            report=report,
            reservation=reservation or get_allocator(PEAK).reserve(candidate.simulated),
            constraints=self.constraints,
            narrower=narrower,
            solver_peak_bound=peak_bound if (peak_bound or 0) > least_peak_bound(self.graph)[0] else None,
            bound_search=None if isinstance(bound, ComputeBound) else bound,
        )

    def check_regions(self) -> None:
        """BudgetError if no schedule keeps the limit of a region."""
        bound = self.constraints.region_bound() if self.constraints is not None else None
        if self.constraints is None or bound is None:
            return
        name, needed, node = bound
        lower_bound, nodes = least_peak_bound(self.graph)
        raise BudgetError(
            "no schedule keeps region {region} within {limit!B}: while {node} runs, it has {needed!B} live in every "
            "schedule; give it that or more",
            region=name,
            limit=self.constraints.regions[name][1],
            node=self.graph.labels[node],
            needed=needed,
            reached=self.base,
            lower_bound=lower_bound,
            nodes=nodes,
            names=self.graph.labels.names_of(nodes),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Criterion:
    """Ranking of candidates: by compute and peak, or for "least" with a pool by the reserved bytes.

    The memory budget limits the bytes that the allocator reserves.
    """

    allocator: Allocator
    options: Mapping[str, Any]

    @classmethod
    def of(cls, allocator: str = PEAK, *, alignment: int = 1, seed: int = 0) -> "Criterion":
        """Return the criterion for arguments of `solve`; raises the errors of `solve`."""
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
        return cls(reserving, options)

    @property
    def repeats(self) -> bool:
        """True if the allocator runs on many candidates, at ever lower peaks until the reserved bytes fit."""
        return self.allocator.candidates > 1

    @property
    def progress_share(self) -> float:
        """The share of the progress for the search; the rest is for the allocator and the bound."""
        return SEARCHING if self.allocator.name == PEAK else SEARCHING_FIRST

    def goal(self, graph: ComputationGraph, bound: ComputeBound) -> int | None:
        """Compute at which the search may end; None if compute alone does not decide."""
        if self.repeats:
            return None
        return int(bound.compute) + (int(TOLERANCE * graph.needed_compute) if bound.source == MOMENTS else 0)

    def rank(self, problem: Problem, candidate: Candidate, reservation: Reservation) -> tuple[int, ...]:
        """Sort key of candidates that fit, best first."""
        if not (self.repeats and problem.minimizes_peak):
            return problem.rank(candidate)
        peak, compute = candidate.figures
        return reservation.memory, compute, peak, candidate.solver != BASELINE
