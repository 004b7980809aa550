"""The effect of each part of Echo: recomputed layers, dead nodes, 1-bit feature maps, ways to choose."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from docs.reproductions.echo2020.networks import Workload, inputs_kept
from docs.reproductions.echo2020.passes import literal, mxnet
from docs.reproductions.echo2020.runs import NetworkRuns, SimulatedRun, echoed
from docs.reproductions.page import Table, percent
from remat_algos.context import Progress
from remat_algos.schedule.simulation import simulate
from remat_algos.solvers.methods.echo import HEAVY
from remat_algos.wording import format_bytes

CHOSEN: Mapping[str, Mapping[str, Any]] = {  # figure 17: what may be recomputed, and the options for it
    "RNN alone": {"only": "cell"},
    "attention alone": {"only": "attention"},
    "Echo": {},
    "and fully connected": {"also": "Linear"},
}
PAPER_SHARES = {
    "RNN alone": "21.1 %",
    "attention alone": "70.2 %",
    "Echo": "100 %",
    "and fully connected": "101.8 %, as we read it",
}


class Ablations:
    """Variants of Echo on one network.

    Parameters
    ----------
    runs : NetworkRuns
        The network with the three strategies.
    progress : callable, optional
    """

    def __init__(self, runs: NetworkRuns, progress: Progress | None = None) -> None:
        self.runs = runs
        self.workload: Workload = runs.workload
        self.progress = progress
        self.forward = self.workload.forward(runs.batch)

    def chosen(self) -> dict[str, SimulatedRun]:
        """Runs of figure 17: some layers, all of them, and heavy ones too."""
        runs = {}
        for name, options in CHOSEN.items():
            self._report(name)
            graph = self.runs.echo.graph
            runs[name] = echoed(graph, **options) if options else self.runs.echo
        return runs

    def without_dead_nodes(self) -> SimulatedRun:
        """Echo with the inputs of heavy nodes kept."""
        self._report("inputs of heavy nodes kept")
        kept = inputs_kept(self.forward, HEAVY)
        return echoed(self.workload.training(kept, encoded=True))

    def without_bits(self) -> SimulatedRun:
        """Echo on the network without 1-bit feature maps."""
        self._report("without 1-bit feature maps")
        return echoed(self.workload.training(self.forward))

    def share(self, run: SimulatedRun) -> float:
        """A variant's reduction, as a share of Echo's."""
        before, after = self.runs.baseline.footprint, self.runs.echo.footprint
        return round((before - run.footprint) / max(1, before - after), 4)

    def _report(self, what: str) -> None:
        if self.progress is not None:
            self.progress(0, 1, f"{self.workload.label}, {what}")


def figure_17(ablations: Ablations, chosen: Mapping[str, SimulatedRun]) -> Table:
    """Figure 17: share of the reduction, and throughput lost, by the layers that may be recomputed."""
    columns: dict[str, Callable[[Any], str]] = {"may be recomputed": str, "footprint": format_bytes}
    columns |= {"of Echo's reduction": percent, "paper": str, "throughput lost": percent}
    rows = [
        (name, run.footprint, ablations.share(run), PAPER_SHARES[name], run.throughput_lost)
        for name, run in chosen.items()
    ]
    note = (
        "A layer's nodes are identified by their names: `only=cell`, `only=attention`; with `also=Linear` fully "
        "connected layers may be recomputed."
    )
    label = f"{ablations.workload.label}, batch {ablations.runs.batch}"
    return Table("figure17", f"{label}: more and fewer layers (Figure 17)", columns, rows, note)


def parts_table(without: Sequence[tuple[Ablations, SimulatedRun, SimulatedRun]]) -> Table:
    """Footprints of Echo without dead nodes and without bits, by network."""
    columns: dict[str, Callable[[Any], str]] = {"network": str}
    columns |= dict.fromkeys(("Baseline", "Echo", "without dead nodes", "without bits"), format_bytes)
    columns |= {"by dead nodes": percent, "by bits": percent}
    rows = [
        (
            each.workload.label,
            each.runs.baseline.footprint,
            each.runs.echo.footprint,
            without_dead.footprint,
            without_bits.footprint,
            round(1 - each.share(without_dead), 4),
            round(1 - each.share(without_bits), 4),
        )
        for each, without_dead, without_bits in without
    ]
    return Table("parts", "Effect of dead nodes and 1-bit feature maps", columns, rows)


def modes_table(cases: Sequence[NetworkRuns]) -> Table:
    """Table of the ways to choose the nodes to recompute."""
    columns: dict[str, Callable[[Any], str]] = {"network": str, "mode": str, "stash": format_bytes}
    columns |= {"footprint": format_bytes, "Baseline / footprint": "{:.2f}".format, "overhead": percent}
    columns |= {"extra runs": "{:,}".format}
    rows = []
    for case in cases:
        graph = case.echo.graph
        runs = {
            "exact": case.echo,
            "paper": echoed(graph, mode="paper"),
            "mxnet": SimulatedRun(simulate(graph, mxnet(graph).schedule)),
            "literal": SimulatedRun(simulate(graph, literal(graph).schedule)),
        }
        for mode, run in runs.items():
            ratio = round(case.baseline.footprint / run.footprint, 4)
            rows.append((case.workload.label, mode, run.stash, run.footprint, ratio, run.overhead, run.extra_runs))
    return Table("modes", "Algorithm 1: exact, as meant, as merged, as printed", columns, rows)
