"""Approximate dynamic program of kusumoto2019, over a small family of lower sets."""

from collections.abc import Iterator
from typing import Any

from remat_algos.context import Clock
from remat_algos.errors import ArgumentError
from remat_algos.ir.graph import ComputationGraph
from remat_algos.solvers.formula_chains import formula_candidates, formula_rows
from remat_algos.solvers.registry import Candidate, Task, solver, training_graph


@solver(paper="kusumoto2019", needs=training_graph, describe=formula_rows, price=0.2)
def approximate_dp(
    graph: ComputationGraph,
    task: Task,
    clock: Clock,
    *,
    family: str = "wide",
    strategy: str | None = None,
    formula_budget: int | str | None = None,
    keep_last: bool = True,
    lazy: bool | None = None,
    objective: Any = None,
) -> Iterator[Candidate]:
    """Choose the best chain from a small family of lower sets, by the formulas of kusumoto2019.

    Like `exact_dp`, but in time polynomial in the number of nodes.

    Parameters
    ----------
    family : {"wide", "pruned"}
        "pruned" is the paper's family: for each node, the node and its ancestors. "wide" adds the prefixes of the id
        order and, for each node, all nodes except the node and its descendants. Above about 600 sets, only the sets
        for evenly spaced nodes are used, and the plan's details contain `thinned`.
    strategy, formula_budget, keep_last, lazy, objective : optional
        As in `exact_dp`.

    References
    ----------
    kusumoto2019, sections 4.3 and 4.4.
    """
    if family not in ("wide", "pruned"):
        raise ArgumentError("family is {family!r}; use wide or pruned, or the solver exact_dp", family=family)
    return formula_candidates(
        graph,
        task.limit,
        clock,
        family,
        strategy=strategy,
        formula_budget=formula_budget,
        keep_last=keep_last,
        lazy=lazy,
        objective=objective,
    )
