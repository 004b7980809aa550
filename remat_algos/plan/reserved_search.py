"""Schedules for which an allocator reserves no more than a limit."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from remat_algos.allocate.allocators.registry import Allocator
from remat_algos.allocate.reservation import Reservation
from remat_algos.context import SearchContext, until_stopped
from remat_algos.errors import BudgetError
from remat_algos.ir.budget import LEAST
from remat_algos.plan.portfolio import Portfolio
from remat_algos.plan.problem import Problem
from remat_algos.solvers.candidates import Candidate
from remat_algos.solvers.registry import BASELINE

SEARCHES = 6  # of one limit, each for another peak
REFINED = 2  # more schedules that keep to the limit, where the first of them has a lower peak than it need have
STOPPED = "interrupted before a plan within the budget was found"

Search = Callable[[Problem], tuple[Portfolio, Candidate]]
Reserved = tuple[Candidate, Reservation]


class ReservedSearch:
    """Searches for peaks, until what an allocator reserves keeps to the limit; nothing is reserved twice.

    What an allocator adds to the peak is known only of a schedule. So the best candidates of a search are asked, up to
    one that keeps to the limit. Where the best of all does not, a peak lower by the share that was added is searched;
    where that overshoots, one between. Then the candidates of the lowest peaks are asked, and, where the least is
    wanted or nothing keeps to the limit, cheaper ones are searched for which no more than the least is reserved. So
    every limit from the least on is met.

    Parameters
    ----------
    problem : Problem
    search : callable
        What solvers find for a problem, and the best of it; BudgetError if nothing fits.
    allocator : Allocator
    context : SearchContext
    options : mapping
        Of the allocator.
    """

    def __init__(
        self,
        problem: Problem,
        search: Search,
        allocator: Allocator,
        context: SearchContext,
        options: Mapping[str, Any],
    ) -> None:
        self.problem, self.search, self.context = problem, search, context
        self.allocator, self.options = allocator, options
        self.pool: dict[tuple[int, int], Candidate] = {}  # the best of all searches that may still be asked
        self.asked: dict[bytes, int] = {}  # bytes reserved for an order
        self.best: Reserved | None = None  # of what keeps to the limit
        self.least: Reserved | None = None
        self.n_tried = 0
        self.interrupted = False

    def run(self) -> Reserved:
        """The best candidate, and what is reserved for it.

        Raises
        ------
        BudgetError
            If nothing keeps to the limit.
        KeyboardInterrupt
            If interrupted before anything did.
        """
        failure: BudgetError | None = None
        with until_stopped() as ending:
            try:
                self._run()
            except BudgetError as error:
                failure = error
        self.interrupted |= ending.interrupted
        if self.best is not None:
            return self.best
        if self.interrupted:
            raise KeyboardInterrupt(STOPPED)
        if self.least is not None:
            raise self.problem.reserved_error(*self.least)
        raise failure or self.problem.budget_error([], {})

    def _run(self) -> None:
        """Search from the limit downwards, from the lowest peaks upwards, and below the least that was found."""
        problem, lowest = self.problem, self.problem
        if not problem.lowest_wanted:
            if problem.limit is not None and self._within(problem.limit):
                return
            lowest = replace(problem, budget=replace(problem.budget, memory=LEAST), limit=None)
            if self.allocator.candidates == 1 or self._done:
                return
        self._ask(lowest, self._searched(lowest))
        if self.allocator.candidates == 1 or self._done or self.least is None:
            return
        if problem.lowest_wanted or self.best is None:
            missed = problem.lowest_wanted and self.best is None
            self._within(problem.limit if missed and problem.limit is not None else self.least[1].memory)

    @property
    def _done(self) -> bool:
        """Whether what was found has to do."""
        return self.interrupted or (self.context.late and self.best is not None)

    def _within(self, limit: int) -> bool:
        """Search for what keeps to a limit; whether the best of the first search does."""
        problem, goal, low, high, n_within = self.problem, limit, 0, self.problem.base, 0
        for i in range(SEARCHES):
            own = goal == problem.limit and not problem.lowest_wanted
            narrowed = problem if own else replace(problem, budget=replace(problem.budget, memory=goal), limit=goal)
            try:
                chosen = self._searched(narrowed)
            except BudgetError:
                if not self.asked:
                    raise
                low, guess = goal + 1, (goal + 1 + high) // 2
            else:
                n_within += self._ask(narrowed, chosen, limit)
                memory, peak = self.asked[_key(chosen)], chosen.figures[0]
                if memory <= limit:
                    if i == 0:
                        return True
                    low, guess = goal + 1, (goal + 1 + high) // 2
                else:
                    high, guess = peak - 1, limit * peak // memory
            if low > high or n_within > REFINED or self._done:
                break
            goal = max(low, min(high, guess))
        return False

    def _searched(self, problem: Problem) -> Candidate:
        """The best candidate of a search; it and others go into the pool."""
        found, chosen = self.search(problem)
        self.n_tried = max(self.n_tried, found.n_tried)
        self.interrupted |= found.interrupted
        fitting = {each.figures: each for each in found.candidates if problem.fits(each)} | {chosen.figures: chosen}
        for candidate in sorted(fitting.values(), key=problem.rank)[: self.allocator.candidates]:
            details = found.findings[candidate.solver].details(candidate)
            bound, scope = (candidate.bound, candidate.scope) if problem is self.problem else (None, None)
            self.pool[candidate.figures] = replace(candidate, details=details, bound=bound, scope=scope)
        return self.pool[chosen.figures]

    def _ask(self, problem: Problem, chosen: Candidate, limit: int | None = None) -> bool:
        """Reserve for the best of the pool, up to one that keeps to a limit; whether there is one."""
        self._reserve(chosen)
        self.pool.pop(chosen.figures, None)
        if limit is not None and self.asked[_key(chosen)] <= limit:
            return True
        waiting = sorted((each for each in self.pool.values() if problem.fits(each)), key=problem.rank)
        for candidate in waiting[: self.allocator.candidates - 1]:
            better = self.best is None or self.problem.rank(candidate) < self.problem.rank(self.best[0])
            if self.context.late or not (better or self.problem.lowest_wanted):
                return False
            del self.pool[candidate.figures]
            if self._reserve(candidate) and limit is not None and self.asked[_key(candidate)] <= limit:
                return True
        return False

    def _reserve(self, candidate: Candidate) -> bool:
        """Ask the allocator, unless it was asked for the same order."""
        key = _key(candidate)
        if key in self.asked:
            return False
        found = self.allocator.reserve(candidate.simulated, self.context, **self.options)
        self.asked[key] = found.memory
        self.interrupted |= found.interrupted
        if self.least is None or found.memory < self.least[1].memory:
            self.least = candidate, found
        if self.problem.limit is None or found.memory <= self.problem.limit:
            rank = self._rank(candidate, found)
            if self.best is None or rank < self._rank(*self.best):
                self.best = candidate, found
        return True

    def _rank(self, candidate: Candidate, reservation: Reservation) -> tuple[bool | int, ...]:
        """Sorts what keeps to the limit: by what is reserved first where the least is wanted."""
        if not self.problem.lowest_wanted or self.allocator.candidates == 1:
            return self.problem.rank(candidate)
        peak, compute = candidate.figures
        return reservation.memory, compute, peak, candidate.solver != BASELINE


def _key(candidate: Candidate) -> bytes:
    return hashlib.sha256(candidate.schedule.order.tobytes()).digest()
