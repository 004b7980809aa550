"""The report of a search: solvers tried, other plans found, and how it ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from remat_algos.context import Stop
from remat_algos.ir.arrays import by_fields, is_count
from remat_algos.ir.budget import NEAR_LOWEST, Budget
from remat_algos.text.amounts import percent
from remat_algos.wording import counted, listed

OTHERS_SHOWN = 3
NEAR = float(Budget(NEAR_LOWEST).above_lowest or 0)  # share of the lowest peak
NOTABLE = 0.01  # share of one pass; smaller savings are not mentioned
COUNT, COUNTS = "a whole number, 0 or more", "an object of whole numbers, 0 or more"


def _counts_by_name(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(name, str) and is_count(each) for name, each in value.items())


def _is_truth(value: Any) -> bool:
    return isinstance(value, bool)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(each, str) for each in value)


DETAILS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "solvers_tried": (is_count, COUNT),
    "simulated": (is_count, COUNT),
    "peaks": (_counts_by_name, COUNTS),
    "overheads": (_counts_by_name, COUNTS),
    "skipped": (_counts_by_name, COUNTS),
    "complete": (_is_truth, "true or false"),
    "interrupted": (_is_truth, "true or false"),
    "out_of_memory": (_is_texts, "a list of texts"),
}
"""The entries of a report in the details of the JSON of a plan, beside those of its solver: each with its kind."""


@dataclass(frozen=True, slots=True, eq=False)
class SearchReport:
    """Solvers tried, other plans found, and how the search ended.

    `tried` is None where one solver was named. `overheads` has the best plan of each solver within the budget, the best
    first, and `peaks` their bytes, where the lowest peak was asked for. `simulated` and `skipped` count schedules of
    the solver whose plan it is, or of the only solver that ran if no rematerialization is better. `out_of_memory` names
    the solvers and other parts that ran out of memory.

    Examples
    --------
    >>> report = SearchReport(2, {"chen_sqrt": 4, "no_remat": 0}, {"chen_sqrt": 7, "no_remat": 14})
    >>> dict(report.rows("chen_sqrt", one_pass=20, peak=7))
    {'others': 'no_remat 0.0 % at 2.00 x the peak'}
    >>> report = SearchReport(2, {"search": 4, "no_remat": 0}, {"search": 7_000, "no_remat": 7_004})
    >>> dict(report.rows("search", one_pass=20, peak=7_000))["cheaper"]
    '0.0 % within 0.1 % of this peak: budget least+0.1%'
    """

    tried: int | None = None
    overheads: Mapping[str, int] = field(default_factory=dict)
    peaks: Mapping[str, int] = field(default_factory=dict)
    simulated: int | None = None
    skipped: Mapping[str, int] = field(default_factory=dict)
    stop: Stop = Stop.DONE
    out_of_memory: tuple[str, ...] = ()

    __reduce__ = by_fields

    @classmethod
    def claimed(cls, details: Mapping[str, Any]) -> SearchReport:
        """Read from the details in the JSON of a plan, whose types were checked."""
        stop = Stop.DONE if details.get("complete", True) else Stop.DEADLINE
        stop |= Stop.OUT_OF_MEMORY if details.get("out_of_memory") else Stop.DONE
        stop |= Stop.INTERRUPTED if details.get("interrupted") else Stop.DONE
        return cls(
            details.get("solvers_tried"),
            details.get("overheads", {}),
            details.get("peaks", {}),
            details.get("simulated"),
            details.get("skipped", {}),
            stop,
            tuple(details.get("out_of_memory", ())),
        )

    def record(self) -> dict[str, Any]:
        """The entries of the details in the JSON of a plan; a search that ended with a proof is complete there."""
        record: dict[str, Any] = {}
        if self.simulated is not None:
            record = {"simulated": self.simulated, **self.stop.record()}
        if self.stop.reason:
            record |= self.stop.record()
        if self.stop is Stop.INTERRUPTED:
            record["interrupted"] = True
        known = {
            "out_of_memory": list(self.out_of_memory),
            "skipped": self.skipped,
            "overheads": self.overheads,
            "peaks": self.peaks,
        }
        record |= {name: value for name, value in known.items() if value}
        return record if self.tried is None else {**record, "solvers_tried": self.tried}

    def rows(self, method: str, *, one_pass: int, peak: int) -> Iterator[tuple[str, str]]:
        """Yield rows (label, text) about the other plans found, for a plan of this method and peak."""
        others = [self._other(name, one_pass, peak) for name in self.overheads if name != method]
        if others:
            more = f", {len(others) - OTHERS_SHOWN} more" if others[OTHERS_SHOWN:] else ""
            yield "others", f"{', '.join(others[:OTHERS_SHOWN])}{more}"
        near = [
            self.overheads[name]
            for name, own in self.peaks.items()
            if own <= (1 + NEAR) * peak and name in self.overheads
        ]
        own = self.overheads.get(method)
        if own is not None and min(near, default=own) < own - NOTABLE * one_pass:
            yield "cheaper", f"{percent(min(near), one_pass)} within 0.1 % of this peak: budget {NEAR_LOWEST}"

    def ending(self) -> Iterator[tuple[str, str]]:
        """Yield rows (label, text) about schedules left out and the reason why the search stopped."""
        if self.skipped:
            yield "skipped", skipped_text(self.skipped)
        if reason := self.stop.reason:
            where = f" in {listed(list(self.out_of_memory))}" if self.stop is Stop.OUT_OF_MEMORY else ""
            yield "stopped", f"{reason}{where}; this is the best plan found so far"

    def _other(self, name: str, one_pass: int, peak: int) -> str:
        """Return the best plan of another solver: its overhead, and its peak where that is higher."""
        own = self.peaks.get(name, peak)
        higher = f" at {own / max(1, peak):.2f} x the peak" if own > peak else ""
        return f"{name} {percent(self.overheads[name], one_pass)}{higher}"


def skipped_text(skipped: Mapping[str, int]) -> str:
    """Schedules that a solver abandoned, and why."""
    return ", ".join(f"{counted(count, 'schedule')} {reason}" for reason, count in skipped.items())
