"""Flipped decisions: the new order can be run, shares its steps with the old one, drops nothing that is read."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.parts import KEEP, RECOMPUTE
from remat_algos.questions.what_if import add_second_run, idle_gap, keep_first_run, reads_of
from remat_algos.schedule.emission import clamp_counts, mirror_schedule
from remat_algos.schedule.schedule import Schedule
from remat_algos.schedule.simulation import simulate
from tests.oracles import changed_runs as oracle
from tests.oracles.plain import plain
from tests.oracles.simulation import Unsound, slow_simulation
from tests.strategies import graphs, orders, rows, training_graphs, without_once

PLAYED = settings(max_examples=25)


@st.composite
def wishes(draw, graph, order):
    """Marks that a schedule honours."""
    mark = [0] * graph.n_nodes
    for v in np.flatnonzero(graph.forward).tolist():
        one = draw(st.sampled_from([0, 0, KEEP] if graph.once[v] else [0, 0, KEEP, RECOMPUTE]))
        try:
            slow_simulation(
                replace(graph, mark=np.eye(1, graph.n_nodes, v, dtype=int)[0] * one, derivation=None), order
            )
        except Unsound:
            continue
        mark[v] = one
    return replace(graph, mark=mark, derivation=None)


def may_run_again(graph, order):
    """Nodes of the forward part that an order runs, but only one time, and that may run twice."""
    return [v for v in sorted(set(order)) if order.count(v) == 1 and graph.forward[v] and not graph.once[v]]


@st.composite
def simulation_and_node(draw, marked=False, again=False):
    """A simulated schedule, of a solver's kind or any, and a node that it runs; with `again` one that may run again."""
    graph = draw(graphs(max_nodes=8, min_nodes=2) | training_graphs(max_nodes=12))
    if graph.is_training and draw(st.booleans()):
        counts = draw(st.lists(st.integers(0, 2), min_size=graph.n_nodes, max_size=graph.n_nodes))
        order = mirror_schedule(graph, clamp_counts(graph, np.array(counts))).order.tolist()
    else:
        order = draw(orders(graph))
    if again and not may_run_again(graph, order):
        graph, order = without_once(graph), np.flatnonzero(graph.needed).tolist()
    if marked:
        graph = draw(wishes(graph, order))
    ran = sorted(set(order))
    if again:
        ran = may_run_again(graph, order)
        ran = [v for v in ran if oracle.add_second_run(graph, order, v)] or ran
    return simulate(graph, order), draw(st.sampled_from(ran))


def order_of(simulation):
    """The order of a simulation, or of changed runs."""
    return simulation.schedule.order.tolist()


def graph_of(reads, **arrays):
    return ComputationGraph.from_arrays(**rows("read", reads), **arrays)


# ---------------------------------------------------------------- what both orders keep to


def check_shared(simulation, changed):
    """The shared steps run the same nodes, in the same order."""
    old, new = simulation.schedule.order, changed.schedule.order
    assert old[changed.here].tolist() == new[changed.there].tolist()
    for steps in (changed.here, changed.there):
        assert (np.diff(steps) > 0).all()


@PLAYED
@given(simulation_and_node())
def test_run_once_drops_later_runs_and_then_what_nobody_reads(given):
    simulation, node = given
    changed = keep_first_run(simulation, node)
    check_shared(simulation, changed)
    assert changed.here.tolist() == oracle.kept(simulation.graph, order_of(simulation), node)
    assert changed.there.tolist() == list(range(len(changed.schedule)))  # nothing is new


@PLAYED
@given(simulation_and_node(marked=True, again=True))
def test_run_again_puts_the_node_and_what_it_lacks_before_the_read_that_ends_its_longest_idle_time(given):
    simulation, node = given
    graph, order = simulation.graph, order_of(simulation)
    orders = add_second_run(simulation, node)
    wanted = oracle.add_second_run(graph, order, node)
    assert [order_of(changed) for changed in orders] == [[v for _, v in way] for way in wanted]
    for changed, way in zip(orders, wanted, strict=True):
        check_shared(simulation, changed)
        assert changed.here.tolist() == [step for step, _ in way if step is not None]
    assert all(changed.here.tolist() == list(range(len(order))) for changed in orders[:2])  # every old step is there


@PLAYED
@given(simulation_and_node(marked=True))
def test_marks_of_others_are_honoured_still(given):
    """The simulator raises if the flipped order goes against a mark."""
    simulation, node = given
    mark = simulation.graph.mark
    wish = 0 if mark is None else mark[node]
    if wish != RECOMPUTE:
        simulate(simulation.graph, keep_first_run(simulation, node).schedule)
    if wish != KEEP and not simulation.graph.once[node] and simulation.runs[node] == 1:
        for changed in add_second_run(simulation, node):
            simulate(simulation.graph, changed.schedule)


@PLAYED
@given(simulation_and_node(again=True))
def test_to_keep_what_was_run_again_gives_the_old_order_without_its_idle_runs(given):
    simulation, node = given
    for changed in add_second_run(simulation, node)[:1]:
        back = keep_first_run(simulate(simulation.graph, changed.schedule), node)
        assert order_of(back) == order_of(keep_first_run(simulation, node))


@PLAYED
@given(simulation_and_node(again=True))
def test_reads_of_a_node_are_the_steps_that_read_it_and_its_idle_time_is_between_them(given):
    simulation, node = given
    g, order = plain(simulation.graph), order_of(simulation)
    wanted = [s for s, v in enumerate(order) if set(g.reads[v]) & set(g.values[node])]
    assert reads_of(simulation, node).tolist() == wanted
    assert idle_gap(simulation, node) == (oracle.idle_time(g, order, node) or (-1, -1))


# ---------------------------------------------------------------- by hand


#   A -> B -> C -> D -> E
#        B ----------> E
LETTERS = [("A", "B"), ("B", "C"), ("C", "D"), ("B", "E"), ("D", "E")]


@pytest.mark.parametrize(
    ("before", "node", "after"),
    [
        ("ABCDE", "B", "ABCDE"),
        ("ABCDBE", "B", "ABCDE"),
        ("ABCDABE", "B", "ABCDE"),  # A ran again for B alone
        ("ABCDABE", "A", "ABCDBE"),  # but B runs again whatever becomes of A
        ("ABABCDE", "B", "ABCDE"),
        ("ABCBDABE", "B", "ABCDE"),
        ("ABCDCDE", "B", "ABCDCDE"),  # D is read from its second run, and D reads the second C
        ("ABCDCBE", "B", "ABCDE"),  # a C that nobody reads goes along
    ],
)
def test_run_once_by_hand(before, node, after):
    graph = ComputationGraph.from_edges(LETTERS)
    changed = keep_first_run(simulate(graph, Schedule.from_names(graph, before)), graph.node_id(node))
    assert "".join(changed.schedule.names(graph)) == after


@pytest.mark.parametrize(
    ("before", "node", "after"),
    [
        ("ABCDE", "A", []),  # its only reader comes next
        ("ABCDE", "B", ["ABCDBE", "ABCDABE"]),  # of its waits of 1 and 2 steps the longer
        ("ABCDAE", "B", ["ABCDABE", "ABCDAABE"]),  # the second A is read by nobody and not held
        ("ABCDE", "C", []),
        ("ABCDE", "E", []),  # an output
        ("ABACDE", "B", ["ABABCDE", "ABAABCDE"]),  # two waits are as long: the first
    ],
)
def test_run_again_by_hand(before, node, after):
    graph = ComputationGraph.from_edges(LETTERS)
    orders = add_second_run(simulate(graph, Schedule.from_names(graph, before)), graph.node_id(node))
    assert ["".join(changed.schedule.names(graph)) for changed in orders] == after


@pytest.mark.parametrize(
    ("reads", "arrays", "node", "gap", "orders"),
    [
        # what is held anyway does not run again: 5 reads 1 too
        ([[], [0], [1], [2], [3], [4, 2, 1]], {}, 2, (3, 5), [[0, 1, 2, 3, 4, 2, 5]]),
        # a pinned value does not wait, but its sibling does, which 1 and 3 read
        (
            [[], [1], [0, 2], [0, 1, 3]],
            {"value_indptr": [0, 2, 3, 4, 5], "output": [True, False, False, False, True]},
            0,
            (1, 3),
            [[0, 1, 2, 0, 3]],
        ),
        # an output is never idle
        ([[], [0], [1], [0, 2]], {"output": [True, False, False, True]}, 0, (-1, -1), []),
    ],
)
def test_only_what_can_be_freed_waits_and_only_what_lacks_runs_again(reads, arrays, node, gap, orders):
    graph = graph_of(reads, **arrays)
    simulation = simulate(graph, np.arange(graph.n_nodes))
    assert idle_gap(simulation, node) == gap
    assert [order_of(changed) for changed in add_second_run(simulation, node)] == orders


def test_what_must_run_once_is_held_for_a_run_of_its_reader():
    """0 -> 1 -> 2 -> 3 -> 4 -> 5, and 5 reads 2: of what 2 lacks, 1 may run again, and 0 may not."""
    for fixed in ({"once": [True, *[False] * 5]}, {"mark": [KEEP, *[0] * 5]}):
        graph = graph_of([[], [0], [1], [2], [3], [4, 2]], **fixed)
        orders = add_second_run(simulate(graph, range(6)), 2)
        assert [order_of(changed) for changed in orders] == [[0, 1, 2, 3, 4, 2, 5], [0, 1, 2, 3, 4, 1, 2, 5]]
