# A graph whose vertices are eliminated one after the other: include "_eliminator.pxi" after "_adjacency.pxi".


cdef class _Eliminator(_Adjacency):
    """Rows of neighbours, and the fill of each vertex: how many pairs of its neighbours are not joined."""
    cdef bint counting                    # whether fill is kept
    cdef vector[int64] fill, touched_at
    cdef vector[int] touched              # whose fill or degree the last elimination changed
    cdef vector[int] order, bags
    cdef vector[int64] bag_end
    cdef int64 added, time

    cdef void start(self, bint counting) noexcept nogil:
        self.counting = counting
        self.touched_at.assign(self.n, 0)
        self.fill.assign(self.n, 0)
        if counting:
            self.count()

    cdef void count(self) noexcept nogil:
        """Fill of all vertices: pairs of neighbours less triangles, each found from its first vertex by degree."""
        cdef int v, w
        cdef int64 i, j
        cdef int* row
        cdef vector[int] later            # the neighbours of each vertex that come after it
        cdef vector[int64] end
        for v in range(<int>self.n):
            row = self.row(v)
            for i in range(self.degree[v]):
                if self.before(v, row[i]):
                    later.push_back(row[i])
            end.push_back(later.size())
            self.fill[v] = <int64>self.degree[v] * (self.degree[v] - 1) // 2
        for v in range(<int>self.n):
            self.stamp += 1
            for i in range(end[v - 1] if v else 0, end[v]):
                self.seen[later[i]] = self.stamp
            for i in range(end[v - 1] if v else 0, end[v]):
                w = later[i]
                for j in range(end[w - 1] if w else 0, end[w]):
                    if self.seen[later[j]] == self.stamp:
                        self.fill[v] -= 1
                        self.fill[w] -= 1
                        self.fill[later[j]] -= 1

    cdef void touch(self, int v) noexcept nogil:
        if self.touched_at[v] != self.time:
            self.touched_at[v] = self.time
            self.touched.push_back(v)

    cdef void eliminate(self, int v) noexcept nogil:
        """Write down the bag of v, join its neighbours, let it go."""
        cdef int i, u, d = self.degree[v]
        cdef int* bag = self.row(v)
        self.order.push_back(v)
        self.bags.push_back(v)
        self.bags.insert(self.bags.end(), bag, bag + d)
        self.bag_end.push_back(self.bags.size())
        self.time += 1
        self.touched.clear()
        self.work += d
        bag = self.bags.data() + self.bags.size() - d
        if not self.counting or self.fill[v] > 0:
            self.make_clique(bag, d, self.added + self.fill[v])
        for i in range(d):
            u = bag[i]
            self.fill[u] -= self.degree[u] - d
            self.touch(u)
        self.remove(v)

    cdef void make_clique(self, int* bag, int d, int64 until) noexcept nogil:
        """Join what is not joined; where fill is kept, `until` so many edges have been added in all."""
        cdef int i, j, a, b
        for i in range(d - 1):            # the longest row last: it need not be read
            if self.degree[bag[i]] > self.degree[bag[d - 1]]:
                bag[i], bag[d - 1] = bag[d - 1], bag[i]
        for i in range(d - 1):
            if self.counting and self.added == until:
                return
            a = bag[i]
            self.mark(a)
            for j in range(i + 1, d):
                b = bag[j]
                if self.seen[b] != self.stamp:
                    self.join(a, b)

    cdef void join(self, int a, int b) noexcept nogil:
        """Add the edge a b, where a is marked: it is missing no longer between neighbours that the two share."""
        cdef int i, w, common = 0
        cdef int* row
        cdef bint long_row = self.degree[b] > skew * self.degree[a]
        if self.counting:
            row = self.row(a if long_row else b)
            self.work += self.degree[a if long_row else b]
            for i in range(self.degree[a if long_row else b]):
                w = row[i]
                if self.adjacent(w, b) if long_row else self.seen[w] == self.stamp:
                    self.fill[w] -= 1
                    common += 1
                    self.touch(w)
            self.fill[a] += self.degree[a] - common
            self.fill[b] += self.degree[b] - common
        self.add(a, b)
        self.seen[b] = self.stamp
        self.added += 1
