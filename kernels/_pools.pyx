# distutils: language = c++
"""Caching allocators of GPUs: best fit, split, merge, a new segment where nothing fits."""

import numpy as np

from cython.operator cimport dereference, predecrement, preincrement
from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t, uint8_t, uint64_t

include "_pools.pxi"

RELEASE_ALL = INT64_MIN  # the event at which free segments are released to the device

# How ties between equal sizes are broken: by the time of the free, by address, at random; by address with the segments
# in order of allocation, in reverse, or at random.
FIRST, LAST, LOWEST, HIGHEST, RANDOM, RISING, FALLING, SHUFFLED = \
    first, last, lowest, highest, random, rising, falling, shuffled


def run(const int64_t[:] event, const int64_t[:] size, const int64_t[:] segment, const int64_t[:] arena,
        const int64_t[:] rest, const int64_t[:] max_size, const int64_t[:] address, int rule, uint64_t seed, int64_t limit,
        bint fail_first, int64_t oversize):
    """One pass over the requests and frees.

    event : int64[e] buffer b requests memory, ~b frees it, or RELEASE_ALL; size : int64[k] bytes of a chunk, 0
    for none, segment : int64[k] bytes of a new segment if nothing fits, arena : int64[k] chunks of other
    arenas are never used, rest : int64[k] minimum rest that is split off, max_size : int64[k] of a chunk, address :
    int64[k] that the real allocator returned, or int64[0]; rule : one of the above, limit : bytes of all segments,
    fail_first : a request above the limit fails before anything is released, oversize : chunks of at least this size are
    released first where the limit is reached, INT64_MAX for none
    Returns (used int64[e], total int64[e], tied uint8[e] whether the result depends on the rule, segment int64[k] and
    offset int64[k] of each buffer, -1 for none, the buffer whose real address these rules do not allow or -1).
    """
    cdef Py_ssize_t count = event.shape[0], k = size.shape[0], at, diverged = -1
    cdef int64_t b, chunk
    cdef bint replayed = address.shape[0] > 0
    cdef _Pool pool = _Pool(rule, seed, limit, replayed)
    used, total, tied = np.empty(count, np.int64), np.empty(count, np.int64), np.zeros(count, np.uint8)
    number, offset = np.full(k, -1, np.int64), np.full(k, -1, np.int64)
    cdef int64_t[:] used_out = used, total_out = total, number_out = number, offset_out = offset
    cdef uint8_t[:] tied_out = tied
    cdef int64_t[:] chunk_of = np.full(k, -1, np.int64)
    with nogil:
        for at in range(count):
            b = event[at]
            if b == INT64_MIN:
                pool.release_all()
            elif b < 0:
                if chunk_of[~b] >= 0:
                    pool.free(chunk_of[~b])
                chunk_of[~b] = -1
            elif size[b] > 0 and not (fail_first and segment[b] > limit):
                pool.tied = False
                chunk = pool.fitting(arena[b], size[b], max_size[b], address[b] if replayed else -1)
                if chunk < 0 and pool.room(arena[b], size[b], segment[b], oversize):
                    chunk = pool.new_segment(arena[b], segment[b], address[b] if replayed else 0)
                if chunk >= 0:
                    pool.take(chunk, size[b], rest[b])
                    chunk_of[b] = chunk
                    number_out[b], offset_out[b] = pool.chunks[chunk].segment, pool.chunks[chunk].offset
                    if replayed and diverged < 0 and pool.address(chunk) != address[b]:
                        diverged = b
                tied_out[at] = pool.tied
            used_out[at], total_out[at] = pool.used, pool.total
    return used, total, tied, number, offset, diverged
