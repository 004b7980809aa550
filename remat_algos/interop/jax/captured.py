"""Capture of JAX functions as graphs, and runs of plans one equation at a time."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from remat_algos.arguments import checked_arguments
from remat_algos.cost.devices import DTYPES
from remat_algos.cost.node_costs import AnyDevice, Cost, operator_costs
from remat_algos.errors import ArgumentTypeError, GraphError, warn
from remat_algos.formats.graph_files import write_graph
from remat_algos.interop.jax.program import (
    Equation,
    FlatJaxpr,
    Source,
    array_bytes,
    cost_of_bodies,
    is_value,
    literal_array,
)
from remat_algos.interop.optional import require
from remat_algos.ir.arrays import from_lists, indptr_of
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.parts import INPUT, Labels, Resident
from remat_algos.plan.plan import Plan
from remat_algos.result import UNIT, Result
from remat_algos.schedule.emission import baseline_peak
from remat_algos.schedule.schedule import check_no_loads
from remat_algos.wording import counted, exact_bytes, format_bytes, one_line

jax = require("jax", "jax")


@dataclass(frozen=True, slots=True, eq=False)
class CapturedFunction(Result):
    """A JAX function as a graph: node i is equation i of the program.

    `arguments` contains the shape and type of each array in the arguments. These arrays are the first residents of the
    graph; residents are in memory during the whole run. `in_tree` and `out_tree` are the tree structures of arguments
    and results.
    """

    graph: ComputationGraph
    program: FlatJaxpr
    arguments: tuple[Any, ...]
    in_tree: Any
    out_tree: Any

    ENTRIES = f"graph_hash=graph.source_hash nodes=graph.n_nodes values=graph.n_values graph.resident_memory {UNIT}"

    def __repr__(self) -> str:
        names = counted(len(self.program.names), "named value") if self.program.names else ""
        return one_line(self, counted(self.graph.n_nodes, "equation"), counted(len(self.arguments), "argument"), names)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the graph to a file that `remat` commands read; the extension of the file name selects the format."""
        write_graph(self.graph, path)

    def rows(self) -> list[tuple[str, str]]:
        graph = self.graph
        forward = int(graph.forward.sum())
        parts = f": {forward:,} forward, {graph.n_nodes - forward:,} backward" if graph.is_training else ""
        most = ", ".join(f"{times:,} {op}" for op, times in Counter(graph.labels.ops).most_common(4))
        return [
            ("equations", f"{graph.n_nodes:,}{parts}"),
            ("", f"the most frequent: {most}"),
            ("values", f"{graph.n_values:,}, {format_bytes(int(graph.memory.sum()))}"),
            ("residents", f"{len(graph.resident_names):,}, {format_bytes(graph.resident_memory)}"),
            ("peak", f"{exact_bytes(baseline_peak(graph))} without rematerialization"),
            ("compute", graph.labels.compute(graph.needed_compute)),
        ]

    def flatten(self, args: tuple[Any, ...]) -> list[Any]:
        """Return the arrays in the arguments; raise TypeError if nesting, shapes or types differ from the capture."""
        arrays, tree = jax.tree_util.tree_flatten(args)
        if tree != self.in_tree:
            raise ArgumentTypeError(
                "the arguments are nested as {tree!w}, but were captured as {in_tree!w}; capture again for these",
                tree=tree,
                in_tree=self.in_tree,
            )
        for name, array, expected in zip(self.graph.resident_names, arrays, self.arguments, strict=False):
            aval = jax.typeof(array)
            if (aval.shape, aval.dtype) != (expected.shape, expected.dtype):
                raise ArgumentTypeError(
                    "{name} is {found!w}, but was captured as {captured!w}; capture again for these arguments",
                    name=name,
                    found=_typed(aval),
                    captured=_typed(expected),
                )
        return arrays

    def check_plan(self, plan: Plan) -> None:
        """Raise GraphError if a plan is for another graph."""
        graph = plan.graph
        if graph is not self.graph and graph.hash != self.graph.hash:
            raise GraphError(
                "the plan is for another graph: it has {n_nodes:node}, this one has {captured:,}; solve the graph that "
                "was captured from this function",
                n_nodes=graph.n_nodes,
                captured=self.graph.n_nodes,
            )


MAPPED = ("shard_map", "xla_pmap")
"""Operations that map a function over several devices; each is one node, because a plan is for one device."""


@checked_arguments
def capture(
    f: Callable[..., Any], *args: Any, cost: Cost = "roofline", device: AnyDevice | None = None
) -> CapturedFunction:
    """Trace a function with these arguments and return its graph; nothing is computed.

    To plan a training step, capture the function that computes gradients, such as `jax.value_and_grad(loss)`. The
    backward part consists of all equations that JAX's transposition creates, and all equations that depend on them.

    - Calls (`jax.jit`, `jax.custom_jvp`, `jax.custom_vjp`, `jax.checkpoint`) are inlined; `scan`, `while` and `cond`
      are one node each, with the cost of their bodies and the memory of one iteration as workspace.
    - A function that `jax.shard_map` or `jax.pmap` maps over devices is one node; a warning names it.
    - Equal equations become one node; equations on which no result depends are dropped.
    - Arguments and constants are residents of role "input".
    - An equation with an effect, such as `jax.debug.print`, runs once; effects keep their order.
    - Each backward node has an owner, which is a forward node. If the backward node reads a forward value, its owner is
      the last forward node that reads the same value. If no forward node reads the value, the owner is the node that
      computes it.

    Parameters
    ----------
    f : callable
        Function that `jax.make_jaxpr` can trace.
    *args
        Nested arrays or `jax.ShapeDtypeStruct`.
    cost : {"roofline", "occupancy", "flops"} or callable, optional
        Cost of an equation. "roofline": its time on the device. "occupancy": the same, but the tiles of a matrix
        product or convolution are rounded up to whole waves. "flops": the FLOPs of matrix products and convolutions.
        A callable returns ns from (FLOPs, bytes moved).
    device : Device, str or path, optional
        Device that sets the costs: a name from `ra.list_devices()` or a device file; by default "A100 80GB". If the
        plan will copy values to the host, pass the device on which the plan will run.

    Returns
    -------
    CapturedFunction

    Raises
    ------
    GraphError
        If the function computes nothing, or `cost` is unknown.
    TypeError
        If `f` cannot be called, or an argument is not an array.

    Examples
    --------
    >>> import jax, jax.numpy as jnp
    >>> def loss(w, x):
    ...     return jnp.tanh(x @ w).sum()
    >>> captured = capture(jax.value_and_grad(loss), jnp.ones((8, 2)), jnp.ones((4, 8)))
    >>> captured.graph.node_names()[:3], captured.graph.resident_names
    (['dot_general.0', 'tanh.0', 'sub.0'], ('args[0]', 'args[1]'))
    >>> captured.graph.is_training
    True
    """
    closed, shapes = jax.make_jaxpr(f, return_shape=True)(*args)
    program = FlatJaxpr(closed)
    if not program.equations:
        raise GraphError("the function computes nothing: its results are arguments or constants; capture another one")
    paths, in_tree = jax.tree_util.tree_flatten_with_path(args)
    graph = _graph(program, [f"args{jax.tree_util.keystr(path)}" for path, _ in paths], cost, device)
    names = graph.node_names()
    mapped = [name for name, each in zip(names, program.equations, strict=True) if each.eqn.primitive.name in MAPPED]
    if mapped:
        warn(
            "{mapped!l}: each function that shard_map or pmap maps over devices is a single node; its operations are "
            "neither planned nor counted in the peak; capture the mapped function itself, with the arguments of one "
            "device",
            mapped=mapped,
        )
    arguments = tuple(jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in closed.in_avals)
    return CapturedFunction(graph, program, arguments, in_tree, jax.tree_util.tree_structure(shapes))


@checked_arguments
def run(captured: CapturedFunction, plan: Plan, *args: Any, live: list[int] | None = None) -> Any:
    """Return the results of a captured function, computed in the order of a plan.

    Equations run one at a time, as in JAX outside of `jax.jit`, and each value is released when the plan frees it.

    Parameters
    ----------
    captured : CapturedFunction
    plan : Plan
        Plan for `captured.graph`.
    *args
        Arguments with the captured shapes and types.
    live : list of int, optional
        Receives the live bytes of each step: the sizes of all computed arrays that are not released yet. The plan's own
        figures can be larger, because they include the workspace of loops.

    Returns
    -------
    object
        Results, nested like those of the function.

    Raises
    ------
    TypeError
        If the arguments differ from the captured ones in nesting, shape or type, or `plan` is not a Plan.
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
    # The keys of `arrays` are instances: values as computed by one run of their node. The keys of `pinned` are values.
    arrays: dict[int, Any] = {}
    pinned: dict[int, Any] = {}
    n_bytes = 0

    def array_of(read: Any) -> Any:
        if not isinstance(read, Source):
            return literal_array(read)
        return residents[read.place] if read.resident else arrays[serving[read.place]]

    for step in plan.simulation.steps():
        equation, serving = captured.program.equations[step.node], dict(step.reads)
        arrays.update(zip(step.makes, equation.run(array_of), strict=True))
        n_bytes += sum(_live_bytes(arrays[i]) for i in step.makes)
        if live is not None:
            live.append(n_bytes)
        for value, i in zip(equation.values, step.makes, strict=True):
            if captured.graph.output[value]:
                pinned.setdefault(value, arrays[i])
        for i in step.frees:
            n_bytes -= _live_bytes(arrays.pop(i))
    results = [
        pinned[read.place] if is_value(read) else jax.numpy.asarray(array_of(read)) for read in captured.program.results
    ]
    return jax.tree_util.tree_unflatten(captured.out_tree, results)


def _live_bytes(array: Any) -> int:
    """Return the bytes of an array, or 0 for None, which represents an effect."""
    return 0 if array is None else array.nbytes


def _typed(array: Any) -> str:
    return f"{array.dtype}[{', '.join(map(str, array.shape))}]"


def _graph(program: FlatJaxpr, argument_names: Sequence[str], cost: Cost, device: AnyDevice | None) -> ComputationGraph:
    """Build the graph of a program. The cost of a loop is that of its bodies; its workspace is their largest peak."""
    equations = program.equations
    residents = [array_bytes(aval) for aval in (*program.arguments, *map(jax.typeof, program.consts))]
    resident_names = (*argument_names, *(f"constant.{i}" for i in range(len(program.consts))))
    memory = [size for equation in equations for size in equation.memory]
    reads, resident_reads = [each.value_reads for each in equations], [each.resident_reads for each in equations]
    read_indptr, read_indices = from_lists(reads)
    resident_indptr, resident_indices = from_lists(resident_reads)
    moved = [
        sum(each.memory) + sum(memory[x] for x in values) + sum(residents[r] for r in others)
        for each, values, others in zip(equations, reads, resident_reads, strict=True)
    ]
    flops, products = [each.flops for each in equations], [each.product_size for each in equations]
    dtypes = [each.dtype if each.dtype in DTYPES else "" for each in equations]
    costs, unit = operator_costs(cost, flops, moved, products, device=device, dtypes=dtypes)
    compute, workspace = costs.copy(), np.zeros_like(costs)
    for i, equation in enumerate(equations):
        programs = [body for body in equation.bodies if body.equations]
        bodies = [_graph(body, _numbered(["input"] * len(body.arguments)), cost, device) for body in programs]
        if bodies:
            compute[i] = cost_of_bodies(equation.eqn, [body.needed_compute for body in bodies])
            workspace[i] = max(map(baseline_peak, bodies))
    sizes, output = np.array(residents, np.int64), np.zeros(len(memory), bool)
    output[list(program.outputs())] = True
    ops = [each.eqn.primitive.name for each in equations]
    return ComputationGraph.from_arrays(
        value_indptr=indptr_of([len(each.values) for each in equations]),
        read_indptr=read_indptr,
        read_indices=read_indices,
        memory=memory,
        compute=compute,
        workspace=workspace,
        once=[bool(each.eqn.effects) for each in equations],
        output=output,
        forward_of=_owners(equations),
        resident=Resident(
            sizes, np.full(sizes.size, INPUT, np.int8), resident_indptr, resident_indices, resident_names
        ),
        labels=Labels(names=_numbered(ops), ops=tuple(ops), compute_unit=unit),
    )


def _numbered(ops: Sequence[str]) -> tuple[str, ...]:
    """Append to each name the number of equal names before it: mul.0, add.0, mul.1."""
    seen: Counter[str] = Counter()
    names = []
    for op in ops:
        names.append(f"{op}.{seen[op]}")
        seen[op] += 1
    return tuple(names)


def _owners(equations: Sequence[Equation]) -> list[int]:
    """Return the owner of each backward equation; each owner is a forward equation. Forward equations have -1.

    If a backward equation reads a forward value, its owner is the last forward equation that reads the same value, or
    the equation that computes the value. The backward part visits the owners in reverse order, and computes gradients
    before it reads them. So if an equation reads gradients, its owner must not come after `bound`, the first of the
    owners of the equations that compute these gradients.
    """
    producer = {value: i for i, equation in enumerate(equations) for value in equation.values}
    last_reader: dict[int, list[int]] = {}
    for i, equation in enumerate(equations):
        for value in () if equation.backward else equation.value_reads:
            last_reader.setdefault(value, []).append(i)
    latest = max((i for i, equation in enumerate(equations) if not equation.backward), default=-1)
    owners = [-1] * len(equations)
    for i, equation in enumerate(equations):
        if not equation.backward:
            continue
        producers = [(value, producer[value]) for value in equation.value_reads]
        bound = min((owners[source] for _, source in producers if equations[source].backward), default=latest)
        near = [
            max((reader for reader in last_reader.get(value, ()) if reader <= bound), default=source)
            for value, source in producers
            if not equations[source].backward
        ]
        owners[i] = min(bound, max(near, default=bound))
        latest = owners[i]
    return owners
