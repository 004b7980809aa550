# Placed blocks by address, in chunks that know which sections they cover.

cdef struct _Place:
    int64_t offset, top, begin, end

cdef struct _Chunk:
    int64_t low         # no block of it lies below
    int64_t begin, end  # sections that its blocks cover
    int64_t forgot      # blocks that end before it have been dropped
    Py_ssize_t row

cdef Py_ssize_t max_chunk = 256


cdef class _Placed:
    cdef vector[_Chunk] chunks
    cdef vector[vector[_Place]] rows

    def __cinit__(self):
        self.rows.push_back(vector[_Place]())
        self.chunks.push_back(_Chunk(0, 0, 0, 0, 0))

    cdef int64_t gap(self, int64_t begin, int64_t end, int64_t size, bint best, int64_t first) noexcept nogil:
        """Offset of the lowest gap of `size` bytes in these sections, or of the tightest; no later block begins before
        `first`."""
        cdef int64_t top = 0, lowest_gap = -1, tightest = 0
        cdef Py_ssize_t at, i
        cdef _Place* place
        cdef vector[_Place]* row
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
                if place.offset - top >= size and (lowest_gap < 0 or place.offset - top < tightest):
                    lowest_gap, tightest = top, place.offset - top
                    if not best or tightest == size:
                        return lowest_gap
                top = max(top, place.top)
        return top if lowest_gap < 0 else lowest_gap

    cdef void forget(self, Py_ssize_t at, int64_t first) noexcept nogil:
        """Drop the blocks of a chunk that end before all later ones begin."""
        cdef vector[_Place]* row = &self.rows[self.chunks[at].row]
        cdef Py_ssize_t i, kept = 0
        for i in range(<Py_ssize_t>row.size()):
            if row[0][i].end > first:
                row[0][kept] = row[0][i]
                kept += 1
        row.resize(kept)
        self.chunks[at].forgot = first

    cdef void add(self, _Place place) noexcept nogil:
        cdef Py_ssize_t at = 0, i, high = <Py_ssize_t>self.chunks.size(), middle
        cdef vector[_Place]* row
        cdef _Chunk* chunk
        while high - at > 1:  # the last chunk that begins at or below it
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

    cdef void split(self, Py_ssize_t at) noexcept nogil:
        """The upper half of a chunk becomes a new chunk."""
        cdef Py_ssize_t low_row = self.chunks[at].row, high_row = <Py_ssize_t>self.rows.size()
        cdef Py_ssize_t half = <Py_ssize_t>self.rows[low_row].size() // 2
        cdef _Chunk upper = self.chunks[at]
        self.rows.push_back(vector[_Place]())
        self.rows[high_row].assign(self.rows[low_row].begin() + half, self.rows[low_row].end())
        self.rows[low_row].resize(half)
        upper.row, upper.low = high_row, self.rows[high_row][0].offset
        self.chunks.insert(self.chunks.begin() + at + 1, upper)
        self.measure(at)
        self.measure(at + 1)

    cdef void measure(self, Py_ssize_t at) noexcept nogil:
        cdef vector[_Place]* row = &self.rows[self.chunks[at].row]
        cdef Py_ssize_t i
        self.chunks[at].begin, self.chunks[at].end = row[0][0].begin, row[0][0].end
        for i in range(1, <Py_ssize_t>row.size()):
            self.chunks[at].begin = min(self.chunks[at].begin, row[0][i].begin)
            self.chunks[at].end = max(self.chunks[at].end, row[0][i].end)
