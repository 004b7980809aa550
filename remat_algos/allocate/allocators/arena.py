"""One arena with a fixed address for every value."""

from remat_algos.allocate.allocators.registry import allocator
from remat_algos.allocate.buffers import Buffers
from remat_algos.allocate.offsets import pack
from remat_algos.allocate.reservation import Reservation
from remat_algos.context import Clock
from remat_algos.schedule.simulation import Simulation

SECONDS = 5.0  # time limit of one packing
PART = 0.3  # share of the remaining progress
LAST_SECOND = 1.0  # time limit of one packing after the deadline


@allocator(noun="packed", own_base=False, candidates=1)
def arena(simulation: Simulation, clock: Clock, *, alignment: int = 1, seed: int = 0) -> Reservation:
    """One block of memory with a fixed address for every value, as computed by `pack`.

    Parameters
    ----------
    alignment : int
        A power of two that divides every address.
    seed : int
        For the search for addresses.

    Examples
    --------
    >>> from remat_algos.ir.graph import ComputationGraph
    >>> from remat_algos.schedule.emission import baseline
    >>> reservation = arena(baseline(ComputationGraph.from_edges([(0, 1), (1, 2)])), Clock(), alignment=64)
    >>> reservation.memory, reservation.allocation.offset.tolist()
    (128, [64, 0, 64])
    """
    seconds = SECONDS if clock.left is None else min(SECONDS, max(LAST_SECOND, clock.left))
    progress = clock.within_stage(PART, "addresses: ")
    allocation = pack(Buffers.of(simulation), alignment=alignment, time_limit=seconds, seed=seed, progress=progress)
    allocation.verify()
    return Reservation(
        "arena",
        allocation.size,
        simulation.peak_memory,
        allocation.size,
        bound=min(allocation.bound, allocation.size),
        alignment=alignment,
        allocation=allocation,
    )
