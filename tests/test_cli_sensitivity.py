"""remat sensitivity, and --cost-noise of remat solve."""

import json

import pytest

from remat_algos.formats.graph_files import read_graph
from remat_algos.ir.differentiate import differentiate
from remat_algos.plan.plan import Plan
from remat_algos.plan.sensitivity import sensitivity
from tests.test_cli import CHAIN, CHAIN_EDGES, RESIDENT, RESIDENT_EDGES

pytestmark = pytest.mark.usefixtures("short_searches")


@pytest.fixture
def folder(tmp_path, monkeypatch, remat):
    """Two graphs, two plans for the chain and one for the other graph."""
    for name, nodes, edges in (("chain", CHAIN, CHAIN_EDGES), ("resident", RESIDENT, RESIDENT_EDGES)):
        (tmp_path / f"{name}.nodes.csv").write_text(nodes)
        (tmp_path / f"{name}.edges.csv").write_text(edges)
    monkeypatch.chdir(tmp_path)
    for graph, plan, budget in (("chain", "tight", "80%"), ("chain", "all", "100%"), ("resident", "other", "100%")):
        assert remat("solve", f"{graph}.nodes.csv", "--budget", budget, "-o", f"{plan}.json").code == 0
    return tmp_path


def refused(said, *named):
    """One sentence on standard error, exit code 2."""
    assert (said.code, said.out, said.err.count("\n")) == (2, "", 1)
    assert "bug" not in said.err
    return all(name in said.err for name in named)


def test_the_table_has_a_row_for_each_plan_and_the_nodes_below(remat, folder):
    said = remat("sensitivity", "chain.nodes.csv", "tight.json", "all.json")
    assert said.code == 0
    assert said.lines[0] == "overhead under 4,096 samples of the costs, noise 20 %"
    assert said.lines[1].split() == ["plan", "peak", "overhead", "mean", "90", "%", "worst", "best", "in"]
    assert [line.split()[0] for line in said.lines[2:4]] == ["tight.json", "all.json"]
    assert said.lines[3].endswith("100.0 %")
    assert "tight.json: nodes whose cost matters most for the overhead" in said.lines
    assert said.lines[-1] == "all.json: its overhead does not depend on the costs"


def test_json_has_what_python_computes(remat, folder):
    words = ("--noise", "35%", "--samples", "500", "--seed", "7", "--json")
    record = remat("sensitivity", "chain.nodes.csv", "tight.json", "all.json", *words).record
    graph = differentiate(read_graph("chain.nodes.csv"))
    plans = [Plan.load(name, graph) for name in ("tight.json", "all.json")]
    result = sensitivity(plans, noise=0.35, samples=500, seed=7)
    assert record == json.loads(json.dumps(result.record(["tight.json", "all.json"])))
    assert (record["noise"], record["samples"], record["seed"]) == (0.35, 500, 7)


def test_plans_of_one_name_are_told_apart_by_their_folders(remat, folder):
    (folder / "sub").mkdir()
    (folder / "sub" / "all.json").write_text((folder / "all.json").read_text())
    record = remat("sensitivity", "chain.nodes.csv", "all.json", "sub/all.json", "--json").record
    assert [plan["plan"] for plan in record["plans"]] == ["all.json", "sub/all.json"]
    assert [plan["best_share"] for plan in record["plans"]] == [1, 1]


def test_what_is_wrong_is_one_sentence(remat, folder):
    call = ("sensitivity", "chain.nodes.csv", "tight.json")
    assert refused(remat(*call, "--samples", "9"), "--samples is 9; give a whole number, 10 to 100,000")
    assert refused(remat(*call, "--samples", "-1"), "--samples")
    assert refused(remat(*call, "--seed", "x"), "--seed")
    assert refused(remat(*call, "other.json"), "other.json")
    assert refused(remat(*call, "none.json"), "none.json")
    assert refused(remat("sensitivity", "chain.nodes.csv"), "PLAN")
    (folder / "empty.json").write_text("{}")
    assert refused(remat(*call, "empty.json"), "not a plan")


@pytest.mark.parametrize("option", ["--noise", "--cost-noise"])
@pytest.mark.parametrize(
    "text", ["0", "0%", "-20%", "101%", "1.5", "nan", "inf", "x", "", "%", "20%%", "20 % x", "1e400"]
)
def test_a_noise_that_is_none_is_refused(remat, folder, option, text):
    call = {
        "--noise": ["sensitivity", "chain.nodes.csv", "tight.json"],
        "--cost-noise": ["solve", "chain.nodes.csv", "--budget", "80%"],
    }[option]
    assert refused(remat(*call, f"{option}={text}"), option, "more than 0% and at most 100%")


def test_a_share_without_its_sign_brings_the_sign(remat, folder):
    said = remat("solve", "chain.nodes.csv", "--budget", "80%", "--cost-noise", "20")
    assert refused(said, "did you mean 20%?")


@pytest.mark.parametrize("text", ["20%", "0.2", " 20 %", "2e1%"])
def test_solve_takes_a_noise_with_and_without_a_sign(remat, folder, text):
    said = remat("solve", "chain.nodes.csv", "--budget", "80%", "--cost-noise", text, "--json")
    robust = said.record["details"]["robust"]
    assert (said.code, robust["noise"], robust["samples"]) == (0, 0.2, 4096)


def test_the_printed_plan_has_a_line_of_it_and_the_file_is_verified(remat, folder):
    said = remat("solve", "chain.nodes.csv", "--budget", "80%", "--cost-noise", "20%", "-o", "robust.json")
    assert "cost noise 20 %: " in said.flat
    assert " more than one pass, or less, in 90 % of 4,096 samples; " in said.flat
    assert remat("verify", "chain.nodes.csv", "robust.json").code == 0


def test_the_quantile_of_a_plan_is_that_of_sensitivity(remat, folder):
    call = ("solve", "chain.nodes.csv", "--budget", "80%", "--cost-noise", "40%", "--seed", "5", "-o", "robust.json")
    robust = remat(*call, "--json").record["details"]["robust"]
    words = ("--noise", "40%", "--seed", "5", "--json")
    plan = remat("sensitivity", "chain.nodes.csv", "robust.json", *words).record["plans"][0]
    assert plan["quantile"] == robust["quantile"]


@pytest.mark.parametrize("allocator", ["arena", "cupy_pool", "cuda_caching"])
def test_other_allocators_are_refused(remat, folder, allocator):
    call = ("solve", "chain.nodes.csv", "--budget", "80%", "--cost-noise", "20%", "--allocator", allocator)
    assert refused(remat(*call), f"--cost-noise goes with --allocator peak; leave out --allocator {allocator}")
