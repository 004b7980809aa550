"""Chains of lower sets of the forward part (kusumoto2019)."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from remat_algos.arguments import checked_arguments
from remat_algos.errors import GraphError
from remat_algos.ir.arrays import Bool, Int32, Int64, as_array, as_whole, brief, by_fields, sealed
from remat_algos.ir.graph import ComputationGraph
from remat_algos.kernels.lower_sets import (
    LEFT_OUT,
    NO_FORWARD_NODE,
    NOT_LOWER,
    chain_on_graph,
    first_not_growing,
    pack_rows,
)


class OnGraph(NamedTuple):
    """A chain on the nodes of a graph.

    `block` is the first row whose set has the node, or -1; `kept` is True on a boundary. `successor_from` and
    `co_input_from` are the first rows i with the node in d+(L_i) and in d-(d+(L_i)), or k.
    """

    block: Int32
    kept: Bool
    successor_from: Int32
    co_input_from: Int32


@dataclass(frozen=True, slots=True, eq=False)
class LowerSets:
    """A growing chain of lower sets: sets of forward nodes that contain all nodes they read.

    Parameters
    ----------
    words : uint64[k, ceil(n / 64)]
        Row i: the bits of L_(i+1); each row is a proper superset of the one before.

    Examples
    --------
    A fork and a join:

        0 -> 1 -> 3        lower set {0, 1, 2}
        0 -> 2 -> 3        boundary  {1, 2}

    >>> graph = ComputationGraph.from_edges([(0, 1), (0, 2), (1, 3), (2, 3)])
    >>> sets = LowerSets.of(graph, [[0, 1, 2], [0, 1, 2, 3]])
    >>> np.flatnonzero(sets.kept(graph)).tolist(), sets.overhead(graph), sets.peak(graph)
    ([1, 2], 2, 7)
    """

    words: NDArray[np.uint64]
    _seen: list[tuple[ComputationGraph, OnGraph]] = field(init=False, repr=False, default_factory=list)

    __repr__ = brief
    __reduce__ = by_fields

    def __post_init__(self) -> None:
        words = checked_words(self.words)
        row = first_not_growing(words) if words.size else -1
        if row >= 0:
            raise GraphError(
                "lower set {row} is not a proper superset of the one before it; sort the sets and drop equal ones",
                row=row,
            )
        object.__setattr__(self, "words", sealed(words))

    def __len__(self) -> int:
        return int(self.words.shape[0])

    @classmethod
    @checked_arguments
    def of(cls, graph: ComputationGraph, sets: Iterable[Iterable[int | str]]) -> "LowerSets":
        """Make a chain from ids or names; GraphError unless sets are lower and the last is the needed forward part."""
        rows: list[list[int]] = []
        for nodes in sets:
            rows.append([])
            for node in nodes:
                v = graph.node_id(node) if isinstance(node, str) else as_whole(node)
                if v is None:
                    raise GraphError("lower sets are sets of ids or names of nodes, found {node!r}", node=node)
                rows[-1].append(v)
        members = np.zeros((len(rows), graph.n_nodes), np.uint8)
        for i, nodes in enumerate(rows):
            if nodes and not 0 <= min(nodes) <= max(nodes) < graph.n_nodes:
                raise GraphError(
                    "lower set {i} contains an unknown node; nodes are 0 to {last}", i=i, last=graph.n_nodes - 1
                )
            members[i, nodes] = 1
        chain = cls(pack_rows(members))
        chain.blocks(graph)
        return chain

    @checked_arguments
    def on(self, graph: ComputationGraph) -> OnGraph:
        """Blocks, kept nodes and crossings; GraphError if the chain does not fit the graph."""
        if not self._seen or self._seen[0][0] is not graph:  # most calls are for the same graph
            self._seen[:] = [(graph, self._fitted(graph))]
        return self._seen[0][1]

    def _fitted(self, graph: ComputationGraph) -> OnGraph:
        if self.words.shape[1] != (graph.n_nodes + 63) // 64:
            raise GraphError(
                "lower sets of {shape} words do not fit {n_nodes} nodes",
                shape=self.words.shape[1],
                n_nodes=graph.n_nodes,
            )
        pred_indptr, pred = graph.predecessors
        law, node, source, block, kept, *crossings = chain_on_graph(
            self.words,
            pred_indptr=pred_indptr,
            pred=pred,
            forward=graph.forward.view(np.uint8),
            needed=graph.needed.view(np.uint8),
        )
        if law == NO_FORWARD_NODE:
            raise GraphError("a lower set contains {name}, which is not a forward node", name=graph.labels[node])
        if law == LEFT_OUT:
            raise GraphError(
                "no lower set contains {name}; the last one must be the whole forward part", name=graph.labels[node]
            )
        if law == NOT_LOWER:
            names = graph.labels[node], graph.labels[source]
            raise GraphError(
                "lower set {block:d} contains {name} but not {read}, which it reads",
                block=block[node],
                name=names[0],
                read=names[1],
            )
        return OnGraph(sealed(block), sealed(kept.view(np.bool_)), *map(sealed, crossings))

    def blocks(self, graph: ComputationGraph) -> Int32:
        """int32[n]: the block V_i of each forward node, from 0; checks that the chain fits the graph."""
        return self.on(graph).block

    def kept(self, graph: ComputationGraph) -> Bool:
        """bool[n]: U_k, the nodes on some boundary."""
        return self.on(graph).kept

    def overhead(self, graph: ComputationGraph) -> int:
        """Formula (1): T(V minus U_k), the last block recomputed like the others."""
        block, kept, *_ = self.on(graph)
        return int(graph.compute[(block >= 0) & ~kept].sum())

    def peak(self, graph: ComputationGraph) -> int:
        """Formula (2): the maximum of M(U_(i-1)) + 2 M(V_i) + M(d+(L_i) - L_i) + M(d-(d+(L_i)) - L_i)."""
        return int(self.terms(graph).sum(axis=1).max(initial=0))

    @checked_arguments
    def terms(self, graph: ComputationGraph) -> Int64:
        """Terms of formula (2), a row for each block.

        Parameters
        ----------
        graph : ComputationGraph

        Returns
        -------
        int64[k, 4]
            (i) M(U_(i-1)), (ii) 2 M(V_i), (iii) M(d+(L_i) - L_i), (iv) M(d-(d+(L_i)) - L_i).

        References
        ----------
        kusumoto2019, section 3.

        Examples
        --------
        A fork and a join:

            0 -> 1 -> 3        L_1 = {0, 1}, whose successors 2 and 3 wait outside;
            0 -> 2 -> 3        3 reads 2 beside it

        >>> graph = ComputationGraph.from_edges([(0, 1), (0, 2), (1, 3), (2, 3)])
        >>> LowerSets.of(graph, [[0, 1], [0, 1, 2, 3]]).terms(graph).tolist()
        [[0, 4, 2, 1], [2, 4, 0, 0]]
        """
        k, memory = len(self), graph.node_memory
        block, kept, successor_from, co_input_from = self.on(graph)
        inside = block >= 0
        return np.stack(
            [
                _over_rows(memory, np.where(kept, block + 1, k), k, k),
                _over_rows(2 * memory, np.where(inside, block, k), block + 1, k),
                _over_rows(memory, successor_from, block, k),
                _over_rows(memory, co_input_from, block, k),
            ],
            axis=1,
        )

    def sets(self, graph: ComputationGraph) -> list[list[int]]:
        """Return the node ids of each lower set."""
        block = self.blocks(graph)
        return [np.flatnonzero((block >= 0) & (block <= i)).tolist() for i in range(len(self))]


def checked_words(words: ArrayLike) -> NDArray[np.uint64]:
    """Copy rows of 64-bit words; GraphError for anything else."""
    rows = as_array(words, "words")
    if rows.ndim != 2 or rows.dtype.kind not in "ui" or (rows.dtype.kind == "i" and rows.min(initial=0) < 0):
        raise GraphError("lower sets are rows of words of 64 bits; make them by LowerSets.of(graph, sets)")
    return np.array(rows, np.uint64, order="C")


def _over_rows(memory: Int64, begin: Int32, end: Int32 | int, k: int) -> Int64:
    """int64[k]: for each row i the bytes of the nodes with begin <= i < end."""
    counted = begin < end
    change = np.zeros(k + 1, np.int64)
    np.add.at(change, begin[counted], memory[counted])
    np.subtract.at(change, np.broadcast_to(end, begin.shape)[counted], memory[counted])
    return np.cumsum(change)[:k]


def single_boundary_chain(graph: ComputationGraph, *, unit: int = 1) -> LowerSets:
    """Return the chain of the square-root baseline as the authors of kusumoto2019 ran it (section 5, Chen's algorithm).

    Among the lower sets {v and its ancestors} with only v on the boundary, it takes those at which M(L) passes a
    multiple of M(V) / k, where k is the root of their number plus 2, for {} and V. Everything is rounded down, and
    sizes are counted in whole `unit` bytes. An empty forward part is a GraphError.

    Examples
    --------
    Six nodes of one byte: five boundaries, so two segments, and the first set to pass three bytes has four.

    >>> chain = ComputationGraph.from_edges([(i, i + 1) for i in range(5)])
    >>> single_boundary_chain(chain).sets(chain)
    [[0, 1, 2, 3], [0, 1, 2, 3, 4, 5]]
    """
    part = np.flatnonzero(graph.forward & graph.needed)
    if not part.size:
        raise GraphError("the forward part is empty; there is no chain of lower sets")
    size = np.where(graph.forward & graph.needed, graph.node_memory // unit, 0)
    candidates = _single_boundaries(graph, part)
    step = max(1, int(size.sum()) // math.isqrt(len(candidates) + 2))
    cuts: list[int] = []
    passed = 1  # the multiple of the step that M(L) has to pass
    for lower_set in candidates:
        n_bytes = int(size[_members(lower_set, graph.n_nodes)].sum())
        if n_bytes > passed * step and not (cuts and cuts[-1] & ~lower_set):
            passed = -(-n_bytes // step)
            cuts.append(lower_set)
    whole = sum(1 << v for v in part.tolist())
    rows = [_members(lower_set, graph.n_nodes) for lower_set in [*cuts, whole]]
    return LowerSets(pack_rows(np.array(rows, np.uint8)))


def _single_boundaries(graph: ComputationGraph, part: NDArray[np.int64]) -> list[int]:
    """Lower sets {v and its ancestors} with only v on the boundary, as bits of one integer, ascending."""
    indptr, source = graph.predecessors
    rows = {v: source[indptr[v] : indptr[v + 1]].tolist() for v in part.tolist()}
    readers = dict.fromkeys(rows, 0)
    for v, row in rows.items():
        for u in row:
            readers[u] |= 1 << v
    below = {v: 1 << v for v in rows}
    readers_below = dict.fromkeys(rows, 0)  # of the ancestors of v
    for v, row in rows.items():
        for u in row:
            below[v] |= below[u]
            readers_below[v] |= readers_below[u] | readers[u]
    lower_sets = [below[v] for v in rows if readers[v] and not readers_below[v] & ~below[v]]
    return sorted(lower_sets, key=lambda bits: (bits.bit_count(), bits))


def _members(bits: int, n: int) -> Bool:
    packed = np.frombuffer(bits.to_bytes((n + 7) // 8, "little"), np.uint8)
    return np.unpackbits(packed, count=n, bitorder="little").view(np.bool_)
