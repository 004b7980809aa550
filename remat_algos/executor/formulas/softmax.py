"""Softmax, that of rows in which a mask allows nothing too."""

from __future__ import annotations

from typing import Any

import numpy as np

from remat_algos.executor.formulas.formula import Array


def exponentials(xp: Any, x: Array, axis: int = -1) -> tuple[Array, Array, Array]:
    """Terms of a stable softmax along an axis: (max, exp(x - max), sum), whose max and sum keep it with length 1.

    A row of minus infinities, in which nothing is allowed, has 0, zeros and 1: its softmax is zeros, not 0 / 0.

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
    """Shares that add up to 1 along an axis; zeros where nothing is allowed.

    Examples
    --------
    >>> import numpy as np
    >>> softmax(np, np.array([[3.0, 3.0], [3.0, -np.inf], [-np.inf, -np.inf]])).tolist()
    [[0.5, 0.5], [1.0, 0.0], [0.0, 0.0]]
    """
    _, exponential, total = exponentials(xp, x, axis)
    return exponential / total
