# The graph of graph.pyx for other kernels.
from remat_algos.kernels.types cimport Flags, Int32s, Int64s

cdef class GraphArrays:
    cdef readonly Py_ssize_t n_nodes, n_values
    cdef Int64s value_indptr, read_indptr, reader_indptr  # of nodes, nodes, values
    cdef Int32s read_indices, reader_indices              # values, nodes
    cdef Int32s producer                                  # of each value
    cdef Int64s memory                                    # of each value
    cdef Int64s compute, workspace                        # of each node
    cdef Flags output                                     # of each value
    cdef Flags once, needed                               # of each node
