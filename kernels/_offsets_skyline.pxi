# The skyline of the placed blocks, as parts of equal height; and the unplaced blocks between two walls.

cdef struct _Part:
    int64_t begin, end, height
    Py_ssize_t before, after  # its neighbours, -1 at the edges


cdef class _Skyline:
    cdef vector[_Part] parts
    cdef priority_queue[pair[int64_t, Py_ssize_t]] queue  # (-height, -part), removed parts included
    cdef vector[unsigned char] gone

    cdef void start(self, int64_t sections) noexcept nogil:
        self.add(_Part(0, sections, 0, -1, -1))

    cdef Py_ssize_t add(self, _Part part) noexcept nogil:
        cdef Py_ssize_t at = <Py_ssize_t>self.parts.size()
        self.parts.push_back(part)
        self.gone.push_back(False)
        if part.before >= 0:
            self.parts[part.before].after = at
        if part.after >= 0:
            self.parts[part.after].before = at
        self.queue.push(pair[int64_t, Py_ssize_t](-part.height, -at))
        return at

    cdef Py_ssize_t lowest(self) noexcept nogil:
        """The lowest part, merged with neighbours of its height."""
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

    cdef Py_ssize_t join(self, Py_ssize_t at, Py_ssize_t after) noexcept nogil:
        self.gone[at] = self.gone[after] = True
        return self.add(_Part(self.parts[at].begin, self.parts[after].end, self.parts[at].height,
                              self.parts[at].before, self.parts[after].after))

    cdef void lift(self, Py_ssize_t at) noexcept nogil:
        """Up to its lower wall."""
        cdef _Part part = self.parts[at]
        cdef int64_t height = -1
        if part.before >= 0:
            height = self.parts[part.before].height
        if part.after >= 0 and (height < 0 or self.parts[part.after].height < height):
            height = self.parts[part.after].height
        part.height = height
        self.gone[at] = True
        self.add(part)

    cdef int64_t put(self, Py_ssize_t at, int64_t begin, int64_t end, int64_t size) noexcept nogil:
        """Place a block on a part; the rest of the part to its left and right becomes parts. Returns its offset."""
        cdef _Part part = self.parts[at]
        cdef Py_ssize_t left = part.before, middle
        self.gone[at] = True
        if begin > part.begin:
            left = self.add(_Part(part.begin, begin, part.height, part.before, part.after))
        middle = self.add(_Part(begin, end, part.height + size, left, part.after))
        if end < part.end:
            self.add(_Part(end, part.end, part.height, middle, part.after))
        return part.height


cdef class _Waiting:
    """A tree over the unplaced blocks by begin: minimum rank and minimum end of each range."""
    cdef const int64_t[:] begin, end
    cdef Py_ssize_t leaves
    cdef vector[int64_t] rank, min_end
    cdef vector[Py_ssize_t] stack

    cdef void start(self, const int64_t[:] begin, const int64_t[:] end, const int64_t[:] rank) noexcept nogil:
        cdef Py_ssize_t i, n = begin.shape[0]
        self.begin, self.end = begin, end
        self.leaves = 1
        while self.leaves < n:
            self.leaves *= 2
        self.rank.assign(2 * self.leaves, beyond)
        self.min_end.assign(2 * self.leaves, beyond)
        for i in range(n):
            self.rank[self.leaves + i], self.min_end[self.leaves + i] = rank[i], end[i]
        for i in range(self.leaves - 1, 0, -1):
            self.measure(i)

    cdef void measure(self, Py_ssize_t at) noexcept nogil:
        self.rank[at] = min(self.rank[2 * at], self.rank[2 * at + 1])
        self.min_end[at] = min(self.min_end[2 * at], self.min_end[2 * at + 1])

    cdef Py_ssize_t first_at(self, int64_t section) noexcept nogil:
        """The first block that begins there or later."""
        cdef Py_ssize_t low = 0, high = self.begin.shape[0], middle
        while low < high:
            middle = (low + high) // 2
            if self.begin[middle] < section:
                low = middle + 1
            else:
                high = middle
        return low

    cdef Py_ssize_t take(self, int64_t begin, int64_t end) noexcept nogil:
        """Remove the block of minimum rank inside these sections; -1 if there is none."""
        cdef Py_ssize_t low = self.leaves + self.first_at(begin), high = self.leaves + self.first_at(end)
        cdef Py_ssize_t chosen = -1, at
        self.stack.clear()
        while low < high:  # the nodes that cover this range
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
            else:  # the side with the minimum rank comes first
                low = 2 * at + (self.rank[2 * at] > self.rank[2 * at + 1])
                self.stack.push_back(low ^ 1)
                self.stack.push_back(low)
        if chosen < 0:
            return -1
        self.rank[chosen] = self.min_end[chosen] = beyond
        at = chosen // 2
        while at:
            self.measure(at)
            at //= 2
        return chosen - self.leaves
