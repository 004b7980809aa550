"""Joint graphs of five models of PyTorch, planned without it: never above the plans of torch's own planner.

`python -m tests.benchmarks.torch_budget` captured the graphs in tests/golden/torch and measured torch's plans, whose
peaks and compute docs/results/torch_budget.json records.
"""

import json
import statistics
from pathlib import Path

import pytest

import remat_algos as ra

ROOT = Path(__file__).resolve().parents[1]
RECORDED = json.loads((ROOT / "docs" / "results" / "torch_budget.json").read_text(encoding="utf-8"))
NAMES = ("resnet50", "unet", "gpt", "moe", "lstm")
MEAN_RATIO = 0.75  # of our overhead and torch's


@pytest.mark.parametrize("name", [*NAMES[:2], pytest.param("gpt", marks=pytest.mark.slow), *NAMES[3:]])
def test_at_each_peak_of_torch_the_plan_computes_no_more(name):
    graph = ra.read_graph(ROOT / "tests" / "golden" / "torch" / f"{name}.npz")
    one_pass = graph.needed_compute
    ratios = []
    for peak, compute in RECORDED[name]["torch_best"]:
        plan = ra.solve(graph, peak, effort="fast")
        assert plan.peak_memory <= peak
        assert plan.simulation.compute <= compute
        if compute > one_pass:
            ratios.append(max(plan.overhead, 1) / (compute - one_pass))
    assert statistics.geometric_mean(ratios) <= MEAN_RATIO


TITLES = {"ResNet-50": "resnet50", "U-Net": "unet", "GPT": "gpt", "Mixture of experts": "moe", "LSTM": "lstm"}


def test_the_page_says_what_is_recorded():
    page = " ".join((ROOT / "docs" / "torch.md").read_text(encoding="utf-8").split())
    for title, name in TITLES.items():
        found = RECORDED[name]
        base, one_pass = found["base"], found["one_pass"]
        (peak, theirs), (_, ours, _) = found["torch_best"][-1], found["ours"][-1]
        more = [f"{100 * (compute / one_pass - 1):.1f} %" for compute in (theirs, ours)]
        shares = [f"{100 * amount / base:.1f} %" for amount in (peak, found["least"])]
        row = f"| {title} | {shares[0]} | {more[0]} | {more[1]} | {found['mean_ratio']:.2f} | {shares[1]} |"
        assert row in page
    assert all(RECORDED[name]["never_above"] for name in NAMES)
    blocks, base, one_pass = RECORDED["gpt"]["blocks"], RECORDED["gpt"]["base"], RECORDED["gpt"]["one_pass"]
    peak, our_peak = (f"{100 * blocks[key] / base:.1f} %" for key in ("peak", "our_peak"))
    more, our_more = (f"{100 * (blocks[key] / one_pass - 1):.1f} %" for key in ("compute", "our_compute"))
    assert f"of the GPT reaches {peak} of the peak for {more} more compute; ours takes {our_more} at that peak" in page
    assert f"and reaches {our_peak} for that compute" in page
