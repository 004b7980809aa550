"""Lower bounds on compute, before the search, which may end at them, and after it."""

import threading
from collections.abc import Callable
from functools import cache

from remat_algos.bounds.bound import ANY_ORDER, LowerBound
from remat_algos.bounds.integer_program import TOLERANCE
from remat_algos.bounds.rising import rising
from remat_algos.context import Clock, Stop, until_stopped
from remat_algos.effort import DEFAULT, FAST, SMALL, Effort
from remat_algos.forks import cached_property
from remat_algos.search.limits import Limits
from remat_algos.search.request import Request
from remat_algos.solvers.registry import Candidate

BOUND_SHARE = 0.25  # time share of a bound before the search
BOUNDING = "lower bound: "  # prefix of progress text


def compute_bound(
    limits: Limits,
    clock: Clock,
    *,
    effort: str,
    peak: int | None = None,
    closure: LowerBound | None = None,
    goal: int | None = None,
) -> tuple[LowerBound, Stop]:
    """Lower bound on the compute of every schedule within the limit, and how the search ended.

    If the peak is minimized, of every schedule within `peak`, if given. A bound that meets the `goal`, the compute of a
    schedule that was found, ends the search.
    """
    bound = closure or LowerBound(limits.graph.needed_compute)
    limit = peak if limits.minimizes_peak else limits.limit
    with until_stopped() as ending:
        last = goal is not None
        for bound in rising(limits.graph, limit, effort=effort, closure=closure, last=last, clock=clock):
            if goal is not None and bound.amount >= goal - int(TOLERANCE * limits.graph.needed_compute):
                ending.stop = Stop.PROVEN
                break
    return bound, ending.stop


class Bounds:
    """Lower bounds on compute: quick ones before the search, at which it may end, and longer ones after it.

    They are computed at once if the search may end at them, else when they are first read.
    """

    def __init__(self, request: Request, limits: Limits, clock: Clock) -> None:
        self.request, self.limits, self.clock = request, limits, clock
        self.effort, self.stop = Effort.of(request.task.effort), Stop.DONE
        known = self.best if request.ends_at_bound else LowerBound(request.graph.needed_compute)
        self.goal = None if request.raw else limits.goal(known)
        """Compute at which the search may end; None if compute alone does not decide."""

    @cached_property
    def closure(self) -> LowerBound:
        """The closure bound."""
        quick = self.clock.share(BOUND_SHARE, self.clock.within_stage(0.02, BOUNDING))
        bound, self.stop = compute_bound(self.limits, quick, effort=FAST)
        return bound

    @cached_property
    def best(self) -> LowerBound:
        """The bound before the search: of one moment if it may pay, else the closure bound."""
        bound = self.closure
        pays = bound.prices is not None and self.request.graph.n_nodes > SMALL
        if self.effort.bounds_first and pays and self.stop is not Stop.INTERRUPTED:
            longer = self.clock.share(BOUND_SHARE, self.clock.within_stage(0.05, BOUNDING))
            bound, self.stop = compute_bound(self.limits, longer, effort=DEFAULT, closure=bound)
        return bound

    def on_demand(self, best: Candidate, stop: Stop) -> Callable[[], tuple[LowerBound, Stop]]:
        """Return a function that computes the bound of the best plan, and its Stop, in the time left now.

        Threads that call it wait for the first.
        """
        seconds, lock = self.clock.left, threading.Lock()

        @cache
        def computed() -> tuple[LowerBound, Stop]:
            self.clock = Clock(seconds)
            bound = self.best
            bound = bound if self.stop is Stop.INTERRUPTED else self.raised(best, stop)
            return self.limits.proven(best, bound), self.stop

        def once() -> tuple[LowerBound, Stop]:
            with lock:
                return computed()

        return once

    def raised(self, best: Candidate, stop: Stop) -> LowerBound:
        """Raise the bound towards the compute of the best plan in the remaining time."""
        limits, clock, interrupted = self.limits, self.clock, stop is Stop.INTERRUPTED
        proven = limits.own_bound(best) if best.scope == ANY_ORDER else None
        peak, compute = best.figures
        untried = self.effort.bounds_last or self.best is self.closure
        if not untried or compute <= max(self.best.amount, proven or 0):
            return self.best
        tighter, self.stop = compute_bound(
            limits,
            clock.share(progress=None if interrupted else clock.within_stage(name=BOUNDING)),
            effort=FAST if interrupted else self.request.task.effort,
            peak=peak,
            closure=None if limits.minimizes_peak else self.closure,
            goal=compute,
        )
        return max(tighter, self.best, key=lambda each: each.amount)
