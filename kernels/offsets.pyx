# distutils: language = c++
"""Offsets of buffers: greedy placement rules, an overlap check, and blocks that buffers share.

In the greedy rules a buffer is called a block: a rectangle with its bytes as height and its lifetime as width. Time is
divided into sections at the begins and ends of lifetimes."""

import numpy as np

cimport cython
from cython.operator cimport dereference, predecrement
from libc.stdint cimport INT64_MAX, int32_t, int64_t
from libcpp.map cimport map as ordered_map
from libcpp.pair cimport pair
from libcpp.queue cimport priority_queue
from libcpp.vector cimport vector
from remat_algos.kernels.graph cimport GraphArrays
from remat_algos.kernels.growing cimport assign, push, set_entry
from remat_algos.kernels.types cimport Flags, Int64s

cdef class _PlacedBlocks
cdef class _Skyline
cdef class _UnplacedBlocks


# Greedy placement: first fit or best fit in a given order, and lowest place first.

@cython.final
cdef class GapFit:
    """First fit or best fit: place each block, in the given order, in the lowest or in the tightest gap.

    GapFit(order, begin, end, size, low=, high=, best=): order : int64[n] a permutation of the blocks; begin, end :
    int64[n], block i is live in sections (intervals of time) begin[i] to end[i] - 1; size : int64[n] above 0;
    low, high : int64[n] lowest and highest valid offset of each block. If no gap between placed blocks is valid for a
    block, it is placed above them, possibly above its `high`. After a MemoryError the object must not be used again.

    Cost: placing a block visits the placed blocks in its sections: O(n^2) time if all overlap; O(n) memory.
    """
    cdef const int64_t[:] order, begin, end, size, low, high
    cdef bint best
    cdef Py_ssize_t at
    cdef _PlacedBlocks placed
    # For each position in the order, the earliest begin of this and all later blocks. Blocks that end earlier are
    # dropped.
    cdef vector[int64_t] first
    cdef int64_t[:] offset

    def __init__(self, const int64_t[:] order, const int64_t[:] begin, const int64_t[:] end, const int64_t[:] size,
                 *, const int64_t[:] low, const int64_t[:] high, bint best):
        cdef Py_ssize_t at, n = order.shape[0]
        self.order, self.begin, self.end, self.size, self.best = order, begin, end, size, best
        self.low, self.high = low, high
        self.placed = _PlacedBlocks()
        self.offset = np.zeros(n, np.int64)
        assign(self.first, n + 1, INT64_MAX)
        for at in range(n - 1, -1, -1):
            self.first[at] = min(begin[order[at]], self.first[at + 1])

    def run(self, Py_ssize_t blocks):
        """Place up to `blocks` more blocks; return True if all are placed."""
        cdef int64_t b, offset
        cdef Py_ssize_t until = min(self.at + blocks, self.order.shape[0])
        with nogil:
            while self.at < until:
                b = self.order[self.at]
                offset = self.placed.gap(self.begin[b], self.end[b], self.size[b], self.low[b], self.high[b],
                                         self.best, self.first[self.at])
                self.placed.add(_PlacedBlock(offset, offset + self.size[b], self.begin[b], self.end[b]))
                self.offset[b] = offset
                self.at += 1
        return self.at == self.order.shape[0]

    def offsets(self):
        """Return the offsets, int64[n]; call this after all blocks have been placed."""
        return np.asarray(self.offset)


@cython.final
cdef class SkylineFit:
    """Repeatedly take the lowest place of the skyline, and put the block of minimum rank that fits there.

    SkylineFit(begin, end, size, rank, sections): begin, end : int64[n] half-open sections, `begin` ascending;
    size : int64[n]; rank : int64[n] a permutation. A place is a maximal range of sections in which the skyline has
    one height. A place in which no block fits is raised to the height of its lower neighbour.
    After a MemoryError the object must not be used again.
    Cost: O(log n) time, O(n) in the worst case, for each of about n + sections places; O(n + sections) memory.
    """
    cdef const int64_t[:] begin, end, size
    cdef Py_ssize_t left
    cdef _Skyline skyline
    cdef _UnplacedBlocks waiting
    cdef int64_t[:] offset

    def __init__(self, const int64_t[:] begin, const int64_t[:] end, const int64_t[:] size, const int64_t[:] rank,
                 Py_ssize_t sections):
        self.begin, self.end, self.size, self.left = begin, end, size, size.shape[0]
        self.skyline, self.waiting = _Skyline(), _UnplacedBlocks()
        self.offset = np.zeros(self.left, np.int64)
        self.skyline.start(sections)
        self.waiting.start(begin, end, rank)

    def run(self, Py_ssize_t places):
        """Fill up to `places` more places; return True if all blocks are placed."""
        cdef int64_t b, part
        with nogil:
            while self.left and places > 0:
                places -= 1
                part = self.skyline.lowest()
                b = self.waiting.take(self.skyline.parts[part].begin, self.skyline.parts[part].end)
                if b < 0:
                    self.skyline.lift(part)
                else:
                    self.offset[b] = self.skyline.put(part, self.begin[b], self.end[b], self.size[b])
                    self.left -= 1
        return self.left == 0

    def offsets(self):
        """Return the offsets, int64[n]; call this after all blocks have been placed."""
        return np.asarray(self.offset)


# Overlap check.

def first_clash(const int64_t[:] begin, const int64_t[:] end, const int64_t[:] size, const int64_t[:] offset):
    """Return the first two buffers, ordered by step, that share a byte at a step; (-1, -1) if there are none.

    begin, end : int64[k] half-open steps, size : int64[k] bytes, offset : int64[k]

    Before the first clash no live buffers overlap. So a new buffer can only clash with the live buffers whose offsets
    are next to its own.
    Cost: O(k log k) time, O(k) memory.
    """
    cdef Py_ssize_t k = begin.shape[0], at, gone = 0
    cdef int64_t i, j
    cdef const int64_t[:] begins = np.argsort(begin, kind="stable")
    cdef const int64_t[:] ends = np.argsort(end, kind="stable")
    cdef ordered_map[int64_t, int64_t] live  # offset -> buffer
    cdef ordered_map[int64_t, int64_t].iterator near
    for at in range(k):
        i = begins[at]
        while end[ends[gone]] <= begin[i]:
            if size[ends[gone]] > 0:
                live.erase(offset[ends[gone]])
            gone += 1
        if size[i] == 0:
            continue
        near = live.lower_bound(offset[i])
        if near != live.end():
            j = dereference(near).second
            if offset[j] < offset[i] + size[i]:
                return j, i
        if near != live.begin():
            predecrement(near)
            j = dereference(near).second
            if offset[j] + size[j] > offset[i]:
                return j, i
        set_entry(live, offset[i], i)
    return -1, -1


# Sharing of blocks: in-place values, free lists, interval colouring.

def written_over(GraphArrays graph not None, const int32_t[:] order, *, const int64_t[:] instance_indptr,
                 const int32_t[:] value, const int64_t[:] end, const unsigned char[:] stored,
                 const int64_t[:] pair_indptr, const int64_t[:] output_value, const int64_t[:] read,
                 const unsigned char[:] demanded):
    """Return the instance that each instance overwrites in place; the pairs of a node are tried in order.

    order : int32[m], instance_indptr : int64[m + 1], value : int32[instances], end : int64[instances];
    stored : uint8[instances] flags of the instances that are copied to the host and must not be overwritten;
    pair_indptr : int64[n + 1], output_value, read : int64[pairs] for each node, pairs of a value that it computes and a
    value that it reads; demanded : uint8[pairs] flags of the pairs that must be in place
    Returns (int64[instances] with -1 for none, step, pair); the last two are the first demanded pair that is impossible
    and its step, or -1.
    Cost: O(n_values + m + instances + pairs of all runs) time and memory.
    """
    cdef Int64s value_indptr = graph.value_indptr, memory = graph.memory
    cdef Flags output = graph.output
    cdef Py_ssize_t m = order.shape[0], step, j
    cdef int32_t v
    cdef int64_t x, i, under, computed
    cdef bint pinned, possible
    written = np.full(end.shape[0], -1, np.int64)
    cdef int64_t[:] over = written
    # For each value, the instance that serves reads at this step.
    cdef int64_t[:] newest = np.full(graph.n_values, -1, np.int64)
    cdef unsigned char[:] overwritten = np.zeros(end.shape[0], np.uint8)
    for step in range(m):
        v = order[step]
        computed = instance_indptr[step + 1] - (value_indptr[v + 1] - value_indptr[v])
        for i in range(instance_indptr[step], computed):             # loads
            newest[value[i]] = i
        for j in range(pair_indptr[v], pair_indptr[v + 1]):
            i = computed + output_value[j] - value_indptr[v]
            under = newest[read[j]]
            pinned = output[output_value[j]] and newest[output_value[j]] < 0
            # This step can overwrite the value in place if it is the last reader of the value, the value is neither an
            # output nor stored, and the new value has the same size.
            possible = over[i] < 0 and not overwritten[under] and end[under] == step + 1 and not output[read[j]]
            possible = possible and memory[output_value[j]] == memory[read[j]] and not stored[under]
            if demanded[j] and not possible:
                return written, step, j
            if possible and (demanded[j] or memory[output_value[j]] > 0 and (pinned or end[i] > step + 1)):
                over[i] = under
                overwritten[under] = True
        for x in range(value_indptr[v], value_indptr[v + 1]):
            if not output[x] or newest[x] < 0:
                newest[x] = computed + x - value_indptr[v]
    return written, -1, -1


def shared_blocks(const int64_t[:] begin, const int64_t[:] end, const int64_t[:] size, const int64_t[:] over, *,
                  const int64_t[:] begins, const int64_t[:] ends, int64_t match_range):
    """Return the block of each buffer, taken from a list of free blocks sorted by size.

    begin, end : int64[k] half-open steps; size : int64[k] bytes; over : int64[k] the overwritten buffer, or -1;
    begins : int64[k] the buffers in the order in which they request blocks; ends : the buffers in the order in which
    they return blocks; match_range : a free block of b bytes may serve a request of s bytes if
    s // match_range <= b <= s * match_range; 0 if blocks are never reused
    Returns (block int64[k], final bytes int64[blocks]).
    Cost: O(k log k) time, O(k) memory.
    """
    cdef Py_ssize_t k = begin.shape[0], at, gone = 0, n_ends = ends.shape[0]
    cdef int64_t i, j, request, capacity
    cdef vector[int64_t] length
    cdef pair[int64_t, int64_t] key  # bytes, time of free
    cdef ordered_map[pair[int64_t, int64_t], int64_t] free
    cdef ordered_map[pair[int64_t, int64_t], int64_t].iterator near
    blocks = np.empty(k, np.int64)
    cdef int64_t[:] block = blocks
    for at in range(k):
        i = begins[at]
        request = size[i]
        while gone < n_ends and end[ends[gone]] <= begin[i]:
            j = block[ends[gone]]
            key.first, key.second = length[j], gone
            set_entry(free, key, j)
            gone += 1
        if over[i] >= 0:
            block[i] = block[over[i]]
            continue
        j = -1
        if match_range > 0:
            key.first, key.second = request, -1
            near = free.lower_bound(key)
            if near != free.end():
                capacity = dereference(near).first.first
                if capacity // match_range + (capacity % match_range > 0) <= request:
                    j = dereference(near).second
            if j < 0 and near != free.begin():
                predecrement(near)
                if dereference(near).first.first >= request // match_range:
                    j = dereference(near).second
        if j < 0:
            j = length.size()
            length.push_back(request)
        else:
            free.erase(near)
            length[j] = max(length[j], request)  # the block may grow
        block[i] = j
    lengths = np.empty(length.size(), np.int64)
    cdef int64_t[:] out = lengths
    for at in range(out.shape[0]):
        out[at] = length[at]
    return blocks, lengths


def block_colours(const int64_t[::1] begin, const int64_t[::1] end):
    """Colour intervals: each interval, in order, gets the smallest colour that no earlier overlapping interval has.

    begin, end : int64[k] half-open
    Returns int64[k].
    Cost: O(k^2) time, O(k) memory; for more than about ten thousand buffers use `shared_blocks`.
    """
    cdef Py_ssize_t k = begin.shape[0], i, j
    cdef int64_t first, last, c
    colours = np.empty(k, np.int64)
    cdef int64_t[::1] colour = colours
    # For each colour, the last interval for which it was found to be in use.
    cdef int64_t[::1] seen = np.full(k + 1, -1, np.int64)
    with nogil:
        for i in range(k):
            first, last = begin[i], end[i]
            for j in range(i):
                if begin[j] < last and first < end[j]:
                    seen[colour[j]] = i
            c = 0
            while seen[c] == i:
                c += 1
            colour[i] = c
    return colours


# Placed blocks sorted by offset, in chunks. A chunk stores the range of sections that its blocks cover.

cdef struct _PlacedBlock:
    int64_t offset, top, begin, end

cdef struct _BlockChunk:
    int64_t low         # lower bound on offsets
    # Range of sections that the blocks cover. Blocks that end at or before `forgot` have been dropped.
    int64_t begin, end
    int64_t forgot
    Py_ssize_t row

cdef enum:
    max_chunk = 256  # blocks


@cython.final
cdef class _PlacedBlocks:
    """Placed blocks sorted by offset, in chunks of at most max_chunk blocks.

    rows[chunks[i].row] contains the blocks of chunk i; no block of chunk i + 1 has a lower offset. After blocks have
    been dropped, the range of sections of a chunk may be larger than necessary.
    """
    cdef vector[_BlockChunk] chunks
    cdef vector[vector[_PlacedBlock]] rows

    def __cinit__(self):
        self.rows.push_back(vector[_PlacedBlock]())
        self.chunks.push_back(_BlockChunk(0, 0, 0, 0, 0))

    cdef int64_t gap(self, int64_t begin, int64_t end, int64_t size, int64_t low, int64_t high, bint best,
                     int64_t first) except -1 nogil:
        """Return the offset of the lowest gap of `size` bytes in these sections, or of the tightest gap if `best`.

        The offset is at least `low`. If no gap between placed blocks has a valid offset, it is above all of them, and
        may exceed `high`. No block to be placed later begins before `first`.
        """
        cdef int64_t top = low, lowest_gap = -1, tightest = 0
        cdef Py_ssize_t at, i
        cdef _PlacedBlock* place
        cdef vector[_PlacedBlock]* row
        for at in range(<Py_ssize_t>self.chunks.size()):
            if self.chunks[at].begin >= end or self.chunks[at].end <= begin:
                continue
            if self.chunks[at].forgot < first:
                self.forget(at, first)
            row = &self.rows[self.chunks[at].row]
            for i in range(<Py_ssize_t>row.size()):
                place = &row[0][i]
                if place.begin >= end or place.end <= begin:
                    continue
                if (place.offset - top >= size and top <= high
                        and (lowest_gap < 0 or place.offset - top < tightest)):
                    lowest_gap, tightest = top, place.offset - top
                    if not best or tightest == size:
                        return lowest_gap
                top = max(top, place.top)
        return top if lowest_gap < 0 else lowest_gap

    cdef int forget(self, Py_ssize_t at, int64_t first) except -1 nogil:
        """Drop the blocks of a chunk that end at or before `first`, the earliest begin of all blocks still to place."""
        cdef vector[_PlacedBlock]* row = &self.rows[self.chunks[at].row]
        cdef Py_ssize_t i, kept = 0
        for i in range(<Py_ssize_t>row.size()):
            if row[0][i].end > first:
                row[0][kept] = row[0][i]
                kept += 1
        row.resize(kept)
        self.chunks[at].forgot = first
        return 0

    cdef int add(self, _PlacedBlock place) except -1 nogil:
        cdef Py_ssize_t at = 0, i, high = <Py_ssize_t>self.chunks.size(), middle
        cdef vector[_PlacedBlock]* row
        cdef _BlockChunk* chunk
        # Bisect for the last chunk whose lowest offset is not above that of the block.
        while high - at > 1:
            middle = (at + high) // 2
            if self.chunks[middle].low <= place.offset:
                at = middle
            else:
                high = middle
        chunk = &self.chunks[at]
        row = &self.rows[chunk.row]
        i = <Py_ssize_t>row.size()
        row.push_back(place)
        while i and row[0][i - 1].offset > place.offset:
            row[0][i] = row[0][i - 1]
            i -= 1
        row[0][i] = place
        chunk.begin = place.begin if row.size() == 1 else min(chunk.begin, place.begin)
        chunk.end = max(chunk.end, place.end)
        if <Py_ssize_t>row.size() > max_chunk:
            self.split(at)
        return 0

    cdef int split(self, Py_ssize_t at) except -1 nogil:
        """Move the upper half of a chunk to a new chunk."""
        cdef Py_ssize_t low_row = self.chunks[at].row, high_row = <Py_ssize_t>self.rows.size()
        cdef Py_ssize_t half = <Py_ssize_t>self.rows[low_row].size() // 2
        cdef _BlockChunk upper = self.chunks[at]
        self.rows.push_back(vector[_PlacedBlock]())
        self.rows[high_row].assign(self.rows[low_row].begin() + half, self.rows[low_row].end())
        self.rows[low_row].resize(half)
        upper.row, upper.low = high_row, self.rows[high_row][0].offset
        self.chunks.insert(self.chunks.begin() + at + 1, upper)
        self.measure(at)
        self.measure(at + 1)
        return 0

    cdef void measure(self, Py_ssize_t at) noexcept nogil:
        cdef vector[_PlacedBlock]* row = &self.rows[self.chunks[at].row]
        cdef Py_ssize_t i
        self.chunks[at].begin, self.chunks[at].end = row[0][0].begin, row[0][0].end
        for i in range(1, <Py_ssize_t>row.size()):
            self.chunks[at].begin = min(self.chunks[at].begin, row[0][i].begin)
            self.chunks[at].end = max(self.chunks[at].end, row[0][i].end)


# The skyline of the placed blocks, as parts of equal height.

cdef struct _SkylinePart:
    int64_t begin, end, height
    Py_ssize_t before, after  # neighbours, -1 for none


@cython.final
cdef class _Skyline:
    """The parts of the skyline, which cover each section once, as a linked list and in a queue by height."""
    cdef vector[_SkylinePart] parts
    # Entries (-height, -part); removed parts stay in the queue.
    cdef priority_queue[pair[int64_t, Py_ssize_t]] queue
    cdef vector[unsigned char] gone

    cdef int start(self, int64_t sections) except -1 nogil:
        self.add(_SkylinePart(0, sections, 0, -1, -1))
        return 0

    cdef Py_ssize_t add(self, _SkylinePart part) except -1 nogil:
        cdef Py_ssize_t at = <Py_ssize_t>self.parts.size()
        self.parts.push_back(part)
        self.gone.push_back(False)
        if part.before >= 0:
            self.parts[part.before].after = at
        if part.after >= 0:
            self.parts[part.after].before = at
        push(self.queue, pair[int64_t, Py_ssize_t](-part.height, -at))
        return at

    cdef Py_ssize_t lowest(self) except -1 nogil:
        """Return the lowest part, merged with neighbours of equal height."""
        cdef Py_ssize_t at
        while self.gone[-self.queue.top().second]:
            self.queue.pop()
        at = -self.queue.top().second
        while self.level(at, self.parts[at].before):
            at = self.join(self.parts[at].before, at)
        while self.level(at, self.parts[at].after):
            at = self.join(at, self.parts[at].after)
        return at

    cdef bint level(self, Py_ssize_t at, Py_ssize_t other) noexcept nogil:
        return other >= 0 and self.parts[other].height == self.parts[at].height

    cdef Py_ssize_t join(self, Py_ssize_t at, Py_ssize_t after) except -1 nogil:
        self.gone[at] = self.gone[after] = True
        return self.add(_SkylinePart(self.parts[at].begin, self.parts[after].end, self.parts[at].height,
                              self.parts[at].before, self.parts[after].after))

    cdef int lift(self, Py_ssize_t at) except -1 nogil:
        """Raise a part to the height of its lower neighbour."""
        cdef _SkylinePart part = self.parts[at]
        cdef int64_t height = -1
        if part.before >= 0:
            height = self.parts[part.before].height
        if part.after >= 0 and (height < 0 or self.parts[part.after].height < height):
            height = self.parts[part.after].height
        part.height = height
        self.gone[at] = True
        self.add(part)
        return 0

    cdef int64_t put(self, Py_ssize_t at, int64_t begin, int64_t end, int64_t size) except -1 nogil:
        """Place a block on a part, split off the sections to its left and right, and return the offset of the block."""
        cdef _SkylinePart part = self.parts[at]
        cdef Py_ssize_t left = part.before, middle
        self.gone[at] = True
        if begin > part.begin:
            left = self.add(_SkylinePart(part.begin, begin, part.height, part.before, part.after))
        middle = self.add(_SkylinePart(begin, end, part.height + size, left, part.after))
        if end < part.end:
            self.add(_SkylinePart(end, part.end, part.height, middle, part.after))
        return part.height


# Unplaced blocks.

@cython.final
cdef class _UnplacedBlocks:
    """Segment tree over the blocks, sorted by begin: minimum rank and minimum end of the unplaced blocks in each range.

    The children of tree node i are 2 i and 2 i + 1. Block b is the leaf `leaves` + b; both minima of a placed block are
    INT64_MAX.
    """
    cdef const int64_t[:] begin, end
    cdef Py_ssize_t leaves
    cdef vector[int64_t] rank, min_end
    cdef vector[Py_ssize_t] stack

    cdef int start(self, const int64_t[:] begin, const int64_t[:] end, const int64_t[:] rank) except -1:
        cdef Py_ssize_t i, n = begin.shape[0]
        self.begin, self.end = begin, end
        self.leaves = 1
        while self.leaves < n:
            self.leaves *= 2
        assign(self.rank, 2 * self.leaves, INT64_MAX)
        assign(self.min_end, 2 * self.leaves, INT64_MAX)
        for i in range(n):
            self.rank[self.leaves + i], self.min_end[self.leaves + i] = rank[i], end[i]
        for i in range(self.leaves - 1, 0, -1):
            self.measure(i)
        return 0

    cdef void measure(self, Py_ssize_t at) noexcept nogil:
        self.rank[at] = min(self.rank[2 * at], self.rank[2 * at + 1])
        self.min_end[at] = min(self.min_end[2 * at], self.min_end[2 * at + 1])

    cdef Py_ssize_t first_at(self, int64_t section) noexcept nogil:
        """Return the first block that begins at this section or later."""
        cdef Py_ssize_t low = 0, high = self.begin.shape[0], middle
        while low < high:
            middle = (low + high) // 2
            if self.begin[middle] < section:
                low = middle + 1
            else:
                high = middle
        return low

    cdef Py_ssize_t take(self, int64_t begin, int64_t end) except -2 nogil:
        """Remove and return the block of minimum rank that lies within these sections, or -1."""
        cdef Py_ssize_t low = self.leaves + self.first_at(begin), high = self.leaves + self.first_at(end)
        cdef Py_ssize_t chosen = -1, at
        self.stack.clear()
        # Collect the tree nodes that together cover the blocks beginning in these sections.
        while low < high:
            if low & 1:
                self.stack.push_back(low)
                low += 1
            if high & 1:
                high -= 1
                self.stack.push_back(high)
            low, high = low // 2, high // 2
        while not self.stack.empty():
            at = self.stack.back()
            self.stack.pop_back()
            if self.min_end[at] > end or (chosen >= 0 and self.rank[at] >= self.rank[chosen]):
                continue
            if at >= self.leaves:
                chosen = at
            else:  # minimum rank first
                low = 2 * at + (self.rank[2 * at] > self.rank[2 * at + 1])
                self.stack.push_back(low ^ 1)
                self.stack.push_back(low)
        if chosen < 0:
            return -1
        self.rank[chosen] = self.min_end[chosen] = INT64_MAX
        at = chosen // 2
        while at:
            self.measure(at)
            at //= 2
        return chosen - self.leaves
