# distutils: language = c++
"""Parts of a graph, and the paper's own choice of what is not recomputed."""

import numpy as np

from libcpp.vector cimport vector

ctypedef long long int64


def components(int n, const int[::1] tail, const int[::1] head):
    """The lowest vertex that each vertex is connected with, in either direction of the edges.

    tail, head : int32[m] vertices 0 to n - 1
    Returns int32[n].
    """
    cdef Py_ssize_t i
    cdef int v, w
    lowest = np.arange(n, dtype=np.int32)
    cdef int[::1] above = lowest
    with nogil:
        for i in range(tail.shape[0]):
            v, w = _top(above, tail[i]), _top(above, head[i])
            above[max(v, w)] = min(v, w)
        for v in range(n):
            above[v] = _top(above, v)
    return lowest


cdef int _top(int[::1] above, int v) noexcept nogil:
    while above[v] != v:
        above[v] = above[above[v]]
        v = above[v]
    return v


cdef class _Region:
    """The nodes that run before a heavy one, as far as the next heavy ones, and what they read and compute.

    Nodes and values are those of the forward part; `inside` and `counted` hold the number of the look that saw them.
    """
    cdef const int64[::1] value_indptr, read_indptr, reader_indptr, memory
    cdef const int[::1] read_indices, reader_indices, producer
    cdef const unsigned char[::1] cheap
    cdef vector[int] nodes, inside
    cdef vector[int64] allocated, released
    cdef int number
    cdef int64 look

    cdef void gather(self, int root) noexcept nogil:
        """Go back from a root to the heavy nodes, which stay outside."""
        cdef size_t done = 0
        cdef int64 j
        cdef int u
        self.number += 1
        self.nodes.clear()
        self.nodes.push_back(root)
        self.inside[root] = self.number
        while done < self.nodes.size():
            for j in range(self.read_indptr[self.nodes[done]], self.read_indptr[self.nodes[done] + 1]):
                u = self.producer[self.read_indices[j]]
                if self.cheap[u] and self.inside[u] != self.number:
                    self.inside[u] = self.number
                    self.nodes.push_back(u)
            done += 1

    cdef int64 gain(self, int s, const unsigned char[::1] read_back) noexcept nogil:
        """Bytes released less bytes allocated if a node is not recomputed: lines 21 to 29."""
        cdef int64 total = 0, i, j, k
        cdef int n, x
        self.look += 1
        for i in range(self.read_indptr[s], self.read_indptr[s + 1]):
            x = self.read_indices[i]
            if read_back[x]:
                total -= self.first_time(self.allocated, x)
            for j in range(self.reader_indptr[x], self.reader_indptr[x + 1]):
                n = self.reader_indices[j]
                if self.inside[n] != self.number:
                    continue
                for k in range(self.value_indptr[n], self.value_indptr[n + 1]):
                    if read_back[k] or self.reader_indptr[k] < self.reader_indptr[k + 1]:
                        total -= self.first_time(self.allocated, <int>k)
                for k in range(self.read_indptr[n], self.read_indptr[n + 1]):
                    total += self.first_time(self.released, self.read_indices[k])
        return total

    cdef int64 first_time(self, vector[int64]& seen, int x) noexcept nogil:
        """The bytes of a value, if this look has not counted it among those."""
        if seen[x] == self.look:
            return 0
        seen[x] = self.look
        return self.memory[x]


def removed(const int64[::1] value_indptr, const int64[::1] read_indptr, const int[::1] read_indices,
            const int64[::1] reader_indptr, const int[::1] reader_indices, const int[::1] producer,
            const int64[::1] memory, const unsigned char[::1] cheap, const unsigned char[::1] read_back,
            const unsigned char[::1] forced, const int[::1] roots):
    """Cheap nodes whose values algorithm 1 of echo2020 stashes, each region evaluated by itself and exactly as printed.

    value_indptr : int64[n + 1], read_indptr : int64[n + 1], read_indices : int32[k] reads of forward nodes,
    reader_indptr : int64[n_values + 1], reader_indices : int32[k] the same by value, producer : int32[n_values],
    memory : int64[n_values], cheap : uint8[n], read_back : uint8[n_values] whether gradients read it,
    forced : uint8[n] must be recomputed, roots : int32[r]
    Returns uint8[n].
    """
    cdef Py_ssize_t i, j
    cdef int s
    stashed = np.zeros(cheap.shape[0], np.uint8)
    cdef unsigned char[::1] out = stashed
    cdef _Region region = _Region()
    region.value_indptr, region.read_indptr, region.reader_indptr = value_indptr, read_indptr, reader_indptr
    region.read_indices, region.reader_indices, region.producer = read_indices, reader_indices, producer
    region.memory, region.cheap = memory, cheap
    with nogil:
        region.inside.assign(cheap.shape[0], 0)
        region.allocated.assign(memory.shape[0], 0)
        region.released.assign(memory.shape[0], 0)
        for i in range(roots.shape[0]):
            region.gather(roots[i])
            for j in range(<Py_ssize_t>region.nodes.size()):
                s = region.nodes[j]
                if cheap[s] and not forced[s] and not out[s] and region.gain(s, read_back) >= 0:
                    out[s] = 1
    return stashed
