"""Element-wise operations (activations, sums, dropout, softmax, copies) and norms."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from remat_algos.zoo.builder import Builder, ExtraValue
from remat_algos.zoo.network import Shape, Tensor


class Pointwise(Builder):
    """Element-wise layers, layers that copy elements, and norms."""

    def pointwise(
        self,
        op: str,
        reads: Sequence[Tensor],
        shape: Shape | None = None,
        name: str = "",
        saves: Sequence[Tensor] | None = None,
    ) -> Tensor:
        """An element-wise operation; the result has the shape of the first input, or `shape`."""
        self._some(name or op.lower(), reads)
        shape = reads[0].shape if shape is None else shape
        self._broadcast(name or op.lower(), reads, shape)
        full = self.named(name or op.lower())
        elements = max(1, len(reads) - 1) * prod(shape)
        return self.run(op, reads, shape, name=full, saves=saves, elements=elements, dtype=reads[0].dtype)

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
        """GELU with the tanh approximation; its gradient reads x."""
        if not self.settings.primitive:
            return self.pointwise("GELU", [x], name=name)
        with self.scope(name):
            cube = self.multiply(self.pointwise("Square", [x]), x, name="cube")
            inner = self.scale(self.add(x, self.scale(cube, name="small"), name="sum"), name="inner")
            tanh = self.tanh(inner)
            return self.multiply(self.scale(x, name="half"), self.pointwise("Add", [tanh], name="one"), name="product")

    def add(self, *tensors: Tensor, name: str = "add") -> Tensor:
        """The sum; its gradient reads nothing."""
        self._same_shape(name, tensors)
        return self.pointwise("Add", tensors, name=name)

    def multiply(self, x: Tensor, y: Tensor, name: str = "multiply") -> Tensor:
        """The product, in the shape of x; its gradient reads both."""
        return self.pointwise("Multiply", [x, y], name=name)

    def scale(self, x: Tensor, name: str = "scale", factor: float = 0.5) -> Tensor:
        """x times a constant; its gradient reads nothing."""
        full = self.named(name)
        return self.run("Scale", [x], x.shape, name=full, elements=prod(x.shape), dtype=x.dtype, factor=factor)

    def mask(self, x: Tensor, allowed: Tensor, name: str = "mask") -> Tensor:
        """x where `allowed` is true, else minus infinity; its gradient reads the mask."""
        return self.pointwise("Mask", [x, allowed], name=name, saves=[allowed])

    def dropout(self, x: Tensor, name: str = "dropout") -> Tensor:
        """Dropout: one node that draws the mask and one that applies it, or a single node.

        The mask, a byte per element, is drawn only once, because a second draw would differ. If the setting `dropout`
        is "single", the only node draws the same mask each time, from its stored seed.
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

    def softmax(self, x: Tensor, name: str = "softmax") -> Tensor:
        """Softmax over the last axis; its gradient reads its output."""
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
        axis = self._axis(name, x, axis)
        shape = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
        return self.run(op, [x], shape, name=self.named(name), elements=prod(x.shape), dtype=x.dtype)

    def _mean(self, x: Tensor, name: str) -> Tensor:
        return self.run("Mean", [x], (), name=self.named(name), elements=prod(x.shape), dtype="float32")

    def concat(self, *tensors: Tensor, axis: int = 1, name: str = "concat") -> Tensor:
        """Concatenate tensors along an axis; its gradient reads nothing."""
        self._some(name, tensors)
        first = tensors[0].shape
        axis = self._axis(name, tensors[0], axis)
        for x in tensors[1:]:
            if len(x.shape) != len(first) or (*x.shape[:axis], first[axis], *x.shape[axis + 1 :]) != first:
                raise self.fault(
                    "{name} concatenates {shape!w} and {other!w}; give shapes that differ only on axis {axis}",
                    name=name,
                    shape=first,
                    other=x.shape,
                    axis=axis,
                )
        shape = (*first[:axis], sum(x.shape[axis] for x in tensors), *first[axis + 1 :])
        return self.run("Concat", tensors, shape, name=self.named(name), dtype=tensors[0].dtype, axis=axis)

    def split(self, x: Tensor, parts: int, axis: int = -1, name: str = "split") -> list[Tensor]:
        """Split an axis into equal parts, by copying: one node with several values."""
        axis = self._axis(name, x, axis)
        if parts < 1 or x.shape[axis] % parts:
            raise self.fault(
                "{name} splits a length of {length} into {parts!r} equal parts; give a divisor",
                name=name,
                length=x.shape[axis],
                parts=parts,
            )
        shape = (*x.shape[:axis], x.shape[axis] // parts, *x.shape[axis + 1 :])
        extra = [ExtraValue(str(k), shape, x.dtype, gradient=True) for k in range(1, parts)]
        return self.run_all("Slice", [x], shape, name=self.named(name), extra=extra, dtype=x.dtype, axis=axis)

    def crop(self, x: Tensor, *size: int, name: str = "crop") -> Tensor:
        """Copy the centre of an image; its gradient reads nothing."""
        now = x.shape[2:]
        if len(size) != len(now) or not all(1 <= new <= old for new, old in zip(size, now, strict=True)):
            raise self.fault("{name} crops {image!w} to {size}; give a smaller size", name=name, size=size, image=now)
        return self.run("Slice", [x], (*x.shape[:2], *size), name=self.named(name), dtype=x.dtype)

    def reshape(self, x: Tensor, *shape: int, name: str = "reshape") -> Tensor:
        """Copy to another shape, as in frameworks without views; `view`, by contrast, adds no node."""
        self._same_size(name, x, shape)
        return self.run("Reshape", [x], shape, name=self.named(name), dtype=x.dtype)

    def copy(self, x: Tensor, *shape: int, name: str = "copy") -> Tensor:
        """Copy to another layout, as after a transposition."""
        shape = shape or x.shape
        self._same_size(name, x, shape)
        return self.run("Copy", [x], shape, name=self.named(name), dtype=x.dtype)

    def batch_norm(self, x: Tensor, name: str = "norm") -> Tensor:
        """Batch norm, per channel over the batch; its gradient reads x, the means and the inverse deviations.

        It may be recomputed: only its first run changes the running statistics, which is an effect.
        """
        full = self.named(name)
        self._axis(full, x, 1)
        channels = (x.shape[1],)
        running = [self.state(f"{full}.running_{what}", channels) for what in ("mean", "var")]
        if self.settings.primitive:
            return self._spelled_out(full, x, channels, running)
        extra = [*_statistics(channels), ExtraValue("running", (0,), "float32", effect=True)]
        return self._norm("BatchNorm", full, x, channels, extra, running)

    def layer_norm(self, x: Tensor, name: str = "norm") -> Tensor:
        """Layer norm, per row over the last axis; its gradient reads x, the means and the inverse deviations."""
        full = self.named(name)
        self._axis(full, x, -1)
        if self.settings.primitive:
            return self._spelled_out(full, x, x.shape[:-1])
        return self._norm("LayerNorm", full, x, x.shape[-1:], _statistics(x.shape[:-1]))

    def rms_norm(self, x: Tensor, name: str = "norm") -> Tensor:
        """RMS norm, per row over the last axis, without means; its gradient reads x and the inverse deviations."""
        full = self.named(name)
        self._axis(full, x, -1)
        weight = self.parameter(f"{full}.weight", x.shape[-1:])
        if self.settings.primitive:
            rstd = self._rstd(full, self._step("Square", f"{full}.square", [x]), x.shape[:-1])
            return self._step("Multiply", full, [self._step("Multiply", f"{full}.normal", [x, rstd]), weight])
        return self.run(
            "RMSNorm",
            [x, weight],
            x.shape,
            name=full,
            extra=_statistics(x.shape[:-1])[1:],
            elements=prod(x.shape),
            dtype=x.dtype,
        )

    def group_norm(self, x: Tensor, groups: int = 32, name: str = "norm") -> Tensor:
        """Group norm, per example and channel group; its gradient reads x, the means and the inverse deviations."""
        full = self.named(name)
        self._axis(full, x, 1)
        if groups < 1 or x.shape[1] % groups:
            raise self.fault(
                "{name} has {channels} channels in {groups!r} groups; give a divisor",
                name=full,
                channels=x.shape[1],
                groups=groups,
            )
        if self.settings.primitive:
            return self._spelled_out(full, x, (x.shape[0], groups), weights=(x.shape[1],))
        return self._norm("GroupNorm", full, x, (x.shape[1],), _statistics((x.shape[0], groups)))

    def local_response_norm(self, x: Tensor, size: int = 5, name: str = "norm") -> Tensor:
        """Local response norm over neighbouring channels; its gradient reads x and the sums of squares."""
        full = self.named(name)
        self._axis(full, x, 1)
        if size < 1:
            raise self.fault("{name} sums over {size} channels; give 1 or more", name=full, size=size)
        return self.run(
            "LocalResponseNorm",
            [x],
            x.shape,
            name=full,
            extra=[ExtraValue("scale", x.shape, x.dtype)],
            flops=(size + 4) * prod(x.shape),
            size=size,
        )

    def _norm(
        self, op: str, full: str, x: Tensor, weights: Shape, extra: list[ExtraValue], residents: Sequence[Tensor] = ()
    ) -> Tensor:
        parameters = [self.parameter(f"{full}.{what}", weights) for what in ("weight", "bias")]
        return self.run(
            op,
            [x, *parameters, *residents],
            x.shape,
            name=full,
            extra=extra,
            elements=prod(x.shape),
            dtype=x.dtype,
        )

    def _spelled_out(
        self, full: str, x: Tensor, statistics: Shape, running: list[Tensor] | None = None, weights: Shape | None = None
    ) -> Tensor:
        weights = weights or (statistics if running else x.shape[-1:])
        weight, bias = (self.parameter(f"{full}.{what}", weights) for what in ("weight", "bias"))
        mean = self.run("Mean", [x], statistics, name=f"{full}.mean", elements=prod(x.shape), dtype="float32")
        centred = self._step("Subtract", f"{full}.centred", [x, mean])
        square = self._step("Square", f"{full}.square", [centred])
        variance = self.run(
            "Mean", [square], statistics, name=f"{full}.variance", elements=prod(x.shape), dtype="float32"
        )
        rstd = self._step("Rsqrt", f"{full}.rstd", [variance])
        for state, batch, what in zip(running or (), (mean, variance), ("mean", "var"), strict=False):
            self._moving(f"{full}.moving_{what}", state, batch)
        normal = self._step("Multiply", f"{full}.normal", [centred, rstd])
        return self._step("Add", full, [self._step("Multiply", f"{full}.scaled", [normal, weight]), bias])

    def _rstd(self, full: str, square: Tensor, statistics: Shape) -> Tensor:
        mean = self.run(
            "Mean", [square], statistics, name=f"{full}.mean_square", elements=prod(square.shape), dtype="float32"
        )
        return self._step("Rsqrt", f"{full}.rstd", [mean])

    def _moving(self, full: str, state: Tensor, batch: Tensor) -> None:
        difference = self.run("Subtract", [batch, state], batch.shape, name=f"{full}.difference", gradient=False)
        share = self.run("Scale", [difference], batch.shape, name=f"{full}.share", gradient=False)
        self.run("Add", [share, state], (0,), name=full, gradient=False, once=True)

    def _step(self, op: str, full: str, reads: list[Tensor]) -> Tensor:
        """Add an operation with one FLOP per element, even for a square root."""
        return self.run(op, reads, reads[0].shape, name=full, flops=prod(reads[0].shape), dtype=reads[0].dtype)


def _statistics(shape: Shape) -> list[ExtraValue]:
    return [ExtraValue("mean", shape, "float32"), ExtraValue("rstd", shape, "float32")]
