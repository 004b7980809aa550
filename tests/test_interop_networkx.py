"""Graphs and tree decompositions from and to networkx."""

import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remat_algos.errors import GraphError
from remat_algos.interop.networkx import (
    decomposition_from_networkx,
    decomposition_to_networkx,
    undirected_from_networkx,
)
from remat_algos.structure.tree_decomposition import TreeDecomposition

networkx = pytest.importorskip("networkx")


def test_directions_loops_and_parallel_edges_are_dropped():
    graph = networkx.MultiDiGraph([("b", "a"), ("a", "b"), ("a", "a"), ("a", "c"), ("a", "c")])
    found, vertices = undirected_from_networkx(graph)
    assert vertices == ["b", "a", "c"]
    assert found.edges().tolist() == [[0, 1], [1, 2]]


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 8), st.integers(0, 99), st.sampled_from(["min_fill_in", "min_degree"]))
def test_decompositions_of_networkx_obey_the_laws(n, seed, rule):
    named = networkx.relabel_nodes(networkx.gnp_random_graph(n, 0.4, seed), "abcdefgh".__getitem__)
    width, tree = getattr(networkx.algorithms.approximation, f"treewidth_{rule}")(named)
    graph, vertices = undirected_from_networkx(named)
    found = decomposition_from_networkx(tree, vertices)
    found.verify(graph)
    assert found.width == width
    again = decomposition_to_networkx(found, vertices)
    assert set(again) == set(tree)
    assert {frozenset(edge) for edge in again.edges} == {frozenset(edge) for edge in tree.edges}


def test_bags_of_numbers_need_no_names():
    tree = decomposition_to_networkx(TreeDecomposition.from_bags([[0, 1], [], [1, 2]], [(0, 1), (1, 2)]))
    assert list(tree) == [frozenset({0, 1}), frozenset(), frozenset({1, 2})]
    found = decomposition_from_networkx(tree)
    assert [found.bag(i) for i in range(3)] == [[0, 1], [], [1, 2]]
    assert found.edges().tolist() == [[0, 1], [1, 2]]


def test_equal_bags_are_refused_and_gone_when_reduced():
    twice = TreeDecomposition.from_bags([[0, 1], [1], [0, 1]], [(0, 1), (1, 2)])
    with pytest.raises(GraphError, match=r"bags 0 and 2 are equal, .*; use decomposition\.reduce\(\)"):
        decomposition_to_networkx(twice)
    assert list(decomposition_to_networkx(twice.reduce())) == [frozenset({0, 1})]


@pytest.mark.parametrize(
    ("tree", "vertices", "message"),
    [
        (networkx.path_graph([frozenset("ab")]), None, r"a bag has '[ab]', expected vertex numbers from 0"),
        (networkx.path_graph([frozenset({-1})]), None, "a bag has -1, expected vertex numbers from 0"),
        (networkx.path_graph([frozenset("a")]), "bc", "a bag has 'a', which is not in `vertices`"),
        (networkx.path_graph(2), None, "the tree has the node 0, expected frozensets of vertices"),
        (networkx.cycle_graph([frozenset({i}) for i in range(3)]), None, "a tree of 3 bags has 2 edges, here are 3"),
    ],
)
def test_what_is_no_tree_of_sets_is_refused(tree, vertices, message):
    with pytest.raises(GraphError, match=message):
        decomposition_from_networkx(tree, vertices)


def test_vertices_without_names_are_refused():
    with pytest.raises(GraphError, match="bag 0 contains vertex 1, the graph's are 0 to 0"):
        decomposition_to_networkx(TreeDecomposition.from_bags([[0, 1]], []), "a")


def test_networkx_may_be_absent(monkeypatch):
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(ImportError, match=r"install it: python -m pip install 'remat_algos\[graphs\]'"):
        decomposition_to_networkx(TreeDecomposition.from_bags([], []))
