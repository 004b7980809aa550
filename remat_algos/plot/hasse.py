"""Positions of lower sets in a Hasse diagram, and its lines."""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from remat_algos.ir.arrays import Bool, Int64

Float64 = NDArray[np.float64]


def covers(members: Bool) -> Int64:
    """int64[c, 2]: pairs of rows of which the second covers the first.

    Examples
    --------
    >>> covers(np.array([[0, 0], [1, 0], [0, 1], [1, 1]], bool)).tolist()
    [[0, 1], [0, 2], [1, 3], [2, 3]]
    """
    size, counts = members.sum(axis=1), members.astype(np.float32)
    inside = (counts @ (1 - counts).T == 0) & (size[:, None] < size)
    between = inside.astype(np.float32) @ inside.astype(np.float32) > 0
    return np.argwhere(inside & ~between)


def places(members: Bool) -> Float64:
    """float64[k, 2]: (place, level) of lower sets; the level is the size, and places of a level are at least 1 apart.

    Where there is room, adding a node leads in the same direction from every set, so that lines are parallel.

    Examples
    --------
        0 -> 1 -> 3        the lower sets {}, {0}, {0, 1}, {0, 2}, {0, 1, 2} and the whole
        0 -> 2 -> 3

    >>> sets = [[0, 0, 0, 0], [1, 0, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0], [1, 1, 1, 0], [1, 1, 1, 1]]
    >>> places(np.array(sets, bool)).tolist()
    [[0.0, 0.0], [0.0, 1.0], [-0.5, 2.0], [0.5, 2.0], [0.0, 3.0], [0.0, 4.0]]
    """
    from scipy.optimize import isotonic_regression  # type: ignore[import-untyped]

    level = members.sum(axis=1)
    place = members @ _directions(members)
    for size in np.unique(level):
        row = np.flatnonzero(level == size)
        row, apart = row[np.argsort(place[row], kind="stable")], np.arange(row.size)
        if row.size > 1:
            place[row] = isotonic_regression(place[row] - apart).x + apart
    return np.column_stack([place, level])


def _directions(members: Bool) -> Float64:
    """float64[f]: horizontal shift when a node is added: each branch to its own side, zero in sum.

    Parts of the graph that come one after the other are divided into branches separately.
    """
    f = members.shape[1]
    below = np.array([members[members[:, v]].all(axis=0) for v in range(f)]).reshape(f, f)
    ends = [v for v in range(f + 1) if below[v:, :v].all()]
    slope = np.zeros(f)
    for begin, end in pairwise(ends):
        last: list[int] = []  # its latest node
        branch: list[int] = []
        for v in range(begin, end):
            at = next((i for i, u in enumerate(last) if below[v, u]), len(last))
            last[at : at + 1] = [v]
            branch.append(at)
        direction = np.array(branch) * 2 / max(1, len(last) - 1) - 1
        slope[begin:end] = (direction - direction.mean()) / 2
    return slope
