"""Solvers, found by looking into this folder."""

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, TypeVar

import remat_algos.solvers as room
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.layout import tabulated
from remat_algos.ir.wording import did_you_mean, one_line, shortened
from remat_algos.schedule.schedule import Schedule
from remat_algos.schedule.simulation import Simulation

RESERVED = ("seed", "time_limit", "progress", "seeds")  # given by `solve`, to those that name them
SCOPES = ("any order", "fixed order", "canonical", "chain")

LONGEST_SUMMARY = 90  # characters in the line that shows a solver

Progress = Callable[[int, int, str], None]
"""What a long solver calls: how many plans were judged, of how many, and which are being tried."""


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """A schedule with what its solver knows of it.

    Parameters
    ----------
    schedule : Schedule
    bound : int, optional
        No schedule of the `scope` within the limit has less compute.
    scope : {"any order", "fixed order", "canonical", "chain"}, optional
    details : mapping
        What the solver chose; goes into the plan.
    simulation : Simulation, optional
        What the judge said of the schedule, where the solver had to ask; it is not judged a second time.
    others : tuple of Simulation
        Schedules that were not chosen, but may be better once they are polished.
    """

    schedule: Schedule
    bound: int | None = None
    scope: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    simulation: Simulation | None = None
    others: tuple[Simulation, ...] = ()


class Interrupted(KeyboardInterrupt):
    """The user's Ctrl-C, with the solutions that a solver had by then."""

    def __init__(self, found: Sequence[Solution]) -> None:
        super().__init__("interrupted")
        self.found = tuple(found)


@dataclass(frozen=True, slots=True, eq=False)
class Solver:
    """A registered solver and what it says of itself.

    Parameters
    ----------
    function : callable
        `function(graph, limit, **options) -> Schedule | Solution`.
    paper : str
        Key of its paper in docs/references.bib, "" for none.
    needs : callable
        `needs(graph)` is the reason why it cannot serve, or None.
    optimal_in : {"any order", "fixed order", "canonical", "chain"}, optional
        Class of schedules in which its result is optimal.
    improves : bool
        Whether it wants other solvers' schedules (`seeds`).
    portfolio : bool
        Whether it is asked where no solver is named.
    """

    function: Callable[..., Schedule | Solution]
    paper: str
    needs: Callable[[ComputationGraph], str | None]
    optimal_in: str | None
    improves: bool
    portfolio: bool

    def __repr__(self) -> str:
        return one_line(self, self.name, self.paper, shortened(self.summary, LONGEST_SUMMARY))

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
        """Its own options and their defaults."""
        return {name: p.default for name, p in self._keywords().items() if name not in RESERVED}

    @property
    def reserved(self) -> tuple[str, ...]:
        """Which of the reserved options it takes."""
        return tuple(name for name in self._keywords() if name in RESERVED)

    @property
    def module(self) -> ModuleType | None:
        """Where it stands; may define `frontier`, all plans that none of its others beats."""
        return inspect.getmodule(self.function)

    def _keywords(self) -> dict[str, inspect.Parameter]:
        parameters = inspect.signature(self.function).parameters
        return {name: p for name, p in parameters.items() if p.kind is inspect.Parameter.KEYWORD_ONLY}


Function = TypeVar("Function", bound=Callable[..., Schedule | Solution])
_registered: dict[str, Solver] = {}


def any_graph(graph: ComputationGraph) -> str | None:
    """`needs` of a solver that serves every graph."""
    return None


def training_graph(graph: ComputationGraph) -> str | None:
    """`needs` of a solver that works on a forward and a backward part."""
    return None if graph.is_training else "the graph has no backward part; call differentiate(graph) first"


def solver(
    *,
    paper: str = "",
    needs: Callable[[ComputationGraph], str | None] = any_graph,
    optimal_in: str | None = None,
    improves: bool = False,
    portfolio: bool = True,
) -> Callable[[Function], Function]:
    """Register a solver; see `Solver` for the parameters."""

    def register(function: Function) -> Function:
        if optimal_in is not None and optimal_in not in SCOPES:
            raise ValueError(f"optimal_in is {shortened(repr(optimal_in))}; use {', '.join(SCOPES)}")
        _registered[function.__name__] = Solver(function, paper, needs, optimal_in, improves, portfolio)
        return function

    return register


class Solvers(list[Solver]):
    """A list of solvers that is shown as a table."""

    def __repr__(self) -> str:
        rows = [(solver.name, solver.paper, solver.summary) for solver in self]
        return "\n".join(tabulated(("solver", "paper", "what it does"), rows))

    __str__ = __repr__


def list_solvers() -> Solvers:
    """All solvers, by name; printed, a table.

    Returns
    -------
    list of Solver

    Examples
    --------
    >>> [solver.name for solver in list_solvers()][:2]
    ['approximate_dp', 'chen_greedy']
    >>> print(str(list_solvers()).splitlines()[0])
    solver                 paper         what it does
    """
    for module in pkgutil.iter_modules(room.__path__):
        importlib.import_module(f"{room.__name__}.{module.name}")
    return Solvers(_registered[name] for name in sorted(_registered))


def portfolio() -> list[Solver]:
    """Those that are asked where none is named, by name; the others may take very long."""
    return [solver for solver in list_solvers() if solver.portfolio]


def get_solver(name: str) -> Solver:
    """The solver of that name; ValueError, which lists the known ones, if there is none."""
    if name not in _registered:
        known = [solver.name for solver in list_solvers()]
        if name not in known:
            near = did_you_mean(name, ["auto", *known]) or f"; use auto, {', '.join(known)}"
            raise ValueError(f"unknown solver {shortened(name)!r}{near}")
    return _registered[name]
