"""Walks of greedy rematerialization: along which orders, for which limits and sizes of blocks."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from remat_algos.bounds.memory import least_peak_bound
from remat_algos.errors import ScheduleError
from remat_algos.ir.arrays import Int64
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.labels import KEEP
from remat_algos.kernels import _greedy_remat
from remat_algos.schedule.one_pass import lowest_pass
from remat_algos.schedule.schedule import Schedule
from remat_algos.schedule.simulation import simulate
from remat_algos.schedule.updates import postponed
from remat_algos.solvers.selection import Details

BLOCKS = (64, 1, 8, 2, 16, 4, 32)  # in the order in which they are tried
MOST_LIMITS, LEAST_LIMITS = 32, 8
VAIN = 2  # limits in a row that bring nothing, after which none below is tried
ROUNDS = 6  # of halving between the least limit that was met and the next
LONGEST = 8  # runs that a walk may make for each node
FACTOR = 2  # how much more blocks of several runs may cost than single ones
LEAST_WORK = 500_000
MOST_WORK = 200_000_000  # of all walks together, about two seconds
SMALL = 100  # nodes of a graph where walks begin from other orders too
AGAIN, STARTS, AGAIN_BLOCKS = 3, 8, 5  # turns from the lowest schedules so far, how many, with how many sizes of blocks


class Walks:
    """Walks along the order of the ids; on small graphs also along a low order of one pass, and the best found so far.

    Parameters
    ----------
    graph : ComputationGraph
    blocks : sequence of int
        The most runs of a block, in the order in which they are tried.
    """

    def __init__(self, graph: ComputationGraph, blocks: Sequence[int]) -> None:
        self.graph = graph
        self.blocks = [block for i, block in enumerate(blocks) if i == 0 or block < graph.n_nodes]
        self.found: dict[bytes, tuple[float, int, Schedule]] = {}
        self.started: set[bytes] = set()
        self.ahead = self._ahead()

    @property
    def most(self) -> int:
        """How many there may be at most."""
        one = 1 + len(self.blocks) * (MOST_LIMITS + ROUNDS)
        return one * (2 + AGAIN * STARTS if self._small else 1)

    def take(self, details: dict[str, Any]) -> Schedule | None:
        """The schedule of the next walk, None if there are no more; `details` then say which it was."""
        said, schedule = next(self.ahead, ({}, None))
        details |= said
        return schedule

    @property
    def _small(self) -> bool:
        return self.graph.n_nodes <= SMALL

    def _ahead(self) -> Iterator[tuple[Details, Schedule]]:
        one_pass = lowest_pass(self.graph, beam=0)
        self.judged(one_pass)
        yield {"one_pass": True}, one_pass
        yield from self._along(one_pass, self.blocks, {})
        if self._small:
            yield from self._along(lowest_pass(self.graph), self.blocks, {"start": "lowest pass"})
            for turn in range(AGAIN):
                lowest = sorted(self.found.items(), key=lambda item: item[1][:2])[:STARTS]
                for key, (_, _, start) in lowest:
                    if key not in self.started:
                        yield from self._along(start, self.blocks[:AGAIN_BLOCKS], {"start": f"best, turn {turn + 1}"})

    def _along(self, start: Schedule, blocks: Sequence[int], said: Details) -> Iterator[tuple[Details, Schedule]]:
        key = start.order.tobytes()
        if key not in self.started:
            self.started.add(key)
            for limit, block, schedule in Stairs(self, start, blocks):
                yield {**said, "max_block": block, "walk_limit": limit}, schedule

    def judged(self, schedule: Schedule) -> float:
        """The peak of a schedule, infinite if it goes against a mark; the sound ones are kept in mind."""
        key = schedule.order.tobytes()
        if key not in self.found:
            try:
                simulation = simulate(self.graph, schedule)
            except ScheduleError:
                return float("inf")
            self.found[key] = simulation.peak_memory, simulation.compute, schedule
        return self.found[key][0]


class Stairs:
    """Walks along one order for many limits and sizes of blocks, one after the other.

    Parameters
    ----------
    walks : Walks
    start : Schedule
    blocks : sequence of int
        The most runs of a block, in the order in which they are tried.
    """

    def __init__(self, walks: "Walks", start: Schedule, blocks: Sequence[int]) -> None:
        self.graph = walks.graph
        self.start = start
        self.walks = walks
        self.blocks = blocks
        self.work = 0
        self.peak: dict[tuple[int, int], float] = {}  # by limit and block
        self.settled: dict[int, tuple[int, float]] = {}  # level of blocks from which on nothing changes, and the peak

    @cached_property
    def limits(self) -> Int64:
        """int64[k]: limits for the walks, rising, from what no schedule can go below to the start."""
        free = replace(self.graph, mark=None) if self.graph.mark is not None else self.graph
        first, last = least_peak_bound(self.graph)[0], simulate(free, self.start).peak_memory
        count = max(LEAST_LIMITS, min(MOST_LIMITS, 100_000 // max(1, self.graph.n_nodes)))
        if last - first <= count:
            return np.arange(first, last)
        return np.unique((np.linspace(first**0.5, last**0.5, count + 1)[:-1] ** 2).astype(np.int64))

    def __iter__(self) -> Iterator[tuple[int, int, Schedule]]:
        """Limit, block and schedule of each walk: down a coarse staircase, then a finer one, then to its end."""
        for limit, block in self._ahead():
            schedule, reached, work = walk(self.graph, self.start, limit, block)
            self.work += work
            peak = self.peak[limit, block] = self.walks.judged(schedule)
            if block > 1 and reached <= (block - 1).bit_length():
                self.settled[limit] = reached, peak
            yield limit, block, schedule

    def _ahead(self) -> Iterator[tuple[int, int]]:
        limits = self.limits.tolist()[::-1]
        for first, stride in ((0, 4), (2, 4), (1, 2)):
            for block in self.blocks:
                yield from self._down(limits[first::stride], block)
        for block in self.blocks:
            yield from self._to_the_end(block)

    def _down(self, limits: list[int], block: int) -> Iterator[tuple[int, int]]:
        """Falling limits, until some in a row bring nothing."""
        least, vain = math.inf, 0
        for limit in limits:
            if vain == VAIN or self.work > MOST_WORK:
                return
            if not self._known(limit, block):
                yield limit, block
            vain = 0 if self.peak[limit, block] < least else vain + 1
            least = min(least, self.peak[limit, block])

    def _to_the_end(self, block: int) -> Iterator[tuple[int, int]]:
        """Between the least limit that is met and the next below, halving."""
        tried = {limit: peak for (limit, other), peak in self.peak.items() if other == block}
        high = min((limit for limit, peak in tried.items() if peak <= limit), default=None)
        if high is None:
            return
        low = max((limit for limit in tried if limit < high), default=high)
        for _ in range(ROUNDS):
            limit = (low + high) // 2
            if high - low < 2 or self.work > MOST_WORK:
                return
            if not self._known(limit, block):
                yield limit, block
            if self.peak[limit, block] <= limit:
                high = limit
            else:
                low = limit

    def _known(self, limit: int, block: int) -> bool:
        """Whether it was walked, or another walk came out as this one would: one that asked for no larger blocks."""
        if (limit, block) not in self.peak and block > 1 and limit in self.settled:
            reached, peak = self.settled[limit]
            if reached <= (block - 1).bit_length():
                self.peak[limit, block] = peak
        return (limit, block) in self.peak


def walk(graph: ComputationGraph, start: Schedule, limit: int, max_block: int) -> tuple[Schedule, int, int]:
    """One walk along a sound order; see the kernel for the level of blocks that it came to, and its work."""
    indptr, readers = graph.readers
    rerunnable = ~graph.once if graph.mark is None else ~graph.once & (graph.mark != KEEP)
    order, reached, work = _greedy_remat.greedy(
        start.order,
        graph.value_indptr,
        graph.read_indptr,
        graph.read_indices,
        indptr,
        readers,
        graph.producer,
        graph.output.view(np.uint8),
        rerunnable.view(np.uint8),
        graph.memory,
        graph.workspace,
        limit,
        max_block,
        LONGEST * (graph.n_nodes + 8),
        FACTOR,
        LEAST_WORK,
    )
    return Schedule(postponed(graph, order)), reached, work
