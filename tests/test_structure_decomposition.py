"""Tree decompositions: the three laws, Lemma 1, balanced separators (kumar2019)."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from remat_algos.kernels.decomposition import balanced_bag

from remat_algos.errors import GraphError
from remat_algos.structure.decompositions import PathDecomposition, TreeDecomposition
from remat_algos.structure.elimination import UndirectedGraph, elimination_of
from remat_algos.structure.separators import SeparatorTree
from tests.raising import refused
from tests.strategies import MORE


@st.composite
def undirected(draw, max_vertices=10, min_vertices=0):
    n = draw(st.integers(min_vertices, max_vertices))
    pairs = [(u, v) for v in range(n) for u in range(v)]
    return UndirectedGraph.from_edges(n, draw(st.sets(st.sampled_from(pairs), max_size=2 * n)) if pairs else [])


@st.composite
def eliminations(draw, **sizes):
    """A graph, and the bags of some elimination order of it."""
    graph = draw(undirected(**sizes))
    return graph, elimination_of(graph, draw(st.permutations(range(graph.n_vertices))))


@st.composite
def bags_on_trees(draw, max_bags=9, n_vertices=5):
    """Any bags on any tree, its root anywhere."""
    b = draw(st.integers(1, max_bags))
    bags = draw(st.lists(st.sets(st.integers(0, n_vertices - 1)), min_size=b, max_size=b))
    number = draw(st.permutations(range(b)))
    parent = [-1] * b
    for i in range(1, b):
        parent[number[i]] = number[draw(st.integers(0, i - 1))]
    return bags, parent


def decomposition(bags, parent):
    return TreeDecomposition(np.cumsum([0, *map(len, bags)]), [v for bag in bags for v in sorted(bag)], parent)


def path_of(*bags):
    return TreeDecomposition.from_bags(bags, [(i, i + 1) for i in range(len(bags) - 1)])


def bag_sets(found):
    return [set(found.bag(i)) for i in range(found.n_bags)]


def hang_together(bags, edges):
    """Whether the edges among some bags of a tree make one piece of them."""
    inside = [edge for edge in edges if set(edge) <= set(bags)]
    return len(inside) == max(0, len(bags) - 1)  # a forest has one edge less per piece


def broken_laws(found, graph):
    """By the words of kumar2019, section 2.2."""
    bags, edges = bag_sets(found), found.edges().tolist()
    laws = {
        "(i)": set(range(graph.n_vertices)) <= set().union(*bags),
        "(ii)": all(any({u, v} <= bag for bag in bags) for u, v in graph.edges().tolist()),
        "(iii)": all(
            hang_together([i for i, bag in enumerate(bags) if v in bag], edges) for v in range(graph.n_vertices)
        ),
    }
    return {law for law, holds in laws.items() if not holds}


# ---------------------------------------------------------------- the three laws


@MORE
@given(eliminations())
def test_bags_of_an_elimination_order_are_a_decomposition(drawn):
    graph, elimination = drawn
    found = TreeDecomposition.of(elimination)
    found.verify(graph)
    assert broken_laws(found, graph) == set()
    assert (found.n_bags, found.width) == (graph.n_vertices, elimination.width)


def test_a_bag_hangs_on_that_of_the_first_eliminated_of_its_others():
    # 0 - 1 - 2   3 - 4: eliminated 1 (its neighbours join), 3, 0, 2, 4: bags 1 0 2, 3 4, 0 2, 2, 4
    graph = UndirectedGraph.from_edges(5, [(0, 1), (1, 2), (3, 4)])
    found = TreeDecomposition.of(elimination_of(graph, [1, 3, 0, 2, 4]))
    assert bag_sets(found) == [{0, 1, 2}, {3, 4}, {0, 2}, {2}, {4}]
    assert found.parent.tolist() == [2, 4, 3, -1, 3]  # bag {4}, a root too, hangs on the first root {2}


@MORE
@given(bags_on_trees(), undirected(max_vertices=5, min_vertices=5))
def test_verify_names_a_law_that_is_broken(drawn, graph):
    found = decomposition(*drawn)
    broken = broken_laws(found, graph)
    if not broken:
        found.verify(graph)
        return
    with pytest.raises(GraphError, match=r"condition \(i+\) is violated") as raised:
        found.verify(graph)
    assert str(raised.value).split()[1] in broken


@pytest.mark.parametrize(
    ("bags", "fault"),
    [
        ([[0, 1], [1, 2], [2]], {"vertex": 3}),
        ([[0, 1], [1, 2], [3]], {"vertex": 2, "other": 3}),
        ([[0, 1], [1, 2], [2, 3], [0]], {"vertex": 0, "bag": 0, "other": 3}),
        ([[0, 1], [1, 2], [2, 4]], {"bag": 2, "bag_indices": 4, "last": 3}),
    ],
)
def test_who_breaks_a_law_is_named(bags, fault):
    path = UndirectedGraph.from_edges(4, [(0, 1), (1, 2), (2, 3)])
    path_of([0, 1], [1, 2], [2, 3]).verify(path)
    with refused(GraphError, fault):
        path_of(*bags).verify(path)


def test_a_bag_of_many_vertices_under_a_bag_of_many():
    n = 3000
    star = decomposition([set(range(n))] + [{i, i + 1} for i in range(n - 1)], [-1] + [0] * (n - 1))
    star.verify(UndirectedGraph.from_edges(n, [(0, i) for i in range(1, n)]))
    assert star.reduce().n_bags == 1


@pytest.mark.parametrize(
    ("arrays", "fault"),
    [
        (([0, 2], [1, 0], [-1]), {"bag": 0}),
        (([0, 2], [1, 1], [-1]), {"bag": 0}),
        (([0, 1], [-1], [-1]), {"bag": 0}),
        (([0, 1, 1], [0], [-1, -1]), {"bag": 1, "parent": -1}),
        (([0, 0, 0, 0], [], [-1, 2, 1]), {"bag": 1, "parent": 2}),
        (([0, 0], [], [0]), {"bag": 0, "parent": 0}),
        (([0, 0], [], [7]), {"bag": 0, "parent": 7}),
        (([0, 2], [0], [-1]), {"what": "bag_indptr", "n_entries": 1}),
    ],
)
def test_arrays_that_are_no_tree_of_bags_are_refused(arrays, fault):
    with refused(GraphError, fault):
        TreeDecomposition(*arrays)


@pytest.mark.parametrize(
    ("edges", "fault"),
    [
        ([(0, 1)], {"n_bags": 3, "expected": 2, "n_edges": 1}),
        ([(0, 1), (1, 3)], {"i": 1, "j": 3, "last": 2}),
        ([(0, 1), (1, 0)], {"apart": 2}),
        ([(0, 2), (1, 1)], {"apart": 1}),
    ],
)
def test_edges_that_are_no_tree_are_refused(edges, fault):
    with refused(GraphError, fault):
        TreeDecomposition.from_bags([[0], [0], [0]], edges)


@MORE
@given(bags_on_trees())
def test_bags_and_edges_make_the_same_decomposition_again(drawn):
    found = decomposition(*drawn)
    again = TreeDecomposition.from_bags(bag_sets(found), found.edges().tolist())
    assert bag_sets(again) == bag_sets(found)
    assert again.edges().tolist() == found.edges().tolist()


def test_there_may_be_no_bag():
    nothing = TreeDecomposition.from_bags([], [])
    nothing.verify(UndirectedGraph.from_edges(0, []))
    assert (nothing.n_bags, nothing.width, nothing.reduce().n_bags, nothing.edges().shape) == (0, -1, 0, (0, 2))
    assert SeparatorTree.balanced(nothing, 0).depth == 0
    assert SeparatorTree.balanced(nothing, 2).owner.tolist() == [-1, -1]
    assert balanced_bag(nothing.parent) == -1


# ---------------------------------------------------------------- Lemma 1


@MORE
@given(eliminations())
def test_shrinking_leaves_no_bag_inside_a_neighbour(drawn):
    graph, elimination = drawn
    whole = TreeDecomposition.of(elimination)
    small = whole.reduce()
    small.verify(graph)
    bags = bag_sets(small)
    assert not any(bags[i] <= bags[j] or bags[j] <= bags[i] for i, j in small.edges().tolist())
    assert small.width == whole.width
    assert small.n_bags <= graph.n_vertices
    assert small.reduce().n_bags == small.n_bags


def test_shrinking_keeps_bags_in_their_order_and_one_of_empty_ones():
    assert bag_sets(path_of([0], [0, 1], [1], [1, 2], [1, 2], [2]).reduce()) == [{0, 1}, {1, 2}]
    assert path_of([], [], []).reduce().n_bags == 1


# ---------------------------------------------------------------- separators


def parts(tree):
    """The bags of the part that each separator cuts."""
    return [set(tree.bag[s : tree.end[s]].tolist()) for s in range(len(tree.end))]


def pieces(bags, out, edges):
    """The connected pieces that remain of some bags of a tree without one of them."""
    left, found = bags - {out}, []
    while left:
        piece, grown = set(), {min(left)}
        while grown != piece:
            piece = grown
            grown = piece | {x for edge in edges if set(edge) <= left and set(edge) & piece for x in edge}
        found.append(piece)
        left = left - piece
    return found


@MORE
@given(bags_on_trees(max_bags=14))
def test_children_of_a_separator_are_the_pieces_that_it_leaves(drawn):
    found = decomposition(*drawn)
    tree = SeparatorTree.balanced(found, 5)
    edges, part = found.edges().tolist(), parts(tree)
    assert part[0] == set(range(found.n_bags))
    assert tree.n_bags.tolist() == list(map(len, part))
    for s, bags in enumerate(part):
        children = tree.children[tree.child_indptr[s] : tree.child_indptr[s + 1]].tolist()
        left = pieces(bags, tree.bag[s], edges)
        assert sorted(map(min, left)) == sorted(min(part[c]) for c in children)
        assert all(part[c] in left for c in children)
        assert children == sorted(children)
        assert all(2 * len(piece) <= len(bags) for piece in left)
    assert tree.depth <= math.floor(math.log2(found.n_bags)) + 1


@MORE
@given(eliminations())
def test_each_vertex_has_one_owner_and_edges_stay_on_one_way_down(drawn):
    graph, elimination = drawn
    found = TreeDecomposition.of(elimination).reduce()
    for tree in (
        SeparatorTree.balanced(found, graph.n_vertices),
        SeparatorTree.cheapest(found, np.arange(graph.n_vertices)),
    ):
        bags = [found.bag(i) for i in tree.bag]
        first = [min(s for s, bag in enumerate(bags) if v in bag) for v in range(graph.n_vertices)]
        assert tree.owner.tolist() == first  # of the separators whose bag holds v, all others are below that one
        own = [tree.own[tree.own_indptr[s] : tree.own_indptr[s + 1]].tolist() for s in range(found.n_bags)]
        assert own == [[v for v, s in enumerate(first) if s == at] for at in range(found.n_bags)]
        for s, t in np.sort(tree.owner[graph.edges()], axis=1).tolist():
            assert s <= t < tree.end[s]


@MORE
@given(eliminations(min_vertices=1), st.lists(st.integers(0, 9), min_size=10, max_size=10))
def test_the_cheapest_bag_is_the_least_that_balances_well_enough(drawn, memory):
    graph, elimination = drawn
    found = TreeDecomposition.of(elimination)
    tree = SeparatorTree.cheapest(found, memory[: graph.n_vertices])
    edges, bags = found.edges().tolist(), bag_sets(found)
    for s, part in enumerate(parts(tree)):
        owned = set().union(*(bags[tree.bag[t]] for t in range(s) if tree.end[t] > s))  # by those above s
        ranked = []
        for bag in part:
            largest = max(map(len, pieces(part, bag, edges)), default=0)
            if 3 * largest <= 2 * len(part):
                ranked.append((sum(memory[v] for v in bags[bag] - owned), largest, bag))
        assert tree.bag[s] == min(ranked)[2]


@MORE
@given(bags_on_trees(max_bags=12))
def test_a_balanced_separator_is_the_first_that_halves(drawn):
    found = decomposition(*drawn)
    edges, bags = found.edges().tolist(), set(range(found.n_bags))
    halves = [i for i in bags if all(2 * len(piece) <= len(bags) for piece in pieces(bags, i, edges))]
    assert balanced_bag(found.parent) == min(halves)


def test_a_star_falls_apart_at_its_middle():
    star = TreeDecomposition.from_bags([[0]] + [[0, i] for i in range(1, 2001)], [(i, 0) for i in range(1, 2001)])
    tree = SeparatorTree.balanced(star, 2001)
    assert (tree.depth, tree.bag[0], tree.children.tolist()) == (2, 0, list(range(1, 2001)))


def test_a_path_of_20000_bags_is_cut_15_times():
    n = 20000  # 2^14 <= 20000 < 2^15
    path = TreeDecomposition(np.arange(0, 2 * n + 1, 2), np.arange(1, 2 * n + 1) // 2, np.arange(-1, n - 1))
    assert SeparatorTree.balanced(path, n + 1).depth == 15


def test_the_middle_of_a_path_is_its_left_middle_bag():
    path = PathDecomposition(np.arange(0, 13, 2), [0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6])
    tree = SeparatorTree.middle(path, 7)
    # 0 1 [2] 3 4 5: left of it [0] 1, right of it 3 [4] 5
    assert tree.bag.tolist() == [2, 0, 1, 4, 3, 5]


def test_the_counterexample_of_the_literal_algorithm_is_cut_as_the_note_says():
    a, b, c, f, p, q, v0 = range(7)
    graph = UndirectedGraph.from_edges(7, [(c, b), (b, a), (a, v0), (p, v0), (p, q), (v0, q), (q, f)])
    found = path_of([q, f], [p, q, v0], [v0, a], [a, b], [b, c])
    found.verify(graph)
    assert found.reduce().n_bags == 5
    tree = SeparatorTree.balanced(found, 7)
    own = [tree.own[tree.own_indptr[s] : tree.own_indptr[s + 1]].tolist() for s in range(5)]
    assert own == [[a, v0], [f, q], [p], [b], [c]]
    assert tree.end.tolist() == [5, 3, 3, 5, 5]


@pytest.mark.parametrize(
    ("make", "fault"),
    [
        (lambda d: SeparatorTree.balanced(d, 2), {"bag": 1, "bag_indices": 2, "last": 1}),
        (lambda d: SeparatorTree.cheapest(d, [1, 1]), {"bag": 1, "bag_indices": 2, "last": 1}),
        (lambda d: SeparatorTree.cheapest(d, [1, -1, 1]), {"what": "memory", "at": 1, "array": -1}),
    ],
)
def test_separators_of_another_graph_are_refused(make, fault):
    with refused(GraphError, fault):
        make(path_of([0, 1], [1, 2]))
