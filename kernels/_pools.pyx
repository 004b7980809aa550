# distutils: language = c++
"""What caching allocators of GPUs do with requests: best fit, split, merge, a new segment where nothing fits."""

import numpy as np

from cython.operator cimport dereference, predecrement, preincrement
from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t, uint8_t, uint64_t

include "_pools.pxi"

GIVE_ALL_BACK = INT64_MIN  # the event at which whole free segments go back to the device

# How equal sizes are told apart: by when they became free, by address, by chance; by address with the segments in
# the order in which they came, the other way round, or in one of chance.
FIRST, LAST, LOWEST, HIGHEST, RANDOM, RISING, FALLING, SHUFFLED = \
    first, last, lowest, highest, random, rising, falling, shuffled


def run(const int64_t[:] event, const int64_t[:] size, const int64_t[:] segment, const int64_t[:] arena,
        const int64_t[:] rest, const int64_t[:] most, const int64_t[:] address, int rule, uint64_t seed, int64_t limit,
        bint hasty, int64_t oversize):
    """One pass over the requests and frees.

    event : int64[e] buffer b asks for memory, ~b gives it back, or GIVE_ALL_BACK; size : int64[k] bytes of a chunk, 0
    for none, segment : int64[k] bytes of a new segment if nothing fits, arena : int64[k] chunks of others are never
    taken, rest : int64[k] least rest that is split off, most : int64[k] largest chunk that may be taken, address :
    int64[k] what the real allocator answered, or int64[0]; rule : one of the above, limit : bytes of all segments,
    hasty : a request above the limit fails before anything is given back, oversize : chunks of so many bytes are the
    first to be given back where the limit is reached, INT64_MAX for none
    Returns (used int64[e], total int64[e], tied uint8[e] whether the answer depends on the rule, segment int64[k] and
    offset int64[k] of each answer, -1 for none, the buffer whose real address is no answer by these rules or -1).
    """
    cdef Py_ssize_t count = event.shape[0], k = size.shape[0], at, parted = -1
    cdef int64_t b, chunk
    cdef bint replayed = address.shape[0] > 0
    cdef _Pool pool = _Pool(rule, seed, limit, replayed)
    used, total, tied = np.empty(count, np.int64), np.empty(count, np.int64), np.zeros(count, np.uint8)
    number, offset = np.full(k, -1, np.int64), np.full(k, -1, np.int64)
    cdef int64_t[:] used_out = used, total_out = total, number_out = number, offset_out = offset
    cdef uint8_t[:] tied_out = tied
    cdef int64_t[:] held = np.full(k, -1, np.int64)
    with nogil:
        for at in range(count):
            b = event[at]
            if b == INT64_MIN:
                pool.give_all_back()
            elif b < 0:
                if held[~b] >= 0:
                    pool.give(held[~b])
                held[~b] = -1
            elif size[b] > 0 and not (hasty and segment[b] > limit):
                pool.tied = False
                chunk = pool.fitting(arena[b], size[b], most[b], address[b] if replayed else -1)
                if chunk < 0 and pool.room(arena[b], size[b], segment[b], oversize):
                    chunk = pool.new_segment(arena[b], segment[b], address[b] if replayed else 0)
                if chunk >= 0:
                    pool.take(chunk, size[b], rest[b])
                    held[b] = chunk
                    number_out[b], offset_out[b] = pool.chunks[chunk].segment, pool.chunks[chunk].offset
                    if replayed and parted < 0 and pool.address(chunk) != address[b]:
                        parted = b
                tied_out[at] = pool.tied
            used_out[at], total_out[at] = pool.used, pool.total
    return used, total, tied, number, offset, parted
