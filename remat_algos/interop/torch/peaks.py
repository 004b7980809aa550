"""Measured peaks of PyTorch calls."""

import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.profiler import ProfilerActivity, profile

from remat_algos.arguments import checked_arguments
from remat_algos.interop.torch.private_names import DispatchMode, allocated_bytes, ran_compiled, storage_key
from remat_algos.interop.torch.storages import tensors


@dataclass(frozen=True, slots=True)
class Peaks:
    """Peaks of a call beyond the bytes before it.

    Parameters
    ----------
    storages : int or None
        Peak of tensor storages, without workspaces of operators and states of generators. None for code of
        torch.compile, which would run uncompiled while storages are counted.
    allocator : int
        Peak of all bytes requested from the allocator.
    """

    storages: int | None
    allocator: int


@checked_arguments
def measure_peak(function: Callable[[], Any], known: Iterable[torch.Tensor]) -> Peaks:
    """Call a function under the profiler, and again under a dispatch mode, and return the peaks of both.

    Parameters
    ----------
    function : callable
        Function without arguments; a training step that leaves nothing which the next one does not replace. A model of
        torch.compile must be compiled by an earlier call.
    known : iterable of torch.Tensor
        Tensors that exist before the call, such as parameters and inputs, and are not counted.

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
    """Return the peak of bytes requested from the allocator during a call, beyond those before.

    The allocator is CUDA's if a known tensor is there, else the CPU's.
    """
    return _allocated(function, known)[0]


def _allocated(function: Callable[[], Any], known: Iterable[torch.Tensor]) -> tuple[int, bool]:
    """Return the peak, and True if code of torch.compile ran."""
    device = next((tensor.device for tensor in known if tensor.device.type == "cuda"), None)
    before = 0
    if device is not None:
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=device is None) as seen:
        function()
    if device is None:
        return int(np.cumsum([0, *allocated_bytes(seen)]).max()), ran_compiled(seen)
    torch.cuda.synchronize(device)
    return torch.cuda.max_memory_allocated(device) - before, ran_compiled(seen)


class _Storages(DispatchMode):
    """Counts the bytes of storages from their operator until they are released."""

    supports_higher_order_operators = True

    def __init__(self, known: Iterable[torch.Tensor]) -> None:
        super().__init__()
        self.live = self.peak = 0
        self._seen = {storage_key(tensor) for tensor in known}

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = operator(*args, **(kwargs or {}))
        given = set(map(storage_key, tensors((args, kwargs))))
        for tensor in tensors(result):
            key = storage_key(tensor)
            if key not in self._seen and key not in given:
                storage = tensor.untyped_storage()
                self._seen.add(key)
                self.live += storage.nbytes()
                weakref.finalize(storage, self._released, key, storage.nbytes())
        self.peak = max(self.peak, self.live)
        return result

    def _released(self, key: int, size: int) -> None:
        self._seen.discard(key)
        self.live -= size
