# Placed blocks, the floor over them, and lower bounds on the offsets of the others.

cdef struct _Change:
    int64_t* where
    int64_t value


cdef Py_ssize_t max_checked = 128  # blocks in a section; with more, only the floor and the sum are checked


cdef class _State:
    cdef Py_ssize_t n, sections
    cdef int64_t capacity, work
    cdef vector[int64_t] begin, end, size, low, offset
    cdef vector[int64_t] floor, left   # of each section: height below which no block fits, bytes not yet placed
    cdef vector[Py_ssize_t] count, cross  # unplaced blocks in each section; also in the one before
    cdef vector[vector[int64_t]] rows  # blocks of each section, unplaced ones first
    cdef vector[uint64_t] name, names  # of each block; of all unplaced ones that begin in a section
    cdef vector[_Change] trail
    cdef vector[Py_ssize_t] stale      # sections whose floor may rise
    cdef vector[unsigned char] is_stale
    cdef vector[int64_t] late          # blocks of a section that cannot be its lowest

    cdef void load(self, const int64_t[:] begin, const int64_t[:] end, const int64_t[:] size, Py_ssize_t sections):
        cdef Py_ssize_t b, s
        self.n, self.sections = size.shape[0], sections
        self.low.assign(self.n, 0)
        self.offset.assign(self.n, -1)
        self.floor.assign(sections, 0)
        self.left.assign(sections, 0)
        self.count.assign(sections, 0)
        self.cross.assign(sections + 1, 0)
        self.names.assign(sections, 0)
        self.is_stale.assign(sections, 0)
        self.rows.resize(sections)
        for b in range(self.n):
            self.begin.push_back(begin[b])
            self.end.push_back(end[b])
            self.size.push_back(size[b])
            self.name.push_back(random_word(b))
            self.names[begin[b]] ^= self.name[b]
            for s in range(begin[b], end[b]):
                self.rows[s].push_back(b)
                self.left[s] += size[b]
                self.count[s] += 1
                self.cross[s] += s > begin[b]

    cdef bint may_fit(self) noexcept nogil:
        """Whether no section needs more than the capacity."""
        cdef Py_ssize_t s
        for s in range(self.sections):
            if self.left[s] > self.capacity:
                return False
        return True

    cdef inline void set(self, int64_t* where, int64_t value) noexcept nogil:
        self.trail.push_back(_Change(where, where[0]))
        where[0] = value

    cdef void rewind(self, Py_ssize_t mark) noexcept nogil:
        while <Py_ssize_t>self.trail.size() > mark:
            self.trail.back().where[0] = self.trail.back().value
            self.trail.pop_back()

    cdef bint place(self, int64_t b) noexcept nogil:
        """Place a block as low as possible; False if the other blocks cannot fit then."""
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
            self.count[s] += 1  # it is right behind the unplaced ones
            self.left[s] += self.size[b]
            self.cross[s] += s > self.begin[b]

    cdef bint lift(self, Py_ssize_t s, int64_t height) noexcept nogil:
        """No block lies below this height in a section."""
        return self.propagate(self.raise_section(s, height))

    cdef bint raise_section(self, Py_ssize_t s, int64_t height) noexcept nogil:
        """Raise the floor of a section, and its unplaced blocks."""
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

    cdef bint raise_block(self, int64_t b, int64_t height) noexcept nogil:
        cdef int64_t before = self.low[b]
        cdef Py_ssize_t s
        if before >= height:
            return True
        self.set(&self.low[b], height)
        if height + self.size[b] > self.capacity:
            return False
        self.work += self.end[b] - self.begin[b]
        for s in range(self.begin[b], self.end[b]):
            if self.floor[s] == before or (self.count[s] <= max_checked and height + self.left[s] > self.capacity):
                self.mark(s)
        return True

    cdef inline void mark(self, Py_ssize_t s) noexcept nogil:
        if not self.is_stale[s]:
            self.is_stale[s] = True
            self.stale.push_back(s)

    cdef bint propagate(self, bint fits) noexcept nogil:
        """Propagate the marked sections; False if a section no longer fits."""
        cdef Py_ssize_t s
        while not self.stale.empty():
            s = self.stale.back()
            self.stale.pop_back()
            self.is_stale[s] = False
            fits = fits and (self.count[s] == 0 or self.tighten(s))
        return fits

    cdef bint tighten(self, Py_ssize_t s) noexcept nogil:
        """A floor rises to the lowest unplaced block; a block that is too high to be the lowest lies on one that
        is not. False if the unplaced blocks do not fit on top of each other then."""
        cdef Py_ssize_t i
        cdef int64_t b, lowest = self.low[self.rows[s][0]], highest, top = self.capacity
        for i in range(1, self.count[s]):
            lowest = min(lowest, self.low[self.rows[s][i]])
        self.work += 2 * self.count[s]
        if lowest > self.floor[s]:
            self.set(&self.floor[s], lowest)
        highest = self.capacity - self.left[s]  # the lowest block lies no higher
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
        """Whether the blocks in `late` fit on top of each other, none below its own low."""
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
        for i in range(n):  # the highest first, from the top down
            top -= self.size[self.late[i]]
            if top < self.low[self.late[i]]:
                return False
        return True

    cdef Py_ssize_t pick(self, Py_ssize_t lo, Py_ssize_t hi, bint lowest) noexcept nogil:
        """The section of the next choice: one with fewest choices, or least room, between higher walls."""
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
        """Number of blocks that can lie on the floor of a section."""
        cdef int64_t n_choices = 0
        cdef Py_ssize_t i
        self.work += self.count[s]
        for i in range(self.count[s]):
            n_choices += self.low[self.rows[s][i]] == self.floor[s]
        return n_choices

    cdef Py_ssize_t level(self, Py_ssize_t s, Py_ssize_t lo) noexcept nogil:
        """The first of the adjacent sections with the same floor."""
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
        """The lowest top that a block may have that is both in these sections and outside."""
        cdef int64_t lowest = self.capacity + 1, b
        cdef Py_ssize_t s, i, side
        for side in range(2):
            s = last - 1 if side else first
            self.work += self.count[s]
            for i in range(self.count[s]):
                b = self.rows[s][i]
                if self.begin[b] < first or self.end[b] > last:
                    lowest = min(lowest, self.low[b] + self.size[b])
        return lowest

    cdef int64_t next_floor(self, Py_ssize_t s, Py_ssize_t lo, Py_ssize_t hi) noexcept nogil:
        """The next height at which a block of a section may lie if none lies on the floor; -1 if that is too high."""
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
        while at < hi and self.floor[at] == height:  # it may lie on a block of a neighbouring section
            for i in range(self.count[at]):
                b = self.rows[at][i]
                if not (self.begin[b] <= s < self.end[b]):
                    lowest = min(lowest, self.low[b] + self.size[b])
            self.work += self.count[at]
            at += 1
        return lowest if lowest <= highest else -1

    cdef void keys(self, Py_ssize_t lo, Py_ssize_t hi, uint64_t* key, uint64_t* check) noexcept nogil:
        """Hash of what decides whether a part can be filled, its floor and unplaced blocks, as two words."""
        cdef Py_ssize_t s
        cdef uint64_t word, first = 0, second = 0
        for s in range(lo, hi):
            word = <uint64_t>self.floor[s] * <uint64_t>0xD6E8FEB86659FD93
            word = random_word(word ^ self.names[s] ^ (<uint64_t>s << 32))
            first += word
            second = (second ^ word) * <uint64_t>0x2545F4914F6CDD1D
        key[0], check[0] = random_word(first), second | 1
