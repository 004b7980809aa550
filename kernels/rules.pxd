# Rules: C functions of a few doubles. They are built in, or compiled from a function that the user supplies.

from remat_algos.kernels.types cimport int64_t

cdef enum:
    # Maximum number of arguments of a rule.
    MAX_ARGUMENTS = 6

ctypedef double (*PlainFunction)(int, double*) noexcept nogil
ctypedef double (*DataFunction)(int, double*, void*) noexcept nogil


cdef class Rule:
    cdef readonly str name
    cdef readonly object function      # the user's, or None
    cdef readonly int n_arguments
    cdef readonly tuple picks
    cdef readonly int64_t used         # bit i: the rule may read argument i
    cdef public object error           # error in last Python call
    cdef object owner                  # what owns the C function and its data
    cdef PlainFunction plain
    cdef DataFunction with_data
    cdef void* data
    cdef int64_t calls

    cdef double call(self, double* row) noexcept nogil
    cdef double value(self, double* arguments) except? -7.25e77 nogil
    cdef int fail(self, double* arguments, double first, double again) except -1 with gil


# Built-in rules for `greedy`: arguments nbytes, cost, since_read, until_read, readers, limit.
cdef double xla(int n, double* x, void* data) noexcept nogil
cdef double largest(int n, double* x, void* data) noexcept nogil
cdef double dtr(int n, double* x, void* data) noexcept nogil
cdef double furthest(int n, double* x, void* data) noexcept nogil

# Built-in rules for `elimination`: arguments degree, fill, components, eliminated.
cdef double fill(int n, double* x, void* data) noexcept nogil
cdef double degree(int n, double* x, void* data) noexcept nogil
cdef double ratio(int n, double* x, void* data) noexcept nogil
cdef double steep_ratio(int n, double* x, void* data) noexcept nogil
cdef double density(int n, double* x, void* data) noexcept nogil

# Built-in objective for dynamic programs: arguments cost, kept, peak.
cdef double compute(int n, double* x, void* data) noexcept nogil

# Calls a Python function, for rules that are not compiled.
cdef double call_python(int n, double* x, void* data) noexcept nogil
