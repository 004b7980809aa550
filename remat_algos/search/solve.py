"""From a graph and a budget to the best plan found, simulated."""

from dataclasses import replace

from remat_algos.arguments import takes
from remat_algos.context import Clock, Interrupted, Stop
from remat_algos.errors import BudgetError
from remat_algos.ir.budget import LEAST
from remat_algos.plan.plan import Plan
from remat_algos.search.request import Request
from remat_algos.search.without_copies import without_copies


@takes(Request.of)
def solve(request: Request) -> Plan:
    """Find an order of running the nodes whose peak stays within a budget, at the least compute.

    Parameters
    ----------
    graph : ComputationGraph
        For training, one with a backward part (`differentiate`); `solve` adds none. `remat_algos.solve`, like the other
        functions of a graph there, also takes the path of a file and reads it.
    budget : Budget, int or str, optional
        Bytes of peak, residents apart: 4_000_000, "4GiB", "50%" of the peak without rematerialization, "least", or
        "least+0.1%" for the least compute of a plan whose peak is at most 0.1 % above the lowest that was found. None,
        or an overhead budget alone: the lowest peak. With `allocator`, all of what that reserves.
    solver : str or callable
        A name of `list_solvers()`, a function registered as one, or "auto": the best plan of all that can serve.
    effort : {"fast", "default", "best"}
        Which solvers run, and how much work goes into the search, the exact search and the lower bound: it counts
        moves, states and integer programs, not seconds. An integer program also has a time limit, so that bounds may
        differ between machines.
    time_limit : float, optional
        Seconds; solvers stop soon after and give the best they have.
    seed : int
        For solvers that use chance.
    raw : bool
        Give the solver's plan as it is, even where the run without rematerialization is better.
    polish : bool, optional
        Whether passes over the schedule may skip runs whose values are still live, or can be kept within the limit, and
        move others (`polish`); by default unless `raw`.
    allocator : str
        A name of `list_allocators()`: the memory budget limits its reserved bytes (`Plan.reservation`). "peak", the
        default, counts live bytes alone. "cupy_pool" and "cuda_caching" are models that take the maximum over all ways
        to break ties; percentages then refer to what the same allocator reserves without rematerialization, and "least"
        to the lowest reservation found, then the least overhead. "arena" gives every value an address in one piece of
        memory (`pack`); percentages refer to the peak, and for "least" only the schedule of the lowest peak is packed.
    alignment : int
        A power of two that divides every address of the arena.
    constraints : Constraints or mapping, optional
        What the schedule must keep to beside the budget: `{"max_runs": 2, "fixed_order": True, "regions": {"encoder":
        ("encoder.*", "4GiB")}}`. Lower bounds are those without constraints: they hold all the same.
    progress : callable, optional
        Called with (per mille of the work that are done, 1000, what is being tried and the best so far): a `Progress`.
    start : Schedule or sequence of int or str, optional
        A schedule of your own, at which `search` begins beside others; `live_set_search` looks for better ones alone.
        It is a candidate itself, with `raw` too: where it fits, the plan is never worse. Other solvers, named alone,
        take none, nor do `frontier` and `compare`.
    gap : float, optional
        Points of overhead: the search ends at a plan that is this near its lower bound. With 0, the default on graphs
        of up to 64 nodes, it ends only at the bound itself; the default of others is 0.005, with effort "fast" 0.1 from
        1,000 nodes on. It has no effect with `raw`, with an allocator that is a model of a pool, or
        where the peak is minimized.
    link : Link, Device, mapping, str or path, optional
        Values may then also be stored on the host over this link and loaded back, and the plan is the one that takes
        the least time. A name of the table, "pcie5"; rates, "50GB/s" or "50GB/s,25GB/s" out and into; a device that
        states a link, or its file; or a `cost.Link`, whose `host` limits the bytes on the host. The costs of the graph
        must be times. Without it nothing is copied.
    **options
        Options of the solver.

    Returns
    -------
    Plan
        Within the budget, and never worse than no rematerialization unless `raw`, or where a constraint forbids that.
        With `raw`, or of a named solver that does not improve others' schedules, `Plan.bound` is computed when it is
        first read, printed or saved, in what is left of `time_limit`: such a search does not end at a bound.

    Raises
    ------
    BudgetError
        With the least peak reached, the bound that no schedule can go below, the nodes that force it, and the plan of
        least peak that was found.
    GraphError
        If the solver cannot serve this graph, `start` names no node, or `link` is none or the costs are no times.
    ScheduleError
        If `start` breaks a law of schedules, in the words of `simulate`.
    MemoryError
        If the one solver that is asked for runs out of memory before it finds a schedule; of several, the others go on.
    AllocationError
        For an alignment that is not a power of two, or an unknown allocator.
    TypeError, ValueError
        If `budget`, an option or `start` is invalid.
    Interrupted
        A KeyboardInterrupt before a plan within the budget was found; after that, or where the run without
        rematerialization fits, the best so far is returned, marked `Plan.interrupted`.

    Examples
    --------
    >>> from remat_algos.ir.differentiate import differentiate
    >>> from remat_algos.ir.graph import ComputationGraph
    >>> chain = ComputationGraph.from_edges([(i, i + 1) for i in range(8)])
    >>> plan = solve(differentiate(chain), 7)
    >>> plan.peak_memory, plan.overhead
    (7, 4)
    """
    clock = request.clock
    try:
        plan = answered(request, clock)
    except BudgetError:
        clock.finish()
        raise
    clock.finish(plan.report.stop)
    return plan


def answered(request: Request, clock: Clock, lowest: Plan | None = None) -> Plan:
    """Return the best plan for a request; the errors are those of `solve`.

    For a budget such as "least+1%" it is the cheaper of the plan for "least" and one within that share above its bytes;
    with "auto" the second search begins at the first plan. `lowest` is the plan for "least", if it is known.
    """
    share = request.budget.above_lowest
    if share is None:
        return _answered(request, clock)
    if lowest is None:
        lowest = _answered(replace(request, budget=replace(request.budget, memory=LEAST)), clock.share(0.5, 0.5))
    if lowest.report.stop is Stop.INTERRUPTED:
        return lowest
    used = lowest.reservation.memory
    begun = request if request.named is not None else request.started(lowest.schedule)
    near = replace(begun, budget=replace(request.budget, memory=used + int(share * used)))
    try:
        cheaper = _answered(near, clock.share(1.0, 1.0))
    except BudgetError:  # a solver that is given a limit may not get as low as one that minimizes the peak
        return lowest
    except Interrupted:
        return replace(lowest, report=replace(lowest.report, stop=Stop.INTERRUPTED))
    stop, best = lowest.report.stop | cheaper.report.stop, min(lowest, cheaper, key=lambda plan: plan.overhead_in_time)
    return replace(best, report=replace(best.report, stop=stop))


def _answered(request: Request, clock: Clock) -> Plan:
    if request.link is None:
        return without_copies(request, clock)
    from remat_algos.search.with_copies import plan_with_copies

    return plan_with_copies(request, clock)
