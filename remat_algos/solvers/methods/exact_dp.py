"""Exact dynamic program of kusumoto2019, over all lower sets."""

from collections.abc import Iterator
from typing import Any

from remat_algos.context import Clock
from remat_algos.ir.graph import ComputationGraph
from remat_algos.solvers.formula_chains import formula_candidates, formula_rows
from remat_algos.solvers.registry import Candidate, Task, solver, training_graph
from remat_algos.structure.tuning import CAP


@solver(paper="kusumoto2019", needs=training_graph, describe=formula_rows, portfolio=False)
def exact_dp(
    graph: ComputationGraph,
    task: Task,
    clock: Clock,
    *,
    strategy: str | None = None,
    formula_budget: int | str | None = None,
    keep_last: bool = True,
    lazy: bool | None = None,
    objective: Any = None,
    cap: int = CAP,
) -> Iterator[Candidate]:
    """Choose the best chain from all lower sets, by the formulas of kusumoto2019.

    With a formula budget, this solver solves the problem of the paper: among all chains for which formula (2) is within
    the budget, find one that minimizes formula (1). Without it, several formula budgets are tried to find chains with a
    simulated peak near the limit. The wide family of `approximate_dp` is searched first.

    Parameters
    ----------
    strategy : {"time", "memory", "cache"}, optional
        "time" minimizes the overhead within the budget. "memory" maximizes the overhead, so the schedule keeps few
        values and frees the others after their last read. "cache" minimizes the kept bytes, as in the authors'
        program. The default is "time"; without a formula budget, "time" and "memory" are both tried.
    formula_budget : int or str, optional
        Upper limit for formula (2), in bytes or as an amount such as "2.1GB".
    keep_last : bool
        Keep the last block. The paper recomputes it directly after its run, and formula (1) counts this recomputation.
        The `formula_overhead` in the plan's details then does not count it.
    lazy : bool, optional
        As in `canonical_schedule`. By default both are tried.
    objective : str, function or scipy.LowLevelCallable, optional
        The cost of a block, which replaces its term of formula (1). A function takes one or more of these arguments, by
        name: `cost`, the term of formula (1); `kept`, the bytes that stay cached after the block; `peak`, the bytes
        that formula (2) counts for the block alone. Values are 0 or more, and are rounded to whole numbers. The chain
        minimizes their sum among all chains for which formula (2) is within `formula_budget`, which is the budget of
        the plan by default. The plan is neither improved nor compared with other plans, as with `raw`.
    cap : int
        Maximum number of lower sets to enumerate.

    References
    ----------
    kusumoto2019, sections 4.2 and 4.4.
    """
    return formula_candidates(
        graph,
        task.limit,
        clock,
        "exact",
        strategy=strategy,
        formula_budget=formula_budget,
        keep_last=keep_last,
        lazy=lazy,
        objective=objective,
        cap=cap,
    )
