"""Graphs as tables: X.nodes.csv, X.edges.csv and, for several values per node, X.values.csv (docs/formats.md)."""

from collections.abc import Mapping

from remat_algos.errors import GraphError
from remat_algos.ir.files.csv_columns import Table
from remat_algos.ir.resident import ROLES
from remat_algos.ir.tables import NodeRow, Number, ResidentRow, Tables, ValueRow

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
    """Rows of the three tables, held together by the ids of the nodes."""

    def __init__(self, nodes: Table, edges: Table, values: Table | None) -> None:
        if "id" not in nodes:
            nodes.require("name")
        edges.require("src", "dst")
        if not len(nodes):
            raise GraphError(f"{nodes.source}: there is no node; add a line for each")
        self.table = nodes
        self.nodes: dict[str, NodeRow] = {}
        self.residents: dict[str, ResidentRow] = {}
        self.called: dict[str, str] = {}  # what an edge may say, to the name of a node, value or resident
        self.said: dict[str, dict[str, bool]] = {}  # node: what it says of single reads and values being saved
        self.needs: dict[str, tuple[bool, bool]] = {}  # node: whether its gradient needs its inputs, its output
        columns = {*nodes.columns, *({"saved"} & set(edges.columns))}
        self._add_rows(nodes)
        if values is not None:
            values.require("node", "memory_bytes")
            columns |= {"saved", "grad_memory"} & set(values.columns)
            self._add_values(values)
        self._connect(edges)
        for node in self.nodes.values():
            node.gradient_of = node.gradient_of and self.called.get(node.gradient_of, node.gradient_of)
            for value in node.values:
                value.view_of = value.view_of and self.called.get(value.view_of, value.view_of)
        self.backward = "to come" if (GRADIENT_COLUMNS | {"saved"}) & columns else "none"
        if any(node.gradient_of for node in self.nodes.values()):
            self.backward = "present"

    def tables(self) -> Tables:
        if self.backward == "to come":
            for node in self.nodes.values():
                node.saved = self._saved(node)
        return Tables([*self.nodes.values()], [*self.residents.values()], self.backward, source=self.table.source)

    def _add_rows(self, table: Table) -> None:
        names = table.texts("name")
        keys = [key or name for key, name in zip(table.texts("id"), names, strict=True)]
        names = [name or key for key, name in zip(keys, names, strict=True)]
        roles, parameters = table.texts("resident"), table.sizes("param_memory", 0)
        memory, views = table.sizes("memory"), table.texts("view_of")
        compute = table.numbers("compute")
        once, output, mark = table.flags("once"), table.flags("output"), table.marks()
        inputs, own = table.flags("grad_needs_inputs"), table.flags("grad_needs_output")
        ops, workspace, gradient_of = table.texts("op"), table.sizes("workspace", 0), table.texts("gradient_of")
        grad_memory, grad_compute = table.sizes("grad_memory"), table.numbers("grad_compute", -1)
        grad_workspace = table.sizes("grad_workspace", 0)
        for row, (key, name) in enumerate(zip(keys, names, strict=True)):
            self._check_name(row, key, name)
            self.called[key] = name
            if roles[row] not in ("", "0"):
                if parameters[row]:
                    table.fail(row, f"{name!r} is a resident; leave its param_memory empty")
                self.residents[name] = self._resident(row, name, roles[row], memory[row] or 0)
                continue
            view_of = views[row] or None
            otherwise = 0 if view_of else 1  # the size and cost of what says nothing
            size, cost = memory[row], compute[row]
            self.nodes[name] = NodeRow(
                name=name,
                op=ops[row],
                compute=otherwise if cost is None else cost,
                workspace=workspace[row],
                once=bool(once[row]),
                mark=mark[row],
                values=[
                    ValueRow(otherwise if size is None else size, None, bool(output[row]), grad_memory[row], view_of)
                ],
                grad_compute=grad_compute[row],
                grad_workspace=grad_workspace[row],
                gradient_of=gradient_of[row] or None,
                line=table.lines[row],
            )
            self.needs[name] = (inputs[row] is not False, own[row] is not False)
            if parameters[row]:
                self._add_parameter(row, name, parameters[row])

    def _check_name(self, row: int, key: str, name: str) -> None:
        if not key:
            self.table.fail(row, "the row has neither id nor name; give it one")
        if key in self.called:
            self.table.fail(row, f"two rows have the id {key!r}; give each its own")
        if name in self.nodes or name in self.residents:
            self.table.fail(row, f"two rows are called {name!r}; give each a name of its own")

    def _resident(self, row: int, name: str, role: str, memory: Number) -> ResidentRow:
        role = "input" if role == "1" else role.lower()
        if role not in ROLES:
            self.table.fail(row, f"resident is {role!r}; write {', '.join(ROLES)}, or nothing for a node")
        return ResidentRow(name, memory, role, [], self.table.lines[row])

    def _add_parameter(self, row: int, reader: str, memory: Number) -> None:
        name = f"param({reader})"
        if name in self.nodes or name in self.residents:
            self.table.fail(row, f"two rows are called {name!r}; give each a name of its own")
        self.residents[name] = ResidentRow(name, memory, "parameter", [reader], self.table.lines[row])

    def _add_values(self, table: Table) -> None:
        names, memory = table.texts("name"), table.sizes("memory_bytes")
        output, views, saved = table.flags("output"), table.texts("view_of"), table.flags("saved")
        grad_memory = table.sizes("grad_memory")
        rows_of: dict[str, list[int]] = {}
        for row, key in enumerate(table.texts("node")):
            if self.called.get(key) not in self.nodes:
                table.fail(row, f"node {key!r} is not in {self.table.source}; add it there")
            rows_of.setdefault(key, []).append(row)
        for key, rows in rows_of.items():
            node = self.nodes[self.called[key]]
            self._check_left_empty(key, table)
            node.values = [
                ValueRow(
                    (0 if views[row] else 1) if memory[row] is None else memory[row],
                    names[row] or None,
                    bool(output[row]),
                    grad_memory[row],
                    views[row] or None,
                )
                for row in rows
            ]
            for k, row in enumerate(rows):
                name, flag = node.value_name(k), saved[row]
                if flag is not None:
                    self.said.setdefault(node.name, {})[name] = flag
                self.called.setdefault(name, name)
                if k:
                    self.called.setdefault(f"{key}:{k}", name)

    def _check_left_empty(self, key: str, values: Table) -> None:
        """The node's own cells must leave to its values what they say."""
        table = self.table
        row = [i or n for i, n in zip(table.texts("id"), table.texts("name"), strict=True)].index(key)
        for column in ("memory", "output", "view_of", "grad_memory"):
            if table.texts(column)[row]:
                table.fail(row, f"node {key!r} has rows in {values.source}; leave its {column} empty here")

    def _connect(self, table: Table) -> None:
        saved = table.flags("saved")
        for row, (src, dst) in enumerate(zip(table.texts("src"), table.texts("dst"), strict=True)):
            read, reader = self.called.get(src), self.called.get(dst)
            if read is None or reader is None:
                lost = dst if reader is None else src
                table.fail(row, f"{lost!r} is no id of {self.table.source}; add a row for it there")
            if reader not in self.nodes:
                kind = (
                    "resident, and residents read nothing" if reader in self.residents else "value; edges lead to nodes"
                )
                table.fail(row, f"{dst!r} is a {kind}; turn the edge round or remove it")
            self.nodes[reader].reads.append(read)
            flag = saved[row]
            if flag is not None:
                self.said.setdefault(reader, {})[read] = flag

    def _saved(self, node: NodeRow) -> list[str]:
        """What the gradient reads: each read and value as its own flag says, else as the node's flags say."""
        inputs, output = self.needs[node.name]
        said = self.said.get(node.name, {})
        own = [node.value_name(k) for k in range(len(node.values))]
        return [
            *(name for name in node.reads if said.get(name, inputs) and name not in self.residents),
            *(name for name in own if said.get(name, output)),
        ]
