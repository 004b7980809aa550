# Declaration of the incremental timeline of a schedule with copies; see timetable.pyx.
cimport cython
from libcpp.vector cimport vector
from remat_algos.kernels.schedule_state cimport ScheduleState
from remat_algos.kernels.timeline cimport Engines
from remat_algos.kernels.types cimport int64_t

cdef enum:
    # Number of slots in a stretch; the state of the engines is saved at the beginning of each. STRETCH divides
    # BLOCK_SIZE.
    STRETCH = 64


cdef struct Progress:
    # clock: time at the beginning of a stretch of slots. done: compute of all runs before it.
    int64_t clock, done
    # Maximum number of bytes that linger (freed while their store still runs) when a run of the stretch begins: -1 if
    # none linger, ENDLESS if compute waited for a store.
    int64_t lingering


@cython.final
cdef class Timetable:
    cdef ScheduleState state
    cdef Engines engines
    # The accepted schedule; `known` is False if there is none. For each stretch: its progress (`kept`), and the state
    # of the engines at its beginning (`notes`).
    cdef bint known
    cdef int64_t time
    cdef vector[Progress] kept
    cdef vector[vector[int64_t]] notes
    # freed_at: for each stored value, the last slot at which its first instance is live; -1 for other values.
    # resumed: for each value, 1 if one of its loads may have used lingering memory.
    cdef vector[int] freed_at
    cdef vector[int] resumed
    # The candidate schedule, with the same fields.
    cdef int64_t tried_time, done
    cdef vector[Progress] tried
    cdef vector[vector[int64_t]] tried_notes
    # For each stretch, 1 if its timeline may have changed even if the state of the engines at its beginning has not.
    cdef vector[int] changed
    # Range of stretches in which the candidate differs from the accepted schedule.
    cdef Py_ssize_t begin, until
    # Changes of freed_at, for `undo`: value << 32 | 1 + accepted entry.
    cdef vector[int64_t] moved
    # Values of the candidate for which a load uses memory that still lingers.
    cdef vector[int] resuming
    # Values loaded between the last run and the next.
    cdef vector[int] awaiting
    # Values that a node stores, in the order in which their memory is freed: slot << 32 | value.
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
        """Mark the stretch that contains a slot as changed."""
        self.changed[slot // STRETCH] = 1
