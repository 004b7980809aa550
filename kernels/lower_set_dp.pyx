# distutils: language = c++
"""Dynamic programs over chains of lower sets (kusumoto2019, section 4).

A chain caches the kept values of its blocks; their bytes are called the cache of the chain. A step L -> L' of a chain
has three figures. `need` is the number of bytes that its block needs in addition to the cache before it. `adds` is the
number of bytes that it adds to the cache. `cost` is its term of the objective: recomputed compute, or compute of kept
nodes. Bytes are doubles, which represent all sums below 2**53 exactly.

A label describes a chain from the empty set to a lower set by some of its cost, cache and peak. Extending the chain of
one label by one step is called a relaxation. Searches run in portions (`advance`) and share `ChainSteps`. After a
MemoryError an object must not be used again.
"""

import numpy as np

cimport cython
from libc.math cimport INFINITY
from libc.stdint cimport uint64_t
from libcpp.vector cimport vector
from remat_algos.kernels.bitsets cimport has_bit, is_subset
from remat_algos.kernels.growing cimport assign
from remat_algos.kernels.types cimport Int32s, Int64s, int64_t
from remat_algos.kernels.vectors cimport remat_first_below, remat_raise


# Steps between lower sets, with the cost and the memory of each step.

cdef struct ChainStep:
    int target
    double cost
    double need
    double adds


@cython.final
cdef class ChainSteps:
    """The steps from each lower set, stored or computed on demand.

    words : uint64[k, w] lower sets sorted by size, the last is the whole forward part; memory, compute : int64[n];
    set_memory, cost, beside : int64[k], boundary_indptr : int64[k + 1], boundary : int32[b] from `lower_set_figures`;
    covers : (int64[k + 1], int32[c]) or None: for each set, the sets with one more node, for the search of steps;
    kept : True if the objective is the compute of kept nodes instead of recomputed ones;
    keep_last : True if the step to the whole forward part keeps all nodes that it adds

    Cost: O(k w) memory, and 32 bytes for each stored step. A step that is not stored takes O(b / k) time at each use.
    """
    cdef readonly Py_ssize_t size, nodes
    cdef Py_ssize_t w
    cdef const uint64_t[:, ::1] words
    cdef const double[::1] memory, compute, set_memory, total, beside
    cdef Int64s boundary_indptr, cover_indptr
    cdef Int32s boundary, cover
    cdef bint kept, keep_last, has_covers
    cdef readonly bint stored_all
    cdef vector[ChainStep] stored
    cdef vector[int64_t] indptr
    cdef vector[ChainStep] matches
    cdef vector[int] stack
    cdef vector[int64_t] stamp
    # Number of the current search; rows with this stamp have been visited in it.
    cdef int64_t clock
    cdef int64_t visits                              # rows examined by searches

    def __init__(self, words, *, memory, compute, set_memory, cost, beside, boundary_indptr, boundary, covers, bint kept,
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
        assign(self.stamp, self.size, 0)
        self.clock, self.visits = 0, 0

    cdef inline ChainStep step(self, Py_ssize_t source, Py_ssize_t target) noexcept nogil:
        """Compute cost, need and added cache of one step from the formulas."""
        cdef ChainStep result
        cdef int64_t j
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

    def store(self, Int64s indptr, Int32s target):
        """Store the steps of pairs of sets, in CSR rows: indptr int64[k + 1], target int32[p], targets ascending."""
        cdef Py_ssize_t i
        cdef int64_t j
        with nogil:
            self.indptr.push_back(0)
            self.stored.reserve(target.shape[0])
            for i in range(self.size):
                for j in range(indptr[i], indptr[i + 1]):
                    self.stored.push_back(self.step(i, target[j]))
                self.indptr.push_back(self.stored.size())
        self.stored_all = True

    def store_figures(self, Int64s indptr, Int32s target, *, Int64s need, Int64s adds, Int64s cost, int64_t max_need):
        """Store the steps of pairs of sets, with these numbers; omit steps that need more than `max_need`."""
        cdef Py_ssize_t i
        cdef int64_t j
        cdef ChainStep step
        with nogil:
            self.indptr.push_back(0)
            for i in range(self.size):
                for j in range(indptr[i], indptr[i + 1]):
                    if need[j] <= max_need:
                        step.target, step.need, step.adds, step.cost = target[j], need[j], adds[j], cost[j]
                        self.stored.push_back(step)
                self.indptr.push_back(self.stored.size())
        self.stored_all = True

    def stored_figures(self):
        """Return the cost, the bytes added to the cache and the bytes needed of each stored step, float64[k, 3]."""
        cdef Py_ssize_t i
        result = np.empty((self.stored.size(), 3))
        cdef double[:, ::1] out = result
        for i in range(<Py_ssize_t>self.stored.size()):
            out[i, 0], out[i, 1], out[i, 2] = self.stored[i].cost, self.stored[i].adds, self.stored[i].need
        return result

    def set_costs(self, const double[::1] costs):
        """Replace the cost of each stored step; costs : float64[k], whole numbers."""
        cdef Py_ssize_t i
        if costs.shape[0] != <Py_ssize_t>self.stored.size():
            raise ValueError(f"{costs.shape[0]} costs for {self.stored.size()} steps")
        for i in range(costs.shape[0]):
            self.stored[i].cost = costs[i]

    cdef ChainStep between(self, Py_ssize_t source, Py_ssize_t target) noexcept nogil:
        """Return the step from set `source` to set `target`; if there is none, a step with target -1."""
        cdef int64_t low, high, middle
        cdef ChainStep none
        none.target = -1
        if self.stored_all:
            low, high = self.indptr[source], self.indptr[source + 1]
            while low < high:                                  # targets ascend
                middle = (low + high) >> 1
                if self.stored[middle].target < target:
                    low = middle + 1
                else:
                    high = middle
            return self.stored[low] if low < self.indptr[source + 1] and self.stored[low].target == target else none
        if is_subset(&self.words[source, 0], &self.words[target, 0], self.w):
            return self.step(source, target)
        return none

    def figures(self, Int64s rows):
        """Return (cost, peak) of the chain of these sets, which starts with set 0."""
        cdef double cached = 0, cost = 0, peak = 0
        cdef Py_ssize_t i
        cdef ChainStep step
        for i in range(1, rows.shape[0]):
            step = self.between(rows[i - 1], rows[i])
            peak = max(peak, cached + step.need)
            cached += step.adds
            cost += step.cost
        return int(cost), int(peak)

    cdef Py_ssize_t of(
        self, Py_ssize_t source, double room, double max_cost, const ChainStep** first
    ) except -1 nogil:
        """Return the number of steps from a set, and set a pointer to the first.

        The result contains every step that needs at most `room` bytes and costs at most `max_cost`. It may contain
        other steps. The pointer is valid until the next call.
        """
        cdef int64_t j
        if self.stored_all:
            first[0] = self.stored.data() + self.indptr[source]
            return self.indptr[source + 1] - self.indptr[source]
        self.matches.clear()
        if source < self.size - 1:
            if self.has_covers:
                self.search(source, room, max_cost)
            else:
                for j in range(source + 1, self.size - 1):
                    if is_subset(&self.words[source, 0], &self.words[j, 0], self.w):
                        self.matches.push_back(self.step(source, j))
            self.matches.push_back(self.step(source, self.size - 1))
        first[0] = self.matches.data()
        return self.matches.size()

    cdef int search(self, Py_ssize_t source, double room, double max_cost) except -1 nogil:
        """Search for steps along the covers.

        A branch ends when the recomputed compute, or twice the memory of the added nodes, exceeds its limit. Adding
        another node decreases neither.
        """
        cdef int row = <int>source, c
        cdef int64_t j, clock = self.clock + 1
        cdef int64_t* stamp = self.stamp.data()
        cdef double base = self.set_memory[source]
        cdef ChainStep step
        self.clock = clock
        self.stack.clear()
        self.stack.push_back(row)
        while not self.stack.empty():
            row = self.stack.back()
            self.stack.pop_back()
            for j in range(self.cover_indptr[row], self.cover_indptr[row + 1]):
                c = self.cover[j]
                if stamp[c] == clock:
                    continue
                stamp[c] = clock
                if 2 * (self.set_memory[c] - base) > room or c == self.size - 1:
                    continue
                self.visits += 1
                step = self.step(source, c)
                if not self.kept and step.cost > max_cost:
                    continue
                if step.need <= room:
                    self.matches.push_back(step)
                self.stack.push_back(c)


# The minimum peak for each cost.

@cython.final
cdef class Completion:
    """For each lower set and each remaining cost, the maximum cache of a chain that can still be completed.

    The cache is the bytes that the chain keeps. The chain is completed when it reaches the whole forward part within
    the budget.
    steps : ChainSteps, all stored; budget : bytes; unit : unit of the costs; cap : maximum cost, in units
    Cost: O(p cap) time for p steps, 8 k cap bytes of memory for k lower sets; a larger unit reduces both.
    """
    cdef ChainSteps steps
    cdef readonly double budget
    cdef double unit
    cdef readonly int64_t cap
    cdef double[:, ::1] cache
    # For each set, the minimum cost of completing a chain whose cache is empty.
    cdef vector[int64_t] first
    # For each set, a lower bound on the cost of the chains to it within the budget.
    cdef vector[int64_t] reach
    # For each set, the minimum cache of a chain to it.
    cdef vector[double] cached

    def __init__(self, ChainSteps steps, int64_t budget, int64_t unit, int64_t cap):
        cdef Py_ssize_t source
        self.steps = steps
        self.budget, self.unit, self.cap = budget, unit, cap
        self.cache = np.empty((steps.size, cap + 1))
        assign(self.first, steps.size, cap + 1)
        assign(self.reach, steps.size, cap + 1)
        assign(self.cached, steps.size, INFINITY)
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

    cdef int push(self, Py_ssize_t source) except -1 nogil:
        cdef const ChainStep* step
        cdef Py_ssize_t i, count = self.steps.of(source, 0, 0, &step)
        cdef int64_t cost
        for i in range(count):
            if self.cached[source] + step[i].need <= self.budget:
                cost = self.reach[source] + <int64_t>(step[i].cost / self.unit + 0.5)
                self.reach[step[i].target] = min(self.reach[step[i].target], cost)
                self.cached[step[i].target] = min(self.cached[step[i].target], self.cached[source] + step[i].adds)

    cdef int pull(self, Py_ssize_t source) except -1 nogil:
        cdef const ChainStep* step
        cdef Py_ssize_t i, count = self.steps.of(source, 0, 0, &step)
        cdef int64_t shift, s, first, last = self.cap - self.reach[source]
        cdef double room
        cdef double* row = &self.cache[source, 0]
        cdef const double* other
        for s in range(last + 1):
            row[s] = -INFINITY
        for i in range(count):
            room = self.budget - step[i].need
            shift = <int64_t>(step[i].cost / self.unit + 0.5)
            first = self.first[step[i].target] + shift
            if room < self.cached[source] or first > last or row[first] >= room:
                continue
            other = &self.cache[step[i].target, first - shift]
            remat_raise(row + first, other, last + 1 - first, step[i].adds, room)
        s = 0
        while s <= last and row[s] < 0:
            s += 1
        self.first[source] = s if s <= last else self.cap + 1

    def best(self):
        """Return the minimum cost of a chain in units, -1 if it exceeds the cap."""
        return self.first[0] if self.first[0] <= self.cap else -1


cdef struct PartialChain:
    double cached
    double peak
    int64_t parent
    int64_t cost
    int row


@cython.final
cdef class MinimumPeaks:
    """The minimum peak of a chain for each cost up to the cap of a `Completion`.

    A label is (cost, cache, peak). The sets are visited once, in order of size; all steps from a set extend its labels.
    A label is discarded if the `Completion` shows that its chain cannot be completed within budget and cap.
    Cost: a relaxation for each label and step, and 40 bytes for each label. The number of labels has no useful bound,
    so limit the work of `advance`.
    """
    cdef Completion completion
    cdef readonly Py_ssize_t current
    # For each set and cost, its labels: caches ascending, peaks descending.
    cdef vector[vector[vector[PartialChain]]] waiting
    # Undominated labels of the expanded sets, set by set, costs ascending.
    cdef vector[PartialChain] pool

    def __init__(self, Completion completion):
        cdef PartialChain empty
        self.completion = completion
        self.current = 0
        self.waiting.resize(completion.steps.size)
        empty.cost, empty.cached, empty.peak, empty.parent, empty.row = 0, 0, 0, -1, 0
        self.waiting[0].resize(1)
        self.waiting[0][0].push_back(empty)

    def advance(self, int64_t work):
        """Run for about `work` relaxations; return True when finished."""
        with nogil:
            while work > 0 and self.current < self.completion.steps.size - 1:
                work -= self.expand(self.current)
                self.current += 1
        return self.current >= self.completion.steps.size - 1

    cdef int64_t expand(self, Py_ssize_t source) except -1 nogil:
        cdef int64_t begin = self.pool.size(), end, i, j, cost, shift, cap = self.completion.cap
        cdef Py_ssize_t count
        cdef PartialChain extended
        cdef const ChainStep* step
        cdef const double* within
        cdef double budget = self.completion.budget
        self.keep_undominated(source)
        end = self.pool.size()
        if begin == end:
            return 1
        count = self.completion.steps.of(source, 0, 0, &step)
        for j in range(count):
            extended.row = step[j].target
            shift = <int64_t>(step[j].cost / self.completion.unit + 0.5)
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

    cdef inline int insert(self, vector[PartialChain]& front, const PartialChain& label) except -1 nogil:
        cdef int64_t at = front.size(), until
        while at > 0 and front[at - 1].cached > label.cached:
            at -= 1
        if at > 0:
            if front[at - 1].peak <= label.peak:
                return 0
            if front[at - 1].cached == label.cached:
                at -= 1
        until = at
        while until < <int64_t>front.size() and front[until].peak >= label.peak:
            until += 1
        if until == at:
            front.insert(front.begin() + at, label)
        else:
            front[at] = label
            front.erase(front.begin() + at + 1, front.begin() + until)

    cdef int keep_undominated(self, Py_ssize_t row) except -1 nogil:
        """Move into the pool the labels of a set that are not dominated by labels of lower or equal cost."""
        cdef vector[PartialChain] best             # best labels at lower cost
        cdef PartialChain label
        cdef int64_t cost, i, at
        for cost in range(<int64_t>self.waiting[row].size()):
            for i in range(<int64_t>self.waiting[row][cost].size()):
                label = self.waiting[row][cost][i]
                at = best.size()
                while at > 0 and best[at - 1].cached > label.cached:
                    at -= 1
                if at == 0 or best[at - 1].peak > label.peak:
                    self.insert(best, label)
                    self.pool.push_back(label)
        vector[vector[PartialChain]]().swap(self.waiting[row])

    def chains(self):
        """Return a chain for each minimum peak, as lists of sets, costs ascending."""
        cdef int64_t begin = self.pool.size(), i, at
        self.keep_undominated(self.completion.steps.size - 1)
        points = {}
        lowest = INFINITY
        # Costs ascend, and peaks descend for equal costs.
        for i in range(begin, <int64_t>self.pool.size()):
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


# Chains of minimum cost, cache or budget.

cdef struct ChainLabel:
    double cached
    double peak


@cython.final
cdef class MinimumCost:
    """For each lower set and each cost up to a cap, the minimum cache of a chain to this set within the budget.

    steps : ChainSteps; budget : bytes; unit : unit of the costs; cap : maximum cost, in units
    Cost: O(p cap) time for p steps, up to 12 k cap bytes of memory; a larger unit reduces both.
    """
    cdef ChainSteps steps
    cdef double budget, unit
    cdef readonly int64_t cap, work                  # work in relaxations
    cdef readonly Py_ssize_t current               # number of expanded sets
    # For each set, the minimum cache for each cost. Empty before the first chain to the set, and after its expansion.
    cdef vector[vector[double]] row
    cdef vector[int64_t] begin                       # first label of each set
    # Labels of the expanded sets: in each set costs ascend and caches descend.
    cdef vector[int] cost
    cdef vector[double] cache

    def __init__(self, ChainSteps steps, int64_t budget, int64_t unit, int64_t cap):
        self.steps = steps
        self.budget, self.unit, self.cap = budget, unit, cap
        self.current, self.work = 0, 0
        self.row.resize(steps.size)
        self.begin.push_back(0)
        assign(self.row[0], cap + 1, INFINITY)
        self.row[0][0] = 0

    def advance(self, int64_t work):
        """Run for about `work` relaxations; return True when finished."""
        cdef int64_t until = self.work + work, visits
        with nogil:
            while self.work < until and self.current < self.steps.size:
                visits = self.steps.visits
                self.work += self.expand(self.current) + self.steps.visits - visits
                self.current += 1
        return self.current == self.steps.size

    cdef int64_t expand(self, Py_ssize_t source) except -1 nogil:
        cdef int64_t t, first = self.begin[source], last, low, high, middle, work = 1, shift
        cdef Py_ssize_t i, count
        cdef double best = INFINITY, room, adds, cached, lowest
        cdef double* row
        cdef const ChainStep* step
        cdef const int* cost
        cdef const double* cache
        if not self.row[source].empty():
            row = self.row[source].data()
            t = remat_first_below(row, 0, self.cap + 1, best)
            while t <= self.cap:
                best = row[t]
                self.cost.push_back(<int>t)
                self.cache.push_back(best)
                t = remat_first_below(row, t + 1, self.cap + 1, best)
            vector[double]().swap(self.row[source])
        last = self.cost.size()
        self.begin.push_back(last)
        if last == first:
            return work
        cost = self.cost.data()
        cache = self.cache.data()
        lowest = cache[last - 1]
        count = self.steps.of(source, self.budget - lowest, (self.cap - cost[first] + 0.5) * self.unit, &step)
        for i in range(count):
            room = self.budget - step[i].need
            if room < lowest:
                continue
            shift = <int64_t>(step[i].cost / self.unit + 0.5)
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
            if self.row[step[i].target].empty():
                assign(self.row[step[i].target], self.cap + 1, INFINITY)
            row = self.row[step[i].target].data()
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
        """Return the minimum cost of a chain in units, -1 if it exceeds the cap."""
        if self.begin[self.steps.size] == self.begin[self.steps.size - 1]:
            return -1
        return self.cost[self.begin[self.steps.size - 1]]

    def chain(self):
        """Return the sets of a chain of minimum cost, without the empty set, as a list, or None if it is not found."""
        cdef Py_ssize_t at = self.steps.size - 1
        cdef int64_t label = self.begin[at]
        rows = []
        while at > 0:
            rows.append(at)
            label = self.parent(&at, label)
            if label < 0:
                return None
        return rows[::-1]

    cdef int64_t parent(self, Py_ssize_t* at, int64_t label) noexcept nogil:
        """Return the label that was extended to this label, and set `at` to its set. Return -1 if there is none."""
        cdef Py_ssize_t source
        cdef ChainStep step
        cdef int64_t low, high, middle, before
        for source in range(at[0]):
            low, high = self.begin[source], self.begin[source + 1]
            # Skip a set if all its labels have a larger cost, or all a larger cache: no step reduces either.
            if low == high or self.cost[low] > self.cost[label] or self.cache[high - 1] > self.cache[label]:
                continue
            step = self.steps.between(source, at[0])
            if step.target < 0:
                continue
            before = self.cost[label] - <int64_t>(step.cost / self.unit + 0.5)
            while low < high:                                  # costs ascend
                middle = (low + high) >> 1
                if self.cost[middle] < before:
                    low = middle + 1
                else:
                    high = middle
            if (low < self.begin[source + 1] and self.cost[low] == before
                    and self.cache[low] + step.adds == self.cache[label]
                    and self.cache[low] + step.need <= self.budget):
                at[0] = source
                return low
        return -1


def cost_bound(ChainSteps steps, int64_t budget):
    """Return a lower bound on the cost of chains within the budget, or -1 if it proves that there are no such chains.

    Cost: O(p) time for p steps, O(k) memory.
    """
    cdef Py_ssize_t k = steps.size, source, i, count
    cdef vector[double] cached, cost               # minimized separately
    cdef const ChainStep* step
    with nogil:
        assign(cached, k, INFINITY)
        assign(cost, k, INFINITY)
        cached[0], cost[0] = 0, 0
        for source in range(k - 1):
            if cached[source] == INFINITY:
                continue
            count = steps.of(source, budget - cached[source], INFINITY, &step)
            for i in range(count):
                if cached[source] + step[i].need <= budget:
                    cached[step[i].target] = min(cached[step[i].target], cached[source] + step[i].adds)
                    cost[step[i].target] = min(cost[step[i].target], cost[source] + step[i].cost)
    return -1 if cost[k - 1] == INFINITY else int(cost[k - 1])


@cython.final
cdef class MinimumCache:
    """The chain of minimum cache within a budget, if its cache is at most `max_cache`; ties go to the lower cost.

    Cost: O(p) time for p steps, O(k) memory.
    """
    cdef ChainSteps steps
    cdef double budget, max_cache
    cdef readonly Py_ssize_t current
    cdef vector[double] cache, cost
    cdef vector[int] parent

    def __init__(self, ChainSteps steps, int64_t budget, int64_t max_cache):
        self.steps = steps
        self.budget, self.max_cache = budget, max_cache
        self.current = 0
        assign(self.cache, steps.size, INFINITY)
        assign(self.cost, steps.size, INFINITY)
        assign(self.parent, steps.size, -1)
        self.cache[0], self.cost[0] = 0, 0

    def advance(self, int64_t work):
        """Run for about `work` relaxations; return True when finished."""
        cdef int64_t visits = self.steps.visits
        with nogil:
            while work > self.steps.visits - visits and self.current < self.steps.size - 1:
                work -= self.expand(self.current)
                self.current += 1
        return self.current >= self.steps.size - 1

    cdef int64_t expand(self, Py_ssize_t source) except -1 nogil:
        cdef Py_ssize_t i, count
        cdef int target
        cdef double cached, spent
        cdef const ChainStep* step
        if self.cache[source] == INFINITY:
            return 1
        count = self.steps.of(source, self.budget - self.cache[source], INFINITY, &step)
        for i in range(count):
            target = step[i].target
            cached, spent = self.cache[source] + step[i].adds, self.cost[source] + step[i].cost
            if self.cache[source] + step[i].need > self.budget or cached > self.max_cache:
                continue
            if cached < self.cache[target] or (cached == self.cache[target] and spent < self.cost[target]):
                self.cache[target], self.cost[target], self.parent[target] = cached, spent, <int>source
        return count + 1

    def chain(self):
        """Return the sets of the chain, without the empty set, as a list, or None if there is no chain."""
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
    """The minimum budget within which there is a chain, if it is below a known budget.

    A label is (cache, peak). The sets are visited once, in order of size; all steps from a set extend its labels.

    Cost: a relaxation for each label and step, 16 bytes for each label; usually few labels for each of the k sets.
    """
    cdef ChainSteps steps
    cdef readonly double budget
    cdef readonly Py_ssize_t current
    cdef vector[vector[ChainLabel]] front          # caches ascending, peaks descending

    def __init__(self, ChainSteps steps, int64_t budget):
        cdef ChainLabel label
        self.steps = steps
        self.budget = budget
        self.current = 0
        self.front.resize(steps.size)
        label.cached, label.peak = 0, 0
        self.front[0].push_back(label)

    def advance(self, int64_t work):
        """Run for about `work` relaxations; return True when finished."""
        cdef int64_t visits = self.steps.visits
        with nogil:
            while work > self.steps.visits - visits and self.current < self.steps.size - 1:
                work -= self.expand(self.current)
                self.current += 1
        return self.current >= self.steps.size - 1

    cdef int64_t expand(self, Py_ssize_t source) except -1 nogil:
        cdef Py_ssize_t i, count, n, j, at
        cdef const ChainStep* step
        cdef const ChainLabel* label
        cdef ChainLabel extended
        cdef vector[ChainLabel]* front = &self.front[source]
        while not front.empty() and front[0][0].peak >= self.budget:
            front.erase(front.begin())
        if front.empty():
            return 1
        n = front.size()
        label = front.data()
        # Only chains within a smaller budget than the known one are of interest.
        count = self.steps.of(source, self.budget - label[0].cached, INFINITY, &step)
        for i in range(count):
            at = 0
            for j in range(n):
                extended.cached = label[j].cached + step[i].adds
                extended.peak = label[j].cached + step[i].need
                if extended.peak >= self.budget:
                    break
                if extended.peak < label[j].peak:
                    extended.peak = label[j].peak
                if step[i].target == self.steps.size - 1:
                    self.budget = min(self.budget, extended.peak)
                else:
                    at = self.insert(self.front[step[i].target], extended, at)
                if extended.peak == label[j].cached + step[i].need:
                    # Later labels have a larger cache, so their peak after this step is not lower.
                    break
        vector[ChainLabel]().swap(front[0])
        return count * (1 + n // 2) + 1

    cdef inline Py_ssize_t insert(
        self, vector[ChainLabel]& front, const ChainLabel& label, Py_ssize_t at
    ) except -1 nogil:
        """Insert a label unless it is dominated; the labels before position `at` have no larger cache.

        Returns a position. Pass it as `at` if the next label has a cache that is at least as large.
        """
        cdef ChainLabel* other = front.data()
        cdef Py_ssize_t n = front.size(), until
        while at < n and other[at].cached <= label.cached:
            at += 1
        if at > 0 and other[at - 1].peak <= label.peak:
            return at
        if at > 0 and other[at - 1].cached == label.cached:
            at -= 1
        until = at
        while until < n and other[until].peak >= label.peak:
            until += 1
        if until == at:
            front.insert(front.begin() + at, label)
        else:
            other[at] = label
            front.erase(front.begin() + at + 1, front.begin() + until)
        return at
