"""Time limit, seed and effort of searches, on the command line."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator
from typing import Any

from remat_algos.cli.output import progress_line
from remat_algos.text.wording import quoted

RANDOM_SEED = "random seed (default: 0)"


def add_time_limit(parser: argparse._ActionsContainer, help: str) -> None:
    """Add --time-limit; `help` describes what it ends."""
    parser.add_argument("--time-limit", type=seconds, metavar="SECONDS", help=help)


def add_seed(parser: argparse._ActionsContainer, help: str = RANDOM_SEED) -> None:
    """--seed."""
    parser.add_argument("--seed", type=whole_number, default=0, help=help)


def add_effort(parser: argparse._ActionsContainer) -> None:
    """--effort."""
    from remat_algos.effort import DEFAULT, EFFORTS

    work = "how much work goes into the solvers, the search and the lower bound (default: default)"
    parser.add_argument("--effort", choices=EFFORTS, default=DEFAULT, help=work)


def add_gap(parser: argparse._ActionsContainer) -> None:
    """Add --gap."""
    near = (
        "end the search at a plan within POINTS of overhead of its bound (0: only at it; default: by effort and size)"
    )
    parser.add_argument("--gap", type=_points, metavar="POINTS", help=near)


@contextlib.contextmanager
def search_limits(arguments: argparse.Namespace, *, keeps: bool = True) -> Iterator[dict[str, Any]]:
    """The time that is left, the seed and the effort as arguments of a search, and a line of progress meanwhile."""
    from remat_algos.context import time_left

    own = {name: getattr(arguments, name) for name in ("seed", "effort") if name in arguments}
    with progress_line(keeps=keeps) as progress:
        yield {"time_limit": time_left(arguments.time_limit, arguments.started), "progress": progress, **own}


def whole_number(text: str) -> int:
    """0 or more."""
    if not (text.isascii() and text.isdecimal()):
        raise argparse.ArgumentTypeError(f"{quoted(text)} is not a whole number; give 0 or more")
    return int(text)


def seconds(text: str) -> float:
    """A time, 0 or more."""
    return _number(text, "is not a time; give seconds, 0 or more")


def _points(text: str) -> float:
    return _number(text, "is no gap; give points of overhead, 0 or more")


def _number(text: str, fault: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1
    if not 0 <= number < float("inf"):
        raise argparse.ArgumentTypeError(f"{quoted(text)} {fault}")
    return number
