# distutils: language = c++
"""Addresses by greedy rules: lowest or tightest gap in a given order, and lowest place first."""

import numpy as np

from libc.stdint cimport int64_t
from libcpp.pair cimport pair
from libcpp.queue cimport priority_queue
from libcpp.vector cimport vector

cdef int64_t beyond = 0x7FFFFFFFFFFFFFFF

include "_offsets_placed.pxi"
include "_offsets_skyline.pxi"


def fit(const int64_t[:] order, const int64_t[:] begin, const int64_t[:] end, const int64_t[:] size, bint best):
    """Each block in turn goes to the lowest gap that holds it, or to the tightest one.

    order : int64[n] a permutation of the blocks, begin, end : int64[n] half-open sections, size : int64[n] above 0
    Returns int64[n], the offset of each.
    """
    cdef Py_ssize_t n = order.shape[0], at
    cdef _Placed placed = _Placed()
    cdef int64_t b, over = 0
    offset = np.zeros(n, np.int64)
    cdef int64_t[:] offsets = offset
    cdef vector[int64_t] first  # earliest begin of this block and those behind it: what ends before is forgotten
    with nogil:
        first.resize(n)
        for at in range(n - 1, -1, -1):
            b = order[at]
            first[at] = begin[b] if at == n - 1 else min(begin[b], first[at + 1])
        for at in range(n):
            b = order[at]
            offsets[b] = placed.gap(begin[b], end[b], size[b], best, first[at])
            placed.add(_Place(offsets[b], offsets[b] + size[b], begin[b], end[b]))
    return offset


def stack(const int64_t[:] begin, const int64_t[:] end, const int64_t[:] size, const int64_t[:] rank,
          Py_ssize_t sections):
    """The lowest place comes first, and takes the block of least rank that fits between its walls.

    begin, end : int64[n] half-open sections, `begin` ascending, size : int64[n], rank : int64[n] a permutation
    Returns int64[n], the offset of each. A place that no block fits is given up, up to its lower wall.
    """
    cdef Py_ssize_t n = begin.shape[0], left = n
    cdef _Skyline skyline = _Skyline()
    cdef _Waiting waiting = _Waiting()
    cdef int64_t b, part
    offset = np.zeros(n, np.int64)
    cdef int64_t[:] offsets = offset
    with nogil:
        skyline.start(sections)
        waiting.start(begin, end, rank)
        while left:
            part = skyline.lowest()
            b = waiting.take(skyline.parts[part].begin, skyline.parts[part].end)
            if b < 0:
                skyline.lift(part)
            else:
                offsets[b] = skyline.put(part, begin[b], end[b], size[b])
                left -= 1
    return offset
