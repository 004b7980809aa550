"""Check the options of a family: their types, and that counts are positive."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

from remat_algos.errors import GraphError
from remat_algos.ir.arrays import as_whole
from remat_algos.text.wording import listed, quoted, shortened, spelled


def kind_of(annotation: Any) -> str:
    """An annotation as in the source, even if it is not text."""
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def checked(model: str, option: inspect.Parameter, value: Any) -> Any:
    """Return a value of the option's type, numbers as Python's own.

    Raises
    ------
    GraphError
        If it has another type or is not positive.

    Examples
    --------
    >>> batch = inspect.Parameter("batch", inspect.Parameter.KEYWORD_ONLY, default=32, annotation="int")
    >>> checked("vgg19", batch, 8)
    8
    """
    kind, minimum = option.annotation, 0 if option.default == 0 else 1
    plain: Any = None
    if "None" in kind and value is None:
        return None
    if kind.startswith("tuple"):
        expected = "positive whole numbers, such as (3, 4, 6, 3)"
        numbers = [_count(k, 1) for k in value] if isinstance(value, tuple | list) else []
        plain = tuple(numbers) if numbers and None not in numbers else None
    elif kind.startswith("int"):
        expected, plain = f"a whole number from {minimum} on", _count(value, minimum)
    elif kind.startswith("bool"):
        expected, plain = "True or False", value if isinstance(value, bool) else None
    else:
        expected, plain = "a name", value if isinstance(value, str) else None
    if plain is None:
        raise GraphError(f"{shortened(model)}: {shortened(option.name)} is {quoted(value)}; give {expected}")
    return plain


def offer(name: Any, known: Iterable[str], otherwise: str = "") -> str:
    """Suggest similar known names, ignoring case and hyphens; else `otherwise`, or all names."""
    names = list(dict.fromkeys(known))
    near = get_close_matches(spelled(name).lower().replace("-", "_"), names, n=3, cutoff=0.5)
    return f"did you mean {' or '.join(near)}?" if near else otherwise or f"use {listed(names, len(names))}"


def _count(value: Any, minimum: int) -> int | None:
    """A whole number of any type; None if invalid or too small."""
    number = as_whole(value)
    return number if number is not None and number >= minimum else None
