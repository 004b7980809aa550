"""Plans as policies of `jax.checkpoint`, for functions that are compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from remat_algos.arguments import checked_arguments
from remat_algos.interop.jax.captured import CapturedFunction, capture
from remat_algos.interop.jax.naming import Naming
from remat_algos.interop.jax.program import Source
from remat_algos.interop.optional import require
from remat_algos.ir.graph import ComputationGraph
from remat_algos.plan.plan import Plan

jax = require("jax", "jax")


@checked_arguments
def names(captured: CapturedFunction, plan: Plan) -> list[str]:
    """The names that `checkpoint_name` gave to values that a plan keeps for the backward part.

    Pass them to `jax.checkpoint_policies.save_only_these_names`.

    Parameters
    ----------
    captured : CapturedFunction
        Captured function that names values.
    plan : Plan
        For `captured.graph`.

    Returns
    -------
    list of str

    Raises
    ------
    TypeError
        If `plan` is not a plan.
    GraphError
        If the plan is for another graph.

    Examples
    --------
    >>> import jax, jax.numpy as jnp, remat_algos as ra
    >>> from jax.ad_checkpoint import checkpoint_name
    >>> from remat_algos.interop.jax import capture
    >>> def loss(w, x):
    ...     return jnp.tanh(checkpoint_name(x @ w, "product")).sum()
    >>> captured = capture(jax.grad(loss), jnp.ones((8, 8)), jnp.ones((4, 8)))
    >>> names(captured, ra.solve(captured.graph, "100%"))
    []
    """
    captured.check_plan(plan)
    named = captured.program.names
    return [name for value, _ in plan.saved for name in named.get(Source(False, value), ())]


@checked_arguments
def apply(
    f: Callable[..., Any],
    plan: Plan,
    *args: Any,
    transform: Callable[[Callable[..., Any]], Callable[..., Any]] | None = None,
) -> Callable[..., Any]:
    """A function whose gradient keeps what a plan keeps, and recomputes the rest.

    It is `f` with a name on each value, in `jax.checkpoint` with the policy `save_only_these_names`. XLA chooses the
    order, so the peak of the plan is not a bound.

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
    policy = jax.checkpoint_policies.save_only_these_names(*_names_of_saved(captured, plan))
    return jax.checkpoint(named, policy=policy)


def _same_equations(graph: ComputationGraph, other: ComputationGraph) -> bool:
    """True if both graphs have the same equations: names change the order of the stacks that a loop makes."""
    pairs = [(each.value_indptr, each.read_indptr, each.node_memory) for each in (graph, other)]
    return graph.labels.ops == other.labels.ops and all(map(np.array_equal, *pairs))


def _names_of_saved(captured: CapturedFunction, plan: Plan) -> list[str]:
    """The names of the values that a plan keeps; a loop is kept with all its results."""
    nodes = np.searchsorted(plan.graph.value_indptr, [value for value, _ in plan.saved], "right") - 1
    kept: list[str] = []
    for (value, _), node in zip(plan.saved, nodes.tolist(), strict=True):
        equation = captured.program.equations[node]
        for each in equation.values if equation.bodies else (value,):
            kept += captured.program.names.get(Source(False, each), ())
    return list(dict.fromkeys(kept))
