# Declaration of a mutable schedule for kernels that search over schedules; see schedule_state.pyx.
cimport cython
from libcpp.vector cimport vector
from remat_algos.kernels.graph cimport GraphArrays
from remat_algos.kernels.live_profile cimport LiveProfile
from remat_algos.kernels.types cimport Flags, Int32s, Int64s, int64_t

cdef enum:
    # Maximum number of slots that a search for an empty slot examines.
    REACH = 256


cdef inline Py_ssize_t place_after(const vector[int]& row, Py_ssize_t slot) noexcept nogil:
    """Return the position of the first entry greater than `slot` in an ascending row."""
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
    """Collect the ids in the occupied slots, in order of slots."""
    cdef Py_ssize_t slot
    order.clear()
    for slot in range(<Py_ssize_t>run.size()):
        if run[slot] >= 0:
            order.push_back(run[slot])
    return 0


@cython.final
cdef class ScheduleRules:
    cdef readonly Py_ssize_t n_regions
    # Indexed by node. `region` is 0 for a node in no region.
    cdef Int32s max_runs
    cdef Int32s region
    # Flags of the nodes whose first run must not be read by a backward node.
    cdef Flags late
    cdef Flags backward
    # Previous and next node in the required order of first runs, -1 for none.
    cdef int[::1] earlier, later
    cdef int64_t[::1] update_indptr, reader_indptr
    # CSR rows. For each reader: the updates that must follow all its runs. For each update: its readers.
    cdef int[::1] updates_of
    cdef int[::1] readers_of
    # Flags of the nodes for which `valid` checks rules in addition to their reads.
    cdef unsigned char[::1] guarded


@cython.final
cdef class ScheduleState:
    cdef Py_ssize_t n_nodes, n_values
    # Ids below n_nodes are nodes. If there are copies, id n_nodes + x is a load of value x.
    cdef readonly Py_ssize_t n_ids
    cdef bint has_loads
    cdef Flags loadable
    # Indexed by id.
    cdef Int64s value_begin, value_end, read_indptr, compute_of, workspace
    cdef Int32s read_indices, producer
    cdef Int64s memory
    cdef Flags output
    cdef ScheduleRules rules
    cdef LiveProfile profile
    # The current schedule.
    cdef Py_ssize_t n_slots, n_runs
    cdef int64_t compute
    cdef vector[int] run                 # id by slot, or -1
    # For each id, the slots of its runs or loads, ascending.
    cdef vector[vector[int]] occ
    # For each value, ascending: slots of the runs and loads that create it (filled only if there are loads), and slots
    # of the runs that read it.
    cdef vector[vector[int]] origins
    cdef vector[vector[int]] uses
    # Slot of the first run of each node, and slot of the last read of each value.
    cdef vector[int] first, last
    # repeats: ids of the loads in the schedule, and of the nodes with two or more runs. repeat_at: position of each id
    # in this list.
    cdef vector[int] repeats, repeat_at
    cdef Py_ssize_t n_loads
    # The open transaction. Each entry of the log is slot << 32 | id << 1 | (1 if inserted, 0 if removed).
    cdef vector[int64_t] log
    # Slots of runs that may have become useless, and nodes that may violate a rule.
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
        """Accept the open transaction."""
        self.log.clear()
        self.checks.clear()
        self.suspects.clear()
        self.profile.commit()
        self.broken = False

    cdef inline vector[int]* origins_of(self, Py_ssize_t x) noexcept nogil:
        """Return the slots at which an instance of a value begins."""
        return &self.origins[x] if self.has_loads else &self.occ[self.producer[x]]

    cdef inline Py_ssize_t n_loads_of(self, Py_ssize_t x) noexcept nogil:
        return self.occ[self.n_nodes + x].size() if self.has_loads else 0

    cdef inline Py_ssize_t region_of(self, Py_ssize_t v) noexcept nogil:
        return self.rules.region[v] if v < self.n_nodes else 0

    cdef inline Py_ssize_t n_needed(self, Py_ssize_t v) noexcept nogil:
        """Return the minimum number of runs: 1 for a node, 0 for a load."""
        return 1 if v < self.n_nodes else 0

    cdef inline int suspect(self, Py_ssize_t v) except -1 nogil:
        self.suspects.push_back(<int>v)
        return 0

    cdef inline Py_ssize_t first_run(self, Py_ssize_t v) noexcept nogil:
        return -1 if self.occ[v].empty() else self.occ[v][0]

    cdef inline int change(self, Py_ssize_t v, Py_ssize_t lo, Py_ssize_t hi, int64_t by) except -1 nogil:
        """Add `by` to the live bytes at slots lo to hi - 1, of the graph and, if v is in a region, of the region."""
        cdef Py_ssize_t base = self.region_of(v) * self.n_slots
        if lo < hi and by:
            self.profile.add(lo, hi, by)
            if base:
                self.profile.add(lo + base, hi + base, by)
        return 0

    cdef inline Py_ssize_t free_before(self, Py_ssize_t before, Py_ssize_t after) noexcept nogil:
        """Return the last empty slot between `after` and `before`, or -1 if the slots within REACH are occupied."""
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
