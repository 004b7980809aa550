"""Functions that planned modules call: random draws replayed from a saved generator state, and copies to the host."""

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
"""Keys in `meta` for a draw (a call to a random operator) and the node that reads the generator's state for it.

In `meta` of the draw, STATE refers to the node that reads the state. In `meta` of that node, DRAW refers to the draw.
"""


def is_draw(node: fx.Node) -> bool:
    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())


def generator_state(device: torch.device) -> torch.Tensor:
    if device.type in HOST:
        return torch.get_rng_state()
    return torch.get_device_module(device).get_rng_state(device)


def set_generator_state(device: torch.device, state: torch.Tensor) -> None:
    if device.type in HOST:
        torch.set_rng_state(state)
    else:
        torch.get_device_module(device).set_rng_state(state, device)


def draw_again(
    device: torch.device, state: torch.Tensor, draw: Callable[..., Any], /, *args: Any, **kwargs: Any
) -> Any:
    """Repeat a draw from an earlier state of the generator, and restore the generator's current state afterwards."""
    current = generator_state(device)
    set_generator_state(device, state)
    try:
        return draw(*args, **kwargs)
    finally:
        set_generator_state(device, current)


def add_states(graph: fx.Graph) -> None:
    """Insert a node that reads the generator's state before each random operator without a generator argument."""
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
    """Start copying a storage to the host; return the copied tensors, with the same sizes, strides and offsets.

    Until `leave` is called, no operator may write into the storage and its memory must not be reused.
    """
    whole = _whole(first)
    host = _host_memory(whole.nbytes, first.device).view(whole.dtype)
    _start_copy(_OUT, first.device, whole, host)
    return _placed(host, first, *others)


def load(device: torch.device, first: torch.Tensor, *others: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Start copying a storage back to the device after the copy to the host; call `arrive` before reading a tensor."""
    _check_copied(first)
    whole = _whole(first)
    loaded = torch.empty_like(whole, device=device, pin_memory=False)
    _start_copy(_INTO, device, whole, loaded)
    return _placed(loaded, first, *others)


def check_streams(device: torch.device) -> None:
    """Raise GraphError for a device on which copies cannot overlap with computation."""
    if device.type not in HOST and not hasattr(torch.get_device_module(device), "Stream"):
        raise GraphError("PyTorch has no streams for copies on device {type!r}; plan without a link", type=device.type)


@has_side_effect
def leave(tensor: torch.Tensor, host: torch.Tensor) -> None:
    """Make the compute stream wait for the copy to the host; the tensor's memory may be reused afterwards."""
    _wait(tensor.device, host)


@has_side_effect
def arrive(tensor: torch.Tensor) -> torch.Tensor:
    """Make the compute stream wait for a loaded tensor; return the tensor."""
    _wait(tensor.device, tensor)
    return tensor


def wait_for_copies() -> None:
    """Make compute streams wait for all copies, because an error may free memory while it is still being copied."""
    for device, streams in list(_streams.items()):
        for stream in streams:
            # Waiting raises the original error again, which the caller already propagates.
            with suppress(RuntimeError):
                torch.get_device_module(device).current_stream(device).wait_stream(stream)


def _start_copy(direction: int, device: torch.device, source: torch.Tensor, into: torch.Tensor) -> None:
    """Start a copy after all queued computation and any earlier copy into `source`; record its end event in `into`."""
    if device.type in HOST:
        into.copy_(source)
        end = None
    else:
        backend = torch.get_device_module(device)
        if device not in _streams:
            _streams.setdefault(device, (backend.Stream(device), backend.Stream(device)))
        stream, before = _streams[device][direction], getattr(source.untyped_storage(), "copied", None)
        stream.wait_stream(backend.current_stream(device))
        if before is not None:
            stream.wait_event(before)
        with backend.stream(stream):
            into.copy_(source, non_blocking=True)
        end = stream.record_event()
    into.untyped_storage().copied = end


def _wait(device: torch.device, copied: torch.Tensor) -> None:
    _check_copied(copied)
    end = copied.untyped_storage().copied
    if end is not None:
        torch.get_device_module(device).current_stream(device).wait_event(end)


def _check_copied(tensor: torch.Tensor) -> None:
    if not hasattr(tensor.untyped_storage(), "copied"):
        raise GraphError(
            "a hook on saved tensors (torch.autograd) has replaced a copy on the host; remove the hook, or plan "
            "without a link"
        )


def _whole(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.as_strided((tensor.untyped_storage().nbytes() // tensor.itemsize,), (1,), 0)


def _placed(whole: torch.Tensor, *like: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Create tensors in one storage with the layouts of the tensors in `like`."""
    return tuple(whole.view(each.dtype).as_strided(each.size(), each.stride(), each.storage_offset()) for each in like)


def _host_memory(size: int, device: torch.device) -> torch.Tensor:
    """Allocate pinned host memory; for the CPU use NumPy, because there PyTorch's memory counts as device memory."""
    try:
        if device.type in HOST:
            return torch.from_numpy(np.empty(size, np.uint8))
        with without_modes():
            return torch.empty(size, dtype=torch.uint8, pin_memory=True)
    except (MemoryError, RuntimeError) as error:
        # An error that is not about memory comes from an earlier kernel, which ran asynchronously.
        if isinstance(error, RuntimeError) and "memory" not in str(error).lower():
            raise
        raise OutOfMemoryError(
            "a copy needs {size:,} bytes of host memory, which are not available; limit the link's host bytes, as in "
            '{{"out": "50GB/s", "into": "50GB/s", "host": "16GiB"}}',
            size=size,
            requested=size,
        ) from error
