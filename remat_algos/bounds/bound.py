"""A lower bound on the compute or time of schedules, with the nodes and prices that prove it again."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from remat_algos.arguments import checked_arguments
from remat_algos.errors import ArgumentError, PlanError
from remat_algos.ir.arrays import is_count
from remat_algos.ir.graph import ComputationGraph

COMPUTE, TIME = "compute", "time"
ANY_ORDER = "any order"  # scope of a bound for all schedules
ONE_PASS = "one pass"  # source of the bound that every needed node runs once
CLOSURE, MOMENTS = "closure", "moments"
SOURCES = {COMPUTE: (CLOSURE, MOMENTS), TIME: ("minimum cuts with a link", "integer program with a link")}
"""Sources of bounds that nodes prove: by minimum cuts, and by an integer program."""
TWO_PATHS, RESULTS = "two paths", "results"  # sources of a peak above the limit (`two_path_bound`, `result_bytes`)
# Maximum starts in a record; `LinkCuts` needs fewer.
MAX_STARTS = 1000
# Maximum price in a record; those of `LinkCuts` are at most 1e6 times the compute of one pass.
MAX_RECORDED = 1e30
BOUND_OF_ANOTHER = '"bound" in the details of the plan goes with another "bound_source"'


@dataclass(frozen=True, slots=True)
class Prices:
    """The prices that prove a bound at the first run of a node, as exact numbers.

    byte : of a byte that is live then, in compute: p / 2**k, which every float is
    out : (start, price) of link time out for values that no plan stores before `start`; they sum up to 1 at most
    into : price of link time in, 1 at most
    """

    byte: Fraction | float = Fraction(0)
    out: tuple[tuple[int, float], ...] = ()
    into: float = 0.0

    def __post_init__(self) -> None:
        byte = Fraction(self.byte)
        if byte < 0 or byte.denominator & (byte.denominator - 1):
            raise ArgumentError("the price of a byte is {price}; give p / 2**k, 0 or more", price=str(byte))
        object.__setattr__(self, "byte", byte)

    @property
    def fraction(self) -> tuple[int, int]:
        """(p, k) of the price of a byte, p / 2**k in lowest terms."""
        byte = Fraction(self.byte)
        return byte.numerator, byte.denominator.bit_length() - 1

    def record(self) -> dict[str, Any]:
        """Return the prices for JSON, which keeps every digit of a float; starts without a price are left out."""
        out = [[start, price] for start, price in self.out if price]
        return {"byte": float(self.byte), "out": out, "into": self.into}

    @classmethod
    def claimed(cls, record: Any) -> "Prices":
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

    @classmethod
    def claimed_byte(cls, text: Any) -> "Prices":
        """Read the price of a byte, "p/2^k"; PlanError for anything else."""
        price, _, shift = text.partition("/2^") if isinstance(text, str) else ("", "", "")
        if not (price.isdecimal() and shift.isdecimal() and len(price) < 20 and len(shift) < 4):
            raise PlanError('"price" of the plan\'s bound is {text!r}; expected "p/2^k"', text=text)
        return cls(Fraction(int(price), 2 ** int(shift)))


RECORDED: dict[str, tuple[str, Callable[[Any], Prices]]] = {
    COMPUTE: ("price", Prices.claimed_byte),
    TIME: ("prices", Prices.claimed),
}
"""The key of the prices in a record, and what reads them."""


@dataclass(frozen=True, slots=True)
class LowerBound:
    """A lower bound on the compute or time of every schedule of a scope within a limit, and its proof.

    Parameters
    ----------
    amount : int or float
        No schedule of the scope within the limit computes less, or with copies over a link takes less time. A float
        for a time that is not a whole number of the unit of the costs.
    nodes : tuple of int
        The nodes at whose first runs memory is counted; none for the compute of one pass. If two nodes
        prove a peak (`two_path_bound`), these: memory is counted at a run of one of them. None either if all results
        together prove a peak (`result_bytes`).
    prices : Prices, optional
        Of a byte, and for a time of the link: one minimum cut at these proves the bound again. Only bounds by minimum
        cuts, which have one node, have prices; an integer program proves the others.
    of : {"compute", "time"}
        "time" if schedules may copy values to the host and back.
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
    stopped : bool
        True if its integer program ended before its optimum: with more time it may prove more.

    Examples
    --------
    >>> LowerBound(25).source, LowerBound(28, (12,), Prices(0.1875)).source
    ('one pass', 'closure')
    >>> LowerBound(25, (1, 3), infeasible=True, forced=11).source
    'two paths'
    """

    amount: int | float
    nodes: tuple[int, ...] = ()
    prices: Prices | None = None
    of: str = COMPUTE
    infeasible: bool = False
    forced: int = 0
    scope: str = ANY_ORDER
    solver: str | None = None
    proven: bool = True
    stopped: bool = False

    @property
    def source(self) -> str:
        """ "one pass", "closure", "moments", "two paths", "results", one of a link's `SOURCES`, or the solver."""
        if self.solver is not None:
            return self.solver
        if not self.nodes:
            return RESULTS if self.forced else ONE_PASS
        if self.forced and len(self.nodes) > 1:
            return TWO_PATHS
        cuts, programs = SOURCES[self.of]
        return cuts if self.prices is not None or self.forced else programs

    @checked_arguments
    def gap(self, amount: float) -> float | None:
        """(amount - bound) / bound, if the bound holds for schedules of any order; None for a bound of 0."""
        if self.scope != ANY_ORDER:
            return None
        return (amount - self.amount) / self.amount if self.amount else (0.0 if amount == 0 else None)

    @checked_arguments
    def record(self, graph: ComputationGraph) -> dict[str, Any]:
        """Return the proof for JSON: names or ids of the nodes, and the price as "p/2^k" or the prices of a link."""
        check_moment(graph, self.nodes)
        names = graph.labels.names is not None
        record: dict[str, Any] = {"nodes": [graph.labels[v] if names else v for v in self.nodes]}
        if self.prices is not None and self.of == COMPUTE:
            record["price"] = "{}/2^{}".format(*self.prices.fraction)
        elif self.prices is not None:
            record["prices"] = self.prices.record()
        return record

    @classmethod
    @checked_arguments
    def claimed(cls, graph: ComputationGraph, amount: int | float, record: Any, of: str = COMPUTE) -> "LowerBound":
        """Read the bound claimed by a record; PlanError for unknown nodes or invalid prices."""
        given = record.get("nodes") if isinstance(record, Mapping) else None
        ids: dict[Any, int] = {v: v for v in range(graph.n_nodes)}
        if graph.labels.names is not None:
            ids = {graph.labels[v]: v for v in range(graph.n_nodes)}
        known = isinstance(given, list) and all(type(each) in (str, int) and each in ids for each in given)
        if not known or not given:
            raise PlanError('"bound" in the details of the plan is {record!r}; expected its nodes', record=record)
        prices = {kind: read(record[key]) for kind, (key, read) in RECORDED.items() if record.get(key) is not None}
        if prices.keys() - {of}:
            raise PlanError(BOUND_OF_ANOTHER)
        return cls(amount, tuple(ids[each] for each in given), prices.get(of), of)


def check_moment(graph: ComputationGraph, nodes: Sequence[int]) -> None:
    """ArgumentError unless all nodes are needed nodes of the graph."""
    for node in nodes:
        if not 0 <= node < graph.n_nodes or not graph.needed[node]:
            raise ArgumentError("node {node} is not needed; the moment of a bound is that of a needed node", node=node)


def _is_price(number: Any) -> bool:
    return type(number) in (int, float) and 0 <= number <= MAX_RECORDED
