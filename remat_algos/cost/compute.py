"""Compute cost of nodes."""

import os
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from remat_algos.cost.devices import Device, get_device, named_device
from remat_algos.cost.shapes import unknown_name
from remat_algos.errors import GraphError
from remat_algos.ir.arrays import Float64, Int64, frozen
from remat_algos.ir.kinds import operation_kind

COSTS = ("flops", "paper", "unit", "roofline", "occupancy", "measured")
"""Methods of counting."""

DEFAULT_DEVICE = "A100 80GB"
"""The default device of a roofline."""

TIMED = ("roofline", "occupancy", "measured")  # methods that need a device
_HEAVY, _LIGHT = 10, 1  # kusumoto2019, section 3


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
    """The cost of running each node once, int64[n], and its unit: "FLOPs", "ns", or "" for pure numbers.

    `flops` count a multiplication and an addition as two; `products` has the number of elements of the result of each
    node that is a product of matrices or a convolution, 0 for other nodes, for "occupancy".

    "flops": FLOPs. "paper": 10 for the operation Convolution, 1 for all others, transposed convolution too
    (kusumoto2019, section 3). "unit": 1. "roofline": the launch and the longer of computing and moving bytes, in ns, at
    least 1; 0 without FLOPs and bytes, since nothing is launched. "occupancy": the same, but products compute whole
    waves of tiles. "measured": a roofline on a device that was measured, in a file that `remat calibrate` wrote.

    Examples
    --------
    >>> ops, flops, moved = ["Convolution", "ReLU"], [10**9, 10**6], [10**6, 8 * 10**6]
    >>> compute_costs(ops, flops, moved, cost="paper")[0].tolist()
    [10, 1]
    >>> costs, unit = compute_costs(ops, flops, moved, cost="roofline", device="V100 16GB")
    >>> costs.tolist(), unit
    ([68694, 13889], 'ns')

    A result of 400,000 elements takes two waves of 80 tiles of 64 x 64, as one of 655,360 would:

    >>> compute_costs(ops, flops, moved, cost="occupancy", device="V100 16GB", products=[400_000, 0])[0].tolist()
    [109357, 13889]
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
    return frozen([_HEAVY if op in heavy else _LIGHT for op in ops], np.int64), ""


def _convolutions(ops: Sequence[str]) -> set[str]:
    """Names of operations that are convolutions; frameworks differ."""
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
        given = "no device" if device is None else "'{device!p}', whose numbers are those of its data sheet"
        remedy = "; run `remat calibrate -o my_device.json` and name that file"
        raise GraphError('cost "measured" was given ' + given + remedy, device=device)
    return get_device(DEFAULT_DEVICE if device is None else device)


def _in_waves(flops: Int64, products: ArrayLike | None, wave: int) -> Float64:
    """FLOPs, those of products with their results padded to whole waves.

    The quotient of two of Python's integers is the float nearest to the exact one. So neither padding nor a larger
    batch ever makes a product faster, and whole waves have the FLOPs of the product.
    """
    if products is None:
        raise GraphError('cost "occupancy" was given no products; give the elements of each, and 0 for other nodes')
    sizes = _counts(products, "products", flops.size)
    each = zip(flops.tolist(), sizes.tolist(), strict=True)
    return np.array([work * (-(-size // wave) * wave) / size if size else work for work, size in each], np.float64)


def _roofline(flops: Int64 | Float64, moved: Int64, device: Device, dtype: str) -> Int64:
    seconds = device.launch + np.maximum(flops / device.rate(dtype), moved / device.bandwidth)
    launched = (flops > 0) | (moved > 0)
    return frozen(np.where(launched, np.maximum(np.rint(1e9 * seconds), 1), 0), np.int64, "roofline")
