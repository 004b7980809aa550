"""From a graph and a budget to the best plan that the judge confirms."""

import time
from collections.abc import Callable
from typing import Any

from remat_algos.ir.budget import Amount, Budget
from remat_algos.ir.graph import ComputationGraph
from remat_algos.plan.plan import Plan
from remat_algos.plan.problem import Problem
from remat_algos.plan.search import Search
from remat_algos.solvers.registry import Progress, Solver, get_solver

AUTO = "auto"


def solve(
    graph: ComputationGraph,
    budget: Budget | Amount | None = None,
    *,
    solver: str | Callable[..., Any] = AUTO,
    time_limit: float | None = None,
    seed: int = 0,
    raw: bool = False,
    polish: bool | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Plan:
    """Find an order of running the nodes whose peak stays within a budget, at the least compute.

    Parameters
    ----------
    graph : ComputationGraph
        For training, one with a backward part (`differentiate`).
    budget : Budget, int or str, optional
        Bytes of peak, residents apart: 4_000_000, "4GiB", "50%" of the peak without rematerialization, or "least".
        None, or an overhead budget alone: the lowest peak.
    solver : str or callable
        A name of `list_solvers()`, a function registered as one, or "auto": the best plan of all that can serve.
    time_limit : float, optional
        Seconds; solvers stop soon after and give the best they have.
    seed : int
        For solvers that use chance.
    raw : bool
        Give the solver's plan as it is, even where no rematerialization would be better.
    polish : bool, optional
        Whether passes over the schedule may skip runs whose values are still there or fit beside the rest, and move
        others (`polished`); by default unless `raw`.
    progress : callable, optional
        Called with (plans judged, plans listed, what is being tried).
    **options
        Options of the solver.

    Returns
    -------
    Plan
        Within the budget, and never worse than no rematerialization unless `raw`.

    Raises
    ------
    BudgetError
        With the least peak reached, the bound that no schedule can go below, and the nodes that force it.
    GraphError
        If the solver cannot serve this graph.
    TypeError, ValueError
        For a budget or an option that is none.
    KeyboardInterrupt
        If interrupted before a plan within the budget was found; later the best so far is returned, marked
        `Plan.interrupted`.

    Examples
    --------
    >>> from remat_algos.ir.differentiate import differentiate
    >>> chain = ComputationGraph.from_edges([(i, i + 1) for i in range(8)])
    >>> plan = solve(differentiate(chain), 7)
    >>> plan.peak_memory, plan.overhead
    (7, 4)
    """
    started = time.perf_counter()
    problem = Problem.of(graph, Budget.of(budget))
    search = Search(problem, time_limit, seed, progress, polish=not raw if polish is None else polish)
    asked = _asked(solver)
    if asked is None and options:
        raise TypeError(f"options {', '.join(options)} belong to one solver; name it, auto takes none")
    search.run(asked, options)
    if not raw:
        search.guard()
    chosen = min(search.attempts, key=problem.rank, default=None)
    if chosen is None or not problem.fits(chosen.simulation):
        if search.interrupted:
            raise KeyboardInterrupt("interrupted before a plan within the budget was found")
        if chosen is None and search.unhonoured:
            raise search.unhonoured
        raise problem.budget_error(search.attempts, search.reasons)
    return problem.plan(
        chosen,
        solver=AUTO if asked is None else asked.name,
        options=options,
        seconds=time.perf_counter() - started,
        interrupted=search.interrupted,
    )


def _asked(solver: str | Callable[..., Any]) -> Solver | None:
    if solver == AUTO:
        return None
    if callable(solver):
        known = get_solver(solver.__name__)
        if known.function is not solver:
            raise ValueError(f"{solver.__name__} is the name of another solver; register the function with @solver")
        return known
    return get_solver(solver)
