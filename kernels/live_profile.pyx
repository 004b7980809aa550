# distutils: language = c++
"""Live bytes at each slot of a schedule, in blocks of slots, and the bytes above a limit.

A block stores its maximum, its bytes above the limit, and an addend that must still be added to all its slots. A track
has an entry for each slot, and a limit of its own. Track 0 contains the live bytes of the whole graph, track k those of
region k of the graph; slot s of track k has index s + k * n_slots. Changes are collected as edges (slot, change), which
change the live bytes from this slot on, and are applied together. `undo` reverses everything applied since the last
commit.
"""

cimport cython
from libcpp.algorithm cimport sort
from libcpp.vector cimport vector
from remat_algos.kernels.growing cimport assign
from remat_algos.kernels.types cimport int64_t
from remat_algos.kernels.vectors cimport remat_add, remat_excess, remat_fold, remat_top


cdef inline void sort_edges(vector[int64_t]& edges) noexcept nogil:
    """Sort the edges in ascending order; short lists are sorted by insertion."""
    cdef Py_ssize_t k = edges.size(), i, j
    cdef int64_t* e = edges.data()
    cdef int64_t edge
    if k > 64:
        sort(edges.begin(), edges.end())
        return
    for i in range(1, k):
        edge = e[i]
        j = i
        while j > 0 and e[j - 1] > edge:
            e[j] = e[j - 1]
            j -= 1
        e[j] = edge


@cython.final
cdef class LiveProfile:
    """The live bytes of a schedule at each slot, for the whole graph (track 0) and for each region (other tracks).

    Cost: about 4 bytes for each slot and track. Applying k edges takes O(k log k) time, O(BLOCK_SIZE) for each block
    that contains an edge or exceeds its limit, and O(1) for every other block between two edges.
    """

    cdef int start(self, Py_ssize_t n_slots, Py_ssize_t n_tracks) except -1 nogil:
        """Create an empty profile."""
        self.n_slots, self.n_tracks = n_slots, n_tracks
        self.n_blocks = n_slots // BLOCK_SIZE * n_tracks
        assign[vector[int], int](self.mem, self.n_blocks * BLOCK_SIZE, -PRESENT)
        assign[vector[int], int](self.addend, self.n_blocks, 0)
        assign[vector[int], int](self.top, self.n_blocks, -PRESENT)
        assign[vector[int64_t], int64_t](self.excess, self.n_blocks, 0)
        self.area = 0
        self.commit()
        return 0

    cdef int set_limits(self) except -1 nogil:
        """Copy the limit of each track to its blocks."""
        cdef Py_ssize_t block
        if <Py_ssize_t>self.limit.size() != self.n_blocks:
            self.limit.resize(self.n_blocks)
        for block in range(self.n_blocks):
            self.limit[block] = self.track_limit[block // (self.n_slots // BLOCK_SIZE)]
        return 0

    cdef int aim(self, int64_t limit) except -1 nogil:
        """Set the limit of the first track and update its blocks."""
        cdef Py_ssize_t block
        self.track_limit[0] = <int>max(-1, min(limit, <int64_t>LARGEST))
        self.set_limits()
        for block in range(self.n_slots // BLOCK_SIZE):
            self.refresh(block)
        return 0

    cdef void refresh(self, Py_ssize_t block) noexcept nogil:
        """Add the addend of a block to its slots, and compute its maximum and excess."""
        cdef int* m = self.mem.data() + block * BLOCK_SIZE
        cdef int64_t excess = 0
        self.top[block] = remat_fold(m, self.addend[block]) if self.addend[block] else remat_top(m)
        self.addend[block] = 0
        if self.top[block] > self.limit[block]:
            excess = remat_excess(m, self.limit[block])
        self.area += excess - self.excess[block]
        self.excess[block] = excess
    cdef int fill(self) except -1 nogil:
        """Apply the collected edges to an empty profile."""
        cdef vector[int64_t] changes
        cdef Py_ssize_t i, slot, block
        cdef int64_t live = 0
        self.work += self.edges.size()
        assign[vector[int64_t], int64_t](changes, self.n_blocks * BLOCK_SIZE + 1, 0)
        for i in range(<Py_ssize_t>self.edges.size()):
            slot = slot_of(self.edges[i])
            changes[slot] += self.edges[i] - (<int64_t>slot << SHIFT_BITS)
        for slot in range(self.n_blocks * BLOCK_SIZE):
            live += changes[slot]
            self.mem[slot] += <int>live
        for block in range(self.n_blocks):
            self.refresh(block)
        return 0
    cdef int apply(self) except -1 nogil:
        """Apply the collected edges: edges at one slot are summed, and each block is visited once."""
        cdef Py_ssize_t k = self.edges.size(), i = 0, n = 0, block, begin, at, slot, other
        cdef int64_t* e
        cdef int64_t by, live = 0
        cdef int* m
        sort_edges(self.edges)
        self.work += k
        e = self.edges.data()
        # Sum the changes at each slot. A negative change borrows from the bits of the slot, so `slot_of` computes it.
        while i < k:
            slot = slot_of(e[i])
            by = 0
            while i < k and slot_of(e[i]) == slot:
                by += e[i] - (<int64_t>slot << SHIFT_BITS)
                i += 1
            if by:
                e[n] = (<int64_t>slot << SHIFT_BITS) + by
                n += 1
        self.edges.resize(n)
        i = 0
        while i < n:
            slot = slot_of(e[i])
            block = slot // BLOCK_SIZE
            if block >= self.n_blocks:
                break
            begin = block * BLOCK_SIZE
            at = slot
            m = self.mem.data()
            if live and slot > begin:
                remat_add(m + begin, slot - begin, <int>live)
            while i < n:
                slot = slot_of(e[i])
                if slot >= begin + BLOCK_SIZE:
                    break
                if live and slot > at:
                    remat_add(m + at, slot - at, <int>live)
                at = slot
                live += e[i] - (<int64_t>slot << SHIFT_BITS)
                i += 1
            if live:
                remat_add(m + at, begin + BLOCK_SIZE - at, <int>live)
            self.refresh(block)
            if live:
                slot = slot_of(e[i]) if i < n else 0
                for other in range(block + 1, min(slot // BLOCK_SIZE, self.n_blocks)):
                    self.addend[other] += <int>live
                    self.top[other] += <int>live
                    if self.top[other] > self.limit[other] or self.excess[other]:
                        self.refresh(other)
        for i in range(n):
            self.applied.push_back(e[i])
        self.edges.clear()
        return 0
    cdef int undo(self) except -1 nogil:
        """Undo everything applied since the last commit."""
        cdef Py_ssize_t i
        cdef int64_t edge, slot
        self.edges.clear()
        if not self.applied.empty():
            for i in range(<Py_ssize_t>self.applied.size()):
                edge = self.applied[i]
                slot = slot_of(edge)
                self.edges.push_back((slot << SHIFT_BITS) - (edge - (slot << SHIFT_BITS)))
            self.apply()
        return 0
