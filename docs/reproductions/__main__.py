"""Repeat the measurements of a paper on the built-in models; write tables and figures next to the paper's numbers.

From the root of a checkout: `python -m docs.reproductions chen2016 --quick -o results`.
"""

import argparse
import contextlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from docs.reproductions.page import Page, Table, wrapped
from docs.reproductions.registry import get_page, list_papers, summary
from remat_algos.cli.exits import ExitCode
from remat_algos.cli.output import print_json, print_row, print_table, print_text, progress_line
from remat_algos.cli.shared_options import add, writable
from remat_algos.errors import RematError
from remat_algos.wording import counted, shortened_path

PROGRAM = "python -m docs.reproductions"
DOCS = Path(__file__).resolve().parent
WIDTH = 80


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns an `ExitCode`."""
    parser = argparse.ArgumentParser(prog=PROGRAM, description=(__doc__ or "").split("\n")[0])
    _add_arguments(parser)
    try:
        return int(_run(parser.parse_args(arguments)))
    except (RematError, ValueError, OSError) as error:
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        return ExitCode.BAD_INPUT
    except KeyboardInterrupt as stop:
        print(f"{PROGRAM}: {stop or 'interrupted'}", file=sys.stderr)
        return ExitCode.INTERRUPTED


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paper", nargs="?", metavar="PAPER", help="key of the paper (default: list the papers)")
    where = "folder for PAPER.md, its tables (CSV) and figures (SVG) (default: this one, docs/reproductions)"
    parser.add_argument("-o", dest="folder", metavar="FOLDER", help=where)
    quick = "run small networks in seconds, without the paper's numbers; files are written only with -o"
    parser.add_argument("--quick", action="store_true", help=quick)
    add(parser, "json")


def _run(arguments: argparse.Namespace) -> ExitCode:
    """List the papers, or measure one, write and print it."""
    if arguments.paper is None:
        return _list(arguments)
    make = get_page(arguments.paper)
    folder = _folder(arguments)
    with _output_folder(folder):
        with progress_line(keeps=False) as progress:
            page = make(arguments.quick, progress)
        written = [str(file) for file in page.write(folder)] if folder is not None else []
    if arguments.json:
        print_json({**page.record(), "quick": arguments.quick, "written": written})
        return ExitCode.DONE
    _print(page)
    if written:
        beside = counted(len(written) - 1, "file")
        print_text()
        print_row("written", f"{written[0]}, and {beside} next to it: tables (CSV) and figures (SVG)")
    return ExitCode.DONE


def _list(arguments: argparse.Namespace) -> ExitCode:
    for name in ("folder", "quick"):
        if getattr(arguments, name):
            raise RematError(f"name a paper; there are {', '.join(list_papers())}")
    papers: Any = {paper: summary(paper) for paper in list_papers()}
    if arguments.json:
        print_json({"papers": papers})
    else:
        print_table(("paper", "measurements"), papers.items())
    return ExitCode.DONE


def _folder(arguments: argparse.Namespace) -> Path | None:
    """The output folder, None for no files; checked before the work, not after it."""
    if arguments.folder is None and arguments.quick:
        return None
    folder = Path(arguments.folder) if arguments.folder is not None else DOCS
    if folder.exists() and not folder.is_dir():
        raise RematError(f"{shortened_path(folder)} is a file; name a folder")
    writable(str(folder / f"{arguments.paper}.md") if folder.is_dir() else str(folder))
    return folder


@contextlib.contextmanager
def _output_folder(folder: Path | None) -> Iterator[None]:
    """Context of a writable output folder; a new one is removed if it stays empty."""
    import tempfile

    if folder is None:
        yield
        return
    is_new = not folder.exists()
    folder.mkdir(exist_ok=True)
    try:
        with tempfile.TemporaryFile(dir=folder):  # tried on the file system, since permissions do not reveal everything
            pass
        yield
    finally:
        if is_new:
            with contextlib.suppress(OSError):  # it is not empty
                folder.rmdir()


def _print(page: Page) -> None:
    """Print the page without figures."""
    print_text(f"{page.paper}: {page.title}")
    for part in page.parts:
        if isinstance(part, str):
            print_text(f"\n{wrapped(part.lstrip('# '), WIDTH)}")
        elif isinstance(part, Table):
            print_text(f"\n{part.title}")
            print_table(tuple(part.columns), part.cells())
            if part.note:
                print_text(wrapped(part.note, WIDTH))


if __name__ == "__main__":
    sys.exit(main())
