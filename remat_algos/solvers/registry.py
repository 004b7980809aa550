"""The registry of solvers, with the types of their input (tasks) and output (candidates)."""

import inspect
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, ClassVar, TypeVar

import remat_algos.solvers.methods as package
from remat_algos.arguments import as_seed
from remat_algos.bounds.bound import ANY_ORDER, LowerBound
from remat_algos.context import Clock
from remat_algos.effort import DEFAULT, Effort
from remat_algos.errors import ArgumentError, ArgumentTypeError, GraphError, ScheduleError
from remat_algos.ir.graph import ComputationGraph
from remat_algos.registry import Entries, Registered, Registry, check_brackets
from remat_algos.result import Result
from remat_algos.schedule.constraints import Constraints
from remat_algos.schedule.schedule import Schedule
from remat_algos.schedule.simulation import Simulation, simulate
from remat_algos.solvers import tuning
from remat_algos.text.amounts import ABSURD
from remat_algos.wording import did_you_mean

Item = TypeVar("Item")
Details = Mapping[str, Any]
WORST = (2, 2**63, 2**63)
"""A rank worse than that of every candidate."""


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A schedule from a solver, with the bounds that the solver proves, and `details` for the plan.

    `bound` is a lower bound on the compute of all schedules of the `scope` within the limit. `peak_bound` is a lower
    bound on the peak of all schedules. A schedule with a `simulation` is not simulated again. If a solver searches
    several times, `run` is the number of the search, and the best candidates of each search are kept. The portfolio
    sets `solver`. `figures` contains the peak in bytes and the compute.
    """

    schedule: Schedule
    details: Details = field(default_factory=dict)
    bound: int | None = None
    scope: str | None = None
    peak_bound: int | None = field(default=None, kw_only=True)
    simulation: Simulation | None = None
    run: int = field(default=0, kw_only=True)
    solver: str = ""
    figures: tuple[int, int] = field(init=False, default=(-1, -1))

    def __post_init__(self) -> None:
        if self.simulation is not None:
            object.__setattr__(self, "figures", (self.simulation.peak_memory, self.simulation.compute))

    @property
    def simulated(self) -> Simulation:
        """The simulation of the candidate; raises ArgumentError if it was not simulated."""
        if self.simulation is None:
            raise ArgumentError("the candidate was not simulated; call simulate(graph, candidate.schedule)")
        return self.simulation


def evaluated(graph: ComputationGraph, schedule: Schedule, details: Details = MappingProxyType({})) -> Candidate:
    """Simulate a schedule; if it violates a mark, return a candidate without a simulation."""
    try:
        return Candidate(schedule, details, simulation=simulate(graph, schedule))
    except ScheduleError:
        if graph.mark is None:
            raise
        return Candidate(schedule, details)


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """The input of a solver, in addition to the graph and the options of the solver.

    limit : maximum peak in bytes; None for the whole frontier
    bound : lower bound on the compute of schedules within the limit; a search may stop when it is reached
    slack : compute above the bound at which a search may stop early
    closure : the closure bound at the limit, if it has been computed
    sought : peak at which a search for the lowest peak stops, without the longer searches that usually follow
    budgets : number of limits that a search for a whole frontier tries one after another; 0 for a single plan
    constraints : limits on runs and regions; candidates that violate them are dropped, so solvers may ignore them
    effort : "fast", "default" or "best"; it limits the work of searches
    candidates : the candidates of the solvers that ran before
    """

    limit: int | None = None
    bound: int | None = None
    slack: int = 0
    closure: LowerBound | None = None
    sought: int | None = None
    budgets: int = 0
    constraints: Constraints | None = None
    seed: int = 0
    effort: str = DEFAULT
    candidates: tuple[Candidate, ...] = ()

    @property
    def goal(self) -> int | None:
        return None if self.bound is None else self.bound + self.slack

    def __post_init__(self) -> None:
        object.__setattr__(self, "seed", as_seed(self.seed))
        Effort.of(self.effort)


def rank(
    figures: tuple[int, int], limit: int | None, compute_limit: int | None = None, *, lowest: bool = False
) -> tuple[int, int, int]:
    """Return a sort key: schedules within both limits first, then those above `compute_limit` only, then all others.

    The first number is 0 if the schedule fits. Schedules that fit are sorted by (compute, peak); without a limit, or
    with `lowest`, by (peak, compute).

    >>> sorted([(5, 9), (7, 6), (6, 7)], key=lambda figures: rank(figures, 6))
    [(6, 7), (5, 9), (7, 6)]
    """
    peak, compute = figures
    if limit is not None and peak > limit:
        return 2, peak, compute
    if compute_limit is not None and compute > compute_limit:
        return 1, compute, peak
    return (0, peak, compute) if lowest or limit is None else (0, compute, peak)


def keep_undominated(items: list[Item], item: Item, figures: Callable[[Item], tuple[int, float]]) -> bool:
    """Add an item to a list of undominated items, sorted by peak, unless one dominates it; return True if added."""
    peak, compute = figures(item)
    end = begin = bisect_right(items, peak, key=lambda kept: figures(kept)[0])
    if begin and figures(items[begin - 1])[1] <= compute:
        return False
    while begin and figures(items[begin - 1])[0] == peak:
        begin -= 1
    while end < len(items) and figures(items[end])[1] >= compute:
        end += 1
    items[begin:end] = [item]
    return True


def pareto(items: Iterable[Item], figures: Callable[[Item], tuple[int, float]]) -> list[Item]:
    """Return the items that no other item dominates, in order of increasing peak; of equal items, only the first."""
    kept = list[Item]()
    for item in items:
        keep_undominated(kept, item, figures)
    return kept


SCOPES = (ANY_ORDER, "fixed order", "canonical", "chain")
BASELINE = "no_remat"
# Solver name of a candidate that is the user's own schedule.
START = "start"
# Solver names of candidates that exist before any search.
OWN = (START, BASELINE)
AUTO = "auto"  # runs all solvers

Stream = Iterator[Candidate | Schedule]
"""The output of a solver. It should yield varied schedules first, since it may be stopped at any time."""

Rows = Iterable[tuple[str, str]]
"""Pairs (label, text), the rows of a text report."""


def no_rows(graph: ComputationGraph, details: Details) -> Rows:
    """Return no rows: the default `describe` of a solver."""
    return ()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Solver(Registered):
    """A registered solver and its properties.

    function : `function(graph, task, clock, **options)` yields `Candidate` or `Schedule`
    paper : key of the paper in docs/references.bib, or ""
    needs : `needs(graph)` returns the reason why the solver refuses a graph, or None
    optimal_in : class of schedules in which the result is optimal, one of `SCOPES`
    improves : True if the solver improves the candidates of other solvers (`task.candidates`) and so runs after them
    portfolio : True if "auto" runs the solver
    price : seconds for 1,000 nodes, measured by tests/benchmarks/test_solvers.py. Solvers run in
        order of increasing price. Effort "fast" skips solvers with a price above 0.1, unless they improve candidates
    describe : `describe(graph, details)` returns rows (label, text) for the text report of a plan
    explain : `explain(graph, most, **options)` returns a result that lists at most `most` decisions of the solver
    """

    paper: str
    needs: Callable[[ComputationGraph], str | None]
    optimal_in: str | None
    improves: bool = False
    portfolio: bool = True
    price: float = tuning.UNKNOWN_PRICE
    describe: Callable[[ComputationGraph, Details], Rows] = no_rows
    explain: Callable[..., Result] | None = None

    COLUMNS: ClassVar[tuple[str, ...]] = ("solver", "paper", "what it does")

    @property
    def cells(self) -> tuple[str, ...]:
        return self.name, self.paper, self.summary

    @property
    def cheap(self) -> bool:
        """True if the price is so low that the solver may run after the deadline."""
        return self.price <= tuning.CHEAP

    @property
    def searches(self) -> bool:
        """True if the solver improves candidates and does not prove optimality."""
        return self.improves and self.optimal_in is None

    def check_options(self, options: Mapping[str, Any]) -> None:
        """Raise TypeError for an unknown or missing option, ValueError for a number too large for a plan file."""
        try:
            inspect.signature(self.function).bind(None, None, None, **options)
        except TypeError as error:
            unknown = next((name for name in options if name not in self.parameters), None)
            if unknown is None:
                raise ArgumentTypeError("{name}: {error!e}", name=self.name, error=error) from error
            raise ArgumentTypeError(
                "{name} has no option {option!r}; its options are {known!l}",
                name=self.name,
                option=unknown,
                known=list(self.options) or ["none"],
            ) from None
        for name, option in options.items():
            if isinstance(option, int) and abs(option) >= ABSURD:
                raise ArgumentError(
                    "{solver}: {option} is {value!r}; give at most 2**63 - 1",
                    solver=self.name,
                    option=name,
                    value=option,
                )

    def candidates(self, graph: ComputationGraph, task: Task, clock: Clock, options: Mapping[str, Any]) -> Stream:
        self.check_options(options)
        stream = self.function(graph, task, clock, **options)
        if not isinstance(stream, Iterator):
            raise ArgumentTypeError(
                "{name} returned a {kind}; a solver yields candidates or schedules",
                name=self.name,
                kind=type(stream).__name__,
            )
        return stream


Function = TypeVar("Function", bound=Callable[..., Stream])
SOLVERS = Registry[Solver](package)


def any_graph(graph: ComputationGraph) -> str | None:
    """Return None: the default of `needs`, which accepts every graph."""
    return None


def training_graph(graph: ComputationGraph) -> str | None:
    """Return the reason to refuse a graph without a backward part, or None."""
    return None if graph.is_training else "the graph has no backward part; call differentiate(graph) first"


def solver(
    function: object = None,
    /,
    *,
    paper: str = "",
    needs: Callable[[ComputationGraph], str | None] = any_graph,
    optimal_in: str | None = None,
    improves: bool = False,
    portfolio: bool = True,
    price: float = tuning.UNKNOWN_PRICE,
    describe: Callable[[ComputationGraph, Details], Rows] = no_rows,
    explain: Callable[..., Result] | None = None,
) -> Callable[[Function], Function]:
    """Decorate a function as a solver, ``@solver(...)``; see `Solver` for the parameters."""
    check_brackets("solver", function)

    def register(function: Function) -> Function:
        if optimal_in is not None and optimal_in not in SCOPES:
            raise ArgumentError("optimal_in is {optimal_in!r}; use {scopes!l}", optimal_in=optimal_in, scopes=SCOPES)
        if function.__name__ in (AUTO, START):
            raise ArgumentError(
                "{function} cannot be the name of a solver, since solve uses this word; choose another name",
                function=function.__name__,
            )
        SOLVERS.add(Solver(function, paper, needs, optimal_in, improves, portfolio, price, describe, explain))
        return function

    return register


def list_solvers() -> Entries[Solver]:
    """Return all solvers, by name, as a list that prints as a table.

    Returns
    -------
    list of Solver

    Examples
    --------
    >>> [solver.name for solver in list_solvers()][:2]
    ['approximate_dp', 'chain_dp']
    >>> print(str(list_solvers()).splitlines()[0])
    solver                 paper         what it does
    """
    return SOLVERS.all()


def in_order(solvers: Iterable[Solver]) -> list[Solver]:
    """Sort solvers as they run: the baseline, the others by price, and last those that improve candidates."""
    return sorted(solvers, key=lambda each: (each.improves, each.name != BASELINE, each.price, each.name))


def list_candidates(graph: ComputationGraph, solver: str, limit: int | None = None, **options: Any) -> list[Candidate]:
    """Return the simulated candidates of one solver in the order it yields them; omit those that violate a mark."""
    registered = get_solver(solver)
    reason = registered.needs(graph)
    if reason:
        raise GraphError("{solver} does not support this graph: {reason!w}", solver=registered.name, reason=reason)
    stream = registered.candidates(graph, Task(limit), Clock(), options)
    candidates = []
    for each in stream:
        candidate = each if isinstance(each, Candidate) else Candidate(each)
        if candidate.simulation is None:
            candidate = replace(candidate, simulation=evaluated(graph, candidate.schedule).simulation)
        if candidate.simulation is not None:
            candidates.append(candidate)
    return candidates


def find_solver(name: str) -> Solver | None:
    """Return the solver with this name, or None if it is not installed."""
    return SOLVERS.get(name)


def get_solver(name: str) -> Solver:
    """Return the solver with this name; raise ValueError if it is unknown."""
    registered = find_solver(name)
    if registered is None:
        known = [AUTO, *(solver.name for solver in list_solvers())]
        near = did_you_mean(name, known)
        if near:
            raise ArgumentError("unknown solver {name!r}{near!w}", name=name, near=near)
        raise ArgumentError("unknown solver {name!r}; use {known!l}", name=name, known=known)
    return registered
