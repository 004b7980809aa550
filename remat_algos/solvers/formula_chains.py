"""Chains of lower sets that are optimal by formulas (1) and (2) of kusumoto2019, for `exact_dp` and `approximate_dp`.

If a family has few pairs of sets, all of its Pareto-optimal chains are tried, with or without a limit. On small graphs,
therefore, a larger limit never leads to a more expensive plan.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from remat_algos.arguments import checked_arguments
from remat_algos.bounds.memory import least_peak_bound
from remat_algos.context import Clock
from remat_algos.errors import ArgumentError, BudgetError
from remat_algos.forks import cached_property
from remat_algos.ir.arrays import is_count
from remat_algos.ir.budget import Budget
from remat_algos.ir.graph import ComputationGraph
from remat_algos.kernels.rules import Rule
from remat_algos.schedule.emission import baseline_peak, canonical_schedule, kept_against
from remat_algos.solvers import tuning
from remat_algos.solvers.candidate_rows import coarse_first
from remat_algos.solvers.chain_program import OBJECTIVES, ChainProgram, objective_rows
from remat_algos.solvers.registry import WORST, Candidate, Details, Item, evaluated, rank
from remat_algos.structure.lower_sets import LowerSetFamily, LowerSets, lower_set_family, spread
from remat_algos.structure.tuning import CAP
from remat_algos.wording import counted, format_bytes

STRATEGIES = ("time", "memory", "cache")

RoundedChain = tuple[LowerSets, int]
"""A chain, and the unit to which costs were rounded when it was chosen; 0 if they were exact."""


class FormulaChains:
    """Finds the chains of a family that are optimal by the formulas. The optimum of `smaller` is an upper bound."""

    def __init__(
        self, family: LowerSetFamily, clock: Clock, *, keep_last: bool, smaller: "FormulaChains | None" = None
    ) -> None:
        self.family = family
        self.clock = clock
        self.keep_last = keep_last
        self.smaller = smaller

    @cached_property
    def program(self) -> ChainProgram:
        return ChainProgram.by_formulas(self.family, self.clock, keep_last=self.keep_last)

    @cached_property
    def complement(self) -> ChainProgram:
        """The program whose peak is formula (2) and whose cost is the compute of kept nodes."""
        return ChainProgram.by_formulas(self.family, self.clock, keep_last=self.keep_last, kept=True)

    @cached_property
    def least_budget(self) -> int:
        return self.program.least_budget(None if self.smaller is None else self.smaller.least_budget)

    def best(self, budget: int, strategy: str) -> RoundedChain | None:
        """Return the best chain for which formula (2) is within a budget, or None if there is no such chain."""
        graph = self.family.graph
        known = None if self.smaller is None else self.smaller.best(budget, strategy)
        if strategy == "cache":
            max_cache = None if known is None else int(graph.node_memory[known[0].kept(graph)].sum())
            point = self.program.minimum_cache(budget, max_cache)
        else:
            max_cost = None if known is None else self._cost(known[0], strategy) - 1
            program = self.program if strategy == "time" else self.complement
            point = program.cheapest(budget, max_cost) if max_cost is None or max_cost >= 0 else None
        return known if point is None else (self.family.chain(point.rows), point.rounded)

    def frontier(self) -> list[tuple[RoundedChain, int]]:
        """Return the Pareto-optimal chains, each with its peak by formula (2), in order of increasing peak."""
        return [((self.family.chain(each.rows), each.rounded), each.peak) for each in self.program.frontier()]

    def has_few_pairs(self, max_pairs: int) -> bool:
        """Return True if the family has at most `max_pairs` pairs of sets and the figures of all are stored."""
        return self.program.steps.stored_all and self.family.pairs[1].size <= max_pairs

    def _cost(self, chain: LowerSets, strategy: str) -> int:
        overhead = formula_overhead(self.family.graph, chain, self.keep_last)
        return overhead if strategy == "time" else int(self.family.graph.compute[self.family.nodes].sum()) - overhead


def formula_chains(
    graph: ComputationGraph, family: str, clock: Clock, *, keep_last: bool, cap: int = CAP, max_sets: int | None = None
) -> FormulaChains:
    """Return the chains of the family with this name. For "exact", `smaller` contains those of the "wide" family."""
    few = tuning.MAX_SETS if family == "exact" else max_sets
    wide = lower_set_family(graph, "wide" if family == "exact" else family, cap=cap, max_sets=few)
    chains = FormulaChains(wide, clock, keep_last=keep_last)
    if family != "exact":
        return chains
    every = lower_set_family(graph, family, cap=cap)
    return FormulaChains(every, clock, keep_last=keep_last, smaller=chains if len(wide) < len(every) else None)


def formula_candidates(
    graph: ComputationGraph,
    limit: int | None,
    clock: Clock,
    family: str,
    *,
    strategy: str | None,
    formula_budget: int | str | None,
    keep_last: bool,
    lazy: bool | None,
    objective: Any = None,
    cap: int = CAP,
) -> Iterator[Candidate]:
    """Yield a single block, then the best chains of the smaller and of the whole family; options as in `exact_dp`."""
    check_choices(strategy, keep_last, lazy)
    budget = None if formula_budget is None else formula_bytes(formula_budget)
    if objective is not None:
        if strategy is not None:
            raise ArgumentError("give an objective or a strategy, not both")
        budget = limit if budget is None else budget
        if budget is None:
            raise ArgumentError("an objective needs a limit in bytes; give a budget, or formula_budget")
        every = lower_set_family(graph, family, cap=cap)
        minimum, details = _best_by_objective(every, family, OBJECTIVES.rule(objective), budget, keep_last, clock)
        yield from chain_candidates(graph, minimum, details, keep_last, lazy)
        return
    chains = formula_chains(
        graph, family, clock, keep_last=keep_last, cap=cap, max_sets=tuning.MAX_SETS if budget is None else None
    )
    sets = chains.family

    def candidates_of(chain: RoundedChain | None, strategy: str, budget: int) -> Iterator[Candidate]:
        if chain is None:
            msg = f"no chain within {budget} bytes, which is at least the minimum"
            raise ArithmeticError(msg)
        details = formula_details(sets, chain, family, strategy, budget, keep_last)
        yield from chain_candidates(graph, chain[0], details, keep_last, lazy)

    if budget is not None:
        strategy = strategy or "time"
        best = chains.best(budget, strategy)
        if best is None:
            raise too_little(graph, family, budget, chains.least_budget)
        yield from candidates_of(best, strategy, budget)
        return
    yield from candidates_of((sets.chain([]), 0), "time", 2 * int(graph.node_memory[sets.nodes].sum()))
    for each in (chains,) if chains.smaller is None else (chains.smaller, chains):
        if strategy in (None, "time"):
            few = each.has_few_pairs(tuning.FEW_PAIRS)
            yield from _curve(each, candidates_of) if limit is None or few else _near(each, limit, candidates_of)
        # `solve` improves candidates by passes over their schedules, after which memory-centric chains are often best.
        if strategy != "time":
            centric = strategy or "memory"
            for budget in memory_centric_budgets(each.least_budget, each.program.max_peak):
                yield from candidates_of(each.best(budget, centric), centric, budget)


def _best_by_objective(
    sets: LowerSetFamily, family: str, rule: Rule, budget: int, keep_last: bool, clock: Clock
) -> tuple[LowerSets, dict[str, Any]]:
    """Return the chain of minimum objective for which formula (2) is within the budget, and its details."""
    program = ChainProgram.by_formulas(sets, clock, keep_last=keep_last, objective=rule)
    point = program.cheapest(budget)
    if point is None:
        raise too_little(sets.graph, family, budget, program.least_budget())
    chain = sets.chain(point.rows)
    # Rounding changes the cost of each block of this chain, and of the optimum, by less than one unit.
    error = point.rounded * (len(point.rows) + len(sets.nodes))
    details = formula_details(sets, (chain, point.rounded), family, "objective", budget, keep_last)
    return chain, {**details, "objective": rule.name, "objective_value": point.cost, "objective_error": error}


def _curve(chains: FormulaChains, candidates_of: Callable[..., Iterator[Candidate]]) -> Iterator[Candidate]:
    """Yield the Pareto-optimal time-centric chains; for a large family, only the best chains for a grid of budgets."""
    points: Iterable[tuple[RoundedChain | None, int]]
    if chains.has_few_pairs(tuning.MAX_PAIRS):
        points = evenly(chains.frontier(), chains.family.graph.n_nodes)
    else:
        count = tuning.GRID_BUDGETS if chains.program.steps.stored_all else tuning.SAMPLED_BUDGETS
        budgets = geometric(chains.least_budget, chains.program.max_peak, count)
        points = ((chains.best(budget, "time"), budget) for budget in coarse_first(budgets))
    for chain, budget in points:
        yield from candidates_of(chain, "time", budget)


def _near(chains: FormulaChains, limit: int, candidates_of: Callable[..., Iterator[Candidate]]) -> Iterator[Candidate]:
    """Yield time-centric chains whose simulated peak is near a limit, by bisection over the formula budget."""
    # (formula budget, formula peak, best rank of the simulated candidates)
    tried: list[tuple[int, int, tuple[int, int, int]]] = []
    waiting = geometric(chains.least_budget, chains.program.max_peak, tuning.BUDGETS_SPREAD)
    for _ in range(len(waiting) + tuning.BISECTED):
        budget = waiting.pop(0) if waiting else _between(tried)
        if budget is None:
            return
        chain, best = chains.best(budget, "time"), WORST
        for candidate in candidates_of(chain, "time", budget):
            best = min(best, rank_of(candidate, limit))
            formula_peak = candidate.details["formula_peak"]
            yield candidate
        tried.append((budget, formula_peak, best))


def _between(tried: list[tuple[int, int, tuple[int, int, int]]]) -> int | None:
    """Return an untried budget between the best budget and the next larger one, or None if there is none.

    If nothing fits yet, the budget may also lie between the best and the next smaller one; the wider gap is chosen. A
    chain that is optimal for a budget is also optimal for every smaller budget down to its own formula peak.
    """
    tried = sorted(tried)
    at = min(range(len(tried)), key=lambda place: tried[place][2])
    sides = (at - 1, at) if tried[at][2][0] else (at,)
    gaps = [(tried[i][0], tried[i + 1][1]) for i in sides if 0 <= i < len(tried) - 1]
    low, high = max(gaps, key=lambda gap: gap[1] / gap[0], default=(0, 0))
    middle = math.isqrt(low * high)
    return middle if low < middle < high else None


def chain_candidates(
    graph: ComputationGraph, chain: LowerSets, details: Details, keep_last: bool, lazy: bool | None
) -> Iterator[Candidate]:
    """Yield the candidate of a chain with the given `lazy`. If `lazy` is None, yield one for True and one for False."""
    for each in (True, False) if lazy is None else (bool(lazy),):
        schedule = canonical_schedule(graph, chain, keep_last=keep_last, lazy=each)
        yield evaluated(graph, schedule, {**details, "keep_last": keep_last, "lazy": each})


def rank_of(candidate: Candidate, limit: int) -> tuple[int, int, int]:
    return WORST if candidate.simulation is None else rank(candidate.figures, limit)


def evenly(items: Sequence[Item], n_nodes: int) -> list[Item]:
    """Return evenly spread items in the order of `coarse_first`. Their number decreases with the number of nodes."""
    count = max(16, min(tuning.MAX_SIMULATED_CHAINS, tuning.MAX_CHAIN_STEPS // max(1, n_nodes)))
    return coarse_first([items[int(place)] for place in spread(len(items), count)])


def formula_details(
    family: LowerSetFamily, rounded_chain: RoundedChain, name: str, strategy: str, budget: int, keep_last: bool
) -> dict[str, Any]:
    graph, (chain, rounded) = family.graph, rounded_chain
    details: dict[str, Any] = {
        "family": name,
        "lower_sets": len(family),
        "strategy": strategy,
        "formula_budget": budget,
        "formula_peak": chain.peak(graph),
        "formula_overhead": formula_overhead(graph, chain, keep_last),
        "blocks": len(chain),
    }
    if family.thinned:
        details["thinned"] = True
    if rounded:
        details["costs_rounded_to"] = rounded
    kept_besides = kept_against(graph, chain, keep_last)
    # The formulas ignore the marks of nodes and `once`, so the schedule may keep nodes that the chain does not keep.
    if kept_besides:
        details["kept_besides"] = [graph.labels[v] for v in kept_besides]
    return details


def formula_rows(graph: ComputationGraph, details: Details) -> Iterator[tuple[str, str]]:
    """Yield the row of a plan's text report with the peak and the overhead by the paper's formulas."""
    peak, overhead = details.get("formula_peak"), details.get("formula_overhead")
    if not (is_count(peak) and is_count(overhead)):  # invalid values from a file
        return
    text = f"peak {format_bytes(peak)}, overhead {graph.labels.compute(overhead)} by the paper's formulas"
    budget = details.get("formula_budget")
    if is_count(budget):
        chains = (
            f"the chains of the family {details.get('family')} for which formula (2) is within {format_bytes(budget)}"
        )
        yield from objective_rows(details, chains)
    text += ", the last block kept" if details.get("keep_last") is True else ""
    besides = details.get("kept_besides")
    if isinstance(besides, list | tuple) and besides:
        text += f"; {counted(len(besides), 'more node')} kept, which must not be recomputed"
    yield "formulas", text


def formula_overhead(graph: ComputationGraph, chain: LowerSets, keep_last: bool) -> int:
    """Return the overhead by formula (1); omit the last block if it is kept."""
    overhead = chain.overhead(graph)
    if keep_last:
        block = chain.blocks(graph)
        overhead -= int(graph.compute[(block >= 0) & (block == len(chain) - 1)].sum())
    return overhead


def check_choices(strategy: str | None, keep_last: bool, lazy: bool | None) -> None:
    if strategy is not None and strategy not in STRATEGIES:
        raise ArgumentError(
            "strategy is {strategy!r}; use {strategies!l}, or None to try time first, then memory",
            strategy=strategy,
            strategies=STRATEGIES,
        )
    if keep_last not in (True, False):
        raise ArgumentError("keep_last is {keep_last!r}; use True or False", keep_last=keep_last)
    if lazy not in (True, False, None):
        raise ArgumentError("lazy is {lazy!r}; use True, False or None", lazy=lazy)


def geometric(low: int, high: int, count: int) -> list[int]:
    return np.unique(np.geomspace(max(1, low), max(1, low, high), count).astype(np.int64)).clip(low).tolist()


def memory_centric_budgets(low: int, high: int) -> list[int]:
    return sorted({min(high, int(low * times)) for times in tuning.MEMORY_CENTRIC})


def formula_bytes(budget: int | str) -> int:
    try:
        amount = Budget.of(budget)
    except (TypeError, ValueError) as error:
        raise _wrong_budget(budget) from error
    limit = amount.memory_limit(0, 0)
    if limit is None or amount.least or "%" in str(budget):
        raise _wrong_budget(budget)
    return min(limit, 2**62)


def _wrong_budget(budget: int | str) -> ArgumentError:
    return ArgumentError(
        "formula_budget is {budget!r}; give bytes, such as 2100000000, or an amount, such as 2.1GB", budget=budget
    )


def too_little(graph: ComputationGraph, family: str, budget: int, least: int) -> BudgetError:
    """Return the error for a formula budget below the minimum; it names the simulated peak of no_remat."""
    wider = "" if family == "exact" else f", or a wider family ({'wide or ' if family == 'pruned' else ''}exact_dp)"
    peak, (bound, nodes) = baseline_peak(graph), least_peak_bound(graph)
    return BudgetError(
        "formula (2) exceeds {budget!B} for every chain of the family {family}; its minimum is {least!B}; give at "
        "least that much{wider!w}; no_remat has a peak of {reached!B}",
        family=family,
        budget=budget,
        least=least,
        wider=wider,
        reached=peak,
        lower_bound=bound,
        nodes=nodes,
        names=graph.labels.names_of(nodes),
    )


@checked_arguments
def least_budget(graph: ComputationGraph, family: str = "exact", *, cap: int = CAP) -> int:
    """Return the minimum of formula (2) over the chains of a family.

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
    kusumoto2019, section 5.1, by bisection; here in one pass.

    Examples
    --------
    >>> graph = ComputationGraph.from_edges([(i, i + 1) for i in range(8)])
    >>> least_budget(graph)
    7
    """
    return formula_chains(graph, family, Clock(), keep_last=False, cap=cap).least_budget


@checked_arguments
def formula_frontier(
    graph: ComputationGraph, family: str = "exact", *, keep_last: bool = False, cap: int = CAP
) -> list[tuple[int, int, LowerSets]]:
    """Return every Pareto point of formulas (1) and (2), without simulation.

    Parameters
    ----------
    graph : ComputationGraph
    family : {"exact", "wide", "pruned"}
        As in `lower_set_family`.
    keep_last : bool
        Keep the last block. Formula (1) counts its recomputation, which the returned overheads then omit.
    cap : int

    Returns
    -------
    list of (int, int, LowerSets)
        Overhead, peak and chain of each point, in order of increasing overhead. If an overhead exceeds 2,048 times the
        common divisor of the costs, costs are rounded to a larger unit.

    Raises
    ------
    GraphError
        If there are more lower sets than the cap.

    Examples
    --------
    >>> graph = ComputationGraph.from_edges([(i, i + 1) for i in range(4)])
    >>> [(overhead, peak) for overhead, peak, chain in formula_frontier(graph)]
    [(1, 6), (2, 5)]
    """
    chains = formula_chains(graph, family, Clock(), keep_last=keep_last, cap=cap)
    best = [chain for (chain, _), _ in reversed(chains.frontier())]
    return [(formula_overhead(graph, chain, keep_last), chain.peak(graph), chain) for chain in best]
