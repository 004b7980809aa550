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


cdef class Fit:
    """Each block in order goes to the lowest gap that fits it, or to the tightest one.

    Fit(order, begin, end, size, best): order int64[n] a permutation of the blocks, begin, end : int64[n] half-open
    sections, size : int64[n] above 0
    """
    cdef const int64_t[:] order, begin, end, size
    cdef bint best
    cdef Py_ssize_t at
    cdef _Placed placed
    cdef vector[int64_t] first  # earliest begin of this block and later ones: blocks that end before are dropped
    cdef int64_t[:] offset

    def __init__(self, const int64_t[:] order, const int64_t[:] begin, const int64_t[:] end, const int64_t[:] size,
                 bint best):
        cdef Py_ssize_t at, n = order.shape[0]
        self.order, self.begin, self.end, self.size, self.best = order, begin, end, size, best
        self.placed = _Placed()
        self.offset = np.zeros(n, np.int64)
        self.first.assign(n + 1, beyond)
        for at in range(n - 1, -1, -1):
            self.first[at] = min(begin[order[at]], self.first[at + 1])

    def run(self, Py_ssize_t blocks):
        """Place up to `blocks` more. Returns whether all are placed."""
        cdef int64_t b, low
        cdef Py_ssize_t until = min(self.at + blocks, self.order.shape[0])
        with nogil:
            while self.at < until:
                b = self.order[self.at]
                low = self.placed.gap(self.begin[b], self.end[b], self.size[b], self.best, self.first[self.at])
                self.placed.add(_Place(low, low + self.size[b], self.begin[b], self.end[b]))
                self.offset[b] = low
                self.at += 1
        return self.at == self.order.shape[0]

    def offsets(self):
        """int64[n], where all are placed."""
        return np.asarray(self.offset)


cdef class Stack:
    """The lowest place is filled first, by the block of minimum rank that fits between its walls.

    Stack(begin, end, size, rank, sections): begin, end : int64[n] half-open sections, `begin` ascending,
    size : int64[n], rank : int64[n] a permutation. A place that no block fits is skipped, up to its lower wall.
    """
    cdef const int64_t[:] begin, end, size
    cdef Py_ssize_t left
    cdef _Skyline skyline
    cdef _Waiting waiting
    cdef int64_t[:] offset

    def __init__(self, const int64_t[:] begin, const int64_t[:] end, const int64_t[:] size, const int64_t[:] rank,
                 Py_ssize_t sections):
        self.begin, self.end, self.size, self.left = begin, end, size, size.shape[0]
        self.skyline, self.waiting = _Skyline(), _Waiting()
        self.offset = np.zeros(self.left, np.int64)
        self.skyline.start(sections)
        self.waiting.start(begin, end, rank)

    def run(self, Py_ssize_t places):
        """Fill up to `places` more. Returns whether all blocks are placed."""
        cdef int64_t b, part
        with nogil:
            while self.left and places > 0:
                places -= 1
                part = self.skyline.lowest()
                b = self.waiting.take(self.skyline.parts[part].begin, self.skyline.parts[part].end)
                if b < 0:
                    self.skyline.lift(part)
                else:
                    self.offset[b] = self.skyline.put(part, self.begin[b], self.end[b], self.size[b])
                    self.left -= 1
        return self.left == 0

    def offsets(self):
        """int64[n], where all are placed."""
        return np.asarray(self.offset)
