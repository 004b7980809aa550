"""Softmax, losses, means and sums."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from remat_algos.executor.formulas.formula import Array, Call, Formula, Readable, onehot
from remat_algos.executor.formulas.softmax import exponentials, softmax
from remat_algos.models.network import Shape


def _softmax_gradient(call: Call, k: int, reads: Readable, values: Readable, gradients: Sequence[Array]) -> Array:
    y, upstream = values[0], gradients[0]
    return y * (upstream - (upstream * y).sum(axis=-1, keepdims=True))


# ---------------------------------------------------------------- cross entropy


def _class_axis(call: Call) -> int:
    """The last one if there is a target for each row of it, else that of channels."""
    scores, targets = call.shape(0), call.shape(1)
    return -1 if prod(targets) == prod(scores[:-1]) else 1


def _one_hot(call: Call, targets: Array) -> Array:
    """bool, of the shape of the scores: the class that is the target."""
    axis, shape = _class_axis(call), call.shape(0)
    rows = shape[:-1] if axis == -1 else (shape[0], *shape[2:])
    return onehot(call.xp, targets.reshape(rows), shape[axis], axis)


def _cross_entropy(call: Call, x: Array, targets: Array) -> tuple[Array, Array]:
    xp, axis = call.xp, _class_axis(call)
    largest, exponential, total = exponentials(xp, x, axis)
    surprise = xp.log(total) - (x - largest)  # -log softmax
    loss = xp.where(_one_hot(call, targets), surprise, 0).sum() / targets.size  # inf * False would be no number
    return loss, exponential / total


def _cross_entropy_gradient(call: Call, k: int, reads: Readable, values: Readable, gradients: Sequence[Array]) -> Array:
    probabilities = values[1] if len(values) > 1 else softmax(call.xp, reads[0], _class_axis(call))
    return (probabilities - _one_hot(call, reads[1])) * (gradients[0] / reads[1].size)


# ---------------------------------------------------------------- means and sums


def _mean_square(call: Call, x: Array, target: Array) -> Array:
    return ((x - target) * (x - target)).mean()


def _mean_square_gradient(call: Call, k: int, reads: Readable, values: Readable, gradients: Sequence[Array]) -> Array:
    apart = reads[0] - reads[1]
    return apart * (gradients[0] * ((-2 if k else 2) / apart.size))


def _axes(before: Shape, after: Shape) -> tuple[int, ...]:
    """Those along which something is added up: all, those of which 1 is left, or the rows of a table."""
    if not after:
        return tuple(range(len(before)))
    return (0,) if _leaves_columns(before, after) else tuple(i for i, n in enumerate(after) if n != before[i])


def _leaves_columns(before: Shape, after: Shape) -> bool:
    """Whether a number is left for each column of a table; one for each row would look the same if it is square."""
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


LOSSES = {
    "Softmax": Formula(lambda call, x: softmax(call.xp, x), _softmax_gradient),
    "SoftmaxCrossEntropy": Formula(_cross_entropy, _cross_entropy_gradient),
    "MeanSquare": Formula(_mean_square, _mean_square_gradient),
    "Sum": Formula(_sum, _sum_gradient, _reduction_refusal),
    "Mean": Formula(
        lambda call, x: _sum(call, x) * _share(call),
        lambda call, *upstream: _sum_gradient(call, *upstream) * _share(call),
        _reduction_refusal,
    ),
}
