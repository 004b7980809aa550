# distutils: language = c++
"""Maximum flow and minimum cuts, in integers: highest-label push-relabel, with global relabelling from time to time."""

import numpy as np

cimport cython
from libcpp.vector cimport vector
from remat_algos.kernels.growing cimport assign

ctypedef long long int64


def maximum_flow(int n, const int[::1] tail, const int[::1] head, const int64[::1] capacity, int source, int sink):
    """The maximum flow from a source to a sink.

    tail, head : int32[m] vertices 0 to n - 1, capacity : int64[m] 0 or more; those of the arcs out of the source sum
    up to less than 2**62, and each one is less; source != sink
    Returns (value, flow int64[m], source_side uint8[n] that the source can still send something to, sink_side uint8[n]
    that can still send something to the sink); the arcs that leave the source's side, and those that enter the sink's,
    are minimum cuts.
    """
    cdef int64 a, i, m = tail.shape[0]
    cdef int v
    cdef _ResidualNetwork network = _ResidualNetwork()
    flow, near, far = np.empty(m, np.int64), np.zeros(n, np.uint8), np.zeros(n, np.uint8)
    cdef int64[::1] place = flow
    cdef unsigned char[::1] source_side = near, sink_side = far
    with nogil:
        network.load(n, tail, head, capacity, source, sink, place)
        network.roof = -1
        for a in range(network.begin[source], network.begin[source + 1]):
            if network.residual[a] > 0:
                network.push(source, a, network.residual[a])
        network.run(sink)
        network.run(source)                # excess that cannot reach the sink returns
        for v in range(n):
            source_side[v] = 0
        for i in range(network.reach(source, False)):
            source_side[network.queue[i]] = 1
        for i in range(network.reach(sink, True)):
            sink_side[network.queue[i]] = 1
        for i in range(m):
            place[i] = capacity[i] - network.residual[place[i]]
    return network.excess[sink], flow, near, far


@cython.final
cdef class _ResidualNetwork:
    """Arcs with their residual capacities, and a preflow: vertices may have an excess on its way to a target.

    Arc a of vertex v, begin[v] <= a < begin[v + 1], goes to `to[a]`, and `sister[a]` is the way back. Arcs of v before
    at[v] are not admissible until v is lifted. `height` is at most the distance to the target, n for vertices that
    cannot reach it, so an arc with residual capacity goes down by one at most. crowd[h] vertices have height h; no
    vertex above an empty height can reach the target, and none above `roof` can. Vertices of height h with an excess
    to discharge are a list: first[h], following[first[h]], ..., -1.
    """
    cdef int n, source, sink, target, highest, roof
    cdef int64 work, patience              # arcs read since the distances were exact, and how many may be
    cdef vector[int64] begin, at, residual, sister, excess
    cdef vector[int] to, height, first, following, crowd, queue

    cdef int load(self, int n, const int[::1] tail, const int[::1] head, const int64[::1] capacity, int source,
                  int sink, int64[::1] place) except -1 nogil:
        """Arcs by their tail; `place` becomes where each one stands. Nothing else takes memory."""
        cdef int64 i, a, b, m = tail.shape[0]
        self.n, self.source, self.sink, self.patience = n, source, sink, 4 * n + 2 * m
        assign(self.begin, n + 2, 0)
        assign(self.excess, n, 0)
        assign(self.height, n, n)
        self.to.resize(2 * m)
        self.residual.resize(2 * m)
        self.sister.resize(2 * m)
        self.at.resize(n)
        self.first.resize(n + 1)
        self.crowd.resize(n + 1)
        self.following.resize(n)
        self.queue.resize(n)
        for i in range(m):
            self.begin[tail[i] + 2] += 1
            self.begin[head[i] + 2] += 1
        for i in range(n):
            self.begin[i + 2] += self.begin[i + 1]
        for i in range(m):                 # begin[v + 1] runs ahead to where the arcs of v end
            a = self.begin[tail[i] + 1]
            self.begin[tail[i] + 1] += 1
            b = self.begin[head[i] + 1]
            self.begin[head[i] + 1] += 1
            self.to[a], self.residual[a], self.sister[a] = head[i], capacity[i], b
            self.to[b], self.residual[b], self.sister[b] = tail[i], 0, a
            place[i] = a

    cdef void push(self, int v, int64 a, int64 amount) noexcept nogil:
        cdef int w = self.to[a]
        self.residual[a] -= amount
        self.residual[self.sister[a]] += amount
        self.excess[v] -= amount
        if self.excess[w] == 0:
            self.excess[w] = amount
            self.wake(w)
        else:
            self.excess[w] += amount

    cdef void wake(self, int v) noexcept nogil:
        """Put a vertex with an excess among those of its height, if that may still reach the target."""
        cdef int h = self.height[v]
        if v != self.source and v != self.sink and h <= self.roof:
            self.following[v] = self.first[h]
            self.first[h] = v
            self.highest = max(self.highest, h)

    cdef int reach(self, int start, bint backwards) noexcept nogil:
        """Number the vertices by their distance from the start, or to it, along arcs with residual capacity."""
        cdef int done = 0, n_reached = 1, n = self.n, v, w
        cdef int64 a
        for v in range(n):
            self.height[v] = n
        self.height[start] = 0
        self.queue[0] = start
        while done < n_reached:
            v = self.queue[done]
            done += 1
            for a in range(self.begin[v], self.begin[v + 1]):
                w = self.to[a]
                if self.height[w] == self.n and self.residual[self.sister[a] if backwards else a] > 0:
                    self.height[w] = self.height[v] + 1
                    self.queue[n_reached] = w
                    n_reached += 1
        return n_reached

    cdef bint measure(self) noexcept nogil:
        """Make the heights exact. Returns whether an excess is left that can reach the target."""
        cdef int i, v, n_reached = self.reach(self.target, True)
        self.work = 0
        self.highest = -1
        self.roof = self.height[self.queue[n_reached - 1]]
        for v in range(self.n):
            self.at[v] = self.begin[v]
        for i in range(self.n + 1):
            self.first[i], self.crowd[i] = -1, 0
        for i in range(n_reached):
            v = self.queue[i]
            self.crowd[self.height[v]] += 1
            if self.excess[v] > 0:
                self.wake(v)
        return self.highest >= 0

    cdef void lift(self, int v) noexcept nogil:
        """Raise a vertex above the lowest of those that it can push to."""
        cdef int lowest = self.n, old = self.height[v]
        cdef int64 a
        self.work += self.begin[v + 1] - self.begin[v]
        for a in range(self.begin[v], self.begin[v + 1]):
            if self.residual[a] > 0 and self.height[self.to[a]] < lowest:
                lowest = self.height[self.to[a]]
                self.at[v] = a
        self.crowd[old] -= 1
        if self.crowd[old] == 0:           # no vertex above it can reach the target any more
            self.roof = min(self.roof, old - 1)
        self.height[v] = min(lowest + 1, self.n)
        self.crowd[self.height[v]] += 1
        if self.height[v] == self.roof + 1 and self.crowd[old] > 0:
            self.roof += 1

    cdef void discharge(self, int v) noexcept nogil:
        """Push the excess of a vertex on until it is gone, or the vertex must be lifted first."""
        cdef int64 a, end = self.begin[v + 1]
        while self.at[v] < end:
            a = self.at[v]
            if self.residual[a] > 0 and self.height[v] == self.height[self.to[a]] + 1:
                self.push(v, a, min(self.excess[v], self.residual[a]))
                if self.excess[v] == 0:
                    return
            self.at[v] += 1
            self.work += 1
        self.lift(v)
        self.wake(v)

    cdef void run(self, int target) noexcept nogil:
        """Bring every excess to the target that can reach it."""
        cdef int v
        self.target = target
        while self.measure():
            while self.highest >= 0 and self.work < self.patience:
                v = self.first[self.highest]
                if v < 0:
                    self.highest -= 1
                    continue
                self.first[self.highest] = self.following[v]
                if self.highest <= self.roof:
                    self.discharge(v)
