"""The schedule without rematerialization, the base of every percentage."""

from dataclasses import replace
from typing import Any

import numpy as np

from remat_algos.ir.graph import ComputationGraph, derived
from remat_algos.schedule.schedule import emit
from remat_algos.schedule.simulation import Simulation, simulate, unchecked


def baseline(graph: ComputationGraph) -> Simulation:
    """Simulate every needed node once, in id order, updates of parameters last; marks are ignored.

    Examples
    --------
    >>> baseline(ComputationGraph.from_edges([(0, 1), (1, 2)])).schedule.order.tolist()
    [0, 1, 2]
    """
    unmarked = graph if graph.mark is None else replace(graph, mark=None)

    def run() -> list[Any]:
        once = simulate(unmarked, emit(graph, np.flatnonzero(graph.needed).astype(np.int32)))
        return [once.schedule, once.lifetimes, once.memory_trace]  # not the graph: a cycle

    return unchecked(unmarked, *derived(graph, "baseline", run))


def baseline_peak(graph: ComputationGraph) -> int:
    """Return the peak of the baseline in bytes."""
    return baseline(graph).peak_memory
