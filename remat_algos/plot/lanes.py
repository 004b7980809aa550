"""Lanes of a schedule: the record of its steps and lifetimes from which all pictures and pages are drawn."""

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from remat_algos.arguments import check_kind
from remat_algos.ir.arrays import Int32, Int64
from remat_algos.ir.graph import ComputationGraph
from remat_algos.plan.plan import Plan
from remat_algos.plot.characters import bins
from remat_algos.plot.colours import ROLES, Style
from remat_algos.schedule.emission import baseline, baseline_peak
from remat_algos.schedule.simulation import Simulation
from remat_algos.schedule.timeline import Timeline
from remat_algos.text.amounts import percent
from remat_algos.wording import counted, format_bytes

Subject = Plan | Simulation | ComputationGraph


class Lives(NamedTuple):
    """Lifetimes of instances, one array per field: live in steps [begin, end). Instances made by loads have role 3."""

    value: Int32
    node: Int32
    begin: Int64
    end: Int64
    role: Int64


@dataclass(frozen=True, slots=True, eq=False)
class Lanes:
    """Node and bytes of each step of a schedule, lifetimes of its values, and the timeline of a plan with a link."""

    simulation: Simulation
    limit: int | None = None
    timeline: Timeline | None = None

    @classmethod
    def of(cls, subject: Subject, limit: int | None = None) -> "Lanes":
        """Return the lanes of a plan, of a simulation, or of a graph run without rematerialization."""
        if isinstance(subject, Plan):
            lanes = cls(subject.simulation, subject.limit, subject.timeline)
        elif isinstance(subject, ComputationGraph):
            lanes = cls(baseline(subject))
        else:
            check_kind(subject, Plan, "subject", Simulation, ComputationGraph)
            lanes = cls(subject)
        return lanes if limit is None else replace(lanes, limit=limit)

    @property
    def graph(self) -> ComputationGraph:
        return self.simulation.graph

    @property
    def order(self) -> list[int]:
        return self.simulation.schedule.order.tolist()

    @property
    def names(self) -> list[str]:
        return self.simulation.schedule.names(self.graph)

    def name(self, step: int) -> str:
        return self.graph.labels[int(self.simulation.schedule.order[step])]

    @property
    def trace(self) -> Int64:
        return self.simulation.memory_trace

    @property
    def bands(self) -> list[tuple[Style, Int64]]:
        """The bytes of each role at each step, from the bottom of the stack; roles without bytes are omitted."""
        traces = self.simulation.trace_by_role()
        return [(style, traces[role]) for role, style in ROLES.items() if role in traces and traces[role].any()]

    @property
    def lives(self) -> Lives:
        lives, role = self.simulation.lifetimes, np.minimum(self.simulation.instance_role, 3)
        return Lives(lives.value, self.graph.producer[lives.value], lives.made_at, lives.end, role)

    def columns(self, limit: int) -> tuple[Int64, Int64]:
        """Divide the steps into at most `limit` ranges; return their boundaries, and the peak step of each range."""
        trace = self.trace
        edges = bins(trace.size, limit) if trace.size else np.zeros(1, np.int64)
        shown = [begin + int(trace[begin:end].argmax()) for begin, end in pairwise(edges.tolist())]
        return edges, np.array(shown, np.int64)

    @property
    def size(self) -> str:
        """Size of graph and schedule, such as "8 nodes in 10 steps, 2 extra runs", and the number of loads, if any."""
        schedule, steps = self.simulation.schedule, len(self.simulation.schedule)
        reruns = steps - int(schedule.first_run.sum())
        size = f"{counted(self.graph.n_nodes, 'node')} in {counted(steps, 'step')}"
        size += f", {counted(reruns, 'extra run') if reruns else 'no extra runs'}"
        return f"{size}, {counted(len(schedule.loads), 'load')}" if schedule.loads.size else size

    @property
    def title(self) -> list[str]:
        """Two lines: peak and overhead of the schedule, then its size."""
        peak, base, overhead = self.simulation.peak_memory, baseline_peak(self.graph), self.simulation.overhead
        message = f"peak {format_bytes(peak)}"
        message += f" instead of {format_bytes(base)}" if base != peak else ""
        if overhead:
            message += ", as without recomputation," if peak == base else ""
            message += f" for {percent(overhead, self.graph.needed_compute)} more compute"
        budget = ""
        if self.limit is not None:
            budget = f"; {'budget' if peak <= self.limit else 'above the budget of'} {format_bytes(self.limit)}"
        return [message, self.size + budget]
