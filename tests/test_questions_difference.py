"""Two plans side by side: who runs what more often, and what that comes to."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remat_algos.errors import PlanError
from remat_algos.ir.budget import Budget
from remat_algos.ir.differentiate import differentiate
from remat_algos.ir.parts import Labels
from remat_algos.plan.plan import Plan
from remat_algos.questions.difference import Difference, difference
from remat_algos.schedule.simulation import simulate
from tests.oracles.plain import plain
from tests.oracles.simulation import slow_simulation
from tests.small_graphs import graph_of
from tests.strategies import MORE, graphs, orders, training_graphs

pytestmark = pytest.mark.usefixtures("short_searches")


def plan_of(graph, order, method="mine"):
    return Plan(graph, Budget(), None, simulate(graph, order), method, method, {}, None, 0.0)


@st.composite
def pairs(draw):
    """Two orders for one graph."""
    graph = draw(graphs(max_nodes=8) | training_graphs(max_nodes=12))
    return plan_of(graph, draw(orders(graph))), plan_of(graph, draw(orders(graph)))


@MORE
@given(pairs())
def test_the_record_is_what_the_oracle_computes_of_both(pair):
    graph = pair[0].graph
    g, orders_ = plain(graph), [plan.schedule.order.tolist() for plan in pair]
    simulations = [slow_simulation(g, order) for order in orders_]
    record = difference(*pair).record()
    assert record["peak_memory"] == [each.peak for each in simulations]
    assert record["compute"] == [each.compute for each in simulations]
    assert record["overhead"] == [each.overhead for each in simulations]
    assert record["steps"] == [len(order) for order in orders_]
    counts = {g.node_names[v]: [order.count(v) for order in orders_] for v in g.nodes}
    assert {node["node"]: node["runs"] for node in record["nodes"]} == {
        name: runs for name, runs in counts.items() if runs[0] != runs[1]
    }
    for node in record["nodes"]:
        v = g.node_names.index(node["node"])
        assert (node["memory"], node["compute"]) == (sum(g.memory[x] for x in g.values[v]), g.compute[v])


@MORE
@given(pairs())
def test_reversed_it_is_the_same_difference(pair):
    there, back = difference(*pair), difference(*reversed(pair))
    assert there.first_step == back.first_step
    for sign in (1, -1):
        assert there.nodes(sign) == back.nodes(-sign)
        sizes = [int(pair[0].graph.node_memory[v]) for v in there.nodes(sign)]
        assert sizes == sorted(sizes, reverse=True)
    assert [row[1:3] for row in there.rows()] == [row[2:0:-1] for row in back.rows()]


@MORE
@given(pairs())
def test_the_first_step_is_where_the_orders_part(pair):
    ours, theirs = (plan.schedule.order.tolist() for plan in pair)
    step = difference(*pair).first_step
    if step is None:
        assert ours == theirs
    else:
        assert ours[:step] == theirs[:step]
        assert ours[step : step + 1] != theirs[step : step + 1]


@MORE
@given(pairs())
def test_a_plan_does_not_differ_from_itself(pair):
    apart = difference(pair[0], pair[0])
    assert apart.first_step is None
    assert apart.record()["nodes"] == []
    assert list(apart.notes()) == ["the same schedule"]


# ---------------------------------------------------------------- by hand


#   A -> B -> C -> D -> E
#        B ----------> E
def small(**labels):
    return graph_of(
        [[], [0], [1], [2], [1, 3]],
        memory=[1000, 8000, 2, 4, 1],
        compute=[10, 20, 30, 40, 50],
        labels=Labels(names=tuple("ABCDE"), **labels),
    )


def test_the_text_by_hand():
    graph = small(compute_unit="ms", compute_scale=10)
    plans = plan_of(graph, [0, 1, 2, 0, 1, 3, 0, 1, 4], "much"), plan_of(graph, [0, 1, 2, 2, 3, 4], "little")
    assert str(difference(*plans)).splitlines() == [
        "                  first     second    difference",
        "peak              8.79 KiB  8.79 KiB        -4 B",
        "compute           21 ms     18 ms          -3 ms",
        "steps             9         6                 -3",
        "recomputed nodes  2         1                 -1",
        "solver            much      little",
        "first runs 2 nodes more often than second: 8.79 KiB, 6 ms more compute",
        "    B  7.81 KiB, 2 ms, 2 times more",
        "    A  1000 B, 1 ms, 2 times more",
        "second runs 1 node more often than first: 2 B, 3 ms more compute",
        "    C  2 B, 3 ms",
    ]


def test_names_of_the_plans_are_used():
    plans = plan_of(small(), range(5)), plan_of(small(), [0, 1, 2, 3, 1, 4])
    apart = Difference(*plans, ("a.json", "b.json"))
    assert apart.columns == ("", "a.json", "b.json", "difference")
    assert list(apart.notes()) == [
        "b.json runs 1 node more often than a.json: 7.81 KiB, 20 more compute",
        "    B  7.81 KiB, 20",
    ]


def test_both_plans_have_a_name():
    apart = difference(plan_of(small(), range(5)), plan_of(small(), [0, 1, 2, 3, 1, 4]))
    with pytest.raises(ValueError, match="zip"):
        list(replace(apart, names=("a.json",)).notes())


def test_another_order_of_the_same_runs():
    graph = graph_of([[], [], [0, 1]])
    apart = difference(plan_of(graph, [0, 1, 2]), plan_of(graph, [1, 0, 2]))
    assert list(apart.notes()) == ["every node runs equally often; the orders differ from step 0 on"]


def test_an_order_that_goes_on_where_the_other_ends():
    graph = graph_of([[], [0]])
    assert difference(plan_of(graph, [0, 1]), plan_of(graph, [0, 1, 1])).first_step == 2


def test_twelve_nodes_are_named_and_the_others_counted():
    graph = graph_of([[v - 1] if v else [] for v in range(15)])
    again = [0, *(v for v in range(1, 15) for _ in range(2))]
    _, *named, more = difference(plan_of(graph, again), plan_of(graph, range(15))).notes()
    assert len(named) == 12
    assert more == "    ... 2 more"


# ---------------------------------------------------------------- not for one graph


def forward(**arrays):
    return graph_of([[], [0], [1]], **arrays)


OTHERS = {
    "other bytes": differentiate(forward(memory=2)),
    "another factor": differentiate(forward(), factor=3),
    "not differentiated": forward(),
    "a mark": replace(differentiate(forward()), mark=[1, 0, 0, 0, 0, 0]),
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_plans_for_different_graphs_cannot_be_held_together(other):
    graph = differentiate(forward())
    plans = plan_of(graph, range(graph.n_nodes)), plan_of(other, range(other.n_nodes))
    with pytest.raises(PlanError):
        difference(*plans)


def test_plans_for_the_same_graph_read_twice_can():
    plans = [plan_of(graph, range(graph.n_nodes)) for graph in (differentiate(forward()), differentiate(forward()))]
    assert difference(*plans).first_step is None
