# distutils: language = c++
"""Whether buffers that are needed at the same time overlap."""

import numpy as np

from cython.operator cimport dereference, predecrement
from libc.stdint cimport int64_t
from libcpp.map cimport map as ordered_map


def first_clash(const int64_t[:] begin, const int64_t[:] end, const int64_t[:] size, const int64_t[:] offset):
    """Two buffers that share a byte at a step, those of the earliest such step; (-1, -1) if there are none.

    begin, end : int64[k] half-open steps, size : int64[k] bytes, offset : int64[k] first byte

    Buffers needed at a step do not overlap, so a new one can only clash with its neighbours by address.
    """
    cdef Py_ssize_t k = begin.shape[0], at, gone = 0
    cdef int64_t i, j
    cdef const int64_t[:] begins = np.argsort(begin, kind="stable")
    cdef const int64_t[:] ends = np.argsort(end, kind="stable")
    cdef ordered_map[int64_t, int64_t] live  # offset -> buffer
    cdef ordered_map[int64_t, int64_t].iterator near
    for at in range(k):
        i = begins[at]
        while end[ends[gone]] <= begin[i]:
            if size[ends[gone]] > 0:
                live.erase(offset[ends[gone]])
            gone += 1
        if size[i] == 0:
            continue
        near = live.lower_bound(offset[i])
        if near != live.end():
            j = dereference(near).second
            if offset[j] < offset[i] + size[i]:
                return j, i
        if near != live.begin():
            predecrement(near)
            j = dereference(near).second
            if offset[j] + size[j] > offset[i]:
                return j, i
        live[offset[i]] = i
    return -1, -1
