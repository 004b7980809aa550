"""The effect of each part of Echo: recomputed layers, dead nodes, 1-bit feature maps, ways to choose."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from remat_algos.context import Progress
from remat_algos.ir.units import format_bytes
from remat_algos.reproduce.echo2020_networks import Workload, inputs_kept
from remat_algos.reproduce.echo2020_passes import literal, mxnet
from remat_algos.reproduce.echo2020_runs import Measured, Run, echoed
from remat_algos.reproduce.page import Table, percent
from remat_algos.schedule.simulation import simulate
from remat_algos.solvers.heavy_nodes import HEAVY

CHOSEN: Mapping[str, Mapping[str, Any]] = {  # figure 17: what may be recomputed, and the options for it
    "RNN alone": {"only": "cell"},
    "attention alone": {"only": "attention"},
    "Echo": {},
    "and fully connected": {"also": "Linear"},
}
PAPER_SHARES = {"RNN alone": "21.1 %", "attention alone": "70.2 %", "Echo": "100 %", "and fully connected": "101.8 %"}

DEAD = """\
A heavy node whose gradient reads only its inputs need not be recomputed, but its inputs may be: the paper's "dead" \
nodes. To measure their effect we mark the inputs that heavy nodes' gradients read to be kept, as the earlier work \
does by its construction, and let `echo` find the minimum stash of the rest."""

BITS = """\
The masks of dropout and the outputs of some ReLUs become one bit per element (`encode`). The table compares the \
footprint of Echo on the network as it is with that on the encoded one."""

PICTURED = """\
The paper's overheads of these rows are in a picture, but for the last: 20.2 %."""

PARTS = """\
The last columns are shares of Echo's reduction; the paper has 35.4 % by dead nodes for NMT (section VI-B1), 38 % by \
bits of dropout for Transformer (section VI-C2)."""

MODES_TEXT = """\
`exact` is the minimum stash, by a minimum vertex cut of the whole graph; `paper` is algorithm 1 with the two steps \
that its own figure 13 needs; `mxnet` is the pass as it was merged; `literal` is algorithm 1 as it is printed \
(docs/solvers/echo.md). The stash is the bytes of forward values in memory when the backward part begins. The minimum \
stash is not always the minimum footprint: recomputed values are in memory beside gradients and workspaces, and need \
blocks of their own in a static plan."""


class Trade:
    """Variants of Echo on one network.

    Parameters
    ----------
    measured : Measured
        The network with the three strategies.
    progress : callable, optional
    """

    def __init__(self, measured: Measured, progress: Progress | None = None) -> None:
        self.measured = measured
        self.workload: Workload = measured.workload
        self.progress = progress
        self.forward = self.workload.forward(measured.batch)

    def chosen(self) -> dict[str, Run]:
        """Figure 17: with a part of the layers, and with more."""
        found = {}
        for name, options in CHOSEN.items():
            self._told(name)
            graph = self.measured.echo.graph
            found[name] = echoed(graph, **options) if options else self.measured.echo
        return found

    def without_dead_nodes(self) -> Run:
        """Inputs of heavy nodes stay."""
        self._told("inputs of heavy nodes kept")
        kept = inputs_kept(self.forward, HEAVY)
        return echoed(self.workload.training(kept, encoded=True))

    def without_bits(self) -> Run:
        """Feature maps as they are."""
        self._told("without 1-bit feature maps")
        return echoed(self.workload.training(self.forward))

    def share(self, run: Run) -> float:
        """A variant's reduction, as a share of Echo's."""
        before, after = self.measured.baseline.footprint, self.measured.echo.footprint
        return round((before - run.footprint) / max(1, before - after), 4)

    def _told(self, what: str) -> None:
        if self.progress is not None:
            self.progress(0, 1, f"{self.workload.label}, {what}")


def figure_17(trade: Trade, chosen: Mapping[str, Run]) -> Table:
    """Share of the reduction and overhead, by what may be recomputed."""
    columns: dict[str, Callable[[Any], str]] = {"may be recomputed": str, "footprint": format_bytes}
    columns |= {"of Echo's reduction": percent, "paper": str, "overhead": percent}
    rows = [(name, run.footprint, trade.share(run), PAPER_SHARES[name], run.overhead) for name, run in chosen.items()]
    note = (
        "A layer's nodes are identified by their names: `only=cell`, `only=attention`; with `also=Linear` fully "
        "connected layers may be recomputed."
    )
    label = f"{trade.workload.label}, batch {trade.measured.batch}"
    return Table("figure17", f"{label}: more and fewer layers (Figure 17)", columns, rows, note)


def parts_table(trades: Sequence[tuple[Trade, Run, Run]]) -> Table:
    """Dead nodes and bits, by network: what Echo takes without them."""
    columns: dict[str, Callable[[Any], str]] = {"network": str}
    columns |= dict.fromkeys(("Baseline", "Echo", "without dead nodes", "without bits"), format_bytes)
    columns |= {"by dead nodes": percent, "by bits": percent}
    rows = [
        (
            trade.workload.label,
            trade.measured.baseline.footprint,
            trade.measured.echo.footprint,
            undead.footprint,
            plain.footprint,
            round(1 - trade.share(undead), 4),
            round(1 - trade.share(plain), 4),
        )
        for trade, undead, plain in trades
    ]
    return Table("parts", "Effect of dead nodes and 1-bit feature maps", columns, rows)


def modes_table(cases: Sequence[Measured]) -> Table:
    """The ways to choose what is recomputed."""
    columns: dict[str, Callable[[Any], str]] = {"network": str, "mode": str, "stash": format_bytes}
    columns |= {"footprint": format_bytes, "Baseline / footprint": "{:.2f}".format, "overhead": percent}
    columns |= {"extra runs": "{:,}".format}
    rows = []
    for case in cases:
        graph = case.echo.graph
        runs = {
            "exact": case.echo,
            "paper": echoed(graph, mode="paper"),
            "mxnet": Run(simulate(graph, mxnet(graph).schedule)),
            "literal": Run(simulate(graph, literal(graph).schedule)),
        }
        for mode, run in runs.items():
            less = round(case.baseline.footprint / run.footprint, 4)
            rows.append((case.workload.label, mode, run.stash, run.footprint, less, run.overhead, run.rerun))
    return Table("modes", "Algorithm 1: exact, as meant, as merged, as printed", columns, rows)
