"""JSON of files that anyone may have written: within bounds, or an error in one sentence."""

import json
import math
import re
from decimal import Decimal
from typing import Any

from remat_algos.errors import ArgumentError
from remat_algos.text.amounts import decimal

DEEPEST = 64
"""Levels of objects and lists; Python fails at about 1000, in any function that follows them."""

TOO_DEEP = f"objects and lists are nested deeper than {DEEPEST} levels"

_HALF = re.compile(r"\\u[dD][89a-fA-F]")
_LONGEST = 19
"""Digits of whole numbers: those of 64 bits."""
_ABSURD = 100
"""Whole numbers of as many digits are refused here; shorter ones that are too large are reported with their node."""
_TOO_LONG = re.compile(rf"\d{{{_LONGEST + 1}}}", re.ASCII)


def json_of(text: str | bytes, *, exact: bool = False) -> Any:
    """The value of a JSON text from an unknown source; ValueError, in one sentence, if it is not JSON within bounds.

    Refused are NaN, Infinity and whole numbers of more than 19 digits, a key that is given twice, half of a surrogate
    pair, and more than `DEEPEST` levels.

    Parameters
    ----------
    text : str or bytes
        Bytes are UTF-8.
    exact : bool
        Return decimals as Decimal, whole ones such as 1.0 as int, and clamp those that are too large.

    Examples
    --------
    >>> json_of('{"version": 1.0, "gap": 0.5}')
    {'version': 1.0, 'gap': 0.5}
    >>> json_of('{"gap": 1e400}')
    Traceback (most recent call last):
    remat_algos.errors.ArgumentError: the number 1e400 is too large
    """
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise ArgumentError("byte {start} is not UTF-8 text", start=error.start) from error
    try:
        value = json.loads(
            text,
            parse_float=_exact if exact else _float,
            # A hook for each number is slow, so it is set only if some number may be too long.
            parse_int=None if not _TOO_LONG.search(text) else _exact_whole if exact else _whole,
            parse_constant=_no_number,
            object_pairs_hook=_object,
        )
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise ArgumentError("not valid JSON at {place!w} ({msg})", place=place, msg=error.msg) from error
    except RecursionError:
        raise ArgumentError(TOO_DEEP) from None
    _check_depth(value)
    if _HALF.search(text):
        _check_texts(value)
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        seen = set[str]()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ArgumentError("key {twice!r} is given twice; keep one", twice=twice)
    return record


def _no_number(name: str) -> Any:
    raise ArgumentError("{name} is not a number", name=name)


def _whole(text: str) -> int:
    if len(text.lstrip("-")) > _LONGEST:
        raise ArgumentError("the number {text} is too large", text=text)
    return int(text)


def _exact_whole(text: str) -> Any:
    return int(text) if len(text) <= _LONGEST else decimal(text) if len(text) < _ABSURD else _whole(text)


def _float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ArgumentError("the number {text} is too large", text=text)
    return number


def _exact(text: str) -> int | Decimal:
    number = decimal(text)
    return int(number) if isinstance(number, Decimal) and number == number.to_integral_value() else number


def _check_depth(value: Any) -> None:
    """Raise ValueError for more levels than `DEEPEST`, level by level."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(DEEPEST):
        level = [
            each
            for entry in level
            for each in (entry.values() if type(entry) is dict else entry)
            if type(each) is dict or type(each) is list
        ]
        if not level:
            return
    raise ArgumentError(TOO_DEEP)


def _check_texts(value: Any) -> None:
    """Raise ValueError for half of a surrogate pair, which no encoding writes."""
    writer = json.JSONEncoder(ensure_ascii=False, default=str)
    try:
        writer.encode(value).encode()
    except UnicodeEncodeError:
        raise ArgumentError("a text in it has half of a character (a lone surrogate)") from None
