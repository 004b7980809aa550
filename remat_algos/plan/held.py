"""Plans that keep to a limit as an arena or an allocator holds them, not only as they are judged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from remat_algos.errors import BudgetError
from remat_algos.plan.packed import Packed
from remat_algos.plan.problem import Attempt, Problem
from remat_algos.plan.reserved import Reserved
from remat_algos.plan.search import Search
from remat_algos.schedule.simulation import Simulation

SEARCHES = 6  # of one problem, each for a lower peak
CANDIDATES = 24  # schedules of one search that are given to the model of an allocator
REFINED = 2  # more plans that keep to the limit, where the first of them has a lower peak than it need have

Holding = tuple[Attempt, Packed | Reserved]


def search_held(
    problem: Problem,
    search: Callable[[Problem], tuple[Search, Attempt]],
    hold: Callable[[Simulation], Packed | Reserved],
    candidates: int = 1,
) -> tuple[Search, Attempt, Packed | Reserved]:
    """Search below lower and lower peaks until what is found packs into the limit, or its allocator keeps to it.

    A peak lower by the share that this adds is tried first; where none is so low, one between. Where that was too low,
    since what is added is no steady share, a few peaks between are tried as well. Of each search so many candidates are
    asked for what they add, the best first.

    Parameters
    ----------
    problem : Problem
    search : callable
        Gives the attempts at a problem, and the best of them; BudgetError if none fits.
    hold : callable
        What a schedule comes to in an arena or an allocator.
    candidates : int
        Attempts of one search that are asked.

    Returns
    -------
    search : Search
        The last one.
    chosen : Attempt
    held : Packed or Reserved
        What it comes to.

    Raises
    ------
    BudgetError
        If nothing keeps to the limit.
    KeyboardInterrupt
        If interrupted before anything did.
    """
    tried: list[Holding] = []
    kept: list[Holding] = []
    narrowed, low, high = problem, 0, problem.base
    for _ in range(SEARCHES):
        try:
            found, chosen = search(narrowed)
        except BudgetError:
            if not tried:
                raise
            low = (narrowed.limit or 0) + 1
            guess = (low + high) // 2
        else:
            asked = _asked_in_turn(problem, found, chosen, hold, candidates)
            tried += asked
            peak, size = chosen.simulation.peak_memory, asked[0][1].memory
            stopped = found.interrupted or any(held.interrupted for _, held in asked)
            if _within(problem, asked[-1][1]):
                kept.append(asked[-1])
            if _within(problem, asked[0][1]):
                low = (narrowed.limit or 0) + 1
            elif problem.limit is not None:
                high, guess = peak - 1, problem.limit * peak // size
            if (kept and stopped) or len(kept) > REFINED or (narrowed is problem and _within(problem, asked[0][1])):
                break
            if stopped:
                raise KeyboardInterrupt("interrupted before a plan that its allocator holds in the budget was found")
            guess = (low + high) // 2 if _within(problem, asked[0][1]) else guess
        if low > high:
            break
        narrowed = replace(narrowed, limit=max(low, min(high, guess)))
    if not kept:
        raise problem.held_error(tried)
    return found, *min(kept, key=lambda each: problem.rank(each[0]))


def _asked_in_turn(
    problem: Problem,
    found: Search,
    chosen: Attempt,
    hold: Callable[[Simulation], Packed | Reserved],
    candidates: int,
) -> list[Holding]:
    """What the best attempts of a search come to, up to the first that keeps to the limit; `chosen` is the best."""
    others = {attempt.figures: attempt for attempt in found.attempts if problem.fits(attempt.simulation)}
    others.pop(chosen.figures, None)
    asked: list[Holding] = []
    for attempt in [chosen, *sorted(others.values(), key=problem.rank)][:candidates]:
        asked.append((attempt, hold(attempt.simulation)))
        if _within(problem, asked[-1][1]):
            break
    return asked


def _within(problem: Problem, held: Packed | Reserved) -> bool:
    return problem.limit is None or held.memory <= problem.limit
