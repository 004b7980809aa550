"""Plans as policies of `jax.checkpoint`, for functions that are compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from remat_algos.arguments import checked_arguments
from remat_algos.errors import PlanError
from remat_algos.interop.jax.captured import CapturedFunction, capture
from remat_algos.interop.jax.naming import Naming
from remat_algos.interop.jax.program import Source
from remat_algos.interop.optional import require
from remat_algos.ir.graph import ComputationGraph
from remat_algos.plan.plan import Plan
from remat_algos.wording import shortened

jax = require("jax", "jax")


@checked_arguments
def names(captured: CapturedFunction, plan: Plan, *, offloaded: bool = False) -> list[str]:
    """The names that `checkpoint_name` gave to values that a plan keeps for the backward part, or copies to the host.

    Pass them to `jax.checkpoint_policies.save_only_these_names`, or both kinds to `save_and_offload_only_these_names`.

    Parameters
    ----------
    captured : CapturedFunction
        Captured function that names values.
    plan : Plan
        For `captured.graph`.
    offloaded : bool
        Give the values that are copied to the host.

    Returns
    -------
    list of str

    Raises
    ------
    TypeError
        If `plan` is not a plan.
    GraphError
        If the plan is for another graph.
    PlanError
        If `offloaded`, and the plan offloads what a policy cannot say: a value of the backward part, or one that comes
        back in the forward part.

    Examples
    --------
    >>> import jax, jax.numpy as jnp, remat_algos as ra
    >>> from jax.ad_checkpoint import checkpoint_name
    >>> from remat_algos.interop.jax import capture
    >>> def loss(w, x):
    ...     return jnp.tanh(checkpoint_name(x @ w, "product")).sum()
    >>> captured = capture(jax.grad(loss), jnp.ones((8, 8)), jnp.ones((4, 8)), device="h100-sxm")
    >>> names(captured, ra.solve(captured.graph, "100%"))
    []
    """
    captured.check_plan(plan)
    named = captured.program.names
    values = _offloaded(plan) if offloaded else _kept(plan)
    return [name for value in values for name in named.get(Source(False, value), ())]


def _kept(plan: Plan) -> list[int]:
    """Values that stay on the device for the backward part."""
    is_load = plan.simulation.is_load
    return [value for value, instance in plan.saved if not is_load[instance]]


def _offloaded(plan: Plan) -> list[int]:
    """Values of the forward part that come back for the backward part alone; PlanError for others that are loaded."""
    graph, is_load, kept = plan.graph, plan.simulation.is_load, set(_kept(plan))
    begin = int((~graph.forward[plan.schedule.order]).argmax())  # of the backward part
    for at, step in enumerate(plan.simulation.steps() if plan.schedule.loads.size else ()):
        for value, instance in step.reads:
            if not is_load[instance]:
                continue
            if at < begin or value in kept or not graph.forward[graph.producer[value]]:
                name, reader = shortened(graph.value_name(value)), shortened(graph.labels[step.node])
                raise PlanError(
                    "the plan loads {name!w} for {reader!w}: a policy of jax.checkpoint can only send a value of the "
                    "forward part to the host until the backward part reads it; solve without a link",
                    name=name,
                    reader=reader,
                )
    return plan.simulation.stores.tolist()


@checked_arguments
def apply(
    f: Callable[..., Any],
    plan: Plan,
    *args: Any,
    transform: Callable[[Callable[..., Any]], Callable[..., Any]] | None = None,
) -> Callable[..., Any]:
    """A function whose gradient keeps what a plan keeps, offloads what it offloads, and recomputes the rest.

    It is `f` with a name on each value, in `jax.checkpoint` with the policy `save_only_these_names`, or
    `save_and_offload_only_these_names` to pinned host memory if the plan has copies. XLA chooses the order, so the peak
    of the plan is not a bound.

    Parameters
    ----------
    f : callable
        Function to differentiate, such as the loss of a network.
    plan : Plan
        Plan for the graph of `capture(transform(f), *args)`.
    *args
        Arguments as for `capture`.
    transform : callable, optional
        Transformation that computes the gradients; by default `jax.value_and_grad`.

    Returns
    -------
    callable
        Takes the arguments of `f`, with these shapes and types.

    Raises
    ------
    TypeError
        If `plan` is not a plan.
    GraphError
        If the plan is for another graph.
    PlanError
        If it offloads what a policy cannot say (see `names`).

    Examples
    --------
    >>> import jax, jax.numpy as jnp, remat_algos as ra
    >>> from remat_algos.interop.jax import capture
    >>> def loss(w, x):
    ...     return jnp.tanh(jnp.tanh(x @ w) @ w).sum()
    >>> w, x = jnp.ones((8, 8)), jnp.ones((64, 8))
    >>> plan = ra.solve(capture(jax.value_and_grad(loss), w, x).graph, "least")
    >>> value, gradient = jax.jit(jax.value_and_grad(apply(loss, plan, w, x)))(w, x)
    >>> bool((gradient == jax.grad(loss)(w, x)).all())
    True
    """
    named = Naming().function(f, args)
    captured = capture((transform or jax.value_and_grad)(named), *args)
    if not (isinstance(plan, Plan) and _same_equations(captured.graph, plan.graph)):
        captured.check_plan(plan)
    kept = _names_of(captured, plan, _kept(plan))
    away = _names_of(captured, plan, _offloaded(plan))
    policies = jax.checkpoint_policies
    if away:
        places = {"offload_src": "device", "offload_dst": "pinned_host"}
        both = {"names_which_can_be_saved": kept, "names_which_can_be_offloaded": away}
        return jax.checkpoint(named, policy=policies.save_and_offload_only_these_names(**both, **places))
    return jax.checkpoint(named, policy=policies.save_only_these_names(*kept))


def _same_equations(graph: ComputationGraph, other: ComputationGraph) -> bool:
    """True if both graphs have the same equations: names change the order of the stacks that a loop makes."""
    pairs = [(each.value_indptr, each.read_indptr, each.node_memory) for each in (graph, other)]
    return graph.labels.ops == other.labels.ops and all(map(np.array_equal, *pairs))


def _names_of(captured: CapturedFunction, plan: Plan, values: list[int]) -> list[str]:
    """The names of some values of a plan; a loop stands for all its results."""
    nodes = np.searchsorted(plan.graph.value_indptr, values, "right") - 1
    found: list[str] = []
    for value, node in zip(values, nodes.tolist(), strict=True):
        equation = captured.program.equations[node]
        for each in equation.values if equation.bodies else (value,):
            found += captured.program.names.get(Source(False, each), ())
    return list(dict.fromkeys(found))
