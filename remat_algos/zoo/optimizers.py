"""Optimizers: their states, and the nodes that update parameters after the gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from remat_algos.errors import GraphError
from remat_algos.ir.arrays import Int32, Int64
from remat_algos.ir.differentiate import PARAMETER
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.parts import ROLES, Labels, Resident
from remat_algos.zoo.settings import offer

STATE = ROLES.index("state")


class UpdateStep(NamedTuple):
    """An operation that is part of the update of a parameter p; `reads` and `writes` are names.

    The name `p` means the parameter, `m` the state `m(p)`, `m@new` the value `m(p)@new`. A write to `p` makes no value.
    """

    name: str
    op: str
    reads: tuple[str, ...]
    writes: tuple[str, ...] = ()


_MOMENTS = (
    UpdateStep("m@decayed", "Scale", ("m",)),
    UpdateStep("m@gradient", "Scale", ("grad",)),
    UpdateStep("m@new", "Add", ("m@decayed", "m@gradient"), ("m",)),
    UpdateStep("v@decayed", "Scale", ("v",)),
    UpdateStep("v@square", "Square", ("grad",)),
    UpdateStep("v@gradient", "Scale", ("v@square",)),
    UpdateStep("v@new", "Add", ("v@decayed", "v@gradient"), ("v",)),
    UpdateStep("m@corrected", "Scale", ("m@new",)),
    UpdateStep("v@corrected", "Scale", ("v@new",)),
    UpdateStep("v@root", "Sqrt", ("v@corrected",)),
    UpdateStep("v@shifted", "Add", ("v@root",)),
    UpdateStep("step@ratio", "Divide", ("m@corrected", "v@shifted")),
)
_UPDATE = UpdateStep("update", "Subtract", ("p", "step"), ("p",))


@dataclass(frozen=True, slots=True)
class Optimizer:
    """An optimizer: the names of its states, which have the size of the parameter, and the operations of an update."""

    name: str
    op: str
    states: tuple[str, ...]
    steps: tuple[UpdateStep, ...]

    @property
    def flops(self) -> int:
        """Number of floating-point operations of an update, per element."""
        return len(self.steps)

    @property
    def fused(self) -> UpdateStep:
        """The update as one operation."""
        return UpdateStep("update", self.op, ("p", *self.states, "grad"), ("p", *self.states))


OPTIMIZERS = {
    optimizer.name: optimizer
    for optimizer in (
        Optimizer("sgd", "SGD", (), (UpdateStep("step", "Scale", ("grad",)), _UPDATE)),
        Optimizer(
            "momentum",
            "Momentum",
            ("momentum",),
            (
                UpdateStep("momentum@decayed", "Scale", ("momentum",)),
                UpdateStep("momentum@new", "Add", ("momentum@decayed", "grad"), ("momentum",)),
                UpdateStep("step", "Scale", ("momentum@new",)),
                _UPDATE,
            ),
        ),
        Optimizer("adam", "Adam", ("m", "v"), (*_MOMENTS, UpdateStep("step", "Scale", ("step@ratio",)), _UPDATE)),
        Optimizer(
            "adamw",
            "AdamW",
            ("m", "v"),
            (
                *_MOMENTS,
                UpdateStep("step@decay", "Scale", ("p",)),
                UpdateStep("step@sum", "Add", ("step@ratio", "step@decay")),
                UpdateStep("step", "Scale", ("step@sum",)),
                _UPDATE,
            ),
        ),
    )
}


def optimizer_of(op: str) -> Optimizer | None:
    """Return the optimizer whose fused update is this operation, or None."""
    return next((optimizer for optimizer in OPTIMIZERS.values() if optimizer.op == op), None)


def with_optimizer(
    graph: ComputationGraph,
    optimizer: str,
    *,
    primitive: bool = False,
    cost: Callable[[str, int, int], int] | None = None,
) -> ComputationGraph:
    """Append the update of each parameter to a training graph, in the order in which gradients are finished.

    `update(p)` reads `grad(p)`, p and its optimizer states, which become residents (`m(p)`, `v(p)`), and changes p and
    the states in place. A node of an update that reads or changes a parameter or state must run only once. Only the id
    order ensures that a parameter is read before it changes. Updates become outputs, and the gradients that they read
    are no longer outputs. With `primitive`, an update has one node per element-wise operation, each with a value of the
    size of the parameter, as without fusion. `cost` is a function of the name of the operation, the bytes of the
    parameter and the bytes moved; by default each node costs 1.
    """
    if optimizer not in OPTIMIZERS:
        raise GraphError(
            "unknown optimizer {optimizer!r}; {offer!w}", optimizer=optimizer, offer=offer(optimizer, OPTIMIZERS)
        )
    chosen = OPTIMIZERS[optimizer]
    updates = _Updates.of(graph, chosen.states)
    steps = chosen.steps if primitive else (chosen.fused,)
    nodes = list(updates.nodes(steps, cost or (lambda op, size, moved: 1)))
    outputs = graph.output.copy()
    outputs[[gradient for _, gradient, _ in updates.gradients]] = False
    values = [value for node in nodes for value in node.values]
    return replace(
        graph,
        value_indptr=_longer(graph.value_indptr, [len(node.values) for node in nodes]),
        read_indptr=_longer(graph.read_indptr, [len(node.reads) for node in nodes]),
        read_indices=np.append(graph.read_indices, [x for node in nodes for x in node.reads]),
        memory=np.append(graph.memory, [size for size, _ in values]),
        compute=np.append(graph.compute, [node.compute for node in nodes]),
        workspace=np.append(graph.workspace, [0] * len(nodes)),
        once=np.append(graph.once, [bool(node.residents) for node in nodes]),
        output=np.append(outputs, [effect for _, effect in values]),
        forward_of=np.append(updates.forward_of, [node.forward_of for node in nodes]),
        resident=updates.resident(nodes),
        mark=None if graph.mark is None else np.append(graph.mark, [0] * len(nodes)),
        derivation=None,
        labels=_labels(graph.labels, graph.node_names(), nodes),
    )


@dataclass(frozen=True, slots=True)
class _Node:
    name: str
    op: str
    reads: list[int]
    residents: list[int]
    # (bytes, True for an effect)
    values: list[tuple[int, bool]]
    compute: int
    forward_of: int


@dataclass(frozen=True, slots=True, eq=False)
class _Updates:
    # (parameter, value of its gradient, forward node to which the gradient belongs)
    gradients: list[tuple[int, int, int]]
    states: tuple[str, ...]
    residents: Resident
    forward_of: Int32
    n_values: int

    @classmethod
    def of(cls, graph: ComputationGraph, states: tuple[str, ...]) -> _Updates:
        if graph.forward_of is None or not (graph.derivation and graph.derivation.options.get("parameter_gradients")):
            raise GraphError(
                "there are no gradients of parameters; call differentiate(graph, parameter_gradients=True)"
            )
        resident, value, owner = graph.resident, graph.value_indptr.tolist(), graph.forward_of.tolist()
        if resident is None or not (resident.role == PARAMETER).any():
            raise GraphError(
                "no node reads a parameter, so there is nothing to update; give residents the role parameter"
            )
        by_name = {f"grad({resident.names[p]})": int(p) for p in np.flatnonzero(resident.role == PARAMETER)}
        nodes = enumerate(graph.node_names())
        gradients = [(by_name[name], value[v], owner[v]) for v, name in nodes if name in by_name]
        if not gradients:
            raise GraphError("no loss depends on a parameter, so there is nothing to update; choose another loss")
        return cls(gradients, states, resident, graph.forward_of, graph.n_values)

    def nodes(self, steps: Sequence[UpdateStep], cost: Callable[[str, int, int], int]) -> Iterator[_Node]:
        n_values, n_residents = self.n_values, len(self.residents.names)
        for p, gradient, owner in self.gradients:
            name, size = self.residents.names[p], int(self.residents.memory[p])
            resident = {"p": p} | {state: n_residents + k for k, state in enumerate(self.states)}
            n_residents += len(self.states)
            value = {"grad": gradient}
            for step in steps:
                moved = size * (len(step.reads) + max(1, len(step.writes)))
                node = _Node(
                    name=_name(step.name, name),
                    op=step.op,
                    reads=[value[x] for x in step.reads if x in value],
                    residents=[resident[x] for x in dict.fromkeys(step.reads + step.writes) if x in resident],
                    values=[(size, False)] * ("p" not in step.writes) + [(0, True)] * bool(step.writes),
                    compute=cost(step.op, size, moved),
                    forward_of=owner,
                )
                value[step.name] = n_values
                n_values += len(node.values)
                yield node

    def resident(self, nodes: Sequence[_Node]) -> Resident:
        old, parameters = self.residents, [p for p, _, _ in self.gradients]
        sizes = np.repeat(old.memory[parameters], len(self.states))
        return Resident(
            memory=np.append(old.memory, sizes),
            role=np.append(old.role, np.full(sizes.size, STATE, np.int8)),
            read_indptr=_longer(old.read_indptr, [len(node.residents) for node in nodes]),
            read_indices=np.append(old.read_indices, [r for node in nodes for r in node.residents]),
            names=(*old.names, *(_name(state, old.names[p]) for p in parameters for state in self.states)),
        )


def _name(template: str, parameter: str) -> str:
    base, at, part = template.partition("@")
    return f"{base}({parameter}){at}{part}"


def _longer(indptr: Int64, counts: Sequence[int]) -> Int64:
    return np.append(indptr, indptr[-1] + np.cumsum(counts, dtype=np.int64))


def _labels(labels: Labels, names: Sequence[str], nodes: Sequence[_Node]) -> Labels:
    ops = labels.ops or ("",) * len(names)
    all_names = (*names, *(node.name for node in nodes))
    return replace(labels, names=all_names, ops=(*ops, *(node.op for node in nodes)))
