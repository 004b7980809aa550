"""Dynamic program over chains of stages with arbitrary costs and sizes."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from remat_algos.context import Clock
from remat_algos.errors import ArgumentError, GraphError
from remat_algos.ir.arrays import Float32, Float64, Int64
from remat_algos.ir.graph import ComputationGraph
from remat_algos.kernels.chain_table import BACKWARD, fill_rows, operations, rows_of_table
from remat_algos.kernels.rules import Rule
from remat_algos.schedule.emission import baseline
from remat_algos.solvers import tuning
from remat_algos.solvers.candidate_rows import check_positive, coarse_first
from remat_algos.solvers.chain_program import OBJECTIVES, objective_rows, objective_values
from remat_algos.solvers.chain_stages import NO_CHAIN, ChainStages, StageMemory, chain_of_stages, stages_of
from remat_algos.solvers.registry import Candidate, Details, Rows, Task, evaluated, solver


def objective_row(graph: ComputationGraph, details: Details) -> Rows:
    """Return the row of a plan's text report with the objective that the plan minimizes, if it is not compute."""
    return objective_rows(details, 'the schedules of the class "chain" within the budget')


@solver(paper="beaumont2019", needs=chain_of_stages, optimal_in="chain", price=0.5, describe=objective_row)
def chain_dp(
    graph: ComputationGraph,
    task: Task,
    clock: Clock,
    *,
    slots: int | None = None,
    stages: int = tuning.MAX_STAGES,
    objective: Any = None,
) -> Iterator[Candidate]:
    """Choose optimally, for each stage of a chain, whether to keep all of its values, the last one or none.

    A stage is the part between two neighbouring cuts. One value crosses each cut; in a recurrence that reads the last k
    steps (k at most 6), k values do. Each stage is run one or more times. All runs except the last compute only the
    values that later stages read. The last run keeps all values that the gradients of the stage read. A checkpoint
    stays in memory until the stages after it have run backward. These schedules form the class "chain". One table
    contains the optimal schedule of the class for every limit.

    The table counts memory in slots. Bytes are rounded up to slots and the limit is rounded down, so every schedule
    that fits in the table also fits the limit. If the greatest common divisor of all sizes can serve as the slot,
    nothing is rounded. Costs are float32. Sums are exact below 2^24 times the common divisor of the costs; above that,
    each addition has a relative error of at most 6e-8. The lower bound comes from a second table with bytes rounded
    down, minus the error of its costs. It is not computed for recurrences with k > 1.

    Parameters
    ----------
    slots : int, optional
        Number of memory slots; by default 500, or up to 4,000 if there are few stages.
    stages : int
        Maximum number of stages; in longer chains, neighbouring stages are joined. Time is cubic in the maximum.

    objective : str, function or scipy.LowLevelCallable, optional
        The cost of a run of a stage, by default its compute. A function takes one or more of these arguments, by name:
        `cost`, the compute of the run; `kept`, the bytes that the run leaves for the gradients of the stage; `peak`,
        the peak of the run in bytes, without the checkpoints of earlier stages. Values are rounded to whole numbers, 0
        or more. The plan minimizes their sum over the class "chain" within the budget. As with `raw`, the plan is
        neither improved nor compared with others.

    References
    ----------
    beaumont2019, section 4, theorem 1. Unlike in the paper, peaks within stages are those of the simulator.
    """
    check_positive(slots=slots, stages=stages)
    whole = stages_of(graph)
    if whole is None:
        raise GraphError(NO_CHAIN)
    chain = whole.joined(stages)
    upper = chain.upper
    highest = max(upper.highest + upper.pinned, baseline(graph).peak_memory)
    if objective is not None:
        if task.limit is None:
            raise ArgumentError("an objective needs a limit in bytes; give a budget")
        rule = OBJECTIVES.rule(objective)
        table = ChainTable.of(chain, upper, min(highest, task.limit), slots, clock, objective=rule)
        best = table.place(task.limit)
        if best >= 0 and np.isfinite(table.root[best]):
            yield from filter(None, [table.candidate(best, clock)])
        return
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
    """Costs of SWEEP, EVERY and LEAF for each stage, float64[3, k], in `unit`; `fixed` is for nodes that run once."""

    columns: Float64
    unit: int
    fixed: int

    @classmethod
    def of(cls, chain: ChainStages, objective: Rule | None = None) -> "ChainCosts":
        *columns, fixed = chain.costs()
        if objective is not None:
            memory = chain.upper
            kept = np.stack([0 * memory.keep, memory.keep, 0 * memory.keep])
            peaks = np.stack([memory.again.first, memory.again.every, memory.leaf])
            rows = np.stack([np.array(columns), kept, peaks], axis=2).reshape(-1, 3).clip(0).astype(float)
            columns, fixed = list(objective_values(objective, rows, len(chain) ** 2).reshape(3, -1)), 0
        unit = max(1, int(np.gcd.reduce(np.concatenate(columns))))
        return cls(np.array(columns, np.float64) / unit, unit, fixed)


@dataclass(frozen=True, slots=True, eq=False)
class ChainTable:
    """Minimum costs of a chain for each number of slots of `unit` bytes; bytes are rounded `up` or down."""

    chain: ChainStages
    memory: StageMemory
    costs: ChainCosts
    highest: int
    unit: int
    up: bool
    entries: Float32
    objective: Rule | None = None

    @property
    def exact(self) -> bool:
        """True if no bytes are rounded, no stages are joined, and the estimates of bytes are exact."""
        estimates = self.memory.same_as(self.chain.lower)
        return estimates and self.unit == self.memory.unit and len(self.chain) == len(stages_of(self.chain.graph) or ())

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
        objective: Rule | None = None,
    ) -> "ChainTable":
        """Compute a table; raise GraphError if it needs too much memory."""
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
        costs = ChainCosts.of(chain, objective)
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
        return cls(chain, memory, costs, highest, unit, up, entries, objective)

    @property
    def width(self) -> int:
        """Number of slots plus 1, since the table also has an entry for 0 slots."""
        return (self.highest - self.memory.pinned) // self.unit + 1 if self.highest >= self.memory.pinned else 1

    @property
    def root(self) -> Float32:
        """float32[width]: minimum forward compute of the whole chain for each number of slots."""
        begin = (len(self.chain) - 1) * self.width
        return self.entries[begin : begin + self.width]

    def points(self) -> Int64:
        """Return the numbers of slots, ascending, for which the minimum cost is lower than with one slot less."""
        finite = np.flatnonzero(np.isfinite(self.root))
        costs = self.root[finite]
        return finite[np.flatnonzero(np.diff(costs, prepend=np.inf) < 0)] if finite.size else finite

    def place(self, limit: int) -> int:
        """Return the number of slots that fit in a limit; negative if the outputs alone exceed the limit."""
        return min((limit - self.memory.pinned) // self.unit, self.width - 1)

    def bound(self, limit: int) -> int | None:
        """Return the minimum compute within a limit, or None; this is a lower bound if bytes are rounded down."""
        place = self.place(limit)
        if place < 0 or not np.isfinite(self.root[place]):
            return None
        cost = float(self.root[place])
        # Costs of 2**23 and more may be inexact. For k stages, at most 2 * k operations round, each at most 3 times.
        if cost >= 2**23:
            cost *= max(0.0, 1 - 6 * (len(self.chain) + 1) * 2.0**-24)
        return int(cost) * self.costs.unit + self.costs.fixed

    def candidate(self, slots: int, clock: Clock) -> Candidate | None:
        """Return the optimum for a number of slots. If the schedule is too long, record it as skipped; return None."""
        arrays = np.array(self.memory.arrays)
        most = tuning.MAX_SCHEDULE_STEPS
        codes = operations(self.entries, self.width, self.costs.columns, arrays, self.unit, self.up, slots, most)
        if codes is None:
            clock.skipped["too long"] += 1
            return None
        schedule = self.chain.schedule(zip((codes % 4).tolist(), (codes // 4).tolist(), strict=True))
        promise = int(slots) * self.unit + self.memory.pinned
        details: dict[str, Any] = {"stages": len(self.chain), "promise": promise, "slot": self.unit}
        if self.objective is not None:
            runs = codes[codes % 4 != BACKWARD]
            value = int(self.costs.columns[runs % 4, runs // 4].sum()) * self.costs.unit
            details |= {"objective": self.objective.name, "objective_value": value}
            # Float32 sums are exact below 2**24 units.
            if self.exact and value < 2**24 * self.costs.unit:
                details["objective_error"] = 0
        return Candidate(schedule, details)


def _default_slots(k: int) -> int:
    return int(np.clip(6 * tuning.CHAIN_WORK // max(1, k) ** 3, tuning.MIN_SLOTS, tuning.MAX_SLOTS))


def _unit(memory: StageMemory, free: int, slots: int) -> int:
    """Return the bytes per slot: the common divisor of all sizes, or more if it would give more than `slots` slots."""
    return memory.unit if free // memory.unit <= slots else -(-free // slots)


def _bound(chain: ChainStages, table: ChainTable, limit: int, clock: Clock) -> int | None:
    lower = chain.lower
    if not (table.unit == lower.unit == table.memory.unit and table.memory.same_as(lower)):
        table = ChainTable.of(chain, lower, limit, None, clock, unit=table.unit, up=False)
    return table.bound(limit)


def _frontier(table: ChainTable, clock: Clock) -> Iterator[Candidate]:
    """Yield the optimum for each number of slots, in the order of `coarse_first`; stop early if schedules are long."""
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
    """Yield the optimum for a limit, then others. Schedules for more slots may still fit when they are simulated."""
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
