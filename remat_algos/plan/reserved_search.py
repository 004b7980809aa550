"""Search at ever lower peaks until the bytes that an allocator reserves fit."""

import hashlib
from collections.abc import Callable
from dataclasses import replace

from remat_algos.allocate.buffers import NO_LIMIT
from remat_algos.allocate.reservation import Reservation
from remat_algos.context import Clock, Interrupted, Stop, until_stopped
from remat_algos.errors import BudgetError
from remat_algos.ir.budget import LEAST
from remat_algos.plan.criterion import Criterion
from remat_algos.plan.infeasible import budget_error, lowest_plan, reserved_error
from remat_algos.plan.portfolio import Portfolio
from remat_algos.plan.problem import Problem
from remat_algos.plan.search_report import SearchReport
from remat_algos.solvers.candidates import Candidate
from remat_algos.solvers.registry import START

MAX_SEARCHES = 6  # for one limit, each for another peak
MAX_FITTING = 2  # further searches after the first whose reservation fits, at peaks closer to the limit
STOPPED = "interrupted before a plan within the budget was found"

Search = Callable[[Problem, Stop], tuple[Portfolio, Candidate]]
Reserved = tuple[Candidate, Reservation]


class ReservedSearch:
    """Repeat a search at lower peaks until the reserved bytes fit; each schedule is reserved for once.

    The bytes that an allocator adds to the peak are known only for a whole schedule. So the allocator runs on the best
    candidates of a search, up to the first that fits. If the best of all does not fit, the search is repeated for a
    peak lower by the added share; if that overshoots, for one in between. Then the candidates of the lowest peaks
    follow. For the budget "least", or if nothing fits, cheaper candidates are searched that reserve no more than the
    minimum found. So every limit from that minimum on is met. The user's own start is reserved for if it ranks before
    all of these. If nothing fits after an interrupt, the candidates known by then are tried once more.

    Parameters
    ----------
    problem : Problem
    search : callable
        search(problem, stop) returns the portfolio after its run and the best candidate; BudgetError if nothing fits.
        After an interrupt it tries only the start and the run without rematerialization; Interrupted if neither fits.
    criterion : Criterion
    clock : Clock
    """

    def __init__(self, problem: Problem, search: Search, criterion: Criterion, clock: Clock) -> None:
        self.problem, self.search, self.clock = problem, search, clock
        self.criterion, self.allocator = criterion, criterion.allocator
        self.pool: dict[tuple[int, int], Candidate] = {}  # the best of all searches, not yet reserved for
        self.reserved: dict[bytes, int] = {}  # bytes reserved for an order
        self.reports: dict[bytes, SearchReport] = {}  # of the searches that found the orders
        self.start: Candidate | None = None  # the user's start, if it fits
        self.best: Reserved | None = None  # the best that fits
        self.lowest: Reserved | None = None
        self.n_tried = 0
        self.bests: dict[str, Candidate] = {}  # by solver: its best candidate in the first search
        self.stop, self.out_of_memory = Stop.DONE, False  # the latter: of the allocator

    def run(self) -> Reserved:
        """Return the best candidate and its reservation.

        Raises
        ------
        BudgetError
            If nothing fits.
        Interrupted
            If interrupted before anything did.
        MemoryError
            If memory ran out before anything did.
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
        """The report for the best plan; `several` if no solver was named."""
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
        """Run a part of the search; return what ended it, unless it was the user or the deadline."""
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
        """Reserve for the start, if it may be better; after an interrupt for the best known without search."""
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
        """True if lower peaks are searched beside those within the limit."""
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
