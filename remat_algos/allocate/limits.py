"""Most bytes that an allocator may hold."""

from __future__ import annotations

from operator import index

from remat_algos.errors import AllocationError

FOREVER = 2**63 - 1
"""Bytes, or steps, that nothing reaches."""


def checked_limit(limit: int | None) -> int:
    """A limit in bytes, `FOREVER` for none.

    Raises
    ------
    AllocationError
        If it is no whole number, or below 0.

    Examples
    --------
    >>> checked_limit(4096), checked_limit(None) == FOREVER
    (4096, True)
    """
    if limit is None:
        return FOREVER
    try:
        found = index(limit)
    except TypeError:
        found = -1
    if found < 0:
        raise AllocationError(f"limit is {limit!r}; give a whole number of bytes, 0 or more, or None")
    return min(found, FOREVER)
