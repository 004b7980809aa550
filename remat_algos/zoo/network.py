"""`Network`: a graph, and a `Layer` for each operation, with the shapes, reads and costs that the graph lacks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.parts import ROLES
from remat_algos.wording import counted, format_bytes, one_line

Shape = tuple[int, ...]


class Tensor(NamedTuple):
    """A value or a resident (id -1 and down), seen in some shape."""

    value: int
    shape: Shape
    dtype: str


class Layer(NamedTuple):
    """An operation of a network, with the name and kind of its node before nodes were joined to blocks.

    `block` is "" for no block; `shapes` and `dtypes` are those of its values as computed (reads may be views).
    `parameters` are the parameters that it reads, `flops` two per multiply-add plus the element-wise ones,
    `bytes_moved` what it reads and writes once, parameters included; `attributes` are kernel, stride and the like.
    `arguments` are its reads in argument order, repeats included, each in the shape in which it is seen.
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


@dataclass(frozen=True, slots=True, eq=False)
class Network:
    """A model: its graph, and one `Layer` for each operation.

    With `granularity="operation"` and no backward part, layer i is node i of the graph.

    Parameters
    ----------
    name : str
        The name from which it was built.
    graph : ComputationGraph
        The graph for solvers.
    layers : tuple of Layer
        Layers in the order of their runs.
    parameter_shapes : mapping of str to shape
        Shape of each parameter, tied ones once.

    Examples
    --------
    >>> from remat_algos.zoo.registry import build
    >>> vgg = build("vgg19", batch=1, image=224)
    >>> vgg.n_parameters, vgg.layers[0].op, vgg.layers[0].shapes
    (143667240, 'Convolution', ((1, 64, 224, 224),))
    """

    name: str
    graph: ComputationGraph
    layers: tuple[Layer, ...]
    parameter_shapes: Mapping[str, Shape]

    def __repr__(self) -> str:
        size = f"{counted(self.graph.n_nodes, 'node')}, {counted(self.n_parameters, 'parameter')}"
        return one_line(self, self.name, size, f"{format_bytes(self.activation_memory)} of activations")

    @property
    def n_parameters(self) -> int:
        """Elements of all parameters, tied ones once."""
        return sum(int(np.prod(shape, dtype=np.int64)) for shape in self.parameter_shapes.values())

    @property
    def macs(self) -> int:
        """Multiply-adds of one forward pass over the batch."""
        return sum(layer.macs for layer in self.layers)

    @property
    def flops(self) -> int:
        """Floating-point operations of one forward pass over the batch."""
        return sum(layer.flops for layer in self.layers)

    @property
    def activation_memory(self) -> int:
        """Bytes of all forward values together."""
        return int(self.graph.memory[self.graph.forward[self.graph.producer]].sum())

    @property
    def parameter_memory(self) -> int:
        """Bytes of all parameters."""
        resident = self.graph.resident
        return int(resident.memory[resident.role == ROLES.index("parameter")].sum()) if resident is not None else 0
