"""Undirected graphs in the format of the PACE challenges, `.gr`: `p tw n m`, then an edge `u v` per line."""

import re
from typing import NoReturn

from remat_algos.errors import GraphError
from remat_algos.ir.tables import NodeRow, Tables, ValueRow

_START = re.compile(r"(?>\s*+(?:c[^\n]*\n)?+)*+p[ \t]+[a-z]+[ \t]+\d+[ \t]+\d")

MOST_NODES = 10**7
"""What a header may promise; beyond it the rows of lone nodes alone would fill the memory."""


def begins(text: str) -> bool:
    """Whether the text begins with comments and a header."""
    return _START.match(text) is not None


def parse(text: str, source: str) -> Tables:
    """Rows of size and cost 1, called "1" to "n"; each edge leads from the smaller number to the larger.

    Lines that begin with `c` are comments. The header counts lines, so an edge that stands twice counts twice there.
    """

    def fail(line: int, message: str) -> NoReturn:
        raise GraphError(f"{source}, line {line}: {message}")

    lines = ((at, line) for at, line in enumerate(text.splitlines(), start=1) if line.strip() and line[0] != "c")
    at, header = next(lines, (1, ""))
    words = header.split()
    if len(words) != 4 or words[:2] != ["p", "tw"] or not all(map(_is_number, words[2:])):
        fail(at, f"{header.strip()[:40]!r} is no header; begin with `p tw NODES EDGES`")
    n, m = map(int, words[2:])
    if n > MOST_NODES:
        fail(at, f"the header promises {n} nodes, more than {MOST_NODES}; bring a graph of this size as npz")
    nodes = [NodeRow(str(v), values=[ValueRow()]) for v in range(1, n + 1)]
    top, found = at, 0
    for at, line in lines:
        ends = line.split()
        if len(ends) != 2 or not (_is_number(ends[0]) and _is_number(ends[1])):
            fail(at, f"{line.strip()[:40]!r} is no edge; an edge is two numbers, `u v`")
        u, v = sorted(map(int, ends))
        if u < 1 or v > n:
            fail(at, f"edge {u} {v} leaves the nodes 1 to {n} of the header; mend one of them")
        if u == v:
            fail(at, f"edge {u} {v} is a loop, and no node reads itself; remove the line, and count it no more")
        nodes[v - 1].reads.append(nodes[u - 1].name)
        found += 1
    if found != m:
        fail(top, f"the header promises {m} edges, the file has {found}; is it whole?")
    if not n:
        fail(top, "the header promises no node; there is nothing to plan")
    return Tables(nodes, source=source)


def _is_number(word: str) -> bool:
    return word.isascii() and word.isdecimal() and len(word) < 10
