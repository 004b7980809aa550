"""The update of a parameter by each optimizer."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from .formula import Array

MOMENTUM = 0.9
BETAS = 0.9, 0.999
EPSILON = 1e-8
DECAY = 0.01  # of AdamW, in learning rates

Update = Callable[..., tuple[Array, ...]]
"""update(xp, rate, step, parameter, *state, gradient) -> the new parameter and state; steps from 1 on."""


def _sgd(xp: Any, rate: float, step: int, p: Array, gradient: Array) -> tuple[Array, ...]:
    return (p - rate * gradient,)


def _momentum(xp: Any, rate: float, step: int, p: Array, momentum: Array, gradient: Array) -> tuple[Array, ...]:
    momentum = MOMENTUM * momentum + gradient
    return p - rate * momentum, momentum


def _adam(
    xp: Any, rate: float, step: int, p: Array, m: Array, v: Array, gradient: Array, decay: float = 0.0
) -> tuple[Array, ...]:
    m = BETAS[0] * m + (1 - BETAS[0]) * gradient
    v = BETAS[1] * v + (1 - BETAS[1]) * (gradient * gradient)
    ratio = m / (1 - BETAS[0] ** step) / (xp.sqrt(v / (1 - BETAS[1] ** step)) + EPSILON)
    return p - rate * (ratio + decay * p if decay else ratio), m, v


UPDATES: dict[str, Update] = {
    "sgd": _sgd,
    "momentum": _momentum,
    "adam": _adam,
    "adamw": partial(_adam, decay=DECAY),
}
"""Updates by the name of their optimizer."""
