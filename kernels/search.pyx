# distutils: language = c++
"""Local search over schedules: simulated annealing whose state is a schedule without useless runs.

Runs stand in *slots* with gaps between them, so that inserting or removing one moves no other. A profile holds the
bytes that are live at each slot, in blocks with a lazy addend, the maximum, and the bytes above the limit. Bytes of
regions have tracks of their own behind the first: slot s of track k is s + k * n_slots.

A move is a transaction: runs are inserted and removed, runs that have become useless are removed, and the changes of
the profile are collected as edges (slot, by how much); the compute is compared before any of them is applied. A move
that is not accepted is undone by the reverse operations.
"""

import numpy as np

cimport cython
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libcpp.algorithm cimport sort
from libcpp.vector cimport vector
from remat_algos.kernels.growing cimport assign

cdef extern from *:
    """
    #if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__)
    #define REMAT_CLONES __attribute__((target_clones("avx2", "default")))
    #else
    #define REMAT_CLONES
    #endif
    REMAT_CLONES static void remat_add(int* m, long n, int by) {
        for (long i = 0; i < n; i++) m[i] += by;
    }
    REMAT_CLONES static int remat_fold(int* m, int by) {  /* adds to a whole block; its maximum */
        int top = -2147483647;
        for (int i = 0; i < 128; i++) {
            int x = m[i] + by;
            m[i] = x;
            top = x > top ? x : top;
        }
        return top;
    }
    REMAT_CLONES static int remat_top(const int* m) {
        int top = -2147483647;
        for (int i = 0; i < 128; i++) top = m[i] > top ? m[i] : top;
        return top;
    }
    REMAT_CLONES static long long remat_excess(const int* m, int limit) {
        long long sum = 0;
        for (int i = 0; i < 128; i++) {
            int above = m[i] - limit;
            sum += above > 0 ? above : 0;
        }
        return sum;
    }
    """
    void remat_add(int* m, long n, int by) noexcept nogil
    int remat_fold(int* m, int by) noexcept nogil
    int remat_top(const int* m) noexcept nogil
    long long remat_excess(const int* m, int limit) noexcept nogil

cdef enum:
    block_size = 128        # as in the loops above
    period = 1024           # moves between two changes of the weight of bytes above the limit
    reach = 256             # slots that are looked at for a free one
    draws = 40              # values that are drawn for one that lives across a slot
    max_depth = 12          # of inputs that are recomputed with a value
    max_group = 40          # runs of one move
    max_drawn = 4           # values of which the best is dropped
    max_drops = 3           # of a swap
    max_drawn_long = 8      # the same in a long swap
    max_drops_long = 12
    n_exponentials = 1 << 14
    shift_bits = 34         # changes of one slot are within 2**33

cdef int present = 1 << 30  # what a run adds to its slot; an empty one has -present, below any limit
cdef int largest = (1 << 30) - 1
cdef int64_t none = <int64_t>1 << 62

BLOCK, PERIOD, LARGEST_LIMIT = block_size, period, largest
MOVES = ("drop", "delete", "swap", "shift", "group", "double")
N_EXPONENTIALS = n_exponentials
OFF = -1

cdef enum Move:
    drop, delete, swap, shift, group, double_

# Shares in percent, above the limit and within it, summed up.
cdef int* shares = [40, 58, 66, 85, 93, 100, 4, 20, 50, 85, 93, 100]


cdef inline Py_ssize_t place_after(const vector[int]& row, Py_ssize_t slot) noexcept nogil:
    """Place of the first entry behind a slot; entries rise."""
    cdef Py_ssize_t low = 0, high = row.size(), middle
    if high <= 8:
        while high > 0 and row[high - 1] > slot:
            high -= 1
        return high
    while low < high:
        middle = (low + high) >> 1
        if row[middle] > slot:
            high = middle
        else:
            low = middle + 1
    return low


cdef inline int64_t slot_of(int64_t edge) noexcept nogil:
    """The slot of an edge, whose change may be negative."""
    return (edge + (<int64_t>1 << (shift_bits - 1))) >> shift_bits


cdef inline void sort_edges(vector[int64_t]& edges) noexcept nogil:
    """Rising: few edges, or some that are in order already, by insertion."""
    cdef Py_ssize_t k = edges.size(), i, j
    cdef int64_t* e = edges.data()
    cdef int64_t edge
    if k > 64:
        sort(edges.begin(), edges.end())
        return
    for i in range(1, k):
        edge = e[i]
        j = i
        while j > 0 and e[j - 1] > edge:
            e[j] = e[j - 1]
            j -= 1
        e[j] = edge


cdef inline int insert_slot(vector[int]& row, Py_ssize_t slot) except -1 nogil:
    row.insert(row.begin() + place_after(row, slot), <int>slot)
    return 0


cdef inline void erase_slot(vector[int]& row, Py_ssize_t slot) noexcept nogil:
    row.erase(row.begin() + (place_after(row, slot) - 1))


cdef int order_of(const vector[int]& run, vector[int]& order) except -1 nogil:
    """The nodes that run in some slots."""
    cdef Py_ssize_t slot
    order.clear()
    for slot in range(<Py_ssize_t>run.size()):
        if run[slot] >= 0:
            order.push_back(run[slot])
    return 0


@cython.final
cdef class ScheduleSearch:
    """One state, and the best schedule that it has passed.

    value_indptr : int64[n + 1], read_indptr : int64[n + 1], read_indices : int32[k] of needed nodes, numbered
    topologically; memory : int32[n_values] and workspace : int32[n] in units; compute : int64[n]; output : uint8[n_values];
    max_runs : int32[n] at least 1; region : int32[n], 0 for none, else the track of the values of a node;
    late : uint8[n] nodes whose first run no backward node may read from; backward : uint8[n];
    rank : int32[n] of first runs that keep their order, or empty; update, reader : int32[k], pairs of which no run of the
    reader may come behind the update; weights : float64[n_values] by which values are drawn, those that are read, are no
    outputs and can be recomputed;
    exponentials : float64[N_EXPONENTIALS] quantiles of the exponential distribution; seed : of random choices
    """

    cdef const int64_t[::1] value_indptr, read_indptr, compute_of
    cdef const int[::1] read_indices, memory, workspace, max_runs, region
    cdef const unsigned char[::1] output, late, backward
    cdef const double[::1] exponentials
    cdef int[::1] producer, alias, earlier, later, pair_update, pair_reader
    cdef uint64_t[::1] keep_draw
    cdef int64_t[::1] update_indptr, reader_indptr
    cdef int[::1] updates_of, readers_of
    cdef unsigned char[::1] guarded
    cdef Py_ssize_t n_nodes, n_values, n_tracks
    # the state
    cdef Py_ssize_t n_slots, n_blocks, n_runs
    cdef vector[int] run                 # node of each slot, -1 for none
    cdef vector[vector[int]] occ         # slots of the runs of each node, rising
    cdef vector[vector[int]] uses        # slots of the runs that read each value, rising
    cdef vector[int] first, last         # slots: first run of each node that runs, last read of each value
    cdef vector[int] repeats, repeat_at  # nodes with two runs or more, and the place of each there
    cdef vector[int] mem, addend, top, limit
    cdef vector[int64_t] excess
    cdef int64_t area, compute
    # the transaction
    cdef vector[int64_t] edges, applied  # (slot << shift_bits) + change
    cdef vector[int64_t] log             # slot << 32 | node << 1 | whether the run was inserted
    cdef vector[int] checks, suspects, members
    cdef vector[uint32_t] stamp
    cdef uint32_t now
    cdef bint crowded, broken, undoing
    cdef bint ready                      # whether there is a sound state with a run
    cdef double bar                      # compute above it cannot be accepted
    # the search
    cdef uint64_t random_state
    cdef double cost, weight, floor_weight
    cdef public double temperature
    cdef readonly int64_t n_moves, n_accepted, work
    cdef int64_t last_spread
    cdef bint lowest
    cdef public bint checking            # evaluate the whole state after each move, and stop where it is wrong
    cdef int main_limit
    cdef vector[int] best_run            # node of each slot; with the first entries of the journal, the best schedule
    cdef vector[int64_t] journal         # of accepted moves, entries as in `log`
    cdef Py_ssize_t n_to_best            # how many of its entries lead to the best schedule
    cdef bint journal_is_whole           # whether all of them lead to the state
    cdef readonly int64_t best_compute, best_peak    # of the best schedule; best_peak in units
    cdef readonly bint fits              # whether the best one fits
    cdef int64_t goal
    cdef double mean_compute, mean_memory
    cdef bint moving_order               # no run is inserted beyond the first
    cdef Py_ssize_t max_total_runs

    def __init__(self, const int64_t[::1] value_indptr, const int64_t[::1] read_indptr, const int[::1] read_indices,
                 const int[::1] memory, const int[::1] workspace, const int64_t[::1] compute,
                 const unsigned char[::1] output, const int[::1] max_runs, const int[::1] region,
                 const unsigned char[::1] late, const unsigned char[::1] backward, const int[::1] rank,
                 const int[::1] update, const int[::1] reader, const double[::1] weights,
                 const double[::1] exponentials, int64_t seed):
        cdef Py_ssize_t n = compute.shape[0], v, x, i
        self.value_indptr, self.read_indptr, self.read_indices = value_indptr, read_indptr, read_indices
        self.memory, self.workspace, self.compute_of, self.output = memory, workspace, compute, output
        self.max_runs, self.region, self.late, self.backward = max_runs, region, late, backward
        self.exponentials = exponentials
        self.n_nodes, self.n_values = n, output.shape[0]
        self.n_tracks = 1 + (max(region) if n else 0)
        self.producer = np.repeat(np.arange(n, dtype=np.int32), np.diff(value_indptr))
        can_run_twice = np.asarray(max_runs)[self.producer] > 1
        read = np.bincount(read_indices, minlength=self.n_values) > 0
        self._prepare_drawing(np.where(read & can_run_twice & (np.asarray(output) == 0), weights, 0.0))
        guarded = np.asarray(late).copy()
        self.earlier = self.later = np.full(n, -1, np.int32)
        if rank.shape[0]:
            order = np.argsort(rank).astype(np.int32)
            earlier, later = np.full(n, -1, np.int32), np.full(n, -1, np.int32)
            earlier[order[1:]] = order[:order.size - 1]
            later[order[:order.size - 1]] = order[1:]
            self.earlier, self.later = earlier, later
            guarded[:] = 1
        guarded[np.asarray(update)] = guarded[np.asarray(reader)] = 1
        self.guarded = guarded
        self.update_indptr, self.updates_of = _rows(reader, update, n)      # of each reader
        self.reader_indptr, self.readers_of = _rows(update, reader, n)      # of each update
        costs, sizes = np.asarray(compute), np.asarray(memory)
        self.mean_compute = max(float(costs.mean()), 1e-9) if n and costs.any() else 1.0
        self.mean_memory = float(sizes.mean()) if sizes.size and sizes.any() else 1.0
        self.random_state = <uint64_t>seed
        self.random_state = self.random()                   # sequences of two seeds are not shifts of each other
        self.moving_order = n == 0 or int(np.asarray(max_runs).max()) <= 1
        self.temperature = 1.0
        self.forget()

    def _prepare_drawing(self, weights):
        """Tables by which a value is drawn with its weight in constant time (Walker's alias method)."""
        n = weights.size
        keep, alias = np.ones(n), np.arange(n, dtype=np.int32)
        if n and weights.sum() > 0:
            scaled = weights * (n / weights.sum())
            small = [i for i in range(n) if scaled[i] < 1]
            large = [i for i in range(n) if scaled[i] >= 1]
            share = scaled.tolist()
            while small and large:
                low, high = small.pop(), large.pop()
                keep[low], alias[low] = share[low], high
                share[high] -= 1 - share[low]
                (small if share[high] < 1 else large).append(high)
        self.keep_draw, self.alias = np.round(keep * 2**32).astype(np.uint64), alias

    # ---------------------------------------------------------------- chance

    cdef inline uint64_t random(self) noexcept nogil:
        """SplitMix64."""
        self.random_state += <uint64_t>0x9E3779B97F4A7C15
        cdef uint64_t z = self.random_state
        z = (z ^ (z >> 30)) * <uint64_t>0xBF58476D1CE4E5B9
        z = (z ^ (z >> 27)) * <uint64_t>0x94D049BB133111EB
        return z ^ (z >> 31)

    cdef inline Py_ssize_t below(self, Py_ssize_t n) noexcept nogil:
        return <Py_ssize_t>(((self.random() >> 32) * <uint64_t>n) >> 32)

    cdef inline double uniform(self) noexcept nogil:
        return <double>(self.random() >> 11) * 1.1102230246251565e-16

    cdef inline Py_ssize_t draw_value(self) noexcept nogil:
        cdef uint64_t chance = self.random()
        cdef Py_ssize_t x = <Py_ssize_t>(((chance >> 32) * <uint64_t>self.n_values) >> 32)
        return x if (chance & <uint64_t>0xFFFFFFFF) < self.keep_draw[x] else self.alias[x]

    cdef inline Py_ssize_t draw_run(self) noexcept nogil:
        """The slot of a run."""
        cdef Py_ssize_t slot = self.below(self.n_slots)
        while self.run[slot] < 0:
            slot = self.below(self.n_slots)
        return slot

    # ---------------------------------------------------------------- the profile

    cdef inline int change(self, Py_ssize_t v, Py_ssize_t lo, Py_ssize_t hi, int by) except -1 nogil:
        """Bytes of a value of node v are live at slots lo to hi - 1, or no longer are."""
        cdef Py_ssize_t base = self.region[v] * self.n_slots
        if lo < hi and by:
            self.edges.push_back((<int64_t>lo << shift_bits) + by)
            self.edges.push_back((<int64_t>hi << shift_bits) - by)
            if base:
                self.edges.push_back((<int64_t>(lo + base) << shift_bits) + by)
                self.edges.push_back((<int64_t>(hi + base) << shift_bits) - by)
        return 0

    cdef inline int occupy(self, Py_ssize_t v, Py_ssize_t slot, int sign) except -1 nogil:
        """A run of v stands in a slot, or no longer does."""
        cdef Py_ssize_t k
        cdef int64_t at, by
        for k in range(self.n_tracks):
            at = slot + k * self.n_slots
            by = sign * (present + (self.workspace[v] if k == 0 or k == self.region[v] else 0))
            self.edges.push_back((at << shift_bits) + by)
            self.edges.push_back(((at + 1) << shift_bits) - by)
        return 0

    cdef inline void refresh(self, Py_ssize_t block) noexcept nogil:
        """Maximum and excess of a block, and its addend into its slots."""
        cdef int* m = self.mem.data() + block * block_size
        cdef int64_t excess = 0
        self.top[block] = remat_fold(m, self.addend[block]) if self.addend[block] else remat_top(m)
        self.addend[block] = 0
        if self.top[block] > self.limit[block]:
            excess = remat_excess(m, self.limit[block])
        self.area += excess - self.excess[block]
        self.excess[block] = excess

    cdef int apply(self) except -1 nogil:
        """The collected edges, all at once: those at one slot are summed up, and each block is gone through once."""
        cdef Py_ssize_t k = self.edges.size(), i = 0, n = 0, block, begin, at, slot, other
        cdef int64_t* e
        cdef int64_t by, live = 0
        cdef int* m
        sort_edges(self.edges)
        self.work += k
        e = self.edges.data()
        while i < k:                                        # an edge with a negative change stands one slot too low
            slot = slot_of(e[i])
            by = 0
            while i < k and slot_of(e[i]) == slot:
                by += e[i] - (<int64_t>slot << shift_bits)
                i += 1
            if by:
                e[n] = (<int64_t>slot << shift_bits) + by
                n += 1
        self.edges.resize(n)
        i = 0
        while i < n:
            slot = slot_of(e[i])
            block = slot // block_size
            if block >= self.n_blocks:
                break
            begin = block * block_size
            at = slot
            m = self.mem.data()
            if live and slot > begin:
                remat_add(m + begin, slot - begin, <int>live)
            while i < n:
                slot = slot_of(e[i])
                if slot >= begin + block_size:
                    break
                if live and slot > at:
                    remat_add(m + at, slot - at, <int>live)
                at = slot
                live += e[i] - (<int64_t>slot << shift_bits)
                i += 1
            if live:
                remat_add(m + at, begin + block_size - at, <int>live)
            self.refresh(block)
            if live:
                slot = slot_of(e[i]) if i < n else 0
                for other in range(block + 1, min(slot // block_size, self.n_blocks)):
                    self.addend[other] += <int>live
                    self.top[other] += <int>live
                    if self.top[other] > self.limit[other] or self.excess[other]:
                        self.refresh(other)
        for i in range(n):
            self.applied.push_back(e[i])
        self.edges.clear()
        return 0

    cdef inline Py_ssize_t highest(self, int64_t* over) noexcept nogil:
        """The block that is furthest above its limit, or nearest to it, and by how much."""
        cdef Py_ssize_t block, top_block = 0
        cdef int64_t most = -none, by
        for block in range(self.n_blocks):
            by = <int64_t>self.top[block] - self.limit[block]
            if by > most:
                most, top_block = by, block
        over[0] = most
        return top_block

    cdef inline int64_t peak(self) noexcept nogil:
        """Of the first track."""
        cdef Py_ssize_t block
        cdef int most = 0
        for block in range(self.n_slots // block_size):
            most = max(most, self.top[block])
        return most

    # ---------------------------------------------------------------- runs

    cdef inline int suspect(self, Py_ssize_t v) except -1 nogil:
        self.suspects.push_back(<int>v)
        return 0

    cdef int add_use(self, Py_ssize_t x, Py_ssize_t slot) except -1 nogil:
        """A run in a slot reads value x."""
        cdef vector[int]* row = &self.uses[x]
        cdef vector[int]* runs
        cdef Py_ssize_t p = self.producer[x], at = place_after(row[0], slot), i, end
        row.insert(row.begin() + at, <int>slot)
        self.last[x] = row.back()
        if self.undoing:
            return 0
        if self.late[p]:
            self.suspect(p)
        runs = &self.occ[p]
        i = place_after(runs[0], slot) - 1
        if i < 0:
            return self.suspect(p)
        if self.output[x]:
            return 0
        if at + 1 < <Py_ssize_t>row.size() and (i + 1 == <Py_ssize_t>runs.size() or row[0][at + 1] < runs[0][i + 1]):
            return 0                                        # it is live there
        end = runs[0][i] + 1
        if at > 0 and row[0][at - 1] >= end:
            end = row[0][at - 1] + 1
        return self.change(p, end, slot + 1, self.memory[x])

    cdef int remove_use(self, Py_ssize_t x, Py_ssize_t slot) except -1 nogil:
        cdef vector[int]* row = &self.uses[x]
        cdef vector[int]* runs
        cdef Py_ssize_t p = self.producer[x], at = place_after(row[0], slot) - 1, i, end
        row.erase(row.begin() + at)
        self.last[x] = -1
        if not row.empty():  # in one expression it would be a reference to what is gone
            self.last[x] = row.back()
        if self.undoing:
            return 0
        runs = &self.occ[p]
        i = place_after(runs[0], slot) - 1
        if i < 0 or self.output[x]:
            return 0
        if at < <Py_ssize_t>row.size() and (i + 1 == <Py_ssize_t>runs.size() or row[0][at] < runs[0][i + 1]):
            return 0
        end = runs[0][i] + 1
        if at > 0 and row[0][at - 1] >= end:
            end = row[0][at - 1] + 1
        else:
            self.checks.push_back(runs[0][i])
        return self.change(p, end, slot + 1, -self.memory[x])

    cdef int change_instances(self, Py_ssize_t v, Py_ssize_t slot, Py_ssize_t i, int sign) except -1 nogil:
        """What the values of v occupy with a run in a slot, the i-th of v, more than without (sign 1), or less."""
        cdef vector[int]* runs = &self.occ[v]
        cdef vector[int]* row
        cdef Py_ssize_t k = runs.size(), before = runs[0][i - 1] if i else -1, x, at, behind, end, bytes
        cdef Py_ssize_t following = runs[0][i + 1] if i + 1 < k else self.n_slots
        for x in range(self.value_indptr[v], self.value_indptr[v + 1]):
            bytes = sign * self.memory[x]
            if self.output[x]:
                if i:
                    self.change(v, slot, slot + 1, bytes)
                else:                                       # the next run made the copy that stays
                    self.change(v, slot, following + 1 if k > 1 else self.n_slots, bytes)
                continue
            row = &self.uses[x]
            at = place_after(row[0], slot)
            behind = place_after(row[0], following)
            if behind == at:                                # nothing reads it
                self.change(v, slot, slot + 1, bytes)
                continue
            if before < 0:
                self.change(v, slot, row[0][behind - 1] + 1, bytes)
                continue
            end = before + 1
            if at > 0 and row[0][at - 1] >= end:
                end = row[0][at - 1] + 1
            self.change(v, end, slot, -bytes)
        return 0

    cdef int insert(self, Py_ssize_t v, Py_ssize_t slot) except -1 nogil:
        """A run of v into an empty slot."""
        cdef vector[int]* runs = &self.occ[v]
        cdef Py_ssize_t i, j, k
        self.run[slot] = <int>v
        insert_slot(runs[0], slot)
        self.first[v] = runs[0][0]
        k = runs.size()
        if k == 2:
            self.repeat_at[v] = <int>self.repeats.size()
            self.repeats.push_back(<int>v)
        i = place_after(runs[0], slot) - 1
        self.n_runs += 1
        self.compute += self.compute_of[v]
        if not self.undoing:
            self.log.push_back((<int64_t>slot << 32) | (v << 1) | 1)
            self.occupy(v, slot, 1)
            self.change_instances(v, slot, i, 1)
            if k > self.max_runs[v]:
                self.broken = True
            self.checks.push_back(<int>slot)
            if i:
                self.checks.push_back(runs[0][i - 1])
            elif k > 1:
                self.checks.push_back(runs[0][1])
            if self.guarded[v]:
                self.suspect(v)
        for j in range(self.read_indptr[v], self.read_indptr[v + 1]):
            self.add_use(self.read_indices[j], slot)
        return 0

    cdef int remove(self, Py_ssize_t v, Py_ssize_t slot) except -1 nogil:
        cdef vector[int]* runs = &self.occ[v]
        cdef Py_ssize_t i, j, k = runs.size(), last
        for j in range(self.read_indptr[v], self.read_indptr[v + 1]):
            self.remove_use(self.read_indices[j], slot)
        i = place_after(runs[0], slot) - 1
        if not self.undoing:
            self.log.push_back((<int64_t>slot << 32) | (v << 1))
            self.change_instances(v, slot, i, -1)
            self.occupy(v, slot, -1)
            if i == 0 or self.guarded[v]:
                self.suspect(v)
        self.compute -= self.compute_of[v]
        self.n_runs -= 1
        runs.erase(runs.begin() + i)
        if k > 1:
            self.first[v] = runs[0][0]
        self.run[slot] = -1
        if k == 2:
            last = self.repeats.back()
            self.repeats[self.repeat_at[v]] = <int>last
            self.repeat_at[last] = self.repeat_at[v]
            self.repeats.pop_back()
        return 0

    cdef inline bint useful(self, Py_ssize_t v, Py_ssize_t slot) noexcept nogil:
        """Whether a run serves a reader, an output or a mark."""
        cdef vector[int]* runs = &self.occ[v]
        cdef vector[int]* row
        cdef Py_ssize_t i = place_after(runs[0], slot), x, at
        cdef Py_ssize_t following = runs[0][i] if i < <Py_ssize_t>runs.size() else self.n_slots
        if i == 1 and self.late[v]:                         # it makes the next one a second run
            return True
        for x in range(self.value_indptr[v], self.value_indptr[v + 1]):
            if self.output[x]:
                if i == 1:
                    return True
                continue
            row = &self.uses[x]
            at = place_after(row[0], slot)
            if at < <Py_ssize_t>row.size() and row[0][at] < following:
                return True
        return False

    cdef int remove_useless(self) except -1 nogil:
        """Remove runs that have become useless, and those that served only them."""
        cdef Py_ssize_t slot, v
        while not self.checks.empty():
            slot = self.checks.back()
            self.checks.pop_back()
            v = self.run[slot]
            if v >= 0 and not self.useful(v, slot):
                self.remove(v, slot)
        return 0

    cdef bint valid(self) noexcept nogil:
        """Whether all reads have an earlier run, and the constraints hold; looks at what has changed."""
        cdef Py_ssize_t place, v, x, j
        cdef vector[int]* runs
        cdef vector[int]* row
        if self.broken:
            return False
        for place in range(<Py_ssize_t>self.suspects.size()):
            v = self.suspects[place]
            runs = &self.occ[v]
            for x in range(self.value_indptr[v], self.value_indptr[v + 1]):
                row = &self.uses[x]
                if runs.empty() and (self.output[x] or not row.empty()):
                    return False
                if not row.empty() and row[0][0] < runs[0][0]:
                    return False
                if self.late[v]:
                    for j in range(place_after(row[0], runs[0][0]) if not runs.empty() else 0, <Py_ssize_t>row.size()):
                        if runs.size() > 1 and row[0][j] > runs[0][1] and not self.output[x]:
                            break
                        if self.backward[self.run[row[0][j]]]:
                            return False
            if runs.empty():
                continue
            if self.earlier[v] >= 0 and self._first(self.earlier[v]) > runs[0][0]:
                return False
            if self.later[v] >= 0 and self._first(self.later[v]) < runs[0][0]:
                return False
            for j in range(self.update_indptr[v], self.update_indptr[v + 1]):
                if self._first(self.updates_of[j]) < runs.back():
                    return False
            for j in range(self.reader_indptr[v], self.reader_indptr[v + 1]):
                row = &self.occ[self.readers_of[j]]
                if not row.empty() and row.back() > runs[0][0]:
                    return False
        return True

    cdef inline Py_ssize_t _first(self, Py_ssize_t v) noexcept nogil:
        return -1 if self.occ[v].empty() else self.occ[v][0]

    cdef int commit(self) except -1 nogil:
        self.log.clear()
        self.applied.clear()
        self.edges.clear()
        self.checks.clear()
        self.suspects.clear()
        self.broken = False
        return 0

    cdef int accept(self) except -1 nogil:
        """Commit a move that was accepted."""
        cdef Py_ssize_t i
        if self.journal_is_whole:
            for i in range(<Py_ssize_t>self.log.size()):
                self.journal.push_back(self.log[i])
            if <Py_ssize_t>self.journal.size() > self.n_slots:
                self.replay()
        return self.commit()

    cdef int record_best(self) except -1 nogil:
        """The state is the best schedule so far."""
        cdef Py_ssize_t slot
        if not self.journal_is_whole:
            self.best_run.resize(self.n_slots)              # an assignment would end the process without memory
            for slot in range(self.n_slots):
                self.best_run[slot] = self.run[slot]
            self.journal.clear()
            self.journal_is_whole = True
        self.n_to_best = self.journal.size()
        return 0

    cdef int replay(self) except -1 nogil:
        """Make `best_run` the best schedule; entries behind it are discarded."""
        cdef Py_ssize_t i
        cdef int64_t entry
        for i in range(self.n_to_best):
            entry = self.journal[i]
            self.best_run[entry >> 32] = <int>((entry & <int64_t>0xFFFFFFFF) >> 1) if entry & 1 else -1
        self.journal_is_whole = self.journal_is_whole and self.n_to_best == <Py_ssize_t>self.journal.size()
        self.journal.clear()
        self.n_to_best = 0
        return 0

    cdef int roll_back(self) except -1 nogil:
        """Undo all since the last commit."""
        cdef Py_ssize_t i, v
        cdef int64_t entry, slot
        cdef vector[int64_t]* log = &self.log
        cdef Py_ssize_t k = log.size()
        self.undoing = True                                 # the profile is put back by the edges that were applied
        for i in range(k - 1, -1, -1):
            entry = log[0][i]
            slot = entry >> 32
            v = (entry & <int64_t>0xFFFFFFFF) >> 1
            if entry & 1:
                self.remove(v, slot)
            else:
                self.insert(v, slot)
        self.undoing = False
        self.edges.clear()
        if not self.applied.empty():
            for i in range(<Py_ssize_t>self.applied.size()):
                entry = self.applied[i]
                slot = slot_of(entry)
                self.edges.push_back((slot << shift_bits) - (entry - (slot << shift_bits)))
            self.apply()
        return self.commit()

    # ---------------------------------------------------------------- slots

    cdef inline Py_ssize_t free_before(self, Py_ssize_t before, Py_ssize_t after) noexcept nogil:
        """The last empty slot between two; -1 if there is none nearby."""
        cdef Py_ssize_t slot = before - 1, stop = max(after, before - reach)
        while slot > stop:
            if self.run[slot] < 0:
                return slot
            slot -= 1
        self.crowded = True
        return -1

    cdef inline Py_ssize_t free_behind(self, Py_ssize_t behind, Py_ssize_t until) noexcept nogil:
        cdef Py_ssize_t slot = behind + 1, stop = min(until, behind + reach)
        while slot < stop:
            if self.run[slot] < 0:
                return slot
            slot += 1
        self.crowded = True
        return -1

    cdef int arrange(self, const int* order, Py_ssize_t m) except -1 nogil:
        """The state of an order, its runs spread evenly over the slots."""
        cdef Py_ssize_t i, j, v, x, slot, k, from_, end
        cdef vector[int]* row
        self.replay()
        self.journal_is_whole = False                              # slots have other numbers now
        self.n_slots = (max(m, 1) * 5 // 2 + block_size) // block_size * block_size
        self.n_blocks = self.n_slots // block_size * self.n_tracks
        assign[vector[int], int](self.run, self.n_slots, -1)
        assign[vector[int], int](self.mem, self.n_blocks * block_size, -present)
        assign[vector[int], int](self.addend, self.n_blocks, 0)
        assign[vector[int], int](self.top, self.n_blocks, -present)
        assign[vector[int64_t], int64_t](self.excess, self.n_blocks, 0)
        self.occ.resize(self.n_nodes)
        self.uses.resize(self.n_values)
        assign[vector[int], int](self.repeat_at, self.n_nodes, -1)
        assign[vector[uint32_t], uint32_t](self.stamp, self.n_nodes, 0)
        assign[vector[int], int](self.first, self.n_nodes, -1)
        assign[vector[int], int](self.last, self.n_values, -1)
        self.now = 0
        self.repeats.clear()
        for v in range(self.n_nodes):
            self.occ[v].clear()
        for x in range(self.n_values):
            self.uses[x].clear()
        self.commit()
        self.n_runs = m
        self.area = self.compute = 0
        for i in range(m):
            v = order[i]
            slot = (i * self.n_slots + self.n_slots // 2) // m
            self.run[slot] = <int>v
            self.compute += self.compute_of[v]
            self.occ[v].push_back(<int>slot)
            self.first[v] = self.occ[v][0]
            if self.occ[v].size() == 2:
                self.repeat_at[v] = <int>self.repeats.size()
                self.repeats.push_back(<int>v)
            for j in range(self.read_indptr[v], self.read_indptr[v + 1]):
                self.uses[self.read_indices[j]].push_back(<int>slot)
                self.last[self.read_indices[j]] = <int>slot
            self.occupy(v, slot, 1)
        for v in range(self.n_nodes):
            k = self.occ[v].size()
            for i in range(k):
                from_ = self.occ[v][i]
                for x in range(self.value_indptr[v], self.value_indptr[v + 1]):
                    end = from_ + 1
                    if self.output[x]:
                        end = self.n_slots if i == 0 else end
                    else:
                        row = &self.uses[x]
                        j = place_after(row[0], self.occ[v][i + 1] if i + 1 < k else self.n_slots)
                        if j > 0 and row[0][j - 1] >= end:
                            end = row[0][j - 1] + 1
                    self.change(v, from_, end, self.memory[x])
        self.set_limits()
        self.fill()
        return self.commit()

    cdef int fill(self) except -1 nogil:
        """The collected edges into an empty profile."""
        cdef vector[int64_t] changes
        cdef Py_ssize_t i, slot, block
        cdef int64_t live = 0
        self.work += self.edges.size()
        assign[vector[int64_t], int64_t](changes, self.n_blocks * block_size + 1, 0)
        for i in range(<Py_ssize_t>self.edges.size()):
            slot = slot_of(self.edges[i])
            changes[slot] += self.edges[i] - (<int64_t>slot << shift_bits)
        for slot in range(self.n_blocks * block_size):
            live += changes[slot]
            self.mem[slot] += <int>live
        for block in range(self.n_blocks):
            self.refresh(block)
        return 0

    cdef int set_limits(self) except -1 nogil:
        """The limits of the blocks, where there are new blocks."""
        cdef Py_ssize_t block
        if <Py_ssize_t>self.limit.size() != self.n_blocks:
            self.limit.resize(self.n_blocks)
        for block in range(self.n_blocks):
            self.limit[block] = self.limit_of(block // (self.n_slots // block_size))
        return 0

    cdef vector[int] region_limits

    cdef inline int limit_of(self, Py_ssize_t track) noexcept nogil:
        return self.main_limit if track == 0 else self.region_limits[track - 1]

    cdef int spread(self) except -1 nogil:
        """All runs evenly over the slots again, of which there are 2.5 for each run."""
        cdef vector[int] order
        order_of(self.run, order)
        self.arrange(order.data(), order.size())
        self.crowded = False
        self.last_spread = self.n_moves
        return 0

    # ---------------------------------------------------------------- moves

    cdef int rerun(self, Py_ssize_t v, Py_ssize_t after, Py_ssize_t before, double chance) except -1 nogil:
        """Run v again between two slots, and perhaps inputs that are dead at the second; 0 if that cannot be."""
        cdef Py_ssize_t i = 0, depth_end, j, y, p, at, k, slot, depth = 0, a, b
        cdef int64_t extra = self.compute_of[v]
        cdef vector[int]* row
        cdef vector[int]* runs
        if self.compute + extra > self.bar:
            return 0
        self.now += 1
        self.members.clear()
        self.members.push_back(<int>v)
        self.stamp[v] = self.now
        depth_end = 1
        while i < <Py_ssize_t>self.members.size() and chance > 0:
            if i == depth_end:
                depth_end = self.members.size()
                depth += 1
                if depth > max_depth:
                    break
            p = self.members[i]
            i += 1
            for j in range(self.read_indptr[p], self.read_indptr[p + 1]):
                y = self.read_indices[j]
                k = self.producer[y]
                runs = &self.occ[k]
                if self.output[y] or self.stamp[k] == self.now or <int>runs.size() >= self.max_runs[k]:
                    continue
                row = &self.uses[y]
                at = place_after(row[0], before - 1)
                a = place_after(runs[0], before)
                if at < <Py_ssize_t>row.size() and (a == <Py_ssize_t>runs.size() or row[0][at] < runs[0][a]):
                    continue                                # live there
                if self.uniform() < chance and <Py_ssize_t>self.members.size() < max_group:
                    self.stamp[k] = self.now
                    self.members.push_back(<int>k)
                    extra += self.compute_of[k]
                    if self.compute + extra > self.bar:
                        return 0
        if self.n_runs + <Py_ssize_t>self.members.size() > self.max_total_runs:
            return 0
        sort(self.members.begin(), self.members.end())
        for i in range(<Py_ssize_t>self.members.size() - 1, -1, -1):
            slot = self.free_before(before, after)
            if slot < 0:
                return 0
            self.insert(self.members[i], slot)
            before = slot
        return 1

    cdef Py_ssize_t slot_over(self) noexcept nogil:
        """A slot above the limit, or -1."""
        cdef Py_ssize_t block = -1, i, first, other
        cdef int64_t over
        cdef int limit, addend
        if self.below(10) < 7:
            first = self.below(self.n_blocks)
            for i in range(self.n_blocks):
                other = first + i if first + i < self.n_blocks else first + i - self.n_blocks
                if self.excess[other]:
                    block = other
                    break
        else:
            block = self.highest(&over)
        if block < 0 or not self.excess[block]:
            return -1
        first = self.below(block_size)
        limit, addend = self.limit[block], self.addend[block]
        for i in range(block_size):
            other = block * block_size + ((first + i) & (block_size - 1))
            if self.mem[other] + addend > limit:
                return other
        return -1

    cdef int drop_value(self, Py_ssize_t max_candidates) except -1 nogil:
        """Drop a value that lives across a slot above the limit; its node runs again before the next read.

        Of up to `max_candidates` such values it is the one with the most bytes for its compute.
        """
        cdef Py_ssize_t t = self.slot_over(), x, v, i, k, u, best = -1, best_read = -1, n_drawn, n_across = 0, track
        cdef double score, best_score = -1
        cdef vector[int]* row
        cdef vector[int]* runs
        if t < 0:
            return 0
        track = t // self.n_slots
        t -= track * self.n_slots
        n_drawn = 1 + self.below(max_candidates)
        for i in range(draws):
            x = self.draw_value()
            v = self.producer[x]
            if self.last[x] <= t or self.first[v] >= t:     # most end here; of what is read later, the node has run
                continue
            if self.compute + self.compute_of[v] > self.bar:
                continue
            runs = &self.occ[v]
            if self.output[x] or <int>runs.size() >= self.max_runs[v] or (track and self.region[v] != track):
                continue
            row = &self.uses[x]
            k = place_after(row[0], t)
            if k > 0 and row[0][k - 1] == t:
                continue
            u = row[0][k]
            k = place_after(runs[0], t)
            if runs[0][k - 1] == t or (k < <Py_ssize_t>runs.size() and runs[0][k] < u):
                continue
            score = <double>self.memory[x] / (<double>self.compute_of[v] + 1e-9 * self.mean_compute)
            if score > best_score:
                best, best_score, best_read = x, score, u
            n_across += 1
            if n_across == n_drawn:
                break
        if best < 0:
            return 0
        return self.rerun(self.producer[best], t, best_read, self.uniform())

    cdef int delete_run(self, bint expensive) except -1 nogil:
        """Remove one run of a node with several, not its first; if `expensive`, of the more expensive of two nodes."""
        cdef Py_ssize_t v, other
        if self.repeats.empty():
            return 0
        v = self.repeats[self.below(self.repeats.size())]
        if expensive:
            other = self.repeats[self.below(self.repeats.size())]
            if self.compute_of[other] > self.compute_of[v]:
                v = other
        self.remove(v, self.occ[v][1 + self.below(self.occ[v].size() - 1)])
        return 1

    cdef int swap_runs(self) except -1 nogil:
        """Remove a run; where that is above the limit, drop values; a long swap many for an expensive run."""
        cdef bint long_swap = self.below(10) == 0
        cdef Py_ssize_t i, count, drawn = max_drawn_long if long_swap else max_drawn
        if not self.delete_run(long_swap):
            return 0
        self.remove_useless()
        self.apply()
        count = max_drops_long if long_swap else 1 + self.below(max_drops)
        for i in range(count):
            if not self.area:
                return 1
            if not self.drop_value(drawn):
                return 0
            self.remove_useless()
            self.apply()
        return 1

    cdef void bounds_of(self, Py_ssize_t v, Py_ssize_t slot, Py_ssize_t* lo, Py_ssize_t* hi) noexcept nogil:
        """The last run that a run reads from, and the first that reads from it."""
        cdef Py_ssize_t j, x, at, k
        cdef vector[int]* row
        lo[0], hi[0] = -1, self.n_slots
        for j in range(self.read_indptr[v], self.read_indptr[v + 1]):
            row = &self.occ[self.producer[self.read_indices[j]]]
            at = place_after(row[0], slot)
            if at > 0 and row[0][at - 1] > lo[0]:
                lo[0] = row[0][at - 1]
        for x in range(self.value_indptr[v], self.value_indptr[v + 1]):
            row = &self.uses[x]
            at = place_after(row[0], slot)
            if at < <Py_ssize_t>row.size() and row[0][at] < hi[0]:
                hi[0] = row[0][at]

    cdef int shift_run(self) except -1 nogil:
        """Move one run between its last input and its first read."""
        cdef Py_ssize_t slot = self.draw_run(), lo, hi, to, kind = self.below(10), target
        cdef Py_ssize_t v = self.run[slot]
        self.bounds_of(v, slot, &lo, &hi)
        if hi - lo < 3:
            return 0
        if kind < 5:
            target = slot + self.below(21) - 10
        elif kind < 7:
            target = hi - 1
        elif kind < 8:
            target = lo + 1
        else:
            target = lo + 1 + self.below(hi - lo - 1)
        target = max(lo + 1, min(hi - 1, target))
        to = target
        if self.run[to] >= 0:
            if kind == 7 or (kind < 5 and target > slot):
                to = self.free_behind(target, hi)
            else:
                to = self.free_before(target, lo)
        if to < 0 or to == slot:
            return 0
        self.remove(v, slot)
        self.insert(v, to)
        return 1

    cdef int move_group(self) except -1 nogil:
        """Move a run with inputs that only it reads."""
        cdef Py_ssize_t slot = self.draw_run(), i = 0, j, y, p, at, lo, hi, r, x, to, before, k, next_run
        cdef Py_ssize_t v = self.run[slot], target, kind
        cdef bint alone
        cdef vector[int]* row
        cdef vector[int]* runs
        cdef vector[int]* slots = &self.group_slots
        self.bounds_of(v, slot, &lo, &hi)
        self.members.clear()
        slots.clear()
        self.members.push_back(<int>v)
        slots.push_back(<int>slot)
        while i < <Py_ssize_t>slots.size():
            v, before = self.members[i], slots[0][i]
            i += 1
            for j in range(self.read_indptr[v], self.read_indptr[v + 1]):
                y = self.read_indices[j]
                p = self.producer[y]
                runs = &self.occ[p]
                k = place_after(runs[0], before)
                r = runs[0][k - 1]
                next_run = runs[0][k] if k < <Py_ssize_t>runs.size() else self.n_slots
                alone = True
                for x in range(self.value_indptr[p], self.value_indptr[p + 1]):
                    row = &self.uses[x]
                    at = place_after(row[0], r)
                    if self.output[x] or (at < <Py_ssize_t>row.size() and row[0][at] < next_run and (
                            row[0][at] != before or
                            (at + 1 < <Py_ssize_t>row.size() and row[0][at + 1] < next_run))):
                        alone = False
                        break
                if alone and <Py_ssize_t>slots.size() < max_group and self.below(10) < 6:
                    for at in range(<Py_ssize_t>slots.size()):
                        if slots[0][at] == r:
                            alone = False
                    if alone:
                        self.members.push_back(<int>p)
                        slots.push_back(<int>r)
        kind = self.below(3)
        if kind == 0:
            target = hi
        elif kind == 1:
            target = slot + 1 + self.below(max(hi - slot, 1))
        else:
            target = 1 + self.below(slot + 1)
        target = min(target, self.n_slots)
        for i in range(<Py_ssize_t>slots.size()):
            self.remove(self.members[i], slots[0][i])
        sort(self.members.begin(), self.members.end())
        before = target
        for i in range(<Py_ssize_t>self.members.size() - 1, -1, -1):
            to = self.free_before(before, -1)
            if to < 0:
                return 0
            self.insert(self.members[i], to)
            before = to
        return 1

    cdef vector[int] group_slots

    cdef int double_run(self) except -1 nogil:
        """Run an input once more just before a read."""
        cdef Py_ssize_t slot = self.draw_run(), v = self.run[slot], y, p, at
        cdef Py_ssize_t n_reads = self.read_indptr[v + 1] - self.read_indptr[v]
        if n_reads == 0:
            return 0
        y = self.read_indices[self.read_indptr[v] + self.below(n_reads)]
        p = self.producer[y]
        if self.output[y] or <int>self.occ[p].size() >= self.max_runs[p]:
            return 0
        at = self.occ[p][place_after(self.occ[p], slot) - 1]
        return self.rerun(p, at, slot, self.uniform())

    cdef inline double cost_now(self) noexcept nogil:
        cdef int64_t over = 0
        if not self.area:
            return <double>self.compute
        self.highest(&over)
        return <double>self.compute + self.weight * (0.3 * <double>self.area + <double>max(over, 0))

    cdef int step(self) except -1 nogil:
        """One move, taken or undone."""
        cdef Py_ssize_t share = self.below(100), move = 0, base = 0 if self.area else 6
        if self.moving_order:
            move = shift if self.below(4) else group
        else:
            while shares[base + move] <= share:
                move += 1
        return self.make(move)

    cdef int make(self, Py_ssize_t move) except -1 nogil:
        """One move of a kind, taken or undone."""
        cdef int done
        cdef double cost
        self.work += 8
        self.bar = self.cost + self.temperature * self.exponentials[self.below(n_exponentials)]
        if move == drop:
            done = self.drop_value(max_drawn)
        elif move == delete:
            done = self.delete_run(False)
        elif move == swap:
            done = self.swap_runs()
        elif move == shift:
            done = self.shift_run()
        elif move == group:
            done = self.move_group()
        else:
            done = self.double_run()
        if done:
            self.remove_useless()
            done = <double>self.compute <= self.bar and self.valid()
        if done:
            self.apply()
            cost = self.cost_now()
            done = cost <= self.bar
        if not done:
            if not self.log.empty():
                return self.roll_back()
            return self.commit()
        self.cost = cost
        self.n_accepted += 1
        self.accept()
        return self.note()

    cdef int note(self) except -1 nogil:
        """Keep the state if it is the best so far."""
        cdef int64_t peak
        if self.area:
            if self.fits or self.lowest:
                return 0
            peak = self.peak()
            if peak < self.best_peak:
                self.best_peak, self.best_compute = peak, self.compute
                self.record_best()
            return 0
        if self.lowest:
            self.best_peak, self.best_compute, self.fits = self.peak(), self.compute, True
            self.record_best()
            self.aim_at(self.best_peak - 1)
            return 0
        if not self.fits or self.compute < self.best_compute:
            self.best_compute, self.fits = self.compute, True
            self.record_best()
        return 0

    cdef int aim_at(self, int64_t limit) except -1 nogil:
        """Another limit of the first track."""
        cdef Py_ssize_t block
        self.main_limit = <int>max(-1, min(limit, <int64_t>largest))
        self.set_limits()
        for block in range(self.n_slots // block_size):
            self.refresh(block)
        self.cost = self.cost_now()
        return 0

    # ---------------------------------------------------------------- for the caller

    def start(self, const int[::1] order, int64_t limit, const int64_t[::1] region_limits, int64_t goal, bint lowest,
              bint within=False):
        """Begin at an order: False if it breaks a law or a constraint.

        The best schedule so far stays; `forget` drops it. With `lowest` the limit follows the best peak down. With
        `within` the order fits in bytes, and the limit is raised to its peak where that, rounded up, is higher.
        """
        cdef Py_ssize_t i
        cdef bint sound = region_limits.shape[0] >= self.n_tracks - 1
        for i in range(order.shape[0]):
            sound = sound and 0 <= order[i] < self.n_nodes
        self.ready = False
        if not sound:
            return False
        self.region_limits.clear()
        for i in range(self.n_tracks - 1):
            self.region_limits.push_back(<int>min(region_limits[i], <int64_t>largest))
        self.main_limit = <int>max(-1, min(limit, <int64_t>largest))
        self.lowest, self.goal = lowest, goal
        self.max_total_runs = 6 * self.n_nodes + order.shape[0] + 50
        with nogil:
            self.arrange(&order[0] if order.shape[0] else NULL, order.shape[0])
            for i in range(self.n_slots):
                if self.run[i] >= 0:
                    self.checks.push_back(<int>i)
            for i in range(self.n_nodes):
                self.suspect(i)
                if <int>self.occ[i].size() > self.max_runs[i]:
                    self.broken = True
            sound = self.valid()
            if sound:
                self.remove_useless()
                self.apply()
                sound = self.valid()                        # as first runs that were useless are gone
            self.commit()
            self.weight = 2 * self.mean_compute / self.mean_memory
            self.floor_weight = 0.01 * self.weight
            self.crowded, self.last_spread = False, self.n_moves
            if lowest or within:
                self.aim_at(max(self.peak(), 0 if lowest else self.main_limit))
            self.cost = self.cost_now()
            if sound:
                self.note()
            self.ready = sound and self.n_runs > 0
        return sound

    def forget(self):
        """No schedule is the best so far."""
        self.best_run.clear()
        self.journal.clear()
        self.n_to_best, self.journal_is_whole = 0, False
        self.fits, self.best_compute, self.best_peak = False, none, none

    def weigh(self, double factor):
        """Multiply the weight of bytes above the limit."""
        if self.ready:
            self.weight *= factor
            self.cost = self.cost_now()

    def advance(self, int64_t moves):
        """Make moves; True if the search has ended: at its goal, or where nothing runs twice and all fits.

        `work` counts what they take: edges and blocks of the profile.
        """
        cdef int64_t until = self.n_moves + moves
        cdef bint ended = not self.ready
        with nogil:
            while self.n_moves < until and not ended:
                self.step()
                self.n_moves += 1
                if self.checking and self.trouble():
                    break
                if self.n_moves % period == 0 and not self.moving_order:
                    self.weight = self.weight * 1.05 if self.area else max(self.weight * 0.97, self.floor_weight)
                    self.cost = self.cost_now()
                if self.crowded and self.n_moves - self.last_spread > 200 + self.n_slots // 16:
                    self.spread()
                ended = not self.lowest and self.fits and self.best_compute <= self.goal
        return ended

    def try_move(self, Py_ssize_t move):
        """Make one move of a kind, its place in MOVES; True if it is accepted."""
        cdef int64_t accepted = self.n_accepted
        if not self.ready:
            return False
        with nogil:
            self.make(move)
            self.n_moves += 1
        return self.n_accepted > accepted

    def slots(self):
        """int32[n_slots]: the node that runs in each slot of the state, -1 for none."""
        slots = np.empty(self.n_slots, np.int32)
        cdef int[::1] out = slots
        cdef Py_ssize_t slot
        for slot in range(self.n_slots):
            out[slot] = self.run[slot]
        return slots

    def best_order(self):
        """int32[*]: the best schedule so far; until one fits that of the lowest peak."""
        cdef vector[int] best
        cdef int[::1] out
        cdef Py_ssize_t i
        self.replay()
        order_of(self.best_run, best)
        order = np.empty(best.size(), np.int32)
        out = order
        for i in range(<Py_ssize_t>best.size()):
            out[i] = best[i]
        return order

    @property
    def figures(self):
        """(bytes above the limits, compute, number of runs) of the state."""
        return self.area, self.compute, self.n_runs

    # ---------------------------------------------------------------- checks

    def check(self):
        """What is wrong with the state, found by a full evaluation; 0 if nothing."""
        cdef int fault = 0
        if self.ready:
            with nogil:
                fault = self.trouble()
        return fault

    cdef int trouble(self) except -1 nogil:
        """1 profile, 2 excess or maximum, 3 compute or count, 4 a read without a run, 5 a useless run, 6 repeats, 7 uses."""
        cdef vector[int64_t] live, n_uses
        cdef Py_ssize_t slot, v, x, j, k, i, end, block, n_repeats = 0, count = 0, track
        cdef int64_t compute = 0, most, above, area = 0
        assign[vector[int64_t], int64_t](live, self.n_slots * self.n_tracks + 1, 0)
        assign[vector[int64_t], int64_t](n_uses, self.n_values, 0)
        for slot in range(self.n_slots):
            v = self.run[slot]
            if v < 0:
                continue
            count += 1
            compute += self.compute_of[v]
            for j in range(self.read_indptr[v], self.read_indptr[v + 1]):
                x = self.read_indices[j]
                if self.occ[self.producer[x]][0] > slot:
                    return 4
                k = n_uses[x]
                if k == <Py_ssize_t>self.uses[x].size() or self.uses[x][k] != slot:
                    return 7
                n_uses[x] += 1
            if not self.useful(v, slot):
                return 5
        for x in range(self.n_values):
            if n_uses[x] != <int64_t>self.uses[x].size():
                return 7
            if self.uses[x].empty() != (self.last[x] < 0):
                return 7
            if not self.uses[x].empty() and self.last[x] != self.uses[x].back():
                return 7
        for v in range(self.n_nodes):
            k = self.occ[v].size()
            if k and self.first[v] != self.occ[v][0]:
                return 3
            n_repeats += k > 1
            if k > 1 and self.repeats[self.repeat_at[v]] != v:
                return 6
            for i in range(k):
                slot = self.occ[v][i]
                if self.run[slot] != v:
                    return 3
                for x in range(self.value_indptr[v], self.value_indptr[v + 1]):
                    end = slot + 1
                    for j in range(<Py_ssize_t>self.uses[x].size()):
                        if self.uses[x][j] > slot and (i + 1 == k or self.uses[x][j] < self.occ[v][i + 1]):
                            end = max(end, <Py_ssize_t>self.uses[x][j] + 1)
                    if self.output[x]:
                        end = self.n_slots if i == 0 else slot + 1
                    for j in range(slot, end):
                        live[j] += self.memory[x]
                        if self.region[v]:
                            live[j + self.region[v] * self.n_slots] += self.memory[x]
                live[slot] += self.workspace[v]
                if self.region[v]:
                    live[slot + self.region[v] * self.n_slots] += self.workspace[v]
        if count != self.n_runs or compute != self.compute or n_repeats != <Py_ssize_t>self.repeats.size():
            return 3
        for block in range(self.n_blocks):
            most, above = -none, 0
            for slot in range(block * block_size, (block + 1) * block_size):
                track = slot // self.n_slots
                live[slot] -= 0 if self.run[slot - track * self.n_slots] >= 0 else present
                if live[slot] != self.mem[slot] + <int64_t>self.addend[block]:
                    return 1
                most = max(most, live[slot])
                above += max(live[slot] - self.limit[block], 0)
            area += above
            if most != self.top[block] or above != self.excess[block]:
                return 2
        return 0 if area == self.area else 2


def _rows(keys, entries, n):
    """Entries by key: (int64[n + 1], int32[k])."""
    keys, entries = np.asarray(keys), np.asarray(entries)
    order = np.argsort(keys, kind="stable")
    indptr = np.concatenate([[0], np.cumsum(np.bincount(keys, minlength=n))]).astype(np.int64)
    return indptr, entries[order].astype(np.int32)
