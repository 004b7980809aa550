"""What the strategies draw: every feature of graphs, sound schedules, growing lower sets."""

import contextlib
import itertools

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample

from tests.oracles.plain import plain
from tests.oracles.simulation import slow_simulation
from tests.strategies import graphs, lower_set_chains, orders, training_graphs

FEATURES_OF_GRAPHS = {
    "no node": lambda graph, g: not g.reads,
    "one node": lambda graph, g: len(g.reads) == 1,
    "twelve nodes": lambda graph, g: len(g.reads) == 12,
    "several components": lambda graph, g: components(g) > 1,
    "several values": lambda graph, g: any(len(own) > 1 for own in g.values),
    "a value never read beside one that is": lambda graph, g: left_over(g),
    "two values of a node read by one": lambda graph, g: any(
        len(set(g.predecessors(v))) < len(g.reads[v]) for v in g.nodes
    ),
    "once": lambda graph, g: any(g.once),
    "an output that is read": lambda graph, g: any(x in row for x in g.outputs for row in g.reads),
    "a node that is not needed": lambda graph, g: len(g.needed()) < len(g.reads),
    "workspace": lambda graph, g: any(g.workspace),
    "a value without bytes": lambda graph, g: 0 in g.memory,
    "a node without cost": lambda graph, g: 0 in g.compute,
    "an input": lambda graph, g: 0 in g.resident_role,
    "a parameter": lambda graph, g: 1 in g.resident_role,
    "a state": lambda graph, g: 2 in g.resident_role,
    "tied parameters": lambda graph, g: any(
        sum(p in row for row in g.resident_reads) > 1 for p, role in enumerate(g.resident_role) if role == 1
    ),
    "names": lambda graph, g: graph.labels.names is not None,
    "no names": lambda graph, g: bool(g.reads) and graph.labels.names is None,
    "a value with a name of its own": lambda graph, g: bool(graph.labels.value_names),
    "operations": lambda graph, g: graph.labels.ops is not None,
    "rules for gradients": lambda graph, g: graph.backward is not None,
    "no rules for gradients": lambda graph, g: bool(g.reads) and graph.backward is None,
    "a gradient that saves part": lambda graph, g: any(
        0 < len(g.saved[v]) < len(g.reads[v]) + len(g.values[v]) for v in g.nodes
    ),
    "a value without gradient": lambda graph, g: -1 in g.grad_memory,
    "a gradient of another size": lambda graph, g: any(
        a not in (-1, b) for a, b in zip(g.grad_memory, g.memory, strict=True)
    ),
    "a gradient with its own cost": lambda graph, g: any(cost >= 0 for cost in g.grad_compute),
    "a gradient with workspace": lambda graph, g: any(g.grad_workspace),
}

FEATURES_OF_TRAINING_GRAPHS = {
    "a sum": lambda graph, g: any("@" in name for name in g.node_names) or graph.labels.names is None,
    "a gradient of a parameter": lambda graph, g: any(f"grad({name})" in g.node_names for name in g.resident_names),
    "a forward output": lambda graph, g: any(not g.is_backward(g.producer[x]) for x in g.outputs),
    "a forward node that is not needed": lambda graph, g: any(v not in g.needed() for v in g.forward()),
    "several values": lambda graph, g: any(len(own) > 1 for own in g.values),
    "once": lambda graph, g: any(g.once),
    "names": lambda graph, g: graph.labels.names is not None,
    "ten nodes": lambda graph, g: len(g.reads) >= 10,
}

FEATURES_OF_ORDERS = {
    "no recomputation": lambda g, order: len(order) == len(set(order)) > 0,
    "a recomputation": lambda g, order: len(order) > len(set(order)),
    "a third run": lambda g, order: any(order.count(v) > 2 for v in order),
    "a node that is not needed": lambda g, order: any(v not in g.needed() for v in order),
    "a pinned node again": lambda g, order: any(order.count(g.producer[x]) > 1 for x in g.outputs),
    "another order than that of the ids": lambda g, order: any(a > b for a, b in itertools.pairwise(order)),
}


def components(g):
    """Sets of nodes that hang together."""
    group = list(g.nodes)
    for v in g.nodes:
        for u in g.predecessors(v):
            old, new = group[v], group[u]
            group = [new if label == old else label for label in group]
    return len(set(group))


def left_over(g):
    read = {x for row in g.reads for x in row}
    return any(0 < len(read & set(own)) < len(own) for own in g.values)


def test_examples_are_the_same_each_time_unless_a_profile_with_chance_is_asked_for():
    chance = {name: not settings.get_profile(name).derandomize for name in ("default", "quick", "random", "thorough")}
    assert chance == {"default": False, "quick": False, "random": True, "thorough": True}
    profiles = [settings.get_profile(name) for name in ("quick", "default", "random", "thorough")]
    assert all(profile.database is None for profile in profiles)
    assert sorted(profiles, key=lambda profile: profile.max_examples) == profiles


LOOK = settings(max_examples=200, derandomize=True, database=None, deadline=None, phases=[Phase.generate])


def found(features, strategy):
    """Which features occur in 200 draws, always the same; where all have occurred, no more is drawn."""
    seen = set()

    def all_seen(drawn):
        seen.update(name for name, has in features.items() if name not in seen and has(*drawn))
        return len(seen) == len(features)

    with contextlib.suppress(NoSuchExample):
        find(strategy, all_seen, settings=LOOK)
    return seen


def with_plain(strategy):
    return strategy.map(lambda graph: (graph, plain(graph)))


def test_every_feature_of_graphs_occurs():
    assert found(FEATURES_OF_GRAPHS, with_plain(graphs())) == set(FEATURES_OF_GRAPHS)


def test_every_feature_of_training_graphs_occurs():
    assert found(FEATURES_OF_TRAINING_GRAPHS, with_plain(training_graphs())) == set(FEATURES_OF_TRAINING_GRAPHS)


def test_every_feature_of_orders_occurs():
    drawn = graphs(max_nodes=8).flatmap(lambda graph: st.tuples(st.just(plain(graph)), orders(graph)))
    assert found(FEATURES_OF_ORDERS, drawn) == set(FEATURES_OF_ORDERS)


@given(st.data())
def test_orders_are_sound(data):
    graph = data.draw(graphs() | training_graphs(max_nodes=14))
    assert slow_simulation(graph, data.draw(orders(graph))).overhead >= 0


@given(st.data())
def test_lower_sets_grow_and_hold_what_their_nodes_read(data):
    graph = data.draw(graphs() | training_graphs(max_nodes=14))
    g, chain = plain(graph), data.draw(lower_set_chains(graph))
    assert all(before < after for before, after in itertools.pairwise([set(), *chain]))
    assert all(set(g.predecessors(v)) <= lower_set for lower_set in chain for v in lower_set)
    assert set().union(*chain) == set(g.forward())


@given(st.data())
def test_graphs_keep_to_the_asked_number_of_nodes(data):
    most = data.draw(st.integers(2, 14))
    least = data.draw(st.integers(0, most))
    assert least <= len(plain(data.draw(graphs(max_nodes=most, min_nodes=least))).nodes) <= most


@pytest.mark.parametrize("most", [2, 6, 9, 20])
@given(data=st.data())
def test_training_graphs_keep_to_the_asked_number_of_nodes(most, data):
    g = plain(data.draw(training_graphs(max_nodes=most)))
    assert 2 <= len(g.nodes) <= most
    assert g.forward()
    assert g.backward()
