"""A chain of lower sets to a schedule (kusumoto2019, section 3)."""

import numpy as np

from remat_algos.ir.graph import ComputationGraph
from remat_algos.kernels import _emitter
from remat_algos.schedule.mirror import honoured, part_of
from remat_algos.schedule.schedule import Schedule
from remat_algos.structure.lower_sets import LowerSets


def canonical_schedule(
    graph: ComputationGraph, lower_sets: LowerSets, *, keep_last: bool = True, lazy: bool = True
) -> Schedule:
    """The canonical strategy of a chain of lower sets.

    Forward block by block; then, from the last block to the first, the gradients of the block's nodes, each preceded
    by what it misses. Nodes on a boundary never run again. What runs again serves its block; beyond it survive the
    co-inputs that gradients of earlier blocks may read.

    Parameters
    ----------
    graph : ComputationGraph
    lower_sets : LowerSets
        The last one holds the whole needed forward part.
    keep_last : bool
        Keep the last block, which has only just run; False discards it, as formula (1) counts.
    lazy : bool
        Run a node again just before a gradient needs it; False runs all missing nodes of a block before its
        gradients, as the paper does. Neither is always better.

    Returns
    -------
    Schedule

    Raises
    ------
    GraphError
        If the chain does not fit the graph.

    Examples
    --------
    >>> from remat_algos.ir.differentiate import differentiate
    >>> chain = differentiate(ComputationGraph.from_edges([(0, 1), (1, 2)]))
    >>> canonical_schedule(chain, LowerSets.of(chain, [[0, 1], [0, 1, 2]])).order.tolist()
    [0, 1, 2, 3, 4, 0, 5]
    """
    block = lower_sets.blocks(graph)
    n_blocks = max(1, len(lower_sets))
    kept = lower_sets.kept(graph)
    if keep_last:
        kept |= block == len(lower_sets) - 1
    kept = honoured(graph, np.where(kept, 0, 1)) == 0
    if graph.n_nodes:
        kept |= np.logical_and.reduceat(graph.output, graph.value_indptr[:-1])  # pinned, so never missing
    order = _emitter.canonical(
        graph.needed.view(np.uint8),
        part_of(graph),
        graph.read_indptr,
        graph.read_indices,
        graph.producer,
        graph.output.view(np.uint8),
        np.where(block < 0, n_blocks - 1, block).astype(np.int32),  # gradients of nodes that never run come first
        (kept & graph.forward).view(np.uint8),
        _co_input_from(graph, block, n_blocks),
        n_blocks,
        lazy,
    )
    return Schedule(order)


def _co_input_from(graph: ComputationGraph, block: np.ndarray, n_blocks: int) -> np.ndarray:
    """int32[n]: the least j such that the node is read beside L_j by one of its consumers: u in d-(d+(L_j)).

    A consumer w of u belongs to d+(L_j) from the least block among w's sources on.
    """
    indptr, source = graph.predecessors
    reader = np.repeat(np.arange(graph.n_nodes), np.diff(indptr))
    inside = (block[reader] >= 0) & (block[source] >= 0)
    reader, source = reader[inside], source[inside]
    earliest_source = np.full(graph.n_nodes, n_blocks, np.int32)
    np.minimum.at(earliest_source, reader, block[source])
    result = np.full(graph.n_nodes, n_blocks, np.int32)
    np.minimum.at(result, source, earliest_source[reader])
    return result
