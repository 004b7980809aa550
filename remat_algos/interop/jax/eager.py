"""A captured function, run by a plan, equation by equation."""

from __future__ import annotations

from typing import Any

from remat_algos.arguments import checked_arguments
from remat_algos.interop.jax.captured import CapturedFunction
from remat_algos.interop.jax.program import Source, is_value, literal_array
from remat_algos.interop.optional import require
from remat_algos.plan.plan import Plan
from remat_algos.schedule.schedule import check_no_loads

jax = require("jax", "jax")


@checked_arguments
def run(captured: CapturedFunction, plan: Plan, *args: Any, live: list[int] | None = None) -> Any:
    """The results of a captured function, computed in the order of a plan.

    Each equation is run by itself, as JAX does outside of `jax.jit`, and each value is dropped when the plan frees it.

    Parameters
    ----------
    captured : CapturedFunction
    plan : Plan
        Plan for `captured.graph`.
    *args
        Arguments with the captured shapes and types.
    live : list of int, optional
        Filled with the bytes of the values live during each step: the sizes of the arrays that this function holds,
        without arguments and constants. For a loop, the prediction also includes the workspace of the node.

    Returns
    -------
    object
        Results, nested as by the function.

    Raises
    ------
    TypeError
        If the arguments differ from the captured ones in nesting, shape or type, or `plan` is not a plan.
    GraphError
        If the plan is for another graph.
    ScheduleError
        If the plan loads values from the host.

    Examples
    --------
    >>> import jax, jax.numpy as jnp, remat_algos as ra
    >>> from remat_algos.interop.jax import capture
    >>> def loss(w, x):
    ...     return jnp.tanh(jnp.tanh(x @ w) @ w).sum()
    >>> w, x = jnp.ones((8, 8)), jnp.ones((64, 8))
    >>> captured = capture(jax.grad(loss), w, x)
    >>> plan, live = ra.solve(captured.graph, "least"), []
    >>> gradient = run(captured, plan, w, x, live=live)
    >>> bool((gradient == jax.grad(loss)(w, x)).all()), max(live) == plan.peak_memory
    (True, True)
    """
    captured.check_plan(plan)
    check_no_loads(plan.schedule, "run")
    residents = [*captured.flatten(args), *captured.program.consts]
    arrays: dict[int, Any] = {}  # by instance
    pinned: dict[int, Any] = {}  # outputs of first runs, by value
    n_bytes = 0

    def array_of(read: Any) -> Any:
        if not isinstance(read, Source):
            return literal_array(read)
        return residents[read.place] if read.resident else arrays[serving[read.place]]

    for step in plan.simulation.steps():
        equation, serving = captured.program.equations[step.node], dict(step.reads)
        arrays.update(zip(step.makes, equation.run(array_of), strict=True))
        n_bytes += sum(_bytes(arrays[i]) for i in step.makes)
        if live is not None:
            live.append(n_bytes)
        for value, i in zip(equation.values, step.makes, strict=True):
            if captured.graph.output[value]:
                pinned.setdefault(value, arrays[i])
        for i in step.frees:
            n_bytes -= _bytes(arrays.pop(i))
    results = [
        pinned[read.place] if is_value(read) else jax.numpy.asarray(array_of(read)) for read in captured.program.results
    ]
    return jax.tree_util.tree_unflatten(captured.out_tree, results)


def _bytes(array: Any) -> int:
    """Bytes of an array; None stands for an effect."""
    return 0 if array is None else array.nbytes
