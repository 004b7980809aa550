# distutils: language = c++
"""A mutable schedule without useless runs, with the bytes live at each step.

Runs occupy slots, and there are empty slots between them, so inserting or removing a run moves no other run. A change
of the schedule is a transaction: it inserts and removes runs, then removes runs that have become useless. The changes
of live bytes are collected before they are applied to the profile. `commit` accepts a transaction; `roll_back` undoes
it.
"""

import numpy as np

cimport cython
from libcpp.vector cimport vector
from remat_algos.kernels.graph cimport GraphArrays
from remat_algos.kernels.growing cimport assign
from remat_algos.kernels.live_profile cimport BLOCK_SIZE, PRESENT, LiveProfile
from remat_algos.kernels.types cimport ENDLESS, Flags, Int32s, int64_t

cdef inline int insert_slot(vector[int]& row, Py_ssize_t slot) except -1 nogil:
    row.insert(row.begin() + place_after(row, slot), <int>slot)
    return 0


cdef inline void erase_slot(vector[int]& row, Py_ssize_t slot) noexcept nogil:
    row.erase(row.begin() + (place_after(row, slot) - 1))


@cython.final
cdef class ScheduleRules:
    """Rules for the schedules of a graph, in addition to memory limits and reads.

    max_runs : int32[n] maximum number of runs, at least 1; region : int32[n] region of the graph to which a
    node belongs, 0 for none; the live bytes of each region have their own limit; late : uint8[n] flags of the nodes
    whose first run must not be read by a backward node; backward : uint8[n] flags of the backward nodes; rank :
    int32[n] position of each node in the required order of first runs, or empty for any order; update, reader :
    int32[k] pairs: every run of the reader precedes the update

    Cost: O(n log n + k log k) time, O(n + k) memory.
    """

    def __init__(self, GraphArrays graph not None, *, Int32s max_runs not None, Int32s region not None,
                 Flags late not None, Flags backward not None, Int32s rank not None, Int32s update not None,
                 Int32s reader not None):
        cdef Py_ssize_t n = graph.n_nodes
        if not n == max_runs.shape[0] == region.shape[0] == late.shape[0] == backward.shape[0] or (
            rank.shape[0] not in (0, n) or update.shape[0] != reader.shape[0]
        ):
            raise ValueError("the arrays of the rules do not go together")
        self.max_runs, self.region, self.late, self.backward = max_runs, region, late, backward
        self.n_regions = np.asarray(region).max(initial=0)
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
        self.update_indptr, self.updates_of = _rows(reader, update, n)
        self.reader_indptr, self.readers_of = _rows(update, reader, n)


@cython.final
cdef class ScheduleState:
    """The run in each slot, the runs and reads of each value, and the open transaction.

    Cost: O(n + runs + reads of all runs) memory. Each node and each value has a row of slots. Inserting or removing a
    run takes a bisection in the row of its node and of each value that it reads or computes, and shifts their ends.
    """

    def __init__(self, GraphArrays graph not None, ScheduleRules rules not None, Flags loadable not None):
        self.n_nodes, self.n_values = graph.n_nodes, graph.n_values
        self.has_loads = loadable.shape[0] > 0
        self.n_ids = self.n_nodes + loadable.shape[0]
        self.value_begin, self.value_end = graph.value_indptr[:self.n_nodes], graph.value_indptr[1:]
        self.read_indptr, self.workspace, self.compute_of = graph.read_indptr, graph.workspace, graph.compute
        self.read_indices, self.producer, self.memory = graph.read_indices, graph.producer, graph.memory
        self.output, self.rules, self.profile, self.loadable = graph.output, rules, LiveProfile(), loadable
        # Extend all arrays by the loads. A load creates one value, reads nothing and has no compute.
        if self.has_loads:
            if loadable.shape[0] != self.n_values:
                raise ValueError("arrays of different lengths")
            values, zeros = np.arange(self.n_values), np.zeros(self.n_values, np.int64)
            self.value_begin = np.concatenate([self.value_begin, values])
            self.value_end = np.concatenate([self.value_end, values + 1])
            self.read_indptr = np.concatenate([self.read_indptr, zeros + self.read_indices.shape[0]])
            self.workspace = np.concatenate([self.workspace, zeros])
            self.compute_of = np.concatenate([self.compute_of, zeros])

    # ---------------------------------------------------------------- runs and lifetimes

    cdef int occupy(self, Py_ssize_t v, Py_ssize_t slot, int sign) except -1 nogil:
        """Mark a slot in the profile as occupied by a run of v (sign 1) or as empty (sign -1)."""
        cdef Py_ssize_t k
        cdef int64_t at, by
        for k in range(self.profile.n_tracks):
            at = slot + k * self.n_slots
            by = sign * (PRESENT + (self.workspace[v] if k == 0 or k == self.region_of(v) else 0))
            self.profile.add(at, at + 1, by)
        return 0

    cdef int add_use(self, Py_ssize_t x, Py_ssize_t slot) except -1 nogil:
        """Add a read of value x by the run in a slot."""
        cdef vector[int]* row = &self.uses[x]
        cdef vector[int]* runs
        cdef Py_ssize_t p = self.producer[x], at = place_after(row[0], slot), i, end
        row.insert(row.begin() + at, <int>slot)
        self.last[x] = row.back()
        if self.undoing:
            return 0
        if self.rules.late[p]:
            self.suspect(p)
        runs = self.origins_of(x)
        i = place_after(runs[0], slot) - 1
        if i < 0:
            return self.suspect(p)
        if self.output[x]:
            return 0
        if at + 1 < <Py_ssize_t>row.size() and (i + 1 == <Py_ssize_t>runs.size() or row[0][at + 1] < runs[0][i + 1]):
            # A later read of the same instance already keeps the value live at this slot.
            return 0
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
        # A conditional expression would keep a reference to the removed entry.
        if not row.empty():
            self.last[x] = row.back()
        if self.undoing:
            return 0
        runs = self.origins_of(x)
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

    cdef int change_instances(self, Py_ssize_t v, Py_ssize_t slot, int sign) except -1 nogil:
        """Update live bytes for the values of v after inserting a run in a slot (sign 1) or before removing it (-1)."""
        cdef vector[int]* runs
        cdef vector[int]* row
        cdef Py_ssize_t i, k, before, x, at, behind, end, bytes, following
        for x in range(self.value_begin[v], self.value_end[v]):
            runs = self.origins_of(x)
            i = place_after(runs[0], slot) - 1
            k = runs.size()
            before = runs[0][i - 1] if i else -1
            following = runs[0][i + 1] if i + 1 < k else self.n_slots
            bytes = sign * self.memory[x]
            if self.output[x]:
                if i:
                    self.change(v, slot, slot + 1, bytes)
                else:
                    # Without this run, the instance that stays live to the end is that of the next run.
                    self.change(v, slot, following + 1 if k > 1 else self.n_slots, bytes)
                continue
            row = &self.uses[x]
            at = place_after(row[0], slot)
            behind = place_after(row[0], following)
            if behind == at:                                # unread
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
        """Insert a run of v into an empty slot."""
        cdef vector[int]* runs = &self.occ[v]
        cdef Py_ssize_t i, j, k
        self.run[slot] = <int>v
        insert_slot(runs[0], slot)
        self.first[v] = runs[0][0]
        if self.has_loads:
            self.n_loads += v >= self.n_nodes
            for j in range(self.value_begin[v], self.value_end[v]):
                insert_slot(self.origins[j], slot)
        k = runs.size()
        if k == 1 + self.n_needed(v):
            self.repeat_at[v] = <int>self.repeats.size()
            self.repeats.push_back(<int>v)
        i = place_after(runs[0], slot) - 1
        self.n_runs += 1
        self.compute += self.compute_of[v]
        if not self.undoing:
            self.log.push_back((<int64_t>slot << 32) | (v << 1) | 1)
            self.occupy(v, slot, 1)
            self.change_instances(v, slot, 1)
            self.checks.push_back(<int>slot)
            if self.has_loads:
                self.check_beside(v, slot)
            elif i:
                self.checks.push_back(runs[0][i - 1])
            elif k > 1:
                self.checks.push_back(runs[0][1])
            if v >= self.n_nodes:
                self.suspect(self.producer[v - self.n_nodes])
            else:
                if k > self.rules.max_runs[v]:
                    self.broken = True
                if self.rules.guarded[v]:
                    self.suspect(v)
        for j in range(self.read_indptr[v], self.read_indptr[v + 1]):
            self.add_use(self.read_indices[j], slot)
        return 0

    cdef int check_beside(self, Py_ssize_t v, Py_ssize_t slot) except -1 nogil:
        """Schedule checks of the previous and the next instance of each value of v, which may be useless now."""
        cdef Py_ssize_t x, i
        cdef vector[int]* row
        for x in range(self.value_begin[v], self.value_end[v]):
            row = &self.origins[x]
            i = place_after(row[0], slot) - 1
            if i:
                self.checks.push_back(row[0][i - 1])
            if i + 1 < <Py_ssize_t>row.size():
                self.checks.push_back(row[0][i + 1])
        return 0

    cdef int remove(self, Py_ssize_t v, Py_ssize_t slot) except -1 nogil:
        cdef vector[int]* runs = &self.occ[v]
        cdef Py_ssize_t i, j, k = runs.size(), last
        for j in range(self.read_indptr[v], self.read_indptr[v + 1]):
            self.remove_use(self.read_indices[j], slot)
        i = place_after(runs[0], slot) - 1
        if not self.undoing:
            self.log.push_back((<int64_t>slot << 32) | (v << 1))
            self.change_instances(v, slot, -1)
            self.occupy(v, slot, -1)
            if v >= self.n_nodes:
                j = self.producer[v - self.n_nodes]
                if not self.occ[j].empty():
                    # The first run of the node may have served only the store for this load.
                    self.checks.push_back(self.occ[j][0])
            elif i == 0 or self.rules.guarded[v]:
                self.suspect(v)
        self.compute -= self.compute_of[v]
        self.n_runs -= 1
        runs.erase(runs.begin() + i)
        if k > 1:
            self.first[v] = runs[0][0]
        self.run[slot] = -1
        if self.has_loads:
            self.n_loads -= v >= self.n_nodes
            for j in range(self.value_begin[v], self.value_end[v]):
                erase_slot(self.origins[j], slot)
        if k == 1 + self.n_needed(v):
            last = self.repeats.back()
            self.repeats[self.repeat_at[v]] = <int>last
            self.repeat_at[last] = self.repeat_at[v]
            self.repeats.pop_back()
        return 0

    cdef bint useful(self, Py_ssize_t v, Py_ssize_t slot) noexcept nogil:
        """Return True if a run or load serves a read, a store, an output or a rule."""
        cdef vector[int]* runs = &self.occ[v]
        cdef vector[int]* row
        cdef Py_ssize_t i = place_after(runs[0], slot), x, at, place
        cdef Py_ssize_t following = runs[0][i] if i < <Py_ssize_t>runs.size() else self.n_slots
        cdef bint is_first = i == 1 and v < self.n_nodes
        # Without this run, the next run would be the first, which backward nodes must not read.
        if is_first and self.rules.late[v]:
            return True
        for x in range(self.value_begin[v], self.value_end[v]):
            if self.output[x]:
                if is_first:
                    return True
                continue
            if self.has_loads:
                if is_first and self.n_loads_of(x):
                    return True
                place = place_after(self.origins[x], slot)
                following = self.origins[x][place] if place < <Py_ssize_t>self.origins[x].size() else self.n_slots
            row = &self.uses[x]
            at = place_after(row[0], slot)
            if at < <Py_ssize_t>row.size() and row[0][at] < following:
                return True
        return False

    # ---------------------------------------------------------------- the transaction

    cdef int remove_useless(self) except -1 nogil:
        """Remove all runs that have become useless, including those that served only useless runs."""
        cdef Py_ssize_t slot, v
        while not self.checks.empty():
            slot = self.checks.back()
            self.checks.pop_back()
            v = self.run[slot]
            if v >= 0 and not self.useful(v, slot):
                self.remove(v, slot)
        return 0

    cdef bint valid(self) noexcept nogil:
        """Return True if values are computed before they are read and all rules hold; checks only changed nodes."""
        cdef Py_ssize_t place, v, x, j
        cdef vector[int]* runs
        cdef vector[int]* row
        if self.broken:
            return False
        for place in range(<Py_ssize_t>self.suspects.size()):
            v = self.suspects[place]
            runs = &self.occ[v]
            for x in range(self.value_begin[v], self.value_end[v]):
                row = &self.uses[x]
                if runs.empty() and (self.output[x] or not row.empty()):
                    return False
                if self.has_loads and not self.origins[x].empty() and (
                    runs.empty() or self.origins[x][0] != runs[0][0]
                ):
                    return False                            # loaded before its store
                if not row.empty() and row[0][0] < runs[0][0]:
                    return False
                if self.rules.late[v]:
                    for j in range(place_after(row[0], runs[0][0]) if not runs.empty() else 0, <Py_ssize_t>row.size()):
                        if runs.size() > 1 and row[0][j] > runs[0][1] and not self.output[x]:
                            break
                        if self.rules.backward[self.run[row[0][j]]]:
                            return False
            if runs.empty():
                continue
            if self.rules.earlier[v] >= 0 and self.first_run(self.rules.earlier[v]) > runs[0][0]:
                return False
            if self.rules.later[v] >= 0 and self.first_run(self.rules.later[v]) < runs[0][0]:
                return False
            for j in range(self.rules.update_indptr[v], self.rules.update_indptr[v + 1]):
                if self.first_run(self.rules.updates_of[j]) < runs.back():
                    return False
            for j in range(self.rules.reader_indptr[v], self.rules.reader_indptr[v + 1]):
                row = &self.occ[self.rules.readers_of[j]]
                if not row.empty() and row.back() > runs[0][0]:
                    return False
        return True

    cdef int check_all(self) except -1 nogil:
        """Make the next calls of `valid` and `remove_useless` check all nodes and runs."""
        cdef Py_ssize_t i
        for i in range(self.n_slots):
            if self.run[i] >= 0:
                self.checks.push_back(<int>i)
        for i in range(self.n_nodes):
            self.suspect(i)
            if <int>self.occ[i].size() > self.rules.max_runs[i]:
                self.broken = True
        return 0

    cdef int roll_back(self) except -1 nogil:
        """Undo everything since the last commit."""
        cdef Py_ssize_t i, v
        cdef int64_t entry, slot
        cdef vector[int64_t]* log = &self.log
        cdef Py_ssize_t k = log.size()
        # The profile undoes its own changes, so `undoing` keeps `insert` and `remove` from changing it again.
        self.undoing = True
        for i in range(k - 1, -1, -1):
            entry = log[0][i]
            slot = entry >> 32
            v = (entry & <int64_t>0xFFFFFFFF) >> 1
            if entry & 1:
                self.remove(v, slot)
            else:
                self.insert(v, slot)
        self.undoing = False
        self.profile.undo()
        self.commit()
        return 0

    # ---------------------------------------------------------------- the whole schedule

    cdef int arrange(self, const int* order, Py_ssize_t m) except -1 nogil:
        """Set the state to an order of ids, spread evenly over the slots."""
        cdef Py_ssize_t i, j, v, x, slot, k, from_, end
        cdef vector[int]* row
        cdef vector[int]* origins
        self.n_slots = (max(m, 1) * 5 // 2 + BLOCK_SIZE) // BLOCK_SIZE * BLOCK_SIZE
        self.profile.start(self.n_slots, 1 + self.rules.n_regions)
        assign[vector[int], int](self.run, self.n_slots, -1)
        self.occ.resize(self.n_ids)
        self.origins.resize(self.n_values if self.has_loads else 0)
        self.uses.resize(self.n_values)
        assign[vector[int], int](self.repeat_at, self.n_ids, -1)
        assign[vector[int], int](self.first, self.n_ids, -1)
        assign[vector[int], int](self.last, self.n_values, -1)
        self.repeats.clear()
        self.n_loads = 0
        for v in range(self.n_ids):
            self.occ[v].clear()
        for x in range(self.n_values):
            self.uses[x].clear()
            if self.has_loads:
                self.origins[x].clear()
        self.commit()
        self.n_runs = m
        self.compute = 0
        for i in range(m):
            v = order[i]
            slot = (i * self.n_slots + self.n_slots // 2) // m
            self.run[slot] = <int>v
            self.compute += self.compute_of[v]
            self.occ[v].push_back(<int>slot)
            self.first[v] = self.occ[v][0]
            if self.has_loads:
                self.n_loads += v >= self.n_nodes
                for x in range(self.value_begin[v], self.value_end[v]):
                    self.origins[x].push_back(<int>slot)
            if <Py_ssize_t>self.occ[v].size() == 1 + self.n_needed(v):
                self.repeat_at[v] = <int>self.repeats.size()
                self.repeats.push_back(<int>v)
            for j in range(self.read_indptr[v], self.read_indptr[v + 1]):
                self.uses[self.read_indices[j]].push_back(<int>slot)
                self.last[self.read_indices[j]] = <int>slot
            self.occupy(v, slot, 1)
        for x in range(self.n_values):
            v = self.producer[x]
            origins = self.origins_of(x)
            k = origins.size()
            for i in range(k):
                from_ = origins[0][i]
                end = from_ + 1
                if self.output[x]:
                    end = self.n_slots if i == 0 else end
                else:
                    row = &self.uses[x]
                    j = place_after(row[0], origins[0][i + 1] if i + 1 < k else self.n_slots)
                    if j > 0 and row[0][j - 1] >= end:
                        end = row[0][j - 1] + 1
                self.change(v, from_, end, self.memory[x])
        self.profile.set_limits()
        self.profile.fill()
        self.commit()
        return 0

    cdef void bounds_of(self, Py_ssize_t v, Py_ssize_t slot, Py_ssize_t* lo, Py_ssize_t* hi) noexcept nogil:
        """Set `lo` to the last slot with an input of a run, and `hi` to the first slot that reads the run."""
        cdef Py_ssize_t j, x, at, k
        cdef vector[int]* row
        lo[0], hi[0] = -1, self.n_slots
        for j in range(self.read_indptr[v], self.read_indptr[v + 1]):
            row = self.origins_of(self.read_indices[j])
            at = place_after(row[0], slot)
            if at > 0 and row[0][at - 1] > lo[0]:
                lo[0] = row[0][at - 1]
        # A load must also follow the slot in which the previous instance of its value begins.
        if v >= self.n_nodes:
            row = self.origins_of(v - self.n_nodes)
            at = place_after(row[0], slot) - 1
            if at > 0:
                lo[0] = row[0][at - 1]
        for x in range(self.value_begin[v], self.value_end[v]):
            row = &self.uses[x]
            at = place_after(row[0], slot)
            if at < <Py_ssize_t>row.size() and row[0][at] < hi[0]:
                hi[0] = row[0][at]

    cdef int fault(self) except -1 nogil:
        """Compute the whole state from scratch, for tests; return 0 if it is correct.

        Otherwise return what differs: 1 profile, 2 excess or maximum, 3 compute or number of runs, 4 a read without a
        run, 5 a useless run, 6 the list of repeats, 7 the slots of reads (`uses`)."""
        cdef vector[int64_t] live, n_uses
        cdef Py_ssize_t slot, v, x, j, k, i, end, block, n_repeats = 0, count = 0, track, place, following
        cdef int64_t compute = 0, most, above, area = 0
        assign[vector[int64_t], int64_t](live, self.n_slots * self.profile.n_tracks + 1, 0)
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
        for v in range(self.n_ids):
            k = self.occ[v].size()
            if k and self.first[v] != self.occ[v][0]:
                return 3
            n_repeats += k > self.n_needed(v)
            if k > self.n_needed(v) and self.repeats[self.repeat_at[v]] != v:
                return 6
            for i in range(k):
                slot = self.occ[v][i]
                if self.run[slot] != v:
                    return 3
                for x in range(self.value_begin[v], self.value_end[v]):
                    if self.origins_of(x)[0][place_after(self.origins_of(x)[0], slot) - 1] != slot:
                        return 3
                for x in range(self.value_begin[v], self.value_end[v]):
                    end = slot + 1
                    place = place_after(self.origins_of(x)[0], slot)
                    following = self.n_slots
                    if place < <Py_ssize_t>self.origins_of(x).size():
                        following = self.origins_of(x)[0][place]
                    for j in range(<Py_ssize_t>self.uses[x].size()):
                        if self.uses[x][j] > slot and self.uses[x][j] < following:
                            end = max(end, <Py_ssize_t>self.uses[x][j] + 1)
                    if self.output[x]:
                        end = self.n_slots if i == 0 else slot + 1
                    for j in range(slot, end):
                        live[j] += self.memory[x]
                        if self.region_of(v):
                            live[j + self.region_of(v) * self.n_slots] += self.memory[x]
                live[slot] += self.workspace[v]
                if self.region_of(v):
                    live[slot + self.region_of(v) * self.n_slots] += self.workspace[v]
        if count != self.n_runs or compute != self.compute or n_repeats != <Py_ssize_t>self.repeats.size():
            return 3
        for block in range(self.profile.n_blocks):
            most, above = -ENDLESS, 0
            for slot in range(block * BLOCK_SIZE, (block + 1) * BLOCK_SIZE):
                track = slot // self.n_slots
                live[slot] -= 0 if self.run[slot - track * self.n_slots] >= 0 else PRESENT
                if live[slot] != self.profile.mem[slot] + <int64_t>self.profile.addend[block]:
                    return 1
                most = max(most, live[slot])
                above += max(live[slot] - self.profile.limit[block], 0)
            area += above
            if most != self.profile.top[block] or above != self.profile.excess[block]:
                return 2
        return 0 if area == self.profile.area else 2


def _rows(keys, entries, n):
    """Return the entries grouped by key, in CSR form: (int64[n + 1], int32[k])."""
    keys, entries = np.asarray(keys), np.asarray(entries)
    order = np.argsort(keys, kind="stable")
    indptr = np.concatenate([[0], np.cumsum(np.bincount(keys, minlength=n))]).astype(np.int64)
    return indptr, entries[order].astype(np.int32)
