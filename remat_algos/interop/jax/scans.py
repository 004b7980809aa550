"""Planning of functions that scan over layers, including the values that an iteration saves for its gradient."""

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

# Prefix of value names, which distinguishes them from the names that `apply` sets.
PREFIX = "planned/"

Kept = Mapping[int, Sequence[str]]
"""Mapping from the index of a scan to the names of the values that each iteration saves."""


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

    The gradient of a `scan` reads the values saved by all iterations. One iteration and its gradient form a small
    graph. Each plan on the memory-cost frontier of this graph is a set of values to save; `jax.checkpoint` around the
    body recomputes the others, one iteration at a time. These sets are ordered from saving everything to saving
    nothing. Bisection finds the first set with which a plan of the whole function fits the budget. The function is also
    planned with later sets, as long as these can give a cheaper plan. The cheapest plan is returned, and among equally
    cheap ones the one with the lowest peak.

    Parameters
    ----------
    f : callable
        Function to differentiate, such as the loss of a network.
    budget : int or str
        Limit of the peak in bytes, "4GiB", "60%" of the peak without rematerialization, or "least+1%": at most 1 %
        above the lowest peak. "least" means "least+0.1%", because the last bytes can cost much compute.
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
        `f` with rematerialized scans, for arguments of these shapes and types; call it instead of `f`.
    captured : CapturedFunction
        The graph of `transform(function)`.
    plan : Plan
        Plan for `captured.graph`.

    Warns
    -----
    GraphWarning
        On the CPU, if XLA compiles a planned scan without a loop, because it has one iteration or is fully unrolled.

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
    target = Budget(NEAR_LOWEST if Budget(budget).least else budget)
    tolerance = target.above_lowest
    if tolerance is None:
        peak, resident = baseline_peak(captured.graph), captured.graph.resident_memory
        target = Budget(target.memory_limit(peak, resident))
    naming = Naming(PREFIX)
    jax.make_jaxpr(transform(naming.function(f, args)))(*args)
    choices = list(_choices([_savings(scan, naming, cost) for scan in naming.scans]))
    planned: dict[int, _Planned] = {}
    failures: list[BudgetError] = []

    def fits(number: int) -> bool:
        kept = choices[number]
        function = Naming(PREFIX, kept).function(f, args) if kept else f
        candidate = capture(transform(function), *args, cost=cost) if kept else captured
        try:
            plan = solve(candidate.graph, target, effort=effort)
        except BudgetError as error:
            failures.append(error)
            return False
        planned[number] = _Planned(kept, function, candidate, plan)
        return True

    first = 0 if tolerance is not None else bisect_left(range(len(choices)), True, key=fits)
    for number in range(first, len(choices)):
        one_pass = planned[number].captured.graph.needed_compute if number in planned or fits(number) else 0
        if tolerance is None and any(one_pass > each.plan.simulation.compute for each in planned.values()):
            break
    if not planned:
        raise min(failures, key=lambda failure: failure.reached)
    lowest = min(each.plan.peak_memory for each in planned.values())
    fit = [each for each in planned.values() if tolerance is None or each.plan.peak_memory <= (1 + tolerance) * lowest]
    best = min(fit, key=_Planned.compute_and_peak)
    _warn_of_short_scans([naming.scans[number] for number in best.kept])
    return best.function, best.captured, best.plan


class _Planned(NamedTuple):
    """A function whose scans save only the values in `kept`, and the plan for its gradient."""

    kept: Kept
    function: Callable[..., Any]
    captured: CapturedFunction
    plan: Plan

    def compute_and_peak(self) -> tuple[int, int]:
        return self.plan.simulation.compute, self.plan.peak_memory


def _warn_of_short_scans(scans: Sequence[Scan]) -> None:
    short = [scan.eqn.params["length"] for scan in scans if not is_loop(scan.eqn)]
    if short and jax.default_backend() == "cpu":
        warn(
            "XLA compiles a scan of {length:iteration} without a loop; for the CPU it drops the barriers of "
            "jax.checkpoint and may save what the plan recomputes",
            length=short[0],
        )


class _Saving(NamedTuple):
    """Names of values to save in a scan (None if JAX selects them), their bytes, and cost of recomputing the others."""

    names: Sequence[str] | None
    memory: int
    compute: int


def _choices(savings: Sequence[Sequence[_Saving]]) -> Iterator[Kept]:
    """Yield sets of saved values, from all to none. Each step frees values of one scan at the minimum cost per byte."""
    current = [each[0] for each in savings]
    while True:
        yield {i: saving.names for i, saving in enumerate(current) if saving.names is not None}
        steps = [
            ((option.compute - current[i].compute) / (current[i].memory - option.memory), i, option)
            for i, each in enumerate(savings)
            for option in each
            if option.memory < current[i].memory
        ]
        if not steps:
            return
        _, i, option = min(steps, key=lambda step: step[:2])
        current[i] = option


def _savings(scan: Scan, naming: Naming, cost: Cost) -> list[_Saving]:
    """Return the sets to save: JAX's own, one per plan on the frontier of an iteration's graph, and the empty set."""
    everything = _Saving(None, 0, 0)
    if not scan.active:
        return [everything]
    captured = _gradient_of_iteration(scan, naming, cost)
    if not captured.graph.is_training:
        return [everything]
    graph = _weighted(add_boundary(captured.graph))
    # `add_boundary` moves the forward nodes to the front: value i of `graph` is value forward[i] of the captured graph.
    forward = np.flatnonzero(captured.graph.forward[captured.graph.producer]).tolist()
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
    """Add workspace to the boundary node: the peak is then there, and depends only on the bytes saved for backward."""
    workspace = graph.workspace.copy()
    workspace[int((~graph.forward).argmax())] = graph.memory.sum() + workspace.max()
    return graph.with_costs(workspace=workspace)


def _gradient_of_iteration(scan: Scan, naming: Naming, cost: Cost) -> CapturedFunction:
    iteration, places = naming.iteration(scan), sorted(scan.active)

    def gradient(operands: Sequence[Any], cotangents: Sequence[Any]) -> Any:
        def part(*active: Any) -> list[Any]:
            results = iteration(*replaced(operands, places, active))
            return [result for result in results if not is_discrete(jax.typeof(result))]

        results, pull_back = jax.vjp(part, *[operands[i] for i in places])
        return results, pull_back(cotangents)

    cotangents = [aval for aval in scan.body.out_avals if not is_discrete(aval)]
    shaped = [
        [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in avals] for avals in (scan.body.in_avals, cotangents)
    ]
    return capture(gradient, *shaped, cost=cost)
