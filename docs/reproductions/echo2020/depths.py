"""Table IV of echo2020: the maximum number of layers that fit on one card."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any

from docs.reproductions.echo2020.networks import DEVICE, RESNET, TRANSFORMER, Workload
from docs.reproductions.echo2020.runs import BASELINE, STRATEGIES, run
from docs.reproductions.page import Table
from remat_algos.context import Progress
from remat_algos.cost.devices import get_device
from remat_algos.zoo.registry import get_family

MAX_BATCH, MAX_LAYERS, MAX_DEPTH = 512, 40, 600
PUBLISHED_DEPTHS = (50, 101, 152, 200)
PAPER_LAYERS = {"Transformer": (6, 6, 11), "ResNet": (50, 101, 200)}


def footprint(workload: Workload, strategy: str, batch: int, **options: Any) -> int:
    """Bytes of a network under a strategy."""
    return run(workload, workload.forward(batch, **options), strategy).footprint


def largest_fitting(sizes: Sequence[int], footprint_of: Callable[[int], int], room: int) -> int | None:
    """The largest of increasing sizes that fits; None if the first does not.

    Examples
    --------
    >>> largest_fitting(range(1, 100), lambda n: n * n, 50), largest_fitting([8], lambda n: n * n, 50)
    (7, None)
    """
    n_fitting = bisect_right(sizes, room, key=footprint_of)
    return sizes[n_fitting - 1] if n_fitting else None


def table_4(progress: Progress | None = None, room: int | None = None) -> Table:
    """Table IV: our layers beside the paper's."""
    room = get_device(DEVICE).memory if room is None else room
    depths = get_family("resnet").values("depth", "resnet", {}) or ()
    families = {
        "Transformer": (TRANSFORMER, range(6, MAX_LAYERS + 1)),
        "ResNet": (RESNET, [depth for depth in depths if 50 <= depth <= MAX_DEPTH]),
    }
    columns: dict[str, Callable[[Any], str]] = {"network": str, "batch": str}
    columns |= dict.fromkeys((f"{strategy}{of}" for of in ("", ", paper") for strategy in STRATEGIES), str)
    rows: list[tuple[Any, ...]] = []
    for name, (workload, layers) in families.items():
        batch = largest_fitting(range(1, MAX_BATCH + 1), _by_batch(workload, layers[0], progress), room) or 1
        ours = [
            largest_fitting(layers, _by_depth(workload, batch, strategy, progress), room) for strategy in STRATEGIES
        ]
        rows.append((name, batch, *ours, *PAPER_LAYERS[name]))
    return Table("table4", "Layers in 11 GiB (Table IV)", columns, rows)


def _by_batch(workload: Workload, depth: int, progress: Progress | None) -> Callable[[int], int]:
    """Footprint without rematerialization, as a function of the batch."""
    return lambda batch: _by_depth(workload, batch, BASELINE, progress)(depth)


def _by_depth(workload: Workload, batch: int, strategy: str, progress: Progress | None) -> Callable[[int], int]:
    """Footprint as a function of the depth."""

    def footprint_at(depth: int) -> int:
        if progress is not None:
            progress(0, 1, f"{workload.label}, depth {depth}, batch {batch}, {strategy}")
        return footprint(workload, strategy, batch, depth=depth)

    return footprint_at
