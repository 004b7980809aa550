"""`Network`: a graph, and a `Layer` per operation with the shapes, reads and costs that the graph does not store."""

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
    """A value (id >= 0) or a resident (id < 0), in the shape that its reader sees."""

    value: int
    shape: Shape
    dtype: str


class Layer(NamedTuple):
    """An operation of a network; `name` and `op` are those of its node before blocks are merged.

    `block` is "" for an operation without a block. `shapes` and `dtypes` are those of the computed values. `parameters`
    are the names of the parameters that it reads. `flops` includes element-wise operations; a multiply-add counts as
    two. `bytes_moved` counts each byte read or written once, including parameters. `attributes` contains kernel, stride
    and so on. `arguments` are the reads in argument order, including repeats, in the shapes of their views.
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
        Name of the model.
    graph : ComputationGraph
        The graph for solvers.
    layers : tuple of Layer
        Layers in execution order.
    parameter_shapes : mapping of str to shape
        Shape of each parameter; a shared parameter appears once.

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
        """Number of elements of all parameters; shared parameters count once."""
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
