# distutils: language = c++
"""Local search over schedules: simulated annealing on schedules without useless runs.

`schedule_state` stores the runs, `live_profile` the live bytes at each slot. This file contains the moves and the
acceptance rule. A move is a transaction of the state. Its compute is checked before its changes are applied to the
profile, and a rejected move is undone. Bytes above the limit are allowed at a penalty.
"""

import numpy as np

cimport cython
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libcpp.algorithm cimport sort
from libcpp.vector cimport vector
from remat_algos.kernels.graph cimport GraphArrays
from remat_algos.kernels.growing cimport assign
from remat_algos.kernels.live_profile cimport BLOCK_SIZE, LARGEST, LiveProfile
from remat_algos.kernels.schedule_state cimport ScheduleRules, ScheduleState, order_of, place_after
from remat_algos.kernels.timeline cimport Engines
from remat_algos.kernels.timetable cimport Timetable
from remat_algos.kernels.types cimport ENDLESS, Flags

cdef enum:
    # Number of moves between two updates of the penalty weight for bytes above the limit.
    MOVES_OF_WEIGHT = 1024
    # Maximum number of random draws for finding values that are live across a slot.
    DRAWS = 40
    # MAX_DEPTH: maximum number of levels of inputs that a move recomputes together with a value. MAX_GROUP: maximum
    # number of runs that a move inserts or moves.
    MAX_DEPTH = 12
    MAX_GROUP = 40
    # Maximum number of candidates, of which the best one is dropped.
    MAX_DRAWN = 4
    # Maximum number of values that a swap drops. MAX_DRAWN_LONG and MAX_DROPS_LONG replace MAX_DRAWN and MAX_DROPS in a
    # long swap.
    MAX_DROPS = 3
    MAX_DRAWN_LONG = 8
    MAX_DROPS_LONG = 12
    QUANTILES = 1 << 14

BLOCK, PERIOD, LARGEST_LIMIT = BLOCK_SIZE, MOVES_OF_WEIGHT, LARGEST
MOVES = ("drop", "delete", "swap", "shift", "group", "double", "exchange")
N_EXPONENTIALS = QUANTILES

cdef enum Move:
    drop, delete, swap, shift, group, double_, exchange

# Cumulative probabilities of the moves in percent. The first row is for searches without copies, the second with them.
# The first seven entries of a row apply while the schedule is above the limit, the last seven while it is within.
cdef int* SHARES = [40, 58, 66, 85, 93, 100, 100, 4, 20, 50, 85, 93, 100, 100,
                    40, 56, 64, 82, 88, 92, 100, 4, 18, 44, 78, 84, 88, 100]


@cython.final
cdef class _Chance:
    """The source of all random choices of a search.

    weights : float64[n_values] weights for drawing a value; exponentials : float64[N_EXPONENTIALS] quantiles
    """

    cdef uint64_t state
    cdef Py_ssize_t n_values
    cdef uint64_t[::1] keep_draw
    cdef int[::1] alias
    cdef const double[::1] exponentials

    def __init__(self, weights, const double[::1] exponentials, int64_t seed):
        self.n_values, self.exponentials = weights.size, exponentials
        self.prepare_drawing(weights)
        self.state = <uint64_t>seed
        # Scramble the seed: otherwise the sequences of two seeds could be shifts of each other.
        self.state = self.random()

    cdef prepare_drawing(self, weights):
        """Build the tables of Walker's alias method, which draws a value by weight in constant time."""
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

    cdef inline uint64_t random(self) noexcept nogil:
        """Return the next word of SplitMix64."""
        self.state += <uint64_t>0x9E3779B97F4A7C15
        cdef uint64_t z = self.state
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

    cdef inline double exponential(self) noexcept nogil:
        return self.exponentials[self.below(QUANTILES)]


@cython.final
cdef class _Journal:
    """The best schedule, stored as an earlier schedule and the moves that lead from it to the best one."""

    # Id in each slot of the earlier schedule.
    cdef vector[int] run
    # Moves accepted since the earlier schedule, in the format of ScheduleState's log. The first `n_to_best` entries
    # lead to the best schedule.
    cdef vector[int64_t] entries
    cdef Py_ssize_t n_to_best
    # True if `run` followed by all entries is the current schedule.
    cdef bint is_whole

    cdef void forget(self) noexcept nogil:
        self.run.clear()
        self.entries.clear()
        self.n_to_best, self.is_whole = 0, False

    cdef int append(self, ScheduleState state) except -1 nogil:
        cdef Py_ssize_t i
        if self.is_whole:
            for i in range(<Py_ssize_t>state.log.size()):
                self.entries.push_back(state.log[i])
            if <Py_ssize_t>self.entries.size() > state.n_slots:
                self.replay()
        return 0

    cdef int record(self, ScheduleState state) except -1 nogil:
        """Record the current schedule as the best one."""
        cdef Py_ssize_t slot
        if not self.is_whole:
            # Not a vector assignment, which would terminate the process if memory ran out.
            self.run.resize(state.n_slots)
            for slot in range(state.n_slots):
                self.run[slot] = state.run[slot]
            self.entries.clear()
            self.is_whole = True
        self.n_to_best = self.entries.size()
        return 0

    cdef int replay(self) except -1 nogil:
        """Turn `run` into the best schedule by applying the first `n_to_best` entries; discard all entries."""
        cdef Py_ssize_t i
        cdef int64_t entry
        for i in range(self.n_to_best):
            entry = self.entries[i]
            self.run[entry >> 32] = <int>((entry & <int64_t>0xFFFFFFFF) >> 1) if entry & 1 else -1
        self.is_whole = self.is_whole and self.n_to_best == <Py_ssize_t>self.entries.size()
        self.entries.clear()
        self.n_to_best = 0
        return 0

    cdef int leave(self) except -1 nogil:
        """Store the best schedule in `run` and forget the moves, because slots are about to be renumbered."""
        self.replay()
        self.is_whole = False
        return 0


cdef inline Py_ssize_t draw_run(_Chance chance, ScheduleState state) noexcept nogil:
    """Draw an occupied slot, uniformly."""
    cdef Py_ssize_t slot = chance.below(state.n_slots)
    while state.run[slot] < 0:
        slot = chance.below(state.n_slots)
    return slot


@cython.final
cdef class ScheduleSearch:
    """The current schedule of a local search, and the best schedule that it has visited.

    graph : contains needed nodes only; the unit of bytes is such that the sizes of all values sum to less than 2**30
    rules : rules for schedules of this graph
    loadable : uint8[n_values] flags of the values that may be loaded, or empty if nothing is copied
    engines : Engines for the values of the graph, or None; if something may be copied, the cost is the time
    weights : float64[n_values] weights for drawing a value; positive for values that are read, are not outputs and can
        be recomputed
    exponentials : float64[N_EXPONENTIALS] quantiles of the exponential distribution
    seed : seed of the random choices

    Cost: a move looks up the reads and values of the runs that it changes, in O(log m) each, and visits the blocks of
    128 slots in which bytes change, which takes a few microseconds. O(n + m + reads of all runs) memory. The search is
    a heuristic and proves no bounds.
    """

    cdef ScheduleState state
    cdef LiveProfile profile             # live bytes
    # Timeline of the state, None unless values may be loaded.
    cdef Timetable timetable
    cdef _Chance chance
    cdef _Journal journal
    # The current move: ids that it inserts or moves, and the slots of those that it moves.
    cdef vector[int] members
    cdef vector[int] group_slots
    # stamp[id] == now for the members.
    cdef vector[uint32_t] stamp
    cdef uint32_t now
    cdef Py_ssize_t max_total_runs
    cdef double mean_compute, mean_memory
    # Cost of the state, weight of bytes above the limit, and the minimum of this weight.
    cdef double cost, weight, floor_weight
    # Time of the current schedule; without copies, its compute.
    cdef readonly int64_t time
    cdef double bar                      # maximum acceptable cost
    cdef public double temperature
    cdef readonly int64_t n_moves, n_accepted
    cdef int64_t last_spread, goal
    # True if no node may run twice, so that moves only change positions.
    cdef readonly bint one_pass
    # True if the state is valid and contains a run.
    cdef bint ready
    # For tests: after each move, compare the state with one computed from scratch, and stop at the first difference.
    cdef public bint checking
    # Time and peak of the best schedule; the peak is in units.
    cdef readonly int64_t best_time, best_peak
    cdef readonly bint fits              # best schedule is within limits

    def __init__(self, GraphArrays graph not None, ScheduleRules rules not None, weights,
                 const double[::1] exponentials, int64_t seed, *, Flags loadable not None, Engines engines):
        cdef Py_ssize_t n = graph.n_nodes
        if rules.max_runs.shape[0] != n or weights.shape[0] != graph.n_values or exponentials.shape[0] != QUANTILES:
            raise ValueError("arrays of different lengths")
        most, costs, sizes = np.asarray(rules.max_runs), np.asarray(graph.compute), np.asarray(graph.memory)
        can_run_twice = most[np.asarray(graph.producer)] > 1
        if loadable.shape[0]:
            if engines is None:
                raise ValueError("loads need engines")
            can_run_twice |= np.asarray(loadable) > 0
        read = np.bincount(np.asarray(graph.read_indices), minlength=graph.n_values) > 0
        drawn = np.where(read & can_run_twice & (np.asarray(graph.output) == 0), weights, 0.0)
        self.state = ScheduleState(graph, rules, loadable)
        self.timetable = Timetable(self.state, engines) if loadable.shape[0] else None
        self.profile, self.chance, self.journal = self.state.profile, _Chance(drawn, exponentials, seed), _Journal()
        self.mean_compute = max(float(costs.mean()), 1e-9) if n and costs.any() else 1.0
        self.mean_memory = float(sizes.mean()) if sizes.size and sizes.any() else 1.0
        self.one_pass = n == 0 or (int(most.max()) <= 1 and not loadable.shape[0])
        self.temperature = 1.0
        assign[vector[uint32_t], uint32_t](self.stamp, self.state.n_ids, 0)
        self.forget()

    # ---------------------------------------------------------------- moves

    cdef int rerun(self, Py_ssize_t v, Py_ssize_t after, Py_ssize_t before, double chance) except -1 nogil:
        """Insert a run of v between two slots, possibly with runs of dead inputs; return 0 if impossible."""
        cdef Py_ssize_t i = 0, depth_end, j, y, p, at, k, depth = 0, a
        cdef bint by_load
        cdef int64_t extra = self.state.compute_of[v]
        cdef vector[int]* row
        cdef vector[int]* runs
        if self.state.compute + extra > self.bar:
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
                if depth > MAX_DEPTH:
                    break
            p = self.members[i]
            i += 1
            for j in range(self.state.read_indptr[p], self.state.read_indptr[p + 1]):
                y = self.state.read_indices[j]
                k = self.state.producer[y]
                by_load = self.state.has_loads and self.state.loadable[y] and self.chance.below(2)
                if self.state.output[y] or self.stamp[self.state.n_nodes + y if by_load else k] == self.now:
                    continue
                if not by_load and <int>self.state.occ[k].size() >= self.state.rules.max_runs[k]:
                    continue
                runs = self.state.origins_of(y)
                row = &self.state.uses[y]
                at = place_after(row[0], before - 1)
                a = place_after(runs[0], before)
                if at < <Py_ssize_t>row.size() and (a == <Py_ssize_t>runs.size() or row[0][at] < runs[0][a]):
                    continue                                # live there
                if self.chance.uniform() < chance and <Py_ssize_t>self.members.size() < MAX_GROUP:
                    k = self.state.n_nodes + y if by_load else k
                    self.stamp[k] = self.now
                    self.members.push_back(<int>k)
                    extra += self.state.compute_of[k]
                    if self.state.compute + extra > self.bar:
                        return 0
        if self.state.n_runs + <Py_ssize_t>self.members.size() > self.max_total_runs:
            return 0
        return self.place_members(before, after)

    cdef int place_members(self, Py_ssize_t before, Py_ssize_t after) except -1 nogil:
        """Insert the members, loads first, then nodes by id, between two slots. Return 0 if too few slots are empty."""
        cdef Py_ssize_t i, slot, part
        sort(self.members.begin(), self.members.end())
        for part in range(2):
            for i in range(<Py_ssize_t>self.members.size() - 1, -1, -1):
                if (self.members[i] >= self.state.n_nodes) != part:
                    continue
                slot = self.state.free_before(before, after)
                if slot < 0:
                    return 0
                self.state.insert(self.members[i], slot)
                before = slot
        return 1

    cdef int load_between(self, Py_ssize_t x, Py_ssize_t after, Py_ssize_t before) except -1 nogil:
        """Insert a load of a value between two slots, preferably late; return 0 if impossible."""
        cdef double back = self.chance.uniform()
        cdef Py_ssize_t slot = before - <Py_ssize_t>(back * back * (before - after - 1))
        slot = self.state.free_before(max(slot, after + 2), after)
        if slot < 0 or self.state.n_runs >= self.max_total_runs:
            return 0
        self.state.insert(self.state.n_nodes + x, slot)
        return 1

    cdef Py_ssize_t slot_over(self) noexcept nogil:
        """Return a random slot whose live bytes exceed the limit, or -1."""
        cdef Py_ssize_t block = -1, i, first, other
        cdef int64_t over
        cdef int limit, addend
        if self.chance.below(10) < 7:
            first = self.chance.below(self.profile.n_blocks)
            for i in range(self.profile.n_blocks):
                other = first + i if first + i < self.profile.n_blocks else first + i - self.profile.n_blocks
                if self.profile.excess[other]:
                    block = other
                    break
        else:
            block = self.profile.highest(&over)
        if block < 0 or not self.profile.excess[block]:
            return -1
        first = self.chance.below(BLOCK_SIZE)
        limit, addend = self.profile.limit[block], self.profile.addend[block]
        for i in range(BLOCK_SIZE):
            other = block * BLOCK_SIZE + ((first + i) & (BLOCK_SIZE - 1))
            if self.profile.mem[other] + addend > limit:
                return other
        return -1

    cdef int drop_value(self, Py_ssize_t max_candidates) except -1 nogil:
        """Free a value that is live across a slot above the limit, and recompute or load it before its next read.

        Up to `max_candidates` such values are drawn. To recompute, the value with the most bytes per unit of compute is
        chosen. To load, the value with the largest product of bytes and slots until the read is chosen.
        """
        cdef Py_ssize_t t = self.slot_over(), x, v, i, k, u, best = -1, best_read = -1, n_drawn, n_across = 0, track
        cdef double score, best_score = -1
        cdef vector[int]* row
        cdef vector[int]* runs
        cdef bint by_load = self.state.has_loads and self.chance.below(2)
        if t < 0:
            return 0
        track = t // self.state.n_slots
        t -= track * self.state.n_slots
        n_drawn = 1 + self.chance.below(max_candidates)
        for i in range(DRAWS):
            x = self.chance.draw_value()
            v = self.state.producer[x]
            # Reject a value that is not read after slot t, or whose node first runs at t or later. This rejects most.
            if self.state.last[x] <= t or self.state.first[v] >= t:
                continue
            if by_load:
                if not self.state.loadable[x]:
                    continue
            elif self.state.compute + self.state.compute_of[v] > self.bar:
                continue
            if self.state.output[x]:
                continue
            if not by_load and <int>self.state.occ[v].size() >= self.state.rules.max_runs[v]:
                continue
            runs = self.state.origins_of(x)
            if track and self.state.rules.region[v] != track:
                continue
            row = &self.state.uses[x]
            k = place_after(row[0], t)
            if k > 0 and row[0][k - 1] == t:
                continue
            u = row[0][k]
            k = place_after(runs[0], t)
            if runs[0][k - 1] == t or (k < <Py_ssize_t>runs.size() and runs[0][k] < u):
                continue
            if by_load:
                score = <double>self.state.memory[x] * <double>(u - t)
            else:
                score = <double>self.state.memory[x] / (<double>self.state.compute_of[v] + 1e-9 * self.mean_compute)
            if score > best_score:
                best, best_score, best_read = x, score, u
            n_across += 1
            if n_across == n_drawn:
                break
        if best < 0:
            return 0
        if by_load:
            return self.load_between(best, t, best_read)
        return self.rerun(self.state.producer[best], t, best_read, self.chance.uniform())

    cdef int delete_run(self, bint expensive) except -1 nogil:
        """Remove a load, or a run except the first of a node; if `expensive`, take the costlier of two random nodes."""
        cdef Py_ssize_t v, other, place
        if self.state.repeats.empty():
            return 0
        v = self.state.repeats[self.chance.below(self.state.repeats.size())]
        if expensive:
            other = self.state.repeats[self.chance.below(self.state.repeats.size())]
            if self.state.compute_of[other] > self.state.compute_of[v]:
                v = other
        place = self.state.n_needed(v)
        self.state.remove(v, self.state.occ[v][place + self.chance.below(self.state.occ[v].size() - place)])
        return 1

    cdef int exchange_run(self) except -1 nogil:
        """Replace a run by loads of those of its values that are read, or a load by a run."""
        cdef Py_ssize_t v, x, slot, place, at, i, before, following
        cdef int done = 0
        cdef vector[int]* row
        cdef vector[int]* origins
        if self.state.repeats.empty() or not self.state.has_loads:
            return 0
        v = self.state.repeats[self.chance.below(self.state.repeats.size())]
        place = self.state.n_needed(v)
        slot = self.state.occ[v][place + self.chance.below(self.state.occ[v].size() - place)]
        if v >= self.state.n_nodes:
            x = v - self.state.n_nodes
            v = self.state.producer[x]
            if <int>self.state.occ[v].size() >= self.state.rules.max_runs[v]:
                return 0
            row = &self.state.uses[x]
            following = row[0][place_after(row[0], slot)]
            origins = self.state.origins_of(x)
            before = origins[0][place_after(origins[0], slot) - 2]
            self.state.remove(self.state.n_nodes + x, slot)
            return self.rerun(v, before, following, self.chance.uniform())
        self.state.remove(v, slot)
        for x in range(self.state.value_begin[v], self.state.value_end[v]):
            origins = self.state.origins_of(x)
            row = &self.state.uses[x]
            at = place_after(row[0], slot)
            if self.state.output[x] or at == <Py_ssize_t>row.size():
                continue
            i = place_after(origins[0], slot)
            if i < <Py_ssize_t>origins.size() and origins[0][i] < row[0][at]:
                continue
            if not self.state.loadable[x]:
                return 0
            before = origins[0][i - 1]
            if at and row[0][at - 1] > before:
                before = row[0][at - 1]
            done = self.load_between(x, before, row[0][at])
            if not done:
                return 0
        return done

    cdef int swap_runs(self) except -1 nogil:
        """Remove a run, then drop values while the limit is exceeded.

        A long swap removes an expensive run, and may drop many values.
        """
        cdef bint long_swap = self.chance.below(10) == 0
        cdef Py_ssize_t i, count, drawn = MAX_DRAWN_LONG if long_swap else MAX_DRAWN
        if not self.delete_run(long_swap):
            return 0
        self.state.remove_useless()
        self.profile.apply()
        count = MAX_DROPS_LONG if long_swap else 1 + self.chance.below(MAX_DROPS)
        for i in range(count):
            if not self.profile.area:
                return 1
            if not self.drop_value(drawn):
                return 0
            self.state.remove_useless()
            self.profile.apply()
        return 1

    cdef int shift_run(self) except -1 nogil:
        """Move a run to another slot after its last input and before its first read."""
        cdef Py_ssize_t slot = draw_run(self.chance, self.state), lo, hi, to, kind = self.chance.below(10), target
        cdef Py_ssize_t v = self.state.run[slot]
        self.state.bounds_of(v, slot, &lo, &hi)
        if hi - lo < 3:
            return 0
        if kind < 5:
            target = slot + self.chance.below(21) - 10
        elif kind < 7:
            target = hi - 1
        elif kind < 8:
            target = lo + 1
        else:
            target = lo + 1 + self.chance.below(hi - lo - 1)
        target = max(lo + 1, min(hi - 1, target))
        to = target
        if self.state.run[to] >= 0:
            if kind == 7 or (kind < 5 and target > slot):
                to = self.state.free_behind(target, hi)
            else:
                to = self.state.free_before(target, lo)
        if to < 0 or to == slot:
            return 0
        self.state.remove(v, slot)
        self.state.insert(v, to)
        return 1

    cdef int move_group(self) except -1 nogil:
        """Move a run together with runs of inputs that only this group reads."""
        cdef Py_ssize_t slot = draw_run(self.chance, self.state), i = 0, j, y, p, at, lo, hi, r, x, before, k
        cdef Py_ssize_t next_run
        cdef Py_ssize_t v = self.state.run[slot], target, kind
        cdef bint alone
        cdef vector[int]* row
        cdef vector[int]* runs
        cdef vector[int]* slots = &self.group_slots
        self.state.bounds_of(v, slot, &lo, &hi)
        self.members.clear()
        slots.clear()
        self.members.push_back(<int>v)
        slots.push_back(<int>slot)
        while i < <Py_ssize_t>slots.size():
            v, before = self.members[i], slots[0][i]
            i += 1
            for j in range(self.state.read_indptr[v], self.state.read_indptr[v + 1]):
                y = self.state.read_indices[j]
                runs = self.state.origins_of(y)
                k = place_after(runs[0], before)
                r = runs[0][k - 1]
                p = self.state.run[r]
                next_run = runs[0][k] if k < <Py_ssize_t>runs.size() else self.state.n_slots
                alone = True
                for x in range(self.state.value_begin[p], self.state.value_end[p]):
                    row = &self.state.uses[x]
                    at = place_after(row[0], r)
                    if self.state.output[x] or (at < <Py_ssize_t>row.size() and row[0][at] < next_run and (
                            row[0][at] != before or
                            (at + 1 < <Py_ssize_t>row.size() and row[0][at + 1] < next_run))):
                        alone = False
                        break
                if alone and <Py_ssize_t>slots.size() < MAX_GROUP and self.chance.below(10) < 6:
                    for at in range(<Py_ssize_t>slots.size()):
                        if slots[0][at] == r:
                            alone = False
                    if alone:
                        self.members.push_back(<int>p)
                        slots.push_back(<int>r)
        kind = self.chance.below(3)
        if kind == 0:
            target = hi
        elif kind == 1:
            target = slot + 1 + self.chance.below(max(hi - slot, 1))
        else:
            target = 1 + self.chance.below(slot + 1)
        target = min(target, self.state.n_slots)
        for i in range(<Py_ssize_t>slots.size()):
            self.state.remove(self.members[i], slots[0][i])
        return self.place_members(target, -1)

    cdef int double_run(self) except -1 nogil:
        """Recompute or load an input just before a run reads it."""
        cdef Py_ssize_t slot = draw_run(self.chance, self.state), v = self.state.run[slot], y, p, at
        cdef Py_ssize_t n_reads = self.state.read_indptr[v + 1] - self.state.read_indptr[v]
        if n_reads == 0:
            return 0
        y = self.state.read_indices[self.state.read_indptr[v] + self.chance.below(n_reads)]
        p = self.state.producer[y]
        if self.state.output[y]:
            return 0
        at = self.state.origins_of(y)[0][place_after(self.state.origins_of(y)[0], slot) - 1]
        if self.state.has_loads and self.state.loadable[y] and self.chance.below(2):
            return self.load_between(y, at, slot)
        if <int>self.state.occ[p].size() >= self.state.rules.max_runs[p]:
            return 0
        return self.rerun(p, at, slot, self.chance.uniform())

    # ---------------------------------------------------------------- acceptance

    cdef inline int64_t time_now(self, double bar) except -1 nogil:
        """Return the time of the state; if it exceeds the bar, return any number above the bar."""
        return self.timetable.play(bar) if self.state.n_loads else self.state.compute

    cdef inline int keep_time(self) except -1 nogil:
        """Accept the timeline that was computed last."""
        if not self.state.has_loads:
            return 0
        if self.state.n_loads:
            return self.timetable.keep()
        self.timetable.forget()
        return 0

    cdef int fault(self) except -1 nogil:
        """Return `ScheduleState.fault`, or 8 if the time of the state is wrong."""
        cdef int fault = self.state.fault()
        if fault == 0 and self.state.n_loads and (self.timetable.time != self.time or self.timetable.wrong()):
            fault = 8
        return fault

    cdef double cost_now(self, double bar) except -1 nogil:
        """Return the cost of the state; if it exceeds the bar, return any number above the bar."""
        cdef int64_t over = 0
        cdef double bytes_cost = 0
        if self.profile.area:
            self.profile.highest(&over)
            bytes_cost = self.weight * (0.3 * <double>self.profile.area + <double>max(over, 0))
        self.time = self.time_now(bar - bytes_cost)
        return <double>self.time + bytes_cost

    cdef int step(self) except -1 nogil:
        """Draw a kind of move at random, make one move of this kind, and accept or undo the move."""
        cdef Py_ssize_t share = self.chance.below(100), move = 0, base = 0 if self.profile.area else 7
        base += 14 if self.state.has_loads else 0
        if self.one_pass:
            move = shift if self.chance.below(4) else group
        else:
            while SHARES[base + move] <= share:
                move += 1
        return self.make(move)

    cdef int make(self, Py_ssize_t move) except -1 nogil:
        """Make one move of the kind `move`; accept it if the new cost is at most `bar`, else undo it."""
        cdef int done
        cdef double cost
        cdef int64_t time = self.time
        self.profile.work += 8
        self.bar = self.cost + self.temperature * self.chance.exponential()
        if move == drop:
            done = self.drop_value(MAX_DRAWN)
        elif move == delete:
            done = self.delete_run(False)
        elif move == swap:
            done = self.swap_runs()
        elif move == shift:
            done = self.shift_run()
        elif move == group:
            done = self.move_group()
        elif move == double_:
            done = self.double_run()
        else:
            done = self.exchange_run()
        if done:
            self.state.remove_useless()
            done = <double>self.state.compute <= self.bar and self.state.valid()
        if done:
            self.profile.apply()
            cost = self.cost_now(self.bar)
            done = cost <= self.bar
        if not done:
            self.time = time
            if not self.state.log.empty():
                return self.state.roll_back()
            self.state.commit()
            return 0
        self.cost = cost
        self.keep_time()
        self.n_accepted += 1
        self.journal.append(self.state)
        self.state.commit()
        return self.note()

    cdef int note(self) except -1 nogil:
        """Record the state in the journal if it is the best one."""
        cdef int64_t peak
        if self.profile.area:
            if self.fits:
                return 0
            peak = self.profile.peak()
            if peak < self.best_peak:
                self.best_peak, self.best_time = peak, self.time
                self.journal.record(self.state)
            return 0
        if not self.fits or self.time < self.best_time:
            self.best_time, self.fits = self.time, True
            self.journal.record(self.state)
        return 0

    cdef int spread(self) except -1 nogil:
        """Renumber the slots: spread all runs evenly, with 2.5 slots for each run."""
        cdef vector[int] order
        order_of(self.state.run, order)
        self.journal.leave()
        self.state.arrange(order.data(), order.size())
        self.state.crowded = False
        self.last_spread = self.n_moves
        if self.state.n_loads:
            self.timetable.forget()
            self.timetable.play(<double>ENDLESS)
        return self.keep_time()

    # ---------------------------------------------------------------- interface

    def start(self, const int[::1] order, int64_t limit, const int64_t[::1] region_limits, int64_t goal,
              bint within=False):
        """Start from an order of ids, where n_nodes + x is a load of value x; return False if it violates a rule.

        The best schedule of earlier starts is kept unless `forget` is called. `within` means that the order is within
        the limit in bytes. If its peak in units, rounded up, exceeds the limit, the limit is then raised to this peak.
        """
        cdef Py_ssize_t i
        cdef Py_ssize_t n_regions = self.state.rules.n_regions
        cdef bint sound = region_limits.shape[0] >= n_regions
        for i in range(order.shape[0]):
            sound = sound and 0 <= order[i] < self.state.n_ids
        self.ready = False
        if not sound:
            return False
        self.profile.track_limit.resize(n_regions + 1)
        self.profile.track_limit[0] = <int>max(-1, min(limit, <int64_t>LARGEST))
        for i in range(n_regions):
            self.profile.track_limit[i + 1] = <int>min(region_limits[i], <int64_t>LARGEST)
        self.goal = goal
        self.max_total_runs = 6 * self.state.n_nodes + order.shape[0] + 50
        with nogil:
            self.journal.leave()
            self.state.arrange(&order[0] if order.shape[0] else NULL, order.shape[0])
            self.state.check_all()
            sound = self.state.valid()
            if sound:
                self.state.remove_useless()
                self.profile.apply()
                # Check again, since useless first runs have been removed.
                sound = self.state.valid()
            self.state.commit()
            self.weight = 2 * self.mean_compute / self.mean_memory
            self.floor_weight = 0.01 * self.weight
            self.state.crowded, self.last_spread = False, self.n_moves
            if within:
                self.profile.aim(max(self.profile.peak(), self.profile.track_limit[0]))
            if sound:
                if self.timetable is not None:
                    self.timetable.forget()
                self.cost = self.cost_now(<double>ENDLESS)
                self.keep_time()
                self.note()
            self.ready = sound and self.state.n_runs > 0
        return sound

    def forget(self):
        """Discard the best schedule."""
        self.journal.forget()
        self.fits, self.best_time, self.best_peak = False, ENDLESS, ENDLESS

    def weigh(self, double factor):
        """Multiply the penalty weight of bytes above the limit."""
        if self.ready:
            self.weight *= factor
            self.cost = self.cost_now(<double>ENDLESS)

    def advance(self, int64_t moves):
        """Make a number of moves; return True if the search has reached its goal or has not been started.

        The property `work` counts edges of the profile, slots of timelines, and eight units for each move.
        """
        cdef int64_t until = self.n_moves + moves
        cdef bint ended = not self.ready
        with nogil:
            while self.n_moves < until and not ended:
                self.step()
                self.n_moves += 1
                if self.checking and self.fault():
                    break
                if self.n_moves % MOVES_OF_WEIGHT == 0 and not self.one_pass:
                    self.weight *= 1.05 if self.profile.area else 0.97
                    if not self.profile.area:
                        self.weight = max(self.weight, self.floor_weight)
                    self.cost = self.cost_now(<double>ENDLESS)
                if self.state.crowded and self.n_moves - self.last_spread > 200 + self.state.n_slots // 16:
                    self.spread()
                ended = self.fits and self.best_time <= self.goal
        return ended

    def try_move(self, Py_ssize_t move):
        """Make one move of the kind MOVES[move]; return True if it is accepted."""
        cdef int64_t accepted = self.n_accepted
        if not self.ready:
            return False
        with nogil:
            self.make(move)
            self.n_moves += 1
        return self.n_accepted > accepted

    def slots(self):
        """Return the id in each slot of the state, int32[n_slots], with -1 for an empty slot."""
        slots = np.empty(self.state.n_slots, np.int32)
        cdef int[::1] out = slots
        cdef Py_ssize_t slot
        for slot in range(self.state.n_slots):
            out[slot] = self.state.run[slot]
        return slots

    def best_order(self):
        """Return the ids of the best schedule, int32[*]: if none is within the limits, the one with the lowest peak."""
        cdef vector[int] best
        cdef int[::1] out
        cdef Py_ssize_t i
        self.journal.replay()
        order_of(self.journal.run, best)
        order = np.empty(best.size(), np.int32)
        out = order
        for i in range(<Py_ssize_t>best.size()):
            out[i] = best[i]
        return order

    @property
    def figures(self):
        """Return (bytes above the limits, compute, number of runs) of the state."""
        return self.profile.area, self.state.compute, self.state.n_runs

    @property
    def work(self):
        """Total work of all moves."""
        return self.profile.work

    def check(self):
        """Return `ScheduleState.fault`, 8 if the time of the state is wrong, or 0 if all is correct. For tests."""
        cdef int fault = 0
        if self.ready:
            with nogil:
                fault = self.fault()
        return fault
