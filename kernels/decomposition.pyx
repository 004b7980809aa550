# distutils: language = c++
"""Tree and path decompositions of a graph.

Tree decompositions: construction from an elimination order, checks, removal of redundant bags, balanced separators. A
tree decomposition consists of bag_indptr : int64[b + 1], bag_indices : int32[total], the vertices of each bag,
ascending, and parent : int32[b], -1 for the root. The bags are in any order.

Path decompositions: layouts, which are orders of the vertices. A bag of a layout is a vertex and the boundary before
it: the vertices placed before it that have a neighbour placed later. Graphs are undirected: indptr : int64[n + 1],
indices : int32[2 m] the neighbours of each vertex.
"""

import numpy as np

cimport cython
from libc.stdint cimport uint64_t
from libcpp.algorithm cimport lower_bound, sort
from libcpp.pair cimport pair
from libcpp.queue cimport priority_queue
from libcpp.vector cimport vector
from remat_algos.kernels.bitsets cimport remat_lowest
from remat_algos.kernels.growing cimport assign, push
from remat_algos.kernels.types cimport Int32s, Int64s, int64_t


# Tree decompositions.

NOT_ASCENDING, NO_TREE = 1, 2
VERTEX, EDGE, CONNECTED = 1, 2, 3


def bags_to_tree(Int32s order, Int64s bag_indptr, Int32s bag_indices):
    """Return the tree of the bags of an elimination order: (bag_indices int32[total], sorted; parent int32[b]).

    order : int32[b]; bag i contains order[i] and its remaining neighbours, the last bag all vertices missing in the
    order. The parent of bag i is the bag of the vertex that is eliminated first among the other vertices of bag i. All
    roots except the first become children of the first root.
    Cost: O(n + total log(largest bag)) time, O(n + total) memory.
    """
    cdef Py_ssize_t b = order.shape[0], i
    cdef int64_t j
    cdef int first = -1, place
    n = b + bag_indptr[b] - bag_indptr[b - 1] - 1 if b else 0
    indices, parent, position = np.array(bag_indices), np.full(b, -1, np.int32), np.full(n, b - 1, np.int32)
    cdef int[::1] out = indices, above = parent, at = position
    with nogil:
        for i in range(b):
            at[order[i]] = <int>i
        for i in range(b):
            for j in range(bag_indptr[i], bag_indptr[i + 1]):
                place = at[bag_indices[j]]
                if place != i and (above[i] < 0 or place < above[i]):
                    above[i] = place
            if above[i] < 0:
                if first < 0:
                    first = <int>i
                else:
                    above[i] = first
            if bag_indptr[i] < bag_indptr[i + 1]:
                sort(&out[0] + bag_indptr[i], &out[0] + bag_indptr[i + 1])
    return indices, parent


def first_fault(Int64s bag_indptr, Int32s bag_indices, Int32s parent):
    """Return (NOT_ASCENDING, bag), (NO_TREE, bag that is not connected to a single root), or (0, -1) if valid.

    The caller has checked that the lengths of bag_indptr and parent match. A bag with a negative vertex is reported as
    not ascending.
    Cost: O(b + total) time, O(b) memory.
    """
    cdef Py_ssize_t b = parent.shape[0], i, x
    cdef int64_t j
    cdef int root = -1, before
    hangs = np.zeros(b, np.uint8)
    cdef unsigned char[::1] known = hangs
    cdef vector[int] walk
    for i in range(b):
        before = -1
        for j in range(bag_indptr[i], bag_indptr[i + 1]):
            if bag_indices[j] <= before:
                return NOT_ASCENDING, i
            before = bag_indices[j]
    for i in range(b):
        if parent[i] < -1 or parent[i] >= b or (parent[i] == -1 and root >= 0):
            return NO_TREE, i
        if parent[i] == -1:
            root = <int>i
            known[i] = 1
    for i in range(b):
        walk.clear()
        x = i
        while not known[x]:
            walk.push_back(<int>x)
            if <Py_ssize_t>walk.size() > b:
                return NO_TREE, i                              # a cycle
            x = parent[x]
        for x in walk:
            known[x] = 1
    return 0, -1


def root_tree(Py_ssize_t b, const int[:, ::1] edges):
    """Return the parents, int32[b], in a tree with edges int32[b - 1, 2] and root 0; -2 for unreachable bags.

    Cost: O(b) time and memory.
    """
    cdef Py_ssize_t i, at = 0
    cdef int64_t j
    cdef int x
    cdef vector[int64_t] start
    cdef vector[int] near, walk
    parent = np.full(b, -2, np.int32)
    cdef int[::1] above = parent
    # `start` is shifted by one entry while the rows are filled.
    assign(start, b + 2, 0)
    near.resize(2 * edges.shape[0])
    for i in range(edges.shape[0]):
        start[edges[i, 0] + 2] += 1
        start[edges[i, 1] + 2] += 1
    for i in range(b):
        start[i + 2] += start[i + 1]
    for i in range(edges.shape[0]):
        for x in range(2):
            near[start[edges[i, x] + 1]] = edges[i, 1 - x]
            start[edges[i, x] + 1] += 1
    if b:
        above[0] = -1
        walk.push_back(0)
    while at < <Py_ssize_t>walk.size():
        x = walk[at]
        at += 1
        for j in range(start[x], start[x + 1]):
            if above[near[j]] == -2:
                above[near[j]] = x
                walk.push_back(near[j])
    return parent


def broken_law(Int64s bag_indptr, Int32s bag_indices, Int32s parent, *, Int64s indptr, Int32s indices):
    """Return a violated condition of tree decompositions and where it is violated; (0, -1, -1, -1) if all hold.

    indptr : int64[n + 1], indices : int32[2 m] the neighbours of each vertex; vertices in bags are below n
    Returns (VERTEX, v, -1, -1): v is in no bag; (CONNECTED, v, bag, bag): both bags contain v, but not all bags between
    them do; (EDGE, u, v, -1): no bag contains both u and v.
    Cost: O(n + (total + m) log(largest bag)) time, O(n) memory.
    """
    cdef Py_ssize_t n = indptr.shape[0] - 1, b = parent.shape[0], i, v
    cdef int64_t j
    cdef int u
    cdef const int* bags = &bag_indices[0] if bag_indices.shape[0] else NULL
    # For each vertex, the bag nearest to the root that contains it.
    cdef vector[int] top
    assign(top, n, -1)
    cdef int twice = -1, first = -1, second = -1
    with nogil:
        for i in range(b):
            for j in range(bag_indptr[i], bag_indptr[i + 1]):
                u = bags[j]
                if parent[i] >= 0 and _holds(bags, bag_indptr[parent[i]], bag_indptr[parent[i] + 1], u):
                    continue
                if top[u] < 0:
                    top[u] = <int>i
                elif twice < 0:
                    twice, first, second = u, top[u], <int>i
    for v in range(n):
        if top[v] < 0:
            return VERTEX, v, -1, -1
    if twice >= 0:
        return CONNECTED, twice, first, second
    # If a bag contains both ends of an edge, the top bag of one end contains the other end too.
    for v in range(n):
        for j in range(indptr[v], indptr[v + 1]):
            u = indices[j]
            if (u > v and not _holds(bags, bag_indptr[top[v]], bag_indptr[top[v] + 1], u)
                    and not _holds(bags, bag_indptr[top[u]], bag_indptr[top[u] + 1], <int>v)):
                return EDGE, v, u, -1
    return 0, -1, -1, -1


def shrink_bags(Int64s bag_indptr, Int32s bag_indices, Int32s parent):
    """Merge bags that are subsets of a neighbour, in one pass over the edges of the tree.

    Returns (kept int32[k]: remaining bags, ascending; parent int32[k]: their tree). The first of equal bags remains.
    Cost: O(b s log s) time at most for bags of up to s vertices, usually O(b log s); O(b) memory.
    """
    cdef Py_ssize_t b = parent.shape[0], i
    cdef int x, y, k = 0
    cdef bint below, above
    cdef const int* bags = &bag_indices[0] if bag_indices.shape[0] else NULL
    cdef vector[int] merged
    merged.resize(b)
    number = np.full(b, -1, np.int32)
    cdef int[::1] place = number
    for i in range(b):
        merged[i] = <int>i
    with nogil:
        for i in range(b):
            if parent[i] < 0:
                continue
            x, y = _merged_into(&merged[0], <int>i), _merged_into(&merged[0], parent[i])
            below = _inside(bags, bag_indptr[x], bag_indptr[x + 1], bag_indptr[y], bag_indptr[y + 1])
            above = _inside(bags, bag_indptr[y], bag_indptr[y + 1], bag_indptr[x], bag_indptr[x + 1])
            if below and (not above or y < x):
                merged[x] = y
            elif above:
                merged[y] = x
        for i in range(b):
            if merged[i] == i:
                place[i] = k
                k += 1
    kept, tree = np.flatnonzero(number >= 0).astype(np.int32), np.full(k, -1, np.int32)
    cdef int[::1] out = tree
    for i in range(b):
        if parent[i] >= 0:
            x, y = _merged_into(&merged[0], <int>i), _merged_into(&merged[0], parent[i])
            if x != y:
                out[place[x]] = place[y]
    return kept, tree


def separators(Int64s bag_indptr, Int32s bag_indices, Int32s parent, Int64s memory):
    """Return a tree of separators of a tree decomposition.

    Each separator is a bag. Removing it splits its part of the tree into pieces, and its children in the tree of
    separators split these pieces. A separator owns the vertices of its bag that no separator above it owns. Among the
    bags that leave pieces of at most two thirds of the part, the one with the fewest bytes that no separator owns yet
    is chosen; if all sizes are 0, one that leaves pieces of at most half.

    memory : int64[n] bytes of each vertex; n exceeds every vertex in a bag
    Returns (end int32[b], above int32[b], owner int32[n], n_bags int32[b], bag int32[b]). Separators are numbered in
    preorder: subtree s is s..end[s] - 1, above[s] its parent (-1 for the root), n_bags[s] the size of its part, bag[s]
    its bag. owner[v] is -1 for a vertex in no bag.
    Cost: O(n + total + b log b) time, O(n + total) memory.
    """
    cdef Py_ssize_t b = parent.shape[0], n = memory.shape[0], i
    cdef int64_t j, jj
    cdef int s = 0, x, v
    cdef _Forest forest = _Forest(parent)
    cdef vector[int64_t] bags_start
    # Stack of parts to separate: a bag of each part, and the separator above it.
    cdef vector[int] bags_of, begins, aboves
    end, tree, owner = np.empty(b, np.int32), np.full(b, -1, np.int32), np.full(n, -1, np.int32)
    n_bags, bag, unowned = np.empty(b, np.int32), np.empty(b, np.int32), np.zeros(b, np.int64)
    cdef int[::1] out_end = end, above = tree, owned = owner, count = n_bags, chosen = bag
    # For each bag, the bytes of its vertices that no separator owns.
    cdef int64_t[::1] bytes_left = unowned
    with nogil:
        assign(bags_start, n + 2, 0)
        bags_of.resize(bag_indices.shape[0])
        for j in range(bag_indices.shape[0]):
            bags_start[bag_indices[j] + 2] += 1
        for i in range(n):
            bags_start[i + 2] += bags_start[i + 1]
        for i in range(b):
            for j in range(bag_indptr[i], bag_indptr[i + 1]):
                v = bag_indices[j]
                bytes_left[i] += memory[v]
                bags_of[bags_start[v + 1]] = <int>i
                bags_start[v + 1] += 1
        if b:
            begins.push_back(0)
            aboves.push_back(-1)
        while not begins.empty():
            x, above[s] = begins.back(), aboves.back()
            begins.pop_back()
            aboves.pop_back()
            forest.visit(x)
            x = forest.separator(bytes_left)
            forest.removed[x] = 1
            chosen[s], count[s], out_end[s] = x, <int>forest.walk.size(), s + 1
            for j in range(bag_indptr[x], bag_indptr[x + 1]):
                v = bag_indices[j]
                if owned[v] < 0:
                    owned[v] = s
                    for jj in range(bags_start[v], bags_start[v + 1]):
                        bytes_left[bags_of[jj]] -= memory[v]
            for j in range(forest.start[x + 1] - 1, forest.start[x] - 1, -1):
                if not forest.removed[forest.near[j]]:
                    begins.push_back(forest.near[j])
                    aboves.push_back(s)
            s += 1
        for i in range(b - 1, 0, -1):
            out_end[above[i]] = max(out_end[above[i]], out_end[i])
    return end, tree, owner, n_bags, bag


def balanced_bag(Int32s parent):
    """Return the bag of smallest id whose removal leaves pieces of at most half of all bags, or -1 if there is no bag.

    Cost: O(b) time and memory.
    """
    cdef _Forest forest = _Forest(parent)
    if not parent.shape[0]:
        return -1
    forest.visit(0)
    return forest.separator(np.zeros(parent.shape[0], np.int64))


# Layouts.

def breadth_first_layout(Int64s indptr, Int32s indices, int start):
    """Return the vertices in breadth-first order from `start`; other components start at their smallest vertex.

    indptr : int64[n + 1], indices : int32[2 m]
    Returns int32[n].
    Cost: O(n + m) time, O(n) memory.
    """
    cdef Py_ssize_t n = indptr.shape[0] - 1, head = 0, tail = 1, lowest = 0
    cdef int64_t j
    order = np.empty(n, np.int32)
    cdef int[::1] queue = order
    cdef vector[char] seen
    with nogil:
        assign(seen, n, 0)
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


def place_early(Int64s indptr, Int32s indices, Int32s order):
    """Improve an order: place a vertex that does not enlarge the boundary if there is one, otherwise the next in order.

    indptr : int64[n + 1], indices : int32[2 m], order : int32[n]
    Returns (layout int32[n], the size of its largest boundary).
    Cost: O(n + m) time and memory.
    """
    cdef Py_ssize_t n = order.shape[0], at = 0, first = 0
    cdef int64_t size = 0, largest = 0
    cdef int v, u
    cdef _Boundary boundary = _Boundary(indptr, indices)
    cdef vector[int] free
    layout = np.empty(n, np.int32)
    cdef int[::1] out = layout
    with nogil:
        for v in range(<int>n):
            if boundary.change(v) <= 0:
                free.push_back(v)
        while at < n:
            if free.empty():
                while boundary.placed[order[first]]:
                    first += 1
                v = order[first]
            else:
                v = free.back()
                free.pop_back()
                if boundary.placed[v]:
                    continue
            size += boundary.change(v)
            largest = max(largest, size)
            boundary.place(v)
            out[at] = v
            at += 1
            for u in boundary.touched:
                if boundary.change(u) <= 0:
                    free.push_back(u)
    return layout, largest


def layout_spans(Int64s indptr, Int32s indices, Int32s layout):
    """Return the first and last bag of each vertex in a layout: its own position and that of its last neighbour.

    indptr : int64[n + 1], indices : int32[2 m], layout : int32[n]
    Returns (first int64[n], last int64[n]), by vertex.
    Cost: O(n + m) time, O(n) memory.
    """
    cdef Py_ssize_t n = layout.shape[0], v
    cdef int64_t j
    begin, end = np.empty(n, np.int64), np.empty(n, np.int64)
    cdef int64_t[::1] first = begin, last = end
    with nogil:
        for v in range(n):
            first[layout[v]] = v
        for v in range(n):
            last[v] = first[v]
            for j in range(indptr[v], indptr[v + 1]):
                last[v] = max(last[v], first[indices[j]])
    return begin, end


def branch_layout(Int32s order, Int64s bag_indptr, Int32s bag_indices):
    """Return the vertices of an elimination tree in preorder, the branch with the largest need last.

    The need of a branch bounds the size of the boundary while the branch is placed. When a child branch is complete,
    the boundary contains only vertices of its parent's bag. With bags of at most k vertices, the need of a branch is
    therefore the maximum of the largest need of a child and k plus the second largest. The need of the root is at most
    k (1 + log2 n).

    order : int32[n], bag_indptr : int64[n + 1], bag_indices : int32[k] bag i: order[i] and its remaining neighbours
    Returns int32[n].
    Cost: O(n log n + k) time, O(n) memory.
    """
    cdef Py_ssize_t n = order.shape[0], i, at = 0
    cdef int64_t j, top, size
    cdef vector[int64_t] place, need, stack
    cdef vector[vector[pair[int64_t, int64_t]]] children           # (-need, position)
    layout = np.empty(n, np.int32)
    cdef int[::1] out = layout
    with nogil:
        assign(place, n, 0)
        assign(need, n + 1, 0)
        # Entry n is an extra parent of all roots.
        children.resize(n + 1)
        for i in range(n):
            place[order[i]] = i
        # Children come before parents.
        for i in range(n):
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
            children[top].push_back(pair[int64_t, int64_t](-need[i], i))
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


def minimum_layout(Int64s indptr, Int32s indices):
    """Return a layout that minimizes the largest boundary, by dynamic programming over subsets.

    indptr : int64[n + 1], indices : int32[2 m]
    Returns int32[n].
    Cost: O(2^n n) time, 2^n bytes of memory; for more than about 20 vertices use `place_early`.
    """
    cdef Py_ssize_t n = indptr.shape[0] - 1, v, last
    cdef int64_t j
    cdef uint64_t placed, left, states = <uint64_t>1 << n
    cdef vector[uint64_t] near
    cdef vector[unsigned char] width                            # indexed by vertex set
    cdef unsigned char boundary
    layout = np.empty(n, np.int32)
    cdef int[::1] out = layout
    with nogil:
        assign(near, n, 0)
        assign(width, states, 0)
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


def leftmost_topological_order(Int64s pred_indptr, Int64s succ_indptr, Int32s succ,
                       Int64s place):
    """Return the topological order that always takes the ready node of smallest position, then of smallest id.

    pred_indptr, succ_indptr : int64[n + 1], succ : int32[edges], place : int64[n]
    Returns int32[n].
    Cost: O(n log n + edges) time, O(n) memory.
    """
    cdef Py_ssize_t n = place.shape[0], at = 0
    cdef int64_t j
    cdef int v
    cdef vector[int64_t] waits
    # The queue returns the largest entry first, so both numbers are negated.
    cdef priority_queue[pair[int64_t, int]] queue
    order = np.empty(n, np.int32)
    cdef int[::1] out = order
    with nogil:
        for v in range(<int>n):
            waits.push_back(pred_indptr[v + 1] - pred_indptr[v])
            if waits[v] == 0:
                push(queue, pair[int64_t, int](-place[v], -v))
        while not queue.empty():
            v = -queue.top().second
            queue.pop()
            out[at] = v
            at += 1
            for j in range(succ_indptr[v], succ_indptr[v + 1]):
                waits[succ[j]] -= 1
                if waits[succ[j]] == 0:
                    push(queue, pair[int64_t, int](-place[succ[j]], -succ[j]))
    return order


# Subsets of bags.

cdef inline bint _holds(const int* bags, int64_t begin, int64_t end, int v) noexcept nogil:
    """Return True if an ascending bag contains the vertex."""
    cdef const int* at = lower_bound(bags + begin, bags + end, v)
    return at != bags + end and at[0] == v


cdef bint _inside(const int* bags, int64_t begin, int64_t end, int64_t other, int64_t other_end) noexcept nogil:
    """Return True if the first bag is a subset of the second, in O(size of first * log(size of second)) time."""
    cdef int64_t j
    cdef const int* at = bags + other
    if end - begin > other_end - other:
        return False
    for j in range(begin, end):
        at = lower_bound(at, bags + other_end, bags[j])
        if at == bags + other_end or at[0] != bags[j]:
            return False
    return True


cdef inline int _merged_into(int* into, int x) noexcept nogil:
    """Return the remaining bag into which x was merged, directly or indirectly."""
    while into[x] != x:
        into[x] = into[into[x]]
        x = into[x]
    return x


# A forest of bags.

@cython.final
cdef class _Forest:
    """A tree from which bags are removed, and the sizes of its parts.

    near[start[x]:start[x + 1]] are the neighbours of bag x in the tree, including those that have been removed.
    """
    cdef vector[int64_t] start
    cdef vector[int] near                                      # ascending for each bag
    cdef vector[char] removed
    # Bags of the part visited last, in breadth-first order.
    cdef vector[int] walk
    # For each bag x of this part, if the first bag of the walk is the root: its parent (`above`), the size of its
    # subtree, and the size of the largest piece that removing x leaves.
    cdef vector[int] above, size, largest

    def __cinit__(self, Int32s parent):
        cdef Py_ssize_t b = parent.shape[0], i
        # `start` is shifted by one entry while the rows are filled.
        assign(self.start, b + 2, 0)
        for i in range(b):
            if parent[i] >= 0:
                self.start[i + 2] += 1
                self.start[parent[i] + 2] += 1
        for i in range(b):
            self.start[i + 2] += self.start[i + 1]
        self.near.resize(self.start[b + 1])
        for i in range(b):
            if parent[i] >= 0:
                self.near[self.start[i + 1]] = parent[i]
                self.near[self.start[parent[i] + 1]] = <int>i
                self.start[i + 1] += 1
                self.start[parent[i] + 1] += 1
        for i in range(b):
            sort(self.near.begin() + self.start[i], self.near.begin() + self.start[i + 1])
        assign(self.removed, b, 0)
        self.above.resize(b)
        self.size.resize(b)
        self.largest.resize(b)

    cdef int visit(self, int begin) except -1 nogil:
        """Visit the part that contains a bag; compute `above`, `size` and `largest` with this bag as the root."""
        cdef Py_ssize_t at = 0, total
        cdef int64_t j
        cdef int x, y
        self.walk.clear()
        self.walk.push_back(begin)
        self.above[begin] = -1
        while at < <Py_ssize_t>self.walk.size():
            x = self.walk[at]
            at += 1
            self.size[x], self.largest[x] = 1, 0
            for j in range(self.start[x], self.start[x + 1]):
                y = self.near[j]
                if y != self.above[x] and not self.removed[y]:
                    self.above[y] = x
                    self.walk.push_back(y)
        total = at
        while at:
            at -= 1
            x = self.walk[at]
            y = self.above[x]
            self.largest[x] = max(self.largest[x], <int>total - self.size[x])
            if y >= 0:
                self.size[y] += self.size[x]
                self.largest[y] = max(self.largest[y], self.size[x])

    cdef int separator(self, Int64s bytes_left) noexcept nogil:
        """Return the bag of minimum bytes_left whose removal leaves pieces of at most two thirds of the part.

        Ties go to the bag whose removal leaves the smallest maximum piece, then to the smallest id. If all bytes are
        equal, this piece is at most half of the part.
        """
        cdef int best = -1, x
        for x in self.walk:
            if 3 * <int64_t>self.largest[x] > 2 * <int64_t>self.walk.size():
                continue
            if (best < 0 or bytes_left[x] < bytes_left[best]
                    or (bytes_left[x] == bytes_left[best]
                        and (self.largest[x] < self.largest[best]
                             or (self.largest[x] == self.largest[best] and x < best)))):
                best = x
        return best


# Boundaries of layouts.

@cython.final
cdef class _Boundary:
    """The boundary of a growing set of placed vertices, and by how much placing another vertex would change its size.

    rest[v] is the number of unplaced neighbours of v. For an unplaced vertex v, closes[v] is the number of placed
    vertices whose only unplaced neighbour is v. `touched` contains the unplaced vertices whose counts changed in the
    last call of `place`, some of them twice.
    """
    cdef Int64s indptr
    cdef Int32s indices
    cdef vector[int64_t] rest, closes
    cdef vector[char] placed
    cdef vector[int] touched

    def __cinit__(self, Int64s indptr, Int32s indices):
        cdef Py_ssize_t n = indptr.shape[0] - 1, v
        self.indptr, self.indices = indptr, indices
        assign(self.closes, n, 0)
        assign(self.placed, n, 0)
        for v in range(n):
            self.rest.push_back(indptr[v + 1] - indptr[v])

    cdef int64_t change(self, int v) noexcept nogil:
        """Return by how much placing v enlarges the boundary. While v is unplaced, this number never increases."""
        return (self.rest[v] > 0) - self.closes[v]

    cdef int place(self, int v) except -1 nogil:
        cdef int64_t j
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

    cdef int close_by_last(self, int u) except -1 nogil:
        """Increment `closes` of the only unplaced neighbour of the placed vertex u."""
        cdef int64_t j = self.indptr[u]
        while self.placed[self.indices[j]]:
            j += 1
        self.closes[self.indices[j]] += 1
        self.touched.push_back(self.indices[j])
