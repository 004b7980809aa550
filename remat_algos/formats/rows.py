"""Convert between text tables of nodes, edges and values and the rows of a graph (docs/formats.md)."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NoReturn

from remat_algos.errors import GraphError
from remat_algos.formats.columns import COSTS, ColumnTable, Known, Meaning, aliases, unit_of_costs
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.parts import ROLES
from remat_algos.ir.tables import NodeRow, Number, ResidentRow, Tables, ValueRow
from remat_algos.text.amounts import MAX_PLACES

NODE_COLUMNS: Known = {
    "id": ("node",),
    "name": (),
    "op": (),
    "memory": ("memory_bytes", "size", "bytes", "mem"),
    "compute": ("time", "cost", "flops"),
    "workspace": (),
    "once": (),
    "resident": (),
    "output": (),
    "view_of": (),
    "mark": (),
    "grad_needs_inputs": ("bwd_needs_inputs",),
    "grad_needs_output": ("bwd_needs_output",),
    "grad_memory": (),
    "grad_compute": (),
    "grad_workspace": (),
    "gradient_of": (),
    "backward": (),
    "param_memory": ("param_bytes",),
}
EDGE_COLUMNS: Known = {"src": ("source", "from"), "dst": ("target", "to"), "saved": ()}
VALUE_COLUMNS: Known = {
    "node": (),
    "id": (),
    "name": (),
    "memory_bytes": ("memory", "size", "bytes", "mem"),
    "output": (),
    "view_of": (),
    "grad_memory": (),
    "saved": (),
}
OF_NODES = {alias: column for alias, column in aliases(NODE_COLUMNS).items() if column not in ("id", "name", "op")}
"""key: alias; value: column of nodes. Tables of edges and values reject such a column unless they define it too."""
VALUE_CELLS = ("memory", "output", "view_of", "grad_memory")
"""Columns of nodes that describe the value of a node; they must be empty if the table of values describes it."""
SAME_ID = "two {noun}s have the id {key!r}; give each its own"
SAME_NAME = "two {noun}s are called {name!r}; give each its own name"
GRADIENT_COLUMNS = {"grad_needs_inputs", "grad_needs_output", "grad_memory", "grad_compute", "grad_workspace", "saved"}


def rows_of(nodes: ColumnTable, edges: ColumnTable, values: ColumnTable | None = None) -> Tables:
    """Convert tables to the rows of a graph; raise GraphError with file and location for contradictory tables."""
    return _RowReader(nodes, edges, values).tables()


class _RowReader:
    def __init__(self, nodes: ColumnTable, edges: ColumnTable, values: ColumnTable | None) -> None:
        if not len(nodes):
            raise GraphError("{source!p}: there are no nodes; add one", source=nodes.source)
        self.table = nodes
        self.nodes: dict[str, NodeRow] = {}
        self.residents: dict[str, ResidentRow] = {}
        # key: id or name that edges may use; value: name of the node, value or resident
        self.called: dict[str, str] = {}
        # key: node; value: {name of a read or of its own value: True if it is saved}
        self.saved_flags: dict[str, dict[str, bool]] = {}
        self.unsized: list[str] = []
        self.uncosted: list[str] = []
        self._add_rows(nodes)
        if values is not None:
            self._add_values(values)
        self._connect(edges)
        self._note_assumed(nodes, values)
        meanings = [Meaning(column, nodes.units.get(column, "")) for column in nodes.columns if column in COSTS]
        self.compute_unit = unit_of_costs(nodes.source, meanings)
        self.ignored = [*nodes.ignored, *edges.ignored, *(values.ignored if values is not None else ())]
        columns = {*nodes.columns, *(values.columns if values is not None else ())}
        if columns & {"view_of", "gradient_of"}:
            self._resolve()
        self.backward = "to come" if columns & GRADIENT_COLUMNS or "saved" in edges else "none"
        if any(node.gradient_of or node.backward for node in self.nodes.values()):
            self.backward = "present"

    def tables(self) -> Tables:
        if self.backward == "to come":
            inputs, output = self.table.flags("grad_needs_inputs"), self.table.flags("grad_needs_output")
            for name, needs_inputs, needs_output in zip(self.names, inputs, output, strict=True):
                if name in self.nodes:
                    node = self.nodes[name]
                    node.saved = self._saved(node, needs_inputs is not False, needs_output is not False)
        return Tables(
            [*self.nodes.values()],
            [*self.residents.values()],
            self.backward,
            compute_unit=self.compute_unit,
            source=self.table.source,
            unsized=self.unsized,
            uncosted=self.uncosted,
            ignored=self.ignored,
        )

    def _add_rows(self, table: ColumnTable) -> None:
        names = table.texts("name")
        keys = [key or name for key, name in zip(table.texts("id"), names, strict=True)]
        self.keys = keys
        self.names = names = [name or key for key, name in zip(keys, names, strict=True)]
        self._check_names(keys, names)
        self.called = dict(zip(keys, names, strict=True))
        self.nodes = dict(zip(names, self._node_rows(table, names), strict=True))
        parameters = table.sizes("param_memory", 0)
        for row, (role, parameter) in enumerate(zip(table.texts("resident"), parameters, strict=True)):
            if role not in ("", "0"):
                if parameter:
                    table.fail(row, "{name!r} is a resident; leave its param_memory empty", name=names[row])
                del self.nodes[names[row]]
                self.residents[names[row]] = self._resident(row, names[row], role)
            elif parameter:
                self._add_parameter(row, names[row], parameter)

    def _check_names(self, keys: list[str], names: list[str]) -> None:
        if all(keys) and len(set(keys)) == len(set(names)) == len(keys):
            return
        seen_keys, seen_names = set(), set()
        for row, (key, name) in enumerate(zip(keys, names, strict=True)):
            noun = self.table.noun
            if not key:
                self.table.fail(row, "the {noun} has neither id nor name; give it one", noun=noun)
            if key in seen_keys:
                self.table.fail(row, SAME_ID, noun=noun, key=key)
            if name in seen_names:
                self.table.fail(row, SAME_NAME, noun=noun, name=name)
            seen_keys.add(key)
            seen_names.add(name)

    def _node_rows(self, table: ColumnTable, names: list[str]) -> list[NodeRow]:
        """Convert every row to a node. A missing size or cost is 0 for a view and 1 otherwise."""
        views = [view_of or None for view_of in table.texts("view_of")]
        defaults = [0 if view_of else 1 for view_of in views]
        self.memory = table.sizes("memory")
        memory = [at if size is None else size for at, size in zip(defaults, self.memory, strict=True)]
        compute = [at if cost is None else cost for at, cost in zip(defaults, table.numbers("compute"), strict=True)]
        values = map(ValueRow, memory, [None] * len(table), _true(table, "output"), table.sizes("grad_memory"), views)
        columns = (
            *(names, table.texts("op"), compute, table.sizes("workspace", 0), _true(table, "once"), table.marks()),
            *(values, table.numbers("grad_compute", -1), table.sizes("grad_workspace", 0)),
            *(table.texts("gradient_of"), _true(table, "backward"), table.lines or [0] * len(table)),
        )
        return [
            NodeRow(
                *(name, op, cost, scratch, once, mark, [], [value]),
                *(None, grad, grad_scratch, forward or None, backward, line),
            )
            for name, op, cost, scratch, once, mark, value, grad, grad_scratch, forward, backward, line in zip(
                *columns, strict=True
            )
        ]

    def _note_assumed(self, nodes: ColumnTable, values: ColumnTable | None) -> None:
        listed: set[str] = set()
        unsized: set[str] = set()
        if values is not None:
            keys, sizes, views = values.texts("node"), values.texts("memory_bytes"), values.texts("view_of")
            listed.update(keys)
            unsized = {key for key, size, view_of in zip(keys, sizes, views, strict=True) if not (size or view_of)}
        views, sizes, costs = nodes.texts("view_of"), nodes.texts("memory"), nodes.texts("compute")
        for key, name, view_of, size, cost in zip(self.keys, self.names, views, sizes, costs, strict=True):
            if name in self.nodes and not view_of:
                if key in unsized or not (size or key in listed):
                    self.unsized.append(name)
                if not cost:
                    self.uncosted.append(name)

    def _resident(self, row: int, name: str, role: str) -> ResidentRow:
        role = "input" if role == "1" else role.lower()
        # Check the role here: the check of the graph does not know the line.
        if role not in ROLES:
            wrong = "resident is {role!r}; write {roles!l}, or nothing for a node"
            self.table.fail(row, wrong, role=role, roles=list(ROLES))
        return ResidentRow(name, self.memory[row] or 0, role, [], self.table.line(row))

    def _add_parameter(self, row: int, reader: str, memory: Number) -> None:
        name = f"param({reader})"
        if name in self.nodes or name in self.residents:
            self.table.fail(row, SAME_NAME, noun=self.table.noun, name=name)
        self.residents[name] = ResidentRow(name, memory, "parameter", [reader], self.table.line(row))

    def _add_values(self, table: ColumnTable) -> None:
        ids, names, memory = table.texts("id"), table.texts("name"), table.sizes("memory_bytes")
        output, views, saved = _true(table, "output"), table.texts("view_of"), table.flags("saved")
        grad_memory = table.sizes("grad_memory")
        row_of = {key: row for row, key in enumerate(self.called)}
        rows_of: dict[str, list[int]] = {}
        for row, key in enumerate(table.texts("node")):
            if self.called.get(key) not in self.nodes:
                table.fail(row, "node {key!r} is not in {nodes!w}; add it there", key=key, nodes=self.table.source)
            rows_of.setdefault(key, []).append(row)
        for key, rows in rows_of.items():
            node = self.nodes[self.called[key]]
            self._check_left_empty(row_of[key], key, table)
            sizes = [(0 if views[row] else 1) if memory[row] is None else memory[row] for row in rows]
            node.values = [
                ValueRow(size, names[row] or None, output[row], grad_memory[row], views[row] or None)
                for size, row in zip(sizes, rows, strict=True)
            ]
            for k, row in enumerate(rows):
                name, flag = node.value_name(k), saved[row]
                if flag is not None:
                    self.saved_flags.setdefault(node.name, {})[name] = flag
                self._call_value(table, row, ids[row], f"{key}:{k}" if k else name, name)

    def _call_value(self, table: ColumnTable, row: int, own_id: str, rule: str, name: str) -> None:
        """Let edges refer to a value by id, name or position; ids and names of nodes take precedence."""
        if own_id:
            if own_id in self.called:
                table.fail(row, SAME_ID, noun=table.noun, key=own_id)
            self.called[own_id] = name
        self.called.setdefault(name, name)
        self.called.setdefault(rule, name)

    def _check_left_empty(self, row: int, key: str, values: ColumnTable) -> None:
        """Raise GraphError if a node has rows in the table of values and also fills one of `VALUE_CELLS`."""
        for column in VALUE_CELLS:
            if column in self.table and self.table.columns[column][row]:
                twice = "node {key!r} has rows in {values!w}; leave its {column} empty here"
                self.table.fail(row, twice, key=key, values=values.source, column=column)

    def _connect(self, table: ColumnTable) -> None:
        called, nodes, saved_flags = self.called, self.nodes, self.saved_flags
        rows = zip(table.texts("src"), table.texts("dst"), table.flags("saved"), strict=True)
        for row, (src, dst, flag) in enumerate(rows):
            read, reader = called.get(src), called.get(dst)
            if read is None or reader is None or reader not in nodes:
                self._fail_edge(table, row, src, dst)
            nodes[reader].reads.append(read)
            if flag is not None:
                saved_flags.setdefault(reader, {})[read] = flag

    def _fail_edge(self, table: ColumnTable, row: int, src: str, dst: str) -> NoReturn:
        for missing in (dst, src):
            if missing not in self.called:
                unknown = "no {noun} of {nodes!w} has the id {key!r}; add one"
                table.fail(row, unknown, noun=self.table.noun, nodes=self.table.source, key=missing)
        if self.called[dst] in self.residents:
            table.fail(row, "{dst!r} is a resident, but residents read nothing; reverse the edge or remove it", dst=dst)
        table.fail(row, "{dst!r} is a value, but edges must lead to nodes; reverse the edge or remove it", dst=dst)

    def _resolve(self) -> None:
        for node in self.nodes.values():
            node.gradient_of = node.gradient_of and self.called.get(node.gradient_of, node.gradient_of)
            for value in node.values:
                value.view_of = value.view_of and self.called.get(value.view_of, value.view_of)

    def _saved(self, node: NodeRow, inputs: bool, output: bool) -> list[str]:
        """Return the values that the node's gradient reads. `inputs` and `output` are the default flags."""
        saved_flags = self.saved_flags.get(node.name, {})
        own = [node.value_name(k) for k in range(len(node.values))]
        return [
            *(name for name in node.reads if saved_flags.get(name, inputs) and name not in self.residents),
            *(name for name in own if saved_flags.get(name, output)),
        ]


def _true(table: ColumnTable, column: str) -> list[bool]:
    return [flag is True for flag in table.flags(column)]


MARK_WORDS = ("", "keep", "recompute")
POWERS = [10**k for k in range(1, MAX_PLACES + 1)]
Record = dict[str, Any]
"""key: column; value: text or number, "" if empty"""


def tables_from(graph: ComputationGraph) -> Tables:
    """Return the rows of a graph, in id order."""
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
            backward=forward_of is not None and bool(forward_of[v] == -2),
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
    return Tables(
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


@dataclass(frozen=True, slots=True)
class Records:
    """Records of nodes (with residents and views), of edges, and of values that a record of a node cannot describe."""

    nodes: list[Record]
    edges: list[Record]
    values: list[Record]


def records_of(tables: Tables, scale: int) -> Records:
    """Convert rows to records; costs are divided by `scale`."""
    listed = {
        node.name
        for node in tables.nodes
        if len(node.values) > 1 or node.values[0].name is not None or node.name in tables.views
    }
    residents = [
        {"name": resident.name, "memory": resident.memory, "resident": resident.role} for resident in tables.residents
    ]
    views = [{"name": name, "view_of": base} for name, base in tables.views.items() if name not in listed]
    return Records(
        [*residents, *(_node(node, tables.backward, node.name in listed, scale) for node in tables.nodes), *views],
        _edges(tables),
        [row for node in tables.nodes if node.name in listed for row in _values(node, tables)],
    )


def _node(node: NodeRow, backward: str, listed: bool, scale: int) -> Record:
    row: Record = {
        "name": node.name,
        "compute": _unscaled(node.compute, scale),
        "op": node.op,
        "workspace": node.workspace or "",
        "once": int(node.once) or "",
        "mark": MARK_WORDS[node.mark],
        "gradient_of": node.gradient_of or "",
        "backward": int(node.backward) or "",
    }
    if not listed:
        value = node.values[0]
        row |= {"memory": value.memory, "output": int(value.output) or ""}
        row["grad_memory"] = "" if value.grad_memory is None else value.grad_memory
    if backward == "to come":
        row["grad_compute"] = "" if node.grad_compute == -1 else _unscaled(node.grad_compute, scale)
        row["grad_workspace"] = node.grad_workspace or ""
        if not listed:
            row["grad_needs_output"] = int(node.value_name(0) in (node.saved or ()))
    return row


def scale_shows(tables: Tables) -> bool:
    """Return True if a reader can infer the compute scale from the decimals of the costs."""
    costs = (cost for node in tables.nodes for cost in (node.compute, node.grad_compute) if cost != -1)
    return tables.compute_scale in (None, 1) or (
        tables.compute_scale in POWERS and any(cost % POWERS[0] for cost in costs)
    )


def _unscaled(cost: Number, scale: int) -> Number:
    whole, rest = divmod(cost, scale)
    return (Decimal(cost) / scale).normalize() if rest else whole


def _values(node: NodeRow, tables: Tables) -> list[Record]:
    gradients = tables.backward == "to come"
    rows: list[Record] = []
    if node.name in tables.views:
        rows = [{"node": node.name, "view_of": tables.views[node.name], **({"saved": 0} if gradients else {})}]
    for k, value in enumerate(node.values):
        row: Record = {"node": node.name, "name": value.name or "", "memory_bytes": value.memory}
        row |= {
            "output": int(value.output) or "",
            "grad_memory": "" if value.grad_memory is None else value.grad_memory,
        }
        if gradients:
            row["saved"] = int(node.value_name(k) in (node.saved or ()))
        rows.append(row)
    return rows


def _edges(tables: Tables) -> list[Record]:
    residents: dict[str, list[str]] = {}
    for resident in tables.residents:
        for reader in resident.readers:
            residents.setdefault(reader, []).append(resident.name)
    rows: list[Record] = []
    for node in tables.nodes:
        for name in node.reads:
            saved = {"saved": int(name in (node.saved or ()))} if tables.backward == "to come" else {}
            rows.append({"src": name, "dst": node.name, **saved})
        rows += [{"src": name, "dst": node.name} for name in residents.get(node.name, ())]
    return rows
