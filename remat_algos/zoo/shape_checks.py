"""Checks of shapes and sizes, and their messages."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from remat_algos.errors import GraphError
from remat_algos.text.wording import counted, quoted, shortened
from remat_algos.zoo.builder import WHOLE, Builder, broadcasts
from remat_algos.zoo.network import Shape, Tensor

Size = int | tuple[int, ...]


class ShapeChecks(Builder):
    """Shape checks that all layers share."""

    def _some(self, name: str, tensors: Sequence[Tensor]) -> None:
        if not tensors:
            raise GraphError(f"{self.model}: {shortened(name)} reads nothing; give at least one tensor")

    def _same_shape(self, name: str, tensors: Sequence[Tensor]) -> None:
        for x in tensors[1:]:
            if x.shape != tensors[0].shape:
                raise GraphError(
                    f"{self.model}: {shortened(name)} reads shapes {tensors[0].shape} and {x.shape}; give equal ones"
                )

    def _broadcast(self, name: str, tensors: Sequence[Tensor], shape: Shape) -> None:
        for x in tensors:
            if x.shape != shape and not broadcasts(x.shape, shape):
                fault = f"{shortened(name)} reads shapes {shape} and {x.shape}"
                raise GraphError(f"{self.model}: {fault}; give the lengths of the first, from the last one on, or 1")

    def _same_size(self, name: str, x: Tensor, shape: Shape) -> None:
        if prod(shape) != prod(x.shape) or min(shape, default=1) < 1:
            raise GraphError(
                f"{self.model}: {shortened(name)} gives {x.shape} the shape {shape}; give a shape of equal size"
            )

    def _axis(self, name: str, x: Tensor, axis: int) -> int:
        """The axis, counted from the first."""
        rank = len(x.shape)
        if axis not in range(-rank, rank):
            fault = f"{shortened(name)} goes along axis {axis} of shape {x.shape}"
            raise GraphError(f"{self.model}: {fault}; give one of its axes, or a tensor with that axis")
        return axis % rank

    def _expect_shape(self, name: str, what: str, x: Tensor, shape: Shape) -> None:
        if x.shape != shape:
            raise GraphError(f"{self.model}: {shortened(name)} has a {what} of {x.shape}, expected {shape}")

    def _rank(self, name: str, x: Tensor) -> int:
        """Number of spatial axes of an image."""
        if len(x.shape) < 3:
            raise GraphError(
                f"{self.model}: {shortened(name)} reads shape {x.shape}; give an image, (batch, channels, *lengths)"
            )
        return len(x.shape) - 2

    def _each(self, name: str, what: str, size: Size, rank: int) -> Shape:
        """A size for each of `rank` axes."""
        sizes = size if isinstance(size, tuple) else (size,) * rank
        if len(sizes) != rank or not all(isinstance(n, WHOLE) for n in sizes):
            fault = f"{shortened(name)} has {what} {quoted(size)} for an image of {counted(rank, 'length')}"
            raise GraphError(f"{self.model}: {fault}; give a whole number for each")
        return sizes
