# All minimum peaks at once, between two budgets: include "_lower_set_frontier.pxi", after "_lower_set_steps.pxi".

from libc.math cimport INFINITY


@cython.final
cdef class Completion:
    """For each lower set and each cost up to a cap the largest cache from which the whole part is within reach.

    steps : Steps, all stored, budget : bytes, unit : what the costs are counted in, cap : the highest cost, in units
    """
    cdef Steps steps
    cdef readonly double budget
    cdef double unit
    cdef readonly int64 cap
    cdef double[:, ::1] cache
    cdef vector[int64] first                       # the minimum cost at which an empty cache does
    cdef vector[int64] reach                       # a cost that every chain within the budget has spent by then
    cdef vector[double] cached                     # the fewest bytes that a chain has cached by then

    def __init__(self, Steps steps, int64 budget, int64 unit, int64 cap):
        cdef Py_ssize_t source
        self.steps = steps
        self.budget, self.unit, self.cap = budget, unit, cap
        self.cache = np.empty((steps.size, cap + 1))
        self.first.assign(steps.size, cap + 1)
        self.reach.assign(steps.size, cap + 1)
        self.cached.assign(steps.size, INFINITY)
        with nogil:
            self.reach[0] = 0
            self.cached[0] = 0
            for source in range(steps.size - 1):
                self.push(source)
            self.first[steps.size - 1] = 0
            for source in range(cap + 1):
                self.cache[steps.size - 1, source] = INFINITY
            for source in range(steps.size - 2, -1, -1):
                self.pull(source)

    cdef void push(self, Py_ssize_t source) noexcept nogil:
        cdef Py_ssize_t i, count = 0
        cdef const Step* step = self.steps.of(source, 0, 0, &count)
        cdef int64 cost
        for i in range(count):
            if self.cached[source] + step[i].need <= self.budget:
                cost = self.reach[source] + <int64>(step[i].cost / self.unit + 0.5)
                self.reach[step[i].target] = min(self.reach[step[i].target], cost)
                self.cached[step[i].target] = min(self.cached[step[i].target], self.cached[source] + step[i].adds)

    cdef void pull(self, Py_ssize_t source) noexcept nogil:
        cdef Py_ssize_t i, count = 0
        cdef int64 shift, s, first, last = self.cap - self.reach[source]
        cdef double room, adds, left
        cdef double* row = &self.cache[source, 0]
        cdef const double* other
        cdef const Step* step = self.steps.of(source, 0, 0, &count)
        for s in range(last + 1):
            row[s] = -INFINITY
        for i in range(count):
            room = self.budget - step[i].need
            shift = <int64>(step[i].cost / self.unit + 0.5)
            first = self.first[step[i].target] + shift
            if room < self.cached[source] or first > last or row[first] >= room:
                continue
            adds = step[i].adds
            other = &self.cache[step[i].target, 0] - shift
            for s in range(first, last + 1):
                left = other[s] - adds
                left = left if left < room else room
                row[s] = left if left > row[s] else row[s]
        s = 0
        while s <= last and row[s] < 0:
            s += 1
        self.first[source] = s if s <= last else self.cap + 1

    def best(self):
        """The minimum cost of a chain, in units; -1 if there is none up to the cap."""
        return self.first[0] if self.first[0] <= self.cap else -1


cdef struct Partial:
    double cached
    double peak
    int64 parent
    int64 cost
    int row


@cython.final
cdef class Between:
    """All minimum peaks of chains with a cost up to the completion's cap, in one pass of labels (cost, cache, peak).

    A label that the completion cannot bring to the whole part within its budget and cap is dropped.
    """
    cdef Completion completion
    cdef readonly Py_ssize_t current
    cdef vector[vector[vector[Partial]]] waiting   # by row and cost: caches rising, peaks falling
    cdef vector[Partial] pool                      # labels that no other of their row dominates, costs rising

    def __init__(self, Completion completion):
        cdef Partial empty
        self.completion = completion
        self.current = 0
        self.waiting.resize(completion.steps.size)
        empty.cost, empty.cached, empty.peak, empty.parent, empty.row = 0, 0, 0, -1, 0
        self.waiting[0].resize(1)
        self.waiting[0][0].push_back(empty)

    def advance(self, int64 work):
        """Go on for about so many relaxations; whether the end is reached."""
        with nogil:
            while work > 0 and self.current < self.completion.steps.size - 1:
                work -= self.expand(self.current)
                self.current += 1
        return self.current >= self.completion.steps.size - 1

    cdef int64 expand(self, Py_ssize_t source) noexcept nogil:
        cdef int64 begin = self.pool.size(), end, i, j, cost, shift, cap = self.completion.cap
        cdef Py_ssize_t count = 0
        cdef Partial extended
        cdef const Step* step
        cdef const double* within
        cdef double budget = self.completion.budget
        self.keep_undominated(source)
        end = self.pool.size()
        if begin == end:
            return 1
        step = self.completion.steps.of(source, 0, 0, &count)
        for j in range(count):
            extended.row = step[j].target
            shift = <int64>(step[j].cost / self.completion.unit + 0.5)
            within = &self.completion.cache[extended.row, 0]
            for i in range(begin, end):
                cost = self.pool[i].cost + shift
                if cost > cap:
                    break
                extended.cached = self.pool[i].cached + step[j].adds
                extended.peak = self.pool[i].cached + step[j].need
                if extended.peak > budget or within[cap - cost] < extended.cached:
                    continue
                extended.peak = max(self.pool[i].peak, extended.peak)
                extended.parent, extended.cost = i, cost
                if self.waiting[extended.row].empty():
                    self.waiting[extended.row].resize(cap + 1)
                self.insert(self.waiting[extended.row][cost], extended)
        return (end - begin) * count + 1

    cdef void insert(self, vector[Partial]& front, const Partial& label) noexcept nogil:
        cdef int64 at = front.size(), until
        while at > 0 and front[at - 1].cached > label.cached:
            at -= 1
        if at > 0:
            if front[at - 1].peak <= label.peak:
                return
            if front[at - 1].cached == label.cached:
                at -= 1
        until = at
        while until < <int64>front.size() and front[until].peak >= label.peak:
            until += 1
        if until == at:
            front.insert(front.begin() + at, label)
        else:
            front[at] = label
            front.erase(front.begin() + at + 1, front.begin() + until)

    cdef void keep_undominated(self, Py_ssize_t row) noexcept nogil:
        """Put into the pool the labels that no label of the row with a lower cost dominates."""
        cdef vector[Partial] best                  # of lower costs
        cdef Partial label
        cdef int64 cost, i, at
        for cost in range(<int64>self.waiting[row].size()):
            for i in range(<int64>self.waiting[row][cost].size()):
                label = self.waiting[row][cost][i]
                at = best.size()
                while at > 0 and best[at - 1].cached > label.cached:
                    at -= 1
                if at == 0 or best[at - 1].peak > label.peak:
                    self.insert(best, label)
                    self.pool.push_back(label)
        vector[vector[Partial]]().swap(self.waiting[row])

    def chains(self):
        """The rows of a chain for every minimum peak, costs rising."""
        cdef int64 begin = self.pool.size(), i, at
        self.keep_undominated(self.completion.steps.size - 1)
        points = {}
        lowest = INFINITY
        for i in range(begin, <int64>self.pool.size()):   # costs rise, and within a cost peaks fall
            if self.pool[i].peak < lowest:
                lowest = self.pool[i].peak
                points[self.pool[i].cost] = i
        chains = []
        for i in points.values():
            rows = []
            at = i
            while self.pool[at].row > 0:
                rows.append(self.pool[at].row)
                at = self.pool[at].parent
            chains.append(rows[::-1])
        return chains
