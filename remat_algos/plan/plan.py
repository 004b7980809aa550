"""A plan: a simulated schedule with the budget for which it was found, and a lower bound on its compute."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from remat_algos.allocate.allocators import PEAK, Reservation, get_allocator
from remat_algos.arguments import check_fields, checked_arguments
from remat_algos.bounds.bound import ANY_ORDER, LowerBound
from remat_algos.bounds.memory import least_peak_bound
from remat_algos.bounds.tuning import TOLERANCE
from remat_algos.context import Stop, until_stopped
from remat_algos.cost.links import Link
from remat_algos.errors import PlanError
from remat_algos.files import write_whole
from remat_algos.ir.arrays import by_fields
from remat_algos.ir.budget import Budget
from remat_algos.ir.graph import ComputationGraph
from remat_algos.plan.record import FORMAT, SHOWN, VERSION, SearchReport, from_file, own_details, plain, shaped
from remat_algos.result import UNIT, Result, entries
from remat_algos.schedule.constraints import Constraints
from remat_algos.schedule.emission import baseline_peak
from remat_algos.schedule.schedule import Schedule, named_copies
from remat_algos.schedule.simulation import Simulation, check_simulation
from remat_algos.schedule.timeline import Timeline, timeline
from remat_algos.solvers.registry import find_solver
from remat_algos.text.amounts import fine_percent, percent
from remat_algos.wording import (
    counted,
    did_you_mean,
    exact_bytes,
    format_bytes,
    one_line,
    quoted,
    shortened,
)

if TYPE_CHECKING:
    from remat_algos.plan.blocks import Blocks
    from remat_algos.plan.policy import Policy

BoundSearch = Callable[[], tuple[LowerBound, Stop]]
"""A function that computes the bound of a plan. It returns the bound and how the computation ended."""
# Maps the scope of a bound that holds only for some schedules to the name of these schedules in messages.
SCHEDULES_OF = {
    "fixed order": "schedules of the same order",
    "canonical": "canonical schedules",
    "chain": "schedules of a chain",
}
ORDER_FORMS = ("plan", "frees", "names", "actions")  # forms that can be loaded
FORMS = (*ORDER_FORMS, "trace", "policy")
SNAPSHOT = "snapshot"  # a binary form
# Attribute names that users guess, and the attributes to use instead.
ELSEWHERE = {
    "compute": "simulation.compute",
    "cost": "simulation.compute, or plan.overhead for the recomputation",
    "peak": "peak_memory",
    "memory": "peak_memory",
    "order": "schedule.order",
    "runs": "simulation.runs",
    "optimal": "gap, which is 0.0 for a plan that is proven optimal",
}


@dataclass(frozen=True, slots=True, eq=False)
class Plan(Result):
    """The result of `solve`.

    Parameters
    ----------
    graph : ComputationGraph
        The graph that is run, with its backward part if it has one.
    budget : Budget
        The argument of `solve`. For "least+1%", two searches run, and this is the second one's budget in bytes.
    limit : int or None
        The budget in bytes, or None if there is no limit.
    simulation : Simulation
        The simulated schedule.
    solver : str
        The argument of `solve`, "auto" by default.
    method : str
        The solver that found the schedule. With "auto" it is the best solver; it is "no_remat" if no plan is better.
    options : mapping
        Options of the solver.
    bound_or_search : LowerBound, callable or None
        A lower bound, or a function that returns a bound and how its computation ended. The function is called when
        `bound` is first read, e.g. by printing, saving or pickling the plan. If the user interrupts it, the bound found
        by then is stored, and Interrupted is raised.
    seconds : float
        Time that solving took.
    details : mapping
        Choices that the method made.
    report : SearchReport
        Solvers tried, other plans found, and how the search ended.
    reservation : Reservation, optional
        The bytes that the allocator reserves, and for an arena the addresses. The limit applies to these bytes. By
        default, they are the peak.
    constraints : Constraints, optional
        Constraints that the schedule satisfies in addition to the budget. The bound ignores them.
    narrower : LowerBound, optional
        The method's bound for a smaller class of schedules. With constraints, the class contains only schedules that
        satisfy them.
    solver_peak_bound : int, optional
        Lower bound on the peak in bytes that the method proved, if it is above `least_peak_bound`.
    loaded : bool
        True if the plan was read from a file. Its solver, `options`, `seconds`, `details`, `report`, `narrower`
        and `solver_peak_bound` are then unverified, and printed as claims.
    link : Link, optional
        The link over which values may be copied to the host and back. With a link, all times assume the rates of
        `link.planned`, and the bound is for the time of every schedule with copies at these rates.
    """

    graph: ComputationGraph
    budget: Budget
    limit: int | None
    simulation: Simulation
    solver: str
    method: str
    options: Mapping[str, Any]
    bound_or_search: LowerBound | BoundSearch | None
    seconds: float
    details: Mapping[str, Any] = field(default_factory=dict)
    report: SearchReport = field(default_factory=SearchReport)
    reservation: Reservation = None  # type: ignore[assignment]  # the constructor fills it
    constraints: Constraints | None = None
    narrower: LowerBound | None = None
    solver_peak_bound: int | None = None
    loaded: bool = False
    link: Link | None = None
    _timeline: Timeline | None = field(default=None, init=False, repr=False)

    def __repr__(self) -> str:
        return one_line(
            self,
            self.method,
            f"peak {format_bytes(self.peak_memory)}",
            "" if self.limit is None else f"limit {format_bytes(self.limit)}",
            f"overhead {percent(self.overhead_in_time, self.graph.needed_compute)}",
            counted(len(self.schedule), "step"),
            f"{counted(int((self.simulation.runs > 1).sum()), 'node')} recomputed",
            f"{counted(self.simulation.stores.size, 'value')} offloaded" if self.simulation.stores.size else "",
            "interrupted" if self.report.stop is Stop.INTERRUPTED and not self.loaded else "",
        )

    def __reduce__(self) -> tuple[Any, ...]:
        _ = self.bound  # functions cannot be pickled
        return by_fields(self)

    def __post_init__(self) -> None:
        check_fields(self)
        check_simulation(self.simulation, self.graph)
        if self.link is None and self.schedule.loads.size:
            raise PlanError("the schedule of the plan loads values from the host; give the plan its link")
        if isinstance(self.bound_or_search, LowerBound):
            self.bound_or_search.record(self.graph)  # raises for another graph's nodes
        if self.constraints is not None:
            object.__setattr__(self, "constraints", Constraints.of(self.graph, self.constraints))
        if self.reservation is None:
            object.__setattr__(self, "reservation", get_allocator(PEAK).reserve(self.simulation))

    if not TYPE_CHECKING:  # hidden from type checkers

        def __getattr__(self, name: str) -> Any:
            known = [each for each in dir(type(self)) if not each.startswith("_")]
            near = "" if name.startswith("_") else did_you_mean(name, known, limit=1)
            near = f"; use plan.{ELSEWHERE[name]}" if name in ELSEWHERE else near
            msg = f"a plan has no attribute {quoted(name)}{near}"
            raise AttributeError(msg)

    @property
    def bound(self) -> LowerBound | None:
        """Lower bound on the compute of every schedule in its `scope` within the limit; computed when first read.

        Without a limit, or for the budget "least", it bounds schedules whose peak is at most the peak of this plan.
        """
        known = self.bound_or_search
        if known is None or isinstance(known, LowerBound):
            return known
        bound, stop = known()
        object.__setattr__(self, "bound_or_search", bound)
        stop.check("interrupted while the lower bound was computed")
        return bound

    @property
    def schedule(self) -> Schedule:
        """The order in which to run the nodes."""
        return self.simulation.schedule

    @property
    def peak_memory(self) -> int:
        """Peak of live bytes; residents are not included."""
        return self.simulation.peak_memory

    @property
    def peak_bound(self) -> int:
        """Lower bound on the peak of every schedule: `least_peak_bound`, or a larger one that a solver proved.

        With a link, the bound counts only the values that a node reads or computes, since all other values may be on
        the host while the node runs.
        """
        if self.link is not None:
            return least_peak_bound(self.graph, copies=True)[0]
        proven = 0 if self.loaded else self.solver_peak_bound or 0
        return max(least_peak_bound(self.graph)[0], proven)

    @property
    def overhead(self) -> int:
        """Compute beyond one pass."""
        return self.simulation.overhead

    @property
    def timeline(self) -> Timeline | None:
        """The times of runs and copies at the rates of `link.planned`, or None without a link."""
        if self.link is not None and self._timeline is None:
            object.__setattr__(self, "_timeline", timeline(self.simulation, self.link, self.link.share))
        return self._timeline

    @property
    def _played(self) -> Timeline:
        """Times of runs and copies. Without a link, the compute of each run is its time."""
        return self.timeline or timeline(self.simulation)

    @property
    def time(self) -> int | float:
        """The end of the last run or copy, in the unit of the costs. Without a link, this is the compute.

        Copies run at the rates of `link.planned`. For other rates, use `timeline(plan.simulation, link).time`.
        """
        played = self.timeline
        return self.simulation.compute if played is None else played.time

    @property
    def overhead_in_time(self) -> int | float:
        """Time beyond one pass. Without a link, this is `overhead`."""
        played = self.timeline
        return self.overhead if played is None else played.overhead

    @property
    def gap(self) -> float | None:
        """(time - bound) / bound, or None if the bound does not apply to all orders of the nodes."""
        return None if self.bound is None else self.bound.gap(self.time)

    @property
    def interrupted(self) -> bool:
        """True if the user stopped the search, so that better plans may exist."""
        return self.report.stop is Stop.INTERRUPTED

    @property
    def saved(self) -> list[tuple[int, int]]:
        """(value, instance) pairs that cross from the forward part to the backward part."""
        return self.simulation.saved

    @checked_arguments
    def actions(self, names: bool = False) -> Iterator[tuple[str, Any]]:
        """Yield pairs such as ("compute", node), ("free", value), ("store", value) and ("load", value), in order."""
        return self.simulation.actions(names)

    @checked_arguments
    def policy(self, blocks: Blocks | str | Sequence[str] | None = None, semantics: str = "graph") -> Policy:
        """Return the decisions to keep, recompute or offload, with their bytes and costs, for use in other frameworks.

        Parameters
        ----------
        blocks : Blocks, str or sequence of str, optional
            The blocks of the model, or their module paths, "layers.*". The policy has one decision per block and is as
            near as possible to the plan: it saves the outputs that the plan keeps. Without blocks, the policy has a
            decision for each tensor that crosses from the forward to the backward part, or is recomputed or offloaded.
        semantics : {"eager", "graph"}
            Which operators of a block are recomputed: all that are not saved, or only those that gradients need.

        Raises
        ------
        PlanError
            If no block matches, or blocks overlap.

        See Also
        --------
        remat_algos.plan_policy : The cheapest policy found within a budget.
        """
        from remat_algos.plan.blocks import Blocks
        from remat_algos.plan.policy import Policy, nearest

        if blocks is None:
            return Policy(self.simulation, link=self.link)
        cut = blocks if isinstance(blocks, Blocks) else Blocks.of(self.graph, blocks)
        decided = nearest(self.simulation, cut, semantics)
        return Policy.of(self.graph, cut, *decided, semantics=semantics, link=self.link)

    @checked_arguments
    def record(self, frees: bool = False) -> dict[str, Any]:
        """Return the JSON record (docs/formats.md); `frees` adds the values to free after each step."""
        graph, simulation = self.graph, self.simulation
        names, bound = graph.labels.names is not None, self.bound
        details = dict(self.details)
        if bound is not None and bound.nodes:
            details["bound"] = bound.record(graph)
        if self.solver_peak_bound is not None:
            details["peak_bound"] = self.solver_peak_bound
        if self.narrower is not None:
            details["narrower_bound"] = {"bound": self.narrower.amount, "scope": self.narrower.scope}
        record: dict[str, Any] = {
            "format": FORMAT,
            "version": VERSION,
            "graph_hash": graph.source_hash,
            "differentiate": dict(graph.derivation.options) if graph.derivation is not None else None,
            **entries(self, "solver method"),
            "options": plain(self.options),
            **entries(self, "budget limit"),
            "schedule": self.schedule.names(graph) if names else self.schedule.order.tolist(),
            "peak_memory": simulation.peak_memory,
            "peak_bound": least_peak_bound(graph, copies=self.link is not None)[0],
            **entries(self, "graph.resident_memory simulation.compute overhead"),
            "bound": None if bound is None else bound.amount,
            "bound_scope": None if bound is None else bound.scope,
            "bound_source": None if bound is None else bound.source,
            **entries(self, f"gap {UNIT}"),
            "seconds": round(self.seconds, 6),
            "details": plain({**details, **self.report.record()}),
        }
        if self.link is not None:
            record["link"] = self.link.record()
            copies: Sequence[Sequence[Sequence[Any]]] = named_copies(graph, self.schedule)
            names_of = ("loads", "lingering", "stores")
            record |= {name: [list(row) for row in rows] for name, rows in zip(names_of, copies, strict=True)}
            record |= entries(self, "time overhead_in_time simulation.host_peak")
        if self.constraints is not None:
            record["constraints"] = self.constraints.record()
        record |= self.reservation.record()
        if self.reservation.allocation is not None:
            record["offsets"] = self.reservation.allocation.offset.tolist()
        if frees:
            record["frees"] = [[graph.value_name(x) for x in step] for step in simulation.frees()]
        return record

    @checked_arguments
    def figures(self, names: Sequence[str] = SHOWN) -> dict[str, Any]:
        """Return the entries of the record with these names, which may include "bound_proven"; omit missing entries."""
        record = self.record() | {"bound_proven": self.bound is not None and self.bound.proven}
        return {name: record[name] for name in names if name in record}

    @checked_arguments
    def text(self, form: str = "plan") -> str:
        """Return the plan as text.

        Parameters
        ----------
        form : {"plan", "frees", "names", "actions", "trace", "policy"}
            "plan": JSON. "frees": JSON with the values to free after each step. "names": names of the nodes in order,
            one per line. "actions": lines `compute X` and `free Y`, and `store Y` and `load Y` if values are copied.
            "trace": runs, copies and bytes over time as JSON, for Perfetto and `chrome://tracing`. "policy":
            `policy()` as JSON.

        Raises
        ------
        PlanError
            For another form, or for "names" of a plan with loads, which this form cannot express.
        """
        if form in ("plan", "frees"):
            return json.dumps(self.record(frees=form == "frees"), indent=1) + "\n"
        if check_form(form) == SNAPSHOT:
            raise PlanError('a snapshot is a pickle, not text; use save("FILE.pickle", "snapshot")')
        if form == "names" and self.schedule.loads.size:
            raise PlanError('the form "names" lists only nodes, but this plan also loads values; use "actions"')
        if form == "policy":
            return json.dumps(self.policy().record(), indent=1) + "\n"
        if form == "trace":
            from remat_algos.schedule.views import trace_events

            return json.dumps(trace_events(self._played)) + "\n"
        names = self.schedule.names(self.graph)
        lines = names if form == "names" else [f"{deed} {name}" for deed, name in self.actions(names=True)]
        return "".join(f"{line}\n" for line in lines)

    @checked_arguments
    def save(self, path: str | os.PathLike[str], form: str = "plan") -> None:
        """Write the `text` of a form, by default JSON, or a memory snapshot; a failed write leaves no partial file.

        The form "snapshot" is the pickle that pytorch.org/memory_viz and `torch.cuda._memory_viz` read. Its addresses
        are those of the plan's arena. Without an arena, they come from `ra.allocate.pack` without its exact search.
        """
        if form == SNAPSHOT:
            from remat_algos.allocate.snapshot import snapshot_bytes

            write_whole(Path(path), snapshot_bytes(self._played, self.reservation.allocation))
        else:
            write_whole(Path(path), self.text(form).encode())

    @classmethod
    @checked_arguments
    def load(cls, path: str | os.PathLike[str], graph: ComputationGraph) -> Plan:
        """Read a plan for a graph, differentiated or not, and verify it; raises the errors of `verify`."""
        return read_plan(path, graph)

    def heading(self) -> Iterator[str]:
        """Yield the headline: solver and method."""
        tried = f" ({counted(self.report.tried, 'solver')} tried)" if self.report.tried else ""
        if self.solver == self.method or self.loaded:
            yield f"plan: {self.method}"
        elif self.solver != "auto":
            yield f"plan: {self.method} (no schedule of {self.solver} is better)"
        else:
            yield f"best plan: {self.method}{tried}"

    def rows(self) -> Iterator[tuple[str, str]]:
        """Yield the label and the text of each line below the headline."""
        graph, simulation = self.graph, self.simulation
        labels, base = graph.labels, baseline_peak(graph)
        limit = "" if self.limit is None else f", limit {format_bytes(self.limit)}"
        reservation = self.reservation
        allocator = get_allocator(reservation.allocator)
        own_limit = "" if allocator.own_base else limit
        share = percent(self.peak_memory, base)
        yield "peak", f"{exact_bytes(self.peak_memory)}{own_limit}"
        yield "", f"{share} of the peak without rematerialization, {format_bytes(base)}"
        yield "", _peak_certificate(self)
        if not allocator.noun and self.limit is not None and self.limit > base:
            yield "budget", "above the peak without rematerialization: nothing needs to be recomputed"
        if allocator.noun:
            claimed = reservation.bound is not None and reservation.allocation is None
            text = reservation.text(allocator.base(graph), limit if allocator.own_base else "")
            yield allocator.noun, f"{text}{'; claimed, not verified' if claimed else ''}"
        if graph.resident_memory:
            together = format_bytes(self.peak_memory + graph.resident_memory)
            yield "resident", f"{format_bytes(graph.resident_memory)}; with the peak {together}"
        yield (
            "compute",
            f"{labels.compute(simulation.compute)}, "
            f"{percent(simulation.overhead, graph.needed_compute)} more than one pass",
        )
        if self.timeline is not None:
            yield from self.timeline.rows()
        yield "schedule", f"{counted(len(self.schedule), 'step')}; {_recomputed(self)}"
        if self.constraints is not None:
            yield "constraints", str(self.constraints)
        searched, ended = _searched(self), self.report.ending()
        if not self.loaded:
            yield from searched
        if self.bound is not None:
            yield "lower bound", _certificate(self, self.bound)
        if self.narrower is not None:
            yield from _narrower(self, self.narrower)
        if not self.loaded:
            yield from ended
        else:
            yield from (("not checked", f"{label}: {text}") for label, text in (*searched, *ended))


def check_form(form: str) -> str:
    """Return `form` if plans can be saved in it. Raise PlanError if it is unknown."""
    if form not in (*FORMS, SNAPSHOT):
        raise PlanError("unknown form {form!r}; use {known!l}", form=form, known=(*FORMS, SNAPSHOT))
    return form


def read_plan(path: str | os.PathLike[str], graph: ComputationGraph, strict: bool = False) -> Plan:
    """Read a plan from a file and verify it; `strict` as in `checked`."""
    return from_file(path, lambda record: plan_of(record, graph, strict))


def plan_of(record: Mapping[str, Any], graph: ComputationGraph, strict: bool = False) -> Plan:
    """Verify the record of a plan, and return the plan; `strict` as in `checked`."""
    from remat_algos.plan.check_claims import checked

    record = shaped(record)
    result = checked(graph, record, strict)
    details = record.get("details", {})
    return Plan(
        graph=result.graph,
        budget=Budget(**(record["budget"] or {})),
        limit=record["limit"],
        simulation=result.simulation,
        solver=record["solver"],
        method=record["method"],
        options=record["options"],
        bound_or_search=result.bound,
        seconds=record["seconds"],
        details=own_details(details),
        report=SearchReport.claimed(details),
        reservation=result.reservation,
        constraints=Constraints.claimed(result.graph, record.get("constraints")),
        narrower=result.narrower,
        solver_peak_bound=details.get("peak_bound"),
        loaded=True,
        link=result.link,
    )


def bounded(plan: Plan) -> Plan:
    """Compute the bound of a plan, and return the plan. After an interrupt, it has the bound reached by then."""
    with until_stopped() as ending:
        _ = plan.bound
    return plan if ending.stop.complete else replace(plan, report=replace(plan.report, stop=ending.stop))


def _share_cell(plan: Plan) -> str:
    """Return the peak (for some allocators the reserved bytes) as a percentage of the same figure of the baseline."""
    allocator = get_allocator(plan.reservation.allocator)
    size = plan.reservation.memory if allocator.own_base else plan.peak_memory
    return percent(size, max(1, allocator.base(plan.graph)))


def _bound_cell(plan: Plan) -> str:
    bound, one_pass = plan.bound, plan.graph.needed_compute
    if bound is None or bound.scope != ANY_ORDER:
        return ""
    return f"{percent(max(0, bound.amount - one_pass), one_pass)}{'' if bound.proven else ' claimed'}"


def _gap_cell(plan: Plan) -> str:
    bound = plan.bound
    if bound is None or bound.scope != ANY_ORDER:
        return ""
    above = plan.time - bound.amount
    optimal = above <= plan.graph.needed_compute * TOLERANCE
    return "not proven" if not bound.proven else "optimal" if optimal else fine_percent(above, bound.amount)


CELLS: Mapping[str, Callable[[Plan], str]] = {
    "peak": lambda plan: format_bytes(plan.peak_memory),
    "reserved": lambda plan: format_bytes(plan.reservation.memory),
    "of base": _share_cell,
    "residents": lambda plan: _resident_cell(plan, 0),
    "with residents": lambda plan: _resident_cell(plan, plan.peak_memory),
    "overhead": lambda plan: percent(plan.overhead_in_time, max(1, plan.graph.needed_compute)),
    "bound": _bound_cell,
    "gap": _gap_cell,
    "extra runs": lambda plan: str(plan.simulation.extra_runs),
    "time (s)": lambda plan: f"{plan.seconds:.2f}",
}


def cells(plan: Plan, columns: Iterable[str]) -> tuple[str, ...]:
    return tuple(CELLS[name](plan) for name in columns)


def conditions(residents: int, constraints: Constraints | None, link: Link | None) -> Iterator[str]:
    """Yield the lines above a table of plans: residents, constraints and link."""
    if residents:
        yield f"residents: {format_bytes(residents)}"
    if constraints is not None:
        yield f"constraints: {constraints}"
    if link is not None:
        yield f"overheads in time, with copies over {link}"


def _resident_cell(plan: Plan, peak: int) -> str:
    resident = plan.graph.resident_memory
    return format_bytes(peak + resident) if resident else ""


def reordered(plan: Plan) -> bool:
    """Return True if the plan lowers the peak only by its order, without recomputation."""
    return (
        plan.simulation.extra_runs == 0
        and not plan.schedule.loads.size
        and plan.peak_memory < baseline_peak(plan.graph)
    )


def _lowest(plan: Plan) -> bool:
    """Return True if the peak is minimized: for the budget "least", or without a limit."""
    return plan.limit is None or plan.budget.least


def _searched(plan: Plan) -> Iterator[tuple[str, str]]:
    if plan.loaded and plan.report.tried is not None:
        yield "tried", counted(plan.report.tried, "solver")
    solver = find_solver(plan.method)
    if solver is not None:
        yield from solver.describe(plan.graph, plan.details)
    yield from plan.report.rows(plan.method, one_pass=plan.graph.needed_compute, peak=plan.peak_memory)


def _recomputed(plan: Plan) -> str:
    nodes = int((plan.simulation.runs > 1).sum())
    if not nodes:
        return f"{'reordered, ' if reordered(plan) else ''}no node recomputed"
    return f"{counted(nodes, 'node')} recomputed ({counted(plan.simulation.extra_runs, 'extra run')})"


def _peak_certificate(plan: Plan) -> str:
    bound, peak = plan.peak_bound, plan.peak_memory
    if peak <= bound:
        return "no schedule has a lower peak"
    above = f"; this plan is {fine_percent(peak - bound, bound)} above that" if _lowest(plan) else ""
    return f"no schedule goes below {format_bytes(bound)}{above}"


def _certificate(plan: Plan, bound: LowerBound) -> str:
    compute, one_pass = bound.amount, plan.graph.needed_compute
    whose = f", {SCHEDULES_OF[bound.scope]} only" if bound.scope in SCHEDULES_OF else ""
    extra = f", {fine_percent(compute - one_pass, one_pass)} more than one pass" if compute > one_pass else ""
    if not bound.proven:
        figure = f"{plan.graph.labels.compute(compute)}{extra}{whose}"
        return f"{figure}: claimed by {shortened(bound.source)}, not proven here"
    source = f"{shortened(bound.source)} ({plan.graph.labels.compute(compute)}{extra}{whose})"
    above = plan.time - compute
    if above > one_pass * TOLERANCE:
        return f"{source}; this plan is {fine_percent(above, compute)} above it"
    limit = "" if compute <= one_pass else " within its peak" if _lowest(plan) else " within the limit"
    to = ", to 0.0001 % of one pass" if above else ""
    verb = "computes less" if plan.link is None else "takes less time"
    if plan.link is not None and plan.link.share < 1 and compute > one_pass:
        to = f" at {100 * plan.link.share:g} % of the rate{to}"
    return f"{source}; optimal: no {'such ' if whose else ''}schedule{limit} {verb}{to}"


def _narrower(plan: Plan, narrower: LowerBound) -> Iterator[tuple[str, str]]:
    """Yield the row about the bound for a narrower class of schedules, if it exceeds the bound for all schedules."""
    bound, whose = narrower.amount, SCHEDULES_OF[narrower.scope]
    if bound <= (0 if plan.bound is None else plan.bound.amount):
        return
    above = plan.simulation.compute - bound
    excess = f"this plan is {fine_percent(above, bound)} above it" if above > 0 else "none of them computes less"
    whose += " that satisfy the constraints" if plan.constraints is not None else ""
    excess = excess if narrower.proven else f"claimed by {plan.method}, not proven here"
    yield "", f"of {whose}: {plan.graph.labels.compute(bound)}; {excess}"
