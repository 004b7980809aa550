"""Figures 3, 15b, 18b and 22b of echo2020: samples per second against the batch, by a roofline with occupancy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from docs.reproductions.echo2020.networks import DEVICE, NMT, Workload
from docs.reproductions.echo2020.runs import BASELINE, ECHO, NetworkRuns
from docs.reproductions.page import Table
from remat_algos.cost.devices import get_device
from remat_algos.cost.links import units_per_second
from remat_algos.ir.graph import ComputationGraph
from remat_algos.zoo.registry import build

SIDES = (64, 128)  # of the square tiles of a product that one multiprocessor computes at a time
RESNET_50 = Workload(
    "ResNet-50", partial(build, "resnet"), (4, 8, 16, 32, 64), 32, "momentum", {"depth": 50, "preactivation": True}
)
NMT_FROM_8 = replace(NMT, batches=(8, 16, 32, 64, 128))


def growth() -> Table:
    """Samples per second of Baseline at doubling batches, relative to the batch before."""
    kinds = ("roofline", *(f"tiles of {side}" for side in SIDES))
    columns: dict[str, Callable[[Any], str]] = {"network": str, "batch": str}
    columns |= dict.fromkeys(kinds, "{:.3g}".format)
    columns |= dict.fromkeys((f"growth, {kind}" for kind in kinds), "{:.2f}".format)
    rows = []
    for workload in (RESNET_50, NMT_FROM_8):
        before: list[float] = []
        for batch in workload.batches:
            now = rates(workload, batch)
            ratios = [round(rate / last, 4) for rate, last in zip(now, before, strict=True)] if before else [None] * 3
            rows.append((workload.label, batch, *now, *ratios))
            before = now
    note = "Growth is the factor by which samples per second rise when the batch doubles: 2 is linear growth, 1 none."
    return Table("growth", "Samples per second of Baseline against the batch (Figure 3)", columns, rows, note)


def rates(workload: Workload, batch: int) -> list[float]:
    """Samples per second of Baseline, without occupancy and with tiles of each size."""
    steps = [workload.training(forward) for forward in (workload.forward(batch), *_occupied(workload, batch))]
    return [_rate(batch, step, step.needed_compute) for step in steps]


def throughputs(cases: Sequence[NetworkRuns]) -> Table:
    """Samples per second of Baseline and Echo at each batch, without occupancy and with tiles of each size."""
    columns: dict[str, Callable[[Any], str]] = {"network": str, "batch": str}
    for name in (BASELINE, ECHO):
        columns |= dict.fromkeys((name, *(f"{name}, tiles of {side}" for side in SIDES)), "{:.3g}".format)
    rows = [(case.workload.label, case.batch, *_rates_of_runs(case)) for case in cases]
    note = (
        "Tiles of 128 are squares of 128 x 128 elements. Tiles run in waves of one per multiprocessor; the compute "
        "time of a product is that of its waves, rounded up."
    )
    return Table("occupancy", "Samples per second by a roofline with occupancy", columns, rows, note)


def _rates_of_runs(case: NetworkRuns) -> list[float]:
    """Samples per second of Baseline, without occupancy and with tiles of each size, then of Echo."""
    workload, found = case.workload, []
    occupied = _occupied(workload, case.batch)
    for name in (BASELINE, ECHO):
        run = case.runs[name]
        priced = [workload.training(forward, encoded=name == ECHO) for forward in occupied]
        found += [_rate(case.batch, graph, int(graph.compute[run.order].sum())) for graph in (run.graph, *priced)]
    return found


def _occupied(workload: Workload, batch: int) -> list[ComputationGraph]:
    """The forward part with costs with occupancy, for tiles of each size."""
    devices = [replace(get_device(DEVICE), tile=side) for side in SIDES]
    return [workload.forward(batch, cost="occupancy", device=device) for device in devices]


def _rate(batch: int, graph: ComputationGraph, compute: int) -> float:
    """Samples per second, from costs of a graph."""
    return round(batch * units_per_second(graph) / compute, 2)
