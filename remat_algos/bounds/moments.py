"""Moment bound: a lower bound on compute from the live values at one to four moments, by an integer program.

A moment is the first run of a chosen node. Moments divide a schedule into windows. A span is one window, or several
consecutive windows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, pairwise
from math import gcd, inf
from typing import Any

import numpy as np

from remat_algos.bounds import integer_program, tuning
from remat_algos.bounds.bound import COMPUTE, TIME, LowerBound, check_moment
from remat_algos.bounds.integer_program import CONSTANTS, FREE, ONE, ZERO, ProgramRows
from remat_algos.bounds.memory import forced_bytes
from remat_algos.context import Clock, Stopwatch
from remat_algos.cost.links import LinkTimes
from remat_algos.errors import ArgumentError
from remat_algos.ir.arrays import Bool, Int8, Int64, row_of
from remat_algos.ir.graph import ComputationGraph, runs_once
from remat_algos.structure.reachability import ancestors, compute_up_to, descendants, reached

# Maximum number of programs and relaxations that are solved to add one moment.
PROGRAMS = 1 + tuning.FORCING + tuning.SPREAD + tuning.BY_RELAXATION + tuning.BY_BYTES + tuning.RETRIED


def moment_bound(
    graph: ComputationGraph,
    limit: int,
    nodes: Sequence[int],
    *,
    times: LinkTimes | None = None,
    seconds: float | None = None,
) -> LowerBound:
    """Return a lower bound on compute from the values live at the first runs of one to four nodes, the moments.

    0/1 variables mark the values live at each moment, and the nodes that run in each window between moments. A value
    that is read in a window, or is live at its end, was live at its start or is computed in the window. The bytes live
    at each moment are within the limit. The program ignores the memory within a window, and second runs of a node in
    the same window. Both can only lower the bound, so the bound holds for any order and any number of runs.

    Each node must be an ancestor of the next. With `times`, the bound is on the time of plans that may also copy values
    to the host and back. HiGHS stops after `seconds`, and its dual bound at that time is used; HiGHS cannot be
    interrupted earlier.
    """
    return _Program(graph, limit, _chain(graph, nodes), times).bound(seconds)


def choose_moments(
    graph: ComputationGraph,
    limit: int,
    first: int,
    *,
    times: LinkTimes | None = None,
    count: int = tuning.MAX_MOMENTS,
    seconds: float = inf,
    clock: Clock | None = None,
) -> Iterator[LowerBound]:
    """Add moments one at a time, each time the moment that raises the bound most; yield each better bound.

    `first` is the node that proves the closure bound. The next moment is an ancestor or descendant of all current
    nodes. Candidates are ranked by their linear relaxation. The relaxation alone ranks poorly, so the integer program
    is also solved for some candidates with the most forced bytes. `seconds` is CPU time of this thread, so results
    depend little on the load of the machine. `clock` advances by one per program.
    """
    choice = _MomentChoice(graph, limit, seconds, clock or Clock(), times)
    best, _ = choice.solved([first], tuning.FIRST_PROGRAM_SECONDS)
    yield best
    while len(best.nodes) < count and not best.infeasible and (len(best.nodes) > 1 or not best.stopped):
        base = best
        for bound in choice.longer(base):
            if bound.infeasible or bound.amount > best.amount:
                best = bound
                yield best
            if best.infeasible:
                return
        gain = best.amount - base.amount
        if not gain or gain < tuning.MIN_GAIN * (base.amount - graph.needed_compute):
            return


@dataclass(slots=True, eq=False)
class _MomentChoice:
    """Selects further moments within `seconds` of CPU time; nodes in `idle` did not raise the first relaxation."""

    graph: ComputationGraph
    limit: int
    seconds: float
    clock: Clock
    times: LinkTimes | None = None
    idle: set[int] = field(default_factory=set)
    stopwatch: Stopwatch = field(default_factory=Stopwatch)

    def solved(self, nodes: Sequence[int], most: float, whole: bool = True) -> tuple[LowerBound, float]:
        """Solve a program or its relaxation in at most `most` seconds; return bounds below and above its optimum."""
        self.clock.advance(1)
        program = _Program(self.graph, self.limit, sorted(nodes), self.times)
        return program.bound(self._seconds(most), whole), program.above

    @property
    def late(self) -> bool:
        return self.clock.late or self.stopwatch.spent >= self.seconds

    def _seconds(self, most: float) -> float:
        """Convert `most` seconds of CPU time to a wall-clock limit, which is longer if other processes use the core."""
        spent, passed = self.stopwatch.spent, self.stopwatch.passed
        share = max(tuning.MIN_SHARE, min(1.0, spent / passed)) if passed > tuning.FEW_SECONDS else 1.0
        most = max(0.0, min(most, self.seconds - spent)) / share
        return most if self.clock.left is None else min(most, self.clock.left)

    def longer(self, base: LowerBound) -> Iterator[LowerBound]:
        """Yield bounds with one more moment. The best programs that are not solved in a short time get more time."""
        best = base.amount
        stopped: list[tuple[float, float, tuple[int, ...]]] = []
        for chain in self.promising(base):
            if self.late:
                return
            bound, above = self.solved(chain, tuning.SHORT_SECONDS)
            yield bound
            best = max(best, bound.amount)
            if bound.stopped:
                stopped.append((bound.amount, above, bound.nodes))
        for _, above, nodes in sorted(stopped, reverse=True)[: tuning.RETRIED]:
            if self.late:
                return
            if above > best:
                bound, _ = self.solved(nodes, tuning.LONG_SECONDS)
                yield bound
                best = max(best, bound.amount)

    def promising(self, base: LowerBound) -> list[tuple[int, ...]]:
        """Return the current moments with one more node each, for the nodes that are worth an integer program."""
        graph = self.graph
        comparable = np.ones(graph.n_nodes, bool)
        for v in base.nodes:
            comparable &= ancestors(graph, v) | descendants(graph, v)
        comparable[list(base.nodes)] = False
        nodes = np.flatnonzero(comparable)
        forcing = nodes[np.argsort(-forced_bytes(graph)[nodes], kind="stable")][: tuning.FORCING]
        spread = nodes[np.unique(np.linspace(0, max(0, nodes.size - 1), min(tuning.SPREAD, nodes.size)).astype(int))]
        relaxed: dict[int, LowerBound] = {}
        without, _ = self.solved(base.nodes, tuning.SHORT_SECONDS, whole=False)
        for v in dict.fromkeys([*forcing.tolist(), *spread.tolist()]):
            if self.late:
                break
            if v in self.idle:
                continue
            bound, _ = self.solved([*base.nodes, v], tuning.SHORT_SECONDS, whole=False)
            if len(base.nodes) > 1 or bound.infeasible or bound.amount > without.amount:
                relaxed[v] = bound
            else:
                self.idle.add(v)
        by_relaxation = sorted(relaxed, key=lambda v: (not relaxed[v].infeasible, -relaxed[v].amount))
        by_relaxation = by_relaxation[: tuning.BY_RELAXATION]
        by_bytes = [v for v in relaxed if v not in by_relaxation][: tuning.BY_BYTES]
        enough = without.amount + tuning.WORTH * max((relaxed[v].amount - without.amount for v in relaxed), default=0)
        worth = [v for v in by_relaxation + by_bytes if relaxed[v].infeasible or relaxed[v].amount >= enough]
        return [(*base.nodes, v) for v in worth]


def _chain(graph: ComputationGraph, nodes: Sequence[int]) -> list[int]:
    chain = [int(v) for v in nodes]
    if not 1 <= len(chain) <= tuning.MAX_MOMENTS:
        raise ArgumentError(
            "give 1 to {max_moments} moments, not {n_chain}", n_chain=len(chain), max_moments=tuning.MAX_MOMENTS
        )
    check_moment(graph, chain)
    for u, v in pairwise(chain):
        if u == v or not descendants(graph, u)[v]:
            raise ArgumentError(
                "node {u} is not an ancestor of node {v}; each node must be an ancestor of the next", u=u, v=v
            )
    return chain


class _Variables:
    """Indices of the variables for a chain of moments; variables 0 and 1 are the constants `ZERO` and `ONE`.

    For two moments, the first runs of nodes u and v::

        start          moment 1: u            moment 2: v              end
          |                 |                      |                    |
          |-- runs[0, 1] ---|----- runs[1, 2] -----|---- runs[2, 3] ----|   node runs within the window, int64[n]
          |                 |----------------- runs[1, 3] --------------|   node runs in one window of the span
          |             live[1]                live[2]                  |   value is live at the moment, int64[n_values]
          |            loaded[1]              loaded[2]                 |   value is on the host, and loaded later
          |             kept[1]                kept[2]                  |   live or loaded later
          |---- waits[0] ---|------ waits[1] ------|----- waits[2] -----|   time without a run, not 0/1

    All variables except `waits` are 0 or 1. Only the values in `leaving` may be copied over the link; for all other
    values, `kept` is the same variable as `live`. Without a link there are no waits. `kept[0]` is `ZERO`, since no
    value is live at the start. `windows`, int64[windows, n], stacks the runs of all windows.
    """

    def __init__(self, graph: ComputationGraph, count: int, times: LinkTimes | None) -> None:
        self.size = len(CONSTANTS)
        self.leaving = np.flatnonzero(times.leaving(graph)) if times else np.zeros(0, np.int64)
        moments = range(1, count + 1)
        spans = [(0, 1), *combinations(range(1, count + 2), 2)]
        self.runs = {span: self._new(graph.n_nodes) for span in spans}
        self.windows = np.array([self.runs[window] for window in pairwise(range(count + 2))])
        self.live = {w: self._new(graph.n_values) for w in moments}
        self.loaded = {w: self._new(self.leaving.size) for w in moments}
        self.kept = {0: np.full(graph.n_values, ZERO)} | {w: self.live[w].copy() for w in moments}
        for w in moments:
            self.kept[w][self.leaving] = self._new(self.leaving.size)
        self.waits = self._new(count + 1 if times else 0)

    def _new(self, count: int) -> Int64:
        self.size += count
        return np.arange(self.size - count, self.size)


class _Program:
    """The integer program for a chain of moments, over `_Variables`.

    Each row is a clause `one or other or not cause`, except the rows for bytes, for nodes that run once, and for the
    link. Before a solver runs, unit propagation fixes the variables that the clauses determine, without float errors.
    The `state` of a variable is 0, 1 or `FREE`.
    """

    def __init__(
        self, graph: ComputationGraph, limit: int, chain: Sequence[int], times: LinkTimes | None = None
    ) -> None:
        self.graph, self.limit, self.times, self.moments = graph, int(limit), times, dict(enumerate(chain, 1))
        self.variables = _Variables(graph, len(chain), times)
        self.past = {w: ancestors(graph, v) for w, v in self.moments.items()}
        self.future = {w: descendants(graph, v) for w, v in self.moments.items()}
        for w, v in self.moments.items():
            self.future[w][v] = False
        # The end of the schedule counts as one more moment.
        self.past[len(chain) + 1] = graph.needed
        self.repeatable = _repeatable(graph)
        # In each column, at most one variable may be 1.
        self.single_runs = self.variables.windows[:, ~self.repeatable & graph.needed]
        self.above = inf  # upper bound on the optimum
        self.state: Int8 = np.full(self.variables.size, FREE, np.int8)
        self._fix()
        self.clauses = np.concatenate(
            [np.array(np.broadcast_arrays(*rows)) for rows in self._clauses()], axis=1, dtype=np.int64
        )
        self.possible = self._propagate()
        if self.possible:
            self._drop_unwanted()
        # For each moment, `starts` are the start times that have a row: stores that cannot begin earlier must fit
        # between the start time and the moment. `begin` is the earliest time at which each value can be stored.
        self.starts = {w: [0] for w in self.moments}
        self.begin = dict[int, Int64]()
        if times:
            within = graph.needed & ~self.future[len(chain)]
            begin = compute_up_to(graph, within)[graph.producer[self.variables.leaving]]
            for w, v in self.moments.items():
                self.begin[w] = np.minimum(begin, int(graph.compute[self.past[w]].sum() - graph.compute[v]))

    def _fix(self) -> None:
        graph, state, producer, at = self.graph, self.state, self.graph.producer, self.variables
        state[[ZERO, ONE]] = ZERO, ONE
        for runs in at.runs.values():
            state[runs[~graph.needed]] = 0
        state[at.runs[0, 1][self.past[1]]] = 1
        for w, v in self.moments.items():
            past, future, live = self.past[w], self.future[w], at.live[w]
            state[at.windows[w - 1][future]] = 0
            state[at.windows[w][past & ~self.repeatable]] = 0
            for end in range(w + 1, len(self.moments) + 2):
                state[at.runs[w, end][future & self.past[end]]] = 1
            state[live[future[producer] | ~graph.needed[producer]]] = 0
            state[live[graph.output & past[producer]]] = 1
            state[live[graph.reads(v)]] = 1
            state[live[graph.value_indptr[v] : graph.value_indptr[v + 1]]] = 1
            state[at.loaded[w][future[producer[at.leaving]] | (state[live[at.leaving]] == 1)]] = 0

    def _clauses(self) -> Iterator[tuple[Any, Any, Any]]:
        """Yield arrays (one, other, cause) of clauses `one or other or not cause`; the arrays broadcast."""
        graph, at, producer = self.graph, self.variables, self.graph.producer
        reader = row_of(graph.read_indptr, np.int32)
        needed = graph.needed[reader]
        reader, read = reader[needed], graph.read_indices[needed]
        outputs = np.flatnonzero(graph.output)
        # An output stays live once it is computed.
        for w in self.moments:
            if w > 1:
                yield at.live[w][outputs], ZERO, at.live[w - 1][outputs]
            yield at.live[w][outputs], ZERO, at.windows[w - 1][producer[outputs]]
        # A kept value is live or loaded later.
        for w in self.moments:
            yield at.live[w][at.leaving], at.loaded[w], at.kept[w][at.leaving]
        for (a, b), runs in at.runs.items():
            # A value that is read in the span, or kept at its end, is kept at its start or computed in the span.
            yield at.kept[a][read], runs[producer[read]], runs[reader]
            if b in at.kept:
                yield at.kept[a], runs[producer], at.kept[b]
            # A node runs in a span if and only if it runs in one of its parts.
            for middle in range(a + 1, b):
                parts = at.runs[a, middle], at.runs[middle, b]
                yield *parts, runs
                for part in parts:
                    yield runs, ZERO, part
            # The ancestors of a later moment run before the first moment or within the span.
            if a == 1:
                due = self.past[b]
                yield at.runs[0, 1][due], runs[due], ONE

    def _propagate(self) -> bool:
        """Fix variables by unit propagation and drop satisfied clauses; return False if no schedule fits."""
        graph, state = self.graph, self.state
        runs = self.single_runs
        while True:
            one, other, cause = (state[columns] for columns in self.clauses)
            open_rows = (one != 1) & (other != 1) & (cause != 0) & (self.clauses[0] != self.clauses[2])
            self.clauses = clauses = self.clauses[:, open_rows]
            one, other, cause = one[open_rows], other[open_rows], cause[open_rows]
            if ((one == 0) & (other == 0) & (cause == 1)).any():
                return False
            before = int((state == FREE).sum())
            state[clauses[0][(one == FREE) & (other == 0) & (cause == 1)]] = 1
            state[clauses[1][(one == 0) & (other == FREE) & (cause == 1)]] = 1
            state[clauses[2][(one == 0) & (other == 0) & (cause == FREE)]] = 0
            n_runs = (state[runs] == 1).sum(axis=0)
            if (n_runs > 1).any():
                return False
            spent = runs[:, n_runs == 1]
            state[spent[state[spent] == FREE]] = 0
            for w in self.moments:
                slack = self._slack(w)
                if slack < 0:
                    return False
                live = self.variables.live[w]
                state[live[(state[live] == FREE) & (graph.memory > slack)]] = 0
            if int((state == FREE).sum()) == before:
                return True

    def _slack(self, w: int) -> int:
        forced = self.graph.memory[self.state[self.variables.live[w]] == 1]
        return self.limit - int(self.graph.workspace[self.moments[w]]) - int(forced.sum())

    def _drop_unwanted(self) -> None:
        """Fix to 0 each variable that no row can force to be 1; this never violates a row or raises the objective."""
        causes = np.where(self.state[self.clauses[2]] == 1, ONE, self.clauses[2])
        required = reached(np.tile(causes, 2), self.clauses[:2].ravel(), self.state.size, ONE)
        required[self.variables.waits] = True
        self.state[(self.state == FREE) & ~required] = 0
        self.clauses = self.clauses[:, self.state[self.clauses[2]] != 0]

    def bound(self, seconds: float | None, whole: bool = True) -> LowerBound:
        graph, state, at, needed = self.graph, self.state, self.variables, self.graph.needed_compute
        base = LowerBound(needed, tuple(self.moments.values()), of=TIME if self.times else COMPUTE)
        if not self.possible:
            return replace(base, infeasible=True)
        cost, most = np.zeros(state.size, np.int64), np.ones(state.size)
        cost[at.windows], most[at.waits] = graph.compute, np.inf
        fixed, is_wait, free = int(cost[state == ONE].sum()) - needed, np.isinf(most), state == FREE
        costs = graph.compute[self.repeatable & (graph.compute > 0)]
        step = self.times.divisor(graph) if self.times else gcd(*costs.tolist())
        unit, margin = integer_program.objective_unit(cost[free], needed)
        if not free.any() or seconds == 0:
            lower = integer_program.proven(None, unit, margin, step, fixed=fixed)
            return replace(base, amount=needed + lower, stopped=bool(free.any()))
        stopwatch = Stopwatch()

        def solved(whole: bool) -> Any:
            return integer_program.solve_integer_program(
                np.where(is_wait, 1.0, cost / unit),
                self._rows(unit),
                state,
                whole=whole and ~is_wait,
                most=most,
                seconds=None if seconds is None else max(0.0, seconds - stopwatch.passed),
            )

        if self.times is not None:
            for _ in range(tuning.LATE_STARTS):
                result = solved(False)
                if result.x is None or not self._late_starts(self.times, unit, result.x):
                    break
        result = solved(whole)
        if result.status == integer_program.INFEASIBLE:
            # HiGHS proves infeasibility only up to float errors, so the proof is not used.
            return replace(base, stopped=True)
        if result.x is not None:
            self.above = needed + fixed + result.fun * unit
        lower = integer_program.proven(result, unit, margin, step, fixed=fixed, whole=whole)
        return replace(base, amount=needed + lower, stopped=result.status != integer_program.SOLVED)

    def _rows(self, unit: float) -> ProgramRows:
        rows, at, compute, state = ProgramRows(), self.variables, self.graph.compute, self.state
        rows.add(self.clauses, np.array([1.0, 1.0, -1.0]), low=0.0)
        # The values live at each moment fit in the limit.
        for w, live in at.live.items():
            free = state[live] == FREE
            for amounts in _rows_of_bytes(self.graph.memory[free], self._slack(w)):
                rows.add(live[free, np.newaxis], amounts, high=1 + tuning.MARGIN)
        several = self.single_runs[:, (state[self.single_runs] == FREE).sum(axis=0) > 1]
        rows.add(several, np.ones(len(several)), high=1.0)
        if self.times is None:
            return rows

        def copied(side: slice, w: int, times: Int64, least: int) -> None:
            """Require that compute and waits on one side of a moment last at least as long as the copies there."""
            runs, waits = at.windows[side], at.waits[side]
            amounts = np.concatenate([np.tile(compute, len(runs)), np.full(waits.size, unit), -times])
            terms = np.concatenate([runs.ravel(), waits, at.loaded[w]])
            rows.add(terms[:, np.newaxis], amounts, low=least, unit=unit)

        out, into = (times[at.leaving] for times in self.times)
        for w, v in self.moments.items():
            # Values that cannot be computed before a start time are stored between it and the moment.
            for start in self.starts[w]:
                copied(slice(w), w, np.where(self.begin[w] >= start, out, 0), start + int(compute[v]))
            copied(slice(w, None), w, into, 0)
        return rows

    def _late_starts(self, times: LinkTimes, unit: float, x: Any) -> bool:
        """For each moment, add the start time whose row is violated most; return False if no row is violated."""
        at, added = self.variables, False
        for w, v in self.moments.items():
            runs, waits = x[at.windows[:w]], x[at.waits[:w]]
            before = float((runs @ self.graph.compute).sum() + unit * waits.sum()) - int(self.graph.compute[v])
            loaded = np.flatnonzero(x[at.loaded[w]] > 0)
            copied = x[at.loaded[w]][loaded] * times.out_time[at.leaving][loaded]
            end, start = latest_store(self.begin[w][loaded], copied)
            if end - before > tuning.TOLERANCE * self.graph.needed_compute:
                self.starts[w].append(start)
                added = True
        return added


def latest_store(begin: Int64, copied: Any) -> tuple[float, int]:
    """Return (end, begin) of the last store, if each value is stored at `begin` or later and copies do not overlap."""
    order = np.argsort(-begin, kind="stable")
    ends = begin[order] + np.cumsum(copied[order])
    return (ends.max(), int(begin[order[ends.argmax()]])) if order.size else (0.0, 0)


def _rows_of_bytes(memory: Int64, slack: int) -> Iterator[Any]:
    """Yield the coefficients, float64[k], of rows that limit the live bytes to `slack`; the right side is 1.

    The first row contains the sizes relative to the slack. For 0/1 variables, the Chvatal-Gomory cut `sum of (memory //
    unit) * live <= slack // unit` is valid for every unit. The other rows are such cuts; their units are the largest
    sizes and the common divisors of the largest sizes.
    """
    if slack <= 0:
        return
    yield memory / slack
    sizes = np.unique(memory[memory > 0])[::-1]
    divisors = np.gcd.accumulate(sizes)
    tried = set[tuple[bytes, int]]()
    coarse = divisors[divisors * tuning.FINEST > slack]
    for unit in np.unique(np.concatenate([sizes[: tuning.ROUNDED_SIZES], coarse])).tolist():
        amounts, whole = memory // unit, slack // unit
        key = amounts.tobytes(), whole
        if 0 < whole < amounts.sum() and whole * unit < slack and key not in tried:
            tried.add(key)
            yield amounts / whole


def _repeatable(graph: ComputationGraph) -> Bool:
    """Mark nodes whose recomputation may be useful, bool[n]."""
    read = np.zeros(graph.n_values, bool)
    read[graph.read_indices[graph.needed[row_of(graph.read_indptr, np.int32)]]] = True
    repeatable = np.zeros(graph.n_nodes, bool)
    repeatable[graph.producer[read & ~graph.output]] = True
    return repeatable & ~runs_once(graph) & graph.needed
