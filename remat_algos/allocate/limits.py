"""Limits on the reserved bytes of an allocator."""

from __future__ import annotations

from operator import index

from remat_algos.errors import AllocationError
from remat_algos.text.wording import quoted

NO_LIMIT = 2**63 - 1
"""A number of bytes, or steps, that is never reached."""


def checked_limit(limit: int | None, what: str = "limit", minimum: int = 0) -> int:
    """Check a limit in bytes; None becomes `NO_LIMIT`.

    Raises
    ------
    AllocationError
        If it is not a whole number, or below the minimum.

    Examples
    --------
    >>> checked_limit(4096), checked_limit(None) == NO_LIMIT
    (4096, True)
    """
    if limit is None:
        return NO_LIMIT
    try:
        value = -1 if isinstance(limit, bool) else index(limit)
    except TypeError:
        value = -1
    if value < minimum:
        raise AllocationError(f"{what} is {quoted(limit)}; give a whole number of bytes, {minimum} or more, or None")
    return min(value, NO_LIMIT)
