"""Uncertain costs: sampled costs, the overhead of plans under them, and the robust plan."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import frexp, log1p, sqrt
from numbers import Real
from typing import Any

import numpy as np

from remat_algos.ir.arrays import Float64, Int64, as_whole
from remat_algos.ir.csr import indptr_of
from remat_algos.ir.graph import ComputationGraph
from remat_algos.plan.problem import Problem
from remat_algos.schedule.schedule import check_no_loads
from remat_algos.schedule.simulation import Simulation, check_simulation
from remat_algos.solvers.candidates import Candidate
from remat_algos.text.wording import quoted

DEVIATION = 0.2
SAMPLES = 4096
MIN_SAMPLES, MAX_SAMPLES = 10, 100_000
FEW_SAMPLES = 100  # on graphs of any size
SAMPLED_COSTS = 1 << 23  # on larger graphs there are fewer samples
ENTRIES = 1 << 20  # of the matrix of sampled costs that is in memory at a time
MIN_COMPARED, MAX_COMPARED = 64, 256  # candidates
COMPARED_NODES = 500_000  # in the graphs of all of them
ONE_PASS_BITS = 44  # sampled costs are whole numbers that sum to about 2^44 in one pass, so that sums are exact


@dataclass(frozen=True, slots=True)
class CostNoise:
    """Uncertainty of the costs of nodes: in every sample, each is multiplied by its own random factor.

    The factors are independent and lognormal with mean 1: positive, and twice the cost is as likely as half of it. All
    runs of a node cost the same in one sample.

    Parameters
    ----------
    deviation : float
        Standard deviation of a factor, above 0 and at most 1: 0.2 for costs that are known to about 20 %.
    samples : int
    seed : int

    Examples
    --------
    >>> from remat_algos.schedule.schedule import Schedule
    >>> from remat_algos.schedule.simulation import simulate
    >>> graph = ComputationGraph.from_edges([(0, 1), (1, 2)], compute=[10, 1, 1])
    >>> once, twice = simulate(graph, Schedule([0, 1, 2])), simulate(graph, Schedule([0, 0, 1, 2]))
    >>> CostNoise(0.2, samples=10).overheads(graph, [once, twice]).round(2)[:, :4].tolist()
    [[0.0, 0.0, 0.0, 0.0], [0.85, 0.81, 0.88, 0.83]]
    """

    deviation: float
    samples: int = SAMPLES
    seed: int = 0

    def __post_init__(self) -> None:
        for name, number, low, high in (
            ("samples", self.samples, MIN_SAMPLES, MAX_SAMPLES),
            ("seed", self.seed, 0, None),
        ):
            count = as_whole(number)
            if count is None or count < low or (high is not None and count > high):
                expected = f"{low:,} or more" if high is None else f"{low:,} to {high:,}"
                raise ValueError(f"{name} is {quoted(number)}; give a whole number, {expected}")
            object.__setattr__(self, name, count)
        deviation = self.deviation
        if isinstance(deviation, bool) or not isinstance(deviation, Real) or not 0 < float(deviation) <= 1:
            raise ValueError(
                f"the cost noise is {quoted(deviation)}, expected a number above 0 and at most 1, the "
                "standard deviation of a cost as a share of it; give 0.2 for costs that are known to about 20 %"
            )
        object.__setattr__(self, "deviation", float(deviation))

    @classmethod
    def of(cls, graph: ComputationGraph, deviation: float, seed: int = 0) -> "CostNoise":
        """The noise with a number of samples that takes a fraction of a second on the graph."""
        return cls(deviation, max(FEW_SAMPLES, min(SAMPLES, SAMPLED_COSTS // max(1, graph.n_nodes))), seed)

    def overheads(self, graph: ComputationGraph, simulations: Sequence[Simulation]) -> Float64:
        """float64[k, samples]: overhead of each schedule under each sample, as a share of one pass at these costs.

        A matrix product of the numbers of extra runs, few of which are not 0, and the sampled costs. These are rounded
        to whole numbers whose sums float64 holds exactly, so that neither the order of the schedules nor that of the
        additions changes a result.
        """
        from scipy.sparse import csr_array  # type: ignore[import-untyped]  # BLAS waits for its threads on busy cores

        for simulation in simulations:
            check_simulation(simulation, graph)
            check_no_loads(simulation.schedule, "cost noise")
        rng, variance = np.random.default_rng(self.seed), log1p(self.deviation**2)
        unit = 2.0 ** (ONE_PASS_BITS - frexp(graph.needed_compute)[1])
        rows = [runs_beyond_pass(simulation) for simulation in simulations]
        columns = [np.flatnonzero(row) for row in rows]
        data = np.concatenate([np.empty(0), *(row[column] for row, column in zip(rows, columns, strict=True))])
        indices, indptr = np.concatenate([np.empty(0, int), *columns]), indptr_of(list(map(len, columns)))
        extra = csr_array((data, indices, indptr), shape=(len(rows), graph.n_nodes)).tocsc()
        total, one_pass = np.zeros((len(simulations), self.samples)), np.zeros(self.samples)
        portion = max(1, ENTRIES // self.samples)
        for begin in range(0, graph.n_nodes, portion):
            nodes = slice(begin, min(begin + portion, graph.n_nodes))
            costs = rng.standard_normal((nodes.stop - begin, self.samples))
            costs *= sqrt(variance)  # a mean other than 1, which all factors share, is divided out below
            np.exp(costs, out=costs)
            costs *= graph.compute[nodes, None] * unit
            np.rint(costs, out=costs)
            total += extra[:, nodes].tocsr() @ costs
            one_pass += costs[graph.needed[nodes]].sum(axis=0)
        return np.divide(total, one_pass, out=np.zeros_like(total), where=one_pass > 0)


def runs_beyond_pass(simulation: Simulation) -> Int64:
    """int64[n]: runs of each node beyond one pass; all runs, if no output needs it."""
    return simulation.runs - simulation.graph.needed


def n_compared(graph: ComputationGraph) -> int:
    """The maximum number of candidates to compare: fewer for long schedules."""
    return max(MIN_COMPARED, min(MAX_COMPARED, COMPARED_NODES // max(1, graph.n_nodes)))


def quantile(overheads: Float64) -> Float64:
    """float64[k]: the 90 % quantile of each row, the lowest sample that nine in ten samples do not exceed.

    Examples
    --------
    >>> quantile(np.arange(20.0).reshape(2, 10)).tolist()
    [8.0, 18.0]
    """
    place = (9 * overheads.shape[1] + 9) // 10 - 1
    return np.partition(overheads, place, axis=1)[:, place]


def choose_robust(
    problem: Problem, candidates: Sequence[Candidate], noise: CostNoise
) -> tuple[Candidate, dict[str, Any]]:
    """Return the candidate of the lowest 90 % quantile among those that fit; of equals the one that ranks first.

    Of hundreds of candidates about as good as each other one has the lowest quantile by chance. So the first half of
    the samples chooses one, and it replaces the candidate that ranks first, at the costs of the graph, only if it is
    better in the second half, and in all, too. Where the lowest peak is wanted, those of the lowest peak are compared.
    The record has the quantiles of both.

    Examples
    --------
    >>> from remat_algos.ir.budget import Budget
    >>> from remat_algos.schedule.schedule import Schedule
    >>> from remat_algos.solvers.candidates import evaluated
    >>> graph = ComputationGraph.from_edges([(0, 1), (1, 2), (1, 3)])
    >>> candidates = [evaluated(graph, Schedule(order)) for order in ([0, 1, 2, 0, 1, 3], [0, 1, 2, 3])]
    >>> choose_robust(Problem.of(graph, Budget("100%")), candidates, CostNoise(0.2))[0].schedule.order.tolist()
    [0, 1, 2, 3]
    """
    graph = problem.graph
    distinct: dict[bytes, Candidate] = {}  # by how often each node runs, which is all that costs depend on
    for each in sorted(candidates, key=lambda each: (*problem.rank(each), -(each.bound or 0))):
        if problem.fits(each):
            distinct.setdefault(each.simulated.runs.tobytes(), each)
    ranked = list(distinct.values())
    if problem.minimizes_peak:
        ranked = [each for each in ranked if each.figures[0] == ranked[0].figures[0]]
    overheads = noise.overheads(graph, [each.simulated for each in ranked])
    first, second = np.array_split(overheads, 2, axis=1)
    quantiles, best = quantile(overheads), int(np.argmin(quantile(first)))  # the first of equals
    confirmed = quantile(second[[0, best]])
    if not (quantiles[best] < quantiles[0] and confirmed[1] < confirmed[0]):
        best = 0
    one_pass = graph.needed_compute
    record: dict[str, Any] = {
        "noise": noise.deviation,
        "samples": noise.samples,
        "seed": noise.seed,
        "candidates": len(ranked),
        "quantile": float(quantiles[best]),
        "nominal_overhead": ranked[0].simulated.overhead / one_pass if one_pass else 0.0,
        "nominal_quantile": float(quantiles[0]),
    }
    return ranked[best], record
