"""Cuts of the forward part at articulation values or into segments, and minimum vertex cuts of directed graphs."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from remat_algos.errors import ArgumentError, GraphError
from remat_algos.ir.arrays import Bool, Int32, Int64, frozen, interval_sums, row_of
from remat_algos.ir.graph import ComputationGraph
from remat_algos.kernels.flow import maximum_flow
from remat_algos.kernels.regions import keep_depths, segment_cuts


@dataclass(frozen=True, slots=True, eq=False)
class ForwardPart:
    """The needed forward nodes in id order, and the values that are live between them.

    Cut p is after the node at position p. Arrays are indexed by position. `until` is the last position that reads a
    value of the node, or the position of the node itself if its values are not read. `width` is the number of values
    that cross the cut. If this number is 1, `alone` is the id of the value, otherwise -1. `lives` consists of three
    arrays: the values that cross some cut, the position of the node that computes each, and the last position that
    reads each.
    """

    graph: ComputationGraph
    nodes: Int64
    until: Int64
    width: Int64
    alone: Int64
    lives: tuple[Int64, Int64, Int64]

    @classmethod
    def of(cls, graph: ComputationGraph) -> "ForwardPart":
        member = graph.forward & graph.needed
        nodes = np.flatnonzero(member)
        place = np.full(graph.n_nodes, -1, np.int64)
        place[nodes] = np.arange(nodes.size)
        reader = row_of(graph.read_indptr)
        first = place[graph.producer]
        value_until = first.copy()
        inside = member[reader]
        np.maximum.at(value_until, graph.read_indices[inside], place[reader[inside]])
        alive = np.flatnonzero((first >= 0) & (value_until > first))
        begin, end = first[alive], value_until[alive]
        until = np.arange(nodes.size)
        np.maximum.at(until, begin, end)
        width = interval_sums(begin, end, 1, nodes.size)
        alone = np.where(width == 1, interval_sums(begin, end, alive, nodes.size), -1)
        return cls(graph, nodes, until, width, alone, (alive, begin, end))

    @property
    def memory(self) -> Int64:
        """int64[f]: bytes of all values of the node at each position."""
        return self.graph.node_memory[self.nodes]

    def articulations(self) -> Int64:
        """Return the positions p such that one value is live across cut p; chen2016 cuts only there."""
        return np.flatnonzero(self.width == 1)

    def boundary(self, cuts: ArrayLike) -> Bool:
        """Mark the nodes that compute a value that is live across one of the cuts, bool[n]."""
        ends = np.append(np.sort(np.asarray(cuts, np.int64)), self.nodes.size)
        places = np.arange(self.nodes.size)
        first_cut = ends[np.searchsorted(ends, places)]
        kept = np.zeros(self.graph.n_nodes, bool)
        kept[self.nodes[first_cut < self.until]] = True
        return kept


UNCUTTABLE = -1


@dataclass(frozen=True, slots=True, eq=False)
class VertexCut:
    """A minimum vertex cut, with ascending ids; `beyond`, bool[n], marks the vertices between the cut and the sinks."""

    vertices: Int32
    weight: int
    beyond: Bool


def minimum_vertex_cut(
    tail: ArrayLike, head: ArrayLike, weight: ArrayLike, sources: ArrayLike, sinks: ArrayLike
) -> VertexCut | None:
    """Return a minimum vertex cut between sources and sinks, by preflow-push; None if no cut exists.

    Arcs go from `tail` to `head`. Vertices of weight -1 must not be cut; sources and sinks may be cut. The other
    weights must sum to less than 2**53. The cut is the one closest to the sinks: it has the fewest vertices beyond it,
    and these are also beyond every other minimum cut.
    """
    weights: Int64 = frozen(weight, np.int64, "weight")
    cuttable, n = np.flatnonzero(weights >= 0), weights.size
    free = int(weights[cuttable].sum()) + 1  # greater than any cut
    # Split each vertex that may be cut in two: arcs enter the first half and leave the second half.
    leave = np.arange(n)
    leave[cuttable] = n + np.arange(cuttable.size)
    # All flow goes through one arc, from the source to the gate, so no sum of capacities can overflow.
    source, gate, sink = (n + cuttable.size + i for i in range(3))
    begins, ends = np.asarray(sources, np.int64), np.asarray(sinks, np.int64)
    tails = (cuttable, [source], np.full(begins.size, gate), leave[np.asarray(tail, np.int64)], leave[ends])
    heads = (leave[cuttable], [gate], begins, np.asarray(head, np.int64), np.full(ends.size, sink))
    arcs = [np.concatenate(side).astype(np.int32) for side in (tails, heads)]
    capacity = np.full(arcs[0].size, free)
    capacity[: cuttable.size] = weights[cuttable]
    flow, _, _, far = maximum_flow(sink + 1, *arcs, capacity, source, sink)
    if flow >= free:
        return None
    behind = far.view(np.bool_)
    cut = np.flatnonzero(~behind[:n] & behind[leave]).astype(np.int32)
    return VertexCut(cut, int(flow), behind[:n])


CANDIDATES = ("articulation", "all")
KNOWN = (*CANDIDATES, "boundary1 (of chen_sqrt)")


def candidate_kinds(candidates: str | None) -> tuple[str, ...]:
    """Return the kinds of cut positions to try: all kinds, unless one is requested."""
    return CANDIDATES if candidates is None else (candidates,)


def candidate_places(part: ForwardPart, candidates: str) -> Int64:
    """Return the positions of the forward part at which a cut of this kind is allowed."""
    if candidates == "articulation":
        return part.articulations()
    if candidates == "all":
        return np.arange(part.nodes.size)
    raise ArgumentError("candidates is {candidates!r}; use {known!l}", candidates=candidates, known=KNOWN)


def named_places(graph: ComputationGraph, part: ForwardPart, names: Sequence[str]) -> list[int]:
    """Return the positions of the named nodes, after which the user requests cuts."""
    nodes = np.array([graph.producer[graph.value_id(name)] for name in names], np.int64)
    places = np.searchsorted(part.nodes, nodes)
    for name, node, place in zip(names, nodes, places, strict=True):
        if place == part.nodes.size or part.nodes[place] != node:
            raise GraphError("{name!r} is not a needed node of the forward part; cut after one that is", name=name)
    return np.unique(places).tolist()


class Cutter:
    """Cuts the forward part into segments of about equal memory, at the allowed positions `places`."""

    def __init__(self, memory: ArrayLike, places: ArrayLike) -> None:
        self.reached = np.concatenate([[0], np.cumsum(memory, dtype=np.int64)])
        self.places = np.asarray(places, np.int64)

    def cuts(self, begin: int, end: int, segments: int) -> Int64:
        """Return allowed cuts of the positions begin to end - 1 into `segments` segments of about equal bytes."""
        return segment_cuts(self.reached, self.places, begin, end, segments)

    def split_counts(self, until: Int64, splits: int, depth: int, keep_last: bool) -> Int64:
        """Return the level of the recursion at which each position is kept.

        The forward part is cut at `splits` positions, then each segment is cut again, for `depth` levels. A cut keeps
        the node at its position and the nodes whose values are live across it. For the node at each position, `until`
        is the last position that reads one of its values. With `keep_last`, the last piece of each segment gets the
        level of the segment, as this piece has just run.
        """
        return keep_depths(self.reached, self.places, until, splits, depth, keep_last)


def segment_counts(part: ForwardPart, cuts: ArrayLike, keep_last: bool) -> Int64:
    """Return mirror counts, int64[n]: 0 for nodes at cuts or with values live across cuts, 1 for other nodes."""
    places = np.asarray(cuts, np.int64)
    kept = part.boundary(places)
    kept[part.nodes[places]] = True
    if keep_last:
        kept[part.nodes[(places[-1] + 1 if places.size else 0) :]] = True
    return np.where(kept, 0, 1)
