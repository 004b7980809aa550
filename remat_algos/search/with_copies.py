"""Plans that keep, recompute or offload: the search over a link, from the best plan without copies."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from remat_algos.allocate.allocators import PEAK, get_allocator
from remat_algos.bounds.bound import TIME, LowerBound
from remat_algos.bounds.memory import lowest_order_with_copies, peak_bound_with_copies
from remat_algos.bounds.rising import rising
from remat_algos.context import Clock, Stop, until_stopped
from remat_algos.cost.links import Link, in_units
from remat_algos.effort import FAST, Effort
from remat_algos.errors import BudgetError
from remat_algos.ir.arrays import LARGEST_SUM, Bool
from remat_algos.ir.budget import LEAST, Budget
from remat_algos.ir.parts import RECOMPUTE
from remat_algos.plan.plan import Plan
from remat_algos.plan.record import SearchReport
from remat_algos.schedule.annealing import Annealed, Annealer
from remat_algos.schedule.constraints import may_leave
from remat_algos.schedule.emission import baseline, baseline_peak
from remat_algos.schedule.simulation import Simulation, simulate
from remat_algos.schedule.timeline import evict
from remat_algos.search.infeasible import LATE, Message, add_forcing_nodes
from remat_algos.search.request import Request
from remat_algos.search.solve import without_copies

COPIES = "copies"
"""The method of plans that copy values to the host and back."""
# Runs of one node, unless a start has more.
MAX_RUNS = 30
# Share of the time for the plan without copies.
ALONE_PART = 0.5
# Share of the progress for a schedule that fits.
LOWEST_PART = 0.5
# Work per node, as a multiple of a search without copies; limits the work on small graphs.
WORK_OF_NODE = 8
# Share of the remaining time for the first bound.
BOUND_PART = 0.3
# Rate of a slower link as a share of the link's, and the share of the work for its plan, another start.
SLOWER, SLOWER_PART = 0.8, 0.25
# Factor on the work of effort fast where nothing fits without copies: with few moves it stays at slow plans.
UNMET_FACTOR = 2
# Share of the work after which a search for a lower peak that has found nothing ends.
FIRST_PART = 0.25
# Limits that are tried for the lowest peak within an overhead.
LIMITS_TRIED = 7


def plan_with_copies(request: Request, link: Link, clock: Clock) -> Plan:
    """The fastest plan found over a link; it is never slower than the plan without copies that the search begins at.

    That is by effort "fast". The search without copies goes on only where it may still find a faster plan:
    where its lower bound is below the time of the plan with copies. If the peak is minimized, the plan is the fastest
    of the lowest peak.
    """
    limits = request.limits()
    if limits.minimizes_peak and limits.overhead_limit is not None:
        return _lowest_within_overhead(request, link, clock)
    graph, planned = request.graph, link.planned
    in_ticks, ticks = _in_ticks(request, planned), planned.ticks(graph)
    lowest, order = lowest_order_with_copies(graph)
    limit = lowest if limits.limit is None or limits.minimizes_peak else limits.limit
    leaving, starts = may_leave(graph, request.constraints), list[tuple[Simulation, str]]()
    if graph.mark is None or not (graph.mark == RECOMPUTE).any():
        one_pass = baseline(graph)
        starts = [
            (one_pass, "one pass"),
            (simulate(graph, evict(one_pass, _lowest_limit(request, limit), leaving=leaving)), "eviction"),
            (simulate(graph, evict(simulate(graph, order), lowest, leaving=leaving)), "lowest order"),
        ]
        if limit < lowest:
            evicted = min((each for each, _ in starts), key=lambda each: each.peak_memory)
            raise _shortage(request, link, limit, evicted, Stop.DONE, None)
    starts += [(each, "start") for each in _starts(request, link)]
    search = _CopySearch(in_ticks, planned, clock)
    alone: Plan | None = None
    failure: BudgetError | None = None
    fitting = limits.minimizes_peak and any(search.fits(search.annealed(each, limit), limit) for each in starts)
    if not fitting:
        alone, failure = _alone(request, limits.budget, clock)
        known = alone if alone is not None else failure.plan if failure is not None else None
        if known is None and failure is not None and not starts:
            raise failure
        if known is not None:
            starts = [(known.simulation, "the plan without copies"), *starts]
            if known.peak_memory > limit and request.task.effort == FAST:
                evicted = simulate(graph, evict(known.simulation, limit, leaving=leaving))
                starts = [(evicted, "eviction from the plan without copies"), *starts]
                search.work *= UNMET_FACTOR
    stop = Stop.DONE if alone is None else alone.report.stop
    best, ended = search.fitted(starts, limit, searching=stop is not Stop.INTERRUPTED)
    stop |= ended
    if limits.minimizes_peak:
        limit = best.figures[0]
        if alone is None and stop is not Stop.INTERRUPTED:
            alone, failure = _alone(request, Budget(memory=limit), clock)
            starts += [(alone.simulation, "the plan without copies")] if alone is not None else []
    bound = LowerBound(in_ticks.graph.needed_compute, of=TIME)
    if best.figures[0] <= limit and stop is not Stop.INTERRUPTED:
        bound, ended = _bound(in_ticks, planned, limit, clock.share(BOUND_PART, clock.within_stage(BOUND_PART)))
        stop |= ended
        best, ended = search.fastest([best, *(search.annealed(each, limit) for each in starts)], limit, bound)
        stop |= ended
        if _may_be_faster(in_ticks, alone, best, bound, ticks) and stop is not Stop.INTERRUPTED:
            alone, failure = _alone(request, Budget(memory=limit), clock, request.task.effort)
            if alone is not None and ticks * alone.simulation.compute < best.figures[1]:
                begun = [search.annealed((alone.simulation, "the plan without copies"), limit), best]
                best, ended = search.fastest(begun, limit, bound)
                stop |= ended
        near = best.figures[1] <= bound.amount + in_ticks.task.slack
        if not near and stop is not Stop.INTERRUPTED and Effort.of(request.task.effort).bounds_last:
            bound, ended = _bound(in_ticks, planned, limit, clock, bound)
            stop |= ended
    clock.finish()
    if not search.fits(best, limit):
        raise _shortage(request, link, limit, best.simulation, stop, failure) from failure
    if limits.limit is not None and best.figures[0] > limits.limit:
        raise _shortage(request, link, limits.limit, best.simulation, stop, failure) from failure
    bound = replace(bound, amount=in_units(int(bound.amount), ticks))
    plan = _plan(request, link, limits.limit, best, alone, bound, stop, clock)
    if limits.overhead_limit is not None and plan.overhead_in_time > limits.overhead_limit:
        raise _too_slow(plan, limits.overhead_limit)
    return plan


def _plan(
    request: Request,
    link: Link,
    limit: int | None,
    best: Annealed,
    alone: Plan | None,
    bound: LowerBound,
    stop: Stop,
    clock: Clock,
) -> Plan:
    """Return the plan of a schedule.

    It has no report of the search without copies: other plans, and what that proved optimal, are those without a link.
    """
    simulation = simulate(request.graph, best.simulation.schedule)
    kept = None if simulation.stores.size else alone
    return Plan(
        graph=request.graph,
        budget=request.budget,
        limit=limit,
        simulation=simulation,
        solver=request.name,
        method=COPIES if kept is None else kept.method,
        options=request.options,
        bound_or_search=bound,
        seconds=clock.elapsed,
        details={"moves": best.moves, "start": best.start} if kept is None else {},
        report=SearchReport(stop=stop),
        reservation=get_allocator(PEAK).reserve(simulation),
        constraints=request.constraints,
        link=link,
    )


def _alone(
    request: Request, budget: Budget, clock: Clock, effort: str = FAST
) -> tuple[Plan | None, BudgetError | None]:
    """Return the plan without copies, or the error if there is none."""
    starts, task = tuple(each for each in request.start if not each.stores.size), replace(request.task, effort=effort)
    own = replace(request, link=None, start=starts, task=task, budget=replace(budget, overhead=None))
    try:
        return without_copies(own, clock.share(ALONE_PART, clock.within_stage(ALONE_PART))), None
    except BudgetError as error:
        return None, error


def _may_be_faster(request: Request, alone: Plan | None, best: Annealed, bound: LowerBound, ticks: int) -> bool:
    """True if a longer search without copies may find a plan that is faster than the best with copies."""
    time = best.figures[1]
    if request.task.effort == FAST or alone is None or time <= bound.amount + request.task.slack:
        return False
    return alone.bound is None or ticks * alone.bound.amount < time


def _in_ticks(request: Request, link: Link) -> Request:
    """Convert the costs of a request to ticks; every copy then takes a whole number of ticks."""
    graph, rules, ticks = link.refined(request.graph), request.constraints, link.ticks(request.graph)
    return replace(
        request,
        graph=graph,
        task=replace(request.task, slack=min(ticks * request.task.slack, LARGEST_SUM)),
        constraints=None if rules is None else replace(rules, graph=graph),
    )


def _lowest_within_overhead(request: Request, link: Link, clock: Clock) -> Plan:
    """Find the lowest peak whose time is within an overhead, by bisection between the bound and one pass."""
    low, high = lowest_order_with_copies(request.graph)[0], baseline_peak(request.graph)
    best: Plan | None = None
    limit, begun = high, request.start
    for tried in range(LIMITS_TRIED):
        part = 1 / (LIMITS_TRIED - tried)
        own = replace(request, budget=replace(request.budget, memory=limit), start=begun)
        try:
            best = plan_with_copies(own, link, clock.share(part, clock.within_stage(part)))
        except BudgetError:
            if best is None:
                raise
            low = limit + 1
        else:
            high, begun = best.peak_memory, (*request.start, best.simulation)
            if best.report.stop is Stop.INTERRUPTED:
                break
        if low >= high:
            break
        limit = (low + high) // 2
    assert best is not None
    clock.finish()
    return replace(best, budget=request.budget, limit=request.limits().limit, seconds=clock.elapsed)


def _lowest_limit(request: Request, limit: int) -> int:
    """Return the lowest of the limits of the regions and of the whole graph."""
    regions = request.constraints.regions.values() if request.constraints is not None else ()
    return min([limit, *(each for _, each in regions)])


def _bound(
    request: Request, link: Link, limit: int, clock: Clock, known: LowerBound | None = None
) -> tuple[LowerBound, Stop]:
    """Raise the lower bound on the time of plans with copies, in ticks; return it and the end of its search."""
    graph, effort, last = request.graph, request.task.effort, known is not None
    best = known or LowerBound(graph.needed_compute, of=TIME)
    with until_stopped() as ending:
        times = link.times(graph, down=True)
        for found in rising(graph, limit, times=times, effort=effort, last=last, clock=clock):
            if found.infeasible or found.amount > best.amount:
                best = found
    return best, ending.stop


def _starts(request: Request, link: Link) -> list[Simulation]:
    """Return the user's schedules with loads that keep to the constraints and the memory of the host."""
    limits = request.constraints
    return [
        each
        for each in request.start
        if each.stores.size
        and (link.host is None or each.host_peak <= link.host)
        and (limits is None or limits.violation(each) is None)
    ]


class _CopySearch:
    """The search over a link, at its planned rates: for a schedule that fits, and for the fastest one."""

    def __init__(self, request: Request, link: Link, clock: Clock) -> None:
        self.request, self.link, self.clock, self.max_runs = request, link, clock, MAX_RUNS
        self.effort = Effort.of(request.task.effort)
        nodes = WORK_OF_NODE * self.effort.search_work_of_node * request.graph.n_nodes
        self.work = min(self.effort.copies_work, nodes)
        self.annealer = self._annealer()

    def _annealer(self, link: Link | None = None, leaving: Bool | None = None) -> Annealer:
        request = self.request
        return Annealer(
            request.graph,
            self.clock,
            max_runs=self.max_runs,
            seed=request.task.seed,
            constraints=request.constraints,
            link=link or self.link,
            leaving=leaving,
        )

    def annealed(self, start: tuple[Simulation, str], limit: int) -> Annealed:
        """Return a start as the result of an annealer, with its time."""
        simulation, name = start
        most = int(simulation.runs.max(initial=0))
        if most > self.max_runs:
            self.max_runs = most
            self.annealer = self._annealer()
        return self.annealer.annealed(simulation.schedule, limit, name)

    def over_host(self, annealed: Annealed) -> bool:
        """True if a schedule exceeds the memory of the host."""
        return self.link.host is not None and annealed.simulation.host_peak > self.link.host

    def rank(self, annealed: Annealed, limit: int) -> tuple[bool, bool, bool, int, int]:
        """Sort key, the best first."""
        return (self.over_host(annealed), *self.annealer.key(annealed, limit))

    def fits(self, annealed: Annealed, limit: int) -> bool:
        """True if a schedule is within the limits of device and host, and violates no constraint."""
        return self.rank(annealed, limit)[:3] == (False, False, False)

    def fitted(self, starts: Sequence[tuple[Simulation, str]], limit: int, *, searching: bool) -> tuple[Annealed, Stop]:
        """Return the best start; if none fits, the lowest schedule that a search from the starts finds."""
        begun = [self.annealed(each, limit) for each in starts]
        best = min(begun, key=lambda each: self.rank(each, limit))
        if not searching or self.rank(best, limit)[:3] == (False, False, False):
            return best, Stop.DONE
        count = self.effort.first_searches
        with until_stopped() as ending:
            for work in (FIRST_PART * self.work, (1 - FIRST_PART) * self.work):
                before = self.rank(best, limit)
                for found in self.annealer.rounds(begun, limit, int(work), count=count, lowest=True, part=LOWEST_PART):
                    best = min(best, found, key=lambda each: self.rank(each, limit))
                leaving = may_leave(self.request.graph, self.request.constraints)
                evicted = self.annealer.annealed(
                    evict(best.simulation, limit, self.clock, leaving=leaving), limit, "eviction"
                )
                best = min(best, evicted, key=lambda each: self.rank(each, limit))
                if self.fits(best, limit) or self.rank(best, limit) >= before:
                    break
                begun = [best, *begun]
        self.clock.note(ending.stop)
        return best, ending.stop

    def fastest(self, starts: Sequence[Annealed], limit: int, bound: LowerBound) -> tuple[Annealed, Stop]:
        """Search for the fastest schedule from some starts, until its time is near the bound."""

        def rank(each: Annealed) -> tuple[bool, bool, bool, int, int]:
            return self.rank(each, limit)

        begun = sorted({rank(each): each for each in starts if not rank(each)[1]}.values(), key=rank) or list(starts)
        best, goal, over = min(starts, key=rank), int(bound.amount) + self.request.task.slack, None
        count = self.effort.first_searches
        with until_stopped() as ending:
            if not self._meets(best, limit, goal):
                slower = self._slower(begun, limit, goal)
                begun, best = [slower, *begun], min(best, slower, key=rank)
                for found in self.annealer.rounds(
                    begun, limit, int((1 - SLOWER_PART) * self.work), count=count, goal=goal
                ):
                    best, over = min(best, found, key=rank), found if self.over_host(found) else over
            if over is not None:
                # Search again, storing only values that fit on the host together.
                annealer = self._annealer(leaving=_on_host(over.simulation, self.link))
                for found in annealer.rounds([best], limit, self.work, count=count, goal=goal):
                    best = min(best, found, key=rank)
        self.clock.note(ending.stop)
        return best, ending.stop

    def _meets(self, annealed: Annealed, limit: int, goal: int) -> bool:
        return self.fits(annealed, limit) and annealed.figures[1] <= goal

    def _slower(self, starts: Sequence[Annealed], limit: int, goal: int) -> Annealed:
        """Search briefly over a slower link; return the best plan, timed over this one."""
        annealer, best = self._annealer(self.link.at(SLOWER)), starts[0]
        begun = [annealer.annealed(each.simulation.schedule, limit, each.start) for each in starts]
        work, count = int(SLOWER_PART * self.work), self.effort.first_searches
        for found in annealer.rounds(begun, limit, work, count=count, goal=goal):
            best = found
        return self.annealer.annealed(best.simulation.schedule, limit, best.start, best.moves)


def _on_host(simulation: Simulation, link: Link) -> Bool:
    """bool[n_values]: the largest of a schedule's stored values that fit on the host together."""
    memory, left, leaving = simulation.graph.memory, link.host or 0, np.zeros(simulation.graph.n_values, bool)
    for value in sorted(simulation.stores.tolist(), key=lambda x: -int(memory[x])):
        if memory[value] <= left:
            leaving[value] = True
            left -= int(memory[value])
    return leaving


def _shortage(
    request: Request, link: Link, limit: int, lowest: Simulation, stop: Stop, alone: BudgetError | None
) -> BudgetError:
    """Return the error if nothing fits even with copies, including the reasons of the search without copies."""
    graph, lowest = request.graph, simulate(request.graph, lowest.schedule)
    bound, nodes = peak_bound_with_copies(graph)
    violation = None if request.constraints is None else request.constraints.violation(lowest)
    message = Message(
        "no plan within {limit!B} exists, even with copies over {link!w}"
        if bound > limit
        else "no plan within {limit!B} was found, even with copies over {link!w}",
        limit=limit,
        link=str(link),
    )
    if link.host is not None and bound <= limit:
        message.add(" and at most {host!B} on the host", host=link.host)
    message.add("; the lowest peak is {reached!B}")
    if violation is not None:
        message.add("; it violates a constraint: {violation!w}", violation=violation)
    reasons = () if alone is None else alone.reasons
    message.add_each(reasons)
    if stop is Stop.DEADLINE:
        message.add(LATE)
    message.add("; no schedule goes below {lower_bound!b}")
    if nodes:
        # A node that must run once can be loaded, so it forces nothing.
        recomputable = replace(graph, mark=None, once=np.zeros(graph.n_nodes, bool))
        add_forcing_nodes(message, recomputable, nodes)
    message.add_marks(graph)
    plan = _plan(
        replace(request, budget=Budget(memory=LEAST)),
        link,
        None,
        Annealed(lowest, "eviction"),
        None,
        LowerBound(graph.needed_compute, of=TIME),
        stop,
        Clock(),
    )
    return BudgetError(
        message.template,
        reached=lowest.peak_memory,
        lower_bound=bound,
        nodes=nodes,
        plan=plan,
        names=graph.labels.names_of(nodes),
        reasons=reasons,
        **message.fields,
    )


def _too_slow(plan: Plan, allowed: int) -> BudgetError:
    """Return the error if the fastest plan takes more time than the budget allows."""
    labels, bound = plan.graph.labels, peak_bound_with_copies(plan.graph)
    return BudgetError(
        "overhead {allowed!w} in time is too low: the lowest reached within {limit!B} is {overhead!w}",
        allowed=labels.compute(allowed),
        limit=plan.limit or plan.peak_memory,
        overhead=labels.compute(plan.overhead_in_time),
        reached=plan.peak_memory,
        lower_bound=bound[0],
        nodes=bound[1],
        plan=plan,
        names=labels.names_of(bound[1]),
    )
