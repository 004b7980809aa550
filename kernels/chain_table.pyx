# distutils: language = c++
"""Dynamic program over chains of stages (beaumont2019, theorem 1) in a dense three-dimensional table.

T[a][b][m] is the minimum forward compute that is needed to run stages a..b forward and backward with m free slots of
memory. The input of stage a is already live, and not counted. The values of a stage that later stages read are its
link. A sweep over stages a..j - 1 runs them forward and keeps only the link of the last one:

    T[a][a][m] = leaf[a]                                                          if m slots are enough
    T[a][b][m] = min(every[a] + T[a + 1][b][m - keep[a]],                         keep what the backward part of a reads
                     min over a < j <= b of
                         sweep[a] + .. + sweep[j - 1] + T[j][b][m - link[j - 1]] + T[a][j - 1][m])       keep one link

Rows [a][b], b >= a, are stored consecutively, with m contiguous. An entry is a float32, infinite if nothing fits. The
choices are not stored; they are recomputed when a solution is read from the table.

If b is the last stage, stages a..b run for the first time. Otherwise they are recomputed, and the values that are
computed only once, `fixed` bytes for each stage, are already live.

`costs` float64[3, n]: rows sweep, every, leaf. `memory` int64[12, n]: bytes as in `solvers.chain_stages.StageMemory`;
the constants below are the row numbers. A slot is `unit` bytes; bytes are rounded up to slots if `up`, otherwise down.
"""

import numpy as np

cimport cython
from libc.math cimport INFINITY
from libcpp.vector cimport vector
from remat_algos.kernels.types cimport int64_t
from remat_algos.kernels.vectors cimport remat_lower

cdef enum:
    sweep, every, leaf, backward
    # Rows [a][b] are computed in tiles of TILE values of a and of b, so that a tile reads each row from memory once.
    TILE = 4
cdef enum:
    link, keep, first_run, following, everything, own, back, gradients, fixed, first_once, following_once, everything_once

SWEEP, EVERY, LEAF, BACKWARD = sweep, every, leaf, backward

cdef struct StageRange:
    # First and last stage. If last is -1, only the backward nodes of stage `first` remain to be run.
    int64_t first, last
    int64_t slots


def rows_of_table(n):
    """Return the number of rows in the table for n stages."""
    return n * (n + 1) // 2


def row_offset(int64_t n, int64_t a, int64_t b, int64_t width):
    """Return the offset of row [a][b] in the table."""
    return _offset(n, a, b, width)


def in_slots(size, unit, up):
    """Convert bytes to slots, rounded up or down."""
    return -((-size) // unit) if up else size // unit


cdef inline int64_t _offset(int64_t n, int64_t a, int64_t b, int64_t width) noexcept nogil:
    return (a * n - a * (a - 1) // 2 + b - a) * width


@cython.cdivision(True)
cdef inline int64_t _slots(int64_t size, int64_t unit, bint up) noexcept nogil:
    cdef int64_t quotient = size // unit, rest = size % unit
    return quotient + (rest > 0) if up else quotient - (rest < 0)


def fill_rows(table, width, costs, memory, unit, up, begin, end):
    """Fill the rows [a][..] for a from end - 1 down to begin; the rows of later stages must be filled already.

    table : float32[rows_of_table(n) * width], width : slots + 1
    Cost: O(n^2 width) time per stage, so O(n^3 width) in total, and O(n^2 width) memory; for more than a few
    hundred stages use fewer slots, or join stages.
    """
    rows = _ChainRows(table, width, costs, memory, unit, up)
    n = costs.shape[1]
    if not 0 <= begin <= end <= n:
        raise ValueError(f"stages {begin} to {end} of {n}")
    sums = np.append(0, np.cumsum(memory[fixed]))
    shift = in_slots(memory[keep], unit, up)
    for last in range(end, begin, -TILE):
        first = max(begin, last - TILE)
        stages, steps = np.arange(first, last)[:, None], np.arange(1, n + 1)
        one = steps == stages + 1
        # peaks, late: maximum bytes of the sweep over stages a..j - 1; `late` is for stages that run for the first
        # time. shifts: number of slots for the values that the sweep keeps: the link of stage j - 1 and `fixed` values.
        peaks = np.where(one, memory[first_run, first:last, None], memory[following, steps - 1])
        before = sums[steps - 1] - sums[stages] + memory[gradients, -1]
        late = before + np.where(one, memory[first_once, first:last, None], memory[following_once, steps - 1])
        peaks, late = (np.maximum.accumulate(np.where(steps > stages, each, 0), axis=1) for each in (peaks, late))
        shifts = in_slots(memory[link, steps - 1] + sums[steps] - sums[stages], unit, up)
        # beside: bytes of other values that are live during the sweep. low: minimum number of slots for keeping what
        # the backward part of stage a reads.
        beside = memory[gradients] + sums[steps] - sums[stages]
        alone = np.where(one, memory[own, first:last, None], memory[everything, first:last, None]) + beside
        alone[:, -1] = np.where(one[:, -1], memory[own, -1], memory[everything_once, first:last]) + memory[gradients, -1]
        low = np.maximum(in_slots(np.maximum(alone, memory[back, first:last, None]), unit, up), 0)
        low = np.minimum(np.where(one, low, np.maximum(low, shift[first:last, None])), width)
        rows.fill(peaks, late, shifts, beside, low, shift, first, last)


def operations(table, width, costs, memory, unit, up, slots, most):
    """Return the operations of an optimum within `slots`: int32[k], 4 * stage + operation, or None if k exceeds `most`.

    The entry [0][n - 1][slots] must be finite.
    Cost: O(k n) time, O(n + k) memory; k can grow like n^2, so limit it by `most`.
    """
    rows = _ChainRows(table, width, costs, memory, unit, up)
    n = costs.shape[1]
    if not (0 <= slots < width and np.isfinite(table[(n - 1) * width + slots])):
        raise ValueError(f"no solution in {slots} slots")
    return rows.operations(slots, most)


@cython.final
cdef class _ChainRows:
    """The table, the costs and the bytes of the stages, and the bytes of a slot."""
    cdef float[::1] table
    cdef const double[:, :] costs
    cdef const int64_t[:, :] memory
    cdef const double[::1] sweeps
    cdef int64_t n, width, unit
    cdef bint up

    def __init__(self, table, width, costs, memory, unit, bint up):
        n = costs.shape[1]
        if n < 1 or costs.shape[0] != 3 or memory.shape != (12, n) or width < 1 or unit < 1:
            raise ValueError("costs must be [3, n], memory [12, n]")
        if table.dtype != np.float32 or table.shape != (rows_of_table(n) * width,):
            raise ValueError(f"the table must have {rows_of_table(n) * width} entries of float32")
        self.table, self.costs, self.memory = table, costs, memory
        self.n, self.width, self.unit, self.up = n, width, unit, up
        self.sweeps = np.append(0, np.cumsum(costs[sweep]))

    cdef inline int64_t offset(self, int64_t a, int64_t b) noexcept nogil:
        return _offset(self.n, a, b, self.width)

    def fill(self, const int64_t[:, ::1] peaks, const int64_t[:, ::1] late, const int64_t[:, ::1] shifts,
             const int64_t[:, ::1] beside, const int64_t[:, ::1] low, const int64_t[::1] keeps, int64_t first,
             int64_t last):
        """Fill the rows of a tile of stages first..last - 1.

        peaks, late, shifts : int64[TILE, n], indexed by a - first and j - 1; beside, low : int64[TILE, n], indexed by
        a - first and b; keeps : int64[n]
        """
        cdef int64_t tile, b, b_last, a, i
        with nogil:
            for tile in range((self.n - first + TILE - 1) // TILE):
                b, b_last = first + tile * TILE, min(first + tile * TILE + TILE, self.n)
                for a in range(first, last):
                    for i in range(self.offset(a, max(a, b)), self.offset(a, max(a, b_last))):
                        self.table[i] = INFINITY
                # Begin with the splits that read only rows of other tiles: each row is read once for the whole tile.
                self.split(peaks, late, shifts, beside, first, first, last, b, b_last, last, b + 1)
                self.finish(peaks, late, shifts, beside, low, keeps, first, last, b, b_last)

    cdef void split(
        self, const int64_t[:, ::1] peaks, const int64_t[:, ::1] late, const int64_t[:, ::1] shifts,
        const int64_t[:, ::1] beside, int64_t first, int64_t a_begin, int64_t a_end, int64_t b_begin, int64_t b_end,
        int64_t j_begin, int64_t j_end,
    ) noexcept nogil:
        """Minimize rows [a][b] of a tile over splits before j, for ranges of a, b and j."""
        cdef int64_t a, b, j, low, shift
        cdef float cost
        cdef float* table = &self.table[0]
        cdef const float* left
        for j in range(j_begin, j_end):
            for a in range(a_begin, a_end):
                cost = <float>(self.sweeps[j] - self.sweeps[a])
                left = table + self.offset(a, j - 1)
                shift = shifts[a - first, j - 1]
                for b in range(b_begin, b_end):
                    low = late[a - first, j - 1] if b == self.n - 1 else peaks[a - first, j - 1] + beside[a - first, b]
                    low = max(_slots(low, self.unit, self.up), shift)
                    if low < self.width:
                        remat_lower(table + self.offset(a, b) + low, table + self.offset(j, b) + low - shift, left + low,
                                    self.width - low, cost)

    cdef void finish(
        self, const int64_t[:, ::1] peaks, const int64_t[:, ::1] late, const int64_t[:, ::1] shifts,
        const int64_t[:, ::1] beside, const int64_t[:, ::1] low, const int64_t[::1] keeps, int64_t first, int64_t last,
        int64_t b_begin, int64_t b_end,
    ) noexcept nogil:
        """Finish the rows of a tile: single stages, kept stages, and splits that read a row of this tile."""
        cdef int64_t a, b, j, m, shift
        cdef float cost, total
        cdef float* row
        cdef const float* after
        for a in range(last - 1, first - 1, -1):
            shift = keeps[a]
            for b in range(max(a, b_begin), b_end):
                row = &self.table[0] + self.offset(a, b)
                after = &self.table[0] + self.offset(a + 1, b)
                cost = <float>self.costs[leaf if a == b else every, a]
                for m in range(low[a - first, b], self.width):
                    total = cost if a == b else cost + after[min(m - shift, self.width - 1)]
                    row[m] = total if total < row[m] else row[m]
                for j in range(a + 1, b + 1):
                    if j < last or j > b_begin:
                        self.split(peaks, late, shifts, beside, first, a, a + 1, b, b + 1, j, j + 1)

    def operations(self, int64_t slots, int64_t most):
        """Return the operations of an optimum within `slots`, or None if they are more than `most`."""
        cdef vector[int] out
        cdef int64_t i, count
        with nogil:
            count = self.write(slots, most, out)
        if count > most:
            return None
        result = np.empty(count, np.int32)
        cdef int[::1] codes = result
        for i in range(count):
            codes[i] = out[i]
        return result

    cdef int64_t write(self, int64_t slots, int64_t most, vector[int]& out) except -1 nogil:
        """Append the operations, and stop soon after their number exceeds `most`; return the number."""
        cdef vector[StageRange] stack
        cdef int64_t n = self.n, a, b, m, i, j, chosen, left, rest, peak, next_peak, stays, beside, shift
        cdef bint once
        cdef double cost
        cdef float best, total
        cdef const float* table = &self.table[0]
        stack.push_back(StageRange(0, n - 1, slots))
        while not stack.empty() and <int64_t>out.size() <= most:
            a, b, m = stack.back().first, stack.back().last, stack.back().slots
            stack.pop_back()
            if b < 0:
                out.push_back(<int>(4 * a + backward))
                continue
            if a == b:
                out.push_back(<int>(4 * a + leaf))
                out.push_back(<int>(4 * a + backward))
                continue
            once, beside, cost, stays = b == n - 1, self.memory[gradients, b], 0, 0
            for i in range(a, b + 1):
                beside += 0 if once else self.memory[fixed, i]
            best, chosen, left = INFINITY, a, m
            rest = m - _slots(self.memory[keep, a], self.unit, self.up)
            peak = max(self.memory[back, a], self.memory[everything_once if once else everything, a] + beside)
            if rest >= 0 and m >= _slots(peak, self.unit, self.up):
                left = min(rest, self.width - 1)
                best = <float>self.costs[every, a] + table[self.offset(a + 1, b) + left]
            peak = self.memory[first_once if once else first_run, a]
            for j in range(a + 1, b + 1):
                next_peak = self.memory[following_once, j - 1] + stays if once else self.memory[following, j - 1]
                if j > a + 1:
                    peak = max(peak, next_peak)
                if m < _slots(peak + beside, self.unit, self.up):
                    break
                cost += self.costs[sweep, j - 1]
                stays += self.memory[fixed, j - 1]
                shift = _slots(self.memory[link, j - 1] + stays, self.unit, self.up)
                if m >= shift:
                    total = <float>cost + table[self.offset(j, b) + m - shift] + table[self.offset(a, j - 1) + m]
                    if total < best:
                        best, chosen, left = total, j, m - shift
            if chosen == a:
                out.push_back(<int>(4 * a + every))
                stack.push_back(StageRange(a, -1, 0))
                stack.push_back(StageRange(a + 1, b, left))
            else:
                for i in range(a, chosen):
                    out.push_back(<int>(4 * i + sweep))
                stack.push_back(StageRange(a, chosen - 1, m))
                stack.push_back(StageRange(chosen, b, left))
        return out.size()
