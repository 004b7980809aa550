"""Graphs as tables: X.nodes.csv, X.edges.csv and, for several values per node, X.values.csv (docs/formats.md)."""

from collections.abc import Mapping

from remat_algos.errors import GraphError
from remat_algos.ir.files.csv_rows import Row, Table
from remat_algos.ir.resident import ROLES
from remat_algos.ir.tables import NodeRow, ResidentRow, Tables, ValueRow

# column: its aliases
NODE_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "id": (),
    "name": (),
    "op": (),
    "memory": ("memory_bytes",),
    "compute": ("time",),
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
    "param_memory": ("param_bytes",),
}
EDGE_COLUMNS: Mapping[str, tuple[str, ...]] = {"src": (), "dst": (), "saved": ()}
VALUE_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "node": (),
    "name": (),
    "memory_bytes": ("memory",),
    "output": (),
    "view_of": (),
    "grad_memory": (),
    "saved": (),
}
GRADIENT_COLUMNS = {"grad_needs_inputs", "grad_needs_output", "grad_memory", "grad_compute", "grad_workspace"}


def parse(nodes: tuple[str, str], edges: tuple[str, str], values: tuple[str, str] | None) -> Tables:
    """Rows from the texts of the tables, each with its file's name: (text, name)."""
    node_table = Table(*nodes, NODE_COLUMNS)
    edge_table = Table(*edges, EDGE_COLUMNS)
    value_table = Table(*values, VALUE_COLUMNS) if values is not None else None
    return _Reader(node_table, edge_table, value_table).tables()


class _Reader:
    def __init__(self, nodes: Table, edges: Table, values: Table | None) -> None:
        if "id" not in nodes.place:
            nodes.require("name")
        edges.require("src", "dst")
        self.source = nodes.source
        self.nodes: dict[str, NodeRow] = {}
        self.residents: dict[str, ResidentRow] = {}
        self.columns = set(nodes.place)
        self.value_rows: dict[str, list[Row]] = {}
        if values is not None:
            values.require("node", "memory_bytes")
            self.columns |= {"saved", "grad_memory"} & set(values.place)
            for row in values.rows():
                self.value_rows.setdefault(row.text("node"), []).append(row)
        self.columns |= {"saved"} & set(edges.place)
        self.called: dict[str, str] = {}  # what an edge may say, to the name of a node, value or resident
        self.needs: dict[str, tuple[bool, bool | None]] = {}
        self.saved: dict[str, dict[str, bool | None]] = {}
        for row in nodes.rows():
            self._add(row)
        lost = set(self.value_rows) - {key for key, name in self.called.items() if name in self.nodes}
        if lost:
            row = self.value_rows[min(lost)][0]
            row.fail(f"node {row.text('node')!r} is not in {nodes.source}; add it there")
        if not self.nodes and not self.residents:
            raise GraphError(f"{nodes.source}: there is no node; add a line for each")
        for row in edges.rows():
            self._connect(row)

    def tables(self) -> Tables:
        for node in self.nodes.values():
            node.gradient_of = node.gradient_of and self.called.get(node.gradient_of, node.gradient_of)
            for value in node.values:
                value.view_of = value.view_of and self.called.get(value.view_of, value.view_of)
        gradients = bool((GRADIENT_COLUMNS | {"saved"}) & self.columns)
        present = any(node.gradient_of is not None for node in self.nodes.values())
        if gradients and not present:
            for node in self.nodes.values():
                node.saved = self._saved(node)
        backward = "present" if present else "to come" if gradients else "none"
        return Tables([*self.nodes.values()], [*self.residents.values()], backward, source=self.source)

    def _add(self, row: Row) -> None:
        key = row.text("id") or row.text("name")
        name = row.text("name") or key
        if not key:
            row.fail("the row has neither id nor name; give it one")
        if key in self.called:
            row.fail(f"two rows have the id {key!r}; give each its own")
        if name in self.nodes or name in self.residents:
            row.fail(f"two rows are called {name!r}; give each a name of its own")
        self.called[key] = name
        role = row.text("resident").lower()
        if role not in ("", "0"):
            self._add_resident(row, name, role)
            return
        view_of = row.text("view_of") or None
        node = NodeRow(
            name=name,
            op=row.text("op"),
            compute=row.number("compute", 0 if view_of else 1),
            workspace=row.size("workspace", 0),
            once=bool(row.flag("once")),
            mark=row.mark(),
            grad_compute=row.number("grad_compute", -1),
            grad_workspace=row.size("grad_workspace", 0),
            gradient_of=row.text("gradient_of") or None,
            where=row.where,
        )
        self.nodes[name] = node
        inputs, output = row.flag("grad_needs_inputs"), row.flag("grad_needs_output")
        self.needs[name] = (inputs is not False, output)
        if key in self.value_rows:
            self._add_values(row, node, self.value_rows[key])
        else:
            memory = row.size("memory", 0 if view_of else 1)
            node.values = [ValueRow(memory, None, bool(row.flag("output")), row.size("grad_memory"), view_of)]
        parameters = row.size("param_memory", 0)
        if parameters:
            self.residents[f"param({name})"] = ResidentRow(f"param({name})", parameters, "parameter", [name], row.where)

    def _add_resident(self, row: Row, name: str, role: str) -> None:
        role = "input" if role == "1" else role
        if role not in ROLES:
            row.fail(f"resident is {role!r}; write {', '.join(ROLES)}, or nothing for a node")
        self.residents[name] = ResidentRow(name, row.size("memory", 0), role, [], row.where)

    def _add_values(self, row: Row, node: NodeRow, given: list[Row]) -> None:
        for column in ("memory", "output", "view_of", "grad_memory"):
            if row.text(column):
                row.fail(f"node {node.name!r} has rows in {given[0].table.source}; leave its {column} empty here")
        for line in given:
            view_of = line.text("view_of") or None
            node.values.append(
                ValueRow(
                    line.size("memory_bytes", 0 if view_of else 1),
                    line.text("name") or None,
                    bool(line.flag("output")),
                    line.size("grad_memory"),
                    view_of,
                )
            )
        self.saved[node.name] = {node.value_name(k): line.flag("saved") for k, line in enumerate(given)}
        key = row.text("id") or row.text("name")
        for k in range(len(given)):
            self.called.setdefault(node.value_name(k), node.value_name(k))
            if k:
                self.called.setdefault(f"{key}:{k}", node.value_name(k))

    def _connect(self, row: Row) -> None:
        src, dst = row.text("src"), row.text("dst")
        for end in (src, dst):
            if end not in self.called:
                row.fail(f"{end!r} is no id of {self.source}; add a row for it there")
        reader, read = self.called[dst], self.called[src]
        if reader in self.residents:
            row.fail(f"{dst!r} is a resident, and residents read nothing; remove the edge or the role")
        if reader not in self.nodes:
            row.fail(f"{dst!r} is a value; edges lead to nodes")
        self.nodes[reader].reads.append(read)
        if row.flag("saved") is not None:
            self.saved.setdefault(reader, {})[read] = row.flag("saved")

    def _saved(self, node: NodeRow) -> list[str]:
        """What the gradient reads: each read and value as its own flag says, else as the node's flags say."""
        inputs, output = self.needs[node.name]
        said = self.saved.get(node.name, {})

        def kept(name: str, otherwise: bool) -> bool:
            flag = said.get(name)
            return otherwise if flag is None else flag

        own = [node.value_name(k) for k in range(len(node.values))]
        return [
            *(name for name in node.reads if name not in self.residents and kept(name, inputs)),
            *(name for name in own if kept(name, output is not False)),
        ]
