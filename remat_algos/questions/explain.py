"""Explain why values are kept, recomputed or offloaded: bytes, readers, and the effect of the opposite decision."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from remat_algos.arguments import checked_arguments
from remat_algos.errors import ArgumentError, about
from remat_algos.ir.arrays import Int64, brief
from remat_algos.ir.graph import ComputationGraph, derived, remembered, runs_once
from remat_algos.ir.parts import KEEP
from remat_algos.plan.plan import Plan
from remat_algos.questions.what_if import FlippedDecision, flip_decision, idle_gap, reads_of
from remat_algos.result import UNIT, Result, entries
from remat_algos.schedule.simulation import Simulation
from remat_algos.schedule.timeline import Timeline
from remat_algos.schedule.views import LiveValue, live_at, live_set
from remat_algos.solvers.registry import find_solver
from remat_algos.text.amounts import percent
from remat_algos.wording import counted, format_bytes, listed, shortened

VALUES_NAMED = 4
AT_PEAK = 3
MAX_COUNTED = 1000
ROLE_NOTES = {"kept": " (kept)", "recomputed": " (recomputed)"}


class Offload(NamedTuple):
    """The steps of a value's store and loads, and the time that compute waits for them.

    `loads` contains two steps per load: the step before which the load starts, and the last step at which the loaded
    copy is live. `waits` is None without a link.
    """

    value: int
    stored_at: int
    freed_after: int
    loads: list[tuple[int, int]]
    waits: int | float | None

    def record(self, graph: ComputationGraph) -> dict[str, Any]:
        return self._asdict() | {"value": graph.value_name(self.value)}

    def text(self, simulation: Simulation) -> str:
        """Return the bytes, the waits, the cost of recomputing the value instead, and the steps, as text."""
        graph = simulation.graph
        node = int(graph.producer[self.value])
        waits = "" if self.waits is None else ": hidden" if not self.waits else f": compute waits {self._wait(graph)}"
        name = "" if len(graph.values(node)) == 1 else f"{shortened(graph.value_name(self.value))} is "
        back = listed([f"{begin} (live to {end})" for begin, end in self.loads], VALUES_NAMED)
        size = format_bytes(int(graph.memory[self.value]))
        return (
            f"{name}offloaded, {size} each way{waits}; {self._price(simulation)}; "
            f"stored after step {self.stored_at}, freed after {self.freed_after}, loaded before {back}"
        )

    def _price(self, simulation: Simulation) -> str:
        """Return the clause with the cost of recomputing the value instead of loading it."""
        graph, node = simulation.graph, int(simulation.graph.producer[self.value])
        missing = set[int]().union(*(_missing(simulation, node, step) for step, _ in self.loads))
        nodes = [node, *(int(graph.producer[x]) for x in missing - set(simulation.stores.tolist()))]
        if runs_once(graph)[nodes].any():
            return "it cannot be recomputed"
        cost = graph.labels.compute(int(graph.compute[node]) * len(self.loads))
        return f"recomputing it costs {cost}{', and more for what it reads and is not live' if missing else ''}"

    def _wait(self, graph: ComputationGraph) -> str:
        return f"{graph.labels.compute(self.waits or 0)} for it"


def _missing(simulation: Simulation, node: int, step: int) -> set[int]:
    graph, nodes, missing = simulation.graph, [node], set[int]()
    live, stores = {x for x, _ in live_at(simulation, step)}, set(simulation.stores.tolist())
    while nodes:
        needed = set(graph.reads(nodes.pop())) - live - missing
        missing |= needed
        nodes += [int(graph.producer[x]) for x in needed - stores]
    return missing


def offload_of(simulation: Simulation, value: int, played: Timeline | None) -> Offload:
    """Return the offload of a value that the schedule stores and loads."""
    lives, is_load = simulation.lifetimes, simulation.is_load
    instances = np.flatnonzero(lives.value == value)
    last = lives.end - 1
    copied, before = simulation.store_instances
    place = int(np.flatnonzero(lives.value[copied] == value)[0])
    stored, loaded = int(copied[place]), instances[is_load[instances]]
    loads = [(int(lives.made_at[i]), int(last[i])) for i in loaded]
    waits = None if played is None else _waits(simulation, value, stored, loaded, played)
    return Offload(value, int(before[place]) - 1, int(last[stored]), loads, waits)


def _waits(simulation: Simulation, value: int, stored: int, loaded: Int64, played: Timeline) -> int | float:
    ended = np.append(0, played.end)  # end of the previous run
    made_at, end = simulation.lifetimes.made_at, simulation.lifetimes.end
    store_end = played.store_end[np.flatnonzero(played.stores == value)]
    arrivals = played.load_end[np.flatnonzero(simulation.schedule.loads[:, 1] == value)]
    reads = reads_of(simulation, int(simulation.graph.producer[value]))
    events = [(int(end[stored]), int(store_end[0]))] if store_end.size else []
    for i, arrival in zip(loaded, arrivals.tolist(), strict=True):
        readers = reads[(reads >= made_at[i]) & (reads < end[i])]
        if readers.size:
            events.append((int(readers[0]), arrival))
    waits: dict[int, int] = {}
    for step, until in events:
        if step < len(simulation.schedule):
            late = min(until - int(ended[step]), int(played.waits[step]))
            waits[step] = max(waits.get(step, 0), late)
    return played.in_units(sum(waits.values()))


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """The decision of a plan about one node, and the effect of the opposite decision."""

    simulation: Simulation
    node: int
    played: Timeline | None = None

    __repr__ = brief

    @property
    def graph(self) -> ComputationGraph:
        return self.simulation.graph

    @property
    def memory(self) -> int:
        return int(self.graph.node_memory[self.node])

    @property
    def name(self) -> str:
        return _names(self.graph)[self.node]

    @property
    def runs(self) -> list[int]:
        indptr, steps = self.simulation.run_steps
        return steps[indptr[self.node] : indptr[self.node + 1]].tolist()

    @property
    def reads(self) -> list[int]:
        """The steps that read a value of the node."""
        return reads_of(self.simulation, self.node).tolist()

    @property
    def lives(self) -> list[tuple[int, int]]:
        """For each run of the node, the first and the last step at which its values are live."""
        end, behind = self.simulation.lifetimes.end, self.simulation.lifetimes.instance_indptr[1:]
        n_values = len(self.graph.values(self.node))
        return [(step, int(end[behind[step] - n_values : behind[step]].max()) - 1) for step in self.runs]

    @property
    def offloads(self) -> list[Offload]:
        """The offloads of the node's values that are stored on the host."""
        stores = self.simulation.stores
        return [offload_of(self.simulation, x, self.played) for x in self.graph.values(self.node) if x in stores]

    @property
    def is_offloaded(self) -> bool:
        loads = self.simulation.schedule.loads
        return bool(loads.size and np.isin(self.graph.values(self.node), loads[:, 1]).any())

    @property
    def fixed(self) -> str:
        """The reason why the decision cannot be flipped, or ""."""
        graph, node, n_runs = self.graph, self.node, len(self.runs)
        if self.is_offloaded:
            return ""
        name = self.name
        if not n_runs:
            return f"no output needs {name}, so it does not run"
        if not graph.forward[node] and n_runs == 1:
            return f"{name} is a gradient; gradients run once"
        if graph.once[node]:
            return f"{name} must run only once"
        mark = int(graph.mark[node]) if graph.mark is not None else 0
        if mark:
            return f"{name} is marked to be {'kept' if mark == KEEP else 'recomputed'}"
        if n_runs > 1:
            return ""
        if graph.output[graph.value_indptr[node] : graph.value_indptr[node + 1]].all():
            return f"{name} is an output and stays live to the end"
        begin, end = idle_gap(self.simulation, node)
        if end - begin < 2:
            return f"{name} is never idle, so recomputing it would free nothing"
        return ""

    @property
    def flipped(self) -> FlippedDecision | None:
        """The effect of the opposite decision, or None if the decision is fixed or a value of the node is offloaded."""
        return None if self.fixed or self.is_offloaded else flip_decision(self.simulation, self.node)

    def bytes_at(self, step: int) -> int:
        begin, end = self.graph.value_indptr[self.node : self.node + 2].tolist()
        return int(_live_bytes(self.simulation, step)[begin:end].sum())

    def record(self) -> dict[str, Any]:
        flipped = self.flipped
        names = self.simulation.schedule.names(self.graph)
        offloaded = {"offloaded": [each.record(self.graph) for each in self.offloads]} if self.is_offloaded else {}
        return {
            "node": self.graph.labels[self.node],
            "values": [self.graph.value_name(x) for x in self.graph.values(self.node)],
            "memory": self.memory,
            "compute": int(self.graph.compute[self.node]),
            **entries(self, "runs lives"),
            "reads": [{"step": step, "node": names[step]} for step in self.reads],
            "live_at_peak": self.bytes_at(self.simulation.peak_step),
            "fixed": self.fixed or None,
            "flipped": flipped.record() if flipped is not None else None,
            **offloaded,
        }

    def lines(self) -> Iterator[str]:
        """Yield the decision and the effect of the opposite decision as text."""
        graph, simulation = self.graph, self.simulation
        lives = self.lives
        if len(lives) == 1:
            begin, end = lives[0]
            did = f"kept from step {begin} to step {end}" if end > begin else f"live at step {begin} only"
            did = "computed once" if self.is_offloaded else did
        else:
            spans = listed([f"{begin} to {end}" for begin, end in lives], VALUES_NAMED)
            did = f"computed {len(lives)} times, live in steps {spans}"
        order, names, reads = simulation.schedule.order, _names(graph), self.reads
        readers = [f"{shortened(names[order[step]])} ({step})" for step in reads[:VALUES_NAMED]]
        read = f"; read by {listed(readers, VALUES_NAMED, len(reads))}" if readers else "; not read"
        name, size = shortened(self.name), format_bytes(self.memory)
        yield f"{name}  {size}, {did if lives else 'never run'}{read}"
        peak, flipped = simulation.peak_memory, self.flipped
        if self.is_offloaded:
            yield from (f"    {offload.text(simulation)}" for offload in self.offloads)
        else:
            yield f"    {self.fixed if flipped is None else self._opposite(flipped)}"
        share = percent(self.bytes_at(simulation.peak_step), peak)
        yield f"    {share} of the peak (step {simulation.peak_step}, {format_bytes(peak)})"

    def _opposite(self, flipped: FlippedDecision) -> str:
        share = percent(abs(flipped.compute), self.graph.needed_compute)
        cost = f"{self.graph.labels.compute(abs(flipped.compute))} ({share} of one pass)"
        freed = "free nothing"
        if flipped.freed:
            freed = f"free {format_bytes(flipped.freed)} for {counted(flipped.freed_steps, 'step')}"
        added = ""
        if flipped.added:
            added = f"need {format_bytes(flipped.added)} more for {counted(flipped.added_steps, 'step')}"
        if len(self.runs) == 1:
            text = f"recomputing it would {', '.join(filter(None, [freed, added]))} and cost {cost}"
        else:
            text = f"keeping it would {added or 'need no more memory'} and save {cost}"
        change = flipped.peak_memory - self.simulation.peak_memory
        return f"{text}; the peak would {'be' if change else 'stay'} {format_bytes(flipped.peak_memory)}"


def _names(graph: ComputationGraph) -> list[str]:
    names: list[str] = derived(graph, "names", graph.node_names)
    return names


def _live_bytes(simulation: Simulation, step: int) -> Int64:
    def counted_bytes() -> Int64:
        live = np.zeros(simulation.graph.n_values, np.int64)
        values = [x for x, _ in live_at(simulation, step)]
        np.add.at(live, values, simulation.graph.memory[values])
        return live

    if step != simulation.peak_step:
        return counted_bytes()
    at_peak: Int64 = remembered(simulation._derived, "live_bytes", counted_bytes)
    return at_peak


@dataclass(frozen=True, slots=True, eq=False)
class Explanation(Result):
    """The decisions of a plan, sorted by bytes (largest first), and the values that are live at its peak.

    `left_out` is the number of decisions that are not shown, except those about values of 0 bytes. `report` is the
    report of the solver on its own decisions; `no_report` is the reason if there is no report.
    """

    plan: Plan
    nodes: tuple[int, ...]
    left_out: int
    report: Result | None = None
    no_report: str = ""

    __repr__ = brief

    @property
    def decisions(self) -> Iterator[Decision]:
        played = self.plan.timeline
        return (Decision(self.plan.simulation, node, played) for node in self.nodes)

    def at_peak(self) -> list[LiveValue]:
        return live_set(self.plan.simulation, self.plan.simulation.peak_step)

    def record(self) -> dict[str, Any]:
        simulation = self.plan.simulation
        live = [{"value": each.name, "memory": each.memory, "role": each.role} for each in self.at_peak()]
        record: dict[str, Any] = {"format": "remat-explanation", "version": 2}
        record |= entries(simulation, f"graph_hash=graph.source_hash peak_memory peak_step {UNIT}")
        record |= {"decisions": [each.record() for each in self.decisions], "left_out": self.left_out, "at_peak": live}
        if self.no_report:
            record["no_report"] = self.no_report
        return record if self.report is None else self.report.record() | record

    def notes(self) -> Iterator[str]:
        """Yield the decisions, the values that are live at the peak, and the report of the solver."""
        for decision in self.decisions:
            yield from decision.lines()
        if self.left_out:
            many = " or more" if self.left_out == MAX_COUNTED else ""
            yield f"not shown: {counted(self.left_out, 'decision')}{many} about no more bytes than these"
        live = [each for each in self.at_peak() if each.memory]
        shown = [
            f"{shortened(each.name)} {format_bytes(each.memory)}{ROLE_NOTES.get(each.role, '')}"
            for each in live[:AT_PEAK]
        ]
        more = f", ... {len(live) - AT_PEAK} more" if len(live) > AT_PEAK else ""
        yield f"at the peak: {', '.join(shown) or 'nothing'}{more}"
        if self.no_report:
            yield self.no_report
        if self.report is not None:
            yield from ("", *self.report.lines())


@checked_arguments
def explain(plan: Plan, value: str | int | None = None, *, most: int = 10) -> Explanation:
    """Explain why values are kept or recomputed, and what the opposite decision would free and cost.

    The figures come from a simulation in which only that decision is flipped.

    Parameters
    ----------
    plan : Plan
    value : str, optional
        The value or node to explain; by default, offloaded values, and then the decisions about the largest values.
    most : int
        Maximum number of decisions if no value is named.

    Returns
    -------
    Explanation
        `str(explanation)` is its text.

    Raises
    ------
    GraphError
        If the graph has no such value.
    ValueError
        If `most` is negative.

    Examples
    --------
    >>> from remat_algos.ir.differentiate import differentiate
    >>> from remat_algos.search.solve import solve
    >>> chain = ComputationGraph.from_edges([(i, i + 1) for i in range(8)])
    >>> print(explain(solve(differentiate(chain), 7, solver="chen_greedy"), "6"))
    6  1 B, kept from step 6 to step 12; read by 7 (7), grad(6) (11), grad(5) (12)
        recomputing it would free 1 B for 3 steps and cost 1 (4.0 % of one pass);
            the peak would stay 7 B
        14.3 % of the peak (step 10, 7 B)
    at the peak: 4 1 B (kept), 5 1 B (kept), 6 1 B (kept), ... 4 more
    """
    graph, simulation = plan.graph, plan.simulation
    if most < 0:
        raise about("most", ArgumentError("most is {most}; give 0 or more", most=most))
    if value is not None:
        return Explanation(plan, (int(graph.producer[graph.value_id(value)]),), 0)
    offloaded = np.zeros(graph.n_nodes, bool)
    offloaded[graph.producer[simulation.stores]] = True
    ran = np.flatnonzero((graph.forward | offloaded) & (simulation.runs > 0) & (graph.node_memory > 0))
    largest_first = ran[np.lexsort((-graph.node_memory[ran], ~offloaded[ran]))].tolist()
    decided = (v for v in largest_first if not Decision(simulation, v).fixed)
    nodes = tuple(itertools.islice(decided, most))
    left_out = len(list(itertools.islice(decided, MAX_COUNTED)))
    try:
        return Explanation(plan, nodes, left_out, _report(plan, most))
    except ValueError as error:  # options unknown to the solver
        return Explanation(plan, nodes, left_out, None, f"{plan.solver} has no report on this plan: {error}")


def _report(plan: Plan, most: int) -> Result | None:
    """Return the report of the solver that found the schedule or, if it has none, of the requested solver."""
    for name, options in {plan.method: {}, plan.solver: plan.options}.items():
        solver = find_solver(name)
        if solver is not None and solver.explain is not None:
            unknown = [option for option in options if option not in solver.options]
            if unknown:
                raise ArgumentError("{name} has no option {unknown!l}", name=name, unknown=unknown)
            return solver.explain(plan.graph, most, **options)
    return None
