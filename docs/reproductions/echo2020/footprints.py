"""Figures 15, 18 and 22 of echo2020: footprints and overheads over batch sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from docs.reproductions.echo2020.networks import DEVICE, Workload
from docs.reproductions.echo2020.runs import ECHO, MIRROR, STRATEGIES, NetworkRuns, mirrored
from docs.reproductions.page import Table, percent
from remat_algos.context import Progress
from remat_algos.cost.devices import get_device
from remat_algos.plot.axes import byte_axis
from remat_algos.plot.colours import BLUE, GREEN, GREY, ORANGE
from remat_algos.wording import format_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = dict(zip(STRATEGIES, (BLUE, ORANGE, GREEN), strict=True))


def footprints(cases: Sequence[NetworkRuns]) -> Table:
    """Bytes of each strategy, by network and batch."""
    columns: dict[str, Callable[[Any], str]] = {"network": str, "batch": str, "weights": format_bytes}
    columns |= dict.fromkeys(STRATEGIES, format_bytes)
    columns |= dict.fromkeys(("Baseline / Echo", "Mirror / Echo"), "{:.2f}".format)
    columns |= dict.fromkeys((f"{MIRROR}, overhead", f"{ECHO}, overhead"), percent)
    rows = [
        (
            case.workload.label,
            case.batch,
            case.baseline.weights,
            *(case.runs[name].footprint for name in STRATEGIES),
            case.ratio(),
            case.ratio(MIRROR),
            case.mirror.overhead,
            case.echo.overhead,
        )
        for case in cases
    ]
    return Table("footprints", "Footprints and overheads (Figures 15a, 18a and 22)", columns, rows)


def counting(cases: Sequence[NetworkRuns]) -> Table:
    """The simulated peak beside the static plan."""
    columns: dict[str, Callable[[Any], str]] = {"network": str}
    columns |= {f"{name}, {how}": format_bytes for name in STRATEGIES for how in ("peak", "plan")}
    columns |= {"Mirror that reads mirrors, plan": format_bytes}
    rows = []
    for case in cases:
        both = [bytes_ for name in STRATEGIES for bytes_ in (case.runs[name].live, case.runs[name].footprint)]
        rows.append((case.workload.label, *both, mirrored(case.baseline.graph).footprint))
    return Table("counting", "Simulated peak and static plan, both with residents", columns, rows)


def overheads(cases: Sequence[NetworkRuns]) -> Table:
    """Overheads by three costs."""
    columns: dict[str, Callable[[Any], str]] = {"network": str, "strategy": str}
    columns |= dict.fromkeys(("roofline", "without launches", "FLOPs"), percent)
    columns |= {"samples per second": "{:,.1f}".format}
    rows: list[tuple[Any, ...]] = []
    for case in cases:
        free = _priced(case, device=replace(get_device(DEVICE), launch=0))
        counted = _priced(case, cost="flops", device=None)
        for name, run in case.runs.items():
            costs = (run.overhead, run.overhead_in(free), run.overhead_in(counted))
            rows.append((case.workload.label, name, *costs, case.throughput(name)))
    return Table("overheads", "Overheads by three costs", columns, rows)


def _priced(case: NetworkRuns, **options: Any) -> Any:
    return case.workload.training(case.workload.forward(case.batch, **options))


def sensitivity(
    variants: Sequence[tuple[Workload, str, dict[str, Any]]], cases: Sequence[NetworkRuns], progress: Progress | None
) -> Table:
    """Footprints by other choices for settings that the paper does not give."""
    columns: dict[str, Callable[[Any], str]] = {"network": str, "difference": str}
    columns |= dict.fromkeys(STRATEGIES, format_bytes)
    columns |= dict.fromkeys(("Baseline / Echo", "Mirror / Echo"), "{:.2f}".format)
    columns |= {"Echo, overhead": percent}
    rows_of = [(case.workload.label, "", case) for case in cases]
    for workload, what, options in variants:
        rows_of.append((workload.label, what, NetworkRuns.of(workload, workload.batch, progress, **options)))
    order = [case.workload.label for case in cases]
    rows = [
        (
            label,
            what,
            *(case.runs[name].footprint for name in STRATEGIES),
            case.ratio(),
            case.ratio(MIRROR),
            case.echo.overhead,
        )
        for label, what, case in sorted(rows_of, key=lambda row: order.index(row[0]))
    ]
    note = "The first row of each network has the settings of the other tables."
    return Table("sensitivity", "Other choices", columns, rows, note)


def plot_footprints(cases: Sequence[NetworkRuns], room: int) -> Axes:
    """A panel for each network: bars of each strategy over batch sizes, a line at the memory of the card.

    Parameters
    ----------
    cases : sequence of NetworkRuns
    room : int
        Bytes of the card.

    Returns
    -------
    Axes
        Axes of the first panel.
    """
    from matplotlib.figure import Figure

    labels = list(dict.fromkeys(case.workload.label for case in cases))
    columns = min(len(labels), 3)
    rows = -(-len(labels) // columns)
    drawn = Figure(figsize=(2.5 * columns, 2.8 * rows), layout="constrained")
    panels = drawn.subplots(rows, columns, squeeze=False).flatten().tolist()
    for unused in panels[len(labels) :]:
        unused.axis("off")
    wide = 0.8 / len(STRATEGIES)
    for ax, label in zip(panels, labels, strict=False):
        own = [case for case in cases if case.workload.label == label]
        for k, name in enumerate(STRATEGIES):
            places = [i + (k - 1) * wide for i in range(len(own))]
            ax.bar(places, [case.runs[name].footprint for case in own], wide, color=COLOURS[name], label=name)
        ax.axhline(room, color=GREY, linestyle="--", linewidth=1, label=f"the card, {format_bytes(room)}")
        ax.set_xticks(range(len(own)), [str(case.batch) for case in own])
        byte_axis(ax.yaxis, max(case.baseline.footprint for case in own), "footprint")
        ax.set_xlabel("batch size")
        ax.set_title(label, fontsize=10)
    for i, ax in enumerate(panels):
        if i % columns:
            ax.set_ylabel(ax.get_ylabel().removeprefix("footprint "))
    handles, names = panels[0].get_legend_handles_labels()
    if len(labels) < len(panels):
        panels[-1].legend(handles, names, loc="center", frameon=False)
    else:
        drawn.legend(handles, names, loc="outside right upper", frameon=False)
    return panels[0]


def largest(cases: Sequence[NetworkRuns], workload: Workload, strategy: str, room: int) -> int | None:
    """The largest of the measured batches that fits on the card."""
    own = (case for case in cases if case.workload.label == workload.label)
    return max((case.batch for case in own if case.runs[strategy].footprint <= room), default=None)
