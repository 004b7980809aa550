"""Constraints on schedules: the first step that violates one, beside an oracle that follows every copy."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remat_algos.errors import GraphError, PlanError
from remat_algos.ir.graph import ComputationGraph
from remat_algos.schedule.constraints import Constraints
from remat_algos.schedule.simulation import simulate
from tests.oracles.plain import plain
from tests.oracles.simulation import slow_simulation
from tests.strategies import graphs, orders, training_graphs

CHAIN = ComputationGraph.from_edges([("A", "B"), ("B", "C"), ("C", "D")], memory=2**30, workspace=[0, 0, 7, 0])


# ---------------------------------------------------------------- the oracle


def slow_region_bytes(graph, order, nodes, step):
    """Bytes of the copies that are live, and of the workspace if one of the nodes runs."""
    g = plain(graph)
    lives = slow_simulation(graph, order).lifetimes
    live = sum(g.memory[x] for begin, x, end in lives if begin <= step < end and g.producer[x] in nodes)
    return live + (g.workspace[order[step]] if order[step] in nodes else 0)


def slow_violations(graph, order, run_limit, fixed_order, regions):
    """(step, node) pairs by the name of the constraint that is violated there."""
    steps = list(enumerate(order))
    run = [step for step, v in steps if run_limit.get(v) is not None and order[: step + 1].count(v) > run_limit[v]]
    late = [step for step, v in steps if v not in order[:step] and any(u > v for u in order[:step])]
    over = [
        step for step, _ in steps for nodes, limit in regions if slow_region_bytes(graph, order, nodes, step) > limit
    ]
    return {"run": run, "first run": late if fixed_order else [], "region": over}


@st.composite
def cases(draw):
    """A graph, an order of it, and constraints."""
    graph = draw(st.one_of(graphs(max_nodes=8, min_nodes=1), training_graphs(max_nodes=12)))
    order = draw(orders(graph))
    n = graph.n_nodes
    limits = draw(st.dictionaries(st.integers(0, n - 1), st.integers(1, 3), max_size=n))
    of = draw(st.lists(st.integers(-1, 2), min_size=n, max_size=n))
    members = [nodes for k in range(3) if (nodes := [v for v in range(n) if of[v] == k])]
    regions = [(nodes, draw(st.integers(0, 30))) for nodes in members]
    return graph, [int(v) for v in order], limits, draw(st.booleans()), regions


def made(graph, limits, fixed_order, regions):
    names = graph.node_names()
    return Constraints(
        graph,
        max_runs={names[v]: limit for v, limit in limits.items()},
        fixed_order=fixed_order,
        regions={f"r{k}": ([names[v] for v in nodes], limit) for k, (nodes, limit) in enumerate(regions)},
    )


@given(cases())
def test_a_violation_is_that_of_the_oracle(case):
    graph, order, *rules = case
    text = made(graph, *rules).violation(simulate(graph, order))
    expected = slow_violations(graph, order, *rules)
    if text is None:
        assert not any(expected.values())
        return
    kind = "region" if ": region r" in text else "first run" if "first run" in text else "run"
    assert next(name for name, steps in expected.items() if steps) == kind
    assert text.startswith(f"step {expected[kind][0]}")


@given(cases())
def test_region_traces_are_those_of_the_oracle(case):
    graph, order, *rules = case
    traces = made(graph, *rules).region_traces(simulate(graph, order))
    slow = [[slow_region_bytes(graph, order, nodes, step) for step in range(len(order))] for nodes, _ in rules[2]]
    assert traces.tolist() == slow


@given(cases())
def test_a_region_of_every_node_has_the_live_bytes(case):
    graph, order, *_ = case
    simulation = simulate(graph, order)
    traces = Constraints(graph, regions={"all": ("*", 0)}).region_traces(simulation)
    assert traces[0].tolist() == simulation.memory_trace.tolist()


@given(cases())
def test_a_limit_that_no_schedule_keeps_is_kept_by_none(case):
    graph, order, *rules = case
    constraints = made(graph, *rules)
    impossible = constraints.region_bound()
    if impossible is not None:
        name, bound, _ = impossible
        k = list(constraints.regions).index(name)
        assert constraints.region_traces(simulate(graph, order))[k].max() >= bound > constraints.region_limit[k]


@given(cases())
def test_records_are_read_back(case):
    graph, _, *rules = case
    constraints = made(graph, *rules)
    again = Constraints.claimed(graph, constraints.record())
    if again is None:
        assert not any(rules)
        return
    assert again.record() == constraints.record()
    for same in (again, pickle.loads(pickle.dumps(constraints)), copy.deepcopy(constraints)):
        assert np.array_equal(same.run_limit, constraints.run_limit)
        assert np.array_equal(same.region, constraints.region)
        assert np.array_equal(same.region_limit, constraints.region_limit)
        assert same.fixed_order is constraints.fixed_order


# ---------------------------------------------------------------- examples


def violation(order, **rules):
    return Constraints(CHAIN, **rules).violation(simulate(CHAIN, order))


def test_the_first_step_is_named():
    assert violation([0, 1, 0, 1, 1, 2, 3], max_runs=2) == "step 4 is run 3 of B; its max_runs is 2"
    assert violation([0, 1, 0, 1, 2, 3], max_runs=2) is None
    assert violation([0, 1, 0, 1, 2, 3], max_runs={"B": 1}) == "step 3 is run 2 of B; its max_runs is 1"
    over = "step 2, C: region r has 1 GiB (1,073,741,831 bytes) live; its limit is 1 GiB (1,073,741,824 bytes)"
    assert violation([0, 1, 2, 3], regions={"r": (["C"], "1GiB")}) == over  # its workspace
    assert violation([0, 1, 2, 3], regions={"r": ("[CD]", "2GiB"), "s": ("A", "1GiB")}) is None


def test_nothing_constrained_is_none():
    for nothing in (None, {}, {"max_runs": None}, {"fixed_order": False, "regions": {}}, Constraints(CHAIN)):
        assert Constraints.of(CHAIN, nothing) is None


def test_a_number_names_a_node_without_a_name():
    graph = ComputationGraph.from_arrays(read_indptr=[0, 0, 1], read_indices=[0])
    constraints = Constraints(graph, max_runs={1: 3}, regions={"r": ([0], 5)})
    assert constraints.run_limit.tolist() == [0, 3]
    assert constraints.record()["regions"] == {"r": {"nodes": [0], "limit": 5}}
    assert Constraints.claimed(graph, constraints.record()).record() == constraints.record()


def test_the_text_is_short_however_many_there_are():
    text = str(Constraints(CHAIN, max_runs=dict.fromkeys("ABCD", 2), regions={name: (name, 1) for name in "ABCD"}))
    assert text == "a limit on the runs of 4 nodes; 4 regions"


WRONG = [
    ({"max_runs": 0}, ValueError, "max_runs is 0; give a whole number, 1 or more"),
    ({"max_runs": 1.5}, TypeError, "max_runs is 1.5; give a whole number, 1 or more"),
    ({"max_runs": True}, TypeError, "max_runs is True; give"),
    ({"max_runs": {"A": -1}}, ValueError, "max_runs of A is -1; give"),
    ({"max_runs": {"E": 1}}, GraphError, "max_runs: unknown node 'E'"),
    ({"fixed_order": 1}, TypeError, "fixed_order is 1; give True or False"),
    ({"regions": ["A"]}, TypeError, "regions has type list; give a mapping"),
    ({"regions": {"r": "4GiB"}}, TypeError, "region r is '4GiB'; give"),
    ({"regions": {"r": (["A"], -1)}}, ValueError, "region r has the limit -1; give bytes"),
    ({"regions": {"r": (["A"], None)}}, TypeError, "region r has the limit None; give bytes"),
    ({"regions": {"r": (["A"], "50%")}}, ValueError, "region r: '50%' is not a size"),
    ({"regions": {"r": (["E"], 1)}}, GraphError, "region r: unknown node 'E'"),
    ({"regions": {"r": ([], 1)}}, ValueError, "region r has no nodes; name some"),
    ({"regions": {"r": ("E*", 1)}}, ValueError, "region r: no node matches 'E*'; nodes are called A, B, C and 1 more"),
    ({"regions": {"r": (3, 1)}}, TypeError, "nodes of region r is 3; give a list"),
    ({"regions": {"r": (np.array(3), 1)}}, TypeError, "nodes of region r is array(3); give a list"),  # it has __iter__
    *(
        ({name: scalar}, TypeError, f"{name} is {scalar!r}; give a list")
        for name in ("stay", "offload")
        for scalar in (3, b"A", np.array(3), np.array("A"), {"A": 1})
    ),
    ({"regions": {"r": ("[AB]", 1), "s": ("B", 1)}}, ValueError, "B is in the regions r and s; keep it in only one"),
]


@pytest.mark.parametrize(("rules", "kind", "text"), WRONG, ids=lambda case: str(case)[:30])
def test_what_is_no_constraint_is_refused_in_one_sentence(rules, kind, text):
    with pytest.raises(kind) as raised:
        Constraints.of(CHAIN, rules)
    assert text in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("constraints", "text"),
    [
        (
            {"maxruns": 2},
            "constraints has the unknown entries maxruns; use only max_runs, fixed_order, regions, offload, stay",
        ),
        (2, "constraints has type int; give Constraints or a mapping"),
        (Constraints(ComputationGraph.from_edges([(0, 1)]), max_runs=1), "the constraints are for another graph"),
    ],
)
def test_what_are_no_constraints_of_this_graph_is_refused(constraints, text):
    with pytest.raises((TypeError, GraphError), match=text):
        Constraints.of(CHAIN, constraints)


@pytest.mark.parametrize(
    "record",
    [
        3,
        {"runs": 1},
        {"max_runs": "two"},
        {"max_runs": [1]},
        {"fixed_order": "yes"},
        {"regions": [1]},
        {"regions": {"r": [["A"], 3]}},
        {"regions": {"r": {"nodes": ["E"], "limit": 3}}},
        {"regions": {"r": {"nodes": None, "limit": 3}}},
        {"regions": {"r": {"nodes": ["A"]}}},
        {"regions": {"r": {"nodes": [["A"]], "limit": 3}}},
    ],
)
def test_a_record_that_is_none_is_a_plan_error(record):
    with pytest.raises(PlanError, match='"constraints" of the plan is invalid: '):
        Constraints.claimed(CHAIN, record)
