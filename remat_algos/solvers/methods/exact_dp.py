"""The exact dynamic program over all lower sets."""

from collections.abc import Iterator

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
    cap: int = CAP,
) -> Iterator[Candidate]:
    """Choose the best chain from all lower sets, by the formulas of kusumoto2019.

    A formula budget poses the paper's problem: among all chains with formula (2) within the budget, find one that
    minimizes formula (1). Under a limit on the simulated peak this is solved for several formula budgets, to find
    chains with a simulated peak near the limit, first in the wide family of `approximate_dp`.

    Parameters
    ----------
    strategy : {"time", "memory", "cache"}, optional
        Minimum overhead within the budget; maximum overhead, which leaves the most to liveness; or fewest bytes kept,
        as in the authors' program. The default is minimum overhead, and without a formula budget both of the first two.
    formula_budget : int or str, optional
        Upper limit for formula (2), in bytes or as an amount such as "2.1GB".
    keep_last : bool
        Keep the last block instead of recomputing it directly after its run. The paper recomputes it, so formula (1)
        counts it; `formula_overhead` in the details does not.
    lazy : bool, optional
        As in `canonical_schedule`; by default whichever is better.
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
        cap=cap,
    )
