"""Plans for functions that scan over layers, including what an iteration saves for its gradient."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from remat_algos.arguments import checked_arguments
from remat_algos.cost.node_costs import Cost
from remat_algos.effort import DEFAULT, FAST
from remat_algos.errors import BudgetError, warn
from remat_algos.interop import tuning
from remat_algos.interop.jax.captured import CapturedFunction, capture
from remat_algos.interop.jax.policies import Naming, Scan, is_discrete, is_loop, replaced
from remat_algos.interop.jax.program import Source
from remat_algos.interop.optional import require
from remat_algos.ir.boundary import add_boundary
from remat_algos.ir.budget import NEAR_LOWEST, Amount, Budget
from remat_algos.ir.graph import ComputationGraph
from remat_algos.plan.plan import Plan
from remat_algos.questions.frontier import frontier
from remat_algos.schedule.emission import baseline, baseline_peak
from remat_algos.schedule.simulation import Simulation
from remat_algos.search.solve import solve

jax = require("jax", "jax")

PREFIX = "planned/"  # prefix of the names, unlike those that `apply` gives to all values

Kept = Mapping[int, Sequence[str]]  # names of the values that iterations save, by number of the scan


@checked_arguments
def plan_scans(
    f: Callable[..., Any],
    budget: Amount,
    *args: Any,
    transform: Callable[[Callable[..., Any]], Callable[..., Any]] | None = None,
    cost: Cost = "roofline",
    effort: str = DEFAULT,
) -> tuple[Callable[..., Any], CapturedFunction, Plan]:
    """Plan a function that scans over layers, including the bodies of its scans.

    The gradient of a `scan` reads stacks of the values saved by all iterations. One iteration and its gradient are a
    graph of their own, whose frontier gives sets of values to save; `jax.checkpoint` around the body recomputes the
    rest, iteration by iteration. These choices are ordered from saving everything to saving nothing. The whole function
    is captured and solved for the first choice that fits the budget, found by bisection, and for later ones that may
    cost less. The plan is the cheapest, among equals the one with the lowest peak.

    Parameters
    ----------
    f : callable
        Function to differentiate, such as the loss of a network.
    budget : int or str
        Bytes of the peak, "4GiB", "60%" of the peak without rematerialization, "least+1%", or "least", which is
        "least+0.1%": the last bytes may cost much compute.
    *args
        Arguments as for `capture`.
    transform : callable, optional
        Transformation that computes the gradients; by default `jax.value_and_grad`.
    cost : {"roofline", "occupancy", "flops"} or callable, optional
        As for `capture`.
    effort : {"fast", "default", "best"}
        As for `solve`.

    Returns
    -------
    function : callable
        `f` for arguments of these shapes and types, with its scans rematerialized; to be used in place of `f`.
    captured : CapturedFunction
        The graph of `transform(function)`.
    plan : Plan
        Plan for `captured.graph`.

    Warns
    -----
    GraphWarning
        On the CPU, if XLA gets no loop for a planned scan: it has one iteration, or all are unrolled.

    Raises
    ------
    BudgetError
        If no plan is within the budget.
    GraphError
        If the function computes nothing.

    Examples
    --------
    >>> import jax, jax.numpy as jnp
    >>> from remat_algos.interop.jax import plan_scans
    >>> def loss(weights, x):
    ...     return jax.lax.scan(lambda x, w: (jnp.tanh(jnp.tanh(x @ w) @ w), None), x, weights)[0].sum()
    >>> weights, x = jnp.ones((8, 4, 4)), jnp.ones((64, 4))
    >>> planned, captured, plan = plan_scans(loss, "60%", weights, x)
    >>> gradient = jax.jit(jax.grad(planned))(weights, x)
    >>> bool((gradient == jax.jit(jax.grad(loss))(weights, x)).all())
    True
    """
    transform = transform or jax.value_and_grad
    captured = capture(transform(f), *args, cost=cost)
    wanted = Budget(NEAR_LOWEST if Budget(budget).least else budget)
    near = wanted.above_lowest
    if near is None:
        peak, resident = baseline_peak(captured.graph), captured.graph.resident_memory
        wanted = Budget(wanted.memory_limit(peak, resident))
    traced = Naming(PREFIX)
    jax.make_jaxpr(transform(traced.function(f, args)))(*args)
    choices = list(_choices([_savings(scan, traced, cost) for scan in traced.scans]))
    planned: dict[int, _Planned] = {}
    failures: list[BudgetError] = []

    def fits(number: int) -> bool:
        kept = choices[number]
        function = Naming(PREFIX, kept).function(f, args) if kept else f
        of_choice = capture(transform(function), *args, cost=cost) if kept else captured
        try:
            plan = solve(of_choice.graph, wanted, effort=effort)
        except BudgetError as error:
            failures.append(error)
            return False
        planned[number] = _Planned(kept, function, of_choice, plan)
        return True

    first = 0 if near is not None else bisect_left(range(len(choices)), True, key=fits)
    for number in range(first, len(choices)):
        one_pass = planned[number].captured.graph.needed_compute if number in planned or fits(number) else 0
        if near is None and any(one_pass > each.plan.simulation.compute for each in planned.values()):
            break  # later choices need even more compute
    if not planned:
        raise min(failures, key=lambda failure: failure.reached)
    lowest = min(each.plan.peak_memory for each in planned.values())
    fit = [each for each in planned.values() if near is None or each.plan.peak_memory <= (1 + near) * lowest]
    best = min(fit, key=_Planned.compute_and_peak)
    _warn_of_short_scans([traced.scans[number] for number in best.kept])
    return best.function, best.captured, best.plan


class _Planned(NamedTuple):
    """A function whose scans in `kept` recompute all but some values, and the plan for its gradient."""

    kept: Kept
    function: Callable[..., Any]
    captured: CapturedFunction
    plan: Plan

    def compute_and_peak(self) -> tuple[int, int]:
        return self.plan.simulation.compute, self.plan.peak_memory


def _warn_of_short_scans(scans: Sequence[Scan]) -> None:
    """Warn if XLA will not respect `jax.checkpoint` in one of these scans."""
    short = [scan.eqn.params["length"] for scan in scans if not is_loop(scan.eqn)]
    if short and jax.default_backend() == "cpu":
        warn(
            "XLA compiles a scan of {length:iteration} without a loop; for the CPU it drops the barriers of "
            "jax.checkpoint and may save what the plan recomputes",
            length=short[0],
        )


class _Saving(NamedTuple):
    """Values that a scan's iterations may save: names, or None for all that JAX saves; total bytes and compute."""

    names: Sequence[str] | None
    memory: int
    compute: int


def _choices(savings: Sequence[Sequence[_Saving]]) -> Iterator[Kept]:
    """Yield choices from saving everything to saving nothing, each by the cheapest step per byte that it frees."""
    now = [each[0] for each in savings]
    while True:
        yield {i: saving.names for i, saving in enumerate(now) if saving.names is not None}
        steps = [
            ((then.compute - now[i].compute) / (now[i].memory - then.memory), i, then)
            for i, each in enumerate(savings)
            for then in each
            if then.memory < now[i].memory
        ]
        if not steps:
            return
        _, i, then = min(steps, key=lambda step: step[:2])
        now[i] = then


def _savings(scan: Scan, traced: Naming, cost: Cost) -> list[_Saving]:
    """Return the values saved by JAX, those saved by plans for the gradient of an iteration, and none."""
    everything = _Saving(None, 0, 0)
    if not scan.moving:
        return [everything]
    captured = _gradient_of_iteration(scan, traced, cost)
    if not captured.graph.is_training:
        return [everything]
    graph = _weighted(add_boundary(captured.graph))
    forward = np.flatnonzero(captured.graph.forward[captured.graph.producer]).tolist()  # the first values of `graph`
    memory, named = graph.memory.tolist(), captured.program.names

    def saving(simulation: Simulation) -> _Saving:
        saved = [value for value, _ in simulation.saved]
        names = [name for value in saved for name in named.get(Source(False, forward[value]), ())]
        return _Saving(names, scan.times * sum(memory[value] for value in saved), scan.times * simulation.overhead)

    plans = frontier(graph, points=tuning.SCAN_POINTS, effort=FAST).plans
    nothing = scan.times * int(graph.compute[graph.forward].sum())
    return [
        saving(baseline(graph))._replace(names=None),
        *(saving(plan.simulation) for plan in plans),
        _Saving((), 0, nothing),
    ]


def _weighted(graph: ComputationGraph) -> ComputationGraph:
    """A graph whose peak is at its boundary, where the values that an iteration saves are live.

    Other iterations save as much, so these bytes count many times, and bytes within an iteration once.
    """
    workspace = graph.workspace.copy()
    workspace[int((~graph.forward).argmax())] = graph.memory.sum() + workspace.max()
    return graph.with_costs(workspace=workspace)


def _gradient_of_iteration(scan: Scan, traced: Naming, cost: Cost) -> CapturedFunction:
    """Return the results of one iteration, and their gradient by all operands for which the scan computes one."""
    iteration, places = traced.iteration(scan), sorted(scan.moving)

    def gradient(operands: Sequence[Any], cotangents: Sequence[Any]) -> Any:
        def part(*moved: Any) -> list[Any]:
            results = iteration(*replaced(operands, places, moved))
            return [result for result in results if not is_discrete(jax.typeof(result))]

        results, pull_back = jax.vjp(part, *[operands[i] for i in places])
        return results, pull_back(cotangents)

    cotangents = [aval for aval in scan.body.out_avals if not is_discrete(aval)]
    shaped = [
        [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in avals] for avals in (scan.body.in_avals, cotangents)
    ]
    return capture(gradient, *shaped, cost=cost)
