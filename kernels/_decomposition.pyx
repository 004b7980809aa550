# distutils: language = c++
"""Tree decompositions: from elimination orders, their laws, shrinking, balanced separators.

A decomposition is bag_indptr : int64[b + 1], bag_indices : int32[total] the vertices of each bag, ascending, and
parent : int32[b] the tree, -1 for the root; parents may stand anywhere.
"""

import numpy as np

from libcpp.algorithm cimport lower_bound

include "_parts.pxi"

NOT_ASCENDING, NO_TREE = 1, 2
VERTEX, EDGE, CONNECTED = 1, 2, 3


def bags_to_tree(const int[::1] order, const int64[::1] bag_indptr, const int[::1] bag_indices):
    """The tree of the bags of an elimination order: (bag_indices int32[total], each bag ascending; parent int32[b]).

    order : int32[b]; bag i holds order[i] and its neighbours at that time. The parent of a bag is that of the first
    eliminated among its others; further roots hang on the first.
    """
    cdef Py_ssize_t b = order.shape[0], i
    cdef int64 j
    cdef int first = -1, place
    indices, parent, position = np.array(bag_indices), np.full(b, -1, np.int32), np.empty(b, np.int32)
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


def fault(const int64[::1] bag_indptr, const int[::1] bag_indices, const int[::1] parent):
    """(NOT_ASCENDING, bag), (NO_TREE, a bag that does not hang on one root), or (0, -1).

    bag_indptr and parent fit each other; vertices below 0 count as not ascending.
    """
    cdef Py_ssize_t b = parent.shape[0], i, x
    cdef int64 j
    cdef int root = -1
    hangs = np.zeros(b, np.uint8)
    cdef unsigned char[::1] known = hangs
    cdef vector[int] walk
    for i in range(b):
        for j in range(bag_indptr[i], bag_indptr[i + 1]):
            if bag_indices[j] < 0 or (j > bag_indptr[i] and bag_indices[j - 1] >= bag_indices[j]):
                return NOT_ASCENDING, i
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
                return NO_TREE, i                              # round and round
            x = parent[x]
        for x in walk:
            known[x] = 1
    return 0, -1


def rooted(Py_ssize_t b, const int[:, ::1] edges):
    """The parents int32[b] of a tree of edges int32[b - 1, 2], rooted at bag 0; -2 where the edges do not reach."""
    cdef Py_ssize_t i, at = 0
    cdef int64 j
    cdef int x
    cdef vector[int64] start
    cdef vector[int] near, walk
    parent = np.full(b, -2, np.int32)
    cdef int[::1] above = parent
    start.assign(b + 2, 0)                                     # shifted by one while the rows are filled
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


cdef inline bint _holds(const int* bags, int64 begin, int64 end, int v) noexcept nogil:
    """Whether the vertex is among the ascending ones of a bag."""
    cdef const int* at = lower_bound(bags + begin, bags + end, v)
    return at != bags + end and at[0] == v


cdef bint _inside(const int* bags, int64 begin, int64 end, int64 other, int64 other_end) noexcept nogil:
    """Whether every vertex of the first bag stands in the second; time grows with the first, hardly with the second."""
    cdef int64 j
    cdef const int* at = bags + other
    if end - begin > other_end - other:
        return False
    for j in range(begin, end):
        at = lower_bound(at, bags + other_end, bags[j])
        if at == bags + other_end or at[0] != bags[j]:
            return False
    return True


def broken_law(const int64[::1] bag_indptr, const int[::1] bag_indices, const int[::1] parent,
               const int64[::1] indptr, const int[::1] indices):
    """The first law that the decomposition of a graph breaks, and by whom; (0, -1, -1, -1) if none.

    indptr : int64[n + 1], indices : int32[2 m] the neighbours of each vertex; the bags hold no vertex above
    Returns (VERTEX, v, -1, -1): v is in no bag; (CONNECTED, v, bag, bag): v is in both bags, not in all between;
    (EDGE, u, v, -1): no bag holds both.
    """
    cdef Py_ssize_t n = indptr.shape[0] - 1, b = parent.shape[0], i, v
    cdef int64 j
    cdef int u
    cdef const int* bags = &bag_indices[0] if bag_indices.shape[0] else NULL
    cdef vector[int] top                                       # the bag nearest to the root that holds the vertex
    top.assign(n, -1)
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
    for v in range(n):                                         # an edge stands in the lower of its two tops, or nowhere
        for j in range(indptr[v], indptr[v + 1]):
            u = indices[j]
            if (u > v and not _holds(bags, bag_indptr[top[v]], bag_indptr[top[v] + 1], u)
                    and not _holds(bags, bag_indptr[top[u]], bag_indptr[top[u] + 1], <int>v)):
                return EDGE, v, u, -1
    return 0, -1, -1, -1


cdef inline int _merged_into(int* into, int x) noexcept nogil:
    """The bag that x was merged into at last."""
    while into[x] != x:
        into[x] = into[into[x]]
        x = into[x]
    return x


def shrink(const int64[::1] bag_indptr, const int[::1] bag_indices, const int[::1] parent):
    """Merges bags that stand inside a neighbour, in one pass over the tree's edges.

    Returns (kept int32[k]: the bags that stay, ascending, parent int32[k]: their tree); of equal bags the first.
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


def separators(const int64[::1] bag_indptr, const int[::1] bag_indices, const int[::1] parent, const int64[::1] memory):
    """A tree of separators: each removes a bag from its part of the tree; its children are those of the pieces left.

    memory : int64[n] of each vertex, above every vertex of a bag. The bag with the least memory not yet owned is chosen
    among those that leave pieces of at most two thirds; without memory one that leaves at most half.
    Returns (end int32[b], above int32[b], owner int32[n], n_bags int32[b], bag int32[b]): separators in preorder,
    above -1 for the first; owner -1 for a vertex in no bag.
    """
    cdef Py_ssize_t b = parent.shape[0], n = memory.shape[0], i
    cdef int64 j, jj
    cdef int s = 0, x, v
    cdef _Parts parts = _Parts(parent)
    cdef vector[int64] bags_start
    cdef vector[int] bags_of, begins, aboves                   # parts still to do: a bag of theirs, the separator above
    end, tree, owner = np.empty(b, np.int32), np.full(b, -1, np.int32), np.full(n, -1, np.int32)
    n_bags, bag, unowned = np.empty(b, np.int32), np.empty(b, np.int32), np.zeros(b, np.int64)
    cdef int[::1] out_end = end, above = tree, owned = owner, count = n_bags, chosen = bag
    cdef int64[::1] bytes_left = unowned                        # not yet owned, of each bag
    with nogil:
        bags_start.assign(n + 2, 0)
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
            parts.visit(x)
            x = parts.separator(bytes_left)
            parts.removed[x] = 1
            chosen[s], count[s], out_end[s] = x, <int>parts.walk.size(), s + 1
            for j in range(bag_indptr[x], bag_indptr[x + 1]):
                v = bag_indices[j]
                if owned[v] < 0:
                    owned[v] = s
                    for jj in range(bags_start[v], bags_start[v + 1]):
                        bytes_left[bags_of[jj]] -= memory[v]
            for j in range(parts.start[x + 1] - 1, parts.start[x] - 1, -1):
                if not parts.removed[parts.near[j]]:
                    begins.push_back(parts.near[j])
                    aboves.push_back(s)
            s += 1
        for i in range(b - 1, 0, -1):
            out_end[above[i]] = max(out_end[above[i]], out_end[i])
    return end, tree, owner, n_bags, bag


def balanced_separator(const int[::1] parent):
    """The bag that leaves pieces of at most half of the bags (lowest id), -1 where there is no bag."""
    cdef _Parts parts = _Parts(parent)
    if not parent.shape[0]:
        return -1
    parts.visit(0)
    return parts.separator(np.zeros(parent.shape[0], np.int64))
