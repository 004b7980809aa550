"""Between the framework and remat_algos: the graph of a tape, and what its nodes do. Copy this one."""

import zlib
from itertools import chain
from math import prod

import numpy as np

import remat_algos as ra


def graph_of(tape, inputs):
    """The tape as a graph: a node per operation, with one value; inputs are residents, there from the start."""
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
    """What the nodes of `graph_of` do. Nothing is kept from one call to the next but what is the framework's own."""

    def __init__(self, tape, inputs):
        self.tape, self.inputs = tape, inputs
        shapes = [[tape[v].shape for v in op.reads] + [inputs[name].shape for name in op.inputs] for op in tape]
        self.shapes, self.dtype = shapes, inputs["x"].dtype  # of what each operation reads

    def prepare(self, backend, graph):
        """The place to compile, and to refuse what cannot be run; nothing is measured yet."""
        if graph.n_nodes != len(self.tape) or backend.name != "numpy":
            raise ra.GraphError("these operators run the tape that they were made of, on NumPy")

    def residents(self, backend):
        """By id, as the graph has them."""
        return [array.reshape(-1).view(np.uint8) for array in self.inputs.values()]

    def run(self, node, reads, residents, values, workspace):
        """First all is computed, then it is written: in an arena `values[0]` may be one of `reads`."""
        arrays = (array.view(self.dtype) for array in (*reads, *residents))
        seen = [array.reshape(shape) for array, shape in zip(arrays, self.shapes[node], strict=True)]
        values[0].view(self.dtype)[...] = self.tape[node].function(*seen).reshape(-1)

    def checksum(self, array):
        """Of every bit."""
        return zlib.crc32(array)


def _rows(lists):
    """Lists behind one another, and where each begins."""
    lists = list(lists)
    return np.cumsum([0, *map(len, lists)]), np.array([*chain.from_iterable(lists)], np.int32)
