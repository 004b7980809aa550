# Three engines that work concurrently: compute, stores and loads. The simulator and the search use them.
cimport cython
from libcpp.vector cimport vector
from remat_algos.kernels.types cimport ENDLESS, Int64s, int64_t


@cython.final
cdef class Engines:
    # Duration of a store, duration of a load, and bytes of each value. The caller decides what the index is: a value of
    # the graph, or a position in a list of copied values.
    cdef Int64s out_time, in_time, memory
    # End time of the last run, and of the last store and load.
    cdef int64_t clock
    cdef int64_t out_free, in_free
    # End time of the last store and of the last load of each value.
    cdef vector[int64_t] stored, arrived
    # 1 if the memory of a value lingers: the schedule has freed it, but its store is still running.
    cdef vector[int] lingers
    # n_lingering, lingering_bytes: number and bytes of the values whose memory lingers. next_free: a lower bound on the
    # time at which the first store of such a value ends.
    cdef Py_ssize_t n_lingering
    cdef int64_t lingering_bytes
    cdef int64_t next_free
    # Values whose memory has stopped lingering.
    cdef vector[int] released
    # Values whose stores have begun. Stores begin and end in this order.
    cdef vector[int] sent
    # Pairs (value, end time of its load), appended by `note_load`.
    cdef vector[int64_t] fetched
    # Lower bounds on the number of finished entries of `sent` and of `fetched`.
    cdef Py_ssize_t n_sent, n_fetched
    cdef int start(self) except -1 nogil
    cdef int release(self, int64_t live, int64_t limit) except -1 nogil
    cdef int write(self, vector[int64_t]& state) except -1 nogil
    cdef Py_ssize_t restore(self, const vector[int64_t]& state, int64_t clock) except -1 nogil

    cdef inline int fit(self, int64_t live, int64_t limit) except -1 nogil:
        """Free lingering memory whose store has ended; delay compute until live and lingering bytes fit the limit."""
        if self.n_lingering == 0 or (self.next_free > self.clock and live + self.lingering_bytes <= limit):
            return 0
        return self.release(live, limit)

    cdef inline int forget(self, Py_ssize_t x) except -1 nogil:
        """Stop counting the memory of x as lingering."""
        self.lingers[x] = 0
        self.n_lingering -= 1
        self.lingering_bytes -= self.memory[x]
        return 0

    cdef inline bint take_over(self, Py_ssize_t x) except -1 nogil:
        """Make lingering memory of x live again, which replaces a load; return False if x does not linger."""
        if not self.lingers[x]:
            return False
        self.forget(x)
        self.arrived[x] = 0
        return True

    cdef inline int load(self, Py_ssize_t x) except -1 nogil:
        """Begin a load of x as soon as the last run, the store of x and the previous load have ended."""
        cdef int64_t begin = max(self.clock, self.stored[x])
        begin = max(begin, self.in_free)
        self.in_free = begin + self.in_time[x]
        self.arrived[x] = self.in_free
        return 0

    cdef inline int note_load(self, Py_ssize_t x) except -1 nogil:
        """Record the load that has just begun, so that `write` saves it and `start` resets it."""
        self.fetched.push_back(x)
        self.fetched.push_back(self.in_free)
        return 0

    cdef inline int store(self, Py_ssize_t x) except -1 nogil:
        """Begin the store of a value that has just been computed."""
        self.out_free = max(self.clock, self.out_free) + self.out_time[x]
        self.stored[x] = self.out_free
        self.sent.push_back(<int>x)
        return 0

    cdef inline int leave(self, Py_ssize_t x) except -1 nogil:
        """Free the memory of x, or let it linger if its store is still running."""
        return self.linger(x) if self.stored[x] > self.clock else 0

    cdef inline int linger(self, Py_ssize_t x) except -1 nogil:
        self.lingers[x] = 1
        self.n_lingering += 1
        self.lingering_bytes += self.memory[x]
        self.next_free = min(self.next_free, self.stored[x])
        return 0
