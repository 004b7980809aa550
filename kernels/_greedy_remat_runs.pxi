# A schedule that changes while it is walked along: include "_greedy_remat_runs.pxi".

import numpy as np

cimport cython
from libcpp.vector cimport vector

ctypedef long long int64

cdef enum:
    GAP_BITS = 32                                  # between the labels of neighbours, at first


@cython.final
cdef class Runs:
    """The runs of a schedule in a linked list, and for each value of each run the reads that are still to come.

    A run is to come, current or placed. Each read is of the newest run before it, as in the simulator; so a run
    that is inserted takes over all reads behind it. Outputs stay from the first run on, and reads of them are of that
    one. The values of run r are the slots from first_slot[r], its reads are the edges from first_edge[r].
    awaited[r] of the slots of a placed run are live and could be computed by another run; known[r] levels of blocks
    that end with r have been looked at and have not changed since.
    """
    cdef const int64[::1] value_indptr, read_indptr, reader_indptr, memory
    cdef const int[::1] read_indices, reader_indices, producer
    cdef const unsigned char[::1] output, rerunnable
    # of each run
    cdef vector[int] node, before, after, older, used, where, known, awaited
    cdef vector[int64] label, first_slot, first_edge, live_bytes
    cdef vector[char] placed, moved, denied
    # of each slot: its run, the first edge to come, -1 for none; of each edge: its reader, its slot, its neighbours
    cdef vector[int] owner, reader
    cdef vector[int64] to_read, source, next_edge, previous_edge
    # of each node: its first run, its newest one that is placed or current, the one created last, behind it the `older`
    cdef vector[int] original, latest, newest
    cdef vector[int] live                          # placed runs with live bytes that may run again, at where[run]
    cdef vector[int] touched                       # since the blocks were last looked at, in the order of time
    cdef vector[char] is_touched                   # of each run: whether it stands there and was not looked at again
    cdef int first, current
    cdef int64 total_live                          # bytes of all live values, and of all values of the current run
    cdef int64 window                              # maximum number of runs of a block

    def __init__(self, order, value_indptr, read_indptr, read_indices, reader_indptr, reader_indices, producer, output,
                 rerunnable, memory, int64 window):
        self.value_indptr, self.read_indptr, self.reader_indptr = value_indptr, read_indptr, reader_indptr
        self.read_indices, self.reader_indices, self.producer = read_indices, reader_indices, producer
        self.memory, self.window = memory, window
        self.output, self.rerunnable = output, rerunnable
        self.original.assign(value_indptr.shape[0] - 1, -1)
        self.latest.assign(value_indptr.shape[0] - 1, -1)
        self.newest.assign(value_indptr.shape[0] - 1, -1)
        self.first = self.current = -1
        self.total_live = 0
        cdef const int[::1] nodes = order
        cdef Py_ssize_t i
        cdef int run, last = -1
        with nogil:
            for i in range(nodes.shape[0]):
                run = self.new_run(nodes[i])
                if self.original[nodes[i]] < 0:
                    self.original[nodes[i]] = run
                self.label[run] = <int64>(i + 1) << GAP_BITS
                self.before[run] = last
                if last < 0:
                    self.first = run
                else:
                    self.after[last] = run
                last = run
                self.connect(run)

    cdef inline int64 value_of(self, int64 slot) noexcept nogil:
        cdef int run = self.owner[slot]
        return self.value_indptr[self.node[run]] + slot - self.first_slot[run]

    cdef inline int64 end_slot(self, int run) noexcept nogil:
        cdef int v = self.node[run]
        return self.first_slot[run] + self.value_indptr[v + 1] - self.value_indptr[v]

    cdef inline int64 end_edge(self, int run) noexcept nogil:
        cdef int v = self.node[run]
        return self.first_edge[run] + self.read_indptr[v + 1] - self.read_indptr[v]

    cdef inline bint pinned(self, int64 slot) noexcept nogil:
        return self.output[self.value_of(slot)] and self.original[self.node[self.owner[slot]]] == self.owner[slot]

    cdef inline bint dead(self, int64 slot) noexcept nogil:
        return self.to_read[slot] < 0 and self.owner[slot] != self.current and not self.pinned(slot)

    cdef inline int64 placed_slot(self, int64 x) noexcept nogil:
        """The slot that reads of a value were of so far."""
        cdef int v = self.producer[x]
        cdef int run = self.original[v] if self.output[x] else self.latest[v]
        return self.first_slot[run] + x - self.value_indptr[v]

    cdef int new_run(self, int v) noexcept nogil:
        """A run of a node, in no place yet, that reads nothing yet."""
        cdef int run = <int>self.node.size()
        cdef int64 i
        self.node.push_back(v)
        self.before.push_back(-1)
        self.after.push_back(-1)
        self.older.push_back(self.newest[v])
        self.newest[v] = run
        self.used.push_back(0)
        self.where.push_back(-1)
        self.known.push_back(0)
        self.awaited.push_back(0)
        self.label.push_back(0)
        self.live_bytes.push_back(0)
        self.placed.push_back(0)
        self.moved.push_back(0)
        self.denied.push_back(0)
        self.is_touched.push_back(0)
        self.first_slot.push_back(<int64>self.owner.size())
        self.first_edge.push_back(<int64>self.reader.size())
        for i in range(self.value_indptr[v], self.value_indptr[v + 1]):
            self.owner.push_back(run)
            self.to_read.push_back(-1)
        for i in range(self.read_indptr[v], self.read_indptr[v + 1]):
            self.reader.push_back(run)
            self.source.push_back(-1)
            self.next_edge.push_back(-1)
            self.previous_edge.push_back(-1)
        return run

    cdef void insert(self, int run, int place) noexcept nogil:
        """Put a run before another, behind the current one."""
        cdef int previous = self.before[place]
        if self.label[place] - self.label[previous] < 2:
            self.relabel()
        self.label[run] = (self.label[place] + self.label[previous]) // 2
        self.before[run], self.after[run] = previous, place
        self.after[previous] = run
        self.before[place] = run
        self.connect(run)

    cdef void relabel(self) noexcept nogil:
        cdef int64 place = 0
        cdef int run = self.first
        while run >= 0:
            place += 1
            self.label[run] = place << GAP_BITS
            run = self.after[run]

    cdef void connect(self, int run) noexcept nogil:
        """Each of its reads is of the newest run before it; what was dead is live again."""
        cdef int v = self.node[run], source_run
        cdef int64 edge = self.first_edge[run], j, slot
        cdef int x
        for j in range(self.read_indptr[v], self.read_indptr[v + 1]):
            x = self.read_indices[j]
            source_run = self.original[self.producer[x]]
            if not self.output[x]:
                source_run = self.newest_before(self.producer[x], self.label[run])
            slot = self.first_slot[source_run] + x - self.value_indptr[self.node[source_run]]
            if self.placed[source_run] and self.dead(slot):
                self.gain(slot, 1)
            self.add_read(edge, slot)
            edge += 1

    cdef void add_read(self, int64 edge, int64 slot) noexcept nogil:
        self.source[edge] = slot
        self.previous_edge[edge] = -1
        self.next_edge[edge] = self.to_read[slot]
        if self.to_read[slot] >= 0:
            self.previous_edge[self.to_read[slot]] = edge
        self.to_read[slot] = edge

    cdef void has_read(self, int64 edge) noexcept nogil:
        """A read is done; a value without reads to come dies."""
        cdef int64 slot = self.source[edge]
        cdef int run = self.owner[slot]
        if self.previous_edge[edge] >= 0:
            self.next_edge[self.previous_edge[edge]] = self.next_edge[edge]
        else:
            self.to_read[slot] = self.next_edge[edge]
        if self.next_edge[edge] >= 0:
            self.previous_edge[self.next_edge[edge]] = self.previous_edge[edge]
        self.used[run] += 1
        if self.used[run] == 1:
            self.touch(run)
        if self.dead(slot):
            self.gain(slot, -1)

    cdef void hand_over(self, int run, int other) noexcept nogil:
        """All reads to come of a placed run are of another run of its node, but for what stays."""
        cdef int64 slot, edge, to
        for slot in range(self.first_slot[run], self.end_slot(run)):
            if self.to_read[slot] < 0 or self.pinned(slot):
                continue
            to = self.first_slot[other] + slot - self.first_slot[run]
            while self.to_read[slot] >= 0:
                edge = self.to_read[slot]
                self.to_read[slot] = self.next_edge[edge]
                self.add_read(edge, to)
            self.gain(slot, -1)

    cdef void gain(self, int64 slot, int sign) noexcept nogil:
        """A slot of a placed run has come to life (1) or died (-1); what stays is not counted."""
        cdef int run = self.owner[slot], last
        cdef int64 x = self.value_of(slot)
        self.total_live += sign * self.memory[x]
        self.live_bytes[run] += sign * self.memory[x]
        self.awaited[run] += sign
        self.touch(run)
        self.touch_readers(x)
        if self.live_bytes[run] > 0 and self.where[run] < 0 and self.free_to_move(run):
            self.where[run] = <int>self.live.size()
            self.live.push_back(run)
            self.mark(run)
        elif self.live_bytes[run] == 0 and self.where[run] >= 0:
            last = self.live.back()
            self.live[self.where[run]] = last
            self.where[last] = self.where[run]
            self.live.pop_back()
            self.where[run] = -1

    cdef inline bint free_to_move(self, int run) noexcept nogil:
        return self.rerunnable[self.node[run]] and not self.denied[run]

    cdef void touch(self, int run) noexcept nogil:
        """Blocks with this placed run have changed: nothing is known of those that end with it or a little later."""
        cdef int64 i
        for i in range(self.window):
            if run < 0 or not self.placed[run] or not self.free_to_move(run):
                return
            self.known[run] = 0
            if not self.is_touched[run]:
                self.mark(run)
            run = self.after[run]

    cdef inline void mark(self, int run) noexcept nogil:
        self.touched.push_back(run)
        self.is_touched[run] = 1

    cdef void touch_readers(self, int64 x) noexcept nogil:
        cdef int64 j
        for j in range(self.reader_indptr[x], self.reader_indptr[x + 1]):
            self.touch(self.latest[self.reader_indices[j]])

    cdef int newest_before(self, int v, int64 label) noexcept nogil:
        """The last run of a node before a place, -1 if there is none."""
        cdef int run = self.newest[v], best = -1
        while run >= 0:
            if self.label[run] < label and (best < 0 or self.label[run] > self.label[best]):
                best = run
            run = self.older[run]
        return best

    cdef void begin(self, int run) noexcept nogil:
        """A run becomes the current one, all of whose values are live."""
        cdef int64 x
        self.current = run
        self.renew_latest(self.node[run], run)
        for x in range(self.value_indptr[self.node[run]], self.value_indptr[self.node[run] + 1]):
            self.total_live += self.memory[x]

    cdef void renew_latest(self, int v, int run) noexcept nogil:
        cdef int64 x
        self.touch(self.latest[v])
        self.latest[v] = run
        for x in range(self.value_indptr[v], self.value_indptr[v + 1]):
            self.touch_readers(x)

    cdef void end(self) noexcept nogil:
        """The current run has been: it is placed, and what is not read any more is free."""
        cdef int run = self.current
        cdef int64 slot, edge
        self.current = -1
        self.placed[run] = 1
        for slot in range(self.first_slot[run], self.end_slot(run)):
            if not self.pinned(slot):
                self.total_live -= self.memory[self.value_of(slot)]
                if self.dead(slot):
                    self.touch_readers(self.value_of(slot))
                else:
                    self.gain(slot, 1)
        for edge in range(self.first_edge[run], self.end_edge(run)):
            self.has_read(edge)

    def order(self):
        """int32[m]: the nodes of the runs."""
        cdef vector[int] nodes
        cdef int run = self.first
        while run >= 0:
            nodes.push_back(self.node[run])
            run = self.after[run]
        return np.asarray(nodes, np.int32) if nodes.size() else np.empty(0, np.int32)
