"""The role of each array that a node reads, from the layers of a network to the nodes of a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from remat_algos.cost.devices import tensor_bytes
from remat_algos.errors import GraphError
from remat_algos.ir.differentiate import differentiate, gradient_pairs
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.kinds import operation_kind
from remat_algos.wording import shortened
from remat_algos.zoo.network import Layer, Network
from remat_algos.zoo.optimizers import optimizer_of, with_optimizer

from .formula import Call
from .formulas import formula_of
from .starting_values import Form, resident_forms
from .views import can_view

DTYPES = ("float32", "float64", "float16", "int64", "int32", "bool")
OF_UPDATED: Mapping[str, Any] = {"parameter_gradients": True, "loss": None}
"""Options with which graphs with updates are differentiated, which they do not record."""


class ArrayPlace(NamedTuple):
    """An array that a node reads: its index among the residents or the reads, and its form."""

    of_residents: bool
    number: int
    form: Form


class Work(NamedTuple):
    """The computation of a node.

    Parameters
    ----------
    layer : int
        The forward node itself, or the one whose gradient it computes; -1 for a seed or an update.
    arguments, values, gradients : tuple of ArrayPlace or None
        Arguments and values of the layer, and gradients of its values, or None if the node may not read it. For an
        update the parameter and the optimizer's state, and the gradient of the parameter.
    running : ArrayPlace or None
        The sum so far.
    positions : tuple of int
        Arguments whose gradient it computes; empty for a forward node.
    form : Form
        Form of the gradient.
    optimizer : str
        Name of the optimizer if it is an update, else empty.
    """

    layer: int
    arguments: tuple[ArrayPlace | None, ...] = ()
    values: tuple[ArrayPlace | None, ...] = ()
    gradients: tuple[ArrayPlace | None, ...] = ()
    running: ArrayPlace | None = None
    positions: tuple[int, ...] = ()
    form: Form = Form((), "float32")
    optimizer: str = ""


class Wiring:
    """The role of each array read by a node, for every node of a network's graph.

    Parameters
    ----------
    network : Network
    graph : ComputationGraph

    Raises
    ------
    GraphError
        If network and graph do not belong together, or a layer cannot be run.
    """

    def __init__(self, network: Network, graph: ComputationGraph) -> None:
        _check_same(network, graph)
        forward = network.graph
        self.network, self.graph, self.n_forward = network, graph, forward.n_nodes
        self.updates = np.flatnonzero(graph.updates).tolist()
        self._resident_forms = self._with_states(resident_forms(network))
        self.residents = dict(zip(graph.resident_names, self._resident_forms, strict=True))
        self._forms = [Form(*form) for layer in network.layers for form in zip(layer.shapes, layer.dtypes, strict=True)]
        self._target, self._reader = np.zeros(0, np.int32), np.zeros(0, np.int32)
        options = graph.derivation.options if graph.derivation is not None else OF_UPDATED
        if graph.n_nodes > self.n_forward:
            self._target, self._reader = gradient_pairs(
                forward, parameter_gradients=options["parameter_gradients"], loss=options["loss"]
            )
        _check_layers(network, self._forms, self._resident_forms, set(self._reader.tolist()))

    @property
    def dtypes(self) -> list[list[str]]:
        """The dtypes of the values of each node."""
        forward = [list(layer.dtypes) for layer in self.network.layers]
        return forward + [[self._form(x).dtype] for x in self._target.tolist()] + [[] for _ in self.updates]

    @property
    def losses(self) -> dict[int, list[int]]:
        """For each forward node, the values where gradients start; its outputs in a graph without gradients."""
        forward = self.network.graph
        begun = np.flatnonzero(forward.output) if not self._target.size else self._target[self._reader < 0]
        losses: dict[int, list[int]] = {}
        for x in sorted(begun.tolist()):
            node = int(forward.producer[x])
            if self._forms[x].shape != (0,):  # an effect
                losses.setdefault(node, []).append(x - int(forward.value_indptr[node]))
        return losses

    @property
    def parameter_gradients(self) -> dict[str, int]:
        """The value that is the complete gradient of each parameter, by the parameter's name."""
        n_values = self.network.graph.n_values
        last = {x: n_values + i for i, x in enumerate(self._target.tolist()) if x >= n_values}
        return {self.graph.resident_names[x - n_values]: value for x, value in last.items()}

    def work(self, node: int) -> Work:
        """The computation of a node."""
        if node < self.n_forward:
            return Work(node, self._arguments(node, self._read_places(node)))
        if node >= self.n_forward + self._target.size:
            return self._update(node)
        target, w = (int(a[node - self.n_forward]) for a in (self._target, self._reader))
        form = self._form(target)
        if w < 0:
            return Work(-1, form=form)
        reads = self._read_places(node)
        gradients = self._gradient_places(node)
        arguments = self.network.layers[w].arguments
        value = target if target < self.network.graph.n_values else self.network.graph.n_values - 1 - target
        return Work(
            w,
            self._arguments(w, reads),
            tuple(reads.get(x) for x in self.network.graph.values(w)),
            tuple(gradients.get(x) for x in self.network.graph.values(w)),
            gradients.get(target),
            tuple(k for k, argument in enumerate(arguments) if argument.value == value),
            form,
        )

    def _update(self, node: int) -> Work:
        """The update of a parameter, which has the smallest id among the residents of its update."""
        assert self.graph.resident is not None
        places = [ArrayPlace(True, k, self._resident_forms[r]) for k, r in enumerate(self.graph.resident.reads(node))]
        gradient = ArrayPlace(False, 0, places[0].form)
        optimizer = optimizer_of(self.graph.labels.op(node))
        assert optimizer is not None
        return Work(-1, tuple(places), gradients=(gradient,), form=places[0].form, optimizer=optimizer.name)

    def _with_states(self, forms: list[Form]) -> list[Form]:
        """Forms of residents, with optimizer states in the form of their parameter."""
        forms = forms + [Form((), "uint8")] * (len(self.graph.resident_names) - len(forms))
        for node in self.updates:
            assert self.graph.resident is not None
            parameter, *states = self.graph.resident.reads(node)
            for r in states:
                forms[r] = forms[parameter]
        return forms

    def _form(self, target: int) -> Form:
        """The form of a value or, from `n_values` on, of a resident."""
        n_values = self.network.graph.n_values
        return self._forms[target] if target < n_values else self._resident_forms[target - n_values]

    def _arguments(self, w: int, reads: Mapping[int, ArrayPlace]) -> tuple[ArrayPlace | None, ...]:
        """The arguments of a layer as read by one of its nodes: gradients read the same residents as their node."""
        resident = self.network.graph.resident
        own = resident.reads(w) if resident is not None else []
        places = {-1 - r: ArrayPlace(True, k, self._resident_forms[r]) for k, r in enumerate(own)}
        places.update(reads)
        return tuple(places.get(x.value) for x in self.network.layers[w].arguments)

    def _read_places(self, node: int) -> dict[int, ArrayPlace]:
        """Forward values that a node reads, by value."""
        return dict(self._among(node, lambda x: x if x < self.network.graph.n_values else None))

    def _gradient_places(self, node: int) -> dict[int, ArrayPlace]:
        """Gradients that a node reads, by their value or parameter."""
        n_values = self.network.graph.n_values
        return dict(self._among(node, lambda x: int(self._target[x - n_values]) if x >= n_values else None))

    def _among(self, node: int, key: Callable[[int], int | None]) -> Iterator[tuple[int, ArrayPlace]]:
        for place, x in enumerate(self.graph.reads(node)):
            if (target := key(x)) is not None:
                yield target, ArrayPlace(False, place, self._form(target))


# ---------------------------------------------------------------- checks


def _check_same(network: Network, graph: ComputationGraph) -> None:
    forward = network.graph
    if forward.forward_of is not None:
        remedy = "build it without parameter_gradients and optimizer, of which the graph that is run may be made"
        raise GraphError(f"the graph of {shortened(network.name)} has a backward part; {remedy}")
    if forward.node_names() != [layer.name for layer in network.layers]:
        fault = f"the nodes of {shortened(network.name)} are not its {len(network.layers)} layers"
        raise GraphError(f'{fault}; build it with granularity="operation"')
    derivation = graph.derivation
    if graph is forward or (derivation is None and graph.hash == forward.hash):
        return
    if bool(graph.updates.any()):
        return _check_updates(network, graph)
    if derivation is None or derivation.source_hash != forward.hash:
        remedy = "give differentiate(network.graph, parameter_gradients=True)"
        raise GraphError(f"the graph was not made from that of {shortened(network.name)}; {remedy}")
    if derivation.options.get("encode"):
        raise GraphError("feature maps kept as bits are not layers; differentiate without encode")


def _check_updates(network: Network, graph: ComputationGraph) -> None:
    """Raise GraphError unless the graph is the network's with an optimizer; costs may differ."""
    op = graph.labels.op(int(np.flatnonzero(graph.updates)[0]))
    optimizer = optimizer_of(op)
    if optimizer is None:
        raise GraphError("updates in element-wise steps are not layers; give with_optimizer a graph without primitive")
    if "v" in optimizer.states and "float16" in {dtype for layer in network.layers for dtype in layer.dtypes}:
        raise GraphError(f'squares that {shortened(op)} remembers vanish in float16; use momentum, or dtype="float32"')
    expected = with_optimizer(differentiate(network.graph, parameter_gradients=True), optimizer.name)
    if graph.n_nodes != expected.n_nodes or replace(graph, compute=expected.compute).hash != expected.hash:
        remedy = (
            f'with_optimizer(differentiate(network.graph, parameter_gradients=True), "{shortened(optimizer.name)}")'
        )
        raise GraphError(f"the graph was not made from that of {shortened(network.name)}; give {remedy}")


def _check_layers(network: Network, forms: Sequence[Form], residents: Sequence[Form], differentiated: set[int]) -> None:
    for w, layer in enumerate(network.layers):
        reason = _refusal(layer, forms, residents, w in differentiated)
        if reason:
            raise GraphError(
                f"node {shortened(layer.name)}: the executor cannot run {shortened(layer.op)}, which {reason}"
            )
    sizes = network.graph.memory.tolist()
    for x, (form, size) in enumerate(zip(forms, sizes, strict=True)):
        if size != tensor_bytes(*form):
            raise GraphError(
                f"{shortened(network.graph.value_name(x))} has {size} bytes, not those of {form.shape} {form.dtype}"
            )


def _refusal(layer: Layer, forms: Sequence[Form], residents: Sequence[Form], differentiated: bool) -> str | None:
    """The reason why a layer cannot be run, as a clause without its subject, or None."""
    formula = formula_of(layer.op)
    if formula is None and operation_kind(layer.op) is None:
        return "is not a known kind of operation; register an OperationKind, and add its formula to FORMULAS"
    if formula is None:
        return "has no formula; add one to FORMULAS"
    for dtype in (*layer.dtypes, *(x.dtype for x in layer.arguments)):
        if dtype not in DTYPES:
            return f'holds {dtype}, for which there is no formula; build the network with dtype="float32"'
    for x in layer.arguments:
        base = forms[x.value].shape if x.value >= 0 else residents[-1 - x.value].shape
        if not can_view(base, x.shape):
            return f"reads {base} as {x.shape}, for which there is no rule"
    if differentiated and formula.gradient is None:
        return "has no gradient"
    return formula.refuses(Call(layer, np))
