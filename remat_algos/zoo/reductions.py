"""Sums, means and maxima along axes; softmax."""

from __future__ import annotations

from math import prod

from remat_algos.zoo.network import Tensor
from remat_algos.zoo.pointwise import Pointwise


class Reductions(Pointwise):
    """Sums, means, maxima and softmax along an axis."""

    def softmax(self, x: Tensor, name: str = "softmax") -> Tensor:
        """Exponentials normalized to the sum 1 along the last axis; its gradient reads its output.

        Raises
        ------
        GraphError
            If x is a single number, without an axis.
        """
        self._axis(name, x, -1)
        if not self.settings.primitive:
            full = self.named(name)
            return self.run("Softmax", [x], x.shape, name=full, elements=prod(x.shape), dtype=x.dtype)
        with self.scope(name):
            e = self.pointwise("Exp", [self._below_largest(x)])
            return self.pointwise("Divide", [e, self._reduced("Sum", e, name="sum")], name="shares")

    def _below_largest(self, x: Tensor, axis: int = -1) -> Tensor:
        return self.pointwise("Subtract", [x, self._reduced("Max", x, axis, name="max")], name="below")

    def _reduced(self, op: str, x: Tensor, axis: int = -1, *, name: str) -> Tensor:
        """Reduce along an axis, which keeps length 1."""
        axis = self._axis(name, x, axis)
        shape = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
        return self.run(op, [x], shape, name=self.named(name), elements=prod(x.shape), dtype=x.dtype)

    def _mean(self, x: Tensor, name: str) -> Tensor:
        """The mean of all elements."""
        return self.run("Mean", [x], (), name=self.named(name), elements=prod(x.shape), dtype="float32")
