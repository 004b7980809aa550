"""The dynamic program over lower sets that plans with what is held when the plan is run."""

from remat_algos.ir.graph import ComputationGraph
from remat_algos.schedule.blocks import block_figures
from remat_algos.schedule.simulation import simulate
from remat_algos.solvers.chains import Chains, Point
from remat_algos.solvers.no_remat import no_remat
from remat_algos.solvers.registry import Progress, Solution, solver, training_graph
from remat_algos.solvers.sweep import Candidate, Sweep
from remat_algos.solvers.watch import OutOfTime, Watch
from remat_algos.structure.lower_set_families import CAP, LowerSetFamily, lower_set_family


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
        As in `lower_set_family`; the blocks of all pairs of the family are simulated.
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
    return _sweep(graph, family, lazy, cap, Watch(time_limit, progress)).best(limit)


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
    return _sweep(graph, family, lazy, cap, Watch(time_limit, progress)).frontier()


def _sweep(graph: ComputationGraph, family: str, lazy: bool | None, cap: int, watch: Watch) -> Sweep:
    """Chains for all promises, the cheapest first."""
    if lazy not in (True, False, None):
        raise ValueError(f"lazy is {lazy!r}; use True, False or None")
    sets = lower_set_family(graph, family, cap=cap)
    found: list[Candidate] = []
    complete = True
    try:
        for each in (True, False) if lazy is None else (lazy,):
            for point in _chains(sets, each, watch).frontier():
                found.append(_candidate(sets, point, family, each))
    except OutOfTime:
        complete = False
    # one block keeps everything
    found = found or [_candidate(sets, Point(0, 0, []), family, lazy is not False)]
    return Sweep(graph, found, watch, complete)


def _chains(sets: LowerSetFamily, lazy: bool, watch: Watch) -> Chains:
    """By blocks as they are run; what holds more than `no_remat` does is left out."""
    most = simulate(sets.graph, no_remat(sets.graph, None)).peak_memory
    figures = block_figures(sets.graph, sets.on_graph(), *sets.pairs, lazy=lazy, most=most)
    return Chains.by_blocks(sets, figures, most, watch)


def _candidate(sets: LowerSetFamily, point: Point, family: str, lazy: bool) -> Candidate:
    chain = sets.chain(point.rows)
    details = {"family": family, "lower_sets": len(sets), "promise": point.peak, "blocks": len(chain)}
    return Candidate(chain, True, lazy, lambda: details)
