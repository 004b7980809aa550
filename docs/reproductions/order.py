"""Claims that one method is better than another, and on how many networks they hold."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from docs.reproductions.page import Table

RELATIONS: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

Pairs = Mapping[str, tuple[float, float]]
"""By network the figures of both methods, in the order of the claim."""


@dataclass(frozen=True, slots=True)
class OrderClaim:
    """A claim of order between two methods.

    Parameters
    ----------
    claim : str
        What the paper says, with its methods in the order of the figures.
    where : str
        Its place in the paper.
    relation : {"<", "<=", ">", ">="}
        Between the first figure and the second, if the claim holds.
    ours : mapping of str to (float, float)
        Our figures by network.
    show : callable
        The text of a figure.
    paper : mapping of str to (float, float), optional
        The paper's own figures, where it prints them.
    some : bool, optional
        If true, the paper claims it of some networks only, and the verdict names those on which it holds.

    Examples
    --------
    >>> peaks = {"VGG19": (5.3, 4.7), "U-Net": (4.6, 8.0)}
    >>> OrderClaim("ours is lower than Chen's", "section 5.1", "<", peaks, "{} GB".format).row()
    ("ours is lower than Chen's", 'section 5.1', None, 'holds on 1 of 2; not on VGG19 (5.3 GB against 4.7 GB)')
    """

    claim: str
    where: str
    relation: str
    ours: Pairs
    show: Callable[[Any], str]
    paper: Pairs | None = None
    some: bool = False

    @property
    def holds(self) -> bool:
        """True if our figures agree on all networks, or on some if the paper claims no more."""
        agree = [RELATIONS[self.relation](*pair) for pair in self.ours.values()]
        return any(agree) if self.some else all(agree)

    def row(self) -> tuple[str, str, str | None, str]:
        """The claim, its place, and the verdicts by the paper's own figures and by ours."""
        return self.claim, self.where, None if self.paper is None else self.verdict(self.paper), self.verdict(self.ours)

    def verdict(self, pairs: Pairs) -> str:
        """On how many networks it holds, with the figures of those where it does not (of some: where it does)."""
        holds = RELATIONS[self.relation]
        against = {label: pair for label, pair in pairs.items() if not holds(*pair)}
        if len(pairs) == 1:
            return f"{'does not hold' if against else 'holds'} ({self._both(*pairs.values())})"
        if self.some and against:
            held = {label: pair for label, pair in pairs.items() if label not in against}
            return f"holds: on {len(held)} of {len(pairs)}, {self._listed(held)}" if held else "does not hold on any"
        if not against:
            return f"holds on all {len(pairs)}"
        return f"holds on {len(pairs) - len(against)} of {len(pairs)}; not on {self._listed(against)}"

    def failures(self) -> str:
        """Our networks on which it does not hold, in brackets if there are several networks."""
        failed = [label for label, pair in self.ours.items() if not RELATIONS[self.relation](*pair)]
        return f" ({len(failed)} of {len(self.ours)}: {', '.join(failed)})" if len(self.ours) > 1 else ""

    def _listed(self, pairs: Pairs) -> str:
        return ", ".join(f"{label} ({self._both(pair)})" for label, pair in pairs.items())

    def _both(self, pair: tuple[float, float]) -> str:
        return " against ".join(map(self.show, pair))


def order_table(claims: Sequence[OrderClaim], note: str = "") -> Table:
    """A row for each claim, and a note with those that fail; with the paper's own figures if one claim has them."""
    failed = [f"- {claim.claim}{claim.failures()}" for claim in claims if not claim.holds]
    note = f"{len(claims) - len(failed)} of {len(claims)} claims hold here. {note}"
    if failed:
        note = "\n".join([f"{note.strip()} These fail:", "", *failed])
    rows: list[tuple[Any, ...]] = [claim.row() for claim in claims]
    heads = ["claim", "where", "paper's own figures", "ours"]
    if all(row[2] is None for row in rows):
        rows, heads = [(*row[:2], row[3]) for row in rows], [heads[0], heads[1], heads[3]]
    return Table("order", "Claims of order between methods", dict.fromkeys(heads, str), rows, note.strip())
