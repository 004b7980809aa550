# distutils: language = c++
"""Elimination orders of graphs, and bounds on the treewidth.

Eliminating a vertex makes its neighbours a clique and removes the vertex. Its bag is the vertex and these neighbours.
Graphs are undirected: indptr : int64[n + 1], indices : int32[2 m] the neighbours of each vertex.
"""

import numpy as np

cimport cython
from libc.stdint cimport uint64_t
from libcpp.pair cimport pair
from libcpp.queue cimport priority_queue
from libcpp.vector cimport vector
from remat_algos.kernels.bitsets cimport bit_words, clear_bit, next_bit, remat_lowest, remat_popcount, set_bit
from remat_algos.kernels.growing cimport assign, push
from remat_algos.kernels.rules cimport MAX_ARGUMENTS, Rule
from remat_algos.kernels.types cimport Int32s, Int64s, int64_t


# Elimination orders.

# The value of the rule and a number that breaks ties. The queue returns the largest key first, so both are negated.
ctypedef pair[double, int64_t] Key

cdef enum:
    going_on = 0
    done = 1
    too_wide = 2

GOING_ON, DONE, TOO_WIDE = going_on, done, too_wide

cdef class _Adjacency
cdef class _Eliminator
cdef class _Matrix


@cython.final
cdef class EliminationRun:
    """A resumable elimination that always takes the vertex with the minimum key.

    indptr : int64[n + 1], indices : int32[2 m]; rank : int32[n] a permutation, ties go to the smallest rank;
    rule : a function of the degree, the fill, the number of components that remain without the vertex and its
    neighbours, and the number of eliminated vertices; tie_by_degree : if True, ties go to the minimum degree first;
    below : the run stops when a bag has at least this width
    After a MemoryError a run cannot continue: make a new one.
    Cost: each vertex takes time for all pairs in its bag. Unless the rule is "degree", each added edge also takes time
    for the common neighbours of its ends. Memory is O(n + m + added edges + bags). Meant for small width: bags of w
    vertices take about n w^2 time.

    A rule that reads the third or the fourth argument is slow: each step takes O(n) calls, and O(n m) time if it reads
    the third.

    queued[v] is the valid queue entry of a remaining vertex; it is never smaller than the (negated) key. All other
    entries of the queue are stale.
    """
    cdef _Eliminator graph
    cdef _Matrix matrix
    cdef Rule rule
    cdef double[MAX_ARGUMENTS] arguments
    cdef int below
    cdef bint tie_by_degree
    # True if the rule depends on more than the vertex and its neighbours. Then all keys are computed at each step.
    cdef bint scans
    cdef Int32s rank
    cdef vector[int] ranked               # vertex of each rank
    # For each vertex, its largest key in the queue.
    cdef vector[Key] queued
    cdef priority_queue[Key] queue

    def __init__(self, Int64s indptr, Int32s indices, Int32s rank, Rule rule not None, bint tie_by_degree, int below):
        cdef int v
        cdef Py_ssize_t n = rank.shape[0]
        self.rank, self.rule, self.tie_by_degree, self.below = rank, rule, tie_by_degree, below
        self.scans = rule.used > 3
        self.graph = _Eliminator()
        self.ranked.resize(n)
        self.queued.resize(n)
        with nogil:
            self.graph.load(indptr, indices)
            self.graph.start(rule.used >> 1 & 1)
            for v in range(<int>n):
                self.ranked[rank[v]] = v
                if not self.scans:
                    self.key_of(v, &self.queued[v])
                    push(self.queue, self.queued[v])

    cdef inline int key(self, int64_t fill, int degree, int rank, Key* key) except -1 nogil:
        self.arguments[0], self.arguments[1] = degree, fill
        key.first = -self.rule.value(self.arguments)
        key.second = -((<int64_t>(degree if self.tie_by_degree else 0) << 32) | rank)
        return 0

    cdef inline int key_of(self, int v, Key* key) except -1 nogil:
        return self.key(self.graph.fill[v], self.graph.degree[v], self.rank[v], key)

    def run(self, int64_t work):
        """Continue until about `work` entries have been read; return the state."""
        cdef int state = going_on
        work += self.graph.work
        with nogil:
            while state == going_on and self.graph.work < work:
                if self.matrix is None and not self.scans and self.is_dense():
                    with gil:
                        self.matrix = _Matrix(self.graph)
                state = self.step()
        return state

    cdef int step(self) except -1 nogil:
        cdef bint in_matrix = self.matrix is not None
        cdef int v
        if self.scans:
            v = self.min_of_all()
        else:
            v = self.min_of_matrix() if in_matrix else self.min_of_queue()
        if v < 0:
            return done
        if (self.matrix.degree[v] if in_matrix else self.graph.degree[v]) >= self.below:
            return too_wide
        if in_matrix:
            self.matrix.eliminate(v)
        else:
            self.graph.eliminate(v)
            if not self.scans:
                self.queue_touched()
        return going_on

    cdef int min_of_all(self) except -2 nogil:
        """Compute the key of each vertex, and return the vertex with the minimum key, or -1 if there is none."""
        cdef int v, best = -1
        cdef Key key, best_key
        for v in range(<int>self.graph.n):
            if not self.graph.gone[v]:
                if self.rule.used & 4:
                    self.arguments[2] = self.graph.components_without(v)
                self.arguments[3] = <double>self.graph.order.size()
                self.key_of(v, &key)
                if best < 0 or key > best_key:
                    best, best_key = v, key
        self.graph.work += self.graph.n
        return best

    cdef bint is_dense(self) noexcept nogil:
        cdef int64_t n = self.graph.n_left
        return n <= max_rows and 2 * sparse * self.graph.m_left > n * n

    cdef int min_of_queue(self) except -2 nogil:
        """Remove the vertex with the minimum key from the queue and return it, or -1 if the queue is empty."""
        cdef Key key
        cdef int v
        while not self.queue.empty():
            key = self.queue.top()
            self.queue.pop()
            v = self.ranked[(-key.second) & 0x7FFFFFFF]
            if self.graph.gone[v] or key != self.queued[v]:
                continue
            self.key_of(v, &self.queued[v])
            if key == self.queued[v]:
                return v
            push(self.queue, self.queued[v])
        return -1

    cdef int queue_touched(self) except -1 nogil:
        """Queue changed vertices again if their key improved; worse keys are corrected when they reach the top."""
        cdef Py_ssize_t i
        cdef int v
        cdef Key key
        for i in range(<Py_ssize_t>self.graph.touched.size()):
            v = self.graph.touched[i]
            if self.graph.gone[v]:
                continue
            self.key_of(v, &key)
            if key > self.queued[v]:
                self.queued[v] = key
                push(self.queue, key)

    cdef int min_of_matrix(self) except -2 nogil:
        cdef int i, best = -1
        cdef Key key, best_key
        self.graph.work += self.matrix.n
        for i in range(<int>self.matrix.n):
            if not self.matrix.gone[i]:
                self.key(self.matrix.fill[i], self.matrix.degree[i], self.rank[self.matrix.vertex[i]], &key)
                if best < 0 or key > best_key:
                    best, best_key = i, key
        return best

    def result(self):
        """Return (order int32[k], bag_indptr int64[k + 1], bags int32[b], number of added edges).
        """
        return _ints(self.graph.order), _pointers(self.graph.bag_end), _ints(self.graph.bags), self.graph.added


def elimination_bags(Int64s indptr, Int32s indices, Int32s order):
    """Return the bags of an elimination order of k vertices: (bag_indptr int64[k + 1], bags int32[b]).

    The bag of v contains v, its later neighbours, and for each child u of v in the elimination tree the bag of u
    without u. The last bag also contains all vertices that are not in the order.
    Cost: O(n + m + b) time and memory.
    """
    cdef Py_ssize_t n = indptr.shape[0] - 1, k = order.shape[0], j
    cdef int64_t i, child
    cdef int v, w
    cdef int64_t begin, first
    cdef vector[int64_t] place, seen, end, sibling, eldest
    cdef vector[int] bags
    assign(place, n, n)
    assign(seen, n, -1)
    assign(sibling, k, -1)
    assign(eldest, k, -1)
    with nogil:
        for i in range(k):
            place[order[i]] = i
        for i in range(k):
            v = order[i]
            begin = bags.size()
            bags.push_back(v)
            seen[v] = i
            if i == k - 1:
                for w in range(<int>n):
                    if place[w] > i:
                        bags.push_back(w)
                end.push_back(bags.size())
                break
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
            # If no other vertex of the bag is in the order, the bag is a subset of the last bag.
            if first < n:
                sibling[i] = eldest[first]
                eldest[first] = i
    return _pointers(end), _ints(bags)


# Bounds on the treewidth: contraction, safe reductions, all subsets.

def contraction_width(Int64s indptr, Int32s indices):
    """Return a lower bound on the treewidth: the largest minimum degree during repeated contractions (MMD+).

    Each step contracts a vertex of minimum degree into the neighbour with which it has the fewest common neighbours.
    Ties go to the smaller degree, then to the smaller id.
    Cost: for each contraction the rows of the neighbours, so up to O(n m) time in total; about O(n + m) memory.
    """
    cdef _Adjacency graph = _Adjacency()
    cdef priority_queue[pair[int, int]] queue
    cdef pair[int, int] entry
    cdef vector[int] row
    cdef int v, u, i, bound = 0
    with nogil:
        graph.load(indptr, indices)
        for v in range(<int>graph.n):
            push(queue, pair[int, int](-graph.degree[v], -v))
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
                push(queue, pair[int, int](-graph.degree[row[i]], -row[i]))
            if u >= 0:
                push(queue, pair[int, int](-graph.degree[u], -u))
    return bound


def reduce_safely(Int64s indptr, Int32s indices, int low):
    """Eliminate simplicial vertices, and almost simplicial ones of degree at most `low`, for as long as there are any.

    The neighbours of a simplicial vertex form a clique; those of an almost simplicial one do so except for one. `low`
    is a lower bound on the treewidth, which increases to the degree of each simplicial vertex. Eliminating these
    vertices first is safe: it does not increase the minimum width.
    Returns (order int32[k], low, vertices int32[n - k] that remain, edges int32[m, 2] between them, sorted by vertex).
    Cost: counting triangles, then for each test of a vertex the rows of its neighbours. A vertex is tested again after
    a neighbour has changed, and all vertices when `low` increases. O(n + m) memory.
    """
    cdef _Eliminator graph = _Eliminator()
    cdef vector[int] queue, next_queue
    cdef vector[unsigned char] waiting
    cdef Py_ssize_t i, j
    cdef int v, u
    with nogil:
        graph.load(indptr, indices)
        graph.start(True)
        assign(waiting, graph.n, 1)
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
    return _ints(graph.order), low, *_remaining(graph)


def minimum_width_order(const uint64_t[::1] neighbours):
    """Return an elimination order of minimum width, int32[n], by dynamic programming over subsets (Bodlaender et al.).

    neighbours : uint64[n] the neighbours of each vertex as bits
    The recursion is TW(S) = min over v in S of max(TW(S - v), |Q(S - v, v)|). TW(S) is the minimum width of eliminating
    the vertices of S first. Q(S - v, v) are the vertices outside S that v reaches through vertices of S - v.
    Cost: O(2^n n^2) time, 2^(n + 1) bytes of memory; for more than about 20 vertices use `EliminationRun`.
    """
    cdef int n = <int>neighbours.shape[0], v, width, degree, lowest, choice
    cdef uint64_t chosen, rest, reached, seen, frontier, size = <uint64_t>1 << n
    cdef vector[signed char] best, last
    result = np.empty(n, np.int32)
    cdef int[::1] order = result
    with nogil:
        best.resize(size)
        last.resize(size)
        best[0] = -1
        for chosen in range(1, size):
            rest, lowest, choice = chosen, n, -1
            while rest:
                v = remat_lowest(rest)
                rest &= rest - 1
                width = best[chosen ^ (<uint64_t>1 << v)]
                if width >= lowest:
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
                if width < lowest:
                    lowest, choice = width, v
            best[chosen], last[chosen] = lowest, choice
        chosen = size - 1
        for v in range(n - 1, -1, -1):
            order[v] = last[chosen]
            chosen ^= <uint64_t>1 << last[chosen]
    return result


# Common neighbours, and safe vertices.

cdef int _fewest_common(_Adjacency graph, int v, const vector[int]& row) noexcept nogil:
    """Return the neighbour of v (an entry of `row`) that shares the fewest neighbours with v, or -1 if v has none."""
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


cdef bint _is_safe(_Eliminator graph, int v, int low) noexcept nogil:
    """Return True if v is simplicial, or almost simplicial of degree at most `low` (defined in `reduce_safely`)."""
    cdef int i, missing, partner, d = graph.degree[v]
    cdef int* row
    if graph.fill[v] == 0:
        return True
    if d > low or graph.fill[v] >= d:
        return False
    row = graph.row(v)
    for i in range(d):
        missing = _missing(graph, row, d, row[i], &partner)
        # Every pair of neighbours that is not adjacent contains row[i].
        if missing == graph.fill[v]:
            return True
        # Otherwise, a neighbour that is in all these pairs is in a pair with row[i], so it must be `partner`.
        if missing:
            return _missing(graph, row, d, partner, &partner) == graph.fill[v]
    return False


cdef int _missing(_Eliminator graph, const int* row, int d, int u, int* partner) noexcept nogil:
    """Return the number of other entries of a row that are not adjacent to u; `partner` is set to the last of them."""
    cdef int i, missing = 0
    for i in range(d):
        if row[i] != u and not graph.adjacent(row[i], u):
            missing += 1
            partner[0] = row[i]
    return missing


cdef int _wake(_Eliminator graph, int u, vector[unsigned char]& waiting, vector[int]& queue) except -1 nogil:
    """Queue u, which may have become safe to eliminate, unless it is queued already."""
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
    return _ints(vertices), _ints(ends).reshape(-1, 2)


# Results as arrays.

cdef object _ints(const vector[int]& entries):
    cdef Py_ssize_t i
    result = np.empty(entries.size(), np.int32)
    cdef int[::1] out = result
    for i in range(<Py_ssize_t>entries.size()):
        out[i] = entries[i]
    return result


cdef object _pointers(const vector[int64_t]& ends):
    cdef Py_ssize_t i
    result = np.zeros(ends.size() + 1, np.int64)
    cdef int64_t[::1] out = result
    for i in range(<Py_ssize_t>ends.size()):
        out[i + 1] = ends[i]
    return result


# A mutable graph, as rows of neighbours.

cdef enum:
    # If one row is longer than the other by this factor, look up pairs in the hash table instead of scanning the row.
    skew = 16


cdef class _Adjacency:
    """A mutable graph: a row of neighbours for each vertex, and a hash table of all edges that were ever added.

    The table answers whether two vertices are adjacent without scanning a long row. The row of v is
    arena[begin[v]:begin[v] + length[v]], with room for capacity[v] entries; a full row moves to the end of the arena.
    degree[v] of the entries are remaining neighbours. The others are removed vertices, which stay until the row is read
    again. The table has mask + 1 slots, of which at most half are used, with linear probing. No seen[v] exceeds stamp.
    """
    cdef Py_ssize_t n
    cdef int64_t n_left, m_left             # remaining vertices, edges
    # degree: number of remaining neighbours. length: number of entries in the row.
    cdef vector[int] arena, degree, length
    cdef vector[int64_t] begin, capacity, seen
    cdef vector[unsigned char] gone
    cdef vector[uint64_t] table
    cdef uint64_t n_pairs, mask
    cdef int64_t stamp, work                # work: entries read, approximately

    cdef int load(self, Int64s indptr, Int32s indices) except -1 nogil:
        cdef Py_ssize_t v, j
        self.n = self.n_left = indptr.shape[0] - 1
        self.m_left = indices.shape[0] // 2
        self.mask = 63
        while self.mask < <uint64_t>(4 * self.m_left):
            self.mask = 2 * self.mask + 1
        assign(self.table, self.mask + 1, 0)
        assign(self.seen, self.n, 0)
        assign(self.gone, self.n, 0)
        self.arena.reserve(2 * indices.shape[0])
        for v in range(self.n):
            self.begin.push_back(indptr[v])
            self.capacity.push_back(indptr[v + 1] - indptr[v])
            self.degree.push_back(<int>(indptr[v + 1] - indptr[v]))
            for j in range(indptr[v], indptr[v + 1]):
                self.arena.push_back(indices[j])
                if v < indices[j]:
                    self.note(<int>v, indices[j])
        self.length.assign(self.degree.begin(), self.degree.end())

    cdef int* row(self, int v) noexcept nogil:
        """Return the degree[v] remaining neighbours of v; the pointer is valid until an edge is added."""
        cdef int* entry = self.arena.data() + self.begin[v]
        cdef int i, kept = 0
        if self.length[v] > self.degree[v]:
            for i in range(self.length[v]):
                if not self.gone[entry[i]]:
                    entry[kept] = entry[i]
                    kept += 1
            self.length[v] = kept
        return entry

    cdef void mark(self, int v) noexcept nogil:
        """Make seen[w] == stamp true for the neighbours w of v, and for no other vertex."""
        cdef int* entry = self.row(v)
        cdef int i
        self.stamp += 1
        self.work += self.degree[v]
        for i in range(self.degree[v]):
            self.seen[entry[i]] = self.stamp

    cdef int add(self, int u, int w) except -1 nogil:
        self.append(u, w)
        self.append(w, u)
        self.m_left += 1
        self.note(u, w)

    cdef int append(self, int v, int w) except -1 nogil:
        cdef int64_t i, begin = self.begin[v]
        if self.length[v] == self.capacity[v]:
            self.row(v)
            if 2 * self.length[v] >= self.capacity[v]:
                self.begin[v] = self.arena.size()
                self.capacity[v] = 2 * self.capacity[v] + 2
                self.arena.resize(self.begin[v] + self.capacity[v])
                for i in range(self.length[v]):
                    self.arena[self.begin[v] + i] = self.arena[begin + i]
        self.arena[self.begin[v] + self.length[v]] = w
        self.length[v] += 1
        self.degree[v] += 1

    cdef void remove(self, int v) noexcept nogil:
        cdef int* entry = self.row(v)
        cdef int i
        for i in range(self.degree[v]):
            self.degree[entry[i]] -= 1
        self.gone[v] = 1
        self.n_left -= 1
        self.m_left -= self.degree[v]

    cdef bint before(self, int v, int w) noexcept nogil:
        """Return True if v precedes w by degree, then by id."""
        return self.degree[v] < self.degree[w] or (self.degree[v] == self.degree[w] and v < w)

    cdef uint64_t slot(self, uint64_t pair) noexcept nogil:
        cdef uint64_t at = ((pair * <uint64_t>0x9E3779B97F4A7C15) >> 32) & self.mask
        while self.table[at] and self.table[at] != pair:
            at = (at + 1) & self.mask
        return at

    cdef int note(self, int u, int w) except -1 nogil:
        cdef uint64_t i
        cdef vector[uint64_t] old
        self.table[self.slot(_pair(u, w))] = _pair(u, w)
        self.n_pairs += 1
        if 2 * self.n_pairs > self.mask:
            self.mask = 2 * self.mask + 1
            old.swap(self.table)
            assign(self.table, self.mask + 1, 0)
            for i in range(old.size()):
                if old[i]:
                    self.table[self.slot(old[i])] = old[i]

    cdef bint adjacent(self, int u, int w) noexcept nogil:
        return self.table[self.slot(_pair(u, w))] != 0


cdef inline uint64_t _pair(int u, int w) noexcept nogil:
    """Encode an edge as a word, which is never 0."""
    return (<uint64_t>min(u, w) << 32) | <uint64_t>(max(u, w))


@cython.final
cdef class _Eliminator(_Adjacency):
    """A graph whose vertices are eliminated one by one, with the fill of each vertex.

    bags[bag_end[i - 1]:bag_end[i]] is the bag of order[i]; order[i] is its first entry. fill[v] is the number of
    non-adjacent pairs of neighbours of v; it is only valid if `counting` is set.
    """
    cdef bint counting                    # whether fill is valid
    cdef vector[int64_t] fill, touched_at
    # Vertices whose fill or degree the last elimination changed.
    cdef vector[int] touched
    cdef vector[int] order, bags
    cdef vector[int64_t] bag_end
    cdef int64_t added, time
    cdef vector[int] stack

    cdef int components_without(self, int v) except -1 nogil:
        """Return the number of components of the remaining graph without v and its neighbours."""
        cdef int start, u, i, count = 0
        cdef int* row
        # The neighbours of v have seen[u] == stamp, and so does every vertex that was reached.
        self.mark(v)
        self.seen[v] = self.stamp
        for start in range(<int>self.n):
            if self.gone[start] or self.seen[start] == self.stamp:
                continue
            count += 1
            self.seen[start] = self.stamp
            self.stack.push_back(start)
            while not self.stack.empty():
                u = self.stack.back()
                self.stack.pop_back()
                row = self.row(u)
                self.work += self.degree[u]
                for i in range(self.degree[u]):
                    if self.seen[row[i]] != self.stamp:
                        self.seen[row[i]] = self.stamp
                        self.stack.push_back(row[i])
        return count

    cdef int start(self, bint counting) except -1 nogil:
        self.counting = counting
        assign(self.touched_at, self.n, 0)
        assign(self.fill, self.n, 0)
        if counting:
            self.count()

    cdef int count(self) except -1 nogil:
        """Compute the fill of each vertex: its pairs of neighbours minus its triangles."""
        cdef int v, w
        cdef int64_t i, j
        cdef int* row
        cdef vector[int] later            # later neighbours of all vertices
        cdef vector[int64_t] end
        for v in range(<int>self.n):
            row = self.row(v)
            for i in range(self.degree[v]):
                if self.before(v, row[i]):
                    later.push_back(row[i])
            end.push_back(later.size())
            self.fill[v] = <int64_t>self.degree[v] * (self.degree[v] - 1) // 2
        for v in range(<int>self.n):
            self.stamp += 1
            for i in range(end[v - 1] if v else 0, end[v]):
                self.seen[later[i]] = self.stamp
            for i in range(end[v - 1] if v else 0, end[v]):
                w = later[i]
                for j in range(end[w - 1] if w else 0, end[w]):
                    if self.seen[later[j]] == self.stamp:
                        self.fill[v] -= 1
                        self.fill[w] -= 1
                        self.fill[later[j]] -= 1

    cdef int touch(self, int v) except -1 nogil:
        if self.touched_at[v] != self.time:
            self.touched_at[v] = self.time
            self.touched.push_back(v)

    cdef int eliminate(self, int v) except -1 nogil:
        """Record the bag of v, make its neighbours a clique, and remove v."""
        cdef int i, u, d = self.degree[v]
        cdef int* bag = self.row(v)
        self.order.push_back(v)
        self.bags.push_back(v)
        self.bags.insert(self.bags.end(), bag, bag + d)
        self.bag_end.push_back(self.bags.size())
        self.time += 1
        self.touched.clear()
        self.work += d
        bag = self.bags.data() + self.bags.size() - d
        if not self.counting or self.fill[v] > 0:
            self.make_clique(bag, d, self.added + self.fill[v])
        for i in range(d):
            u = bag[i]
            self.fill[u] -= self.degree[u] - d
            self.touch(u)
        self.remove(v)

    cdef int make_clique(self, int* bag, int d, int64_t until) except -1 nogil:
        """Make the vertices of a bag adjacent; if `counting` is set, stop at `until` added edges in total."""
        cdef int i, j, a, b
        # The vertex with the longest row is the last one: its row is never read.
        for i in range(d - 1):
            if self.degree[bag[i]] > self.degree[bag[d - 1]]:
                bag[i], bag[d - 1] = bag[d - 1], bag[i]
        for i in range(d - 1):
            if self.counting and self.added == until:
                return 0
            a = bag[i]
            self.mark(a)
            for j in range(i + 1, d):
                b = bag[j]
                if self.seen[b] != self.stamp:
                    self.join(a, b)

    cdef int join(self, int a, int b) except -1 nogil:
        """Add the edge a b, and decrease the fill of each common neighbour. The neighbours of a must be marked."""
        cdef int i, w, common = 0
        cdef int* row
        cdef bint long_row = self.degree[b] > skew * self.degree[a]
        if self.counting:
            row = self.row(a if long_row else b)
            self.work += self.degree[a if long_row else b]
            for i in range(self.degree[a if long_row else b]):
                w = row[i]
                if self.adjacent(w, b) if long_row else self.seen[w] == self.stamp:
                    self.fill[w] -= 1
                    common += 1
                    self.touch(w)
            self.fill[a] += self.degree[a] - common
            self.fill[b] += self.degree[b] - common
        self.add(a, b)
        self.seen[b] = self.stamp
        self.added += 1


# The remaining graph as a bit matrix, once it is dense.

cdef enum:
    # A graph is dense if its average degree exceeds n / sparse.
    sparse = 16
    max_rows = 20000


@cython.final
cdef class _Matrix:
    """The adjacency matrix of the remaining graph of an eliminator.

    The matrix takes over order, bags, fill and work from the eliminator.

    Row v contains a bit for each of the degree[v] remaining neighbours of v; vertex[v] is the eliminator's id of v.
    """
    cdef _Eliminator graph
    cdef Py_ssize_t n, w
    cdef vector[uint64_t] words, missing
    # Bit-sliced counters, one for each vertex, to be subtracted from its fill: row k contains bit k of all counters.
    cdef vector[uint64_t] planes
    cdef int n_planes
    cdef vector[int] vertex, degree, members
    cdef vector[int64_t] fill
    cdef vector[unsigned char] gone

    def __init__(self, _Eliminator graph):
        cdef int v, i, j
        cdef int* row
        cdef vector[int] place
        self.graph = graph
        place.resize(graph.n)
        for v in range(<int>graph.n):
            if not graph.gone[v]:
                place[v] = <int>self.vertex.size()
                self.vertex.push_back(v)
                self.degree.push_back(graph.degree[v])
                self.fill.push_back(graph.fill[v])
        self.n = self.vertex.size()
        self.w = bit_words(self.n)
        assign(self.gone, self.n, 0)
        assign(self.missing, self.w, 0)
        assign(self.words, self.n * self.w, 0)
        assign(self.planes, 32 * self.w, 0)
        for i in range(<int>self.n):
            row = graph.row(self.vertex[i])
            for j in range(self.degree[i]):
                set_bit(self.row(i), place[row[j]])

    cdef uint64_t* row(self, Py_ssize_t v) noexcept nogil:
        return self.words.data() + v * self.w

    cdef int eliminate(self, int v) except -1 nogil:
        cdef int i, u, d = self.degree[v]
        cdef Py_ssize_t b
        self.members.clear()
        self.graph.order.push_back(self.vertex[v])
        self.graph.bags.push_back(self.vertex[v])
        b = next_bit(self.row(v), self.w, 0)
        while b >= 0:
            self.members.push_back(<int>b)
            self.graph.bags.push_back(self.vertex[b])
            b = next_bit(self.row(v), self.w, b + 1)
        self.graph.bag_end.push_back(self.graph.bags.size())
        self.graph.work += d
        if self.fill[v] > 0 or not self.graph.counting:
            for i in range(d):
                self.join_all(self.members[i], v)
            self.update_fill()
        for i in range(d):
            u = self.members[i]
            self.fill[u] -= self.degree[u] - d
            self.degree[u] -= 1
            clear_bit(self.row(u), v)
        self.gone[v] = 1

    cdef void join_all(self, int a, int v) noexcept nogil:
        """Make all neighbours of v adjacent to a."""
        cdef Py_ssize_t i, b
        for i in range(self.w):
            self.missing[i] = self.row(v)[i] & ~self.row(a)[i]
        clear_bit(self.missing.data(), a)
        self.graph.work += self.w
        b = next_bit(self.missing.data(), self.w, 0)
        while b >= 0:
            if self.graph.counting:
                self.recount(a, b)
            set_bit(self.row(a), b)
            set_bit(self.row(b), a)
            self.degree[a] += 1
            self.degree[b] += 1
            self.graph.added += 1
            b = next_bit(self.missing.data(), self.w, b + 1)

    cdef void recount(self, Py_ssize_t a, Py_ssize_t b) noexcept nogil:
        """Increment the counters of the common neighbours of a and b, for the new edge a b."""
        cdef Py_ssize_t i
        cdef uint64_t word, stored
        cdef uint64_t* left = self.row(a)
        cdef uint64_t* right = self.row(b)
        cdef int k, common = 0
        for i in range(self.w):
            word = left[i] & right[i]
            common += remat_popcount(word)
            k = 0
            # Add one to the counters of 64 vertices at once, with carry.
            while word:
                stored = self.planes[k * self.w + i]
                self.planes[k * self.w + i] = stored ^ word
                word &= stored
                k += 1
            self.n_planes = max(self.n_planes, k)
        self.fill[a] += self.degree[a] - common
        self.fill[b] += self.degree[b] - common
        self.graph.work += self.w

    cdef void update_fill(self) noexcept nogil:
        """Subtract the counters in the planes from each fill."""
        cdef Py_ssize_t i
        cdef int k
        cdef uint64_t word
        for k in range(self.n_planes):
            for i in range(self.w):
                word = self.planes[k * self.w + i]
                self.planes[k * self.w + i] = 0
                while word:
                    self.fill[(i << 6) + remat_lowest(word)] -= <int64_t>1 << k
                    word &= word - 1
        self.graph.work += self.n_planes * self.n
        self.n_planes = 0
