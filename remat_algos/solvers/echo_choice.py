"""The nodes that echo recomputes: by a minimum cut of the whole graph, or by the frontiers of algorithm 1."""

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from remat_algos.errors import ArgumentError
from remat_algos.ir.arrays import Bool
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.labels import RECOMPUTE
from remat_algos.schedule.mirror import clamp_counts, mirror_schedule
from remat_algos.schedule.schedule import Schedule
from remat_algos.solvers.feature_maps import FeatureMaps, lists
from remat_algos.solvers.heavy_nodes import recomputable_nodes

MODES = ("exact", "paper")
REPRODUCED = ("literal", "mxnet")  # modes of the reproduction of echo2020 alone


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """The nodes that echo recomputes, bool[n], and the values of first runs that stay stashed, bool[n_values]."""

    maps: FeatureMaps
    recomputed: Bool
    stashed: Bool

    @classmethod
    def of(
        cls,
        graph: ComputationGraph,
        mode: str = "exact",
        only: str | Sequence[str] | None = None,
        also: str | Sequence[str] | None = None,
    ) -> "Choice":
        """The choice of a mode; ValueError for an unknown mode, or a word that matches no operation or layer."""
        if mode not in MODES:
            if mode in REPRODUCED:
                raise ArgumentError(
                    "mode is {mode!r}, which is part of the reproduction of echo2020; use exact or paper", mode=mode
                )
            raise ArgumentError("mode is {mode!r}; use exact or paper", mode=mode)
        maps = FeatureMaps.of(graph, recomputable_nodes(graph, only, also))
        return cls.recomputing(maps, maps.minimum_stash() if mode == "exact" else by_frontiers(maps))

    @classmethod
    def recomputing(cls, maps: FeatureMaps, nodes: Bool) -> "Choice":
        """Recompute, among the given nodes (bool[n]), those that a gradient needs."""
        recomputed = maps.recomputed(nodes)
        return cls(maps, recomputed, maps.stashed(recomputed))

    @property
    def figures(self) -> Mapping[str, int]:
        """Bytes of the stash, with and without recomputation, and the number of recomputed nodes."""
        return {
            "stash": self.maps.memory(self.stashed),
            "stash_without": self.maps.memory(self.maps.read_back),
            "rerun": int(np.count_nonzero(self.recomputed)),
        }

    def schedule(self) -> Schedule:
        """Algorithm 2 of chen2016 with a mirror of each recomputed node."""
        return mirror_schedule(self.maps.graph, clamp_counts(self.maps.graph, self.recomputed.astype(np.int64)))


def by_frontiers(maps: FeatureMaps) -> Bool:
    """bool[n]: nodes that stay on the mirror path, as in echo2020 and as it was merged in apache/mxnet#18228.

    At first all cheap nodes are on it. The frontier is the set of nodes whose inputs all come from heavy or removed
    nodes; frontier nodes that share inputs form a group and are evaluated together. A group allocates its values and
    those of its inputs that are read outside the frontier, and releases its other inputs. A group that releases no
    less than it allocates is removed, and the frontier moves on; the group with the smallest id comes first.
    """
    return maps.recomputable & ~_FrontierGroups(maps).removed()


class _FrontierGroups:
    """The frontier in groups that share inputs, with the gain of removing each."""

    def __init__(self, maps: FeatureMaps) -> None:
        graph = maps.graph
        self.cheap = maps.recomputable.tolist()
        self.forced = (maps.recomputable & (graph.mark == RECOMPUTE)).tolist() if graph.mark is not None else None
        self.memory = np.where(graph.output, 0, graph.memory).tolist()
        self.reads = lists(maps.read_indptr, maps.value)
        self.readers = lists(*maps.readers())
        self.producer = graph.producer.tolist()
        self.values = [range(begin, end) for begin, end in pairwise(graph.value_indptr.tolist())]
        read_back = maps.read_back.tolist()
        self.outside = [len(row) + back for row, back in zip(self.readers, read_back, strict=True)]
        self.has_reader = [count > 0 for count in self.outside]
        self.n_cheap_inputs = [sum(self.cheap[self.producer[x]] for x in row) for row in self.reads]
        self.parent = list(range(graph.n_nodes))  # of a disjoint-set forest; the smallest node names the group
        self.members: dict[int, list[int]] = {}
        self.gain: dict[int, int] = {}  # bytes released less bytes allocated
        self.owner: dict[int, int] = {}  # a node of the group that reads the value

    def removed(self) -> Bool:
        """bool[n]: nodes that have been removed when no further group can be."""
        removed = np.zeros(len(self.cheap), bool)
        ready = [v for v, cheap in enumerate(self.cheap) if cheap and not self.n_cheap_inputs[v]]
        queue: list[int] = []
        while ready or queue:
            for group in {self._group(v) for v in [*map(self._join, ready)]}:
                heapq.heappush(queue, group)
            ready = []
            group = heapq.heappop(queue) if queue else -1
            if group in self.members and self.gain[group] >= 0 and not self._has_forced(group):
                removed[self.members[group]] = True
                ready = self._remove(group)
        return removed

    def _group(self, v: int) -> int:
        while self.parent[v] != v:
            self.parent[v] = self.parent[self.parent[v]]
            v = self.parent[v]
        return v

    def _join(self, v: int) -> int:
        """Add a node to the frontier."""
        self.members[v] = [v]
        self.gain[v] = -sum(self.memory[x] for x in self.values[v] if self.has_reader[x])
        for x in self.reads[v]:
            self.outside[x] -= 1
            group = self._group(v)
            if x in self.owner:
                group = self._merge(group, self._group(self.owner[x]))
            else:
                self.owner[x] = v
                self.gain[group] -= self.memory[x]
            if not self.outside[x]:
                self.gain[group] += 2 * self.memory[x]  # released, and no longer allocated
        return v

    def _merge(self, one: int, other: int) -> int:
        """Merge two groups."""
        if one == other:
            return one
        root, other = min(one, other), max(one, other)
        if len(self.members[root]) < len(self.members[other]):
            self.members[root], self.members[other] = self.members[other], self.members[root]
        self.members[root] += self.members.pop(other)
        self.gain[root] += self.gain.pop(other)
        self.parent[other] = root
        return root

    def _remove(self, group: int) -> list[int]:
        """Remove a group from the frontier; return the nodes that join the frontier then."""
        ready = []
        del self.gain[group]
        for v in self.members.pop(group):
            for x in self.reads[v]:
                self.outside[x] += 1
                self.owner.pop(x, None)
            for x in self.values[v]:
                for w in self.readers[x]:
                    self.n_cheap_inputs[w] -= 1
                    if not self.n_cheap_inputs[w] and self.cheap[w]:
                        ready.append(w)
        return sorted(ready)

    def _has_forced(self, group: int) -> bool:
        """True if a node of the group is marked to be recomputed."""
        return self.forced is not None and any(self.forced[v] for v in self.members[group])
