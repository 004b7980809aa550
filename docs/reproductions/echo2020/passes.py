"""Algorithm 1 of echo2020 as printed, and the pass that was merged into MXNet."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from itertools import pairwise

import numpy as np
from remat_algos.kernels.graph import GraphArrays
from remat_algos.kernels.regions import removed_regions

from remat_algos.ir.arrays import Bool, Int64
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.parts import RECOMPUTE
from remat_algos.schedule.schedule import Schedule, emit
from remat_algos.solvers.methods.echo import Choice, FeatureMaps, by_frontiers, lists, recomputable_nodes
from remat_algos.solvers.registry import Candidate

MXNET_HEAVY = ("Dropout", "DropoutMask", "Embedding", "Convolution", "Linear", "Concat")


def literal(graph: ComputationGraph) -> Candidate:
    """The schedule of algorithm 1 as printed."""
    maps = FeatureMaps.of(graph, recomputable_nodes(graph))
    choice = Choice.recomputing(maps, by_algorithm_1(maps))
    return Candidate(choice.schedule(), choice.figures)


def mxnet(graph: ComputationGraph) -> Candidate:
    """The schedule of the pass merged into MXNet (apache/mxnet#18228).

    It decides like `echo(mode="paper")`, with its own list of heavy operations: dropout, embedding and concatenation
    are on it, products of two computed matrices are not. It creates mirrors in an order that is not topological, so
    some read the result of a first run, which must stay in memory for that.
    """
    maps = FeatureMaps.of(graph, recomputable_nodes(graph, heavy=MXNET_HEAVY))
    place = mirror_places(maps)
    of_mirror = place[maps.producer] < place[maps.reader]  # reads of a mirror that read a mirror
    through = replace(maps, reader=maps.reader[of_mirror], value=maps.value[of_mirror])
    recomputed = through.recomputed(by_frontiers(maps))
    stashed = maps.stashed(recomputed)
    stashed[maps.value[recomputed[maps.reader] & ~of_mirror]] = True
    return Candidate(mirror_path_schedule(maps, recomputed, place), Choice(maps, recomputed, stashed).figures)


def by_algorithm_1(maps: FeatureMaps) -> Bool:
    """bool[n]: nodes that stay on the recomputation paths.

    From each output and each heavy node a region extends backwards to the next heavy nodes. Its nodes are removed one
    by one if that releases no fewer bytes than it allocates. The paper does not mention that regions overlap: a node is
    removed if one of its regions removes it, and the time can be quadratic. The paper counts the gradients of the
    region's nodes only; here all gradients that read an edge count, since the graph does not record to which
    operation a gradient belongs.

    References
    ----------
    echo2020, algorithm 1.

    Examples
    --------
    >>> from remat_algos.ir.differentiate import differentiate
    >>> from remat_algos.ir.graph import ComputationGraph
    >>> chain = differentiate(ComputationGraph.from_edges([(0, 1), (1, 2), (2, 3)], memory=[2, 4, 4, 4]))
    >>> maps = FeatureMaps.of(chain, [False, True, True, True, False, False, False, False])
    >>> by_algorithm_1(maps).tolist()[:4]
    [False, True, True, True]
    """
    graph = maps.graph
    forward = graph.forward & graph.needed
    unread = forward.copy()
    unread[maps.producer] = False
    forced = np.zeros(graph.n_nodes, bool) if graph.mark is None else graph.mark == RECOMPUTE
    arrays = GraphArrays(
        value_indptr=graph.value_indptr,
        read_indptr=maps.read_indptr,
        read_indices=maps.value,
        memory=np.where(graph.output, 0, graph.memory),
        output=graph.output.view(np.uint8),
        readers=maps.readers(),
    )
    removed = removed_regions(
        arrays,
        maps.recomputable.view(np.uint8),
        maps.read_back.view(np.uint8),
        forced.view(np.uint8),
        np.flatnonzero(unread | forward & ~maps.recomputable).astype(np.int32),
    )
    return maps.recomputable & ~removed.view(np.bool_)


def mirror_places(maps: FeatureMaps) -> Int64:
    """int64[n]: position of each node's mirror in the pass's order of creation, which is not topological.

    The order is a breadth-first search backwards from an output or a heavy node, reversed, then further searches from
    the heads of the other readers of the inputs of all its nodes.
    """
    order = _MirrorOrder(maps).order
    place = np.full(maps.graph.n_nodes, -1, np.int64)
    place[order] = np.arange(len(order))
    return place


class _MirrorOrder:
    """The order in which the pass creates mirrors, region by region."""

    def __init__(self, maps: FeatureMaps) -> None:
        graph = maps.graph
        self.cheap = maps.recomputable.tolist()
        self.producer = graph.producer.tolist()
        self.reads = lists(maps.read_indptr, maps.value)
        self.readers = lists(*maps.readers())
        self.values = [range(begin, end) for begin, end in pairwise(graph.value_indptr.tolist())]
        self.visited, self.visited_forwards = [False] * graph.n_nodes, [False] * graph.n_nodes
        self.order: list[int] = []
        forward = np.flatnonzero(graph.forward & graph.needed).tolist()
        self.heavy = deque(v for v in forward if not any(self.readers[x] for x in self.values[v]))
        while self.heavy:
            start = self.heavy.popleft()
            if not self.visited[start]:
                self._region(start)

    def _region(self, start: int) -> None:
        done = len(self.order)
        self._backwards([start])
        while done < len(self.order):
            for x in self.reads[self.order[done]]:
                for reader in self.readers[x]:
                    if not self.visited[reader]:
                        self._backwards(self._heads(reader))
            done += 1

    def _backwards(self, heads: list[int]) -> None:
        reached: list[int] = []
        queue = deque(heads)
        while queue:
            v = queue.popleft()
            if self.visited[v]:
                continue
            self.visited[v] = True
            reached.append(v)
            for x in self.reads[v]:
                u = self.producer[x]
                (queue if self.cheap[u] else self.heavy).append(u)
        self.order += reversed(reached)

    def _heads(self, start: int) -> list[int]:
        """The heavy nodes and outputs at which the paths from a node end."""
        heads, queue = [], deque([start])
        while queue:
            v = queue.popleft()
            if self.visited_forwards[v]:
                continue
            self.visited_forwards[v] = True
            successors = [w for x in self.values[v] for w in self.readers[x]]
            if self.cheap[v] and successors:
                queue += successors
            else:
                heads.append(v)
        return heads


def mirror_path_schedule(maps: FeatureMaps, recomputed: Bool, place: Int64) -> Schedule:
    """The forward part, then each gradient after its mirrors in the order of their creation.

    A mirror that reads the first run of a node runs before the mirror of that node, unless that has run already.
    """
    graph = maps.graph
    mirrored, reads = recomputed.tolist(), lists(graph.read_indptr, graph.read_indices)
    producer, place_of = graph.producer.tolist(), place.tolist()
    pinned = graph.output.tolist()
    order = np.flatnonzero(graph.forward & graph.needed).tolist()
    done = [False] * graph.n_nodes

    def missing(v: int, before: float) -> list[int]:
        """Mirrors that a node reads and that have not run, in reverse order of creation."""
        inputs = {producer[x] for x in reads[v] if not pinned[x]}
        return sorted(
            (u for u in inputs if mirrored[u] and not done[u] and place_of[u] < before), key=lambda u: -place_of[u]
        )

    for g in np.flatnonzero(graph.needed & ~graph.forward).tolist():
        stack = missing(g, np.inf)
        while stack:
            v = stack[-1]
            first = [] if done[v] else missing(v, place_of[v])
            if first:
                stack += first
                continue
            stack.pop()
            if not done[v]:
                done[v] = True
                order.append(v)
        order.append(g)
    return emit(graph, np.array(order, np.int32))
