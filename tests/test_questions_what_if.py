"""Decisions made by hand: the order that follows from them, and what they may not be."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remat_algos.errors import GraphError
from remat_algos.ir.differentiate import differentiate
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.parts import KEEP, RECOMPUTE, Labels
from remat_algos.questions.what_if import flip_decision, what_if
from remat_algos.schedule.schedule import Schedule
from remat_algos.schedule.simulation import simulate
from tests.oracles import changed_runs as oracle
from tests.oracles import emitter
from tests.oracles.plain import plain
from tests.oracles.simulation import slow_simulation
from tests.small_graphs import graph_of
from tests.strategies import MORE, orders, subsets, training_graphs, without_once

pytestmark = pytest.mark.usefixtures("short_searches")


#   A -> B -> C -> D -> E
#        B ----------> E        bytes 1, 8, 2, 4, 1
def small(**arrays):
    return graph_of([[], [0], [1], [2], [1, 3]], memory=[1, 8, 2, 4, 1], labels=Labels(names=tuple("ABCDE")), **arrays)


def letters(graph, schedule):
    return "".join(schedule.names(graph))


# ---------------------------------------------------------------- without a schedule


@MORE
@given(training_graphs(max_nodes=16), st.data())
def test_what_is_named_to_keep_is_kept_and_the_rest_runs_again(graph, data):
    g = plain(graph)
    kept = data.draw(subsets(g.forward(), least=1))
    names = [g.value_names[data.draw(st.sampled_from(g.values[v]))] for v in kept]
    assert what_if(graph, keep=names).order.tolist() == emitter.checkpoint(g, kept)


@MORE
@given(training_graphs(max_nodes=16), st.data())
def test_what_is_named_to_recompute_runs_again_and_the_rest_is_kept(graph, data):
    if graph.once[graph.forward].all():
        graph = without_once(graph)
    g = plain(graph)
    free = [v for v in g.forward() if not g.once[v]]
    again = data.draw(subsets(free, least=1))
    names = [g.node_names[v] for v in again]
    kept = [v for v in g.forward() if v not in again]
    assert what_if(graph, recompute=names).order.tolist() == emitter.checkpoint(g, kept)


@MORE
@given(training_graphs(max_nodes=16))
def test_nothing_named_is_no_rematerialization(graph):
    assert what_if(graph).order.tolist() == np.flatnonzero(graph.needed).tolist()


def test_by_hand():
    graph = differentiate(ComputationGraph.from_edges([("A", "B"), ("B", "C"), ("C", "D")]))
    once = ["A", "B", "C", "D", "grad(D)", "grad(C)", "grad(B)", "grad(A)"]
    assert what_if(graph, recompute=["A"]).names(graph) == [*once[:-1], "A", once[-1]]
    assert what_if(graph, keep=["A", "C", "D"]).names(graph) == [*once[:6], "B", *once[6:]]


def test_a_node_that_must_run_once_is_kept_unasked():
    graph = differentiate(graph_of([[], [0], [1], [2]], once=[False, True, False, False]))
    assert simulate(graph, what_if(graph, keep=["3"])).runs.tolist()[:4] == [2, 1, 2, 1]


# ---------------------------------------------------------------- with one


@st.composite
def chosen(draw):
    """A simulated order of a training graph, and a node of the forward part that it runs."""
    graph = draw(training_graphs(max_nodes=12))
    order = draw(orders(graph))
    ran = [v for v in sorted(set(order)) if graph.forward[v]]
    return simulate(graph, order), draw(st.sampled_from(ran))


def may_run_again(graph, order):
    """Nodes of the forward part that run again in an order, or that can be made to."""
    ran = [v for v in sorted(set(order)) if graph.forward[v] and not graph.once[v]]
    return [v for v in ran if order.count(v) > 1 or oracle.add_second_run(graph, order, v)]


@st.composite
def repeatable(draw):
    """A simulated order of a training graph, and a node that runs again in it or can be made to."""
    graph = draw(training_graphs(max_nodes=12))
    order = draw(orders(graph))
    if not may_run_again(graph, order):
        graph, order = without_once(graph), np.flatnonzero(graph.needed).tolist()
    if not may_run_again(graph, order):
        order.append(draw(st.sampled_from([v for v in order if graph.forward[v]])))
    return simulate(graph, order), draw(st.sampled_from(may_run_again(graph, order)))


@MORE
@given(chosen())
def test_keep_in_a_schedule_drops_the_later_runs_of_the_named_node(given):
    simulation, node = given
    graph, order = simulation.graph, simulation.schedule.order.tolist()
    stays = oracle.kept(graph, order, node) if order.count(node) > 1 else range(len(order))
    found = what_if(graph, keep=[graph.labels[node]], schedule=simulation.schedule)
    assert found.order.tolist() == [order[step] for step in stays]


@MORE
@given(repeatable())
def test_recompute_in_a_schedule_takes_the_way_that_explain_speaks_of(given):
    simulation, node = given
    graph, order = simulation.graph, simulation.schedule.order.tolist()
    ways = oracle.add_second_run(graph, order, node)
    found = what_if(graph, recompute=[graph.labels[node]], schedule=simulation.schedule).order.tolist()
    if order.count(node) > 1:
        assert found == order  # it runs again already
        return
    orders_of_ways = [[v for _, v in way] for way in ways]
    assert found in orders_of_ways
    assert slow_simulation(graph, found).peak == min(slow_simulation(graph, way).peak for way in orders_of_ways)
    assert found == flip_decision(simulation, node).schedule.order.tolist()  # what `explain` speaks of


@pytest.mark.parametrize(
    ("before", "choice", "after"),
    [
        ("ABCDE", {"recompute": ["B"]}, "ABCDBE"),  # A, of 1 byte, is held for it: 13 bytes either way
        ("ABCDABE", {"keep": ["B"]}, "ABCDE"),
        ("ABCDABE", {"keep": ["A"]}, "ABCDBE"),
        ("ABCDABE", {"keep": ["A", "B"]}, "ABCDE"),
        ("ABCDABE", {"recompute": ["B"]}, "ABCDABE"),
        ("ABCDABE", {"keep": ["A"], "recompute": ["B"]}, "ABCDBE"),  # both may be named here
        ("ABCDBE", {}, "ABCDBE"),
        ("ABACDE", {"keep": ["B"]}, "ABACDE"),  # B is kept; the second A is not spoken of
    ],
)
def test_a_choice_in_a_schedule_by_hand(before, choice, after):
    graph = small()
    assert letters(graph, what_if(graph, schedule=Schedule.from_names(graph, before), **choice)) == after


def test_two_nodes_run_again_one_after_the_other():
    """In 0 -> 1 -> 2 -> 3 -> 4 -> 5, 5 reads 1 and 2: first 1 runs again before it, then 2, which the new 1 serves."""
    graph = graph_of([[], [0], [1], [2], [3], [4, 1, 2]], memory=[1, 9, 9, 1, 1, 1])
    found = what_if(graph, recompute=["1", "2"], schedule=Schedule(range(6)))
    assert found.order.tolist() == [0, 1, 2, 3, 4, 1, 2, 5]


# ---------------------------------------------------------------- what cannot be


BEFORE = Schedule([0, 1, 2, 3, 4])
FAULTS = {
    "unknown": (small(), {"keep": ["F"]}, "'F'"),
    "nearly known": (small(), {"recompute": ["BC"], "schedule": BEFORE}, "'BC'; did you mean C or B"),
    "a gradient": (differentiate(small()), {"keep": ["grad(B)"]}, "is a gradient"),
    "both": (small(), {"keep": ["A", "B"], "recompute": ["B"]}, "B is named both"),
    "both in a schedule": (small(), {"keep": ["B"], "recompute": ["B"], "schedule": BEFORE}, "B is named both"),
    "each a list": (small(), {"keep": ["A"], "recompute": ["B"]}, "the other nodes"),
    "once": (small(once=[1, 0, 0, 0, 0]), {"recompute": ["A"]}, "A must run only once"),
    "once in a schedule": (small(once=[0, 1, 0, 0, 0]), {"recompute": ["B"], "schedule": BEFORE}, "B must run only"),
    "kept": (small(mark=[0, KEEP, 0, 0, 0]), {"recompute": ["B"]}, "B is marked to be kept"),
    "recomputed": (small(mark=[0, RECOMPUTE, 0, 0, 0]), {"keep": ["B"], "schedule": BEFORE}, "B is marked to be rec"),
    "never idle": (small(), {"recompute": ["C"], "schedule": BEFORE}, "C is never idle"),
    "an output": (small(), {"recompute": ["E"], "schedule": BEFORE}, "E is never idle"),
    "not run": (
        replace(small(), output=[0, 0, 1, 0, 0]),
        {"recompute": ["D"], "schedule": Schedule([0, 1, 2])},
        "D does not run",
    ),
}


@pytest.mark.parametrize(("graph", "choice", "fault"), FAULTS.values(), ids=FAULTS)
def test_a_choice_that_cannot_be_is_refused(graph, choice, fault):
    with pytest.raises(GraphError, match=fault):
        what_if(graph, **choice)
