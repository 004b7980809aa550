"""Graphs as plain text: a line `u v` says that v reads u."""

from collections.abc import Iterable

from remat_algos.errors import GraphError
from remat_algos.ir.tables import NodeRow, Tables, ValueRow


def parse(text: str, source: str) -> Tables:
    """Rows of size and cost 1; nodes in the order of their numbers if all are numbers, else as they first appear.

    A line of one name is a node without edges; `#` begins a comment.
    """
    rows: dict[str, NodeRow] = {}
    for line, content in enumerate(text.splitlines(), start=1):
        words = content.partition("#")[0].split()
        if len(words) > 2:
            raise GraphError(f"{source}, line {line}: {len(words)} words; an edge is two, `u v`")
        for name in words:
            if name not in rows:
                rows[name] = NodeRow(name, values=[ValueRow()], line=line)
        if len(words) == 2:
            rows[words[1]].reads.append(words[0])
    if not rows:
        raise GraphError(f"{source}: the file is empty; write an edge `u v` per line")
    return Tables([rows[name] for name in in_order(rows)], source=source)


def in_order(names: Iterable[str]) -> list[str]:
    """Each name once: by number if all are numbers, else as they first appear."""
    found = list(dict.fromkeys(names))
    if all(name.isdecimal() for name in found):
        found.sort(key=lambda name: (len(name.lstrip("0")), name.lstrip("0")))
    return found
