"""Formulas: the values of a kind of operation, and its gradient with respect to each argument."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from remat_algos.errors import GraphError
from remat_algos.wording import shortened
from remat_algos.zoo.network import Layer, Shape

Array = Any
"""A NumPy or CuPy array."""

WORD = 1 << 32


@dataclass(frozen=True, slots=True)
class Call:
    """An operation of a network, as formulas see it.

    Parameters
    ----------
    layer : Layer
        With its `arguments`.
    xp : module
        numpy or cupy.
    seed : int
        Random seed of dropout; below 2**32.
    dropped : float
        Share of the elements that dropout sets to 0.
    """

    layer: Layer
    xp: Any
    seed: int = 0
    dropped: float = 0.1

    def shape(self, k: int) -> Shape:
        """Shape of argument k, as a view."""
        return self.layer.arguments[k].shape

    def option(self, name: str, default: Any = None) -> Any:
        """An attribute of the layer."""
        return self.layer.attributes.get(name, default)

    def sizes(self, name: str, default: int = 1) -> Shape:
        """An attribute with one number for all lengths of an image, or one for each."""
        size = self.layer.attributes.get(name, default)
        return size if isinstance(size, tuple) else (size,) * (len(self.shape(0)) - 2)

    def drawn(self, shape: Shape) -> Array:
        """bool: the elements that dropout keeps, the same on every backend and in every run."""
        xp = self.xp
        bits = xp.arange(prod(shape), dtype=xp.uint32)
        for factor in (0x9E3779B1, 0x85EBCA6B, 0xC2B2AE35):
            bits = (bits ^ xp.uint32(self.seed)) * xp.uint32(factor)
            bits ^= bits >> xp.uint32(15)
        return (bits >= xp.uint32(min(round(self.dropped * WORD), WORD - 1))).reshape(shape)


class Readable(Sequence[Any]):
    """Arrays that a gradient may read; None for one that it may not.

    Raises
    ------
    GraphError
        If such an array is accessed.

    Examples
    --------
    >>> Readable("the gradient of conv", "argument", ["x", None])[0]
    'x'
    """

    __slots__ = ("arrays", "node", "what")

    def __init__(self, node: str, what: str, arrays: Sequence[Array | None]) -> None:
        self.node, self.what, self.arrays = node, what, arrays

    def __len__(self) -> int:
        return len(self.arrays)

    def __getitem__(self, k: Any) -> Array:
        array = self.arrays[k]
        if array is None:
            raise GraphError(
                f"{self.node} needs {self.what} {shortened(k)}, which the graph does not let it read; save it"
            )
        return array

    def may(self, k: int) -> bool:
        """True if array k may be read."""
        return k < len(self.arrays) and self.arrays[k] is not None


Forward = Callable[..., Any]
"""forward(call, *arguments) -> the first value, or all of them as a tuple; effects may be left out."""

Gradient = Callable[[Call, int, Readable, Readable, Sequence[Any]], Array]
"""gradient(call, k, arguments, values, gradients of values) -> that of argument k, in the shape of its view."""


def accept_all(call: Call) -> str | None:
    """Accept every call: no reason to refuse it."""
    return None


@dataclass(frozen=True, slots=True)
class Formula:
    """Forward and gradient of a kind of operation.

    Parameters
    ----------
    forward : callable
        `forward(call, *arguments)` returns the first value, or a tuple of all; effects may be left out.
    gradient : callable, optional
        `gradient(call, k, arguments, values, gradients)` returns that of argument k from the readable arrays and the
        gradients of the values (None if absent). None: the kind has no gradient.
    refuses : callable
        `refuses(call)` returns the reason why it does not apply, or None.
    effect : callable, optional
        `effect(call, arguments, values)` changes residents among the arguments in place; called after the first run.
    tokens : callable, optional
        `tokens(call)` returns the argument of whole numbers, such as words or targets, and their range.
    draws : bool
        True if it draws random numbers (`Call.drawn`).

    Examples
    --------
    >>> cube = Formula(
    ...     lambda call, x: x * x * x,
    ...     lambda call, k, arguments, values, gradients: gradients[0] * 3 * arguments[0] ** 2,
    ... )
    >>> cube.forward(None, 2), cube.gradient(None, 0, [2], [8], [1])
    (8, 12)
    """

    forward: Forward
    gradient: Gradient | None
    refuses: Callable[[Call], str | None] = accept_all
    effect: Callable[[Call, Sequence[Array], Sequence[Array]], None] | None = None
    tokens: Callable[[Call], tuple[int, range]] | None = None
    draws: bool = False


def either(when: Callable[[Call], bool], one: Formula, other: Formula) -> Formula:
    """The formula of a kind that has two, by a property of its layer.

    Examples
    --------
    >>> import numpy as np
    >>> from remat_algos.zoo.network import Layer, Tensor
    >>> twice, half = (Formula(lambda call, x, f=f: f * x, None) for f in (2, 0.5))
    >>> large = either(lambda call: call.shape(0) > (2,), half, twice)
    >>> layer = Layer("scale", "Scale", "", ((3,),), ("float32",), (), 0, 0, 0, {}, (Tensor(0, (3,), "float32"),))
    >>> large.forward(Call(layer, np), np.array([1, 2, 3])).tolist()
    [0.5, 1.0, 1.5]
    """

    def chosen(call: Call) -> Formula:
        return one if when(call) else other

    return Formula(
        lambda call, *arguments: chosen(call).forward(call, *arguments),
        lambda call, *upstream: chosen(call).gradient(call, *upstream),  # type: ignore[misc]  # not None if called
        lambda call: chosen(call).refuses(call),
    )


def sum_to_shape(array: Array, shape: Shape) -> Array:
    """The sum over broadcast axes: the gradient of an array of `shape`.

    Examples
    --------
    >>> import numpy as np
    >>> sum_to_shape(np.ones((4, 2, 3)), (2, 1)).tolist()
    [[12.0], [12.0]]
    """
    extra = array.ndim - len(shape)
    axes = [*range(extra), *(extra + i for i, n in enumerate(shape) if n == 1 and array.shape[extra + i] > 1)]
    return (array.sum(axis=tuple(axes)) if axes else array).reshape(shape)


def onehot(xp: Any, places: Array, count: int, axis: int = -1) -> Array:
    """bool: an extra axis of length `count`, True at the place.

    Examples
    --------
    >>> import numpy as np
    >>> onehot(np, np.array([1, 0]), 2).tolist()
    [[False, True], [True, False]]
    """
    matches = places[..., None] == xp.arange(count, dtype=places.dtype)
    return xp.moveaxis(matches, -1, axis)
