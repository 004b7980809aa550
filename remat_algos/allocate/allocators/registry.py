"""Registry of the allocators in this folder."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import remat_algos.allocate.allocators as package
from remat_algos.allocate.reservation import Reservation
from remat_algos.context import Clock
from remat_algos.errors import AllocationError
from remat_algos.ir.graph import ComputationGraph
from remat_algos.registry import Entries, Registered, Registry, check_brackets
from remat_algos.schedule.emission import baseline
from remat_algos.schedule.simulation import Simulation
from remat_algos.wording import listed

CANDIDATES = 24  # schedules per search for which an allocator runs


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Allocator(Registered):
    """A registered allocator: what it reserves of the device for a schedule.

    Parameters
    ----------
    function : callable
        `function(simulation, clock, **options)`, a `Reservation`.
    noun : str
        The word for what it reserves in tables and plans; "" where that is the peak.
    own_base : bool
        Whether shares are of what it reserves without rematerialization; else they are of the peak.
    candidates : int
        Number of schedules of one search for which it is run; 1 where that takes seconds.
    """

    noun: str = "reserved"
    own_base: bool = True
    candidates: int = CANDIDATES

    COLUMNS: ClassVar[tuple[str, ...]] = ("allocator", "what it reserves")

    def reserve(self, simulation: Simulation, clock: Clock | None = None, **options: Any) -> Reservation:
        """Run the allocator, with its options, on a schedule; the clock is the deadline of a search for addresses.

        Examples
        --------
        >>> graph = ComputationGraph.from_edges([(0, 1), (1, 2)], memory=100)
        >>> [allocator.reserve(baseline(graph)).memory for allocator in list_allocators()]
        [200, 2097152, 1024, 200]
        """
        return self.function(simulation, clock or Clock(), **options)

    def base(self, graph: ComputationGraph) -> int:
        """Bytes without rematerialization, the base of percentages."""
        run = baseline(graph)
        return self.reserve(run).memory if self.own_base else run.peak_memory


Function = TypeVar("Function", bound=Callable[..., Reservation])
ALLOCATORS = Registry[Allocator](package)


def allocator(
    function: object = None, /, *, noun: str = "reserved", own_base: bool = True, candidates: int = CANDIDATES
) -> Callable[[Function], Function]:
    """Register an allocator: ``@allocator()`` above its function; see `Allocator` for the parameters."""
    check_brackets("allocator", function)

    def register(function: Function) -> Function:
        ALLOCATORS.add(Allocator(function, noun, own_base, candidates))
        return function

    return register


def list_allocators() -> Entries[Allocator]:
    """All allocators, by name; printed, a table.

    Returns
    -------
    list of Allocator

    Examples
    --------
    >>> [allocator.name for allocator in list_allocators()]
    ['arena', 'cuda_caching', 'cupy_pool', 'peak']
    """
    return ALLOCATORS.all()


def get_allocator(name: str) -> Allocator:
    """Return the allocator of that name; AllocationError, which lists the known ones, if there is none.

    Examples
    --------
    >>> get_allocator("cupy_pool").own_base
    True
    """
    found = ALLOCATORS.get(name) if isinstance(name, str) else None
    if found is not None:
        return found
    known = listed([each.name for each in list_allocators()])
    raise AllocationError("no allocator is called {name!r}; known: {known!w}", name=name, known=known)
