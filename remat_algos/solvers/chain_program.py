"""The dynamic programs over chains of lower sets.

A chain is a path through a family from the empty set to the whole part. Its cost is the sum over its steps; its peak
is the maximum over its steps of what is cached before the step and what the step needs. The figures of the steps are
those of formulas (1) and (2), or those of simulated blocks.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from remat_algos.context import Clock
from remat_algos.ir.arrays import Int64
from remat_algos.kernels.lower_set_dp import (
    ChainSteps,
    Completion,
    MinimumBudget,
    MinimumCache,
    MinimumCost,
    MinimumPeaks,
    cost_bound,
)
from remat_algos.kernels.lower_sets import lower_set_figures
from remat_algos.schedule.block_figures import BlockFigures
from remat_algos.solvers.candidates import pareto
from remat_algos.structure.lower_sets import LowerSetFamily

LEVELS = 4096  # cost levels that a table distinguishes
TABLES = 2**30  # bytes that the rows of a table may take
WORK = 2_000_000  # relaxations and visits between deadline checks, 0.1 s
STORED = 2_000_000  # maximum stored steps; beyond, steps are recomputed when read
PIECE = 100_000  # lower sets between two checks of the deadline
FIRST_CAP = 16  # units of cost that the first table reaches
GROWTH = 3.0  # factor of the work from one table to the next, which reaches a higher cost
ONE_OF_MANY = 0.1  # progress share per table, while their number is unknown
SLACK = 64  # parts of the range of costs that one pass of labels may take


@dataclass(frozen=True, slots=True)
class Point:
    """A chain with its cost and its peak.

    `rows` are rows of the family, rising, without the first; `rounded` is the unit of cost with which the chain was
    found, 0 if costs were exact.
    """

    cost: int
    peak: int
    rows: list[int]
    rounded: int = 0


class ChainProgram:
    """The chains of a lower-set family under one cost model; all costs are multiples of `unit`."""

    def __init__(self, steps: ChainSteps, max_peak: int, max_cost: int, unit: int, clock: Clock) -> None:
        self.steps = steps
        self.max_peak = max_peak
        self.max_cost = max_cost
        self.unit = max(1, unit)
        self.clock = clock

    @classmethod
    def by_formulas(
        cls, family: LowerSetFamily, clock: Clock, *, keep_last: bool, kept: bool = False
    ) -> "ChainProgram":
        """Chains by kusumoto2019's overhead (1) and peak (2); with `kept` the cost is the compute of kept nodes."""
        graph, nodes = family.graph, family.nodes
        memory, compute = graph.node_memory[nodes], graph.compute[nodes]
        figures = _set_figures(family, memory, compute, clock)
        steps = ChainSteps(
            family.words,
            memory=memory,
            compute=compute,
            **figures,
            covers=family.covers,
            kept=kept,
            keep_last=keep_last,
        )
        if len(family) ** 2 <= 2 * STORED:
            steps.store(*family.pairs)
        return cls(steps, 2 * int(memory.sum()), int(compute.sum()), _common_unit(compute), clock)

    @classmethod
    def by_blocks(cls, family: LowerSetFamily, figures: BlockFigures, max_peak: int, clock: Clock) -> "ChainProgram":
        """Chains by the simulated memory and compute of blocks; steps that need more than `max_peak` are left out."""
        memory = family.graph.node_memory[family.nodes]
        zeros = np.zeros(len(family), np.int64)
        steps = ChainSteps(
            family.words,
            memory=memory,
            compute=memory,
            set_memory=zeros,
            cost=zeros,
            beside=zeros,
            boundary_indptr=np.zeros(len(family) + 1, np.int64),
            boundary=np.zeros(0, np.int32),
            covers=None,
            kept=False,
            keep_last=True,
        )
        adds, cost = figures.cached, figures.recompute
        steps.store_figures(*family.pairs, need=figures.peak, adds=adds, cost=cost, max_need=max_peak)
        usable = figures.recompute[figures.peak <= max_peak]
        return cls(steps, max_peak, int(usable.max(initial=0)) * len(family), _common_unit(usable), clock)

    def least_budget(self, below: int | None = None) -> int:
        """Return the minimum peak of all chains; `below` is known to be reachable."""
        if self.steps.size < 2:
            return 0
        search = MinimumBudget(self.steps, (self.max_peak if below is None else below) + 1)
        self._run(search)
        return int(search.budget)

    def cheapest(self, budget: int, max_cost: int | None = None) -> Point | None:
        """Return the cheapest chain within a budget, None if every chain within it costs more than `max_cost`.

        A table distinguishes `LEVELS` costs. Where the cheapest chain costs more units than that, costs are counted in
        larger ones, `rounded`, and each step is rounded; so the chain may cost that much more for each block.
        """
        if self.steps.size < 2:
            return Point(0, 0, [])
        max_cost = self.max_cost if max_cost is None else min(max_cost, self.max_cost)
        lower_bound = cost_bound(self.steps, budget) if self.steps.stored_all else 0
        if not 0 <= lower_bound <= max_cost:
            return None
        levels = int(np.clip(TABLES // (8 * self.steps.size), 64, LEVELS))
        cap, before, work_before = min(max(FIRST_CAP * self.unit, lower_bound), max_cost), 0, 0
        while True:
            unit = self._unit(cap, levels)
            rounded = unit if unit != self.unit else 0
            # A chain has at most n steps, and rounding errs by at most half a unit per step.
            table = MinimumCost(self.steps, budget, unit, cap // unit + bool(rounded) * (self.steps.nodes // 2 + 1))
            self._run(table)
            if table.best() >= 0:
                point = self.point(table.chain(), rounded)
                return point if not rounded or point.cost <= max_cost else None
            if cap >= max_cost:
                return None
            factor = 2.0
            if before:  # choose the next cap for `GROWTH` times the work
                power = math.log(max(2.0, table.work / work_before)) / math.log(cap / before)
                factor = min(2.0, max(1.1, GROWTH ** (1 / power)))
            before, work_before = cap, max(1, table.work)
            cap = min(max(cap + self.unit, int(cap * factor)), max_cost)

    def minimum_cache(self, budget: int, max_cache: int | None = None) -> Point | None:
        """Return the chain within a budget that caches fewest bytes, None if every one caches more than `max_cache`."""
        if self.steps.size < 2:
            return Point(0, 0, [])
        search = MinimumCache(self.steps, budget, self.max_peak if max_cache is None else max_cache)
        self._run(search)
        rows = search.chain()
        return None if rows is None else self.point(rows)

    def frontier(self) -> list[Point]:
        """Return the Pareto points of all chains in cost and peak, peaks rising."""
        if self.steps.size < 2:
            return [Point(0, 0, [])]
        points = self._between_budgets() if self.steps.stored_all else self._one_by_one()
        return pareto(points, lambda point: (point.peak, point.cost))

    def point(self, rows: list[int], rounded: int = 0) -> Point:
        """Return a chain with its figures."""
        cost, peak = self.steps.figures(np.array([0, *rows], np.int64))
        return Point(cost, peak, rows, rounded)

    def _unit(self, cost: int, levels: int) -> int:
        """Return the smallest unit in which a cost is at most `levels`."""
        return self.unit * max(1, math.ceil(cost / (levels * self.unit)))

    def _run(self, search: Any) -> None:
        self.clock.stage(self.steps.size, "lower sets", part=ONE_OF_MANY)
        while not search.advance(WORK):
            self.clock.progress(search.current)
        self.clock.progress(self.steps.size)

    def _one_by_one(self) -> Iterator[Point]:
        """Yield the cheapest chain, then the cheapest with a lower peak, and so on."""
        budget = self.max_peak
        while (point := self.cheapest(budget)) is not None:
            yield point
            budget = point.peak - 1

    def _between_budgets(self) -> Iterator[Point]:
        """Yield all points between two budgets whose cheapest chains are known, in one pass of labels.

        The table of the larger budget says which labels can still be completed; the closer the costs of the two, the
        fewer they are. So budgets are halved until the costs are close.
        """
        least = self.least_budget()
        lowest = self.cheapest(least) or Point(0, 0, [])
        unit = self._unit(lowest.cost + 1, int(np.clip(TABLES // (16 * self.steps.size), 64, LEVELS // 2)))
        rounded = unit if unit != self.unit else 0
        dearest = lowest.cost // unit + bool(rounded) * len(lowest.rows)  # each step is rounded
        table = Completion(self.steps, self.max_peak, unit, dearest)
        waiting = [(least, dearest + 1, self.max_peak, table.best())]
        while waiting:
            low, dear, high, cheap = waiting.pop()
            if dear <= cheap or cheap < 0:
                continue
            if dear - cheap > max(4, dearest // SLACK) and high - low > 1:
                middle = (low + high) // 2
                between = Completion(self.steps, middle, unit, dear - 1).best()
                between = dear if between < 0 else between
                waiting += [(low, dear, middle, between), (middle, between, high, cheap)]
                self.clock.check()
                continue
            labels = MinimumPeaks(Completion(self.steps, high, unit, dear - 1))
            self._run(labels)
            for rows in labels.chains():
                yield self.point(rows, rounded)


def _set_figures(family: LowerSetFamily, memory: Int64, compute: Int64, clock: Clock) -> dict[str, NDArray[Any]]:
    """Return the figures of each set for the formulas, computed in pieces, so that the deadline is checked."""
    clock.stage(len(family), "lower sets", part=ONE_OF_MANY)
    clock.check()
    edges = dict(zip(("pred_indptr", "pred", "succ_indptr", "succ"), family.edges, strict=True))
    pieces = []
    for begin in range(0, len(family), PIECE):
        words = family.words[begin : begin + PIECE]
        pieces.append(lower_set_figures(words, **edges, memory=memory, compute=compute))
        clock.progress(begin + len(words))
    memory_of, cost, beside, indptr, boundary = (list(arrays) for arrays in zip(*pieces, strict=True))
    ends = np.cumsum([0, *(each[-1] for each in indptr)])
    indptr = [each[1:] + end for each, end in zip(indptr, ends[:-1], strict=True)]
    return {
        "set_memory": np.concatenate(memory_of),
        "cost": np.concatenate(cost),
        "beside": np.concatenate(beside),
        "boundary_indptr": np.concatenate([[0], *indptr]),
        "boundary": np.concatenate(boundary),
    }


def _common_unit(costs: Int64) -> int:
    return int(np.gcd.reduce(costs, initial=0))
