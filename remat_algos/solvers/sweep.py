"""Judged plans along a curve of predictions: some of many at first, then all near the best."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from remat_algos.ir.graph import ComputationGraph
from remat_algos.schedule.canonical import canonical_schedule
from remat_algos.solvers.registry import Interrupted, Solution
from remat_algos.solvers.selection import Plans, best, undominated
from remat_algos.solvers.watch import Watch
from remat_algos.structure.lower_sets import LowerSets

MOST_JUDGED = 160
HURRIED = 6
MOST_STEPS = 400_000  # of all schedules that are judged at first


@dataclass(frozen=True, slots=True)
class Candidate:
    """A chain of lower sets whose schedules are to be judged.

    Parameters
    ----------
    chain : LowerSets
    keep_last : bool
    lazy : bool, optional
        As in `canonical_schedule`; where it is None both are judged.
    describe : callable
        What the plan says of the chain, asked for only if it is chosen.
    """

    chain: LowerSets
    keep_last: bool
    lazy: bool | None
    describe: Callable[[], Mapping[str, Any]]


class Sweep:
    """Candidates along a curve, neighbours in cost and memory side by side.

    Parameters
    ----------
    graph : ComputationGraph
    candidates : sequence of Candidate
    watch : Watch
    complete : bool
        Whether the curve is.
    interrupted : bool
        Whether the user ended the search for it; then the best of what there is goes with `Interrupted`.
    """

    def __init__(
        self,
        graph: ComputationGraph,
        candidates: Sequence[Candidate],
        watch: Watch,
        complete: bool = True,
        interrupted: bool = False,
    ) -> None:
        self.graph = graph
        self.candidates = candidates
        self.watch = watch
        self.interrupted = interrupted
        # where there is no time left, a few are judged all the same, the lowest among them
        hurried = interrupted or watch.late
        self.seconds = None if hurried else watch.left
        most = HURRIED if hurried else max(16, min(MOST_JUDGED, MOST_STEPS // max(1, graph.n_nodes)))
        last = len(candidates) - 1
        self.sample = sorted({i * last // (most - 1) for i in range(most)}) if last >= most else list(range(last + 1))
        self.complete = complete and not (hurried and last >= most)

    def best(self, limit: int | None) -> Solution:
        """The best plan under a limit, as `selection.best` has it."""
        found = self._best(self.sample, limit)
        if self.interrupted:
            raise Interrupted([self._said(found)])
        if len(self.sample) == len(self.candidates) or self.watch.late:
            return self._said(found)
        at = found.details["point"]
        place = self.sample.index(at)
        begin, end = self.sample[max(0, place - 1)], self.sample[min(len(self.sample) - 1, place + 1)]
        try:
            nearby = [i for i in range(begin, end + 1) if i == at or i not in self.sample]
            return self._said(self._best(nearby, limit))
        except Interrupted as stop:
            raise Interrupted([self._said(found), *stop.found]) from stop

    def frontier(self) -> list[Solution]:
        """The plans that no other of the sample beats in both peak and compute."""
        plans = self._plans(self.sample)
        try:
            found = undominated(self.graph, plans, self.seconds, self.watch.stage(len(plans)))
        except Interrupted as stop:
            raise Interrupted([self._said(solution) for solution in stop.found]) from stop
        if self.interrupted:
            raise Interrupted([self._said(solution) for solution in found])
        return [self._said(solution) for solution in found]

    def _best(self, points: Iterable[int], limit: int | None) -> Solution:
        plans = self._plans(points)
        try:
            return best(self.graph, plans, limit, self.seconds, self.watch.stage(len(plans)))
        except Interrupted as stop:
            raise Interrupted([self._said(solution) for solution in stop.found]) from stop

    def _plans(self, points: Iterable[int]) -> Plans:
        plans = []
        for i in points:
            each = self.candidates[i]
            for lazy in (True, False) if each.lazy is None else (each.lazy,):
                make = partial(canonical_schedule, self.graph, each.chain, keep_last=each.keep_last, lazy=lazy)
                plans.append((make, {"point": i, "keep_last": each.keep_last, "lazy": lazy}))
        return plans

    def _said(self, solution: Solution) -> Solution:
        """The solution with all that is known of its chain."""
        details = dict(solution.details)
        described = self.candidates[details.pop("point")].describe()
        details["complete"] = self.complete and details["complete"]
        return replace(solution, details={**described, **details})
