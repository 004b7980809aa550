# The rest of a graph once it is dense, as rows of bits: include "_matrix.pxi" after "_eliminator.pxi".

cdef enum:
    sparse = 16                           # a graph is dense if its vertices have more than n / sparse neighbours
    max_rows = 20000


cdef class _Matrix:
    """The same graph as in an eliminator, whose order and bags it goes on with."""
    cdef _Eliminator graph
    cdef Py_ssize_t n, w
    cdef vector[uint64_t] words, missing
    cdef vector[uint64_t] planes          # to be subtracted from each fill, in binary: row k has bit k of all numbers
    cdef int n_planes
    cdef vector[int] vertex, degree, members
    cdef vector[int64] fill
    cdef vector[unsigned char] gone

    def __init__(self, _Eliminator graph):
        cdef int v, i, j
        cdef int* row
        cdef vector[int] place
        self.graph = graph
        place.resize(graph.n)
        for v in range(<int>graph.n):
            if not graph.gone[v]:
                place[v] = <int>self.vertex.size()
                self.vertex.push_back(v)
                self.degree.push_back(graph.degree[v])
                self.fill.push_back(graph.fill[v])
        self.n = self.vertex.size()
        self.w = bit_words(self.n)
        self.gone.assign(self.n, 0)
        self.missing.assign(self.w, 0)
        self.words.assign(self.n * self.w, 0)
        self.planes.assign(32 * self.w, 0)
        for i in range(<int>self.n):
            row = graph.row(self.vertex[i])
            for j in range(self.degree[i]):
                set_bit(self.row(i), place[row[j]])

    cdef uint64_t* row(self, Py_ssize_t v) noexcept nogil:
        return self.words.data() + v * self.w

    cdef void eliminate(self, int v) noexcept nogil:
        cdef int i, u, d = self.degree[v]
        cdef Py_ssize_t b
        self.members.clear()
        self.graph.order.push_back(self.vertex[v])
        self.graph.bags.push_back(self.vertex[v])
        b = next_bit(self.row(v), self.w, 0)
        while b >= 0:
            self.members.push_back(<int>b)
            self.graph.bags.push_back(self.vertex[b])
            b = next_bit(self.row(v), self.w, b + 1)
        self.graph.bag_end.push_back(self.graph.bags.size())
        self.graph.work += d
        if self.fill[v] > 0 or not self.graph.counting:
            for i in range(d):
                self.join_all(self.members[i], v)
            self.update_fill()
        for i in range(d):
            u = self.members[i]
            self.fill[u] -= self.degree[u] - d
            self.degree[u] -= 1
            clear_bit(self.row(u), v)
        self.gone[v] = 1

    cdef void join_all(self, int a, int v) noexcept nogil:
        """Join a with all neighbours of v."""
        cdef Py_ssize_t i, b
        for i in range(self.w):
            self.missing[i] = self.row(v)[i] & ~self.row(a)[i]
        clear_bit(self.missing.data(), a)
        self.graph.work += self.w
        b = next_bit(self.missing.data(), self.w, 0)
        while b >= 0:
            if self.graph.counting:
                self.recount(a, b)
            set_bit(self.row(a), b)
            set_bit(self.row(b), a)
            self.degree[a] += 1
            self.degree[b] += 1
            self.graph.added += 1
            b = next_bit(self.missing.data(), self.w, b + 1)

    cdef void recount(self, Py_ssize_t a, Py_ssize_t b) noexcept nogil:
        """With the edge a b to come there is one pair less to join around each neighbour that the two share."""
        cdef Py_ssize_t i
        cdef uint64_t word, stored
        cdef uint64_t* left = self.row(a)
        cdef uint64_t* right = self.row(b)
        cdef int k, common = 0
        for i in range(self.w):
            word = left[i] & right[i]
            common += remat_popcount(word)
            k = 0
            while word:                   # add one to all these numbers: carry
                stored = self.planes[k * self.w + i]
                self.planes[k * self.w + i] = stored ^ word
                word &= stored
                k += 1
            self.n_planes = max(self.n_planes, k)
        self.fill[a] += self.degree[a] - common
        self.fill[b] += self.degree[b] - common
        self.graph.work += self.w

    cdef void update_fill(self) noexcept nogil:
        """Subtract from each fill what the planes have counted."""
        cdef Py_ssize_t i
        cdef int k
        cdef uint64_t word
        for k in range(self.n_planes):
            for i in range(self.w):
                word = self.planes[k * self.w + i]
                self.planes[k * self.w + i] = 0
                while word:
                    self.fill[(i << 6) + remat_lowest(word)] -= <int64>1 << k
                    word &= word - 1
        self.graph.work += self.n_planes * self.n
        self.n_planes = 0
