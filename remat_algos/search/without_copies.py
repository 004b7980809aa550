"""Plans without copies: the best plan within a budget, and the cheapest plan with the minimum number of bytes."""

from dataclasses import replace

from remat_algos.context import Clock, Interrupted, Stop
from remat_algos.errors import BudgetError
from remat_algos.ir.budget import Budget
from remat_algos.plan.plan import Plan
from remat_algos.search import tuning
from remat_algos.search.pool import Pool
from remat_algos.search.request import Request
from remat_algos.search.solver_run import SolverRun


def without_copies(request: Request, clock: Clock, whole: SolverRun | None = None) -> Plan:
    """Return the best plan without copies; `whole` is a run for the budget "least" if one exists already."""
    if request.least:
        return least(request, clock)
    pool = Pool(request, clock, whole)
    try:
        plan = pool.plan(pool.search())
    except BudgetError as error:
        limit, lowest, run = pool.limits.limit, error.plan, pool.too_high
        other = whole is not None or pool.limits.overhead_limit is not None or pool.limits.repeats
        if other or limit is None or lowest is None or run is None or limit < tuning.NEARLY * lowest.reservation.memory:
            raise
        # The search for "least" may find a lower peak than the run above. Without this search, a budget equal to the
        # bytes of the "least" plan could fail.
        plan = least(replace(request, budget=Budget()), clock, lowest, run)
        if plan.reservation.memory > limit:
            raise
        # A bound that was proved for fewer bytes is not valid for the limit, since plans within the limit may compute
        # less.
        bound = plan.bound_or_search if plan.reservation.memory == limit else pool.bounds.best
        plan = replace(plan, budget=request.budget, limit=limit, bound_or_search=bound)
    return plan


def least(request: Request, clock: Clock, lowest: Plan | None = None, whole: SolverRun | None = None) -> Plan:
    """Return the plan with the fewest bytes found and, within these bytes, the least compute found.

    A first search for the lowest peak takes half of the time. If this search is already complete, `lowest` is its plan
    and `whole` its run. The size of this plan is the budget of a second search, which is repeated while plans get
    smaller. So `solve` with exactly these bytes as the budget finds no cheaper plan, unless the time runs out.
    """
    pool: Pool | None = None
    if lowest is None:
        pool = Pool(request, clock.share(tuning.FEWEST_BYTES_SHARE, tuning.FEWEST_BYTES_SHARE))
        best = pool.search()
        one_pass = best[0].figures[1] <= request.graph.needed_compute
        if one_pass or pool.stop in (Stop.PROVEN, Stop.INTERRUPTED) or pool.out_of_memory or clock.late:
            return pool.plan(best)
        lowest, whole = pool.plan(best, bound_later=True), pool.unlimited_run
    plan, fewer = lowest, True
    while fewer and plan.report.stop is not Stop.INTERRUPTED:
        within = replace(request, budget=replace(request.budget, memory=plan.reservation.memory))
        try:
            other = without_copies(within, clock.share(1.0, 1.0), whole)
        # The time ran out, or a solver with a limit missed the peak that it reaches without one.
        except BudgetError:
            break
        except Interrupted:
            # After an interrupt, the bound is computed quickly when it is first read.
            if pool is not None and plan is lowest:
                pool.stop = Stop.INTERRUPTED
                return pool.plan(best, bound_later=True)
            return replace(plan, report=replace(plan.report, stop=Stop.INTERRUPTED))
        stop = plan.report.stop | other.report.stop
        fewer = other.reservation.memory < plan.reservation.memory
        if (other.overhead, other.reservation.memory) >= (plan.overhead, plan.reservation.memory):
            plan, fewer = replace(plan, bound_or_search=other.bound_or_search), False
        else:
            plan = replace(
                other,
                budget=lowest.budget,
                limit=lowest.limit,
                report=replace(lowest.report, skipped=other.report.skipped),
                solver_peak_bound=lowest.solver_peak_bound,
            )
        plan = replace(plan, seconds=clock.elapsed, report=replace(plan.report, stop=stop))
    return plan
