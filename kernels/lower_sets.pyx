# distutils: language = c++
"""Lower sets of a graph: chains as rows of bits, all lower sets, those of single nodes, and their figures."""

import numpy as np

from libc.stdint cimport uint64_t
from libcpp.vector cimport vector
from remat_algos.kernels.bitsets cimport bit_words, clear_bit, count_bits, has_bit, is_subset, next_bit
from remat_algos.kernels.bitsets cimport random_word, set_bit
from remat_algos.kernels.growing cimport assign
from remat_algos.kernels.types cimport Flags, Int32s, Int64s, int64_t


def pack_rows(const unsigned char[:, ::1] members):
    """Pack rows of flags into rows of words: uint64[k, ceil(n / 64)].

    Cost: O(k n) time and memory.
    """
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
    """The first row that is not a proper superset of the previous row, or -1.

    Cost: O(k w) time.
    """
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


def chain_on_graph(const uint64_t[:, ::1] words, *, Int64s pred_indptr, Int32s pred, Flags forward, Flags needed):
    """The block, boundary and crossings of each node in a chain.

    words : uint64[k, w], pred_indptr : int64[n + 1], pred : int32[edges], forward, needed : uint8[n]
    Returns (law, node, source, block int32[n]: the first row that contains each node, -1 for none, kept uint8[n]: nodes
    on a boundary, successor_from int32[n], co_input_from int32[n]: the first row in whose set the node is a successor,
    or a co-input, k for none); law is 0 if this is a chain of lower sets with all needed nodes.
    Cost: O(k n + edges) time at most, and a read of each word of each set; O(n) memory.
    """
    cdef Py_ssize_t k = words.shape[0], w = words.shape[1], n = forward.shape[0], i, v
    cdef int64_t j
    cdef int u, law = 0
    cdef Py_ssize_t node = -1, source = -1
    block, kept = np.full(n, -1, np.int32), np.zeros(n, np.uint8)
    successor_from, co_input_from = np.full(n, k, np.int32), np.full(n, k, np.int32)
    cdef int[::1] home = block, successor = successor_from, co_input = co_input_from
    cdef unsigned char[::1] on_boundary = kept
    with nogil:
        for i in range(k - 1 if w else -1, -1, -1):
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


def all_lower_sets(Int64s pred_indptr, Int32s pred, Int64s succ_indptr, Int32s succ,
                   int64_t cap):
    """All lower sets by size, and for each the sets with one more node.

    pred_indptr, succ_indptr : int64[n + 1], pred, succ : int32[edges] predecessors and successors in a graph with
    topological ids; cap : maximum number of sets
    Returns (words uint64[k, w], cover_indptr int64[k + 1], cover int32[c]); above the cap the sets generated, with None
    for the covers.
    Cost: O(w) time for each of the c covers and the reads of the successors for each set, O(k w + c) memory; k may be
    exponential in the width of the graph, so give a cap.
    """
    cdef Py_ssize_t n = pred_indptr.shape[0] - 1, w = max(1, bit_words(n)), i, v, u
    cdef int64_t current = 0, count = 1, layer_end = 1, slot, place, j
    cdef uint64_t hashed
    cdef bint ready
    cdef vector[uint64_t] words, row, room, hashes
    # Nodes that may be added, in this layer and the next.
    cdef vector[uint64_t] free, next_free
    cdef vector[int64_t] indptr
    cdef vector[int] cover
    cdef _Layer layer = _Layer()
    with nogil:
        assign(words, w, 0)
        assign(free, w, 0)
        assign(row, w, 0)
        assign(room, w, 0)
        hashes.push_back(0)
        indptr.push_back(0)
        for v in range(n):
            if pred_indptr[v] == pred_indptr[v + 1]:
                set_bit(&free[0], v)
        layer.begin = 1
        place = 0                                              # position in the layer
        while current < count and count <= cap:
            v = next_bit(&free[place * w], w, 0)
            while v >= 0:
                for i in range(w):
                    row[i] = words[current * w + i]
                set_bit(&row[0], v)
                hashed = hashes[current] ^ random_word(v)
                slot = layer.find(&row[0], hashed, words, hashes, w)
                if layer.slots[slot] >= layer.begin:
                    cover.push_back(<int>layer.slots[slot])
                else:
                    layer.slots[slot] = count
                    cover.push_back(<int>count)
                    hashes.push_back(hashed)
                    words.insert(words.end(), row.begin(), row.end())
                    for i in range(w):
                        room[i] = free[place * w + i]
                    clear_bit(&room[0], v)
                    for j in range(succ_indptr[v], succ_indptr[v + 1]):
                        u = succ[j]
                        ready = True
                        for i in range(pred_indptr[u], pred_indptr[u + 1]):
                            if not has_bit(&row[0], pred[i]):
                                ready = False
                                break
                        if ready:
                            set_bit(&room[0], u)
                    next_free.insert(next_free.end(), room.begin(), room.end())
                    count += 1
                    layer.grow(count, hashes)
                v = next_bit(&free[place * w], w, v + 1)
            indptr.push_back(cover.size())
            current += 1
            place += 1
            if current == layer_end:
                free.swap(next_free)
                next_free.clear()
                layer_end = count
                layer.begin = count
                place = 0
    matrix = _matrix(words, w)
    if current < count:
        return matrix, None, None
    cover_indptr = np.empty(indptr.size(), np.int64)
    covers = np.empty(cover.size(), np.int32)
    cdef int64_t[::1] out_indptr = cover_indptr
    cdef int[::1] out_cover = covers
    for i in range(<Py_ssize_t>indptr.size()):
        out_indptr[i] = indptr[i]
    for i in range(<Py_ssize_t>cover.size()):
        out_cover[i] = cover[i]
    return matrix, cover_indptr, covers


def closure_rows(Int64s indptr, Int32s indices, Int64s chosen, bint upwards):
    """Each chosen node with its ancestors or, upwards, with its descendants: uint64[c, w].

    indptr : int64[n + 1], indices : int32[edges] the predecessors of each node or, upwards, the successors,
    chosen : int64[c]
    Cost: O(c (n + edges)) time, O(c w) memory.
    """
    cdef Py_ssize_t n = indptr.shape[0] - 1, w = max(1, bit_words(n)), i, step, v
    cdef int64_t j
    words = np.zeros((chosen.shape[0], w), np.uint64)
    cdef uint64_t[:, ::1] out = words
    with nogil:
        for i in range(chosen.shape[0]):
            set_bit(&out[i, 0], chosen[i])
            # Reached nodes come later in this order.
            for step in range(n):
                v = step if upwards else n - 1 - step
                if has_bit(&out[i, 0], v):
                    for j in range(indptr[v], indptr[v + 1]):
                        set_bit(&out[i, 0], indices[j])
    return words


def lower_set_figures(const uint64_t[:, ::1] words, *, Int64s pred_indptr, Int32s pred, Int64s succ_indptr, Int32s succ,
                      Int64s memory, Int64s compute):
    """The terms of the formulas for each lower set.

    words : uint64[k, w], pred_indptr, succ_indptr : int64[n + 1], pred, succ : int32[edges], memory, compute : int64[n]
    Returns (M int64[k], T int64[k], beside int64[k]: M(d+(L) - L) + M(d-(d+(L)) - L), boundary_indptr int64[k + 1],
    boundary int32[b]).
    Cost: O(k (n + edges)) time and O(n + b) memory.
    """
    cdef Py_ssize_t k = words.shape[0], n = memory.shape[0], w = words.shape[1], i, v
    cdef int64_t j, jj
    cdef int u, x
    cdef bint outside
    cdef const uint64_t* row
    cdef vector[int] boundary
    set_memory = np.zeros(k, np.int64)
    cost = np.zeros(k, np.int64)
    beside = np.zeros(k, np.int64)
    indptr = np.zeros(k + 1, np.int64)
    cdef int64_t[::1] out_memory = set_memory, out_cost = cost, out_beside = beside, out_indptr = indptr
    # By node: the last set L that counted it in d+(L) - L, and in d-(d+(L)) - L.
    cdef int64_t[::1] reader = np.full(n, -1, np.int64)
    cdef int64_t[::1] source = np.full(n, -1, np.int64)
    with nogil:
        for i in range(k):
            row = &words[i, 0]
            v = next_bit(row, w, 0)
            while v >= 0:
                out_memory[i] += memory[v]
                out_cost[i] += compute[v]
                outside = False
                for j in range(succ_indptr[v], succ_indptr[v + 1]):
                    u = succ[j]
                    if has_bit(row, u):
                        continue
                    outside = True
                    if reader[u] != i:
                        reader[u] = i
                        out_beside[i] += memory[u]
                        for jj in range(pred_indptr[u], pred_indptr[u + 1]):
                            x = pred[jj]
                            if source[x] != i and not has_bit(row, x):
                                source[x] = i
                                out_beside[i] += memory[x]
                if outside:
                    boundary.push_back(<int>v)
                v = next_bit(row, w, v + 1)
            out_indptr[i + 1] = boundary.size()
    members = np.empty(boundary.size(), np.int32)
    cdef int[::1] out_boundary = members
    for i in range(<Py_ssize_t>boundary.size()):
        out_boundary[i] = boundary[i]
    return set_memory, cost, beside, indptr, members


def superset_rows(const uint64_t[:, ::1] words):
    """The later rows that are supersets of each row: (indptr int64[k + 1], target int32[p]).

    Cost: O(k^2 w) time, O(k + p) memory, where p may be k^2 / 2: for some thousand sets.
    """
    cdef Py_ssize_t k = words.shape[0], w = words.shape[1], i, j
    cdef vector[int] supersets
    indptr = np.zeros(k + 1, np.int64)
    cdef int64_t[::1] out_indptr = indptr
    with nogil:
        for i in range(k):
            for j in range(i + 1, k):
                if is_subset(&words[i, 0], &words[j, 0], w):
                    supersets.push_back(<int>j)
            out_indptr[i + 1] = supersets.size()
    target = np.empty(supersets.size(), np.int32)
    cdef int[::1] out_target = target
    for i in range(<Py_ssize_t>supersets.size()):
        out_target[i] = supersets[i]
    return indptr, target


cdef class _Layer:
    """Hash table of the sets of one size, with linear probing.

    A slot with a set of an earlier layer counts as empty, so the table need not be cleared between layers.
    """
    cdef vector[int64_t] slots
    cdef uint64_t mask
    cdef int64_t begin                      # first set of the layer

    def __cinit__(self):
        assign(self.slots, 64, -1)
        self.mask = 63
        self.begin = 0

    cdef int64_t find(self, const uint64_t* row, uint64_t hashed, const vector[uint64_t]& words,
                    const vector[uint64_t]& hashes, Py_ssize_t w) noexcept nogil:
        """The slot that contains the set, or the empty slot for it."""
        cdef uint64_t at = hashed & self.mask
        cdef int64_t stored
        cdef Py_ssize_t i
        while True:
            stored = self.slots[at]
            if stored < self.begin:
                return at
            if hashes[stored] == hashed:
                for i in range(w):
                    if words[stored * w + i] != row[i]:
                        break
                else:
                    return at
            at = (at + 1) & self.mask

    cdef int grow(self, int64_t count, const vector[uint64_t]& hashes) except -1 nogil:
        """Make room for twice as many sets as begin .. count - 1."""
        cdef int64_t i
        cdef uint64_t at
        if <uint64_t>(2 * (count - self.begin)) <= self.mask:
            return 0
        while self.mask + 1 < <uint64_t>(4 * (count - self.begin)):
            self.mask = 2 * self.mask + 1
        assign(self.slots, self.mask + 1, -1)
        for i in range(self.begin, count):
            at = hashes[i] & self.mask
            while self.slots[at] >= self.begin:
                at = (at + 1) & self.mask
            self.slots[at] = i


cdef object _matrix(const vector[uint64_t]& flat, Py_ssize_t w):
    cdef Py_ssize_t i
    result = np.empty(flat.size(), np.uint64)
    cdef uint64_t[::1] out = result
    for i in range(<Py_ssize_t>flat.size()):
        out[i] = flat[i]
    return result.reshape(-1, w)
