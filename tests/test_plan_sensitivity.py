"""How the overhead of plans depends on costs: against loops, by hand, and what the text names."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remat_algos.errors import PlanError
from remat_algos.ir.budget import Budget
from remat_algos.ir.graph import ComputationGraph
from remat_algos.plan.plan import Plan
from remat_algos.plan.sensitivity import sensitivity
from remat_algos.schedule.simulation import simulate
from tests.oracles.cost_noise import sampled_costs, slow_overheads, slow_quantile, slow_variance_shares
from tests.strategies import graphs, orders, training_graphs

FEW = settings(max_examples=25)

#   0 -> 1 -> 2
CHAIN = ComputationGraph.from_edges([("a", "b"), ("b", "c")], compute={"a": 10, "b": 1, "c": 1})


def plan_of(graph, order, method="mine"):
    return Plan(graph, Budget(), None, simulate(graph, order), method, method, {}, None, 0.0)


@st.composite
def plans(draw):
    """Some orders for one graph."""
    graph = draw(graphs(max_nodes=8) | training_graphs(max_nodes=12))
    return [plan_of(graph, draw(orders(graph))) for _ in range(draw(st.integers(1, 4)))]


@FEW
@given(plans(), st.sampled_from([0.05, 0.5, 1]), st.integers(0, 5))
def test_the_record_is_what_a_direct_loop_computes(several, deviation, seed):
    graph = several[0].graph
    record = sensitivity(several, noise=deviation, samples=30, seed=seed).record()
    costs = sampled_costs(graph, deviation, 30, seed)
    rows = [slow_overheads(graph, plan.schedule.order.tolist(), costs) for plan in several]
    for entry, plan, row in zip(record["plans"], several, rows, strict=True):
        assert (entry["overhead"], entry["peak_memory"]) == (plan.overhead, plan.peak_memory)
        assert entry["mean"] == pytest.approx(sum(row) / 30, rel=1e-8, abs=1e-9)
        assert entry["quantile"] == pytest.approx(slow_quantile(row), rel=1e-8, abs=1e-9)
        assert entry["worst"] == pytest.approx(max(row), rel=1e-8, abs=1e-9)
    slack = [[value - min(column) for value, column in zip(row, zip(*rows, strict=True), strict=True)] for row in rows]
    for entry, row in zip(record["plans"], slack, strict=True):  # a tie may be one of rounding in the loop
        assert sum(x == 0 for x in row) <= round(30 * entry["best_share"]) <= sum(x < 1e-8 for x in row)
    assert json.loads(json.dumps(record)) == record


@FEW
@given(plans())
def test_the_shares_of_the_variance_are_those_of_small_changes(several):
    result = sensitivity(several, samples=10)
    for i, plan in enumerate(several):
        shares = result.variance_shares(i)
        expected = slow_variance_shares(plan.graph, plan.schedule.order.tolist(), 0.2)
        np.testing.assert_allclose(shares, expected, rtol=1e-3, atol=1e-5)
        nodes = result.nodes(i, 100)
        assert sorted(nodes) == np.flatnonzero(shares > 0).tolist()
        assert [shares[v] for v in nodes] == sorted((shares[v] for v in nodes), reverse=True)


def test_where_every_node_runs_twice_costs_do_not_matter():
    result = sensitivity([plan_of(CHAIN, [0, 0, 1, 1, 2, 2])], noise=1, samples=20)
    assert (result.overheads == 1).all()
    assert list(result.lines()) == ["plan 1: its overhead does not depend on the costs"]


def test_shares_of_the_variance_are_those_of_many_samples():
    graph = ComputationGraph.from_edges([(0, 3), (1, 3), (2, 3)], compute=[30, 20, 10, 40])
    plan = plan_of(graph, [0, 0, 1, 1, 2, 3])
    both, first = (
        sensitivity([plan_of(graph, order)], noise=0.05, samples=50_000).overheads[0].var()
        for order in ([0, 0, 1, 1, 2, 3], [0, 0, 1, 2, 3])
    )
    shares = sensitivity([plan]).variance_shares(0)
    one_pass, overhead = 100, 0.5
    expected = [30 * (1 - overhead), 20 * (1 - overhead), -10 * overhead, -40 * overhead]
    assert both == pytest.approx(sum((0.05 * each / one_pass) ** 2 for each in expected), rel=0.05)
    assert first < both
    assert shares.tolist() == pytest.approx([each**2 / sum(e**2 for e in expected) for each in expected])


def test_of_equal_plans_each_is_the_best():
    several = [plan_of(CHAIN, order) for order in ([0, 1, 2], [0, 1, 2], [0, 1, 0, 1, 2])]
    assert sensitivity(several).best_shares.tolist() == [1, 1, 0]


def test_the_text_by_hand():
    result = sensitivity([plan_of(CHAIN, [0, 1, 0, 2]), plan_of(CHAIN, [0, 1, 2])], samples=10, noise=1e-9)
    assert str(result).splitlines() == [
        "plan  peak  overhead  mean  90 %  worst  best in",
        "plan 1  2 B  83.3 %  83.3 %  83.3 %  83.3 %  0.0 %",
        "plan 2  2 B  0 %  0 %  0 %  0 %  100.0 %",
        "plan 1: nodes whose cost matters most for the overhead",
        "    a  1 extra run, 10 more compute, 66.7 % of the variance",
        "    b  not recomputed, 16.7 % of the variance",
        "    c  not recomputed, 16.7 % of the variance",
        "plan 2: its overhead does not depend on the costs",
    ]


def test_a_node_that_no_output_needs_is_an_extra_run():
    graph = ComputationGraph.from_edges([(0, 1), (0, 2)], compute=[1, 1, 5], output=[0, 1, 0])
    result = sensitivity([plan_of(graph, [0, 1, 2])], samples=10)
    assert not graph.needed[2]
    assert result.record()["plans"][0]["nodes"][0] == {
        "node": "2",
        "extra_runs": 1,
        "extra_compute": 5,
        "variance_share": pytest.approx(25 / (25 + 2 * 2.5**2)),
    }


def test_plans_of_different_graphs_are_refused():
    other = ComputationGraph.from_edges([("a", "b"), ("b", "c")])
    with pytest.raises(PlanError, match="the plans were made for different graphs"):
        sensitivity([plan_of(CHAIN, range(3)), plan_of(other, range(3))])


def test_no_plan_is_refused():
    with pytest.raises(PlanError, match="there is no plan; give one or more"):
        sensitivity([])


def test_what_is_no_plan_is_refused():
    with pytest.raises(TypeError, match="plan is a Simulation; give a Plan"):
        sensitivity([simulate(CHAIN, range(3))])


@pytest.mark.parametrize("wrong", [{"noise": 0}, {"noise": 2}, {"samples": 9}, {"seed": -1}])
def test_a_noise_that_is_none_is_refused(wrong):
    with pytest.raises(ValueError, match="give"):
        sensitivity([plan_of(CHAIN, range(3))], **wrong)
