"""Recursion on balanced separators of a tree decomposition (kumar2019)."""

from collections.abc import Iterator

import numpy as np

from remat_algos.context import Clock
from remat_algos.errors import ArgumentError
from remat_algos.ir.arrays import as_whole
from remat_algos.ir.graph import ComputationGraph
from remat_algos.solvers import tuning
from remat_algos.solvers.recursion import Part, Tree, by_recursion
from remat_algos.solvers.registry import Candidate, Task, solver
from remat_algos.structure.decompositions import TreeDecomposition
from remat_algos.structure.elimination import Run
from remat_algos.structure.separators import SeparatorTree

ORDER_RULES = ("fill", "degree", "density")


@solver(paper="kumar2019", price=0.2)
def twremat(
    graph: ComputationGraph,
    task: Task,
    clock: Clock,
    *,
    recursion_limit: int | None = None,
    batching: bool | None = None,
    orders: int | None = None,
    length_limit: float = tuning.LENGTH_LIMIT,
) -> Iterator[Candidate]:
    """Run the nodes of a balanced separator in turn; before each, recompute its inputs in the surrounding parts.

    Parameters
    ----------
    recursion_limit : int, optional
        Number k of TwRemat(k): components of fewer than k bags are run in one pass. 1 gives the paper's algorithm, and
        a number above the number of bags gives one pass over the whole graph. By default several numbers are tried.
    batching : bool, optional
        In each visit to a component, also compute values for later readers if their inputs are available. The paper
        does not do this. By default both are tried.
    orders : int, optional
        Number of elimination orders to try. The rules are minimum fill-in, minimum degree and minimum density of
        missing edges. They are used again with ties broken at random. The default is 16; it is smaller on graphs of
        fewer than 128 or more than 2,500 nodes.
    length_limit : float
        Maximum length of a schedule, in runs per node. Longer schedules are abandoned; the plan's details count them as
        `skipped`.

    References
    ----------
    kumar2019, algorithm 1, as corrected in docs/theory/separators.md, and section 4.3.
    """
    if orders is None:
        orders = max(2, min(tuning.MAX_ORDERS, graph.n_nodes // 8, tuning.MAX_TREE_NODES // max(1, graph.n_nodes)))
    elif (as_whole(orders) or 0) < 1:
        raise ArgumentError("orders is {orders!r}; give a whole number of elimination orders, 1 or more", orders=orders)
    n_orders = int(orders)

    def trees(part: Part) -> Iterator[Tree]:
        """Yield two trees for each elimination order: one of balanced separators, one of separators with few bytes."""
        for number in range(n_orders):
            turn, which = divmod(number, len(ORDER_RULES))
            rule, seed = ORDER_RULES[which], task.seed + turn - 1
            # The first turn breaks ties by the default rule; later turns break them at random.
            order, ties = (f"{rule}, seed {seed}", np.random.default_rng(seed)) if turn else (rule, None)
            run = Run(part.undirected, rule, ties, tuning.MAX_WIDTH)
            while run.go_on():
                clock.check()
            if run.done:
                decomposition = TreeDecomposition.of(run.elimination()).reduce()
                about = {"order": order, "width": decomposition.width}
                yield SeparatorTree.balanced(decomposition, part.nodes.size), {**about, "separators": "balanced"}
                yield SeparatorTree.cheapest(decomposition, part.memory), {**about, "separators": "cheapest"}
            else:
                yield from 2 * [(None, {})]

    return by_recursion(
        graph,
        trees,
        2 * n_orders,
        task.limit,
        clock,
        recursion_limit=recursion_limit,
        batching=batching,
        length_limit=length_limit,
    )
