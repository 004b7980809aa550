"""Rules: functions of a few doubles that decide what a kernel does next.

A rule is a C function `double (int, double *)` or `double (int, double *, void *)`, as in `scipy.integrate.quad`: the
number of arguments, the arguments, and optional data from the user. It is called without the interpreter's lock.
"""

import numpy as np

cimport cython
from cpython.pycapsule cimport PyCapsule_GetContext, PyCapsule_GetName, PyCapsule_GetPointer
from libc.math cimport NAN, floor, sqrt

PLAIN, WITH_DATA = b"double (int, double *)", b"double (int, double *, void *)"

cdef enum:
    # One call in 64 is repeated, to find rules that return different values for equal arguments.
    REPEAT_MASK = 63


class RuleFault(Exception):
    """A rule returned NaN (`again` is None), or the values `first` and `again` for equal arguments."""

    def __init__(self, arguments, first, again):
        super().__init__(arguments, first, again)
        self.arguments, self.first, self.again = arguments, first, again


cdef class Rule:
    """A rule as a C function.

    name : for messages; capsule : a PyCapsule that contains the C function. Its name is the signature, PLAIN or
    WITH_DATA. Its context is the data. n_arguments : at most MAX_ARGUMENTS; picks : the arguments that the rule may read;
    function : a Python function. If `capsule` is None, this function is called with the arguments in `picks`;
    owner : the object that owns the C function and its data
    """

    def __init__(self, str name, capsule, int n_arguments, tuple picks, function=None, owner=None):
        cdef const char* signature
        if n_arguments > MAX_ARGUMENTS:
            raise ValueError(f"at most {MAX_ARGUMENTS} arguments")
        self.name, self.n_arguments, self.picks, self.function = name, n_arguments, picks, function
        self.used = sum(1 << i for i in picks)
        self.owner = owner
        self.calls = 0
        if capsule is None:
            self.with_data, self.data = call_python, <void*>self
            return
        signature = PyCapsule_GetName(capsule)
        if signature == PLAIN:
            self.plain = <PlainFunction>PyCapsule_GetPointer(capsule, signature)
        elif signature == WITH_DATA:
            self.with_data = <DataFunction>PyCapsule_GetPointer(capsule, signature)
            self.data = PyCapsule_GetContext(capsule)
        else:
            raise ValueError(f"signature {signature.decode()}")

    def values(self, rows):
        """Return the values of many argument rows, float64[k]; rows : float64[k, n_arguments]."""
        cdef const double[:, ::1] table = np.ascontiguousarray(rows, np.float64)
        if table.shape[1] != self.n_arguments:
            raise ValueError(f"rows have {table.shape[1]} arguments, the rule {self.n_arguments}")
        result = np.empty(table.shape[0])
        cdef double[::1] out = result
        cdef double[MAX_ARGUMENTS] arguments
        cdef Py_ssize_t i, j
        with nogil:
            for i in range(table.shape[0]):
                for j in range(table.shape[1]):
                    arguments[j] = table[i, j]
                out[i] = self.value(arguments)
        return result

    cdef inline double call(self, double* row) noexcept nogil:
        # The function gets a copy, since it may write to its arguments.
        cdef double[MAX_ARGUMENTS] arguments
        cdef int i
        for i in range(self.n_arguments):
            arguments[i] = row[i]
        if self.with_data != NULL:
            return self.with_data(self.n_arguments, arguments, self.data)
        return self.plain(self.n_arguments, arguments)

    cdef double value(self, double* arguments) except? -7.25e77 nogil:
        """Return the value. Raise RuleFault if it is NaN, or if a repeated call returns a different value."""
        cdef double result = self.call(arguments), again
        self.calls += 1
        if result != result:
            self.fail(arguments, result, NAN)
        if not self.calls & REPEAT_MASK:
            again = self.call(arguments)
            if again != result:
                self.fail(arguments, result, again)
        return result

    cdef int fail(self, double* arguments, double first, double again) except -1 with gil:
        known = [arguments[i] for i in range(self.n_arguments)]
        raise RuleFault(known, first, None if first != first else again)


cdef double call_python(int n, double* x, void* data) noexcept with gil:
    cdef Rule rule = <Rule>data
    try:
        return rule.function(*[x[i] for i in rule.picks])
    except BaseException as error:
        rule.error = error
        return NAN


# Which value leaves memory first: the one with the smallest value of the rule.

cdef double xla(int n, double* x, void* data) noexcept nogil:
    return floor(x[5] / x[0])


cdef double largest(int n, double* x, void* data) noexcept nogil:
    return -x[0]


cdef double dtr(int n, double* x, void* data) noexcept nogil:
    return x[1] / (x[0] * x[2])


cdef double furthest(int n, double* x, void* data) noexcept nogil:
    return -x[3]


# Which vertex is eliminated next: the one with the smallest value of the rule. Ratios are rounded down to multiples of
# 2^-20, so that ties are broken as for whole numbers.

cdef double fill(int n, double* x, void* data) noexcept nogil:
    return x[1]


cdef double degree(int n, double* x, void* data) noexcept nogil:
    return x[0]


cdef double ratio(int n, double* x, void* data) noexcept nogil:
    return floor(1048576.0 * x[1] / (x[0] + 1))


cdef double steep_ratio(int n, double* x, void* data) noexcept nogil:
    return floor(1048576.0 * x[1] / ((x[0] + 1) * sqrt(x[0] + 1)))


cdef double density(int n, double* x, void* data) noexcept nogil:
    return floor(1048576.0 * x[1] / ((x[0] + 1) * (x[0] + 1)))


# What a stage of a dynamic program costs.

cdef double compute(int n, double* x, void* data) noexcept nogil:
    return x[0]

