"""Best-first search over sets of live values, for the exact optimum over all orders and numbers of runs.

A moment is the first run of a node. A potential is a function that gives a lower bound on the remaining overhead of a
search state, for use in A* search.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from remat_algos.bounds.closure import overhead_bound
from remat_algos.bounds.memory import least_peak_bound
from remat_algos.context import Clock, OutOfTime
from remat_algos.effort import UNLIMITED, Effort
from remat_algos.errors import ArgumentError
from remat_algos.ir.arrays import Int64, as_whole, is_count
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.parts import RECOMPUTE
from remat_algos.kernels.live_sets import EXHAUSTED, MAX_VALUES, SOLVED
from remat_algos.schedule.one_pass import lowest_pass
from remat_algos.schedule.schedule import Schedule, emit
from remat_algos.solvers import tuning
from remat_algos.solvers.registry import OWN, Candidate, Details, Rows, Task, evaluated, solver
from remat_algos.structure.live_sets import LiveSetGraph, live_set_graph, useful_values
from remat_algos.wording import counted, shortened

# Number of fraction bits of `need` and `share`, the fixed-point numbers in a potential.
PRICE_BITS = 16
# Maximum total compute of a graph. Up to it, sums of `need` and `share` fit in 64 bits.
MAX_COMPUTE = 2**36
SCOPE = "any order"
OPTIMAL, STOPPED, NONE_FITS = "optimal", "stopped before it ended", "nothing fits the limit"


def few_values(graph: ComputationGraph) -> str | None:
    """Return the reason to refuse a graph, or None. Graphs with recompute marks or too many values are refused."""
    if graph.mark is not None and (graph.mark[graph.needed] == RECOMPUTE).any():
        return "it does not serve graphs with recompute marks; remove them, or name another solver"
    n_values = int(useful_values(graph).sum()) if graph.n_nodes <= 1_000 * MAX_VALUES else graph.n_nodes
    if n_values > MAX_VALUES:
        return f"the graph has {n_values} values, too many for an exact search; {MAX_VALUES} is the maximum"
    return None


def search_rows(graph: ComputationGraph, details: Details) -> Rows:
    """Yield the row "search" of a plan's text report: the number of sets explored, and the status of the proof."""
    states, proof = details.get("states"), details.get("proof")
    if is_count(states) and isinstance(proof, str):
        yield "search", f"{counted(states, 'set')} of live values; {shortened(proof)}"


@solver(needs=few_values, optimal_in=SCOPE, improves=True, price=1.0, describe=search_rows)
def live_set_search(
    graph: ComputationGraph, task: Task, clock: Clock, *, max_states: int | None = None
) -> Iterator[Candidate]:
    """Search all sets of live values, best first: a proven optimum over every order and any number of runs.

    A search that runs out of time, or reaches the maximum number of sets, still proves a bound. If no schedule fits the
    limit, the solver searches for the minimum peak, and then for the minimum compute at this peak. If other solvers ran
    too, `solve` starts these two searches after them. If the minimum peak cannot be proven, the solver searches for
    schedules below the lowest known peak. Without a limit, it searches for the whole frontier, one limit after another.

    Parameters
    ----------
    max_states : int, optional
        Maximum number of sets. The default is 2,000,000; with effort "fast" 1,250,000 and with "best" 4,000,000. It is
        divided by 20 for graphs of more than 64 values, halved in searches for the minimum peak, and doubled for a
        whole frontier.
    """
    if max_states is not None and (as_whole(max_states) or 0) < 1:
        raise ArgumentError(
            "max_states is {max_states!r}; give a whole number of sets, 1 or more", max_states=max_states
        )
    searches = _Searches(graph, task, clock, max_states)
    yield from searches.known
    if task.limit is None:
        yield from searches.frontier()
    else:
        yield from searches.within(task.limit)


@dataclass(frozen=True, slots=True, eq=False)
class _SearchEnd:
    schedule: Schedule | None
    key: int
    proven: bool
    states: int


@dataclass(frozen=True, slots=True, eq=False)
class MomentPotential:
    """A lower bound on the remaining overhead of a search state in which `node` has not run yet.

    The bound is `need` minus the `share`, int64[n], of every other node that must run later anyway. Both are in units
    of 2**-16. The run of `node` itself is no overhead, so its share is not subtracted. A share is at most the compute
    of its node. The bound therefore never falls by more than the cost of a move, so it is consistent, as A* search
    requires.
    """

    node: int
    need: int
    share: Int64


class _Searches:
    def __init__(self, graph: ComputationGraph, task: Task, clock: Clock, max_states: int | None) -> None:
        self.graph = graph
        self.task, self.clock = task, clock
        self.nodes = np.flatnonzero(graph.needed).astype(np.int32)
        self.arrays = live_set_graph(graph, self.nodes)
        divisor = 1 if self.arrays.memory.size <= tuning.USUAL_VALUES else tuning.BEYOND_DIVISOR
        usual = Effort.of(task.effort).live_sets // divisor
        self.max_states, self.lowest_states = usual, max(1, usual // tuning.LOWEST_DIVISOR)
        if max_states is not None:
            self.max_states = self.lowest_states = int(max_states)
        first = evaluated(graph, lowest_pass(graph), {"one_pass": True})
        self.known = [first]  # only this solver's candidates
        self.candidates = [*task.candidates, first]

    def within(self, limit: int) -> Iterator[Candidate]:
        """Yield the optimum within a limit; if nothing fits, the optimum at the minimum peak."""
        above = least_peak_bound(self.graph)[0]
        alone = limit <= above or all(not each.solver or each.solver in OWN for each in self.task.candidates)
        if limit >= above:
            most = self.lowest_states if limit == above else self.max_states
            result, candidate = self.cheapest(limit, most)
            if candidate is not None:
                yield candidate
                return
            above = limit + 1 if result.proven else above
            if not alone and result.proven:
                lowest = min(self.candidates, key=lambda each: each.figures)
                details = {"states": result.states, "proof": NONE_FITS}
                yield replace(lowest, details=details, peak_bound=above, bound=None, scope=None)
        if alone:
            yield from self._lowest(above)

    def frontier(self) -> Iterator[Candidate]:
        """Yield optima for decreasing limits, down to the lowest peak. Each limit is the previous peak minus 1 byte."""
        before = [each.figures[0] for each in self.task.candidates] if self.task.budgets else []
        floor, left = min(before, default=least_peak_bound(self.graph)[0]), tuning.FRONTIER_SEARCHES * self.max_states
        limit = max(candidate.figures[0] for candidate in self.candidates)
        while limit >= floor and left > 0:
            result, candidate = self.cheapest(limit, min(left, self.max_states))
            left -= result.states
            if candidate is None or not result.proven:
                return
            yield candidate
            limit = candidate.figures[0] - 1

    def cheapest(self, limit: int, max_states: int) -> tuple[_SearchEnd, Candidate | None]:
        """Search within a limit. Return how the search ended, and the best candidate (None if none is known to fit)."""
        graph = self.graph
        fitting = [each for each in self.candidates if each.figures[0] <= limit]
        best = min(fitting, key=lambda each: (each.figures[1], each.figures[0]), default=None)
        ceiling = UNLIMITED if best is None else best.figures[1] - graph.needed_compute
        closure = overhead_bound(graph, limit)
        if closure.infeasible or (best is not None and best.figures[1] == closure.amount):
            result = _SearchEnd(None, ceiling, proven=True, states=0)
        else:
            result = self._search(limit, ceiling, max_states, lowest=False)
        bound = graph.needed_compute + (ceiling if result.proven else min(ceiling, result.key))
        bound = max(bound, int(closure.amount))
        if result.schedule is not None:
            best = evaluated(graph, result.schedule)
            self.candidates.append(best)
            bound = best.figures[1]
        if best is None:
            return result, None
        details = {"states": result.states, "proof": OPTIMAL if result.proven else STOPPED}
        return result, Candidate(best.schedule, details, bound, SCOPE, best.simulation)

    def _lowest(self, above: int) -> Iterator[Candidate]:
        """Yield the cheapest schedule at the lowest peak reached; `above` is a lower bound on the peak."""
        lowest, states = min(each.figures[0] for each in self.candidates), 0
        peak_bound, within = above, lowest
        if lowest > above:
            first = self._search(lowest - 1, lowest, self.lowest_states, lowest=True)
            peak_bound, states = lowest if first.proven else max(above, first.key), first.states
            if first.schedule is not None:
                best = evaluated(self.graph, first.schedule)
                self.candidates.append(best)
                lowest = peak_bound = within = best.figures[0]
            # Not proven: minimize the compute below the lowest peak instead, where the potentials prune more sets.
            elif not first.proven:
                within = lowest - 1
        result: _SearchEnd | None = None
        candidate: Candidate | None = None
        # Explore as many sets as `within` does for a limit. Otherwise, a call to `within` could reach a lower peak.
        while within < lowest:
            last, lower = self.cheapest(within, self.max_states)
            if lower is None:
                states += last.states
                peak_bound = lowest if last.proven else peak_bound
                break
            result, candidate = last, lower
            lowest, within = lower.figures[0], lower.figures[0] - 1
        if result is None or not result.proven:
            result, candidate = self.cheapest(lowest, self.lowest_states)
        if candidate is not None:
            lowest = candidate.figures[0]
            proof = ("minimum peak" if peak_bound == lowest else STOPPED) + (", optimal at it" if result.proven else "")
            details = {"states": states + result.states, "proof": proof}
            bound, scope = (candidate.bound, candidate.scope) if result.proven else (None, None)
            yield replace(candidate, details=details, bound=bound, scope=scope, peak_bound=peak_bound)

    def _search(self, limit: int, ceiling: int, max_states: int, *, lowest: bool) -> _SearchEnd:
        """Search until the result is proven, the deadline passes or the maximum number of sets is reached.

        Potentials need linear programs, which take more time than they save in short searches. The search therefore
        begins without potentials, and restarts with them after `MAX_STATES_ALONE` sets.
        """
        first = max_states if lowest else min(max_states, tuning.MAX_STATES_ALONE)
        result = self._run(limit, ceiling, first, [], lowest=lowest)
        if result.proven or first == max_states or self.clock.late:
            return result
        potentials = self._potentials(limit)
        again = self._run(limit, ceiling, max_states, potentials, lowest=lowest)
        return again if again.proven else replace(again, key=max(result.key, again.key))

    def _potentials(self, limit: int) -> list[MomentPotential]:
        try:
            return moment_potentials(self.arrays, limit, tuning.MAX_POTENTIALS, self.clock.check)
        except OutOfTime:
            return []

    def _run(
        self, limit: int, ceiling: int, max_states: int, potentials: Sequence[MomentPotential], *, lowest: bool
    ) -> _SearchEnd:
        # Report at most half of the remaining progress, since another search follows if this one proves nothing.
        self.clock.stage(max_states, "states", part=0.5)
        search = self.arrays.start(limit, ceiling, lowest=lowest)
        for each in potentials:
            search.add_potential(each.node, each.need, each.share, PRICE_BITS)
        verdict = search.advance(tuning.STATES_PER_CHECK, max_states)
        while verdict not in (SOLVED, EXHAUSTED) and search.n_states < max_states and not self.clock.late:
            verdict = search.advance(tuning.STATES_PER_CHECK, max_states)
            self._report(search.n_states)
        self._report(search.n_states)
        schedule = emit(self.graph, self.nodes[search.order()]) if verdict == SOLVED else None
        return _SearchEnd(schedule, search.key, verdict in (SOLVED, EXHAUSTED), search.n_states)

    def _report(self, states: int) -> None:
        """Report the number of sets, and ignore the deadline, which the caller checks."""
        with suppress(OutOfTime):
            self.clock.progress(states)


def moment_potentials(
    graph: LiveSetGraph, limit: int, count: int, look: Callable[[], object] = bool
) -> list[MomentPotential]:
    """Return at most `count` potentials, chosen so that their bounds are high for many nodes.

    The potential of a node comes from the dual of the linear program of the closure bound (docs/theory/live_sets.md).
    The prices of this dual are rounded first, so potentials are valid whatever the precision of the LP solver.
    """
    potentials = list[MomentPotential]()
    if int(graph.compute.sum()) > MAX_COMPUTE:
        return potentials
    for node in range(len(graph.reads)):
        look()
        moment = _Moment.of(graph, limit, node)
        if moment is not None:
            potentials.extend(moment.potentials())
    return _chosen(graph, potentials, count)


def _chosen(graph: LiveSetGraph, candidates: list[MomentPotential], count: int) -> list[MomentPotential]:
    """Choose potentials greedily, to maximize the sum over all nodes of the largest `need` that applies to the node.

    A potential applies to every node that does not depend on the node of the potential. Potentials of neighbouring
    nodes are nearly equal, so the `count` largest ones would be redundant.
    """
    largest, chosen = [0] * len(graph.reads), list[MomentPotential]()

    def gain(each: MomentPotential) -> int:
        return sum(
            max(0, each.need - most)
            for most, before in zip(largest, graph.ancestors, strict=True)
            if each.node not in before
        )

    while len(chosen) < count and (best := max(candidates, key=gain, default=None)) is not None and gain(best) > 0:
        chosen.append(best)
        for v, before in enumerate(graph.ancestors):
            if best.node not in before:
                largest[v] = max(largest[v], best.need)
    return chosen


@dataclass(frozen=True, slots=True, eq=False)
class _Moment:
    """The first run of a node, its ancestors, and the values of ancestors that may be live then but need not be."""

    graph: LiveSetGraph
    node: int
    room: int
    ancestors: list[int]
    producer: dict[int, int]  # value -> ancestor
    later: list[int]  # values read after the moment
    again: list[tuple[int, int]]  # (value, ancestor reading it)

    @classmethod
    def of(cls, graph: LiveSetGraph, limit: int, node: int) -> "_Moment | None":
        ancestors, after = sorted(graph.ancestors[node]), set(graph.values[node])
        later = set[int]()
        for w in range(node + 1, len(graph.reads)):
            if after.intersection(graph.reads[w]):
                after.update(graph.values[w])
                later.update(graph.reads[w])
        free = {x: u for u in ancestors for x in graph.values[u] if not graph.output[x]}
        for x in graph.reads[node]:
            free.pop(x, None)
        live = {x for u in ancestors for x in graph.values[u] if x not in free}
        room = limit - int(graph.own[node]) - sum(int(graph.memory[x]) for x in live)
        read_later = sorted(later.intersection(free))
        if room < 0 or not read_later or sum(int(graph.memory[x]) for x in free) <= room:
            return None
        again = [(x, w) for w in ancestors for x in graph.reads[w] if x in free]
        return cls(graph, node, room, ancestors, free, read_later, again)

    def potentials(self) -> Iterator[MomentPotential]:
        """Yield the potential for the optimal prices, if its `need` is positive."""
        prices = self._prices()
        if prices is None:
            return
        later, again = prices
        graph, unit = self.graph, 1 << PRICE_BITS
        priced, share = dict.fromkeys(self.producer, 0), dict.fromkeys(self.ancestors, 0)
        for x, price in zip(self.later, later, strict=True):
            priced[x] += price
            share[self.producer[x]] += price
        for (x, w), price in zip(self.again, again, strict=True):
            priced[x] += price
            share[self.producer[x]] += price
            share[w] -= price
        if any(priced[x] and not graph.memory[x] for x in priced):
            return
        byte = max((Fraction(priced[x], int(graph.memory[x])) for x in priced if priced[x]), default=Fraction(0))
        need = sum(later) - -(-byte.numerator * self.room // byte.denominator)
        shares = np.zeros(len(graph.reads), np.int64)
        for u in self.ancestors:
            # A node that may run only once has already run, so its share is 0.
            if not graph.once[u]:
                most = int(graph.compute[u]) * unit
                need -= max(0, share[u] - most)
                shares[u] = min(max(share[u], 0), most)
        if need > 0:
            yield MomentPotential(self.node, need, shares)

    def _prices(self) -> tuple[list[int], list[int]] | None:
        """Return the optimal prices y and z of `moment_potentials` in units of 2**-16, rounded down."""
        from scipy.optimize import linprog  # type: ignore[import-untyped]
        from scipy.sparse import csr_array  # type: ignore[import-untyped]

        graph, n_later = self.graph, len(self.later)
        row = {x: i for i, x in enumerate(self.producer)}
        # Two rows for each ancestor u: its share is at most its compute (`most`), and at least 0 (`least`).
        most = {u: len(row) + i for i, u in enumerate(self.ancestors)}
        least = {u: len(row) + len(most) + i for i, u in enumerate(self.ancestors)}
        entries = list[tuple[int, int, float]]()

        def add(column: int, x: int) -> None:
            u = self.producer[x]
            entries.extend([(row[x], column, 1.0), (most[u], column, 1.0), (least[u], column, -1.0)])

        for column, x in enumerate(self.later):
            add(column, x)
        for column, (x, w) in enumerate(self.again, n_later):
            add(column, x)
            entries.extend([(most[w], column, -1.0), (least[w], column, 1.0)])
        last = n_later + len(self.again)
        entries.extend((row[x], last, -float(graph.memory[x])) for x in row)
        rows, columns, numbers = zip(*entries, strict=True)
        total = 1.0 + float(graph.compute.sum())
        above = [0.0] * len(row)
        above += [total if graph.once[u] else float(graph.compute[u]) for u in self.ancestors] + [0.0] * len(least)
        matrix = csr_array((numbers, (rows, columns)), shape=(len(above), last + 1))
        goal = np.concatenate([np.full(n_later, -1.0), np.zeros(len(self.again)), [float(self.room)]])
        result = linprog(goal, A_ub=matrix, b_ub=above, bounds=(0, None), method="highs")
        if result.x is None or result.fun >= 0:
            return None
        whole = np.floor(np.maximum(result.x, 0) * (1 << PRICE_BITS)).astype(np.int64).tolist()
        return whole[:n_later], whole[n_later:last]
