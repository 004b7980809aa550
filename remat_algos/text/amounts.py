"""Read and print amounts: exact decimals, bytes, compute and shares."""

import re
from collections.abc import Callable, Sequence
from decimal import ROUND_CEILING, ROUND_HALF_EVEN, Decimal, DecimalException
from numbers import Integral, Real
from typing import Any

from remat_algos.errors import ArgumentError, GraphError, warn
from remat_algos.wording import LETTERS, ROUNDS_UP, three_digits

DIGITS = 9
"""Number of decimal digits that the smallest cost keeps if costs are rounded."""
LARGEST_SCALED = 2**51
"""Upper limit for sums of scaled and rounded costs; sums that include gradients then stay below 2**53."""
LARGEST_SUM = 2**53
"""Upper limit for sums: smaller ones are exact in float64 and in every JSON reader."""
MAX_PLACES = 300
"""Maximum number of decimal places of costs; floats of scaled costs and of their scale then cannot overflow."""
ABSURD = 2**63
"""Larger numbers become this one, so that 1e999999 does not get a million digits; checks of sums then reject it."""

_ENDLESS = re.compile(r"\s*[0-9]+(\.[0-9]*)?[eE]\+?[0-9]{8,}\s*")  # exponents that Decimal refuses


def decimal(text: str) -> int | Decimal:
    """Return the number in a string, at most `ABSURD`; raise ValueError if the string is not a number."""
    try:
        number = Decimal(text)
    except DecimalException as error:
        if _ENDLESS.fullmatch(text):
            return ABSURD
        raise ArgumentError("{text!r} is not a number", text=text) from error
    if not number.is_finite():
        raise ArgumentError("{text!r} is not a number", text=text)
    return number if number.adjusted() < 19 and abs(number) < ABSURD else ABSURD if number > 0 else -ABSURD


def whole_bytes(amounts: Sequence[int | Decimal], source: str) -> list[int]:
    """Round sizes up to whole bytes; warn once if any of them changed."""
    if set(map(type, amounts)) <= {int}:
        return list(amounts)  # type: ignore[arg-type]
    whole = [a if isinstance(a, int) else int(a.to_integral_value(ROUND_CEILING)) for a in amounts]
    if any(a != b for a, b in zip(amounts, whole, strict=True)):
        warn("{source!p}: fractional sizes were rounded up to whole bytes", source=source)
    return whole


def whole_costs(amounts: Sequence[int | Decimal], source: str) -> tuple[list[int], int]:
    """Return the costs multiplied by a power of ten, as integers, and that power; -1 (unknown) stays -1.

    The power is the smallest that makes all costs whole. If their sum would then reach 2**53, costs are rounded, and
    the power is the smallest for which every nonzero cost changes by less than 1e-9 of itself. If the sum would still
    reach 2**51, the power is the largest for which the sum stays below 2**51, and a warning is issued. Raise GraphError
    if the smallest cost would then be below 1.
    """
    places = max([0, *(-int(a.normalize().as_tuple().exponent) for a in amounts if isinstance(a, Decimal) and a)])
    costs = [Decimal(a) for a in amounts if a > 0]
    total = sum(costs, Decimal())
    # If the sum is too large even without scaling, the checks of the graph reject it.
    if places == 0 or total >= LARGEST_SUM:
        return [int(a) for a in amounts], 1
    if places > MAX_PLACES or total.scaleb(places) >= LARGEST_SUM:
        places = max(0, DIGITS - min(costs).adjusted())
        if places > MAX_PLACES or (places and total.scaleb(places) >= LARGEST_SCALED):
            places = (Decimal(LARGEST_SCALED) / total).adjusted()
            figures: dict[str, Any] = {"source": source, "smallest": min(costs), "largest": max(costs)}
            if not 0 <= places <= MAX_PLACES or min(costs).scaleb(places) < 1:
                raise GraphError(
                    "{source!p}: costs from {smallest:.3g} to {largest:.3g} cannot be stored in one unit; write 0 for "
                    "negligible costs",
                    **figures,
                )
            digits = min(costs).scaleb(places).adjusted() + 1
            warn(
                "{source!p}: costs from {smallest:.3g} to {largest:.3g} were rounded to 1e-{places}, so the smallest "
                "has {digits:digit}",
                **figures,
                places=places,
                digits=digits,
            )
    whole = [-1 if a == -1 else int(Decimal(a).scaleb(places).to_integral_value(ROUND_HALF_EVEN)) for a in amounts]
    return whole, 10**places


UNSCALED = 100_000
_TIMES = ("ns", "us", "ms", "s")
_SCALED = {"FLOPs": "FLOP", "FLOP": "FLOP", "flops": "FLOP", "MACs": "MAC", "MAC": "MAC"}
_UNITS = {"": 1, "B": 1}
for _power, _letter in enumerate(LETTERS, start=1):
    for _name in {_letter, _letter.upper(), _letter.lower()}:
        _UNITS[_name] = _UNITS[f"{_name}B"] = _UNITS[f"{_name}b"] = 1000**_power
        _UNITS[f"{_name}i"] = _UNITS[f"{_name}iB"] = _UNITS[f"{_name}ib"] = 1024**_power
_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?|\.[0-9]+)\s*([A-Za-z]*)\s*")


def parse_bytes(text: str) -> int:
    """Return the bytes in "4GiB", "1.5 MB" or "1024", rounded up; raise ValueError if the string is not a size."""
    match = _SIZE.fullmatch(text)
    if match is None or match[2] not in _UNITS:
        raise no_size(text)
    amount = Decimal(decimal(match[1])) * _UNITS[match[2]]
    if amount >= 2**63:
        raise ArgumentError("{text!r} is 2**63 bytes or more; give a smaller size", text=text)
    return int(amount.to_integral_value(ROUND_CEILING))


def no_size(entry: object) -> ValueError:
    return ArgumentError(
        "{entry!r} is not a size; write bytes, or a number with a unit such as 4GiB or 512MB",
        entry=str(entry) if isinstance(entry, str) else entry,  # also for NumPy strings
    )


def format_compute(amount: float, unit: str = "") -> str:
    """Return compute in three significant digits ("2.4 ms"). Below 100,000, only times, FLOPs and MACs get prefixes."""
    if unit in _TIMES:
        names = _TIMES[_TIMES.index(unit) :]
    else:
        letters = ("", *LETTERS)
        if unit[:1] in LETTERS and unit[1:] in _SCALED:  # for example GFLOPs
            letters, unit = letters[letters.index(unit[0]) :], unit[1:]
        name, space = (_SCALED[unit], "") if unit in _SCALED else (unit, " ")
        names = tuple(f"{letter}{space if letter else ''}{name}".rstrip() for letter in letters)
        if unit not in _SCALED and abs(amount) < UNSCALED:
            names = names[:1]
    power = 0
    while power < len(names) - 1 and abs(amount) >= ROUNDS_UP * 1000**power:
        power += 1
    scaled = amount / 1000**power
    shown = f"{scaled:,.0f}" if scaled == int(scaled) else three_digits(scaled)
    return f"{shown} {names[power]}".rstrip()


def format_seconds(seconds: float) -> str:
    """Return a time in ns, us, ms or s, with three significant digits."""
    return format_compute(1e9 * seconds, "ns")


def percent(part: float, whole: float) -> str:
    """Return `part / whole` in percent, such as "66.0 %"; "0.0 %" if `whole` is 0."""
    return f"{100 * part / whole if whole else 0:.1f} %"


def fine_percent(part: float, whole: float) -> str:
    """Return `part / whole` in percent, such as "66.0 %"; below 0.1 % with one nonzero digit, such as "0.003 %"."""
    share = 100 * part / whole if whole else 0
    return f"{share:.1f} %" if abs(share) >= 0.1 else f"{share:.1g} %"


LONGEST_AMOUNT = 4000  # fewer digits than int() accepts

Reading = Callable[[Any], int | Decimal]
"""The type of `size_of` and `cost_of`."""


def size_of(entry: Any) -> int | Decimal:
    """Return bytes from a number, or from a string with or without a unit; raise ValueError if it is not a size."""
    number = _number(entry)
    if number is not None:
        return number
    if isinstance(entry, str):
        return parse_bytes(entry)
    raise no_size(entry)


def cost_of(entry: Any) -> int | Decimal:
    """Return a cost from a number or from a string; raise ValueError if the entry is not a cost."""
    number = _number(entry)
    if number is not None:
        return number
    point = " with a decimal point and no other separators" if isinstance(entry, str) and "," in entry else ""
    shown = str(entry) if isinstance(entry, str) else entry  # also for NumPy strings
    raise ArgumentError("{entry!r} is not a cost; write a number" + point, entry=shown)


def _number(entry: Any) -> int | Decimal | None:
    """Return an exact number (for a float, the decimal that it prints as), or None for bool and non-numbers."""
    kind = type(entry)
    if kind is int:
        return entry
    if kind is float:
        text = repr(entry)
    elif kind is str:
        text = entry.strip()
        if "_" in text or not text.isascii():  # int() and Decimal() accept these
            return None
    elif isinstance(entry, Integral):  # includes numpy.timedelta64
        timed = getattr(getattr(entry, "dtype", None), "kind", "i") == "m"
        return None if timed or isinstance(entry, bool) else int(entry)
    else:
        return _number(str(entry)) if isinstance(entry, Real | Decimal | str) else None
    try:
        return int(text) if text.lstrip("-").isdigit() and len(text) < LONGEST_AMOUNT else decimal(text)
    except ValueError:
        return None
