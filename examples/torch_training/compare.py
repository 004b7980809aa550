"""What the scripts with a plan per block print and compare."""

import torch

from remat_algos.interop.torch import measure_peak


def peak(model, step):
    """Bytes that a step takes beyond what was there, gradients included, after one that sets up buffers."""
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
    """One line for the table of the page."""
    print(f"peak predicted {predicted}, measured {measured}, without a plan {without} bytes")
