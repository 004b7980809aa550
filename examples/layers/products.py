"""Matrix products, embeddings, attention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .formula import Array, Call, Formula, Readable, sum_to_shape
from .reductions import exponentials, softmax

# ---------------------------------------------------------------- linear layers


def _linear(call: Call, x: Array, weight: Array, *bias: Array) -> Array:
    y = call.xp.matmul(x.reshape(-1, x.shape[-1]), weight.T)
    return (y + bias[0] if bias else y).reshape(*x.shape[:-1], -1)


def _linear_gradient(call: Call, k: int, reads: Readable, values: Readable, gradients: Sequence[Array]) -> Array:
    rows = gradients[0].reshape(-1, gradients[0].shape[-1])
    if k == 0:
        return call.xp.matmul(rows, reads[1]).reshape(call.shape(0))
    if k == 1:
        return call.xp.matmul(rows.T, reads[0].reshape(-1, call.shape(0)[-1]))
    return rows.sum(axis=0)


# ---------------------------------------------------------------- products of matrices


def _repeat_heads(xp: Any, y: Array, heads: int) -> Array:
    """Repeat each matrix of y for the heads that share it."""
    return y if y.ndim < 4 or y.shape[-3] == heads else xp.repeat(y, heads // y.shape[-3], axis=-3)


def _sum_heads(gradient: Array, heads: int) -> Array:
    """The sum over the heads that share a matrix."""
    if gradient.ndim < 4 or gradient.shape[-3] == heads:
        return gradient
    shape = (*gradient.shape[:-3], heads, -1, *gradient.shape[-2:])
    return gradient.reshape(shape).sum(axis=-3)


def _heads(call: Call, k: int) -> int:
    return call.shape(k)[-3] if len(call.shape(k)) > 2 else 1


def _matmul(call: Call, x: Array, y: Array) -> Array:
    y = _repeat_heads(call.xp, y, _heads(call, 0))
    return call.xp.matmul(x, y.swapaxes(-1, -2) if call.option("transposed") else y)


def _matmul_gradient(call: Call, k: int, reads: Readable, values: Readable, gradients: Sequence[Array]) -> Array:
    matmul, upstream = call.xp.matmul, gradients[0]
    transposed = call.option("transposed", False)
    if k == 0:
        y = _repeat_heads(call.xp, reads[1], _heads(call, 0))
        return matmul(upstream, y if transposed else y.swapaxes(-1, -2))
    left, right = (upstream, reads[0]) if transposed else (reads[0], upstream)
    return _sum_heads(matmul(left.swapaxes(-1, -2), right), _heads(call, 1))


# ---------------------------------------------------------------- embeddings


def _embedding_gradient(call: Call, k: int, reads: Readable, values: Readable, gradients: Sequence[Array]) -> Array:
    """Sum the rows of each word pairwise: adjacent pairs, then pairs of these sums, and so on.

    No two additions of a round meet, so the order is the same on every device and in every run. Rounds grow
    with the log2 of the count of the most frequent word.
    """
    xp = call.xp
    words, rows = reads[0].reshape(-1), gradients[0].reshape(-1, gradients[0].shape[-1])
    order = xp.argsort(words, kind="stable")
    words, sums = words[order], rows[order]
    turn = xp.arange(words.size) - xp.searchsorted(words, words)  # among the rows of the same word
    while turn.any():
        even, odd = (xp.flatnonzero(turn % 2 == rest) for rest in (0, 1))
        sums[odd - 1] += sums[odd]
        words, sums, turn = words[even], sums[even], turn[even] // 2
    out = xp.zeros(call.shape(1), sums.dtype)
    out[words] = sums
    return out


# ---------------------------------------------------------------- fused attention


def _split_heads(call: Call, x: Array, heads: int) -> Array:
    """(batch, heads, rows, size) from (batch, rows, width)."""
    return x.reshape(*x.shape[:2], heads, -1).swapaxes(1, 2)


def _merge_heads(x: Array) -> Array:
    """(batch, rows, width) from (batch, heads, rows, size)."""
    return x.swapaxes(1, 2).reshape(x.shape[0], x.shape[2], -1)


def _scores(call: Call, q: Array, k: Array, others: Sequence[Array]) -> Array:
    """Scaled scores with bias and mask; k already has the heads of q."""
    scores = call.xp.matmul(q, k.swapaxes(-1, -2)) * q.shape[-1] ** -0.5
    for other in others:
        scores = call.xp.where(other, scores, -np.inf) if other.dtype == np.bool_ else scores + other
    return scores


def _sides(call: Call, q: Array, k: Array, v: Array) -> tuple[Array, Array, Array, int]:
    """q, k and v split by head, k and v repeated for the heads of q, and the number of heads of k and v."""
    heads = call.option("heads")
    shared = k.shape[-1] * heads // q.shape[-1]
    k, v = (_repeat_heads(call.xp, _split_heads(call, x, shared), heads) for x in (k, v))
    return _split_heads(call, q, heads), k, v, shared


def _attention(call: Call, q: Array, k: Array, v: Array, *others: Array) -> tuple[Array, Array]:
    xp = call.xp
    q, k, v, _ = _sides(call, q, k, v)
    largest, exponential, total = exponentials(xp, _scores(call, q, k, others))
    return _merge_heads(xp.matmul(exponential / total, v)), (xp.log(total) + largest)[..., 0]


def _attention_gradient(call: Call, at: int, reads: Readable, values: Readable, gradients: Sequence[Array]) -> Array:
    xp, heads = call.xp, call.option("heads")
    q, k, v, shared = _sides(call, reads[0], reads[1], reads[2])
    others = [reads[i] for i in range(3, len(reads))]
    scores = _scores(call, q, k, others)
    weights = xp.exp(scores - values[1][..., None]) if len(values) > 1 else softmax(xp, scores)
    upstream = _split_heads(call, gradients[0], heads)
    if at == 2:
        return _merge_heads(_sum_heads(xp.matmul(weights.swapaxes(-1, -2), upstream), shared))
    ours = (upstream * _split_heads(call, values[0], heads)).sum(axis=-1, keepdims=True)
    of_scores = weights * (xp.matmul(upstream, v.swapaxes(-1, -2)) - ours)
    if at > 2:
        return sum_to_shape(of_scores, call.shape(at))
    of_scores = of_scores * q.shape[-1] ** -0.5
    if at == 0:
        return _merge_heads(xp.matmul(of_scores, k))
    return _merge_heads(_sum_heads(xp.matmul(of_scores.swapaxes(-1, -2), q), shared))


FORMULAS = {
    "Linear": Formula(_linear, _linear_gradient),
    "MatMul": Formula(_matmul, _matmul_gradient),
    "Attention": Formula(_attention, _attention_gradient),
    "Embedding": Formula(
        lambda call, words, weight: weight[words],
        _embedding_gradient,
        tokens=lambda call: (0, range(call.shape(1)[0])),
    ),
}
