"""Layered graph layout; the backward part is next to the forward part and mirrors it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from remat_algos.ir.arrays import Int64, indptr_of, row_of
from remat_algos.ir.graph import ComputationGraph
from remat_algos.kernels.graph import depths
from remat_algos.kernels.layer_order import nearest_rising, reduce_crossings
from remat_algos.plot import tuning

Float64 = NDArray[np.float64]
Ways = list[tuple[Int64, Int64, list[Int64]]]


@dataclass(frozen=True, slots=True, eq=False)
class LayeredLayout:
    """Node positions float64[n, 2] and line segments float64[k, 2, 2]; each point is (place in its layer, layer).

    The layer of a node is the length of the longest path to it; a gradient is in the layer of its node. Segments
    `inside` join nodes of the same part, forward or backward; segments `across` join the two parts. Gradients of one
    node are at least `apart` from each other; other nodes of a layer are at least 1 apart.
    """

    points: Float64
    inside: Float64
    across: Float64
    apart: float


def layout(graph: ComputationGraph) -> LayeredLayout:
    """Lay out a graph; a node and its gradients form one block, so both parts have the same arrangement."""
    n, forward, (indptr, sources) = graph.n_nodes, graph.forward, graph.predecessors
    source, target = sources.astype(np.int64), row_of(indptr)
    block = np.where(forward, np.arange(n), graph.owner)
    layer = _layers(graph, source, target)[block]
    gradients = np.bincount(block[~forward], minlength=n)

    # All edges between two blocks, in either part, share one polyline with its bends.
    together = forward[source] == forward[target]
    u, v = source[together], target[together]
    # Lines have no direction.
    u, v = np.where(layer[u] <= layer[v], (u, v), (v, u))
    pairs, pair = np.unique(block[u] * n + block[v], return_inverse=True)
    above, below = np.divmod(pairs, max(n, 1))
    bends = _bends(layer[below] - layer[above])
    first = n + np.cumsum(bends) - bends
    way, a, b = _pieces(above, below, first, bends)
    nth_bend = np.arange(bends.sum()) - np.repeat(first - n, bends)
    layer = np.concatenate([layer, np.repeat(layer[above], bends) + 1 + nth_bend])
    room = np.concatenate([np.clip(gradients, 1, tuning.WIDEST_LABEL), np.full(nth_bend.size, tuning.BEND)])
    items = np.concatenate([np.flatnonzero(forward), np.arange(n, layer.size)])
    near = layer[b] == layer[a] + 1
    place = _place_items(layer, room, items, a[near], b[near])

    # In the backward part gradients lie around the mirrored place of their node, and bends are mirrored.
    width = (place + room / 2)[items].max(initial=0.5) - 0.5
    mirrored = 2 * width + tuning.APART - place
    shift, apart = _side_by_side(block, ~forward, gradients)
    place[:n] = np.where(forward, place[:n], mirrored[block] + shift)
    mirrored[:n] = place[:n]
    sides = np.stack([np.column_stack([x, layer]) for x in (mirrored, place)])
    way, a, b = _pieces(u, v, first[pair], bends[pair])
    side = forward[u[way]].astype(np.intp)
    passed = forward[source] & ~forward[target]
    across = np.stack([sides[1, source[passed]], sides[1, target[passed]]], axis=1)
    return LayeredLayout(sides[1, :n], np.stack([sides[side, a], sides[side, b]], axis=1), across, apart)


def _layers(graph: ComputationGraph, source: Int64, target: Int64) -> Int64:
    """int64[n]: layers of forward nodes; a node without inputs is in the layer before its first reader."""
    layer = depths(graph.read_indptr, graph.read_indices, graph.producer).astype(np.int64) - 1
    inside, never = graph.forward[target], np.iinfo(np.int64).max
    reader = np.full(graph.n_nodes, never)
    np.minimum.at(reader, source[inside], layer[target[inside]])
    return np.where((layer == 0) & (reader < never), reader - 1, layer)


def _bends(span: Int64) -> Int64:
    """Return the number of bends per edge: one per layer crossed, or 0 for the longest edges of a large graph."""
    order = np.argsort(span, kind="stable")
    bends = np.maximum(span - 1, 0)
    bends[order[np.cumsum(bends[order]) > tuning.MAX_BENDS]] = 0
    return bends


def _pieces(begin: Int64, end: Int64, first: Int64, bends: Int64) -> tuple[Int64, Int64, Int64]:
    """Split each polyline at its bends; return the line index, start point and end point of each segment."""
    way = np.repeat(np.arange(begin.size), bends + 1)
    nth = np.arange(way.size) - (np.cumsum(bends + 1) - bends - 1)[way]
    return (
        way,
        np.where(nth == 0, begin[way], first[way] + nth - 1),
        np.where(nth == bends[way], end[way], first[way] + nth),
    )


def _side_by_side(block: Int64, gradient: NDArray[np.bool_], gradients: Int64) -> tuple[Float64, float]:
    """Return gradients' offsets from the middle of their block, and the minimum distance of gradients of one block."""
    ids = np.flatnonzero(gradient)
    ids = ids[np.argsort(block[ids], kind="stable")]
    nth = np.arange(ids.size) - np.searchsorted(block[ids], block[ids])
    apart = np.minimum(1, (tuning.WIDEST_LABEL - 1) / np.maximum(gradients - 1, 1))
    shift = np.zeros(block.size)
    shift[ids] = (nth - (gradients - 1)[block[ids]] / 2) * apart[block[ids]]
    return shift, float(apart.min(initial=1))


def _place_items(layer: Int64, room: Float64, items: Int64, above: Int64, below: Int64) -> Float64:
    """Place connected blocks and bends close to each other, by sweeps of isotonic regression of neighbours' places."""
    levels = int(layer[items].max(initial=-1)) + 1
    rows = _rows(items, layer[items], levels)
    ways = [
        (below, above, _rows(np.arange(below.size), layer[below], levels)),
        (above, below, _rows(np.arange(above.size), layer[above], levels)),
    ]
    place = _sweep(rows, ways, room, ordered=False)
    if above.size:
        ordered = [row[np.argsort(place[row], kind="stable")] for row in rows]
        better = _fewer_crossings(ordered, above, below)
        if any(not np.array_equal(row, other) for row, other in zip(ordered, better, strict=True)):
            place = _sweep(better, ways, room, ordered=True)
    left = (place - room / 2)[items]
    return place - (left.min() if left.size else 0) - 0.5


def _sweep(rows: list[Int64], ways: Ways, room: Float64, *, ordered: bool) -> Float64:
    """Return the places after all sweeps; if `ordered`, the items of each layer keep their order."""
    rank, place = np.zeros(room.size, np.int64), np.zeros(room.size)
    for row in rows:
        rank[row] = np.arange(row.size)
        if ordered:
            place[row] = np.cumsum(room[row])
    for sweep in range(tuning.SWEEPS):
        here, there, pieces = ways[sweep % 2]
        for level in range(len(rows)) if sweep % 2 == 0 else range(len(rows))[::-1]:
            row, piece = rows[level], pieces[level]
            count = np.bincount(rank[here[piece]], minlength=row.size)
            total = np.bincount(rank[here[piece]], place[there[piece]], minlength=row.size)
            target = np.where(count > 0, total / np.maximum(count, 1), place[row])
            order = rank[row] if ordered else np.lexsort((place[row], target))
            place[row] = _spread(target, order, room[row])
    return place


def _fewer_crossings(rows: list[Int64], above: Int64, below: Int64) -> list[Int64]:
    """Reorder layers to reduce crossings; return the given order if no better one is found."""
    order = np.concatenate(rows)
    row = indptr_of([each.size for each in rows])
    compact = np.zeros(order.max() + 1, np.int64)
    compact[order] = np.arange(order.size)
    limits = tuning.ORDERINGS, tuning.MAX_LAYOUT_WORK
    better = reduce_crossings(row, np.arange(order.size), compact[above], compact[below], *limits)
    return np.split(order[better], row[1:-1])


def _rows(items: Int64, key: Int64, levels: int) -> list[Int64]:
    order = np.argsort(key, kind="stable")
    return np.split(items[order], np.searchsorted(key[order], np.arange(1, levels)))


def _spread(target: Float64, order: Int64, room: Float64) -> Float64:
    """Return the places closest to the targets for which the items keep their order and do not overlap."""
    wide = room[order]
    offset = np.cumsum(wide) - wide / 2
    spread = np.empty(target.size)
    spread[order] = nearest_rising(target[order] - offset) + offset
    return spread
