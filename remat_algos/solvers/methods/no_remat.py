"""The baseline without rematerialization."""

from collections.abc import Iterator

from remat_algos.context import Clock
from remat_algos.ir.graph import ComputationGraph
from remat_algos.schedule.emission import baseline
from remat_algos.solvers.registry import Candidate, Task, solver


@solver(price=0)
def no_remat(graph: ComputationGraph, task: Task, clock: Clock) -> Iterator[Candidate]:
    """Run every needed node once: the baseline, to which percentages of memory and compute refer.

    Nodes run in id order, except updates: an update of a parameter runs after all nodes that read the parameter.
    """
    run = baseline(graph)
    yield Candidate(run.schedule, simulation=run if graph.mark is None else None)
