"""Passes over an order: remove useless runs, keep values live instead of recomputing them, move runs later."""

import numpy as np

cimport cython
from libc.math cimport INFINITY
from remat_algos.kernels.graph cimport GraphArrays
from remat_algos.kernels.types cimport Flags, Int32s, Int64s, int64_t


def dead_runs(GraphArrays graph not None, Int32s order, Flags fixed):
    """Remove the runs of an order that serve neither a reader nor an output.

    order : int32[m], fixed : uint8[n] flags of the nodes whose first run stays if a later run of the node stays
    Returns int32[<= m].
    Cost: O(n + m + reads and values of all runs) time, O(n_values + m) memory.
    """
    cdef Int64s value_indptr = graph.value_indptr, read_indptr = graph.read_indptr
    cdef Int32s read_indices = graph.read_indices
    cdef Flags output = graph.output
    cdef Py_ssize_t m = order.shape[0], n = graph.n_nodes, n_values = graph.n_values, step, at = m
    cdef int64_t j, x
    cdef int v
    cdef bint stays
    cdef int[::1] first = np.full(n, -1, np.int32)
    cdef unsigned char[::1] is_read = np.zeros(n_values, np.uint8)
    cdef unsigned char[::1] kept = np.zeros(n, np.uint8)
    serving = np.empty(m, np.int32)
    cdef int[::1] out = serving
    with nogil:
        for step in range(m - 1, -1, -1):
            first[order[step]] = <int>step
        for step in range(m - 1, -1, -1):
            v = order[step]
            stays = first[v] == step and fixed[v] and kept[v]
            for x in range(value_indptr[v], value_indptr[v + 1]):
                if output[x]:
                    # The first instance of an output serves all reads.
                    stays = stays or first[v] == step
                else:
                    stays = stays or is_read[x]
                    is_read[x] = 0
            if stays:
                kept[v] = 1
                for j in range(read_indptr[v], read_indptr[v + 1]):
                    is_read[read_indices[j]] = 1
                at -= 1
                out[at] = v
    return serving[at:].copy()


def run_prices(GraphArrays graph not None, Int32s order):
    """Return the price of each run: its compute, plus the compute of the runs that serve only it.

    order : int32[m]
    Returns int64[m].
    Cost: O(n + m + reads of all runs) time, O(n + m) memory.
    """
    cdef Int64s value_indptr = graph.value_indptr, read_indptr = graph.read_indptr
    cdef Int32s read_indices = graph.read_indices
    cdef Flags output = graph.output
    cdef Py_ssize_t m = order.shape[0], n = graph.n_nodes, step, run
    cdef int64_t j, x
    cdef int v, u
    price = np.empty(m, np.int64)
    cdef int64_t[::1] out = price
    cdef int[::1] newest = np.full(n, -1, np.int32)         # last run of each node
    # The only step that reads a run: -1 if no step does, -2 if several do or may.
    cdef int[::1] only = np.full(m, -1, np.int32)
    with nogil:
        for step in range(m):
            v = order[step]
            for j in range(read_indptr[v], read_indptr[v + 1]):
                x = read_indices[j]
                if output[x]:
                    # The read refers to the first run, which also supplies the result of the graph.
                    continue
                run = newest[graph.producer[x]]
                if only[run] == -1:
                    only[run] = <int>step
                elif only[run] != step:
                    only[run] = -2
            if newest[v] < 0:
                for x in range(value_indptr[v], value_indptr[v + 1]):
                    if output[x]:
                        only[step] = -2
            newest[v] = <int>step
            out[step] = graph.compute[v]
        for step in range(m):
            run = only[step]
            if run >= 0:
                out[run] += out[step]
    return price


def replay_order(GraphArrays graph not None, Int32s order, Int64s price, Flags fixed, int64_t limit):
    """Remove the runs of an order whose values can stay live within a limit.

    order : int32[m]; price : int64[m] of each run; fixed : uint8[n] flags of nodes that keep all runs; limit : bytes
    Returns int32[<= m].
    Cost: O(n + m + reads and values of all runs) time while memory is left. Freeing the values of a node
    visits the bound of each block of 64 candidates, and the candidates of about one block. O(n_values + m + reads of
    all runs) memory.
    """
    cdef Int64s value_indptr = graph.value_indptr, read_indptr = graph.read_indptr, memory = graph.memory
    cdef Int32s read_indices = graph.read_indices, producer = graph.producer
    cdef Py_ssize_t m = order.shape[0], n = graph.n_nodes, n_values = graph.n_values, step, at = 0, n_runs = 0
    cdef int64_t j, x, size
    cdef int v
    cdef _Replay walk = _Replay()
    walk.order, walk.value_indptr, walk.read_indptr, walk.read_indices = order, value_indptr, read_indptr, read_indices
    walk.output, walk.memory, walk.price, walk.fixed = graph.output, memory, price, fixed
    reads = np.diff(read_indptr)[order].sum()
    walk.next_run, walk.next_read = np.empty(m, np.int32), np.empty(reads, np.int32)
    walk.coming_run, walk.coming_read = np.full(n, m, np.int32), np.full(n_values, m, np.int32)
    walk.state, walk.broken = np.zeros(n_values, np.uint8), np.zeros(n, np.uint8)
    walk.place, walk.n_spare = np.full(n, -1, np.int32), 0
    walk.node, walk.bytes, walk.bound = np.empty(n, np.int32), np.empty(n, np.int64), np.empty(n // BLOCK + 1)
    walk.weight, walk.due = np.empty(n), np.empty(n)
    shorter = np.empty(m, np.int32)
    cdef int[::1] out = shorter
    with nogil:
        walk.look_ahead()
        for step in range(m):
            v = order[step]
            walk.now = step
            walk.coming_run[v] = walk.next_run[step]
            if walk.needless(v, walk.coming_run[v]):
                walk.stay(v)
            else:
                size = graph.workspace[v]
                for x in range(value_indptr[v], value_indptr[v + 1]):
                    size += memory[x]
                walk.run(v, size, limit)
                out[n_runs] = v
                n_runs += 1
            for j in range(read_indptr[v], read_indptr[v + 1]):
                x = read_indices[j]
                walk.coming_read[x] = walk.next_read[at]
                at += 1
                walk.classify(x, producer[x])
    return shorter[:n_runs].copy()


def sink_order(GraphArrays graph not None, Int32s order, Int64s between, int64_t peak):
    """Move runs later, towards their first readers, if this does not increase live bytes.

    A run may pass a step if its values take at least as many bytes as the inputs that only this run keeps live there.
    So live bytes between steps never increase. No moved run exceeds the peak, so the peak never rises.

    order : int32[m]; between : int64[m + 1] bytes live just before each step, and after the last; peak : bytes
    Returns int32[m].
    Cost: O(n + m log m + reads and values of all runs) time, since a run examines its inputs once for each position at
    which one of them dies; O(n_values + m) memory.
    """
    cdef Int64s value_indptr = graph.value_indptr, memory = graph.memory
    cdef Flags output = graph.output
    cdef Py_ssize_t m = order.shape[0], n = graph.n_nodes, n_values = graph.n_values, step
    cdef int64_t x, lasting, passing, extended, longer
    cdef int v, to, bound, until
    cdef _Sinking moved = _Sinking()
    moved.read_indptr, moved.read_indices, moved.producer = graph.read_indptr, graph.read_indices, graph.producer
    moved.output, moved.memory = output, memory
    moved.next_run = np.full(n, m, np.int32)
    moved.first_read, moved.last_read = np.full(n_values, m, np.int32), np.full(n_values, -1, np.int32)
    target = np.empty(m, np.int32)
    cdef int[::1] out = target
    cdef int[::1] first = np.full(n, -1, np.int32)
    with nogil:
        for step in range(m - 1, -1, -1):
            first[order[step]] = <int>step
        for step in range(m - 1, -1, -1):
            v = order[step]
            # lasting: bytes of values that are read later or are outputs. passing: bytes of the other values.
            lasting = passing = extended = 0
            bound = moved.next_run[v]
            for x in range(value_indptr[v], value_indptr[v + 1]):
                if (first[v] == step) if output[x] else (moved.last_read[x] >= 0):
                    lasting += memory[x]
                    bound = min(bound, moved.first_read[x])
                else:
                    passing += memory[x]
                if not output[x]:
                    moved.first_read[x], moved.last_read[x] = <int>m, -1
            bound = moved.latest(v, bound) if lasting else <int>step
            to = <int>step
            while to < bound:
                until = bound
                longer = moved.live_for(v, to, &until)
                if longer > lasting:
                    break
                to, extended = until, longer
            if to <= step + 1 or between[to] + extended + passing + graph.workspace[v] > peak:
                to = <int>step
            moved.read(v, to)
            moved.next_run[v] = <int>step
            out[step] = to
    return np.asarray(order)[np.argsort(target, kind="stable")]


cdef enum:
    BLOCK = 64

# The state of a value during a replay.
cdef enum ValueState:
    gone = 0
    # Live; read before its node runs next.
    required
    # Live; read only after the next run of its node, which becomes unnecessary if the value stays live.
    spare
    pinned              # an output


@cython.final
cdef class _Replay:
    """Replay of an order within a limit, in which values stay live instead of being recomputed while memory is left."""

    cdef Int32s order
    cdef Int64s value_indptr
    cdef Int64s read_indptr
    cdef Int32s read_indices
    cdef Flags output
    cdef Int64s memory
    cdef Int64s price
    cdef Flags fixed
    # next_run: for each step, the next step that runs the same node. next_read: for each read, the next step that reads
    # the same value. m if there is no such step.
    cdef int[::1] next_run
    cdef int[::1] next_read
    # Step of the next run of each node and of the next read of each value, after the current step.
    cdef int[::1] coming_run
    cdef int[::1] coming_read
    cdef unsigned char[::1] state   # indexed by value
    # Flags of the nodes whose next run cannot be avoided, because a value is missing.
    cdef unsigned char[::1] broken
    cdef int64_t live
    cdef Py_ssize_t now             # current step
    # List of the nodes with spare values, in blocks. Scores of nodes only decrease with time. So the best score of a
    # block at an earlier step is an upper bound on its current best score.
    cdef int n_spare
    cdef int[::1] node
    cdef int64_t[::1] bytes
    cdef double[::1] weight
    cdef double[::1] due
    cdef double[::1] bound
    # For each node, its position in this list, or -1.
    cdef int[::1] place

    cdef void look_ahead(self) noexcept nogil:
        """Compute next_run and next_read; set coming_run and coming_read to the first runs and reads."""
        cdef Py_ssize_t step, m = self.order.shape[0], at = self.next_read.shape[0]
        cdef int64_t j
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
        """Return True if a node need not run: all its values that are read before its next run, `until`, are live."""
        cdef int64_t x
        if self.fixed[v]:
            return False
        for x in range(self.value_indptr[v], self.value_indptr[v + 1]):
            if self.state[x] == gone and (self.output[x] or self.coming_read[x] < until):
                return False
        return True

    cdef void put_in(self, int v, int64_t size) noexcept nogil:
        """A value of node v has become spare: add its `size` bytes to the spare bytes of v."""
        cdef int at = self.place[v], due = self.coming_run[v]
        if size == 0:
            return
        if at < 0:
            at = self.place[v] = self.n_spare
            self.n_spare += 1
            if at % BLOCK == 0:
                self.bound[at // BLOCK] = -1.0
            self.node[at], self.bytes[at], self.due[at] = v, 0, due
        self.bytes[at] += size
        self.weight[at] = <double>self.bytes[at] / <double>self.price[due] if self.price[due] else INFINITY
        self.bound[at // BLOCK] = max(self.bound[at // BLOCK], self.weight[at] * (self.due[at] - self.now))

    cdef void take_out(self, int v) noexcept nogil:
        cdef int at = self.place[v], last = self.n_spare - 1
        if at < 0:
            return
        self.node[at], self.bytes[at] = self.node[last], self.bytes[last]
        self.weight[at], self.due[at] = self.weight[last], self.due[last]
        self.bound[at // BLOCK] = max(self.bound[at // BLOCK], self.bound[last // BLOCK])
        self.place[self.node[at]] = at
        self.place[v] = -1
        self.n_spare = last

    cdef void look_through(self, int block, double* best_score, int* v) noexcept nogil:
        """Recompute the bound of a block, and update the node with the best score."""
        cdef double score, best = -1.0
        cdef int i
        for i in range(block * BLOCK, min((block + 1) * BLOCK, self.n_spare)):
            score = self.weight[i] * (self.due[i] - self.now)
            best = max(best, score)
            if score > best_score[0] or (score == best_score[0] and self.node[i] < v[0]):
                best_score[0] = score
                v[0] = self.node[i]
        self.bound[block] = best

    cdef int worst(self) noexcept nogil:
        """Return the node that is best to free: maximum bytes * (time to the next run) / price, then smallest id."""
        cdef double best_score = -1.0
        cdef int block, first = 0, v = -1, n_blocks = (self.n_spare + BLOCK - 1) // BLOCK
        for block in range(1, n_blocks):
            if self.bound[block] > self.bound[first]:
                first = block
        self.look_through(first, &best_score, &v)
        for block in range(n_blocks):
            if self.bound[block] >= best_score and block != first:
                self.look_through(block, &best_score, &v)
        return v

    cdef void give_up(self, int v) noexcept nogil:
        """Free the spare values of a node, so that its next run is required."""
        cdef int64_t x
        self.live -= self.bytes[self.place[v]]
        self.take_out(v)
        self.broken[v] = True
        for x in range(self.value_indptr[v], self.value_indptr[v + 1]):
            if self.state[x] == spare:
                self.state[x] = gone

    cdef void classify(self, int64_t x, int v) noexcept nogil:
        """Set the state of a value of node v after a step that computed it, read it, or would have read it."""
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
        """Skip a run: the spare values of its node become required; a missing value makes the next run required."""
        cdef int64_t x
        cdef int run = self.coming_run[v], after
        after = self.next_run[run] if run < self.order.shape[0] else run
        self.take_out(v)
        self.broken[v] = False
        for x in range(self.value_indptr[v], self.value_indptr[v + 1]):
            if self.state[x] == spare:
                self.state[x] = required
            elif self.state[x] == gone and self.coming_read[x] < after:
                self.broken[v] = True

    cdef void run(self, int v, int64_t size, int64_t limit) noexcept nogil:
        """Run a node that needs `size` bytes for values and workspace; free spare values first if it does not fit."""
        cdef int64_t x
        while self.live + size > limit and self.n_spare:
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


@cython.final
cdef class _Sinking:
    """New positions of runs, determined from the last run to the first. A run moved to step t is just before step t."""

    cdef Int64s read_indptr
    cdef Int32s read_indices
    cdef Int32s producer
    cdef Flags output
    cdef Int64s memory
    cdef int[::1] next_run          # indexed by node
    # For each value: new positions of the first and last read of its current instance; m and -1 if it has no reads.
    cdef int[::1] first_read
    cdef int[::1] last_read

    cdef int latest(self, int v, int bound) noexcept nogil:
        """Return the last step to which v can move, at most `bound`: until then no node that v reads is recomputed."""
        cdef int64_t j
        cdef int x
        for j in range(self.read_indptr[v], self.read_indptr[v + 1]):
            x = self.read_indices[j]
            if not self.output[x]:
                bound = min(bound, self.next_run[self.producer[x]])
        return bound

    cdef int64_t live_for(self, int v, int step, int* until) noexcept nogil:
        """Return the bytes of inputs that only this run of v keeps live after `step`.

        The result increases when the last other reader of another input of v has run. `until` is lowered to the first
        such step.
        """
        cdef int64_t j, size = 0
        cdef int x
        for j in range(self.read_indptr[v], self.read_indptr[v + 1]):
            x = self.read_indices[j]
            if self.output[x]:
                continue
            if self.last_read[x] <= step:
                size += self.memory[x]
            else:
                until[0] = min(until[0], self.last_read[x])
        return size

    cdef void read(self, int v, int step) noexcept nogil:
        cdef int64_t j
        cdef int x
        for j in range(self.read_indptr[v], self.read_indptr[v + 1]):
            x = self.read_indices[j]
            self.first_read[x] = min(self.first_read[x], step)
            self.last_read[x] = max(self.last_read[x], step)
