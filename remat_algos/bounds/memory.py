"""Bytes that no schedule can go below."""

from typing import Any

import numpy as np

from remat_algos.ir.arrays import Bool, Int64
from remat_algos.ir.graph import ComputationGraph, derived
from remat_algos.kernels.closure import forced_bytes as forced_bytes_kernel

WORK = 200_000_000  # reads; about half a second


def least_peak_bound(graph: ComputationGraph) -> tuple[int, list[int]]:
    """The most bytes that every schedule has live while some needed node runs, and the nodes where it has.

    max over v of `forced_bytes`: v's working set, and what must wait until v has run.

    Examples
    --------
    >>> graph = ComputationGraph.from_edges([(0, 1), (0, 2), (1, 2)], memory=[4, 2, 1])
    >>> least_peak_bound(graph)
    (7, [2])
    """
    forced = forced_bytes(graph)
    bound = int(forced.max(initial=0))
    return bound, np.flatnonzero(graph.needed & (forced == bound)).tolist()


def forced_bytes(graph: ComputationGraph) -> Int64:
    """int64[n]: bytes that are live in every schedule while each needed node runs first; 0 of other nodes.

    These are workspace[v], what v reads, its own values, outputs of nodes that v needs, and of nodes that v needs
    and that run only once, the values that are read by nodes that need v: all have run before v, or will run after it,
    whatever the order and however often nodes run. Where there are very many outputs and nodes that run only once,
    those of the fewest bytes are not counted.

    Examples
    --------
    Node 1 needs node 0, whose value is an output: node 2 has it beside it.

        0 (4) -> 1 (2) -> 2 (1)

    >>> graph = ComputationGraph.from_edges([(0, 1), (1, 2)], memory=[4, 2, 1], output=[True, False, True])
    >>> forced_bytes(graph).tolist()
    [4, 6, 7]
    """
    return derived(graph, "forced_bytes", lambda: _forced(graph))


def runs_once(graph: ComputationGraph) -> Bool:
    """bool[n]: nodes that no schedule runs a second time: those that must not, and those marked to be kept."""
    return graph.once | (graph.mark == 1) if graph.mark is not None else graph.once


def moment_arrays(graph: ComputationGraph) -> tuple[Any, ...]:
    """The graph as the kernels of moments take it: CSR arrays, bytes, and which nodes and values are fixed."""
    return (
        graph.value_indptr,
        graph.read_indptr,
        graph.read_indices,
        *graph.readers,
        graph.producer,
        graph.memory,
        graph.workspace,
        graph.needed.view(np.uint8),
        runs_once(graph).view(np.uint8),
        graph.output.view(np.uint8),
    )


def _forced(graph: ComputationGraph) -> Int64:
    single = runs_once(graph)
    waits = graph.output | single[graph.producer]
    bytes_of = np.bincount(graph.producer, np.where(waits, graph.memory, 0), graph.n_nodes)
    is_read = np.zeros(graph.n_nodes, bool)
    is_read[graph.producer[graph.read_indices]] = True
    pins = np.flatnonzero(graph.needed & is_read & (bytes_of > 0))
    pins = pins[np.argsort(-bytes_of[pins], kind="stable")].astype(np.int32)
    return forced_bytes_kernel(
        *moment_arrays(graph),
        pins,
        WORK,
    )[0]
