"""Batched recursion on a path decomposition."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from remat_algos.ir.graph import ComputationGraph
from remat_algos.solvers.registry import solver
from remat_algos.solvers.selection import Plans, best, undominated
from remat_algos.solvers.separator_plans import LENGTH_LIMIT, WIDEST, Part, Trees, separator_plans, time_for
from remat_algos.structure.path_decomposition import PathDecomposition, greedy_layout, separation
from remat_algos.structure.separators import SeparatorTree


@solver(paper="kumar2019")
def pathremat(
    graph: ComputationGraph,
    limit: int | None,
    *,
    recursion_limit: int | None = None,
    batching: bool | None = True,
    length_limit: float = LENGTH_LIMIT,
    seed: int = 0,
    time_limit: float | None = None,
    progress: Progress | None = None,
) -> Solution:
    """Split a path decomposition at its middle bag; recompute what its nodes need from both sides, in batches.

    The algorithm of the paper's section 5 is in a supplement that could not be found; this one follows the same plan,
    with only the guarantees that docs/algorithms/pathremat.md states.

    Parameters
    ----------
    recursion_limit : int, optional
        Stretches of fewer bags are run in one pass. By default several values are tried and the best is taken.
    batching : bool, optional
        Whether a side, when visited, computes everything that will be requested from it and that it can compute by
        then.
    length_limit : float
        Maximum length of a schedule, in runs per node; longer ones are abandoned and counted in the plan's details
        (`given_up`).

    References
    ----------
    kumar2019, section 5, in its place.

    Examples
    --------
    >>> from remat_algos.ir.differentiate import differentiate
    >>> chain = differentiate(ComputationGraph.from_edges([(i, i + 1) for i in range(8)]))
    >>> found = pathremat(chain, 8)
    >>> found.details["pathwidth"], found.simulation.peak_memory, found.simulation.overhead
    (2, 8, 6)
    """
    plans = _plans(graph, recursion_limit, batching, length_limit, seed)
    return best(graph, plans, limit, time_for(graph, time_limit), progress)


def frontier(
    graph: ComputationGraph,
    *,
    seed: int = 0,
    time_limit: float | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> list[Solution]:
    """Pareto frontier of its plans in peak and compute; takes the options of `pathremat`."""
    return undominated(graph, _plans(graph, seed=seed, **options), time_for(graph, time_limit), progress)


def _plans(
    graph: ComputationGraph,
    recursion_limit: int | None = None,
    batching: bool | None = True,
    length_limit: float = LENGTH_LIMIT,
    seed: int = 0,
) -> Plans:
    return separator_plans(_trees(graph, seed), recursion_limit, batching, length_limit)


def _trees(graph: ComputationGraph, seed: int) -> Iterator[tuple[Trees, Part]]:
    """The middle bags of one path decomposition, of all nodes and without the weightless."""
    whole, simple = Part(graph, simplified=False), Part(graph, simplified=True)
    for part in (simple, whole) if simple.ahead.size else (whole,):
        about = {} if part is simple or not simple.ahead.size else {"simplified": False}
        yield Trees(partial(_middle, part, seed), about), part


def _middle(part: Part, seed: int) -> tuple[SeparatorTree, dict[str, Any]] | None:
    layout = greedy_layout(part.undirected, seed=seed)
    if separation(part.undirected, layout) > WIDEST:
        return None
    path = PathDecomposition.of(part.undirected, layout)
    return SeparatorTree.middle(path, part.nodes.size), {"pathwidth": path.width}
