"""The plan cache: which graphs share a plan, which do not, and that each file is verified."""

import json
import os
import shutil
from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings

import remat_algos as ra
from remat_algos.cache_folder import cache_folder
from remat_algos.context import Stop
from remat_algos.ir.parts import Labels, Resident
from remat_algos.plan.record import SearchReport
from remat_algos.search import plan_cache
from remat_algos.search.plan_cache import solve_cached
from remat_algos.search.solve import answered as solve_anew
from remat_algos.zoo.registry import build
from tests.strategies import graphs

pytestmark = pytest.mark.usefixtures("short_searches")


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    """The cache folder of the test."""
    monkeypatch.setenv("REMAT_CACHE_DIR", str(tmp_path))
    cache_folder.cache_clear()
    yield tmp_path / "plans"
    cache_folder.cache_clear()


@pytest.fixture
def solved(monkeypatch):
    """The arguments of each solve that the cache did not save."""
    calls = []

    def answered(request, clock, lowest=None):
        calls.append(request)
        return solve_anew(request, clock)

    monkeypatch.setattr(plan_cache, "answered", answered)
    return calls


def training(names=None, resident=None):
    chain = ra.differentiate(ra.ComputationGraph.from_edges([(i, i + 1) for i in range(8)]))
    return replace(chain, labels=Labels(names=names), resident=resident, derivation=None)


def residents(graph, sizes):
    indptr = [0] * (graph.n_nodes + 1)
    return Resident(sizes, [0] * len(sizes), indptr, [], tuple(f"w{k}" for k in range(len(sizes))))


def backwards(graph):
    """The same graph, in which each node reads in the opposite order."""
    rows = [graph.reads(v)[::-1] for v in range(graph.n_nodes)]
    return replace(graph, read_indices=[x for row in rows for x in row])


@pytest.mark.parametrize("swapped", [False, True])
def test_names_residents_and_the_order_of_reads_may_differ(solved, tmp_path, swapped):
    graph = training()
    named = training(tuple(f"layer {v}" for v in range(graph.n_nodes)), residents(graph, [512, 8]))
    one, other = (backwards(graph), named) if swapped else (named, backwards(graph))
    first, again = solve_cached(one, "70%", effort="fast"), solve_cached(other, "70%", effort="fast")
    assert len(solved) == 1
    assert again.graph is other
    assert str(again.budget) == "memory 70%"
    assert again.schedule.order.tolist() == first.schedule.order.tolist()
    assert (again.limit, again.bound.amount, again.method) == (first.limit, first.bound.amount, first.method)
    assert again.bound.source == "closure"
    again.save(tmp_path / "plan.json")
    ra.verify(other, tmp_path / "plan.json")


def test_equal_limits_share_a_plan(solved):
    graph = training()
    plan = solve_cached(graph, "70%")
    assert solve_cached(graph, plan.limit).limit == plan.limit
    assert solve_cached(graph, ra.Budget(device=plan.limit)).limit == plan.limit
    heavier = replace(graph, resident=residents(graph, [100]))
    assert solve_cached(heavier, ra.Budget(device=plan.limit + 100)).limit == plan.limit
    assert len(solved) == 1


def test_a_graph_that_updates_its_residents_is_not_the_one_without(solved):
    """Nodes that read a parameter must not run after its update: such a plan is of that graph alone."""
    graph = build("feed_forward", depth=2, optimizer="sgd").graph
    for other in (replace(graph, resident=None, derivation=None), graph):
        assert solve_cached(other, "90%", effort="fast").graph is other
    assert len(solved) == 2


@pytest.mark.parametrize(
    ("change", "options"),
    [
        ({}, {"budget": "60%"}),
        ({}, {"budget": "least"}),
        ({}, {"budget": ra.Budget(memory="70%", overhead="50%")}),
        ({}, {"solver": "chen_sqrt"}),
        ({}, {"effort": "fast"}),
        ({"mark": [1] + [0] * 17}, {}),
        ({"once": [True] + [False] * 17}, {}),
        ({"compute": [2] * 18}, {}),
        ({"labels": Labels(ops=("conv",) + ("relu",) * 17)}, {}),
        ({"labels": Labels(compute_scale=2)}, {}),
    ],
    ids=str,
)
def test_another_question_is_solved_anew(solved, change, options):
    graph = training()
    solve_cached(graph, "70%")
    solve_cached(replace(graph, **change), **{"budget": "70%", **options})
    assert len(solved) == 2


def garbage(file, record):
    file.write_text("{")


def changed(**changes):
    """Writes a record with other entries, which may follow from those that it has."""

    def damage(file, record):
        made = {name: change(record) if callable(change) else change for name, change in changes.items()}
        file.write_text(json.dumps(record | made))

    return damage


def no_text(file, record):
    file.write_bytes(bytes(range(256)))


def other_budget(file, record):
    solve_cached(training(), "80%")
    (other,) = set(file.parent.iterdir()) - {file}
    other.rename(file)


def missing(file, record):
    file.unlink()


DAMAGES = {
    "garbage": garbage,
    "no text": no_text,
    "missing": missing,
    "another budget": other_budget,
    "another solver": changed(solver="greedy_remat"),
    "another order": changed(schedule=lambda record: record["schedule"][::-1]),
    "a larger bound": changed(bound=lambda record: record["bound"] + 1),
    "no numbers": changed(seconds="NaN", budget={"memory": [], "device": {}}),
    "an unknown source": changed(
        bound=lambda record: record["compute"], gap=0.0, bound_source="oracle of delphi", details={}
    ),
    "no source": changed(bound_source=None),
    "an impossible time": changed(seconds=float("nan")),
    "impossible overheads": changed(details=lambda record: record["details"] | {"overheads": {"chen_sqrt": -1}}),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_file_is_verified(solved, folder, damage):
    graph = training()
    first = solve_cached(graph, "70%")
    (file,) = folder.iterdir()
    damage(file, json.loads(file.read_text()))
    solved.clear()
    again = solve_cached(graph, "70%")
    assert len(solved) == 1
    for name in ("peak_memory", "overhead", "bound"):
        assert again.record()[name] == first.record()[name]
    solve_cached(graph, "70%")
    assert len(solved) == 1  # it was written again


@pytest.mark.parametrize("asked", ["before", "after"])
def test_no_plan_is_worse_than_a_cached_one_for_a_lower_limit(monkeypatch, asked):
    graph = training()
    strict, loose = ra.solve(graph, "70%"), ra.solve(graph, "60%")
    assert strict.overhead < loose.overhead
    worse = replace(loose, budget=ra.Budget("90%"), limit=9 * ra.solve(graph, "100%").limit // 10)
    answers = {"70%": strict, "90%": worse}
    monkeypatch.setattr(plan_cache, "answered", lambda request, clock, lowest=None: answers[request.budget.memory])
    for budget in ["90%", "70%"] if asked == "before" else ["70%"]:
        solve_cached(graph, budget)
    plan = solve_cached(graph, "90%")
    assert (plan.overhead, plan.limit) == (strict.overhead, worse.limit)
    assert plan.bound.amount == worse.bound.amount


def test_a_stopped_search_is_not_cached(monkeypatch, folder):
    graph = training()
    stopped = replace(ra.solve(graph, "70%"), report=SearchReport(stop=Stop.DEADLINE))
    monkeypatch.setattr(plan_cache, "answered", lambda request, clock, lowest=None: stopped)
    assert solve_cached(graph, "70%") is stopped
    assert not list(folder.iterdir())


def test_without_a_folder_every_graph_is_solved(solved, tmp_path, monkeypatch):
    monkeypatch.setenv("REMAT_CACHE_DIR", str(tmp_path / "file"))
    (tmp_path / "file").touch()
    cache_folder.cache_clear()
    with pytest.warns(RuntimeWarning, match="plans are not kept: "):
        solve_cached(training(), "70%")
    solve_cached(training(), "70%")
    assert len(solved) == 2


def test_the_least_recently_used_plans_are_removed(monkeypatch, folder, solved):
    monkeypatch.setattr("remat_algos.search.tuning.MAX_PLANS", 2)
    graph = training()
    for place, budget in enumerate(("90%", "80%")):
        before = set(folder.glob("*"))
        solve_cached(graph, budget)
        (file,) = set(folder.iterdir()) - before
        os.utime(file, (place, place))
    solve_cached(graph, "90%")  # used, so it stays
    solve_cached(graph, "70%")
    assert len(list(folder.iterdir())) == 2
    solve_cached(graph, "90%")
    assert len(solved) == 3
    solve_cached(graph, "80%")
    assert len(solved) == 4


def test_a_folder_that_cannot_be_touched_is_read(monkeypatch, solved):
    def utime(*args):
        raise PermissionError("read-only")

    solve_cached(training(), "70%")
    monkeypatch.setattr(os, "utime", utime)
    solve_cached(training(), "70%")
    assert len(solved) == 1


def test_a_folder_that_was_removed_is_made_again(folder, solved):
    for _ in range(2):
        solve_cached(training(), "70%")
        shutil.rmtree(folder)
    solve_cached(training(), "70%")
    solve_cached(training(), "70%")
    assert len(solved) == 3


def test_plans_of_a_users_solver_are_not_cached(monkeypatch, solved, folder):
    monkeypatch.setattr(plan_cache, "list_solvers", lambda: [SimpleNamespace(function=training)])
    for _ in range(2):
        solve_cached(training(), "70%")
    assert len(solved) == 2
    assert not folder.exists()


def test_a_budget_below_the_floor_is_refused_each_time(solved):
    for _ in range(2):
        with pytest.raises(ra.BudgetError):
            solve_cached(training(), 1, effort="fast")
    assert len(solved) == 2


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(graphs())
def test_the_plan_from_the_cache_equals_the_one_found(graph):
    first = solve_cached(graph, "least", effort="fast")
    again = solve_cached(graph, "least", effort="fast")
    assert again.schedule.order.tolist() == first.schedule.order.tolist()
    carried = {"details": again.details, "report": again.report, "narrower": None, "solver_peak_bound": None}
    assert again.record() | {"seconds": 0} == replace(first, **carried, seconds=0).record()


def test_a_cached_plan_says_no_more_than_its_file(folder):
    graph = training()
    fresh, cached = solve_cached(graph, "70%"), solve_cached(graph, "70%")
    assert "solvers tried" in str(fresh)
    assert "solvers tried" not in str(cached)
    assert "\nnot checked  tried: " in str(cached)
    assert (fresh.loaded, cached.loaded, cached.bound.proven) == (False, True, True)
