"""Layouts, path decompositions and the spine: their laws, and the least width by all orders."""

from itertools import combinations, pairwise, permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from remat_algos.kernels.decomposition import branch_layout, breadth_first_layout, minimum_layout, place_early

from remat_algos.errors import GraphError
from remat_algos.ir.graph import ComputationGraph
from remat_algos.structure.decompositions import (
    PathDecomposition,
    greedy_layout,
    separation,
    spine,
)
from remat_algos.structure.elimination import RULES, UndirectedGraph, eliminate
from tests.ladders import ladder, zigzag
from tests.raising import raises
from tests.strategies import MORE, graphs


@st.composite
def undirected_graphs(draw, max_vertices=9):
    n = draw(st.integers(0, max_vertices))
    pairs = list(combinations(range(n), 2))
    return UndirectedGraph.from_edges(n, draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else [])


@st.composite
def laid_out(draw, max_vertices=9):
    """A graph and any order of its vertices."""
    graph = draw(undirected_graphs(max_vertices))
    return graph, np.array(draw(st.permutations(range(graph.n_vertices))), np.int32)


def largest_boundary(graph, order):
    """Placed vertices with a neighbour that is not placed: the most of any prefix."""
    prefixes = [set(order[:k]) for k in range(len(order))]
    return max((sum(not set(graph.neighbours(v)) <= s for v in s) for s in prefixes), default=0)


def bags(path):
    return [set(path.bag(i)) for i in range(path.n_bags)]


def grid(rows, columns):
    down = [((r, c), (r + 1, c)) for r in range(rows - 1) for c in range(columns)]
    along = [((r, c), (r, c + 1)) for r in range(rows) for c in range(columns - 1)]
    return UndirectedGraph.from_edges(
        rows * columns, [(r * columns + c, s * columns + d) for (r, c), (s, d) in down + along]
    )


# ---------------------------------------------------------------- layouts


@MORE
@given(laid_out())
def test_separation_is_the_largest_boundary(case):
    graph, order = case
    assert separation(graph, order) == largest_boundary(graph, order.tolist())


@MORE
@given(undirected_graphs(6))
def test_the_least_layout_is_the_least_of_all_orders(graph):
    layout = minimum_layout(graph.indptr, graph.indices)
    least = min(largest_boundary(graph, order) for order in permutations(range(graph.n_vertices)))
    assert separation(graph, layout) == least


@MORE
@given(undirected_graphs(), st.integers(0, 3))
def test_the_greedy_layout_lies_between_the_least_and_the_ids(graph, seed):
    layout = greedy_layout(graph, np.random.default_rng(seed))
    least = separation(graph, minimum_layout(graph.indptr, graph.indices))
    assert least <= separation(graph, layout) <= separation(graph, np.arange(graph.n_vertices))
    assert np.array_equal(layout, greedy_layout(graph, np.random.default_rng(seed)))


@MORE
@given(laid_out())
def test_placing_early_takes_what_is_free_and_spoils_no_order(case):
    graph, order = case
    layout, largest = place_early(graph.indptr, graph.indices, order)
    assert largest == separation(graph, layout) <= separation(graph, order)
    for k, v in enumerate(layout.tolist()):
        before = set(layout[:k].tolist())
        growth = {u: growth_of(graph, before, u) for u in set(range(graph.n_vertices)) - before}
        first = next(u for u in order.tolist() if u not in before)
        assert growth[v] <= 0 or (v == first and min(growth.values()) == 1)


def growth_of(graph, placed, vertex):
    def boundary(s):
        return sum(not set(graph.neighbours(v)) <= s for v in s)

    return boundary(placed | {vertex}) - boundary(placed)


@MORE
@given(undirected_graphs(), st.sampled_from(RULES))
def test_branch_by_branch_is_within_a_logarithm_of_the_width(graph, rule):
    elimination = eliminate(graph, rule)
    layout = branch_layout(elimination.order, elimination.bag_indptr, elimination.bag_indices)
    n = graph.n_vertices
    assert separation(graph, layout) <= (elimination.width + 1) * (1 + np.log2(max(n, 1)))


@MORE
@given(undirected_graphs(), st.data())
def test_breadth_first_is_by_distance(graph, data):
    if not graph.n_vertices:
        return
    start = data.draw(st.integers(0, graph.n_vertices - 1))
    order = breadth_first_layout(graph.indptr, graph.indices, start).tolist()
    distance, frontier = {start: 0}, [start]
    for v in frontier:
        for u in graph.neighbours(v):
            if u not in distance:
                distance[u] = distance[v] + 1
                frontier.append(u)
    assert order[: len(frontier)] == frontier
    assert sorted(order) == list(range(graph.n_vertices))


@pytest.mark.parametrize(
    ("graph", "pathwidth"),
    [
        (UndirectedGraph.from_edges(0, []), 0),
        (UndirectedGraph.from_edges(3, []), 0),
        (UndirectedGraph.from_edges(5, [(i, i + 1) for i in range(4)]), 1),
        (UndirectedGraph.from_edges(6, [(i, (i + 1) % 6) for i in range(6)]), 2),
        (UndirectedGraph.from_edges(5, combinations(range(5), 2)), 4),
        (UndirectedGraph.from_edges(7, [(0, i) for i in range(1, 7)]), 1),
        # three paths of two edges that meet: the least tree that is no caterpillar
        (UndirectedGraph.from_edges(7, [(0, 1), (1, 2), (0, 3), (3, 4), (0, 5), (5, 6)]), 2),
        (grid(3, 5), 3),
        (grid(4, 4), 4),
    ],
)
def test_known_pathwidths(graph, pathwidth):
    assert separation(graph, minimum_layout(graph.indptr, graph.indices)) == pathwidth
    assert separation(graph, greedy_layout(graph)) == pathwidth


def test_a_folded_chain_is_laid_out_folded():
    """f_i, b_i and b_(i + 1) share a bag; the id order has all forward nodes on its boundary."""
    graph = UndirectedGraph.of(ladder(50))
    assert separation(graph, np.arange(graph.n_vertices)) == 51
    assert separation(graph, greedy_layout(graph)) == 2


def test_what_looks_on_is_called_in_each_portion_and_may_end_the_search(monkeypatch):
    monkeypatch.setattr("remat_algos.structure.tuning.FILL_WORK", 1)
    graph, looks = UndirectedGraph.of(ladder(20)), []
    found = greedy_layout(graph, look=lambda: looks.append(None))
    assert found.tolist() == greedy_layout(graph).tolist()
    n_looks = len(looks)
    assert n_looks > 2 * graph.n_vertices  # of two eliminations, and orders
    for last in (0, n_looks // 2, n_looks - 1):
        with pytest.raises(IndexError):
            greedy_layout(graph, look=([None] * last).pop)


# ---------------------------------------------------------------- decompositions


@MORE
@given(laid_out())
def test_bags_of_a_layout_obey_the_laws(case):
    graph, order = case
    path = PathDecomposition.of(graph, order)
    path.verify(graph)
    assert path.width == (separation(graph, order) if graph.n_vertices else -1)
    assert not any(left <= right or right <= left for left, right in pairwise(bags(path)))
    assert path.tree().edges().tolist() == [[i, i + 1] for i in range(path.n_bags - 1)]


@MORE
@given(laid_out())
def test_bags_are_those_of_the_definition(case):
    """Each vertex with the earlier ones that have a neighbour from its place on, without those inside another."""
    graph, order = case
    path, order = PathDecomposition.of(graph, order), order.tolist()
    whole = [{v} | {u for u in order[:k] if set(graph.neighbours(u)) & set(order[k:])} for k, v in enumerate(order)]
    assert bags(path) == [bag for bag in whole if not any(bag < other for other in whole)]


@MORE
@given(laid_out())
def test_spans_and_bags_say_the_same(case):
    path = PathDecomposition.of(*case)
    again = PathDecomposition.from_spans(*path.spans(case[0].n_vertices))
    assert bags(again) == bags(path)


def test_verify_finds_a_vertex_that_leaves_and_returns():
    path = PathDecomposition([0, 2, 3, 5], [0, 1, 1, 0, 1])
    with raises(GraphError, vertex=0, bag=0, other=2):
        path.verify(UndirectedGraph.from_edges(2, [(0, 1)]))


@pytest.mark.parametrize("layout", [[0, 1, 1], [0, 1], [0, 1, 3]])
def test_layouts_of_other_vertices_are_refused(layout):
    with pytest.raises(GraphError, match=r"vertices 0 to 2 once|expected 3"):
        PathDecomposition.of(UndirectedGraph.from_edges(3, []), layout)


def test_bags_ascend():
    with raises(GraphError, bag=0):
        PathDecomposition([0, 2], [1, 0])


# ---------------------------------------------------------------- the spine


@MORE
@given(graphs(max_nodes=10), st.data())
def test_the_laws_of_the_spine(graph, data):
    undirected = UndirectedGraph.of(graph)
    layout = data.draw(st.permutations(range(graph.n_nodes)))
    check_spine(graph, PathDecomposition.of(undirected, layout))


@pytest.mark.parametrize("graph", [ladder(20), zigzag(3, 12)], ids=["ladder", "zigzag"])
def test_the_laws_of_the_spine_on_folded_graphs(graph):
    undirected = UndirectedGraph.of(graph)
    check_spine(graph, PathDecomposition.of(undirected, greedy_layout(undirected)))


def check_spine(graph, path):
    order, wider = spine(graph, path)
    place = {v: i for i, v in enumerate(order.tolist())}
    indptr, sources = graph.predecessors
    assert all(place[u] < place[v] for v in place for u in sources[indptr[v] : indptr[v + 1]].tolist())
    edges = [*UndirectedGraph.of(graph).edges().tolist(), *pairwise(order.tolist())]
    wider.verify(UndirectedGraph.from_edges(graph.n_nodes, edges))
    assert wider.width <= 2 * path.width + 1
    last = [max(place[v] for v in bag) for bag in bags(wider)]
    for centre in (c for c, bag in enumerate(bags(wider)) if order[-1] in bag):
        assert last[: centre + 1] == sorted(last[: centre + 1])
        assert last[centre:] == sorted(last[centre:], reverse=True)


def test_the_spine_takes_the_leftmost_bag_that_is_ready():
    """Bags {1, 3} - {3, 4} - {0, 2, 4}: 1 and 3 first, then 0 and 2, since 4 in the bag before reads 2.

    The step 3 -> 0 adds 3 to the last bag, which then holds the one before it; 2 -> 4 goes back along an edge.
    """
    graph = ComputationGraph.from_edges([(0, 2), (1, 3), (2, 4), (3, 4)])
    path = PathDecomposition.from_spans(np.array([2, 0, 2, 0, 1]), np.array([2, 0, 3, 1, 3]))
    assert bags(path) == [{1, 3}, {3, 4}, {0, 2, 4}]
    order, wider = spine(graph, path)
    assert order.tolist() == [1, 3, 0, 2, 4]
    assert bags(wider) == [{1, 3}, {0, 2, 3, 4}]


def test_decompositions_of_another_graph_have_no_spine():
    path = PathDecomposition.of(UndirectedGraph.from_edges(3, [(0, 1)]), [0, 1, 2])
    with raises(GraphError, vertex=0, other=2):
        spine(ComputationGraph.from_edges([(0, 1), (0, 2)]), path)
