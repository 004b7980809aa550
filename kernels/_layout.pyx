# distutils: language = c++
"""Orders of the vertices of a graph, and the boundaries on the way: placed vertices with neighbours not yet placed."""

import numpy as np

from libcpp.algorithm cimport sort
from libcpp.pair cimport pair
from libcpp.queue cimport priority_queue
from libcpp.vector cimport vector

include "_bitsets.pxi"

ctypedef long long int64


cdef class _Placing:
    """A set of placed vertices that grows, and what each other vertex would do to its boundary.

    `rest`: neighbours not placed, of each vertex; `closes`: of a vertex not placed, for how many placed ones it is the
    last such neighbour; `touched`: vertices not placed whose counts the last placing changed, some of them twice.
    """
    cdef const int64[::1] indptr
    cdef const int[::1] indices
    cdef vector[int64] rest, closes
    cdef vector[char] placed
    cdef vector[int] touched

    def __cinit__(self, const int64[::1] indptr, const int[::1] indices):
        cdef Py_ssize_t n = indptr.shape[0] - 1, v
        self.indptr, self.indices = indptr, indices
        self.closes.assign(n, 0)
        self.placed.assign(n, 0)
        for v in range(n):
            self.rest.push_back(indptr[v + 1] - indptr[v])

    cdef int64 change(self, int v) noexcept nogil:
        """What placing a vertex adds to the boundary; it never grows while the vertex waits."""
        return (self.rest[v] > 0) - self.closes[v]

    cdef void place(self, int v) noexcept nogil:
        cdef int64 j
        cdef int u
        self.placed[v] = True
        self.touched.clear()
        for j in range(self.indptr[v], self.indptr[v + 1]):
            u = self.indices[j]
            self.rest[u] -= 1
            if not self.placed[u]:
                self.touched.push_back(u)
            elif self.rest[u] == 1:
                self.close_by_last(u)
        if self.rest[v] == 1:
            self.close_by_last(v)

    cdef void close_by_last(self, int u) noexcept nogil:
        """Find the one neighbour of a placed vertex that is not placed."""
        cdef int64 j = self.indptr[u]
        while self.placed[self.indices[j]]:
            j += 1
        self.closes[self.indices[j]] += 1
        self.touched.push_back(self.indices[j])


def breadth_first(const int64[::1] indptr, const int[::1] indices, int start):
    """Vertices by their distance from one, the earlier reached first; other components from their lowest vertex.

    indptr : int64[n + 1], indices : int32[2 m]
    Returns int32[n].
    """
    cdef Py_ssize_t n = indptr.shape[0] - 1, head = 0, tail = 1, lowest = 0
    cdef int64 j
    order = np.empty(n, np.int32)
    cdef int[::1] queue = order
    cdef vector[char] seen
    with nogil:
        seen.assign(n, 0)
        queue[0], seen[start] = start, True
        while head < n:
            if head == tail:
                while seen[lowest]:
                    lowest += 1
                queue[tail], seen[lowest] = <int>lowest, True
                tail += 1
            for j in range(indptr[queue[head]], indptr[queue[head] + 1]):
                if not seen[indices[j]]:
                    seen[indices[j]] = True
                    queue[tail] = indices[j]
                    tail += 1
            head += 1
    return order


def place_early(const int64[::1] indptr, const int[::1] indices, const int[::1] order):
    """An order, with each vertex placed as soon as it adds nothing to the boundary; the smallest growth comes first.

    indptr : int64[n + 1], indices : int32[2 m], order : int32[n]
    Returns (layout int32[n], the largest boundary).
    """
    cdef Py_ssize_t n = order.shape[0], at = 0, first = 0
    cdef int64 boundary = 0, largest = 0
    cdef int v, u
    cdef _Placing state = _Placing(indptr, indices)
    cdef vector[int] free
    layout = np.empty(n, np.int32)
    cdef int[::1] out = layout
    with nogil:
        for v in range(<int>n):
            if state.change(v) <= 0:
                free.push_back(v)
        while at < n:
            if free.empty():
                while state.placed[order[first]]:
                    first += 1
                v = order[first]
            else:
                v = free.back()
                free.pop_back()
                if state.placed[v]:
                    continue
            boundary += state.change(v)
            largest = max(largest, boundary)
            state.place(v)
            out[at] = v
            at += 1
            for u in state.touched:
                if state.change(u) <= 0:
                    free.push_back(u)
    return layout, largest


def lives(const int64[::1] indptr, const int[::1] indices, const int[::1] layout):
    """From its own place to that of its last neighbour: when each vertex is in the bags of a layout.

    indptr : int64[n + 1], indices : int32[2 m], layout : int32[n]
    Returns (first int64[n], last int64[n]), by vertex.
    """
    cdef Py_ssize_t n = layout.shape[0], v
    cdef int64 j
    begin, end = np.empty(n, np.int64), np.empty(n, np.int64)
    cdef int64[::1] first = begin, last = end
    with nogil:
        for v in range(n):
            first[layout[v]] = v
        for v in range(n):
            last[v] = first[v]
            for j in range(indptr[v], indptr[v + 1]):
                last[v] = max(last[v], first[indices[j]])
    return begin, end


def branch_order(const int[::1] order, const int64[::1] bag_indptr, const int[::1] bag_indices):
    """The vertices of an elimination tree from its root, one branch after the other, the one that needs most last.

    What its bag shares with the vertices above it is all that a branch leaves open, so with bags of at most k vertices
    a branch needs the larger of: the maximum that a child needs; k plus the second largest. That is at most
    k (1 + log2 n), and no boundary of the order is larger.

    order : int32[n], bag_indptr : int64[n + 1], bag_indices : int32[k] bag i: order[i] and what is left beside it
    Returns int32[n].
    """
    cdef Py_ssize_t n = order.shape[0], i, at = 0
    cdef int64 j, top, size
    cdef vector[int64] place, need, stack
    cdef vector[vector[pair[int64, int64]]] children           # (-need, place) of each
    layout = np.empty(n, np.int32)
    cdef int[::1] out = layout
    with nogil:
        place.assign(n, 0)
        need.assign(n + 1, 0)
        children.resize(n + 1)                                  # the last one: above all roots
        for i in range(n):
            place[order[i]] = i
        for i in range(n):                                      # children come before what they hang on
            size = bag_indptr[i + 1] - bag_indptr[i]
            sort(children[i].begin(), children[i].end())
            need[i] = size
            if children[i].size():
                need[i] = max(size, -children[i][0].first)
            if children[i].size() > 1:
                need[i] = max(need[i], size - children[i][1].first)
            top = n
            for j in range(bag_indptr[i], bag_indptr[i + 1]):
                if bag_indices[j] != order[i]:
                    top = min(top, place[bag_indices[j]])
            children[top].push_back(pair[int64, int64](-need[i], i))
        sort(children[n].begin(), children[n].end())
        stack.push_back(n)
        while stack.size():
            i = stack.back()
            stack.pop_back()
            if i < n:
                out[at] = order[i]
                at += 1
            for child in children[i]:
                stack.push_back(child.second)
    return layout


def minimum_separation(const int64[::1] indptr, const int[::1] indices):
    """A layout whose largest boundary is minimum, by the subset program: 2^n states.

    indptr : int64[n + 1], indices : int32[2 m]
    Returns int32[n].
    """
    cdef Py_ssize_t n = indptr.shape[0] - 1, v, last
    cdef int64 j
    cdef uint64_t placed, left, states = <uint64_t>1 << n
    cdef vector[uint64_t] near
    cdef vector[unsigned char] width                            # of each set: the largest boundary on the way to it
    cdef unsigned char boundary
    layout = np.empty(n, np.int32)
    cdef int[::1] out = layout
    with nogil:
        near.assign(n, 0)
        width.assign(states, 0)
        for v in range(n):
            for j in range(indptr[v], indptr[v + 1]):
                near[v] |= <uint64_t>1 << indices[j]
        for placed in range(1, states):
            boundary, width[placed] = 0, 255
            left = placed
            while left:
                v = remat_lowest(left)
                left &= left - 1
                boundary += (near[v] & ~placed) != 0
                width[placed] = min(width[placed], width[placed ^ (<uint64_t>1 << v)])
            width[placed] = max(width[placed], boundary)
        placed = states - 1
        for last in range(n - 1, -1, -1):
            left = placed
            v = remat_lowest(left)
            while width[placed ^ (<uint64_t>1 << v)] > width[placed]:
                left &= left - 1
                v = remat_lowest(left)
            out[last] = <int>v
            placed ^= <uint64_t>1 << v
    return layout


def leftmost_available(const int64[::1] pred_indptr, const int64[::1] succ_indptr, const int[::1] succ,
                       const int64[::1] place):
    """Next always, of the nodes whose predecessors are all placed, the one with the lowest place, ties to the lower id.

    pred_indptr, succ_indptr : int64[n + 1], succ : int32[edges], place : int64[n]
    Returns int32[n].
    """
    cdef Py_ssize_t n = place.shape[0], at = 0
    cdef int64 j
    cdef int v
    cdef vector[int64] waits
    cdef priority_queue[pair[int64, int]] queue                # the largest comes first: both are negated
    order = np.empty(n, np.int32)
    cdef int[::1] out = order
    with nogil:
        for v in range(<int>n):
            waits.push_back(pred_indptr[v + 1] - pred_indptr[v])
            if waits[v] == 0:
                queue.push(pair[int64, int](-place[v], -v))
        while not queue.empty():
            v = -queue.top().second
            queue.pop()
            out[at] = v
            at += 1
            for j in range(succ_indptr[v], succ_indptr[v + 1]):
                waits[succ[j]] -= 1
                if waits[succ[j]] == 0:
                    queue.push(pair[int64, int](-place[succ[j]], -succ[j]))
    return order
