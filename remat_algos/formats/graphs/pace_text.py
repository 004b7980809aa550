"""Undirected graphs in the format of the PACE challenges, `.gr`: `p tw n m`, then an edge `u v` per line."""

import re
from collections.abc import Callable, Sequence
from itertools import chain
from typing import NoReturn

from remat_algos.errors import GraphError
from remat_algos.formats.registry import GraphFormat
from remat_algos.ir.csr import row_of
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.tables import NodeRow, Tables, ValueRow
from remat_algos.wording import counted, quoted

_START = re.compile(r"(?>\s*+(?:c[^\n]*\n)?+)*+p[ \t]+[a-z]+[ \t]+\d+[ \t]+\d")

MAX_ISOLATED = 100_000
"""Nodes without edges that a header may promise: nothing else in the file bounds them."""


def _parse(text: str, source: str) -> Tables:
    """Rows of size and cost 1, called "1" to "n"; each edge leads from the smaller number to the larger.

    Lines that begin with `c` are comments. The header counts lines, so an edge that appears twice counts twice.
    """

    def fail(line: int, message: str) -> NoReturn:
        raise GraphError("{source!w}, line {line}: {message!w}", source=source, line=line, message=message)

    lines = ((at, line) for at, line in enumerate(text.splitlines(), start=1) if line.strip() and line[0] != "c")
    at, header = next(lines, (1, ""))
    words = header.split()
    if len(words) != 4 or words[:2] != ["p", "tw"] or not all(map(_is_number, words[2:])):
        fail(at, f"expected the header `p tw NODES EDGES`, found {quoted(header.strip())}")
    n, m = map(int, words[2:])
    top = at
    edges: list[tuple[int, int]] = []
    for at, line in lines:
        ends = line.split()
        if len(ends) != 2 or not (_is_number(ends[0]) and _is_number(ends[1])):
            fail(at, f"expected an edge `u v` of two numbers, found {quoted(line.strip())}")
        u, v = sorted(map(int, ends))
        if u < 1 or v > n:
            fail(at, f"edge {u} {v}: the header has nodes 1 to {n}; correct the edge or the header")
        if u == v:
            fail(at, f"edge {u} {v} is a loop, and no node reads itself; remove the line and lower the header's count")
        edges.append((u, v))
    check_header(n, m, edges, "nodes", lambda message: fail(top, message))
    if not n:
        fail(top, "the header has 0 nodes; there is nothing to plan")
    names = list(map(str, range(1, n + 1)))
    nodes = [NodeRow(name, values=[ValueRow()]) for name in names]
    for u, v in edges:
        nodes[v - 1].reads.append(names[u - 1])
    return Tables(nodes, source=source, unsized=names, uncosted=names)


def _dump(graph: ComputationGraph) -> str:
    """The edges between nodes, numbered from 1 in the order of ids, so that each leads to the larger number."""
    indptr, sources = graph.predecessors
    pairs = zip((sources + 1).tolist(), (row_of(indptr) + 1).tolist(), strict=True)
    return "\n".join([f"p tw {graph.n_nodes} {sources.size}", *(f"{u} {v}" for u, v in pairs), ""])


def check_header(n: int, m: int, edges: Sequence[tuple[int, int]], noun: str, fail: Callable[[str], NoReturn]) -> None:
    """Fail unless the header's numbers fit the edges of the file."""
    if len(edges) != m:
        fail(f"the header has {counted(m, 'edge')}, the file {len(edges):,}; is the file whole?")
    # the edges name at most twice their number: counted only if it could matter
    if n - 2 * m > MAX_ISOLATED or (n > MAX_ISOLATED and n - len({*chain(*edges)}) > MAX_ISOLATED):
        bound = f"at most {MAX_ISOLATED:,} may be without"
        fail(f"the header has {n:,} {noun}, most of them without edges; {bound}. Correct the header, or leave them out")


def _is_number(word: str) -> bool:
    return word.isascii() and word.isdecimal() and len(word) < 10


GRAPH_FORMAT = GraphFormat("PACE", _parse, _dump, endings=(".gr",), begins=_START, edges_only=True)
