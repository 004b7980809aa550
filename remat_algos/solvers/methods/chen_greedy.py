"""Algorithm 3 of chen2016: cut the forward part into segments of limited size, for many size limits."""

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from remat_algos.context import Clock, OutOfTime, Stop, until_stopped
from remat_algos.errors import ArgumentError
from remat_algos.ir.arrays import Bool, Int64
from remat_algos.ir.graph import ComputationGraph
from remat_algos.kernels.regions import greedy_cuts
from remat_algos.schedule.simulation import Simulation
from remat_algos.solvers import tuning
from remat_algos.solvers.candidate_rows import Recipe, both, coarse_first, cost_per_byte, longest_row, near
from remat_algos.solvers.registry import Candidate, Task, evaluated, keep_undominated, solver, training_graph
from remat_algos.structure.cuts import ForwardPart, candidate_kinds, candidate_places, segment_counts


@solver(paper="chen2016", needs=training_graph, price=0.06)
def chen_greedy(
    graph: ComputationGraph,
    task: Task,
    clock: Clock,
    *,
    grid: str = "exact",
    rank_by: str = "peak",
    candidates: str | None = None,
    keep_last: bool | None = None,
    weigh_cost: bool = False,
) -> Iterator[Candidate]:
    """Walk along the forward part and cut where a segment outgrows a budget; try every distinct budget.

    Parameters
    ----------
    grid : {"exact", "paper"}
        "exact" tries every distinct segmentation. If there are more than 2,000, it tries geometrically spaced budgets
        instead and records this in the plan's details. "paper" tries the budgets of appendix A: 0, B = sqrt(x y), and
        six geometrically spaced budgets from B / sqrt 2 to B sqrt 2. For budget 0, x is the number of bytes that are
        always kept, and y is the size of the largest segment except the last. The paper gives no number of budgets.
    rank_by : {"peak", "allocation"}
        Compare plans by simulated peak, or, as in appendix A, by the bytes that the paper's static allocator needs
        (`find_overwrites` and `share_storage`). Under a limit, both numbers must fit. With "allocation" use
        `solve(raw=True)`, since the passes of `solve` compare by peak.
    candidates : {"articulation", "all"}, optional
        Cut only where a single value is live, or anywhere; by default whichever is better.
    keep_last : bool, optional
        Keep the nodes after the last cut; the paper recomputes them. By default whichever is better.
    weigh_cost : bool
        Also keep expensive nodes inside segments, as the paper suggests. A node is expensive if its compute per byte
        reaches a threshold; up to 16 thresholds are tried. The bytes of expensive nodes do not count towards the size
        of a segment, since they always stay in memory.

    References
    ----------
    chen2016, section 4.3, algorithm 3, and appendix A.
    """
    if grid not in ("exact", "paper"):
        raise ArgumentError("grid is {grid!r}; use exact or paper", grid=grid)
    if rank_by not in ("peak", "allocation"):
        raise ArgumentError("rank_by is {rank_by!r}; use peak or allocation", rank_by=rank_by)
    if weigh_cost not in (True, False):
        raise ArgumentError("weigh_cost is {weigh_cost!r}; use True or False", weigh_cost=weigh_cost)
    rows = _rows(graph, clock, grid, candidates, keep_last, weigh_cost)
    if rank_by == "peak":
        return near(graph, rows, task.limit, clock)
    return _smallest_allocated(graph, near(graph, rows, None, clock), task.limit)


def _rows(
    graph: ComputationGraph, clock: Clock, grid: str, candidates: str | None, keep_last: bool | None, weigh_cost: bool
) -> list[list[Recipe]]:
    part = ForwardPart.of(graph)
    costs = _costs(graph, part) if weigh_cost else []
    kinds = candidate_kinds(candidates)
    walks = [(kind, candidate_places(part, kind), *weighed) for kind in kinds for weighed in [(None, None), *costs]]
    # The remaining time is spent on simulating the candidates.
    walking = clock.share(tuning.WALK_SHARE)
    clock.stage(len(walks), "walks", part=tuning.WALK_SHARE)
    rows: list[list[Recipe]] = []
    for done, (kind, places, cost, costly) in enumerate(walks):
        if rows and walking.late:
            clock.note(Stop.DEADLINE)
            break
        walk = Walk(part.memory, places, costly)
        if grid == "paper":
            segmentations, sweep = paper_grid(walk), "paper"
        else:
            max_budgets = [tuning.LONGEST_ROW, longest_row(graph)]
            if costly is not None:
                max_budgets = [max(tuning.FEWEST_BUDGETS, budgets // len(costs)) for budgets in max_budgets]
            part_of_time = walking.share(1 / (len(walks) - done))
            segmentations, sweep = exact_sweep(walk, max_budgets[0], max_budgets[1], part_of_time)
            clock.note(part_of_time.stop)
        chosen = {"candidates": kind, "sweep": sweep} | ({"cost": cost} if weigh_cost else {})
        for last in both(keep_last):
            rows.append(
                [
                    (
                        partial(_counts, part, segmentation.cuts, last, costly),
                        {"budget": segmentation.budget, **chosen, "keep_last": last},
                    )
                    for segmentation in segmentations
                ]
            )
        # At the deadline, return the finished rows.
        with suppress(OutOfTime):
            clock.progress(done + 1)
    return rows


def _costs(graph: ComputationGraph, part: ForwardPart) -> list[tuple[float, Bool]]:
    """Return up to `MAX_COSTS` thresholds of compute per byte, each with a mask of nodes at or above it, bool[f]."""
    cost = cost_per_byte(graph)[part.nodes]
    amounts = np.unique(cost[np.isfinite(cost)])
    some = np.unique(np.linspace(0, max(0, amounts.size - 1), tuning.MAX_COSTS).round().astype(np.int64))
    return [(float(amount), cost >= amount) for amount in amounts[some[: amounts.size]]]


def _counts(part: ForwardPart, cuts: list[int], keep_last: bool, costly: Bool | None) -> Int64:
    counts = segment_counts(part, cuts, keep_last)
    if costly is not None:
        counts[part.nodes[costly]] = 0
    return counts


# ---------------------------------------------------------------- appendix A: comparison by static allocation


def allocated(simulation: Simulation) -> int:
    """Return the bytes of the paper's static allocation, with in-place operations and shared storage."""
    from remat_algos.allocate.allocation import Buffers
    from remat_algos.allocate.in_place import find_overwrites
    from remat_algos.allocate.sharing import share_storage

    return share_storage(Buffers.of(simulation, find_overwrites(simulation))).size


def _smallest_allocated(
    graph: ComputationGraph, candidates: Iterator[Candidate], limit: int | None
) -> Iterator[Candidate]:
    """Yield the frontier, or under a limit the cheapest candidate that fits, else that with the smallest allocation."""
    # `fitting` is sorted by compute, `kept` by allocation.
    fitting, kept = list[Candidate](), list[Candidate]()
    unsound = None
    # After a deadline or an interrupt, the best candidates are yielded before the exception is raised again.
    with until_stopped() as ending:
        for each in candidates:
            candidate = evaluated(graph, each.schedule, each.details)
            if candidate.simulation is None:
                unsound = candidate
                continue
            candidate = replace(candidate, details={**candidate.details, "allocation": allocated(candidate.simulation)})
            keep_undominated(kept, candidate, lambda each: (each.details["allocation"], each.figures[1]))
            if limit is not None and max(candidate.details["allocation"], candidate.figures[0]) <= limit:
                keep_undominated(fitting, candidate, lambda each: each.figures[::-1])
    if not kept:
        yield from [unsound] if unsound is not None else []
    elif limit is not None:
        yield (fitting or kept)[0]
    else:
        first, *others = kept
        yield first
        yield from (each for each in others if each.figures[0] > first.figures[0])
    ending.stop.pass_on()


# ---------------------------------------------------------------- algorithm 3 and its budgets


@dataclass(frozen=True, slots=True)
class Segmentation:
    """The result of algorithm 3 for one budget: each segment ends at the first possible cut at which it is over budget.

    `cuts` are the positions of the nodes before the cuts. As in the paper, x is the number of bytes that are always
    kept, by nodes at cuts and by costly nodes. The largest segment except the last has y bytes. `next_budget` is the
    smallest budget above this one that gives different cuts; 0 if there are no cuts.
    """

    budget: float
    cuts: list[int]
    x: int
    y: int
    next_budget: int


class Walk:
    """Algorithm 3 for given bytes of nodes, int64[f], and possible cut positions; `costly` nodes are always kept."""

    def __init__(self, memory: ArrayLike, places: ArrayLike, costly: Bool | None = None) -> None:
        sizes = np.asarray(memory, np.int64)
        self.kept = 0
        if costly is not None:
            self.kept = int(sizes[costly].sum())
            sizes = np.where(costly, 0, sizes)
        self.memory = sizes
        self.places = np.asarray(places, np.int64)
        reached = np.cumsum(sizes, dtype=np.int64)
        self.total = int(reached[-1]) if reached.size else 0
        self.reached = reached[self.places]

    def segmentation(self, budget: float) -> Segmentation:
        whole = min(math.floor(budget), self.total)
        cuts, memory, largest, smallest = greedy_cuts(self.reached, self.places, self.memory, whole)
        return Segmentation(budget, cuts, self.kept + memory, largest, smallest)


def exact_sweep(
    walk: Walk, max_exact: int, otherwise: int, clock: Clock | None = None
) -> tuple[list[Segmentation], str]:
    """Return all distinct segmentations and "exact"; if too many, return `otherwise` or fewer of them and "thinned"."""
    clock = clock or Clock()
    segmentations, work, half = [], 0, clock.share(0.5)
    for segmentation in _rising(walk):
        segmentations.append(segmentation)
        work += len(segmentation.cuts)
        if len(segmentations) > max_exact or work > tuning.MAX_CUTS or half.late:
            if half.late:
                clock.note(Stop.DEADLINE)
            return _growing(walk, segmentations[0], otherwise, clock), "thinned"
    return segmentations, "exact"


def _growing(walk: Walk, first: Segmentation, count: int, clock: Clock) -> list[Segmentation]:
    """Return `first` and the segmentations for at most `count` geometrically spaced budgets; stop at the deadline."""
    lowest = max(1, first.next_budget)
    budgets = np.unique(np.geomspace(lowest, max(walk.total, lowest), count).round().astype(np.int64))
    segmentations = [first]
    # Start with the largest budgets, which have the fewest cuts and take the least time.
    for budget in coarse_first(budgets[::-1].tolist()):
        segmentations.append(walk.segmentation(budget))
        if clock.late:
            clock.note(Stop.DEADLINE)
            break
    return sorted(segmentations, key=lambda segmentation: segmentation.budget)


def _rising(walk: Walk) -> Iterator[Segmentation]:
    segmentation = walk.segmentation(0)
    yield segmentation
    while segmentation.cuts:
        segmentation = walk.segmentation(segmentation.next_budget)
        yield segmentation


def paper_grid(walk: Walk) -> list[Segmentation]:
    """Try the budgets of appendix A: 0, which gives x and y; B = sqrt(x y); and six from B / sqrt 2 to B sqrt 2."""
    first = walk.segmentation(0)
    middle = math.sqrt(first.x * first.y)
    around = [middle / math.sqrt(2) * 2 ** (i / 5) for i in range(6)]
    return [first, *(walk.segmentation(budget) for budget in (middle, *around))]
