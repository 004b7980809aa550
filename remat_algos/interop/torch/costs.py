"""Costs of operators, computed from their FLOPs and bytes or measured by timing each operator."""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import fx
from torch.fx.node import map_arg
from torch.utils.flop_counter import flop_registry

from remat_algos.cost.devices import DTYPES
from remat_algos.cost.node_costs import AnyDevice, Cost, operator_costs
from remat_algos.errors import ArgumentError, warn
from remat_algos.interop.torch.stable_names import Operator, storage_key, without_modes
from remat_algos.interop.torch.storages import allocator_peak, tensors
from remat_algos.ir.arrays import Int64

PROFILE = "profile"
_probed: dict[Any, tuple[int, int]] = {}  # signature -> (ns, workspace bytes)


@dataclass(frozen=True, slots=True)
class Layout:
    """Shape, strides, dtype and device of a tensor, without its elements."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device

    @classmethod
    def of(cls, arguments: Any) -> Any:
        """Replace each tensor in arguments or results by its layout."""
        if isinstance(arguments, torch.Tensor):
            return cls(tuple(arguments.shape), arguments.stride(), arguments.dtype, arguments.device)
        if isinstance(arguments, tuple | list):
            return type(arguments)(map(cls.of, arguments))
        if isinstance(arguments, Mapping):
            return {name: cls.of(each) for name, each in arguments.items()}
        return arguments


@dataclass(frozen=True, slots=True)
class Call:
    """A call of an operator: everything that determines its cost, without references to tensors."""

    operator: Any
    arguments: tuple[Any, Any, torch.device]  # args, kwargs, device
    flops: int
    bytes_moved: int
    size: int
    dtype: str

    @classmethod
    def of(cls, operator: Any, args: Any, kwargs: Any, result: Any) -> "Call":
        count = flop_registry.get(getattr(operator, "overloadpacket", None))
        flops = 0 if count is None else int(count(*args, **kwargs, out_val=result))
        inputs = {id(each): each for each in tensors((args, kwargs))}
        present = [*tensors(result), *inputs.values()]
        moved = sum(int(each.numel()) * each.itemsize for each in present)
        first = next(tensors(result), None)
        device = present[0].device if present else torch.device("cpu")
        size, dtype = (0, "") if first is None else (int(first.numel()), str(first.dtype).removeprefix("torch."))
        return cls(operator, (Layout.of(args), Layout.of(kwargs), device), flops, moved, size, dtype)

    @classmethod
    def of_node(cls, node: fx.Node) -> "Call":
        args, kwargs = map_arg((node.args, node.kwargs), lambda read: read.meta["val"])
        return cls.of(node.target, args, kwargs, node.meta["val"])


def price(
    calls: list[Call | None], cost: Cost, workspace: bool, device: AnyDevice | None = None
) -> tuple[Int64, Int64, str]:
    """Return the compute and the workspace of each call, and the unit of compute; None costs nothing."""
    if device == PROFILE:
        cost, device = PROFILE, None
    probes = [probe(call) if call is not None and (workspace or cost == PROFILE) else (0, 0) for call in calls]
    if cost == PROFILE:
        compute, unit = np.array([ns for ns, _ in probes], np.int64), "ns"
    else:
        counts = [(0, 0, 0, "") if c is None else (c.flops, c.bytes_moved, c.size, c.dtype) for c in calls]
        flops, moved, sizes, kinds = map(list, zip(*counts, strict=True)) if counts else ([], [], [], [])
        products = [size if work else 0 for size, work in zip(sizes, flops, strict=True)]
        dtypes = [kind if kind in DTYPES else "" for kind in kinds]
        compute, unit = operator_costs(cost, flops, moved, products, device=device, dtypes=dtypes)
    return compute, np.array([size if workspace else 0 for _, size in probes], np.int64), unit


def check_times(cost: Cost, device: AnyDevice | None) -> None:
    """Raise ValueError unless costs are times on a known device; plans with copies to the host require such costs."""
    if device is None and isinstance(cost, str) and cost != PROFILE:
        raise ArgumentError(
            'a link needs costs that are times on your device, but cost "{cost}" gives no times without a device; '
            'set device to a name such as "h100-sxm", to a file of `remat calibrate`, or to "profile", which times '
            "the operators on this machine",
            cost=cost,
        )


def probe(call: Call) -> tuple[int, int]:
    """Return the time of a call in ns and the bytes it allocates besides its results; equal calls are measured once."""
    if not isinstance(call.operator, Operator):
        return 0, 0
    signature = str(call.operator), repr(call.arguments)
    if signature not in _probed:
        with without_modes(), torch.no_grad(), torch.random.fork_rng():
            args, kwargs, device = map(_numbers, call.arguments)
            try:
                _probed[signature] = _run(lambda: call.operator(*args, **kwargs), device)
            except RuntimeError as error:
                _probed[signature] = 0, 0
                warn(
                    "{name} could not be measured, so its time and workspace count as 0: {reason!p}",
                    name=str(call.operator),
                    reason=" ".join(str(error).split()),
                )
    return _probed[signature]


def _numbers(argument: Any) -> Any:
    """Replace layouts by tensors. Elements are random between 0 and 1; integers are 0, which is a valid index."""
    if isinstance(argument, tuple | list):
        return type(argument)(map(_numbers, argument))
    if isinstance(argument, Mapping):
        return {name: _numbers(each) for name, each in argument.items()}
    if not isinstance(argument, Layout):
        return argument
    pairs = zip(argument.shape, argument.stride, strict=True)
    n_stored = 0 if 0 in argument.shape else sum((size - 1) * stride for size, stride in pairs) + 1
    stored = torch.zeros(n_stored, dtype=argument.dtype, device=argument.device)
    if argument.dtype.is_floating_point:
        stored.uniform_()
    # The storage is filled before this view is created, because elements of the view may overlap.
    return stored.as_strided(argument.shape, argument.stride)


def _run(call: Callable[[], Any], device: torch.device) -> tuple[int, int]:
    """Return the median time of three calls in ns, after a warm-up, and the bytes a call allocates besides results."""
    call()
    times = []
    for _ in range(3):
        _wait(device)
        start = time.perf_counter_ns()
        call()
        _wait(device)
        times.append(time.perf_counter_ns() - start)
    results: list[Any] = []
    peak = allocator_peak(lambda: results.append(call()), [torch.empty(0, device=device)])
    stored = {storage_key(tensor): tensor.untyped_storage().nbytes() for tensor in tensors(results)}
    return int(statistics.median(times)), max(0, peak - sum(stored.values()))


def _wait(device: torch.device) -> None:
    if device.type != "cpu":
        torch.get_device_module(device).synchronize(device)
