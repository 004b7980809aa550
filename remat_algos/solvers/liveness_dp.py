"""The dynamic program over lower sets that plans with what is held when the plan is run."""

import math

from remat_algos.ir.graph import ComputationGraph
from remat_algos.schedule.blocks import block_figures
from remat_algos.schedule.canonical import canonical_schedule
from remat_algos.schedule.simulation import simulate
from remat_algos.solvers.chains import Chains, Point
from remat_algos.solvers.formula_plans import MOST_PAIRS
from remat_algos.solvers.registry import Progress, Solution, solver, training_graph
from remat_algos.solvers.sweep import Candidate, Sweep
from remat_algos.solvers.watch import OutOfTime, Watch
from remat_algos.structure.lower_set_families import CAP, LowerSetFamily, lower_set_family

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
    """Choose the chain of lower sets with the least compute by what its blocks hold and cost when they are run.

    Formula (2) knows no liveness: what it promises is far above what is held. Here each block is simulated instead,
    transients and running sums included, so that a chain promises the peak that the judge finds, or a little more.

    Parameters
    ----------
    family : {"wide", "pruned", "exact"}
        As in `lower_set_family`; the blocks of all pairs of the family are simulated. On graphs of more than some
        hundred nodes the sets are thinned out; the details say how many are left.
    lazy : bool, optional
        As in `canonical_schedule`; by default both are planned, and the better is taken.
    cap : int
        The most lower sets that the exact family may list.

    References
    ----------
    kusumoto2019, section 4, with another peak in place of formula (2).

    Examples
    --------
    >>> from remat_algos.ir.differentiate import differentiate
    >>> chain = differentiate(ComputationGraph.from_edges([(i, i + 1) for i in range(8)]))
    >>> found = liveness_dp(chain, 7)
    >>> len(found.schedule) - chain.n_nodes, found.details["promise"]
    (3, 7)
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
    """All plans that none of the others beats in both peak and compute; the options of `liveness_dp`."""
    return _Plans(graph, family, lazy, cap, Watch(time_limit, progress)).curve().frontier()


class _Plans:
    def __init__(self, graph: ComputationGraph, family: str, lazy: bool | None, cap: int, watch: Watch) -> None:
        if lazy not in (True, False, None):
            raise ValueError(f"lazy is {lazy!r}; use True, False or None")
        sets = lower_set_family(graph, family, cap=cap)
        most = max(COARSE, math.isqrt(MOST_VISITS // max(1, sets.nodes.size)))
        self.sets = sets.subset(sets.spread(most))
        self.spread = self.sets.spread(COARSE)
        self.family = family
        self.lazy = lazy
        self.watch = watch
        keeps_all = canonical_schedule(graph, self.sets.chain([]), lazy=lazy is not False)
        self.base = simulate(graph, keeps_all).peak_memory  # steps that hold more are of no use

    @property
    def few(self) -> bool:
        """Whether all chains that no other beats are found in no time."""
        return len(self.sets) ** 2 <= 2 * MOST_PAIRS

    def curve(self) -> Sweep:
        """All chains that no other beats in both promise and cost, the lowest promise last."""
        found, complete = list[tuple[Point, bool]](), True
        try:
            for lazy in (True, False) if self.lazy is None else (self.lazy,):
                for point in self._chains(self.sets, lazy, self.base).frontier():
                    found.append((point, lazy))
        except OutOfTime:
            complete = False
        found.sort(key=lambda each: -each[0].peak)
        return self._sweep([self._candidate(*each) for each in found], complete)

    def near(self, limit: int | None) -> Sweep:
        """The cheapest chain that promises to stay within a limit; if there is none, the one that promises least."""
        lazy, found, complete = self.lazy is not False, [], True
        try:
            points = self._within(min(limit, self.base), lazy) if limit is not None else []
            found = [self._candidate(point, lazy) for point in points or self._lowest(lazy)]
        except OutOfTime:
            complete = False
        return self._sweep(found, complete)

    def _within(self, limit: int, lazy: bool) -> list[Point]:
        """The cheapest chain of some of the sets, which says which steps cost too much; then that of all of them."""
        some = self._chains(self.sets.subset(self.spread), lazy, limit)
        first = some.least_cost(limit)
        most = some.cost(first) if first is not None else None
        every = self._chains(self.sets, lazy, limit, most)
        rows = every.least_cost(limit, most)
        if rows is None and first is not None:
            rows = self.spread[first].tolist()
        return [] if rows is None else [every.point(rows)]

    def _lowest(self, lazy: bool) -> list[Point]:
        known = self._chains(self.sets.subset(self.spread), lazy, self.base).least_budget()
        every = self._chains(self.sets, lazy, known)
        rows = every.least_cost(every.least_budget())
        return [] if rows is None else [every.point(rows)]

    def _chains(self, sets: LowerSetFamily, lazy: bool, most: int, most_rerun: int | None = None) -> Chains:
        figures = block_figures(sets.graph, sets.on_graph(), *sets.pairs, lazy=lazy, most=most, most_rerun=most_rerun)
        return Chains.by_blocks(sets, figures, most, self.watch)

    def _candidate(self, point: Point, lazy: bool) -> Candidate:
        chain = self.sets.chain(point.rows)
        details = {
            "family": self.family,
            "lower_sets": len(self.sets),
            "promise": point.peak,
            "promised_overhead": point.cost,
            "blocks": len(chain),
        }
        return Candidate(chain, True, lazy, lambda: details)

    def _sweep(self, found: list[Candidate], complete: bool) -> Sweep:
        one_block = self._candidate(Point(0, self.base, []), self.lazy is not False)
        return Sweep(self.sets.graph, [one_block, *found], self.watch, complete)
