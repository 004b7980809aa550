"""The dynamic program over chains of stages (beaumont2019, theorem 1): one dense table of three dimensions.

T[a][b][m] is the minimum compute of forward nodes to run stages a..b forward and backward with m free slots of memory,
where the input of a is live already and not counted:

    T[a][a][m] = leaf[a]                                                          if m suffices for leaf and backward
    T[a][b][m] = min(every[a] + T[a + 1][b][m - keep[a]],                         keep what the backward part of a reads
                     min over a < j <= b of
                         sweep[a] + .. + sweep[j - 1] + T[j][b][m - link[j - 1]] + T[a][j - 1][m])       keep the link

Rows [a][b], b >= a, lie one after the other; m is contiguous. An entry is a float32, infinite if nothing fits. There
is no table of choices: they are made again on the path of a solution.

If b is the last stage, stages a..b run for the first time, otherwise again: values computed only once, `fixed` bytes
of each stage, are then already live.

`costs` float64[3, n]: sweep, every, leaf. `memory` int64[12, n]: bytes as in `solvers.chain_stages.StageMemory`, in the
order of the constants below. A slot is `unit` bytes; with `up` bytes are rounded up to slots, otherwise down.
"""

import numpy as np
from remat_algos.kernels._jit import njit

SWEEP, EVERY, LEAF, BACKWARD = range(4)
TILE = 4  # rows of stages, and columns, whose entries are computed together, so that each row is read from memory once
LINK, KEEP, FIRST, FOLLOWING, ALL, OWN, BACK, GRADIENTS, FIXED, FIRST_ONCE, FOLLOWING_ONCE, ALL_ONCE = range(12)


def rows_of_table(n):
    """Number of rows of the table of n stages."""
    return n * (n + 1) // 2


def fill_rows(table, width, costs, memory, unit, up, begin, end):
    """Fill the rows [a][..] of stages begin..end - 1, the last first; those of later stages must be filled.

    table : float32[rows_of_table(n) * width], width : slots + 1
    Cost: O(n^2 width) time for each stage, so O(n^3 width) in all, in a table of O(n^2 width) memory; for more than
    some hundred stages take fewer slots or join stages.
    """
    _check(table, width, costs, memory, unit)
    n = costs.shape[1]
    if not 0 <= begin <= end <= n:
        raise ValueError(f"stages {begin} to {end} of {n}")
    sweeps, fixed = np.append(0, np.cumsum(costs[SWEEP])), np.append(0, np.cumsum(memory[FIXED]))
    for last in range(end, begin, -TILE):
        first = max(begin, last - TILE)
        stages, steps = np.arange(first, last)[:, None], np.arange(1, n + 1)
        one = steps == stages + 1
        # bytes of the sweep from a to j - 1 (`late`: if the stages run for the first time), and slots of its link
        peaks = np.where(one, memory[FIRST, first:last, None], memory[FOLLOWING, steps - 1])
        before = fixed[steps - 1] - fixed[stages] + memory[GRADIENTS, -1]
        late = before + np.where(one, memory[FIRST_ONCE, first:last, None], memory[FOLLOWING_ONCE, steps - 1])
        peaks, late = (np.maximum.accumulate(np.where(steps > stages, each, 0), axis=1) for each in (peaks, late))
        shifts = in_slots(memory[LINK, steps - 1] + fixed[steps] - fixed[stages], unit, up)
        # bytes besides these, and the slots that keeping all takes
        beside = memory[GRADIENTS] + fixed[steps] - fixed[stages]
        shift = in_slots(memory[KEEP], unit, up)
        own = np.where(one, memory[OWN, first:last, None], memory[ALL, first:last, None]) + beside
        own[:, -1] = np.where(one[:, -1], memory[OWN, -1], memory[ALL_ONCE, first:last]) + memory[GRADIENTS, -1]
        low = np.maximum(in_slots(np.maximum(own, memory[BACK, first:last, None]), unit, up), 0)
        low = np.minimum(np.where(one, low, np.maximum(low, shift[first:last, None])), width)
        rows = width, unit, up, sweeps, peaks, late, shifts, beside, first
        for b in range(first, n, TILE):
            b_last = min(b + TILE, n)
            for a in range(first, last):
                table[row_offset(n, a, max(a, b), width) : row_offset(n, a, b_last, width)] = np.inf
            # splits with both rows in other tiles: each row is read once for the whole tile
            _splits(table, *rows, first, last, b, b_last, last, b + 1)
            _rest(table, *rows, last, b, b_last, costs, low, shift)


def operations(table, width, costs, memory, unit, up, slots, most):
    """The operations of an optimum within `slots`: int32[k] of 4 * stage + operation; None if more than `most`.

    The entry [0][n - 1][slots] must be finite.
    Cost: O(k n) time, O(n + k) memory; k may grow as n^2, so give `most`.
    """
    _check(table, width, costs, memory, unit)
    n = costs.shape[1]
    if not (0 <= slots < width and np.isfinite(table[(n - 1) * width + slots])):
        raise ValueError(f"no solution in {slots} slots")
    size = 16 * n
    while True:
        out = np.empty(min(size, most), np.int32)
        count = _operations(table, width, costs, memory, unit, up, slots, out)
        if count <= out.size:
            return out[:count]
        if size >= most:
            return None
        size *= 4


def _check(table, width, costs, memory, unit):
    n = costs.shape[1]
    if n < 1 or costs.shape[0] != 3 or memory.shape != (12, n) or width < 1 or unit < 1:
        raise ValueError("costs must be [3, n], memory [12, n]")
    if table.dtype != np.float32 or table.shape != (rows_of_table(n) * width,):
        raise ValueError(f"the table must have {rows_of_table(n) * width} entries of float32")


def row_offset(n, a, b, width):
    """Offset of row [a][b]."""
    return (a * n - a * (a - 1) // 2 + b - a) * width


def in_slots(size, unit, up):
    """Bytes in slots, rounded up or down."""
    return -((-size) // unit) if up else size // unit


_offset, _slots = njit(row_offset), njit(in_slots)


@njit
def _splits(
    table, width, unit, up, sweeps, peaks, late, shifts, beside, first, a, a_end, b_begin, b_end, j_begin, j_end
):
    """Minimize rows [a][b] of a tile over splits before j, for ranges of all three. `first` is the tile's first stage.

    peaks, late, shifts : int64[TILE, n], for a and j - 1; beside : int64[TILE, n], for a and b
    """
    n = sweeps.shape[0] - 1
    for j in range(j_begin, j_end):
        for i in range(a - first, a_end - first):
            cost, left = np.float32(sweeps[j] - sweeps[first + i]), _offset(n, first + i, j - 1, width)
            shift = shifts[i, j - 1]
            for b in range(b_begin, b_end):
                low = _slots(late[i, j - 1] if b == n - 1 else peaks[i, j - 1] + beside[i, b], unit, up)
                low = shift if low < shift else low
                if low < width:
                    right, at = _offset(n, j, b, width) - shift, _offset(n, first + i, b, width)
                    ahead, before = table[right + low : right + width], table[left + low : left + width]
                    best = table[at + low : at + width]
                    for m in range(width - low):
                        total = cost + ahead[m] + before[m]
                        best[m] = total if total < best[m] else best[m]


@njit
def _rest(
    table, width, unit, up, sweeps, peaks, late, shifts, beside, first, last, b_begin, b_end, costs, lows, shift_all
):
    """Finish the rows of a tile: the leaves, keeping all, and the splits with a row in the tile."""
    n = sweeps.shape[0] - 1
    for a in range(last - 1, first - 1, -1):
        shift = shift_all[a]
        for b in range(b_begin if b_begin > a else a, b_end):
            at, after, low = _offset(n, a, b, width), _offset(n, a + 1, b, width), lows[a - first, b]
            cost = np.float32(costs[LEAF, a] if a == b else costs[EVERY, a])
            for m in range(low, width):
                rest = m - shift if m - shift < width else width - 1
                total = cost if a == b else cost + table[after + rest]
                table[at + m] = total if total < table[at + m] else table[at + m]
            for j in range(a + 1, b + 1):
                if j < last or j > b_begin:
                    _splits(
                        table, width, unit, up, sweeps, peaks, late, shifts, beside, first, a, a + 1, b, b + 1, j, j + 1
                    )


@njit
def _operations(table, width, costs, memory, unit, up, slots, out):
    """Write operations while `out` has room, and return their total number."""
    n = costs.shape[1]
    stack = np.empty((3 * n + 3, 3), np.int64)
    stack[0, 0], stack[0, 1], stack[0, 2] = 0, n - 1, slots
    height, count = 1, 0
    while height:
        height -= 1
        a, b, m = stack[height, 0], stack[height, 1], stack[height, 2]
        if b < 0:  # the backward nodes of a
            if count < out.size:
                out[count] = 4 * a + BACKWARD
            count += 1
            continue
        if a == b:
            if count + 1 < out.size:
                out[count], out[count + 1] = 4 * a + LEAF, 4 * a + BACKWARD
            count += 2
            continue
        once, beside, cost, stays = b == n - 1, memory[GRADIENTS, b], 0.0, np.int64(0)
        for i in range(a, b + 1):
            beside += 0 if once else memory[FIXED, i]
        best, chosen, left = np.float32(np.inf), a, m
        rest, peak = m - _slots(memory[KEEP, a], unit, up), memory[ALL_ONCE if once else ALL, a] + beside
        peak = memory[BACK, a] if memory[BACK, a] > peak else peak
        if rest >= 0 and m >= _slots(peak, unit, up):
            left = rest if rest < width else width - 1
            best = np.float32(costs[EVERY, a]) + table[_offset(n, a + 1, b, width) + left]
        peak = memory[FIRST_ONCE if once else FIRST, a]
        for j in range(a + 1, b + 1):
            next_peak = memory[FOLLOWING_ONCE, j - 1] + stays if once else memory[FOLLOWING, j - 1]
            peak = next_peak if j > a + 1 and next_peak > peak else peak
            if m < _slots(peak + beside, unit, up):
                break
            cost += costs[SWEEP, j - 1]
            stays += memory[FIXED, j - 1]
            shift = _slots(memory[LINK, j - 1] + stays, unit, up)
            if m >= shift:
                right = table[_offset(n, j, b, width) + m - shift]
                total = np.float32(cost) + right + table[_offset(n, a, j - 1, width) + m]
                if total < best:
                    best, chosen, left = total, j, m - shift
        if chosen == a:
            if count < out.size:
                out[count] = 4 * a + EVERY
            count += 1
            stack[height, 0], stack[height, 1] = a, -1
            stack[height + 1, 0], stack[height + 1, 1], stack[height + 1, 2] = a + 1, b, left
        else:
            for i in range(a, chosen):
                if count < out.size:
                    out[count] = 4 * i + SWEEP
                count += 1
            stack[height, 0], stack[height, 1], stack[height, 2] = a, chosen - 1, m
            stack[height + 1, 0], stack[height + 1, 1], stack[height + 1, 2] = chosen, b, left
        height += 2
    return count
