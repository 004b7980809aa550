"""Output of commands: JSON, or text and tables of at most 80 columns. Terminals show colours."""

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
# Widths are in columns.
LABEL_WIDTH = 13
SPINNER = 3
NARROWEST = 20
PROGRESS_COLUMNS = 120
LOG_COLUMNS = 1000
WIDEST_TEXT = 120

LABEL = r"^(best plan|plan): \S+|^\S+( \S+)?(?=  )"
FIGURE = r"(?<![\w.,])[0-9][0-9.,]* ?(%|[KMGTPE]?i?B|[kMGTPE]?FLOP|[num]?s)(?!\w)"


def print_json(record: dict[str, Any]) -> None:
    import json

    print(json.dumps(record, indent=1))


def nowhere() -> TextIO:
    return open(os.devnull, "w", encoding="utf-8", errors="replace")


@contextlib.contextmanager
def output_of(arguments: argparse.Namespace, owner: str | None) -> Iterator[None]:
    """Reserve standard output for the option `owner`: other text goes to standard error, or is dropped with --json."""
    arguments.stdout = sys.stdout
    with contextlib.ExitStack() as stack:
        if owner == "--json":
            stack.enter_context(contextlib.redirect_stdout(stack.enter_context(nowhere())))
        elif owner is not None:
            stack.enter_context(contextlib.redirect_stdout(sys.stderr))
        yield


def print_result(arguments: argparse.Namespace, result: Result, /, *rows: tuple[str, str], **entries: Any) -> None:
    """Print a result and additional rows; with --json, print its record and additional entries."""
    if arguments.json:
        with contextlib.redirect_stdout(arguments.stdout):
            print_json(result.record() | entries)
    elif lines := result.lines(*rows):
        _print(lines)


def print_text(text: object = "") -> None:
    """Print text in lines of at most 80 columns, in colour on a terminal."""
    _print(folded(str(text)))


def print_error(text: str) -> None:
    """Print a sentence to standard error: wrapped on a terminal, otherwise on one line, so that tools can find it."""
    words = printable(" ".join(text.split()))
    width = _columns(sys.stderr)
    print("\n".join(wrapped(words, width, indent="  ") if width else [words]), file=sys.stderr)


def terminal_columns() -> int:
    """Return the number of columns, from COLUMNS or the terminal, at least `NARROWEST`."""
    from shutil import get_terminal_size

    return max(get_terminal_size().columns, NARROWEST)


def _columns(file: TextIO) -> int:
    variable = os.environ.get("COLUMNS", "")
    if variable.isascii() and variable.isdecimal():
        return int(variable)
    try:
        return os.get_terminal_size(file.fileno()).columns if file.isatty() else 0
    except (OSError, ValueError):
        return 0


def print_row(label: str, text: str) -> None:
    _print(wrapped(text, first=label.ljust(LABEL_WIDTH), indent=" " * LABEL_WIDTH))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    _print(tabulated(columns, rows))


def print_picture(text: str) -> None:
    """Print a text picture after an empty line, without wrapping."""
    print("\n".join(["", *map(printable, text.split("\n"))]))


def draw(arguments: argparse.Namespace, picture: str, subject: Any, **options: Any) -> None:
    """Draw a picture to the file of --plot and print its name; `options` are passed to the picture function."""
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
    """Yield a function that shows progress on a terminal, or a line every `every` seconds in a pipe."""
    import time

    begun = time.monotonic()
    if not sys.stderr.isatty():
        last = begun

        def print_line(done: int, total: int, what: str) -> None:
            nonlocal last
            if every is not None and time.monotonic() - last >= every:
                last = time.monotonic()
                print(progress_text(done, total, what, last - begun, LOG_COLUMNS, keeps=keeps), file=sys.stderr)

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
    """Format the share done, the time, and `what`, whose parts are separated by " · ", in at most two lines."""
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
