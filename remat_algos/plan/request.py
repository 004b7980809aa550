"""What is asked of `solve`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from remat_algos.allocate.allocators.registry import Allocator, get_allocator
from remat_algos.allocate.buffers import is_alignment
from remat_algos.allocate.reservation import PEAK
from remat_algos.arguments import as_seed
from remat_algos.context import Clock
from remat_algos.effort import DEFAULT, Effort
from remat_algos.errors import AllocationError, GraphError, ScheduleError
from remat_algos.ir.arrays import as_whole
from remat_algos.ir.budget import Amount, Budget
from remat_algos.ir.graph import ComputationGraph
from remat_algos.plan.cost_noise import CostNoise
from remat_algos.plan.problem import Problem
from remat_algos.schedule.constraints import Constraints
from remat_algos.schedule.schedule import Order, as_schedule
from remat_algos.schedule.simulation import simulate
from remat_algos.solvers.candidates import Candidate
from remat_algos.solvers.registry import (
    AUTO,
    Solver,
    Stream,
    any_graph,
    default_solvers,
    get_solver,
    list_solvers,
)
from remat_algos.solvers.task import Task
from remat_algos.text.wording import listed, quoted, shortened


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """What is asked of `solve`, whose arguments these are, checked.

    Parameters
    ----------
    graph : ComputationGraph
    budget : Budget
    solver : Solver, optional
        The one that was named; None for "auto".
    options : mapping
        Of that solver.
    task : Task
        Seed and effort of all solvers.
    raw : bool
    polish : bool
    allocator : Allocator
    alignment : int
    constraints : Constraints, optional
    noise : CostNoise, optional
    start : Solver, optional
        It yields the schedule of the user's own.
    """

    graph: ComputationGraph
    budget: Budget
    solver: Solver | None
    options: Mapping[str, Any]
    task: Task
    raw: bool
    polish: bool
    allocator: Allocator
    alignment: int
    constraints: Constraints | None
    noise: CostNoise | None
    start: Solver | None

    @classmethod
    def of(
        cls,
        graph: ComputationGraph,
        budget: Budget | Amount | None = None,
        *,
        solver: str | Callable[..., Any] = AUTO,
        effort: str = DEFAULT,
        seed: int = 0,
        raw: bool = False,
        polish: bool | None = None,
        allocator: str = PEAK,
        alignment: int = 1,
        constraints: Constraints | Mapping[str, Any] | None = None,
        cost_noise: float | None = None,
        start: Order | None = None,
        **options: Any,
    ) -> "Request":
        """From the arguments of `solve`, and with its errors.

        Examples
        --------
        >>> from remat_algos.models.random import chain
        >>> request = Request.of(chain(3), "50%", effort="fast")
        >>> request.name, str(request.budget), request.polish
        ('auto', 'memory 50%', True)
        """
        budget, single = Budget.of(budget), _single_solver(solver)
        if single is None and options:
            raise TypeError(f"options {listed(list(options))} belong to one solver; name it, auto takes none")
        if not is_alignment(alignment):
            raise AllocationError(
                f"alignment is {quoted(alignment)}, which is not a power of two below 2**53; give 1, 2, 4, ..."
            )
        seed, own_start = as_seed(seed), None if start is None else _as_solver(graph, start, single)
        options = {name: given if as_whole(given) is None else as_whole(given) for name, given in options.items()}
        if single is not None:
            single.check_options(options)
        reserving = get_allocator(allocator)
        noise = None if cost_noise is None else CostNoise.of(graph, cost_noise, seed)
        if noise is not None and reserving.name != PEAK:
            raise ValueError(f"cost_noise goes with allocator={PEAK!r}; leave out allocator={quoted(allocator)}")
        allocator_options(reserving, int(alignment))
        return cls(
            graph,
            budget,
            single,
            options,
            Task(seed=seed, effort=effort),
            raw,
            not raw if polish is None else polish,
            reserving,
            int(alignment),
            Constraints.of(graph, constraints),
            noise,
            own_start,
        )

    @property
    def name(self) -> str:
        """The solver that was asked for."""
        return AUTO if self.solver is None else self.solver.name

    @property
    def effort(self) -> Effort:
        """The numbers of the effort."""
        return Effort.of(self.task.effort)

    @property
    def starts(self) -> list[Solver]:
        """The user's own schedule, as a solver."""
        return [] if self.start is None else [self.start]

    @property
    def solvers(self) -> list[Solver]:
        """All solvers that run."""
        named = default_solvers(self.graph, self.task.effort) if self.solver is None else [self.solver]
        return [*self.starts, *named]

    @property
    def allocator_options(self) -> dict[str, int]:
        """Options of the allocator."""
        return allocator_options(self.allocator, self.alignment, self.task.seed)

    def started(self, schedule: Order) -> "Request":
        """The same with a schedule to begin at."""
        return replace(self, start=_as_solver(self.graph, schedule, self.solver))

    def problem(self) -> Problem:
        """The limits that a plan must meet."""
        return Problem.of(self.graph, self.budget, self.allocator, self.constraints)


def allocator_options(allocator: Allocator, alignment: int, seed: int = 0) -> dict[str, int]:
    """Options of an allocator; ValueError for an alignment that it does not take."""
    if alignment != 1 and "alignment" not in allocator.options:
        raise ValueError(f"alignment={alignment} goes with allocator='arena'; give that too")
    given = {"alignment": alignment, "seed": seed}
    return {name: value for name, value in given.items() if name in allocator.options}


def _as_solver(graph: ComputationGraph, schedule: Order, single: Solver | None) -> Solver:
    """A solver that gives one schedule; ValueError beside one that begins at nothing."""
    if single is not None and not single.improves:
        able = listed([each.name for each in list_solvers() if each.improves])
        raise ValueError(f"{shortened(single.name)} takes no start; name one of {able}, or leave out the solver")
    try:
        simulation = simulate(graph, as_schedule(graph, schedule, "start"))
    except ScheduleError as error:
        raise ScheduleError(f"start: {error}", error.step, error.node) from error
    except GraphError as error:
        raise GraphError(f"start: {error}") from error

    def start(graph: ComputationGraph, task: Task, clock: Clock, **options: Any) -> Stream:
        yield Candidate(simulation.schedule, simulation=simulation)

    return Solver(start, paper="", needs=any_graph, optimal_in=None, price=0.0)


def _single_solver(solver: str | Callable[..., Any]) -> Solver | None:
    if isinstance(solver, str) and solver == AUTO:
        return None
    if not isinstance(solver, str) and not callable(solver):
        raise TypeError(f"solver is {quoted(solver)}; give the name of one, such as 'echo', or leave it out")
    if callable(solver):
        name = getattr(solver, "__name__", "")
        known = get_solver(name) if name else None
        if known is None:
            raise ValueError(f"a {type(solver).__name__} has no name; register a function with @solver and give that")
        if known.function is not solver:
            raise ValueError(f"{shortened(name)} is the name of another solver; register the function with @solver")
        return known
    return get_solver(solver)
