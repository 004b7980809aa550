"""The core of the simulator: lifetimes of instances, and the bytes live at each step."""

import numpy as np

from remat_algos.kernels.graph cimport GraphArrays
from remat_algos.kernels.types cimport Flags, Int32s, Int64s, int64_t

# Rules that a schedule may violate; the caller turns a violation into an error message.
cdef enum Law:
    unknown_node = 1
    not_computed
    run_twice
    never_computed
    keep_mark
    recompute_mark
    unknown_value
    unknown_step
    loaded_unmade
    loaded_output
    stored_unmade

UNKNOWN_NODE, RUN_TWICE, NEVER_COMPUTED = unknown_node, run_twice, never_computed
UNKNOWN_VALUE, UNKNOWN_STEP, LOADED_UNMADE, LOADED_OUTPUT = unknown_value, unknown_step, loaded_unmade, loaded_output
STORED_UNMADE = stored_unmade
KEEP_MARK, RECOMPUTE_MARK = keep_mark, recompute_mark


def instance_lifetimes(GraphArrays graph not None, Int32s order, const int[:, ::1] loads not None,
                       const int[:, ::1] lingering not None, const int[:, ::1] stores not None):
    """Return the instances of a schedule, the step at which each is freed, and the bytes live during each step.

    order : int32[m]; loads : int32[k, 2] rows (step, value), steps ascending
    lingering : int32[h, 3] rows (value, step, until): the instance that `step` creates stays live until step `until`
    stores : int32[s, 2] rows (step, value), steps ascending: the newest instance stays live at least until `step`
    The caller has checked the entries of `lingering` and `stores`. The instances of a step are those of its loads,
    followed by those of its node.
    Returns (law, step, about, instance_indptr int64[m + 1], value int32[instances], end int64[instances], trace
    int64[m]). `law` is 0 for a valid schedule. Otherwise `step` violates it, and `about` is the value or the node.
    Cost: O(n + m + k + reads and values of all runs) time, O(n_values + m + instances) memory.
    """
    cdef Int64s value_indptr = graph.value_indptr, read_indptr = graph.read_indptr, memory = graph.memory
    cdef Int32s read_indices = graph.read_indices
    cdef Flags output = graph.output
    cdef Py_ssize_t m = order.shape[0], n = graph.n_nodes, n_values = graph.n_values, step, j, i, n_instances = 0
    cdef Py_ssize_t k = loads.shape[0], row = 0, n_stores = stores.shape[0], store = 0
    cdef int64_t x
    cdef int v, law = 0
    cdef int64_t about = -1, live

    for step in range(m):
        if order[step] < 0 or order[step] >= n:
            return unknown_node, step, order[step], None, None, None, None
    for row in range(k):
        step, x = loads[row, 0], loads[row, 1]
        if x < 0 or x >= n_values:
            return unknown_value, step, x, None, None, None, None
        if step < 0 or step >= m:
            return unknown_step, step, x, None, None, None, None
        if output[x]:
            return loaded_output, step, x, None, None, None, None

    row = 0
    instance_indptr = np.empty(m + 1, np.int64)
    cdef int64_t[::1] indptr = instance_indptr
    with nogil:
        for step in range(m):
            indptr[step] = n_instances
            while row < k and loads[row, 0] == step:
                row += 1
                n_instances += 1
            v = order[step]
            n_instances += value_indptr[v + 1] - value_indptr[v]
        indptr[m] = n_instances

    value = np.empty(n_instances, np.int32)
    end = np.empty(n_instances, np.int64)
    trace = np.zeros(m + 1, np.int64)
    cdef int[::1] out_value = value
    cdef int64_t[::1] out_end = end
    cdef int64_t[::1] out_trace = trace
    # For each value, the instance that serves reads at this step.
    cdef int[::1] newest = np.full(n_values, -1, np.int32)
    row = 0
    with nogil:
        for step in range(m):
            v = order[step]
            i = indptr[step]
            while store < n_stores and stores[store, 0] == step:
                x = stores[store, 1]
                if newest[x] < 0:
                    law = stored_unmade
                    about = x
                    break
                out_end[newest[x]] = max(out_end[newest[x]], <int64_t>step)
                store += 1
            if law:
                break
            while row < k and loads[row, 0] == step:
                x = loads[row, 1]
                if newest[x] < 0:
                    law = loaded_unmade
                    about = x
                    break
                out_value[i] = <int>x
                out_end[i] = step + 1
                newest[x] = <int>i
                row += 1
                i += 1
            if law:
                break
            for j in range(read_indptr[v], read_indptr[v + 1]):
                x = read_indices[j]
                if newest[x] < 0:
                    law = not_computed
                    about = x
                    break
                out_end[newest[x]] = step + 1
            if law == 0 and graph.once[v] and newest[value_indptr[v]] >= 0:
                law = run_twice
                about = v
            if law:
                break
            for x in range(value_indptr[v], value_indptr[v + 1]):
                out_value[i] = <int>x
                out_end[i] = step + 1
                # The first instance of an output serves all reads.
                if not output[x] or newest[x] < 0:
                    newest[x] = <int>i
                i += 1
        if law == 0:
            step = m
            for x in range(n_values):
                if output[x]:
                    if newest[x] < 0:
                        law = never_computed
                        about = x
                        break
                    out_end[newest[x]] = m
    if law:
        return law, step, about, None, None, None, None
    for row in range(lingering.shape[0]):
        # If the step creates several instances of the value, the newest one stays in memory until the store ends.
        i = indptr[lingering[row, 1] + 1] - 1
        while i > indptr[lingering[row, 1]] and out_value[i] != lingering[row, 0]:
            i -= 1
        out_end[i] = max(out_end[i], <int64_t>lingering[row, 2])
    with nogil:
        for step in range(m):
            for i in range(indptr[step], indptr[step + 1]):
                out_trace[step] += memory[out_value[i]]
                out_trace[out_end[i]] -= memory[out_value[i]]
        live = 0
        for step in range(m):
            live += out_trace[step]
            out_trace[step] = live + graph.workspace[order[step]]
    return 0, -1, -1, instance_indptr, value, end, trace[:m]


def host_bytes(GraphArrays graph not None, Int32s order, const int[:, ::1] loads not None,
               const int[:, ::1] stores not None):
    """Return the bytes on the host during each step of a valid schedule, int64[m].

    A value is on the host from the step of its store (by default the step after its first run) to the first read after
    its last load, or to the step of this load if no read follows.
    order : int32[m]; loads, stores : int32[*, 2] rows (step, value), steps ascending
    Cost: O(n_values + m + k + reads and values of all runs) time, O(n_values + m) memory.
    """
    cdef Py_ssize_t m = order.shape[0], k = loads.shape[0], row, step, j
    cdef int64_t x, live = 0
    cdef int v
    trace = np.zeros(m + 1, np.int64)
    cdef int64_t[::1] change = trace
    # For each value: number of remaining loads (`to_come`); step of the last load if no read has followed it, else -1
    # (`awaited`); whether an instance exists; whether `stores` contains the value (`is_placed`).
    cdef int[::1] to_come = np.zeros(graph.n_values, np.int32)
    cdef int[::1] awaited = np.full(graph.n_values, -1, np.int32)
    cdef unsigned char[::1] exists = np.zeros(graph.n_values, np.uint8)
    cdef unsigned char[::1] is_placed = np.zeros(graph.n_values, np.uint8)
    for row in range(k):
        to_come[loads[row, 1]] += 1
    for row in range(stores.shape[0]):
        is_placed[stores[row, 1]] = 1
        change[stores[row, 0]] += graph.memory[stores[row, 1]]
    row = 0
    with nogil:
        for step in range(m):
            while row < k and loads[row, 0] == step:
                x = loads[row, 1]
                to_come[x] -= 1
                if to_come[x] == 0:
                    awaited[x] = <int>step
                row += 1
            v = order[step]
            for j in range(graph.read_indptr[v], graph.read_indptr[v + 1]):
                x = graph.read_indices[j]
                if awaited[x] >= 0:
                    change[step + 1] -= graph.memory[x]
                    awaited[x] = -1
            for x in range(graph.value_indptr[v], graph.value_indptr[v + 1]):
                # The value is recomputed before anything has read the loaded instance.
                if awaited[x] >= 0:
                    change[awaited[x] + 1] -= graph.memory[x]
                    awaited[x] = -1
                if to_come[x] and not exists[x] and not is_placed[x]:
                    change[step + 1] += graph.memory[x]
                exists[x] = 1
        for x in range(graph.n_values):
            if awaited[x] >= 0:
                change[awaited[x] + 1] -= graph.memory[x]
        for step in range(m):
            live += change[step]
            change[step] = live
    return trace[:m]


def broken_mark(GraphArrays graph not None, Int32s order, const signed char[::1] mark, Int32s owner):
    """Return the first step that violates a keep or recompute mark.

    order : int32[m], mark : int8[n], owner : int32[n]
    Returns (law, step, node); law is 0 if no step does.
    Cost: O(n + m + reads of all runs) time, O(n) memory.
    """
    cdef Py_ssize_t step, j
    cdef int v, u
    cdef int[::1] runs = np.zeros(graph.n_nodes, np.int32)
    for step in range(order.shape[0]):
        v = order[step]
        if mark[v] == 1 and runs[v] > 0:
            return keep_mark, step, v
        if owner[v] >= 0:
            for j in range(graph.read_indptr[v], graph.read_indptr[v + 1]):
                u = graph.producer[graph.read_indices[j]]
                if mark[u] == 2 and owner[u] < 0 and (runs[u] == 1 or graph.output[graph.read_indices[j]]):
                    return recompute_mark, step, u
        runs[v] += 1
    return 0, -1, -1


def serving_runs(GraphArrays graph not None, Int32s order):
    """Return flags of the runs that are the first run of their node, or whose values a later run reads: bool[m].

    The first instance of an output serves all reads of it.

    order : int32[m]
    Cost: O(n + m + reads and values of all runs) time, O(n + n_values + m) memory.
    """
    cdef Py_ssize_t m = order.shape[0], step, j
    cdef int64_t x
    cdef int v
    serving = np.zeros(m, np.uint8)
    cdef unsigned char[::1] stays = serving
    cdef unsigned char[::1] first = np.zeros(m, np.uint8), ran = np.zeros(graph.n_nodes, np.uint8)
    cdef unsigned char[::1] read = np.zeros(graph.n_values, np.uint8)
    with nogil:
        for step in range(m):
            v = order[step]
            first[step] = stays[step] = not ran[v]
            ran[v] = 1
        for step in range(m - 1, -1, -1):
            v = order[step]
            for x in range(graph.value_indptr[v], graph.value_indptr[v + 1]):
                stays[step] |= read[x] and not graph.output[x]
            if not stays[step]:
                continue
            for x in range(graph.value_indptr[v], graph.value_indptr[v + 1]):
                read[x] = read[x] and graph.output[x] and not first[step]
            for j in range(graph.read_indptr[v], graph.read_indptr[v + 1]):
                read[graph.read_indices[j]] = 1
    return serving.view(bool)
