"""The plans of chen2016, section 5.1, measured as in the paper by the blocks of a static allocation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from docs.reproductions.case import NO_REMAT, Case
from docs.reproductions.chen2016.networks import DROP, RECURSIVE, SUBLINEAR
from docs.reproductions.growth import exponent, plot_growth, powers
from docs.reproductions.page import Figure, Table, percent
from remat_algos.allocate.allocation import Buffers
from remat_algos.allocate.in_place import find_overwrites
from remat_algos.allocate.offsets import pack
from remat_algos.allocate.sharing import separate_storage, share_storage
from remat_algos.ir.graph import ComputationGraph
from remat_algos.plot.colours import CURVES
from remat_algos.schedule.simulation import Simulation
from remat_algos.wording import format_bytes

NO_OPTIMIZATION, IN_PLACE, SHARING = "no optimization", "in-place", "sharing"
LOOKS = dict(zip((NO_OPTIMIZATION, IN_PLACE, SHARING, SUBLINEAR, RECURSIVE, DROP), CURVES, strict=False))
"""Colour, marker and line style of each plan in all figures; in this order they are drawn."""


def plan_name(strategy: str) -> str:
    """The paper's name for a strategy of a case: sharing, if without rematerialization."""
    return SHARING if strategy == NO_REMAT else strategy


def static_buffers(simulation: Simulation) -> Buffers:
    """The buffers of a schedule, in place where possible."""
    return Buffers.of(simulation, find_overwrites(simulation))


@dataclass(frozen=True, slots=True, eq=False)
class Allocated:
    """The plans for a network, each with an allocation.

    Parameters
    ----------
    case : Case
    memory : mapping of str to int
        Bytes of the blocks, by the paper's name of the plan.

    Examples
    --------
    >>> from remat_algos.ir.differentiate import differentiate
    >>> from remat_algos.zoo.random import chain
    >>> plans = Allocated.of(Case.of("chain", 9, differentiate(chain(9)), ["chen_sqrt"]))
    >>> dict(plans.memory)
    {'no optimization': 18, 'in-place': 18, 'sharing': 11, 'chen_sqrt': 7}
    """

    case: Case
    memory: Mapping[str, int]

    @classmethod
    def of(cls, case: Case) -> Allocated:
        """Memory without sharing, then with values in place, then with shared blocks, for every plan of the case."""
        once = case.simulations[NO_REMAT]
        memory = {
            NO_OPTIMIZATION: separate_storage(Buffers.of(once)).size,
            IN_PLACE: separate_storage(static_buffers(once)).size,
        }
        for strategy, simulation in case.simulations.items():
            memory[plan_name(strategy)] = share_storage(static_buffers(simulation)).size
        return cls(case, memory)

    @property
    def size(self) -> int:
        """The size of the network."""
        return self.case.size

    @property
    def label(self) -> str:
        """The label of the network."""
        return self.case.label

    @property
    def reduction(self) -> float:
        """The factor by which in-place and sharing reduce the memory."""
        return self.memory[NO_OPTIMIZATION] / self.memory[SHARING]


def power(plans: Sequence[Allocated], strategy: str, since: int = 0) -> float:
    """Exponent of the growth of a plan's memory, from a given size on."""
    kept = [each for each in plans if each.size >= since]
    return exponent([each.size for each in kept], [each.memory[strategy] for each in kept])


def memory_against_size(
    name: str,
    title: str,
    what: str,
    plans: Sequence[Allocated],
    *,
    since: int = 0,
    quoted: Mapping[str, tuple[int, int]] | None = None,
) -> tuple[Table, Figure]:
    """A table of the bytes of each plan at each size, and its figure.

    Parameters
    ----------
    name, title : str
        Name and title of both.
    what : str
        Meaning of the sizes.
    plans : sequence of Allocated
    since : int
        The smallest size at which exponents are fitted.
    quoted : mapping of str to (int, int), optional
        Points that the paper's text gives: size and bytes.
    """
    columns: dict[str, Callable[[Any], str]] = {what: str} | dict.fromkeys(plans[0].memory, format_bytes)
    rows = [(each.size, *each.memory.values()) for each in plans]
    sizes = [each.size for each in plans]
    curves = {strategy: [each.memory[strategy] for each in plans] for strategy in plans[0].memory}
    table = Table(name, f"Memory of the allocation: {title}", columns, rows, powers(sizes, curves, what, since))
    draw = partial(plot_growth, sizes, curves, what, since=since, quoted=quoted, amount="memory of the allocation")
    return table, Figure(name, title, draw, f"Both axes are logarithmic; in the legend, n stands for {what}.")


def allocations_table(networks: Sequence[tuple[Case, ComputationGraph]]) -> Table:
    """Table from the peak to addresses, for every plan of networks; each is timed by a graph of its own."""
    columns: dict[str, Callable[[Any], str]] = {"network": str, "plan": str}
    columns |= dict.fromkeys(("peak", "in place", "shared", "packed"), format_bytes)
    columns |= {"more FLOPs": percent, "more time": percent}
    rows: list[tuple[Any, ...]] = []
    for case, timed in networks:
        for strategy, simulation in case.simulations.items():
            buffers = static_buffers(simulation)
            packed = pack(buffers, time_limit=0).size  # the first greedy order: the same on any machine
            memory = (case.peak(strategy), buffers.max_live, share_storage(buffers).size, packed)
            more = (case.overhead(strategy), case.overhead(strategy, timed))
            rows.append((case.label, plan_name(strategy), *memory, *more))
    return Table("allocations", "Memory of the plans: peak, lower bound in place, and two allocations", columns, rows)
