"""The peak of live bytes."""

from remat_algos.allocate.allocators.registry import allocator
from remat_algos.allocate.reservation import Reservation
from remat_algos.context import Clock
from remat_algos.schedule.simulation import Simulation


@allocator(noun="", own_base=False, candidates=1)
def peak(simulation: Simulation, clock: Clock) -> Reservation:
    """Live bytes only, the simulated peak: no rounding, no fragmentation.

    Examples
    --------
    >>> from remat_algos.ir.graph import ComputationGraph
    >>> from remat_algos.schedule.emission import baseline
    >>> peak(baseline(ComputationGraph.from_edges([(0, 1), (1, 2)])), Clock()).memory
    2
    """
    live = simulation.peak_memory
    return Reservation("peak", live, live, live)
