"""Solve, plans and their files, verify, compare."""

import builtins
import json
import os
import re
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remat_algos.bounds.memory import least_peak_bound
from remat_algos.context import Stop
from remat_algos.errors import BudgetError, ClaimError, PlanError
from remat_algos.formats.graphs.json_text import from_json, to_json
from remat_algos.ir.budget import Budget
from remat_algos.ir.differentiate import differentiate
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.parts import Backward, Labels, Resident
from remat_algos.plan.plan import Plan, reordered
from remat_algos.plan.record import DETAILS, SearchReport
from remat_algos.plan.verify import verify
from remat_algos.questions.compare import compare
from remat_algos.schedule.emission import baseline, baseline_peak
from remat_algos.schedule.schedule import Schedule
from remat_algos.search.auto import SPECIAL, default_solvers
from remat_algos.search.solve import solve
from remat_algos.solvers import registry
from remat_algos.solvers.registry import Candidate, list_candidates, list_solvers
from tests.conftest import shorter
from tests.oracles.simulation import slow_simulation
from tests.raising import raises
from tests.strategies import differentiation, graphs, rows, training_graphs

pytestmark = pytest.mark.usefixtures("short_searches")

KEYS = [
    *("format", "version", "graph_hash", "differentiate", "solver", "method", "options", "budget", "limit"),
    *("schedule", "peak_memory", "peak_bound", "resident_memory", "compute", "overhead", "bound"),
    *("bound_scope", "bound_source", "gap"),
    *("compute_unit", "compute_scale", "seconds", "details"),
]
OPTIONAL = ["bound_source", "details", "peak_bound"]
NUMBERS = ["peak_memory", "resident_memory", "compute", "overhead"]


def source():
    """A forward graph with names, residents, several values, workspace, a scale of compute, a node that runs once."""
    saved = [[0], [1, 2], [3], [4, 5], [5, 6], [6, 7]]
    rule = Backward(
        **rows("saved", saved),
        grad_memory=[30, 40, -1, 40, 20, -1, 10, 1],
        grad_compute=[-1] * 6,
        grad_workspace=[0, 5, 0, 0, 0, 0],
    )
    return ComputationGraph.from_arrays(
        value_indptr=[0, 1, 3, 4, 6, 7, 8],
        **rows("read", [[], [0], [1], [3], [4, 5], [6]]),
        memory=[30, 40, 4, 40, 20, 6, 10, 1],
        compute=[25, 10, 15, 30, 5, 5],
        workspace=[0, 7, 0, 0, 0, 0],
        once=[False, False, False, True, False, False],
        backward=rule,
        resident=Resident(memory=[100, 11], role=[0, 1], **rows("read", [[0], [1], [], [], [1], []]), names=("x", "w")),
        labels=Labels(
            names=("conv", "norm", "relu", "drop", "sum", "loss"),
            value_names={2: "statistics"},
            compute_unit="ms",
            compute_scale=10,
        ),
    )


def nameless(n=8):
    return ComputationGraph.from_edges([(v, v + 1) for v in range(n - 1)])


GRAPH = differentiate(source(), parameter_gradients=True)
with shorter():
    PLAN = solve(GRAPH, "85%")


def another(graph, task, clock):
    """A solver that bounds schedules of a scope that the test names."""
    yield Candidate(baseline(graph).schedule)


def record(**changes):
    """The record of a sound plan, with changes."""
    return {**json.loads(PLAN.text("frees")), **changes}


# ---------------------------------------------------------------- the record


def test_the_graph_of_these_tests_has_a_plan_that_runs_nodes_again():
    assert PLAN.overhead > 0
    assert PLAN.simulation.runs[GRAPH.node_id("drop")] == 1
    assert GRAPH.resident_memory == 111


def test_a_record_has_the_documented_keys_in_their_order():
    assert list(PLAN.record()) == KEYS
    assert list(PLAN.record(frees=True)) == [*KEYS, "frees"]


def test_a_record_has_the_figures_of_the_oracle():
    slow = slow_simulation(GRAPH, PLAN.schedule.order)
    made = PLAN.record(frees=True)
    assert (made["format"], made["version"]) == ("remat-plan", 1)
    assert (made["peak_memory"], made["compute"], made["overhead"]) == (slow.peak, slow.compute, slow.overhead)
    assert made["resident_memory"] == 111
    assert made["graph_hash"] == source().hash != GRAPH.hash
    assert made["differentiate"] == {"factor": 2, "parameter_gradients": True, "loss": None, "keep_outputs": False}
    assert made["budget"] == {"memory": "85%", "overhead": None, "device": None}
    assert made["limit"] == baseline_peak(GRAPH) * 85 // 100
    assert (made["solver"], made["method"], made["options"]) == ("auto", PLAN.method, {})
    assert (made["bound"], made["bound_scope"]) == (PLAN.bound.amount, "any order")
    assert GRAPH.needed_compute <= PLAN.bound.amount <= slow.compute
    assert made["gap"] == (slow.compute - PLAN.bound.amount) / PLAN.bound.amount
    assert (made["compute_unit"], made["compute_scale"]) == ("ms", 10)
    assert made["schedule"] == [GRAPH.labels[v] for v in PLAN.schedule.order]
    assert made["details"] == {**PLAN.details, **PLAN.report.record()}


def test_frees_are_the_ends_of_lives_but_for_outputs():
    lives = slow_simulation(GRAPH, PLAN.schedule.order).lifetimes
    wanted = [set() for _ in PLAN.schedule.order]
    for _, x, end in lives:
        if not GRAPH.output[x]:
            wanted[end - 1].add(GRAPH.value_name(x))
    assert list(map(set, PLAN.record(frees=True)["frees"])) == wanted


def test_actions_run_and_free_in_turn():
    steps = iter(PLAN.record(frees=True)["frees"])
    wanted = []
    for node in PLAN.record()["schedule"]:
        wanted += [("compute", node), *(("free", value) for value in next(steps))]
    assert list(PLAN.actions(names=True)) == wanted
    name = {"compute": GRAPH.labels.__getitem__, "free": GRAPH.value_name}
    assert [(deed, name[deed](place)) for deed, place in PLAN.actions()] == wanted


def test_a_schedule_has_names_where_the_graph_has_some_else_ids():
    named, bare = PLAN.record(), solve(nameless(), "100%").record()
    assert all(isinstance(step, str) for step in named["schedule"])
    assert bare["schedule"] == list(range(8))
    assert solve(differentiate(nameless()), "100%").record()["schedule"][-1] == "grad(0)"


def test_numbers_of_numpy_are_no_obstacle():
    plan = solve(differentiate(nameless()), np.int64(9), solver="chen_sqrt", segments=np.int64(2), raw=True)
    assert json.loads(plan.text())["options"] == {"segments": 2}


# ---------------------------------------------------------------- to a file and back


def same(loaded, plan):
    """Every field, as far as files hold it."""
    assert [field.name for field in fields(Plan) if field.init] == [
        *("graph", "budget", "limit", "simulation", "solver", "method"),
        *("options", "bound_or_search", "seconds", "details", "report", "reservation", "constraints"),
        *("narrower", "solver_peak_bound", "loaded", "link"),
    ]
    for name in ("budget", "limit", "solver", "method", "solver_peak_bound"):
        assert getattr(loaded, name) == getattr(plan, name), name
    for name in ("amount", "of", "source", "scope", "nodes", "prices", "proven"):
        assert getattr(loaded.bound, name) == getattr(plan.bound, name), name
    assert dict(loaded.options) == dict(plan.options)
    assert dict(loaded.details) == dict(plan.details)
    assert loaded.report.record() == plan.report.record()
    assert loaded.reservation == plan.reservation
    assert (plan.loaded, loaded.loaded) == (False, True)
    assert loaded.seconds == pytest.approx(plan.seconds, abs=1e-6)
    assert loaded.graph.hash == plan.graph.hash
    assert loaded.schedule.order.tolist() == plan.schedule.order.tolist()
    assert loaded.simulation.memory_trace.tolist() == plan.simulation.memory_trace.tolist()
    assert loaded.record(frees=True) == plan.record(frees=True)


@pytest.mark.parametrize("form", ["plan", "frees"])
@pytest.mark.parametrize("given", [source(), GRAPH], ids=["before", "after"])
def test_load_reads_back_what_save_wrote(tmp_path, form, given):
    PLAN.save(tmp_path / "plan.json", form)
    same(Plan.load(tmp_path / "plan.json", given), PLAN)


BUDGETS = [
    *(None, 10**6, "85%", "1 kB", "least"),
    *(Budget(overhead="40%"), Budget(overhead=3), Budget(overhead="2.5")),
    *(Budget(memory="90%", overhead="90%"), Budget(device="1kB"), Budget(memory="least", device=10**4)),
]


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
def test_every_form_of_budget_is_read_back(tmp_path, budget):
    plan = solve(GRAPH, budget)
    plan.save(str(tmp_path / "plan.json"))
    same(Plan.load(str(tmp_path / "plan.json"), source()), plan)


@given(st.data())
def test_save_and_load_are_inverse(tmp_path_factory, data):
    graph = data.draw(graphs(max_nodes=7, min_nodes=1, seeded=True))
    made = differentiate(graph, **data.draw(differentiation(graph)))
    budget = data.draw(st.sampled_from([None, "100%", "least"]))
    solver = data.draw(st.sampled_from(["auto", *sorted({each.name for each in list_solvers()} - SPECIAL)]))
    path = tmp_path_factory.mktemp("plans") / "plan.json"
    plan = solve(made, budget, solver=solver)
    plan.save(path)
    same(Plan.load(path, graph), plan)
    same(Plan.load(path, made), plan)


def test_a_plan_survives_a_graph_that_comes_from_a_file_with_a_backward_part(tmp_path):
    PLAN.save(tmp_path / "plan.json")
    again = from_json(to_json(GRAPH))
    same(Plan.load(tmp_path / "plan.json", again), PLAN)


def test_a_plan_with_options_is_read_back(tmp_path):
    plan = solve(GRAPH, "100%", solver="chen_sqrt", at=("norm", "sum"), keep_last=False, raw=True)
    plan.save(tmp_path / "plan.json")
    loaded = Plan.load(tmp_path / "plan.json", GRAPH)
    assert loaded.options == {"at": ["norm", "sum"], "keep_last": False}
    again = solve(GRAPH, loaded.budget, solver=loaded.solver, raw=True, **loaded.options)
    assert again.schedule.order.tolist() == plan.schedule.order.tolist()


def test_save_leaves_the_old_file_where_the_new_one_cannot_be_written(tmp_path, monkeypatch):
    path = tmp_path / "plan.json"
    path.write_text("old", encoding="utf-8")

    def fail(*names):
        raise OSError(28, "No space left on device")

    for place, broken in (os, "replace"), (builtins, "open"):
        with monkeypatch.context() as patch:
            patch.setattr(place, broken, fail)
            with pytest.raises(OSError, match="No space left"):
                PLAN.save(path)
        assert [file.name for file in tmp_path.iterdir()] == ["plan.json"]
        assert path.read_text(encoding="utf-8") == "old"
    PLAN.save(path)
    assert json.loads(path.read_text(encoding="utf-8")) == PLAN.record()


def test_save_to_a_folder_that_is_not_there_is_an_os_error(tmp_path):
    with pytest.raises(OSError, match="nowhere"):
        PLAN.save(tmp_path / "nowhere" / "plan.json")
    assert list(tmp_path.iterdir()) == []


# ---------------------------------------------------------------- verify


@pytest.mark.parametrize("graph", [source(), GRAPH], ids=["before", "after"])
def test_verify_takes_a_plan_its_record_and_its_file(tmp_path, graph):
    PLAN.save(tmp_path / "plan.json", "frees")
    for plan in PLAN, PLAN.record(), PLAN.record(frees=True), tmp_path / "plan.json", str(tmp_path / "plan.json"):
        assert verify(graph, plan).memory_trace.tolist() == PLAN.simulation.memory_trace.tolist()


def test_verify_reads_what_windows_editors_write(tmp_path):
    (tmp_path / "plan.json").write_bytes(b"\xef\xbb\xbf" + PLAN.text().replace("\n", "\r\n").encode())
    assert verify(GRAPH, tmp_path / "plan.json").peak_memory == PLAN.peak_memory


def swapped(steps):
    return [steps[1], steps[0], *steps[2:]]


FRAUDS = {
    "source of the bound": {
        "bound_source": "one pass",
        "bound": GRAPH.needed_compute - 10,
        "gap": (PLAN.simulation.compute - GRAPH.needed_compute + 10) / (GRAPH.needed_compute - 10),
    },
    "gap for another scope": {"bound_scope": "canonical"},
    "limit without budget": {"budget": None},
    "device that is not kept": {
        "budget": {"device": PLAN.peak_memory + GRAPH.resident_memory - 1},
        "limit": PLAN.peak_memory - 1,
    },
    "a schedule of nothing": {"schedule": []},
    "a schedule out of order": {"schedule": swapped(record()["schedule"])},
    "an unknown node": {"schedule": [*record()["schedule"], "nobody"]},
    "an unknown id": {"schedule": [*PLAN.schedule.order.tolist(), 10**6]},
    "once twice": {"schedule": [*record()["schedule"], "drop"]},
    "a step more": {"schedule": [*record()["schedule"], "conv"]},
    "frees in another step": {"frees": swapped(record()["frees"])},
    "frees that are none": {"frees": None},
}


@pytest.mark.parametrize("fraud", FRAUDS.values(), ids=FRAUDS)
def test_a_false_claim_is_denied(tmp_path, fraud):
    false = record(**fraud)
    with pytest.raises(ClaimError):
        verify(GRAPH, false)
    (tmp_path / "plan.json").write_text(json.dumps(false), encoding="utf-8")
    for graph in source(), GRAPH:
        with pytest.raises(ClaimError):
            Plan.load(tmp_path / "plan.json", graph)


def test_an_overhead_budget_is_kept_to_the_unit():
    for more in (0.5, -0.5):  # one unit of compute apart: the limit is rounded down
        budget = {"memory": "85%", "overhead": f"{100 * (PLAN.overhead + more) / GRAPH.needed_compute:.6f}%"}
        if more > 0:
            verify(GRAPH, record(budget=budget))
        else:
            with raises(ClaimError, claimed=PLAN.overhead - 1, found=PLAN.overhead):
                verify(GRAPH, record(budget=budget))


def test_a_bound_may_be_what_is_computed_but_no_more(plant):
    for scope in ("canonical", "chain", "fixed order"):
        plant(another, optimal_in=scope)
        claim = {"bound_scope": scope, "bound_source": "another", "gap": None, "details": {}}
        with raises(ClaimError, by=["another"], within=" within 30 s"):
            verify(GRAPH, record(bound=PLAN.simulation.compute, **claim))
        with raises(ClaimError, claimed=PLAN.simulation.compute + 1, found=PLAN.simulation.compute):
            verify(GRAPH, record(bound=PLAN.simulation.compute + 1, **claim))


@given(data=st.data(), graph=training_graphs(max_nodes=14))
def test_no_number_can_be_changed_unnoticed(data, graph):
    plan = solve(graph, "100%")
    name = data.draw(st.sampled_from(NUMBERS))
    lie = data.draw(st.integers(0, 10**6))
    lie += lie >= plan.record()[name]  # any number but the true one
    with raises(ClaimError, name=name, claimed=lie, found=plan.record()[name]):
        verify(graph, {**plan.record(), name: lie})


@pytest.mark.parametrize(
    "changes",
    [
        {"memory": [31, 40, 4, 40, 20, 6, 10, 1]},
        {"compute": [26, 10, 15, 30, 5, 5]},
        {"once": [True, False, False, True, False, False]},
        {"labels": Labels(names=("c", "norm", "relu", "drop", "sum", "loss"), value_names={2: "statistics"})},
        {"mark": [1, 0, 0, 0, 0, 0]},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_a_plan_for_another_graph_is_refused(changes):
    other = replace(source(), **changes)
    for graph in other, differentiate(other, parameter_gradients=True):
        with raises(PlanError, record=source().hash[:12], source_hash=graph.source_hash[:12]):
            verify(graph, PLAN)


KINDS_OF_RUBBISH = {
    **{f"no {name}": lambda made, name=name: made.pop(name) for name in KEYS if name not in OPTIONAL},
    "another format": {"format": "remat-graph"},
    "a later version": {"version": 2},
    "a version that is true": {"version": True},
    "a hash that is a number": {"graph_hash": 7},
    "differentiate is a list": {"differentiate": []},
    "unknown options of differentiate": {"differentiate": {"speed": 2}},
    "a negative factor": {"differentiate": {"factor": -1}},
    "a factor beyond all bounds": {"differentiate": {"factor": 1e300}},
    "a factor that is text": {"differentiate": {"factor": "2"}},
    "a loss that is not there": {"differentiate": {"loss": ["nobody"]}},
    "a loss that is a number": {"differentiate": {"loss": 3}},
    "solver is null": {"solver": None},
    "method is a number": {"method": 1},
    "options are a list": {"options": []},
    "budget is a number": {"budget": 3},
    "unknown budget": {"budget": {"money": 3}},
    "a budget that is a float": {"budget": {"memory": 0.5}},
    "a budget that is negative": {"budget": {"memory": -1}},
    "a budget that is not a size": {"budget": {"memory": "much"}},
    "a budget that is a list": {"budget": {"memory": [1]}},
    "a device budget that is a share": {"budget": {"device": "5%"}},
    "an overhead that is not a number": {"budget": {"overhead": "much"}},
    "an overhead by zero": {"budget": {"overhead": "1/0"}},
    "limit is text": {"limit": "3"},
    "limit is true": {"limit": True},
    "schedule is text": {"schedule": "abc"},
    "schedule of fractions": {"schedule": [0.5]},
    "schedule of truths": {"schedule": [True]},
    "schedule of lists": {"schedule": [[0]]},
    "schedule of ids beyond int32": {"schedule": [2**31]},
    "schedule of names and ids": {"schedule": ["conv", 1]},
    **{f"{name} is text": {name: "1"} for name in NUMBERS},
    **{f"{name} is a fraction": {name: record()[name] + 0.5} for name in NUMBERS},
    **{f"{name} is true": {name: True} for name in NUMBERS},
    "bound is a float": {"bound": 1.5},
    "scope is a number": {"bound_scope": 1},
    "source is a number": {"bound_source": 1},
    "gap is text": {"gap": "0"},
    "compute unit is null": {"compute_unit": None},
    "seconds is text": {"seconds": "1"},
    "details are a number": {"details": 5},
}


@pytest.mark.parametrize("rubbish", KINDS_OF_RUBBISH.values(), ids=KINDS_OF_RUBBISH)
def test_a_malformed_record_is_no_plan(tmp_path, rubbish):
    made = record()
    if callable(rubbish):
        rubbish(made)
    else:
        made.update(rubbish)
    with pytest.raises(PlanError) as error:
        verify(source(), made)
    assert "\n" not in str(error.value)
    (tmp_path / "plan.json").write_text(json.dumps(made), encoding="utf-8")
    with pytest.raises(PlanError):
        Plan.load(tmp_path / "plan.json", source())


FILES = {
    "nothing": b"",
    "blanks": b"  \n",
    "half of it": PLAN.text().encode()[:200],
    "a list": b"[1, 2]",
    "a number": b"3",
    "no JSON": b"node,memory\n1,2\n",
    "binary": bytes(range(256)),
    "UTF-16": PLAN.text().encode("utf-16"),
    "too deep": b"[" * 100_000,
    "a number too long": b'{"limit": ' + b"9" * 10_000 + b"}",
    "a graph": to_json(nameless(3)).encode(),
}


@pytest.mark.parametrize("content", FILES.values(), ids=FILES)
def test_a_file_that_is_no_plan_is_told_so(tmp_path, content):
    (tmp_path / "plan.json").write_bytes(content)
    for read in (lambda path: Plan.load(path, GRAPH)), (lambda path: verify(GRAPH, path)):
        with pytest.raises(PlanError) as error:
            read(tmp_path / "plan.json")
        assert "\n" not in str(error.value)
        assert str(tmp_path / "plan.json") in str(error.value) or "plan" in str(error.value)


def test_a_cut_file_says_where_it_ends(tmp_path):
    (tmp_path / "plan.json").write_text(PLAN.text()[:100], encoding="utf-8")
    with raises(PlanError, name="plan.json"):
        verify(GRAPH, tmp_path / "plan.json")


def test_a_missing_file_is_named(tmp_path):
    missing = tmp_path / "nowhere.json"
    for path in (missing, tmp_path):
        with pytest.raises(PlanError, match=re.escape(str(path))):
            verify(GRAPH, path)


# ---------------------------------------------------------------- in words


def test_a_plan_says_who_made_it_what_it_holds_and_what_it_costs():
    text = str(PLAN)
    tried = PLAN.report.tried
    assert 0 < tried <= sum(solver.needs(GRAPH) is None for solver in default_solvers())
    assert text.startswith(f"best plan: {PLAN.method} ({tried} solvers tried)\n")
    share = 100 * PLAN.peak_memory / baseline_peak(GRAPH)
    assert f"peak         {PLAN.peak_memory} B, limit {PLAN.limit} B\n" in text
    assert f"{share:.1f} % of the peak without rematerialization, {baseline_peak(GRAPH)} B\n" in text
    assert f"resident     111 B; with the peak {PLAN.peak_memory + 111} B\n" in text
    overhead = 100 * PLAN.overhead / GRAPH.needed_compute
    assert f"compute      {PLAN.simulation.compute / 10:g} ms, {overhead:.1f} % more than one pass" in text
    again = int((PLAN.simulation.runs > 1).sum())
    extra = len(PLAN.schedule) - int((PLAN.simulation.runs > 0).sum())
    assert f"{len(PLAN.schedule)} steps; {again} nodes recomputed ({extra} extra runs)" in text
    extra = 100 * (PLAN.bound.amount - GRAPH.needed_compute) / GRAPH.needed_compute
    overheads = PLAN.report.overheads
    assert overheads[PLAN.method] == PLAN.overhead == min(overheads.values())
    second = next(name for name in overheads if name != PLAN.method)
    assert f"others       {second} {100 * overheads[second] / GRAPH.needed_compute:.1f} %, " in text
    assert (
        f"lower bound  {PLAN.bound.source} ({PLAN.bound.amount / 10:g} ms, {extra:.1f} % more than one pass); " in text
    )
    plan = solve(GRAPH, "95%", solver="chen_sqrt", effort="fast")
    extra = 100 * (plan.bound.amount - GRAPH.needed_compute) / GRAPH.needed_compute
    closure = f"closure ({plan.bound.amount / 10:g} ms, {extra:.1f} % more than one pass)"
    assert f"lower bound {closure}; this plan is {100 * plan.gap:.1f} % above it" in " ".join(str(plan).split())


def test_a_plan_without_a_limit_a_resident_or_another_solver_says_none_of_it():
    plan = solve(nameless(), solver="no_remat")
    text = str(plan)
    assert text.startswith("plan: no_remat\n")
    assert "limit" not in text
    assert "resident" not in text
    assert "tried" not in text
    assert f"lower bound  one pass ({plan.simulation.compute}); optimal: no schedule computes less" in text


def test_a_plan_that_gains_by_order_alone_says_so():
    """x and y are large, p and q, made of them, small: x, p, y, q holds 9 at once, x, y, p, q 17."""
    graph = ComputationGraph.from_edges([(0, 2), (1, 3), (2, 4), (3, 4)], memory=[8, 8, 1, 1, 1])
    plan = solve(graph, "least")
    assert (baseline_peak(graph), plan.peak_memory, plan.overhead) == (17, 10, 0)
    assert reordered(plan)
    assert "schedule     5 steps; reordered, no node recomputed" in str(plan)
    alone = solve(graph, solver="no_remat")
    assert not reordered(alone)
    assert "schedule     5 steps; no node recomputed" in str(alone)


def test_a_bound_names_its_source(plant, tmp_path):
    """One pass, if no solver knows better; else the solver, also in a file."""
    plan = solve(GRAPH, "100%", solver="chen_sqrt")
    assert (plan.bound.amount, plan.bound.source) == (GRAPH.needed_compute, "one pass")

    def bounded(graph, task, clock):
        order = [*baseline(graph).schedule.order.tolist(), 0]
        yield Candidate(Schedule(order), bound=graph.needed_compute + 5, scope="any order")

    plant(bounded, optimal_in="any order")
    plan = solve(GRAPH, 10**4, solver="bounded", raw=True)
    assert (plan.bound.source, plan.record()["bound_source"]) == ("bounded", "bounded")
    share = 100 * 5 / GRAPH.needed_compute
    bound = f"bounded ({(GRAPH.needed_compute + 5) / 10:.3g} ms, {share:.1f} % more than one pass); this plan is"
    assert bound in str(plan)
    plan.save(tmp_path / "plan.json")
    assert Plan.load(tmp_path / "plan.json", GRAPH).bound.source == "bounded"


def test_large_sizes_are_said_twice():
    text = str(solve(ComputationGraph.from_edges([(0, 1)], memory=[10**9, 5 * 10**8]), "100%"))
    assert "1.4 GiB (1,500,000,000 bytes), limit 1.4 GiB\n             100.0 % of the peak" in text


@pytest.mark.parametrize("scope", ["fixed order", "canonical", "chain"])
def test_a_bound_of_a_smaller_class_stands_beside_that_of_any_order(plant, tmp_path, scope):
    def bounded(graph, task, clock):
        order = [*baseline(graph).schedule.order.tolist(), 0]
        yield Candidate(Schedule(order), bound=graph.needed_compute + 25, scope=scope)

    plant(bounded, optimal_in=scope)
    plan = solve(GRAPH, 10**4, solver="bounded", raw=True)
    assert (plan.bound.amount, plan.bound.scope, plan.bound.source) == (GRAPH.needed_compute, "any order", "one pass")
    assert plan.gap == 25 / GRAPH.needed_compute
    assert (plan.narrower.amount, plan.narrower.scope) == (GRAPH.needed_compute + 25, scope)
    assert plan.record()["details"]["narrower_bound"] == {"bound": GRAPH.needed_compute + 25, "scope": scope}
    line = " ".join(str(plan).partition("lower bound  ")[2].split())
    assert "above it of " in line
    assert line.endswith(f" {(GRAPH.needed_compute + 25) / 10:.3g} ms; none of them computes less")
    plan.save(tmp_path / "plan.json")
    same(Plan.load(tmp_path / "plan.json", GRAPH), plan)


def test_a_bound_of_any_order_makes_the_gap(plant):
    def bounded(graph, task, clock):
        order = [*baseline(graph).schedule.order.tolist(), 0]
        yield Candidate(Schedule(order), {"tried": 3}, bound=graph.needed_compute + 5, scope="any order")

    plant(bounded, optimal_in="any order")
    plan = solve(GRAPH, 10**4, solver="bounded", raw=True)
    assert plan.gap == 20 / (GRAPH.needed_compute + 5)
    assert plan.details == {"tried": 3}
    assert (plan.report.simulated, plan.report.stop) == (1, Stop.DONE)


def test_a_graph_without_cost_has_no_gap_to_speak_of():
    plan = solve(differentiate(ComputationGraph.from_edges([(0, 1)], compute=0)), "100%")
    assert (plan.bound.amount, plan.gap) == (0, 0.0)
    assert "no schedule computes less" in str(plan)


# ---------------------------------------------------------------- budgets


def peaks_and_overheads(graph):
    """(peak, overhead) of all plans of all methods that auto asks."""
    orders = [found.schedule.order for solver in default_solvers() for found in list_candidates(graph, solver.name)]
    simulations = [slow_simulation(graph, order) for order in orders]
    return [(each.peak, each.overhead) for each in simulations]


with shorter():
    POINTS = peaks_and_overheads(GRAPH)
BASE = baseline_peak(GRAPH)


@pytest.mark.parametrize("share", range(60, 121, 10))
def test_a_memory_budget_is_kept_at_the_least_overhead(share):
    limit = BASE * share // 100
    within = [overhead for peak, overhead in POINTS if peak <= limit]
    if not within:
        with pytest.raises(BudgetError) as error:
            solve(GRAPH, f"{share}%", raw=True)
        assert error.value.reached == min(POINTS)[0]
        return
    for budget in f"{share}%", limit, f"{limit} B", Budget(memory=limit), Budget(device=limit + 111):
        plan = solve(GRAPH, budget, raw=True)
        assert plan.limit == limit
        assert plan.peak_memory <= limit
        assert plan.overhead == min(within)
    assert solve(GRAPH, limit).overhead <= plan.overhead


@pytest.mark.parametrize("share", [0, 1, 5, 10, 20, 50, 100])
def test_an_overhead_budget_is_kept_at_the_lowest_peak(share):
    most = GRAPH.needed_compute * share // 100
    for budget in Budget(overhead=f"{share}%"), Budget(memory="least", overhead=f"{share}%"):
        plan = solve(GRAPH, budget, raw=True)
        assert plan.limit is None
        assert plan.overhead <= most
        assert plan.peak_memory == min(peak for peak, overhead in POINTS if overhead <= most)


def test_an_overhead_in_the_unit_of_the_file_is_scaled():
    free = min(peak for peak, overhead in POINTS if not overhead)
    least = min(overhead for peak, overhead in POINTS if peak < free)
    assert solve(GRAPH, Budget(overhead=f"{least / 10}"), raw=True).overhead == least
    assert solve(GRAPH, Budget(overhead=-(-least // 10)), raw=True).overhead >= least
    assert solve(GRAPH, Budget(overhead=f"{(least - 1) / 10}"), raw=True).overhead == 0


@pytest.mark.parametrize("memory", [75, 85, 95])
@pytest.mark.parametrize("overhead", [0, 10, 40, 100])
def test_of_two_budgets_both_hold_at_the_least_overhead(memory, overhead):
    budget = Budget(memory=f"{memory}%", overhead=f"{overhead}%")
    limit, most = BASE * memory // 100, GRAPH.needed_compute * overhead // 100
    within = [extra for peak, extra in POINTS if peak <= limit and extra <= most]
    if within:
        plan = solve(GRAPH, budget, raw=True)
        assert (plan.limit, plan.overhead) == (limit, min(within))
        assert plan.peak_memory <= limit
    else:
        with pytest.raises(BudgetError):
            solve(GRAPH, budget)


def test_a_device_smaller_than_the_residents_is_an_infeasible_budget():
    for device in 0, 110:
        with raises(BudgetError, device=device, residents=111) as error:
            solve(GRAPH, Budget(device=device))
        assert error.value.reached in [peak for peak, _ in POINTS]
    with raises(BudgetError, limit=0):
        solve(GRAPH, Budget(device=111))


def test_no_budget_and_the_least_give_the_lowest_peak():
    lowest = min(POINTS)
    for budget in None, Budget(), "least", " Least ":
        plan = solve(GRAPH, budget)
        assert plan.limit is None
        assert plan.method != "no_remat"
        assert lowest[0] <= plan.peak_memory < BASE
    assert (plan.peak_memory, plan.overhead) == lowest


def test_least_within_a_device_keeps_to_the_device():
    plan = solve(GRAPH, Budget(memory="least", device=BASE + 111))
    assert (plan.limit, plan.peak_memory) == (BASE, min(POINTS)[0])
    with pytest.raises(BudgetError):
        solve(GRAPH, Budget(memory="least", device=min(POINTS)[0] + 110))


def test_too_little_overhead_says_what_was_reached():
    lowest, overhead = min(POINTS)
    with raises(BudgetError, allowed="0.1 ms", lowest=f"{overhead / 10:g} ms"):
        solve(GRAPH, Budget(memory=lowest, overhead="0.1"))


def test_an_infeasible_budget_says_what_was_reached_and_what_forces_it():
    with raises(BudgetError, limit=1, reached=min(POINTS)[0]) as error:
        solve(GRAPH, 1)
    assert error.value.nodes == ()  # all results together force it


@pytest.mark.parametrize(
    ("budget", "solver"), [(1, "auto"), (1, "drop_cheap"), (Budget(overhead="0.1", memory=5), "auto")]
)
def test_an_infeasible_budget_comes_with_the_plan_of_the_lowest_peak(budget, solver):
    with pytest.raises(BudgetError) as error:
        solve(GRAPH, budget, solver=solver)
    plan = error.value.plan
    assert plan.peak_memory == error.value.reached == slow_simulation(GRAPH, plan.schedule.order).peak
    assert (plan.solver, plan.limit, plan.budget) == (solver, None, Budget(memory="least"))
    assert verify(GRAPH, json.loads(plan.text())).peak_memory == plan.peak_memory
    assert plan.bound.amount <= plan.simulation.compute


WHOLE = {
    "float": float,
    "np.float32": np.float32,
    "np.int16": np.int16,
    "np.uint64": np.uint64,
}


@pytest.mark.parametrize("kind", WHOLE.values(), ids=WHOLE)
def test_whole_numbers_of_any_type_are_options(kind):
    asked = solve(GRAPH, solver="chen_sqrt", segments=kind(2), seed=kind(3))
    plain = solve(GRAPH, solver="chen_sqrt", segments=2, seed=3)
    assert asked.schedule.order.tolist() == plain.schedule.order.tolist()
    assert asked.record()["options"] == {"segments": 2}
    assert type(asked.options["segments"]) is int
    for solver, option in (("greedy_remat", "max_block"), ("twremat", "orders"), ("approximate_dp", "cap")):
        known = registry.get_solver(solver).options
        if option in known:
            solve(GRAPH, solver=solver, **{option: kind(4)})


# ---------------------------------------------------------------- searches for budgets that solvers do not know


def stairs(calls):
    """A solver of three plans: the less memory, the more nodes are recomputed."""
    found = sorted({(p, o, tuple(order)) for p, o, order in of_chain(differentiate(nameless()))})

    def climbing(graph, task, clock):
        calls.append(task.limit)
        for peak, _, order in found:
            yield Candidate(Schedule(order), {"peak": peak})

    return climbing, [plan[:2] for plan in found]


def of_chain(graph):
    for k in 1, 2, 3:
        plan = solve(graph, solver="chen_sqrt", segments=k, candidates="all", raw=True, keep_last=True)
        yield plan.peak_memory, plan.overhead, plan.schedule.order.tolist()


@pytest.mark.parametrize("raw", [False, True])
def test_under_an_overhead_a_solver_is_asked_for_its_whole_frontier(plant, raw):
    calls = []
    climbing, points = stairs(calls)
    plant(climbing)
    graph = differentiate(nameless())
    for most in range(max(overhead for _, overhead in points) + 2):
        calls.clear()
        plan = solve(graph, Budget(overhead=most), solver="climbing", raw=raw)
        assert plan.peak_memory == min(peak for peak, overhead in points if overhead <= most)
        assert plan.overhead <= most
        assert plan.method == "no_remat" or plan.details["peak"] == plan.peak_memory
        assert calls == [None]


def test_the_least_is_searched_by_an_impossible_limit(plant):
    calls = []
    climbing, points = stairs(calls)
    plant(climbing)
    graph = differentiate(nameless())
    for budget in None, "least":
        plan = solve(graph, budget, solver="climbing")
        assert (plan.peak_memory, plan.overhead) == min(points)
    assert calls == [least_peak_bound(graph)[0], min(points)[0]] * 2  # then for the bytes that were reached


# ---------------------------------------------------------------- compare


def test_compare_has_an_entry_for_every_solver_the_cheapest_first():
    comparison = compare(GRAPH, "85%")
    assert {entry.solver for entry in comparison.entries} == {solver.name for solver in default_solvers()}
    fit = [entry for entry in comparison.entries if entry.plan is not None]
    rest = comparison.entries[len(fit) :]
    assert fit
    assert [entry.plan.simulation.compute for entry in fit] == sorted(e.plan.simulation.compute for e in fit)
    assert all(entry.plan is None and entry.reason for entry in rest)
    assert [entry.reached for entry in rest] == sorted(entry.reached for entry in rest)
    for entry in fit:
        alone = solve(GRAPH, "85%", solver=entry.solver, raw=True, polish=True)
        if not registry.get_solver(entry.solver).improves:  # which prove what others found
            assert entry.plan.schedule.order.tolist() == alone.schedule.order.tolist()
        assert entry.plan.simulation.compute <= alone.simulation.compute
        assert entry.plan.method == entry.solver


def test_compare_shows_what_each_solver_can_do_itself(plant):
    def twice(graph, task, clock):
        order = baseline(graph).schedule.order.tolist()
        yield Schedule([order[0], *order])

    plant(twice)
    entry = compare(GRAPH, solvers=["twice"], polish=False).entries[0]
    assert entry.plan.overhead == 25


def test_compare_says_why_there_is_no_plan(plant):
    def unsound(graph, task, clock):
        yield Schedule([])

    plant(unsound)
    comparison = compare(GRAPH, 1, solvers=["no_remat", "unsound", "chen_sqrt"])
    assert [entry.solver for entry in comparison.entries] == ["chen_sqrt", "no_remat", "unsound"]
    assert [entry.reached is None for entry in comparison.entries] == [False, False, True]
    assert comparison.entries[1].reached == BASE
    assert "never computed" in comparison.entries[2].reason
    forward = compare(source(), "100%", solvers=["chen_sqrt"])
    assert "call differentiate(graph) first" in forward.entries[0].reason


def test_a_comparison_is_rows_and_a_record():
    comparison = compare(GRAPH, "85%")
    rows_ = list(comparison.rows())
    entries = comparison.entries
    assert [row[0] for row in rows_] == [each.solver for each in entries if each.plan or each.reached is not None]
    assert {len(row) for row in rows_} == {len(comparison.columns)}
    made = json.loads(json.dumps(comparison.record()))
    assert made["budget"] == {"memory": "85%", "overhead": None, "device": None}
    assert made["graph_hash"] == source().hash
    assert (made["peak_without_rematerialization"], made["resident_memory"]) == (BASE, 111)
    for entry, told in zip(comparison.entries, made["solvers"], strict=True):
        assert (told["solver"], told["feasible"]) == (entry.solver, entry.plan is not None)
        if entry.plan is not None:
            shared = set(told) & set(KEYS) - {"solver"}
            assert {"peak_memory", "compute", "overhead", "bound", "gap", "seconds"} <= shared
            assert {name: told[name] for name in shared} == {name: entry.plan.record()[name] for name in shared}
        else:
            assert (told["reason"], told["reached"]) == (entry.reason, entry.reached)


def test_rows_show_shares_of_the_base_and_of_one_pass():
    comparison = compare(GRAPH, "85%")
    cells = {row[0]: dict(zip(comparison.columns, row, strict=True)) for row in comparison.rows()}
    assert cells["no_remat"]["of base"] == "100.0 %"
    assert any("no_remat" in note and note.endswith(": does not fit") for note in comparison.notes())
    plan = comparison.entries[0].plan
    assert cells[plan.method]["of base"] == f"{100 * plan.peak_memory / BASE:.1f} %"
    assert cells[plan.method]["with residents"] == f"{plan.peak_memory + 111} B"
    assert cells[plan.method]["overhead"] == f"{100 * plan.overhead / GRAPH.needed_compute:.1f} %"


def test_an_empty_graph_has_an_empty_plan():
    empty = ComputationGraph.from_edges([])
    plan = solve(empty, 0)
    assert (len(plan.schedule), plan.peak_memory, plan.gap) == (0, 0, 0.0)
    assert verify(empty, plan).compute == 0
    assert "0 steps" in str(plan)
    assert compare(empty).entries[0].solver == "no_remat"


# ---------------------------------------------------------------- the report


def test_a_report_is_written_and_read():
    full = SearchReport(3, {"echo": 1}, {"echo": 2}, 4, {"too long": 1}, Stop.INTERRUPTED, ("echo",))
    failed = replace(full, stop=Stop.FAILED, out_of_memory=())
    assert full.record().keys() | failed.record().keys() == DETAILS.keys()  # by which it is checked
    assert SearchReport.claimed(failed.record()).record() == failed.record()
    assert SearchReport.claimed(full.record()).record() == full.record()
    assert SearchReport().record() == {}
    assert SearchReport(simulated=0).record() == {"simulated": 0, "complete": True}
