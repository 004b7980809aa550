"""Norms: of a batch, of rows, of groups of channels, of neighbouring channels."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from remat_algos.zoo.network import Shape

from .formula import Array, Call, Formula, Readable

EPSILON = 1e-5
LRN_ALPHA, LRN_BETA, LRN_BIAS = 1e-4, 0.75, 1.0  # as in PyTorch


class NormShapes(NamedTuple):
    """Shapes of a norm: of x, its means and its weights.

    Parameters
    ----------
    shape : tuple of int
        x as reshaped.
    over : tuple of int
        Axes along which means are taken.
    shared : tuple of int
        Axes along which the weight is constant.
    """

    shape: Shape
    over: Shape
    shared: Shape

    @property
    def statistics(self) -> Shape:
        """Shape of the means: 1 along the reduced axes."""
        return tuple(1 if i in self.over else n for i, n in enumerate(self.shape))

    @property
    def stored(self) -> Shape:
        """Shape of the means as values of the node."""
        return tuple(n for i, n in enumerate(self.shape) if i not in self.over)

    @property
    def weights(self) -> Shape:
        """Shape of the weights: 1 along the axes that share them."""
        return tuple(1 if i in self.shared else n for i, n in enumerate(self.shape))


def _layout(call: Call) -> NormShapes:
    shape = call.shape(0)
    rank = len(shape)
    if call.layer.op == "BatchNorm":
        others = (0, *range(2, rank))
        return NormShapes(shape, others, others)
    if call.layer.op == "GroupNorm":
        groups = call.layer.shapes[1][1]  # the means are (batch, groups)
        return NormShapes(
            (shape[0], groups, shape[1] // groups, *shape[2:]), tuple(range(2, rank + 1)), (0, *range(3, rank + 1))
        )
    return NormShapes(shape, (rank - 1,), tuple(range(rank - 1)))


def _statistics(call: Call, x: Array, layout: NormShapes) -> tuple[Array, Array]:
    """Means and reciprocal deviations of x, reshaped to the layout."""
    if call.layer.op == "RMSNorm":
        rstd = _rstd(call, x, layout)
        return rstd * 0, rstd
    mean = x.mean(axis=layout.over, keepdims=True)
    return mean, _rstd(call, x - mean, layout)


def _rstd(call: Call, centred: Array, layout: NormShapes) -> Array:
    return 1 / call.xp.sqrt((centred * centred).mean(axis=layout.over, keepdims=True) + EPSILON)


def _norm(call: Call, x: Array, weight: Array, *others: Array) -> tuple[Array, ...]:
    """The result, then the statistics; `others` are a bias and running statistics."""
    layout = _layout(call)
    rows = x.reshape(layout.shape)
    mean, rstd = _statistics(call, rows, layout)
    y = (rows - mean) * rstd * weight.reshape(layout.weights)
    mean, rstd = (statistic.reshape(layout.stored) for statistic in (mean, rstd))
    if call.layer.op == "RMSNorm":
        return y.reshape(x.shape), rstd
    return (y + others[0].reshape(layout.weights)).reshape(x.shape), mean, rstd


def _norm_gradient(call: Call, k: int, reads: Readable, values: Readable, gradients: Sequence[Array]) -> Array:
    layout = _layout(call)
    upstream = gradients[0].reshape(layout.shape)
    if k == 2:
        return upstream.sum(axis=layout.shared).reshape(call.shape(2))
    x = reads[0].reshape(layout.shape)
    mean, rstd = _saved_statistics(call, x, values, layout)
    normal = (x - mean) * rstd
    if k == 1:
        return (upstream * normal).sum(axis=layout.shared).reshape(call.shape(1))
    upstream = upstream * reads[1].reshape(layout.weights)
    inner = upstream - normal * (upstream * normal).mean(axis=layout.over, keepdims=True)
    if call.layer.op != "RMSNorm":
        inner = inner - upstream.mean(axis=layout.over, keepdims=True)
    return (inner * rstd).reshape(call.shape(0))


def _saved_statistics(call: Call, x: Array, values: Readable, layout: NormShapes) -> tuple[Array, Array]:
    """The statistics that the layer computed, or these recomputed from x if it has no such values."""
    if len(values) == 1:
        return _statistics(call, x, layout)
    *mean, rstd = (values[j].reshape(layout.statistics) for j in range(1, len(_names(call)) + 1))
    return (mean[0] if mean else rstd * 0), rstd


def _names(call: Call) -> tuple[str, ...]:
    return ("rstd",) if call.layer.op == "RMSNorm" else ("mean", "rstd")


def _group_refusal(call: Call) -> str | None:
    return (
        None if len(call.layer.shapes) > 1 else 'does not say how many groups it has; build with counting="framework"'
    )


# ---------------------------------------------------------------- neighbouring channels


def _neighbour_sums(call: Call, x: Array) -> Array:
    """Sums over each channel and its neighbours, the same number on both sides."""
    size = call.option("size", 5)
    before, channels = size // 2, x.shape[1]
    wide = call.xp.zeros((x.shape[0], channels + size - 1, *x.shape[2:]), x.dtype)
    wide[:, before : before + channels] = x
    total: Array = sum(wide[:, j : j + channels] for j in range(size))
    return total


def _response_norm(call: Call, x: Array) -> tuple[Array, Array]:
    scale = LRN_BIAS + LRN_ALPHA / call.option("size", 5) * _neighbour_sums(call, x * x)
    return x * scale**-LRN_BETA, scale


def _response_norm_gradient(call: Call, k: int, reads: Readable, values: Readable, gradients: Sequence[Array]) -> Array:
    x, upstream, size = reads[0], gradients[0], call.option("size", 5)
    scale = values[1] if len(values) > 1 else _response_norm(call, x)[1]
    share = upstream * x * scale ** (-LRN_BETA - 1)
    flipped = _neighbour_sums(call, share[:, ::-1])[:, ::-1]  # channels that have this one as a neighbour
    return upstream * scale**-LRN_BETA - 2 * LRN_BETA * LRN_ALPHA / size * x * flipped


def update_running(running: Array, statistic: Array, share: float = 0.1) -> None:
    """Move a running statistic towards that of the batch by a share, in place."""
    running *= 1 - share
    running += share * statistic.reshape(running.shape)


def unbiased_variance(call: Call, rstd: Array) -> Array:
    """Unbiased variance of a batch norm from `rstd`; clipped at 0, as rounding can make it negative."""
    count = prod(call.shape(0)) // call.shape(0)[1]
    return call.xp.maximum(1 / (rstd * rstd) - EPSILON, 0) * (count / max(1, count - 1))


def _track(call: Call, arguments: Sequence[Array], values: Sequence[Array]) -> None:
    """Move running means and variances towards those of the batch."""
    update_running(arguments[3], values[1])
    update_running(arguments[4], unbiased_variance(call, values[2]))


FORMULAS = {
    "BatchNorm": Formula(_norm, _norm_gradient, effect=_track),
    "LayerNorm": Formula(_norm, _norm_gradient),
    "GroupNorm": Formula(_norm, _norm_gradient, _group_refusal),
    "RMSNorm": Formula(_norm, _norm_gradient),
    "LocalResponseNorm": Formula(_response_norm, _response_norm_gradient),
}
