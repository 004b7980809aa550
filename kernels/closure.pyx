# distutils: language = c++
"""The closure bound: a lower bound on the recomputed compute of every schedule within a limit.

The bound considers one moment of the schedule, the first run of a node. At this moment, each value that is computed
before and read later is either live or recomputed later. With a price per live byte (a Lagrange multiplier), the
cheapest choice is a minimum cut. A price is p / 2**shift units of scaled cost per byte.
"""

import numpy as np

cimport cython
from libc.stdint cimport uint64_t
from libcpp.vector cimport vector
from remat_algos.kernels.flow cimport FlowNetwork
from remat_algos.kernels.graph cimport GraphArrays
from remat_algos.kernels.growing cimport assign
from remat_algos.kernels.types cimport ENDLESS, Flags, Int32s, Int64s, int64_t

cdef enum:
    UNMARKED, FORCED, READ_LATER, READ_AGAIN
    ANCESTOR = 1, DESCENDANT = 2
    # Maximum number of minimum cuts per moment (see ClosureSearch); usually a few are enough.
    MAX_CUTS = 60


# ---------------------------------------------------------------- integers of 128 bits

cdef inline uint64_t product(uint64_t a, uint64_t b, uint64_t* high) noexcept nogil:
    """Return the low word of a * b, and store the high word in `high`."""
    cdef uint64_t low = 0xffffffff, a0 = a & low, a1 = a >> 32, b0 = b & low, b1 = b >> 32
    cdef uint64_t middle = a1 * b0 + (a0 * b0 >> 32), other = a0 * b1 + (middle & low)
    high[0] = a1 * b1 + (middle >> 32) + (other >> 32)
    return a * b


cdef inline int64_t priced(int64_t p, int64_t amount, int shift, int64_t most) noexcept nogil:
    """Return min(floor(p * amount / 2**shift), most) for nonnegative arguments."""
    cdef uint64_t high, low = product(p, amount, &high)
    if shift >= 128:
        return 0
    if shift >= 64:
        low, high = high >> (shift - 64), 0
    elif shift > 0:
        low, high = low >> shift | high << (64 - shift), high >> shift
    return most if high or low > <uint64_t>most else <int64_t>low


cdef inline bint no_larger(int64_t a, int64_t b, int64_t c, int64_t d) noexcept nogil:
    """Return True if a * b <= c * d, for nonnegative arguments."""
    cdef uint64_t high, other, low = product(a, b, &high), below = product(c, d, &other)
    return high < other or (high == other and low <= below)


cdef inline int64_t quotient(int64_t a, int64_t b, int* shift) noexcept nogil:
    """Set shift and return p = floor(2**shift * a / b). p has at least 53 significant bits, unless shift is 62."""
    cdef int64_t p = a // b, rest = a % b
    shift[0] = 0
    while shift[0] < 62 and p < (<int64_t>1) << 52:
        rest *= 2
        p *= 2
        if rest >= b:
            rest -= b
            p += 1
        shift[0] += 1
    return p


# ---------------------------------------------------------------- bytes

def forced_bytes(GraphArrays graph not None, Flags single, Int32s pins, int64_t work):
    """Return a lower bound on the bytes live during the first run of each needed node, in every schedule.

    single : uint8[n] flags of the nodes that run only once; pins : int32[*] nodes whose values may be live while other
    nodes run, the most important first; work : number of reads after which the remaining pins are skipped
    Returns (int64[n] with 0 for nodes that are not needed, number of tested pins).
    Cost: O(n + k) time for each pin, O(n) memory.
    """
    cdef Py_ssize_t n = graph.n_nodes, i, done
    cdef int64_t j, x
    cdef int v
    cdef _Walk walk = _Walk()
    forced = np.zeros(n, np.int64)
    cdef int64_t[::1] out = forced
    with nogil:
        walk.start(n)
        for v in range(n):
            if graph.needed[v]:
                out[v] = graph.workspace[v]
                for x in range(graph.value_indptr[v], graph.value_indptr[v + 1]):
                    out[v] += graph.memory[x]
                for j in range(graph.read_indptr[v], graph.read_indptr[v + 1]):
                    out[v] += graph.memory[graph.read_indices[j]]
        for done in range(pins.shape[0]):
            if walk.work > work:
                break
            walk.clear()
            walk.descend(graph, pins[done])
            for x in range(graph.value_indptr[pins[done]], graph.value_indptr[pins[done] + 1]):
                # An output is live from its first run to the end.
                if graph.output[x]:
                    for i in range(<Py_ssize_t>walk.below.size()):
                        out[walk.below[i]] += graph.memory[x]
                # A value that is never recomputed is live until its last reader has run.
                elif single[pins[done]]:
                    for j in range(graph.reader_indptr[x], graph.reader_indptr[x + 1]):
                        if graph.needed[graph.reader_indices[j]]:
                            walk.ascend(graph, graph.reader_indices[j], True)
                    for i in range(<Py_ssize_t>walk.above.size()):
                        out[walk.above[i]] += graph.memory[x]
                    walk.forget_above()
                else:
                    continue
                for j in range(graph.reader_indptr[x], graph.reader_indptr[x + 1]):
                    if graph.needed[graph.reader_indices[j]]:
                        out[graph.reader_indices[j]] -= graph.memory[x]
        else:
            done = pins.shape[0]
    return forced, done


def two_path_bytes(GraphArrays graph not None, Int64s live, Int32s nodes, int64_t bound, int64_t work):
    """Return the best lower bound above `bound` that two nodes with paths to a third node prove (see `two_path_bound`).

    live : int64[n] bytes that are live whenever a node runs; nodes : int32[*] candidates in order of decreasing
    bytes, whose pairs are tried in this order; work : number of reads after which the search stops
    Returns (bytes, first node, second node); the nodes are -1 if no pair proves more than `bound`.
    Cost: O(n + k) time for each pair, O(n + n_values) memory.
    """
    cdef Py_ssize_t n = graph.n_nodes, i, j
    cdef int s = -1, t = -1, v, first = -1, second = -1
    cdef int64_t largest = 0, done = 0, x
    # For each value: 1 if node s of the current pair reads or computes it, plus 2 if node t does.
    cdef vector[unsigned char] around
    cdef vector[int64_t] from_first, from_second
    # For each node, the bytes of its largest value that is not an output. No path that starts
    # at the node has a larger width (see `widest`).
    cdef vector[int64_t] largest_of
    with nogil:
        assign(around, graph.n_values, <unsigned char>0)
        assign(from_first, n, <int64_t>0)
        assign(from_second, n, <int64_t>0)
        assign(largest_of, n, <int64_t>0)
        for x in range(graph.n_values):
            if graph.needed[graph.producer[x]] and not graph.output[x]:
                largest_of[graph.producer[x]] = max(largest_of[graph.producer[x]], graph.memory[x])
                largest = max(largest, graph.memory[x])
        for j in range(1, nodes.shape[0]):
            t = nodes[j]
            if done > work or live[t] + largest <= bound:
                break
            surround(graph, t, 2, True, around)
            for i in range(j):
                s = nodes[i]
                if min(live[t] + largest_of[s], live[s] + largest_of[t]) <= bound:
                    continue
                surround(graph, s, 1, True, around)
                for v in range(min(s, t) + 1, <int>n):
                    if graph.needed[v]:
                        from_first[v] = widest(graph, v, s, min(s, t), 2, from_first, around)
                        from_second[v] = widest(graph, v, t, min(s, t), 1, from_second, around)
                        if from_first[v] and from_second[v] and (
                            min(live[t] + from_first[v], live[s] + from_second[v]) > bound
                        ):
                            bound = min(live[t] + from_first[v], live[s] + from_second[v])
                            first, second = s, t
                done += graph.read_indptr[n] - graph.read_indptr[min(s, t)] + n - min(s, t)
                surround(graph, s, 1, False, around)
            surround(graph, t, 2, False, around)
    return bound, first, second


cdef void surround(GraphArrays graph, int v, unsigned char bit, bint on, vector[unsigned char]& around) noexcept nogil:
    """Set or clear a bit for each value that a node reads or computes."""
    cdef int64_t j
    cdef int x
    for j in range(graph.value_indptr[v], graph.value_indptr[v + 1]):
        around[j] = around[j] | bit if on else around[j] & ~bit
    for j in range(graph.read_indptr[v], graph.read_indptr[v + 1]):
        x = graph.read_indices[j]
        around[x] = around[x] | bit if on else around[x] & ~bit


cdef int64_t widest(GraphArrays graph, int v, int source, int begin, unsigned char avoided, vector[int64_t]& width,
                    vector[unsigned char]& around) noexcept nogil:
    """Return the width of the widest path from `source` to v, or 0 if there is no path.

    The width of a path is the size of its smallest value. Paths through outputs, values with the bit `avoided`, or
    nodes before `begin` do not count.
    """
    cdef int64_t best = 0, j, here
    cdef int x
    for j in range(graph.read_indptr[v], graph.read_indptr[v + 1]):
        x = graph.read_indices[j]
        if graph.producer[x] >= begin and not graph.output[x] and not around[x] & avoided:
            here = graph.memory[x] if graph.producer[x] == source else min(graph.memory[x], width[graph.producer[x]])
            best = max(best, here)
    return best


@cython.final
cdef class _Walk:
    """The descendants and the ancestors of a node, as lists and as marks; `work` is the number of visited reads."""
    cdef vector[unsigned char] mark
    cdef vector[int] above, below
    cdef int64_t work

    cdef int start(self, Py_ssize_t n) except -1 nogil:
        assign(self.mark, n, <unsigned char>UNMARKED)
        self.above.reserve(n)
        self.below.reserve(n)
        self.work = 0

    cdef void clear(self) noexcept nogil:
        cdef size_t i
        self.forget_above()
        for i in range(self.below.size()):
            self.mark[self.below[i]] = UNMARKED
        self.below.clear()

    cdef void forget_above(self) noexcept nogil:
        cdef size_t i
        for i in range(self.above.size()):
            self.mark[self.above[i]] &= ~ANCESTOR
        self.above.clear()

    cdef void descend(self, GraphArrays graph, int v) noexcept nogil:
        """Mark the descendants of v on which an output depends, without v itself."""
        cdef size_t at = 0
        cdef int64_t j
        cdef int w
        while True:
            for j in range(graph.reader_indptr[graph.value_indptr[v]], graph.reader_indptr[graph.value_indptr[v + 1]]):
                w = graph.reader_indices[j]
                if graph.needed[w] and not self.mark[w] & DESCENDANT:
                    self.mark[w] |= DESCENDANT
                    self.below.push_back(w)    # capacity was reserved
            self.work += 1 + graph.reader_indptr[graph.value_indptr[v + 1]] - graph.reader_indptr[graph.value_indptr[v]]
            if at == self.below.size():
                return
            v = self.below[at]
            at += 1

    cdef void ascend(self, GraphArrays graph, int v, bint among_descendants) noexcept nogil:
        """Mark v and its ancestors; with `among_descendants`, only ancestors that are marked as descendants."""
        cdef size_t at = self.above.size()
        cdef int64_t j
        cdef int u
        if self.mark[v] & ANCESTOR:
            return
        self.mark[v] |= ANCESTOR
        self.above.push_back(v)
        while at < self.above.size():
            v = self.above[at]
            at += 1
            for j in range(graph.read_indptr[v], graph.read_indptr[v + 1]):
                u = graph.producer[graph.read_indices[j]]
                if not self.mark[u] & ANCESTOR and (not among_descendants or self.mark[u] & DESCENDANT):
                    self.mark[u] |= ANCESTOR
                    self.above.push_back(u)
            self.work += 1 + graph.read_indptr[v + 1] - graph.read_indptr[v]


# ---------------------------------------------------------------- cuts

@cython.final
cdef class _PricedNetwork:
    """A flow network in which the capacity of an arc is fixed, or is its bytes times the price per byte.

    Vertex 0 is the source, vertex 1 the sink. cut_cost is the sum of the fixed capacities in the last minimum cut, and
    cut_bytes the sum of the bytes of the other arcs in that cut. `most` is the maximum capacity of an arc with bytes.
    `work` is in units of about a nanosecond.
    """
    cdef FlowNetwork flow
    cdef int n_vertices
    cdef vector[int] tail, head
    cdef vector[int64_t] bytes, fixed, capacity    # indexed by arc
    cdef int64_t most, cut_cost, cut_bytes, work

    def __init__(self, int64_t most):
        none = np.zeros(0, np.int32)
        self.flow, self.most = FlowNetwork(2, none, none, 0, 1), most

    cdef void start(self, int n_vertices) noexcept nogil:
        """Begin a network without arcs."""
        self.tail.clear()
        self.head.clear()
        self.bytes.clear()
        self.fixed.clear()
        self.n_vertices = n_vertices

    cdef int add_vertex(self) noexcept nogil:
        self.n_vertices += 1
        return self.n_vertices - 1

    cdef int arc(self, int tail, int head, int64_t bytes, int64_t fixed) except -1 nogil:
        """Add an arc; `fixed` is its capacity, or -1 if the capacity is `bytes` times the price."""
        self.tail.push_back(tail)
        self.head.push_back(head)
        self.bytes.push_back(bytes)
        self.fixed.push_back(fixed)

    cdef int load(self) except -1 nogil:
        """Load the network into the flow solver, after the last arc has been added."""
        self.capacity.resize(self.tail.size())
        self.flow.load(self.n_vertices, self.tail.size(), self.tail.data(), self.head.data(), 0, 1)
        self.work += 20 * <int64_t>self.tail.size()

    cdef int64_t cut(self, int64_t price, int shift) noexcept nogil:
        """Compute a minimum cut at a price; return its capacity."""
        cdef size_t i
        for i in range(self.tail.size()):
            self.capacity[i] = self.fixed[i]
            if self.fixed[i] < 0:
                self.capacity[i] = priced(price, self.bytes[i], shift, self.most)
        return self.finish()

    cdef int64_t finish(self) noexcept nogil:
        cdef size_t i
        self.flow.cut(self.capacity.data(), ENDLESS)
        self.cut_cost = self.cut_bytes = 0
        for i in range(self.tail.size()):
            if self.flow.on_source_side(self.tail[i]) and not self.flow.on_source_side(self.head[i]):
                if self.fixed[i] < 0:
                    self.cut_bytes += self.bytes[i]
                else:
                    self.cut_cost += self.fixed[i]
        self.work += 100 * <int64_t>self.tail.size()
        return self.flow.value()

    cdef int64_t fewest_bytes(self) noexcept nogil:
        """Return the minimum live bytes, without forced values, if recomputing any node costs nothing.

        Forced values are live in every schedule.
        """
        cdef size_t i
        for i in range(self.tail.size()):
            self.capacity[i] = min(self.bytes[i], self.most) if self.fixed[i] < 0 else self.fixed[i]
            if self.fixed[i] >= 0 and self.fixed[i] < ENDLESS:
                self.capacity[i] = 0
        return self.finish()

    cdef int64_t bytes_of_one_pass(self) noexcept nogil:
        """Return the minimum live bytes, without forced values, if only nodes of cost 0 are recomputed."""
        cdef size_t i
        for i in range(self.tail.size()):
            self.capacity[i] = min(self.bytes[i], self.most) if self.fixed[i] < 0 else ENDLESS if self.fixed[i] else 0
        self.finish()
        return self.cut_bytes


@cython.final
cdef class ClosureSearch:
    """ClosureSearch(graph, single, cost, bits=, step=, most=): search for the maximum lower bound on the overhead.

    A moment and a price give one bound, by a minimum cut.

    single : uint8[n] flags of the nodes that run only once; cost : int64[n] in units of 2**-bits, rounded down;
    step : a divisor of every overhead, in whole units of compute; most : maximum capacity of an arc with bytes.
    The caller ensures that (sum of cost + 1) * (n_values + 2) and most * (n_values + 2) are at most 2**61, so that all
    sums are below 2**62.

    The moment is the first run of a node v. Its ancestors have run before, and its descendants have not. The other
    nodes, called free, may have run or not. Consider the values that are computed before the moment and read after it.
    Some of them are live in every schedule: these are the forced values. Each other value is live, or its node is
    recomputed after the moment.

    The network has these vertices, besides the source and the sink: one for each node that may run after the moment (on
    the source side if it does); a second one for each free node (on the source side if it has not run before); and one
    for each value that several nodes may read after the moment. Cutting an arc into a node means that the bytes of the
    arc are live. Cutting an arc from a node to the sink, or from the first to the second vertex of a free node, means
    that the node is recomputed.

    For each price, minimum cut + price * (forced bytes - limit) is the Lagrangian dual D. D is at most the overhead of
    every schedule within the limit, and concave in the price. A cut of cost c with b live bytes, forced bytes excluded,
    shows that D is at most c + price * (forced + b - limit), which is a line in the price.

    Cost: O(n + k) memory, and for each moment O(n + k) time for the network and for each of a few minimum cuts. Minimum
    cuts occasionally take much longer.
    """
    cdef GraphArrays graph
    cdef Flags single
    cdef Int64s cost
    cdef int bits
    # A value of the dual above `threshold` improves the bound.
    cdef int64_t step, threshold
    cdef readonly int64_t limit, overhead, price, excessive
    cdef readonly int node, shift, too_large
    cdef _PricedNetwork network
    cdef _Walk walk
    cdef vector[unsigned char] state       # indexed by value
    # vertex: for each node, its vertex, 0 for none. vertices: the nodes that have a vertex.
    cdef vector[int] vertex, vertices
    # For each entry of `vertices`: the second vertex of a free node, 0 for other nodes.
    cdef vector[int] not_before
    cdef vector[int] pinned                # needed nodes with outputs
    cdef bint any_free
    # marked: the values with a state. junction, times: for each value, its vertex (0 for none) and the number of nodes
    # that may read it after the moment.
    cdef vector[int] marked, junction, times
    # Capacity in bytes of the arc from the source to each entry of `vertices`.
    cdef vector[int64_t] later
    cdef int64_t forced
    # passing: bytes of the cut that recomputes nothing. all_cost, single_bytes: cost and bytes of the cut that
    # recomputes all nodes that may be recomputed. All three are valid only if there are no free nodes.
    cdef int64_t passing, all_cost, single_bytes
    # Weighted number of the reads visited, without those visited by minimum cuts.
    cdef int64_t looked

    def __init__(self, GraphArrays graph not None, Flags single not None, Int64s cost not None, *, int bits,
                 int64_t step, int64_t most):
        cdef Py_ssize_t n = graph.n_nodes, n_values = graph.n_values
        if not n == single.shape[0] == cost.shape[0]:
            raise ValueError("the arrays of nodes differ in length")
        self.graph, self.single, self.cost = graph, single, cost
        self.bits, self.step = bits, step
        self.network, self.walk = _PricedNetwork(most), _Walk()
        cdef Py_ssize_t x
        with nogil:
            for x in range(n_values):
                if graph.output[x] and graph.needed[graph.producer[x]] and (
                    self.pinned.empty() or self.pinned.back() != graph.producer[x]
                ):
                    self.pinned.push_back(graph.producer[x])
            self.walk.start(n)
            assign(self.state, n_values, <unsigned char>UNMARKED)
            assign(self.junction, n_values, 0)
            assign(self.times, n_values, 0)
            assign(self.vertex, n, 0)
        self.aim(0)

    def aim(self, int64_t limit):
        """Restart the search with another limit in bytes, 0 or more."""
        self.limit, self.overhead, self.threshold = limit, 0, 0
        self.node, self.price, self.shift, self.too_large, self.excessive = -1, 0, 0, -1, 0

    cdef int check(self, int v) except -1:
        if not 0 <= v < self.graph.n_nodes:
            raise ValueError(f"node {v} is not one of {self.graph.n_nodes}")
        return 0

    def visit(self, Int32s nodes, Py_ssize_t begin, int64_t work):
        """Improve the bound with the first runs of nodes[begin:] as moments; return the position to continue from.

        nodes : int32[*] needed nodes; work : limit in units of about a nanosecond. Afterwards `overhead` is a lower
        bound on the overhead. It is proved at the first run of `node`, with the price `price` / 2**shift. `too_large`
        is -1, or a node during whose first run at least `excessive` bytes are live, which proves that no schedule is
        within the limit.
        """
        cdef Py_ssize_t i
        for i in range(begin, nodes.shape[0]):
            self.check(nodes[i])
        self.looked = self.network.work = 0
        with nogil:
            while begin < nodes.shape[0] and self.looked + self.network.work < work and self.too_large < 0:
                self.improve(nodes[begin])
                begin += 1
        return begin

    @property
    def work(self):
        """Work of the last `visit`, in units of about a nanosecond."""
        return self.looked + self.network.work

    def start(self, int v, int64_t price, int shift):
        """Evaluate one moment at one price (0 to 2**62); set `overhead` and `too_large` as `visit` does."""
        self.check(v)
        with nogil:
            self.build(v)
            if self.forced > self.limit:
                self.too_large, self.excessive = v, self.forced
            else:
                self.connect()
                self.evaluate(v, price, shift)

    def side(self, int v, int64_t price, int shift):
        """Return what the minimum cut of one moment at one price chooses.

        Returns (forced bytes, forced values, recomputed nodes, other live values, free nodes that have run before).
        """
        self.check(v)
        self.build(v)
        self.connect()
        self.network.cut(price, shift)
        forced = [x for x in self.marked if self.state[x] == FORCED]
        after = {i for k, i in enumerate(self.vertices) if self.network.flow.on_source_side(k + 2)}
        free = [(i, self.not_before[k]) for k, i in enumerate(self.vertices) if self.not_before[k]]
        before = [i for i, other in free if not self.network.flow.on_source_side(other)]
        again = after.difference(i for i, _ in free) | after.intersection(before)
        live = [
            x
            for x in self.marked
            if self.graph.producer[x] not in after and (
                self.state[x] == READ_LATER
                or self.state[x] == READ_AGAIN and any(
                    self.graph.reader_indices[j] in after
                    for j in range(self.graph.reader_indptr[x], self.graph.reader_indptr[x + 1])
                )
            )
        ]
        for i in before:
            values = range(self.graph.value_indptr[i], self.graph.value_indptr[i + 1])
            live += [x for x in values if self.graph.output[x]]
        return self.forced, *(np.array(sorted(ids), np.int32) for ids in (forced, again, live, before))

    # ------------------------------------------------------------ the network for a moment

    cdef int build(self, int v) except -1 nogil:
        """Collect the forced values, and the nodes that may run after the first run of v, for `connect`."""
        cdef size_t i
        cdef int64_t j, x
        cdef int u
        for i in range(self.marked.size()):
            self.state[self.marked[i]] = UNMARKED
        for i in range(self.vertices.size()):
            self.vertex[self.vertices[i]] = 0
        self.marked.clear()
        self.vertices.clear()
        self.later.clear()
        self.walk.clear()
        self.walk.descend(self.graph, v)
        self.walk.ascend(self.graph, v, False)
        self.forced, self.passing, self.all_cost, self.single_bytes = self.graph.workspace[v], 0, 0, 0
        for x in range(self.graph.value_indptr[v], self.graph.value_indptr[v + 1]):
            self.force(<int>x)
        for j in range(self.graph.read_indptr[v], self.graph.read_indptr[v + 1]):
            self.force(self.graph.read_indices[j])
        for i in range(self.walk.above.size()):
            u = self.walk.above[i]
            for x in range(self.graph.value_indptr[u], self.graph.value_indptr[u + 1]):
                if self.graph.output[x]:
                    self.force(<int>x)
        for i in range(self.pinned.size()):
            if self.is_free(self.pinned[i]):
                self.vertex_of(self.pinned[i])
        for i in range(self.walk.below.size()):
            u = self.walk.below[i]
            for j in range(self.graph.read_indptr[u], self.graph.read_indptr[u + 1]):
                self.read_later(self.graph.read_indices[j])
        self.any_free = False
        i = 0
        # `read_again` appends to the list during the loop.
        while i < self.vertices.size():
            u = self.vertices[i]
            i += 1
            if self.is_free(u):
                self.any_free = True
            elif self.single[u]:
                continue
            else:
                self.all_cost += self.cost[u]
            for j in range(self.graph.read_indptr[u], self.graph.read_indptr[u + 1]):
                self.read_again(self.graph.read_indices[j])
        self.looked += 8 * (self.walk.work + <int64_t>(self.vertices.size() + self.marked.size()))
        self.walk.work = 0

    cdef int force(self, int x) except -1 nogil:
        if self.state[x] == UNMARKED:
            self.state[x] = FORCED
            self.marked.push_back(x)
            self.forced += self.graph.memory[x]

    cdef inline bint is_free(self, int u) noexcept nogil:
        """Return True if a needed node is neither an ancestor nor a descendant of the node of the moment."""
        return self.walk.mark[u] == UNMARKED

    cdef int read_later(self, int x) except -1 nogil:
        """Record a read of x by a descendant: x is live at the moment, or its node runs after the moment.

        Outputs of free nodes are skipped, because `connect` adds arcs for them.
        """
        cdef int u = self.graph.producer[x]
        if self.state[x] != UNMARKED or self.walk.mark[u] & DESCENDANT:
            return 0
        if self.is_free(u):
            if self.graph.output[x]:
                return 0
        elif self.single[u]:
            return self.force(x)
        self.state[x] = READ_LATER
        self.marked.push_back(x)
        self.passing += self.graph.memory[x]
        self.later[self.vertex_of(u) - 2] += self.graph.memory[x]

    cdef int read_again(self, int x) except -1 nogil:
        """Record a read of x by a node that may run after the moment."""
        if self.graph.output[x] and self.is_free(self.graph.producer[x]):
            return 0
        if self.state[x] == UNMARKED:
            self.state[x], self.times[x], self.junction[x] = READ_AGAIN, 1, 0
            self.marked.push_back(x)
            self.vertex_of(self.graph.producer[x])
            if self.single[self.graph.producer[x]]:
                self.single_bytes += self.graph.memory[x]
        elif self.state[x] == READ_AGAIN:
            self.times[x] += 1

    cdef int vertex_of(self, int u) except -1 nogil:
        if self.vertex[u] == 0:
            self.vertices.push_back(u)
            self.later.push_back(0)
            self.vertex[u] = <int>self.vertices.size() + 1
        return self.vertex[u]

    cdef int connect(self) except -1 nogil:
        """Add all arcs of the network, as the class describes them."""
        cdef size_t k
        cdef int64_t j, x, output_bytes, cost, first, last
        cdef int u, v, w
        self.network.start(<int>self.vertices.size() + 2)
        assign(self.not_before, self.vertices.size(), 0)
        if self.any_free:
            for k in range(self.vertices.size()):
                if self.is_free(self.vertices[k]):
                    self.not_before[k] = self.network.add_vertex()
        for k in range(self.vertices.size()):
            u, v = self.vertices[k], <int>k + 2
            cost = ENDLESS if self.single[u] else self.cost[u]
            if self.later[k] > 0:
                self.network.arc(0, v, self.later[k], -1)
            if self.not_before[k]:
                self.network.arc(v, self.not_before[k], 0, cost)
                self.network.arc(self.not_before[k], v, 0, ENDLESS)
                output_bytes = 0
                for x in range(self.graph.value_indptr[u], self.graph.value_indptr[u + 1]):
                    output_bytes += self.graph.memory[x] if self.graph.output[x] else 0
                if output_bytes:
                    self.network.arc(0, self.not_before[k], output_bytes, -1)
                first, last = self.graph.value_indptr[u], self.graph.value_indptr[u + 1]
                for j in range(self.graph.reader_indptr[first], self.graph.reader_indptr[last]):
                    w = self.graph.reader_indices[j]
                    if self.graph.needed[w] and self.is_free(w):
                        self.network.arc(self.not_before[k], self.not_before[self.vertex[w] - 2], 0, ENDLESS)
            else:
                self.network.arc(v, 1, 0, cost)
                if self.single[u]:
                    continue
            for j in range(self.graph.read_indptr[u], self.graph.read_indptr[u + 1]):
                x = self.graph.read_indices[j]
                if self.state[x] != READ_AGAIN:
                    continue
                if self.times[x] == 1:
                    self.network.arc(v, self.vertex[self.graph.producer[x]], self.graph.memory[x], -1)
                    continue
                if self.junction[x] == 0:
                    self.junction[x] = self.network.add_vertex()
                    self.network.arc(self.junction[x], self.vertex[self.graph.producer[x]], self.graph.memory[x], -1)
                self.network.arc(v, self.junction[x], 0, ENDLESS)
        self.network.load()

    # ------------------------------------------------------------ prices

    cdef void evaluate(self, int v, int64_t price, int shift) noexcept nogil:
        """Compute the dual of a moment at a price; if it improves the bound, store bound, moment and price."""
        cdef int64_t value = self.network.cut(price, shift) - priced(price, self.limit - self.forced, shift, ENDLESS)
        if value > self.threshold:
            self.node, self.price, self.shift = v, price, shift
            self.overhead = self.rounded(value)
            self.threshold = self.overhead << self.bits if self.bits >= 0 else self.overhead >> -self.bits

    cdef int64_t rounded(self, int64_t value) noexcept nogil:
        """Return the overhead that a positive value of the dual proves, rounded up to a multiple of `step`."""
        if self.bits >= 0:
            value = ((value - 1) >> self.bits) + 1
        else:
            value <<= -self.bits
        return (value + self.step - 1) // self.step * self.step

    cdef int improve(self, int v) except -1 nogil:
        """Maximize the dual of a moment over the price, or stop as soon as it cannot improve the bound.

        Each cut bounds the dual by a line in the price. The maximum is at the intersection of two such lines: one that
        rises, from a cut with more live bytes than the limit, and one that falls, from a cut with fewer.
        """
        cdef int64_t over, cost, other_cost, bytes, other_bytes
        cdef int shift, i
        # False for the first price, which was the best price of an earlier moment. True once the price is an
        # intersection of two lines.
        cdef bint met = self.price == 0
        self.build(v)
        if self.forced > self.limit:
            self.too_large, self.excessive = v, self.forced
            return 0
        # Start with the lines of two cuts: recompute nothing, and recompute everything possible.
        cost, bytes = 0, self.passing
        other_cost, other_bytes = self.all_cost, self.single_bytes
        if self.any_free:
            self.connect()
            bytes = self.network.bytes_of_one_pass()
        over = self.forced + bytes - self.limit
        if over <= 0:
            return 0
        if self.any_free:
            other_bytes = self.network.fewest_bytes()
            if self.forced + other_bytes > self.limit:
                self.too_large, self.excessive = v, self.forced + other_bytes
                return 0
            other_cost, other_bytes = self.network.cut_cost, self.network.cut_bytes
            if no_larger(over, other_cost, self.threshold, bytes - other_bytes):
                return 0
        elif self.forced + other_bytes <= self.limit:
            if no_larger(over, other_cost, self.threshold, bytes - other_bytes):
                return 0
            self.connect()
        else:
            self.connect()
            other_bytes = self.network.fewest_bytes()
            if self.forced + other_bytes > self.limit:
                self.too_large, self.excessive = v, self.forced + other_bytes
                return 0
            other_cost, other_bytes = self.network.cut_cost, self.network.cut_bytes
        price, shift = self.price, self.shift
        for i in range(MAX_CUTS):
            if met:
                if other_cost <= cost or self.forced + other_bytes > self.limit:
                    return 0
                if self.threshold >= cost and no_larger(over, other_cost - cost, self.threshold - cost,
                                                      bytes - other_bytes):
                    return 0
                price = quotient(other_cost - cost, bytes - other_bytes, &shift)
            self.evaluate(v, price, shift)
            if (self.network.cut_cost == cost and self.network.cut_bytes == bytes) or (
                self.network.cut_cost == other_cost and self.network.cut_bytes == other_bytes
            ):
                if met:
                    return 0
            met = True
            if self.forced + self.network.cut_bytes > self.limit:
                cost, bytes = self.network.cut_cost, self.network.cut_bytes
                over = self.forced + bytes - self.limit
            else:
                other_cost, other_bytes = self.network.cut_cost, self.network.cut_bytes
