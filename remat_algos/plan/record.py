"""The report of a search, and the entries of a plan's JSON with their types."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from remat_algos.allocate.allocators import ARENA_KEYS, POOL_KEYS
from remat_algos.context import Stop
from remat_algos.cost.links import Link
from remat_algos.errors import GraphError, PlanError, extended
from remat_algos.files import json_of, read_text
from remat_algos.ir.arrays import LARGEST_SUM, by_fields, is_count
from remat_algos.ir.budget import NEAR_LOWEST, Budget
from remat_algos.ir.differentiate import differentiate_as
from remat_algos.ir.graph import ComputationGraph
from remat_algos.plan import tuning
from remat_algos.schedule.schedule import Copies
from remat_algos.text.amounts import percent
from remat_algos.wording import counted, listed

OTHERS_SHOWN = 3
NEAR = float(Budget(NEAR_LOWEST).above_lowest or 0)  # relative to the lowest peak
COUNT, COUNTS = "a whole number, 0 or more", "an object of whole numbers, 0 or more"


def _counts_by_name(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(name, str) and is_count(each) for name, each in value.items())


def _is_truth(value: Any) -> bool:
    return isinstance(value, bool)


def are_texts(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(each, str) for each in value)


Entries = Mapping[str, tuple[Callable[[Any], bool], str]]
"""For each entry of a JSON object, a test, and a description of the values that pass it."""
DETAILS: Entries = {
    "solvers_tried": (is_count, COUNT),
    "simulated": (is_count, COUNT),
    "peaks": (_counts_by_name, COUNTS),
    "overheads": (_counts_by_name, COUNTS),
    "skipped": (_counts_by_name, COUNTS),
    "complete": (_is_truth, "true or false"),
    "failed": (_is_truth, "true or false"),
    "interrupted": (_is_truth, "true or false"),
    "out_of_memory": (are_texts, "a list of strings"),
}
"""Entries of a search report in the details of a plan's JSON; the other entries there come from the solver."""


@dataclass(frozen=True, slots=True, eq=False)
class SearchReport:
    """The solvers that were tried, the other plans found, and how the search ended.

    `tried` is the number of solvers that were tried, or None if the request named its solver. `overheads` contains the
    overhead of each solver's best plan within the budget, the best first. `peaks` are the peaks of these plans, if the
    peak was minimized. `simulated` and `skipped` count schedules of the plan's solver. If that solver is no_remat and
    only one other solver ran, they count the schedules of the other solver. `out_of_memory` names the solvers and other
    parts of the search that ran out of memory.
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
        """Read a report from the details of a plan's JSON; their types have been checked."""
        stop = Stop.DONE if details.get("complete", True) else Stop.DEADLINE
        stop = Stop.FAILED if details.get("failed") else stop
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

    @property
    def cut_short(self) -> dict[str, bool]:
        """Flags: "failed" if a solver failed after its first schedule, "interrupted" if the user stopped the search."""
        return {"failed": self.stop is Stop.FAILED, "interrupted": self.stop is Stop.INTERRUPTED}

    def record(self) -> dict[str, Any]:
        """Return the entries of the report in a plan's JSON; a search that ended with a proof counts as complete."""
        record: dict[str, Any] = {}
        if self.simulated is not None:
            record = {"simulated": self.simulated, **self.stop.record()}
        if self.stop.reason:
            record |= self.stop.record()
        record |= {word: True for word, ended in self.cut_short.items() if ended}
        known = {
            "out_of_memory": list(self.out_of_memory),
            "skipped": self.skipped,
            "overheads": self.overheads,
            "peaks": self.peaks,
        }
        record |= {name: value for name, value in known.items() if value}
        return record if self.tried is None else {**record, "solvers_tried": self.tried}

    def rows(self, method: str, *, one_pass: int, peak: int) -> Iterator[tuple[str, str]]:
        """Yield rows (label, text) about the other plans found; `method` and `peak` are those of the plan itself."""
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
        if own is not None and min(near, default=own) < own - tuning.NOTABLE * one_pass:
            yield "cheaper", f"{percent(min(near), one_pass)} within 0.1 % of this peak: budget {NEAR_LOWEST}"

    def ending(self) -> Iterator[tuple[str, str]]:
        """Yield rows (label, text) about skipped schedules, and the reason why the search stopped."""
        if self.skipped:
            yield "skipped", skipped_text(self.skipped)
        if reason := self.stop.reason:
            where = f" in {listed(list(self.out_of_memory))}" if self.stop is Stop.OUT_OF_MEMORY else ""
            yield "stopped", f"{reason}{where}; this is the best plan found"

    def _other(self, name: str, one_pass: int, peak: int) -> str:
        own = self.peaks.get(name, peak)
        higher = f" at {own / max(1, peak):.2f} x the peak" if own > peak else ""
        return f"{name} {percent(self.overheads[name], one_pass)}{higher}"


def skipped_text(skipped: Mapping[str, int]) -> str:
    return ", ".join(f"{counted(count, 'schedule')} {reason}" for reason, count in skipped.items())


Answer = TypeVar("Answer")
FORMAT, VERSION = "remat-plan", 1
COPIES = ("time", "overhead_in_time")
SHOWN = (
    *("peak_memory", "resident_memory", "compute", "overhead", "bound", "bound_scope", "bound_source", "gap"),
    *(*COPIES, "host_peak"),
)
"""Entries by which plans are compared; those about copies exist only with a link."""
POINT = ("peak_memory", "compute", "overhead", *COPIES, "bound", "bound_source", "bound_proven", "gap")
RESERVED = ("allocator", *POOL_KEYS.values(), *ARENA_KEYS.values(), "fragmentation")
"""Entries of a plan whose budget limits the reserved bytes of an allocator."""
BOUND_DETAILS = ("bound", "peak_bound", "narrower_bound")  # entries that prove bounds
KINDS: Mapping[str, type | tuple[type, ...]] = {
    "graph_hash": str,
    "differentiate": (dict, type(None)),
    "solver": str,
    "method": str,
    "options": dict,
    "budget": (dict, type(None)),
    "limit": (int, type(None)),
    "schedule": list,
    "peak_memory": int,
    "resident_memory": int,
    "compute": int,
    "overhead": int,
    "bound": (int, type(None)),
    "bound_scope": (str, type(None)),
    "gap": (int, float, type(None)),
    "compute_unit": str,
    "compute_scale": int,
    "seconds": (int, float),
}
LINK_KINDS: Mapping[str, type | tuple[type, ...]] = {
    "link": dict,
    "loads": list,
    "lingering": list,
    "stores": list,
    "time": (int, float),
    "overhead_in_time": (int, float),
    "host_peak": int,
}
"""Entries that every plan with a link contains, and no other plan."""
TIME_KINDS = {"bound": (int, float, type(None))}
"""Types of entries that are times if the plan has a link. Without a link, they are compute, in whole numbers."""
WHOLE = {key for key, kind in {**KINDS, **LINK_KINDS}.items() if kind in (int, (int, type(None)))}
WHOLE |= {"version", "schedule", "loads", "lingering", "stores", "offsets", "peak_bound"}
"""Entries that consist of whole numbers; JSON may write these as 1.0."""
_KIND_NAMES = {
    str: "a string",
    int: "a whole number",
    float: "a number",
    dict: "an object",
    list: "a list",
    type(None): "null",
}


def read_record(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the JSON object in a file. Raise PlanError with line and column if it contains anything else."""
    file = Path(path)
    try:
        record = json_of(read_text(file))
    except GraphError as error:
        raise PlanError(error.template, **error.fields) from error
    except ValueError as error:
        raise PlanError(
            "{name!p}: {error!w}; give the complete file that was saved", name=file.name, error=error
        ) from error
    if not isinstance(record, dict):
        raise PlanError("{name!p} is not a plan; a plan is a JSON object", name=file.name)
    return record


def from_file(path: str | os.PathLike[str], use: Callable[[dict[str, Any]], Answer]) -> Answer:
    """Return `use(record)` for the record in a file; error messages begin with the name of the file."""
    record = read_record(path)
    try:
        return use(record)
    except PlanError as error:
        raise extended(error, "{file!p}: ", file=Path(path).name) from error


def shaped(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the record of a plan. Raise PlanError if an entry is missing or has the wrong type."""
    whole = WHOLE - TIME_KINDS.keys() if "link" in record else WHOLE
    record = {key: _whole(entry) if key in whole else entry for key, entry in record.items()}
    if record.get("format") != FORMAT:
        raise PlanError('not a plan: expected "format": "{format}"', format=FORMAT)
    if type(record.get("version")) is not int or record["version"] != VERSION:
        raise PlanError(
            "the plan has version {found!r}; this release reads version {version}",
            found=record.get("version"),
            version=VERSION,
        )
    kinds = {**KINDS, **LINK_KINDS, **TIME_KINDS} if LINK_KINDS.keys() & record.keys() else KINDS
    for name, kind in kinds.items():
        if name not in record:
            raise PlanError('the plan has no "{name}"', name=name)
        _check_kind(name, record[name], kind)
    if not isinstance(record.get("details", {}), dict):
        raise PlanError('"details" of the plan is not an object')
    if not isinstance(record.get("bound_source"), str | None):
        raise PlanError(
            '"bound_source" of the plan is {record!r}; expected a string or null', record=record["bound_source"]
        )
    _check_figures(record)
    return record


def _whole(entry: Any) -> Any:
    if isinstance(entry, list):
        return [_whole(each) for each in entry]
    return int(entry) if isinstance(entry, float) and entry.is_integer() else entry


def _check_figures(record: Mapping[str, Any]) -> None:
    """Check the types of entries that a simulation cannot confirm. Raise PlanError if one is wrong."""
    for name in ("solver", "method"):
        if not record[name].strip():
            raise PlanError('"{name}" of the plan is empty; expected the name of a solver', name=name)
    if not 0 <= record["seconds"] < LARGEST_SUM:  # also refuses NaN
        raise PlanError('"seconds" of the plan is {record}; expected a number, 0 or more', record=record["seconds"])
    details = record.get("details", {})
    kinds = {**DETAILS, "peak_bound": (is_count, COUNT)}
    check_entries(details, {name: kinds[name] for name in kinds.keys() & details.keys()}, "the details of the plan")
    waiting: list[Any] = [record["options"], details]
    while waiting:
        value = waiting.pop()
        if isinstance(value, float) and not isfinite(value):
            raise PlanError("the plan has {value} in its options or details, which JSON does not allow", value=value)
        if isinstance(value, Mapping):
            waiting += value.values()
        elif isinstance(value, list | tuple):
            waiting += value


def check_entries(record: Mapping[str, Any], entries: Entries, of: str) -> None:
    """Raise PlanError if an entry is missing or fails its test."""
    for name, (fits, expected) in entries.items():
        if name not in record:
            raise PlanError('{of!w} has no "{name}"', of=of, name=name)
        if not fits(record[name]):
            raise PlanError(
                '"{name}" of {of!w} is {entry!r}; expected {expected!w}',
                name=name,
                of=of,
                entry=record[name],
                expected=expected,
            )


def copies(record: Mapping[str, Any]) -> Copies:
    """Return the loads, lingering values and stores in a plan's record. Raise PlanError if they are malformed."""
    copies: list[Any] = []
    for name, columns in (("loads", "step value"), ("lingering", "value step until"), ("stores", "step value")):
        rows, row = record.get(name, []), columns.split()
        if not isinstance(rows, list) or not all(_is_row(each, row) for each in rows):
            raise PlanError(
                '"{name}" of the plan is {rows!j}; expected a list of [{row!l}]', name=name, rows=rows, row=row
            )
        copies.append([tuple(each) for each in rows])
    return copies[0], copies[1], copies[2]


def _is_row(row: Any, columns: list[str]) -> bool:
    if not isinstance(row, list | tuple) or len(row) != len(columns):
        return False
    return all(
        is_id(entry) or (column == "value" and isinstance(entry, str))
        for entry, column in zip(row, columns, strict=True)
    )


def differentiated(graph: ComputationGraph, options: Mapping[str, Any]) -> ComputationGraph:
    """Differentiate the graph with the options in a plan. Raise PlanError if the options do not fit the graph."""
    try:
        return differentiate_as(graph, options)
    except (TypeError, ValueError) as error:
        raise PlanError('"differentiate" has options that do not match the graph ({error!w})', error=error) from error


def derivation_of(record: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the options of `differentiate` in a plan, or None. Raise PlanError if they are malformed."""
    options: dict[str, Any] | None = record.get("differentiate")
    _check_kind("differentiate", options, KINDS["differentiate"])
    return options


def _check_kind(name: str, value: Any, kind: type | tuple[type, ...]) -> None:
    if not isinstance(value, kind) or isinstance(value, bool):
        expected = " or ".join(_KIND_NAMES[each] for each in (kind if isinstance(kind, tuple) else (kind,)))
        raise PlanError(
            '"{name}" of the plan is {value!r}, expected {expected!w}', name=name, value=value, expected=expected
        )


def link_of(record: Mapping[str, Any]) -> Link | None:
    """Return the link of a plan, or None. Raise PlanError if it is invalid."""
    try:
        return Link.of(record["link"]) if "link" in record else None
    except (TypeError, ValueError) as error:
        raise PlanError('"link" of the plan is invalid: {error!w}', error=error) from error


def is_id(number: Any) -> bool:
    """Return True for a whole number that can be a node id or a step."""
    return type(number) is int and 0 <= number < 2**31


def plain(value: Any) -> Any:
    """Convert a value to JSON types; NaN and infinity become null."""
    if isinstance(value, Mapping):
        return {str(name): plain(value) for name, value in value.items()}
    if isinstance(value, list | tuple):
        return [plain(value) for value in value]
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and not isfinite(value) else value


def own_details(details: Mapping[str, Any]) -> dict[str, Any]:
    """Return the details without the entries of the report and of bounds."""
    return {name: value for name, value in details.items() if name not in (*DETAILS, *BOUND_DETAILS)}
