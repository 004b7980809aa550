# Declarations of the flow network for other kernels; see flow.pyx.
from libcpp.vector cimport vector
from remat_algos.kernels.types cimport int64_t

cdef class FlowNetwork:
    cdef int n, source, sink, target, highest, roof
    cdef int64_t m, work, patience
    cdef vector[int64_t] begin, at, residual, sister, excess, place
    cdef vector[int] to, height, first, following, crowd, queue

    cdef int load(self, int n, int64_t m, const int* tail, const int* head, int source, int sink) except -1 nogil
    cdef bint cut(self, const int64_t* capacity, int64_t enough) noexcept nogil
    cdef int64_t value(self) noexcept nogil
    cdef bint on_source_side(self, int v) noexcept nogil
    cdef void fill(self, const int64_t* capacity) noexcept nogil
    cdef void push(self, int v, int64_t a, int64_t amount) noexcept nogil
    cdef void wake(self, int v) noexcept nogil
    cdef int reach(self, int start, bint backwards) noexcept nogil
    cdef bint measure(self) noexcept nogil
    cdef void lift(self, int v) noexcept nogil
    cdef void discharge(self, int v) noexcept nogil
    cdef bint run(self, int target, int64_t enough) noexcept nogil
