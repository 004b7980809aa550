"""Elimination orders and bounds on the treewidth, against sets and all orders."""

import itertools
import re

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from remat_algos.context import OutOfTime, Stop
from remat_algos.errors import ArgumentError, GraphError
from remat_algos.ir.graph import ComputationGraph
from remat_algos.structure import treewidth
from remat_algos.structure.decompositions import TreeDecomposition
from remat_algos.structure.elimination import (
    ELIMINATION_RULES,
    RATIOS,
    RULES,
    UndirectedGraph,
    eliminate,
    elimination_of,
)
from remat_algos.structure.treewidth import contraction_bound, minimum_width, reduce, width_bounds
from tests.oracles import elimination as oracle
from tests.raising import raises, refused
from tests.strategies import graphs as computation_graphs

EVERY_RULE = RULES + RATIOS


@st.composite
def graphs(draw, max_vertices=9):
    n = draw(st.integers(0, max_vertices))
    pairs = list(itertools.combinations(range(n), 2))
    return UndirectedGraph.from_edges(n, draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else [])


def random_graph(n, m, seed):
    return UndirectedGraph.from_edges(n, np.random.default_rng(seed).integers(0, n, (m, 2)))


def grid(k):
    """k rows of k vertices."""
    across = [(v, v + 1) for v in range(k * k) if v % k < k - 1]
    return UndirectedGraph.from_edges(k * k, across + [(v, v + k) for v in range(k * k - k)])


def cycle(n):
    return UndirectedGraph.from_edges(n, [(v, (v + 1) % n) for v in range(n)])


def clique(n):
    return UndirectedGraph.from_edges(n, itertools.combinations(range(n), 2))


def tree(n):
    return UndirectedGraph.from_edges(n, [(v, v // 2) for v in range(n)])


def petersen():
    """An outer cycle of five, spokes, an inner star of five points."""
    edges = [(v, (v + 1) % 5) for v in range(5)] + [(v, v + 5) for v in range(5)]
    return UndirectedGraph.from_edges(10, edges + [(5 + v, 5 + (v + 2) % 5) for v in range(5)])


def octahedron():
    """Six vertices, each joined with all but the opposite one: neighbours are a cycle of four, never a clique."""
    return UndirectedGraph.from_edges(6, [(u, v) for u, v in itertools.combinations(range(6), 2) if u + v != 5])


def wheel(n):
    """A hub 0, n spokes of two edges each, over the odd vertices, and a rim of the even ones."""
    spokes = [(0, 2 * i + 1) for i in range(n)] + [(2 * i + 1, 2 * i + 2) for i in range(n)]
    return UndirectedGraph.from_edges(2 * n + 1, spokes + [(2 * i + 2, 2 * (i + 1) % (2 * n) + 2) for i in range(n)])


def umbrella(k):
    """A hub over a torus of k by k, whose vertices have four neighbours beside the hub: its last one."""
    torus = [(v, v - v % k + (v + 1) % k) for v in range(k * k)] + [(v, (v + k) % (k * k)) for v in range(k * k)]
    return UndirectedGraph.from_edges(k * k + 1, torus + [(v, k * k) for v in range(k * k)])


KNOWN = {
    "nothing": (UndirectedGraph.from_edges(0, []), -1),
    "one vertex": (UndirectedGraph.from_edges(1, []), 0),
    "three apart": (UndirectedGraph.from_edges(3, []), 0),
    "tree": (tree(40), 1),
    "star": (UndirectedGraph.from_edges(40, [(0, v) for v in range(1, 40)]), 1),
    "cycle": (cycle(12), 2),
    "clique": (clique(7), 6),
    "clique and cycle": (UndirectedGraph.from_edges(9, [*itertools.combinations(range(4), 2), (7, 8), (8, 6)]), 3),
    "grid of 2": (grid(2), 2),
    "grid of 3": (grid(3), 3),
    "grid of 4": (grid(4), 4),
    "petersen": (petersen(), 4),
    "octahedron": (octahedron(), 4),
    "wheel": (wheel(100), 3),
}


# ---------------------------------------------------------------- the graph


@given(graphs())
def test_edges_and_rows_say_the_same(graph):
    edges = graph.edges().tolist()
    assert edges == [[u, v] for u in range(graph.n_vertices) for v in graph.neighbours(u) if u < v]
    assert graph.n_edges == len(edges)
    turned = UndirectedGraph.from_edges(graph.n_vertices, [(v, u) for u, v in edges + edges] + [(0, 0)] * (edges != []))
    assert turned.indptr.tolist() == graph.indptr.tolist()
    assert turned.indices.tolist() == graph.indices.tolist()


@given(computation_graphs())
def test_neighbours_are_who_reads_the_other(graph):
    reads = {(graph.producer[x], v) for v in range(graph.n_nodes) for x in graph.reads(v)}
    assert {tuple(edge) for edge in UndirectedGraph.of(graph).edges().tolist()} == reads


@pytest.mark.parametrize(
    ("indptr", "indices", "fault"),
    [
        ([0, 1, 2], [1, 2], {"outside": 2, "n": 2}),
        ([0, 1, 2], [1, 1], {"rows": 1}),
        ([0, 2, 3, 4], [2, 1, 0, 0], {"rows": 0}),
        ([0, 2, 3], [1, 1, 0], {"rows": 0}),
        ([0, 1, 1], [1], {"v": 1, "u": 0}),
        ([0, 1], [0, 1], {"what": "indptr"}),
    ],
)
def test_rows_that_are_no_graph_are_refused(indptr, indices, fault):
    with refused(GraphError, fault):
        UndirectedGraph(indptr, indices)


@pytest.mark.parametrize("edges", [[(0, 3)], [(-1, 0)], [(0, 1, 2)], [("a", "b")]])
def test_pairs_that_are_no_edges_are_refused(edges):
    with pytest.raises(GraphError):
        UndirectedGraph.from_edges(3, edges)


def test_a_negative_number_of_vertices_is_refused():
    with raises(GraphError, n_vertices=-1):
        UndirectedGraph.from_edges(-1, [])


# ---------------------------------------------------------------- orders


@given(graphs(), st.sampled_from(EVERY_RULE), st.sampled_from([None, 0, 1]))
@example(petersen(), "fill", None)
@example(grid(4), "steep_ratio", 3)
@example(random_graph(24, 40, 5), "fill", None)  # rows grow, what remains becomes dense
@example(random_graph(40, 60, 6), "fill", 1)
@example(random_graph(70, 1200, 7), "ratio", None)  # dense from the start, more than a word of it
@example(wheel(60), "fill", 2)  # the row of the hub is not read through
def test_every_step_takes_a_vertex_of_least_key(graph, rule, seed):
    """So the fill kept along the way is exact at every step."""
    near, order = oracle.neighbours(graph), eliminate(graph, rule, seed=seed).order.tolist()
    assert sorted(order) == list(range(graph.n_vertices))
    for v in order:
        assert oracle.key(near, v, rule) <= min(oracle.key(near, u, rule) for u in near) + 1e-6
        near = oracle.without(near, v)


@given(graphs(), st.sampled_from(EVERY_RULE))
@example(random_graph(70, 400, 8), "fill")
def test_ties_go_to_the_least_degree_then_to_the_least_id(graph, rule):
    near, order = oracle.neighbours(graph), eliminate(graph, rule).order.tolist()
    for v in order:
        assert v == min(near, key=lambda u: (round(oracle.key(near, u, rule), 4), len(near[u]), u))
        near = oracle.without(near, v)


def by_fill_and_degree(degree, fill, components, eliminated):
    return fill - 0.25 * degree


def by_components(degree, fill, components, eliminated):
    return fill + degree - 1.5 * components


def alternating(degree, fill, components, eliminated):
    """The least degree at even steps, the greatest at odd ones."""
    return degree if eliminated % 2 == 0 else -degree


def local(degree, fill):
    return fill - 0.25 * degree


COMPILED = [
    (ELIMINATION_RULES.rule(rule), slow)
    for rule, slow in (
        (local, by_fill_and_degree),
        (by_components, by_components),
        (alternating, alternating),
    )
]


@given(graphs(), st.sampled_from(COMPILED))
@example(random_graph(40, 60, 6), COMPILED[0])
@example(random_graph(70, 400, 8), COMPILED[0])
@example(random_graph(24, 40, 5), COMPILED[1])
@example(petersen(), COMPILED[2])
def test_every_step_takes_a_vertex_of_the_least_value_of_a_rule_of_ones_own(graph, rules):
    rule, slow = rules
    near, order = oracle.neighbours(graph), eliminate(graph, rule).order.tolist()
    for i, v in enumerate(order):
        assert v == min(near, key=lambda u: (oracle.key(near, u, slow, i), len(near[u]), u))
        near = oracle.without(near, v)


@given(graphs(), st.sampled_from(EVERY_RULE), st.integers(0, 3))
@example(random_graph(70, 200, 1), "fill", 0)
@example(random_graph(70, 900, 2), "degree", 0)
def test_bags_are_what_the_order_makes(graph, rule, seed):
    found = eliminate(graph, rule, seed=seed)
    order, expected = found.order.tolist(), oracle.bags(graph, found.order.tolist())
    for made in (found, elimination_of(graph, order)):
        assert [made.bag(i)[0] for i in range(len(order))] == order
        assert [set(made.bag(i)) for i in range(len(order))] == expected
        assert made.bag_indices.size == sum(map(len, expected))
        assert made.width == oracle.width(graph, order)
        assert made.fill_in == sum(len(bag) - 1 for bag in expected) - graph.n_edges


@given(graphs(), st.randoms(use_true_random=False))
def test_any_order_has_its_bags(graph, random):
    order = random.sample(range(graph.n_vertices), graph.n_vertices)
    found = elimination_of(graph, order)
    assert [set(found.bag(i)) for i in range(len(order))] == oracle.bags(graph, order)


def test_seeds_are_deterministic_and_differ():
    graph = random_graph(60, 90, 4)
    orders = [eliminate(graph, seed=seed).order.tolist() for seed in (0, 0, 1)]
    assert orders[0] == orders[1] != orders[2]


@pytest.mark.parametrize("order", [[0, 1], [0, 1, 1], [0, 1, 3]])
def test_orders_that_are_none_are_refused(order):
    with pytest.raises(GraphError):
        elimination_of(cycle(3), order)


def test_an_unknown_rule_is_refused():
    with raises(ArgumentError, name="least"):
        eliminate(cycle(3), "least")


# ---------------------------------------------------------------- bounds


@pytest.mark.parametrize("name", KNOWN)
def test_known_widths(name):
    graph, width = KNOWN[name]
    bounds = width_bounds(graph, exact=True)
    assert (bounds.width, bounds.lower_bound, bounds.proven) == (width, width, True)
    assert contraction_bound(graph) <= width <= min(eliminate(graph, rule).width for rule in EVERY_RULE)
    if graph.n_vertices <= 16:
        assert minimum_width(graph).width == width


@given(graphs(max_vertices=8))
def test_bounds_hold_the_treewidth_between_them(graph):
    width = oracle.treewidth(graph)
    assert minimum_width(graph).width == width
    assert contraction_bound(graph) <= width
    for reduced in (False, True):
        bounds = width_bounds(graph, seeds=1, reduced=reduced)
        assert bounds.lower_bound <= width <= bounds.width
        assert bounds.proven == (bounds.lower_bound == bounds.width)
        assert oracle.width(graph, bounds.elimination.order.tolist()) == bounds.width


@given(graphs(max_vertices=9))
@example(random_graph(30, 60, 3))
@example(umbrella(9))
def test_contraction_goes_into_the_neighbour_that_shares_fewest(graph):
    near, bound = oracle.neighbours(graph), -1
    while near:
        v = min(near, key=lambda v: (len(near[v]), v))
        bound = max(bound, len(near[v]))
        into = min(near[v], key=lambda u: (len(near[u] & near[v]), len(near[u]), u), default=None)
        near = oracle.contracted(near, v, into)
    assert contraction_bound(graph) == bound


@given(graphs(max_vertices=8), st.booleans())
def test_reductions_never_cost_width(graph, knows_nothing):
    found = reduce(graph, -1 if knows_nothing else None)
    near = oracle.neighbours(graph)
    for v in found.order.tolist():
        near = oracle.without(near, v)
    assert found.vertices.tolist() == sorted(near)
    place = {v: i for i, v in enumerate(found.vertices.tolist())}
    assert oracle.neighbours(found.remaining) == {place[v]: {place[u] for u in near[v]} for v in near}
    assert oracle.treewidth(graph) == max(found.low, oracle.treewidth(found.remaining))


@given(graphs(max_vertices=9), st.booleans())
@example(random_graph(30, 60, 3), False)
@example(wheel(60), False)
@example(random_graph(30, 45, 3), True)
@example(octahedron(), False)
def test_reductions_go_by_the_rules_as_far_as_they_can(graph, knows_nothing):
    found = reduce(graph, -1 if knows_nothing else None)
    near = oracle.neighbours(graph)
    for v in found.order.tolist():
        assert oracle.is_safe(near, v, found.low)
        near = oracle.without(near, v)
    assert not any(oracle.is_safe(near, v, found.low) for v in near)


def test_the_exact_program_takes_sixteen_vertices():
    assert minimum_width(clique(16)).width == 15
    with raises(GraphError, n=17, max_exact=16):
        minimum_width(clique(17))


def test_what_cannot_be_solved_exactly_is_said():
    graph = random_graph(60, 150, 2)
    with raises(GraphError, low=9, width=14, n_vertices=45):
        width_bounds(graph, seeds=0, exact=True)


# ---------------------------------------------------------------- the search


def test_the_search_tells_how_far_it_is_and_says_what_was_best():
    graph, told = random_graph(60, 150, 2), []
    bounds = width_bounds(graph, seeds=4, progress=lambda *words: told.append(words), reduced=False, seed=7)
    assert [done for done, *_ in told] == [1000 * tried // 9 for tried in range(1, 10)]
    assert {total for _, total, _ in told} == {1000}
    assert all(re.search(r"% of its orders · best \d+ · bound \d+$", what) for _, _, what in told)
    assert bounds.stop.complete
    assert bounds.details["orders"] == 9
    again = eliminate(graph, bounds.details["rule"], seed=bounds.details["seed"])
    assert again.order.tolist() == bounds.elimination.order.tolist()
    tries = [eliminate(graph, rule) for rule in EVERY_RULE]
    tries += [eliminate(graph, rule, seed=7 + i) for i, rule in enumerate(("fill", *RATIOS))]
    assert bounds.width == min(found.width for found in tries)


def test_the_search_stops_when_the_bounds_meet():
    bounds = width_bounds(cycle(30), reduced=False)
    assert (bounds.details, bounds.stop.complete) == ({"rule": "fill", "seed": None, "orders": 1}, True)


@pytest.mark.parametrize("reduced", [False, True])
def test_a_time_limit_leaves_the_first_order(reduced):
    graph = random_graph(60, 150, 2)
    bounds = width_bounds(graph, time_limit=1e-9, reduced=reduced)
    assert bounds.stop is Stop.DEADLINE
    assert bounds.details == {"rule": "fill", "seed": None, "orders": 1}
    assert bounds.width == elimination_of(graph, bounds.elimination.order).width


@pytest.mark.parametrize("reduced", [False, True])
@pytest.mark.parametrize("portions", [0, 1, 7, 40])
@pytest.mark.parametrize("stop", [KeyboardInterrupt, OutOfTime])
def test_what_the_first_order_left_is_one_bag(monkeypatch, reduced, portions, stop):
    class Run(treewidth.Run):
        def go_on(self):
            self.count = getattr(self, "count", -1) + 1
            if self.count == portions:
                raise stop
            return super().go_on()

    monkeypatch.setattr("remat_algos.structure.tuning.FILL_WORK", 1)
    monkeypatch.setattr(treewidth, "Run", Run)
    graph = random_graph(60, 150, 2)
    bounds = width_bounds(graph, reduced=reduced)
    assert (bounds.stop, bounds.details["orders"]) == (
        Stop.INTERRUPTED if stop is KeyboardInterrupt else Stop.DEADLINE,
        1,
    )
    order, last = bounds.elimination.order, bounds.elimination.bag(bounds.elimination.order.size - 1)
    assert len({*order.tolist(), *last}) == 60 == order.size + len(last) - 1
    assert (order.size > 1) is (portions > 0 or reduced)
    decomposition = TreeDecomposition.of(bounds.elimination)
    decomposition.verify(graph)
    decomposition.reduce().verify(graph)
    bags = map(bounds.elimination.bag, range(order.size))
    joined = {frozenset(pair) for bag in bags for pair in itertools.combinations(bag, 2)}
    assert bounds.elimination.fill_in == len(joined) - graph.n_edges


def test_an_order_is_given_up_when_its_time_is_over(monkeypatch):
    clock = iter([0.0, 0.0, 1.0, 1.0])  # limit set; before the second order; in it
    monkeypatch.setattr("remat_algos.structure.tuning.FILL_WORK", 1)
    monkeypatch.setattr("remat_algos.context.time.monotonic", lambda: next(clock))
    bounds = width_bounds(random_graph(60, 150, 2), time_limit=0.5, reduced=False)
    assert bounds.details["orders"] == 1
    assert not bounds.stop.complete


def test_an_interrupt_keeps_what_was_found():
    def stop(done, total, what):
        if done > 200:
            raise KeyboardInterrupt

    graph = random_graph(60, 150, 2)
    bounds = width_bounds(graph, progress=stop)
    assert bounds.stop is Stop.INTERRUPTED
    assert bounds.width == elimination_of(graph, bounds.elimination.order).width


def test_an_interrupt_before_the_first_order_leaves_one_bag(monkeypatch):
    def stop(graph, *words):
        raise KeyboardInterrupt

    monkeypatch.setattr(treewidth, "Run", stop)
    bounds = width_bounds(random_graph(60, 150, 2), reduced=False)
    assert (bounds.stop, bounds.width) == (Stop.INTERRUPTED, 59)


def test_a_negative_number_of_seeds_is_refused():
    with raises(ArgumentError, seeds=-1):
        width_bounds(cycle(3), seeds=-1)


def test_nodes_of_a_computation_graph_keep_their_ids():
    graph = UndirectedGraph.of(ComputationGraph.from_edges([(0, 1), (1, 2), (0, 3)]))
    assert eliminate(graph).order.tolist() == [2, 1, 0, 3]  # 2 and 3 are leaves, and so is what is left each time
