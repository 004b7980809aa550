"""Forward values that the backward part reads, and which of them must stay in memory when nodes are recomputed."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from remat_algos.errors import GraphError
from remat_algos.ir.arrays import Bool, Int32, Int64
from remat_algos.ir.csr import row_of
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.labels import RECOMPUTE
from remat_algos.kernels.graph import needed_nodes, transpose_rows
from remat_algos.structure.vertex_cut import UNCUTTABLE, minimum_vertex_cut


@dataclass(frozen=True, slots=True, eq=False)
class FeatureMaps:
    """The forward values that the backward part reads, and the nodes that may be recomputed for them.

    Outputs are pinned and stay in any case: they are not counted, and reading them is no reason to recompute.

    `recomputable`, bool[n], are the nodes that may be recomputed; `read_back`, bool[n_values], the feature maps:
    forward values that a needed backward node reads. `reader` and `value`, int32[k], are the reads of needed forward
    nodes, by ascending reader.

    Examples
    --------
    A heavy node, whose gradients read nothing, and three cheap ones.

    >>> from remat_algos.ir.differentiate import differentiate
    >>> chain = differentiate(ComputationGraph.from_edges([(0, 1), (1, 2), (2, 3)], memory=[2, 4, 4, 4]))
    >>> maps = FeatureMaps.of(chain, [False, True, True, True, False, False, False, False])
    >>> recomputed = maps.recomputed(maps.minimum_stash())
    >>> recomputed.tolist()[:4], maps.memory(maps.stashed(recomputed))
    ([False, True, True, True], 2)
    """

    graph: ComputationGraph
    recomputable: Bool
    read_back: Bool
    reader: Int32
    value: Int32

    @classmethod
    def of(cls, graph: ComputationGraph, recomputable: Any) -> "FeatureMaps":
        """The feature maps of a graph."""
        reader = row_of(graph.read_indptr, np.int32)
        counts = graph.needed[reader] & graph.forward[graph.producer[graph.read_indices]]
        counts &= ~graph.output[graph.read_indices]
        read_back = np.zeros(graph.n_values, bool)
        read_back[graph.read_indices[counts & ~graph.forward[reader]]] = True
        forward = counts & graph.forward[reader]
        return cls(graph, np.asarray(recomputable, bool), read_back, reader[forward], graph.read_indices[forward])

    @property
    def producer(self) -> Int32:
        """int32[k]: the node that computes the value of each read."""
        return self.graph.producer[self.value]

    def memory(self, values: Bool) -> int:
        """Bytes of some values."""
        return int(self.graph.memory[values].sum())

    def recomputed(self, allowed: Bool) -> Bool:
        """bool[n]: allowed nodes that a gradient needs, through allowed nodes only."""
        through = allowed[self.reader]
        indptr = np.searchsorted(self.reader[through], np.arange(self.graph.n_nodes + 1))
        indices, values = self.value[through], self.graph.value_indptr
        needed = needed_nodes(
            value_indptr=values,
            read_indptr=indptr,
            read_indices=indices,
            producer=self.graph.producer,
            output=self.read_back.view(np.uint8),
        )
        return needed.view(np.bool_) & allowed

    def stashed(self, recomputed: Bool) -> Bool:
        """bool[n_values]: values of first runs that a gradient or a recomputed node reads."""
        stashed = self.read_back & ~recomputed[self.graph.producer]
        stashed[self.value[recomputed[self.reader] & ~recomputed[self.producer]]] = True
        return stashed

    def minimum_stash(self) -> Bool:
        """bool[n]: nodes whose recomputation gives the minimum stash, the fewest among all such choices.

        The stash is a minimum cut of values between the kept nodes and the feature maps. The cut closest to the sinks
        recomputes only nodes that every choice with the minimum stash recomputes, so no such choice has less compute.
        """
        graph, n = self.graph, self.graph.n_nodes
        computed = np.flatnonzero((graph.forward & graph.needed)[graph.producer] & ~graph.output)
        through = self.recomputable[self.reader]
        weight = np.concatenate([np.full(n, UNCUTTABLE), graph.memory])
        if graph.mark is not None:
            weight[n:][(self.recomputable & (graph.mark == RECOMPUTE))[graph.producer]] = UNCUTTABLE
        cut = minimum_vertex_cut(
            np.concatenate([graph.producer[computed], n + self.value[through]]),
            np.concatenate([n + computed, self.reader[through]]),
            weight,
            np.flatnonzero(graph.forward & graph.needed & ~self.recomputable),
            n + np.flatnonzero(self.read_back),
        )
        if cut is None:
            raise GraphError("a kept node computes a value that must not be stashed; please report this graph")
        return cut.beyond[:n]

    @property
    def read_indptr(self) -> Int64:
        """int64[n + 1]: the reads of node v are the range read_indptr[v]:read_indptr[v + 1]."""
        return np.searchsorted(self.reader, np.arange(self.graph.n_nodes + 1))

    def readers(self) -> tuple[Int64, Int32]:
        """(int64[n_values + 1], int32[k]): forward nodes that read each value."""
        return transpose_rows(self.read_indptr, self.value, self.graph.n_values)


def lists(indptr: Int64, indices: Int32) -> list[list[int]]:
    """The rows of a sparse matrix (CSR) as lists."""
    entries = indices.tolist()
    return [entries[begin:end] for begin, end in pairwise(indptr.tolist())]
