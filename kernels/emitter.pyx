# distutils: language = c++
"""Orders of the nodes of a graph: orders that follow recomputation decisions, and one-pass orders with a low peak."""

import numpy as np

from libc.stdint cimport uint64_t
from libc.string cimport memcpy
from libcpp.algorithm cimport sort
from libcpp.vector cimport vector
from remat_algos.kernels.bitsets cimport bit_words, has_bit, random_word, set_bit
from remat_algos.kernels.graph cimport GraphArrays
from remat_algos.kernels.growing cimport assign
from remat_algos.kernels.types cimport Flags, Int32s, Int64s, int64_t


# Orders that run each forward node once, then each gradient after the recomputations that it needs.

def mirror_order(GraphArrays graph not None, Int32s owner, Int64s mirror_count):
    """Return the order that mirror counts describe.

    Copy k of a node reads copy min(k, mirror count) of each predecessor. Gradients read the last copy.
    owner : int32[n] the forward node of each gradient, -1 for forward nodes;
    mirror_count : int64[n]
    Returns int32[m].
    Cost: O(n + m + reads of all runs) time; O(n + sum of the counts) memory.
    """
    cdef Int64s read_indptr = graph.read_indptr
    cdef Flags needed = graph.needed
    cdef Py_ssize_t n = graph.n_nodes, v, top
    cdef int64_t j, k, copy
    cdef int u, x
    cdef bint descended
    cdef vector[int] order
    first_copy = np.zeros(n + 1, np.int64)
    np.cumsum(np.asarray(mirror_count) + 1, out=first_copy[1:])
    cdef int64_t[::1] base = first_copy
    cdef unsigned char[::1] done = np.zeros(first_copy[n], np.uint8)
    # Stack of runs: each waits for the one above it, so node ids decrease from the bottom to the top.
    cdef int[::1] path_node = np.empty(n + 1, np.int32)
    cdef int64_t[::1] path_copy = np.empty(n + 1, np.int64)
    cdef int64_t[::1] path_read = np.empty(n + 1, np.int64)
    with nogil:
        for v in range(n):
            if needed[v] and owner[v] < 0:
                order.push_back(<int>v)
                done[base[v]] = 1
        for v in range(n):
            if not needed[v] or owner[v] < 0:
                continue
            # The gradient itself is at the bottom of the stack.
            top = 0
            path_node[0] = <int>v
            path_copy[0] = -1
            path_read[0] = read_indptr[v]
            while top >= 0:
                descended = False
                k = path_copy[top]
                j = path_read[top]
                while j < read_indptr[path_node[top] + 1]:
                    x = graph.read_indices[j]
                    j += 1
                    u = graph.producer[x]
                    if graph.output[x] or owner[u] >= 0:
                        continue
                    copy = mirror_count[u] if k < 0 or k > mirror_count[u] else k
                    if not done[base[u] + copy]:
                        path_read[top] = j
                        top += 1
                        path_node[top] = u
                        path_copy[top] = copy
                        path_read[top] = read_indptr[u]
                        descended = True
                        break
                if not descended:
                    u = path_node[top]
                    if top > 0:
                        done[base[u] + path_copy[top]] = 1
                    order.push_back(u)
                    top -= 1
    return _as_array(order)


def canonical_order(GraphArrays graph not None, Int32s owner, *, Int32s block, Flags kept, Flags never_recomputed,
                    Int32s co_input_from, int n_blocks, bint lazy):
    """Return the canonical order of a chain of lower sets: forward, then the gradients from last to first block.

    owner : int32[n] the forward node of each gradient, -1 for forward nodes; block : int32[n] 0 to n_blocks - 1 for
    each forward node; kept : uint8[n] flags of the forward nodes that are not recomputed in their own block;
    never_recomputed : uint8[n] flags of those kept nodes that no later block recomputes; co_input_from : int32[n] first
    block whose gradients may read the node as a co-input; lazy : True to recompute a node just before its first reader
    Returns int32[m].
    Cost: O(n + m + reads of all runs) time, and for each block the nodes that stay live beyond their own block, up to
    O(n) per block if co-inputs reach far; O(n + m) memory.
    """
    cdef Int64s read_indptr = graph.read_indptr
    cdef Py_ssize_t n = graph.n_nodes, v, top, i, left, place
    cdef int64_t j
    cdef int u, x, b
    cdef bint descended
    cdef vector[int] order
    # Forward nodes in memory whose values will be freed after some block.
    cdef vector[int] running
    cdef vector[vector[int]] forward, backward                     # nodes of each block
    # Flags of the nodes whose values are in memory; for a gradient, set once it has run.
    cdef unsigned char[::1] in_memory = np.array(kept, np.uint8)
    cdef int[::1] path_node = np.empty(n + 1, np.int32)
    cdef int64_t[::1] path_read = np.empty(n + 1, np.int64)
    with nogil:
        forward.resize(n_blocks)
        backward.resize(n_blocks)
        for v in range(n):
            if graph.needed[v]:
                if owner[v] < 0:
                    forward[block[v]].push_back(<int>v)
                else:
                    backward[block[owner[v]]].push_back(<int>v)
        for b in range(n_blocks):
            order.insert(order.end(), forward[b].begin(), forward[b].end())
        for b in range(n_blocks - 1, -1, -1):
            for place in range((0 if lazy else <Py_ssize_t>forward[b].size()) + <Py_ssize_t>backward[b].size()):
                if not lazy and place < <Py_ssize_t>forward[b].size():
                    v = forward[b][place]
                    if in_memory[v]:
                        continue
                else:
                    v = backward[b][place - (0 if lazy else <Py_ssize_t>forward[b].size())]
                    # The gradient ran earlier, for the sum of a tied parameter's gradients.
                    if in_memory[v]:
                        continue
                top = 0
                path_node[0] = <int>v
                path_read[0] = read_indptr[v]
                while top >= 0:
                    descended = False
                    j = path_read[top]
                    while j < read_indptr[path_node[top] + 1]:
                        x = graph.read_indices[j]
                        j += 1
                        u = graph.producer[x]
                        if in_memory[u] or (graph.output[x] and owner[u] < 0):
                            continue
                        path_read[top] = j
                        top += 1
                        path_node[top] = u
                        path_read[top] = read_indptr[u]
                        descended = True
                        break
                    if not descended:
                        u = path_node[top]
                        order.push_back(u)
                        in_memory[u] = 1
                        if owner[u] < 0:
                            running.push_back(u)
                        top -= 1
            # As in kusumoto2019, kept values are freed after the backward part of their block.
            if not lazy:
                for i in range(<Py_ssize_t>forward[b].size()):
                    if kept[forward[b][i]] and not never_recomputed[forward[b][i]]:
                        running.push_back(forward[b][i])
            left = 0
            for i in range(<Py_ssize_t>running.size()):
                u = running[i]
                if block[u] > b - 1 and co_input_from[u] <= b - 1:
                    running[left] = u
                    left += 1
                else:
                    in_memory[u] = 0
            running.resize(left)
    return _as_array(order)


cdef object _as_array(vector[int]& order):
    result = np.empty(order.size(), np.int32)
    cdef int[::1] out = result
    if order.size():
        memcpy(&out[0], order.data(), order.size() * sizeof(int))
    return result


# An order with each needed node once.

def beam_search_order(GraphArrays graph not None, Int32s nodes, Py_ssize_t beam):
    """Return an order with a low peak by beam search: each step keeps the `beam` node sets with the lowest peaks.

    nodes : int32[m] the needed nodes, ascending; beam : 1 or more
    Returns int32[m].
    Cost: O(beam m^2) tests whether a node is ready, and a simulated step for each ready node; O(beam m) memory. Too
    slow for more than a few thousand nodes: on those, other methods find better orders in the same time.
    """
    cdef Py_ssize_t n = graph.n_nodes, m = nodes.shape[0], w = bit_words(n)
    # The kept states of this step and of the next: sets of executed nodes, w words each.
    cdef vector[uint64_t] done, after
    cdef vector[int64_t] live, peak
    cdef vector[uint64_t] hashes
    cdef vector[_Extension] extensions, kept
    # For each kept state of each step: the state that it extends, and the node that it adds.
    cdef vector[int] origin, node
    cdef vector[Py_ssize_t] begin
    cdef Py_ssize_t s, i, at, state, entry
    cdef _Extension extension
    with nogil:
        assign(done, w, 0)
        live.push_back(0)
        peak.push_back(0)
        hashes.push_back(0)
        for at in range(m):
            extensions.clear()
            for s in range(<Py_ssize_t>live.size()):
                for i in range(m):
                    if has_bit(&done[s * w], nodes[i]):
                        continue
                    if not _ready(graph, &done[s * w], nodes[i]):
                        continue
                    extension.node, extension.origin = nodes[i], <int>s
                    extension.hashed = hashes[s] ^ random_word(nodes[i])
                    _simulate(graph, &done[s * w], live[s], peak[s], extension)
                    extensions.push_back(extension)
            sort(extensions.begin(), extensions.end(), &_is_better)
            kept.clear()
            for extension in extensions:
                if <Py_ssize_t>kept.size() < beam and not _among(kept, extension.hashed):
                    kept.push_back(extension)
            after.clear()
            live.clear()
            peak.clear()
            hashes.clear()
            begin.push_back(origin.size())
            for extension in kept:
                for i in range(w):
                    after.push_back(done[extension.origin * w + i])
                set_bit(&after[after.size() - w], extension.node)
                live.push_back(extension.live)
                peak.push_back(extension.peak)
                hashes.push_back(extension.hashed)
                origin.push_back(extension.origin)
                node.push_back(extension.node)
            done.swap(after)
    order = np.empty(m, np.int32)
    cdef int[::1] out = order
    state = 0
    for at in range(m - 1, -1, -1):
        entry = begin[at] + state
        out[at] = node[entry]
        state = origin[entry]
    return order


# A candidate state: a kept state extended by one node.
cdef struct _Extension:
    int64_t peak                            # peak up to the node
    int64_t live                            # live bytes after it
    uint64_t hashed                         # hash of executed nodes
    int origin                              # the extended state
    int node


cdef bint _is_better(const _Extension& a, const _Extension& b) noexcept nogil:
    """Return True if a precedes b when states are sorted by peak, live bytes, hash and node."""
    if a.peak != b.peak:
        return a.peak < b.peak
    if a.live != b.live:
        return a.live < b.live
    if a.hashed != b.hashed:
        return a.hashed < b.hashed
    return a.node < b.node


cdef bint _among(vector[_Extension]& kept, uint64_t hashed) noexcept nogil:
    cdef _Extension other
    for other in kept:
        if other.hashed == hashed:
            return True
    return False


cdef bint _ready(GraphArrays graph, const uint64_t* done, int v) noexcept nogil:
    cdef int64_t j
    for j in range(graph.read_indptr[v], graph.read_indptr[v + 1]):
        if not has_bit(done, graph.producer[graph.read_indices[j]]):
            return False
    return True


cdef void _simulate(GraphArrays graph, const uint64_t* done, int64_t live, int64_t peak,
                    _Extension& extension) noexcept nogil:
    """Set the peak and live bytes of an extension; `done`, `live` and `peak` describe the state that it extends."""
    cdef int v = extension.node, x
    cdef int64_t during = live + graph.workspace[v], remaining = live, j, k
    cdef bint live_after
    for j in range(graph.value_indptr[v], graph.value_indptr[v + 1]):
        during += graph.memory[j]
        live_after = graph.output[j] != 0
        for k in range(graph.reader_indptr[j], graph.reader_indptr[j + 1]):
            live_after |= graph.needed[graph.reader_indices[k]] != 0
        if live_after:
            remaining += graph.memory[j]
    for j in range(graph.read_indptr[v], graph.read_indptr[v + 1]):
        x = graph.read_indices[j]
        live_after = graph.output[x] != 0
        for k in range(graph.reader_indptr[x], graph.reader_indptr[x + 1]):
            live_after |= graph.needed[graph.reader_indices[k]] != 0 and graph.reader_indices[k] != v and not has_bit(done, graph.reader_indices[k])
        if not live_after:
            remaining -= graph.memory[x]
    extension.live = remaining
    extension.peak = peak if peak > during else during
