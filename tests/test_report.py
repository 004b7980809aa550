"""The page on which plans are stepped through: its data, its text, its command."""

import itertools
import json
import re
import zlib
from base64 import b64decode

import numpy as np
import pytest

import remat_algos as ra
from remat_algos.errors import PlanError
from remat_algos.plot.axes import byte_ticks
from remat_algos.plot.pictures.report import common_clock, report
from remat_algos.questions.explain import explain
from remat_algos.schedule.emission import baseline
from remat_algos.wording import format_bytes
from remat_algos.zoo.random import layered_dag
from tests.raising import raises
from tests.small_graphs import small_graphs

pytestmark = pytest.mark.usefixtures("short_searches")


@pytest.fixture(scope="module")
def plan():
    chain = ra.differentiate(ra.ComputationGraph.from_edges([(f"n{i}", f"n{i + 1}") for i in range(9)], memory=1000))
    return ra.solve(chain, "60%")


def data_of(page):
    kind, text = re.search(r'<script type="application/(json|zlib)" id="data">(.*?)</script>', page, re.DOTALL).groups()
    return json.loads(text if kind == "json" else zlib.decompress(b64decode(text)))


def live(found, step):
    """Values that the page shows as live at a step."""
    spans = zip(found["value"], found["made"], found["end"], strict=True)
    return sorted(x for x, made, end in spans if made <= step < end)


@pytest.mark.parametrize(("name", "graph"), list(small_graphs(12, 8, 16)))
def test_what_is_live_at_a_step_are_the_bytes_of_the_step(name, graph):
    graph = graph.with_costs(workspace=0)
    data = data_of(report(ra.solve(graph, "least", effort="fast")))
    memory = graph.memory.tolist()
    for found in data["plans"]:
        assert [sum(memory[x] for x in live(found, step)) for step in range(len(found["order"]))] == found["trace"]
        assert [data["texts"][place] for place in found["bytes"]] == [format_bytes(each) for each in found["trace"]]
        assert set(found["role"]) <= {0, 1, 2, 3}


def test_what_is_said_is_what_explain_and_the_plan_say(plan):
    data = data_of(report(plan))
    ours, plain = data["plans"]
    for v in range(plan.graph.n_nodes):
        lines = [data["texts"][place] for place in ours["why"][v]]
        assert "\n".join(lines) == "\n".join(
            line
            for decision in explain(plan, plan.graph.value_name(int(plan.graph.value_indptr[v]))).decisions
            for line in decision.lines()
        )
    assert [": ".join(fact).removeprefix(": ") in " ".join(str(plan).split()) for fact in ours["facts"] if not fact[0]]
    assert {"peak", "compute", "schedule"} <= {label for label, _ in ours["facts"]}
    assert (plain["title"], plain["order"]) == ("no rematerialization", baseline(plan.graph).schedule.order.tolist())
    assert ours["limit"][0] == plan.limit
    assert max(plan.limit, *ours["trace"], *plain["trace"]) < data["top"]
    assert [data["texts"][place] for _, place in data["bytes"]] == [format_bytes(tick) for tick, _ in data["bytes"]]
    assert 2 <= len(data["bytes"]) <= 6
    assert data["bytes"][0][0] == 0
    assert data["bytes"][-1][0] <= data["top"]
    assert data["clock"] == list(map(list, common_clock(ours["order"], plain["order"])))
    assert plain["limit"] is None
    assert ours["floor"][0] <= min(ours["trace"][ours["peak_step"]], plain["trace"][plain["peak_step"]])


def longest_common(first, second):
    """Length of the longest common subsequence, by the textbook's table."""
    row = [0] * (len(second) + 1)
    for a in first:
        above = row
        row = [0]
        for j, b in enumerate(second):
            row.append(above[j] + 1 if a == b else max(above[j + 1], row[j]))
    return row[-1]


@pytest.mark.parametrize("seed", range(30))
def test_two_orders_share_a_clock_on_which_as_many_equal_runs_as_possible_coincide(seed):
    rng = np.random.default_rng(seed)
    first, second = (rng.integers(0, 1 + seed % 7, rng.integers(0, 15)).tolist() for _ in range(2))
    clock = common_clock(first, second)
    for steps, order in zip(clock, (first, second), strict=True):
        changed = [step for last, step in itertools.pairwise([-1, *steps]) if step != last]
        assert changed == list(range(len(order)))
    moves = [
        (a, b)
        for (last_a, last_b), (a, b) in itertools.pairwise([(-1, -1), *zip(*clock, strict=True)])
        if a > last_a and b > last_b
    ]
    firsts = [[v for step, v in enumerate(order) if v not in order[:step]] for order in (first, second)]
    equal = [(a, b) for a, b in moves if first[a] == second[b]]
    coincide = sum(first[a] not in first[:a] and second[b] not in second[:b] for a, b in equal)
    assert coincide >= longest_common(*firsts)
    # A clock has no tick at which both wait.
    assert len({*zip(*clock, strict=True)}) == len(clock[0])


def test_a_plan_waits_while_the_other_one_recomputes():
    assert common_clock([0, 1, 2, 1, 3], [0, 1, 2, 3]) == ([0, 1, 2, 3, 4], [0, 1, 2, 2, 3])
    assert common_clock([1, 0], [0]) == ([0, 1], [-1, 0])
    assert common_clock([], []) == ([], [])


@pytest.mark.parametrize("top", [1, 2, 7, 13, 1000, 3 << 20, 1_117_782_016, 10**15])
def test_labels_of_bytes_are_few_and_short(top):
    ticks = byte_ticks(top)
    assert ticks[0] == 0
    assert ticks[-1] <= top < ticks[-1] + ticks[1]
    assert min(top, 3) + 1 <= len(ticks) <= 6
    assert all(len(format_bytes(tick).split()[0]) <= 4 for tick in ticks)


def test_with_copies_the_page_has_the_engines():
    graph = ra.differentiate(ra.zoo.build("unet", cost="roofline", batch=8).graph)
    found = data_of(report(ra.solve(graph, "50%", link="pcie5", effort="fast")))["plans"][0]
    engines = found["engines"]
    assert engines["names"] == ["compute", "out", "in"]
    assert len(engines["loads"]) == len(engines["load_step"]) > 0
    assert max(map(max, engines["end"])) == engines["time"]
    assert found["role"].count(3) == len(engines["loads"])


def test_no_name_ends_the_script_and_nothing_is_fetched():
    name = '</script><img src=x onerror="alert(1)">'
    graph = ra.differentiate(ra.ComputationGraph.from_edges([(name, "b"), ("b", "c")]))
    page = report(ra.solve(graph, "100%"), title=name)
    assert page.count("</script>") == page.count("<script") == 2
    assert "<img" not in page
    assert data_of(page)["graph"]["names"][0] == name
    assert "default-src 'none'" in page
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", page)


def test_long_data_are_compressed(plan, monkeypatch):
    plain = report(plan)
    monkeypatch.setattr("remat_algos.plot.tuning.MAX_PLAIN", 1000)
    packed = report(plan)
    assert data_of(packed) == data_of(plain)
    assert len(packed) < len(plain)
    assert packed == report(plan)


@pytest.mark.parametrize(
    ("nodes", "most_bytes"),
    [(368, 300_000), (2_000, 1_000_000), pytest.param(5_219, 3_000_000, marks=pytest.mark.slow)],
)
def test_pages_of_networks_are_small(nodes, most_bytes):
    names = {368: "resnet50", 5_219: "densenet264"}
    part = ra.zoo.build(names[nodes]).graph if nodes in names else layered_dag(nodes // 2, reach=100, seed=1)
    graph = ra.differentiate(part)
    assert graph.n_nodes >= nodes
    page = report(ra.solve(graph, "50%", solver="chen_sqrt"))
    assert len(page.encode()) <= most_bytes


def test_what_cannot_be_shown_is_refused(plan, monkeypatch):
    other = ra.differentiate(ra.ComputationGraph.from_edges([(0, 1)]))
    with pytest.raises(PlanError, match="for different graphs; give two plans of one graph"):
        report(plan, ra.solve(other, "100%"))
    forward = ra.ComputationGraph.from_edges([(f"n{i}", f"n{i + 1}") for i in range(9)], memory=1000)
    with pytest.raises(PlanError, match="for different graphs"):  # before its gradients, which are in the other
        report(plan, ra.solve(forward, "100%", raw=True))
    with pytest.raises(TypeError, match="plan is a"):
        report(plan.graph)
    monkeypatch.setattr("remat_algos.plot.tuning.MAX_DRAWN_NODES", 5)
    with raises(PlanError, max_nodes=5, n_nodes=20):
        report(plan)


def test_the_command_writes_the_page(remat, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    remat("solve", "model:unet", "--budget", "50%", "-o", "plan.json", "--effort", "fast")
    assert "open it in a browser" in remat("report", "model:unet", "plan.json").out
    found = data_of((tmp_path / "report.html").read_text("utf-8"))
    assert len(found["plans"]) == 2
    record = remat("report", "model:unet", "plan.json", "--compare", "plan.json", "-o", "two.html", "--json").record
    assert record == {"written": "two.html", "bytes": (tmp_path / "two.html").stat().st_size, "steps": record["steps"]}
    before = (tmp_path / "two.html").read_bytes()
    failed = remat("report", "model:vgg19", "plan.json", "-o", "two.html")
    assert failed.code != 0
    assert "made for another graph" in failed.err
    assert (tmp_path / "two.html").read_bytes() == before


@pytest.mark.parametrize(("command", "file"), [("report", "a.html"), ("animate", "a.svg")])
def test_a_plan_to_compare_with_is_not_overwritten(remat, tmp_path, monkeypatch, command, file):
    monkeypatch.chdir(tmp_path)
    (tmp_path / file).write_text("a plan")
    said = remat(command, "model:unet", "plan.json", "--compare", file, "-o", file)
    assert f"{file} would overwrite an input file; name another file" in said.err
    assert (tmp_path / file).read_text() == "a plan"
