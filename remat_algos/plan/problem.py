"""What a plan for a graph must keep to, and how attempts at it are ranked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from remat_algos.bounds.memory import least_peak_bound
from remat_algos.errors import BudgetError
from remat_algos.ir.budget import Budget
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.units import exact_bytes, format_bytes
from remat_algos.ir.wording import counted, listed
from remat_algos.plan.baseline import baseline_peak, share_base
from remat_algos.plan.packed import Packed
from remat_algos.plan.plan import Plan, given_up
from remat_algos.plan.record import ONE_PASS
from remat_algos.plan.reserved import Reserved
from remat_algos.schedule.simulation import Simulation
from remat_algos.solvers.registry import Solution

FORCING_NODES_NAMED = 3


@dataclass(frozen=True, slots=True, eq=False)
class Attempt:
    """A schedule of a solver for a limit, judged; the limit is None where there was none."""

    method: str
    solution: Solution
    simulation: Simulation
    limit: int | None = None

    @property
    def figures(self) -> tuple[int, int]:
        """Peak and compute."""
        return self.simulation.peak_memory, self.simulation.compute

    def improved(self, simulation: Simulation) -> "Attempt":
        """The same attempt with a schedule that passes made of its own; a bound that this one beats is none."""
        solution = self.solution
        bound, scope = solution.bound, solution.scope
        if bound is not None and bound > simulation.compute:
            bound, scope = None, None
        details = {**solution.details, "polished": True}
        return replace(
            self,
            solution=Solution(simulation.schedule, bound, scope, details, simulation),
            simulation=simulation,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """A graph, and what a plan for it must keep to."""

    graph: ComputationGraph
    budget: Budget
    base: int
    limit: int | None
    overhead_limit: int | None

    @classmethod
    def of(cls, graph: ComputationGraph, budget: Budget, allocator: str | None = None) -> "Problem":
        """What a budget, for the judged peak or for what an allocator reserves, comes to on a graph."""
        return cls(
            graph,
            budget,
            baseline_peak(graph),
            budget.memory_limit(share_base(graph, allocator), graph.resident_memory),
            budget.overhead_limit(graph.needed_compute, graph.labels.compute_scale),
        )

    @property
    def lowest_wanted(self) -> bool:
        """Whether the peak counts first: there is no bound on it, or the least is asked for."""
        return self.limit is None or self.budget.least

    def fits(self, simulation: Simulation) -> bool:
        """Whether peak and overhead keep to the budget."""
        within = self.limit is None or simulation.peak_memory <= self.limit
        return within and (self.overhead_limit is None or simulation.overhead <= self.overhead_limit)

    def rank(self, attempt: Attempt) -> tuple[bool, int, int, bool]:
        """What fits comes first; then the least compute, or the least peak where that is wanted; then what is plain."""
        judged, plain = attempt.simulation, attempt.method == "no_remat"
        if self.lowest_wanted:
            return (not self.fits(judged), judged.peak_memory, judged.compute, not plain)
        return (not self.fits(judged), judged.compute, judged.peak_memory, not plain)

    def plan(
        self,
        chosen: Attempt,
        *,
        solver: str,
        options: Mapping[str, Any],
        seconds: float,
        marks: Mapping[str, Any] = MappingProxyType({}),
        held: Packed | Reserved | None = None,
    ) -> Plan:
        """The plan that an attempt makes; its details get the `marks` of the search."""
        solution = chosen.solution
        # a bound for a lower limit, tried on the way, says nothing of the limit that was asked for
        known = solution.bound is not None and self.limit is not None and chosen.limit == self.limit
        return Plan(
            graph=self.graph,
            budget=self.budget,
            limit=self.limit,
            simulation=chosen.simulation,
            solver=solver,
            method=chosen.method,
            options=options,
            bound=solution.bound if known else self.graph.needed_compute,
            scope=solution.scope if known else "any order",
            bound_source=chosen.method if known else ONE_PASS,
            seconds=seconds,
            details={**solution.details, **marks},
            packed=held if isinstance(held, Packed) else None,
            reserved=held if isinstance(held, Reserved) else None,
        )

    def budget_error(self, attempts: Sequence[Attempt], reasons: Mapping[str, str]) -> BudgetError:
        """What was reached, what cannot be beaten, and why."""
        graph = self.graph
        bound, nodes = least_peak_bound(graph)
        lowest = min(attempts, key=lambda a: a.figures, default=None)
        within = [a for a in attempts if self.limit is None or a.simulation.peak_memory <= self.limit]
        if self.limit is not None and self.limit < 0:
            resident = format_bytes(graph.resident_memory)
            message = f"the device budget {self.budget.device} is less than the residents, {resident}; give more"
        elif within:
            least = min(a.simulation.overhead for a in within)
            asked = graph.labels.compute(self.overhead_limit or 0)
            message = f"overhead {asked} is too little: {graph.labels.compute(least)} was reached"
        else:
            message = f"no schedule within {exact_bytes(self.limit or 0)} was found"
            if lowest is not None:
                message += f"; the lowest reached is {exact_bytes(lowest.simulation.peak_memory)}, by {lowest.method}"
        for reason in dict.fromkeys(reasons.values()):  # before the bound: some of them say what to do
            names = ", ".join(name for name in reasons if reasons[name] == reason)
            message += f"; {reason} (no plan from {names})"
        unfinished = max((a.solution.details.get("given_up", 0) for a in attempts), default=0)
        if unfinished:
            message += f"; given up: {given_up(unfinished)}"
        message += f"; no schedule goes below {format_bytes(bound)}, needed while {self._named(nodes)}"
        if graph.mark is not None:
            message += f"; {counted(int((graph.mark > 0).sum()), 'mark')} on nodes must be honoured"
        if lowest is not None and not within and (self.limit or 0) >= 0:
            message += '; budget "least" gives the lowest peak found'
        return BudgetError(message, lowest.simulation.peak_memory if lowest else self.base, bound, nodes)

    def held_error(self, tried: Sequence[tuple[Attempt, Packed | Reserved]]) -> BudgetError:
        """What fits as it is judged, but not as an arena or an allocator holds it."""
        bound, nodes = least_peak_bound(self.graph)
        attempt, least = min(tried, key=lambda each: each[1].memory)
        peak = attempt.simulation.peak_memory
        message = (
            f"{least.missed(exact_bytes(self.limit or 0))}; the lowest reached is {exact_bytes(least.memory)}, "
            f"for a peak of {format_bytes(peak)} by {attempt.method}; {least.remedy}"
        )
        return BudgetError(message, peak, bound, nodes)

    def _named(self, nodes: Sequence[int]) -> str:
        names = listed([self.graph.labels[v] for v in nodes], FORCING_NODES_NAMED)
        return f"{names} {'runs' if len(nodes) == 1 else 'run'}"
