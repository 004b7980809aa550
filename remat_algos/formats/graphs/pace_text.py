"""Undirected graphs in PACE's `.gr` format: a header `p tw n m`, then an edge `u v` per line."""

import re
from collections.abc import Iterator

from remat_algos.formats.columns import fault
from remat_algos.formats.registry import GraphFormat
from remat_algos.ir.arrays import row_of
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.tables import NodeRow, Tables, ValueRow

_START = re.compile(r"(?>\s*+(?:c[^\n]*\n)?+)*+p[ \t]+[a-z]+[ \t]+\d+[ \t]+\d")

Lines = Iterator[tuple[int, list[str]]]

MAX_ISOLATED = 100_000
"""Maximum number of nodes without edges: only the header counts them, so a tiny file could fill the memory."""


def _parse(text: str, source: str) -> Tables:
    """Parse to nodes "1" to "n" of size and cost 1. Edges are directed from smaller to larger numbers."""
    lines = numbered_lines(text)
    top, n, m = header(lines, source, "p tw", "NODES EDGES")
    edges = edges_of(lines, source, top, n, m, "nodes")
    if not n:
        raise fault(source, "the header has 0 nodes; there is nothing to plan", top)
    names = list(map(str, range(1, n + 1)))
    nodes = [NodeRow(name, values=[ValueRow()]) for name in names]
    for at, u, v in edges:
        if u == v:
            loop = "edge {u} {u} is a loop, but no node reads itself; remove the line and lower the header's count"
            raise fault(source, loop, at, u=u)
        nodes[max(u, v) - 1].reads.append(names[min(u, v) - 1])
    return Tables(nodes, source=source, unsized=names, uncosted=names)


def _dump(graph: ComputationGraph) -> str:
    """Write the edges, with nodes numbered from 1 in id order, so that each edge leads to the larger number."""
    indptr, sources = graph.predecessors
    pairs = zip((sources + 1).tolist(), (row_of(indptr) + 1).tolist(), strict=True)
    return "\n".join([f"p tw {graph.n_nodes} {sources.size}", *(f"{u} {v}" for u, v in pairs), ""])


def edges_of(lines: Lines, source: str, line: int, n: int, m: int, noun: str) -> list[tuple[int, int, int]]:
    """Return (line, u, v) of each edge; raise GraphError if the edges contradict the header, which is on `line`."""
    edges = []
    for at, words in lines:
        u, v = edge(words, source, at)
        if not (0 < u <= n and 0 < v <= n):
            outside = "edge {u} {v}: the header has {noun} 1 to {n}; correct the edge or the header"
            raise fault(source, outside, at, u=u, v=v, noun=noun, n=n)
        edges.append((at, u, v))
    if len(edges) != m:
        wrong = "the header has {expected:edge}, but the file has {n_edges:,}; is the file whole?"
        raise fault(source, wrong, line, expected=m, n_edges=len(edges))
    # m edges touch at most 2 m nodes, so count isolated nodes only if there could be too many.
    if n - 2 * m > MAX_ISOLATED or (n > MAX_ISOLATED and _isolated(n, edges) > MAX_ISOLATED):
        many = "the header has {n:,} {noun}, but at most {max_isolated:,} may be without edges; "
        many += "correct the header, or remove these"
        raise fault(source, many, line, n=n, noun=noun, max_isolated=MAX_ISOLATED)
    return edges


def _isolated(n: int, edges: list[tuple[int, int, int]]) -> int:
    return n - len({x for _, *ends in edges for x in ends})


def numbered_lines(text: str) -> Lines:
    """Yield (line number, words) of each line that is not a comment."""
    for at, line in enumerate(text.split("\n"), start=1):
        if not line.startswith("c") and (words := line.split()):
            yield at, words


def header(lines: Lines, source: str, start: str, names: str) -> tuple[int, ...]:
    """Return the line number of the header, and its numbers, one per word of `names`."""
    at, words = next(lines, (1, []))
    ids = numbers(words[2:])
    if ids is None or " ".join(words[:2]) != start or len(ids) != len(names.split()):
        wrong = "expected the header `{start} {names!w}`, found {found!r}"
        raise fault(source, wrong, at, start=start, names=names, found=" ".join(words))
    return at, *ids


def edge(words: list[str], source: str, at: int) -> list[int]:
    ids = numbers(words)
    if ids is None or len(ids) != 2:
        raise fault(source, "expected an edge `u v` of two numbers, found {found!r}", at, found=" ".join(words))
    return ids


def numbers(words: list[str]) -> list[int] | None:
    """Convert words to numbers. Return None if a word is not a number of at most nine digits."""
    digits = "".join(words)
    if digits and not (digits.isascii() and digits.isdecimal() and max(map(len, words)) < 10):
        return None
    return list(map(int, words))


GRAPH_FORMAT = GraphFormat("PACE", _parse, _dump, endings=(".gr",), begins=_START, edges_only=True)
