"""Output of commands: JSON, or text and tables of at most 80 columns, in colour on a terminal."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from remat_algos.errors import RematError
from remat_algos.wording import folded, printable, tabulated, wrapped

if TYPE_CHECKING:
    from remat_algos.result import Result

TEXT = "-"
"""A picture, or a decomposition, on standard output."""
LABEL_WIDTH = 13  # column of the text beside the labels of a plan
SPINNER = 3  # columns
NARROWEST = 20  # columns for which text is laid out
PROGRESS_COLUMNS = 120  # width of the progress line
LOG_COLUMNS = 1000  # width of a progress line in a file
WIDEST_TEXT = 120  # columns of the widest picture

LABEL = r"^(best plan|plan): \S+|^\S+( \S+)?(?=  )"
FIGURE = r"(?<![\w.,])[0-9][0-9.,]* ?(%|[KMGTPE]?i?B|[kMGTPE]?FLOP|[num]?s)(?!\w)"


def print_json(record: dict[str, Any]) -> None:
    import json

    print(json.dumps(record, indent=1))


def nowhere() -> TextIO:
    """Open a stream that takes every character and keeps none."""
    return open(os.devnull, "w", encoding="utf-8", errors="replace")


@contextlib.contextmanager
def output_of(arguments: argparse.Namespace, owner: str | None) -> Iterator[None]:
    """Leave standard output to the option that owns it: other text goes to standard error, with --json nowhere."""
    arguments.stdout = sys.stdout
    with contextlib.ExitStack() as stack:
        if owner == "--json":
            stack.enter_context(contextlib.redirect_stdout(stack.enter_context(nowhere())))
        elif owner is not None:
            stack.enter_context(contextlib.redirect_stdout(sys.stderr))
        yield


def print_result(arguments: argparse.Namespace, result: Result, /, *rows: tuple[str, str], **entries: Any) -> None:
    """Print a result with the rows of the command; with --json its record with the entries of the command."""
    if arguments.json:
        with contextlib.redirect_stdout(arguments.stdout):
            print_json(result.record() | entries)
    elif lines := result.lines(*rows):
        _print(lines)


def print_text(text: object = "") -> None:
    """Print text in lines of at most 80 columns, with colour on a terminal."""
    _print(folded(str(text)))


def print_error(text: str) -> None:
    """Print a sentence on standard error, wrapped on a terminal, else on one line, which tools can search."""
    words = printable(" ".join(text.split()))
    width = _columns(sys.stderr)
    print("\n".join(wrapped(words, width, indent="  ") if width else [words]), file=sys.stderr)


def terminal_columns() -> int:
    """Columns of the terminal, or of COLUMNS, at least `NARROWEST`."""
    from shutil import get_terminal_size

    return max(get_terminal_size().columns, NARROWEST)


def _columns(file: TextIO) -> int:
    """Columns of a terminal or set by the environment; 0 without either."""
    given = os.environ.get("COLUMNS", "")
    if given.isascii() and given.isdecimal():
        return int(given)
    try:
        return os.get_terminal_size(file.fileno()).columns if file.isatty() else 0
    except (OSError, ValueError):  # not a terminal after all
        return 0


def print_row(label: str, text: str) -> None:
    """Print a line below those of a plan: label and text."""
    _print(wrapped(text, first=label.ljust(LABEL_WIDTH), indent=" " * LABEL_WIDTH))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    _print(tabulated(columns, rows))


def print_picture(text: str) -> None:
    """Print a text picture after an empty line; its lines have the width that it was drawn for."""
    print("\n".join(["", *map(printable, text.split("\n"))]))


def draw(arguments: argparse.Namespace, picture: str, subject: Any, **options: Any) -> None:
    """Draw a picture to the file of --plot, and print its place; `options` go to the picture."""
    plot = arguments.plot
    if plot is None:
        return
    import remat_algos.plot as pictures

    if plot == TEXT:
        if sys.stdout.isatty():
            options["width"] = min(WIDEST_TEXT, terminal_columns())
        print_picture(pictures.text(picture, subject, **options))
        return
    try:
        drawn = getattr(pictures, picture)(subject, **options)
    except ValueError as error:
        raise RematError("--plot {plot!p}: {error!w}", plot=plot, error=error) from error
    pictures.save(drawn, plot)
    print_row("drawn", plot)


def _print(lines: Sequence[str]) -> None:
    """Print lines, in colour on a terminal, plain in a pipe or if NO_COLOR is set."""
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
        print("\n".join(lines))
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    for line in lines:
        text = Text(line)
        text.highlight_regex(LABEL, "bold")
        text.highlight_regex(FIGURE, "cyan")
        console.print(text)


@contextlib.contextmanager
def progress_line(
    *, keeps: bool = True, every: float | None = None
) -> Iterator[Callable[[int, int, str], None] | None]:
    """Progress on a terminal: share done, time, current attempt. In a pipe none, or a line `every` so many seconds.

    `keeps` is true if an interrupt keeps the best so far.
    """
    import time

    begun = time.monotonic()
    if not sys.stderr.isatty():
        told = begun

        def print_line(done: int, total: int, what: str) -> None:
            nonlocal told
            if every is not None and time.monotonic() - told >= every:
                told = time.monotonic()
                print(progress_text(done, total, what, told - begun, LOG_COLUMNS, keeps=keeps), file=sys.stderr)

        yield None if every is None else print_line
        return
    from rich.console import Console

    console = Console(stderr=True)
    with console.status("searching") as status:

        def show(done: int, total: int, what: str) -> None:
            width = min(PROGRESS_COLUMNS, max(console.width, NARROWEST)) - SPINNER
            text = progress_text(done, total, what, time.monotonic() - begun, width, keeps=keeps)
            status.update(text.replace("[", r"\["))

        yield show


def progress_text(done: int, total: int, what: str, seconds: float, width: int, *, keeps: bool = True) -> str:
    """Return the parts of `what` between " · ", the share done and the time, in at most two lines of a given width."""
    what = printable(what)
    parts = [f"{100 * done // total} %", f"{int(seconds) // 60}:{int(seconds) % 60:02}", *what.split(" · ")]
    parts += ["Ctrl-C keeps the best"] if keeps and " · best" in what else []
    lines = [""]
    for part in parts:
        together = f"{lines[-1]} · {part}" if lines[-1] else part
        if len(together) <= width or not lines[-1]:
            lines[-1] = together
        else:
            lines.append(part)
    cut = (line if len(line) <= width else f"{line[: width - 1]}…" for line in lines[:2])
    return "\n".join(cut)
