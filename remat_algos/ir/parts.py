"""Optional parts of a graph: labels, residents, what gradients save and cost, and the origin of a derived graph."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import chain
from types import MappingProxyType
from typing import Any

import numpy as np

from remat_algos.arguments import as_list, as_text, as_whole_number, check_kind, checked_arguments
from remat_algos.errors import ArgumentError, GraphError
from remat_algos.ir.arrays import (
    Int8,
    Int32,
    Int64,
    brief,
    by_fields,
    check_indptr,
    check_sizes,
    frozen,
    repeats,
    row,
    row_of,
    sizes,
    sorted_rows,
    wrong_length,
)
from remat_algos.text.amounts import format_compute

KEEP, RECOMPUTE = 1, 2  # marks of nodes

_NOTHING: Mapping[int, str] = MappingProxyType({})
_NO_VIEWS: Mapping[str, str] = MappingProxyType({})

OF_LOSS, OF_ALL = -1, -2


@dataclass(frozen=True, slots=True, eq=False)
class Labels:
    """The names of nodes, values and views, the operations, and the unit of compute.

    Without names, a node is called by its id. By default the first value of a node has the node's name, and value k > 0
    of node `v` is called `v:k`; `value_names` contains the exceptions.

    Parameters
    ----------
    names : tuple of str or GradientNames, optional
        One per node, without duplicates.
    value_names : mapping of int to str
        Names by value id, for values whose name differs from the default.
    ops : tuple of str, optional
        Operation of each node, "" if unknown.
    views : mapping of str to str
        Maps views to their bases, by name. A base is a value or a resident. Views that are values are not included.
    compute_unit : str
        "ns", "FLOPs", ...; "" if unknown.
    compute_scale : int
        Factor by which the compute in the input was multiplied.

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
            check_kind(getattr(self, name), Mapping, name)  # type: ignore[type-abstract]
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))
        names = () if isinstance(self.names, GradientNames) else self.names
        for what, texts in (
            ("names", names),
            ("ops", self.ops),
            ("value_names", self.value_names.values()),
            ("views", (*self.views, *self.views.values())),
            ("compute_unit", (self.compute_unit,)),
        ):
            entries = [] if texts is None else as_list(texts, what, letters=True)
            if isinstance(texts, str) or not all(issubclass(each, str) for each in set(map(type, entries))):
                raise GraphError("the {what!w} of labels are not all text; give a sequence of str", what=what)
        if isinstance(self.compute_scale, bool) or not isinstance(self.compute_scale, int) or self.compute_scale < 1:
            wrong = "compute_scale is {compute_scale!r}; give a whole number, 1 or more"
            raise GraphError(wrong, compute_scale=self.compute_scale)

    def __getitem__(self, node: int) -> str:
        return self.names[node] if self.names is not None else str(int(node))

    @checked_arguments
    def names_of(self, nodes: Iterable[int]) -> list[str]:
        """Return the names of these nodes; an empty list if nodes have only ids.

        Examples
        --------
        >>> Labels(names=("conv", "relu")).names_of([1]), Labels().names_of([1])
        (['relu'], [])
        """
        return [] if self.names is None else [self.names[node] for node in nodes]

    def value(self, value: int, node: int, place: int) -> str:
        """Return the name of a value; `place` is its index among the values of its node."""
        if as_whole_number(value, "value") in self.value_names:
            return self.value_names[value]
        return f"{self[node]}:{place}" if place else self[node]

    def of_nodes(self, n_nodes: int) -> list[str]:
        """Return the names of all nodes in id order."""
        return list(map(str, range(n_nodes)) if self.names is None else self.names)

    def of_values(self, value_indptr: Int64) -> list[str]:
        """Return the names of all values in id order."""
        value_indptr = frozen(value_indptr, np.int64, "value_indptr")
        nodes = self.of_nodes(value_indptr.shape[0] - 1)
        if len(nodes) != value_indptr.shape[0] - 1:
            wrong = "there are names for {n_names} nodes, but value_indptr describes {n_nodes}"
            raise GraphError(wrong, n_names=len(nodes), n_nodes=value_indptr.shape[0] - 1)
        counts = zip(nodes, np.diff(value_indptr).tolist(), strict=True)
        names = [f"{node}:{k}" if k else node for node, count in counts for k in range(count)]
        for x, name in self.value_names.items():
            names[x] = name
        return names

    def op(self, node: int) -> str:
        """Return the operation of a node, "" if unknown."""
        return self.ops[node] if self.ops is not None else ""

    @checked_arguments
    def compute(self, amount: float) -> str:
        """Format an amount of compute in its original unit, with a readable prefix."""
        if not math.isfinite(amount):
            raise ArgumentError("amount is {amount}; give a number", amount=amount)
        return format_compute(amount / self.compute_scale if self.compute_scale != 1 else amount, self.compute_unit)


@dataclass(frozen=True, slots=True, eq=False)
class GradientNames:
    """Names of a graph's nodes followed by those of its gradients, computed on first use.

    `labels` and `value_indptr` belong to the forward part. Targets are values or, from `n_values` on, residents. The
    partial sum of x's gradient that ends with the term of reader w is called `grad(x)@w`. Two special readers are
    `OF_ALL` for the complete sum, `grad(x)`, and `OF_LOSS` for `grad(x)@loss`.
    """

    labels: Labels
    value_indptr: Int64
    residents: tuple[str, ...]
    target: Int32
    reader: Int32

    __repr__ = brief
    __reduce__ = by_fields

    def __post_init__(self) -> None:
        object.__setattr__(self, "value_indptr", frozen(self.value_indptr, np.int64))
        object.__setattr__(self, "target", frozen(self.target, np.int32))
        object.__setattr__(self, "reader", frozen(self.reader, np.int32))

    def __len__(self) -> int:
        return self.n_nodes + self.target.shape[0]

    def __getitem__(self, node: int) -> str:
        i = node - self.n_nodes
        if i < 0:
            return self.labels[node]
        w = int(self.reader[i])
        last = "" if w == OF_ALL else "@loss" if w == OF_LOSS else f"@{self.labels[w]}"
        return f"grad({self.of(i)}){last}"

    def __iter__(self) -> Iterator[str]:
        nodes = self.labels.of_nodes(self.n_nodes)
        of = [*self.labels.of_values(self.value_indptr), *self.residents]
        last = [*(f"@{name}" for name in nodes), "", "@loss"]  # OF_ALL is -2, OF_LOSS -1
        yield from nodes
        for x, w in zip(self.target.tolist(), self.reader.tolist(), strict=True):
            yield f"grad({of[x]}){last[w]}"

    def of(self, gradient: int) -> str:
        """Return the name of the value or parameter that a gradient belongs to."""
        x, n_values = int(self.target[gradient]), int(self.value_indptr[-1])
        if x >= n_values:
            return self.residents[x - n_values]
        node = int(np.searchsorted(self.value_indptr, x, side="right")) - 1
        return self.labels.value(x, node, x - int(self.value_indptr[node]))

    @property
    def n_nodes(self) -> int:
        """Number of nodes in the forward part."""
        return int(self.value_indptr.shape[0] - 1)

    @property
    def distinct(self) -> bool:
        """True if gradient names are unique: no other name has their form, and no reader of a loss is called `loss`."""
        labels = self.labels
        names = chain(("",), labels.names or (), labels.value_names.values(), self.residents, labels.views)
        lines = "\n".join(names)
        begun = np.isin(self.target, self.target[self.reader == OF_LOSS])
        readers = self.reader[begun & (self.reader >= 0)].tolist()
        return "\ngrad(" not in lines and ")@" not in lines and all(labels[w] != "loss" for w in readers)


def plain_labels(labels: Labels, value_indptr: Int64) -> Labels:
    """Remove default names and empty ops, so that equal graphs have equal hashes."""
    names = labels.names
    if not isinstance(names, GradientNames | None):
        names = tuple(names)
        names = None if all(name == str(v) for v, name in enumerate(names)) else names
    ops = tuple(op.strip() for op in labels.ops) if labels.ops is not None and any(labels.ops) else None
    plain = replace(labels, names=names, ops=ops, value_names={})
    own = {}
    if names is None or len(names) == value_indptr.size - 1:
        owners = np.searchsorted(value_indptr, list(labels.value_names), side="right") - 1
        for (x, name), v in zip(labels.value_names.items(), owners.tolist(), strict=True):
            inside = 0 <= v < value_indptr.size - 1
            if not inside or name != plain.value(x, v, x - int(value_indptr[v])):
                own[x] = name
    return replace(plain, value_names=own)


def check_labels(labels: Labels, value_indptr: Int64, residents: Sequence[str]) -> None:
    """Raise GraphError unless names of nodes, values, residents and views are printable and distinct."""
    n, n_values = value_indptr.shape[0] - 1, int(value_indptr[-1])
    if not all(op.isprintable() for op in labels.ops or ()):
        op = next(op for op in labels.ops or () if not op.isprintable())
        raise GraphError("op {op!r} has characters that cannot be printed; remove them", op=op)
    if labels.compute_unit != labels.compute_unit.strip() or not labels.compute_unit.isprintable():
        wrong = "compute_unit {unit!r} has spaces around it, or cannot be printed; give it a plain name"
        raise GraphError(wrong, unit=labels.compute_unit)
    if _distinct_by_rule(labels, residents):
        return
    for x in labels.value_names:
        if not 0 <= x < n_values:
            raise GraphError("value_names has value {x}, expected values from 0 to {last}", x=x, last=n_values - 1)
    names = labels.of_nodes(n)
    node_of = {name: v for v, name in enumerate(names)}
    for name in (*node_of, *labels.value_names.values(), *residents, *labels.views):
        if not name or name != name.strip() or not name.isprintable():
            wrong = "{name!r} is not a valid name: it is empty, has spaces around it, or cannot be printed"
            raise GraphError(wrong, name=name)
    if len(node_of) != n:
        twice = next(name for v, name in enumerate(names) if node_of[name] != v)
        raise GraphError("two nodes are called {twice!r}; give each its own name", twice=twice)
    seen = set()
    for x, name in enumerate(labels.of_values(value_indptr) if labels.value_names or n_values > n else ()):
        own_first = name in node_of and x == value_indptr[node_of[name]]
        if name in seen or (name in node_of and not own_first):
            raise GraphError("two values are called {name!r}; give each its own name", name=name)
        seen.add(name)
    for name in residents:
        if name in node_of or name in seen:
            raise GraphError("a resident and a node or value are both called {name!r}; rename one", name=name)
        seen.add(name)
    _check_views(labels, value_indptr, node_of, seen)


def _distinct_by_rule(labels: Labels, residents: Sequence[str]) -> bool:
    """Return True if names cannot clash: nodes have only ids, or only gradients were added to a checked graph."""
    names = labels.names
    others = (labels.value_names, labels.views, tuple(residents))
    if not isinstance(names, GradientNames):
        return names is None and not any(others)
    return names.distinct and others == (names.labels.value_names, names.labels.views, names.residents)


def _check_views(labels: Labels, value_indptr: Int64, node_of: Mapping[str, int], seen: Container[str]) -> None:
    for name, base in labels.views.items():
        if base not in node_of and base not in seen:
            wrong = "{name!r} is a view of {base!r}, which is not a node, value or resident"
            raise GraphError(wrong, name=name, base=base)
        v = node_of.get(name, -1)
        first = labels.value(int(value_indptr[v]), v, 0) if v >= 0 else None
        if name in seen or first == name:
            raise GraphError("a view and a node or value are both called {name!r}; rename one", name=name)


ROLES = ("input", "parameter", "state")
INPUT = ROLES.index("input")


@dataclass(frozen=True, slots=True, eq=False)
class Resident:
    """Inputs, parameters and states, which stay in memory throughout, regardless of the plan.

    Parameters
    ----------
    memory : int64[r]
        Bytes of each resident.
    role : int8[r]
        Index into `ROLES`.
    read_indptr : int64[n + 1]
    read_indices : int32[k]
        Row v contains the residents that node v reads, sorted.
    names : tuple of str
        One per resident, without duplicates.
    """

    memory: Int64
    role: Int8
    read_indptr: Int64
    read_indices: Int32
    names: tuple[str, ...]

    __repr__ = brief
    __reduce__ = by_fields

    def __post_init__(self) -> None:
        object.__setattr__(self, "memory", sizes(self.memory, "resident memory"))
        size = self.memory.shape[0]
        object.__setattr__(self, "role", frozen(self.role, np.int8, "resident role", size, "resident"))
        object.__setattr__(self, "read_indptr", frozen(self.read_indptr, np.int64, "resident read_indptr"))
        object.__setattr__(self, "read_indices", frozen(self.read_indices, np.int32, "resident read_indices"))
        object.__setattr__(self, "names", tuple(as_list(self.names, "names", as_text)))
        check_sizes(self.memory, "resident memory")
        rows = max(self.read_indptr.shape[0] - 1, 0)
        check_indptr(self.read_indptr, rows, self.read_indices.shape[0], "resident read_indptr")
        if len(self.names) != size or len(set(self.names)) != size:
            wrong = "{size} residents have {n_names} different names; give each its own name"
            raise GraphError(wrong, size=size, n_names=len(set(self.names)))
        if size and (self.role.min() < 0 or self.role.max() >= len(ROLES)):
            wrong = "a resident's role must be a number from 0 to {last} (in this order: {roles!w})"
            raise GraphError(wrong, last=len(ROLES) - 1, roles=", ".join(ROLES))
        if self.read_indices.size and not 0 <= self.read_indices.min() <= self.read_indices.max() < size:
            raise GraphError("a node reads an unknown resident; residents are 0 to {size}", size=size - 1)
        if (row := repeats(self.read_indptr, self.read_indices)) >= 0:
            raise GraphError("node {row} reads a resident twice; list it once", row=row)
        object.__setattr__(self, "read_indices", sorted_rows(self.read_indptr, self.read_indices))

    def reads(self, node: int) -> list[int]:
        """Return the residents that a node reads."""
        return row(self.read_indptr, self.read_indices, node, "node")

    def changeable_reads(self) -> tuple[Int32, Int32]:
        """Return pairs of a node and a parameter or state that it reads, as (int32[k], int32[k])."""
        changeable = self.role[self.read_indices] != INPUT
        return row_of(self.read_indptr, np.int32)[changeable], self.read_indices[changeable]


@dataclass(frozen=True, slots=True, eq=False)
class Backward:
    """Costs and sizes of the gradients of a forward graph of n nodes, and the values that they read.

    Parameters
    ----------
    saved_indptr : int64[n + 1]
    saved_indices : int32[k]
        Row v contains, sorted, those values that v reads or computes and that the gradient of v reads too.
    grad_memory : int64[n_values]
        Bytes of the gradient of each value, -1 if it has none.
    grad_compute : int64[n]
        Cost of the gradient of each node; -1 means `factor` times the compute of the node.
    grad_workspace : int64[n]
        Scratch bytes of every node that computes a gradient of v.
    """

    saved_indptr: Int64
    saved_indices: Int32
    grad_memory: Int64
    grad_compute: Int64
    grad_workspace: Int64

    __repr__ = brief
    __reduce__ = by_fields

    def __post_init__(self) -> None:
        for name, dtype in (("saved_indptr", np.int64), ("saved_indices", np.int32), ("grad_compute", np.int64)):
            object.__setattr__(self, name, frozen(getattr(self, name), dtype, name))
        for name in ("grad_memory", "grad_workspace"):
            object.__setattr__(self, name, sizes(getattr(self, name), name))
        n = self.grad_compute.shape[0]
        check_indptr(self.saved_indptr, n, self.saved_indices.shape[0], "saved_indptr")
        if self.grad_workspace.shape[0] != n:
            raise wrong_length("grad_workspace", self.grad_workspace.shape[0], n, "node")
        check_sizes(self.grad_workspace, "grad_workspace")
        for name in ("grad_memory", "grad_compute"):
            if (below := np.flatnonzero(getattr(self, name) < -1)).size:
                raise GraphError(
                    "{what!w}[{at}] is {amount}, expected {expected!w}, or -1 for none",
                    what=name,
                    at=below[0],
                    amount=getattr(self, name)[below[0]],
                    expected="bytes" if name == "grad_memory" else "a cost",
                )
            check_sizes(np.maximum(getattr(self, name), 0), name)
        if (row := repeats(self.saved_indptr, self.saved_indices)) >= 0:
            raise GraphError("the gradient of node {row} lists a value twice in saved_indices; list it once", row=row)
        object.__setattr__(self, "saved_indices", sorted_rows(self.saved_indptr, self.saved_indices))

    def saved(self, node: int) -> list[int]:
        """Return the values that the gradient of a node reads."""
        return row(self.saved_indptr, self.saved_indices, node, "node")


def check_saved(backward: Backward, read_indptr: Int64, read_indices: Int32, producer: Int32, labels: Labels) -> None:
    """Raise GraphError unless each gradient saves only values that its node reads or computes."""
    n_values = producer.shape[0]
    if backward.grad_memory.shape[0] != n_values:
        raise wrong_length("grad_memory", backward.grad_memory.shape[0], n_values, "value")
    saved, node = backward.saved_indices, row_of(backward.saved_indptr)
    if saved.size and not 0 <= saved.min() <= saved.max() < n_values:
        at = int(np.argmax((saved < 0) | (saved >= n_values)))
        wrong = "saved_indices[{at}] is {saved}, expected values from 0 to {last}"
        raise GraphError(wrong, at=at, saved=saved[at], last=n_values - 1)
    reader = row_of(read_indptr)
    own = producer[saved] == node
    read = np.isin(node * n_values + saved, reader * n_values + read_indices)
    if not (own | read).all():
        at = int(np.argmin(own | read))
        wrong = "the gradient of {name} saves value {saved}, which the node neither reads nor computes"
        raise GraphError(wrong, name=labels[int(node[at])], saved=saved[at])


@dataclass(frozen=True, slots=True)
class Derivation:
    """Origin of a differentiated graph: the hash of its source, and the options of `differentiate`."""

    source_hash: str
    options: Mapping[str, Any]

    @classmethod
    def of(cls, record: Any, source: str) -> Derivation:
        """Read a JSON record; raise GraphError, which names the file, if it is invalid."""
        if (
            not isinstance(record, dict)
            or record.keys() != {"source_hash", "options"}
            or not isinstance(record["source_hash"], str)
            or not isinstance(record["options"], dict)
        ):
            wrong = '{source!p}: "derivation" is damaged; expected "source_hash" and "options"'
            raise GraphError(wrong, source=source)
        return cls(record["source_hash"], _without_decimals(record["options"]))

    def record(self) -> dict[str, Any]:
        """Return the JSON record."""
        return {"source_hash": self.source_hash, "options": dict(self.options)}


def _without_decimals(entry: Any) -> Any:
    if isinstance(entry, dict):
        return {name: _without_decimals(each) for name, each in entry.items()}
    if isinstance(entry, list):
        return [_without_decimals(each) for each in entry]
    return float(entry) if isinstance(entry, Decimal) else entry
