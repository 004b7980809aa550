"""Registry of the allocators in this folder."""

import importlib
import inspect
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import remat_algos.allocate.allocators as room
from remat_algos.allocate.reservation import Reservation
from remat_algos.context import SearchContext
from remat_algos.errors import AllocationError
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.layout import tabulated
from remat_algos.ir.wording import one_line, shortened
from remat_algos.schedule.baseline import baseline
from remat_algos.schedule.simulation import Simulation

CANDIDATES = 24  # schedules of one search for which an allocator is run
FORMERLY = {"none": "peak"}


@dataclass(frozen=True, slots=True, eq=False)
class Allocator:
    """A registered allocator: what it reserves of the device for a schedule.

    Parameters
    ----------
    function : callable
        `function(simulation, context, **options)`, a `Reservation`.
    noun : str
        The word for what it reserves in tables and plans; "" where that is the peak.
    own_base : bool
        Whether shares are of what it reserves without rematerialization; else they are of the peak.
    candidates : int
        Number of schedules of one search for which it is run; 1 where that takes seconds.
    """

    function: Callable[..., Reservation]
    noun: str = "reserved"
    own_base: bool = True
    candidates: int = CANDIDATES

    def __repr__(self) -> str:
        return one_line(self, self.name, shortened(self.summary, 90))

    @property
    def name(self) -> str:
        """The name of its function and of its file."""
        return self.function.__name__

    @property
    def summary(self) -> str:
        """The first line of its documentation."""
        return (inspect.getdoc(self.function) or "").split("\n")[0]

    @property
    def options(self) -> dict[str, Any]:
        """Its options and their defaults."""
        parameters = inspect.signature(self.function).parameters
        return {name: p.default for name, p in parameters.items() if p.kind is inspect.Parameter.KEYWORD_ONLY}

    def reserve(self, simulation: Simulation, context: SearchContext | None = None, **options: Any) -> Reservation:
        """What it reserves for a schedule.

        Parameters
        ----------
        simulation : Simulation
        context : SearchContext, optional
            Deadline and seed of a search for addresses.
        **options
            Of this allocator.

        Examples
        --------
        >>> graph = ComputationGraph.from_edges([(0, 1), (1, 2)], memory=100)
        >>> [allocator.reserve(baseline(graph)).memory for allocator in list_allocators()]
        [200, 2097152, 1024, 200]
        """
        return self.function(simulation, context or SearchContext(), **options)

    def base(self, graph: ComputationGraph) -> int:
        """Bytes without rematerialization, the base of percentages."""
        run = baseline(graph)
        return self.reserve(run).memory if self.own_base else run.peak_memory


Function = TypeVar("Function", bound=Callable[..., Reservation])
_registered: dict[str, Allocator] = {}


def allocator(
    *, noun: str = "reserved", own_base: bool = True, candidates: int = CANDIDATES
) -> Callable[[Function], Function]:
    """Register an allocator; see `Allocator` for the parameters."""

    def register(function: Function) -> Function:
        _registered[function.__name__] = Allocator(function, noun, own_base, candidates)
        return function

    return register


class Allocators(list[Allocator]):
    """A list of allocators that is shown as a table."""

    def __repr__(self) -> str:
        return "\n".join(tabulated(("allocator", "what it reserves"), [(each.name, each.summary) for each in self]))

    __str__ = __repr__


def list_allocators() -> Allocators:
    """All allocators, by name; printed, a table.

    Returns
    -------
    list of Allocator

    Examples
    --------
    >>> [allocator.name for allocator in list_allocators()]
    ['arena', 'cuda_caching', 'cupy_pool', 'peak']
    """
    for module in pkgutil.iter_modules(room.__path__):
        importlib.import_module(f"{room.__name__}.{module.name}")
    return Allocators(_registered[name] for name in sorted(_registered))


def get_allocator(name: str) -> Allocator:
    """The allocator of that name; AllocationError, which lists the known ones, if there is none.

    Examples
    --------
    >>> get_allocator("cupy_pool").own_base
    True
    """
    known = {each.name: each for each in list_allocators()}
    if isinstance(name, str) and name in known:
        return known[name]
    if isinstance(name, str) and name in FORMERLY:
        raise AllocationError(f"allocator {name!r} is called {FORMERLY[name]!r}; write that, or leave it out")
    raise AllocationError(f"no allocator is called {shortened(repr(name))}; known: {', '.join(known)}")
