# distutils: language = c++
"""Schedules by recursion on a tree of separators: plain as in algorithm 1 of kumar2019, or with batches of requests.

A visit of a component is a call of the recursion: it runs all nodes of the component that its targets need."""

import numpy as np

cimport cython
from libc.string cimport memcpy
from libcpp.algorithm cimport lower_bound, sort
from libcpp.vector cimport vector
from remat_algos.kernels.bitsets cimport mix_word
from remat_algos.kernels.types cimport Flags, Int32s, Int64s, int64_t, uint64_t


cdef class _Visits
cdef class _SeparatorRecursion

cdef enum:
    _PLAIN = -2
    _UNLIMITED = -1
    # A visit is one call of the recursion. It is cached only if it makes at least this many runs.
    SHORTEST_REPEAT = 16
    FEWEST_SLOTS = 1024
    # Scanning a range of ids is faster than sorting if it contains at most this many ids per vertex.
    DENSE = 8

PLAIN, UNLIMITED = _PLAIN, _UNLIMITED


def recursive_order(Int64s pred_indptr, Int32s pred, Int64s memory, Int32s targets, *, Int32s end, Int64s child_indptr,
                    Int32s children, Int32s owner, Int32s n_bags, int64_t recursion_limit, int64_t batch,
                    int64_t longest):
    """Return an order that computes the targets, by recursion on a tree of separators.

    pred_indptr : int64[n + 1], pred : int32[k], memory : int64[n], ids in topological order; targets : int32[t]; end,
    n_bags : int32[s], child_indptr : int64[s + 1], children : int32[s - 1], owner : int32[n] the tree of separators,
    numbered in preorder; recursion_limit : components with fewer bags are run in one pass; batch : PLAIN, UNLIMITED, or
    the bytes that a visit may compute for later readers; longest : maximum number of runs
    Returns int32[m], or None if it would be longer.
    Cost: O(m) memory, and about O(m + reads of all runs) time, since repeated visits are copied. On dense graphs m
    may grow like n^(log n), so limit it by `longest`.
    """
    cdef _SeparatorRecursion r = _SeparatorRecursion.__new__(_SeparatorRecursion)
    cdef Py_ssize_t n = owner.shape[0]
    cdef vector[int] requested
    cdef int v
    r.pred_indptr, r.pred, r.memory = pred_indptr, pred, memory
    r.end, r.child_indptr, r.children, r.owner, r.n_bags = end, child_indptr, children, owner, n_bags
    r.recursion_limit, r.batch, r.longest = recursion_limit, batch, longest
    r.visits = _Visits.__new__(_Visits)
    r.seen = np.full(n, -1, np.int32)
    r.level = np.empty(n, np.int32)
    r.n_keeping = np.zeros(n, np.int32)
    with nogil:
        for v in targets:
            requested.push_back(v)
        r.visit(0, requested)
    if r.stopped or <int64_t>r.order.size() > longest:
        return None
    result = np.empty(r.order.size(), np.int32)
    cdef int[::1] out = result
    if r.order.size():
        memcpy(&out[0], r.order.data(), r.order.size() * sizeof(int))
    return result


def dependent_nodes(Int64s pred_indptr, Int32s pred, Flags chosen):
    """Return flags of the chosen nodes and their descendants, uint8[n].

    pred_indptr : int64[n + 1], pred : int32[k], chosen : uint8[n]
    Cost: O(n + k) time, O(n) memory.
    """
    cdef Py_ssize_t n = chosen.shape[0], v, j
    result = np.array(chosen, np.uint8)
    cdef unsigned char[::1] out = result
    with nogil:
        for v in range(n):
            for j in range(pred_indptr[v], pred_indptr[v + 1]):
                out[v] |= out[pred[j]]
    return result


# The recursion and the cache of its visits.

cdef struct _ComponentRequest:
    int child                             # component of the vertex
    int vertex
    # The first and the last node of the separator that read the vertex, as positions in the separator.
    int first
    int last
    # Position of the last node of the separator that must run before the vertex, -1 for none.
    int level
    bint live


cdef struct _Visit:
    # Hash of the separator, the targets, and the nodes to run for the targets.
    uint64_t key
    # A second hash of the same data; 0 in a free slot.
    uint64_t check
    # The runs of the visit, as a range of positions in the order.
    int64_t begin
    int64_t past


@cython.final
cdef class _Visits:
    """Hash table of finished visits. If a visit is repeated, its runs are copied.

    At most half of the slots are used, so every probe ends at a free slot.
    """

    cdef vector[_Visit] slots             # size is a power of 2
    cdef int64_t n_used

    def __cinit__(self):
        self.slots.resize(FEWEST_SLOTS)

    cdef _Visit* slot(self, uint64_t key, uint64_t check) noexcept nogil:
        """Return the slot of a visit, or the free slot in which to store it."""
        cdef uint64_t last = self.slots.size() - 1, i = key & last
        while self.slots[i].check and (self.slots[i].key != key or self.slots[i].check != check):
            i = (i + 1) & last
        return &self.slots[i]

    cdef int add(self, const _Visit& visit) except -1 nogil:
        cdef vector[_Visit] before
        cdef _Visit old
        if 2 * self.n_used >= <int64_t>self.slots.size():
            before.swap(self.slots)
            self.slots.resize(2 * before.size())
            for old in before:
                if old.check:
                    self.slot(old.key, old.check)[0] = old
        self.slot(visit.key, visit.check)[0] = visit
        self.n_used += 1
        return 0


cdef bint _by_vertex(const _ComponentRequest& a, const _ComponentRequest& b) noexcept nogil:
    return a.vertex < b.vertex or (a.vertex == b.vertex and a.first < b.first)


cdef bint _by_child(const _ComponentRequest& a, const _ComponentRequest& b) noexcept nogil:
    if a.child != b.child:
        return a.child < b.child
    return a.first < b.first or (a.first == b.first and a.vertex < b.vertex)


@cython.final
cdef class _SeparatorRecursion:
    """The recursion, as deep as the tree of separators (logarithmic), and the order that it builds.

    level[v] is valid if seen[v] == calls, that is, until the next call of `reach`. After a MemoryError the order is
    incomplete and n_keeping is too high: discard the object.
    """
    cdef Int64s pred_indptr
    cdef Int32s pred
    cdef Int64s memory
    cdef Int32s end
    cdef Int64s child_indptr
    cdef Int32s children
    cdef Int32s owner
    cdef Int32s n_bags
    cdef int64_t recursion_limit, batch, longest
    # For each vertex, the number of the last call of `reach` that reached it.
    cdef int[::1] seen
    cdef int[::1] level
    # For each vertex, the number of open visits that keep it live for a later reader.
    cdef int[::1] n_keeping
    cdef int calls
    cdef bint stopped
    cdef _Visits visits
    cdef vector[int] order

    cdef int child_of(self, int s, int v) noexcept nogil:
        """Return the child of s whose subtree owns v; there must be one."""
        cdef const int* begin = &self.children[0] + self.child_indptr[s]
        cdef const int* past = &self.children[0] + self.child_indptr[s + 1]
        cdef const int* at = lower_bound(begin, past, self.owner[v])
        return at[0] if at != past and at[0] == self.owner[v] else (at - 1)[0]

    cdef int reach(self, int s, vector[int]& targets, vector[int]& reached) except -1 nogil:
        """Collect the targets and their ancestors in the subtree of s, unsorted; do not pass through live vertices."""
        cdef int64_t i = 0, j
        cdef int v, u
        self.calls += 1
        for v in targets:
            if self.seen[v] != self.calls:
                self.seen[v] = self.calls
                reached.push_back(v)
        while i < <int64_t>reached.size():
            v = reached[i]
            i += 1
            for j in range(self.pred_indptr[v], self.pred_indptr[v + 1]):
                u = self.pred[j]
                if s <= self.owner[u] < self.end[s] and self.seen[u] != self.calls and not self.n_keeping[u]:
                    self.seen[u] = self.calls
                    reached.push_back(u)
        return 0

    cdef int ascending(self, vector[int]& reached) except -1 nogil:
        """Sort the reached vertices; if they are dense, scan the marks of a range of vertices instead."""
        cdef int v, low, high
        cdef size_t i = 0
        if reached.empty():
            return 0
        low = high = reached[0]
        for v in reached:
            low, high = min(low, v), max(high, v)
        if <size_t>(high - low) > DENSE * reached.size():
            sort(reached.begin(), reached.end())
            return 0
        for v in range(low, high + 1):
            if self.seen[v] == self.calls:
                reached[i] = v
                i += 1
        return 0

    cdef int levels(self, int s, vector[int]& reached, vector[int]& own) except -1 nogil:
        """Collect the reached nodes of the separator in `own`. Set `level` of each reached vertex.

        The level of a vertex is the last position in `own` of a node that it needs, or -1.
        """
        cdef int64_t j
        cdef int v, u, last
        for v in reached:
            last = -1
            for j in range(self.pred_indptr[v], self.pred_indptr[v + 1]):
                u = self.pred[j]
                if self.seen[u] == self.calls and self.level[u] > last:
                    last = self.level[u]
            if self.owner[v] == s:
                last = <int>own.size()
                own.push_back(v)
            self.level[v] = last
        return 0

    cdef int requests(self, int s, vector[int]& targets, vector[int]& own,
                      vector[_ComponentRequest]& result) except -1 nogil:
        """Collect the vertices below s that are targets or that the separator reads, sorted by component and reader."""
        cdef vector[_ComponentRequest] each
        cdef _ComponentRequest request
        cdef int64_t i, j
        cdef int u
        request.live = False
        for i in range(<int64_t>own.size()):
            for j in range(self.pred_indptr[own[i]], self.pred_indptr[own[i] + 1]):
                u = self.pred[j]
                if s < self.owner[u] < self.end[s] and not self.n_keeping[u]:
                    request.vertex = u
                    request.first = request.last = <int>i
                    request.level = self.level[u]
                    each.push_back(request)
        for u in targets:
            if self.owner[u] != s:
                request.vertex = u
                request.first = request.last = <int>own.size()
                request.level = self.level[u]
                each.push_back(request)
        sort(each.begin(), each.end(), &_by_vertex)
        for request in each:
            if result.size() and result.back().vertex == request.vertex:
                result.back().last = request.last
            else:
                request.child = self.child_of(s, request.vertex)
                result.push_back(request)
        sort(result.begin(), result.end(), &_by_child)
        return 0

    cdef int visit(self, int s, vector[int]& targets) except -1 nogil:
        """Run the targets and everything that they need, all of which is in the subtree of s."""
        cdef vector[int] reached, own
        cdef _Visit visit, known
        cdef uint64_t salted
        cdef int v
        if targets.empty() or self.stopped:
            return 0
        visit.begin = <int64_t>self.order.size()
        if visit.begin > self.longest:
            self.stopped = True
            return 0
        if self.child_indptr[s] == self.child_indptr[s + 1] or self.n_bags[s] < self.recursion_limit:
            self.reach(s, targets, reached)
            self.ascending(reached)
            self.order.insert(self.order.end(), reached.begin(), reached.end())
            return 0
        visit.key, visit.check = <uint64_t>s, <uint64_t>targets.size()
        # Targets are never live, so each of them must be run.
        for v in targets:
            visit.key, visit.check = mix_word(visit.key ^ <uint64_t>v), mix_word(visit.check ^ <uint64_t>v)
        # With batches, the runs also depend on which vertices are live. So the hash includes the reached vertices.
        if self.batch != _PLAIN:
            self.reach(s, targets, reached)
            for v in reached:
                salted = mix_word(<uint64_t>v)
                visit.key += salted
                visit.check ^= mix_word(salted)
        visit.check |= 1
        known = self.visits.slot(visit.key, visit.check)[0]
        if known.check:
            if visit.begin + known.past - known.begin > self.longest:
                self.stopped = True
                return 0
            self.order.resize(visit.begin + known.past - known.begin)
            memcpy(&self.order[visit.begin], &self.order[known.begin], (known.past - known.begin) * sizeof(int))
            return 0
        if self.batch == _PLAIN:
            self.reach(s, targets, reached)
            for v in reached:
                if self.owner[v] == s:
                    own.push_back(v)
            sort(own.begin(), own.end())
            self.plain(s, targets, own)
        else:
            self.ascending(reached)
            self.levels(s, reached, own)
            self.batched(s, targets, own)
        visit.past = <int64_t>self.order.size()
        if visit.past - visit.begin >= SHORTEST_REPEAT and not self.stopped:
            self.visits.add(visit)
        return 0

    cdef int plain(self, int s, vector[int]& targets, vector[int]& own) except -1 nogil:
        """Run algorithm 1 of kumar2019: visit the inputs of each separator node before it; visit the targets last."""
        cdef vector[int] inputs
        cdef int64_t j
        cdef int v, u
        for v in own:
            inputs.clear()
            for j in range(self.pred_indptr[v], self.pred_indptr[v + 1]):
                u = self.pred[j]
                if s < self.owner[u] < self.end[s]:
                    inputs.push_back(u)
            self.visit_children(s, inputs)
            self.order.push_back(v)
        inputs.clear()
        for u in targets:
            if self.owner[u] != s:
                inputs.push_back(u)
        self.visit_children(s, inputs)
        return 0

    cdef int visit_children(self, int s, vector[int]& vertices) except -1 nogil:
        """Visit each component that contains some of the vertices, with these vertices as targets."""
        cdef vector[_ComponentRequest] each
        cdef vector[int] requested
        cdef _ComponentRequest request
        cdef int64_t j
        cdef int u
        request.first = request.last = request.level = 0
        request.live = False
        for u in vertices:
            request.child = self.child_of(s, u)
            request.vertex = u
            each.push_back(request)
        sort(each.begin(), each.end(), &_by_child)
        for j in range(<int64_t>each.size()):
            requested.push_back(each[j].vertex)
            if j + 1 == <int64_t>each.size() or each[j + 1].child != each[j].child:
                self.visit(each[j].child, requested)
                requested.clear()
        return 0

    cdef int batched(self, int s, vector[int]& targets, vector[int]& own) except -1 nogil:
        """Like `plain`, but a visit of a component also computes up to `batch` bytes of vertices for later readers."""
        cdef vector[_ComponentRequest] requests
        cdef int64_t i, begin, past, j
        self.requests(s, targets, own, requests)
        for i in range(<int64_t>own.size() + 1):
            begin = 0
            while begin < <int64_t>requests.size():
                past = begin
                while past < <int64_t>requests.size() and requests[past].child == requests[begin].child:
                    past += 1
                self.fetch(requests, begin, past, <int>i)
                begin = past
            if self.stopped:
                return 0
            if i < <int64_t>own.size():
                self.order.push_back(own[i])
            for j in range(<int64_t>requests.size()):
                if requests[j].live and requests[j].last == i:
                    requests[j].live = False
                    self.n_keeping[requests[j].vertex] -= 1
        return 0

    cdef int fetch(self, vector[_ComponentRequest]& requests, int64_t begin, int64_t past, int i) except -1 nogil:
        """Visit a component if reader i is the first reader of a requested vertex in it."""
        cdef vector[int] requested
        cdef int64_t j, extra = 0
        cdef int v
        cdef bint missing = False
        for j in range(begin, past):
            # A vertex that an earlier batch computed is already live and is skipped below.
            missing |= requests[j].first == i
        if not missing:
            return 0
        for j in range(begin, past):
            # The vertex was computed earlier, and stays live until its last reader has run.
            if requests[j].first < i or requests[j].live:
                continue
            if requests[j].first > i:
                if requests[j].level >= i:
                    continue
                if self.batch >= 0 and extra + self.memory[requests[j].vertex] > self.batch:
                    continue
                extra += self.memory[requests[j].vertex]
            requested.push_back(requests[j].vertex)
            requests[j].live = True
        self.visit(requests[begin].child, requested)
        for v in requested:
            self.n_keeping[v] += 1
        return 0
