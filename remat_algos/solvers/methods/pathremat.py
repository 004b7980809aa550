"""Recursion on the middle bags of a path decomposition."""

from collections.abc import Iterator

import numpy as np

from remat_algos.context import Clock
from remat_algos.ir.graph import ComputationGraph
from remat_algos.solvers import tuning
from remat_algos.solvers.recursion import Part, Tree, by_recursion
from remat_algos.solvers.registry import Candidate, Task, solver
from remat_algos.structure.decompositions import PathDecomposition, greedy_layout, separation
from remat_algos.structure.separators import SeparatorTree


@solver(paper="kumar2019", price=0.05)
def pathremat(
    graph: ComputationGraph,
    task: Task,
    clock: Clock,
    *,
    recursion_limit: int | None = None,
    batching: bool | None = True,
    length_limit: float = tuning.LENGTH_LIMIT,
) -> Iterator[Candidate]:
    """Split a path decomposition at the middle bag, and recompute the inputs of this bag's nodes in both parts.

    The paper describes its algorithm in a supplement that is not available. This solver follows the same idea; its
    guarantees are those of docs/theory/path_decompositions.md.

    Parameters
    ----------
    recursion_limit, batching, length_limit : optional
        As in `twremat`; a component is an interval of bags. By default, inputs are recomputed in batches.

    References
    ----------
    kumar2019, section 5, which this replaces.
    """

    def trees(part: Part) -> Iterator[Tree]:
        layout = greedy_layout(part.undirected, np.random.default_rng(task.seed), look=clock.check)
        if separation(part.undirected, layout) > tuning.MAX_WIDTH:
            yield None, {}
        else:
            path = PathDecomposition.of(part.undirected, layout)
            yield SeparatorTree.middle(path, part.nodes.size), {"pathwidth": path.width}

    return by_recursion(
        graph,
        trees,
        1,
        task.limit,
        clock,
        recursion_limit=recursion_limit,
        batching=batching,
        length_limit=length_limit,
    )
