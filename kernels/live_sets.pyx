# distutils: language = c++
"""Exact search for a schedule of minimum compute within a limit, or of minimum peak.

The states are sets of live values. A move runs a node or frees a value. The search is best-first (uniform-cost search,
or A* with potentials) and allows any recomputation."""

import numpy as np

cimport cython
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libcpp.vector cimport vector
from remat_algos.kernels.bitsets cimport mix_word, remat_lowest
from remat_algos.kernels.graph cimport GraphArrays
from remat_algos.kernels.growing cimport assign
from remat_algos.kernels.types cimport ENDLESS, Int32s, Int64s

cdef extern from *:
    """
    #if defined(_MSC_VER)
    static inline int remat_highest(unsigned long long word) { unsigned long at; _BitScanReverse64(&at, word); return (int)at; }
    static inline void remat_prefetch(const void* at) { (void)at; }
    #else
    static inline int remat_highest(unsigned long long word) { return 63 - __builtin_clzll(word); }
    static inline void remat_prefetch(const void* at) { __builtin_prefetch(at); }
    #endif
    """
    # A prefetch hint, and the position of the highest set bit of a word that is not 0.
    void remat_prefetch(const void* at) nogil
    int remat_highest(uint64_t word) nogil

cdef enum:
    VALUE_BITS = 128

cdef uint32_t CLOSED_BIT = <uint32_t>1 << 31
cdef uint32_t NO_STATE = CLOSED_BIT - 1
cdef uint64_t EMPTY = NO_STATE          # free slot of the table

MAX_VALUES = VALUE_BITS
MAX_STATES = int(NO_STATE)
SOLVED, RUNNING, EXHAUSTED, FULL = 1, 0, -1, -2

cdef struct LiveSet:
    uint64_t low, high     # ids 0..63, 64..127

cdef struct LiveNode:
    # reads: values that the node reads. values: values that it computes. replaced: `values` except outputs.
    LiveSet reads, values, replaced
    # Bytes of all values of the node and of its workspace.
    int64_t bytes
    int64_t compute
    LiveSet spoils         # nodes forbidden after it
    # Outputs of the nodes after which this node is forbidden.
    LiveSet stops
    bint once


cdef struct State:
    uint64_t low           # lower half of the set
    uint32_t key           # lower half of the key
    # The preceding state on the best path. The highest bit is set if the state is closed, that is, expanded.
    uint32_t before


cdef struct Move:
    LiveSet live, needed   # after the move
    int64_t overhead
    uint64_t hash


cdef struct Potential:
    # The bound is valid until this node runs for the first time.
    Py_ssize_t node
    # Values that do not exist before that run: the values of the node and of its descendants.
    LiveSet later
    # Nodes with a positive share; `add_potential` explains shares.
    LiveSet counted
    int64_t need


cdef inline LiveSet both(LiveSet one, LiveSet other) noexcept nogil:
    one.low &= other.low
    one.high &= other.high
    return one


cdef inline LiveSet either(LiveSet one, LiveSet other) noexcept nogil:
    one.low |= other.low
    one.high |= other.high
    return one


cdef inline LiveSet without(LiveSet one, LiveSet other) noexcept nogil:
    one.low &= ~other.low
    one.high &= ~other.high
    return one


cdef inline bint is_empty(LiveSet one) noexcept nogil:
    return (one.low | one.high) == 0


cdef inline bint has(LiveSet one, Py_ssize_t place) noexcept nogil:
    return ((one.low if place < 64 else one.high) >> (place & 63)) & 1


cdef inline LiveSet single(Py_ssize_t place) noexcept nogil:
    cdef LiveSet one
    one.low = <uint64_t>1 << place if place < 64 else 0
    one.high = 0 if place < 64 else <uint64_t>1 << (place - 64)
    return one


cdef inline Py_ssize_t first_of(LiveSet one) noexcept nogil:
    return remat_lowest(one.low) if one.low else 64 + remat_lowest(one.high)


cdef inline Py_ssize_t last_of(LiveSet one) noexcept nogil:
    return 64 + remat_highest(one.high) if one.high else remat_highest(one.low)


@cython.final
cdef class LiveSetSearch:
    """The search within a limit.

    A node may run if all values that it reads are live, and if the live values and its `own` bytes fit within the
    limit. Its values are live afterwards. Values are freed one at a time, and only if this may let a node run that
    does not fit otherwise.

    The key of a set is the minimum overhead over all paths to it. The overhead of a path is the compute of all its
    runs, plus one run of each node that the set still needs, minus one run of every node. It never decreases along
    a path. With `lowest`, the key is the minimum peak over all paths, and compute does not count. Ties go to the newest
    set.

    Every node of the graph must be needed. The graph must not contain values that are neither read nor outputs;
    their bytes count only in `own`.

    own : int64[n] bytes of the workspace and all values of each node, including values that are not in the graph;
    spoiled_indptr : int64[n + 1], spoiled : int32[k] the nodes that must not run after each node; limit : bytes;
    ceiling : only sets with a smaller key are visited

    Cost: O(n) time and about 45 bytes per set, 37 with up to 64 values; there may be 2**n_values sets. With more than
    about forty nodes the search rarely finishes, but the key is a valid lower bound at any time.
    """
    cdef vector[LiveNode] nodes
    cdef int64_t memory[VALUE_BITS]
    cdef Py_ssize_t producer[VALUE_BITS]
    cdef LiveSet outputs, weightless
    cdef int64_t limit, ceiling
    cdef bint any_once, lowest
    cdef bint wide                        # more than 64 values
    cdef vector[State] states
    cdef vector[uint64_t] high
    cdef vector[uint32_t] key_high
    # Hash table with linear probing. An entry is EMPTY, or the upper half of a hash and the number of a state.
    cdef vector[uint64_t] slots
    cdef uint64_t mask
    # Moves from the state that is being expanded.
    cdef vector[Move] moves
    # Radix heap: states, grouped by the highest bit in which their key differs from the current key. Cython would never
    # free an array of vectors, so this is a vector of vectors.
    cdef vector[vector[uint32_t]] queue
    cdef readonly int64_t key
    cdef readonly int64_t n_expanded
    cdef readonly int verdict
    cdef uint32_t goal
    cdef bint begun
    # Lower bounds on the overhead of the rest of a path.
    cdef vector[Potential] potentials
    # One row per potential: the share of each node (`add_potential` explains it).
    cdef vector[int64_t] shares
    cdef int shift
    # Cache of `alive_while`: the missing outputs, and the values and nodes that may be useful for them.
    cdef LiveSet missing, alive, useful

    def __init__(self, GraphArrays graph not None, Int64s own not None, Int64s spoiled_indptr not None,
                 Int32s spoiled not None, *, int64_t limit, int64_t ceiling, bint lowest=False):
        cdef Py_ssize_t n = graph.n_nodes, n_values = graph.n_values, v, x
        cdef int64_t j
        cdef LiveNode node
        if n_values > VALUE_BITS:
            raise ValueError(f"{n_values} values; {VALUE_BITS} is the maximum")
        if not (own.shape[0] == n and spoiled_indptr.shape[0] == n + 1):
            raise ValueError("arrays of different lengths")
        self.limit, self.ceiling, self.lowest = limit, ceiling, lowest
        self.any_once = False
        self.wide = n_values > 64
        self.queue.resize(65)
        self.outputs = self.weightless = LiveSet(0, 0)
        for x in range(n_values):
            self.memory[x] = graph.memory[x]
            if graph.output[x]:
                self.outputs = either(self.outputs, single(x))
            if graph.memory[x] == 0:
                self.weightless = either(self.weightless, single(x))
        for v in range(n):
            node.reads = node.values = node.spoils = node.stops = LiveSet(0, 0)
            for x in range(graph.value_indptr[v], graph.value_indptr[v + 1]):
                self.producer[x] = v
                node.values = either(node.values, single(x))
            for j in range(graph.read_indptr[v], graph.read_indptr[v + 1]):
                node.reads = either(node.reads, single(graph.read_indices[j]))
            node.replaced = without(node.values, self.outputs)
            node.bytes, node.compute, node.once = own[v], graph.compute[v], graph.once[v]
            for j in range(spoiled_indptr[v], spoiled_indptr[v + 1]):
                node.spoils = either(node.spoils, single(spoiled[j]))
            self.any_once = self.any_once or node.once or not is_empty(node.spoils)
            self.nodes.push_back(node)
        for v in range(n):
            for j in range(spoiled_indptr[v], spoiled_indptr[v + 1]):
                self.nodes[spoiled[j]].stops = either(self.nodes[spoiled[j]].stops, both(self.nodes[v].values, self.outputs))
        self.mask = 1023
        assign(self.slots, self.mask + 1, EMPTY)
        self.key = self.n_expanded = 0
        self.goal = NO_STATE
        self.verdict = 0
        self.missing = LiveSet(0, 0)
        self.alive = self.useful = LiveSet(0, 0)
        self.shift = 0
        self.begun = False

    def add_potential(self, Py_ssize_t node, int64_t need, Int64s share, int shift):
        """Add a potential: a lower bound on the overhead of the rest of a path that has not run a node yet.

        The rest of the path costs at least `need`, minus the shares of all nodes that must still run, except this node
        and the nodes that must run before it. The caller ensures that no move lowers this bound by more than its cost.
        `need` and share : int64[n] are in units of 2**-shift. Potentials must be added before the search starts.
        """
        cdef Potential potential
        cdef Py_ssize_t v, n = <Py_ssize_t>self.nodes.size()
        cdef LiveSet later
        if share.shape[0] != n or not 0 <= node < n:
            raise ValueError("one share for each node")
        later = self.nodes[node].values
        for v in range(node + 1, n):
            if not is_empty(both(self.nodes[v].reads, later)):
                later = either(later, self.nodes[v].values)
        potential.node, potential.need, potential.later, potential.counted = node, need, later, LiveSet(0, 0)
        for v in range(n):
            if share[v] > 0:
                potential.counted = either(potential.counted, single(v))
            self.shares.push_back(share[v])
        self.potentials.push_back(potential)
        self.shift = shift

    @property
    def n_states(self):
        """Number of stored sets."""
        return self.states.size()

    @property
    def state_bytes(self):
        """Bytes of the states, the table and the queue."""
        cdef Py_ssize_t i
        total = sizeof(State) * self.states.capacity() + 8 * self.high.capacity() + 4 * self.key_high.capacity()
        total += 8 * self.slots.capacity()
        for i in range(65):
            total += 4 * self.queue[i].capacity()
        return total

    def advance(self, int64_t n_steps, int64_t max_states):
        """Expand up to `n_steps` more sets, but stop at `max_states` stored sets.

        Returns SOLVED if an optimal path has been found, and `key` is its key; RUNNING if `key` is a lower bound and
        the search may continue; EXHAUSTED if no path within the limit has a key below the ceiling; FULL if `key` is a
        lower bound and there are `max_states` sets.
        """
        cdef uint32_t state
        cdef int64_t until = self.n_expanded + n_steps
        cdef bint full = False
        cdef LiveSet reads
        if max_states > NO_STATE:
            max_states = NO_STATE
        with nogil:
            if not self.begun:
                self.begun = True
                self.add(LiveSet(0, 0), 0, self.needed_by(self.outputs, LiveSet(0, 0), &reads))
                self.insert_all(NO_STATE)
            while self.verdict == 0 and self.n_expanded < until:
                if <int64_t>self.states.size() >= max_states:
                    full = True
                    break
                state = self.pop()
                if state == NO_STATE:
                    self.verdict = -1
                elif is_empty(without(self.outputs, self.set_of(state))):
                    self.goal = state
                    self.verdict = 1
                else:
                    self.expand(state)
                    self.insert_all(state)
        return FULL if full else self.verdict

    def order(self):
        """Return the runs of the optimal path, int32[m]."""
        cdef vector[int] runs
        cdef uint32_t state = self.goal, before
        cdef LiveSet new
        cdef Py_ssize_t i
        while state != NO_STATE:
            before = self.states[state].before & ~CLOSED_BIT
            if before != NO_STATE:
                new = without(self.set_of(state), self.set_of(before))
                if not is_empty(new):
                    runs.push_back(<int>self.producer[first_of(new)])
            state = before
        result = np.empty(runs.size(), np.int32)
        cdef int[::1] out = result
        for i in range(<Py_ssize_t>runs.size()):
            out[i] = runs[runs.size() - 1 - i]
        return result

    # ------------------------------------------------------------ moves

    cdef int expand(self, uint32_t state) except -1 nogil:
        """Collect all moves from a state."""
        cdef LiveSet live = self.set_of(state), missing = without(self.outputs, live), after, freeable = LiveSet(0, 0)
        cdef LiveSet needed, needed_reads, needed_after, rest, runnable
        cdef int64_t key = self.key_of(state), live_bytes = self.bytes_of(live), roof = key if self.lowest else self.limit
        cdef int64_t peak, more
        cdef LiveNode* node
        cdef Py_ssize_t v, x
        needed = self.needed_by(missing, live, &needed_reads)
        key -= self.to_come(live, needed)
        if self.any_once or missing.low != self.missing.low or missing.high != self.missing.high:
            self.find_alive(missing, needed)
        # runnable: nodes that may run. freeable: values that, once freed, may let another node run.
        rest = self.useful
        runnable = LiveSet(0, 0)
        while not is_empty(rest):
            v = first_of(rest)
            rest = without(rest, single(v))
            node = &self.nodes[v]
            if not is_empty(without(node.reads, live)):
                continue
            if is_empty(without(both(node.values, either(self.alive, missing)), live)):
                continue
            if node.once and not has(needed, v):
                continue
            if not is_empty(both(node.spoils, needed)):
                continue
            peak = live_bytes + node.bytes - self.bytes_of(both(live, node.replaced))
            if peak <= roof:
                runnable = either(runnable, single(v))
                continue
            if self.bytes_of(both(live, either(node.reads, self.outputs))) + node.bytes > self.limit:
                continue
            freeable = either(freeable, without(live, node.reads))
            if self.lowest and peak <= self.limit:
                self.run(live, needed, missing, v, max(key, peak))
        freeable = without(freeable, either(self.outputs, self.weightless))
        while not is_empty(freeable):
            x = first_of(freeable)
            freeable = without(freeable, single(x))
            after = without(live, single(x))
            more = 0
            needed_after = needed
            if has(needed_reads, x) and not has(needed, self.producer[x]) and (self.any_once or not self.lowest):
                more = self.needed_without(x, after, &needed_after)
                if more < 0:
                    continue
                if self.lowest:
                    more = 0
            self.add(after, key + more, needed_after)
        # Among equal keys, the set added last is expanded first. So the run of the latest needed node is added last.
        rest = without(runnable, needed)
        while not is_empty(rest):
            v = first_of(rest)
            rest = without(rest, single(v))
            self.run(live, needed, missing, v, key if self.lowest else key + self.nodes[v].compute)
        rest = both(runnable, needed)
        while not is_empty(rest):
            v = first_of(rest)
            rest = without(rest, single(v))
            self.run(live, needed, missing, v, key)
        return 0

    cdef int run(self, LiveSet live, LiveSet needed, LiveSet missing, Py_ssize_t v, int64_t key) except -1 nogil:
        """Add the move that runs v; values that have become useless are freed at once."""
        cdef LiveSet after = either(live, self.nodes[v].values), left = without(missing, after), alive = self.alive
        cdef LiveSet useful
        if self.nodes[v].once or left.low != missing.low or left.high != missing.high:
            self.alive_while(left, without(needed, single(v)), &alive, &useful)
        return self.add(both(after, either(alive, self.outputs)), key, without(needed, single(v)))

    cdef LiveSet needed_by(self, LiveSet missing, LiveSet live, LiveSet* needed_reads) noexcept nogil:
        """Return the nodes that must run to compute `missing` from `live`; `needed_reads` returns what they read."""
        cdef LiveSet needed = LiveSet(0, 0), todo = missing, reads = LiveSet(0, 0)
        cdef Py_ssize_t v
        while not is_empty(todo):
            v = self.producer[last_of(todo)]
            todo = without(todo, self.nodes[v].values)
            needed = either(needed, single(v))
            reads = either(reads, self.nodes[v].reads)
            todo = either(todo, without(self.nodes[v].reads, live))
        needed_reads[0] = reads
        return needed

    cdef int64_t needed_without(self, Py_ssize_t x, LiveSet live, LiveSet* needed) noexcept nogil:
        """Add to `needed` the nodes to recompute if x is freed; return their compute, or -1 if one is forbidden."""
        cdef LiveSet todo = single(x)
        cdef int64_t compute = 0
        cdef Py_ssize_t v
        while not is_empty(todo):
            v = self.producer[last_of(todo)]
            todo = without(todo, self.nodes[v].values)
            if has(needed[0], v):
                continue
            if self.nodes[v].once or not is_empty(both(self.nodes[v].stops, live)):
                return -1
            compute += self.nodes[v].compute
            needed[0] = either(needed[0], single(v))
            todo = either(todo, without(self.nodes[v].reads, live))
        return compute

    cdef void find_alive(self, LiveSet missing, LiveSet needed) noexcept nogil:
        self.missing = missing
        self.alive_while(missing, needed, &self.alive, &self.useful)

    cdef void alive_while(self, LiveSet missing, LiveSet needed, LiveSet* alive, LiveSet* useful) noexcept nogil:
        """Set `alive` to the values that may still be read, and `useful` to the nodes that may still run.

        `missing` are the outputs that have not been computed yet.

        A `once` node that is not needed has run already and must not run again, so its reads do not count.
        """
        cdef LiveSet values = LiveSet(0, 0), nodes = LiveSet(0, 0), todo = missing
        cdef Py_ssize_t v
        while not is_empty(todo):
            v = self.producer[last_of(todo)]
            todo = without(todo, self.nodes[v].values)
            if self.nodes[v].once and not has(needed, v):
                continue
            if not is_empty(without(self.nodes[v].stops, missing)):
                continue
            nodes = either(nodes, single(v))
            values = either(values, self.nodes[v].reads)
            todo = either(todo, self.nodes[v].reads)
        alive[0] = values
        useful[0] = nodes

    cdef int64_t bytes_of(self, LiveSet live) noexcept nogil:
        cdef int64_t total = 0
        while live.low:
            total += self.memory[remat_lowest(live.low)]
            live.low &= live.low - 1
        while live.high:
            total += self.memory[64 + remat_lowest(live.high)]
            live.high &= live.high - 1
        return total

    cdef int64_t to_come(self, LiveSet live, LiveSet needed) noexcept nogil:
        """Return a lower bound on the overhead of the rest of the path: the largest potential."""
        cdef Py_ssize_t i, v
        cdef int64_t largest = 0, left
        cdef LiveSet before, todo, paid
        cdef Potential* potential
        for i in range(<Py_ssize_t>self.potentials.size()):
            potential = &self.potentials[i]
            if not has(needed, potential.node) or not is_empty(both(live, potential.later)):
                continue
            before = single(potential.node)
            todo = without(self.nodes[potential.node].reads, live)
            while not is_empty(todo):
                v = self.producer[last_of(todo)]
                todo = without(todo, self.nodes[v].values)
                before = either(before, single(v))
                todo = either(todo, without(self.nodes[v].reads, live))
            paid = both(without(needed, before), potential.counted)
            left = potential.need
            while left > largest and not is_empty(paid):
                v = first_of(paid)
                paid = without(paid, single(v))
                left -= self.shares[i * <Py_ssize_t>self.nodes.size() + v]
            largest = max(largest, left)
        return (largest + (<int64_t>1 << self.shift) - 1) >> self.shift

    # ------------------------------------------------------------ states

    cdef inline LiveSet set_of(self, uint32_t state) noexcept nogil:
        cdef LiveSet live
        live.low = self.states[state].low
        live.high = self.high[state] if self.wide else 0
        return live

    cdef inline int64_t key_of(self, uint32_t state) noexcept nogil:
        cdef int64_t key = self.states[state].key
        if not self.key_high.empty():
            key |= <int64_t>self.key_high[state] << 32
        return key

    cdef int set_key(self, uint32_t state, int64_t key) except -1 nogil:
        # The upper halves of keys are stored only after some key has exceeded 32 bits.
        if key >> 32 and self.key_high.empty():
            assign(self.key_high, self.states.size(), 0)
        self.states[state].key = <uint32_t>key
        if not self.key_high.empty():
            self.key_high[state] = <uint32_t>(key >> 32)
        return 0

    cdef int add(self, LiveSet live, int64_t overhead, LiveSet needed) except -1 nogil:
        """Collect a move to a set, unless its overhead reaches the ceiling."""
        cdef Move move
        if overhead < self.ceiling:
            move.live, move.needed, move.overhead = live, needed, overhead
            move.hash = mix_word(live.low ^ mix_word(live.high))
            remat_prefetch(&self.slots[move.hash & self.mask])
            self.moves.push_back(move)
        return 0

    cdef int insert_all(self, uint32_t before) except -1 nogil:
        """Insert the sets of all collected moves. All states are prefetched first, to overlap cache misses."""
        cdef Py_ssize_t i
        cdef uint64_t slot
        for i in range(<Py_ssize_t>self.moves.size()):
            slot = self.slots[self.moves[i].hash & self.mask]
            if slot != EMPTY:
                remat_prefetch(&self.states[<uint32_t>slot])
        for i in range(<Py_ssize_t>self.moves.size()):
            self.insert(self.moves[i], before)
        self.moves.clear()
        return 0

    cdef int insert(self, Move move, uint32_t before) except -1 nogil:
        """Store a set, or decrease its key, unless the key reaches the ceiling."""
        cdef uint64_t at = move.hash & self.mask, tag = move.hash & ~<uint64_t>0xFFFFFFFF
        cdef uint32_t state
        cdef State* known
        cdef State new
        cdef int64_t key = move.overhead
        while self.slots[at] != EMPTY:
            if self.slots[at] - <uint32_t>self.slots[at] == tag:
                state = <uint32_t>self.slots[at]
                known = &self.states[state]
                if known.low == move.live.low and (not self.wide or self.high[state] == move.live.high):
                    if known.before & CLOSED_BIT or self.key_of(state) <= key:
                        return 0
                    key += self.to_come(move.live, move.needed)
                    if self.key_of(state) <= key:
                        return 0
                    self.set_key(state, key)
                    known.before = before
                    return self.enqueue(state, key)
            at = (at + 1) & self.mask
        key += self.to_come(move.live, move.needed)
        if key >= self.ceiling:
            return 0
        state = <uint32_t>self.states.size()
        new.low, new.key, new.before = move.live.low, 0, before
        self.states.push_back(new)
        if self.wide:
            self.high.push_back(move.live.high)
        if not self.key_high.empty():
            self.key_high.push_back(0)
        self.set_key(state, key)
        self.slots[at] = tag | state
        if 4 * self.states.size() > 3 * (self.mask + 1):
            self.grow()
        return self.enqueue(state, key)

    cdef int grow(self) except -1 nogil:
        """Double the size of the hash table."""
        cdef uint32_t state
        cdef uint64_t at, hash
        assign(self.slots, 2 * (self.mask + 1), EMPTY)
        self.mask = 2 * self.mask + 1
        for state in range(<uint32_t>self.states.size()):
            hash = mix_word(self.states[state].low ^ mix_word(self.high[state] if self.wide else 0))
            at = hash & self.mask
            while self.slots[at] != EMPTY:
                at = (at + 1) & self.mask
            self.slots[at] = hash & ~<uint64_t>0xFFFFFFFF | state
        return 0

    cdef int enqueue(self, uint32_t state, int64_t key) except -1 nogil:
        self.queue[1 + remat_highest(<uint64_t>(key ^ self.key)) if key != self.key else 0].push_back(state)
        return 0

    cdef uint32_t pop(self) except? 0 nogil:
        """Close and return the state with the smallest key, or NO_STATE.

        A state whose key was decreased is queued twice; its second entry is skipped, since the state is closed by then.
        """
        cdef uint32_t state
        cdef Py_ssize_t i, j
        cdef int64_t least
        while True:
            while not self.queue[0].empty():
                state = self.queue[0].back()
                self.queue[0].pop_back()
                if not self.states[state].before & CLOSED_BIT:
                    self.states[state].before |= CLOSED_BIT
                    self.n_expanded += 1
                    return state
            i = 1
            while i < 65 and self.queue[i].empty():
                i += 1
            if i == 65:
                return NO_STATE
            least = ENDLESS
            for j in range(<Py_ssize_t>self.queue[i].size()):
                state = self.queue[i][j]
                if not self.states[state].before & CLOSED_BIT:
                    least = min(least, self.key_of(state))
            if least < ENDLESS:
                self.key = least
                for j in range(<Py_ssize_t>self.queue[i].size()):
                    state = self.queue[i][j]
                    if not self.states[state].before & CLOSED_BIT:
                        self.enqueue(state, self.key_of(state))
            self.queue[i].clear()
