"""The reduced graph for a search over sets of live values; it contains only needed nodes and useful values."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from remat_algos.forks import cached_property
from remat_algos.ir.arrays import Bool, Int32, Int64, gather_rows, indptr_of, row_of
from remat_algos.ir.graph import ComputationGraph, runs_once, updates_and_readers
from remat_algos.kernels.graph import GraphArrays


def useful_values(graph: ComputationGraph) -> Bool:
    """Mark the outputs and the values that a needed node reads, bool[n_values]."""
    read = graph.read_indices[graph.needed[row_of(graph.read_indptr)]]
    useful = graph.output.copy()
    useful[read] = True
    return useful


@dataclass(frozen=True, eq=False)
class LiveSetGraph:
    """The needed nodes and useful values of a graph, renumbered.

    `own` is the number of bytes that a run of each node allocates: all of its values, even unused ones, and its
    workspace. Row v of `spoiled` contains the nodes that must not run after node v.
    """

    value_indptr: Int64
    read_indptr: Int64
    read_indices: Int32
    memory: Int64
    own: Int64
    compute: Int64
    once: NDArray[np.uint8]
    output: NDArray[np.uint8]
    spoiled_indptr: Int64
    spoiled: Int32

    @cached_property
    def reads(self) -> list[list[int]]:
        return [self.read_indices[begin:end].tolist() for begin, end in pairwise(self.read_indptr.tolist())]

    @cached_property
    def values(self) -> list[range]:
        return [range(*ends) for ends in pairwise(self.value_indptr.tolist())]

    @cached_property
    def ancestors(self) -> list[set[int]]:
        ancestors, producer = list[set[int]](), row_of(self.value_indptr)
        for reads in self.reads:
            direct = set(producer[reads].tolist())
            ancestors.append(direct.union(*(ancestors[u] for u in direct)))
        return ancestors

    def start(self, limit: int, ceiling: int, *, lowest: bool = False) -> Any:
        from remat_algos.kernels.live_sets import LiveSetSearch

        arrays = GraphArrays(
            value_indptr=self.value_indptr,
            read_indptr=self.read_indptr,
            read_indices=self.read_indices,
            memory=self.memory,
            output=self.output,
            compute=self.compute,
            once=self.once,
        )
        spoiled = self.spoiled_indptr, self.spoiled
        return LiveSetSearch(arrays, self.own, *spoiled, limit=limit, ceiling=ceiling, lowest=lowest)


def live_set_graph(graph: ComputationGraph, nodes: Int32) -> LiveSetGraph:
    """Return the reduced graph with these nodes."""
    useful, place = useful_values(graph), np.full(graph.n_nodes, -1, np.int32)
    place[nodes] = np.arange(nodes.size)
    value = np.cumsum(useful) - 1
    read_indptr, read = gather_rows(graph.read_indptr, graph.read_indices, nodes)
    spoiled_indptr, spoiled = _readers_of_what_changes(graph, place, nodes.size)
    return LiveSetGraph(
        value_indptr=indptr_of(np.bincount(place[graph.producer[useful]], minlength=nodes.size)),
        read_indptr=read_indptr,
        read_indices=value[read].astype(np.int32),
        memory=graph.memory[useful],
        own=graph.node_memory[nodes] + graph.workspace[nodes],
        compute=graph.compute[nodes],
        once=runs_once(graph)[nodes].view(np.uint8),
        output=graph.output[useful].view(np.uint8),
        spoiled_indptr=spoiled_indptr,
        spoiled=spoiled,
    )


def _readers_of_what_changes(graph: ComputationGraph, place: Int32, n_nodes: int) -> tuple[Int64, Int32]:
    """For each update, list the nodes that read its parameter or state and so must not run after it, in CSR form."""
    update, reader = (place[nodes] for nodes in updates_and_readers(graph))
    needed = (update >= 0) & (reader >= 0)
    return indptr_of(np.bincount(update[needed], minlength=n_nodes)), np.ascontiguousarray(reader[needed])
