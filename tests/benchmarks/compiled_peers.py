"""The loops of kernels/vectors.pxd in Numba, which may replace one of them if it becomes faster.

Each does its loop `times` times, over slices from 0: where an index may be negative, Numba uses no vector unit.
"""

import numba
import numpy as np


@numba.njit(cache=True)
def rows_raise(row, other, by, most, times):
    n = row.shape[0]
    for _ in range(times):
        for i in range(n):
            x = other[i] - by
            x = x if x < most else most
            row[i] = x if x > row[i] else row[i]
        by += 1
    return 0


@numba.njit(cache=True)
def first_below(row, bound, times):
    n, found = row.shape[0], 0
    for _ in range(times):
        i = 0
        while i + 32 <= n:
            block, below = row[i : i + 32], False
            for k in range(32):
                below |= block[k] < bound
            if below:
                break
            i += 32
        while i < n and not row[i] < bound:
            i += 1
        found += i
        bound -= 1
    return found


@numba.njit(cache=True)
def rows_lower(row, a, b, cost, times):
    n = row.shape[0]
    for _ in range(times):
        for i in range(n):
            x = cost + a[i] + b[i]
            row[i] = x if x < row[i] else row[i]
        cost -= np.float32(1)
    return 0


@numba.njit(cache=True)
def add(row, by, times):
    n = row.shape[0]
    for _ in range(times):
        for i in range(n):
            row[i] += by
        by = np.int32(-by)
    return 0


@numba.njit(cache=True)
def fold(row, by, times):
    found = 0
    for _ in range(times):
        block, top = row[:128], np.int32(-2147483647)
        for i in range(128):
            x = np.int32(block[i] + by)
            block[i] = x
            top = x if x > top else top
        found += top
        by = np.int32(-by)
    return found


@numba.njit(cache=True)
def excess(row, limit, times):
    found = 0
    for _ in range(times):
        block, total = row[:128], np.int64(0)
        for i in range(128):
            above = np.int32(block[i] - limit)
            total += above if above > 0 else np.int32(0)
        found += total
        limit = np.int32(-limit)
    return found


@numba.njit(cache=True)
def gather(indptr, indices, memory, seen, times):
    n, found = indptr.shape[0] - 1, 0
    for time in range(times):
        for v in range(n):
            live = np.int64(0)
            for j in range(indptr[v], indptr[v + 1]):
                live += memory[indices[j]] * (seen[indices[j]] != time)
            found += live
    return found


@numba.njit(cache=True)
def count_bits(words, times):
    found = 0
    for time in range(times):
        for i in range(words.shape[0]):
            word = words[i] ^ np.uint64(time)
            word -= word >> np.uint64(1) & np.uint64(0x5555555555555555)
            word = (word & np.uint64(0x3333333333333333)) + (word >> np.uint64(2) & np.uint64(0x3333333333333333))
            word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
            found += np.int64(word * np.uint64(0x0101010101010101) >> np.uint64(56))
    return found
