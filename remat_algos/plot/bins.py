"""Bins of steps or nodes, one per row or column."""

import numpy as np

from remat_algos.ir.arrays import Int64
from remat_algos.ir.csr import row_of


def bins(count: int, max_bins: int) -> Int64:
    """int64[k + 1]: ends of at most `max_bins` even ranges of 0 to count; one per number if there is room.

    Examples
    --------
    >>> bins(3, 10).tolist(), bins(10, 4).tolist()
    ([0, 1, 2, 3], [0, 2, 5, 7, 10])
    """
    k = max(1, min(count, max_bins))
    return np.arange(k + 1) * count // k


def bin_of(edges: Int64) -> Int64:
    """int64[count]: the range of each number."""
    return row_of(edges)
