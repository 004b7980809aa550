"""A plan: a simulated schedule with its budget and its bound."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from remat_algos.allocate.allocators.registry import get_allocator
from remat_algos.allocate.reservation import PEAK, Reservation
from remat_algos.arguments import check_fields, checked_arguments
from remat_algos.bounds.compute import ONE_PASS
from remat_algos.bounds.integer_program import TOLERANCE
from remat_algos.bounds.memory import least_peak_bound
from remat_algos.context import Stop
from remat_algos.errors import PlanError
from remat_algos.files import write_whole
from remat_algos.ir.arrays import by_fields
from remat_algos.ir.budget import Budget
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.notebook import html
from remat_algos.plan.claims import NEVER_CHECKED, checked
from remat_algos.plan.record import FORMAT, VERSION, bound_source, gap, plain, read_record, shaped
from remat_algos.plan.search_report import KEYS, SearchReport
from remat_algos.schedule.baseline import baseline_peak
from remat_algos.schedule.constraints import Constraints
from remat_algos.schedule.schedule import Schedule
from remat_algos.schedule.simulation import Simulation, check_simulation
from remat_algos.solvers.registry import ANY_ORDER, find_solver
from remat_algos.text.layout import labelled
from remat_algos.text.units import exact_bytes, fine_percent, format_bytes, percent
from remat_algos.text.wording import counted, one_line, printable, quoted, shortened, shortened_path

PEAK_BOUND = "peak_bound"  # in the details, where a solver proved more than `least_peak_bound`
SCHEDULES_OF = {  # scopes of bounds that do not hold for every schedule
    "fixed order": "schedules of the same order",
    "canonical": "canonical schedules",
    "chain": "schedules of a chain",
}
FORMS = ("plan", "frees", "names", "actions")
BOUND = "bound"  # in the details of a plan: the nodes, and the price, that prove its bound
NARROWER = "narrower_bound"  # in the details of a plan: a solver's bound for fewer schedules than those of any order


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """The result of `solve`.

    Parameters
    ----------
    graph : ComputationGraph
        The graph that is run, with its backward part if it has one.
    budget : Budget
        As given to `solve`.
    limit : int or None
        The budget in bytes; None: no limit.
    simulation : Simulation
        The simulated schedule.
    solver : str
        The solver given to `solve`, "auto" by default.
    method : str
        The solver whose schedule this is: the best of "auto", or no_remat where that is no worse.
    options : mapping
        Options of the solver.
    bound : int or None
        Lower bound on the compute of every schedule of the `scope` within the limit; without a limit, or for the budget
        "least", of every schedule within this plan's own peak.
    scope : {"any order", "fixed order", "canonical", "chain"} or None
    seconds : float
        Time that solving took.
    details : mapping
        What the method chose, and what proves the bounds.
    report : SearchReport
        What the search tried, what else it found, and how it ended.
    reservation : Reservation, optional
        Bytes that the allocator reserves, which the limit is for; of an arena with the addresses. By default the peak.
    bound_source : str or None
        Where the bound comes from: "one pass", the compute of running every needed node once; "closure" or "moments"
        (`remat_algos.bounds`), whose nodes are in the details; or a solver.
    constraints : Constraints, optional
        What the schedule keeps to beside the budget. The bound is that without them.
    claimed : tuple of str
        Of a plan that was read from a file the entries that are its word alone: who made it, `seconds` and `details`;
        "bound" where that was not proven here, "packed_memory" and "packed_bound" likewise. Of a plan that `solve` made
        none. They are printed as claims.
    """

    graph: ComputationGraph
    budget: Budget
    limit: int | None
    simulation: Simulation
    solver: str
    method: str
    options: Mapping[str, Any]
    bound: int | None
    scope: str | None
    seconds: float
    details: Mapping[str, Any] = field(default_factory=dict)
    report: SearchReport = field(default_factory=SearchReport)
    reservation: Reservation = None  # type: ignore[assignment]  # the constructor fills it
    bound_source: str | None = ONE_PASS
    constraints: Constraints | None = None
    claimed: tuple[str, ...] = ()

    _repr_html_ = html

    def __repr__(self) -> str:
        return one_line(
            self,
            self.method,
            f"peak {format_bytes(self.peak_memory)}",
            "" if self.limit is None else f"limit {format_bytes(self.limit)}",
            f"overhead {percent(self.overhead, self.graph.needed_compute)}",
            counted(len(self.schedule), "step"),
            f"{counted(int((self.simulation.runs > 1).sum()), 'node')} recomputed",
            "interrupted" if self.report.stop is Stop.INTERRUPTED and not self.claimed else "",
        )

    __reduce__ = by_fields

    def __post_init__(self) -> None:
        check_fields(self)
        check_simulation(self.simulation, self.graph)
        object.__setattr__(self, "constraints", Constraints.of(self.graph, self.constraints))
        if self.reservation is None:
            object.__setattr__(self, "reservation", get_allocator(PEAK).reserve(self.simulation))

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
        """Bytes of peak that no schedule goes below: `least_peak_bound`, or more that a solver proved for this plan."""
        proven = 0 if self.claimed else self.details.get(PEAK_BOUND, 0)
        return max(least_peak_bound(self.graph)[0], proven)

    @property
    def lowest(self) -> bool:
        """Whether the lowest peak was asked for: by the budget "least", or as none limits it."""
        return self.limit is None or self.budget.least

    @property
    def overhead(self) -> int:
        """Compute beyond one pass."""
        return self.simulation.overhead

    @property
    def gap(self) -> float | None:
        """(compute - bound) / bound; None without a bound for schedules of any order."""
        return gap(self.simulation.compute, self.bound, self.scope)

    @property
    def bound_proven(self) -> bool:
        """Whether the lower bound on compute was proven in this process; else it is None, or what a file claims."""
        return self.bound is not None and "bound" not in self.claimed

    def bound_cells(self) -> tuple[str, str]:
        """Two cells of a table: the bound in % beyond one pass, and the distance from the plan to it in % of it."""
        if self.bound is None or self.scope != ANY_ORDER:
            return "", ""
        one_pass = self.graph.needed_compute
        if not self.bound_proven:
            return f"{percent(max(0, self.bound - one_pass), one_pass)} claimed", "not proven"
        above = self.simulation.compute - self.bound
        gap = "optimal" if above <= one_pass * TOLERANCE else fine_percent(above, self.bound)
        return percent(max(0, self.bound - one_pass), one_pass), gap

    @property
    def extra_runs(self) -> int:
        """How often nodes run beyond their first time."""
        runs = self.simulation.runs
        return int(runs.sum() - (runs > 0).sum())

    @property
    def reordered(self) -> bool:
        """Whether the plan lowers the peak by its order alone, without recomputation."""
        return self.extra_runs == 0 and self.peak_memory < baseline_peak(self.graph)

    @property
    def interrupted(self) -> bool:
        """Whether the user stopped the search; this is then the best plan so far."""
        return self.report.stop is Stop.INTERRUPTED

    @property
    def saved(self) -> list[tuple[int, int]]:
        """(value, instance) of all that crosses from the forward part to the backward part."""
        return self.simulation.saved

    @checked_arguments
    def actions(self, names: bool = False) -> Iterator[tuple[str, Any]]:
        """("compute", node) and ("free", value), in the order to perform them; ids, or names on demand."""
        return self.simulation.actions(names)

    @checked_arguments
    def record(self, frees: bool = False) -> dict[str, Any]:
        """The plan as JSON has it (docs/formats.md); with `frees` the values to free after each step."""
        graph, simulation = self.graph, self.simulation
        names = graph.labels.names is not None
        record: dict[str, Any] = {
            "format": FORMAT,
            "version": VERSION,
            "graph_hash": graph.source_hash,
            "differentiate": dict(graph.derivation.options) if graph.derivation is not None else None,
            "solver": self.solver,
            "method": self.method,
            "options": plain(self.options),
            "budget": self.budget.record(),
            "limit": self.limit,
            "schedule": self.schedule.names(graph) if names else self.schedule.order.tolist(),
            "peak_memory": simulation.peak_memory,
            "peak_bound": least_peak_bound(graph)[0],
            "resident_memory": graph.resident_memory,
            "compute": simulation.compute,
            "overhead": simulation.overhead,
            "bound": self.bound,
            "bound_scope": self.scope,
            "bound_source": self.bound_source,
            "gap": self.gap,
            "compute_unit": graph.labels.compute_unit,
            "compute_scale": graph.labels.compute_scale,
            "seconds": round(self.seconds, 6),
            "details": plain({**self.details, **self.report.record()}),
        }
        if self.constraints is not None:
            record["constraints"] = self.constraints.record()
        record |= self.reservation.record()
        if self.reservation.allocation is not None:
            record["offsets"] = self.reservation.allocation.offset.tolist()
        if frees:
            record["frees"] = [[graph.value_name(x) for x in step] for step in simulation.frees()]
        return record

    @checked_arguments
    def to_json(self, frees: bool = False) -> str:
        """The record as text."""
        return json.dumps(self.record(frees), indent=1) + "\n"

    @checked_arguments
    def text(self, form: str = "plan") -> str:
        """The plan as text.

        Parameters
        ----------
        form : {"plan", "frees", "names", "actions"}
            JSON; JSON with the values to free after each step; the nodes in order, one per line; lines `compute X` and
            `free Y`.

        Raises
        ------
        PlanError
            For another form.
        """
        if form in ("plan", "frees"):
            return self.to_json(frees=form == "frees")
        if form not in FORMS:
            raise PlanError(f"the form {quoted(form)} is not known; use {', '.join(FORMS)}")
        names = self.schedule.names(self.graph)
        lines = names if form == "names" else [f"{deed} {name}" for deed, name in self.actions(names=True)]
        return "".join(f"{line}\n" for line in lines)

    @checked_arguments
    def save(self, path: str | os.PathLike[str], form: str = "plan") -> None:
        """Write the plan as text of a form, by default as JSON; whole or not at all."""
        write_whole(Path(path), self.text(form).encode())

    @classmethod
    @checked_arguments
    def load(cls, path: str | os.PathLike[str], graph: ComputationGraph) -> Plan:
        """Read a plan for a graph, before or after its differentiation, and verify it; the errors of `verify`."""
        record = read_record(path)
        details = record.get("details", {})
        try:
            found = checked(graph, shaped(record))
        except PlanError as error:
            raise type(error)(f"{shortened_path(Path(path).name)}: {error}") from error
        return cls(
            graph=found.graph,
            budget=Budget(**(record["budget"] or {})),
            limit=record["limit"],
            simulation=found.simulation,
            reservation=found.reservation,
            solver=record["solver"],
            method=record["method"],
            options=record["options"],
            bound=record["bound"],
            scope=record["bound_scope"],
            bound_source=bound_source(record),
            seconds=record["seconds"],
            details={name: value for name, value in details.items() if name not in KEYS},
            report=SearchReport.claimed(details),
            constraints=Constraints.claimed(found.graph, record.get("constraints")),
            claimed=(*found.doubts, *NEVER_CHECKED),
        )

    def __str__(self) -> str:
        return "\n".join([printable(self._headline()), *labelled(self._rows())])

    def _headline(self) -> str:
        """Whose plan it is."""
        if self.solver == self.method or self.claimed:
            return f"plan: {self.method}"
        if self.solver != "auto":
            return f"plan: {self.method} (no schedule of {self.solver} is better)"
        tried = self.report.tried
        count = f" ({counted(tried, 'solver')} tried)" if tried else ""
        return f"best plan: {self.method}{count}"

    def _rows(self) -> Iterator[tuple[str, str]]:
        """Label and text of each line below the headline."""
        graph, simulation = self.graph, self.simulation
        labels, base = graph.labels, baseline_peak(graph)
        limit = "" if self.limit is None else f", limit {format_bytes(self.limit)}"
        reservation = self.reservation
        allocator = get_allocator(reservation.allocator)
        own_limit = "" if allocator.own_base else limit
        share = percent(self.peak_memory, base)
        yield "peak", f"{exact_bytes(self.peak_memory)}{own_limit}"
        yield "", f"{share} of the peak without rematerialization, {format_bytes(base)}"
        yield "", self._peak_certificate()
        if not allocator.noun and self.limit is not None and self.limit > base:
            yield "budget", "above the peak without rematerialization: nothing needs to be recomputed"
        if allocator.noun:
            found = "; claimed, not found here" if "packed_memory" in self.claimed else ""
            yield allocator.noun, reservation.text(allocator.base(graph), limit if allocator.own_base else "") + found
        if graph.resident_memory:
            together = format_bytes(self.peak_memory + graph.resident_memory)
            yield "resident", f"{format_bytes(graph.resident_memory)}; with the peak {together}"
        yield (
            "compute",
            f"{labels.compute(simulation.compute)}, "
            f"{percent(simulation.overhead, graph.needed_compute)} more than one pass",
        )
        yield "schedule", f"{counted(len(self.schedule), 'step')}; {self._recomputed()}"
        if self.constraints is not None:
            yield "constraints", str(self.constraints)
        searched, ended = self._searched(), self.report.ending()
        if not self.claimed:
            yield from searched
        if self.bound is not None:
            yield "lower bound", self._certificate()
        narrower = self.details.get(NARROWER)
        if isinstance(narrower, Mapping):
            yield from self._narrower(narrower)
        if not self.claimed:
            yield from ended
        else:
            yield from (("not checked", f"{label}: {text}") for label, text in (*searched, *ended))

    def _searched(self) -> Iterator[tuple[str, str]]:
        """What the solvers did and found, which nobody can check in a plan from a file."""
        if self.claimed and self.report.tried is not None:
            yield "tried", counted(self.report.tried, "solver")
        solver = find_solver(self.method)
        if solver is not None:
            yield from solver.describe(self.graph, self.details)
        yield from self.report.rows(self.method, one_pass=self.graph.needed_compute, peak=self.peak_memory)

    def _recomputed(self) -> str:
        """Number of recomputed nodes and of extra runs; or that only the order lowers the peak."""
        nodes = int((self.simulation.runs > 1).sum())
        if not nodes:
            return f"{'reordered, ' if self.reordered else ''}no node recomputed"
        return f"{counted(nodes, 'node')} recomputed ({counted(self.extra_runs, 'extra run')})"

    def _peak_certificate(self) -> str:
        """The lower bound on the peak, and where the lowest peak was asked for, how far above it the plan is."""
        bound, peak = self.peak_bound, self.peak_memory
        if peak <= bound:
            return "no schedule has a lower peak"
        above = f"; this plan is {fine_percent(peak - bound, bound)} above that" if self.lowest else ""
        return f"no schedule goes below {format_bytes(bound)}{above}"

    def _certificate(self) -> str:
        """The lower bound on compute, where it comes from, and how far above it the plan is."""
        bound, one_pass = self.bound or 0, self.graph.needed_compute
        whose = f", {SCHEDULES_OF[self.scope]} only" if self.scope in SCHEDULES_OF else ""
        extra = f", {fine_percent(bound - one_pass, one_pass)} more than one pass" if bound > one_pass else ""
        if not self.bound_proven:
            figure = f"{self.graph.labels.compute(bound)}{extra}{whose}"
            return f"{figure}: claimed by {shortened(self.bound_source)}, not proven here"
        source = f"{shortened(self.bound_source or self.method)} ({self.graph.labels.compute(bound)}{extra}{whose})"
        above = self.simulation.compute - bound
        if above > one_pass * TOLERANCE:
            return f"{source}; this plan is {fine_percent(above, bound)} above it"
        limit = "" if bound <= one_pass else " within its peak" if self.lowest else " within the limit"
        to = ", to 0.0001 % of one pass" if above else ""
        return f"{source}; optimal: no {'such ' if whose else ''}schedule{limit} computes less{to}"

    def _narrower(self, narrower: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """A bound for fewer schedules, where it says more than the bound for all."""
        bound, whose = narrower.get("bound"), SCHEDULES_OF[narrower["scope"]]
        if type(bound) is int and bound > (self.bound or 0):
            above = self.simulation.compute - bound
            excess = "none of them computes less"
            if above > 0:
                excess = f"this plan is {fine_percent(above, bound)} above it"
            whose += " that keep to the constraints" if self.constraints is not None else ""
            excess = f"claimed by {self.method}, not proven here" if self.claimed else excess
            yield "", f"of {whose}: {self.graph.labels.compute(bound)}; {excess}"
