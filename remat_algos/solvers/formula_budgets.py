"""Formulas (1) and (2) over all budgets: the least budget, and every Pareto point."""

from remat_algos.ir.budget import Budget
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.wording import shortened
from remat_algos.solvers.formula_plans import FormulaPlans
from remat_algos.solvers.watch import Watch
from remat_algos.structure.lower_set_families import CAP
from remat_algos.structure.lower_sets import LowerSets


def formula_bytes(budget: int | str) -> int:
    """Bytes of a formula budget: a number, or an amount such as "2.1GB"."""
    wrong = f"formula_budget is {shortened(repr(budget))}; give bytes, such as 2100000000, or an amount, such as 2.1GB"
    try:
        amount = Budget.of(budget)
    except (TypeError, ValueError) as error:
        raise ValueError(wrong) from error
    limit = amount.memory_limit(0, 0)
    if limit is None or amount.least or "%" in str(budget):
        raise ValueError(wrong)
    return min(limit, 2**62)


def least_budget(graph: ComputationGraph, family: str = "exact", *, cap: int = CAP) -> int:
    """The minimum budget within which formula (2) has a chain of lower sets.

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
    7
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
        Whether the last block, which has only just run, is kept; formula (1) counts it as recomputed.
    cap : int

    Returns
    -------
    list of (int, int, LowerSets)
        Overhead, peak and chain, overheads rising. Costs that need more than 2,048 levels are counted in units of that
        resolution.

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
    plans = FormulaPlans(graph, family, None, keep_last=keep_last, lazy=None, cap=cap, watch=Watch())
    found = []
    for point in plans.points():
        chain = plans.family.chain(point.rows)
        again = chain.overhead(graph)
        if keep_last:
            block = chain.blocks(graph)
            again -= int(graph.compute[(block >= 0) & (block == len(chain) - 1)].sum())
        found.append((again, chain.peak(graph), chain))
    return found
