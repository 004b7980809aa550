"""What memory costs in compute: the plans that no other beats in both."""

import time
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from remat_algos.bounds.memory import least_peak_bound
from remat_algos.errors import BudgetError, GraphError, ScheduleError
from remat_algos.ir.arrays import as_whole, by_fields
from remat_algos.ir.budget import Budget
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.units import format_bytes, percent
from remat_algos.ir.wording import counted, one_line
from remat_algos.plan.plan import Plan
from remat_algos.plan.problem import Attempt, Problem
from remat_algos.plan.record import ONE_PASS
from remat_algos.plan.search import BASE, MOST_POLISHED, Call, time_to_polish
from remat_algos.schedule.passes.polish import polished
from remat_algos.schedule.simulation import check_simulation
from remat_algos.solvers.registry import Interrupted, Progress, Solver, get_solver, portfolio

POINTS = 20
LOWERED = 12  # plans of the lowest peaks that passes may lower further


@dataclass(frozen=True, slots=True, eq=False)
class Frontier:
    """Plans of several solvers, each a trade of memory for compute.

    In a curve, and in `plans`, the peak rises and the compute falls: no plan is dominated by another, so more memory
    never costs more.

    Parameters
    ----------
    graph : ComputationGraph
    curves : mapping of str to tuple of Plan
        By solver, the plans that none of its others beats in both peak and compute.
    bound_memory : int
        Bytes that no schedule goes below.
    bound_compute : int
        The cost of one pass, which no schedule goes below.
    base : int
        Peak bytes without rematerialization.
    reasons : mapping of str to str
        Why a solver has no curve.
    complete : bool
        Whether nothing was cut short, by the user or by a time limit.
    interrupted : bool
        Whether it was the user.
    """

    graph: ComputationGraph
    curves: Mapping[str, tuple[Plan, ...]]
    bound_memory: int
    bound_compute: int
    base: int
    reasons: Mapping[str, str] = field(default_factory=dict)
    complete: bool = True
    interrupted: bool = False

    COLUMNS = ("peak", "of base", "with residents", "overhead", "extra runs", "solver")

    def __repr__(self) -> str:
        plans = self.plans
        peaks = f"peak {format_bytes(plans[0].peak_memory)} to {format_bytes(plans[-1].peak_memory)}" if plans else ""
        return one_line(
            self,
            f"{counted(len(plans), 'plan')} of {counted(len(self.curves), 'solver')}",
            peaks,
            "" if self.complete else "interrupted" if self.interrupted else "not complete",
        )

    __reduce__ = by_fields

    def __post_init__(self) -> None:
        for curve in self.curves.values():
            for plan in curve:
                check_simulation(plan.simulation, self.graph)

    @property
    def plans(self) -> tuple[Plan, ...]:
        """The plans that none of any solver beats in both peak and compute."""
        return undominated(plan for curve in self.curves.values() for plan in curve)

    def best(self, limit: int | str) -> Plan | None:
        """The cheapest plan with a peak of at most so much: bytes, "4GiB", "50%" or "least"; None if there is none."""
        budget, plans = Budget(limit), self.plans
        if budget.least:
            return plans[0] if plans else None
        most = budget.memory_limit(self.base, self.graph.resident_memory)
        within = [plan for plan in plans if most is None or plan.peak_memory <= most]
        return within[-1] if within else None

    def sampled(self, points: int = POINTS) -> tuple[Plan, ...]:
        """All plans if they are few, else the best ones at so many budgets, evenly spaced from the least peak."""
        plans = self.plans
        if len(plans) <= 2 * points:
            return plans
        least, most = plans[0].peak_memory, plans[-1].peak_memory
        budgets = [least + (most - least) * i // max(1, points - 1) for i in range(points)]
        places = {bisect_right(plans, budget, key=lambda plan: plan.peak_memory) - 1 for budget in budgets}
        return tuple(plans[place] for place in sorted(places))

    def rows(self, points: int = POINTS) -> Iterator[tuple[str, ...]]:
        """Cells under `COLUMNS`, one row for each of the sampled plans."""
        base, one_pass = max(1, self.base), max(1, self.bound_compute)
        for plan in self.sampled(points):
            yield (
                format_bytes(plan.peak_memory),
                percent(plan.peak_memory, base),
                format_bytes(plan.peak_memory + self.graph.resident_memory),
                percent(plan.overhead, one_pass),
                str(plan.extra_runs),
                f"{plan.method} (reordered)" if plan.reordered else plan.method,
            )

    def record(self) -> dict[str, Any]:
        """As JSON has it: every point of every curve."""
        best = {id(plan) for plan in self.plans}
        return {
            "graph_hash": self.graph.source_hash,
            "peak_without_rematerialization": self.base,
            "resident_memory": self.graph.resident_memory,
            "least_peak_bound": self.bound_memory,
            "compute_bound": self.bound_compute,
            "compute_bound_source": ONE_PASS,
            "compute_unit": self.graph.labels.compute_unit,
            "compute_scale": self.graph.labels.compute_scale,
            "complete": self.complete,
            "interrupted": self.interrupted,
            "reasons": dict(self.reasons),
            "points": [
                {
                    "solver": solver,
                    "peak_memory": plan.peak_memory,
                    "compute": plan.simulation.compute,
                    "overhead": plan.overhead,
                    "best": id(plan) in best,
                    "details": plan.record()["details"],
                }
                for solver, curve in self.curves.items()
                for plan in curve
            ],
        }


def undominated(plans: Iterable[Plan]) -> tuple[Plan, ...]:
    """Those that no other beats in both peak and compute, the lowest peak first; of equals no_remat, or the first."""
    kept: list[Plan] = []
    for plan in sorted(plans, key=lambda p: (p.peak_memory, p.simulation.compute, p.method != "no_remat")):
        if not kept or plan.simulation.compute < kept[-1].simulation.compute:
            kept.append(plan)
    return tuple(kept)


def frontier(
    graph: ComputationGraph,
    *,
    solvers: Sequence[str] | None = None,
    points: int = POINTS,
    time_limit: float | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Frontier:
    """Plans from the lowest peak that solvers find to the run without rematerialization.

    A solver that enumerates its plans is called once, and each plan is simulated once; the others are called for
    `points` budgets, evenly spaced from their lowest peak to that without rematerialization.

    Parameters
    ----------
    graph : ComputationGraph
        For training, one with a backward part (`differentiate`).
    solvers : sequence of str, optional
        Names; by default those that `auto` asks.
    points : int
        How many budgets, 2 or more, solvers that do not enumerate are asked for.
    time_limit : float, optional
        Seconds, shared by the solvers.
    seed : int
        For solvers that use chance.
    progress : callable, optional
        Called with (plans judged, plans listed, what is being tried).

    Returns
    -------
    Frontier
        Not `complete` if interrupted; then it holds what was found so far.

    Raises
    ------
    ValueError
        For an unknown solver, or fewer than 2 points.

    Examples
    --------
    >>> from remat_algos.ir.differentiate import differentiate
    >>> chain = differentiate(ComputationGraph.from_edges([(i, i + 1) for i in range(8)]))
    >>> [(plan.peak_memory, plan.overhead) for plan in frontier(chain).plans][::3]
    [(4, 28), (7, 4), (10, 1)]
    """
    if (as_whole(points) or 0) < 2:
        raise ValueError(f"points is {points}; give a whole number, 2 or more")
    points = int(points)
    problem = Problem.of(graph, Budget())
    asked = [get_solver(name) for name in solvers] if solvers is not None else portfolio()
    asked.sort(key=lambda solver: solver.improves)  # they get what the others found
    walk = _Walk(problem, points, time_limit, seed, progress)
    try:
        for left, solver in zip(range(len(asked), 0, -1), asked, strict=True):
            walk.ask(solver, left)
    except KeyboardInterrupt:
        walk.interrupted = True
        told = {*walk.curves, *walk.reasons}
        walk.reasons |= {solver.name: "interrupted" for solver in asked if solver.name not in told}
    return Frontier(
        graph=graph,
        curves=walk.curves,
        bound_memory=least_peak_bound(graph)[0],
        bound_compute=graph.needed_compute,
        base=problem.base,
        reasons=walk.reasons,
        complete=walk.complete and not walk.interrupted,
        interrupted=walk.interrupted,
    )


class _Walk:
    """The curves of one solver after the other."""

    def __init__(
        self, problem: Problem, points: int, time_limit: float | None, seed: int, progress: Progress | None
    ) -> None:
        self.problem = problem
        self.points = points
        self.deadline = None if time_limit is None else time.monotonic() + time_limit
        self.seed = seed
        self.progress = progress
        self.curves: dict[str, tuple[Plan, ...]] = {}
        self.reasons: dict[str, str] = {}
        self.complete = True
        self.interrupted = False

    def ask(self, solver: Solver, parts: int) -> None:
        """Add the curve of a solver, found in its part of the time that is left; or the reason why it has none."""
        reason = solver.needs(self.problem.graph)
        if reason is not None:
            self.reasons[solver.name] = reason
            return
        started = time.perf_counter()
        share = None if self.deadline is None else max(0.0, self.deadline - time.monotonic()) / parts
        seeds = [plan.simulation for curve in self.curves.values() for plan in curve]
        given = {"seed": self.seed, "time_limit": share, "progress": self.progress, "seeds": seeds}
        call = Call(self.problem.graph, solver, {}, **given)
        found: list[Attempt] = []
        try:
            for attempt in call.frontier() if call.enumerates else self._sampled(call, share):
                found.append(attempt)
        except Interrupted as stop:
            found += [call.judged(solution) for solution in stop.found]
            raise
        except (BudgetError, GraphError, ScheduleError) as error:
            self.reasons[solver.name] = str(error)
        else:
            for attempt in self._polished(tuple(found) if solver.name != BASE else (), share):
                found.append(attempt)
        finally:
            if found:
                self.complete &= all(attempt.solution.details.get("complete", True) for attempt in found)
                seconds = (time.perf_counter() - started) / len(found)
                self.curves[solver.name] = undominated(self._plan(attempt, seconds) for attempt in found)

    def _sampled(self, call: Call, share: float | None) -> Iterator[Attempt]:
        """Attempts at so many budgets, from the lowest peak that the solver reaches."""
        deadline = None if share is None else time.monotonic() + share
        lowest = call.at(None)
        yield lowest
        least, most = lowest.simulation.peak_memory, self.problem.base
        for i in range(self.points if most > least else 0):
            if deadline is not None and time.monotonic() > deadline:
                self.complete = False
                return
            yield call.at(least + (most - least) * i // (self.points - 1))

    def _polished(self, found: Sequence[Attempt], share: float | None) -> Iterator[Attempt]:
        """The same after the passes, each within its own peak; some of them, where that are many steps."""
        deadline = None if share is None else time.monotonic() + share
        graph, steps = self.problem.graph, sum(len(attempt.simulation.schedule) for attempt in found)
        for place, attempt in enumerate(found[:: 1 + steps // MOST_POLISHED]):
            if not time_to_polish(attempt.simulation, deadline):
                return
            lower = polished(graph, attempt.simulation, 0) if place < LOWERED else attempt.simulation
            for start in {id(each): each for each in (lower, attempt.simulation)}.values():
                after = polished(graph, start, None)
                if after is not attempt.simulation:
                    yield attempt.improved(after)

    def _plan(self, attempt: Attempt, seconds: float) -> Plan:
        """A plan whose budget is what it takes."""
        graph, peak = self.problem.graph, attempt.simulation.peak_memory
        fitted = Problem(graph, Budget(peak), self.problem.base, peak, None)
        return fitted.plan(attempt, solver=attempt.method, options={}, seconds=seconds)
