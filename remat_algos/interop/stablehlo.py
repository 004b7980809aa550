"""Conversion of StableHLO modules, which JAX generates when it lowers functions, to computation graphs."""

from __future__ import annotations

import ast
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from math import prod
from typing import Any

from remat_algos.arguments import checked_arguments
from remat_algos.cost.node_costs import Cost, operator_costs
from remat_algos.errors import ArgumentTypeError, GraphError
from remat_algos.files import decoded, read_bytes
from remat_algos.interop.open_dims import check_known, checked_dims, length_of, missing_lengths, symbols_of
from remat_algos.interop.optional import require
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.tables import NodeRow, ResidentRow, Tables, ValueRow

ir, passmanager = require("jaxlib.mlir.ir", "jax"), require("jaxlib.mlir.passmanager", "jax")
stablehlo = require("jaxlib.mlir.dialects.stablehlo", "jax")
mlir, extend = require("jax.interpreters.mlir", "jax"), require("jax.extend.mlir", "jax")

DIALECT = "stablehlo."
BYTECODE = b"ML\xefR"
LOWER = "lower a function: jax.jit(g).lower(*args)"
TOKENS = ("!stablehlo.token", "!mhlo.token")
COUNTERS = ("i32", "i64", "ui32", "ui64")  # types of loop counters
_FAULT = re.compile(r"error: (?:loc\(.*?\): )?(.*)")
_SHAPES = re.compile(r"polymorphic shapes specifications: (.*?)\. Obtained")
_SHAPE = re.compile(r"\.shape = \(([^'\"\[\]]*)\)(?=,|$)")
VIEWS = frozenset(("reshape", "optimization_barrier"))
"""Operations whose results are their operands, possibly in another shape."""

PRODUCTS = frozenset(("dot_general", "convolution"))
EFFECTS = frozenset(("rng", "infeed", "outfeed", "send", "recv"))
"""Operations that have an effect. Neither these nor calls that are marked with a side effect are recomputed."""

CALLEES = {"func.call": "callee", "stablehlo.composite": "decomposition"}
"""Operations that call a function, each with the attribute that contains the function's name."""

COLLECTIVES = frozenset(("all_gather", "all_reduce", "all_to_all", "collective_permute", "reduce_scatter"))
"""Operations that all devices run together; they are never recomputed."""


@checked_arguments
def capture(lowered: Any, dims: Mapping[str, int] | None = None, *, cost: Cost = "roofline") -> ComputationGraph:
    """Return the graph of a function lowered or exported by JAX; all its nodes are forward nodes.

    - Nodes are named by operation and number and keep the order of the module; arguments and constants are residents.
    - Private functions are inlined. `while`, `case` and other operations with regions are one node each, which reads
      the values that its regions read from outside.
    - `reshape`, `optimization_barrier` and a `convert` to the same type are views.
    - `rng`, collectives and calls with effects run once. Random bits from a key may be recomputed, because the same
      key gives the same bits.

    Parameters
    ----------
    lowered : jax.stages.Lowered, jax.export.Exported, jaxlib.mlir.ir.Module, str, path or bytes
        `jax.jit(g).lower(*args)`, `jax.export.export(jax.jit(g))(*args)`, or the module of either. A str is the path
        of a file or the text of a module, from `exported.mlir_module()` or `lowered.as_text()`. The text may be bytes.
    dims : mapping of str to int, optional
        Lengths of symbolic dimensions, such as `{"b": 8}` for `jax.export.symbolic_shape("b, 2*b")`. "arg1[0]" is axis
        0 of argument 1 if the module has no symbol for it.
    cost : {"roofline", "occupancy", "flops"} or callable, optional
        As for `remat_algos.interop.onnx.capture`; FLOPs are those of dot_general and convolution, including those in
        branches and loops.

    Raises
    ------
    GraphError
        If the file has no module, the module has no main function, a tensor has no size, or a dimension or cost is
        unknown.
    """
    lengths = checked_dims(dims)
    module = _module(lowered)
    try:
        rows = _HloRows(_with_sizes(module, lengths))
    except (GraphError, MemoryError):
        raise
    except Exception as error:
        raise GraphError(
            "the module is not one that JAX emits ({error!e}); {lower!w}", error=error, lower=LOWER
        ) from error
    return ComputationGraph.from_tables(rows.tables(cost))


def _module(lowered: Any) -> Any:
    if hasattr(lowered, "compiler_ir"):
        return lowered.compiler_ir("stablehlo")
    if isinstance(lowered, ir.Module):
        return lowered
    if hasattr(lowered, "mlir_module"):
        return _parsed(lowered.mlir_module(), "the module")
    if isinstance(lowered, str) and "{" in lowered and not os.path.lexists(lowered):
        return _parsed(lowered, "the module")
    if isinstance(lowered, str | os.PathLike):
        source = os.fspath(lowered)
        return _parsed(_text(read_bytes(lowered), source), source)
    if isinstance(lowered, bytes):
        return _parsed(_text(lowered, "the module"), "the module")
    raise ArgumentTypeError(
        "lowered has type {kind!w}; give jax.jit(g).lower(*args), its StableHLO module, or its file",
        kind=type(lowered).__name__,
    )


def _text(data: bytes, source: str) -> str:
    # Bytecode is not parsed, because damaged bytecode can crash the process.
    if data.startswith(BYTECODE):
        raise GraphError(
            "{source!p} is MLIR bytecode; give the text, jax.jit(g).lower(*args).as_text() or exported.mlir_module()",
            source=source,
        )
    return decoded(data, source)


def _parsed(text: str, source: str) -> Any:
    context = mlir.make_ir_context()
    with _silent(context):
        try:
            return ir.Module.parse(text, context)
        except Exception as error:
            raise GraphError(
                "{source!p} is not a StableHLO module ({fault!e}); is the file whole, or from a later JAX?",
                source=source,
                fault=_fault(error),
            ) from error


@contextmanager
def _silent(context: Any) -> Iterator[None]:
    """Suppress the messages that MLIR prints; its errors contain the same messages."""
    handler = context.attach_diagnostic_handler(lambda _: True)
    try:
        yield
    finally:
        handler.detach()


def _fault(error: Exception) -> str:
    """Return the message of an MLIR error, without the position in the file."""
    match = _FAULT.search(str(error))
    return str(error) if match is None else match[1].partition(" Using the following")[0].rstrip()


def _with_sizes(module: Any, dims: dict[str, int]) -> Any:
    """Return the module; if it has open dimensions, a copy in which every dimension has a length."""
    main = next((each for each in _functions(module) if _name(each) == "main"), None)
    if main is None:
        return module
    kinds = list(main.attributes["function_type"].value.inputs)
    unsized = [k for k, kind in enumerate(kinds) if _is_open(kind)]
    written = _written_shapes(main)
    if len(written) != len(unsized):
        written = [[] for _ in unsized]
    shapes = {k: _shape(f"arg{k}", kinds[k], names, dims) for k, names in zip(unsized, written, strict=True)}
    symbols = {k: [name for each in shape for name in symbols_of(each)] for k, shape in shapes.items()}
    names = set(chain(*symbols.values()))
    check_known(dims, names, names)
    if shapes and _takes_lengths(main):
        raise GraphError("the module takes lengths as arguments; give jax.export.export(jax.jit(g))(*args)")
    missing = [name for name in chain(*symbols.values()) if name not in dims]
    if missing:
        lacking = [k for k in unsized if not dims.keys() >= set(symbols[k])]
        first = lacking[0]
        raise missing_lengths(len(lacking), f"arg{first:d}", shapes[first], missing, "MODEL.mlir")
    for k, shape in shapes.items():
        lengths = [length_of(each, dims) for each in shape]
        with ir.Location.unknown(module.context):
            kinds[k] = ir.RankedTensorType.get(lengths, kinds[k].element_type)
    return _refined(module, kinds) if shapes or _has_open(module) else module


def _shape(name: str, kind: Any, written: list[str], dims: Mapping[str, int]) -> list[str]:
    shape = []
    for axis in range(kind.rank):
        place = f"{name}[{axis}]"
        if not kind.is_dynamic_dim(axis):
            shape.append(str(kind.get_dim_size(axis)))
        elif len(written) != kind.rank or (place in dims and not dims.keys() >= set(symbols_of(written[axis]))):
            shape.append(place)
        else:
            shape.append(written[axis])
    return shape


def _written_shapes(main: Any) -> list[list[str]]:
    """Return the shapes of open arguments as the user wrote them, from the error messages that jax.export adds."""
    for block in _blocks(main):
        for operation in block.operations:
            attributes = operation.operation.attributes
            if "error_message" in attributes and (match := _SHAPES.search(attributes["error_message"].value)):
                return [_dimensions(shape) for shape in _SHAPE.findall(match[1])]
    return []


def _dimensions(shape: str) -> list[str]:
    """Split a shape, written as a string, into dimensions; return an empty list if the string is not a shape."""
    try:
        parsed = ast.parse(f"({shape})", mode="eval").body
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return []
    elements = parsed.elts if isinstance(parsed, ast.Tuple) else []
    return [ast.get_source_segment(f"({shape})", element) or "" for element in elements]


def _takes_lengths(main: Any) -> bool:
    """Return True if a function takes lengths of dimensions as arguments, which means that it was not exported."""
    attributes = main.attributes.get("arg_attrs", [])
    constants = [each["jax.global_constant"].value for each in attributes if "jax.global_constant" in each]
    return any(constant not in ("", "_platform_index") for constant in constants)


def _refined(module: Any, kinds: Sequence[Any]) -> Any:
    """Return a copy of a module in which main has these argument types and all other lengths are inferred."""
    context = mlir.make_ir_context()
    with _silent(context), context:
        stablehlo.register_stablehlo_passes()
        copy = ir.Module.parse(module.operation.get_asm(binary=True))
        try:
            if kinds:
                types = ",".join(map(str, kinds))
                pipeline = f"builtin.module(stablehlo-refine-arguments{{types={types}}})"
                passmanager.PassManager.parse(pipeline).run(copy.operation)
            refined = extend.refine_polymorphic_shapes(
                mlir_module=copy.operation.get_asm(binary=True),
                enable_shape_assertions=True,
                validate_static_shapes=True,
                enable_shardy=True,
            )
            return ir.Module.parse(refined)
        except Exception as error:
            raise GraphError(
                "the module's shapes cannot be inferred: {fault!e}; is it valid for these dims?", fault=_fault(error)
            ) from error


def _has_open(module: Any) -> bool:
    unsized: list[Any] = []

    def visit(operation: Any) -> Any:
        unsized.extend(result for result in operation.results if _is_open(result.type))
        return ir.WalkResult.INTERRUPT if unsized else ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return bool(unsized)


def _is_open(kind: Any) -> bool:
    return isinstance(kind, ir.RankedTensorType) and not kind.has_static_shape


def _functions(module: Any) -> list[Any]:
    operations = (operation.operation for operation in module.body.operations)
    return [operation for operation in operations if operation.name == "func.func"]


def _name(function: Any) -> str:
    return str(function.attributes["sym_name"].value)


class _HloRows:
    def __init__(self, module: Any) -> None:
        self.functions = {_name(function): list(_blocks(function)) for function in _functions(module)}
        if "main" not in self.functions:
            raise GraphError("the module has no function main; {lower!w}", lower=LOWER)
        self.rows: list[NodeRow] = []
        self.residents: list[ResidentRow] = []
        self.flops: list[int] = []
        self.moved: list[int] = []
        self.products: list[int] = []
        self.counts: Counter[str] = Counter()
        self.calls: list[str] = []
        self.called_flops: dict[str, int] = {}
        names = {}
        for k, argument in enumerate(self._body("main").arguments):
            names[argument] = f"arg{k}"
            self.residents.append(ResidentRow(f"arg{k}", _memory(argument.type)))
        self.outputs = set(self._function("main", names))

    def tables(self, cost: Cost) -> Tables:
        costs, unit = operator_costs(cost, self.flops, self.moved, self.products)
        for row, amount in zip(self.rows, costs.tolist(), strict=True):
            row.compute = 0 if row.values[0].view_of is not None else amount
            for place, value in enumerate(row.values):
                value.output = row.value_name(place) in self.outputs
        return Tables(self.rows, self.residents, compute_unit=unit, compute_scale=1, source="the StableHLO module")

    def _body(self, function: str) -> Any:
        """Return the only block of a function; StableHLO has no branches between blocks."""
        blocks = self.functions.get(function, [])
        if len(blocks) != 1:
            kind = "branches between blocks" if blocks else "no body"
            raise GraphError(
                "the function {function} has {kind!w}; {lower!w}", function=function, kind=kind, lower=LOWER
            )
        return blocks[0]

    def _function(self, function: str, names: dict[Any, str]) -> list[str]:
        if function in self.calls:
            raise GraphError("the function {function} calls itself; write it as a loop", function=function)
        self.calls.append(function)
        for operation in self._body(function).operations:
            operation = operation.operation
            reads = [names[operand] for operand in operation.operands]
            if operation.name == "func.return":
                self.calls.remove(function)
                return reads
            if operation.name == "func.call":
                callee = operation.attributes["callee"].value
                inside = dict(zip(self._body(callee).arguments, reads, strict=True))
                results = self._function(callee, inside)
            else:
                results = self._operation(operation, names)
            names.update(zip(operation.results, results, strict=True))
        return []

    def _operation(self, operation: Any, names: dict[Any, str]) -> list[str]:
        op = operation.name.removeprefix(DIALECT)
        name = f"{op}.{self.counts[op]}"
        self.counts[op] += 1
        sizes = [_memory(result.type) for result in operation.results]
        if op == "constant":
            # The inference of lengths can leave constants that nothing uses.
            if next(iter(operation.results[0].uses), None) is not None:
                self.residents.append(ResidentRow(name, sizes[0]))
            return [name]
        read = dict.fromkeys(operand for operand in _operands(operation) if operand in names)
        kinds = [value.type for value in (*operation.operands, *operation.results)]
        if op in VIEWS or (op == "convert" and kinds[0] == kinds[1]):
            values = [ValueRow(0, view_of=names[operand]) for operand in operation.operands]
        else:
            values = [ValueRow(size) for size in sizes] or [ValueRow(0)]
        reads = list(dict.fromkeys(names[operand] for operand in read))
        row = NodeRow(name, op, once=self._has_effect(operation), reads=reads, values=values)
        self.rows.append(row)
        self.flops.append(self._flops(operation))
        self.products.append(prod(operation.results[0].type.shape) if op in PRODUCTS else 0)
        self.moved.append(sum(sizes) + sum(_memory(operand.type) for operand in read))
        return [row.value_name(place) for place in range(len(sizes))]

    def _flops(self, operation: Any) -> int:
        blocks = [sum(self._flops(inner.operation) for inner in block.operations) for block in _blocks(operation)]
        if operation.name in CALLEES:
            callee = operation.attributes[CALLEES[operation.name]].value
            if callee not in self.called_flops:
                body = self._body(callee)
                # This entry ends the recursion if the function calls itself; `_function` reports recursion as an error.
                self.called_flops[callee] = 0
                self.called_flops[callee] = sum(self._flops(inner.operation) for inner in body.operations)
            return self.called_flops[callee]
        if operation.name in ("stablehlo.case", "stablehlo.if"):
            return max(blocks, default=0)
        if operation.name == "stablehlo.while":
            return sum(blocks) * _trips(operation)
        return _product_flops(operation) + sum(blocks)

    def _has_effect(self, operation: Any) -> bool:
        """Return True if an operation, or one inside its regions or called functions, must not be recomputed."""
        op = operation.name.removeprefix(DIALECT)
        if op in EFFECTS or op in COLLECTIVES:
            return True
        if "has_side_effect" in operation.attributes and operation.attributes["has_side_effect"].value:
            return True
        blocks = list(_blocks(operation))
        if operation.name in CALLEES:
            blocks.append(self._body(operation.attributes[CALLEES[operation.name]].value))
        return any(self._has_effect(inner.operation) for block in blocks for inner in block.operations)


def _blocks(operation: Any) -> Iterator[Any]:
    for region in operation.regions:
        yield from region.blocks


def _operands(operation: Any) -> Iterator[Any]:
    yield from operation.operands
    for block in _blocks(operation):
        for inner in block.operations:
            yield from _operands(inner.operation)


def _memory(kind: Any) -> int:
    if str(kind) in TOKENS:
        return 0
    if isinstance(kind, ir.TupleType):
        return sum(_memory(kind.get_type(place)) for place in range(kind.num_types))
    if isinstance(kind, ir.RankedTensorType) and kind.has_static_shape:
        element, parts = kind.element_type, 1
        if isinstance(element, ir.ComplexType):
            element, parts = element.element_type, 2
        if (bits := getattr(element, "width", None)) is not None:
            bits = 8 if bits == 1 else bits  # a bool takes a byte
            return (prod(kind.shape) * bits * parts + 7) // 8
        raise GraphError("the module has a {kind}, whose elements have no size; use numbers", kind=kind)
    if isinstance(kind, ir.RankedTensorType | ir.UnrankedTensorType):
        raise GraphError("the module has a {kind}, whose lengths are not fixed; lower it for one shape", kind=kind)
    raise GraphError("the module has a {kind}, which is not a tensor; {lower!w}", kind=kind, lower=LOWER)


def _product_flops(operation: Any) -> int:
    op = operation.name.removeprefix(DIALECT)
    if op not in PRODUCTS:
        return 0
    left, right = (operand.type.shape for operand in operation.operands)
    size = 2 * prod(operation.results[0].type.shape)
    if op == "dot_general":
        numbers = stablehlo.DotDimensionNumbers(operation.attributes["dot_dimension_numbers"])
        return size * prod(left[axis] for axis in numbers.lhs_contracting_dimensions)
    numbers = stablehlo.ConvDimensionNumbers(operation.attributes["dimension_numbers"])
    dilation = list(operation.attributes["lhs_dilation"]) if "lhs_dilation" in operation.attributes else []
    return size * prod(right) // right[numbers.kernel_output_feature_dimension] // prod(dilation)


def _trips(loop: Any) -> int:
    """Return the number of iterations of a `while` that counts between two constants, as JAX's loops do, or 1."""
    condition, body = (region.blocks[0] for region in loop.regions)
    test = _producer(list(condition.operations)[-1].operands[0])
    if test is None or test.name != "stablehlo.compare" or "LT" not in str(test.attributes["comparison_direction"]):
        return 1
    places = [k for k, argument in enumerate(condition.arguments) if argument == test.operands[0]]
    if not places:
        return 1
    step = _producer(list(body.operations)[-1].operands[places[0]])
    if step is None or step.name != "stablehlo.add" or step.operands[0] != body.arguments[places[0]]:
        return 1
    begin, end, increment = map(_whole_constant, (loop.operands[places[0]], test.operands[1], step.operands[1]))
    if begin is None or end is None or increment is None or increment <= 0:
        return 1
    return max(0, -((begin - end) // increment))


def _producer(value: Any) -> Any:
    owner = value.owner
    return None if isinstance(owner, ir.Block) else owner.operation


def _whole_constant(value: Any) -> int | None:
    producer, kind = _producer(value), value.type
    if producer is None or producer.name != "stablehlo.constant" or kind.rank or str(kind.element_type) not in COUNTERS:
        return None
    return int(ir.DenseIntElementsAttr(producer.attributes["value"])[0])
