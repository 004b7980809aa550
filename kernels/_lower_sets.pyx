"""Chains of lower sets as rows of bits."""

import numpy as np

include "_bitsets.pxi"


def pack(const unsigned char[:, ::1] members):
    """Rows of flags as rows of words: uint64[k, ceil(n / 64)]."""
    cdef Py_ssize_t k = members.shape[0], n = members.shape[1], i, v
    words = np.zeros((k, bit_words(n)), np.uint64)
    cdef uint64_t[:, ::1] out = words
    with nogil:
        for i in range(k):
            for v in range(n):
                if members[i, v]:
                    set_bit(&out[i, 0], v)
    return words


def first_not_growing(const uint64_t[:, ::1] words):
    """The first row that does not hold the row before it and one node more, or -1."""
    cdef Py_ssize_t k = words.shape[0], w = words.shape[1], i
    for i in range(k):
        if i == 0:
            if count_bits(&words[0, 0], w) == 0:
                return 0
        elif not is_subset(&words[i - 1, 0], &words[i, 0], w):
            return i
        elif count_bits(&words[i, 0], w) == count_bits(&words[i - 1, 0], w):
            return i
    return -1


def blocks(const uint64_t[:, ::1] words, Py_ssize_t n_nodes):
    """The first row that holds each node: int32[n_nodes], -1 for nodes in none."""
    cdef Py_ssize_t k = words.shape[0], w = words.shape[1], i, v
    result = np.full(n_nodes, -1, np.int32)
    cdef int[::1] out = result
    with nogil:
        for i in range(k - 1, -1, -1):
            v = next_bit(&words[i, 0], w, 0)
            while 0 <= v < n_nodes:
                out[v] = <int>i
                v = next_bit(&words[i, 0], w, v + 1)
    return result
