"""Plans that keep, recompute or offload: the search over a link, from the best plan without copies."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from remat_algos.allocate.allocators.registry import get_allocator
from remat_algos.allocate.reservation import PEAK
from remat_algos.bounds.certificate import rising_time_bounds
from remat_algos.bounds.compute import ComputeBound
from remat_algos.bounds.link_bound import LINK_PRICES, LINK_RATES, TimeBound
from remat_algos.bounds.memory import peak_bound_with_copies
from remat_algos.bounds.moments import LinkTimes
from remat_algos.context import Clock, Stop, until_stopped
from remat_algos.cost.links import Link, in_units
from remat_algos.effort import Effort
from remat_algos.errors import BudgetError
from remat_algos.ir.arrays import LARGEST_SUM, Bool
from remat_algos.ir.labels import RECOMPUTE
from remat_algos.plan.infeasible import LATE, forcing_nodes, lowest_plan, marks_kept
from remat_algos.plan.plan import Plan
from remat_algos.plan.request import Request
from remat_algos.schedule.annealing import Annealed, Annealer
from remat_algos.schedule.baseline import baseline
from remat_algos.schedule.eviction import evict
from remat_algos.schedule.simulation import Simulation, simulate
from remat_algos.solvers.candidates import Candidate, evaluated
from remat_algos.solvers.registry import BASELINE
from remat_algos.text.units import exact_bytes, format_bytes

COPIES = "copies"
"""The method of plans that copy values to the host and back."""
MAX_RUNS = 30  # of one node, if a start has no more
BEFORE = 0.5  # of the time, for the plan without copies
LOWEST_PART = 0.5  # of the progress, for a schedule that fits
WORK_OF_NODE = 8  # times that of a search without copies: small graphs take less
BOUND_PART = 0.3  # of the time that is left, for the first bound


def plan_with_copies(request: Request, link: Link, clock: Clock, plain: Callable[[Request, Clock], Plan]) -> Plan:
    """The fastest plan found over a link; it is never slower than that without copies, which is searched first.

    Parameters
    ----------
    request : Request
        With a memory budget.
    link : Link
    clock : Clock
    plain : callable
        plain(request, clock) solves without copies.
    """
    planned = link.planned
    in_ticks = _in_ticks(request, planned)
    graph = in_ticks.graph
    failure: BudgetError | None = None
    try:
        alone = tuple(each for each in request.start if not each.stores.size)
        best = plain(replace(request, link=None, start=alone), clock.share(BEFORE, clock.within_stage(BEFORE)))
    except BudgetError as error:
        lowest: Plan | None = error.plan or _one_pass(request)
        if lowest is None:
            raise
        best, failure = lowest, error
    limit = request.problem().limit
    assert limit is not None  # a request with a link has a memory budget
    if peak_bound_with_copies(graph)[0] > limit:
        raise _shortage(request, link, limit, best, Stop.DONE, failure) from failure
    bound, stop = TimeBound(graph.needed_compute), best.report.stop
    if stop is not Stop.INTERRUPTED:
        bound, ended = _bound(in_ticks, planned, limit, clock.share(BOUND_PART, clock.within_stage(BOUND_PART)))
        stop |= ended
    starts = [(best.simulation, "the plan without copies")]
    if graph.mark is None or not (graph.mark == RECOMPUTE).any():
        starts.append((baseline(graph), "one pass"))
        if failure is not None and failure.plan is None:
            with until_stopped() as ending:
                evicted = evict(baseline(graph), _lowest_limit(request, limit), clock)
                starts.append((simulate(graph, evicted), "eviction"))
            stop |= ending.stop
    starts += [(each, "start") for each in _starts(request, link)]
    found, ended = _searched(in_ticks, planned, limit, starts, bound, clock, searching=stop is not Stop.INTERRUPTED)
    stop |= ended
    near = found.figures[1] <= bound.time + in_ticks.task.slack
    if not near and stop is not Stop.INTERRUPTED and Effort.of(request.task.effort).bounds_last:
        bound, ended = _bound(in_ticks, planned, limit, clock, bound)
        stop |= ended
    clock.finish()
    simulation = simulate(request.graph, found.simulation.schedule)
    copied = bool(simulation.stores.size)
    details = {"moves": found.moves, "start": found.start} if copied else best.details
    plan = replace(
        best,
        budget=request.budget,
        limit=limit,
        simulation=simulation,
        solver=request.name,
        method=COPIES if copied else best.method,
        seconds=clock.elapsed,
        details=details,
        report=replace(best.report, stop=best.report.stop | stop),
        reservation=get_allocator(PEAK).reserve(simulation),
        narrower=None,
        solver_peak_bound=None,
        bound=_in_units(bound, planned.ticks(request.graph)) if found.figures[0] <= limit else None,
        bound_search=None,
        link=link,
    )
    if found.figures[0] > limit or _violation(request, plan):
        raise _shortage(request, link, limit, plan, stop, failure) from failure
    return plan


def _in_ticks(request: Request, link: Link) -> Request:
    """The same request with costs in ticks, of which every copy takes a whole number."""
    graph, rules, ticks = link.refined(request.graph), request.constraints, link.ticks(request.graph)
    return replace(
        request,
        graph=graph,
        task=replace(request.task, slack=min(ticks * request.task.slack, LARGEST_SUM)),
        constraints=None if rules is None else replace(rules, graph=graph),
    )


def _one_pass(request: Request) -> Plan | None:
    """The plan of one pass, to begin at where there is none without copies; None if that breaks a law of the graph."""
    problem, one = request.problem(), baseline(request.graph)
    if (problem.limit or 0) < 0 or not evaluated(request.graph, one.schedule).simulation:
        return None
    return lowest_plan(problem, [Candidate(one.schedule, simulation=one, solver=BASELINE)])


def _lowest_limit(request: Request, limit: int) -> int:
    """The lowest limit of a region, or that of the whole."""
    regions = request.constraints.regions.values() if request.constraints is not None else ()
    return min([limit, *(each for _, each in regions)])


def _violation(request: Request, plan: Plan) -> str | None:
    """The constraint that a plan violates."""
    return None if request.constraints is None else request.constraints.violation(plan.simulation)


def _in_units(bound: TimeBound, ticks: int) -> ComputeBound:
    """The bound of a plan, in the unit of its costs, from a bound in ticks."""
    source = LINK_PRICES if bound.prices is not None else LINK_RATES if bound.nodes else None
    return ComputeBound(
        in_units(bound.time, ticks), bound.nodes, prices=bound.prices, infeasible=bound.infeasible, solver=source
    )


def _bound(
    request: Request, link: Link, limit: int, clock: Clock, known: TimeBound | None = None
) -> tuple[TimeBound, Stop]:
    """A lower bound on the time of all plans with copies, in ticks, above a known one, and how its search ended."""
    graph, effort, last = request.graph, request.task.effort, known is not None
    best = known or TimeBound(graph.needed_compute)
    with until_stopped() as ending:
        times = LinkTimes(*link.times(graph, down=True))
        for found in rising_time_bounds(graph, limit, times, effort=effort, last=last, clock=clock):
            if found.infeasible or found.time > best.time:
                best = found
    return best, ending.stop


def _over_host(annealed: Annealed, link: Link) -> bool:
    """True if a schedule takes more memory of the host than there is."""
    return link.host is not None and annealed.simulation.host_peak > link.host


def _starts(request: Request, link: Link) -> list[Simulation]:
    """The user's schedules that load values, as far as they keep to the constraints and the memory of the host."""
    limits = request.constraints
    return [
        each
        for each in request.start
        if each.stores.size
        and (link.host is None or each.host_peak <= link.host)
        and (limits is None or limits.violation(each) is None)
    ]


def _searched(
    request: Request,
    link: Link,
    limit: int,
    starts: Sequence[tuple[Simulation, str]],
    bound: TimeBound,
    clock: Clock,
    *,
    searching: bool,
) -> tuple[Annealed, Stop]:
    """The best schedule, and how the search for it ended: at a time that is near the bound, at the latest.

    Without `searching` it is the best of the starts.
    """
    graph, effort = request.graph, Effort.of(request.task.effort)
    most_runs = max(MAX_RUNS, *(int(each.runs.max(initial=0)) for each, _ in starts))

    def annealer_of(leaving: Bool | None = None) -> Annealer:
        rules, seed = request.constraints, request.task.seed
        return Annealer(graph, clock, max_runs=most_runs, seed=seed, constraints=rules, link=link, leaving=leaving)

    annealer = annealer_of()

    def rank(each: Annealed) -> tuple[bool, bool, bool, int, int]:
        return (_over_host(each, link), *annealer.key(each, limit))

    begun = [annealer.annealed(each.schedule, limit, name) for each, name in starts]
    best, goal = min(begun, key=rank), bound.time + request.task.slack
    work = min(effort.copies_work, WORK_OF_NODE * effort.search_work_of_node * graph.n_nodes)
    count, over = effort.first_searches, None
    with until_stopped() as ending:
        if searching and best.figures[0] > limit:
            for found in annealer.rounds(begun, limit, work, count=count, lowest=True, part=LOWEST_PART):
                best = min(best, found, key=rank)
            evicted = annealer.annealed(evict(best.simulation, limit, clock), limit, "eviction")
            begun = [min(best, evicted, key=lambda each: annealer.key(each, limit))]
            best = min(best, evicted, key=rank)
        if searching and not annealer.meets(best, limit, goal):
            for found in annealer.rounds(begun, limit, work, count=count, goal=goal):
                best, over = min(best, found, key=rank), found if _over_host(found, link) else over
        if over is not None:  # again with those alone that fit on the host together
            annealer = annealer_of(_on_host(over.simulation, link))
            for found in annealer.rounds([best], limit, work, count=count, goal=goal):
                best = min(best, found, key=rank)
    clock.note(ending.stop)
    return best, ending.stop


def _on_host(simulation: Simulation, link: Link) -> Bool:
    """bool[n_values]: of what a schedule stores, the largest values that fit on the host together."""
    memory, left, leaving = simulation.graph.memory, link.host or 0, np.zeros(simulation.graph.n_values, bool)
    for value in sorted(simulation.stores.tolist(), key=lambda x: -int(memory[x])):
        if memory[value] <= left:
            leaving[value] = True
            left -= int(memory[value])
    return leaving


def _shortage(
    request: Request, link: Link, limit: int, lowest: Plan, stop: Stop, alone: BudgetError | None
) -> BudgetError:
    """The error where nothing fits, even with copies; it also has the reasons of that without copies."""
    graph = request.graph
    bound, nodes = peak_bound_with_copies(graph)
    violation, missing = _violation(request, lowest), "exists" if bound > limit else "was found"
    host = "" if link.host is None or bound > limit else f" and at most {exact_bytes(link.host)} on the host"
    message = f"no plan within {exact_bytes(limit)} {missing}, even with copies over {link}{host}; the lowest peak is "
    message += exact_bytes(lowest.peak_memory)
    if violation is not None:
        message += f"; it violates a constraint: {violation}"
    reasons = () if alone is None else alone.reasons
    message = "; ".join([message, *reasons])
    if stop is Stop.DEADLINE:
        message += LATE
    recomputable = replace(graph, mark=None, once=np.zeros(graph.n_nodes, bool))  # what must run once may be loaded
    message += f"; no schedule goes below {format_bytes(bound)}, needed while {forcing_nodes(recomputable, nodes)}"
    message += marks_kept(graph)
    return BudgetError(message, lowest.peak_memory, bound, nodes, lowest, graph.labels.names_of(nodes), reasons)
