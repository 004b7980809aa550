"""Conversion of graphs to arrays, from rows with names (which all text formats use) or from pairs of nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import chain
from numbers import Integral
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike

from remat_algos.errors import GraphError
from remat_algos.ir.arrays import (
    LARGEST_SUM,
    Bool,
    Int32,
    Int64,
    entry_names,
    frozen,
    gather_rows,
    group_rows,
    index_of,
    indptr_of,
    numbers,
    row_of,
    select_entries,
    unique_rows,
    whole,
)
from remat_algos.ir.parts import ROLES, Backward, Labels, Resident
from remat_algos.kernels.graph import topological_order, transpose_rows
from remat_algos.text.amounts import Reading, cost_of, size_of, whole_bytes, whole_costs
from remat_algos.wording import did_you_mean

Number = int | Decimal


@dataclass(slots=True)
class ValueRow:
    """A value of a node. By default, `name` follows from its index, and `grad_memory` is its size."""

    memory: Number = 1
    name: str | None = None
    output: bool = False
    grad_memory: Number | None = None
    view_of: str | None = None


@dataclass(slots=True)
class NodeRow:
    """A node. If `saved` is None, its gradient reads everything that the node reads and computes.

    `backward` marks backward nodes that are not the gradient of one forward node, such as sums of gradients.
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
    """The rows of a graph, in any order.

    `backward` is "none" without gradients, "to come" if the rows describe gradients, and "present" if gradients are
    nodes. `views` maps the names of views to those of their bases. `compute_scale` is the factor by which costs were
    multiplied, by default derived from their decimals. `unsized` lists the nodes without a size in the file, `uncosted`
    the nodes without a cost, and `ignored` the columns, keys or attributes of the file that are not used.
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


def assemble(tables: Tables) -> dict[str, Any]:
    """Return arguments for `from_arrays`; raise GraphError with file and line for bad names, duplicates and cycles."""
    return _Assembly(tables).arrays()


class _NameIndex:
    """Maps names to numbers: 0, 1, ... for values in file order, and -1, -2, ... for residents."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.first: list[int] = [0]
        for node in tables.nodes:
            if not node.values:
                self.fail(node, "node {node!r} has no value; give it one of 0 bytes", node=node.name)
            self.first.append(self.first[-1] + len(node.values))
        self.place: dict[str, int] = {}
        self.of: dict[int, str] = {}
        self._enter(tables)
        view_of = {
            node.value_name(k): value.view_of
            for node in tables.nodes
            for k, value in enumerate(node.values)
            if value.view_of is not None
        }
        for name in tables.views:
            if name in self.place and self.of[self.place[name]] == name:
                self.fail(None, "a view and a node or value are both called {name!r}; rename one", name=name)
        view_of.update(tables.views)
        self.views = {name: self._base(name, view_of) for name in view_of}

    def fail(self, row: Any, template: str, **fields: Any) -> NoReturn:
        if row is not None and row.line:
            place = {"source": self.tables.source, "line": row.line}
            raise GraphError("{source!p}, line {line}: " + template, **place, **fields)
        raise GraphError("{source!p}: " + template, source=self.tables.source, **fields)

    def _enter(self, tables: Tables) -> None:
        for first, node in zip(self.first, tables.nodes, strict=False):
            if node.name in self.place:
                self.fail(node, "two rows are called {name!r}; give each its own name", name=node.name)
            self.place[node.name] = first
        for r, resident in enumerate(tables.residents):
            if resident.name in self.place:
                self.fail(resident, "two rows are called {name!r}; give each its own name", name=resident.name)
            self.place[resident.name] = -1 - r
            self.of[-1 - r] = resident.name
        for first, node in zip(self.first, tables.nodes, strict=False):
            for k in range(len(node.values)):
                name = node.value_name(k)
                if self.place.setdefault(name, first + k) != first + k:
                    self.fail(node, "two values are called {name!r}; give each its own name", name=name)
                self.of[first + k] = name

    def _base(self, name: str, view_of: dict[str, str]) -> int:
        seen = [name]
        while True:
            base = view_of[seen[-1]]
            canonical = self._canonical(base, view_of)
            if canonical not in view_of:
                if base not in self.place:
                    missing = "{view!r} is a view of {base!r}, which is not a node, value or resident"
                    self.fail(None, missing, view=seen[-1], base=base)
                return self.place[base]
            if canonical in seen:
                cycle = [*seen, canonical]
                self.fail(None, "views form a cycle: {cycle!c}; give one of them its own memory", cycle=cycle)
            seen.append(canonical)

    def resolve(self, row: Any, names: Iterable[str]) -> list[int]:
        numbers = []
        for name in names:
            if name not in self.place and name not in self.views:
                missing = "node {node!r} reads {value!r}, which is not a node, value or resident"
                self.fail(row, missing, node=row.name, value=name)
            canonical = self._canonical(name, self.views)
            numbers.append(self.views[canonical] if canonical in self.views else self.place[name])
        return numbers

    def _canonical(self, name: str, views: Mapping[str, Any]) -> str:
        """Return the default name of the value that a name refers to; return the name of a view unchanged."""
        return name if name in views or name not in self.place else self.of[self.place[name]]

    def resolve_rows(self, rows: Sequence[NodeRow], named: Sequence[Sequence[str]]) -> tuple[Int64, Int64]:
        indptr = indptr_of([len(names) for names in named])
        try:
            if self.views:
                raise KeyError
            numbers = np.fromiter(map(self.place.__getitem__, chain.from_iterable(named)), np.int64, int(indptr[-1]))
        except KeyError:
            # At least one name is unknown or belongs to a view.
            numbers = np.array([x for row, names in zip(rows, named, strict=True) for x in self.resolve(row, names)])
        return unique_rows(indptr, numbers.astype(np.int64))


class _Assembly:
    """Converts rows in file order to arrays. Ids are topological; a row that has only views does not get an id."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.names = names = _NameIndex(tables)
        self.first = np.array(names.first, np.int64)
        self.owner = row_of(self.first)
        rows = [value for node in tables.nodes for value in node.values]
        real = np.array([value.view_of is None for value in rows], bool)
        self.kept = np.zeros(len(tables.nodes), bool)
        self.kept[self.owner[real]] = True
        self._check_views()
        reads = [node.reads if kept else () for node, kept in zip(tables.nodes, self.kept.tolist(), strict=True)]
        self.reads = names.resolve_rows(tables.nodes, reads)
        self.order = self._topological()
        self.node_id = np.full(len(tables.nodes), -1, np.int64)
        self.node_id[self.order] = np.arange(self.order.size)
        self.nodes = [tables.nodes[i] for i in self.order.tolist()]
        flat = np.flatnonzero(real)
        self.flat = flat[np.argsort(self.node_id[self.owner[flat]], kind="stable")]
        self.value_id = np.full(real.size, -1, np.int64)
        self.value_id[self.flat] = np.arange(self.flat.size)
        self.values: list[ValueRow] = [rows[x] for x in self.flat.tolist()]
        self.value_node = self.node_id[self.owner[self.flat]]

    def _check_views(self) -> None:
        for i in np.flatnonzero(~self.kept).tolist():
            node = self.tables.nodes[i]
            if node.compute or node.workspace:
                self.names.fail(node, "{node!r} is a view with compute or workspace; set both to 0", node=node.name)

    def _topological(self) -> Int64:
        indptr, read = self.reads
        reader = row_of(indptr)
        reader, source = reader[read >= 0], self.owner[read[read >= 0]]
        n = len(self.tables.nodes)
        indptr = indptr_of(np.bincount(reader, minlength=n))
        order = topological_order(*transpose_rows(indptr, source.astype(np.int32), n))
        if order.size < n:
            self._fail_cycle(reader, source, order)
        return order[self.kept[order]].astype(np.int64)

    def _fail_cycle(self, reader: Int64, source: Int64, order: Int32) -> NoReturn:
        stuck = set(range(len(self.tables.nodes))) - set(order.tolist())
        sources: dict[int, int] = {}
        for w, u in zip(reader.tolist(), source.tolist(), strict=True):
            if w in stuck and u in stuck:
                sources.setdefault(w, u)
        path: dict[int, None] = {min(stuck & sources.keys()): None}
        u = sources[next(iter(path))]
        while u not in path:
            path[u] = None
            u = sources[u]
        places = list(path)
        names = [self.tables.nodes[i].name for i in [*places[places.index(u) :], u][::-1]]
        self.names.fail(None, "the graph has a cycle: {cycle!c}; remove one of these edges", cycle=names)

    def arrays(self) -> dict[str, Any]:
        tables, nodes = self.tables, self.nodes
        read_indptr, read = gather_rows(*self.reads, self.order)
        costs = self._read([node.compute for node in nodes], nodes, "compute", cost_of)
        self._checked(costs, nodes, "compute")  # checked before rounding
        grad_costs = self._read([node.grad_compute for node in nodes], nodes, "grad_compute", cost_of)
        self._checked(grad_costs, nodes, "grad_compute", -1)
        whole, scale = self._whole_costs([*costs, *grad_costs])
        owners = [nodes[v] for v in self.value_node.tolist()]
        memory = self._bytes([value.memory for value in self.values], owners, "memory")
        arrays: dict[str, Any] = {
            "value_indptr": indptr_of(np.bincount(self.value_node, minlength=len(nodes))),
            "read_indptr": select_entries(read_indptr, read, read >= 0)[0],
            "read_indices": self.value_id[read[read >= 0]],
            "memory": memory,
            "compute": self._checked(whole[: len(nodes)], nodes, "compute"),
            "workspace": self._bytes([node.workspace for node in nodes], nodes, "workspace"),
            "once": [node.once for node in nodes],
            "output": self._outputs(),
            "mark": [node.mark for node in nodes] if any(node.mark for node in nodes) else None,
            "resident": self._resident(read_indptr, read),
            "labels": self._labels(scale),
            "derivation": tables.derivation,
        }
        if tables.backward == "present":
            arrays["forward_of"] = [self._forward_of(node) for node in nodes]
        if tables.backward == "to come":
            saved_indptr, saved_indices = self._saved(arrays["read_indptr"], arrays["read_indices"])
            sizes = zip(memory.tolist(), self.values, strict=True)
            grads = [m if row.grad_memory is None else row.grad_memory for m, row in sizes]
            arrays["backward"] = Backward(
                saved_indptr,
                saved_indices.astype(np.int32),
                grad_memory=self._bytes(grads, owners, "grad_memory", -1),
                grad_compute=self._checked(whole[len(nodes) :], nodes, "grad_compute", -1),
                grad_workspace=self._bytes([node.grad_workspace for node in nodes], nodes, "grad_workspace"),
            )
        return arrays

    def _read(self, amounts: Sequence[Any], rows: Sequence[Any], what: str, read: Reading) -> Sequence[Number]:
        """Convert amounts to exact numbers. Only rows built in Python need this; file readers do it themselves."""
        if {*map(type, amounts)} <= {int, Decimal}:
            return amounts
        amounts_read = []
        for amount, row in zip(amounts, rows, strict=True):
            try:
                amounts_read.append(read(amount))
            except ValueError as error:
                self.names.fail(row, "{what!w} of {name!r}: {error!w}", what=what, name=row.name, error=error)
        return amounts_read

    def _whole_costs(self, costs: Sequence[Number]) -> tuple[Sequence[int], int]:
        """Return integer costs and their scale, which follows from the decimals unless the rows specify it."""
        scale = self.tables.compute_scale
        if scale is None:
            return whole_costs(costs, self.tables.source)
        whole = [cost for cost in costs if isinstance(cost, int)]
        if scale < 1 or len(whole) < len(costs):
            self.names.fail(None, '"compute_scale" needs whole costs; leave it out to have decimals scaled')
        return whole, scale

    def _bytes(self, sizes: Sequence[Any], rows: Sequence[Any], what: str, minimum: int = 0) -> Int64:
        sizes = self._read(sizes, rows, what, size_of)
        self._checked(sizes, rows, what, minimum)
        return np.array(whole_bytes(sizes, self.tables.source), np.int64)

    def _checked(self, amounts: Sequence[Number], rows: Sequence[Any], what: str, minimum: int = 0) -> Int64:
        lowest = min((amount for amount in amounts if amount != minimum), default=0)
        if lowest < 0 or sum(amounts) - minimum * len(amounts) >= LARGEST_SUM:
            total: Number = 0
            for amount, row in zip(amounts, rows, strict=True):
                kind = "node" if isinstance(row, NodeRow) else "resident"
                if amount < 0 and amount != minimum:
                    negative = "{kind} {name!r} has {what!w} {amount}; sizes and costs are 0 or more"
                    self.names.fail(row, negative, kind=kind, name=row.name, what=what, amount=amount)
                total += max(amount, 0)
                if total >= LARGEST_SUM:
                    large = "the sum of {what!w} reaches 2**53 at {kind} {name!r}; use a coarser unit"
                    self.names.fail(row, large, what=what, kind=kind, name=row.name)
        return np.array(amounts, np.int64)

    def _outputs(self) -> Bool | None:
        output, any_output = np.zeros(self.flat.size, bool), False
        for node in self.tables.nodes:
            for k, value in enumerate(node.values):
                if value.output:
                    any_output = True
                    place = self.names.resolve(node, [node.value_name(k)])[0]
                    if place >= 0:
                        output[self.value_id[place]] = True
        return output if any_output else None

    def _labels(self, scale: int) -> Labels:
        """Return the labels. Store the name of a value only if it differs from the default name."""
        names: dict[int, str] = {}
        place = 0
        for x, (old, v) in enumerate(zip(self.flat.tolist(), self.value_node.tolist(), strict=True)):
            place = place + 1 if x and v == self.value_node[x - 1] else 0
            owner = self.nodes[v].name
            if self.names.of[old] != (f"{owner}:{place}" if place else owner):
                names[x] = self.names.of[old]
        return Labels(
            names=tuple(node.name for node in self.nodes),
            value_names=names,
            ops=tuple(node.op for node in self.nodes),
            views={name: self.names.of[base] for name, base in self.names.views.items()},
            compute_unit=self.tables.compute_unit,
            compute_scale=scale,
        )

    def _forward_of(self, node: NodeRow) -> int:
        if node.gradient_of is None:
            return -2 if node.backward else -1
        number = self.names.resolve(node, [node.gradient_of])[0]
        if number < 0 or not self.kept[self.owner[number]]:
            missing = "{node!r} is a gradient of {owner!r}, which is not a node"
            self.names.fail(node, missing, node=node.name, owner=node.gradient_of)
        return int(self.node_id[self.owner[number]])

    def _saved(self, read_indptr: Int64, read_indices: Int64) -> tuple[Int64, Int64]:
        has_saved = [node.saved is not None for node in self.nodes]
        indptr, places = self.names.resolve_rows(self.nodes, [node.saved or () for node in self.nodes])
        node, value = row_of(indptr)[places >= 0], self.value_id[places[places >= 0]]
        silent = ~np.array(has_saved, bool)
        reader = row_of(read_indptr)
        rows = np.concatenate([node, reader[silent[reader]], self.value_node[silent[self.value_node]]])
        values = np.concatenate([value, read_indices[silent[reader]], np.flatnonzero(silent[self.value_node])])
        return unique_rows(*group_rows(rows, values, len(self.nodes)))

    def _resident(self, read_indptr: Int64, read: Int64) -> Resident | None:
        residents = self.tables.residents
        if not residents:
            return None
        place = {node.name: i for i, node in enumerate(self.tables.nodes)}
        reads = {(int(v), int(-1 - x)) for v, x in zip(row_of(read_indptr), read, strict=True) if x < 0}
        for r, resident in enumerate(residents):
            if resident.role not in ROLES:
                unknown = "resident {resident!r} has role {role!r}; use {known!l}"
                self.names.fail(resident, unknown, resident=resident.name, role=resident.role, known=ROLES)
            for reader in resident.readers:
                if reader not in place:
                    missing = "resident {resident!r} is read by {reader!r}, which is not a node"
                    self.names.fail(resident, missing, resident=resident.name, reader=reader)
                if self.kept[place[reader]]:
                    reads.add((int(self.node_id[place[reader]]), r))
        pairs = np.array(sorted(reads), np.int64).reshape(-1, 2)
        return Resident(
            self._bytes([resident.memory for resident in residents], residents, "memory"),
            np.array([ROLES.index(resident.role) for resident in residents], np.int8),
            indptr_of(np.bincount(pairs[:, 0], minlength=len(self.nodes))),
            pairs[:, 1].astype(np.int32),
            tuple(resident.name for resident in residents),
        )


AMOUNTS: Mapping[str, Reading] = {"memory": size_of, "compute": cost_of, "workspace": size_of}
OF_NAMED: Mapping[str, type[np.generic]] = {"once": np.bool_, "output": np.bool_, "mark": np.int8}
"""Arrays with one entry per node. With edges between named nodes, they may be given in addition to `AMOUNTS`."""

NAMED_AMOUNTS = AMOUNTS.keys() | OF_NAMED.keys()

# Mappings that must have an entry for every node.
COMPLETE = ("memory", "compute")
NO_PAIRS = "edges are not pairs (u, v) of node ids or names; give [(0, 1), ...] or [('a', 'b'), ...]"


def checked_pairs(edges: Iterable[tuple[Any, Any]] | ArrayLike) -> np.ndarray:
    """Return the edges as an array [k, 2] of ids or names."""
    try:
        listed_edges = edges if isinstance(edges, np.ndarray) else list(edges)  # type: ignore[arg-type]
        pairs = np.asarray(listed_edges)
    except (TypeError, ValueError) as error:
        raise GraphError(NO_PAIRS) from error  # not iterable, or ragged
    if pairs.size == 0:
        return np.empty((0, 2), np.int64)
    if pairs.dtype.kind == "f":
        pairs = _whole_ids(pairs, listed_edges)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iuUO":
        raise GraphError(NO_PAIRS)
    if pairs.dtype.kind == "O" and (empty := [i for i, pair in enumerate(pairs.tolist()) if None in pair]):
        raise GraphError("edge {empty} has None for a node; give two ids or names", empty=empty[0])
    if pairs.dtype.kind == "u" and pairs.max() > np.iinfo(np.int64).max:  # such as hashes
        return pairs.astype(object)
    return pairs.astype(np.int64) if pairs.dtype.kind in "iu" else pairs


def _whole_ids(pairs: np.ndarray, edges: Any) -> np.ndarray:
    """Convert integral floats to integers; restore 64-bit integers that NumPy converted to floats."""
    if (np.abs(pairs) < LARGEST_SUM).all() and np.array_equal(pairs, np.rint(pairs)):
        return pairs.astype(np.int64)
    exact = np.asarray(edges, object)
    return exact if all(isinstance(node, Integral) for node in exact.flat) else pairs


def node_ids(pairs: np.ndarray, n_nodes: int | None, arrays: Mapping[str, Any]) -> Int64:
    """Return the node ids, ascending: 0 to n - 1 if `n_nodes` or an array determines n, otherwise those in edges."""
    positional = [a for a in arrays.values() if entry_names(a) is None]
    rows = [a if isinstance(a, list | tuple) else np.asarray(a) for a in positional]
    sizes = [len(a) for a in rows if isinstance(a, list | tuple) or a.ndim == 1]
    if n_nodes is None and not sizes:
        return np.unique(pairs)
    n = whole(n_nodes, "n_nodes") if n_nodes is not None else max([*sizes, int(pairs.max(initial=-1)) + 1])
    if not 0 <= n <= 2**31:
        raise GraphError("there are {n:,} nodes, expected from 0 to 2**31", n=n)
    if pairs.size and not (pairs.min() >= 0 and pairs.max() < n):
        lost = int(pairs.min()) if pairs.min() < 0 else int(pairs.max())
        raise GraphError("an edge has the unknown node {lost}; nodes are 0 to {n}", lost=lost, n=n - 1)
    return np.arange(n)


def are_topological(pairs: np.ndarray, ids: Int64) -> bool:
    """Return True if ids are 0 to n - 1 and every edge leads to a larger id."""
    dense = not ids.size or (ids[0] == 0 and int(ids[-1]) == ids.size - 1)
    return bool(dense and (pairs[:, 0] < pairs[:, 1]).all())


def rows_of_pairs(pairs: np.ndarray, n: int) -> tuple[Int64, np.ndarray]:
    """Return the reads of each node as CSR arrays, in order of appearance, without duplicates."""
    _, first = np.unique(pairs[:, 1] * n + pairs[:, 0], return_index=True)
    pairs = pairs[np.sort(first)]
    return group_rows(pairs[:, 1], pairs[:, 0], n)


def unread_first_values(value_indptr: Int64, read_indices: Int32) -> Bool:
    """Return the default outputs: the first value of each node whose values are all unread."""
    n_values = int(value_indptr[-1])
    read = np.zeros(n_values + 1, np.int64)
    read[read_indices[(read_indices >= 0) & (read_indices < n_values)] + 1] = 1
    total = np.cumsum(read)
    first, last = value_indptr[:-1], value_indptr[1:]
    output = np.zeros(n_values, bool)
    output[first[(total[last] == total[first]) & (first < last)]] = True
    return output


def in_order(what: str, entries: Any, names: Callable[[], Sequence[Any]]) -> Any:
    """Convert a mapping or indexed array to a list in the order of the names; raise GraphError if the names differ."""
    keys = entry_names(entries)
    if keys is None:
        if index := index_of(entries):
            own, numbers = list(map(str, names())), list(map(str, index))
            if own != numbers and {*own} == {*numbers}:
                raise GraphError(
                    "{what!w} has the index 0, 1, 2 and so on, but the nodes have these names in another order; give a "
                    "mapping of names, or an array in the order of the nodes",
                    what=what,
                )
        return entries
    keys = list(map(str, keys))
    if twice := [name for name, count in Counter(keys).items() if count > 1]:
        raise GraphError("{what!w} has several entries for {twice!r}; give one", what=what, twice=twice[0])
    amounts = list(entries.values()) if isinstance(entries, Mapping) else list(np.asarray(entries))
    if len(amounts) != len(keys):
        raise GraphError(
            "{what!w} has {n_given:,} names for {n_amounts:,} entries; give one for each",
            what=what,
            n_given=len(keys),
            n_amounts=len(amounts),
        )
    entries = dict(zip(keys, amounts, strict=True))
    expected = dict.fromkeys(map(str, names()))
    for name in entries.keys() - expected.keys():
        remedy = did_you_mean(name, expected) or "; the nodes are those of the edges or labels"
        raise GraphError(
            "{what!w} has an entry for {name!r}, which is not a node{remedy!w}", what=what, name=name, remedy=remedy
        )
    missing = [name for name in expected if name not in entries]
    if missing and what in COMPLETE:
        raise GraphError(
            "{what!w} has no entry for {missing!f}; give one for each of the {n_known:node}",
            what=what,
            missing=missing,
            n_known=len(expected),
        )
    return [entries.get(name, 0) for name in expected]


def _column(what: str, entries: Any, n: int) -> Any:
    if what in AMOUNTS:
        column = numbers(entries, AMOUNTS[what], what, n, "node")
        return column.tolist() if isinstance(column, np.ndarray) else column
    return frozen(entries, OF_NAMED[what], what, n, "node").tolist()


def named_tables(pairs: Iterable[tuple[Any, Any]], names: Sequence[Any], arrays: Mapping[str, Any]) -> Tables:
    """Make rows from pairs of names or ids; arrays follow the order of the names, scalars apply to all nodes."""
    known = [*AMOUNTS, *OF_NAMED]
    if unknown := sorted(arrays.keys() - known):
        raise GraphError(
            "{unknown!l} cannot be given for nodes with names, or with ids that are not topological (only {known!l} "
            "can); number the nodes topologically from 0",
            unknown=unknown,
            known=known,
        )
    columns = {what: _column(what, array, len(names)) for what, array in arrays.items()}
    rows = {}
    for i, name in enumerate(map(str, names)):
        cells = {column: column_cells[i] for column, column_cells in columns.items()}
        value = ValueRow(cells.pop("memory"), output=cells.pop("output", False))
        rows[name] = NodeRow(name, values=[value], **cells)
    for u, v in pairs:
        rows[str(v)].reads.append(str(u))
    return Tables(nodes=list(rows.values()), source="edges")
