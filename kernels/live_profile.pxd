# Declaration of the live-byte profile, which has one entry per slot; see live_profile.pyx.
cimport cython
from libcpp.vector cimport vector
from remat_algos.kernels.types cimport ENDLESS, int64_t

cdef enum:
    # Slots per block. The C loops in vectors.pxd repeat this number.
    BLOCK_SIZE = 128
    # An edge is a slot and the change of the live bytes at this slot, packed into one integer. The low SHIFT_BITS
    # bits contain the change, the other bits the slot. The sum of the changes at one slot is within +-2**33.
    SHIFT_BITS = 34
    # Added to a slot that is occupied by a run. So an empty slot contains its live bytes minus PRESENT, which is below
    # every limit: only occupied slots can exceed the limit.
    PRESENT = 1 << 30
    # Largest valid limit, and largest valid sum of the bytes of all values.
    LARGEST = (1 << 30) - 1


cdef inline int64_t slot_of(int64_t edge) noexcept nogil:
    """Return the slot of an edge, rounded, because a negative change lowers the bits of the slot by one."""
    return (edge + (<int64_t>1 << (SHIFT_BITS - 1))) >> SHIFT_BITS


@cython.final
cdef class LiveProfile:
    cdef Py_ssize_t n_slots, n_tracks, n_blocks
    cdef vector[int] mem, addend, top, limit
    cdef vector[int64_t] excess
    # Bytes above the limit, summed over all slots.
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
        """Collect a change by `by` bytes at slots lo to hi - 1; `apply` carries it out."""
        self.edges.push_back((<int64_t>lo << SHIFT_BITS) + by)
        self.edges.push_back((<int64_t>hi << SHIFT_BITS) - by)
        return 0

    cdef inline void commit(self) noexcept nogil:
        """Accept the applied changes, so that `undo` cannot reverse them."""
        self.edges.clear()
        self.applied.clear()

    cdef inline Py_ssize_t highest(self, int64_t* over) noexcept nogil:
        """Return the block with the largest difference of maximum and limit, and store this difference in `over`."""
        cdef Py_ssize_t block, top_block = 0
        cdef int64_t most = -ENDLESS, by
        for block in range(self.n_blocks):
            by = <int64_t>self.top[block] - self.limit[block]
            if by > most:
                most, top_block = by, block
        over[0] = most
        return top_block

    cdef inline int64_t peak(self) noexcept nogil:
        """Return the maximum of the live bytes of the whole graph (track 0)."""
        cdef Py_ssize_t block
        cdef int most = 0
        for block in range(self.n_slots // BLOCK_SIZE):
            most = max(most, self.top[block])
        return most
