"""Where the nodes of a graph stand in a picture of it: in layers, the backward part mirrored beside the forward part."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from remat_algos.ir.arrays import Bool, Int32, Int64
from remat_algos.ir.graph import ComputationGraph
from remat_algos.kernels import _graph

Float64 = NDArray[np.float64]

NARROW = 0.4  # room of a bend beside that of a node, which is 1
SWEEPS = 6
MOST_BENDS = 20_000
APART = 1.5  # between the forward and the backward part


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """Places of nodes and ways of edges.

    Parameters
    ----------
    layer : int64[n]
        Nodes before a node on the longest path to it; of a gradient that of the node that it belongs to.
    place : float64[n]
        Within the layer, from 0; nodes are at least 1 apart.
    ways : list of float64[k, 2]
        For each edge (place, layer) of the points that it goes through.
    """

    layer: Int64
    place: Float64
    ways: list[Float64]

    @property
    def width(self) -> float:
        """From the first place to the last."""
        return float(self.place.max(initial=0))

    @property
    def depth(self) -> int:
        """How many layers there are."""
        return int(self.layer.max(initial=-1)) + 1


def layout(graph: ComputationGraph) -> Layout:
    """Lay out a graph.

    Examples
    --------
    >>> from remat_algos.ir.differentiate import differentiate
    >>> chain = ComputationGraph.from_edges([(0, 1), (1, 2)])
    >>> found = layout(differentiate(chain))
    >>> found.layer.tolist(), found.place.tolist()
    ([0, 1, 2, 2, 1, 0], [0.0, 0.0, 0.0, 1.5, 1.5, 1.5])
    """
    indptr, source = graph.predecessors
    target = np.repeat(np.arange(graph.n_nodes), np.diff(indptr))
    forward = graph.forward
    layer = _layers(graph, source, target)
    place, ways = np.zeros(graph.n_nodes), [np.empty((0, 2))] * source.size
    left = _part(layer, source, target, forward, place, ways)
    if not forward.all():
        assert graph.forward_of is not None
        place[~forward] = left - place[graph.forward_of[~forward]]  # mirrored
        _part(layer, source, target, ~forward, place, ways)
        place[~forward] += left + APART
        for edge in np.flatnonzero(~forward[target] & ~forward[source]).tolist():
            ways[edge][:, 0] += left + APART
    for edge in np.flatnonzero(forward[source] & ~forward[target]).tolist():
        ways[edge] = np.array([[place[v], layer[v]] for v in (source[edge], target[edge])], float)
    return Layout(layer, place, ways)
