"""What the merged pass of MXNet would recompute, and in which order it makes the mirrors."""

import heapq
from collections import deque
from itertools import pairwise

import numpy as np

from remat_algos.ir.arrays import Bool, Int32, Int64
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.labels import RECOMPUTE
from remat_algos.schedule.schedule import Schedule
from remat_algos.schedule.updates import postponed
from remat_algos.solvers.feature_maps import FeatureMaps


def by_frontiers(maps: FeatureMaps) -> Bool:
    """bool[n]: nodes that stay on the mirror path.

    Judged are only nodes whose inputs are all heavy or off, the frontier, and those of them that share inputs together.
    Allocated are their values, and their inputs that something outside the frontier reads; released are the other
    inputs. If that is no less, they are off, and the frontier moves on; the group with the least id is asked first.

    References
    ----------
    echo2020 as it was merged in apache/mxnet#18228.

    Examples
    --------
    >>> from remat_algos.ir.differentiate import differentiate
    >>> chain = differentiate(ComputationGraph.from_edges([(0, 1), (1, 2), (2, 3)], memory=[2, 4, 4, 4]))
    >>> maps = FeatureMaps.of(chain, [False, True, True, True, False, False, False, False])
    >>> by_frontiers(maps).tolist()[:4]
    [False, True, True, True]
    """
    frontier = _Frontier(maps)
    return maps.recomputable & ~frontier.off()


class _Frontier:
    """Nodes whose inputs are all heavy or off, in groups that share inputs, with what each group allocates."""

    def __init__(self, maps: FeatureMaps) -> None:
        graph = maps.graph
        self.cheap = maps.recomputable.tolist()
        self.forced = (maps.recomputable & (graph.mark == RECOMPUTE)).tolist() if graph.mark is not None else None
        self.memory = np.where(graph.output, 0, graph.memory).tolist()
        self.reads = _rows(np.searchsorted(maps.reader, np.arange(graph.n_nodes + 1)), maps.value)
        self.readers = _rows(*maps.readers())
        self.producer = graph.producer.tolist()
        self.values = [range(begin, end) for begin, end in pairwise(graph.value_indptr.tolist())]
        read_back = maps.read_back.tolist()
        self.outside = [len(row) + back for row, back in zip(self.readers, read_back, strict=True)]
        self.any_reader = [count > 0 for count in self.outside]
        self.waits = [sum(self.cheap[self.producer[x]] for x in row) for row in self.reads]
        self.above = list(range(graph.n_nodes))  # of joined groups the least node stands for the group
        self.members: dict[int, list[int]] = {}
        self.gain: dict[int, int] = {}  # bytes released less bytes allocated
        self.owner: dict[int, int] = {}  # a node of the group that reads the value

    def off(self) -> Bool:
        """bool[n]: what is taken off until nothing is any more."""
        off = np.zeros(len(self.cheap), bool)
        ready = [v for v, cheap in enumerate(self.cheap) if cheap and not self.waits[v]]
        asked: list[int] = []
        while ready or asked:
            for group in {self._group(v) for v in [*map(self._join, ready)]}:
                heapq.heappush(asked, group)
            ready = []
            group = heapq.heappop(asked) if asked else -1
            if group in self.members and self.gain[group] >= 0 and not self._kept_in(group):
                off[self.members[group]] = True
                ready = self._leave(group)
        return off

    def _group(self, v: int) -> int:
        while self.above[v] != v:
            self.above[v] = self.above[self.above[v]]
            v = self.above[v]
        return v

    def _join(self, v: int) -> int:
        """A node comes to the frontier."""
        self.members[v], self.gain[v] = [v], -sum(self.memory[x] for x in self.values[v] if self.any_reader[x])
        for x in self.reads[v]:
            self.outside[x] -= 1
            group = self._group(v)
            if x in self.owner:
                group = self._together(group, self._group(self.owner[x]))
            else:
                self.owner[x] = v
                self.gain[group] -= self.memory[x]
            if not self.outside[x]:
                self.gain[group] += 2 * self.memory[x]  # released, and no more allocated
        return v

    def _together(self, one: int, other: int) -> int:
        """Two groups become one."""
        if one == other:
            return one
        least, other = min(one, other), max(one, other)
        if len(self.members[least]) < len(self.members[other]):
            self.members[least], self.members[other] = self.members[other], self.members[least]
        self.members[least] += self.members.pop(other)
        self.gain[least] += self.gain.pop(other)
        self.above[other] = least
        return least

    def _leave(self, group: int) -> list[int]:
        """A group goes off; which nodes have all their inputs by that."""
        ready = []
        del self.gain[group]
        for v in self.members.pop(group):
            for x in self.reads[v]:
                self.outside[x] += 1
                self.owner.pop(x, None)
            for x in self.values[v]:
                for w in self.readers[x]:
                    self.waits[w] -= 1
                    if not self.waits[w] and self.cheap[w]:
                        ready.append(w)
        return sorted(ready)

    def _kept_in(self, group: int) -> bool:
        """Whether a mark wants a node of the group on the mirror path."""
        return self.forced is not None and any(self.forced[v] for v in self.members[group])


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
        self.reads = _rows(np.searchsorted(maps.reader, np.arange(graph.n_nodes + 1)), maps.value)
        self.readers = _rows(*maps.readers())
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


def mirrored_reads(maps: FeatureMaps, place: Int64) -> Bool:
    """bool[k]: reads for which the mirror takes a mirror; those of later mirrors take what the first run made."""
    return place[maps.producer] < place[maps.reader]


def mirror_path_schedule(maps: FeatureMaps, rerun: Bool, place: Int64) -> Schedule:
    """The forward part, then each gradient after the mirrors that it needs, in the order in which they were made.

    A mirror that reads the first run of another node runs before that one's mirror, unless that is there already.
    """
    graph: ComputationGraph = maps.graph
    again, reads = rerun.tolist(), _read_rows(graph)
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


def _read_rows(graph: ComputationGraph) -> list[list[int]]:
    return _rows(graph.read_indptr, graph.read_indices)


def _rows(indptr: Int64, indices: Int32) -> list[list[int]]:
    entries = indices.tolist()
    return [entries[begin:end] for begin, end in pairwise(indptr.tolist())]
