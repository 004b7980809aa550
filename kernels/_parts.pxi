# The parts of a tree from which bags are removed one by one, for Cython kernels: include "_parts.pxi".

from libcpp.algorithm cimport sort
from libcpp.vector cimport vector

ctypedef long long int64


cdef class _Parts:
    """The tree while bags are removed from it, and the sizes in the part that was walked last."""
    cdef vector[int64] start
    cdef vector[int] near                                      # neighbours in the tree, ascending
    cdef vector[char] removed
    cdef vector[int] walk                                      # the part, from its first bag outwards
    cdef vector[int] above, size, largest                      # largest: bags of the largest piece that a bag leaves

    def __cinit__(self, const int[::1] parent):
        cdef Py_ssize_t b = parent.shape[0], i
        self.start.assign(b + 2, 0)
        for i in range(b):
            if parent[i] >= 0:
                self.start[i + 2] += 1
                self.start[parent[i] + 2] += 1
        for i in range(b):
            self.start[i + 2] += self.start[i + 1]
        self.near.resize(self.start[b + 1])
        for i in range(b):
            if parent[i] >= 0:
                self.near[self.start[i + 1]] = parent[i]
                self.near[self.start[parent[i] + 1]] = <int>i
                self.start[i + 1] += 1
                self.start[parent[i] + 1] += 1
        for i in range(b):
            sort(self.near.begin() + self.start[i], self.near.begin() + self.start[i + 1])
        self.removed.assign(b, 0)
        self.above.resize(b)
        self.size.resize(b)
        self.largest.resize(b)

    cdef void visit(self, int begin) noexcept nogil:
        """Walks the part that holds the bag."""
        cdef Py_ssize_t at = 0, total
        cdef int64 j
        cdef int x, y
        self.walk.clear()
        self.walk.push_back(begin)
        self.above[begin] = -1
        while at < <Py_ssize_t>self.walk.size():
            x = self.walk[at]
            at += 1
            self.size[x], self.largest[x] = 1, 0
            for j in range(self.start[x], self.start[x + 1]):
                y = self.near[j]
                if y != self.above[x] and not self.removed[y]:
                    self.above[y] = x
                    self.walk.push_back(y)
        total = at
        while at:
            at -= 1
            x = self.walk[at]
            y = self.above[x]
            self.largest[x] = max(self.largest[x], <int>total - self.size[x])
            if y >= 0:
                self.size[y] += self.size[x]
                self.largest[y] = max(self.largest[y], self.size[x])

    cdef int separator(self, const int64[::1] bytes_left) noexcept nogil:
        """The bag with the fewest bytes left among those of the part that leave pieces of at most two thirds.

        Among equal ones that with the smallest pieces (at most half of the part where all are equal), then lowest id.
        """
        cdef int best = -1, x
        for x in self.walk:
            if 3 * <int64>self.largest[x] > 2 * <int64>self.walk.size():
                continue
            if (best < 0 or bytes_left[x] < bytes_left[best]
                    or (bytes_left[x] == bytes_left[best]
                        and (self.largest[x] < self.largest[best]
                             or (self.largest[x] == self.largest[best] and x < best)))):
                best = x
        return best
