# distutils: language = c++
"""Peak, cached bytes and recomputed compute of a block of a canonical schedule, for pairs of lower sets L -> L'.

`block_borders` computes three sets for each lower set L, called its borders: boundary(L), d+(L) outside L, and
d-(d+(L)) outside L. Here d+(S) are the successors of S and d-(S) its predecessors. `BlockGraph` stores the graph,
`PairFigures` computes peak, cached bytes and recomputed compute of blocks.

A value is pinned if it stays live to the end of the schedule. For the current pair, each node has a state:

| state | nodes | when a node of the block reads it |
| --- | --- | --- |
| outside | not in L' | live, or recomputed as a transient, or not determined by L and L': see `need` |
| unsure | in L, kept or not depending on the earlier lower sets of the chain | the pair is unusable |
| missing | in the block, not kept | it is recomputed first |
| charged | in L and kept | live; the block that contains it counts its bytes |
| kept | in the block, kept | live since the forward part |
| again | in the block, recomputed | live until the block ends, longer if later blocks read it |
| passing | a transient: outside L', recomputed for a node of the block | live only for that node |
| gradient | in the backward part | live, since gradients are not recomputed |

`enter` sets the states `outside`, `unsure` and `charged` for a new L. `gather` sets `missing` and `kept` for a new L'.
`append` changes `missing` to `again`, and `outside` to `passing`. `leave` undoes the changes of `gather` and `append`.
"""

import numpy as np

cimport cython
from libc.stdint cimport uint64_t
from libcpp.vector cimport vector
from remat_algos.kernels.bitsets cimport bit_words, has_bit, is_subset, next_bit, remat_lowest, set_bit
from remat_algos.kernels.graph cimport GraphArrays
from remat_algos.kernels.types cimport Flags, Int32s, Int64s, int64_t


def block_borders(const uint64_t[:, ::1] words, Int32s reader, Int32s source, Int64s pinned):
    """Return the borders of each lower set in a graph with edges source -> reader.

    words : uint64[k, w], reader, source : int32[e], pinned : int64[m] pinned bytes of each node
    Returns (boundary uint64[k, w], d+(L) outside L uint64[k, w], d-(d+(L)) outside L uint64[k, w],
    bytes of all pinned values outside L int64[k]).
    Cost: O(k (e + m)) time, O(k w) memory: quadratic if there is a lower set for each node.
    """
    cdef Py_ssize_t k = words.shape[0], w = words.shape[1], i, v
    cdef int64_t e
    _check_size("words", w, bit_words(pinned.shape[0]))
    _check_size("source", source.shape[0], reader.shape[0])
    boundary, after, beside = (np.zeros((k, w), np.uint64) for _ in range(3))
    outside = np.full(k, np.sum(pinned), np.int64)
    cdef uint64_t[:, ::1] out_boundary = boundary, out_after = after, out_beside = beside
    cdef int64_t[::1] out_outside = outside
    with nogil:
        for i in range(k):
            for e in range(reader.shape[0]):
                if has_bit(&words[i, 0], source[e]) and not has_bit(&words[i, 0], reader[e]):
                    set_bit(&out_boundary[i, 0], source[e])
                    set_bit(&out_after[i, 0], reader[e])
            for e in range(reader.shape[0]):
                if has_bit(&out_after[i, 0], reader[e]) and not has_bit(&words[i, 0], source[e]):
                    set_bit(&out_beside[i, 0], source[e])
            v = next_bit(&words[i, 0], w, 0)
            while v >= 0:
                out_outside[i] -= pinned[v]
                v = next_bit(&words[i, 0], w, v + 1)
    return boundary, after, beside, outside


# A pair L -> L' is two lower sets, L a subset of L'. Its block consists of the nodes of L' outside L. The classes below
# compute the sequence in which a block recomputes its nodes and runs its gradients.

cdef enum NodeState:
    outside = 0                           # not in L'
    # In L. Whether it is kept depends on the earlier lower sets of the chain.
    unsure = 1
    # In the block, not kept.
    missing = 2
    # In L and kept. The block of the chain that contains the node counts its bytes. In this and all following states,
    # the values of the node are live.
    charged = 3
    kept = 4                              # in the block, kept
    again = 5                             # in the block, recomputed
    # A transient: not in L', recomputed for a node of the block.
    passing = 6
    gradient = 7

cdef enum Need:
    at_hand = -1
    # The pair does not determine whether the values of the node are live.
    unknown = -2

cdef enum:
    # Mark of a value of a gradient if the value stays live to the end of the block; larger than every pair number.
    for_good = 0x7FFFFFFF


@cython.final
cdef class BlockGraph:
    """A training graph, prepared for computing peak, cached bytes and recomputed compute of blocks.

    The graph has n nodes. The first m - 1 are its forward part. Node m - 1 is an extra node that runs nothing; it owns
    all gradients without an owner in the forward part. Arrays x_indptr and x_indices (or x_values) store CSR rows.

    owner : int32[n] the forward node of each gradient, -1 in the forward part
    row : int32[n], row_indptr : int64[<= n + 1], row_values : unpinned forward values that each node reads; node v has
        row row[v], because equal rows are stored only once
    upstream_indptr : int64[n + 1], upstream_values : unpinned values of gradients, for each node that reads them
    owned_indptr : int64[m + 1], owned_indices : gradients of each node, in order
    reader_indptr : int64[n_values + 1], reader_indices : forward nodes that read each value
    claim_indptr : int64[n + 1], claim_indices : for each node v, the nodes that own a gradient that reads v. Only v
        itself and predecessors of v are listed.
    external_indptr : int64[n + 1], external_indices : for each gradient g, the owners of those gradients that g
        reads and that a later block may run
    runs, fixed, never : uint8[m] flags of the nodes that run, that are always kept, and that are never kept
    awaited : int64[m] for each node, the bytes of its values that its own gradients read
    gradient_reads : uint8[n_values] flags of the values that gradients read
    lazy : True if a node is recomputed just before the first gradient that reads it, False if the block recomputes all
        its nodes first
    """
    cdef Int32s owner, producer, row, row_values, row_producers
    cdef Int32s upstream_values, owned_indices, reader_indices, claim_indices, external_indices
    cdef Int64s value_indptr, row_indptr, upstream_indptr
    cdef Int64s owned_indptr, reader_indptr, claim_indptr, external_indptr
    cdef Flags runs, fixed, never, output, gradient_reads
    cdef Int64s memory, compute, workspace, awaited
    cdef bint lazy

    def __init__(
        self,
        GraphArrays graph not None,
        *,
        Int32s owner not None,
        Int32s row not None,
        Int64s row_indptr not None,
        Int32s row_values not None,
        Int64s upstream_indptr not None,
        Int32s upstream_values not None,
        Int64s owned_indptr not None,
        Int32s owned_indices not None,
        Int64s reader_indptr not None,
        Int32s reader_indices not None,
        Int64s claim_indptr not None,
        Int32s claim_indices not None,
        Int64s external_indptr not None,
        Int32s external_indices not None,
        Flags runs not None,
        Flags fixed not None,
        Flags never not None,
        Int64s awaited not None,
        Flags gradient_reads not None,
        bint lazy,
    ):
        cdef Py_ssize_t n = graph.n_nodes, n_values = graph.n_values, m = runs.shape[0]
        for name, size, expected in (
            ("owner", owner.shape[0], n),
            ("row", row.shape[0], n),
            ("fixed", fixed.shape[0], m),
            ("never", never.shape[0], m),
            ("awaited", awaited.shape[0], m),
            ("gradient_reads", gradient_reads.shape[0], n_values),
        ):
            _check_size(name, size, expected)
        if not 1 <= m <= n + 1:
            raise ValueError(f"runs has the length {m}, expected 1 to {n + 1}")
        if not 1 <= row_indptr.shape[0] <= n + 1:
            raise ValueError(f"row_indptr has the length {row_indptr.shape[0]}, expected 1 to {n + 1}")
        _check_rows("row", row_indptr, row_indptr.shape[0] - 1, row_values)
        _check_rows("upstream", upstream_indptr, n, upstream_values)
        _check_rows("owned", owned_indptr, m, owned_indices)
        _check_rows("reader", reader_indptr, n_values, reader_indices)
        _check_rows("claim", claim_indptr, n, claim_indices)
        _check_rows("external", external_indptr, n, external_indices)
        self.owner, self.producer, self.value_indptr = owner, graph.producer, graph.value_indptr
        self.memory, self.compute, self.workspace = graph.memory, graph.compute, graph.workspace
        self.row, self.row_indptr, self.row_values = row, row_indptr, row_values
        self.row_producers = np.asarray(graph.producer)[np.asarray(row_values)]
        self.upstream_indptr, self.upstream_values = upstream_indptr, upstream_values
        self.owned_indptr, self.owned_indices = owned_indptr, owned_indices
        self.reader_indptr, self.reader_indices = reader_indptr, reader_indices
        self.claim_indptr, self.claim_indices = claim_indptr, claim_indices
        self.external_indptr, self.external_indices = external_indptr, external_indices
        self.runs, self.fixed, self.never, self.awaited = runs, fixed, never, awaited
        self.output, self.gradient_reads, self.lazy = graph.output, gradient_reads, lazy


cdef class _BlockOrder:
    """The sequence of the block of the current pair L -> L'.

    A mark is set if it equals `pair`, the number of the current pair. So a new pair clears all marks, and only the
    states must be reset.
    """
    cdef BlockGraph graph
    # Bounds on the peak and on the recomputed compute of a block, for the current L.
    cdef int64_t max_peak, max_recompute
    # Bit sets: L (`inside`), L' (`upto`), and the borders of both (see the top of this file).
    cdef const uint64_t *inside
    cdef const uint64_t *upto
    cdef const uint64_t *edge_upto        # boundary(L')
    # `after`: d+(L) outside L (successors). `beside`: d-(d+(L)) outside L (predecessors of the successors).
    cdef const uint64_t *beside
    cdef const uint64_t *after
    cdef const uint64_t *beside_upto      # d-(d+(L')), outside L'
    cdef const uint64_t *after_upto       # d+(L'), outside L'
    cdef int pair
    cdef int[::1] state, answered
    cdef uint64_t[::1] pending
    cdef int[::1] sequence
    cdef vector[int] members, path
    cdef vector[int64_t] path_place
    cdef int64_t first_need, kept_need, spent, transient_spent
    cdef Py_ssize_t steps                 # length of the sequence
    cdef int first_gradient
    cdef bint begun, transient

    @cython.final
    cdef void enter(self, const uint64_t* edge) noexcept nogil:
        """Set the states of all forward nodes for a new L."""
        cdef Py_ssize_t v
        for v in range(self.graph.runs.shape[0] - 1):
            if self.state[v] != gradient:
                self.state[v] = outside
                if has_bit(self.inside, v):
                    self.state[v] = charged if has_bit(edge, v) or self.graph.fixed[v] else unsure

    @cython.final
    cdef bint gather(self, Py_ssize_t w, bint keep_all) except -1 nogil:
        """Collect the nodes and gradients of the block; return False if a node of boundary(L') must not be kept."""
        cdef Py_ssize_t i, v
        cdef int64_t j
        cdef uint64_t word
        cdef bint on_edge, sound = True
        self.members.clear()
        self.first_need = 0
        for i in range(w):
            word = self.upto[i] & ~self.inside[i]
            while word:
                v = (i << 6) + remat_lowest(word)
                word &= word - 1
                for j in range(self.graph.owned_indptr[v], self.graph.owned_indptr[v + 1]):
                    set_bit(&self.pending[0], self.graph.owned_indices[j])
                if not self.graph.runs[v]:
                    continue
                self.members.push_back(<int>v)
                self.state[v] = missing
                on_edge = has_bit(self.edge_upto, v)
                if self.graph.never[v]:
                    sound = sound and not on_edge
                elif on_edge or keep_all or self.graph.fixed[v]:
                    self.state[v] = kept
                    self.first_need += self.graph.awaited[v]
        self.kept_need = self.first_need
        if not sound:
            for i in range(self.pending.shape[0]):
                self.pending[i] = 0
        return sound

    @cython.final
    cdef void leave(self) noexcept nogil:
        cdef Py_ssize_t i
        for i in range(<Py_ssize_t>self.members.size()):
            self.state[self.members[i]] = outside
        if self.transient:
            for i in range(self.steps):
                if self.state[self.sequence[i]] == passing:
                    self.state[self.sequence[i]] = outside

    @cython.final
    cdef bint claimed_outside(self, int u) noexcept nogil:
        """Return True if a gradient whose owner is outside L' reads u.

        The block of that gradient runs earlier in the backward part, and leaves u live.
        """
        cdef int64_t j
        for j in range(self.graph.claim_indptr[u], self.graph.claim_indptr[u + 1]):
            if not has_bit(self.upto, self.graph.claim_indices[j]):
                return True
        return False

    @cython.final
    cdef bint claims(self, int u, int w) noexcept nogil:
        """Return True if a gradient owned by u reads a value of w."""
        cdef int64_t j
        for j in range(self.graph.claim_indptr[w], self.graph.claim_indptr[w + 1]):
            if self.graph.claim_indices[j] == u:
                return True
        return False

    @cython.final
    cdef int need(self, int v, int u) noexcept nogil:
        """Return what must run before v reads u: u itself, nothing if u is live (`at_hand`), or `unknown`."""
        if self.state[u] == missing:
            return u
        if self.state[u] == unsure:
            return unknown
        if self.graph.fixed[u] or has_bit(self.beside_upto, u) and (not self.graph.lazy or self.claimed_outside(u)):
            return at_hand
        # A gradient owned by u reads v. So the block of u, whose backward part ran earlier, recomputed v from u and
        # left u live.
        if self.state[v] != gradient and self.claims(u, v):
            return at_hand
        return u if has_bit(self.after_upto, u) else unknown

    @cython.final
    cdef bint run(self, int v) except -1 nogil:
        """Append the nodes that must be recomputed for v, then v. Return False if L and L' do not determine these."""
        cdef int u = at_hand
        cdef int64_t j = self.graph.row_indptr[self.graph.row[v]]
        while True:
            while j < self.graph.row_indptr[self.graph.row[v] + 1] and u == at_hand:
                if self.state[self.graph.row_producers[j]] < charged:
                    u = self.need(v, self.graph.row_producers[j])
                j += 1
            if u == unknown:
                self.path.clear()
                self.path_place.clear()
                return False
            if u >= 0:
                self.path.push_back(v)
                self.path_place.push_back(j)
                v, j, u = u, self.graph.row_indptr[self.graph.row[u]], at_hand
                continue
            self.append(v)
            if self.path.empty():
                return True
            v, j = self.path.back(), self.path_place.back()
            self.path.pop_back()
            self.path_place.pop_back()

    @cython.final
    cdef void append(self, int v) noexcept nogil:
        self.sequence[self.steps] = v
        self.steps += 1
        self.spent += self.graph.compute[v] if self.state[v] != gradient else 0
        # Mark the row of v, because all values in the row are now live. Transients are excluded: some inputs may be
        # live only for the transient.
        if self.state[v] != outside:
            self.answered[self.graph.row[v]] = self.pair
        if self.state[v] == missing:
            self.state[v] = again
            # Values that are recomputed before the first gradient are live when that gradient runs.
            self.first_need += 0 if self.begun else self.graph.awaited[v]
        elif self.state[v] == outside:
            self.state[v] = passing
            self.transient = True
            self.transient_spent += self.graph.compute[v]

    @cython.final
    cdef bint too_early(self, int b) noexcept nogil:
        """Return True if b reads a gradient owned by a node of L. That gradient runs after b, in a later block."""
        cdef int64_t j
        for j in range(self.graph.external_indptr[b], self.graph.external_indptr[b + 1]):
            if self.state[self.graph.external_indices[j]] in (charged, unsure):
                return True
        return False

    @cython.final
    cdef bint within_bounds(self) noexcept nogil:
        """Return True if the unfinished sequence is within the bounds on peak and recomputed compute."""
        return self.first_need <= self.max_peak and self.spent <= self.max_recompute

    @cython.final
    cdef bint emit(self) except -1 nogil:
        """Build the sequence of the block's backward part; return False if the pair is unusable or exceeds a bound."""
        cdef Py_ssize_t i
        cdef int b
        cdef uint64_t word
        cdef bint sound = True, any_external = self.graph.external_indices.shape[0] > 0
        self.steps, self.spent, self.transient_spent = 0, 0, 0
        self.begun, self.transient, self.first_gradient = False, False, -1
        if not self.graph.lazy:
            for i in range(<Py_ssize_t>self.members.size()):
                if sound and self.state[self.members[i]] == missing:
                    sound = self.run(self.members[i]) and self.within_bounds()
        for i in range(self.pending.shape[0]):
            word = self.pending[i]
            self.pending[i] = 0
            while word and sound:
                b = <int>((i << 6) + remat_lowest(word))
                word &= word - 1
                if not self.begun:
                    self.first_gradient = b
                if any_external and self.too_early(b):
                    sound = False
                # All forward values that b reads are already live.
                elif self.answered[self.graph.row[b]] == self.pair:
                    self.sequence[self.steps] = b
                    self.steps += 1
                else:
                    sound = self.run(b) and self.within_bounds()
                self.begun = True
        return sound


@cython.final
cdef class PairFigures(_BlockOrder):
    """PairFigures(graph): compute peak, cached bytes and recomputed compute of the block of a pair of lower sets.

    Each call of `figures` resets all state, so it is also valid after a MemoryError.
    """
    cdef int[::1] seen, marked, extender, shown, counted, read, first_read
    # For the current L: the numbers of the sets L' such that the blocks of L' and of all its supersets exceed a bound.
    cdef vector[Py_ssize_t] hopeless
    # Flags of the values outside L that gradients of nodes of L read, and of the values needed to recompute them.
    cdef unsigned char[::1] later
    # For each transient: bytes of the inputs that are live for it alone (`extends`), bytes of its values (`keeps`).
    cdef int64_t[::1] extends, keeps
    cdef vector[int] later_values, todo
    cdef const uint64_t *first_row
    cdef int64_t later_total

    def __init__(self, BlockGraph graph not None):
        cdef Py_ssize_t n = graph.owner.shape[0], n_values = graph.memory.shape[0]
        self.graph = graph
        self.state, self.sequence = np.empty(n, np.int32), np.empty(n, np.int32)
        self.answered, self.shown = np.empty(n, np.int32), np.empty(n, np.int32)
        self.seen, self.marked, self.extender = (np.empty(n_values, np.int32) for _ in range(3))
        self.counted, self.read, self.first_read = (np.empty(n_values, np.int32) for _ in range(3))
        self.later = np.empty(n_values, np.uint8)
        self.extends, self.keeps = np.empty(n, np.int64), np.empty(n, np.int64)
        self.pending = np.empty(bit_words(n) + 1, np.uint64)

    def figures(
        self,
        const uint64_t[:, ::1] words not None,
        *,
        const uint64_t[:, ::1] boundary not None,
        const uint64_t[:, ::1] after not None,
        const uint64_t[:, ::1] beside not None,
        Int64s pinned not None,
        Int64s indptr not None,
        Int32s target not None,
        Flags keep_all not None,
        int64_t max_peak,
        int64_t max_recompute,
        int64_t[::1] cached_before not None,
        int64_t[::1] recompute_before not None,
    ):
        """Return the peak, the cached bytes and the recomputed compute of the block of each pair.

        words : uint64[k, w] lower sets of m nodes; boundary, after, beside, pinned : from `block_borders`;
        indptr : int64[k + 1], target : int32[p] CSR rows of pairs; targets follow their sources;
        keep_all : uint8[k] True if all nodes of a block that ends with this set are kept;
        max_peak, max_recompute : maximum peak and recomputed compute of a chain;
        cached_before, recompute_before : int64[k] minimum cached bytes and minimum recomputed compute of the chains
        that end at each set, or -1 for a set without such a chain. The call updates them. If their length is 0, the two
        maxima apply to each block alone.
        Returns (peak int64[p], cached int64[p], recompute int64[p]); peak is -1 if the pair is unusable or exceeds a
        maximum. Cached bytes are those of the block that stay live while later blocks run.
        Cost: for each pair about the reads of its block and of the gradients that the block owns, and O(k w) words
        to compare sets; O(m + n_values + p) memory.
        """
        cdef Py_ssize_t k = words.shape[0], w = words.shape[1], source, t
        cdef bint along = cached_before.shape[0] > 0
        cdef int64_t p, peak, stays = 0, before = 0, spent_before = 0
        for name, size, expected in (
            ("words", w, bit_words(self.graph.runs.shape[0])),
            ("boundary", boundary.shape[0], k),
            ("boundary", boundary.shape[1], w),
            ("after", after.shape[0], k),
            ("after", after.shape[1], w),
            ("beside", beside.shape[0], k),
            ("beside", beside.shape[1], w),
            ("pinned", pinned.shape[0], k),
            ("keep_all", keep_all.shape[0], k),
            ("cached_before", cached_before.shape[0], k if along else 0),
            ("recompute_before", recompute_before.shape[0], k if along else 0),
        ):
            _check_size(name, size, expected)
        _check_rows("pairs", indptr, k, target)
        peaks = np.full(target.shape[0], -1, np.int64)
        cached, recompute = np.zeros_like(peaks), np.zeros_like(peaks)
        cdef int64_t[::1] out_peak = peaks, out_cached = cached, out_recompute = recompute
        if k == 0:
            return peaks, cached, recompute
        self.first_row = &words[0, 0]
        self.max_peak, self.max_recompute = max_peak, max_recompute
        with nogil:
            self.begin()
            for source in range(k):
                if indptr[source] == indptr[source + 1] or along and cached_before[source] < 0:
                    continue
                if along:
                    before, spent_before = cached_before[source], recompute_before[source]
                    self.max_peak, self.max_recompute = max_peak - before, max_recompute - spent_before
                self.inside, self.after, self.beside = &words[source, 0], &after[source, 0], &beside[source, 0]
                self.enter(&boundary[source, 0])
                self.look_ahead(source, w)
                self.hopeless.clear()
                for p in range(indptr[source], indptr[source + 1]):
                    t = target[p]
                    self.pair = <int>p + 1
                    self.upto, self.edge_upto = &words[t, 0], &boundary[t, 0]
                    self.after_upto, self.beside_upto = &after[t, 0], &beside[t, 0]
                    if not keep_all[t] and self.is_hopeless(w):
                        continue
                    peak = -1
                    if self.gather(w, keep_all[t]):
                        if self.emit():
                            peak = self.backward_peak(self.end(pinned[source]))
                            if peak <= self.max_peak:
                                stays = self.cache()
                                peak = max(peak, self.forward_peak(stays))
                        if peak < 0 and not self.within_bounds() or peak > self.max_peak:
                            if not keep_all[t] and self.exceeds_with_more(peak >= 0):
                                self.hopeless.push_back(t)
                        elif peak >= 0:
                            out_peak[p], out_cached[p], out_recompute[p] = peak, stays, self.spent
                            if along and cached_before[t] < 0:
                                cached_before[t] = before + stays
                                recompute_before[t] = spent_before + self.spent
                            elif along:
                                cached_before[t] = min(cached_before[t], before + stays)
                                recompute_before[t] = min(recompute_before[t], spent_before + self.spent)
                    self.leave()
        return peaks, cached, recompute

    cdef void begin(self) noexcept nogil:
        """Reset states and marks before the first pair."""
        cdef Py_ssize_t i, v
        cdef int64_t x
        self.later_values.clear()
        self.todo.clear()
        self.path.clear()
        self.path_place.clear()
        for i in range(self.pending.shape[0]):
            self.pending[i] = 0
        for v in range(self.graph.owner.shape[0]):
            self.state[v] = outside if self.graph.owner[v] < 0 else gradient
            self.answered[v] = self.shown[v] = 0
            for x in range(self.graph.value_indptr[v], self.graph.value_indptr[v + 1]):
                self.seen[x] = for_good if self.graph.output[x] and self.graph.owner[v] >= 0 else 0
                self.marked[x] = self.counted[x] = self.read[x] = 0
                self.later[x] = False

    cdef int look_ahead(self, Py_ssize_t source, Py_ssize_t w) except -1 nogil:
        """Mark the values outside L that gradients of nodes of L read, and the values needed to recompute them."""
        cdef Py_ssize_t v
        cdef int64_t j
        cdef size_t i
        for i in range(self.later_values.size()):
            self.later[self.later_values[i]] = False
            self.seen[self.later_values[i]] = 0
        self.later_values.clear()
        self.later_total = 0
        self.pair = <int>(-1 - source)
        v = next_bit(self.inside, w, 0)
        while v >= 0:
            for j in range(self.graph.owned_indptr[v], self.graph.owned_indptr[v + 1]):
                self.look_at(self.graph.owned_indices[j])
            v = next_bit(self.inside, w, v + 1)
        while not self.todo.empty():
            v = self.todo.back()
            self.todo.pop_back()
            self.look_at(<int>v)

    cdef int look_at(self, int v) except -1 nogil:
        cdef int64_t j
        cdef int x, u
        for j in range(self.graph.upstream_indptr[v], self.graph.upstream_indptr[v + 1]):
            x = self.graph.upstream_values[j]
            if not self.later[x] and not has_bit(self.inside, self.graph.owner[self.graph.producer[x]]):
                self.hold(x)
        if self.shown[self.graph.row[v]] == self.pair:
            return 0
        self.shown[self.graph.row[v]] = self.pair
        for j in range(self.graph.row_indptr[self.graph.row[v]], self.graph.row_indptr[self.graph.row[v] + 1]):
            x = self.graph.row_values[j]
            u = self.graph.row_producers[j]
            if not self.later[x] and not has_bit(self.inside, u):
                self.hold(x)
                if not self.graph.fixed[u] and has_bit(self.after, u):
                    self.todo.push_back(u)

    cdef int hold(self, int x) except -1 nogil:
        self.later[x] = True
        if self.state[self.graph.producer[x]] == gradient:
            self.seen[x] = for_good
        self.later_values.push_back(x)
        self.later_total += self.graph.memory[x]

    cdef bint goes_on(self, int u) noexcept nogil:
        """Return True if the values of u, which gradients of nodes of L read, stay live to the end of the block."""
        if not self.graph.lazy and self.state[u] != gradient and not self.graph.fixed[u]:
            # By definition, the values of nodes in d-(d+(L)) stay live, both of kept and of recomputed nodes.
            return self.state[u] != missing and has_bit(self.beside, u)
        return self.state[u] != missing and (self.state[u] != again or has_bit(self.beside, u))

    cdef int64_t end(self, int64_t pinned) noexcept nogil:
        """Return the bytes live at the end of the block."""
        cdef int64_t live = pinned + self.later_total
        cdef size_t i
        for i in range(self.later_values.size()):
            if not self.goes_on(self.graph.producer[self.later_values[i]]):
                live -= self.graph.memory[self.later_values[i]]
        return live

    cdef int64_t release(self, int x) noexcept nogil:
        """Count x as live for all nodes, not only for one transient. Return the change of live bytes."""
        cdef int w = self.extender[x]
        cdef int64_t before
        if w < 0:
            return 0
        before = max(self.extends[w], self.keeps[w])
        self.extender[x] = -1
        self.extends[w] -= self.graph.memory[x]
        return self.graph.memory[x] + max(self.extends[w], self.keeps[w]) - before

    cdef int64_t add_reads(self, int v) noexcept nogil:
        """Count the forward values for which v is the last reader; return the change of live bytes."""
        cdef int64_t needs = 0, j
        cdef int x, u
        if self.state[v] != passing:
            self.shown[self.graph.row[v]] = self.pair
        for j in range(self.graph.row_indptr[self.graph.row[v]], self.graph.row_indptr[self.graph.row[v] + 1]):
            u, x = self.graph.row_producers[j], self.graph.row_values[j]
            if self.state[u] == charged:
                continue
            if self.seen[x] == self.pair:
                if self.transient:
                    needs += self.release(x)
            elif not (self.later[x] and self.goes_on(u)):
                self.seen[x] = self.pair
                self.extender[x] = v if self.state[v] == passing else -1
                needs += self.graph.memory[x]
        return needs

    cdef int64_t backward_peak(self, int64_t live) noexcept nogil:
        """Return the peak of the backward part; `live` bytes are live at its end.

        Steps are visited from last to first. The pair does not determine whether the chain keeps a transient. If it
        does, the transient does not run, and its values are live before this step. If the chain does not keep the
        transient, the inputs that only the transient needs are live. The larger of the two amounts is counted.
        """
        cdef int64_t peak = 0, scratch, produced, j
        cdef int x, v
        cdef Py_ssize_t i
        for i in range(self.steps - 1, -1, -1):
            v = self.sequence[i]
            scratch, produced = self.graph.workspace[v], 0
            if self.shown[self.graph.row[v]] != self.pair:
                live += self.add_reads(v)
            # Arithmetic instead of branches, which would be mispredicted often.
            if self.state[v] == gradient:
                for j in range(self.graph.upstream_indptr[v], self.graph.upstream_indptr[v + 1]):
                    x = self.graph.upstream_values[j]
                    live += self.graph.memory[x] * (self.seen[x] < self.pair)
                    self.seen[x] = max(self.seen[x], self.pair)
                for x in range(self.graph.value_indptr[v], self.graph.value_indptr[v + 1]):
                    produced += self.graph.memory[x] * (self.seen[x] >= self.pair)
                    scratch += self.graph.memory[x] * (self.seen[x] < self.pair)
            else:
                if self.transient:
                    live += self.release_values(v)
                produced = self.recomputed_bytes(v, &scratch)
            peak = max(peak, live + scratch)
            if peak > self.max_peak:
                break
            live -= produced
            if self.state[v] == passing:
                live += self.stand_in(v, produced if self.graph.lazy else 0)
        return peak

    cdef int64_t recomputed_bytes(self, int v, int64_t* scratch) noexcept nogil:
        """Return the bytes of the values of v that stay live after its run; add the other bytes to `scratch`."""
        cdef int64_t produced = 0
        cdef int x
        for x in range(self.graph.value_indptr[v], self.graph.value_indptr[v + 1]):
            # The first instance of an output stays live, so its second instance is freed at once.
            if self.graph.output[x]:
                scratch[0] += self.graph.memory[x]
            elif self.later[x] and self.goes_on(v):
                produced += 0 if self.state[v] == passing else self.graph.memory[x]
            elif self.seen[x] == self.pair:
                produced += self.graph.memory[x]
            else:
                scratch[0] += self.graph.memory[x]
        return produced

    cdef int64_t release_values(self, int v) noexcept nogil:
        cdef int64_t change = 0
        cdef int x
        for x in range(self.graph.value_indptr[v], self.graph.value_indptr[v + 1]):
            if self.seen[x] == self.pair:
                change += self.release(x)
        return change

    cdef int64_t stand_in(self, int v, int64_t produced) noexcept nogil:
        """Return the change in live bytes before a transient node runs; `backward_peak` explains the two cases."""
        cdef int64_t needs = 0, j
        for j in range(self.graph.row_indptr[self.graph.row[v]], self.graph.row_indptr[self.graph.row[v] + 1]):
            if self.seen[self.graph.row_values[j]] == self.pair and self.extender[self.graph.row_values[j]] == v:
                needs += self.graph.memory[self.graph.row_values[j]]
        self.extends[v], self.keeps[v] = needs, produced
        return max(needs, produced) - needs

    cdef int64_t cache(self) noexcept nogil:
        """Mark the values of the block that stay live while later blocks run; return their bytes."""
        cdef int64_t total = 0
        cdef int v, x
        cdef size_t i
        for i in range(self.members.size()):
            v = self.members[i]
            for x in range(self.graph.value_indptr[v], self.graph.value_indptr[v + 1]):
                if self.graph.output[x] or self.state[v] == kept and (
                    self.graph.gradient_reads[x] or self.later[x] or self.seen[x] == self.pair or self.read_outside(x)
                ):
                    self.marked[x] = self.pair
                    total += self.graph.memory[x]
        return total

    cdef bint read_outside(self, int x) noexcept nogil:
        cdef int64_t j
        for j in range(self.graph.reader_indptr[x], self.graph.reader_indptr[x + 1]):
            if not has_bit(self.upto, self.graph.reader_indices[j]):
                return True
        return False

    cdef int64_t forward_peak(self, int64_t live) noexcept nogil:
        """Visit the forward part from last to first and return its peak; `live` bytes are live at its end."""
        cdef int64_t peak = 0, scratch, produced, j
        cdef int v, x
        cdef Py_ssize_t i
        for i in range(<Py_ssize_t>self.members.size() - 1, -1, -1):
            v = self.members[i]
            scratch, produced = self.graph.workspace[v], 0
            for j in range(self.graph.row_indptr[self.graph.row[v]], self.graph.row_indptr[self.graph.row[v] + 1]):
                x = self.graph.row_values[j]
                if self.marked[x] != self.pair and self.state[self.graph.row_producers[j]] != charged:
                    self.marked[x] = self.pair
                    live += self.graph.memory[x]
            for x in range(self.graph.value_indptr[v], self.graph.value_indptr[v + 1]):
                if self.marked[x] == self.pair:
                    produced += self.graph.memory[x]
                else:
                    scratch += self.graph.memory[x]
            peak = max(peak, live + scratch)
            live -= produced
        return peak

    cdef bint exceeds_with_more(self, bint complete) noexcept nogil:
        """Return True if the block L -> L'' exceeds a bound for every L'' that contains L'.

        `complete` : True if the sequence of the block L -> L' is complete.

        A larger block keeps no node of L' that this block does not keep. So it also recomputes every node that this
        block recomputes, before the same gradient or an earlier one. The values of such a node are live until the last
        gradient that reads them has run. Here only gradients of this block and gradients owned by nodes of L are
        considered. Any other value outside L is live from the first to the last gradient of this block that reads it.
        The values of gradients that this block reads are live once they are computed. Only these bytes are counted: in
        a larger block all other values may be freed, or not needed at all.
        """
        cdef int64_t live = 0, produced, j
        cdef int v, x
        cdef Py_ssize_t i
        if self.spent - self.transient_spent > self.max_recompute or self.first_need - self.kept_need > self.max_peak:
            return True
        for i in range(self.steps):
            v = self.sequence[i]
            if self.state[v] == gradient:
                for j in range(self.graph.row_indptr[self.graph.row[v]], self.graph.row_indptr[self.graph.row[v] + 1]):
                    x = self.graph.row_values[j]
                    if self.read[x] != self.pair:
                        self.read[x], self.first_read[x] = self.pair, <int>i
        if complete:
            for i in range(<Py_ssize_t>self.later_values.size()):
                x = self.later_values[i]
                v = self.graph.producer[x]
                if self.runs_early(v) if self.state[v] == gradient else has_bit(self.beside, v) and (
                    self.state[v] == again or self.read[x] == self.pair
                ):
                    live += self.count(x)
        for i in range(self.steps - 1, -1, -1):
            v = self.sequence[i]
            produced = 0
            if self.state[v] == gradient:
                for j in range(self.graph.row_indptr[self.graph.row[v]], self.graph.row_indptr[self.graph.row[v] + 1]):
                    x = self.graph.row_values[j]
                    if self.state[self.graph.row_producers[j]] != charged:
                        live += self.count(x)
                        if self.first_read[x] == i and self.state[self.graph.row_producers[j]] != again:
                            self.first_read[x] = -1
                            produced += self.graph.memory[x]
                for j in range(self.graph.upstream_indptr[v], self.graph.upstream_indptr[v + 1]):
                    if self.runs_early(self.graph.producer[self.graph.upstream_values[j]]):
                        live += self.count(self.graph.upstream_values[j])
            if self.state[v] == gradient or self.state[v] == again:
                for x in range(self.graph.value_indptr[v], self.graph.value_indptr[v + 1]):
                    produced += self.graph.memory[x] * (self.counted[x] == self.pair)
            if live > self.max_peak:
                return True
            live -= produced
        return False

    cdef bint runs_early(self, int v) noexcept nogil:
        """Return True if, in every larger block, the gradient v runs before or among the gradients of this block."""
        cdef int owner = self.graph.owner[v]
        return not has_bit(self.inside, owner) and (v < self.first_gradient or has_bit(self.upto, owner))

    cdef int64_t count(self, int x) noexcept nogil:
        """Return the bytes of x when it is counted for the first time for this pair, and 0 afterwards."""
        if self.counted[x] == self.pair:
            return 0
        self.counted[x] = self.pair
        return self.graph.memory[x]

    cdef bint is_hopeless(self, Py_ssize_t w) noexcept nogil:
        """Return True if L' contains one of the sets in `hopeless`."""
        cdef size_t i
        for i in range(self.hopeless.size()):
            if is_subset(self.first_row + self.hopeless[i] * w, self.upto, w):
                return True
        return False


cdef int _check_size(str name, Py_ssize_t size, Py_ssize_t expected) except -1:
    if size != expected:
        raise ValueError(f"{name} has the length {size}, expected {expected}")
    return 0


cdef int _check_rows(str name, Int64s indptr, Py_ssize_t rows, Int32s indices) except -1:
    _check_size(f"{name}_indptr", indptr.shape[0], rows + 1)
    return _check_size(name, indices.shape[0], indptr[rows])
