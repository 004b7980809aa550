"""Square-root checkpointing (chen2016)."""

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from remat_algos.context import Clock
from remat_algos.errors import ArgumentError
from remat_algos.ir.arrays import Int64
from remat_algos.ir.graph import ComputationGraph
from remat_algos.schedule.emission import canonical_schedule
from remat_algos.solvers.candidate_rows import Recipe, both, check_positive, longest_row, near, thinned
from remat_algos.solvers.registry import Candidate, Task, solver, training_graph
from remat_algos.structure.cuts import (
    Cutter,
    ForwardPart,
    candidate_kinds,
    candidate_places,
    named_places,
    segment_counts,
)
from remat_algos.structure.lower_sets import single_boundary_chain


@solver(paper="chen2016", needs=training_graph, price=0.03)
def chen_sqrt(
    graph: ComputationGraph,
    task: Task,
    clock: Clock,
    *,
    segments: int | str | None = None,
    candidates: str | None = None,
    at: str | Sequence[str] | None = None,
    keep_last: bool | None = None,
    unit: int = 1,
) -> Iterator[Candidate]:
    """Cut the forward part into segments of about equal memory; keep the values that are live across the cuts.

    Every number of segments is tried; on long graphs, only numbers whose peak is near the limit.

    Parameters
    ----------
    segments : int or "sqrt", optional
        Number of segments. "sqrt" is the rounded square root of the number of forward nodes, as in the paper. Let M be
        the bytes of the forward part. The cuts are the first possible positions at which the bytes before the cut
        reach M / segments, 2 M / segments, and so on.
    candidates : {"articulation", "all", "boundary1"}, optional
        Cut only where a single value is live, or anywhere; by default whichever of these is better. "boundary1" is
        the baseline of kusumoto2019, a single plan.
    at : str or sequence of str, optional
        Names of the nodes to cut after, instead of `segments` and `candidates`.
    keep_last : bool, optional
        Keep the last segment instead of recomputing it directly after its run; by default whichever is better.
    unit : int
        Number of bytes in the unit in which "boundary1" counts sizes.

    References
    ----------
    chen2016, algorithm 1 and section 4.3; kusumoto2019, section 5, for "boundary1".
    """
    check_positive(segments=None if segments == "sqrt" else segments, unit=unit)
    if at is not None and (segments is not None or candidates is not None):
        raise ArgumentError("`at` specifies the cuts; leave out segments and candidates")
    rows: list[list[Recipe]] = []
    if candidates == "boundary1":
        chain = single_boundary_chain(graph, unit=unit)
        for last in both(keep_last):
            rows.append([(partial(canonical_schedule, graph, chain, keep_last=last), {"keep_last": last})])
        return near(graph, rows, task.limit, clock)
    part = ForwardPart.of(graph)
    if at is not None:
        names = [str(name) for name in ([at] if isinstance(at, str | int) else at)]
        cuts = named_places(graph, part, names)
        for last in both(keep_last):
            rows.append([(partial(segment_counts, part, cuts, last), {"at": names, "keep_last": last})])
        return near(graph, rows, task.limit, clock)
    for kind in candidate_kinds(candidates):
        cutter = Cutter(part.memory, candidate_places(part, kind))
        if segments is None:
            numbers = thinned(range(1, cutter.places.size + 2), longest_row(graph))
        else:
            numbers = [max(1, round(np.sqrt(part.nodes.size))) if segments == "sqrt" else int(segments)]
        for last in both(keep_last):
            chosen = {"candidates": kind, "keep_last": last}
            rows.append([(partial(_counts, part, cutter, k, last), {"segments": k, **chosen}) for k in numbers])
    return near(graph, rows, task.limit, clock)


def _counts(part: ForwardPart, cutter: Cutter, segments: int, keep_last: bool) -> Int64:
    cuts = cutter.cuts(0, part.nodes.size, segments)
    # The last segment is recomputed, so its last node is kept.
    if not keep_last:
        cuts = np.unique(np.append(cuts, part.nodes.size - 1))
    return segment_counts(part, cuts, keep_last)
