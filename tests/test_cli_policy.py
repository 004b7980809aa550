"""remat policy: within a budget, nearest to a plan, and beside what is set today."""

import json

import pytest

import remat_algos as ra
from remat_algos.plan.blocks import Blocks
from remat_algos.plan.policy import Policy, every_nth

MODEL = "model:llama_7b?depth=4&cost=roofline&device=h100-sxm&dtype=bfloat16"
FAST = "20000GB/s"


@pytest.fixture(scope="module")
def graph():
    return ra.differentiate(MODEL)


@pytest.mark.parametrize("semantics", ["eager", "graph"])
def test_the_policy_within_a_budget_is_that_of_the_library(remat, graph, tmp_path, semantics):
    file = tmp_path / "policy.json"
    words = ["policy", MODEL, "--blocks", "layers.*", "--budget", "60%", "--semantics", semantics]
    said = remat(*words, "-o", file, "--json")
    expected = ra.plan_policy(graph, "60%", "layers.*", semantics=semantics)
    assert said.record == json.loads(file.read_text()) == expected.record()
    assert Policy.load(file, graph).record() == expected.record()
    text = remat(*words)
    assert text.fine
    assert all(line in text.lines for line in str(expected).splitlines() if line.startswith(("peak", "gap")))


def test_a_setting_of_today_is_priced_at_its_own_peak(remat, graph):
    said = remat("policy", MODEL, "--blocks", "layers.*", "--against", "every_n=2", "--json")
    today = Policy.of(graph, blocks := Blocks.of(graph, "layers.*"), every_nth(blocks, 2))
    against = said.record["against"]
    assert (against["peak_memory"], against["overhead"]) == (today.peak_memory, today.overhead)
    assert said.record["limit"] == today.peak_memory  # without a budget: that of the setting
    assert against["policy_overhead"] == said.record["overhead"] <= today.overhead
    text = remat("policy", MODEL, "--blocks", "layers.*", "--against", "every_n=2", "--budget", "50%")
    assert [line for line in text.lines if line.startswith("every_n=2")]


def test_the_policy_nearest_to_a_plan_stands_beside_its_figures(remat, graph, tmp_path):
    file = tmp_path / "plan.json"
    assert remat("solve", MODEL, "--budget", "60%", "--effort", "fast", "-o", file).fine
    said = remat("policy", MODEL, file, "--blocks", "layers.*", "--semantics", "graph", "--json")
    plan = ra.Plan.load(file, graph)
    assert said.record["plan"]["overhead"] == plan.overhead
    assert said.record["peak_memory"] == plan.policy("layers.*").peak_memory
    assert remat("policy", MODEL, file, "--blocks", "layers.*", "--budget", "60%").code == 2
    several = remat("policy", MODEL, file, "--blocks", "layers.*|layers.*.mlp")
    assert several.code == 2
    assert "has 2 choices" in several.err


def test_what_stands_beside_a_plan_with_a_link_has_the_link(remat, graph, tmp_path):
    file = tmp_path / "plan.json"
    assert remat("solve", MODEL, "--budget", "40%", "--effort", "fast", "--link", FAST, "-o", file).fine
    words = ["policy", MODEL, file, "--blocks", "layers.*", "--semantics", "graph"]
    said = remat(*words, "--against", "every_n=1", "--json").record["against"]
    alone, rival = (
        ra.plan_policy(graph, said["peak_memory"], "layers.*", semantics="graph", link=link) for link in (None, FAST)
    )
    assert rival.overhead < alone.overhead
    assert said["policy_overhead"] == rival.overhead


def test_a_setting_counts_the_blocks_of_each_stack_of_the_first_cut(remat, graph):
    stacks = "layers.*.self_attn,layers.*.mlp"
    words = ["policy", MODEL, "--blocks", f"{stacks}|layers.*", "--against", "every_n=2"]
    today = Policy.of(graph, blocks := Blocks.of(graph, stacks), every_nth(blocks, 2))
    assert [each.name for each in today.treatments if each.decision == "recompute"] == [
        f"layers.{b}.{part}" for b in (0, 2) for part in ("self_attn", "mlp")
    ]
    said = remat(*words, "--json").record["against"]
    assert (said["overhead"], said["blocks"]) == (today.overhead, stacks)
    assert f"blocks {stacks}" in " ".join(" ".join(remat(*words).lines).split())


def test_a_link_offers_a_third_treatment(remat):
    words = ["policy", MODEL, "--blocks", "layers.*", "--budget", "least", "--link", "nvlink-c2c", "--json"]
    assert remat(*words).record["offload"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--blocks", "layers.*"], 2, "--against every_n=2"),
        (["--blocks", "layer.*", "--budget", "50%"], 2, "layers.*.self_attn"),
        (["--blocks", "layers.*,layers.*.mlp", "--budget", "50%"], 2, "layers.0.mlp"),
        (["--blocks", "layers.*", "--budget", "1MiB"], 3, "lowest"),
        (["--blocks", "layers.*", "--against", "every=2"], 2, "every_n=2"),
        (["--budget", "50%"], 2, "--blocks"),
    ],
)
def test_what_is_refused_says_what_to_give(remat, words, code, said):
    found = remat("policy", MODEL, *words)
    assert found.code == code
    assert said in found.err
    assert found.err.count("\n") == 1
