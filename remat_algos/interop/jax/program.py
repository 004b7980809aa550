"""Equations of a function after inlining, common subexpression elimination and dead code elimination."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from numbers import Number
from typing import Any, NamedTuple

import numpy as np

from remat_algos.interop.optional import require

jax = require("jax", "jax")
core = require("jax.extend.core", "jax")
primitives = require("jax.extend.core.primitives", "jax")

INLINED = (
    primitives.jit_p,
    primitives.call_p,
    primitives.closed_call_p,
    primitives.custom_jvp_call_p,
    primitives.custom_vjp_call_p,
    primitives.remat_p,
)
PRODUCTS = (primitives.dot_general_p, primitives.conv_general_dilated_p)
LOOPS = (primitives.scan_p, primitives.while_p, primitives.cond_p)
"""Loops and branches; each is one node with the cost and the intermediate values of its bodies."""

TRANSPOSED = "transpose("
"""Text in the name stack of each equation that JAX's transposition creates; these equations are backward."""


class Source(NamedTuple):
    """Source of an array: resident number `place` (an argument or a constant), or value number `place`."""

    resident: bool
    place: int


def is_value(read: Any) -> bool:
    """Return True if an operand is a value of an equation, False if it is a resident or a literal."""
    return isinstance(read, Source) and not read.resident


@dataclass(slots=True)
class Equation:
    """An equation; `effect_before` is the last value of the previous equation with an effect, or -1."""

    eqn: Any
    reads: list[Any]  # Source or Literal per operand
    first: int
    backward: bool
    bodies: list[FlatJaxpr]
    effect_before: int = -1

    @property
    def values(self) -> range:
        """Ids of the values: the results, and a value of 0 bytes if the equation has an effect or no results."""
        n_results = len(self.eqn.outvars)
        return range(self.first, self.first + n_results + (bool(self.eqn.effects) or not n_results))

    @property
    def value_reads(self) -> list[int]:
        """Values that it reads, without repetition, in the order of the operands."""
        values = [read.place for read in self.reads if is_value(read)]
        return list(dict.fromkeys(values if self.effect_before < 0 else [*values, self.effect_before]))

    @property
    def resident_reads(self) -> list[int]:
        return sorted({read.place for read in self.reads if isinstance(read, Source) and read.resident})

    @property
    def memory(self) -> list[int]:
        sizes = [array_bytes(variable.aval) for variable in self.eqn.outvars]
        return sizes + [0] * (len(self.values) - len(sizes))

    @property
    def dtype(self) -> str:
        """Element type of its first result, or "" if it has no result."""
        return next((str(each.aval.dtype) for each in self.eqn.outvars if hasattr(each.aval, "dtype")), "")

    @property
    def flops(self) -> int:
        """FLOPs of its matrix products and convolutions, including those in the bodies of a loop or branch."""
        return _flops(self.eqn)

    @property
    def product_size(self) -> int:
        """Number of elements of its result if it is a matrix product or a convolution, else 0."""
        return prod(self.eqn.outvars[0].aval.shape) if self.eqn.primitive in PRODUCTS else 0

    def run(self, array_of: Callable[[Any], Any]) -> list[Any]:
        """Compute its results with JAX's own interpreter; append None if it also has a value of 0 bytes."""
        results = evaluate(self.eqn, [array_of(read) for read in self.reads])
        return [*results, *[None] * (len(self.values) - len(results))]


class FlatJaxpr:
    """The equations of a jaxpr, numbered topologically.

    Calls are inlined, equal equations are merged, and unused equations without effects are dropped. Equations of
    `checkpoint_name`, and those that round to the operand's own precision, are replaced by their operand. Residents are
    the arguments, followed by `consts`. If a `scan` stacks rows
    that have names, the stacked array gets the same names.
    """

    def __init__(self, closed: Any) -> None:
        self.equations: list[Equation] = []
        self.consts: list[Any] = []
        self.names: dict[Source, tuple[str, ...]] = {}
        self.arguments: Sequence[Any] = closed.in_avals
        self._by_key: dict[Hashable, Equation] = {}
        self._backward: set[int] = set()  # values of the backward part
        self._n_values = 0
        self._last_effect = -1
        arguments = [Source(True, i) for i in range(len(self.arguments))]
        self.results = self._inline(closed.jaxpr, closed.consts, arguments, False)
        self._drop_dead()

    def _inline(self, jaxpr: Any, consts: Sequence[Any], arguments: Sequence[Any], backward: bool) -> list[Any]:
        inputs = [*map(self._constant, consts), *arguments]
        sources = dict(zip([*jaxpr.constvars, *jaxpr.invars], inputs, strict=True))

        def source(atom: Any) -> Any:
            return atom if isinstance(atom, core.Literal) else sources[atom]

        for eqn in jaxpr.eqns:
            reads = [source(atom) for atom in eqn.invars]
            transposed = backward or TRANSPOSED in str(eqn.source_info.name_stack)
            if eqn.primitive in INLINED:
                results = self._inline(*body_of(eqn), reads, transposed)
            elif _is_copy(eqn):
                results = reads
            elif (name := _checkpoint_name(eqn)) is not None:
                results = reads
                if isinstance(reads[0], Source):
                    self.names[reads[0]] = (*self.names.get(reads[0], ()), name)
            else:
                results = self._add(eqn, reads, transposed)
            sources.update(zip(eqn.outvars, results, strict=True))
        return [source(atom) for atom in jaxpr.outvars]

    def _constant(self, const: Any) -> Source:
        place = next((i for i, other in enumerate(self.consts) if other is const), len(self.consts))
        if place == len(self.consts):
            self.consts.append(const)
        return Source(True, len(self.arguments) + place)

    def _add(self, eqn: Any, reads: list[Any], transposed: bool) -> list[Source]:
        key = equation_key(eqn, reads)
        if key is None or key not in self._by_key:
            equation = Equation(eqn, reads, self._n_values, transposed, _bodies(eqn))
            if eqn.effects:
                equation.effect_before, self._last_effect = self._last_effect, equation.values[-1]
            equation.backward |= not self._backward.isdisjoint(equation.value_reads)
            if equation.backward:
                self._backward.update(equation.values)
            self._n_values += len(equation.values)
            self.equations.append(equation)
            self.names.update(_stack_names(equation))
            if key is None:
                return self._results(equation)
            self._by_key[key] = equation
        return self._results(self._by_key[key])

    def _results(self, equation: Equation) -> list[Source]:
        return [Source(False, value) for value in equation.values[: len(equation.eqn.outvars)]]

    def _drop_dead(self) -> None:
        needed = {read.place for read in self.results if is_value(read)}
        live = []
        for equation in reversed(self.equations):
            if equation.eqn.effects or not needed.isdisjoint(equation.values):
                needed.update(equation.value_reads)
                live.append(equation)
        self.equations = live[::-1]
        number: dict[int, int] = {-1: -1}
        for equation in self.equations:
            number.update(zip(equation.values, range(len(number) - 1, self._n_values), strict=False))
        for equation in self.equations:
            equation.first = number[equation.first]
            equation.reads = [_moved(read, number) for read in equation.reads]
            equation.effect_before = number[equation.effect_before]
        self.results = [_moved(read, number) for read in self.results]
        self.names = {
            _moved(source, number): names
            for source, names in self.names.items()
            if source.resident or source.place in number
        }

    def outputs(self) -> Iterator[int]:
        yield from (read.place for read in self.results if is_value(read))
        yield from (equation.values[-1] for equation in self.equations if equation.eqn.effects)


def _bodies(eqn: Any) -> list[FlatJaxpr]:
    params = eqn.params.values() if eqn.primitive in LOOPS else ()
    items = [item for param in params for item in (param if isinstance(param, tuple) else (param,))]
    return [FlatJaxpr(item) for item in items if isinstance(item, core.ClosedJaxpr)]


def _stack_names(equation: Equation) -> Iterator[tuple[Source, tuple[str, ...]]]:
    if equation.eqn.primitive is not primitives.scan_p:
        return
    (body,) = equation.bodies
    n_carry = equation.eqn.params["num_carry"]
    for value, row in list(zip(equation.values, body.results, strict=False))[n_carry:]:
        if isinstance(row, Source) and row in body.names:
            yield Source(False, value), body.names[row]


def _is_copy(eqn: Any) -> bool:
    """Return True for an equation that `jax.checkpoint` inserts: it rounds to the precision of its operand."""
    if eqn.primitive is not primitives.reduce_precision_p:
        return False
    info = jax.numpy.finfo(eqn.invars[0].aval.dtype)
    return (eqn.params["exponent_bits"], eqn.params["mantissa_bits"]) == (info.nexp, info.nmant)


def _checkpoint_name(eqn: Any) -> str | None:
    if eqn.primitive is primitives.name_p:
        return eqn.params["name"]
    call = eqn.params.get("_prim")
    return call.params["name"] if type(call).__name__ == "CheckpointName" else None


def evaluate(eqn: Any, operands: Sequence[Any]) -> list[Any]:
    """Evaluate an equation on the given operands with JAX's own interpreter."""
    pairs = zip(eqn.invars, operands, strict=True)
    arrays = {atom: array for atom, array in pairs if not isinstance(atom, core.Literal)}
    source = core.DebugInfo("remat_algos", eqn.primitive.name, ("",) * len(arrays), ("",) * len(eqn.outvars))
    alone = core.Jaxpr((), [*arrays], eqn.outvars, [eqn], eqn.effects, source)
    return jax.core.eval_jaxpr(alone, (), *arrays.values())


def body_of(eqn: Any) -> tuple[Any, Sequence[Any]]:
    jaxpr = next(param for param in eqn.params.values() if isinstance(param, core.ClosedJaxpr | core.Jaxpr))
    return (jaxpr.jaxpr, jaxpr.consts) if isinstance(jaxpr, core.ClosedJaxpr) else (jaxpr, ())


def literal_array(literal: Any) -> Any:
    return jax.numpy.asarray(literal.val, literal.aval.dtype)


def array_bytes(aval: Any) -> int:
    """Return the bytes of an array of this shape and type, or 0 for a token."""
    return prod(aval.shape) * aval.dtype.itemsize if hasattr(aval, "dtype") else 0


def _moved(read: Any, number: dict[int, int]) -> Any:
    return Source(False, number[read.place]) if is_value(read) else read


def equation_key(eqn: Any, reads: Sequence[Any]) -> Hashable:
    """Return a key that equal computations share; None if the equation has an effect or an unhashable parameter."""
    params = tuple((name, _exact(param)) for name, param in sorted(eqn.params.items()))
    operands = tuple(
        (str(read.aval), np.asarray(read.val).tobytes()) if isinstance(read, core.Literal) else read for read in reads
    )
    key = (eqn.primitive, params, operands)
    try:
        hash(key)
    except TypeError:
        return None
    return None if eqn.effects else key


def _exact(param: Any) -> Any:
    """Convert a parameter so that 1, 1.0 and True compare as different, and so do 0.0 and -0.0."""
    if isinstance(param, tuple):
        return type(param), tuple(map(_exact, param))
    return (type(param), repr(param)) if isinstance(param, Number) else param


def _flops(eqn: Any) -> int:
    shapes = [atom.aval.shape for atom in eqn.invars[:2] if hasattr(atom.aval, "shape")]
    if eqn.primitive is primitives.dot_general_p:
        (contracted, _), _ = eqn.params["dimension_numbers"]
        return 2 * prod(eqn.outvars[0].aval.shape) * prod(shapes[0][i] for i in contracted)
    if eqn.primitive is primitives.conv_general_dilated_p:
        channels = shapes[1][eqn.params["dimension_numbers"].rhs_spec[0]]
        return 2 * prod(eqn.outvars[0].aval.shape) * (prod(shapes[1]) // max(channels, 1))
    return cost_of_bodies(eqn, [sum(map(_flops, jaxpr.eqns)) for jaxpr in core.jaxprs_in_params(eqn.params)])


def cost_of_bodies(eqn: Any, costs: Sequence[int]) -> int:
    """Return the cost of all iterations of a `scan`, one iteration of a `while`, or the costliest `cond` branch."""
    if eqn.primitive is primitives.cond_p:
        return max(costs, default=0)
    return sum(costs) * (eqn.params["length"] if eqn.primitive is primitives.scan_p else 1)
