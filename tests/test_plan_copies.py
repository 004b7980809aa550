"""Plans with a link in files, and in everything else that takes a plan or a schedule."""

import json
import math
import pickle
import re
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest

import remat_algos as ra
from remat_algos.allocate.allocation import Buffers
from remat_algos.allocate.allocators import get_allocator, list_allocators
from remat_algos.allocate.in_place import find_overwrites
from remat_algos.bounds.bound import SOURCES, TIME
from remat_algos.bounds.moments import moment_bound
from remat_algos.cli.main import main
from remat_algos.cost.links import Link
from remat_algos.errors import ClaimError, PlanError
from remat_algos.formats.orders import read_order
from remat_algos.ir.parts import KEEP, Labels
from remat_algos.plan.plan import Plan, read_plan
from remat_algos.plan.record import LINK_KINDS
from remat_algos.plan.verify import verify
from remat_algos.questions.breakdown import breakdown
from remat_algos.questions.explain import offload_of
from remat_algos.questions.what_if import what_if
from remat_algos.schedule.polishing import drop_dead_runs, polish, reuse_values, sink_runs
from remat_algos.schedule.schedule import Schedule, with_copies
from remat_algos.schedule.simulation import simulate
from remat_algos.schedule.timeline import timeline
from remat_algos.schedule.views import live_set, unroll
from remat_algos.search.plan_cache import solve_cached
from tests.oracles import copies
from tests.raising import raises

pytestmark = pytest.mark.usefixtures("short_searches")

LINK = Link(1e9, 2e9, 0, 10**6, "slow", share=1)


def timed():
    """A chain and its gradients: 100 ns a node, 1,000 bytes a value."""
    chain = ra.ComputationGraph.from_edges([(f"v{i}", f"v{i + 1}") for i in range(8)], memory=1000, compute=100)
    return ra.differentiate(replace(chain, labels=replace(chain.labels, compute_unit="ns")))


GRAPH = timed()
NAMELESS = replace(GRAPH, labels=Labels(compute_unit="ns"), derivation=None)


def planned(
    graph=GRAPH, loads=((12, "v3"), (15, "v1")), lingering=(("v3", 3, 6),), stores=(), link=LINK, runs_again=True
):
    """A plan of the given copies, which also recomputes v0 for grad(v1)."""
    order = [*range(16), 0, 16, 17] if runs_again else range(18)
    simulation = simulate(graph, with_copies(graph, Schedule(order), loads, lingering, stores))
    plan = ra.solve(graph, "100%", solver="no_remat", raw=True)
    return replace(plan, simulation=simulation, reservation=None, bound_or_search=plan.bound, link=link)


def files(plan, tmp_path):
    plan.save(tmp_path / "plan.json")
    return tmp_path / "plan.json"


# ---------------------------------------------------------------- files


@pytest.mark.parametrize(("graph", "value"), [(GRAPH, str), (NAMELESS, int)])
def test_a_plan_with_copies_comes_back_from_its_file(graph, value, tmp_path):
    plan = ra.solve(graph, "60%", link=Link(1e10, 1e10, 0), effort="fast")
    assert plan.schedule.loads.size
    again = Plan.load(files(plan, tmp_path), graph)
    assert again.text() == plan.text()
    assert again.link == plan.link
    assert again.time == plan.time
    assert again.schedule.loads.tolist() == plan.schedule.loads.tolist()
    assert again.schedule.lingering.tolist() == plan.schedule.lingering.tolist()
    assert verify(graph, plan).host_peak == plan.simulation.host_peak
    assert {type(x) for _, x in plan.record()["loads"]} == {value}


def test_what_lingers_comes_back_too(tmp_path):
    plan = planned()
    again = Plan.load(files(plan, tmp_path), GRAPH)
    assert again.record() == plan.record()
    assert plan.record()["lingering"] == [["v3", 3, 6]]
    assert plan.time > plan.simulation.compute  # compute waits
    assert Plan.load(files(planned(lingering=()), tmp_path), GRAPH).time >= plan.time


def test_a_plan_without_a_link_has_none_of_the_keys():
    assert not LINK_KINDS.keys() & ra.solve(GRAPH, "60%", effort="fast").record().keys()


def test_a_link_without_copies_is_written_and_read(tmp_path):
    plan = ra.solve(GRAPH, "100%", link="pcie5", effort="fast")
    assert plan.record()["loads"] == []
    again = Plan.load(files(plan, tmp_path), GRAPH)
    assert again.link == plan.link
    assert again.bound.proven


def test_the_plan_cache_gives_the_link_of_the_request(tmp_path, monkeypatch):
    monkeypatch.setattr("remat_algos.search.plan_cache.cache_folder", lambda *_: tmp_path)
    first = solve_cached(GRAPH, "60%", effort="fast", link=Link(1e10, 1e10, 0, name="one"))
    second = solve_cached(GRAPH, "60%", effort="fast", link=Link(1e10, 1e10, 0, name="two"))
    assert second.loaded
    assert second.link.name == "two"
    assert second.schedule.loads.tolist() == first.schedule.loads.tolist() != []
    assert second.time == first.time


RECORD = planned().record(frees=True)


# Forged figures of such a plan are in `test_plan_verify_forgeries`.
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"link": {**RECORD["link"], "out": 5e8}}, "claims time"),
        ({"loads": [[2, "v3"], [15, "v1"]]}, "step 2 loads v3 before"),
        ({"loads": [[18, "v3"], [19, "v1"]]}, "v1 is loaded at step 19"),
        ({"loads": [[12, "w"]]}, "the copy at step 12"),
        ({"loads": [[18, "grad(v0)"], *RECORD["loads"]]}, "step 18 loads output grad(v0)"),
        ({"loads": []}, "claims"),
        ({"lingering": []}, "claims"),
        ({"lingering": [["v3", 3, 40]]}, "`lingering` keeps v3 until step 40"),
    ],
)
def test_a_false_claim_about_copies_is_refused(change, words):
    verify(GRAPH, RECORD)
    with pytest.raises(ClaimError, match=re.escape(words)):
        verify(GRAPH, {**RECORD, **change})


FORGED = [None, True, -1, 987_654, 10**30, 0.5, math.nan, "", "x", [], ["x"], [[1]], [[1, 2, 3]], {}, {"x": -1}]


@pytest.mark.parametrize("name", LINK_KINDS)
def test_every_forged_entry_is_refused_in_a_sentence_and_none_is_left_out(name):
    for forged in FORGED:
        if RECORD[name] != forged:
            with pytest.raises((PlanError, ClaimError)) as error:
                verify(GRAPH, {**RECORD, name: forged})
            assert "\n" not in str(error.value)
    with raises(PlanError, name=name):
        verify(GRAPH, {key: entry for key, entry in RECORD.items() if key != name})


@pytest.mark.parametrize("source", SOURCES[TIME])
def test_a_bound_on_time_is_proven_again(source, tmp_path):
    plan = ra.solve(GRAPH, "45%", link=LINK, effort="fast")
    assert plan.bound.source == "minimum cuts with a link"
    assert plan.bound.amount > GRAPH.needed_compute
    if source == "integer program with a link":
        program = moment_bound(GRAPH, plan.limit, plan.bound.nodes, times=LINK.times(GRAPH))
        assert program.amount >= plan.bound.amount
        plan = replace(plan, bound_or_search=program)
    again = read_plan(files(plan, tmp_path), GRAPH, strict=True)
    assert again.bound.proven
    assert again.record() == plan.record()
    assert plan.record()["bound"] < plan.time
    with raises(ClaimError, claimed=plan.time, what="time"):
        verify(GRAPH, plan.record() | {"bound": plan.time, "gap": 0.0})


def test_costs_without_a_unit_are_refused():
    graph = replace(GRAPH, labels=replace(GRAPH.labels, compute_unit=""))
    with pytest.raises(PlanError, match='"link" of the plan does not fit the graph'):
        verify(graph, RECORD)


# ---------------------------------------------------------------- actions


def test_actions_are_written_and_read_back(tmp_path):
    late = [(5, "v1"), (5, "v3")]
    for plan in (planned(), planned(lingering=()), planned(stores=late), planned(stores=late[::-1])):
        plan.save(tmp_path / "actions.txt", "actions")
        _, schedule = read_order(tmp_path / "actions.txt", GRAPH)
        assert schedule.order.tolist() == plan.schedule.order.tolist()
        assert schedule.loads.tolist() == plan.schedule.loads.tolist()
        assert schedule.lingering.tolist() == plan.schedule.lingering.tolist()
        assert schedule.stores.tolist() == plan.schedule.stores.tolist()


def test_random_actions_keep_their_bytes(tmp_path):
    random = Random(3)
    for _ in range(200):
        simulation = simulate(GRAPH, Schedule(*copies.random_copies(random, GRAPH)))
        lines = [f"{deed} {name}\n" for deed, name in simulation.actions(names=True)]
        (tmp_path / "actions.txt").write_text("".join(lines))
        again = simulate(GRAPH, read_order(tmp_path / "actions.txt", GRAPH)[1])
        assert again.memory_trace.tolist() == simulation.memory_trace.tolist()
        assert again.host_trace.tolist() == simulation.host_trace.tolist()
        # a list does not tell which of two equal instances it frees first
        ours, theirs = ([each for each in plan.actions() if each[0] != "free"] for plan in (again, simulation))
        assert ours == theirs
        assert [sorted(freed) for freed in again.frees()] == [sorted(freed) for freed in simulation.frees()]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("store v1\n", ""), "step 15 loads v1, which is never stored"),
        (("load v1\n", ""), "v1 is stored before step 2, but never loaded; remove the store"),
        (
            ("compute v3\nstore v3\n", "store v3\ncompute v3\n"),
            "v3 is stored before step 3, but not computed by then; store it later",
        ),
        (("store v1\n", "store v1\nstore v1\n"), "v1 is stored before step 2 a second time; store it once"),
        (("compute v2\n", "compute v2\nstore v1\n"), "v1 is stored before step 3 a second time; store it once"),
        (("load v1\n", "load w\n"), "the copy at step 15: unknown node 'w'"),
        (("compute v2\n", "free v2\ncompute v2\n"), "v2 is freed before step 2, but it is not in memory"),
    ],
)
def test_actions_that_break_a_law_are_refused(change, sentence, tmp_path):
    text = planned().text("actions")
    assert change[0] in text
    (tmp_path / "a.txt").write_text(text.replace(*change))
    with pytest.raises(ra.ScheduleError) as error:
        read_order(tmp_path / "a.txt", GRAPH)
    assert str(error.value).startswith(f"a.txt: {sentence}")


def test_names_alone_cannot_tell_loads():
    with pytest.raises(PlanError, match="names"):
        planned().text("names")
    assert json.loads(planned().text("frees"))["frees"][12] == RECORD["frees"][12]
    assert planned(loads=(), lingering=()).text("names").startswith("v0\n")


# ---------------------------------------------------------------- the command line


def test_verify_and_simulate_print_time_and_host_bytes(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    plan = planned()
    files(plan, tmp_path)
    ra.write_graph(GRAPH, "graph.json")
    assert main(["verify", "graph.json", "plan.json"]) == 0
    assert "1.95 KiB on the host at most" in " ".join(capsys.readouterr().out.split())
    assert main(["verify", "graph.json", "plan.json", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["host_peak"] == 2000
    assert main(["simulate", "graph.json", "plan.json"]) == 0
    assert "2 values stored (1.95 KiB), 2 loads (1.95 KiB) over slow" in " ".join(capsys.readouterr().out.split())
    assert main(["simulate", "graph.json", "plan.json", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    played = timeline(plan.simulation, LINK)
    assert (record["time"], record["waits"]) == (played.time, int(played.waits.sum()))
    plan.save("actions.txt", "actions")
    assert main(["simulate", "graph.json", "actions.txt"]) == 0
    assert "2 loads; 1.95 KiB on the host at most" in " ".join(capsys.readouterr().out.split())


# ---------------------------------------------------------------- the interpreter of docs/actions.md


def test_the_interpreter_runs_stores_and_loads_within_the_peak():
    page = (Path(__file__).parent.parent / "docs" / "actions.md").read_text("utf-8")
    namespace = {}
    exec(re.search(r"<!-- interpreter -->\n```python\n(.*?)```", page, re.DOTALL)[1], namespace)
    names = GRAPH.node_names()
    reads = {name: [GRAPH.value_name(x) for x in GRAPH.reads(v)] for v, name in enumerate(names)}
    makes = {name: [GRAPH.value_name(x) for x in GRAPH.values(v)] for v, name in enumerate(names)}
    functions = {name: lambda *given, v=v: (sum(given, np.full(125, float(v))),) for v, name in enumerate(names)}
    plain = simulate(GRAPH, range(18))
    wanted, _ = namespace["run"]([f"{deed} {x}" for deed, x in plain.actions(True)], functions, reads, makes)
    for plan in (planned(), planned(lingering=())):
        results, peak = namespace["run"](plan.text("actions").splitlines(), functions, reads, makes)
        assert peak == plan.peak_memory
        assert results.keys() == wanted.keys()
        assert all(np.array_equal(results[name], wanted[name]) for name in wanted)


# ---------------------------------------------------------------- everything else that takes a schedule


PLAN = planned()
NOT_SUPPORTED = {
    "polish": lambda plan: polish(GRAPH, plan.simulation, None),
    "reuse_values": lambda plan: reuse_values(GRAPH, plan.schedule, 10**6),
    "drop_dead_runs": lambda plan: drop_dead_runs(GRAPH, plan.schedule),
    "sink_runs": lambda plan: sink_runs(GRAPH, plan.schedule),
    "unroll": lambda plan: unroll(GRAPH, plan.schedule),
}


@pytest.mark.parametrize("what", NOT_SUPPORTED)
def test_what_does_not_know_loads_refuses_them_in_a_sentence(what):
    with pytest.raises(ra.ScheduleError, match=f"step 12 loads .* {what}"):
        NOT_SUPPORTED[what](PLAN)
    NOT_SUPPORTED[what](planned(loads=(), lingering=()))


def kept(plan):
    """v0 is not recomputed any more; the loads stay where they were."""
    changed = what_if(GRAPH, keep=["v0"], schedule=plan.schedule)
    assert changed.order.tolist() == list(range(18))
    return changed


def recomputed(plan):
    """A second run of v4 is inserted; loads behind it move on."""
    changed = what_if(GRAPH, recompute=["v4"], schedule=plan.schedule)
    assert (changed.order == 4).sum() == 2
    return changed


@pytest.mark.parametrize("change", [kept, recomputed])
def test_a_flipped_decision_leaves_the_copies_before_the_same_runs(change):
    schedule = change(PLAN)
    simulation = simulate(GRAPH, schedule)
    assert sorted(schedule.loads[:, 1].tolist()) == sorted(PLAN.schedule.loads[:, 1].tolist())
    at = [[int(each.order[step]) for step, _ in each.loads.tolist()] for each in (schedule, PLAN.schedule)]
    assert at[0] == at[1]
    assert schedule.lingering.tolist() == PLAN.schedule.lingering.tolist()
    assert timeline(simulation, LINK).time > 0


@pytest.mark.parametrize("allocator", [each.name for each in list_allocators()])
def test_allocators_reserve_what_loads_need(allocator):
    reserved = get_allocator(allocator).reserve(PLAN.simulation)
    assert reserved.memory >= PLAN.peak_memory
    if reserved.allocation is not None:
        reserved.allocation.verify()
        assert len(reserved.allocation.buffers) == PLAN.simulation.lifetimes.value.size


def test_buffers_are_the_lifetimes_of_runs_and_loads():
    buffers, lives = Buffers.of(PLAN.simulation), PLAN.simulation.lifetimes
    assert buffers.max_live == PLAN.peak_memory
    assert buffers.begin.tolist() == lives.made_at.tolist()
    assert find_overwrites(PLAN.simulation).size == lives.value.size


def test_live_sets_and_breakdowns_tell_what_was_loaded():
    for step in range(len(PLAN.schedule)):
        live = live_set(PLAN.simulation, step)
        assert sum(each.memory for each in live) == PLAN.simulation.memory_trace[step]
        by_role = {role: sum(each.memory for each in live if each.role == role) for role in ("kept", "loaded")}
        assert by_role == {role: PLAN.simulation.breakdown(step)[role] for role in by_role}
    assert breakdown(PLAN).peak_memory == PLAN.peak_memory


def test_a_plan_with_loads_has_a_link():
    with pytest.raises(PlanError, match="loads values"):
        replace(PLAN, link=None)


def test_a_start_may_load_values_where_there_is_a_link():
    with pytest.raises(ra.ScheduleError, match=r"^`start` loads values"):
        ra.solve(GRAPH, "80%", start=PLAN.schedule)
    fast = Link(1e10, 1e10, 0)
    first = ra.solve(GRAPH, "60%", link=fast, effort="fast")
    again = ra.solve(GRAPH, "60%", link=fast, effort="fast", start=first.schedule)
    assert again.time <= first.time
    little = replace(fast, host=1000)
    assert ra.solve(GRAPH, "90%", link=little, effort="fast", start=first.schedule).simulation.host_peak <= 1000


def test_a_plan_with_copies_is_not_called_reordered():
    assert "reordered" not in str(planned(runs_again=False))


def test_the_timeline_of_a_plan_is_played_once(monkeypatch):
    played = []
    monkeypatch.setattr("remat_algos.plan.plan.timeline", lambda *given: played.append(1) or timeline(*given))
    plan = planned()
    assert plan.timeline is plan.timeline
    assert (plan.time, plan.gap, len(played)) == (plan.timeline.time, plan.gap, 1)
    faster = replace(plan, link=Link(1e12, 1e12, 0))
    assert (faster.time < plan.time, len(played)) == (True, 2)
    assert pickle.loads(pickle.dumps(plan)).time == plan.time


# ---------------------------------------------------------------- explain and diff


def test_an_offloaded_value_is_explained():
    text = " ".join(str(ra.explain(PLAN, "v3")).split())
    recompute = "recomputing it costs 100 ns"
    assert f"offloaded, 1000 B each way: compute waits 900 ns for it; {recompute}; stored" in text
    assert "v3 1000 B, computed once; read by v4 (4)" in text
    assert "stored after step 3, freed after 5, loaded before 12 (live to 15)" in text
    assert "recomputing it would" not in text
    late = replace(PLAN, link=Link(1e12, 1e12, 0))
    assert f"offloaded, 1000 B each way: hidden; {recompute}" in " ".join(str(ra.explain(late, "v3")).split())
    record = ra.explain(PLAN, "v3").record()["decisions"][0]
    assert record["offloaded"] == [{"value": "v3", "stored_at": 3, "freed_after": 5, "loads": [(12, 15)], "waits": 900}]
    assert "offloaded" not in ra.explain(PLAN, "v4").record()["decisions"][0]


def test_recomputation_of_an_offloaded_value_has_a_price_only_where_it_can_be():
    """a -> b -> c -> d -> e, and e reads b: a is gone when b comes back."""
    edges = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "e"), ("b", "e")]
    graph = ra.ComputationGraph.from_edges(edges, memory=1000, compute=100)
    graph = replace(graph, labels=replace(graph.labels, compute_unit="ns"))

    def sentence(loads, **fields):
        changed = replace(graph, **fields)
        plan = ra.solve(changed, "100%", solver="no_remat", raw=True)
        simulation = simulate(changed, Schedule(range(5), loads))
        return " ".join(str(ra.explain(replace(plan, simulation=simulation, reservation=None, link=LINK), "b")).split())

    assert "; recomputing it costs 100 ns, and more for what it reads and is not live; stored" in sentence([(4, 1)])
    assert "; recomputing it costs 200 ns, and more for what it reads and is not live; stored" in sentence(
        [(3, 1), (4, 1)]
    )
    pinned = np.array([True, False, False, False, True])
    assert "; recomputing it costs 100 ns; stored" in sentence([(4, 1)], output=pinned)
    for node in (0, 1):  # what it reads, and itself
        once = np.arange(5) == node
        text = sentence([(4, 1)], once=once)
        assert "; it cannot be recomputed; stored" in text
        assert "recomputing" not in text
    assert "recomputing it costs 100 ns, and more for" in sentence(
        [(3, 1), (4, 0)], once=np.arange(5) == 0
    )  # a could come back too
    assert "it cannot be recomputed" in sentence([(4, 1)], mark=np.array([KEEP, 0, 0, 0, 0], np.int8))


def test_waits_of_all_values_explain_those_of_the_plan():
    for plan in (PLAN, planned(lingering=()), planned(loads=((12, "v3"),), lingering=())):
        played = plan.timeline
        waits = [offload_of(plan.simulation, int(x), played).waits for x in plan.simulation.stores]
        assert max(waits) <= int(played.waits.sum()) <= sum(waits)


def test_a_difference_tells_who_offloads_what(tmp_path, monkeypatch, capsys):
    plain = planned(loads=(), lingering=())
    found = ra.difference(PLAN, plain)
    assert [[GRAPH.value_name(x) for x in found.values(sign)] for sign in (1, -1)] == [["v1", "v3"], []]
    assert found.first_step == 12
    record = found.record()
    assert record["time"] == [PLAN.time, plain.time]
    assert record["host_peak"] == [2000, 0]
    assert record["offloaded"] == [["v1", "v3"], []]
    assert "first offloads 2 values that second does not: 1.95 KiB, v1, v3" in str(found)
    assert "every node runs" not in str(found)
    assert ra.difference(PLAN, PLAN).first_step is None
    without = replace(plain, link=None)
    assert "time" not in ra.difference(without, without).record()
    monkeypatch.chdir(tmp_path)
    PLAN.save("a.json")
    plain.save("b.json")
    ra.write_graph(GRAPH, "graph.json")
    assert main(["diff", "graph.json", "a.json", "b.json"]) == 0
    assert "host peak" in capsys.readouterr().out
