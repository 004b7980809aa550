"""The claims of order of kumar2019: its three algorithms against each other, in peak and in length."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise

from docs.reproductions.case import NO_REMAT, Case
from docs.reproductions.kumar2019.algorithms import GREEDY, TWREMAT, length
from docs.reproductions.kumar2019.trade import Trade
from docs.reproductions.order import OrderClaim, Pairs, order_table
from docs.reproductions.page import Table
from remat_algos.wording import format_bytes

ALGORITHMS = (NO_REMAT, GREEDY, TWREMAT)  # in the order of the columns of table 2
Quoted = Mapping[str, Sequence[tuple[float, float]]]
"""By network of table 2 the GiB and the relative length of each algorithm."""


def claims_of_order(families: Mapping[str, Sequence[Case]], quoted: Quoted, trade: Trade) -> Table:
    """A row for each claim and family of networks.

    Parameters
    ----------
    families : mapping of str to sequence of Case
        By family; the Transformers' labels begin with those of `quoted`.
    quoted : mapping of str to sequence of (float, float)
        Table 2.
    trade : Trade
        The network of figure 4.
    """
    claims: list[OrderClaim] = []
    for family, cases in families.items():
        claims += _of_family(family, cases, quoted if family == "Transformers" else {})
    return order_table([*claims, *_of_limits(trade)])


def _of_family(family: str, cases: Sequence[Case], quoted: Quoted) -> Iterator[OrderClaim]:
    peaks, lengths = ("section 4.1, Table 2", "section 4.1, Table 2") if quoted else ("section 4.1", "section 4.2")

    def in_table_2(column: int, lower: str, higher: str) -> Pairs | None:
        at = [ALGORITHMS.index(name) for name in (lower, higher)]
        both = {label: (row[at[0]][column], row[at[1]][column]) for label, row in quoted.items()}
        return both or None

    def claim(
        what: str, where: str, relation: str, lower: str, higher: str, of: Callable[[Case, str], float]
    ) -> OrderClaim:
        ours = {case.label: (of(case, lower), of(case, higher)) for case in cases}
        show = format_bytes if what == "peak" else "{:.2f}".format
        text = f"{what}, {family}: {_name(lower)} {'below' if relation == '<' else 'at or below'} {_name(higher)}"
        return OrderClaim(text, where, relation, ours, show, in_table_2(0 if what == "peak" else 1, lower, higher))

    for lower, higher in ((GREEDY, NO_REMAT), (TWREMAT, GREEDY)):
        relation = "<=" if family == "FFN" and lower == GREEDY else "<"  # "very little memory savings" may be none
        yield claim("peak", peaks, relation, lower, higher, lambda case, name: case.peak(name))
    for lower, higher in ((NO_REMAT, GREEDY), (GREEDY, TWREMAT)):
        yield claim("length", lengths, "<=", lower, higher, lambda case, name: length(case.simulations[name]))


def _name(strategy: str) -> str:
    return "NoRemat" if strategy == NO_REMAT else strategy


def _of_limits(trade: Trade) -> Iterator[OrderClaim]:
    """Each recursion limit against the next smaller one; the paper says only that they interpolate."""
    steps = list(pairwise(trade.by_limit.items()))
    claim = f"{trade.case.label}, TWRemat(k), our reading of 'interpolate': no larger k has"
    peaks = {f"k = {k}": (now.peak_memory, before.peak_memory) for (_, before), (k, now) in steps}
    lengths = {f"k = {k}": (length(now), length(before)) for (_, before), (k, now) in steps}
    yield OrderClaim(f"{claim} a greater length", "section 4.3, Figure 4", "<=", lengths, "{:.2f}".format)
    yield OrderClaim(f"{claim} a lower peak", "section 4.3, Figure 4", ">=", peaks, "{:,} B".format)
