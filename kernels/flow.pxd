# Networks of flow.pyx for other kernels.
from libcpp.vector cimport vector

ctypedef long long int64

cdef class FlowNetwork:
    cdef int n, source, sink, target, highest, roof
    cdef int64 m, work, patience
    cdef vector[int64] begin, at, residual, sister, excess, place
    cdef vector[int] to, height, first, following, crowd, queue

    cdef int load(self, int n, int64 m, const int* tail, const int* head, int source, int sink) except -1 nogil
    cdef bint cut(self, const int64* capacity, int64 enough) noexcept nogil
    cdef int64 value(self) noexcept nogil
    cdef bint on_source_side(self, int v) noexcept nogil
    cdef void fill(self, const int64* capacity) noexcept nogil
    cdef void push(self, int v, int64 a, int64 amount) noexcept nogil
    cdef void wake(self, int v) noexcept nogil
    cdef int reach(self, int start, bint backwards) noexcept nogil
    cdef bint measure(self) noexcept nogil
    cdef void lift(self, int v) noexcept nogil
    cdef void discharge(self, int v) noexcept nogil
    cdef bint run(self, int target, int64 enough) noexcept nogil
