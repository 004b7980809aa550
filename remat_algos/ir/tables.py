"""A graph as rows that use names; every text format is read into them and written from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

Number = int | Decimal


@dataclass(slots=True)
class ValueRow:
    """A value of a node; `name` defaults to its place, `grad_memory` to its own size."""

    memory: Number = 1
    name: str | None = None
    output: bool = False
    grad_memory: Number | None = None
    view_of: str | None = None


@dataclass(slots=True)
class NodeRow:
    """A node; `saved` None: its gradient reads all reads and values of the node.

    `backward`: it belongs to the backward part, but to no single forward node.
    """

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
    backward: bool = False
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
        Gradients are absent, described by the rows, or nodes themselves (`gradient_of`, `backward`).
    views : mapping of str to str
        Views contracted before, to the names of their bases.
    compute_scale : int, optional
        Factor between the rows' compute and the true one; by default from their decimals.
    source : str
        The file, for messages.
    unsized, uncosted : sequence of str
        Nodes with a value that the file gives no size, which counts as 1 byte, and nodes that it gives no cost.
    ignored : sequence of str
        Columns, keys or attributes of the file without a meaning here.
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
    ignored: Sequence[str] = ()
