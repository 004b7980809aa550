"""From a graph and a budget to the best plan that the judge confirms."""

import contextlib
import inspect
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from remat_algos.bounds.memory import least_peak_bound
from remat_algos.errors import BudgetError, GraphError, ScheduleError
from remat_algos.ir.budget import Amount, Budget
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.units import exact_bytes, format_bytes
from remat_algos.plan.baseline import baseline_peak
from remat_algos.plan.plan import Plan
from remat_algos.schedule.schedule import Schedule
from remat_algos.schedule.simulation import Simulation, simulate
from remat_algos.solvers.registry import Progress, Solution, Solver, get_solver, list_solvers

AUTO = "auto"
FORCING_NODES_NAMED = 3


def solve(
    graph: ComputationGraph,
    budget: Budget | Amount | None = None,
    *,
    solver: str | Callable[..., Any] = AUTO,
    time_limit: float | None = None,
    seed: int = 0,
    raw: bool = False,
    progress: Progress | None = None,
    **options: Any,
) -> Plan:
    """Find an order of running the nodes whose peak stays within a budget, at the least compute.

    Parameters
    ----------
    graph : ComputationGraph
        For training, one with a backward part (`differentiate`).
    budget : Budget, int or str, optional
        Bytes of peak, residents apart: 4_000_000, "4GiB", "50%" of the peak without rematerialization, or "least".
        None, or an overhead budget alone: the lowest peak.
    solver : str or callable
        A name of `list_solvers()`, a function registered as one, or "auto": the best plan of all that can serve.
    time_limit : float, optional
        Seconds; solvers stop soon after and give the best they have.
    seed : int
        For solvers that use chance.
    raw : bool
        Give the solver's plan even where no rematerialization would be better.
    progress : callable, optional
        Called with (plans judged, plans listed, what is being tried).
    **options
        Options of the solver.

    Returns
    -------
    Plan
        Within the budget, and never worse than no rematerialization unless `raw`.

    Raises
    ------
    BudgetError
        With the least peak reached, the bound that no schedule can go below, and the nodes that force it.
    GraphError
        If the solver cannot serve this graph.
    TypeError, ValueError
        For a budget or an option that is none.

    Examples
    --------
    >>> from remat_algos.ir.differentiate import differentiate
    >>> chain = ComputationGraph.from_edges([(i, i + 1) for i in range(8)])
    >>> plan = solve(differentiate(chain), 7)
    >>> plan.peak_memory, plan.overhead
    (7, 4)
    """
    started = time.perf_counter()
    problem = Problem.of(graph, Budget.of(budget))
    search = _Search(problem, time_limit, seed, progress)
    asked = _asked(solver)
    if asked is None and options:
        raise TypeError(f"options {', '.join(options)} belong to one solver; name it, auto takes none")
    attempts = search.auto() if asked is None else search.named(asked, options)
    if not raw:
        attempts += search.guard()
    chosen = min(attempts, key=problem.rank, default=None)
    if chosen is None or not problem.fits(chosen.simulation):
        raise (
            search.unhonoured
            if chosen is None and search.unhonoured
            else problem.budget_error(attempts, search.reasons)
        )
    solution = chosen.solution
    # a bound for a lower limit, tried on the way, says nothing of the limit that was asked for
    known = solution.bound is not None and problem.limit is not None and chosen.limit == problem.limit
    return Plan(
        graph=graph,
        budget=problem.budget,
        limit=problem.limit,
        simulation=chosen.simulation,
        solver=AUTO if asked is None else asked.name,
        method=chosen.method,
        options=options,
        # running every needed node once is the least that any schedule can compute
        bound=solution.bound if known else graph.needed_compute,
        scope=solution.scope if known else "any order",
        seconds=time.perf_counter() - started,
        details=solution.details,
    )


def _asked(solver: str | Callable[..., Any]) -> Solver | None:
    if solver == AUTO:
        return None
    if callable(solver):
        known = get_solver(solver.__name__)
        if known.function is not solver:
            raise ValueError(f"{solver.__name__} is the name of another solver; register the function with @solver")
        return known
    return get_solver(solver)


@dataclass(frozen=True, slots=True, eq=False)
class Attempt:
    """A schedule of a solver for a limit, judged; the limit is None where there was none."""

    method: str
    solution: Solution
    simulation: Simulation
    limit: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """A graph, and what a plan for it must keep to."""

    graph: ComputationGraph
    budget: Budget
    base: int
    limit: int | None
    overhead_limit: int | None

    @classmethod
    def of(cls, graph: ComputationGraph, budget: Budget) -> "Problem":
        """What a budget comes to on a graph."""
        base = baseline_peak(graph)
        return cls(
            graph,
            budget,
            base,
            budget.memory_limit(base, graph.resident_memory),
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

    def rank(self, attempt: Attempt) -> tuple[bool, int, int]:
        """What fits comes first; then the least compute, or the least peak where that is wanted."""
        judged = attempt.simulation
        if self.lowest_wanted:
            return (not self.fits(judged), judged.peak_memory, judged.compute)
        return (not self.fits(judged), judged.compute, judged.peak_memory)

    def budget_error(self, attempts: Sequence[Attempt], reasons: Mapping[str, str]) -> BudgetError:
        """What was reached, what cannot be beaten, and why."""
        graph = self.graph
        bound, nodes = least_peak_bound(graph)
        lowest = min(attempts, key=lambda a: (a.simulation.peak_memory, a.simulation.compute), default=None)
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
        message += f"; no schedule goes below {format_bytes(bound)}, which is held while {self._named(nodes)}"
        for reason in dict.fromkeys(reasons.values()):
            names = ", ".join(name for name in reasons if reasons[name] == reason)
            message += f"; not tried: {names} ({reason})"
        return BudgetError(message, lowest.simulation.peak_memory if lowest else self.base, bound, nodes)

    def _named(self, nodes: Sequence[int]) -> str:
        names = ", ".join(self.graph.labels[v] for v in nodes[:FORCING_NODES_NAMED])
        more = f" and {len(nodes) - FORCING_NODES_NAMED} more" if len(nodes) > FORCING_NODES_NAMED else ""
        return f"{names}{more} {'runs' if len(nodes) == 1 else 'run'}"


class _Search:
    """Calls solvers, judges what they give, and searches where they cannot."""

    def __init__(self, problem: Problem, time_limit: float | None, seed: int, progress: Progress | None) -> None:
        self.problem = problem
        self.deadline = None if time_limit is None else time.monotonic() + time_limit
        self.seed = seed
        self.progress = progress
        self.reasons: dict[str, str] = {}
        self.unhonoured: ScheduleError | None = None  # by a schedule that goes against a mark

    def auto(self) -> list[Attempt]:
        """Attempts of every solver that can serve; those that improve others' schedules come last and get them."""
        attempts: list[Attempt] = []
        solvers = sorted((s for s in list_solvers() if s.portfolio), key=lambda s: s.improves)
        for left, candidate in zip(range(len(solvers), 0, -1), solvers, strict=True):
            reason = candidate.needs(self.problem.graph)
            if reason is None:
                try:
                    attempts += self._attempts(candidate, {}, self._share(left), attempts)
                except BudgetError as error:  # a proof that nothing fits
                    reason = str(error)
                except ScheduleError as error:
                    reason, self.unhonoured = str(error), error
            if reason is not None:
                self.reasons[candidate.name] = reason
        return attempts

    def named(self, solver: Solver, options: Mapping[str, Any]) -> list[Attempt]:
        """Attempts of one solver."""
        reason = solver.needs(self.problem.graph)
        if reason is not None:
            raise GraphError(f"{solver.name} cannot serve this graph: {reason}")
        return self._attempts(solver, options, self._share(1), [])

    def guard(self) -> list[Attempt]:
        """No rematerialization, unless a mark forbids it."""
        no_remat = get_solver("no_remat")
        try:
            return [self._judged(no_remat, no_remat.function(self.problem.graph, None))]
        except ScheduleError:
            return []

    def _share(self, parts: int) -> float | None:
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic()) / parts

    def _judged(self, solver: Solver, found: Schedule | Solution, limit: int | None = None) -> Attempt:
        solution = found if isinstance(found, Solution) else Solution(found)
        return Attempt(solver.name, solution, simulate(self.problem.graph, solution.schedule), limit)

    def _attempts(
        self, solver: Solver, options: Mapping[str, Any], time_limit: float | None, others: Sequence[Attempt]
    ) -> list[Attempt]:
        problem = self.problem
        reserved = {
            "seed": self.seed,
            "time_limit": time_limit,
            "progress": self.progress,
            "seeds": [attempt.simulation for attempt in others],
        }
        given = {**options, **{name: reserved[name] for name in solver.reserved}}
        inspect.signature(solver.function).bind(problem.graph, problem.limit, **given)  # TypeError for a wrong name

        def call(limit: int | None) -> Attempt:
            return self._judged(solver, solver.function(problem.graph, limit, **given), limit)

        if not problem.lowest_wanted or (problem.budget.memory is None and problem.overhead_limit is None):
            return [call(problem.limit)]
        frontier = getattr(solver.module, "frontier", None)
        if frontier is not None:
            return [self._judged(solver, found) for found in frontier(problem.graph, **given)]
        return list(self._lowest(call))

    def _lowest(self, call: Callable[[int | None], Attempt]) -> Iterator[Attempt]:
        """Attempts down to the lowest peak that keeps the rest of the budget.

        For a limit out of reach a solver gives its lowest schedule, or raises a proof; where that does not settle it,
        the limit is bisected: the lower it is, the more is computed.
        """
        low, high = least_peak_bound(self.problem.graph)[0], self.problem.base
        with contextlib.suppress(BudgetError):
            lowest = call(low)
            yield lowest
            yield call(lowest.simulation.peak_memory)
            if self.problem.overhead_limit is None:
                return
        yield call(high)
        while low < high and (self.deadline is None or time.monotonic() < self.deadline):
            middle = (low + high) // 2
            try:
                attempt = call(middle)
            except BudgetError:  # a proof that nothing fits there
                low = middle + 1
                continue
            yield attempt
            if attempt.simulation.peak_memory <= middle and self.problem.fits(attempt.simulation):
                high = min(middle, attempt.simulation.peak_memory)
            else:
                low = middle + 1
