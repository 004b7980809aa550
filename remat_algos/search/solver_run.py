"""A run of solvers within limits: its candidates are simulated, ranked, filtered and polished."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from operator import attrgetter, or_
from types import MappingProxyType
from typing import Any

from remat_algos.bounds.bound import ANY_ORDER
from remat_algos.context import Clock, OutOfTime, Progress, Stop, until_stopped
from remat_algos.effort import FAST, SMALL
from remat_algos.errors import ArgumentTypeError, BudgetError, GraphError, ScheduleError, extended
from remat_algos.plan.record import SearchReport
from remat_algos.schedule.emission import baseline
from remat_algos.schedule.polishing import polish
from remat_algos.schedule.schedule import Schedule
from remat_algos.schedule.simulation import Simulation, simulate
from remat_algos.search import tuning
from remat_algos.search.infeasible import RULED_OUT
from remat_algos.search.limits import Limits
from remat_algos.search.request import Request
from remat_algos.solvers.registry import BASELINE, START, Candidate, Solver, Stream, Task, in_order, keep_undominated
from remat_algos.wording import counted


def polished(limits: Limits, kept: Sequence[Candidate], clock: Clock, *, budgets: int = 0) -> Iterator[Candidate]:
    """Polish one solver's candidates, best first; yield the improved ones. `SolverRun` describes `budgets`."""
    n_steps, max_steps = 0, tuning.MAX_POLISHED_STEPS * (1 + bool(budgets))
    waiting = list(_worth_polishing(limits, kept, budgets))
    clock.stage(min(max_steps, sum(len(candidate.schedule) for candidate, _ in waiting)), "polishing")
    for candidate, limit in waiting:
        length = len(candidate.schedule)
        n_steps += length
        if n_steps > max_steps and n_steps > length:
            return
        if clock.left is not None and length / tuning.POLISHED_A_SECOND > clock.left:
            continue
        start = candidate.simulated
        better = _passes(limits, start, limit)
        if better is not start:
            yield _improved(candidate, better)
        clock.progress(n_steps)


def _worth_polishing(limits: Limits, kept: Sequence[Candidate], budgets: int) -> Iterator[tuple[Candidate, int | None]]:
    """Yield (candidate, limit within which to polish it), most promising first; None requests the lowest peak."""
    if budgets and kept:
        yield from _along_the_curve(limits.base, kept, budgets)
    elif limits.minimizes_peak:
        yield from ((candidate, None) for candidate in sorted(kept, key=limits.rank))
    elif kept:
        best = kept.index(min(kept, key=limits.rank))
        fits = limits.limit is not None and kept[best].figures[0] <= limits.limit
        others = kept[: best : 1 + best // tuning.MAX_OTHERS] if fits else kept[1 : tuning.MAX_OTHERS]
        yield from ((each, limits.limit) for each in sorted([kept[best], *others], key=limits.rank))


def _along_the_curve(base: int, kept: Sequence[Candidate], n: int) -> Iterator[tuple[Candidate, int | None]]:
    """Yield (candidate, limit within which to polish it) for a whole frontier of `n` budgets."""
    budgets = [base * i // n for i in range(n, 0, -1)]
    within = [[each for each in kept if each.figures[0] <= budget] for budget in budgets]
    for budget, candidates in zip(budgets, within, strict=True):
        yield from ((each, budget) for each in candidates[-1:])
    stride = 1 + sum(len(candidate.schedule) for candidate in kept) // tuning.MAX_POLISHED_STEPS
    for candidate in kept[::stride]:
        yield candidate, candidate.figures[0]
    for budget, candidates in zip(budgets, within, strict=True):
        others = candidates[-2 :: -(1 + len(candidates) // tuning.MAX_OTHERS)]
        yield from ((each, budget) for each in others)


def _passes(limits: Limits, simulation: Simulation, limit: int | None) -> Simulation:
    """Lower the peak if it is above the limit, then reduce compute; return the new simulation."""
    graph = limits.graph
    too_high = simulation.peak_memory > limit if limit is not None else limits.overhead_limit is None
    if too_high:
        simulation = polish(graph, simulation, 0)
    return polish(graph, simulation, max(limit or 0, simulation.peak_memory))


def _improved(candidate: Candidate, simulation: Simulation) -> Candidate:
    """Return the candidate with its polished schedule; a bound that the new compute disproves is removed."""
    beaten = candidate.bound is not None and candidate.bound > simulation.compute
    return replace(
        candidate,
        schedule=simulation.schedule,
        details={**candidate.details, "polished": True},
        bound=None if beaten else candidate.bound,
        scope=None if beaten else candidate.scope,
        simulation=simulation,
    )


RAN_OUT = "it ran out of memory"
NOT_TRIED = "not tried within the time limit"
AGAINST = "against a constraint"  # completes "3 schedules ..."


@dataclass(slots=True, eq=False)
class Outcome:
    """The candidates of one solver, run by run, and how it ended; `share` is the time limit of the last run, or 0."""

    runs: dict[int, list[Candidate]] = field(default_factory=dict)
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
        """The undominated candidates of all runs of the solver, before polishing."""
        return [candidate for run in self.runs.values() for candidate in run]

    @property
    def candidates(self) -> list[Candidate]:
        return [*self.kept, *self.polished]

    def keep(self, candidate: Candidate) -> list[Candidate]:
        """Store a candidate unless another candidate of its run dominates it; return all candidates of that run."""
        run = self.runs.setdefault(candidate.run, [])
        keep_undominated(run, candidate, attrgetter("figures"))
        return run

    def report(self, solver: str, stop: Stop = Stop.DONE) -> SearchReport:
        """Return the report for a plan of this solver; `stop` is how all solvers together ended."""
        # A BudgetError is not a failure: the solver proved that no more schedules fit.
        failed = not isinstance(self.error, BudgetError | None)
        stop |= self.stop | (Stop.FAILED if failed else Stop.DONE)
        names = (solver,) if self.stop is Stop.OUT_OF_MEMORY else ()
        return SearchReport(simulated=self.simulated, skipped=self.skipped, stop=stop, out_of_memory=names)


class SolverRun:
    """A run of solvers within limits. After an interrupt or the deadline, it keeps the candidates that it has found.

    The run ends at the first candidate that a solver proves optimal, or whose compute is at most `bound` plus the slack
    of the task. For a whole frontier, `budgets` is the number of evenly spaced budgets.
    """

    def __init__(
        self,
        limits: Limits,
        clock: Clock,
        task: Task | None = None,
        *,
        polish: bool = True,
        budgets: int = 0,
        bound: int | None = None,
    ) -> None:
        self.limits = limits
        self.clock = clock
        self.polish = polish
        self.budgets = budgets
        self.bound = None if limits.minimizes_peak else bound
        self.stops_at_proof = bound is not None
        self.limit = None if budgets else limits.solver_limit
        self.task = replace(
            task or Task(), limit=self.limit, bound=self.bound, budgets=budgets, constraints=limits.constraints
        )
        self.outcomes: dict[str, Outcome] = {}
        self._stop = Stop.DONE  # each `Outcome` has its own
        # The candidate with the lowest peak, if even this peak exceeds the limit.
        self.least: Candidate | None = None
        self.running = ""  # the current solver
        self._report_again: Callable[[], None] | None = None  # reports a new best candidate
        self._best: Candidate | None = None
        self._proven = False  # a solver proved `_best` optimal
        self.peak_bound = 0  # highest bound that solvers proved

    @property
    def candidates(self) -> list[Candidate]:
        return [candidate for result in self.outcomes.values() for candidate in result.candidates]

    @property
    def reasons(self) -> dict[str, str]:
        """Why solvers yielded no candidates or stopped before they had yielded all candidates, by solver."""
        return {name: result.reason for name, result in self.outcomes.items() if result.reason}

    @property
    def n_tried(self) -> int:
        tried = (result for name, result in self.outcomes.items() if name != START)
        return sum(result.simulated > 0 or result.error is not None for result in tried)

    def run(self, solvers: Sequence[Solver], options: Mapping[str, Any] = MappingProxyType({})) -> None:
        self.begin(solvers, options)
        self.improve(solvers, options)

    def begin(self, solvers: Sequence[Solver], options: Mapping[str, Any] = MappingProxyType({})) -> None:
        """Run the solvers that construct schedules, and on small graphs also those that prove optima."""
        ordered = in_order(solvers)
        self._run_each(ordered, range(self._first_improving(ordered)), options)

    def improve(self, solvers: Sequence[Solver], options: Mapping[str, Any] = MappingProxyType({})) -> None:
        """Run the solvers that improve the candidates of other solvers."""
        if self.stop is Stop.INTERRUPTED:
            return
        ordered = in_order(solvers)
        self._run_each(ordered, range(self._first_improving(ordered), len(ordered)), options)
        if self.stop is not Stop.INTERRUPTED and self.enough:
            self.note(Stop.PROVEN if self.optimal else Stop.NEAR)

    def _first_improving(self, ordered: Sequence[Solver]) -> int:
        exact_first = self.limits.graph.n_nodes <= SMALL or not any(solver.searches for solver in ordered)
        waits = [solver.improves and (solver.searches or not exact_first) for solver in ordered]
        return waits.index(True) if True in waits else len(ordered)

    def _run_each(self, ordered: Sequence[Solver], places: range, options: Mapping[str, Any]) -> None:
        serving = [solver.name for solver in ordered if not solver.needs(self.limits.graph)]
        work = [max(solver.price, tuning.MIN_PRICE) if solver.name in serving else 0.0 for solver in ordered]
        with until_stopped() as ending:
            for i in places:
                if self.enough:
                    break
                solver, progress = ordered[i], None
                if work[i]:
                    number = f"method {serving.index(solver.name) + 1} of {len(serving)}, " if len(serving) > 1 else ""
                    report = self.clock.within_stage(work[i] / sum(work[i:]))
                    progress = self._report(f"{number}{solver.name}", report)
                part = self._part(len(ordered) - i)
                self._run_solver(solver, options, Clock(self.clock.seconds(part), progress))
        self.note(ending.stop)

    @property
    def unmet(self) -> bool:
        """True if no candidate fits the limit, and the baseline may not fit it either."""
        limits, limit = self.limits, self.limits.limit
        if limit is None or limits.minimizes_peak or any(each.figures[0] <= limit for each in self.candidates):
            return False
        return limit < limits.base or limits.graph.mark is not None or limits.constraints is not None

    def rerun(self, solvers: Sequence[Solver], options: Mapping[str, Any] = MappingProxyType({})) -> None:
        """Rerun solvers that hit their deadline if the new time limit is at least `LONGER` times the first one."""
        if self.stop is Stop.INTERRUPTED:
            return
        with until_stopped() as ending:
            for solver in in_order(solvers):
                result, left = self.outcomes.get(solver.name), self.clock.left
                if not left or result is None or result.stop is not Stop.DEADLINE or self.enough:
                    continue
                n_waiting = sum(each.stop is Stop.DEADLINE for each in self.outcomes.values())
                share = max(1 / n_waiting, min(1.0, tuning.LONGER * result.share / left))
                if share * left >= tuning.LONGER * result.share:
                    self._run_solver(solver, options, self.clock.share(share))
        self.note(ending.stop)

    def take_lowest(self, lowest: "SolverRun") -> None:
        """Add the candidates of the run for the lowest peak; if the best one exceeds the limit, it becomes `least`."""
        limit, best = self.limits.limit, self.take(lowest)
        if self.stop is not Stop.INTERRUPTED and limit is not None and best is not None:
            self.least = best if best.figures[0] > limit and not lowest.late else None

    def take(self, other: "SolverRun") -> Candidate | None:
        """Add the candidates of a run for another limit; return the best of them."""
        for name, result in other.outcomes.items():
            own = self.outcomes.setdefault(name, Outcome(stop=result.stop, reason=result.reason, error=result.error))
            own.simulated += result.simulated
            for candidate in result.candidates:
                # Bounds are valid only for the limit of the other run.
                candidate = replace(candidate, bound=None, scope=None)
                # `keep` is not used, since it would then reject an equal candidate that a solver later proves optimal.
                own.polished.append(candidate)
                self._note(candidate)
        self.note(other._stop)
        self.peak_bound = max(self.peak_bound, other.peak_bound)
        return other.best()

    @property
    def optimal(self) -> bool:
        """True if the best candidate fits, and its compute equals a lower bound."""
        best = self._best
        if best is None or self.budgets or not self.limits.fits(best):
            return False
        proven = self._proven and self.stops_at_proof
        return proven or (self.bound is not None and best.figures[1] <= self.bound)

    @property
    def enough(self) -> bool:
        """True if the best candidate is optimal, or if it fits and its compute is at most the goal of the task."""
        best, goal = self._best, self.task.goal
        if best is None or goal is None or self.budgets or best.figures[1] > goal:
            return self.optimal
        return self.limits.fits(best)

    def _part(self, n_left: int) -> float:
        """Return the next solver's share of the remaining time: an equal share, or more if no candidate fits."""
        best, left = self._best, self.clock.left
        if not left or (best is not None and self.limits.fits(best)):
            return 1 / n_left
        return min(1, max(1 / n_left, tuning.FIRST_SECONDS / left))

    @property
    def bests(self) -> dict[str, Candidate]:
        """The best fitting candidate of each solver, best first; solvers without one are left out."""
        rank, fits = self.limits.rank, self.limits.fits
        bests = {name: min(result.candidates, key=rank, default=None) for name, result in self.outcomes.items()}
        fitting = [(name, best) for name, best in bests.items() if best is not None and fits(best)]
        return dict(sorted(fitting, key=lambda entry: (rank(entry[1]), entry[0])))

    def guard(self) -> None:
        """Add the baseline as a candidate, unless it violates a mark or a constraint."""
        graph = self.limits.graph
        with until_stopped() as ending, suppress(ScheduleError):
            run = baseline(graph) if graph.mark is None else simulate(graph, baseline(graph).schedule)
            result = self.outcomes.setdefault(BASELINE, Outcome())
            candidate = Candidate(run.schedule, simulation=run, solver=BASELINE)
            if self._allowed(candidate, result):
                result.keep(candidate)
        self.note(ending.stop)

    @property
    def dropped(self) -> list[Candidate]:
        """For each solver with candidates that violate a constraint, the best of these candidates."""
        return [result.dropped for result in self.outcomes.values() if result.dropped is not None]

    def note(self, stop: Stop) -> None:
        """Record how a part of the run that is not a solver ended."""
        self._stop |= stop

    @property
    def stop(self) -> Stop:
        """How the run ended, including all of its solvers."""
        return reduce(or_, (result.stop for result in self.outcomes.values()), self._stop)

    @property
    def late(self) -> bool:
        return Stop.DEADLINE in {self._stop, *(result.stop for result in self.outcomes.values())}

    @property
    def out_of_memory(self) -> list[str]:
        return [name for name, result in self.outcomes.items() if result.stop is Stop.OUT_OF_MEMORY]

    def report(self, candidate: Candidate) -> SearchReport:
        own = self.outcomes[candidate.solver].report(candidate.solver, self.stop)
        others = [result for name, result in self.outcomes.items() if name != BASELINE]
        if candidate.solver == BASELINE and len(others) == 1:
            own = replace(own, simulated=(own.simulated or 0) + others[0].simulated)
        return replace(own, out_of_memory=tuple(self.out_of_memory))

    def best(self) -> Candidate | None:
        """Return the candidate that ranks first; None without candidates.

        Among equal candidates, the one with the largest bound on compute is returned. It gets the largest bound on the
        peak that any solver proved. A candidate with its own bound on compute keeps its own bound on the peak, because
        its solver proved the two bounds together.
        """
        best = min(self.candidates, key=lambda each: (*self.limits.rank(each), -(each.bound or 0)), default=None)
        if best is None or best.bound is not None or self.peak_bound <= (best.peak_bound or 0):
            return best
        return replace(best, peak_bound=self.peak_bound)

    def _run_solver(self, solver: Solver, options: Mapping[str, Any], clock: Clock) -> None:
        result = self.outcomes.setdefault(solver.name, Outcome())
        result.reason = solver.needs(self.limits.graph) or ""
        fits = self._best is not None and self.limits.fits(self._best)
        grace = 0.0 if not solver.cheap else tuning.GRACE if fits else tuning.LONG_GRACE
        if not result.reason and self.clock.late and self.clock.overdue >= grace and self.candidates:
            result.reason, result.stop = NOT_TRIED, Stop.DEADLINE
        if result.reason:
            return
        result.stop, result.error, result.share = Stop.DONE, None, clock.left or 0.0
        self.running = solver.name
        solving = clock.share(tuning.SOLVING, tuning.PROGRESS_SOLVING)
        try:
            self._consume(solver, options, result, solving)
        except OutOfTime:
            result.reason, result.stop = "" if result.simulated else NOT_TRIED, Stop.DEADLINE
        # The solver proved that no schedule fits, refused the graph as too large, or violated a mark.
        except (BudgetError, GraphError, ScheduleError) as error:
            result.reason, result.error = str(error), error
        except MemoryError:
            self._exhaust(solver, result)
        except KeyboardInterrupt:
            result.stop = Stop.INTERRUPTED
            raise
        finally:
            result.skipped, result.seconds = solving.skipped, clock.elapsed
        if self.polish and solver.name != BASELINE and not self.enough:
            self._polish(solver, result, clock.share(1.0, 1.0))
            result.seconds = clock.elapsed
        if result.dropped is not None and not result.candidates:
            result.reason = result.reason or RULED_OUT
        self.running = ""

    def _consume(self, solver: Solver, options: Mapping[str, Any], result: Outcome, clock: Clock) -> None:
        """Run a solver. In a search for the lowest peak, rerun it at the peak that its BudgetError reports."""
        limits, task = self.limits, replace(self.task, candidates=tuple(self.candidates))

        def consume(limit: int | None) -> None:
            stream = solver.candidates(limits.graph, replace(task, limit=limit), clock, options)
            result.stop = self._simulate_all(solver.name, stream, result, clock)

        try:
            consume(self.limit)
        except BudgetError as proof:
            limit = self.limit
            if not limits.minimizes_peak or result.simulated or limit is None or proof.reached <= limit:
                raise
            consume(proof.reached)

    def _polish(self, solver: Solver, result: Outcome, clock: Clock) -> None:
        try:
            for run in result.runs.values():
                for candidate in polished(self.limits, run, clock, budgets=self.budgets):
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

    def _exhaust(self, solver: Solver, result: Outcome) -> None:
        nodes = counted(self.limits.graph.n_nodes, "node")
        result.stop, result.reason = Stop.OUT_OF_MEMORY, RAN_OUT
        result.error = MemoryError(f"not enough memory for {solver.name} on {nodes}; try another solver")

    def _simulate_all(self, name: str, stream: Stream, result: Outcome, clock: Clock) -> Stop:
        graph, n_steps, seconds, left_out, against_mark = self.limits.graph, 0, 0.0, False, None
        large = clock.deadline is not None and graph.n_nodes > tuning.LARGE_SIMULATION
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
            # A solver that simulates its candidates itself is nearly done when it yields them: do not stop it here.
            if not evaluated or clock.overdue > tuning.GRACE:
                clock.check()
        if against_mark is not None and not result.simulated:
            raise extended(against_mark, "it cannot honour a mark: ") from against_mark
        return clock.stop | (Stop.DEADLINE if left_out else Stop.DONE)

    def _keep(self, candidate: Candidate, result: Outcome, clock: Clock) -> None:
        if not self._allowed(candidate, result):
            clock.skipped[AGAINST] += 1
            return
        run = result.keep(candidate)
        self._note(candidate)
        self._thin(run)

    def _allowed(self, candidate: Candidate, result: Outcome) -> bool:
        """Return True if a candidate satisfies the constraints; store the best violating one in `result.dropped`."""
        limits, dropped = self.limits, result.dropped
        if limits.constraints is None or limits.constraints.violation(candidate.simulated) is None:
            return True
        if dropped is None or limits.rank(candidate) < limits.rank(dropped):
            result.dropped = candidate
        return False

    def _note(self, candidate: Candidate) -> None:
        """Update `_best`, `_proven` and `peak_bound` with a new candidate."""
        rank = self.limits.rank
        self.peak_bound = max(self.peak_bound, candidate.peak_bound or 0)
        if self._best is None or rank(candidate) < rank(self._best):
            self._best, self._proven = candidate, False
            if self._report_again is not None:
                self._report_again()
        if rank(candidate) <= rank(self._best) and candidate.scope == ANY_ORDER:
            lowest = not self.limits.minimizes_peak or candidate.peak_bound == candidate.figures[0]
            self._proven |= lowest and self.limits.own_bound(candidate) == candidate.figures[1]

    def _thin(self, run: list[Candidate]) -> None:
        """Remove every second candidate if there are too many and a limit is set; the best one always stays."""
        if self.limit is not None and len(run) > tuning.MAX_KEPT:
            best = run.index(min(run, key=self.limits.rank))
            run[:] = run[best % 2 :: 2]

    def _report(self, name: str, report: Progress | None) -> Progress | None:
        limits, bound = self.limits, ""
        if report is None:
            return None
        one_pass = max(1, limits.graph.needed_compute)
        if self.bound is not None and self.bound > one_pass:
            bound = f" · bound +{100 * (self.bound - one_pass) / one_pass:.1f} %"

        def forward(done: int, total: int, what: str) -> None:
            self._report_again = partial(forward, done, total, what)
            best, so_far = self._best, ""
            if best is not None and limits.fits(best):
                peak, compute = best.figures
                extra = 100 * (compute - limits.graph.needed_compute) / max(1, limits.graph.needed_compute)
                so_far = f" · best {100 * peak / max(1, limits.base):.0f} % at +{extra:.1f} %{bound}"
            report(done, total, f"{name}: {what}{so_far}")

        return forward


def run_unlimited(
    request: Request,
    limits: Limits,
    clock: Clock,
    *,
    sought: int | None = None,
    whole: SolverRun | None = None,
    bound: int | None = None,
) -> SolverRun:
    """Run the solvers of a request for the budget "least"; `whole` is such a run if one exists already.

    With a peak `sought`, the solvers that search run first, without the others, and the run ends if they reach that
    peak. With effort "fast" they do not run first: their searches are then short and need schedules of other solvers.
    """
    least, searches, first = limits.lowest, [each for each in request.solvers if each.searches], None
    if sought is not None and searches and request.task.effort != FAST:
        task, part = replace(request.task, sought=sought), clock.share(tuning.FIRST_SHARE, tuning.FIRST_SHARE)
        first = SolverRun(least, part, task, polish=False, bound=bound)
        first.run([*request.starting, *searches], request.options)
        best = first.best()
        if first.stop is Stop.INTERRUPTED or (best is not None and best.figures[0] <= sought):
            return first
        clock = clock.share(1.0, 1.0)
    if whole is not None:
        return whole
    run = SolverRun(least, clock, request.task, polish=request.polish, bound=bound)
    if first is not None and clock.deadline is not None:
        run.take(first)  # later solvers may be interrupted
    run.run(request.solvers, request.options)
    if not request.raw:
        run.guard()
    return run
