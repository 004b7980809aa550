# distutils: language = c++
"""When all of a schedule with copies begins and ends: compute, copies to the host and copies back, each in order.

A value is stored when its first run has made it, and its memory is not free before that copy has ended. A load begins
when compute has come to its step. A run waits for the loads that it reads.
"""

import numpy as np

cimport cython
from libcpp.vector cimport vector
from remat_algos.kernels.graph cimport GraphArrays
from remat_algos.kernels.growing cimport assign
from remat_algos.kernels.types cimport ENDLESS, Int32s, Int64s, int64_t


@cython.final
cdef class Engines:
    """Clocks of the three engines, and the memory whose store still runs.

    out_time, in_time : int64[n_values] of a copy each way, memory : int64[n_values]
    """

    def __init__(self, Int64s out_time not None, Int64s in_time not None, Int64s memory not None):
        if not out_time.shape[0] == in_time.shape[0] == memory.shape[0]:
            raise ValueError("arrays of different lengths")
        self.out_time, self.in_time, self.memory = out_time, in_time, memory

    cdef int start(self) except -1 nogil:
        """Nothing has been done."""
        cdef Py_ssize_t i
        if <Py_ssize_t>self.stored.size() != self.memory.shape[0]:
            assign[vector[int64_t], int64_t](self.stored, self.memory.shape[0], 0)
            assign[vector[int64_t], int64_t](self.arrived, self.memory.shape[0], 0)
            assign[vector[int], int](self.lingers, self.memory.shape[0], 0)
        for i in range(<Py_ssize_t>self.sent.size()):
            self.stored[self.sent[i]] = 0
        for i in range(0, <Py_ssize_t>self.fetched.size(), 2):
            self.arrived[self.fetched[i]] = 0
        for i in range(<Py_ssize_t>self.lingerers.size()):
            self.lingers[self.lingerers[i]] = 0
        self.clock = self.out_free = self.in_free = self.lingering_bytes = 0
        self.next_free = ENDLESS
        self.n_sent = self.n_fetched = 0
        self.sent.clear()
        self.fetched.clear()
        self.lingerers.clear()
        self.released.clear()
        return 0

    cdef int release(self, int64_t live, int64_t limit) except -1 nogil:
        cdef Py_ssize_t i
        cdef int64_t earliest
        while not self.lingerers.empty():
            earliest = ENDLESS
            for i in range(<Py_ssize_t>self.lingerers.size() - 1, -1, -1):
                if self.stored[self.lingerers[i]] <= self.clock:
                    self.released.push_back(self.forget(i))
                else:
                    earliest = min(earliest, self.stored[self.lingerers[i]])
            self.next_free = earliest
            if live + self.lingering_bytes <= limit or self.lingerers.empty():
                break
            self.clock = earliest
        return 0

    cdef int write(self, vector[int64_t]& state) except -1 nogil:
        """All that what follows depends on, in time from now.

        Until when each link is taken; values whose store runs, or that linger, with the end of their store; a -1;
        values whose load runs, with its end; a -1.
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
        """Go on from what `write` wrote; return the place behind it."""
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


def timeline(GraphArrays graph not None, Int32s order, const int[:, ::1] loads not None, *, Int64s instance_indptr,
             Int32s value, Int64s end, Int32s leaving, Int32s load_of,
             Int64s trace, Engines engines not None, int64_t limit):
    """Play a sound schedule on three engines.

    order : int32[m], loads : int32[k, 2] (step, value) with rising steps
    instance_indptr : int64[m + 1], value : int32[instances], end : int64[instances], trace : int64[m] as simulated
    leaving : int32[*] instances of values that are loaded anywhere, by their ends
    load_of : int32[*] the row of the load that made each of them, or -1
    limit : bytes within which memory whose store runs may linger; -1: none, compute waits

    Returns (begin int64[m] of runs, load_begin int64[k], stores int32[j] values in order, store_begin int64[j],
    lingering int32[*, 2] (value, step) where lingerers are freed, dropped uint8[k] loads of what still lingers, time).
    Cost: O(n_values + m + k + reads and values of all runs + lingerers of all steps) time, O(n_values + m + k) memory.
    """
    cdef Py_ssize_t m = order.shape[0], k = loads.shape[0], step, row = 0, here, j, gone = 0, i, instance, place
    cdef int64_t x, behind = 0
    cdef int v
    cdef int64_t[::1] begin, load_begin, first_end = np.zeros(graph.n_values if k else 0, np.int64)
    cdef unsigned char[::1] loaded = np.zeros(graph.n_values if k else 0, np.uint8)
    cdef int[::1] source = np.full(graph.n_values if k else 0, -1, np.int32)  # the instance that is stored
    cdef unsigned char[::1] out_dropped
    cdef vector[int] stores, lingering, making
    cdef vector[int64_t] store_begin
    begins, load_begins, dropped = np.zeros(m, np.int64), np.zeros(k, np.int64), np.zeros(k, np.uint8)
    begin, load_begin, out_dropped = begins, load_begins, dropped
    for row in range(k):
        loaded[loads[row, 1]] = 1
    row = 0
    with nogil:
        engines.start()
        for step in range(m):
            here = row
            engines.clock = max(engines.clock, behind)
            while row < k and loads[row, 0] == step:
                x = loads[row, 1]
                if limit >= 0 and engines.take_over(x):
                    out_dropped[row] = 1
                    source[x] = <int>(instance_indptr[step] + row - here)
                row += 1
            engines.fit(trace[step], limit)
            for i in range(<Py_ssize_t>engines.released.size()):
                if end[source[engines.released[i]]] < step:
                    lingering.push_back(engines.released[i])
                    lingering.push_back(<int>step)
            engines.released.clear()
            for j in range(here, row):
                x = loads[j, 1]
                load_begin[j] = engines.clock
                if not out_dropped[j]:
                    engines.load(x)
                    load_begin[j] = engines.in_free - engines.in_time[x]
            v = order[step]
            if k:
                for j in range(graph.read_indptr[v], graph.read_indptr[v + 1]):
                    engines.clock = max(engines.clock, engines.arrived[graph.read_indices[j]])
            begin[step] = engines.clock
            engines.clock += graph.compute[v]
            if not k:
                continue
            instance = instance_indptr[step] + row - here
            for x in range(graph.value_indptr[v], graph.value_indptr[v + 1]):
                if loaded[x] and source[x] < 0:
                    source[x] = <int>instance
                    first_end[x] = end[instance]
                    place = making.size()
                    making.push_back(<int>x)
                    while place and first_end[making[place - 1]] > end[instance]:
                        making[place] = making[place - 1]
                        place -= 1
                    making[place] = <int>x
                instance += 1
            for i in range(<Py_ssize_t>making.size()):
                x = making[i]
                engines.store(x)
                stores.push_back(<int>x)
                store_begin.push_back(engines.out_free - engines.out_time[x])
            making.clear()
            behind = 0
            while gone < leaving.shape[0] and end[leaving[gone]] == step + 1:
                i = leaving[gone]
                gone += 1
                x = value[i]
                if source[x] == i:
                    engines.leave(x)
                elif load_of[gone - 1] >= 0:                    # it may be a load that nothing reads
                    j = load_of[gone - 1]
                    behind = max(behind, load_begin[j] + (0 if out_dropped[j] else engines.in_time[x]))
        if m:
            behind = max(engines.clock, max(engines.in_free, engines.out_free))
    store_values, store_begins = np.empty(stores.size(), np.int32), np.empty(stores.size(), np.int64)
    kept = np.empty((lingering.size() // 2, 2), np.int32)
    for i in range(<Py_ssize_t>stores.size()):
        store_values[i], store_begins[i] = stores[i], store_begin[i]
    for i in range(<Py_ssize_t>lingering.size()):
        kept[i // 2, i % 2] = lingering[i]
    return begins, load_begins, store_values, store_begins, kept, dropped, behind
