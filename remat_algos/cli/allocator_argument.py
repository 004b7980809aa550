"""Models of allocators on the command line."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from remat_algos.plan.reserved import Reserved

BUDGET_HOLDS = (
    "the budget is for what this allocator reserves on the device, as modelled; 50%% is then of what it reserves "
    "without rematerialization, for arena of the peak (none)"
)
ALLOCATORS = ("cupy_pool", "cuda_caching", "arena", "none")


def add_allocator(parser: argparse._ActionsContainer, what: str) -> None:
    """--allocator; `what` it is asked for."""
    parser.add_argument("--allocator", choices=ALLOCATORS, default="none", help=what)


def reserved_of(arguments: argparse.Namespace, simulation: Any) -> Reserved | None:
    """What the chosen allocator reserves for a schedule; None if none was chosen."""
    from remat_algos.plan.reserved import Reserved, known_allocator

    allocator = known_allocator(arguments.allocator)
    return None if allocator is None else Reserved.of(simulation, allocator)
