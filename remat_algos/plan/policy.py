"""Policies: the decision to keep, recompute or offload, for each block of a model or for each tensor."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

import numpy as np

from remat_algos.arguments import checked_arguments
from remat_algos.bounds.bound import LowerBound
from remat_algos.bounds.rising import bound_curve
from remat_algos.context import Clock
from remat_algos.cost.links import Link, in_units
from remat_algos.effort import FAST
from remat_algos.errors import PlanError
from remat_algos.ir.arrays import Bool, brief, by_fields, is_count
from remat_algos.ir.graph import ComputationGraph, remembered
from remat_algos.plan.blocks import (
    DECISIONS,
    EAGER,
    GRAPH,
    KEEP,
    OFFLOAD,
    RECOMPUTE,
    SEMANTICS,
    Blocks,
    Holds,
    block_schedule,
    not_rerun,
)
from remat_algos.plan.record import COUNT, Entries, are_texts, check_entries, from_file, link_of
from remat_algos.result import UNIT, Result, entries
from remat_algos.schedule.emission import baseline_peak
from remat_algos.schedule.simulation import Simulation, simulate
from remat_algos.text.amounts import fine_percent, percent
from remat_algos.wording import exact_bytes, format_bytes, labelled, one_line

FORMAT, VERSION = "remat-policy", 1
ENTRIES: Entries = {
    "graph_hash": (lambda entry: isinstance(entry, str), "a string"),
    "semantics": (lambda entry: entry in SEMANTICS, "eager or graph"),
    "limit": (lambda entry: entry is None or is_count(entry), f"{COUNT}, or null"),
    "peak_memory": (is_count, COUNT),
    "overhead": (lambda entry: isinstance(entry, int | float) and not isinstance(entry, bool), "a number"),
    "blocks": (lambda entry: isinstance(entry, list) and bool(entry), "a list of blocks"),
}
ROW: Entries = {
    "name": (lambda entry: isinstance(entry, str), "a module path"),
    "decision": (lambda entry: entry in DECISIONS, "keep, recompute or offload"),
    "saved": (are_texts, "a list of names of operators"),
}
"""Entries of the JSON record of one block in a policy; `ENTRIES` are those of the policy itself."""


@dataclass(frozen=True, slots=True)
class Treatment:
    """The decision of a policy about one block, named by its module path, or about one tensor.

    `decision` is "keep" for everything that gradients need, "recompute" for a checkpointed block, or "offload" for a
    checkpointed block with its inputs on the host. `saved` lists the operators of a checkpointed block whose outputs
    stay in memory, named relative to the block. `memory` is the number of bytes that stay from the forward to the
    backward part, or the size of a tensor. `compute` is the cost of recomputation, and `copies` the time of stores and
    loads, both in the unit of the graph. `inputs` is set in plans for PyTorch: the arguments of an offloaded block that
    go to the host, such as "0", "mask" or "pair.1"; () means all.
    """

    name: str
    decision: str
    saved: tuple[str, ...] = ()
    memory: int = 0
    compute: int = 0
    copies: int | float = 0
    inputs: tuple[str, ...] = ()

    __repr__ = brief
    __reduce__ = by_fields

    def record(self) -> dict[str, Any]:
        """Return the JSON record."""
        saved = {"saved": list(self.saved)} if self.decision != KEEP else {}
        saved |= {"inputs": list(self.inputs)} if self.inputs else {}
        return entries(self, "name decision") | saved | entries(self, "memory compute copies")


@dataclass(frozen=True, slots=True, eq=False)
class Policy(Result):
    """The decision for each block of a graph or for each tensor, and the simulation of the resulting schedule.

    `semantics`, "eager" or "graph", defines what is recomputed. In a policy of blocks, `decisions` has one entry per
    block, and `saved`, bool[n], marks the nodes whose outputs stay. In a policy of tensors, both are empty, and the
    simulation determines each decision. `limit` is that of the search, in bytes. With a `link`, values may go to the
    host.
    """

    simulation: Simulation
    semantics: str = GRAPH
    blocks: Blocks | None = None
    decisions: tuple[str, ...] = ()
    saved: Bool | None = None
    holds: Holds | None = None
    limit: int | None = None
    link: Link | None = None
    _derived: dict[str, Any] = field(default_factory=dict, init=False, repr=False)

    COLUMNS = ("blocks", "treatment", "saved operators", "kept a block", "price a block")

    def __repr__(self) -> str:
        return one_line(
            self,
            f"{len(self.treatments)} {'tensors' if self.blocks is None else 'blocks'}",
            f"peak {format_bytes(self.peak_memory)}",
            f"overhead {percent(self.overhead, self.graph.needed_compute)}",
            self.semantics,
        )

    @classmethod
    def of(
        cls,
        graph: ComputationGraph,
        blocks: Blocks,
        decisions: Sequence[str],
        saved: Bool | None = None,
        *,
        semantics: str = EAGER,
        holds: Holds | None = None,
        limit: int | None = None,
        link: Link | None = None,
    ) -> Policy:
        """Simulate the policy that makes one decision per block and keeps the outputs of the nodes in `saved`."""
        decisions = [KEEP if blocks.trigger[b] < 0 else decision for b, decision in enumerate(decisions)]
        for b, reason in blocks.refusals.items():
            if decisions[b] != KEEP:
                raise PlanError("block {name} can only be kept: {reason!w}", name=blocks.names[b], reason=reason)
        saved = not_rerun(graph) | (np.zeros(graph.n_nodes, bool) if saved is None else saved)
        simulation = simulate(graph, block_schedule(graph, blocks, decisions, saved, semantics, holds))
        if link is not None and link.host is not None and simulation.host_peak > link.host:
            raise PlanError(
                "the policy stores {host_peak!b} on the host, but its link allows {host!b}",
                host_peak=simulation.host_peak,
                host=link.host,
            )
        return cls(simulation, semantics, blocks, tuple(decisions), saved, holds, limit, link)

    @property
    def treatments(self) -> tuple[Treatment, ...]:
        """The decision about each block, in running order, or about each tensor kept, recomputed or offloaded."""
        return tuple(remembered(self._derived, "treatments", lambda: list(self._treatments())))

    def _treatments(self) -> Iterator[Treatment]:
        graph, simulation, blocks = self.graph, self.simulation, self.blocks
        extra = np.maximum(simulation.runs - 1, 0) * graph.compute
        loads, copies, ticks = simulation.schedule.loads[:, 1], np.zeros(graph.n_values, np.int64), 1
        if self.link is not None and loads.size:
            link, n_loads = self.link.planned, np.bincount(loads, minlength=graph.n_values)
            ticks, (out_time, in_time) = link.ticks(graph), link.times(link.refined(graph))
            copies = np.where(n_loads > 0, out_time, 0) + n_loads * in_time
        if blocks is None or self.saved is None:
            lives, crosses = simulation.lifetimes, np.zeros(graph.n_values, bool)
            crosses[[x for x, _ in simulation.saved]] = True
            later = ~simulation.schedule.first_run[lives.made_at] & ~simulation.is_load
            recomputed = (simulation.runs[graph.producer] > 1) & ~crosses
            recomputed[lives.value[later & (lives.end > lives.made_at + 1)]] = True
            kind = np.where(recomputed, RECOMPUTE, np.where(crosses, KEEP, ""))
            kind[simulation.stores] = OFFLOAD
            for x in np.flatnonzero(kind != "").tolist():
                # The cost of a value is that of its node, which may compute other values as well.
                figures = int(graph.memory[x]), int(extra[graph.producer[x]]), in_units(int(copies[x]), ticks)
                yield Treatment(graph.value_name(x), str(kind[x]), (), *figures)
            return
        stays = np.zeros(graph.n_values, np.int64)
        for x, _ in simulation.saved:
            stays[x] = graph.memory[x]
        stays = np.bincount(graph.producer, weights=stays, minlength=graph.n_nodes).astype(np.int64)
        for b, (name, members, decision) in enumerate(zip(blocks.names, blocks.members, self.decisions, strict=True)):
            again = members[self.saved[members] & (members < blocks.rerun_end[b])].tolist() if decision != KEEP else []
            away = np.intersect1d(blocks.inputs[b], loads if decision == OFFLOAD else loads[:0])
            yield Treatment(
                name,
                RECOMPUTE if decision == OFFLOAD and not away.size else decision,
                tuple(graph.labels[v].removeprefix(f"{name}.") for v in again),
                int(stays[members].sum()),
                int(extra[members].sum()),
                in_units(int(copies[away].sum()), ticks),
            )

    @property
    def graph(self) -> ComputationGraph:
        """The graph that is run."""
        return self.simulation.graph

    @property
    def peak_memory(self) -> int:
        """Bytes live at the worst step, without residents."""
        return self.simulation.peak_memory

    @property
    def overhead(self) -> int | float:
        """Cost beyond one pass: recomputation and, in a policy of blocks, also copies, since these are synchronous."""
        copies = sum(each.copies for each in self.treatments) if self.blocks is not None else 0
        return self.simulation.overhead + copies

    @property
    def bound(self) -> LowerBound:
        """Lower bound on the compute or, with a link, the time of every schedule within the limit.

        It is computed when first read. Without a limit, it bounds schedules whose peak is at most the policy's peak.
        """

        def computed() -> LowerBound:
            limit = self.peak_memory if self.limit is None else self.limit
            link = None if self.link is None else self.link.planned
            return bound_curve(self.graph, [limit], Clock(), effort=FAST, link=link).bounds[0]

        return remembered(self._derived, "bound", computed)

    @property
    def gap(self) -> float | None:
        """(compute - bound) / bound."""
        return self.bound.gap(self.graph.needed_compute + self.overhead)

    def record(self) -> dict[str, Any]:
        """Return the JSON record: names grouped by decision, then each block or tensor with its bytes and costs."""
        own, what = ("", "tensors") if self.blocks is None else ("semantics limit bound=bound.amount gap", "blocks")
        return {
            **{"format": FORMAT, "version": VERSION, "graph_hash": self.graph.source_hash},
            **entries(self, f"{own} peak_memory overhead {UNIT} {'' if self.link is None else 'link'}"),
            **{each: [t.name for t in self.treatments if t.decision == each] for each in DECISIONS},
            what: [each.record() for each in self.treatments],
        }

    @classmethod
    @checked_arguments
    def load(
        cls,
        path: str | os.PathLike[str],
        graph: ComputationGraph,
        blocks: Blocks | None = None,
        holds: Holds | None = None,
    ) -> Policy:
        """Read a policy of blocks for a graph and simulate it. Raise PlanError if the simulated figures differ."""
        return from_file(path, lambda record: _loaded(record, graph, blocks, holds))

    def rows(self) -> Iterator[tuple[str, ...]]:
        """Yield the cells under `COLUMNS`; consecutive blocks of a stack share a row if all their figures are equal."""
        stacks: dict[str, list[Treatment]] = {}
        for each in self.treatments:
            stacks.setdefault(_stack(each.name), []).append(each)
        for treatments in stacks.values():
            for same, group in groupby(treatments, key=lambda each: replace(each, name="", inputs=())):
                names = [each.name for each in group]
                name = names[0] if len(names) == 1 else f"{names[0]} to {names[-1]} ({len(names)})"
                if same.decision == KEEP:
                    yield name, KEEP, "all", format_bytes(same.memory), ""
                else:
                    price = self.graph.labels.compute(same.compute + same.copies)
                    saved = ", ".join(same.saved) or "none"
                    yield name, same.decision, saved, format_bytes(same.memory), price

    def figures(self, states: int = 0) -> Iterator[tuple[str, str]]:
        """Yield the label and text of each line below the table. The simulated peak is increased by `states` bytes."""
        graph, base, peak = self.graph, baseline_peak(self.graph), self.peak_memory + states
        limit = "" if self.limit is None else f", limit {format_bytes(self.limit)}"
        yield "peak", f"{exact_bytes(peak)}, {percent(peak, base)} of one pass{limit}"
        one_pass, bound = graph.needed_compute, self.bound
        extra = bound.amount - one_pass
        for label, amount, what in (
            ("overhead", self.overhead, "more than one pass"),
            ("bound", extra, f"for every schedule ({bound.source})"),
            ("gap", self.overhead - extra, "between overhead and bound"),
        ):
            yield label, f"{graph.labels.compute(amount)}, {fine_percent(amount, one_pass)} {what}"

    def notes(self) -> list[str]:
        """Return the figures as lines of text."""
        return labelled(self.figures())


def nearest(simulation: Simulation, blocks: Blocks, semantics: str) -> tuple[list[str], Bool]:
    """Return the decisions per block that are nearest to a schedule, and the nodes whose outputs it keeps, bool[n]."""
    graph = simulation.graph
    saved, stored = np.zeros(graph.n_nodes, bool), np.zeros(graph.n_values, bool)
    saved[graph.producer[[x for x, _ in simulation.saved]]] = True
    stored[simulation.stores] = True
    decisions = []
    for b, (members, inputs) in enumerate(zip(blocks.members, blocks.inputs, strict=True)):
        away = bool(stored[inputs].any())
        again = (simulation.runs[members] > 1).any() or stored[np.isin(graph.producer, members)].any()
        kept = b in blocks.refusals or not (again or away)
        decisions.append(KEEP if kept else OFFLOAD if away else RECOMPUTE)
        drawn = members[np.isin(members, blocks.draws)]
        # PyTorch restores the state of the random generator before a rerun. So all random operators after a saved one
        # must be saved too.
        if semantics == EAGER:
            saved[drawn] = np.logical_or.accumulate(saved[drawn])
        saved[np.intersect1d(members, blocks.fixed)] = False
    return decisions, saved


def every_nth(blocks: Blocks, n: int) -> list[str]:
    """Return the decisions that checkpoint every n-th block of each stack, starting with the first."""
    ran, decisions = Counter[str](), [KEEP] * len(blocks)
    for b, stack in enumerate(map(_stack, blocks.names)):
        if ran[stack] % n == 0 and b not in blocks.refusals:
            decisions[b] = RECOMPUTE
        ran[stack] += 1
    return decisions


def _stack(name: str) -> str:
    """Return a module path with `*` for each number: `layers.*.mlp`."""
    return re.sub(r"\d+", "*", name)


def _loaded(record: Mapping[str, Any], graph: ComputationGraph, blocks: Blocks | None, holds: Holds | None) -> Policy:
    if record.get("format") != FORMAT or record.get("version") != VERSION or "blocks" not in record:
        raise PlanError("this is not a policy of blocks of version {version}", version=VERSION)
    check_entries(record, ENTRIES, "the policy")
    rows = record["blocks"]
    for row in rows:
        check_entries({"saved": [], **row} if isinstance(row, dict) else {}, ROW, "a block of the policy")
    if record["graph_hash"] != graph.source_hash:
        raise PlanError("the policy was made for another graph; plan one for this graph")
    names = [row["name"] for row in rows]
    blocks = Blocks.of(graph, names) if blocks is None else blocks
    if list(blocks.names) != names:
        raise PlanError("the blocks of the policy, {names!l}, are not those of the graph", names=names)
    saved = np.zeros(graph.n_nodes, bool)
    for row, members in zip(rows, blocks.members, strict=True):
        places = {graph.labels[v].removeprefix(f"{row['name']}."): v for v in members.tolist()}
        for each in row.get("saved", ()):
            if each not in places:
                raise PlanError("block {name!r} has no operator {operator!r}", name=row["name"], operator=each)
            saved[places[each]] = True
    policy = Policy.of(
        graph,
        blocks,
        [row["decision"] for row in rows],
        saved,
        semantics=record["semantics"],
        holds=holds,
        limit=record["limit"],
        link=link_of(record),
    )
    for name in ("peak_memory", "overhead"):
        if record[name] != getattr(policy, name):
            raise PlanError(
                "the policy claims a value of {claimed} for {name!w}, but its simulation has {found}",
                name=name,
                claimed=record[name],
                found=getattr(policy, name),
            )
    if policy.limit is not None and policy.peak_memory > policy.limit:
        raise PlanError(
            "the policy has a peak of {peak!b}, above its limit of {limit!b}",
            peak=policy.peak_memory,
            limit=policy.limit,
        )
    return policy
