# A mutable schedule, for kernels that search over schedules.
cimport cython
from libcpp.vector cimport vector
from remat_algos.kernels.graph cimport GraphArrays
from remat_algos.kernels.live_profile cimport LiveProfile
from remat_algos.kernels.types cimport Flags, Int32s, Int64s, int64_t

cdef enum:
    REACH = 256             # slots examined


cdef inline Py_ssize_t place_after(const vector[int]& row, Py_ssize_t slot) noexcept nogil:
    """Position of the first entry after a slot in an ascending row."""
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
    """Collect the nodes that run, in order of slots."""
    cdef Py_ssize_t slot
    order.clear()
    for slot in range(<Py_ssize_t>run.size()):
        if run[slot] >= 0:
            order.push_back(run[slot])
    return 0


@cython.final
cdef class ScheduleRules:
    cdef readonly Py_ssize_t n_regions
    # By node; region 0 means none.
    cdef Int32s max_runs
    cdef Int32s region
    # Nodes whose first run no backward node may read from.
    cdef Flags late
    cdef Flags backward
    # Neighbours in the required order of first runs, -1 for none.
    cdef int[::1] earlier, later
    cdef int64_t[::1] update_indptr, reader_indptr
    # By reader: the updates after all its runs. By update: its readers.
    cdef int[::1] updates_of
    cdef int[::1] readers_of
    # Nodes with rules besides their reads.
    cdef unsigned char[::1] guarded


@cython.final
cdef class ScheduleState:
    cdef Py_ssize_t n_nodes, n_values
    # Ids are nodes, followed by loads of values if there are copies.
    cdef readonly Py_ssize_t n_ids
    cdef bint has_loads
    cdef Flags loadable
    # By id.
    cdef Int64s value_begin, value_end, read_indptr, compute_of, workspace
    cdef Int32s read_indices, producer
    cdef Int64s memory
    cdef Flags output
    cdef ScheduleRules rules
    cdef LiveProfile profile
    # The schedule.
    cdef Py_ssize_t n_slots, n_runs
    cdef int64_t compute
    cdef vector[int] run                 # id by slot, or -1
    # By id: ascending slots of its runs or loads.
    cdef vector[vector[int]] occ
    # By value, ascending: slots of the runs and loads that create it (with loads only), and of the runs that read it.
    cdef vector[vector[int]] origins
    cdef vector[vector[int]] uses
    # Slots: first run of each node that runs, last read of each value.
    cdef vector[int] first, last
    # Nodes with two or more runs and values with a load, and the position of each in this list.
    cdef vector[int] repeats, repeat_at
    cdef Py_ssize_t n_loads
    # The transaction.
    # slot << 32 | node << 1 | whether the run was inserted.
    cdef vector[int64_t] log
    # Slots of runs that may be useless; nodes that may violate a rule.
    cdef vector[int] checks, suspects
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
        """Accept the transaction."""
        self.log.clear()
        self.checks.clear()
        self.suspects.clear()
        self.profile.commit()
        self.broken = False

    cdef inline vector[int]* origins_of(self, Py_ssize_t x) noexcept nogil:
        """Slots at which an instance of a value begins."""
        return &self.origins[x] if self.has_loads else &self.occ[self.producer[x]]

    cdef inline Py_ssize_t n_loads_of(self, Py_ssize_t x) noexcept nogil:
        return self.occ[self.n_nodes + x].size() if self.has_loads else 0

    cdef inline Py_ssize_t region_of(self, Py_ssize_t v) noexcept nogil:
        return self.rules.region[v] if v < self.n_nodes else 0

    cdef inline Py_ssize_t n_needed(self, Py_ssize_t v) noexcept nogil:
        """Number of runs of an id that cannot be removed: one of a node, none of a load."""
        return 1 if v < self.n_nodes else 0

    cdef inline int suspect(self, Py_ssize_t v) except -1 nogil:
        self.suspects.push_back(<int>v)
        return 0

    cdef inline Py_ssize_t first_run(self, Py_ssize_t v) noexcept nogil:
        return -1 if self.occ[v].empty() else self.occ[v][0]

    cdef inline int change(self, Py_ssize_t v, Py_ssize_t lo, Py_ssize_t hi, int64_t by) except -1 nogil:
        """Add bytes at slots lo to hi - 1 for a value of node v; negative to remove them."""
        cdef Py_ssize_t base = self.region_of(v) * self.n_slots
        if lo < hi and by:
            self.profile.add(lo, hi, by)
            if base:
                self.profile.add(lo + base, hi + base, by)
        return 0

    cdef inline Py_ssize_t free_before(self, Py_ssize_t before, Py_ssize_t after) noexcept nogil:
        """The last empty slot between two slots; -1 if there is none nearby."""
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
