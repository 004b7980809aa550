"""Real layers with true gradients: operators for the nodes of a network of the zoo."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import Any, SupportsInt

import numpy as np

from remat_algos.arguments import as_seed, checked_arguments
from remat_algos.errors import GraphError
from remat_algos.executor.array_backend import Array, Backend
from remat_algos.executor.mixing import Mixer, mixer
from remat_algos.ir.graph import ComputationGraph
from remat_algos.wording import quoted, shortened
from remat_algos.zoo.network import Network
from remat_algos.zoo.settings import offer

from .formula import Call, Formula, Readable
from .formulas import formula_of
from .optimizers import UPDATES
from .starting_values import Form, starting_values, token_ranges
from .views import view_gradient, viewed
from .wiring import ArrayPlace, Wiring, Work

HALF = "float16"


class LayerOperators:
    """Operators that are the layers of a network, with their true gradients.

    A forward node computes its `Layer`. The gradient of w with respect to x is computed from what its node
    reads and nothing else: gradients of w's values, what w saved, w's residents; it is added to the sum so far. On one
    backend all is deterministic, so a recomputed value is bit-identical. Values of float16 are read as float32, and
    results are rounded once, when they are written. Kinds of operations with a formula are supported, which cover
    all families of the zoo at granularity "operation", and the updates of an optimizer.

    Parameters
    ----------
    network : Network
        Built at granularity "operation", with `dtype` float32, float64 or float16, without a backward part.
    graph : ComputationGraph
        `differentiate(network.graph, parameter_gradients=True)`, `network.graph` itself, or the graph of `build` with
        the same options and an optimizer.
    seed : int
        Seed of parameters, inputs and dropout.
    values : mapping of str to array, optional
        Residents by name instead of those that `starting_values` draws; words and targets within their range.
    dropped : float
        Share of elements that dropout sets to 0, below 1; layers do not state it.
    learning_rate : float
        Learning rate of the updates in the graph.

    Attributes
    ----------
    arrays : dict of str to array
        The residents, after the first run: on its backend, and kept from run to run.
    learning_rate : float
    step : int
        Training step, from 0 on; masks of dropout depend on it, and Adam counts it.
    updates : bool
        True if the graph updates its parameters itself.
    gradients : dict of str to int
        The value that is the gradient of each parameter.
    calls : list of Call
        The layers of the last run.

    Raises
    ------
    GraphError
        If the graph is not one of the network, `dropped` or the learning rate is invalid, values do not fit, or an
        operation cannot be run: which, at which node, and why.

    Examples
    --------
    >>> from remat_algos.executor.run import execute
    >>> from remat_algos.ir.differentiate import differentiate
    >>> from remat_algos.zoo.registry import build
    >>> network = build("lstm", batch=2, steps=2, depth=1, width=4, features=3, classes=5)
    >>> graph = differentiate(network.graph, parameter_gradients=True)
    >>> operators = LayerOperators(network, graph)
    >>> execute(graph, range(graph.n_nodes), operators).mismatches, 2 < operators.loss < 5
    ([], True)
    """

    @checked_arguments
    def __init__(
        self,
        network: Network,
        graph: ComputationGraph,
        *,
        seed: int = 0,
        values: Mapping[str, Any] | None = None,
        dropped: float = 0.1,
        learning_rate: float = 0.01,
    ) -> None:
        self.network, self.graph, self.step = network, graph, 0
        self.arrays: dict[str, Array] = {}
        self._seed, self._dropped, self.learning_rate = as_seed(seed), _share(dropped), _rate(learning_rate)
        wiring = Wiring(network, graph)
        self._initial = _initial_residents(wiring.residents, network, values or {}, self._seed)
        self._work = [wiring.work(node) for node in range(graph.n_nodes)]
        self._dtypes, self.updates = wiring.dtypes, bool(wiring.updates)
        self.gradients: dict[str, int] = wiring.parameter_gradients
        self._losses = wiring.losses
        self._formulas: list[Formula] = _formulas(network)
        self._backend: Backend | None = None
        self._mixer: Mixer | None = None
        self.calls: list[Call] = []
        self._changed: set[int] = set()
        self._loss_values: dict[int, list[Array]] = {}

    def __getstate__(self) -> dict[str, Any]:
        """The state without a backend's arrays: a copy starts with the current residents."""
        state = vars(self).copy()
        if self.arrays:
            state["_initial"] = {name: self._ready.to_host(array) for name, array in self.arrays.items()}
        fresh: dict[str, Any] = {
            "arrays": {},
            "calls": [],
            "_formulas": [],
            "_backend": None,
            "_mixer": None,
            "_loss_values": {},
        }
        return state | fresh | {"_changed": set()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._formulas = _formulas(self.network)

    # ---------------------------------------------------------------- the protocol

    @checked_arguments
    def prepare(self, backend: Backend, graph: ComputationGraph) -> None:
        """Prepare a run on a backend, and move the residents there if necessary.

        Raises
        ------
        GraphError
            If it is a different graph.
        """
        if graph is not self.graph and graph.hash != self.graph.hash:
            raise GraphError("these layers are those of another graph; make LayerOperators of the graph that is run")
        if self._backend is None or self._backend.name != backend.name:
            before = self._backend
            initial = (
                {x: before.to_host(a) for x, a in self.arrays.items()} if before and self.arrays else self._initial
            )
            with backend.uncounted():
                self.arrays = {name: backend.xp.array(array) for name, array in initial.items()}
        self._backend, self._mixer = backend, mixer(backend)
        self.calls = [
            Call(layer, backend.xp, self._drawn(w) if formula.draws else 0, self._dropped)
            for w, (layer, formula) in enumerate(zip(self.network.layers, self._formulas, strict=True))
        ]
        self._changed, self._loss_values = set(), {}

    @checked_arguments
    def residents(self, backend: Backend) -> list[Array]:
        """The arrays, by id, as bytes."""
        return [self.arrays[name].reshape(-1).view(np.uint8) for name in self.graph.resident_names]

    def run(
        self,
        node: int,
        reads: Sequence[Array],
        residents: Sequence[Array],
        values: Sequence[Array],
        workspace: Array | None,
    ) -> None:
        """Compute a layer, a gradient or an update; everything is computed before it is written."""
        backend, work = self._ready, self._work[node]
        with backend.uncounted():
            if work.optimizer:
                return self._update(work, reads, residents)
            results = self._compute(work, reads, residents)
            if any(out.size for out in values[len(results) :]):  # effects have no bytes
                layer = self.network.layers[node]
                raise GraphError(
                    f"{shortened(layer.op)} gives {len(results)} of the {len(values)} values of "
                    f"{shortened(layer.name)}; give all"
                )
            for out, array, dtype in zip(values, results, self._dtypes[node], strict=False):
                if out.size:
                    into = out.view(dtype)
                    into[...] = array.reshape(into.shape)
            if node in self._losses and node not in self._loss_values:
                self._loss_values[node] = [results[j].sum() for j in self._losses[node]]

    def checksum(self, array: Array) -> SupportsInt:
        """The checksum of all bits."""
        assert self._mixer is not None
        return self._mixer.checksum(array)

    # ---------------------------------------------------------------- results

    @property
    def loss(self) -> float:
        """The sum of the differentiated values of the last run.

        Raises
        ------
        GraphError
            If nothing has been run.
        """
        if not self._loss_values:
            raise GraphError("no loss has been computed yet; execute a schedule with these operators first")
        to_host = self._ready.to_host
        return sum(float(to_host(x)) for _, losses in sorted(self._loss_values.items()) for x in losses)

    # ---------------------------------------------------------------- internals

    @property
    def _ready(self) -> Backend:
        if self._backend is None:
            raise GraphError("the layers are not prepared for a backend; run them through execute")
        return self._backend

    def _drawn(self, node: int) -> int:
        """uint32: seed of the dropout of a node in this training step."""
        return int(np.random.SeedSequence([self._seed, self.step, node]).generate_state(1)[0])

    def _compute(self, work: Work, reads: Sequence[Array], residents: Sequence[Array]) -> Sequence[Array]:
        xp = self._ready.xp
        if work.layer < 0:
            return (xp.ones(work.form.shape, work.form.dtype),)
        call, formula = self.calls[work.layer], self._formulas[work.layer]
        get = _getter(reads, residents)
        arguments = [
            None if place is None else viewed(get(place), argument.shape, xp)
            for place, argument in zip(work.arguments, call.layer.arguments, strict=True)
        ]
        if not work.positions:
            results = formula.forward(call, *arguments)
            results = results if isinstance(results, tuple) else (results,)
            if formula.effect is not None and work.layer not in self._changed:
                self._changed.add(work.layer)
                formula.effect(call, arguments, results)
            return results
        name = f"the gradient of {call.layer.name}"
        may_read = (
            Readable(name, "argument", arguments),
            Readable(name, "value", [p and get(p) for p in work.values]),
        )
        upstream = [p and get(p) for p in work.gradients]
        total = get(work.running) if work.running else None
        for k in work.positions:
            assert formula.gradient is not None
            part = view_gradient(formula.gradient(call, k, *may_read, upstream), work.form.shape, xp)
            total = part if total is None else total + part
        return (total,)

    def _update(self, work: Work, reads: Sequence[Array], residents: Sequence[Array]) -> None:
        """Update a parameter and the state of its optimizer, in place."""
        get = _getter(reads, residents)
        *state, gradient = (place for place in (*work.arguments, *work.gradients) if place is not None)
        update = UPDATES[work.optimizer]
        updated = update(self._ready.xp, self.learning_rate, self.step + 1, *map(get, state), get(gradient))
        for place, array in zip(state, updated, strict=True):
            residents[place.number].view(place.form.dtype)[...] = array.reshape(-1)


def _formulas(network: Network) -> list[Formula]:
    """The formula of each layer; `Wiring` has checked that all exist."""
    formulas = (formula_of(layer.op) for layer in network.layers)
    return [formula for formula in formulas if formula is not None]


def _share(dropped: Any) -> float:
    if not isinstance(dropped, Real) or not 0 <= float(dropped) < 1:
        raise GraphError(f"dropped is {quoted(dropped)}; give a share, 0 or more and below 1")
    return float(dropped)


def _rate(learning_rate: Any) -> float:
    if not isinstance(learning_rate, Real) or not np.isfinite(float(learning_rate)):
        raise GraphError(f"learning_rate is {quoted(learning_rate)}; give a number")
    return float(learning_rate)


def _getter(reads: Sequence[Array], residents: Sequence[Array]) -> Callable[[ArrayPlace], Array]:
    def get(place: ArrayPlace) -> Array:
        array = (residents if place.of_residents else reads)[place.number].view(place.form.dtype)
        if place.form.dtype == HALF:
            array = array.astype(np.float32)
        elif not getattr(array.flags, "aligned", True):
            array = array.copy()  # NumPy sums unaligned arrays in another order, which changes the last bits
        return array.reshape(place.form.shape)

    return get


def _initial_residents(
    forms: Mapping[str, Form], network: Network, values: Mapping[str, Any], seed: int
) -> dict[str, Array]:
    """The residents at the start; states of optimizers are 0."""
    arrays: dict[str, Any] = {name: np.zeros(*form) for name, form in forms.items()} | starting_values(network, seed)
    ranges = token_ranges(network)
    for name, array in values.items():
        if name not in forms:
            raise GraphError(
                f"{shortened(network.name)} has no input or parameter {quoted(name)}; {offer(name, forms)}"
            )
        shape, dtype = forms[name]
        if tuple(np.shape(array)) != shape:
            raise GraphError(f"{shortened(name)} has shape {quoted(shape)}, not {tuple(np.shape(array))}")
        arrays[name] = np.asarray(array, dtype)
        if name in ranges and not _in_range(arrays[name], ranges[name]):
            remedy = f"give whole numbers from {ranges[name].start} to {ranges[name].stop - 1}"
            raise GraphError(f"{shortened(name)} goes from {arrays[name].min()} to {arrays[name].max()}; {remedy}")
    return arrays


def _in_range(tokens: Array, valid: range) -> bool:
    """True if all tokens are valid: for -9 NumPy would raise, CuPy would read another word."""
    return not tokens.size or (valid.start <= tokens.min() and tokens.max() < valid.stop)
