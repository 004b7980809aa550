"""Figures 4, 5, 16, 21 and 23 of echo2020: memory and time by layer and by data structure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from docs.reproductions.echo2020.runs import BASELINE, ECHO, MIRROR, NetworkRuns
from docs.reproductions.page import Figure, Table, percent
from remat_algos import plot
from remat_algos.questions.breakdown import STRUCTURES, Breakdown, breakdown
from remat_algos.schedule.views import live_at
from remat_algos.wording import format_bytes


class LayerBreakdowns:
    """Breakdowns of a network under each strategy.

    Parameters
    ----------
    runs : NetworkRuns
    """

    def __init__(self, runs: NetworkRuns) -> None:
        self.runs = runs
        self.of = {name: breakdown(run.simulation) for name, run in runs.runs.items()}

    def bytes_of(self, strategy: str, layers: Sequence[str]) -> int:
        """Bytes of some layers at the peak."""
        return sum(self.of[strategy].layers.get(layer, 0) for layer in layers)

    def reduction(self, strategy: str, layers: Sequence[str]) -> float:
        """Share of some layers' bytes under a strategy that Echo saves."""
        return round(1 - self.bytes_of(ECHO, layers) / max(1, self.bytes_of(strategy, layers)), 4)

    def output_reduction(self, operation: str) -> float:
        """Reduction of the bytes of an operation's outputs by Echo against Mirror, as a share."""
        outputs = {name: _output_bytes(self.runs, name, operation) for name in (MIRROR, ECHO)}
        return round(1 - outputs[ECHO] / max(1, outputs[MIRROR]), 4)

    def time(self, *operations: str) -> float:
        """Share of some operations in the time of one pass."""
        compute = breakdown(self.runs.baseline.simulation, by="operation").layer_compute
        return round(sum(compute.get(name, 0) for name in operations) / max(1, sum(compute.values())), 4)

    def layer_share(self, layers: Sequence[str]) -> float:
        """Share of some layers in the baseline's footprint."""
        return round(self.bytes_of(BASELINE, layers) / max(1, self.of[BASELINE].footprint), 4)

    def share(self, structure: str) -> float:
        """Share of a data structure in the baseline's footprint."""
        return _share(self.of[BASELINE], structure)

    @property
    def title(self) -> str:
        """Title of its figure."""
        return f"{self.runs.workload.label}, batch {self.runs.batch}"


def _output_bytes(runs: NetworkRuns, strategy: str, operation: str) -> int:
    """Bytes at the peak of forward values computed by operations of a given name."""
    simulation = runs.runs[strategy].simulation
    graph = simulation.graph
    live = [value for value, _ in live_at(simulation, simulation.peak_step)]
    nodes = [(value, int(graph.producer[value])) for value in live]
    return sum(int(graph.memory[x]) for x, v in nodes if graph.forward[v] and graph.labels.op(v) == operation)


def structures(networks: Sequence[LayerBreakdowns]) -> Table:
    """Bytes by data structure, each network under each strategy."""
    columns: dict[str, Callable[[Any], str]] = {"network": str, "strategy": str}
    columns |= dict.fromkeys(STRUCTURES, format_bytes)
    columns |= {"weights, share": percent}
    rows = [
        (each.runs.workload.label, name, *each.of[name].structures.values(), _share(each.of[name], "weights"))
        for each in networks
        for name in each.of
    ]
    return Table("structures", "Bytes at the peak by data structure (Figures 4 and 21)", columns, rows)


def by_layer(networks: Sequence[LayerBreakdowns]) -> Table:
    """Bytes by type of layer, and the share of time."""
    columns: dict[str, Callable[[Any], str]] = {"network": str, "layer": str}
    columns |= dict.fromkeys((BASELINE, MIRROR, ECHO), format_bytes)
    columns |= {"time": percent}
    rows = []
    for each in networks:
        time = each.of[BASELINE].layer_compute
        for layer in each.of[BASELINE].types:
            live = [each.of[name].layers.get(layer, 0) for name in each.of]
            share = round(time[layer] / max(1, sum(time.values())), 4)
            if max(live) * 100 > each.of[BASELINE].footprint or share > 0.01:
                rows.append((each.runs.workload.label, layer, *live, share))
    note = "Layers of less than 1 % are left out; time is that of one pass."
    return Table("layers", "Bytes at the peak by layer (Figures 4, 5, 16, 21 and 23)", columns, rows, note)


def figures(networks: Sequence[LayerBreakdowns], names: Sequence[str]) -> list[Figure]:
    """Stacked bars of some networks; `names` are names of files."""
    caption = "Each left bar splits the bytes at the simulated peak by layer, each right bar by data structure."
    return [
        Figure(name, each.title, partial(plot.breakdown, dict(each.of)), caption)
        for each, name in zip(networks, names, strict=True)
    ]


def _share(of_peak: Breakdown, structure: str) -> float:
    return round(of_peak.structures[structure] / max(1, of_peak.footprint), 4)
