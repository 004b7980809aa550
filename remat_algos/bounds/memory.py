"""Lower bounds on the peak of every schedule."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from heapq import heapify, heappop, heappush

import numpy as np

from remat_algos.arguments import checked_arguments
from remat_algos.bounds import tuning
from remat_algos.context import Clock, OutOfTime
from remat_algos.ir.arrays import Bool, Int32, Int64, interval_sums
from remat_algos.ir.graph import ComputationGraph, derived, runs_once, updates_and_readers
from remat_algos.kernels.closure import ClosureSearch, two_path_bytes
from remat_algos.kernels.closure import forced_bytes as forced_bytes_kernel
from remat_algos.structure.live_sets import live_set_graph, useful_values


@checked_arguments
def least_peak_bound(graph: ComputationGraph, *, copies: bool = False) -> tuple[int, list[int]]:
    """Return a lower bound on the peak of every schedule, and the nodes that prove it.

    The bound is the maximum of three bounds. If the maximum is that of `forced_bytes`, the nodes are those that attain
    it. If it is `two_path_bound`, they are the two nodes of that bound. If it is `result_bytes`, the list is empty.

    Parameters
    ----------
    graph : ComputationGraph
    copies : bool, optional
        True if schedules may copy values to the host and back. The bound is then that of `lowest_order_with_copies`;
        the list is empty if the outputs that are live at the peak depend on the order.

    Returns
    -------
    int, list of int
        The bound in bytes, without residents (values that are always in memory), and the node ids.

    Examples
    --------
    >>> graph = ComputationGraph.from_edges([(0, 1), (0, 2), (1, 2)], memory=[4, 2, 1])
    >>> least_peak_bound(graph)
    (7, [2])
    """
    if copies:
        bound, live = lowest_order_with_copies(graph)[0], _live(graph, np.zeros(graph.n_nodes, bool))
        return bound, np.flatnonzero(live == bound).tolist() if bound else []
    forced = forced_bytes(graph)
    bound, pair = two_path_bound(graph)
    if (together := result_bytes(graph, forced)) > bound:
        return together, []
    return bound, pair or np.flatnonzero(graph.needed & (forced == bound)).tolist()


def result_bytes(graph: ComputationGraph, live: Int64 | None = None) -> int:
    """Return a lower bound on the bytes live at the first run of the node that computes the last output."""
    reader = np.repeat(np.arange(graph.n_nodes), np.diff(graph.read_indptr))
    bytes_of = _own_bytes(graph) + int(graph.memory[graph.output].sum())
    last = np.zeros(graph.n_nodes, bool)
    last[graph.producer[graph.output]] = True
    last[graph.producer[graph.read_indices[graph.needed[reader]]]] = False
    if live is not None:
        bytes_of = np.maximum(bytes_of, live)
    return int(bytes_of[last].min()) if last.any() else 0


def _own_bytes(graph: ComputationGraph) -> Int64:
    """Return the bytes of each node's workspace and of the values that it reads or computes, without outputs."""
    counted = np.where(graph.output, 0, graph.memory)
    own = graph.workspace.astype(np.int64)
    np.add.at(own, graph.producer, counted)
    np.add.at(own, np.repeat(np.arange(graph.n_nodes), np.diff(graph.read_indptr)), counted[graph.read_indices])
    return own


def lowest_order_with_copies(graph: ComputationGraph) -> tuple[int, Int64]:
    """Return a lower bound on the peak of all schedules with copies to the host and back, and a one-pass order.

    During the first run of a node, its workspace, the values that it reads and computes, and all outputs computed
    before it are on the device. The later a node runs, the more outputs are live. So the order is built backwards: the
    node with the fewest bytes runs last (Lawler's rule for minimizing the maximum cost).
    """
    result = derived(graph, "lowest order with copies", lambda: _lowest_with_copies(graph))
    return int(result[0]), result[1:]


def _lowest_with_copies(graph: ComputationGraph) -> Int64:
    own, pinned = _own_bytes(graph), np.zeros(graph.n_nodes, np.int64)
    np.add.at(pinned, graph.producer, np.where(graph.output, graph.memory, 0))
    order = np.flatnonzero(graph.needed)
    live = own[order] + np.cumsum(pinned[order])
    if live.max(initial=0) > np.max(own[order] + pinned[order], initial=0):
        order = _latest_first(graph, order, own)[::-1]
        live = own[order] + np.cumsum(pinned[order])
    return np.array([live.max(initial=0), *order], np.int64)


def _latest_first(graph: ComputationGraph, nodes: Int64, own: Int64) -> Int64:
    """Order the needed nodes from last to first: repeatedly place the smallest node whose readers are all placed."""
    needed, before, awaited = graph.needed, dict[int, list[int]](), np.zeros(graph.n_nodes, np.int64)
    update, update_reader = updates_and_readers(graph)
    for u, v in zip(update.tolist(), update_reader.tolist(), strict=True):
        if needed[u] and needed[v]:
            before.setdefault(u, []).append(v)
            awaited[v] += 1
    makers = graph.producer[graph.read_indices]
    np.add.at(awaited, makers[np.repeat(needed, np.diff(graph.read_indptr))], 1)
    ready = [(int(own[v]), -v) for v in nodes.tolist() if not awaited[v]]
    heapify(ready)
    order = list[int]()
    while ready:
        v = -heappop(ready)[1]
        order.append(v)
        for u in [*makers[graph.read_indptr[v] : graph.read_indptr[v + 1]].tolist(), *before.get(v, ())]:
            awaited[u] -= 1
            if not awaited[u]:
                heappush(ready, (int(own[u]), -u))
    return np.array(order, np.int64)


def two_path_bound(graph: ComputationGraph) -> tuple[int, list[int]]:
    """Return a lower bound on the peak and two nodes: at least that many bytes are live while one of them runs.

    For the bound see docs/theory/closure_bound.md, "Two paths, and results". If no pair improves on the maximum of
    `forced_bytes`, return that maximum and [].
    """
    bound, *pair = derived(graph, "two_path_bound", lambda: _two_paths(graph)).tolist()
    return bound, sorted(pair) if pair[0] >= 0 else []


def one_pass_bound(graph: ComputationGraph, clock: Clock | None = None) -> tuple[int, Int64 | None]:
    """Return a lower bound on the peak of every one-pass order, and an order whose peak equals the bound, or None.

    The bound comes from `least_peak_bound`, from minimum cuts (docs/theory/closure_bound.md) and, on graphs of up to
    128 values, from `lowest_one_pass`. At the deadline of `clock`, return the best bound that has been reached.
    """
    clock, bound = clock or Clock(), 0

    def computed() -> Int64:
        nonlocal bound
        for cut in one_pass_cuts(graph, clock):
            bound = cut
        upper = int(bytes_in_id_order(graph).max(initial=0))
        # An update must wait for all reads of its parameter, so the id order may be invalid.
        if graph.updates.any():
            upper = int(graph.memory.sum()) + int(graph.workspace.max(initial=0)) + 1
        lowest, order = lowest_one_pass(graph, bound, upper, clock.check)
        return np.array([lowest, *([] if order is None else order.tolist())], np.int64)

    try:
        result = derived(graph, "one_pass", computed)
    except OutOfTime:
        return max(bound, least_peak_bound(graph)[0]), None
    return int(result[0]), result[1:] if result.size > 1 else None


def bytes_in_id_order(graph: ComputationGraph) -> Int64:
    """Return the bytes live at each needed node in the id order, int64[n]; 0 for other nodes."""
    n = graph.n_nodes
    indptr, indices = graph.readers
    last = graph.producer.astype(np.int64)
    reader = np.where(graph.needed[indices], indices, -1)
    nonempty = np.flatnonzero(np.diff(indptr))
    if nonempty.size:
        last[nonempty] = np.maximum(last[nonempty], np.maximum.reduceat(reader, indptr[nonempty]))
    last[graph.output] = n - 1
    computed = graph.needed[graph.producer]
    live = interval_sums(graph.producer[computed], last[computed] + 1, graph.memory[computed], n)
    return np.where(graph.needed, live + graph.workspace, 0)


def moments_above(graph: ComputationGraph, limit: int) -> Int32:
    """Return the needed nodes at which more bytes than the limit are live in id order, in order of decreasing bytes."""
    live = bytes_in_id_order(graph)
    nodes = np.argsort(-live, kind="stable").astype(np.int32)
    return nodes[live[nodes] > limit]


def forced_bytes(graph: ComputationGraph) -> Int64:
    """Return the bytes live in every schedule during the first run of each needed node v, int64[n]; 0 for other nodes.

    These are the workspace of v, the values that v reads and computes, the outputs of ancestors of v, and some values
    of nodes that run only once: those whose producer runs before v and whose reader runs after v in every order. If
    there are very many outputs and nodes that run only once, those with the fewest bytes are not counted.
    """
    return derived(graph, "forced_bytes", lambda: _live(graph, runs_once(graph)))


def _live(graph: ComputationGraph, single: Bool) -> Int64:
    """Return `forced_bytes` under the assumption that the nodes marked `single` run only once."""
    waits = graph.output | single[graph.producer]
    bytes_of = np.bincount(graph.producer, np.where(waits, graph.memory, 0), graph.n_nodes)
    is_read = np.zeros(graph.n_nodes, bool)
    is_read[graph.producer[graph.read_indices]] = True
    pins = np.flatnonzero(graph.needed & is_read & (bytes_of > 0))
    pins = pins[np.argsort(-bytes_of[pins], kind="stable")].astype(np.int32)
    return forced_bytes_kernel(graph.arrays, single.view(np.uint8), pins, tuning.PATHS_WORK)[0]


def lowest_one_pass(
    graph: ComputationGraph, above: int, known: int, look: Callable[[], object] | None = None
) -> tuple[int, Int32 | None]:
    """Return a lower bound on the peak of every one-pass order, and an optimal order if it is better than `known`.

    If every node runs once, the set of executed nodes (a down-set) determines the live values. A best-first search
    visits these sets in order of the lowest peak of a path to them, smallest first. With up to 30 needed nodes it
    nearly always finishes. `above` is a known lower bound, `known` a known upper bound. Marks of nodes are ignored.
    """
    from remat_algos.kernels.live_sets import EXHAUSTED, FULL, MAX_VALUES, SOLVED

    nodes = np.flatnonzero(graph.needed).astype(np.int32)
    if above >= known or nodes.size > MAX_VALUES or int(useful_values(graph).sum()) > MAX_VALUES:
        return above, None
    once = replace(graph, mark=None, once=np.ones(graph.n_nodes, bool))
    search = live_set_graph(once, nodes).start(known - 1, known, lowest=True)
    verdict, most = None, tuning.MAX_STATES if nodes.size <= tuning.PROVEN_NODES else tuning.MAX_STATES_OF_MORE
    while verdict not in (SOLVED, EXHAUSTED, FULL) and search.n_states < most:
        verdict = search.advance(tuning.STATES_PER_CHECK, most)
        if look is not None:
            look()
    if verdict == SOLVED:
        return int(search.key), nodes[search.order()]
    return (known if verdict == EXHAUSTED else max(above, min(known, int(search.key)))), None


def one_pass_cuts(graph: ComputationGraph, clock: Clock) -> Iterator[int]:
    """Yield increasing lower bounds on the peak of every one-pass order, from minimum cuts."""
    reads = min(2 * tuning.PATHS_WORK, graph.n_nodes * (graph.n_nodes + int(graph.read_indices.size)))
    clock.check()
    # The search cannot be interrupted before its first bound, so skip it if that would take too long.
    if clock.left is not None and reads > tuning.READS_A_SECOND * clock.left:
        raise OutOfTime
    once = replace(graph, mark=None, once=np.ones(graph.n_nodes, bool))
    bound, live = least_peak_bound(once)[0], bytes_in_id_order(graph)
    nodes = moments_above(once, bound)
    single, cost = once.once.view(np.uint8), np.zeros(graph.n_nodes, np.int64)
    search = ClosureSearch(once.arrays, single, cost, bits=0, step=1, most=2**61 // (graph.n_values + 2))
    at = work = 0
    yield bound
    while at < nodes.size and live[nodes[at]] > bound and work < tuning.ONE_PASS_WORK:
        clock.check()
        search.aim(bound)
        at = search.visit(nodes, at, tuning.PATHS_PORTION)
        work += int(search.work)
        bound = max(bound, int(search.excessive))
        yield bound


def _two_paths(graph: ComputationGraph) -> Int64:
    """Return the bound and its two nodes; the nodes are -1 if no pair improves on `forced_bytes`."""
    forced = forced_bytes(graph)
    live = _live(graph, np.zeros(graph.n_nodes, bool)) if runs_once(graph).any() else forced
    nodes = np.argsort(-live, kind="stable")
    nodes = nodes[graph.needed[nodes]].astype(np.int32)
    result = two_path_bytes(graph.arrays, live, nodes, int(forced.max(initial=0)), tuning.PAIR_WORK)
    return np.array(result, np.int64)
