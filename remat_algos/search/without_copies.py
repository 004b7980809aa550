"""Plans that keep or recompute: the best of a pool within a budget, and the cheapest of the lowest bytes."""

from dataclasses import replace
from typing import Any

from remat_algos.context import Clock, Interrupted, Stop, interrupted_as
from remat_algos.errors import BudgetError
from remat_algos.ir.budget import Budget
from remat_algos.plan.plan import Plan
from remat_algos.search.bounding import Bounds
from remat_algos.search.pool import STOPPED, Pool
from remat_algos.search.request import Request
from remat_algos.search.solver_run import SolverRun

# Minimum limit, as a share of the lowest peak, that the search within that peak may meet.
NEARLY = 0.9
# Share of the time for the lowest bytes; the rest is for the search within them.
FEWEST_BYTES_SHARE = 0.5


def searched(request: Request, clock: Clock, lowest: SolverRun | None = None) -> Plan:
    """Return the best plan for a budget other than a share above the lowest peak.

    `lowest` is the run of the same request for the budget "least", if it is known.
    """
    with interrupted_as(STOPPED):
        limits = request.limits()
        limits.check_regions()
        own = clock
        # A raw plan is the solver's own for the lowest peak.
        if limits.minimizes_peak and limits.overhead_limit is None and not request.raw:
            own = clock.share(FEWEST_BYTES_SHARE, clock.within_stage(FEWEST_BYTES_SHARE))
        bounds = Bounds(request, limits, own)
    pool = Pool(request, limits, own, bounds, lowest)
    try:
        best, reservation = pool.search()
    except BudgetError as error:
        if error.plan is not None:
            error.plan = replace(error.plan, solver=request.name, options=request.options, seconds=clock.elapsed)
            near = limits.limit is not None and limits.limit >= NEARLY * error.plan.reservation.memory
            alone = limits.overhead_limit is None and not limits.repeats
            if lowest is None and pool.lowest_run is not None and near and alone:
                # The search within the lowest bytes may find fewer: what "least" reaches, a budget of it reaches.
                least = _within_lowest(replace(request, budget=Budget()), error.plan, pool.lowest_run, clock)
                if limits.limit is not None and least.reservation.memory <= limits.limit:
                    clock.finish()
                    return replace(least, budget=request.budget, limit=limits.limit, **_bound_of(least))
        clock.finish()
        raise
    again = (
        own is not clock
        and best.figures[1] > request.graph.needed_compute
        and pool.stop not in (Stop.PROVEN, Stop.INTERRUPTED)
        and not pool.out_of_memory
        and not clock.late
    )
    bound = (bounds.raised if request.ends_at_bound and not again else bounds.on_demand)(best, pool.stop)
    stop = pool.stop | bounds.stop
    plan = limits.plan(
        best,
        solver=request.name,
        options=request.options,
        seconds=clock.elapsed,
        report=pool.report(best, stop),
        bound=bound,
        reservation=reservation,
    )
    if again:
        plan = _within_lowest(request, plan, pool.whole_lowest, clock)
    if (stop | plan.report.stop) is not Stop.INTERRUPTED:
        clock.finish()
    return plan


def _within_lowest(request: Request, lowest: Plan, run: SolverRun | None, clock: Clock) -> Plan:
    """Return the plan of the lowest bytes, or the plan for a budget of those bytes if that is cheaper.

    The search is the one that such a budget gets, and is repeated where its plan takes fewer bytes than were asked for:
    so no plan for the bytes of the result is cheaper.
    """
    plan = lowest
    while True:
        asked = replace(request, budget=replace(request.budget, memory=plan.reservation.memory))
        try:
            other = searched(asked, clock.share(progress=clock.within_stage()), run)
        except BudgetError:  # time limit, or a solver finds less for a limit than for the lowest peak
            return plan
        except Interrupted:
            return replace(plan, report=replace(plan.report, stop=Stop.INTERRUPTED), **_bound_of(plan))
        stop = plan.report.stop | other.report.stop
        if (other.overhead, other.reservation.memory) >= (plan.overhead, plan.reservation.memory):
            return replace(plan, seconds=clock.elapsed, report=replace(plan.report, stop=stop), **_bound_of(other))
        fewer = other.reservation.memory < plan.reservation.memory
        plan = replace(
            other,
            budget=lowest.budget,
            limit=lowest.limit,
            seconds=clock.elapsed,
            report=replace(lowest.report, stop=stop, skipped=other.report.skipped),
            solver_peak_bound=lowest.solver_peak_bound,
            **_bound_of(other),
        )
        if stop is Stop.INTERRUPTED or not fewer:
            return plan


def _bound_of(plan: Plan) -> dict[str, Any]:
    """Return the bound of a plan, computed or not."""
    search = plan.bound_search
    return {"bound": plan.bound, "bound_search": None} if search is None else {"bound": None, "bound_search": search}
