"""Bytes that a device needs in addition to the values of a graph."""

from typing import Any

from remat_algos.errors import ArgumentError, ArgumentTypeError
from remat_algos.ir.budget import Amount, Budget
from remat_algos.ir.graph import ComputationGraph
from remat_algos.zoo.optimizers import OPTIMIZERS


def byte_limit(amount: Amount) -> int:
    """Convert an amount to bytes; the amount must not be relative."""
    limit = Budget(device=amount).memory_limit(0, 0)
    assert limit is not None
    return limit


def gradient_bytes(graph: ComputationGraph) -> int:
    return int(graph.memory[graph.output & ~graph.forward[graph.producer]].sum())


def kept_bytes(graph: ComputationGraph, optimizer: str | None, accumulate: bool = False) -> int:
    """Return the bytes of an optimizer's states and of accumulated gradients."""
    n_copies = accumulate + (0 if optimizer is None else len(OPTIMIZERS[optimizer].states))
    return n_copies * gradient_bytes(graph)


def check_reserved(budget: Any, optimizer: str | None, accumulate: bool, reserve: Amount) -> None:
    """Raise an error if the optimizer is unknown, or if `accumulate` or `reserve` is invalid for this budget."""
    if optimizer is not None and optimizer not in OPTIMIZERS:
        raise ArgumentError(
            "optimizer is {optimizer!r}; give one of {optimizers!l}, or reserve",
            optimizer=optimizer,
            optimizers=list(OPTIMIZERS),
        )
    device, free = getattr(budget, "device", None), byte_limit(reserve)
    if device is None and (free or accumulate):
        raise ArgumentTypeError('reserve and accumulate need a device budget, such as {"device": "16GiB"}; give one')
    if device is not None and free > byte_limit(device):
        raise ArgumentError(
            "reserve {reserve} exceeds the device budget {device}; give a smaller one", reserve=reserve, device=device
        )
