"""Connects the framework to remat_algos: the graph of a tape, and the functions of its nodes. Copy this file."""

import zlib
from itertools import chain
from math import prod

import numpy as np

import remat_algos as ra


def graph_of(tape, inputs):
    """Return the tape as a graph: each operation is a node with one value, and each input is a resident."""
    names = list(inputs)
    read_indptr, read_indices = _rows(operation.reads for operation in tape)
    resident = ra.ir.Resident(
        [array.nbytes for array in inputs.values()],
        [1 if name.startswith("W") else 0 for name in names],  # 0 input, 1 parameter, 2 state
        *_rows([names.index(name) for name in operation.inputs] for operation in tape),
        names,
    )
    return ra.ComputationGraph.from_arrays(
        read_indptr=read_indptr,
        read_indices=read_indices,
        memory=[prod(operation.shape) * inputs["x"].itemsize for operation in tape],
        compute=[operation.flops for operation in tape],
        forward_of=[operation.forward for operation in tape],
        resident=resident,
        labels=ra.ir.Labels([operation.name for operation in tape], ops=[operation.kind for operation in tape]),
    )


class TapeOperators:
    """Runs the nodes of `graph_of`. Between calls it keeps only the framework's own objects."""

    def __init__(self, tape, inputs):
        self.tape, self.inputs = tape, inputs
        # Shapes of the arrays that each operation reads.
        shapes = [[tape[v].shape for v in op.reads] + [inputs[name].shape for name in op.inputs] for op in tape]
        self.shapes, self.dtype = shapes, inputs["x"].dtype

    def prepare(self, backend, graph):
        """Compile here, and raise an error for graphs that cannot run; measurements start later."""
        if graph.n_nodes != len(self.tape) or backend.name != "numpy":
            raise ra.GraphError("these operators run only their own tape, on NumPy")

    def residents(self, backend):
        """Return the arrays of the residents, in the order of the graph."""
        return [array.reshape(-1).view(np.uint8) for array in self.inputs.values()]

    def run(self, node, reads, residents, values, workspace):
        """Compute everything before writing: in an arena `values[0]` may be one of `reads`."""
        arrays = (array.view(self.dtype) for array in (*reads, *residents))
        arguments = [array.reshape(shape) for array, shape in zip(arrays, self.shapes[node], strict=True)]
        values[0].view(self.dtype)[...] = self.tape[node].function(*arguments).reshape(-1)

    def checksum(self, array):
        """Return a checksum over every bit."""
        return zlib.crc32(array)


def _rows(lists):
    """Concatenate lists; return the start of each, and the entries."""
    lists = list(lists)
    return np.cumsum([0, *map(len, lists)]), np.array([*chain.from_iterable(lists)], np.int32)
