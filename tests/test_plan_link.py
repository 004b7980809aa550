"""A link as an argument: of `solve`, of the plan cache and of remat solve."""

import argparse
import json
from dataclasses import replace
from pathlib import Path

import pytest

import remat_algos as ra
from remat_algos.bounds.memory import lowest_order_with_copies
from remat_algos.cli.main import main
from remat_algos.cli.shared_options import add, link_of
from remat_algos.cost.links import Link, planned_share
from remat_algos.errors import GraphError
from remat_algos.executor import run as run_module
from remat_algos.ir.parts import Labels
from remat_algos.schedule.timeline import timeline
from remat_algos.search import plan_cache
from remat_algos.search import with_copies as offloading
from remat_algos.search.plan_cache import solve_cached
from remat_algos.search.request import Request
from remat_algos.zoo.registry import read_reference
from tests.raising import raises

pytestmark = pytest.mark.usefixtures("short_searches")


def timed(unit="ns", scale=1):
    graph = ra.differentiate(ra.ComputationGraph.from_edges([(i, i + 1) for i in range(8)], memory=1000))
    return replace(graph, labels=Labels(compute_unit=unit, compute_scale=scale))


# ---------------------------------------------------------------- requests


@pytest.mark.parametrize("link", ["pcie5", "5GB/s,4GB/s", Link(5e9, 4e9, 0, 10**9)])
def test_a_request_has_the_link_that_is_meant(link, tmp_path):
    assert Request.of(timed(), "80%", link=link).link == Link.of(link)
    device = ra.cost.Device("card", {"float32": 1e12}, 1e11, 1e-6, 2**30, link=Link.of(link))
    device.save(tmp_path / "card.json")
    for given in (device, tmp_path / "card.json", str(tmp_path / "card.json")):
        assert Request.of(timed(), "80%", link=given).link == Link.of(link)


def test_without_a_link_the_unit_of_costs_does_not_matter():
    for unit in ("", "FLOPs"):
        assert Request.of(timed(unit), "80%").link is None


@pytest.mark.parametrize("solve", [ra.solve, solve_cached, Request.of])
@pytest.mark.parametrize(
    ("unit", "link", "words"),
    [
        ("ns", "fast", "'fast'"),
        ("ns", 5e9, "5000000000.0"),
        ("ns", "0GB/s", "above 0"),
        ("FLOPs", "pcie5", "costs that are times.*'FLOPs'"),
        ("", "pcie5", "without a unit"),
        ("ns", Link(1e9, 1e-30), "9e-31 bytes/s"),
    ],
)
def test_a_faulty_link_is_told_before_anything_is_planned(solve, unit, link, words):
    with pytest.raises(GraphError, match=words):
        solve(timed(unit), "80%", link=link)


# ---------------------------------------------------------------- the plan cache


@pytest.fixture
def file_of():
    """What the files of a request's plans in the cache are named for."""

    def file(graph, link):
        request = Request.of(graph, 1000, link=link)
        return plan_cache._question(plan_cache._canonical(graph, timed=request.link is not None), request)

    return file


@pytest.mark.parametrize(
    ("graph", "link"),
    [
        (timed(), None),
        (timed(), "pcie4"),
        (timed(), "50GB/s,49GB/s"),
        (timed(), Link(50e9, 50e9, latency=0)),
        (timed(), Link(50e9, 50e9, host=10**9)),
        (timed(), Link(50e9, 50e9, share=1)),
        (timed("us"), "pcie5"),
        (timed(scale=10), "pcie5"),
    ],
)
def test_a_plan_is_not_that_of_another_link_or_unit(graph, link, file_of):
    assert file_of(graph, link) != file_of(timed(), "pcie5")


def test_links_of_equal_figures_share_a_plan(file_of):
    assert file_of(timed(), "pcie5") == file_of(timed(), "50GB/s") == file_of(timed(), Link(50e9, 50e9))
    assert file_of(timed(), None) == file_of(timed("us"), None)


# ---------------------------------------------------------------- the command line


@pytest.mark.parametrize(
    ("words", "link"),
    [
        ((), None),
        (("--link", "PCIe5"), Link.of("pcie5")),
        (("--link", "5GB/s,4GB/s", "--host", "64GiB"), Link(5e9, 4e9, host=64 * 2**30, name="5GB/s,4GB/s")),
        (("--link", "card.json"), Link(5e9, 4e9, 0, 10**9)),
        (("--link", "card.json", "--host", "1000"), Link(5e9, 4e9, 0, 1000)),
    ],
)
def test_the_command_reads_a_link(words, link, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ra.cost.Device("card", {"float32": 1e12}, 1e11, 1e-6, 2**30, link=Link(5e9, 4e9, 0, 10**9)).save("card.json")
    parser = argparse.ArgumentParser()
    add(parser, "copies")
    assert link_of(parser.parse_args(words, argparse.Namespace(actions=[]))) == link


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("--link", "fast"), "--link: unknown link 'fast'"),
        (("--link=-5GB/s",), "--link: '-5GB/s'"),
        (("--link", "card.json"), "--link: no such file"),
        (("--link", "pcie5", "--host", "0"), "--host: "),
        (("--link", "pcie5", "--host", "lots"), "--host: "),
        (("--host", "64GiB"), "--host needs --link"),
        (("--link", "pcie5"), "model:feed_forward: "),
    ],
)
def test_what_is_no_link_is_one_line(words, part, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["solve", "model:feed_forward", "--budget", "80%", "--json", *words]) == 2
    out, err = capsys.readouterr()
    assert err.startswith(f"remat: {part}")
    assert (out, err.count("\n")) == ("", 1)


MODEL = "model:feed_forward?depth=8&cost=roofline&device=a100-80gb&batch=4096"


def differentiated(reference):
    name, options = read_reference(reference)
    return ra.differentiate(ra.zoo.build(name, **options).graph)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a plan over pcie4, plan.json, and its actions, plan.txt."""
    folder = tmp_path_factory.mktemp("link")
    plan = ra.solve(differentiated(MODEL), "40%", link="pcie4", effort="fast")
    plan.save(folder / "plan.json")
    plan.save(folder / "plan.txt", "actions")
    return folder


@pytest.fixture
def said(folder, monkeypatch, capsys):
    """Runs a command line in that folder; gives code, output and errors."""
    monkeypatch.chdir(folder)

    def run(*words):
        code = main([str(word) for word in words])
        return code, *capsys.readouterr()

    return run


def record(said, *words):
    code, out, _ = said(*words, "--json")
    return code, json.loads(out)


def test_an_order_is_simulated_over_the_link_of_its_plan_or_another(said):
    plan = json.loads(Path("plan.json").read_text())
    assert plan["host_peak"] > 0
    assert plan["loads"]
    own = record(said, "simulate", MODEL, "plan.json")[1]
    assert (own["time"], own["host_peak"]) == (plan["time"], plan["host_peak"])
    share = ("--link", "pcie4", "--link-share", "90%")
    assert record(said, "simulate", MODEL, "plan.txt", *share)[1]["time"] == own["time"]
    for file in ("plan.json", "plan.txt"):
        slower = record(said, "simulate", MODEL, file, "--link", "1GB/s")[1]
        assert slower["time"] > own["time"]
        assert slower["peak_memory"] == own["peak_memory"]
    assert "time" not in record(said, "simulate", MODEL, "plan.txt")[1]


def test_bytes_on_the_host_above_a_limit_end_with_3(said):
    most = json.loads(Path("plan.json").read_text())["host_peak"]
    asked = ("simulate", MODEL, "plan.json", "--link", "pcie4", "--host")
    assert record(said, *asked, most)[0] == 0
    assert record(said, *asked, most - 1)[0] == 3
    code, out, _ = said(*asked, most - 1)
    assert code == 3
    assert "it does not fit" in " ".join(out.split())
    code, found = record(said, "simulate", MODEL, "plan.json", "--host", most - 1)  # over the link of the plan
    assert (code, found["link"]["host"], found["link"]["name"]) == (3, most - 1, "pcie4")


def test_the_picture_of_copies_needs_a_link(said):
    code, out, _ = said("simulate", MODEL, "plan.json", "--plot", "-", "--picture", "timeline")
    assert code == 0
    assert "compute" in out
    code, _, err = said("simulate", MODEL, "plan.txt", "--plot", "-", "--picture", "timeline")
    assert (code, "--picture timeline" in err) == (2, True)


@pytest.mark.parametrize("arena", [(), ("--arena",)])
def test_a_plan_with_copies_runs(said, arena):
    solved = ("run", MODEL, "--budget", "40%", "--link", "pcie4", "--shrink", "1024")
    for words in (solved, ("run", MODEL, "--plan", "plan.txt", "--shrink", "1024")):
        code, found = record(said, *words, "--repeats", "1", *arena)
        assert (code, found["holds"]) == (0, True)
        assert found["measured_host_peak"] == found["host_peak"] > 0


def test_a_run_takes_the_time_of_the_link_of_its_plan(monkeypatch):
    links = []

    class Copies(run_module.HostCopies):
        def __init__(self, on, simulation, link):
            links.append(link)
            super().__init__(on, simulation, link)

    monkeypatch.setattr(run_module, "HostCopies", Copies)
    graph = timed("us")
    plan = ra.solve(graph, "40%", link=Link(1e10, 1e10, 0))
    assert plan.simulation.stores.size
    for given in (plan, plan.record()):
        ra.execute(graph, given)
        ra.validate(graph, given, repeats=1)
    ra.execute(graph, plan, link=Link.of("pcie5"))
    ra.execute(graph, plan.simulation)
    assert links == [plan.link] * 6 + [Link.of("pcie5"), None]


def test_the_largest_batch_over_a_link_is_no_smaller(said):
    model = MODEL.removeprefix("model:").removesuffix("&batch=4096")
    words = ("--vary", "batch", "--memory", "100MiB", "--solver", "search", "--values", "2048,4096,6144")
    asked = ("fit", "--model", model, *words)
    code, plain = record(said, *asked)
    assert code == 0
    code, linked = record(said, *asked, "--link", "nvlink-c2c")
    assert code == 0
    (alone,), (copied,) = plain["solvers"], linked["solvers"]
    assert copied["value"] >= alone["value"] > 0
    assert copied["host_peak"] > 0
    assert copied["overhead_in_time"] < alone["overhead"] or copied["value"] > alone["value"]
    assert "host_peak" not in alone


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("run", MODEL, "--plan", "plan.json", "--link", "pcie5"), "--link is for solving"),
        (("run", MODEL, "--plan", "plan.json", "--host", "1GiB"), "--host is for solving"),
        (("run", "model:feed_forward", "--budget", "80%", "--link", "pcie5"), "a link needs costs that are times"),
        (("simulate", "model:feed_forward", "--link", "pcie5"), "a link needs costs that are times"),
        (("simulate", MODEL, "--host", "1GiB"), "--host needs --link; add it"),
        (
            ("fit", "--model", "feed_forward", "--vary", "batch", "--memory", "1GiB", "--link", "pcie5"),
            "a link needs costs that are times",
        ),
    ],
)
def test_what_does_not_go_with_a_link_is_one_line(said, words, sentence):
    code, out, err = said(*words, "--json")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("remat: ")
    assert sentence in err


# ---------------------------------------------------------------- the planned share of a link


def half(reference=MODEL, budget="40%", **options):
    return ra.solve(differentiated(reference), budget, effort="fast", **options)


@pytest.mark.parametrize("share", [1, 0.9, "55%"])
def test_time_and_bound_of_a_plan_hold_at_the_planned_share(share):
    link = Link.of("pcie4", share)
    plan = half(link=link)
    assert (plan.link.share, plan.timeline.share, plan.timeline.link) == (planned_share(share),) * 2 + (link,)
    assert link.planned.out == pytest.approx(planned_share(share) * 25e9)
    assert plan.bound.amount <= plan.time == timeline(plan.simulation, link.planned).time
    assert timeline(plan.simulation, link).time <= plan.time <= timeline(plan.simulation, link.planned.at(0.5)).time
    ra.verify(plan.graph, plan.record())
    faster = {**plan.record(), "link": {**plan.link.record(), "share": min(1, plan.link.share + 0.05)}}
    if link.share < 1:
        with raises(ra.errors.ClaimError, name="time", claimed=plan.time):
            ra.verify(plan.graph, faster)


def test_a_plan_by_default_survives_a_link_that_attains_nine_tenths():
    """Planned to the last byte, it costs more there than recomputation alone."""
    alone, plan, greedy = half(), half(link="pcie4"), half(link=Link.of("pcie4", share=1))
    slower = Link.of("pcie4").at(0.9)
    assert timeline(plan.simulation, slower).time == plan.time < alone.time
    assert timeline(greedy.simulation, slower).time > greedy.time


@pytest.mark.parametrize(
    ("share", "other"), [(0, "0"), (1.5, "1.5"), (True, "True"), ("90", "'90'"), ("x%", "'x%'"), (float("nan"), "nan")]
)
def test_what_is_no_share_is_one_sentence(share, other):
    for call in (lambda: Link(1e9, 1e9, share=share), lambda: Link.of("pcie5", share)):
        with pytest.raises(GraphError, match=f'^"share" of the link is {other};'):
            call()


def test_a_plan_prints_its_share_and_its_time_at_others(said):
    text = " ".join(said("simulate", MODEL, "plan.json")[1].split())
    assert "more than one pass at 90 % of the rate" in text
    assert "% at 100 % of the rate" in text
    assert "% at 80 % of the rate copies" in text
    text = " ".join(said("simulate", MODEL, "plan.json", "--link", "20GB/s")[1].split())
    assert "more than one pass at" not in text
    assert "% at 80 % of the rate copies" in text
    small = timed("us")
    text = " ".join(str(ra.solve(small, "60%", link="1MB/s")).split())
    assert "takes less time at 90 % of the rate" in text
    text = " ".join(str(ra.solve(small, "100%", link="1MB/s", effort="fast")).split())
    assert "optimal: no schedule takes less time" in text
    assert "at 90 % of the rate" not in text.partition("lower bound")[2]


@pytest.mark.parametrize("link", ["1GB/s", Link(1e9, 1e9), {"out": "1GB/s", "into": 1e9}])
def test_every_door_takes_a_link_as_solve_does(link):
    graph = timed("us")
    plan = ra.solve(graph, "40%", link=link, effort="fast")
    assert timeline(plan.simulation, link).time == timeline(plan.simulation, Link(1e9, 1e9)).time
    assert ra.execute(graph, plan, link=link).mismatches == []
    limit = plan.limit
    bound = ra.bounds.overhead_bound
    assert bound(graph, limit, link=link) == bound(graph, limit, link=Link(1e9, 1e9).times(graph))
    for call in (lambda: timeline(plan.simulation, "fast"), lambda: ra.execute(graph, plan, link="fast")):
        with pytest.raises(GraphError, match="'fast'"):
            call()


# ---------------------------------------------------------------- every question


def test_the_lowest_peak_over_a_link_is_that_of_its_theorem():
    graph = timed("us")
    plan = ra.solve(graph, "least", link="1GB/s", effort="fast")
    assert plan.peak_memory == lowest_order_with_copies(graph)[0] == plan.peak_bound
    assert plan.peak_memory <= ra.solve(graph, "least", effort="fast").peak_memory
    assert "no schedule has a lower peak" in str(plan)
    ra.verify(plan.graph, plan.record())
    near = ra.solve(graph, "least+20%", link="1GB/s", effort="fast")
    assert near.peak_memory <= 1.2 * plan.peak_memory
    assert near.time <= plan.time


def test_an_overhead_limits_the_time():
    graph = timed("us")
    free = ra.solve(graph, "60%", link="1GB/s", effort="fast")
    allowed = free.overhead_in_time
    assert allowed > 1
    both = ra.solve(graph, ra.Budget(memory="60%", overhead=allowed), link="1GB/s", effort="fast")
    assert (both.peak_memory <= free.limit, both.overhead_in_time <= allowed) == (True, True)
    with raises(ra.BudgetError, allowed="1 us"):
        ra.solve(graph, ra.Budget(memory="60%", overhead=1), link="1GB/s", effort="fast")
    lowest = ra.solve(graph, ra.Budget(overhead=allowed), link="1GB/s", effort="fast")
    assert lowest.overhead_in_time <= allowed
    assert lowest.peak_memory <= free.peak_memory
    for plan in (both, lowest):
        ra.verify(plan.graph, plan.record())


def test_a_frontier_over_a_link_falls_in_time_from_the_lowest_peak(said):
    graph = timed("us")
    curve = ra.frontier(graph, points=4, link="1GB/s", effort="fast")
    assert curve.plans[0].peak_memory == lowest_order_with_copies(graph)[0] == curve.bound_memory
    assert curve.plans[-1].overhead_in_time == 0
    peaks, times = zip(*((plan.peak_memory, plan.time) for plan in curve.plans), strict=True)
    assert (sorted(set(peaks)), sorted(set(times), reverse=True)) == (list(peaks), list(times))
    assert all(plan.link == Link(1e9, 1e9, name="1GB/s") and plan.bound.amount <= plan.time for plan in curve.plans)
    code, found = record(said, "frontier", MODEL, "--link", "pcie4", "--points", "3", "--effort", "fast")
    assert code == 0
    assert all(point["time"] >= point["bound"] for point in found["points"])


def test_solvers_are_compared_by_their_time_over_a_link(said):
    words = ("--budget", "40%", "--solver", "chen_sqrt,search", "--link", "pcie4", "--effort", "fast")
    code, found = record(said, "compare", MODEL, *words)
    assert code == 0
    times = [entry["time"] for entry in found["solvers"]]
    assert (len(times), times) == (2, sorted(times))
    assert "overheads in time, with copies over pcie4" in " ".join(said("compare", MODEL, *words)[1].split())


def test_the_command_bounds_the_time_over_a_link(said):
    link, graph = Link.of("pcie4"), differentiated(MODEL)
    code, found = record(said, "bound", MODEL, "--budget", "40%,1%", "--link", "pcie4", "--effort", "fast")
    assert (code, found["link"]["share"]) == (0, 0.9)
    within, impossible = found["bounds"]
    assert within["bound"] == ra.bounds.overhead_bound(graph, within["limit"], link=link.planned).amount
    assert impossible["feasible"] is False


def test_an_impossible_budget_is_refused_without_a_search(monkeypatch):
    """The lowest peak with copies is known exactly where values may leave."""
    monkeypatch.setattr(offloading._CopySearch, "_search_alone", None)
    monkeypatch.setattr(offloading._CopySearch, "fitted", None)
    graph = timed("us")
    limit = lowest_order_with_copies(graph)[0] - 1
    with raises(ra.BudgetError, reached=limit + 1, lower_bound=limit + 1):
        ra.solve(graph, limit, link="1GB/s")


# ---------------------------------------------------------------- what may leave


def offloaded(plan):
    return {plan.graph.value_name(x) for x in plan.simulation.stores.tolist()}


@pytest.mark.parametrize("share", ["40%", "60%"])
def test_only_what_may_leave_does(share):
    graph = differentiated(MODEL)
    free = ra.solve(graph, share, link="nvlink-c2c", effort="fast")
    left = offloaded(free)
    assert left
    module = sorted(left)[0].partition(".")[0]
    for rules in ({"stay": [module]}, {"stay": f"{module}*"}, {"offload": sorted(left)[1:]}, {"min_copy": "1TB"}):
        plan = ra.solve(graph, share, link="nvlink-c2c", effort="fast", constraints=rules)
        constraints = ra.Constraints.of(graph, rules)
        assert constraints.violation(plan.simulation) is None
        assert sorted(left)[0] not in offloaded(plan)
        assert constraints.violation(free.simulation)
        claimed = {**free.record(), "constraints": constraints.record()}
        with pytest.raises(ra.PlanError, match="loads"):
            ra.verify(graph, claimed)
        assert (
            ra.Constraints.claimed(graph, plan.record()["constraints"]).movable.tolist() == constraints.movable.tolist()
        )


def test_the_command_takes_what_may_leave(said):
    words = ("--budget", "60%", "--link", "nvlink-c2c", "--effort", "fast", "--min-copy", "1TB")
    code, found = record(said, "solve", MODEL, *words)
    assert (code, found["host_peak"], found["constraints"]["min_copy"]) == (0, 0, 10**12)
    code, _, err = said("solve", MODEL, "--budget", "60%", "--link", "pcie4", "--modules", "nothing")
    assert (code, "--modules: unknown node 'nothing'" in err) == (2, True)
