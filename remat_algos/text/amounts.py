"""Sizes and costs as people and programs write them, read in one way from files, attributes and Python."""

from collections.abc import Callable
from decimal import Decimal
from numbers import Integral, Real
from typing import Any

from remat_algos.errors import ArgumentError
from remat_algos.text.decimals import decimal
from remat_algos.text.units import no_size, parse_bytes

LONGEST = 4000  # digits that int() accepts

Reading = Callable[[Any], int | Decimal]
"""`size_of` or `cost_of`."""


def size_of(entry: Any) -> int | Decimal:
    """Bytes, from a number or from text with or without a unit; ValueError if the entry is not a size.

    Examples
    --------
    >>> size_of(120.5), size_of("120.5"), size_of("4MiB")
    (Decimal('120.5'), Decimal('120.5'), 4194304)
    """
    number = _number(entry)
    if number is not None:
        return number
    if isinstance(entry, str):
        return parse_bytes(entry)
    raise no_size(entry)


def cost_of(entry: Any) -> int | Decimal:
    """Return a cost, from a number or its text; ValueError if the entry is not a cost.

    Examples
    --------
    >>> cost_of(33.5), cost_of("12")
    (Decimal('33.5'), 12)
    >>> cost_of("12 ms")
    Traceback (most recent call last):
    remat_algos.errors.ArgumentError: '12 ms' is not a cost; write a number
    """
    number = _number(entry)
    if number is not None:
        return number
    point = " with a decimal point and no other marks" if isinstance(entry, str) and "," in entry else ""
    shown = str(entry) if isinstance(entry, str) else entry  # NumPy's text too
    raise ArgumentError("{entry!r} is not a cost; write a number" + point, entry=shown)


def _number(entry: Any) -> int | Decimal | None:
    """Return an exact number, a float as it is written; None if the entry is not a number, such as True."""
    kind = type(entry)
    if kind is int:
        return entry
    if kind is float:
        text = repr(entry)
    elif kind is str:
        text = entry.strip()
        if "_" in text or not text.isascii():  # int() and Decimal() accept more
            return None
    elif isinstance(entry, Integral):  # NumPy's differences of times among them
        timed = getattr(getattr(entry, "dtype", None), "kind", "i") == "m"
        return None if timed or isinstance(entry, bool) else int(entry)
    else:
        return _number(str(entry)) if isinstance(entry, Real | Decimal | str) else None
    try:
        return int(text) if text.lstrip("-").isdigit() and len(text) < LONGEST else decimal(text)
    except ValueError:
        return None
