# The steps between lower sets and their figures: include "_lower_set_steps.pxi", after "_bitsets.pxi".

cimport cython
from libcpp.vector cimport vector

ctypedef long long int64

cdef struct Step:
    int target
    double cost
    double need
    double adds


@cython.final
cdef class Steps:
    """The steps from each lower set: stored, or computed when they are requested.

    words : uint64[k, w] rows by size, the last is the whole part, memory, compute : int64[n],
    set_memory, cost, beside : int64[k], boundary_indptr : int64[k + 1], boundary : int32[b] as `attributes` gives them,
    covers : (int64[k + 1], int32[c]) or None: rows with one node more, along which the search goes,
    kept : whether the objective is the compute of what is kept, instead of what runs again,
    keep_last : whether the step to the whole part keeps what it adds
    """
    cdef readonly Py_ssize_t size, nodes
    cdef Py_ssize_t w
    cdef const uint64_t[:, ::1] words
    cdef const double[::1] memory, compute, set_memory, total, beside
    cdef const int64[::1] boundary_indptr, cover_indptr
    cdef const int[::1] boundary, cover
    cdef bint kept, keep_last, has_covers
    cdef readonly bint stored_all
    cdef vector[Step] stored
    cdef vector[int64] indptr
    cdef vector[Step] matches
    cdef vector[int] stack
    cdef vector[int64] stamp
    cdef int64 clock                               # of searches; a row with its stamp has been seen
    cdef int64 visits                              # rows that searches have looked at

    def __init__(self, words, memory, compute, set_memory, cost, beside, boundary_indptr, boundary, covers, bint kept,
                 bint keep_last):
        self.words = words
        self.size = words.shape[0]
        self.w = words.shape[1]
        self.nodes = len(memory)
        self.memory, self.compute = np.asarray(memory, float), np.asarray(compute, float)
        self.set_memory, self.total, self.beside = (np.asarray(a, float) for a in (set_memory, cost, beside))
        self.boundary_indptr, self.boundary = boundary_indptr, boundary
        self.kept, self.keep_last = kept, keep_last
        self.has_covers = covers is not None
        self.stored_all = False
        if covers is not None:
            self.cover_indptr, self.cover = covers
        self.stamp.assign(self.size, 0)
        self.clock, self.visits = 0, 0

    cdef inline Step step(self, Py_ssize_t source, Py_ssize_t target) noexcept nogil:
        """The figures of one step, by the formulas."""
        cdef Step result
        cdef int64 j
        cdef int v
        cdef double again = 0
        cdef const uint64_t* row = &self.words[source, 0]
        result.target = <int>target
        result.adds = 0
        for j in range(self.boundary_indptr[target], self.boundary_indptr[target + 1]):
            v = self.boundary[j]
            if not has_bit(row, v):
                result.adds += self.memory[v]
                again += self.compute[v]
        if self.keep_last and target == self.size - 1:
            again = self.total[target] - self.total[source]
        result.cost = again if self.kept else self.total[target] - self.total[source] - again
        result.need = 2 * (self.set_memory[target] - self.set_memory[source]) + self.beside[target]
        return result

    def store(self, const int64[::1] indptr, const int[::1] target):
        """Store the steps of these pairs of rows."""
        cdef Py_ssize_t i
        cdef int64 j
        with nogil:
            self.indptr.assign(&indptr[0], &indptr[0] + self.size + 1)
            self.stored.reserve(target.shape[0])
            for i in range(self.size):
                for j in range(indptr[i], indptr[i + 1]):
                    self.stored.push_back(self.step(i, target[j]))
        self.stored_all = True

    def store_figures(self, const int64[::1] indptr, const int[::1] target, const int64[::1] need,
                      const int64[::1] adds, const int64[::1] cost, int64 max_need):
        """Store steps with figures of the caller's, those that need more than `max_need` left out."""
        cdef Py_ssize_t i
        cdef int64 j
        cdef Step step
        with nogil:
            self.indptr.push_back(0)
            for i in range(self.size):
                for j in range(indptr[i], indptr[i + 1]):
                    if need[j] <= max_need:
                        step.target, step.need, step.adds, step.cost = target[j], need[j], adds[j], cost[j]
                        self.stored.push_back(step)
                self.indptr.push_back(self.stored.size())
        self.stored_all = True

    cdef Step between(self, Py_ssize_t source, Py_ssize_t target) noexcept nogil:
        """The figures of one step; its target is -1 if there is no such step."""
        cdef int64 low, high, middle
        cdef Step none
        none.target = -1
        if self.stored_all:
            low, high = self.indptr[source], self.indptr[source + 1]
            while low < high:                                  # targets rise
                middle = (low + high) >> 1
                if self.stored[middle].target < target:
                    low = middle + 1
                else:
                    high = middle
            return self.stored[low] if low < self.indptr[source + 1] and self.stored[low].target == target else none
        if is_subset(&self.words[source, 0], &self.words[target, 0], self.w):
            return self.step(source, target)
        return none

    def figures(self, const int64[::1] rows):
        """(cost, peak) of the chain of these rows, the first of them 0."""
        cdef double cached = 0, cost = 0, peak = 0
        cdef Py_ssize_t i
        cdef Step step
        for i in range(1, rows.shape[0]):
            step = self.between(rows[i - 1], rows[i])
            peak = max(peak, cached + step.need)
            cached += step.adds
            cost += step.cost
        return int(cost), int(peak)

    cdef const Step* of(self, Py_ssize_t source, double room, double max_cost, Py_ssize_t* count) noexcept nogil:
        """Steps from a row among which are all that need at most `room` and cost at most `max_cost`."""
        cdef int64 j
        if self.stored_all:
            count[0] = self.indptr[source + 1] - self.indptr[source]
            return &self.stored[0] + self.indptr[source]
        self.matches.clear()
        if source < self.size - 1:
            if self.has_covers:
                self.search(source, room, max_cost)
            else:
                for j in range(source + 1, self.size - 1):
                    if is_subset(&self.words[source, 0], &self.words[j, 0], self.w):
                        self.matches.push_back(self.step(source, j))
            self.matches.push_back(self.step(source, self.size - 1))
        count[0] = self.matches.size()
        return self.matches.data()

    cdef void search(self, Py_ssize_t source, double room, double max_cost) noexcept nogil:
        """Along the covers: 2 M(L' - L) grows on the way, and so does what runs again; `beside` does not."""
        cdef int row = <int>source, c
        cdef int64 j
        cdef double base = self.set_memory[source]
        cdef Step step
        self.clock += 1
        self.stack.clear()
        self.stack.push_back(row)
        while not self.stack.empty():
            row = self.stack.back()
            self.stack.pop_back()
            for j in range(self.cover_indptr[row], self.cover_indptr[row + 1]):
                c = self.cover[j]
                if self.stamp[c] == self.clock:
                    continue
                self.stamp[c] = self.clock
                if 2 * (self.set_memory[c] - base) > room or c == self.size - 1:
                    continue
                self.visits += 1
                step = self.step(source, c)
                if not self.kept and step.cost > max_cost:
                    continue
                if step.need <= room:
                    self.matches.push_back(step)
                self.stack.push_back(c)
