# distutils: language = c++
"""Exact search for offsets of blocks within a capacity.

Time is divided into sections, and a block covers a range of sections. The floor of a section is the height below which
no unplaced block fits in it. If any placement exists, there is one in which every block lies on the bottom, on another
block or at its lowest offset. Only such placements are searched."""

import numpy as np

cimport cython
from libc.stdint cimport INT64_MAX, int64_t, uint64_t
from libcpp.vector cimport vector
from remat_algos.kernels.bitsets cimport random_word
from remat_algos.kernels.growing cimport assign

cdef class _PackingState
cdef class _FailedStates

cdef struct _SearchFrame:
    Py_ssize_t lo, hi     # sections of the part
    # Index of the frame whose choice created this part, -1 for the initial parts.
    Py_ssize_t parent
    Py_ssize_t section    # section of the choice
    # Range of adjacent sections with the same floor that contains `section`.
    Py_ssize_t first, last
    # Next height to which the floor rises if no block lies on it, -1 if this is impossible.
    int64_t above
    Py_ssize_t begin, end, cursor  # choices: range, next one
    int64_t placed        # block, or -1
    Py_ssize_t trail, waiting      # vector lengths before the choice
    uint64_t key, check

cdef struct _SectionRange:
    Py_ssize_t lo, hi, parent


@cython.final
cdef class PackingSearch:
    """PackingSearch(begin, end, size, low=, high=, sections=, bits=): depth-first search for a placement.

    begin, end : int64[n] range of sections of each block; size : int64[n] bytes; low, high : int64[n] lowest and
    highest valid offset of each block, equal for a fixed offset.
    Each choice concerns a section in a range of sections whose floor is lower than the floors on both sides. It sets
    the block that lies on the floor at this section. If no block does, the floor rises to the next possible height.
    Ranges of sections that no unplaced block connects are separate parts, which are filled one after another. If a part
    fails, the choice that created it fails. Up to 2^bits failed parts are stored.
    After a MemoryError the object must not be used again.

    Cost: exponential time in the worst case, so limit the work of `run`; O(n + sections) memory for each open choice,
    and 16 bytes for each of the 2^bits entries. Try greedy rules first.
    """
    cdef _PackingState state
    cdef _FailedStates failed
    cdef vector[_SearchFrame] frames
    cdef vector[_SectionRange] waiting
    cdef vector[int64_t] choices, rank
    cdef bint lowest
    cdef readonly int verdict

    def __init__(self, const int64_t[:] begin, const int64_t[:] end, const int64_t[:] size, *, const int64_t[:] low,
                 const int64_t[:] high, Py_ssize_t sections, int bits):
        self.state = _PackingState()
        self.failed = _FailedStates()
        self.state.load(begin, end, size, low, high, sections)
        self.failed.start(bits)

    @property
    def work(self):
        """Total work, in units of about a nanosecond."""
        return self.state.work

    def aim(self, int64_t capacity):
        """Set the capacity. Stored failures stay valid unless it increases."""
        if capacity > self.state.capacity:
            self.failed.clear()
        self.state.capacity = capacity

    def restart(self, const int64_t[:] rank, bint lowest):
        """Restart the search; blocks of small rank are tried first. Stored failures are kept.

        lowest : if True, the next choice is at the section with the lowest floor (ties go to the least free space above
        it). If False, it is at the section with the fewest choices.
        """
        cdef Py_ssize_t b
        while not self.frames.empty():
            self.undo(<Py_ssize_t>self.frames.size() - 1)
            self.frames.pop_back()
        self.waiting.clear()
        self.choices.clear()
        self.rank.resize(rank.shape[0])
        for b in range(rank.shape[0]):
            self.rank[b] = rank[b]
        self.lowest = lowest
        self.verdict = 0 if self.state.may_fit() else -1
        if self.verdict == 0:
            self.split(0, self.state.sections, -1)

    def run(self, int64_t work):
        """Continue the search for about `work` units.

        Returns 1 if all blocks are placed, -1 if that is impossible, 0 if undecided.
        """
        cdef int64_t until = self.state.work + work
        with nogil:
            while self.verdict == 0 and self.state.work < until:
                self.step()
        return self.verdict

    def offsets(self):
        """Return the offsets, int64[n]; call this after all blocks have been placed."""
        return np.array(self.state.offset, np.int64)

    cdef int step(self) except -1 nogil:
        """Open the next part and make its first choice; if that fails, backtrack to a remaining choice."""
        cdef _SectionRange part
        cdef Py_ssize_t at
        if self.waiting.empty():
            self.verdict = 1
            return 0
        part = self.waiting.back()
        self.waiting.pop_back()
        if self.open(part):
            at = <Py_ssize_t>self.frames.size() - 1
        else:
            at = part.parent
        while at >= 0 and not self.next(at):
            self.failed.add(self.frames[at].key, self.frames[at].check)
            at = self.frames[at].parent
        if at < 0:
            self.verdict = -1
        return 0

    cdef bint open(self, _SectionRange part) except -1 nogil:
        """Open a frame for a part and collect its choices; return False if the part is stored as failed."""
        cdef _SearchFrame frame
        cdef Py_ssize_t i, j
        cdef int64_t b
        cdef vector[int64_t]* row
        frame.lo, frame.hi, frame.parent, frame.placed = part.lo, part.hi, part.parent, -1
        frame.trail, frame.waiting = <Py_ssize_t>self.state.trail.size(), <Py_ssize_t>self.waiting.size()
        self.state.keys(part.lo, part.hi, &frame.key, &frame.check)
        if self.failed.known(frame.key, frame.check):
            return False
        frame.section = self.state.pick(part.lo, part.hi, self.lowest)
        frame.above = self.state.next_floor(frame.section, part.lo, part.hi)
        frame.first, frame.last = self.state.level(frame.section, part.lo), self.state.level_end(frame.section, part.hi)
        frame.begin = frame.cursor = self.choices_used()
        self.choices.resize(frame.begin)
        row = &self.state.rows[frame.section]
        for i in range(self.state.count[frame.section]):
            b = row[0][i]
            if self.state.low[b] == self.state.floor[frame.section]:
                j = <Py_ssize_t>self.choices.size()
                self.choices.push_back(b)
                while j > frame.begin and self.rank[self.choices[j - 1]] > self.rank[b]:
                    self.choices[j] = self.choices[j - 1]
                    j -= 1
                self.choices[j] = b
        frame.end = <Py_ssize_t>self.choices.size()
        self.frames.push_back(frame)
        return True

    cdef Py_ssize_t choices_used(self) noexcept nogil:
        return 0 if self.frames.empty() else self.frames.back().end

    cdef bint next(self, Py_ssize_t at) except -1 nogil:
        """Undo later frames, then make the next choice that does not fail at once; return False if there is none."""
        cdef _SearchFrame* frame = &self.frames[at]
        cdef bint fits
        cdef int64_t b
        while <Py_ssize_t>self.frames.size() > at + 1:
            self.undo(<Py_ssize_t>self.frames.size() - 1)
            self.frames.pop_back()
        while frame.cursor <= frame.end:
            self.undo(at)
            self.state.work += 1
            if frame.cursor < frame.end:
                b = self.choices[frame.cursor]
                frame.cursor += 1
                if self.repeats(frame, b):
                    continue
                fits = self.bar(frame, frame.cursor - 1)
                if fits:
                    frame.placed = b
                    fits = self.state.place(b)
            else:
                frame.cursor += 1
                if frame.above < 0:
                    return False
                fits = self.bar(frame, frame.end) and self.state.lift(frame.section, frame.above)
            if fits:
                self.split(frame.lo, frame.hi, at)
                return True
        self.undo(at)
        return False

    cdef bint bar(self, _SearchFrame* frame, Py_ssize_t tried) except -1 nogil:
        """Raise the `low` of the blocks that cover exactly the range of the choice, and that the search has failed to
        place on the floor of the range.

        Such a block must lie above some block that extends beyond the range or that has a `high`. Otherwise it could be
        swapped with the blocks below it, and would lie on the floor.
        """
        cdef Py_ssize_t i
        cdef int64_t b
        cdef bint fits = True
        for i in range(frame.begin, tried):
            b = self.choices[i]
            if fits and self.state.begin[b] == frame.first and self.state.end[b] == frame.last:
                fits = self.state.raise_block(b, self.state.over_walls(frame.first, frame.last))
        return self.state.propagate(fits)

    cdef bint repeats(self, _SearchFrame* frame, int64_t b) noexcept nogil:
        """Return True if an identical block has been tried in this frame."""
        cdef Py_ssize_t i
        cdef int64_t other
        for i in range(frame.begin, frame.cursor - 1):
            other = self.choices[i]
            if (self.state.size[other] == self.state.size[b] and self.state.begin[other] == self.state.begin[b]
                    and self.state.end[other] == self.state.end[b] and self.state.high[other] == self.state.high[b]):
                return True
        return False

    cdef int undo(self, Py_ssize_t at) except -1 nogil:
        """Undo the choice of a frame; all later frames must have been undone."""
        cdef _SearchFrame* frame = &self.frames[at]
        if frame.placed >= 0:
            self.state.unplace(frame.placed)
            frame.placed = -1
        self.state.rewind(frame.trail)
        self.waiting.resize(frame.waiting)
        return 0

    cdef int split(self, Py_ssize_t lo, Py_ssize_t hi, Py_ssize_t parent) except -1 nogil:
        """Split the rest of a part into parts that no unplaced block connects; the shortest part is filled first."""
        cdef Py_ssize_t s, first = -1, mark = <Py_ssize_t>self.waiting.size(), i
        for s in range(lo, hi + 1):
            if first >= 0 and (s == hi or self.state.cross[s] == 0):
                self.waiting.push_back(_SectionRange(first, s, parent))
                i = <Py_ssize_t>self.waiting.size() - 1
                while i > mark and self.waiting[i - 1].hi - self.waiting[i - 1].lo < s - first:
                    self.waiting[i] = self.waiting[i - 1]
                    i -= 1
                self.waiting[i] = _SectionRange(first, s, parent)
                first = -1
            if s < hi and first < 0 and self.state.count[s]:
                first = s
        return 0


# The state of the search: placed blocks, floors, and lower bounds on the offsets of unplaced blocks.

cdef struct _OldValue:
    # Address of an entry of `low` or `floor`. These vectors are never reallocated.
    int64_t* where
    int64_t value


cdef enum:
    # If a section has more unplaced blocks, only the sum of their bytes is checked against the capacity, to save time.
    max_checked = 128


@cython.final
cdef class _PackingState:
    """The placed blocks with their offsets, and lower bounds `low` on the offsets of the unplaced blocks.

    rows[s][:count[s]] are the unplaced blocks of section s: left[s] is the sum of their bytes, and cross[s] the number
    of those that also cover the previous section. The placed blocks follow in row s, beginning with the one placed
    last, so incrementing `count` undoes its placement. No unplaced block lies below its `low`, and no unplaced block of
    section s below floor[s]. The trail records previous entries of `low` and `floor`.
    """
    cdef Py_ssize_t n, sections
    cdef int64_t capacity, work
    cdef vector[int64_t] begin, end, size, low, high, offset
    cdef bint bounded                  # some block has `high`
    # For each section: its floor, and the bytes of its unplaced blocks.
    cdef vector[int64_t] floor, left
    # For each section: number of unplaced blocks, and how many of them also cover the previous section.
    cdef vector[Py_ssize_t] count, cross
    # For each section, its blocks, the unplaced ones first.
    cdef vector[vector[int64_t]] rows
    # Hash of each block, and for each section the hash of the set of unplaced blocks that begin in it.
    cdef vector[uint64_t] name, names
    cdef vector[_OldValue] trail
    cdef vector[Py_ssize_t] stale      # sections whose floor may rise
    cdef vector[unsigned char] is_stale
    # Scratch for `tighten`: the unplaced blocks of a section that cannot be the lowest unplaced block.
    cdef vector[int64_t] late

    cdef int load(self, const int64_t[:] begin, const int64_t[:] end, const int64_t[:] size, const int64_t[:] low,
                  const int64_t[:] high, Py_ssize_t sections) except -1 nogil:
        cdef Py_ssize_t b, s
        self.n, self.sections, self.bounded = size.shape[0], sections, False
        assign(self.offset, self.n, -1)
        assign(self.floor, sections, 0)
        assign(self.left, sections, 0)
        assign(self.count, sections, 0)
        assign(self.cross, sections + 1, 0)
        assign(self.names, sections, 0)
        assign(self.is_stale, sections, 0)
        self.rows.resize(sections)
        for b in range(self.n):
            self.begin.push_back(begin[b])
            self.end.push_back(end[b])
            self.size.push_back(size[b])
            self.low.push_back(low[b])
            self.high.push_back(high[b])
            self.bounded = self.bounded or high[b] < INT64_MAX
            self.name.push_back(random_word(b))
            self.names[begin[b]] ^= self.name[b]
            for s in range(begin[b], end[b]):
                self.rows[s].push_back(b)
                self.left[s] += size[b]
                self.count[s] += 1
                self.cross[s] += s > begin[b]
        return 0

    cdef bint may_fit(self) noexcept nogil:
        """Return True if the bytes of each section fit within the capacity, and each block has a valid offset."""
        cdef Py_ssize_t s, b
        for b in range(self.n):
            if self.low[b] > self.high[b] or self.low[b] + self.size[b] > self.capacity:
                return False
        for s in range(self.sections):
            if self.left[s] > self.capacity:
                return False
        return True

    cdef inline int set(self, int64_t* where, int64_t value) except -1 nogil:
        self.trail.push_back(_OldValue(where, where[0]))
        where[0] = value
        return 0

    cdef void rewind(self, Py_ssize_t mark) noexcept nogil:
        while <Py_ssize_t>self.trail.size() > mark:
            self.trail.back().where[0] = self.trail.back().value
            self.trail.pop_back()

    cdef bint place(self, int64_t b) except -1 nogil:
        """Place a block at its lowest offset; return False if the other blocks cannot fit then."""
        cdef int64_t top = self.low[b] + self.size[b]
        cdef Py_ssize_t s, i
        cdef vector[int64_t]* row
        cdef bint fits = True
        self.offset[b] = self.low[b]
        self.names[self.begin[b]] ^= self.name[b]
        for s in range(self.begin[b], self.end[b]):
            row = &self.rows[s]
            i = 0
            while row[0][i] != b:
                i += 1
            self.count[s] -= 1
            self.work += self.count[s]
            row[0][i], row[0][self.count[s]] = row[0][self.count[s]], b
            self.left[s] -= self.size[b]
            self.cross[s] -= s > self.begin[b]
        for s in range(self.begin[b], self.end[b]):
            fits = fits and self.raise_section(s, top)
        return self.propagate(fits)

    cdef void unplace(self, int64_t b) noexcept nogil:
        cdef Py_ssize_t s
        self.offset[b] = -1
        self.names[self.begin[b]] ^= self.name[b]
        for s in range(self.begin[b], self.end[b]):
            # The block is the first one after the unplaced blocks.
            self.count[s] += 1
            self.left[s] += self.size[b]
            self.cross[s] += s > self.begin[b]

    cdef bint lift(self, Py_ssize_t s, int64_t height) except -1 nogil:
        """Raise the floor of a section and propagate; return False if the unplaced blocks then cannot fit."""
        return self.propagate(self.raise_section(s, height))

    cdef bint raise_section(self, Py_ssize_t s, int64_t height) except -1 nogil:
        """Raise the floor of a section and the lower bounds of its unplaced blocks; return False if they cannot fit."""
        cdef Py_ssize_t i
        if self.count[s] == 0:
            return True
        self.set(&self.floor[s], height)
        self.mark(s)
        if height + self.left[s] > self.capacity:
            return False
        for i in range(self.count[s]):
            if not self.raise_block(self.rows[s][i], height):
                return False
        return True

    cdef bint raise_block(self, int64_t b, int64_t height) except -1 nogil:
        cdef int64_t before = self.low[b]
        cdef Py_ssize_t s
        if before >= height:
            return True
        self.set(&self.low[b], height)
        if height + self.size[b] > self.capacity or height > self.high[b]:
            return False
        self.work += self.end[b] - self.begin[b]
        for s in range(self.begin[b], self.end[b]):
            if self.floor[s] == before or (self.count[s] <= max_checked and height + self.left[s] > self.capacity):
                self.mark(s)
        return True

    cdef inline int mark(self, Py_ssize_t s) except -1 nogil:
        if not self.is_stale[s]:
            self.is_stale[s] = True
            self.stale.push_back(s)
        return 0

    cdef bint propagate(self, bint fits) except -1 nogil:
        """Tighten marked sections until nothing changes; return `fits`, or False if a section cannot be filled."""
        cdef Py_ssize_t s
        while not self.stale.empty():
            s = self.stale.back()
            self.stale.pop_back()
            self.is_stale[s] = False
            fits = fits and (self.count[s] == 0 or self.tighten(s))
        return fits

    cdef bint tighten(self, Py_ssize_t s) except -1 nogil:
        """Raise the floor and the lower bounds of a section; return False if its unplaced blocks cannot be stacked.

        The floor rises to the lowest `low` of the unplaced blocks. For a block that cannot be the lowest
        unplaced block, `low` rises to the minimum top among the blocks that can be the lowest.
        """
        cdef Py_ssize_t i
        cdef int64_t b, lowest = self.low[self.rows[s][0]], highest, top = self.capacity
        for i in range(1, self.count[s]):
            lowest = min(lowest, self.low[self.rows[s][i]])
        self.work += 2 * self.count[s]
        if lowest > self.floor[s]:
            self.set(&self.floor[s], lowest)
        # All unplaced blocks must fit above the lowest one, so its offset is at most this.
        highest = self.capacity - self.left[s]
        if lowest > highest or self.count[s] > max_checked:
            return lowest <= highest
        self.late.clear()
        for i in range(self.count[s]):
            b = self.rows[s][i]
            if self.low[b] <= highest:
                top = min(top, self.low[b] + self.size[b])
            else:
                self.late.push_back(b)
        for i in range(<Py_ssize_t>self.late.size()):
            if not self.raise_block(self.late[i], top):
                return False
        return self.stacks()

    cdef bint stacks(self) noexcept nogil:
        """Return True if the blocks in `late` can be stacked below the capacity, each at or above its `low`."""
        cdef Py_ssize_t i, j, n = <Py_ssize_t>self.late.size()
        cdef int64_t b, top = self.capacity
        for i in range(1, n):
            b = self.late[i]
            j = i
            while j and self.low[self.late[j - 1]] < self.low[b]:
                self.late[j] = self.late[j - 1]
                j -= 1
            self.work += i - j
            self.late[j] = b
        # Stack from the capacity downwards, the block with the largest `low` on top.
        for i in range(n):
            top -= self.size[self.late[i]]
            if top < self.low[self.late[i]]:
                return False
        return True

    cdef Py_ssize_t pick(self, Py_ssize_t lo, Py_ssize_t hi, bint lowest) noexcept nogil:
        """Return the section of the next choice, in a range with higher floors on both sides.

        It has the fewest choices, or the lowest floor if `lowest`. Ties go to the section with the least free space.
        """
        cdef Py_ssize_t s, first = lo, best = -1, i
        cdef int64_t fewest = 0, n_choices = 0, height, bottom = self.capacity, room, min_room = 0
        cdef bint between
        self.work += hi - lo
        if lowest:
            for s in range(lo, hi):
                bottom = min(bottom, self.floor[s])
        while first < hi:
            height = self.floor[first]
            s = first + 1
            while s < hi and self.floor[s] == height:
                s += 1
            between = (first == lo or self.floor[first - 1] > height) and (s == hi or self.floor[s] > height)
            if between and height <= bottom:
                for i in range(first, s):
                    room = self.capacity - height - self.left[i]
                    if not lowest:
                        n_choices = self.candidates(i) + (room > 0)
                    if best < 0 or n_choices < fewest or (n_choices == fewest and room < min_room):
                        best, fewest, min_room = i, n_choices, room
            first = s
        return best

    cdef int64_t candidates(self, Py_ssize_t s) noexcept nogil:
        """Return the number of blocks that can lie on the floor of a section."""
        cdef int64_t n_choices = 0
        cdef Py_ssize_t i
        self.work += self.count[s]
        for i in range(self.count[s]):
            n_choices += self.low[self.rows[s][i]] == self.floor[s]
        return n_choices

    cdef Py_ssize_t level(self, Py_ssize_t s, Py_ssize_t lo) noexcept nogil:
        """Return the first section of the range around s in which all floors are equal."""
        cdef int64_t height = self.floor[s]
        while s > lo and self.floor[s - 1] == height:
            s -= 1
        return s

    cdef Py_ssize_t level_end(self, Py_ssize_t s, Py_ssize_t hi) noexcept nogil:
        cdef int64_t height = self.floor[s]
        while s < hi and self.floor[s] == height:
            s += 1
        return s

    cdef int64_t over_walls(self, Py_ssize_t first, Py_ssize_t last) noexcept nogil:
        """Return the lowest possible top of a block that extends beyond this range of sections or has a `high`."""
        cdef int64_t lowest = self.capacity + 1, b
        cdef Py_ssize_t s = first, i, stride = 1
        if not self.bounded and last - first > 2:
            # A block that extends beyond the range covers its first or its last section.
            stride = last - 1 - first
        while s < last:
            self.work += self.count[s]
            for i in range(self.count[s]):
                b = self.rows[s][i]
                if self.begin[b] < first or self.end[b] > last or self.high[b] < INT64_MAX:
                    lowest = min(lowest, self.low[b] + self.size[b])
            s += stride
        return lowest

    cdef int64_t next_floor(self, Py_ssize_t s, Py_ssize_t lo, Py_ssize_t hi) noexcept nogil:
        """Return the next height at which a block of the section can lie if none lies on its floor; -1 means none."""
        cdef int64_t height = self.floor[s], highest = self.capacity - self.left[s], lowest = highest + 1, b
        cdef Py_ssize_t at, i, first = s
        if height >= highest:
            return -1
        for i in range(self.count[s]):
            b = self.rows[s][i]
            if self.low[b] > height:
                lowest = min(lowest, self.low[b])
        while first > lo and self.floor[first - 1] == height:
            first -= 1
        at = first
        # A block of this section may lie on a block of a neighbouring section.
        while at < hi and self.floor[at] == height:
            for i in range(self.count[at]):
                b = self.rows[at][i]
                if not (self.begin[b] <= s < self.end[b]):
                    lowest = min(lowest, self.low[b] + self.size[b])
            self.work += self.count[at]
            at += 1
        return lowest if lowest <= highest else -1

    cdef void keys(self, Py_ssize_t lo, Py_ssize_t hi, uint64_t* key, uint64_t* check) noexcept nogil:
        """Hash a part to two words: its floors and unplaced blocks, which determine whether it can be filled."""
        cdef Py_ssize_t s
        cdef uint64_t word, first = 0, second = 0
        for s in range(lo, hi):
            word = <uint64_t>self.floor[s] * <uint64_t>0xD6E8FEB86659FD93
            word = random_word(word ^ self.names[s] ^ (<uint64_t>s << 32))
            first += word
            second = (second ^ word) * <uint64_t>0x2545F4914F6CDD1D
        key[0], check[0] = random_word(first), second | 1


# Parts that failed, as two 64-bit hashes each. A newer entry may replace an older one.

@cython.final
cdef class _FailedStates:
    cdef vector[uint64_t] key, check
    cdef uint64_t mask

    cdef int start(self, int bits) except -1 nogil:
        self.mask = (<uint64_t>1 << bits) - 1
        self.clear()
        return 0

    cdef int clear(self) except -1 nogil:
        assign(self.key, self.mask + 1, 0)
        assign(self.check, self.mask + 1, 0)
        return 0

    cdef bint known(self, uint64_t key, uint64_t check) noexcept nogil:
        return self.key[key & self.mask] == key and self.check[key & self.mask] == check

    cdef void add(self, uint64_t key, uint64_t check) noexcept nogil:
        self.key[key & self.mask] = key
        self.check[key & self.mask] = check
