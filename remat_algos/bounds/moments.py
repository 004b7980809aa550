"""A lower bound on compute from the live sets at one to four moments, as an integer program."""

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, pairwise
from math import gcd, inf
from typing import Any

import numpy as np

from remat_algos.bounds import integer_program
from remat_algos.bounds.bound import COMPUTE, TIME, LowerBound
from remat_algos.bounds.memory import forced_bytes, runs_once
from remat_algos.context import Clock, Stopwatch
from remat_algos.cost.links import LinkTimes
from remat_algos.errors import ArgumentError
from remat_algos.ir.arrays import Bool, Int8, Int64, row_of
from remat_algos.ir.graph import ComputationGraph

MAX_MOMENTS = 4
FORCING, SPREAD = 20, 8  # candidates for the next moment: nodes that force the most bytes, and evenly spread nodes
BY_RELAXATION, BY_BYTES = 5, 3  # candidates whose integer program is solved, by either rank
FIRST_SECONDS = 2.0  # time limit of the program of one moment
SHORT_SECONDS, LONG_SECONDS = 1.0, 4.0  # time limits with more moments: first and second try
RETRIED = 1  # unsolved programs that get a second try
PROGRAMS = 1 + FORCING + SPREAD + BY_RELAXATION + BY_BYTES + RETRIED  # maximum per added moment
WORTH = 0.25  # minimum gain of a candidate's relaxation, as a share of the highest
MIN_SHARE = 0.1  # minimum CPU share assumed; the true load may be higher
FEW_SECONDS = 0.02  # too short to measure the CPU share
MIN_GAIN = 1e-3  # share of the overhead; a moment that gains less is the last
SIZES = 12  # largest values of a moment with a rounded row of bytes each
FINEST = 200  # limit / the smallest common divisor of sizes with such a row
STARTS = 8  # relaxations solved to find the rows of the link for stores that begin late
MARGIN = 1e-5
"""Share of the bytes of a row by which it is relaxed: HiGHS treats numbers that differ by 1e-6 as equal, even when it
derives other rows, and cut off a schedule of exactly the bytes of the limit on a network of 52 nodes."""
FREE = -1  # state of a variable that the graph does not fix to 0 or 1
ZERO, ONE = 0, 1  # columns of the constants


def moment_bound(
    graph: ComputationGraph,
    limit: int,
    nodes: Sequence[int],
    *,
    times: LinkTimes | None = None,
    seconds: float | None = None,
    look: Callable[[], None] | None = None,
) -> LowerBound:
    """Lower bound on compute from the values live at the first runs of one to four nodes, the moments.

    0/1 variables mark the values live at each moment, and the nodes that run in the windows between them. A value that
    a window reads, or that is live at its end, was live at its start or is computed in it; the bytes live at each
    moment are within the limit. It holds for any order and any number of runs, since the program's omissions (memory
    within a window, a second run in the same window) only lower it.

    Each node is an ancestor of the next. With link times it bounds the time of plans that may also copy values to the
    host and back. HiGHS cannot be interrupted before `seconds` are over; its bound at that time counts.
    """
    if look is not None:
        look()
    program = _Program(graph, limit, _chain(graph, nodes), times)
    return program.bound(seconds)


def choose_moments(
    graph: ComputationGraph,
    limit: int,
    first: int,
    *,
    times: LinkTimes | None = None,
    count: int = MAX_MOMENTS,
    seconds: float = inf,
    clock: Clock | None = None,
    look: Callable[[], None] | None = None,
) -> Iterator[LowerBound]:
    """Add moments one by one, each time the one that raises the bound most; yield each better bound.

    `first` is the node that proves the closure bound. Candidates are the comparable nodes that force the most bytes,
    and some evenly spread ones. The linear relaxation of each is solved, then the integer program of those with the
    highest relaxation and of some that force the most bytes, if they raise the relaxation: neither alone ranks them
    well. It ends when a moment gains little, or if the first program is not solved in time, since later ones are
    larger. `seconds` is CPU time of this thread, so results may differ between machines, but little with their load.
    """
    choice = _MomentChoice(graph, limit, seconds, clock or Clock(), look, times)
    best, _ = choice.solved([first], FIRST_SECONDS)
    yield best
    while len(best.nodes) < count and not best.infeasible and (len(best.nodes) > 1 or not best.stopped):
        base = best
        for found in choice.longer(base):
            if found.infeasible or found.amount > best.amount:
                best = found
                yield best
            if best.infeasible:
                return
        gain = best.amount - base.amount
        if not gain or gain < MIN_GAIN * (base.amount - graph.needed_compute):
            return


class _MomentChoice:
    """Choose additional moments for the bound; `seconds` is CPU time."""

    def __init__(
        self,
        graph: ComputationGraph,
        limit: int,
        seconds: float,
        clock: Clock,
        look: Callable[[], None] | None,
        times: LinkTimes | None = None,
    ) -> None:
        self.graph = graph
        self.limit = limit
        self.seconds = seconds
        self.clock = clock
        self.look = look
        self.times = times
        self.idle = set[int]()  # nodes that did not raise the relaxation of the first moment
        self.stopwatch = Stopwatch()

    def solved(self, chain: Sequence[int], most: float) -> tuple[LowerBound, float]:
        """Return the bound of a chain after at most `most` seconds, and its upper bound."""
        program = self._program(chain)
        return program.bound(self._seconds(most)), program.above

    def _program(self, chain: Sequence[int]) -> "_Program":
        if self.look is not None:
            self.look()
        return _Program(self.graph, self.limit, chain, self.times)

    @property
    def late(self) -> bool:
        return self.clock.late or self.stopwatch.spent >= self.seconds

    def _seconds(self, most: float) -> float:
        """Time limit of a program that may take `most` seconds of CPU time: longer if other processes share the CPU."""
        spent, passed = self.stopwatch.spent, self.stopwatch.passed
        share = max(MIN_SHARE, min(1.0, spent / passed)) if passed > FEW_SECONDS else 1.0
        most = max(0.0, min(most, self.seconds - spent)) / share
        return most if self.clock.left is None else min(most, self.clock.left)

    def longer(self, base: LowerBound) -> Iterator[LowerBound]:
        """Yield bounds with one more moment: a short try per candidate, then a long one for the highest."""
        best = base.amount
        stopped: list[tuple[float, float, tuple[int, ...]]] = []
        for chain in self.promising(base):
            if self.late:
                return
            bound, above = self.solved(chain, SHORT_SECONDS)
            yield bound
            best = max(best, bound.amount)
            if bound.stopped:
                stopped.append((bound.amount, above, bound.nodes))
        for _, above, nodes in sorted(stopped, reverse=True)[:RETRIED]:
            if self.late:
                return
            if above > best:
                bound, _ = self.solved(nodes, LONG_SECONDS)
                yield bound
                best = max(best, bound.amount)

    def _relaxed(self, nodes: Sequence[int]) -> LowerBound:
        return self._program(sorted(nodes)).bound(self._seconds(SHORT_SECONDS), whole=False)

    def promising(self, base: LowerBound) -> list[list[int]]:
        """Candidate lists: the current moments plus one more, those with the highest relaxed bound first."""
        graph = self.graph
        comparable = np.ones(graph.n_nodes, bool)
        for v in base.nodes:
            comparable &= ancestors(graph, v) | descendants(graph, v)
        comparable[list(base.nodes)] = False
        nodes = np.flatnonzero(comparable)
        forcing = nodes[np.argsort(-forced_bytes(graph)[nodes], kind="stable")][:FORCING]
        spread = nodes[np.unique(np.linspace(0, max(0, nodes.size - 1), min(SPREAD, nodes.size)).astype(int))]
        relaxed: dict[int, LowerBound] = {}
        without = self._relaxed(base.nodes)
        for v in dict.fromkeys([*forcing.tolist(), *spread.tolist()]):
            if self.late:
                break
            if v in self.idle:
                continue
            found = self._relaxed([*base.nodes, v])
            if len(base.nodes) > 1 or found.infeasible or found.amount > without.amount:
                relaxed[v] = found
            else:
                self.idle.add(v)
        by_relaxation = sorted(relaxed, key=lambda v: (not relaxed[v].infeasible, -relaxed[v].amount))[:BY_RELAXATION]
        by_bytes = [v for v in relaxed if v not in by_relaxation][:BY_BYTES]
        enough = without.amount + WORTH * max((relaxed[v].amount - without.amount for v in relaxed), default=0)
        worth = [v for v in by_relaxation + by_bytes if relaxed[v].infeasible or relaxed[v].amount >= enough]
        return [sorted([*base.nodes, v]) for v in worth]


def _chain(graph: ComputationGraph, nodes: Sequence[int]) -> list[int]:
    """Return the nodes as ints; ValueError unless each is needed and an ancestor of the next."""
    chain = [int(v) for v in nodes]
    if not 1 <= len(chain) <= MAX_MOMENTS:
        raise ArgumentError(
            "give 1 to {max_moments} moments, not {n_chain}", n_chain=len(chain), max_moments=MAX_MOMENTS
        )
    for v in chain:
        if not 0 <= v < graph.n_nodes or not graph.needed[v]:
            raise ArgumentError(
                "node {v} is not a needed node of the graph, so some schedules have no moment for it", v=v
            )
    for u, v in pairwise(chain):
        if u == v or not descendants(graph, u)[v]:
            raise ArgumentError(
                "node {u} is not an ancestor of node {v}; give nodes of which each is an ancestor of the next", u=u, v=v
            )
    return chain


def ancestors(graph: ComputationGraph, node: int) -> Bool:
    """bool[n]: the ancestors of a node, and the node."""
    return _reached(*graph.predecessors, node)


def descendants(graph: ComputationGraph, node: int) -> Bool:
    """bool[n]: the needed descendants of a node, and the node."""
    return _reached(*graph.successors, node) & graph.needed


def _reached(indptr: Any, indices: Any, source: int) -> Bool:
    """bool[n]: nodes that can be reached from a source in a CSR graph."""
    from scipy.sparse import csr_array  # type: ignore[import-untyped]
    from scipy.sparse.csgraph import breadth_first_order  # type: ignore[import-untyped]

    size = indptr.shape[0] - 1
    table = csr_array((np.ones(len(indices), np.int8), np.asarray(indices), np.asarray(indptr, np.int32)), (size, size))
    found = np.zeros(size, bool)
    found[breadth_first_order(table, source, return_predecessors=False)] = True
    return found


class _Program:
    """The integer program of a chain of moments.

    All rows except those of bytes, of nodes that run once and of the link are clauses `one or other or not cause` over
    0/1 variables. Their consequences are fixed, in whole numbers, before anything is solved.
    """

    def __init__(
        self, graph: ComputationGraph, limit: int, chain: Sequence[int], times: LinkTimes | None = None
    ) -> None:
        self.graph, self.limit, self.nodes, self.times = graph, int(limit), tuple(chain), times
        n, count = graph.n_nodes, len(chain)
        self.windows = range(1, count + 1)
        spans = list(combinations(range(1, count + 2), 2))
        self.before = np.arange(2, n + 2)
        self.span = {span: np.arange(n) + 2 + n * (1 + i) for i, span in enumerate(spans)}
        start = 2 + n * (1 + len(spans))
        self.live = {w: np.arange(graph.n_values) + start + graph.n_values * (w - 1) for w in self.windows}
        end = start + graph.n_values * count
        self.leaving = np.flatnonzero(times.leaving(graph)) if times else np.zeros(0, np.int64)
        size = self.leaving.size
        self.loaded = {w: np.arange(size) + end + size * (w - 1) for w in self.windows}
        self.kept = {w: live.copy() for w, live in self.live.items()}  # live, or loaded later
        self.starts = {w: [0] for w in self.windows}  # by moment: starts of stores that have a row
        for w in self.windows:
            self.kept[w][self.leaving] = self.loaded[w] + size * count
        self.state: Int8 = np.full(end + 2 * size * count, FREE, np.int8)
        self.state[[ZERO, ONE]] = ZERO, ONE
        self.past = {w: ancestors(graph, v) for w, v in zip(self.windows, chain, strict=True)}
        self.future = {w: descendants(graph, v) for w, v in zip(self.windows, chain, strict=True)}
        for w, v in zip(self.windows, chain, strict=True):
            self.future[w][v] = False
        reader = row_of(graph.read_indptr, np.int32)
        wanted = graph.needed[reader]
        self.reader, self.read = reader[wanted], graph.read_indices[wanted]
        self.repeatable = _repeatable(graph, self.read)
        self.above = inf  # upper bound: the compute of a solution
        self._fix()
        self.clauses = self._clauses()
        self.possible = self._propagate()
        if self.possible:
            self._drop_unwanted()
        if times:
            begin = compute_up_to(graph, graph.needed & ~self.future[count])[graph.producer[self.leaving]]
            self.begin = {}
            for w, v in zip(self.windows, chain, strict=True):
                past = self.past[w].copy()
                past[v] = False
                self.begin[w] = np.minimum(begin, int(graph.compute[past].sum()))

    def _runs(self, w: int) -> Int64:
        """Columns of the nodes that run in one window; window 0 reaches to the first moment."""
        return self.span[w, w + 1] if w else self.before

    def _fix(self) -> None:
        """Fix variables that are equal in every schedule."""
        graph, state, producer = self.graph, self.state, self.graph.producer
        last = len(self.nodes) + 1
        for runs in (self.before, *self.span.values()):
            state[runs[~graph.needed]] = 0
        state[self.before[self.past[1]]] = 1
        for w, v in zip(self.windows, self.nodes, strict=True):
            past, future, live = self.past[w], self.future[w], self.live[w]
            state[self._runs(w - 1)[future]] = 0
            state[self._runs(w)[past & ~self.repeatable]] = 0
            for end in range(w + 1, last + 1):
                state[self.span[w, end][future & (self.past[end] if end < last else True)]] = 1
            state[live[future[producer] | ~graph.needed[producer]]] = 0
            state[live[graph.output & past[producer]]] = 1
            state[live[graph.reads(v)]] = 1
            state[live[graph.value_indptr[v] : graph.value_indptr[v + 1]]] = 1
            state[self.loaded[w][future[producer[self.leaving]] | (state[live[self.leaving]] == 1)]] = 0

    def _clauses(self) -> Int64:
        """int64[3, rows]: columns one, other, cause of rows `one + other >= cause`."""
        graph, live, kept, span, last = self.graph, self.live, self.kept, self.span, len(self.nodes) + 1
        producer = graph.producer
        pinned = np.flatnonzero(graph.output)
        rows: list[tuple[Any, Any, Any]] = [
            (live[w + 1][pinned], ZERO, cause)
            for w in range(last - 1)
            for cause in ([live[w][pinned]] if w else []) + [self._runs(w)[producer[pinned]]]
        ]
        rows += [(live[w][self.leaving], self.loaded[w], kept[w][self.leaving]) for w in self.windows]
        rows.append((self.before[producer], ZERO, kept[1]))
        rows.append((self.before[producer[self.read]], ZERO, self.before[self.reader]))
        for a, b in span:
            rows.append((kept[a][self.read], span[a, b][producer[self.read]], span[a, b][self.reader]))
            if b < last:
                rows.append((kept[a], span[a, b][producer], kept[b]))
            for middle in range(a + 1, b):
                rows.append((span[a, middle], span[middle, b], span[a, b]))
                rows += [(span[a, b], ZERO, part) for part in (span[a, middle], span[middle, b])]
            if a == 1:  # ancestors of the moment have run by then, other needed nodes by the end
                must = np.flatnonzero(self.past[b] if b < last else graph.needed)
                rows.append((self.before[must], span[a, b][must], ONE))
        return np.concatenate([np.array(np.broadcast_arrays(*row)) for row in rows], axis=1, dtype=np.int64)

    def _propagate(self) -> bool:
        """Fix variables that the rows imply and drop clauses that always hold; False if no schedule fits."""
        graph, state = self.graph, self.state
        single = np.flatnonzero(~self.repeatable & graph.needed)
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
            runs = np.array([self._runs(w)[single] for w in range(len(self.nodes) + 1)])
            known = (state[runs] == 1).sum(axis=0)
            if (known > 1).any():
                return False
            spent = runs[:, known == 1]
            state[spent[state[spent] == FREE]] = 0
            for w, v in zip(self.windows, self.nodes, strict=True):
                slack = self._slack(w, v)
                if slack < 0:
                    return False
                live = self.live[w]
                state[live[(state[live] == FREE) & (graph.memory > slack)]] = 0
            if int((state == FREE).sum()) == before:
                return True

    def _slack(self, w: int, v: int) -> int:
        """Bytes left at a moment beside the workspace and the values that must be live."""
        forced = self.graph.memory[self.state[self.live[w]] == 1]
        return self.limit - int(self.graph.workspace[v]) - int(forced.sum())

    def _drop_unwanted(self) -> None:
        """Fix to 0 the variables that no row requires to be 1; all other rows and the objective only gain."""
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import breadth_first_order

        size = self.state.size
        causes = np.where(self.state[self.clauses[2]] == 1, ONE, self.clauses[2])
        ends = self.clauses[:2].ravel()
        table = csr_array((np.ones(ends.size, np.int8), (np.tile(causes, 2), ends)), (size, size))
        wanted = np.zeros(size, bool)
        wanted[breadth_first_order(table, ONE, return_predecessors=False)] = True
        self.state[(self.state == FREE) & ~wanted] = 0
        self.clauses = self.clauses[:, self.state[self.clauses[2]] != 0]

    def bound(self, seconds: float | None, whole: bool = True) -> LowerBound:
        """Solve it, or its linear relaxation."""
        of, one_pass = TIME if self.times else COMPUTE, self.graph.needed_compute
        if not self.possible:
            return LowerBound(one_pass, self.nodes, of=of, infeasible=True)
        lower, stopped = self._solve(seconds, whole)
        return LowerBound(one_pass + lower, self.nodes, of=of, stopped=stopped)

    def _solve(self, seconds: float | None, whole: bool) -> tuple[int, bool]:
        """(lower bound on the overhead, True if the program may prove more)."""
        graph, state = self.graph, self.state
        needed = graph.needed_compute
        runs = np.array([self._runs(w) for w in range(len(self.nodes) + 1)])
        fixed = int(((state[runs] == 1).sum(axis=0) * graph.compute).sum()) - needed
        columns = np.flatnonzero(state == FREE)
        n_waits = len(runs) if self.times else 0
        place = np.full(state.size, -1)
        place[columns] = np.arange(columns.size)
        cost = np.zeros(state.size, np.int64)
        cost[runs.ravel()] = np.tile(graph.compute, runs.shape[0])
        costs = graph.compute[self.repeatable & (graph.compute > 0)]
        step = self.times.divisor(graph) if self.times else gcd(*costs.tolist())
        unit, margin = integer_program.objective_unit(cost[columns], needed)
        if not columns.size + n_waits or seconds == 0:
            return max(0, integer_program.next_multiple(fixed, step)), columns.size + n_waits > 0
        is_wait = np.arange(columns.size + n_waits) >= columns.size
        stopwatch = Stopwatch()

        def solved(whole: bool) -> Any:
            return integer_program.solve_integer_program(
                np.concatenate([cost[columns] / unit, np.ones(n_waits)]),
                *self._rows(place, unit),
                whole=whole and ~is_wait,
                most=np.where(is_wait, np.inf, 1.0),
                seconds=None if seconds is None else max(0.0, seconds - stopwatch.passed),
            )

        for _ in range(STARTS if self.times else 0):
            result = solved(False)
            if result.x is None or not self._late_starts(place, unit, result.x):
                break
        result = solved(whole)
        if result.status == integer_program.INFEASIBLE:
            return 0, True  # by floating point, which proves nothing
        if result.x is not None:
            self.above = needed + fixed + result.fun * unit
        dual = result.fun if result.status == integer_program.SOLVED and not whole else result.mip_dual_bound
        lower = (
            integer_program.proven(dual, unit, margin)
            if result.status in (integer_program.SOLVED, integer_program.STOPPED)
            else None
        )
        bound = max(0, integer_program.next_multiple(fixed + (lower or 0), step))
        return bound, result.status != integer_program.SOLVED

    def _rows(self, place: Int64, unit: float) -> tuple[integer_program.Entries, Any, Any]:
        """((row, column, coefficient) of all entries, lowest and highest value of each row); times are in a unit."""
        graph, state, clauses = self.graph, self.state, self.clauses
        n_clauses = clauses.shape[1]
        low = [(state[clauses[2]] == 1).astype(float)]
        high = [np.full(n_clauses, np.inf)]
        row = [np.tile(np.arange(n_clauses), 3)]
        column = [place[clauses.ravel()]]
        coefficient = [np.repeat([1.0, 1.0, -1.0], n_clauses)]
        size = n_clauses
        for w, v in zip(self.windows, self.nodes, strict=True):
            free = place[self.live[w]] >= 0
            for amounts in _rows_of_bytes(graph.memory[free], self._slack(w, v)):
                row.append(np.full(amounts.size, size))
                column.append(place[self.live[w][free]])
                coefficient.append(amounts)
                low.append(np.array([-np.inf]))
                high.append(np.array([1 + MARGIN]))
                size += 1
        runs = np.array([self._runs(w) for w in range(len(self.nodes) + 1)])
        runs = place[runs[:, ~self.repeatable & graph.needed]]
        runs = runs[:, (runs >= 0).sum(axis=0) > 1]
        row.append(np.tile(size + np.arange(runs.shape[1]), runs.shape[0]))
        column.append(runs.ravel())
        coefficient.append(np.ones(runs.size))
        low.append(np.full(runs.shape[1], -np.inf))
        high.append(np.ones(runs.shape[1]))
        size += runs.shape[1]
        for columns, amounts, least in self._rate_rows(place, unit) if self.times else ():
            row.append(np.full(columns.size, size))
            column.append(columns)
            coefficient.append(amounts)
            low.append(np.array([least]))
            high.append(np.array([np.inf]))
            size += 1
        column_of = np.concatenate(column)
        free = column_of >= 0
        entries = np.concatenate(row)[free], column_of[free], np.concatenate(coefficient)[free]
        return entries, np.concatenate(low), np.concatenate(high)

    def _rate_rows(self, place: Int64, unit: float) -> Iterator[tuple[Int64, Any, float]]:
        """Yield (columns, coefficients, lowest value) of the rows of the link; times and waits are in units of `unit`.

        What is loaded after a moment was stored before its step, and is loaded after its step. So the compute before
        and the wait there are at least its time out, the compute after and the wait there its time in. What was not
        made before a start is stored after it: there is a row for each of `starts`.
        """
        times, last = self.times, len(self.nodes) + 1
        assert times is not None
        for w, v in zip(self.windows, self.nodes, strict=True):
            before, after = self._side(range(w), place, unit), self._side(range(w, last), place, unit)
            own = int(self.graph.compute[v])
            out, into = times.out_time[self.leaving], times.in_time[self.leaving]
            rows = [(*before, start + own, np.where(self.begin[w] >= start, out, 0)) for start in self.starts[w]]
            for columns, amounts, known, first, copied in [*rows, (*after, 0, into)]:
                least = first + int(copied[self.state[self.loaded[w]] == 1].sum()) - known
                yield (
                    np.concatenate([columns, place[self.loaded[w]]]),
                    np.concatenate([amounts, -copied / unit]),
                    least / unit,
                )

    def _side(self, windows: range, place: Int64, unit: float) -> tuple[Int64, Any, int]:
        """LP column indices, their coefficients, and the constant part of compute for the given windows."""
        runs = np.concatenate([self._runs(u) for u in windows])
        compute = np.tile(self.graph.compute, len(windows))
        columns = np.concatenate([place[runs], (place >= 0).sum() + np.array(windows)])
        amounts = np.concatenate([compute / unit, np.ones(len(windows))])
        return columns, amounts, int(compute[self.state[runs] == 1].sum())

    def _late_starts(self, place: Int64, unit: float, x: Any) -> bool:
        """For each moment, add the start whose row a solution breaks most; False if it breaks none."""
        assert self.times is not None
        found = False
        for w, v in zip(self.windows, self.nodes, strict=True):
            columns, amounts, known = self._side(range(w), place, unit)
            free = columns >= 0
            before = known - int(self.graph.compute[v]) + unit * float(amounts[free] @ x[columns[free]])
            loaded = self.loaded[w]
            share = np.where(place[loaded] >= 0, x[place[loaded]], self.state[loaded] == 1)
            order = np.argsort(-self.begin[w], kind="stable")
            begin, copied = self.begin[w][order], np.cumsum((share * self.times.out_time[self.leaving])[order])
            late = np.where(share[order] > 0, begin + copied - before, 0)
            if late.max(initial=0) > integer_program.TOLERANCE * self.graph.needed_compute:
                self.starts[w].append(int(begin[late.argmax()]))
                found = True
        return found


def compute_up_to(graph: ComputationGraph, within: Bool) -> Int64:
    """int64[n]: compute of each node of an ancestor-closed set with its ancestors, 0 for others; O(k^2) for k nodes."""
    nodes = np.flatnonzero(within)
    indptr, indices = graph.predecessors
    row = np.full(graph.n_nodes, -1)
    row[nodes] = np.arange(nodes.size)
    above = np.zeros((nodes.size, nodes.size + 7 >> 3), np.uint8)
    total = np.zeros(graph.n_nodes, np.int64)
    for i, v in enumerate(nodes.tolist()):
        above[i] = np.bitwise_or.reduce(above[row[indices[indptr[v] : indptr[v + 1]]]], axis=0)
        above[i, i >> 3] |= 128 >> (i & 7)
        total[v] = graph.compute[nodes[np.unpackbits(above[i], count=nodes.size).view(bool)]].sum()
    return total


def _rows_of_bytes(memory: Int64, slack: int) -> Iterator[Any]:
    """Yield float64[k]: the bytes of values relative to the slack, and the same rounded in several units.

    For 0/1 variables `sum of memory // unit * live <= slack // unit` holds for every unit: each size and the slack are
    rounded down. Units are the largest sizes, and common divisors of the largest.
    """
    if slack <= 0:
        return
    yield memory / slack
    sizes = np.unique(memory[memory > 0])[::-1]
    divisors = np.gcd.accumulate(sizes)
    tried = set[tuple[bytes, int]]()
    for unit in np.unique(np.concatenate([sizes[:SIZES], divisors[divisors * FINEST > slack]])).tolist():
        amounts, whole = memory // unit, slack // unit
        key = amounts.tobytes(), whole
        if 0 < whole < amounts.sum() and whole * unit < slack and key not in tried:
            tried.add(key)
            yield amounts / whole


def _repeatable(graph: ComputationGraph, read: Any) -> Bool:
    """bool[n]: nodes worth recomputing: not `once`, not marked to be kept, with a value that is read and no output."""
    wanted = np.zeros(graph.n_values, bool)
    wanted[read] = True
    repeatable = np.zeros(graph.n_nodes, bool)
    repeatable[graph.producer[wanted & ~graph.output]] = True
    return repeatable & ~runs_once(graph) & graph.needed
