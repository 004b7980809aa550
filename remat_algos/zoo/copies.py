"""Slices, concatenations and other shapes of tensors."""

from __future__ import annotations

from remat_algos.errors import GraphError
from remat_algos.wording import shortened
from remat_algos.zoo.builder import Builder, ExtraValue
from remat_algos.zoo.network import Tensor


class Copies(Builder):
    """Layers that copy elements to other places."""

    def concat(self, *tensors: Tensor, axis: int = 1, name: str = "concat") -> Tensor:
        """Tensors concatenated along an axis; its gradient reads nothing.

        Raises
        ------
        GraphError
            If they differ along another axis or lack this one, or there is no tensor.
        """
        self._some(name, tensors)
        first = tensors[0].shape
        axis = self._axis(name, tensors[0], axis)
        for x in tensors[1:]:
            if len(x.shape) != len(first) or (*x.shape[:axis], first[axis], *x.shape[axis + 1 :]) != first:
                fault = f"{shortened(name)} joins shapes {first} and {x.shape}"
                raise GraphError(
                    "{model!w}: {fault!w}; give shapes that differ only on axis {axis}",
                    model=self.model,
                    fault=fault,
                    axis=axis,
                )
        shape = (*first[:axis], sum(x.shape[axis] for x in tensors), *first[axis + 1 :])
        return self.run("Concat", tensors, shape, name=self.named(name), dtype=tensors[0].dtype, axis=axis)

    def split(self, x: Tensor, parts: int, axis: int = -1, name: str = "split") -> list[Tensor]:
        """Copy equal parts along an axis: one node with several values.

        Raises
        ------
        GraphError
            If the parts would not be equal, or the axis is missing.
        """
        axis = self._axis(name, x, axis)
        if parts < 1 or x.shape[axis] % parts:
            raise GraphError(
                "{model!w}: {name} cuts {shape} into {parts!r} equal parts; give a divisor",
                model=self.model,
                name=name,
                shape=x.shape[axis],
                parts=parts,
            )
        shape = (*x.shape[:axis], x.shape[axis] // parts, *x.shape[axis + 1 :])
        extra = [ExtraValue(str(k), shape, x.dtype, gradient=True) for k in range(1, parts)]
        return self.run_all("Slice", [x], shape, name=self.named(name), extra=extra, dtype=x.dtype, axis=axis)

    def crop(self, x: Tensor, *size: int, name: str = "crop") -> Tensor:
        """The centre of an image, copied; its gradient reads nothing.

        Raises
        ------
        GraphError
            If the image is smaller, or has another number of axes.
        """
        now = x.shape[2:]
        if len(size) != len(now) or not all(1 <= new <= old for new, old in zip(size, now, strict=True)):
            raise GraphError(
                "{model!w}: {name} takes {size} out of {now!w}; give a size that fits",
                model=self.model,
                name=name,
                size=size,
                now=now,
            )
        return self.run("Slice", [x], (*x.shape[:2], *size), name=self.named(name), dtype=x.dtype)

    def reshape(self, x: Tensor, *shape: int, name: str = "reshape") -> Tensor:
        """A copy in another shape, as in frameworks without views; `view` adds no node.

        Raises
        ------
        GraphError
            If the number of elements differs.
        """
        self._same_size(name, x, shape)
        return self.run("Reshape", [x], shape, name=self.named(name), dtype=x.dtype)

    def copy(self, x: Tensor, *shape: int, name: str = "copy") -> Tensor:
        """A copy in another layout, as after a transposition.

        Raises
        ------
        GraphError
            If the number of elements differs.
        """
        shape = shape or x.shape
        self._same_size(name, x, shape)
        return self.run("Copy", [x], shape, name=self.named(name), dtype=x.dtype)
