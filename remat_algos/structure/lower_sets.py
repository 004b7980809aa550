"""Chains of lower sets of the forward part (kusumoto2019)."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from remat_algos.errors import GraphError
from remat_algos.ir.arrays import Bool, Int32
from remat_algos.ir.graph import ComputationGraph
from remat_algos.kernels import _lower_sets


@dataclass(frozen=True, slots=True, eq=False)
class LowerSets:
    """A growing chain of node sets, each closed under "what it reads".

    Parameters
    ----------
    words : uint64[k, ceil(n / 64)]
        Row i: the bits of L_(i+1); each row holds the one before and more.

    Examples
    --------
        0 -> 1 -> 3        lower set {0, 1, 2}
        0 -> 2 -> 3        boundary  {1, 2}

    >>> graph = ComputationGraph.from_edges([(0, 1), (0, 2), (1, 3), (2, 3)])
    >>> sets = LowerSets.of(graph, [[0, 1, 2], [0, 1, 2, 3]])
    >>> np.flatnonzero(sets.kept(graph)).tolist(), sets.overhead(graph), sets.peak(graph)
    ([1, 2], 2, 7)
    """

    words: NDArray[np.uint64]

    def __post_init__(self) -> None:
        words = np.ascontiguousarray(self.words, np.uint64)
        if words.ndim != 2:
            raise GraphError("lower sets are rows of words")
        row = _lower_sets.first_not_growing(words) if words.size else -1
        if row >= 0:
            raise GraphError(f"lower set {row} does not hold the one before it and more; sort them, drop equal ones")
        if words is self.words:
            words = words.copy()
        words.setflags(write=False)
        object.__setattr__(self, "words", words)

    def __len__(self) -> int:
        return int(self.words.shape[0])

    @classmethod
    def of(cls, graph: ComputationGraph, sets: Iterable[Iterable[int]]) -> "LowerSets":
        """From node ids; GraphError if a set is not lower, or the last does not hold the needed forward part."""
        rows = [list(nodes) for nodes in sets]
        members = np.zeros((len(rows), graph.n_nodes), np.uint8)
        for i, nodes in enumerate(rows):
            if nodes and not 0 <= min(nodes) <= max(nodes) < graph.n_nodes:
                raise GraphError(f"lower set {i} holds a node that is not there; nodes are 0 to {graph.n_nodes - 1}")
            members[i, nodes] = 1
        chain = cls(_lower_sets.pack(members))
        chain.blocks(graph)
        return chain

    def blocks(self, graph: ComputationGraph) -> Int32:
        """int32[n]: the block V_i of each forward node, from 0; checks that the chain fits the graph."""
        if self.words.shape[1] != (graph.n_nodes + 63) // 64:
            raise GraphError(f"lower sets of {self.words.shape[1]} words do not fit {graph.n_nodes} nodes")
        block = _lower_sets.blocks(self.words, graph.n_nodes)
        if ((block >= 0) & ~graph.forward).any():
            node = int(np.argmax((block >= 0) & ~graph.forward))
            raise GraphError(f"a lower set holds {graph.labels[node]}, which is no forward node")
        last = len(self)
        wanted = graph.forward & graph.needed
        if (wanted & (block < 0)).any():
            node = int(np.argmax(wanted & (block < 0)))
            raise GraphError(f"no lower set holds {graph.labels[node]}; the last one is the whole forward part")
        reader, source = _forward_edges(graph)
        outside = np.where(block < 0, last, block)
        wrong = outside[source] > outside[reader]
        if wrong.any():
            at = int(np.argmax(wrong))
            names = graph.labels[int(reader[at])], graph.labels[int(source[at])]
            raise GraphError(f"lower set {block[reader[at]]} holds {names[0]} but not {names[1]}, which it reads")
        return block

    def kept(self, graph: ComputationGraph) -> Bool:
        """bool[n]: U_k, the nodes on some boundary."""
        block = self.blocks(graph)
        reader, source = _forward_edges(graph)
        kept = np.zeros(graph.n_nodes, bool)
        kept[source[block[source] < block[reader]]] = True
        return kept

    def overhead(self, graph: ComputationGraph) -> int:
        """Formula (1): T(V minus U_k), the last block computed again like the others."""
        whole = self.blocks(graph) >= 0
        return int(graph.compute[whole & ~self.kept(graph)].sum())

    def peak(self, graph: ComputationGraph) -> int:
        """Formula (2): the greatest M(U_(i-1)) + 2 M(V_i) + M(d+(L_i) - L_i) + M(d-(d+(L_i)) - L_i)."""
        block, memory, kept = self.blocks(graph), graph.node_memory, self.kept(graph)
        reader, source = _forward_edges(graph)
        most = 0
        for i in range(len(self)):
            inside = (block >= 0) & (block <= i)
            after = np.zeros(graph.n_nodes, bool)
            after[reader[inside[source]]] = True
            beside = np.zeros(graph.n_nodes, bool)
            beside[source[after[reader]]] = True
            terms = (
                memory[kept & (block < i)].sum(),  # a node is on a boundary from its own block on
                2 * memory[block == i].sum(),
                memory[after & ~inside].sum(),
                memory[beside & ~inside].sum(),
            )
            most = max(most, int(sum(terms)))
        return most


def single_boundary_chain(graph: ComputationGraph, *, unit: int = 1) -> LowerSets:
    """The chain of the lower-set authors' square-root baseline.

    Of all lower sets whose boundary is one node, those at which M(L) passes a multiple of M(V) / k, for k the root of
    their number, rounded down; sizes are counted in whole `unit` bytes.

    References
    ----------
    kusumoto2019, section 5 (Chen's algorithm, as its authors ran it).
    """
    part = np.flatnonzero(graph.forward & graph.needed)
    if not part.size:
        raise GraphError("the forward part is empty; there is no chain of lower sets")
    size = np.where(graph.forward & graph.needed, graph.node_memory // unit, 0)
    chain = _single_boundaries(graph, part)
    whole = sum(1 << int(v) for v in part)
    k = math.isqrt(len(chain) + 2)
    cuts: list[int] = []
    passed = 0
    for lower_set in chain:
        held = int(size[_members(lower_set, graph.n_nodes)].sum())
        if lower_set != whole and held * k >= (passed + 1) * int(size.sum()) and not (cuts and cuts[-1] & ~lower_set):
            passed = held * k // max(1, int(size.sum()))
            cuts.append(lower_set)
    rows = [_members(lower_set, graph.n_nodes) for lower_set in [*cuts, whole]]
    return LowerSets(_lower_sets.pack(np.array(rows, np.uint8)))


def _single_boundaries(graph: ComputationGraph, part: NDArray[np.int64]) -> list[int]:
    """Lower sets {v and what it rests on} that only v connects with the rest, as bits of one integer, ascending."""
    indptr, source = graph.predecessors
    succ_indptr, succ = graph.successors
    wanted = graph.forward & graph.needed
    below: dict[int, int] = {}
    found = []
    for v in part.tolist():
        below[v] = 1 << v
        for u in source[indptr[v] : indptr[v + 1]].tolist():
            below[v] |= below[u]
    for v in part.tolist():
        inner = below[v] & ~(1 << v)
        readers = {
            w
            for u in np.flatnonzero(_members(inner, graph.n_nodes)).tolist()
            for w in succ[succ_indptr[u] : succ_indptr[u + 1]].tolist()
            if wanted[w]
        }
        if all(below[v] >> w & 1 for w in readers):
            found.append(below[v])
    return sorted(found, key=lambda bits: (bits.bit_count(), bits))


def _members(bits: int, n: int) -> Bool:
    packed = np.frombuffer(bits.to_bytes((n + 7) // 8, "little"), np.uint8)
    return np.unpackbits(packed, count=n, bitorder="little").view(np.bool_)


def _forward_edges(graph: ComputationGraph) -> tuple[Int32, Int32]:
    """(reader, source) of every edge between forward nodes."""
    indptr, source = graph.predecessors
    reader = np.repeat(np.arange(graph.n_nodes, dtype=np.int32), np.diff(indptr))
    inside = graph.forward[reader]
    return reader[inside], source[inside]
