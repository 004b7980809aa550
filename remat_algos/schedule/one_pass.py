"""One-pass orders: every needed node runs once."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce
from itertools import pairwise
from operator import or_

import numpy as np

from remat_algos.arguments import as_seed, checked_arguments
from remat_algos.bounds.memory import one_pass_bound
from remat_algos.context import Clock, Progress, until_stopped
from remat_algos.errors import ArgumentError
from remat_algos.ir.arrays import Int32
from remat_algos.ir.graph import ComputationGraph
from remat_algos.kernels.emitter import beam_search_order
from remat_algos.schedule import tuning
from remat_algos.schedule.annealing import Annealed, Annealer
from remat_algos.schedule.emission import baseline
from remat_algos.schedule.schedule import Schedule, emit
from remat_algos.schedule.simulation import Simulation, simulate
from remat_algos.wording import format_bytes

# Minimum size of a part: SMALLEST_PART nodes and PART_SHARE of all nodes. The search orders smaller parts well by
# itself.
SMALLEST_PART, PART_SHARE = 4, 1 / 12


@checked_arguments
def lowest_pass(
    graph: ComputationGraph,
    beam: int | None = None,
    *,
    search: bool = False,
    max_moves: int | None = None,
    seed: int = 0,
    time_limit: float | None = None,
    progress: Progress | None = None,
) -> Schedule:
    """Return an order of all needed nodes with a low peak, in which each runs once; marks are ignored.

    Beam search over the sets of executed nodes: each step keeps the sets with the lowest peaks, and one order for each
    of them. A beam wide enough for all sets gives the minimum peak of one pass. Optionally a local search follows:
    simulated annealing that moves nodes and groups of nodes, starting from the id order and from the order of the beam.

    Parameters
    ----------
    graph : ComputationGraph
    beam : int, optional
        Number of sets to keep; by default 64, fewer on large graphs. 0 keeps the id order.
    search : bool
        Search for a lower peak than that of the beam. Ctrl-C stops the search and returns the best order.
    max_moves : int, optional
        Maximum number of moves of the local search; by default 10,000 per node, at most 3,000,000. Numbers below
        6,144 are raised to 6,144.
    seed : int
        Random seed of the local search; equal seeds give equal orders.
    time_limit : float, optional
        Seconds, after which the best order is returned.
    progress : callable, optional
        A `Progress` function, called with the completed share of the moves and the lowest peak.

    Returns
    -------
    Schedule

    Raises
    ------
    ValueError
        If `max_moves` is below 1.

    Examples
    --------
    C does not read B (4 bytes), and D is the last reader of B, so D runs before C.

    >>> names = [("A", "B"), ("A", "C"), ("A", "D"), ("B", "D"), ("C", "E"), ("D", "E")]
    >>> graph = ComputationGraph.from_edges(names, memory=[1, 4, 2, 1, 1])
    >>> lowest_pass(graph).names(graph)
    ['A', 'B', 'D', 'C', 'E']
    """
    random = np.random.SeedSequence(as_seed(seed))
    if not search:
        return _beam_pass(graph, beam)
    clock, best = Clock(time_limit, progress), None
    with until_stopped():
        for lower in lower_passes(graph, clock, random, beam=beam, max_moves=max_moves):
            best = lower
    return _beam_pass(graph, 0) if best is None else best.schedule


def lower_passes(
    graph: ComputationGraph,
    clock: Clock,
    random: np.random.SeedSequence,
    *,
    beam: int | None = None,
    search: bool = True,
    max_moves: int | None = None,
) -> Iterator[Simulation]:
    """Yield one-pass orders with decreasing peaks (id order, beam, local search) until one meets `one_pass_bound`."""
    if max_moves is not None and max_moves < 1:
        raise ArgumentError("max_moves is {max_moves!r}; give a whole number of moves, 1 or more", max_moves=max_moves)
    best = first = baseline(graph if graph.mark is None else replace(graph, mark=None))
    yield best
    (bound, order), graph = one_pass_bound(graph, clock), best.graph
    if best.peak_memory > bound and order is not None:
        yield simulate(graph, order.tolist())
        return
    if best.peak_memory > bound:
        clock.check()
        first = simulate(graph, _beam_pass(graph, beam))
        if first.peak_memory < best.peak_memory:
            best = first
            yield best
    if best.peak_memory <= bound or not search:
        return
    annealer = Annealer(graph, clock, random, max_runs=1, by_moves=True)
    annealer.so_far = f"best {format_bytes(best.peak_memory)}"
    n_needed = int(graph.needed.sum())
    moves = min(tuning.MAX_MOVES, tuning.MOVES_OF_NODE * n_needed) if max_moves is None else int(max_moves)
    starts = [Annealed(each, "one pass") for each in (baseline(graph), first) for _ in tuning.PEAK_STEPS]
    work, count = tuning.WORK_OF_MOVE * moves, tuning.ONE_PASS_SEARCHES
    for improved in annealer.rounds(starts, bound, work, count=count, lowest=True):
        if improved.simulation.peak_memory < best.peak_memory:
            best = improved.simulation
            annealer.so_far = f"best {format_bytes(best.peak_memory)}"
            yield best


def _beam_pass(graph: ComputationGraph, beam: int | None) -> Schedule:
    nodes = np.flatnonzero(graph.needed).astype(np.int32)
    if beam is None:
        beam = min(tuning.MAX_BEAM, tuning.MAX_PASS_WORK // max(1, nodes.size) ** 2)
    if beam < 1:
        return emit(graph, nodes)
    order: Int32 = beam_search_order(graph.arrays, nodes, beam)
    return emit(graph, order)


def orders_by_part(graph: ComputationGraph) -> list[Schedule]:
    """Return one-pass orders that finish one part, such as a tower, before the next; [] unless `has_parts`."""
    if not has_parts(graph):
        return []
    indptr, indices = graph.predecessors
    before = [indices[begin:end].tolist() for begin, end in pairwise(indptr.tolist())]
    outputs = list(dict.fromkeys(graph.producer[graph.output].tolist()))
    orders = dict[tuple[int, ...], None]()
    for backwards in (False, True):
        for roots in (outputs, outputs[::-1]):
            order, waiting = dict[int, None](), roots[::-1]
            while waiting:
                v = waiting[-1]
                inputs = [u for u in before[v] if u not in order]
                if inputs and v not in order:
                    waiting.append(inputs[-1 if backwards else 0])
                else:
                    order[waiting.pop()] = None
            orders[tuple(order)] = None
    return [emit(graph, np.array(order, np.int32)) for order in orders]


def has_parts(graph: ComputationGraph) -> bool:
    """Return True if a node joins two large parts that read at most one common node. The check takes quadratic time."""
    indptr, indices = graph.predecessors
    smallest = max(SMALLEST_PART, PART_SHARE * int(graph.needed.sum()))
    reads, before = list[int](), list[int]()
    # A set of nodes is a Python integer with one bit per node.
    for v, (begin, end) in enumerate(pairwise(indptr.tolist())):
        inputs = indices[begin:end].tolist()
        reads.append(sum(1 << u for u in inputs))
        before.append(reduce(or_, (before[u] for u in inputs), 1 << v))
        if len(inputs) < 2 or not graph.needed[v]:
            continue
        largest = max((before[u] for u in inputs), key=int.bit_count)
        for other in (before[u] for u in inputs):
            parts, shared = (largest & ~other, other & ~largest), largest & other
            if min(map(int.bit_count, parts)) >= smallest and _meets(parts[0] | parts[1], reads, shared) <= 1:
                return True
    return False


def _meets(nodes: int, reads: Sequence[int], shared: int) -> int:
    """Return how many of the shared nodes a set of nodes reads, where 2 means two or more."""
    met = 0
    while nodes and met.bit_count() < 2:
        last = nodes.bit_length() - 1
        met, nodes = met | reads[last] & shared, nodes ^ (1 << last)
    return min(2, met.bit_count())
