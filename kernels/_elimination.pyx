# distutils: language = c++
"""Elimination orders: a vertex leaves, and its neighbours become a clique."""

import numpy as np

from libc.math cimport sqrt
from libcpp.pair cimport pair
from libcpp.queue cimport priority_queue

include "_bitsets.pxi"
include "_adjacency.pxi"
include "_eliminator.pxi"
include "_matrix.pxi"

ctypedef pair[int64, int64] Key           # of a vertex, the greatest first; both entries at most 0

cdef enum:
    by_fill = 0
    by_degree = 1
    by_ratio = 2
    by_steep_ratio = 3
    by_density = 4

FILL, DEGREE, RATIO, STEEP_RATIO, DENSITY = by_fill, by_degree, by_ratio, by_steep_ratio, by_density

cdef enum:
    going_on = 0
    done = 1
    too_wide = 2

GOING_ON, DONE, TOO_WIDE = going_on, done, too_wide


cdef class Run:
    """The elimination of a graph, always of the vertex with the minimum key.

    indptr : int64[n + 1], indices : int32[2 m], rank : int32[n] a permutation for ties, rule : one of the above,
    tie_by_degree : ties go to the minimum degree, then to the rank, below : the width from which on it is given up
    """
    cdef _Eliminator graph
    cdef _Matrix matrix
    cdef int rule, below
    cdef bint tie_by_degree
    cdef const int[::1] rank
    cdef vector[int] ranked               # vertex of each rank
    cdef vector[Key] queued               # the best key of each vertex that is in the queue, never worse than its own
    cdef priority_queue[Key] queue

    def __init__(self, const int64[::1] indptr, const int[::1] indices, const int[::1] rank, int rule,
                 bint tie_by_degree, int below):
        cdef int v
        cdef Py_ssize_t n = rank.shape[0]
        self.rank, self.rule, self.tie_by_degree, self.below = rank, rule, tie_by_degree, below
        self.graph = _Eliminator()
        self.ranked.resize(n)
        self.queued.resize(n)
        with nogil:
            self.graph.load(indptr, indices)
            self.graph.start(rule != by_degree)
            for v in range(<int>n):
                self.ranked[rank[v]] = v
                self.queued[v] = self.key(self.graph.fill[v], self.graph.degree[v], rank[v])
                self.queue.push(self.queued[v])

    cdef Key key(self, int64 fill, int degree, int rank) noexcept nogil:
        cdef Key key
        cdef double scaled = 1048576.0 * fill, size = degree + 1
        if self.rule == by_fill:
            key.first = -fill
        elif self.rule == by_degree:
            key.first = -degree
        elif self.rule == by_ratio:
            key.first = -<int64>(scaled / size)
        elif self.rule == by_steep_ratio:
            key.first = -<int64>(scaled / (size * sqrt(size)))
        else:
            key.first = -<int64>(scaled / (size * size))
        key.second = -((<int64>(degree if self.tie_by_degree else 0) << 32) | rank)
        return key

    cdef Key key_of(self, int v) noexcept nogil:
        return self.key(self.graph.fill[v], self.graph.degree[v], self.rank[v])

    def run(self, int64 work):
        """Go on until about so many entries have been read; the state then."""
        cdef int state = going_on
        work += self.graph.work
        with nogil:
            while state == going_on and self.graph.work < work:
                if self.matrix is None and self.is_dense():
                    with gil:
                        self.matrix = _Matrix(self.graph)
                state = self.step()
        return state

    cdef int step(self) noexcept nogil:
        cdef bint in_matrix = self.matrix is not None
        cdef int v = self.min_of_matrix() if in_matrix else self.min_of_queue()
        if v < 0:
            return done
        if (self.matrix.degree[v] if in_matrix else self.graph.degree[v]) >= self.below:
            return too_wide
        if in_matrix:
            self.matrix.eliminate(v)
        else:
            self.graph.eliminate(v)
            self.queue_touched()
        return going_on

    cdef bint is_dense(self) noexcept nogil:
        cdef int64 n = self.graph.n_left
        return n <= max_rows and 2 * sparse * self.graph.m_left > n * n

    cdef int min_of_queue(self) noexcept nogil:
        """The vertex with the minimum key, removed from the queue, or -1."""
        cdef Key key
        cdef int v
        while not self.queue.empty():
            key = self.queue.top()
            self.queue.pop()
            v = self.ranked[(-key.second) & 0x7FFFFFFF]
            if self.graph.gone[v] or key != self.queued[v]:
                continue
            self.queued[v] = self.key_of(v)
            if key == self.queued[v]:
                return v
            self.queue.push(self.queued[v])
        return -1

    cdef void queue_touched(self) noexcept nogil:
        """Keys that decreased go into the queue; those that grew are updated when they are removed."""
        cdef Py_ssize_t i
        cdef int v
        cdef Key key
        for i in range(<Py_ssize_t>self.graph.touched.size()):
            v = self.graph.touched[i]
            key = self.key_of(v)
            if not self.graph.gone[v] and key > self.queued[v]:
                self.queued[v] = key
                self.queue.push(key)

    cdef int min_of_matrix(self) noexcept nogil:
        cdef int i, best = -1
        cdef Key key, best_key
        self.graph.work += self.matrix.n
        for i in range(<int>self.matrix.n):
            if not self.matrix.gone[i]:
                key = self.key(self.matrix.fill[i], self.matrix.degree[i], self.rank[self.matrix.vertex[i]])
                if best < 0 or key > best_key:
                    best, best_key = i, key
        return best

    def result(self):
        """(order int32[n], bag_indptr int64[n + 1], bags int32[b], number of edges added), once it is done."""
        return _ints(self.graph.order), _pointers(self.graph.bag_end), _ints(self.graph.bags), self.graph.added


def bags_of(const int64[::1] indptr, const int[::1] indices, const int[::1] order):
    """The bags of an elimination order: (bag_indptr int64[n + 1], bags int32[b]).

    The neighbours of a vertex when it is eliminated are its own that come later, and those in the bags whose first
    eliminated member, beside their own vertex, it is.
    """
    cdef Py_ssize_t n = order.shape[0], j
    cdef int64 i, child
    cdef int v, w
    cdef int64 begin, first
    cdef vector[int64] place, seen, end, sibling, eldest
    cdef vector[int] bags
    place.resize(n)
    seen.assign(n, -1)
    sibling.assign(n, -1)
    eldest.assign(n, -1)
    with nogil:
        for i in range(n):
            place[order[i]] = i
        for i in range(n):
            v = order[i]
            begin = bags.size()
            bags.push_back(v)
            seen[v] = i
            for j in range(indptr[v], indptr[v + 1]):
                w = indices[j]
                if place[w] > i:
                    seen[w] = i
                    bags.push_back(w)
            child = eldest[i]
            while child >= 0:
                for j in range(end[child - 1] + 1 if child else 1, end[child]):
                    w = bags[j]
                    if seen[w] != i:
                        seen[w] = i
                        bags.push_back(w)
                child = sibling[child]
            end.push_back(bags.size())
            first = n
            for j in range(begin + 1, end[i]):
                first = min(first, place[bags[j]])
            if first < n:
                sibling[i] = eldest[first]
                eldest[first] = i
    return _pointers(end), _ints(bags)


cdef object _ints(const vector[int]& entries):
    cdef Py_ssize_t i
    result = np.empty(entries.size(), np.int32)
    cdef int[::1] out = result
    for i in range(<Py_ssize_t>entries.size()):
        out[i] = entries[i]
    return result


cdef object _pointers(const vector[int64]& ends):
    cdef Py_ssize_t i
    result = np.zeros(ends.size() + 1, np.int64)
    cdef int64[::1] out = result
    for i in range(<Py_ssize_t>ends.size()):
        out[i + 1] = ends[i]
    return result
