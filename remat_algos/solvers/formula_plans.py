"""Plans from chains of lower sets that are best by formulas (1) and (2): what the two dynamic programs share."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from remat_algos.bounds.memory import least_peak_bound
from remat_algos.errors import BudgetError
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.units import exact_bytes
from remat_algos.ir.wording import shortened
from remat_algos.schedule.canonical import kept_against
from remat_algos.schedule.one_pass import lowest_pass
from remat_algos.schedule.simulation import simulate
from remat_algos.solvers.chains import Chains, Point
from remat_algos.solvers.registry import Solution
from remat_algos.solvers.sweep import Candidate, Sweep
from remat_algos.solvers.watch import OutOfTime, Watch
from remat_algos.structure.lower_set_families import LowerSetFamily, lower_set_family, spread
from remat_algos.structure.lower_sets import LowerSets

STRATEGIES = ("time", "memory", "cache")
MEMORY_CENTRIC = (1.0, 1.1, 1.25, 1.5, 2.0)  # budgets, in times of the least, that are tried where nothing else fits
MOST_PAIRS = 50_000  # of lower sets, up to which all Pareto points are found; that takes half a second
MOST_SETS = 600  # of a small family that is solved for many budgets
HURRIED = 64  # sets that are left of it where there is no time
MOMENT = 2_000_000  # places of all sets of a family that is solved whatever the time
GRID = 48  # budgets that are tried beyond
SAMPLED = 16  # budgets at which a large lattice is solved


@dataclass(frozen=True, slots=True)
class Chosen:
    """A chain and how it was found; `rounded` is the unit of the costs by which it was, 0 if they were exact."""

    chain: LowerSets
    strategy: str
    budget: int
    rounded: int = 0


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
    most : int, optional
        About how many sets a small family has.
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
        most: int | None = None,
    ) -> None:
        check_choices(strategy, keep_last, lazy)
        self.graph = graph
        self.family = lower_set_family(graph, family, cap=cap, most=most)
        self.name = family
        self.strategy = strategy
        self.keep_last = keep_last
        self.lazy = lazy
        self.watch = watch
        self.hurried = False  # whether the time is over, and a few sets are solved all the same
        # where a few sets cost little, they say below which cost to search all of them
        wide = lower_set_family(graph, "wide", most=MOST_SETS) if family == "exact" else self.family
        self.small = wide if len(wide) < len(self.family) else self.family
        self._chains: dict[tuple[int, bool], Chains] = {}
        self._least: dict[int, int] = {}

    @property
    def least_budget(self) -> int:
        """The least formula budget."""
        return self._least_of(self.family)

    def at(self, budget: int, limit: int | None) -> Solution:
        """The best chain by the formulas within a formula budget."""
        strategy, complete, interrupted = self.strategy or "time", True, False
        try:
            found = self._found(self.family, budget, strategy)
            if found is None:
                raise too_little(self.graph, self.name, budget, self.least_budget)
        except (OutOfTime, KeyboardInterrupt) as stop:
            complete, interrupted, self.hurried = False, isinstance(stop, KeyboardInterrupt), True
            self._chains.clear()
            if self.small is self.family:
                self.small = self.family.subset(spread(len(self.family), HURRIED))
            found = self._found(self.small, budget, strategy)
            if found is None:
                raise no_time(self.graph, self.name, budget, self._least_of(self.small)) from stop
        return self._sweep([found], complete, interrupted).best(limit)

    def sweep(self) -> Sweep:
        """Chains for all formula budgets, the lowest last; no limit on what is judged has a say in them."""
        # on paper others are as cheap and lower than one block, but perhaps not when they are run
        complete, interrupted, found = True, False, [self._one_block()]
        try:
            for chosen in self._all():
                found.append(chosen)
                if self.watch.late:
                    raise OutOfTime
        except OutOfTime:
            complete = False
        except KeyboardInterrupt:
            complete, interrupted = False, True
        return self._sweep(sorted(found, key=lambda chosen: -chosen.budget), complete, interrupted)

    def _one_block(self) -> Chosen:
        """The chain of one set, which takes no search; no formula budget is above twice the bytes of all nodes."""
        most = 2 * int(self.graph.node_memory[self.family.nodes].sum())
        return Chosen(self.family.chain([]), "time", most)

    def points(self) -> list[Point]:
        """Every Pareto point of the formulas."""
        return self._of(self.family).frontier()

    def _all(self) -> Iterator[Chosen]:
        """The lowest chains come first, so that there is something to fall back on."""
        strategies = ("time", "memory") if self.strategy is None else (self.strategy,)
        for family in dict.fromkeys((self.small, self.family)):
            for strategy in strategies:
                yield self._within(family, self._least_of(family), strategy)
            for strategy in strategies:
                yield from self._over_budgets(family, strategy)

    def _over_budgets(self, family: LowerSetFamily, strategy: str) -> Iterator[Chosen]:
        chains = self._of(family)
        budgets = memory_centric_budgets(self._least_of(family), chains.most)
        if strategy == "time":
            if chains.steps.stored_all and family.pairs[1].size <= MOST_PAIRS:
                for point in chains.frontier():
                    yield Chosen(family.chain(point.rows), "time", point.peak, chains.rounded)
                return
            count = GRID if chains.steps.stored_all else SAMPLED
            budgets = geometric(self._least_of(family), chains.most, count)
        for budget in budgets:
            yield self._within(family, budget, strategy)

    def _within(self, family: LowerSetFamily, budget: int, strategy: str) -> Chosen:
        """The best chain for a budget that is not below the least."""
        found = self._found(family, budget, strategy)
        if found is None:
            raise ArithmeticError(f"no chain within {budget} bytes, though the minimum is not larger")
        return found

    def _found(self, family: LowerSetFamily, budget: int, strategy: str) -> Chosen | None:
        """The best chain of a family, None if there is none; that of the small family says what costs too much."""
        known = None if family is self.small else self._found(self.small, budget, strategy)
        chains = self._of(family, kept=strategy == "memory")
        if strategy == "cache":
            rows = chains.least_cache(budget, None if known is None else self._cached(known.chain))
        else:
            most = None if known is None else self._cost(known.chain, strategy) - 1
            rows = chains.least_cost(budget, most) if most is None or most >= 0 else None
        return known if rows is None else Chosen(family.chain(rows), strategy, budget, chains.rounded)

    def _least_of(self, family: LowerSetFamily) -> int:
        key = len(family)
        if key not in self._least:
            below = None if family is self.small else self._least_of(self.small)
            self._least[key] = self._of(family).least_budget(below)
        return self._least[key]

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
        key = (len(family), kept)  # of the two or three families no two are as large
        if key not in self._chains:
            # what takes a moment is finished whatever the time, so that there is something to fall back on
            moment = len(family) <= 2 * MOST_SETS and len(family) * family.nodes.size <= MOMENT
            watch = Watch() if moment or self.hurried else self.watch
            self._chains[key] = Chains.by_formulas(family, watch, keep_last=self.keep_last, kept=kept)
        return self._chains[key]

    def _sweep(self, found: Sequence[Chosen], complete: bool, interrupted: bool) -> Sweep:
        def describe(chosen: Chosen) -> dict[str, Any]:
            return formula_details(self.graph, chosen, self.family, self.name, self.keep_last)

        candidates = [Candidate(each.chain, self.keep_last, self.lazy, partial(describe, each)) for each in found]
        return Sweep(self.graph, candidates, self.watch, complete, interrupted)


def check_choices(strategy: str | None, keep_last: bool, lazy: bool | None) -> None:
    """ValueError for an option that is none."""
    if strategy is not None and strategy not in STRATEGIES:
        raise ValueError(
            f"strategy is {shortened(repr(strategy))}; use {', '.join(STRATEGIES)}, or None for time, then memory"
        )
    if keep_last not in (True, False):
        raise ValueError(f"keep_last is {shortened(repr(keep_last))}; use True or False")
    if lazy not in (True, False, None):
        raise ValueError(f"lazy is {shortened(repr(lazy))}; use True, False or None")


def geometric(least: int, most: int, count: int) -> list[int]:
    """So many budgets at growing distances, the largest first."""
    return (
        np.unique(np.geomspace(max(1, least), max(1, least, most), count).astype(np.int64)).clip(least)[::-1].tolist()
    )


def memory_centric_budgets(least: int, most: int) -> list[int]:
    """Formula budgets at which most overhead is tried, the largest first."""
    return sorted({min(most, int(least * times)) for times in MEMORY_CENTRIC}, reverse=True)


def formula_details(
    graph: ComputationGraph, chosen: Chosen, family: LowerSetFamily, name: str, keep_last: bool
) -> dict[str, Any]:
    """What a plan says of its chain."""
    details = {
        "family": name,
        "lower_sets": len(family),
        "strategy": chosen.strategy,
        "formula_budget": chosen.budget,
        "formula_peak": chosen.chain.peak(graph),
        "formula_overhead": chosen.chain.overhead(graph),
        "blocks": len(chosen.chain),
    }
    if family.thinned:
        details["thinned"] = True
    if chosen.rounded:
        details["costs_rounded_to"] = chosen.rounded
    kept_besides = kept_against(graph, chosen.chain, keep_last)
    if kept_besides:  # once, or marked: the formulas know nothing of these
        details["kept_besides"] = [graph.labels[v] for v in kept_besides]
    return details


def too_little(graph: ComputationGraph, family: str, budget: int, least: int) -> BudgetError:
    """The error for a formula budget below the minimum."""
    wider = "" if family == "exact" else f", or a wider family ({'wide or ' if family == 'pruned' else ''}exact_dp)"
    return _not_found(
        graph,
        f"no chain of the family {family} keeps formula (2) within {exact_bytes(budget)}; the minimum is "
        f"{exact_bytes(least)}; give that much{wider}",
    )


def no_time(graph: ComputationGraph, family: str, budget: int, reached: int) -> BudgetError:
    """The error for a formula budget within which nothing was found in time."""
    return _not_found(
        graph,
        f"the time limit was reached before a chain of the family {family} was found that keeps formula (2) within "
        f"{exact_bytes(budget)}; one within {exact_bytes(reached)} was found: give that much, or more time",
    )


def _not_found(graph: ComputationGraph, message: str) -> BudgetError:
    """What is reached in any case is the simulated peak without rematerialization, which no formula knows."""
    bound, nodes = least_peak_bound(graph)
    free = graph if graph.mark is None else replace(graph, mark=None)
    peak = simulate(free, lowest_pass(free, beam=0)).peak_memory
    return BudgetError(f"{message}; no_remat has a peak of {exact_bytes(peak)}", peak, bound, nodes)
