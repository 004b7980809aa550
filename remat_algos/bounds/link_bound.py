"""A lower bound on the time of plans that copy values to the host and back, by prices of bytes and of the link."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, frexp, inf
from typing import Any

import numpy as np

from remat_algos.arguments import checked_arguments
from remat_algos.bounds.bound import TIME, LowerBound, Prices, check_moment
from remat_algos.bounds.memory import bytes_in_id_order, moments_above, runs_once
from remat_algos.bounds.moments import ancestors, compute_up_to, descendants
from remat_algos.context import WHOLE
from remat_algos.cost.devices import AnyLink, get_link
from remat_algos.cost.links import LinkTimes
from remat_algos.errors import ArgumentError
from remat_algos.ir.arrays import Int64, row_of
from remat_algos.ir.graph import ComputationGraph
from remat_algos.kernels.flow import FlowNetwork

SOURCE, SINK, UNSEEN = 0, 1, -1  # vertices, and a value that nothing needs after the moment
ENDLESS = 2**61  # above all sums of finite capacities
FLOAT_BITS = 60  # bits of sums of finite capacities
BELOW = 1 - 2.0**-40  # a product of a few floats, times this, is less than the exact one
CUTS = 60  # maximum cuts per moment; 10 to 40 are usual
NEAR_TIME = 2e-5  # gap, as a share of one pass, at which a moment is done
LOW = 0.05  # share of the overhead: moments whose first cut is lower by more are skipped
LATE = 1e-4  # lateness of stores, as a share of one pass, that adds a start
MAX_LINK_PRICE = 1e6  # maximum price of all bytes, in passes
ROUNDS_WITHOUT_GAIN = 60  # cuts without a better bound before the search stops
MAX_ARCS = 3_000_000  # maximum arcs in the networks of these cuts
MANY_NODES, TOO_MANY = 6_000, 16_000  # nodes whose ancestors are counted; their number squared is the cost


@checked_arguments
def time_bound(
    graph: ComputationGraph, limit: int, link: LinkTimes | AnyLink, *, look: Callable[[], object] | None = None
) -> LowerBound:
    """Compute a lower bound on the time of plans with a peak of at most `limit`, any copies included.

    It is the linear relaxation of `moment_bound` with one moment, by minimum cuts. Its proof is a node and prices,
    exact in whole numbers and fractions.

    Parameters
    ----------
    graph : ComputationGraph
    limit : int
        Bytes of the peak.
    link : Link, Device, mapping, str, path or LinkTimes
        As `solve` takes it, at its full rates: `link.planned` has those of plans. Or the times of all copies.
    look : callable, optional
        Called before each moment; an exception ends the search.

    Returns
    -------
    LowerBound
        The highest of the moments tried: those of the most bytes in id order come first. Its time is rounded down to
        whole units of the graph's costs; its prices are per tick (`Link.ticks`).

    Raises
    ------
    GraphError
        If it is no link, or the costs of the graph are no times.
    ValueError
        If the times are not those of the graph's values.

    Examples
    --------
    3 reads 0 and 2, but 0 does not fit beside 2. To copy it out takes 11 while 1 runs for 10, to run it again 10.

    >>> graph = ComputationGraph.from_edges(
    ...     [(0, 1), (1, 2), (2, 3), (0, 3)], memory=[2, 1, 1, 1], compute=10, workspace=[0, 0, 2, 0])
    >>> [time_bound(graph, 4, LinkTimes([t] * 4, [t] * 4)).amount for t in (5, 11, 16)]
    [40, 41, 44]
    """
    ticks = 1
    if isinstance(link, LinkTimes):
        times = link
    else:
        link = get_link(link)
        ticks, graph = link.ticks(graph), link.refined(graph)
        times = link.times(graph, down=True)
    bound = LowerBound(graph.needed_compute, of=TIME)
    for higher in time_bounds(graph, limit, times, advance=None if look is None else lambda _: look()):
        bound = higher
    return replace(bound, amount=bound.amount // ticks)


def time_bounds(
    graph: ComputationGraph, limit: int, times: LinkTimes, *, advance: Callable[[int], object] | None = None
) -> Iterator[LowerBound]:
    """Yield the rising bounds on the way to `time_bound`, all above one pass.

    `advance` is called before each moment, with the completed share of the search, out of `WHOLE`.
    """
    best, prices = graph.needed_compute, Prices()
    cuts = arcs = 0
    begin: Int64 | None = None
    for node in moments_above(graph, limit).tolist():
        if cuts >= ROUNDS_WITHOUT_GAIN or arcs > MAX_ARCS:
            return
        if advance is not None:
            advance(int(WHOLE * max(cuts / ROUNDS_WITHOUT_GAIN, arcs / MAX_ARCS)))
        if begin is None:
            begin = _begin(graph)
        moment = _PricedMoment(graph, limit, times, node, begin)
        if moment.over > 0:
            yield LowerBound(graph.needed_compute, (node,), of=TIME, infeasible=True, forced=moment.over + limit)
            return
        ascent = _Ascent(moment, prices)
        if ascent.best >= best - LOW * (best - graph.needed_compute):
            ascent.climb(best)
        cuts, arcs = cuts + len(ascent.lines), arcs + len(ascent.lines) * moment.tail.size
        if ascent.best > best:
            best, prices, cuts, arcs = ascent.best, ascent.prices, 0, 0
            yield LowerBound(best, (node,), prices, TIME)


def time_proof(graph: ComputationGraph, limit: int, times: LinkTimes, bound: LowerBound) -> LowerBound:
    """Return the bound on time that the node and prices of a bound prove, by a single cut."""
    (node,) = bound.nodes
    check_moment(graph, [node])
    moment = _PricedMoment(graph, limit, times, node, _begin(graph))
    return replace(bound, amount=max(graph.needed_compute, moment.cut(bound.prices or Prices())[0]))


def _begin(graph: ComputationGraph) -> Int64:
    """int64[n_values]: earliest compute at which any plan can store a value made before the node's first run.

    It is the same for all nodes, so that a bound can be proved again from its node alone. On large graphs only nodes
    that do not come after the one with the most bytes in id order count.
    """
    nodes = graph.needed
    if nodes.sum() > MANY_NODES:
        nodes = nodes & ~descendants(graph, int(bytes_in_id_order(graph).argmax()))
    if nodes.sum() > TOO_MANY:
        return np.zeros(graph.n_values, np.int64)
    return compute_up_to(graph, nodes)[graph.producer]


@dataclass(frozen=True, slots=True, eq=False)
class _CutLine:
    """A cut as a line over the prices.

    before, after : compute before and after the moment, over : bytes above the limit, loaded : values
    """

    before: int
    after: int
    over: int
    loaded: Int64


class _PricedMoment:
    """The network of the first run of a node: which nodes run after it, and which values are live or loaded for them.

    The source's side has the nodes that run after it, values that these need, and free nodes that do not run before it.
    Arcs are in this order: of values, of the compute after, of the compute before and outputs of free nodes, then
    infinite ones. A value cannot be stored before the compute `begin`, int64[n_values].
    """

    def __init__(self, graph: ComputationGraph, limit: int, times: LinkTimes, node: int, begin: Int64) -> None:
        self.graph, self.times, self.leaving, self.divisor = graph, times, times.leaving(graph), times.divisor(graph)
        n, producer, compute, single = graph.n_nodes, graph.producer, graph.compute, runs_once(graph)
        past, future = ancestors(graph, node), descendants(graph, node)
        free = graph.needed & ~past & ~future
        past[node] = future[node] = False
        self.before, self.own, self.after = (int(compute[nodes].sum()) for nodes in (past, [node], future))
        self.begin = np.minimum(begin, self.before)
        forced = graph.output & past[producer]
        forced[graph.reads(node)] = True
        forced[graph.value_indptr[node] : graph.value_indptr[node + 1]] = True
        self.over = int(graph.workspace[node]) + int(graph.memory[forced].sum()) - limit
        self.free, self.again = np.flatnonzero(free), np.flatnonzero((past & ~single) | free)
        runs, held = np.full(n, SINK), np.full(n, SINK)
        runs[future] = SOURCE
        runs[self.again] = 2 + np.arange(self.again.size)
        held[self.free] = 2 + self.again.size + np.arange(self.free.size)
        reader, read = row_of(graph.read_indptr, np.int32), graph.read_indices
        pairs = free[reader] & free[producer[read]]
        order = held[producer[read[pairs]]], held[reader[pairs]]
        may = (past | free)[producer] & ~forced & ~graph.output
        wanted = graph.needed[reader] & may[read] & (runs[reader] != SINK)
        reader, read = reader[wanted], read[wanted]
        needed = np.full(graph.n_values, UNSEEN)
        others = np.setdiff1d(read, read[runs[reader] == SOURCE])
        needed[read] = SOURCE
        needed[others] = 2 + self.again.size + self.free.size + np.arange(others.size)
        self.values = np.flatnonzero(needed != UNSEEN)
        chosen, back = needed[read] != SOURCE, self.free[single[self.free]]
        arcs = [
            (needed[self.values], runs[producer[self.values]]),
            (runs[self.again], np.full(self.again.size, SINK)),
            (np.full(self.free.size, SOURCE), held[self.free]),
            (runs[reader[chosen]], needed[read[chosen]]),
            (held[self.free], runs[self.free]),
            (runs[back], held[back]),
            order,
        ]
        self.tail, self.head = (np.concatenate(ends).astype(np.int32) for ends in zip(*arcs, strict=True))
        pinned = np.bincount(producer[graph.output], graph.memory[graph.output], n)
        self.pinned = pinned[self.free].astype(np.int64)
        size = 2 + self.again.size + self.free.size + others.size
        self.network = FlowNetwork(size, self.tail, self.head, SOURCE, SINK)

    def cut(self, prices: Prices) -> tuple[int, _CutLine]:
        """(lower bound on time, line of the cut): capacities are rounded down, all else is exact."""
        graph, values, out_time, in_time = self.graph, self.values, self.times.out_time, self.times.in_time
        out = [(start, Fraction(price)) for start, price in prices.out if start <= self.before]
        byte = Fraction(prices.byte)
        early, late = 1 - sum((price for _, price in out), Fraction()), 1 - Fraction(prices.into)
        if min(early, late, byte, *(price for _, price in out)) < 0:
            raise ArgumentError("prices of the link sum up to more than 1; each is at least 0")
        rate = sum((np.where(self.begin[values] >= start, float(price), 0.0) for start, price in out), np.zeros(1))
        keep = float(byte) * graph.memory[values]
        load = np.where(self.leaving[values], rate * out_time[values] + prices.into * in_time[values], inf)
        after = float(late) * graph.compute[self.again]
        before = float(early) * graph.compute[self.free] + float(byte) * self.pinned
        amounts = np.concatenate([np.minimum(keep, load), after, before])
        bits = FLOAT_BITS - max(0, frexp(float(amounts.sum()))[1])
        capacity = np.full(self.tail.size, ENDLESS)
        capacity[: amounts.size] = np.ldexp(amounts * BELOW, bits)
        flow, side = self.network.minimum_cut(capacity)
        bound = early * self.before + self.own + late * self.after + byte * self.over
        bound += sum(start * price for start, price in out) + Fraction(int(flow), 1) / Fraction(2) ** bits
        paid = ((side[self.tail] == 1) & (side[self.head] == 0))[: amounts.size]
        of_values, of_again, of_free = np.split(paid, [values.size, values.size + self.again.size])
        live = of_values & (keep <= load)
        return ceil(bound / self.divisor) * self.divisor, _CutLine(
            self.before + int(graph.compute[self.free[of_free]].sum()),
            self.after + int(graph.compute[self.again[of_again]].sum()),
            self.over + int(graph.memory[values[live]].sum()) + int(self.pinned[of_free].sum()),
            values[of_values & ~live],
        )


class _Ascent:
    """Maximize the bound of a moment over its prices, by cutting planes."""

    def __init__(self, moment: _PricedMoment, prices: Prices) -> None:
        self.moment, self.pass_ = moment, max(1, moment.graph.needed_compute)
        self.byte = self.pass_ / max(1, int(moment.graph.memory.sum()))  # unit of its price
        self.starts = [0]
        self.lines: list[_CutLine] = []
        self.best, self.prices = 0, prices
        self._cut(prices)

    def climb(self, best: int) -> None:
        """Add cuts, and starts for late stores, until the bound is near the LP's optimum or cannot exceed `best`."""
        while len(self.lines) < CUTS:
            prices, above, share = self._top()
            if above - max(self.best, best) > NEAR_TIME * self.pass_:
                self._cut(prices)
            elif not self._late_start(share):
                return

    def _cut(self, prices: Prices) -> None:
        bound, line = self.moment.cut(prices)
        self.lines.append(line)
        if bound > self.best:
            self.best, self.prices = bound, prices

    def _top(self) -> tuple[Prices, float, Any]:
        """Solve the LP: (optimal prices, optimum, dual weight of each cut)."""
        from scipy.optimize import linprog  # type: ignore[import-untyped]

        moment, times, n_starts = self.moment, self.moment.times, len(self.starts)
        rows = []
        for line in self.lines:
            out, begin = times.out_time[line.loaded], moment.begin[line.loaded]
            stored = [start + int(out[begin >= start].sum()) - line.before for start in self.starts]
            loaded = int(times.in_time[line.loaded].sum()) - line.after
            rows.append([1.0, *(-each / self.pass_ for each in [line.over * self.byte, *stored, loaded])])
        heights = [(line.before + moment.own + line.after) / self.pass_ for line in self.lines]
        found = linprog(
            [-1.0] + [0.0] * (n_starts + 2),
            np.array([*rows, [0.0, 0.0, *[1.0] * n_starts, 0.0]]),
            [*heights, 1.0],
            bounds=[(0, None), (0, MAX_LINK_PRICE), *[(0, 1)] * (n_starts + 1)],
            method="highs",
        )
        byte, shares = max(0.0, float(found.x[1])) * self.byte, np.clip(found.x[2:], 0.0, 1.0)
        out = shares[:-1] * BELOW / max(1.0, shares[:-1].sum())
        prices = Prices(byte, tuple(zip(self.starts, out.tolist(), strict=True)), float(shares[-1]))
        return prices, found.x[0] * self.pass_, -found.ineqlin.marginals[:-1]

    def _late_start(self, share: Any) -> bool:
        """Add the start whose stores end latest in the cut that the lines make up; False if none ends too late."""
        moment = self.moment
        loaded = np.zeros(moment.graph.n_values)
        for part, line in zip(share, self.lines, strict=True):
            loaded[line.loaded] += part
        values = np.flatnonzero(loaded > NEAR_TIME)
        values = values[np.argsort(-moment.begin[values], kind="stable")]
        begin, copied = moment.begin[values], loaded[values] * moment.times.out_time[values]
        ends = begin + np.cumsum(copied)
        stored = [start + float(copied[begin >= start].sum()) for start in self.starts]
        before = max(float(share @ [line.before for line in self.lines]), *stored)
        if not values.size or ends.max() - before < LATE * self.pass_:
            return False
        self.starts.append(int(begin[ends.argmax()]))
        return True
