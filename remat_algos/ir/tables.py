"""A graph as rows that use names: what every text format is read into, and written from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from remat_algos.ir.resident import ROLES

if TYPE_CHECKING:
    from remat_algos.ir.graph import ComputationGraph

Number = int | Decimal


@dataclass(slots=True)
class ValueRow:
    """A value of a node; without a name it is called by its place, without `grad_memory` its gradient is as large."""

    memory: Number = 1
    name: str | None = None
    output: bool = False
    grad_memory: Number | None = None
    view_of: str | None = None


@dataclass(slots=True)
class NodeRow:
    """A node; `saved` None: its gradient reads all reads and values of the node."""

    name: str
    op: str = ""
    compute: Number = 1
    workspace: Number = 0
    once: bool = False
    mark: int = 0
    reads: list[str] = field(default_factory=list)
    values: list[ValueRow] = field(default_factory=list)
    saved: list[str] | None = None
    grad_compute: Number = -1
    grad_workspace: Number = 0
    gradient_of: str | None = None
    line: int = 0

    def value_name(self, place: int) -> str:
        """The name of the value at a place."""
        return self.values[place].name or (f"{self.name}:{place}" if place else self.name)


@dataclass(slots=True)
class ResidentRow:
    """An input, a parameter or a state, and the nodes that read it."""

    name: str
    memory: Number
    role: str = "input"
    readers: list[str] = field(default_factory=list)
    line: int = 0


@dataclass(slots=True)
class Tables:
    """Rows of a graph, in any order.

    Parameters
    ----------
    backward : {"none", "to come", "present"}
        Whether gradients are not spoken of, described by the rows, or nodes themselves (`gradient_of`).
    views : mapping of str to str
        Views contracted before, to the names of their bases.
    compute_scale : int, optional
        The rows' compute is this many times the true one; by default found from their decimals.
    source : str
        The file, for messages.
    unsized, uncosted : sequence of str
        Nodes with a value that the file gives no size, which counts as 1 byte, and nodes that it gives no cost.
    """

    nodes: list[NodeRow]
    residents: list[ResidentRow] = field(default_factory=list)
    backward: str = "none"
    views: Mapping[str, str] = field(default_factory=dict)
    compute_unit: str = ""
    compute_scale: int | None = None
    derivation: dict[str, Any] | None = None
    source: str = "graph"
    unsized: Sequence[str] = ()
    uncosted: Sequence[str] = ()

    @classmethod
    def of(cls, graph: ComputationGraph) -> Tables:
        """The rows of a graph, in id order."""
        names = [graph.value_name(x) for x in range(graph.n_values)]
        backward, forward_of = graph.backward, graph.forward_of
        own_names, output, memory = graph.labels.value_names, graph.output.tolist(), graph.memory.tolist()
        values = [ValueRow(memory[x], own_names.get(x), output[x]) for x in range(graph.n_values)]
        nodes = [
            NodeRow(
                name=graph.labels[v],
                op=graph.labels.op(v),
                compute=int(graph.compute[v]),
                workspace=int(graph.workspace[v]),
                once=bool(graph.once[v]),
                mark=int(graph.mark[v]) if graph.mark is not None else 0,
                reads=[names[x] for x in graph.reads(v)],
                values=[values[x] for x in graph.values(v)],
                gradient_of=graph.labels[forward_of[v]] if forward_of is not None and forward_of[v] >= 0 else None,
            )
            for v in range(graph.n_nodes)
        ]
        if backward is not None:
            for x, size in enumerate(backward.grad_memory.tolist()):
                values[x].grad_memory = None if size == memory[x] else size
            for v, node in enumerate(nodes):
                node.saved = [names[x] for x in backward.saved(v)]
                node.grad_compute = int(backward.grad_compute[v])
                node.grad_workspace = int(backward.grad_workspace[v])
        return cls(
            nodes=nodes,
            residents=_resident_rows(graph),
            backward="present" if forward_of is not None else "none" if backward is None else "to come",
            views=graph.labels.views,
            compute_unit=graph.labels.compute_unit,
            compute_scale=graph.labels.compute_scale,
            derivation=graph.derivation.record() if graph.derivation is not None else None,
        )


def _resident_rows(graph: ComputationGraph) -> list[ResidentRow]:
    if graph.resident is None:
        return []
    rows = [
        ResidentRow(name, size, ROLES[role])
        for name, size, role in zip(
            graph.resident.names, graph.resident.memory.tolist(), graph.resident.role.tolist(), strict=True
        )
    ]
    for v in range(graph.n_nodes):
        for r in graph.resident.reads(v):
            rows[r].readers.append(graph.labels[v])
    return rows
