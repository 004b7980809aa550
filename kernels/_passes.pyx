# distutils: language = c++
"""Passes over an order: runs without readers, runs whose values may stay, runs that may come later."""

import numpy as np

ctypedef long long int64

include "_replay.pxi"

def dead_runs(const int[::1] order, const int64[::1] value_indptr, const int64[::1] read_indptr,
              const int[::1] read_indices, const unsigned char[::1] output, const unsigned char[::1] fixed):
    """The steps of an order that serve a reader or an output.

    order : int32[m], value_indptr : int64[n + 1], read_indptr : int64[n + 1], read_indices : int32[k],
    output : uint8[n_values], fixed : uint8[n] nodes whose first run stays if a later one does
    Returns int32[<= m], the order without the others.
    """
    cdef Py_ssize_t m = order.shape[0], n = value_indptr.shape[0] - 1, n_values = output.shape[0], step, at = m
    cdef int64 j, x
    cdef int v
    cdef bint stays
    cdef int[::1] first = np.full(n, -1, np.int32)
    cdef unsigned char[::1] is_read = np.zeros(n_values, np.uint8)
    cdef unsigned char[::1] kept = np.zeros(n, np.uint8)
    serving = np.empty(m, np.int32)
    cdef int[::1] out = serving
    with nogil:
        for step in range(m - 1, -1, -1):
            first[order[step]] = <int>step
        for step in range(m - 1, -1, -1):
            v = order[step]
            stays = first[v] == step and fixed[v] and kept[v]
            for x in range(value_indptr[v], value_indptr[v + 1]):
                if output[x]:
                    stays = stays or first[v] == step           # the first copy of an output serves all reads
                else:
                    stays = stays or is_read[x]
                    is_read[x] = 0
            if stays:
                kept[v] = 1
                for j in range(read_indptr[v], read_indptr[v + 1]):
                    is_read[read_indices[j]] = 1
                at -= 1
                out[at] = v
    return serving[at:].copy()


def chain_prices(const int[::1] order, const int64[::1] value_indptr, const int64[::1] read_indptr,
                 const int[::1] read_indices, const int[::1] producer, const unsigned char[::1] output,
                 const int64[::1] compute):
    """What each run costs together with the runs that serve it alone.

    order : int32[m], value_indptr : int64[n + 1], read_indptr : int64[n + 1], read_indices : int32[k],
    producer : int32[n_values], output : uint8[n_values], compute : int64[n]
    Returns int64[m].
    """
    cdef Py_ssize_t m = order.shape[0], n = value_indptr.shape[0] - 1, step, run
    cdef int64 j, x
    cdef int v, u
    price = np.empty(m, np.int64)
    cdef int64[::1] out = price
    cdef int[::1] newest = np.full(n, -1, np.int32)         # the last run of each node
    cdef int[::1] only = np.full(m, -1, np.int32)           # the step that reads a run; -2: several, or not known
    with nogil:
        for step in range(m):
            v = order[step]
            for j in range(read_indptr[v], read_indptr[v + 1]):
                x = read_indices[j]
                if output[x]:
                    continue                                # its first run does not serve this step alone
                run = newest[producer[x]]
                if only[run] == -1:
                    only[run] = <int>step
                elif only[run] != step:
                    only[run] = -2
            if newest[v] < 0:
                for x in range(value_indptr[v], value_indptr[v + 1]):
                    if output[x]:
                        only[step] = -2
            newest[v] = <int>step
            out[step] = compute[v]
        for step in range(m):
            run = only[step]
            if run >= 0:
                out[run] += out[step]
    return price


def replay(const int[::1] order, const int64[::1] value_indptr, const int64[::1] read_indptr,
           const int[::1] read_indices, const int[::1] producer, const unsigned char[::1] output,
           const int64[::1] memory, const int64[::1] workspace, const int64[::1] price,
           const unsigned char[::1] fixed, int64 limit):
    """The order without runs whose values stay, as far as a limit has room for them.

    order : int32[m], value_indptr : int64[n + 1], read_indptr : int64[n + 1], read_indices : int32[k],
    producer : int32[n_values], output : uint8[n_values], memory : int64[n_values], workspace : int64[n],
    price : int64[m] of each run, fixed : uint8[n] nodes that keep their runs, limit : bytes
    Returns int32[<= m].
    """
    cdef Py_ssize_t m = order.shape[0], n = value_indptr.shape[0] - 1, step, at = 0, n_runs = 0
    cdef int64 j, x, size
    cdef int v
    cdef _Replay walk = _Replay()
    walk.order, walk.value_indptr, walk.read_indptr, walk.read_indices = order, value_indptr, read_indptr, read_indices
    walk.output, walk.memory, walk.price, walk.fixed = output, memory, price, fixed
    reads = np.diff(read_indptr)[order].sum()
    walk.next_run, walk.next_read = np.empty(m, np.int32), np.empty(reads, np.int32)
    walk.coming_run, walk.coming_read = np.full(n, m, np.int32), np.full(memory.shape[0], m, np.int32)
    walk.state, walk.broken = np.zeros(memory.shape[0], np.uint8), np.zeros(n, np.uint8)
    walk.place = np.full(n, -1, np.int32)
    shorter = np.empty(m, np.int32)
    cdef int[::1] out = shorter
    with nogil:
        walk.look_ahead()
        for step in range(m):
            v = order[step]
            walk.now = step
            walk.coming_run[v] = walk.next_run[step]
            if walk.needless(v, walk.coming_run[v]):
                walk.stay(v)
            else:
                size = workspace[v]
                for x in range(value_indptr[v], value_indptr[v + 1]):
                    size += memory[x]
                walk.run(v, size, limit)
                out[n_runs] = v
                n_runs += 1
            for j in range(read_indptr[v], read_indptr[v + 1]):
                x = read_indices[j]
                walk.coming_read[x] = walk.next_read[at]
                at += 1
                walk.classify(x, producer[x])
    return shorter[:n_runs].copy()


@cython.final
cdef class _Sinking:
    """Where runs are moved to, from the last to the first: one moved to step t stands right before it."""

    cdef const int64[::1] read_indptr
    cdef const int[::1] read_indices
    cdef const int[::1] producer
    cdef const unsigned char[::1] output
    cdef const int64[::1] memory
    cdef int[::1] next_run          # of each node
    cdef int[::1] first_read        # of the copy of each value, where its readers are now; no step: not read
    cdef int[::1] last_read         # -1: not read

    cdef int latest(self, int v, int bound) noexcept nogil:
        """The last step, at most `bound`, before which what a node reads does not run again."""
        cdef int64 j
        cdef int x
        for j in range(self.read_indptr[v], self.read_indptr[v + 1]):
            x = self.read_indices[j]
            if not self.output[x]:
                bound = min(bound, self.next_run[self.producer[x]])
        return bound

    cdef int64 live_for(self, int v, int step, int* until) noexcept nogil:
        """Bytes that only this node still reads after a step; and how far this goes without more of them."""
        cdef int64 j, size = 0
        cdef int x
        for j in range(self.read_indptr[v], self.read_indptr[v + 1]):
            x = self.read_indices[j]
            if self.output[x]:
                continue
            if self.last_read[x] <= step:
                size += self.memory[x]
            else:
                until[0] = min(until[0], self.last_read[x])
        return size

    cdef void read(self, int v, int step) noexcept nogil:
        cdef int64 j
        cdef int x
        for j in range(self.read_indptr[v], self.read_indptr[v + 1]):
            x = self.read_indices[j]
            self.first_read[x] = min(self.first_read[x], step)
            self.last_read[x] = max(self.last_read[x], step)


def sink(const int[::1] order, const int64[::1] value_indptr, const int64[::1] read_indptr,
         const int[::1] read_indices, const int[::1] producer, const unsigned char[::1] output,
         const int64[::1] memory, const int64[::1] workspace, const int64[::1] between, int64 peak):
    """The order with runs moved on, towards their first readers, while their values are as large as what they read.

    Between no two steps more bytes are live than before, and no moved run needs more than the peak: it never rises.

    order : int32[m], value_indptr : int64[n + 1], read_indptr : int64[n + 1], read_indices : int32[k],
    producer : int32[n_values], output : uint8[n_values], memory : int64[n_values], workspace : int64[n],
    between : int64[m + 1] bytes live right before each step, and after the last, peak : bytes
    Returns int32[m].
    """
    cdef Py_ssize_t m = order.shape[0], n = value_indptr.shape[0] - 1, n_values = memory.shape[0], step
    cdef int64 x, lasting, passing, extended, longer
    cdef int v, to, bound, until
    cdef _Sinking moved = _Sinking()
    moved.read_indptr, moved.read_indices, moved.producer = read_indptr, read_indices, producer
    moved.output, moved.memory = output, memory
    moved.next_run = np.full(n, m, np.int32)
    moved.first_read, moved.last_read = np.full(n_values, m, np.int32), np.full(n_values, -1, np.int32)
    target = np.empty(m, np.int32)
    cdef int[::1] out = target
    cdef int[::1] first = np.full(n, -1, np.int32)
    with nogil:
        for step in range(m - 1, -1, -1):
            first[order[step]] = <int>step
        for step in range(m - 1, -1, -1):
            v = order[step]
            lasting = passing = extended = 0                    # bytes read later or pinned; bytes of this step alone
            bound = moved.next_run[v]
            for x in range(value_indptr[v], value_indptr[v + 1]):
                if (first[v] == step) if output[x] else (moved.last_read[x] >= 0):
                    lasting += memory[x]
                    bound = min(bound, moved.first_read[x])
                else:
                    passing += memory[x]
                if not output[x]:
                    moved.first_read[x], moved.last_read[x] = <int>m, -1
            bound = moved.latest(v, bound) if lasting else <int>step
            to = <int>step
            while to < bound:
                until = bound
                longer = moved.live_for(v, to, &until)
                if longer > lasting:
                    break
                to, extended = until, longer
            if to <= step + 1 or between[to] + extended + passing + workspace[v] > peak:
                to = <int>step
            moved.read(v, to)
            moved.next_run[v] = <int>step
            out[step] = to
    return np.asarray(order)[np.argsort(target, kind="stable")]
