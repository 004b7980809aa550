"""StableHLO modules, as JAX lowers functions to them, as computation graphs."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from math import prod
from typing import Any

from remat_algos.arguments import checked_arguments
from remat_algos.cost.roofline import Cost, operator_costs
from remat_algos.errors import GraphError
from remat_algos.files import decoded, read_bytes
from remat_algos.interop.optional import require
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.tables import NodeRow, ResidentRow, Tables, ValueRow
from remat_algos.text.wording import first_line, shortened, shortened_path

ir, dialect = require("jaxlib.mlir.ir", "jax"), require("jaxlib.mlir.dialects.stablehlo", "jax")

DIALECT = "stablehlo."
BYTECODE = b"ML\xefR"
LOWER = "lower a function: jax.jit(g).lower(*args)"
TOKENS = ("!stablehlo.token", "!mhlo.token")
LONGEST_FAULT = 200  # characters of what MLIR says
VIEWS = frozenset(("reshape", "optimization_barrier"))
"""Operations whose values are their reads, in another shape at most."""

EFFECTS = frozenset(("rng", "infeed", "outfeed", "send", "recv"))
"""Operations that must not run a second time, beside calls that are marked with a side effect."""

COLLECTIVES = frozenset(("all_gather", "all_reduce", "all_to_all", "collective_permute", "reduce_scatter"))
"""Operations that all devices run together; they do not run a second time either."""


@checked_arguments
def capture(lowered: Any, *, cost: Cost = "roofline") -> ComputationGraph:
    """The graph of a function that JAX has lowered.

    Nodes are called by their operation and a number, in the order of the module; arguments and constants are residents.
    Private functions are written out where they are called. `while`, `case` and whatever else has regions are one node
    each, which reads what its regions read from outside. `reshape` and `optimization_barrier` are views. Random bits
    of a key may be drawn a second time, since they are the same; `rng`, collectives and calls with an effect may not.

    Parameters
    ----------
    lowered : jax.stages.Lowered, jaxlib.mlir.ir.Module, path or bytes
        `jax.jit(g).lower(*args)`, or its `compiler_ir("stablehlo")`. A file or bytes hold its text,
        `as_text()`.
    cost : {"roofline", "flops"} or callable, optional
        "roofline": ns on 10 TFLOP/s, 1.5 TB/s and 4 us per operation. "flops": FLOPs. A callable gives the ns of
        (FLOPs, bytes). FLOPs are those of dot_general and convolution; other operations have none.

    Returns
    -------
    ComputationGraph
        Without a backward part: gradients that the function computes are nodes as others are.

    Raises
    ------
    GraphError
        If there is no module in the file, or one without a main function; if a shape is not fixed; for an unknown cost.
    TypeError
        For what is no lowered function and no module.
    ImportError
        If JAX is not installed.

    Examples
    --------
    >>> import jax
    >>> lowered = jax.jit(lambda x: (x @ x).sum()).lower(jax.ShapeDtypeStruct((8, 8), "float32"))
    >>> graph = capture(lowered, cost="flops")
    >>> graph.labels.names, graph.memory.tolist(), graph.compute.tolist()
    (('dot_general.0', 'reduce.0'), [256, 4], [1024, 0])
    """
    module = lowered.compiler_ir("stablehlo") if hasattr(lowered, "compiler_ir") else lowered
    if isinstance(module, str | os.PathLike):
        module = _parsed(read_bytes(module), shortened_path(module))
    elif isinstance(module, bytes):
        module = _parsed(module, "the module")
    if not isinstance(module, ir.Module):
        raise TypeError(
            f"lowered is a {type(lowered).__name__}; give jax.jit(g).lower(*args), its StableHLO module, or its file"
        )
    try:
        rows = _HloRows(module)
    except (GraphError, MemoryError):
        raise
    except Exception as error:  # what the verifier of MLIR lets pass, and JAX does not make
        raise GraphError(f"the module is none that JAX makes ({first_line(error)}); {LOWER}") from error
    return ComputationGraph.from_tables(rows.tables(cost))


def _parsed(data: bytes, source: str) -> Any:
    """The module that a file holds, in a context of its own."""
    if data.startswith(BYTECODE):  # damaged bytecode can end the process that reads it
        raise GraphError(f"{source} is MLIR bytecode; give the text, jax.jit(g).lower(*args).as_text()")
    text = decoded(data, source)
    context = require("jax.interpreters.mlir", "jax").make_ir_context()
    handler = context.attach_diagnostic_handler(lambda _: True)  # else they are printed
    try:
        return ir.Module.parse(text, context)
    except Exception as error:  # of the bindings
        said = [line for line in str(error).splitlines() if line.startswith("error: ")]
        fault = shortened(said[0].removeprefix("error: "), LONGEST_FAULT) if said else first_line(error)
        raise GraphError(f"{source} is no StableHLO module ({fault}); is the file whole, or of a later JAX?") from error
    finally:
        handler.detach()


class _HloRows:
    """Rows of the operations of a module, one after another; `names` has those of a function's MLIR values."""

    def __init__(self, module: Any) -> None:
        self.functions = {
            operation.attributes["sym_name"].value: list(operation.regions[0].blocks)
            for operation in module.body.operations
            if operation.operation.name == "func.func"
        }
        if "main" not in self.functions:
            raise GraphError(f"the module has no function main; {LOWER}")
        self.rows: list[NodeRow] = []
        self.residents: list[ResidentRow] = []
        self.flops: list[int] = []
        self.moved: list[int] = []
        self.counts: Counter[str] = Counter()
        self.calls: list[str] = []
        names = {}
        for k, argument in enumerate(self._body("main").arguments):
            names[argument] = f"arg{k}"
            self.residents.append(ResidentRow(f"arg{k}", _memory(argument.type)))
        self.outputs = set(self._function("main", names))

    def tables(self, cost: Cost) -> Tables:
        """The rows, costs among them."""
        costs, unit = operator_costs(cost, self.flops, self.moved)
        for row, amount in zip(self.rows, costs.tolist(), strict=True):
            row.compute = 0 if row.values[0].view_of is not None else amount
            for place, value in enumerate(row.values):
                value.output = row.value_name(place) in self.outputs
        return Tables(self.rows, self.residents, compute_unit=unit, compute_scale=1, source="the StableHLO module")

    def _body(self, function: str) -> Any:
        """The block of a function; one after another runs in several only where branches of another dialect are."""
        blocks = self.functions.get(function, [])
        if len(blocks) != 1:
            kind = "branches between blocks" if blocks else "no body"
            raise GraphError(f"the function {shortened(function)} has {kind}; {LOWER}")
        return blocks[0]

    def _function(self, function: str, names: dict[Any, str]) -> list[str]:
        """Add the operations of a function whose arguments have names; the names of what it returns."""
        if function in self.calls:
            raise GraphError(f"the function {shortened(function)} calls itself; write it as a loop")
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
        """Add a node, or a resident for a constant; the names of its values."""
        op = operation.name.removeprefix(DIALECT)
        name = f"{op}.{self.counts[op]}"
        self.counts[op] += 1
        sizes = [_memory(result.type) for result in operation.results]
        if op == "constant":
            self.residents.append(ResidentRow(name, sizes[0]))
            return [name]
        read = dict.fromkeys(operand for operand in _operands(operation) if operand in names)
        if op in VIEWS:
            values = [ValueRow(0, view_of=names[operand]) for operand in operation.operands]
        else:
            values = [ValueRow(size) for size in sizes] or [ValueRow(0)]
        reads = list(dict.fromkeys(names[operand] for operand in read))
        row = NodeRow(name, op, once=self._has_effect(operation), reads=reads, values=values)
        self.rows.append(row)
        self.flops.append(_flops(op, operation))
        self.moved.append(sum(sizes) + sum(_memory(operand.type) for operand in read))
        return [row.value_name(place) for place in range(len(sizes))]

    def _has_effect(self, operation: Any) -> bool:
        """Whether an operation, or one in its regions or in a function called there, must not run a second time."""
        op = operation.name.removeprefix(DIALECT)
        if op in EFFECTS or op in COLLECTIVES:
            return True
        if "has_side_effect" in operation.attributes and operation.attributes["has_side_effect"].value:
            return True
        blocks = list(_blocks(operation))
        if op == "func.call":
            blocks.append(self._body(operation.attributes["callee"].value))
        return any(self._has_effect(inner.operation) for block in blocks for inner in block.operations)


def _blocks(operation: Any) -> Iterator[Any]:
    for region in operation.regions:
        yield from region.blocks


def _operands(operation: Any) -> Iterator[Any]:
    """What an operation and its regions read; what regions compute themselves is among it."""
    yield from operation.operands
    for block in _blocks(operation):
        for inner in block.operations:
            yield from _operands(inner.operation)


def _memory(kind: Any) -> int:
    """Bytes of a tensor; a token has none."""
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
        raise GraphError(f"the module has a {shortened(kind)}, whose elements have no size; use numbers")
    if isinstance(kind, ir.RankedTensorType | ir.UnrankedTensorType):
        raise GraphError(f"the module has a {shortened(kind)}, whose lengths are not fixed; lower it for one shape")
    raise GraphError(f"the module has a {shortened(kind)}, which is no tensor; {LOWER}")


def _flops(op: str, operation: Any) -> int:
    if op not in ("dot_general", "convolution"):
        return 0
    left, right = (operand.type.shape for operand in operation.operands)
    size = 2 * prod(operation.results[0].type.shape)
    if op == "dot_general":
        numbers = dialect.DotDimensionNumbers(operation.attributes["dot_dimension_numbers"])
        return size * prod(left[axis] for axis in numbers.lhs_contracting_dimensions)
    numbers = dialect.ConvDimensionNumbers(operation.attributes["dimension_numbers"])
    dilation = list(operation.attributes["lhs_dilation"]) if "lhs_dilation" in operation.attributes else []
    return size * prod(right) // right[numbers.kernel_output_feature_dimension] // prod(dilation)
