"""Comparisons and output shared by the scripts with a plan per block."""

import torch

from remat_algos.interop.torch import measure_peak


def peak(model, step):
    """Bytes that a step adds, including gradients, measured after a first step that allocates buffers."""
    step(model)
    model.zero_grad(set_to_none=True)
    return measure_peak(lambda: step(model), [*model.parameters(), *model.buffers()]).allocator


def compare(plan, trained, expected, step):
    """Compare parameters bit for bit, and print the peaks of one more step."""
    for ours, theirs in zip(trained.parameters(), expected.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    print_peaks(plan.peak_memory, peak(trained, step), peak(expected, step))
    print("parameters are equal to those without a plan, bit for bit")


def print_peaks(predicted, measured, without):
    """Print one line, which the table of docs/torch_training.md shows."""
    print(f"peak predicted {predicted}, measured {measured}, without a plan {without} bytes")
