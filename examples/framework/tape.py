"""A framework of one screen: the tape of a perceptron, a list of operations on arrays that includes gradients.

It stands for your framework and does not use remat_algos. `9_own_operators.py` runs its tape by a plan.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Operation:
    """A function of earlier operations (`reads`, their places on the tape), then of inputs (by name)."""

    name: str
    kind: str
    function: Callable
    reads: tuple[int, ...]
    inputs: tuple[str, ...]
    shape: tuple[int, ...]
    flops: int
    # Operation to which a gradient belongs; -1 for the forward part.
    forward: int = -1


def perceptron(rows=512, width=64, layers=12, dtype=np.float32):
    """Return the tape of repeated y = tanh(y W) and its mean squared error, and the inputs by name."""
    random = np.random.default_rng(0)
    inputs = {name: random.standard_normal((rows, width)).astype(dtype) for name in ("x", "wanted")}
    weights = random.standard_normal((layers, width, width)) / width**0.5
    inputs |= {f"W{i}": weight.astype(dtype) for i, weight in enumerate(weights)}
    wide, square, product = (rows, width), (width, width), 2 * rows * width**2
    tape = []

    def put(name, kind, function, reads, inputs=(), shape=wide, flops=rows * width, forward=-1):
        tape.append(Operation(name, kind, function, tuple(reads), tuple(inputs), shape, flops, forward))
        return len(tape) - 1

    # `read` has (operations, inputs) that each layer reads: the previous layer, or x.
    read, z, y = [], {}, -1
    for i in range(layers):
        read.append(([y], ()) if i else ([], ("x",)))
        z[i] = put(f"z{i}", "MatMul", np.matmul, read[i][0], (*read[i][1], f"W{i}"), flops=product)
        y = put(f"y{i}", "Tanh", np.tanh, [z[i]])
    put("loss", "Error", lambda y, t: np.square(y - t).mean(), [y], ["wanted"], ())
    d = put(f"dy{layers - 1}", "grad(Error)", lambda y, t: (y - t) * (2 / y.size), [y], ["wanted"], forward=y)
    for i in reversed(range(layers)):
        d = put(f"dz{i}", "grad(Tanh)", lambda d, y: d * (1 - y * y), [d, z[i] + 1], forward=z[i] + 1)
        to_weight = {"shape": square, "flops": product, "forward": z[i]}
        put(f"dW{i}", "grad(MatMul)", lambda d, x: x.T @ d, [d, *read[i][0]], read[i][1], **to_weight)
        if i:
            d = put(f"dy{i - 1}", "grad(MatMul)", lambda d, w: d @ w.T, [d], [f"W{i}"], flops=product, forward=z[i])
    return tape, inputs
