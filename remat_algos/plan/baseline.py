"""The run without rematerialization: the base of every share."""

from dataclasses import replace

from remat_algos.ir.graph import ComputationGraph
from remat_algos.schedule.simulation import Simulation, simulate
from remat_algos.solvers.no_remat import no_remat


def baseline(graph: ComputationGraph) -> Simulation:
    """Every needed node once, in id order; marks do not count."""
    return simulate(replace(graph, mark=None) if graph.mark is not None else graph, no_remat(graph, None))


def baseline_peak(graph: ComputationGraph) -> int:
    """Its peak in bytes."""
    return baseline(graph).peak_memory
