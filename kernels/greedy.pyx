# distutils: language = c++
"""Greedy rematerialization (kumar2019, section 4). One walk along an order frees values to stay within a limit, and
inserts runs that recompute them later.

Recomputing a run later instead of keeping its values is called postponing the run."""

import numpy as np

cimport cython
from libc.math cimport INFINITY
from libcpp.vector cimport vector
from remat_algos.kernels.graph cimport GraphArrays
from remat_algos.kernels.growing cimport assign
from remat_algos.kernels.rules cimport MAX_ARGUMENTS, Rule
from remat_algos.kernels.types cimport Flags, Int32s, Int64s, int64_t

cdef class _RunList
cdef class _PostponableBlocks
cdef class _GreedyWalk


def greedy_order(GraphArrays graph not None, Int32s order, Flags rerunnable, *, int64_t limit, int64_t max_block,
                 int64_t max_runs, int64_t factor, int64_t min_work, bint moves, Rule rule not None):
    """Walk along an order and insert the recomputations that a limit requires.

    order : int32[m]; rerunnable : uint8[n] flags of the nodes that may be recomputed; limit : bytes; max_block : as in
    _PostponableBlocks; max_runs, factor, min_work : as in _GreedyWalk
    moves : if True, follow the rematerialization pass of XLA. If False, follow the text of kumar2019: no run is ever
    removed, and a postponed run is placed just before its first future reader. This variant terminates only because of
    max_runs.
    rule : see _PostponableBlocks; its arguments are nbytes, cost, since_read, until_read, readers and limit
    Returns (int32[k], level, work). The level is the highest block level tried, counted from 0 (see
    _PostponableBlocks). It is one above the last level if some step had no block to postpone, and two above if the walk
    was stopped early.
    Cost: O(m + reads of all runs) time and memory. Each step above the limit scans the live runs and, if `max_block` is
    above 1, the blocks that end with them: about m^2 in total on long orders with a tight limit.
    """
    runs = _RunList(graph, order, rerunnable, max_block)
    blocks = _PostponableBlocks(runs, graph.compute, limit, max_block, moves, rule)
    walk = _GreedyWalk(runs, blocks, graph.workspace, limit, max_runs, factor, min_work, moves)
    walk.go()
    reached = blocks.levels + 1 if walk.cut_short else walk.reached
    return runs.order(), reached, blocks.single_work + blocks.block_work


# The schedule, which changes during the walk.

cdef enum:
    # Labels of adjacent runs initially differ by 2**GAP_BITS.
    GAP_BITS = 32


cdef struct _Run:
    int node, before, after, older, used, where, known, awaited
    # Position in the given order; an inserted run has the position of the run before which it was inserted.
    int position
    # Step of the walk at which a value of the run was last read; if there is no read, the step of the run itself.
    int64_t read_at
    int64_t label, first_slot, first_edge, live_bytes
    bint placed, moved, denied
    # True if the run is in `touched`, and the blocks that end with it have not been examined since.
    bint is_touched


cdef struct _Read:
    int reader
    # The slot that is read, and the next and previous edge in the list of future reads of this slot.
    int64_t source, next, previous


@cython.final
cdef class _RunList:
    """The runs of a schedule in a linked list, with the future reads of each value of each run.

    A run before the walk's position is placed, the run at this position is the current run, and all others are future
    runs. As in the simulator, a read refers to the newest run before it. So an inserted run takes over all later reads.
    Outputs stay live from the first run on, and reads of them refer to the first run.

    The values of a run are called slots and numbered from first_slot. Its reads are called edges and numbered from
    first_edge. `awaited` is the number of slots of a placed run that are live and that another run could recompute.
    `known` is the number of levels (see _PostponableBlocks) for which the best block that ends with the run is cached.

    Labels increase from each run to the next one in the list (`after`). The future edges of a slot form a list:
    reads[reads[e].previous].next == e. live[all[r].where] == r for each run r with live bytes that may be postponed.
    After a MemoryError these invariants are lost: discard the list, the blocks and the walk.
    """
    cdef Int64s value_indptr, read_indptr, reader_indptr, memory
    cdef Int32s read_indices, reader_indices, producer
    cdef Flags output, rerunnable
    cdef vector[_Run] all                          # indexed by run
    cdef vector[_Read] reads                       # indexed by edge
    cdef vector[int] owner                         # run of each slot
    # For each slot, the first edge in its list of future reads, -1 for none.
    cdef vector[int64_t] to_read
    # For each node: its first run (`original`); its last run that is placed or current (`latest`); and the run that was
    # created last (`newest`), from which `older` leads to all other runs of the node.
    cdef vector[int] original, latest, newest
    # Placed runs that have live bytes and may be postponed; run r is at position all[r].where.
    cdef vector[int] live
    # Runs whose blocks must be examined again, in the order in which they changed.
    cdef vector[int] touched
    cdef int first, current
    cdef int64_t steps                               # of the walk
    # Bytes of all live values, including all values of the current run.
    cdef int64_t total_live
    # Maximum number of runs per block.
    cdef int64_t window

    def __init__(self, GraphArrays graph, Int32s nodes, Flags rerunnable, int64_t window):
        self.value_indptr, self.read_indptr, self.reader_indptr = (
            graph.value_indptr, graph.read_indptr, graph.reader_indptr
        )
        self.read_indices, self.reader_indices, self.producer = (
            graph.read_indices, graph.reader_indices, graph.producer
        )
        self.memory, self.output = graph.memory, graph.output
        self.rerunnable, self.window = rerunnable, window
        assign(self.original, graph.n_nodes, -1)
        assign(self.latest, graph.n_nodes, -1)
        assign(self.newest, graph.n_nodes, -1)
        self.first = self.current = -1
        self.total_live = self.steps = 0
        cdef Py_ssize_t i
        cdef int run, last = -1
        with nogil:
            for i in range(nodes.shape[0]):
                run = self.new_run(nodes[i])
                if self.original[nodes[i]] < 0:
                    self.original[nodes[i]] = run
                self.all[run].label = <int64_t>(i + 1) << GAP_BITS
                self.all[run].before, self.all[run].position = last, <int>i
                if last < 0:
                    self.first = run
                else:
                    self.all[last].after = run
                last = run
                self.connect(run)

    cdef inline int64_t value_of(self, int64_t slot) noexcept nogil:
        cdef int run = self.owner[slot]
        return self.value_indptr[self.all[run].node] + slot - self.all[run].first_slot

    cdef inline int64_t end_slot(self, int run) noexcept nogil:
        cdef int v = self.all[run].node
        return self.all[run].first_slot + self.value_indptr[v + 1] - self.value_indptr[v]

    cdef inline int64_t end_edge(self, int run) noexcept nogil:
        cdef int v = self.all[run].node
        return self.all[run].first_edge + self.read_indptr[v + 1] - self.read_indptr[v]

    cdef inline bint pinned(self, int64_t slot) noexcept nogil:
        return self.output[self.value_of(slot)] and self.original[self.all[self.owner[slot]].node] == self.owner[slot]

    cdef inline bint dead(self, int64_t slot) noexcept nogil:
        return self.to_read[slot] < 0 and self.owner[slot] != self.current and not self.pinned(slot)

    cdef inline int64_t placed_slot(self, int64_t x) noexcept nogil:
        """Return the slot that serves reads of value x at the walk's position."""
        cdef int v = self.producer[x]
        cdef int run = self.original[v] if self.output[x] else self.latest[v]
        return self.all[run].first_slot + x - self.value_indptr[v]

    cdef int new_run(self, int v) except -1 nogil:
        """Create a run of a node, not yet in the linked list and with unconnected reads; return its number."""
        cdef int run = <int>self.all.size()
        cdef int64_t i
        self.all.push_back(_Run(
            node=v, before=-1, after=-1, older=self.newest[v], used=0, where=-1, known=0, awaited=0, position=0,
            read_at=0, label=0,
            first_slot=<int64_t>self.owner.size(), first_edge=<int64_t>self.reads.size(), live_bytes=0, placed=False,
            moved=False, denied=False, is_touched=False
        ))
        self.newest[v] = run
        for i in range(self.value_indptr[v], self.value_indptr[v + 1]):
            self.owner.push_back(run)
            self.to_read.push_back(-1)
        for i in range(self.read_indptr[v], self.read_indptr[v + 1]):
            self.reads.push_back(_Read(reader=run, source=-1, next=-1, previous=-1))
        return run

    cdef int insert(self, int run, int place) except -1 nogil:
        """Insert a run into the list before run `place`, which is after the current run."""
        cdef int previous = self.all[place].before
        if self.all[place].label - self.all[previous].label < 2:
            self.relabel()
        self.all[run].label = (self.all[place].label + self.all[previous].label) // 2
        self.all[run].before, self.all[run].after = previous, place
        self.all[run].position = self.all[place].position
        self.all[previous].after = run
        self.all[place].before = run
        self.connect(run)
        return 0

    cdef void relabel(self) noexcept nogil:
        cdef int64_t place = 0
        cdef int run = self.first
        while run >= 0:
            place += 1
            self.all[run].label = place << GAP_BITS
            run = self.all[run].after

    cdef int connect(self, int run) except -1 nogil:
        """Connect each read of a run to the newest earlier run that computes the value; a dead value becomes live."""
        cdef int v = self.all[run].node, source_run
        cdef int64_t edge = self.all[run].first_edge, j, slot
        cdef int x
        for j in range(self.read_indptr[v], self.read_indptr[v + 1]):
            x = self.read_indices[j]
            source_run = self.original[self.producer[x]]
            if not self.output[x]:
                source_run = self.newest_before(self.producer[x], self.all[run].label)
            slot = self.all[source_run].first_slot + x - self.value_indptr[self.all[source_run].node]
            if self.all[source_run].placed and self.dead(slot):
                self.gain(slot, 1)
            self.add_read(edge, slot)
            edge += 1
        return 0

    cdef void add_read(self, int64_t edge, int64_t slot) noexcept nogil:
        self.reads[edge].source = slot
        self.reads[edge].previous = -1
        self.reads[edge].next = self.to_read[slot]
        if self.to_read[slot] >= 0:
            self.reads[self.to_read[slot]].previous = edge
        self.to_read[slot] = edge

    cdef int has_read(self, int64_t edge) except -1 nogil:
        """Remove the edge of a completed read from its list; a value without future reads dies."""
        cdef int64_t slot = self.reads[edge].source
        cdef int run = self.owner[slot]
        if self.reads[edge].previous >= 0:
            self.reads[self.reads[edge].previous].next = self.reads[edge].next
        else:
            self.to_read[slot] = self.reads[edge].next
        if self.reads[edge].next >= 0:
            self.reads[self.reads[edge].next].previous = self.reads[edge].previous
        self.all[run].used += 1
        self.all[run].read_at = self.steps
        if self.all[run].used == 1:
            self.touch(run)
        if self.dead(slot):
            self.gain(slot, -1)
        return 0

    cdef int hand_over(self, int run, int other) except -1 nogil:
        """Transfer the future reads of a placed run, except those of outputs, to another run of the same node."""
        cdef int64_t slot, edge, to
        for slot in range(self.all[run].first_slot, self.end_slot(run)):
            if self.to_read[slot] < 0 or self.pinned(slot):
                continue
            to = self.all[other].first_slot + slot - self.all[run].first_slot
            while self.to_read[slot] >= 0:
                edge = self.to_read[slot]
                self.to_read[slot] = self.reads[edge].next
                self.add_read(edge, to)
            self.gain(slot, -1)
        return 0

    cdef int gain(self, int64_t slot, int sign) except -1 nogil:
        """Update all counts after a slot of a placed run became live (sign 1) or died (-1); outputs are excluded."""
        cdef int run = self.owner[slot], last
        cdef int64_t x = self.value_of(slot)
        self.total_live += sign * self.memory[x]
        self.all[run].live_bytes += sign * self.memory[x]
        self.all[run].awaited += sign
        self.touch(run)
        self.touch_readers(x)
        if self.all[run].live_bytes > 0 and self.all[run].where < 0 and self.free_to_move(run):
            self.all[run].where = <int>self.live.size()
            self.live.push_back(run)
            self.mark(run)
        elif self.all[run].live_bytes == 0 and self.all[run].where >= 0:
            last = self.live.back()
            self.live[self.all[run].where] = last
            self.all[last].where = self.all[run].where
            self.live.pop_back()
            self.all[run].where = -1
        return 0

    cdef inline bint free_to_move(self, int run) noexcept nogil:
        return self.rerunnable[self.all[run].node] and not self.all[run].denied

    cdef int touch(self, int run) except -1 nogil:
        """Invalidate the cached blocks that may contain this placed run."""
        cdef int64_t i
        for i in range(self.window):
            if run < 0 or not self.all[run].placed or not self.free_to_move(run):
                return 0
            self.all[run].known = 0
            if not self.all[run].is_touched:
                self.mark(run)
            run = self.all[run].after
        return 0

    cdef inline int mark(self, int run) except -1 nogil:
        self.touched.push_back(run)
        self.all[run].is_touched = 1
        return 0

    cdef int touch_readers(self, int64_t x) except -1 nogil:
        cdef int64_t j
        for j in range(self.reader_indptr[x], self.reader_indptr[x + 1]):
            self.touch(self.latest[self.reader_indices[j]])
        return 0

    cdef int newest_before(self, int v, int64_t label) noexcept nogil:
        """Return the last run of a node whose label is smaller than `label`, or -1."""
        cdef int run = self.newest[v], best = -1
        while run >= 0:
            if self.all[run].label < label and (best < 0 or self.all[run].label > self.all[best].label):
                best = run
            run = self.all[run].older
        return best

    cdef int begin(self, int run) except -1 nogil:
        """Make a run the current run; all its values become live."""
        cdef int64_t x
        self.current = run
        self.steps += 1
        self.all[run].read_at = self.steps
        self.renew_latest(self.all[run].node, run)
        for x in range(self.value_indptr[self.all[run].node], self.value_indptr[self.all[run].node + 1]):
            self.total_live += self.memory[x]
        return 0

    cdef int renew_latest(self, int v, int run) except -1 nogil:
        cdef int64_t x
        self.touch(self.latest[v])
        self.latest[v] = run
        for x in range(self.value_indptr[v], self.value_indptr[v + 1]):
            self.touch_readers(x)
        return 0

    cdef int end(self) except -1 nogil:
        """End the current run: it becomes placed, and values without future reads are freed."""
        cdef int run = self.current
        cdef int64_t slot, edge
        self.current = -1
        self.all[run].placed = 1
        for slot in range(self.all[run].first_slot, self.end_slot(run)):
            if not self.pinned(slot):
                self.total_live -= self.memory[self.value_of(slot)]
                if self.dead(slot):
                    self.touch_readers(self.value_of(slot))
                else:
                    self.gain(slot, 1)
        for edge in range(self.all[run].first_edge, self.end_edge(run)):
            self.has_read(edge)
        return 0

    def order(self):
        """Return the nodes of the runs in order, int32[m]."""
        cdef Py_ssize_t i = 0
        cdef int run = self.first
        while run >= 0:
            i += 1
            run = self.all[run].after
        nodes = np.empty(i, np.int32)
        cdef int[::1] out = nodes
        i, run = 0, self.first
        while run >= 0:
            out[i] = self.all[run].node
            i += 1
            run = self.all[run].after
        return nodes


# The choice of the block of runs to postpone.

@cython.final
cdef class _PostponableBlocks:
    """Blocks of consecutive placed runs, and the bytes that postponing each of them would save.

    Blocks of level 0 are single runs; blocks of level k have more than 2^(k-1) and at most 2^k runs. For each last run
    (the end of a block) and each level, the best block is cached until a run that it may contain changes. Only
    one test is repeated at each step: whether the current run reads a value of the block.
    runs : _RunList; compute : int64[n]; limit : bytes; max_block : maximum number of runs per block; moves : as in
    greedy_order. With `moves`, blocks of which no value has been read are preferred if max_block is above 1.
    rule : the block with the smallest value of the rule is postponed. Its arguments are the bytes that postponing saves,
    the compute of the runs that are repeated, the steps since a value of the block was last read, the steps of the
    given order until the next read, the number of future reads, and the limit. If a rule reads one of the third to the
    fifth argument, its values change at every step, so they are not cached.
    """
    cdef _RunList runs
    cdef Rule rule
    cdef Int64s compute
    cdef bint reads_used                             # whether the rule reads an argument about reads
    cdef double[MAX_ARGUMENTS] arguments
    cdef int64_t limit, max_block
    cdef bint moves
    cdef readonly int levels
    cdef readonly int64_t single_work, block_work    # runs and reads examined
    # `busy`, `seen` and `charged_run` contain a stamp (step or clock) for each run, `charged` for each slot.
    cdef vector[int64_t] busy, seen, charged_run, charged
    cdef int64_t clock, step
    # For each end and level: value of the rule for the best block, its first run and its number of runs (0 if there is
    # no block).
    cdef vector[double] cost
    cdef vector[int] start, size
    # For each level: 1 if the last search found no block (`barren`), and the length of `touched` after that search.
    cdef vector[char] barren
    cdef vector[size_t] barren_since
    # Ends whose cached block could not be used because the current run reads one of its values.
    cdef vector[int] passed
    # The runs of the chosen block, from last to first.
    cdef vector[int] chosen

    def __init__(self, _RunList runs, Int64s compute, int64_t limit, int64_t max_block, bint moves, Rule rule):
        self.runs, self.limit, self.max_block, self.moves = runs, limit, max_block, moves
        self.compute, self.rule, self.reads_used = compute, rule, rule.used >> 2 & 7
        self.levels = 1 + int(max_block - 1).bit_length()
        assign(self.barren, self.levels, 0)
        assign(self.barren_since, self.levels, 0)
        self.single_work = self.block_work = self.clock = self.step = 0

    cdef int at_step(self) except -1 nogil:
        """Begin a step: mark the runs that the current run reads, which cannot be postponed in this step."""
        cdef int64_t edge
        cdef int run = self.runs.current
        cdef size_t i
        for i in range(self.passed.size()):
            if not self.runs.all[self.passed[i]].is_touched:
                self.runs.mark(self.passed[i])
        self.passed.clear()
        self.clock += 1
        self.step = self.clock
        self.grow()
        if self.reads_used:
            for i in range(self.runs.live.size()):
                self.runs.all[self.runs.live[i]].known = 0
        for edge in range(self.runs.all[run].first_edge, self.runs.end_edge(run)):
            self.busy[self.runs.owner[self.runs.reads[edge].source]] = self.step
        return 0

    cdef int grow(self) except -1 nogil:
        cdef size_t runs = self.runs.all.size()
        self.busy.resize(runs, 0)
        self.seen.resize(runs, 0)
        self.charged_run.resize(runs, 0)
        self.charged.resize(self.runs.owner.size(), 0)
        self.cost.resize(runs * self.levels)
        self.start.resize(runs * self.levels)
        self.size.resize(runs * self.levels)
        return 0

    cdef int choose(self, int level) except -1 nogil:
        """Choose the cheapest block of a level; return False if there is none.

        Ties go to the earliest start, then to the smallest size. If the last search of this level found no block, only
        the ends that have changed since are examined.
        """
        cdef size_t i, first = self.barren_since[level] if self.barren[level] else 0
        cdef size_t many = self.runs.touched.size() if self.barren[level] else self.runs.live.size()
        cdef int end, best = -1
        cdef int64_t chosen_at
        self.clock += 1
        chosen_at = self.clock
        for i in range(first, many):
            end = self.runs.touched[i] if self.barren[level] else self.runs.live[i]
            self.runs.all[end].is_touched = 0
            if self.runs.all[end].where >= 0 and self.seen[end] != chosen_at:
                self.seen[end] = chosen_at
                if self.runs.all[end].known <= level:
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

    cdef int keep(self, int end, int level) except -1 nogil:
        """Store the runs of the best block with this end and level in `chosen`."""
        cdef int i
        self.chosen.clear()
        if end >= 0:
            for i in range(self.size[<int64_t>end * self.levels + level]):
                self.chosen.push_back(end)
                end = self.runs.all[end].before
        return 0

    cdef inline void count(self, int level, int64_t work) noexcept nogil:
        if level:
            self.block_work += work
        else:
            self.single_work += work

    cdef inline bint better(self, int end, int best, int level) noexcept nogil:
        cdef int64_t i = <int64_t>end * self.levels + level, k = <int64_t>best * self.levels + level
        cdef int64_t label, other
        if self.size[i] == 0 or best < 0:
            return self.size[i] > 0
        if self.cost[i] != self.cost[k]:
            return self.cost[i] < self.cost[k]
        label, other = self.runs.all[self.start[i]].label, self.runs.all[self.start[k]].label
        return label < other or label == other and self.size[i] < self.size[k]

    cdef bint is_busy(self, int end, int level) noexcept nogil:
        """Return True if the current run reads a value of the best block with this end and level."""
        cdef int i, run = end
        for i in range(self.size[<int64_t>end * self.levels + level]):
            if self.busy[run] == self.step:
                return True
            run = self.runs.all[run].before
        return False

    cdef int look(self, int end, int highest, bint careful) except -1 nogil:
        """Find the best block of each level with a given end, by adding one earlier run at a time.

        Two kinds of runs of a block are recomputed later: runs with live values, and runs whose values the block reads.
        careful : if True, stop at runs that the current run reads, and do not cache the results beyond this step
        """
        cdef int run = end, level = 0
        cdef int64_t size = 0, level_end = 1, saved = 0, slot, edge, work = 0, cell = <int64_t>end * self.levels
        cdef double* about = self.arguments
        cdef bint unused = self.moves and self.max_block > 1
        self.clock += 1
        for level in range(highest + 1):
            self.size[cell + level] = 0
        level = 0
        about[1], about[2], about[3], about[4], about[5] = 0, INFINITY, INFINITY, 0, self.limit
        while run >= 0 and self.runs.free_to_move(run) and not (careful and self.busy[run] == self.step):
            size += 1
            if size > level_end:
                level += 1
                level_end = min(2 * level_end, self.max_block)
            if level > highest or size > self.max_block:
                break
            work += 1
            if self.charged_run[run] == self.clock:
                for slot in range(self.runs.all[run].first_slot, self.runs.end_slot(run)):
                    if self.charged[slot] == self.clock:
                        saved += self.runs.memory[self.runs.value_of(slot)]
            if self.runs.all[run].awaited > 0 or self.charged_run[run] == self.clock:
                saved += self.runs.all[run].live_bytes
                about[1] += self.compute[self.runs.all[run].node]
                if self.reads_used:
                    work += self.add_reads(run)
                unused = unused and self.runs.all[run].used == 0
                for edge in range(self.runs.all[run].first_edge, self.runs.end_edge(run)):
                    saved -= self.charge(self.runs.value_of(self.runs.reads[edge].source))
                    work += 1
                if saved > 0:
                    about[0] = saved
                    self.offer(cell + level, -INFINITY if unused else self.rule.value(about), run, <int>size)
            run = self.runs.all[run].before
        self.runs.all[end].known = 0 if careful else highest + 1
        self.count(highest, work)
        return 0

    cdef int64_t add_reads(self, int run) noexcept nogil:
        """Add the reads of a run to the arguments of the rule; return the number of reads."""
        cdef int64_t slot, edge, count = 0, here = self.runs.all[self.runs.current].position
        cdef double* about = self.arguments
        about[2] = min(about[2], <double>(self.runs.steps - self.runs.all[run].read_at))
        for slot in range(self.runs.all[run].first_slot, self.runs.end_slot(run)):
            edge = -1 if self.runs.pinned(slot) else self.runs.to_read[slot]
            while edge >= 0:
                about[3] = min(about[3], <double>max(1, self.runs.all[self.runs.reads[edge].reader].position - here))
                about[4] += 1
                count += 1
                edge = self.runs.reads[edge].next
        return count

    cdef inline void offer(self, int64_t cell, double cost, int start, int size) noexcept nogil:
        # Among equal values, keep the block with the earliest start.
        if self.size[cell] == 0 or cost <= self.cost[cell]:
            self.cost[cell], self.start[cell], self.size[cell] = cost, start, size

    cdef inline int64_t charge(self, int64_t x) noexcept nogil:
        """Return the bytes of x if it is dead and not counted yet, because the repeated block reads it; otherwise 0."""
        cdef int64_t slot = self.runs.placed_slot(x)
        if self.charged[slot] == self.clock or not self.runs.dead(slot):
            return 0
        self.charged[slot] = self.clock
        self.charged_run[self.runs.owner[slot]] = self.clock
        return self.runs.memory[x]


# The walk along the order.

@cython.final
cdef class _GreedyWalk:
    """The walk along the order, which postpones runs while the live bytes exceed the limit.

    runs : _RunList; blocks : _PostponableBlocks; workspace : int64[n]; limit : bytes; max_runs : number of runs at
    which the walk stops; factor, min_work : the walk also stops if the search for blocks of several runs has taken
    more than `factor` times the work of the search for single runs, plus `min_work`; moves : as in greedy_order
    """
    cdef _RunList runs
    cdef _PostponableBlocks blocks
    cdef Int64s workspace
    cdef int64_t limit, max_runs, factor, min_work
    cdef vector[int] stack                         # runs to remove
    cdef bint moves
    cdef readonly bint cut_short
    # The highest level that was tried, or the last level plus one if all levels failed at some step.
    cdef readonly int reached

    def __init__(self, _RunList runs, _PostponableBlocks blocks, workspace, int64_t limit, int64_t max_runs, int64_t factor,
                 int64_t min_work, bint moves):
        self.runs, self.blocks, self.workspace, self.limit = runs, blocks, workspace, limit
        self.max_runs, self.factor, self.min_work, self.moves = max_runs, factor, min_work, moves
        self.cut_short = False
        self.reached = 0

    def go(self):
        cdef int run
        with nogil:
            run = self.runs.first
            while run >= 0:
                self.runs.begin(run)
                if self.too_much() and (not self.moves or self.allocates(self.runs.all[run].node)):
                    self.blocks.at_step()
                    self.reduce()
                self.runs.end()
                run = self.runs.all[run].after

    cdef inline bint too_much(self) noexcept nogil:
        return self.runs.total_live + self.workspace[self.runs.all[self.runs.current].node] > self.limit

    cdef bint allocates(self, int v) noexcept nogil:
        cdef int64_t x, bytes = self.workspace[v]
        for x in range(self.runs.value_indptr[v], self.runs.value_indptr[v + 1]):
            bytes += self.runs.memory[x]
        return bytes > 0

    cdef int reduce(self) except -1 nogil:
        """Postpone one block after another until the current run fits, or no block saves anything."""
        cdef int level = 0
        cdef size_t i
        while self.too_much() and level < self.blocks.levels:
            if <int64_t>self.runs.all.size() >= self.max_runs or (level and self.spent()):
                self.cut_short = True
                return 0
            if not self.blocks.choose(level):
                level += 1
                self.reached = max(self.reached, level)
                continue
            for i in range(self.blocks.chosen.size()):
                if self.runs.all[self.blocks.chosen[i]].awaited > 0:
                    self.run_again(self.blocks.chosen[i])
            self.blocks.grow()
            level = 0
        return 0

    cdef inline bint spent(self) noexcept nogil:
        return self.blocks.block_work > self.factor * self.blocks.single_work + self.min_work

    cdef int run_again(self, int run) except -1 nogil:
        """Insert a later run of the same node and transfer the future reads to it.

        With `moves`, the old run is removed if nothing has read it: the run is moved, not repeated. A run may be moved
        only once.
        """
        cdef int place = self.place_for(run), again = self.runs.new_run(self.runs.all[run].node)
        self.runs.insert(again, place)
        self.runs.hand_over(run, again)
        if self.moves and self.useless(run):
            self.runs.all[again].moved = True
            self.runs.all[again].denied = self.runs.all[run].moved
            self.drop(run)
        return 0

    cdef bint useless(self, int run) noexcept nogil:
        """Return True if the run is placed, and none of its values is an output, has been read, or will be read."""
        cdef int64_t slot
        if self.runs.all[run].used > 0 or not self.runs.all[run].placed:
            return False
        for slot in range(self.runs.all[run].first_slot, self.runs.end_slot(run)):
            if not self.runs.dead(slot):
                return False
        return True

    cdef int drop(self, int run) except -1 nogil:
        """Remove a placed run without readers, then the runs whose only readers have been removed."""
        cdef int64_t edge
        cdef int other
        self.stack.push_back(run)
        while self.stack.size():
            run = self.stack.back()
            self.stack.pop_back()
            self.runs.touch(run)
            if self.runs.all[run].before < 0:
                self.runs.first = self.runs.all[run].after
            else:
                self.runs.all[self.runs.all[run].before].after = self.runs.all[run].after
            self.runs.all[self.runs.all[run].after].before = self.runs.all[run].before
            self.forget(run)
            for edge in range(self.runs.all[run].first_edge, self.runs.end_edge(run)):
                other = self.runs.owner[self.runs.reads[edge].source]
                self.runs.all[other].used = self.runs.all[other].used - 1
                if self.runs.all[other].used == 0:
                    self.runs.touch(other)
                if self.useless(other):
                    self.stack.push_back(other)
        return 0

    cdef int forget(self, int run) except -1 nogil:
        """Remove a run from the list of runs of its node."""
        cdef int v = self.runs.all[run].node, newer = self.runs.newest[v]
        if newer == run:
            self.runs.newest[v] = self.runs.all[run].older
        else:
            while self.runs.all[newer].older != run:
                newer = self.runs.all[newer].older
            self.runs.all[newer].older = self.runs.all[run].older
        if self.runs.latest[v] == run:
            self.runs.renew_latest(v, self.runs.newest_before(v, self.runs.all[run].label))
        return 0

    cdef int place_for(self, int run) noexcept nogil:
        """Return the run before which to insert a postponed run: its first future reader.

        With `moves`, an earlier run is chosen if it is the last reader of an input, so that no input lives longer.
        """
        cdef int place = -1, last
        cdef int64_t slot, edge, x
        for slot in range(self.runs.all[run].first_slot, self.runs.end_slot(run)):
            if self.runs.pinned(slot):
                continue
            edge = self.runs.to_read[slot]
            while edge >= 0:
                place = self.sooner(place, self.runs.reads[edge].reader)
                edge = self.runs.reads[edge].next
        if not self.moves:
            return place
        for edge in range(self.runs.all[run].first_edge, self.runs.end_edge(run)):
            x = self.runs.value_of(self.runs.reads[edge].source)
            last = -1 if self.runs.output[x] else self.last_reader(self.runs.placed_slot(x))
            if last >= 0:
                place = self.sooner(place, last)
        return place

    cdef inline int sooner(self, int one, int other) noexcept nogil:
        return one if one >= 0 and self.runs.all[one].label < self.runs.all[other].label else other

    cdef int last_reader(self, int64_t slot) noexcept nogil:
        """Return the last future run that reads a slot, or -1."""
        cdef int last = -1, reader
        cdef int64_t edge = self.runs.to_read[slot]
        while edge >= 0:
            reader = self.runs.reads[edge].reader
            if reader != self.runs.current and (last < 0 or self.runs.all[reader].label > self.runs.all[last].label):
                last = reader
            edge = self.runs.reads[edge].next
        return last
