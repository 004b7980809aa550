"""Recursive checkpointing: a segment is one operator whose inside is treated the same way."""

from functools import partial
from typing import Any

import numpy as np

from remat_algos.ir.arrays import Int64
from remat_algos.ir.graph import ComputationGraph
from remat_algos.solvers.registry import solver, training_graph
from remat_algos.solvers.segments import Cutter, both, candidate_kinds, candidate_places, check_positive
from remat_algos.solvers.selection import Plans, best, most_plans, thinned, undominated
from remat_algos.structure.articulation import ForwardPart


@solver(paper="chen2016", needs=training_graph)
def chen_recursive(
    graph: ComputationGraph,
    limit: int | None,
    *,
    splits: int | None = None,
    depth: int | None = None,
    candidates: str | None = None,
    keep_last: bool | None = None,
    time_limit: float | None = None,
    progress: Progress | None = None,
) -> Solution:
    """Cut the forward part into segments, and these recursively; each level adds a recomputation.

    Parameters
    ----------
    splits : int, optional
        k, cuts per segment; by default all values are tried.
    depth : int, optional
        d, levels of recursion; by default all values are tried.
    candidates : {"articulation", "all"}, optional
        Cut only where a single value is live, or anywhere; by default whichever is better.
    keep_last : bool, optional
        Whether the last part of a segment, which has just run, is kept; by default whichever is better.

    References
    ----------
    chen2016, section 4.4: g(n) = k + g(n / (k + 1)).

    Examples
    --------
    >>> from remat_algos.ir.differentiate import differentiate
    >>> chain = differentiate(ComputationGraph.from_edges([(i, i + 1) for i in range(14)]))
    >>> plan = chen_recursive(chain, None, splits=1, depth=4, candidates="all", keep_last=False)
    >>> len(plan.schedule) - 15
    39
    """
    return best(graph, _plans(graph, splits, depth, candidates, keep_last), limit, time_limit, progress)


def frontier(
    graph: ComputationGraph, *, time_limit: float | None = None, progress: Progress | None = None, **options: Any
) -> list[Solution]:
    """Pareto frontier of its plans in peak and compute; takes the options of `chen_recursive`."""
    return undominated(graph, _plans(graph, **options), time_limit, progress)


def _plans(
    graph: ComputationGraph,
    splits: int | None = None,
    depth: int | None = None,
    candidates: str | None = None,
    keep_last: bool | None = None,
) -> Plans:
    check_positive(splits=splits, depth=depth)
    part = ForwardPart.of(graph)
    shapes = [
        (k, d)
        for k in ((splits,) if splits else range(1, part.nodes.size + 1))
        for d in ((depth,) if depth else range(1, 1 + _deepest(part.nodes.size, k)))
    ]
    plans: list[Any] = []
    for kind in candidate_kinds(candidates):
        cutter = Cutter(part.memory, candidate_places(part, kind))
        for k, d in thinned(shapes, most_plans(graph)):
            for last in both(keep_last):
                chosen = {"splits": k, "depth": d, "candidates": kind, "keep_last": last}
                plans.append((partial(_counts, part, cutter, k, d, last), chosen))
    return plans


def _counts(part: ForwardPart, cutter: Cutter, splits: int, depth: int, keep_last: bool) -> Int64:
    count = np.zeros(part.graph.n_nodes, np.int64)
    count[part.nodes] = cutter.split_counts(part.until, splits, depth, keep_last)
    return count


def _deepest(size: int, splits: int) -> int:
    """After so many rounds of splits no segment of so many nodes has any left."""
    rounds = 1
    while size > splits:
        size = -(-(size - splits) // (splits + 1))
        rounds += 1
    return rounds
