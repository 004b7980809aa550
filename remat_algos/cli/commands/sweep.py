"""remat sweep: run many jobs and collect their results in a folder."""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from remat_algos.cli.exits import ExitCode
from remat_algos.cli.output import draw, print_result, progress_line
from remat_algos.cli.shared_options import add_plot, check_overwrite, number, refuse_used, whole_number, writable
from remat_algos.errors import ArgumentError, RematError
from remat_algos.interop.optional import require
from remat_algos.sweeps.driver import sweep
from remat_algos.sweeps.results import TABLES, SweepResults, read_sweep
from remat_algos.text.amounts import parse_bytes

if TYPE_CHECKING:
    from concurrent.futures import Executor


# Seconds between progress lines.
LOG_SECONDS = 60.0
PICTURES = ("profiles", "overheads", "solve_times")
OF_JOBS = ("output", "processes", "dask", "part", "retries", "retry_failed", "timeout", "memory", "modules")
"""Options for running jobs; a command that only shows a folder of results rejects them."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "jobs", metavar="JOBS", help="jobs to run, .jsonl or .csv; or the folder of a sweep, to show its results"
    )
    parser.add_argument(
        "-o", "--output", metavar="FOLDER", help="folder for the results; jobs that already have a result are skipped"
    )
    group = parser.add_argument_group("where and how jobs run")
    group.add_argument(
        "--processes", type=whole_number, metavar="N", help="number of parallel jobs (default: number of cores)"
    )
    group.add_argument("--dask", metavar="ADDRESS", help="run jobs on the workers of this Dask scheduler")
    group.add_argument(
        "--part",
        type=_part,
        metavar="I/N",
        help="run only the I-th of N parts of the jobs, as in a task of a batch system; parts can run in parallel",
    )
    group.add_argument("--retries", type=whole_number, metavar="N", help="tries of a job that fails (default: 3)")
    group.add_argument("--retry-failed", action="store_true", help="run the jobs that failed in an earlier sweep again")
    group.add_argument(
        "--timeout", type=number, metavar="SECONDS", help="stop a job after SECONDS and count it as failed"
    )
    group.add_argument(
        "--memory", metavar="BYTES", type=parse_bytes, help="stop a job that uses more than, for example, 4GiB (Linux)"
    )
    group.add_argument(
        "--import",
        dest="modules",
        action="append",
        default=[],
        metavar="MODULE",
        help="import MODULE before running jobs, for example to register solvers; may be repeated",
    )
    parser.add_argument("--table", type=_table, metavar="FILE", help="write the results as a table, .csv or .parquet")
    add_plot(parser, *PICTURES)


def run(arguments: argparse.Namespace) -> ExitCode:
    """Run jobs, or show results. Exit code 4: jobs failed; 130: interrupted."""
    results = _shown(arguments) if Path(arguments.jobs).is_dir() else _swept(arguments)
    if arguments.table:
        results.save(arguments.table)
    print_result(arguments, results, *([("table", arguments.table)] if arguments.table else []))
    draw(arguments, arguments.picture or PICTURES[0], results)
    failed = any(row["outcome"] == "failed" for row in results)
    return ExitCode.of(results.stop, ExitCode.FAILED if failed else ExitCode.DONE)


def _shown(arguments: argparse.Namespace) -> SweepResults:
    refuse_used(
        arguments,
        OF_JOBS,
        "{option} needs jobs, but {folder!p} is a folder of results; name the file with the jobs",
        folder=arguments.jobs,
    )
    return read_sweep(arguments.jobs)


def _swept(arguments: argparse.Namespace) -> SweepResults:
    if not Path(arguments.jobs).exists():
        raise RematError(
            "no such file: {file!p}; name jobs, .jsonl or .csv, or a folder of results", file=arguments.jobs
        )
    if arguments.output is None:
        raise RematError("results need a folder; give -o FOLDER")
    if arguments.dask is not None and arguments.processes is not None:
        raise RematError("--processes is for this machine, but --dask has its own processes; leave out one")
    if arguments.table:
        check_overwrite(arguments, arguments.table)
    if arguments.modules:
        # As `python -m` does.
        sys.path.insert(0, os.getcwd())
    with _executor(arguments.dask) as executor, progress_line(keeps=False, every=LOG_SECONDS) as progress:
        return sweep(
            arguments.jobs,
            arguments.output,
            executor,
            3 if arguments.retries is None else arguments.retries,
            processes=arguments.processes,
            timeout=arguments.timeout,
            memory=arguments.memory,
            part=arguments.part or (1, 1),
            retry_failed=arguments.retry_failed,
            modules=arguments.modules,
            progress=progress,
        )


@contextlib.contextmanager
def _executor(address: str | None) -> Iterator[Executor | None]:
    if address is None:
        yield None
        return
    try:
        connect = require("distributed", "dask").Client
    except ImportError as error:
        raise RematError("--dask {address}: {error!e}", address=address, error=error) from error
    for name in logging.root.manager.loggerDict:
        if name.startswith("distributed"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        client: Any = connect(address, timeout="10s")
    except (OSError, ValueError, TimeoutError) as error:
        raise RematError(
            "--dask {address}: no scheduler answers at this address; start one with `dask scheduler`", address=address
        ) from error
    with client:
        yield client.get_executor()


def _part(text: str) -> tuple[int, int]:
    number, _, count = text.partition("/")
    if number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count):
        return int(number), int(count)
    raise ArgumentError("{text!r} is not a part; give I/N with I from 1 to N, such as 1/8", text=text)


def _table(path: str) -> str:
    if Path(path).suffix not in TABLES:
        raise RematError("{path!p} does not end in {tables!l}; choose one of these", path=path, tables=TABLES)
    return writable(path)
