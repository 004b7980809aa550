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

MAX_PRICE = MAX_LIMIT = 2**62  # greater than any sum


@dataclass(frozen=True, slots=True, eq=False)
class ClosureCut:
    """The minimum cut behind a bound: values live at the first run of `node`, and nodes recomputed afterwards.

    `forced` bytes are live in every schedule: the workspace of the node and `forced_values`, which are its reads and
    its own values, outputs, and values of nodes that run only once. The cut also keeps `kept` live and recomputes
    `recomputed` later; `run_before` are nodes that ran earlier although the node does not need them. Ids ascend.
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
    """Lower bound on the compute, or with a link on the time, of schedules with a peak of at most `limit`.

    When node v first runs, all of its ancestors have run, and none of its descendants has; other nodes may have run.
    Each value that was computed before this step and is read after it is live at the step, or its node is recomputed
    later. The cheapest such choice that fits in the limit at this step alone is a lower bound on the overhead, for any
    order and any number of recomputations. Replacing the limit by a price per byte (Lagrangian relaxation) turns the
    choice into a minimum cut, that is, a maximum closure: the closure bound. With a link, a value may also be stored
    and loaded again at a price per link time, which is the linear relaxation of `moment_bound` with one moment.

    Parameters
    ----------
    graph : ComputationGraph
    limit : int or None
        Peak in bytes; None for no limit.
    link : Link, Device, mapping, str, path or LinkTimes, optional
        A link as for `solve`, used at its full rates (`link.planned` has the rates of plans), or the copy times.
    start : LowerBound, optional
        A bound for a nearby limit; its node and prices are tried first.
    look : callable, optional
        Called about every ten milliseconds, or with a link before each node; an exception stops the search.

    Returns
    -------
    LowerBound
        The maximum over v and the prices. The search tries needed nodes whose live bytes in id order exceed the limit,
        largest first, and stops after many without gain. Times are rounded down to whole units of the graph's costs;
        prices of a link are per tick (`Link.ticks`).

    Raises
    ------
    GraphError
        If `link` is invalid, or the costs of the graph have no time unit.
    ValueError
        If the copy times do not match the values of the graph.

    Notes
    -----
    All arithmetic is on integers, and every rounding lowers the bound. Costs are counted in units of 2**-q (q is
    negative if costs are near 2**53). The capacity of an arc is floor(price * bytes), and price * (limit - forced
    bytes) is subtracted from the flow, which is a lower bound on the cut. The overhead is rounded up to an integer,
    then to a multiple of the greatest common divisor of the costs of repeatable nodes. The first two roundings matter
    only if the exact bound exceeds such a multiple by less than about 2**-q per value of the cut; in that case a lower
    limit, or a renumbering of the nodes, may give a bound that is one step lower.

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
    """Return the graph with costs in ticks of a link, the ticks per cost unit, and the copy times, rounded down."""
    if link is None or isinstance(link, LinkTimes):
        return graph, 1, link
    link = get_link(link)
    refined = link.refined(graph)
    return refined, link.ticks(graph), link.times(refined, down=True)


def one_pass(graph: ComputationGraph, times: LinkTimes | None) -> LowerBound:
    """Return the bound in which every needed node runs once."""
    return LowerBound(graph.needed_compute, of=COMPUTE if times is None else TIME)


def cuts_of(graph: ComputationGraph, times: LinkTimes | None) -> "ClosureCuts | LinkCuts":
    """Return the minimum cuts of a graph; with copy times, the cuts in which values may also be copied."""
    if times is None:
        return ClosureCuts(graph)
    from remat_algos.bounds.link_bound import LinkCuts  # imports SciPy

    return LinkCuts(graph, times)


@checked_arguments
def closure_cut(graph: ComputationGraph, bound: LowerBound) -> ClosureCut | None:
    """Return the minimum cut behind a closure bound: its kept values and recomputed nodes.

    Parameters
    ----------
    graph : ComputationGraph
    bound : LowerBound

    Returns
    -------
    ClosureCut or None
        The cut with the fewest bytes among those that prove the bound; None for a bound of another source.

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
    """Values live in every schedule during the first run of a needed node; see `forced_bytes`."""
    check_moment(graph, [node])
    values: Int32 = ClosureCuts(graph).search.side(node, 0, 0)[1]
    return values.tolist()


@dataclass(frozen=True, eq=False)
class ClosureCuts:
    """Minimum cuts without copies; a kernel tries many nodes and prices."""

    graph: ComputationGraph

    @cached_property
    def bits(self) -> int:
        """Exponent q of the cost unit 2**-q in the kernel."""
        parts = self.graph.n_values + 2  # maximum number of terms
        bits = 61 - self.graph.needed_compute.bit_length() - parts.bit_length()
        # Leave room for prices, which may exceed all costs.
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
        """Yield increasing bounds, all above one pass.

        `advance` is called about every ten milliseconds with the completed share of the search, out of `WHOLE`; an
        exception stops the search.
        """
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
        """Return (node, p, k) of a bound, where factor * its price of a byte is p / 2**k units of the search."""
        check_moment(self.graph, bound.nodes)
        p, shift = Prices((bound.prices or Prices()).byte * factor).fraction
        shift -= self.bits
        p, shift = (p << -shift, 0) if shift < 0 else (p, shift)
        # Round down a price with too many bits.
        spare = max(0, p.bit_length() - 62, shift - 2**20)
        p, shift = (p >> spare, shift - spare) if shift >= spare else (MAX_PRICE, 0)
        return bound.nodes[0], p, shift
