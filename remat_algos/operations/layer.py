"""`Layer`: an operation of a network, with shapes, reads and costs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

Shape = tuple[int, ...]


class Tensor(NamedTuple):
    """A value or a resident, seen in some shape.

    Parameters
    ----------
    value : int
        Id of the value; residents are -1 and down.
    shape : tuple of int
    dtype : str
    """

    value: int
    shape: Shape
    dtype: str


class Layer(NamedTuple):
    """An operation of a network.

    Parameters
    ----------
    name, op : str
        Name and operation of its node, before nodes were joined to blocks.
    block : str
        The block that it belongs to, or "".
    shapes : tuple of shapes
        Shape of each of its values, as computed; a value may be read as a view of another shape.
    dtypes : tuple of str
        Type of the elements of each value.
    parameters : tuple of str
        Residents of role `parameter` that it reads.
    macs : int
        Multiply-adds of products of matrices and convolutions.
    flops : int
        All floating-point operations: two for each multiply-add, and the element-wise ones.
    bytes_moved : int
        Bytes that it reads and writes once, parameters among them.
    attributes : mapping
        Kernel, stride and the like.
    arguments : tuple of Tensor
        Its reads in argument order, repeated ones repeated, each in the shape in which it is seen.
    """

    name: str
    op: str
    block: str
    shapes: tuple[Shape, ...]
    dtypes: tuple[str, ...]
    parameters: tuple[str, ...]
    macs: int
    flops: int
    bytes_moved: int
    attributes: Mapping[str, Any]
    arguments: tuple[Tensor, ...] = ()
