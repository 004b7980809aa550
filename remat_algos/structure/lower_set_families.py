"""Families of lower sets from which chains are chosen (kusumoto2019): exact, pruned and wide."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from remat_algos.arguments import as_list, check_fields, checked_arguments
from remat_algos.errors import ArgumentError, GraphError
from remat_algos.forks import cached_property
from remat_algos.ir.arrays import (
    Int32,
    Int64,
    by_fields,
    check_indptr,
    check_place,
    frozen,
    gather_rows,
    row_of,
    sealed,
    select_entries,
)
from remat_algos.ir.graph import ComputationGraph
from remat_algos.kernels.lower_sets import all_lower_sets, closure_rows, pack_rows, superset_rows
from remat_algos.structure.lower_sets import LowerSets, checked_words
from remat_algos.wording import counted, one_line

FAMILIES = ("pruned", "wide", "exact")
CAP = 1_000_000  # lower sets of the exact family
WORDS = 2**22  # bit words, 32 MiB: smaller families are built whole, then thinned
MAX_WORDS = 2**27  # bit words, 1 GiB: maximum for any family


@dataclass(frozen=True, eq=False)
class LowerSetFamily:
    """Lower sets of the needed forward part by size, from the empty set to the whole part.

    Parameters
    ----------
    graph : ComputationGraph
    nodes : int64[f]
        The needed forward nodes, in id order.
    words : uint64[k, ceil(f / 64)]
        Row i: the bits of the i-th set; bit j stands for `nodes[j]`.
    covers : (int64[k + 1], int32[c]), optional
        For each row, the rows with one more node; None if some lower sets are left out.
    thinned : bool
        True if `max_sets` left out some sets of the family.

    Examples
    --------
    A fork and a join:

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
        # families built by this module skip these checks
        check_fields(self)
        nodes = np.flatnonzero(self.graph.forward & self.graph.needed)
        if not np.array_equal(self.nodes, nodes):
            raise GraphError("nodes are not the needed forward nodes of the graph; call lower_set_family(graph)")
        words, given = checked_words(self.words), np.asarray(self.words).shape
        if words.shape[1] != max(1, -(-nodes.size // 64)) or not words.shape[0]:
            raise GraphError("lower sets of shape {given!w} do not fit {size:node}", given=given, size=nodes.size)
        sizes = np.bitwise_count(words).sum(axis=1, dtype=np.int64)
        whole = _beginnings(np.array([nodes.size]), nodes.size)
        if words[0].any() or (words[-1:] != whole).any() or (words & ~whole).any() or (np.diff(sizes) < 0).any():
            raise GraphError("a family begins with the empty set, ends with the whole part, and is sorted by size")
        object.__setattr__(self, "nodes", sealed(nodes))
        object.__setattr__(self, "words", sealed(words))
        if self.covers is not None:
            pair = as_list(self.covers, "covers")
            if len(pair) != 2:
                raise GraphError("covers is a pair of arrays; call lower_set_family(graph)")
            indptr, rows = frozen(pair[0], np.int64, "covers"), frozen(pair[1], np.int32, "covers")
            check_indptr(indptr, len(self), rows.size, "covers")
            at = row_of(indptr)
            inside = not rows.size or (0 <= rows.min() <= rows.max() < len(self))
            if not inside or (sizes[rows] != sizes[at] + 1).any() or (words[at] & ~words[rows]).any():
                raise GraphError("covers must name for each row the rows that contain it and one node more")
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
        """Make a family without checking or copying the arrays."""
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
        """Return the chain of these rows, ascending; the whole part ends every chain.

        Raises GraphError for an unknown row.
        """
        rows = [check_place(place, len(self), "lower set") for place in rows]
        wanted = sorted({*rows, len(self) - 1} - {0}) if self.nodes.size else []
        return LowerSets(pack_rows(self._on_graph(self._members(np.array(wanted, np.int64)))))

    def subset(self, rows: Int64) -> "LowerSetFamily":
        """Return the family of these rows, ascending, with the first and the last; GraphError for other rows."""
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
        """uint64[k, ceil(n / 64)]: the rows in the form of `LowerSets.words`; bit v stands for node v."""
        return pack_rows(self._on_graph(self._members(np.arange(len(self)))))

    @cached_property
    def edges(self) -> tuple[Int64, Int32, Int64, Int32]:
        """Predecessors and successors of each place, as CSR rows of places."""
        return _edges(self.graph, self.nodes)

    @cached_property
    def pairs(self) -> tuple[Int64, Int32]:
        """(int64[k + 1], int32[p]): the proper supersets of each row; for families of some thousand sets."""
        return superset_rows(self.words)

    def _members(self, rows: Int64) -> NDArray[np.uint8]:
        bits = np.unpackbits(self.words[rows].view(np.uint8), axis=1, bitorder="little")
        return bits[:, : self.nodes.size]

    def _on_graph(self, members: NDArray[np.uint8]) -> NDArray[np.uint8]:
        wide = np.zeros((members.shape[0], self.graph.n_nodes), np.uint8)
        wide[:, self.nodes] = members
        return wide


@checked_arguments
def lower_set_family(
    graph: ComputationGraph, family: str = "exact", *, cap: int = CAP, max_sets: int | None = None
) -> LowerSetFamily:
    """Build a family of lower sets.

    Parameters
    ----------
    graph : ComputationGraph
    family : {"exact", "wide", "pruned"}
        "exact": all lower sets. "pruned": those of single nodes, L_v = v with its ancestors. "wide": these, the
        prefixes of the id order, and all without v and its descendants. All have the empty set and the whole part.
    cap : int
        Maximum number of sets that "exact" may list; their number can be exponential in the width of the graph.
    max_sets : int, optional
        Number of nodes of which "pruned" and "wide" make sets, evenly spread; by default all.

    Returns
    -------
    LowerSetFamily

    Raises
    ------
    GraphError
        If there are more lower sets than the cap, or the family is too large for the memory.
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
    if max_sets is not None and kinds * nodes.size * width > WORDS:
        chosen = spread(nodes.size, max(1, max_sets // kinds))
    if kinds * chosen.size * width > MAX_WORDS:
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
    """At most `n` of `count` places, evenly spread, with the first and the last."""
    return np.unique(np.linspace(0, max(0, count - 1), min(n, count)).astype(np.int64))


def _few(graph: ComputationGraph, nodes: Int64, chosen: Int64, kinds: int) -> NDArray[np.uint64]:
    """{}, all, and L_v of each chosen v; with 3 kinds also prefixes of the id order, and all but v's descendants."""
    pred_indptr, pred, succ_indptr, succ = _edges(graph, nodes)
    below = closure_rows(pred_indptr, pred, chosen, False)
    ends = np.array([0, nodes.size])
    if kinds == 1:
        return np.concatenate([_beginnings(ends, nodes.size), below])
    beginnings = _beginnings(np.concatenate([ends, chosen + 1]), nodes.size)
    above = closure_rows(succ_indptr, succ, chosen, True)
    return np.concatenate([beginnings, below, beginnings[1] & ~above])


def _beginnings(lengths: Int64, n: int) -> NDArray[np.uint64]:
    """Prefixes of n places with these lengths, as rows of bits."""
    members = np.arange(max(1, -(-n // 64)) * 64) < lengths[:, None]
    return np.packbits(members, axis=1, bitorder="little").view(np.uint64)


def _all(graph: ComputationGraph, nodes: Int64, cap: int) -> LowerSetFamily:
    words, indptr, covers = all_lower_sets(*_edges(graph, nodes), cap)
    if covers is None:
        reached = int(np.bitwise_count(words[-1]).sum())
        raise GraphError(
            "there are more than {cap:,} lower sets: {n_words:,} were found when those of {reached} of the "
            "{size:node} were listed; use the family wide (approximate_dp, liveness_dp) or a larger cap",
            cap=cap,
            n_words=len(words),
            reached=reached,
            size=nodes.size,
        )
    return LowerSetFamily._unchecked(graph, nodes, words, (indptr, covers))


def _by_size(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Distinct rows, sorted by size, then by words."""
    size = np.bitwise_count(words).sum(axis=1)
    order = np.lexsort((*words.T, size))
    rows = words[order]
    new = np.ones(len(rows), bool)
    new[1:] = (rows[1:] != rows[:-1]).any(axis=1)
    return rows[new]


def _edges(graph: ComputationGraph, nodes: Int64) -> tuple[Int64, Int32, Int64, Int32]:
    """Edges among the nodes, by their places: predecessors and successors."""
    place = np.full(graph.n_nodes, -1, np.int32)
    place[nodes] = np.arange(nodes.size)
    return (*_rows(graph.predecessors, nodes, place), *_rows(graph.successors, nodes, place))


def _rows(csr: tuple[Int64, Int32], nodes: Int64, place: Int32) -> tuple[Int64, Int32]:
    indptr, indices = csr
    indptr, indices = gather_rows(indptr, place[indices], nodes)
    return select_entries(indptr, indices, indices >= 0)
