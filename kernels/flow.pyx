# distutils: language = c++
"""Integer maximum flow and minimum cuts by highest-label push-relabel with global relabelling (Goldberg, Tarjan)."""

import numpy as np

cimport cython
from libcpp.vector cimport vector
from remat_algos.kernels.growing cimport assign
from remat_algos.kernels.types cimport ENDLESS, Int32s, Int64s, int64_t


def maximum_flow(int n, Int32s tail, Int32s head, Int64s capacity, int source, int sink):
    """Return a maximum flow from a source to a sink, and two minimum cuts.

    tail, head : int32[m] vertices 0 to n - 1; capacity : int64[m] 0 or more, each below 2**62; the capacities of the
    arcs out of the source also sum to less than 2**62; source != sink
    Returns (value, flow int64[m], source_side uint8[n], sink_side uint8[n]). In the residual network, source_side are
    the vertices reachable from the source, sink_side those from which the sink is reachable. The arcs that leave the
    source side are a minimum cut, and so are the arcs that enter the sink side.
    Cost: O(n^2 sqrt(m)) time in the worst case, usually a small multiple of n + m; O(n + m) memory.
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
        # Excess that cannot reach the sink flows back to the source, so that the preflow becomes a flow.
        network.run(source, ENDLESS)
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
    """FlowNetwork(n, tail, head, source, sink): a residual network with a preflow.

    tail, head : int32[m] vertices 0 to n - 1; source != sink. In a preflow, more flow may enter a vertex than leave it;
    the difference is its excess. `run` moves excess to a target, the sink or the source.

    The arcs of vertex v are begin[v] <= a < begin[v + 1]. Arc a leads to `to[a]`, its reverse arc is `sister[a]`, and
    the caller's arc i is arc place[i]. Arcs of v before at[v] are not admissible until v is relabelled. height[v] is a
    lower bound on the distance of v to the target, and n if v cannot reach it. If an arc from v to w has residual
    capacity, height[v] is at most height[w] + 1. crowd[h] is the number of vertices of height h. If it is 0, no vertex
    above height h can reach the target; nor can any vertex above height `roof`. Vertices with excess and height h form
    a linked list: first[h], following[first[h]], ..., -1. `work` counts the arcs read since the heights were last
    recomputed as exact distances. They are recomputed once `work` exceeds `patience`.
    """

    def __cinit__(self, int n, Int32s tail, Int32s head, int source, int sink):
        cdef int64_t m = tail.shape[0]
        if head.shape[0] != m:
            raise ValueError(f"there are {head.shape[0]} heads for {m} tails")
        with nogil:
            self.load(n, m, &tail[0] if m else NULL, &head[0] if m else NULL, source, sink)

    def minimum_cut(self, Int64s capacity, int64_t enough=ENDLESS):
        """Return a minimum cut for new capacities, or stop at a flow of at least `enough`.

        capacity : int64[m] 0 or more; the capacities of the arcs out of the source sum to less than 2**62
        Returns (value, side uint8[n]); side is 1 on the source side, and the sink side is as small as possible. If at
        least `enough` flow reached the sink, the value is that of the flow, a lower bound on every cut, and the side is
        None.
        Cost: as `maximum_flow`, without allocating memory.
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
        """Store the arcs, sorted by tail. No other function allocates memory."""
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
        # While arcs are stored, begin[v + 1] is the position for the next arc of v; afterwards it is the end of its
        # arcs.
        for i in range(m):
            a = self.begin[tail[i] + 1]
            self.begin[tail[i] + 1] += 1
            b = self.begin[head[i] + 1]
            self.begin[head[i] + 1] += 1
            self.to[a], self.sister[a] = head[i], b
            self.to[b], self.sister[b] = tail[i], a
            self.place[i] = a

    cdef void fill(self, const int64_t* capacity) noexcept nogil:
        """Set new capacities and saturate all arcs out of the source."""
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
        """Send a maximum preflow to the sink; return False if it stopped early because `enough` reached the sink."""
        self.fill(capacity)
        return self.run(self.sink, enough)

    cdef int64_t value(self) noexcept nogil:
        return self.excess[self.sink]

    cdef bint on_source_side(self, int v) noexcept nogil:
        """Return True if a vertex cannot reach the sink; valid after a complete `cut`."""
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
        """Add a vertex with excess to the list of its height, unless it cannot reach the target."""
        cdef int h = self.height[v]
        if v != self.source and v != self.sink and h <= self.roof:
            self.following[v] = self.first[h]
            self.first[h] = v
            self.highest = max(self.highest, h)

    cdef int reach(self, int start, bint backwards) noexcept nogil:
        """Set each height to the distance of the vertex from `start`; return the number of finite heights.

        If `backwards`, the height is the distance from the vertex to `start`.
        """
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
        """Recompute exact heights; return True if some excess can still reach the target."""
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
        """Relabel a vertex: its height becomes that of its lowest residual neighbour plus one."""
        cdef int lowest = self.n, old = self.height[v]
        cdef int64_t a
        self.work += self.begin[v + 1] - self.begin[v]
        for a in range(self.begin[v], self.begin[v + 1]):
            if self.residual[a] > 0 and self.height[self.to[a]] < lowest:
                lowest = self.height[self.to[a]]
                self.at[v] = a
        self.crowd[old] -= 1
        # Gap heuristic: no vertex above an empty height can reach the target.
        if self.crowd[old] == 0:
            self.roof = min(self.roof, old - 1)
        self.height[v] = min(lowest + 1, self.n)
        self.crowd[self.height[v]] += 1
        if self.height[v] == self.roof + 1 and self.crowd[old] > 0:
            self.roof += 1

    cdef void discharge(self, int v) noexcept nogil:
        """Push excess of a vertex along admissible arcs until none is left; otherwise relabel the vertex."""
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
        """Move all excess that can reach the target to it; return False if it stopped early at `enough`."""
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
