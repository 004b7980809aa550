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


@pytest.mark.parametrize("name", NAMES)
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
