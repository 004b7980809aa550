"""Element-wise operations: activations, sums, products, masks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from .formula import Array, Call, Formula, Readable, sum_to_shape

CUBIC = 0.044715  # coefficient of the GELU approximation
SLOPE = float(np.sqrt(2 / np.pi))
BASE = 10_000  # base of rotary embeddings


def of_output(forward: Callable[[Any, Array], Array], slope: Callable[[Any, Array], Array]) -> Formula:
    """y = forward(xp, x), whose derivative is slope(xp, y)."""
    return Formula(
        lambda call, x: forward(call.xp, x),
        lambda call, k, reads, values, gradients: gradients[0] * slope(call.xp, values[0]),
    )


def of_input(forward: Callable[[Any, Array], Array], slope: Callable[[Any, Array], Array]) -> Formula:
    """y = forward(xp, x), whose derivative is slope(xp, x)."""
    return Formula(
        lambda call, x: forward(call.xp, x),
        lambda call, k, reads, values, gradients: gradients[0] * slope(call.xp, reads[0]),
    )


def _sigmoid(xp: Any, x: Array) -> Array:
    """1 / (1 + exp(-x)), by tanh, which never overflows."""
    return 0.5 * xp.tanh(0.5 * x) + 0.5


def _silu_slope(xp: Any, x: Array) -> Array:
    sigmoid = _sigmoid(xp, x)
    return sigmoid * (1 + x * (1 - sigmoid))


def _gelu(xp: Any, x: Array) -> Array:
    return 0.5 * x * (1 + xp.tanh(SLOPE * (x + CUBIC * x * x * x)))


def _gelu_slope(xp: Any, x: Array) -> Array:
    tanh = xp.tanh(SLOPE * (x + CUBIC * x * x * x))
    return 0.5 * (1 + tanh) + 0.5 * x * (1 - tanh * tanh) * (SLOPE * (1 + 3 * CUBIC * x * x))


def _broadcast_refusal(call: Call) -> str | None:
    """Return a reason if NumPy would not broadcast the shapes to that of the result."""
    shapes = [x.shape for x in call.layer.arguments]
    try:
        fits = np.broadcast_shapes(*shapes) == call.layer.shapes[0]
    except ValueError:
        fits = False
    return None if fits else f"joins shapes {', '.join(map(str, shapes))} to {call.layer.shapes[0]}"


def _add(call: Call, *terms: Array) -> Array:
    return reduce(lambda x, y: x + y, terms)


def _add_gradient(call: Call, k: int, reads: Readable, values: Readable, gradients: Sequence[Array]) -> Array:
    return sum_to_shape(gradients[0], call.shape(k))


def _subtract_gradient(call: Call, k: int, reads: Readable, values: Readable, gradients: Sequence[Array]) -> Array:
    return sum_to_shape(-gradients[0] if k else gradients[0], call.shape(k))


def _multiply(call: Call, *factors: Array) -> Array:
    return reduce(lambda x, y: x * y, factors)


def _multiply_gradient(call: Call, k: int, reads: Readable, values: Readable, gradients: Sequence[Array]) -> Array:
    others = [reads[i] for i in range(len(reads)) if i != k]
    return sum_to_shape(_multiply(call, gradients[0], *others), call.shape(k))


def _divide_gradient(call: Call, k: int, reads: Readable, values: Readable, gradients: Sequence[Array]) -> Array:
    upstream = gradients[0] / reads[1]
    return sum_to_shape(upstream * (-reads[0] / reads[1]) if k else upstream, call.shape(k))


def _scale(call: Call, x: Array) -> Array:
    return x * call.option("factor", 0.5)


def _scale_gradient(call: Call, k: int, reads: Readable, values: Readable, gradients: Sequence[Array]) -> Array:
    return gradients[0] * call.option("factor", 0.5)


def _mask(call: Call, x: Array, allowed: Array) -> Array:
    return call.xp.where(allowed, x, -np.inf)


def _mask_gradient(call: Call, k: int, reads: Readable, values: Readable, gradients: Sequence[Array]) -> Array:
    return sum_to_shape(call.xp.where(reads[1], gradients[0], 0), call.shape(0))


def _dropout(call: Call, x: Array, *mask: Array) -> Array:
    return x * (mask[0] if mask else call.drawn(x.shape)) * (1 / (1 - call.dropped))


def _dropout_gradient(call: Call, k: int, reads: Readable, values: Readable, gradients: Sequence[Array]) -> Array:
    return _dropout(call, gradients[0], *([reads[1]] if len(reads) > 1 else []))


def _rotate(call: Call, x: Array, sign: int) -> Array:
    """Rotate pairs of elements of a row by angles that grow with the position of the row."""
    xp = call.xp
    rows, width = x.shape[-2:]
    frequency = BASE ** (-2 * np.arange(width // 2) / width)
    angle = np.arange(rows)[:, None] * frequency
    cosine, sine = (xp.asarray(f(angle).astype(x.dtype)) for f in (np.cos, np.sin))
    even, odd = x[..., 0::2], x[..., 1::2]
    out = xp.empty_like(x)
    out[..., 0::2] = even * cosine - sign * odd * sine
    out[..., 1::2] = odd * cosine + sign * even * sine
    return out


FORMULAS = {
    "ReLU": of_output(lambda xp, x: xp.maximum(x, 0), lambda xp, y: y > 0),
    "ReLU6": of_output(lambda xp, x: xp.clip(x, 0, 6), lambda xp, y: (y > 0) & (y < 6)),
    "HardTanh": of_output(lambda xp, x: xp.clip(x, 0, 20), lambda xp, y: (y > 0) & (y < 20)),
    "Tanh": of_output(lambda xp, x: xp.tanh(x), lambda xp, y: 1 - y * y),
    "Sigmoid": of_output(_sigmoid, lambda xp, y: y * (1 - y)),
    "GELU": of_input(_gelu, _gelu_slope),
    "SiLU": of_input(lambda xp, x: x * _sigmoid(xp, x), _silu_slope),
    "Dropout": Formula(_dropout, _dropout_gradient, draws=True),
    "DropoutMask": Formula(lambda call: call.drawn(call.layer.shapes[0]), None, draws=True),
    "Add": Formula(_add, _add_gradient, _broadcast_refusal),
    "Subtract": Formula(lambda call, x, y: x - y, _subtract_gradient, _broadcast_refusal),
    "Multiply": Formula(_multiply, _multiply_gradient, _broadcast_refusal),
    "Divide": Formula(lambda call, x, y: x / y, _divide_gradient, _broadcast_refusal),
    "Square": of_input(lambda xp, x: x * x, lambda xp, x: 2 * x),
    "Sqrt": of_output(lambda xp, x: xp.sqrt(x), lambda xp, y: 0.5 / y),
    "Rsqrt": of_output(lambda xp, x: 1 / xp.sqrt(x), lambda xp, y: -0.5 * y * y * y),
    "Exp": of_output(lambda xp, x: xp.exp(x), lambda xp, y: y),
    "Log": of_input(lambda xp, x: xp.log(x), lambda xp, x: 1 / x),
    "Scale": Formula(_scale, _scale_gradient),
    "Mask": Formula(_mask, _mask_gradient, _broadcast_refusal),
    "Rotary": Formula(
        lambda call, x: _rotate(call, x, 1),
        lambda call, k, reads, values, gradients: _rotate(call, gradients[0], -1),
        lambda call: "turns rows of odd length" if call.shape(0)[-1] % 2 else None,
    ),
}
