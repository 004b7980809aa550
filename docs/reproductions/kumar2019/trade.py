"""Figure 4 of kumar2019: memory against length, for recursion limits of TWRemat and for our solvers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from docs.reproductions.case import NO_REMAT, Case
from docs.reproductions.kumar2019.algorithms import GREEDY, TWREMAT, AlgorithmOne, length, share
from docs.reproductions.kumar2019.plots import plot_trade
from docs.reproductions.page import Figure, Table, percent
from remat_algos.context import Progress
from remat_algos.schedule.emission import baseline
from remat_algos.schedule.polishing import polish
from remat_algos.schedule.simulation import Simulation
from remat_algos.solvers.registry import list_candidates, pareto
from remat_algos.wording import format_bytes

SHARES = (0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
MAX_POLISHED = 12


class Trade:
    """Schedules of one network between the lowest peak and one pass.

    Parameters
    ----------
    case : Case
    progress : callable, optional
    """

    def __init__(self, case: Case, progress: Progress | None = None) -> None:
        self.case = case
        self.graph = case.graph
        paper = AlgorithmOne(self.graph)
        self.n_bags = paper.decomposition.n_bags
        self.by_limit = {k: paper.simulation(k) for k in recursion_limits(self.n_bags, self.graph.n_nodes)}
        self.progress = progress
        self.curves = {
            f"{TWREMAT}(k)": undominated(self.by_limit.values()),
            f"{TWREMAT}, passes": self.passed([self.by_limit[1]]),
            GREEDY: self.schedules_of("greedy_remat", max_block=1),
            "greedy_remat": self.passed(self.schedules_of("greedy_remat")),
            "twremat": self.passed(self.schedules_of("twremat")),
        }

    def schedules_of(self, solver: str, **options: Any) -> list[Simulation]:
        """The Pareto frontier of the candidates of a solver."""
        if self.progress is not None:
            self.progress(0, 1, f"{self.case.label}, figure 4: {solver}")
        simulations = (each.simulation for each in list_candidates(self.graph, solver, **options))
        return undominated(simulation for simulation in simulations if simulation is not None)

    def passed(self, simulations: Sequence[Simulation]) -> list[Simulation]:
        """The best of schedules (a sample if many) after passes within their peaks and several limits."""
        simulations = simulations[:: 1 + len(simulations) // MAX_POLISHED]
        results = [polish(self.graph, simulation, None) for simulation in simulations]
        for limit in self.limits.values():
            within = [simulation for simulation in simulations if simulation.peak_memory <= limit]
            results += [polish(self.graph, simulation, limit) for simulation in within]
        return undominated([*results, baseline(self.graph)])

    @property
    def limits(self) -> dict[float, int]:
        """Bytes of each share of the peak without rematerialization."""
        return {most: int(most * self.case.peak(NO_REMAT)) for most in SHARES}

    @property
    def whole(self) -> str:
        """True if TWRemat(n) is the schedule without rematerialization."""
        last = list(self.by_limit.values())[-1].schedule.order
        return "the same schedule" if np.array_equal(last, baseline(self.graph).schedule.order) else "another schedule"

    def parts(self) -> tuple[Table, Table, Figure]:
        """A table by k, one by budgets, and the figure."""
        points = {
            name: [(length(simulation), simulation.peak_memory) for simulation in curve]
            for name, curve in self.curves.items()
        }
        caption = "Peak memory against length, the Pareto frontier of each strategy."
        figure = Figure("figure4", f"{self.case.label}: memory against length", partial(plot_trade, points), caption)
        return self._by_k(), self._by_budget(), figure

    def _by_k(self) -> Table:
        columns: dict[str, Callable[[Any], str]] = {"k": str, "peak": format_bytes, "of NoRemat": percent}
        columns |= dict.fromkeys(("length", "length after passes"), "{:.2f}".format)
        rows = [
            (
                k,
                simulation.peak_memory,
                share(simulation),
                length(simulation),
                length(polish(self.graph, simulation, None)),
            )
            for k, simulation in self.by_limit.items()
        ]
        note = f"The decomposition has {self.n_bags:,} bags, the graph {self.graph.n_nodes:,} nodes."
        return Table("figure4_limits", f"{self.case.label}: TWRemat(k)", columns, rows, note)

    def _by_budget(self) -> Table:
        columns: dict[str, Callable[[Any], str]] = {"peak of NoRemat": "{:.0%}".format}
        columns |= dict.fromkeys(self.curves, "{:.2f}".format)
        rows = [
            (most, *(shortest(curve, limit) for curve in self.curves.values())) for most, limit in self.limits.items()
        ]
        note = "Empty cells: no such schedule."
        title = f"{self.case.label}: minimum length within a share of the peak"
        return Table("figure4", title, columns, rows, note)


def recursion_limits(n_bags: int, n_nodes: int) -> list[int]:
    """1, 2, 4, ... up to the number of bags, then the paper's n.

    Examples
    --------
    >>> recursion_limits(5, 7)
    [1, 2, 4, 7]
    """
    return [*(1 << i for i in range(n_bags.bit_length())), max(n_nodes, n_bags + 1)]


def undominated(simulations: Iterable[Simulation]) -> list[Simulation]:
    """Simulations that no other dominates in peak and compute, the lowest peak first."""
    return pareto(simulations, lambda simulation: (simulation.peak_memory, simulation.compute))


def shortest(curve: Sequence[Simulation], limit: int) -> float | None:
    """The minimum length within a peak; None if nothing fits."""
    return min((length(simulation) for simulation in curve if simulation.peak_memory <= limit), default=None)
