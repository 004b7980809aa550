# distutils: language = c++
"""Incremental timeline of a schedule with copies: after a change, only the affected stretches are timed again.

Slots are divided into stretches of equal length. For the accepted schedule, the state of the three engines at the
beginning of each stretch is saved, with times relative to this point. A changed schedule, the candidate, is timed from
the stretch of its first change. When the engines reach a saved state, the following stretches take the same time as
before, up to the next change.
"""

cimport cython
from libcpp.algorithm cimport sort
from libcpp.vector cimport vector
from remat_algos.kernels.growing cimport assign
from remat_algos.kernels.live_profile cimport BLOCK_SIZE, slot_of
from remat_algos.kernels.schedule_state cimport ScheduleState, place_after
from remat_algos.kernels.timeline cimport Engines
from remat_algos.kernels.types cimport ENDLESS, int64_t

cdef enum:
    # The unit of work is the time to apply one change of live bytes to the profile. Visiting SLOTS_OF_WORK slots takes
    # one unit. Each trial takes WORK_OF_PLAY units in addition.
    SLOTS_OF_WORK = 2
    WORK_OF_PLAY = 24


@cython.final
cdef class Timetable:
    """Timelines of the accepted schedule and of a candidate.

    Cost: O(values + slots / 64 * concurrent copies) memory. Timing a candidate takes O(slots) time at most: it visits
    the stretches that a move changes, and after each of them all stretches until the engines return to a saved state.
    The first load of a value also changes the stretch of its first run, where the value is stored.
    """

    def __init__(self, ScheduleState state not None, Engines engines not None):
        self.state, self.engines = state, engines
        self.forget()

    cdef void forget(self) noexcept nogil:
        """Discard the accepted schedule; the next call of `play` times the whole schedule."""
        self.known = False

    cdef void undo(self) noexcept nogil:
        """Discard the candidate."""
        cdef Py_ssize_t i
        for i in range(<Py_ssize_t>self.moved.size()):
            self.freed_at[self.moved[i] >> 32] = <int>(self.moved[i] & <int64_t>0xFFFFFFFF) - 1
        self.moved.clear()

    cdef int64_t play(self, double bar) except -1 nogil:
        """Return the time of the candidate, the schedule of `state`; ENDLESS if it exceeds `bar`."""
        cdef Py_ssize_t n_stretches = self.state.n_slots // STRETCH
        self.undo()
        self.resuming.clear()
        if not self.known:
            self.moved.clear()
            self.kept.resize(n_stretches)
            self.tried.resize(n_stretches)
            self.notes.resize(n_stretches)
            self.tried_notes.resize(n_stretches)
            assign[vector[int], int](self.freed_at, self.state.n_values, -1)
            assign[vector[int], int](self.resumed, self.state.n_values, 0)
        self.find_changes()
        return self.run(bar)

    cdef int keep(self) except -1 nogil:
        """Accept the candidate."""
        cdef Py_ssize_t i, stretch, n_stretches = self.kept.size()
        cdef int64_t clock, done
        for stretch in range(self.begin, self.until):
            self.kept[stretch] = self.tried[stretch]
            if not self.tried_notes[stretch].empty():
                self.notes[stretch].swap(self.tried_notes[stretch])
        if self.until < n_stretches:
            clock = self.tried[self.until].clock - self.kept[self.until].clock
            done = self.tried[self.until].done - self.kept[self.until].done
            for stretch in range(self.until, n_stretches):
                self.kept[stretch].clock += clock
                self.kept[stretch].done += done
        self.moved.clear()
        for i in range(<Py_ssize_t>self.resuming.size()):
            self.resumed[self.resuming[i]] = 1
        self.time, self.known = self.tried_time, True
        return 0

    cdef bint wrong(self) except -1 nogil:
        """Return True if timing the whole schedule gives another result than the incremental timeline; for tests."""
        cdef Py_ssize_t stretch, x
        if not self.known:
            return False
        self.undo()
        assign[vector[int], int](self.changed, self.kept.size(), 1)
        if self.run(<double>ENDLESS) != self.time:
            return True
        for stretch in range(<Py_ssize_t>self.kept.size()):
            if (self.kept[stretch].clock != self.tried[stretch].clock
                    or self.kept[stretch].done != self.tried[stretch].done
                    or self.kept[stretch].lingering != self.tried[stretch].lingering
                    or (stretch and self.notes[stretch] != self.tried_notes[stretch])):
                return True
        for x in range(self.state.n_values):
            if self.freed_at[x] != (self.freed_behind(x) if self.state.n_loads_of(x) else -1):
                return True
        return False

    # ---------------------------------------------------------------- changes

    cdef Py_ssize_t next_changed(self, Py_ssize_t stretch) noexcept nogil:
        """Return the first changed stretch at or after this one."""
        while stretch < <Py_ssize_t>self.changed.size() and not self.changed[stretch]:
            stretch += 1
        return stretch

    cdef int find_changes(self) except -1 nogil:
        """Mark the stretches whose timeline may differ from that of the accepted schedule."""
        cdef Py_ssize_t i, v, slot, x, j, stretch, low = self.state.n_slots, high = 0
        cdef int64_t entry, limit = self.state.profile.track_limit[0]
        cdef vector[int64_t]* edges = &self.state.profile.applied
        assign[vector[int], int](self.changed, self.kept.size(), not self.known)
        if not self.known:
            for x in range(self.state.n_values):
                self.compare(x, 0)
            return 0
        for i in range(<Py_ssize_t>self.state.log.size()):
            entry = self.state.log[i]
            slot, v = entry >> 32, (entry & <int64_t>0xFFFFFFFF) >> 1
            self.mark(slot)
            for x in range(self.state.value_begin[v], self.state.value_end[v]):
                self.compare(x, slot)
            for j in range(self.state.read_indptr[v], self.state.read_indptr[v + 1]):
                self.compare(self.state.read_indices[j], slot)
        for i in range(<Py_ssize_t>edges.size()):
            slot = slot_of(edges[0][i])
            if slot <= self.state.n_slots:
                low, high = min(low, slot), max(high, slot)
        for stretch in range(low // STRETCH, (high + STRETCH - 1) // STRETCH):
            # Live bytes affect the time only if memory lingers in the stretch and might exceed the limit.
            if self.kept[stretch].lingering >= 0 and (
                self.state.profile.top[stretch * STRETCH // BLOCK_SIZE] + self.kept[stretch].lingering > limit
            ):
                self.changed[stretch] = 1
        return 0

    cdef int compare(self, Py_ssize_t x, Py_ssize_t slot) except -1 nogil:
        """Update freed_at[x] after a change at `slot`, and mark the stretches whose timeline may therefore differ."""
        cdef Py_ssize_t n_loads = self.state.n_loads_of(x), before = self.freed_at[x], now = -1, p, at
        if n_loads == 0 and before < 0:
            return 0
        if n_loads:
            now = self.freed_behind(x)
        if now != before:
            self.moved.push_back((<int64_t>x << 32) | (before + 1))
            self.freed_at[x] = <int>now
            p = self.state.producer[x]
            if now < 0 or before < 0 or self.state.value_end[p] > self.state.value_begin[p] + 1:
                # The first run of the node now stores other values, or stores them in another order.
                self.mark(self.state.first[p])
            if now >= 0 and before >= 0:
                self.mark(min(now, before))
        if self.resumed[x]:
            at = place_after(self.state.uses[x], slot - 1)
            if at:
                self.mark(self.state.uses[x][at - 1])
        return 0

    # ---------------------------------------------------------------- the timeline

    cdef int64_t run(self, double bar) except -1 nogil:
        """Time the marked stretches, and those at whose beginning the state of the engines has changed."""
        cdef Py_ssize_t n_stretches = self.kept.size(), stretch = self.next_changed(0), changed
        cdef int64_t clock, done
        self.begin, self.until, self.tried_time = stretch, n_stretches, self.time
        if stretch == n_stretches:
            return self.time
        self.state.profile.work += WORK_OF_PLAY
        self.tried[stretch] = self.kept[stretch]
        self.restore(stretch)
        while True:
            if not self.follow(self.state, self.engines, stretch, bar):
                return ENDLESS
            stretch += 1
            if stretch == n_stretches:
                break
            self.note(stretch)
            if self.changed[stretch] or self.tried_notes[stretch] != self.notes[stretch]:
                continue
            changed = self.next_changed(stretch)
            clock = self.tried[stretch].clock - self.kept[stretch].clock
            done = self.tried[stretch].done - self.kept[stretch].done
            if changed == n_stretches:
                self.until = stretch
                self.tried_time = self.time + clock
                return self.tried_time
            while True:
                self.tried[stretch] = self.kept[stretch]
                self.tried[stretch].clock += clock
                self.tried[stretch].done += done
                self.tried_notes[stretch].clear()
                if stretch == changed:
                    break
                stretch += 1
            self.restore(stretch)
            if <double>(self.state.compute + self.engines.clock - self.done) > bar:
                return ENDLESS
        self.tried_time = max(self.engines.clock, max(self.engines.in_free, self.engines.out_free))
        return self.tried_time

    cdef int restore(self, Py_ssize_t stretch) except -1 nogil:
        """Restore the saved state of the engines at the beginning of a stretch."""
        cdef Py_ssize_t i
        cdef vector[int64_t]* notes = &self.notes[stretch]
        self.awaiting.clear()
        self.tried_notes[stretch].clear()
        if stretch == 0:
            self.tried[0].clock = self.tried[0].done = 0
            self.engines.start()
        else:
            i = self.engines.restore(notes[0], self.tried[stretch].clock)
            while i < <Py_ssize_t>notes.size():
                self.awaiting.push_back(<int>notes[0][i])
                i += 1
        self.done = self.tried[stretch].done
        return 0

    cdef int note(self, Py_ssize_t stretch) except -1 nogil:
        """Save the state of the engines at the beginning of a stretch."""
        cdef Py_ssize_t i
        self.tried[stretch].clock, self.tried[stretch].done = self.engines.clock, self.done
        self.engines.write(self.tried_notes[stretch])
        for i in range(<Py_ssize_t>self.awaiting.size()):
            self.tried_notes[stretch].push_back(self.awaiting[i])
        return 0

    cdef int follow(self, ScheduleState state, Engines engines, Py_ssize_t stretch, double bar) except -1 nogil:
        """Time a stretch; return 0 if the time exceeds `bar`."""
        cdef Py_ssize_t slot, v, i, j, x
        cdef int64_t limit = self.state.profile.track_limit[0], lingering = -1, clock
        cdef int addend = state.profile.addend[stretch * STRETCH // BLOCK_SIZE]
        state.profile.work += STRETCH // SLOTS_OF_WORK
        for slot in range(stretch * STRETCH, (stretch + 1) * STRETCH):
            v = state.run[slot]
            if v < 0:
                continue
            if v >= state.n_nodes:
                x = v - state.n_nodes
                if engines.take_over(x):
                    self.resuming.push_back(<int>x)
                else:
                    self.awaiting.push_back(<int>x)
                continue
            clock = engines.clock
            if engines.n_lingering:
                engines.fit(<int64_t>state.profile.mem[slot] + addend, limit)
                if engines.clock > clock:
                    lingering = ENDLESS
                elif engines.n_lingering:
                    lingering = max(lingering, engines.lingering_bytes)
            if not self.awaiting.empty():
                for i in range(<Py_ssize_t>self.awaiting.size()):
                    engines.load(self.awaiting[i])
                    engines.note_load(self.awaiting[i])
                self.awaiting.clear()
            if engines.in_free > engines.clock:
                for j in range(state.read_indptr[v], state.read_indptr[v + 1]):
                    engines.clock = max(engines.clock, engines.arrived[state.read_indices[j]])
            if engines.clock > clock and <double>(state.compute + engines.clock - self.done) > bar:
                return 0
            engines.clock += state.compute_of[v]
            self.done += state.compute_of[v]
            if slot == state.first[v]:
                self.store_values(v, slot)
            if engines.out_free > engines.clock:
                for j in range(state.read_indptr[v], state.read_indptr[v + 1]):
                    x = state.read_indices[j]
                    if engines.stored[x] > engines.clock and not engines.lingers[x] and self.ends_at(x, slot):
                        engines.linger(x)
        self.tried[stretch].lingering = lingering
        return 1

    cdef int store_values(self, Py_ssize_t v, Py_ssize_t slot) except -1 nogil:
        """Store the values of a node that are loaded somewhere, in the order in which their memory is freed."""
        cdef Py_ssize_t x, i
        self.storing.clear()
        for x in range(self.state.value_begin[v], self.state.value_end[v]):
            if self.freed_at[x] >= 0:
                self.storing.push_back((<int64_t>self.freed_at[x] << 32) | x)
        if self.storing.size() > 1:
            sort(self.storing.begin(), self.storing.end())
        for i in range(<Py_ssize_t>self.storing.size()):
            x = self.storing[i] & <int64_t>0xFFFFFFFF
            self.engines.store(x)
            if self.storing[i] >> 32 == slot:
                self.engines.leave(x)
        return 0

    cdef Py_ssize_t freed_behind(self, Py_ssize_t x) noexcept nogil:
        """Return the last slot at which the first instance of a value is live."""
        cdef vector[int]* row = &self.state.uses[x]
        cdef vector[int]* origins = &self.state.origins[x]
        cdef Py_ssize_t at = row.size()
        if origins.size() > 1:
            at = place_after(row[0], origins[0][1])
        return max(origins[0][0], row[0][at - 1]) if at else origins[0][0]

    cdef bint ends_at(self, Py_ssize_t x, Py_ssize_t slot) noexcept nogil:
        """Return True if the run in a slot is the last reader of an instance of a value."""
        cdef vector[int]* row = &self.state.uses[x]
        cdef vector[int]* origins = &self.state.origins[x]
        cdef Py_ssize_t at = place_after(row[0], slot), i
        if at == <Py_ssize_t>row.size():
            return True
        i = place_after(origins[0], slot)
        return i < <Py_ssize_t>origins.size() and origins[0][i] < row[0][at]
