"""The best of the plans that a solver enumerates: each judged once, the limit looked at last."""

import hashlib
import time
from bisect import bisect_right, insort
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np

from remat_algos.errors import ScheduleError
from remat_algos.ir.arrays import Int64
from remat_algos.ir.graph import ComputationGraph
from remat_algos.schedule.mirror import honoured, mirror_schedule
from remat_algos.schedule.one_pass import lowest_pass
from remat_algos.schedule.schedule import Schedule
from remat_algos.schedule.simulation import Simulation, simulate
from remat_algos.solvers.registry import Interrupted, Progress, Solution

Details = Mapping[str, Any]
Plans = Sequence[tuple[Callable[[], Int64 | Schedule | None], Details]]
"""What makes the mirror counts, or the schedule, of each plan, and what was chosen to get it; None: it gave up."""
Size = Callable[[Simulation], int]
"""Bytes that plans are compared by in place of their peak."""

MOST_PLANS = 2_000
MOST_STEPS = 5_000_000
MOST_OTHERS = 12
LARGE = 10_000  # nodes, from which one plan may take longer than there is time
MOST_KEPT = 64  # plans that are held while others are judged
Thing = TypeVar("Thing")


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """A plan with what the judge says of it."""

    simulation: Simulation
    peak: int
    compute: int
    details: Details

    def solution(self, more: Details = MappingProxyType({})) -> Solution:
        return Solution(self.simulation.schedule, details={**self.details, **more}, simulation=self.simulation)


def judged(
    graph: ComputationGraph,
    plans: Plans,
    progress: Progress | None,
    size: Size | None = None,
    deadline: float | None = None,
) -> Iterator[Judged | bool]:
    """Simulate plans from coarse to fine, equal ones once; False for one that was given up, True for one left out.

    With a deadline a schedule is left out that is too long for the time left, by what the steps before it took.

    A plan that goes against a mark is passed over; if none is sound, ScheduleError says what is wrong with the last.
    `size` gives the bytes that plans are compared by, by default their peak.
    """
    seen: set[bytes] = set()
    any_sound, unhonoured = False, None
    large = deadline is not None and graph.n_nodes > LARGE
    begun, steps = time.monotonic() if large else 0.0, 0
    for done, (make, details) in enumerate(coarse_first(plans)):
        decision = make()
        if decision is None:
            yield False
            continue
        decided = decision.order if isinstance(decision, Schedule) else honoured(graph, decision).astype(np.int32)
        key = hashlib.blake2b(decided.tobytes(), digest_size=16).digest()
        if key in seen:
            continue
        seen.add(key)
        length = decided.size if isinstance(decision, Schedule) else graph.n_nodes + int(decided.sum())
        if large and steps and time.monotonic() + length * (time.monotonic() - begun) / steps > (deadline or 0):
            yield True
            continue
        steps += length
        try:
            simulation = simulate(
                graph, decision if isinstance(decision, Schedule) else mirror_schedule(graph, decided)
            )
        except ScheduleError as error:
            if graph.mark is None:
                raise
            unhonoured = error
            continue
        if progress is not None:
            progress(done + 1, len(plans), ", ".join(f"{name} {value}" for name, value in details.items()))
        any_sound = True
        peak = simulation.peak_memory if size is None else size(simulation)
        yield Judged(simulation, peak, simulation.compute, details)
    if unhonoured is not None and not any_sound:
        raise unhonoured


def _one_pass(graph: ComputationGraph) -> Judged:
    """What remains where all plans are given up."""
    simulation = simulate(graph, lowest_pass(graph, beam=0))
    return Judged(simulation, simulation.peak_memory, simulation.compute, {"one_pass": True})


def best(
    graph: ComputationGraph,
    plans: Plans,
    limit: int | None,
    time_limit: float | None,
    progress: Progress | None,
    size: Size | None = None,
) -> Solution:
    """Under a limit the cheapest plan that fits, else the lowest; without one the lowest, then the cheapest.

    The plans are tried from coarse to fine, so that a time limit leaves a thinned sweep, which the details say. With
    the solution go some of the others that fit, or if none does, of the lowest.
    """
    sweep = _Sweep(graph, plans, time_limit, progress, size)
    kept: list[Judged] = []
    try:
        for plan in sweep:
            kept = _with(kept, plan)
            if len(kept) > MOST_KEPT:
                kept = _thinned_beside(kept, _chosen(kept, limit))
    except KeyboardInterrupt as stop:
        raise Interrupted([kept[_chosen(kept, limit)].solution(sweep.details())] if kept else []) from stop
    at = _chosen(kept, limit)
    fits = limit is not None and kept[at].peak <= limit
    few = kept[: at : 1 + at // MOST_OTHERS] if fits else kept[1:MOST_OTHERS]
    return replace(kept[at].solution(sweep.details()), others=tuple(other.simulation for other in few))


def _chosen(kept: Sequence[Judged], limit: int | None) -> int:
    """Which of the plans, that rise in peak and fall in compute: the last within the limit, or the lowest."""
    within = bisect_right(kept, -1 if limit is None else limit, key=lambda plan: plan.peak)
    return max(0, within - 1)


def _thinned_beside(kept: list[Judged], at: int) -> list[Judged]:
    """Every other plan, and the chosen one."""
    return [plan for i, plan in enumerate(kept) if i % 2 == at % 2]


def undominated(
    graph: ComputationGraph,
    plans: Plans,
    time_limit: float | None,
    progress: Progress | None,
    size: Size | None = None,
) -> list[Solution]:
    """The plans that no other dominates in peak, or size, and compute, the lowest first."""
    kept: list[Judged] = []
    sweep = _Sweep(graph, plans, time_limit, progress, size)
    try:
        for plan in sweep:
            kept = _with(kept, plan)
    except KeyboardInterrupt as stop:
        raise Interrupted([plan.solution(sweep.details()) for plan in kept]) from stop
    return [plan.solution(sweep.details()) for plan in kept]


def _with(kept: list[Judged], plan: Judged) -> list[Judged]:
    """Plans that rise in peak and fall in compute, and one more, without those that it beats; or without it."""
    if any(k.peak <= plan.peak and k.compute <= plan.compute for k in kept):
        return kept
    kept = [k for k in kept if k.peak < plan.peak or k.compute < plan.compute]
    insort(kept, plan, key=lambda k: k.peak)
    return kept


def most_plans(graph: ComputationGraph) -> int:
    """How many plans of one kind a sweep over this graph may list: fewer where each takes long to judge."""
    return max(100, min(MOST_PLANS, MOST_STEPS // max(1, graph.n_nodes)))


def thinned(things: Sequence[Thing], most: int) -> list[Thing]:
    """At most so many of them, at geometrically growing distances, the first and the last among them."""
    if len(things) <= most:
        return list(things)
    places = np.unique(np.geomspace(1, len(things), most).round().astype(np.int64)) - 1
    return [things[int(place)] for place in places]


def coarse_first(things: Sequence[Thing]) -> list[Thing]:
    """The same things, so that every beginning of the list is spread over all of it.

    Examples
    --------
    >>> coarse_first("abcdefgh")
    ['a', 'e', 'c', 'g', 'b', 'd', 'f', 'h']
    """
    stride = 1 << max(0, len(things) - 1).bit_length()
    places = list(range(0, len(things), stride))
    while stride > 1:
        places += range(stride // 2, len(things), stride)
        stride //= 2
    return [things[place] for place in places]


class _Sweep:
    """The plans, judged one by one, as far as the time goes; the first always."""

    def __init__(
        self,
        graph: ComputationGraph,
        plans: Plans,
        time_limit: float | None,
        progress: Progress | None,
        size: Size | None,
    ) -> None:
        self.graph = graph
        self.deadline = None if time_limit is None else time.monotonic() + time_limit
        self.plans = judged(graph, plans, progress, size, self.deadline)
        self.listed = len(plans)
        self.judged = 0
        self.given_up = 0
        self.left_out = 0
        self.complete = False

    def __iter__(self) -> Iterator[Judged]:
        for plan in self.plans:
            if plan is False:
                self.given_up += 1
            elif plan is True:
                self.left_out += 1
            else:
                self.judged += 1
                yield plan
            if self.deadline is not None and time.monotonic() > self.deadline:
                break
        else:
            self.complete = not self.left_out
        if not self.judged:
            yield _one_pass(self.graph)

    def details(self) -> dict[str, Any]:
        """How many plans there were, how many of them were different and judged, and whether time cut that short."""
        said: dict[str, Any] = {"listed": self.listed, "judged": self.judged, "complete": self.complete}
        return said | {"given_up": self.given_up} if self.given_up else said
