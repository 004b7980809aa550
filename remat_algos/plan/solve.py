"""From a graph and a budget to the best plan found, simulated."""

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from remat_algos.allocate.allocators.registry import Allocator, get_allocator
from remat_algos.allocate.buffers import is_alignment
from remat_algos.allocate.limits import NO_LIMIT
from remat_algos.allocate.reservation import PEAK, Reservation
from remat_algos.arguments import as_seed, checked_arguments
from remat_algos.bounds.compute import MOMENTS, ComputeBound
from remat_algos.context import WHOLE, Clock, Interrupted, Progress, Stop, interrupted_as, until_stopped
from remat_algos.effort import DEFAULT, FAST, Effort
from remat_algos.errors import AllocationError, BudgetError, GraphError, ScheduleError
from remat_algos.ir.arrays import as_whole
from remat_algos.ir.budget import LEAST, Amount, Budget
from remat_algos.ir.graph import ComputationGraph
from remat_algos.plan.cost_noise import CostNoise, choose_robust, n_compared
from remat_algos.plan.plan import TOLERANCE, Plan
from remat_algos.plan.portfolio import Portfolio, lowest_run
from remat_algos.plan.problem import Problem
from remat_algos.plan.search_report import SearchReport
from remat_algos.schedule.constraints import Constraints
from remat_algos.schedule.schedule import Order, as_schedule
from remat_algos.schedule.simulation import simulate
from remat_algos.solvers.candidates import Candidate
from remat_algos.solvers.registry import (
    ANY_ORDER,
    AUTO,
    BASELINE,
    START,
    Solver,
    Stream,
    any_graph,
    default_solvers,
    get_solver,
    list_solvers,
)
from remat_algos.solvers.task import Task
from remat_algos.text.wording import listed, quoted, shortened

BOUND_SHARE = 0.25  # of the time, for a bound that is computed before the search
LOWEST_SHARE = 0.5  # of the time for the search, for the lowest peak where none within the limit is found at first
SEARCHING, SEARCHING_FIRST = 0.9, 0.6  # of the progress: then comes the bound, or before it addresses
NOISE_SHARE = 0.9  # of the time for the search, where samples of the costs are evaluated after it
SMALL = 64  # nodes; on smaller graphs the integer program would take longer than exact search
MAX_SEARCHES = 6  # for one limit, each for another peak
MAX_FITTING = 2  # searches that fit after the first that did, for a peak that is less far below the limit
SAMPLES = "the samples of costs"  # what may run out of memory beside solvers and allocators
BOUNDING = "lower bound: "  # in the words of the progress
STOPPED = "interrupted before a plan within the budget was found"

Search = Callable[[Problem, Stop], tuple[Portfolio, Candidate]]
Reserved = tuple[Candidate, Reservation]


@checked_arguments
def solve(
    graph: ComputationGraph,
    budget: Budget | Amount | None = None,
    *,
    solver: str | Callable[..., Any] = AUTO,
    effort: str = DEFAULT,
    time_limit: float | None = None,
    seed: int = 0,
    raw: bool = False,
    polish: bool | None = None,
    allocator: str = PEAK,
    alignment: int = 1,
    constraints: Constraints | Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    cost_noise: float | None = None,
    start: Order | None = None,
    **options: Any,
) -> Plan:
    """Find an order of running the nodes whose peak stays within a budget, at the least compute.

    Parameters
    ----------
    graph : ComputationGraph
        For training, one with a backward part (`differentiate`); `solve` adds none. `remat_algos.solve`, like the other
        functions of a graph there, also takes the path of a file and reads it.
    budget : Budget, int or str, optional
        Bytes of peak, residents apart: 4_000_000, "4GiB", "50%" of the peak without rematerialization, "least", or
        "least+0.1%" for the least compute of a plan whose peak is at most 0.1 % above the lowest that was found. None,
        or an overhead budget alone: the lowest peak. With `allocator`, all of what that reserves.
    solver : str or callable
        A name of `list_solvers()`, a function registered as one, or "auto": the best plan of all that can serve.
    effort : {"fast", "default", "best"}
        Which solvers run, and how much work goes into the search, exact search and the lower bound (`rising_bounds`):
        it counts moves, states and integer programs, not seconds. Each of the latter also has a time limit, by which
        bounds of machines may differ.
    time_limit : float, optional
        Seconds; solvers stop soon after and give the best they have.
    seed : int
        For solvers that use chance.
    raw : bool
        Give the solver's plan as it is, even where no rematerialization would be better.
    polish : bool, optional
        Whether passes over the schedule may skip runs whose values are still there or fit beside the rest, and move
        others (`polish`); by default unless `raw`.
    allocator : str
        A name of `list_allocators()`: whose reserved bytes the memory budget is for (`Plan.reservation`). "peak", the
        default, is of live bytes alone. Of "cupy_pool" and "cuda_caching", which are models, it is the most over
        the ways to break ties; "50%" is then of what the same allocator reserves without rematerialization, and "least"
        the least reserved of what is found, then the least overhead. "arena" gives every value an address in one piece
        of memory (`pack`); shares are of the peak, and for "least" the schedule of the lowest peak alone is packed.
    alignment : int
        A power of two that divides every address of the arena.
    constraints : Constraints or mapping, optional
        What the schedule must keep to beside the budget: `{"max_runs": 2, "fixed_order": True, "regions": {"encoder":
        ("encoder.*", "4GiB")}}`. Lower bounds are those without constraints: they hold all the same.
    progress : callable, optional
        Called with (per mille of the work that are done, 1000, what is being tried and the best so far): a `Progress`.
    cost_noise : float, optional
        How uncertain the costs are, as a share of them: above 0 and at most 1. Of what fits, the plan is then the one
        whose overhead has the lowest 90 % quantile over thousands of samples of the costs (`CostNoise`), which is often
        but not always the one of least compute. The bound is about the costs of the graph.
    start : Schedule or sequence of int or str, optional
        A schedule of your own, at which `search` begins beside others; `live_set_search` looks for better ones alone.
        It is a candidate itself, with `raw` too: where it fits, the plan is never worse. With `cost_noise` it is one of
        the plans whose quantiles are compared. Other solvers, named alone, take none, nor do `frontier` and `compare`.
    **options
        Options of the solver.

    Returns
    -------
    Plan
        Within the budget, and never worse than no rematerialization unless `raw`, or where a constraint forbids that.

    Raises
    ------
    BudgetError
        With the least peak reached, the bound that no schedule can go below, the nodes that force it, and the plan of
        least peak that was found.
    GraphError
        If the solver cannot serve this graph, or `start` names no node.
    ScheduleError
        If `start` breaks a law of schedules, in the words of `simulate`.
    MemoryError
        If the one solver that is asked for runs out of memory before it finds a schedule; of several, the others go on.
    AllocationError
        For an alignment that is not a power of two, or an unknown allocator.
    TypeError, ValueError
        For a budget, an option or a `start` that is none.
    Interrupted
        A KeyboardInterrupt before a plan within the budget was found; after that, or where the run without
        rematerialization fits, the best so far is returned, marked `Plan.interrupted`.

    Examples
    --------
    >>> from remat_algos.ir.differentiate import differentiate
    >>> chain = ComputationGraph.from_edges([(i, i + 1) for i in range(8)])
    >>> plan = solve(differentiate(chain), 7)
    >>> plan.peak_memory, plan.overhead
    (7, 4)
    """
    budget, single = Budget.of(budget), _single_solver(solver)
    if budget.above_lowest is not None:
        common: dict[str, Any] = {"effort": effort, "seed": seed, "raw": raw, "polish": polish, "allocator": allocator}
        common |= {"alignment": alignment, "constraints": constraints, "cost_noise": cost_noise, **options}
        halves = _halves(time_limit, progress)

        def half(part: Budget, lowest: Plan | None) -> Plan:
            limit, report = next(halves)
            begin = start if lowest is None or single is not None else lowest.schedule
            return solve(graph, part, solver=solver, time_limit=limit, progress=report, start=begin, **common)

        return near_lowest(budget, half)
    if single is None and options:
        raise TypeError(f"options {listed(list(options))} belong to one solver; name it, auto takes none")
    if not is_alignment(alignment):
        raise AllocationError(
            f"alignment is {quoted(alignment)}, which is not a power of two below 2**53; give 1, 2, 4, ..."
        )
    alignment, seed = int(alignment), as_seed(seed)
    starts = [] if start is None else [_as_solver(graph, start, single)]
    options = {name: given if as_whole(given) is None else as_whole(given) for name, given in options.items()}
    if single is not None:
        single.check_options(options)
    reserving = get_allocator(allocator)
    with interrupted_as(STOPPED):
        noise = None if cost_noise is None else CostNoise.of(graph, cost_noise, seed)
        if noise is not None and reserving.name != PEAK:
            raise ValueError(f"cost_noise goes with allocator={PEAK!r}; leave out allocator={quoted(allocator)}")
        problem = Problem.of(graph, budget, reserving, constraints)
        clock, task = Clock(time_limit, progress), Task(seed=seed, effort=effort)
        allowed = Effort.of(effort)
        problem.check_regions()
        quick = clock.share(BOUND_SHARE, clock.within_stage(0.02, BOUNDING))
        closure, stop = problem.compute_bound(quick, effort=FAST)
        bound = closure
        longer_pays = closure.price is not None and graph.n_nodes > SMALL
        if allowed.bounds_first and longer_pays and stop is not Stop.INTERRUPTED:
            longer = clock.share(BOUND_SHARE, clock.within_stage(0.05, BOUNDING))
            bound, stop = problem.compute_bound(longer, effort=DEFAULT, closure=closure)
    target = bound.compute if reserving.candidates == 1 and not raw else None
    if target is not None and bound.source == MOMENTS:
        target += int(TOLERANCE * graph.needed_compute)
    if noise is not None and target is not None:
        target = graph.needed_compute  # nothing else is the best at other costs too
    out_of_memory: list[str] = []
    part = allowed.search_share * (NOISE_SHARE if noise is not None else 1.0)
    passes = not raw if polish is None else polish
    solvers = [*starts, *(default_solvers(graph, effort) if single is None else [single])]

    lowest_runs: list[Portfolio] = []

    def lowest(report: Progress | None) -> Portfolio:
        """The run for the budget "least", once."""
        if not lowest_runs:
            shared = clock.share(LOWEST_SHARE * part, report)
            run = lowest_run(problem, solvers, shared, task, options, guard=not raw, polish=passes, bound=target)
            lowest_runs.append(run)
        return lowest_runs[0]

    def search(narrowed: Problem, before: Stop) -> tuple[Portfolio, Candidate]:
        if (
            narrowed.minimizes_peak
            and narrowed.overhead_limit is None
            and lowest_runs
            and before is not Stop.INTERRUPTED
        ):
            return lowest_runs[0], _best(lowest_runs[0], closure)
        compared = 0 if noise is None else n_compared(graph)
        done = min(allowed.search_share, SEARCHING if reserving.name == PEAK else SEARCHING_FIRST)
        shared = clock.share(part, progress=clock.within_stage(done))
        # the same again for what an allocator adds: it improves what was found
        own = task if narrowed is problem else replace(task, effort=FAST)
        portfolio = Portfolio(narrowed, shared, own, polish=passes, bound=target, n_fitting=compared, lowest=lowest)
        interrupted = before is Stop.INTERRUPTED  # then no solver is run
        if interrupted:
            portfolio.ending.stop, portfolio.lowest = before, None
        portfolio.run(starts if interrupted else solvers, options)
        if single is not None and not interrupted:
            _check_served(single, portfolio)
        if not raw:
            with until_stopped() as ending:
                portfolio.guard()
            portfolio.ending.stop |= ending.stop
        best = _best(portfolio, closure)
        if noise is not None:
            with until_stopped(memory=True) as ending:
                best, portfolio.robust = choose_robust(narrowed, [*portfolio.candidates, *portfolio.fitting], noise)
            if ending.stop is Stop.OUT_OF_MEMORY:  # the best at the costs of the graph is there
                out_of_memory.append(SAMPLES)
            else:
                portfolio.ending.stop |= ending.stop
        return portfolio, best

    searches = ReservedSearch(problem, search, reserving, clock, allocator_options(reserving, alignment, seed))
    searches.stop = stop
    named = AUTO if single is None else single.name
    try:
        best, reservation = searches.run()
    except BudgetError as error:
        clock.finish()
        if error.plan is not None:
            error.plan = replace(error.plan, solver=named, options=options, seconds=clock.elapsed)
        raise
    proven = problem.own_bound(best) if best.scope == ANY_ORDER else None
    untried = allowed.bounds_last or bound is closure
    if untried and best.figures[1] > max(bound.compute, proven or 0):
        peak, known = best.figures[0], None if problem.minimizes_peak else closure
        interrupted = searches.stop is Stop.INTERRUPTED
        tighter, stop = problem.compute_bound(
            clock.share(progress=None if interrupted else clock.within_stage(name=BOUNDING)),
            effort=FAST if interrupted else effort,
            peak=peak,
            closure=known,
            goal=best.figures[1],
        )
        bound = max(tighter, bound, key=lambda each: each.compute)
    stop |= searches.stop
    if stop is not Stop.INTERRUPTED:
        clock.finish()
    return problem.plan(
        best,
        solver=named,
        options=options,
        seconds=clock.elapsed,
        report=searches.report(best, single is None, [*out_of_memory], stop),
        bound=bound,
        reservation=reservation,
    )


def near_lowest(budget: Budget, run: Callable[[Budget, Plan | None], Plan]) -> Plan:
    """The least compute of two plans: of the lowest peak, and of at most a share above that.

    Parameters
    ----------
    budget : Budget
        Such as "least+0.1%".
    run : callable
        Solves for a budget; the second time with the plan of the lowest peak.
    """
    assert budget.above_lowest is not None
    lowest = run(replace(budget, memory=LEAST), None)
    used = lowest.reservation.memory
    if lowest.interrupted:
        return lowest
    try:
        cheaper = run(replace(budget, memory=used + int(budget.above_lowest * used)), lowest)
    except BudgetError:  # of a solver that finds less for a limit than for the lowest peak
        return lowest
    return min(lowest, cheaper, key=lambda plan: plan.overhead)


def _halves(time_limit: float | None, progress: Progress | None) -> Iterator[tuple[float | None, Progress | None]]:
    """Time limit and progress of the first of two runs, then of the second, with the time that is left."""
    began = time.monotonic()
    for done, share in ((0, 2.0), (WHOLE, 1.0)):
        left = None if time_limit is None else max(time_limit - (time.monotonic() - began), 0.0) / share
        yield left, None if progress is None else partial(_report_half, progress, done)


def _report_half(progress: Progress, done: int, part: int, total: int, text: str) -> None:
    progress((done + part) // 2, total, text)


def allocator_options(allocator: Allocator, alignment: int, seed: int = 0) -> dict[str, int]:
    """Options of an allocator; ValueError for an alignment that it does not take."""
    if "alignment" in allocator.options:
        return {"alignment": alignment, "seed": seed}
    if alignment != 1:
        raise ValueError(f"alignment={alignment} goes with allocator='arena'; give that too")
    return {}


def _as_solver(graph: ComputationGraph, schedule: Order, single: Solver | None) -> Solver:
    """A solver that gives one schedule; ValueError beside one that begins at nothing."""
    if single is not None and not single.improves:
        able = listed([each.name for each in list_solvers() if each.improves])
        raise ValueError(f"{shortened(single.name)} takes no start; name one of {able}, or leave out the solver")
    try:
        simulation = simulate(graph, as_schedule(graph, schedule, "start"))
    except ScheduleError as error:
        raise ScheduleError(f"start: {error}", error.step, error.node) from error
    except GraphError as error:
        raise GraphError(f"start: {error}") from error

    def start(graph: ComputationGraph, task: Task, clock: Clock, **options: Any) -> Stream:
        yield Candidate(simulation.schedule, simulation=simulation)

    return Solver(start, paper="", needs=any_graph, optimal_in=None, price=0.0)


def _check_served(solver: Solver, portfolio: Portfolio) -> None:
    """Raise what kept the one solver from yielding candidates."""
    reason, result = solver.needs(portfolio.problem.graph), portfolio.results.get(solver.name)
    if reason is not None:
        raise GraphError(f"{solver.name} cannot serve this graph: {reason}")
    if result is None:  # it was not run: the start meets the bound
        return
    error = result.error
    if isinstance(error, ScheduleError):
        raise ScheduleError(f"{solver.name} cannot serve this graph: {error}", error.step, error.node) from error
    if error is not None and not (
        isinstance(error, MemoryError) and any(map(portfolio.problem.fits, result.candidates))
    ):
        if isinstance(error, BudgetError) and error.plan is None:
            error.plan = portfolio.problem.lowest_plan(portfolio.candidates)
        raise error


def _best(portfolio: Portfolio, proof: ComputeBound) -> Candidate:
    """The candidate that ranks first, if it keeps to the budget."""
    problem, best = portfolio.problem, portfolio.best()
    if best is not None and problem.fits(best):
        return best
    if portfolio.ending.stop is Stop.INTERRUPTED:
        raise Interrupted(STOPPED)
    errors = [result.error for result in portfolio.results.values() if isinstance(result.error, ScheduleError)]
    if best is None and errors:
        raise errors[-1]
    skipped = Counter[str]()
    for result in portfolio.results.values():
        skipped.update(result.skipped)
    raise problem.budget_error(
        portfolio.candidates,
        portfolio.reasons,
        skipped,
        late=Stop.DEADLINE in portfolio.stops,
        proof=proof,
        dropped=portfolio.dropped,
        least=portfolio.least,
    )


def _single_solver(solver: str | Callable[..., Any]) -> Solver | None:
    if isinstance(solver, str) and solver == AUTO:
        return None
    if not isinstance(solver, str) and not callable(solver):
        raise TypeError(f"solver is {quoted(solver)}; give the name of one, such as 'echo', or leave it out")
    if callable(solver):
        name = getattr(solver, "__name__", "")
        known = get_solver(name) if name else None
        if known is None:
            raise ValueError(f"a {type(solver).__name__} has no name; register a function with @solver and give that")
        if known.function is not solver:
            raise ValueError(f"{shortened(name)} is the name of another solver; register the function with @solver")
        return known
    return get_solver(solver)


class ReservedSearch:
    """Repeats a search for lower peaks until what an allocator reserves fits; no schedule is reserved for twice.

    What an allocator adds to the peak is known only for a whole schedule. So the allocator is run on the best
    candidates of a search, up to the first that fits. Where the best of all does not fit, the search is repeated for a
    peak lower by the share that was added; where that overshoots, for one in between. Then the candidates of the lowest
    peaks follow. For the budget "least", or where nothing fits, cheaper candidates are searched that reserve no more
    than the minimum found. So every limit from that minimum on is met. The user's own start is reserved for where it
    ranks before all of these. After an interrupt with nothing that fits, it is tried once more with what is known.

    Parameters
    ----------
    problem : Problem
    search : callable
        Of a problem the portfolio after its run, and the best candidate; BudgetError if nothing fits. If it is told of
        an interrupt, of the start and the run without rematerialization alone; Interrupted if neither fits.
    allocator : Allocator
    clock : Clock
    options : mapping
        Of the allocator.
    """

    def __init__(
        self,
        problem: Problem,
        search: Search,
        allocator: Allocator,
        clock: Clock,
        options: Mapping[str, Any],
    ) -> None:
        self.problem, self.search, self.clock = problem, search, clock
        self.allocator, self.options = allocator, options
        self.pool: dict[tuple[int, int], Candidate] = {}  # the best of all searches, not yet reserved for
        self.reserved: dict[bytes, int] = {}  # bytes reserved for an order
        self.reports: dict[bytes, SearchReport] = {}  # of the searches that found the orders
        self.start: Candidate | None = None  # of the user, if it fits
        self.best: Reserved | None = None  # that fits
        self.lowest: Reserved | None = None
        self.n_tried = 0
        self.bests: dict[str, Candidate] = {}  # of the first search: of each solver that has a plan
        self.stop = Stop.DONE

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
        out_of_memory = isinstance(failure, MemoryError)
        self.stop |= Stop.OUT_OF_MEMORY if out_of_memory else Stop.DONE
        if self.best is not None:
            return self.best
        if isinstance(failure, BudgetError) and failure.plan is not None and self.allocator.candidates > 1:
            self._until_stopped(self._run_lowest)  # no peak fits
            if self.lowest is not None:
                failure.plan = self.problem.lowest_plan([self.lowest[0]], self.lowest[1])
                raise failure
        if self.stop is Stop.INTERRUPTED:
            raise Interrupted(STOPPED)
        if self.lowest is not None and not out_of_memory:
            raise self.problem.reserved_error(*self.lowest)
        raise failure or self.problem.budget_error([], {})

    def report(self, best: Candidate, several: bool, out_of_memory: Sequence[str], stop: Stop) -> SearchReport:
        """What the plan of the best records of the searches: `several` if no solver was named."""
        report, one_pass = self.reports[_key(best)], self.problem.graph.needed_compute
        names = [*report.out_of_memory, *out_of_memory]
        names += [self.allocator.name] if self.stop is Stop.OUT_OF_MEMORY else []
        memory = Stop.OUT_OF_MEMORY if names else Stop.DONE
        interrupted = stop if stop is Stop.INTERRUPTED else Stop.DONE  # a bound that was cut short leaves no plan out
        report = replace(report, stop=report.stop | memory | interrupted, out_of_memory=tuple(names))
        if not several:
            return report
        overheads = {name: each.figures[1] - one_pass for name, each in self.bests.items()}
        peaks = {name: each.figures[0] for name, each in self.bests.items()} if self.problem.minimizes_peak else {}
        return replace(report, tried=self.n_tried, overheads=overheads, peaks=peaks)

    def _until_stopped(self, part: Callable[[], None]) -> BudgetError | MemoryError | None:
        """Run a part of the search; what ended it, if it was not the user or the deadline."""
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
            if self.allocator.candidates == 1 or self._done:
                return
        self._run_lowest()

    def _run_lowest(self) -> None:
        """Search for the lowest peaks, then below the lowest reservation."""
        problem, lowest = self.problem, self.problem
        if not problem.minimizes_peak:
            lowest = replace(problem, budget=replace(problem.budget, memory=LEAST), limit=None)
        self._reserve_best(lowest, self._searched(lowest))
        if self.allocator.candidates == 1 or self._done or self.lowest is None:
            return
        if problem.minimizes_peak or self.best is None:
            unmet = problem.minimizes_peak and self.best is None
            self._within(problem.limit if unmet and problem.limit is not None else self.lowest[1].memory)

    def _reserve_known(self) -> None:
        """Reserve for the start, where it may be better; after an interrupt for the best that needs no search."""
        problem, start, best = self.problem, self.start, self.best
        if start is not None:
            by_reservation = problem.minimizes_peak and self.allocator.candidates > 1
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
        """Whether the search ends with what it has."""
        return self.stop is Stop.INTERRUPTED or (self.clock.late and self.best is not None)

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
        """Run one search; its best candidate is returned, and others go into the pool."""
        portfolio, chosen = self.search(problem, self.stop)
        self.n_tried = max(self.n_tried, portfolio.n_tried)
        self.bests = self.bests or portfolio.bests
        self.stop |= portfolio.ending.stop
        own = portfolio.results.get(START)
        if own is not None and own.kept.items and self.problem.fits(own.kept.items[0]):
            self.start = own.kept.items[0]
            self.reports[_key(self.start)] = portfolio.report(self.start)
        fitting = {each.figures: each for each in portfolio.candidates if problem.fits(each)}
        fitting.pop(chosen.figures, None)
        others = sorted(fitting.values(), key=problem.rank)[: self.allocator.candidates - 1]
        for candidate in (chosen, *others):
            self.reports[_key(candidate)] = portfolio.report(candidate)
            bound, scope = (candidate.bound, candidate.scope) if problem is self.problem else (None, None)
            self.pool[candidate.figures] = replace(candidate, bound=bound, scope=scope)
        return self.pool[chosen.figures]

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
        reservation = self.allocator.reserve(candidate.simulated, self.clock, **self.options)
        self.reserved[key] = reservation.memory
        self.stop |= reservation.stop
        if self.lowest is None or reservation.memory < self.lowest[1].memory:
            self.lowest = candidate, reservation
        if self.problem.limit is None or reservation.memory <= self.problem.limit:
            rank = self._rank(candidate, reservation)
            if self.best is None or rank < self._rank(*self.best):
                self.best = candidate, reservation
        return True

    def _rank(self, candidate: Candidate, reservation: Reservation) -> tuple[bool | int, ...]:
        """Sort key of candidates that fit: the reservation first where the budget is "least"."""
        if not self.problem.minimizes_peak or self.allocator.candidates == 1:
            return self.problem.rank(candidate)
        peak, compute = candidate.figures
        return reservation.memory, compute, peak, candidate.solver != BASELINE


def _key(candidate: Candidate) -> bytes:
    return hashlib.sha256(candidate.schedule.order.tobytes()).digest()
