"""Simulated annealing over schedules: rounds of searches that cool down, each from the best of the round before.

`search` and orders of one pass use the same rounds, hotter ones if no node may run twice. The caller gives the start
schedules, the limit, the goal and the work.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from remat_algos.context import Clock, Ending, Stop, until_stopped
from remat_algos.cost.links import Link
from remat_algos.ir.arrays import Bool
from remat_algos.ir.graph import ComputationGraph
from remat_algos.kernels.search import PERIOD
from remat_algos.schedule.constraints import Constraints
from remat_algos.schedule.schedule import Schedule
from remat_algos.schedule.search_kernel import SearchKernel
from remat_algos.schedule.simulation import Simulation, simulate
from remat_algos.schedule.store_order import with_late_stores

WORK_OF_MOVE = 30  # work of a typical move
FIRST_WORK = 4_000  # work for each node in a search of the first round
MIN_FIRST = 4  # searches of the first round
FEWER = 4  # searches of a round for each of the next
COOL_NODES = 4_000  # nodes above which there are too few moves for each to begin hot
STEPS = (0.9, 0.8)
"""Limits of the searches for a lower peak, in turn, as shares of the lowest peak so far."""
ANY_GOAL = 2**62  # the first schedule within the limit ends a search


class Round(NamedTuple):
    """Searches that start at the best of the previous round.

    Parameters
    ----------
    share : float
        Of all work.
    hot, cold : float
        First and last temperature, in mean costs of a node.
    """

    share: float
    hot: float
    cold: float


ROUNDS = (Round(0.4, 2.0, 0.02), Round(0.2, 1.0, 0.01), Round(0.4, 1.0, 0.005))
COOL_ROUNDS = (Round(0.3, 0.3, 0.02), Round(0.7, 0.2, 0.01))
COPIES_ROUNDS = (Round(0.4, 1.0, 0.02), Round(0.2, 0.5, 0.01), Round(0.4, 0.5, 0.005))
"""With a link, later rounds are cooler: from hotter ones seeds differ more."""
ONE_PASS_ROUNDS = (Round(0.5, 20.0, 0.2), Round(0.25, 20.0, 0.2), Round(0.25, 10.0, 0.1))
"""If no node may run twice: all orders have the same compute, and the weight of bytes is constant."""
WARM = Round(1.0, 0.1, 0.005)  # from the best schedule within a limit nearby


@dataclass(frozen=True, slots=True, eq=False)
class Annealed:
    """A simulated schedule at which a search begins or ends.

    Parameters
    ----------
    simulation : Simulation
    start : str
        What the search began at.
    moves : int
        Of all searches of its kernel so far.
    time : int, optional
        Where values may be copied: the end of its last run or copy. By default it is the compute.
    """

    simulation: Simulation
    start: str
    moves: int = 0
    time: int | None = None

    @property
    def figures(self) -> tuple[int, int]:
        """Peak in bytes, and time."""
        return self.simulation.peak_memory, self.simulation.compute if self.time is None else self.time


class Annealer:
    """Simulated annealing over the schedules of one graph.

    Parameters
    ----------
    graph : ComputationGraph
    clock : Clock
    max_runs : int
        Maximum runs of one node.
    seed : int
    constraints : Constraints, optional
    by_moves : bool
        True to count work by moves, `WORK_OF_MOVE` each, instead of by what they change.
    part : float
        Share of the remaining progress for all of its stages.
    link : Link, optional
        Values may be copied over it to the host and back; schedules are compared by their time. The costs of the graph
        are then in ticks (`Link.refined`).
    leaving : bool[n_values], optional
        The values that may; by default all.

    Examples
    --------
    >>> names = [("A", "B"), ("A", "C"), ("A", "D"), ("B", "D"), ("C", "E"), ("D", "E")]
    >>> graph = ComputationGraph.from_edges(names, memory=[1, 4, 2, 1, 1])
    >>> annealer = Annealer(graph, Clock(), max_runs=1)
    >>> start = Annealed(simulate(graph, range(5)), "the order of ids")
    >>> [found.figures for found in annealer.rounds([start], 6, 10_000, count=4, lowest=True)]
    [(6, 5)]
    """

    def __init__(
        self,
        graph: ComputationGraph,
        clock: Clock,
        *,
        max_runs: int,
        seed: int = 0,
        constraints: Constraints | None = None,
        by_moves: bool = False,
        part: float = 1.0,
        link: Link | None = None,
        leaving: Bool | None = None,
    ) -> None:
        self.link, self.leaving = link, leaving
        self.graph, self.clock, self.max_runs, self.seed = graph, clock, max_runs, seed
        self.constraints, self.by_moves, self.part = constraints, by_moves, part
        self.kernel, self.done = self._kernel(), 0
        self.so_far = ""  # text for the progress; the caller sets it when it has a better result
        self.n_others = 0  # kernels

    def _kernel(self, *number: int) -> SearchKernel:
        seed = (self.seed, *number) if number else self.seed
        return SearchKernel.of(
            self.graph,
            max_runs=self.max_runs,
            seed=seed,
            constraints=self.constraints,
            link=self.link,
            leaving=self.leaving,
        )

    def annealed(self, schedule: Schedule, limit: int, start: str, moves: int = 0) -> Annealed:
        """A schedule, simulated; with a link, memory lingers and stores wait, as far as that is good."""
        if self.link is None:
            return Annealed(simulate(self.graph, schedule), start, moves)
        played = with_late_stores(self.graph, schedule, self.link, limit)
        return Annealed(played.simulation, start, moves, played.last)

    def key(self, annealed: Annealed, limit: int) -> tuple[bool, bool, int, int]:
        """Sort key: schedules above the limit after those within it, violated constraints last."""
        rules, (peak, compute) = self.constraints, annealed.figures
        violates, above = rules is not None and rules.violation(annealed.simulation) is not None, peak > limit
        return violates, above, *((peak, compute) if above else (compute, peak))

    def meets(self, annealed: Annealed, limit: int, goal: int) -> bool:
        """True if it fits, violates no constraint and meets the goal."""
        return self.key(annealed, limit)[:2] == (False, False) and annealed.figures[1] <= goal

    def begin_stage(self, work: int, part: float) -> None:
        """Begin a stage of the progress: a part of the remainder of these searches."""
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
        """Yield ever better schedules: of several short searches, then of longer ones from the best of these.

        Parameters
        ----------
        starts : sequence of Annealed
            The first round begins at them in turn.
        limit : int
            Bytes.
        work : int
            Of all searches.
        count : int
            Searches of the first round; fewer for little work, but at least `MIN_FIRST`.
        goal : int
            Compute at which they end, once within the limit.
        lowest : bool
            True to minimize the peak until it is within the limit; else minimize compute within it.
        part : float
            Share of the remaining progress.

        Returns
        -------
        Annealed or None
            The best of them; None if constraints allow none.
        """
        n_nodes, best, pool = self.kernel.nodes.size, None, list(starts)
        rounds = COOL_ROUNDS if n_nodes > COOL_NODES else ROUNDS if self.link is None else COPIES_ROUNDS
        if self.kernel.state.one_pass:
            rounds = ONE_PASS_ROUNDS
        count = max(MIN_FIRST, min(count, int(rounds[0].share * work / (FIRST_WORK * n_nodes + 1))))
        self.begin_stage(work, part)
        for each in rounds:
            one, ended = int(each.share * work / count), list[Annealed]()
            for i in range(count):
                start, step = pool[i % len(pool)], STEPS[i % len(STEPS)] if lowest else None
                found, ending = self._search(self.kernel, start, limit, goal, one, each, step)
                self.done += one
                if found is None:
                    ending.pass_on()
                    continue
                ended.append(found)
                if best is None or self.key(found, limit) < self.key(best, limit):
                    best = found
                    yield best
                ending.pass_on()
                self.clock.progress(self.done, self.so_far)
                if self.meets(best, limit, goal):
                    return best
            count = max(1, count // FEWER)
            different = {self.key(found, limit): found for found in [*ended, *([best] if best else [])]}
            pool = [found for _, found in sorted(different.items())][:count]
            if not pool:
                break
        return best

    def each(
        self, points: Sequence[tuple[int, Sequence[Annealed]]], work: int
    ) -> Generator[Annealed, None, list[Annealed]]:
        """Anneal within each limit from its own starts; yield improvements, return the best within each limit.

        No search knows of another, and each has random numbers of its own: so the number of threads changes nothing.
        """
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
            kernel, one = self._kernel(number), work // len(points[i][1])
            found, ending = self._search(kernel, start, limit, goal, one, WARM, None)
            self.clock.note(ending.stop)
            return found

        for (i, limit, *_), found in zip(searches, self.clock.map(run, searches), strict=True):
            if found is not None and self.key(found, limit) < self.key(bests[i], limit):
                bests[i] = found
                yield found
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
        cooling: Round,
        step: float | None,
    ) -> tuple[Annealed | None, Ending]:
        """Run one search; return its best schedule, None if constraints allow none, and how it ended.

        With `step` it minimizes the peak: the limit is that share of the peak. Whenever it is met, the search starts
        again at the schedule found, for that share of its peak.
        """
        found, begun, spent, work = None, self._spent(kernel), 0, max(1, work)
        while True:
            best = found or start
            aim = limit if step is None else max(limit, int(step * best.figures[0]))
            if not kernel.start(best.simulation.schedule, aim, goal=goal, within=best.figures[0] <= aim):
                return found, Ending()
            ended = False
            with until_stopped() as ending:
                while spent < work and not ended:
                    kernel.cool(cooling.hot, cooling.cold, spent / work)
                    ended = kernel.state.advance(PERIOD)
                    before, spent = spent, self._spent(kernel) - begun
                    self.clock.advance(spent - before, self.so_far)
            if not len(kernel.best):
                return found, ending
            new = self.annealed(kernel.best, aim, start.start, kernel.state.n_moves)
            if found is None or self.key(new, limit) < self.key(found, limit):
                found = new
            ended &= ending.stop.complete and spent < work and new.figures[0] < best.figures[0]
            if step is None or not ended or found.figures[0] <= limit:
                return found, ending

    def _spent(self, kernel: SearchKernel) -> int:
        return WORK_OF_MOVE * kernel.state.n_moves if self.by_moves else kernel.state.work
