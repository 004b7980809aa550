"""Packing on the command line."""

from __future__ import annotations

import argparse

from remat_algos.cli.budget_argument import seconds, whole_number


def add_alignment(parser: argparse._ActionsContainer) -> None:
    """--alignment."""
    parser.add_argument(
        "--alignment", metavar="BYTES", type=_alignment, help="a power of two that divides addresses (1)"
    )


def add_pack(parser: argparse._ActionsContainer) -> None:
    """--time-limit, --seed, in words of packing."""
    parser.add_argument(
        "--time-limit", type=seconds, metavar="SECONDS", help="of offsets: the best that is found by then (5)"
    )
    parser.add_argument(
        "--seed", type=whole_number, default=0, help="of offsets: the orders in which the search tries buffers (0)"
    )


def size(text: str) -> int:
    """Bytes."""
    from remat_algos.ir.units import parse_bytes

    try:
        return parse_bytes(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _alignment(text: str) -> int:
    from remat_algos.allocate.buffers import is_alignment

    if not is_alignment(found := size(text)):
        raise argparse.ArgumentTypeError(f"{text} is no power of two below 2**53; give one, such as 64, 512 or 4KiB")
    return found
