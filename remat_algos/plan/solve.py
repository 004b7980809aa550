"""From a graph and a budget to the best plan found, simulated."""

from collections.abc import Callable
from typing import Any

from remat_algos.allocate.allocators.registry import Allocator, get_allocator
from remat_algos.allocate.buffers import is_alignment
from remat_algos.allocate.reservation import PEAK
from remat_algos.context import Progress, SearchContext
from remat_algos.errors import AllocationError, GraphError, ScheduleError
from remat_algos.ir.arrays import as_whole, whole
from remat_algos.ir.budget import Amount, Budget
from remat_algos.ir.graph import ComputationGraph, check_graph
from remat_algos.plan.plan import INTERRUPTED, TRIED, Plan
from remat_algos.plan.portfolio import Portfolio
from remat_algos.plan.problem import Problem
from remat_algos.plan.reserved_search import ReservedSearch
from remat_algos.solvers.candidates import Candidate
from remat_algos.solvers.registry import Solver, get_solver, portfolio

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
    allocator: str = PEAK,
    alignment: int = 1,
    progress: Progress | None = None,
    **options: Any,
) -> Plan:
    """Find an order of running the nodes whose peak stays within a budget, at the least compute.

    Parameters
    ----------
    graph : ComputationGraph
        For training, one with a backward part (`differentiate`); `solve` adds none. `remat_algos.solve`, like the other
        functions of a graph there, also takes the path of a file and reads it.
    budget : Budget, int or str, optional
        Bytes of peak, residents apart: 4_000_000, "4GiB", "50%" of the peak without rematerialization, or "least".
        None, or an overhead budget alone: the lowest peak. With `allocator`, all of what that reserves.
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
    allocator : str
        A name of `list_allocators()`: whose reserved bytes the memory budget is for (`Plan.reservation`). "peak", the
        default, is of live bytes alone. Of "cupy_pool" and "cuda_caching", which are models, it is the most over
        the ways to break ties; "50%" is then of what the same allocator reserves without rematerialization, and "least"
        the least reserved of what is found, then the least overhead. "arena" gives every value an address in one piece
        of memory (`pack`); shares are of the peak, and for "least" the schedule of the lowest peak alone is packed.
    alignment : int
        A power of two that divides every address of the arena.
    progress : callable, optional
        Called with (candidates simulated, candidates in all as far as they are known, what is being tried).
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
        For an alignment that is no power of two, or an unknown allocator.
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
    check_graph(graph)
    asked = _asked(solver)
    if "packed" in options:
        raise TypeError('packed=True is written allocator="arena" now')
    if asked is None and options:
        raise TypeError(f"options {', '.join(options)} belong to one solver; name it, auto takes none")
    if not is_alignment(alignment):
        raise AllocationError(f"alignment is {alignment!r}, which is no power of two below 2**53; give 1, 2, 4, 8, ...")
    alignment, seed = int(alignment), whole(seed, "seed")
    options = {name: given if as_whole(given) is None else as_whole(given) for name, given in options.items()}
    reserving = get_allocator(allocator)
    context = SearchContext(time_limit, progress, seed=seed)
    problem = Problem.of(graph, Budget.of(budget), reserving)

    def search(problem: Problem) -> tuple[Portfolio, Candidate]:
        found = Portfolio(problem, context.share(progress=progress), polish=not raw if polish is None else polish)
        found.run(portfolio() if asked is None else [asked], options)
        if asked is not None:
            _check_served(asked, found)
        if not raw:
            found.guard()
        return found, _best(found)

    found = ReservedSearch(problem, search, reserving, context, allocator_options(reserving, alignment))
    best, reservation = found.run()
    details = dict(best.details)
    if asked is None:
        details[TRIED] = found.n_tried
    if found.interrupted:
        details[INTERRUPTED] = True
    return problem.plan(
        best,
        solver=AUTO if asked is None else asked.name,
        options=options,
        seconds=context.elapsed,
        details=details,
        reservation=reservation,
    )


def allocator_options(allocator: Allocator, alignment: int) -> dict[str, int]:
    """What an allocator is told; ValueError for an alignment that it does not take."""
    if "alignment" in allocator.options:
        return {"alignment": alignment}
    if alignment != 1:
        raise ValueError(f"alignment={alignment} goes with allocator='arena'; give that too")
    return {}


def _check_served(solver: Solver, found: Portfolio) -> None:
    """Raise what kept the one solver that was asked from finding anything."""
    findings = found.findings[solver.name]
    reason, error = solver.needs(found.problem.graph), findings.error
    if reason is not None:
        raise GraphError(f"{solver.name} cannot serve this graph: {reason}")
    if isinstance(error, ScheduleError):
        raise ScheduleError(f"{solver.name} cannot serve this graph: {error}", error.step, error.node) from error
    if error is not None:
        raise error


def _best(found: Portfolio) -> Candidate:
    """The candidate that ranks first, if it keeps to the budget."""
    problem, best = found.problem, found.best()
    if best is not None and problem.fits(best):
        return best
    if found.interrupted:
        raise KeyboardInterrupt("interrupted before a plan within the budget was found")
    errors = [findings.error for findings in found.findings.values() if isinstance(findings.error, ScheduleError)]
    if best is None and errors:
        raise errors[-1]
    skipped = max((findings.skipped for findings in found.findings.values()), default=0)
    cut = any(findings.cut for findings in found.findings.values())
    raise problem.budget_error(found.candidates, found.reasons, skipped, cut=cut)


def _asked(solver: str | Callable[..., Any]) -> Solver | None:
    if solver == AUTO:
        return None
    if callable(solver):
        known = get_solver(solver.__name__)
        if known.function is not solver:
            raise ValueError(f"{solver.__name__} is the name of another solver; register the function with @solver")
        return known
    return get_solver(solver)
