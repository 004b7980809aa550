"""From rows that speak in names to arrays: names resolved, views contracted, nodes numbered topologically."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

import numpy as np

from remat_algos.errors import GraphError
from remat_algos.ir.arrays import LARGEST_SUM, Int32, Int64
from remat_algos.ir.backward import Backward
from remat_algos.ir.decimals import whole_bytes, whole_costs
from remat_algos.ir.labels import Labels
from remat_algos.ir.resident import ROLES, Resident
from remat_algos.ir.tables import NodeRow, Number, Tables
from remat_algos.kernels import _graph


def assemble(tables: Tables) -> dict[str, Any]:
    """Arguments for `ComputationGraph.from_arrays`.

    Raises GraphError, with file, line and node, for unknown or double names, cycles, views that go round.
    """
    names = _Names(tables)
    nodes, first = tables.nodes, names.first
    kept = [i for i, node in enumerate(nodes) if any(value.view_of is None for value in node.values)]
    for i in sorted(set(range(len(nodes))) - set(kept)):
        if nodes[i].compute or nodes[i].workspace:
            names.fail(nodes[i].where, f"{nodes[i].name!r} is a view, but has compute or workspace; set both to 0")
    owner = [i for i, node in enumerate(nodes) for _ in node.values]
    reads = {i: names.resolve(nodes[i].where, nodes[i].name, nodes[i].reads) for i in kept}
    order = _topological(names, kept, {i: [owner[x] for x in reads[i] if x >= 0] for i in kept})
    nodes = [tables.nodes[i] for i in order]
    node_id = {i: v for v, i in enumerate(order)}

    flat = [first[i] + k for i in order for k, value in enumerate(tables.nodes[i].values) if value.view_of is None]
    value_id = {x: new for new, x in enumerate(flat)}
    values = [tables.nodes[owner[x]].values[x - first[owner[x]]] for x in flat]
    read_rows = [[value_id[x] for x in reads[i] if x >= 0] for i in order]
    read_indptr, read_indices = _csr(read_rows)

    n_costs = len(nodes)
    costs, scale = [node.compute for node in nodes] + [node.grad_compute for node in nodes], tables.compute_scale
    whole, found_scale = whole_costs(costs, tables.source) if scale is None else (costs, scale)
    grad_compute = [-1 if given == -1 else cost for given, cost in zip(costs[n_costs:], whole[n_costs:], strict=True)]
    memory = whole_bytes([value.memory for value in values], tables.source)
    workspace = whole_bytes([node.workspace for node in nodes], tables.source)
    value_owner = [nodes[node_id[owner[x]]] for x in flat]
    arrays: dict[str, Any] = {
        "value_indptr": np.concatenate([[0], np.cumsum([sum(v.view_of is None for v in n.values) for n in nodes])]),
        "read_indptr": read_indptr,
        "read_indices": read_indices,
        "memory": names.checked(memory, value_owner, "memory"),
        "compute": names.checked(whole[:n_costs], nodes, "compute"),
        "workspace": names.checked(workspace, nodes, "workspace"),
        "once": np.array([node.once for node in nodes], bool),
        "output": _outputs(tables, names, value_id),
        "mark": [node.mark for node in nodes] if any(node.mark for node in nodes) else None,
        "resident": _resident(tables, names, order, node_id, reads),
        "labels": Labels(
            names=tuple(node.name for node in nodes),
            value_names=_own_names(names, flat, value_owner),
            ops=tuple(node.op for node in nodes),
            views={name: names.of[base] for name, base in names.views.items()},
            compute_unit=tables.compute_unit,
            compute_scale=found_scale,
        ),
        "derivation": tables.derivation,
    }
    if tables.backward == "present":
        arrays["forward_of"] = [_forward_of(names, node, owner, node_id) for node in nodes]
    if tables.backward == "to come":
        saved = []
        for v, i in enumerate(order):
            own = [value_id[first[i] + k] for k, row in enumerate(tables.nodes[i].values) if row.view_of is None]
            named = nodes[v].saved
            found = names.resolve(nodes[v].where, nodes[v].name, named) if named is not None else []
            saved.append([value_id[x] for x in found if x >= 0] if named is not None else read_rows[v] + own)
        grads = [m if row.grad_memory is None else row.grad_memory for m, row in zip(memory, values, strict=True)]
        arrays["backward"] = Backward(
            *_csr(saved),
            grad_memory=np.array(whole_bytes(grads, tables.source), np.int64),
            grad_compute=np.array(grad_compute, np.int64),
            grad_workspace=np.array(whole_bytes([node.grad_workspace for node in nodes], tables.source), np.int64),
        )
    return arrays


class _Names:
    """What each name stands for: values by their place in the file, 0 and up, residents -1 and down."""

    def __init__(self, tables: Tables) -> None:
        self.source = tables.source
        self.first: list[int] = [0]
        for node in tables.nodes:
            if not node.values:
                self.fail(node.where, f"node {node.name!r} has no value; give it one of 0 bytes")
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
            if name in self.place:
                self.fail("", f"{name!r} is a view and something else; give each a name of its own")
        view_of.update(tables.views)
        self.views = {name: self._base(name, view_of) for name in view_of}

    def fail(self, where: str, message: str) -> NoReturn:
        raise GraphError(f"{where or self.source}: {message}")

    def _enter(self, tables: Tables) -> None:
        for i, node in enumerate(tables.nodes):
            if node.name in self.place:
                self.fail(node.where, f"two rows are called {node.name!r}; give each a name of its own")
            self.place[node.name] = self.first[i]
        for r, resident in enumerate(tables.residents):
            if resident.name in self.place:
                self.fail(resident.where, f"two rows are called {resident.name!r}; give each a name of its own")
            self.place[resident.name] = -1 - r
            self.of[-1 - r] = resident.name
        for i, node in enumerate(tables.nodes):
            for k in range(len(node.values)):
                name = node.value_name(k)
                if self.place.setdefault(name, self.first[i] + k) != self.first[i] + k:
                    self.fail(node.where, f"two values are called {name!r}; give each a name of its own")
                self.of[self.first[i] + k] = name

    def _base(self, name: str, view_of: dict[str, str]) -> int:
        """What a view stands for in the end."""
        seen = [name]
        while True:
            base = view_of[seen[-1]]
            canonical = self.of.get(self.place[base], base) if base in self.place else base
            if canonical not in view_of:
                if base not in self.place:
                    self.fail("", f"{seen[-1]!r} is a view of {base!r}, which is no node, value or resident")
                return self.place[base]
            if canonical in seen:
                self.fail("", f"views go round: {' -> '.join([*seen, canonical])}; let one of them have bytes")
            seen.append(canonical)

    def resolve(self, where: str, node: str, names: Iterable[str]) -> list[int]:
        """What names stand for, views replaced by their bases, each once."""
        found: dict[int, None] = {}
        for name in names:
            if name not in self.place and name not in self.views:
                self.fail(where, f"node {node!r} reads {name!r}, which is no node, value or resident")
            canonical = self.of[self.place[name]] if name in self.place else name
            found[self.views[canonical] if canonical in self.views else self.place[name]] = None
        return list(found)

    def checked(self, amounts: Sequence[Number], rows: Sequence[NodeRow], what: str) -> Int64:
        """The amounts as an array, if they are sizes or costs and their sum stays exact."""
        total = 0
        for amount, row in zip(amounts, rows, strict=True):
            if amount < 0:
                self.fail(row.where, f"node {row.name!r} has {what} {amount}; sizes and costs are 0 or more")
            total += int(amount)
            if total >= LARGEST_SUM:
                self.fail(row.where, f"with node {row.name!r} the sum of {what} passes 2**53; use a coarser unit")
        return np.array(amounts, np.int64)


def _own_names(names: _Names, flat: list[int], value_owner: list[NodeRow]) -> dict[int, str]:
    """Names of values, where they are not what the rule would make of their new place."""
    found, place = {}, 0
    for x, (old, owner) in enumerate(zip(flat, value_owner, strict=True)):
        place = place + 1 if x and owner is value_owner[x - 1] else 0
        if names.of[old] != (f"{owner.name}:{place}" if place else owner.name):
            found[x] = names.of[old]
    return found


def _topological(names: _Names, kept: list[int], sources: dict[int, list[int]]) -> list[int]:
    """The kept rows so that each comes after what it reads, earliest row first."""
    place = {i: p for p, i in enumerate(kept)}
    indptr, indices = _csr([[place[j] for j in sources[i]] for i in kept])
    order = _graph.topological_order(*_graph.transpose(indptr, indices, len(kept))).tolist()
    if len(order) < len(kept):
        stuck = set(kept) - {kept[p] for p in order}
        path = [min(stuck)]
        while (source := next(j for j in sources[path[-1]] if j in stuck)) not in path:
            path.append(source)
        cycle = [*path[path.index(source) :], source][::-1]
        shown = " -> ".join(names.of[names.first[i]] for i in cycle)
        names.fail("", f"the graph has a cycle: {shown}; remove one of these edges")
    return [kept[p] for p in order]


def _csr(rows: Sequence[Sequence[int]]) -> tuple[Int64, Int32]:
    indptr = np.zeros(len(rows) + 1, np.int64)
    np.cumsum([len(row) for row in rows], out=indptr[1:])
    return indptr, np.array([entry for row in rows for entry in row], np.int32)


def _outputs(tables: Tables, names: _Names, value_id: dict[int, int]) -> np.ndarray | None:
    """Flags of the outputs, None for the default ones."""
    found = [
        names.resolve(node.where, node.name, [node.value_name(k)])[0]
        for node in tables.nodes
        for k, value in enumerate(node.values)
        if value.output
    ]
    output = np.zeros(len(value_id), bool)
    output[[value_id[x] for x in found if x >= 0]] = True
    return output if found else None


def _resident(
    tables: Tables, names: _Names, order: list[int], node_id: dict[int, int], reads: dict[int, list[int]]
) -> Resident | None:
    if not tables.residents:
        return None
    row_of = {node.name: i for i, node in enumerate(tables.nodes)}
    read = [[-1 - x for x in reads[i] if x < 0] for i in order]
    for r, resident in enumerate(tables.residents):
        for reader in resident.readers:
            if reader not in row_of:
                names.fail(resident.where, f"resident {resident.name!r} is read by {reader!r}, which is no node")
            if row_of[reader] in node_id and r not in read[node_id[row_of[reader]]]:
                read[node_id[row_of[reader]]].append(r)
    sizes = whole_bytes([resident.memory for resident in tables.residents], tables.source)
    for resident, size in zip(tables.residents, sizes, strict=True):
        if size < 0:
            names.fail(resident.where, f"resident {resident.name!r} has memory {size}; sizes are 0 or more")
        if resident.role not in ROLES:
            names.fail(resident.where, f"resident {resident.name!r} has role {resident.role!r}; use {', '.join(ROLES)}")
    return Resident(
        np.array(sizes, np.int64),
        np.array([ROLES.index(resident.role) for resident in tables.residents], np.int8),
        *_csr(read),
        names=tuple(resident.name for resident in tables.residents),
    )


def _forward_of(names: _Names, node: NodeRow, owner: list[int], node_id: dict[int, int]) -> int:
    if node.gradient_of is None:
        return -1
    found = names.resolve(node.where, node.name, [node.gradient_of])[0]
    if found < 0 or owner[found] not in node_id:
        names.fail(node.where, f"{node.name!r} is a gradient of {node.gradient_of!r}, which is no node")
    return node_id[owner[found]]
