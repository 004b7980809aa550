# A schedule that changes run by run, for kernels that search over schedules.
cimport cython
from libcpp.vector cimport vector
from remat_algos.kernels.graph cimport GraphArrays
from remat_algos.kernels.live_profile cimport LiveProfile
from remat_algos.kernels.types cimport Flags, Int32s, Int64s, int64_t

cdef enum:
    REACH = 256             # slots that are looked at for a free one


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


cdef inline int order_of(const vector[int]& run, vector[int]& order) except -1 nogil:
    """The nodes that run in some slots."""
    cdef Py_ssize_t slot
    order.clear()
    for slot in range(<Py_ssize_t>run.size()):
        if run[slot] >= 0:
            order.push_back(run[slot])
    return 0


@cython.final
cdef class ScheduleRules:
    cdef readonly Py_ssize_t n_regions
    cdef Int32s max_runs                                  # of each node
    cdef Int32s region                                    # of each node, 0 for none
    cdef Flags late                                       # nodes whose first run no backward node may read from
    cdef Flags backward
    cdef int[::1] earlier, later                          # neighbours in the order of first runs; -1: none
    cdef int64_t[::1] update_indptr, reader_indptr
    cdef int[::1] updates_of                              # of each reader: the updates that come after all its runs
    cdef int[::1] readers_of                              # of each update
    cdef unsigned char[::1] guarded                       # nodes for which more than reads has to be looked at


@cython.final
cdef class ScheduleState:
    cdef Py_ssize_t n_nodes, n_values
    cdef readonly Py_ssize_t n_ids       # nodes, and behind them loads of values if there are copies
    cdef bint has_loads
    cdef Flags loadable                  # of each value
    cdef Int64s value_begin, value_end, read_indptr, compute_of, workspace    # of each id
    cdef Int32s read_indices, producer
    cdef Int64s memory
    cdef Flags output
    cdef ScheduleRules rules
    cdef LiveProfile profile
    # the schedule
    cdef Py_ssize_t n_slots, n_runs
    cdef int64_t compute
    cdef vector[int] run                 # id in each slot, -1 for none
    cdef vector[vector[int]] occ         # slots of the runs or loads of each id, rising
    cdef vector[vector[int]] origins     # with loads: slots of the runs and loads that make each value, rising
    cdef vector[vector[int]] uses        # slots of the runs that read each value, rising
    cdef vector[int] first, last         # slots: first run of each node that runs, last read of each value
    cdef vector[int] repeats, repeat_at  # nodes with two runs or more, values with a load; the place of each there
    cdef Py_ssize_t n_loads
    # the transaction
    cdef vector[int64_t] log             # slot << 32 | node << 1 | whether the run was inserted
    cdef vector[int] checks, suspects    # slots of runs that may be useless; nodes that may break a law
    cdef bint crowded, broken, undoing

    cdef int arrange(self, const int* order, Py_ssize_t m) except -1 nogil
    cdef int insert(self, Py_ssize_t v, Py_ssize_t slot) except -1 nogil
    cdef int remove(self, Py_ssize_t v, Py_ssize_t slot) except -1 nogil
    cdef int remove_useless(self) except -1 nogil
    cdef bint valid(self) noexcept nogil
    cdef int roll_back(self) except -1 nogil
    cdef int check_all(self) except -1 nogil
    cdef void bounds_of(self, Py_ssize_t v, Py_ssize_t slot, Py_ssize_t* lo, Py_ssize_t* hi) noexcept nogil
    cdef int fault(self) except -1 nogil
    cdef int occupy(self, Py_ssize_t v, Py_ssize_t slot, int sign) except -1 nogil
    cdef int add_use(self, Py_ssize_t x, Py_ssize_t slot) except -1 nogil
    cdef int remove_use(self, Py_ssize_t x, Py_ssize_t slot) except -1 nogil
    cdef int change_instances(self, Py_ssize_t v, Py_ssize_t slot, int sign) except -1 nogil
    cdef int check_beside(self, Py_ssize_t v, Py_ssize_t slot) except -1 nogil
    cdef bint useful(self, Py_ssize_t v, Py_ssize_t slot) noexcept nogil

    cdef inline void commit(self) noexcept nogil:
        """End the transaction."""
        self.log.clear()
        self.checks.clear()
        self.suspects.clear()
        self.profile.commit()
        self.broken = False

    cdef inline vector[int]* origins_of(self, Py_ssize_t x) noexcept nogil:
        """Slots where an instance of a value begins."""
        return &self.origins[x] if self.has_loads else &self.occ[self.producer[x]]

    cdef inline Py_ssize_t n_loads_of(self, Py_ssize_t x) noexcept nogil:
        return self.occ[self.n_nodes + x].size() if self.has_loads else 0

    cdef inline Py_ssize_t region_of(self, Py_ssize_t v) noexcept nogil:
        return self.rules.region[v] if v < self.n_nodes else 0

    cdef inline Py_ssize_t n_needed(self, Py_ssize_t v) noexcept nogil:
        """How many of the first runs of an id cannot go: one of a node, none of a load."""
        return 1 if v < self.n_nodes else 0

    cdef inline int suspect(self, Py_ssize_t v) except -1 nogil:
        self.suspects.push_back(<int>v)
        return 0

    cdef inline Py_ssize_t first_run(self, Py_ssize_t v) noexcept nogil:
        return -1 if self.occ[v].empty() else self.occ[v][0]

    cdef inline int change(self, Py_ssize_t v, Py_ssize_t lo, Py_ssize_t hi, int64_t by) except -1 nogil:
        """Bytes of a value of node v are live at slots lo to hi - 1, or no longer are."""
        cdef Py_ssize_t base = self.region_of(v) * self.n_slots
        if lo < hi and by:
            self.profile.add(lo, hi, by)
            if base:
                self.profile.add(lo + base, hi + base, by)
        return 0

    cdef inline Py_ssize_t free_before(self, Py_ssize_t before, Py_ssize_t after) noexcept nogil:
        """The last empty slot between two; -1 if there is none nearby."""
        cdef Py_ssize_t slot = before - 1, stop = max(after, before - REACH)
        while slot > stop:
            if self.run[slot] < 0:
                return slot
            slot -= 1
        self.crowded = True
        return -1

    cdef inline Py_ssize_t free_behind(self, Py_ssize_t behind, Py_ssize_t until) noexcept nogil:
        cdef Py_ssize_t slot = behind + 1, stop = min(until, behind + REACH)
        while slot < stop:
            if self.run[slot] < 0:
                return slot
            slot += 1
        self.crowded = True
        return -1
