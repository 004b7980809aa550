"""Packing on the command line."""

from __future__ import annotations

import argparse

from remat_algos.cli.search_argument import add_seed, add_time_limit
from remat_algos.text.wording import shortened


def add_alignment(parser: argparse._ActionsContainer) -> None:
    """--alignment."""
    parser.add_argument(
        "--alignment", metavar="BYTES", type=_alignment, help="alignment of addresses, a power of two (1)"
    )


def add_pack(parser: argparse._ActionsContainer) -> None:
    """Add --time-limit and --seed, with help for packing."""
    add_time_limit(
        parser, "end SECONDS after the start with the best addresses found so far (5 for the search of offsets)"
    )
    add_seed(parser, "for offsets: random seed of the search (0)")


def size(text: str) -> int:
    """Bytes."""
    from remat_algos.text.units import parse_bytes

    try:
        return parse_bytes(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _alignment(text: str) -> int:
    from remat_algos.allocate.buffers import is_alignment

    if not is_alignment(found := size(text)):
        raise argparse.ArgumentTypeError(
            f"{shortened(text)} is not a power of two below 2**53; give one, such as 64, 512 or 4KiB"
        )
    return found
