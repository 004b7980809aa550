"""Graphs written as the tables that csv_tables.py reads."""

import csv
import io
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from remat_algos.ir.tables import NodeRow, Number, Tables

MARK_WORDS = ("", "keep", "recompute")


def dump(tables: Tables) -> dict[str, str]:
    """Texts of the tables by kind: "nodes", "edges", and "values" where a node has several or named ones.

    Columns that say nothing are left out. The name of the unit of compute is not written: tables have no place for it.
    """
    several = {node.name for node in tables.nodes if len(node.values) > 1 or node.values[0].name is not None}
    texts = {
        "nodes": _text(_nodes(tables, several), ["name", "memory", "compute"]),
        "edges": _text(_edges(tables), ["src", "dst"]),
    }
    if several:
        rows = [row for node in tables.nodes if node.name in several for row in _values(node, tables.backward)]
        texts["values"] = _text(rows, ["node", "memory_bytes"])
    return texts


def _text(rows: Sequence[dict[str, Any]], always: Sequence[str]) -> str:
    columns = list(dict.fromkeys([*always, *(column for row in rows for column in row if row[column] != "")]))
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, restval="", extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def _nodes(tables: Tables, several: set[str]) -> list[dict[str, Any]]:
    scale = tables.compute_scale or 1
    rows: list[dict[str, Any]] = [
        {"name": resident.name, "memory": resident.memory, "compute": 0, "resident": resident.role}
        for resident in tables.residents
    ]
    for node in tables.nodes:
        row = {
            "name": node.name,
            "compute": _decimal(node.compute, scale),
            "op": node.op,
            "workspace": node.workspace or "",
            "once": int(node.once) or "",
            "mark": MARK_WORDS[node.mark],
            "gradient_of": node.gradient_of or "",
        }
        if node.name not in several:
            value = node.values[0]
            row |= {"memory": value.memory, "output": int(value.output) or ""}
            row["grad_memory"] = "" if value.grad_memory is None else value.grad_memory
        if tables.backward == "to come":
            row["grad_compute"] = "" if node.grad_compute == -1 else _decimal(node.grad_compute, scale)
            row["grad_workspace"] = node.grad_workspace or ""
            if node.name not in several:
                row["grad_needs_output"] = int(node.value_name(0) in (node.saved or ()))
        rows.append(row)
    return rows + [{"name": name, "compute": 0, "view_of": base} for name, base in tables.views.items()]


def _decimal(cost: Number, scale: int) -> str:
    return f"{(Decimal(cost) / scale).normalize():f}"


def _values(node: NodeRow, backward: str) -> list[dict[str, Any]]:
    rows = []
    for k, value in enumerate(node.values):
        row = {"node": node.name, "name": value.name or "", "memory_bytes": value.memory}
        row |= {
            "output": int(value.output) or "",
            "grad_memory": "" if value.grad_memory is None else value.grad_memory,
        }
        if backward == "to come":
            row["saved"] = int(node.value_name(k) in (node.saved or ()))
        rows.append(row)
    return rows


def _edges(tables: Tables) -> list[dict[str, Any]]:
    residents: dict[str, list[str]] = {}
    for resident in tables.residents:
        for reader in resident.readers:
            residents.setdefault(reader, []).append(resident.name)
    rows: list[dict[str, Any]] = []
    for node in tables.nodes:
        for name in node.reads:
            saved = {"saved": int(name in (node.saved or ()))} if tables.backward == "to come" else {}
            rows.append({"src": name, "dst": node.name, **saved})
        rows += [{"src": name, "dst": node.name} for name in residents.get(node.name, ())]
    return rows
