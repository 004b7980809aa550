"""Plans under constraints: none violates one, files record them, and the errors name what stood in the way."""

import json
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import remat_algos as ra
from remat_algos.errors import BudgetError, ClaimError, PlanError
from remat_algos.solvers import registry
from remat_algos.solvers.registry import Task
from remat_algos.zoo.random import chain
from tests.oracles.simulation import slow_simulation
from tests.raising import raises
from tests.strategies import graphs, training_graphs

pytestmark = pytest.mark.usefixtures("short_searches")

EDGES = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "e"), ("a", "e"), ("e", "f")]
TRAINING = ra.differentiate(ra.ComputationGraph.from_edges(EDGES, memory=2**20, compute=10))
CONSTRAINTS = {"max_runs": 3, "fixed_order": True, "regions": {"front": (["a", "b", "c"], "2MiB")}}
CHAIN = ra.differentiate(chain(10))  # of 1 byte each
HALF = {"regions": {"half": ("[0-4]", 4)}, "max_runs": 3}


@st.composite
def constraints(draw, graph):
    """Constraints that one pass keeps to, or nearly."""
    names, n = graph.node_names(), graph.n_nodes
    of = draw(st.lists(st.integers(-1, 1), min_size=n, max_size=n))
    regions = {}
    for k in range(2):
        nodes = [v for v in range(n) if of[v] == k]
        if nodes:
            total = sum(int(graph.node_memory[v] + graph.workspace[v]) for v in nodes)
            regions[f"r{k}"] = [names[v] for v in nodes], draw(st.integers(total // 2, total))
    max_runs = draw(st.none() | st.integers(1, 3) | st.dictionaries(st.sampled_from(names), st.integers(1, 2)))
    return {"max_runs": max_runs, "fixed_order": draw(st.booleans()), "regions": regions}


def keeps_to(plan, rules):
    """The laws, written out over the lists of the oracle."""
    graph, order = plan.graph, plan.schedule.order.tolist()
    names, slow = graph.node_names(), slow_simulation(graph, order)
    for v in range(graph.n_nodes):
        runs = rules["max_runs"].get(names[v]) if isinstance(rules["max_runs"], dict) else rules["max_runs"]
        assert runs is None or order.count(v) <= runs
    if rules["fixed_order"]:
        assert list(dict.fromkeys(order)) == sorted(set(order))
    for members, limit in rules["regions"].values():
        for step, node in enumerate(order):
            live = [x for begin, x, end in slow.lifetimes if begin <= step < end]
            bytes_of = sum(int(graph.memory[x]) for x in live if names[graph.producer[x]] in members)
            assert bytes_of + (int(graph.workspace[node]) if names[node] in members else 0) <= limit


@settings(max_examples=60)  # nothing fits in most of them
@given(st.data())
def test_every_plan_keeps_to_its_constraints(data):
    graph = data.draw(training_graphs(max_nodes=16))
    rules = data.draw(constraints(graph))
    budget = data.draw(st.sampled_from(["60%", "80%", "100%", "least"]))
    solver = data.draw(st.sampled_from(["auto", "auto", "greedy_remat", "twremat", "milp", "live_set_search"]))
    try:
        plan = ra.solve(graph, budget, solver=solver, constraints=rules)
    except (BudgetError, ra.ScheduleError):
        return
    keeps_to(plan, rules)
    assert plan.bound is None or plan.bound.amount <= plan.simulation.compute
    ra.verify(graph, plan)


@given(training_graphs(max_nodes=16))
def test_without_constraints_the_plan_is_the_same(graph):
    free = ra.Constraints.of(graph, {"max_runs": 10_000, "regions": {"all": ("*", "1TiB")}})
    plain = ra.solve(graph, "least")
    for nothing in ({}, {"fixed_order": False}, free):
        plan = ra.solve(graph, "least", constraints=nothing)
        assert plan.schedule.order.tolist() == plain.schedule.order.tolist()
        assert (plan.constraints is None) is (nothing is not free)
    assert "constraints" not in plain.record()


def test_a_plan_of_one_pass_is_found_where_nothing_may_run_twice():
    plan = ra.solve(TRAINING, "least", constraints={"max_runs": 1})
    assert plan.simulation.extra_runs == 0
    assert ra.solve(TRAINING, "least").simulation.extra_runs > 0


def test_a_region_lowers_its_own_bytes_at_any_budget():
    free = ra.solve(TRAINING, "100%")
    rules = ra.Constraints(TRAINING, regions=CONSTRAINTS["regions"])
    assert rules.region_traces(free.simulation).max() == 3 * 2**20
    plan = ra.solve(TRAINING, "100%", solver="milp", constraints=rules)
    assert rules.region_traces(plan.simulation).max() <= 2 * 2**20
    assert plan.overhead > 0
    assert "constraints  region front (3 nodes) within 2 MiB" in str(plan)


def test_polishing_that_breaks_a_constraint_is_dropped():
    for rules in ({"max_runs": 2}, {"fixed_order": True}, HALF):
        for solver in ("chen_sqrt", "greedy_remat", "liveness_dp"):
            plan = ra.solve(CHAIN, "70%", solver=solver, constraints=rules)
            assert plan.constraints.violation(plan.simulation) is None


def test_solvers_see_the_constraints(monkeypatch):
    seen = []

    def reads_constraints(graph, task, clock):
        seen.append(task.constraints)
        yield ra.Schedule(range(graph.n_nodes))

    known = registry.Solver(reads_constraints, "", registry.any_graph, None)
    monkeypatch.setitem(registry.SOLVERS.entries, "reads_constraints", known)
    plan = ra.solve(TRAINING, "100%", solver="reads_constraints", constraints={"fixed_order": True})
    assert seen == [plan.constraints]
    assert Task().constraints is None


# ---------------------------------------------------------------- the optimum of a fixed order


@given(st.data())
def test_the_integer_program_has_the_optimum_of_its_order_under_constraints(data):
    graph = data.draw(graphs(max_nodes=5, min_nodes=1) | training_graphs(max_nodes=5))
    rules = data.draw(constraints(graph))
    limit = data.draw(st.integers(0, 60))
    expected = cheapest_in_order(graph, limit, ra.Constraints(graph, **{k: v for k, v in rules.items() if v}))
    try:
        plan = ra.solve(graph, limit, solver="milp", raw=True, constraints=rules)
    except BudgetError:
        assert expected is None
    else:
        assert plan.simulation.compute == expected


def cheapest_in_order(graph, limit, rules):
    """Compute of the cheapest schedule that runs needed nodes first in their order, each at most once in each stage."""
    nodes, best = graph.needed.nonzero()[0].tolist(), None
    pairs = [(t, v) for t in range(len(nodes)) for v in nodes[:t]]  # stage t recomputes v
    for flags in product((False, True), repeat=len(pairs)):
        again = {pair for pair, flag in zip(pairs, flags, strict=True) if flag}
        order = [v for t in range(len(nodes)) for v in nodes[: t + 1] if v == nodes[t] or (t, v) in again]
        try:
            simulation = ra.simulate(graph, order)
        except ra.ScheduleError:
            continue
        fits = simulation.peak_memory <= limit and rules.violation(simulation) is None
        if fits and (best is None or simulation.compute < best):
            best = simulation.compute
    return best


@given(st.data())
def test_search_finds_a_plan_where_one_of_the_fixed_order_keeps_to_the_constraints(data):
    graph = data.draw(training_graphs(max_nodes=10))
    rules = data.draw(constraints(graph)) | {"fixed_order": True}
    budget = data.draw(st.sampled_from(["80%", "100%", "least"]))
    try:
        optimum = ra.solve(graph, budget, solver="milp", constraints=rules)
    except (BudgetError, ra.GraphError):
        return
    plain = ra.simulate(graph, ra.schedule.drop_dead_runs(graph, optimum.schedule))
    if optimum.constraints.violation(plain) is not None:
        return  # it runs nodes for nothing, to keep their place in the order; the search has no such runs
    plan = ra.solve(graph, budget, constraints=rules)
    keeps_to(plan, rules)
    if budget == "least":
        assert plan.peak_memory <= optimum.peak_memory
    else:
        assert plan.simulation.compute <= optimum.simulation.compute


@pytest.mark.parametrize("budget", ["80%", "100%", "least"])
def test_constraints_that_no_schedule_keeps_are_a_budget_error(budget):
    with pytest.raises(BudgetError, match="violates a constraint"):
        ra.solve(TRAINING, budget, constraints=CONSTRAINTS | {"max_runs": 2})


# ---------------------------------------------------------------- errors


def test_the_error_names_the_constraint_that_stood_in_the_way():
    with pytest.raises(BudgetError, match=r"fits but violates a constraint: .* max_runs is 1"):
        ra.solve(TRAINING, "80%", constraints={"max_runs": 1})
    with raises(BudgetError, best="no_remat", skipped="1 schedule against a constraint") as raised:
        ra.solve(TRAINING, "100%", solver="no_remat", constraints={"regions": CONSTRAINTS["regions"]})
    assert raised.value.fields["violation"].startswith("step 2, c: region front has 3 MiB")


def test_a_budget_that_is_too_low_without_constraints_too_blames_the_budget():
    with raises(BudgetError, limit=2**20) as raised:
        ra.solve(TRAINING, 2**20, constraints={"max_runs": 2})
    assert "violation" not in raised.value.fields


@pytest.mark.parametrize("call", [ra.solve, ra.compare], ids=["solve", "compare"])
def test_a_region_that_no_schedule_keeps_within_its_limit_is_refused_before_the_search(call):
    with raises(BudgetError, region="front", node="b", needed=2 * 2**20):
        call(TRAINING, "100%", constraints={"regions": {"front": ("[abc]", "1MiB")}})


# ---------------------------------------------------------------- compare, frontier, allocators


def test_compare_has_plans_that_keep_to_them_and_the_reason_where_there_is_none():
    found = ra.compare(TRAINING, "100%", solvers=["no_remat", "milp"], constraints=CONSTRAINTS)
    plans = {entry.solver: entry.plan for entry in found.entries}
    assert plans["no_remat"] is None
    assert any(plans.values())
    for plan in filter(None, plans.values()):
        assert plan.constraints.violation(plan.simulation) is None
    [reason] = [entry.reason for entry in found.entries if entry.solver == "no_remat"]
    assert reason.startswith("its schedules violate a constraint: step 2, c: region front has 3 MiB")


def test_the_plans_of_a_frontier_keep_to_them():
    curve = ra.frontier(CHAIN, constraints=HALF)
    assert len(curve.plans) > 3
    for plan in curve.plans:
        assert plan.constraints.violation(plan.simulation) is None
    assert curve.reasons["no_remat"] == "its schedules violate a constraint"


@pytest.mark.parametrize("allocator", ["arena", "cupy_pool"])
def test_allocators_reserve_for_schedules_that_keep_to_them(allocator):
    plan = ra.solve(CHAIN, "least", allocator=allocator, constraints=HALF)
    assert plan.constraints.violation(plan.simulation) is None
    ra.verify(CHAIN, plan)


# ---------------------------------------------------------------- files


PLAN = ra.solve(TRAINING, "80%", solver="milp", constraints=CONSTRAINTS)


def test_a_file_has_the_constraints_with_names(tmp_path):
    PLAN.save(tmp_path / "plan.json")
    record = json.loads((tmp_path / "plan.json").read_text())
    region = {"nodes": ["a", "b", "c"], "limit": 2**21}
    assert record["constraints"] == {"max_runs": 3, "fixed_order": True, "regions": {"front": region}}
    loaded = ra.Plan.load(tmp_path / "plan.json", TRAINING)
    assert loaded.record() == PLAN.record()
    assert str(loaded.constraints) == str(PLAN.constraints)


def test_a_plan_that_violates_what_it_records_is_refused_with_the_step():
    free = ra.solve(TRAINING, "100%").record()
    for rules, step in (
        ({"regions": {"front": {"nodes": ["a", "b", "c"], "limit": 2**21}}}, "step 2, c: region front has 3 MiB"),
        ({"max_runs": {"b": 1}}, "step 10 is run 2 of b; its max_runs is 1"),
    ):
        tampered = {**(free if "regions" in rules else ra.solve(TRAINING, "80%").record()), "constraints": rules}
        with pytest.raises(ClaimError) as error:
            ra.verify(TRAINING, tampered)
        assert error.value.fields["violation"].startswith(step)
    ra.verify(TRAINING, {**free, "constraints": {"fixed_order": True}})
    with pytest.raises(PlanError, match='"constraints" of the plan is invalid: '):
        ra.verify(TRAINING, {**free, "constraints": [2]})


def test_a_file_without_constraints_has_none(tmp_path):
    record = ra.solve(TRAINING, "100%").record()
    assert "constraints" not in record
    (tmp_path / "plan.json").write_text(json.dumps(record))
    assert ra.Plan.load(tmp_path / "plan.json", TRAINING).constraints is None


def test_a_plan_takes_no_constraints_of_another_graph():
    other = ra.Constraints(ra.differentiate(chain(3)), max_runs=2)
    with pytest.raises(ra.GraphError, match="the constraints are for another graph"):
        replace(PLAN, constraints=other)


# ---------------------------------------------------------------- the command line


@pytest.fixture
def net(tmp_path):
    (tmp_path / "net.txt").write_text("".join(f"{u} {v}\n" for u, v in EDGES))
    return str(tmp_path / "net.txt")


def test_the_command_line_takes_and_verifies_them(remat, net, tmp_path):
    plan = str(tmp_path / "plan.json")
    words = ("--max-runs", "3", "--fixed-order", "--region", "front=[abc]:2", "--region", "gradients=grad*:1kB")
    said = remat("solve", net, "--budget", "80%", "--solver", "milp", *words, "-o", plan)
    assert said.code == 0
    assert "constraints  at most 3 runs of each node; first runs in the order of the graph;" in said.out
    assert remat("verify", net, plan).code == 0
    record = json.loads((tmp_path / "plan.json").read_text())
    record["constraints"]["regions"]["front"]["limit"] = 1
    (tmp_path / "plan.json").write_text(json.dumps(record))
    said = remat("verify", net, plan)
    assert said.code == 1
    assert "region front has 2 B live" in said.err


def test_compare_prints_them(remat, net):
    said = remat("compare", net, "--budget", "80%", "--max-runs", "1")
    assert said.code == 3
    assert "constraints: at most 1 run of each node\n" in said.out


def test_a_frontier_keeps_to_them(remat, net):
    free = remat("frontier", net, "--json").record["points"]
    said = remat("frontier", net, "--max-runs", "2", "--fixed-order")
    assert said.code == 0
    assert "constraints: at most 2 runs of each node; first runs in the order of the graph\n" in said.out
    points = remat("frontier", net, "--max-runs", "2", "--fixed-order", "--json").record["points"]
    for point in points:
        cheaper = [each for each in free if each["peak_memory"] <= point["peak_memory"] and each["best"]]
        assert min(each["compute"] for each in cheaper) <= point["compute"]


WRONG = [
    (("--max-runs", "0"), "--max-runs is 0"),
    (("--max-runs", "two"), "--max-runs: 'two'"),
    (("--region", "front"), "'front' is not a region"),
    (("--region", "front=a"), "'front=a' is not a region"),
    (("--region", "=a:3"), "'=a:3' is not a region"),
    (("--region", "front=a:3%"), "region front: '3%'"),
    (("--region", "front=z*:3"), "region front: no node matches 'z*'"),
    (("--region", "x=a:3", "--region", "x=b:3"), "there are two --region x; give each region its own name"),
    (("--region", "x=a:3", "--region", "y=?:3"), "regions x and y"),
]


@pytest.mark.parametrize(("words", "text"), WRONG, ids=lambda case: " ".join(case) if isinstance(case, tuple) else "")
def test_what_is_no_constraint_is_one_sentence(remat, net, words, text):
    said = remat("solve", net, "--budget", "80%", *words)
    assert said.code == 2
    assert text in said.err
    assert said.err.count("\n") == 1
