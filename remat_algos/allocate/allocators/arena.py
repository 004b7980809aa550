"""One arena with a fixed address for every value."""

from remat_algos.allocate.allocators.registry import allocator
from remat_algos.allocate.buffers import Buffers
from remat_algos.allocate.offsets import pack
from remat_algos.allocate.reservation import Reservation
from remat_algos.context import SearchContext
from remat_algos.schedule.simulation import Simulation

SECONDS = 5.0  # that one packing may take
LAST_SECOND = 1.0  # that it may take where the time is over


@allocator(noun="packed", own_base=False, candidates=1)
def arena(simulation: Simulation, context: SearchContext, *, alignment: int = 1) -> Reservation:
    """One piece of memory with a fixed address for every value, as `pack` finds it.

    Parameters
    ----------
    alignment : int
        A power of two that divides every address.

    Examples
    --------
    >>> from remat_algos.ir.graph import ComputationGraph
    >>> from remat_algos.schedule.baseline import baseline
    >>> found = arena(baseline(ComputationGraph.from_edges([(0, 1), (1, 2)])), SearchContext(), alignment=64)
    >>> found.memory, found.allocation.offset.tolist()
    (128, [64, 0, 64])
    """
    left = SECONDS if context.left is None else min(SECONDS, max(LAST_SECOND, context.left))
    found = pack(
        Buffers.of(simulation), alignment=alignment, time_limit=left, seed=context.seed, progress=context.report
    )
    found.verify()
    return Reservation(
        "arena",
        found.size,
        simulation.peak_memory,
        found.size,
        bound=min(found.bound, found.size),
        alignment=alignment,
        allocation=found,
        interrupted=found.interrupted,
    )
