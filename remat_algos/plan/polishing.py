"""Selection of the candidates that passes improve, and their limits."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from remat_algos.context import Clock
from remat_algos.plan.problem import Problem
from remat_algos.schedule.passes.polish import polish
from remat_algos.schedule.simulation import Simulation
from remat_algos.solvers.candidates import Candidate

MAX_OTHERS = 12  # candidates that are polished besides the best
MAX_POLISHED_STEPS = 400_000  # steps of one solver's schedules
POLISHED_A_SECOND = 100_000  # steps; the passes over one schedule look at no clock


def polished(problem: Problem, kept: Sequence[Candidate], clock: Clock, *, budgets: int = 0) -> Iterator[Candidate]:
    """The best candidates of a solver after the passes, as far as these improve them.

    Parameters
    ----------
    problem : Problem
    kept : sequence of Candidate
        Of one solver, the lowest peak first.
    clock : Clock
    budgets : int
        For a whole frontier: number of budgets, evenly spaced up to the peak without rematerialization.
    """
    n_steps, max_steps = 0, MAX_POLISHED_STEPS * (1 + bool(budgets))
    waiting = list(_worth_polishing(problem, kept, budgets))
    clock.stage(min(max_steps, sum(len(candidate.schedule) for candidate, _ in waiting)), "polishing")
    for candidate, limit in waiting:
        length = len(candidate.schedule)
        n_steps += length
        if n_steps > max_steps and n_steps > length:
            return
        if clock.left is not None and length / POLISHED_A_SECOND > clock.left:
            continue
        start = candidate.simulated
        better = _passes(problem, start, limit)
        if better is not start:
            yield _improved(candidate, better)
        clock.progress(n_steps)


def _worth_polishing(
    problem: Problem, kept: Sequence[Candidate], budgets: int
) -> Iterator[tuple[Candidate, int | None]]:
    """Candidates, the most promising first, each with its limit; None: as low as possible."""
    if budgets and kept:
        yield from _along_the_curve(problem.base, kept, budgets)
    elif problem.minimizes_peak:
        yield from ((candidate, None) for candidate in sorted(kept, key=problem.rank))
    elif kept:
        best = kept.index(min(kept, key=problem.rank))
        fits = problem.limit is not None and kept[best].figures[0] <= problem.limit
        others = kept[: best : 1 + best // MAX_OTHERS] if fits else kept[1:MAX_OTHERS]
        yield from ((each, problem.limit) for each in sorted([kept[best], *others], key=problem.rank))


def _along_the_curve(base: int, kept: Sequence[Candidate], n: int) -> Iterator[tuple[Candidate, int | None]]:
    """The best for each budget; each within its own peak; then others for each budget.

    No candidate is polished to below its own peak; the run for the lowest peak did that.
    """
    budgets = [base * i // n for i in range(n, 0, -1)]
    within = [[each for each in kept if each.figures[0] <= budget] for budget in budgets]
    for budget, candidates in zip(budgets, within, strict=True):
        yield from ((each, budget) for each in candidates[-1:])
    stride = 1 + sum(len(candidate.schedule) for candidate in kept) // MAX_POLISHED_STEPS
    for candidate in kept[::stride]:
        yield candidate, candidate.figures[0]
    for budget, candidates in zip(budgets, within, strict=True):
        others = candidates[-2 :: -(1 + len(candidates) // MAX_OTHERS)]
        yield from ((each, budget) for each in others)


def _passes(problem: Problem, simulation: Simulation, limit: int | None) -> Simulation:
    """The simulation after the passes: first a lower peak if above the limit, then less compute."""
    graph = problem.graph
    too_high = simulation.peak_memory > limit if limit is not None else problem.overhead_limit is None
    if too_high:
        simulation = polish(graph, simulation, 0)
    return polish(graph, simulation, max(limit or 0, simulation.peak_memory))


def _improved(candidate: Candidate, simulation: Simulation) -> Candidate:
    """The candidate after the passes; its bound is dropped if beaten."""
    beaten = candidate.bound is not None and candidate.bound > simulation.compute
    return replace(
        candidate,
        schedule=simulation.schedule,
        details={**candidate.details, "polished": True},
        bound=None if beaten else candidate.bound,
        scope=None if beaten else candidate.scope,
        simulation=simulation,
    )
