# distutils: language = c++
"""The nodes of a backward part: their order, and what each of them reads.

A target is a value or parameter that a gradient belongs to: ids below n_values are values, the others parameters.
"""

import numpy as np

ctypedef long long int64


def order(const int64[::1] value_indptr, const int64[::1] target_indptr, const int[::1] target_indices,
          const unsigned char[::1] seed):
    """Readers from the last to the first, the targets of each in order; a seed is the first node of its target.

    value_indptr, target_indptr : int64[n + 1], target_indices : int32[t], seed : uint8[n_targets] (values only)
    Returns (target, reader): int32[g] each; reader is -1 for a seed. Nodes whose values lead to no seed have none.
    """
    cdef Py_ssize_t n = value_indptr.shape[0] - 1, v, j, filled = 0, n_max = target_indices.shape[0]
    cdef int x
    cdef bint leads
    for j in range(seed.shape[0]):
        n_max += seed[j]
    targets, readers = np.empty(n_max, np.int32), np.empty(n_max, np.int32)
    cdef int[::1] target = targets, reader = readers
    cdef unsigned char[::1] begun = np.zeros(seed.shape[0], np.uint8)
    with nogil:
        for v in range(n - 1, -1, -1):
            leads = False
            for j in range(value_indptr[v], value_indptr[v + 1]):
                if seed[j] and not begun[j]:  # it has no reader, or no gradient of a reader leads to a seed
                    target[filled], reader[filled], begun[j] = <int>j, -1, 1
                    filled += 1
                leads = leads or begun[j]
            if not leads:
                continue
            for j in range(target_indptr[v], target_indptr[v + 1]):
                x = target_indices[j]
                if seed[x] and not begun[x]:
                    target[filled], reader[filled] = x, -1
                    filled += 1
                target[filled], reader[filled], begun[x] = x, <int>v, 1
                filled += 1
    return targets[:filled].copy(), readers[:filled].copy()


def reads(const int[::1] target, const int[::1] reader, const int64[::1] value_indptr,
          const int64[::1] saved_indptr, const int[::1] saved_indices, Py_ssize_t n_targets):
    """What gradients read: gradients of the values of their reader, what it saves, the sum so far; a seed reads its value.

    target, reader : int32[g] (as `order` gives them), value_indptr, saved_indptr : int64[n + 1],
    saved_indices : int32[s] (values), n_targets : all values and parameters
    Returns (int64[g + 1], int32[k], last): gradient i is value n_values + i; last : int32[n_targets], the gradient
    that is the complete sum of each target, -1 where there is none.
    """
    cdef Py_ssize_t size = target.shape[0], i, j, filled = 0
    cdef int n_values = <int>value_indptr[value_indptr.shape[0] - 1]
    cdef int w
    read_indptr, whole = np.zeros(size + 1, np.int64), np.full(n_targets, -1, np.int32)
    cdef int64[::1] indptr = read_indptr
    cdef int[::1] last = whole
    with nogil:
        for i in range(size):
            w = reader[i]
            indptr[i + 1] = indptr[i] + 1
            if w >= 0:
                indptr[i + 1] += saved_indptr[w + 1] - saved_indptr[w] - (last[target[i]] < 0)
                for j in range(value_indptr[w], value_indptr[w + 1]):
                    indptr[i + 1] += last[j] >= 0
            last[target[i]] = <int>i
    read_indices = np.empty(indptr[size], np.int32)
    cdef int[::1] out = read_indices
    last[:] = -1
    with nogil:
        for i in range(size):
            w = reader[i]
            if w < 0:
                out[filled] = target[i]
                filled += 1
            else:
                for j in range(value_indptr[w], value_indptr[w + 1]):
                    if last[j] >= 0:
                        out[filled] = n_values + last[j]
                        filled += 1
                for j in range(saved_indptr[w], saved_indptr[w + 1]):
                    out[filled] = saved_indices[j]
                    filled += 1
                if last[target[i]] >= 0:
                    out[filled] = n_values + last[target[i]]
                    filled += 1
            last[target[i]] = <int>i
    return read_indptr, read_indices, whole
