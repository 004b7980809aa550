"""A boundary node between the forward part and the backward part of a graph."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from remat_algos.arguments import as_list, checked_arguments
from remat_algos.errors import GraphError
from remat_algos.ir.arrays import Bool, Int64, as_whole, gather_rows, indptr_of, join_rows, row_of
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.parts import INPUT, Labels, Resident

NAME = "boundary"


@checked_arguments
def add_boundary(graph: ComputationGraph, readers: Sequence[int] | ArrayLike | None = None) -> ComputationGraph:
    """Add a node that orders all forward outputs before every node that reads a gradient from outside the graph.

    A framework calls the forward part, returns its outputs, and calls the backward part with their gradients. So a
    backward node that reads such a gradient must run after all nodes that compute forward outputs. The node "boundary"
    enforces this. It reads all forward outputs, and each of the `readers` reads it. It runs only once, takes no memory
    and costs nothing. It is the first node of the backward part, but not the gradient of a forward node. The new order
    of ids is: forward nodes, the boundary, the other backward nodes. Otherwise the order is unchanged.

    Parameters
    ----------
    graph : ComputationGraph
        A graph with a backward part.
    readers : sequence of int, optional
        Backward nodes that read a gradient from outside. By default, all backward nodes that read an input which the
        forward part does not read.

    Returns
    -------
    ComputationGraph

    Raises
    ------
    GraphError
        If the graph has no backward part, or no backward node reads a gradient from outside.

    Examples
    --------
    Nodes 1 and 2 are outputs. Without the boundary, node 3, which reads the gradient of node 1, could run before 2.

    >>> reads, output = {"read_indptr": [0, 0, 1, 2, 3], "read_indices": [0, 0, 0]}, [False, True, True, True]
    >>> graph = ComputationGraph.from_arrays(**reads, output=output, forward_of=[-1, -1, -1, 0])
    >>> cut = add_boundary(graph, [3])
    >>> cut.labels[3], cut.reads(3), cut.reads(4)
    ('boundary', [1, 2], [0, 3])
    """
    if graph.forward_of is None:
        raise GraphError("the graph has no backward part; a boundary separates the two parts")
    n, x = graph.n_nodes, graph.n_values
    reader = _tangent_readers(graph) if readers is None else _checked(graph, readers)
    outputs = np.flatnonzero(graph.output & graph.forward[graph.producer])
    order: Int64 = np.concatenate([np.flatnonzero(graph.forward), [n], np.flatnonzero(~graph.forward)])
    place = np.argsort(order)
    indptr, indices = join_rows(
        np.append(graph.read_indptr, graph.read_indptr[-1] + outputs.size),
        np.append(graph.read_indices, outputs).astype(np.int32),
        indptr_of(np.append(reader, False)),
        np.full(int(reader.sum()), x, np.int32),
    )
    indptr, indices = gather_rows(indptr, indices, order)
    value_indptr, value = gather_rows(np.append(graph.value_indptr, x + 1), np.arange(x + 1), order)
    value_place = np.argsort(value)
    owner = np.append(graph.forward_of, -2)[order]
    resident = graph.resident
    if resident is not None:
        rows = gather_rows(np.append(resident.read_indptr, resident.read_indptr[-1]), resident.read_indices, order)
        resident = Resident(resident.memory, resident.role, *rows, resident.names)
    return ComputationGraph.from_arrays(
        value_indptr=value_indptr,
        read_indptr=indptr,
        read_indices=value_place[indices],
        memory=np.append(graph.memory, 0)[value],
        compute=np.append(graph.compute, 0)[order],
        workspace=np.append(graph.workspace, 0)[order],
        once=np.append(graph.once, True)[order],
        output=np.append(graph.output, False)[value],
        forward_of=np.where(owner >= 0, place[owner], owner),
        resident=resident,
        mark=None if graph.mark is None else np.append(graph.mark, 0)[order],
        labels=_labels(graph, order, value_place),
    )


def _tangent_readers(graph: ComputationGraph) -> Bool:
    """Return bool[n]: True for nodes that read an input which the forward part does not read."""
    reads_tangent = np.zeros(graph.n_nodes, bool)
    if graph.resident is not None:
        reader, read = row_of(graph.resident.read_indptr), graph.resident.read_indices
        tangent = graph.resident.role == INPUT
        tangent[read[graph.forward[reader]]] = False
        reads_tangent[reader[tangent[read]]] = True
    if not reads_tangent.any():
        raise GraphError("no backward node reads an input that no forward node reads; give readers yourself")
    return reads_tangent


def _checked(graph: ComputationGraph, readers: Sequence[int] | ArrayLike) -> Bool:
    reads_tangent = np.zeros(graph.n_nodes, bool)
    for reader in as_list(readers, "readers"):
        node = graph.node_id(reader) if isinstance(reader, str) else as_whole(reader)
        if node is None or not 0 <= node < graph.n_nodes or graph.forward[node]:
            raise GraphError("{reader!r} is not a backward node; give ids of nodes that read a gradient", reader=reader)
        reads_tangent[node] = True
    if not reads_tangent.any():
        raise GraphError("readers is empty; omit it, or give ids of nodes that read a gradient")
    return reads_tangent


def _labels(graph: ComputationGraph, order: Int64, value_place: Int64) -> Labels:
    labels, used = graph.labels, {*graph.node_names(), *graph.value_names(), *graph.resident_names}
    name = next(name for k in range(len(used) + 1) if (name := f"{NAME}{k or ''}") not in used)
    names = [*graph.node_names(), name]
    return replace(
        labels,
        names=tuple(names[v] for v in order.tolist()),
        value_names={int(value_place[x]): name for x, name in labels.value_names.items()},
        ops=None if labels.ops is None else tuple([*labels.ops, ""][v] for v in order.tolist()),
    )
