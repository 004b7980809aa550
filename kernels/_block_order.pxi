# The order in which the block of a pair L -> L' recomputes its nodes and runs its gradients: include "_block_order.pxi",
# after "_bitsets.pxi".

cimport cython
from libcpp.vector cimport vector

ctypedef long long int64

cdef enum State:
    outside = 0                           # not in L'
    unsure = 1                            # in L; whether it is kept depends on the chain
    missing = 2                           # in the block, not kept; from here on it can be read
    charged = 3                           # in L and kept: counted in the block that it is of
    kept = 4                              # in the block
    again = 5                             # in the block, was recomputed
    passing = 6                           # not in L', was recomputed, if it was not kept
    gradient = 7

cdef enum Need:
    at_hand = -1
    unknown = -2                          # the pair does not determine whether it is there


cdef class _Order:
    """The graph, what its lower sets border on, and the pair that is looked at.

    A mark equal to `pair` is set; nothing is cleared between pairs but states. Reads are of unpinned values: `row`
    is the row of forward values that a node reads, which gradients of one reader share.
    """
    cdef const int[::1] producer, row, row_values, row_producers, owned_indices, claim_indices, external_indices
    cdef const int64[::1] row_indptr, owned_indptr, claim_indptr, external_indptr, awaited, compute
    cdef const unsigned char[::1] runs, fixed, never
    cdef bint lazy
    cdef int64 max_peak, max_recompute     # bounds of a pair, for each L
    # rows: of L, of L', and of what they border on
    cdef const uint64_t *inside
    cdef const uint64_t *upto
    cdef const uint64_t *edge_upto        # boundary(L')
    cdef const uint64_t *beside_upto      # d-(d+(L')), outside L'
    cdef const uint64_t *after_upto       # d+(L'), outside L'
    cdef int pair
    cdef int[::1] state, answered
    cdef uint64_t[::1] pending
    cdef int[::1] sequence
    cdef vector[int] members, path
    cdef vector[int64] path_place
    cdef int64 first_need, kept_need, spent, transient_spent
    cdef Py_ssize_t steps                 # of the sequence
    cdef int first_gradient
    cdef bint begun, transient

    @cython.final
    cdef void enter(self, const uint64_t* edge) noexcept nogil:
        """States for a new L."""
        cdef Py_ssize_t v
        for v in range(self.runs.shape[0] - 1):
            if self.state[v] != gradient:
                self.state[v] = outside
                if has_bit(self.inside, v):
                    self.state[v] = charged if has_bit(edge, v) or self.fixed[v] else unsure

    @cython.final
    cdef bint gather(self, Py_ssize_t w, bint keep_all) noexcept nogil:
        """The nodes of the block, which of them are kept, their gradients; False if a boundary is not kept."""
        cdef Py_ssize_t i, v
        cdef int64 j
        cdef uint64_t word
        cdef bint on_edge, sound = True
        self.members.clear()
        self.first_need = 0
        for i in range(w):
            word = self.upto[i] & ~self.inside[i]
            while word:
                v = (i << 6) + remat_lowest(word)
                word &= word - 1
                for j in range(self.owned_indptr[v], self.owned_indptr[v + 1]):
                    set_bit(&self.pending[0], self.owned_indices[j])
                if not self.runs[v]:
                    continue
                self.members.push_back(<int>v)
                self.state[v] = missing
                on_edge = has_bit(self.edge_upto, v)
                if self.never[v]:
                    sound = sound and not on_edge
                elif on_edge or keep_all or self.fixed[v]:
                    self.state[v] = kept
                    self.first_need += self.awaited[v]
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
        """Whether a gradient outside L', of u or of what u reads, reads a value of u: its block has left u."""
        cdef int64 j
        for j in range(self.claim_indptr[u], self.claim_indptr[u + 1]):
            if not has_bit(self.upto, self.claim_indices[j]):
                return True
        return False

    @cython.final
    cdef bint claims(self, int u, int w) noexcept nogil:
        """Whether a gradient of u reads a value of w."""
        cdef int64 j
        for j in range(self.claim_indptr[w], self.claim_indptr[w + 1]):
            if self.claim_indices[j] == u:
                return True
        return False

    @cython.final
    cdef int need(self, int v, int u) noexcept nogil:
        """The node to run before v can read u, which is not at hand by its state."""
        if self.state[u] == missing:
            return u
        if self.state[u] == unsure:
            return unknown
        if self.fixed[u] or has_bit(self.beside_upto, u) and (not self.lazy or self.claimed_outside(u)):
            return at_hand
        if self.state[v] != gradient and self.claims(u, v):    # where v was recomputed, u was too, and left
            return at_hand
        return u if has_bit(self.after_upto, u) else unknown

    @cython.final
    cdef bint run(self, int v) noexcept nogil:
        """Append v to the sequence, preceded by what it misses; False if the pair does not determine that."""
        cdef int u = at_hand
        cdef int64 j = self.row_indptr[self.row[v]]
        while True:
            while j < self.row_indptr[self.row[v] + 1] and u == at_hand:
                if self.state[self.row_producers[j]] < charged:
                    u = self.need(v, self.row_producers[j])
                j += 1
            if u == unknown:
                self.path.clear()
                self.path_place.clear()
                return False
            if u >= 0:
                self.path.push_back(v)
                self.path_place.push_back(j)
                v, j, u = u, self.row_indptr[self.row[u]], at_hand
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
        self.spent += self.compute[v] if self.state[v] != gradient else 0
        if self.state[v] != outside:                           # what a transient reads need not be there for others
            self.answered[self.row[v]] = self.pair
        if self.state[v] == missing:
            self.state[v] = again
            self.first_need += 0 if self.begun else self.awaited[v]  # all is there when the first gradient runs
        elif self.state[v] == outside:
            self.state[v] = passing
            self.transient = True
            self.transient_spent += self.compute[v]

    @cython.final
    cdef bint too_early(self, int b) noexcept nogil:
        """Whether b reads a gradient of a node of L, which would then run in this block."""
        cdef int64 j
        for j in range(self.external_indptr[b], self.external_indptr[b + 1]):
            if self.state[self.external_indices[j]] == charged or self.state[self.external_indices[j]] == unsure:
                return True
        return False

    @cython.final
    cdef bint within_bounds(self) noexcept nogil:
        """Whether the pair is within its bounds so far."""
        return self.first_need <= self.max_peak and self.spent <= self.max_recompute

    @cython.final
    cdef bint emit(self) noexcept nogil:
        """The sequence of the backward part of the block; False where the pair is unusable."""
        cdef Py_ssize_t i
        cdef int b
        cdef uint64_t word
        cdef bint sound = True, any_external = self.external_indices.shape[0] > 0
        self.steps, self.spent, self.transient_spent = 0, 0, 0
        self.begun, self.transient, self.first_gradient = False, False, -1
        if not self.lazy:
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
                elif self.answered[self.row[b]] == self.pair:  # all that it reads is there
                    self.sequence[self.steps] = b
                    self.steps += 1
                else:
                    sound = self.run(b) and self.within_bounds()
                self.begun = True
        return sound


def borders(const uint64_t[:, ::1] words, const int[::1] reader, const int[::1] source, const int64[::1] pinned):
    """What each lower set borders on, along the edges source -> reader.

    words : uint64[k, w], reader, source : int32[e], pinned : int64[m] bytes of each node that stay to the end
    Returns (boundary uint64[k, w], d+(L) outside L uint64[k, w], d-(d+(L)) outside L uint64[k, w],
    bytes of all pinned values outside L int64[k]).
    """
    cdef Py_ssize_t k = words.shape[0], w = words.shape[1], i, v
    cdef int64 e
    boundary, after, beside = (np.zeros((k, w), np.uint64) for _ in range(3))
    outside = np.full(k, np.sum(pinned), np.int64)
    cdef uint64_t[:, ::1] out_boundary = boundary, out_after = after, out_beside = beside
    cdef int64[::1] out_outside = outside
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
