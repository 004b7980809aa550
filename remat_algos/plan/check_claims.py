"""Check the claims of a plan against a simulation of its schedule, and prove its bounds."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple, NoReturn

import numpy as np

from remat_algos.allocate.allocation import Allocation, Buffers
from remat_algos.allocate.allocators import PEAK, Allocator, Reservation, get_allocator
from remat_algos.bounds.bound import ANY_ORDER, BOUND_OF_ANOTHER, COMPUTE, ONE_PASS, SOURCES, TIME, LowerBound
from remat_algos.bounds.closure import in_ticks
from remat_algos.bounds.memory import least_peak_bound
from remat_algos.bounds.rising import prove
from remat_algos.context import Clock, OutOfTime
from remat_algos.cost.links import Link
from remat_algos.effort import BEST, FAST
from remat_algos.errors import AllocationError, BudgetError, ClaimError, GraphError, PlanError, ScheduleError
from remat_algos.ir.arrays import LARGEST_SUM
from remat_algos.ir.budget import Budget
from remat_algos.ir.graph import ComputationGraph
from remat_algos.plan import tuning
from remat_algos.plan.record import copies, differentiated, link_of
from remat_algos.schedule.constraints import Constraints
from remat_algos.schedule.schedule import Schedule, with_copies
from remat_algos.schedule.simulation import Simulation, simulate
from remat_algos.schedule.timeline import Timeline, timeline
from remat_algos.solvers.registry import SCOPES, Candidate, Solver, Task, list_solvers

NEVER_CHECKED = ("solver", "method", "options", "seconds", "details")


class Checked(NamedTuple):
    """The results of checking a plan. `narrower` bounds fewer schedules than `bound`; only a strict check proves it."""

    graph: ComputationGraph
    simulation: Simulation
    reservation: Reservation
    bound: LowerBound | None
    narrower: LowerBound | None
    link: Link | None


def checked(graph: ComputationGraph, record: Mapping[str, Any], strict: bool = False) -> Checked:
    """Simulate the schedule in a plan's record, and prove its claims.

    Raise ClaimError if a claim is false, or lacks a source from which it can be proven. With `strict`, each proof may
    take 30 s, and claims that are not proven in that time are refused. Otherwise an unproven bound on compute gets
    `proven=False`, an arena gets the bound that was proven, and an arena that cannot be reproduced gets no addresses.
    """
    graph = _same_graph(graph, record)
    simulation = _simulated(graph, record)
    played = _timed(simulation, record)
    bound = _claimed_bound(record, COMPUTE if played.link is None else TIME)
    _check_figures(record, played, bound)
    claimed = Reservation.claimed(record, simulation.peak_memory)
    try:
        allocator = get_allocator(claimed.allocator)
    except AllocationError as error:
        raise PlanError('"allocator" of the plan is invalid: {error!w}', error=error) from error
    limit = _check_limits(record, played, allocator)
    proofs = _Proofs(record, played, limit, strict)
    bound, narrower = proofs.bound(bound), proofs.narrower()
    reservation = _reserved(record, simulation, claimed, allocator, strict)
    return Checked(graph, simulation, reservation, bound, narrower, link_of(record))


def _check_figures(record: Mapping[str, Any], played: Timeline, bound: LowerBound | None) -> None:
    """Compare the record with all simulated figures and peak bounds; a solver's peak bound must not exceed the peak."""
    simulation, graph, link = played.simulation, played.simulation.graph, played.link
    figures: dict[str, Any] = {
        "peak_memory": simulation.peak_memory,
        "resident_memory": graph.resident_memory,
        "compute": simulation.compute,
        "overhead": simulation.overhead,
        "compute_scale": graph.labels.compute_scale,
        # A graph read from a table has no unit, since tables cannot store one; any unit in the plan is then accepted.
        "compute_unit": graph.labels.compute_unit or record["compute_unit"],
    }
    if "frees" in record:
        figures["frees"] = [[graph.value_name(x) for x in step] for step in simulation.frees()]
    if link is not None:
        figures |= {"time": played.time, "overhead_in_time": played.overhead, "host_peak": simulation.host_peak}
    figures["gap"] = None if bound is None else bound.gap(played.time)
    _compare(record, figures, "the simulation gives")
    _compare(record, {"peak_bound": least_peak_bound(graph, copies=link is not None)[0]}, "the graph gives")
    _not_above("no peak below", record.get("details", {}).get("peak_bound", 0), simulation.peak_memory, "its own is")
    if link is not None and link.host is not None:
        _not_below("to stay within host memory of", link.host, simulation.host_peak, "it stores")


def _compare(record: Mapping[str, Any], facts: Mapping[str, Any], source: str) -> None:
    for name, value in facts.items():
        claimed = record.get(name, value)
        if claimed != value or isinstance(claimed, bool) != isinstance(value, bool):
            _refuse(name, claimed, value, source)


def _not_above(name: str, claimed: Any, amount: Any, source: str) -> None:
    """Raise ClaimError if the plan claims a lower bound that is above the plan's own figure."""
    if not claimed <= amount:  # also refuses NaN
        _refuse(name, claimed, amount, source)


def _not_below(name: str, claimed: Any, amount: Any, source: str) -> None:
    """Raise ClaimError if the plan claims a limit or size that is below the plan's own figure."""
    if claimed < amount:
        _refuse(name, claimed, amount, source)


def _refuse(name: str, claimed: Any, amount: Any, source: str) -> NoReturn:
    raise ClaimError(
        "the plan claims {name!w} {claimed!j}, but {source!w} {found!j}",
        name=name,
        claimed=claimed,
        source=source,
        found=amount,
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
                "the plan was made for the graph differentiated with {options!w}; give the graph as it was before "
                "differentiation",
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
            raise PlanError('"schedule" of the plan is not a list of names or ids of nodes')
        return simulate(graph, with_copies(graph, schedule, *copies(record)))
    except ScheduleError as error:
        raise ClaimError("the plan's schedule cannot be run: {error!w}", error=error) from error


def _timed(simulation: Simulation, record: Mapping[str, Any]) -> Timeline:
    link = link_of(record)
    try:
        return timeline(simulation, None if link is None else link.planned)
    except GraphError as error:
        raise PlanError('"link" of the plan does not fit the graph: {error!w}', error=error) from error


def _check_limits(record: Mapping[str, Any], played: Timeline, allocator: Allocator) -> int:
    """Check the plan against its budget and constraints; return the limit in bytes for which its bounds are valid."""
    simulation, graph = played.simulation, played.simulation.graph
    entries, known = record["budget"] or {}, [field.name for field in fields(Budget)]
    unknown = sorted(set(entries) - set(known))
    if unknown:
        wrong = '"budget" of the plan has the unknown entries {unknown!l}; use only {known!l}'
        raise PlanError(wrong, unknown=unknown, known=known)
    try:
        budget = Budget(**entries)
        limit = budget.memory_limit(allocator.base(graph), graph.resident_memory)
        most = budget.overhead_limit(graph.needed_compute, graph.labels.compute_scale)
    except (TypeError, ValueError) as error:
        raise PlanError('"budget" of the plan is invalid: {error!w}', error=error) from error
    _compare(record, {"limit": limit}, "its budget gives")
    if limit is not None:
        _not_below("to stay within a limit of", limit, simulation.peak_memory, "its peak is")
    if most is not None:
        # Without a link, time is measured in compute.
        noun = "overhead" if played.link is None else "overhead in time"
        _not_below(f"to stay within {noun}", most, played.overhead, "it has")
    constraints = Constraints.claimed(graph, record.get("constraints"))
    violation = constraints.violation(simulation) if constraints is not None else None
    if violation is not None:
        raise ClaimError("the plan claims to satisfy its constraints, but {violation!w}", violation=violation)
    return simulation.peak_memory if limit is None or budget.least else limit


def _claimed_bound(record: Mapping[str, Any], of: str) -> LowerBound | None:
    """Return the claimed lower bound on compute or, with a link, on time. The default source is one pass."""
    bound, scope, source = record["bound"], record["bound_scope"], record.get("bound_source")
    if (bound is None) != (scope is None) or (scope is not None and scope not in SCOPES):
        raise ClaimError(
            "the plan claims a bound of {bound} in scope {scope!r}; scopes are {scopes!l}",
            bound=bound,
            scope=scope,
            scopes=SCOPES,
        )
    if bound is None:
        return None
    by_solver = source not in (None, ONE_PASS, *SOURCES[of])
    return LowerBound(bound, of=of, scope=scope, solver=source if by_solver else None)


@dataclass(frozen=True, slots=True)
class _Proofs:
    record: Mapping[str, Any]
    played: Timeline
    limit: int
    strict: bool

    @property
    def graph(self) -> ComputationGraph:
        return self.played.simulation.graph

    def bound(self, claim: LowerBound | None) -> LowerBound | None:
        source, one_pass = self.record.get("bound_source"), self.graph.needed_compute
        of = COMPUTE if self.played.link is None else TIME
        by_nodes = claim is not None and source in SOURCES[of]
        if claim is not None:
            does = "computes" if of == COMPUTE else "takes"
            name = f"the lower bound on {of}{'' if source else ', which names no source,'}"
            _not_above(name, claim.amount, self.played.time, f"it {does}")
            _not_below(name, claim.amount, one_pass, f"one pass {does}")
            if source in (None, ONE_PASS):
                _not_above(name, claim.amount, one_pass, f"one pass {does}")
        scope = ANY_ORDER if claim is None else claim.scope
        prover = None if source in (None, ONE_PASS, *SOURCES[of]) else self._prover(source, scope, of)
        if claim is not None and by_nodes:
            return self._by_nodes(claim)
        if "bound" in self.record.get("details", {}):
            raise PlanError(BOUND_OF_ANOTHER)
        if claim is None or prover is None or claim.amount == one_pass:
            return claim
        return self._by_solver(prover, claim)

    def narrower(self) -> LowerBound | None:
        """Return the claimed bound for a smaller class of schedules. Raise ClaimError if the plan disproves it."""
        narrower, graph = self.record.get("details", {}).get("narrower_bound"), self.graph
        if narrower is None:
            return None
        bound, scope = (narrower.get("bound"), narrower.get("scope")) if isinstance(narrower, Mapping) else (None, None)
        if type(bound) is not int or bound < 0 or type(scope) is not str or scope not in SCOPES or scope == ANY_ORDER:
            raise PlanError(
                '"narrower_bound" in the details of the plan is {narrower!j}; expected bound and scope',
                narrower=narrower,
            )
        _not_above("the lower bound in its scope", bound, self.played.simulation.compute, "it computes")
        prover = self._prover(self.record["method"], scope)
        claim = LowerBound(bound, scope=scope, solver=prover.name, proven=self.strict)
        if self.strict and bound > graph.needed_compute:
            self._by_solver(prover, claim, Constraints.claimed(graph, self.record.get("constraints")))
        return claim

    def _prover(self, source: str, scope: str, of: str = COMPUTE) -> Solver:
        """Return the solver that a plan names as source of a bound. Raise ClaimError if it cannot prove such bounds."""
        able = {each.name: each for each in list_solvers() if of == COMPUTE and each.optimal_in in (scope, ANY_ORDER)}
        if source not in able:
            raise ClaimError(
                "the plan claims a bound on {of} by {source!r}, which proves no bounds in scope {scope!r}; the sources "
                "of bounds are {known!l}",
                of=of,
                source=source,
                scope=scope,
                known=[ONE_PASS, *SOURCES[of], *able],
            )
        reason = able[source].needs(self.graph)
        if reason is not None:
            raise ClaimError(
                "the plan claims a bound by {source}, which does not support this graph: {reason!w}",
                source=source,
                reason=reason,
            )
        return able[source]

    def _by_solver(self, prover: Solver, claim: LowerBound, constraints: Constraints | None = None) -> LowerBound:
        """Prove a bound by running the named solver from the plan's own schedule; a cheaper schedule disproves it."""
        simulation = self.played.simulation
        own, proven = Candidate(simulation.schedule, simulation=simulation), self.graph.needed_compute
        seconds, effort = (tuning.PROVING, BEST) if self.strict else (tuning.PROVING_AGAIN, FAST)
        task = Task(min(self.limit, LARGEST_SUM), effort=effort, candidates=(own,), constraints=constraints)
        with suppress(OutOfTime, BudgetError, GraphError, ScheduleError, MemoryError):
            for candidate in prover.candidates(self.graph, task, Clock(seconds), {}):
                if not isinstance(candidate, Candidate):
                    continue
                peak, compute = candidate.figures
                if claim.scope == ANY_ORDER and candidate.simulation is not None and peak <= self.limit:
                    _not_above("the lower bound on compute", claim.amount, int(compute), f"{prover.name} reaches")
                if candidate.scope in (claim.scope, ANY_ORDER) and candidate.bound is not None:
                    proven = max(proven, candidate.bound)
                if proven >= claim.amount:
                    break
        return self._proven(claim, [prover.name], proven, seconds)

    def _by_nodes(self, claim: LowerBound) -> LowerBound:
        """Prove a bound from the graph nodes and the dual prices that the plan stores."""
        graph, played = self.graph, self.played
        named = LowerBound.claimed(graph, claim.amount, self.record.get("details", {}).get("bound"), claim.of)
        if named.source != self.record["bound_source"] or (named.prices is not None and len(named.nodes) > 1):
            raise PlanError(BOUND_OF_ANOTHER)
        refined, _, times = in_ticks(graph, played.link)
        try:
            proof = prove(refined, self.limit, named, times=times, seconds=tuning.PROVING)
        except ValueError as error:
            raise ClaimError("the plan claims a bound that its nodes cannot prove: {error!w}", error=error) from error
        by, seconds = [graph.labels[v] for v in named.nodes], tuning.PROVING if proof.stopped else None
        return self._proven(replace(named, scope=claim.scope), by, played.in_units(int(proof.amount)), seconds)

    def _proven(self, claim: LowerBound, by: list[str], proven: float, seconds: float | None) -> LowerBound:
        """Return the claim, proven or not. Raise ClaimError if it is false or, if strict, the proof ran out of time."""
        if proven >= claim.amount:
            return replace(claim, proven=True)
        if self.strict or seconds is None:
            raise ClaimError(
                "the plan claims a lower bound of {claimed} on {what!w}, but {by!l} proves only {proven}{within}",
                claimed=claim.amount,
                what=claim.of + ("" if claim.scope == ANY_ORDER else f" of schedules of the scope '{claim.scope}'"),
                by=by,
                proven=proven,
                within="" if seconds is None else f" within {seconds:g} s",
            )
        return replace(claim, proven=False)


def _reserved(
    record: Mapping[str, Any], simulation: Simulation, claimed: Reservation, allocator: Allocator, strict: bool
) -> Reservation:
    if claimed.allocator == PEAK:
        return claimed
    if record["limit"] is not None:
        what = f"{allocator.name} reserves" if claimed.bound is None else "it packs into"
        _not_below("to stay within a limit of", record["limit"], claimed.memory, what)
    if claimed.bound is None:
        reservation = allocator.reserve(simulation)
    else:
        reservation = _arena(record.get("offsets"), simulation, claimed, allocator, strict)
    _compare(
        record,
        {name: value for name, value in reservation.record().items() if name != "packed_bound"},
        "the model gives",
    )
    if strict and claimed.bound is not None:
        _not_above(
            "packed_bound", claimed.bound, reservation.bound or 0, f"the bound proven within {tuning.PROVING} s is"
        )
    return reservation


def _arena(
    offsets: Any, simulation: Simulation, claimed: Reservation, allocator: Allocator, strict: bool
) -> Reservation:
    """Check the arena that a plan claims, and return it with a proven bound; without addresses it is packed again."""
    memory, bound, alignment = claimed.memory, claimed.bound or 0, claimed.alignment
    _not_above("packed_bound", bound, memory, "it packs into")
    _not_below("packed_memory", memory, simulation.peak_memory, "no arena for its schedule is below")
    buffers = Buffers.of(simulation)
    live = proven = buffers.rounded(alignment).max_live
    allocation = None if offsets is None else _placed(offsets, buffers, memory, min(bound, live), alignment)
    if allocation is None or bound > live:
        clock = None if allocation is None else Clock(tuning.PROVING if strict else tuning.PROVING_AGAIN)
        again = allocator.reserve(simulation, clock, alignment=alignment)
        _not_above("packed_bound", bound, again.memory, "its schedule packs into")
        proven = max(live, again.bound or 0)
        _not_below("packed_memory", memory, proven, "no arena for its schedule is below")
        if allocation is not None:
            allocation = replace(allocation, bound=min(bound, proven))
        elif memory >= again.memory and again.allocation is not None:
            allocation = replace(again.allocation, size=memory)
        elif strict:
            raise ClaimError(
                "the plan claims to pack into {claimed} bytes, but a search of a few seconds reached only {found} "
                "bytes; `remat allocate --time-limit` searches longer",
                claimed=memory,
                found=again.memory,
            )
    return replace(claimed, bound=min(bound, proven), allocation=allocation)


def _placed(offsets: Any, buffers: Buffers, memory: int, bound: int, alignment: int) -> Allocation:
    """Return the arena with the addresses in the plan. Raise ClaimError if buffers overlap or exceed the arena."""
    if not isinstance(offsets, list) or not all(type(each) is int and 0 <= each <= LARGEST_SUM for each in offsets):
        raise PlanError('"offsets" of the plan is {offsets!j}; expected a list of whole numbers', offsets=offsets)
    try:
        storage = np.arange(len(buffers))
        allocation = Allocation(buffers, storage, np.array(offsets, np.int64), memory, "plan", bound, alignment)
        allocation.verify()
    except AllocationError as error:
        raise ClaimError(
            "the plan claims impossible addresses in packed_memory {memory}: {error!w}", memory=memory, error=error
        ) from error
    return allocation
