# Live bytes by slot, for kernels that search over schedules.
cimport cython
from libcpp.vector cimport vector
from remat_algos.kernels.types cimport ENDLESS, int64_t

cdef enum:
    # Also written in the C loops of vectors.pxd.
    BLOCK_SIZE = 128
    # Changes at one slot are within 2**33.
    SHIFT_BITS = 34
    # Added by a run to its slot: an empty slot has -PRESENT plus live bytes, which is below any limit.
    PRESENT = 1 << 30
    # Maximum limit, and maximum sum of all bytes.
    LARGEST = (1 << 30) - 1


cdef inline int64_t slot_of(int64_t edge) noexcept nogil:
    """The slot of an edge; its change may be negative."""
    return (edge + (<int64_t>1 << (SHIFT_BITS - 1))) >> SHIFT_BITS


@cython.final
cdef class LiveProfile:
    cdef Py_ssize_t n_slots, n_tracks, n_blocks
    cdef vector[int] mem, addend, top, limit
    cdef vector[int64_t] excess
    # Bytes above the limits, summed over all blocks.
    cdef int64_t area
    cdef vector[int64_t] edges, applied  # (slot << SHIFT_BITS) + change
    cdef vector[int] track_limit
    cdef int64_t work                    # edges and blocks visited

    cdef int start(self, Py_ssize_t n_slots, Py_ssize_t n_tracks) except -1 nogil
    cdef int set_limits(self) except -1 nogil
    cdef int aim(self, int64_t limit) except -1 nogil
    cdef void refresh(self, Py_ssize_t block) noexcept nogil
    cdef int fill(self) except -1 nogil
    cdef int apply(self) except -1 nogil
    cdef int undo(self) except -1 nogil

    cdef inline int add(self, Py_ssize_t lo, Py_ssize_t hi, int64_t by) except -1 nogil:
        """Collect a change of the live bytes at slots lo to hi - 1."""
        self.edges.push_back((<int64_t>lo << SHIFT_BITS) + by)
        self.edges.push_back((<int64_t>hi << SHIFT_BITS) - by)
        return 0

    cdef inline void commit(self) noexcept nogil:
        """Accept the collected and applied changes."""
        self.edges.clear()
        self.applied.clear()

    cdef inline Py_ssize_t highest(self, int64_t* over) noexcept nogil:
        """The block with the largest bytes above its limit (possibly negative), which `over` returns."""
        cdef Py_ssize_t block, top_block = 0
        cdef int64_t most = -ENDLESS, by
        for block in range(self.n_blocks):
            by = <int64_t>self.top[block] - self.limit[block]
            if by > most:
                most, top_block = by, block
        over[0] = most
        return top_block

    cdef inline int64_t peak(self) noexcept nogil:
        """Peak of the first track, in bytes."""
        cdef Py_ssize_t block
        cdef int most = 0
        for block in range(self.n_slots // BLOCK_SIZE):
            most = max(most, self.top[block])
        return most
