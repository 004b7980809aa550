"""Pictures on the command line."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from remat_algos.cli.output import writable

PICTURES = ("memory", "schedule", "graph")
ENDINGS = (".png", ".svg", ".pdf")


def add_plot(parser: argparse.ArgumentParser, pictures: Sequence[str] = PICTURES) -> None:
    """--plot, and --picture where there are several."""
    parser.add_argument(
        "--plot",
        metavar="FILE",
        type=_picture,
        help="draw it: FILE.png, .svg or .pdf, or - for text on standard output",
    )
    if len(pictures) > 1:
        parser.add_argument("--picture", choices=pictures, default=pictures[0], help=f"which picture ({pictures[0]})")
    else:
        parser.set_defaults(picture=pictures[0])


def draw(arguments: argparse.Namespace, thing: Any, **given: Any) -> None:
    """Draw, if that is wanted, and say where the picture was written; what is `given` goes to the picture."""
    if arguments.plot is None:
        return
    picture = importlib.import_module(f"remat_algos.plot.{arguments.picture}")
    if arguments.plot == "-":
        print(getattr(picture, f"{arguments.picture}_text")(thing, **given))
        return
    from remat_algos.plot.save import save_picture

    save_picture(getattr(picture, f"plot_{arguments.picture}")(thing, **given), arguments.plot)
    if not arguments.json:
        print(f"drawn      {arguments.plot}")


def _picture(path: str) -> str:
    """The path, if a picture can be put there."""
    if path != "-" and Path(path).suffix.lower() not in ENDINGS:
        raise argparse.ArgumentTypeError(f"{path}: pictures are {', '.join(ENDINGS)}, or - for text")
    return path if path == "-" else writable(path)
