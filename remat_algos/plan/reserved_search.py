"""Plans for which an arena or an allocator reserves no more than a limit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from remat_algos.errors import BudgetError
from remat_algos.ir.budget import LEAST
from remat_algos.plan.packed import Packed
from remat_algos.plan.portfolio import Portfolio
from remat_algos.plan.problem import Problem
from remat_algos.plan.reserved import Reserved
from remat_algos.schedule.simulation import Simulation
from remat_algos.solvers.candidates import Candidate
from remat_algos.solvers.registry import BASELINE

SEARCHES = 6  # of one problem, each for a lower peak
CANDIDATES = 24  # schedules of one search that are given to the model of an allocator
REFINED = 2  # more plans that keep to the limit, where the first of them has a lower peak than it need have
STOPPED = "interrupted before a plan was found that fits the budget with this allocator"

Holding = tuple[Candidate, Packed | Reserved]
Searching = Callable[[Problem], tuple[Portfolio, Candidate]]
Hold = Callable[[Simulation], Packed | Reserved]


def search_reserved(
    problem: Problem,
    search: Searching,
    hold: Hold,
    candidates: int = 1,
) -> tuple[Portfolio, Candidate, Packed | Reserved]:
    """Search for what packs into a limit, or for which an allocator keeps to it; where there is none, for the least.

    Below a limit, lower and lower peaks are searched. A peak lower by the share that this adds is tried first; where
    none is so low, one between. Where that was too low, since what is added is no steady share, a few peaks between are
    tried as well. Of each search so many candidates are asked for what they add, the best first, up to one that keeps
    to the limit. Where the best of the first search does not, the candidates of the lowest peaks are asked too.

    Where the least is wanted, or nothing else keeps to the limit, the candidates of the lowest peaks are all asked; the
    least that they come to is then a limit, below which cheaper ones are searched. So every limit from the least on is
    met. Of one candidate alone nothing is compared but its peak.

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
    if problem.lowest_wanted and candidates > 1:
        return _least(problem, *_held_by(problem, search, hold, candidates), search, hold, candidates)
    found, kept, tried = _within_limit(problem, search, hold, candidates)
    straight = _within(problem, tried[0][1])
    if candidates > 1 and not (straight or found.interrupted or found.context.late):
        try:
            low, asked = _from_below(problem, bool(kept), search, hold, candidates)
        except (BudgetError, KeyboardInterrupt) as stop:
            if not kept:
                raise
            found.interrupted = isinstance(stop, KeyboardInterrupt)
        else:
            found.interrupted = low.interrupted
            tried += asked
            kept += [each for each in asked if _within(problem, each[1])]
    if not kept:
        raise problem.reserved_error(tried)
    return found, *min(kept, key=lambda each: problem.rank(each[0]))


def _from_below(
    problem: Problem, known: bool, search: Searching, hold: Hold, candidates: int
) -> tuple[Portfolio, list[Holding]]:
    """What the lowest plans come to, and the least where none of them keeps to the limit and no other is known to."""
    lowest = replace(problem, budget=replace(problem.budget, memory=LEAST), limit=None)
    found, asked = _held_by(lowest, search, hold, candidates)
    if not known and not any(_within(problem, held) for _, held in asked):
        found, attempt, least = _least(lowest, found, asked, search, hold, candidates)
        asked.append((attempt, least))
    return found, asked


def _held_by(problem: Problem, search: Searching, hold: Hold, candidates: int) -> tuple[Portfolio, list[Holding]]:
    """A search, and what its best attempts come to."""
    found, chosen = search(problem)
    return found, list(_held_in_turn(problem, found, chosen, hold, candidates))


def _least(
    problem: Problem, found: Portfolio, asked: list[Holding], search: Searching, hold: Hold, candidates: int
) -> tuple[Portfolio, Candidate, Packed | Reserved]:
    """Of what a search for the lowest has found, and what is found below it, that which is held in least, the cheapest.

    BudgetError if even that does not keep to the limit of a device.
    """
    best = min(asked, key=_least_first)
    fits = _within(problem, best[1])
    if fits and (found.interrupted or found.context.late):
        return found, *best
    if found.interrupted:
        raise KeyboardInterrupt(STOPPED)
    limit = best[1].memory if fits else problem.limit
    bounded = replace(problem, budget=replace(problem.budget, memory=limit), limit=limit)
    try:
        found, kept, tried = _within_limit(bounded, search, hold, candidates)
    except (BudgetError, KeyboardInterrupt) as stop:
        if not fits:
            raise
        found.interrupted = isinstance(stop, KeyboardInterrupt)
        return found, *best
    if not kept and not fits:
        raise problem.reserved_error([best, *tried])
    return found, *min([best, *kept] if fits else kept, key=_least_first)


def _within_limit(
    problem: Problem, search: Searching, hold: Hold, candidates: int
) -> tuple[Portfolio, list[Holding], list[Holding]]:
    """The last search, what was found to keep to the limit, and all that was asked, the first search's best first."""
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
            asked = []
            for each in _held_in_turn(problem, found, chosen, hold, candidates):
                asked.append(each)
                if _within(problem, each[1]):
                    break
            tried += asked
            peak, size = chosen.figures[0], asked[0][1].memory
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
                raise KeyboardInterrupt(STOPPED)
            guess = (low + high) // 2 if _within(problem, asked[0][1]) else guess
        if low > high:
            break
        narrowed = replace(narrowed, limit=max(low, min(high, guess)))
    return found, kept, tried


def _held_in_turn(
    problem: Problem, found: Portfolio, chosen: Candidate, hold: Hold, candidates: int
) -> Iterator[Holding]:
    """What the best attempts of a search come to, one after the other till the time is over; `chosen` is the best."""
    others = {candidate.figures: candidate for candidate in found.candidates if problem.fits(candidate)}
    others.pop(chosen.figures, None)
    for candidate in (chosen, *sorted(others.values(), key=problem.rank)[: candidates - 1]):
        if candidate is not chosen and found.context.late:
            return
        yield candidate, hold(candidate.simulated)


def _within(problem: Problem, held: Packed | Reserved) -> bool:
    return problem.limit is None or held.memory <= problem.limit


def _least_first(holding: Holding) -> tuple[int, int, int, bool]:
    candidate, held = holding
    peak, compute = candidate.figures
    return held.memory, compute, peak, candidate.solver != BASELINE
