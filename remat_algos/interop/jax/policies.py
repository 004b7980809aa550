"""Application of plans in JAX: each value gets a name, and a policy of `jax.checkpoint` lists the names to save."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np

from remat_algos.arguments import checked_arguments
from remat_algos.errors import PlanError
from remat_algos.interop.jax.captured import CapturedFunction, capture
from remat_algos.interop.jax.program import Source, body_of, core, equation_key, evaluate, primitives
from remat_algos.interop.optional import require
from remat_algos.ir.graph import ComputationGraph
from remat_algos.plan.plan import Plan

jax = require("jax", "jax")
ad_checkpoint = require("jax.ad_checkpoint", "jax")
custom_derivatives = require("jax.custom_derivatives", "jax")


@dataclass(slots=True)
class Scan:
    """A `scan` in a function with named values.

    `times` is the total number of iterations: the length of the scan, multiplied by the lengths of all enclosing scans.
    `active` contains the positions of the body's operands that need a gradient. If JAX's flag jax_remat3 is set,
    `active` contains the positions of all operands that can have a gradient.
    """

    eqn: Any
    prefix: str
    times: int
    active: set[int] = field(default_factory=set)

    @property
    def body(self) -> Any:
        """The jaxpr of one iteration; its operands are the constants, the carry, and one row of each scanned array."""
        return self.eqn.params["jaxpr"]


class Naming:
    """Names the values of a function, including those in the bodies of its scans.

    A policy can save only named values. Gradients also read values that JAX's derivative rules compute, such as
    `cos(x)` for `sin(x)`, so this class differentiates equation by equation and names these values too. With the flag
    jax_remat3 they stay unnamed, because `jax.checkpoint` then never saves such values. `kept` maps the index of a scan
    in `scans` to the names of the values that each iteration of the scan saves for its gradient.
    """

    def __init__(self, prefix: str = "", kept: Mapping[int, Sequence[str]] | None = None) -> None:
        self.prefix = prefix
        self.kept = kept or {}
        self.scans: list[Scan] = []
        self.of_derivatives = not jax.config.values.get("jax_remat3", False)

    def function(self, f: Callable[..., Any], args: Sequence[Any]) -> Callable[..., Any]:
        """Trace a function with these arguments; return an equivalent function that names its values."""
        closed, shapes = jax.make_jaxpr(f, return_shape=True)(*args)
        out_tree = jax.tree_util.tree_structure(shapes)
        flat = self.of_jaxpr(closed, self.prefix)

        def named(*args: Any) -> Any:
            return jax.tree_util.tree_unflatten(out_tree, flat(*jax.tree_util.tree_leaves(args)))

        return named

    def iteration(self, scan: Scan) -> Callable[..., list[Any]]:
        """Return the body of a scan as a function that names its values."""
        return self.of_jaxpr(scan.body, scan.prefix, scan)

    def of_jaxpr(self, closed: Any, prefix: str, scan: Scan | None = None) -> Callable[..., list[Any]]:
        """Return a jaxpr as a function that names its values; if it is the body of a scan, `scan` is that scan."""

        def primal(*arguments: Any) -> list[Any]:
            run = _NamedRun(self, prefix, scan)
            return run.derivatives(closed.jaxpr, closed.consts, arguments, [None] * len(arguments))[0]

        def jvp_rule(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
            active = [None if isinstance(each, custom_derivatives.SymbolicZero) else each for each in tangents]
            if scan is not None:
                scan.active.update(i for i, each in enumerate(active) if each is not None)
            results, derivatives = _NamedRun(self, prefix, scan).derivatives(
                closed.jaxpr, closed.consts, primals, active
            )
            return results, [
                custom_derivatives.SymbolicZero(jax.typeof(result).to_tangent_aval()) if each is None else each
                for result, each in zip(results, derivatives, strict=True)
            ]

        if not self.of_derivatives:
            return primal
        named = jax.custom_jvp(primal)
        named.defjvp(jvp_rule, symbolic_zeros=True)
        return named

    def run(self, eqn: Any, operands: Sequence[Any], outer: Scan | None) -> list[Any]:
        """Evaluate an equation. If it is a scan without effects, also name the values of its body."""
        if eqn.primitive is not primitives.scan_p or eqn.effects:
            return evaluate(eqn, operands)
        params, number = eqn.params, self._number(eqn, outer)
        scan = self.scans[number]
        iteration = self.iteration(scan)
        if number in self.kept:
            policy = jax.checkpoint_policies.save_only_these_names(*self.kept[number])
            iteration = jax.checkpoint(iteration, policy=policy, prevent_cse=not is_loop(eqn))
        n_consts, n_carry = params["num_consts"], params["num_carry"]
        consts, init, stacks = (
            list(part) for part in (operands[:n_consts], operands[n_consts:][:n_carry], operands[n_consts + n_carry :])
        )

        def step(carry: list[Any], rows: list[Any]) -> tuple[list[Any], list[Any]]:
            named = [ad_checkpoint.checkpoint_name(x, f"{scan.prefix}carry.{i}") for i, x in enumerate(carry)]
            results = iteration(*consts, *named, *rows)
            return results[:n_carry], results[n_carry:]

        options = {name: params[name] for name in ("length", "reverse", "unroll")}
        carry, stacked = jax.lax.scan(step, init, stacks, **options)
        return [*carry, *stacked]

    def _number(self, eqn: Any, outer: Scan | None) -> int:
        for number, scan in enumerate(self.scans):
            if scan.eqn is eqn:
                return number
        times = eqn.params["length"] * (1 if outer is None else outer.times)
        scan = Scan(eqn, f"{self.prefix}scan.{len(self.scans)}/", times)
        if not self.of_derivatives:
            scan.active.update(i for i, aval in enumerate(scan.body.in_avals) if not is_discrete(aval))
        self.scans.append(scan)
        return len(self.scans) - 1


class _NamedRun:
    def __init__(self, naming: Naming, prefix: str, scan: Scan | None) -> None:
        self.naming = naming
        self.prefix = prefix
        self.scan = scan
        self.numbers = count()
        # Entries store the operands too: the keys contain ids of operands, and a freed operand's id could be reused.
        self.cache: dict[Any, tuple[Any, list[Any]]] = {}

    def derivatives(
        self, jaxpr: Any, consts: Sequence[Any], arguments: Sequence[Any], tangents: Sequence[Any]
    ) -> tuple[list[Any], list[Any]]:
        arrays = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *arguments], strict=True))
        active = {atom: tangent for atom, tangent in zip(jaxpr.invars, tangents, strict=True) if tangent is not None}
        for eqn in jaxpr.eqns:
            operands, directions = _read(eqn.invars, arrays), _tangents(eqn.invars, active)
            if eqn.primitive is primitives.jit_p:
                results, derivatives = self.derivatives(*body_of(eqn), operands, directions)
            elif all(each is None for each in directions):
                results, derivatives = self.constant(eqn, operands), [None] * len(eqn.outvars)
            else:
                results, derivatives = self.derivative(eqn, operands, directions)
            arrays.update(zip(eqn.outvars, results, strict=True))
            pairs = zip(eqn.outvars, derivatives, strict=True)
            active.update((atom, tangent) for atom, tangent in pairs if tangent is not None)
        return _read(jaxpr.outvars, arrays), _tangents(jaxpr.outvars, active)

    def derivative(self, eqn: Any, operands: Sequence[Any], directions: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Evaluate an equation and its derivative by JAX's rule; name the values that do not depend on a tangent."""
        places = [i for i, each in enumerate(directions) if each is not None]

        def jvp_rule(operands: list[Any], directions: list[Any]) -> Any:
            def part(*active: Any) -> list[Any]:
                return self.naming.run(eqn, replaced(operands, places, active), self.scan)

            results, tangents = jax.jvp(part, [operands[i] for i in places], directions)
            return results, [each for each in tangents if each.dtype != jax.dtypes.float0]

        inputs = [*operands], [directions[i] for i in places]
        closed = jax.make_jaxpr(jvp_rule)(*inputs)
        linear = set(closed.jaxpr.invars[len(operands) :])
        arrays = self.constants(closed.jaxpr, closed.consts, [*inputs[0], *inputs[1]], linear)
        pairs = list(zip(arrays, (_is_in(atom, linear) for atom in closed.jaxpr.outvars), strict=True))
        n_results = len(eqn.outvars)
        # An equation of a loop or a call computes results and tangents together. The method `constants` treats both as
        # dependent on tangents and names neither. Therefore the results are named here.
        results = [self.name(eqn, array) if is_linear else array for array, is_linear in pairs[:n_results]]
        tangents = iter(array if is_linear else None for array, is_linear in pairs[n_results:])
        return results, [None if is_discrete(variable.aval) else next(tangents) for variable in eqn.outvars]

    def constants(self, jaxpr: Any, consts: Sequence[Any], arguments: Sequence[Any], linear: set[Any]) -> list[Any]:
        """Evaluate a jaxpr. Add each variable that depends on `linear` to that set, and name all other values."""
        arrays = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *arguments], strict=True))
        for eqn in jaxpr.eqns:
            operands = _read(eqn.invars, arrays)
            is_linear = [_is_in(atom, linear) for atom in eqn.invars]
            if eqn.primitive is primitives.jit_p:
                body, own = body_of(eqn)
                inner = {variable for variable, each in zip(body.invars, is_linear, strict=True) if each}
                results = self.constants(body, own, operands, inner)
                pairs = zip(eqn.outvars, body.outvars, strict=True)
                linear.update(variable for variable, atom in pairs if _is_in(atom, inner))
            elif any(is_linear):
                results = evaluate(eqn, operands)
                linear.update(eqn.outvars)
            else:
                results = self.constant(eqn, operands)
            arrays.update(zip(eqn.outvars, results, strict=True))
        return _read(jaxpr.outvars, arrays)

    def constant(self, eqn: Any, operands: Sequence[Any]) -> list[Any]:
        pairs = zip(eqn.invars, operands, strict=True)
        key = equation_key(eqn, [atom if isinstance(atom, core.Literal) else id(array) for atom, array in pairs])
        if key in self.cache:
            return self.cache[key][1]
        results = [self.name(eqn, result) for result in self.naming.run(eqn, operands, self.scan)]
        if key is not None:
            self.cache[key] = operands, results
        return results

    def name(self, eqn: Any, result: Any) -> Any:
        return ad_checkpoint.checkpoint_name(result, f"{self.prefix}{eqn.primitive.name}.{next(self.numbers)}")


def is_loop(eqn: Any) -> bool:
    """Return True if XLA compiles a scan to a loop; XLA then cannot merge a recomputation with the forward part."""
    return eqn.params["length"] > eqn.params["unroll"]


def replaced(operands: Sequence[Any], places: Sequence[int], arrays: Sequence[Any]) -> list[Any]:
    """Return the operands with `arrays` at `places`."""
    return list((dict(enumerate(operands)) | dict(zip(places, arrays, strict=True))).values())


def is_discrete(aval: Any) -> bool:
    return aval.to_tangent_aval().dtype == jax.dtypes.float0


def _read(atoms: Sequence[Any], arrays: Mapping[Any, Any]) -> list[Any]:
    return [atom.val if isinstance(atom, core.Literal) else arrays[atom] for atom in atoms]


def _tangents(atoms: Sequence[Any], active: Mapping[Any, Any]) -> list[Any]:
    return [None if isinstance(atom, core.Literal) else active.get(atom) for atom in atoms]


def _is_in(atom: Any, variables: set[Any]) -> bool:
    return not isinstance(atom, core.Literal) and atom in variables


@checked_arguments
def names(captured: CapturedFunction, plan: Plan, *, offloaded: bool = False) -> list[str]:
    """Return the names, set by `checkpoint_name`, of the values that a plan keeps for the backward part.

    Pass them to `jax.checkpoint_policies.save_only_these_names`. If the plan also copies values to the host, pass the
    kept and the offloaded names to `save_and_offload_only_these_names`.

    Parameters
    ----------
    captured : CapturedFunction
        Captured function whose values have names.
    plan : Plan
        Plan for `captured.graph`.
    offloaded : bool
        If true, return the names of the values that the plan copies to the host.

    Returns
    -------
    list of str

    Raises
    ------
    TypeError
        If `plan` is not a Plan.
    GraphError
        If the plan is for another graph.
    PlanError
        If `offloaded` is true, and the plan offloads a value of the backward part or loads a value during the forward
        part. A policy cannot express such a plan.

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
    is_load = plan.simulation.is_load
    return [value for value, instance in plan.saved if not is_load[instance]]


def _offloaded(plan: Plan) -> list[int]:
    """Return the offloaded values; raise PlanError if one is a backward value or is loaded in the forward part."""
    graph, is_load, kept = plan.graph, plan.simulation.is_load, set(_kept(plan))
    begin = int((~graph.forward[plan.schedule.order]).argmax())  # first backward step
    for at, step in enumerate(plan.simulation.steps() if plan.schedule.loads.size else ()):
        for value, instance in step.reads:
            if not is_load[instance]:
                continue
            if at < begin or value in kept or not graph.forward[graph.producer[value]]:
                raise PlanError(
                    "the plan loads {name} for {reader}: a policy of jax.checkpoint can only send a value of the "
                    "forward part to the host until the backward part reads it; solve without a link",
                    name=graph.value_name(value),
                    reader=graph.labels[step.node],
                )
    return plan.simulation.stores.tolist()


@checked_arguments
def apply(
    f: Callable[..., Any],
    plan: Plan,
    *args: Any,
    transform: Callable[[Callable[..., Any]], Callable[..., Any]] | None = None,
) -> Callable[..., Any]:
    """Return a function whose gradient keeps, offloads and recomputes values as a plan does.

    Every value of `f` gets a name, and `jax.checkpoint` gets the policy `save_only_these_names`. If the plan copies
    values to the host, the policy is `save_and_offload_only_these_names` with pinned host memory. XLA chooses the order
    of execution, so the real peak can exceed that of the plan.

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
        Function to call instead of `f`; its arguments must have the shapes and types of `args`.

    Raises
    ------
    TypeError
        If `plan` is not a Plan.
    GraphError
        If the plan is for another graph.
    PlanError
        If a policy cannot express the copies of the plan (see `names`).

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
    if not _same_equations(captured.graph, plan.graph):
        captured.check_plan(plan)
    kept = _names_of(captured, plan, _kept(plan))
    offloaded = _names_of(captured, plan, _offloaded(plan))
    policies = jax.checkpoint_policies
    if offloaded:
        places = {"offload_src": "device", "offload_dst": "pinned_host"}
        both = {"names_which_can_be_saved": kept, "names_which_can_be_offloaded": offloaded}
        return jax.checkpoint(named, policy=policies.save_and_offload_only_these_names(**both, **places))
    return jax.checkpoint(named, policy=policies.save_only_these_names(*kept))


def _same_equations(graph: ComputationGraph, other: ComputationGraph) -> bool:
    """Return True if both graphs have the same equations, even if naming has reordered the arrays of a loop."""
    pairs = [(each.value_indptr, each.read_indptr, each.node_memory) for each in (graph, other)]
    return graph.labels.ops == other.labels.ops and all(map(np.array_equal, *pairs))


def _names_of(captured: CapturedFunction, plan: Plan, values: list[int]) -> list[str]:
    nodes = np.searchsorted(plan.graph.value_indptr, values, "right") - 1
    result: list[str] = []
    for value, node in zip(values, nodes.tolist(), strict=True):
        equation = captured.program.equations[node]
        for each in equation.values if equation.bodies else (value,):
            result += captured.program.names.get(Source(False, each), ())
    return list(dict.fromkeys(result))
