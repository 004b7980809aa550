"""The exact search over sets of live values: any order, any number of runs."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from remat_algos.bounds.closure import overhead_bound
from remat_algos.bounds.live_sets import PRICE_BITS, MomentPotential, live_set_graph, moment_potentials, useful_values
from remat_algos.bounds.memory import least_peak_bound
from remat_algos.context import Clock, OutOfTime
from remat_algos.effort import Effort
from remat_algos.errors import ArgumentError
from remat_algos.ir.arrays import as_whole, is_count
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.parts import RECOMPUTE
from remat_algos.kernels.live_sets import EXHAUSTED, MAX_VALUES, SOLVED
from remat_algos.schedule.one_pass import lowest_pass
from remat_algos.schedule.schedule import Schedule, emit
from remat_algos.solvers.registry import OWN, Candidate, Details, Rows, Task, evaluated, solver
from remat_algos.wording import counted, shortened

LOWEST = 2  # divisor of the sets of each of three lowest-peak searches
USUAL_VALUES = 64  # values up to which the search often ends
BEYOND = 20  # divisor of the sets on graphs of more values
FRONTIER_SEARCHES = 2  # factor on the sets for a whole frontier
MAX_STATES_ALONE = 100_000  # sets searched before potentials
MAX_POTENTIALS = 5
PORTION = 20_000  # sets between deadline checks
NO_CEILING = 2**62
SCOPE = "any order"
OPTIMAL, STOPPED, NONE_FITS = "optimal", "stopped before it ended", "nothing fits the limit"


def few_values(graph: ComputationGraph) -> str | None:
    """Return why a graph is refused, else None: it has a recompute mark, or more than 128 values read or output."""
    if graph.mark is not None and (graph.mark[graph.needed] == RECOMPUTE).any():
        return "it does not serve graphs with recompute marks; remove them, or name another solver"
    n_values = int(useful_values(graph).sum()) if graph.n_nodes <= 1_000 * MAX_VALUES else graph.n_nodes
    if n_values > MAX_VALUES:
        return f"the graph has {n_values} values, too many for an exact search; {MAX_VALUES} is the maximum"
    return None


def search_rows(graph: ComputationGraph, details: Details) -> Rows:
    """Yield the "search" row of a plan's text report: states explored and proof status."""
    states, proof = details.get("states"), details.get("proof")
    if is_count(states) and isinstance(proof, str):
        yield "search", f"{counted(states, 'set')} of live values; {shortened(proof)}"


@solver(needs=few_values, optimal_in=SCOPE, improves=True, price=1.0, describe=search_rows)
def live_set_search(
    graph: ComputationGraph, task: Task, clock: Clock, *, max_states: int | None = None
) -> Iterator[Candidate]:
    """Search all sets of live values, best first: a proven optimum over every order and any number of runs.

    If the number of sets or the time runs out, the bound proven by then holds. If nothing fits the limit, the lowest
    peak and its minimum compute are searched (not after other solvers, since all search them later); if these stay
    open, a schedule below the lowest peak so far. Without a limit the whole frontier is searched, limit by limit.

    Parameters
    ----------
    max_states : int, optional
        Maximum number of sets; by default 2,000,000, by effort "fast" 1,250,000 and by "best" 4,000,000, above 64
        values a twentieth; half of it for the lowest peak, twice as many for a frontier.
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
    """The end of one search: a schedule if it found one, a proof if nothing below its ceiling is left."""

    schedule: Schedule | None
    key: int
    proven: bool
    states: int


class _Searches:
    """Searches on one graph, with the candidates so far as upper bounds."""

    def __init__(self, graph: ComputationGraph, task: Task, clock: Clock, max_states: int | None) -> None:
        self.graph = graph
        self.task, self.clock = task, clock
        self.nodes = np.flatnonzero(graph.needed).astype(np.int32)
        self.arrays = live_set_graph(graph, self.nodes)
        usual = Effort.of(task.effort).live_sets // (1 if self.arrays.memory.size <= USUAL_VALUES else BEYOND)
        self.max_states, self.lowest_states = usual, max(1, usual // LOWEST)
        if max_states is not None:
            self.max_states = self.lowest_states = int(max_states)
        first = evaluated(graph, lowest_pass(graph), {"one_pass": True})
        self.known = [first]  # of this solver
        self.candidates = [*task.candidates, first]

    def within(self, limit: int) -> Iterator[Candidate]:
        """Yield the optimum within a limit; if nothing fits, that of the minimum peak."""
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
        """Solve repeatedly, each limit below the previous peak, down to the lowest peak; yield each optimum."""
        before = [each.figures[0] for each in self.task.candidates] if self.task.budgets else []
        floor, left = min(before, default=least_peak_bound(self.graph)[0]), FRONTIER_SEARCHES * self.max_states
        limit = max(candidate.figures[0] for candidate in self.candidates)
        while limit >= floor and left > 0:
            result, candidate = self.cheapest(limit, min(left, self.max_states))
            left -= result.states
            if candidate is None or not result.proven:
                return
            yield candidate
            limit = candidate.figures[0] - 1

    def cheapest(self, limit: int, max_states: int) -> tuple[_SearchEnd, Candidate | None]:
        """Return the best candidate within a limit, with its proof; None if nothing is known to fit."""
        graph = self.graph
        fitting = [each for each in self.candidates if each.figures[0] <= limit]
        best = min(fitting, key=lambda each: (each.figures[1], each.figures[0]), default=None)
        ceiling = NO_CEILING if best is None else best.figures[1] - graph.needed_compute
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
        """Yield the cheapest schedule of the minimum peak, at least `above`; unproven, the best known."""
        lowest, states = min(each.figures[0] for each in self.candidates), 0
        peak_bound, within = above, lowest
        if lowest > above:
            first = self._search(lowest - 1, lowest, self.lowest_states, lowest=True)
            peak_bound, states = lowest if first.proven else max(above, first.key), first.states
            if first.schedule is not None:
                best = evaluated(self.graph, first.schedule)
                self.candidates.append(best)
                lowest = peak_bound = within = best.figures[0]
            elif not first.proven:  # a limit prunes more sets, as do the potentials
                within = lowest - 1
        result: _SearchEnd | None = None
        candidate: Candidate | None = None
        # Same cap as for any limit, so no limited search can beat "least".
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
        """Search until it ends, the time runs out, or there are too many sets.

        Potentials are not worth their linear programs in short searches; after some sets it starts again with them.
        """
        first = max_states if lowest else min(max_states, MAX_STATES_ALONE)
        result = self._run(limit, ceiling, first, [], lowest=lowest)
        if result.proven or first == max_states or self.clock.late:
            return result
        potentials = self._potentials(limit)
        again = self._run(limit, ceiling, max_states, potentials, lowest=lowest)
        return again if again.proven else replace(again, key=max(result.key, again.key))

    def _potentials(self, limit: int) -> list[MomentPotential]:
        """Compute lower bounds on the remaining overhead, as many as pay; none if the time is over."""
        try:
            return moment_potentials(self.arrays, limit, MAX_POTENTIALS, self.clock.check)
        except OutOfTime:
            return []

    def _run(
        self, limit: int, ceiling: int, max_states: int, potentials: Sequence[MomentPotential], *, lowest: bool
    ) -> _SearchEnd:
        """Run the kernel's search, in portions."""
        self.clock.stage(max_states, "states", part=0.5)  # its proof decides whether others follow
        search = self.arrays.start(limit, ceiling, lowest=lowest)
        for each in potentials:
            search.add_potential(each.node, each.need, each.share, PRICE_BITS)
        verdict = search.advance(PORTION, max_states)
        while verdict not in (SOLVED, EXHAUSTED) and search.n_states < max_states and not self.clock.late:
            verdict = search.advance(PORTION, max_states)
            self._report(search.n_states)
        self._report(search.n_states)
        schedule = emit(self.graph, self.nodes[search.order()]) if verdict == SOLVED else None
        return _SearchEnd(schedule, search.key, verdict in (SOLVED, EXHAUSTED), search.n_states)

    def _report(self, states: int) -> None:
        """Report the sets so far; the search itself checks the deadline."""
        with suppress(OutOfTime):
            self.clock.progress(states)
