"""Minimum vertex cuts of directed graphs."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from remat_algos.errors import ArgumentError
from remat_algos.ir.arrays import Bool, Int32, Int64, frozen
from remat_algos.kernels.flow import maximum_flow

UNCUTTABLE = -1


@dataclass(frozen=True, slots=True, eq=False)
class VertexCut:
    """A minimum vertex cut, ascending ids: every path from a source to a sink meets it, and no other cut is lighter.

    `beyond`, bool[n], has the vertices on the sinks' side of the cut, without the cut itself.
    """

    vertices: Int32
    weight: int
    beyond: Bool


def minimum_vertex_cut(
    tail: ArrayLike, head: ArrayLike, weight: ArrayLike, sources: ArrayLike, sinks: ArrayLike, *, closest: str = "sink"
) -> VertexCut | None:
    """Find a minimum vertex cut between sources and sinks; None if a path has no vertex that may be cut.

    Arcs go from `tail` to `head`. A vertex of weight -1 must not be cut; the other weights sum to less than 2**53.
    Sources and sinks may be cut too. The minimum cut closest to the sinks has the fewest vertices beyond it, which are
    beyond every other one too; the one closest to the sources has the most. Vertices are split in two, and the flow
    through them is maximized by preflow-push.

    Examples
    --------
    Weights in brackets:

        0 (4) -> 1 (2) -> 3 (1)
        0 (4) -> 2 (2) -> 3 (1)

    >>> edges = [0, 0, 1, 2], [1, 2, 3, 3]
    >>> minimum_vertex_cut(*edges, [4, 2, 2, 1], sources=[0], sinks=[3]).vertices.tolist()
    [3]
    >>> cut = minimum_vertex_cut(*edges, [4, 2, 2, -1], sources=[0], sinks=[3], closest="source")
    >>> cut.vertices.tolist(), cut.weight, cut.beyond.tolist()
    ([0], 4, [False, True, True, True])
    """
    if closest not in ("sink", "source"):
        raise ArgumentError("closest is {closest!r}; use sink or source", closest=closest)
    weights: Int64 = frozen(weight, np.int64, "weight")
    cuttable, n = np.flatnonzero(weights >= 0), weights.size
    free = int(weights[cuttable].sum()) + 1  # above the weight of any cut
    leave = np.arange(n)  # a vertex that may be cut is entered by its own half and left by a second one
    leave[cuttable] = n + np.arange(cuttable.size)
    source, gate, sink = (n + cuttable.size + i for i in range(3))  # all flow passes the gate, so sums stay small
    begins, ends = np.asarray(sources, np.int64), np.asarray(sinks, np.int64)
    tails = (cuttable, [source], np.full(begins.size, gate), leave[np.asarray(tail, np.int64)], leave[ends])
    heads = (leave[cuttable], [gate], begins, np.asarray(head, np.int64), np.full(ends.size, sink))
    arcs = [np.concatenate(side).astype(np.int32) for side in (tails, heads)]
    capacity = np.full(arcs[0].size, free)
    capacity[: cuttable.size] = weights[cuttable]
    flow, _, near, far = maximum_flow(sink + 1, *arcs, capacity, source, sink)
    if flow >= free:
        return None
    behind = far.view(np.bool_) if closest == "sink" else ~near.view(np.bool_)
    cut = np.flatnonzero(~behind[:n] & behind[leave]).astype(np.int32)
    return VertexCut(cut, int(flow), behind[:n])
