"""Bytes of tensor storages: predictions for results of operators, and measured peaks of calls."""

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, fields, is_dataclass
from math import prod
from typing import Any

import numpy as np
import torch
from torch import fx
from torch.profiler import ProfilerActivity, profile

from remat_algos.arguments import checked_arguments
from remat_algos.interop.torch.stable_names import (
    DispatchMode,
    allocated_bytes,
    arguments_by_name,
    ran_compiled,
    storage_key,
)


@dataclass(frozen=True, slots=True)
class Peaks:
    """Peaks of a call, in addition to the bytes that exist before it.

    `storages` is the peak of tensor storages, without workspaces of operators and states of generators; None for code
    that torch.compile has compiled, because it would run uncompiled while storages are counted. `allocator` is the peak
    of all bytes requested from the allocator.
    """

    storages: int | None
    allocator: int


@checked_arguments
def measure_peak(function: Callable[[], Any], known: Iterable[torch.Tensor]) -> Peaks:
    """Measure the peak of a function, which is called once under the profiler and once under a dispatch mode.

    Parameters
    ----------
    function : callable
        Function without arguments, such as a training step. Tensors that survive a call must be replaced by the next
        call. If it calls a model that torch.compile compiles, call it once before, so that compilation is complete.
    known : iterable of torch.Tensor
        Tensors that exist before the call, such as parameters and inputs; they are not counted.

    Returns
    -------
    Peaks
        On CUDA `allocator` is `torch.cuda.max_memory_allocated` minus the bytes allocated before.

    Examples
    --------
    >>> import torch
    >>> x = torch.ones(1000)
    >>> measure_peak(lambda: x.exp().exp(), [x])
    Peaks(storages=8000, allocator=8000)
    """
    present = list(known)
    allocator, compiled = _allocated(function, present)
    if compiled:
        return Peaks(None, allocator)
    with _Storages(present) as storages:
        function()
    return Peaks(storages.peak, allocator)


def allocator_peak(function: Callable[[], Any], known: Iterable[torch.Tensor]) -> int:
    """Return the peak of bytes that a call requests from the CPU's allocator, or CUDA's if `known` is on a GPU."""
    return _allocated(function, known)[0]


def _allocated(function: Callable[[], Any], known: Iterable[torch.Tensor]) -> tuple[int, bool]:
    """Return the peak, and True if the call ran code that torch.compile has compiled."""
    device = next((tensor.device for tensor in known if tensor.device.type == "cuda"), None)
    before = 0
    if device is not None:
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
    changes, compiled = allocations(function, device is None)
    if device is None:
        return int(np.cumsum([0, *changes]).max()), compiled
    torch.cuda.synchronize(device)
    return torch.cuda.max_memory_allocated(device) - before, compiled


def allocations(function: Callable[[], Any], memory: bool = True) -> tuple[list[int], bool]:
    """Return the bytes of each CPU allocation or release (negative) in a call, and whether compiled code ran."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=memory) as recorded:
        function()
    return allocated_bytes(recorded) if memory else [], ran_compiled(recorded)


class _Storages(DispatchMode):
    """Dispatch mode that counts the bytes of live storages, each from its allocation by an operator to its release."""

    supports_higher_order_operators = True

    def __init__(self, known: Iterable[torch.Tensor]) -> None:
        super().__init__()
        self.live = self.peak = 0
        self._seen = {storage_key(tensor) for tensor in known}

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = operator(*args, **(kwargs or {}))
        inputs = set(map(storage_key, tensors((args, kwargs))))
        for tensor in tensors(result):
            key = storage_key(tensor)
            if key not in self._seen and key not in inputs:
                storage = tensor.untyped_storage()
                self._seen.add(key)
                self.live += storage.nbytes()
                weakref.finalize(storage, self._released, key, storage.nbytes())
        self.peak = max(self.peak, self.live)
        return result

    def _released(self, key: int, size: int) -> None:
        self._seen.discard(key)
        self.live -= size


STORAGES = "storages"
"""Key in `meta` for pairs (key, bytes) of the storages of a result's tensors; equal keys mean the same storage."""
HOST = ("cpu", "meta")


def storages(result: Any) -> list[tuple[int, int]]:
    """Return (key, bytes) of the storage of each tensor in a result."""
    return [(storage_key(tensor), int(tensor.untyped_storage().nbytes())) for tensor in tensors(result)]


def real_storages(node: fx.Node) -> list[tuple[int, int]]:
    """Return (key, bytes) of the storages of an operator's results, with the bytes that its kernel really allocates."""
    args, kwargs = fx.node.map_arg((node.args, node.kwargs), lambda read: read.meta.get("val"))
    sizes = stored_bytes(node.target, args, kwargs, node.meta.get("val"))
    return [(key, size) for (key, _), size in zip(storages(node.meta.get("val")), sizes, strict=True)]


def stored_bytes(operator: Any, args: Any, kwargs: Any, result: Any) -> list[int]:
    """Return the bytes that an operator's kernel really allocates for each tensor in its result."""
    results = list(tensors(result))
    sizes, lower_bound = [int(each.untyped_storage().nbytes()) for each in results], OVERALLOCATED.get(str(operator))
    if lower_bound is None or results[0].device.type not in HOST:
        return sizes
    bytes_of = lower_bound(arguments_by_name(operator, args, kwargs), results)
    # A fake tensor of 0 bytes with dtype uint8 is a workspace. Its shape does not show its real size.
    exists = [size or each.dtype == torch.uint8 for size, each in zip(sizes, results, strict=True)]
    return [max(size, int(more)) if each else 0 for size, more, each in zip(sizes, bytes_of, exists, strict=True)]


def tensors(arguments: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors in nested tuples, lists, mappings and dataclasses."""
    if isinstance(arguments, torch.Tensor):
        yield arguments
    elif isinstance(arguments, Mapping):
        for each in arguments.values():
            yield from tensors(each)
    elif isinstance(arguments, tuple | list):
        for each in arguments:
            yield from tensors(each)
    elif _is_record(arguments):
        for each in fields(arguments):
            yield from tensors(getattr(arguments, each.name, None))


def _is_record(arguments: Any) -> bool:
    return is_dataclass(arguments) and not isinstance(arguments, type)


def named_tensors(args: Any, kwargs: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield (name, tensor) for the arguments of a call. Examples of names: "0", "mask", and "pair.1" in a tuple."""
    pending = [*((str(i), each) for i, each in enumerate(args)), *kwargs.items()]
    for name, each in pending:
        if isinstance(each, torch.Tensor):
            yield name, each
        elif isinstance(each, tuple):
            yield from ((f"{name}.{inner}", tensor) for inner, tensor in named_tensors(each, {}))


def mapped(function: Callable[[torch.Tensor], Any], arguments: Any) -> Any:
    """Apply a function to each tensor in nested arguments."""
    if isinstance(arguments, torch.Tensor):
        return function(arguments)
    if isinstance(arguments, dict):
        contents = {name: mapped(function, each) for name, each in arguments.items()}
        return contents if type(arguments) is dict else type(arguments)(**contents)
    if isinstance(arguments, tuple) and hasattr(arguments, "_fields"):
        return type(arguments)(*(mapped(function, each) for each in arguments))
    if isinstance(arguments, tuple | list):
        return type(arguments)(mapped(function, each) for each in arguments)
    if _is_record(arguments):
        record = copy(arguments)
        for each in fields(record):
            if hasattr(record, each.name):
                object.__setattr__(record, each.name, mapped(function, getattr(record, each.name)))
        return record
    return arguments


def _loss(arguments: Mapping[str, Any], results: Sequence[torch.Tensor]) -> list[int]:
    """Return the bytes of a loss's storage: the array of the terms, into which the kernel writes their mean or sum."""
    terms = torch.broadcast_shapes(arguments["self"].shape, arguments["target"].shape)
    return [prod(terms) * torch.result_type(arguments["self"], arguments["target"]).itemsize]


def _bags(arguments: Mapping[str, Any], results: Sequence[torch.Tensor]) -> list[int]:
    """Return the bytes of an embedding bag's storages, which have one extra element at the end."""
    indices, offsets = arguments["indices"], arguments["offsets"]
    ends = (offsets.numel() + 1) * offsets.itemsize
    return [0, (indices.numel() + 1) * indices.itemsize, ends, ends]


def _copied(arguments: Mapping[str, Any], results: Sequence[torch.Tensor]) -> list[int]:
    """Return the bytes of a copy: those of the destination's whole storage, or 0 if its elements overlap."""
    into = arguments["self"]
    shares = any(size > 1 and not stride for size, stride in zip(into.shape, into.stride(), strict=True))
    return [0 if shares else into.untyped_storage().nbytes()]


def _statistics(arguments: Mapping[str, Any], results: Sequence[torch.Tensor]) -> list[int]:
    """Return the bytes of mean and deviation in the type of the weight; under autocast the input's type is narrower."""
    weight = arguments.get("weight")
    return [0, *(0 if weight is None else each.numel() * weight.itemsize for each in results[1:])]


def _lstm(arguments: Mapping[str, Any], results: Sequence[torch.Tensor]) -> list[int]:
    """Return the bytes of the gates and states that oneDNN saves for the gradient, in whole pages of 4,096 bytes."""
    x, hidden = arguments["input"], arguments["hidden_size"]
    (steps, batch, width), size = x.shape, x.itemsize

    def pages(count: int, width: int, itemsize: int, line: int = 64) -> int:
        padded = -(-width * itemsize // line) * line // itemsize
        padded += line // itemsize if line > itemsize and padded % 256 == 0 else 0
        return -(-count * batch * padded * itemsize // 4096) * 4096

    cells = [pages(2 * (steps + 1), hidden, each, line=each) for each in (size, 4)]
    states = [pages(2 * (steps + 1), max(width, hidden), each) for each in (size, 4, 4)]
    gates = [pages(steps, 4 * hidden, size), pages(steps, hidden, size)]
    return [0, 0, 0, sum([*gates, *states, *cells]) if arguments["train"] else 0]


OVERALLOCATED: dict[str, Callable[[Mapping[str, Any], Sequence[torch.Tensor]], list[int]]] = {
    "aten.mse_loss.default": _loss,
    "aten.smooth_l1_loss.default": _loss,
    "aten.soft_margin_loss.default": _loss,
    "aten.binary_cross_entropy.default": _loss,
    "aten.col2im.default": lambda arguments, results: [arguments["self"].numel() * arguments["self"].itemsize],
    "aten.copy.default": _copied,
    "aten._embedding_bag.default": _bags,
    "aten.native_layer_norm.default": _statistics,
    "aten.native_group_norm.default": _statistics,
    "aten.native_batch_norm.default": _statistics,
    "aten._embedding_bag_forward_only.default": _bags,
    "aten.mkldnn_rnn_layer.default": _lstm,
}
"""Operators that allocate more for a result on the CPU than its fake tensor shows, with functions for the bytes.

tests/interop/test_torch_storages.py checks the operators in PyTorch's own test database.
"""
