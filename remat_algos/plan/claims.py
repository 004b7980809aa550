"""The claims of a plan compared with its simulation, one by one."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, NoReturn

import numpy as np

from remat_algos.allocate.allocation import Allocation
from remat_algos.allocate.allocators.registry import Allocator, get_allocator
from remat_algos.allocate.buffers import Buffers
from remat_algos.allocate.reservation import PEAK, Reservation
from remat_algos.bounds.certificate import prove
from remat_algos.bounds.compute import CLOSURE, ONE_PASS, PROVEN, ComputeBound
from remat_algos.errors import AllocationError, ClaimError, GraphError, PlanError, ScheduleError
from remat_algos.ir.arrays import LARGEST_SUM
from remat_algos.ir.budget import Budget
from remat_algos.ir.differentiate import differentiate
from remat_algos.ir.graph import ComputationGraph
from remat_algos.plan.record import gap
from remat_algos.schedule.constraints import Constraints
from remat_algos.schedule.schedule import Schedule
from remat_algos.schedule.simulation import Simulation, simulate
from remat_algos.solvers.registry import ANY_ORDER, SCOPES, find_solver
from remat_algos.text.wording import listed, quoted, shortened

PROVING = 30  # seconds for the integer program of a moment bound


def checked(graph: ComputationGraph, record: Mapping[str, Any]) -> tuple[ComputationGraph, Simulation, Reservation]:
    """The graph that the plan runs, its simulation and its reservation, if every claim is true."""
    graph = _same_graph(graph, record)
    simulation = _simulated(graph, record)
    found: dict[str, Any] = {
        "peak_memory": simulation.peak_memory,
        "resident_memory": graph.resident_memory,
        "compute": simulation.compute,
        "overhead": simulation.overhead,
        "compute_scale": graph.labels.compute_scale,
        # tables have no place for a unit, so a graph without one contradicts none
        "compute_unit": graph.labels.compute_unit or record["compute_unit"],
        "gap": gap(simulation.compute, record["bound"], record["bound_scope"]),
    }
    if "frees" in record:
        found["frees"] = [[graph.value_name(x) for x in step] for step in simulation.frees()]
    for name, value in found.items():
        if record[name] != value:
            _deny(f"the plan claims {shortened(name)} {_short(record[name])}; the simulation gives {_short(value)}")
    claimed = Reservation.claimed(record, simulation.peak_memory)
    try:
        allocator = get_allocator(claimed.allocator)
    except AllocationError as error:
        raise PlanError(f'"allocator" of the plan is none: {error}') from error
    _check_limits(graph, record, simulation, allocator)
    return graph, simulation, _reserved(record, simulation, claimed, allocator)


def _same_graph(graph: ComputationGraph, record: Mapping[str, Any]) -> ComputationGraph:
    if graph.source_hash != record["graph_hash"]:
        raise PlanError(
            f"the plan was made for another graph (hash {shortened(record['graph_hash'][:12])}..., this one has "
            f"{shortened(graph.source_hash[:12])}...); give the graph it was made for"
        )
    options = record["differentiate"]
    if graph.derivation is not None:
        if options != dict(graph.derivation.options):
            raise PlanError(
                f"the plan was made for the graph differentiated with {shortened(options)}; give the graph before that"
            )
        return graph
    if options is None:
        return graph
    try:
        return differentiate(graph, **options)
    except (TypeError, GraphError) as error:
        raise PlanError(f'"differentiate" of the plan holds options that do not fit: {_short(options)}') from error


def _simulated(graph: ComputationGraph, record: Mapping[str, Any]) -> Simulation:
    steps = record["schedule"]
    try:
        if all(isinstance(step, str) for step in steps):
            schedule = Schedule.from_names(graph, steps)
        elif all(type(step) is int and abs(step) < 2**31 for step in steps):
            schedule = Schedule(np.array(steps, np.int32))
        else:
            raise PlanError('"schedule" of the plan holds neither names nor ids of nodes')
        return simulate(graph, schedule)
    except ScheduleError as error:
        raise ClaimError(f"the plan's schedule cannot be run: {error}") from error


def _check_limits(
    graph: ComputationGraph, record: Mapping[str, Any], simulation: Simulation, allocator: Allocator
) -> None:
    given, known = record["budget"] or {}, [field.name for field in fields(Budget)]
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise PlanError(f'"budget" of the plan has {listed(unknown, 3)}; it may have {listed(known)}')
    try:
        budget = Budget(**given)
    except (TypeError, ValueError) as error:
        raise PlanError(f'"budget" of the plan is none: {error}') from error
    limit = budget.memory_limit(allocator.base(graph), graph.resident_memory)
    if limit != record["limit"]:
        _deny(f"the plan claims that its budget comes to {shortened(record['limit'])} bytes; it comes to {limit}")
    if limit is not None and simulation.peak_memory > limit:
        _deny(f"the plan claims to stay within {limit} bytes; its peak is {simulation.peak_memory}")
    most = budget.overhead_limit(graph.needed_compute, graph.labels.compute_scale)
    if most is not None and simulation.overhead > most:
        _deny(f"the plan claims to stay within overhead {most}; it has {simulation.overhead}")
    constraints = Constraints.claimed(graph, record.get("constraints"))
    violation = constraints.violation(simulation) if constraints is not None else None
    if violation is not None:
        _deny(f"the plan claims to keep to its constraints; {violation}")
    bound, scope = record["bound"], record["bound_scope"]
    if (bound is None) != (scope is None) or (scope is not None and scope not in SCOPES):
        _deny(f"the plan claims a bound {shortened(bound)} in scope {quoted(scope)}; scopes are {', '.join(SCOPES)}")
    if bound is not None and bound > simulation.compute:
        _deny(f"the plan claims the lower bound {shortened(bound)} on compute; it computes {simulation.compute} itself")
    _check_narrower(record, simulation)
    source = record.get("bound_source")
    if source == ONE_PASS and bound != graph.needed_compute:
        _deny(f"the plan claims that one pass computes {shortened(bound)}; one pass computes {graph.needed_compute}")
    prover = find_solver(source) if isinstance(source, str) else None
    if prover is not None and scope == ANY_ORDER and prover.optimal_in != scope and (bound or 0) > graph.needed_compute:
        _deny(f"the plan claims a bound by {source}, which proves none for schedules of any order")
    if source in PROVEN and bound is not None:
        _check_bound(graph, record, simulation.peak_memory if limit is None or budget.least else limit)


def _check_narrower(record: Mapping[str, Any], simulation: Simulation) -> None:
    """A bound for fewer schedules is the word of its solver; it must be one, and not contradict the plan."""
    narrower = record.get("details", {}).get("narrower_bound")
    if narrower is None:
        return
    bound, scope = (narrower.get("bound"), narrower.get("scope")) if isinstance(narrower, Mapping) else (None, None)
    if type(bound) is not int or type(scope) is not str or scope not in SCOPES or scope == ANY_ORDER:
        raise PlanError(f'"narrower_bound" in the details of the plan is {_short(narrower)}; expected bound and scope')
    if bound > simulation.compute:
        _deny(
            f"the plan claims the lower bound {shortened(bound)} on schedules of its scope; "
            f"it computes {simulation.compute}"
        )


def _check_bound(graph: ComputationGraph, record: Mapping[str, Any], limit: int) -> None:
    """Prove the bound on compute again."""
    claim = ComputeBound.claimed(graph, record["bound"], record.get("details", {}).get("bound"))
    if (claim.price is None) == (record["bound_source"] == CLOSURE):
        raise PlanError('"bound" in the details of the plan goes with another "bound_source"')
    try:
        proven, certain = prove(graph, limit, claim, PROVING)
    except ValueError as error:
        raise ClaimError(f"the plan claims a bound that its nodes cannot prove: {error}") from error
    if proven >= claim.compute:
        return
    names = listed([graph.labels[v] for v in claim.nodes], 4)
    step = f"the first run{'s' if len(claim.nodes) > 1 else ''} of {names}"
    if certain:
        _deny(f"the plan claims the lower bound {claim.compute} on compute, by {step}; that proves {proven}")
    warnings.warn(
        f"the plan claims the lower bound {claim.compute} on compute, by {step}; {PROVING} s proved {proven}",
        UserWarning,
        stacklevel=6,
    )


def _reserved(
    record: Mapping[str, Any], simulation: Simulation, claimed: Reservation, allocator: Allocator
) -> Reservation:
    """What is reserved, if the claims are true."""
    limit = record["limit"]
    if claimed.allocator == PEAK:
        return claimed
    if limit is not None and claimed.memory > limit:
        what = f"{shortened(allocator.name)} reserves" if claimed.bound is None else "it packs into"
        _deny(f"the plan claims to stay within {shortened(limit)} bytes; {what} {claimed.memory}")
    found = allocator.reserve(simulation) if claimed.bound is None else _arena(record, simulation, claimed, allocator)
    for name, value in found.record().items():
        if record.get(name, value) != value:
            _deny(f"the plan claims {shortened(name)} {_short(record[name])}; the model gives {_short(value)}")
    return found


def _arena(
    record: Mapping[str, Any], simulation: Simulation, claimed: Reservation, allocator: Allocator
) -> Reservation:
    """The arena that the plan claims, with its addresses."""
    offsets, memory, bound = record.get("offsets"), claimed.memory, claimed.bound or 0
    if bound > memory:
        _deny(f"the plan claims that nothing packs below {bound} bytes; it packs into {memory} itself")
    if memory < simulation.peak_memory:
        _deny(f"the plan claims packed_memory {memory}; no arena for its schedule is below {simulation.peak_memory}")
    if offsets is None:
        return _packed_again(simulation, claimed, allocator)
    if not isinstance(offsets, list) or not all(type(each) is int and 0 <= each <= LARGEST_SUM for each in offsets):
        raise PlanError(f'"offsets" of the plan is {_short(offsets)}; expected a list of whole numbers')
    buffers = Buffers.of(simulation)
    try:
        storage, alignment = np.arange(len(buffers)), claimed.alignment
        found = Allocation(buffers, storage, np.array(offsets, np.int64), memory, "plan", bound, alignment)
        found.verify()
    except AllocationError as error:
        raise ClaimError(f"the plan claims addresses in packed_memory {memory} that cannot be: {error}") from error
    return replace(claimed, allocation=found)


def _packed_again(simulation: Simulation, claimed: Reservation, allocator: Allocator) -> Reservation:
    """An arena of a file without addresses."""
    found = allocator.reserve(simulation, alignment=claimed.alignment)
    bound = found.bound or 0
    if claimed.memory < bound:
        _deny(f"the plan claims packed_memory {claimed.memory}; no arena for its schedule is below {bound} bytes")
    if (claimed.bound or 0) > found.memory:
        _deny(f"the plan claims packed_bound {claimed.bound}; its schedule packs into {found.memory} bytes")
    if claimed.memory >= found.memory and found.allocation is not None:
        return replace(claimed, allocation=replace(found.allocation, size=claimed.memory))
    warnings.warn(
        f"the plan claims to pack into {claimed.memory} bytes, which was not found here within a few seconds "
        f"({found.memory} was); `remat allocate --time-limit` searches longer",
        UserWarning,
        stacklevel=5,
    )
    return claimed


def _deny(message: str) -> NoReturn:
    raise ClaimError(message)


def _short(value: Any) -> str:
    return shortened(json.dumps(value), 80)
