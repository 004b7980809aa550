"""The three algorithms of kumar2019, and ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from remat_algos.kernels.twremat import PLAIN

from docs.reproductions.case import NO_REMAT, Case
from remat_algos.context import Progress
from remat_algos.errors import GraphError
from remat_algos.ir.graph import ComputationGraph
from remat_algos.schedule.emission import baseline
from remat_algos.schedule.simulation import Simulation, simulate
from remat_algos.search.solve import solve
from remat_algos.solvers.recursion import Part
from remat_algos.structure.decompositions import TreeDecomposition
from remat_algos.structure.elimination import eliminate
from remat_algos.structure.separators import SeparatorTree

GREEDY, TWREMAT = "GreedyRemat", "TWRemat"  # the paper's names of its algorithms
OURS: Mapping[str, Mapping[str, Any]] = {  # solvers and their options
    GREEDY: {"solver": "greedy_remat", "max_block": 1, "raw": True},
    "greedy_remat": {"solver": "greedy_remat"},
    "twremat": {"solver": "twremat"},
}
LONGEST = 1_000  # runs of TWRemat for each node


class AlgorithmOne:
    """TWRemat(k) to the letter, except for its error: minimum fill-in, Jordan's separators, all nodes.

    Parameters
    ----------
    graph : ComputationGraph

    Examples
    --------
    >>> from docs.reproductions.kumar2019.networks import training_graph
    >>> paper = AlgorithmOne(training_graph("model:feed_forward?depth=50&batch=1024&optimizer=sgd"))
    >>> paper.decomposition.n_bags
    406
    >>> [len(paper.simulation(k).schedule) for k in (1, 32, 407)]
    [1068, 1028, 408]
    """

    def __init__(self, graph: ComputationGraph) -> None:
        self.graph = graph
        self.part = Part(graph, simplified=False)
        self.decomposition = TreeDecomposition.of(eliminate(self.part.undirected)).reduce()
        self.tree = SeparatorTree.balanced(self.decomposition, self.part.nodes.size)

    def simulation(self, k: int = 1) -> Simulation:
        """The schedule, simulated; parts of fewer than k bags are run in one pass.

        Parameters
        ----------
        k : int

        Raises
        ------
        GraphError
            If the schedule grows too long.
        """
        schedule = self.part.schedule(self.tree, k, PLAIN, LONGEST * max(1, self.part.nodes.size))
        if schedule is None:
            raise GraphError(
                f"TWRemat({k}) runs more than {LONGEST:,} times as many nodes as the graph has; take a larger k"
            )
        return simulate(self.graph, schedule)


def measured(label: str, size: int, graph: ComputationGraph, progress: Progress | None = None) -> Case:
    """The lowest peaks of the paper's algorithms and of ours.

    Parameters
    ----------
    label : str
    size : int
        Number that grows from case to case.
    graph : ComputationGraph
    progress : callable, optional
    """
    lowest = {name: solved(graph, "least", f"{label}, {name}", progress, **given) for name, given in OURS.items()}
    simulations = {NO_REMAT: baseline(graph), GREEDY: lowest.pop(GREEDY), TWREMAT: AlgorithmOne(graph).simulation()}
    return Case(label, size, graph, simulations | lowest)


def solved(
    graph: ComputationGraph, budget: str, about: str, progress: Progress | None = None, **options: Any
) -> Simulation:
    """The plan of a solver within a budget.

    Raises `Interrupted` if it was stopped: its best so far is not a result.
    """
    told = progress and (lambda done, total, what: progress(done, total, f"{about}: {what}"))
    plan = solve(graph, budget, progress=told, **options)
    plan.report.stop.check("interrupted; nothing was written")
    return plan.simulation


def length(simulation: Simulation) -> float:
    """Compute of a schedule, in times of one pass."""
    return round(simulation.compute / max(1, simulation.graph.needed_compute), 3)


def share(simulation: Simulation) -> float:
    """Peak of a schedule, relative to that without rematerialization."""
    return round(simulation.peak_memory / max(1, baseline(simulation.graph).peak_memory), 4)
