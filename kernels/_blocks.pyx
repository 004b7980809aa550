# distutils: language = c++
"""What one block of a canonical schedule holds and costs, for pairs of lower sets L -> L'."""

import numpy as np

include "_bitsets.pxi"
include "_block_order.pxi"

cdef enum:
    for_good = 0x7FFFFFFF                 # a mark of all pairs: gradients that stay to the end of the block


@cython.final
cdef class _Blocks(_Order):
    """What the steps of a block hold; the states of nodes are those that its order has left."""
    cdef const int[::1] owner, change_indices, reader_indices
    cdef const int64[::1] change_indptr, reader_indptr, value_indptr, memory, workspace
    cdef const unsigned char[::1] output, gradient_reads
    cdef const uint64_t *beside           # d-(d+(L)), outside L
    cdef const uint64_t *after            # d+(L), outside L
    cdef int[::1] seen, held, extender, shown, counted, read, first_read
    cdef vector[Py_ssize_t] hopeless      # for this L: sets whose block, and every larger one, is no use
    cdef unsigned char[::1] later         # outside L, and read by gradients of L, or for them
    cdef int64[::1] extends, keeps        # bytes that a transient needs before it runs, and that it would hold if kept
    cdef vector[int] later_values, todo
    cdef const uint64_t *first_row
    cdef int64 later_total

    def __init__(self, graph, asks, changes, owned, readers, claims, strange, flags, costs, lazy):
        self.owner, self.producer, self.value_indptr = graph
        self.ask, self.ask_indptr, self.ask_indices = asks
        self.ask_nodes = np.asarray(self.producer)[np.asarray(self.ask_indices)]
        self.change_indptr, self.change_indices = changes
        self.owned_indptr, self.owned_indices = owned
        self.reader_indptr, self.reader_indices = readers
        self.claim_indptr, self.claim_indices = claims
        self.strange_indptr, self.strange_indices = strange
        self.runs, self.settled, self.never, self.output, self.gradient_reads = flags
        self.memory, self.compute, self.workspace, self.awaited = costs
        self.lazy = lazy
        cdef Py_ssize_t n = self.owner.shape[0], n_values = self.memory.shape[0]
        self.state = np.where(np.asarray(self.owner) < 0, <int>outside, <int>gradient).astype(np.int32)
        self.answered, self.shown = np.zeros(n + 1, np.int32), np.zeros(n + 1, np.int32)
        self.seen, self.held, self.extender = (np.zeros(n_values, np.int32) for _ in range(3))
        self.counted, self.read, self.first_read = (np.zeros(n_values, np.int32) for _ in range(3))
        self.later = np.zeros(n_values, np.uint8)
        backward = np.repeat(np.asarray(self.owner) >= 0, np.diff(self.value_indptr))
        np.asarray(self.seen)[np.asarray(self.output, bool) & backward] = for_good
        self.extends, self.keeps = np.zeros(n, np.int64), np.zeros(n, np.int64)
        self.sequence = np.zeros(n, np.int32)
        self.pending = np.zeros(bit_words(n) + 1, np.uint64)

    cdef void look_ahead(self, Py_ssize_t source, Py_ssize_t w) noexcept nogil:
        """Values outside L that its own gradients need, directly or through a consumer that may run again."""
        cdef Py_ssize_t v
        cdef int64 j
        cdef size_t i
        for i in range(self.later_values.size()):
            self.later[self.later_values[i]] = False
            self.seen[self.later_values[i]] = 0
        self.later_values.clear()
        self.later_total = 0
        self.pair = <int>(-1 - source)
        v = next_bit(self.inside, w, 0)
        while v >= 0:
            for j in range(self.owned_indptr[v], self.owned_indptr[v + 1]):
                self.look_at(self.owned_indices[j])
            v = next_bit(self.inside, w, v + 1)
        while not self.todo.empty():
            v = self.todo.back()
            self.todo.pop_back()
            self.look_at(<int>v)

    cdef void look_at(self, int v) noexcept nogil:
        cdef int64 j
        cdef int x, u
        for j in range(self.change_indptr[v], self.change_indptr[v + 1]):
            x = self.change_indices[j]
            if not self.later[x] and not has_bit(self.inside, self.owner[self.producer[x]]):
                self.hold(x)
        if self.shown[self.ask[v]] == self.pair:
            return
        self.shown[self.ask[v]] = self.pair
        for j in range(self.ask_indptr[self.ask[v]], self.ask_indptr[self.ask[v] + 1]):
            x = self.ask_indices[j]
            u = self.ask_nodes[j]
            if not self.later[x] and not has_bit(self.inside, u):
                self.hold(x)
                if not self.settled[u] and has_bit(self.after, u):
                    self.todo.push_back(u)

    cdef void hold(self, int x) noexcept nogil:
        self.later[x] = True
        if self.state[self.producer[x]] == gradient:
            self.seen[x] = for_good
        self.later_values.push_back(x)
        self.later_total += self.memory[x]

    cdef bint goes_on(self, int u) noexcept nogil:
        """Whether a value of u that is needed later, for a gradient of L, is left at the end of the block."""
        if not self.lazy and self.state[u] != gradient and not self.settled[u]:
            return self.state[u] != missing and has_bit(self.beside, u)  # to the letter, kept or not
        return self.state[u] != missing and (self.state[u] != again or has_bit(self.beside, u))

    cdef int64 end(self, int64 pinned) noexcept nogil:
        """Bytes held at the end of the block."""
        cdef int64 live = pinned + self.later_total
        cdef size_t i
        for i in range(self.later_values.size()):
            if not self.goes_on(self.producer[self.later_values[i]]):
                live -= self.memory[self.later_values[i]]
        return live

    cdef int64 release(self, int x) noexcept nogil:
        """x is held whether the transient that reads it is kept or not: the change of what is counted."""
        cdef int w = self.extender[x]
        cdef int64 before
        if w < 0:
            return 0
        before = max(self.extends[w], self.keeps[w])
        self.extender[x] = -1
        self.extends[w] -= self.memory[x]
        return self.memory[x] + max(self.extends[w], self.keeps[w]) - before

    cdef int64 asked(self, int v) noexcept nogil:
        """Bytes of forward values that are held up to v, and not beyond."""
        cdef int64 needs = 0, j
        cdef int x, u
        if self.state[v] != passing:
            self.shown[self.ask[v]] = self.pair
        for j in range(self.ask_indptr[self.ask[v]], self.ask_indptr[self.ask[v] + 1]):
            u, x = self.ask_nodes[j], self.ask_indices[j]
            if self.state[u] == charged:
                continue
            if self.seen[x] == self.pair:
                if self.transient:
                    needs += self.release(x)
            elif not (self.later[x] and self.goes_on(u)):
                self.seen[x] = self.pair
                self.extender[x] = v if self.state[v] == passing else -1
                needs += self.memory[x]
        return needs

    cdef int64 backward_peak(self, int64 live) noexcept nogil:
        """The worst step on the way back, from the last one to the first; `live`: bytes held at the end.

        A transient may be a kept node, so before its run counts what it would hold, or what its run needs if that is
        more.
        """
        cdef int64 peak = 0, scratch, made, j
        cdef int x, v
        cdef Py_ssize_t i
        for i in range(self.steps - 1, -1, -1):
            v = self.sequence[i]
            scratch, made = self.workspace[v], 0
            if self.shown[self.ask[v]] != self.pair:
                live += self.asked(v)
            if self.state[v] == gradient:                      # without branches, which nobody could predict
                for j in range(self.change_indptr[v], self.change_indptr[v + 1]):
                    x = self.change_indices[j]
                    live += self.memory[x] * (self.seen[x] < self.pair)
                    self.seen[x] = max(self.seen[x], self.pair)
                for x in range(self.value_indptr[v], self.value_indptr[v + 1]):
                    made += self.memory[x] * (self.seen[x] >= self.pair)
                    scratch += self.memory[x] * (self.seen[x] < self.pair)
            else:
                if self.transient:
                    live += self.release_values(v)
                made = self.made_again(v, &scratch)
            peak = max(peak, live + scratch)
            if peak > self.most:
                break
            live -= made
            if self.state[v] == passing:
                live += self.stand_in(v, made if self.lazy else 0)
        return peak

    cdef int64 made_again(self, int v, int64* scratch) noexcept nogil:
        """Bytes that are held from the run of v on; `scratch` grows by those that nobody reads."""
        cdef int64 made = 0
        cdef int x
        for x in range(self.value_indptr[v], self.value_indptr[v + 1]):
            if self.output[x]:                                 # a second copy
                scratch[0] += self.memory[x]
            elif self.later[x] and self.goes_on(v):
                made += 0 if self.state[v] == passing else self.memory[x]
            elif self.seen[x] == self.pair:
                made += self.memory[x]
            else:
                scratch[0] += self.memory[x]
        return made

    cdef int64 release_values(self, int v) noexcept nogil:
        cdef int64 change = 0
        cdef int x
        for x in range(self.value_indptr[v], self.value_indptr[v + 1]):
            if self.seen[x] == self.pair:
                change += self.release(x)
        return change

    cdef int64 stand_in(self, int v, int64 made) noexcept nogil:
        """The change of what is counted before the run of a transient."""
        cdef int64 needs = 0, j
        for j in range(self.ask_indptr[self.ask[v]], self.ask_indptr[self.ask[v] + 1]):
            if self.seen[self.ask_indices[j]] == self.pair and self.extender[self.ask_indices[j]] == v:
                needs += self.memory[self.ask_indices[j]]
        self.extends[v], self.keeps[v] = needs, made
        return max(needs, made) - needs

    cdef int64 cache(self) noexcept nogil:
        """Bytes of the block that stay while later blocks run; marks their values as held."""
        cdef int64 total = 0
        cdef int v, x
        cdef size_t i
        for i in range(self.members.size()):
            v = self.members[i]
            for x in range(self.value_indptr[v], self.value_indptr[v + 1]):
                if self.output[x] or self.state[v] == kept and (
                    self.gradient_reads[x] or self.later[x] or self.seen[x] == self.pair or self.read_outside(x)
                ):
                    self.held[x] = self.pair
                    total += self.memory[x]
        return total

    cdef bint read_outside(self, int x) noexcept nogil:
        cdef int64 j
        for j in range(self.reader_indptr[x], self.reader_indptr[x + 1]):
            if not has_bit(self.upto, self.reader_indices[j]):
                return True
        return False

    cdef int64 forward_peak(self, int64 live) noexcept nogil:
        """The worst step on the way forward, from the last one to the first; `live`: bytes that stay."""
        cdef int64 peak = 0, scratch, made, j
        cdef int v, x
        cdef Py_ssize_t i
        for i in range(<Py_ssize_t>self.members.size() - 1, -1, -1):
            v = self.members[i]
            scratch, made = self.workspace[v], 0
            for j in range(self.ask_indptr[self.ask[v]], self.ask_indptr[self.ask[v] + 1]):
                x = self.ask_indices[j]
                if self.held[x] != self.pair and self.state[self.ask_nodes[j]] != charged:
                    self.held[x] = self.pair
                    live += self.memory[x]
            for x in range(self.value_indptr[v], self.value_indptr[v + 1]):
                if self.held[x] == self.pair:
                    made += self.memory[x]
                else:
                    scratch += self.memory[x]
            peak = max(peak, live + scratch)
            live -= made
        return peak

    cdef bint exceeds_with_more(self, bint complete) noexcept nogil:
        """Whether the block of L and any set that holds L' is too much too; `complete`: all of the sequence is known.

        What runs again in this block does so in the larger ones, no later in the order of the gradients: what they
        keep of L' is kept here too. So from there on to their last read by gradients of this block, or of L, its
        values are live in all of them; so is every other value outside L from its first to its last read by gradients
        of this block, and what gradients before these make for them.
        """
        cdef int64 live = 0, made, j
        cdef int v, x
        cdef Py_ssize_t i
        if self.spent - self.transient_spent > self.most_rerun or self.first_need - self.kept_need > self.most:
            return True
        for i in range(self.steps):
            v = self.sequence[i]
            if self.state[v] == gradient:
                for j in range(self.ask_indptr[self.ask[v]], self.ask_indptr[self.ask[v] + 1]):
                    x = self.ask_indices[j]
                    if self.read[x] != self.pair:
                        self.read[x], self.first_read[x] = self.pair, <int>i
        if complete:
            for i in range(<Py_ssize_t>self.later_values.size()):
                x = self.later_values[i]
                v = self.producer[x]
                if self.made_early(v) if self.state[v] == gradient else has_bit(self.beside, v) and (
                    self.state[v] == again or self.read[x] == self.pair
                ):
                    live += self.count(x)
        for i in range(self.steps - 1, -1, -1):
            v = self.sequence[i]
            made = 0
            if self.state[v] == gradient:
                for j in range(self.ask_indptr[self.ask[v]], self.ask_indptr[self.ask[v] + 1]):
                    x = self.ask_indices[j]
                    if self.state[self.ask_nodes[j]] != charged:
                        live += self.count(x)
                        if self.first_read[x] == i and self.state[self.ask_nodes[j]] != again:
                            self.first_read[x] = -1
                            made += self.memory[x]
                for j in range(self.change_indptr[v], self.change_indptr[v + 1]):
                    if self.made_early(self.producer[self.change_indices[j]]):
                        live += self.count(self.change_indices[j])
            if self.state[v] == gradient or self.state[v] == again:
                for x in range(self.value_indptr[v], self.value_indptr[v + 1]):
                    made += self.memory[x] * (self.counted[x] == self.pair)
            if live > self.most:
                return True
            live -= made
        return False

    cdef bint made_early(self, int v) noexcept nogil:
        """Whether the gradient v is of the block or runs before it, whatever larger block it is of."""
        cdef int owner = self.owner[v]
        return not has_bit(self.inside, owner) and (v < self.first_gradient or has_bit(self.upto, owner))

    cdef int64 count(self, int x) noexcept nogil:
        """The bytes of x, once for each pair."""
        if self.counted[x] == self.pair:
            return 0
        self.counted[x] = self.pair
        return self.memory[x]

    cdef bint is_hopeless(self, Py_ssize_t w) noexcept nogil:
        """Whether L' holds a set whose block was too much already."""
        cdef size_t i
        for i in range(self.hopeless.size()):
            if is_subset(self.first_row + self.hopeless[i] * w, self.upto, w):
                return True
        return False


def figures(const uint64_t[:, ::1] words, const int64[::1] indptr, const int[::1] target, border, graph,
            const unsigned char[::1] keep_all, int64 most, int64 most_rerun, int64[::1] cached_before,
            int64[::1] rerun_before):
    """What a block holds at its worst step, what stays of it while later blocks run, and what it runs again.

    words : uint64[k, w], indptr : int64[k + 1], target : int32[p], border : of `borders`, graph : for `_Blocks`,
    keep_all : uint8[k] whether a block that ends with the set is kept, most, most_rerun : what a chain may need,
    cached_before, rerun_before : int64[k] the least that the blocks before each set cache and run again, -1: no chain
    reaches it; of chains, targets after their sources, they are kept up to date; of length 0, pairs stand for themselves
    Returns (held int64[p], cached int64[p], rerun int64[p]); held is -1 where the pair is no use.
    """
    cdef _Blocks blocks = _Blocks(*graph)
    cdef const uint64_t[:, ::1] boundary = border[0], after = border[1], beside = border[2]
    cdef const int64[::1] pinned = border[3]
    cdef Py_ssize_t w = words.shape[1], source, t
    cdef bint along = cached_before.shape[0] > 0
    cdef int64 p, peak, stays
    held = np.full(target.shape[0], -1, np.int64)
    cached, rerun = np.zeros_like(held), np.zeros_like(held)
    cdef int64[::1] out_held = held, out_cached = cached, out_rerun = rerun
    blocks.first_row = &words[0, 0] if words.shape[0] and w else NULL
    blocks.most, blocks.most_rerun = most, most_rerun
    with nogil:
        for source in range(words.shape[0]):
            if indptr[source] == indptr[source + 1] or along and cached_before[source] < 0:
                continue
            if along:
                blocks.most, blocks.most_rerun = most - cached_before[source], most_rerun - rerun_before[source]
            blocks.inside, blocks.after, blocks.beside = &words[source, 0], &after[source, 0], &beside[source, 0]
            blocks.enter(&boundary[source, 0])
            blocks.look_ahead(source, w)
            blocks.hopeless.clear()
            for p in range(indptr[source], indptr[source + 1]):
                t = target[p]
                blocks.pair = <int>p + 1
                blocks.upto, blocks.edge_upto = &words[t, 0], &boundary[t, 0]
                blocks.after_upto, blocks.beside_upto = &after[t, 0], &beside[t, 0]
                if not keep_all[t] and blocks.is_hopeless(w):
                    continue
                peak = -1
                if blocks.gather(w, keep_all[t]):
                    if blocks.emit():
                        peak = blocks.backward_peak(blocks.end(pinned[source]))
                        if peak <= blocks.most:
                            stays = blocks.cache()
                            peak = max(peak, blocks.forward_peak(stays))
                    if peak < 0 and not blocks.useful() or peak > blocks.most:
                        if not keep_all[t] and blocks.exceeds_with_more(peak >= 0):
                            blocks.hopeless.push_back(t)
                    elif peak >= 0:
                        out_held[p], out_cached[p], out_rerun[p] = peak, stays, blocks.spent
                        if along and cached_before[t] < 0:
                            cached_before[t], rerun_before[t] = cached_before[source] + stays, rerun_before[source] + blocks.spent
                        elif along:
                            cached_before[t] = min(cached_before[t], cached_before[source] + stays)
                            rerun_before[t] = min(rerun_before[t], rerun_before[source] + blocks.spent)
                blocks.leave()
    return held, cached, rerun
