"""Runs of solvers for one request, and the lower bounds before and after them."""

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache

from remat_algos.bounds.compute import ANY_ORDER, ComputeBound
from remat_algos.context import Clock, Interrupted, Progress, Stop
from remat_algos.effort import DEFAULT, FAST, SMALL, Effort
from remat_algos.errors import BudgetError, GraphError, ScheduleError
from remat_algos.forks import cached_property
from remat_algos.plan.infeasible import budget_error, lowest_plan
from remat_algos.plan.portfolio import Portfolio, lowest_run
from remat_algos.plan.problem import Problem
from remat_algos.plan.request import Request
from remat_algos.plan.reserved_search import STOPPED
from remat_algos.solvers.candidates import Candidate
from remat_algos.solvers.registry import Solver

BOUND_SHARE = 0.25  # of the time, for a bound that is computed before the search
LOWEST_SHARE = 0.5  # share of the search time for the lowest peak, if the first solvers find no plan within the limit
BOUNDING = "lower bound: "  # in the words of the progress


class BoundSearch:
    """Lower bounds on compute: quick ones before the search, at which it may end, and longer ones after it.

    They are computed at once if the search may end at them, else when they are first read.

    Parameters
    ----------
    request : Request
    problem : Problem
    clock : Clock
    """

    def __init__(self, request: Request, problem: Problem, clock: Clock) -> None:
        self.request, self.problem, self.clock = request, problem, clock
        self.effort, self.stop = Effort.of(request.task.effort), Stop.DONE
        known = self.best if request.ends_at_bound else ComputeBound(request.graph.needed_compute)
        self.goal = None if request.raw else request.criterion.goal(request.graph, known)
        """Compute at which the search may end; None if compute alone does not decide."""

    @cached_property
    def closure(self) -> ComputeBound:
        """The closure bound."""
        quick = self.clock.share(BOUND_SHARE, self.clock.within_stage(0.02, BOUNDING))
        bound, self.stop = self.problem.compute_bound(quick, effort=FAST)
        return bound

    @cached_property
    def best(self) -> ComputeBound:
        """The bound before the search: that of one moment, where it may pay, else the closure bound."""
        bound = self.closure
        pays = bound.price is not None and self.request.graph.n_nodes > SMALL
        if self.effort.bounds_first and pays and self.stop is not Stop.INTERRUPTED:
            longer = self.clock.share(BOUND_SHARE, self.clock.within_stage(0.05, BOUNDING))
            bound, self.stop = self.problem.compute_bound(longer, effort=DEFAULT, closure=bound)
        return bound

    def on_demand(self, best: Candidate, stop: Stop) -> Callable[[], tuple[ComputeBound, Stop]]:
        """A function that computes the bound of the best plan, in the time that is left now, and how that ended.

        Threads that call it wait for the first.
        """
        seconds, lock = self.clock.left, threading.Lock()

        @cache
        def computed() -> tuple[ComputeBound, Stop]:
            self.clock = Clock(seconds)
            bound = self.best
            bound = bound if self.stop is Stop.INTERRUPTED else self.raised(best, stop)
            return self.problem.proven(best, bound), self.stop

        def once() -> tuple[ComputeBound, Stop]:
            with lock:
                return computed()

        return once

    def raised(self, best: Candidate, stop: Stop) -> ComputeBound:
        """The bound after a search, raised towards the compute of the best plan in the remaining time."""
        problem, clock, interrupted = self.problem, self.clock, stop is Stop.INTERRUPTED
        proven = problem.own_bound(best) if best.scope == ANY_ORDER else None
        peak, compute = best.figures
        untried = self.effort.bounds_last or self.best is self.closure
        if not untried or compute <= max(self.best.compute, proven or 0):
            return self.best
        tighter, self.stop = problem.compute_bound(
            clock.share(progress=None if interrupted else clock.within_stage(name=BOUNDING)),
            effort=FAST if interrupted else self.request.task.effort,
            peak=peak,
            closure=None if problem.minimizes_peak else self.closure,
            goal=compute,
        )
        return max(tighter, self.best, key=lambda each: each.compute)


class PlanSearch:
    """Runs of the solvers of a request: within its limit or a lower one, and once for the lowest peak.

    Parameters
    ----------
    request : Request
    problem : Problem
    clock : Clock
    bounds : BoundSearch
    whole_lowest : Portfolio, optional
        The run of the same request for the budget "least", if it was made before.
    """

    def __init__(
        self,
        request: Request,
        problem: Problem,
        clock: Clock,
        bounds: BoundSearch,
        whole_lowest: Portfolio | None = None,
    ) -> None:
        self.request, self.problem, self.clock, self.bounds = request, problem, clock, bounds
        self.whole_lowest = whole_lowest
        self._lowest: Portfolio | None = None
        self._part = bounds.effort.search_share

    @property
    def lowest_run(self) -> Portfolio | None:
        """The whole run for the budget "least", if it was made as nothing fitted."""
        return self._lowest

    def lowest(self, limit: int, report: Progress | None) -> Portfolio:
        """The run for the budget "least", whole if it does not reach the limit."""
        if self._lowest is None:
            clock = self.clock.share(LOWEST_SHARE * self._part, report)
            run = lowest_run(
                self.request, self.problem, clock, sought=limit, whole=self.whole_lowest, bound=self.bounds.goal
            )
            best = run.best()
            if best is not None and best.figures[0] <= limit:
                return run
            self._lowest = run
        return self._lowest

    def within(self, problem: Problem, stop: Stop) -> tuple[Portfolio, Candidate]:
        """Run the solvers on a problem; return the run and its best candidate. After an interrupt nothing is searched.

        Raises
        ------
        BudgetError
            If nothing fits.
        Interrupted
            If nothing fits after an interrupt.
        """
        request, interrupted = self.request, stop is Stop.INTERRUPTED
        least = problem.minimizes_peak and problem.overhead_limit is None
        if least and self._lowest is not None and not interrupted:
            return self._lowest, _best(self._lowest, self.bounds)
        portfolio = self._portfolio(problem)
        if interrupted:
            portfolio.lowest = None
            portfolio.note(stop)
        portfolio.run(request.starting if interrupted else request.solvers, request.options)
        if not interrupted:
            portfolio.rerun(request.solvers, request.options)
        if request.named is not None and not interrupted:
            _check_served(request.named[0], portfolio)
        if not request.raw:
            portfolio.guard()
        if least and not interrupted:
            self.whole_lowest = portfolio
        return portfolio, _best(portfolio, self.bounds)

    def _portfolio(self, problem: Problem) -> Portfolio:
        request = self.request
        done = min(self.bounds.effort.search_share, request.criterion.progress_share)
        clock = self.clock.share(self._part, self.clock.within_stage(done))
        task = request.task
        if problem is not self.problem:
            # repeated at a lower limit for an allocator: earlier candidates are improved, so little work suffices
            task = replace(task, effort=FAST)
        elif request.ends_at_bound and not problem.minimizes_peak:
            task = replace(task, closure=self.bounds.closure)
        return Portfolio(
            problem,
            clock,
            task,
            polish=request.polish,
            bound=self.bounds.goal,
            lowest=self.lowest,
        )


def _check_served(solver: Solver, portfolio: Portfolio) -> None:
    """Raise the error that kept the named solver from yielding candidates."""
    reason, result = solver.needs(portfolio.problem.graph), portfolio.results.get(solver.name)
    if reason is not None:
        raise GraphError("{name!w} cannot serve this graph: {reason!w}", name=solver.name, reason=reason)
    if result is None:  # it was not run: the start meets the bound
        return
    error = result.error
    if isinstance(error, ScheduleError):
        raise ScheduleError(
            "{name!w} cannot serve this graph: {error!w}",
            name=solver.name,
            error=error,
            step=error.step,
            node=error.node,
        ) from error
    if error is not None and not (
        isinstance(error, MemoryError) and any(map(portfolio.problem.fits, result.candidates))
    ):
        if isinstance(error, BudgetError) and error.plan is None:
            error.plan = lowest_plan(portfolio.problem, portfolio.candidates)
        raise error


def _best(portfolio: Portfolio, bounds: BoundSearch) -> Candidate:
    """The candidate that ranks first, if it keeps to the budget."""
    problem, best = portfolio.problem, portfolio.best()
    if best is not None and problem.fits(best):
        return best
    if portfolio.stop is Stop.INTERRUPTED:
        raise Interrupted(STOPPED)
    errors = [result.error for result in portfolio.results.values() if isinstance(result.error, ScheduleError)]
    if best is None and errors:
        raise errors[-1]
    skipped = Counter[str]()
    for result in portfolio.results.values():
        skipped.update(result.skipped)
    raise budget_error(
        problem,
        portfolio.candidates,
        portfolio.reasons,
        skipped,
        late=portfolio.late,
        proof=bounds.closure,
        dropped=portfolio.dropped,
        least=portfolio.least,
    )
