"""A request, the checked arguments of `solve` and of the functions that run it several times, and its limits."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from remat_algos.allocate.allocation import check_alignment
from remat_algos.allocate.allocators import PEAK, Allocator, Reservation, get_allocator
from remat_algos.arguments import as_seed
from remat_algos.bounds.bound import ANY_ORDER, MOMENTS, LowerBound
from remat_algos.bounds.integer_program import TOLERANCE
from remat_algos.bounds.memory import least_peak_bound
from remat_algos.bounds.rising import rising
from remat_algos.context import Clock, Stop, until_stopped
from remat_algos.cost.devices import AnyLink, get_link
from remat_algos.cost.links import Link
from remat_algos.effort import DEFAULT, Effort
from remat_algos.errors import ArgumentError, ArgumentTypeError, BudgetError, GraphError, ScheduleError, about, extended
from remat_algos.ir.arrays import LARGEST_SUM, as_whole
from remat_algos.ir.budget import Amount, Budget
from remat_algos.ir.graph import ComputationGraph
from remat_algos.plan.plan import Plan
from remat_algos.plan.record import BOUND_DETAILS, SearchReport
from remat_algos.schedule.constraints import Constraints
from remat_algos.schedule.emission import baseline_peak
from remat_algos.schedule.schedule import Order, Schedule, as_schedule
from remat_algos.schedule.simulation import Simulation, simulate
from remat_algos.solvers.registry import (
    AUTO,
    BASELINE,
    Candidate,
    Solver,
    Stream,
    Task,
    any_graph,
    default_solvers,
    find_solver,
    get_solver,
    list_solvers,
    rank,
)
from remat_algos.wording import listed

# Shares of the progress; the rest is for the bound, and for addresses.
SEARCHING, SEARCHING_FIRST = 0.9, 0.6


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """A graph, the limits of its plans and the constraints on their schedules."""

    graph: ComputationGraph
    budget: Budget
    base: int
    limit: int | None
    overhead_limit: int | None
    constraints: Constraints | None = None

    @classmethod
    def of(
        cls,
        graph: ComputationGraph,
        budget: Budget,
        allocator: Allocator | None = None,
        constraints: Constraints | Mapping[str, Any] | None = None,
    ) -> "Problem":
        """Return the limits of a budget on a graph in bytes and compute, for the peak or an allocator."""
        allocator = allocator or get_allocator(PEAK)
        return cls(
            graph,
            budget,
            baseline_peak(graph),
            budget.memory_limit(allocator.base(graph), graph.resident_memory),
            budget.overhead_limit(graph.needed_compute, graph.labels.compute_scale),
            Constraints.of(graph, constraints),
        )

    @property
    def minimizes_peak(self) -> bool:
        """True if the peak ranks first: it has no limit, or the budget is "least"."""
        return self.limit is None or self.budget.least

    @property
    def solver_limit(self) -> int | None:
        """The limit for solvers in bytes; None: they yield their whole frontier.

        For the lowest peak it is a lower bound.
        """
        if self.limit is not None and not self.budget.least:
            return min(self.limit, LARGEST_SUM)  # sums stay below it, and it fits in 64 bits
        return least_peak_bound(self.graph)[0] if self.overhead_limit is None else None

    def compute_bound(
        self,
        clock: Clock,
        *,
        effort: str,
        peak: int | None = None,
        closure: LowerBound | None = None,
        goal: int | None = None,
    ) -> tuple[LowerBound, Stop]:
        """Lower bound on the compute of every schedule within the limit, and how the search ended.

        If the peak is minimized, of every schedule within `peak`, or without `peak` of every schedule. `closure` is the
        closure bound, if known. `goal` is the compute of a schedule that a search found: a bound that meets it ends
        this one.
        Whatever stops it, the best bound so far is valid.
        """
        bound = closure or LowerBound(self.graph.needed_compute)
        limit = peak if self.minimizes_peak else self.limit
        with until_stopped() as ending:
            last = goal is not None
            for found in rising(self.graph, limit, effort=effort, closure=closure, last=last, clock=clock):
                bound = found
                if goal is not None and bound.amount >= goal - int(TOLERANCE * self.graph.needed_compute):
                    ending.stop = Stop.PROVEN
                    break
        return bound, ending.stop

    def own_bound(self, candidate: Candidate) -> int | None:
        """Return the candidate's own bound, if it counts here.

        If the peak is minimized, it counts only if it holds at the candidate's own peak: the solver also bounds peaks,
        had no limit, or its limit equals the peak.
        """
        own_peak = candidate.peak_bound is not None or self.solver_limit in (None, candidate.figures[0])
        return candidate.bound if own_peak or not self.minimizes_peak else None

    def proven(self, candidate: Candidate, bound: LowerBound) -> LowerBound:
        """Return the larger of a bound and the candidate's own, if that is valid here and holds for any order."""
        own = self.own_bound(candidate) if candidate.scope == ANY_ORDER else None
        return bound if own is None or own <= bound.amount else LowerBound(own, solver=candidate.solver)

    def fits(self, candidate: Candidate) -> bool:
        """True if peak and overhead are within the budget."""
        return not self.rank(candidate)[0]

    def rank(self, candidate: Candidate) -> tuple[int, int, int, bool]:
        """Sort key of a candidate, best first; of equal ones, no rematerialization comes first."""
        extra, one_pass = self.overhead_limit, self.graph.needed_compute
        compute_limit = None if extra is None else one_pass + extra
        best_first = rank(candidate.figures, self.limit, compute_limit, lowest=self.minimizes_peak)
        return (*best_first, candidate.solver != BASELINE)

    def plan(
        self,
        candidate: Candidate,
        *,
        solver: str,
        options: Mapping[str, Any],
        seconds: float,
        report: SearchReport,
        bound: LowerBound | Callable[[], tuple[LowerBound, Stop]],
        reservation: Reservation | None = None,
    ) -> Plan:
        """Return the plan of a candidate; by default its peak is the reservation.

        Its bound is `proven`, or computed when it is first read. A bound for fewer schedules than those of any order
        stands beside it.
        """
        own, narrower, peak_bound = self.own_bound(candidate), None, candidate.peak_bound
        if own is not None and candidate.scope not in (None, ANY_ORDER):
            narrower = LowerBound(own, scope=candidate.scope, solver=candidate.solver)
        known = self.proven(candidate, bound) if isinstance(bound, LowerBound) else None
        return Plan(
            graph=self.graph,
            budget=self.budget,
            limit=self.limit,
            simulation=candidate.simulated,
            solver=solver,
            method=candidate.solver,
            options=options,
            bound=known,
            seconds=seconds,
            details={name: value for name, value in candidate.details.items() if name not in BOUND_DETAILS},
            report=report,
            reservation=reservation or get_allocator(PEAK).reserve(candidate.simulated),
            constraints=self.constraints,
            narrower=narrower,
            solver_peak_bound=peak_bound if (peak_bound or 0) > least_peak_bound(self.graph)[0] else None,
            bound_search=None if isinstance(bound, LowerBound) else bound,
        )

    def check_regions(self) -> None:
        """BudgetError if no schedule keeps the limit of a region."""
        bound = self.constraints.region_bound() if self.constraints is not None else None
        if self.constraints is None or bound is None:
            return
        name, needed, node = bound
        lower_bound, nodes = least_peak_bound(self.graph)
        raise BudgetError(
            "no schedule keeps region {region} within {limit!B}: while {node} runs, it has {needed!B} live in every "
            "schedule; give it that or more",
            region=name,
            limit=self.constraints.regions[name][1],
            node=self.graph.labels[node],
            needed=needed,
            reached=self.base,
            lower_bound=lower_bound,
            nodes=nodes,
            names=self.graph.labels.names_of(nodes),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Criterion:
    """Ranking of candidates: by compute and peak, or for "least" with a pool by the reserved bytes.

    The memory budget limits the bytes that the allocator reserves.
    """

    allocator: Allocator
    options: Mapping[str, Any]

    @classmethod
    def of(cls, allocator: str = PEAK, *, alignment: int = 1, seed: int = 0) -> "Criterion":
        """Return the criterion for arguments of `solve`; raises the errors of `solve`."""
        alignment = check_alignment(alignment)
        reserving = get_allocator(allocator)
        if alignment != 1 and "alignment" not in reserving.options:
            raise about(
                "alignment",
                ArgumentError(
                    "alignment {alignment} goes with the allocator arena; give that too", alignment=alignment
                ),
            )
        given = {"alignment": alignment, "seed": seed}
        options = {name: value for name, value in given.items() if name in reserving.options}
        return cls(reserving, options)

    @property
    def repeats(self) -> bool:
        """True if the allocator runs on many candidates, at ever lower peaks until the reserved bytes fit."""
        return self.allocator.candidates > 1

    @property
    def progress_share(self) -> float:
        """The share of the progress for the search; the rest is for the allocator and the bound."""
        return SEARCHING if self.allocator.name == PEAK else SEARCHING_FIRST

    def goal(self, graph: ComputationGraph, bound: LowerBound) -> int | None:
        """Compute at which the search may end; None if compute alone does not decide."""
        if self.repeats:
            return None
        return int(bound.amount) + (int(TOLERANCE * graph.needed_compute) if bound.source == MOMENTS else 0)

    def rank(self, problem: Problem, candidate: Candidate, reservation: Reservation) -> tuple[int, ...]:
        """Sort key of candidates that fit, best first."""
        if not (self.repeats and problem.minimizes_peak):
            return problem.rank(candidate)
        peak, compute = candidate.figures
        return reservation.memory, compute, peak, candidate.solver != BASELINE


POINTS = 100  # points of overhead in one pass


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """The checked arguments of `solve`; `compare` and `frontier` use it for several solvers.

    `named` is None for "auto"; with several solvers there are no options. `start` has the user's own schedule, and that
    of the lowest peak for a budget such as "least+1%". With a link, the costs of the graph are times.
    """

    graph: ComputationGraph
    budget: Budget
    named: tuple[Solver, ...] | None
    options: Mapping[str, Any]
    task: Task
    raw: bool
    polish: bool
    criterion: Criterion
    constraints: Constraints | None
    start: tuple[Simulation, ...] = ()
    link: Link | None = None

    @classmethod
    def of(
        cls,
        graph: ComputationGraph,
        budget: Budget | Amount | None = None,
        *,
        solver: str | Callable[..., Any] = AUTO,
        solvers: Sequence[str] | None = None,
        effort: str = DEFAULT,
        seed: int = 0,
        raw: bool = False,
        polish: bool | None = None,
        allocator: str = PEAK,
        alignment: int = 1,
        constraints: Constraints | Mapping[str, Any] | None = None,
        start: Order | None = None,
        gap: float | None = None,
        link: AnyLink | None = None,
        **options: Any,
    ) -> "Request":
        """Check the arguments of `solve`, with its errors; `solvers` names several."""
        budget, named, seed = Budget.of(budget), _named(solver, solvers), as_seed(seed)
        if named is None and options:
            raise about(
                "options",
                ArgumentTypeError(
                    "options {options!l} belong to one solver; name it, auto takes none", options=list(options)
                ),
            )
        gap = Effort.of(effort).near(graph.n_nodes) if gap is None else gap
        if not 0 <= gap <= LARGEST_SUM:
            raise about("gap", ArgumentError("gap is {gap!r}; give points of overhead, 0 or more", gap=gap))
        slack = min(int(gap / POINTS * graph.needed_compute), LARGEST_SUM)
        criterion = Criterion.of(allocator, alignment=alignment, seed=seed)
        link = None if link is None else get_link(link)
        if link is not None:
            link.planned.times(graph)
            check_link_goes_with(budget, allocator=criterion.allocator.name, raw=raw)
        own_start = () if start is None else (_simulated(graph, start, named),)
        if link is None and any(each.stores.size for each in own_start):
            raise ScheduleError("start loads values from the host; give a link, or a start without loads", -1, -1)
        options = {name: given if as_whole(given) is None else as_whole(given) for name, given in options.items()}
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
            criterion,
            Constraints.of(graph, constraints),
            own_start,
            link,
        )

    @property
    def name(self) -> str:
        """The name of the requested solver."""
        return AUTO if self.named is None else listed([each.name for each in self.named])

    @property
    def ends_at_bound(self) -> bool:
        """True if the search may end at a lower bound above one pass: with "auto", or a solver that improves."""
        return not self.raw and (self.named is None or any(each.improves for each in self.named))

    @property
    def solvers(self) -> tuple[Solver, ...]:
        """All solvers that run."""
        named = default_solvers(self.graph, self.task.effort) if self.named is None else self.named
        return (*self.starting, *named)

    @property
    def starting(self) -> tuple[Solver, ...]:
        """A solver that yields the schedules of `start`; empty without any."""

        def start(graph: ComputationGraph, task: Task, clock: Clock, **options: Any) -> Stream:
            yield from (Candidate(each.schedule, simulation=each) for each in self.start)

        return (Solver(start, paper="", needs=any_graph, optimal_in=None, price=0.0),) if self.start else ()

    def started(self, schedule: Order) -> "Request":
        """Return the request with one more schedule to begin at."""
        return replace(self, start=(*self.start, _simulated(self.graph, schedule, self.named)))

    def problem(self) -> Problem:
        """Return the limits that a plan must meet."""
        return Problem.of(self.graph, self.budget, self.criterion.allocator, self.constraints)


def _simulated(graph: ComputationGraph, schedule: Order, named: tuple[Solver, ...] | None) -> Simulation:
    """Return the simulation of a start; ValueError if a named solver takes none."""
    unable = [each.name for each in named or () if not each.improves]
    if unable:
        able = [each.name for each in list_solvers() if each.improves]
        raise about(
            "start",
            ArgumentError(
                "{unable} takes no start; name one of {able!l}, or leave out the solver", unable=unable[0], able=able
            ),
        )
    try:
        found = as_schedule(graph, schedule, "start")
        # A start has no late frees: the search decides which values linger.
        return simulate(graph, Schedule(found.order, found.loads, stores=found.stores))
    except (ScheduleError, GraphError) as error:
        raise extended(error, "start: ") from error


def check_link_goes_with(budget: Budget, *, allocator: str = PEAK, raw: bool = False) -> None:
    """ValueError for options that cannot be combined with copies."""
    if budget.memory is None and budget.device is None and budget.overhead is None:
        raise about(
            "link", ArgumentError("a link needs a budget, such as '50%' or 'least': without one nothing has to leave")
        )
    for name, given in ((f"the allocator {allocator}", allocator != PEAK), ("raw plans", raw)):
        if given:
            raise about("link", ArgumentError("a link does not go with {name}; leave one of them out", name=name))


def _named(solver: str | Callable[..., Any], solvers: Sequence[str] | None) -> tuple[Solver, ...] | None:
    """Return the solvers that were named; None for "auto"."""
    if solvers is not None:
        if AUTO in solvers:
            raise about(
                "solvers", ArgumentError("{auto!w} is no solver by itself; leave the solvers out to run all", auto=AUTO)
            )
        return tuple(_registered(each) for each in dict.fromkeys(solvers))
    return None if isinstance(solver, str) and solver == AUTO else (_registered(solver),)


def _registered(solver: str | Callable[..., Any]) -> Solver:
    """Return the solver of a name or of a registered function."""
    if isinstance(solver, str):
        return get_solver(solver)
    if not callable(solver):
        raise ArgumentTypeError(
            "solver is {solver!r}; give the name of one, such as 'echo', or leave it out", solver=solver
        )
    name = getattr(solver, "__name__", "")
    if not name:
        raise ArgumentError(
            "a {kind!w} has no name; register a function with @solver() and give that", kind=type(solver).__name__
        )
    known = find_solver(name)
    if known is None or known.function is not solver:
        what = "is not registered" if known is None else "is the name of another solver"
        raise ArgumentError("{name} " + what + "; register the function with @solver() above it", name=name)
    return known
