"""CuPy's memory pool."""

from remat_algos.allocate import pools
from remat_algos.allocate.allocators.registry import allocator
from remat_algos.allocate.reservation import Reservation
from remat_algos.context import Clock
from remat_algos.schedule.simulation import Simulation


@allocator()
def cupy_pool(simulation: Simulation, clock: Clock) -> Reservation:
    """Bytes that CuPy's memory pool reserves on the device, the maximum over the ways to break ties.

    Examples
    --------
    >>> from remat_algos.ir.graph import ComputationGraph
    >>> from remat_algos.schedule.emission import baseline
    >>> cupy_pool(baseline(ComputationGraph.from_edges([(0, 1), (1, 2)])), Clock()).memory
    1024
    """
    use = pools.cupy_pool(simulation)
    lowest, highest = use.interval
    return Reservation("cupy_pool", highest, use.peak_used, lowest, use.ties.size)
