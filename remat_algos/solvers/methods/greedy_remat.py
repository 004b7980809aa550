"""Greedy rematerialization, like the pass of a compiler."""

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from remat_algos.bounds.memory import least_peak_bound
from remat_algos.context import Clock, OutOfTime
from remat_algos.errors import ArgumentError
from remat_algos.ir.arrays import as_whole
from remat_algos.ir.graph import ComputationGraph, runs_once
from remat_algos.kernels.greedy import greedy_order
from remat_algos.kernels.rules import Rule
from remat_algos.rules import RuleKind
from remat_algos.schedule.one_pass import lowest_pass
from remat_algos.schedule.schedule import Schedule, emit
from remat_algos.schedule.simulation import simulate
from remat_algos.solvers import tuning
from remat_algos.solvers.registry import Candidate, Details, Task, any_graph, evaluated, solver


@solver(paper="kumar2019", needs=any_graph, price=0.2)
def greedy_remat(
    graph: ComputationGraph,
    task: Task,
    clock: Clock,
    *,
    max_block: int | None = None,
    moves: bool = True,
    rule: Any = None,
) -> Iterator[Candidate]:
    """Scan the order; where memory exceeds a limit, free a value and recompute it before its next use.

    The scan is repeated for many internal limits, whatever the limit of the task. Unless a rule reads them, compute
    costs are ignored.

    Parameters
    ----------
    max_block : int, optional
        Maximum number of consecutive runs that are recomputed as a block. By default 1, 2, 4, ..., 64 are tried.
    moves : bool
        True follows the pass of XLA. A run whose values have not been read yet is moved, not repeated. A value is
        recomputed before its next reader. It may be recomputed even earlier, before the last reader of one of its
        inputs. False follows the paper: no run is removed, and a value is recomputed directly before its next reader.
        With `max_block=1` and the rule "largest", this is exactly the paper's algorithm.
    rule : str, function or scipy.LowLevelCallable, optional
        Which values are freed first: those with the smallest value of the rule. "xla" is `limit // nbytes`, "largest"
        is `-nbytes`, "dtr" is `cost / (nbytes * since_read)`, and "furthest" is `-until_read`. The default is "xla" if
        `moves`, else "largest". A function takes one or more of these arguments, by name: `nbytes`, the bytes that are
        saved; `cost`, the compute that is repeated; `since_read`, the steps since the last read; `until_read`, the
        steps of the scanned order until the next read; `readers`, the number of future reads; `limit`, in bytes.

    References
    ----------
    kumar2019, section 4, GreedyRemat.
    """
    if max_block is not None and (as_whole(max_block) or 0) < 1:
        raise ArgumentError("max_block is {max_block!r}; give a whole number of runs, 1 or more", max_block=max_block)
    if moves not in (True, False):
        raise ArgumentError("moves is {moves!r}; use True for XLA's pass, or False for the paper's text", moves=moves)
    sizes = tuning.BLOCK_SIZES if max_block is None else (int(max_block),)
    blocks = [block for i, block in enumerate(sizes) if i == 0 or block < graph.n_nodes]
    walks = _Walks(
        graph, clock, moves=bool(moves), rule=RULES.rule(("largest", "xla")[moves] if rule is None else rule)
    )
    one_pass = lowest_pass(graph, beam=0)
    yield from walks.new(one_pass, {"one_pass": True})
    yield from walks.along(one_pass, blocks, {})
    if graph.n_nodes > tuning.MAX_NODES_RESTARTED:
        return
    yield from walks.along(lowest_pass(graph), blocks, {"start": "lowest pass"})
    for turn in range(tuning.TURNS):
        for start in walks.lowest():
            yield from walks.along(start, blocks[: tuning.START_BLOCKS], {"start": f"best, turn {turn + 1}"})


RULES = RuleKind(
    "greedy rule",
    ("nbytes", "cost", "since_read", "until_read", "readers", "limit"),
    {
        "xla": ("nbytes", "limit"),
        "largest": ("nbytes",),
        "dtr": ("nbytes", "cost", "since_read"),
        "furthest": ("until_read",),
    },
)


def walk(
    graph: ComputationGraph, start: Schedule, limit: int, max_block: int, *, moves: bool = True, rule: Any = "xla"
) -> tuple[Schedule, int, int]:
    """Scan a valid order once. Return the new schedule, the highest block level that was tried, and the work."""
    compiled = RULES.rule(rule)
    with RULES.faults(compiled):
        order, reached, work = greedy_order(
            graph.arrays,
            start.order,
            (~runs_once(graph)).view(np.uint8),
            limit=limit,
            max_block=max_block,
            max_runs=tuning.MAX_WALK_RUNS * (graph.n_nodes + 8),
            factor=tuning.BLOCK_WORK,
            min_work=tuning.MIN_BLOCK_WORK,
            moves=moves,
            rule=compiled,
        )
    return emit(graph, order), reached, work


class _Walks:
    def __init__(self, graph: ComputationGraph, clock: Clock, *, moves: bool, rule: Rule) -> None:
        self.graph = graph
        self.clock = clock
        self.moves = moves
        self.rule = rule
        # For each schedule, its (peak, compute); both are infinite if the schedule violates a mark.
        self.figures: dict[bytes, tuple[float, float]] = {}
        self.schedules: dict[bytes, Schedule] = {}  # small graphs only
        self.started: set[bytes] = set()
        # Maximum number of remaining sweeps, for the progress report.
        self.sweeps = 2 + tuning.TURNS * tuning.STARTS_PER_TURN if graph.n_nodes <= tuning.MAX_NODES_RESTARTED else 1
        clock.stage(1, "walks", part=0)

    def new(self, schedule: Schedule, details: Details) -> Iterator[Candidate]:
        key = _key(schedule)
        if key not in self.figures:
            candidate = evaluated(self.graph, schedule, details)
            self.figures[key] = (math.inf, math.inf) if candidate.simulation is None else candidate.figures
            if self.graph.n_nodes <= tuning.MAX_NODES_RESTARTED and candidate.simulation is not None:
                self.schedules[key] = schedule
            yield candidate
        self.clock.advance(1)

    def along(self, start: Schedule, blocks: Sequence[int], details: Details) -> Iterator[Candidate]:
        """Scan an order with many limits and block sizes, unless this order has been scanned before."""
        key = _key(start)
        if key not in self.started:
            self.started.add(key)
            recorded = details if self.moves else {**details, "moves": False}
            if self.rule.function is not None or self.rule.name != ("largest", "xla")[self.moves]:
                recorded = {**recorded, "rule": self.rule.name}
            yield from _LimitSweep(self, start, blocks, recorded).candidates()

    def begin_sweep(self, n_walks: int) -> None:
        self.clock.stage(n_walks, "walks", part=1 / max(1, self.sweeps))
        self.sweeps -= 1

    def peak(self, schedule: Schedule) -> float:
        return self.figures[_key(schedule)][0]

    def lowest(self) -> list[Schedule]:
        keys = sorted(self.schedules, key=self.figures.__getitem__)
        return [self.schedules[key] for key in keys[: tuning.STARTS_PER_TURN]]


class _LimitSweep:
    """Scans one order with each block size: first at widely spaced limits, then at closer ones, then by bisection."""

    def __init__(self, walks: _Walks, start: Schedule, blocks: Sequence[int], details: Details) -> None:
        self.walks = walks
        self.graph = walks.graph
        self.start = start
        self.blocks = blocks
        self.details = details
        self.work = 0
        self.peak: dict[tuple[int, int], float] = {}  # key: (limit, block size)
        # For each limit, (highest block level tried, peak). Scans that allow larger blocks give the same peak.
        self.final: dict[int, tuple[int, float]] = {}

    def candidates(self) -> Iterator[Candidate]:
        limits = self._limits()[::-1]
        self.walks.begin_sweep((len(limits) + tuning.BISECTIONS) * len(self.blocks))
        for first, stride in ((0, 4), (2, 4), (1, 2)):
            for block in self.blocks:
                yield from self._descend(limits[first::stride], block)
        for block in self.blocks:
            yield from self._bisect(block)

    def _limits(self) -> list[int]:
        """Return limits for the walks, ascending, from the lower bound on the peak to the peak of the initial order."""
        free = replace(self.graph, mark=None) if self.graph.mark is not None else self.graph
        first, last = least_peak_bound(self.graph)[0], simulate(free, self.start).peak_memory
        count = max(tuning.MIN_LIMITS, min(tuning.MAX_LIMITS, 100_000 // max(1, self.graph.n_nodes)))
        if last - first <= count:
            return list(range(first, last))
        limits: list[int] = np.unique(
            (np.linspace(first**0.5, last**0.5, count + 1)[:-1] ** 2).astype(np.int64)
        ).tolist()
        return limits

    def _descend(self, limits: Sequence[int], block: int) -> Iterator[Candidate]:
        """Scan at decreasing limits until several consecutive limits have not lowered the peak."""
        lowest, failed = math.inf, 0
        for limit in limits:
            if failed == tuning.MAX_FAILED or self.work > tuning.MAX_WALK_WORK:
                return
            yield from self._walk(limit, block)
            failed = 0 if self.peak[limit, block] < lowest else failed + 1
            lowest = min(lowest, self.peak[limit, block])

    def _bisect(self, block: int) -> Iterator[Candidate]:
        """Bisect between the lowest limit that was met and the next lower limit that was tried."""
        peaks = {limit: peak for (limit, other), peak in self.peak.items() if other == block}
        high = min((limit for limit, peak in peaks.items() if peak <= limit), default=None)
        if high is None:
            return
        low = max((limit for limit in peaks if limit < high), default=high)
        for _ in range(tuning.BISECTIONS):
            limit = (low + high) // 2
            if high - low < 2 or self.work > tuning.MAX_WALK_WORK:
                return
            yield from self._walk(limit, block)
            if self.peak[limit, block] <= limit:
                high = limit
            else:
                low = limit

    def _walk(self, limit: int, block: int) -> Iterator[Candidate]:
        """Scan once, unless an earlier scan at this limit already determines the peak for this block size."""
        if (limit, block) in self.peak:
            return
        if block > 1 and limit in self.final:
            reached, peak = self.final[limit]
            if reached <= (block - 1).bit_length():
                self.peak[limit, block] = peak
                return
        left = self.walks.clock.left
        if left is not None and self.graph.n_nodes**2 > tuning.SCANNED_A_SECOND * left:
            raise OutOfTime
        schedule, reached, work = walk(
            self.graph, self.start, limit, block, moves=self.walks.moves, rule=self.walks.rule
        )
        self.work += work
        yield from self.walks.new(schedule, {**self.details, "max_block": block, "walk_limit": limit})
        peak = self.peak[limit, block] = self.walks.peak(schedule)
        if block > 1 and reached <= (block - 1).bit_length():
            self.final[limit] = reached, peak


def _key(schedule: Schedule) -> bytes:
    return hashlib.blake2b(schedule.order.tobytes(), digest_size=16).digest()
