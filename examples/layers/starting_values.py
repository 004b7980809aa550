"""Initial parameters, inputs and states of networks, drawn with a seed."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from remat_algos.cost.devices import element_bytes, tensor_bytes
from remat_algos.ir.parts import ROLES
from remat_algos.zoo.network import Network, Shape, Tensor

from .formula import Call
from .formulas import formula_of

Array = NDArray[np.generic]


class Form(NamedTuple):
    """Shape and type of a resident."""

    shape: Shape
    dtype: str


def resident_forms(network: Network) -> list[Form]:
    """The form of each resident, by id, from the views of layers."""
    resident = network.graph.resident
    if resident is None:
        return []
    uses: dict[int, list[Tensor]] = {}
    for layer in network.layers:
        for argument in layer.arguments:
            if argument.value < 0:
                uses.setdefault(-1 - argument.value, []).append(argument)
    forms = []
    for r, (name, size) in enumerate(zip(resident.names, resident.memory.tolist(), strict=True)):
        dtype = uses[r][0].dtype if r in uses else "uint8"
        whole = [x.shape for x in uses.get(r, ()) if tensor_bytes(x.shape, dtype) == size]
        flat = (size // element_bytes(dtype),)
        forms.append(Form(network.parameter_shapes.get(name, whole[0] if whole else flat), dtype))
    return forms


def starting_values(network: Network, seed: int = 0) -> dict[str, Array]:
    """An array for each resident, the same for the same seed.

    Weights are normal with a deviation of (2 / fan-in) ** 0.5, those of embeddings with one over the
    root of their width; biases are 0, weights of norms 1, running means 0 and variances 1. Inputs are normal, words
    and targets uniform, without blanks in a transcript, masks lower triangular if square, else all true.

    Examples
    --------
    >>> from remat_algos.zoo.registry import build
    >>> values = starting_values(build("lstm", batch=2, steps=1, depth=1, width=4, features=3, classes=5))
    >>> values["lstm.layer0.input_weight"].shape, values["classifier.step0.target"].max() < 5
    ((16, 3), np.True_)
    """
    resident = network.graph.resident
    if resident is None:
        return {}
    ranges, embeddings = token_ranges(network), _embeddings(network)
    arrays = {}
    for r, (name, form) in enumerate(zip(resident.names, resident_forms(network), strict=True)):
        rng = np.random.default_rng([seed, r])
        role = ROLES[resident.role[r]]
        if role == "state":
            array = np.full(form.shape, float(name.endswith("running_var")))
        elif role == "parameter":
            array = _parameter(rng, name, form.shape, name in embeddings)
        else:
            array = _input(rng, form, ranges.get(name, range(2)))
        arrays[name] = array.astype(form.dtype)
    return arrays


def _parameter(rng: np.random.Generator, name: str, shape: Shape, embedding: bool) -> Array:
    if len(shape) < 2:
        return np.full(shape, float(name.endswith("weight")))
    sees = shape[-1] * 2 if embedding else max(1, prod(shape[1:]))
    return rng.normal(0, (2 / sees) ** 0.5, shape)


def _input(rng: np.random.Generator, form: Form, tokens: range) -> Array:
    shape, dtype = form
    if dtype == "bool":
        square = len(shape) == 2 and shape[0] == shape[1]
        return np.tri(*shape, dtype=np.bool_) if square else np.ones(shape, bool)
    return rng.normal(0, 1, shape) if "float" in dtype else rng.integers(tokens.start, tokens.stop, shape)


def _embeddings(network: Network) -> set[str]:
    return {layer.parameters[0] for layer in network.layers if layer.op == "Embedding"}


def token_ranges(network: Network) -> dict[str, range]:
    """Range of valid ids of each resident of tokens or targets.

    Examples
    --------
    >>> from remat_algos.zoo.registry import build
    >>> token_ranges(build("lstm", batch=2, steps=1, depth=1, width=4, features=3, classes=5))
    {'classifier.step0.target': range(0, 5)}
    """
    names, ranges = network.graph.resident_names, dict[str, range]()
    for layer in network.layers:
        formula = formula_of(layer.op)
        if formula is None or formula.tokens is None:
            continue
        k, valid = formula.tokens(Call(layer, np))
        if (value := layer.arguments[k].value) < 0:
            name = names[-1 - value]
            before = ranges.get(name, valid)
            ranges[name] = range(max(valid.start, before.start), min(valid.stop, before.stop))
    return ranges
