"""Convolution and pooling windows over a sequence, an image or a volume."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np

from remat_algos.zoo.network import Shape

from .formula import Array, Call, Formula, Readable


@dataclass(frozen=True, slots=True)
class Window:
    """The placement of windows on an image, a volume or a sequence.

    Parameters
    ----------
    image, places : tuple of int
        Lengths of the image, and the number of windows along each.
    kernel, stride, padding, dilation : tuple of int
    """

    image: Shape
    places: Shape
    kernel: Shape
    stride: Shape
    padding: Shape
    dilation: Shape

    @classmethod
    def of(cls, call: Call, image: Shape, places: Shape) -> Window:
        """The windows of a layer; the first two lengths of the image are batch and channels."""
        kernel, stride, dilation = (call.sizes(name) for name in ("kernel", "stride", "dilation"))
        return cls(image[2:], places[2:], kernel, stride, call.sizes("padding", 0), dilation)

    def parts(self) -> Iterator[tuple[slice, ...]]:
        """Yield the strided slice of the padded image that each kernel element is applied to."""
        for offset in product(*map(range, self.kernel)):
            yield tuple(
                slice(d * k, d * k + s * (n - 1) + 1, s)
                for k, d, s, n in zip(offset, self.dilation, self.stride, self.places, strict=True)
            )

    @property
    def padded_shape(self) -> Shape:
        """Lengths of the padded image, extended where windows reach past it."""
        lengths = zip(self.image, self.places, self.kernel, self.stride, self.padding, self.dilation, strict=True)
        return tuple(max(n + 2 * p, s * (m - 1) + d * (k - 1) + 1) for n, m, k, s, p, d in lengths)

    @property
    def inside(self) -> tuple[slice, ...]:
        """Slices of the image in the padded image."""
        return tuple(slice(p, p + n) for p, n in zip(self.padding, self.image, strict=True))

    def padded(self, xp: Any, x: Array, filling: float = 0) -> Array:
        """Pad the image; its first two axes are batch and channels."""
        if self.padded_shape == self.image:
            return x
        wide = xp.full((*x.shape[:2], *self.padded_shape), filling, x.dtype)
        wide[(..., *self.inside)] = x
        return wide

    def unfold(self, xp: Any, x: Array) -> Array:
        """(channels, kernel, batch, *places) from (batch, channels, *image): the elements of each window."""
        wide = self.padded(xp, x)
        out = xp.empty((x.shape[1], prod(self.kernel), x.shape[0], *self.places), x.dtype)
        for j, part in enumerate(self.parts()):
            out[:, j] = xp.moveaxis(wide[(..., *part)], 1, 0)
        return out

    def fold(self, xp: Any, seen: Array) -> Array:
        """Add up windows: (batch, channels, *image) from (channels, kernel, batch, ...).

        Kernel elements are added in a fixed order, so results repeat.
        """
        wide = xp.zeros((seen.shape[2], seen.shape[0], *self.padded_shape), seen.dtype)
        for j, part in enumerate(self.parts()):
            wide[(..., *part)] += xp.moveaxis(seen[:, j], 0, 1)
        return wide[(..., *self.inside)]


# ---------------------------------------------------------------- convolutions


def _columns(call: Call, window: Window, x: Array) -> Array:
    """(groups, channels of a group x kernel, batch x places)."""
    return window.unfold(call.xp, x).reshape(call.option("groups", 1), -1, x.shape[0] * prod(window.places))


def _rows(call: Call, y: Array) -> Array:
    """(groups, channels of a group, batch x places)."""
    groups = call.option("groups", 1)
    return call.xp.moveaxis(y, 1, 0).reshape(groups, y.shape[1] // groups, -1)


def _matrices(call: Call, weight: Array) -> Array:
    """(groups, channels of a group, elements of a window)."""
    groups = call.option("groups", 1)
    return weight.reshape(groups, weight.shape[0] // groups, -1)


def _image(call: Call, rows: Array, shape: Shape) -> Array:
    """(batch, channels, *lengths) from (groups, channels of a group, batch x places)."""
    return call.xp.moveaxis(rows.reshape(shape[1], shape[0], *shape[2:]), 0, 1)


def _with_bias(y: Array, bias: Sequence[Array]) -> Array:
    return y + bias[0].reshape(-1, *(1,) * (y.ndim - 2)) if bias else y


def _channel_sums(y: Array) -> Array:
    return y.sum(axis=(0, *range(2, y.ndim)))


def _convolution(call: Call, x: Array, weight: Array, *bias: Array) -> Array:
    shape = call.layer.shapes[0]
    window = Window.of(call, x.shape, shape)
    y = call.xp.matmul(_matrices(call, weight), _columns(call, window, x))
    return _with_bias(_image(call, y, shape), bias)


def _convolution_gradient(call: Call, k: int, reads: Readable, values: Readable, gradients: Sequence[Array]) -> Array:
    xp, (upstream,) = call.xp, gradients[:1]
    window = Window.of(call, call.shape(0), call.layer.shapes[0])
    if k == 2:
        return _channel_sums(upstream)
    rows = _rows(call, upstream)
    if k == 1:
        return xp.matmul(rows, _columns(call, window, reads[0]).swapaxes(1, 2)).reshape(call.shape(1))
    seen = xp.matmul(_matrices(call, reads[1]).swapaxes(1, 2), rows)
    return window.fold(xp, seen.reshape(call.shape(0)[1], prod(window.kernel), upstream.shape[0], *window.places))


def _transposed(call: Call, x: Array, weight: Array, *bias: Array) -> Array:
    shape = call.layer.shapes[0]
    # Windows of the convolution from the result to x.
    window = Window.of(call, shape, x.shape)
    seen = call.xp.matmul(_matrices(call, weight).swapaxes(1, 2), _rows(call, x))
    y = window.fold(call.xp, seen.reshape(shape[1], prod(window.kernel), shape[0], *window.places))
    return _with_bias(y, bias)


def _transposed_gradient(call: Call, k: int, reads: Readable, values: Readable, gradients: Sequence[Array]) -> Array:
    upstream = gradients[0]
    if k == 2:
        return _channel_sums(upstream)
    columns = _columns(call, Window.of(call, upstream.shape, call.shape(0)), upstream)
    if k == 1:
        return call.xp.matmul(_rows(call, reads[0]), columns.swapaxes(1, 2)).reshape(call.shape(1))
    return _image(call, call.xp.matmul(_matrices(call, reads[1]), columns), call.shape(0))


# ---------------------------------------------------------------- pooling


def _places(xp: Any, window: Window, part: tuple[slice, ...]) -> Array:
    """int64: index in the flat image of one element of each window."""
    place: Array = 0
    for i, (cut, padding, n) in enumerate(zip(part, window.padding, window.image, strict=True)):
        along = xp.arange(cut.start, cut.stop, cut.step, dtype=xp.int64) - padding
        place = place * n + along.reshape(-1, *(1,) * (len(part) - 1 - i))
    return place


def _max_pooling(call: Call, x: Array) -> tuple[Array, Array]:
    xp = call.xp
    window = Window.of(call, x.shape, call.layer.shapes[0])
    wide = window.padded(xp, x, -np.inf)
    best = xp.full((*x.shape[:2], *window.places), -np.inf, x.dtype)
    index = xp.zeros(best.shape, xp.int64)
    for part in window.parts():  # the first among equals
        candidate = wide[(..., *part)]
        better = (candidate > best) | xp.isnan(candidate)
        best = xp.where(better, candidate, best)
        index = xp.where(better, _places(xp, window, part), index)
    return best, index


def _max_pooling_gradient(call: Call, k: int, reads: Readable, values: Readable, gradients: Sequence[Array]) -> Array:
    xp, upstream = call.xp, gradients[0]
    window = Window.of(call, call.shape(0), upstream.shape)
    index = values[1] if values.may(1) else _max_pooling(call, reads[0])[1]
    wide = xp.zeros((*upstream.shape[:2], *window.padded_shape), upstream.dtype)
    for part in window.parts():
        wide[(..., *part)] += xp.where(index == _places(xp, window, part), upstream, 0)
    return wide[(..., *window.inside)]


def _average_pooling(call: Call, x: Array) -> Array:
    if "kernel" not in call.layer.attributes:
        return along(call.xp, x, _means(call))
    window = Window.of(call, x.shape, call.layer.shapes[0])
    wide = window.padded(call.xp, x)
    total: Array = sum(wide[(..., *part)] for part in window.parts())
    return total / prod(window.kernel)


def _average_pooling_gradient(
    call: Call, k: int, reads: Readable, values: Readable, gradients: Sequence[Array]
) -> Array:
    upstream = gradients[0]
    if "kernel" not in call.layer.attributes:
        return along(call.xp, upstream, [matrix.T for matrix in _means(call)])
    window = Window.of(call, call.shape(0), upstream.shape)
    share = upstream / prod(window.kernel)
    wide = call.xp.zeros((*upstream.shape[:2], *window.padded_shape), upstream.dtype)
    for part in window.parts():
        wide[(..., *part)] += share
    return wide[(..., *window.inside)]


# ---------------------------------------------------------------- other sizes


def along(xp: Any, x: Array, matrices: Sequence[Array]) -> Array:
    """Multiply an image by a matrix along each of its lengths."""
    for axis, matrix in enumerate(matrices, 2):
        product = xp.matmul(xp.moveaxis(x, axis, -1), xp.asarray(matrix.T.astype(x.dtype)))
        x = xp.moveaxis(product, -1, axis)
    return x


def _lengths(call: Call) -> Iterator[tuple[int, int]]:
    """Yield each length of the read and of the result."""
    return zip(call.shape(0)[2:], call.layer.shapes[0][2:], strict=True)


def _means(call: Call) -> list[Array]:
    """float64[m, n] for each length: means over m parts of n elements, as equal as possible."""
    matrices = []
    for n, m in _lengths(call):
        begin, end = np.arange(m) * n // m, -(-(np.arange(m) + 1) * n // m)
        inside = (np.arange(n) >= begin[:, None]) & (np.arange(n) < end[:, None])
        matrices.append(inside / (end - begin)[:, None])
    return matrices


def _neighbours(call: Call) -> list[Array]:
    """float64[m, n] for each length: weights of the two neighbours of each new element, or of the nearest one."""
    matrices = []
    for n, m in _lengths(call):
        at = np.clip((np.arange(m) + 0.5) * n / m - 0.5, 0, n - 1)
        if not call.option("linear", True):
            at = np.floor(np.arange(m) * n / m)
        matrix, low = np.zeros((m, n)), np.floor(at).astype(np.int64)
        np.add.at(matrix, (np.arange(m), low), 1 - (at - low))
        np.add.at(matrix, (np.arange(m), np.minimum(low + 1, n - 1)), at - low)
        matrices.append(matrix)
    return matrices


def _upsample_gradient(call: Call, k: int, reads: Readable, values: Readable, gradients: Sequence[Array]) -> Array:
    return along(call.xp, gradients[0], [matrix.T for matrix in _neighbours(call)])


FORMULAS = {
    "Convolution": Formula(_convolution, _convolution_gradient),
    "TransposedConvolution": Formula(_transposed, _transposed_gradient),
    "MaxPooling": Formula(_max_pooling, _max_pooling_gradient),
    "AveragePooling": Formula(_average_pooling, _average_pooling_gradient),
    "Upsample": Formula(lambda call, x: along(call.xp, x, _neighbours(call)), _upsample_gradient),
}
