"""An order run once more under a limit, for the cache pass."""

cimport cython
from libc.math cimport INFINITY
from libcpp.vector cimport vector

cdef enum:
    BLOCK = 64

# What becomes of a value during a replay.
cdef enum State:
    gone = 0
    required            # read before its node runs next
    spare               # not read before that, but after it: it makes that run needless
    pinned              # an output


@cython.final
cdef class _Replay:
    """An order run once more under a limit; what it would free but recompute stays while there is room."""

    cdef const int[::1] order
    cdef const int64[::1] value_indptr
    cdef const int64[::1] read_indptr
    cdef const int[::1] read_indices
    cdef const unsigned char[::1] output
    cdef const int64[::1] memory
    cdef const int64[::1] price
    cdef const unsigned char[::1] fixed
    cdef int[::1] next_run          # of each step: when its node runs again; m: never
    cdef int[::1] next_read         # of each read: when its value is read again
    cdef int[::1] coming_run        # the next run of each node
    cdef int[::1] coming_read       # the next read of each value
    cdef unsigned char[::1] state   # of each value
    cdef unsigned char[::1] broken  # nodes that must run next time, whatever stays
    cdef int64 live
    cdef Py_ssize_t now             # the step that is run
    # nodes with spare bytes, in blocks; scores only fall, so that what a block's best was bounds what it is
    cdef vector[int] node
    cdef vector[int64] bytes
    cdef vector[double] weight
    cdef vector[double] due
    cdef vector[double] bound
    cdef int[::1] place             # where each node stands among them, or -1

    cdef void look_ahead(self) noexcept nogil:
        """Fill in when nodes run and values are read again."""
        cdef Py_ssize_t step, m = self.order.shape[0], at = self.next_read.shape[0]
        cdef int64 j
        cdef int v, x
        for step in range(m - 1, -1, -1):
            v = self.order[step]
            self.next_run[step] = self.coming_run[v]
            self.coming_run[v] = <int>step
            for j in range(self.read_indptr[v + 1] - 1, self.read_indptr[v] - 1, -1):
                x = self.read_indices[j]
                at -= 1
                self.next_read[at] = self.coming_read[x]
                self.coming_read[x] = <int>step

    cdef bint needless(self, int v, int until) noexcept nogil:
        """Whether all that is read of a node before a step, its next run, is there."""
        cdef int64 x
        if self.fixed[v]:
            return False
        for x in range(self.value_indptr[v], self.value_indptr[v + 1]):
            if self.state[x] == gone and (self.output[x] or self.coming_read[x] < until):
                return False
        return True

    cdef void put_in(self, int v, int64 size) noexcept nogil:
        """Count bytes of a value to those that a node may give back."""
        cdef int at = self.place[v], due = self.coming_run[v]
        if size == 0:
            return
        if at < 0:
            at = self.place[v] = <int>self.node.size()
            if at % BLOCK == 0:
                self.bound.push_back(-1.0)
            self.node.push_back(v)
            self.bytes.push_back(0)
            self.weight.push_back(0.0)
            self.due.push_back(<double>due)
        self.bytes[at] += size
        self.weight[at] = <double>self.bytes[at] / <double>self.price[due] if self.price[due] else INFINITY
        self.bound[at // BLOCK] = max(self.bound[at // BLOCK], self.weight[at] * (self.due[at] - self.now))

    cdef void take_out(self, int v) noexcept nogil:
        cdef int at = self.place[v], last = <int>self.node.size() - 1
        if at < 0:
            return
        self.node[at], self.bytes[at] = self.node[last], self.bytes[last]
        self.weight[at], self.due[at] = self.weight[last], self.due[last]
        self.bound[at // BLOCK] = max(self.bound[at // BLOCK], self.bound[last // BLOCK])
        self.place[self.node[at]] = at
        self.place[v] = -1
        self.node.pop_back()
        self.bytes.pop_back()
        self.weight.pop_back()
        self.due.pop_back()
        if last % BLOCK == 0:
            self.bound.pop_back()

    cdef void look_through(self, int block, double* best_score, int* v) noexcept nogil:
        """Bring a block's bound up to date; its best node, where that is better than the best so far."""
        cdef double score, best = -1.0
        cdef int i
        for i in range(block * BLOCK, min((block + 1) * BLOCK, <int>self.node.size())):
            score = self.weight[i] * (self.due[i] - self.now)
            best = max(best, score)
            if score > best_score[0] or (score == best_score[0] and self.node[i] < v[0]):
                best_score[0] = score
                v[0] = self.node[i]
        self.bound[block] = best

    cdef int worst(self) noexcept nogil:
        """The node that frees most bytes for longest at its price; of equals the lowest id."""
        cdef double best_score = -1.0
        cdef int block, first = 0, v = -1
        for block in range(1, <int>self.bound.size()):
            if self.bound[block] > self.bound[first]:
                first = block
        self.look_through(first, &best_score, &v)
        for block in range(<int>self.bound.size()):
            if self.bound[block] >= best_score and block != first:
                self.look_through(block, &best_score, &v)
        return v

    cdef void give_up(self, int v) noexcept nogil:
        """Let go of the spare values of a node."""
        cdef int64 x
        self.live -= self.bytes[self.place[v]]
        self.take_out(v)
        self.broken[v] = True
        for x in range(self.value_indptr[v], self.value_indptr[v + 1]):
            if self.state[x] == spare:
                self.state[x] = gone

    cdef void classify(self, int64 x, int v) noexcept nogil:
        """What becomes of a value of a node after a step that computed or read it, or did not have to."""
        cdef int read = self.coming_read[x], run = self.coming_run[v]
        cdef int never = <int>self.order.shape[0]
        if self.state[x] == pinned:
            return
        if read < run:
            self.state[x] = required
        elif read < never and not self.fixed[v] and not self.broken[v] and read < self.next_run[run]:
            self.state[x] = spare
            self.put_in(v, self.memory[x])
        else:
            self.state[x] = gone
            self.live -= self.memory[x]

    cdef void stay(self, int v) noexcept nogil:
        """Require again what is spare of a node; what lacks for its next run makes that one needed."""
        cdef int64 x
        cdef int run = self.coming_run[v], after
        after = self.next_run[run] if run < self.order.shape[0] else run
        self.take_out(v)
        self.broken[v] = False
        for x in range(self.value_indptr[v], self.value_indptr[v + 1]):
            if self.state[x] == spare:
                self.state[x] = required
            elif self.state[x] == gone and self.coming_read[x] < after:
                self.broken[v] = True

    cdef void run(self, int v, int64 size, int64 limit) noexcept nogil:
        """Run a node whose values and workspace have a size, in the room that can be freed."""
        cdef int64 x
        while self.live + size > limit and self.node.size():
            self.give_up(self.worst())
        self.broken[v] = False
        for x in range(self.value_indptr[v], self.value_indptr[v + 1]):
            if self.output[x]:
                if self.state[x] != pinned:
                    self.live += self.memory[x]
                    self.state[x] = pinned
            else:
                self.live += self.memory[x]
                self.classify(x, v)
