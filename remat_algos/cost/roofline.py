"""Cost of the operators of a captured model."""

from collections.abc import Callable, Sequence

import numpy as np

from remat_algos.cost.compute import compute_costs
from remat_algos.cost.devices import Device
from remat_algos.cost.shapes import unknown_name
from remat_algos.errors import GraphError
from remat_algos.ir.arrays import Int64, frozen
from remat_algos.text.wording import quoted

Cost = str | Callable[[int, int], float]
"""A method of counting operators: "roofline", "occupancy", "flops", or a function from (FLOPs, bytes) to ns."""

OPERATOR_DEVICE = Device(
    "operators", {"float32": 1e13}, bandwidth=1.5e12, launch=4e-6, memory=2**34, multiprocessors=108
)
"""The device of the roofline: 10 TFLOP/s, 1.5 TB/s, 4 us per operator, and the multiprocessors of an A100."""

OPERATOR_COSTS = ("roofline", "occupancy", "flops")
"""The methods of counting that have a name."""


def operator_costs(
    cost: Cost, flops: Sequence[int], bytes_moved: Sequence[int], products: Sequence[int]
) -> tuple[Int64, str]:
    """The cost of running each operator of a captured model once, and its unit.

    Parameters
    ----------
    cost : {"roofline", "occupancy", "flops"} or callable
        "roofline": 4 us, and the longer of computing at 10 TFLOP/s and moving bytes at 1.5 TB/s, in ns; 0 without
        FLOPs and bytes. "occupancy": the same, with products in whole waves of 108 tiles of 64 x 64. "flops": FLOPs. A
        callable gives the ns of (FLOPs, bytes), rounded here.
    flops : sequence of int
        FLOPs of each operator, a multiplication and an addition counted as two.
    bytes_moved : sequence of int
        Bytes that each operator reads and writes.
    products : sequence of int
        Number of elements of the result of each operator that is a product of matrices or a convolution, 0 for others.

    Returns
    -------
    costs : int64[n]
    unit : str
        "ns" or "FLOPs".

    Raises
    ------
    GraphError
        For an unknown name, or a callable that returns anything but a number of 0 or more.
    TypeError
        If `cost` is neither a name nor a callable.

    Examples
    --------
    >>> costs, unit = operator_costs("roofline", [10**9, 0], [10**6, 3 * 10**6], [1000, 0])
    >>> costs.tolist(), unit
    ([104000, 6000], 'ns')
    >>> operator_costs(lambda flops, moved: flops / 1e3, [10**6], [0], [0])[0].tolist()
    [1000]
    """
    if callable(cost):
        counts = zip(flops, bytes_moved, strict=True)
        return frozen([_whole_ns(cost(int(work), int(moved))) for work, moved in counts], np.int64), "ns"
    if not isinstance(cost, str):
        raise TypeError(
            f'cost is a {type(cost).__name__}; give "roofline", "occupancy", "flops" or a function of FLOPs and bytes'
        )
    if cost not in OPERATOR_COSTS:
        raise unknown_name("cost", cost, OPERATOR_COSTS)
    device = None if cost == "flops" else OPERATOR_DEVICE
    return compute_costs([""] * len(flops), flops, bytes_moved, cost=cost, device=device, products=products)


def _whole_ns(amount: float) -> int:
    try:
        whole = round(amount)
    except (TypeError, ValueError, OverflowError):
        whole = -1
    if whole < 0:
        raise GraphError(f"the cost function gave {quoted(amount)}; give ns, a number of 0 or more")
    return whole
