"""The closure bound on the compute of every schedule within a memory limit; bounds of any proof, with their prices."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from remat_algos.arguments import checked_arguments
from remat_algos.bounds.memory import PORTION, bytes_in_id_order, forced_bytes, runs_once
from remat_algos.context import WHOLE
from remat_algos.errors import ArgumentError, PlanError
from remat_algos.ir.arrays import Int32, is_count, whole
from remat_algos.ir.graph import ComputationGraph
from remat_algos.kernels.closure import ClosureSearch

PATIENCE = 250_000_000  # work without a better moment before the search stops
MAX_PRICE = MAX_LIMIT = 2**62  # above all sums of costs and of bytes
NEARLY = 1024  # slightly lower or higher prices differ by 1 / NEARLY
ANY_ORDER = "any order"  # scope of a bound for all schedules
ONE_PASS = "one pass"  # source of the bound that every needed node runs once
CLOSURE, MOMENTS = PROVEN = ("closure", "moments")
TWO_PATHS, RESULTS = "two paths", "results"  # sources of a peak above the limit (`two_path_bound`, `result_bytes`)
# Maximum starts in a record; `time_bounds` needs fewer.
MAX_STARTS = 1000
# Maximum price in a record; those of `time_bounds` are at most 1e6 times the compute of one pass.
MAX_RECORDED = 1e30


@dataclass(frozen=True, slots=True)
class LinkPrices:
    """The prices behind a lower bound on time, as exact numbers.

    byte : of a byte that is live at the moment, in compute
    out : (start, price) of link time out for values that no plan stores before `start`; they sum up to 1 at most
    into : price of link time in, 1 at most
    """

    byte: float = 0.0
    out: tuple[tuple[int, float], ...] = ()
    into: float = 0.0

    def record(self) -> dict[str, Any]:
        """Return the prices for JSON, which keeps every digit of a float; starts without a price are left out."""
        return {"byte": self.byte, "out": [[start, price] for start, price in self.out if price], "into": self.into}

    @classmethod
    def claimed(cls, record: Any) -> "LinkPrices":
        """Read the prices of a record; PlanError for anything else."""
        known = isinstance(record, Mapping) and record.keys() == {"byte", "out", "into"}
        rows = record["out"] if known else None
        if (
            not isinstance(rows, list)
            or len(rows) > MAX_STARTS
            or not all(isinstance(row, list) and len(row) == 2 and is_count(row[0]) for row in rows)
            or not all(_is_price(price) for price in (record["byte"], record["into"], *(price for _, price in rows)))
        ):
            raise PlanError(
                '"prices" of the plan\'s bound are {record!r}; expected "byte", "out" as [start, price], "into"',
                record=record,
            )
        return cls(float(record["byte"]), tuple((start, float(price)) for start, price in rows), float(record["into"]))


@dataclass(frozen=True, slots=True, eq=False)
class ComputeBound:
    """A lower bound on the compute of every schedule of a scope within a limit, and its proof.

    Parameters
    ----------
    compute : int or float
        No schedule of the scope within the limit computes less. A float for a time that is not a whole number of the
        unit of the costs.
    nodes : tuple of int
        The nodes at whose first runs memory is counted; none for the compute of one pass. If two nodes
        prove a peak (`two_path_bound`), these: memory is counted at a run of one of them. None either if all results
        together prove a peak (`result_bytes`).
    price : (int, int), optional
        (p, k): a byte costs p / 2**k at that step. Only a closure bound, which has one node, has a price.
    prices : LinkPrices, optional
        Of a bound on time by minimum cuts, which has one node: what a byte and the link cost.
    infeasible : bool
        True if no schedule fits: the bytes that must be live at these runs exceed the limit.
    forced : int
        These bytes if one node, one of two, or the results prove it, else 0.
    scope : {"any order", "fixed order", "canonical", "chain"}
        The schedules for which it holds.
    solver : str, optional
        The solver that proved it, if no nodes do.
    proven : bool
        True if it was proven in this process, False if a file claims it.

    Examples
    --------
    >>> ComputeBound(25).source, ComputeBound(28, (12,), (3, 4)).source
    ('one pass', 'closure')
    >>> ComputeBound(25, (1, 3), infeasible=True, forced=11).source
    'two paths'
    """

    compute: int | float
    nodes: tuple[int, ...] = ()
    price: tuple[int, int] | None = None
    prices: LinkPrices | None = None
    infeasible: bool = False
    forced: int = 0
    scope: str = ANY_ORDER
    solver: str | None = None
    proven: bool = True

    @property
    def source(self) -> str:
        """ "one pass", "closure", "moments", "two paths", "results", or the solver."""
        if self.solver is not None:
            return self.solver
        if not self.nodes:
            return RESULTS if self.forced else ONE_PASS
        if self.forced and len(self.nodes) > 1:
            return TWO_PATHS
        return CLOSURE if self.price is not None or self.forced else MOMENTS

    @checked_arguments
    def gap(self, compute: float) -> float | None:
        """(compute - bound) / bound, if the bound holds for schedules of any order; None for a bound of 0."""
        if self.scope != ANY_ORDER:
            return None
        return (compute - self.compute) / self.compute if self.compute else (0.0 if compute == 0 else None)

    @checked_arguments
    def record(self, graph: ComputationGraph) -> dict[str, Any]:
        """Return the proof for JSON: names or ids of the nodes, and the price as "p/2^k" or the prices of a link."""
        for node in self.nodes:
            _check_moment(graph, node, self.price or (0, 0))
        names = graph.labels.names is not None
        nodes = [graph.labels[v] if names else v for v in self.nodes]
        record: dict[str, Any] = {"nodes": nodes}
        if self.price is not None:
            record["price"] = "{}/2^{}".format(*self.price)
        return record if self.prices is None else record | {"prices": self.prices.record()}

    @classmethod
    @checked_arguments
    def claimed(cls, graph: ComputationGraph, compute: int | float, record: Any) -> "ComputeBound":
        """Read the bound claimed by a record; PlanError for unknown nodes or an invalid price."""
        given = record.get("nodes") if isinstance(record, Mapping) else None
        ids: dict[Any, int] = {v: v for v in range(graph.n_nodes)}
        if graph.labels.names is not None:
            ids = {graph.labels[v]: v for v in range(graph.n_nodes)}
        known = isinstance(given, list) and all(type(each) in (str, int) and each in ids for each in given)
        if not known or not given:
            raise PlanError('"bound" in the details of the plan is {record!r}; expected its nodes', record=record)
        price, prices = record.get("price"), record.get("prices")
        return cls(
            compute,
            tuple(ids[each] for each in given),
            None if price is None else _price(price),
            None if prices is None else LinkPrices.claimed(prices),
        )


def _is_price(number: Any) -> bool:
    return type(number) in (int, float) and 0 <= number <= MAX_RECORDED


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
    start: ComputeBound | None = None,
    look: Callable[[], object] | None = None,
) -> ComputeBound:
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
    start : ComputeBound, optional
        The bound of a nearby limit: its node and price are tried first.
    look : callable, optional
        Called about every ten milliseconds; an exception ends the search.

    Returns
    -------
    ComputeBound
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
    >>> [overhead_bound(graph, limit).compute for limit in (5, 4, 3)]
    [18, 18, 20]
    >>> overhead_bound(graph, 2).infeasible
    True
    """
    bound = ComputeBound(graph.needed_compute)
    for rising in closure_bounds(graph, limit, start=start, look=look):
        bound = rising
    return bound


def closure_bounds(
    graph: ComputationGraph,
    limit: int | None,
    *,
    start: ComputeBound | None = None,
    look: Callable[[], object] | None = None,
    advance: Callable[[int], object] | None = None,
) -> Iterator[ComputeBound]:
    """Yield the increasing bounds on the way to `overhead_bound`, all above one pass.

    `advance` is called as often as `look`, with the completed share of the search, out of `WHOLE`.
    """
    if limit is not None:
        limit = whole(limit, "limit in bytes")
    if start is not None and start.price is not None:
        _check_moment(graph, start.nodes[0], start.price)
    if limit is None or not graph.needed.any():
        return
    live = bytes_in_id_order(graph)
    if live.max() <= limit:
        return
    one_pass, forced = graph.needed_compute, forced_bytes(graph)
    most = int(forced.max())
    if most > limit:
        yield ComputeBound(one_pass, (int(forced.argmax()),), infeasible=True, forced=most)
        return
    closure = _Closure.of(graph)
    search = closure.search
    search.aim(limit)
    nodes = np.argsort(-live, kind="stable").astype(np.int32)
    nodes = nodes[live[nodes] > limit]  # at others the id order fits, so nothing can be proved
    if start is not None and start.price is not None:
        closure.start(start.nodes[0], start.price)
        nodes = np.concatenate([np.array(start.nodes, np.int32), nodes])
    at = best = without_gain = 0
    while at < nodes.size and search.too_large < 0 and without_gain < PATIENCE:
        if look is not None:
            look()
        if advance is not None:
            advance(int(WHOLE * max(at / nodes.size, without_gain / PATIENCE)))
        at = search.visit(nodes, at, PORTION)
        without_gain += int(search.work)
        if search.node >= 0 and search.overhead > best:
            best, without_gain = int(search.overhead), 0
            yield ComputeBound(one_pass + best, (int(search.node),), closure.price)
    if search.too_large >= 0:
        yield ComputeBound(one_pass, (int(search.too_large),), infeasible=True, forced=int(search.excessive))


def closure_proof(graph: ComputationGraph, limit: int, node: int, price: tuple[int, int]) -> int:
    """Return the bound on compute by the moment of one node at one price, a single cut."""
    closure = _Closure.of(graph)
    _check_moment(graph, node, price)
    closure.search.aim(max(0, min(limit, MAX_LIMIT)))
    closure.start(node, price)
    return graph.needed_compute + int(closure.search.overhead)


@checked_arguments
def closure_cut(graph: ComputationGraph, limit: int, bound: ComputeBound) -> ClosureCut | None:
    """Return the cut behind a closure bound: its kept values and recomputed nodes.

    Parameters
    ----------
    graph : ComputationGraph
    limit : int
        Bytes of peak.
    bound : ComputeBound

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
    if bound.price is None:
        return None
    closure, node = _Closure.of(graph), bound.nodes[0]
    _check_moment(graph, node, bound.price)
    forced, values, again, live, before = closure.search.side(node, *closure.scaled(bound.price))
    return ClosureCut(node, forced, values, live, again, before)


def closure_sides(graph: ComputationGraph, limit: int, bound: ComputeBound) -> tuple[Int32, Int32]:
    """Nodes recomputed by the cuts of a closure bound at a slightly lower and a slightly higher price of a byte.

    At the price itself both cuts cost the same, and the limit lies between the bytes that they keep.
    """
    if bound.price is None:
        raise ArgumentError(
            "the bound has no price: its source is {source!r}; give a closure bound", source=bound.source
        )
    closure, node = _Closure.of(graph), bound.nodes[0]
    _check_moment(graph, node, bound.price)
    p, k = bound.price
    prices = [((NEARLY + each) * p, k + NEARLY.bit_length() - 1) for each in (-1, 1)]
    low, high = (closure.search.side(node, *closure.scaled(price))[2] for price in prices)
    return low, high


def forced_values(graph: ComputationGraph, node: int) -> list[int]:
    """Values that are live in every schedule during the first run of a needed node, see `forced_bytes`."""
    _check_moment(graph, node, (0, 0))
    values: Int32 = _Closure.of(graph).search.side(node, 0, 0)[1]
    return values.tolist()


def _check_moment(graph: ComputationGraph, node: int, price: tuple[int, int]) -> None:
    if not 0 <= node < graph.n_nodes or not graph.needed[node]:
        raise ArgumentError("node {node} is not needed; the moment of a bound is that of a needed node", node=node)
    if min(price) < 0:
        raise ArgumentError(
            "the price of a byte is {numerator} / 2**{shift}; neither number may be negative",
            numerator=price[0],
            shift=price[1],
        )


def _price(text: Any) -> tuple[int, int]:
    """Read the two numbers of "p/2^k"."""
    price, _, shift = text.partition("/2^") if isinstance(text, str) else ("", "", "")
    if not (price.isdecimal() and shift.isdecimal() and len(price) < 20 and len(shift) < 4):
        raise PlanError('"price" of the plan\'s bound is {text!r}; expected "p/2^k"', text=text)
    return int(price), int(shift)


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

    def start(self, node: int, price: tuple[int, int]) -> None:
        self.search.start(node, *self.scaled(price))

    def scaled(self, price: tuple[int, int]) -> tuple[int, int]:
        """Return the price of a byte in units of the search, rounded down if too fine."""
        p, shift = int(price[0]), int(price[1]) - self.bits
        p, shift = (p << -shift, 0) if shift < 0 else (p, shift)
        spare = max(0, p.bit_length() - 62, shift - 2**20)
        p, shift = p >> spare, shift - spare
        return (p, shift) if shift >= 0 else (MAX_PRICE, 0)

    @property
    def price(self) -> tuple[int, int]:
        """The price of the best bound in units of compute."""
        p, k = int(self.search.price), int(self.search.shift) + self.bits
        while p % 2 == 0 and p and k > 0:
            p, k = p // 2, k - 1
        return (p, k) if k >= 0 else (p << -k, 0)
