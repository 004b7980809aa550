"""Whole numbers from decimals: bytes round up, costs are scaled until they are whole."""

import re
from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_HALF_EVEN, Decimal, DecimalException

from remat_algos.errors import warn
from remat_algos.text.wording import quoted

FINEST_SCALE = 10**6
ABSURD = 2**63
"""Largest number, so that 1e999999 does not become a million digits; checks of sums refuse it."""

_ENDLESS = re.compile(r"\s*[0-9]+(\.[0-9]*)?[eE]\+?[0-9]{8,}\s*")  # more than Decimal takes


def decimal(text: str) -> int | Decimal:
    """A number from text, clamped to `ABSURD`; ValueError if the text is not a number."""
    try:
        number = Decimal(text)
    except DecimalException as error:
        if _ENDLESS.fullmatch(text):
            return ABSURD
        raise ValueError(f"{quoted(text)} is not a number") from error
    if not number.is_finite():
        raise ValueError(f"{quoted(text)} is not a number")
    return number if number.adjusted() < 19 and abs(number) < ABSURD else ABSURD if number > 0 else -ABSURD


def whole_bytes(amounts: Sequence[int | Decimal], source: str) -> list[int]:
    """Bytes rounded up, with one notice if any was changed."""
    return _whole(amounts, ROUND_CEILING, f"{source}: sizes with parts of a byte were rounded up")


def whole_costs(amounts: Sequence[int | Decimal], source: str) -> tuple[list[int], int]:
    """Costs times the smallest power of ten, up to 1e6, that makes all integers, and that power.

    Finer costs are rounded, with one notice. A cost of -1 (unknown) stays.
    """
    places = [-int(a.normalize().as_tuple().exponent) for a in amounts if isinstance(a, Decimal) and a]
    scale = min(10 ** min(max([0, *places]), 9), FINEST_SCALE)
    scaled = amounts if scale == 1 else [a if a == -1 else a * scale for a in amounts]
    return _whole(scaled, ROUND_HALF_EVEN, f"{source}: costs were rounded to 1/{scale} of their unit"), scale


def _whole(amounts: Sequence[int | Decimal], rounding: str, notice: str) -> list[int]:
    if set(map(type, amounts)) <= {int}:
        return list(amounts)  # type: ignore[arg-type]
    whole = [a if isinstance(a, int) else int(a.to_integral_value(rounding)) for a in amounts]
    if any(a != b for a, b in zip(amounts, whole, strict=True)):
        warn(notice)
    return whole
