"""Echo: recompute cheap nodes to stash fewer feature maps, by a minimum cut or by the paper's algorithm 1."""

import heapq
import re
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from remat_algos.arguments import checked_arguments
from remat_algos.context import Clock
from remat_algos.errors import ArgumentError, GraphError
from remat_algos.ir.arrays import Bool, Int32, Int64, brief, check_place, row_of
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.kinds import kind_name, operation_kind, operation_kinds
from remat_algos.ir.parts import KEEP, RECOMPUTE
from remat_algos.kernels.graph import needed_nodes, transpose_rows
from remat_algos.kernels.regions import connected_components
from remat_algos.result import Result
from remat_algos.schedule.emission import clamp_counts, mirror_schedule
from remat_algos.schedule.schedule import Schedule
from remat_algos.solvers.registry import Candidate, Task, solver, training_graph
from remat_algos.structure.cuts import UNCUTTABLE, minimum_vertex_cut
from remat_algos.wording import by_reason, comma_separated, counted, format_bytes, shortened

MODES = ("exact", "paper")
REPRODUCED = ("literal", "mxnet")  # only in docs/reproductions/echo2020
HEAVY = frozenset(kind.name for kind in operation_kinds() if kind.heavy)
Words = str | Sequence[str] | None


def recomputable_nodes(
    graph: ComputationGraph, only: Words = None, also: Words = None, heavy: Container[str] = HEAVY
) -> Bool:
    """Mark the needed forward nodes that echo may recompute, bool[n].

    These are the nodes that are not heavy and, if `only` is specified, match a word in it. All nodes that match a word
    in `also` are added. Marks of the graph take precedence. A word names an operation or a layer, with or without the
    digits at its end.
    """
    allowed = ~heavy_nodes(graph, heavy)
    if only is not None:
        allowed &= named_nodes(graph, only, "only")
    if also is not None:
        allowed |= named_nodes(graph, also, "also")
    if graph.mark is not None:
        allowed = (allowed | (graph.mark == RECOMPUTE)) & (graph.mark != KEEP)
    return allowed & graph.forward & graph.needed & ~graph.once


def heavy_nodes(graph: ComputationGraph, heavy: Container[str] = HEAVY) -> Bool:
    """Mark nodes of `heavy` kinds, and nodes of unknown operations that cost more than the mean, bool[n]."""
    part = graph.forward & graph.needed
    # Rounding the mean down does not change which integers exceed it; compute * n could overflow.
    costly = graph.compute > int(graph.compute[part].sum()) // max(1, int(np.count_nonzero(part)))
    ops = graph.labels.ops
    if ops is None:
        return costly
    kinds = {op: operation_kind(op) for op in set(ops)}
    known = {op: kind.name in heavy for op, kind in kinds.items() if kind}
    return np.fromiter(
        (known.get(op, above_mean) for op, above_mean in zip(ops, costly.tolist(), strict=True)), bool, len(ops)
    )


def named_nodes(graph: ComputationGraph, words: str | Sequence[str], option: str) -> Bool:
    """Mark the forward nodes whose operation or layer is among `words`; raise ValueError if a word matches no node."""
    names = comma_separated(words)
    if not names:
        raise ArgumentError(
            "{option} is {words!r}, which names nothing; give operations or layers, or leave it out",
            option=option,
            words=words,
        )
    nodes = np.flatnonzero(graph.forward).tolist()
    ops = {v: kind_name(graph.labels.op(v)) for v in nodes}
    layers = {v: _layers(graph.labels[v]) for v in nodes} if graph.labels.names is not None else {}
    named = np.zeros(graph.n_nodes, bool)
    for word in names:
        kind = kind_name(word)
        matches = [v for v in nodes if ops[v] == kind or word in layers.get(v, ())]
        if not matches:
            operations = sorted({*filter(None, ops.values())})
            if not operations:
                raise ArgumentError(
                    "{option} names {word!r}, which is not a layer of this graph; it has no names of operations",
                    option=option,
                    word=word,
                )
            raise ArgumentError(
                "{option} names {word!r}, which is neither an operation nor a layer; the operations are {operations!l}",
                option=option,
                word=word,
                operations=operations,
            )
        named[matches] = True
    return named


def _layers(name: str) -> set[str]:
    """Return the parts of a dotted name, with and without the digits at their end."""
    parts = name.split(".")
    return {*parts, *(re.sub(r"\d+$", "", part) for part in parts)}


@dataclass(frozen=True, slots=True, eq=False)
class FeatureMaps:
    """The forward values that the backward part reads, and the nodes that may be recomputed for them.

    Outputs always stay in memory, so they are never recomputed and not counted here. A feature map is a forward value
    that some needed backward node reads; `read_back`, bool[n_values], marks the feature maps. `reader` and `value`,
    int32[k], are pairs of a needed forward node and a value that this node reads, in order of increasing node.
    """

    graph: ComputationGraph
    recomputable: Bool
    read_back: Bool
    reader: Int32
    value: Int32

    @classmethod
    def of(cls, graph: ComputationGraph, recomputable: Any) -> "FeatureMaps":
        reader = row_of(graph.read_indptr, np.int32)
        counts = graph.needed[reader] & graph.forward[graph.producer[graph.read_indices]]
        counts &= ~graph.output[graph.read_indices]
        read_back = np.zeros(graph.n_values, bool)
        read_back[graph.read_indices[counts & ~graph.forward[reader]]] = True
        forward = counts & graph.forward[reader]
        return cls(graph, np.asarray(recomputable, bool), read_back, reader[forward], graph.read_indices[forward])

    @property
    def producer(self) -> Int32:
        """int32[k]: the node that computes the value of each read."""
        return self.graph.producer[self.value]

    def memory(self, values: Bool) -> int:
        return int(self.graph.memory[values].sum())

    def recomputed(self, allowed: Bool) -> Bool:
        """Mark the allowed nodes from which a path of allowed nodes leads to a node that a gradient reads, bool[n]."""
        through = allowed[self.reader]
        indptr = np.searchsorted(self.reader[through], np.arange(self.graph.n_nodes + 1))
        indices, values = self.value[through], self.graph.value_indptr
        needed = needed_nodes(
            value_indptr=values,
            read_indptr=indptr,
            read_indices=indices,
            producer=self.graph.producer,
            output=self.read_back.view(np.uint8),
        )
        return needed.view(np.bool_) & allowed

    def stashed(self, recomputed: Bool) -> Bool:
        """Mark the values that stay in memory because a gradient or a recomputed node reads them, bool[n_values]."""
        stashed = self.read_back & ~recomputed[self.graph.producer]
        stashed[self.value[recomputed[self.reader] & ~recomputed[self.producer]]] = True
        return stashed

    def minimum_stash(self) -> Bool:
        """Mark nodes whose recomputation minimizes the stash and, among all minimum stashes, the compute; bool[n].

        A stash is a vertex cut that separates the feature maps from the nodes that must not be recomputed. Take the
        minimum cut closest to the feature maps. It recomputes only nodes that every minimum stash recomputes, so its
        compute is minimum.
        """
        graph, n = self.graph, self.graph.n_nodes
        computed = np.flatnonzero((graph.forward & graph.needed)[graph.producer] & ~graph.output)
        through = self.recomputable[self.reader]
        weight = np.concatenate([np.full(n, UNCUTTABLE), graph.memory])
        if graph.mark is not None:
            weight[n:][(self.recomputable & (graph.mark == RECOMPUTE))[graph.producer]] = UNCUTTABLE
        cut = minimum_vertex_cut(
            np.concatenate([graph.producer[computed], n + self.value[through]]),
            np.concatenate([n + computed, self.reader[through]]),
            weight,
            np.flatnonzero(graph.forward & graph.needed & ~self.recomputable),
            n + np.flatnonzero(self.read_back),
        )
        if cut is None:
            raise GraphError("a kept node computes a value that cannot be kept; please report this graph")
        return cut.beyond[:n]

    @property
    def read_indptr(self) -> Int64:
        """int64[n + 1]: node v reads the values value[read_indptr[v]:read_indptr[v + 1]]."""
        return np.searchsorted(self.reader, np.arange(self.graph.n_nodes + 1))

    def readers(self) -> tuple[Int64, Int32]:
        """Return the forward nodes that read each value, in CSR form."""
        return transpose_rows(self.read_indptr, self.value, self.graph.n_values)


def lists(indptr: Int64, indices: Int32) -> list[list[int]]:
    entries = indices.tolist()
    return [entries[begin:end] for begin, end in pairwise(indptr.tolist())]


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """The nodes that echo recomputes, bool[n], and the values that it keeps for the gradients, bool[n_values]."""

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
        """Choose nodes by the algorithm `mode`. Raise ValueError if the mode, an operation or a layer is unknown."""
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
        """Recompute the nodes in `nodes`, bool[n], except those that no gradient depends on."""
        recomputed = maps.recomputed(nodes)
        return cls(maps, recomputed, maps.stashed(recomputed))

    @property
    def figures(self) -> Mapping[str, int]:
        """Bytes of the stash with and without recomputation, and the number of recomputed nodes."""
        return {
            "stash": self.maps.memory(self.stashed),
            "stash_without": self.maps.memory(self.maps.read_back),
            "rerun": int(np.count_nonzero(self.recomputed)),
        }

    def schedule(self) -> Schedule:
        """Return the schedule of algorithm 2 of chen2016, which recomputes each chosen node once."""
        return mirror_schedule(self.maps.graph, clamp_counts(self.maps.graph, self.recomputed.astype(np.int64)))


def by_frontiers(maps: FeatureMaps) -> Bool:
    """Mark the nodes to recompute by algorithm 1 of echo2020 and its code (apache/mxnet#18228), bool[n].

    Frontier nodes that share inputs form a group. A group that releases at least as many bytes as it allocates is
    removed, and the frontier advances. Groups with smaller ids come first.
    """
    return maps.recomputable & ~_FrontierGroups(maps).removed()


class _FrontierGroups:
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
        # Parents in a disjoint-set forest; the smallest node represents its group.
        self.parent = list(range(graph.n_nodes))
        self.members: dict[int, list[int]] = {}
        self.gain: dict[int, int] = {}  # released minus allocated bytes
        self.owner: dict[int, int] = {}  # value -> a frontier reader

    def removed(self) -> Bool:
        """Remove groups while one releases at least as many bytes as it allocates; mark the removed nodes, bool[n]."""
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
                # The input was counted as allocated (minus its size); it is now released (plus its size).
                self.gain[group] += 2 * self.memory[x]
        return v

    def _merge(self, one: int, other: int) -> int:
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
        return self.forced is not None and any(self.forced[v] for v in self.members[group])


RECOMPUTED, KEPT = "recompute", "keep"


@dataclass(frozen=True, slots=True)
class Region:
    """A connected set of cheap nodes between heavy nodes, and the decision of `echo` about them.

    If the decision is "keep", the numbers describe the rejected alternative, the recomputation of all nodes in the
    region that gradients depend on.

    Parameters
    ----------
    nodes : tuple of int
        Nodes that echo may recompute, ascending.
    rerun : int
        Number of nodes that are recomputed, or would be.
    feature_maps : int
        Bytes of the values that gradients read, among those that the region computes or reads. These bytes are its
        stash without recomputation.
    released : int
        Bytes of the feature maps that are no longer stashed.
    allocated : int
        Bytes that are stashed instead, because recomputations read them.
    overhead : int
        Compute of the recomputations.
    decision : {"recompute", "keep"}
    reason : str
    """

    nodes: tuple[int, ...]
    rerun: int
    feature_maps: int
    released: int
    allocated: int
    overhead: int
    decision: str
    reason: str

    __repr__ = brief

    @checked_arguments
    def name(self, graph: ComputationGraph) -> str:
        """Return the names of the first and the last node, joined. Raise GraphError if the graph has no such nodes."""
        self._check(graph)
        first, last = graph.labels[self.nodes[0]], graph.labels[self.nodes[-1]]
        return first if len(self.nodes) == 1 else f"{first} .. {last}"

    @checked_arguments
    def record(self, graph: ComputationGraph) -> dict[str, Any]:
        """Return the JSON record, with the first and the last node instead of all nodes."""
        self._check(graph)
        ends = {"first": graph.labels[self.nodes[0]], "last": graph.labels[self.nodes[-1]], "nodes": len(self.nodes)}
        return {**ends, **{name: value for name, value in asdict(self).items() if name != "nodes"}}

    def _check(self, graph: ComputationGraph) -> None:
        for node in (min(self.nodes), max(self.nodes)):
            check_place(node, graph.n_nodes, "node")


@checked_arguments
def find_echo_regions(
    graph: ComputationGraph,
    mode: str = "exact",
    only: str | Sequence[str] | None = None,
    also: str | Sequence[str] | None = None,
) -> list[Region]:
    """Return the regions of a graph with the decisions of `echo`, in order of decreasing released bytes.

    If the heavy nodes are removed, the graph falls apart into regions: connected sets of cheap nodes and the values
    that they compute or read. No value is in two regions, so bytes can be summed over regions.

    Parameters
    ----------
    graph : ComputationGraph
        With a backward part.
    mode, only, also
        As in `echo`.

    Returns
    -------
    list of Region

    References
    ----------
    echo2020, section V, where the regions are called partitioned subgraphs.

    Examples
    --------
    >>> from remat_algos.ir.differentiate import differentiate
    >>> edges = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)]
    >>> net = differentiate(ComputationGraph.from_edges(edges, [4, 8, 8, 4, 8, 8], [9, 1, 1, 9, 1, 1]))
    >>> for region in find_echo_regions(net):
    ...     print(region.name(net), region.released, region.allocated, region.overhead, region.reason)
    1 .. 2 16 0 2 its values are recomputed from 4 B
    4 .. 5 16 0 2 its values are recomputed from 4 B
    """
    choice = Choice.of(graph, mode, only, also)
    maps = choice.maps
    forced = maps.recomputable & (graph.mark == RECOMPUTE) if graph.mark is not None else np.zeros(graph.n_nodes, bool)
    of_node, of_value = _parts(maps)
    chosen = _Totals(of_node, of_value, choice)
    everything = _Totals(of_node, of_value, Choice.recomputing(maps, maps.recomputable))
    regions = []
    for part, nodes in _by_part(of_node, maps.recomputable):
        kept = not chosen.n_recomputed[part]
        figures = (everything if kept else chosen).figures(part)
        reason = _reason(figures, kept, bool(forced[list(nodes)].any()), mode)
        regions.append(Region(nodes, *figures, KEPT if kept else RECOMPUTED, reason))
    return sorted(
        regions, key=lambda region: (region.decision == KEPT, region.allocated - region.released, region.nodes)
    )


@dataclass(frozen=True, slots=True, eq=False)
class RegionReport(Result):
    """The regions of a graph, as `explain` prints them for a plan of `echo`. `most` limits the number of regions."""

    graph: ComputationGraph
    regions: tuple[Region, ...]
    most: int | None = None

    COLUMNS = ("region", "nodes", "recomputed", "released", "allocated", "overhead", "decision")

    __repr__ = brief

    @classmethod
    def of(cls, graph: ComputationGraph, most: int | None = None, **options: Any) -> "RegionReport":
        return cls(graph, tuple(find_echo_regions(graph, **options)), most)

    @property
    def shown(self) -> tuple[Region, ...]:
        return self.regions[: self.most]

    def record(self) -> dict[str, Any]:
        """Return the JSON record of the regions that are shown."""
        records = [region.record(self.graph) for region in self.shown]
        return {"regions": records, "regions_left_out": len(self.regions) - len(records)}

    def rows(self) -> Iterator[tuple[str, ...]]:
        for region in self.shown:
            amounts = format_bytes(region.released), format_bytes(region.allocated)
            overhead = self.graph.labels.compute(region.overhead)
            counts = f"{len(region.nodes):,}", f"{region.rerun:,}"
            yield (shortened(region.name(self.graph)), *counts, *amounts, overhead, region.decision)

    def notes(self) -> Iterator[str]:
        """Yield the reasons of the decisions about the regions shown, then sums over all regions."""
        yield from by_reason({region.name(self.graph): region.reason for region in self.shown})
        recomputed = [region for region in self.regions if region.decision == RECOMPUTED]
        saved = sum(region.released - region.allocated for region in recomputed)
        feature_maps = sum(region.feature_maps for region in self.regions)
        share = 100 * sum(region.overhead for region in recomputed) / max(1, self.graph.needed_compute)
        yield (
            f"{counted(len(self.regions), 'region')}, {len(recomputed):,} recomputed: {format_bytes(saved)} of "
            f"{format_bytes(feature_maps)} of feature maps saved, for {share:.2f} % of one pass"
        )


def _parts(maps: FeatureMaps) -> tuple[Int32, Int32]:
    """Number the connected parts; return the part of each node, int32[n], and of each value, int32[n_values]."""
    graph, n = maps.graph, maps.graph.n_nodes
    computed = np.flatnonzero(maps.recomputable[graph.producer] & ~graph.output)
    through = maps.recomputable[maps.reader]
    tail = np.concatenate([graph.producer[computed], n + maps.value[through]]).astype(np.int32)
    head = np.concatenate([n + computed, maps.reader[through]]).astype(np.int32)
    part = connected_components(n + graph.n_values, tail, head)
    return part[:n], part[n:]


def _by_part(of_node: Int32, cheap: Bool) -> Iterator[tuple[int, tuple[int, ...]]]:
    nodes = np.flatnonzero(cheap)
    nodes = nodes[np.argsort(of_node[nodes], kind="stable")]
    parts, starts = np.unique(of_node[nodes], return_index=True)
    for part, begin, end in zip(parts.tolist(), starts, [*starts, nodes.size][1:], strict=True):
        yield part, tuple(nodes[begin:end].tolist())


class _Totals:
    def __init__(self, of_node: Int32, of_value: Int32, choice: Choice) -> None:
        graph, before, stashed = choice.maps.graph, choice.maps.read_back, choice.stashed
        size = graph.n_nodes + graph.n_values
        self.n_recomputed = np.bincount(of_node[choice.recomputed], minlength=size)

        def over_regions(group: Int32, amount: np.ndarray, which: Bool) -> np.ndarray:
            total = np.zeros(size, np.int64)
            np.add.at(total, group[which], amount[which])
            return total

        self.feature_maps = over_regions(of_value, graph.memory, before)
        self.released = over_regions(of_value, graph.memory, before & ~stashed)
        self.allocated = over_regions(of_value, graph.memory, stashed & ~before)
        self.overhead = over_regions(of_node, graph.compute, choice.recomputed)

    def figures(self, part: int) -> tuple[int, int, int, int, int]:
        return tuple(  # type: ignore[return-value]
            int(row[part])
            for row in (self.n_recomputed, self.feature_maps, self.released, self.allocated, self.overhead)
        )


def _reason(figures: tuple[int, int, int, int, int], kept: bool, forced: bool, mode: str) -> str:
    _, feature_maps, released, allocated, _ = figures
    left = format_bytes(feature_maps - released + allocated)
    if not kept:
        if forced and allocated >= released:
            return "marked to be recomputed"
        if allocated > released:
            return f"mode {shortened(mode)} expects to release more than it allocates"
        return f"its values are recomputed from {left}"
    if not feature_maps:
        return "no gradient reads its values"
    if allocated >= released:
        return f"recomputing it would stash {left}, no less than its feature maps"
    return f"mode {shortened(mode)} expects to allocate no less than it would release"


@solver(paper="echo2020", needs=training_graph, price=0.01, explain=RegionReport.of)
def echo(
    graph: ComputationGraph,
    task: Task,
    clock: Clock,
    *,
    mode: str = "exact",
    only: str | Sequence[str] | None = None,
    also: str | Sequence[str] | None = None,
) -> Iterator[Candidate]:
    """Recompute cheap nodes where that reduces the bytes that must stay in memory for the gradients.

    Convolutions and matrix products run once, as do nodes of unknown operations that cost more than the mean. Among all
    sets of other nodes to recompute, `echo` chooses one that keeps the fewest bytes for the gradients (the stash) and,
    with this stash, recomputes the least. The peak of the plan is not always minimum. There is a single plan for any
    limit.

    Parameters
    ----------
    mode : {"exact", "paper"}
        "exact" computes a minimum cut of the whole graph. "paper" runs algorithm 1 of the paper, with two more steps
        that the paper's figure 13 requires.
    only : str or sequence of str, optional
        Operations or layers, separated by commas. Among the nodes that are not heavy, only these may be recomputed. A
        layer is part of a dotted node name: "attention" in "attention.step3.tanh", "layer" in "layer0.add".
    also : str or sequence of str, optional
        Operations or layers; all of their nodes may be recomputed, including heavy ones.

    References
    ----------
    echo2020, sections IV and V; docs/solvers/cheap.md describes how "exact" differs.
    """
    choice = Choice.of(graph, mode, only, also)
    yield Candidate(choice.schedule(), {"mode": mode, **choice.figures})
