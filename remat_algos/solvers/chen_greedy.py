"""Greedy segmentation under a budget per segment."""

import math
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from remat_algos.allocate.buffers import Buffers
from remat_algos.allocate.in_place import in_place
from remat_algos.allocate.sharing import share
from remat_algos.ir.arrays import Bool, Int64
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.wording import shortened
from remat_algos.schedule.simulation import Simulation
from remat_algos.solvers.cost_per_byte import cost_per_byte
from remat_algos.solvers.registry import solver, training_graph
from remat_algos.solvers.segments import both, candidate_kinds, candidate_places, segment_counts
from remat_algos.solvers.selection import MOST_PLANS, Plans, best, coarse_first, most_plans, undominated
from remat_algos.solvers.watch import Watch
from remat_algos.structure.articulation import ForwardPart

PAPER_GRID = 6
MOST_CUTS = 1_000_000  # that an exact sweep may list, a second or so
MOST_COSTS = 16  # above which nodes are kept for their cost
LEAST_BUDGETS = 16  # to each of these


@solver(paper="chen2016", needs=training_graph)
def chen_greedy(
    graph: ComputationGraph,
    limit: int | None,
    *,
    grid: str = "exact",
    rank_by: str = "peak",
    candidates: str | None = None,
    keep_last: bool | None = None,
    weigh_cost: bool = False,
    time_limit: float | None = None,
    progress: Progress | None = None,
) -> Solution:
    """Walk along the forward part and cut as soon as a segment outgrows a budget; try all budgets that differ.

    Parameters
    ----------
    grid : {"exact", "paper"}
        Every distinct plan, or the budgets of appendix A: 0, B = sqrt(x y), and six from B / sqrt 2 to B sqrt 2. The
        paper does not say how the six are spaced; here each is the same factor above the one before. On graphs with
        more than 2,000 distinct plans the budgets of "exact" grow geometrically, which the plan's details say.
    rank_by : {"peak", "allocation"}
        What counts as the memory of a plan: its simulated peak, or, as in appendix A, what the paper's static
        allocator needs for it (`in_place` and `share`). Under a limit both must fit. Give `raw=True` to `solve` for
        the plan as it is chosen, since its passes compare by peak.
    candidates : {"articulation", "all"}, optional
        Cut where one value alone is alive, or anywhere; by default the better.
    keep_last : bool, optional
        Whether the nodes after the last cut are kept; by default the better. The paper's algorithm does not.
    weigh_cost : bool
        Whether time-consuming nodes are kept in the middle of segments too: those whose compute per byte, as
        `drop_cheap` has it, reaches a threshold, for up to 16 thresholds from the graph, and for none. They do not
        count in a segment, since they stay in memory in any case. The paper only remarks that one can try to keep
        them where possible.

    References
    ----------
    chen2016, section 4.3, algorithm 3, and appendix A.

    Examples
    --------
    >>> from remat_algos.ir.differentiate import differentiate
    >>> chain = differentiate(ComputationGraph.from_edges([(i, i + 1) for i in range(8)]))
    >>> len(chen_greedy(chain, 7).schedule) - chain.n_nodes
    4
    """
    watch = Watch(time_limit)
    plans = _plans(graph, watch, grid, candidates, keep_last, weigh_cost)
    if not _by_allocation(rank_by):
        return best(graph, plans, limit, watch.left, progress)
    size = allocated if limit is None else _largest
    found = best(graph, plans, limit, watch.left, progress, size)
    return replace(_with_allocation(found), others=())  # the others would be compared by peak


def frontier(
    graph: ComputationGraph,
    *,
    rank_by: str = "peak",
    time_limit: float | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> list[Solution]:
    """All plans that no other dominates in memory and compute; the options of `chen_greedy`.

    With `rank_by="allocation"` the plan of the smallest allocation comes first, and no other has a lower peak, so that
    it is the one taken where the least memory is wanted.
    """
    watch = Watch(time_limit)
    plans = _plans(graph, watch, **options)
    if not _by_allocation(rank_by):
        return undominated(graph, plans, watch.left, progress)
    first, *others = map(_with_allocation, undominated(graph, plans, watch.left, progress, allocated))
    return [first, *(each for each in others if _peak(each) > _peak(first))]


def _by_allocation(rank_by: str) -> bool:
    if rank_by not in ("peak", "allocation"):
        raise ValueError(f"rank_by is {shortened(repr(rank_by))}; use peak or allocation")
    return rank_by == "allocation"


def allocated(simulation: Simulation) -> int:
    """Bytes that the paper's static allocator needs: values in place where they may be, blocks shared.

    Examples
    --------
    >>> from remat_algos.ir.differentiate import differentiate
    >>> from remat_algos.schedule.simulation import simulate
    >>> chain = differentiate(ComputationGraph.from_edges([(0, 1), (1, 2), (2, 3), (3, 4)], memory=[9, 1, 8, 1, 7]))
    >>> once = simulate(chain, range(chain.n_nodes))
    >>> once.peak_memory, allocated(once)
    (34, 36)
    """
    return share(Buffers.of(simulation, in_place(simulation))).size


def _largest(simulation: Simulation) -> int:
    """What both ways to count memory need."""
    return max(simulation.peak_memory, allocated(simulation))


def _with_allocation(solution: Solution) -> Solution:
    """The same, whose details say the size of its allocation."""
    simulation = solution.simulation
    size = allocated(simulation) if simulation is not None else 0
    return replace(solution, details={**solution.details, "allocation": size})


def _peak(solution: Solution) -> int:
    return solution.simulation.peak_memory if solution.simulation is not None else 0


def _plans(
    graph: ComputationGraph,
    watch: Watch,
    grid: str = "exact",
    candidates: str | None = None,
    keep_last: bool | None = None,
    weigh_cost: bool = False,
) -> Plans:
    if grid not in ("exact", "paper"):
        raise ValueError(f"grid is {shortened(repr(grid))}; use exact or paper")
    if weigh_cost not in (True, False):
        raise ValueError(f"weigh_cost is {shortened(repr(weigh_cost))}; use True or False")
    part = ForwardPart.of(graph)
    costly = _costly(graph, part) if weigh_cost else []
    plans: list[Any] = []
    for kind in candidate_kinds(candidates):
        places = candidate_places(part, kind)
        for cost, held in [(None, None), *costly]:
            if plans and watch.late:
                break
            walk = Walk(part.memory, places, held)
            if grid == "paper":
                found, sweep = paper_grid(walk), "paper"
            else:
                most = [MOST_PLANS, most_plans(graph)]
                if held is not None:  # the budgets that there may be are shared out
                    most = [max(LEAST_BUDGETS, budgets // len(costly)) for budgets in most]
                found, sweep = exact_sweep(walk, most[0], most[1], watch)
            for segmentation in found:
                chosen = {"budget": segmentation.budget, "candidates": kind, "sweep": sweep}
                if weigh_cost:
                    chosen["cost"] = cost
                for last in both(keep_last):
                    counts = partial(_counts, part, segmentation.cuts, last, held)
                    plans.append((counts, {**chosen, "keep_last": last}))
    return plans


def _costly(graph: ComputationGraph, part: ForwardPart) -> list[tuple[float, Bool]]:
    """Amounts of compute per byte, and bool[f]: which places hold nodes of at least as much."""
    cost = cost_per_byte(graph)[part.nodes]
    amounts = np.unique(cost[np.isfinite(cost)])
    some = np.unique(np.linspace(0, max(0, amounts.size - 1), MOST_COSTS).round().astype(np.int64))
    return [(float(amount), cost >= amount) for amount in amounts[some[: amounts.size]]]


def _counts(part: ForwardPart, cuts: list[int], keep_last: bool, held: Bool | None) -> Int64:
    counts = segment_counts(part, cuts, keep_last)
    if held is not None:
        counts[part.nodes[held]] = 0
    return counts


@dataclass(frozen=True, slots=True)
class Segmentation:
    """What algorithm 3 finds for one budget.

    Parameters
    ----------
    budget : int or float
        B: a segment is cut at the first candidate where it holds more.
    cuts : list of int
        Places after which it cuts.
    x : int
        Bytes of the nodes at the cuts and of what is held in any case, kept between the stages.
    y : int
        Bytes of the largest stage, the tail apart.
    next_budget : int
        The least budget with another plan; 0 if nothing was cut.
    """

    budget: float
    cuts: list[int]
    x: int
    y: int
    next_budget: int


class Walk:
    """Algorithm 3 on node memories int64[f], the places where it may cut, and bool[f] for what is held in any case.

    Examples
    --------
    >>> plan = Walk([1] * 8, range(8)).segmentation(2)
    >>> plan.cuts, plan.x, plan.y
    ([2, 5], 2, 3)
    """

    def __init__(self, memory: ArrayLike, places: ArrayLike, held: Bool | None = None) -> None:
        sizes = np.asarray(memory, np.int64)
        self.held = 0
        if held is not None:
            self.held = int(sizes[held].sum())
            sizes = np.where(held, 0, sizes)
        self.memory = sizes.tolist()
        self.places = np.asarray(places, np.int64).tolist()
        reached = np.cumsum(sizes, dtype=np.int64).tolist()
        self.total = reached[-1] if reached else 0
        self.reached = [reached[place] for place in self.places]

    def segmentation(self, budget: float) -> Segmentation:
        """The cuts for one budget; a segment is the sum of its nodes, cut when it is strictly more."""
        cuts, stages, start, at = [], [], 0, 0
        while (at := bisect_right(self.reached, start + budget, at)) < len(self.places):
            cuts.append(self.places[at])
            stages.append(self.reached[at] - start)
            start = self.reached[at]
            at += 1
        kept = self.held + sum(self.memory[place] for place in cuts)
        return Segmentation(budget, cuts, kept, max(stages, default=0), min(stages, default=0))


def exact_sweep(walk: Walk, most: int, otherwise: int, watch: Watch | None = None) -> tuple[list[Segmentation], str]:
    """Every distinct plan, or, past `most`, those of `otherwise` growing budgets; and which of the two it is.

    Where the time is over, those of as many of the growing budgets as were tried by then, spread over all of them.
    """
    watch = watch or Watch()
    found, work = [], 0
    for segmentation in _rising(walk):
        found.append(segmentation)
        work += len(segmentation.cuts)
        if len(found) > most or work > MOST_CUTS or watch.late:
            return _growing(walk, found[0], otherwise, watch), "thinned"
    return found, "exact"


def _growing(walk: Walk, first: Segmentation, count: int, watch: Watch) -> list[Segmentation]:
    """The plan of budget 0, and those of growing budgets, the most that there is time for."""
    least = max(1, first.next_budget)
    budgets = np.unique(np.geomspace(least, max(walk.total, least), count).round().astype(np.int64))
    found = [first]
    for budget in coarse_first(budgets[::-1].tolist()):  # the largest, which have the fewest cuts, come first
        found.append(walk.segmentation(budget))
        if watch.late:
            break
    return sorted(found, key=lambda segmentation: segmentation.budget)


def _rising(walk: Walk) -> Iterator[Segmentation]:
    """A plan changes only where the budget passes the size of a stage that was cut."""
    segmentation = walk.segmentation(0)
    yield segmentation
    while segmentation.cuts:
        segmentation = walk.segmentation(segmentation.next_budget)
        yield segmentation


def paper_grid(walk: Walk) -> list[Segmentation]:
    """The search of appendix A: 0 for x and y, B = sqrt(x y), and six budgets on [B / sqrt 2, sqrt 2 B].

    Their spacing, which the paper leaves open, is geometric.
    """
    first = walk.segmentation(0)
    middle = math.sqrt(first.x * first.y)
    around = [middle / math.sqrt(2) * 2 ** (i / (PAPER_GRID - 1)) for i in range(PAPER_GRID)]
    return [first, *(walk.segmentation(budget) for budget in (middle, *around))]
