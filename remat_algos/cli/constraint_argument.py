"""Constraints on the command line."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from remat_algos.text.wording import quoted, shortened

if TYPE_CHECKING:
    from remat_algos.ir.graph import ComputationGraph
    from remat_algos.schedule.constraints import Constraints

REGION = "NAME=PATTERN:BYTES"
LONGEST_WORD = 60  # characters of an argument in a message


def add_constraints(parser: argparse.ArgumentParser) -> None:
    """--max-runs, --fixed-order, --region, --modules, --stay, --min-copy."""
    group = parser.add_argument_group("constraints (beside the budget)")
    group.add_argument("--max-runs", metavar="N", type=_runs, help="run no node more often than N times")
    group.add_argument(
        "--fixed-order",
        action="store_true",
        help="run nodes for the first time in the order of the graph; they may be recomputed anywhere",
    )
    group.add_argument(
        "--region",
        metavar=REGION,
        type=_region,
        action="append",
        default=[],
        help="limit the live bytes of the nodes whose names match PATTERN, as in --region 'encoder=*enc*:4GiB'; may "
        "be repeated",
    )

    modules = "modules, node names or patterns such as 'layers.*'; may be repeated"
    group.add_argument(
        "--modules",
        metavar="NAME,...",
        action="append",
        help=f"with --link: only values of these may leave the device; {modules}",
    )
    group.add_argument(
        "--stay", metavar="NAME,...", action="append", help=f"with --link: no values of these may leave; {modules}"
    )
    group.add_argument("--min-copy", metavar="SIZE", help="with --link: copy no value of fewer bytes, as 1MB")


def constraints_of(graph: ComputationGraph, arguments: argparse.Namespace) -> Constraints | None:
    """The constraints on a graph, or None."""
    max_runs, fixed_order = arguments.max_runs, arguments.fixed_order
    copies = arguments.modules, arguments.stay, arguments.min_copy
    if not (max_runs or fixed_order or arguments.region or any(copies)):
        return None
    from remat_algos.schedule.constraints import Constraints

    regions = dict[str, tuple[str, str]]()
    for name, pattern, size in arguments.region:
        if name in regions:
            raise argparse.ArgumentTypeError(
                f"--region {shortened(name)} is there twice; give each region a name of its own"
            )
        regions[name] = pattern, size
    try:
        return Constraints(
            graph,
            max_runs=max_runs,
            fixed_order=fixed_order,
            regions=regions,
            offload=_listed(arguments.modules),
            stay=_listed(arguments.stay),
            min_copy=arguments.min_copy or 0,
        )
    except ValueError as error:
        option = "--region: " if str(error).startswith("region") else ""
        raise argparse.ArgumentTypeError(f"{option}{error}") from error


def _listed(words: list[str] | None) -> list[str] | None:
    """The names between commas of an option that may be repeated."""
    return None if words is None else [name.strip() for word in words for name in word.split(",") if name.strip()]


def _region(word: str) -> tuple[str, str, str]:
    """Name, pattern and size."""
    name, _, rest = word.partition("=")
    pattern, _, size = rest.rpartition(":")
    if not (name and pattern and size):
        raise argparse.ArgumentTypeError(f"{quoted(word)} is not a region; write {REGION}, as encoder=*enc*:4GiB")
    return name[:LONGEST_WORD], pattern, size


def _runs(text: str) -> int:
    number = int(text) if text.isascii() and text.isdecimal() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{quoted(text[:LONGEST_WORD])} is not a number of runs; give 1 or more")
    return number
