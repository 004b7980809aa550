"""Cost of the operators of a captured model."""

import os
from collections.abc import Callable, Sequence

import numpy as np

from remat_algos.cost.compute import compute_costs
from remat_algos.cost.devices import Device, get_device
from remat_algos.cost.shapes import unknown_name
from remat_algos.errors import ArgumentTypeError, GraphError
from remat_algos.ir.arrays import Int64, frozen

Cost = str | Callable[[int, int], float]
"""A method of counting operators: "roofline", "occupancy", "flops", or a function from (FLOPs, bytes) to ns."""

WEIGHTS = Device("weights", {"float32": 1e13}, bandwidth=1.5e12, launch=4e-6, memory=2**34, multiprocessors=108)
"""Weights without a device: 4000 for an operator, 1 for 10,000 FLOPs or 1500 bytes. They are no times."""

OPERATOR_COSTS = ("roofline", "occupancy", "flops")
"""The methods of counting that have a name."""

DEVICE_COSTS = ("roofline", "occupancy")
"""Those of them that are times on a device."""

AnyDevice = Device | str | os.PathLike[str]
"""A device, its name in the table, or its file."""


def operator_costs(
    cost: Cost,
    flops: Sequence[int],
    bytes_moved: Sequence[int],
    products: Sequence[int],
    *,
    device: AnyDevice | None = None,
    dtypes: Sequence[str] | None = None,
) -> tuple[Int64, str]:
    """The cost of running each operator of a captured model once, int64[n], and its unit: "ns", "FLOPs", or "".

    "roofline": the time on a device, in ns. Without a device 4000, and the larger of FLOPs / 10,000 and bytes / 1500,
    without a unit; 0 without FLOPs and bytes. "occupancy": the same, with products in whole waves of tiles of 64 x 64,
    one on each multiprocessor. "flops": FLOPs. A callable gives the ns of (FLOPs, bytes), rounded here. The FLOP/s of a
    device depend on `dtypes`, by default float32. The other arguments are those of `compute_costs`.

    Examples
    --------
    >>> costs, unit = operator_costs("roofline", [10**9, 0], [10**6, 3 * 10**6], [1000, 0])
    >>> costs.tolist(), unit
    ([104000, 6000], '')
    >>> operator_costs("roofline", [10**9], [10**6], [1000], device="h100-sxm", dtypes=["bfloat16"])[1]
    'ns'
    >>> operator_costs(lambda flops, moved: flops / 1e3, [10**6], [0], [0])[0].tolist()
    [1000]
    """
    if device is not None and cost not in DEVICE_COSTS:
        raise GraphError(
            "a device goes with the costs {device_costs!l}; leave one of device and cost out", device_costs=DEVICE_COSTS
        )
    if callable(cost):
        counts = zip(flops, bytes_moved, strict=True)
        return frozen([_whole_ns(cost(int(work), int(moved))) for work, moved in counts], np.int64), "ns"
    if not isinstance(cost, str):
        raise ArgumentTypeError(
            'cost is a {kind!w}; give "roofline", "occupancy", "flops" or a function of FLOPs and bytes',
            kind=type(cost).__name__,
        )
    if cost not in OPERATOR_COSTS:
        raise unknown_name("cost", cost, OPERATOR_COSTS)
    ops = [""] * len(flops)
    if device is None:
        weights = None if cost == "flops" else WEIGHTS
        costs, unit = compute_costs(ops, flops, bytes_moved, cost=cost, device=weights, products=products)
        return costs, unit if weights is None else ""
    card = device if isinstance(device, Device) else get_device(device)
    kinds = np.array(dtypes or ["float32"] * len(flops))
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
        raise GraphError("the cost function gave {amount!r}; give ns, a number of 0 or more", amount=amount)
    return whole
