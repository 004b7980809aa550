"""Losses: cross entropy, squared differences, connectionist temporal classification."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from .formula import Array, Call, Formula, Readable, onehot
from .reductions import exponentials, softmax

BLANK = 0
NEVER = -1e30  # the log of 0; differences of infinities would be nan

# ---------------------------------------------------------------- cross entropy


def _class_axis(call: Call) -> int:
    """The last axis if there is a target for each of its rows, else the channel axis."""
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
    loss = xp.where(_one_hot(call, targets), surprise, 0).sum() / targets.size  # inf * False would be nan
    return loss, exponential / total


def _cross_entropy_gradient(call: Call, k: int, reads: Readable, values: Readable, gradients: Sequence[Array]) -> Array:
    probabilities = values[1] if len(values) > 1 else softmax(call.xp, reads[0], _class_axis(call))
    return (probabilities - _one_hot(call, reads[1])) * (gradients[0] / reads[1].size)


def _classes(call: Call) -> tuple[int, range]:
    return 1, range(call.shape(0)[_class_axis(call)])


# ---------------------------------------------------------------- squared differences


def _mean_square(call: Call, x: Array, target: Array) -> Array:
    return ((x - target) * (x - target)).mean()


def _mean_square_gradient(call: Call, k: int, reads: Readable, values: Readable, gradients: Sequence[Array]) -> Array:
    difference = reads[0] - reads[1]
    return difference * (gradients[0] * ((-2 if k else 2) / difference.size))


# ---------------------------------------------------------------- connectionist temporal classification

# The probability of a transcript is the sum over its alignments. An alignment has a label or a blank for each step;
# equal adjacent ones are read as one, then blanks are left out. The transcript with a blank before, between and behind
# its labels is a row of places: each step stays, goes to the next place, or skips a blank between labels that differ.


def _places(xp: Any, targets: Array) -> Array:
    """int[batch, 2 * length + 1]: the labels, blanks around each."""
    labels = xp.full((targets.shape[0], 2 * targets.shape[1] + 1), BLANK, targets.dtype)
    labels[:, 1::2] = targets
    return labels


def _shift(xp: Any, rows: Array, by: int, filling: float) -> Array:
    """The array shifted by a number of places."""
    out = xp.full(rows.shape, filling, rows.dtype)
    out[:, by:] = rows[:, :-by]
    return out


def _log_softmax(xp: Any, x: Array) -> Array:
    """Log softmax of scores (steps, batch, classes); finite even for a score of minus infinity."""
    largest, _, total = exponentials(xp, x)
    return xp.maximum(x - largest - xp.log(total), NEVER)


def _at_places(xp: Any, logs: Array, labels: Array) -> Array:
    """(steps, batch, places): the log probability of the label of each place."""
    return logs[:, xp.arange(labels.shape[0])[:, None], labels]


def _forward_variables(xp: Any, logs: Array, labels: Array) -> Array:
    """(steps, batch, places): log probability of all paths to a place at a step, that step included."""
    skips = (labels != BLANK) & (labels != _shift(xp, labels, 2, BLANK))
    here = xp.full(logs.shape[1:], NEVER, logs.dtype)
    here[:, 0] = 0  # before the first step, in front of all
    out = xp.empty(logs.shape, logs.dtype)
    for step in range(logs.shape[0]):
        skipped = xp.where(skips, _shift(xp, here, 2, NEVER), NEVER)
        ways = xp.logaddexp(xp.logaddexp(here, _shift(xp, here, 1, NEVER)), skipped)
        out[step] = here = ways + logs[step]
    return out


def _total(xp: Any, alpha: Array) -> Array:
    """Log probability of each transcript; alignments end with its last label or with the blank behind it."""
    return xp.logaddexp(alpha[-1, :, -1], alpha[-1, :, -2])


def _possible(total: Array) -> Array:
    """bool[batch]: True if there is an alignment; steps may be too few for the labels."""
    return total > NEVER / 2


def _ctc(call: Call, x: Array, targets: Array) -> tuple[Array, Array]:
    """The mean over the batch of -log probability, and the forward variables."""
    xp = call.xp
    labels = _places(xp, targets)
    alpha = _forward_variables(xp, _at_places(xp, _log_softmax(xp, x), labels), labels)
    total = _total(xp, alpha)
    return xp.where(_possible(total), -total, np.inf).sum() / targets.shape[0], alpha


def _ctc_gradient(call: Call, k: int, reads: Readable, values: Readable, gradients: Sequence[Array]) -> Array:
    """Softmax minus the probability that an alignment of the transcript has the label at the step.

    Backward variables are forward variables of reversed steps and places. A transcript without an alignment has an
    infinite loss and no slope.
    """
    xp, x = call.xp, reads[0]
    labels, log_probabilities = _places(xp, reads[1]), _log_softmax(xp, x)
    logs = _at_places(xp, log_probabilities, labels)
    alpha = values[1] if len(values) > 1 else _forward_variables(xp, logs, labels)
    leaving = _forward_variables(xp, logs[::-1, :, ::-1], labels[:, ::-1])[::-1, :, ::-1]
    through = alpha + leaving - logs  # both contain the step itself
    through = xp.exp(through - through.max(axis=-1, keepdims=True))
    through /= through.sum(axis=-1, keepdims=True)  # the probability of the transcript, as rounded at this step
    classes = onehot(xp, labels, x.shape[-1]).astype(through.dtype)
    of_labels = xp.matmul(through.swapaxes(0, 1), classes).swapaxes(0, 1)
    slope = xp.exp(log_probabilities) - of_labels
    return slope * _possible(_total(xp, alpha))[:, None] * (gradients[0] / labels.shape[0])


def _ctc_refusal(call: Call) -> str | None:
    (steps, _, classes), (_, length) = call.shape(0), call.shape(1)
    if classes < 2:
        return "has no label beside the blank"
    return f"aligns {length} labels with {steps} steps; give at least as many steps" if steps < length else None


def _labels(call: Call) -> tuple[int, range]:
    return 1, range(BLANK + 1, call.shape(0)[-1])


FORMULAS = {
    "SoftmaxCrossEntropy": Formula(_cross_entropy, _cross_entropy_gradient, tokens=_classes),
    "CTCLoss": Formula(_ctc, _ctc_gradient, _ctc_refusal, tokens=_labels),
    "MeanSquare": Formula(_mean_square, _mean_square_gradient),
}
