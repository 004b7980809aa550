"""The claims of order of kusumoto2019, by its own figures and by ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from docs.reproductions.kusumoto2019.batches import BatchCurves
from docs.reproductions.kusumoto2019.networks import CHEN, MEMORY_CENTRIC, PLANNED, TIME, VANILLA, Measured
from docs.reproductions.order import OrderClaim, Pairs, order_table
from docs.reproductions.page import Table, gigabytes

COMPLEX = ("PSPNet", "U-Net", "GoogLeNet")  # named in section 5.1
NOTE = (
    "Peaks are those of Table 1, of the paper and of this page. Plans of an exact and an approximate program may be "
    "the same; then neither is lower."
)


def claims_of_order(cases: Sequence[Measured], curves: Mapping[str, BatchCurves]) -> Table:
    """A row for each claim, with the networks on which it does not hold.

    Parameters
    ----------
    cases : sequence of Measured
        Networks of table 1.
    curves : mapping of str to BatchCurves
        By network.
    """
    return order_table([*_of_peaks(cases), *_of_time(cases, curves)], NOTE)


def _of_peaks(cases: Sequence[Measured]) -> Iterator[OrderClaim]:
    def claim(text: str, where: str, relation: str, pair: tuple[str, str], *, some: bool = False) -> OrderClaim:
        ours = {case.label: (case.totals[pair[0]], case.totals[pair[1]]) for case in cases}
        paper = _of_table_1(cases, lambda total: _both(total, pair))
        return OrderClaim(text, where, relation, ours, gigabytes, paper, some)

    for method in PLANNED:
        yield claim(f"peak: {method} below {CHEN}", "abstract, section 5.1", "<", (method, CHEN))
    lead = f"lead of {MEMORY_CENTRIC} over {CHEN} in reduction, in points"
    yield OrderClaim(
        f"{lead}: larger on {', '.join(COMPLEX)} than on any other network",
        "section 5.1",
        ">",
        _margins({case.label: case.totals for case in cases}),
        "{:.1f} points".format,
        _margins({case.label: case.paper.totals for case in cases if case.paper is not None}),
    )
    yield claim(f"peak: {MEMORY_CENTRIC} below {VANILLA}", "abstract", "<", (MEMORY_CENTRIC, VANILLA))
    for family in ("ApproxDP", "ExactDP"):
        pair = (f"{family} + MC", f"{family} + TC")
        yield claim(f"peak: {pair[0]} at or below {pair[1]}", "section 4.4", "<=", pair)
    for kind in ("MC", "TC"):
        pair = (f"ApproxDP + {kind}", f"ExactDP + {kind}")
        yield claim(f"peak: {pair[0]} below {pair[1]}, on some networks", "section 5.1, note 2", "<", pair, some=True)


def _both(totals: Mapping[str, int], pair: tuple[str, str]) -> tuple[int, int]:
    return totals[pair[0]], totals[pair[1]]


def _of_table_1(cases: Sequence[Measured], pair: Callable[[Mapping[str, int]], tuple[float, float]]) -> Pairs:
    return {case.label: pair(case.paper.totals) for case in cases if case.paper is not None}


def _margins(totals: Mapping[str, Mapping[str, int]]) -> Pairs:
    """By complex network its reduction beyond Chen's, in points of vanilla, and the largest of the other networks."""
    margin = {label: 100 * (peaks[CHEN] - peaks[MEMORY_CENTRIC]) / peaks[VANILLA] for label, peaks in totals.items()}
    largest = max((points for label, points in margin.items() if label not in COMPLEX), default=0.0)
    return {label: (margin[label], largest) for label in COMPLEX if label in margin}


def _of_time(cases: Sequence[Measured], curves: Mapping[str, BatchCurves]) -> Iterator[OrderClaim]:
    where = "section 5.2, Figure 4"
    for method in (TIME, MEMORY_CENTRIC):
        slowest = {label: pair for label, curve in curves.items() if (pair := _closest(curve, method)) is not None}
        yield OrderClaim(f"time at every batch that fits with both: {method} below {CHEN}", where, "<", slowest, _s)
    for method in (TIME, MEMORY_CENTRIC):
        largest = {label: (curve.largest[method], curve.largest[CHEN]) for label, curve in curves.items()}
        yield OrderClaim(f"largest batch: {method} above {CHEN}", where, ">", largest, str)
    for family in ("ApproxDP", "ExactDP"):
        overheads = {
            case.label: (case.plans[f"{family} + TC"].overhead, case.plans[f"{family} + MC"].overhead) for case in cases
        }
        text = f"executed overhead: {family} + TC at or below {family} + MC"
        yield OrderClaim(text, "section 4.4", "<=", overheads, str)
    for family in ("ApproxDP", "ExactDP"):
        passes = {case.label: (case.plans[f"{family} + MC"].overhead, case.one_pass) for case in cases}
        text = f"executed overhead of {family} + MC: at most one forward pass, T(V)"
        yield OrderClaim(text, "section 4.4", "<=", passes, str)


def _closest(curve: BatchCurves, method: str) -> tuple[float, float] | None:
    """Seconds of a method and of Chen's plan at the batch at which the method is relatively slowest."""
    ours, chens = curve.seconds[method], curve.seconds[CHEN]
    pairs = [(ours[batch], chens[batch]) for batch in ours if batch in chens]
    return max(pairs, key=lambda pair: pair[0] / pair[1], default=None)


def _s(seconds: float) -> str:
    return f"{seconds:.2f} s"
