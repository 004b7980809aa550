"""The approximate dynamic program, over a small family of lower sets."""

from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.wording import shortened
from remat_algos.solvers.formula_budgets import formula_bytes
from remat_algos.solvers.formula_budgets import least_budget as least_budget
from remat_algos.solvers.formula_plans import MOST_SETS, FormulaPlans
from remat_algos.solvers.registry import Progress, Solution, solver, training_graph
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
    """Choose the chain of lower sets that is best by the formulas of kusumoto2019, of a small family.

    As `exact_dp`, but in a time that is polynomial in the number of nodes.

    Parameters
    ----------
    family : {"wide", "pruned"}
        The paper's family, v with all that it rests on, is "pruned"; "wide" adds the beginnings of the id order and
        what remains without v and all that rests on it. Under a limit about 600 sets are looked at; of larger
        families they are those of nodes that are evenly spread, and the details say `thinned`.
    strategy : {"time", "memory", "cache"}, optional
        Least overhead within the budget; most overhead, which leaves most to liveness; or least bytes kept, as the
        authors' program has it. By default least overhead, and most overhead where that does not fit.
    formula_budget : int or str, optional
        Bytes within which formula (2) must be, or an amount such as "2.1GB".
    keep_last : bool
        Keep the last block, which has only just run; formula (1) counts it as run again.
    lazy : bool, optional
        As in `canonical_schedule`; by default the better.

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
    """All plans that none of the others beats in both peak and compute; the options of `approximate_dp`."""
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
