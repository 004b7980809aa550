# distutils: language = c++
"""Dynamic programs over chains of lower sets (kusumoto2019, section 4).

A step L -> L' of a chain has three figures: `need`, bytes beside what the chain has cached so far; `adds`, bytes that it
adds to the cache; `cost`, what the objective counts. Bytes are doubles, which hold all sums below 2**53 exactly.
"""

import numpy as np

cimport cython
from libc.math cimport INFINITY
from libc.stdlib cimport free, malloc
from libcpp.vector cimport vector

include "_bitsets.pxi"

ctypedef long long int64

cdef struct Step:
    int target
    double cost
    double need
    double adds

cdef struct Label:
    double held
    double peak


@cython.final
cdef class Steps:
    """The steps from each lower set: stored, or found when they are asked for.

    words : uint64[k, w] rows by size, the last is the whole part, memory, compute : int64[n],
    held, cost, beside : int64[k], boundary_indptr : int64[k + 1], boundary : int32[b] as `attributes` gives them,
    covers : (int64[k + 1], int32[c]) or None: rows with one node more, along which the search goes,
    kept : whether the objective is the compute of what is kept, instead of what runs again,
    keep_last : whether the step to the whole part keeps what it adds
    """
    cdef readonly Py_ssize_t size, nodes
    cdef Py_ssize_t w
    cdef const uint64_t[:, ::1] words
    cdef const double[::1] memory, compute, held, total, beside
    cdef const int64[::1] boundary_indptr, cover_indptr
    cdef const int[::1] boundary, cover
    cdef bint kept, keep_last, has_covers
    cdef readonly bint stored_all
    cdef vector[Step] stored
    cdef vector[int64] indptr
    cdef vector[Step] found
    cdef vector[int] stack
    cdef vector[int64] stamp
    cdef int64 clock                               # of searches; a row with its stamp has been seen

    def __init__(self, words, memory, compute, held, cost, beside, boundary_indptr, boundary, covers, bint kept,
                 bint keep_last):
        self.words = words
        self.size = words.shape[0]
        self.w = words.shape[1]
        self.nodes = len(memory)
        self.memory, self.compute = np.asarray(memory, float), np.asarray(compute, float)
        self.held, self.total, self.beside = (np.asarray(a, float) for a in (held, cost, beside))
        self.boundary_indptr, self.boundary = boundary_indptr, boundary
        self.kept, self.keep_last = kept, keep_last
        self.has_covers = covers is not None
        self.stored_all = False
        if covers is not None:
            self.cover_indptr, self.cover = covers
        self.stamp.assign(self.size, 0)
        self.clock = 0

    cdef inline Step step(self, Py_ssize_t source, Py_ssize_t target) noexcept nogil:
        """The figures of one step, by the formulas."""
        cdef Step found
        cdef int64 j
        cdef int v
        cdef double again = 0
        cdef const uint64_t* row = &self.words[source, 0]
        found.target = <int>target
        found.adds = 0
        for j in range(self.boundary_indptr[target], self.boundary_indptr[target + 1]):
            v = self.boundary[j]
            if not has_bit(row, v):
                found.adds += self.memory[v]
                again += self.compute[v]
        if self.keep_last and target == self.size - 1:
            again = self.total[target] - self.total[source]
        found.cost = again if self.kept else self.total[target] - self.total[source] - again
        found.need = 2 * (self.held[target] - self.held[source]) + self.beside[target]
        return found

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
                      const int64[::1] adds, const int64[::1] cost, int64 most):
        """Store steps with figures of the caller's, those that need more than `most` left out."""
        cdef Py_ssize_t i
        cdef int64 j
        cdef Step step
        with nogil:
            self.indptr.push_back(0)
            for i in range(self.size):
                for j in range(indptr[i], indptr[i + 1]):
                    if need[j] <= most:
                        step.target, step.need, step.adds, step.cost = target[j], need[j], adds[j], cost[j]
                        self.stored.push_back(step)
                self.indptr.push_back(self.stored.size())
        self.stored_all = True

    cdef Step between(self, Py_ssize_t source, Py_ssize_t target) noexcept nogil:
        """The figures of one step; its target is -1 if there is no such step."""
        cdef int64 j
        cdef Step none
        none.target = -1
        if self.stored_all:
            for j in range(self.indptr[source], self.indptr[source + 1]):
                if self.stored[j].target == target:
                    return self.stored[j]
            return none
        if is_subset(&self.words[source, 0], &self.words[target, 0], self.w):
            return self.step(source, target)
        return none

    def figures(self, const int64[::1] rows):
        """(cost, peak) of the chain of these rows, the first of them 0."""
        cdef double held = 0, cost = 0, peak = 0
        cdef Py_ssize_t i
        cdef Step step
        for i in range(1, rows.shape[0]):
            step = self.between(rows[i - 1], rows[i])
            peak = max(peak, held + step.need)
            held += step.adds
            cost += step.cost
        return int(cost), int(peak)

    cdef const Step* of(self, Py_ssize_t source, double room, double most_cost, Py_ssize_t* count) noexcept nogil:
        """Steps from a row among which are all that need at most `room` and cost at most `most_cost`."""
        cdef int64 j
        if self.stored_all:
            count[0] = self.indptr[source + 1] - self.indptr[source]
            return &self.stored[0] + self.indptr[source]
        self.found.clear()
        if source < self.size - 1:
            if self.has_covers:
                self.search(source, room, most_cost)
            else:
                for j in range(source + 1, self.size - 1):
                    if is_subset(&self.words[source, 0], &self.words[j, 0], self.w):
                        self.found.push_back(self.step(source, j))
            self.found.push_back(self.step(source, self.size - 1))
        count[0] = self.found.size()
        return self.found.data()

    cdef void search(self, Py_ssize_t source, double room, double most_cost) noexcept nogil:
        """Along the covers: 2 M(L' - L) grows on the way, and so does what runs again; `beside` does not."""
        cdef int row = <int>source, c
        cdef int64 j
        cdef double base = self.held[source]
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
                if 2 * (self.held[c] - base) > room or c == self.size - 1:
                    continue
                step = self.step(source, c)
                if not self.kept and step.cost > most_cost:
                    continue
                if step.need <= room:
                    self.found.push_back(step)
                self.stack.push_back(c)


@cython.final
cdef class Rows:
    """For each lower set and each cost up to a cap the least cache with which a chain within the budget gets there.

    steps : Steps, budget : bytes, unit : what the costs are counted in, cap : the highest cost, in units
    """
    cdef Steps steps
    cdef double budget, unit
    cdef readonly int64 cap, work                  # relaxations so far
    cdef readonly Py_ssize_t current               # how many rows have been expanded
    cdef vector[double*] row
    cdef vector[int64] begin                       # of each front in the pool
    cdef vector[int] cost                          # the pool: rising, the cache falling
    cdef vector[double] cache

    def __init__(self, Steps steps, int64 budget, int64 unit, int64 cap):
        cdef Py_ssize_t i
        self.steps = steps
        self.budget, self.unit, self.cap = budget, unit, cap
        self.current, self.work = 0, 0
        self.row.assign(steps.size, NULL)
        self.begin.push_back(0)
        self.row[0] = self.new_row()
        self.row[0][0] = 0

    def __dealloc__(self):
        cdef Py_ssize_t i
        for i in range(<Py_ssize_t>self.row.size()):
            free(self.row[i])

    cdef double* new_row(self) noexcept nogil:
        cdef double* made = <double*>malloc((self.cap + 1) * sizeof(double))
        cdef int64 i
        for i in range(self.cap + 1):
            made[i] = INFINITY
        return made

    def advance(self, int64 work):
        """Go on for about so many relaxations; whether the end is reached."""
        cdef int64 until = self.work + work
        with nogil:
            while self.work < until and self.current < self.steps.size:
                self.work += self.expand(self.current)
                self.current += 1
        return self.current == self.steps.size

    cdef int64 expand(self, Py_ssize_t source) noexcept nogil:
        cdef int64 t, first = self.begin[source], last, low, high, middle, work = 1, shift
        cdef Py_ssize_t i, count = 0
        cdef double best = INFINITY, room, adds, held, least
        cdef double* row = self.row[source]
        cdef const Step* step
        cdef const int* cost
        cdef const double* cache
        if row != NULL:
            for t in range(self.cap + 1):
                if row[t] < best:
                    best = row[t]
                    self.cost.push_back(<int>t)
                    self.cache.push_back(best)
            free(row)
            self.row[source] = NULL
        last = self.cost.size()
        self.begin.push_back(last)
        if last == first:
            return work
        cost = self.cost.data()
        cache = self.cache.data()
        least = cache[last - 1]
        step = self.steps.of(source, self.budget - least, (self.cap - cost[first] + 0.5) * self.unit, &count)
        for i in range(count):
            room = self.budget - step[i].need
            if room < least:
                continue
            shift = <int64>(step[i].cost / self.unit + 0.5)
            if cost[first] + shift > self.cap:
                continue
            low, high = first, last - 1
            while low < high:
                middle = (low + high) >> 1
                if cache[middle] <= room:
                    high = middle
                else:
                    low = middle + 1
            if cost[low] + shift > self.cap:
                continue
            row = self.row[step[i].target]
            if row == NULL:
                row = self.new_row()
                self.row[step[i].target] = row
            adds = step[i].adds
            while low < last:
                t = cost[low] + shift
                if t > self.cap:
                    break
                held = cache[low] + adds
                if held < row[t]:
                    row[t] = held
                low += 1
            work += last - low + 8
        return work + count

    def best(self):
        """The least cost of a chain to the whole part, in units; -1 if there is none up to the cap."""
        if self.begin[self.steps.size] == self.begin[self.steps.size - 1]:
            return -1
        return self.cost[self.begin[self.steps.size - 1]]

    def chain(self):
        """The rows of that chain, rising, without the first: list of int."""
        cdef Py_ssize_t at = self.steps.size - 1
        cdef int64 label = self.begin[at], before
        rows = []
        while at > 0:
            rows.append(at)
            before = self.parent(&at, label)
            label = before
        return rows[::-1]

    cdef int64 parent(self, Py_ssize_t* at, int64 label) noexcept nogil:
        """The label that a label comes from, and its row."""
        cdef Py_ssize_t source
        cdef Step made
        cdef int64 j
        for source in range(at[0]):
            if self.begin[source] == self.begin[source + 1]:
                continue
            made = self.steps.between(source, at[0])
            if made.target < 0:
                continue
            for j in range(self.begin[source], self.begin[source + 1]):
                if (self.cost[j] + <int64>(made.cost / self.unit + 0.5) == self.cost[label]
                        and self.cache[j] + made.adds == self.cache[label]
                        and self.cache[j] + made.need <= self.budget):
                    at[0] = source
                    return j
        return -1


def cost_bound(Steps steps, int64 budget):
    """A cost that no chain within the budget goes below; -1 if there is no such chain."""
    cdef Py_ssize_t k = steps.size, source, i, count = 0
    cdef vector[double] least, cost                # of each row by itself: cached, spent
    cdef const Step* step
    with nogil:
        least.assign(k, INFINITY)
        cost.assign(k, INFINITY)
        least[0], cost[0] = 0, 0
        for source in range(k - 1):
            if least[source] == INFINITY:
                continue
            step = steps.of(source, budget - least[source], INFINITY, &count)
            for i in range(count):
                if least[source] + step[i].need <= budget:
                    least[step[i].target] = min(least[step[i].target], least[source] + step[i].adds)
                    cost[step[i].target] = min(cost[step[i].target], cost[source] + step[i].cost)
    return -1 if cost[k - 1] == INFINITY else int(cost[k - 1])


def least_cache(Steps steps, int64 budget, int64 most):
    """The chain within the budget that caches least, ties to less cost: list of rows, None if none caches `most` or less.
    """
    cdef Py_ssize_t k = steps.size, source, i, count = 0
    cdef vector[double] cache, cost
    cdef vector[int] parent
    cdef const Step* step
    cdef double held, spent
    with nogil:
        cache.assign(k, INFINITY)
        cost.assign(k, INFINITY)
        parent.assign(k, -1)
        cache[0], cost[0] = 0, 0
        for source in range(k - 1):
            if cache[source] == INFINITY:
                continue
            step = steps.of(source, budget - cache[source], INFINITY, &count)
            for i in range(count):
                if cache[source] + step[i].need > budget:
                    continue
                held, spent = cache[source] + step[i].adds, cost[source] + step[i].cost
                if held > most:
                    continue
                if held < cache[step[i].target] or (held == cache[step[i].target] and spent < cost[step[i].target]):
                    cache[step[i].target], cost[step[i].target] = held, spent
                    parent[step[i].target] = <int>source
    if parent[k - 1] < 0:
        return None
    rows = []
    i = k - 1
    while i > 0:
        rows.append(i)
        i = parent[i]
    return rows[::-1]


@cython.final
cdef class LeastBudget:
    """The least budget for which there is a chain, below a known one; one pass of labels (cache, peak) per lower set."""
    cdef Steps steps
    cdef readonly double budget
    cdef readonly Py_ssize_t current
    cdef vector[vector[Label]] front               # caches rising, peaks falling

    def __init__(self, Steps steps, int64 budget):
        cdef Label label
        self.steps = steps
        self.budget = budget
        self.current = 0
        self.front.resize(steps.size)
        label.held, label.peak = 0, 0
        self.front[0].push_back(label)

    def advance(self, int64 work):
        """Go on for about so many relaxations; whether the end is reached."""
        with nogil:
            while work > 0 and self.current < self.steps.size - 1:
                work -= self.expand(self.current)
                self.current += 1
        return self.current >= self.steps.size - 1

    cdef int64 expand(self, Py_ssize_t source) noexcept nogil:
        cdef Py_ssize_t i, count = 0, n, j
        cdef const Step* step
        cdef const Label* label
        cdef Label made
        cdef vector[Label]* front = &self.front[source]
        while not front.empty() and front[0][0].peak >= self.budget:
            front.erase(front.begin())
        if front.empty():
            return 1
        n = front.size()
        label = front.data()
        # a chain must stay strictly below the budget that is known
        step = self.steps.of(source, self.budget - label[0].held, INFINITY, &count)
        for i in range(count):
            for j in range(n):
                made.held = label[j].held + step[i].adds
                made.peak = label[j].held + step[i].need
                if made.peak >= self.budget:
                    break
                if made.peak < label[j].peak:
                    made.peak = label[j].peak
                self.insert(step[i].target, made)
                if made.peak == label[j].held + step[i].need:
                    break                              # later labels hold more and peak no lower here
        vector[Label]().swap(front[0])
        return count * (1 + n // 2) + 1

    cdef void insert(self, int target, Label made) noexcept nogil:
        cdef vector[Label]* front = &self.front[target]
        cdef Py_ssize_t at = 0, n = front.size(), until
        if target == self.steps.size - 1:
            if made.peak < self.budget:
                self.budget = made.peak
            return
        while at < n and front[0][at].held <= made.held:
            if front[0][at].peak <= made.peak:
                return
            at += 1
        if at > 0 and front[0][at - 1].held == made.held:
            at -= 1
        until = at
        while until < n and front[0][until].peak >= made.peak:
            until += 1
        if until == at:
            front.insert(front.begin() + at, made)
        else:
            front[0][at] = made
            front.erase(front.begin() + at + 1, front.begin() + until)


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
    cdef vector[int64] first                       # the least cost at which an empty cache does
    cdef vector[int64] reach                       # a cost that every chain within the budget has spent by then
    cdef vector[double] least                      # bytes that it has cached

    def __init__(self, Steps steps, int64 budget, int64 unit, int64 cap):
        cdef Py_ssize_t source
        self.steps = steps
        self.budget, self.unit, self.cap = budget, unit, cap
        self.cache = np.empty((steps.size, cap + 1))
        self.first.assign(steps.size, cap + 1)
        self.reach.assign(steps.size, cap + 1)
        self.least.assign(steps.size, INFINITY)
        with nogil:
            self.reach[0] = 0
            self.least[0] = 0
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
            if self.least[source] + step[i].need <= self.budget:
                cost = self.reach[source] + <int64>(step[i].cost / self.unit + 0.5)
                self.reach[step[i].target] = min(self.reach[step[i].target], cost)
                self.least[step[i].target] = min(self.least[step[i].target], self.least[source] + step[i].adds)

    cdef void pull(self, Py_ssize_t source) noexcept nogil:
        cdef Py_ssize_t i, count = 0
        cdef int64 shift, s, first, last = self.cap - self.reach[source]
        cdef double most, adds, left
        cdef double* row = &self.cache[source, 0]
        cdef const double* other
        cdef const Step* step = self.steps.of(source, 0, 0, &count)
        for s in range(last + 1):
            row[s] = -INFINITY
        for i in range(count):
            most = self.budget - step[i].need
            shift = <int64>(step[i].cost / self.unit + 0.5)
            first = self.first[step[i].target] + shift
            if most < self.least[source] or first > last or row[first] >= most:
                continue
            adds = step[i].adds
            other = &self.cache[step[i].target, 0] - shift
            for s in range(first, last + 1):
                left = other[s] - adds
                left = left if left < most else most
                row[s] = left if left > row[s] else row[s]
        s = 0
        while s <= last and row[s] < 0:
            s += 1
        self.first[source] = s if s <= last else self.cap + 1

    def best(self):
        """The least cost of a chain, in units; -1 if there is none up to the cap."""
        return self.first[0] if self.first[0] <= self.cap else -1


cdef struct Partial:
    double held
    double peak
    int64 parent
    int64 cost
    int row


@cython.final
cdef class Between:
    """All least peaks of chains with a cost up to the completion's cap, in one pass of labels (cost, cache, peak).

    A label that the completion cannot bring to the whole part within its budget and cap is dropped.
    """
    cdef Completion completion
    cdef readonly Py_ssize_t current
    cdef vector[vector[vector[Partial]]] waiting   # by row and cost: caches rising, peaks falling
    cdef vector[Partial] pool                      # labels that no other of their row beats, costs rising

    def __init__(self, Completion completion):
        cdef Partial empty
        self.completion = completion
        self.current = 0
        self.waiting.resize(completion.steps.size)
        empty.cost, empty.held, empty.peak, empty.parent, empty.row = 0, 0, 0, -1, 0
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
        cdef Partial made
        cdef const Step* step
        cdef const double* within
        cdef double budget = self.completion.budget
        self.settle(source)
        end = self.pool.size()
        if begin == end:
            return 1
        step = self.completion.steps.of(source, 0, 0, &count)
        for j in range(count):
            made.row = step[j].target
            shift = <int64>(step[j].cost / self.completion.unit + 0.5)
            within = &self.completion.cache[made.row, 0]
            for i in range(begin, end):
                cost = self.pool[i].cost + shift
                if cost > cap:
                    break
                made.held = self.pool[i].held + step[j].adds
                made.peak = self.pool[i].held + step[j].need
                if made.peak > budget or within[cap - cost] < made.held:
                    continue
                made.peak = max(self.pool[i].peak, made.peak)
                made.parent, made.cost = i, cost
                if self.waiting[made.row].empty():
                    self.waiting[made.row].resize(cap + 1)
                self.insert(self.waiting[made.row][cost], made)
        return (end - begin) * count + 1

    cdef void insert(self, vector[Partial]& front, const Partial& made) noexcept nogil:
        cdef int64 at = front.size(), until
        while at > 0 and front[at - 1].held > made.held:
            at -= 1
        if at > 0:
            if front[at - 1].peak <= made.peak:
                return
            if front[at - 1].held == made.held:
                at -= 1
        until = at
        while until < <int64>front.size() and front[until].peak >= made.peak:
            until += 1
        if until == at:
            front.insert(front.begin() + at, made)
        else:
            front[at] = made
            front.erase(front.begin() + at + 1, front.begin() + until)

    cdef void settle(self, Py_ssize_t row) noexcept nogil:
        """Take over what no label of the row with a lower cost beats."""
        cdef vector[Partial] best                  # of lower costs
        cdef Partial made
        cdef int64 cost, i, at
        for cost in range(<int64>self.waiting[row].size()):
            for i in range(<int64>self.waiting[row][cost].size()):
                made = self.waiting[row][cost][i]
                at = best.size()
                while at > 0 and best[at - 1].held > made.held:
                    at -= 1
                if at == 0 or best[at - 1].peak > made.peak:
                    self.insert(best, made)
                    self.pool.push_back(made)
        vector[vector[Partial]]().swap(self.waiting[row])

    def found(self):
        """The rows of a chain for every least peak, costs rising."""
        cdef int64 begin = self.pool.size(), i, at
        self.settle(self.completion.steps.size - 1)
        points = {}
        least = INFINITY
        for i in range(begin, <int64>self.pool.size()):   # costs rise, and within a cost peaks fall
            if self.pool[i].peak < least:
                least = self.pool[i].peak
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
