"""Layers on sequences, images and volumes: convolutions, pooling, resizing."""

from __future__ import annotations

from math import prod

from remat_algos.cost.devices import tensor_bytes
from remat_algos.zoo.builder import Builder, ExtraValue, Size
from remat_algos.zoo.network import Shape, Tensor


class Convolutions(Builder):
    """Layers on tensors of shape (batch, channels, *lengths). A size is one number, or one number per length."""

    def convolution(
        self,
        x: Tensor,
        channels: int,
        kernel: Size,
        *,
        stride: Size = 1,
        padding: Size = 0,
        dilation: Size = 1,
        groups: int = 1,
        bias: bool = True,
        name: str = "conv",
    ) -> Tensor:
        """A convolution; its gradient reads x. Its workspace is one unfolded image (im2col), up to the limit."""
        full = self.named(name)
        rank = self._rank(full, x)
        before = x.shape[1]
        if groups < 1 or before % groups or channels % groups:
            raise self.fault(
                "{name} has {before} channels in, {channels} out and {groups} groups; give groups that divide both",
                name=full,
                channels=channels,
                before=before,
                groups=groups,
            )
        lengths = self._lengths(full, x, kernel, stride, padding, dilation)
        shape = (x.shape[0], channels, *lengths)
        window = self._each(full, "kernel", kernel, rank)
        taps = before // groups * prod(window)
        parameters = self._weights(full, (channels, before // groups, *window), channels if bias else 0)
        workspace = self._layout(taps * prod(lengths)) if groups == 1 and prod(window) > 1 else 0
        return self.run(
            "Convolution",
            [x, *parameters],
            shape,
            name=full,
            macs=prod(shape) * taps,
            flops=prod(shape) if bias else 0,
            workspace=workspace,
            grad_workspace=workspace,
            kernel=window,
            stride=stride,
            padding=padding,
            dilation=dilation,
            groups=groups,
        )

    def transposed_convolution(
        self,
        x: Tensor,
        channels: int,
        kernel: Size,
        *,
        stride: Size = 1,
        padding: Size = 0,
        bias: bool = True,
        name: str = "up",
    ) -> Tensor:
        """A transposed convolution, which enlarges the image; its gradient reads x."""
        full = self.named(name)
        rank = self._rank(full, x)
        options = {"kernel": kernel, "stride": stride, "padding": padding}
        window, step, edge = (self._each(full, what, size, rank) for what, size in options.items())
        lengths = tuple((n - 1) * s - 2 * p + k for n, s, p, k in zip(x.shape[2:], step, edge, window, strict=True))
        shape = (x.shape[0], channels, *lengths)
        if min(*lengths, *step) < 1 or min(edge) < 0:
            raise self.fault(
                "{name} has an output of {lengths!w} with stride {stride!r} and padding {padding!r}; give a stride of "
                "1 or more, and less padding",
                name=full,
                lengths=lengths,
                stride=stride,
                padding=padding,
            )
        parameters = self._weights(full, (x.shape[1], channels, *window), channels if bias else 0)
        workspace = self._layout(channels * prod(window) * prod(x.shape[2:])) if prod(window) > 1 else 0
        return self.run(
            "TransposedConvolution",
            [x, *parameters],
            shape,
            name=full,
            macs=prod(x.shape) * channels * prod(window),
            flops=prod(shape) if bias else 0,
            workspace=workspace,
            grad_workspace=workspace,
            kernel=window,
            stride=stride,
            padding=padding,
        )

    def max_pool(
        self, x: Tensor, kernel: Size, stride: Size, *, padding: Size = 0, cover: bool = False, name: str = "pool"
    ) -> Tensor:
        """Max pooling; its gradient reads the index of each maximum (8 bytes each).

        `cover` is PyTorch's `ceil_mode`: the last window may extend beyond the edge, but no window begins in the
        padding after the image.
        """
        full = self.named(name)
        shape, work = self._pooled(full, x, kernel, stride, padding, cover)
        extra = [ExtraValue("indices", shape, "int64")]
        attributes = {"kernel": kernel, "stride": stride, "padding": padding}
        return self.run("MaxPooling", [x], shape, name=full, extra=extra, flops=work, **attributes)

    def average_pool(
        self, x: Tensor, kernel: Size, stride: Size, *, padding: Size = 0, cover: bool = False, name: str = "pool"
    ) -> Tensor:
        """Average pooling; its gradient reads nothing."""
        full = self.named(name)
        shape, work = self._pooled(full, x, kernel, stride, padding, cover)
        return self.run(
            "AveragePooling", [x], shape, name=full, flops=work, kernel=kernel, stride=stride, padding=padding
        )

    def average_pool_to(self, x: Tensor, *lengths: int, name: str = "pool") -> Tensor:
        """Adaptive average pooling to an image of these lengths; its gradient reads nothing."""
        full = self.named(name)
        sizes = self._each(full, "size", lengths, self._rank(full, x))
        if any(not 1 <= new <= now for now, new in zip(x.shape[2:], sizes, strict=True)):
            raise self.fault(
                "{name} pools an image of {shape!w} to {lengths!r}; give a larger image",
                name=full,
                lengths=lengths,
                shape=x.shape[2:],
            )
        return self.run("AveragePooling", [x], (*x.shape[:2], *lengths), name=full, flops=prod(x.shape))

    def upsample(self, x: Tensor, *lengths: int, linear: bool = True, name: str = "upsample") -> Tensor:
        """Resize the image, by linear interpolation or nearest neighbour; its gradient reads nothing."""
        full = self.named(name)
        if min(self._each(full, "size", lengths, self._rank(full, x))) < 1:
            raise self.fault("{name} resizes to {lengths}; give lengths of 1 or more", name=full, lengths=lengths)
        shape = (*x.shape[:2], *lengths)
        neighbours = 2 ** len(lengths) if linear else 0
        return self.run("Upsample", [x], shape, name=full, flops=2 * neighbours * prod(shape), linear=linear)

    def _lengths(
        self, name: str, x: Tensor, kernel: Size, stride: Size, padding: Size, dilation: Size, cover: bool = False
    ) -> Shape:
        rank = self._rank(name, x)
        options = {"kernel": kernel, "stride": stride, "padding": padding, "dilation": dilation}
        sizes = [self._each(name, what, size, rank) for what, size in options.items()]
        places = []
        for n, k, s, p, d in zip(x.shape[2:], *sizes, strict=True):
            if min(k, s, d) < 1 or p < 0:
                raise self.fault(
                    "{name} has kernel {kernel}, stride {stride}, padding {padding} and dilation {dilation}; give 1 or "
                    "more each, and a padding of 0 or more",
                    name=name,
                    **options,
                )
            if (room := n + 2 * p - d * (k - 1) - 1) < 0:
                raise self.fault(
                    "{name} has a window of {window}, longer than the padded length of {length}; give a larger image, "
                    "more padding or a smaller kernel",
                    name=name,
                    window=d * (k - 1) + 1,
                    length=n + 2 * p,
                )
            place = -(-room // s) if cover else room // s
            # With `cover`, drop the last window if it would begin in the padding after the image.
            places.append(place + 1 if not cover or place * s < n + p else place)
        return tuple(places)

    def _pooled(
        self, name: str, x: Tensor, kernel: Size, stride: Size, padding: Size, cover: bool
    ) -> tuple[Shape, int]:
        shape = (*x.shape[:2], *self._lengths(name, x, kernel, stride, padding, 1, cover))
        window, edge = (self._each(name, "size", size, len(shape) - 2) for size in (kernel, padding))
        if any(2 * p > k for k, p in zip(window, edge, strict=True)):
            raise self.fault(
                "{name} has a padding of {padding} around windows of {kernel}; give at most half the window",
                name=name,
                padding=padding,
                kernel=kernel,
            )
        return shape, prod(shape) * prod(window)

    def _weights(self, name: str, weight: Shape, bias: int) -> list[Tensor]:
        weights = [self.parameter(f"{name}.weight", weight)]
        return [*weights, self.parameter(f"{name}.bias", (bias,))] if bias else weights

    def _layout(self, elements: int) -> int:
        """Return the bytes of one image unfolded to a matrix, at most the workspace limit."""
        return min(tensor_bytes((elements,), self.settings.dtype), self.workspace_limit)
