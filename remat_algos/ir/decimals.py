"""Whole numbers from decimals: bytes round up, costs are scaled until they are whole."""

import warnings
from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_HALF_EVEN, Decimal

from remat_algos.errors import GraphWarning
from remat_algos.ir.arrays import LARGEST_SUM

FINEST_SCALE = 10**6


def whole_bytes(amounts: Sequence[int | Decimal], source: str) -> list[int]:
    """Bytes rounded up, with one notice if that changed any."""
    return _whole(amounts, ROUND_CEILING, f"{source}: sizes with parts of a byte were rounded up")


def whole_costs(amounts: Sequence[int | Decimal], source: str) -> tuple[list[int], int]:
    """Costs times the least power of ten, up to 1e6, that makes all whole, and that power.

    What is finer still is rounded, with one notice. A cost of -1 (none given) stays.
    """
    places = [
        -int(a.normalize().as_tuple().exponent) for a in amounts if isinstance(a, Decimal) and 0 < a < LARGEST_SUM
    ]
    scale = min(FINEST_SCALE, 10 ** min(max([0, *places]), 6))
    scaled = [a if a == -1 else a * scale for a in amounts]
    return _whole(scaled, ROUND_HALF_EVEN, f"{source}: costs were rounded to 1/{scale} of their unit"), scale


def _whole(amounts: Sequence[int | Decimal], rounding: str, notice: str) -> list[int]:
    whole = []
    changed = False
    for amount in amounts:
        if isinstance(amount, int):
            whole.append(amount)
        elif abs(amount) >= LARGEST_SUM:  # 1e999999 must not become a million digits; the sum check names the node
            whole.append(LARGEST_SUM if amount > 0 else -LARGEST_SUM)
        else:
            whole.append(int(Decimal(amount).to_integral_value(rounding)))
            changed |= whole[-1] != amount
    if changed:
        warnings.warn(notice, GraphWarning, stacklevel=2)
    return whole
