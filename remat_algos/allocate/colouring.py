"""Blocks of memory as colours of the graph of conflicts."""

from __future__ import annotations

import numpy as np

from remat_algos.allocate.allocation import Allocation
from remat_algos.allocate.buffers import Buffers
from remat_algos.kernels import _sharing


def colour(buffers: Buffers, *, alignment: int = 1) -> Allocation:
    """Buffers in blocks, those that are needed at the same time in different ones: a colouring of their conflict graph.

    The graph is not built; the time is quadratic all the same, as chen2016 says of this way. Largest first, of equal
    ones the earliest, each takes the first colour that none has that it conflicts with, so a block is as large as the
    first that lies in it. Where all sizes are equal no allocation is smaller: conflicts of intervals need as many
    colours as are needed at the same time. What is written over one another is one interval.

    Parameters
    ----------
    buffers : Buffers
    alignment : int
        A power of two that divides every offset and the size of the arena.

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
    chen2016, section 3, which mentions it and takes counters instead (`share`).

    Examples
    --------
    >>> chain = Buffers([0, 1, 2, 3], [2, 3, 4, 4], [100, 5, 7, 100])
    >>> found = colour(chain)
    >>> found.storage.tolist(), found.size
    ([0, 2, 1, 0], 112)
    """
    first = buffers.first
    begin, end = buffers.begin[first], np.zeros(len(buffers), np.int64)
    np.maximum.at(end, first, buffers.end)
    units = np.unique(first)
    units = units[np.lexsort((begin[units], -buffers.size[units]))]
    storage = np.empty(len(buffers), np.int64)
    storage[units] = _sharing.coloured(begin[units], end[units])
    return Allocation.side_by_side(buffers, storage[first], "colouring, largest first", alignment)
