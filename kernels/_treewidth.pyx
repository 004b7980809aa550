# distutils: language = c++
"""Bounds on the treewidth: contraction, safe reductions, all subsets."""

import numpy as np

from libcpp.pair cimport pair
from libcpp.queue cimport priority_queue

include "_bitsets.pxi"
include "_adjacency.pxi"
include "_eliminator.pxi"


def contraction_bound(const int64[::1] indptr, const int[::1] indices):
    """The largest minimum degree while a vertex of minimum degree is contracted repeatedly (MMD+).

    It goes into the neighbour with the fewest common neighbours; ties to the smaller degree, then to the smaller id.
    """
    cdef _Adjacency graph = _Adjacency()
    cdef priority_queue[pair[int, int]] queue
    cdef pair[int, int] entry
    cdef vector[int] row
    cdef int v, u, i, bound = 0
    with nogil:
        graph.load(indptr, indices)
        for v in range(<int>graph.n):
            queue.push(pair[int, int](-graph.degree[v], -v))
        while graph.n_left > bound + 1:
            entry = queue.top()
            queue.pop()
            v = -entry.second
            if graph.gone[v] or graph.degree[v] != -entry.first:
                continue
            bound = max(bound, graph.degree[v])
            row.assign(graph.row(v), graph.row(v) + graph.degree[v])
            u = _fewest_common(graph, v, row)
            graph.remove(v)
            for i in range(<int>row.size()):
                if row[i] != u and not graph.adjacent(row[i], u):
                    graph.add(row[i], u)
                queue.push(pair[int, int](-graph.degree[row[i]], -row[i]))
            if u >= 0:
                queue.push(pair[int, int](-graph.degree[u], -u))
    return bound


cdef int _fewest_common(_Adjacency graph, int v, const vector[int]& row) noexcept nogil:
    """The neighbour of v with the fewest neighbours in common with it; -1 if v has none. row: the neighbours of v."""
    cdef int i, j, u, common, best = -1, fewest = 0
    cdef int* other
    graph.mark(v)
    for i in range(<int>row.size()):
        u, common = row[i], 0
        if graph.degree[u] > skew * graph.degree[v]:
            for j in range(<int>row.size()):
                common += row[j] != u and graph.adjacent(row[j], u)
        else:
            other = graph.row(u)
            for j in range(graph.degree[u]):
                common += graph.seen[other[j]] == graph.stamp
        if best < 0 or common < fewest or (common == fewest and graph.before(u, best)):
            best, fewest = u, common
    return best


def reduce(const int64[::1] indptr, const int[::1] indices, int low):
    """Eliminate vertices that cost no width: simplicial ones, and almost simplicial ones of degree `low` or less.

    Returns (order int32[k], low, vertices int32[n - k] what remains, edges int32[m, 2] between these, by vertex).
    """
    cdef _Eliminator graph = _Eliminator()
    cdef vector[int] queue, next_queue
    cdef vector[unsigned char] waiting
    cdef Py_ssize_t i, j
    cdef int v, u
    with nogil:
        graph.load(indptr, indices)
        graph.start(True)
        waiting.assign(graph.n, 1)
        for v in range(<int>graph.n):
            queue.push_back(v)
        while not queue.empty():
            for i in range(<Py_ssize_t>queue.size()):
                v = queue[i]
                waiting[v] = False
                if not graph.gone[v] and _is_safe(graph, v, low):
                    graph.eliminate(v)
                    for j in range(<Py_ssize_t>graph.touched.size()):
                        _wake(graph, graph.touched[j], waiting, next_queue)
                    if graph.degree[v] > low:
                        low = graph.degree[v]
                        for u in range(<int>graph.n):
                            _wake(graph, u, waiting, next_queue)
            queue.swap(next_queue)
            next_queue.clear()
    order = np.array(graph.order, np.int32)
    return order, low, *_remaining(graph)


cdef bint _is_safe(_Eliminator graph, int v, int low) noexcept nogil:
    """Whether the neighbours of v, perhaps without one of them, are a clique."""
    cdef int i, missing, partner, d = graph.degree[v]
    cdef int* row
    if graph.fill[v] == 0:
        return True
    if d > low or graph.fill[v] >= d:
        return False
    row = graph.row(v)
    for i in range(d):
        missing = _missing(graph, row, d, row[i], &partner)
        if missing == graph.fill[v]:      # u is in all missing pairs
            return True
        if missing:                       # then its partner is, or no vertex is
            return _missing(graph, row, d, partner, &partner) == graph.fill[v]
    return False


cdef int _missing(_Eliminator graph, const int* row, int d, int u, int* partner) noexcept nogil:
    """Number of other entries of a row that u is not adjacent to; `partner` is the last of them."""
    cdef int i, missing = 0
    for i in range(d):
        if row[i] != u and not graph.adjacent(row[i], u):
            missing += 1
            partner[0] = row[i]
    return missing


cdef void _wake(_Eliminator graph, int u, vector[unsigned char]& waiting, vector[int]& queue) noexcept nogil:
    if not graph.gone[u] and not waiting[u] and graph.fill[u] < graph.degree[u]:
        waiting[u] = True
        queue.push_back(u)


cdef object _remaining(_Eliminator graph):
    cdef int v, i
    cdef int* row
    cdef vector[int] vertices, ends
    cdef vector[int] place
    place.resize(graph.n)
    for v in range(<int>graph.n):
        if not graph.gone[v]:
            place[v] = <int>vertices.size()
            vertices.push_back(v)
    for v in vertices:
        row = graph.row(v)
        for i in range(graph.degree[v]):
            if v < row[i]:
                ends.push_back(place[v])
                ends.push_back(place[row[i]])
    return np.array(vertices, np.int32), np.array(ends, np.int32).reshape(-1, 2)


def minimum_width(const uint64_t[::1] neighbours):
    """An elimination order of minimum width, by all subsets: TW(S) = min over v in S of max(TW(S - v), |Q(S - v, v)|).

    neighbours : uint64[n] the bits of each vertex's neighbours
    TW(S) is the minimum width of eliminating the vertices of S first, and Q(S - v, v) the vertices outside S that v
    reaches through S - v. Returns int32[n].
    """
    cdef int n = <int>neighbours.shape[0], v, width, degree
    cdef uint64_t chosen, rest, reached, seen, frontier, size = <uint64_t>1 << n
    cdef vector[signed char] best, last
    result = np.empty(n, np.int32)
    cdef int[::1] order = result
    with nogil:
        best.assign(size, n)
        last.assign(size, -1)
        best[0] = -1
        for chosen in range(1, size):
            rest = chosen
            while rest:
                v = remat_lowest(rest)
                rest &= rest - 1
                width = best[chosen ^ (<uint64_t>1 << v)]
                if width >= best[chosen]:
                    continue
                seen = <uint64_t>1 << v
                frontier = seen
                reached = 0
                while frontier:
                    reached |= neighbours[remat_lowest(frontier)]
                    frontier &= frontier - 1
                    if frontier == 0:
                        frontier = reached & chosen & ~seen
                        seen |= frontier
                degree = <int>remat_popcount(reached & ~chosen)
                width = max(width, degree)
                if width < best[chosen]:
                    best[chosen] = width
                    last[chosen] = v
        chosen = size - 1
        for v in range(n - 1, -1, -1):
            order[v] = last[chosen]
            chosen ^= <uint64_t>1 << last[chosen]
    return result
