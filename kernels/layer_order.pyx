"""Layered drawings: orders of the items in each layer with few crossings, and positions close to given ones."""

import numpy as np

from libc.stdlib cimport free, malloc, qsort

from remat_algos.kernels.types cimport Int64s, int64_t

cdef enum:
    # Maximum number of rounds of exchanges in one layer.
    EXCHANGES = 8
    # Maximum number of passes of exchanges over all layers after each sweep.
    PASSES = 4
    # Maximum number of neighbours that are sorted by insertion instead of qsort.
    FEW = 32
    # Number of sweeps without improvement after which the search stops.
    PATIENCE = 20

cdef struct Wish:
    double key
    int64_t at, item


cdef int by_key(const void *a, const void *b) noexcept nogil:
    cdef const Wish *x = <const Wish *>a
    cdef const Wish *y = <const Wish *>b
    if x.key != y.key:
        return 1 if x.key > y.key else -1
    return 1 if x.at > y.at else -1


cdef int by_place(const void *a, const void *b) noexcept nogil:
    cdef int64_t x = (<const int64_t *>a)[0], y = (<const int64_t *>b)[0]
    return 1 if x > y else -1 if x < y else 0


cdef class Layers:
    """Items in layers, their order, and their neighbours above and below."""
    cdef Int64s row
    cdef int64_t[::1] item, place, tree
    cdef int64_t[::1] up_begin, up, up_at, down_begin, down, down_at
    cdef Py_ssize_t n, levels
    cdef int64_t work
    cdef Wish *wishes

    def __cinit__(self, Int64s row, Int64s order, Int64s above, Int64s below):
        self.n, self.levels, self.row = order.shape[0], row.shape[0] - 1, row
        check_layers(row, order, above, below)
        self.item = np.array(order)
        self.place = np.empty(self.n, np.int64)
        self.tree = np.zeros(self.n + 2, np.int64)
        self.up_begin, self.up = neighbours(below, above, self.n)
        self.down_begin, self.down = neighbours(above, below, self.n)
        self.up_at, self.down_at = np.empty(above.shape[0], np.int64), np.empty(above.shape[0], np.int64)
        self.wishes = <Wish *>malloc((self.n + 1) * sizeof(Wish))
        if self.wishes is NULL:
            raise MemoryError
        self.number()

    def __dealloc__(self):
        free(self.wishes)

    cdef void number(self) noexcept nogil:
        cdef Py_ssize_t i
        for i in range(self.n):
            self.place[self.item[i]] = i

    cdef void sort_places(self, int64_t v, bint upwards) noexcept nogil:
        """Sort the positions of an item's neighbours above (`upwards`) or below it."""
        cdef int64_t[::1] begin = self.up_begin if upwards else self.down_begin
        cdef int64_t[::1] near = self.up if upwards else self.down
        cdef int64_t[::1] at = self.up_at if upwards else self.down_at
        cdef int64_t j, k, x
        self.work += begin[v + 1] - begin[v]
        if begin[v + 1] - begin[v] > FEW:
            for j in range(begin[v], begin[v + 1]):
                at[j] = self.place[near[j]]
            qsort(&at[begin[v]], begin[v + 1] - begin[v], sizeof(int64_t), by_place)
            return
        for j in range(begin[v], begin[v + 1]):
            x = self.place[near[j]]
            k = j
            while k > begin[v] and at[k - 1] > x:
                at[k] = at[k - 1]
                k -= 1
            at[k] = x

    cdef int64_t count(self) noexcept nogil:
        """Return the number of crossings of lines in all layers."""
        cdef int64_t total = 0, v, j, k, first, wide
        cdef Py_ssize_t level, i
        for level in range(self.levels - 1):
            first, wide = self.row[level + 1], self.row[level + 2] - self.row[level + 1]
            self.tree[:wide + 1] = 0
            for i in range(self.row[level + 1] - 1, self.row[level] - 1, -1):
                v = self.item[i]
                for j in range(self.down_begin[v], self.down_begin[v + 1]):
                    # Count the lines that start to the right of this one and end to its left.
                    k = self.place[self.down[j]] - first
                    while k > 0:
                        total += self.tree[k]
                        k -= k & -k
                for j in range(self.down_begin[v], self.down_begin[v + 1]):
                    k = self.place[self.down[j]] - first + 1
                    while k <= wide:
                        self.tree[k] += 1
                        k += k & -k
                self.work += self.down_begin[v + 1] - self.down_begin[v]
        return total

    cdef int64_t degree(self, int64_t v) noexcept nogil:
        return self.up_begin[v + 1] - self.up_begin[v] + self.down_begin[v + 1] - self.down_begin[v]

    cdef int64_t gain(self, int64_t a, int64_t b) noexcept nogil:
        """Return the number of crossings with a before b, minus the number with b before a."""
        return (gain_of(self.up_at, self.up_begin[a], self.up_begin[a + 1], self.up_begin[b], self.up_begin[b + 1])
                + gain_of(self.down_at, self.down_begin[a], self.down_begin[a + 1],
                          self.down_begin[b], self.down_begin[b + 1]))

    cdef int64_t exchange(self, Py_ssize_t level, bint equal, int64_t max_work) noexcept nogil:
        """Exchange adjacent items of a layer while this removes crossings; return the number of removed crossings."""
        cdef int64_t removed = 0, before, gain, a, b
        cdef Py_ssize_t i, rounds
        for i in range(self.row[level], self.row[level + 1]):
            self.sort_places(self.item[i], True)
            self.sort_places(self.item[i], False)
        for rounds in range(EXCHANGES):
            before = removed
            for i in range(self.row[level], self.row[level + 1] - 1):
                a, b = self.item[i], self.item[i + 1]
                gain = self.gain(a, b)
                self.work += 1 + self.degree(a) + self.degree(b)
                if gain > 0 or equal and gain == 0 and rounds == 0:
                    self.item[i], self.item[i + 1] = b, a
                    self.place[a], self.place[b] = i + 1, i
                    removed += gain
                if self.work > max_work:
                    return removed
            if removed == before:
                break
        return removed

    cdef void arrange(self, Py_ssize_t level, bint upwards, bint by_mean) noexcept nogil:
        """Sort the items of a layer by the median or mean position of their neighbours, if they have any."""
        cdef int64_t[::1] begin = self.up_begin if upwards else self.down_begin
        cdef int64_t[::1] at = self.up_at if upwards else self.down_at
        cdef int64_t v, first, last, middle, left, right
        cdef Py_ssize_t i, k = 0, j
        cdef double key
        for i in range(self.row[level], self.row[level + 1]):
            v = self.item[i]
            self.sort_places(v, upwards)
            first, last = begin[v], begin[v + 1]
            if first == last:
                continue
            middle = (first + last) // 2
            if by_mean:
                key = 0
                for j in range(first, last):
                    key += at[j]
                key /= last - first
            elif (last - first) % 2:
                key = at[middle]
            elif last - first == 2:
                key = (at[first] + at[first + 1]) / 2.0
            else:
                # Mean of the two middle positions, weighted towards the side where the neighbours are closer together.
                left, right = at[middle - 1] - at[first], at[last - 1] - at[middle]
                key = (at[middle - 1] + at[middle]) / 2.0
                if left + right > 0:
                    key = (at[middle - 1] * <double>right + at[middle] * <double>left) / (left + right)
            self.wishes[k] = Wish(key, i, v)
            k += 1
        qsort(self.wishes, k, sizeof(Wish), by_key)
        k = 0
        for i in range(self.row[level], self.row[level + 1]):
            v = self.item[i]
            if begin[v] < begin[v + 1]:
                self.item[i] = self.wishes[k].item
                k += 1
        for i in range(self.row[level], self.row[level + 1]):
            self.place[self.item[i]] = i


cdef int64_t gain_of(int64_t[::1] at, int64_t a, int64_t a_end, int64_t b, int64_t b_end) noexcept nogil:
    """Return the number of pairs x > y minus that of pairs x < y, for x in at[a:a_end] and y in at[b:b_end]."""
    cdef int64_t gain = 0, below = b, until = b
    while a < a_end:
        while below < b_end and at[below] < at[a]:
            below += 1
        if until < below:
            until = below
        while until < b_end and at[until] == at[a]:
            until += 1
        gain += (below - b) - (b_end - until)
        a += 1
    return gain


def check_layers(row, order, above, below):
    """Raise ValueError unless each item is in one layer, and each line connects consecutive layers."""
    n, ends = len(order), np.asarray(row)
    if ends[0] != 0 or ends[len(ends) - 1] != n or np.any(np.diff(ends) < 0) or not np.array_equal(np.sort(order), np.arange(n)):
        raise ValueError("each of the n items stands once in order, and row ascends from 0 to n")
    if len(above) != len(below) or any(len(x) and not 0 <= np.min(x) <= np.max(x) < n for x in (above, below)):
        raise ValueError("a line has two items as its ends")
    level = np.empty(n, np.int64)
    level[np.asarray(order)] = np.repeat(np.arange(len(ends) - 1), np.diff(ends))
    if np.any(level[np.asarray(below)] != level[np.asarray(above)] + 1):
        raise ValueError("a line goes from an item of a layer to one of the next")


def neighbours(Int64s ends, Int64s others, Py_ssize_t n):
    """Return CSR rows (int64[n + 1], int64[k]): the other ends of the lines at each item."""
    begin = np.zeros(n + 1, np.int64)
    np.cumsum(np.bincount(ends, minlength=n), out=begin[1:])
    return begin, np.asarray(others)[np.argsort(ends, kind="stable")]


def crossings(Int64s row, Int64s order, Int64s above, Int64s below):
    """Return the number of crossings of straight lines between items in consecutive layers.

    row : int64[levels + 1], order : int64[n] the items of layer i are order[row[i]:row[i + 1]], from left to right
    above, below : int64[k] the ends of each line: an item in a layer, and an item in the next layer
    Cost: O(n + k log n) time, O(n + k) memory.
    """
    return Layers(row, order, above, below).count()


def reduce_crossings(Int64s row, Int64s order, Int64s above, Int64s below, Py_ssize_t sweeps, int64_t max_work):
    """Return an order of the items in each layer that has no more crossings than the given order.

    As in `dot` of Graphviz, sweeps down and up sort each layer by the medians or means of neighbours, then exchange
    adjacent items. The best order of all sweeps is returned.

    row, order, above, below : as in `crossings`
    sweeps : maximum number of sweeps over all layers; max_work : maximum number of visits of lines
    Returns int64[n].
    Cost: O(max_work + (n + k) log n) time, O(n + k) memory.
    """
    cdef Layers layers = Layers(row, order, above, below)
    cdef int64_t fewest = layers.count(), left, removed
    cdef Py_ssize_t sweep, level, idle = 0, passes
    cdef bint down
    best = np.array(order)
    cdef int64_t[::1] kept = best
    for sweep in range(sweeps):
        if fewest == 0 or layers.work > max_work or idle == PATIENCE:
            break
        with nogil:
            down = sweep % 2 == 0
            for level in range(1, layers.levels):
                layers.arrange(level if down else layers.levels - 1 - level, down, sweep // 2 % 2 == 1)
            for passes in range(PASSES):
                removed = 0
                for level in range(layers.levels):
                    removed += layers.exchange(
                        level if down else layers.levels - 1 - level, sweep // 4 % 2 == 1, max_work)
                if removed == 0 or layers.work > max_work:
                    break
            left = layers.count()
            idle += 1
            if left < fewest:
                fewest, idle = left, 0
                kept[:] = layers.item
    return best


def nearest_rising(const double[::1] wishes):
    """Return the nondecreasing sequence closest to `wishes` in least squares, float64[n] (pool adjacent violators).

    Cost: O(n) time and memory.
    """
    cdef Py_ssize_t n = wishes.shape[0], i, runs = 0, j, before, last
    rising = np.empty(n)
    cdef double[::1] out = rising, mean = np.empty(n)
    cdef int64_t[::1] begin = np.empty(n + 1, np.int64)
    with nogil:
        for i in range(n):
            begin[runs], mean[runs] = i, wishes[i]
            runs += 1
            begin[runs] = i + 1
            while runs > 1 and mean[runs - 2] >= mean[runs - 1]:
                before, last = begin[runs - 1] - begin[runs - 2], begin[runs] - begin[runs - 1]
                mean[runs - 2] = (mean[runs - 2] * before + mean[runs - 1] * last) / (before + last)
                begin[runs - 1] = begin[runs]
                runs -= 1
        for j in range(runs):
            for i in range(begin[j], begin[j + 1]):
                out[i] = mean[j]
    return rising
