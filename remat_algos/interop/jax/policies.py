"""Plans as policies of `jax.checkpoint`, for functions that are compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from remat_algos.arguments import checked_arguments
from remat_algos.interop.jax.captured import CapturedFunction, capture
from remat_algos.interop.jax.program import body_of, core, evaluate, primitives
from remat_algos.interop.optional import require
from remat_algos.ir.graph import ComputationGraph
from remat_algos.plan.plan import Plan

jax = require("jax", "jax")
ad_checkpoint = require("jax.ad_checkpoint", "jax")


@checked_arguments
def names(captured: CapturedFunction, plan: Plan) -> list[str]:
    """The names that `checkpoint_name` gave to values that a plan keeps for the backward part.

    They are those for `jax.checkpoint_policies.save_only_these_names`.

    Parameters
    ----------
    captured : CapturedFunction
        Of a function that names values.
    plan : Plan
        For `captured.graph`.

    Returns
    -------
    list of str

    Raises
    ------
    TypeError
        For what is no plan.
    GraphError
        For a plan of another graph.

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
    return [name for value, _ in plan.saved for name in named.get(value, ())]


@checked_arguments
def apply(
    f: Callable[..., Any],
    plan: Plan,
    *args: Any,
    transform: Callable[[Callable[..., Any]], Callable[..., Any]] | None = None,
) -> Callable[..., Any]:
    """A function whose gradient keeps what a plan keeps, and recomputes the rest.

    It is `f` with a name on each value, in `jax.checkpoint` with the policy `save_only_these_names`. XLA decides what
    is computed when, so the peak of the plan is no bound.

    Parameters
    ----------
    f : callable
        Of which gradients are computed, such as the loss of a network.
    plan : Plan
        For the graph of `capture(transform(f), *args)`.
    *args
        As for `capture`.
    transform : callable, optional
        What computes the gradients; by default `jax.value_and_grad`.

    Returns
    -------
    callable
        To be called as `f` is, for arguments of these shapes and types.

    Raises
    ------
    TypeError
        For what is no plan.
    GraphError
        For a plan of another graph.

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
    named = _named(f, args)
    captured = capture((transform or jax.value_and_grad)(named), *args)
    if isinstance(plan, Plan):
        captured = _as_costed(captured, plan.graph)
    policy = jax.checkpoint_policies.save_only_these_names(*names(captured, plan))
    return jax.checkpoint(named, policy=policy)


def _as_costed(captured: CapturedFunction, graph: ComputationGraph) -> CapturedFunction:
    """With the costs of another graph, whatever they count."""
    if captured.graph.n_nodes != graph.n_nodes:
        return captured
    return replace(captured, graph=captured.graph.with_costs(compute=graph.compute))


def _named(f: Callable[..., Any], args: Sequence[Any]) -> Callable[..., Any]:
    """The function, with a name on each value: its operation and a number."""
    closed, shapes = jax.make_jaxpr(f, return_shape=True)(*args)
    out_tree = jax.tree_util.tree_structure(shapes)

    def named(*args: Any) -> Any:
        arrays = jax.tree_util.tree_leaves(args)
        results = _name_values(closed.jaxpr, closed.consts, arrays, count())
        return jax.tree_util.tree_unflatten(out_tree, results)

    return named


def _name_values(jaxpr: Any, consts: Sequence[Any], arguments: Sequence[Any], numbers: Iterator[int]) -> list[Any]:
    """The results of a jaxpr, with a name on each value; functions with gradients of their own stay whole."""
    arrays = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *arguments], strict=True))

    def array_of(atom: Any) -> Any:
        return atom.val if isinstance(atom, core.Literal) else arrays[atom]

    for eqn in jaxpr.eqns:
        if eqn.primitive is primitives.jit_p:
            body, own = body_of(eqn)
            inner = jax.jit(lambda *inputs, body=body, own=own: _name_values(body, own, inputs, numbers))
            results = inner(*map(array_of, eqn.invars))
        else:
            results = evaluate(eqn, {atom: arrays[atom] for atom in eqn.invars if not isinstance(atom, core.Literal)})
        for variable, array in zip(eqn.outvars, results, strict=True):
            arrays[variable] = ad_checkpoint.checkpoint_name(array, f"{eqn.primitive.name}.{next(numbers)}")
    return [array_of(atom) for atom in jaxpr.outvars]
