"""The part of the run of a GPU that trains in PyTorch, on the CPU."""

import math

import pytest
import torch

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
    assert ours["gradient_difference"] == 0
    assert "gradient_difference" not in theirs  # other dropout masks


def test_a_wrong_gradient_of_one_parameter_is_seen():
    small, large, rounding = torch.ones(2), torch.full((3,), 100.0), torch.full((1,), 1e-9)
    expected = [small, large, rounding]
    assert torch_steps.gradient_difference(expected, expected) == 0
    assert torch_steps.gradient_difference([2 * small, large, rounding], expected) == pytest.approx(1)
    assert torch_steps.gradient_difference([small, large, -rounding], expected) < 1e-6
    assert torch_steps.gradient_difference([small, large], expected) == math.inf
    assert torch_steps.gradient_difference([small * math.nan, large, rounding], expected) == math.inf


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
