"""Run solvers; simulate, rank, keep and polish their candidates."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from operator import or_
from types import MappingProxyType
from typing import Any

from remat_algos.bounds.bound import ANY_ORDER
from remat_algos.context import Clock, OutOfTime, Progress, Stop, until_stopped
from remat_algos.effort import FAST, SMALL
from remat_algos.errors import ArgumentTypeError, BudgetError, GraphError, ScheduleError, extended
from remat_algos.ir.budget import LEAST, Budget
from remat_algos.plan.record import SearchReport
from remat_algos.schedule.emission import baseline
from remat_algos.schedule.polishing import polish
from remat_algos.schedule.schedule import Schedule
from remat_algos.schedule.simulation import Simulation, simulate
from remat_algos.search.infeasible import RULED_OUT
from remat_algos.search.request import Problem, Request
from remat_algos.solvers.registry import BASELINE, START, Candidate, ParetoSet, Solver, Stream, Task, in_order
from remat_algos.wording import counted

MAX_OTHERS = 12  # candidates that are polished besides the best
MAX_POLISHED_STEPS = 400_000  # steps of one solver's schedules
POLISHED_A_SECOND = 100_000  # steps; the passes over one schedule look at no clock


def polished(problem: Problem, kept: Sequence[Candidate], clock: Clock, *, budgets: int = 0) -> Iterator[Candidate]:
    """Polish the candidates of one solver, the lowest peak first; yield those that the passes improve.

    For a whole frontier, `budgets` is the number of budgets, evenly spaced up to the peak without rematerialization.
    """
    n_steps, max_steps = 0, MAX_POLISHED_STEPS * (1 + bool(budgets))
    waiting = list(_worth_polishing(problem, kept, budgets))
    clock.stage(min(max_steps, sum(len(candidate.schedule) for candidate, _ in waiting)), "polishing")
    for candidate, limit in waiting:
        length = len(candidate.schedule)
        n_steps += length
        if n_steps > max_steps and n_steps > length:
            return
        if clock.left is not None and length / POLISHED_A_SECOND > clock.left:
            continue
        start = candidate.simulated
        better = _passes(problem, start, limit)
        if better is not start:
            yield _improved(candidate, better)
        clock.progress(n_steps)


def _worth_polishing(
    problem: Problem, kept: Sequence[Candidate], budgets: int
) -> Iterator[tuple[Candidate, int | None]]:
    """Yield (candidate, its limit), most promising first; the limit None asks for the lowest peak."""
    if budgets and kept:
        yield from _along_the_curve(problem.base, kept, budgets)
    elif problem.minimizes_peak:
        yield from ((candidate, None) for candidate in sorted(kept, key=problem.rank))
    elif kept:
        best = kept.index(min(kept, key=problem.rank))
        fits = problem.limit is not None and kept[best].figures[0] <= problem.limit
        others = kept[: best : 1 + best // MAX_OTHERS] if fits else kept[1:MAX_OTHERS]
        yield from ((each, problem.limit) for each in sorted([kept[best], *others], key=problem.rank))


def _along_the_curve(base: int, kept: Sequence[Candidate], n: int) -> Iterator[tuple[Candidate, int | None]]:
    """Yield the best for each budget, then candidates within their own peaks, then others for each budget.

    No candidate is polished to below its own peak; the run for the lowest peak did that.
    """
    budgets = [base * i // n for i in range(n, 0, -1)]
    within = [[each for each in kept if each.figures[0] <= budget] for budget in budgets]
    for budget, candidates in zip(budgets, within, strict=True):
        yield from ((each, budget) for each in candidates[-1:])
    stride = 1 + sum(len(candidate.schedule) for candidate in kept) // MAX_POLISHED_STEPS
    for candidate in kept[::stride]:
        yield candidate, candidate.figures[0]
    for budget, candidates in zip(budgets, within, strict=True):
        others = candidates[-2 :: -(1 + len(candidates) // MAX_OTHERS)]
        yield from ((each, budget) for each in others)


def _passes(problem: Problem, simulation: Simulation, limit: int | None) -> Simulation:
    """Polish: lower the peak if it is above the limit, then reduce compute; return the new simulation."""
    graph = problem.graph
    too_high = simulation.peak_memory > limit if limit is not None else problem.overhead_limit is None
    if too_high:
        simulation = polish(graph, simulation, 0)
    return polish(graph, simulation, max(limit or 0, simulation.peak_memory))


def _improved(candidate: Candidate, simulation: Simulation) -> Candidate:
    """Return the candidate with a polished schedule, without its bound if that exceeds the new compute."""
    beaten = candidate.bound is not None and candidate.bound > simulation.compute
    return replace(
        candidate,
        schedule=simulation.schedule,
        details={**candidate.details, "polished": True},
        bound=None if beaten else candidate.bound,
        scope=None if beaten else candidate.scope,
        simulation=simulation,
    )


GRACE = 0.05  # seconds after the deadline in which cheap solvers still run
LONG_GRACE = 1.0  # the same, while nothing fits: a late plan is better than none
FIRST_SECONDS = 0.25  # minimum per solver until a candidate fits
SOLVING = 0.75  # time share of solving; the rest is for polishing
PROGRESS_SOLVING = 0.9  # progress share of solving; polishing usually ends early
PROGRESS_LOWEST = 0.4  # share of the remaining progress for the lowest peak
FIRST_SHARE = 0.1  # share of the lowest-peak run (progress and time) for the first searches
# Minimum factor on the time of a solver that used up its share, for another run.
LONGER = 2.0
MIN_PRICE = 0.03  # minimum price of a solver in shares of the progress
MAX_KEPT = 64  # candidates kept per solver under a limit
# node count above which one simulation may exceed the time left
LARGE = 10_000
RAN_OUT = "it ran out of memory"
NOT_TRIED = "not tried within the time limit"
AGAINST = "against a constraint"  # follows the number of schedules


def figures(candidate: Candidate) -> tuple[int, int]:
    """Peak and compute."""
    return candidate.figures


@dataclass(slots=True, eq=False)
class SolverResult:
    """The candidates of one solver, and the end of its run.

    The candidates of each run are kept apart, as the solver yielded them: so the passes improve what one run finds,
    even where another run finds better. `share` is the seconds that its last run was given, 0 without a time limit.
    """

    runs: dict[int, ParetoSet[Candidate]] = field(default_factory=dict)
    polished: list[Candidate] = field(default_factory=list)
    simulated: int = 0
    dropped: Candidate | None = None
    skipped: Mapping[str, int] = field(default_factory=dict)
    stop: Stop = Stop.DONE
    seconds: float = 0.0
    share: float = 0.0
    reason: str = ""
    error: BudgetError | GraphError | ScheduleError | MemoryError | None = None

    @property
    def kept(self) -> list[Candidate]:
        """Candidates that the solver yielded, in all its runs."""
        return [candidate for run in self.runs.values() for candidate in run.items]

    @property
    def candidates(self) -> list[Candidate]:
        """Yielded and polished candidates."""
        return [*self.kept, *self.polished]

    def keep(self, candidate: Candidate) -> ParetoSet[Candidate]:
        """Keep a candidate unless another of its run dominates it; return those of its run."""
        run = self.runs.setdefault(candidate.run, ParetoSet(figures))
        run.add(candidate)
        return run

    def report(self, solver: str, stop: Stop = Stop.DONE) -> SearchReport:
        """Return the report for a plan of this solver; `stop` is how the runs of all solvers ended."""
        stop |= self.stop if self.error is None else self.stop | Stop.FAILED
        names = (solver,) if self.stop is Stop.OUT_OF_MEMORY else ()
        return SearchReport(simulated=self.simulated, skipped=self.skipped, stop=stop, out_of_memory=names)


class Portfolio:
    """A run of solvers on one problem; candidates found before an interrupt or the deadline stay.

    `budgets` is for a whole frontier: the number of budgets, evenly spaced up to the peak without rematerialization,
    within which candidates are polished; a search of one limit goes through that number of limits. A candidate whose
    compute meets `bound`, up to the slack of the task, ends the search, and so does one that a solver proves optimal;
    without a bound all solvers run.

    `lowest` is called once, with the limit and a progress callback, if no candidate fits before the solvers that
    improve candidates run. It returns the portfolio of the same solvers after its run for the lowest peak, which may
    end within the limit; its candidates are added. If all exceed the limit, the improving solvers are skipped: so no
    limit below the lowest peak is met. On small graphs, and named alone, solvers that prove optima run before.
    """

    def __init__(
        self,
        problem: Problem,
        clock: Clock,
        task: Task | None = None,
        *,
        polish: bool = True,
        budgets: int = 0,
        bound: int | None = None,
        lowest: "Callable[[int, Progress | None], Portfolio] | None" = None,
    ) -> None:
        self.problem = problem
        self.clock = clock
        self.polish = polish
        self.budgets = budgets
        self.bound = None if problem.minimizes_peak else bound
        self.stops_at_proof = bound is not None
        self.limit = None if budgets else problem.solver_limit
        self.task = replace(
            task or Task(), limit=self.limit, bound=self.bound, budgets=budgets, constraints=problem.constraints
        )
        self.results: dict[str, SolverResult] = {}
        self._stop = Stop.DONE  # end of parts without a solver
        self.lowest = lowest
        self.least: Candidate | None = None  # lowest peak, if above the limit
        self.running = ""  # solver running now, or when interrupted
        self._report_again: Callable[[], None] | None = None  # repeats progress for a new best
        self._best: Candidate | None = None
        self._proven = False  # a solver proved `_best` optimal
        self.peak_bound = 0  # largest lower bound on the peak proven by a solver

    @property
    def candidates(self) -> list[Candidate]:
        """The candidates of all solvers."""
        return [candidate for result in self.results.values() for candidate in result.candidates]

    @property
    def reasons(self) -> dict[str, str]:
        """By solver: the reason why it has no candidates, or no more."""
        return {name: result.reason for name, result in self.results.items() if result.reason}

    @property
    def n_tried(self) -> int:
        """Number of solvers that were run."""
        tried = (result for name, result in self.results.items() if name != START)
        return sum(result.simulated > 0 or result.error is not None for result in tried)

    def run(self, solvers: Sequence[Solver], options: Mapping[str, Any] = MappingProxyType({})) -> None:
        """Run solvers in order, each with these options, until an interrupt."""
        ordered = in_order(solvers)
        exact_first = self.problem.graph.n_nodes <= SMALL or not any(solver.searches for solver in ordered)
        serving = [solver.name for solver in ordered if not solver.needs(self.problem.graph)]
        work = [max(solver.price, MIN_PRICE) if solver.name in serving else 0.0 for solver in ordered]
        with until_stopped() as ending:
            for i, solver in enumerate(ordered):
                if self.enough:
                    break
                if solver.improves and (solver.searches or not exact_first) and self._is_unmet():
                    break
                progress = None
                if work[i]:
                    number = f"method {serving.index(solver.name) + 1} of {len(serving)}, " if len(serving) > 1 else ""
                    report = self.clock.within_stage(work[i] / sum(work[i:]))
                    progress = self._report(f"{number}{solver.name}", report)
                part = self._part(len(ordered) - i)
                self._run_solver(solver, options, self.clock.share(part, progress))
            if self.enough:
                ending.stop = Stop.PROVEN if self.optimal else Stop.NEAR
            self._is_unmet()
        self.note(ending.stop)

    def rerun(self, solvers: Sequence[Solver], options: Mapping[str, Any] = MappingProxyType({})) -> None:
        """Run solvers again that used up their share of the time, in the time that the others left.

        So a run that leaves something out has used its time. A solver runs again only where it gets at least `LONGER`
        times the time it had.
        """
        with until_stopped() as ending:
            for solver in in_order(solvers):
                result, left = self.results.get(solver.name), self.clock.left
                if not left or result is None or result.stop is not Stop.DEADLINE or self.enough:
                    continue
                n_waiting = sum(each.stop is Stop.DEADLINE for each in self.results.values())
                share = max(1 / n_waiting, min(1.0, LONGER * result.share / left))
                if share * left >= LONGER * result.share:
                    self._run_solver(solver, options, self.clock.share(share))
        self.note(ending.stop)

    def _is_unmet(self) -> bool:
        """Search for the lowest peak once if no candidate fits; return True if even that exceeds the limit."""
        limit, lowest = self.problem.limit, self.lowest
        if lowest is None or limit is None or self.problem.minimizes_peak or self.budgets:
            return self.least is not None
        if any(candidate.figures[0] <= limit for candidate in self.candidates):
            return False
        if limit >= self.problem.base and self.problem.graph.mark is None and self.problem.constraints is None:
            return False  # the run without rematerialization fits
        self.lowest, found = None, lowest(limit, self.clock.within_stage(PROGRESS_LOWEST))
        best = self.take(found)
        if self.stop is Stop.INTERRUPTED:
            raise KeyboardInterrupt
        if best is not None and best.figures[0] > limit and not found.late:
            self.least = best
        return self.least is not None

    def take(self, other: "Portfolio") -> Candidate | None:
        """Adopt the candidates of a run for another limit; return its best."""
        for name, result in other.results.items():
            own = self.results.setdefault(
                name, SolverResult(stop=result.stop, reason=result.reason, error=result.error)
            )
            own.simulated += result.simulated
            for candidate in result.candidates:
                candidate = replace(candidate, bound=None, scope=None)  # they hold for the other limit
                own.polished.append(candidate)  # not `keep`: a proven equal may follow
                self._note(candidate)
        self.note(other._stop)
        self.peak_bound = max(self.peak_bound, other.peak_bound)
        return other.best()

    @property
    def optimal(self) -> bool:
        """True if the best candidate fits and meets a bound, that of the problem or its own."""
        best = self._best
        if best is None or self.budgets or not self.problem.fits(best):
            return False
        proven = self._proven and self.stops_at_proof
        return proven or (self.bound is not None and best.figures[1] <= self.bound)

    @property
    def enough(self) -> bool:
        """True if the best candidate is optimal, or fits within the gap that the task allows."""
        best, goal = self._best, self.task.goal
        if best is None or goal is None or self.budgets or best.figures[1] > goal:
            return self.optimal
        return self.problem.fits(best)

    def _part(self, n_left: int) -> float:
        """The share of the time for the next solver: an equal one, or enough for one candidate while nothing fits."""
        best, left = self._best, self.clock.left
        if not left or (best is not None and self.problem.fits(best)):
            return 1 / n_left
        return min(1, max(1 / n_left, FIRST_SECONDS / left))

    @property
    def bests(self) -> dict[str, Candidate]:
        """The best candidate of each solver, if one fits, best first."""
        rank, fits = self.problem.rank, self.problem.fits
        bests = {name: min(result.candidates, key=rank, default=None) for name, result in self.results.items()}
        fitting = [(name, best) for name, best in bests.items() if best is not None and fits(best)]
        return dict(sorted(fitting, key=lambda entry: (rank(entry[1]), entry[0])))

    def guard(self) -> None:
        """Add the run without rematerialization, unless a mark forbids it."""
        graph = self.problem.graph
        with until_stopped() as ending, suppress(ScheduleError):
            run = baseline(graph) if graph.mark is None else simulate(graph, baseline(graph).schedule)
            result = self.results.setdefault(BASELINE, SolverResult())
            candidate = Candidate(run.schedule, simulation=run, solver=BASELINE)
            if self._allowed(candidate, result):
                result.keep(candidate)
        self.note(ending.stop)

    @property
    def dropped(self) -> list[Candidate]:
        """The best candidate of each solver that violates a constraint."""
        return [result.dropped for result in self.results.values() if result.dropped is not None]

    def note(self, stop: Stop) -> None:
        """Record the end of a part of the run that belongs to no single solver."""
        self._stop |= stop

    @property
    def stop(self) -> Stop:
        """The end of the solvers and of the run as a whole."""
        return reduce(or_, (result.stop for result in self.results.values()), self._stop)

    @property
    def late(self) -> bool:
        """True if the time limit ended the run or a solver."""
        return Stop.DEADLINE in {self._stop, *(result.stop for result in self.results.values())}

    @property
    def out_of_memory(self) -> list[str]:
        """The solvers that ran out of memory."""
        return [name for name, result in self.results.items() if result.stop is Stop.OUT_OF_MEMORY]

    def report(self, candidate: Candidate) -> SearchReport:
        """Return the report for a plan of this candidate."""
        own = self.results[candidate.solver].report(candidate.solver, self.stop)
        others = [result for name, result in self.results.items() if name != BASELINE]
        if candidate.solver == BASELINE and len(others) == 1:
            own = replace(own, simulated=(own.simulated or 0) + others[0].simulated)
        return replace(own, out_of_memory=tuple(self.out_of_memory))

    def best(self) -> Candidate | None:
        """Return the candidate that ranks first, of equal ones with the largest bound; None without candidates.

        Its peak bound is the largest that a solver proved, unless it has a bound that is of a certain peak.
        """
        best = min(self.candidates, key=lambda each: (*self.problem.rank(each), -(each.bound or 0)), default=None)
        if best is None or best.bound is not None or self.peak_bound <= (best.peak_bound or 0):
            return best
        return replace(best, peak_bound=self.peak_bound)

    def _run_solver(self, solver: Solver, options: Mapping[str, Any], clock: Clock) -> None:
        """Run one solver, then polish its candidates."""
        result = self.results.setdefault(solver.name, SolverResult())
        result.reason = solver.needs(self.problem.graph) or ""
        fits = self._best is not None and self.problem.fits(self._best)
        grace = 0.0 if not solver.cheap else GRACE if fits else LONG_GRACE
        if not result.reason and self.clock.late and self.clock.overdue >= grace and self.candidates:
            result.reason, result.stop = NOT_TRIED, Stop.DEADLINE
        if result.reason:
            return
        result.stop, result.error, result.share = Stop.DONE, None, clock.left or 0.0
        self.running = solver.name
        solving = clock.share(SOLVING, clock.within_stage(PROGRESS_SOLVING))
        try:
            self._consume(solver, options, result, solving)
        except OutOfTime:
            result.reason, result.stop = "" if result.simulated else NOT_TRIED, Stop.DEADLINE
        except (BudgetError, GraphError, ScheduleError) as error:  # proof, size, mark
            result.reason, result.error = str(error), error
        except MemoryError:  # what it yielded before is kept
            self._exhaust(solver, result)
        except KeyboardInterrupt:
            result.stop = Stop.INTERRUPTED
            raise
        finally:
            result.skipped, result.seconds = solving.skipped, clock.elapsed
        if self.polish and solver.name != BASELINE and not self.enough:
            self._polish(solver, result, clock.share(progress=clock.within_stage()))
            result.seconds = clock.elapsed
        if result.dropped is not None and not result.candidates:
            result.reason = result.reason or RULED_OUT
        self.running = ""

    def _consume(self, solver: Solver, options: Mapping[str, Any], result: SolverResult, clock: Clock) -> None:
        """Run a solver within the limit; if it proves that nothing fits, within the lowest peak."""
        problem, task = self.problem, replace(self.task, candidates=tuple(self.candidates))

        def consume(limit: int | None) -> None:
            stream = solver.candidates(problem.graph, replace(task, limit=limit), clock, options)
            result.stop = self._simulate_all(solver.name, stream, result, clock)

        try:
            consume(self.limit)
        except BudgetError as proof:  # has the reachable peak
            limit = self.limit
            if not problem.minimizes_peak or result.simulated or limit is None or proof.reached <= limit:
                raise
            consume(proof.reached)

    def _polish(self, solver: Solver, result: SolverResult, clock: Clock) -> None:
        """Add the candidates of a solver that the passes improve."""
        try:
            for run in result.runs.values():
                for candidate in polished(self.problem, run.items, clock, budgets=self.budgets):
                    if not self._allowed(candidate, result):
                        continue
                    result.polished.append(candidate)
                    self._note(candidate)
                    if self.enough:
                        return
        except OutOfTime:
            pass
        except MemoryError:
            self._exhaust(solver, result)

    def _exhaust(self, solver: Solver, result: SolverResult) -> None:
        """Record that a solver ran out of memory."""
        nodes = counted(self.problem.graph.n_nodes, "node")
        result.stop, result.reason = Stop.OUT_OF_MEMORY, RAN_OUT
        result.error = MemoryError(f"not enough memory for {solver.name} on {nodes}; try another solver")

    def _simulate_all(self, name: str, stream: Stream, result: SolverResult, clock: Clock) -> Stop:
        """Simulate and keep the candidates of a solver; return the reason for stopping."""
        graph, n_steps, seconds, left_out, against_mark = self.problem.graph, 0, 0.0, False, None
        large = clock.deadline is not None and graph.n_nodes > LARGE
        for each in stream:
            if not isinstance(each, Candidate | Schedule):
                raise ArgumentTypeError(
                    "{name!w} yielded a {kind!w}; a solver yields candidates or schedules",
                    name=name,
                    kind=type(each).__name__,
                )
            candidate = each if isinstance(each, Candidate) else Candidate(each)
            simulation, evaluated = candidate.simulation, True
            if simulation is None or simulation.graph is not graph or simulation.schedule is not candidate.schedule:
                length = len(candidate.schedule)
                if large and n_steps and length * seconds / n_steps > (clock.left or 0):
                    left_out = True
                    clock.check()
                    continue
                begun = clock.elapsed
                try:
                    simulation = simulate(graph, candidate.schedule)
                except ScheduleError as error:
                    if graph.mark is None:
                        raise
                    against_mark = error
                    continue
                n_steps, evaluated = n_steps + length, False
                seconds += clock.elapsed - begun
            result.simulated += 1
            candidate = replace(candidate, simulation=simulation, solver=name)
            self._keep(candidate, result, clock)
            if self.optimal:
                with suppress(OutOfTime):
                    clock.progress(result.simulated)
                return Stop.PROVEN
            if not clock.has_stages:
                clock.progress(result.simulated)
            # A solver that simulates everything up front is nearly done: do not stop it here.
            if not evaluated or clock.overdue > GRACE:
                clock.check()
        if against_mark is not None and not result.simulated:
            raise extended(against_mark, "it cannot honour a mark: ") from against_mark
        return clock.stop | (Stop.DEADLINE if left_out else Stop.DONE)

    def _keep(self, candidate: Candidate, result: SolverResult, clock: Clock) -> None:
        """Keep a candidate, unless it violates a constraint."""
        if not self._allowed(candidate, result):
            clock.skipped[AGAINST] += 1
            return
        run = result.keep(candidate)
        self._note(candidate)
        self._thin(run)

    def _allowed(self, candidate: Candidate, result: SolverResult) -> bool:
        """True if a candidate keeps to the constraints; the best violating one becomes `result.dropped`."""
        problem, dropped = self.problem, result.dropped
        if problem.constraints is None or problem.constraints.violation(candidate.simulated) is None:
            return True
        if dropped is None or problem.rank(candidate) < problem.rank(dropped):
            result.dropped = candidate
        return False

    def _note(self, candidate: Candidate) -> None:
        """Update the best candidate, whether it is proven, and the bound on the peak."""
        rank = self.problem.rank
        self.peak_bound = max(self.peak_bound, candidate.peak_bound or 0)
        if self._best is None or rank(candidate) < rank(self._best):
            self._best, self._proven = candidate, False
            if self._report_again is not None:
                self._report_again()
        if rank(candidate) <= rank(self._best) and candidate.scope == ANY_ORDER:
            lowest = not self.problem.minimizes_peak or candidate.peak_bound == candidate.figures[0]
            self._proven |= lowest and self.problem.own_bound(candidate) == candidate.figures[1]

    def _thin(self, run: ParetoSet[Candidate]) -> None:
        """Drop every second of more than `MAX_KEPT` candidates under a limit, but never the best."""
        if self.limit is not None and len(run) > MAX_KEPT:
            best = run.items.index(min(run.items, key=self.problem.rank))
            run.items = run.items[best % 2 :: 2]

    def _report(self, name: str, report: Progress | None) -> Progress | None:
        """Return the progress callback of one solver, which adds its name and the best candidate so far."""
        problem, bound = self.problem, ""
        if report is None:
            return None
        one_pass = max(1, problem.graph.needed_compute)
        if self.bound is not None and self.bound > one_pass:
            bound = f" · bound +{100 * (self.bound - one_pass) / one_pass:.1f} %"

        def forward(done: int, total: int, what: str) -> None:
            self._report_again = partial(forward, done, total, what)
            best, so_far = self._best, ""
            if best is not None and problem.fits(best):
                peak, compute = best.figures
                extra = 100 * (compute - problem.graph.needed_compute) / max(1, problem.graph.needed_compute)
                so_far = f" · best {100 * peak / max(1, problem.base):.0f} % at +{extra:.1f} %{bound}"
            report(done, total, f"{name}: {what}{so_far}")

        return forward


def lowest_run(
    request: Request,
    problem: Problem,
    clock: Clock,
    *,
    sought: int | None = None,
    whole: Portfolio | None = None,
    **settings: Any,
) -> Portfolio:
    """Run a request for the budget "least"; `settings` are those of Portfolio, `whole` that run, if known.

    If a peak is sought, the first searches of that run are made alone, and are all if they reach it. The whole run
    makes them too, so it reaches what they do. The short searches of the effort "fast" need its other schedules.
    """
    least = replace(problem, budget=Budget(memory=LEAST), limit=None, overhead_limit=None)
    searches, first = [each for each in request.solvers if each.searches], None
    if sought is not None and searches and request.task.effort != FAST:
        task, part = replace(request.task, sought=sought), clock.share(FIRST_SHARE, clock.within_stage(FIRST_SHARE))
        first = Portfolio(least, part, task, polish=False, **settings)
        first.run([*request.starting, *searches], request.options)
        best = first.best()
        if first.stop is Stop.INTERRUPTED or (best is not None and best.figures[0] <= sought):
            return first
        clock = clock.share(progress=clock.within_stage())
    if whole is not None:
        return whole
    portfolio = Portfolio(least, clock, request.task, polish=request.polish, **settings)
    if first is not None and clock.deadline is not None:
        portfolio.take(first)  # the time may end before the searches
    portfolio.run(request.solvers, request.options)
    if not request.raw:
        portfolio.guard()
    return portfolio
