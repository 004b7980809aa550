"""A request: the checked arguments of `solve` and of functions that call it repeatedly."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from remat_algos.allocate.allocation import check_alignment
from remat_algos.allocate.allocators import PEAK, Allocator, get_allocator
from remat_algos.arguments import as_seed, checked_arguments
from remat_algos.context import Clock, Progress, interrupted_as
from remat_algos.cost.devices import AnyLink, get_link
from remat_algos.cost.links import Link
from remat_algos.effort import DEFAULT, Effort
from remat_algos.errors import ArgumentError, ArgumentTypeError, GraphError, ScheduleError, about, extended
from remat_algos.ir.arrays import LARGEST_SUM, as_whole
from remat_algos.ir.budget import Amount, Budget
from remat_algos.ir.graph import ComputationGraph
from remat_algos.rules import rule_name
from remat_algos.schedule.constraints import Constraints
from remat_algos.schedule.schedule import Order, Schedule, as_schedule
from remat_algos.schedule.simulation import Simulation, simulate
from remat_algos.search.auto import default_solvers
from remat_algos.search.limits import Limits
from remat_algos.solvers.registry import (
    AUTO,
    Candidate,
    Solver,
    Stream,
    Task,
    any_graph,
    find_solver,
    get_solver,
    list_solvers,
)
from remat_algos.wording import listed

STOPPED = "interrupted before a plan within the budget was found"
POINTS_OF_PASS = 100  # one pass is 100 points


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """The checked arguments of `solve`; `compare`, `frontier`, `fit` and the plan cache use them as well.

    `named` contains the solvers that the user named; it is None for "auto". `options` are for a single solver. `start`
    contains the user's own schedule. For a budget such as "least+1%", the schedule of the first search is added to
    `start` before the second search. With a link, the costs of the graph are times.
    """

    graph: ComputationGraph
    budget: Budget
    named: tuple[Solver, ...] | None
    options: Mapping[str, Any]
    task: Task
    raw: bool
    polish: bool
    allocator: Allocator
    allocator_options: Mapping[str, Any]
    constraints: Constraints | None
    clock: Clock
    start: tuple[Simulation, ...] = ()
    link: Link | None = None

    @classmethod
    @checked_arguments
    @interrupted_as(STOPPED)
    def of(
        cls,
        graph: ComputationGraph,
        budget: Budget | Amount | None = None,
        *,
        solver: str | Callable[..., Any] = AUTO,
        effort: str = DEFAULT,
        time_limit: float | None = None,
        seed: int = 0,
        raw: bool = False,
        polish: bool | None = None,
        allocator: str = PEAK,
        alignment: int = 1,
        constraints: Constraints | Mapping[str, Any] | None = None,
        progress: Progress | None = None,
        start: Order | None = None,
        gap: float | None = None,
        link: AnyLink | None = None,
        **options: Any,
    ) -> "Request":
        """Check the arguments of `solve` and return the request; raises the errors of `solve`."""
        clock = Clock(time_limit, progress)
        budget, seed = Budget.of(budget), as_seed(seed)
        named = None if isinstance(solver, str) and solver == AUTO else (_registered(solver),)
        if named is None and options:
            raise about(
                "options",
                ArgumentTypeError(
                    "options {options!l} belong to one solver; name that solver, since auto has no options",
                    options=list(options),
                ),
            )
        gap = Effort.of(effort).near(graph.n_nodes) if gap is None else gap
        if not 0 <= gap <= LARGEST_SUM:
            raise about("gap", ArgumentError("gap is {gap!r}; give points of overhead, 0 or more", gap=gap))
        slack = min(int(gap / POINTS_OF_PASS * graph.needed_compute), LARGEST_SUM)
        reserving, allocator_options = _allocator(allocator, {"alignment": alignment, "seed": seed})
        if options.get("objective") is not None:
            if polish:
                raise ArgumentError("polishing reduces compute, not the objective; give polish=False or no objective")
            # Without `raw`, plans with less compute would replace the plan of minimum objective.
            raw = True
        link = None if link is None else get_link(link)
        if link is not None:
            link.planned.times(graph)
            check_link_goes_with(budget, allocator=reserving.name, raw=raw)
        own_start = () if start is None else (_simulated(graph, start, named),)
        if link is None and any(each.stores.size for each in own_start):
            raise ScheduleError("`start` loads values from the host; give a link, or a start without loads", -1, -1)
        options = {name: value if as_whole(value) is None else as_whole(value) for name, value in options.items()}
        for each in named or ():
            each.check_options(options)
        return cls(
            graph,
            budget,
            named,
            options,
            Task(seed=seed, effort=effort, slack=slack),
            raw,
            not raw if polish is None else polish,
            reserving,
            allocator_options,
            None if constraints is None else Constraints.of(graph, constraints),
            clock,
            own_start,
            link,
        )

    @property
    def name(self) -> str:
        named = [AUTO] if self.named is None else [each.name for each in self.named]
        return named[0] if len(named) == 1 else listed(named)

    @property
    def recorded_options(self) -> dict[str, Any]:
        """The options as plans record them: rules that are functions by name."""
        return {name: rule_name(value) or value for name, value in self.options.items()}

    @property
    def least(self) -> bool:
        """True if the request is to minimize bytes first, and then compute within these bytes."""
        budget = self.budget
        # Without `raw`, a second search minimizes compute within the bytes of the first plan, which is the raw plan.
        lowest = budget.least or (budget.memory is None and budget.device is None)
        return lowest and budget.overhead is None and not self.raw

    @property
    def ends_at_bound(self) -> bool:
        """True if the search may end at a lower bound: with "auto", or with a solver that improves candidates."""
        return not self.raw and (self.named is None or any(each.improves for each in self.named))

    @property
    def solvers(self) -> tuple[Solver, ...]:
        named = default_solvers(self.graph, self.task.effort) if self.named is None else self.named
        return (*self.starting, *named)

    @property
    def starting(self) -> tuple[Solver, ...]:
        """A solver, in a tuple, that yields the schedules of `start`; an empty tuple if there are none."""

        def start(graph: ComputationGraph, task: Task, clock: Clock, **options: Any) -> Stream:
            yield from (Candidate(each.schedule, simulation=each) for each in self.start)

        return (Solver(start, paper="", needs=any_graph, optimal_in=None, price=0.0),) if self.start else ()

    def with_solvers(self, names: Sequence[str] | None) -> "Request":
        """Return the request for the solvers with these names; unchanged for None."""
        if names is None:
            return self
        if AUTO in names:
            raise about(
                "solvers", ArgumentError("{auto!w} is not a single solver; leave out the solvers to run all", auto=AUTO)
            )
        return replace(self, named=tuple(_registered(each) for each in dict.fromkeys(names)))

    def started(self, schedule: Order) -> "Request":
        """Return the request with one more schedule from which searches start."""
        return replace(self, start=(*self.start, _simulated(self.graph, schedule, self.named)))

    def limits(self) -> Limits:
        return Limits.of(self.graph, self.budget, self.allocator, self.constraints, **self.allocator_options)


def _allocator(name: str, options: Mapping[str, int]) -> tuple[Allocator, dict[str, int]]:
    alignment = options["alignment"]
    if alignment != 1:
        check_alignment(alignment)
    allocator = get_allocator(name)
    if alignment != 1 and "alignment" not in allocator.options:
        raise about(
            "alignment",
            ArgumentError("alignment {alignment} needs the allocator arena; give both", alignment=alignment),
        )
    return allocator, {name: options[name] for name in options if name in allocator.options}


def _simulated(graph: ComputationGraph, schedule: Order, named: tuple[Solver, ...] | None) -> Simulation:
    unable = [each.name for each in named or () if not each.improves]
    if unable:
        able = [each.name for each in list_solvers() if each.improves]
        raise about(
            "start",
            ArgumentError(
                "{unable} accepts no start; name one of {able!l}, or leave out the solver", unable=unable[0], able=able
            ),
        )
    try:
        own = as_schedule(graph, schedule, "start")
        # Drop the rows of `lingering`, since the search decides itself which values are freed late.
        return simulate(graph, Schedule(own.order, own.loads, stores=own.stores))
    except (ScheduleError, GraphError) as error:
        raise extended(error, "start: ") from error


def check_link_goes_with(budget: Budget, *, allocator: str = PEAK, raw: bool = False) -> None:
    """Raise ValueError for options that cannot be combined with a link."""
    if budget.memory is None and budget.device is None and budget.overhead is None:
        raise about(
            "link",
            ArgumentError("a link needs a budget, such as '50%' or 'least'; without one nothing needs to be offloaded"),
        )
    for name, is_set in ((f"the allocator {allocator}", allocator != PEAK), ("raw plans", raw)):
        if is_set:
            raise about(
                "link", ArgumentError("a link cannot be combined with {name}; leave out one of them", name=name)
            )


def _registered(solver: str | Callable[..., Any]) -> Solver:
    if isinstance(solver, str):
        return get_solver(solver)
    if not callable(solver):
        raise ArgumentTypeError(
            "solver is {solver!r}; give the name of a solver, such as 'echo', or leave it out", solver=solver
        )
    name = getattr(solver, "__name__", "")
    if not name:
        raise ArgumentError(
            "a {kind!w} has no name; register a function with @solver() and pass that function",
            kind=type(solver).__name__,
        )
    known = find_solver(name)
    if known is None or known.function is not solver:
        what = "is not registered" if known is None else "is the name of another solver"
        raise ArgumentError("{name} " + what + "; register the function with @solver() above it", name=name)
    return known
