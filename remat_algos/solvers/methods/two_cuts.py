"""Plans between two minimum cuts of the closure bound, one slightly above and one slightly below the limit."""

from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from remat_algos.bounds.bound import LowerBound
from remat_algos.bounds.closure import ClosureCuts, overhead_bound
from remat_algos.bounds.memory import least_peak_bound
from remat_algos.context import Clock
from remat_algos.errors import ArgumentError
from remat_algos.ir.arrays import Int32, Int64
from remat_algos.ir.graph import ComputationGraph
from remat_algos.schedule.emission import baseline, clamp_counts, mirror_schedule
from remat_algos.solvers import tuning
from remat_algos.solvers.registry import Candidate, Task, evaluated, solver, training_graph


@solver(needs=training_graph, price=0.005)
def two_cuts(graph: ComputationGraph, task: Task, clock: Clock) -> Iterator[Candidate]:
    """Recompute the nodes that the closure bound recomputes, with a higher price per byte for early nodes.

    The closure bound considers a single step of a schedule. Each value that is live there either stays in memory or is
    recomputed later, whichever is cheaper at a given price per byte. If the price is just below the price that proves
    the bound, too many bytes stay in memory. If it is just above, more nodes are recomputed than necessary. In a
    network of equal blocks, the two choices differ in every block. This solver uses the choice at the higher price up
    to some node, and the choice at the lower price after this node. The reason is that the gradients of the last blocks
    are computed first, when memory is full. Bisection finds the node.
    """
    yield Candidate(mirror_schedule(graph, _counts(graph)))
    for limit in _limits(graph) if task.limit is None else [task.limit]:
        bound = task.closure or overhead_bound(graph, limit, look=clock.check)
        if bound.prices is not None:
            yield from _between(graph, limit, bound, clock)


def _limits(graph: ComputationGraph) -> list[int]:
    low, high = least_peak_bound(graph)[0], baseline(graph).peak_memory
    return sorted({low + (high - low) * i // tuning.CURVE_LIMITS for i in range(tuning.CURVE_LIMITS)}, reverse=True)


def closure_sides(graph: ComputationGraph, bound: LowerBound) -> tuple[Int32, Int32]:
    """Return the nodes that the closure bound recomputes at a slightly lower and at a slightly higher price."""
    if bound.prices is None:
        raise ArgumentError(
            "the bound has no price per byte, because its source is {source!r}; give a closure bound",
            source=bound.source,
        )
    cuts, step = ClosureCuts(graph), Fraction(1, tuning.NEARLY_EQUAL)
    low, high = (cuts.search.side(*cuts.moment(bound, 1 + each))[2] for each in (-step, step))
    return low, high


def _between(graph: ComputationGraph, limit: int, bound: LowerBound, clock: Clock) -> Iterator[Candidate]:
    """Yield both choices, then mixtures of them, by bisection over the node at which one replaces the other."""
    few, many = (_counts(graph, again) for again in closure_sides(graph, bound))
    places = np.flatnonzero(few != many)
    low, high = -1, places.size + 1
    clock.stage(2 + int(places.size).bit_length())
    place = places.size
    while high - low > 1:
        counts = few.copy()
        counts[places[:place]] = many[places[:place]]
        until = int(places[place - 1]) if place else -1
        candidate = evaluated(graph, mirror_schedule(graph, counts), {"node": bound.nodes[0], "until": until})
        yield candidate
        clock.advance(1)
        if candidate.simulation is not None and candidate.figures[0] <= limit:
            high = place
        else:
            low = place
        place = (low + high) // 2


def _counts(graph: ComputationGraph, again: Int32 | None = None) -> Int64:
    counts = np.zeros(graph.n_nodes, np.int64)
    if again is not None:
        counts[again] = 1
    return clamp_counts(graph, counts)
