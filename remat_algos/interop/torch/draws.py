"""Random operators, rerun with the generator's state of their first run."""

from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from remat_algos.interop.torch.storages import HOST, STORAGES, storages, tensors

STATE, DRAW = "generator_state", "draw"
"""Keys in `meta`: of a draw, the node that reads the generator's state before it; of that node, the draw."""


def is_draw(node: fx.Node) -> bool:
    """True if an operator draws from a generator."""
    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())


def generator_state(device: torch.device) -> torch.Tensor:
    """The state of a device's default generator."""
    if device.type in HOST:
        return torch.get_rng_state()
    return torch.get_device_module(device).get_rng_state(device)


def set_generator_state(device: torch.device, state: torch.Tensor) -> None:
    """Set the state of a generator."""
    if device.type in HOST:
        torch.set_rng_state(state)
    else:
        torch.get_device_module(device).set_rng_state(state, device)


def draw_again(
    device: torch.device, state: torch.Tensor, draw: Callable[..., Any], /, *args: Any, **kwargs: Any
) -> Any:
    """Run a draw with an earlier state, and restore the generator."""
    now = generator_state(device)
    set_generator_state(device, state)
    try:
        return draw(*args, **kwargs)
    finally:
        set_generator_state(device, now)


def add_states(graph: fx.Graph) -> None:
    """Read the generator's state before each draw of a graph, in place, except draws with their own generator."""
    for node in graph.nodes:
        if node.op == "call_function" and is_draw(node) and not _has_generator(node):
            tensor = next(tensors(node.meta["val"]))
            with graph.inserting_before(node):
                state = graph.call_function(generator_state, (tensor.device,))
            result = tensor.fake_mode.from_tensor(generator_state(tensor.device), static_shapes=True)
            state.meta |= {"val": result, STORAGES: storages(result), DRAW: node}
            node.meta[STATE] = state


def _has_generator(node: fx.Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    names = [] if schema is None else [argument.name for argument in schema.arguments]
    return (dict(zip(names, node.args, strict=False)) | node.kwargs).get("generator") is not None
