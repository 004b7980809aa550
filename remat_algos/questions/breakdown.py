"""Breakdown of the memory and compute of training, by type of layer and by data structure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from remat_algos.arguments import check_fields, check_kind, checked_arguments
from remat_algos.errors import ArgumentError, GraphError
from remat_algos.ir.arrays import Bool, Int8, Int32, Int64, as_array, brief, frozen, row_of, sealed
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.kinds import OTHER, operation_kind
from remat_algos.ir.parts import ROLES
from remat_algos.plan.plan import Plan
from remat_algos.result import Result
from remat_algos.schedule.emission import baseline
from remat_algos.schedule.simulation import Simulation
from remat_algos.schedule.views import live_at
from remat_algos.text.amounts import percent
from remat_algos.wording import format_bytes

BY = ("layer", "operation")
OPTIMIZER = "optimizer"
STRUCTURES = ("feature maps", "other values", "gradients", "weights", "workspace", "inputs")
"""Names of the data structures.

"feature maps" are forward values that the backward part reads; "other values" are all other forward values. "gradients"
are the gradients of values. "weights" are parameters, their gradients and all states, including those of the optimizer.
"workspace" is scratch memory.
"""

PARTS = ("forward", "backward", "again")
"""Parts of the compute: first runs of forward nodes, first runs of all other nodes, and later runs of any node."""

FEATURE_MAPS, VALUES, GRADIENTS, WEIGHTS, WORKSPACE, INPUTS = range(len(STRUCTURES))


WORDS: Mapping[str, str] = {
    **dict.fromkeys(("embedding", "embeddings", "embed", "embed_tokens"), "embedding"),
    **dict.fromkeys(("attention", "attn", "self_attention", "self_attn", "cross_attention"), "attention"),
    **dict.fromkeys(("rnn", "lstm", "gru", "cell"), "RNN"),
    **dict.fromkeys(("mlp", "ff", "feed_forward", "moe", "expert", "experts"), "feed forward"),
    **dict.fromkeys(("head", "heads", "classifier", "logits", "output", "loss"), "output"),
}
"""The type of layer that a word in a node's name implies. Words are parts between dots, without trailing numbers."""

INNER: Mapping[str, str] = dict.fromkeys(("self", "source", "cross"), "attention")
"""The type of layer that a word implies only if it is not the first part of a name."""

_RANK = {name: rank for rank, name in enumerate(dict.fromkeys([*WORDS.values(), *INNER.values()]))}


@dataclass(frozen=True, slots=True, eq=False)
class Breakdown(Result):
    """The bytes at the peak of a schedule, including residents, and its compute, divided by type and structure.

    Parameters
    ----------
    by : str
        The kind of `types`: "layer" or "operation".
    types : tuple of str
        Types of layers or operations, the largest first.
    memory : int64[n_types, 6]
        Bytes by type and structure (`STRUCTURES`).
    compute : int64[n_types, 3]
        Compute by type and part (`PARTS`).
    peak_step : int
        The step of the peak; -1 in an empty schedule.
    peak_memory, resident_memory : int
        Bytes; together they are the sum of `memory`.
    compute_unit : str
    compute_scale : int
        Factor by which the costs in the graph are multiplied.
    """

    by: str
    types: tuple[str, ...]
    memory: Int64
    compute: Int64
    peak_step: int
    peak_memory: int
    resident_memory: int
    compute_unit: str
    compute_scale: int

    ENTRIES = "by peak_step peak_memory resident_memory footprint structures compute_unit compute_scale types=_types"

    __repr__ = brief

    def __post_init__(self) -> None:
        check_fields(self)
        for name, columns in (("memory", STRUCTURES), ("compute", PARTS)):
            table, shape = as_array(getattr(self, name), name), (len(self.types), len(columns))
            if table.shape != shape:
                raise ArgumentError(
                    "{name} of a breakdown has shape {shape}, expected {expected}, a row for each type",
                    name=name,
                    shape=table.shape,
                    expected=shape,
                )
            object.__setattr__(self, name, sealed(frozen(table.ravel(), np.int64, name).reshape(shape)))

    @property
    def footprint(self) -> int:
        """Total bytes: the peak plus the residents."""
        return self.peak_memory + self.resident_memory

    @property
    def structures(self) -> dict[str, int]:
        """Bytes by data structure."""
        return dict(zip(STRUCTURES, self.memory.sum(axis=0).tolist(), strict=True))

    @property
    def layers(self) -> dict[str, int]:
        """Bytes by type of layer."""
        return dict(zip(self.types, self.memory.sum(axis=1).tolist(), strict=True))

    @property
    def layer_compute(self) -> dict[str, int]:
        """Compute by type of layer."""
        return dict(zip(self.types, self.compute.sum(axis=1).tolist(), strict=True))

    @property
    def _types(self) -> list[dict[str, Any]]:
        return [
            {
                "type": name,
                "memory": dict(zip(STRUCTURES, sizes, strict=True)),
                "compute": dict(zip(PARTS, costs, strict=True)),
            }
            for name, sizes, costs in zip(self.types, self.memory.tolist(), self.compute.tolist(), strict=True)
        ]

    @property
    def columns(self) -> tuple[str, ...]:
        """The headings of `rows`."""
        return (self.by, *STRUCTURES, "together", "share", "compute", "recomputed")

    def rows(self) -> Iterator[tuple[str, ...]]:
        """Yield one row per type, with its bytes by structure and its shares of memory and compute; then the totals."""
        footprint, total = max(1, self.footprint), max(1, int(self.compute.sum()))
        recomputed = self.compute[:, PARTS.index("again")].any()

        def row(name: str, sizes: Int64, costs: Int64) -> tuple[str, ...]:
            bytes_of = [format_bytes(size) if size else "" for size in sizes.tolist()]
            whole, again = int(sizes.sum()), costs[PARTS.index("again")]
            shares = percent(whole, footprint), percent(costs.sum(), total), percent(again, total) if recomputed else ""
            return (name, *bytes_of, format_bytes(whole), *shares)

        for name, sizes, costs in zip(self.types, self.memory, self.compute, strict=True):
            if sizes.any() or costs.any():
                yield row(name, sizes, costs)
        sizes = self.memory.sum(axis=0)
        yield row("all", sizes, self.compute.sum(axis=0))
        shares = [percent(size, footprint) if size else "" for size in sizes.tolist()]
        yield ("share", *shares, *[""] * (len(self.columns) - 1 - len(shares)))


@checked_arguments
def breakdown(subject: Plan | Simulation | ComputationGraph, *, by: str = "layer") -> Breakdown:
    """Break down the memory at the peak and the compute, by type of layer and by data structure.

    These are the figures of echo2020 [1]_.

    Parameters
    ----------
    subject : Plan, Simulation or ComputationGraph
        For a graph, its run without rematerialization is broken down.
    by : {"layer", "operation"}
        "layer" groups nodes by operations and by words in their names, such as "attention". The bytes of a gradient
        belong to the layer of its value. The compute of a gradient belongs to the layer that is differentiated. A
        resident belongs to the layer that reads it first.

    Returns
    -------
    Breakdown

    Raises
    ------
    GraphError
        If `by` is any other string.

    References
    ----------
    .. [1] echo2020, sections III-B and III-C (figures 4, 5, 16, 21 and 23).

    Examples
    --------
    >>> from remat_algos.ir.differentiate import differentiate
    >>> from remat_algos.ir.parts import Labels
    >>> labels = Labels(names=("conv", "relu"), ops=("Convolution", "ReLU"))
    >>> chain = ComputationGraph.from_edges([(0, 1)], memory=[8, 8], compute=[9, 1], labels=labels)
    >>> found = breakdown(differentiate(chain))
    >>> found.layers, found.layer_compute
    ({'convolution': 16, 'activation': 16}, {'convolution': 9, 'activation': 3})
    """
    simulation = _simulation_of(subject)
    graph, step = simulation.graph, simulation.peak_step
    types = layer_types(graph, by)
    names = sorted({*types, OTHER})
    place = {name: i for i, name in enumerate(names)}
    of_node = np.array([place[name] for name in types], np.int64)
    belongs = np.where(graph.forward, of_node, of_node[graph.owner])
    memory = np.zeros((len(names), len(STRUCTURES)), np.int64)
    structure = structures_of(graph)
    values = np.array([value for value, _ in live_at(simulation, step)] if step >= 0 else [], np.int64)
    np.add.at(memory, (belongs[graph.producer[values]], structure[values]), graph.memory[values])
    if step >= 0:
        node = int(simulation.schedule.order[step])
        memory[of_node[node], WORKSPACE] += graph.workspace[node]
    _add_residents(memory, graph, belongs, place[OTHER])
    compute = _compute(simulation, of_node, len(names))
    order = sorted(range(len(names)), key=lambda i: (-int(memory[i].sum()), -int(compute[i].sum()), names[i]))
    order = [i for i in order if memory[i].any() or compute[i].any()]
    return Breakdown(
        by,
        tuple(names[i] for i in order),
        memory[order],
        compute[order],
        step,
        simulation.peak_memory,
        graph.resident_memory,
        graph.labels.compute_unit,
        graph.labels.compute_scale,
    )


def layer_type(name: str, op: str, by: str = "layer") -> str:
    """Return the type of a forward node's layer; with `by="operation"`, the kind of its operation."""
    kind = operation_kind(op)
    if by == "operation":
        return (kind.name if kind is not None else op) or OTHER
    parts = [re.sub(r"\d+$", "", part) for part in name.lower().split(".")]
    types = [WORDS[part] for part in parts if part in WORDS]
    types += [INNER[part] for part in parts[1:] if part in INNER]
    if types:
        return min(types, key=_RANK.__getitem__)
    return kind.layer if kind is not None else OTHER


def layer_types(graph: ComputationGraph, by: str = "layer") -> tuple[str, ...]:
    """Return the `layer_type` of each node: for a gradient, that of its forward node; for an update, "optimizer"."""
    if by not in BY:
        raise GraphError("by is {by!r}; use {choices!w}", by=by, choices=" or ".join(BY))
    labels, forward = graph.labels, graph.forward
    types = [layer_type(labels[v], labels.op(v), by) if forward[v] else "" for v in range(graph.n_nodes)]
    of, updates = derivative_of(graph), optimizer_nodes(graph)
    for v in np.flatnonzero(~forward).tolist():
        types[v] = OPTIMIZER if updates[v] else types[of[v]]
    return tuple(types)


def derivative_of(graph: ComputationGraph) -> Int32:
    """Return int32[n]: for a backward node, the last forward node whose output gradients it reads; else -1."""
    last, owner = graph.owner.copy(), graph.owner[graph.producer[graph.read_indices]]
    reader = row_of(graph.read_indptr)
    backward = (owner >= 0) & ~graph.forward[reader] & ~parameter_gradients(graph)[reader]
    np.maximum.at(last, reader[backward], owner[backward])
    return last


def parameter_gradients(graph: ComputationGraph) -> Bool:
    """Return bool[n]: whether a node is the gradient of a parameter p, named `grad(p)` or `grad(p)@w`."""
    flags = np.zeros(graph.n_nodes, bool)
    if graph.resident is None or graph.forward_of is None:
        return flags
    parameter = ROLES.index("parameter")
    prefixes = {f"grad({p}" for p, r in zip(graph.resident.names, graph.resident.role, strict=True) if r == parameter}
    names = graph.node_names()
    for v in np.flatnonzero(~graph.forward).tolist():
        name = names[v]
        flags[v] = (name[:-1] in prefixes and name[-1] == ")") or (")@" in name and name.partition(")@")[0] in prefixes)
    return flags


def optimizer_nodes(graph: ComputationGraph) -> Bool:
    """Return bool[n]: in a graph with gradients of parameters, the backward nodes that are not gradients."""
    flags = np.zeros(graph.n_nodes, bool)
    if not parameter_gradients(graph).any():
        return flags
    names = graph.node_names()
    for v in np.flatnonzero(~graph.forward).tolist():
        flags[v] = not names[v].startswith("grad(")
    return flags


def structures_of(graph: ComputationGraph) -> Int8:
    """Return int8[n_values]: the index in `STRUCTURES` of each value's data structure."""
    readers = ~graph.forward[row_of(graph.read_indptr)]
    mapped = np.zeros(graph.n_values, bool)
    mapped[graph.read_indices[readers]] = True
    weights = parameter_gradients(graph) | optimizer_nodes(graph)
    forward, of_weights = graph.forward[graph.producer], weights[graph.producer]
    return np.where(
        forward,
        np.where(mapped, FEATURE_MAPS, VALUES),
        np.where(of_weights, WEIGHTS, GRADIENTS),
    ).astype(np.int8)


def _simulation_of(subject: Plan | Simulation | ComputationGraph) -> Simulation:
    if isinstance(subject, Plan):
        return subject.simulation
    if isinstance(subject, ComputationGraph):
        return baseline(subject)
    check_kind(subject, Plan, "subject", Simulation, ComputationGraph)
    return subject


def _add_residents(memory: Int64, graph: ComputationGraph, belongs: Int64, unread: int) -> None:
    resident = graph.resident
    if resident is None:
        return
    first = np.full(resident.memory.size, graph.n_nodes)
    np.minimum.at(first, resident.read_indices, row_of(resident.read_indptr))
    structure = np.where(resident.role == ROLES.index("input"), INPUTS, WEIGHTS)
    np.add.at(memory, (np.append(belongs, unread)[first], structure), resident.memory)


def _compute(simulation: Simulation, of_node: Int64, n_types: int) -> Int64:
    graph, order = simulation.graph, simulation.schedule.order
    part = np.where(simulation.schedule.first_run, np.where(graph.forward[order], 0, 1), 2)
    compute = np.zeros((n_types, len(PARTS)), np.int64)
    np.add.at(compute, (of_node[order], part), graph.compute[order])
    return compute
