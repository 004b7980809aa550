"""Lower bounds on the compute or time of schedules, with the nodes and dual prices that prove them.

A moment is the first run of a node; the bounds consider the values that are live then.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from remat_algos.arguments import checked_arguments
from remat_algos.errors import ArgumentError, PlanError
from remat_algos.ir.arrays import is_count
from remat_algos.ir.graph import ComputationGraph

COMPUTE, TIME = "compute", "time"
# Scope of a bound that holds for every schedule.
ANY_ORDER = "any order"
# Source of the bound that counts one run of every needed node.
ONE_PASS = "one pass"
CLOSURE, MOMENTS = "closure", "moments"
SOURCES = {COMPUTE: (CLOSURE, MOMENTS), TIME: ("minimum cuts with a link", "integer program with a link")}
"""Names of the sources of bounds: (minimum cuts, integer program), for compute and for time."""
# Sources of a proof that no schedule fits the limit (`two_path_bound`, `result_bytes`).
TWO_PATHS, RESULTS = "two paths", "results"
# Maximum number of start times in a record; `LinkCuts` uses fewer.
MAX_STARTS = 1000
# Maximum price in a record; `LinkCuts` uses at most 1e6 times the compute of one pass.
MAX_RECORDED = 1e30
BOUND_OF_ANOTHER = '"bound" in the details of the plan does not match "bound_source"'


@dataclass(frozen=True, slots=True)
class Prices:
    """Exact dual prices that prove a lower bound at the first run of a node.

    byte : price per live byte, in compute; a number of the form p / 2**k, like every float
    out : pairs (start, price): the price per link time for stores that cannot begin before `start`; all of these prices
        sum to at most 1
    into : price per link time for loads, at most 1
    """

    byte: Fraction | float = Fraction(0)
    out: tuple[tuple[int, float], ...] = ()
    into: float = 0.0

    def __post_init__(self) -> None:
        byte = Fraction(self.byte)
        if byte < 0 or byte.denominator & (byte.denominator - 1):
            raise ArgumentError("the price per byte is {price}; give a fraction p / 2**k of 0 or more", price=str(byte))
        object.__setattr__(self, "byte", byte)

    @property
    def fraction(self) -> tuple[int, int]:
        """(p, k), where p / 2**k in lowest terms is the price per byte."""
        byte = Fraction(self.byte)
        return byte.numerator, byte.denominator.bit_length() - 1

    def record(self) -> dict[str, Any]:
        """Return the prices as JSON without loss of digits; omit start times with a price of 0."""
        out = [[start, price] for start, price in self.out if price]
        return {"byte": float(self.byte), "out": out, "into": self.into}

    @classmethod
    def claimed(cls, record: Any) -> "Prices":
        """Read prices from a record; raise PlanError if it is invalid."""
        valid = isinstance(record, Mapping) and record.keys() == {"byte", "out", "into"}
        rows = record["out"] if valid else None
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
        """Parse the price per byte from a string "p/2^k"; raise PlanError if it is invalid."""
        price, _, shift = text.partition("/2^") if isinstance(text, str) else ("", "", "")
        if not (price.isdecimal() and shift.isdecimal() and len(price) < 20 and len(shift) < 4):
            raise PlanError('"price" of the plan\'s bound is {text!r}; expected "p/2^k"', text=text)
        return cls(Fraction(int(price), 2 ** int(shift)))


RECORDED: dict[str, tuple[str, Callable[[Any], Prices]]] = {
    COMPUTE: ("price", Prices.claimed_byte),
    TIME: ("prices", Prices.claimed),
}
"""For each kind of bound, the key of the prices in a record and the function that reads them."""


@dataclass(frozen=True, slots=True)
class LowerBound:
    """A lower bound on the compute or time of every schedule in a scope within a limit, with its proof.

    Parameters
    ----------
    amount : int or float
        Lower bound on the compute of the schedules in the scope within the limit, or on their time if values may be
        copied over a link. A float if the time is not a whole number of cost units.
    nodes : tuple of int
        The proof counts the bytes that are live at the first runs of these nodes. If they are the two nodes of
        `two_path_bound`, it counts the bytes that are live during some run of either node. Empty for the compute of one
        pass, and for a proof by `result_bytes`.
    prices : Prices, optional
        Dual prices per byte and, for a bound on time, per link time. One minimum cut at these prices verifies the
        bound. None for a bound proved by an integer program.
    of : {"compute", "time"}
        The quantity that is bounded: "time" if schedules may copy values to the host and back.
    infeasible : bool
        True if no schedule fits, because the bytes that must be live exceed the limit.
    forced : int
        Bytes that must be live in every schedule, if these alone prove that no schedule fits; otherwise 0.
    scope : {"any order", "fixed order", "canonical", "chain"}
        The schedules for which the bound holds.
    solver : str, optional
        The solver that proved the bound; empty if it was proved by cuts or integer programs.
    proven : bool
        True if the bound was computed in this process, False if it was read from a file.
    stopped : bool
        True if the integer program was stopped before its optimum, so that a longer run may raise the bound.

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
        """ "one pass", "closure", "moments", "two paths", "results", an entry of `SOURCES`, or the solver's name."""
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
        """Return (amount - bound) / bound; None if the bound is 0 or its scope is not "any order"."""
        if self.scope != ANY_ORDER:
            return None
        return (amount - self.amount) / self.amount if self.amount else (0.0 if amount == 0 else None)

    @checked_arguments
    def record(self, graph: ComputationGraph) -> dict[str, Any]:
        """Return the proof as JSON: the names or ids of the nodes, and the prices."""
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
        """Read the bound that a record claims; raise PlanError if nodes are unknown or prices invalid."""
        nodes = record.get("nodes") if isinstance(record, Mapping) else None
        ids: dict[Any, int] = {v: v for v in range(graph.n_nodes)}
        if graph.labels.names is not None:
            ids = {graph.labels[v]: v for v in range(graph.n_nodes)}
        valid = isinstance(nodes, list) and all(type(each) in (str, int) and each in ids for each in nodes)
        if not valid or not nodes:
            raise PlanError('"bound" in the details of the plan is {record!r}; expected "nodes"', record=record)
        prices = {kind: read(record[key]) for kind, (key, read) in RECORDED.items() if record.get(key) is not None}
        if prices.keys() - {of}:
            raise PlanError(BOUND_OF_ANOTHER)
        return cls(amount, tuple(ids[each] for each in nodes), prices.get(of), of)


def check_moment(graph: ComputationGraph, nodes: Sequence[int]) -> None:
    """Raise ArgumentError unless all nodes are needed nodes of the graph."""
    for node in nodes:
        if not 0 <= node < graph.n_nodes or not graph.needed[node]:
            raise ArgumentError("node {node} is not needed; give a needed node", node=node)


def _is_price(number: Any) -> bool:
    return type(number) in (int, float) and 0 <= number <= MAX_RECORDED
