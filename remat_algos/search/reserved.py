"""Runs of solvers for one request, at ever lower peaks for an allocator, and the lower bounds before and after them."""

import hashlib
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache

from remat_algos.allocate.allocation import NO_LIMIT
from remat_algos.allocate.allocators import Reservation
from remat_algos.bounds.bound import ANY_ORDER, LowerBound
from remat_algos.context import Clock, Interrupted, Progress, Stop, until_stopped
from remat_algos.effort import DEFAULT, FAST, SMALL, Effort
from remat_algos.errors import BudgetError, GraphError, ScheduleError, extended
from remat_algos.forks import cached_property
from remat_algos.ir.budget import LEAST
from remat_algos.plan.record import SearchReport
from remat_algos.search.infeasible import budget_error, lowest_plan, reserved_error
from remat_algos.search.portfolio import Portfolio, lowest_run
from remat_algos.search.request import Criterion, Problem, Request
from remat_algos.solvers.registry import START, Candidate, Solver

BOUND_SHARE = 0.25  # time share of a bound before the search
LOWEST_SHARE = 0.5  # share of the search time for the lowest peak, if the first solvers find no plan within the limit
BOUNDING = "lower bound: "  # prefix of progress text
MAX_SEARCHES = 6  # per limit, each at another peak
MAX_FITTING = 2  # further searches after the first whose reservation fits, at peaks closer to the limit
STOPPED = "interrupted before a plan within the budget was found"

Search = Callable[[Problem, Stop], tuple[Portfolio, Candidate]]
Reserved = tuple[Candidate, Reservation]


class BoundSearch:
    """Lower bounds on compute: quick ones before the search, at which it may end, and longer ones after it.

    They are computed at once if the search may end at them, else when they are first read.
    """

    def __init__(self, request: Request, problem: Problem, clock: Clock) -> None:
        self.request, self.problem, self.clock = request, problem, clock
        self.effort, self.stop = Effort.of(request.task.effort), Stop.DONE
        known = self.best if request.ends_at_bound else LowerBound(request.graph.needed_compute)
        self.goal = None if request.raw else request.criterion.goal(request.graph, known)
        """Compute at which the search may end; None if compute alone does not decide."""

    @cached_property
    def closure(self) -> LowerBound:
        """The closure bound."""
        quick = self.clock.share(BOUND_SHARE, self.clock.within_stage(0.02, BOUNDING))
        bound, self.stop = self.problem.compute_bound(quick, effort=FAST)
        return bound

    @cached_property
    def best(self) -> LowerBound:
        """The bound before the search: of one moment if it may pay, else the closure bound."""
        bound = self.closure
        pays = bound.prices is not None and self.request.graph.n_nodes > SMALL
        if self.effort.bounds_first and pays and self.stop is not Stop.INTERRUPTED:
            longer = self.clock.share(BOUND_SHARE, self.clock.within_stage(0.05, BOUNDING))
            bound, self.stop = self.problem.compute_bound(longer, effort=DEFAULT, closure=bound)
        return bound

    def on_demand(self, best: Candidate, stop: Stop) -> Callable[[], tuple[LowerBound, Stop]]:
        """Return a function that computes the bound of the best plan, and its Stop, in the time left now.

        Threads that call it wait for the first.
        """
        seconds, lock = self.clock.left, threading.Lock()

        @cache
        def computed() -> tuple[LowerBound, Stop]:
            self.clock = Clock(seconds)
            bound = self.best
            bound = bound if self.stop is Stop.INTERRUPTED else self.raised(best, stop)
            return self.problem.proven(best, bound), self.stop

        def once() -> tuple[LowerBound, Stop]:
            with lock:
                return computed()

        return once

    def raised(self, best: Candidate, stop: Stop) -> LowerBound:
        """Raise the bound towards the compute of the best plan in the remaining time."""
        problem, clock, interrupted = self.problem, self.clock, stop is Stop.INTERRUPTED
        proven = problem.own_bound(best) if best.scope == ANY_ORDER else None
        peak, compute = best.figures
        untried = self.effort.bounds_last or self.best is self.closure
        if not untried or compute <= max(self.best.amount, proven or 0):
            return self.best
        tighter, self.stop = problem.compute_bound(
            clock.share(progress=None if interrupted else clock.within_stage(name=BOUNDING)),
            effort=FAST if interrupted else self.request.task.effort,
            peak=peak,
            closure=None if problem.minimizes_peak else self.closure,
            goal=compute,
        )
        return max(tighter, self.best, key=lambda each: each.amount)


class PlanSearch:
    """Runs of the solvers of a request: within its limit or a lower one, and once for the lowest peak.

    `whole_lowest` is the run of the same request for the budget "least", if it was made before.
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
        """The whole run for the budget "least"; None unless a search found nothing within its limit."""
        return self._lowest

    def lowest(self, limit: int, report: Progress | None) -> Portfolio:
        """Run for the budget "least": only the first searches if they reach the limit, else the whole run."""
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
        """Run the solvers on a problem; return the run and its best candidate. BudgetError if nothing fits.

        After an interrupt nothing is searched; Interrupted if nothing fits then.
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
    if result is None:  # not run: the start meets the bound
        return
    error = result.error
    if isinstance(error, ScheduleError):
        raise extended(error, "{solver!w} cannot serve this graph: ", solver=solver.name) from error
    if error is not None and not (
        isinstance(error, MemoryError) and any(map(portfolio.problem.fits, result.candidates))
    ):
        if isinstance(error, BudgetError) and error.plan is None:
            error.plan = lowest_plan(portfolio.problem, portfolio.candidates)
        raise error


def _best(portfolio: Portfolio, bounds: BoundSearch) -> Candidate:
    """Return the candidate that ranks first, if it keeps to the budget."""
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


class ReservedSearch:
    """Repeat a search at lower peaks until the reserved bytes fit; each schedule is reserved for once.

    The bytes that an allocator adds to the peak are known only for a whole schedule. So the allocator runs on the best
    candidates of a search, up to the first that fits. If the best of all does not fit, the search is repeated for a
    peak lower by the added share; if that overshoots, for one in between. Then the candidates of the lowest peaks
    follow. For the budget "least", or if nothing fits, cheaper candidates are searched that reserve no more than the
    minimum found. So every limit from that minimum on is met. The user's own start is reserved for if it ranks before
    all of these. If nothing fits after an interrupt, the candidates known by then are tried once more.

    `search` is `PlanSearch.within`.
    """

    def __init__(self, problem: Problem, search: Search, criterion: Criterion, clock: Clock) -> None:
        self.problem, self.search, self.clock = problem, search, clock
        self.criterion, self.allocator = criterion, criterion.allocator
        self.pool: dict[tuple[int, int], Candidate] = {}  # by figures: candidates not yet reserved for
        self.reserved: dict[bytes, int] = {}  # by order: reserved bytes
        self.reports: dict[bytes, SearchReport] = {}  # by order: report of its search
        self.start: Candidate | None = None  # the user's start, if it fits
        self.best: Reserved | None = None  # the best that fits
        self.lowest: Reserved | None = None
        self.n_tried = 0
        self.bests: dict[str, Candidate] = {}  # by solver, in the first search
        self.stop, self.out_of_memory = Stop.DONE, False  # out_of_memory: the allocator

    def run(self) -> Reserved:
        """Return the best candidate and its reservation.

        BudgetError if nothing fits; Interrupted, or MemoryError, if that ended the search before anything did.
        """
        failure = self._until_stopped(self._run) or self._until_stopped(self._reserve_known)
        self.out_of_memory = isinstance(failure, MemoryError)
        if self.best is not None:
            return self.best
        if isinstance(failure, BudgetError) and failure.plan is not None and self.criterion.repeats:
            self._until_stopped(self._run_lowest)  # no peak fits
            if self.lowest is not None:
                failure.plan = lowest_plan(self.problem, [self.lowest[0]], self.lowest[1], self._lowest_report)
                raise failure
        if self.stop is Stop.INTERRUPTED:
            raise Interrupted(STOPPED)
        if self.lowest is not None and not self.out_of_memory:
            raise reserved_error(self.problem, *self.lowest, self._lowest_report)
        raise failure or budget_error(self.problem, [], {})

    @property
    def _lowest_report(self) -> SearchReport | None:
        return None if self.lowest is None else self.reports.get(_key(self.lowest[0]))

    def report(self, best: Candidate, several: bool, stop: Stop) -> SearchReport:
        """Return the report for the best plan; `several` if no solver was named."""
        report, one_pass = self.reports[_key(best)], self.problem.graph.needed_compute
        names = [*report.out_of_memory, *([self.allocator.name] if self.out_of_memory else [])]
        memory = Stop.OUT_OF_MEMORY if names else Stop.DONE
        # a bound stopped by the deadline does not make the search incomplete
        interrupted = stop if stop is Stop.INTERRUPTED else Stop.DONE
        report = replace(report, stop=report.stop | memory | interrupted, out_of_memory=tuple(names))
        if not several:
            return report
        overheads = {name: each.figures[1] - one_pass for name, each in self.bests.items()}
        peaks = {name: each.figures[0] for name, each in self.bests.items()} if self.problem.minimizes_peak else {}
        return replace(report, tried=self.n_tried, overheads=overheads, peaks=peaks)

    def _until_stopped(self, part: Callable[[], None]) -> BudgetError | MemoryError | None:
        """Run a part of the search; return the BudgetError or MemoryError that ended it, if any."""
        failure: BudgetError | MemoryError | None = None
        with until_stopped() as ending:
            try:
                part()
            except (BudgetError, MemoryError) as error:
                failure = error
        self.stop |= ending.stop
        return failure

    def _run(self) -> None:
        """Search below the limit, then for the lowest peaks, then below the lowest reservation."""
        if not self.problem.minimizes_peak:
            if self.problem.limit is not None and self._within(self.problem.limit):
                return
            if not self._goes_on:
                return
        self._run_lowest()

    def _run_lowest(self) -> None:
        """Search for the lowest peaks, then below the lowest reservation."""
        problem, lowest = self.problem, self.problem
        if not problem.minimizes_peak:
            lowest = replace(problem, budget=replace(problem.budget, memory=LEAST), limit=None)
        self._reserve_best(lowest, self._searched(lowest))
        if self._goes_on and self.lowest is not None and (problem.minimizes_peak or self.best is None):
            unmet = problem.minimizes_peak and self.best is None
            self._within(problem.limit if unmet and problem.limit is not None else self.lowest[1].memory)

    def _reserve_known(self) -> None:
        """Reserve for the start if it may be better; after an interrupt, for the best candidate already known."""
        problem, start, best = self.problem, self.start, self.best
        if start is not None:
            by_reservation = self.criterion.repeats and problem.minimizes_peak
            if best is None or by_reservation or problem.rank(start) < problem.rank(best[0]):
                self._reserve(start)
        limit = NO_LIMIT if problem.limit is None else problem.limit
        found = min(filter(problem.fits, self.pool.values()), key=problem.rank, default=None)
        if self.stop is Stop.INTERRUPTED and self.best is None and found is not None:
            self._reserve_best(problem, found, limit)
        if self.stop is Stop.INTERRUPTED and self.best is None:
            self._reserve_best(problem, self._searched(problem), limit)

    @property
    def _done(self) -> bool:
        """True if the search ends with the best so far."""
        return self.stop is Stop.INTERRUPTED or (self.clock.late and self.best is not None)

    @property
    def _goes_on(self) -> bool:
        """True if the search continues at lower peaks."""
        return self.criterion.repeats and not self._done

    def _within(self, limit: int) -> bool:
        """Search for candidates whose reservation fits; True if the best of the first search does."""
        problem, goal, low, high, n_fitting = self.problem, limit, 0, self.problem.base, 0
        for i in range(MAX_SEARCHES):
            own = goal == problem.limit and not problem.minimizes_peak
            narrowed = problem if own else replace(problem, budget=replace(problem.budget, memory=goal), limit=goal)
            try:
                chosen = self._searched(narrowed)
            except BudgetError:
                if not self.reserved:
                    raise
                low, guess = goal + 1, (goal + 1 + high) // 2
            else:
                n_fitting += self._reserve_best(narrowed, chosen, limit)
                memory, peak = self.reserved[_key(chosen)], chosen.figures[0]
                if memory <= limit:
                    if i == 0:
                        return True
                    low, guess = goal + 1, (goal + 1 + high) // 2
                else:
                    high, guess = peak - 1, limit * peak // memory
            if low > high or n_fitting > MAX_FITTING or self._done:
                break
            goal = max(low, min(high, guess))
        return False

    def _searched(self, problem: Problem) -> Candidate:
        """Run one search; return its best candidate and put the others into the pool."""
        portfolio, chosen = self.search(problem, self.stop)
        self.n_tried = max(self.n_tried, portfolio.n_tried)
        self.bests = self.bests or portfolio.bests
        self.stop |= portfolio.stop
        own = portfolio.results.get(START)
        starts = [] if own is None else [each for each in own.kept if self.problem.fits(each)]
        if starts:
            self.start = min(starts, key=self.problem.rank)
            self._note_report(portfolio, self.start)
        fitting = {each.figures: each for each in portfolio.candidates if problem.fits(each)}
        fitting.pop(chosen.figures, None)
        others = sorted(fitting.values(), key=problem.rank)[: self.allocator.candidates - 1]
        for candidate in (chosen, *others):
            self._note_report(portfolio, candidate)
            bound, scope = (candidate.bound, candidate.scope) if problem is self.problem else (None, None)
            self.pool[candidate.figures] = replace(candidate, bound=bound, scope=scope)
        return self.pool[chosen.figures]

    def _note_report(self, portfolio: Portfolio, candidate: Candidate) -> None:
        """Keep the report of the run that found an order, unless an earlier run found it."""
        if _key(candidate) not in self.reserved:
            self.reports[_key(candidate)] = portfolio.report(candidate)

    def _reserve_best(self, problem: Problem, chosen: Candidate, limit: int | None = None) -> bool:
        """Reserve for the best of the pool, up to the first that fits; True if one does."""
        self._reserve(chosen)
        self.pool.pop(chosen.figures, None)
        if limit is not None and self.reserved[_key(chosen)] <= limit:
            return True
        waiting = sorted((each for each in self.pool.values() if problem.fits(each)), key=problem.rank)
        for candidate in waiting[: self.allocator.candidates - 1]:
            better = self.best is None or self.problem.rank(candidate) < self.problem.rank(self.best[0])
            if self.clock.late or not (better or self.problem.minimizes_peak):
                return False
            del self.pool[candidate.figures]
            if self._reserve(candidate) and limit is not None and self.reserved[_key(candidate)] <= limit:
                return True
        return False

    def _reserve(self, candidate: Candidate) -> bool:
        """Run the allocator, unless it ran for the same order before; True if it ran."""
        key = _key(candidate)
        if key in self.reserved:
            return False
        reservation = self.allocator.reserve(candidate.simulated, self.clock, **self.criterion.options)
        self.reserved[key] = reservation.memory
        if reservation.allocation is not None:
            self.stop |= reservation.allocation.stop
        if self.lowest is None or reservation.memory < self.lowest[1].memory:
            self.lowest = candidate, reservation
        if self.problem.limit is None or reservation.memory <= self.problem.limit:
            rank = self.criterion.rank
            if self.best is None or rank(self.problem, candidate, reservation) < rank(self.problem, *self.best):
                self.best = candidate, reservation
        return True


def _key(candidate: Candidate) -> bytes:
    return hashlib.sha256(candidate.schedule.order.tobytes()).digest()
