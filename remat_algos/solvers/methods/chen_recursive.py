"""Recursive checkpointing (chen2016): each segment is divided into segments again."""

from collections.abc import Iterator
from functools import partial

import numpy as np

from remat_algos.context import Clock
from remat_algos.ir.arrays import Int64
from remat_algos.ir.graph import ComputationGraph
from remat_algos.solvers.candidate_rows import Recipe, both, check_positive, longest_row, near, thinned
from remat_algos.solvers.registry import Candidate, Task, solver, training_graph
from remat_algos.structure.cuts import Cutter, ForwardPart, candidate_kinds, candidate_places


@solver(paper="chen2016", needs=training_graph, price=0.07)
def chen_recursive(
    graph: ComputationGraph,
    task: Task,
    clock: Clock,
    *,
    splits: int | None = None,
    depth: int | None = None,
    candidates: str | None = None,
    keep_last: bool | None = None,
) -> Iterator[Candidate]:
    """Cut the forward part into segments recursively; each level adds one recomputation.

    Parameters
    ----------
    splits : int, optional
        Number k of cuts per segment; by default all numbers are tried.
    depth : int, optional
        Number d of levels of recursion; by default all numbers are tried.
    candidates : {"articulation", "all"}, optional
        Cut only where a single value is live, or anywhere; by default whichever is better.
    keep_last : bool, optional
        Keep the last part of each segment instead of recomputing it directly after its run; by default whichever is
        better.

    References
    ----------
    chen2016, section 4.4: g(n) = k + g(n / (k + 1)).
    """
    check_positive(splits=splits, depth=depth)
    part = ForwardPart.of(graph)
    shapes = [
        (d, k)
        for k in ((splits,) if splits else range(1, part.nodes.size + 1))
        for d in ((depth,) if depth else range(1, 1 + _deepest(part.nodes.size, k)))
    ]
    by_depth: dict[int, list[int]] = {}
    for d, k in thinned(shapes, longest_row(graph)):
        by_depth.setdefault(d, []).append(k)
    rows: list[list[Recipe]] = []
    for kind in candidate_kinds(candidates):
        cutter = Cutter(part.memory, candidate_places(part, kind))
        for last in both(keep_last):
            for d, numbers in by_depth.items():
                chosen = {"depth": d, "candidates": kind, "keep_last": last}
                rows.append([(partial(_counts, part, cutter, k, d, last), {"splits": k, **chosen}) for k in numbers])
    return near(graph, rows, task.limit, clock)


def _counts(part: ForwardPart, cutter: Cutter, splits: int, depth: int, keep_last: bool) -> Int64:
    count = np.zeros(part.graph.n_nodes, np.int64)
    count[part.nodes] = cutter.split_counts(part.until, splits, depth, keep_last)
    return count


def _deepest(size: int, splits: int) -> int:
    """Return the number of levels after which a part of `size` nodes is split into single nodes."""
    rounds = 1
    while size > splits:
        size = -(-(size - splits) // (splits + 1))
        rounds += 1
    return rounds
