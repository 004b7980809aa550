# The graph argument of kernels; see graph.pyx.
from remat_algos.kernels.types cimport Flags, Int32s, Int64s

cdef class GraphArrays:
    cdef readonly Py_ssize_t n_nodes, n_values
    # Rows of nodes, nodes and values; their entries are values, and nodes that read a value.
    cdef Int64s value_indptr, read_indptr, reader_indptr
    cdef Int32s read_indices, reader_indices
    # By value: producer, memory, output. By node: compute, workspace, once, needed.
    cdef Int32s producer
    cdef Int64s memory
    cdef Int64s compute, workspace
    cdef Flags output
    cdef Flags once, needed
