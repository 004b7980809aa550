"""A schedule that has been judged, with what was asked and what is known of it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from remat_algos.errors import PlanError
from remat_algos.ir.arrays import by_fields
from remat_algos.ir.budget import Budget
from remat_algos.ir.files.write import write_whole
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.notebook import html
from remat_algos.ir.units import exact_bytes, format_bytes
from remat_algos.ir.wording import counted, one_line, percent, shortened
from remat_algos.plan.baseline import baseline_peak, share_base
from remat_algos.plan.packed import Packed
from remat_algos.plan.record import FORMAT, VERSION, gap, plain, read_record, shaped
from remat_algos.plan.reserved import Reserved
from remat_algos.plan.verify import checked
from remat_algos.schedule.schedule import Schedule
from remat_algos.schedule.simulation import Simulation, check_simulation

FORMS = ("plan", "frees", "names", "actions")
INTERRUPTED = "interrupted"  # in the details of a plan whose search the user stopped


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """What `solve` gives back.

    Parameters
    ----------
    graph : ComputationGraph
        The graph that is run, with its backward part if it has one.
    budget : Budget
        As asked.
    limit : int or None
        Bytes that the budget comes to; None: no bound.
    simulation : Simulation
        What the judge found.
    solver : str
        Who was asked.
    method : str
        Whose schedule it is: of "auto", or where no rematerialization was better.
    options : mapping
        Options of the solver.
    bound : int or None
        No schedule of the `scope` within the limit has less compute.
    scope : {"any order", "fixed order", "canonical", "chain"} or None
    seconds : float
        Time that solving took.
    details : mapping
        What the method chose.
    packed : Packed, optional
        The peak as it packs, where that was asked for; then the limit holds for it too.
    reserved : Reserved, optional
        What an allocator reserves, where that was asked for; then the limit holds for it too.
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
    packed: Packed | None = None
    reserved: Reserved | None = None

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
            "interrupted" if self.interrupted else "",
        )

    __reduce__ = by_fields

    def __post_init__(self) -> None:
        check_simulation(self.simulation, self.graph)
        if not isinstance(self.budget, Budget):
            raise TypeError(f"budget is a {type(self.budget).__name__}; give a Budget")

    @property
    def held(self) -> Packed | Reserved | None:
        """What the limit holds for beside the judged peak: the arena, or what an allocator reserves."""
        return self.packed if self.packed is not None else self.reserved

    @property
    def schedule(self) -> Schedule:
        """The order in which to run the nodes."""
        return self.simulation.schedule

    @property
    def peak_memory(self) -> int:
        """Bytes of the judged peak; residents are apart."""
        return self.simulation.peak_memory

    @property
    def overhead(self) -> int:
        """Compute beyond one pass."""
        return self.simulation.overhead

    @property
    def gap(self) -> float | None:
        """How far the compute may be from the optimum, as a share of the bound; None without a bound for any order."""
        return gap(self.simulation.compute, self.bound, self.scope)

    @property
    def interrupted(self) -> bool:
        """Whether the search was stopped, so that this is the best that it had by then."""
        return bool(self.details.get(INTERRUPTED, False))

    def actions(self, names: bool = False) -> Iterator[tuple[str, Any]]:
        """("compute", node) and ("free", value), in the order to perform them; ids, or names on demand."""
        return self.simulation.actions(names)

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
            "resident_memory": graph.resident_memory,
            "compute": simulation.compute,
            "overhead": simulation.overhead,
            "bound": self.bound,
            "bound_scope": self.scope,
            "gap": self.gap,
            "compute_unit": graph.labels.compute_unit,
            "compute_scale": graph.labels.compute_scale,
            "seconds": round(self.seconds, 6),
            "details": plain(self.details),
        }
        if self.held is not None:
            record |= self.held.record()
        if frees:
            record["frees"] = [[graph.value_name(x) for x in step] for step in simulation.frees()]
        return record

    def to_json(self, frees: bool = False) -> str:
        """The record as text."""
        return json.dumps(self.record(frees), indent=1) + "\n"

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
            raise PlanError(f"the form {shortened(repr(form))} is not known; use {', '.join(FORMS)}")
        names = self.schedule.names(self.graph)
        lines = names if form == "names" else [f"{deed} {name}" for deed, name in self.actions(names=True)]
        return "".join(f"{line}\n" for line in lines)

    def save(self, path: str | os.PathLike[str], form: str = "plan") -> None:
        """Write the plan as text of a form, by default as JSON; whole or not at all."""
        write_whole(Path(path), self.text(form).encode())

    @classmethod
    def load(cls, path: str | os.PathLike[str], graph: ComputationGraph) -> Plan:
        """Read a plan for a graph, before or after its differentiation, and verify it; the errors of `verify`."""
        record = read_record(path)
        try:
            graph, simulation = checked(graph, shaped(record))
        except PlanError as error:
            raise type(error)(f"{Path(path).name}: {error}") from error
        return cls(
            graph=graph,
            budget=Budget(**(record["budget"] or {})),
            limit=record["limit"],
            simulation=simulation,
            solver=record["solver"],
            method=record["method"],
            options=record["options"],
            bound=record["bound"],
            scope=record["bound_scope"],
            seconds=record["seconds"],
            details=record.get("details", {}),
            packed=Packed.claimed(record),
            reserved=Reserved.claimed(record),
        )

    def __str__(self) -> str:
        graph, simulation = self.graph, self.simulation
        labels, base = graph.labels, baseline_peak(graph)
        runs = simulation.runs
        again = int((runs > 1).sum())
        limit = "" if self.limit is None else f", limit {format_bytes(self.limit)}"
        lines = [
            f"plan by {self.method}" + (f" (asked: {self.solver})" if self.solver != self.method else ""),
            f"peak       {exact_bytes(self.peak_memory)}, {_share(self.peak_memory, base)} of the peak without "
            f"rematerialization{limit if self.reserved is None else ''}",
        ]
        if self.packed is not None:
            lines.append(f"packed     {self.packed.said(self.peak_memory)}")
        if self.reserved is not None:
            whole = share_base(graph, self.reserved.allocator)
            lines.append(f"reserved   {self.reserved.said(whole, limit)}")
        if graph.resident_memory:
            together = self.peak_memory + graph.resident_memory
            lines.append(f"resident   {exact_bytes(graph.resident_memory)}; together {exact_bytes(together)}")
        lines.append(
            f"compute    {labels.compute(simulation.compute)}, "
            f"{_share(simulation.overhead, graph.needed_compute)} over one pass"
        )
        more_runs = int(runs.sum() - (runs > 0).sum())
        lines.append(
            f"schedule   {counted(len(self.schedule), 'step')}; {counted(again, 'node')} run again, "
            f"{counted(more_runs, 'more run')}"
        )
        if "formula_peak" in self.details:
            lines.append(self._by_formulas())
        if self.gap is not None:
            optimal = "no schedule computes less" if self.gap == 0 else f"at most {_percent(self.gap)} from the optimum"
            lines.append(f"optimality {optimal} (any order)")
        if self.details.get("given_up"):
            lines.append(f"given up   {given_up(self.details['given_up'])}")
        if self.interrupted:
            lines.append("stopped    interrupted; this is the best plan so far")
        elif not self.details.get("complete", True):
            lines.append("stopped    at the time limit; this is the best plan so far")
        return "\n".join(lines)

    def _by_formulas(self) -> str:
        """What the solver planned with, which is not what is run; and where the run must differ."""
        peak, overhead = self.details["formula_peak"], self.details["formula_overhead"]
        said = f"formulas   peak {format_bytes(peak)}, overhead {self.graph.labels.compute(overhead)}, on paper"
        besides = self.details.get("kept_besides", ())
        return f"{said}; {counted(len(besides), 'more node')} kept, which may not run again" if besides else said


def given_up(count: int) -> str:
    """What a solver did not finish, and why that may be."""
    return f"{counted(count, 'schedule')}, longer than length_limit allows or of too wide a decomposition"


def _share(part: int, whole: int) -> str:
    return _percent(part / whole) if whole else "0 %"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
