"""Costs of operators, by counting, or by running each separately."""

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import fx
from torch.fx.node import map_arg
from torch.utils.flop_counter import flop_registry

from remat_algos.cost.devices import DTYPES
from remat_algos.cost.node_costs import AnyDevice, Cost, operator_costs
from remat_algos.errors import ArgumentError, warn
from remat_algos.interop.torch.private_names import Operator, storage_key, without_modes
from remat_algos.interop.torch.storages import allocator_peak, tensors
from remat_algos.ir.arrays import Int64

PROFILE = "profile"
RUNS = 3  # timed runs, after an untimed one
_probed: dict[Any, tuple[int, int]] = {}  # signature: ns, bytes of workspace


def price(
    operators: list[fx.Node | None], cost: Cost, workspace: bool, device: AnyDevice | None = None
) -> tuple[Int64, Int64, str]:
    """Compute and workspace of operators, and the unit of compute; None is a node without an operation.

    The cost or the device "profile" is the median of three runs, in ns. With `workspace` each kind of call runs once,
    to measure its bytes beyond its results.
    """
    if device == PROFILE:
        cost, device = PROFILE, None
    probes = [probe(node) if node is not None and (workspace or cost == PROFILE) else (0, 0) for node in operators]
    if cost == PROFILE:
        compute, unit = np.array([ns for ns, _ in probes], np.int64), "ns"
    else:
        results = [None if node is None else next(tensors(node.meta["val"]), None) for node in operators]
        flops = [0 if node is None else count_flops(node) for node in operators]
        moved = [0 if node is None else moved_bytes(node) for node in operators]
        sizes = [0 if result is None else int(result.numel()) for result in results]
        products = [size if work else 0 for size, work in zip(sizes, flops, strict=True)]
        kinds = ["" if result is None else str(result.dtype).removeprefix("torch.") for result in results]
        dtypes = [kind if kind in DTYPES else "" for kind in kinds]
        compute, unit = operator_costs(cost, flops, moved, products, device=device, dtypes=dtypes)
    return compute, np.array([size if workspace else 0 for _, size in probes], np.int64), unit


def check_times(cost: Cost, device: AnyDevice | None) -> None:
    """Raise ValueError if costs are no times, as a link needs them."""
    if device is None and isinstance(cost, str) and cost != PROFILE:
        raise ArgumentError(
            'a link needs costs that are times, and cost "{cost}" without a device gives none; give device= a'
            ' name such as "h100-sxm", a file of `remat calibrate`, or "profile", which times operators here',
            cost=cost,
        )


def count_flops(node: fx.Node) -> int:
    """Floating-point operations of a call, as counted by PyTorch; 0 for calls that it does not count."""
    count = flop_registry.get(getattr(node.target, "overloadpacket", None))
    if count is None:
        return 0
    args, kwargs = map_arg((node.args, node.kwargs), lambda read: read.meta["val"])
    return int(count(*args, **kwargs, out_val=node.meta["val"]))


def moved_bytes(node: fx.Node) -> int:
    """Bytes that a call reads and writes."""
    moved = tensors([each.meta["val"] for each in (node, *node.all_input_nodes)])
    return sum(int(tensor.numel()) * tensor.itemsize for tensor in moved)


def probe(node: fx.Node) -> tuple[int, int]:
    """Time in ns, and bytes beyond the results, of a call on tensors of the same shapes; once per kind of call."""
    if not isinstance(node.target, Operator):
        return 0, 0
    signature = (str(node.target), repr(map_arg((node.args, node.kwargs), lambda read: _Shown(read.meta["val"]))))
    if signature not in _probed:
        with without_modes(), torch.no_grad(), torch.random.fork_rng():
            args, kwargs = map_arg((node.args, node.kwargs), lambda read: _numbers(read.meta["val"]))
            try:
                _probed[signature] = _run(lambda: node.target(*args, **kwargs), _device(node))
            except RuntimeError as error:  # the operator rejects these tensors
                _probed[signature] = 0, 0
                warn(
                    "{name} could not be measured, so its time and workspace count as 0: {reason!p}",
                    name=node.name,
                    reason=" ".join(str(error).split()),
                )
    return _probed[signature]


class _Shown(str):
    """A description in place of a node."""

    __slots__ = ()

    def __new__(cls, result: Any) -> "_Shown":
        described = ((tuple(t.shape), t.stride(), t.dtype, t.device) for t in tensors(result))
        return super().__new__(cls, tuple(described))


def _device(node: fx.Node) -> torch.device:
    read = tensors([each.meta["val"] for each in (node, *node.all_input_nodes)])
    return next((tensor.device for tensor in read), torch.device("cpu"))


def _numbers(result: Any) -> Any:
    """Return a tensor of the same layout with numbers between 0 and 1, or zeros, which are valid indices."""
    if isinstance(result, tuple | list):
        return type(result)(map(_numbers, result))
    if not isinstance(result, torch.Tensor):
        return result
    n_stored = sum((size - 1) * stride for size, stride in zip(result.shape, result.stride(), strict=True)) + 1
    stored = torch.zeros(n_stored if result.numel() else 0, dtype=result.dtype, device=result.device)
    if result.dtype.is_floating_point:
        stored.uniform_()
    return stored.as_strided(result.shape, result.stride())  # elements may share a place, so it is filled first


def _run(call: Callable[[], Any], device: torch.device) -> tuple[int, int]:
    """Median time of a call, and the maximum of its bytes beyond its results."""
    call()
    times = []
    for _ in range(RUNS):
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
