"""Element-wise layers: activations, sums, products, masks, dropout."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from remat_algos.zoo.builder import Builder
from remat_algos.zoo.network import Shape, Tensor


class Pointwise(Builder):
    """Element-wise layers."""

    def pointwise(
        self,
        op: str,
        reads: Sequence[Tensor],
        shape: Shape | None = None,
        name: str = "",
        saves: Sequence[Tensor] | None = None,
    ) -> Tensor:
        """An operation per element of the first tensor read, or of `shape`.

        Raises
        ------
        GraphError
            If another tensor does not broadcast to it.
        """
        self._some(name or op.lower(), reads)
        shape = reads[0].shape if shape is None else shape
        self._broadcast(name or op.lower(), reads, shape)
        full = self.named(name or op.lower())
        elements = max(1, len(reads) - 1) * prod(shape)
        return self.run(op, reads, shape, name=full, saves=saves, elements=elements, dtype=reads[0].dtype)

    # ---------------------------------------------------------------- activations

    def relu(self, x: Tensor, name: str = "relu") -> Tensor:
        """max(x, 0); its gradient reads its output."""
        return self.pointwise("ReLU", [x], name=name)

    def relu6(self, x: Tensor, name: str = "relu") -> Tensor:
        """min(max(x, 0), 6); its gradient reads its output."""
        return self.pointwise("ReLU6", [x], name=name)

    def hard_tanh(self, x: Tensor, name: str = "clip") -> Tensor:
        """x clipped to two limits; its gradient reads its output."""
        return self.pointwise("HardTanh", [x], name=name)

    def tanh(self, x: Tensor, name: str = "tanh") -> Tensor:
        """The hyperbolic tangent; its gradient reads its output."""
        return self.pointwise("Tanh", [x], name=name)

    def sigmoid(self, x: Tensor, name: str = "sigmoid") -> Tensor:
        """1 / (1 + exp(-x)); its gradient reads its output."""
        return self.pointwise("Sigmoid", [x], name=name)

    def silu(self, x: Tensor, name: str = "silu") -> Tensor:
        """x times its sigmoid; its gradient reads x."""
        if not self.settings.primitive:
            return self.pointwise("SiLU", [x], name=name)
        with self.scope(name):
            return self.multiply(x, self.sigmoid(x), name="product")

    def gelu(self, x: Tensor, name: str = "gelu") -> Tensor:
        """x times the normal distribution function, approximated with tanh; its gradient reads x."""
        if not self.settings.primitive:
            return self.pointwise("GELU", [x], name=name)
        with self.scope(name):
            cube = self.multiply(self.pointwise("Square", [x]), x, name="cube")
            inner = self.scale(self.add(x, self.scale(cube, name="small"), name="sum"), name="inner")
            tanh = self.tanh(inner)
            return self.multiply(self.scale(x, name="half"), self.pointwise("Add", [tanh], name="one"), name="product")

    # ---------------------------------------------------------------- sums and products

    def add(self, *tensors: Tensor, name: str = "add") -> Tensor:
        """The sum; its gradient reads nothing.

        Raises
        ------
        GraphError
            If the shapes differ, or there is no tensor.
        """
        self._same_shape(name, tensors)
        return self.pointwise("Add", tensors, name=name)

    def multiply(self, x: Tensor, y: Tensor, name: str = "multiply") -> Tensor:
        """The product, of the shape of x; its gradient reads both.

        Raises
        ------
        GraphError
            If y does not broadcast to x.
        """
        return self.pointwise("Multiply", [x, y], name=name)

    def scale(self, x: Tensor, name: str = "scale", factor: float = 0.5) -> Tensor:
        """x times a constant; its gradient reads nothing."""
        full = self.named(name)
        return self.run("Scale", [x], x.shape, name=full, elements=prod(x.shape), dtype=x.dtype, factor=factor)

    def mask(self, x: Tensor, allowed: Tensor, name: str = "mask") -> Tensor:
        """x where it is allowed, else minus infinity; its gradient reads the mask.

        Raises
        ------
        GraphError
            If the mask does not broadcast to x.
        """
        return self.pointwise("Mask", [x, allowed], name=name, saves=[allowed])

    # ---------------------------------------------------------------- dropout

    def dropout(self, x: Tensor, name: str = "dropout") -> Tensor:
        """Set random elements to 0: a node that draws the mask and one that applies it, or a single node.

        The mask is drawn once (recomputing it would give another one) and has a byte for each element; its application
        may be recomputed. If `dropout` is "single", the node draws the same mask each time, from its stored seed.
        """
        full = self.named(name)
        if self.settings.dropout == "single":
            return self.run("Dropout", [x], x.shape, name=full, elements=prod(x.shape), dtype=x.dtype)
        mask = self.run(
            "DropoutMask",
            [],
            x.shape,
            name=self.named(f"{name}.mask"),
            dtype="bool",
            gradient=False,
            once=True,
            elements=prod(x.shape),
        )
        return self.run("Dropout", [x, mask], x.shape, name=full, saves=[mask], elements=prod(x.shape), dtype=x.dtype)

    # ---------------------------------------------------------------- reductions

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
