"""Names of the nodes and values of a graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from remat_algos.errors import GraphError
from remat_algos.ir.arrays import Int32, brief, by_fields, frozen
from remat_algos.text.units import format_compute
from remat_algos.text.wording import shortened

if TYPE_CHECKING:
    from remat_algos.ir.graph import ComputationGraph

KEEP, RECOMPUTE = 1, 2  # the user's marks on nodes

_NOTHING: Mapping[int, str] = MappingProxyType({})
_NO_VIEWS: Mapping[str, str] = MappingProxyType({})

OF_LOSS, OF_ALL = -1, -2


@dataclass(frozen=True, slots=True, eq=False)
class GradientNames:
    """Names of the nodes of a graph and, after them, of its gradients, made on first use.

    Parameters
    ----------
    graph : ComputationGraph
        The forward part.
    target : int32[g]
        What each gradient is of: a value or, from `n_values` on, a resident.
    reader : int32[g]
        The node w that is last in a sum: `grad(x)@w`. `OF_LOSS`: `grad(x)@loss`; `OF_ALL`, the whole sum: `grad(x)`.
    """

    graph: ComputationGraph
    target: Int32
    reader: Int32

    __repr__ = brief
    __reduce__ = by_fields

    def __post_init__(self) -> None:
        object.__setattr__(self, "target", frozen(self.target, np.int32))
        object.__setattr__(self, "reader", frozen(self.reader, np.int32))

    def __len__(self) -> int:
        return self.graph.n_nodes + self.target.shape[0]

    def __getitem__(self, node: int) -> str:
        labels, i = self.graph.labels, node - self.graph.n_nodes
        if i < 0:
            return labels[node]
        w = int(self.reader[i])
        last = "" if w == OF_ALL else "@loss" if w == OF_LOSS else f"@{labels[w]}"
        return f"grad({self.of(i)}){last}"

    def __iter__(self) -> Iterator[str]:
        nodes = self.graph.node_names()
        of = [*self.graph.value_names(), *self.graph.resident_names]
        last = [*(f"@{name}" for name in nodes), "", "@loss"]  # OF_ALL and OF_LOSS are places from the end
        yield from nodes
        for x, w in zip(self.target.tolist(), self.reader.tolist(), strict=True):
            yield f"grad({of[x]}){last[w]}"

    def of(self, gradient: int) -> str:
        """The value or parameter that a gradient is of."""
        x, n_values = int(self.target[gradient]), self.graph.n_values
        return self.graph.value_name(x) if x < n_values else self.graph.resident_names[x - n_values]

    @property
    def distinct(self) -> bool:
        """Whether no gradient can be called as anything else: no name looks like theirs, and `@loss` is no node."""
        labels = self.graph.labels
        given = chain(("",), labels.names or (), labels.value_names.values(), self.graph.resident_names, labels.views)
        lines = "\n".join(given)
        begun = np.isin(self.target, self.target[self.reader == OF_LOSS])
        readers = self.reader[begun & (self.reader >= 0)].tolist()
        return "\ngrad(" not in lines and ")@" not in lines and all(labels[w] != "loss" for w in readers)


@dataclass(frozen=True, slots=True, eq=False)
class Labels:
    """Names of nodes and values, operations, views that were contracted, and the unit of compute.

    Without names a node is called by its id. Value 0 of a node is called as the node is, value k `v:k`,
    unless `value_names` has another name.

    Parameters
    ----------
    names : tuple of str or GradientNames, optional
        One per node, all different.
    value_names : mapping of int to str
        Names of values, by value id, where they differ from the rule.
    ops : tuple of str, optional
        The kind of operation of each node, "" where unknown.
    views : mapping of str to str
        Name of each view that was contracted, to the name of its base value or resident.
    compute_unit : str
        "ns", "FLOPs", ...; "" if unknown.
    compute_scale : int
        The graph's compute is this many times the number that was read.

    Examples
    --------
    >>> Labels(names=("conv", "relu"))[1]
    'relu'
    >>> Labels()[1]
    '1'
    """

    names: tuple[str, ...] | GradientNames | None = None
    value_names: Mapping[int, str] = field(default_factory=lambda: _NOTHING)
    ops: tuple[str, ...] | None = None
    views: Mapping[str, str] = field(default_factory=lambda: _NO_VIEWS)
    compute_unit: str = ""
    compute_scale: int = 1

    __repr__ = brief
    __reduce__ = by_fields

    def __post_init__(self) -> None:
        for name in ("value_names", "views"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))
        names = () if isinstance(self.names, GradientNames) else self.names
        for what, given in (
            ("names", names),
            ("ops", self.ops),
            ("value_names", self.value_names.values()),
            ("views", (*self.views, *self.views.values())),
            ("compute_unit", (self.compute_unit,)),
        ):
            if isinstance(given, str) or not all(issubclass(each, str) for each in set(map(type, given or ()))):
                raise GraphError(f"the {what} of labels are not all text; give a sequence of str")
        if isinstance(self.compute_scale, bool) or not isinstance(self.compute_scale, int) or self.compute_scale < 1:
            raise GraphError(f"compute_scale is {shortened(repr(self.compute_scale))}; give a whole number, 1 or more")

    def __getitem__(self, node: int) -> str:
        return self.names[node] if self.names is not None else str(int(node))

    def value(self, value: int, node: int, place: int) -> str:
        """The name of a value that stands at `place` among those of its node."""
        if value in self.value_names:
            return self.value_names[value]
        return f"{self[node]}:{place}" if place else self[node]

    def op(self, node: int) -> str:
        """The kind of operation of a node, "" if unknown."""
        return self.ops[node] if self.ops is not None else ""

    def compute(self, amount: int) -> str:
        """Compute in the unit that was read, scaled for reading."""
        return format_compute(amount / self.compute_scale if self.compute_scale != 1 else amount, self.compute_unit)
