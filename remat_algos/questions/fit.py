"""Find the largest model of a family that has a plan within a budget."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial, reduce
from operator import or_
from typing import Any

from remat_algos.arguments import as_seed, checked_arguments
from remat_algos.bounds.memory import least_peak_bound
from remat_algos.context import Clock, Progress, Stop, until_stopped
from remat_algos.cost.devices import AnyLink, get_link
from remat_algos.cost.links import Link
from remat_algos.errors import ArgumentError, GraphError
from remat_algos.ir.arrays import brief
from remat_algos.ir.budget import Amount, Budget
from remat_algos.ir.graph import ComputationGraph
from remat_algos.plan.plan import Plan, cells, conditions
from remat_algos.plan.record import SHOWN
from remat_algos.questions import tuning
from remat_algos.questions.compare import attempted
from remat_algos.result import Result, entries
from remat_algos.search.auto import default_solvers
from remat_algos.search.infeasible import budget_error
from remat_algos.search.request import Request
from remat_algos.solvers.registry import AUTO, BASELINE, get_solver
from remat_algos.wording import by_reason, format_bytes

MAX_VALUE = 4096

Build = Callable[[int], ComputationGraph]


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """The largest `value` whose graph has a plan in the budget. `tried` maps values to why they fail, or to ""."""

    solver: str
    value: int | None
    plan: Plan | None
    tried: Mapping[int, str]
    stop: Stop = Stop.DONE

    __repr__ = brief

    @property
    def too_much(self) -> int | None:
        """The smallest tried value that does not fit, or None if all tried values fit."""
        return min((value for value, reason in self.tried.items() if reason), default=None)

    @property
    def reason(self) -> str:
        return "" if self.too_much is None else self.tried[self.too_much]

    @property
    def at_least(self) -> bool:
        """True if a larger value may fit, because no larger value failed or the search was incomplete."""
        return self.value is not None and (self.too_much is None or not self.stop.complete)

    def record(self) -> dict[str, Any]:
        """Return the JSON record."""
        record = entries(self, "solver value at_least too_much reason stop.complete")
        record["tried"] = {str(value): reason for value, reason in sorted(self.tried.items())}
        if self.plan is not None:
            record |= self.plan.figures(
                ("graph_hash", "method", "compute_unit", "compute_scale", "link", *SHOWN, "bound_proven")
            )
            record["overhead_share"] = self.plan.overhead / max(1, self.plan.graph.needed_compute)
        return record


@dataclass(frozen=True, slots=True, eq=False)
class Fits(Result, Sequence[Fit]):
    """The fits of several solvers. `refused` maps values to the reasons why their graphs cannot be built."""

    budget: Budget
    fits: tuple[Fit, ...]
    refused: Mapping[int, str]
    link: Link | None = None

    COLUMNS = ("solver", "largest", "peak", "residents", "with residents", "overhead", "too large")

    __repr__ = brief

    def __len__(self) -> int:
        return len(self.fits)

    def __getitem__(self, i: Any) -> Any:
        return self.fits[i]

    @property
    def stop(self) -> Stop:
        return reduce(or_, (entry.stop for entry in self.fits), Stop.DONE)

    def record(self) -> dict[str, Any]:
        """Return the JSON record."""
        return {**entries(self, "budget stop.complete"), "solvers": [entry.record() for entry in self.fits]}

    def heading(self) -> Iterator[str]:
        yield f"budget: {self.budget}"
        yield from conditions(0, None, self.link)

    def rows(self) -> Iterator[tuple[str, ...]]:
        for entry in self.fits:
            plan, shown = entry.plan, self.COLUMNS[2:-1]
            solver = entry.solver if plan is None or plan.method == entry.solver else f"{entry.solver} ({plan.method})"
            largest = "none" if entry.value is None else f"{entry.value}{' or more' if entry.at_least else ''}"
            figures = [""] * len(shown) if plan is None else cells(plan, shown)
            yield (solver, largest, *figures, "" if entry.too_much is None else str(entry.too_much))

    def notes(self) -> Iterator[str]:
        """Yield notes: why solvers have no plan, why the next larger value cannot be built, why the search stopped."""
        yield from by_reason({entry.solver: entry.reason for entry in self.fits if entry.value is None})
        for value in sorted(self.refused.keys() & {entry.too_much for entry in self.fits}):
            yield f"{value} cannot be built: {self.refused[value]}"
        if reason := self.stop.reason:
            yield f"{reason}; these are the largest values found"


@checked_arguments
def fit(
    build: Build,
    budget: Budget | Amount,
    *,
    values: Sequence[int] | None = None,
    least: int = 1,
    most: int | None = None,
    solvers: Sequence[str] | None = None,
    time_limit: float | None = None,
    seed: int = 0,
    link: AnyLink | None = None,
    progress: Progress | None = None,
) -> Fits:
    """Find, for each solver, the largest value whose graph has a plan within a budget.

    All values below one that fits are assumed to fit: values are doubled until one does not fit, then bisected.
    Each solver may fall back on the plan without rematerialization, as in `solve`.

    Parameters
    ----------
    build : callable
        `build(value)` returns the graph for a value of batch, depth, sequence length etc., with its backward part.
    budget : Budget, int or str
        As in `solve`; `Budget(device="11GiB")` limits the sum of peak and residents.
    values : sequence of int, optional
        Values to try; by default every whole number up to 4096.
    least, most : int
        Smallest and largest value to try.
    solvers : sequence of str, optional
        Names of solvers; by default "auto" and all solvers that it runs.
    time_limit : float, optional
        Seconds for all solvers and values together; each solver tries at least one value.
    seed : int
    link : Link, Device, mapping, str or path, optional
        As in `solve`; with a link, tensors may also be copied to the host and back.
    progress : callable, optional
        A `Progress`, as in `solve`.

    Returns
    -------
    Fits
        A sequence with one `Fit` per solver; after an interrupt or the time limit, with the results found by then.

    Raises
    ------
    ValueError
        If there is no value to try, or a solver is unknown.
    GraphError
        If `build` raises it for the smallest value. Larger values that cannot be built count as too large.

    Examples
    --------
    >>> from remat_algos.ir.differentiate import differentiate
    >>> from remat_algos.zoo.random import chain
    >>> found = fit(lambda depth: differentiate(chain(depth)), 9, solvers=["no_remat", "chen_sqrt"])
    >>> [(entry.solver, entry.value, entry.plan.peak_memory) for entry in found]
    [('no_remat', 7, 9), ('chen_sqrt', 19, 9)]
    """
    tried = _between(range(least, (most or MAX_VALUE) + 1) if values is None else sorted(set(values)), least, most)
    names = _names(solvers)
    refused: dict[int, str] = {}
    graph = _refusing(lru_cache(tuning.CACHED_GRAPHS)(build), tried[0], refused)
    clock = Clock(time_limit, progress)
    over = None if link is None else get_link(link)
    request_of = partial(Request.of, budget=Budget.of(budget), seed=as_seed(seed), link=over)

    def plan(name: str, value: int, clock: Clock) -> Plan | str:
        built = graph(value)
        return built if isinstance(built, str) else _plan(request_of(built, solver=name), clock)

    fits: dict[str, Fit] = {}
    # Each solver starts at the largest value for which the baseline has a plan. "auto" starts at the largest value for
    # which any solver has a plan, since "auto" rarely gets much further.
    for i, name in enumerate(sorted(names, key=lambda name: (name == AUTO) - (name == BASELINE))):
        if any(entry.stop is Stop.INTERRUPTED for entry in fits.values()):
            fits[name] = Fit(name, None, None, {}, Stop.INTERRUPTED)
            continue
        part = 1 / (len(names) - i)
        own = clock.share(part, part, f"{name} at ")
        place = {entry.solver: bisect_left(tried, entry.value) for entry in fits.values() if entry.value is not None}
        floor = max(place.values(), default=-1) if name == AUTO else place.get(BASELINE, -1)
        fits[name] = _largest(name, partial(plan, name), tried, floor, 1 if name == AUTO else floor + 2, own)
    if not any(entry.stop is Stop.INTERRUPTED for entry in fits.values()):
        clock.finish()
    return Fits(Budget.of(budget), tuple(fits[name] for name in names), refused, over)


def _names(solvers: Sequence[str] | None) -> list[str]:
    if solvers is None:
        return [*(solver.name for solver in default_solvers()), AUTO]
    return [name if name == AUTO else get_solver(name).name for name in dict.fromkeys(solvers)]


def _between(values: Sequence[int], least: int, most: int | None) -> Sequence[int]:
    between = values[bisect_left(values, least) : len(values) if most is None else bisect_right(values, most)]
    if not between:
        to = "on" if most is None else "to {most}"
        template = "there is no value to try from {least} " + to + "; give other limits"
        raise ArgumentError(template, least=least, most=most)
    return between


def _largest(
    solver: str,
    plan: Callable[[int, Clock], Plan | str],
    values: Sequence[int],
    floor: int,
    stride: int,
    clock: Clock,
) -> Fit:
    """Find the largest value with a plan of one solver. The stride doubles from index `floor`, which fits or is -1."""
    tried: dict[int, str] = {}
    best, low, high, place = None, -1, len(values), max(floor, 0)
    with until_stopped() as ending:
        while low + 1 < high and ending.stop is Stop.DONE:
            if tried:
                clock.check()
            value, n_left = values[place], (high - low - 1).bit_length()
            part = 1 / (1 + n_left * (2 if high == len(values) else 1))
            answer = plan(value, clock.share(part, part, f"{value}: "))
            if isinstance(answer, Plan):
                best, low = answer, place
                ending.stop = answer.report.stop if answer.report.stop is Stop.INTERRUPTED else Stop.DONE
            else:
                high, floor = place, floor if floor < place else -1
            tried[values[place]] = "" if isinstance(answer, Plan) else answer
            known = max(low, floor)
            if high == len(values):
                place, stride = min(low + stride, high - 1), 2 * stride
            else:  # bisect, then test the floor
                place = (known + high) // 2 if known + 1 < high else known
    return Fit(solver, values[low] if best is not None else None, best, tried, ending.stop)


def _refusing(build: Build, least: int, refused: dict[int, str]) -> Callable[[int], ComputationGraph | str]:
    def graph(value: int) -> ComputationGraph | str:
        try:
            return build(value)
        except (GraphError, MemoryError) as error:
            if value == least:
                raise
            reason = str(error) if isinstance(error, GraphError) else "not enough memory to build the graph"
            return refused.setdefault(value, reason)

    return graph


def _plan(request: Request, clock: Clock) -> Plan | str:
    graph, link, limits = request.graph, request.link, request.limits()
    if link is None and limits.limit is not None and least_peak_bound(graph)[0] > limits.limit:
        return str(budget_error(limits, [], {}))
    if link is not None and (bound := least_peak_bound(graph, copies=True)[0]) > (limits.limit or 0):
        return f"no schedule goes below {format_bytes(bound)}, even with copies over {link}"
    entry = attempted(request, Clock(clock.left, clock.report))
    return entry.reason if entry.plan is None else entry.plan
