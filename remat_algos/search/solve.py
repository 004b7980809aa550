"""Find the best plan for a graph and a budget."""

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
    """Find a schedule whose peak stays within a budget, with minimum compute.

    Parameters
    ----------
    graph : ComputationGraph
        For training, a graph with a backward part (`differentiate`); `solve` does not add one. Every function in
        `remat_algos` that takes a graph also accepts the path of a graph file.
    budget : Budget, int or str, optional
        Bytes of the peak, without residents: 4_000_000, "4GiB", or "50%" of the peak without rematerialization. "least"
        minimizes the peak. "least+0.1%" minimizes the compute with a peak at most 0.1 % above the lowest one found.
        None, or a budget that limits only overhead, minimizes the peak. With `allocator`, the budget limits the bytes
        that the allocator reserves.
    solver : str or callable
        A name of `list_solvers()`, a registered function, or "auto": the best plan of all suitable solvers.
    effort : {"fast", "default", "best"}
        Which solvers run, and how much work searches and lower bounds do. Work is counted in moves, states and integer
        programs, not in seconds. An integer program also has a time limit, so bounds may differ between machines.
    time_limit : float, optional
        Seconds; the search stops soon after and returns the best plan found.
    seed : int
        Seed of solvers that use random numbers.
    raw : bool
        Return the solver's plan unchanged, even if the plan without rematerialization is better.
    polish : bool, optional
        Whether to improve schedules by passes (`polish`) that move runs, and remove runs whose values are still live or
        can stay live within the limit; True by default, except with `raw`.
    allocator : str
        A name of `list_allocators()`; the memory budget limits the bytes it reserves (`Plan.reservation`). "peak", the
        default, counts live bytes only. "cupy_pool" and "cuda_caching" are models that take the maximum over all ways
        to break ties. With them, percentages refer to the bytes that the allocator reserves without rematerialization,
        and "least" minimizes the reserved bytes first, then the overhead. "arena" gives every value an address in one
        block of memory (`pack`). With it, percentages refer to the peak, and for "least" only the schedule with the
        lowest peak is packed.
    alignment : int
        A power of two that divides every address of the arena.
    constraints : Constraints or mapping, optional
        Rules for the schedule in addition to the budget: `{"max_runs": 2, "fixed_order": True, "regions": {"encoder":
        ("encoder.*", "4GiB")}}`. Lower bounds ignore constraints, which keeps them valid.
    progress : callable, optional
        Called as `progress(done, 1000, text)`; see `Progress`.
    start : Schedule or sequence of int or str, optional
        A schedule of your own. `search` starts from it as well, and `live_set_search` searches only for better ones.
        The schedule is also a candidate itself, even with `raw`: if it fits, the plan is never worse. `start` cannot be
        given to solvers that do not improve schedules, to `frontier` or to `compare`.
    gap : float, optional
        The search ends when the overhead is at most this many percentage points above its lower bound. With 0, the
        default for graphs of up to 64 nodes, it ends only at the bound itself. The default for larger graphs is 0.005,
        but 0.1 with effort "fast" if they have 1,000 or more nodes. `gap` has no effect with `raw`, with an allocator
        that models a pool, or if the peak is minimized.
    link : Link, Device, mapping, str or path, optional
        With a link, values may also be stored on the host and loaded back, and the plan minimizes time. A link is the
        name of a common link, such as "pcie5"; rates, such as "50GB/s" for both directions or "50GB/s,25GB/s" for
        stores and loads; a device with a link, or its file; or a `cost.Link`, whose `host` limits the bytes on the
        host. The costs of the graph must be times.
    **options
        Options of the solver.

    Returns
    -------
    Plan
        Within the budget, and never worse than the plan without rematerialization, unless `raw` is set or a constraint
        forbids that plan. With `raw`, or with a named solver that does not improve schedules, the search does not end
        at a bound; then `Plan.bound` is computed when first read, printed or saved, in the rest of `time_limit`.

    Raises
    ------
    BudgetError
        If no plan fits. The error contains the lowest peak reached, the plan with that peak, the lower bound on peaks,
        and the nodes that force this bound.
    GraphError
        If the solver does not support this graph, `start` has an unknown node, `link` is invalid, or with a link costs
        are not times.
    ScheduleError
        If `start` is not a valid schedule; the message is that of `simulate`.
    MemoryError
        If the only solver runs out of memory before it finds a schedule; with several solvers, the others continue.
    AllocationError
        If the allocator is unknown or the alignment is not a power of two.
    TypeError, ValueError
        If `budget`, an option or `start` is invalid.
    Interrupted
        If the user stops the search before it finds a plan within the budget. If the user stops it after that, the best
        plan found is returned with `Plan.interrupted` set.

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
    """Return the best plan for a request; `lowest` is the plan for "least", from which "least+1%" searches again."""
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
    # With a limit, a solver may miss the peak that it reaches without one.
    except BudgetError:
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
