"""Sums, means and maxima along axes, and the softmax, also of fully masked rows."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from remat_algos.zoo.network import Shape

from .experts import ROUTED_SUM, is_routed
from .formula import Array, Call, Formula, Readable, either

# ---------------------------------------------------------------- softmax


def exponentials(xp: Any, x: Array, axis: int = -1) -> tuple[Array, Array, Array]:
    """Terms of a stable softmax along an axis: (max, exp(x - max), sum), whose max and sum keep it with length 1.

    A fully masked row, of minus infinities, has 0, zeros and 1: its softmax is zeros, not 0 / 0.

    Examples
    --------
    >>> import numpy as np
    >>> [part.tolist() for part in exponentials(np, np.array([[2.0, -np.inf], [-np.inf, -np.inf]]))]
    [[[2.0], [0.0]], [[1.0, 0.0], [0.0, 0.0]], [[1.0], [1.0]]]
    """
    largest = x.max(axis=axis, keepdims=True)
    largest = xp.where(largest == -np.inf, 0, largest)
    exponential = xp.exp(x - largest)
    total = exponential.sum(axis=axis, keepdims=True)
    return largest, exponential, xp.where(total == 0, 1, total)


def softmax(xp: Any, x: Array, axis: int = -1) -> Array:
    """Softmax along an axis; zeros in fully masked rows.

    Examples
    --------
    >>> import numpy as np
    >>> softmax(np, np.array([[3.0, 3.0], [3.0, -np.inf], [-np.inf, -np.inf]])).tolist()
    [[0.5, 0.5], [1.0, 0.0], [0.0, 0.0]]
    """
    _, exponential, total = exponentials(xp, x, axis)
    return exponential / total


def _softmax_gradient(call: Call, k: int, reads: Readable, values: Readable, gradients: Sequence[Array]) -> Array:
    y, upstream = values[0], gradients[0]
    return y * (upstream - (upstream * y).sum(axis=-1, keepdims=True))


# ---------------------------------------------------------------- sums and means


def _axes(before: Shape, after: Shape) -> tuple[int, ...]:
    """The axes that are summed: all, those of length 1 in the result, or the rows of a table."""
    if not after:
        return tuple(range(len(before)))
    return (0,) if _leaves_columns(before, after) else tuple(i for i, n in enumerate(after) if n != before[i])


def _leaves_columns(before: Shape, after: Shape) -> bool:
    """True if the sum has a number for each column of a table; for a square table rows would look the same."""
    return len(before) == 2 and after == before[1:] != before[:1]


def _sum(call: Call, x: Array) -> Array:
    shape: Shape = call.layer.shapes[0]
    return x.sum(axis=_axes(x.shape, shape)).reshape(shape)


def _sum_gradient(call: Call, k: int, reads: Readable, values: Readable, gradients: Sequence[Array]) -> Array:
    return gradients[0] + call.xp.zeros(call.shape(0), gradients[0].dtype)


def _share(call: Call) -> float:
    return max(1, prod(call.layer.shapes[0])) / max(1, prod(call.shape(0)))


def _reduction_refusal(call: Call) -> str | None:
    before, after = call.shape(0), call.layer.shapes[0]
    same = len(after) == len(before) and all(n in (1, m) for n, m in zip(after, before, strict=True))
    if not after or same or _leaves_columns(before, after):
        return None
    return f"adds up shape {before} to {after}, which does not say along which axes"


def _mean(call: Call, x: Array) -> Array:
    return _sum(call, x) * _share(call)


def _mean_gradient(call: Call, k: int, reads: Readable, values: Readable, gradients: Sequence[Array]) -> Array:
    return _sum_gradient(call, k, reads, values, gradients) * _share(call)


FORMULAS = {
    "Softmax": Formula(lambda call, x: softmax(call.xp, x), _softmax_gradient),
    "Mean": Formula(_mean, _mean_gradient, _reduction_refusal),
    "Sum": either(is_routed, ROUTED_SUM, Formula(_sum, _sum_gradient, _reduction_refusal)),
}
