"""Echo: recompute cheap nodes where that makes the stash of feature maps smaller."""

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from remat_algos.context import SearchContext
from remat_algos.ir.arrays import Bool
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.labels import RECOMPUTE
from remat_algos.ir.wording import shortened
from remat_algos.schedule.mirror import honoured, mirror_schedule
from remat_algos.schedule.schedule import Schedule
from remat_algos.solvers.candidates import Candidate
from remat_algos.solvers.feature_maps import FeatureMaps, lists
from remat_algos.solvers.heavy_nodes import recomputable_nodes
from remat_algos.solvers.registry import solver, training_graph

MODES = ("exact", "paper")
REPRODUCED = ("literal", "mxnet")


@solver(paper="echo2020", needs=training_graph, cheap=True)
def echo(
    graph: ComputationGraph,
    limit: int | None,
    context: SearchContext,
    *,
    mode: str = "exact",
    only: str | Sequence[str] | None = None,
    also: str | Sequence[str] | None = None,
) -> Iterator[Candidate]:
    """Recompute cheap nodes where that reduces the bytes that must stay in memory for the gradients.

    Convolutions and matrix products run once, and so do nodes of unknown operations that cost more than the mean. The
    stash is the minimum, in bytes, over all choices of the other nodes, and the choice is one with the fewest
    recomputations among those. The minimum stash is not always the minimum peak. One schedule, whatever the limit.

    Parameters
    ----------
    mode : {"exact", "paper"}
        How it chooses: by a minimum cut of the whole graph, or by algorithm 1 of the paper with the two steps that the
        paper's figure 13 requires.
    only : str or sequence of str, optional
        Operations or layers, separated by commas: of the nodes that are not heavy, only these may be recomputed. A
        layer is a part of a dotted node name, "attention" of "attention.step3.tanh", "layer" of "layer0.add".
    also : str or sequence of str, optional
        Operations or layers whose nodes may all be recomputed, heavy ones too.

    References
    ----------
    echo2020, sections IV and V; docs/solvers/echo.md says where "exact" differs.

    Examples
    --------
    Two heavy nodes of cost 9 and 4 bytes; what comes after them is larger, and cheap.

    >>> from remat_algos.ir.differentiate import differentiate
    >>> edges = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)]
    >>> net = differentiate(ComputationGraph.from_edges(edges, [4, 8, 8, 4, 8, 8], [9, 1, 1, 9, 1, 1]))
    >>> found = next(echo(net, None, SearchContext()))
    >>> " ".join(found.schedule.names(net)[6:])
    '4 5 grad(5) grad(4) grad(3) 1 2 grad(2) grad(1) grad(0)'
    >>> found.details["stash_without"], found.details["stash"]
    (40, 8)
    """
    choice = Choice.of(graph, mode, only, also)
    yield Candidate(choice.schedule(), {"mode": mode, **choice.figures})


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """What echo recomputes, and what stays stashed.

    Parameters
    ----------
    maps : FeatureMaps
    rerun : bool[n]
        Nodes that are recomputed.
    stashed : bool[n_values]
        Values of first runs that gradients and recomputations read.
    """

    maps: FeatureMaps
    rerun: Bool
    stashed: Bool

    @classmethod
    def of(
        cls,
        graph: ComputationGraph,
        mode: str = "exact",
        only: str | Sequence[str] | None = None,
        also: str | Sequence[str] | None = None,
    ) -> "Choice":
        """The choice of a mode; ValueError for an unknown mode, or for a word that names nothing."""
        if mode not in MODES:
            where = ", which is part of `remat reproduce echo2020`" if mode in REPRODUCED else ""
            raise ValueError(f"mode is {shortened(repr(mode))}{where}; use {' or '.join(MODES)}")
        maps = FeatureMaps.of(graph, recomputable_nodes(graph, only, also))
        return cls.recomputing(maps, maps.least_stash() if mode == "exact" else by_frontiers(maps))

    @classmethod
    def recomputing(cls, maps: FeatureMaps, nodes: Bool) -> "Choice":
        """The choice that recomputes what gradients need of some nodes, bool[n]."""
        rerun = maps.rerun(nodes)
        return cls(maps, rerun, maps.stashed(rerun))

    @property
    def figures(self) -> Mapping[str, int]:
        """Bytes of the stash, with and without recomputation, and the number of recomputed nodes."""
        return {
            "stash": self.maps.memory(self.stashed),
            "stash_without": self.maps.memory(self.maps.read_back),
            "rerun": int(np.count_nonzero(self.rerun)),
        }

    def schedule(self) -> Schedule:
        """Algorithm 2 of chen2016 with a mirror of each recomputed node."""
        return mirror_schedule(self.maps.graph, honoured(self.maps.graph, self.rerun.astype(np.int64)))


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
    frontier = _FrontierGroups(maps)
    return maps.recomputable & ~frontier.off()


class _FrontierGroups:
    """Nodes whose inputs are all heavy or off, in groups that share inputs, with what each group allocates."""

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
