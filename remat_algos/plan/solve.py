"""From a graph and a budget to the best plan that the judge confirms."""

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from remat_algos.allocate.buffers import is_alignment
from remat_algos.errors import AllocationError, BudgetError
from remat_algos.ir.budget import Amount, Budget
from remat_algos.ir.graph import ComputationGraph
from remat_algos.plan.packed import SECONDS, Packed
from remat_algos.plan.plan import Plan
from remat_algos.plan.problem import Attempt, Problem
from remat_algos.plan.search import Search
from remat_algos.schedule.simulation import Simulation
from remat_algos.solvers.registry import Progress, Solver, get_solver

AUTO = "auto"
PACKINGS = 6  # schedules of one problem that are packed, each with a lower peak
LAST_SECOND = 1.0  # that packing may take where the time is over


def solve(
    graph: ComputationGraph,
    budget: Budget | Amount | None = None,
    *,
    solver: str | Callable[..., Any] = AUTO,
    time_limit: float | None = None,
    seed: int = 0,
    raw: bool = False,
    polish: bool | None = None,
    packed: bool = False,
    alignment: int = 1,
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
    packed : bool
        Pack the schedule into one arena (`pack`). A bound of the memory then holds for that arena: where the schedule
        does not pack into it, others of a lower peak are searched. Without one, it is the schedule of the least judged
        peak that is packed.
    alignment : int
        A power of two that divides every address of the arena; goes with `packed`.
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
    AllocationError
        For an alignment that is no power of two.
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
    asked = _asked(solver)
    if asked is None and options:
        raise TypeError(f"options {', '.join(options)} belong to one solver; name it, auto takes none")
    if not is_alignment(alignment):
        raise AllocationError(f"alignment is {alignment!r}, which is no power of two below 2**53; give 1, 2, 4, 8, ...")
    if alignment != 1 and not packed:
        raise ValueError(f"alignment={alignment} goes with packed=True; give that too")

    def left() -> float | None:
        return None if time_limit is None else max(0.0, time_limit - (time.perf_counter() - started))

    def search(problem: Problem) -> tuple[Search, Attempt]:
        found = Search(problem, left(), seed, progress, polish=not raw if polish is None else polish)
        found.run(asked, options)
        if not raw:
            found.guard()
        return found, _best(found)

    arena = None
    if packed:
        pack = partial(Packed.of, alignment=alignment, seed=seed, progress=progress)
        found, chosen, arena = _packing(problem, search, lambda s: pack(s, time_limit=_seconds(left())))
    else:
        found, chosen = search(problem)
    return problem.plan(
        chosen,
        solver=AUTO if asked is None else asked.name,
        options=options,
        seconds=time.perf_counter() - started,
        interrupted=found.interrupted or (arena is not None and arena.interrupted),
        packed=arena,
    )


def _best(search: Search) -> Attempt:
    """The attempt that ranks first, if it keeps to the budget."""
    problem = search.problem
    chosen = min(search.attempts, key=problem.rank, default=None)
    if chosen is not None and problem.fits(chosen.simulation):
        return chosen
    if search.interrupted:
        raise KeyboardInterrupt("interrupted before a plan within the budget was found")
    if chosen is None and search.unhonoured:
        raise search.unhonoured
    raise problem.budget_error(search.attempts, search.reasons)


def _packing(
    problem: Problem, search: Callable[[Problem], tuple[Search, Attempt]], pack: Callable[[Simulation], Packed]
) -> tuple[Search, Attempt, Packed]:
    """Search below lower and lower peaks until what is found packs into the limit.

    A peak lower by the share that packing adds is tried first; where none is so low, one between.
    """
    tried: list[tuple[Attempt, Packed]] = []
    narrowed, low, high = problem, 0, problem.base
    for _ in range(PACKINGS):
        try:
            found, chosen = search(narrowed)
        except BudgetError:
            if not tried:
                raise
            low = (narrowed.limit or 0) + 1
            guess = (low + high) // 2
        else:
            tried.append((chosen, pack(chosen.simulation)))
            peak, size = chosen.simulation.peak_memory, tried[-1][1].memory
            if problem.limit is None or size <= problem.limit:
                return found, *tried[-1]
            if found.interrupted or tried[-1][1].interrupted:
                raise KeyboardInterrupt("interrupted before a plan that packs into the budget was found")
            high, guess = peak - 1, problem.limit * peak // size
        if low > high:
            break
        narrowed = replace(narrowed, limit=max(low, min(high, guess)))
    raise problem.packed_error(tried)


def _seconds(left: float | None) -> float:
    """How long packing may take."""
    return SECONDS if left is None else min(SECONDS, max(LAST_SECOND, left))


def _asked(solver: str | Callable[..., Any]) -> Solver | None:
    if solver == AUTO:
        return None
    if callable(solver):
        known = get_solver(solver.__name__)
        if known.function is not solver:
            raise ValueError(f"{solver.__name__} is the name of another solver; register the function with @solver")
        return known
    return get_solver(solver)
