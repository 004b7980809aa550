# distutils: language = c++
"""Graphs as arrays: checks, derived rows, orders, depths, and the backward part.

Kernels take a graph as a `GraphArrays`. Rows are in CSR form: read_indptr : int64[n + 1] and read_indices : int32[k]
are the values that each node reads. producer : int32[n_values] is the node that computes each value.
"""

import numpy as np

cimport cython
from libcpp.queue cimport priority_queue
from remat_algos.kernels.growing cimport push
from remat_algos.kernels.types cimport Flags, Int32s, Int64s, int64_t


@cython.final
cdef class GraphArrays:
    """The arrays of a graph; the first argument of kernels that work on graphs.

    The constructor checks their lengths. The caller has checked that the ids are in range and in topological order.

    value_indptr : int64[n + 1], read_indptr : int64[n + 1], read_indices : int32[k] values, memory : int64[n_values],
    output : uint8[n_values]
    compute, workspace : int64[n], by default 0; once : uint8[n], by default 0; needed : uint8[n], by default computed
    from the outputs; readers : (int64[n_values + 1], int32[k] nodes, ascending), by default computed from the reads

    Raises ValueError if the lengths do not match.

    Cost: O(n + k) time; memory only for the arrays that are omitted, since arguments are not copied.
    """

    def __init__(self, *, Int64s value_indptr not None, Int64s read_indptr not None, Int32s read_indices not None,
                 Int64s memory not None, Flags output not None, compute=None, workspace=None, once=None, needed=None,
                 readers=None):
        cdef Py_ssize_t n = value_indptr.shape[0] - 1, n_values = memory.shape[0]
        self.n_nodes, self.n_values = n, n_values
        self.value_indptr, self.read_indptr, self.read_indices = value_indptr, read_indptr, read_indices
        self.memory, self.output = memory, output
        self.compute = np.zeros(n, np.int64) if compute is None else compute
        self.workspace = np.zeros(n, np.int64) if workspace is None else workspace
        self.once = np.zeros(n, np.uint8) if once is None else once
        if n < 0 or value_indptr[n] != n_values or read_indptr.shape[0] != n + 1 or (
            read_indptr[n] != read_indices.shape[0] or output.shape[0] != n_values
        ):
            raise ValueError("the rows of the graph do not go together")
        self.producer = np.repeat(np.arange(n, dtype=np.int32), np.diff(value_indptr))
        self.reader_indptr, self.reader_indices = (
            transpose_rows(read_indptr, read_indices, n_values) if readers is None else readers
        )
        if needed is None:
            needed = needed_nodes(value_indptr=value_indptr, read_indptr=read_indptr, read_indices=read_indices,
                                  producer=self.producer, output=output)
        self.needed = needed
        if not n == self.compute.shape[0] == self.workspace.shape[0] == self.once.shape[0] == self.needed.shape[0]:
            raise ValueError("the arrays of nodes differ in length")
        if self.reader_indptr.shape[0] != n_values + 1 or self.reader_indptr[n_values] != self.reader_indices.shape[0]:
            raise ValueError("the arrays of values differ in length")


def check_reads(Int64s read_indptr, Int32s read_indices, Int32s producer):
    """Return the first invalid read.

    read_indptr : int64[n + 1], read_indices : int32[k], producer : int32[n_values]
    Returns (code, node, value); codes: 0 no invalid read, 1 unknown value, 2 value read twice, 3 value computed by the
    node itself or a later one.
    Cost: O(n + k) time, O(n_values) memory.
    """
    cdef Py_ssize_t n = read_indptr.shape[0] - 1, v, j
    cdef int x, n_values = producer.shape[0]
    cdef int[::1] reader = np.full(n_values, -1, np.int32)
    for v in range(n):
        for j in range(read_indptr[v], read_indptr[v + 1]):
            x = read_indices[j]
            if x < 0 or x >= n_values:
                return 1, v, x
            if reader[x] == v:
                return 2, v, x
            if producer[x] >= v:
                return 3, v, x
            reader[x] = <int>v
    return 0, -1, -1


def transpose_rows(Int64s indptr, Int32s indices, Py_ssize_t n_columns):
    """Return the transpose of CSR rows, (int64[n_columns + 1], int32[k]), with ascending entries.

    Cost: O(n + n_columns + k) time and memory.
    """
    cdef Py_ssize_t n = indptr.shape[0] - 1, v, j
    cdef int x
    reverse_indptr = np.zeros(n_columns + 1, np.int64)
    reverse_indices = np.empty(indices.shape[0], np.int32)
    cdef int64_t[::1] at = reverse_indptr
    cdef int[::1] out = reverse_indices
    with nogil:
        for j in range(indices.shape[0]):
            at[indices[j] + 1] += 1
        for j in range(n_columns):
            at[j + 1] += at[j]
    cdef int64_t[::1] free = reverse_indptr[:n_columns].copy()
    with nogil:
        for v in range(n):
            for j in range(indptr[v], indptr[v + 1]):
                x = indices[j]
                out[free[x]] = <int>v
                free[x] += 1
    return reverse_indptr, reverse_indices


def predecessor_rows(Int64s read_indptr, Int32s read_indices, Int32s producer):
    """Return the predecessors of each node, without repetition, in order of first read: (int64[n + 1], int32[k]).

    Cost: O(n + k) time and memory.
    """
    cdef Py_ssize_t n = read_indptr.shape[0] - 1, v, j, filled = 0
    cdef int u
    pred_indptr = np.zeros(n + 1, np.int64)
    pred_indices = np.empty(read_indices.shape[0], np.int32)
    cdef int64_t[::1] indptr = pred_indptr
    cdef int[::1] out = pred_indices
    cdef int[::1] reader = np.full(n, -1, np.int32)
    with nogil:
        for v in range(n):
            for j in range(read_indptr[v], read_indptr[v + 1]):
                u = producer[read_indices[j]]
                if reader[u] != v:
                    reader[u] = <int>v
                    out[filled] = u
                    filled += 1
            indptr[v + 1] = filled
    return pred_indptr, pred_indices[:filled].copy()


def needed_nodes(*, Int64s value_indptr, Int64s read_indptr, Int32s read_indices, Int32s producer, Flags output):
    """Return flags of the nodes that some output depends on, uint8[n].

    Cost: O(n + k) time, O(n) memory.
    """
    cdef Py_ssize_t n = read_indptr.shape[0] - 1, v, j
    flags = np.zeros(n, np.uint8)
    cdef unsigned char[::1] out = flags
    with nogil:
        for v in range(n - 1, -1, -1):
            for j in range(value_indptr[v], value_indptr[v + 1]):
                if output[j]:
                    out[v] = 1
            if out[v]:
                for j in range(read_indptr[v], read_indptr[v + 1]):
                    out[producer[read_indices[j]]] = 1
    return flags


def depths(Int64s read_indptr, Int32s read_indices, Int32s producer):
    """Return the number of nodes on the longest path that ends at each node, int32[n].

    Cost: O(n + k) time, O(n) memory.
    """
    cdef Py_ssize_t n = read_indptr.shape[0] - 1, v, j
    cdef int u
    result = np.ones(n, np.int32)
    cdef int[::1] out = result
    with nogil:
        for v in range(n):
            for j in range(read_indptr[v], read_indptr[v + 1]):
                u = producer[read_indices[j]]
                if out[u] >= out[v]:
                    out[v] = out[u] + 1
    return result


def topological_order(Int64s succ_indptr, Int32s succ_indices):
    """Return the nodes in topological order, ties by smallest id: int32[n], or fewer if there is a cycle.

    Cost: O(n log n + k) time, O(n) memory.
    """
    cdef Py_ssize_t n = succ_indptr.shape[0] - 1, v, j, filled = 0
    cdef int w
    order = np.empty(n, np.int32)
    cdef int[::1] out = order
    cdef int[::1] waiting = np.zeros(n, np.int32)
    cdef priority_queue[int] ready
    with nogil:
        for j in range(succ_indices.shape[0]):
            waiting[succ_indices[j]] += 1
        for v in range(n):
            if waiting[v] == 0:
                push(ready, -<int>v)
        while not ready.empty():
            v = -ready.top()
            ready.pop()
            out[filled] = <int>v
            filled += 1
            for j in range(succ_indptr[v], succ_indptr[v + 1]):
                w = succ_indices[j]
                waiting[w] -= 1
                if waiting[w] == 0:
                    push(ready, -w)
    return order[:filled].copy()


# The nodes of a backward part. The target of a gradient is the value or parameter that it belongs to. Targets below
# n_values are values, the others are parameters. A seed is a gradient at which the backward part starts.

def backward_order(Int64s value_indptr, Int64s target_indptr, Int32s target_indices,
                   Flags seed):
    """Return the gradients of a backward part in order: readers from last to first, the targets of each in order.

    A reader is a forward node; its gradients are the gradients of the targets that it reads. A seed is the first
    gradient of its target.
    value_indptr, target_indptr : int64[n + 1]; target_indices : int32[t]; seed : uint8[n_targets], set for values only
    Returns (target, reader), int32[g] each; reader is -1 for a seed. Readers that lead to no seed are omitted.
    Cost: O(n + n_targets) time and memory.
    """
    cdef Py_ssize_t n = value_indptr.shape[0] - 1, v, j, filled = 0, n_max = target_indices.shape[0]
    cdef int x
    cdef bint leads
    for j in range(seed.shape[0]):
        n_max += seed[j]
    targets, readers = np.empty(n_max, np.int32), np.empty(n_max, np.int32)
    cdef int[::1] target = targets, reader = readers
    cdef unsigned char[::1] begun = np.zeros(seed.shape[0], np.uint8)
    with nogil:
        for v in range(n - 1, -1, -1):
            leads = False
            for j in range(value_indptr[v], value_indptr[v + 1]):
                # No gradient of this value has been emitted, because none of its readers leads to a seed.
                if seed[j] and not begun[j]:
                    target[filled], reader[filled], begun[j] = <int>j, -1, 1
                    filled += 1
                leads = leads or begun[j]
            if not leads:
                continue
            for j in range(target_indptr[v], target_indptr[v + 1]):
                x = target_indices[j]
                if seed[x] and not begun[x]:
                    target[filled], reader[filled] = x, -1
                    filled += 1
                target[filled], reader[filled], begun[x] = x, <int>v, 1
                filled += 1
    return targets[:filled].copy(), readers[:filled].copy()


def backward_reads(Int32s target, Int32s reader, *, Int64s value_indptr, Int64s saved_indptr, Int32s saved_indices,
                   Py_ssize_t n_targets):
    """Return the values that each gradient reads.

    A gradient with reader v reads the gradients of the values of v, the values that v saves, and the sum of the earlier
    gradients of its target. A seed reads the value of its target.
    target, reader : int32[g] from `backward_order`; value_indptr, saved_indptr : int64[n + 1]; saved_indices : int32[s]
    values; n_targets : number of values and parameters
    Returns (int64[g + 1], int32[k], last). Gradient i computes value n_values + i. last : int32[n_targets] is the
    gradient that completes the sum of each target, or -1.
    Cost: O(g + k) time; a first pass counts the reads, a second one stores them.
    """
    cdef Py_ssize_t size = target.shape[0], i, j, filled = 0
    cdef int n_values = <int>value_indptr[value_indptr.shape[0] - 1]
    cdef int w
    read_indptr, whole = np.zeros(size + 1, np.int64), np.full(n_targets, -1, np.int32)
    cdef int64_t[::1] indptr = read_indptr
    cdef int[::1] last = whole
    with nogil:
        for i in range(size):
            w = reader[i]
            indptr[i + 1] = indptr[i] + 1
            if w >= 0:
                indptr[i + 1] += saved_indptr[w + 1] - saved_indptr[w] - (last[target[i]] < 0)
                for j in range(value_indptr[w], value_indptr[w + 1]):
                    indptr[i + 1] += last[j] >= 0
            last[target[i]] = <int>i
    read_indices = np.empty(indptr[size], np.int32)
    cdef int[::1] out = read_indices
    last[:] = -1
    with nogil:
        for i in range(size):
            w = reader[i]
            if w < 0:
                out[filled] = target[i]
                filled += 1
            else:
                for j in range(value_indptr[w], value_indptr[w + 1]):
                    if last[j] >= 0:
                        out[filled] = n_values + last[j]
                        filled += 1
                for j in range(saved_indptr[w], saved_indptr[w + 1]):
                    out[filled] = saved_indices[j]
                    filled += 1
                if last[target[i]] >= 0:
                    out[filled] = n_values + last[target[i]]
                    filled += 1
            last[target[i]] = <int>i
    return read_indptr, read_indices, whole
