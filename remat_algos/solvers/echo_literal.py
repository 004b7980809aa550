"""What algorithm 1 of echo2020, as it is printed, would recompute."""

import numpy as np

from remat_algos.ir.arrays import Bool
from remat_algos.ir.labels import RECOMPUTE
from remat_algos.kernels import _echo
from remat_algos.solvers.feature_maps import FeatureMaps


def by_algorithm_1(maps: FeatureMaps) -> Bool:
    """bool[n]: nodes that stay on the recomputation paths.

    From each output and each heavy node a region goes back to the next heavy nodes. In it a node is taken off, in
    order, if what would be released by that is no less than what would be allocated. The regions overlap, which the
    paper does not see: a node that one of them takes off is off. It is known of a gradient what it reads, but not whose
    it is; so all gradients that read an edge count, where the paper counts those of the region.

    References
    ----------
    echo2020, algorithm 1.

    Examples
    --------
    >>> from remat_algos.ir.differentiate import differentiate
    >>> from remat_algos.ir.graph import ComputationGraph
    >>> chain = differentiate(ComputationGraph.from_edges([(0, 1), (1, 2), (2, 3)], memory=[2, 4, 4, 4]))
    >>> maps = FeatureMaps.of(chain, [False, True, True, True, False, False, False, False])
    >>> by_algorithm_1(maps).tolist()[:4]
    [False, True, True, True]
    """
    graph = maps.graph
    forward = graph.forward & graph.needed
    ends = forward.copy()
    ends[maps.producer] = False
    indptr = np.searchsorted(maps.reader, np.arange(graph.n_nodes + 1))
    forced = np.zeros(graph.n_nodes, bool) if graph.mark is None else graph.mark == RECOMPUTE
    off = _echo.taken_off(
        graph.value_indptr,
        indptr,
        maps.value,
        *maps.readers(),
        graph.producer,
        np.where(graph.output, 0, graph.memory),
        maps.recomputable.view(np.uint8),
        maps.read_back.view(np.uint8),
        forced.view(np.uint8),
        np.flatnonzero(ends | forward & ~maps.recomputable).astype(np.int32),
    )
    return maps.recomputable & ~off.view(np.bool_)
