"""Products of matrices, embeddings, attention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from remat_algos.executor.formulas.formula import Array, Call, Formula, Seen, fitted

# ---------------------------------------------------------------- linear layers


def _linear(call: Call, x: Array, weight: Array, *bias: Array) -> Array:
    y = call.xp.matmul(x.reshape(-1, x.shape[-1]), weight.T)
    return (y + bias[0] if bias else y).reshape(*x.shape[:-1], -1)


def _linear_gradient(call: Call, k: int, reads: Seen, values: Seen, gradients: Sequence[Array]) -> Array:
    rows = gradients[0].reshape(-1, gradients[0].shape[-1])
    if k == 0:
        return call.xp.matmul(rows, reads[1]).reshape(call.shape(0))
    if k == 1:
        return call.xp.matmul(rows.T, reads[0].reshape(-1, call.shape(0)[-1]))
    return rows.sum(axis=0)


# ---------------------------------------------------------------- products of matrices


def _spread(xp: Any, y: Array, heads: int) -> Array:
    """Matrices of y, each as often as heads share it."""
    return y if y.ndim < 4 or y.shape[-3] == heads else xp.repeat(y, heads // y.shape[-3], axis=-3)


def _gathered(gradient: Array, heads: int) -> Array:
    """The sum over the heads that share a matrix."""
    if gradient.ndim < 4 or gradient.shape[-3] == heads:
        return gradient
    shape = (*gradient.shape[:-3], heads, -1, *gradient.shape[-2:])
    return gradient.reshape(shape).sum(axis=-3)


def _heads(call: Call, k: int) -> int:
    return call.shape(k)[-3] if len(call.shape(k)) > 2 else 1


def _matmul(call: Call, x: Array, y: Array) -> Array:
    y = _spread(call.xp, y, _heads(call, 0))
    return call.xp.matmul(x, y.swapaxes(-1, -2) if call.option("transposed") else y)


def _matmul_gradient(call: Call, k: int, reads: Seen, values: Seen, gradients: Sequence[Array]) -> Array:
    matmul, given = call.xp.matmul, gradients[0]
    turned = call.option("transposed", False)
    if k == 0:
        y = _spread(call.xp, reads[1], _heads(call, 0))
        return matmul(given, y if turned else y.swapaxes(-1, -2))
    left, right = (given, reads[0]) if turned else (reads[0], given)
    return _gathered(matmul(left.swapaxes(-1, -2), right), _heads(call, 1))


# ---------------------------------------------------------------- embeddings


def _embedding_gradient(call: Call, k: int, reads: Seen, values: Seen, gradients: Sequence[Array]) -> Array:
    """Rows added to the words they belong to: of each word first the first one, then the second one, and so on.

    No two additions of a round meet, so the order is the same on every device and in every run.
    """
    xp = call.xp
    words, rows = reads[0].reshape(-1), gradients[0].reshape(-1, gradients[0].shape[-1])
    out = xp.zeros(call.shape(1), rows.dtype)
    order = xp.argsort(words, kind="stable")
    by_word = words[order]
    turn = xp.arange(words.size) - xp.searchsorted(by_word, by_word)
    for k_th in range(int(turn.max()) + 1 if words.size else 0):
        chosen = order[turn == k_th]
        out[words[chosen]] += rows[chosen]
    return out


# ---------------------------------------------------------------- fused attention


def _by_head(call: Call, x: Array, heads: int) -> Array:
    """(batch, heads, rows, size) of (batch, rows, width)."""
    return x.reshape(*x.shape[:2], heads, -1).swapaxes(1, 2)


def _joined(x: Array) -> Array:
    """(batch, rows, width) of (batch, heads, rows, size)."""
    return x.swapaxes(1, 2).reshape(x.shape[0], x.shape[2], -1)


def _scores(call: Call, q: Array, k: Array, others: Sequence[Array]) -> Array:
    """Scaled, with their bias and their mask; k already has as many heads as q."""
    scores = call.xp.matmul(q, k.swapaxes(-1, -2)) * q.shape[-1] ** -0.5
    for other in others:
        if other.dtype == np.bool_:
            scores = call.xp.where(other, scores, call.xp.full((), -np.inf, scores.dtype))
        else:
            scores = scores + other
    return scores


def _sides(call: Call, q: Array, k: Array, v: Array) -> tuple[Array, Array, Array, int]:
    """By head, those of k and v spread; and how many heads they have."""
    heads = call.option("heads")
    shared = k.shape[-1] * heads // q.shape[-1]
    k, v = (_spread(call.xp, _by_head(call, x, shared), heads) for x in (k, v))
    return _by_head(call, q, heads), k, v, shared


def _attention(call: Call, q: Array, k: Array, v: Array, *others: Array) -> tuple[Array, Array]:
    xp = call.xp
    q, k, v, _ = _sides(call, q, k, v)
    scores = _scores(call, q, k, others)
    largest = scores.max(axis=-1, keepdims=True)
    e = xp.exp(scores - largest)
    total = e.sum(axis=-1, keepdims=True)
    return _joined(xp.matmul(e / total, v)), (xp.log(total) + largest)[..., 0]


def _attention_gradient(call: Call, at: int, reads: Seen, values: Seen, gradients: Sequence[Array]) -> Array:
    xp, heads = call.xp, call.option("heads")
    q, k, v, shared = _sides(call, reads[0], reads[1], reads[2])
    others = [reads[i] for i in range(3, len(reads))]
    scores = _scores(call, q, k, others)
    if len(values) > 1:
        shares = xp.exp(scores - values[1][..., None])
    else:
        e = xp.exp(scores - scores.max(axis=-1, keepdims=True))
        shares = e / e.sum(axis=-1, keepdims=True)
    given = _by_head(call, gradients[0], heads)
    if at == 2:
        return _joined(_gathered(xp.matmul(shares.swapaxes(-1, -2), given), shared))
    ours = (given * _by_head(call, values[0], heads)).sum(axis=-1, keepdims=True)
    of_scores = shares * (xp.matmul(given, v.swapaxes(-1, -2)) - ours)
    if at > 2:
        return fitted(of_scores, call.shape(at))
    of_scores = of_scores * q.shape[-1] ** -0.5
    if at == 0:
        return _joined(xp.matmul(of_scores, k))
    return _joined(_gathered(xp.matmul(of_scores.swapaxes(-1, -2), q), shared))


PRODUCTS = {
    "Linear": Formula(_linear, _linear_gradient),
    "MatMul": Formula(_matmul, _matmul_gradient),
    "Embedding": Formula(lambda call, words, weight: weight[words], _embedding_gradient),
    "Attention": Formula(_attention, _attention_gradient),
}
