"""The approximate dynamic program, over a small family of lower sets."""

from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.wording import shortened
from remat_algos.solvers.formula_budgets import formula_bytes
from remat_algos.solvers.formula_budgets import least_budget as least_budget
from remat_algos.solvers.formula_plans import MOST_SETS, FormulaPlans
from remat_algos.solvers.registry import solver, training_graph
from remat_algos.solvers.watch import Watch
from remat_algos.structure.lower_set_families import CAP


@solver(paper="kusumoto2019", needs=training_graph)
def approximate_dp(
    graph: ComputationGraph,
    limit: int | None,
    *,
    family: str = "wide",
    strategy: str | None = None,
    formula_budget: int | str | None = None,
    keep_last: bool = True,
    lazy: bool | None = None,
    time_limit: float | None = None,
    progress: Progress | None = None,
) -> Solution:
    """Choose the best chain from a small family of lower sets, by the formulas of kusumoto2019.

    Like `exact_dp`, but in time polynomial in the number of nodes.

    Parameters
    ----------
    family : {"wide", "pruned"}
        The paper's family, each node with its ancestors, is "pruned"; "wide" adds the prefixes of the id order and,
        for each node, everything but the node and its descendants. Under a limit about 600 sets are used; from
        larger families those of evenly spaced nodes, which the plan's details record as `thinned`.
    strategy : {"time", "memory", "cache"}, optional
        Minimum overhead within the budget; maximum overhead, which leaves the most to liveness; or fewest bytes kept,
        as in the authors' program. By default minimum overhead, and maximum overhead where that does not fit.
    formula_budget : int or str, optional
        Upper limit for formula (2), in bytes or as an amount such as "2.1GB".
    keep_last : bool
        Keep the last block, which has just run; formula (1) counts it as recomputed.
    lazy : bool, optional
        As in `canonical_schedule`; by default whichever is better.

    References
    ----------
    kusumoto2019, sections 4.3 and 4.4.

    Examples
    --------
    >>> from remat_algos.ir.differentiate import differentiate
    >>> chain = differentiate(ComputationGraph.from_edges([(i, i + 1) for i in range(8)]))
    >>> len(approximate_dp(chain, 7).schedule) - chain.n_nodes
    6
    """
    options = (graph, family, strategy, keep_last, lazy, time_limit, progress)
    if formula_budget is not None:
        return _plans(*options).at(formula_bytes(formula_budget), limit)
    return _plans(*options, most=MOST_SETS).sweep().best(limit)


def frontier(
    graph: ComputationGraph,
    *,
    family: str = "wide",
    strategy: str | None = None,
    formula_budget: int | str | None = None,
    keep_last: bool = True,
    lazy: bool | None = None,
    time_limit: float | None = None,
    progress: Progress | None = None,
) -> list[Solution]:
    """Pareto frontier of its plans in peak and compute; takes the options of `approximate_dp`."""
    options = (graph, family, strategy, keep_last, lazy, time_limit, progress)
    if formula_budget is not None:
        return [_plans(*options).at(formula_bytes(formula_budget), None)]
    return _plans(*options, most=MOST_SETS).sweep().frontier()


def _plans(
    graph: ComputationGraph,
    family: str,
    strategy: str | None,
    keep_last: bool,
    lazy: bool | None,
    time_limit: float | None,
    progress: Progress | None,
    most: int | None = None,
) -> FormulaPlans:
    if family not in ("wide", "pruned"):
        raise ValueError(f"family is {shortened(repr(family))}; use wide or pruned, or the solver exact_dp")
    watch = Watch(time_limit, progress)
    return FormulaPlans(graph, family, strategy, keep_last=keep_last, lazy=lazy, cap=CAP, watch=watch, most=most)
