# Three engines that work side by side, for the simulator and for kernels that search over schedules with copies.
cimport cython
from libcpp.vector cimport vector
from remat_algos.kernels.types cimport ENDLESS, Int64s, int64_t


@cython.final
cdef class Engines:
    # Arrays are over the values of a graph, or over those alone that are copied; the caller says which.
    cdef Int64s out_time, in_time, memory
    cdef int64_t clock                   # end of the last run
    cdef int64_t out_free, in_free       # end of the last copy each way
    cdef vector[int64_t] stored, arrived    # ends of the copies of each value
    cdef vector[int] lingers             # 1: its memory is kept since its store still runs
    cdef Py_ssize_t n_lingering          # number of values whose memory lingers
    cdef int64_t lingering_bytes         # their bytes
    cdef int64_t next_free               # end of the first of their stores, or less
    cdef vector[int] released            # values whose memory no longer lingers
    cdef vector[int] sent                # values whose stores have begun, in order; they end in this order
    cdef vector[int64_t] fetched         # pairs of a value and the end of its load, as `note_load` was called
    cdef Py_ssize_t n_sent, n_fetched    # number of both that are over, or less

    cdef int start(self) except -1 nogil
    cdef int release(self, int64_t live, int64_t limit) except -1 nogil
    cdef int write(self, vector[int64_t]& state) except -1 nogil
    cdef Py_ssize_t restore(self, const vector[int64_t]& state, int64_t clock) except -1 nogil

    cdef inline int fit(self, int64_t live, int64_t limit) except -1 nogil:
        """Free the lingerers whose store has ended; compute waits for stores while the others do not fit."""
        if self.n_lingering == 0 or (self.next_free > self.clock and live + self.lingering_bytes <= limit):
            return 0
        return self.release(live, limit)

    cdef inline int forget(self, Py_ssize_t x) except -1 nogil:
        """The memory of x no longer lingers."""
        self.lingers[x] = 0
        self.n_lingering -= 1
        self.lingering_bytes -= self.memory[x]
        return 0

    cdef inline bint take_over(self, Py_ssize_t x) except -1 nogil:
        """Make memory that lingers serve reads again: True if that of x did."""
        if not self.lingers[x]:
            return False
        self.forget(x)
        self.arrived[x] = 0
        return True

    cdef inline int load(self, Py_ssize_t x) except -1 nogil:
        """Begin a copy to the device: compute is here, the store has ended and the engine is free."""
        cdef int64_t begin = max(self.clock, self.stored[x])
        begin = max(begin, self.in_free)
        self.in_free = begin + self.in_time[x]
        self.arrived[x] = self.in_free
        return 0

    cdef inline int note_load(self, Py_ssize_t x) except -1 nogil:
        """Let `write` and `start` know of a load that has begun."""
        self.fetched.push_back(x)
        self.fetched.push_back(self.in_free)
        return 0

    cdef inline int store(self, Py_ssize_t x) except -1 nogil:
        """Begin a copy to the host of a value that has just been made."""
        self.out_free = max(self.clock, self.out_free) + self.out_time[x]
        self.stored[x] = self.out_free
        self.sent.push_back(<int>x)
        return 0

    cdef inline int leave(self, Py_ssize_t x) except -1 nogil:
        """The list frees the memory that x is stored from: it lingers while its store runs."""
        return self.linger(x) if self.stored[x] > self.clock else 0

    cdef inline int linger(self, Py_ssize_t x) except -1 nogil:
        self.lingers[x] = 1
        self.n_lingering += 1
        self.lingering_bytes += self.memory[x]
        self.next_free = min(self.next_free, self.stored[x])
        return 0
