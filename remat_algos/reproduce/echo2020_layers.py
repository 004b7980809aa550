"""Figures 4, 5, 16, 21 and 23 of echo2020: where memory and time go, by layer and by data structure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from remat_algos.ir.units import format_bytes
from remat_algos.plan.breakdown import STRUCTURES, Breakdown, breakdown
from remat_algos.plot.breakdown import plot_breakdown
from remat_algos.reproduce.echo2020_runs import BASELINE, ECHO, MIRROR, Measured
from remat_algos.reproduce.page import Figure, Table, percent

TEXT = """\
Bytes at the simulated peak: a value belongs to the layer that computes it, weights to the layer that reads them. \
`other values` are read by no gradient: they are in use at the peak, or wait for a recomputation that reads them, as \
the output of the last convolution of each block does in Mirror. Echo keeps the sum after the block instead, of the \
same size, from which less has to be recomputed; so the outputs of convolutions shrink by more than half."""


class Layers:
    """Breakdowns of a network under each strategy.

    Parameters
    ----------
    measured : Measured
    """

    def __init__(self, measured: Measured) -> None:
        self.measured = measured
        self.of = {name: breakdown(run.simulation) for name, run in measured.runs.items()}

    def bytes_of(self, strategy: str, layers: Sequence[str]) -> int:
        """Bytes of some layers at the peak."""
        return sum(self.of[strategy].layers.get(layer, 0) for layer in layers)

    def less(self, than: str, layers: Sequence[str]) -> float:
        """Reduction of some layers' bytes by Echo, as a share."""
        return round(1 - self.bytes_of(ECHO, layers) / max(1, self.bytes_of(than, layers)), 4)

    def made_less(self, operation: str) -> float:
        """Reduction of the bytes of an operation's outputs by Echo against Mirror, as a share."""
        made = {name: _made(self.measured, name, operation) for name in (MIRROR, ECHO)}
        return round(1 - made[ECHO] / max(1, made[MIRROR]), 4)

    def time(self, *operations: str) -> float:
        """Share of some operations in the time of one pass."""
        found = breakdown(self.measured.baseline.simulation, by="operation").layer_compute
        return round(sum(found.get(name, 0) for name in operations) / max(1, sum(found.values())), 4)

    def share(self, structure: str) -> float:
        """Of a data structure in the baseline."""
        found = self.of[BASELINE]
        return round(found.structures[structure] / max(1, found.footprint), 4)

    @property
    def title(self) -> str:
        """Of its figure."""
        return f"{self.measured.workload.label}, batch {self.measured.batch}"


def _made(measured: Measured, strategy: str, operation: str) -> int:
    """Bytes at the peak of values that operations of a name make in the forward part."""
    simulation = measured.runs[strategy].simulation
    graph = simulation.graph
    live = [value for value, _ in simulation.live_at(simulation.peak_step)]
    nodes = [(value, int(graph.producer[value])) for value in live]
    return sum(int(graph.memory[x]) for x, v in nodes if graph.forward[v] and graph.labels.op(v) == operation)


def structures(found: Sequence[Layers]) -> Table:
    """Bytes by data structure, each network under each strategy."""
    columns: dict[str, Callable[[Any], str]] = {"network": str, "strategy": str}
    columns |= dict.fromkeys(STRUCTURES, format_bytes)
    columns |= {"weights, share": percent}
    rows = [
        (each.measured.workload.label, name, *each.of[name].structures.values(), _weights(each.of[name]))
        for each in found
        for name in each.of
    ]
    return Table("structures", "Bytes at the peak by data structure (Figures 4 and 21)", columns, rows)


def by_layer(found: Sequence[Layers]) -> Table:
    """Bytes by type of layer, and the share of time."""
    columns: dict[str, Callable[[Any], str]] = {"network": str, "layer": str}
    columns |= dict.fromkeys((BASELINE, MIRROR, ECHO), format_bytes)
    columns |= {"time": percent}
    rows = []
    for each in found:
        time = each.of[BASELINE].layer_compute
        for layer in each.of[BASELINE].types:
            held = [each.of[name].layers.get(layer, 0) for name in each.of]
            share = round(time[layer] / max(1, sum(time.values())), 4)
            if max(held) * 100 > each.of[BASELINE].footprint or share > 0.01:
                rows.append((each.measured.workload.label, layer, *held, share))
    note = "Layers of less than 1 % are left out; time is that of one pass."
    return Table("layers", "Bytes at the peak by layer (Figures 4, 5, 16, 21 and 23)", columns, rows, note)


def figures(found: Sequence[Layers], names: Sequence[str]) -> list[Figure]:
    """Stacked bars of some networks; `names` are those of the files."""
    caption = "Left of each pair by layer, right by data structure, at the simulated peak."
    return [
        Figure(name, each.title, partial(plot_breakdown, dict(each.of)), caption)
        for each, name in zip(found, names, strict=True)
    ]


def _weights(found: Breakdown) -> float:
    return round(found.structures["weights"] / max(1, found.footprint), 4)
