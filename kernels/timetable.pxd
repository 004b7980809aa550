# The time of a schedule with copies that changes run by run, for kernels that search over schedules.
cimport cython
from libcpp.vector cimport vector
from remat_algos.kernels.schedule_state cimport ScheduleState
from remat_algos.kernels.timeline cimport Engines
from remat_algos.kernels.types cimport int64_t

cdef enum:
    STRETCH = 64            # slots between two notes of the engines; divides BLOCK_SIZE


cdef struct Progress:
    int64_t clock, done     # when compute begins a stretch, and what it has done by then
    int64_t lingering       # most bytes that linger while a run of it begins; -1: none, ENDLESS: compute waited for some


@cython.final
cdef class Timetable:
    cdef ScheduleState state
    cdef Engines engines
    # the schedule that was kept
    cdef bint known                      # whether there is one
    cdef int64_t time
    cdef vector[Progress] kept           # of each stretch
    cdef vector[vector[int64_t]] notes   # engines where each stretch begins
    cdef vector[int] freed_at            # of each value: last slot in the life of the memory that is stored; -1: none is
    cdef vector[int] resumed               # of each value: whether a load may take over memory that lingers
    # the schedule that is tried
    cdef int64_t tried_time, done
    cdef vector[Progress] tried
    cdef vector[vector[int64_t]] tried_notes
    cdef vector[int] changed             # of each stretch: whether its timeline may differ even if it begins alike
    cdef Py_ssize_t begin, until         # stretches between which it differs
    cdef vector[int64_t] moved           # value << 32 | 1 + the entry of freed_at that is kept
    cdef vector[int] resuming              # values of loads that take over memory
    cdef vector[int] awaiting            # loads since the last run
    cdef vector[int64_t] storing         # slot << 32 | value: what a node stores, by the ends of their lives

    cdef void forget(self) noexcept nogil
    cdef void undo(self) noexcept nogil
    cdef int64_t play(self, double bar) except -1 nogil
    cdef int keep(self) except -1 nogil
    cdef bint wrong(self) except -1 nogil
    cdef Py_ssize_t next_changed(self, Py_ssize_t stretch) noexcept nogil
    cdef int find_changes(self) except -1 nogil
    cdef int compare(self, Py_ssize_t x, Py_ssize_t slot) except -1 nogil
    cdef int64_t run(self, double bar) except -1 nogil
    cdef int restore(self, Py_ssize_t stretch) except -1 nogil
    cdef int note(self, Py_ssize_t stretch) except -1 nogil
    cdef int follow(self, ScheduleState state, Engines engines, Py_ssize_t stretch, double bar) except -1 nogil
    cdef int store_values(self, Py_ssize_t v, Py_ssize_t slot) except -1 nogil
    cdef Py_ssize_t freed_behind(self, Py_ssize_t x) noexcept nogil
    cdef bint ends_at(self, Py_ssize_t x, Py_ssize_t slot) noexcept nogil

    cdef inline void mark(self, Py_ssize_t slot) noexcept nogil:
        """Something is different at a slot."""
        self.changed[slot // STRETCH] = 1
