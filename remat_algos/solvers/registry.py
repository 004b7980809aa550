"""Solvers, found by looking into this folder."""

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, TypeVar

import remat_algos.solvers as room
from remat_algos.context import SearchContext
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.layout import tabulated
from remat_algos.ir.wording import did_you_mean, one_line, shortened
from remat_algos.schedule.schedule import Schedule
from remat_algos.solvers.candidates import Candidate, evaluated

SCOPES = ("any order", "fixed order", "canonical", "chain")

BASELINE = "no_remat"  # the solver that others are measured by
LONGEST_SUMMARY = 90  # characters in the line that shows a solver

Stream = Iterator[Candidate | Schedule]
"""What a solver gives: candidates, or bare schedules, coarse first, so that whoever stops has the best so far."""


@dataclass(frozen=True, slots=True, eq=False)
class Solver:
    """A registered solver and what it says of itself.

    Parameters
    ----------
    function : callable
        `function(graph, limit, context, **options)`, an iterator of `Candidate` or `Schedule`.
    paper : str
        Key of its paper in docs/references.bib, "" for none.
    needs : callable
        `needs(graph)` is the reason why it cannot serve, or None.
    optimal_in : {"any order", "fixed order", "canonical", "chain"}, optional
        Class of schedules in which its result is optimal.
    improves : bool
        Whether it wants other solvers' candidates (`context.candidates`); then it comes after them.
    portfolio : bool
        Whether it is asked where no solver is named.
    cheap : bool
        Whether it takes hardly more than reading the graph; then it comes before the others.
    """

    function: Callable[..., Stream]
    paper: str
    needs: Callable[[ComputationGraph], str | None]
    optimal_in: str | None
    improves: bool = False
    portfolio: bool = True
    cheap: bool = False

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
        """Its options and their defaults."""
        parameters = inspect.signature(self.function).parameters
        return {name: p.default for name, p in parameters.items() if p.kind is inspect.Parameter.KEYWORD_ONLY}

    @property
    def order(self) -> tuple[bool, int, str]:
        """Sorts solvers as they are run: the baseline, cheap ones, the others, those that improve candidates."""
        return self.improves, (self.name != BASELINE) + (not self.cheap), self.name

    @property
    def module(self) -> ModuleType | None:
        """The module that defines it."""
        return inspect.getmodule(self.function)

    def candidates(
        self, graph: ComputationGraph, limit: int | None, context: SearchContext, options: Mapping[str, Any]
    ) -> Stream:
        """Its candidates for a limit; TypeError for an option that it lacks."""
        try:
            inspect.signature(self.function).bind(graph, limit, context, **options)
        except TypeError as error:
            raise TypeError(f"{self.name}: {error}; its options are {', '.join(self.options) or 'none'}") from error
        stream = self.function(graph, limit, context, **options)
        if not isinstance(stream, Iterator):
            raise TypeError(f"{self.name} returned a {type(stream).__name__}; a solver yields candidates or schedules")
        return stream


Function = TypeVar("Function", bound=Callable[..., Stream])
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
    cheap: bool = False,
) -> Callable[[Function], Function]:
    """Register a solver; see `Solver` for the parameters."""

    def register(function: Function) -> Function:
        if optimal_in is not None and optimal_in not in SCOPES:
            raise ValueError(f"optimal_in is {shortened(repr(optimal_in))}; use {', '.join(SCOPES)}")
        _registered[function.__name__] = Solver(function, paper, needs, optimal_in, improves, portfolio, cheap)
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
    """Those that are asked where none is named, in that order; the others may take very long."""
    return sorted((solver for solver in list_solvers() if solver.portfolio), key=lambda solver: solver.order)


def list_candidates(
    graph: ComputationGraph, solver: str, limit: int | None = None, *, seed: int = 0, **options: Any
) -> list[Candidate]:
    """All candidates of one solver, simulated, in the order in which it yields them; none that violates a mark.

    Examples
    --------
    >>> graph = ComputationGraph.from_edges([(0, 1), (1, 2)])
    >>> [candidate.figures for candidate in list_candidates(graph, "no_remat")]
    [(2, 3)]
    """
    stream = get_solver(solver).candidates(graph, limit, SearchContext(seed=seed), options)
    found = []
    for each in stream:
        candidate = each if isinstance(each, Candidate) else Candidate(each)
        if candidate.simulation is None:
            candidate = replace(candidate, simulation=evaluated(graph, candidate.schedule).simulation)
        if candidate.simulation is not None:
            found.append(candidate)
    return found


def get_solver(name: str) -> Solver:
    """The solver of that name; ValueError, which lists the known ones, if there is none."""
    if name not in _registered:
        known = [solver.name for solver in list_solvers()]
        if name not in known:
            near = did_you_mean(name, ["auto", *known]) or f"; use auto, {', '.join(known)}"
            raise ValueError(f"unknown solver {shortened(name)!r}{near}")
    return _registered[name]
