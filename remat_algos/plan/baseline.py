"""The run without rematerialization: the base of every share."""

from dataclasses import replace

from remat_algos.ir.graph import ComputationGraph
from remat_algos.plan.reserved import POOLS, Reserved
from remat_algos.schedule.simulation import Simulation, simulate
from remat_algos.solvers.no_remat import no_remat


def baseline(graph: ComputationGraph) -> Simulation:
    """Every needed node once, in id order; marks do not count."""
    return simulate(replace(graph, mark=None) if graph.mark is not None else graph, no_remat(graph, None))


def baseline_peak(graph: ComputationGraph) -> int:
    """Its peak in bytes."""
    return baseline(graph).peak_memory


def share_base(graph: ComputationGraph, allocator: str | None = None) -> int:
    """Bytes that a share of the memory is of: what a pool reserves for that run, at most; else its peak.

    An arena counts by the peak too: how small it gets hangs on the time that packing may take.
    """
    run = baseline(graph)
    return Reserved.of(run, allocator).memory if allocator in POOLS else run.peak_memory
