"""Jobs of a sweep: the fields of a job, and the lists and files that describe jobs."""

from __future__ import annotations

import csv
import hashlib
import inspect
import io
import itertools
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from remat_algos.arguments import check_fields, checked_arguments
from remat_algos.context import check_seconds
from remat_algos.cost.devices import get_link
from remat_algos.effort import DEFAULT
from remat_algos.errors import ArgumentError, ArgumentTypeError, GraphError, SweepError
from remat_algos.files import json_of, read_text, unreadable
from remat_algos.formats.graph_files import files_read, is_reference, read_graph
from remat_algos.ir.arrays import brief, by_fields
from remat_algos.ir.budget import Budget
from remat_algos.ir.differentiate import differentiate_as
from remat_algos.ir.graph import ComputationGraph
from remat_algos.search.request import Request
from remat_algos.search.solve import solve
from remat_algos.solvers.registry import AUTO, list_solvers
from remat_algos.wording import did_you_mean, shortened_path

VERSION = version("remat_algos")
LISTED = ("graph", "budget", "overhead", "device", "solver", "effort", "seed")
"""Options that may be lists; a row with lists describes one job per combination of their entries."""
GraphSource = str | ComputationGraph
PlacedJob = tuple[str, "SweepJob"]
KEYS = (*LISTED, "gradients", "nodes")
OF_SOLVE = tuple(inspect.signature(solve).parameters)
LINES, TABLE = (".jsonl", ".ndjson"), (".csv",)


@dataclass(frozen=True, slots=True, eq=False)
class SweepJob:
    """One graph, to be solved for one budget by one solver.

    Parameters
    ----------
    graph : str or ComputationGraph
        A file or `model:NAME`, as for `read_graph`, or the graph itself.
    budget : Budget, int or str, optional
        As in `solve`.
    solver, effort : str
    seed : int
    gradients : bool or mapping
        True to differentiate a graph without a backward part, or a mapping with options of `differentiate`.
    nodes : str, optional
        For a list of edges, the table with sizes and costs of the nodes.
    options : mapping
        Other arguments of `solve` and options of the solver, as JSON values.

    Raises
    ------
    SweepError
        If the options are not JSON.
    TypeError, ValueError
        If the budget is invalid.

    Examples
    --------
    >>> job = SweepJob("model:unet", "50%", solver="echo")
    >>> job.budget
    Budget(memory='50%', overhead=None, device=None)
    """

    graph: GraphSource
    budget: Budget = field(default_factory=Budget)
    solver: str = AUTO
    effort: str = DEFAULT
    seed: int = 0
    gradients: bool | Mapping[str, Any] = True
    nodes: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    __repr__ = brief
    __reduce__ = by_fields

    def __post_init__(self) -> None:
        if isinstance(self.graph, os.PathLike):
            object.__setattr__(self, "graph", os.fspath(self.graph))
        if not isinstance(self.graph, str | ComputationGraph):
            raise ArgumentTypeError(
                "graph is {graph!r}; give a file, model:NAME or a ComputationGraph", graph=self.graph
            )
        if self.nodes is not None and not isinstance(self.graph, str):
            raise ArgumentError("nodes applies to an edge list, but the graph is a ComputationGraph; leave it out")
        if not isinstance(self.gradients, bool | Mapping):
            raise ArgumentTypeError(
                "gradients are {gradients!r}; give true, false or options of differentiate", gradients=self.gradients
            )
        object.__setattr__(self, "budget", Budget.of(self.budget))
        check_fields(self)
        for what, value in (("options", self.options), ("gradients", self.gradients)):
            try:
                json.dumps(value, allow_nan=False)
            except (TypeError, ValueError) as error:
                raise SweepError(
                    "{what!w} of a job are {value!r}; give values that JSON can represent", what=what, value=value
                ) from error


@checked_arguments
def list_jobs(jobs: Iterable[SweepJob | Mapping[str, Any]]) -> list[SweepJob]:
    """Convert jobs, and rows that describe jobs, to a list of jobs.

    Parameters
    ----------
    jobs : iterable of SweepJob or mapping
        A row has "graph", and optionally "budget", "overhead", "device", "solver", "effort" and "seed". If these are
        lists, it describes one job per combination. It may also have "gradients", "nodes", and other `solve` arguments.

    Returns
    -------
    list of SweepJob

    Raises
    ------
    SweepError
        If a row is invalid; the message names its number, counted from 1.

    Examples
    --------
    >>> [job.budget.memory for job in list_jobs([{"graph": "model:unet", "budget": ["50%", "70%"]}])]
    ['50%', '70%']
    """
    return [job for _, job in placed_of_rows(jobs)]


@checked_arguments
def placed_of_rows(jobs: Iterable[SweepJob | Mapping[str, Any]]) -> list[PlacedJob]:
    """Return the jobs in rows, each with its place, such as "job 3"."""
    rows = list[PlacedJob]()
    for number, row in enumerate(jobs, 1):
        place = f"job {number:,}"
        try:
            rows += ((place, job) for job in ([row] if isinstance(row, SweepJob) else _combinations(row)))
        except (TypeError, ValueError) as error:
            raise SweepError("{place!w}: {error!w}", place=place, error=error) from error
    return rows


def graph_name(job: SweepJob) -> str:
    return job.graph if isinstance(job.graph, str) else f"{job.graph.n_nodes} nodes, {job.graph.hash[:8]}"


def job_graph(job: SweepJob) -> ComputationGraph:
    """Return the graph that a job solves, after reading and differentiating it."""
    graph = job.graph
    if isinstance(graph, str):
        graph = read_graph(graph, nodes=job.nodes)
    if graph.is_training or job.gradients is False:
        return graph
    return differentiate_as(graph, {} if isinstance(job.gradients, bool) else job.gradients)


def graph_source(job: SweepJob) -> str | None:
    """Return a key for a job's graph, which includes the state of its files, or None if the job contains the graph."""
    if not isinstance(job.graph, str):
        return None
    try:
        files = files_read(job.graph, job.nodes)
        if missing := [file for file in files if not file.exists()]:
            raise GraphError("no such file: {missing!p}", missing=missing[0])
        states = [
            (str(file.resolve()), file.stat().st_size, file.stat().st_mtime_ns, file.stat().st_ctime_ns)
            for file in files
        ]
    except OSError as error:
        raise unreadable(job.graph, error) from error
    return json.dumps([VERSION, job.graph, job.nodes, job.gradients, states])


def check_job(job: SweepJob, graph: ComputationGraph) -> None:
    options = dict(job.options)
    if "solvers" in options or "progress" in options:
        raise ArgumentError('a job has one solver and no progress callback; list several solvers under "solver"')
    if unknown := [name for name in options if name not in OF_SOLVE]:
        own = {solver.name: solver.options for solver in list_solvers()} | {AUTO: {}}
        names = [*KEYS, *OF_SOLVE, *own.get(job.solver, unknown)]  # Request reports unknown solvers
        if unknown := [name for name in unknown if name not in names]:
            raise ArgumentError(
                "{unknown!r} is not a key of a job, an argument of solve or an option of {solver}{did_you_mean!w}",
                solver=job.solver,
                unknown=unknown[0],
                did_you_mean=did_you_mean(unknown[0], names),
            )
    limit = options.pop("time_limit", None)
    if limit is not None:
        check_seconds(limit)
    request = Request.of(graph, job.budget, solver=job.solver, effort=job.effort, seed=job.seed, **options)
    if any(solver.function.__module__ == "__main__" for solver in request.named or ()):
        raise ArgumentError(
            "solver {solver!r} is defined in this script; move it to a module, and name that module", solver=job.solver
        )


def job_record(job: SweepJob, graph: str) -> dict[str, Any]:
    """Return the JSON record whose hash is the name of a job. `graph` is the id of the job's graph."""
    return {
        "graph": graph,
        "version": VERSION,
        "budget": job.budget.record(),
        "solver": job.solver,
        "effort": job.effort,
        "seed": job.seed,
        "options": {name: _content(name, value) for name, value in job.options.items()},
    }


def _content(name: str, value: Any) -> Any:
    """Return the value of an option. A link is replaced by its record, since the file that describes it may change."""
    return get_link(value).record() if name == "link" and value is not None else value


def job_name(record: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()[:32]


def _combinations(row: Mapping[str, Any]) -> Iterator[SweepJob]:
    if not isinstance(row, Mapping):
        raise ArgumentTypeError("the job is {row!r}; give an object with a graph and a budget, or a SweepJob", row=row)
    if "graph" not in row:
        raise ArgumentError('the job has no "graph"; name a file or model:NAME')
    rest = {name: value for name, value in row.items() if name not in LISTED}
    own = {name: rest.pop(name) for name in KEYS[len(LISTED) :] if name in rest}
    lists = [value if isinstance(value, list | tuple | range) else [value] for value in map(row.get, LISTED)]
    if empty := [name for name, values in zip(LISTED, lists, strict=True) if not values]:
        raise ArgumentError("{empty!l} is an empty list; give an entry, or leave it out", empty=empty)
    for graph, memory, overhead, device, *named in itertools.product(*lists):
        known = {name: value for name, value in zip(LISTED[4:], named, strict=True) if value is not None}
        yield SweepJob(graph, _budget(memory, overhead, device), **known, **own, options=rest)


def _budget(memory: Any, overhead: Any, device: Any) -> Budget:
    if isinstance(memory, Budget | Mapping) and (overhead is not None or device is not None):
        raise ArgumentError("the budget is an object; move the overhead and the device into it")
    if isinstance(memory, Budget):
        return memory
    if isinstance(memory, Mapping):
        unknown = sorted(set(map(str, memory)) - {each.name for each in fields(Budget)})
        if unknown:
            raise ArgumentError(
                "budget has the unknown key {unknown!r}; use memory, overhead, device", unknown=unknown[0]
            )
        return Budget(**memory)
    return Budget(memory, overhead, device)


@checked_arguments
def read_jobs(path: str | os.PathLike[str]) -> list[SweepJob]:
    """Read the jobs of a file; paths of graphs are relative to its folder.

    Parameters
    ----------
    path : path
        `.jsonl` with one object per line, or `.csv` with a line of column names and one row per line; rows are as for
        `list_jobs`. Empty cells of a table are ignored, and cells with JSON are parsed.

    Returns
    -------
    list of SweepJob

    Raises
    ------
    SweepError
        If a job is invalid; the message names its line.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> file = Path(mkdtemp()) / "jobs.jsonl"
    >>> _ = file.write_text('{"graph": "model:unet", "budget": "50%", "seed": [0, 1]}')
    >>> [job.seed for job in read_jobs(file)]
    [0, 1]
    """
    return [job for _, job in placed_of_file(path)]


def placed_of_file(path: str | os.PathLike[str]) -> list[PlacedJob]:
    """Return the jobs in a file, each with its place, such as "jobs.csv, line 3"."""
    file = Path(path)
    if file.suffix not in (*LINES, *TABLE):
        raise SweepError("{name!p} is neither .jsonl nor .csv; write the jobs as one of them", name=file.name)
    try:
        text = read_text(file)
    except GraphError as error:
        raise SweepError(error.template, **error.fields) from error
    jobs, named = list[PlacedJob](), file.name
    for line, row in (_lines if file.suffix in LINES else _rows)(text):
        try:
            jobs += (
                (f"{shortened_path(named)}, line {line:,}", job) for job in _combinations(_placed(row(), file.parent))
            )
        except (TypeError, ValueError) as error:
            raise SweepError("{named!p}, line {line:,}: {error!w}", named=named, line=line, error=error) from error
    if not jobs:
        raise SweepError("{named!p} has no jobs; write an object with a graph and a budget in each line", named=named)
    return jobs


def _lines(text: str) -> Iterator[tuple[int, Callable[[], Any]]]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield number, partial(_line, line)


def _line(line: str) -> Any:
    try:
        return json_of(line)
    except ValueError as error:
        raise SweepError("{error!w}; write an object, or leave the line empty", error=error) from error


def _rows(text: str) -> Iterator[tuple[int, Callable[[], Any]]]:
    csv.field_size_limit(max(csv.field_size_limit(), len(text)))
    reader = csv.DictReader(io.StringIO(text, newline=""))
    reader.fieldnames = [name.strip() for name in reader.fieldnames or ()]
    names = [name for name in reader.fieldnames if name]
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise SweepError("two columns of the table are named {twice!r}; keep one", twice=twice[0])
    while (row := next(reader, None)) is not None:
        yield reader.line_num, partial(_cells, row)


def _cells(row: Mapping[str, Any]) -> dict[str, Any]:
    if any(row.get(None) or ()):  # type: ignore[call-overload]
        raise SweepError("the row has more cells than the first line has names; quote cells that contain a comma")
    cells = {name: (cell or "").strip() for name, cell in row.items() if name is not None}
    if cells.pop("", ""):
        raise SweepError("the row has a cell in a column without a name; name the column, or empty the cell")
    return {name: _cell(name, cell) for name, cell in cells.items() if cell}


def _cell(name: str, cell: str) -> Any:
    if name in ("graph", "nodes", "solver", "effort") and not (cell.startswith("[") and cell.endswith("]")):
        return cell
    if cell.lower() in ("true", "false"):  # spreadsheets write TRUE
        return cell.lower() == "true"
    try:
        return json_of(cell)
    except ValueError:
        return cell


def _placed(row: Any, folder: Path) -> Any:
    if not isinstance(row, Mapping):
        return row
    placed = dict(row)
    for name in ("graph", "nodes", "link"):
        if name in placed:
            entry = placed[name]
            # If no file has the name, the link is built in or a string of rates.
            only = name == "link"
            several = entry if isinstance(entry, list) else [entry]
            paths = [_path(each, folder, only_if_there=only) for each in several]
            placed[name] = paths if isinstance(entry, list) else paths[0]
    return placed


def _path(text: Any, folder: Path, *, only_if_there: bool) -> Any:
    if not isinstance(text, str) or is_reference(text) or (only_if_there and not (folder / text).exists()):
        return text
    return str(folder / text)
