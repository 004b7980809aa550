"""From a graph to its rows, and on to records of its nodes, reads and values, which row_reader.py reads."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.resident import ROLES
from remat_algos.ir.tables import NodeRow, Number, ResidentRow, Tables, ValueRow
from remat_algos.text.decimals import MAX_PLACES

MARK_WORDS = ("", "keep", "recompute")
POWERS = [10**k for k in range(1, MAX_PLACES + 1)]
"""Scales that decimals lead to."""

Record = dict[str, Any]
"""Text or number by column; "" is empty."""


def tables_from(graph: ComputationGraph) -> Tables:
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
    """Records of nodes, residents and views; of reads; and of values of nodes with several or named ones."""

    nodes: list[Record]
    edges: list[Record]
    values: list[Record]


def records_of(tables: Tables, scale: int) -> Records:
    """The records of a graph; costs are divided by `scale`."""
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
    """True if a reader can infer the scale of compute from the decimals of the written costs."""
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
    if node.name in tables.views:  # the first value, as the file had it, is a view
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
