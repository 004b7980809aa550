"""Plans from chains of lower sets that are best by formulas (1) and (2): what the two dynamic programs share."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from remat_algos.bounds.memory import least_peak_bound
from remat_algos.errors import BudgetError
from remat_algos.ir.budget import Budget
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.units import exact_bytes
from remat_algos.solvers.chains import Chains, Point
from remat_algos.solvers.registry import Solution
from remat_algos.solvers.sweep import Candidate, Sweep
from remat_algos.solvers.watch import OutOfTime, Watch
from remat_algos.structure.lower_set_families import CAP, LowerSetFamily, lower_set_family
from remat_algos.structure.lower_sets import LowerSets

STRATEGIES = ("time", "memory", "cache")
MEMORY_CENTRIC = (1.0, 1.1, 1.25, 1.5, 2.0)  # budgets, in times of the least, that are tried where nothing else fits
MOST_PAIRS = 50_000  # of lower sets, up to which all Pareto points are found; that takes half a second
MOST_SETS = 600
GRID = 48  # budgets that are tried beyond
SAMPLED = 16  # budgets at which a large lattice is solved


@dataclass(frozen=True, slots=True)
class Chosen:
    """A chain and how it was found."""

    chain: LowerSets
    strategy: str
    budget: int


class FormulaPlans:
    """Chains of a family that are best by the formulas, as plans for the judge.

    Parameters
    ----------
    graph : ComputationGraph
    family : {"exact", "wide", "pruned"}
    strategy : {"time", "memory", "cache"}, optional
    keep_last, lazy : bool, optional
        As in `canonical_schedule`; where `lazy` is None both are judged.
    cap : int
    watch : Watch
    """

    def __init__(
        self,
        graph: ComputationGraph,
        family: str,
        strategy: str | None,
        *,
        keep_last: bool,
        lazy: bool | None,
        cap: int,
        watch: Watch,
    ) -> None:
        check_choices(strategy, keep_last, lazy)
        self.graph = graph
        self.family = lower_set_family(graph, family, cap=cap)
        self.name = family
        self.strategy = strategy
        self.keep_last = keep_last
        self.lazy = lazy
        self.watch = watch
        # where a few sets cost little, they say below which cost to search all of them
        wide = lower_set_family(graph, "wide") if family == "exact" else self.family
        self.small = wide if len(wide) < len(self.family) else self.family
        self._chains: dict[tuple[bool, bool], Chains] = {}

    @cached_property
    def least_budget(self) -> int:
        """The least formula budget."""
        small = self._of(self.small).least_budget()
        return small if self.small is self.family else self._of(self.family).least_budget(small)

    def at(self, budget: int, limit: int | None) -> Solution:
        """The best chain by the formulas within a formula budget."""
        complete = True
        try:
            found = self._at(budget, self.strategy or "time")
        except OutOfTime:
            complete = False
            found = self._one_block() if self.small is self.family else self._small_at(budget, self.strategy or "time")
        if found is None:
            raise too_little(self.graph, self.name, budget, self.least_budget)
        return Sweep(self.graph, [self._candidate(found)], self.watch, complete).best(limit)

    def sweep(self) -> Sweep:
        """Chains for all formula budgets, the cheapest first; no limit on what is judged has a say in them.

        Where there are more than `MOST_SETS` sets, and not all of the lattice are asked for, they are thinned out.
        """
        if self.name != "exact":
            self.small = self.family = self.family.subset(self.family.spread(MOST_SETS))
        complete, found = True, list[Chosen]()
        try:
            for chosen in self._all():
                found.append(chosen)
        except OutOfTime:
            complete = False
        found.append(self._one_block())  # on paper others are as cheap and lower, but perhaps not when they are run
        return Sweep(self.graph, [self._candidate(chosen) for chosen in found], self.watch, complete)

    def points(self) -> list[Point]:
        """Every Pareto point of the formulas."""
        return self._of(self.family).frontier()

    def _all(self) -> Iterator[Chosen]:
        if self.strategy in (None, "time"):
            yield from self._time_centric()
        if self.strategy in (None, "memory"):
            yield from self._over_budgets("memory")
        if self.strategy == "cache":
            yield from self._over_budgets("cache")

    def _time_centric(self) -> Iterator[Chosen]:
        """The cheapest chains of the small family, and, where that is another, of the family."""
        for family in dict.fromkeys((self.small, self.family)):
            chains = self._of(family)
            if chains.steps.stored_all and family.pairs[1].size <= MOST_PAIRS:
                for point in chains.frontier():
                    yield Chosen(family.chain(point.rows), "time", point.peak)
            else:
                least = self.least_budget if family is self.family else chains.least_budget()
                for budget in geometric(least, chains.most, GRID if chains.steps.stored_all else SAMPLED):
                    yield self._within(budget, (self._at if family is self.family else self._small_at)(budget, "time"))

    def _over_budgets(self, strategy: str) -> Iterator[Chosen]:
        for budget in memory_centric_budgets(self.least_budget, self._of(self.family).most):
            yield self._within(budget, self._at(budget, strategy))

    def _within(self, budget: int, found: Chosen | None) -> Chosen:
        """A chain for a budget that is not below the least."""
        if found is None:
            raise ArithmeticError(f"no chain within {budget} bytes, though the least is no more")
        return found

    def _at(self, budget: int, strategy: str) -> Chosen | None:
        known = None if self.small is self.family else self._small_at(budget, strategy)
        chains = self._of(self.family, kept=strategy == "memory")
        if strategy == "cache":
            rows = chains.least_cache(budget, None if known is None else self._cached(known.chain))
        else:
            most = None if known is None else self._cost(known.chain, strategy) - 1
            rows = chains.least_cost(budget, most) if most is None or most >= 0 else None
        return known if rows is None else Chosen(self.family.chain(rows), strategy, budget)

    def _small_at(self, budget: int, strategy: str) -> Chosen | None:
        chains = self._of(self.small, kept=strategy == "memory")
        rows = chains.least_cache(budget) if strategy == "cache" else chains.least_cost(budget)
        return None if rows is None else Chosen(self.small.chain(rows), strategy, budget)

    def _one_block(self) -> Chosen:
        """What is left where there was no time: the chain that keeps everything."""
        return Chosen(self.family.chain([]), "time", self._of(self.family).most)

    def _cost(self, chain: LowerSets, strategy: str) -> int:
        """What the program minimises, for a chain of another family."""
        graph, again = self.graph, chain.overhead(self.graph)
        if self.keep_last:
            block = chain.blocks(graph)
            again -= int(graph.compute[block == len(chain) - 1].sum())
        return again if strategy == "time" else int(graph.compute[self.family.nodes].sum()) - again

    def _cached(self, chain: LowerSets) -> int:
        return int(self.graph.node_memory[chain.kept(self.graph)].sum())

    def _of(self, family: LowerSetFamily, kept: bool = False) -> Chains:
        key = (family is self.family, kept)
        if key not in self._chains:
            # the small family is solved whatever the time, so that there is something to fall back on
            watch = self.watch if family is self.family else Watch()
            self._chains[key] = Chains.by_formulas(family, watch, keep_last=self.keep_last, kept=kept)
        return self._chains[key]

    def _candidate(self, chosen: Chosen) -> Candidate:
        describe = partial(formula_details, self.graph, chosen, self.family, self.name)
        return Candidate(chosen.chain, self.keep_last, self.lazy, describe)


def check_choices(strategy: str | None, keep_last: bool, lazy: bool | None) -> None:
    """ValueError for an option that is none."""
    if strategy is not None and strategy not in STRATEGIES:
        raise ValueError(f"strategy is {strategy!r}; use {', '.join(STRATEGIES)}, or None for time, then memory")
    if keep_last not in (True, False):
        raise ValueError(f"keep_last is {keep_last!r}; use True or False")
    if lazy not in (True, False, None):
        raise ValueError(f"lazy is {lazy!r}; use True, False or None")


def geometric(least: int, most: int, count: int) -> list[int]:
    """So many budgets at growing distances, the largest first."""
    return (
        np.unique(np.geomspace(max(1, least), max(1, least, most), count).astype(np.int64)).clip(least)[::-1].tolist()
    )


def memory_centric_budgets(least: int, most: int) -> list[int]:
    """Formula budgets at which most overhead is tried, the largest first."""
    return sorted({min(most, int(least * times)) for times in MEMORY_CENTRIC}, reverse=True)


def formula_details(graph: ComputationGraph, chosen: Chosen, family: LowerSetFamily, name: str) -> dict[str, Any]:
    """What a plan says of its chain."""
    return {
        "family": name,
        "lower_sets": len(family),
        "strategy": chosen.strategy,
        "formula_budget": chosen.budget,
        "formula_peak": chosen.chain.peak(graph),
        "formula_overhead": chosen.chain.overhead(graph),
        "blocks": len(chosen.chain),
    }


def too_little(graph: ComputationGraph, family: str, budget: int, least: int) -> BudgetError:
    """The error for a formula budget below the least."""
    bound, nodes = least_peak_bound(graph)
    wider = "" if family == "exact" else f", or a wider family ({'wide or ' if family == 'pruned' else ''}exact_dp)"
    return BudgetError(
        f"no chain of the family {family} keeps formula (2) within {exact_bytes(budget)}; the least that does is "
        f"{exact_bytes(least)}; give that much{wider}",
        least,
        bound,
        nodes,
    )


def formula_bytes(budget: int | str) -> int:
    """Bytes of a formula budget: a number, or an amount such as "2.1GB"."""
    wrong = f"formula_budget is {budget!r}; give bytes, such as 2100000000, or an amount, such as 2.1GB"
    try:
        amount = Budget.of(budget)
    except (TypeError, ValueError) as error:
        raise ValueError(wrong) from error
    limit = amount.memory_limit(0, 0)
    if limit is None or amount.least or "%" in str(budget):
        raise ValueError(wrong)
    return limit


def least_budget(graph: ComputationGraph, family: str = "exact", *, cap: int = CAP) -> int:
    """The least budget within which formula (2) has a chain of lower sets.

    Parameters
    ----------
    graph : ComputationGraph
    family : {"exact", "wide", "pruned"}
        As in `lower_set_family`.
    cap : int

    Returns
    -------
    int
        Bytes.

    Raises
    ------
    GraphError
        If there are more lower sets than the cap.

    References
    ----------
    kusumoto2019, section 5.1, where it is found by bisection; here in one pass.

    Examples
    --------
    >>> graph = ComputationGraph.from_edges([(i, i + 1) for i in range(8)])
    >>> least_budget(graph)
    6
    """
    return FormulaPlans(graph, family, None, keep_last=False, lazy=None, cap=cap, watch=Watch()).least_budget


def formula_frontier(
    graph: ComputationGraph, family: str = "exact", *, keep_last: bool = False, cap: int = CAP
) -> list[tuple[int, int, LowerSets]]:
    """Every Pareto point of formulas (1) and (2): what memory costs in compute, on paper.

    Parameters
    ----------
    graph : ComputationGraph
    family : {"exact", "wide", "pruned"}
        As in `lower_set_family`.
    keep_last : bool
        Whether the last block, which has only just run, is kept; formula (1) counts it as run again.
    cap : int

    Returns
    -------
    list of (int, int, LowerSets)
        Overhead, peak and chain, overheads rising. Costs that need more than 2,048 levels are counted in units that
        tell so many apart.

    Raises
    ------
    GraphError
        If there are more lower sets than the cap.

    Examples
    --------
    >>> graph = ComputationGraph.from_edges([(i, i + 1) for i in range(4)])
    >>> [(overhead, peak) for overhead, peak, chain in formula_frontier(graph)]
    [(1, 7), (2, 6), (3, 5)]
    """
    plans = FormulaPlans(graph, family, None, keep_last=keep_last, lazy=None, cap=cap, watch=Watch())
    found = []
    for point in plans.points():
        chain = plans.family.chain(point.rows)
        again = chain.overhead(graph)
        if keep_last:
            again -= int(graph.compute[chain.blocks(graph) == len(chain) - 1].sum())
        found.append((again, chain.peak(graph), chain))
    return found
