"""Store feature maps as one bit per element where one bit is enough for the gradients."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from remat_algos.arguments import checked_arguments
from remat_algos.errors import GraphError, about
from remat_algos.ir.arrays import Int32, Int64, group_rows, row_of
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.kinds import OperationKind, operation_kind
from remat_algos.ir.parts import Backward, Labels

BITS = 32
MASK, MASKED = "DropoutMask", "Dropout"


@checked_arguments
def encode(graph: ComputationGraph, *, bits: int = BITS) -> ComputationGraph:
    """Store feature maps as one bit per element where one bit is enough for the gradients.

    This is the method of echo2020 [1]_. For ReLU, it is the method of Gist [2]_.

    The gradient of a ReLU only needs to know where its output is positive. For ReLU6 and HardTanh, it needs to know
    where the output is not clipped. If no other gradient reads the output, the node stores these bits as an extra
    value, `relu:sign`, which its gradient reads instead. A ReLU before a convolution is unchanged, since the gradient
    of the convolution reads the whole output.

    A dropout mask is stored as one bit per element. All readers of the mask decode the bits; a recomputed dropout does
    so too.

    A node that reads bits has a workspace of the size of the decoded value. Compute is unchanged. Memory increases at a
    step only in two cases. In the first, the bits of a value are live together with the full value; they add 1/32 of
    its size, or 1/8 for a mask stored as bytes. In the second, the output of a ReLU is still live for a node that is
    recomputed later, while a gradient decodes the bits of the output.

    Parameters
    ----------
    graph : ComputationGraph
        A graph without a backward part. If it has no `backward`, gradients read everything and nothing changes.
    bits : int
        Bits per element of the original values: 32 for float32, 16 for float16.

    Returns
    -------
    ComputationGraph
        Ids of nodes are unchanged. If no gradient can use bits, for example because the graph is already encoded, the
        graph itself is returned.

    Raises
    ------
    GraphError
        If the graph already has a backward part, or `bits` is invalid.

    References
    ----------
    .. [1] echo2020, section V-B and algorithm 1.
    .. [2] For ReLU Gist (Jain et al., ISCA 2018), which echo2020 follows.

    Examples
    --------
    A ReLU before a pooling that stores the indices of its maxima: 13 bytes are kept instead of 400.

    >>> from remat_algos.ir.parts import Backward, Labels
    >>> kept = Backward([0, 0, 1, 1], [1], [400, 400, 100], [-1, -1, -1], [0, 0, 0])
    >>> labels = Labels(names=("conv", "relu", "pool"), ops=("Convolution", "ReLU", "MaxPooling"))
    >>> chain = ComputationGraph.from_edges([(0, 1), (1, 2)], [400, 400, 100], backward=kept, labels=labels)
    >>> encoded = encode(chain)
    >>> dict(zip(encoded.value_names(), encoded.memory.tolist()))
    {'conv': 400, 'relu': 400, 'relu:sign': 13, 'pool': 100}
    >>> encoded.backward.saved(1), encoded.backward.grad_workspace.tolist()
    ([2], [0, 400, 0])
    """
    if graph.forward_of is not None:
        raise GraphError("the graph already has a backward part; encode the original graph")
    if not 1 < bits <= 64:
        raise about(
            "element_bits",
            GraphError("an element has {bits!r} bits; give a number such as 32 (float32) or 16 (float16)", bits=bits),
        )
    if graph.backward is None or graph.labels.ops is None:
        return graph
    codes = Codes.of(graph, graph.backward, int(bits))
    return codes.written(graph, graph.backward) if len(codes) else graph


@dataclass(frozen=True, slots=True, eq=False)
class Codes:
    """Values to be stored as one bit per element instead of `bits` bits.

    The gradients of `nodes` (ascending) read bits instead of full values, and decode them into `decoded` bytes.
    Each value in `masks` is stored as bits, in `mask_memory` bytes.
    """

    nodes: Int64
    decoded: Int64
    masks: Int64
    mask_memory: Int64
    bits: int

    @classmethod
    def of(cls, graph: ComputationGraph, backward: Backward, bits: int) -> Codes:
        """Return the codes of all values that can be encoded."""
        kinds = [operation_kind(op) for op in graph.labels.ops or ()]
        masks: dict[int, int] = {}
        binarizable = set()
        for v, kind in enumerate(kinds):
            if kind is not None and kind.name in (MASK, MASKED):
                masks |= _masks(graph, backward, kinds, v, bits)
            elif kind is not None and kind.binarizable:
                binarizable.add(v)
        nodes = _one_bit_nodes(graph, backward, binarizable, bits)
        columns = [np.array([*a], np.int64) for a in (nodes, nodes.values(), masks, masks.values())]
        return cls(columns[0], columns[1], columns[2], columns[3], bits)

    def __len__(self) -> int:
        return len(self.nodes) + len(self.masks)

    def written(self, graph: ComputationGraph, backward: Backward) -> ComputationGraph:
        """Return the graph with these values encoded."""
        memory, workspace, grad_workspace = (a.copy() for a in (graph.memory, graph.workspace, backward.grad_workspace))
        readers, indptr = graph.readers[1], graph.readers[0]
        saver = row_of(backward.saved_indptr)
        for x, size in zip(self.masks.tolist(), self.mask_memory.tolist(), strict=True):
            for v in (int(graph.producer[x]), *readers[indptr[x] : indptr[x + 1]].tolist()):
                workspace[v] += memory[x]
            grad_workspace[saver[backward.saved_indices == x]] += memory[x]
            memory[x] = size
        grad_workspace[self.nodes] += self.decoded
        masked = replace(graph, memory=memory, workspace=workspace, backward=None, derivation=None)
        return self._with_signs(masked, replace(backward, grad_workspace=grad_workspace))

    def _with_signs(self, graph: ComputationGraph, backward: Backward) -> ComputationGraph:
        """Append a value of sign bits to each of `nodes`. Their gradients read these bits instead of full values."""
        ends = graph.value_indptr[self.nodes + 1]
        new = ends + np.arange(ends.size)
        saver = row_of(backward.saved_indptr)
        stays = ~np.isin(saver, self.nodes)
        owner = np.concatenate([saver[stays], self.nodes])
        saved = np.concatenate([_moved(backward.saved_indices[stays], ends), new]).astype(np.int32)
        saved_indptr, saved_indices = group_rows(owner, saved, graph.n_nodes)
        sizes = -(-graph.memory[graph.value_indptr[self.nodes]] // self.bits)
        return replace(
            graph,
            value_indptr=graph.value_indptr + np.searchsorted(self.nodes + 1, np.arange(graph.n_nodes + 1), "right"),
            read_indices=_moved(graph.read_indices, ends),
            memory=np.insert(graph.memory, ends, sizes),
            output=np.insert(graph.output, ends, False),
            backward=replace(
                backward,
                saved_indptr=saved_indptr,
                saved_indices=saved_indices,
                grad_memory=np.insert(backward.grad_memory, ends, -1),
            ),
            labels=_labels(graph, self.nodes, new, ends),
        )


def _one_bit_nodes(graph: ComputationGraph, backward: Backward, allowed: set[int], bits: int) -> dict[int, int]:
    """Return the allowed nodes whose gradients can read bits, ascending, with the bytes that each gradient decodes.

    Repeat until nothing changes: after one gradient stops reading a value, another may be its only reader.
    """
    # Number of gradients that read each value.
    saving = np.bincount(backward.saved_indices, minlength=graph.n_values)
    indptr, readers = graph.readers
    decoded: dict[int, int] = {}
    waiting = allowed
    while waiting:
        new = {v: size for v in waiting if v not in decoded and (size := _released(graph, backward, saving, v, bits))}
        decoded |= new
        gone = [x for v in new for x in backward.saved(v)]
        np.subtract.at(saving, np.array(gone, np.int64), 1)
        left = {x for x in gone if saving[x] == 1}
        waiting = {w for x in left for w in (int(graph.producer[x]), *readers[indptr[x] : indptr[x + 1]].tolist())}
        waiting &= allowed
    return dict(sorted(decoded.items()))


def _released(graph: ComputationGraph, backward: Backward, saving: Int64, node: int, bits: int) -> int:
    """Return the size of the largest value that is freed if the node's gradient reads bits, or 0 if none is freed."""
    first, reads, saved = int(graph.value_indptr[node]), graph.reads(node), backward.saved(node)
    if len(reads) != 1 or backward.grad_memory[reads[0]] < 0 or not {*saved} <= {first, *reads}:
        return 0
    released = max((int(graph.memory[x]) for x in saved if saving[x] == 1 and not graph.output[x]), default=0)
    return released if released > -(-int(graph.memory[first]) // bits) else 0


def _masks(
    graph: ComputationGraph, backward: Backward, kinds: list[OperationKind | None], node: int, bits: int
) -> dict[int, int]:
    """Return the size of each encoded mask of a node: a value that only dropouts read, or a dropout's extra value."""
    indptr, readers = graph.readers
    bytes_of, drawn = {}, getattr(kinds[node], "name", "") == MASK
    for x in graph.values(node)[0 if drawn else 1 :]:
        by = readers[indptr[x] : indptr[x + 1]].tolist()
        if drawn:
            fits = by and all(getattr(kinds[w], "name", "") == MASKED for w in by)
        else:
            fits, by = not by and x in backward.saved(node), [node]
        if fits and backward.grad_memory[x] < 0 and not graph.output[x]:
            size = max(-(-int(graph.memory[graph.value_indptr[w]]) // bits) for w in by)
            if size < graph.memory[x]:
                bytes_of[x] = size
    return bytes_of


def _moved(values: Int32, ends: Int64) -> Int32:
    """Return the new ids of `values` after one value is inserted at each position in `ends`."""
    return (values + np.searchsorted(ends, values, side="right")).astype(np.int32)


def _labels(graph: ComputationGraph, nodes: Int64, new: Int64, ends: Int64) -> Labels:
    labels = graph.labels
    old = np.array(sorted(labels.value_names), np.int32)
    names = {x: labels.value_names[k] for x, k in zip(_moved(old, ends).tolist(), old.tolist(), strict=True)}
    used = {*graph.value_names(), *graph.node_names(), *graph.resident_names, *labels.views}
    for v, x in zip(nodes.tolist(), new.tolist(), strict=True):
        name = f"{labels[v]}:{'sign' if _is_relu(labels.op(v)) else 'inside'}"
        if name not in used:
            names[x] = name
    return replace(labels, value_names=names)


def _is_relu(op: str) -> bool:
    kind = operation_kind(op)
    return kind is not None and kind.name == "ReLU"


def n_encoded(graph: ComputationGraph, bits: int) -> int:
    """Return the number of feature maps that `encode` would store as bits."""
    if graph.backward is None or graph.labels.ops is None:
        return 0
    return len(Codes.of(graph, graph.backward, bits))
