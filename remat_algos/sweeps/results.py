"""The results of a sweep, as a table."""

from __future__ import annotations

import importlib
import io
import json
import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from remat_algos.arguments import checked_arguments
from remat_algos.context import Stop
from remat_algos.errors import PlanError, SweepError
from remat_algos.files import json_of, write_whole
from remat_algos.formats.csv_tables import table_text
from remat_algos.plan.plan import Plan, plan_of
from remat_algos.result import Result, entries
from remat_algos.sweeps.folder import SweepFolder
from remat_algos.sweeps.worker import FAILED, OUTCOMES, PLANNED
from remat_algos.text.amounts import fine_percent, format_seconds
from remat_algos.wording import counted, one_line, shortened_path

RECORD_KEYS = (
    *("job", "graph", "graph_id", "nodes", "budget", "overhead_budget", "device", "solver", "effort", "seed"),
    *("options", "outcome", "reason", "method", "limit", "peak_memory", "reserved_memory", "resident_memory"),
    *(
        "host_peak",
        "one_pass",
        "compute",
        "overhead",
        "time",
        "bound",
        "bound_source",
        "gap",
        "steps",
        "stop",
        "reached",
        "least",
    ),
    *("seconds", "cpu_seconds", "memory", "tries", "host", "version", "numpy", "scipy", "python", "machine"),
)
"""Columns of the table: the request, its result, and the time and memory that the job took."""
TABLES = (".csv", ".parquet")
_NUMBER = re.compile(r"\d{1,29}")
REASONS = 5  # maximum number printed


@dataclass(frozen=True, slots=True, eq=False)
class SweepResults(Result, Sequence[dict[str, Any]]):
    """The results of a sweep: one record for each job with a result.

    Parameters
    ----------
    folder : Path
    records : tuple of dict
        Records with the keys `RECORD_KEYS`; missing entries are None. Amounts are in bytes, units of cost and seconds.
    stop : Stop
        How the sweep ended.
    left : int
        Number of jobs without a result.
    damaged : int
        Number of damaged files in the folder.

    Examples
    --------
    >>> import tempfile
    >>> from remat_algos.sweeps.driver import sweep
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     found = sweep([{"graph": "model:vgg11", "budget": "80%", "solver": ["echo", "chen_sqrt"]}], folder)
    ...     [(row["solver"], row["outcome"]) for row in found]
    [('echo', 'planned'), ('chen_sqrt', 'planned')]
    """

    folder: Path
    records: tuple[dict[str, Any], ...]
    stop: Stop = Stop.DONE
    left: int = 0
    damaged: int = 0

    COLUMNS = ("solver", "jobs", "planned", "infeasible", "refused", "failed", "best", "overhead", "gap", "cpu")

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, i: Any) -> Any:
        return self.records[i]

    def __repr__(self) -> str:
        counts = Counter(row["outcome"] for row in self.records)
        return one_line(
            self,
            *(f"{counts[name]:,} {name}" for name in OUTCOMES if counts[name]),
            f"{self.left:,} left" * (self.left > 0),
        )

    def record(self) -> dict[str, Any]:
        return {"stop": self.stop.value, **entries(self, "left damaged rows=records")}

    def heading(self) -> Iterator[str]:
        count = counted(len(self.jobs), "result") if self.records else "no results yet"
        yield f"{shortened_path(self.folder)}: {count}"

    def notes(self) -> Iterator[str]:
        """Yield notes about failed and unsolved jobs."""
        reasons = Counter(row["reason"] for row in self.jobs if row["outcome"] == FAILED)
        for reason, count in reasons.most_common(REASONS):
            yield f"failed: {reason}" + (f" ({count:,} jobs)" if count > 1 else "")
        if others := sum(reasons.values()) - sum(count for _, count in reasons.most_common(REASONS)):
            yield f"failed for other reasons: {counted(others, 'job')}"
        if self.left or self.stop.reason:
            why, left = self.stop.reason or "not solved", counted(self.left, "job") if self.left else "some jobs"
            yield f"{why}: {left} left; run the same sweep again to continue"
        if self.damaged:
            yield f"left out: {counted(self.damaged, 'damaged file')}; run the sweep again to solve these jobs"
        if len(versions := sorted({str(row.get("version")) for row in self.jobs})) > 1:
            yield f"results of several versions of remat_algos ({', '.join(versions)}) are not compared with each other"

    @property
    def jobs(self) -> tuple[dict[str, Any], ...]:
        """The records, with one record for a job that was listed twice."""
        return tuple({row.get("job") or id(row): row for row in self.records}.values())

    def rows(self) -> Iterator[tuple[str, ...]]:
        """Yield one row per solver: outcomes, number of best results, medians of overhead, gap and time."""
        ratios, jobs = self.ratios(), self.jobs
        for solver in dict.fromkeys(row["solver"] for row in jobs):
            rows = [row for row in jobs if row["solver"] == solver]
            plans = [row for row in rows if row["outcome"] == PLANNED]
            counts = Counter(row["outcome"] for row in rows)
            overheads = [row["overhead"] / (row["one_pass"] or 1) for row in plans]
            gaps = [row["gap"] for row in plans if row["gap"] is not None]
            seconds = [row["cpu_seconds"] for row in rows if row["cpu_seconds"] is not None]
            yield (
                solver,
                f"{len(rows):,}",
                *(f"{counts[name]:,}" for name in OUTCOMES),
                f"{ratios.get(solver, []).count(1):,}",
                fine_percent(median(overheads), 1) if overheads else "",
                fine_percent(median(gaps), 1) if gaps else "",
                format_seconds(median(seconds)) if seconds else "",
            )

    def ratios(self) -> dict[str, list[float]]:
        """Return each solver's result divided by the best one, for each problem that at least one solver solved.

        Jobs that differ only in solver, seed and effort are the same problem; the best result of each solver counts.
        The result is the time for plans with a link, the peak if the lowest peak is requested, and the compute
        otherwise. The ratio is infinite if the solver has no plan.
        """
        problems, ratios = defaultdict[str, list[dict[str, Any]]](list), defaultdict[str, list[float]](list)
        for row in self.jobs:
            problems[_problem(row)].append(row)
        for rows in problems.values():
            objective = _objective(rows)
            amounts = {row["solver"]: float("inf") for row in rows}
            for row in rows:
                if row["outcome"] == PLANNED:
                    amounts[row["solver"]] = min(amounts[row["solver"]], row[objective])
            least = min(amounts.values())
            if least < float("inf"):
                for solver, amount in amounts.items():
                    ratios[solver].append((amount + (least == 0)) / (least or 1))
        return {solver: sorted(each) for solver, each in ratios.items()}

    @checked_arguments
    def plan(self, i: int) -> Plan:
        """Return the plan of a row after simulating and verifying it.

        Raise PlanError if there is no such row, or its plan is missing, damaged or changed.
        """
        if not 0 <= i < len(self):
            raise PlanError("there is no row {i}; there are {count:row}", i=i, count=len(self))
        job, store = self.records[i]["job"], SweepFolder(self.folder, create=False)
        if (outcome := self.records[i]["outcome"]) != PLANNED:
            reason = self.records[i]["reason"]
            raise PlanError("row {i} has no plan: {outcome}, {reason!w}", i=i, outcome=outcome, reason=reason)
        try:
            record = json_of(store.plan_text(job))
        except (OSError, ValueError):
            record = None
        if not isinstance(record, dict):
            file = store.result_file(job)
            raise PlanError("{file!p} is damaged and contains no plan; remove it, and run the sweep again", file=file)
        return plan_of(record, store.read_graph(self.records[i]["graph_id"]))

    def csv(self) -> str:
        """Return the table as CSV. Strings that a spreadsheet would read as formulas are prefixed with `'`."""
        return table_text(RECORD_KEYS, ([row[name] for name in RECORD_KEYS] for row in self.records))

    @checked_arguments
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the table as `.csv`, or as `.parquet` if pyarrow or pandas is installed.

        Raise SweepError if the extension is different, or its library is missing.
        """
        file = Path(path)
        if file.suffix == ".csv":
            write_whole(file, self.csv().encode())
        elif file.suffix == ".parquet":
            write_whole(file, _parquet({name: [row[name] for row in self.records] for name in RECORD_KEYS}))
        else:
            raise SweepError("{name!p} has another extension; use {tables!l}", name=file.name, tables=TABLES)


def results_of(
    store: SweepFolder, stop: Stop = Stop.DONE, jobs: Sequence[tuple[str, str]] | None = None, total: int = 0
) -> SweepResults:
    """Return the results of `jobs`, pairs (name, graph name), in that order; without `jobs`, all results, sorted."""
    if jobs is None:
        rows, damaged = list[dict[str, Any]](), 0
        for figures in store.figures():
            if figures is None:
                damaged += 1
            else:
                rows.append(_row(figures))
        return SweepResults(store.path, tuple(sorted(rows, key=_place)), stop, damaged=damaged)
    known = ((store.read(name), graph) for name, graph in jobs)
    records = tuple(_row(figures | {"name": graph}) for figures, graph in known if figures is not None)
    return SweepResults(store.path, records, stop, total - len(records))


@checked_arguments
def read_sweep(folder: str | os.PathLike[str]) -> SweepResults:
    """Read the results of a sweep, even while it runs.

    Parameters
    ----------
    folder : path
        The folder of `sweep`.

    Returns
    -------
    SweepResults
        Sorted by graph, budget and solver.

    Raises
    ------
    SweepError
        If it is not the folder of a sweep.

    Examples
    --------
    >>> import tempfile
    >>> from remat_algos.sweeps.driver import sweep
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = sweep([{"graph": "model:vgg11", "budget": ["80%", "5%"], "solver": "chen_sqrt"}], folder)
    ...     [row["outcome"] for row in read_sweep(folder)]
    ['infeasible', 'planned']
    """
    return results_of(SweepFolder(Path(folder), create=False))


def _row(figures: dict[str, Any]) -> dict[str, Any]:
    request, versions = figures["request"], figures.get("versions", {})
    budget, options = request["budget"], request["options"]
    known = figures | {
        "graph": figures["name"],
        "graph_id": request["graph"],
        "budget": budget["memory"],
        "overhead_budget": budget["overhead"],
        "device": budget["device"],
        "solver": request["solver"],
        "effort": request["effort"],
        "seed": request["seed"],
        "options": json.dumps(options, sort_keys=True) if options else None,
        "version": request["version"],
        **{name: versions.get(name) for name in ("numpy", "scipy", "python", "machine")},
    }
    return {name: known.get(name) for name in RECORD_KEYS}


def _place(row: dict[str, Any]) -> tuple[str, ...]:
    """Return a sort key in which numbers sort by value: 40% before 100%."""
    texts = (str(row[name] or "") for name in ("graph", "budget", "overhead_budget", "solver", "effort", "seed"))
    return tuple(_NUMBER.sub(lambda number: f"{int(number[0]):030}", text) for text in texts)


def _problem(row: dict[str, Any]) -> str:
    """Return a key for the problem that a job solves; results are compared only among jobs with equal keys."""
    budgets = ["".join(str(row[name]).split()).lower() for name in ("budget", "overhead_budget", "device")]
    return json.dumps([row["graph_id"], *budgets, row["options"], row.get("version")])


def _objective(rows: Sequence[dict[str, Any]]) -> str:
    budget, device = rows[0]["budget"], rows[0]["device"]
    if device is None and (budget is None or str(budget).strip().lower() == "least"):
        return "reserved_memory"
    return "time" if any(row.get("time") is not None for row in rows) else "compute"


def _parquet(columns: dict[str, list[Any]]) -> bytes:
    buffer = io.BytesIO()
    for library in ("pyarrow", "pandas"):
        try:
            module = importlib.import_module("pyarrow.parquet" if library == "pyarrow" else library)
        except ImportError:
            continue
        columns = {name: [_plain(name, value) for value in values] for name, values in columns.items()}
        if library == "pyarrow":
            module.write_table(importlib.import_module("pyarrow").table(columns), buffer)
        else:
            module.DataFrame(columns).to_parquet(buffer)
        return buffer.getvalue()
    raise SweepError("Parquet needs pyarrow or pandas; install one: python -m pip install pyarrow, or write a .csv")


def _plain(name: str, value: Any) -> Any:
    """Return the value of a cell; budgets (bytes or shares) become strings, so that each column has one type."""
    return str(value) if value is not None and name in ("budget", "overhead_budget", "device") else value
