"""The limits that a plan must meet, and how candidates are ranked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from remat_algos.allocate.allocators.registry import Allocator, get_allocator
from remat_algos.allocate.reservation import PEAK, Reservation
from remat_algos.bounds.memory import least_peak_bound
from remat_algos.errors import BudgetError
from remat_algos.ir.arrays import LARGEST_SUM
from remat_algos.ir.budget import Budget
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.units import exact_bytes, format_bytes
from remat_algos.ir.wording import counted, listed
from remat_algos.plan.plan import Plan, skipped_text
from remat_algos.plan.record import ONE_PASS
from remat_algos.schedule.baseline import baseline_peak
from remat_algos.solvers.candidates import Candidate, rank
from remat_algos.solvers.registry import BASELINE

FORCING_NODES_NAMED = 3


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """A graph and the limits that a plan for it must meet."""

    graph: ComputationGraph
    budget: Budget
    base: int
    limit: int | None
    overhead_limit: int | None

    @classmethod
    def of(cls, graph: ComputationGraph, budget: Budget, allocator: Allocator | None = None) -> "Problem":
        """The limits in bytes and compute that a budget means on a graph, for the peak or for an allocator."""
        allocator = allocator or get_allocator(PEAK)
        return cls(
            graph,
            budget,
            baseline_peak(graph),
            budget.memory_limit(allocator.base(graph), graph.resident_memory),
            budget.overhead_limit(graph.needed_compute, graph.labels.compute_scale),
        )

    @property
    def minimizes_peak(self) -> bool:
        """Whether the peak ranks first: it has no limit, or the budget is "least"."""
        return self.limit is None or self.budget.least

    @property
    def solver_limit(self) -> int | None:
        """The limit that solvers work near, in bytes; None: they yield their whole frontier.

        For the lowest peak it is a lower bound, which no schedule meets.
        """
        if self.limit is not None and not self.budget.least:
            return min(self.limit, LARGEST_SUM)  # no peak reaches it; kernels take 64 bits
        return least_peak_bound(self.graph)[0] if self.overhead_limit is None else None

    @property
    def compute_limit(self) -> int | None:
        """Compute that the overhead budget allows."""
        return None if self.overhead_limit is None else self.graph.needed_compute + self.overhead_limit

    def fits(self, candidate: Candidate) -> bool:
        """Whether peak and overhead are within the budget."""
        return not self.rank(candidate)[0]

    def rank(self, candidate: Candidate) -> tuple[int, int, int, bool]:
        """Sort key of a candidate, best first; of equals the run without rematerialization comes first."""
        best_first = rank(candidate.figures, self.limit, self.compute_limit, lowest=self.minimizes_peak)
        return (*best_first, candidate.solver != BASELINE)

    def plan(
        self,
        candidate: Candidate,
        *,
        solver: str,
        options: Mapping[str, Any],
        seconds: float,
        details: Mapping[str, Any],
        reservation: Reservation | None = None,
    ) -> Plan:
        """The plan of a candidate; by default its peak is the reservation.

        Its bound counts if solvers worked within this problem's own limit.
        """
        known = candidate.bound is not None and not self.minimizes_peak
        return Plan(
            graph=self.graph,
            budget=self.budget,
            limit=self.limit,
            simulation=candidate.simulated,
            solver=solver,
            method=candidate.solver,
            options=options,
            bound=candidate.bound if known else self.graph.needed_compute,
            scope=candidate.scope if known else "any order",
            bound_source=candidate.solver if known else ONE_PASS,
            seconds=seconds,
            details=details,
            reservation=reservation or get_allocator(PEAK).reserve(candidate.simulated),
        )

    def budget_error(
        self,
        candidates: Sequence[Candidate],
        reasons: Mapping[str, str],
        skipped: Mapping[str, int] = MappingProxyType({}),
        *,
        cut: bool = False,
    ) -> BudgetError:
        """The error that states the lowest peak reached, the lower bound, and its reason."""
        graph = self.graph
        bound, nodes = least_peak_bound(graph)
        lowest = min(candidates, key=lambda candidate: candidate.figures, default=None)
        within = [each.figures[1] for each in candidates if self.limit is None or each.figures[0] <= self.limit]
        if self.limit is not None and self.limit < 0:
            resident = format_bytes(graph.resident_memory)
            message = f"the device budget {self.budget.device} is less than the residents, {resident}; give more"
        elif within:
            least = min(within) - graph.needed_compute
            limit = graph.labels.compute(self.overhead_limit or 0)
            message = f"overhead {limit} is too low: the lowest reached is {graph.labels.compute(least)}"
        elif self.limit is None:
            message = "no schedule was found"
        else:
            message = f"no schedule within {exact_bytes(self.limit)} was found"
            if lowest is not None:
                message += f"; the lowest reached is {exact_bytes(lowest.figures[0])}, by {lowest.solver}"
        for reason in dict.fromkeys(reasons.values()):  # before the bound: some name the remedy
            names = ", ".join(name for name in reasons if reasons[name] == reason)
            message += f"; {reason} (no plan from {names})"
        if cut:
            message += "; the time limit cut the search short"
        if skipped:
            message += f"; skipped: {skipped_text(skipped)}"
        message += f"; no schedule goes below {format_bytes(bound)}, needed while {self._named(nodes)}"
        if graph.mark is not None:
            message += f"; {counted(int((graph.mark > 0).sum()), 'mark')} on nodes must be honoured"
        if lowest is not None and not within and (self.limit or 0) >= 0:
            message += '; budget "least" gives the lowest peak found'
        return BudgetError(message, lowest.figures[0] if lowest else self.base, bound, nodes)

    def reserved_error(self, candidate: Candidate, least: Reservation) -> BudgetError:
        """The error where the peak fits the budget, but what the allocator reserves does not."""
        bound, nodes = least_peak_bound(self.graph)
        peak = candidate.figures[0]
        message = (
            f"{least.missed(self.limit or 0)}; the lowest reached is {exact_bytes(least.memory)}, "
            f"for a peak of {format_bytes(peak)} by {candidate.solver}; {least.remedy}"
        )
        return BudgetError(message, peak, bound, nodes)

    def _named(self, nodes: Sequence[int]) -> str:
        names = listed([self.graph.labels[v] for v in nodes], FORCING_NODES_NAMED)
        return f"{names} {'runs' if len(nodes) == 1 else 'run'}"
