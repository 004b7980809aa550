"""Recursion on balanced separators of a tree decomposition."""

from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

from remat_algos.ir.arrays import as_whole
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.wording import shortened
from remat_algos.solvers.registry import solver
from remat_algos.solvers.selection import Plans, best, undominated
from remat_algos.solvers.separator_plans import LENGTH_LIMIT, WIDEST, Part, Trees, separator_plans, time_for
from remat_algos.structure.elimination import Run
from remat_algos.structure.separators import SeparatorTree
from remat_algos.structure.tree_decomposition import TreeDecomposition

RULES = ("fill", "degree", "density")
ORDERS = 16
MOST_NODES = 40_000  # in all decompositions of a large graph


@solver(paper="kumar2019")
def twremat(
    graph: ComputationGraph,
    limit: int | None,
    *,
    recursion_limit: int | None = None,
    batching: bool | None = None,
    orders: int | None = None,
    length_limit: float = LENGTH_LIMIT,
    seed: int = 0,
    time_limit: float | None = None,
    progress: Progress | None = None,
) -> Solution:
    """Run the nodes of a balanced separator one by one; recompute what each needs from the components it separates.

    Parameters
    ----------
    recursion_limit : int, optional
        k of TwRemat(k): components of fewer bags are run in one pass; 1 is the paper's algorithm, a k above the number
        of bags is one pass over the whole graph. By default several values are tried and the best is taken.
    batching : bool, optional
        Whether a component, when visited, computes everything that will be requested from it and that it can compute
        by then; the paper's algorithm does not. By default whichever is better.
    orders : int, optional
        Number of elimination orders to try: by minimum fill-in, minimum degree, minimum density of missing edges, then
        by these rules with random ties. By default 16, fewer on graphs of less than 128 or more than 2,500 nodes.
    length_limit : float
        Maximum length of a schedule, in runs per node; longer ones are abandoned and counted in the plan's details
        (`given_up`).

    References
    ----------
    kumar2019, algorithm 1, as corrected in docs/algorithms/twremat.md, and section 4.3.

    Examples
    --------
    >>> chain = ComputationGraph.from_edges([(i, i + 1) for i in range(15)] + [(i, 15 - i) for i in range(7)])
    >>> found = twremat(chain, None, recursion_limit=1)
    >>> found.details["width"], found.simulation.peak_memory, len(found.schedule)
    (2, 6, 20)
    """
    plans = _plans(graph, recursion_limit, batching, orders, length_limit, seed)
    return best(graph, plans, limit, time_for(graph, time_limit), progress)


def frontier(
    graph: ComputationGraph,
    *,
    seed: int = 0,
    time_limit: float | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> list[Solution]:
    """Pareto frontier of its plans in peak and compute; takes the options of `twremat`."""
    return undominated(graph, _plans(graph, seed=seed, **options), time_for(graph, time_limit), progress)


def _plans(
    graph: ComputationGraph,
    recursion_limit: int | None = None,
    batching: bool | None = None,
    orders: int | None = None,
    length_limit: float = LENGTH_LIMIT,
    seed: int = 0,
) -> Plans:
    if orders is None:
        orders = max(2, min(ORDERS, graph.n_nodes // 8, MOST_NODES // max(1, graph.n_nodes)))
    elif (as_whole(orders) or 0) < 1:
        raise ValueError(f"orders is {shortened(repr(orders))}; give a whole number of elimination orders, 1 or more")
    return separator_plans(_trees(graph, int(orders), seed), recursion_limit, batching, length_limit)


def _trees(graph: ComputationGraph, orders: int, seed: int) -> Iterator[tuple[Trees, Part]]:
    """Trees of separators: of each order, balanced or with few bytes, of all nodes or without the weightless."""
    whole, simple = Part(graph, simplified=False), Part(graph, simplified=True)
    for part in (simple, whole) if simple.ahead.size else (whole,):
        about: dict[str, Any] = {"simplified": False} if part is whole and simple.ahead.size else {}
        for number in range(orders):
            decomposition = cache(partial(_decomposition, part, number, seed))
            for separators in ("balanced", "cheapest"):
                rule, chance = _rule(number, seed)
                order = rule if chance is None else f"{rule}, seed {chance}"
                chosen = {**about, "order": order, "separators": separators}
                yield Trees(partial(_tree, decomposition, part, separators), chosen), part


def _rule(number: int, seed: int) -> tuple[str, int | None]:
    """The rule of an order, and the seed of its ties: each rule once with its own ties, then with random ones."""
    turn, which = divmod(number, len(RULES))
    return RULES[which], None if turn == 0 else seed + turn - 1


def _decomposition(part: Part, number: int, seed: int) -> TreeDecomposition | None:
    rule, chance = _rule(number, seed)
    run = Run(part.undirected, rule, chance, WIDEST)
    while run.go_on():
        pass
    return TreeDecomposition.of(run.found()).shrunk() if run.done else None


def _tree(
    decomposition: Callable[[], TreeDecomposition | None], part: Part, separators: str
) -> tuple[SeparatorTree, dict[str, Any]] | None:
    found = decomposition()
    if found is None:
        return None
    if separators == "balanced":
        return SeparatorTree.balanced(found, part.nodes.size), {"width": found.width}
    return SeparatorTree.cheapest(found, part.memory), {"width": found.width}
