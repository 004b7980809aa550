"""Undirected graphs and tree decompositions from and to networkx."""

from collections.abc import Iterable, Sequence
from typing import Any

from remat_algos.errors import GraphError
from remat_algos.structure.tree_decomposition import TreeDecomposition
from remat_algos.structure.undirected import UndirectedGraph


def undirected_from_networkx(graph: Any) -> tuple[UndirectedGraph, list[Any]]:
    """A networkx graph with its vertices numbered in their order; directions, loops and parallel edges are dropped.

    Parameters
    ----------
    graph : networkx.Graph

    Returns
    -------
    UndirectedGraph
    list
        networkx' name of each vertex.

    Examples
    --------
    >>> import networkx
    >>> graph, vertices = undirected_from_networkx(networkx.Graph(["ab", "bc"]))
    >>> graph.edges().tolist(), vertices
    ([[0, 1], [1, 2]], ['a', 'b', 'c'])
    """
    vertices = list(graph.nodes)
    place = {vertex: i for i, vertex in enumerate(vertices)}
    edges = [(place[u], place[v]) for u, v in graph.edges()]
    return UndirectedGraph.from_edges(len(vertices), edges), vertices


def to_networkx(decomposition: TreeDecomposition, vertices: Sequence[Any] | None = None) -> Any:
    """A tree decomposition as networkx has it: a graph whose nodes are frozensets of vertices.

    Equal bags would be one node there; `shrunk` decompositions have none.

    Parameters
    ----------
    decomposition : TreeDecomposition
    vertices : sequence, optional
        networkx' name of each vertex; by default its number.

    Returns
    -------
    networkx.Graph

    Raises
    ------
    GraphError
        If two bags are equal, or a bag holds a vertex without a name.
    ImportError
        If networkx is not installed.

    Examples
    --------
    >>> tree = to_networkx(TreeDecomposition.from_bags([[0, 1], [1, 2]], [(0, 1)]), "abc")
    >>> [sorted(bag) for bag in tree]
    [['a', 'b'], ['b', 'c']]
    """
    try:
        import networkx
    except ImportError as error:
        raise ImportError("networkx is not here; install it: python -m pip install networkx") from error
    if vertices is not None:
        decomposition.check_vertices(len(vertices))
    bags: dict[frozenset[Any], int] = {}
    for i in range(decomposition.n_bags):
        bag = frozenset(v if vertices is None else vertices[v] for v in decomposition.bag(i))
        if bag in bags:
            raise GraphError(
                f"bags {bags[bag]} and {i} are equal, and would be one in networkx; ask for shrunk() first"
            )
        bags[bag] = i
    tree, nodes = networkx.Graph(), list(bags)
    tree.add_nodes_from(nodes)
    tree.add_edges_from((nodes[i], nodes[j]) for i, j in decomposition.edges().tolist())
    return tree


def from_networkx(tree: Any, vertices: Iterable[Any] | None = None) -> TreeDecomposition:
    """The decomposition of a networkx tree whose nodes are sets of vertices, as its treewidth_* functions give it.

    Parameters
    ----------
    tree : networkx.Graph
    vertices : iterable, optional
        networkx' name of each vertex, as `undirected_from_networkx` gives them; by default they are numbers.

    Returns
    -------
    TreeDecomposition
        Its bags are in the order of the tree's nodes.

    Raises
    ------
    GraphError
        If a node is no set of these vertices, or the edges are no tree.

    Examples
    --------
    >>> import networkx
    >>> _, tree = networkx.algorithms.approximation.treewidth_min_fill_in(networkx.cycle_graph(4))
    >>> from_networkx(tree).width
    2
    """
    places = None if vertices is None else {vertex: i for i, vertex in enumerate(vertices)}
    nodes = list(tree.nodes)
    row = {node: i for i, node in enumerate(nodes)}
    edges = [(row[i], row[j]) for i, j in tree.edges()]
    return TreeDecomposition.from_bags([_bag(node, places) for node in nodes], edges)


def _bag(node: Any, places: dict[Any, int] | None) -> list[int]:
    """The numbers of the vertices in a node of the tree."""
    if not isinstance(node, frozenset | tuple):
        raise GraphError(f"{node!r} is a node of the tree, and no set of vertices; give nodes that are frozensets")
    for vertex in node:
        if places is None and not (hasattr(vertex, "__index__") and vertex >= 0):
            raise GraphError(
                f"a bag holds {vertex!r}, which is no number from 0; give the vertices' names as `vertices`"
            )
        if places is not None and vertex not in places:
            raise GraphError(f"a bag holds {vertex!r}, which is none of the given vertices; is it of another graph?")
    return list(node) if places is None else [places[vertex] for vertex in node]
