"""Files of the PACE treewidth challenges: graphs (`.gr`) and tree decompositions (`.td`). Ids in files start at 1."""

import os
from pathlib import Path

from remat_algos.arguments import checked_arguments
from remat_algos.files import read_text, write_whole
from remat_algos.formats.columns import fault
from remat_algos.formats.graphs.pace_text import edge, edges_of, header, numbered_lines, numbers
from remat_algos.ir.arrays import Int32
from remat_algos.structure.decompositions import TreeDecomposition
from remat_algos.structure.elimination import UndirectedGraph


@checked_arguments
def read_gr(path: str | os.PathLike[str]) -> UndirectedGraph:
    """Read an undirected graph: a header `p tw VERTICES EDGES`, then a line `u v` per edge.

    Lines that begin with `c` are comments. PACE allows loops and duplicate edges and counts them in the header; they
    are dropped.

    Parameters
    ----------
    path : path

    Returns
    -------
    UndirectedGraph

    Raises
    ------
    GraphError
        If the file is invalid.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_gr(UndirectedGraph.from_edges(3, [(0, 1), (1, 2)]), f"{folder}/path.gr")
    ...     read_gr(f"{folder}/path.gr").edges().tolist()
    [[0, 1], [1, 2]]
    """
    return _graph(read_text(path), Path(path).name)


def _graph(text: str, source: str) -> UndirectedGraph:
    lines = numbered_lines(text)
    top, n, m = header(lines, source, "p tw", "VERTICES EDGES")
    edges = edges_of(lines, source, top, n, m, "vertices")
    return UndirectedGraph.from_edges(n, [(u - 1, v - 1) for _, u, v in edges])


@checked_arguments
def write_gr(graph: UndirectedGraph, path: str | os.PathLike[str]) -> None:
    """Write a graph as `.gr`; on failure nothing is written.

    Parameters
    ----------
    graph : UndirectedGraph
    path : path

    Raises
    ------
    OSError
        On failure; an existing file is left unchanged.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_gr(UndirectedGraph.from_edges(3, [(0, 1), (1, 2)]), f"{folder}/path.gr")
    ...     Path(f"{folder}/path.gr").read_text()
    'p tw 3 2\\n1 2\\n2 3\\n'
    """
    lines = [f"p tw {graph.n_vertices} {graph.n_edges}", *_pairs(graph.edges() + 1), ""]
    write_whole(Path(path), "\n".join(lines).encode())


@checked_arguments
def read_td(path: str | os.PathLike[str]) -> TreeDecomposition:
    """Read a tree decomposition; bag 1 of the file becomes bag 0, the root.

    The header is `s td BAGS LARGEST VERTICES`, where LARGEST is the size of the largest bag. A line `b i v ...` per bag
    follows, in any order (no `v` for an empty bag), then a line `i j` per edge of the tree. Lines that begin with `c`
    are comments.

    Parameters
    ----------
    path : path

    Returns
    -------
    TreeDecomposition
        The decomposition; its method `verify` checks it for a graph.

    Raises
    ------
    GraphError
        If the file is invalid.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_td(TreeDecomposition.from_bags([[0, 1], [1, 2]], [(0, 1)]), f"{folder}/path.td", 3)
    ...     read_td(f"{folder}/path.td").bag(1)
    [1, 2]
    """
    return _decomposition(read_text(path), Path(path).name)


def _decomposition(text: str, source: str) -> TreeDecomposition:
    lines = numbered_lines(text)
    top, n_bags, largest, n = header(lines, source, "s td", "BAGS LARGEST VERTICES")
    bags: dict[int, list[int]] = {}
    edges: list[tuple[int, int]] = []
    joined: dict[int, int] = {}
    for at, words in lines:
        if words[0] == "b":
            if edges:
                raise fault(source, "a bag comes after an edge of the tree; give all bags first", at)
            i, bag = _bag(words, source, at, n_bags, n)
            if i in bags:
                raise fault(source, "bag {i} occurs twice; give each bag one line", at, i=i)
            bags[i] = bag
            continue
        i, j = edge(words, source, at)
        if i not in bags or j not in bags:
            unknown = "edge {i} {j} has a bag that no earlier line defines; give all bags first"
            raise fault(source, unknown, at, i=i, j=j)
        if not _join(joined, i, j):
            cycle = "edge {i} {j} closes a cycle, but the bags must form a tree; remove the line"
            raise fault(source, cycle, at, i=i, j=j)
        edges.append((i - 1, j - 1))
    if len(bags) != n_bags:
        missing = next(i for i in range(1, n_bags + 1) if i not in bags)
        lacking = "the header has {n_bags} bags, but bag {missing} is missing; an empty bag needs a line too"
        raise fault(source, lacking, top, n_bags=n_bags, missing=missing)
    if len(edges) != max(0, n_bags - 1):
        wrong = "{n_bags:bag} need {expected:edge}, found {n_edges}; is the file whole?"
        raise fault(source, wrong, top, n_bags=n_bags, expected=n_bags - 1, n_edges=len(edges))
    actual = max(map(len, bags.values()), default=0)
    if actual != largest:
        wrong = "the header has {largest} vertices for the largest bag, which has {actual}; correct the header"
        raise fault(source, wrong, top, largest=largest, actual=actual)
    return TreeDecomposition.from_bags([bags[i] for i in range(1, n_bags + 1)], edges)


@checked_arguments
def write_td(decomposition: TreeDecomposition, path: str | os.PathLike[str], n_vertices: int) -> None:
    """Write a tree decomposition as `.td`; on failure nothing is written. The format does not store the root.

    Parameters
    ----------
    decomposition : TreeDecomposition
    path : path
    n_vertices : int
        Number of vertices of the graph.

    Raises
    ------
    GraphError
        If a bag contains an unknown vertex.
    OSError
        On failure; an existing file is left unchanged.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_td(TreeDecomposition.from_bags([[0, 1], [1, 2]], [(0, 1)]), f"{folder}/path.td", 3)
    ...     Path(f"{folder}/path.td").read_text()
    's td 2 2 3\\nb 1 1 2\\nb 2 2 3\\n1 2\\n'
    """
    write_whole(Path(path), td_text(decomposition, n_vertices).encode())


def td_text(decomposition: TreeDecomposition, n_vertices: int) -> str:
    """Return a tree decomposition as `.td` text; raise GraphError if a bag contains an unknown vertex."""
    decomposition.check_vertices(n_vertices)
    top = f"s td {decomposition.n_bags} {decomposition.width + 1} {n_vertices}"
    ends, words = decomposition.bag_indptr.tolist(), list(map(str, (decomposition.bag_indices + 1).tolist()))
    bags = (" ".join([f"b {i}", *words[ends[i - 1] : ends[i]]]) for i in range(1, len(ends)))
    return "\n".join([top, *bags, *_pairs(decomposition.edges() + 1), ""])


def _bag(words: list[str], source: str, at: int, n_bags: int, n: int) -> tuple[int, list[int]]:
    ids = numbers(words[1:])
    if not ids:
        raise fault(source, "expected a bag `b NUMBER VERTICES`, found {found!r}", at, found=" ".join(words))
    i, *vertices = ids
    if not 0 < i <= n_bags:
        unknown = "bag {i}: the header has bags 1 to {n_bags}; correct the bag or the header"
        raise fault(source, unknown, at, i=i, n_bags=n_bags)
    outside = [v for v in vertices if not 0 < v <= n]
    if outside:
        unknown = "bag {i} contains {vertex}: the header has vertices 1 to {n}; correct the bag or the header"
        raise fault(source, unknown, at, i=i, vertex=outside[0], n=n)
    if len(set(vertices)) < len(vertices):
        raise fault(source, "bag {i} names a vertex twice; name each once", at, i=i)
    return i, [v - 1 for v in vertices]


def _join(joined: dict[int, int], i: int, j: int) -> bool:
    """Join the trees of two bags (union-find); return False if they were already connected."""
    ends = []
    for bag in (i, j):
        while (above := joined.setdefault(bag, bag)) != bag:
            joined[bag] = joined[above]
            bag = above
        ends.append(bag)
    joined[ends[0]] = ends[1]
    return ends[0] != ends[1]


def _pairs(edges: Int32) -> list[str]:
    return [f"{i} {j}" for i, j in edges.tolist()]
