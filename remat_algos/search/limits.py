"""The limits of a plan in bytes and compute, and the ranking of candidates within them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from remat_algos.allocate.allocators import PEAK, Allocator, Reservation, get_allocator
from remat_algos.bounds.bound import ANY_ORDER, MOMENTS, LowerBound
from remat_algos.bounds.memory import least_peak_bound
from remat_algos.bounds.tuning import TOLERANCE
from remat_algos.errors import BudgetError
from remat_algos.ir.arrays import LARGEST_SUM
from remat_algos.ir.budget import LEAST, Budget
from remat_algos.ir.graph import ComputationGraph
from remat_algos.plan.plan import BoundSearch, Plan
from remat_algos.plan.record import BOUND_DETAILS, SearchReport
from remat_algos.schedule.constraints import Constraints
from remat_algos.schedule.emission import baseline_peak
from remat_algos.solvers.registry import BASELINE, Candidate, rank


@dataclass(frozen=True, slots=True, eq=False)
class Limits:
    """Limits in bytes and compute that a budget sets, with allocator and constraints; `base` is the baseline's peak."""

    graph: ComputationGraph
    budget: Budget
    base: int
    limit: int | None
    overhead_limit: int | None
    constraints: Constraints | None = None
    allocator: Allocator = field(default_factory=lambda: get_allocator(PEAK))
    allocator_options: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        graph: ComputationGraph,
        budget: Budget,
        allocator: Allocator | None = None,
        constraints: Constraints | Mapping[str, Any] | None = None,
        **options: Any,
    ) -> "Limits":
        """Return the limits that a budget sets for a graph; `options` are the options of the allocator."""
        allocator = allocator or get_allocator(PEAK)
        return cls(
            graph,
            budget,
            baseline_peak(graph),
            budget.memory_limit(allocator.base(graph), graph.resident_memory),
            budget.overhead_limit(graph.needed_compute, graph.labels.compute_scale),
            None if constraints is None else Constraints.of(graph, constraints),
            allocator,
            options,
        )

    def within(self, limit: int | None) -> "Limits":
        """Return a copy with another limit in bytes (None for the lowest peak) and the same limit on overhead."""
        return replace(self, budget=replace(self.budget, memory=LEAST if limit is None else limit), limit=limit)

    @property
    def lowest(self) -> "Limits":
        """The limits for the budget "least", without a limit in bytes or on overhead."""
        return replace(self, budget=Budget(memory=LEAST), limit=None, overhead_limit=None)

    @property
    def minimizes_peak(self) -> bool:
        """True if candidates are ranked by peak: if there is no limit in bytes, or the budget is "least"."""
        return self.limit is None or self.budget.least

    @property
    def repeats(self) -> bool:
        """True if the allocator runs on several candidates, until the reserved bytes of one of them fit."""
        return self.allocator.candidates > 1

    @property
    def solver_limit(self) -> int | None:
        """The limit for solvers. To minimize the peak, it is a lower bound on the peak. None requests a frontier."""
        if self.limit is not None and not self.budget.least:
            return min(self.limit, LARGEST_SUM)  # larger limits change nothing
        return least_peak_bound(self.graph)[0] if self.overhead_limit is None else None

    def goal(self, bound: LowerBound) -> int | None:
        """Return the compute at which the search may end; None if plans are also compared by their reserved bytes."""
        if self.repeats:
            return None
        return int(bound.amount) + (int(TOLERANCE * self.graph.needed_compute) if bound.source == MOMENTS else 0)

    def own_bound(self, candidate: Candidate) -> int | None:
        """Return the candidate's own bound on compute if it is valid for the plan, else None.

        If the peak is minimized, the bound is valid in three cases: the solver also proved a bound on the peak, it ran
        without a limit, or its limit was the peak of the candidate.
        """
        own_peak = candidate.peak_bound is not None or self.solver_limit in (None, candidate.figures[0])
        return candidate.bound if own_peak or not self.minimizes_peak else None

    def stronger(self, candidate: Candidate, bound: LowerBound) -> LowerBound:
        """Return the candidate's own bound if it is larger than `bound` and valid for every order, else `bound`."""
        own = self.own_bound(candidate) if candidate.scope == ANY_ORDER else None
        return bound if own is None or own <= bound.amount else LowerBound(own, solver=candidate.solver)

    def fits(self, candidate: Candidate) -> bool:
        """Return True if peak and overhead are within the budget."""
        return not self.rank(candidate)[0]

    def rank(self, candidate: Candidate) -> tuple[int, int, int, bool]:
        """Return the sort key of a candidate; the best candidate has the smallest key. The baseline wins ties."""
        extra, one_pass = self.overhead_limit, self.graph.needed_compute
        compute_limit = None if extra is None else one_pass + extra
        best_first = rank(candidate.figures, self.limit, compute_limit, lowest=self.minimizes_peak)
        return (*best_first, candidate.solver != BASELINE)

    def rank_reserved(self, candidate: Candidate, reservation: Reservation) -> tuple[int, ...]:
        """Return the key of `rank`, or if the peak is minimized, a key that compares reserved bytes first."""
        if not (self.repeats and self.minimizes_peak):
            return self.rank(candidate)
        peak, compute = candidate.figures
        return reservation.memory, compute, peak, candidate.solver != BASELINE

    def plan(
        self,
        candidate: Candidate,
        *,
        solver: str,
        options: Mapping[str, Any],
        seconds: float,
        report: SearchReport,
        bound: LowerBound | BoundSearch,
        reservation: Reservation | None = None,
    ) -> Plan:
        """Return the plan of a candidate; if `bound` is a function, it is called when `Plan.bound` is first read."""
        own, narrower, peak_bound = self.own_bound(candidate), None, candidate.peak_bound
        if own is not None and candidate.scope not in (None, ANY_ORDER):
            narrower = LowerBound(own, scope=candidate.scope, solver=candidate.solver)
        return Plan(
            graph=self.graph,
            budget=self.budget,
            limit=self.limit,
            simulation=candidate.simulated,
            solver=solver,
            method=candidate.solver,
            options=options,
            bound_or_search=self.stronger(candidate, bound) if isinstance(bound, LowerBound) else bound,
            seconds=seconds,
            details={name: value for name, value in candidate.details.items() if name not in BOUND_DETAILS},
            report=report,
            reservation=reservation or get_allocator(PEAK).reserve(candidate.simulated),
            constraints=self.constraints,
            narrower=narrower,
            solver_peak_bound=peak_bound if (peak_bound or 0) > least_peak_bound(self.graph)[0] else None,
        )

    def check_regions(self) -> None:
        """Raise BudgetError if no schedule can meet the limit of some region."""
        bound = self.constraints.region_bound() if self.constraints is not None else None
        if self.constraints is None or bound is None:
            return
        name, needed, node = bound
        lower_bound, nodes = least_peak_bound(self.graph)
        raise BudgetError(
            "no schedule keeps region {region} within {limit!B}: while {node} runs, {needed!B} of the region are live "
            "in every schedule; raise its limit to that or more",
            region=name,
            limit=self.constraints.regions[name][1],
            node=self.graph.labels[node],
            needed=needed,
            reached=self.base,
            lower_bound=lower_bound,
            nodes=nodes,
            names=self.graph.labels.names_of(nodes),
        )
