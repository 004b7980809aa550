# distutils: language = c++
"""Orders that run every needed node once, by a beam search over lower sets."""

import numpy as np

from libcpp.algorithm cimport sort
from libcpp.vector cimport vector

include "_bitsets.pxi"

ctypedef long long int64


cdef struct Step:
    int64 peak                            # of the order so far
    int64 live                            # live bytes after it
    uint64_t hashed                       # of the set of nodes that have run
    int origin                            # the state that it extends
    int node


cdef bint _lower(const Step& a, const Step& b) noexcept nogil:
    if a.peak != b.peak:
        return a.peak < b.peak
    if a.live != b.live:
        return a.live < b.live
    if a.hashed != b.hashed:
        return a.hashed < b.hashed
    return a.node < b.node


def lowest_pass(const int64[::1] value_indptr, const int64[::1] read_indptr, const int[::1] read_indices,
                const int[::1] producer, const int64[::1] reader_indptr, const int[::1] readers,
                const unsigned char[::1] needed, const unsigned char[::1] output, const int64[::1] memory, const int64[::1] workspace,
                const int[::1] nodes, Py_ssize_t beam):
    """An order of the nodes with a low peak: after each step the `beam` lowest sets of executed nodes are kept.

    value_indptr, read_indptr : int64[n + 1], read_indices : int32[k], producer : int32[values], reader_indptr :
    int64[values + 1], readers : int32[k], needed : uint8[n], output : uint8[values], memory : int64[values],
    workspace : int64[n], nodes : int32[m] the needed ones, ascending; beam : 1 or more
    Returns int32[m].
    """
    cdef Py_ssize_t n = workspace.shape[0], m = nodes.shape[0], w = bit_words(n)
    cdef vector[uint64_t] done, after     # the states: sets of nodes, w words each
    cdef vector[int64] live, peak
    cdef vector[uint64_t] hashes
    cdef vector[Step] steps, kept
    cdef vector[int] origin, node         # of each kept state, step by step
    cdef vector[Py_ssize_t] begin
    cdef Py_ssize_t s, i, at, state, entry
    cdef Step step
    with nogil:
        done.assign(w, 0)
        live.push_back(0)
        peak.push_back(0)
        hashes.push_back(0)
        for at in range(m):
            steps.clear()
            for s in range(<Py_ssize_t>live.size()):
                for i in range(m):
                    if has_bit(&done[s * w], nodes[i]) or not _ready(&done[s * w], nodes[i], read_indptr, read_indices, producer):
                        continue
                    step.node, step.origin = nodes[i], <int>s
                    step.hashed = hashes[s] ^ random_word(nodes[i])
                    _run(&done[s * w], live[s], peak[s], value_indptr, read_indptr, read_indices, reader_indptr, readers,
                         needed, output, memory, workspace, step)
                    steps.push_back(step)
            sort(steps.begin(), steps.end(), &_lower)
            kept.clear()
            for step in steps:
                if <Py_ssize_t>kept.size() < beam and not _among(kept, step.hashed):
                    kept.push_back(step)
            after.clear()
            live.clear()
            peak.clear()
            hashes.clear()
            begin.push_back(origin.size())
            for step in kept:
                for i in range(w):
                    after.push_back(done[step.origin * w + i])
                set_bit(&after[after.size() - w], step.node)
                live.push_back(step.live)
                peak.push_back(step.peak)
                hashes.push_back(step.hashed)
                origin.push_back(step.origin)
                node.push_back(step.node)
            done.swap(after)
    order = np.empty(m, np.int32)
    cdef int[::1] out = order
    state = 0
    for at in range(m - 1, -1, -1):
        entry = begin[at] + state
        out[at] = node[entry]
        state = origin[entry]
    return order


cdef bint _among(vector[Step]& kept, uint64_t hashed) noexcept nogil:
    cdef Step other
    for other in kept:
        if other.hashed == hashed:
            return True
    return False


cdef bint _ready(const uint64_t* done, int v, const int64[::1] read_indptr, const int[::1] read_indices,
                 const int[::1] producer) noexcept nogil:
    cdef int64 j
    for j in range(read_indptr[v], read_indptr[v + 1]):
        if not has_bit(done, producer[read_indices[j]]):
            return False
    return True


cdef void _run(const uint64_t* done, int64 live, int64 peak, const int64[::1] value_indptr, const int64[::1] read_indptr,
               const int[::1] read_indices, const int64[::1] reader_indptr, const int[::1] readers,
               const unsigned char[::1] needed, const unsigned char[::1] output, const int64[::1] memory,
               const int64[::1] workspace, Step& step) noexcept nogil:
    """Live bytes during and after one more step."""
    cdef int v = step.node, x
    cdef int64 during = live + workspace[v], remaining = live, j, k
    cdef bint live_after
    for j in range(value_indptr[v], value_indptr[v + 1]):
        during += memory[j]
        live_after = output[j] != 0
        for k in range(reader_indptr[j], reader_indptr[j + 1]):
            live_after |= needed[readers[k]] != 0
        if live_after:
            remaining += memory[j]
    for j in range(read_indptr[v], read_indptr[v + 1]):
        x = read_indices[j]
        live_after = output[x] != 0
        for k in range(reader_indptr[x], reader_indptr[x + 1]):
            live_after |= needed[readers[k]] != 0 and readers[k] != v and not has_bit(done, readers[k])
        if not live_after:
            remaining -= memory[x]
    step.live = remaining
    step.peak = peak if peak > during else during
