"""The remark of chen2016, section 4.3, on costs: time-consuming operations kept where possible."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from remat_algos.context import Progress, SearchContext
from remat_algos.ir.graph import ComputationGraph
from remat_algos.reproduce.case import named
from remat_algos.reproduce.chen2016_time import ROOFLINE
from remat_algos.reproduce.page import Table, percent
from remat_algos.schedule.baseline import baseline_peak
from remat_algos.solvers.candidates import evaluated
from remat_algos.solvers.chen_greedy import chen_greedy

SHARES = (0.15, 0.25, 0.4, 0.6)  # of the peak without rematerialization
COSTS: Mapping[str, Mapping[str, Any]] = {"FLOPs": {"cost": "flops"}, "time": ROOFLINE}


def costs_table(networks: Mapping[str, Callable[..., ComputationGraph]], progress: Progress | None) -> Table:
    """The cheapest plans of algorithm 3 within some peaks, by memory alone and with costs weighed."""
    columns: dict[str, Callable[[Any], str]] = {"network": str, "peak of at most": percent}
    rows: dict[tuple[str, float], list[float | None]] = {(label, share): [] for label in networks for share in SHARES}
    for what, cost in COSTS.items():
        for weighed in (False, True):
            columns[f"more {what}{', costs weighed' if weighed else ''}"] = percent
            for label, graph_of in networks.items():
                told = named(progress, f"{label}, {what}")
                for share, found in zip(SHARES, overheads(graph_of(**cost), SHARES, weighed, told), strict=True):
                    rows[label, share].append(found)
    return Table("costs", "Overhead of the cheapest plan", columns, [(*key, *cells) for key, cells in rows.items()])


def overheads(
    graph: ComputationGraph, shares: Sequence[float], weighed: bool, progress: Progress | None = None
) -> list[float | None]:
    """Minimum compute beyond one pass within each share of the peak without rematerialization; None if nothing fits.

    Parameters
    ----------
    graph : ComputationGraph
    shares : sequence of float
    weighed : bool
        `weigh_cost` of `chen_greedy`.
    progress : callable, optional
    """
    candidates = chen_greedy(graph, None, SearchContext(progress=progress), weigh_cost=weighed)
    points = {evaluated(graph, found.schedule).figures for found in candidates}
    base, one_pass = baseline_peak(graph), max(1, graph.needed_compute)
    within = ([compute for peak, compute in points if peak <= share * base] for share in shares)
    return [round((min(costs) - graph.needed_compute) / one_pass, 4) if costs else None for costs in within]
