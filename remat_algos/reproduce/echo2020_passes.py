"""Algorithm 1 of echo2020 as printed, and the pass that was merged into MXNet."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from itertools import pairwise

import numpy as np

from remat_algos.ir.arrays import Bool, Int64
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.labels import RECOMPUTE
from remat_algos.kernels import _echo
from remat_algos.schedule.schedule import Schedule
from remat_algos.schedule.updates import postponed
from remat_algos.solvers.candidates import Candidate
from remat_algos.solvers.echo import Choice, by_frontiers
from remat_algos.solvers.feature_maps import FeatureMaps, lists
from remat_algos.solvers.heavy_nodes import recomputable_nodes

MXNET_HEAVY = ("Dropout", "DropoutMask", "Embedding", "Convolution", "Linear", "Concat")


def literal(graph: ComputationGraph) -> Candidate:
    """The schedule of algorithm 1 as printed."""
    maps = FeatureMaps.of(graph, recomputable_nodes(graph))
    choice = Choice.recomputing(maps, by_algorithm_1(maps))
    return Candidate(choice.schedule(), choice.figures)


def mxnet(graph: ComputationGraph) -> Candidate:
    """The schedule of the pass merged into MXNet (apache/mxnet#18228).

    It decides as `echo(mode="paper")`, with its own list of heavy operations: dropout, embedding and concatenation are
    on it, products of two computed matrices are not. It creates mirrors in an order that is not topological, so that
    some of them read a first run, which has to stay for that.
    """
    maps = FeatureMaps.of(graph, recomputable_nodes(graph, heavy=MXNET_HEAVY))
    place = mirror_places(maps)
    of_mirror = place[maps.producer] < place[maps.reader]  # reads that take the mirror of a recomputed node
    through = replace(maps, reader=maps.reader[of_mirror], value=maps.value[of_mirror])
    rerun = through.rerun(by_frontiers(maps))
    stashed = maps.stashed(rerun)
    stashed[maps.value[rerun[maps.reader] & ~of_mirror]] = True
    return Candidate(mirror_path_schedule(maps, rerun, place), Choice(maps, rerun, stashed).figures)


def by_algorithm_1(maps: FeatureMaps) -> Bool:
    """bool[n]: nodes that stay on the recomputation paths.

    From each output and each heavy node a region goes back to the next heavy nodes. In it a node is taken off, in
    order, if what would be released by that is no less than what would be allocated. The regions overlap, which the
    paper does not see: a node that one of them takes off is off. It is known of a gradient what it reads, but not whose
    it is; so all gradients that read an edge count, where the paper counts those of the region. The time can be
    quadratic, since the regions overlap.

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
    ends = forward.copy()
    ends[maps.producer] = False
    forced = np.zeros(graph.n_nodes, bool) if graph.mark is None else graph.mark == RECOMPUTE
    off = _echo.taken_off(
        graph.value_indptr,
        maps.read_indptr,
        maps.value,
        *maps.readers(),
        graph.producer,
        np.where(graph.output, 0, graph.memory),
        maps.recomputable.view(np.uint8),
        maps.read_back.view(np.uint8),
        forced.view(np.uint8),
        np.flatnonzero(ends | forward & ~maps.recomputable).astype(np.int32),
    )
    return maps.recomputable & ~off.view(np.bool_)


def mirror_places(maps: FeatureMaps) -> Int64:
    """int64[n]: when the pass makes the mirror of each node: by first visit, not topologically.

    Backwards from an output or a heavy node, breadth first, the last found first; then in the same way from the heads
    of what else reads the inputs of what is there.
    """
    tour = _Tour(maps)
    place = np.full(maps.graph.n_nodes, -1, np.int64)
    place[tour.order] = np.arange(len(tour.order))
    return place


class _Tour:
    """The visits of the pass, one region after the other."""

    def __init__(self, maps: FeatureMaps) -> None:
        graph = maps.graph
        self.cheap = maps.recomputable.tolist()
        self.producer = graph.producer.tolist()
        self.reads = lists(maps.read_indptr, maps.value)
        self.readers = lists(*maps.readers())
        self.values = [range(begin, end) for begin, end in pairwise(graph.value_indptr.tolist())]
        self.seen, self.walked = [False] * graph.n_nodes, [False] * graph.n_nodes
        self.order: list[int] = []
        forward = np.flatnonzero(graph.forward & graph.needed).tolist()
        self.heavy = deque(v for v in forward if not any(self.readers[x] for x in self.values[v]))
        while self.heavy:
            start = self.heavy.popleft()
            if not self.seen[start]:
                self._region(start)

    def _region(self, start: int) -> None:
        done = len(self.order)
        self._backwards([start])
        while done < len(self.order):
            for x in self.reads[self.order[done]]:
                for reader in self.readers[x]:
                    if not self.seen[reader]:
                        self._backwards(self._heads(reader))
            done += 1

    def _backwards(self, heads: list[int]) -> None:
        found: list[int] = []
        waiting = deque(heads)
        while waiting:
            v = waiting.popleft()
            if self.seen[v]:
                continue
            self.seen[v] = True
            found.append(v)
            for x in self.reads[v]:
                u = self.producer[x]
                (waiting if self.cheap[u] else self.heavy).append(u)
        self.order += reversed(found)

    def _heads(self, start: int) -> list[int]:
        """Where the ways forward from a node end: at heavy nodes and outputs."""
        heads, waiting = [], deque([start])
        while waiting:
            v = waiting.popleft()
            if self.walked[v]:
                continue
            self.walked[v] = True
            ahead = [w for x in self.values[v] for w in self.readers[x]]
            if self.cheap[v] and ahead:
                waiting += ahead
            else:
                heads.append(v)
        return heads


def mirror_path_schedule(maps: FeatureMaps, rerun: Bool, place: Int64) -> Schedule:
    """The forward part, then each gradient after the mirrors that it needs, in the order in which they were made.

    A mirror that reads the first run of another node runs before that one's mirror, unless that is there already.
    """
    graph: ComputationGraph = maps.graph
    again, reads = rerun.tolist(), lists(graph.read_indptr, graph.read_indices)
    producer, at = graph.producer.tolist(), place.tolist()
    pinned = graph.output.tolist()
    order = np.flatnonzero(graph.forward & graph.needed).tolist()
    done = [False] * graph.n_nodes

    def missing(v: int, before: float) -> list[int]:
        """Mirrors that it reads, the first made on top."""
        wanted = {producer[x] for x in reads[v] if not pinned[x]}
        return sorted((u for u in wanted if again[u] and not done[u] and at[u] < before), key=lambda u: -at[u])

    for g in np.flatnonzero(graph.needed & ~graph.forward).tolist():
        path = missing(g, np.inf)
        while path:
            v = path[-1]
            ahead = [] if done[v] else missing(v, at[v])
            if ahead:
                path += ahead
                continue
            path.pop()
            if not done[v]:
                done[v] = True
                order.append(v)
        order.append(g)
    return Schedule(postponed(graph, np.array(order, np.int32)))
