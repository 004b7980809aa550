"""Checkmate: the optimum for a fixed order of nodes, by integer programming."""

from collections.abc import Iterator
from contextlib import suppress
from math import gcd
from typing import Any

import numpy as np

from remat_algos.bounds import integer_program
from remat_algos.bounds.integer_program import CONSTANTS, FREE, ONE, ZERO, ProgramRows, solve_integer_program
from remat_algos.bounds.memory import least_peak_bound
from remat_algos.bounds.tuning import UNITS_OF_PASS
from remat_algos.context import Clock, OutOfTime
from remat_algos.errors import ArgumentError
from remat_algos.ir.arrays import LARGEST_SUM, Int32, is_count
from remat_algos.ir.graph import ComputationGraph, changeable_reads, runs_once
from remat_algos.ir.parts import RECOMPUTE
from remat_algos.schedule.constraints import Constraints
from remat_algos.schedule.one_pass import lowest_pass
from remat_algos.schedule.schedule import emit
from remat_algos.solvers import tuning
from remat_algos.solvers.registry import Candidate, Details, Rows, Task, evaluated, solver
from remat_algos.wording import counted

SCOPE = "fixed order"
# Indices of variables that `solve` sets: the limit on the peak, and a number subtracted from the limits of regions.
LIMIT, SPARE = 2, 3
VARIABLES = len(CONSTANTS) + 2


def few_nodes(graph: ComputationGraph) -> str | None:
    """Return the reason to refuse a graph, or None. Graphs with recompute marks or too many nodes are refused."""
    if graph.mark is not None and (graph.mark[graph.needed] == RECOMPUTE).any():
        return "it does not serve graphs with recompute marks; remove them, or name another solver"
    n_nodes = int(graph.needed.sum())
    if n_nodes > tuning.MILP_NODES:
        most = tuning.MILP_NODES
        return f"the graph has {n_nodes:,} needed nodes, too many for an integer program; {most} is the maximum"
    return None


def program_rows(graph: ComputationGraph, details: Details) -> Rows:
    """Yield the row of a plan's text report about the integer program."""
    size, gap = details.get("variables"), details.get("mip_gap")
    if is_count(size) and isinstance(gap, float) and gap >= 0:
        proof = "solved" if gap <= tuning.EXACT_SHARE else f"stopped at a gap of {100 * gap:.2g} %"
        yield "program", f"{counted(size, 'variable')}, {proof}; optimal in the order of the graph only"


@solver(paper="jain2020", needs=few_nodes, optimal_in=SCOPE, portfolio=False, describe=program_rows)
def milp(graph: ComputationGraph, task: Task, clock: Clock, *, mip_gap: float = 0.0) -> Iterator[Candidate]:
    """Solve the integer program of Checkmate: the optimum among schedules that keep the order of the nodes.

    In stage t, a schedule recomputes any of the nodes before node t, in their order, and then runs node t for the first
    time. This solver is for reference and teaching: `live_set_search` is faster, and its optimum is over all orders.

    If no schedule fits the limit, the solver searches for the minimum peak, and then for the minimum compute at this
    peak. Without a limit, it searches for the whole frontier, one limit after another. Constraints on runs and regions
    become rows of the program.

    Parameters
    ----------
    mip_gap : float
        Relative gap between the best schedule and the bound at which the search may stop.

    References
    ----------
    jain2020, section 4.
    """
    if isinstance(mip_gap, bool) or not isinstance(mip_gap, int | float) or not 0 <= mip_gap < 1:
        raise ArgumentError("mip_gap is {mip_gap!r}; give a number from 0 to below 1, such as 0.01", mip_gap=mip_gap)
    programs = _Programs(graph, task.constraints, clock, mip_gap)
    yield programs.first
    if task.limit is None:
        yield from programs.frontier()
    else:
        yield from programs.within(task.limit)


class _Programs:
    def __init__(self, graph: ComputationGraph, constraints: Constraints | None, clock: Clock, gap: float) -> None:
        self.graph = graph
        self.clock = clock
        self.gap = max(tuning.EXACT_SHARE, float(gap))
        self.first = evaluated(graph, lowest_pass(graph, beam=0), {"one_pass": True})
        self.floor = least_peak_bound(graph)[0]
        self.constraints = constraints
        self.program = _StageProgram(graph, self.first.schedule.order, constraints, self.first.figures[0])
        self._report(part=0.1)

    def within(self, limit: int) -> Iterator[Candidate]:
        """Yield the optimum within a limit; if nothing fits, the optimum at the minimum peak."""
        candidate = self._cheapest(limit)
        if candidate is None and (peak := self._lowest()) is not None:
            candidate = self._cheapest(peak, bounded=False)
        if candidate is not None:
            yield candidate

    def frontier(self) -> Iterator[Candidate]:
        """Yield optima for decreasing limits. Each limit is the peak of the previous optimum minus 1."""
        limit = self.first.figures[0] - 1 if self._allows(self.first) else LARGEST_SUM
        while True:
            candidate = self._cheapest(limit, bounded=False)
            if candidate is None:
                return
            yield candidate
            limit = candidate.figures[0] - 1

    def _cheapest(self, limit: int, bounded: bool = True) -> Candidate | None:
        one_pass = self.graph.needed_compute
        if self.first.figures[0] <= limit and self._allows(self.first):
            candidate, gap = self.first, 0.0
            bound = one_pass
        elif limit < self.floor or limit <= 0 or not self.program.runs:
            return None
        else:
            result, bound = self._solve(limit)
            if result.x is None:
                return None
            candidate, gap = self._candidate(result), float(result.mip_gap)
            # HiGHS may violate a row by its tolerance. If a limit is exceeded, solve again with lower limits.
            if candidate.figures[0] > limit or not self._allows(candidate):
                result, _ = self._solve(limit, int(np.ceil(tuning.PROGRAM_SLACK * self.program.top)))
                candidate = candidate if result.x is None else self._candidate(result)
        details = {"variables": self.program.n_columns, "mip_gap": gap}
        known = bounded and candidate.figures[0] <= limit and self._allows(candidate)
        return Candidate(
            candidate.schedule,
            details,
            bound if known else None,
            SCOPE if known else None,
            simulation=candidate.simulation,
        )

    def _allows(self, candidate: Candidate) -> bool:
        rules, simulation = self.constraints, candidate.simulation
        return rules is None or (simulation is not None and rules.violation(simulation) is None)

    def _solve(self, limit: int, slack: int = 0) -> tuple[Any, int]:
        """Return the result of HiGHS and the bound on compute that it proves; limits are lowered by `slack` bytes."""
        program, one_pass = self.program, self.graph.needed_compute
        unit, margin = integer_program.objective_unit(program.cost, one_pass)
        result = program.solve(
            program.cost / unit, (limit - slack) / program.top, slack / program.top, self._seconds(), self.gap
        )
        self._report()
        return result, one_pass + integer_program.proven(result, unit, margin, gcd(*program.cost.tolist()))

    def _lowest(self) -> int | None:
        """Return the minimum peak over all schedules that keep the order; at the deadline, the lowest peak reached."""
        program = self.program
        if not program.runs:
            return self.first.figures[0]
        cost = np.where(np.arange(program.cost.size) == LIMIT, UNITS_OF_PASS, 0.0)
        result = program.solve(cost, FREE, 0.0, self._seconds())
        self._report()
        return None if result.x is None else self._candidate(result).figures[0]

    def _candidate(self, result: Any) -> Candidate:
        return evaluated(self.graph, emit(self.graph, self.program.order(result.x)))

    def _seconds(self) -> float | None:
        self.clock.check()
        return self.clock.left

    def _report(self, part: float = 0.5) -> None:
        """Report one finished step as progress, and ignore the deadline: a finished schedule is still yielded."""
        self.clock.stage(1, "integer programs", part=part)
        with suppress(OutOfTime):
            self.clock.progress(1)


class _StageProgram:
    """The variables R, S, L and rows of the integer program (docs/theory/fixed_order.md), by positions in the order.

    All bytes are divided by `top`, the peak of one pass. Outputs, and values that no node reads, have no variables.
    `pinned` and `pinned_in` are the bytes of the outputs of the nodes before each position, in total and in each
    region. `own` is the number of bytes that a run allocates. `last_stage` is the last stage that may recompute each
    node. `run_limits` is 0 for nodes without a limit; `region` is -1 for nodes outside all regions.
    """

    def __init__(self, graph: ComputationGraph, order: Int32, constraints: Constraints | None, top: int) -> None:
        rules, nodes, single = constraints or Constraints(graph), order.tolist(), runs_once(graph)
        self.nodes, self.top = order, max(1, top)
        self.reads = [[x for x in graph.reads(v) if not graph.output[x]] for v in nodes]
        read = set[int]().union(*self.reads)
        self.values = [[x for x in graph.values(v) if x in read] for v in nodes]
        self.sizes = {x: int(graph.memory[x]) for own in self.values for x in own}
        self.readers = {x: [k for k, own in enumerate(self.reads) if x in own] for x in self.sizes}
        self.producer = {x: k for k, own in enumerate(self.values) for x in own}
        self.own = (graph.node_memory + graph.workspace)[order].tolist()
        self.compute = graph.compute[order].tolist()
        last = _last_reads(graph, order)
        self.last_stage = [last[k] if self.values[k] and not single[v] else -1 for k, v in enumerate(nodes)]
        self.run_limits = rules.run_limit[order].tolist()
        self.region, self.region_limits = rules.region[order].tolist(), rules.region_limit.tolist()
        outputs = [sum(int(graph.memory[x]) for x in graph.values(v) if graph.output[x]) for v in nodes]
        self.pinned = np.cumsum([0, *outputs]).tolist()
        self.pinned_in = [
            np.cumsum([0, *np.where(np.equal(self.region, r), outputs, 0)]).tolist()
            for r in range(len(self.region_limits))
        ]
        self.rows = ProgramRows()
        self.costs, self.whole_ones = [0] * VARIABLES, [False] * VARIABLES
        self.runs: dict[tuple[int, int], int] = {}  # (t, k) -> R[t, k]
        live: dict[int, int] = {}  # x -> S[t, x]
        for t in range(order.size):
            live = self._stage(t, live)
        self._limit_runs()
        self.cost = np.array(self.costs, np.int64)
        self.whole = np.array(self.whole_ones, bool)

    @property
    def n_columns(self) -> int:
        return len(self.costs) - VARIABLES

    def solve(
        self, cost: Any, peak: float, slack: float, seconds: float | None, gap: float = tuning.EXACT_SHARE
    ) -> Any:
        """Minimize a cost within a limit on the peak (`FREE`: no limit); limits of regions are lowered by `slack`."""
        state = np.full(self.cost.size, FREE, float)
        state[[ZERO, ONE, LIMIT, SPARE]] = 0.0, 1.0, peak, slack
        return solve_integer_program(cost, self.rows, state, whole=self.whole, seconds=seconds, gap=gap)

    def order(self, solution: Any) -> Int32:
        again: list[list[int]] = [[] for _ in self.reads]
        for (t, k), variable in self.runs.items():
            if solution[variable] > 0.5:
                again[t].append(k)
        return self.nodes[[k for t, before in enumerate(again) for k in [*before, t]]]

    def _variable(self, cost: int = 0, whole: bool = False) -> int:
        self.costs.append(cost)
        self.whole_ones.append(whole)
        return len(self.costs) - 1

    def _stage(self, t: int, live: dict[int, int]) -> dict[int, int]:
        again = {k: self._variable(self.compute[k], whole=True) for k in range(t) if t <= self.last_stage[k]}
        self.runs |= {(t, k): variable for k, variable in again.items()}
        run = again | {t: ONE}
        made = [x for k in range(t + 1) for x in self.values[k]]
        then = {x: self._variable(whole=True) for x in made} if t + 1 < len(self.reads) else {}
        bytes_of: dict[int, list[tuple[int, float]]] = {k: [] for k in run}
        producers = dict[int, int]()  # variable -> producer of value
        for x in made:
            producer, size = self.producer[x], self.sizes[x] / self.top
            begin, runs, end = live.get(x, ZERO), run.get(producer, ZERO), then.get(x, ZERO)
            producers |= {begin: producer, end: producer}
            if producer < t:
                # If the stage recomputes the producer, the value need not be live at the start.
                self.rows.add_row([(begin, 1), (runs, 1)], high=1)
            source: list[tuple[int, float]] = [(begin, 1), (runs, 1)]
            bytes_of |= {k: [*bytes_of[k], (begin, size)] for k in run if k <= producer}
            last = producer
            for k in run:
                if k in self.readers[x]:
                    read = self._variable()
                    producers[read] = producer
                    self.rows.add_row([*source, (read, -1)], low=0)
                    self.rows.add_row([(read, 1), (run[k], -1)], low=0)
                    bytes_of |= {j: [*bytes_of[j], (read, size)] for j in run if last < j <= k}
                    source, last = [(read, 1)], k
            self.rows.add_row([*source, (end, -1)], low=0)
            bytes_of |= {k: [*bytes_of[k], (end, size)] for k in run if k > last}
        for k in run:
            own = self.own[k] / self.top
            self.rows.add_row([*bytes_of[k], (run[k], own), (LIMIT, -1)], high=-self.pinned[t] / self.top)
            for region, limit in enumerate(self.region_limits):
                inside = [(c, size) for c, size in bytes_of[k] if c != ZERO and self._in(region, producers[c])]
                here = own if self._in(region, k) else 0
                most = (limit - self.pinned_in[region][t]) / self.top
                self.rows.add_row([*inside, (run[k], here), (SPARE, 1)], high=most)
        return then

    def _in(self, region: int, place: int) -> bool:
        return self.region[place] == region

    def _limit_runs(self) -> None:
        for place, limit in enumerate(self.run_limits):
            if limit:
                again = [(variable, 1.0) for (_, k), variable in self.runs.items() if k == place]
                self.rows.add_row([(ONE, 1.0), *again], high=limit)


def _last_reads(graph: ComputationGraph, order: Int32) -> list[int]:
    """Return the last stage in which each node may run. A node must run before every update of a parameter it reads."""
    last = [order.size] * order.size
    if graph.updates.any():
        place = {v: k for k, v in enumerate(order.tolist())}
        pairs = [(v, p) for v, p in zip(*map(np.ndarray.tolist, changeable_reads(graph)), strict=True) if v in place]
        for v, parameter in pairs:
            updates = [place[u] for u, other in pairs if other == parameter and graph.updates[u]]
            last[place[v]] = min([last[place[v]], *updates])
    return last
