"""Square-root checkpointing."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from remat_algos.ir.arrays import Int64
from remat_algos.ir.graph import ComputationGraph
from remat_algos.schedule.canonical import canonical_schedule
from remat_algos.solvers.registry import Progress, Solution, solver, training_graph
from remat_algos.solvers.segments import (
    Cutter,
    both,
    candidate_kinds,
    candidate_places,
    check_positive,
    named_places,
    segment_counts,
)
from remat_algos.solvers.selection import Plans, best, most_plans, thinned, undominated
from remat_algos.structure.articulation import ForwardPart
from remat_algos.structure.lower_sets import single_boundary_chain


@solver(paper="chen2016", needs=training_graph)
def chen_sqrt(
    graph: ComputationGraph,
    limit: int | None,
    *,
    segments: int | None = None,
    candidates: str | None = None,
    at: str | Sequence[str] | None = None,
    keep_last: bool | None = None,
    unit: int = 1,
    time_limit: float | None = None,
    progress: Progress | None = None,
) -> Solution:
    """Cut the forward part into segments of about equal memory; keep the values that are live across the cuts.

    Under a limit every number of segments is tried; without one it is the rounded square root of the number of nodes.

    Parameters
    ----------
    segments : int, optional
        Number of segments; each cut is at the first candidate that reaches the next multiple of M / segments.
    candidates : {"articulation", "all", "boundary1"}, optional
        Cut only where a single value is live, or anywhere; by default whichever of these is better. "boundary1" is
        the single plan of the lower-set authors' baseline, whatever the limit.
    at : str or sequence of str, optional
        Names of the nodes to cut after, in place of `segments` and `candidates`.
    keep_last : bool, optional
        Whether the last segment, which has just run, is kept; by default whichever is better.
    unit : int
        Unit in which "boundary1" counts sizes, in bytes.

    References
    ----------
    chen2016, algorithm 1 and section 4.3; kusumoto2019, section 5, for "boundary1".

    Examples
    --------
    >>> from remat_algos.ir.differentiate import differentiate
    >>> chain = differentiate(ComputationGraph.from_edges([(i, i + 1) for i in range(8)]))
    >>> len(chen_sqrt(chain, None).schedule) - chain.n_nodes
    4
    """
    plans = _plans(graph, limit is not None, segments, candidates, at, keep_last, unit)
    return best(graph, plans, limit, time_limit, progress)


def frontier(
    graph: ComputationGraph, *, time_limit: float | None = None, progress: Progress | None = None, **options: Any
) -> list[Solution]:
    """Pareto frontier of its plans in peak and compute; takes the options of `chen_sqrt`."""
    return undominated(graph, _plans(graph, True, **options), time_limit, progress)


def _plans(
    graph: ComputationGraph,
    sweep: bool,
    segments: int | None = None,
    candidates: str | None = None,
    at: str | Sequence[str] | None = None,
    keep_last: bool | None = None,
    unit: int = 1,
) -> Plans:
    check_positive(segments=segments, unit=unit)
    if at is not None and (segments is not None or candidates is not None):
        raise ValueError("at gives the cuts; leave out segments and candidates")
    if candidates == "boundary1":
        chain = single_boundary_chain(graph, unit=unit)
        kept = both(keep_last) if sweep else (keep_last is not False,)
        return [(partial(canonical_schedule, graph, chain, keep_last=last), {"keep_last": last}) for last in kept]
    part = ForwardPart.of(graph)
    if at is not None:
        names = [str(name) for name in ([at] if isinstance(at, str | int) else at)]
        cuts = named_places(graph, part, names)
        return [
            (partial(segment_counts, part, cuts, last), {"at": names, "keep_last": last}) for last in both(keep_last)
        ]
    plans: list[Any] = []
    for kind in candidate_kinds(candidates):
        cutter = Cutter(part.memory, candidate_places(part, kind))
        numbers = [segments or max(1, round(np.sqrt(part.nodes.size)))]
        if sweep and segments is None:
            numbers = thinned(range(1, cutter.places.size + 2), most_plans(graph))
        for k in numbers:
            for last in both(keep_last):
                chosen = {"segments": k, "candidates": kind, "keep_last": last}
                plans.append((partial(_counts, part, cutter, k, last), chosen))
    return plans


def _counts(part: ForwardPart, cutter: Cutter, segments: int, keep_last: bool) -> Int64:
    cuts = cutter.cuts(0, part.nodes.size, segments)
    if not keep_last:  # the last segment too keeps its end
        cuts = np.unique(np.append(cuts, part.nodes.size - 1))
    return segment_counts(part, cuts, keep_last)
