"""Graphs as plain text: a line `u v` or `u -> v` means that v reads u."""

import re
from collections.abc import Iterable, Mapping, Sequence

from remat_algos.errors import GraphError
from remat_algos.formats.columns import aliases
from remat_algos.formats.registry import GraphFormat
from remat_algos.formats.row_reader import EDGE_COLUMNS
from remat_algos.ir.tables import NodeRow, Tables, ValueRow

_WORD = re.compile(r'"([^"]*)"|->|#.*|[^\s"#][^\s#]*?(?=->|[\s#]|$)|"')
ARROW, NO_DATA = "->", "{}"  # networkx writes the second behind edges without data


def _parse(text: str, source: str) -> Tables:
    """Rows of size and cost 1; nodes in the order of their numbers if all are numbers, else as they first appear.

    A line with one name is a node without edges; `#` begins a comment; names with spaces are quoted.
    """
    rows: dict[str, NodeRow] = {}
    plain = not any(mark in text for mark in ("#", '"', ARROW))
    for line, content in enumerate(text.splitlines(), start=1):
        words = (content if plain else content.partition("#")[0]).split()
        if len(words) > 2 or (not plain and ('"' in content or ARROW in content)):
            words = _words(content, f"{source}, line {line}")
        for name in words:
            if name not in rows:
                rows[name] = NodeRow(name, values=[ValueRow()], line=line)
        if len(words) == 2:
            rows[words[1]].reads.append(words[0])
    if not rows:
        raise GraphError(f"{source}: the file is empty; write an edge `u v` per line")
    _check_first_line(rows, source)
    names = in_order(rows)
    return Tables([rows[name] for name in names], source=source, unsized=names, uncosted=names)


def _words(content: str, where: str) -> list[str]:
    """The names on a line with quotes, an arrow, or more than two words."""
    words: list[str] = []
    arrows: list[int] = []  # names before each
    for found in _WORD.finditer(content):
        if found[0] == '"':
            raise GraphError(f'{where}: a quotation mark is not closed; write names with spaces as "my name"')
        if found[1] is not None:
            words.append(found[1].strip())
        elif found[0] == ARROW:
            arrows.append(len(words))
        elif found[0][0] != "#" and not (found[0] == NO_DATA and len(words) == 2):
            words.append(found[0])
    if len(words) > 2 or (arrows and (arrows, len(words)) != ([1], 2)) or "" in words:
        of_nodes = "; sizes belong to nodes: --nodes FILE" if len(words) == 3 and words[2].isdecimal() else ""
        remedy = f"quote names with spaces or use a CSV table{of_nodes}"
        raise GraphError(f"{where}: expected two names per line, found {len(words) - words.count('')}; {remedy}")
    return words


def _check_first_line(rows: Mapping[str, NodeRow], source: str) -> None:
    """Raise GraphError if the first two names look like columns and appear nowhere else."""
    columns = aliases(EDGE_COLUMNS)
    u, v, *others = [*rows][:3] if len(rows) > 2 else ("", "", "")
    if (columns.get(u.lower()), columns.get(v.lower())) != ("src", "dst") or not others:
        return
    if rows[v].reads == [u] and not rows[u].reads and not any({u, v} & {*row.reads} for row in [*rows.values()][2:]):
        remedy = "remove the line, or separate the columns by commas"
        raise GraphError(f"{source}, line {rows[u].line}: `{u} {v}` names columns, not nodes; {remedy}")


def in_order(names: Iterable[str]) -> Sequence[str]:
    """Each name once: by number if all are numbers, else as they first appear."""
    found = list(dict.fromkeys(names))
    if all(name.isdecimal() for name in found):
        found.sort(key=lambda name: (len(digits := name.lstrip("0")), digits))
    return found


GRAPH_FORMAT = GraphFormat("edge list", _parse, edges_only=True)
"""The format of a text without the marks of any other."""
