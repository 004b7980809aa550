# Types and constants that all kernels share.
#
# Ids are int32, flags are uint8; row pointers, steps, bytes and costs are int64.

from libc.stdint cimport int64_t, uint64_t

cdef extern from *:
    """
    #define REMAT_ENDLESS ((long long)1 << 62)
    """
    const int64_t ENDLESS "REMAT_ENDLESS"   # greater than any sum

ctypedef const int64_t[::1] Int64s
ctypedef const int[::1] Int32s
ctypedef const unsigned char[::1] Flags
