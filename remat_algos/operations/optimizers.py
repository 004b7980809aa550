"""Optimizers: their states, and the update of a parameter as one operation or as element-wise steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from remat_algos.operations.formula import Array

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


# ---------------------------------------------------------------- operation by operation


class UpdateStep(NamedTuple):
    """An operation of the update of p; `m` stands for `m(p)`, `m@new` for `m(p)@new`, `p` for the parameter.

    Parameters
    ----------
    name, op : str
    reads : tuple of str
        Residents, and values of earlier steps.
    writes : tuple of str
        Residents; a write to p makes no value.
    """

    name: str
    op: str
    reads: tuple[str, ...]
    writes: tuple[str, ...] = ()


_MOMENTS = (
    UpdateStep("m@decayed", "Scale", ("m",)),
    UpdateStep("m@gradient", "Scale", ("grad",)),
    UpdateStep("m@new", "Add", ("m@decayed", "m@gradient"), ("m",)),
    UpdateStep("v@decayed", "Scale", ("v",)),
    UpdateStep("v@square", "Square", ("grad",)),
    UpdateStep("v@gradient", "Scale", ("v@square",)),
    UpdateStep("v@new", "Add", ("v@decayed", "v@gradient"), ("v",)),
    UpdateStep("m@corrected", "Scale", ("m@new",)),
    UpdateStep("v@corrected", "Scale", ("v@new",)),
    UpdateStep("v@root", "Sqrt", ("v@corrected",)),
    UpdateStep("v@shifted", "Add", ("v@root",)),
    UpdateStep("step@ratio", "Divide", ("m@corrected", "v@shifted")),
)
_UPDATE = UpdateStep("update", "Subtract", ("p", "step"), ("p",))


@dataclass(frozen=True, slots=True)
class Optimizer:
    """An optimizer: its states for each parameter, and its update.

    Parameters
    ----------
    name : str
    op : str
        The operation of its updates, as `Labels.ops` has it.
    update : callable
        `update(xp, rate, step, parameter, *state, gradient)` returns the new parameter and state; steps from 1 on.
    states : tuple of str
        Names of the states, each of the parameter's size.
    steps : tuple of UpdateStep
        The operations of an update, one by one.

    Examples
    --------
    >>> OPTIMIZERS["momentum"].states, OPTIMIZERS["momentum"].flops
    (('momentum',), 4)
    """

    name: str
    op: str
    update: Update
    states: tuple[str, ...]
    steps: tuple[UpdateStep, ...]

    @property
    def flops(self) -> int:
        """Floating-point operations of an update, per element."""
        return len(self.steps)

    @property
    def fused(self) -> UpdateStep:
        """An update as one operation."""
        return UpdateStep("update", self.op, ("p", *self.states, "grad"), ("p", *self.states))


OPTIMIZERS = {
    optimizer.name: optimizer
    for optimizer in (
        Optimizer("sgd", "SGD", _sgd, (), (UpdateStep("step", "Scale", ("grad",)), _UPDATE)),
        Optimizer(
            "momentum",
            "Momentum",
            _momentum,
            ("momentum",),
            (
                UpdateStep("momentum@decayed", "Scale", ("momentum",)),
                UpdateStep("momentum@new", "Add", ("momentum@decayed", "grad"), ("momentum",)),
                UpdateStep("step", "Scale", ("momentum@new",)),
                _UPDATE,
            ),
        ),
        Optimizer(
            "adam", "Adam", _adam, ("m", "v"), (*_MOMENTS, UpdateStep("step", "Scale", ("step@ratio",)), _UPDATE)
        ),
        Optimizer(
            "adamw",
            "AdamW",
            partial(_adam, decay=DECAY),
            ("m", "v"),
            (
                *_MOMENTS,
                UpdateStep("step@decay", "Scale", ("p",)),
                UpdateStep("step@sum", "Add", ("step@ratio", "step@decay")),
                UpdateStep("step", "Scale", ("step@sum",)),
                _UPDATE,
            ),
        ),
    )
}
"""Optimizers by name."""


def optimizer_of(op: str) -> Optimizer | None:
    """The optimizer whose updates are this operation, or None.

    Examples
    --------
    >>> optimizer_of("AdamW").name, optimizer_of("ReLU")
    ('adamw', None)
    """
    return next((optimizer for optimizer in OPTIMIZERS.values() if optimizer.op == op), None)
