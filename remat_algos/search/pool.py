"""The pool of candidates for one request. Solvers add to it, with decreasing limits, until the reserved bytes fit."""

import hashlib
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache

from remat_algos.allocate.allocation import NO_LIMIT
from remat_algos.allocate.allocators import PEAK, Reservation
from remat_algos.bounds.bound import ANY_ORDER, LowerBound
from remat_algos.bounds.rising import rising
from remat_algos.bounds.tuning import TOLERANCE
from remat_algos.context import Clock, Interrupted, Stop, interrupted_as, until_stopped
from remat_algos.effort import DEFAULT, FAST, SMALL, Effort
from remat_algos.errors import BudgetError, GraphError, ScheduleError, extended
from remat_algos.forks import cached_property
from remat_algos.plan.plan import BoundSearch, Plan
from remat_algos.plan.record import SearchReport
from remat_algos.search import tuning
from remat_algos.search.infeasible import budget_error, lowest_plan, reserved_error
from remat_algos.search.limits import Limits
from remat_algos.search.request import STOPPED, Request
from remat_algos.search.solver_run import SolverRun, run_unlimited
from remat_algos.solvers.registry import START, Candidate, Solver

BOUNDING = "lower bound: "  # prefix of progress text


def compute_bound(
    limits: Limits,
    clock: Clock,
    *,
    effort: str,
    peak: int | None = None,
    closure: LowerBound | None = None,
    goal: int | None = None,
) -> tuple[LowerBound, Stop]:
    """Return a lower bound on compute within the limit or `peak`, and why the search stopped; `goal` stops it early."""
    bound = closure or LowerBound(limits.graph.needed_compute)
    limit = peak if limits.minimizes_peak else limits.limit
    with until_stopped() as ending:
        last = goal is not None
        for bound in rising(limits.graph, limit, effort=effort, closure=closure, last=last, clock=clock):
            if goal is not None and bound.amount >= goal - int(TOLERANCE * limits.graph.needed_compute):
                ending.stop = Stop.PROVEN
                break
    return bound, ending.stop


class Bounds:
    """Lower bounds on compute: a quick one, at which the search may end, and a better one for the plan."""

    def __init__(self, request: Request, limits: Limits, clock: Clock) -> None:
        self.request, self.limits, self.clock = request, limits, clock
        self.effort, self.stop = Effort.of(request.task.effort), Stop.DONE
        known = self.best if request.ends_at_bound else LowerBound(request.graph.needed_compute)
        self.goal = None if request.raw else limits.goal(known)
        """The compute at which the search may end; None for raw plans, or if reserved bytes are compared as well."""

    @cached_property
    def closure(self) -> LowerBound:
        quick = self.clock.share(tuning.BOUND_SHARE, 0.02, BOUNDING)
        bound, self.stop = compute_bound(self.limits, quick, effort=FAST)
        return bound

    @cached_property
    def best(self) -> LowerBound:
        """The bound used during the search: a moment bound if it is worth its time, else the closure bound."""
        bound = self.closure
        pays = bound.prices is not None and self.request.graph.n_nodes > SMALL
        if self.effort.bounds_first and pays and self.stop is not Stop.INTERRUPTED:
            longer = self.clock.share(tuning.BOUND_SHARE, 0.05, BOUNDING)
            bound, self.stop = compute_bound(self.limits, longer, effort=DEFAULT, closure=bound)
        return bound

    def on_demand(self, best: Candidate, stop: Stop) -> BoundSearch:
        """Return a function that computes the best plan's bound and its `Stop` once, within the time left now."""
        seconds, lock = self.clock.left, threading.Lock()

        @cache
        def computed() -> tuple[LowerBound, Stop]:
            self.clock = Clock(seconds)
            bound = self.best
            bound = bound if self.stop is Stop.INTERRUPTED else self.raised(best, stop)
            return self.limits.stronger(best, bound), self.stop

        def once() -> tuple[LowerBound, Stop]:
            with lock:
                return computed()

        return once

    def raised(self, best: Candidate, stop: Stop) -> LowerBound:
        """Improve the bound until it proves the best plan optimal or the time is over, and return it."""
        limits, clock, interrupted = self.limits, self.clock, stop is Stop.INTERRUPTED
        proven = limits.own_bound(best) if best.scope == ANY_ORDER else None
        peak, compute = best.figures
        untried = self.effort.bounds_last or self.best is self.closure
        if not untried or compute <= max(self.best.amount, proven or 0):
            return self.best
        tighter, self.stop = compute_bound(
            limits,
            clock.share() if interrupted else clock.share(1.0, 1.0, BOUNDING),
            effort=FAST if interrupted else self.request.task.effort,
            peak=peak,
            closure=None if limits.minimizes_peak else self.closure,
            goal=compute,
        )
        return max(tighter, self.best, key=lambda each: each.amount)


class Pool:
    """The candidates of all runs for one request, the bytes reserved for each of them, and the best one that fits.

    The bytes that an allocator reserves beyond the peak depend on the whole schedule. So the pool alternates between
    solvers and allocator:

    1. The solvers run within the limit, and the allocator runs on their best candidates until one fits.
    2. If the best candidate does not fit, the solvers run again with a lower limit on the peak, reduced by the ratio
       of reserved bytes to peak. If no schedule reaches that peak, they run for a limit between the old and the new.
    3. If nothing fits, or for the budget "least", the allocator runs on the candidates with the lowest peaks. Then the
       solvers search for cheaper candidates that reserve no more than the minimum found. So the pool meets every
       limit that is at least this minimum.

    The allocator also runs on the schedule that the user passed as `start` if it ranks before the best candidate that
    fits. After an interrupt, if nothing fits, it runs on candidates that are already in the pool.
    """

    @interrupted_as(STOPPED)
    def __init__(self, request: Request, clock: Clock, unlimited_run: SolverRun | None = None) -> None:
        self.request, self.limits, self.clock = request, request.limits(), clock
        self.limits.check_regions()
        self.bounds = Bounds(request, self.limits, clock)
        self.unlimited_run = unlimited_run  # the run for budget "least"
        self.too_high: SolverRun | None = None  # lowest peak exceeds limit
        # Candidates that the allocator has not tried; key: (peak, compute).
        self.waiting: dict[tuple[int, int], Candidate] = {}
        self.reserved: dict[bytes, int] = {}  # key: hash of the order
        self.reports: dict[bytes, SearchReport] = {}  # key: hash of the order
        self.start: Candidate | None = None  # the user's schedule, if fitting
        self.best: tuple[Candidate, Reservation] | None = None  # best candidate that fits
        self.fewest: tuple[Candidate, Reservation] | None = None  # candidate with fewest reserved bytes
        self.n_tried = 0
        self.bests: dict[str, Candidate] = {}  # by solver; first run only
        self.stop: Stop = self.bounds.stop if self.bounds.stop is Stop.INTERRUPTED else Stop.DONE
        self.out_of_memory = False  # in the allocator

    def search(self) -> tuple[Candidate, Reservation]:
        """Return the best candidate and its reservation; if nothing fits, raise the error that ended the search."""
        try:
            return self._search_all()
        except BudgetError as error:
            if error.plan is not None:
                own = {"solver": self.request.name, "options": self.request.recorded_options}
                error.plan = replace(error.plan, seconds=self.clock.elapsed, **own)
            raise

    def plan(self, best: tuple[Candidate, Reservation], *, bound_later: bool = False) -> Plan:
        """Return the plan for the result of `search`; with `bound_later` its bound is computed when first read."""
        candidate, reservation = best
        now = self.request.ends_at_bound and not bound_later
        bound = (self.bounds.raised if now else self.bounds.on_demand)(candidate, self.stop)
        return self.limits.plan(
            candidate,
            solver=self.request.name,
            options=self.request.recorded_options,
            seconds=self.clock.elapsed,
            report=self.report(candidate, self.stop | self.bounds.stop),
            bound=bound,
            reservation=reservation,
        )

    def _search_all(self) -> tuple[Candidate, Reservation]:
        failure = self._until_stopped(self._search) or self._until_stopped(self._reserve_known)
        self.out_of_memory = isinstance(failure, MemoryError)
        if self.best is not None:
            return self.best
        if isinstance(failure, BudgetError) and failure.plan is not None and self.limits.repeats:
            self._until_stopped(self._search_lowest)  # no schedule fits the limit
            if self.fewest is not None:
                failure.plan = lowest_plan(self.limits, [self.fewest[0]], self.fewest[1], self._fewest_report)
                raise failure
        if self.stop is Stop.INTERRUPTED:
            raise Interrupted(STOPPED)
        if self.fewest is not None and not self.out_of_memory:
            raise reserved_error(self.limits, *self.fewest, self._fewest_report)
        raise failure or budget_error(self.limits, [], {})

    def run(self, limits: Limits | None = None) -> SolverRun:
        """Run the solvers of the request within limits; after an interrupt, only add the user's start schedule."""
        request, interrupted = self.request, self.stop is Stop.INTERRUPTED
        run = self._run(limits or self.limits)
        if interrupted:
            run.note(self.stop)
            run.begin(request.starting, request.options)
        else:
            run.begin(request.solvers, request.options)
            # If no schedule fits yet, search for the lowest peak. If even that is too high, improving is useless.
            if run.unmet and run.stop is not Stop.INTERRUPTED:
                with until_stopped() as ending:
                    run.take_lowest(self._run_unlimited(run))
                run.note(ending.stop)
            if run.least is None:
                run.improve(request.solvers, request.options)
            run.rerun(request.solvers, request.options)
        return run

    def _run(self, limits: Limits) -> SolverRun:
        request, share = self.request, self.bounds.effort.search_share
        progress = min(share, tuning.SEARCHING if limits.allocator.name == PEAK else tuning.SEARCHING_FIRST)
        clock, task = self.clock.share(share, progress), request.task
        if limits is not self.limits:
            # This run repeats an earlier one at a lower limit, for an allocator. It starts from earlier candidates, so
            # little work is enough.
            task = replace(task, effort=FAST)
        elif request.ends_at_bound and not limits.minimizes_peak:
            task = replace(task, closure=self.bounds.closure)
        return SolverRun(limits, clock, task, polish=request.polish, bound=self.bounds.goal)

    def _run_unlimited(self, run: SolverRun) -> SolverRun:
        report, limit = run.clock.within_stage(tuning.PROGRESS_LOWEST), run.limits.limit
        if self.too_high is not None:
            return self.too_high
        clock = Clock(self.clock.seconds(tuning.LOWEST_SHARE * self.bounds.effort.search_share), report)
        whole, bound = self.unlimited_run, self.bounds.goal
        run_for_least = run_unlimited(self.request, self.limits, clock, sought=limit, whole=whole, bound=bound)
        best = run_for_least.best()
        if best is None or limit is None or best.figures[0] > limit:
            self.too_high = run_for_least
        return run_for_least

    def _run_and_best(self, limits: Limits) -> tuple[SolverRun, Candidate]:
        """Run the solvers, or reuse a run for the lowest peak. Return the run and its best candidate that fits."""
        request, interrupted = self.request, self.stop is Stop.INTERRUPTED
        least = limits.minimizes_peak and limits.overhead_limit is None and not interrupted
        if least and self.too_high is not None:
            return self.too_high, _best(self.too_high, self.bounds)
        run = self.run(limits)
        if request.named is not None and not interrupted:
            _check_served(request.named[0], run)
        if not request.raw:
            run.guard()
        if least:
            self.unlimited_run = run
        return run, _best(run, self.bounds)

    @property
    def _fewest_report(self) -> SearchReport | None:
        return None if self.fewest is None else self.reports.get(_key(self.fewest[0]))

    def report(self, best: Candidate, stop: Stop) -> SearchReport:
        report, one_pass = self.reports[_key(best)], self.limits.graph.needed_compute
        names = [*report.out_of_memory, *([self.limits.allocator.name] if self.out_of_memory else [])]
        memory = Stop.OUT_OF_MEMORY if names else Stop.DONE
        # A search counts as complete even if the deadline cut short the computation of its bound.
        interrupted = stop if stop is Stop.INTERRUPTED else Stop.DONE
        report = replace(report, stop=report.stop | memory | interrupted, out_of_memory=tuple(names))
        if self.request.named is not None:
            return report
        overheads = {name: each.figures[1] - one_pass for name, each in self.bests.items()}
        peaks = {name: each.figures[0] for name, each in self.bests.items()} if self.limits.minimizes_peak else {}
        return replace(report, tried=self.n_tried, overheads=overheads, peaks=peaks)

    def _until_stopped(self, part: Callable[[], None]) -> BudgetError | MemoryError | None:
        failure: BudgetError | MemoryError | None = None
        with until_stopped() as ending:
            try:
                part()
            except (BudgetError, MemoryError) as error:
                failure = error
        self.stop |= ending.stop
        return failure

    def _search(self) -> None:
        if not self.limits.minimizes_peak:
            if self.limits.limit is not None and self._until_reserved(self.limits.limit):
                return
            if not self._goes_on:
                return
        self._search_lowest()

    def _search_lowest(self) -> None:
        limits = self.limits
        lowest = limits if limits.minimizes_peak else limits.within(None)
        self._reserve_best(lowest, self._searched(lowest))
        if self._goes_on and self.fewest is not None and (limits.minimizes_peak or self.best is None):
            unmet = limits.minimizes_peak and self.best is None
            self._until_reserved(limits.limit if unmet and limits.limit is not None else self.fewest[1].memory)

    def _reserve_known(self) -> None:
        """Run the allocator on the user's start if it may be better, or after an interrupt on the best candidate."""
        limits, start, best = self.limits, self.start, self.best
        if start is not None:
            by_reservation = self.limits.repeats and limits.minimizes_peak
            if best is None or by_reservation or limits.rank(start) < limits.rank(best[0]):
                self._reserve(start)
        limit = NO_LIMIT if limits.limit is None else limits.limit
        known = min(filter(limits.fits, self.waiting.values()), key=limits.rank, default=None)
        if self.stop is Stop.INTERRUPTED and self.best is None and known is not None:
            self._reserve_best(limits, known, limit)
        if self.stop is Stop.INTERRUPTED and self.best is None:
            self._reserve_best(limits, self._searched(limits), limit)

    @property
    def _done(self) -> bool:
        return self.stop is Stop.INTERRUPTED or (self.clock.late and self.best is not None)

    @property
    def _goes_on(self) -> bool:
        return self.limits.repeats and not self._done

    def _until_reserved(self, limit: int) -> bool:
        """Search at several peak limits for a schedule that reserves at most `limit`; True if the first succeeds."""
        limits, goal, low, high, n_fitting = self.limits, limit, 0, self.limits.base, 0
        for i in range(tuning.MAX_SEARCHES):
            own = goal == limits.limit and not limits.minimizes_peak
            narrowed = limits if own else limits.within(goal)
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
            if low > high or n_fitting > tuning.MAX_FITTING or self._done:
                break
            goal = max(low, min(high, guess))
        return False

    def _searched(self, limits: Limits) -> Candidate:
        run, chosen = self._run_and_best(limits)
        self.n_tried = max(self.n_tried, run.n_tried)
        self.bests = self.bests or run.bests
        self.stop |= run.stop
        own = run.outcomes.get(START)
        starts = [] if own is None else [each for each in own.kept if self.limits.fits(each)]
        if starts:
            self.start = min(starts, key=self.limits.rank)
            self._note_report(run, self.start)
        fitting = {each.figures: each for each in run.candidates if limits.fits(each)}
        fitting.pop(chosen.figures, None)
        others = sorted(fitting.values(), key=limits.rank)[: self.limits.allocator.candidates - 1]
        for candidate in (chosen, *others):
            self._note_report(run, candidate)
            bound, scope = (candidate.bound, candidate.scope) if limits is self.limits else (None, None)
            self.waiting[candidate.figures] = replace(candidate, bound=bound, scope=scope)
        return self.waiting[chosen.figures]

    def _note_report(self, run: SolverRun, candidate: Candidate) -> None:
        if _key(candidate) not in self.reserved:
            self.reports[_key(candidate)] = run.report(candidate)

    def _reserve_best(self, limits: Limits, chosen: Candidate, limit: int | None = None) -> bool:
        self._reserve(chosen)
        self.waiting.pop(chosen.figures, None)
        if limit is not None and self.reserved[_key(chosen)] <= limit:
            return True
        waiting = sorted((each for each in self.waiting.values() if limits.fits(each)), key=limits.rank)
        for candidate in waiting[: self.limits.allocator.candidates - 1]:
            better = self.best is None or self.limits.rank(candidate) < self.limits.rank(self.best[0])
            if self.clock.late or not (better or self.limits.minimizes_peak):
                return False
            del self.waiting[candidate.figures]
            if self._reserve(candidate) and limit is not None and self.reserved[_key(candidate)] <= limit:
                return True
        return False

    def _reserve(self, candidate: Candidate) -> bool:
        """Run the allocator on a candidate, unless it has run on the same order before; return True if it ran."""
        key = _key(candidate)
        if key in self.reserved:
            return False
        reservation = self.limits.allocator.reserve(candidate.simulated, self.clock, **self.limits.allocator_options)
        self.reserved[key] = reservation.memory
        if reservation.allocation is not None:
            self.stop |= reservation.allocation.stop
        if self.fewest is None or reservation.memory < self.fewest[1].memory:
            self.fewest = candidate, reservation
        if self.limits.limit is None or reservation.memory <= self.limits.limit:
            rank = self.limits.rank_reserved
            if self.best is None or rank(candidate, reservation) < rank(*self.best):
                self.best = candidate, reservation
        return True


def _key(candidate: Candidate) -> bytes:
    return hashlib.sha256(candidate.schedule.order.tobytes()).digest()


def _check_served(solver: Solver, run: SolverRun) -> None:
    reason, result = solver.needs(run.limits.graph), run.outcomes.get(solver.name)
    if reason is not None:
        raise GraphError("{name!w} does not support this graph: {reason!w}", name=solver.name, reason=reason)
    if result is None:  # the start schedule was enough
        return
    error = result.error
    if error is None or any(map(run.limits.fits, result.candidates)):
        # The solver failed after it had found a plan. The report of the plan contains the error.
        return
    if isinstance(error, ScheduleError):
        raise extended(error, "{solver!w} does not support this graph: ", solver=solver.name) from error
    if isinstance(error, BudgetError) and error.plan is None:
        error.plan = lowest_plan(run.limits, run.candidates)
    raise error


def _best(run: SolverRun, bounds: Bounds) -> Candidate:
    limits, best = run.limits, run.best()
    if best is not None and limits.fits(best):
        return best
    if run.stop is Stop.INTERRUPTED:
        raise Interrupted(STOPPED)
    errors = [result.error for result in run.outcomes.values() if isinstance(result.error, ScheduleError)]
    if best is None and errors:
        raise errors[-1]
    skipped = Counter[str]()
    for result in run.outcomes.values():
        skipped.update(result.skipped)
    raise budget_error(
        limits,
        run.candidates,
        run.reasons,
        skipped,
        late=run.late,
        proof=bounds.closure,
        dropped=run.dropped,
        least=run.least,
    )
