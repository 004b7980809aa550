# distutils: language = c++
"""Simulation of the caching allocators of GPUs on a trace of requests and frees.

A request gets the smallest free chunk that fits, which may be split. If none fits, a new segment is allocated from the
device. A freed chunk is merged with its free neighbours."""

import numpy as np

cimport cython
from cython.operator cimport dereference, predecrement, preincrement
from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t, uint64_t, uint8_t
from libcpp.map cimport map as ordered_map
from libcpp.pair cimport pair
from libcpp.vector cimport vector
from remat_algos.kernels.bitsets cimport mix_word
from remat_algos.kernels.growing cimport set_entry

ctypedef pair[int64_t, int64_t] _Pair
ctypedef pair[_Pair, _Pair] _SizeKey  # (arena, size), tie break
ctypedef ordered_map[_SizeKey, int64_t] _FreeChunks
ctypedef pair[pair[_Pair, int64_t], _Pair] _AddressKey  # address, then tie break

cdef enum _Rule:
    first
    last
    lowest
    highest
    random
    rising
    falling
    shuffled

cdef class _SegmentPool

# The event that returns all free segments to the device.
RELEASE_ALL = INT64_MIN

# Rules that choose between free chunks of equal size. FIRST, LAST: the chunk that was freed first or last. LOWEST,
# HIGHEST: the chunk with the lowest or highest address, if each segment has a higher address than those before it.
# RANDOM: a random chunk. RISING, FALLING, SHUFFLED: the chunk with the lowest address, if the addresses of segments are
# in order of allocation, in reverse order, or shuffled.
FIRST, LAST, LOWEST, HIGHEST, RANDOM, RISING, FALLING, SHUFFLED = \
    first, last, lowest, highest, random, rising, falling, shuffled


def run_pool(const int64_t[:] event, *, const int64_t[:] size, const int64_t[:] segment, const int64_t[:] arena,
             const int64_t[:] rest, const int64_t[:] max_size, const int64_t[:] address, int rule, uint64_t seed,
             int64_t limit, bint fail_first, int64_t oversize):
    """Run an allocator over a trace of requests and frees.

    event : int64[e] b requests memory for buffer b, ~b frees it, or RELEASE_ALL. For each buffer, int64[k]: size :
    bytes of its chunk, 0 for none; segment : bytes of the new segment if no chunk fits; arena : only chunks of this
    arena are used; rest : minimum remainder that is split off; max_size : maximum size of a chunk to be used;
    address : address in the real allocator, or int64[0] if these are not replayed.
    rule : one of the above; limit : maximum bytes of all segments; fail_first : if True, a segment larger than the
    limit fails before anything is released; oversize : at the limit, free segments of at least this size are released
    first, INT64_MAX for none
    Returns (used int64[e], total int64[e], tied uint8[e], segment int64[k], offset int64[k], diverged). `tied` is True
    for events at which the rule made a difference. Segment and offset are -1 for a buffer without a chunk. `diverged`
    is the first buffer whose real address contradicts these rules, or -1.
    Cost: O(log(number of free chunks)) time for each event, and a visit of all free segments at the limit; O(e + k)
    memory.
    """
    cdef Py_ssize_t count = event.shape[0], k = size.shape[0], at, diverged = -1
    cdef int64_t b, chunk
    cdef bint replayed = address.shape[0] > 0
    cdef _SegmentPool pool = _SegmentPool(rule, seed, limit, replayed)
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


# The pool: segments from the device, divided into chunks in linked lists. Free chunks are also in sorted maps.

cdef struct _Chunk:
    int64_t segment, offset, size, arena
    int64_t before, after  # neighbours, -1 for none
    _Pair rank             # breaks ties of size
    bint free


@cython.final
cdef class _SegmentPool:
    """The segments and chunks of an allocator.

    `segments` and `parts` together contain exactly the free chunks. No two adjacent chunks of a segment are both free.
    After a MemoryError these invariants are lost: discard the pool.
    """

    cdef vector[_Chunk] chunks
    cdef vector[int64_t] base  # address of each segment
    # Free chunks that are whole segments, and free chunks that are parts of segments.
    cdef _FreeChunks segments, parts
    # All free chunks, sorted by address within each arena and size; filled if addresses are replayed.
    cdef ordered_map[_AddressKey, int64_t] placed
    cdef int rule
    cdef bint replayed
    cdef uint64_t seed
    cdef int64_t limit, used, total, clock
    # True if several chunks fitted the last request equally well, so that the rule chose one.
    cdef bint tied

    def __cinit__(self, int rule, uint64_t seed, int64_t limit, bint replayed):
        self.rule, self.seed, self.limit, self.replayed = rule, seed, limit, replayed
        self.used = self.total = self.clock = 0

    cdef int64_t address(self, int64_t chunk) noexcept nogil:
        return self.base[self.chunks[chunk].segment] + self.chunks[chunk].offset

    cdef bint whole(self, int64_t chunk) noexcept nogil:
        """Return True if a chunk is a whole segment."""
        return self.chunks[chunk].before < 0 and self.chunks[chunk].after < 0

    cdef _Pair rank(self, int64_t chunk) noexcept nogil:
        cdef int64_t segment = self.chunks[chunk].segment, offset = self.chunks[chunk].offset
        self.clock += 1
        if self.rule == first:
            return _Pair(self.clock, 0)
        if self.rule == last:
            return _Pair(-self.clock, 0)
        if self.rule == highest:
            return _Pair(-segment, -offset)
        if self.rule == random:
            return _Pair(<int64_t>(mix_word(self.seed ^ (mix_word(<uint64_t>self.clock) >> 1)) >> 1), chunk)
        if self.rule == falling:
            return _Pair(-segment, offset)
        if self.rule == shuffled:
            return _Pair(<int64_t>(mix_word(self.seed ^ (mix_word(<uint64_t>segment) >> 1)) >> 1), offset)
        return _Pair(segment, offset)

    cdef _FreeChunks* free_chunks(self, int64_t chunk) noexcept nogil:
        """Return the map that contains a chunk while it is free: `segments` for whole segments, else `parts`."""
        return &self.segments if self.whole(chunk) else &self.parts

    cdef _AddressKey address_key(self, int64_t chunk) noexcept nogil:
        cdef _Chunk* it = &self.chunks[chunk]
        return _AddressKey(pair[_Pair, int64_t](_Pair(it.arena, it.size), self.address(chunk)), it.rank)

    cdef int put(self, int64_t chunk) except -1 nogil:
        """Insert a chunk into the maps of free chunks."""
        cdef _Chunk* it = &self.chunks[chunk]
        it.rank = self.rank(chunk)
        it.free = True
        set_entry(dereference(self.free_chunks(chunk)), _SizeKey(_Pair(it.arena, it.size), it.rank), chunk)
        if self.replayed:
            set_entry(self.placed, self.address_key(chunk), chunk)
        return 0

    cdef void pick(self, int64_t chunk) noexcept nogil:
        """Remove a chunk from the maps of free chunks."""
        cdef _Chunk* it = &self.chunks[chunk]
        self.free_chunks(chunk).erase(_SizeKey(_Pair(it.arena, it.size), it.rank))
        it.free = False
        if self.replayed:
            self.placed.erase(self.address_key(chunk))

    cdef int64_t fitting(self, int64_t arena, int64_t size, int64_t max_size, int64_t target) noexcept nogil:
        """Return the smallest free chunk that is large enough, or -1.

        Ties go to the chunk at address `target`, if there is one, otherwise to the chunk that the rule chooses.
        """
        cdef _SizeKey lower = _SizeKey(_Pair(arena, size), _Pair(INT64_MIN, INT64_MIN)), best
        cdef _FreeChunks.iterator segment = self.segments.lower_bound(lower), part = self.parts.lower_bound(lower)
        cdef bint is_segment = segment != self.segments.end(), is_part = part != self.parts.end()
        cdef int64_t chosen
        if is_segment and (not is_part or dereference(segment).first < dereference(part).first):
            best, chosen = dereference(segment).first, dereference(segment).second
        elif is_part:
            best, chosen = dereference(part).first, dereference(part).second
        else:
            return -1
        if best.first.first != arena or best.first.second > max_size:
            return -1
        is_segment = is_segment and dereference(segment).first.first == best.first
        is_part = is_part and dereference(part).first.first == best.first
        # It makes no difference which of several whole segments of equal size is used.
        self.tied = is_part and (is_segment or self.several(part))
        return chosen if target < 0 else self.at(best.first, target, chosen)

    cdef bint several(self, _FreeChunks.iterator part) noexcept nogil:
        """Return True if there are several parts of this size, between which the rule decides."""
        cdef _Pair like = dereference(part).first.first
        cdef int64_t segment = self.chunks[dereference(part).second].segment
        if self.rule < rising:
            preincrement(part)
            return part != self.parts.end() and dereference(part).first.first == like
        # These three rules differ only in the order of segments. So the rule matters only if the first and the last
        # part of this size are in different segments.
        part = self.parts.upper_bound(_SizeKey(like, _Pair(INT64_MAX, INT64_MAX)))
        predecrement(part)
        return self.chunks[dereference(part).second].segment != segment

    cdef int64_t at(self, _Pair like, int64_t target, int64_t otherwise) noexcept nogil:
        """Return the free chunk of this arena and size at address `target`, or `otherwise`."""
        cdef pair[_Pair, int64_t] there = pair[_Pair, int64_t](like, target)
        cdef ordered_map[_AddressKey, int64_t].iterator after = self.placed.upper_bound(
            _AddressKey(there, _Pair(INT64_MAX, INT64_MAX)))
        if after == self.placed.begin():
            return otherwise
        predecrement(after)
        return dereference(after).second if dereference(after).first.first == there else otherwise

    cdef int64_t new_segment(self, int64_t arena, int64_t size, int64_t base) except -1 nogil:
        cdef _Chunk chunk
        chunk.segment, chunk.offset, chunk.size, chunk.arena = <int64_t>self.base.size(), 0, size, arena
        chunk.before = chunk.after = -1
        self.base.push_back(base)
        self.chunks.push_back(chunk)
        self.total += size
        self.put(<int64_t>self.chunks.size() - 1)
        return <int64_t>self.chunks.size() - 1

    cdef int take(self, int64_t chunk, int64_t size, int64_t rest) except -1 nogil:
        """Allocate a free chunk, and split off the remainder if that is large enough."""
        cdef _Chunk tail
        self.pick(chunk)
        if self.chunks[chunk].size - size >= rest:
            tail = self.chunks[chunk]
            tail.offset += size
            tail.size -= size
            tail.before = chunk
            self.chunks[chunk].size = size
            self.chunks[chunk].after = <int64_t>self.chunks.size()
            self.chunks.push_back(tail)
            if tail.after >= 0:
                self.chunks[tail.after].before = self.chunks[chunk].after
            self.put(self.chunks[chunk].after)
        self.used += self.chunks[chunk].size
        return 0

    cdef int free(self, int64_t chunk) except -1 nogil:
        """Free a chunk and merge it with its free neighbours."""
        cdef int64_t after = self.chunks[chunk].after, before = self.chunks[chunk].before
        self.used -= self.chunks[chunk].size
        if after >= 0 and self.chunks[after].free:
            self.pick(after)
            self.join(chunk, after)
        if before >= 0 and self.chunks[before].free:
            self.pick(before)
            self.join(before, chunk)
            chunk = before
        self.put(chunk)
        return 0

    cdef void join(self, int64_t chunk, int64_t after) noexcept nogil:
        self.chunks[chunk].size += self.chunks[after].size
        self.chunks[chunk].after = self.chunks[after].after
        if self.chunks[chunk].after >= 0:
            self.chunks[self.chunks[chunk].after].before = chunk

    cdef bint room(self, int64_t arena, int64_t size, int64_t segment, int64_t oversize) noexcept nogil:
        """Return True if a new segment is within the limit, if necessary after releasing free segments."""
        if segment <= self.limit - self.total:
            return True
        if oversize < INT64_MAX and self.release_oversize(arena, max(size, oversize), oversize):
            if segment <= self.limit - self.total:
                return True
        self.release_all()
        return segment <= self.limit - self.total

    cdef void drop(self, int64_t chunk) noexcept nogil:
        """Return a free segment to the device."""
        self.total -= self.chunks[chunk].size
        self.pick(chunk)

    cdef bint release_oversize(self, int64_t arena, int64_t size, int64_t oversize) noexcept nogil:
        """Release free segments to gain `size` bytes: the smallest that suffices, or else the largest ones.

        Segments below `oversize` are never released. Returns False if the others have fewer than `size` bytes.
        """
        cdef _SizeKey lower = _SizeKey(_Pair(arena, size), _Pair(INT64_MIN, INT64_MIN))
        cdef _FreeChunks.iterator at = self.segments.lower_bound(lower)
        cdef int64_t freed = 0, chunk
        if at != self.segments.end() and dereference(at).first.first.first == arena:
            self.drop(dereference(at).second)
            return True
        while freed < size and at != self.segments.begin():
            predecrement(at)
            if dereference(at).first.first < _Pair(arena, oversize):
                break
            chunk = dereference(at).second
            preincrement(at)  # before it is erased
            freed += self.chunks[chunk].size
            self.drop(chunk)
        return freed >= size

    cdef void release_all(self) noexcept nogil:
        """Return all free segments to the device."""
        while not self.segments.empty():
            self.drop(dereference(self.segments.begin()).second)
