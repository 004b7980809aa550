"""Detection of inputs that change in place while a plan still recomputes from them."""

import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch

from remat_algos.errors import GraphError
from remat_algos.interop.torch.joint import Captured
from remat_algos.interop.torch.private import OUTSIDE, PlainInput, tree_leaves
from remat_algos.schedule.simulation import Simulation

Reread = Mapping[int | str, Sequence[str]]
"""Nodes recomputed from an input, by its place among the arguments, or by the name of a parameter or buffer."""


def recomputed_from_inputs(model: Captured, simulation: Simulation) -> Reread:
    """For each input, the nodes that run again and read it."""
    assert model.module is not None
    inputs = [node for node in model.module.graph.nodes if node.op in ("placeholder", "get_attr")]
    about = [node.meta.get("desc") for node in inputs]
    keys = [_key(each) for each in about if not isinstance(each, OUTSIDE)]  # in the order of residents
    graph, found = model.graph, dict[int | str, list[str]]()
    if graph.resident is None:
        return found
    for v in (simulation.runs > 1).nonzero()[0].tolist():
        for key in [keys[resident] for resident in graph.resident.reads(v)]:
            if key is not None:
                found.setdefault(key, []).append(graph.labels[v])
    return found


def _key(about: Any) -> int | str | None:
    return about.idx if isinstance(about, PlainInput) else getattr(about, "target", None)


def check_before_backward(results: Any, inputs: Sequence[tuple[str, Any, Sequence[str]]]) -> None:
    """Raise at the backward part if an input has changed, given name, tensor, and nodes recomputed from it."""
    seen = [
        (name, weakref.ref(tensor), tensor._version, again)
        for name, tensor, again in inputs
        if isinstance(tensor, torch.Tensor) and not tensor.is_inference()
    ]
    tensors = [each for each in tree_leaves(results) if isinstance(each, torch.Tensor)]
    for node in {each.grad_fn for each in tensors if each.grad_fn is not None}:
        node.register_prehook(partial(_compare, seen))


def _compare(seen: Sequence[tuple[str, Callable[[], Any], int, Sequence[str]]], gradients: Any) -> None:
    for name, tensor_of, version, again in seen:
        tensor = tensor_of()
        if tensor is not None and tensor._version != version:
            raise GraphError(
                "{name} was changed in place between the forward part and the backward part, which computes "
                "{again!l} from it again; change it after backward, or give the model a copy",
                name=name,
                again=again,
            )
