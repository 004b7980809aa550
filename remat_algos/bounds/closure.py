"""The closure bound on the compute of every schedule within a memory limit."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from remat_algos.arguments import checked_arguments
from remat_algos.bounds.bound import COMPUTE, LowerBound, Prices, check_moment
from remat_algos.bounds.memory import PATHS_PORTION, forced_bytes, moments_above, runs_once
from remat_algos.context import WHOLE
from remat_algos.errors import ArgumentError
from remat_algos.ir.arrays import Int32, whole
from remat_algos.ir.graph import ComputationGraph
from remat_algos.kernels.closure import ClosureSearch

PATIENCE = 250_000_000  # work without a better moment before the search stops
MAX_PRICE = MAX_LIMIT = 2**62  # above all sums of costs and of bytes
NEARLY_EQUAL = 1024  # slightly lower or higher prices differ by 1 / NEARLY_EQUAL


@dataclass(frozen=True, slots=True, eq=False)
class ClosureCut:
    """The relaxed moment behind a bound: values live when `node` runs first, and nodes recomputed later.

    `forced` bytes are live in every schedule: the node's workspace and `forced_values`, those that it reads or
    computes, outputs, and values of nodes that run only once. The cut keeps `kept` live besides, and recomputes
    `recomputed` later; `run_before` have run although the node does not need them. All ids ascend.
    """

    node: int
    forced: int
    forced_values: Int32
    kept: Int32
    recomputed: Int32
    run_before: Int32


@checked_arguments
def overhead_bound(
    graph: ComputationGraph,
    limit: int | None,
    *,
    start: LowerBound | None = None,
    look: Callable[[], object] | None = None,
) -> LowerBound:
    """Compute the closure bound: a lower bound on the compute of schedules with a peak of at most `limit`.

    When node v runs for the first time, all nodes that it needs have run, and no node that needs it has; others may
    have. Each value that was made before and is read later is live at that step, or its node is recomputed. The
    cheapest way to keep within the limit at that step alone, over all choices of the others, is a lower bound on the
    overhead, for any order and any number of recomputations; here with a price on each byte instead of the limit, which
    makes it a minimum cut.

    Parameters
    ----------
    graph : ComputationGraph
    limit : int or None
        Bytes of peak; None: any peak.
    start : LowerBound, optional
        The bound of a nearby limit: its node and price are tried first.
    look : callable, optional
        Called about every ten milliseconds; an exception ends the search.

    Returns
    -------
    LowerBound
        The maximum over v and price. Needed nodes with more live bytes than the limit in id order are tried, those with
        the most first; the rest is left out after many without gain.

    Notes
    -----
    All is in whole numbers, and each rounding makes the bound lower: costs are counted in units of 2**-q (q may be
    negative, where costs are near 2**53), the capacity of an arc is floor(price * bytes), and price * (limit - forced
    bytes) is subtracted from the flow to the sink, which bounds the cut from below. The overhead is rounded up to a
    whole number, then to a multiple of the greatest common divisor of the costs of nodes that may run again. q is so
    large that the first two roundings matter only where the exact bound is within about 2**-q, for each value of the
    cut, above such a multiple: a lower limit, or another order of the nodes, may there give one step less.

    Examples
    --------
    Backward steps 3, 4, 5 read what the forward steps 0, 1, 2 made. With room for four values one is recomputed.

    >>> edges = [(0, 1), (1, 2), (2, 3), (3, 4), (1, 4), (4, 5), (0, 5)]
    >>> graph = ComputationGraph.from_edges(edges, compute=[2, 2, 2, 4, 4, 4])
    >>> [overhead_bound(graph, limit).amount for limit in (5, 4, 3)]
    [18, 18, 20]
    >>> overhead_bound(graph, 2).infeasible
    True
    """
    bound = LowerBound(graph.needed_compute)
    advance = None if look is None else lambda _: look()
    for higher in closure_bounds(graph, limit, start=start, advance=advance):
        bound = higher
    return bound


def closure_bounds(
    graph: ComputationGraph,
    limit: int | None,
    *,
    start: LowerBound | None = None,
    advance: Callable[[int], object] | None = None,
) -> Iterator[LowerBound]:
    """Yield the increasing bounds on the way to `overhead_bound`, all above one pass.

    `advance` is called about every ten milliseconds, with the completed share of the search, out of `WHOLE`; an
    exception ends the search.
    """
    if limit is not None:
        limit = whole(limit, "limit in bytes")
    if start is not None:
        check_moment(graph, start.nodes, start.prices)
    if limit is None or not graph.needed.any():
        return
    nodes = moments_above(graph, limit)
    if not nodes.size:
        return
    one_pass, forced = graph.needed_compute, forced_bytes(graph)
    most = int(forced.max())
    if most > limit:
        yield LowerBound(one_pass, (int(forced.argmax()),), infeasible=True, forced=most)
        return
    closure = _Closure.of(graph)
    search = closure.search
    search.aim(limit)
    if start is not None and start.prices is not None:
        search.start(start.nodes[0], *closure.scaled(start.prices))
        nodes = np.concatenate([np.array(start.nodes, np.int32), nodes])
    at = best = without_gain = 0
    while at < nodes.size and search.too_large < 0 and without_gain < PATIENCE:
        if advance is not None:
            advance(int(WHOLE * max(at / nodes.size, without_gain / PATIENCE)))
        at = search.visit(nodes, at, PATHS_PORTION)
        without_gain += int(search.work)
        if search.node >= 0 and search.overhead > best:
            best, without_gain = int(search.overhead), 0
            yield LowerBound(one_pass + best, (int(search.node),), closure.prices)
    if search.too_large >= 0:
        yield LowerBound(one_pass, (int(search.too_large),), infeasible=True, forced=int(search.excessive))


def closure_proof(graph: ComputationGraph, limit: int, bound: LowerBound) -> LowerBound:
    """Return the bound that the node and the price of a closure bound prove, by a single cut."""
    closure = _Closure.of(graph)
    node, price = closure.moment(graph, bound)
    closure.search.aim(max(0, min(limit, MAX_LIMIT)))
    closure.search.start(node, *price)
    return replace(bound, amount=graph.needed_compute + int(closure.search.overhead))


@checked_arguments
def closure_cut(graph: ComputationGraph, limit: int, bound: LowerBound) -> ClosureCut | None:
    """Return the cut behind a closure bound: its kept values and recomputed nodes.

    Parameters
    ----------
    graph : ComputationGraph
    limit : int
        Bytes of peak.
    bound : LowerBound

    Returns
    -------
    ClosureCut or None
        The cut with the fewest bytes among those that prove the bound; None for other bounds.

    Examples
    --------
    >>> edges = [(0, 1), (1, 2), (2, 3), (3, 4), (1, 4), (4, 5), (0, 5)]
    >>> graph = ComputationGraph.from_edges(edges, compute=[2, 2, 2, 4, 4, 4])
    >>> cut = closure_cut(graph, 3, overhead_bound(graph, 3))
    >>> cut.node, cut.forced_values.tolist(), cut.kept.tolist(), cut.recomputed.tolist()
    (3, [2, 3], [], [0, 1])
    """
    if bound.prices is None or bound.of != COMPUTE:
        return None
    closure = _Closure.of(graph)
    node, price = closure.moment(graph, bound)
    forced, values, again, live, before = closure.search.side(node, *price)
    return ClosureCut(node, forced, values, live, again, before)


def closure_sides(graph: ComputationGraph, limit: int, bound: LowerBound) -> tuple[Int32, Int32]:
    """Nodes recomputed by the cuts of a closure bound at a slightly lower and a slightly higher price of a byte.

    At the price itself both cuts cost the same, and the limit lies between the bytes that they keep.
    """
    if bound.prices is None:
        raise ArgumentError(
            "the bound has no price: its source is {source!r}; give a closure bound", source=bound.source
        )
    closure = _Closure.of(graph)
    node, _ = closure.moment(graph, bound)
    prices = [Prices(bound.prices.byte * Fraction(NEARLY_EQUAL + each, NEARLY_EQUAL)) for each in (-1, 1)]
    low, high = (closure.search.side(node, *closure.scaled(each))[2] for each in prices)
    return low, high


def forced_values(graph: ComputationGraph, node: int) -> list[int]:
    """Values that are live in every schedule during the first run of a needed node, see `forced_bytes`."""
    check_moment(graph, [node])
    values: Int32 = _Closure.of(graph).search.side(node, 0, 0)[1]
    return values.tolist()


@dataclass(frozen=True, slots=True, eq=False)
class _Closure:
    """The search on a graph, and its unit of cost: 2**-bits units of compute."""

    search: ClosureSearch
    bits: int

    @classmethod
    def of(cls, graph: ComputationGraph) -> "_Closure":
        single = runs_once(graph)
        able = graph.needed & ~single
        parts = graph.n_values + 2  # upper limit of the terms of a sum
        bits = 61 - graph.needed_compute.bit_length() - parts.bit_length()
        bits -= min(16, max(bits - 8, 0))  # prices of bytes that must stay may exceed all costs
        cost = graph.compute << bits if bits >= 0 else graph.compute >> -bits
        step = int(np.gcd.reduce(graph.compute[able])) if able.any() else 0
        cost = np.where(able, cost, 0)
        search = ClosureSearch(
            graph.arrays, single.view(np.uint8), cost, bits=bits, step=max(step, 1), most=2**61 // parts
        )
        return cls(search, bits)

    def moment(self, graph: ComputationGraph, bound: LowerBound) -> tuple[int, tuple[int, int]]:
        """Return the node of a bound and its price of a byte, in units of the search; both are checked."""
        check_moment(graph, bound.nodes, bound.prices)
        return bound.nodes[0], self.scaled(bound.prices or Prices())

    def scaled(self, prices: Prices) -> tuple[int, int]:
        """Return the price of a byte in units of the search, rounded down if too fine."""
        p, shift = prices.fraction
        shift -= self.bits
        p, shift = (p << -shift, 0) if shift < 0 else (p, shift)
        spare = max(0, p.bit_length() - 62, shift - 2**20)
        p, shift = p >> spare, shift - spare
        return (p, shift) if shift >= 0 else (MAX_PRICE, 0)

    @property
    def prices(self) -> Prices:
        """The price of the best bound in units of compute."""
        return Prices(int(self.search.price) / Fraction(2) ** (int(self.search.shift) + self.bits))
