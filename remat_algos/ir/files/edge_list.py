"""Graphs as plain text: a line `u v` says that v reads u."""

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
    nodes = list(rows.values())
    if all(name.isdecimal() for name in rows):
        nodes.sort(key=lambda node: (len(node.name.lstrip("0")), node.name.lstrip("0")))
    return Tables(nodes, source=source)
