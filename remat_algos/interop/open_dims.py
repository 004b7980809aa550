"""Open dimensions of models, which have no fixed length, and the lengths that callers assign to them."""

import ast
import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from remat_algos.errors import GraphError
from remat_algos.wording import did_you_mean, typed

LONGEST_DIM = 2**63  # exclusive
OPERATORS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Pow: lambda base, power: base ** max(0, min(power, 64)),  # 2**64 exceeds any dimension
}
FUNCTIONS: Mapping[str, Callable[[int, int], int]] = {
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "max": max,
    "min": min,
}


def checked_dims(dims: Mapping[str, Any] | None) -> dict[str, int]:
    """Return the lengths of dimensions; raise GraphError if one is not a whole number."""
    for name, length in (dims or {}).items():
        if type(length) is not int or not 0 <= length < LONGEST_DIM:
            raise GraphError("dims[{name!r}] is {length!r}; give a whole number, 0 or more", name=name, length=length)
    return dict(dims or {})


def check_known(dims: Mapping[str, int], bound: Collection[str], symbols: Collection[str]) -> None:
    """Raise GraphError if a name in `dims` is not in `bound`; suggest a similar name in `symbols`."""
    unknown = next((name for name in dims if name not in bound), None)
    if unknown is None:
        return
    near = did_you_mean(unknown, symbols) or "; remove it"
    if not symbols or "mean" in near:
        wrong = "dims gives a length for {unknown!r}, but no dimension of that name needs one{near!w}"
        raise GraphError(wrong, unknown=unknown, near=near)
    raise GraphError(
        "dims gives a length for {unknown!r}, but no dimension of that name needs one (known: {known!l}); remove it",
        unknown=unknown,
        known=sorted(symbols),
    )


def missing_lengths(number: int, first: str, shape: Sequence[object], names: Sequence[str], file: str) -> GraphError:
    """Return the error for `number` tensors without a size; `first` is one of them, `names` are the open dimensions."""
    named = list(dict.fromkeys(names))[:3]
    clear = all(name.isprintable() and not set(name) & set("&=?") for name in named)
    return GraphError(
        "{unsized:tensor} {have} no size, the first is {first!r} ({shape}); give their lengths, as in {dims!w}{path!w}",
        unsized=number,
        have="has" if number == 1 else "have",
        first=first,
        shape=" x ".join(map(str, shape)),
        dims="dims={" + ", ".join(f"{typed(name)}: 1" for name in named) + "}",
        path=f" or {file}?{'&'.join(f'{name}=1' for name in named)}" if clear else "",
    )


def symbols_of(expression: str) -> list[str]:
    """List the symbols in a length expression of JAX; any other string, such as "arg0[1]", is one symbol."""
    try:
        tree = _tree(expression)
        names = dict.fromkeys(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
        symbols = [name for name in names if name not in FUNCTIONS]
        _value(tree, dict.fromkeys(symbols, 1))
    except ZeroDivisionError:
        return symbols
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return [expression]
    return symbols


def length_of(expression: str, dims: Mapping[str, int]) -> int:
    """Evaluate a length expression; raise GraphError if the result is not a valid length."""
    if expression in dims:
        return dims[expression]
    try:
        length = _value(_tree(expression), dims)
    except (ZeroDivisionError, ValueError):
        length = -1
    if not 0 <= length < LONGEST_DIM:
        raise GraphError("the length {expression!r} is invalid for these dims; give others", expression=expression)
    return length


def _tree(expression: str) -> ast.expr:
    return ast.parse(expression.replace("^", "**"), mode="eval").body


def _value(node: ast.expr, dims: Mapping[str, int]) -> int:
    """Evaluate an expression; raise ValueError if it is not a length expression or its value is too large."""
    match node:
        case ast.Constant(value=int(value)):
            return value
        case ast.Name(id=name) if name in dims:
            return dims[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, dims)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
            function = OPERATORS[type(op)]
        case ast.Call(func=ast.Name(id=name), args=[left, right], keywords=[]) if name in FUNCTIONS:
            function = FUNCTIONS[name]
        case _:
            raise ValueError
    value = function(_value(left, dims), _value(right, dims))
    if abs(value) >= LONGEST_DIM:
        raise ValueError
    return value
