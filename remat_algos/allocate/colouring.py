"""Blocks of memory as colours of the conflict graph."""

from __future__ import annotations

import numpy as np

from remat_algos.allocate.allocation import Allocation
from remat_algos.allocate.buffers import Buffers
from remat_algos.allocate.sharing import separate_storage
from remat_algos.arguments import checked_arguments
from remat_algos.context import SHORTEST, Clock
from remat_algos.kernels.offsets import block_colours

PAIRS_A_SECOND = 1_000_000_000  # of compared blocks


@checked_arguments
def colour(buffers: Buffers, *, alignment: int = 1, time_limit: float | None = None) -> Allocation:
    """Assign buffers that are live at the same time to different blocks, by colouring their conflict graph.

    The graph is not built; the time is quadratic nevertheless, as chen2016 notes. Largest first, then earliest, each
    buffer gets the first colour without a conflict, so a block is as large as its first buffer. If all sizes are
    equal, the allocation is minimum: intervals need no more colours than the largest number that overlap.
    Buffers written over each other are one interval.

    Parameters
    ----------
    buffers : Buffers
    alignment : int
        A power of two that divides every offset and the size of the arena.
    time_limit : float, optional
        Seconds. Colouring cannot be stopped, so nothing is shared if it may take longer.

    Returns
    -------
    Allocation
        `storage` is the colour, from 0; blocks stand side by side, the largest first.

    Raises
    ------
    AllocationError
        If the alignment is not a power of two.

    References
    ----------
    chen2016, section 3, which mentions it and uses counters instead (`share_storage`).

    Examples
    --------
    >>> chain = Buffers([0, 1, 2, 3], [2, 3, 4, 4], [100, 5, 7, 100])
    >>> allocation = colour(chain)
    >>> allocation.storage.tolist(), allocation.size
    ([0, 2, 1, 0], 112)
    """
    first = buffers.first
    begin, end = buffers.begin[first], np.zeros(len(buffers), np.int64)
    np.maximum.at(end, first, buffers.end)
    units = np.unique(first)
    units = units[np.lexsort((begin[units], -buffers.size[units]))]
    left = Clock(time_limit).left
    if left is not None and units.size**2 > PAIRS_A_SECOND * max(SHORTEST, left):
        return separate_storage(buffers, alignment=alignment)
    storage = np.empty(len(buffers), np.int64)
    storage[units] = block_colours(begin[units], end[units])
    return Allocation.side_by_side(buffers, storage[first], "colouring, largest first", alignment)
