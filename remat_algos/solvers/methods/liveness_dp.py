"""Dynamic program over lower sets with simulated blocks. The promise of a chain is its predicted peak."""

import math
from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from typing import Any

from remat_algos.context import Clock
from remat_algos.errors import ArgumentError, GraphError
from remat_algos.ir.arrays import Int64
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.parts import RECOMPUTE
from remat_algos.schedule.emission import baseline_peak, canonical_schedule
from remat_algos.solvers import tuning
from remat_algos.solvers.candidate_rows import coarse_first
from remat_algos.solvers.chain_program import UNUSABLE, ChainProgram, Point, block_figures
from remat_algos.solvers.formula_chains import evenly, geometric, rank_of
from remat_algos.solvers.registry import Candidate, Details, Task, evaluated, solver, training_graph
from remat_algos.structure.lower_sets import LowerSetFamily, lower_set_family, spread
from remat_algos.structure.tuning import CAP


@solver(paper="kusumoto2019", needs=training_graph, price=0.4)
def liveness_dp(
    graph: ComputationGraph, task: Task, clock: Clock, *, family: str = "wide", lazy: bool | None = None, cap: int = CAP
) -> Iterator[Candidate]:
    """Choose the chain of lower sets with minimum compute, by simulating the memory and compute of its blocks.

    Formula (2) does not free values after their last read, so it is far above the simulated peak. This solver simulates
    each block instead. The predicted peak of a chain, its promise, is the simulated peak or slightly more.

    Parameters
    ----------
    family : {"wide", "pruned", "exact"}
        As in `lower_set_family`. Only blocks that a chain near the limit can contain are simulated. On graphs of more
        than a few hundred nodes, only the sets for evenly spaced nodes are used, and the plan's details contain
        `thinned`.
    lazy : bool, optional
        As in `canonical_schedule`. By default both are tried, or only True if there are more than about 300 sets.
    cap : int
        Maximum number of lower sets of the exact family.

    References
    ----------
    kusumoto2019, section 4, with the simulated peak instead of formula (2).
    """
    if lazy not in (True, False, None):
        raise ArgumentError("lazy is {lazy!r}; use True, False or None", lazy=lazy)
    sets = _sets(graph, family, cap)
    few = len(sets) <= tuning.FEW_SETS
    lazies = (True, False) if lazy is None and few else (lazy is not False,)
    one_block = evaluated(graph, canonical_schedule(graph, sets.chain([]), lazy=lazies[0]))
    # A chain with a higher peak than the chain of one block is never cheaper, so it is not needed.
    max_peak = baseline_peak(graph) if one_block.simulation is None else one_block.figures[0]
    yield replace(one_block, details=_details(sets, family, Point(0, max_peak, []), lazies[0]))
    fits = False
    for each in lazies:

        def candidate_of(point: Point, lazy: bool = each) -> Candidate:
            schedule = canonical_schedule(graph, sets.chain(point.rows), lazy=lazy)
            return evaluated(graph, schedule, _details(sets, family, point, lazy))

        if task.limit is None or len(sets) <= tuning.TINY_FAMILY:
            yield from map(candidate_of, _curve(_program(sets, each, max_peak, clock), few, graph.n_nodes))
        elif few:
            fits = yield from _near(sets, each, max_peak, task.limit, candidate_of, clock, fits)
        else:
            yield from map(candidate_of, _best_of_many(sets, each, max_peak, task.limit, clock))


def _details(sets: LowerSetFamily, family: str, point: Point, lazy: bool) -> Details:
    graph = sets.graph
    details: dict[str, Any] = {"family": family, "lower_sets": len(sets)}
    if sets.thinned:
        details["thinned"] = True
    details |= {"promise": point.peak, "promised_overhead": point.cost}
    if graph.updates.any() or (graph.mark is not None and (graph.mark == RECOMPUTE).any()):
        # Delayed updates, and nodes recomputed because of a mark, affect several blocks. The promise is then not valid.
        details |= {"promise": None, "promised_overhead": None}
    return {**details, "blocks": len(sets.chain(point.rows)), "keep_last": True, "lazy": lazy}


def _sets(graph: ComputationGraph, family: str, cap: int) -> LowerSetFamily:
    """Return the lower sets of a family, fewer on large graphs; raise GraphError if there are still too many."""
    n_nodes = int((graph.forward & graph.needed).sum())
    max_sets = max(tuning.COARSE_SETS, math.isqrt(tuning.MAX_VISITS // max(1, n_nodes)))
    sets = lower_set_family(graph, family, cap=cap, max_sets=max_sets)
    if len(sets) > 2 * max_sets:
        raise GraphError("{n_sets:,} lower sets are too many for this solver; use the family wide", n_sets=len(sets))
    return sets


def _program(
    sets: LowerSetFamily, lazy: bool, max_peak: int, clock: Clock, max_recompute: int | None = None
) -> ChainProgram:
    clock.stage(sets.pairs[1].size, "blocks", part=tuning.TABLE_PROGRESS)
    figures = block_figures(
        sets.graph,
        sets.on_graph(),
        *sets.pairs,
        lazy=lazy,
        max_peak=max_peak,
        max_recompute=max_recompute,
        chains=True,
        check=clock.progress,
    )
    return ChainProgram.by_blocks(sets, figures, max_peak, clock)


def _curve(program: ChainProgram, whole: bool, n_nodes: int) -> Iterator[Point]:
    """Yield the Pareto points of predicted peak (promise) and cost. If not `whole`, try only a grid of promises."""
    if whole:
        yield from evenly(program.frontier(), n_nodes)
        return
    for promise in coarse_first(geometric(program.least_budget(), program.max_peak, tuning.GRID_BUDGETS)):
        point = program.cheapest(promise)
        if point is not None:
            yield point


def _near(
    sets: LowerSetFamily,
    lazy: bool,
    max_peak: int,
    limit: int,
    candidate_of: Callable[[Point], Candidate],
    clock: Clock,
    fits: bool,
) -> Generator[Candidate, None, bool]:
    """Yield the best chains for promises near a limit, then for larger promises while the simulated schedules fit.

    The best chains of a small subfamily bound the peak and the cost of the best chains of the whole family. Only blocks
    within these bounds are simulated. `fits` is True if a chain with the other value of `lazy` fits. If so, promises
    far above the limit are not tried. Return True if `fits` is True or a chain with this value of `lazy` fits.
    """
    some = _program(sets.subset(spread(len(sets), tuning.SOME_SETS)), lazy, max_peak, clock)
    reached = some.least_budget()
    around, above = tuning.PROMISES_AROUND, tuning.PROMISES_ABOVE
    largest = around[1] * limit if fits or reached <= limit else max(around[1] * limit, above[1] * reached)
    dearest = some.cheapest(max(reached, int(around[0] * limit)))
    program = _program(sets, lazy, min(int(largest), max_peak), clock, None if dearest is None else dearest.cost)
    lowest = program.least_budget()
    if lowest > program.max_peak:
        return fits
    low, high = (share * limit for share in around) if lowest <= limit else (share * lowest for share in above)
    promises = geometric(max(lowest, int(low)), min(int(high), program.max_peak), tuning.PROMISES)
    waiting, highest = [max(lowest, min(limit, program.max_peak)), *coarse_first(promises)], promises[-1]
    # Key: the promise of a chain. Value: the largest requested promise for which this chain is optimal.
    answered: dict[int, int] = {}
    largest_fits, cheapest = (0, False), UNUSABLE
    while waiting:
        promise = waiting.pop(0)
        known = any(own <= promise <= largest for own, largest in answered.items())
        point = None if known else program.cheapest(promise)
        if point is not None and point.peak not in answered:
            candidate = candidate_of(point)
            yield candidate
            largest_fits = max(largest_fits, (point.peak, not rank_of(candidate, limit)[0]))
        if point is not None:
            answered[point.peak] = max(promise, answered.get(point.peak, 0))
            cheapest = min(cheapest, point.cost)
        if not waiting and largest_fits[1] and highest < max_peak:
            highest = min(int(highest * tuning.PROMISE_GROWTH) + 1, max_peak)
            waiting = [highest]
            if highest > program.max_peak:
                program = _program(sets, lazy, min(int(highest * tuning.WIDER_PROMISE), max_peak), clock, cheapest)
    return fits or lowest <= limit


def _best_of_many(sets: LowerSetFamily, lazy: bool, max_peak: int, limit: int, clock: Clock) -> Iterator[Point]:
    """Yield the cheapest chain whose promise is within the limit, else the one with the lowest promise."""
    rows = spread(len(sets), tuning.COARSE_SETS)
    some = sets.subset(rows)
    program = _program(some, lazy, min(limit, max_peak), clock)
    first = program.cheapest(program.max_peak)
    if first is not None:
        yield _among_all(first, rows)
    every = _program(sets, lazy, program.max_peak, clock, None if first is None else first.cost)
    point = every.cheapest(every.max_peak, None if first is None else first.cost)
    if point is not None:
        yield point
    if point is not None or first is not None:
        return
    program = _program(some, lazy, max_peak, clock)
    lowest = program.least_budget()
    first = program.cheapest(lowest)
    if first is not None:
        yield _among_all(first, rows)
    every = _program(sets, lazy, lowest, clock)
    point = every.cheapest(every.least_budget())
    if point is not None:
        yield point


def _among_all(point: Point, rows: Int64) -> Point:
    """Convert the rows of a point from row numbers of a subfamily to those of the whole family."""
    return replace(point, rows=rows[point.rows].tolist())
