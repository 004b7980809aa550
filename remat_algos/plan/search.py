"""Solvers called, what they give judged, and limits searched where they cannot."""

import contextlib
import inspect
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from remat_algos.bounds.memory import least_peak_bound
from remat_algos.errors import BudgetError, GraphError, ScheduleError
from remat_algos.ir.arrays import LARGEST_SUM
from remat_algos.ir.graph import ComputationGraph
from remat_algos.plan.problem import Attempt, Problem
from remat_algos.schedule.passes.polish import polished
from remat_algos.schedule.schedule import Schedule
from remat_algos.schedule.simulation import Simulation, simulate
from remat_algos.solvers.registry import Interrupted, Progress, Solution, Solver, get_solver, portfolio

BASE = "no_remat"  # stays as it is: what others are measured by
MOST_POLISHED = 400_000  # steps of one solver's schedules
POLISHED_A_SECOND = 100_000  # steps that the passes take at least; they cannot be stopped halfway
A_NODE = 1e-6  # seconds that a solver takes at least for each node
GRACE = 0.05  # seconds after the time limit in which further solvers are asked: most take less, on small graphs all


class Call:
    """A solver on a graph with its options, ready to be given limits; what it finds is judged.

    Parameters
    ----------
    graph : ComputationGraph
    solver : Solver
    options : mapping
        Its own and the reserved ones; of these it gets what its signature names. TypeError for a name it lacks.
    """

    def __init__(self, graph: ComputationGraph, solver: Solver, options: Mapping[str, Any], **reserved: Any) -> None:
        self.graph = graph
        self.solver = solver
        self.given = {**options, **{name: reserved[name] for name in solver.reserved}}
        inspect.signature(solver.function).bind(graph, None, **self.given)

    def at(self, limit: int | None) -> Attempt:
        """What the solver finds for a limit."""
        bytes_limit = None if limit is None else min(limit, LARGEST_SUM)  # no peak reaches it; kernels take 64 bits
        return self.judged(self.solver.function(self.graph, bytes_limit, **self.given), limit)

    @property
    def enumerates(self) -> bool:
        """Whether the solver can list all plans that none of its others beats."""
        found = getattr(self.solver.module, "frontier", None)
        # a user's script may hold a solver and `from remat_algos import frontier`
        return found is not None and found.__module__ == self.solver.function.__module__

    def frontier(self) -> list[Attempt]:
        """These plans."""
        found = self.solver.module.frontier(self.graph, **self.given)  # type: ignore[union-attr]
        return [self.judged(solution) for solution in found]

    def judged(self, found: Schedule | Solution, limit: int | None = None) -> Attempt:
        """A schedule with the judge's word, asked for where the solver has not asked itself."""
        solution = found if isinstance(found, Solution) else Solution(found)
        simulation = solution.simulation
        if simulation is None or simulation.graph is not self.graph or simulation.schedule is not solution.schedule:
            try:
                simulation = simulate(self.graph, solution.schedule)
            except ScheduleError as error:
                if self.graph.mark is None:
                    raise
                raise ScheduleError(f"it cannot honour a mark: {error}", error.step, error.node) from error
        return Attempt(self.solver.name, solution, simulation, limit)


class Search:
    """Attempts at a problem; they stay at hand if the user interrupts."""

    def __init__(
        self, problem: Problem, time_limit: float | None, seed: int, progress: Progress | None, polish: bool = False
    ) -> None:
        self.problem = problem
        self.polish = polish
        self.deadline = None if time_limit is None else time.monotonic() + time_limit
        self.seed = seed
        self.progress = progress
        self.attempts: list[Attempt] = []
        self.reasons: dict[str, str] = {}
        self.unhonoured: ScheduleError | None = None  # by a schedule that goes against a mark
        self.interrupted = False
        self.tried = 0  # solvers that can serve the graph, of those that were called

    def run(self, solver: Solver | None, options: Mapping[str, Any]) -> None:
        """Ask one solver, or all; an interrupt ends this, and what was found stays."""
        try:
            self._all() if solver is None else self._one(solver, options)
        except KeyboardInterrupt:
            self.interrupted = True

    def guard(self) -> None:
        """Try no rematerialization, unless a mark forbids it."""
        with contextlib.suppress(ScheduleError):
            self.attempts.append(self._call(get_solver("no_remat"), {}, None).at(None))

    def _all(self) -> None:
        """Ask every solver that can serve; those that improve others' schedules come last and get them."""
        solvers = sorted(portfolio(), key=lambda s: s.improves)
        for left, candidate in zip(range(len(solvers), 0, -1), solvers, strict=True):
            reason = candidate.needs(self.problem.graph)
            if reason is None and self.attempts and self.deadline is not None:
                least = A_NODE * self.problem.graph.n_nodes - GRACE
                late = time.monotonic() + least > self.deadline
                reason = "not tried within the time limit" if late else None
            if reason is None:
                try:
                    self._ask(candidate, {}, left)
                except (BudgetError, GraphError) as error:  # a proof that nothing fits, or a graph that is too large
                    reason = str(error)
                except ScheduleError as error:
                    reason, self.unhonoured = str(error), error
            if reason is not None:
                self.reasons[candidate.name] = reason

    def _one(self, solver: Solver, options: Mapping[str, Any]) -> None:
        reason = solver.needs(self.problem.graph)
        if reason is not None:
            raise GraphError(f"{solver.name} cannot serve this graph: {reason}")
        try:
            self._ask(solver, options, 1)
        except ScheduleError as error:
            raise ScheduleError(f"{solver.name} cannot serve this graph: {error}", error.step, error.node) from error

    def _call(self, solver: Solver, options: Mapping[str, Any], time_limit: float | None) -> Call:
        return Call(
            self.problem.graph,
            solver,
            options,
            seed=self.seed,
            time_limit=time_limit,
            progress=self._progress(solver.name),
            seeds=[attempt.simulation for attempt in self.attempts],
        )

    def _progress(self, solver: str) -> Progress | None:
        """What the solver calls: its name and the best so far go to who waits."""
        if self.progress is None:
            return None
        progress, problem = self.progress, self.problem
        best = min(self.attempts, key=problem.rank, default=None)
        so_far = ""
        if best is not None and problem.fits(best.simulation):
            share, overhead = best.simulation.peak_memory / max(1, problem.base), best.simulation.overhead
            extra = 100 * overhead / max(1, problem.graph.needed_compute)
            so_far = f" · best {100 * share:.0f} % at +{extra:.1f} %"
        return lambda done, total, what: progress(done, total, f"{solver}{so_far}")

    def _ask(self, solver: Solver, options: Mapping[str, Any], parts: int) -> None:
        """Ask a solver, in its part of the time that is left."""
        self.tried += 1
        share = None if self.deadline is None else max(0.0, self.deadline - time.monotonic()) / parts
        call = self._call(solver, options, share)
        before = len(self.attempts)
        try:
            for attempt in self._attempts(call):
                self.attempts.append(attempt)
        except Interrupted as stop:
            self.attempts += [call.judged(solution) for solution in stop.found]
            raise
        if self.polish and solver.name != BASE:
            for attempt in self._polished(self.attempts[before:]):
                self.attempts.append(attempt)

    def _polished(self, found: Sequence[Attempt]) -> Iterator[Attempt]:
        """The best of what a solver found, and of what it did not choose, after the passes."""
        problem = self.problem
        others = [replace(each, simulation=other) for each in found for other in each.solution.others]
        steps = 0
        for attempt in sorted([*found, *others], key=problem.rank):
            steps += len(attempt.simulation.schedule)
            if steps > MOST_POLISHED and steps > len(attempt.simulation.schedule):
                return
            if not time_to_polish(attempt.simulation, self.deadline):
                return
            better = self._passed(attempt.simulation)
            if better is not attempt.simulation:
                yield attempt.improved(better)

    def _passed(self, simulation: Simulation) -> Simulation:
        """A simulation after the passes: with a lower peak where that is wanted, then with less compute."""
        problem = self.problem
        limit = None if problem.lowest_wanted else problem.limit
        too_high = simulation.peak_memory > limit if limit is not None else problem.overhead_limit is None
        if too_high:
            simulation = polished(problem.graph, simulation, 0)
        return polished(problem.graph, simulation, max(limit or 0, simulation.peak_memory))

    def _attempts(self, call: Call) -> Iterator[Attempt]:
        problem = self.problem
        if not problem.lowest_wanted or (problem.budget.memory is None and problem.overhead_limit is None):
            yield call.at(problem.limit)
        elif call.enumerates:
            yield from call.frontier()
        else:
            yield from self._lowest(call.at)

    def _lowest(self, call: Callable[[int | None], Attempt]) -> Iterator[Attempt]:
        """Attempts down to the lowest peak that keeps the rest of the budget.

        For a limit out of reach a solver gives its lowest schedule, or raises a proof; where that does not settle it,
        the limit is bisected: the lower it is, the more is computed.
        """
        low, high = least_peak_bound(self.problem.graph)[0], self.problem.base
        with contextlib.suppress(BudgetError):
            lowest = call(low)
            yield lowest
            yield call(lowest.simulation.peak_memory)
            if self.problem.overhead_limit is None:
                return
        yield call(high)
        while low < high and (self.deadline is None or time.monotonic() < self.deadline):
            middle = (low + high) // 2
            try:
                attempt = call(middle)
            except BudgetError:  # a proof that nothing fits there
                low = middle + 1
                continue
            yield attempt
            if attempt.simulation.peak_memory <= middle and self.problem.fits(attempt.simulation):
                high = min(middle, attempt.simulation.peak_memory)
            else:
                low = middle + 1


def time_to_polish(simulation: Simulation, deadline: float | None) -> bool:
    """Whether the passes over a schedule end before the deadline."""
    return deadline is None or time.monotonic() + len(simulation.schedule) / POLISHED_A_SECOND < deadline
