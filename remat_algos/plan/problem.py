"""The limits that a plan must meet, and how candidates are ranked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from remat_algos.allocate.allocators.registry import Allocator, get_allocator
from remat_algos.allocate.reservation import PEAK, Reservation
from remat_algos.bounds.certificate import rising_bounds
from remat_algos.bounds.compute import ComputeBound, forced_values
from remat_algos.bounds.integer_program import TOLERANCE
from remat_algos.bounds.memory import least_peak_bound, two_path_bound
from remat_algos.context import Clock, Stop, until_stopped
from remat_algos.errors import BudgetError
from remat_algos.ir.arrays import LARGEST_SUM
from remat_algos.ir.budget import LEAST, Budget
from remat_algos.ir.graph import ComputationGraph
from remat_algos.plan.plan import BOUND, NARROWER, PEAK_BOUND, Plan
from remat_algos.plan.search_report import SearchReport, skipped_text
from remat_algos.schedule.baseline import baseline_peak
from remat_algos.schedule.constraints import Constraints
from remat_algos.solvers.candidates import Candidate
from remat_algos.solvers.ranking import rank
from remat_algos.solvers.registry import ANY_ORDER, BASELINE, find_solver
from remat_algos.text.units import exact_bytes, format_bytes
from remat_algos.text.wording import counted, listed, shortened

FORCING_NODES_NAMED = 3
FORCED_VALUES_NAMED = 3
RULED_OUT = "its schedules violate a constraint"


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """A graph, the limits that a plan for it must meet, and the constraints that its schedule must keep to."""

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
        """The limits in bytes and compute that a budget means on a graph, for the peak or for an allocator."""
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
        """Whether the peak ranks first: it has no limit, or the budget is "least"."""
        return self.limit is None or self.budget.least

    @property
    def solver_limit(self) -> int | None:
        """The limit that solvers work near, in bytes; None: they yield their whole frontier.

        For the lowest peak it is a lower bound.
        """
        if self.limit is not None and not self.budget.least:
            return min(self.limit, LARGEST_SUM)  # no peak reaches it; kernels take 64 bits
        return least_peak_bound(self.graph)[0] if self.overhead_limit is None else None

    @property
    def compute_limit(self) -> int | None:
        """Compute that the overhead budget allows."""
        return None if self.overhead_limit is None else self.graph.needed_compute + self.overhead_limit

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

        Where the lowest peak is wanted, of every schedule within `peak`; without one, of every schedule. `closure` is
        the closure bound, where it is known. A bound that meets `goal`, the compute of a schedule, ends the search.
        Whatever stops it, the best bound so far is valid.
        """
        bound = closure or ComputeBound(self.graph.needed_compute)
        limit = peak if self.minimizes_peak else self.limit
        with until_stopped() as ending:
            for rising in rising_bounds(self.graph, limit, effort=effort, closure=closure, clock=clock):
                bound = rising
                if goal is not None and bound.compute >= goal - int(TOLERANCE * self.graph.needed_compute):
                    ending.stop = Stop.PROVEN
                    break
        return bound, ending.stop

    def own_bound(self, candidate: Candidate) -> int | None:
        """The candidate's own bound, if it counts here.

        Where the lowest peak is wanted, only a bound for the candidate's own peak: of a solver that bounds peaks too,
        or that had no limit, or where the peak is the lower bound that it was given as its limit.
        """
        own_peak = candidate.peak_bound is not None or self.solver_limit in (None, candidate.figures[0])
        return candidate.bound if own_peak or not self.minimizes_peak else None

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
        report: SearchReport,
        bound: ComputeBound,
        reservation: Reservation | None = None,
    ) -> Plan:
        """The plan of a candidate; by default its peak is the reservation.

        Its bound is the larger of the given one and the candidate's own, if solvers worked within this problem's own
        limit. A bound for fewer schedules than those of any order stands in the details.
        """
        own = self.own_bound(candidate)
        proven = bound.compute if own is None or candidate.scope != ANY_ORDER else max(own, bound.compute)
        details = {name: value for name, value in candidate.details.items() if name not in (BOUND, NARROWER)}
        if proven == bound.compute:
            details |= {BOUND: bound.record(self.graph)} if bound.nodes else {}
        if candidate.peak_bound is not None and candidate.peak_bound > least_peak_bound(self.graph)[0]:
            details[PEAK_BOUND] = candidate.peak_bound
        if own is not None and candidate.scope != ANY_ORDER:
            details[NARROWER] = {"bound": own, "scope": candidate.scope}
        return Plan(
            graph=self.graph,
            budget=self.budget,
            limit=self.limit,
            simulation=candidate.simulated,
            solver=solver,
            method=candidate.solver,
            options=options,
            bound=proven,
            scope=ANY_ORDER,
            bound_source=bound.source if proven == bound.compute else candidate.solver,
            seconds=seconds,
            details=details,
            report=report,
            reservation=reservation or get_allocator(PEAK).reserve(candidate.simulated),
            constraints=self.constraints,
        )

    def budget_error(
        self,
        candidates: Sequence[Candidate],
        reasons: Mapping[str, str],
        skipped: Mapping[str, int] = MappingProxyType({}),
        *,
        late: bool = False,
        proof: ComputeBound | None = None,
        dropped: Sequence[Candidate] = (),
        least: Candidate | None = None,
    ) -> BudgetError:
        """The error that states the lowest peak reached, the lower bound, and its reason.

        `proof` may say that no schedule fits at all; `dropped` are candidates that violate a constraint; `least` is
        that of the budget "least", where it is known.
        """
        graph = self.graph
        bound, nodes = least_peak_bound(graph)
        if proof is not None and proof.forced > bound:
            bound, nodes = proof.forced, list(proof.nodes)
        lowest = least or min(candidates, key=lambda candidate: candidate.figures, default=None)
        within = [each.figures[1] for each in candidates if self.limit is None or each.figures[0] <= self.limit]
        if self.limit is not None and self.limit < 0:
            resident = format_bytes(graph.resident_memory)
            message = (
                f"the device budget {shortened(self.budget.device)} is less than the residents, {resident}; give more"
            )
        elif within:
            extra = min(within) - graph.needed_compute
            limit = graph.labels.compute(self.overhead_limit or 0)
            message = f"overhead {limit} is too low: the lowest reached is {graph.labels.compute(extra)}"
        elif self.limit is None:
            message = "no schedule was found"
        else:
            message = f"no schedule within {exact_bytes(self.limit)} was found"
            exact = max((each for each in candidates if each.peak_bound), key=_peak_bound, default=None)
            if bound > self.limit or (proof is not None and proof.infeasible):
                message = f"no schedule within {exact_bytes(self.limit)} exists"
            elif exact is not None and _peak_bound(exact) > self.limit:
                message += f", and none of any order exists, which {shortened(exact.solver)} proved"
            if lowest is not None:
                message += f"; the lowest reached is {exact_bytes(lowest.figures[0])}, by {shortened(lowest.solver)}"
        violation = self._constrained(candidates, dropped)
        message += violation
        known = {name: reason for name, reason in reasons.items() if len(reasons) == 1 or not _is_exact(name)}
        known = {name: reason for name, reason in known.items() if not (violation and reason == RULED_OUT)}
        for reason in dict.fromkeys(known.values()):  # before the bound: some name the remedy
            names = listed([name for name in known if known[name] == reason])
            message += f"; {reason} (no plan from {names})"
        if late:
            message += "; the time limit cut the search short"
        if skipped:
            message += f"; skipped: {skipped_text(skipped)}"
        message += f"; no schedule goes below {format_bytes(bound)}, needed while {self._named(nodes)}"
        if graph.mark is not None:
            message += f"; {counted(int((graph.mark > 0).sum()), 'mark')} on nodes must be honoured"
        if lowest is not None and not within and (self.limit or 0) >= 0:
            message += '; budget "least" gives the lowest peak found'
        plan = self.lowest_plan([] if lowest is None else [lowest])
        return BudgetError(
            message, lowest.figures[0] if lowest else self.base, bound, nodes, plan, graph.labels.names_of(nodes)
        )

    def lowest_plan(self, candidates: Sequence[Candidate], reservation: Reservation | None = None) -> Plan | None:
        """The plan of the candidate of the lowest peak, as for the budget "least"; None if there is none."""
        lowest = min(candidates, key=lambda candidate: candidate.figures, default=None)
        if lowest is None:
            return None
        unlimited = replace(self, budget=Budget(memory=LEAST), limit=None, overhead_limit=None)
        return unlimited.plan(
            replace(lowest, bound=None, scope=None),  # which are of the limit
            solver=lowest.solver,
            options={},
            seconds=0.0,
            report=SearchReport(),
            bound=ComputeBound(self.graph.needed_compute),
            reservation=reservation,
        )

    def _constrained(self, candidates: Sequence[Candidate], dropped: Sequence[Candidate]) -> str:
        """The constraint that stands in the way, where without it there would be a plan, or any schedule at all."""
        constraints, best = self.constraints, min(dropped, key=self.rank, default=None)
        if constraints is None or best is None or not (self.fits(best) or not candidates):
            return ""
        fits = " fits but" if self.fits(best) else ""
        return f"; a schedule of {best.solver}{fits} violates a constraint: {constraints.violation(best.simulated)}"

    def check_regions(self) -> None:
        """BudgetError if no schedule keeps the limit of a region."""
        bound = self.constraints.region_bound() if self.constraints is not None else None
        if self.constraints is None or bound is None:
            return
        name, needed, node = bound
        limit, least = exact_bytes(self.constraints.regions[name][1]), exact_bytes(needed)
        at = f"while {shortened(self.graph.labels[node])} runs, it has {least} live in every schedule"
        message = f"no schedule keeps region {shortened(name)} within {limit}: {at}; give it that or more"
        lower_bound, nodes = least_peak_bound(self.graph)
        raise BudgetError(message, self.base, lower_bound, nodes, names=self.graph.labels.names_of(nodes))

    def reserved_error(self, candidate: Candidate, least: Reservation) -> BudgetError:
        """The error where the peak fits the budget, but what the allocator reserves does not."""
        bound, nodes = least_peak_bound(self.graph)
        peak = candidate.figures[0]
        message = (
            f"{least.missed(self.limit or 0)}; the lowest reached is {exact_bytes(least.memory)}, "
            f"for a peak of {format_bytes(peak)} by {shortened(candidate.solver)}; {least.remedy}"
        )
        plan = self.lowest_plan([candidate], least)
        return BudgetError(message, peak, bound, nodes, plan, self.graph.labels.names_of(nodes))

    def _named(self, nodes: Sequence[int]) -> str:
        """The nodes that force a peak, and the largest values that are live while the first of them runs."""
        graph = self.graph
        if nodes and [*nodes] == two_path_bound(graph)[1]:
            return f"{' or '.join(shortened(graph.labels[v]) for v in nodes)} runs"
        names = listed([graph.labels[v] for v in nodes], FORCING_NODES_NAMED)
        values = forced_values(graph, nodes[0]) if nodes else []
        largest = sorted(values, key=lambda x: -graph.memory[x])
        live = listed(
            [f"{graph.value_name(x)} ({format_bytes(int(graph.memory[x]))})" for x in largest[:FORCED_VALUES_NAMED]],
            FORCED_VALUES_NAMED,
            len(largest),
        )
        return f"{names} {'runs' if len(nodes) == 1 else 'run'}" + (f", with {live} live" if live else "")


def _is_exact(name: str) -> bool:
    """Whether a solver is an exact search over all orders; that a graph is too large for one explains nothing."""
    found = find_solver(name)
    return found is not None and found.optimal_in == ANY_ORDER


def _peak_bound(candidate: Candidate) -> int:
    return candidate.peak_bound or 0
