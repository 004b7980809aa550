"""Upper and lower bounds on the treewidth."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from remat_algos.arguments import as_seed, checked_arguments
from remat_algos.context import SHORTEST, Clock, Progress, Stop, until_stopped
from remat_algos.errors import ArgumentError, ArgumentTypeError, GraphError, about
from remat_algos.ir.arrays import Int32, brief, by_fields, frozen
from remat_algos.kernels.elimination import contraction_width, minimum_width_order, reduce_safely
from remat_algos.structure import tuning
from remat_algos.structure.elimination import (
    RATIOS,
    RULES,
    Elimination,
    Run,
    UndirectedGraph,
    elimination_of,
    partial_elimination,
)


def contraction_bound(graph: UndirectedGraph) -> int:
    """Return a lower bound on the treewidth: the largest minimum degree over a sequence of contractions (MMD+).

    Each step contracts a vertex of minimum degree into the neighbour with the fewest common neighbours. A contracted
    graph is a minor of the original graph, so its treewidth is not larger. The minimum degree of a contracted graph is
    a lower bound on its treewidth. The bound is -1 if there are no vertices.
    """
    return contraction_width(graph.indptr, graph.indices) if graph.n_vertices else -1


@dataclass(frozen=True, slots=True, eq=False)
class Reduction:
    """The vertices that can be eliminated first without loss, and the rest; the treewidth is at least `low`."""

    order: Int32
    low: int
    remaining: UndirectedGraph
    vertices: Int32

    def __post_init__(self) -> None:
        object.__setattr__(self, "order", frozen(self.order, np.int32, "order"))
        object.__setattr__(self, "vertices", frozen(self.vertices, np.int32, "vertices"))


def reduce(graph: UndirectedGraph, low: int | None = None) -> Reduction:
    """Eliminate simplicial vertices, and almost simplicial vertices whose degree is at most the lower bound `low`."""
    if low is None:
        low = contraction_bound(graph)
    order, low, vertices, edges = reduce_safely(graph.indptr, graph.indices, low)
    return Reduction(order, low, UndirectedGraph.from_edges(vertices.size, edges), vertices)


def minimum_width(graph: UndirectedGraph) -> Elimination:
    """Find an elimination order of minimum width for at most 16 vertices, by dynamic programming over vertex sets."""
    n = graph.n_vertices
    if n > tuning.MAX_EXACT:
        raise GraphError(
            "the graph has {n} vertices; the exact algorithm handles at most {max_exact}; use bounds instead",
            n=n,
            max_exact=tuning.MAX_EXACT,
        )
    masks = [sum(1 << u for u in graph.neighbours(v)) for v in range(n)]
    return elimination_of(graph, minimum_width_order(np.array(masks, np.uint64)))


@dataclass(frozen=True, slots=True, eq=False)
class WidthBounds:
    """The smallest width that a search reached, and a lower bound on the treewidth.

    Parameters
    ----------
    elimination : Elimination
        The order with the smallest width.
    lower_bound : int
    stop : Stop
        How the search ended; PROVEN if the width equals the lower bound.
    details : mapping
        `rule` and `seed` of the best order, and the number of `orders` tried.
    """

    elimination: Elimination
    lower_bound: int
    stop: Stop = Stop.DONE
    details: Mapping[str, Any] = field(default_factory=dict)

    __repr__ = brief
    __reduce__ = by_fields

    def __post_init__(self) -> None:
        if not isinstance(self.elimination, Elimination):
            raise ArgumentTypeError(
                "elimination has type {kind!w}; give an Elimination", kind=type(self.elimination).__name__
            )

    @property
    def width(self) -> int:
        """The smallest width that was reached."""
        return self.elimination.width

    @property
    def proven(self) -> bool:
        """True if the width is proved to equal the treewidth."""
        return self.width == self.lower_bound


@checked_arguments
def width_bounds(
    graph: UndirectedGraph,
    *,
    seeds: int = 8,
    exact: bool = False,
    reduced: bool = True,
    time_limit: float | None = None,
    progress: Progress | None = None,
    seed: int = 0,
) -> WidthBounds:
    """Bound the treewidth from above by elimination orders, and from below by contraction.

    Each rule is tried first with its default tie-breaking. Then `seeds` orders with random tie-breaking are tried, with
    the rules in rotation. An order is abandoned as soon as it cannot improve on the best order. The search ends if the
    bounds are equal.

    Parameters
    ----------
    graph : UndirectedGraph
    seeds : int
        Number of orders with random tie-breaking.
    exact : bool
        Require the exact treewidth. It can be computed if the bounds are equal, or if at most 16 vertices remain after
        `reduce`.
    reduced : bool
        Apply `reduce` first; if at most 16 vertices remain, solve them exactly.
    time_limit : float, optional
        Time limit in seconds. If the first order takes longer, its remaining vertices form one bag.
    progress : callable, optional
        A `Progress` function, called with the share of the orders that were tried and the smallest width.
    seed : int
        The i-th order with random tie-breaking uses the seed `seed + i`.

    Returns
    -------
    WidthBounds
        After an interrupt, the best result. If the first order was interrupted, its remaining vertices form one bag.

    Raises
    ------
    GraphError
        If `exact` is True and the graph is too large.
    ValueError
        If `seeds` is negative.

    Examples
    --------
    A grid of three by three, whose minimum degree is 2:

    >>> across = [(v, v + 1) for v in range(9) if v % 3 < 2]
    >>> grid = UndirectedGraph.from_edges(9, across + [(v, v + 3) for v in range(6)])
    >>> bounds = width_bounds(grid)
    >>> bounds.width, bounds.lower_bound, bounds.proven
    (3, 3, True)
    """
    if seeds < 0:
        raise about("seeds", ArgumentError("seeds is {seeds}; give 0 or more", seeds=seeds))
    rules = ("fill", *RATIOS, "degree")
    first = as_seed(seed)
    by_chance = ((rules[i % len(rules)], first + i) for i in range(seeds))
    orders = [*((rule, None) for rule in RULES + RATIOS), *by_chance]
    clock = Clock(time_limit, progress)
    low = _quick_bound(graph, clock)
    if not (exact or reduced):
        return _Search(graph, low, clock).run(orders)
    start = reduce(graph, low)
    if start.remaining.n_vertices <= tuning.MAX_EXACT:
        best = minimum_width(start.remaining)
        bounds = WidthBounds(best, max(start.low, best.width), details={"rule": "exact", "seed": None, "orders": 0})
    else:
        low = max(start.low, _quick_bound(start.remaining, clock))
        bounds = _Search(start.remaining, low, clock).run(orders)
    order = np.concatenate([start.order, start.vertices[bounds.elimination.order]])
    bounds = replace(bounds, elimination=partial_elimination(graph, order))
    if exact and bounds.stop.complete and not bounds.proven:
        error = GraphError(
            "the treewidth is between {low} and {width}; safe reductions leave {n_vertices} vertices, but the exact "
            "algorithm handles at most {max_exact}; use bounds",
            low=bounds.lower_bound,
            width=bounds.width,
            n_vertices=start.vertices.size,
            max_exact=tuning.MAX_EXACT,
        )
        raise about("exact", error)
    return bounds


def _quick_bound(graph: UndirectedGraph, clock: Clock) -> int:
    work = graph.n_vertices + graph.n_edges
    if clock.left is not None and work > tuning.CONTRACTED_A_SECOND * max(SHORTEST, clock.left):
        return int(np.diff(graph.indptr).min(initial=graph.n_vertices)) if graph.n_vertices else -1
    return contraction_bound(graph)


Order = tuple[str, int | None]
"""A rule, and the seed for random tie-breaking (None for the default tie-breaking)."""


class _Search:
    def __init__(self, graph: UndirectedGraph, low: int, clock: Clock) -> None:
        self.graph = graph
        self.low = low
        self.clock = clock
        self.best: Elimination | None = None
        self.chosen: Order = ("", None)
        self.unfinished: Run | None = None  # run of the first order

    def run(self, orders: Sequence[Order]) -> WidthBounds:
        n_tried = 0
        self.clock.stage(len(orders), "orders")
        with until_stopped() as ending:
            for order in orders:
                if self.best is not None:
                    if self.best.width <= self.low:
                        ending.stop = Stop.PROVEN
                        break
                    self.clock.progress(n_tried, f"best {self.best.width} · bound {self.low}")
                self.eliminate(order)
                n_tried += 1
            self.clock.finish()
        if self.best is None:
            eliminated = np.arange(min(1, self.graph.n_vertices), dtype=np.int32)
            if self.unfinished is not None:
                eliminated = self.unfinished.partial_order()
            self.best, self.chosen, n_tried = partial_elimination(self.graph, eliminated), orders[0], 1
        details = {"rule": self.chosen[0], "seed": self.chosen[1], "orders": n_tried}
        return WidthBounds(self.best, self.low, ending.stop, details)

    def eliminate(self, order: Order) -> None:
        rule, ties = order
        random = None if ties is None else np.random.default_rng(ties)
        run = Run(self.graph, rule, random, None if self.best is None else self.best.width)
        self.unfinished = run if self.best is None else None
        while run.go_on():
            self.clock.check()
        if run.done:
            self.best, self.chosen = run.elimination(), order
