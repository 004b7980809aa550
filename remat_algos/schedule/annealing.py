"""Simulated annealing over schedules, in rounds, each of which starts at the best schedules of the previous round."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from remat_algos.context import Clock, Stop, until_stopped
from remat_algos.cost.links import Link, LinkTimes
from remat_algos.ir.arrays import Bool, Float64, Int32, Int64, gather_rows, indptr_of
from remat_algos.ir.graph import ComputationGraph, updates_and_readers
from remat_algos.ir.parts import KEEP, RECOMPUTE
from remat_algos.kernels.graph import GraphArrays
from remat_algos.kernels.schedule_state import ScheduleRules
from remat_algos.kernels.search import LARGEST_LIMIT, N_EXPONENTIALS, PERIOD, ScheduleSearch
from remat_algos.kernels.timeline import Engines
from remat_algos.schedule import tuning
from remat_algos.schedule.constraints import Constraints, may_leave
from remat_algos.schedule.schedule import Schedule
from remat_algos.schedule.simulation import Simulation, simulate
from remat_algos.schedule.timeline import timeline


@dataclass(frozen=True, slots=True, eq=False)
class SearchKernel:
    """State of the search kernel: the needed nodes of a graph, with sizes in multiples of `unit` bytes.

    `unit` is chosen so that the sum of all sizes in units is below 2**30. Sizes are rounded up and limits down, so a
    peak within the limit in units is also within the limit in bytes. `number[v]` is the kernel's id of node v, or -1 if
    the node is not needed. `mean_compute` is the mean cost of a node, or 1 if all nodes cost nothing.
    """

    state: ScheduleSearch
    nodes: Int32
    number: Int32
    unit: int
    region_limits: Int64
    mean_compute: float
    values: Int32

    @classmethod
    def of(
        cls,
        graph: ComputationGraph,
        random: np.random.SeedSequence | None = None,
        *,
        max_runs: int,
        constraints: Constraints | None = None,
        times: LinkTimes | None = None,
        leaving: Bool | None = None,
    ) -> "SearchKernel":
        """Return the kernel for a graph; each node runs at most `max_runs` times, or less often if a rule requires it.

        With `times`, values may be copied to the host (only those in `leaving`, if specified), and the cost of a
        schedule is its time.
        """
        nodes = np.flatnonzero(graph.needed).astype(np.int32)
        values = np.flatnonzero(graph.needed[graph.producer]).astype(np.int32)
        number = np.full(graph.n_nodes, -1, np.int32)
        number[nodes] = np.arange(nodes.size)
        total = int(graph.memory.sum()) + int(graph.workspace.max(initial=0))
        unit = max(1, -(-total // (LARGEST_LIMIT // 2)))
        memory = -(-graph.memory[values] // unit)
        new_value = np.full(graph.n_values, -1, np.int32)
        new_value[values] = np.arange(values.size)
        read_indptr, reads = gather_rows(graph.read_indptr, graph.read_indices, nodes)
        arrays = GraphArrays(
            value_indptr=indptr_of(np.diff(graph.value_indptr)[nodes]),
            read_indptr=read_indptr,
            read_indices=new_value[reads],
            memory=memory,
            output=graph.output[values].view(np.uint8),
            compute=graph.compute[nodes],
            workspace=-(-graph.workspace[nodes] // unit),
        )
        mark = np.zeros(graph.n_nodes, np.int8) if graph.mark is None else graph.mark
        run_limit = np.full(graph.n_nodes, max_runs)
        run_limit[graph.once | (mark == KEEP)] = 1
        region, region_limits = np.zeros(graph.n_nodes, np.int32), np.empty(0, np.int64)
        rank_of_first = np.empty(0, np.int32)
        if constraints is not None:
            run_limit = np.where(constraints.run_limit > 0, np.minimum(constraints.run_limit, run_limit), run_limit)
            region, region_limits = constraints.region + 1, constraints.region_limit // unit
            rank_of_first = np.arange(nodes.size if constraints.fixed_order else 0, dtype=np.int32)
        update, reader = (number[pair] for pair in updates_and_readers(graph))
        both = (update >= 0) & (reader >= 0)
        rules = ScheduleRules(
            arrays,
            max_runs=run_limit[nodes].astype(np.int32),
            region=region[nodes].astype(np.int32),
            late=((mark == RECOMPUTE) & graph.forward)[nodes].view(np.uint8),
            backward=(~graph.forward[nodes]).view(np.uint8),
            rank=rank_of_first,
            update=update[both],
            reader=reader[both],
        )
        loadable, engines = np.empty(0, np.uint8), None
        if times is not None:
            # The search never copies values of a region with a limit.
            movable = may_leave(graph, constraints) & (region[graph.producer] == 0)
            loadable = (movable if leaving is None else movable & leaving)[values].view(np.uint8)
            engines = Engines(*(each[values] for each in times), memory)
        first = int((random or np.random.SeedSequence(0)).generate_state(1, np.uint32)[0])
        weights = np.sqrt(memory.astype(np.float64))
        state = ScheduleSearch(arrays, rules, weights, _exponentials(), first, loadable=loadable, engines=engines)
        mean = float(graph.compute[nodes].mean()) if nodes.size else 0.0
        return cls(state, nodes, number, unit, region_limits, mean or 1.0, values)

    def start(self, schedule: Schedule, limit: int, *, goal: int, within: bool = False) -> bool:
        """Start from a schedule and forget the previous best one; return False if it violates a rule or a constraint.

        Set `within` if the peak in bytes is within the limit, because the peak in rounded units may exceed it.
        """
        self.state.forget()
        order = self.number[schedule.order]
        if schedule.loads.size:
            step, value = schedule.loads[np.isin(schedule.loads[:, 1], self.values)].T
            order = np.insert(order, step, self.nodes.size + np.searchsorted(self.values, value))
        limits = limit // self.unit, self.region_limits
        return bool(self.state.start(order[order >= 0], *limits, goal, within))

    def cool(self, hot: float, cold: float, part: float) -> None:
        """Set the temperature. It falls from `hot` to `cold`, in multiples of the mean cost, as `part` rises to 1."""
        # Round before multiplying by the mean, so that a search does not depend on the machine or the unit of cost.
        self.state.temperature = self.mean_compute * float(np.float32(hot * (cold / hot) ** part))

    @property
    def best(self) -> Schedule:
        """The best schedule; if none fits, the schedule with the lowest peak."""
        ids = self.state.best_order()
        loads = np.flatnonzero(ids >= self.nodes.size)
        if not loads.size:
            return Schedule(self.nodes[ids])
        pairs = np.stack([loads - np.arange(loads.size), self.values[ids[loads] - self.nodes.size]], axis=1)
        return Schedule(self.nodes[np.delete(ids, loads)], pairs)


@cache
def _exponentials() -> Float64:
    """Return quantiles of the exponential distribution, rounded so that they are equal on every machine."""
    middle = (np.arange(N_EXPONENTIALS) + 0.5) / N_EXPONENTIALS
    return np.round(-np.log(middle) * 2**16) / 2**16


# A goal on the cost that every schedule within the limit reaches.
ANY_GOAL = 2**62


@dataclass(frozen=True, slots=True, eq=False)
class Annealed:
    """A schedule at which a search starts or ends, compared by `time` if values may be copied, else by compute."""

    simulation: Simulation
    start: str
    moves: int = 0
    time: int | None = None

    @property
    def figures(self) -> tuple[int, int]:
        """(peak in bytes, cost): with a link, the cost is the time, otherwise the compute."""
        return self.simulation.peak_memory, self.simulation.compute if self.time is None else self.time


class Annealer:
    """Simulated annealing over the schedules of one graph, in which each node runs at most `max_runs` times.

    If `by_moves`, each move counts as `WORK_OF_MOVE` units of work, instead of its actual work. All stages together use
    the share `part` of the remaining progress. With a link, costs are in ticks (`Link.refined`) and schedules are
    compared by time.
    """

    def __init__(
        self,
        graph: ComputationGraph,
        clock: Clock,
        random: np.random.SeedSequence,
        *,
        max_runs: int,
        constraints: Constraints | None = None,
        by_moves: bool = False,
        part: float = 1.0,
        link: Link | None = None,
        leaving: Bool | None = None,
    ) -> None:
        self.graph, self.clock, self.random, self.link = graph, clock, random, link
        self.constraints, self.by_moves, self.part = constraints, by_moves, part
        times = None if link is None else link.times(graph)
        self._kernel = partial(
            SearchKernel.of, graph, max_runs=max_runs, constraints=constraints, times=times, leaving=leaving
        )
        self.kernel, self.done = self._kernel(random), 0
        # Progress text; callers set it when they have a better result.
        self.so_far = ""
        self.n_others = 0  # number of additional kernels

    def annealed(self, schedule: Schedule, limit: int, start: str, moves: int = 0) -> Annealed:
        """Simulate a schedule and return it as a result; with a link, delay frees and stores if that saves time."""
        if self.link is None:
            return Annealed(simulate(self.graph, schedule), start, moves)
        played = timeline(simulate(self.graph, schedule), self.link).with_late_stores(limit)
        return Annealed(played.simulation, start, moves, played.last)

    def key(self, annealed: Annealed, limit: int) -> tuple[bool, bool, int, int]:
        """Return a sort key: schedules within the limit by cost, then others by peak. Violations of rules come last."""
        rules, (peak, compute) = self.constraints, annealed.figures
        violates, above = rules is not None and rules.violation(annealed.simulation) is not None, peak > limit
        return violates, above, *((peak, compute) if above else (compute, peak))

    def meets(self, annealed: Annealed, limit: int, goal: int) -> bool:
        """Return True if the schedule fits, violates no constraint and reaches the goal."""
        return self.key(annealed, limit)[:2] == (False, False) and annealed.figures[1] <= goal

    def begin_stage(self, work: int, part: float) -> None:
        """Begin a stage of `work` units in the progress report. It covers the share `part` of what is left."""
        part, self.done = self.part * part, 0
        self.part = (self.part - part) / (1 - part) if part < 1 else 0.0
        self.clock.stage(work, "moves", part=part)

    def rounds(
        self,
        starts: Sequence[Annealed],
        limit: int,
        work: int,
        *,
        count: int,
        goal: int = ANY_GOAL,
        lowest: bool = False,
        part: float = 1.0,
    ) -> Generator[Annealed, None, Annealed | None]:
        """Yield improving schedules within a limit in bytes; return the best, or None if constraints allow none.

        The first round runs `count` searches, or fewer for little `work`, but at least `MIN_FIRST`. They start at the
        schedules in `starts`, in turn. Later rounds start at the best schedules of the previous round. Searches
        minimize the cost and stop at `goal`. With `lowest`, they first minimize the peak until it is within the limit.
        """
        n_nodes, best, pool = self.kernel.nodes.size, None, list(starts)
        rounds: tuple[tuning.Round, ...] = tuning.ROUNDS if self.link is None else tuning.COPIES_ROUNDS
        if n_nodes > tuning.COOL_NODES:
            rounds = tuning.COOL_ROUNDS
        if self.kernel.state.one_pass:
            rounds = tuning.ONE_PASS_ROUNDS
        count = max(tuning.MIN_FIRST, min(count, int(rounds[0].share * work / (tuning.FIRST_WORK * n_nodes + 1))))
        self.begin_stage(work, part)
        for each in rounds:
            one, ended = int(each.share * work / count), list[Annealed]()
            for i in range(count):
                start, step = pool[i % len(pool)], tuning.PEAK_STEPS[i % len(tuning.PEAK_STEPS)] if lowest else None
                result, stop = self._search(self.kernel, start, limit, goal, one, each, step)
                self.done += one
                if result is None:
                    stop.pass_on()
                    continue
                ended.append(result)
                if best is None or self.key(result, limit) < self.key(best, limit):
                    best = result
                    yield best
                stop.pass_on()
                self.clock.progress(self.done, self.so_far)
                if self.meets(best, limit, goal):
                    return best
            count = max(1, count // tuning.ROUND_RATIO)
            different = {self.key(result, limit): result for result in [*ended, *([best] if best else [])]}
            pool = [result for _, result in sorted(different.items())][:count]
            if not pool:
                break
        return best

    def each(
        self, points: Sequence[tuple[int, Sequence[Annealed]]], work: int
    ) -> Generator[Annealed, None, list[Annealed]]:
        """Search within the limit of each (limit, starts) pair. Yield improvements; return the best per limit."""
        goal, searches = self.graph.needed_compute, list[tuple[int, int, int, Annealed]]()
        bests = [min(starts, key=lambda start: self.key(start, limit)) for limit, starts in points]
        for i, (limit, starts) in enumerate(points):
            for start in dict.fromkeys(starts) if not self.meets(bests[i], limit, goal) else ():
                self.n_others += 1
                searches.append((i, limit, self.n_others, start))

        def run(search: tuple[int, int, int, Annealed]) -> Annealed | None:
            i, limit, number, start = search
            if self.clock.late or self.clock.stop is Stop.INTERRUPTED:
                return None
            random = np.random.SeedSequence((self.random.entropy, number))  # type: ignore[arg-type]
            kernel, one = self._kernel(random), work // len(points[i][1])
            result, stop = self._search(kernel, start, limit, goal, one, tuning.WARM, None)
            self.clock.note(stop)
            return result

        for (i, limit, *_), result in zip(searches, self.clock.map(run, searches), strict=True):
            if result is not None and self.key(result, limit) < self.key(bests[i], limit):
                bests[i] = result
                yield result
        self.done += work * len(points)
        self.clock.progress(self.done)
        return bests

    def _search(
        self,
        kernel: SearchKernel,
        start: Annealed,
        limit: int,
        goal: int,
        work: int,
        cooling: tuning.Round,
        step: float | None,
    ) -> tuple[Annealed | None, Stop]:
        """Run one search. With `step`, it has stages, each limited to `step` times the lowest peak before."""
        result, begun, spent, work = None, self._spent(kernel), 0, max(1, work)
        while True:
            best = result or start
            aim = limit if step is None else max(limit, int(step * best.figures[0]))
            if not kernel.start(best.simulation.schedule, aim, goal=goal, within=best.figures[0] <= aim):
                return result, Stop.DONE
            ended = False
            with until_stopped() as ending:
                while spent < work and not ended:
                    kernel.cool(cooling.hot, cooling.cold, spent / work)
                    ended = kernel.state.advance(PERIOD)
                    before, spent = spent, self._spent(kernel) - begun
                    self.clock.advance(spent - before, self.so_far)
            if not len(kernel.best):
                return result, ending.stop
            new = self.annealed(kernel.best, aim, start.start, kernel.state.n_moves)
            if result is None or self.key(new, limit) < self.key(result, limit):
                result = new
            ended &= ending.stop.complete and spent < work and new.figures[0] < best.figures[0]
            if step is None or not ended or result.figures[0] <= limit:
                return result, ending.stop

    def _spent(self, kernel: SearchKernel) -> int:
        return tuning.WORK_OF_MOVE * kernel.state.n_moves if self.by_moves else kernel.state.work
