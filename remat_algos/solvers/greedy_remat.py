"""Greedy rematerialization, as a compiler does it."""

from dataclasses import replace
from functools import partial
from typing import Any

from remat_algos.ir.arrays import as_whole
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.wording import shortened
from remat_algos.solvers.greedy_walks import BLOCKS, Walks
from remat_algos.solvers.registry import Progress, Solution, any_graph, solver
from remat_algos.solvers.selection import Plans, best, undominated

WALKED_A_SECOND = 500_000_000  # pairs of nodes on which a walk may take a second
LEAST_TIME = 0.1


@solver(paper="kumar2019", needs=any_graph)
def greedy_remat(
    graph: ComputationGraph,
    limit: int | None,
    *,
    max_block: int | None = None,
    time_limit: float | None = None,
    progress: Progress | None = None,
) -> Solution:
    """Scan the order; where memory exceeds the limit, drop a value and recompute it before its next use.

    Compute costs are ignored. Scans with many internal limits are simulated, whatever limit is given.

    Parameters
    ----------
    max_block : int, optional
        Maximum number of consecutive runs that are postponed together: 1 is the paper's algorithm, more is what
        compilers do. By default the best of 1, 2, 4, ..., 64.

    References
    ----------
    kumar2019, section 4, GreedyRemat.

    Examples
    --------
    Figure 1 of the paper:

    >>> names = [("A", "B"), ("A", "C"), ("B", "D"), ("C", "D"), ("A", "E"), ("D", "E")]
    >>> graph = ComputationGraph.from_edges(names)
    >>> greedy_remat(graph, 3).schedule.names(graph)
    ['A', 'B', 'C', 'D', 'A', 'E']
    """
    return _told(best(graph, _plans(graph, max_block), limit, _time_for(graph, time_limit), progress))


def frontier(
    graph: ComputationGraph,
    *,
    max_block: int | None = None,
    time_limit: float | None = None,
    progress: Progress | None = None,
) -> list[Solution]:
    """Pareto frontier of its plans in peak and compute; takes the options of `greedy_remat`."""
    time_limit = _time_for(graph, time_limit)
    return [_told(found) for found in undominated(graph, _plans(graph, max_block), time_limit, progress)]


def _told(found: Solution) -> Solution:
    """Without the count of walks that were listed and not needed, as it is not known before how many there will be."""
    return replace(found, details={k: v for k, v in found.details.items() if k not in ("listed", "given_up")})


def _plans(graph: ComputationGraph, max_block: int | None) -> Plans:
    """As many plans as there may be walks; whichever is asked for takes the next walk."""
    if max_block is not None and (as_whole(max_block) or 0) < 1:
        raise ValueError(f"max_block is {shortened(repr(max_block))}; give a whole number of runs, 1 or more")
    walks = Walks(graph, BLOCKS if max_block is None else (int(max_block),))
    plans: list[Any] = []
    for _ in range(walks.most):
        details: dict[str, Any] = {}
        plans.append((partial(walks.take, details), details))
    return plans


def _time_for(graph: ComputationGraph, time_limit: float | None) -> float | None:
    """The time limit; 0, which leaves one pass, where a walk, which cannot be stopped halfway, may take longer."""
    long = time_limit is not None and graph.n_nodes**2 > WALKED_A_SECOND * max(time_limit, LEAST_TIME)
    return 0.0 if long else time_limit
