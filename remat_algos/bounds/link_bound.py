"""Lower bounds on time by minimum cuts, for schedules that copy values to the host and back.

A moment is the first run of a node. A cut has a price per byte live at the moment, and prices per link time. Each start
time has a constraint: the stores that cannot begin earlier must fit between the start time and the moment.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, frexp, inf
from typing import Any

import numpy as np

from remat_algos.bounds import tuning
from remat_algos.bounds.bound import TIME, LowerBound, Prices, check_moment
from remat_algos.bounds.memory import bytes_in_id_order, moments_above
from remat_algos.bounds.moments import latest_store
from remat_algos.context import WHOLE
from remat_algos.cost.links import LinkTimes
from remat_algos.errors import ArgumentError
from remat_algos.forks import cached_property
from remat_algos.ir.arrays import Int64, row_of
from remat_algos.ir.graph import ComputationGraph, runs_once
from remat_algos.kernels.flow import FlowNetwork
from remat_algos.structure.reachability import ancestors, compute_up_to, descendants

# SOURCE, SINK: vertices of the network. UNSEEN: marks values that no node reads after the moment.
SOURCE, SINK, UNSEEN = 0, 1, -1
# ENDLESS: capacity of arcs that no minimum cut contains. The sum of all other capacities has at most FLOAT_BITS bits.
ENDLESS = 2**61
FLOAT_BITS = 60
# A float product of a few numbers, times this factor, is below the exact product.
BELOW = 1 - 2.0**-40


@dataclass(frozen=True, eq=False)
class LinkCuts:
    """Searches for minimum cuts in which values may be copied over a link; without copies, `ClosureCuts` suffices."""

    graph: ComputationGraph
    times: LinkTimes

    @cached_property
    def begin(self) -> Int64:
        """int64[n_values]: minimum compute before a value can be stored, if its node runs before the moment."""
        graph, nodes = self.graph, self.graph.needed
        if nodes.sum() > tuning.MANY_NODES:
            nodes = nodes & ~descendants(graph, int(bytes_in_id_order(graph).argmax()))
        if nodes.sum() > tuning.TOO_MANY:
            return np.zeros(graph.n_values, np.int64)
        return compute_up_to(graph, nodes)[graph.producer]

    def bounds(self, limit: int, start: LowerBound | None, advance: Callable[[int], object]) -> Iterator[LowerBound]:
        """Yield increasing bounds above the time of one pass; `advance` is called before each node and may raise."""
        graph = self.graph
        best, prices = graph.needed_compute, Prices()
        nodes = moments_above(graph, limit).tolist()
        if start is not None and start.prices is not None:
            check_moment(graph, start.nodes)
            nodes, prices = [*start.nodes, *nodes], start.prices
        cuts = arcs = 0
        for node in nodes:
            if cuts >= tuning.ROUNDS_WITHOUT_GAIN or arcs > tuning.MAX_ARCS:
                return
            advance(int(WHOLE * max(cuts / tuning.ROUNDS_WITHOUT_GAIN, arcs / tuning.MAX_ARCS)))
            moment = _PricedMoment(graph, limit, self.times, node, self.begin)
            if moment.over > 0:
                forced = moment.over + limit
                yield LowerBound(graph.needed_compute, (node,), of=TIME, infeasible=True, forced=forced)
                return
            ascent = _Ascent(moment, prices)
            if ascent.best >= best - tuning.LOW_CUT * (best - graph.needed_compute):
                ascent.climb(best)
            cuts, arcs = cuts + len(ascent.lines), arcs + len(ascent.lines) * moment.tail.size
            if ascent.best > best:
                best, prices, cuts, arcs = ascent.best, ascent.prices, 0, 0
                yield LowerBound(best, (node,), prices, TIME)

    def proof(self, limit: int, bound: LowerBound) -> LowerBound:
        """Return the bound proved by one cut at the node and the prices of `bound`."""
        (node,) = bound.nodes
        check_moment(self.graph, [node])
        moment = _PricedMoment(self.graph, limit, self.times, node, self.begin)
        return replace(bound, amount=max(self.graph.needed_compute, moment.cut(bound.prices or Prices())[0]))


@dataclass(frozen=True, slots=True, eq=False)
class _CutLine:
    """The bound of one cut as a linear function of the prices.

    before, after : compute before and after the moment
    over : live bytes minus the limit
    loaded : values that are loaded after the moment
    """

    before: int
    after: int
    over: int
    loaded: Int64


class _PricedMoment:
    """The flow network of a moment. A cut chooses the nodes to recompute and the values to keep.

    Free nodes are neither ancestors nor descendants of the node. The source side of a cut contains the nodes that run
    after the moment, the values that they read, and the free nodes that do not run before the moment. The capacity of
    an arc is the price of a value, the compute of a node after the moment, the compute of a free node before it plus
    the price of its output bytes, or infinite. A value cannot be stored before `begin` units of compute,
    int64[n_values].
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
        runs, state = np.full(n, SINK), np.full(n, SINK)
        runs[future] = SOURCE
        runs[self.again] = 2 + np.arange(self.again.size)
        state[self.free] = 2 + self.again.size + np.arange(self.free.size)
        reader, read = row_of(graph.read_indptr, np.int32), graph.read_indices
        pairs = free[reader] & free[producer[read]]
        order = state[producer[read[pairs]]], state[reader[pairs]]
        may = (past | free)[producer] & ~forced & ~graph.output
        readable = graph.needed[reader] & may[read] & (runs[reader] != SINK)
        reader, read = reader[readable], read[readable]
        needed = np.full(graph.n_values, UNSEEN)
        others = np.setdiff1d(read, read[runs[reader] == SOURCE])
        needed[read] = SOURCE
        needed[others] = 2 + self.again.size + self.free.size + np.arange(others.size)
        self.values = np.flatnonzero(needed != UNSEEN)
        chosen, back = needed[read] != SOURCE, self.free[single[self.free]]
        arcs = [
            (needed[self.values], runs[producer[self.values]]),
            (runs[self.again], np.full(self.again.size, SINK)),
            (np.full(self.free.size, SOURCE), state[self.free]),
            (runs[reader[chosen]], needed[read[chosen]]),
            (state[self.free], runs[self.free]),
            (runs[back], state[back]),
            order,
        ]
        self.tail, self.head = (np.concatenate(ends).astype(np.int32) for ends in zip(*arcs, strict=True))
        pinned = np.bincount(producer[graph.output], graph.memory[graph.output], n)
        self.pinned = pinned[self.free].astype(np.int64)
        size = 2 + self.again.size + self.free.size + others.size
        self.network = FlowNetwork(size, self.tail, self.head, SOURCE, SINK)

    def cut(self, prices: Prices) -> tuple[int, _CutLine]:
        """Return the lower bound on time at these prices, and the line of the cut; rounding only lowers the bound."""
        graph, values, out_time, in_time = self.graph, self.values, self.times.out_time, self.times.in_time
        out = [(start, Fraction(price)) for start, price in prices.out if start <= self.before]
        byte = Fraction(prices.byte)
        early, late = 1 - sum((price for _, price in out), Fraction()), 1 - Fraction(prices.into)
        if min(early, late, byte, *(price for _, price in out)) < 0:
            raise ArgumentError("prices of the link are negative, or sum to more than 1")
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
    """Maximize the bound of a moment over the prices by Kelley's cutting planes."""

    def __init__(self, moment: _PricedMoment, prices: Prices) -> None:
        self.moment, self.pass_ = moment, max(1, moment.graph.needed_compute)
        # The unit of the price per byte in the LP.
        self.byte = self.pass_ / max(1, int(moment.graph.memory.sum()))
        self.starts = [0]
        self.lines: list[_CutLine] = []
        self.best, self.prices = 0, prices
        self._cut(prices)

    def climb(self, best: int) -> None:
        """Add cuts, and variables for start times of stores, until the LP optimum is near the bound or below `best`."""
        while len(self.lines) < tuning.MAX_LINK_CUTS:
            prices, above, share = self._top()
            if above - max(self.best, best) > tuning.NEAR_TIME * self.pass_:
                self._cut(prices)
            elif not self._late_start(share):
                return

    def _cut(self, prices: Prices) -> None:
        bound, line = self.moment.cut(prices)
        self.lines.append(line)
        if bound > self.best:
            self.best, self.prices = bound, prices

    def _top(self) -> tuple[Prices, float, Any]:
        """Solve the LP; return (optimal prices, optimum, dual weight of each cut)."""
        from scipy.optimize import linprog  # type: ignore[import-untyped]

        moment, times, n_starts = self.moment, self.moment.times, len(self.starts)
        rows = []
        for line in self.lines:
            out, begin = times.out_time[line.loaded], moment.begin[line.loaded]
            stored = [start + int(out[begin >= start].sum()) - line.before for start in self.starts]
            loaded = int(times.in_time[line.loaded].sum()) - line.after
            rows.append([1.0, *(-each / self.pass_ for each in [line.over * self.byte, *stored, loaded])])
        heights = [(line.before + moment.own + line.after) / self.pass_ for line in self.lines]
        solution = linprog(
            [-1.0] + [0.0] * (n_starts + 2),
            np.array([*rows, [0.0, 0.0, *[1.0] * n_starts, 0.0]]),
            [*heights, 1.0],
            bounds=[(0, None), (0, tuning.MAX_LINK_PRICE), *[(0, 1)] * (n_starts + 1)],
            method="highs",
        )
        byte, shares = max(0.0, float(solution.x[1])) * self.byte, np.clip(solution.x[2:], 0.0, 1.0)
        out = shares[:-1] * BELOW / max(1.0, shares[:-1].sum())
        prices = Prices(byte, tuple(zip(self.starts, out.tolist(), strict=True)), float(shares[-1]))
        return prices, solution.x[0] * self.pass_, -solution.ineqlin.marginals[:-1]

    def _late_start(self, share: Any) -> bool:
        """Average the stores of all cuts with weights `share`; if they end late, add a start time and return True."""
        moment = self.moment
        loaded = np.zeros(moment.graph.n_values)
        for part, line in zip(share, self.lines, strict=True):
            loaded[line.loaded] += part
        values = np.flatnonzero(loaded > tuning.NEAR_TIME)
        begin, copied = moment.begin[values], loaded[values] * moment.times.out_time[values]
        end, latest = latest_store(begin, copied)
        stored = [start + float(copied[begin >= start].sum()) for start in self.starts]
        before = max(float(share @ [line.before for line in self.lines]), *stored)
        if not values.size or end - before < tuning.LATE * self.pass_:
            return False
        self.starts.append(latest)
        return True
