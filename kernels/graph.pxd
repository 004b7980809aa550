# Declaration of the graph that kernels take as an argument; see graph.pyx.
from remat_algos.kernels.types cimport Flags, Int32s, Int64s

cdef class GraphArrays:
    cdef readonly Py_ssize_t n_nodes, n_values
    # CSR rows: the values that each node computes, the values that it reads, and the nodes that read each value.
    cdef Int64s value_indptr, read_indptr, reader_indptr
    cdef Int32s read_indices, reader_indices
    # Indexed by value: producer, memory, output. Indexed by node: compute, workspace, once, needed.
    cdef Int32s producer
    cdef Int64s memory
    cdef Int64s compute, workspace
    cdef Flags output
    cdef Flags once, needed
