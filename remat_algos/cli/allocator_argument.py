"""Allocators on the command line."""

from __future__ import annotations

import argparse
from typing import Any, NoReturn

from remat_algos.cli.packing_argument import add_alignment

PEAK = "peak"
BUDGET_HOLDS = (
    "the budget is for what this allocator reserves on the device: peak (default), live bytes alone; arena, one piece "
    "of memory with an address for every value; cupy_pool, cuda_caching, as modelled, and 50%% is then of what it "
    "reserves without rematerialization"
)


class Renamed(argparse.Action):
    """An option of earlier releases; its help is the new spelling."""

    def __init__(self, option_strings: list[str], dest: str, new: str) -> None:
        super().__init__(option_strings, dest, nargs=0, help=argparse.SUPPRESS)
        self.new = new

    def __call__(self, *arguments: Any) -> NoReturn:
        """Refuse it, with the new spelling."""
        raise argparse.ArgumentTypeError(f"{self.option_strings[0]} is written {self.new} now")


def add_allocator(parser: argparse._ActionsContainer, what: str) -> None:
    """--allocator; `what` is its help."""
    parser.add_argument("--allocator", metavar="NAME", type=_name, default=PEAK, help=what)


def add_reservation(parser: argparse.ArgumentParser) -> None:
    """--allocator and --alignment: the bytes that the budget limits."""
    group = parser.add_argument_group("what the budget is for")
    add_allocator(group, BUDGET_HOLDS)
    add_alignment(group)
    group.add_argument("--packed", action=Renamed, new="--allocator arena")


def reservation_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Arguments of `solve` and `compare` about the allocator."""
    if arguments.alignment is not None and arguments.allocator != "arena":
        message = f"--alignment {arguments.alignment} goes with --allocator arena; give that too"
        raise argparse.ArgumentTypeError(message)
    return {"allocator": arguments.allocator, "alignment": arguments.alignment or 1}


def _name(text: str) -> str:
    from remat_algos.allocate.allocators.registry import get_allocator
    from remat_algos.errors import AllocationError

    if text == PEAK:
        return text
    try:
        return get_allocator(text).name
    except AllocationError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
