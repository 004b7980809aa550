# distutils: language = c++
"""From decisions to an order: forward once, then the gradients, each preceded by what must be recomputed for it."""

import numpy as np

from libc.string cimport memcpy
from libcpp.vector cimport vector

ctypedef long long int64


cdef object _as_array(vector[int]& order):
    result = np.empty(order.size(), np.int32)
    cdef int[::1] out = result
    if order.size():
        memcpy(&out[0], order.data(), order.size() * sizeof(int))
    return result


def mirror(const unsigned char[::1] needed, const int[::1] forward_of, const int64[::1] read_indptr,
           const int[::1] read_indices, const int[::1] producer, const unsigned char[::1] output,
           const int64[::1] mirror_count):
    """The order of mirror counts: copy k of a node reads copy min(k, count) of its predecessors, gradients the last.

    needed : uint8[n], forward_of : int32[n] (-1 forward), read_indptr : int64[n + 1], read_indices : int32[k],
    producer : int32[n_values], output : uint8[n_values], mirror_count : int64[n]
    Returns int32[m].
    """
    cdef Py_ssize_t n = needed.shape[0], v, top
    cdef int64 j, k, copy
    cdef int u, x
    cdef bint descended
    cdef vector[int] order
    first_copy = np.zeros(n + 1, np.int64)
    np.cumsum(np.asarray(mirror_count) + 1, out=first_copy[1:])
    cdef int64[::1] base = first_copy
    cdef unsigned char[::1] done = np.zeros(first_copy[n], np.uint8)
    # the path of runs that wait for each other; ids decrease along it
    cdef int[::1] path_node = np.empty(n + 1, np.int32)
    cdef int64[::1] path_copy = np.empty(n + 1, np.int64)
    cdef int64[::1] path_read = np.empty(n + 1, np.int64)
    with nogil:
        for v in range(n):
            if needed[v] and forward_of[v] < 0:
                order.push_back(<int>v)
                done[base[v]] = 1
        for v in range(n):
            if not needed[v] or forward_of[v] < 0:
                continue
            # the gradient itself waits at the bottom of the path
            top = 0
            path_node[0] = <int>v
            path_copy[0] = -1
            path_read[0] = read_indptr[v]
            while top >= 0:
                descended = False
                k = path_copy[top]
                j = path_read[top]
                while j < read_indptr[path_node[top] + 1]:
                    x = read_indices[j]
                    j += 1
                    u = producer[x]
                    if output[x] or forward_of[u] >= 0:
                        continue
                    copy = mirror_count[u] if k < 0 or k > mirror_count[u] else k
                    if not done[base[u] + copy]:
                        path_read[top] = j
                        top += 1
                        path_node[top] = u
                        path_copy[top] = copy
                        path_read[top] = read_indptr[u]
                        descended = True
                        break
                if not descended:
                    u = path_node[top]
                    if top > 0:
                        done[base[u] + path_copy[top]] = 1
                    order.push_back(u)
                    top -= 1
    return _as_array(order)


def canonical(const unsigned char[::1] needed, const int[::1] forward_of, const int64[::1] read_indptr,
              const int[::1] read_indices, const int[::1] producer, const unsigned char[::1] output,
              const int[::1] block, const unsigned char[::1] kept, const unsigned char[::1] never_recomputed,
              const int[::1] co_input_from, int n_blocks, bint lazy):
    """The order of a chain of lower sets, block by block.

    needed, kept, never_recomputed : uint8[n] (forward nodes that are not recomputed in their own
    block; of these, those that never are), forward_of : int32[n], read_indptr : int64[n + 1], read_indices : int32[k],
    producer : int32[n_values], output : uint8[n_values], block : int32[n], 0 to n_blocks - 1 for all forward nodes,
    co_input_from : int32[n] the first block whose gradients may still read the node as a co-input
    Returns int32[m].
    """
    cdef Py_ssize_t n = needed.shape[0], v, top, i, left, place
    cdef int64 j
    cdef int u, x, b
    cdef bint descended
    cdef vector[int] order
    cdef vector[int] running                                     # forward nodes in memory that are to be dropped
    cdef vector[vector[int]] forward = vector[vector[int]](n_blocks)
    cdef vector[vector[int]] backward = vector[vector[int]](n_blocks)
    cdef unsigned char[::1] in_memory = np.array(kept, np.uint8)   # gradients too, once they have run
    cdef int[::1] path_node = np.empty(n + 1, np.int32)
    cdef int64[::1] path_read = np.empty(n + 1, np.int64)
    with nogil:
        for v in range(n):
            if needed[v]:
                if forward_of[v] < 0:
                    forward[block[v]].push_back(<int>v)
                else:
                    backward[block[forward_of[v]]].push_back(<int>v)
        for b in range(n_blocks):
            order.insert(order.end(), forward[b].begin(), forward[b].end())
        for b in range(n_blocks - 1, -1, -1):
            for place in range((0 if lazy else <Py_ssize_t>forward[b].size()) + <Py_ssize_t>backward[b].size()):
                if not lazy and place < <Py_ssize_t>forward[b].size():
                    v = forward[b][place]
                    if in_memory[v]:
                        continue
                else:
                    v = backward[b][place - (0 if lazy else <Py_ssize_t>forward[b].size())]
                    if in_memory[v]:                               # computed before, for the sum of a tied parameter
                        continue
                top = 0
                path_node[0] = <int>v
                path_read[0] = read_indptr[v]
                while top >= 0:
                    descended = False
                    j = path_read[top]
                    while j < read_indptr[path_node[top] + 1]:
                        x = read_indices[j]
                        j += 1
                        u = producer[x]
                        if in_memory[u] or (output[x] and forward_of[u] < 0):
                            continue
                        path_read[top] = j
                        top += 1
                        path_node[top] = u
                        path_read[top] = read_indptr[u]
                        descended = True
                        break
                    if not descended:
                        u = path_node[top]
                        order.push_back(u)
                        in_memory[u] = 1
                        if forward_of[u] < 0:
                            running.push_back(u)
                        top -= 1
            if not lazy:                                         # as in the paper: kept values are dropped with their block
                for i in range(<Py_ssize_t>forward[b].size()):
                    if kept[forward[b][i]] and not never_recomputed[forward[b][i]]:
                        running.push_back(forward[b][i])
            left = 0
            for i in range(<Py_ssize_t>running.size()):
                u = running[i]
                if block[u] > b - 1 and co_input_from[u] <= b - 1:
                    running[left] = u
                    left += 1
                else:
                    in_memory[u] = 0
            running.resize(left)
    return _as_array(order)
