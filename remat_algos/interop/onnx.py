"""ONNX models as computation graphs: bytes from shape inference, costs from FLOPs and bytes moved."""

from __future__ import annotations

import os
from collections import ChainMap
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import chain
from math import prod
from typing import Any, NamedTuple

import numpy as np

from remat_algos.arguments import checked_arguments
from remat_algos.cost.node_costs import Cost, operator_costs
from remat_algos.errors import ArgumentTypeError, GraphError
from remat_algos.interop.onnx_flops import operator_flops
from remat_algos.interop.open_dims import check_known, checked_dims, missing_lengths
from remat_algos.interop.optional import require
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.kinds import operation_kind
from remat_algos.ir.tables import NodeRow, ResidentRow, Tables, ValueRow

onnx, inliner = require("onnx", "onnx"), require("onnx.inliner", "onnx")

VIEWS = frozenset(("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity"))
"""Operators whose output is their first input in another shape."""

RANDOM = frozenset(
    ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")
)
SHAPE_ONLY = frozenset(("Shape", "Size"))
"""Operators that read the shape of a tensor but none of its elements."""

LINEAR = frozenset(
    (
        *("Cast", "CastLike", "CumSum", "DepthToSpace", "Expand", "Gather", "GatherElements", "GatherND", "Neg", "Pad"),
        *("SpaceToDepth", "Tile", "Trilu", "Where"),
    )
)
"""Operators, in addition to those of `ra.ir.operation_kinds`, whose gradient reads only indices and conditions."""

# Operators whose inputs after the first are settings, never parameters.
SETTINGS = frozenset(("Clip", "Dropout", "Pad", "Resize", "Upsample"))
OWN_DOMAINS = ("", "ai.onnx")
# Bits per element of types narrower than a byte.
_NARROW = {"INT4": 4, "UINT4": 4, "FLOAT4E2M1": 4, "INT2": 2, "UINT2": 2}
_FLOATING = ("FLOAT", "DOUBLE", "BFLOAT", "COMPLEX")


@checked_arguments
def capture(
    model: str | os.PathLike[str] | bytes | Any, dims: Mapping[str, int] | None = None, *, cost: Cost = "roofline"
) -> ComputationGraph:
    """Return the graph of an ONNX model; `differentiate` turns it into a training step.

    - Nodes are named after their first output and keep the order of the file.
    - Initializers and inputs are residents. Floating-point initializers have the role `parameter`, except running
      statistics, which have the role `state`. All other residents have the role `input`.
    - Reshape, Flatten, Squeeze, Unsqueeze and Identity are views. So is a Dropout without a mask outside of training.
    - Random operators are never recomputed.
    - If, Loop and Scan are one node each, which reads the tensors that its bodies read from outside.
    - If an operator is not in `ra.ir.operation_kinds`, its gradient is assumed to read all its inputs and outputs.

    Parameters
    ----------
    model : path, bytes or onnx.ModelProto
    dims : mapping of str to int, optional
        Lengths of symbolic dimensions, such as `{"batch": 8}`. "x[0]" is axis 0 of tensor x if it has no symbol.
    cost : {"roofline", "occupancy", "flops"} or callable, optional
        Cost of an operator. "roofline": time in ns on an A100 80GB, either of its computation or of its memory traffic,
        whichever takes longer. "occupancy": the same, but the tiles of a matrix product or convolution are rounded up
        to whole waves. "flops": FLOPs. A callable returns ns from (FLOPs, bytes moved). Only matrix products,
        convolutions, Einsum, RNN, GRU, LSTM and attention have FLOPs, including those in the bodies of If, Loop and
        Scan.

    Raises
    ------
    GraphError
        If the model cannot be read, its shapes contradict each other, a tensor has no size, or a dimension or cost is
        unknown.
    """
    if not isinstance(model, str | os.PathLike | bytes | onnx.ModelProto):
        raise ArgumentTypeError(
            "model has type {kind!w}; give a path, bytes or an onnx.ModelProto", kind=type(model).__name__
        )
    lengths = checked_dims(dims)
    source = os.fspath(model) if isinstance(model, str | os.PathLike) else "the model"
    try:
        rows = _OnnxRows(_with_sizes(_inlined(_loaded(model, source), source), lengths))
    except (GraphError, MemoryError):
        raise
    except Exception as error:
        # The messages of these errors contain only a key or a position, so a phrase is added at the front.
        faults = {KeyError: "there is no ", LookupError: "an operator lacks an input, an output or an attribute: "}
        kind = next((text for each, text in faults.items() if isinstance(error, each)), "")
        raise GraphError(
            "{source!p} is damaged ({kind!w}{error!e}); export it again", source=source, kind=kind, error=error
        ) from error
    return ComputationGraph.from_tables(rows.tables(cost))


def _loaded(model: Any, source: str) -> Any:
    try:
        if isinstance(model, onnx.ModelProto):
            return model
        if isinstance(model, bytes):
            return onnx.load_model_from_string(model)
        return onnx.load_model(os.fspath(model), load_external_data=False)
    except OSError as error:
        raise GraphError("{source!p} cannot be read: {strerror}", source=source, strerror=error.strerror) from error
    except Exception as error:
        raise GraphError(
            "{source!p} is not an ONNX model ({error!e}); is the file whole?", source=source, error=error
        ) from error


def _inlined(model: Any, source: str) -> Any:
    if not model.graph.node:
        raise GraphError("{source!p} has no nodes; give an ONNX model with a graph", source=source)
    if model.graph.sparse_initializer:
        raise GraphError("{source!p} has sparse initializers; make them dense", source=source)
    for graph in (*model.functions, model.graph):
        _check_names(graph, ChainMap(), ())
    return inliner.inline_local_functions(model) if model.functions else model


def _check_names(graph: Any, outside: ChainMap[str, str], around: tuple[Any, ...]) -> None:
    written = outside.new_child()
    # A FunctionProto lists its inputs by name and has no initializers.
    local = isinstance(graph, onnx.FunctionProto)
    for tensor in () if local else graph.initializer:
        _write(tensor.name, "an initializer", written.maps[0])
    inputs = dict[str, str]()
    for name in graph.input if local else (info.name for info in graph.input):
        # Inputs are collected separately: an initializer with the name of an input is its default value.
        _write(name, "an input", inputs)
    written.update(inputs)
    for node in graph.node:
        for body in _bodies(node):
            _check_names(body, written, (*around, graph))
        for name in filter(None, node.input):
            if name not in written:
                raise _unwritten(name, node, (*around, graph))
        for name in filter(None, node.output):
            _write(name, node.op_type, written)
    outputs = graph.output if local else (info.name for info in graph.output)
    unwritten = next((name for name in outputs if name not in written), None)
    if unwritten is not None:
        raise GraphError("no node of the model computes the output {unwritten!r}", unwritten=unwritten)


def _write(name: str, writer: str, written: MutableMapping[str, str]) -> None:
    # Protobuf returns bytes for text that is not UTF-8.
    if not isinstance(name, str):
        raise GraphError("the name {name!r} is not UTF-8 text; export the model again", name=name)
    if name in written:
        raise GraphError(
            "{name!r} is written twice, by {first} and by {second}; give each value a name of its own",
            name=name,
            first=written[name],
            second=writer,
        )
    written[name] = writer


def _unwritten(name: str, node: Any, graphs: tuple[Any, ...]) -> GraphError:
    for graph in graphs:
        writers = {value: k for k, writer in enumerate(graph.node) for value in filter(None, writer.output)}
        reads = {k: [writers[value] for value in _reads(each) if value in writers] for k, each in enumerate(graph.node)}
        try:
            TopologicalSorter(reads).prepare()
        except CycleError as error:
            return GraphError(
                "nodes read each other in a cycle ({cycle!l}); an ONNX model must not contain cycles; export it again",
                cycle=[_first_value(graph.node[k]) for k in error.args[1]],
            )
    return GraphError(
        "{reader!r} reads {name!r}, which no node before it computes; export the model again, with its nodes in "
        "topological order",
        reader=_first_value(node),
        name=name,
    )


def _first_value(node: Any) -> str:
    return next(filter(None, node.output), node.op_type)


def _with_sizes(model: Any, dims: dict[str, int]) -> Any:
    sized = onnx.ModelProto()
    sized.CopyFrom(model)
    symbols = _symbols(sized.graph)
    bound = _bind(sized.graph, dims)
    while True:
        try:
            sized = onnx.shape_inference.infer_shapes(sized, check_type=True, strict_mode=True, data_prop=True)
        except onnx.shape_inference.InferenceError as error:
            fault = str(error).replace("[ShapeInferenceError] ", "").removeprefix("Inference error(s): ")
            raise GraphError(
                "the model's shapes cannot be inferred: {fault!e}; is it valid for these dims?", fault=fault
            ) from error
        # Inference can find tensors with further open dimensions: set these too and infer again.
        newly = _bind(sized.graph, dims)
        if not newly:
            break
        bound |= newly
    check_known(dims, bound, symbols)
    _check_sizes(sized.graph, symbols)
    return sized


def _with_bodies(graph: Any) -> Iterator[Any]:
    yield graph
    for node in graph.node:
        for body in _bodies(node):
            yield from _with_bodies(body)


def _infos(graph: Any) -> Iterator[Any]:
    return chain(graph.input, graph.value_info, graph.output)


def _open_dims(info: Any) -> Iterator[tuple[Any, tuple[str, str]]]:
    """Yield each dimension without a length, and its (symbol, position). Some exporters write -1 for "no length"."""
    for axis, dim in enumerate(info.type.tensor_type.shape.dim):
        if not dim.HasField("dim_value") or dim.dim_value < 0:
            yield dim, (dim.dim_param, f"{info.name}[{axis}]")


def _symbols(graph: Any) -> set[str]:
    """Return the symbols of the model's input dimensions, which users know; inference adds others."""
    return {symbol or place for info in graph.input for _, (symbol, place) in _open_dims(info)}


def _bind(graph: Any, dims: Mapping[str, int]) -> set[str]:
    used = set()
    for info in chain.from_iterable(map(_infos, _with_bodies(graph))):
        for dim, names in _open_dims(info):
            if name := next((name for name in names if name in dims), None):
                dim.dim_value = dims[name]
                used.add(name)
    return used


def _check_sizes(graph: Any, symbols: set[str]) -> None:
    infos = {info.name: info for info in _infos(graph)}
    initializers = {tensor.name for tensor in graph.initializer}
    used = {info.name for info in graph.output}.union(*map(_reads, graph.node))
    names = [info.name for info in graph.input]
    # An unread output, other than the first output of a node, is not in the graph, so it needs no size.
    for node in graph.node:
        names += [name for k, name in enumerate(node.output) if name and (not k or name in used)]
    names = [name for name in names if name not in initializers]
    for name in names:
        kind = infos[name].type.WhichOneof("value") if name in infos else "tensor_type"
        if kind not in ("tensor_type", None):
            kind = kind.removesuffix("_type")
            raise GraphError("{name!r} has type {kind}; only tensors have a size", name=name, kind=kind)
    unsized = [name for name in names if not _has_size(infos.get(name))]
    if not unsized:
        return
    first = infos.get(unsized[0])
    if first is None or not first.type.tensor_type.HasField("shape"):
        raise GraphError(
            "{unsized:tensor} {have} no size, the first is {first!r}, whose shape is unknown; give it a type and "
            "a shape in the model's value_info",
            unsized=len(unsized),
            have="has" if len(unsized) == 1 else "have",
            first=unsized[0],
        )
    inputs = [info for info in graph.input if info.name in unsized]
    missing = [
        symbol if symbol in symbols else place for info in inputs or [first] for _, (symbol, place) in _open_dims(info)
    ]
    shape = [
        dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else dim.dim_param or "?"
        for dim in first.type.tensor_type.shape.dim
    ]
    raise missing_lengths(len(unsized), unsized[0], shape, missing, "MODEL.onnx")


def _has_size(info: Any) -> bool:
    typed = info is not None and info.type.tensor_type.HasField("shape") and info.type.tensor_type.elem_type
    return bool(typed) and not any(_open_dims(info))


def _shape(info: Any) -> tuple[int, ...]:
    return tuple(dim.dim_value for dim in info.type.tensor_type.shape.dim)


class _Extent(NamedTuple):
    shape: tuple[int, ...]
    memory: int
    floating: bool

    @classmethod
    def of(cls, name: str, shape: Sequence[int], elem_type: int) -> _Extent:
        if elem_type not in onnx.TensorProto.DataType.values() or elem_type == onnx.TensorProto.UNDEFINED:
            raise GraphError(
                "{name!r} has elements of type {type}, unknown to onnx; export it again", name=name, type=elem_type
            )
        dtype = onnx.TensorProto.DataType.Name(elem_type)
        if dtype == "STRING":
            raise GraphError("{name!r} is a tensor of strings, which have no size", name=name)
        bits = _NARROW.get(dtype) or 8 * onnx.helper.tensor_dtype_to_np_dtype(elem_type).itemsize
        return cls(tuple(shape), (prod(shape) * bits + 7) // 8, dtype.startswith(_FLOATING))


class _OnnxRows:
    def __init__(self, model: Any) -> None:
        self.graph = model.graph
        self.opset = next((entry.version for entry in model.opset_import if entry.domain in OWN_DOMAINS), 1)
        self.outputs = {info.name for info in self.graph.output}
        self.constants = {tensor.name: tensor for tensor in self.graph.initializer}
        self.extents: dict[str, _Extent] = {}
        for info in _infos(self.graph):
            if _has_size(info):
                self.extents[info.name] = _Extent.of(info.name, _shape(info), info.type.tensor_type.elem_type)
        for name, tensor in self.constants.items():
            self.extents[name] = _Extent.of(name, tensor.dims, tensor.data_type)
        for node in self.graph.node:
            self.constants |= _constant(node)
        self.residents = self._residents()
        self.rows: list[NodeRow] = []
        self.flops: list[int] = []
        self.moved: list[int] = []
        self.products: list[int] = []
        shapes = ChainMap({name: extent.shape for name, extent in self.extents.items()})
        for node in self.graph.node:
            if node.op_type != "Constant" and any(node.output):
                self._add(node)
                self.flops.append(self._flops(node, shapes, ChainMap(self.constants)))
                self.products.append(
                    self._result_size(node) if self.flops[-1] and next(_bodies(node), None) is None else 0
                )

    def tables(self, cost: Cost) -> Tables:
        costs, unit = operator_costs(cost, self.flops, self.moved, self.products)
        for row, amount in zip(self.rows, costs.tolist(), strict=True):
            row.compute = 0 if row.values[0].view_of is not None else amount
        parts = self.rows, self.residents
        return Tables(*parts, backward="to come", compute_unit=unit, compute_scale=1, source="model")

    def _add(self, node: Any) -> None:
        row = self._row(node)
        self.rows.append(row)
        sized = self.extents.keys() & node.output
        self.moved.append(sum(self.extents[name].memory for name in sized.union(row.reads)))

    def _row(self, node: Any) -> NodeRow:
        values = [name for name in node.output if name in self.extents]
        op = _op(node)
        draws = _draws(node, self.constants, self.opset)
        if op in VIEWS or (op == "Dropout" and not draws and len(values) == 1):
            view = ValueRow(0, output=values[0] in self.outputs, view_of=node.input[0])
            return NodeRow(values[0], op, values=[view])
        reads = [] if op in SHAPE_ONLY else list(dict.fromkeys(_reads(node)))
        rows = [self._value(name, place) for place, name in enumerate(values)]
        return NodeRow(values[0], op, once=draws, reads=reads, values=rows, saved=self._saved(op, reads, values))

    def _value(self, name: str, place: int) -> ValueRow:
        extent = self.extents[name]
        return ValueRow(
            extent.memory,
            name=name if place else None,
            output=name in self.outputs,
            grad_memory=extent.memory if extent.floating else -1,
        )

    def _saved(self, op: str, reads: list[str], values: list[str]) -> list[str] | None:
        """Return the tensors that a gradient reads, including all indices and conditions. None means all tensors."""
        if op == "Dropout":
            return values[1:] or None  # the mask
        kind = operation_kind(op)
        discrete = [name for name in reads if not self.extents[name].floating]
        if op in LINEAR:
            return discrete
        if kind is None:
            return None
        alone = bool(kind.extra) and len(values) == 1
        inputs, output = kind.saved(alone=alone)
        # The further outputs of BatchNormalization are running statistics, which its gradient does not read.
        extra = values[1:] if kind.extra and op != "BatchNormalization" else []
        return [*(reads if inputs else discrete), *(values[:1] if output else []), *extra]

    def _result_size(self, node: Any) -> int:
        return prod(next(self.extents[name].shape for name in node.output if name in self.extents))

    def _flops(self, node: Any, shapes: ChainMap[str, tuple[int, ...]], constants: ChainMap[str, Any]) -> int:
        bodies = [self._body_flops(body, shapes, constants) for body in _bodies(node)]
        if node.op_type == "If" and bodies:
            return max(bodies)
        if node.op_type in ("Loop", "Scan") and bodies:
            return bodies[0] * self._trips(node, shapes, constants)
        named = [*node.input, node.output[0]]
        # Every tensor outside of bodies has a size, but a tensor inside a body may have none.
        if not all(name in shapes for name in named if name):
            return 0
        attributes = {entry.name: onnx.helper.get_attribute_value(entry) for entry in node.attribute}
        reads, values = ([shapes.get(name) for name in names] for names in (node.input, node.output))
        return operator_flops(_op(node), reads, values, attributes) + sum(bodies)

    def _body_flops(self, body: Any, shapes: ChainMap[str, tuple[int, ...]], constants: ChainMap[str, Any]) -> int:
        sized = {info.name: _shape(info) for info in _infos(body) if _has_size(info)}
        constants_inside = {tensor.name: tensor for tensor in body.initializer}
        sized |= {name: tuple(tensor.dims) for name, tensor in constants_inside.items()}
        for node in body.node:
            constants_inside |= _constant(node)
        inside = shapes.new_child(sized), constants.new_child(constants_inside)
        return sum(self._flops(node, *inside) for node in body.node if any(node.output))

    def _trips(self, node: Any, shapes: ChainMap[str, tuple[int, ...]], constants: ChainMap[str, Any]) -> int:
        """Return the number of times that a Loop or Scan runs its body, or 1 if this is unknown."""
        if node.op_type == "Loop":
            tensor = constants.get(node.input[0])
            trips = int(onnx.numpy_helper.to_array(tensor).item()) if tensor is not None else 1
            # A huge maximum trip count means that the condition ends the loop, so the number is unknown.
            return max(0, trips) if trips < 2**31 else 1
        attributes = {entry.name: onnx.helper.get_attribute_value(entry) for entry in node.attribute}
        first = len(node.input) - attributes["num_scan_inputs"]
        shape = shapes.get(node.input[first])
        if shape is None:
            return 1
        # Before opset 9, the inputs of Scan have a batch dimension, followed by the dimension that is scanned.
        if self.opset < 9:
            return prod(shape[:2])
        return shape[attributes.get("scan_input_axes", [0])[0]]

    def _residents(self) -> list[ResidentRow]:
        role = {tensor.name: "parameter" for tensor in self.graph.initializer if self.extents[tensor.name].floating}
        for node in self.graph.node:
            if node.op_type == "BatchNormalization":
                role |= dict.fromkeys(node.input[3:5], "state")  # running mean and variance
            if node.op_type in SETTINGS:
                role |= dict.fromkeys(node.input[1:], "input")
        names = dict.fromkeys((*self.constants, *(info.name for info in self.graph.input)))
        return [ResidentRow(name, self.extents[name].memory, role.get(name, "input")) for name in names]


def _op(node: Any) -> str:
    """Return the name of an operator, with its domain as a prefix unless that is ONNX's own."""
    return node.op_type if node.domain in OWN_DOMAINS else f"{node.domain}.{node.op_type}"


def _bodies(node: Any) -> Iterator[Any]:
    for entry in node.attribute:
        if entry.HasField("g"):
            yield entry.g
        yield from entry.graphs


def _reads(node: Any) -> Iterator[str]:
    yield from filter(None, node.input)
    for body in _bodies(node):
        inside = {info.name for info in body.input} | {tensor.name for tensor in body.initializer}
        for inner in body.node:
            yield from (name for name in _reads(inner) if name not in inside)
            inside |= set(inner.output)
        yield from (info.name for info in body.output if info.name not in inside)


def _draws(node: Any, constants: Mapping[str, Any], opset: int) -> bool:
    for body in _bodies(node):
        inside = {**constants, **{tensor.name: tensor for tensor in body.initializer}}
        for inner in body.node:
            inside |= _constant(inner)
        if any(_draws(inner, inside, opset) for inner in body.node):
            return True
    if node.domain not in OWN_DOMAINS or node.op_type != "Dropout":
        return node.op_type in RANDOM and node.domain in OWN_DOMAINS
    # Before opset 12, Dropout has no training flag: from opset 7 to 11 it never draws.
    if opset < 12:
        return opset < 7 and not any(entry.name == "is_test" and entry.i for entry in node.attribute)
    flag = node.input[2] if len(node.input) > 2 else ""
    return bool(flag) and (flag not in constants or bool(onnx.numpy_helper.to_array(constants[flag]).any()))


def _constant(node: Any) -> dict[str, Any]:
    if node.op_type != "Constant" or node.domain not in OWN_DOMAINS:
        return {}
    values = (
        onnx.helper.get_attribute_value(entry) for entry in node.attribute if entry.name in ("value", "value_int")
    )
    value = next(values, None)
    tensor = onnx.numpy_helper.from_array(np.array(value)) if isinstance(value, int) else value
    return {node.output[0]: tensor}
