"""Why values are kept or run again: each figure is simulated, of the order with one decision flipped."""

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remat_algos.errors import ArgumentError, GraphError
from remat_algos.ir.budget import Budget
from remat_algos.ir.differentiate import differentiate
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.parts import KEEP, RECOMPUTE, Labels
from remat_algos.ir.tables import NodeRow, Tables, ValueRow
from remat_algos.plan.plan import Plan
from remat_algos.questions.explain import MAX_COUNTED, Decision, explain
from remat_algos.schedule.emission import clamp_counts, mirror_schedule
from remat_algos.schedule.simulation import simulate
from remat_algos.search.solve import solve
from tests.oracles import changed_runs as oracle
from tests.oracles.plain import plain
from tests.oracles.simulation import slow_simulation
from tests.raising import raises
from tests.small_graphs import graph_of
from tests.strategies import MORE, graphs, orders, training_graphs

pytestmark = pytest.mark.usefixtures("short_searches")


def plan_of(graph, order):
    """A plan for any order."""
    return Plan(graph, Budget(), None, simulate(graph, order), "mine", "mine", {}, None, 0.0)


@st.composite
def plans(draw):
    """Plans for orders of a solver's kind, with up to three runs of a node, and for any others."""
    graph = draw(graphs(max_nodes=8, min_nodes=1) | training_graphs(max_nodes=12))
    if graph.is_training and draw(st.booleans()):
        counts = draw(st.lists(st.integers(0, 2), min_size=graph.n_nodes, max_size=graph.n_nodes))
        return plan_of(graph, mirror_schedule(graph, clamp_counts(graph, np.array(counts))).order.tolist())
    return plan_of(graph, draw(orders(graph)))


# ---------------------------------------------------------------- the contrary, read slowly


def difference(graph, old, new, shared):
    """The figures of a flipped decision for two orders and the pairs of steps that they share."""
    before, after = slow_simulation(graph, old), slow_simulation(graph, new)
    change = [after.trace[there] - before.trace[here] for here, there in shared]
    return {
        "compute": after.compute - before.compute,
        "freed": max([0, *(-c for c in change)]),
        "freed_steps": sum(c < 0 and c == min(change) for c in change),
        "added": max([0, *change]),
        "added_steps": sum(c > 0 and c == max(change) for c in change),
        "peak_memory": after.peak,
    }


def contrary(graph, order, node):
    """The slow simulation of the order with the decision about a node flipped."""
    g = plain(graph)
    if order.count(node) > 1:
        steps = oracle.kept(g, order, node)
        return difference(
            oracle.unmarked(g), order, [order[s] for s in steps], zip(steps, range(len(steps)), strict=True)
        )
    ways = []
    for way in oracle.add_second_run(g, order, node):
        shared = [(here, there) for there, (here, _) in enumerate(way) if here is not None]
        ways.append(difference(oracle.unmarked(g), order, [v for _, v in way], shared))
    return min(ways, key=lambda t: (t["peak_memory"], t["freed"] == 0, t["compute"]))


@MORE
@given(plans())
def test_the_opposite_of_every_decision_is_simulated(plan):
    order = plan.schedule.order.tolist()
    for node in range(plan.graph.n_nodes):
        decision = Decision(plan.simulation, node)
        assert (decision.flipped is None) == bool(decision.fixed)
        if not decision.fixed:
            assert decision.flipped.record() == contrary(plan.graph, order, node)


@MORE
@given(plans(), st.data())
def test_with_marks_the_opposite_is_simulated_too(plan, data):
    """Marks on nodes that run once; those that keep do not run again for another node's sake."""
    graph, order = plan.graph, plan.schedule.order.tolist()
    mark = [KEEP * (order.count(v) < 2 and graph.forward[v] and data.draw(st.booleans())) for v in range(graph.n_nodes)]
    marked = plan_of(replace(graph, mark=mark, derivation=None), order)
    for node in range(graph.n_nodes):
        decision = Decision(marked.simulation, node)
        if mark[node] and order.count(node):
            assert decision.flipped is None
        elif not decision.fixed:
            assert decision.flipped.record() == contrary(marked.graph, order, node)


@MORE
@given(plans())
def test_keeping_never_computes_more_and_running_again_never_less(plan):
    for node, runs in enumerate(plan.simulation.runs.tolist()):
        flipped = Decision(plan.simulation, node).flipped
        if flipped is not None:
            cost = int(plan.graph.compute[node])
            assert flipped.compute <= -cost * (runs - 1) if runs > 1 else flipped.compute >= cost


@MORE
@given(plans())
def test_what_is_fixed_is_fixed_for_a_reason_that_holds(plan):
    g, order = plain(plan.graph), plan.schedule.order.tolist()
    for node in g.nodes:
        count = order.count(node)
        outputs = set(g.values[node]) & g.outputs
        wait = oracle.idle_time(g, order, node) if count == 1 else None
        reasons = {
            "so it does not run": count == 0,
            "gradients run once": g.is_backward(node) and count == 1,
            "must run only once": g.once[node] and count == 1,
            "stays live to the end": len(outputs) == len(g.values[node]) and count == 1,
            "never idle": count == 1 and (wait is None or wait[1] - wait[0] < 2),
        }
        said = [reason for reason in reasons if reason in Decision(plan.simulation, node).fixed]
        assert said == [reason for reason, holds in reasons.items() if holds][:1]


@MORE
@given(plans())
def test_a_decision_tells_runs_reads_and_lives_as_they_are_simulated(plan):
    g, order = plain(plan.graph), plan.schedule.order.tolist()
    simulated = slow_simulation(g, order)
    for node in g.nodes:
        decision = Decision(plan.simulation, node)
        own = [(begin, x, end) for begin, x, end in simulated.lifetimes if g.producer[x] == node]
        runs = [s for s, v in enumerate(order) if v == node]
        assert decision.runs == runs
        assert decision.reads == [s for s, v in enumerate(order) if set(g.reads[v]) & set(g.values[node])]
        assert decision.lives == [(s, max(end for begin, _, end in own if begin == s) - 1) for s in runs]
        assert decision.memory == sum(g.memory[x] for x in g.values[node])
        for step in range(len(order)):
            assert decision.bytes_at(step) == sum(g.memory[x] for begin, x, end in own if begin <= step < end)


# ---------------------------------------------------------------- by hand


#   A -> B -> C -> D -> E
#        B ----------> E        bytes 1, 8, 2, 4, 1; costs 10, 20, 30, 40, 50
def small(**arrays):
    return graph_of(
        [[], [0], [1], [2], [1, 3]],
        memory=[1, 8, 2, 4, 1],
        compute=[10, 20, 30, 40, 50],
        labels=Labels(names=tuple("ABCDE")),
        **arrays,
    )


def test_a_run_more_by_hand():
    """Bytes per step: A 1, B 9, C 10, D 14, E 13; with `B` again before E: A 1, B 9, C 11, D 7, B 13, E 13.

    It holds A up to the second run of B; were A to run again too: A 1, B 9, C 10, D 6, A 5, B 13, E 13. Both have the
    peak 13 and free something, so the cheaper one is told.
    """
    plan = plan_of(small(), range(5))
    assert plan.simulation.memory_trace.tolist() == [1, 9, 10, 14, 13]
    flipped = Decision(plan.simulation, 1).flipped
    assert flipped.record() == {
        "compute": 20,
        "freed": 7,
        "freed_steps": 1,
        "added": 1,
        "added_steps": 1,
        "peak_memory": 13,
    }


def test_a_run_less_by_hand():
    """ABCDABE holds 1, 9, 10, 6, 5, 13, 13, and without the second runs of B, and of A for it, 1, 9, 10, 14, 13."""
    plan = plan_of(small(), [0, 1, 2, 3, 0, 1, 4])
    assert plan.simulation.memory_trace.tolist() == [1, 9, 10, 6, 5, 13, 13]
    flipped = Decision(plan.simulation, 1).flipped
    assert flipped.record() == {
        "compute": -30,
        "freed": 0,
        "freed_steps": 0,
        "added": 8,
        "added_steps": 1,
        "peak_memory": 14,
    }


def unfolded(explanation):
    """The text in one line."""
    return " ".join(str(explanation).split())


def test_the_text_by_hand():
    assert str(explain(plan_of(small(), range(5)), "B")) == (
        "B  8 B, kept from step 1 to step 4; read by C (2), E (4)\n"
        "    recomputing it would free 7 B for 1 step, need 1 B more for 1 step and cost\n"
        "        20 (13.3 % of one pass); the peak would be 13 B\n"
        "    57.1 % of the peak (step 3, 14 B)\n"
        "at the peak: B 8 B (kept), D 4 B (kept), C 2 B (kept)"
    )
    assert str(explain(plan_of(small(), [0, 1, 2, 3, 0, 1, 4]), "B")) == (
        "B  8 B, computed 2 times, live in steps 1 to 2, 5 to 6; read by C (2), E (6)\n"
        "    keeping it would need 8 B more for 1 step and save 30 (20.0 % of one pass);\n"
        "        the peak would be 14 B\n"
        "    61.5 % of the peak (step 5, 13 B)\n"
        "at the peak: B 8 B (recomputed), D 4 B (kept), A 1 B (recomputed)"
    )


def test_a_node_that_runs_three_times_is_told_with_all_its_lives():
    plan = plan_of(small(), [0, 1, 2, 0, 1, 3, 0, 1, 4])
    decision = Decision(plan.simulation, 1)
    assert decision.lives == [(1, 2), (4, 4), (7, 8)]
    assert decision.flipped.record() == {
        "compute": -60,  # the second and third runs of B, and of A for them
        "freed": 0,
        "freed_steps": 0,
        "added": 8,
        "added_steps": 1,
        "peak_memory": 14,
    }
    assert "computed 3 times, live in steps 1 to 2, 4 to 4, 7 to 8; read by C (2), E (8)" in unfolded(
        explain(plan, "B")
    )


FIXED = {
    "once": (small(once=[False, True, False, False, False]), "B", "B must run only once"),
    "kept": (small(mark=[0, KEEP, 0, 0, 0]), "B", "B is marked to be kept"),
    "recomputed": (small(mark=[0, RECOMPUTE, 0, 0, 0]), "B", "B is marked to be recomputed"),
    "output": (small(), "E", "E is an output and stays live to the end"),
    "never idle": (small(), "A", "A is never idle, so recomputing it would free nothing"),
    "gradient": (differentiate(small()), "grad(D)", "grad(D) is a gradient; gradients run once"),
}


@pytest.mark.parametrize(("graph", "name", "reason"), FIXED.values(), ids=FIXED)
def test_a_reason_why_there_is_nothing_to_decide(graph, name, reason):
    explanation = explain(plan_of(graph, range(graph.n_nodes)), name)
    assert [decision.fixed for decision in explanation.decisions] == [reason]
    assert f"\n    {reason}\n" in str(explanation)
    assert explanation.record()["decisions"][0]["fixed"] == reason
    assert explanation.record()["decisions"][0]["flipped"] is None


def test_a_node_that_no_output_needs():
    graph = graph_of([[], [0], [0]], output=[False, True, False], labels=Labels(names=("a", "b", "spare")))
    assert str(explain(plan_of(graph, [0, 1]), "spare")) == (
        "spare  1 B, never run; not read\n"
        "    no output needs spare, so it does not run\n"
        "    0.0 % of the peak (step 1, 2 B)\n"
        "at the peak: a 1 B (kept), b 1 B (kept)"
    )


def test_a_gradient_that_somebody_ran_twice_may_run_once():
    graph = differentiate(small())
    order = list(range(graph.n_nodes))
    first = int(np.flatnonzero(~graph.forward)[0])
    plan = plan_of(graph, [*order[: first + 1], *order[first:]])
    assert Decision(plan.simulation, first).flipped.compute == -int(graph.compute[first])


# ---------------------------------------------------------------- several values, views


def test_a_node_of_several_values_is_one_decision():
    """conv makes its output and statistics; both are told of by either name."""
    graph = graph_of(
        [[], [0], [2], [1, 3]],
        value_indptr=[0, 2, 3, 4, 5],
        memory=[8, 2, 1, 1, 1],
        labels=Labels(names=("conv", "relu", "fc", "end"), value_names={1: "statistics"}),
    )
    plan = plan_of(graph, range(4))
    assert [d.node for d in explain(plan, "statistics").decisions] == [0]
    [decision] = explain(plan, "conv").record()["decisions"]
    assert decision["values"] == ["conv", "statistics"]
    assert (decision["memory"], decision["live_at_peak"]) == (10, 10)
    assert decision["lives"] == [(0, 3)]
    assert decision["flipped"]["freed"] == 2  # the output dies with relu, the statistics wait


def test_a_node_with_an_output_among_its_values_is_a_decision_about_the_others():
    """0 makes an output of 1 byte and 8 bytes that 1 and 3 read."""
    graph = graph_of(
        [[], [1], [2], [1, 3]],
        value_indptr=[0, 2, 3, 4, 5],
        memory=[1, 8, 1, 1, 1],
        output=[True, False, False, False, True],
    )
    kept = Decision(plan_of(graph, [0, 1, 2, 3]).simulation, 0)
    assert kept.fixed == ""
    assert (kept.flipped.freed, kept.flipped.freed_steps, kept.flipped.compute) == (8, 1, 1)
    again = Decision(plan_of(graph, [0, 1, 2, 0, 3]).simulation, 0)
    assert (again.flipped.added, again.flipped.added_steps, again.flipped.compute) == (8, 1, -1)


def test_a_view_is_told_of_as_its_base():
    tables = Tables(
        nodes=[
            NodeRow(name="conv", values=[ValueRow(memory=4)]),
            NodeRow(name="flat", values=[ValueRow(view_of="conv")], compute=0, reads=["conv"]),
            NodeRow(name="fc", reads=["flat"], values=[ValueRow()]),
        ]
    )
    graph = ComputationGraph.from_tables(tables)
    assert [d.graph.labels[d.node] for d in explain(plan_of(graph, [0, 1]), "flat").decisions] == ["conv"]


# ---------------------------------------------------------------- the text and the record


@MORE
@given(plans())
def test_figures_in_the_text_are_those_of_the_record(plan):
    """Sizes stay below 1000 bytes, which text gives exactly: 36 runs of at most 27 bytes each, and a workspace of 5."""
    assert plan.peak_memory < 1000
    explanation = explain(plan)
    record = explanation.record()
    text = str(explanation)
    assert max(map(len, text.splitlines())) <= 80
    lines = [line for decision in explanation.decisions for line in decision.lines()]
    assert len(lines) == 3 * len(record["decisions"])
    assert " ".join(text.split()).startswith(" ".join(" ".join(lines).split()))
    lines.append(" ".join(text.partition("at the peak: ")[2].split()))
    for decision, (head, contrary, share) in zip(
        record["decisions"], zip(*[iter(lines)] * 3, strict=False), strict=False
    ):
        check_text(plan, decision, head, contrary, share)
    shown = [f"{live['value']} {live['memory']} B" for live in record["at_peak"] if live["memory"]]
    assert all(text in lines[-1] for text in shown[:3])
    assert (", ... " in lines[-1]) == (len(shown) > 3)
    assert f", ... {len(shown) - 3} more" in lines[-1] or len(shown) <= 3


def check_text(plan, decision, head, contrary, share):
    """Each number that the three lines of a decision name is the record's."""
    labels, flipped = plan.graph.labels, decision["flipped"]
    assert head.startswith(f"{decision['node']}  {decision['memory']} B, ")
    for read in decision["reads"][:4]:
        assert f"{read['node']} ({read['step']})" in head
    for begin, end in decision["lives"][:4]:
        said = (f"from step {begin} to step {end}", f"at step {begin} only", f"{begin} to {end}")
        assert any(words in head for words in said)
    cost = abs(flipped["compute"])
    assert f" {labels.compute(cost)} ({100 * cost / max(1, plan.graph.needed_compute):.1f} % of one pass)" in contrary
    again = len(decision["runs"]) == 1
    verb = "stay" if flipped["peak_memory"] == plan.peak_memory else "be"
    assert contrary.strip().startswith("recomputing it would " if again else "keeping it would ")
    assert ("cost" if again else "save") in contrary
    freed = re.search(r"free (\d+) B for (\d+) step", contrary)
    if again:
        assert (freed and (int(freed[1]), int(freed[2]))) == (
            (flipped["freed"], flipped["freed_steps"]) if flipped["freed"] else None
        )
    # Its peak is that of the simulated schedule, also where it stays.
    assert contrary.endswith(f"; the peak would {verb} {flipped['peak_memory']} B")
    added = re.search(r"need (\d+) B more for (\d+) step", contrary)
    assert (added and (int(added[1]), int(added[2]))) == (
        (flipped["added"], flipped["added_steps"]) if flipped["added"] else None
    )
    peak = re.search(r"the peak would be (\d+) B", contrary)
    assert (int(peak[1]) if peak else plan.peak_memory) == flipped["peak_memory"]
    of_peak = 100 * decision["live_at_peak"] / max(1, plan.peak_memory)
    assert share == f"    {of_peak:.1f} % of the peak (step {plan.simulation.peak_step}, {plan.peak_memory} B)"


@MORE
@given(plans())
def test_what_is_at_the_peak_adds_up_to_it(plan):
    g, order, step = plain(plan.graph), plan.schedule.order.tolist(), plan.simulation.peak_step
    live = explain(plan).at_peak()
    assert sum(added.memory for added in live) == plan.peak_memory
    assert [added.memory for added in live] == sorted((added.memory for added in live), reverse=True)
    roles = sorted(
        (g.value_names[x], "gradients" if g.is_backward(g.producer[x]) else "kept" if first else "recomputed")
        for begin, x, end in slow_simulation(g, order).lifetimes
        if begin <= step < end
        for first in [g.producer[x] not in order[:begin]]
    )
    assert sorted((added.name, added.role) for added in live if added.role != "workspace") == roles


@MORE
@given(plans(), st.integers(0, 4))
def test_the_largest_decisions_come_first_and_the_others_are_counted(plan, most):
    graph = plan.graph
    decided = [v for v in range(graph.n_nodes) if graph.forward[v] and not Decision(plan.simulation, v).fixed]
    decided = sorted((v for v in decided if graph.node_memory[v]), key=lambda v: -graph.node_memory[v])
    explanation = explain(plan, most=most)
    assert list(explanation.nodes) == decided[:most]
    assert explanation.left_out == max(0, len(decided) - most)
    assert (f"not shown: {explanation.left_out} decision" in str(explanation)) == bool(explanation.left_out)


def test_very_many_decisions_are_not_counted_to_the_end():
    chain = differentiate(ComputationGraph.from_edges([(i, i + 1) for i in range(MAX_COUNTED + 20)]))
    explanation = explain(plan_of(chain, range(chain.n_nodes)), most=1)
    assert explanation.left_out == MAX_COUNTED
    assert f"not shown: {MAX_COUNTED:,} decisions or more about no more bytes than these" in str(explanation)


def test_a_plan_of_nothing():
    empty = graph_of([])
    assert str(explain(plan_of(empty, []))) == "at the peak: nothing"


def test_a_name_that_is_none_brings_those_near():
    plan = plan_of(ComputationGraph.from_edges([("conv1", "conv2"), ("conv2", "loss")]), range(3))
    with pytest.raises(GraphError, match="'conv3'; did you mean conv2 or conv1"):
        explain(plan, "conv3")


def test_a_plan_of_a_solver_is_explained_without_a_name():
    plan = solve(differentiate(ComputationGraph.from_edges([(i, i + 1) for i in range(8)])), 7)
    text = str(explain(plan, most=2))
    assert text.count("% of one pass") == 2
    assert re.search(r"^not shown: \d+ decisions about no more bytes than these$", text, re.M)


def test_a_plan_from_elsewhere_is_printed_whatever_its_details_are():
    plan = plan_of(small(), range(5))
    odd = {"skipped": "x", "solvers_tried": [1], "formula_peak": 3}, {"skipped": {"a": "b"}, "formula_peak": "y"}
    for details in odd:
        for method in "exact_dp", "auto", "unheard_of":
            assert "peak" in str(replace(plan, method=method, solver="auto", details=details))


def test_a_negative_number_of_decisions_is_refused():
    with raises(ArgumentError, most=-1):
        explain(plan_of(small(), range(5)), most=-1)
