"""Capture of models: conversion of PyTorch's joint graph of forward and backward to a computation graph."""

import contextlib
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from os import PathLike
from typing import Any

import numpy as np
import torch
from torch import fx, nn

from remat_algos.arguments import checked_arguments
from remat_algos.cost.node_costs import AnyDevice
from remat_algos.errors import ArgumentError, GraphError
from remat_algos.formats.graph_files import write_graph
from remat_algos.interop.torch.calls import DRAW, STATE, add_states, is_draw
from remat_algos.interop.torch.costs import Call, price
from remat_algos.interop.torch.eager_capture import COLLECTIVES, FORWARD, NO_OWNER, no_gradient
from remat_algos.interop.torch.private_names import (
    OUTSIDE,
    RECOMPUTE,
    SYMBOLS,
    Buffer,
    DataDependent,
    InputMutation,
    NoGradient,
    Parameter,
    checkpoint_region,
    constant_size,
    export_joint,
    module_of,
    n_forward,
    origin,
    recurrent_layers,
    runs_modules,
)
from remat_algos.interop.torch.stable_names import Operator, schema_of, storage_key, writes_into_arguments
from remat_algos.interop.torch.storages import STORAGES, real_storages, storages, tensors
from remat_algos.ir.arrays import Int64, from_lists, indptr_of
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.parts import ROLES, Labels, Resident
from remat_algos.result import UNIT, Result
from remat_algos.wording import counted, format_bytes

BY_NAME = "torch.compile(model, backend='remat', options={'budget': ...}, dynamic=False)"
RNG = ("replay", "once")  # options for random operators
BOUNDARY = "boundary"
PROFILER = "profiler"  # namespace of profiler marks

Price = Callable[[list[Call | None]], tuple[Int64, Int64, str]]
"""Function from calls to their compute, their workspace, and the unit of compute; None instead of a call costs 0."""


@dataclass(frozen=True, slots=True, eq=False)
class Captured(Result):
    """A joint graph from `tidy`, and its computation graph.

    graph : parameters, buffers and inputs are residents; the boundary node represents the computation of the gradients
        of the model's outputs
    module : the joint graph; None in an unpickled copy, which can be planned but not lowered
    operators : operator of each node of `graph`; None for the boundary node, which has no operator
    tensors : for each value of `graph`, the FX nodes whose results it stores
    bases : for each FX node, including views, the values of `graph` that store its result; residents are omitted
    num_forward : number of outputs of the forward part
    """

    graph: ComputationGraph
    module: fx.GraphModule | None
    operators: tuple[fx.Node | None, ...]
    tensors: tuple[tuple[fx.Node, ...], ...]
    bases: Mapping[fx.Node, tuple[int, ...]]
    num_forward: int

    ENTRIES = f"graph_hash=graph.source_hash nodes=graph.n_nodes values=graph.n_values graph.resident_memory {UNIT}"

    def __repr__(self) -> str:
        return f"Captured({self.graph!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.graph, None, (), (), {}, self.num_forward)  # FX modules cannot be pickled

    def __deepcopy__(self, memo: object) -> "Captured":
        return self

    @property
    def boundary(self) -> int:
        """Id of the boundary node, which separates forward and backward."""
        return self.operators.index(None)

    @property
    def outputs(self) -> list[Any]:
        """Results of the joint graph, as FX nodes or numbers: forward outputs, then gradients or None."""
        assert self.module is not None
        return list(self.module.graph.output_node().args[0])

    def save(self, path: str | PathLike[str]) -> None:
        """Write the graph to a file; its extension, `.json` or `.npz`, selects the format."""
        write_graph(self.graph, path)

    def rows(self) -> list[tuple[str, str]]:
        graph = self.graph
        sizes = f"{counted(graph.n_values, 'value')}, {format_bytes(int(graph.memory.sum()))}"
        draws = sum(each is not None and is_draw(each) for each in self.operators)
        return [
            ("graph", f"{counted(graph.n_nodes, 'node')}, {int((~graph.forward).sum()):,} of them backward; {sizes}"),
            ("views", f"{len(graph.labels.views):,}; random draws: {draws:,}"),
            ("resident", f"{format_bytes(graph.resident_memory)} of parameters, buffers and inputs"),
        ]


@checked_arguments
def capture(
    model: nn.Module,
    inputs: Sequence[Any],
    *,
    keywords: Mapping[str, Any] | None = None,
    rng: str = "replay",
    cost: Any = "roofline",
    device: AnyDevice | None = None,
    workspace: bool = False,
) -> Captured:
    """Return the computation graph of a model, forward and backward, without running it.

    Parameters
    ----------
    model : torch.nn.Module
    inputs : sequence
        Positional arguments of the model; tensors on the device "meta" are allowed.
    keywords : mapping, optional
        Arguments of the model by name.
    rng, cost, device, workspace
        As for `backend`. With `workspace` or the cost "profile", operators are run to measure them.

    Returns
    -------
    Captured
        Its attribute `graph` is the computation graph; its method `save` writes this graph to a file.

    Examples
    --------
    >>> import torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())
    >>> graph = capture(model, (torch.ones(2, 8),)).graph
    >>> graph.node_names()
    ['0.addmm', '1.relu', 'boundary', '1.threshold_backward', '0.mm', '0.sum_1']
    """
    check_choice("rng", rng, RNG)
    with contextlib.ExitStack() as stack:
        module = export(stack, model, inputs, keywords or {}).graph_module
        costs = partial(price, cost=cost, workspace=workspace, device=device)
        return read_joint_graph(
            tidy(module, rng == "replay"), n_forward(module.graph.output_node().meta["desc"]), costs
        )


def check_choice(name: str, option: str, choices: tuple[str, str]) -> None:
    """Raise ValueError if an option is not one of two choices."""
    if option not in choices:
        first, second = choices
        raise ArgumentError(
            "{name} is {option!r}; give {first!r} or {second!r}", name=name, option=option, first=first, second=second
        )


def export(stack: contextlib.ExitStack, model: nn.Module, inputs: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
    """Return AOTAutograd's export of a model, which contains the joint graph."""
    try:
        with recurrent_layers():
            joint = export_joint(stack, model, tuple(inputs), dict(keywords))
    except NoGradient as error:
        raise no_gradient(*error.args) from None
    except DataDependent as error:
        raise GraphError(
            "the model's Python code depends on data, so the model is not a single graph; use {by_name!w}",
            by_name=BY_NAME,
        ) from error
    except AssertionError as error:
        if "functional graph" not in str(error):
            raise
        raise GraphError(
            "the model writes into a tensor that is neither input, parameter nor buffer; register it as a buffer"
        ) from error
    for node in joint.graph_module.graph.find_nodes(op="get_attr"):
        constant = getattr(joint.graph_module, node.target)
        if isinstance(constant, torch.Tensor) and constant.requires_grad:
            raise GraphError(
                "the model reads a tensor of shape {shape!w} that requires a gradient and is neither parameter "
                "nor input; make it an nn.Parameter, or give it as an input",
                shape=tuple(constant.shape),
            )
    return joint


ONCE = "once"


def tidy(module: fx.GraphModule, replay: bool) -> fx.GraphModule:
    """Copy a joint graph for planning, without repeated, unused or profiling operators.

    If the runtime writes into an input, operators read a clone of it, because a recomputation would read changed
    values. With `replay`, the generator's state is read before each draw. Raise GraphError if the graph contains an
    operator for which no plan can be made.
    """
    for node in module.graph.nodes:
        _check(node)
    output = module.graph.output_node()
    returned = {storage_key(t) for node in output.all_input_nodes for t in tensors(node.meta.get("val"))}
    graph = fx.Graph()
    copies: dict[fx.Node, Any] = {}  # entry: copy or fixed size
    first_of: dict[Any, fx.Node] = {}
    # Key: storage of the result of a repeated computation; entry: storage of the first result.
    twins: dict[int, int] = {}
    # Visit inputs first: effect tokens of the backward part are placeholders in the middle of the graph.
    for node in sorted(module.graph.nodes, key=lambda node: node.op != "placeholder"):
        if getattr(node.target, "namespace", "") == PROFILER:
            continue
        size = constant_size(node.meta.get("val"))
        if size is not None and node.op != "placeholder":
            copies[node] = size
            continue
        copies[node] = copy = graph.node_copy(node, copies.__getitem__)
        if node.op != "output":
            copy.meta |= {"val": node.meta.get("val"), "desc": origin(node.meta.get("desc"))}
        if size is not None:
            copies[node], copy.meta[STORAGES] = size, []
            continue
        stored = real_storages(node)
        # Two equal outputs must stay separate tensors.
        call = _equal_calls(copy) if returned.isdisjoint(key for key, _ in stored) else None
        first = copy if call is None else first_of.setdefault(call, copy)
        if first is not copy:
            graph.erase_node(copy)
            copies[node] = first
            if checkpoint_region(node.meta)[0] not in ((), checkpoint_region(first.meta)[0]):
                # The merged operator is in two checkpoint regions, so neither may recompute it.
                first.meta[RECOMPUTE] = None
            twins |= {own: other for (own, _), (other, _) in zip(stored, first.meta[STORAGES], strict=True)}
        else:
            copy.meta[STORAGES] = [(twins.get(key, key), size) for key, size in stored]
    _clone_mutated(graph)
    _locate_views(graph)
    graph.eliminate_dead_code(lambda node: node.is_impure() or _is_effect(node))
    if replay:
        add_states(graph)
    return fx.GraphModule(module, graph)


def _check(node: fx.Node) -> None:
    if runs_modules(node):
        raise GraphError(
            "{name} runs modules of its own, like torch.cond; a plan needs plain operators: leave it out of the "
            "compiled model",
            name=node.name,
        )
    result = node.meta.get("val")
    sizes = [result] if isinstance(result, SYMBOLS) else [size for t in tensors(result) for size in t.shape]
    if any(isinstance(size, SYMBOLS) and constant_size(size) is None for size in sizes):
        raise GraphError("{name} has a dynamic shape; a plan needs fixed shapes: use dynamic=False", name=node.name)
    if any(t.layout is not torch.strided for t in tensors(result)):
        raise GraphError(
            "{name} is a sparse tensor; a plan needs dense ones: remove sparse=True from the layer", name=node.name
        )
    if node.op == "call_function" and writes_into_arguments(node.target):
        raise GraphError(
            "{name} ({target}) writes into its arguments; use the operator that returns a new tensor",
            name=node.name,
            target=node.target,
        )


def _equal_calls(node: fx.Node) -> Any:
    """Return a key that equal calls share, or None if a call must not be merged with another."""
    if node.op == "get_attr":
        return node.op, node.target
    plain = isinstance(node.target, Operator) or node.target is operator.getitem
    if node.op != "call_function" or not plain or is_draw(node) or _is_effect(node):
        return None
    key = (node.target, _hashable(node.args), _hashable(node.kwargs))
    try:
        hash(key)
    except TypeError:
        return None
    return key


def _is_effect(node: fx.Node) -> bool:
    """Return True for a collective or a call without results; these must run once and in the model's order."""
    if node.op != "call_function" or node.target is operator.getitem:
        return False
    return node.meta.get("val") is None or getattr(node.target, "namespace", "") in COLLECTIVES


def _hashable(argument: Any) -> Any:
    """Return an argument with its type or repr, so that 1, 1.0 and True differ, and so do 0.0 and -0.0."""
    if isinstance(argument, fx.Node):
        return argument
    if isinstance(argument, tuple | list):
        return tuple(map(_hashable, argument))
    if isinstance(argument, Mapping):
        return tuple((name, _hashable(each)) for name, each in argument.items())
    return type(argument), repr(argument) if isinstance(argument, float | complex | slice) else argument


def _clone_mutated(graph: fx.Graph) -> None:
    """Let operators read a clone of each input that the runtime writes into; sort the clones by their first readers."""
    output = graph.output_node()
    readers = {node: place for place, node in enumerate(graph.nodes)}

    def first_read(node: fx.Node) -> tuple[int, int]:
        reader = min(node.users, key=readers.__getitem__)
        return readers[reader], reader.all_input_nodes.index(node)

    results = map(origin, output.meta["desc"])
    mutated = [origin(each.mutated_input) for each in results if isinstance(each, InputMutation)]
    inputs = graph.find_nodes(op="placeholder")
    read = [node for node in inputs if node.users and node.meta.get("desc") in mutated]
    place = inputs[-1]
    for node in sorted(read, key=first_read):
        with graph.inserting_after(place):
            place = graph.call_function(torch.ops.aten.clone.default, (node,))
        node.replace_all_uses_with(place, delete_user_cb=lambda user, clone=place: user is not clone)
        clone = node.meta["val"].clone()
        place.meta |= {"val": clone, ONCE: True}
        place.meta[STORAGES] = storages(clone)


def _locate_views(graph: fx.Graph) -> None:
    """Give each view the storage of its base, because the fake tensor of a view of a clone has a different storage."""
    for node in graph.nodes:
        base = _view_base(node)
        if (
            base is not None
            and base.meta[STORAGES]
            and dict(node.meta[STORAGES]).keys().isdisjoint(dict(base.meta[STORAGES]))
        ):
            node.meta[STORAGES] = base.meta[STORAGES][:1] * len(node.meta[STORAGES])


def _view_base(node: fx.Node) -> fx.Node | None:
    """Return the tuple that a call indexes, or the argument that a call returns a view of; None for any other call."""
    if node.target is operator.getitem:
        return node.args[0]
    schema = schema_of(node.target)
    if schema is None or len(schema.returns) != 1 or schema.returns[0].alias_info is None:
        return None
    arguments = zip(schema.arguments, node.args, strict=False)
    return next((each for argument, each in arguments if argument.alias_info and isinstance(each, fx.Node)), None)


def read_joint_graph(module: fx.GraphModule, num_forward: int, price: Price) -> Captured:
    """Convert a joint graph from `tidy`, whose first `num_forward` outputs are those of the forward part."""
    rows = _JointRows(module.graph, num_forward)
    for node in module.graph.nodes:
        if node.op in ("placeholder", "get_attr"):
            rows.read_input(node)
        elif node.op == "call_function":
            rows.read_call(node)
    return Captured(
        graph=rows.graph(price),
        module=module,
        operators=tuple(row.operator for row in rows.rows),
        tensors=tuple(map(tuple, rows.tensors)),
        bases=rows.values,
        num_forward=num_forward,
    )


@dataclass(slots=True)
class _Row:
    operator: fx.Node | None
    reads: list[int]
    residents: list[int]
    n_values: int
    once: bool
    backward: bool


class _JointRows:
    def __init__(self, joint: fx.Graph, num_forward: int) -> None:
        outputs = list(joint.output_node().args[0])
        self.forward_outputs = [node for node in outputs[:num_forward] if isinstance(node, fx.Node)]
        self.outputs = [node for node in outputs if isinstance(node, fx.Node)]
        self.rows: list[_Row] = []
        self.memory: list[int] = []
        self.producer: list[int] = []
        self.tensors: list[list[fx.Node]] = []
        self.inputs: list[tuple[fx.Node, int]] = []
        self.tangents: list[fx.Node] = []
        # Values and residents that store the result of each FX node.
        self.values: dict[fx.Node, tuple[int, ...]] = {}
        self.residents: dict[fx.Node, tuple[int, ...]] = {}
        self.place: dict[int, tuple[bool, int]] = {}  # storage -> (is resident, id)
        self.backward: set[fx.Node] = set()
        # Values of 0 bytes that the next draw or effect reads: they keep these calls in order.
        self.last_draw: list[int] = []
        self.last_effect: list[int] = []
        self.boundary: list[int] = []  # values of the boundary node

    def read_input(self, node: fx.Node) -> None:
        if isinstance(node.meta.get("desc"), OUTSIDE):
            self.backward.add(node)
            self.tangents.append(node)
            return
        new = {key: size for key, size in node.meta[STORAGES] if key not in self.place}
        self.place |= dict.fromkeys(new, (True, len(self.inputs)))
        self.inputs.append((node, sum(new.values())))
        self._locate(node)

    def read_call(self, node: fx.Node) -> None:
        # A node that reads the generator's state is in the part of its draw, forward or backward.
        draw = node.meta.get(DRAW, node)
        effect = _is_effect(node)
        ordered = node is not draw or (is_draw(node) and STATE not in node.meta)
        before = (self.last_draw if ordered else []) + (self.last_effect if effect else [])
        if any(each in self.backward for each in draw.all_input_nodes) or any(map(self._is_backward, before)):
            self.backward.add(node)
            self._separate()
        new = {key: size for key, size in node.meta[STORAGES] if key not in self.place}
        if not new and node.meta[STORAGES] and not effect:
            self._locate(node)
            return
        reads = [x for each in node.all_input_nodes for x in self.values[each]]
        residents = [r for each in node.all_input_nodes for r in self.residents[each]]
        if node is not draw and node in self.backward:
            reads += self.boundary
        if STATE in node.meta:
            reads += self.values[node.meta[STATE]]
        reads += before
        places = range(len(self.memory), len(self.memory) + len(new))
        self.place |= {key: (False, x) for key, x in zip(new, places, strict=True)}
        once = node.meta.get(ONCE, False) or ordered or effect or not isinstance(node.target, Operator)
        self._add(_Row(node, reads, residents, 0, once, node in self.backward), [*new.values()])
        if is_draw(node):
            self.last_draw = [self._mark()]
        if effect:
            self.last_effect = [self._mark()]
        self._locate(node)
        for part in _parts(node):
            for key in dict(part.meta[STORAGES]):
                resident, x = self.place[key]
                if not resident and self.producer[x] == len(self.rows) - 1:
                    self.tensors[x].append(part)

    def _add(self, row: _Row, sizes: list[int]) -> None:
        row.reads, row.residents = list(dict.fromkeys(row.reads)), list(dict.fromkeys(row.residents))
        self.rows.append(row)
        for size in sizes:
            self._value(size)

    def _value(self, size: int) -> int:
        self.rows[-1].n_values += 1
        self.memory.append(size)
        self.producer.append(len(self.rows) - 1)
        self.tensors.append([])
        return len(self.memory) - 1

    def _mark(self) -> int:
        """Add a value of 0 bytes to the last row and return its number."""
        return self._value(0)

    def _is_backward(self, x: int) -> bool:
        return self.rows[self.producer[x]].backward

    def _locate(self, node: fx.Node) -> None:
        places = [self.place[key] for key in dict(node.meta[STORAGES])]
        self.values[node] = tuple(i for resident, i in places if not resident)
        self.residents[node] = tuple(i for resident, i in places if resident)

    def _separate(self) -> None:
        """Add the boundary row once; its values are the gradients of the model's outputs."""
        if self.boundary:
            return
        if late := [node.name for node in self.forward_outputs if node not in self.values]:
            raise GraphError(
                "the output {late} depends on a gradient of the model's outputs; return it from another model",
                late=late[0],
            )
        reads = [x for node in self.forward_outputs for x in self.values[node]] + self.last_draw + self.last_effect
        runs = {self.producer[x] for x in reads}
        for v in reversed(range(len(self.rows))):
            if v in runs:
                runs |= {self.producer[x] for x in self.rows[v].reads}
        # Some clones are read only by the backward part. Let the boundary read them too, so that they are made before
        # the runtime overwrites the input.
        clones = [v for v, row in enumerate(self.rows) if row.operator is not None and ONCE in row.operator.meta]
        reads += [x for v in clones if v not in runs for x in self.values[self.rows[v].operator]]
        # The row counts as backward, so that outputs can be freed once the forward part has returned them.
        self._add(_Row(None, reads, [], 0, True, True), [])
        for node in self.tangents:
            for key, size in node.meta[STORAGES]:
                if key not in self.place:
                    self.place[key] = False, self._value(size)
                    self.tensors[-1].append(node)
            self._locate(node)
        self.boundary = [self._mark()]

    def graph(self, price: Price) -> ComputationGraph:
        self._separate()
        output = np.zeros(len(self.memory), bool)
        output[[x for node in self.outputs for x in self.values[node]]] = True
        output[self.boundary + self.last_draw + self.last_effect] = True
        read_indptr, read_indices = from_lists([row.reads for row in self.rows])
        calls = [None if row.operator is None else Call.of_node(row.operator) for row in self.rows]
        compute, workspace, unit = price(calls)
        # A replayed draw needs workspace for the generator's current state, which it restores afterwards.
        for v, row in enumerate(self.rows):
            if row.operator is not None and STATE in row.operator.meta:
                workspace[v] += sum(size for _, size in row.operator.meta[STATE].meta[STORAGES])
        return ComputationGraph.from_arrays(
            value_indptr=indptr_of([row.n_values for row in self.rows]),
            read_indptr=read_indptr,
            read_indices=read_indices,
            memory=self.memory,
            compute=compute,
            workspace=workspace,
            once=[row.once for row in self.rows],
            output=output,
            forward_of=self._owners(),
            resident=self._resident(),
            labels=self._labels(unit),
        )

    def _owners(self) -> list[int]:
        """Return the owner of each backward node: the last forward node with the same autograd sequence number."""
        last: dict[int, int] = {}
        owners = []
        for v, row in enumerate(self.rows):
            number = None if row.operator is None else row.operator.meta.get("seq_nr")
            if row.backward:
                owners.append(last.get(number, NO_OWNER))  # type: ignore[arg-type]
            else:
                owners.append(FORWARD)
                if number is not None:
                    last[number] = v
        return owners

    def _resident(self) -> Resident:
        indptr, indices = from_lists([row.residents for row in self.rows])
        roles = [ROLES.index(_role(node)) for node, _ in self.inputs]
        names = [name for name, _ in zip(self._resident_names(), self.inputs, strict=True)]
        return Resident([size for _, size in self.inputs], roles, indptr, indices, tuple(names))  # type: ignore[arg-type]

    def _resident_names(self) -> list[str]:
        """Return the names of residents in the model, or their FX names if the names in the model are not unique."""
        used = {_name(node) for node in self.values}
        names = [getattr(node.meta.get("desc"), "target", node.name) for node, _ in self.inputs]
        unique = len(set(names)) == len(names) and used.isdisjoint(set(names) - {node.name for node, _ in self.inputs})
        return names if unique else [node.name for node, _ in self.inputs]

    def _labels(self, unit: str) -> Labels:
        names = [BOUNDARY if row.operator is None else _name(row.operator) for row in self.rows]
        ops = ["" if row.operator is None else _operation(row.operator.target) for row in self.rows]
        parts = {part for parts in self.tensors for part in parts}
        value_names = {x: _name(parts[0]) for x, parts in enumerate(self.tensors) if parts}
        residents = self._resident_names()
        operators = {row.operator for row in self.rows}
        views = {}
        for node, stored in self.values.items():
            if (
                node not in parts
                and node not in operators
                and node.op == "call_function"
                and isinstance(node.meta["val"], torch.Tensor)
            ):
                views[_name(node)] = value_names[stored[0]] if stored else residents[self.residents[node][0]]
        return Labels(tuple(names), value_names, tuple(ops), views, unit)


def _parts(node: fx.Node) -> Iterator[fx.Node]:
    if isinstance(node.meta.get("val"), torch.Tensor):
        yield node
    else:
        for user in node.users:
            if user.target is operator.getitem:
                yield from _parts(user)


def _name(node: fx.Node) -> str:
    return ".".join(filter(None, (module_of(node.meta), node.name)))


def _role(node: fx.Node) -> str:
    descriptor = node.meta.get("desc")
    return "parameter" if isinstance(descriptor, Parameter) else "state" if isinstance(descriptor, Buffer) else "input"


def _operation(target: Any) -> str:
    return str(target) if isinstance(target, Operator) else getattr(target, "__name__", str(target))
