"""Packed peaks on the command line."""

from __future__ import annotations

import argparse
from typing import Any

from remat_algos.cli.budget_argument import seconds, whole_number


def add_packed(parser: argparse.ArgumentParser) -> None:
    """--packed, --alignment."""
    group = parser.add_argument_group("packing")
    group.add_argument(
        "--packed",
        action="store_true",
        help="give every value an address too; the budget holds for that arena (shares are of the simulated peak; with "
        "least or none, the plan of the least one is packed)",
    )
    add_alignment(group)


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


def packed_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """What `solve` and `compare` are told of packing and allocators: --packed is the allocator arena."""
    allocator = arguments.allocator
    if arguments.packed and allocator not in ("arena", "none"):
        raise argparse.ArgumentTypeError(
            f"--packed gives an arena, --allocator {allocator} something else; leave out one of them"
        )
    packed = arguments.packed or allocator == "arena"
    if arguments.alignment is not None and not packed:
        raise argparse.ArgumentTypeError(f"--alignment {arguments.alignment} goes with --packed; give that too")
    return {"packed": packed, "alignment": arguments.alignment or 1, "allocator": allocator}


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
