"""Compute costs of nodes, and of the operators of captured models."""

import os
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from remat_algos.cost.devices import Device, get_device, named_device, unknown_name
from remat_algos.errors import ArgumentTypeError, GraphError
from remat_algos.ir.arrays import Float64, Int64, frozen
from remat_algos.ir.kinds import operation_kind

COSTS = ("flops", "paper", "unit", "roofline", "occupancy", "measured")
DEFAULT_DEVICE = "A100 80GB"
TIMED = ("roofline", "occupancy", "measured")  # methods that need a device


def compute_costs(
    ops: Sequence[str],
    flops: ArrayLike,
    bytes_moved: ArrayLike,
    *,
    cost: str = "flops",
    device: Device | str | os.PathLike[str] | None = None,
    dtype: str = "float32",
    products: ArrayLike | None = None,
) -> tuple[Int64, str]:
    """Return the cost of running each node once, int64[n], and its unit: "FLOPs", "ns", or "" for pure numbers.

    `flops` counts a multiplication and an addition as two operations. `products` is for "occupancy": the number of
    result elements of each node that is a matrix product or a convolution, and 0 for other nodes. Values of `cost`:

    - "flops": FLOPs.
    - "paper": 10 for a convolution, 1 for other operations, even transposed convolutions (kusumoto2019, section 3).
    - "unit": 1.
    - "roofline": the launch time plus the time to compute or to move the bytes, whichever is longer, in ns, at least 1.
      A node that has neither FLOPs nor bytes launches nothing and costs 0.
    - "occupancy": the same, but products compute whole waves of tiles.
    - "measured": a roofline on a measured device, from a file that `remat calibrate` wrote.
    """
    if cost not in COSTS:
        raise unknown_name("cost", cost, COSTS)
    work, moved = _counts(flops, "flops", len(ops)), _counts(bytes_moved, "bytes_moved", len(ops))
    if cost in TIMED:
        chosen = _chosen(cost, device)
        amount = _in_waves(work, products, chosen.wave) if cost == "occupancy" else work
        return _roofline(amount, moved, chosen, dtype), "ns"
    if device is not None:
        raise GraphError('cost "{cost}" needs no device; leave it out, or use cost "roofline"', cost=cost)
    if cost == "flops":
        return work, "FLOPs"
    heavy = _convolutions(ops) if cost == "paper" else set()
    return frozen([10 if op in heavy else 1 for op in ops], np.int64), ""  # kusumoto2019, section 3


def _convolutions(ops: Sequence[str]) -> set[str]:
    kinds = {op: operation_kind(op) for op in ops}
    return {op for op, kind in kinds.items() if kind is not None and kind.name == "Convolution"}


def _counts(numbers: ArrayLike, what: str, size: int) -> Int64:
    counts = frozen(numbers, np.int64, what, size)
    if size and counts.min() < 0:
        at = int(np.argmin(counts))
        raise GraphError("{what!w}[{at}] is {count}; give 0 or more", what=what, at=at, count=counts[at])
    return counts


def _chosen(cost: str, device: Device | str | os.PathLike[str] | None) -> Device:
    if isinstance(device, Device):
        return device
    if cost == "measured" and (device is None or (isinstance(device, str) and named_device(device))):
        device_text = "no device" if device is None else "'{device!p}', whose rates come from a data sheet"
        remedy = "; run `remat calibrate -o my_device.json` and name that file"
        raise GraphError('cost "measured" was given ' + device_text + remedy, device=device)
    return get_device(DEFAULT_DEVICE if device is None else device)


def _in_waves(flops: Int64, products: ArrayLike | None, wave: int) -> Float64:
    """Return the FLOPs of nodes after padding the results of matrix products to whole waves of tiles.

    Each quotient is computed from two integers, and Python rounds such quotients correctly. So neither padding nor a
    larger batch ever makes a product faster, and a product of whole waves keeps its FLOPs.
    """
    if products is None:
        raise GraphError('cost "occupancy" needs products; give the elements of each product, and 0 for other nodes')
    sizes = _counts(products, "products", flops.size)
    each = zip(flops.tolist(), sizes.tolist(), strict=True)
    return np.array([work * (-(-size // wave) * wave) / size if size else work for work, size in each], np.float64)


def _roofline(flops: Int64 | Float64, moved: Int64, device: Device, dtype: str) -> Int64:
    seconds = device.launch + np.maximum(flops / device.rate(dtype), moved / device.bandwidth)
    launched = (flops > 0) | (moved > 0)
    return frozen(np.where(launched, np.maximum(np.rint(1e9 * seconds), 1), 0), np.int64, "roofline")


Cost = str | Callable[[int, int], float]
"""A method of computing operator costs: "roofline", "occupancy", "flops", or a function from (FLOPs, bytes) to ns."""

OPERATOR_COSTS = ("roofline", "occupancy", "flops")
DEVICE_COSTS = ("roofline", "occupancy")
AnyDevice = Device | str | os.PathLike[str]


def operator_costs(
    cost: Cost,
    flops: Sequence[int],
    bytes_moved: Sequence[int],
    products: Sequence[int],
    *,
    device: AnyDevice | None = None,
    dtypes: Sequence[str] | None = None,
) -> tuple[Int64, str]:
    """Return the cost of running each operator of a captured model once, int64[n], and its unit: "ns" or "FLOPs".

    `cost` is as in `compute_costs`, on `DEFAULT_DEVICE` by default; a function takes (FLOPs, bytes) and returns ns. The
    FLOP/s of a device depend on `dtypes`; "" counts as float32.
    """
    if device is not None and cost not in DEVICE_COSTS:
        raise GraphError(
            "only the costs {device_costs!l} use a device; leave out device or cost", device_costs=DEVICE_COSTS
        )
    if callable(cost):
        counts = zip(flops, bytes_moved, strict=True)
        return frozen([_whole_ns(cost(int(work), int(moved))) for work, moved in counts], np.int64), "ns"
    if not isinstance(cost, str):
        raise ArgumentTypeError(
            'cost has type {kind!w}; give "roofline", "occupancy", "flops" or a function of FLOPs and bytes',
            kind=type(cost).__name__,
        )
    if cost not in OPERATOR_COSTS:
        raise unknown_name("cost", cost, OPERATOR_COSTS)
    ops = [""] * len(flops)
    if cost not in DEVICE_COSTS:
        return compute_costs(ops, flops, bytes_moved, cost=cost)
    card = device if isinstance(device, Device) else get_device(DEFAULT_DEVICE if device is None else device)
    kinds = np.array([kind or "float32" for kind in dtypes or [""] * len(flops)])
    ns = np.zeros(len(flops), np.int64)
    for kind in dict.fromkeys(kinds.tolist()):
        amounts = compute_costs(ops, flops, bytes_moved, cost=cost, device=card, dtype=kind, products=products)[0]
        ns = np.where(kinds == kind, amounts, ns)
    return frozen(ns, np.int64), "ns"


def _whole_ns(amount: float) -> int:
    try:
        whole = round(amount)
    except (TypeError, ValueError, OverflowError):
        whole = -1
    if whole < 0:
        raise GraphError("the cost function returned {amount!r}; give ns, a number of 0 or more", amount=amount)
    return whole
