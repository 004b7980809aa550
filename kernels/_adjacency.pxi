# Rows of neighbours that grow and shrink, for Cython kernels in C++: include "_adjacency.pxi".
# All rows lie in one arena; a row that is full moves to its end. What is gone stays in its neighbours' rows until
# they are read. A table of all edges ever made answers for pairs of which one has a very long row.

from libc.stdint cimport uint64_t
from libcpp.vector cimport vector

ctypedef long long int64

cdef enum:
    skew = 16                             # a row this much longer than another is not read through


cdef class _Adjacency:
    cdef Py_ssize_t n
    cdef int64 n_left, m_left             # vertices and edges that are left
    cdef vector[int] arena, degree, length  # degree: neighbours left; length: entries of the row
    cdef vector[int64] begin, capacity, seen
    cdef vector[unsigned char] gone
    cdef vector[uint64_t] table
    cdef uint64_t n_pairs, mask
    cdef int64 stamp, work                # work: entries read, about

    cdef void load(self, const int64[::1] indptr, const int[::1] indices) noexcept nogil:
        cdef Py_ssize_t v, j
        self.n = self.n_left = indptr.shape[0] - 1
        self.m_left = indices.shape[0] // 2
        self.mask = 63
        while self.mask < <uint64_t>(4 * self.m_left):
            self.mask = 2 * self.mask + 1
        self.table.assign(self.mask + 1, 0)
        self.seen.assign(self.n, 0)
        self.gone.assign(self.n, 0)
        self.arena.reserve(2 * indices.shape[0])
        for v in range(self.n):
            self.begin.push_back(indptr[v])
            self.capacity.push_back(indptr[v + 1] - indptr[v])
            self.degree.push_back(<int>(indptr[v + 1] - indptr[v]))
            for j in range(indptr[v], indptr[v + 1]):
                self.arena.push_back(indices[j])
                if v < indices[j]:
                    self.note(<int>v, indices[j])
        self.length = self.degree

    cdef int* row(self, int v) noexcept nogil:
        """The neighbours of v that are left, degree[v] many; good until an edge is added."""
        cdef int* entry = self.arena.data() + self.begin[v]
        cdef int i, kept = 0
        if self.length[v] > self.degree[v]:
            for i in range(self.length[v]):
                if not self.gone[entry[i]]:
                    entry[kept] = entry[i]
                    kept += 1
            self.length[v] = kept
        return entry

    cdef void mark(self, int v) noexcept nogil:
        """Afterwards seen[w] == stamp for the neighbours of v alone."""
        cdef int* entry = self.row(v)
        cdef int i
        self.stamp += 1
        self.work += self.degree[v]
        for i in range(self.degree[v]):
            self.seen[entry[i]] = self.stamp

    cdef void add(self, int u, int w) noexcept nogil:
        self.append(u, w)
        self.append(w, u)
        self.m_left += 1
        self.note(u, w)

    cdef void append(self, int v, int w) noexcept nogil:
        cdef int64 i, begin = self.begin[v]
        if self.length[v] == self.capacity[v]:
            self.row(v)
            if 2 * self.length[v] >= self.capacity[v]:
                self.begin[v] = self.arena.size()
                self.capacity[v] = 2 * self.capacity[v] + 2
                self.arena.resize(self.begin[v] + self.capacity[v])
                for i in range(self.length[v]):
                    self.arena[self.begin[v] + i] = self.arena[begin + i]
        self.arena[self.begin[v] + self.length[v]] = w
        self.length[v] += 1
        self.degree[v] += 1

    cdef void remove(self, int v) noexcept nogil:
        cdef int* entry = self.row(v)
        cdef int i
        for i in range(self.degree[v]):
            self.degree[entry[i]] -= 1
        self.gone[v] = 1
        self.n_left -= 1
        self.m_left -= self.degree[v]

    cdef bint before(self, int v, int w) noexcept nogil:
        """By degree, then by id."""
        return self.degree[v] < self.degree[w] or (self.degree[v] == self.degree[w] and v < w)

    cdef uint64_t slot(self, uint64_t pair) noexcept nogil:
        cdef uint64_t at = ((pair * <uint64_t>0x9E3779B97F4A7C15) >> 32) & self.mask
        while self.table[at] and self.table[at] != pair:
            at = (at + 1) & self.mask
        return at

    cdef void note(self, int u, int w) noexcept nogil:
        cdef uint64_t i
        cdef vector[uint64_t] old
        self.table[self.slot(_pair(u, w))] = _pair(u, w)
        self.n_pairs += 1
        if 2 * self.n_pairs > self.mask:
            self.mask = 2 * self.mask + 1
            old.swap(self.table)
            self.table.assign(self.mask + 1, 0)
            for i in range(old.size()):
                if old[i]:
                    self.table[self.slot(old[i])] = old[i]

    cdef bint adjacent(self, int u, int w) noexcept nogil:
        return self.table[self.slot(_pair(u, w))] != 0


cdef inline uint64_t _pair(int u, int w) noexcept nogil:
    """The edge as a word, never 0."""
    return (<uint64_t>min(u, w) << 32) | <uint64_t>(max(u, w))
