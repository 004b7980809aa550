"""The claims of order of chen2016: its plans against each other, in memory and in time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from docs.reproductions.case import NO_REMAT
from docs.reproductions.chen2016.networks import DROP, SUBLINEAR
from docs.reproductions.chen2016.plans import IN_PLACE, NO_OPTIMIZATION, SHARING, Allocated
from docs.reproductions.chen2016.time import Timed
from docs.reproductions.order import OrderClaim, order_table
from docs.reproductions.page import Table
from remat_algos.wording import format_bytes

NOTE = (
    "The paper gives no numbers for these plans on individual networks, except those in the table above. "
    "`drop bn-relu` is in its Figure 5, which is a picture."
)


def claims_of_order(networks: Mapping[str, Sequence[Allocated]], timed: Mapping[str, Sequence[Timed]]) -> Table:
    """A row for each claim and family of networks.

    Parameters
    ----------
    networks : mapping of str to sequence of Allocated
        By family.
    timed : mapping of str to sequence of Timed
        By family.
    """
    plans = (SHARING, NO_OPTIMIZATION), (IN_PLACE, NO_OPTIMIZATION), (SUBLINEAR, SHARING), (SUBLINEAR, DROP)
    claims = []
    for lower, higher in plans:
        for family, sized in networks.items():
            pairs = {each.label: (each.memory[lower], each.memory[higher]) for each in sized if higher in each.memory}
            if pairs:
                text = f"memory of {family}: {lower} below {higher}"
                claims.append(OrderClaim(text, _where(family, lower, higher), "<", pairs, format_bytes))
    for family, cases in timed.items():
        seconds = {each.case.label: (each.seconds(NO_REMAT), each.seconds(SUBLINEAR)) for each in cases}
        text = f"time of {family.split(',')[0]}: {SHARING} below {SUBLINEAR}"
        claims.append(OrderClaim(text, "section 5.4", "<", seconds, "{:.3g} s".format))
    return order_table(claims, NOTE)


def _where(family: str, lower: str, higher: str) -> str:
    """The place of a claim on memory; of ResNets the text has sharing and the sublinear plan, the picture has all."""
    if not family.startswith("ResNet"):
        return "section 5.3, Figure 6"
    return (
        "section 5.2, Figure 5" if (lower, higher) in {(SHARING, NO_OPTIMIZATION), (SUBLINEAR, SHARING)} else "Figure 5"
    )
