"""Decisions of a plan (keep, recompute, offload) by tensor or by module, for policies of other frameworks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from remat_algos.cost.links import Link, in_units
from remat_algos.errors import PlanError
from remat_algos.ir.arrays import Int8, Int64, brief, by_fields
from remat_algos.ir.graph import ComputationGraph
from remat_algos.schedule.simulation import Simulation

DECISIONS = ("keep", "recompute", "offload")
MIXED = "mixed"
KINDS = ("tensor", "module")


@dataclass(frozen=True, slots=True)
class Treatment:
    """The decision of a plan about a tensor, or about the tensors of a module.

    `values` and `memory` have the names and bytes of the values for each of `DECISIONS`. `compute` is the cost of the
    extra runs of their nodes; values of one node share it. `copies` is the time of their stores and loads on the link,
    in the unit of the compute; while they run, compute may too.
    """

    name: str
    values: Mapping[str, tuple[str, ...]]
    memory: Mapping[str, int]
    compute: int
    copies: int | float

    __repr__ = brief
    __reduce__ = by_fields

    @property
    def decision(self) -> str:
        """The one of `DECISIONS` that holds for all its values, else "mixed"."""
        found = [decision for decision in DECISIONS if self.values[decision]]
        return found[0] if len(found) == 1 else MIXED

    def record(self) -> dict[str, Any]:
        """Return the JSON record."""
        return {
            "name": self.name,
            "decision": self.decision,
            "values": {decision: list(self.values[decision]) for decision in DECISIONS},
            "memory": dict(self.memory),
            "compute": self.compute,
            "copies": self.copies,
        }


@dataclass(frozen=True, slots=True)
class Policy:
    """A plan as decisions about tensors, or about modules, in the order of the nodes.

    It has the values that cross from the forward to the backward part, and those that are recomputed or offloaded.

    Examples
    --------
    >>> import remat_algos as ra
    >>> names = ("block.0.fc", "block.0.relu", "block.1.fc", "block.1.relu", "loss")
    >>> labels = ra.ir.Labels(names=names)
    >>> graph = ra.ComputationGraph.from_edges([(i, i + 1) for i in range(4)], labels=labels)
    >>> plan = ra.solve(ra.differentiate(graph), "least")
    >>> policy = plan.policy(by="module", depth=2)
    >>> [(treatment.name, treatment.decision, treatment.compute) for treatment in policy.treatments]
    [('block.0', 'recompute', 5), ('block.1', 'mixed', 1), ('', 'keep', 0)]
    """

    by: str
    treatments: tuple[Treatment, ...]
    compute_unit: str = ""
    compute_scale: int = 1

    __repr__ = brief
    __reduce__ = by_fields

    @classmethod
    def of(cls, simulation: Simulation, link: Link | None, by: str, depth: int | None) -> Policy:
        """Return the policy of a simulated schedule; the arguments are those of `Plan.policy`."""
        if by not in KINDS:
            raise PlanError("a policy is by {kinds!w}, not by {by!r}", kinds=" or ".join(KINDS), by=by)
        if depth is not None and (by != "module" or depth < 1):
            raise PlanError("depth is {depth!r}; give 1 or more, with by='module', or leave it out", depth=depth)
        graph, (listed, decision) = simulation.graph, _decisions(simulation)
        names = {x: graph.value_name(x) for x in listed.tolist()}
        groups: dict[str, list[int]] = {}
        for place, x in enumerate(listed.tolist()):
            groups.setdefault(names[x] if by == "tensor" else module_of(graph, x, depth), []).append(place)
        extra = np.maximum(simulation.runs - 1, 0) * graph.compute
        copies, ticks = _copies(simulation, link)
        found = []
        for name, places in groups.items():
            among = {kind: listed[places][decision[places] == i] for i, kind in enumerate(DECISIONS)}
            found.append(
                Treatment(
                    name,
                    {kind: tuple(names[x] for x in members.tolist()) for kind, members in among.items()},
                    {kind: int(graph.memory[members].sum()) for kind, members in among.items()},
                    int(extra[np.unique(graph.producer[listed[places]])].sum()),
                    in_units(int(copies[listed[places]].sum()), ticks),
                )
            )
        return cls(by, tuple(found), graph.labels.compute_unit, graph.labels.compute_scale)

    def record(self) -> dict[str, Any]:
        """Return the JSON record: the names of each decision, then every treatment with its bytes and price."""
        kinds: tuple[str, ...] = (*DECISIONS, MIXED)
        records = [each.record() for each in self.treatments]
        if self.by == "tensor":
            kinds = DECISIONS
            records = [{**each, "memory": sum(each["memory"].values())} for each in records]
            for each in records:
                del each["values"]
        return {
            "by": self.by,
            **{kind: [each.name for each in self.treatments if each.decision == kind] for kind in kinds},
            "compute_unit": self.compute_unit,
            "compute_scale": self.compute_scale,
            f"{self.by}s": records,
        }


def module_of(graph: ComputationGraph, value: int, depth: int | None = None) -> str:
    """The module of a value: the name of its node without the last part, cut to `depth` parts; "" for the model itself.

    A gradient is of the module of its forward node.

    Examples
    --------
    >>> from remat_algos.ir.parts import Labels
    >>> labels = Labels(names=("layers.3.attention.qk", "loss"))
    >>> graph = ComputationGraph.from_edges([(0, 1)], labels=labels)
    >>> module_of(graph, 0), module_of(graph, 0, 2), module_of(graph, 1)
    ('layers.3.attention', 'layers.3', '')
    """
    node = int(graph.producer[value])
    if not graph.forward[node] and graph.owner[node] >= 0:
        node = int(graph.owner[node])
    return ".".join(graph.labels[node].split(".")[:-1][:depth])


def _decisions(simulation: Simulation) -> tuple[Int64, Int8]:
    """Values that a policy lists, ascending, and the place of the decision about each in `DECISIONS`."""
    graph, lives = simulation.graph, simulation.lifetimes
    crosses, recomputed, offloaded = (np.zeros(graph.n_values, bool) for _ in range(3))
    crosses[[x for x, _ in simulation.saved]] = True
    later = ~simulation.schedule.first_run[lives.made_at] & ~simulation.is_load
    recomputed[lives.value[later & (lives.end > lives.made_at + 1)]] = True
    recomputed |= (simulation.runs[graph.producer] > 1) & ~crosses
    offloaded[simulation.stores] = True
    listed = np.flatnonzero(crosses | recomputed | offloaded)
    return listed, np.where(offloaded, 2, np.where(recomputed, 1, 0))[listed].astype(np.int8)


def _copies(simulation: Simulation, link: Link | None) -> tuple[Int64, int]:
    """int64[n_values]: ticks of the copies of each value; and the number of ticks in a unit of compute."""
    graph, loads = simulation.graph, simulation.schedule.loads[:, 1]
    if link is None or not loads.size:
        return np.zeros(graph.n_values, np.int64), 1
    out_time, in_time = link.times(link.refined(graph))
    n_loads = np.bincount(loads, minlength=graph.n_values)
    return np.where(n_loads > 0, out_time, 0) + n_loads * in_time, link.ticks(graph)
