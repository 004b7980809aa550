"""The Pareto frontier of peak memory and compute."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any

from remat_algos.arguments import as_list, check_fields, check_kind, checked_arguments
from remat_algos.bounds.bound import ANY_ORDER, ONE_PASS
from remat_algos.bounds.memory import least_peak_bound
from remat_algos.bounds.rising import BoundCurve, bound_curve
from remat_algos.context import Clock, Progress, Stop, until_stopped
from remat_algos.cost.devices import AnyLink
from remat_algos.cost.links import Link
from remat_algos.effort import BEST, DEFAULT, FAST, SMALL
from remat_algos.errors import ArgumentError, BudgetError, about
from remat_algos.ir.budget import LEAST, Budget, even_limits
from remat_algos.ir.graph import ComputationGraph
from remat_algos.plan.plan import Plan, cells, conditions, reordered
from remat_algos.plan.record import POINT
from remat_algos.questions import tuning
from remat_algos.result import UNIT, Result, entries
from remat_algos.schedule.constraints import Constraints
from remat_algos.schedule.emission import baseline_peak
from remat_algos.schedule.simulation import check_simulation
from remat_algos.search.limits import Limits
from remat_algos.search.request import Request
from remat_algos.search.solve import answered
from remat_algos.search.solver_run import Outcome, SolverRun, run_unlimited
from remat_algos.solvers.registry import BASELINE, pareto
from remat_algos.wording import by_reason, counted, exact_bytes, format_bytes, one_line


@dataclass(frozen=True, slots=True, eq=False)
class Frontier(Result):
    """Plans of several solvers that trade memory for compute.

    Within each curve, and within `plans`, no plan dominates another: as the peak rises, the compute falls.

    Parameters
    ----------
    graph : ComputationGraph
    curves : mapping of str to tuple of Plan
        The undominated plans of each solver.
    bound_memory : int
        Lower bound on the peak of every schedule, in bytes.
    bound_compute : int
        The cost of one pass, a lower bound on the compute of every schedule.
    base : int
        Peak bytes without rematerialization.
    reasons : mapping of str to str
        For each solver without a curve, the reason.
    stop : Stop
        How the search ended.
    points : int
        Approximate number of plans shown in the text.
    constraints, link
        The arguments of `frontier`.
    """

    graph: ComputationGraph
    curves: Mapping[str, tuple[Plan, ...]]
    bound_memory: int
    bound_compute: int
    base: int
    reasons: Mapping[str, str] = field(default_factory=dict)
    stop: Stop = Stop.DONE
    points: int = tuning.POINTS
    constraints: Constraints | None = None
    link: Link | None = None

    COLUMNS = ("peak", "of base", "with residents", "overhead", "bound", "gap", "extra runs", "solver")

    def __repr__(self) -> str:
        plans = self.plans
        peaks = f"peak {format_bytes(plans[0].peak_memory)} to {format_bytes(plans[-1].peak_memory)}" if plans else ""
        return one_line(
            self,
            f"{counted(len(plans), 'plan')} of {counted(len(self.curves), 'solver')}",
            peaks,
            self.stop.reason,
        )

    def __post_init__(self) -> None:
        check_fields(self)
        for name, curve in self.curves.items():
            for plan in as_list(curve, f"curves[{name!r}]"):
                check_simulation(check_kind(plan, Plan, "plan").simulation, self.graph)

    @property
    def plans(self) -> tuple[Plan, ...]:
        """The undominated plans of all solvers."""
        return undominated(plan for curve in self.curves.values() for plan in curve)

    def best(self, limit: int | str) -> Plan | None:
        """Return the cheapest plan whose peak is within `limit` (bytes, "4GiB", "50%" or "least"), or None."""
        budget, plans = Budget(limit), self.plans
        if budget.least:
            return plans[0] if plans else None
        most = budget.memory_limit(self.base, self.graph.resident_memory)
        within = [plan for plan in plans if most is None or plan.peak_memory <= most]
        return within[-1] if within else None

    @checked_arguments
    def sampled(self, points: int = tuning.POINTS) -> tuple[Plan, ...]:
        """Return the best plan for each of `points` evenly spaced budgets, or all plans if there are few."""
        plans = self.plans
        return tuple(plans[place] for place in _spread([plan.peak_memory for plan in plans], points))

    def heading(self) -> Iterator[str]:
        yield f"no schedule goes below {exact_bytes(self.bound_memory)}"
        yield from conditions(self.graph.resident_memory, self.constraints, self.link)

    def rows(self) -> Iterator[tuple[str, ...]]:
        """Yield cells under `COLUMNS`, one row per sampled plan."""
        for plan in self.sampled(self.points):
            method = f"{plan.method} (reordered)" if reordered(plan) else plan.method
            yield (*cells(plan, self.COLUMNS[:-1]), method)

    def notes(self) -> Iterator[str]:
        """Yield the number of plans shown, and why solvers have no curve or the search stopped."""
        plans, shown = self.plans, len(self.sampled(self.points))
        if shown < len(plans):
            yield f"{shown} of {len(plans)} plans"
        yield from by_reason(self.reasons)
        if reason := self.stop.reason:
            yield f"{reason}{'; these are the plans found' if plans else ' before any plan was found'}"

    def record(self) -> dict[str, Any]:
        """Return the JSON record with every point of every curve."""
        best = {id(plan) for plan in self.plans}
        return {
            **entries(self, "graph_hash=graph.source_hash peak_without_rematerialization=base graph.resident_memory"),
            **entries(self, "least_peak_bound=bound_memory compute_bound=bound_compute"),
            "compute_bound_source": ONE_PASS,
            **entries(self, f"{UNIT} stop.complete"),
            "interrupted": self.stop is Stop.INTERRUPTED,
            "reasons": dict(self.reasons),
            "points": [_point(name, plan, id(plan) in best) for name, curve in self.curves.items() for plan in curve],
        }


def _point(solver: str, plan: Plan, best: bool) -> dict[str, Any]:
    figures = plan.figures((*POINT, "details"))
    details = figures.pop("details")
    return {"solver": solver, **figures, "best": best, "details": details}


def undominated(plans: Iterable[Plan]) -> tuple[Plan, ...]:
    """Return the undominated plans, lowest peak first. Among equal plans, prefer no_remat, then the largest bound."""
    preferred = sorted(plans, key=lambda plan: (plan.method != BASELINE, -(plan.bound.amount if plan.bound else 0)))
    return tuple(pareto(preferred, lambda plan: (plan.peak_memory, plan.time)))


@checked_arguments
def frontier(
    graph: ComputationGraph,
    *,
    solvers: Sequence[str] | None = None,
    points: int = tuning.POINTS,
    effort: str = DEFAULT,
    time_limit: float | None = None,
    seed: int = 0,
    constraints: Constraints | Mapping[str, Any] | None = None,
    link: AnyLink | None = None,
    progress: Progress | None = None,
) -> Frontier:
    """Compute the Pareto frontier of peak memory and compute, from the lowest peak found to one pass.

    Each solver first runs for the lowest peak, as for the budget "least", and then yields its whole frontier. `search`
    starts from the schedules of all other solvers. It searches for `points` budgets in descending and then in ascending
    order, and then for half as many further budgets where the curve bends; the number of threads does not change its
    result. Schedules are polished within their own peaks, and within `points` budgets that are evenly spaced up to the
    peak without rematerialization. If the best plan for a budget is not proven optimal, and is more than 0.1 percentage
    points of overhead above its bound, the search of `solve` runs for this budget. The frontier contains no plan below
    the lowest peak that the first runs found.

    Parameters
    ----------
    graph : ComputationGraph
        For training, a graph with a backward part (`differentiate`).
    solvers : sequence of str, optional
        Names; by default those of `auto`.
    points : int
        Number of budgets, 2 or more, for which solvers search and schedules are polished.
    effort : {"fast", "default", "best"}
        As in `solve`. Lower bounds are closure bounds (minimum cuts). "best" adds moment bounds (integer programs).
    time_limit : float, optional
        Seconds, shared by the solvers.
    seed : int
        Seed of solvers that use random numbers.
    constraints : Constraints or mapping, optional
        As in `solve`.
    link : Link, Device, mapping, str or path, optional
        As in `solve`. With a link, `points` budgets are solved with copies, and the frontier trades memory for time.
    progress : callable, optional
        A `Progress`, as in `solve`.

    Returns
    -------
    Frontier
        If its `stop` is not complete, it contains the plans found by then.

    Raises
    ------
    ValueError
        If a solver is unknown, or there are fewer than 2 points.

    Examples
    --------
    >>> from remat_algos.ir.differentiate import differentiate
    >>> chain = differentiate(ComputationGraph.from_edges([(i, i + 1) for i in range(8)]))
    >>> [(plan.peak_memory, plan.overhead) for plan in frontier(chain).plans][::3]
    [(4, 28), (7, 4), (10, 1)]
    """
    if points < 2:
        raise about("points", ArgumentError("points is {points}; give a whole number, 2 or more", points=points))
    request = Request.of(
        graph,
        None if link is None else LEAST,
        effort=effort,
        time_limit=time_limit,
        seed=seed,
        raw=link is None,
        polish=True,
        constraints=constraints,
        progress=progress,
        link=link,
    ).with_solvers(solvers)
    if link is not None:
        return _with_copies(request, int(points), request.clock)
    limits, clock = request.limits(), request.clock
    limits.check_regions()
    lowest = run_unlimited(request, limits, clock.share(tuning.FLOOR_SHARE, tuning.FLOOR_SHARE))
    run = SolverRun(limits, clock.share(1.0, 0.5), request.task, budgets=int(points))
    least = run.take(lowest)
    floor = least.figures[0] if least is not None and lowest.stop.complete else 0
    if lowest.stop is not Stop.INTERRUPTED:
        run.run(request.solvers)
        run.rerun(request.solvers)
    if run.stop.complete and least is not None:
        _refine(request, run, least.figures[0], clock.share(1.0, 0.9))
    shown_candidates = [each for each in run.candidates if each.figures[0] >= floor]
    peaks = [candidate.figures[0] for candidate in pareto(shown_candidates, attrgetter("figures"))]
    shown = [peaks[place] for place in _spread(peaks, int(points))]
    interrupted = run.stop is Stop.INTERRUPTED
    bounding = clock.share() if interrupted else clock  # no progress after an interrupt
    bounds = bound_curve(graph, shown, bounding, effort=BEST if effort == BEST else FAST)
    curves, reasons = dict[str, tuple[Plan, ...]](), dict[str, str]()
    for solver in request.solvers:
        result = run.outcomes.get(solver.name)
        if result is not None and result.candidates:
            curves[solver.name] = _curve(limits, result, floor, bounds)
        if result is None or result.error is not None or not result.candidates:
            stopped = "interrupted" if interrupted else ""
            reasons[solver.name] = stopped if result is None else result.reason or stopped
    clock.finish(run.stop)
    return Frontier(
        graph=graph,
        curves=curves,
        bound_memory=least_peak_bound(graph)[0],
        bound_compute=graph.needed_compute,
        base=limits.base,
        reasons=reasons,
        stop=run.stop | lowest.stop | (bounds.stop if bounds.stop is Stop.INTERRUPTED else Stop.DONE),
        points=int(points),
        constraints=limits.constraints,
    )


def _with_copies(request: Request, points: int, clock: Clock) -> Frontier:
    graph, plans, stop = request.graph, list[Plan](), Stop.DONE
    budgets, base, reason = [request.budget], baseline_peak(request.graph), ""
    with until_stopped() as ending:
        while budgets and stop is not Stop.INTERRUPTED:
            clock.check()
            part = 1 / (len(budgets) if plans else points)
            started = request if not plans else replace(request, start=(*request.start, plans[-1].simulation))
            try:
                own = clock.share(part, part)
                plans.append(answered(replace(started, budget=budgets.pop(0)), own))
            except BudgetError as error:
                reason = str(error)
                break
            stop |= plans[-1].report.stop
            if len(plans) == 1:
                lowest = plans[0].peak_memory
                inner = [limit for limit in even_limits(lowest, base, points) if lowest < limit < base]
                budgets = [Budget(limit) for limit in [*inner, base]]
    stop |= ending.stop
    clock.finish(stop)
    name = request.name
    return Frontier(
        graph=graph,
        curves={name: undominated(plans)} if plans else {},
        bound_memory=least_peak_bound(graph, copies=True)[0],
        bound_compute=graph.needed_compute,
        base=base,
        reasons={} if plans else {name: reason or stop.reason},
        stop=stop,
        points=points,
        constraints=request.constraints,
        link=request.link,
    )


def _refine(request: Request, whole: SolverRun, floor: int, clock: Clock) -> None:
    """Solve budgets again if their best plan is neither proven optimal nor near its bound; add the new plans."""
    base, graph, points = whole.limits.base, whole.limits.graph, whole.budgets
    solvers = [solver for solver in request.solvers if solver.optimal_in is None]
    if not any(solver.searches for solver in solvers):
        return  # other solvers ignore limits
    proven = [each.figures[0] for each in whole.candidates if each.scope == ANY_ORDER and each.bound == each.figures[1]]
    tried = [limit for limit in even_limits(floor, base, points) if limit < min(proven, default=base)]
    slack = 0 if graph.n_nodes <= SMALL else max(int(tuning.NEAR_SOLVED * graph.needed_compute), request.task.slack)
    bounds = bound_curve(graph, tried, clock.share(1.0, 0.1), effort=FAST)
    whole.note(bounds.stop)
    for i, limit in enumerate(tried):
        part, bound = 1 / (len(tried) - i), int(bounds.at(limit).amount)
        own = clock.share(part, part)
        best = min((each.figures[1] for each in whole.candidates if each.figures[0] <= limit), default=bound)
        if whole.stop.complete and best > bound + slack:
            run = SolverRun(whole.limits.within(limit), own, request.task, bound=bound)
            run.run(solvers)
            whole.take(run)
            whole.note(run.stop)


def _spread(peaks: Sequence[int], points: int) -> list[int]:
    """Return indices of ascending peaks: the largest within each of `points` budgets, or all if there are few."""
    if len(peaks) <= 2 * points:
        return list(range(len(peaks)))
    budgets = [peaks[0] + (peaks[-1] - peaks[0]) * i // max(1, points - 1) for i in range(points)]
    return sorted({bisect_right(peaks, budget) - 1 for budget in budgets})


def _curve(limits: Limits, result: Outcome, floor: int, bounds: BoundCurve) -> tuple[Plan, ...]:
    seconds, plans = result.seconds / len(result.candidates), list[Plan]()
    for candidate in result.candidates:
        peak, solver = candidate.figures[0], candidate.solver
        if peak >= floor:
            fitted = limits.within(peak)
            report, bound = result.report(solver), bounds.at(peak)
            plans.append(fitted.plan(candidate, solver=solver, options={}, seconds=seconds, report=report, bound=bound))
    return undominated(plans)
