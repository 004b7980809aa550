"""The dynamic program over chains of stages with arbitrary costs and sizes."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from remat_algos.context import Clock
from remat_algos.errors import GraphError
from remat_algos.ir.arrays import Float32, Float64, Int64
from remat_algos.ir.graph import ComputationGraph
from remat_algos.kernels.chain_table import fill_rows, operations, rows_of_table
from remat_algos.schedule.emission import baseline
from remat_algos.solvers import tuning
from remat_algos.solvers.candidate_rows import check_positive, coarse_first
from remat_algos.solvers.chain_stages import NO_CHAIN, ChainStages, StageMemory, chain_of_stages, stages_of
from remat_algos.solvers.registry import Candidate, Task, evaluated, solver


@solver(paper="beaumont2019", needs=chain_of_stages, optimal_in="chain", price=0.5)
def chain_dp(
    graph: ComputationGraph, task: Task, clock: Clock, *, slots: int | None = None, stages: int = tuning.MAX_STAGES
) -> Iterator[Candidate]:
    """Cut the forward part where one value passes; keep all, the last or none of the values of each stage, optimally.

    A stage is the part between two such cuts; in a recurrence that reads the last k steps (at most 6), k values pass a
    cut. Each stage is swept any number of times, computing only the link to later stages, and then run once, keeping
    all values that its gradients read. A checkpoint stays until the stages after it have run backward. The table has
    the optimum among these schedules, the class "chain", for every limit at once.

    Bytes are rounded up to slots and the limit is rounded down, so schedules that fit the table also fit the limit. If
    the greatest common divisor of all sizes can be the slot, nothing is rounded. Costs are float32: sums are exact
    below 2^24 times the common divisor of the costs; above it each addition has a relative error of at most 6e-8. The
    bound comes from a second table with bytes rounded down, minus the error of its costs; recurrences of higher order
    have no bound.

    Parameters
    ----------
    slots : int, optional
        Number of slots of memory; by default 500, or up to 4,000 for few stages.
    stages : int
        Maximum number of stages; neighbouring stages are joined to reach it. Time grows with its cube.

    References
    ----------
    beaumont2019, section 4, theorem 1. Unlike there, peaks within stages are those of the simulator.
    """
    check_positive(slots=slots, stages=stages)
    whole = stages_of(graph)
    if whole is None:
        raise GraphError(NO_CHAIN)
    chain = whole.joined(stages)
    upper = chain.upper
    highest = max(upper.highest + upper.pinned, baseline(graph).peak_memory)
    yield Candidate(baseline(graph).schedule, {"stages": len(chain), "promise": highest})
    if task.limit is None:
        yield from _frontier(ChainTable.of(chain, upper, highest, slots, clock), clock)
        return
    exact = highest // upper.unit <= (slots or _default_slots(len(chain)))
    near = highest if exact else min(highest, int(tuning.WIDER_TABLE * task.limit) + 1)
    table = ChainTable.of(chain, upper, near, slots, clock)
    if not np.isfinite(table.root[-1]) and table.highest < highest:
        table = ChainTable.of(chain, upper, highest, slots, clock)
    bound = None
    if len(chain) == len(whole) and chain.is_narrow:
        bound = _bound(chain, table, min(task.limit, highest), clock)
    for candidate in _near(table, task.limit, clock):
        fits = candidate.simulation is None or candidate.figures[0] <= task.limit
        known = fits and bound is not None
        yield Candidate(
            candidate.schedule,
            candidate.details,
            bound if known else None,
            "chain" if known else None,
            candidate.simulation,
        )


class ChainCosts(NamedTuple):
    """Costs of the operations, float64[3, k], in units of `unit`; `fixed` is the compute of nodes never recomputed."""

    columns: Float64
    unit: int
    fixed: int

    @classmethod
    def of(cls, chain: ChainStages) -> "ChainCosts":
        *columns, fixed = chain.costs()
        unit = max(1, int(np.gcd.reduce(np.concatenate(columns))))
        return cls(np.array(columns, np.float64) / unit, unit, fixed)


@dataclass(frozen=True, slots=True, eq=False)
class ChainTable:
    """The table of a chain for peaks of at most `highest` bytes, rounded up or down to slots of `unit` bytes."""

    chain: ChainStages
    memory: StageMemory
    costs: ChainCosts
    highest: int
    unit: int
    up: bool
    entries: Float32

    @classmethod
    def of(
        cls,
        chain: ChainStages,
        memory: StageMemory,
        highest: int,
        slots: int | None,
        clock: Clock,
        *,
        unit: int | None = None,
        up: bool = True,
    ) -> "ChainTable":
        """Compute a table; GraphError if it takes too much memory."""
        k = len(chain)
        free = max(0, highest - memory.pinned)
        unit = unit or _unit(memory, free, slots or _default_slots(k))
        width, rows = free // unit + 1, rows_of_table(k)
        if 4 * rows * width > tuning.MAX_TABLE:
            raise GraphError(
                "a table of {stages:,} stages and {slots:,} slots takes {size!b}; give fewer slots or stages",
                stages=k,
                slots=width - 1,
                size=4 * rows * width,
            )
        costs = ChainCosts.of(chain)
        entries = np.empty(rows * width, np.float32)
        begin = end = k
        clock.stage(rows, "table", part=0.5)
        while end:
            reads = 0
            while begin and (reads == 0 or reads < tuning.ENTRIES_PER_CHECK):
                begin -= 1
                reads += (k - begin) ** 2 // 2 * width
            fill_rows(entries, width, costs.columns, np.array(memory.arrays), unit, up, begin, end)
            clock.progress((k - begin) * (k - begin + 1) // 2)
            end = begin
        return cls(chain, memory, costs, highest, unit, up, entries)

    @property
    def width(self) -> int:
        """Number of slots plus 1, for an empty memory."""
        return (self.highest - self.memory.pinned) // self.unit + 1 if self.highest >= self.memory.pinned else 1

    @property
    def root(self) -> Float32:
        """float32[width]: minimum forward compute of the whole chain, by number of slots."""
        begin = (len(self.chain) - 1) * self.width
        return self.entries[begin : begin + self.width]

    def points(self) -> Int64:
        """Return the smallest number of slots for each distinct cost, rising."""
        finite = np.flatnonzero(np.isfinite(self.root))
        costs = self.root[finite]
        return finite[np.flatnonzero(np.diff(costs, prepend=np.inf) < 0)] if finite.size else finite

    def place(self, limit: int) -> int:
        """Number of slots within a limit; negative if outputs alone exceed it."""
        return min((limit - self.memory.pinned) // self.unit, self.width - 1)

    def bound(self, limit: int) -> int | None:
        """Lower bound on compute of chain schedules within a limit, from a table rounded down; None if none fits."""
        place = self.place(limit)
        if place < 0 or not np.isfinite(self.root[place]):
            return None
        cost = float(self.root[place])
        # From here on costs may be inexact: at most three roundings for each of at most 2 k operations on a path.
        if cost >= 2**23:
            cost *= max(0.0, 1 - 6 * (len(self.chain) + 1) * 2.0**-24)
        return int(cost) * self.costs.unit + self.costs.fixed

    def candidate(self, slots: int, clock: Clock) -> Candidate | None:
        """Return the optimum within a number of slots; None, counted as skipped, if the schedule is too long."""
        arrays = np.array(self.memory.arrays)
        most = tuning.MAX_SCHEDULE_STEPS
        codes = operations(self.entries, self.width, self.costs.columns, arrays, self.unit, self.up, slots, most)
        if codes is None:
            clock.skipped["too long"] += 1
            return None
        schedule = self.chain.schedule(zip((codes % 4).tolist(), (codes // 4).tolist(), strict=True))
        promise = int(slots) * self.unit + self.memory.pinned
        details: dict[str, Any] = {"stages": len(self.chain), "promise": promise, "slot": self.unit}
        return Candidate(schedule, details)


def _default_slots(k: int) -> int:
    return int(np.clip(6 * tuning.CHAIN_WORK // max(1, k) ** 3, tuning.MIN_SLOTS, tuning.MAX_SLOTS))


def _unit(memory: StageMemory, free: int, slots: int) -> int:
    """Bytes of a slot: the common divisor of all sizes if `slots` of these suffice."""
    return memory.unit if free // memory.unit <= slots else -(-free // slots)


def _bound(chain: ChainStages, table: ChainTable, limit: int, clock: Clock) -> int | None:
    """Return the bound for a limit, from a second table that rounds down unless the first is exact."""
    lower = chain.lower
    if not (table.unit == lower.unit == table.memory.unit and table.memory.same_as(lower)):
        table = ChainTable.of(chain, lower, limit, None, clock, unit=table.unit, up=False)
    return table.bound(limit)


def _frontier(table: ChainTable, clock: Clock) -> Iterator[Candidate]:
    """Yield the optima for all numbers of slots, or evenly spread ones if their schedules are long."""
    n_steps = 0
    points = table.points()
    clock.stage(points.size)
    for done, slots in enumerate(coarse_first(points.tolist())):
        candidate = table.candidate(slots, clock)
        if candidate is not None:
            yield candidate
            n_steps += len(candidate.schedule)
        clock.progress(done + 1)
        if n_steps > tuning.MAX_FRONTIER_STEPS:
            clock.skipped["too long together"] += points.size - done - 1
            return


def _near(table: ChainTable, limit: int, clock: Clock) -> Iterator[Candidate]:
    """Yield the optimum for a limit, then optima for more and fewer slots; more slots may fit when simulated."""
    points = table.points()
    best = int(np.searchsorted(points, table.place(limit), side="right")) - 1
    if points.size <= tuning.FEW_POINTS:
        order = [best, *range(best), *range(best + 1, points.size)]
    else:
        around = tuning.POINTS_AROUND
        order = [best, *range(best + 1, min(best + 1 + around, points.size)), *range(max(0, best - around), best)]
    chosen = [place for place in order if 0 <= place < points.size]
    clock.stage(len(chosen))
    for done, place in enumerate(chosen):
        candidate = table.candidate(int(points[place]), clock)
        if candidate is not None:
            yield evaluated(table.chain.graph, candidate.schedule, candidate.details)
        clock.progress(done + 1)
