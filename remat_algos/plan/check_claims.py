"""Compare the claims of a plan with its simulation, one by one."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields, replace
from typing import Any, NamedTuple

import numpy as np

from remat_algos.allocate.allocation import Allocation, Buffers
from remat_algos.allocate.allocators import PEAK, Allocator, Reservation, get_allocator
from remat_algos.bounds.bound import (
    ANY_ORDER,
    BOUND_OF_ANOTHER,
    COMPUTE,
    ONE_PASS,
    PROVEN,
    TIME,
    TIME_SOURCES,
    LowerBound,
)
from remat_algos.bounds.memory import least_peak_bound, peak_bound_with_copies
from remat_algos.bounds.rising import prove
from remat_algos.context import Clock, OutOfTime
from remat_algos.cost.links import Link
from remat_algos.effort import BEST, FAST
from remat_algos.errors import AllocationError, BudgetError, ClaimError, GraphError, PlanError, ScheduleError
from remat_algos.ir.arrays import LARGEST_SUM
from remat_algos.ir.budget import Budget
from remat_algos.ir.graph import ComputationGraph
from remat_algos.plan.record import copies, differentiated, link_of
from remat_algos.schedule.constraints import Constraints
from remat_algos.schedule.schedule import Schedule, with_copies
from remat_algos.schedule.simulation import Simulation, simulate
from remat_algos.schedule.timeline import Timeline, timeline
from remat_algos.solvers.registry import SCOPES, Candidate, Solver, Task, find_solver, list_solvers

# Seconds for the integer program of a moment bound; for `verify` also for a solver that proved a bound, and an arena.
PROVING = 30
# Seconds to load a plan with a bound by a solver, or an arena; the effort "fast" limits the work, mostly to less.
PROVING_AGAIN = 1.0
NEVER_CHECKED = ("solver", "method", "options", "seconds", "details")


class Checked(NamedTuple):
    """A plan whose record has no false claim, except in the entries of `NEVER_CHECKED`.

    The bound of the reservation was proven here. `narrower` was proven again if strict; otherwise it is as claimed.
    """

    graph: ComputationGraph
    simulation: Simulation
    reservation: Reservation
    bound: LowerBound | None
    narrower: LowerBound | None
    link: Link | None


def checked(graph: ComputationGraph, record: Mapping[str, Any], strict: bool = False) -> Checked:
    """Simulate and prove the record of a plan; ClaimError if a claim is false or names nothing that could prove it.

    With `strict`, proofs may take 30 s each, and a bound or an arena that they do not reach is refused. Otherwise a
    bound has `proven=False`, and an arena no addresses or the part of its bound that was proven.
    """
    graph = _same_graph(graph, record)
    simulation, link = _simulated(graph, record), link_of(record)
    played = _timed(simulation, link)
    found: dict[str, Any] = {
        "peak_memory": simulation.peak_memory,
        "resident_memory": graph.resident_memory,
        "compute": simulation.compute,
        "overhead": simulation.overhead,
        "compute_scale": graph.labels.compute_scale,
        # Tables cannot store a unit, so a graph without one contradicts no unit.
        "compute_unit": graph.labels.compute_unit or record["compute_unit"],
    }
    if "frees" in record:
        found["frees"] = [[graph.value_name(x) for x in step] for step in simulation.frees()]
    if link is not None:
        found |= {"time": played.time, "overhead_in_time": played.overhead, "host_peak": simulation.host_peak}
    bound = _claimed_bound(record, link)
    found["gap"] = None if bound is None else bound.gap(played.time)
    _compare(record, found, "the simulation")
    if link is not None and link.host is not None and simulation.host_peak > link.host:
        raise ClaimError(
            "the plan holds {host_peak} bytes on the host, which are over the {host} of its link",
            host_peak=simulation.host_peak,
            host=link.host,
        )
    claimed = Reservation.claimed(record, simulation.peak_memory)
    try:
        allocator = get_allocator(claimed.allocator)
    except AllocationError as error:
        raise PlanError('"allocator" of the plan is invalid: {error!w}', error=error) from error
    _check_peak_bound(graph, record, simulation)
    limit = _check_limits(graph, record, played, allocator)
    if bound is not None:
        bound = _checked_bound(graph, record, bound, played, limit, strict)
    elif "bound" in record.get("details", {}):
        raise PlanError(BOUND_OF_ANOTHER)
    elif record.get("bound_source") not in (None, ONE_PASS, *PROVEN):
        _prover(graph, record["bound_source"], ANY_ORDER)
    narrower = _narrower(graph, record, simulation, limit, strict)
    reservation = _reserved(record, simulation, claimed, allocator, strict)
    return Checked(graph, simulation, reservation, bound, narrower, link)


def _compare(record: Mapping[str, Any], facts: Mapping[str, Any], source: str) -> None:
    """ClaimError if an entry of the plan differs from the facts; it need not have every entry."""
    for name, value in facts.items():
        claimed = record.get(name, value)
        if claimed != value or isinstance(claimed, bool) != isinstance(value, bool):
            raise ClaimError(
                "the plan claims {name} {claimed!j}; {source} gives {found!j}",
                name=name,
                claimed=claimed,
                source=source,
                found=value,
            )


def _same_graph(graph: ComputationGraph, record: Mapping[str, Any]) -> ComputationGraph:
    if graph.source_hash != record["graph_hash"]:
        raise PlanError(
            "the plan was made for another graph (hash {record}..., this one has {source_hash}...); give the "
            "graph it was made for",
            record=record["graph_hash"][:12],
            source_hash=graph.source_hash[:12],
        )
    options = record["differentiate"]
    if graph.derivation is not None:
        if options != dict(graph.derivation.options):
            raise PlanError(
                "the plan was made for the graph differentiated with {options!w}; give the graph before that",
                options=options,
            )
        return graph
    if options is None:
        return graph
    return differentiated(graph, options)


def _simulated(graph: ComputationGraph, record: Mapping[str, Any]) -> Simulation:
    steps = record["schedule"]
    try:
        if all(isinstance(step, str) for step in steps):
            schedule = Schedule.from_names(graph, steps)
        elif all(type(step) is int and abs(step) < 2**31 for step in steps):
            schedule = Schedule(np.array(steps, np.int32))
        else:
            raise PlanError('"schedule" of the plan holds neither names nor ids of nodes')
        return simulate(graph, with_copies(graph, schedule, *copies(record)))
    except ScheduleError as error:
        raise ClaimError("the plan's schedule cannot be run: {error!w}", error=error) from error


def _timed(simulation: Simulation, link: Link | None) -> Timeline:
    try:
        return timeline(simulation, None if link is None else link.planned)
    except GraphError as error:
        raise PlanError('"link" of the plan does not go with the graph: {error!w}', error=error) from error


def _check_limits(graph: ComputationGraph, record: Mapping[str, Any], played: Timeline, allocator: Allocator) -> int:
    """Compare the plan with its budget and constraints; return the bytes of peak for which its bounds hold."""
    simulation = played.simulation
    given, known = record["budget"] or {}, [field.name for field in fields(Budget)]
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise PlanError('"budget" of the plan has {unknown!l}; it may have {known!l}', unknown=unknown, known=known)
    try:
        budget = Budget(**given)
        limit = budget.memory_limit(allocator.base(graph), graph.resident_memory)
        most = budget.overhead_limit(graph.needed_compute, graph.labels.compute_scale)
    except (TypeError, ValueError) as error:
        raise PlanError('"budget" of the plan is invalid: {error!w}', error=error) from error
    _compare(record, {"limit": limit}, "its budget")
    if limit is not None and simulation.peak_memory > limit:
        raise ClaimError(
            "the plan claims to stay within {limit} bytes; its peak is {peak}", limit=limit, peak=simulation.peak_memory
        )
    # Without a link the time is the compute.
    if most is not None and played.overhead > most:
        noun = "overhead" if played.link is None else "overhead in time"
        raise ClaimError(
            "the plan claims to stay within {noun} {limit}; it has {found}",
            noun=noun,
            limit=most,
            found=played.overhead,
        )
    constraints = Constraints.claimed(graph, record.get("constraints"))
    violation = constraints.violation(simulation) if constraints is not None else None
    if violation is not None:
        raise ClaimError("the plan claims to keep to its constraints; {violation!w}", violation=violation)
    return simulation.peak_memory if limit is None or budget.least else limit


def _claimed_bound(record: Mapping[str, Any], link: Link | None) -> LowerBound | None:
    """Return the claimed lower bound on compute, with a link on time; without a source, that of one pass."""
    bound, scope, source = record["bound"], record["bound_scope"], record.get("bound_source")
    if (bound is None) != (scope is None) or (scope is not None and scope not in SCOPES):
        raise ClaimError(
            "the plan claims a bound {bound} in scope {scope!r}; scopes are {scopes!l}",
            bound=bound,
            scope=scope,
            scopes=SCOPES,
        )
    if bound is None:
        return None
    of, by_nodes = (COMPUTE, PROVEN) if link is None else (TIME, TIME_SOURCES)
    return LowerBound(bound, of=of, scope=scope, solver=None if source in (None, ONE_PASS, *by_nodes) else source)


def _checked_bound(
    graph: ComputationGraph, record: Mapping[str, Any], bound: LowerBound, played: Timeline, limit: int, strict: bool
) -> LowerBound:
    """Prove the lower bound on compute, with a link on time, again; ClaimError if it is false or has no prover."""
    source, one_pass, link = record.get("bound_source"), graph.needed_compute, played.link
    what, (does, by_nodes) = bound.of, ("computes", PROVEN) if link is None else ("takes", TIME_SOURCES)
    if not bound.amount <= played.time:  # also for NaN
        raise ClaimError(
            "the plan claims the lower bound {claimed} on {what}; it {does} {found} itself",
            claimed=bound.amount,
            what=what,
            does=does,
            found=played.time,
        )
    if bound.amount < one_pass or (source in (None, ONE_PASS) and bound.amount > one_pass):
        raise ClaimError(
            "the plan claims the lower bound {claimed} on {what}{whose}; one pass {does} {one_pass}",
            claimed=bound.amount,
            what=what,
            whose=", which names no source" if source is None else "",
            does=does,
            one_pass=one_pass,
        )
    if link is not None and source not in (None, ONE_PASS, *TIME_SOURCES):
        raise ClaimError(
            "the plan claims a bound on time by {source!r}, which proves none; bounds are by {known!l}",
            source=source,
            known=[ONE_PASS, *TIME_SOURCES],
        )
    prover = None if bound.solver is None or source in by_nodes else _prover(graph, bound.solver, bound.scope)
    if source in by_nodes:
        return _prove_by_nodes(record, bound, played, limit, strict)
    if "bound" in record.get("details", {}):
        raise PlanError(BOUND_OF_ANOTHER)
    if prover is None or bound.amount == one_pass:
        return bound
    return replace(bound, proven=_prove_by_solver(prover, graph, bound, played.simulation, limit, strict))


def _check_peak_bound(graph: ComputationGraph, record: Mapping[str, Any], simulation: Simulation) -> None:
    """Check the lower bound on the peak: ours is proven; a larger one, in the details, is only claimed by a solver."""
    proven = (peak_bound_with_copies if "link" in record else least_peak_bound)(graph)[0]
    _compare(record, {"peak_bound": proven}, "the graph")
    claimed = record.get("details", {}).get("peak_bound", 0)
    if claimed > simulation.peak_memory:
        raise ClaimError(
            "the plan claims that no schedule has a peak below {claimed}; its own is lower", claimed=claimed
        )


def _prover(graph: ComputationGraph, source: str, scope: str) -> Solver:
    """Return the solver claimed to have proven a bound of a scope; ClaimError if it proves no such bound."""
    prover = find_solver(source)
    if prover is None:
        able = [each.name for each in list_solvers() if each.optimal_in in (scope, ANY_ORDER)]
        raise ClaimError(
            "the plan claims a bound by {source!r}, which proves none; bounds are by {known!l}",
            source=source,
            known=[ONE_PASS, *PROVEN, *able],
        )
    if prover.optimal_in not in (scope, ANY_ORDER):
        raise ClaimError(
            "the plan claims a bound by {source}, which proves none for schedules of the scope {scope!r}",
            source=source,
            scope=scope,
        )
    reason = prover.needs(graph)
    if reason is not None:
        raise ClaimError(
            "the plan claims a bound by {source}, which cannot serve this graph: {reason!w}",
            source=source,
            reason=reason,
        )
    return prover


def _prove_by_solver(
    prover: Solver,
    graph: ComputationGraph,
    claim: LowerBound,
    simulation: Simulation,
    limit: int,
    strict: bool,
    constraints: Constraints | None = None,
) -> bool:
    """Run the claimed prover of a bound once more; True if it proves the bound.

    It starts at the plan's own schedule, so that it need not find one. A cheaper one disproves a bound for any order.
    """
    bound, own = claim.amount, Candidate(simulation.schedule, simulation=simulation)
    seconds, effort = (PROVING, BEST) if strict else (PROVING_AGAIN, FAST)
    task = Task(min(limit, LARGEST_SUM), effort=effort, candidates=(own,), constraints=constraints)
    whose = "" if claim.scope == ANY_ORDER else f" of schedules of the scope '{claim.scope}'"
    with suppress(OutOfTime, BudgetError, GraphError, ScheduleError, MemoryError):
        for found in prover.candidates(graph, task, Clock(seconds), {}):
            if not isinstance(found, Candidate):
                continue
            peak, compute = found.figures
            if claim.scope == ANY_ORDER and found.simulation is not None and peak <= limit and compute < bound:
                raise ClaimError(
                    "the plan claims the lower bound {bound} on compute{whose}, by {prover}; {reached} is reached",
                    bound=bound,
                    whose=whose,
                    prover=prover.name,
                    reached=int(compute),
                )
            if found.scope in (claim.scope, ANY_ORDER) and found.bound is not None and found.bound >= bound:
                return True
    if strict:
        raise ClaimError(
            "the plan claims the lower bound {bound} on compute{whose}, by {prover}; it was not proven here within "
            "{seconds:.0f} s",
            bound=bound,
            whose=whose,
            prover=prover.name,
            seconds=seconds,
        )
    return False


def _narrower(
    graph: ComputationGraph, record: Mapping[str, Any], simulation: Simulation, limit: int, strict: bool
) -> LowerBound | None:
    """The claimed bound of a narrower scope, proven if strict; an error if it is invalid or contradicts the plan."""
    narrower = record.get("details", {}).get("narrower_bound")
    if narrower is None:
        return None
    bound, scope = (narrower.get("bound"), narrower.get("scope")) if isinstance(narrower, Mapping) else (None, None)
    if type(bound) is not int or bound < 0 or type(scope) is not str or scope not in SCOPES or scope == ANY_ORDER:
        raise PlanError(
            '"narrower_bound" in the details of the plan is {narrower!j}; expected bound and scope', narrower=narrower
        )
    if bound > simulation.compute:
        raise ClaimError(
            "the plan claims the lower bound {claimed} on schedules of its scope; it computes {found}",
            claimed=bound,
            found=simulation.compute,
        )
    prover = _prover(graph, record["method"], scope)
    claim = LowerBound(bound, scope=scope, solver=prover.name, proven=strict)
    if strict and bound > graph.needed_compute:
        constraints = Constraints.claimed(graph, record.get("constraints"))
        _prove_by_solver(prover, graph, claim, simulation, limit, strict, constraints)
    return claim


def _prove_by_nodes(
    record: Mapping[str, Any], bound: LowerBound, played: Timeline, limit: int, strict: bool
) -> LowerBound:
    """Prove the bound from the nodes and prices in the plan; return it with these."""
    source, graph, link = record["bound_source"], played.simulation.graph, played.link
    in_ticks = graph.refined(played.ticks)
    times = None if link is None else link.times(in_ticks, down=True)
    claim = LowerBound.claimed(graph, bound.amount, record.get("details", {}).get("bound"), bound.of)
    if claim.source != source or (claim.prices is not None and len(claim.nodes) > 1):
        raise PlanError(BOUND_OF_ANOTHER)
    try:
        found = prove(in_ticks, limit, claim, times=times, seconds=PROVING)
    except ValueError as error:
        raise ClaimError("the plan claims a bound that its nodes cannot prove: {error!w}", error=error) from error
    claim, proven = replace(claim, scope=bound.scope), played.in_units(int(found.amount))
    if proven >= claim.amount:
        return claim
    facts = {
        "claimed": claim.amount,
        "what": claim.of,
        "nodes": [graph.labels[v] for v in claim.nodes],
        "proven": proven,
    }
    if not found.stopped:
        raise ClaimError(
            "the plan claims the lower bound {claimed} on {what}, by {nodes!l} at the first run; that proves {proven}",
            **facts,
        )
    if strict:
        raise ClaimError(
            "the plan claims the lower bound {claimed} on {what}, by {nodes!l} at the first run; {seconds} s proved "
            "{proven}",
            **facts,
            seconds=PROVING,
        )
    return replace(claim, proven=False)


def _reserved(
    record: Mapping[str, Any], simulation: Simulation, claimed: Reservation, allocator: Allocator, strict: bool
) -> Reservation:
    """Return the reservation, if the claims about it are true."""
    limit = record["limit"]
    if claimed.allocator == PEAK:
        return claimed
    if limit is not None and claimed.memory > limit:
        raise ClaimError(
            "the plan claims to stay within {limit} bytes; {what} {memory}",
            limit=limit,
            what=f"{allocator.name} reserves" if claimed.bound is None else "it packs into",
            memory=claimed.memory,
        )
    if claimed.bound is None:
        found = allocator.reserve(simulation)
    else:
        found = _arena(record, simulation, claimed, allocator, strict)
    _compare(record, {name: value for name, value in found.record().items() if name != "packed_bound"}, "the model")
    if strict and (found.bound or 0) < (claimed.bound or 0):
        raise ClaimError(
            "the plan claims packed_bound {claimed}; {proven} was proven here within {seconds} s",
            claimed=claimed.bound,
            proven=found.bound,
            seconds=PROVING,
        )
    return found


def _arena(
    record: Mapping[str, Any], simulation: Simulation, claimed: Reservation, allocator: Allocator, strict: bool
) -> Reservation:
    """Return the claimed arena with its addresses, and a bound proven here."""
    offsets, memory, bound = record.get("offsets"), claimed.memory, claimed.bound or 0
    if bound > memory:
        raise ClaimError(
            "the plan claims that nothing packs below {claimed} bytes; it packs into {memory} itself",
            claimed=bound,
            memory=memory,
        )
    if memory < simulation.peak_memory:
        raise ClaimError(
            "the plan claims packed_memory {memory}; no arena for its schedule is below {peak}",
            memory=memory,
            peak=simulation.peak_memory,
        )
    if offsets is None:
        return _packed_again(simulation, claimed, allocator, strict)
    if not isinstance(offsets, list) or not all(type(each) is int and 0 <= each <= LARGEST_SUM for each in offsets):
        raise PlanError('"offsets" of the plan is {offsets!j}; expected a list of whole numbers', offsets=offsets)
    buffers, alignment = Buffers.of(simulation), claimed.alignment
    live = buffers.rounded(alignment).max_live
    try:
        storage, known = np.arange(len(buffers)), min(bound, live)
        found = Allocation(buffers, storage, np.array(offsets, np.int64), memory, "plan", known, alignment)
        found.verify()
    except AllocationError as error:
        raise ClaimError(
            "the plan claims addresses in packed_memory {memory} that cannot be: {error!w}", memory=memory, error=error
        ) from error
    if bound > live:
        again = allocator.reserve(simulation, Clock(PROVING if strict else PROVING_AGAIN), alignment=alignment)
        if again.memory < bound:
            raise ClaimError(
                "the plan claims packed_bound {claimed}; its schedule packs into {memory} bytes",
                claimed=bound,
                memory=again.memory,
            )
        found = replace(found, bound=min(bound, max(live, again.bound or live)))
    return replace(claimed, bound=found.bound, allocation=found)


def _packed_again(simulation: Simulation, claimed: Reservation, allocator: Allocator, strict: bool) -> Reservation:
    """Pack the arena again for a file without addresses."""
    found = allocator.reserve(simulation, alignment=claimed.alignment)
    bound = found.bound or 0
    if claimed.memory < bound:
        raise ClaimError(
            "the plan claims packed_memory {memory}; no arena for its schedule is below {bound} bytes",
            memory=claimed.memory,
            bound=bound,
        )
    if (claimed.bound or 0) > found.memory:
        raise ClaimError(
            "the plan claims packed_bound {claimed}; its schedule packs into {memory} bytes",
            claimed=claimed.bound,
            memory=found.memory,
        )
    claimed = replace(claimed, bound=min(claimed.bound or 0, bound))
    if claimed.memory >= found.memory and found.allocation is not None:
        return replace(claimed, allocation=replace(found.allocation, size=claimed.memory))
    if strict:
        raise ClaimError(
            "the plan claims to pack into {claimed} bytes, which was not found here within a few seconds ({found} "
            "was); `remat allocate --time-limit` searches longer",
            claimed=claimed.memory,
            found=found.memory,
        )
    return claimed
