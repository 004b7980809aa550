"""PyTorch's caching allocator for CUDA."""

from remat_algos.allocate import pools
from remat_algos.allocate.allocators.registry import allocator
from remat_algos.allocate.reservation import Reservation
from remat_algos.context import Clock
from remat_algos.schedule.simulation import Simulation


@allocator()
def cuda_caching(simulation: Simulation, clock: Clock) -> Reservation:
    """Bytes that PyTorch's caching allocator reserves on the device, the maximum over the ways to break ties.

    Examples
    --------
    >>> from remat_algos.ir.graph import ComputationGraph
    >>> from remat_algos.schedule.emission import baseline
    >>> cuda_caching(baseline(ComputationGraph.from_edges([(0, 1), (1, 2)])), Clock()).memory
    2097152
    """
    use = pools.cuda_caching(simulation)
    lowest, highest = use.interval
    return Reservation("cuda_caching", highest, use.peak_used, lowest, use.ties.size)
