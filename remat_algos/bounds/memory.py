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
    """Lower bound on the peak of every schedule, and the nodes that prove it.

    The maximum of three bounds: `forced_bytes`, with each node that attains it; `two_path_bound`, with its two nodes,
    at a run of one of which these bytes are live; and `result_bytes`, without nodes.

    Parameters
    ----------
    graph : ComputationGraph
    copies : bool, optional
        True if schedules may copy values to the host and back; the bound is then that of `lowest_order_with_copies`.
        The list is empty if the set of waiting outputs depends on the order.

    Returns
    -------
    int, list of int
        Bytes without residents, and node ids.

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
    """Bytes live in every schedule at the first run of the node that completes the outputs.

    All outputs are live at that step, with the workspace, reads and values of the node. Any node that no other output
    needs may be this node, so the minimum over them is the bound. `live`, int64[n], are bytes known to be live at the
    first run of each node.
    """
    reader = np.repeat(np.arange(graph.n_nodes), np.diff(graph.read_indptr))
    bytes_of = _own_bytes(graph) + int(graph.memory[graph.output].sum())
    last = np.zeros(graph.n_nodes, bool)
    last[graph.producer[graph.output]] = True
    last[graph.producer[graph.read_indices[graph.needed[reader]]]] = False
    if live is not None:
        bytes_of = np.maximum(bytes_of, live)
    return int(bytes_of[last].min()) if last.any() else 0


def _own_bytes(graph: ComputationGraph) -> Int64:
    """int64[n]: workspace, reads and values of each node, outputs excluded."""
    counted = np.where(graph.output, 0, graph.memory)
    own = graph.workspace.astype(np.int64)
    np.add.at(own, graph.producer, counted)
    np.add.at(own, np.repeat(np.arange(graph.n_nodes), np.diff(graph.read_indptr)), counted[graph.read_indices])
    return own


def lowest_order_with_copies(graph: ComputationGraph) -> tuple[int, Int64]:
    """The minimum peak over all schedules with copies to the host and back, and a one-pass order that attains it.

    During the first run of a node its workspace, reads and values and all earlier outputs are on the device; all other
    values may be on the host. More nodes before it can only add outputs, so the order is built backwards: among the
    nodes that may run last, choose the one with the fewest bytes (Lawler's rule for minimizing the maximum cost). The
    order attains the bound if all values except outputs may leave the device.
    """
    result = derived(graph, "lowest order with copies", lambda: _lowest_with_copies(graph))
    return int(result[0]), result[1:]


def _lowest_with_copies(graph: ComputationGraph) -> Int64:
    """Return the minimum peak, followed by the order."""
    own, pinned = _own_bytes(graph), np.zeros(graph.n_nodes, np.int64)
    np.add.at(pinned, graph.producer, np.where(graph.output, graph.memory, 0))
    order = np.flatnonzero(graph.needed)
    live = own[order] + np.cumsum(pinned[order])
    if live.max(initial=0) > np.max(own[order] + pinned[order], initial=0):
        order = _latest_first(graph, order, own)[::-1]
        live = own[order] + np.cumsum(pinned[order])
    return np.array([live.max(initial=0), *order], np.int64)


def _latest_first(graph: ComputationGraph, nodes: Int64, own: Int64) -> Int64:
    """Order the needed nodes backwards: repeatedly choose the smallest node whose readers are all placed."""
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
    """Lower bound on the peak from two nodes, and the nodes; at a run of one of them these bytes are live.

    If no pair improves on the maximum of `forced_bytes`, return that maximum and [].

    If one node runs before the other, every path from the first to a third node has a live value until the third one
    runs, in addition to the bytes that the other node needs (docs/theory/closure_bound.md, "Two paths, and
    results"). Within the work limit, pairs of nodes with the most bytes are tried, with the widest paths to every third
    node.
    """
    bound, *pair = derived(graph, "two_path_bound", lambda: _two_paths(graph)).tolist()
    return bound, sorted(pair) if pair[0] >= 0 else []


def one_pass_bound(graph: ComputationGraph, clock: Clock | None = None) -> tuple[int, Int64 | None]:
    """Lower bound on the peak of every one-pass order, and an order that attains it if it improves on id order.

    The bound is the largest minimum cut at the run of a node (docs/theory/closure_bound.md), or `least_peak_bound`
    if no node may run twice. On graphs of up to 128 values `lowest_one_pass` follows; with at most 30 nodes the bound
    is then nearly always exact. At the deadline of `clock` the best bound so far is returned.
    """
    clock, bound = clock or Clock(), 0

    def computed() -> Int64:
        nonlocal bound
        for cut in one_pass_cuts(graph, clock):
            bound = cut
        upper = int(bytes_in_id_order(graph).max(initial=0))
        if graph.updates.any():  # updates may have to wait
            upper = int(graph.memory.sum()) + int(graph.workspace.max(initial=0)) + 1
        lowest, order = lowest_one_pass(graph, bound, upper, clock.check)
        return np.array([lowest, *([] if order is None else order.tolist())], np.int64)

    try:
        result = derived(graph, "one_pass", computed)
    except OutOfTime:
        return max(bound, least_peak_bound(graph)[0]), None
    return int(result[0]), result[1:] if result.size > 1 else None


def bytes_in_id_order(graph: ComputationGraph) -> Int64:
    """int64[n]: bytes live at each needed node in id order, 0 for other nodes."""
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
    """Needed nodes with more live bytes than the limit in id order, largest first; all others fit in id order."""
    live = bytes_in_id_order(graph)
    nodes = np.argsort(-live, kind="stable").astype(np.int32)
    return nodes[live[nodes] > limit]


def forced_bytes(graph: ComputationGraph) -> Int64:
    """int64[n]: bytes live in every schedule during the first run of each needed node, 0 for other nodes.

    The sum of workspace[v], the reads and values of v, outputs of ancestors of v, and values that a node that runs only
    once passes from before v to a node after v: in every order its producer runs before v and its reader after v. If
    there are very many outputs and nodes that run only once, those with the fewest bytes are not counted.
    """
    return derived(graph, "forced_bytes", lambda: _live(graph, runs_once(graph)))


def _live(graph: ComputationGraph, single: Bool) -> Int64:
    """Bytes live in every schedule during the first run of each needed node; during all runs if none is `single`."""
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
    """Return a lower bound on the peak of every one-pass order, and an order that attains it if below `known`.

    If every node runs once, the set of executed nodes (a down-set) determines the live values. A best-first search over
    these sets orders them by the minimum peak on a path to them; with up to 30 needed nodes it nearly always finishes.
    `above` is a known lower bound, `known` an upper bound. Marks of nodes are ignored.
    """
    from remat_algos.kernels.live_sets import EXHAUSTED, FULL, MAX_VALUES, SOLVED  # 2 ms

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
    if clock.left is not None and reads > tuning.READS_A_SECOND * clock.left:  # the first part is uninterruptible
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
    """Return the bound and its two nodes, or -1 for the nodes if no pair proves it."""
    forced = forced_bytes(graph)
    live = _live(graph, np.zeros(graph.n_nodes, bool)) if runs_once(graph).any() else forced
    nodes = np.argsort(-live, kind="stable")
    nodes = nodes[graph.needed[nodes]].astype(np.int32)
    result = two_path_bytes(graph.arrays, live, nodes, int(forced.max(initial=0)), tuning.PAIR_WORK)
    return np.array(result, np.int64)
