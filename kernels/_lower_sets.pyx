"""Chains of lower sets as rows of bits."""

import numpy as np

include "_bitsets.pxi"

ctypedef long long int64


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


cdef enum:
    no_forward_node = 1
    left_out = 2
    not_lower = 3

NO_FORWARD_NODE, LEFT_OUT, NOT_LOWER = no_forward_node, left_out, not_lower


def on_graph(const uint64_t[:, ::1] words, const int64[::1] pred_indptr, const int[::1] pred,
             const unsigned char[::1] forward, const unsigned char[::1] needed):
    """What a chain makes of the nodes of a graph.

    words : uint64[k, w], pred_indptr : int64[n + 1], pred : int32[edges], forward, needed : uint8[n]
    Returns (law, node, source, block int32[n]: the first row that holds each node, -1 for none, kept uint8[n]: nodes
    on a boundary, successor_from int32[n], co_input_from int32[n]: the least row of whose set the node is a
    successor, or is read beside a member, k for none); law 0 if it is a chain of lower sets with all that is needed.
    """
    cdef Py_ssize_t k = words.shape[0], w = words.shape[1], n = forward.shape[0], i, v
    cdef int64 j
    cdef int u, law = 0
    cdef Py_ssize_t node = -1, source = -1
    block, kept = np.full(n, -1, np.int32), np.zeros(n, np.uint8)
    successor_from, co_input_from = np.full(n, k, np.int32), np.full(n, k, np.int32)
    cdef int[::1] home = block, successor = successor_from, co_input = co_input_from
    cdef unsigned char[::1] on_boundary = kept
    with nogil:
        for i in range(k - 1, -1, -1):
            v = next_bit(&words[i, 0], w, 0)
            while 0 <= v < n:
                home[v] = <int>i
                v = next_bit(&words[i, 0], w, v + 1)
        for v in range(n):
            if home[v] >= 0 and not forward[v]:
                law, node = no_forward_node, v
                break
        if not law:
            for v in range(n):
                if home[v] < 0 and forward[v] and needed[v]:
                    law, node = left_out, v
                    break
        if not law:
            for v in range(n):
                if home[v] < 0 or law:
                    continue
                for j in range(pred_indptr[v], pred_indptr[v + 1]):
                    u = pred[j]
                    if home[u] < 0 or home[u] > home[v]:
                        law, node, source = not_lower, v, u
                        break
                    if home[u] < home[v]:
                        on_boundary[u] = 1
                    successor[v] = min(successor[v], home[u])
                for j in range(pred_indptr[v], pred_indptr[v + 1]):
                    co_input[pred[j]] = min(co_input[pred[j]], successor[v])
    return law, node, source, block, kept, successor_from, co_input_from
