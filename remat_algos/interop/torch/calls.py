"""Calls of planned modules: random operators with an earlier state of the generator, copies to the host and back."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import torch
from torch import fx
from torch.fx.node import has_side_effect

from remat_algos.errors import GraphError, OutOfMemoryError
from remat_algos.interop.torch.stable_names import arguments_by_name, without_modes
from remat_algos.interop.torch.storages import HOST, STORAGES, storages, tensors

STATE, DRAW = "generator_state", "draw"
"""Keys in `meta`: of a draw, the node that reads the generator's state before it; of that node, the draw."""


def is_draw(node: fx.Node) -> bool:
    """True if an operator draws from a generator."""
    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())


def generator_state(device: torch.device) -> torch.Tensor:
    """Return the state of a device's default generator."""
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
    return arguments_by_name(node.target, node.args, node.kwargs).get("generator") is not None


_OUT, _INTO = 0, 1
_streams: dict[torch.device, tuple[Any, Any]] = {}


def store(first: torch.Tensor, *others: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Begin to copy a storage to the host, and give its tensors there, of the same sizes, strides and offsets.

    Other operators must not write into the storage, nor anything else take its memory, until `leave`.
    """
    whole = _whole(first)
    host = _host_memory(whole.nbytes, first.device).view(whole.dtype)
    _begin(_OUT, first.device, whole, host)
    return _placed(host, first, *others)


def load(device: torch.device, first: torch.Tensor, *others: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Begin to copy a storage back from the host, after its store; the tensors may be read after `arrive`."""
    _check_copied(first)
    whole = _whole(first)
    found = torch.empty_like(whole, device=device, pin_memory=False)
    _begin(_INTO, device, whole, found)
    return _placed(found, first, *others)


def check_streams(device: torch.device) -> None:
    """Raise GraphError for a device on which copies cannot run beside compute."""
    if device.type not in HOST and not hasattr(torch.get_device_module(device), "Stream"):
        raise GraphError("PyTorch has no streams for copies on device {type!r}; leave out the link", type=device.type)


@has_side_effect
def leave(tensor: torch.Tensor, host: torch.Tensor) -> None:
    """Let compute wait for the store of a tensor; its memory may be reused afterwards."""
    _wait(tensor.device, host)


@has_side_effect
def arrive(tensor: torch.Tensor) -> torch.Tensor:
    """Let compute wait for a loaded tensor; return it."""
    _wait(tensor.device, tensor)
    return tensor


def wait_for_copies() -> None:
    """Let compute wait for all copies: after an error the memory that they read and write is free at once."""
    for device, streams in list(_streams.items()):
        for stream in streams:
            with suppress(RuntimeError):  # repeats the error passed on
                torch.get_device_module(device).current_stream(device).wait_stream(stream)


def _begin(way: int, device: torch.device, source: torch.Tensor, into: torch.Tensor) -> None:
    """Copy, behind the work of compute so far and the copy that made the source; the end is noted at the storage."""
    if device.type in HOST:
        into.copy_(source)
        ended = None
    else:
        on = torch.get_device_module(device)
        if device not in _streams:
            _streams.setdefault(device, (on.Stream(device), on.Stream(device)))
        stream, before = _streams[device][way], getattr(source.untyped_storage(), "copied", None)
        stream.wait_stream(on.current_stream(device))
        if before is not None:
            stream.wait_event(before)
        with on.stream(stream):
            into.copy_(source, non_blocking=True)
        ended = stream.record_event()
    into.untyped_storage().copied = ended  # backward finds it on the saved tensor


def _wait(device: torch.device, copied: torch.Tensor) -> None:
    _check_copied(copied)
    ended = copied.untyped_storage().copied  # None on the CPU
    if ended is not None:
        torch.get_device_module(device).current_stream(device).wait_event(ended)


def _check_copied(tensor: torch.Tensor) -> None:
    """Raise GraphError if a tensor is not in a storage that was copied."""
    if not hasattr(tensor.untyped_storage(), "copied"):
        raise GraphError(
            "a hook of torch.autograd on saved tensors has replaced a copy on the host; leave out the hook, or the link"
        )


def _whole(tensor: torch.Tensor) -> torch.Tensor:
    """Return a flat view of a whole storage."""
    return tensor.as_strided((tensor.untyped_storage().nbytes() // tensor.itemsize,), (1,), 0)


def _placed(whole: torch.Tensor, *like: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Tensors in a storage, with the layouts of others."""
    return tuple(whole.view(each.dtype).as_strided(each.size(), each.stride(), each.storage_offset()) for each in like)


def _host_memory(size: int, device: torch.device) -> torch.Tensor:
    """Bytes of the host, pinned for a device; on the CPU not from PyTorch's allocator, which serves the device there.

    Pinned memory comes from PyTorch's pool, which keeps it.
    """
    try:
        if device.type in HOST:
            return torch.from_numpy(np.empty(size, np.uint8))
        with without_modes():  # storage-counting modes must not see it
            return torch.empty(size, dtype=torch.uint8, pin_memory=True)
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "memory" not in str(error).lower():  # of what ran before
            raise
        raise OutOfMemoryError(
            "a copy takes {size:,} bytes of the host, which it does not have; give the link a limit, as in "
            '{{"out": "50GB/s", "into": "50GB/s", "host": "16GiB"}}',
            size=size,
            requested=size,
        ) from error
