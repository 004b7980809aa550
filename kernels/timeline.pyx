# distutils: language = c++
"""Timeline of a schedule with copies: compute, stores and loads on three in-order engines.

A store begins after the first run of the value's node, and the memory of the value is not free before the store ends. A
load begins when the step of its schedule begins. A run waits for the loads of the values that it reads.
"""

import numpy as np

cimport cython
from libcpp.vector cimport vector
from remat_algos.kernels.graph cimport GraphArrays
from remat_algos.kernels.growing cimport assign
from remat_algos.kernels.types cimport ENDLESS, Int32s, Int64s, int64_t


@cython.final
cdef class Engines:
    """The clocks of the three engines, and the values whose memory lingers while their store is running.

    out_time, in_time : int64[n_values] time of a store and of a load; memory : int64[n_values] bytes
    """

    def __init__(self, Int64s out_time not None, Int64s in_time not None, Int64s memory not None):
        if not out_time.shape[0] == in_time.shape[0] == memory.shape[0]:
            raise ValueError("arrays of different lengths")
        self.out_time, self.in_time, self.memory = out_time, in_time, memory

    cdef int start(self) except -1 nogil:
        """Reset to time 0."""
        cdef Py_ssize_t i
        if <Py_ssize_t>self.stored.size() != self.memory.shape[0]:
            assign[vector[int64_t], int64_t](self.stored, self.memory.shape[0], 0)
            assign[vector[int64_t], int64_t](self.arrived, self.memory.shape[0], 0)
            assign[vector[int], int](self.lingers, self.memory.shape[0], 0)
            self.sent.reserve(self.memory.shape[0])
        for i in range(<Py_ssize_t>self.sent.size()):
            self.stored[self.sent[i]] = self.lingers[self.sent[i]] = 0
        for i in range(0, <Py_ssize_t>self.fetched.size(), 2):
            self.arrived[self.fetched[i]] = 0
        self.clock = self.out_free = self.in_free = self.lingering_bytes = 0
        self.next_free = ENDLESS
        self.n_sent = self.n_fetched = self.n_lingering = 0
        self.sent.clear()
        self.fetched.clear()
        self.released.clear()
        return 0

    cdef int release(self, int64_t live, int64_t limit) except -1 nogil:
        """Free lingering memory in the order of the stores, in amortized O(1) time per store."""
        cdef int x
        while self.n_sent < <Py_ssize_t>self.sent.size():
            x = self.sent[self.n_sent]
            if self.stored[x] > self.clock and (live + self.lingering_bytes <= limit or self.n_lingering == 0):
                self.next_free = self.stored[x]
                return 0
            if self.lingers[x]:
                self.clock = max(self.clock, self.stored[x])
                self.forget(x)
                self.released.push_back(x)
            self.n_sent += 1
        self.next_free = ENDLESS
        return 0

    cdef int write(self, vector[int64_t]& state) except -1 nogil:
        """Save everything that determines the rest of the timeline, with times relative to the clock.

        Layout: time until all stores have ended; time until all loads have ended; pairs (2 * value + lingers, time
        until the store ends) for running stores and lingering values; -1; pairs (value, time until the load ends) for
        running loads; -1.
        """
        cdef Py_ssize_t i
        cdef int64_t x, clock = self.clock
        state.clear()
        state.push_back(max(self.out_free - clock, 0))
        state.push_back(max(self.in_free - clock, 0))
        for i in range(self.n_sent, <Py_ssize_t>self.sent.size()):
            x = self.sent[i]
            if self.stored[x] > clock or self.lingers[x]:
                state.push_back(2 * x + self.lingers[x])
                state.push_back(max(self.stored[x] - clock, 0))
            elif i == self.n_sent:
                self.n_sent += 1
        state.push_back(-1)
        for i in range(self.n_fetched, <Py_ssize_t>self.fetched.size(), 2):
            if self.fetched[i + 1] > clock:
                state.push_back(self.fetched[i])
                state.push_back(self.fetched[i + 1] - clock)
            else:
                self.n_fetched = i + 2
        state.push_back(-1)
        return 0

    cdef Py_ssize_t restore(self, const vector[int64_t]& state, int64_t clock) except -1 nogil:
        """Restore a state that `write` saved; return the position after it in the vector."""
        cdef Py_ssize_t i = 2
        cdef int64_t x
        self.start()
        self.clock, self.out_free, self.in_free = clock, clock + state[0], clock + state[1]
        while state[i] >= 0:
            x = state[i] >> 1
            self.stored[x] = clock + state[i + 1]
            self.sent.push_back(<int>x)
            if state[i] & 1:
                self.linger(x)
            i += 2
        i += 1
        while state[i] >= 0:
            self.arrived[state[i]] = clock + state[i + 1]
            self.fetched.push_back(state[i])
            self.fetched.push_back(clock + state[i + 1])
            i += 2
        return i + 1


def timeline(GraphArrays graph not None, Int32s order, const int[:, ::1] loads not None, *, Int32s stores,
             Int64s store_step, Int64s store_instance, Int64s out_time, Int64s in_time, Int64s instance_indptr,
             Int64s end, Int64s trace, int64_t limit):
    """Time a valid schedule on three engines.

    order : int32[m]; loads : int32[k, 2] rows (step, value), steps ascending
    stores : int32[j] the loaded values, in order of their stores
    store_step, store_instance : int64[j] step at which each store begins, ascending, and the instance that it copies
    out_time, in_time : int64[j] time of a store and of a load
    instance_indptr : int64[m + 1], end : int64[instances], trace : int64[m] results of `instance_lifetimes`
    limit : live and lingering bytes together are at most this, otherwise compute waits; -1 if no memory may linger

    Returns (begin int64[m] of the runs, load_begin int64[k], store_begin int64[j], lingering int32[*, 2], dropped
    uint8[k], time). Rows of lingering are (index into `stores`, step at which its memory is freed). Dropped loads need
    no copy, since the memory of their value still lingers.
    Cost: O(n_values + m + k + reads of all runs) time, O(n_values + m + k) memory.
    """
    cdef Py_ssize_t m = order.shape[0], k = loads.shape[0], n_copied = stores.shape[0]
    cdef Py_ssize_t step, row, here, j, i, n_stores = 0, n_freed = 0
    cdef int64_t instance, clock, time = 0
    cdef int v, place
    # The engines are indexed by position in `stores`.
    cdef Engines engines = Engines(out_time, in_time, np.asarray(graph.memory)[stores])
    begins, load_begins, dropped = np.empty(m, np.int64), np.empty(k, np.int64), np.zeros(k, np.uint8)
    store_begins = np.empty(n_copied, np.int64)
    lingering = np.empty((n_copied if limit >= 0 else 0, 2), np.int32)
    cdef int64_t[::1] begin = begins, load_begin = load_begins, store_begin = store_begins
    cdef unsigned char[::1] out_dropped = dropped
    cdef int[:, ::1] freed = lingering
    cdef int[::1] place_of = np.full(graph.n_values if k else 0, -1, np.int32)
    # For each store, the instance whose memory it copies.
    cdef int64_t[::1] source = np.array(store_instance, np.int64)
    # For each step, a linked list of the stores whose instances are freed before this step: `leaving` is the first
    # store of each list, `next_leaving` the next one after each store.
    cdef int[::1] leaving = np.full(m + 1 if k else 0, -1, np.int32)
    cdef int[::1] next_leaving = np.empty(n_copied, np.int32)
    # For each step, the latest end of a load whose memory is freed before this step.
    cdef int64_t[::1] arrival = np.zeros(m + 1 if k else 0, np.int64)
    with nogil:
        for i in range(n_copied):
            place_of[stores[i]] = <int>i
            next_leaving[i] = leaving[end[source[i]]]
            leaving[end[source[i]]] = <int>i
        row = 0
        engines.start()
        for step in range(m):
            here = row
            v = order[step]
            if k:
                engines.clock = max(engines.clock, arrival[step])
                while row < k and loads[row, 0] == step:
                    place = place_of[loads[row, 1]]
                    if limit >= 0 and engines.take_over(place):
                        out_dropped[row] = 1
                        instance = instance_indptr[step] + row - here
                        source[place] = instance
                        next_leaving[place] = leaving[end[instance]]
                        leaving[end[instance]] = place
                    row += 1
                engines.fit(trace[step], limit)
                for i in range(<Py_ssize_t>engines.released.size()):
                    place = engines.released[i]
                    if limit >= 0 and end[source[place]] < step:
                        freed[n_freed, 0], freed[n_freed, 1] = place, <int>step
                        n_freed += 1
                engines.released.clear()
                for j in range(here, row):
                    load_begin[j] = engines.clock
                    if not out_dropped[j]:
                        place = place_of[loads[j, 1]]
                        engines.load(place)
                        load_begin[j] = engines.in_free - engines.in_time[place]
                        instance = instance_indptr[step] + j - here
                        arrival[end[instance]] = max(arrival[end[instance]], engines.in_free)
            clock = engines.clock
            if engines.in_free > clock:
                for j in range(graph.read_indptr[v], graph.read_indptr[v + 1]):
                    place = place_of[graph.read_indices[j]]
                    if place >= 0:
                        clock = max(clock, engines.arrived[place])
            begin[step] = clock
            engines.clock = clock + graph.compute[v]
            if not k:
                continue
            while n_stores < n_copied and store_step[n_stores] == step + 1:
                engines.store(n_stores)
                store_begin[n_stores] = engines.out_free - engines.out_time[n_stores]
                n_stores += 1
            place = leaving[step + 1]
            while place >= 0:
                engines.leave(place)
                place = next_leaving[place]
        if m:
            time = max(engines.clock, max(engines.in_free, engines.out_free))
    return begins, load_begins, store_begins, lingering[:n_freed], dropped, time
