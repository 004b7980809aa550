"""`Builder`: collects the operations of a network and builds its graph."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any, NamedTuple

import numpy as np

from remat_algos.arguments import checked_arguments
from remat_algos.cost.devices import element_bytes, tensor_bytes
from remat_algos.cost.node_costs import compute_costs
from remat_algos.errors import GraphError
from remat_algos.ir.arrays import Int64, from_lists, indptr_of
from remat_algos.ir.differentiate import differentiate
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.kinds import OperationKind, operation_kind
from remat_algos.ir.parts import ROLES, Backward, Labels, Resident
from remat_algos.ir.tables import unread_first_values
from remat_algos.text.amounts import Reading, cost_of, size_of, whole_bytes
from remat_algos.zoo.contraction import contract
from remat_algos.zoo.network import Layer, Network, Shape, Tensor
from remat_algos.zoo.optimizers import optimizer_of, with_optimizer
from remat_algos.zoo.settings import Settings

NO_GRADIENT = -1
WHOLE = (int, np.integer)

Size = int | tuple[int, ...]
"""One number for all spatial axes, or one per axis."""


class ExtraValue(NamedTuple):
    """A second or later value of an operation; its name is the name of the node followed by `name`.

    With `gradient` it has its own gradient, like the parts of a split; otherwise only the gradient of its node reads
    it. An `effect` is an output of shape (0,), which represents a change of a resident.
    """

    name: str
    shape: Shape
    dtype: str
    gradient: bool = False
    effect: bool = False


class Builder:
    """Collector of operations; `network` builds their graph."""

    @checked_arguments
    def __init__(self, model: str, settings: Settings) -> None:
        self.model = model
        self.settings = settings
        self.workspace_limit = settings.workspace_limit
        self._several = settings.several_values
        self._scope: list[str] = []
        self._block: list[str] = [""]
        # key: name; value: number of its uses
        self._counts: dict[str, int] = {}
        # Names of residents and values.
        self._used: set[str] = set()
        self.layers: list[Layer] = []
        self.parameter_shapes: dict[str, Shape] = {}
        self._views: dict[str, str] = {}
        self._value_names: dict[int, str] = {}
        self._names_of: list[str] = []
        self._memory: list[int] = []
        self._grad_memory: list[int] = []
        self._effects: list[int] = []
        self._value_counts: list[int] = []
        self._reads: list[list[int]] = []
        self._saved: list[list[int]] = []
        self._resident_reads: list[list[int]] = []
        self._workspace: list[int] = []
        self._grad_workspace: list[int] = []
        self._once: list[bool] = []
        self._residents: list[tuple[str, int, str]] = []

    def fault(self, template: str, /, **fields: Any) -> GraphError:
        """Return a GraphError whose message begins with the name of the network."""
        return GraphError("{model!w}: " + template, model=self.model, **fields)

    # ---------------------------------------------------------------- names

    @contextmanager
    def block(self, name: str) -> Iterator[None]:
        """Prefix the names of operations added inside the `with` block; `granularity="layer"` makes them one node."""
        with self.scope(name):
            self._block.append(".".join(self._scope))
            try:
                yield
            finally:
                self._block.pop()

    @contextmanager
    def scope(self, name: str) -> Iterator[None]:
        """Prefix the names of operations added inside the `with` block with `name` and a dot."""
        self._scope.append(name)
        try:
            yield
        finally:
            self._scope.pop()

    def named(self, name: str) -> str:
        """Return a unique full name: the current scopes and `name`, with a number if it is already used."""
        return self._unique(".".join((*self._scope, name)))

    def _unique(self, full: str) -> str:
        times = self._counts.get(full, 0)
        self._counts[full] = times + 1
        return self._unique(f"{full}_{times + 1}") if times else full

    def _claim(self, name: str) -> str:
        if name in self._used:
            raise self.fault("the name {name} is already used; choose another one, or read that tensor", name=name)
        self._counts[name] = 1
        return name

    # ---------------------------------------------------------------- residents and views

    def input(self, name: str, shape: Shape, dtype: str | None = None) -> Tensor:
        """Add an input: a resident that the caller of the model provides."""
        return self._resident(self.named(name), shape, dtype or self.settings.dtype, "input")

    def parameter(self, name: str, shape: Shape) -> Tensor:
        parameter = self._resident(self._claim(name), shape, self.settings.dtype, "parameter")
        self.parameter_shapes[name] = shape
        return parameter

    def state(self, name: str, shape: Shape, dtype: str = "float32") -> Tensor:
        """Add a state: a resident that persists between training steps; `name` is a full name."""
        return self._resident(self._claim(name), shape, dtype, "state")

    def _resident(self, name: str, shape: Shape, dtype: str, role: str) -> Tensor:
        if min(shape, default=1) < 1:
            raise self.fault("{name} has shape {shape!w}; give lengths of 1 or more", name=name, shape=shape)
        self._residents.append((name, self._bytes(name, shape, dtype), role))
        self._used.add(name)
        return Tensor(-len(self._residents), shape, dtype)

    def view(self, x: Tensor, *shape: int, name: str = "view") -> Tensor:
        """Return a view: another shape, a part, or a broadcast along axes of length 1. It has no node and no bytes."""
        full = self.named(name)
        more = self._bytes(full, shape, x.dtype) > tensor_bytes(x.shape, x.dtype)
        if min(shape, default=1) < 1 or (more and not broadcasts(x.shape, shape)):
            raise self.fault(
                "{name} views {shape!w} as {view!r}; give lengths of 1 or more, and no more elements than before",
                name=full,
                shape=x.shape,
                view=shape,
            )
        self._views[full] = self._names_of[x.value] if x.value >= 0 else self._residents[-1 - x.value][0]
        return Tensor(x.value, shape, x.dtype)

    # ---------------------------------------------------------------- operations

    def run(self, op: str, reads: Sequence[Tensor], shape: Shape, **work: Any) -> Tensor:
        """Add an operation and return its first value; see `run_all`."""
        return self.run_all(op, reads, shape, **work)[0]

    def run_all(
        self,
        op: str,
        reads: Sequence[Tensor],
        shape: Shape,
        *,
        name: str = "",
        extra: Sequence[ExtraValue] = (),
        saves: Sequence[Tensor] | None = None,
        elements: int = 0,
        macs: int = 0,
        flops: int = 0,
        bytes_moved: int | float | str | None = None,
        workspace: int | float | str = 0,
        grad_workspace: int | float | str = 0,
        once: bool = False,
        gradient: bool = True,
        dtype: str | None = None,
        **attributes: Any,
    ) -> list[Tensor]:
        """Add an operation of kind `op` (`ra.ir.operation_kinds`); return its first value, then its extra values.

        `reads` are values and residents in argument order. `saves` are the values that the gradient reads; the default
        depends on the kind. Values in `extra` without a gradient are omitted if `counting` is "paper". The cost in
        FLOPs is 2 * macs + flops + elements * (FLOPs per element of the kind). `bytes_moved` is by default the bytes of
        all reads and values. Workspaces are bytes, or a string such as "4MiB". A node with `once` is never
        recomputed. The first value has a gradient if `gradient` is true and its dtype is floating-point. `attributes`
        are passed to the `Layer`.
        """
        name = name or self.named(op.lower())
        kind = operation_kind(op)
        if not self._several:
            extra = [value for value in extra if value.gradient]
        values = self._values(name, shape, dtype or self.settings.dtype, gradient, extra)
        read = list(dict.fromkeys([x.value for x in reads if x.value >= 0]))
        residents = sorted({-1 - x.value for x in reads if x.value < 0})
        self._reads.append(read)
        self._resident_reads.append(residents)
        self._saved.append(self._saved_by(kind, read, saves, values, extra))
        self._workspace.append(self._amount(name, "workspace", workspace, size_of))
        self._grad_workspace.append(self._amount(name, "grad_workspace", grad_workspace, size_of))
        self._once.append(once)
        elements = self._amount(name, "elements", elements, cost_of)
        macs, flops = self._amount(name, "macs", macs, cost_of), self._amount(name, "flops", flops, cost_of)
        if bytes_moved is not None:
            bytes_moved = self._amount(name, "bytes_moved", bytes_moved, size_of)
        else:
            moved = [self._memory[x] for x in read] + [self._residents[r][1] for r in residents]
            bytes_moved = sum(moved) + sum(self._memory[values[0].value :])
        self.layers.append(
            Layer(
                name,
                op,
                self._block[-1],
                tuple([x.shape for x in values]),
                tuple([x.dtype for x in values]),
                tuple([self._residents[r][0] for r in residents if self._residents[r][2] == "parameter"]),
                macs,
                2 * macs + flops + elements * (kind.flops if kind is not None else 1),
                bytes_moved,
                attributes,
                tuple(reads),
            )
        )
        return values

    def _amount(self, name: str, what: str, entry: Any, read: Reading) -> int:
        if type(entry) is int:
            return entry
        try:
            amount = read(entry)
        except ValueError as error:
            raise self.fault("{what!w} of {name}: {error!w}", what=what, name=name, error=error) from error
        if read is cost_of and amount % 1:
            raise self.fault("{what!w} of {name} is {amount}; give a whole number", what=what, name=name, amount=amount)
        return whole_bytes([amount], f"{self.model}: {what} of {name}")[0]

    def _values(self, name: str, shape: Shape, dtype: str, gradient: bool, extra: Sequence[ExtraValue]) -> list[Tensor]:
        values = [self._value(name, shape, dtype, gradient)]
        for value in extra:
            full = self._unique(f"{name}.{value.name}")
            self._value_names[len(self._memory)] = full
            if value.effect:
                self._effects.append(len(self._memory))
            values.append(self._value(full, value.shape, value.dtype, value.gradient))
        self._value_counts.append(len(values))
        return values

    def _value(self, name: str, shape: Shape, dtype: str, gradient: bool) -> Tensor:
        size = self._bytes(name, shape, dtype)
        self._names_of.append(name)
        self._used.add(name)
        self._memory.append(size)
        self._grad_memory.append(size if gradient and "float" in dtype else NO_GRADIENT)
        return Tensor(len(self._memory) - 1, shape, dtype)

    def _bytes(self, name: str, shape: Shape, dtype: str) -> int:
        size = tensor_bytes(shape, dtype)
        if not isinstance(size, WHOLE):
            raise self.fault("{name} has shape {shape!w}; give whole numbers", name=name, shape=shape)
        return size

    def _saved_by(
        self,
        kind: OperationKind | None,
        read: list[int],
        saves: Sequence[Tensor] | None,
        values: Sequence[Tensor],
        extra: Sequence[ExtraValue],
    ) -> list[int]:
        if kind is None:
            inputs = output = True
        else:
            inputs, output = kind.saved(alone=not self._several)
        saved = read if inputs else []
        if saves is not None and self._several:
            chosen = [x.value for x in saves]
            saved = [x for x in read if x in chosen]
        if output:
            saved = [*saved, values[0].value]
        if not extra:
            return saved
        pairs = zip(values[1:], extra, strict=True)
        return saved + [x.value for x, f in pairs if not (f.gradient or f.effect)]

    # ---------------------------------------------------------------- checks of shapes

    def _some(self, name: str, tensors: Sequence[Tensor]) -> None:
        if not tensors:
            raise self.fault("{name} reads nothing; give at least one tensor", name=name)

    def _same_shape(self, name: str, tensors: Sequence[Tensor]) -> None:
        for x in tensors[1:]:
            if x.shape != tensors[0].shape:
                raise self.fault(
                    "{name} reads shapes {shape!w} and {other!w}; give equal ones",
                    name=name,
                    shape=tensors[0].shape,
                    other=x.shape,
                )

    def _broadcast(self, name: str, tensors: Sequence[Tensor], shape: Shape) -> None:
        for x in tensors:
            if x.shape != shape and not broadcasts(x.shape, shape):
                raise self.fault(
                    "{name} reads shapes {shape!w} and {other!w}, which do not broadcast; give equal trailing lengths, "
                    "or 1",
                    name=name,
                    shape=shape,
                    other=x.shape,
                )

    def _same_size(self, name: str, x: Tensor, shape: Shape) -> None:
        if prod(shape) != prod(x.shape) or min(shape, default=1) < 1:
            raise self.fault(
                "{name} gives {shape!w} the shape {new!w}; give a shape of equal size",
                name=name,
                shape=x.shape,
                new=shape,
            )

    def _axis(self, name: str, x: Tensor, axis: int) -> int:
        rank = len(x.shape)
        if axis not in range(-rank, rank):
            raise self.fault(
                "{name} needs axis {axis} of shape {shape!w}; give one of its axes, or a tensor with that axis",
                name=name,
                axis=axis,
                shape=x.shape,
            )
        return axis % rank

    def _expect_shape(self, name: str, what: str, x: Tensor, shape: Shape) -> None:
        if x.shape != shape:
            raise self.fault(
                "{name} has a {what!w} of {shape!w}, expected {expected!w}",
                name=name,
                what=what,
                shape=x.shape,
                expected=shape,
            )

    def _rank(self, name: str, x: Tensor) -> int:
        if len(x.shape) < 3:
            raise self.fault(
                "{name} reads shape {shape!w}; give an image, (batch, channels, *lengths)", name=name, shape=x.shape
            )
        return len(x.shape) - 2

    def _each(self, name: str, what: str, size: Size, rank: int) -> Shape:
        sizes = size if isinstance(size, tuple) else (size,) * rank
        if len(sizes) != rank or not all(isinstance(n, WHOLE) for n in sizes):
            raise self.fault(
                "{name} has {what!w} {size!r} for an image of {rank:dimension}; give a whole number for each",
                name=name,
                what=what,
                size=size,
                rank=rank,
            )
        return sizes

    # ---------------------------------------------------------------- the network

    def network(self) -> Network:
        """Build the network with the granularity, gradients and optimizer of the settings."""
        if not self.layers:
            raise self.fault("the network has no operation; add one")
        graph = self._graph()
        if self.settings.granularity == "layer":
            graph = contract(graph, [layer.block for layer in self.layers])
        if self.settings.parameter_gradients or self.settings.optimizer != "none":
            graph = differentiate(graph, parameter_gradients=True)
        if self.settings.optimizer != "none":
            graph = with_optimizer(
                graph, self.settings.optimizer, primitive=self.settings.primitive, cost=self._update_cost
            )
        return Network(self.model, graph, tuple(self.layers), dict(self.parameter_shapes))

    def _graph(self) -> ComputationGraph:
        ops = tuple(layer.op for layer in self.layers)
        flops, moved = [layer.flops for layer in self.layers], [layer.bytes_moved for layer in self.layers]
        results = [prod(layer.shapes[0]) if layer.macs else 0 for layer in self.layers]
        compute, unit = self._costs(ops, flops, moved, results)
        value_indptr = indptr_of(self._value_counts)
        read_indptr, read_indices = from_lists(self._reads)
        output = unread_first_values(value_indptr, read_indices)
        output[self._effects] = True
        return ComputationGraph.from_arrays(
            value_indptr=value_indptr,
            read_indptr=read_indptr,
            read_indices=read_indices,
            memory=np.array(self._memory, np.int64),
            compute=compute,
            workspace=np.array(self._workspace, np.int64),
            once=np.array(self._once, bool),
            output=output,
            backward=Backward(
                *from_lists(self._saved),
                np.array(self._grad_memory, np.int64),
                self._grad_compute(ops, flops, moved),
                np.array(self._grad_workspace, np.int64),
            ),
            resident=Resident(
                np.array([size for _, size, _ in self._residents], np.int64),
                np.array([ROLES.index(role) for _, _, role in self._residents], np.int8),
                *from_lists(self._resident_reads),
                tuple(name for name, _, _ in self._residents),
            ),
            labels=Labels(
                names=tuple(layer.name for layer in self.layers),
                value_names=self._value_names,
                ops=ops,
                views=self._views,
                compute_unit=unit,
            ),
        )

    def _grad_compute(self, ops: tuple[str, ...], flops: list[int], bytes_moved: list[int]) -> Int64:
        """Return the costs of gradients, where -1 means the default rule of `differentiate`.

        With `cost="occupancy"`, the gradient of a matrix product is two products with the same FLOPs, each padded to
        tiles of the size of its operand. The gradient of a weight is not padded: it is a sum over the batch, and
        libraries split such sums if there are few tiles.
        """
        if self.settings.cost != "occupancy":
            return np.full(len(ops), -1, np.int64)
        first, second = (
            self._costs(ops, flops, bytes_moved, [_operand_size(layer, place) for layer in self.layers])[0]
            for place in (0, 1)
        )
        return np.where([layer.macs > 0 for layer in self.layers], first + second, -1)

    def _update_cost(self, op: str, size: int, bytes_moved: int) -> int:
        elements = size // element_bytes(self.settings.dtype)
        optimizer = optimizer_of(op)
        flops = optimizer.flops if optimizer is not None else 1
        cost, _ = self._costs((op,), [flops * elements], [bytes_moved], [0])
        return int(cost[0])

    def _costs(
        self, ops: tuple[str, ...], flops: list[int], bytes_moved: list[int], products: list[int]
    ) -> tuple[Int64, str]:
        cost, device, dtype = self.settings.cost, self.settings.device, self.settings.dtype
        work = np.array(flops, np.int64), np.array(bytes_moved, np.int64)
        return compute_costs(ops, *work, cost=cost, device=device, dtype=dtype, products=products)


def _operand_size(layer: Layer, place: int) -> int:
    """Return the number of elements of an operand of a product, or 0 for a resident and for other layers."""
    operands = [prod(x.shape) if x.value >= 0 else 0 for x in layer.arguments] if layer.macs else []
    return operands[place] if place < len(operands) else 0


def broadcasts(shape: Shape, to: Shape) -> bool:
    """Return True if each length of `shape` is 1 or equals the corresponding trailing length of `to`."""
    return len(shape) <= len(to) and all(n in (1, m) for n, m in zip(shape[::-1], to[::-1], strict=False))
