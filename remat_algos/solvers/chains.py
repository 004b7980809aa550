"""Chains of lower sets that are best by figures of their steps: the dynamic programs, driven.

Whatever the figures are, those of formulas (1) and (2) or those of blocks as they are executed, a chain is a path
through a family from the empty set to the whole part, its cost is the sum over its steps, and its peak the greatest
of what is cached before a step and what the step needs.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from remat_algos.ir.arrays import Int64
from remat_algos.kernels import _lattice, _lower_set_dp
from remat_algos.schedule.blocks import BlockFigures
from remat_algos.solvers.watch import Watch
from remat_algos.structure.lower_set_families import LowerSetFamily

LEVELS = 4096  # costs that a table tells apart
TABLES = 2**30  # bytes that the rows of a table may take
WORK = 2_000_000  # relaxations and visits between two looks at the watch, a tenth of a second
STORED = 2_000_000  # steps that are kept; more are found again whenever they are asked for
PIECE = 100_000  # lower sets between two looks at the watch
FIRST_CAP = 16
GROWTH = 3.0  # of the work from one cap to the next
SLACK = 64  # parts of the range of costs that one pass of labels may take

Rows = list[int]


@dataclass(frozen=True, slots=True)
class Point:
    """A chain by its rows, with its cost and its peak."""

    cost: int
    peak: int
    rows: Rows


class Chains:
    """The chains of a family under one kind of figures.

    Parameters
    ----------
    steps : Steps
    most : int
        No peak is higher.
    costs : int
        No cost is higher.
    unit : int
        All costs are multiples of it.
    watch : Watch
    """

    def __init__(self, steps: _lower_set_dp.Steps, most: int, costs: int, unit: int, watch: Watch) -> None:
        self.steps = steps
        self.most = most
        self.costs = costs
        self.unit = max(1, unit)
        self.watch = watch
        self.work = 0
        self.rounded = 0

    @classmethod
    def by_formulas(cls, family: LowerSetFamily, watch: Watch, *, keep_last: bool, kept: bool = False) -> "Chains":
        """By formulas (1) and (2); with `kept` the cost is the compute of what is kept, the complement of (1)."""
        graph, nodes = family.graph, family.nodes
        memory, compute = graph.node_memory[nodes], graph.compute[nodes]
        attributes = _attributes(family, memory, compute, watch)
        steps = _lower_set_dp.Steps(family.words, memory, compute, *attributes, family.covers, kept, keep_last)
        if len(family) ** 2 <= 2 * STORED:
            steps.store(*family.pairs)
        return cls(steps, 2 * int(memory.sum()), int(compute.sum()), _common_unit(compute), watch)

    @classmethod
    def by_blocks(cls, family: LowerSetFamily, figures: BlockFigures, most: int, watch: Watch) -> "Chains":
        """By what blocks hold and cost when they are executed; steps that hold more than `most` are left out."""
        memory = family.graph.node_memory[family.nodes]
        nothing = np.zeros(len(family), np.int64), np.zeros(0, np.int32)
        attributes = nothing[0], nothing[0], nothing[0], np.zeros(len(family) + 1, np.int64), nothing[1]
        steps = _lower_set_dp.Steps(family.words, memory, memory, *attributes, None, False, True)
        steps.store_figures(*family.pairs, figures.held, figures.cached, figures.rerun, most)
        usable = figures.rerun[figures.held <= most]
        return cls(steps, most, int(usable.max(initial=0)) * len(family), _common_unit(usable), watch)

    def least_budget(self, below: int | None = None) -> int:
        """The least peak of all chains; `below` is known to be reached."""
        if self.steps.size < 2:
            return 0
        search = _lower_set_dp.LeastBudget(self.steps, (self.most if below is None else below) + 1)
        self._run(search, "the least budget")
        return int(search.budget)

    def least_cost(self, budget: int, most: int | None = None) -> Rows | None:
        """The cheapest chain within a budget, None if there is none that costs at most `most`.

        A table tells `LEVELS` costs apart. Where the cheapest chain costs more units than that, costs are counted in
        larger ones, `rounded`, and each step is rounded; so the chain may cost that much more for each block.
        """
        if self.steps.size < 2:
            return []
        most = self.costs if most is None else min(most, self.costs)
        least = _lower_set_dp.cost_bound(self.steps, budget) if self.steps.stored_all else 0
        if not 0 <= least <= most:
            return None
        for unit, cap in self._caps(least, most):
            table = _lower_set_dp.Rows(self.steps, budget, unit, cap)
            self._run(table, "the cheapest chain")
            self.work, self.rounded = table.work, unit if unit != self.unit else 0
            if table.best() >= 0:
                rows = table.chain()
                return rows if unit == self.unit or self.cost(rows) <= most else None
        return None

    def least_cache(self, budget: int, most: int | None = None) -> Rows | None:
        """The chain within a budget that caches least, None if there is none that caches at most so much."""
        if self.steps.size < 2:
            return []
        search = _lower_set_dp.LeastCache(self.steps, budget, self.most if most is None else most)
        self._run(search, "the chain that caches least")
        return search.chain()

    def frontier(self) -> list[Point]:
        """All chains that no other beats in both cost and peak, costs rising."""
        if self.steps.size < 2:
            return [Point(0, 0, [])]
        found = self._between_budgets() if self.steps.stored_all else self._one_by_one()
        return _undominated(self.point(rows) for rows in found)

    def point(self, rows: Rows) -> Point:
        """A chain with its figures."""
        cost, peak = self.steps.figures(np.array([0, *rows], np.int64))
        return Point(cost, peak, rows)

    def cost(self, rows: Rows) -> int:
        """The sum over the steps of a chain."""
        return self.point(rows).cost

    def _caps(self, least: int, most: int) -> Iterator[tuple[int, int]]:
        """(unit, highest cost in units) of tables, each with about `GROWTH` times the work of the one before."""
        levels = int(np.clip(TABLES // (8 * self.steps.size), 64, LEVELS))
        cap, cap_before, work_before = max(FIRST_CAP * self.unit, least), 0, 0
        while True:
            cap = min(cap, most)
            unit = self.unit * max(1, math.ceil(cap / (levels * self.unit)))
            # a chain has at most as many steps as there are nodes, and each is rounded by half a unit at most
            yield unit, cap // unit + (0 if unit == self.unit else self.steps.nodes // 2 + 1)
            if cap >= most:
                return
            factor = 2.0
            if cap_before:
                power = math.log(max(2.0, self.work / work_before)) / math.log(cap / cap_before)
                factor = min(2.0, max(1.1, GROWTH ** (1 / power)))
            cap_before, work_before = cap, max(1, self.work)
            cap = max(cap + self.unit, int(cap * factor))

    def _run(self, search: Any, what: str) -> None:
        self.watch.begin(self.steps.size, what)
        while not search.advance(WORK):
            self.watch.reached(search.current)
        self.watch.reached(self.steps.size)

    def _one_by_one(self) -> Iterator[Rows]:
        """The cheapest chain, then the cheapest with a lower peak, and so on."""
        budget = self.most
        while (rows := self.least_cost(budget)) is not None:
            yield rows
            budget = self.point(rows).peak - 1

    def _between_budgets(self) -> Iterator[Rows]:
        """All points between two budgets whose cheapest chains are known, in one pass of labels.

        The table of the larger budget says which labels can still be completed; the closer the costs of the two, the
        fewer they are. So budgets are halved until the costs are close.
        """
        least = self.least_budget()
        rows = self.least_cost(least)
        dearest = self.cost(rows or [])
        levels = int(np.clip(TABLES // (16 * self.steps.size), 64, LEVELS // 2))
        unit = self.unit * max(1, math.ceil((dearest + 1) / (levels * self.unit)))
        self.rounded = unit if unit != self.unit else 0
        dearest = dearest // unit if unit == self.unit else dearest // unit + len(rows or [])  # each step is rounded
        table = _lower_set_dp.Completion(self.steps, self.most, unit, dearest)
        waiting = [(least, dearest + 1, self.most, table.best())]
        while waiting:
            low, dear, high, cheap = waiting.pop()
            if dear <= cheap or cheap < 0:
                continue
            if dear - cheap > max(4, dearest // SLACK) and high - low > 1:
                middle = (low + high) // 2
                between = _lower_set_dp.Completion(self.steps, middle, unit, dear - 1).best()
                between = dear if between < 0 else between
                waiting += [(low, dear, middle, between), (middle, between, high, cheap)]
                self.watch.reached(0)
                continue
            labels = _lower_set_dp.Between(_lower_set_dp.Completion(self.steps, high, unit, dear - 1))
            self._run(labels, "the frontier")
            yield from labels.found()


def _attributes(family: LowerSetFamily, memory: Int64, compute: Int64, watch: Watch) -> tuple[Any, ...]:
    """What the formulas need of each set, found in pieces, so that time is looked at."""
    watch.begin(len(family), "what each lower set holds")
    watch.reached(0)
    pieces = []
    for begin in range(0, len(family), PIECE):
        words = family.words[begin : begin + PIECE]
        pieces.append(_lattice.attributes(words, *family.edges, memory, compute))
        watch.reached(begin + len(words))
    held, cost, beside, indptr, boundary = (list(arrays) for arrays in zip(*pieces, strict=True))
    ends = np.cumsum([0, *(each[-1] for each in indptr)])
    indptr = [each[1:] + end for each, end in zip(indptr, ends[:-1], strict=True)]
    return (*map(np.concatenate, (held, cost, beside)), np.concatenate([[0], *indptr]), np.concatenate(boundary))


def _undominated(points: Iterable[Point]) -> list[Point]:
    """Those that no other beats in both cost and peak, costs rising."""
    found: list[Point] = []
    for point in sorted(points, key=lambda point: (point.cost, point.peak)):
        if not found or point.peak < found[-1].peak:
            found.append(point)
    return found


def _common_unit(costs: Int64 | Sequence[int]) -> int:
    return int(np.gcd.reduce(np.asarray(costs, np.int64), initial=0))
