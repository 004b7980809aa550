"""Plans with copies over a link: a search that starts from the best plan without copies."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from remat_algos.allocate.allocators import PEAK, get_allocator
from remat_algos.bounds.bound import TIME, LowerBound
from remat_algos.bounds.memory import least_peak_bound, lowest_order_with_copies
from remat_algos.bounds.rising import rising
from remat_algos.context import Clock, Interrupted, Stop, interrupted_as, until_stopped
from remat_algos.cost.links import in_units
from remat_algos.effort import FAST, Effort
from remat_algos.errors import BudgetError
from remat_algos.ir.arrays import LARGEST_SUM, Bool, Int64
from remat_algos.ir.budget import LEAST, Budget
from remat_algos.ir.parts import RECOMPUTE
from remat_algos.plan.plan import Plan
from remat_algos.plan.record import SearchReport
from remat_algos.schedule.annealing import Annealed, Annealer
from remat_algos.schedule.constraints import Constraints, may_leave
from remat_algos.schedule.emission import baseline
from remat_algos.schedule.simulation import Simulation, simulate
from remat_algos.schedule.timeline import evict
from remat_algos.search import tuning
from remat_algos.search.infeasible import LATE, Message, add_forcing_nodes
from remat_algos.search.request import STOPPED, Request
from remat_algos.search.without_copies import without_copies

COPIES = "copies"


@interrupted_as(STOPPED)
def plan_with_copies(request: Request, clock: Clock) -> Plan:
    """Return the fastest plan found over a link, at the lowest peak if the peak is minimized.

    The search starts from a plan without copies that is found with effort "fast", so its result is never slower. If the
    lower bound of that plan is below the time of the result, the search without copies is repeated with more effort.
    """
    limits = request.limits()
    if not (limits.minimizes_peak and limits.overhead_limit is not None):
        return _CopySearch(request, clock).plan()
    # Bisect for the lowest peak for which some plan meets the limit on overhead. The range is from the lower bound to
    # the peak of one pass.
    low, high = lowest_order_with_copies(request.graph)[0], limits.base
    best: Plan | None = None
    limit, starts = high, request.start
    for tried in range(tuning.LIMITS_TRIED):
        part = 1 / (tuning.LIMITS_TRIED - tried)
        own = replace(request, budget=replace(request.budget, memory=limit), start=starts)
        try:
            best = plan_with_copies(own, clock.share(part, part))
        except BudgetError:
            if best is None:
                raise
            low = limit + 1
        except Interrupted:
            if best is None:
                raise
            best = replace(best, report=replace(best.report, stop=Stop.INTERRUPTED))
            break
        else:
            high, starts = best.peak_memory, (*request.start, best.simulation)
            if best.report.stop is Stop.INTERRUPTED:
                break
        if low >= high:
            break
        limit = (low + high) // 2
    assert best is not None
    return replace(best, budget=request.budget, limit=limits.limit, seconds=clock.elapsed)


def strictest_limit(constraints: Constraints | None, limit: int) -> int:
    """Return the smallest of the limits of all regions and of the whole graph."""
    regions = () if constraints is None else constraints.regions.values()
    return min([limit, *(each for _, each in regions)])


def usable_starts(request: Request, host: int | None) -> list[Simulation]:
    """Return the user's schedules with copies that satisfy the constraints and fit in host memory."""
    rules, starts = request.constraints, [each for each in request.start if each.stores.size]
    if rules is not None:
        starts = [each for each in starts if rules.violation(each) is None]
    return [each for each in starts if host is None or each.host_peak <= host]


class _CopySearch:
    """The search over a link at planned rates, in whole ticks: first any schedule that fits, then the fastest one."""

    def __init__(self, request: Request, clock: Clock) -> None:
        assert request.link is not None
        self.request, self.limits, self.clock, self.link = request, request.limits(), clock, request.link
        graph, rules = request.graph, request.constraints
        self.planned = self.link.planned
        self.ticks = self.planned.ticks(graph)
        self.graph = self.planned.refined(graph)
        self.constraints = None if rules is None else replace(rules, graph=self.graph)
        self.slack = min(self.ticks * request.task.slack, LARGEST_SUM)
        self.may_leave = may_leave(graph, rules)
        self.max_runs, self.effort = tuning.MAX_RUNS, Effort.of(request.task.effort)
        self.work = min(self.effort.copies_work, tuning.WORK_OF_NODE * self.effort.search_work_of_node * graph.n_nodes)
        self.annealer = self._annealer()
        self.stop = Stop.DONE
        self.alone: Plan | None = None  # best plan without copies
        self.failure: BudgetError | None = None  # error if no plan exists

    def plan(self) -> Plan:
        limits, (lowest, order) = self.limits, lowest_order_with_copies(self.request.graph)
        limit = lowest if limits.limit is None or limits.minimizes_peak else limits.limit
        starts = self._starts(lowest, order, limit)
        fitting = limits.minimizes_peak and any(self.fits(self.annealed(each, limit), limit) for each in starts)
        if not fitting:
            starts = self._started_alone(starts, limit)
        if self.alone is not None:
            self.stop |= self.alone.report.stop
        if not starts:
            raise Interrupted(STOPPED)
        best = self.fitted(starts, limit)
        if limits.minimizes_peak:
            limit = best.figures[0]
            alone = self._search_alone(Budget(memory=limit)) if self.alone is None else None
            starts += [] if alone is None else [(alone.simulation, "the plan without copies")]
        bound = LowerBound(self.graph.needed_compute, of=TIME)
        if best.figures[0] <= limit and self._goes_on:
            bound = self._bound(bound, limit, self.clock.share(tuning.BOUND_PART, tuning.BOUND_PART))
            if self._goes_on:
                best = self.fastest([best, *(self.annealed(each, limit) for each in starts)], limit, bound)
            if self._may_be_faster(best, bound):
                alone = self._search_alone(Budget(memory=limit), self.request.task.effort)
                if alone is not None and self.ticks * alone.simulation.compute < best.figures[1]:
                    starting = [self.annealed((alone.simulation, "the plan without copies"), limit), best]
                    best = self.fastest(starting, limit, bound)
            if best.figures[1] > bound.amount + self.slack and self._goes_on and self.effort.bounds_last:
                bound = self._bound(bound, limit, self.clock, last=True)
        if not (self._goes_on or self.fits(best, limit)):
            raise Interrupted(STOPPED)
        if not self.fits(best, limit):
            raise self._shortage(limit, best.simulation) from self.failure
        if limits.limit is not None and best.figures[0] > limits.limit:
            raise self._shortage(limits.limit, best.simulation) from self.failure
        plan = self._plan(best, replace(bound, amount=in_units(int(bound.amount), self.ticks)), self.alone)
        if limits.overhead_limit is not None and plan.overhead_in_time > limits.overhead_limit:
            raise _too_slow(plan, limits.overhead_limit)
        return plan

    @property
    def _goes_on(self) -> bool:
        return self.stop is not Stop.INTERRUPTED

    def _starts(self, lowest: int, order: Int64, limit: int) -> list[tuple[Simulation, str]]:
        """Return start schedules: some with evicted values, and the user's own. Raise BudgetError if none can fit."""
        graph, leaving, starts = self.request.graph, self.may_leave, list[tuple[Simulation, str]]()
        if graph.mark is None or not (graph.mark == RECOMPUTE).any():
            one_pass, strictest = baseline(graph), strictest_limit(self.request.constraints, limit)
            starts = [
                (one_pass, "one pass"),
                (simulate(graph, evict(one_pass, strictest, leaving=leaving)), "eviction"),
                (simulate(graph, evict(simulate(graph, order), lowest, leaving=leaving)), "lowest order"),
            ]
            if limit < lowest:
                raise self._shortage(limit, min((each for each, _ in starts), key=lambda each: each.peak_memory))
        return starts + [(each, "start") for each in usable_starts(self.request, self.link.host)]

    def _started_alone(self, starts: list[tuple[Simulation, str]], limit: int) -> list[tuple[Simulation, str]]:
        known = self._search_alone(self.limits.budget) or (None if self.failure is None else self.failure.plan)
        if known is None:
            if self.failure is not None and not starts:
                raise self.failure
            return starts
        starts = [(known.simulation, "the plan without copies"), *starts]
        if known.peak_memory > limit and self.request.task.effort == FAST:
            evicted = simulate(known.graph, evict(known.simulation, limit, leaving=self.may_leave))
            starts = [(evicted, "eviction from the plan without copies"), *starts]
            self.work *= tuning.UNMET_FACTOR
        return starts

    def _search_alone(self, budget: Budget, effort: str = FAST) -> Plan | None:
        """Return the best plan without copies, None after an interrupt or an error; `failure` stores the error."""
        if not self._goes_on:
            return None
        request, clock = self.request, self.clock.share(tuning.ALONE_PART, tuning.ALONE_PART)
        starts = tuple(each for each in request.start if not each.stores.size)
        task = replace(request.task, effort=effort)
        own = replace(request, link=None, start=starts, task=task, budget=replace(budget, overhead=None))
        self.alone = self.failure = None
        try:
            self.alone = without_copies(own, clock)
        except BudgetError as error:
            self.failure = error
        except Interrupted:
            self.stop = Stop.INTERRUPTED
        if self.alone is not None and self.alone.interrupted:
            self.stop = Stop.INTERRUPTED
        return self.alone

    def _may_be_faster(self, best: Annealed, bound: LowerBound) -> bool:
        """Return True if a longer search without copies may find a faster plan than the best one with copies."""
        time, alone = best.figures[1], self.alone
        if self.request.task.effort == FAST or alone is None or time <= bound.amount + self.slack or not self._goes_on:
            return False
        try:
            of_compute = alone.bound
        except Interrupted:
            self.stop = Stop.INTERRUPTED
            return False
        return of_compute is None or self.ticks * of_compute.amount < time

    def _bound(self, best: LowerBound, limit: int, clock: Clock, *, last: bool = False) -> LowerBound:
        """Return a lower bound on the time of plans with copies, in ticks: `best`, or a larger one if one is found."""
        graph, effort = self.graph, self.request.task.effort
        with until_stopped() as ending:
            times = self.planned.times(graph, down=True)
            for bound in rising(graph, limit, times=times, effort=effort, last=last, clock=clock):
                if bound.infeasible or bound.amount > best.amount:
                    best = bound
        # A search counts as complete even if the deadline cut short the computation of its bound.
        if ending.stop is Stop.INTERRUPTED:
            self.stop = Stop.INTERRUPTED
        return best

    def _plan(self, best: Annealed, bound: LowerBound, alone: Plan | None = None) -> Plan:
        """Return the plan of a schedule. If the schedule has no copies, its method is that of the plan `alone`."""
        simulation = simulate(self.request.graph, best.simulation.schedule)
        kept = None if simulation.stores.size else alone
        return Plan(
            graph=self.request.graph,
            budget=self.request.budget,
            limit=self.limits.limit,
            simulation=simulation,
            solver=self.request.name,
            method=COPIES if kept is None else kept.method,
            options=self.request.recorded_options,
            bound_or_search=bound,
            seconds=self.clock.elapsed,
            details={"moves": best.moves, "start": best.start} if kept is None else {},
            report=SearchReport(stop=self.stop),
            reservation=get_allocator(PEAK).reserve(simulation),
            constraints=self.request.constraints,
            link=self.link,
        )

    def _annealer(self, rate: float = 1.0, leaving: Bool | None = None) -> Annealer:
        return Annealer(
            self.graph,
            self.clock,
            np.random.SeedSequence(self.request.task.seed),
            max_runs=self.max_runs,
            constraints=self.constraints,
            link=self.planned if rate == 1.0 else self.planned.at(rate),
            leaving=leaving,
        )

    def annealed(self, start: tuple[Simulation, str], limit: int) -> Annealed:
        simulation, name = start
        most = int(simulation.runs.max(initial=0))
        if most > self.max_runs:
            self.max_runs = most
            self.annealer = self._annealer()
        return self.annealer.annealed(simulation.schedule, limit, name)

    def over_host(self, annealed: Annealed) -> bool:
        return self.link.host is not None and annealed.simulation.host_peak > self.link.host

    def rank(self, annealed: Annealed, limit: int) -> tuple[bool, bool, bool, int, int]:
        return (self.over_host(annealed), *self.annealer.key(annealed, limit))

    def fits(self, annealed: Annealed, limit: int) -> bool:
        return self.rank(annealed, limit)[:3] == (False, False, False)

    def fitted(self, starts: Sequence[tuple[Simulation, str]], limit: int) -> Annealed:
        started = [self.annealed(each, limit) for each in starts]
        best = min(started, key=lambda each: self.rank(each, limit))
        if self.fits(best, limit) or not self._goes_on:
            return best
        count = self.effort.first_searches
        with until_stopped() as ending:
            part = tuning.LOWEST_PART
            for work in (tuning.FIRST_PART * self.work, (1 - tuning.FIRST_PART) * self.work):
                before = self.rank(best, limit)
                for result in self.annealer.rounds(started, limit, int(work), count=count, lowest=True, part=part):
                    best = min(best, result, key=lambda each: self.rank(each, limit))
                evicted = evict(best.simulation, limit, self.clock, leaving=self.may_leave)
                lower = self.annealer.annealed(evicted, limit, "eviction")
                best = min(best, lower, key=lambda each: self.rank(each, limit))
                if self.fits(best, limit) or self.rank(best, limit) >= before:
                    break
                started = [best, *started]
        self.clock.note(ending.stop)
        self.stop |= ending.stop
        return best

    def fastest(self, starts: Sequence[Annealed], limit: int, bound: LowerBound) -> Annealed:
        def rank(each: Annealed) -> tuple[bool, bool, bool, int, int]:
            return self.rank(each, limit)

        started = sorted({rank(each): each for each in starts if not rank(each)[1]}.values(), key=rank) or list(starts)
        best, goal, over = min(starts, key=rank), int(bound.amount) + self.slack, None
        count = self.effort.first_searches
        with until_stopped() as ending:
            if not self._meets(best, limit, goal):
                slower = self._slower(started, limit, goal)
                started, best = [slower, *started], min(best, slower, key=rank)
                for result in self.annealer.rounds(
                    started, limit, int((1 - tuning.SLOWER_PART) * self.work), count=count, goal=goal
                ):
                    best, over = min(best, result, key=rank), result if self.over_host(result) else over
            if over is not None:
                # A schedule exceeded the host memory. Search again, and store only values that fit on the host
                # together.
                annealer = self._annealer(leaving=self._on_host(over.simulation))
                for result in annealer.rounds([best], limit, self.work, count=count, goal=goal):
                    best = min(best, result, key=rank)
        self.clock.note(ending.stop)
        self.stop |= ending.stop
        return best

    def _meets(self, annealed: Annealed, limit: int, goal: int) -> bool:
        return self.fits(annealed, limit) and annealed.figures[1] <= goal

    def _slower(self, starts: Sequence[Annealed], limit: int, goal: int) -> Annealed:
        """Search briefly over a slower link; return the best schedule, timed over the actual link."""
        annealer, best = self._annealer(tuning.SLOWER), starts[0]
        started = [annealer.annealed(each.simulation.schedule, limit, each.start) for each in starts]
        work, count = int(tuning.SLOWER_PART * self.work), self.effort.first_searches
        for result in annealer.rounds(started, limit, work, count=count, goal=goal):
            best = result
        return self.annealer.annealed(best.simulation.schedule, limit, best.start, best.moves)

    def _on_host(self, simulation: Simulation) -> Bool:
        """Return bool[n_values]: the largest stored values of a schedule that fit on the host together."""
        memory, left, leaving = simulation.graph.memory, self.link.host or 0, np.zeros(simulation.graph.n_values, bool)
        for value in sorted(simulation.stores.tolist(), key=lambda x: -int(memory[x])):
            if memory[value] <= left:
                leaving[value] = True
                left -= int(memory[value])
        return leaving

    def _shortage(self, limit: int, lowest: Simulation) -> BudgetError:
        graph, rules = self.request.graph, self.request.constraints
        lowest = simulate(graph, lowest.schedule)
        bound, nodes = least_peak_bound(graph, copies=True)
        violation = None if rules is None else rules.violation(lowest)
        message = Message(
            "no plan within {limit!B} exists, even with copies over {link!w}"
            if bound > limit
            else "no plan within {limit!B} was found, even with copies over {link!w}",
            limit=limit,
            link=str(self.link),
        )
        if self.link.host is not None and bound <= limit:
            message.add(" and at most {host!B} on the host", host=self.link.host)
        message.add("; the lowest peak is {reached!B}")
        if violation is not None:
            message.add("; it violates a constraint: {violation!w}", violation=violation)
        reasons = () if self.failure is None else self.failure.reasons
        message.add_each(reasons)
        if self.stop is Stop.DEADLINE:
            message.add(LATE)
        message.add("; no schedule goes below {lower_bound!b}")
        if nodes:
            # With copies, a value whose node may run only once can be stored and loaded instead. So such nodes force no
            # bytes.
            recomputable = replace(graph, mark=None, once=np.zeros(graph.n_nodes, bool))
            add_forcing_nodes(message, recomputable, nodes)
        message.add_marks(graph)
        bound_of_time = LowerBound(graph.needed_compute, of=TIME)
        plan = replace(self._plan(Annealed(lowest, "eviction"), bound_of_time), budget=Budget(memory=LEAST), limit=None)
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
    labels, bound = plan.graph.labels, least_peak_bound(plan.graph, copies=True)
    return BudgetError(
        "overhead {allowed!w} in time is too low: the lowest overhead reached within {limit!B} is {overhead!w}",
        allowed=labels.compute(allowed),
        limit=plan.limit or plan.peak_memory,
        overhead=labels.compute(plan.overhead_in_time),
        reached=plan.peak_memory,
        lower_bound=bound[0],
        nodes=bound[1],
        plan=plan,
        names=labels.names_of(bound[1]),
    )
