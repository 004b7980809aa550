"""No rematerialization."""

from collections.abc import Iterator

from remat_algos.context import Clock
from remat_algos.ir.graph import ComputationGraph
from remat_algos.schedule.emission import baseline
from remat_algos.solvers.registry import Candidate, Task, solver


@solver(price=0)
def no_remat(graph: ComputationGraph, task: Task, clock: Clock) -> Iterator[Candidate]:
    """Baseline without recomputation; percentages refer to its peak.

    Every needed node runs once, in id order; updates of parameters run after everything that reads the parameters.
    """
    run = baseline(graph)
    yield Candidate(run.schedule, simulation=run if graph.mark is None else None)
