"""Blocks shared between buffers: greedily along the schedule, or by graph colouring."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from remat_algos.allocate import tuning
from remat_algos.allocate.allocation import Allocation, Buffers
from remat_algos.arguments import checked_arguments
from remat_algos.context import SHORTEST, Clock
from remat_algos.errors import AllocationError, about
from remat_algos.ir.arrays import Int64
from remat_algos.kernels.offsets import block_colours, shared_blocks


@checked_arguments
def share_storage(
    buffers: Buffers, match_range: int | None = None, *, alignment: int = 1, time_limit: float | None = None
) -> Allocation:
    """Share blocks between buffers: the memory sharing of chen2016, as in its published planner.

    At each step, every buffer that begins requests a block, largest first; after the step, every buffer that ends frees
    its block. A request gets the smallest free block that is large enough, unless the block is more than `match_range`
    times as large. Otherwise it gets the largest smaller free block, which grows, unless that block is smaller than 1 /
    `match_range` of the request. Otherwise it gets a new block. Blocks do not overlap.

    Parameters
    ----------
    buffers : Buffers
    match_range : int, optional
        Maximum ratio between the sizes of a request and of the block that it gets; 0 shares nothing. By default the
        best of 0, 1, 2, 4, 8, ...; a larger range is not always better.
    alignment : int
        A power of two that divides every offset and the size of the arena.
    time_limit : float, optional
        Seconds, after which the best result is returned. At least one range is tried.

    Returns
    -------
    Allocation
        `storage` numbers the blocks from 0; the arena is never larger than that of `separate_storage`.

    Raises
    ------
    AllocationError
        If the match range is not a whole number of 0 or more, or the alignment is not a power of two.

    References
    ----------
    chen2016, section 3 and figure 2; the match range is that of NNVM's planner, which uses 16.

    Examples
    --------
    >>> chain = Buffers([0, 1, 2, 3], [2, 3, 4, 4], [100, 5, 7, 100])
    >>> share_storage(chain, 16).size, share_storage(chain, 1).size, share_storage(chain).size, chain.max_live
    (205, 112, 112, 107)
    """
    if match_range is not None and match_range < 0:
        raise about(
            "match_range",
            AllocationError(
                "the match range is {match_range}; give a whole number, 0 or more, such as 16", match_range=match_range
            ),
        )
    rounded, clock = buffers.rounded(alignment), Clock(time_limit)
    fresh = rounded.over < 0
    begins = np.lexsort((-rounded.size, fresh, rounded.begin))
    frees = np.ones(len(rounded), bool)
    frees[rounded.over[~fresh]] = False  # its block is still used
    ends = np.lexsort((-rounded.begin, rounded.end))  # ties: last begun first
    ends = ends[frees[ends]]
    bound, best, minimum, method = rounded.max_live, None, 0, ""
    for ratio in _match_ranges(rounded.size) if match_range is None else (match_range,):
        lives, order = (rounded.begin, rounded.end, rounded.size, rounded.over), {"begins": begins, "ends": ends}
        block, length = shared_blocks(*lives, **order, match_range=min(ratio, 2**62))
        if best is None or length.sum() < minimum:
            best, minimum, method = block, int(length.sum()), f"sharing, match range {ratio}"
        if minimum <= bound or clock.late:
            break
    # `best` is not None, because at least one match range is tried.
    return Allocation.side_by_side(buffers, best, method, alignment)  # type: ignore[arg-type]


@checked_arguments
def separate_storage(buffers: Buffers, *, alignment: int = 1) -> Allocation:
    """Give each buffer its own block; only buffers that overwrite each other in place share one.

    Parameters
    ----------
    buffers : Buffers
    alignment : int
        A power of two that divides every offset and the size of the arena.

    Returns
    -------
    Allocation

    Raises
    ------
    AllocationError
        If the alignment is not a power of two.

    Examples
    --------
    >>> separate_storage(Buffers([0, 1, 2], [2, 3, 4], [4, 2, 2], over=[-1, -1, 1])).offset.tolist()
    [0, 4, 4]
    """
    return Allocation.side_by_side(buffers, np.unique(buffers.first, return_inverse=True)[1], "separate", alignment)


@checked_arguments
def colour(buffers: Buffers, *, alignment: int = 1, time_limit: float | None = None) -> Allocation:
    """Assign buffers that are live at the same time to different blocks: colour their conflict graph.

    The graph is not built, but the time is still quadratic, as chen2016 notes. Buffers are sorted by decreasing size,
    then by start. In this order, each buffer gets the first colour without a conflict, so a block is as large as its
    first buffer. If all sizes are equal, the arena is minimum, because interval graphs are perfect. Buffers that
    overwrite each other count as one interval.

    Parameters
    ----------
    buffers : Buffers
    alignment : int
        A power of two that divides every offset and the size of the arena.
    time_limit : float, optional
        Seconds. Colouring cannot be interrupted: if it may take longer, nothing is shared.

    Returns
    -------
    Allocation
        `storage` is the colour, from 0; blocks are laid out one after another, the largest first.

    Raises
    ------
    AllocationError
        If the alignment is not a power of two.

    References
    ----------
    chen2016, section 3, which mentions colouring and uses counters instead (`share_storage`).

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
    if left is not None and units.size**2 > tuning.PAIRS_A_SECOND * max(SHORTEST, left):
        return separate_storage(buffers, alignment=alignment)
    storage = np.empty(len(buffers), np.int64)
    storage[units] = block_colours(begin[units], end[units])
    return Allocation.side_by_side(buffers, storage[first], "colouring, largest first", alignment)


def _match_ranges(size: Int64) -> Iterator[int]:
    """Yield 0 and powers of two until a range matches all sizes."""
    yield 0
    positive = size[size > 0]
    widest = -(-int(positive.max()) // int(positive.min())) if positive.size else 0
    match_range = 1
    while match_range < 2 * widest:
        yield match_range
        match_range *= 2
