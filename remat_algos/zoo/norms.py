"""Norms: of a batch, of rows, of groups of channels, of neighbouring channels."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from remat_algos.zoo.builder import ExtraValue
from remat_algos.zoo.network import Shape, Tensor
from remat_algos.zoo.pointwise import Pointwise


class Norms(Pointwise):
    """Layers that normalize elements to mean 0 and deviation 1."""

    def batch_norm(self, x: Tensor, name: str = "norm") -> Tensor:
        """Batch norm, per channel over the batch; its gradient reads x, the means and the inverse deviations.

        It may be recomputed: its change of the running statistics is an effect, bound to its first run.
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
        """Group norm, per example and group of channels; its gradient reads x, the means and the inverse deviations."""
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
        """Local response norm, by sums of squares over neighbouring channels; its gradient reads x and these sums."""
        full = self.named(name)
        self._axis(full, x, 1)
        if size < 1:
            raise self.fault("{name} goes over {size} channels; give 1 or more", name=full, size=size)
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

    # ---------------------------------------------------------------- element-wise steps

    def _spelled_out(
        self, full: str, x: Tensor, statistics: Shape, running: list[Tensor] | None = None, weights: Shape | None = None
    ) -> Tensor:
        """Means, deviations, weight and bias as element-wise steps and reductions."""
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
        """Move the running statistic towards that of the batch: a difference, a share of it, the change."""
        apart = self.run("Subtract", [batch, state], batch.shape, name=f"{full}.difference", gradient=False)
        share = self.run("Scale", [apart], batch.shape, name=f"{full}.share", gradient=False)
        self.run("Add", [share, state], (0,), name=full, gradient=False, once=True)

    def _step(self, op: str, full: str, reads: list[Tensor]) -> Tensor:
        """Add an operation of one FLOP per element, also for a root."""
        return self.run(op, reads, reads[0].shape, name=full, flops=prod(reads[0].shape), dtype=reads[0].dtype)


def _statistics(shape: Shape) -> list[ExtraValue]:
    return [ExtraValue("mean", shape, "float32"), ExtraValue("rstd", shape, "float32")]
