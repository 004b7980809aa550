# distutils: language = c++
"""Integer maximum flow and minimum cuts: highest-label push-relabel with occasional global relabelling."""

import numpy as np

cimport cython
from libcpp.vector cimport vector
from remat_algos.kernels.growing cimport assign
from remat_algos.kernels.types cimport ENDLESS, Int32s, Int64s, int64_t


def maximum_flow(int n, Int32s tail, Int32s head, Int64s capacity, int source, int sink):
    """The maximum flow from a source to a sink.

    tail, head : int32[m] vertices 0 to n - 1, capacity : int64[m] 0 or more; those of the arcs out of the source sum
    up to less than 2**62, and each one is less; source != sink
    Returns (value, flow int64[m], source_side uint8[n] that the source can still reach, sink_side uint8[n] that can
    still reach the sink); the arcs that leave the source's side, and those that enter the sink's, are minimum cuts.
    Cost: O(n^2 sqrt(m)) time at worst, mostly a small multiple of n + m; O(n + m) memory.
    """
    cdef int64_t i, m = tail.shape[0]
    cdef int v
    cdef FlowNetwork network = FlowNetwork(n, tail, head, source, sink)
    flow, near, far = np.empty(m, np.int64), np.zeros(n, np.uint8), np.zeros(n, np.uint8)
    cdef int64_t[::1] amount = flow
    cdef unsigned char[::1] source_side = near, sink_side = far
    check_length(capacity, m)
    with nogil:
        network.cut(&capacity[0] if m else NULL, ENDLESS)
        network.run(source, ENDLESS)           # excess that cannot reach the sink returns
        for v in range(n):
            source_side[v] = 0
        for i in range(network.reach(source, False)):
            source_side[network.queue[i]] = 1
        for i in range(network.reach(sink, True)):
            sink_side[network.queue[i]] = 1
        for i in range(m):
            amount[i] = capacity[i] - network.residual[network.place[i]]
    return network.value(), flow, near, far


cdef int check_length(Int64s capacity, int64_t m) except -1:
    if capacity.shape[0] != m:
        raise ValueError(f"there are {capacity.shape[0]} capacities for {m} arcs")


@cython.final
cdef class FlowNetwork:
    """FlowNetwork(n, tail, head, source, sink): tail, head : int32[m] vertices 0 to n - 1, source != sink.

    Arcs with their residual capacities, and a preflow: vertices may have an excess on its way to a target.
    Arc a of vertex v, begin[v] <= a < begin[v + 1], goes to `to[a]`, and `sister[a]` is its reverse; the i-th arc of
    the caller is place[i]. Arcs of v before at[v] are not admissible until v is lifted. `height` is at most the
    distance to the target, n for vertices that cannot reach it, so an arc with residual capacity goes down by one at
    most. crowd[h] vertices have height h; no vertex above an empty height can reach the target, and none above `roof`
    can. Vertices of height h with an excess to discharge are a list: first[h], following[first[h]], ..., -1.
    `work` arcs were read since the distances were exact, at most `patience` before they are measured again.
    """

    def __cinit__(self, int n, Int32s tail, Int32s head, int source, int sink):
        cdef int64_t m = tail.shape[0]
        if head.shape[0] != m:
            raise ValueError(f"there are {head.shape[0]} heads for {m} tails")
        with nogil:
            self.load(n, m, &tail[0] if m else NULL, &head[0] if m else NULL, source, sink)

    def minimum_cut(self, Int64s capacity, int64_t enough=ENDLESS):
        """A minimum cut for new capacities, or any flow of at least `enough`.

        capacity : int64[m] 0 or more; those of the arcs out of the source sum up to less than 2**62
        Returns (value, uint8[n] 1 on the source's side); the sink's side is minimum. If `enough` reached
        the sink, the value is that of a flow, a lower bound for every cut, and the side None.
        Cost: as `maximum_flow`, without new memory.
        """
        check_length(capacity, self.m)
        cdef bint complete
        cdef int v
        with nogil:
            complete = self.cut(&capacity[0] if self.m else NULL, enough)
        if not complete:
            return self.value(), None
        side = np.empty(self.n, np.uint8)
        cdef unsigned char[::1] out = side
        for v in range(self.n):
            out[v] = self.on_source_side(v)
        return self.value(), side

    cdef int load(self, int n, int64_t m, const int* tail, const int* head, int source, int sink) except -1 nogil:
        """Store arcs by their tail. Nothing else takes memory."""
        cdef int64_t i, a, b
        self.n, self.m, self.source, self.sink, self.patience = n, m, source, sink, 4 * n + 2 * m
        assign(self.begin, n + 2, 0)
        self.excess.resize(n)
        self.height.resize(n)
        self.to.resize(2 * m)
        self.residual.resize(2 * m)
        self.sister.resize(2 * m)
        self.place.resize(m)
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
        for i in range(m):                 # begin[v + 1] moves to the end of the arcs of v
            a = self.begin[tail[i] + 1]
            self.begin[tail[i] + 1] += 1
            b = self.begin[head[i] + 1]
            self.begin[head[i] + 1] += 1
            self.to[a], self.sister[a] = head[i], b
            self.to[b], self.sister[b] = tail[i], a
            self.place[i] = a

    cdef void fill(self, const int64_t* capacity) noexcept nogil:
        """Set new capacities; all of the source's arcs are saturated."""
        cdef int64_t i, a
        cdef int v
        for v in range(self.n):
            self.excess[v] = 0
            self.height[v] = self.n
        for i in range(self.m):
            a = self.place[i]
            self.residual[a] = capacity[i]
            self.residual[self.sister[a]] = 0
        self.roof = -1
        for a in range(self.begin[self.source], self.begin[self.source + 1]):
            if self.residual[a] > 0:
                self.push(self.source, a, self.residual[a])

    cdef bint cut(self, const int64_t* capacity, int64_t enough) noexcept nogil:
        """Send the maximum to the sink; excess may stay elsewhere. Returns False if `enough` came first."""
        self.fill(capacity)
        return self.run(self.sink, enough)

    cdef int64_t value(self) noexcept nogil:
        return self.excess[self.sink]

    cdef bint on_source_side(self, int v) noexcept nogil:
        """True if a vertex cannot reach the sink, after a complete `cut`."""
        return self.height[v] >= self.n

    cdef void push(self, int v, int64_t a, int64_t amount) noexcept nogil:
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
        cdef int64_t a
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
        """Raise a vertex above its lowest possible target."""
        cdef int lowest = self.n, old = self.height[v]
        cdef int64_t a
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
        cdef int64_t a, end = self.begin[v + 1]
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

    cdef bint run(self, int target, int64_t enough) noexcept nogil:
        """Bring every excess to the target that can reach it. Returns False if `enough` came first."""
        cdef int v
        self.target = target
        while self.measure():
            if self.excess[target] >= enough:
                return False
            while self.highest >= 0 and self.work < self.patience:
                v = self.first[self.highest]
                if v < 0:
                    self.highest -= 1
                    continue
                self.first[self.highest] = self.following[v]
                if self.highest <= self.roof:
                    self.discharge(v)
                    if self.excess[target] >= enough:
                        return False
        return True
