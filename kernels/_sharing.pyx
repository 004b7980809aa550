# distutils: language = c++
"""Blocks that buffers share: values written in place, free lists, colours."""

import numpy as np

from cython.operator cimport dereference, predecrement
from libc.stdint cimport int32_t, int64_t
from libcpp.map cimport map as ordered_map
from libcpp.utility cimport pair
from libcpp.vector cimport vector


def written_over(const int32_t[:] order, const int64_t[:] instance_indptr, const int64_t[:] end,
                 const int64_t[:] value_indptr, const int64_t[:] memory, const unsigned char[:] output,
                 const int64_t[:] pair_indptr, const int64_t[:] output_value, const int64_t[:] read,
                 const unsigned char[:] demanded):
    """The instance that each instance is written over; the pairs of a node are tried in order.

    order : int32[m], instance_indptr : int64[m + 1], end : int64[instances], value_indptr : int64[n + 1],
    memory : int64[n_values], output : uint8[n_values], pair_indptr : int64[n + 1], output_value, read :
    int64[pairs] values that a node computes and reads, demanded : uint8[pairs]
    Returns (int64[instances] with -1 for none, step, pair): the first demanded pair that is impossible, -1 if none is.
    """
    cdef Py_ssize_t m = order.shape[0], step, j
    cdef int32_t v
    cdef int64_t x, i, under
    cdef bint pinned, possible
    written = np.full(end.shape[0], -1, np.int64)
    cdef int64_t[:] over = written
    cdef int64_t[:] newest = np.full(memory.shape[0], -1, np.int64)  # the instance that serves reads of a value
    cdef unsigned char[:] overwritten = np.zeros(end.shape[0], np.uint8)
    for step in range(m):
        v = order[step]
        for j in range(pair_indptr[v], pair_indptr[v + 1]):
            i = instance_indptr[step] + output_value[j] - value_indptr[v]
            under = newest[read[j]]
            pinned = output[output_value[j]] and newest[output_value[j]] < 0
            # the last reader of a value that is no output computes one of the same size that is read or an output
            possible = over[i] < 0 and not overwritten[under] and end[under] == step + 1 and not output[read[j]]
            possible = possible and memory[output_value[j]] == memory[read[j]]
            if demanded[j] and not possible:
                return written, step, j
            if possible and (demanded[j] or memory[output_value[j]] > 0 and (pinned or end[i] > step + 1)):
                over[i] = under
                overwritten[under] = True
        i = instance_indptr[step]
        for x in range(value_indptr[v], value_indptr[v + 1]):
            if not output[x] or newest[x] < 0:
                newest[x] = i
            i += 1
    return written, -1, -1


def shared(const int64_t[:] begin, const int64_t[:] end, const int64_t[:] size, const int64_t[:] over,
           const int64_t[:] begins, const int64_t[:] ends, int64_t match_range):
    """The block of each buffer, from a list of free blocks in order of size.

    begin, end : int64[k] half-open steps, size : int64[k] bytes, over : int64[k] -1 or the buffer written over,
    begins : int64[k] buffers in the order in which they request blocks, ends : in which they return them,
    match_range : a block of b bytes serves s bytes if s // match_range <= b <= s * match_range; 0: none does
    Returns (int64[k], int64[blocks] bytes in the end).
    """
    cdef Py_ssize_t k = begin.shape[0], at, gone = 0, n_ends = ends.shape[0]
    cdef int64_t i, j, request, capacity
    cdef vector[int64_t] length
    cdef pair[int64_t, int64_t] key  # bytes, then the order in which it was freed
    cdef ordered_map[pair[int64_t, int64_t], int64_t] free
    cdef ordered_map[pair[int64_t, int64_t], int64_t].iterator near
    blocks = np.empty(k, np.int64)
    cdef int64_t[:] block = blocks
    for at in range(k):
        i = begins[at]
        request = size[i]
        while gone < n_ends and end[ends[gone]] <= begin[i]:
            j = block[ends[gone]]
            key.first, key.second = length[j], gone
            free[key] = j
            gone += 1
        if over[i] >= 0:
            block[i] = block[over[i]]
            continue
        j = -1
        if match_range > 0:
            key.first, key.second = request, -1
            near = free.lower_bound(key)
            if near != free.end():
                capacity = dereference(near).first.first
                if capacity // match_range + (capacity % match_range > 0) <= request:
                    j = dereference(near).second
            if j < 0 and near != free.begin():
                predecrement(near)
                if dereference(near).first.first >= request // match_range:
                    j = dereference(near).second
        if j < 0:
            j = length.size()
            length.push_back(request)
        else:
            free.erase(near)
            length[j] = max(length[j], request)  # it grows
        block[i] = j
    lengths = np.empty(length.size(), np.int64)
    cdef int64_t[:] out = lengths
    for at in range(out.shape[0]):
        out[at] = length[at]
    return blocks, lengths


def coloured(const int64_t[::1] begin, const int64_t[::1] end):
    """The smallest colour of no earlier overlapping interval, for each interval in order.

    begin, end : int64[k] half-open
    Returns int64[k].
    """
    cdef Py_ssize_t k = begin.shape[0], i, j
    cdef int64_t first, last, c
    colours = np.empty(k, np.int64)
    cdef int64_t[::1] colour = colours
    cdef int64_t[::1] seen = np.full(k + 1, -1, np.int64)  # the last interval in conflict with each colour
    with nogil:
        for i in range(k):
            first, last = begin[i], end[i]
            for j in range(i):
                if begin[j] < last and first < end[j]:
                    seen[colour[j]] = i
            c = 0
            while seen[c] == i:
                c += 1
            colour[i] = c
    return colours
