"""Check arguments of public functions against their annotations; the functions themselves check ranges and choices."""

import dataclasses
import functools
import inspect
import operator
import os
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Real
from typing import Any, ParamSpec, TypeVar

import numpy as np

from remat_algos.errors import ArgumentError, ArgumentTypeError, about
from remat_algos.text.amounts import ABSURD

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Subject = TypeVar("Subject")
Check = Callable[[Any, str], Any]
"""A function of an argument and its name: it returns the argument, converted if necessary, or raises a TypeError."""

SOURCES = {
    "Allocation": "pack(Buffers.of(simulation)) returns one",
    "BoundCurve": "bound_curve returns one",
    "Buffers": "Buffers.of(simulation) makes them",
    "ComputationGraph": "read_graph, from_networkx and ComputationGraph.from_edges make one",
    "LowerBound": "overhead_bound returns one",
    "Elimination": "eliminate(graph) returns one",
    "Frontier": "frontier(graph) returns one",
    "LowerSetFamily": "lower_set_family(graph) returns one",
    "LowerSets": "LowerSets.of(graph, sets) makes them",
    "Module": "of torch.nn",
    "Network": "zoo.build returns one",
    "PathDecomposition": "PathDecomposition.of(graph, layout) makes one",
    "Plan": "solve and Plan.load return one",
    "Schedule": "Schedule(order) makes one",
    "SeparatorTree": "SeparatorTree.balanced makes one",
    "Simulation": "simulate(graph, schedule) returns one",
    "Trace": "Trace.of(simulation) makes one",
    "SweepResults": "sweep and read_sweep return one",
    "TreeDecomposition": "TreeDecomposition.of(eliminate(graph)) makes one",
    "UndirectedGraph": "UndirectedGraph.of(graph) makes one",
    "Validation": "validate(graph, plan) returns one",
}
"""For each class, a hint on how to get an instance."""


def checked_arguments(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Check the types of a function's arguments before each call; whole numbers of any type become int."""
    checks: list[tuple[int, str, Check]] = []
    by_name: dict[str, Check] = {}
    # `call` runs with the globals of `function`, so it reaches names of this module only through its closure.
    complete, complete_checks = False, _complete_checks

    def call(*arguments: Any, **options: Any) -> Any:
        nonlocal complete
        if not complete:
            complete = complete_checks(function, checks, by_name)
        argument = list(arguments)
        for i, what, check in checks:
            if i >= len(argument):
                break
            argument[i] = check(argument[i], what)
        for what in options:
            if what in by_name:
                options[what] = by_name[what](options[what], what)
        return function(*argument, **options)

    # doctest reads the module of a function from its globals.
    wrapper = types.FunctionType(call.__code__, function.__globals__, function.__name__, None, call.__closure__)
    return functools.wraps(function)(wrapper)


def takes(of: Callable[Parameters, Subject]) -> Callable[[Callable[[Subject], Result]], Callable[Parameters, Result]]:
    """Decorate `function(subject)` to take the arguments of `of`, and to use the result of `of` as its subject."""

    def decorate(function: Callable[[Subject], Result]) -> Callable[Parameters, Result]:
        signature = inspect.signature(of).replace(return_annotation=inspect.signature(function).return_annotation)

        def call(*arguments: Any, **options: Any) -> Any:
            try:
                subject = of(*arguments, **options)
            except TypeError:
                try:
                    signature.bind(*arguments, **options)
                except TypeError as error:
                    msg = f"{function.__name__}(): {error}"
                    raise TypeError(msg) from None
                raise
            return function(subject)

        # doctest reads the module of a function from its globals.
        wrapper: Any = types.FunctionType(
            call.__code__, function.__globals__, function.__name__, None, call.__closure__
        )
        functools.update_wrapper(wrapper, function)
        wrapper.__signature__, wrapper.__annotations__ = signature, dict(of.__annotations__)
        return wrapper

    return decorate


def check_fields(instance: Any) -> None:
    """Check the fields of a dataclass against their annotations, in `__post_init__`; default values are not checked."""
    for what, default, check in _checks_of_fields(type(instance)):  # type: ignore[arg-type]  # classes are hashable
        argument = getattr(instance, what)
        if argument is not default:
            object.__setattr__(instance, what, check(argument, what))


@functools.cache
def _checks_of_fields(kind: type) -> list[tuple[str, Any, Check]]:
    hints = _hints(kind)
    checks = [(field, check_of(hints[field.name])) for field in dataclasses.fields(kind) if field.init]
    return [(field.name, field.default, check) for field, check in checks if check is not None]


def _hints(subject: Any) -> dict[str, Any]:
    """Return the annotations of a function or class; names that only type checkers import become Any."""
    names: dict[str, Any] = {}
    while True:
        try:
            return typing.get_type_hints(subject, localns=names)
        except NameError as error:
            names[str(error.name)] = Any


def _complete_checks(
    function: Callable[..., Any], checks: list[tuple[int, str, Check]], by_name: dict[str, Check]
) -> bool:
    hints = _hints(function)
    for i, parameter in enumerate(inspect.signature(function).parameters.values()):
        check = check_of(hints.get(parameter.name, Any), parameter.default)
        if check is None:
            continue
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            checks.append((i, parameter.name, check))
        if parameter.kind in (parameter.KEYWORD_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            by_name[parameter.name] = check
    return True


def check_of(hint: Any, default: Any = None) -> Check | None:
    """Return the check of arguments with this annotation, or None if they are not checked, as for most unions."""
    union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    kinds = [kind for kind in typing.get_args(hint) if kind is not types.NoneType] if union else [hint]
    if set(kinds) == {str, os.PathLike[str]}:
        check: Check | None = as_path
    elif set(kinds) == {str, Sequence[str]}:
        check = as_texts
    elif len(kinds) == 1:
        check = _check_of_one(kinds[0], default)
    else:
        return None
    if check is None or not (union and types.NoneType in typing.get_args(hint)):
        return check
    required = check
    return lambda argument, what: None if argument is None else required(argument, what)


def _check_of_one(kind: Any, default: Any) -> Check | None:
    origin = typing.get_origin(kind) or kind
    if kind in SIMPLE:
        return SIMPLE[kind]
    if kind is str:
        return functools.partial(as_text, example=default if isinstance(default, str) else None)
    if origin is Callable:
        return check_callable
    if isinstance(origin, type) and issubclass(origin, Iterable) and not issubclass(origin, Mapping):
        entry = next(iter(typing.get_args(kind)), Any)
        if origin is Sequence and entry is Any:
            return as_sequence
        if origin in (Iterable, Sequence):
            return functools.partial(as_list, entry=check_of(entry), letters=origin is Iterable)
        if origin is tuple and typing.get_args(kind)[1:] == (Ellipsis,):
            several = functools.partial(as_list, entry=check_of(entry))
            return lambda argument, what: tuple(several(argument, what))
        # Arrays and tuples of fixed length are not checked.
        return None
    if not isinstance(origin, type) or kind is Any or getattr(origin, "_is_protocol", False):
        return None
    return lambda argument, what: check_kind(argument, origin, what)


def check_kind(argument: Any, kind: type[Result], what: str, *others: type) -> Result:
    """Return the argument if it is an instance of one of these classes; otherwise raise a TypeError that names them."""
    if isinstance(argument, (kind, *others)):
        return argument  # type: ignore[return-value]  # the caller distinguishes the classes
    *some, last = (_with_article(each.__name__) for each in (kind, *others))
    expected = f"{', '.join(some)} or {last}" if some else last
    if isinstance(argument, type):
        raise ArgumentTypeError(
            "{what!w} is the class {argument!w}; give an instance: {wanted!w}",
            what=what,
            argument=argument.__name__,
            wanted=expected,
        )
    actual, place = _with_article(type(argument).__name__), type(argument).__module__.partition(".")[0]
    field = "graph" if kind.__name__ == "ComputationGraph" else kind.__name__.lower()
    if place == __package__ and isinstance(getattr(argument, field, None), kind):
        raise ArgumentTypeError("{what!w} is {found!w}; give its `{field!w}`", what=what, found=actual, field=field)
    if place == "networkx" and field == "graph":
        raise ArgumentTypeError(
            "{what!w} is a networkx {kind!w}; give from_networkx({what!w})", what=what, kind=type(argument).__name__
        )
    source = f" ({SOURCES[kind.__name__]})" if kind.__name__ in SOURCES and not others else ""
    raise ArgumentTypeError(
        "{what!w} is {found!w}; give {wanted!w}{source!w}",
        what=what,
        found="None" if argument is None else actual,
        wanted=expected,
        source=source,
    )


def as_flag(argument: Any, what: str) -> bool:
    """Return True, False, 1 or 0 as a bool."""
    if isinstance(argument, bool | np.bool_) or (isinstance(argument, Real) and argument in (0, 1)):
        return bool(argument)
    raise ArgumentTypeError("{what!w} is {argument!r}; give True or False", what=what, argument=argument)


def as_whole_number(argument: Any, what: str) -> int:
    """Return a whole number of any type, such as `np.float32(3)`, as an int. Raise ValueError for other numbers."""
    number: Any = None if isinstance(argument, bool) else argument
    try:
        return operator.index(number)
    except TypeError:
        if isinstance(number, Real) and float(number).is_integer():
            return int(float(number))
    kind = ArgumentError if isinstance(number, Real) else ArgumentTypeError
    raise kind("{what!w} is {argument!r}; give a whole number", what=what, argument=argument)


def as_seed(argument: Any) -> int:
    """Return a random seed as an int: a whole number, 0 or more and below 2**63."""
    seed = as_whole_number(argument, "seed")
    if not 0 <= seed < ABSURD:
        raise about(
            "seed",
            ArgumentError("seed is {argument!r}; give a whole number, 0 or more and below 2**63", argument=seed),
        )
    return seed


def as_number(argument: Any, what: str) -> Any:
    if isinstance(argument, Real) and not isinstance(argument, bool):
        return argument
    raise ArgumentTypeError("{what!w} is {argument!r}; give a number", what=what, argument=argument)


def as_text(argument: Any, what: str, example: str | None = None) -> str:
    if isinstance(argument, str):
        return argument
    such = ", such as {example!r}" if example else ""
    raise ArgumentTypeError(
        "{what!w} is {argument!r}; give a string" + such, what=what, argument=argument, example=example
    )


def as_path(argument: Any, what: str) -> str | os.PathLike[str]:
    if isinstance(argument, str | os.PathLike):
        return argument
    raise ArgumentTypeError("{what!w} is {argument!r}; give the path of a file", what=what, argument=argument)


def check_callable(argument: Any, what: str) -> Any:
    if callable(argument):
        return argument
    raise ArgumentTypeError("{what!w} is {argument!r}; give a function", what=what, argument=argument)


def as_list(argument: Any, what: str, entry: Check | None = None, *, letters: bool = False) -> list[Any]:
    """Return the checked entries of an iterable as a list; with `letters` a string is split into its characters."""
    if isinstance(argument, str) and not letters:
        raise ArgumentTypeError(
            "{what!w} is {argument!r}; give a list, such as {example!r}",
            what=what,
            argument=argument,
            example=[argument],
        )
    try:
        entries = None if isinstance(argument, bytes | Mapping) else list(argument)
    except TypeError:
        entries = None
    if entries is None:
        raise ArgumentTypeError("{what!w} is {argument!r}; give a list", what=what, argument=argument)
    return entries if entry is None else [entry(each, f"{what}[{i}]") for i, each in enumerate(entries)]


def as_sequence(argument: Any, what: str) -> Sequence[Any]:
    if isinstance(argument, Sequence) and not isinstance(argument, str | bytes):
        return argument
    raise ArgumentTypeError("{what!w} is {argument!r}; give a list or tuple", what=what, argument=argument)


def as_texts(argument: Any, what: str) -> str | list[str]:
    return argument if isinstance(argument, str) else as_list(argument, what, as_text)


SIMPLE: dict[Any, Check] = {bool: as_flag, int: as_whole_number, float: as_number}


def _with_article(noun: str) -> str:
    return f"an {noun}" if noun[0] in "AEIOUaeiou" and not noun.startswith("Un") else f"a {noun}"
