# distutils: language = c++
"""Dynamic programs over chains of lower sets (kusumoto2019, section 4).

A step L -> L' of a chain has three figures: `need`, bytes beside what the chain has cached so far; `adds`, bytes that it
adds to the cache; `cost`, what the objective counts. Bytes are doubles, which hold all sums below 2**53 exactly.
"""

import numpy as np

from libc.stdlib cimport free, malloc

include "_bitsets.pxi"
include "_lower_set_steps.pxi"
include "_lower_set_frontier.pxi"

cdef struct Label:
    double cached
    double peak


@cython.final
cdef class Rows:
    """For each lower set and each cost up to a cap the minimum cache with which a chain within the budget gets there.

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
        cdef double* row = <double*>malloc((self.cap + 1) * sizeof(double))
        cdef int64 i
        for i in range(self.cap + 1):
            row[i] = INFINITY
        return row

    def advance(self, int64 work):
        """Go on for about so many relaxations; whether the end is reached."""
        cdef int64 until = self.work + work, visits
        with nogil:
            while self.work < until and self.current < self.steps.size:
                visits = self.steps.visits
                self.work += self.expand(self.current) + self.steps.visits - visits
                self.current += 1
        return self.current == self.steps.size

    cdef int64 expand(self, Py_ssize_t source) noexcept nogil:
        cdef int64 t, first = self.begin[source], last, low, high, middle, work = 1, shift
        cdef Py_ssize_t i, count = 0
        cdef double best = INFINITY, room, adds, cached, lowest
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
        lowest = cache[last - 1]
        step = self.steps.of(source, self.budget - lowest, (self.cap - cost[first] + 0.5) * self.unit, &count)
        for i in range(count):
            room = self.budget - step[i].need
            if room < lowest:
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
                cached = cache[low] + adds
                if cached < row[t]:
                    row[t] = cached
                low += 1
            work += last - low + 8
        return work + count

    def best(self):
        """The minimum cost of a chain to the whole part, in units; -1 if there is none up to the cap."""
        if self.begin[self.steps.size] == self.begin[self.steps.size - 1]:
            return -1
        return self.cost[self.begin[self.steps.size - 1]]

    def chain(self):
        """The rows of that chain, rising, without the first: list of int."""
        cdef Py_ssize_t at = self.steps.size - 1
        cdef int64 label = self.begin[at]
        rows = []
        while at > 0:
            rows.append(at)
            label = self.parent(&at, label)
            if label < 0:
                return None
        return rows[::-1]

    cdef int64 parent(self, Py_ssize_t* at, int64 label) noexcept nogil:
        """The label that a label comes from, and its row."""
        cdef Py_ssize_t source
        cdef Step step
        cdef int64 j
        for source in range(at[0]):
            if self.begin[source] == self.begin[source + 1]:
                continue
            step = self.steps.between(source, at[0])
            if step.target < 0:
                continue
            for j in range(self.begin[source], self.begin[source + 1]):
                if (self.cost[j] + <int64>(step.cost / self.unit + 0.5) == self.cost[label]
                        and self.cache[j] + step.adds == self.cache[label]
                        and self.cache[j] + step.need <= self.budget):
                    at[0] = source
                    return j
        return -1


def cost_bound(Steps steps, int64 budget):
    """A cost that no chain within the budget goes below; -1 if there is no such chain."""
    cdef Py_ssize_t k = steps.size, source, i, count = 0
    cdef vector[double] cached, cost               # the minimum of each row by itself
    cdef const Step* step
    with nogil:
        cached.assign(k, INFINITY)
        cost.assign(k, INFINITY)
        cached[0], cost[0] = 0, 0
        for source in range(k - 1):
            if cached[source] == INFINITY:
                continue
            step = steps.of(source, budget - cached[source], INFINITY, &count)
            for i in range(count):
                if cached[source] + step[i].need <= budget:
                    cached[step[i].target] = min(cached[step[i].target], cached[source] + step[i].adds)
                    cost[step[i].target] = min(cost[step[i].target], cost[source] + step[i].cost)
    return -1 if cost[k - 1] == INFINITY else int(cost[k - 1])


@cython.final
cdef class MinimumCache:
    """The chain within a budget that caches fewest bytes, at most `max_cache`; ties go to less cost."""
    cdef Steps steps
    cdef double budget, max_cache
    cdef readonly Py_ssize_t current
    cdef vector[double] cache, cost
    cdef vector[int] parent

    def __init__(self, Steps steps, int64 budget, int64 max_cache):
        self.steps = steps
        self.budget, self.max_cache = budget, max_cache
        self.current = 0
        self.cache.assign(steps.size, INFINITY)
        self.cost.assign(steps.size, INFINITY)
        self.parent.assign(steps.size, -1)
        self.cache[0], self.cost[0] = 0, 0

    def advance(self, int64 work):
        """Go on for about so many relaxations; whether the end is reached."""
        cdef int64 visits = self.steps.visits
        with nogil:
            while work > self.steps.visits - visits and self.current < self.steps.size - 1:
                work -= self.expand(self.current)
                self.current += 1
        return self.current >= self.steps.size - 1

    cdef int64 expand(self, Py_ssize_t source) noexcept nogil:
        cdef Py_ssize_t i, count = 0
        cdef int target
        cdef double cached, spent
        cdef const Step* step
        if self.cache[source] == INFINITY:
            return 1
        step = self.steps.of(source, self.budget - self.cache[source], INFINITY, &count)
        for i in range(count):
            target = step[i].target
            cached, spent = self.cache[source] + step[i].adds, self.cost[source] + step[i].cost
            if self.cache[source] + step[i].need > self.budget or cached > self.max_cache:
                continue
            if cached < self.cache[target] or (cached == self.cache[target] and spent < self.cost[target]):
                self.cache[target], self.cost[target], self.parent[target] = cached, spent, <int>source
        return count + 1

    def chain(self):
        """The rows of that chain, rising, without the first; None if there is none."""
        cdef Py_ssize_t at = self.steps.size - 1
        if self.parent[at] < 0:
            return None
        rows = []
        while at > 0:
            rows.append(at)
            at = self.parent[at]
        return rows[::-1]


@cython.final
cdef class MinimumBudget:
    """The minimum budget that some chain meets, below a known one; one pass of labels (cache, peak) per lower set."""
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
        label.cached, label.peak = 0, 0
        self.front[0].push_back(label)

    def advance(self, int64 work):
        """Go on for about so many relaxations; whether the end is reached."""
        cdef int64 visits = self.steps.visits
        with nogil:
            while work > self.steps.visits - visits and self.current < self.steps.size - 1:
                work -= self.expand(self.current)
                self.current += 1
        return self.current >= self.steps.size - 1

    cdef int64 expand(self, Py_ssize_t source) noexcept nogil:
        cdef Py_ssize_t i, count = 0, n, j
        cdef const Step* step
        cdef const Label* label
        cdef Label extended
        cdef vector[Label]* front = &self.front[source]
        while not front.empty() and front[0][0].peak >= self.budget:
            front.erase(front.begin())
        if front.empty():
            return 1
        n = front.size()
        label = front.data()
        # a chain must stay strictly below the budget that is known
        step = self.steps.of(source, self.budget - label[0].cached, INFINITY, &count)
        for i in range(count):
            for j in range(n):
                extended.cached = label[j].cached + step[i].adds
                extended.peak = label[j].cached + step[i].need
                if extended.peak >= self.budget:
                    break
                if extended.peak < label[j].peak:
                    extended.peak = label[j].peak
                self.insert(step[i].target, extended)
                if extended.peak == label[j].cached + step[i].need:
                    break                              # later labels cache more and peak no lower here
        vector[Label]().swap(front[0])
        return count * (1 + n // 2) + 1

    cdef void insert(self, int target, Label label) noexcept nogil:
        cdef vector[Label]* front = &self.front[target]
        cdef Py_ssize_t at = 0, n = front.size(), until
        if target == self.steps.size - 1:
            if label.peak < self.budget:
                self.budget = label.peak
            return
        while at < n and front[0][at].cached <= label.cached:
            if front[0][at].peak <= label.peak:
                return
            at += 1
        if at > 0 and front[0][at - 1].cached == label.cached:
            at -= 1
        until = at
        while until < n and front[0][until].peak >= label.peak:
            until += 1
        if until == at:
            front.insert(front.begin() + at, label)
        else:
            front[0][at] = label
            front.erase(front.begin() + at + 1, front.begin() + until)
