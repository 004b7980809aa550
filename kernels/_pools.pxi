# Segments from the device, cut into chunks that know their neighbours; the free ones lie in order.

from libcpp.map cimport map as ordered_map
from libcpp.pair cimport pair
from libcpp.vector cimport vector

ctypedef pair[int64_t, int64_t] _Pair
ctypedef pair[_Pair, _Pair] _Key  # (arena, size), then what tells equal sizes apart

cdef enum _Rule:
    first
    last
    lowest
    highest
    random
    rising
    falling
    shuffled

cdef struct _Chunk:
    int64_t segment, offset, size, arena
    int64_t before, after  # neighbours in the segment, -1 for none
    _Pair rank             # among free ones of its size
    bint free


cdef inline int64_t _mixed(uint64_t x) noexcept nogil:
    """63 bits that look like chance (splitmix64)."""
    x += 0x9E3779B97F4A7C15u
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu
    return <int64_t>((x ^ (x >> 31)) >> 1)


cdef class _Pool:
    cdef vector[_Chunk] chunks
    cdef vector[int64_t] base  # of each segment
    cdef ordered_map[_Key, int64_t] idle
    cdef int rule
    cdef uint64_t seed
    cdef int64_t limit, used, total, clock
    cdef bint tied  # whether the last answer was one of several that differ

    def __cinit__(self, int rule, uint64_t seed, int64_t limit):
        self.rule, self.seed, self.limit = rule, seed, limit
        self.used = self.total = self.clock = 0

    cdef int64_t address(self, int64_t chunk) noexcept nogil:
        return self.base[self.chunks[chunk].segment] + self.chunks[chunk].offset

    cdef bint whole(self, int64_t chunk) noexcept nogil:
        """Whether it is all of its segment."""
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
            return _Pair(_mixed(self.seed ^ <uint64_t>_mixed(<uint64_t>self.clock)), chunk)
        if self.rule == falling:
            return _Pair(-segment, offset)
        if self.rule == shuffled:
            return _Pair(_mixed(self.seed ^ <uint64_t>_mixed(<uint64_t>segment)), offset)
        return _Pair(segment, offset)

    cdef void put(self, int64_t chunk) noexcept nogil:
        """Among the free ones."""
        cdef _Chunk* it = &self.chunks[chunk]
        it.rank = self.rank(chunk)
        it.free = True
        self.idle[_Key(_Pair(it.arena, it.size), it.rank)] = chunk

    cdef void pick(self, int64_t chunk) noexcept nogil:
        """From among the free ones."""
        cdef _Chunk* it = &self.chunks[chunk]
        self.idle.erase(_Key(_Pair(it.arena, it.size), it.rank))
        it.free = False

    cdef int64_t fitting(self, int64_t arena, int64_t size, int64_t most, int64_t wanted) noexcept nogil:
        """The smallest free chunk that is large enough, the first by the rule or the one at the wanted address; -1."""
        cdef ordered_map[_Key, int64_t].iterator at = self.idle.lower_bound(
            _Key(_Pair(arena, size), _Pair(INT64_MIN, INT64_MIN)))
        cdef int64_t found, segment
        cdef bint by_segment = self.rule >= rising, several = False, all_whole
        cdef _Pair like
        if at == self.idle.end() or dereference(at).first.first.first != arena:
            return -1
        like = dereference(at).first.first
        if like.second > most:
            return -1
        found = dereference(at).second
        segment, all_whole = self.chunks[found].segment, self.whole(found)
        preincrement(at)
        # free segments of one size are as good as each other; within one the order by address is known
        while at != self.idle.end() and dereference(at).first.first == like:
            several = several or not by_segment or self.chunks[dereference(at).second].segment != segment
            all_whole = all_whole and self.whole(dereference(at).second)
            if wanted >= 0 and self.address(dereference(at).second) == wanted:
                found = dereference(at).second
            elif wanted < 0 and several and not all_whole:
                break
            preincrement(at)
        self.tied = several and not all_whole
        return found

    cdef int64_t new_segment(self, int64_t arena, int64_t size, int64_t base) noexcept nogil:
        cdef _Chunk chunk
        chunk.segment, chunk.offset, chunk.size, chunk.arena = <int64_t>self.base.size(), 0, size, arena
        chunk.before = chunk.after = -1
        self.base.push_back(base)
        self.chunks.push_back(chunk)
        self.total += size
        self.put(<int64_t>self.chunks.size() - 1)
        return <int64_t>self.chunks.size() - 1

    cdef void take(self, int64_t chunk, int64_t size, int64_t rest) noexcept nogil:
        """Hand it out, without the rest of it if that is worth while."""
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

    cdef void give(self, int64_t chunk) noexcept nogil:
        """Take it back, one with its free neighbours."""
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

    cdef void join(self, int64_t chunk, int64_t after) noexcept nogil:
        self.chunks[chunk].size += self.chunks[after].size
        self.chunks[chunk].after = self.chunks[after].after
        if self.chunks[chunk].after >= 0:
            self.chunks[self.chunks[chunk].after].before = chunk

    cdef bint room(self, int64_t arena, int64_t size, int64_t segment, int64_t oversize) noexcept nogil:
        """Whether a segment may be asked for, perhaps after others have been given back."""
        if segment <= self.limit - self.total:
            return True
        if oversize < INT64_MAX and self.give_oversize_back(arena, max(size, oversize), oversize):
            if segment <= self.limit - self.total:
                return True
        self.give_all_back()
        return segment <= self.limit - self.total

    cdef void drop(self, int64_t chunk) noexcept nogil:
        """Give a whole segment back to the device."""
        self.total -= self.chunks[chunk].size
        self.pick(chunk)

    cdef bint give_oversize_back(self, int64_t arena, int64_t size, int64_t oversize) noexcept nogil:
        """The smallest free segment that is enough, else the largest ones until they are; whether they were."""
        cdef ordered_map[_Key, int64_t].iterator at = self.idle.lower_bound(
            _Key(_Pair(arena, size), _Pair(INT64_MIN, INT64_MIN)))
        cdef vector[int64_t] large
        cdef int64_t given = 0
        while at != self.idle.end() and dereference(at).first.first.first == arena:
            if self.whole(dereference(at).second):
                self.drop(dereference(at).second)
                return True
            preincrement(at)
        at = self.idle.lower_bound(_Key(_Pair(arena, oversize), _Pair(INT64_MIN, INT64_MIN)))
        while at != self.idle.end() and dereference(at).first.first.first == arena:
            if self.whole(dereference(at).second):
                large.push_back(dereference(at).second)
            preincrement(at)
        while large.size() > 0 and given < size:
            given += self.chunks[large.back()].size
            self.drop(large.back())
            large.pop_back()
        return given >= size

    cdef void give_all_back(self) noexcept nogil:
        """All whole free segments to the device."""
        cdef ordered_map[_Key, int64_t].iterator at = self.idle.begin()
        cdef int64_t chunk
        while at != self.idle.end():
            chunk = dereference(at).second
            preincrement(at)  # before its place goes
            if self.whole(chunk):
                self.drop(chunk)
