"""Figures 3b, 15b and 22b of echo2020: samples per second against the batch, by a roofline with occupancy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from remat_algos.cost.devices import get_device
from remat_algos.ir.graph import ComputationGraph
from remat_algos.reproduce.echo2020.networks import DEVICE, FLOAT
from remat_algos.reproduce.echo2020.runs import BASELINE, ECHO, NetworkRuns, SimulatedRun
from remat_algos.reproduce.page import Table

MULTIPROCESSORS = 68  # of the RTX 2080 Ti (NVIDIA, Turing GPU Architecture, 2018)
SIDES = (64, 128)  # of the square tiles of an output that one multiprocessor computes at a time


def throughputs(cases: Sequence[NetworkRuns]) -> Table:
    """Samples per second of Baseline and Echo at each batch, without occupancy and with tiles of each size."""
    columns: dict[str, Callable[[Any], str]] = {"network": str, "batch": str}
    for name in (BASELINE, ECHO):
        columns |= dict.fromkeys((name, *(f"{name}, tiles of {side}" for side in SIDES)), "{:.3g}".format)
    rows = []
    for case in cases:
        rates = (rate for name in (BASELINE, ECHO) for rate in _rates(case, name))
        rows.append((case.workload.label, case.batch, *rates))
    note = (
        "A tile is a square of that many elements on a side. Tiles run in waves of one per multiprocessor; the compute "
        "time of an operation is that of its waves, rounded up."
    )
    return Table("occupancy", "Samples per second by a roofline with occupancy", columns, rows, note)


def _rates(case: NetworkRuns, name: str) -> list[float]:
    """Samples per second of a strategy without occupancy, then with tiles of each size."""
    workload, run = case.workload, case.runs[name]
    counted = workload.training(workload.forward(case.batch, cost="flops", device=None), encoded=name == ECHO)
    times = [run.compute, *(with_occupancy(run, counted, side) for side in SIDES)]
    return [round(1e9 * case.batch / time, 2) for time in times]


def with_occupancy(run: SimulatedRun, counted: ComputationGraph, side: int) -> float:
    """Nanoseconds of a run in which a last wave of few tiles takes as long as a full one.

    Parameters
    ----------
    run : SimulatedRun
        On a graph with times by the roofline.
    counted : ComputationGraph
        The same graph with FLOPs.
    side : int
        Side of a tile in elements.
    """
    device, graph, order = get_device(DEVICE), run.graph, run.order
    launch = 1e9 * device.launch
    times = graph.compute[order].astype(float)
    largest = np.maximum.reduceat(graph.memory, graph.value_indptr[:-1])[order]
    tiles = np.ceil(largest / (FLOAT * side * side))
    waves = np.ceil(tiles / MULTIPROCESSORS) * MULTIPROCESSORS
    # gradients of parameters lie in the parameters' own bytes and have none here: their occupancy is not known
    occupied = np.where(tiles > 0, waves / np.maximum(tiles, 1), 1)
    computing = 1e9 * counted.compute[order] / device.rate("float32") * occupied
    return float(np.where(times > launch, np.maximum(times, launch + computing), times).sum())
