"""Allocators on the command line."""

from __future__ import annotations

import argparse
from typing import Any

from remat_algos.cli.output import add_listing
from remat_algos.cli.packing_argument import add_alignment
from remat_algos.text.wording import shortened

PEAK = "peak"


def add_allocator(parser: argparse.ArgumentParser, help: str, group: argparse._ActionsContainer | None = None) -> None:
    """--allocator, perhaps in a group, and the list of allocators below the options."""
    from remat_algos.cli.outline import outlines

    (group or parser).add_argument("--allocator", metavar="NAME", type=_name, default=PEAK, help=help)
    add_listing(parser, "allocators", outlines("allocate/allocators", "allocator"))


def add_reservation(parser: argparse.ArgumentParser) -> None:
    """--allocator and --alignment: the bytes that the budget limits."""
    group = parser.add_argument_group("what the budget applies to")
    applies = (
        "limit the memory that this allocator (below) reserves (default: peak); with a pool, 50%% is a share of its "
        "reserved memory without rematerialization"
    )
    add_allocator(parser, applies, group)
    add_alignment(group)


def reservation_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Arguments of `solve` and `compare` about the allocator."""
    allocator, alignment = arguments.allocator, arguments.alignment
    if alignment is not None and allocator != "arena":
        message = f"--alignment {shortened(alignment)} goes with --allocator arena; give that too"
        raise argparse.ArgumentTypeError(message)
    return {"allocator": allocator, "alignment": alignment or 1}


def _name(text: str) -> str:
    from remat_algos.allocate.allocators.registry import get_allocator
    from remat_algos.errors import AllocationError

    if text == PEAK:
        return text
    try:
        return get_allocator(text).name
    except AllocationError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
