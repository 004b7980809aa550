"""The part of the run of a GPU that trains in PyTorch, on the CPU."""

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed (extra torch)")

from tests.benchmarks import torch_steps


def test_a_model_is_trained_in_three_ways():
    about, eager, ours, theirs = torch_steps.results(quick=True)
    assert set(about) == {"torch", "cuda", "card"}
    assert [r["method"] for r in (eager, ours, theirs)] == ["eager", "remat 50%", "activation_memory_budget"]
    assert ours["loss"] == eager["loss"]
    assert abs(ours["predicted_peak"] - ours["peak"]) <= 4  # the gradient of the loss
    assert ours["peak"] < eager["peak"]
    assert 0 <= theirs["share"] < 1
    assert ours["slowdown"] > 0


def test_what_cannot_run_says_why(monkeypatch):
    training = torch_steps.Training.of("small gpt")

    def refuse(*inputs):
        raise RuntimeError("no memory\nat all")

    assert training.measured(refuse) == {"error": "RuntimeError: no memory"}
    assert torch_steps.recorded("small gpt", "eager", lambda training: {"error": "no"}, {"seconds": 1.0}) == {
        "model": "small gpt",
        "method": "eager",
        "error": "no",
    }
