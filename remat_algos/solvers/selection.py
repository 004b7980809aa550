"""The best of the plans that a solver enumerates: each judged once, the limit looked at last."""

import hashlib
import time
from bisect import insort
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np

from remat_algos.ir.arrays import Int64
from remat_algos.ir.graph import ComputationGraph
from remat_algos.schedule.mirror import honoured, mirror_schedule
from remat_algos.schedule.schedule import Schedule
from remat_algos.schedule.simulation import Simulation, simulate
from remat_algos.solvers.registry import Interrupted, Progress, Solution

Details = Mapping[str, Any]
Plans = Sequence[tuple[Callable[[], Int64 | Schedule], Details]]
"""What makes the mirror counts, or the schedule, of each plan, and what was chosen to get it."""

MOST_PLANS = 2_000
MOST_STEPS = 5_000_000
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


def judged(graph: ComputationGraph, plans: Plans, progress: Progress | None) -> Iterator[Judged]:
    """Judge plans from coarse to fine, equal ones once."""
    seen: set[bytes] = set()
    for done, (make, details) in enumerate(coarse_first(plans)):
        decision = make()
        if not isinstance(decision, Schedule):
            count = honoured(graph, decision)
            key = hashlib.blake2b(count.astype(np.int32).tobytes(), digest_size=16).digest()
            if key in seen:
                continue
            seen.add(key)
            decision = mirror_schedule(graph, count)
        simulation = simulate(graph, decision)
        if progress is not None:
            progress(done + 1, len(plans), ", ".join(f"{name} {value}" for name, value in details.items()))
        yield Judged(simulation, simulation.peak_memory, simulation.compute, details)


def best(
    graph: ComputationGraph, plans: Plans, limit: int | None, time_limit: float | None, progress: Progress | None
) -> Solution:
    """Under a limit the cheapest plan that fits, else the lowest; without one the lowest, then the cheapest.

    The plans are tried from coarse to fine, so that a time limit leaves a thinned sweep, which the details say.
    """

    def rank(plan: Judged) -> tuple[bool, int, int]:
        if limit is not None and plan.peak <= limit:
            return (False, plan.compute, plan.peak)
        return (True, plan.peak, plan.compute)

    sweep = _Sweep(graph, plans, time_limit, progress)
    chosen: Judged | None = None
    try:
        for plan in sweep:
            if chosen is None or rank(plan) < rank(chosen):
                chosen = plan
    except KeyboardInterrupt as stop:
        raise Interrupted([chosen.solution(sweep.details())] if chosen is not None else []) from stop
    if chosen is None:
        raise ValueError("there is no plan to choose from")
    return chosen.solution(sweep.details())


def undominated(
    graph: ComputationGraph, plans: Plans, time_limit: float | None, progress: Progress | None
) -> list[Solution]:
    """The plans that no other beats in both peak and compute, lowest peak first."""
    kept: list[Judged] = []  # rising in peak, falling in compute
    sweep = _Sweep(graph, plans, time_limit, progress)
    try:
        for plan in sweep:
            if not any(k.peak <= plan.peak and k.compute <= plan.compute for k in kept):
                kept = [k for k in kept if k.peak < plan.peak or k.compute < plan.compute]
                insort(kept, plan, key=lambda k: k.peak)
    except KeyboardInterrupt as stop:
        raise Interrupted([plan.solution(sweep.details()) for plan in kept]) from stop
    return [plan.solution(sweep.details()) for plan in kept]


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
        self, graph: ComputationGraph, plans: Plans, time_limit: float | None, progress: Progress | None
    ) -> None:
        self.plans = judged(graph, plans, progress)
        self.listed = len(plans)
        self.deadline = None if time_limit is None else time.monotonic() + time_limit
        self.judged = 0
        self.complete = False

    def __iter__(self) -> Iterator[Judged]:
        for plan in self.plans:
            self.judged += 1
            yield plan
            if self.deadline is not None and time.monotonic() > self.deadline:
                return
        self.complete = True

    def details(self) -> dict[str, Any]:
        """How many plans there were, how many of them were different and judged, and whether time cut that short."""
        return {"listed": self.listed, "judged": self.judged, "complete": self.complete}
