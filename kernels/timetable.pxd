# Incremental timeline of a schedule with copies, for kernels that search over schedules.
cimport cython
from libcpp.vector cimport vector
from remat_algos.kernels.schedule_state cimport ScheduleState
from remat_algos.kernels.timeline cimport Engines
from remat_algos.kernels.types cimport int64_t

cdef enum:
    # Slots between two saved states of the engines; divides BLOCK_SIZE.
    STRETCH = 64


cdef struct Progress:
    # Time at the begin of a stretch, and compute of the runs before it.
    int64_t clock, done
    # Maximum lingering bytes at the begin of a run; -1 if none linger, ENDLESS if compute waited.
    int64_t lingering


@cython.final
cdef class Timetable:
    cdef ScheduleState state
    cdef Engines engines
    # The accepted schedule, if any: by stretch the progress and the states of the engines at its begin.
    cdef bint known
    cdef int64_t time
    cdef vector[Progress] kept
    cdef vector[vector[int64_t]] notes
    # By value: last slot at which the stored memory is live, -1 if not stored; whether a load may use lingering memory.
    cdef vector[int] freed_at
    cdef vector[int] resumed
    # The candidate schedule.
    cdef int64_t tried_time, done
    cdef vector[Progress] tried
    cdef vector[vector[int64_t]] tried_notes
    # By stretch: whether its timeline may differ even if it begins in the same state.
    cdef vector[int] changed
    # Range of stretches in which it differs from the accepted schedule.
    cdef Py_ssize_t begin, until
    # value << 32 | 1 + accepted entry of freed_at, for `undo`.
    cdef vector[int64_t] moved
    # Values whose loads use lingering memory.
    cdef vector[int] resuming
    # Loads since the last run.
    cdef vector[int] awaiting
    # slot << 32 | value: values that a node stores, by the end of their lives.
    cdef vector[int64_t] storing

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
        """Mark the stretch of a slot as changed."""
        self.changed[slot // STRETCH] = 1
