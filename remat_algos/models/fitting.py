"""What fits: shapes and sizes of what a layer reads, and the sentences where they are impossible."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from remat_algos.errors import GraphError
from remat_algos.models.builder import WHOLE, Builder, Tensor, broadcasts
from remat_algos.models.network import Shape

Size = int | tuple[int, ...]


class Fitting(Builder):
    """Checks that all layers share."""

    def _some(self, name: str, tensors: Sequence[Tensor]) -> None:
        if not tensors:
            raise GraphError(f"{self.model}: {name} reads nothing; give a tensor or more")

    def _same_shape(self, name: str, tensors: Sequence[Tensor]) -> None:
        for x in tensors[1:]:
            if x.shape != tensors[0].shape:
                raise GraphError(f"{self.model}: {name} reads shapes {tensors[0].shape} and {x.shape}; give equal ones")

    def _broadcast(self, name: str, tensors: Sequence[Tensor], shape: Shape) -> None:
        for x in tensors:
            if x.shape != shape and not broadcasts(x.shape, shape):
                found = f"{name} reads shapes {shape} and {x.shape}"
                raise GraphError(f"{self.model}: {found}; give the lengths of the first, from the last one on, or 1")

    def _as_many(self, name: str, x: Tensor, shape: Shape) -> None:
        if prod(shape) != prod(x.shape) or min(shape, default=1) < 1:
            raise GraphError(f"{self.model}: {name} gives {x.shape} the shape {shape}; give as many elements")

    def _axis(self, name: str, x: Tensor, axis: int) -> int:
        """Counted from the first one."""
        rank = len(x.shape)
        if axis not in range(-rank, rank):
            found = f"{name} goes along axis {axis} of shape {x.shape}"
            raise GraphError(f"{self.model}: {found}; give an axis that it has, or a tensor that has that axis")
        return axis % rank

    def _wanted(self, name: str, what: str, found: Tensor, shape: Shape) -> None:
        if found.shape != shape:
            raise GraphError(f"{self.model}: {name} has a {what} of {found.shape}, expected {shape}")

    def _rank(self, name: str, x: Tensor) -> int:
        """How many lengths the image has."""
        if len(x.shape) < 3:
            raise GraphError(f"{self.model}: {name} reads shape {x.shape}; give an image, (batch, channels, *lengths)")
        return len(x.shape) - 2

    def _each(self, name: str, what: str, size: Size, rank: int) -> Shape:
        """A size for each of so many lengths."""
        sizes = size if isinstance(size, tuple) else (size,) * rank
        if len(sizes) != rank or not all(isinstance(n, WHOLE) for n in sizes):
            found = f"{name} has {what} {size!r} for an image of {rank} {'lengths' if rank > 1 else 'length'}"
            raise GraphError(f"{self.model}: {found}; give a whole number for each")
        return sizes
