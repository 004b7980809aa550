# distutils: language = c++
"""Loops over a graph's arrays: checks, transposes, orders."""

import numpy as np

from libcpp.queue cimport priority_queue

ctypedef long long int64


def check_reads(const int64[::1] read_indptr, const int[::1] read_indices, const int[::1] producer):
    """The first read that breaks a rule.

    read_indptr : int64[n + 1], read_indices : int32[k], producer : int32[n_values]
    Returns (code, node, value): 0 none, 1 no such value, 2 a value twice, 3 a value of the node itself or a later one.
    """
    cdef Py_ssize_t n = read_indptr.shape[0] - 1, v, j
    cdef int x, n_values = producer.shape[0]
    cdef int[::1] reader = np.full(n_values, -1, np.int32)
    for v in range(n):
        for j in range(read_indptr[v], read_indptr[v + 1]):
            x = read_indices[j]
            if x < 0 or x >= n_values:
                return 1, v, x
            if reader[x] == v:
                return 2, v, x
            if producer[x] >= v:
                return 3, v, x
            reader[x] = <int>v
    return 0, -1, -1


def transpose(const int64[::1] indptr, const int[::1] indices, Py_ssize_t n_columns):
    """Rows that contain each column, ascending: (int64[n_columns + 1], int32[k])."""
    cdef Py_ssize_t n = indptr.shape[0] - 1, v, j
    cdef int x
    reverse_indptr = np.zeros(n_columns + 1, np.int64)
    reverse_indices = np.empty(indices.shape[0], np.int32)
    cdef int64[::1] at = reverse_indptr
    cdef int[::1] out = reverse_indices
    with nogil:
        for j in range(indices.shape[0]):
            at[indices[j] + 1] += 1
        for j in range(n_columns):
            at[j + 1] += at[j]
    cdef int64[::1] free = reverse_indptr[:n_columns].copy()
    with nogil:
        for v in range(n):
            for j in range(indptr[v], indptr[v + 1]):
                x = indices[j]
                out[free[x]] = <int>v
                free[x] += 1
    return reverse_indptr, reverse_indices


def predecessors(const int64[::1] read_indptr, const int[::1] read_indices, const int[::1] producer):
    """Distinct nodes whose values each node reads, in order of first read: (int64[n + 1], int32[k])."""
    cdef Py_ssize_t n = read_indptr.shape[0] - 1, v, j, filled = 0
    cdef int u
    pred_indptr = np.zeros(n + 1, np.int64)
    pred_indices = np.empty(read_indices.shape[0], np.int32)
    cdef int64[::1] indptr = pred_indptr
    cdef int[::1] out = pred_indices
    cdef int[::1] reader = np.full(n, -1, np.int32)
    with nogil:
        for v in range(n):
            for j in range(read_indptr[v], read_indptr[v + 1]):
                u = producer[read_indices[j]]
                if reader[u] != v:
                    reader[u] = <int>v
                    out[filled] = u
                    filled += 1
            indptr[v + 1] = filled
    return pred_indptr, pred_indices[:filled].copy()


def needed(const int64[::1] value_indptr, const int64[::1] read_indptr, const int[::1] read_indices,
           const int[::1] producer, const unsigned char[::1] output):
    """Flags of the nodes that an output depends on: uint8[n]."""
    cdef Py_ssize_t n = read_indptr.shape[0] - 1, v, j
    flags = np.zeros(n, np.uint8)
    cdef unsigned char[::1] out = flags
    with nogil:
        for v in range(n - 1, -1, -1):
            for j in range(value_indptr[v], value_indptr[v + 1]):
                if output[j]:
                    out[v] = 1
            if out[v]:
                for j in range(read_indptr[v], read_indptr[v + 1]):
                    out[producer[read_indices[j]]] = 1
    return flags


def depth(const int64[::1] read_indptr, const int[::1] read_indices, const int[::1] producer):
    """Nodes on the longest path that ends in each node: int32[n]."""
    cdef Py_ssize_t n = read_indptr.shape[0] - 1, v, j
    cdef int u
    result = np.ones(n, np.int32)
    cdef int[::1] out = result
    with nogil:
        for v in range(n):
            for j in range(read_indptr[v], read_indptr[v + 1]):
                u = producer[read_indices[j]]
                if out[u] >= out[v]:
                    out[v] = out[u] + 1
    return result


def topological_order(const int64[::1] succ_indptr, const int[::1] succ_indices):
    """Nodes in topological order, smallest id first; shorter than n where there is a cycle: int32[<= n]."""
    cdef Py_ssize_t n = succ_indptr.shape[0] - 1, v, j, filled = 0
    cdef int w
    order = np.empty(n, np.int32)
    cdef int[::1] out = order
    cdef int[::1] waiting = np.zeros(n, np.int32)
    cdef priority_queue[int] ready
    with nogil:
        for j in range(succ_indices.shape[0]):
            waiting[succ_indices[j]] += 1
        for v in range(n):
            if waiting[v] == 0:
                ready.push(-<int>v)
        while not ready.empty():
            v = -ready.top()
            ready.pop()
            out[filled] = <int>v
            filled += 1
            for j in range(succ_indptr[v], succ_indptr[v + 1]):
                w = succ_indices[j]
                waiting[w] -= 1
                if waiting[w] == 0:
                    ready.push(-w)
    return order[:filled].copy()
