# The bytes live at each slot, for kernels that search over schedules.
cimport cython
from libcpp.vector cimport vector
from remat_algos.kernels.types cimport ENDLESS, int64_t

cdef enum:
    BLOCK_SIZE = 128        # the same number stands in the C loops of vectors.pxd
    SHIFT_BITS = 34         # changes of one slot are within 2**33
    PRESENT = 1 << 30       # what a run adds to its slot; an empty one has -PRESENT, below any limit
    LARGEST = (1 << 30) - 1  # of a limit, and of all bytes


cdef inline int64_t slot_of(int64_t edge) noexcept nogil:
    """The slot of an edge, whose change may be negative."""
    return (edge + (<int64_t>1 << (SHIFT_BITS - 1))) >> SHIFT_BITS


@cython.final
cdef class LiveProfile:
    cdef Py_ssize_t n_slots, n_tracks, n_blocks
    cdef vector[int] mem, addend, top, limit
    cdef vector[int64_t] excess
    cdef int64_t area                    # of all blocks, bytes above the limits
    cdef vector[int64_t] edges, applied  # (slot << SHIFT_BITS) + change
    cdef vector[int] track_limit         # of each track
    cdef int64_t work                    # edges and blocks that were gone through

    cdef int start(self, Py_ssize_t n_slots, Py_ssize_t n_tracks) except -1 nogil
    cdef int set_limits(self) except -1 nogil
    cdef int aim(self, int64_t limit) except -1 nogil
    cdef void refresh(self, Py_ssize_t block) noexcept nogil
    cdef int fill(self) except -1 nogil
    cdef int apply(self) except -1 nogil
    cdef int undo(self) except -1 nogil

    cdef inline int add(self, Py_ssize_t lo, Py_ssize_t hi, int64_t by) except -1 nogil:
        """Collect a change of the bytes at slots lo to hi - 1."""
        self.edges.push_back((<int64_t>lo << SHIFT_BITS) + by)
        self.edges.push_back((<int64_t>hi << SHIFT_BITS) - by)
        return 0

    cdef inline void commit(self) noexcept nogil:
        """Forget what was collected and applied."""
        self.edges.clear()
        self.applied.clear()

    cdef inline Py_ssize_t highest(self, int64_t* over) noexcept nogil:
        """The block that is furthest above its limit, or nearest to it, and by how much."""
        cdef Py_ssize_t block, top_block = 0
        cdef int64_t most = -ENDLESS, by
        for block in range(self.n_blocks):
            by = <int64_t>self.top[block] - self.limit[block]
            if by > most:
                most, top_block = by, block
        over[0] = most
        return top_block

    cdef inline int64_t peak(self) noexcept nogil:
        """Peak bytes of the first track."""
        cdef Py_ssize_t block
        cdef int most = 0
        for block in range(self.n_slots // BLOCK_SIZE):
            most = max(most, self.top[block])
        return most
