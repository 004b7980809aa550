"""The exact dynamic program over all lower sets."""

from typing import Any

from remat_algos.ir.graph import ComputationGraph
from remat_algos.solvers.formula_budgets import formula_bytes
from remat_algos.solvers.formula_budgets import least_budget as least_budget
from remat_algos.solvers.formula_plans import FormulaPlans
from remat_algos.solvers.registry import solver, training_graph
from remat_algos.solvers.watch import Watch
from remat_algos.structure.lower_set_families import CAP


@solver(paper="kusumoto2019", needs=training_graph, portfolio=False)
def exact_dp(
    graph: ComputationGraph,
    limit: int | None,
    *,
    strategy: str | None = None,
    formula_budget: int | str | None = None,
    keep_last: bool = True,
    lazy: bool | None = None,
    cap: int = CAP,
    time_limit: float | None = None,
    progress: Progress | None = None,
) -> Solution:
    """Choose the best chain from all lower sets, by the formulas of kusumoto2019.

    With a formula budget it solves the paper's problem: among all chains whose formula (2) is within the budget, find
    the one with the smallest formula (1). Under a limit on the simulated peak it does so for many formula budgets and
    takes the cheapest plan that fits.

    Parameters
    ----------
    strategy : {"time", "memory", "cache"}, optional
        Minimum overhead within the budget; maximum overhead, which leaves the most to liveness; or fewest bytes kept,
        as in the authors' program. By default minimum overhead, and maximum overhead where that does not fit.
    formula_budget : int or str, optional
        Upper limit for formula (2), in bytes or as an amount such as "2.1GB".
    keep_last : bool
        Keep the last block, which has just run; formula (1) counts it as recomputed.
    lazy : bool, optional
        As in `canonical_schedule`; by default whichever is better.
    cap : int
        Maximum number of lower sets to enumerate.

    References
    ----------
    kusumoto2019, sections 4.2 and 4.4.

    Examples
    --------
    >>> from remat_algos.ir.differentiate import differentiate
    >>> chain = differentiate(ComputationGraph.from_edges([(i, i + 1) for i in range(8)]))
    >>> found = exact_dp(chain, None, formula_budget=7)
    >>> found.details["formula_peak"], found.details["formula_overhead"]
    (7, 4)
    """
    plans = FormulaPlans(
        graph,
        "exact",
        strategy,
        keep_last=keep_last,
        lazy=lazy,
        cap=cap,
        watch=Watch(time_limit, progress),
    )
    if formula_budget is not None:
        return plans.at(formula_bytes(formula_budget), limit)
    return plans.sweep().best(limit)


def frontier(
    graph: ComputationGraph, *, time_limit: float | None = None, progress: Progress | None = None, **options: Any
) -> list[Solution]:
    """Pareto frontier of its plans in peak and compute; takes the options of `exact_dp`."""
    options = {"strategy": None, "keep_last": True, "lazy": None, "cap": CAP, **options}
    budget = options.pop("formula_budget", None)
    plans = FormulaPlans(graph, "exact", watch=Watch(time_limit, progress), **options)
    return [plans.at(formula_bytes(budget), None)] if budget is not None else plans.sweep().frontier()
