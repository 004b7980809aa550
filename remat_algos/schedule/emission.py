"""Schedules built from decisions: the baseline, mirror counts (chen2016), and chains of lower sets (kusumoto2019)."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from remat_algos.arguments import checked_arguments
from remat_algos.errors import GraphError
from remat_algos.ir.arrays import Bool, Int32, Int64, PerName, frozen, interval_sums
from remat_algos.ir.graph import ComputationGraph, derived
from remat_algos.ir.parts import KEEP, RECOMPUTE
from remat_algos.ir.tables import in_order
from remat_algos.kernels.emitter import canonical_order, mirror_order
from remat_algos.schedule.schedule import Schedule, emit
from remat_algos.schedule.simulation import Simulation, simulate, unchecked
from remat_algos.structure.lower_sets import LowerSets


def baseline(graph: ComputationGraph) -> Simulation:
    """Simulate every needed node once in id order, with parameter updates last; marks are ignored."""
    unmarked = graph if graph.mark is None else replace(graph, mark=None)

    def run() -> list[Any]:
        once = simulate(unmarked, emit(graph, np.flatnonzero(graph.needed).astype(np.int32)))
        return [once.schedule, once.lifetimes, once.memory_trace]  # avoid a reference cycle

    return unchecked(unmarked, *derived(graph, "baseline", run))


def baseline_peak(graph: ComputationGraph) -> int:
    return baseline(graph).peak_memory


@checked_arguments
def checkpoint_schedule(graph: ComputationGraph, kept: PerName) -> Schedule:
    """Return a schedule that keeps some nodes and recomputes the others at most once, when a gradient needs them.

    Parameters
    ----------
    graph : ComputationGraph
    kept : bool[n]
        True for nodes to keep. `once` nodes are always kept, and marks take precedence. A mapping from node names to
        bool is also accepted; nodes without an entry are not kept.

    Returns
    -------
    Schedule

    References
    ----------
    chen2016, algorithm 1: the case of algorithm 2 with mirror counts of 0 and 1.

    Examples
    --------
    >>> from remat_algos.ir.differentiate import differentiate
    >>> chain = differentiate(ComputationGraph.from_edges([(0, 1), (1, 2)]))
    >>> checkpoint_schedule(chain, [False, True, True, True, True, True]).order.tolist()
    [0, 1, 2, 3, 4, 0, 5]
    """
    flags = frozen(in_order("kept", kept, graph.node_names), np.bool_, "kept", graph.n_nodes)
    return mirror_schedule(graph, clamp_counts(graph, np.where(flags, 0, 1)))


@checked_arguments
def mirror_schedule(graph: ComputationGraph, mirror_count: PerName) -> Schedule:
    """Return a schedule that recomputes each node up to `mirror_count` times.

    First all needed forward nodes run once. Then gradients run in id order. Before each gradient, the missing nodes
    that it needs are recomputed. Recomputation k of a node reads recomputation min(k, c) of each node that it needs,
    where c is the mirror count of that node and recomputation 0 is its first run. A gradient reads the last
    recomputation. Recomputations that are never read do not run. Nodes are not recomputed for outputs, which stay live.

    Parameters
    ----------
    graph : ComputationGraph
    mirror_count : int64[n]
        0 for kept nodes; counts of backward nodes are ignored. A mapping from node names to counts is also accepted;
        nodes without an entry have count 0.

    Returns
    -------
    Schedule

    Raises
    ------
    GraphError
        If a count is negative, or above 0 for a node that must run only once.

    References
    ----------
    chen2016, algorithm 2.

    Examples
    --------
    >>> from remat_algos.ir.differentiate import differentiate
    >>> chain = differentiate(ComputationGraph.from_edges([(0, 1), (1, 2), (2, 3)]))
    >>> mirror_schedule(chain, [1, 0, 1, 0, 0, 0, 0, 0]).names(chain)
    ['0', '1', '2', '3', 'grad(3)', '2', 'grad(2)', 'grad(1)', '0', 'grad(0)']
    """
    count: Int64 = frozen(
        in_order("mirror_count", mirror_count, graph.node_names), np.int64, "mirror_count", graph.n_nodes
    )
    count = np.where(graph.forward, count, 0)
    if (count < 0).any():
        node = int(np.argmin(count))
        raise GraphError(
            "mirror count of {name} is {count:d}; counts are 0 or more", name=graph.labels[node], count=count[node]
        )
    if (count[graph.once] > 0).any():
        node = int(np.argmax(graph.once & (count > 0)))
        raise GraphError(
            "{name} must run only once, so its mirror count is 0, not {count:d}",
            name=graph.labels[node],
            count=count[node],
        )
    if count.sum(dtype=np.float64) + graph.n_nodes >= 2**31:
        raise GraphError("the mirror counts add up to 2**31 runs or more; lower them")
    return emit(graph, mirror_order(graph.arrays, graph.owner, count))


def clamp_counts(graph: ComputationGraph, mirror_count: Int64) -> Int64:
    """Set mirror counts to 0 for `once` nodes and nodes marked keep, and to at least 1 for nodes marked recompute."""
    count = np.where(graph.once, 0, mirror_count)
    if graph.mark is not None:
        count = np.where(graph.mark == KEEP, 0, np.where(graph.mark == RECOMPUTE, np.maximum(count, 1), count))
    return count


@checked_arguments
def canonical_schedule(
    graph: ComputationGraph,
    lower_sets: LowerSets | Sequence[Iterable[int]],
    *,
    keep_last: bool = True,
    lazy: bool = True,
) -> Schedule:
    """Return the canonical schedule of a chain of lower sets.

    Blocks run forward in order. Then, from the last block to the first, the gradients of the block's nodes run. Before
    each gradient, the missing nodes that it needs are recomputed. Boundary nodes are never recomputed. Recomputed
    values are freed after their block, except co-inputs, which gradients of earlier blocks may read.

    Parameters
    ----------
    graph : ComputationGraph
    lower_sets : LowerSets or sequence of node ids
        The last set contains the whole needed forward part.
    keep_last : bool
        If True, keep the values of the last block, since its gradients run next. If False, discard and recompute them,
        as formula (1) of kusumoto2019 assumes.
    lazy : bool
        If True, recompute a node just before a gradient needs it. If False, recompute all missing nodes of a block
        before its gradients, as the paper does. Neither is always better.

    Returns
    -------
    Schedule

    Raises
    ------
    GraphError
        If the chain does not match the graph.

    Examples
    --------
    >>> from remat_algos.ir.differentiate import differentiate
    >>> chain = differentiate(ComputationGraph.from_edges([(0, 1), (1, 2)]))
    >>> canonical_schedule(chain, LowerSets.of(chain, [[0, 1], [0, 1, 2]])).order.tolist()
    [0, 1, 2, 3, 4, 0, 5]
    """
    lower_sets = _as_chain(graph, lower_sets)
    block, _, _, co_input_from = lower_sets.on(graph)
    n_blocks = max(1, len(lower_sets))
    order = canonical_order(
        graph.arrays,
        graph.owner,
        # Gradients of nodes that never run belong to the last block, so they run first.
        block=np.where(block < 0, n_blocks - 1, block).astype(np.int32),
        kept=_kept(graph, lower_sets, keep_last).view(np.uint8),
        never_recomputed=_never_recomputed(graph).view(np.uint8),
        co_input_from=co_input_from,
        n_blocks=n_blocks,
        lazy=lazy,
    )
    return emit(graph, order)


@checked_arguments
def canonical_trace(
    graph: ComputationGraph,
    lower_sets: LowerSets | Sequence[Iterable[int]],
    *,
    liveness: bool = False,
    keep_last: bool = False,
    lazy: bool = False,
) -> Int64:
    """Return the bytes live during each step of `canonical_schedule`, with or without liveness.

    Without liveness, values are freed only at four points. d+(L) is the set of nodes that read from L, and the other
    values that they read are the co-inputs of L.

    - After the forward part of block i, values that are not kept are freed.
    - After the gradients of block i, these are freed: forward values outside L_(i-1) and its co-inputs, gradients
      outside d+(L_(i-1)) - L_(i-1), and gradients that are never read.
    - Recomputed values that belong neither to the block nor to the co-inputs of L_i are freed after their last read.
    - A running sum is freed after the step that adds to it. At that step the old and the new sum are both live.

    Values that the schedule reads later, and outputs of the forward part, are not freed. A step includes its workspace.

    Parameters
    ----------
    graph : ComputationGraph
    lower_sets : LowerSets or sequence of node ids
        The last set contains the whole needed forward part.
    liveness : bool
        Free every value after its last read, as `simulate` does.
    keep_last, lazy : bool
        As in `canonical_schedule`; the defaults match formulas (1) and (2).

    Returns
    -------
    int64[m]

    Raises
    ------
    GraphError
        If the chain does not match the graph.
    ScheduleError
        If an output is marked to be recomputed.

    References
    ----------
    kusumoto2019, section 3.

    Examples
    --------
    >>> from remat_algos.ir.differentiate import differentiate
    >>> chain = differentiate(ComputationGraph.from_edges([(0, 1), (1, 2)]))
    >>> sets = LowerSets.of(chain, [[0, 1], [0, 1, 2]])
    >>> canonical_schedule(chain, sets, keep_last=False, lazy=False).names(chain)
    ['0', '1', '2', '2', 'grad(2)', '0', '2', 'grad(1)', 'grad(0)']
    >>> canonical_trace(chain, sets).tolist(), sets.terms(chain).sum(axis=1).tolist()
    ([1, 2, 2, 2, 3, 3, 4, 5, 5], [5, 3])
    >>> canonical_trace(chain, sets, liveness=True).tolist()
    [1, 2, 2, 2, 3, 3, 4, 5, 4]
    """
    lower_sets = _as_chain(graph, lower_sets)
    schedule = canonical_schedule(graph, lower_sets, keep_last=keep_last, lazy=lazy)
    simulation = simulate(graph, schedule)
    if liveness:
        return simulation.memory_trace
    lives, drops = simulation.lifetimes, _drops(simulation, lower_sets, _kept(graph, lower_sets, keep_last), lazy)
    live = interval_sums(lives.made_at, drops, graph.memory[lives.value], len(schedule))
    return live + graph.workspace[schedule.order]


def _as_chain(graph: ComputationGraph, lower_sets: LowerSets | Sequence[Iterable[int]]) -> LowerSets:
    return lower_sets if isinstance(lower_sets, LowerSets) else LowerSets.of(graph, lower_sets)


def kept_against(graph: ComputationGraph, lower_sets: LowerSets, keep_last: bool) -> list[int]:
    """Return nodes that are kept although the chain would recompute them: `once` nodes, marked nodes and outputs."""
    block, kept, *_ = lower_sets.on(graph)
    to_recompute = ~kept & ((block < len(lower_sets) - 1) | (not keep_last)) & (block >= 0)
    return np.flatnonzero(to_recompute & _never_recomputed(graph)).tolist()


def _kept(graph: ComputationGraph, lower_sets: LowerSets, keep_last: bool) -> Bool:
    """Return bool[n]: True for forward nodes that are not recomputed for the gradients of their own block."""
    block, kept, *_ = lower_sets.on(graph)
    if keep_last:
        kept = kept | (block == len(lower_sets) - 1)
    return ((clamp_counts(graph, np.where(kept, 0, 1)) == 0) & graph.forward) | _never_recomputed(graph)


def _never_recomputed(graph: ComputationGraph) -> Bool:
    if not graph.n_nodes:
        return np.zeros(0, bool)
    pinned = np.logical_and.reduceat(graph.output, graph.value_indptr[:-1])  # outputs are never missing
    return ((clamp_counts(graph, np.ones(graph.n_nodes, np.int64)) == 0) | pinned) & graph.forward


def _drops(simulation: Simulation, lower_sets: LowerSets, kept: Bool, lazy: bool) -> Int64:
    """Return int64[n_instances]: the step before which the canonical strategy without liveness frees each value."""
    graph, lives, order = simulation.graph, simulation.lifetimes, simulation.schedule.order
    n_blocks = max(1, len(lower_sets))
    last_phase = 2 * n_blocks - 1
    block, _, successor_from, co_input_from = lower_sets.on(graph)
    owner = np.where(graph.forward, np.arange(graph.n_nodes), graph.owner)
    home = np.where(block < 0, n_blocks - 1, block)[owner]
    # For a forward value, the smallest i for which L_i or the co-inputs of L_i contain it. For a gradient, the smallest
    # i for which d+(L_i) contains it. The backward part visits blocks in descending order, so block i needs it last.
    needed_by = np.where(graph.forward, np.minimum(home, co_input_from), successor_from[owner])
    missing = graph.forward & graph.needed & ~kept & (not lazy)
    phase = _phases(graph, order, home, missing, n_blocks)

    made_at = simulation.lifetimes.made_at
    node = order[made_at]
    gradient, again = ~graph.forward[node], phase[made_at] >= n_blocks
    passed_on = gradient & (np.diff(graph.readers[0]) == 0)[lives.value]
    until = np.where(again | kept[node], last_phase - needed_by[node], home[node])
    until = np.maximum(np.where(passed_on, 0, until), phase[np.where(passed_on, made_at, lives.end - 1)])
    i = last_phase - phase[made_at]
    outside = (home[node] < i) | ((home[node] > i) & (co_input_from[node] > i))
    at_once = np.where(gradient, _running_sums(graph, owner)[lives.value], again & outside)
    return np.where(at_once, lives.end, np.searchsorted(phase, until, side="right"))


def _phases(graph: ComputationGraph, order: Int32, home: Int64, missing: Bool, n_blocks: int) -> Int64:
    """Return int64[m]: the phase of each step; the backward blocks follow the forward blocks in reverse order."""
    n_forward = int((graph.forward & graph.needed).sum())
    phase = home[order].astype(np.int64)
    # Updates are not counted, since they may wait for a later block.
    of_blocks = (graph.needed & ~graph.forward & ~graph.updates) | missing
    due = np.bincount(home[of_blocks], minlength=n_blocks)
    i = n_blocks - 1
    for step in range(n_forward, order.size):
        node = order[step]
        while i and due[i] == 0 and not graph.updates[node]:  # updates may follow a block
            i -= 1
        phase[step] = 2 * n_blocks - 1 - i
        if of_blocks[node] and (not graph.forward[node] or home[node] == i):
            due[home[node]] -= 1
    return phase


def _running_sums(graph: ComputationGraph, owner: Int64) -> Bool:
    """Return bool[n_values]: True for partial sums of gradients, the last arguments of the steps that add to them."""
    steps = np.flatnonzero(~graph.forward & (np.diff(graph.read_indptr) > 0))
    begin, end = graph.read_indptr[steps], graph.read_indptr[steps + 1]
    last_read = graph.read_indices[end - 1]
    first, last = graph.producer[graph.read_indices[begin]], graph.producer[last_read]
    adds = ~graph.forward[first] & ~graph.forward[last] & (owner[first] != owner[last])
    sums = np.zeros(graph.n_values, bool)
    sums[last_read[adds]] = True
    return sums
