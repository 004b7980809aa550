"""Lower bounds on the compute or time of every schedule within a memory limit, by minimum cuts."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from remat_algos.arguments import checked_arguments
from remat_algos.bounds import tuning
from remat_algos.bounds.bound import COMPUTE, TIME, LowerBound, Prices, check_moment
from remat_algos.bounds.memory import forced_bytes, moments_above
from remat_algos.context import WHOLE
from remat_algos.cost.devices import AnyLink, get_link
from remat_algos.cost.links import LinkTimes
from remat_algos.forks import cached_property
from remat_algos.ir.arrays import Int32, whole
from remat_algos.ir.graph import ComputationGraph, runs_once
from remat_algos.kernels.closure import ClosureSearch

if TYPE_CHECKING:
    from remat_algos.bounds.link_bound import LinkCuts

# Maximum price and limit; both are greater than any sum of costs or bytes.
MAX_PRICE = MAX_LIMIT = 2**62


@dataclass(frozen=True, slots=True, eq=False)
class ClosureCut:
    """The minimum cut that proves a bound: values live at the first run of `node`, and nodes recomputed afterwards.

    `forced` is the number of bytes that are live in every schedule: the workspace of the node and the `forced_values`.
    These are the values that the node reads or computes, outputs, and values of nodes that run only once. Besides them,
    the values in `kept` are live, and the nodes in `recomputed` run again later. The nodes in `run_before` have already
    run, although `node` does not depend on them. All ids ascend.
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
    link: LinkTimes | AnyLink | None = None,
    start: LowerBound | None = None,
    look: Callable[[], object] | None = None,
) -> LowerBound:
    """Return a lower bound on the compute (with a link: the time) of all schedules with a peak up to `limit`.

    At the first run of a node v, all ancestors of v have run and no descendant of v has run; other nodes may have run.
    Take a value that is computed before this step and read after it. Either it is live at the step, or its node is
    recomputed later. Choose for all such values at once, so that the live values fit in the limit at this step. The
    minimum cost of the recomputed nodes is a lower bound on the overhead, for any order and any number of
    recomputations. If the limit is replaced by a price per byte (Lagrangian relaxation), the choice is a minimum cut,
    or equivalently a maximum closure: the closure bound. With a link, a value may also be stored and loaded again at a
    price per link time. This is the linear relaxation of `moment_bound` with one moment.

    Parameters
    ----------
    graph : ComputationGraph
    limit : int or None
        Peak in bytes; None for no limit.
    link : Link, Device, mapping, str, path or LinkTimes, optional
        A link as for `solve`, or the copy times. The link is used at its full rates; plans use those of `link.planned`.
    start : LowerBound, optional
        A bound for a nearby limit; its node and prices are tried first.
    look : callable, optional
        Called about every ten milliseconds, or with a link before each node; an exception stops the search.

    Returns
    -------
    LowerBound
        The highest bound over the nodes v and the prices that are tried. The nodes tried are those at which the id
        order has more live bytes than the limit, in order of decreasing bytes. The search stops when many consecutive
        nodes do not raise the bound. Times are rounded down to whole units of the graph's costs; prices of a link are
        per tick (`Link.ticks`).

    Raises
    ------
    GraphError
        If `link` is invalid, or the costs of the graph have no time unit.
    ValueError
        If the copy times do not match the values of the graph.

    Notes
    -----
    All arithmetic is on integers, and every rounding lowers the bound. Costs are counted in units of 2**-q; q is
    negative if costs are near 2**53. The capacity of an arc is floor(price * bytes). The flow is a lower bound on the
    cut, and price * (limit - forced bytes) is subtracted from it. The overhead is rounded up to an integer, then to a
    multiple of the greatest common divisor of the costs of repeatable nodes. Rounding down the capacities changes the
    result only if the exact bound exceeds such a multiple by less than about 2**-q per value in the cut. In that case,
    a lower limit or another numbering of the nodes may give a bound that is lower by one such divisor.

    Examples
    --------
    Backward steps 3, 4, 5 read the values of forward steps 0, 1, 2. If only four values fit, one is recomputed.

    >>> edges = [(0, 1), (1, 2), (2, 3), (3, 4), (1, 4), (4, 5), (0, 5)]
    >>> graph = ComputationGraph.from_edges(edges, compute=[2, 2, 2, 4, 4, 4])
    >>> [overhead_bound(graph, limit).amount for limit in (5, 4, 3)]
    [18, 18, 20]
    >>> overhead_bound(graph, 2).infeasible
    True

    3 reads 0 and 2, but 0 and 2 do not fit at once. Storing 0 takes 11 while 1 runs for 10; recomputing it takes 10.

    >>> graph = ComputationGraph.from_edges(
    ...     [(0, 1), (1, 2), (2, 3), (0, 3)], memory=[2, 1, 1, 1], compute=10, workspace=[0, 0, 2, 0])
    >>> [overhead_bound(graph, 4, link=LinkTimes([t] * 4, [t] * 4)).amount for t in (5, 11, 16)]
    [40, 41, 44]
    """
    graph, ticks, times = in_ticks(graph, link)
    bound = one_pass(graph, times)
    if limit is not None:
        limit = whole(limit, "limit in bytes")
        for higher in cuts_of(graph, times).bounds(limit, start, lambda _: look and look()):
            bound = higher
    return replace(bound, amount=bound.amount // ticks)


def in_ticks(
    graph: ComputationGraph, link: LinkTimes | AnyLink | None
) -> tuple[ComputationGraph, int, LinkTimes | None]:
    """Return the graph with costs in ticks of a link, the ticks per cost unit, and copy times rounded down to ticks."""
    if link is None or isinstance(link, LinkTimes):
        return graph, 1, link
    link = get_link(link)
    refined = link.refined(graph)
    return refined, link.ticks(graph), link.times(refined, down=True)


def one_pass(graph: ComputationGraph, times: LinkTimes | None) -> LowerBound:
    """Return the bound that counts one run of every needed node."""
    return LowerBound(graph.needed_compute, of=COMPUTE if times is None else TIME)


def cuts_of(graph: ComputationGraph, times: LinkTimes | None) -> "ClosureCuts | LinkCuts":
    """Return the search for minimum cuts of a graph. With copy times, the cuts may also copy values."""
    if times is None:
        return ClosureCuts(graph)
    from remat_algos.bounds.link_bound import LinkCuts  # imports SciPy

    return LinkCuts(graph, times)


@checked_arguments
def closure_cut(graph: ComputationGraph, bound: LowerBound) -> ClosureCut | None:
    """Return the minimum cut that proves a closure bound, with its kept values and recomputed nodes.

    Parameters
    ----------
    graph : ComputationGraph
    bound : LowerBound

    Returns
    -------
    ClosureCut or None
        The cut with the fewest bytes among those that prove the bound; None if the bound is not a closure bound.

    Examples
    --------
    >>> edges = [(0, 1), (1, 2), (2, 3), (3, 4), (1, 4), (4, 5), (0, 5)]
    >>> graph = ComputationGraph.from_edges(edges, compute=[2, 2, 2, 4, 4, 4])
    >>> cut = closure_cut(graph, overhead_bound(graph, 3))
    >>> cut.node, cut.forced_values.tolist(), cut.kept.tolist(), cut.recomputed.tolist()
    (3, [2, 3], [], [0, 1])
    """
    if bound.prices is None or bound.of != COMPUTE:
        return None
    cuts = ClosureCuts(graph)
    node, *price = cuts.moment(bound)
    forced, values, again, live, before = cuts.search.side(node, *price)
    return ClosureCut(node, forced, values, live, again, before)


def forced_values(graph: ComputationGraph, node: int) -> list[int]:
    """Return the values that are live in every schedule during the first run of a node; see `forced_bytes`."""
    check_moment(graph, [node])
    values: Int32 = ClosureCuts(graph).search.side(node, 0, 0)[1]
    return values.tolist()


@dataclass(frozen=True, eq=False)
class ClosureCuts:
    """Searches for minimum cuts in which values stay on the device. A kernel tries many nodes and prices per byte."""

    graph: ComputationGraph

    @cached_property
    def bits(self) -> int:
        """The exponent q of the cost unit 2**-q in the kernel."""
        parts = self.graph.n_values + 2  # maximum number of terms
        bits = 61 - self.graph.needed_compute.bit_length() - parts.bit_length()
        # A price may be greater than every cost, so reserve some bits for prices.
        return bits - min(16, max(bits - 8, 0))

    @cached_property
    def search(self) -> ClosureSearch:
        graph, bits, single = self.graph, self.bits, runs_once(self.graph)
        able = graph.needed & ~single
        cost = graph.compute << bits if bits >= 0 else graph.compute >> -bits
        step = int(np.gcd.reduce(graph.compute[able])) if able.any() else 0
        most = 2**61 // (graph.n_values + 2)
        cost = np.where(able, cost, 0)
        return ClosureSearch(graph.arrays, single.view(np.uint8), cost, bits=bits, step=max(step, 1), most=most)

    def bounds(self, limit: int, start: LowerBound | None, advance: Callable[[int], object]) -> Iterator[LowerBound]:
        """Yield increasing bounds above one pass's compute; `advance`, called every ten milliseconds, may raise."""
        graph = self.graph
        if start is not None:
            check_moment(graph, start.nodes)
        nodes = moments_above(graph, limit)
        if not nodes.size:
            return
        one_pass, forced = graph.needed_compute, forced_bytes(graph)
        most = int(forced.max())
        if most > limit:
            yield LowerBound(one_pass, (int(forced.argmax()),), infeasible=True, forced=most)
            return
        search = self.search
        search.aim(limit)
        if start is not None and start.prices is not None:
            search.start(*self.moment(start))
            nodes = np.concatenate([np.array(start.nodes, np.int32), nodes])
        at = best = without_gain = 0
        while at < nodes.size and search.too_large < 0 and without_gain < tuning.CLOSURE_PATIENCE:
            advance(int(WHOLE * max(at / nodes.size, without_gain / tuning.CLOSURE_PATIENCE)))
            at = search.visit(nodes, at, tuning.PATHS_PORTION)
            without_gain += int(search.work)
            if search.node >= 0 and search.overhead > best:
                best, without_gain = int(search.overhead), 0
                price = Fraction(int(search.price)) / Fraction(2) ** (int(search.shift) + self.bits)
                yield LowerBound(one_pass + best, (int(search.node),), Prices(price))
        if search.too_large >= 0:
            yield LowerBound(one_pass, (int(search.too_large),), infeasible=True, forced=int(search.excessive))

    def proof(self, limit: int, bound: LowerBound) -> LowerBound:
        """Return the bound proved by one cut at the node and the price of `bound`."""
        self.search.aim(max(0, min(limit, MAX_LIMIT)))
        self.search.start(*self.moment(bound))
        return replace(bound, amount=self.graph.needed_compute + int(self.search.overhead))

    def moment(self, bound: LowerBound, factor: Fraction | int = 1) -> tuple[int, int, int]:
        """Return (node, p, k) of a bound; p / 2**k is `factor` times its price per byte, in units of the kernel."""
        check_moment(self.graph, bound.nodes)
        p, shift = Prices((bound.prices or Prices()).byte * factor).fraction
        shift -= self.bits
        p, shift = (p << -shift, 0) if shift < 0 else (p, shift)
        # Round down if p has more than 62 bits.
        spare = max(0, p.bit_length() - 62, shift - 2**20)
        p, shift = (p >> spare, shift - spare) if shift >= spare else (MAX_PRICE, 0)
        return bound.nodes[0], p, shift
