"""Graphs as CSV tables: X.nodes.csv, X.edges.csv and, if nodes have several values, X.values.csv (docs/formats.md)."""

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, TextIO

from remat_algos.formats.columns import ColumnTable, Known, check_unknown, fault, meanings, plain, warn_ignored
from remat_algos.formats.graphs.edge_list import in_order
from remat_algos.formats.rows import (
    EDGE_COLUMNS,
    NODE_COLUMNS,
    OF_NODES,
    VALUE_COLUMNS,
    records_of,
    rows_of,
    scale_shows,
)
from remat_algos.ir.tables import Tables

_QUOTED = re.compile(r'"[^"]*"')
_SEPARATOR_LINE = re.compile(r'"?sep=([,;\t|])"?[,;\t ]*(?=\r?\n)', re.IGNORECASE)
# Spreadsheets interpret cells with these beginnings as formulas, unless an apostrophe precedes them.
_FORMULA = re.compile(r"'*[=+\-@\t\r]")
_NUMBER = re.compile(r"[+-]?\d+(\.\d*)?([eE][+-]?\d+)?", re.ASCII)


def parse(nodes: tuple[str, str], edges: ColumnTable, values: tuple[str, str] | None) -> Tables:
    """Parse the tables of a graph; `nodes` and `values` are (text, file name)."""
    node_table = read_table(*nodes, NODE_COLUMNS, ("name",), {"the table of edges or of values": {"saved": "saved"}})
    if values is None:
        return rows_of(node_table, edges)
    value_table = read_table(*values, VALUE_COLUMNS, ("node", "memory_bytes"), {"the table of nodes": OF_NODES})
    return rows_of(node_table, edges, value_table)


def parse_edges(text: str, source: str) -> Tables:
    """Parse a table of edges that has no other tables; sizes and costs are 1."""
    edges = read_edges(text, source)
    pairs = list(zip(edges.texts("src"), edges.texts("dst"), strict=True))
    for row, pair in enumerate(pairs):
        if not all(pair):
            edges.fail(row, "an edge needs both src and dst; write both")
    return rows_of(ColumnTable(source, {"name": list(in_order(chain.from_iterable(pairs)))}, noun="line"), edges)


def read_edges(text: str, source: str) -> ColumnTable:
    """Parse a table of edges; raise GraphError if the source or the target column is missing."""
    return read_table(text, source, EDGE_COLUMNS, ("src", "dst"), {"the table of nodes (--nodes FILE)": OF_NODES})


def read_table(
    text: str,
    source: str,
    known: Known,
    required: Sequence[str] = (),
    elsewhere: Mapping[str, Mapping[str, str]] | None = None,
) -> ColumnTable:
    """Parse CSV with a header. Raise GraphError if a column is missing or, by `elsewhere`, belongs to another table."""
    text, mark = without_separator_line(text)
    mark = mark or separator(text)
    rows, lines = _rows(text, source, mark)
    if not rows:
        raise fault(source, "the file is empty; its first line must name the columns")
    header = [cell.strip() for cell in rows.pop(0)]
    del lines[0]
    if len(header) == 1 and any(other in header[0] for other in "| "):
        raise fault(source, "separate the columns by commas, semicolons or tabs", line=1)
    meaning = meanings(source, header, known, "column", line=1)
    names = [each and each.column for each in map(meaning.get, header)]
    for i, name in enumerate(names):
        if name is not None and name in names[:i]:
            first = header[names.index(name)]
            if first == header[i]:
                raise fault(source, "column `{first}` occurs twice; keep one", line=1, first=first)
            same = "columns `{first}` and `{second}` mean the same; keep one"
            raise fault(source, same, line=1, first=first, second=header[i])
    unknown = [cell for cell, name in zip(header, names, strict=True) if name is None]
    check_unknown(source, list(map(plain, unknown)), known, names, elsewhere or {}, "column", line=1)
    for column in required:
        if column not in names and not (column == "name" and "id" in names):
            found = [name or '""' for name in header]
            raise fault(source, "missing column `{column}` (found: {found!l})", line=1, column=column, found=found)
    warn_ignored(source, unknown)
    for cells, line in zip(rows, lines, strict=True):
        if len(cells) != len(header):
            expected = "expected {expected:cell}, found {found}; is the file whole?"
            raise fault(source, expected, line, expected=len(header), found=len(cells))
    columns = {
        name: list(map(_unmarked, column))
        for name, column in zip(names, zip(*rows, strict=True) if rows else [()] * len(header), strict=True)
        if name is not None
    }
    units = {each.column: each.unit for each in meaning.values() if each is not None and each.unit}
    return ColumnTable(source, columns, lines, header=header, decimal_comma=mark == ";", units=units, ignored=unknown)


def without_separator_line(text: str) -> tuple[str, str]:
    """Replace Excel's first line `sep=X` by an empty line; return (text, X), or (text, "") without such a line."""
    match = _SEPARATOR_LINE.match(text)
    return (text[match.end() :], match[1]) if match is not None else (text, "")


def separator(text: str) -> str:
    """Guess the separator of a table from its first line: comma, semicolon or tab."""
    first = _QUOTED.sub("", text.lstrip("\r\n").partition("\n")[0])
    return max(",;\t", key=first.count)


def _rows(text: str, source: str, mark: str) -> tuple[list[list[str]], list[int]]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=mark, strict=True)
    rows, lines = [], []
    try:
        for cells in reader:
            rows.append(cells)
            lines.append(reader.line_num)
    except csv.Error as error:
        raise fault(source, "not a CSV line ({error!e})", reader.line_num, error=error) from error
    if not all(map(any, rows)):
        lines = [line for line, cells in zip(lines, rows, strict=True) if any(cells)]
        rows = [cells for cells in rows if any(cells)]
    return rows, lines


def dump(tables: Tables) -> dict[str, str]:
    """Return {table: text} without empty columns. "values" is present only if nodes have several or named values."""
    records = records_of(tables, tables.compute_scale or 1)
    texts = {
        "nodes": _text(records.nodes, ["name", "memory", "compute"]),
        "edges": _text(records.edges, ["src", "dst"]),
    }
    if records.values:
        texts["values"] = _text(records.values, ["node", "memory_bytes"])
    return texts


def left_out(tables: Tables) -> list[str]:
    return [
        *([f"the unit of compute ({tables.compute_unit})"] if tables.compute_unit else []),
        *([] if scale_shows(tables) else [f"the scale of compute ({tables.compute_scale})"]),
        *([] if tables.derivation is None else ["the record of its differentiation"]),
    ]


def _text(rows: Sequence[dict[str, Any]], always: Sequence[str]) -> str:
    columns = list(dict.fromkeys([*always, *(column for row in rows for column in row if row[column] != "")]))
    return table_text(columns, ([row.get(column, "") for column in columns] for row in rows))


def table_text(columns: Sequence[str], rows: Iterable[Iterable[Any]]) -> str:
    """Format a table as CSV; an apostrophe protects cells that look like formulas, and `read_table` removes it."""
    out = io.StringIO()
    write_table(out, columns, rows)
    return out.getvalue()


def write_table(out: TextIO, columns: Sequence[str], rows: Iterable[Iterable[Any]]) -> None:
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_marked(cell) if isinstance(cell, str) else cell for cell in row] for row in rows)


def _marked(cell: str) -> str:
    return f"'{cell}" if _FORMULA.match(cell) and not _NUMBER.fullmatch(cell) else cell


def _unmarked(cell: str) -> str:
    cell = cell.strip()
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell
