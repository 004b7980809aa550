"""Pictures on the command line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any, TextIO

from remat_algos.cli.output import print_picture, print_row, terminal_columns, writable
from remat_algos.text.wording import shortened, shortened_path

PICTURES = ("memory", "schedule", "graph", "matrix")
TEXT = "-"
WIDEST = 120  # columns


def add_plot(parser: argparse.ArgumentParser, pictures: Sequence[str] = PICTURES) -> None:
    """Add --plot, and --picture if there are several."""
    parser.add_argument(
        "--plot",
        metavar="FILE",
        type=_file,
        help="draw a picture: FILE.png, .svg or .pdf, or - for text on standard output",
    )
    if len(pictures) > 1:
        parser.add_argument("--picture", choices=pictures, help=f"picture to draw ({pictures[0]})")


def check_plot(arguments: argparse.Namespace) -> None:
    """Check the combination of --plot, --picture and --json before the work."""
    plot, picture = arguments.plot, getattr(arguments, "picture", None)
    if picture is not None and plot is None:
        raise argparse.ArgumentTypeError(f"--picture {shortened(picture)} goes with --plot; give a file, or - for text")
    if plot == TEXT and arguments.json:
        raise argparse.ArgumentTypeError("--plot - and --json both use standard output; name a file for the picture")


def draw(
    arguments: argparse.Namespace, picture: str, subject: Any, *, out: TextIO | None = None, **options: Any
) -> None:
    """Draw a picture to the file of --plot, and print its place on `out`; `options` go to the picture."""
    plot = arguments.plot
    if plot is None:
        return
    import remat_algos.plot as pictures

    if plot == TEXT:
        if sys.stdout.isatty():
            options["width"] = min(WIDEST, terminal_columns())
        print_picture(pictures.text(picture, subject, **options))
        return

    try:
        drawn = getattr(pictures, picture)(subject, **options)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"--plot {shortened_path(plot)}: {error}") from error
    pictures.save(drawn, plot)
    if not arguments.json:
        print_row("drawn", plot, file=out)


def _file(path: str) -> str:
    """The path, if a picture can be put there."""
    if path == TEXT:
        return path
    from remat_algos.plot.picture_file import picture_format

    try:
        picture_format(path)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return writable(path)
