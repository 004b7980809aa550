# distutils: language = c++
"""Greedy rematerialization: one walk along the order; what does not fit is recomputed later (kumar2019, section 4)."""

include "_greedy_remat_runs.pxi"
include "_greedy_remat_blocks.pxi"


@cython.final
cdef class Walk:
    """The walk for one limit.

    runs : Runs, blocks : Blocks, workspace : int64[n], limit : bytes, max_runs : runs that may be
    created, factor, min_work : the search for blocks of several runs may cost `factor` times the one for single runs,
    plus `min_work`
    """
    cdef Runs runs
    cdef Blocks blocks
    cdef const int64[::1] workspace
    cdef int64 limit, max_runs, factor, min_work
    cdef vector[int] stack                         # runs to drop
    cdef readonly bint cut_short
    cdef readonly int reached                      # the highest level that was tried; `levels` where all failed

    def __init__(self, Runs runs, Blocks blocks, workspace, int64 limit, int64 max_runs, int64 factor, int64 min_work):
        self.runs, self.blocks, self.workspace, self.limit = runs, blocks, workspace, limit
        self.max_runs, self.factor, self.min_work = max_runs, factor, min_work
        self.cut_short = False
        self.reached = 0

    def go(self):
        """Walk to the end."""
        cdef int run
        with nogil:
            run = self.runs.first
            while run >= 0:
                self.runs.begin(run)
                if self.too_much() and self.allocates(self.runs.node[run]):
                    self.blocks.at_step()
                    self.reduce()
                self.runs.end()
                run = self.runs.after[run]

    cdef inline bint too_much(self) noexcept nogil:
        return self.runs.total_live + self.workspace[self.runs.node[self.runs.current]] > self.limit

    cdef bint allocates(self, int v) noexcept nogil:
        cdef int64 x, bytes = self.workspace[v]
        for x in range(self.runs.value_indptr[v], self.runs.value_indptr[v + 1]):
            bytes += self.runs.memory[x]
        return bytes > 0

    cdef void reduce(self) noexcept nogil:
        """Postpone one block after the other until the current run fits, or none saves anything."""
        cdef int level = 0
        cdef size_t i
        while self.too_much() and level < self.blocks.levels:
            if <int64>self.runs.node.size() >= self.max_runs or (level and self.spent()):
                self.cut_short = True
                return
            if not self.blocks.choose(level):
                level += 1
                self.reached = max(self.reached, level)
                continue
            for i in range(self.blocks.chosen.size()):
                if self.runs.awaited[self.blocks.chosen[i]] > 0:
                    self.run_again(self.blocks.chosen[i])
            self.blocks.grow()
            level = 0

    cdef inline bint spent(self) noexcept nogil:
        return self.blocks.block_work > self.factor * self.blocks.single_work + self.min_work

    cdef void run_again(self, int run) noexcept nogil:
        """Another run takes over its reads; a run without readers so far is moved by that, and only once."""
        cdef int place = self.place_for(run), again = self.runs.new_run(self.runs.node[run])
        self.runs.insert(again, place)
        self.runs.hand_over(run, again)
        if self.useless(run):
            self.runs.moved[again] = True
            self.runs.denied[again] = self.runs.moved[run]
            self.drop(run)

    cdef bint useless(self, int run) noexcept nogil:
        """Whether none of its values was read, will be read, or is an output."""
        cdef int64 slot
        if self.runs.used[run] > 0 or not self.runs.placed[run]:
            return False
        for slot in range(self.runs.first_slot[run], self.runs.end_slot(run)):
            if not self.runs.dead(slot):
                return False
        return True

    cdef void drop(self, int run) noexcept nogil:
        """Remove a placed run without readers, and then those that only it had read."""
        cdef int64 edge
        cdef int other
        self.stack.push_back(run)
        while self.stack.size():
            run = self.stack.back()
            self.stack.pop_back()
            self.runs.touch(run)
            if self.runs.before[run] < 0:
                self.runs.first = self.runs.after[run]
            else:
                self.runs.after[self.runs.before[run]] = self.runs.after[run]
            self.runs.before[self.runs.after[run]] = self.runs.before[run]
            self.forget(run)
            for edge in range(self.runs.first_edge[run], self.runs.end_edge(run)):
                other = self.runs.owner[self.runs.source[edge]]
                self.runs.used[other] = self.runs.used[other] - 1
                if self.runs.used[other] == 0:
                    self.runs.touch(other)
                if self.useless(other):
                    self.stack.push_back(other)

    cdef void forget(self, int run) noexcept nogil:
        """Remove it from the runs of its node."""
        cdef int v = self.runs.node[run], newer = self.runs.newest[v]
        if newer == run:
            self.runs.newest[v] = self.runs.older[run]
        else:
            while self.runs.older[newer] != run:
                newer = self.runs.older[newer]
            self.runs.older[newer] = self.runs.older[run]
        if self.runs.latest[v] == run:
            self.runs.renew_latest(v, self.runs.newest_before(v, self.runs.label[run]))

    cdef int place_for(self, int run) noexcept nogil:
        """Before the first of: its readers to come; the last reader to come of each value that it reads."""
        cdef int place = -1, last
        cdef int64 slot, edge, x
        for slot in range(self.runs.first_slot[run], self.runs.end_slot(run)):
            if self.runs.pinned(slot):
                continue
            edge = self.runs.to_read[slot]
            while edge >= 0:
                place = self.sooner(place, self.runs.reader[edge])
                edge = self.runs.next_edge[edge]
        for edge in range(self.runs.first_edge[run], self.runs.end_edge(run)):
            x = self.runs.value_of(self.runs.source[edge])
            last = -1 if self.runs.output[x] else self.last_reader(self.runs.placed_slot(x))
            if last >= 0:
                place = self.sooner(place, last)
        return place

    cdef inline int sooner(self, int one, int other) noexcept nogil:
        return one if one >= 0 and self.runs.label[one] < self.runs.label[other] else other

    cdef int last_reader(self, int64 slot) noexcept nogil:
        """The last run to come that reads a slot, -1 if there is none."""
        cdef int last = -1, reader
        cdef int64 edge = self.runs.to_read[slot]
        while edge >= 0:
            reader = self.runs.reader[edge]
            if reader != self.runs.current and (last < 0 or self.runs.label[reader] > self.runs.label[last]):
                last = reader
            edge = self.runs.next_edge[edge]
        return last


def greedy(order, value_indptr, read_indptr, read_indices, reader_indptr, reader_indices, producer, output, rerunnable,
           memory, workspace, int64 limit, int64 max_block, int64 max_runs, int64 factor, int64 min_work):
    """An order with the recomputations that one walk along it under a limit inserts.

    order : int32[m], value_indptr : int64[n + 1], read_indptr : int64[n + 1], read_indices : int32[k],
    reader_indptr : int64[n_values + 1], reader_indices : int32[k] nodes, producer : int32[n_values],
    output : uint8[n_values], rerunnable : uint8[n], memory : int64[n_values], workspace : int64[n];
    limit in bytes, max_block as in Blocks, max_runs, factor, min_work as in Walk
    Returns (int32[k], the highest level of blocks that was tried, work). The level counts from 0 and is one more than
    there is if some step had no block to postpone, two more if the walk was cut short.
    """
    runs = Runs(order, value_indptr, read_indptr, read_indices, reader_indptr, reader_indices, producer, output,
                rerunnable, memory, max_block)
    blocks = Blocks(runs, limit, max_block)
    walk = Walk(runs, blocks, workspace, limit, max_runs, factor, min_work)
    walk.go()
    reached = blocks.levels + 1 if walk.cut_short else walk.reached
    return runs.order(), reached, blocks.single_work + blocks.block_work
