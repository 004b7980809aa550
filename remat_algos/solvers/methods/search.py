"""Simulated annealing of schedules, from the candidates of other solvers."""

import heapq
from bisect import bisect_right
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from remat_algos.bounds.memory import least_peak_bound, one_pass_bound
from remat_algos.context import Clock, Stop, n_cores, until_stopped
from remat_algos.effort import FAST, SMALL, Effort
from remat_algos.errors import ArgumentError
from remat_algos.ir.arrays import as_whole, is_count
from remat_algos.ir.budget import even_limits
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.parts import RECOMPUTE
from remat_algos.schedule.annealing import ANY_GOAL, Annealed, Annealer
from remat_algos.schedule.emission import baseline, clamp_counts, mirror_schedule
from remat_algos.schedule.one_pass import lowest_pass, orders_by_part
from remat_algos.schedule.simulation import simulate
from remat_algos.schedule.tuning import COOL_NODES, WORK_OF_MOVE
from remat_algos.solvers import tuning
from remat_algos.solvers.registry import BASELINE, OWN, START, Candidate, Details, Rows, Task, evaluated, rank, solver
from remat_algos.wording import counted, shortened


def bends(points: Sequence[tuple[int, int]], count: int) -> list[int]:
    """Choose at most `count` new limits for a curve, each in the middle of the most promising interval."""
    compute, added = dict(points), list[int]()

    def interval(low: int, high: int) -> tuple[int, int, int]:
        return -(high - low) * (compute[low] - compute[high]), low, high

    waiting = [interval(low, high) for low, high in pairwise(compute)]
    heapq.heapify(waiting)
    while waiting and len(added) < count:
        area, low, high = heapq.heappop(waiting)
        middle = (low + high) // 2
        if area < 0 and middle > low:
            compute[middle] = (compute[low] + compute[high]) // 2
            added.append(middle)
            heapq.heappush(waiting, interval(low, middle))
            heapq.heappush(waiting, interval(middle, high))
    return sorted(added)


def search_rows(graph: ComputationGraph, details: Details) -> Rows:
    """Yield the row "search" of a plan's text report: the number of moves, and where the search started."""
    moves, start = details.get("moves"), details.get("start")
    if is_count(moves) and isinstance(start, str):
        yield "search", f"{counted(moves, 'move')}, from {shortened(start)}"


@solver(improves=True, price=3.0, describe=search_rows)
def search(graph: ComputationGraph, task: Task, clock: Clock, *, max_moves: int | None = None) -> Iterator[Candidate]:
    """Anneal a schedule by moves that insert, remove and shift runs, from the candidates of other solvers.

    The state of the search is a schedule without useless runs. Its cost is the compute plus a penalty for bytes above
    the limit. A move frees a value that is live at a step above the limit and recomputes it later; removes a run; frees
    a value and removes a run; shifts a run or a group of runs; or adds a run of a node.

    Short searches start from the id order and from the best candidate of each solver; longer searches continue from the
    best results. If a small graph consists of parts that are joined only near the end, more searches start from orders
    that run one part after another. If no schedule meets the limit, or there is no limit, the solver searches for the
    lowest peak, and then for the minimum compute at this peak. A second thread searches without the candidates of other
    solvers. Therefore `auto` is never worse than a run of only `search`, which starts from the id order.

    Parameters
    ----------
    max_moves : int, optional
        Number of moves per limit, instead of the work that the effort allows. Each start gets at least 1,024 moves.
    """
    if max_moves is not None and (as_whole(max_moves) or 0) < 1:
        raise ArgumentError("max_moves is {max_moves!r}; give a whole number of moves, 1 or more", max_moves=max_moves)
    own = tuple(each for each in task.candidates if each.solver in OWN)
    if len(own) == len(task.candidates) or (task.budgets and graph.n_nodes > tuning.ALONE_NODES):
        yield from _run(graph, task, clock, max_moves)
        return
    if task.limit is not None and all(each.solver in (*OWN, "search") for each in task.candidates):
        fits = False
        part = 1.0 if any(each.figures[0] <= task.limit for each in task.candidates) else 0.5
        for each in _run(graph, replace(task, candidates=own), clock, max_moves, part=part):
            fits |= each.figures[0] <= task.limit
            yield each
        if not fits:
            yield from _run(graph, task, clock, max_moves, run=1)
        return

    def alone(clock: Clock) -> list[Candidate]:
        candidates = list[Candidate]()
        with until_stopped(memory=True) as ending:
            for each in _run(graph, replace(task, candidates=own), clock, max_moves, run=1):
                candidates.append(each)
        clock.note(ending.stop)
        return candidates

    with clock.background(alone) as result_alone:
        with until_stopped() as ending:
            yield from _run(graph, task, clock, max_moves, part=1 if n_cores() > 1 else 0.5)
        clock.note(ending.stop)
        yield from result_alone()
        clock.stop.pass_on()


def _run(
    graph: ComputationGraph, task: Task, clock: Clock, max_moves: int | None, *, part: float = 1.0, run: int = 0
) -> Iterator[Candidate]:
    searches = _LimitSearch(graph, task, clock, max_moves, part=part)
    yield replace(searches.first_candidate, run=run)
    if not graph.needed.any():
        return
    n_limits = task.budgets or tuning.FRONTIER_LIMITS
    for result in searches.frontier(n_limits) if task.limit is None else searches.within(task.limit):
        details = {"moves": result.moves, "start": result.start}
        yield Candidate(result.simulation.schedule, details, simulation=result.simulation, run=run)


class _LimitSearch:
    def __init__(
        self, graph: ComputationGraph, task: Task, clock: Clock, max_moves: int | None, *, part: float
    ) -> None:
        self.graph, self.task, self.clock = graph, task, clock
        self.max_moves = None if max_moves is None else min(max_moves, 2**40)
        one_pass = baseline(graph)
        self.first_candidate = Candidate(one_pass.schedule, {"start": "one pass"}, simulation=one_pass)
        if graph.mark is not None and (graph.mark == RECOMPUTE).any():
            mirrored = mirror_schedule(graph, clamp_counts(graph, np.zeros(graph.n_nodes, np.int64)))
            self.first_candidate = evaluated(graph, mirrored, {"start": "its marks"})
        start = self.first_candidate.details["start"]
        self.first = Annealed(self.first_candidate.simulation or one_pass, start)
        self.by_part = list[Annealed]()
        if graph.n_nodes <= tuning.ALONE_NODES and graph.mark is None and task.constraints is None:
            orders = orders_by_part(graph)
            self.by_part = [Annealed(simulate(graph, order), "part after part") for order in orders]
        self.known = [
            (each.solver, Annealed(each.simulation, each.details.get("start") or each.solver))
            for each in task.candidates
            if each.simulation is not None
        ]
        most_runs = max((int(each.simulation.runs.max(initial=0)) for _, each in self.known), default=0)
        self.bound = least_peak_bound(graph)[0]
        self.annealer = Annealer(
            graph,
            clock,
            np.random.SeedSequence(task.seed),
            max_runs=max(tuning.MAX_RUNS, most_runs),
            constraints=task.constraints,
            by_moves=max_moves is not None,
            part=part,
        )
        self.effort = effort = Effort.of(task.effort)
        work = effort.work_within(graph.n_nodes)
        most = effort.search_work_of_node * int(graph.needed.sum())
        self.work, lowest = min(work, most), min(work, effort.lowest_work * most)
        if self.max_moves is not None:
            self.work = lowest = WORK_OF_MOVE * self.max_moves
        self.lowest_work = round(tuning.LOWEST_WORK * lowest / (1 if graph.n_nodes <= tuning.ALONE_NODES else 2))

    def _in_time(self, work: int) -> int:
        """Return `work`. If a core cannot do this work in the remaining time, note DEADLINE and return less."""
        left = self.clock.left
        if left is None or self.max_moves is not None:
            return work
        possible = max(Effort.of(FAST).search_work, int(self.annealer.part * left * tuning.WORK_A_SECOND))
        if possible >= work:
            return work
        self.clock.note(Stop.DEADLINE)
        return possible

    def within(self, limit: int) -> Iterator[Annealed]:
        """Yield improving schedules within a limit. If the limit is at most `self.bound`, minimize the peak."""
        if limit > self.bound:
            work, seeds = self._in_time(self.work), self._seeds(limit)
            order = yield from self._order(limit, int(tuning.ORDER_WORK * work))
            if order is not None:
                work -= int(tuning.ORDER_WORK * work)
                seeds = [start for seed in seeds for start in (order, seed)]
            # A single pass within the limit already has the minimum compute.
            if order is None or order.figures[0] > limit:
                best = yield from self._rounds(seeds, limit, work)
                if best is not None:
                    best = yield from self._unmet(best, limit)
                    yield from self._again(best, limit)
            return
        whole = self.lowest_work + self.work // 2
        scale = self._in_time(whole) / max(1, whole)
        lowest = yield from self._lowest(int(scale * self.lowest_work), 0.9)
        if lowest is not None and self.task.sought is None:
            lowest = yield from self._unmet(lowest, limit)
            limit = max(limit, lowest.figures[0])
            best = yield from self._rounds([lowest], limit, int(scale * (self.work // 2)))
            yield from self._again(best or lowest, limit)

    def _unmet(self, best: Annealed, limit: int) -> Generator[Annealed, None, Annealed]:
        """With effort "fast", search again if the best schedule exceeds the limit; return the better result."""
        if self.task.effort != FAST or self.max_moves is not None or best.figures[0] <= limit:
            return best
        work = self._in_time(min(tuning.UNMET_WORK * self.work, tuning.UNMET_MAX))
        seeds = [best, *self._seeds(limit), *self.by_part]
        result = yield from self._rounds(seeds, limit, work, goal=ANY_GOAL, lowest=True)
        return min(best, result or best, key=lambda each: each.figures)

    def _again(self, best: Annealed, limit: int) -> Iterator[Annealed]:
        """On small graphs, search longer from the best schedule until it no longer improves.

        If the graph consists of parts, search first from each order of the parts. Under a tight limit, no sequence of
        moves leads from one order to another.
        """
        task, goal, orders = self.task, self.task.goal or 0, self.by_part
        short = not orders and (task.effort == FAST or self.graph.n_nodes > SMALL)
        if short or self.max_moves is not None:
            return
        for order in [*orders, *tuning.MAX_AGAIN * [None]]:
            before = best.figures
            if self.annealer.meets(best, limit, max(self.graph.needed_compute, goal)):
                return
            work = self._in_time(min(tuning.AGAIN_WORK * self.work, tuning.AGAIN_MAX))
            result = yield from self._rounds([order or best], limit, work // 2 if order else work)
            if order is None and (result is None or result.figures == before):
                return
            best = min(best, result or best, key=lambda each: self.annealer.key(each, limit))

    def _lowest(self, work: int, part: float) -> Generator[Annealed, None, Annealed | None]:
        """Yield schedules with decreasing peaks down to the sought peak. `part` is a share of the whole progress."""
        best, sought = None, self.task.sought
        groups = [self._seeds(self.bound), *([order] for order in self.by_part)]
        part /= len(groups) + tuning.MAX_LOWER
        first, work = round(tuning.FIRST_LOWEST * work), len(groups) * round(tuning.NEXT_LOWEST * work)
        for i, seeds in enumerate(groups):
            # `part` is a share of the remaining progress. It grows, so that all searches report equal amounts.
            part /= 1 - part * (i > 0)
            for lower in self._rounds(seeds, self.bound, first, part=part, goal=ANY_GOAL, lowest=True):
                if best is None or self.annealer.key(lower, self.bound) < self.annealer.key(best, self.bound):
                    best = lower
                    yield best
                if sought is not None and self.annealer.meets(best, sought, ANY_GOAL):
                    return best
        if sought is not None:
            return best
        place = count = 0
        shares, most = tuning.LOWER_SHARES, tuning.MAX_LOWER
        while best is not None and best.figures[0] > self.bound and place < len(shares) and count < most:
            limit = max(self.bound, int(shares[place] * best.figures[0]))
            seeds = [best, *self._seeds(self.bound), *self.by_part]
            part /= 1 - part
            result = yield from self._rounds(seeds, limit, work, part=part, goal=ANY_GOAL)
            if result is not None and result.figures[0] < best.figures[0]:
                best = result
            else:
                place += 1
            count += 1
        return best

    def _order(self, limit: int, work: int) -> Generator[Annealed, None, Annealed | None]:
        """Search for a one-pass order within the limit. Return None without a search if it is unlikely to help."""
        graph, task = self.graph, self.task
        free = graph.mark is None and task.constraints is None and tuning.ALONE_NODES < graph.n_nodes <= COOL_NODES
        if not free or one_pass_bound(graph, self.clock)[0] > tuning.ORDER_ROOM * self.first.figures[0]:
            return None
        start = Annealed(simulate(graph, lowest_pass(graph)), "the order of a beam")
        by_moves, part = self.max_moves is not None, self.annealer.part * tuning.ORDER_WORK
        annealer = Annealer(graph, self.clock, self.annealer.random, max_runs=1, by_moves=by_moves, part=part)
        count = self.effort.first_searches
        return (yield from annealer.rounds([start], limit, work, count=count, goal=ANY_GOAL, lowest=True))

    def frontier(self, n_limits: int) -> Iterator[Annealed]:
        """Yield the best schedules within limits between the lowest peak and the peak of one pass.

        The first sweep visits evenly spaced limits from high to low, the second from low to high; each search starts
        from the best schedules at neighbouring limits. Further searches use limits at bends of the curve.
        """
        factor = 1 if self.max_moves is not None else self.effort.frontier_work
        total = self._in_time(int(factor * self.work))
        known = [each for name, each in self.known if name not in OWN]
        lowest = min(known, key=lambda each: each.figures, default=None) if self.task.budgets else None
        # If other solvers reached a lowest peak, the frontier may start there. Otherwise, search for the lowest peak.
        if lowest is None:
            lowest = yield from self._lowest(int(tuning.LOWEST_PEAK_SHARE * total), tuning.LOWEST_PEAK_SHARE)
        if lowest is None:
            return
        work = int(tuning.LOWEST_PEAK_SHARE * total)
        lowest = (yield from self._rounds([lowest], lowest.figures[0], work, part=tuning.LOWEST_PEAK_SHARE)) or lowest
        limits = even_limits(lowest.figures[0], self.first.figures[0], n_limits)
        share = (1 - 2 * tuning.LOWEST_PEAK_SHARE) / 2 * total / max(1, sum(range(len(limits))))
        bests, best, key = dict[int, Annealed](), self.first, self.annealer.key
        self.annealer.begin_stage(int(share * len(limits) * (len(limits) - 1)), 1 - tuning.BENDS_WORK)
        for i, limit in enumerate(reversed(limits)):
            (result,) = yield from self.annealer.each([(limit, [best])], int(share * i))
            bests[limit] = best = min([result, *self._seeds(limit, lowest)], key=lambda each: key(each, limit))
        for i, limit in enumerate(limits):
            work = int(share * (len(limits) - 1 - i))
            (best,) = yield from self.annealer.each([(limit, [best, bests[limit]])], work)
            bests[limit] = best
        added = bends([(limit, bests[limit].figures[1]) for limit in limits], n_limits // tuning.LIMITS_PER_BEND)
        neighbours = [limits[place - 1 : place + 1] for place in (bisect_right(limits, limit) for limit in added)]
        points = [(limit, [bests[each] for each in both]) for limit, both in zip(added, neighbours, strict=True)]
        work = int(tuning.BENDS_WORK * total) // max(1, len(points))
        self.annealer.begin_stage(work * len(points), 1.0)
        yield from self.annealer.each(points, work)

    def _seeds(self, limit: int, best: Annealed | None = None) -> list[Annealed]:
        bests = {} if best is None else {"search": best}
        for name, each in self.known:
            if name not in bests or rank(each.figures, limit) < rank(bests[name].figures, limit):
                bests[name] = each
        own = bests.pop(START, None)
        bests.pop(BASELINE, None)
        ordered = [bests[name] for name in sorted(bests, key=lambda name: (*rank(bests[name].figures, limit), name))]
        others = dict[tuple[int, int], Annealed]()
        for each in ordered if own is None else [own, *ordered]:
            others.setdefault(each.figures, each)
        chosen = list(others.values())[: tuning.N_SEEDS]
        return [seed for each in chosen or [self.first] for seed in dict.fromkeys((each, self.first))]

    def _rounds(
        self,
        starts: Sequence[Annealed],
        limit: int,
        work: int,
        *,
        part: float = 1.0,
        goal: int | None = None,
        lowest: bool = False,
    ) -> Generator[Annealed, None, Annealed | None]:
        if goal is None:
            goal = max(self.graph.needed_compute, self.task.goal or 0)
        count = self.effort.first_searches
        return self.annealer.rounds(starts, limit, work, count=count, goal=goal, lowest=lowest, part=part)
