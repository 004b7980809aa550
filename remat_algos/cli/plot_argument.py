"""Pictures on the command line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any, TextIO

from remat_algos.cli.output import print_row, writable

PICTURES = ("memory", "schedule", "graph")
TEXT = "-"
WIDEST = 120  # columns


def add_plot(parser: argparse.ArgumentParser, pictures: Sequence[str] = PICTURES) -> None:
    """--plot, and --picture where there are several."""
    parser.add_argument(
        "--plot",
        metavar="FILE",
        type=_file,
        help="draw a picture: FILE.png, .svg or .pdf, or - for text on standard output",
    )
    if len(pictures) > 1:
        parser.add_argument("--picture", choices=pictures, help=f"picture to draw ({pictures[0]})")
    parser.set_defaults(picture=None, first_picture=pictures[0])


def check_plot(arguments: argparse.Namespace) -> None:
    """What no argument shows alone; before the work. Afterwards `picture` is the one to draw."""
    if arguments.picture is not None and arguments.plot is None:
        raise argparse.ArgumentTypeError(f"--picture {arguments.picture} goes with --plot; give a file, or - for text")
    if arguments.plot == TEXT and arguments.json:
        raise argparse.ArgumentTypeError("--plot - and --json both use standard output; name a file for the picture")
    arguments.picture = arguments.picture or arguments.first_picture


def draw(arguments: argparse.Namespace, subject: Any, *, out: TextIO | None = None, **options: Any) -> None:
    """Draw the picture that --plot names, and print on `out` where it is; `options` go to the picture."""
    if arguments.plot is None:
        return
    from importlib import import_module

    picture = import_module(f"remat_algos.plot.{arguments.picture}")
    if arguments.plot == TEXT:
        if sys.stdout.isatty():
            from shutil import get_terminal_size

            options["width"] = min(WIDEST, get_terminal_size().columns)
        print()
        print(getattr(picture, f"{arguments.picture}_text")(subject, **options))
        return
    from remat_algos.plot.save import save_picture

    try:
        drawn = getattr(picture, f"plot_{arguments.picture}")(subject, **options)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"--plot {arguments.plot}: {error}") from error
    save_picture(drawn, arguments.plot)
    if not arguments.json:
        print_row("drawn", arguments.plot, file=out)


def _file(path: str) -> str:
    """The path, if a picture can be put there."""
    if path == TEXT:
        return path
    from remat_algos.plot.save import picture_format

    try:
        picture_format(path)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return writable(path)
