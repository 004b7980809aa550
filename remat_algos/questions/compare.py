"""Compare all solvers on one graph for one budget."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import or_
from typing import Any

from remat_algos.allocate.allocators import PEAK, get_allocator
from remat_algos.arguments import checked_arguments
from remat_algos.bounds.bound import LowerBound
from remat_algos.context import Clock, Progress, Stop, until_stopped
from remat_algos.cost.devices import AnyLink
from remat_algos.cost.links import Link
from remat_algos.effort import DEFAULT, FAST
from remat_algos.errors import BudgetError, GraphError, ScheduleError
from remat_algos.ir.budget import Amount, Budget
from remat_algos.ir.graph import ComputationGraph
from remat_algos.plan.plan import Plan, bounded, cells, conditions, reordered
from remat_algos.plan.record import RESERVED, SHOWN
from remat_algos.questions import tuning
from remat_algos.result import Result, entries
from remat_algos.schedule.constraints import Constraints
from remat_algos.schedule.emission import baseline_peak
from remat_algos.search.infeasible import RULED_OUT, budget_error
from remat_algos.search.pool import BOUNDING, Pool, compute_bound
from remat_algos.search.request import Request
from remat_algos.search.solve import answered
from remat_algos.search.solver_run import RAN_OUT, SolverRun
from remat_algos.solvers.registry import BASELINE, Solver
from remat_algos.text.amounts import fine_percent, percent
from remat_algos.wording import by_reason, counted, format_bytes, one_line


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """The plan of one solver or, if there is none, the reason and the lowest peak that the solver reached."""

    solver: str
    plan: Plan | None
    reason: str = ""
    reached: int | None = None

    @property
    def stop(self) -> Stop:
        """How the search for the plan ended."""
        return Stop.DONE if self.plan is None else self.plan.report.stop

    @property
    def note(self) -> str:
        """The reason why there is no plan. For a plan, a note if its search was cut short or it is only reordered."""
        if self.plan is None:
            return self.reason.removeprefix(f"{self.solver} does not support this graph: ")
        ended = (f"{word}, the best found" for word, so in self.plan.report.cut_short.items() if so)
        return next(ended, "reordered" if reordered(self.plan) else "")

    def record(self) -> dict[str, Any]:
        if self.plan is None:
            return {"solver": self.solver, "feasible": False, "reason": self.reason, "reached": self.reached}
        figures = self.plan.figures(("bound_proven", *SHOWN, "seconds", *RESERVED, "link"))
        return {"solver": self.solver, "feasible": True, **self.plan.report.cut_short, **figures}


@dataclass(frozen=True, slots=True, eq=False)
class Comparison(Result):
    """The entries of all solvers, the cheapest plan first; the budget limits the bytes that `allocator` reserves."""

    graph: ComputationGraph
    budget: Budget
    entries: tuple[Entry, ...]
    stop: Stop = Stop.DONE
    allocator: str = PEAK
    constraints: Constraints | None = None
    link: Link | None = None

    COLUMNS = ("solver", "peak", "of base", "with residents", "overhead", "bound", "gap", "extra runs", "time (s)")

    def __repr__(self) -> str:
        fitting = sum(entry.plan is not None for entry in self.entries)
        return one_line(
            self,
            counted(len(self.entries), "solver"),
            f"{fitting:,} within {self.budget}",
            "interrupted" if self.stop is Stop.INTERRUPTED else "",
        )

    @property
    def noun(self) -> str:
        """The word for the bytes that the budget limits: "packed", "reserved", or "" for live bytes."""
        return get_allocator(self.allocator).noun

    @property
    def base(self) -> int:
        """The bytes that count as 100 %."""
        return get_allocator(self.allocator).base(self.graph)

    @property
    def plans(self) -> list[Plan]:
        return [entry.plan for entry in self.entries if entry.plan is not None]

    @property
    def bound(self) -> LowerBound | None:
        """The lower bound that all plans share, or None if their bounds differ, as with copies."""
        bounds = {(plan.bound.amount, plan.bound.source): plan.bound for plan in self.plans if plan.bound is not None}
        return next(iter(bounds.values())) if len(bounds) == 1 else None

    @property
    def columns(self) -> tuple[str, ...]:
        """`COLUMNS`, without the bound if all plans share it; with reserved bytes if the budget limits them."""
        columns = (*self.COLUMNS[:2], self.noun, *self.COLUMNS[2:]) if self.noun else self.COLUMNS
        return columns if self.bound is None else tuple(name for name in columns if name != "bound")

    def heading(self) -> Iterator[str]:
        yield f"budget: {self.budget}"
        yield from conditions(self.graph.resident_memory, self.constraints, self.link)
        if (bound := self.bound) is not None:
            one_pass = self.graph.needed_compute
            extra = fine_percent(bound.amount - one_pass, one_pass)
            yield f"lower bound: {extra} more than one pass, by {bound.source}"

    def rows(self) -> Iterator[tuple[str, ...]]:
        """Yield the figures of each plan, or the lowest peak of a solver without a plan."""
        graph = self.graph
        for entry in self.entries:
            if entry.plan is not None:
                names = ("reserved" if name == self.noun else name for name in self.columns[1:])
                yield (entry.solver, *cells(entry.plan, names))
            elif entry.reached is not None:
                share = "" if get_allocator(self.allocator).own_base else percent(entry.reached, max(1, self.base))
                together = format_bytes(entry.reached + graph.resident_memory) if graph.resident_memory else ""
                known = {"peak": format_bytes(entry.reached), "of base": share, "with residents": together}
                yield (entry.solver, *(known.get(name, "") for name in self.columns[1:]))

    def notes(self) -> list[str]:
        """Return the reasons why solvers have no plan; solvers with the same reason share a line."""
        return by_reason({entry.solver: self._note(entry) for entry in self.entries})

    def _note(self, entry: Entry) -> str:
        limit = self.budget.memory_limit(max(1, self.base), self.graph.resident_memory)
        if entry.reached is None:
            return entry.note
        within = self.noun and limit is not None and entry.reached <= limit
        return f"does not fit as {self.noun}" if within else "does not fit"

    def record(self) -> dict[str, Any]:
        reserved = "reserved_without_rematerialization=base" if get_allocator(self.allocator).own_base else ""
        record = entries(self, "budget graph_hash=graph.source_hash")
        record["peak_without_rematerialization"] = baseline_peak(self.graph)
        record |= entries(self, f"{reserved} graph.resident_memory stop.complete")
        return record | {"solvers": [entry.record() for entry in self.entries]}


@checked_arguments
def compare(
    graph: ComputationGraph,
    budget: Budget | Amount | None = None,
    *,
    solvers: Sequence[str] | None = None,
    effort: str = DEFAULT,
    time_limit: float | None = None,
    seed: int = 0,
    polish: bool = True,
    allocator: str = PEAK,
    alignment: int = 1,
    constraints: Constraints | Mapping[str, Any] | None = None,
    link: AnyLink | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """Solve with each solver alone, without falling back on the baseline.

    With a link, a search with copies starts from the plan of each solver, and plans are compared by time.

    Parameters
    ----------
    graph : ComputationGraph
    budget : Budget, int or str, optional
        As in `solve`.
    solvers : sequence of str, optional
        Names; by default those of `auto`.
    effort : {"fast", "default", "best"}
        As in `solve`.
    time_limit : float, optional
        Seconds, shared by the solvers.
    seed : int
    polish : bool
        Whether passes may improve each solver's schedules, as in `solve`.
    allocator, alignment
        As in `solve`; the budget limits the bytes that the allocator reserves.
    constraints : Constraints or mapping, optional
        As in `solve`.
    link : Link, Device, mapping, str or path, optional
        As in `solve`.
    progress : callable, optional
        A `Progress`, as in `solve`.

    Returns
    -------
    Comparison
        After an interrupt, it contains the plans found by then.

    Examples
    --------
    >>> from remat_algos.ir.differentiate import differentiate
    >>> chain = differentiate(ComputationGraph.from_edges([(i, i + 1) for i in range(8)]))
    >>> found = compare(chain, 7, solvers=["no_remat", "chen_greedy"])
    >>> [(entry.solver, entry.reached if entry.plan is None else entry.plan.peak_memory) for entry in found.entries]
    [('chen_greedy', 7), ('no_remat', 11)]
    """
    request = Request.of(
        graph,
        budget,
        effort=effort,
        time_limit=time_limit,
        seed=seed,
        raw=link is None,
        polish=polish,
        allocator=allocator,
        alignment=alignment,
        constraints=constraints,
        progress=progress,
        link=link,
    ).with_solvers(solvers)
    clock = request.clock
    together = request.allocator.name == PEAK and request.link is None
    entries, stop = (_together if together else _one_by_one)(request, clock)
    clock.finish(stop)
    ordered = sorted(entries, key=partial(_rank, request.limits().minimizes_peak))
    return Comparison(graph, request.budget, tuple(ordered), stop, allocator, request.constraints, request.link)


def _together(request: Request, clock: Clock) -> tuple[list[Entry], Stop]:
    shared = clock.share(tuning.SEARCH_SHARE, tuning.SEARCH_SHARE)
    run = Pool(request, shared).run()
    return _entries(run, request.solvers, clock), run.stop


def _entries(run: SolverRun, solvers: Sequence[Solver], clock: Clock) -> list[Entry]:
    limits = run.limits
    bound = LowerBound(limits.graph.needed_compute)
    if not limits.minimizes_peak and run.stop is not Stop.INTERRUPTED:
        least = min((each.figures[1] for each in run.candidates if limits.fits(each)), default=0)
        quick = clock.share(1.0, 0.5, BOUNDING)
        bound = compute_bound(limits, quick, effort=FAST)[0]
        if least > bound.amount and run.task.effort != FAST:
            longer = clock.share(1.0, 1.0, BOUNDING)
            bound = compute_bound(limits, longer, effort=run.task.effort, closure=bound)[0]
    return [_entry(run, solver, bound) for solver in solvers]


def _entry(run: SolverRun, solver: Solver, bound: LowerBound) -> Entry:
    limits, result = run.limits, run.outcomes.get(solver.name)
    if result is None:
        return Entry(solver.name, None, "not tried: interrupted")
    best = min(result.candidates, key=limits.rank, default=None)
    stopped = run.stop is Stop.INTERRUPTED and solver.name == run.running
    if best is not None and limits.fits(best):
        report = result.report(solver.name, Stop.INTERRUPTED if stopped else Stop.DONE)
        plan = limits.plan(best, solver=solver.name, options={}, seconds=result.seconds, report=report, bound=bound)
        return Entry(solver.name, plan)
    if stopped:
        return Entry(solver.name, None, "interrupted")
    if result.stop is Stop.OUT_OF_MEMORY:
        return Entry(solver.name, None, RAN_OUT)
    if best is None and result.dropped is not None and limits.constraints is not None:
        violation = limits.constraints.violation(result.dropped.simulated)
        return Entry(solver.name, None, f"{RULED_OUT}: {violation}")
    if best is None and result.reason:
        return Entry(solver.name, None, result.reason, getattr(result.error, "reached", None))
    error = budget_error(limits, result.candidates, {}, result.skipped, late=result.stop is Stop.DEADLINE)
    return Entry(solver.name, None, str(error), error.reached)


def attempted(request: Request, clock: Clock) -> Entry:
    """Return the plan of a request, or the reason why there is none."""
    try:
        return Entry(request.name, answered(request, clock))
    except BudgetError as error:
        return Entry(request.name, None, str(error), error.reached)
    except (GraphError, ScheduleError) as error:
        return Entry(request.name, None, str(error))
    except MemoryError:
        return Entry(request.name, None, RAN_OUT)


def _one_by_one(request: Request, clock: Clock) -> tuple[list[Entry], Stop]:
    entries, solvers, late = list[Entry](), request.solvers, False
    with until_stopped() as ending:
        for i, solver in enumerate(solvers):
            part = 1 / (len(solvers) - i)
            own = clock.share(part, part, f"method {i + 1} of {len(solvers)}, ")
            entry = attempted(replace(request, named=(solver,)), own)
            late |= entry.plan is None and own.late
            entries.append(entry if entry.plan is None else replace(entry, plan=bounded(entry.plan)))
            if entries[-1].stop is Stop.INTERRUPTED:
                break
    begun = ending.stop | (Stop.DEADLINE if late else Stop.DONE)
    stop = reduce(or_, (entry.stop for entry in entries), begun)
    running = ["interrupted"] * (ending.stop is Stop.INTERRUPTED)  # the solver that was running
    reasons = [*running, *["not tried: interrupted"] * len(solvers)]
    left = zip(solvers[len(entries) :], reasons, strict=False)
    return [*entries, *(Entry(solver.name, None, reason) for solver, reason in left)], stop


def _rank(by_peak: bool, entry: Entry) -> tuple[bool, int, int, bool]:
    """Return the sort key: first plans by compute or, if `by_peak`, by peak; then entries without a plan, by peak."""
    if entry.plan is None:
        return (True, entry.reached if entry.reached is not None else 2**62, 0, False)
    first, second = entry.plan.time, entry.plan.peak_memory
    return (False, *((second, first) if by_peak else (first, second)), entry.solver != BASELINE)
