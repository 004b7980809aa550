"""Whole numbers from decimals: bytes round up, costs are scaled until they are whole."""

import re
from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_HALF_EVEN, Decimal, DecimalException
from typing import Any

from remat_algos.errors import ArgumentError, GraphError, warn

DIGITS = 9
"""Decimal digits to which the smallest cost is kept if costs have no common unit."""
LARGEST_SCALED = 2**51
"""Sums of costs that are scaled and rounded stay below it, so that those of gradients can stay below 2**53."""
LARGEST_SUM = 2**53
"""Sums below it are exact in float64 and in every JSON reader."""
MAX_PLACES = 300
"""Decimals of scaled costs; floats of scaled costs and their scale stay far from overflow."""
ABSURD = 2**63
"""Largest number, so that 1e999999 does not become a million digits; checks of sums refuse it."""

_ENDLESS = re.compile(r"\s*[0-9]+(\.[0-9]*)?[eE]\+?[0-9]{8,}\s*")  # more than Decimal takes


def decimal(text: str) -> int | Decimal:
    """Return a number from text, clamped to `ABSURD`; ValueError if the text is not a number."""
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
    """Bytes rounded up, with one notice if any was changed."""
    if set(map(type, amounts)) <= {int}:
        return list(amounts)  # type: ignore[arg-type]
    whole = [a if isinstance(a, int) else int(a.to_integral_value(ROUND_CEILING)) for a in amounts]
    if any(a != b for a, b in zip(amounts, whole, strict=True)):
        warn("{source!p}: sizes with parts of a byte were rounded up", source=source)
    return whole


def whole_costs(amounts: Sequence[int | Decimal], source: str) -> tuple[list[int], int]:
    """Costs times a power of ten, as integers, and that power. A cost of -1 (unknown) stays.

    It is the smallest power that makes all costs whole. If their sum is then 2**53 or more, it is the smallest at which
    every cost that is not 0 is rounded by less than 1e-9 of itself. If the sum is 2**51 or more at that one, it is the
    largest that keeps the sum below, with a notice; GraphError if the smallest cost is then below 1.
    """
    places = max([0, *(-int(a.normalize().as_tuple().exponent) for a in amounts if isinstance(a, Decimal) and a)])
    costs = [Decimal(a) for a in amounts if a > 0]
    total = sum(costs, Decimal())
    # Checks of sums refuse what is too large without any scale.
    if places == 0 or total >= LARGEST_SUM:
        return [int(a) for a in amounts], 1
    if places > MAX_PLACES or total.scaleb(places) >= LARGEST_SUM:
        places = max(0, DIGITS - min(costs).adjusted())
        if places > MAX_PLACES or (places and total.scaleb(places) >= LARGEST_SCALED):
            places = (Decimal(LARGEST_SCALED) / total).adjusted()
            known: dict[str, Any] = {"source": source, "smallest": min(costs), "largest": max(costs)}
            if not 0 <= places <= MAX_PLACES or min(costs).scaleb(places) < 1:
                raise GraphError(
                    "{source!p}: costs from {smallest:.3g} to {largest:.3g} cannot be kept in one unit; write 0 for "
                    "those that do not count",
                    **known,
                )
            digits = min(costs).scaleb(places).adjusted() + 1
            warn(
                "{source!p}: costs from {smallest:.3g} to {largest:.3g} were rounded to 1e-{places}, so the smallest "
                "has {digits:digit}",
                **known,
                places=places,
                digits=digits,
            )
    whole = [-1 if a == -1 else int(Decimal(a).scaleb(places).to_integral_value(ROUND_HALF_EVEN)) for a in amounts]
    return whole, 10**places
