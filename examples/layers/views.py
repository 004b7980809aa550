"""Views: an array in another shape, and the gradient through a view."""

from __future__ import annotations

from math import prod
from typing import Any

from remat_algos.zoo.builder import broadcasts
from remat_algos.zoo.network import Shape

from .formula import Array, sum_to_shape


def viewed(array: Array, shape: Shape, xp: Any) -> Array:
    """Return the array in another shape: the same elements, a part of them, or repeated along lengths of 1.

    Examples
    --------
    >>> import numpy as np
    >>> viewed(np.arange(6).reshape(1, 3, 2), (1, 2), np).tolist()
    [[0, 1]]
    """
    if array.shape == shape:
        return array
    if array.size == prod(shape):
        return array.reshape(shape)
    return xp.broadcast_to(array, shape) if broadcasts(array.shape, shape) else array[_cut(array.shape, shape)]


def view_gradient(gradient: Array, base: Shape, xp: Any) -> Array:
    """Return the gradient of an array of shape `base` from the gradient of its view (`viewed`).

    Examples
    --------
    >>> import numpy as np
    >>> view_gradient(np.array([[5.0, 6.0]]), (1, 3, 2), np).tolist()
    [[[5.0, 6.0], [0.0, 0.0], [0.0, 0.0]]]
    """
    shape = gradient.shape
    if prod(base) == gradient.size:
        return gradient.reshape(base)
    if broadcasts(base, shape):
        return sum_to_shape(gradient, base)
    whole = xp.zeros(base, gradient.dtype)
    whole[_cut(base, shape)] = gradient
    return whole


def can_view(base: Shape, shape: Shape) -> bool:
    """True if `viewed` has a rule for these shapes."""
    return prod(base) == prod(shape) or broadcasts(base, shape) or _cut(base, shape) is not None


def _cut(base: Shape, shape: Shape) -> Any:
    """The first elements along a shortened length, or the first place along a removed one."""
    if len(base) == len(shape) and all(m <= n for m, n in zip(shape, base, strict=True)):
        return tuple(slice(m) for m in shape)
    for axis in range(1, len(base)):
        if base[:axis] + base[axis + 1 :] == shape:
            return (slice(None),) * axis + (0,)
    return None
