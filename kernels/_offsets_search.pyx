# distutils: language = c++
"""Whether blocks fit in a capacity: an exact search over canonical placements."""

import numpy as np

from libc.stdint cimport int64_t
from libcpp.vector cimport vector

include "_bitsets.pxi"
include "_offsets_state.pxi"
include "_offsets_failed.pxi"

cdef struct _Frame:
    Py_ssize_t lo, hi     # the sections to be filled
    Py_ssize_t parent     # the frame whose choice created this part, -1 at the roots
    Py_ssize_t section    # of the choice
    Py_ssize_t first, last  # the sections between the walls, all as low
    int64_t above         # the floor there if no block lies on it, -1 if impossible
    Py_ssize_t begin, end, cursor  # of its choices
    int64_t placed        # -1 if none
    Py_ssize_t trail, waiting      # their lengths before
    uint64_t key, check

cdef struct _Range:
    Py_ssize_t lo, hi, parent


cdef class Search:
    """Search(begin, end, size, sections, bits): begin, end, size int64[n] are blocks over sections.

    A choice is made in a section whose floor is lower than its neighbours: which block lies on the floor, or none; then
    the floor rises to the next possible height. Parts without a common block are filled one after the other; when
    one fails, so does the choice that created it. Failed parts are stored, up to 2^bits of them.
    """
    cdef _State state
    cdef _Failed failed
    cdef vector[_Frame] frames
    cdef vector[_Range] waiting
    cdef vector[int64_t] choices, rank
    cdef bint lowest
    cdef readonly int verdict

    def __init__(self, const int64_t[:] begin, const int64_t[:] end, const int64_t[:] size, Py_ssize_t sections,
                 int bits):
        self.state = _State()
        self.failed = _Failed()
        self.state.load(begin, end, size, sections)
        self.failed.start(bits)

    @property
    def work(self):
        """Work so far, in units of about a nanosecond."""
        return self.state.work

    def aim(self, int64_t capacity):
        """Set the capacity; states that failed in a larger one also fail in a smaller one."""
        if capacity > self.state.capacity:
            self.failed.clear()
        self.state.capacity = capacity

    def restart(self, const int64_t[:] rank, bint lowest):
        """Start again, blocks of small rank first; failed states stay known.

        `lowest`: branch where the floor is lowest, with least room; else where there are fewest choices.
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
        """Search for `work` more units. Returns 1 if all blocks are placed, -1 if they cannot be, 0 if that is not known yet."""
        cdef int64_t until = self.state.work + work
        with nogil:
            while self.verdict == 0 and self.state.work < until:
                self.step()
        return self.verdict

    def offsets(self):
        """int64[n], where all are placed."""
        return np.array(self.state.offset, np.int64)

    cdef void step(self) noexcept nogil:
        """Begin the next part; where it fails, go on to the next remaining choice."""
        cdef _Range part
        cdef Py_ssize_t at
        if self.waiting.empty():
            self.verdict = 1
            return
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

    cdef bint open(self, _Range part) noexcept nogil:
        """A frame for a part; False if it is known to fail."""
        cdef _Frame frame
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

    cdef bint next(self, Py_ssize_t at) noexcept nogil:
        """The next choice of a frame that does not fail at once, False if there is none; later frames are undone."""
        cdef _Frame* frame = &self.frames[at]
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

    cdef bint bar(self, _Frame* frame, Py_ssize_t tried) noexcept nogil:
        """A block as wide as all between the walls that failed on the floor: it lies over one that crosses a wall.

        If only blocks between the walls lay below it, it could change places with them.
        """
        cdef Py_ssize_t i
        cdef int64_t b
        cdef bint fits = True
        for i in range(frame.begin, tried):
            b = self.choices[i]
            if fits and self.state.begin[b] == frame.first and self.state.end[b] == frame.last:
                fits = self.state.raise_block(b, self.state.over_walls(frame.first, frame.last))
        return self.state.propagate(fits)

    cdef bint repeats(self, _Frame* frame, int64_t b) noexcept nogil:
        """Whether a block like this one was tried already."""
        cdef Py_ssize_t i
        cdef int64_t other
        for i in range(frame.begin, frame.cursor - 1):
            other = self.choices[i]
            if (self.state.size[other] == self.state.size[b] and self.state.begin[other] == self.state.begin[b]
                    and self.state.end[other] == self.state.end[b]):
                return True
        return False

    cdef void undo(self, Py_ssize_t at) noexcept nogil:
        """Undo the choice of a frame; later frames have been undone before."""
        cdef _Frame* frame = &self.frames[at]
        if frame.placed >= 0:
            self.state.unplace(frame.placed)
            frame.placed = -1
        self.state.rewind(frame.trail)
        self.waiting.resize(frame.waiting)

    cdef void split(self, Py_ssize_t lo, Py_ssize_t hi, Py_ssize_t parent) noexcept nogil:
        """Split the rest of a part into parts without a common block; the shortest is filled first."""
        cdef Py_ssize_t s, first = -1, mark = <Py_ssize_t>self.waiting.size(), i
        for s in range(lo, hi + 1):
            if first >= 0 and (s == hi or self.state.cross[s] == 0):
                self.waiting.push_back(_Range(first, s, parent))
                i = <Py_ssize_t>self.waiting.size() - 1
                while i > mark and self.waiting[i - 1].hi - self.waiting[i - 1].lo < s - first:
                    self.waiting[i] = self.waiting[i - 1]
                    i -= 1
                self.waiting[i] = _Range(first, s, parent)
                first = -1
            if s < hi and first < 0 and self.state.count[s]:
                first = s
