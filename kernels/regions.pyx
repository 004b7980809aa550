# distutils: language = c++
"""Parts of graphs: connected components, the regions of echo2020, and forward segments of about equal memory."""

import numpy as np

cimport cython
from libcpp.algorithm cimport lower_bound, upper_bound
from libcpp.vector cimport vector
from remat_algos.kernels.graph cimport GraphArrays
from remat_algos.kernels.growing cimport assign
from remat_algos.kernels.types cimport Flags, Int32s, Int64s, int64_t


# Regions of cheap nodes, as in echo2020.

def connected_components(int n, Int32s tail, Int32s head):
    """Return the smallest vertex in the component of each vertex; edge directions are ignored.

    tail, head : int32[m] vertices 0 to n - 1
    Returns int32[n].
    Cost: O((n + m) log n) time at most, O(n) memory.
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


def removed_regions(GraphArrays graph not None, Flags cheap, Flags read_back, Flags forced, Int32s roots):
    """Return flags of the cheap nodes whose values algorithm 1 of echo2020 stashes, uint8[n].

    Each region is evaluated alone, exactly as the paper prints it.
    graph : with the reads of forward nodes only; cheap : uint8[n]; read_back : uint8[n_values] flags of the values that
    gradients read; forced : uint8[n] flags of the nodes that must be recomputed; roots : int32[r] one node per region
    Cost: O(n + k) time for each region, and for each of its cheap nodes the reads of all readers of its inputs; O(n +
    n_values) memory. Nodes in several regions are visited once for each: O(n r) if all regions overlap.
    """
    cdef Py_ssize_t i, j
    cdef int s
    stashed = np.zeros(graph.n_nodes, np.uint8)
    cdef unsigned char[::1] out = stashed
    cdef _Region region = _Region()
    region.graph, region.cheap = graph, cheap
    with nogil:
        assign(region.inside, graph.n_nodes, 0)
        assign(region.allocated, graph.n_values, 0)
        assign(region.released, graph.n_values, 0)
        for i in range(roots.shape[0]):
            region.gather(roots[i])
            for j in range(<Py_ssize_t>region.nodes.size()):
                s = region.nodes[j]
                if cheap[s] and not forced[s] and not out[s] and region.gain(s, read_back) >= 0:
                    out[s] = 1
    return stashed


# Segments.

def segment_cuts(Int64s reached, Int64s places, Py_ssize_t begin, Py_ssize_t end, int64_t segments):
    """Cut positions begin..end - 1 into segments of about equal memory.

    For each multiple of (memory / segments), the cut is the first allowed position that reaches it.

    reached : int64[f + 1] total memory before each position; places : int64[k] allowed cut positions, ascending
    Returns int64[<= segments - 1].
    Cost: O(segments log k) time, O(segments) memory.
    """
    cdef vector[int64_t] chosen
    cdef Py_ssize_t i
    if places.shape[0]:
        with nogil:
            _cut_segment(reached, places, begin, end, segments, chosen)
    result = np.empty(chosen.size(), np.int64)
    cdef int64_t[::1] out = result
    for i in range(<Py_ssize_t>chosen.size()):
        out[i] = chosen[i]
    return result


def greedy_cuts(Int64s reached, Int64s places, Int64s memory, int64_t budget):
    """Cut repeatedly at the first position where a segment exceeds a budget.

    reached : int64[k] total memory up to and including each allowed cut position; places : int64[k] these positions;
    memory : int64[f] of each position; budget : 0 or more
    Returns (list of the cut positions, memory of all cut positions, memory of the largest and of the smallest segment
    that ends with a cut).
    Cost: O(log k) time for each cut, O(cuts) memory.
    """
    cdef vector[int64_t] cut_places
    cdef int64_t start = 0, total = 0, largest = 0, smallest = 0, size
    cdef Py_ssize_t k = reached.shape[0], at = 0, past, stride
    with nogil:
        while at < k:
            stride, past = 1, at
            # Galloping search: doubling strides, then bisection.
            while past < k and reached[past] - start <= budget:
                at, past, stride = past + 1, past + stride, 2 * stride
            at = upper_bound(&reached[0] + at, &reached[0] + min(past, k), start + budget) - &reached[0]
            if at == k:
                break
            size = reached[at] - start
            largest = max(largest, size)
            smallest = min(smallest, size) if cut_places.size() else size
            start = reached[at]
            total += memory[places[at]]
            cut_places.push_back(places[at])
            at += 1
    return cut_places, total, largest, smallest


def keep_depths(Int64s reached, Int64s places, Int64s until, int64_t splits, int64_t depth,
                bint keep_last):
    """Return the level of recursive splitting at which each position is kept.

    Each of `depth` levels splits every segment by `splits` cuts. The positions whose values are live across a cut are
    kept at the same level as the cut.
    reached : int64[f + 1], places : int64[k] as in segment_cuts; until : int64[f] last position that reads a value of
    each position
    Returns int64[f].
    Cost: O(f depth + f log k) time, O(f) memory.
    """
    cdef Py_ssize_t f = until.shape[0], p, i, begin
    cdef int64_t level, deepest = 0
    cdef vector[int64_t] chosen
    cdef vector[_Segment] waiting
    cdef _Segment segment
    result = np.zeros(f, np.int64)
    cdef int64_t[::1] count = result
    cdef int64_t[::1] cut_level = np.full(f, -1, np.int64)
    cdef int64_t next_cut
    if f == 0:
        return result
    with nogil:
        waiting.push_back(_Segment(0, f, 0, depth))
        while not waiting.empty():
            segment = waiting.back()
            waiting.pop_back()
            chosen.clear()
            if segment.left > 0 and places.shape[0]:
                _cut_segment(reached, places, segment.begin, segment.end, splits + 1, chosen)
            if chosen.empty():
                for p in range(segment.begin, segment.end):
                    count[p] = segment.level
                continue
            deepest = max(deepest, segment.level)
            begin = segment.begin
            for i in range(<Py_ssize_t>chosen.size()):
                cut_level[chosen[i]] = segment.level
                if begin < chosen[i]:
                    waiting.push_back(_Segment(begin, chosen[i], segment.level + 1, segment.left - 1))
                begin = chosen[i] + 1
            if begin < segment.end:
                level = segment.level if keep_last else segment.level + 1
                waiting.push_back(_Segment(begin, segment.end, level, segment.left - 1))
        for p in range(f):
            if cut_level[p] >= 0:
                count[p] = cut_level[p]
        for level in range(deepest + 1):
            next_cut = f
            for p in range(f - 1, -1, -1):
                if cut_level[p] == level:
                    next_cut = p
                if next_cut < until[p] and count[p] > level:
                    count[p] = level
    return result


# The bytes that a region releases and allocates.

cdef int _top(int[::1] above, int v) noexcept nogil:
    """Return the smallest vertex of the component of v (union-find with path compression)."""
    while above[v] != v:
        above[v] = above[above[v]]
        v = above[v]
    return v


@cython.final
cdef class _Region:
    """The forward nodes between a root and the heavy nodes before it. A node not marked as cheap is heavy.

    inside[u] == number for the nodes of the region. allocated[x] == look, or released[x] == look, if the current call
    of `gain` has counted value x.
    """
    cdef GraphArrays graph
    cdef Flags cheap
    cdef vector[int] nodes, inside
    cdef vector[int64_t] allocated, released
    cdef int number                       # number of the region
    cdef int64_t look                       # number of the call

    cdef int gather(self, int root) except -1 nogil:
        """Collect the root and the cheap nodes that it depends on, without passing through heavy nodes."""
        cdef size_t done = 0
        cdef int64_t j
        cdef int u
        self.number += 1
        self.nodes.clear()
        self.nodes.push_back(root)
        self.inside[root] = self.number
        while done < self.nodes.size():
            for j in range(self.graph.read_indptr[self.nodes[done]], self.graph.read_indptr[self.nodes[done] + 1]):
                u = self.graph.producer[self.graph.read_indices[j]]
                if self.cheap[u] and self.inside[u] != self.number:
                    self.inside[u] = self.number
                    self.nodes.push_back(u)
            done += 1

    cdef int64_t gain(self, int s, Flags read_back) noexcept nogil:
        """Return the bytes released minus allocated if s is not recomputed (echo2020, algorithm 1, lines 21 to 29)."""
        cdef int64_t total = 0, i, j, k
        cdef int n, x
        self.look += 1
        for i in range(self.graph.read_indptr[s], self.graph.read_indptr[s + 1]):
            x = self.graph.read_indices[i]
            if read_back[x]:
                total -= self.first_time(self.allocated, x)
            for j in range(self.graph.reader_indptr[x], self.graph.reader_indptr[x + 1]):
                n = self.graph.reader_indices[j]
                if self.inside[n] != self.number:
                    continue
                for k in range(self.graph.value_indptr[n], self.graph.value_indptr[n + 1]):
                    if read_back[k] or self.graph.reader_indptr[k] < self.graph.reader_indptr[k + 1]:
                        total -= self.first_time(self.allocated, <int>k)
                for k in range(self.graph.read_indptr[n], self.graph.read_indptr[n + 1]):
                    total += self.first_time(self.released, self.graph.read_indices[k])
        return total

    cdef int64_t first_time(self, vector[int64_t]& seen, int x) noexcept nogil:
        """Return the bytes of x if this call of `gain` has not marked x in `seen` before, and 0 otherwise."""
        if seen[x] == self.look:
            return 0
        seen[x] = self.look
        return self.graph.memory[x]


# Cutting one segment.

cdef struct _Segment:
    Py_ssize_t begin, end
    int64_t level                           # level of splitting
    int64_t left                            # remaining levels


cdef int _cut_segment(Int64s reached, Int64s places, Py_ssize_t begin, Py_ssize_t end,
                      int64_t segments, vector[int64_t]& cuts) except -1 nogil:
    """Store the result of `segment_cuts` in `cuts`; the segment contains at least one position."""
    cdef int64_t base = reached[begin], memory = reached[end] - base
    cdef int64_t whole = memory // segments, rest = memory % segments, j = 1, target, got
    cdef const int64_t* first = &places[0]
    cdef const int64_t* last = lower_bound(first, first + places.shape[0], <int64_t>end)
    cdef const int64_t* at = lower_bound(first, last, <int64_t>begin)
    cdef const int64_t* low
    cdef const int64_t* high
    cdef const int64_t* middle
    cuts.clear()
    while j < segments:
        target = base + _multiple(j, whole, rest, segments)
        # Bisect for the first allowed position that reaches the target.
        low, high = at, last
        while low < high:
            middle = low + (high - low) // 2
            if reached[middle[0] + 1] < target:
                low = middle + 1
            else:
                high = middle
        if low == last:
            return 0
        cuts.push_back(low[0])
        if memory == 0:
            return 0
        got = reached[low[0] + 1] - base
        j = max(j, <int64_t>(<double>got / <double>memory * <double>segments) - 1)
        while j < segments and _multiple(j, whole, rest, segments) <= got:
            j += 1
        at = low + 1


cdef int64_t _multiple(int64_t j, int64_t whole, int64_t rest, int64_t segments) noexcept nogil:
    """Return j * M / segments rounded up, without overflow; M = whole * segments + rest."""
    return j * whole + (j * rest + segments - 1) // segments
