"""Lower sets (down-sets, order ideals) of the forward part; chains and families of lower sets."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from remat_algos.arguments import as_list, check_fields, checked_arguments
from remat_algos.errors import ArgumentError, GraphError
from remat_algos.forks import cached_property
from remat_algos.ir.arrays import (
    Bool,
    Int32,
    Int64,
    as_array,
    as_whole,
    brief,
    by_fields,
    check_indptr,
    check_place,
    frozen,
    gather_rows,
    interval_sums,
    row_of,
    sealed,
    select_entries,
)
from remat_algos.ir.graph import ComputationGraph
from remat_algos.kernels import lower_sets as kernel
from remat_algos.structure import tuning
from remat_algos.wording import counted, one_line


class OnGraph(NamedTuple):
    """Properties of the nodes of a graph with respect to a chain of k lower sets.

    As in kusumoto2019, d+(S) is the set of successors, and d-(S) the set of predecessors, of the nodes in S.

    block : the first row whose set contains the node
    kept : True for nodes on a boundary
    successor_from : the first row i for which d+(L_i) contains the node, or k if there is none
    co_input_from : the first row i for which d-(d+(L_i)) contains the node, or k if there is none
    """

    block: Int32
    kept: Bool
    successor_from: Int32
    co_input_from: Int32


@dataclass(frozen=True, slots=True, eq=False)
class LowerSets:
    """An increasing chain of lower sets. A lower set contains all predecessors of its nodes.

    Parameters
    ----------
    words : uint64[k, ceil(n / 64)]
        Row i contains the bits of L_(i+1). Each row is a proper superset of the row before it.

    Examples
    --------
    A fork and a join::

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
        row = kernel.first_not_growing(words) if words.size else -1
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
        """Make a chain from ids or names. Raise GraphError if a set is not lower or the last set is incomplete."""
        rows: list[list[int]] = []
        for nodes in sets:
            rows.append([])
            for node in nodes:
                v = graph.node_id(node) if isinstance(node, str) else as_whole(node)
                if v is None:
                    raise GraphError("lower sets must be sets of ids or names of nodes; found {node!r}", node=node)
                rows[-1].append(v)
        members = np.zeros((len(rows), graph.n_nodes), np.uint8)
        for i, nodes in enumerate(rows):
            if nodes and not 0 <= min(nodes) <= max(nodes) < graph.n_nodes:
                raise GraphError(
                    "lower set {i} contains an unknown node; nodes are 0 to {last}", i=i, last=graph.n_nodes - 1
                )
            members[i, nodes] = 1
        chain = cls(kernel.pack_rows(members))
        chain.blocks(graph)
        return chain

    @checked_arguments
    def on(self, graph: ComputationGraph) -> OnGraph:
        """Return (cached) properties of the nodes of a graph. Raise GraphError if the chain does not fit the graph."""
        if not self._seen or self._seen[0][0] is not graph:
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
        law, node, source, block, kept, *crossings = kernel.chain_on_graph(
            self.words,
            pred_indptr=pred_indptr,
            pred=pred,
            forward=graph.forward.view(np.uint8),
            needed=graph.needed.view(np.uint8),
        )
        if law == kernel.NO_FORWARD_NODE:
            raise GraphError("a lower set contains {name}, which is not a forward node", name=graph.labels[node])
        if law == kernel.LEFT_OUT:
            raise GraphError(
                "no lower set contains {name}; the last one must be the whole forward part", name=graph.labels[node]
            )
        if law == kernel.NOT_LOWER:
            names = graph.labels[node], graph.labels[source]
            raise GraphError(
                "lower set {block:d} contains {name} but not {read}, which it reads",
                block=block[node],
                name=names[0],
                read=names[1],
            )
        return OnGraph(sealed(block), sealed(kept.view(np.bool_)), *map(sealed, crossings))

    def blocks(self, graph: ComputationGraph) -> Int32:
        """Return the index of the block V_i of each forward node, int32[n], from 0."""
        return self.on(graph).block

    def kept(self, graph: ComputationGraph) -> Bool:
        """Mark the nodes on a boundary, U_k, bool[n]."""
        return self.on(graph).kept

    def overhead(self, graph: ComputationGraph) -> int:
        """Return formula (1), T(V minus U_k): the last block is recomputed like the others."""
        block, kept, *_ = self.on(graph)
        return int(graph.compute[(block >= 0) & ~kept].sum())

    def peak(self, graph: ComputationGraph) -> int:
        """Return formula (2): the maximum over all blocks of the sum of `terms`."""
        return int(self.terms(graph).sum(axis=1).max(initial=0))

    @checked_arguments
    def terms(self, graph: ComputationGraph) -> Int64:
        """Return the terms of formula (2), int64[k, 4], one row per block.

        The columns are M(U_(i-1)), 2 M(V_i), M(d+(L_i) - L_i) and M(d-(d+(L_i)) - L_i). M is the total number of bytes.
        V_i is block i, U_i are the nodes that blocks 1 to i keep, d+ are successors and d- predecessors.

        References
        ----------
        kusumoto2019, section 3.

        Examples
        --------
        A fork and a join::

            0 -> 1 -> 3        L_1 = {0, 1}; its successors 2 and 3 are outside,
            0 -> 2 -> 3        and 3 also reads 2

        >>> graph = ComputationGraph.from_edges([(0, 1), (0, 2), (1, 3), (2, 3)])
        >>> LowerSets.of(graph, [[0, 1], [0, 1, 2, 3]]).terms(graph).tolist()
        [[0, 4, 2, 1], [2, 4, 0, 0]]
        """
        k, memory = len(self), graph.node_memory
        block, kept, successor_from, co_input_from = self.on(graph)
        inside = block >= 0
        return np.stack(
            [
                interval_sums(np.where(kept, block + 1, k), k, memory, k),
                interval_sums(np.where(inside, block, k), block + 1, 2 * memory, k),
                interval_sums(successor_from, block, memory, k),
                interval_sums(co_input_from, block, memory, k),
            ],
            axis=1,
        )

    def sets(self, graph: ComputationGraph) -> list[list[int]]:
        """Return the node ids of each lower set."""
        block = self.blocks(graph)
        return [np.flatnonzero((block >= 0) & (block <= i)).tolist() for i in range(len(self))]


def checked_words(words: ArrayLike) -> NDArray[np.uint64]:
    """Return a copy of the rows of 64-bit words; raise GraphError if the argument has another form."""
    rows = as_array(words, "words")
    if rows.ndim != 2 or rows.dtype.kind not in "ui" or (rows.dtype.kind == "i" and rows.min(initial=0) < 0):
        raise GraphError("lower sets must be rows of 64-bit words; make them with LowerSets.of(graph, sets)")
    return np.array(rows, np.uint64, order="C")


def single_boundary_chain(graph: ComputationGraph, *, unit: int = 1) -> LowerSets:
    """Return the chain of the square-root baseline of kusumoto2019 (section 5, Chen's algorithm), as in its code.

    The candidates are the lower sets L that consist of a node v and its ancestors and have the boundary {v}. Let c be
    the number of candidates, plus 2 for the empty set and V. The candidates are visited from small to large. A set is
    chosen whenever M(L) has passed another multiple of M(V) / sqrt(c). All numbers are rounded down, and sizes are
    counted in whole multiples of `unit` bytes.
    """
    part = np.flatnonzero(graph.forward & graph.needed)
    if not part.size:
        raise GraphError("the forward part is empty; there is no chain of lower sets")
    size = np.where(graph.forward & graph.needed, graph.node_memory // unit, 0)
    candidates = _single_boundaries(graph, part)
    step = max(1, int(size.sum()) // math.isqrt(len(candidates) + 2))
    cuts: list[int] = []
    passed = 1  # next multiple to pass
    for lower_set in candidates:
        n_bytes = int(size[_members(lower_set, graph.n_nodes)].sum())
        if n_bytes > passed * step and not (cuts and cuts[-1] & ~lower_set):
            passed = -(-n_bytes // step)
            cuts.append(lower_set)
    whole = sum(1 << v for v in part.tolist())
    rows = [_members(lower_set, graph.n_nodes) for lower_set in [*cuts, whole]]
    return LowerSets(kernel.pack_rows(np.array(rows, np.uint8)))


def _single_boundaries(graph: ComputationGraph, part: NDArray[np.int64]) -> list[int]:
    """Return, as bit masks, each set of a node v and its ancestors that has the boundary {v}; smallest set first."""
    indptr, source = graph.predecessors
    rows = {v: source[indptr[v] : indptr[v + 1]].tolist() for v in part.tolist()}
    readers = dict.fromkeys(rows, 0)
    for v, row in rows.items():
        for u in row:
            readers[u] |= 1 << v
    below = {v: 1 << v for v in rows}
    readers_below = dict.fromkeys(rows, 0)  # masks of ancestors' readers
    for v, row in rows.items():
        for u in row:
            below[v] |= below[u]
            readers_below[v] |= readers_below[u] | readers[u]
    lower_sets = [below[v] for v in rows if readers[v] and not readers_below[v] & ~below[v]]
    return sorted(lower_sets, key=lambda bits: (bits.bit_count(), bits))


def _members(bits: int, n: int) -> Bool:
    packed = np.frombuffer(bits.to_bytes((n + 7) // 8, "little"), np.uint8)
    return np.unpackbits(packed, count=n, bitorder="little").view(np.bool_)


FAMILIES = ("pruned", "wide", "exact")


@dataclass(frozen=True, eq=False)
class LowerSetFamily:
    """A family of lower sets of the needed forward part, sorted by size, from the empty set to the whole part.

    Parameters
    ----------
    graph : ComputationGraph
    nodes : int64[f]
        The needed forward nodes, in id order.
    words : uint64[k, ceil(f / 64)]
        Row i contains the bits of set i; bit j stands for `nodes[j]`.
    covers : (int64[k + 1], int32[c]), optional
        For each set, the rows of its supersets with one more node; None unless the family contains all lower sets.
    thinned : bool
        True if `max_sets` omitted some sets of the family.

    Examples
    --------
    A fork and a join::

        0 -> 1 -> 3
        0 -> 2 -> 3

    >>> graph = ComputationGraph.from_edges([(0, 1), (0, 2), (1, 3), (2, 3)])
    >>> lower_set_family(graph, "exact").sets()
    [[], [0], [0, 1], [0, 2], [0, 1, 2], [0, 1, 2, 3]]
    """

    graph: ComputationGraph
    nodes: Int64
    words: NDArray[np.uint64]
    covers: tuple[Int64, Int32] | None = None
    thinned: bool = False

    __reduce__ = by_fields

    def __post_init__(self) -> None:
        # Families built in this module skip these checks (`_unchecked`).
        check_fields(self)
        nodes = np.flatnonzero(self.graph.forward & self.graph.needed)
        if not np.array_equal(self.nodes, nodes):
            raise GraphError("`nodes` must be the needed forward nodes of the graph; call lower_set_family(graph)")
        words, given = checked_words(self.words), np.asarray(self.words).shape
        if words.shape[1] != max(1, -(-nodes.size // 64)) or not words.shape[0]:
            raise GraphError("lower sets of shape {given!w} do not fit {size:node}", given=given, size=nodes.size)
        sizes = np.bitwise_count(words).sum(axis=1, dtype=np.int64)
        whole = _beginnings(np.array([nodes.size]), nodes.size)
        if words[0].any() or (words[-1:] != whole).any() or (words & ~whole).any() or (np.diff(sizes) < 0).any():
            raise GraphError("a family must begin with the empty set, end with the whole part and be sorted by size")
        object.__setattr__(self, "nodes", sealed(nodes))
        object.__setattr__(self, "words", sealed(words))
        if self.covers is not None:
            pair = as_list(self.covers, "covers")
            if len(pair) != 2:
                raise GraphError("covers must be a pair of arrays; call lower_set_family(graph)")
            indptr, rows = frozen(pair[0], np.int64, "covers"), frozen(pair[1], np.int32, "covers")
            check_indptr(indptr, len(self), rows.size, "covers")
            at = row_of(indptr)
            inside = not rows.size or (0 <= rows.min() <= rows.max() < len(self))
            if not inside or (sizes[rows] != sizes[at] + 1).any() or (words[at] & ~words[rows]).any():
                raise GraphError("covers must list for each row the supersets with one more node")
            object.__setattr__(self, "covers", (indptr, rows))

    @classmethod
    def _unchecked(
        cls,
        graph: ComputationGraph,
        nodes: Int64,
        words: NDArray[np.uint64],
        covers: tuple[Int64, Int32] | None = None,
        thinned: bool = False,
    ) -> "LowerSetFamily":
        family = object.__new__(cls)
        covers = None if covers is None else (sealed(covers[0]), sealed(covers[1]))
        fields = {"graph": graph, "nodes": sealed(nodes), "words": sealed(words), "covers": covers, "thinned": thinned}
        for name, value in fields.items():
            object.__setattr__(family, name, value)
        return family

    def __len__(self) -> int:
        return int(self.words.shape[0])

    def __repr__(self) -> str:
        return one_line(self, f"{counted(len(self), 'lower set')} of {counted(self.nodes.size, 'node')}")

    def sets(self) -> list[list[int]]:
        """Return the node ids of each set."""
        return [self.nodes[members].tolist() for members in self._members(np.arange(len(self))).view(np.bool_)]

    @checked_arguments
    def chain(self, rows: Sequence[int]) -> LowerSets:
        """Return the chain of the sets in these rows, ascending, followed by the whole part.

        Raise GraphError for an unknown row.
        """
        rows = [check_place(place, len(self), "lower set") for place in rows]
        ascending = sorted({*rows, len(self) - 1} - {0}) if self.nodes.size else []
        return LowerSets(kernel.pack_rows(self._on_graph(self._members(np.array(ascending, np.int64)))))

    def subset(self, rows: Int64) -> "LowerSetFamily":
        """Return the subfamily of these rows. Raise GraphError unless they ascend from the first to the last row."""
        rows = frozen(rows, np.int64, "rows")
        last = len(self) - 1
        if not rows.size or rows[0] != 0 or rows[-1] != last or (np.diff(rows) <= 0).any():
            raise GraphError(
                "expected ascending rows of the family, from 0 to {last}, found {rows}", last=last, rows=rows.tolist()
            )
        if rows.size == len(self):
            return self
        return LowerSetFamily._unchecked(self.graph, self.nodes, self.words[rows], thinned=True)

    def on_graph(self) -> NDArray[np.uint64]:
        """Return the rows as uint64[k, ceil(n / 64)] in the form of `LowerSets.words`: bit v stands for node v."""
        return kernel.pack_rows(self._on_graph(self._members(np.arange(len(self)))))

    @cached_property
    def edges(self) -> tuple[Int64, Int32, Int64, Int32]:
        """Predecessors and successors of each node as positions, in CSR form."""
        return _edges(self.graph, self.nodes)

    @cached_property
    def pairs(self) -> tuple[Int64, Int32]:
        """(int64[k + 1], int32[p]): the rows of the proper supersets of each set; quadratic time and memory."""
        return kernel.superset_rows(self.words)

    def _members(self, rows: Int64) -> NDArray[np.uint8]:
        bits = np.unpackbits(self.words[rows].view(np.uint8), axis=1, bitorder="little")
        return bits[:, : self.nodes.size]

    def _on_graph(self, members: NDArray[np.uint8]) -> NDArray[np.uint8]:
        wide = np.zeros((members.shape[0], self.graph.n_nodes), np.uint8)
        wide[:, self.nodes] = members
        return wide


@checked_arguments
def lower_set_family(
    graph: ComputationGraph, family: str = "exact", *, cap: int = tuning.CAP, max_sets: int | None = None
) -> LowerSetFamily:
    """Build a family of lower sets.

    Parameters
    ----------
    graph : ComputationGraph
    family : {"exact", "wide", "pruned"}
        "exact": all lower sets. "pruned": for each node v, the set L_v of v and its ancestors. "wide": the sets of
        "pruned", the prefixes of the id order and, for each node v, the set of all nodes except v and its descendants.
        Each family contains the empty set and the whole part.
    cap : int
        Maximum number of sets of "exact"; their number can be exponential in the width of the graph.
    max_sets : int, optional
        Number of nodes v, evenly spread, for "pruned" and "wide"; by default all nodes.

    Returns
    -------
    LowerSetFamily

    Raises
    ------
    GraphError
        If there are more than `cap` lower sets, or the family is too large.
    ValueError
        If `family`, `cap` or `max_sets` is invalid.

    References
    ----------
    kusumoto2019, sections 4.2 and 4.3.

    Examples
    --------
    >>> graph = ComputationGraph.from_edges([(0, 1), (0, 2), (1, 3), (2, 3)])
    >>> [len(lower_set_family(graph, family)) for family in ("pruned", "wide", "exact")]
    [5, 6, 6]
    """
    if family not in FAMILIES:
        raise ArgumentError("family is {family!r}; use {families!w}", family=family, families=", ".join(FAMILIES))
    if not 1 <= cap < 2**31:
        raise ArgumentError("cap is {cap!r}; give a whole number of lower sets, from 1 to 2**31", cap=cap)
    if max_sets is not None and max_sets < 1:
        raise ArgumentError("max_sets is {max_sets!r}; give a whole number of lower sets, 1 or more", max_sets=max_sets)
    nodes = np.flatnonzero(graph.forward & graph.needed)
    if family == "exact":
        return _all(graph, nodes, cap)
    kinds, width = (1 if family == "pruned" else 3), nodes.size // 64 + 1
    chosen = spread(nodes.size, nodes.size)
    if max_sets is not None and kinds * nodes.size * width > tuning.WHOLE_WORDS:
        chosen = spread(nodes.size, max(1, max_sets // kinds))
    if kinds * chosen.size * width > tuning.MAX_WORDS:
        raise GraphError(
            "the family {family} of {size:node} is too large; give max_sets, such as 600",
            family=family,
            size=nodes.size,
        )
    sets = LowerSetFamily._unchecked(
        graph, nodes, _by_size(_few(graph, nodes, chosen, kinds)), thinned=chosen.size < nodes.size
    )
    return sets if max_sets is None or len(sets) <= max_sets else sets.subset(spread(len(sets), max_sets))


def spread(count: int, n: int) -> Int64:
    """Return at most `n` of the positions 0..`count` - 1, evenly spread, including the first and the last."""
    return np.unique(np.linspace(0, max(0, count - 1), min(n, count)).astype(np.int64))


def _few(graph: ComputationGraph, nodes: Int64, chosen: Int64, kinds: int) -> NDArray[np.uint64]:
    """Return {}, the whole part, and L_v for each chosen v; if `kinds` is 3, add the other sets of "wide"."""
    pred_indptr, pred, succ_indptr, succ = _edges(graph, nodes)
    below = kernel.closure_rows(pred_indptr, pred, chosen, False)
    ends = np.array([0, nodes.size])
    if kinds == 1:
        return np.concatenate([_beginnings(ends, nodes.size), below])
    beginnings = _beginnings(np.concatenate([ends, chosen + 1]), nodes.size)
    above = kernel.closure_rows(succ_indptr, succ, chosen, True)
    return np.concatenate([beginnings, below, beginnings[1] & ~above])


def _beginnings(lengths: Int64, n: int) -> NDArray[np.uint64]:
    members = np.arange(max(1, -(-n // 64)) * 64) < lengths[:, None]
    return np.packbits(members, axis=1, bitorder="little").view(np.uint64)


def _all(graph: ComputationGraph, nodes: Int64, cap: int) -> LowerSetFamily:
    words, indptr, covers = kernel.all_lower_sets(*_edges(graph, nodes), cap)
    if covers is None:
        reached = int(np.bitwise_count(words[-1]).sum())
        raise GraphError(
            "there are more than {cap:,} lower sets; the list, sorted by size, was stopped after {n_words:,} sets, at "
            "sets of {reached} of the {size:node}; use the family wide (approximate_dp, liveness_dp) or a larger cap",
            cap=cap,
            n_words=len(words),
            reached=reached,
            size=nodes.size,
        )
    return LowerSetFamily._unchecked(graph, nodes, words, (indptr, covers))


def _by_size(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    size = np.bitwise_count(words).sum(axis=1)
    order = np.lexsort((*words.T, size))
    rows = words[order]
    new = np.ones(len(rows), bool)
    new[1:] = (rows[1:] != rows[:-1]).any(axis=1)
    return rows[new]


def _edges(graph: ComputationGraph, nodes: Int64) -> tuple[Int64, Int32, Int64, Int32]:
    place = np.full(graph.n_nodes, -1, np.int32)
    place[nodes] = np.arange(nodes.size)
    return (*_rows(graph.predecessors, nodes, place), *_rows(graph.successors, nodes, place))


def _rows(csr: tuple[Int64, Int32], nodes: Int64, place: Int32) -> tuple[Int64, Int32]:
    indptr, indices = csr
    indptr, indices = gather_rows(indptr, place[indices], nodes)
    return select_entries(indptr, indices, indices >= 0)
