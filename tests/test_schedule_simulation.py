"""The simulator against the oracle; live values, shares of the peak, frees."""

import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remat_algos.errors import GraphError, ScheduleError
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.parts import Labels
from remat_algos.schedule.schedule import Schedule
from remat_algos.schedule.simulation import ROLES, simulate
from remat_algos.schedule.views import live_at
from tests.oracles.plain import plain
from tests.oracles.simulation import Unsound, serving_run, slow_simulation
from tests.raising import raises
from tests.strategies import captured_graphs, graphs, orders, rows, training_graphs

KUMAR = [("A", "B"), ("A", "C"), ("B", "D"), ("C", "D"), ("A", "E"), ("D", "E")]
WORDS = {
    "unknown": "; nodes are 0 to",
    "unmade": "before it has been computed",
    "once": "which must run only once",
    "output": "is never computed; run",
    "keep": "which is marked to be kept",
    "recompute": "is marked to be recomputed",
}
any_graph = graphs(max_nodes=10) | training_graphs(max_nodes=14) | captured_graphs(max_nodes=14)


@pytest.mark.parametrize(("order", "trace", "peak"), [("ABCDE", [1, 2, 3, 4, 3], 4), ("ABCDAE", [1, 2, 3, 3, 2, 3], 3)])
def test_figure_1_of_kumar_2019(order, trace, peak):
    graph = ComputationGraph.from_edges(KUMAR)
    simulation = simulate(graph, Schedule.from_names(graph, order))
    assert simulation.memory_trace.tolist() == trace
    assert simulation.peak_memory == peak
    assert simulation.peak_step == trace.index(peak)


@st.composite
def runs(draw, source=any_graph):
    """A graph and a sound schedule."""
    graph = draw(source)
    return graph, draw(orders(graph))


def graph_of(reads, **arrays):
    """A graph from what each node reads, as lists of values."""
    return ComputationGraph.from_arrays(**rows("read", reads), **arrays)


def instances(simulation):
    """(step, value, end) of every instance."""
    lives, length = simulation.lifetimes, len(simulation.schedule)
    made_at = np.repeat(np.arange(length), np.diff(lives.instance_indptr)).tolist()
    return list(zip(made_at, lives.value.tolist(), lives.end.tolist(), strict=True))


# ---------------------------------------------------------------- against the oracle


@given(runs())
def test_the_simulator_agrees_with_the_oracle(run):
    graph, order = run
    simulation, wanted = simulate(graph, order), slow_simulation(graph, order)
    assert simulation.memory_trace.tolist() == wanted.trace
    assert (simulation.peak_memory, simulation.peak_step) == (wanted.peak, wanted.peak_step)
    assert (simulation.compute, simulation.overhead) == (wanted.compute, wanted.overhead)
    assert Counter(instances(simulation)) == Counter(wanted.lifetimes)
    assert simulation.runs.tolist() == [order.count(v) for v in range(graph.n_nodes)]


@given(runs())
def test_orders_come_in_any_form(run):
    graph, order = run
    wanted = simulate(graph, Schedule(np.array(order, np.int32))).memory_trace.tolist()
    for form in (order, tuple(order), np.array(order, np.int64), Schedule(order)):
        assert simulate(graph, form).memory_trace.tolist() == wanted


def verdict(graph, order):
    """(simulation, fault) of the oracle, one of them None."""
    try:
        return slow_simulation(graph, order), None
    except Unsound as fault:
        return None, fault


def agree(graph, order):
    """The simulator finds the fault that the oracle finds, with its law, step and node, or computes its figures."""
    wanted, fault = verdict(graph, order)
    if fault is None:
        assert simulate(graph, order).memory_trace.tolist() == wanted.trace
        return
    with pytest.raises(ScheduleError, match=re.escape(WORDS[fault.law])) as error:
        simulate(graph, order)
    assert (error.value.step, error.value.node) == (fault.step, concerned(graph, order, fault))


def concerned(graph, order, fault):
    """The node that the simulator names: the oracle's, but the one that should have run again, not its reader."""
    if fault.law != "recompute":
        return fault.node
    g = plain(graph)
    read = [(x, g.producer[x]) for x in g.reads[fault.node] if g.mark[g.producer[x]] == 2]
    return next(u for x, u in read if serving_run(g, order, fault.step, x) == order.index(u))


@st.composite
def corruptions(draw, order, n_nodes):
    """A schedule after an accident."""
    order = order.copy()
    accident = draw(st.sampled_from(["drop", "swap", "repeat", "cut", "strange"]))
    if not order:
        return [draw(st.sampled_from([-1, n_nodes, 2**31 - 1]))]
    at = draw(st.integers(0, len(order) - 1))
    if accident == "drop":
        del order[at]
    elif accident == "swap":
        other = draw(st.integers(0, len(order) - 1))
        order[at], order[other] = order[other], order[at]
    elif accident == "repeat":
        order.insert(draw(st.integers(at, len(order))), order[at])
    elif accident == "cut":
        del order[at:]
    else:
        order.insert(at, draw(st.sampled_from([-1, n_nodes, n_nodes + 7, -(2**31), 2**31 - 1])))
    return order


@given(st.data())
def test_the_simulator_finds_the_fault_that_the_oracle_finds(data):
    graph, order = data.draw(runs())
    agree(graph, data.draw(corruptions(order, graph.n_nodes)))


@given(st.data())
def test_any_order_of_nodes_is_simulated_as_the_oracle_does(data):
    graph = data.draw(graphs(min_nodes=1, max_nodes=5))
    agree(graph, data.draw(st.lists(st.integers(0, graph.n_nodes - 1), max_size=12)))


@given(st.data())
def test_marks_are_simulated_as_the_oracle_does(data):
    graph, order = data.draw(runs(training_graphs(max_nodes=12) | graphs(min_nodes=1, max_nodes=8)))
    again = graph.forward & ~graph.once  # a recompute mark speaks of what the forward part makes
    wishes = [data.draw(st.sampled_from([0, 0, 1, 2, 2] if may else [0, 1])) for may in again.tolist()]
    agree(replace(graph, mark=wishes), order)


@pytest.mark.parametrize(
    ("marks", "order", "fields"),
    [
        ([1, 0, 0], [0, 1, 0, 2], {"name": "0", "step": 2, "node": 0}),
        ([0, 2, 0], [0, 1, 2], {"reader": "2", "name": "1", "step": 2, "node": 1}),
    ],
)
def test_a_mark_that_is_broken_is_told_with_its_step(marks, order, fields):
    graph = graph_of([[], [0], [1]], mark=marks, forward_of=[-1, -1, 0])
    assert simulate(graph, [0, 1, 2] if marks[0] else [0, 1, 0, 1, 2]).overhead == (0 if marks[0] else 2)
    with raises(ScheduleError, **fields):
        simulate(graph, order)


def test_a_recompute_mark_on_a_pinned_value_that_the_backward_part_reads_cannot_be_met():
    graph = graph_of([[], [0], [1]], mark=[0, 2, 0], forward_of=[-1, -1, 0], output=[False, True, True])
    with pytest.raises(ScheduleError, match="marked to be recomputed"):
        simulate(graph, [0, 1, 0, 1, 2])


def test_messages_speak_in_names():
    graph = graph_of([[], [0], [1]], labels=Labels(names=("conv", "relu", "loss"), value_names={1: "y"}))
    for order, fields in (
        ([0, 2], {"step": 1, "name": "loss", "value_name": "y"}),
        ([0, 1], {"step": 2, "name": "loss", "value_name": "loss"}),
        ([3], {"step": 0, "node": 3, "last": 2}),
    ):
        with raises(ScheduleError, **fields):
            simulate(graph, order)


def test_an_empty_schedule_of_an_empty_graph():
    simulation = simulate(graph_of([]), [])
    assert (simulation.peak_memory, simulation.peak_step, simulation.compute, simulation.overhead) == (0, -1, 0, 0)
    assert simulation.breakdown() == {"kept": 0, "recomputed": 0, "gradients": 0, "workspace": 0}
    assert list(simulation.actions()) == []


@given(runs())
def test_no_array_of_a_simulation_can_be_written(run):
    simulation = simulate(*run)
    lives = simulation.lifetimes
    for array in (simulation.memory_trace, lives.instance_indptr, lives.value, lives.end, simulation.schedule.order):
        assert not array.flags.writeable


# ---------------------------------------------------------------- schedules


@given(runs())
def test_names_of_a_schedule_make_it_again(run):
    graph, order = run
    schedule = Schedule(order)
    assert schedule.names(graph) == [plain(graph).node_names[v] for v in order]
    assert Schedule.from_names(graph, schedule.names(graph)).order.tolist() == order
    assert len(schedule) == len(order)
    assert schedule.mirror_count(graph.n_nodes).tolist() == [max(order.count(v) - 1, 0) for v in range(graph.n_nodes)]


def test_a_schedule_of_unknown_names_says_where():
    graph = ComputationGraph.from_edges([("conv", "relu")])
    with raises(ScheduleError, step=1) as error:
        Schedule.from_names(graph, ["conv", "rel"])
    assert (error.value.step, error.value.node) == (1, -1)


@pytest.mark.parametrize("order", [[0.5], ["a"], [2**31], [[0]], 0])
def test_a_schedule_is_a_list_of_ids(order):
    with pytest.raises((GraphError, ScheduleError)):
        Schedule(order)


# ---------------------------------------------------------------- what is held


@given(runs())
def test_what_is_live_and_the_workspace_add_up_to_the_trace(run):
    graph, order = run
    simulation = simulate(graph, order)
    for step, node in enumerate(order):
        live = live_at(simulation, step)
        sizes = [int(graph.memory[value]) for value, _ in live]
        assert sizes == sorted(sizes, reverse=True)
        assert sum(sizes) + graph.workspace[node] == simulation.memory_trace[step]
        wanted = {(x, begin) for begin, x, end in slow_simulation(graph, order).lifetimes if begin <= step < end}
        assert len(live) == len(wanted)
        assert set(live) == wanted


@given(runs(graphs(max_nodes=10, min_nodes=1) | training_graphs(max_nodes=14)))  # of no node there is no step
def test_the_breakdown_is_of_the_peak_unless_a_step_is_named(run):
    simulation = simulate(*run)
    assert simulation.breakdown() == simulation.breakdown(simulation.peak_step)
    assert sum(simulation.breakdown().values()) == simulation.peak_memory


def role_of(g, order, begin, x):
    """What an instance counts as: the words of `trace_by_role`."""
    if g.is_backward(g.producer[x]):
        return "gradients"
    return "kept" if order.index(g.producer[x]) == begin else "recomputed"


@given(runs())
def test_the_trace_by_role_is_what_each_role_holds_at_every_step(run):
    graph, order = run
    g, simulation = plain(graph), simulate(graph, order)
    traces = simulation.trace_by_role()
    wanted = {role: [0] * len(order) for role in ("kept", "recomputed", "gradients")}
    for begin, x, end in slow_simulation(graph, order).lifetimes:
        for step in range(begin, end):
            wanted[role_of(g, order, begin, x)][step] += g.memory[x]
    wanted["workspace"] = [g.workspace[v] for v in order]
    assert {role: trace.tolist() for role, trace in traces.items()} == wanted
    assert list(traces) == list(ROLES) == list(wanted)
    for step in {0, len(order) // 2, len(order) - 1} if order else ():
        assert simulation.breakdown(step) == {role: trace[step] for role, trace in traces.items()}


@given(runs())
def test_the_makers_of_instances_and_the_first_runs_are_those_of_the_order(run):
    graph, order = run
    simulation = simulate(graph, order)
    made = zip(simulation.lifetimes.made_at.tolist(), simulation.lifetimes.value.tolist(), strict=True)
    assert list(made) == [(step, x) for step, v in enumerate(order) for x in plain(graph).values[v]]
    assert simulation.schedule.first_run.tolist() == [v not in order[:step] for step, v in enumerate(order)]


# ---------------------------------------------------------------- frees


def held_by(graph, actions):
    """Bytes held during each run by someone who does these actions; a second copy of a value counts in its run only."""
    held, trace = {}, []
    for kind, place in actions:
        if kind == "free":
            del held[place]
            continue
        assert all(x in held for x in graph.reads(place)), f"{graph.labels[place]} reads what has been freed"
        made = {x: int(graph.memory[x]) for x in graph.values(place)}
        trace.append(sum(held.values()) + sum(made.values()))
        held |= made
    return trace, set(held)


@given(runs())
def test_whoever_does_the_actions_holds_what_the_trace_says(run):
    graph, order = run
    simulation = simulate(graph, order)
    trace, held = held_by(graph, simulation.actions())
    assert trace == (simulation.memory_trace - graph.workspace[simulation.schedule.order]).tolist()
    assert held == set(np.flatnonzero(graph.output).tolist())


@given(runs())
def test_actions_run_the_nodes_in_order_and_have_names_on_demand(run):
    graph, order = run
    simulation = simulate(graph, order)
    assert [node for kind, node in simulation.actions() if kind == "compute"] == order
    name = {"compute": graph.labels.__getitem__, "free": graph.value_name}
    assert list(simulation.actions(names=True)) == [(kind, name[kind](place)) for kind, place in simulation.actions()]


@given(runs())
def test_no_value_could_be_freed_earlier(run):
    """Each is freed right after a step that reads it, or right after it was made."""
    graph, order = run
    g = plain(graph)
    for node, freed in zip(order, simulate(graph, order).frees(), strict=True):
        assert set(freed) <= set(g.reads[node] + g.values[node]) - g.outputs
        assert len(set(freed)) == len(freed)


# ---------------------------------------------------------------- steps


@given(runs())
def test_every_step_reads_the_copies_that_serve_it_and_frees_those_that_end(run):
    graph, order = run
    g, lives = plain(graph), slow_simulation(graph, order).lifetimes
    index = {(begin, x): i for i, (begin, x, _) in enumerate(lives)}
    pinned = {index[order.index(g.producer[x]), x] for x in g.outputs}
    for step, taken in enumerate(simulate(graph, order).steps()):
        node, reads, makes, frees = taken[:4]
        assert node == order[step]
        assert reads == [(x, index[serving_run(g, order, step, x), x]) for x in g.reads[node]]
        assert list(makes) == [index[step, x] for x in g.values[node]]
        assert frees == [i for i, (_, _, end) in enumerate(lives) if end == step + 1 and i not in pinned]


@given(runs())
def test_the_values_of_frees_are_those_of_the_steps_without_outputs(run):
    graph, order = run
    simulation = simulate(graph, order)
    value = simulation.lifetimes.value.tolist()
    of_steps = [[value[i] for i in step.frees if not graph.output[value[i]]] for step in simulation.steps()]
    assert simulation.frees() == of_steps


@given(runs())
def test_saved_is_what_the_backward_part_finds_in_memory(run):
    """All that the steps before the first backward one make and do not free; outputs and what is read later."""
    graph, order = run
    simulation, live, later = simulate(graph, order), set(), set()
    value = simulation.lifetimes.value.tolist()
    backward = [plain(graph).is_backward(v) for v in order]
    first = backward.index(True) if any(backward) else 0
    for at, step in enumerate(simulation.steps()):
        if at < first:
            live = (live | set(step.makes)) - set(step.frees)
        else:
            later |= {i for _, i in step.reads}
    assert simulation.saved == [(value[i], i) for i in sorted(live)]
    assert all(i in later or graph.output[x] for x, i in simulation.saved)
