"""What a command says: JSON, tables on a terminal, plain text in a pipe."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from remat_algos.cli.interrupts import INTERRUPTED as INTERRUPTED  # exit code, also where a plan was found by then

_AMOUNT = re.compile(r"([0-9][0-9.,]*( ?(%|[kMGTPE]?B))?)?")


def add_json(parser: argparse.ArgumentParser) -> None:
    """--json."""
    parser.add_argument(
        "--json", action="store_true", help="one JSON object on standard output, and nothing else there"
    )


def say_json(record: dict[str, Any]) -> None:
    """One JSON object on standard output."""
    import json

    print(json.dumps(record, indent=1))


def say_table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, headed: bool = True) -> None:
    """A table: drawn on a terminal, aligned in a pipe; columns of numbers to the right."""
    cells = [[str(cell) for cell in row] for row in rows]
    numeric = [headed and all(_AMOUNT.fullmatch(row[i]) for row in cells) for i in range(len(columns))]
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(show_header=headed, header_style="bold")
        for column, right in zip(columns, numeric, strict=True):
            table.add_column(column, justify="right" if right else "left", overflow="fold")
        for row in cells:
            table.add_row(*(Text(cell) for cell in row))
        Console().print(table)
        return
    lines = [list(columns), *cells] if headed else cells
    widths = [max((len(row[i]) for row in lines), default=0) for i in range(len(columns))]
    for row in lines:
        padded = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        ]
        print("  ".join(padded).rstrip())


def say_reasons(reasons: Mapping[str, str]) -> None:
    """Why solvers have nothing to show, each reason once."""
    for reason in dict.fromkeys(reasons.values()):
        print(f"{', '.join(solver for solver in reasons if reasons[solver] == reason)}: {reason}")


@contextlib.contextmanager
def progress_line(
    news: str = "judged {done} of {total} plans ({what})",
) -> Iterator[Callable[[int, int, str], None] | None]:
    """A line on a terminal that says what is being tried; None where standard error is no terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console

    with Console(stderr=True).status("searching") as status:
        yield lambda done, total, what: status.update(news.format(done=done, total=total, what=what))


def writable(path: str) -> str:
    """The path, if a file can be put there: asked before the work is done, not after it."""
    file = Path(path)
    folder = (file.resolve() if file.is_symlink() else file).parent
    if file.is_dir():
        raise argparse.ArgumentTypeError(f"{path or '.'} is a folder; name a file in it")
    if file.exists() and not os.access(file, os.W_OK):
        raise argparse.ArgumentTypeError(f"{path} cannot be written to; choose another file")
    if file.exists() and not file.is_file():
        return path  # a pipe or a device, which stays where it is
    if not folder.is_dir():
        raise argparse.ArgumentTypeError(f"{path}: there is no folder {folder}; make it first")
    if not os.access(folder, os.W_OK):
        raise argparse.ArgumentTypeError(f"{path}: the folder {folder} cannot be written to; choose another")
    return path
