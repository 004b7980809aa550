# Which block of runs to run again later: include "_greedy_remat_blocks.pxi", after "_greedy_remat_runs.pxi".


@cython.final
cdef class Blocks:
    """Blocks of consecutive placed runs, and what each saves now.

    Level 0 are the single runs, level k the blocks of more than 2^(k-1) and at most 2^k. The best block of each end and
    level is remembered until a run in reach changes; only whether the current run reads it is looked at each time.
    runs : Runs, limit : bytes, max_block : maximum number of runs of a block,
    from 2 on what has not been read yet is preferred
    """
    cdef Runs runs
    cdef int64 limit, max_block
    cdef readonly int levels
    cdef readonly int64 single_work, block_work    # runs and reads that were looked at
    cdef vector[int64] busy, seen, charged_run, charged     # stamps, of runs and slots
    cdef int64 clock, step
    cdef vector[int64] cost                        # of the best block of each end and level, -1 for none
    cdef vector[int] start, size
    cdef vector[char] barren                       # levels at which there was nothing the last time
    cdef vector[size_t] barren_since               # how many runs had been touched by then
    cdef vector[int] passed                        # ends whose best block the current run reads
    cdef vector[int] chosen                        # the runs of the best block, its end first

    def __init__(self, Runs runs, int64 limit, int64 max_block):
        self.runs, self.limit, self.max_block = runs, limit, max_block
        self.levels = 1 + int(max_block - 1).bit_length()
        self.barren.assign(self.levels, 0)
        self.barren_since.assign(self.levels, 0)
        self.single_work = self.block_work = self.clock = self.step = 0

    cdef void at_step(self) noexcept nogil:
        """Another current run: what it reads cannot be moved now."""
        cdef int64 edge
        cdef int run = self.runs.current
        cdef size_t i
        for i in range(self.passed.size()):
            if not self.runs.is_touched[self.passed[i]]:
                self.runs.mark(self.passed[i])
        self.passed.clear()
        self.clock += 1
        self.step = self.clock
        self.grow()
        for edge in range(self.runs.first_edge[run], self.runs.end_edge(run)):
            self.busy[self.runs.owner[self.runs.source[edge]]] = self.step

    cdef void grow(self) noexcept nogil:
        cdef size_t runs = self.runs.node.size()
        self.busy.resize(runs, 0)
        self.seen.resize(runs, 0)
        self.charged_run.resize(runs, 0)
        self.charged.resize(self.runs.owner.size(), 0)
        self.cost.resize(runs * self.levels)
        self.start.resize(runs * self.levels)
        self.size.resize(runs * self.levels)

    cdef bint choose(self, int level) noexcept nogil:
        """Find the block of a level that costs least, ties by its start, then its size; whether there is one.

        If there was none the last time, only ends are looked at that were touched since.
        """
        cdef size_t i, first = self.barren_since[level] if self.barren[level] else 0
        cdef size_t many = self.runs.touched.size() if self.barren[level] else self.runs.live.size()
        cdef int end, best = -1
        cdef int64 chosen_at
        self.clock += 1
        chosen_at = self.clock
        for i in range(first, many):
            end = self.runs.touched[i] if self.barren[level] else self.runs.live[i]
            self.runs.is_touched[end] = 0
            if self.runs.where[end] >= 0 and self.seen[end] != chosen_at:
                self.seen[end] = chosen_at
                if self.runs.known[end] <= level:
                    self.look(end, level, False)
                if self.better(end, best, level) and self.is_busy(end, level):
                    self.look(end, level, True)
                    self.passed.push_back(end)
                if self.better(end, best, level):
                    best = end
        self.count(level, many - first)
        self.barren[level] = best < 0
        self.barren_since[level] = self.runs.touched.size()
        self.keep(best, level)
        return best >= 0

    cdef void keep(self, int end, int level) noexcept nogil:
        """What was chosen: the best block of an end."""
        cdef int i
        self.chosen.clear()
        if end >= 0:
            for i in range(self.size[<int64>end * self.levels + level]):
                self.chosen.push_back(end)
                end = self.runs.before[end]

    cdef inline void count(self, int level, int64 work) noexcept nogil:
        if level:
            self.block_work += work
        else:
            self.single_work += work

    cdef inline bint better(self, int end, int best, int level) noexcept nogil:
        cdef int64 i = <int64>end * self.levels + level, k = <int64>best * self.levels + level
        cdef int64 label, other
        if self.cost[i] < 0 or best < 0:
            return self.cost[i] >= 0
        if self.cost[i] != self.cost[k]:
            return self.cost[i] < self.cost[k]
        label, other = self.runs.label[self.start[i]], self.runs.label[self.start[k]]
        return label < other or label == other and self.size[i] < self.size[k]

    cdef bint is_busy(self, int end, int level) noexcept nogil:
        """Whether the current run reads something of the best block of an end."""
        cdef int i, run = end
        for i in range(self.size[<int64>end * self.levels + level]):
            if self.busy[run] == self.step:
                return True
            run = self.runs.before[run]
        return False

    cdef void look(self, int end, int highest, bint careful) noexcept nogil:
        """Find the best block of each level that ends with a run, by taking in one more run before it at a time.

        A run counts if it is awaited or makes what the block reads; others are in the block, but do not run again.
        careful : stop at what the current run reads, and forget it all after this step
        """
        cdef int run = end, level = 0
        cdef int64 size = 0, level_end = 1, saved = 0, slot, edge, work = 0, cell = <int64>end * self.levels
        cdef bint unused = self.max_block > 1
        self.clock += 1
        for level in range(highest + 1):
            self.cost[cell + level] = -1
        level = 0
        while run >= 0 and self.runs.free_to_move(run) and not (careful and self.busy[run] == self.step):
            size += 1
            if size > level_end:
                level += 1
                level_end = min(2 * level_end, self.max_block)
            if level > highest or size > self.max_block:
                break
            work += 1
            if self.charged_run[run] == self.clock:
                for slot in range(self.runs.first_slot[run], self.runs.end_slot(run)):
                    if self.charged[slot] == self.clock:
                        saved += self.runs.memory[self.runs.value_of(slot)]
            if self.runs.awaited[run] > 0 or self.charged_run[run] == self.clock:
                saved += self.runs.live_bytes[run]
                unused = unused and self.runs.used[run] == 0
                for edge in range(self.runs.first_edge[run], self.runs.end_edge(run)):
                    saved -= self.charge(self.runs.value_of(self.runs.source[edge]))
                    work += 1
                if saved > 0:
                    self.offer(cell + level, 0 if unused else self.limit // saved, run, <int>size)
            run = self.runs.before[run]
        self.runs.known[end] = 0 if careful else highest + 1
        self.count(highest, work)

    cdef inline void offer(self, int64 cell, int64 cost, int start, int size) noexcept nogil:
        if self.cost[cell] < 0 or cost <= self.cost[cell]:           # of equal ones the one that starts first
            self.cost[cell], self.start[cell], self.size[cell] = cost, start, size

    cdef inline int64 charge(self, int64 x) noexcept nogil:
        """Bytes that a block needs besides, once: of a value that it reads and that is dead, unless it makes it."""
        cdef int64 slot = self.runs.placed_slot(x)
        if self.charged[slot] == self.clock or not self.runs.dead(slot):
            return 0
        self.charged[slot] = self.clock
        self.charged_run[self.runs.owner[slot]] = self.clock
        return self.runs.memory[x]
