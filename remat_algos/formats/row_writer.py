"""From the rows of a graph to records of its nodes, reads and values, which row_reader.py reads."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from remat_algos.ir.tables import NodeRow, Number, Tables
from remat_algos.text.decimals import MAX_PLACES

MARK_WORDS = ("", "keep", "recompute")
POWERS = [10**k for k in range(1, MAX_PLACES + 1)]
"""Scales that decimals lead to."""

Record = dict[str, Any]
"""Text or number by column; "" is empty."""


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
