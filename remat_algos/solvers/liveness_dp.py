"""The dynamic program over lower sets that plans with what is held when the plan is run."""

import math
from collections.abc import Iterator

from remat_algos.errors import GraphError
from remat_algos.ir.arrays import Int64
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.labels import RECOMPUTE
from remat_algos.ir.wording import shortened
from remat_algos.schedule.blocks import block_figures
from remat_algos.schedule.canonical import canonical_schedule
from remat_algos.schedule.simulation import simulate
from remat_algos.solvers.chains import Chains, Point
from remat_algos.solvers.formula_plans import GRID, MOST_PAIRS, geometric
from remat_algos.solvers.registry import solver, training_graph
from remat_algos.solvers.sweep import Candidate, Sweep
from remat_algos.solvers.watch import OutOfTime, Watch
from remat_algos.structure.lower_set_families import CAP, LowerSetFamily, lower_set_family, spread

COARSE = 128  # sets that are tried first where there are many
MOST_VISITS = 200_000_000  # of nodes in blocks, if each of the sets were simulated with each


@solver(paper="kusumoto2019", needs=training_graph)
def liveness_dp(
    graph: ComputationGraph,
    limit: int | None,
    *,
    family: str = "wide",
    lazy: bool | None = None,
    cap: int = CAP,
    time_limit: float | None = None,
    progress: Progress | None = None,
) -> Solution:
    """Choose the chain of lower sets with the least compute, by simulating the memory and compute of its blocks.

    Formula (2) ignores liveness: its peak is far above the simulated one. Here each block is simulated instead,
    transients and running sums included, so the peak predicted for a chain is the simulated peak or slightly more.

    Parameters
    ----------
    family : {"wide", "pruned", "exact"}
        As in `lower_set_family`; the blocks of all pairs of sets are simulated. On graphs of more than a few hundred
        nodes only the sets of evenly spaced nodes are used, which the plan's details record as `thinned`.
    lazy : bool, optional
        As in `canonical_schedule`; by default both are planned and the better plan is taken, or only True where there
        are more than about 300 sets.
    cap : int
        Maximum number of lower sets of the exact family.

    References
    ----------
    kusumoto2019, section 4, with another peak in place of formula (2).

    Examples
    --------
    >>> from remat_algos.ir.differentiate import differentiate
    >>> chain = differentiate(ComputationGraph.from_edges([(i, i + 1) for i in range(8)]))
    >>> found = liveness_dp(chain, 7)
    >>> len(found.schedule) - chain.n_nodes, found.details["promise"]
    (4, 7)
    """
    plans = _Plans(graph, family, lazy, cap, Watch(time_limit, progress))
    return (plans.curve() if plans.few else plans.near(limit)).best(limit)


def frontier(
    graph: ComputationGraph,
    *,
    family: str = "wide",
    lazy: bool | None = None,
    cap: int = CAP,
    time_limit: float | None = None,
    progress: Progress | None = None,
) -> list[Solution]:
    """Pareto frontier of its plans in peak and compute; takes the options of `liveness_dp`."""
    return _Plans(graph, family, lazy, cap, Watch(time_limit, progress)).curve().frontier()


class _Plans:
    def __init__(self, graph: ComputationGraph, family: str, lazy: bool | None, cap: int, watch: Watch) -> None:
        if lazy not in (True, False, None):
            raise ValueError(f"lazy is {shortened(repr(lazy))}; use True, False or None")
        n_nodes = int((graph.forward & graph.needed).sum())
        most = max(COARSE, math.isqrt(MOST_VISITS // max(1, n_nodes)))
        self.sets = lower_set_family(graph, family, cap=cap, most=most)
        if len(self.sets) > 2 * most:
            raise GraphError(f"{len(self.sets):,} lower sets are too many for this solver; use the family wide")
        self.some = spread(len(self.sets), COARSE)
        self.about = {"family": family, "lower_sets": len(self.sets)}
        if self.sets.thinned:
            self.about["thinned"] = True
        self.lazy = lazy
        self.watch = watch
        keeps_all = canonical_schedule(graph, self.sets.chain([]), lazy=lazy is not False)
        self.base = simulate(graph, keeps_all).peak_memory  # steps that hold more are of no use

    @property
    def few(self) -> bool:
        """Whether all chains that no other beats are found in no time."""
        return len(self.sets) ** 2 <= 2 * MOST_PAIRS

    def curve(self) -> Sweep:
        """Chains for all promises, the lowest last."""
        found, complete, interrupted = list[tuple[Point, bool]](), True, False
        try:
            for lazy in (True, False) if self.lazy is None and self.few else (self.lazy is not False,):
                for point in self._points(lazy):
                    found.append((point, lazy))
        except OutOfTime:
            complete = False
        except KeyboardInterrupt:
            complete, interrupted = False, True
        found.sort(key=lambda each: -each[0].peak)
        return self._sweep([self._candidate(*each) for each in found], complete, interrupted)

    def near(self, limit: int | None) -> Sweep:
        """The cheapest chain that promises to stay within a limit; if there is none, the one that promises least."""
        lazy, found, complete, interrupted = self.lazy is not False, list[Candidate](), True, False
        try:
            for point in self._near(limit, lazy):
                found.append(self._candidate(point, lazy))
        except OutOfTime:
            complete = False
        except KeyboardInterrupt:
            complete, interrupted = False, True
        return self._sweep(found, complete, interrupted)

    def _points(self, lazy: bool) -> Iterator[Point]:
        """All chains that no other beats in both promise and cost, or where they are many, those for some budgets."""
        chains = self._chains(self.sets, lazy, self.base)
        if self.few:
            yield from chains.frontier()
            return
        for budget in reversed(geometric(chains.least_budget(), self.base, GRID)):  # what is lowest comes first
            rows = chains.least_cost(budget)
            if rows is not None:
                yield chains.point(rows)

    def _near(self, limit: int | None, lazy: bool) -> Iterator[Point]:
        """The best chain of some of the sets, which says which steps cost too much; then that of all of them."""
        if limit is None:
            yield from self._lowest(lazy)
            return
        bound, cost = min(limit, self.base), None
        some = self._chains(self.sets.subset(self.some), lazy, bound)
        first = some.least_cost(bound)
        if first is not None:
            cost = some.point(first).cost
            yield _among_all(some.point(first), self.some)
        every = self._chains(self.sets, lazy, bound, cost)
        rows = every.least_cost(bound, cost)
        if rows is not None:
            yield every.point(rows)
        elif first is None:
            yield from self._lowest(lazy)

    def _lowest(self, lazy: bool) -> Iterator[Point]:
        some = self._chains(self.sets.subset(self.some), lazy, self.base)
        known = some.least_budget()
        first = some.least_cost(known)
        if first is not None:
            yield _among_all(some.point(first), self.some)
        every = self._chains(self.sets, lazy, known)
        rows = every.least_cost(every.least_budget())
        if rows is not None:
            yield every.point(rows)

    def _chains(self, sets: LowerSetFamily, lazy: bool, most: int, most_rerun: int | None = None) -> Chains:
        # what takes a moment is finished whatever the time, so that there is something to fall back on
        watch = Watch() if len(sets) ** 2 * sets.nodes.size <= MOST_VISITS // 10 else self.watch
        watch.begin(sets.pairs[1].size, "blocks, simulated")
        figures = block_figures(
            sets.graph,
            sets.on_graph(),
            *sets.pairs,
            lazy=lazy,
            most=most,
            most_rerun=most_rerun,
            look=watch.reached,
        )
        return Chains.by_blocks(sets, figures, most, watch)

    def _candidate(self, point: Point, lazy: bool) -> Candidate:
        graph, chain = self.sets.graph, self.sets.chain(point.rows)
        details = {**self.about, "promise": point.peak, "promised_overhead": point.cost, "blocks": len(chain)}
        if graph.updates.any() or (graph.mark is not None and (graph.mark == RECOMPUTE).any()):
            # what a wish makes run again, and an update that waits, are no longer the business of one block alone
            details |= {"promise": None, "promised_overhead": None}
        return Candidate(chain, True, lazy, lambda: details)

    def _sweep(self, found: list[Candidate], complete: bool, interrupted: bool) -> Sweep:
        one_block = self._candidate(Point(0, self.base, []), self.lazy is not False)
        return Sweep(self.sets.graph, [one_block, *found], self.watch, complete, interrupted)


def _among_all(point: Point, rows: Int64) -> Point:
    """A chain of some rows, by the rows of all."""
    return Point(point.cost, point.peak, rows[point.rows].tolist())
