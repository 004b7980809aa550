"""A training graph as a chain of stages, for dynamic programs over chains."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from remat_algos.ir.arrays import Bool, Int64
from remat_algos.ir.csr import row_of
from remat_algos.ir.graph import ComputationGraph, derived
from remat_algos.ir.labels import KEEP
from remat_algos.ir.updates import changeable_reads
from remat_algos.kernels.graph import needed_nodes
from remat_algos.schedule.emission import emit
from remat_algos.schedule.schedule import Schedule
from remat_algos.solvers.registry import training_graph
from remat_algos.structure.articulation import ForwardPart

SWEEP, EVERY, LEAF, BACKWARD = range(4)
"""Operations on a stage: F_ck and F_none (only the link is computed for later), F_all, F_all before the stage's own
backward nodes, and these."""

MIN_STAGES = 3  # of a chain

Operations = Iterable[tuple[int, int]]
"""(operation, stage), in the order in which they are run."""


def chain_of_stages(graph: ComputationGraph) -> str | None:
    """Return why a graph is refused by solvers for chains, else None.

    Examples
    --------
    >>> from remat_algos.ir.differentiate import differentiate
    >>> chain_of_stages(differentiate(ComputationGraph.from_edges([(0, 1), (1, 2)])))
    >>> print(chain_of_stages(differentiate(ComputationGraph.from_edges([(0, 1), (0, 2), (1, 3), (2, 3), (0, 3)]))))
    the forward part is not a chain: it cannot be cut in two places where one value passes; use another solver
    """
    reason = training_graph(graph)
    stages = None if reason else stages_of(graph)
    if reason is None and (stages is None or len(stages) < MIN_STAGES):
        cut = "it cannot be cut in two places where one value passes"
        reason = f"the forward part is not a chain: {cut}; use another solver"
    return reason


def stages_of(graph: ComputationGraph) -> "ChainStages | None":
    """The stages of a training graph, computed once; None if there are fewer than two."""
    found: ChainStages | None = derived(graph, "chain_stages", lambda: _recognised(graph))
    return found


class ForwardPeaks(NamedTuple):
    """Peaks of the forward nodes of each stage.

    Parameters
    ----------
    first : int64[k]
        Of a sweep over the stage, where the input stays.
    following : int64[k]
        The same where the input is counted and freed after its last read.
    every : int64[k]
        Where everything is kept that its backward nodes read, and its link.
    """

    first: Int64
    following: Int64
    every: Int64


@dataclass(frozen=True, slots=True, eq=False)
class StageMemory:
    """Bytes that the stages need: an upper or a lower estimate.

    While stages a..b run, their input is live and is not counted. `keep` is in addition to what is counted before a,
    and to the input of a + 1; it may be negative if the input of a is freed.

    Parameters
    ----------
    link : int64[k]
        Bytes of the value that passes from each stage to the next, 0 after the last.
    keep : int64[k]
        What stays of a stage, its link included, from its forward nodes to its backward nodes.
    again, once : ForwardPeaks
        Of stages that have run before, and of those that have not, where values that are never computed twice are not
        there yet.
    leaf : int64[k]
        `again.every` without the link.
    backward : int64[k]
        Peak of its backward nodes, with the gradients.
    gradients : int64[k]
        Gradients that are live before the backward nodes of the stage, and its link if they read it.
    fixed : int64[k]
        Values of each stage that are never computed twice: where it is swept, they stay until all of it is run.
    pinned : int
        Outputs of the forward part.
    """

    link: Int64
    keep: Int64
    again: ForwardPeaks
    once: ForwardPeaks
    leaf: Int64
    backward: Int64
    gradients: Int64
    fixed: Int64
    pinned: int

    @property
    def arrays(self) -> tuple[Int64, ...]:
        """All arrays, in the order of the rows that the kernel reads."""
        last = self.leaf, self.backward, self.gradients, self.fixed
        return self.link, self.keep, *self.again, *last, *self.once

    @property
    def unit(self) -> int:
        """The greatest common divisor of all entries in bytes; 1 if all are 0."""
        return max(1, int(np.gcd.reduce(np.concatenate(self.arrays))))

    @property
    def highest(self) -> int:
        """The peak without recomputation, outputs of the forward part excluded."""
        before = np.cumsum(self.keep) - self.keep
        forward = np.append(self.once.every[:-1], self.leaf[-1:])
        return int((before + np.maximum(forward, self.backward)).max(initial=0))

    def same_as(self, other: "StageMemory") -> bool:
        """True if two estimates are equal."""
        return self.pinned == other.pinned and all(map(np.array_equal, self.arrays, other.arrays))


@dataclass(frozen=True, slots=True, eq=False)
class ChainStages:
    """The forward part cut where a single value passes, and the backward nodes of each stage.

    Backward nodes stay in id order. Those of stage a read forward values of stage a and its input only, and run after
    those of stage a + 1.

    Parameters
    ----------
    graph : ComputationGraph
    nodes : int64[f]
        Needed forward nodes.
    stage : int64[f]
        Stage of each of them, rising.
    backward_nodes : int64[g]
        Needed backward nodes.
    backward_stage : int64[g]
        Stage of each of them, falling.
    link : int64[k]
        The value that passes from each stage to the next, or -1.

    Examples
    --------
    >>> from remat_algos.ir.differentiate import differentiate
    >>> graph = differentiate(ComputationGraph.from_edges([(0, 1), (1, 2), (1, 3), (2, 4), (3, 4), (4, 5)]))
    >>> stages = stages_of(graph)
    >>> stages.stage.tolist(), stages.link.tolist()
    ([0, 1, 2, 2, 2, 3], [0, 1, 4, -1])
    >>> stages.upper.keep.tolist(), stages.upper.same_as(stages.lower)
    ([1, 1, 3, 1], True)
    """

    graph: ComputationGraph
    nodes: Int64
    stage: Int64
    backward_nodes: Int64
    backward_stage: Int64
    link: Int64

    def __len__(self) -> int:
        return int(self.link.size)

    def joined(self, count: int) -> "ChainStages":
        """Join neighbours, to at least two of about equal numbers of nodes, if there are more than the maximum."""
        if len(self) <= count:
            return self
        last_node = np.flatnonzero(np.diff(self.stage, append=len(self)))
        goals = (np.arange(1, count) * self.nodes.size) // count
        before_last = np.searchsorted(last_node[:-2], goals)  # the last may hold most of the nodes
        ends = np.unique(np.append(before_last, len(self) - 1))
        return self._at(ends)

    def _at(self, ends: Int64) -> "ChainStages":
        """The stages that end with the given ones."""
        number = np.searchsorted(ends, np.arange(len(self)))
        stages = number[self.stage], self.backward_nodes, number[self.backward_stage], self.link[ends]
        return ChainStages(self.graph, self.nodes, *stages)

    # ---------------------------------------------------------------- costs and memory

    @property
    def lasting(self) -> Bool:
        """bool[n]: forward nodes that are computed once: by the graph, a mark, or as they make an output."""
        graph = self.graph
        lasting = graph.once | (np.bincount(graph.producer[graph.output], minlength=graph.n_nodes) > 0)
        if graph.mark is not None:
            lasting = lasting | (graph.mark == KEEP)
        return lasting & graph.forward

    @property
    def exact(self) -> bool:
        """True if every node may be recomputed, so that costs are exact."""
        return not bool(self.lasting[self.nodes].any())

    def costs(self) -> tuple[Int64, Int64, Int64, int]:
        """Compute of a sweep, of `EVERY` and of `LEAF` for each stage, and of the nodes that run once in any case.

        Nodes that are computed once, and those that only they read, count in the last if their stage is run again.
        """
        read, lasting = _StageReads.of(self), self.lasting
        compute = self.graph.compute[self.nodes]
        sweep, saved, leaf = read.closures(lasting)
        fixed = int(self.graph.compute[self.backward_nodes].sum() + compute[lasting[self.nodes]].sum())
        runs = (nodes[self.nodes] for nodes in (sweep, sweep | saved, leaf))
        swept, every, leaves = (_sums(self.stage, compute, each, len(self)) for each in runs)
        return swept, every, leaves, fixed

    @property
    def upper(self) -> StageMemory:
        """Upper estimate in bytes."""
        return _memory(self, upper=True)

    @property
    def lower(self) -> StageMemory:
        """Lower estimate in bytes."""
        return _memory(self, upper=False)

    # ---------------------------------------------------------------- schedules

    def schedule(self, operations: Operations) -> Schedule:
        """The schedule that a list of operations gives."""
        return emit(self.graph, np.concatenate([[], *self._runs(operations)]).astype(np.int32))

    def _runs(self, operations: Operations) -> Iterator[Int64]:
        """The nodes of each operation."""
        read, lasting = _StageReads.of(self), self.lasting
        starts = np.searchsorted(self.stage, np.arange(len(self) + 1))
        ends = np.searchsorted(-self.backward_stage, -np.arange(len(self)), side="right")
        begins = np.searchsorted(-self.backward_stage, -np.arange(len(self)))
        has_lasting = _flags(len(self), self.stage[lasting[self.nodes]])
        has_run, none = np.zeros(self.graph.n_nodes, bool), np.zeros(0, bool)  # of the nodes that are computed once
        whole = read.closures(has_run)
        stored: dict[tuple[int, int, bytes], Int64] = {}
        for operation, a in operations:
            if operation == BACKWARD:
                yield self.backward_nodes[begins[a] : ends[a]]
                continue
            inside = self.nodes[starts[a] : starts[a + 1]]
            there = has_run[inside] if has_lasting[a] else none
            key = operation, a, there.tobytes()
            nodes = stored.get(key)
            if nodes is None:
                sweep, saved, leaf = read.closures(has_run) if there.any() else whole
                member = {SWEEP: sweep, EVERY: sweep | saved, LEAF: leaf}[operation]
                nodes = stored[key] = inside[member[inside]]
            if has_lasting[a]:
                has_run[nodes] = lasting[nodes]
            yield nodes


# ---------------------------------------------------------------- recognition


def _recognised(graph: ComputationGraph) -> ChainStages | None:
    """The finest division into stages that the backward nodes allow."""
    part = ForwardPart.of(graph)
    places = np.flatnonzero(part.width[:-1] <= 1)
    alone = part.alone[places]
    first = np.zeros(places.size, bool)
    first[np.unique(alone, return_index=True)[1]] = True  # where a value passes two places in a row, take the first
    ends = places[first | (alone < 0)]
    backward = np.flatnonzero(~graph.forward & graph.needed)
    if ends.size == 0 or backward.size == 0:
        return None
    place = np.full(graph.n_nodes, -1, np.int64)
    place[part.nodes] = np.arange(part.nodes.size)
    index = np.full(graph.n_nodes, -1, np.int64)
    index[backward] = np.arange(backward.size)
    reader = row_of(graph.read_indptr)
    inside = (index[reader] >= 0) & graph.forward[graph.producer[graph.read_indices]]
    reader, value = index[reader[inside]], graph.read_indices[inside].astype(np.int64)
    made = place[graph.producer[value]]
    latest = _latest_places(graph, place, index, backward.size, part.nodes.size - 1)
    while ends.size:
        number = np.searchsorted(ends, np.arange(part.nodes.size))
        link = np.append(part.alone[ends], -1)
        lowest, highest = np.zeros(backward.size, np.int64), number[latest]
        stage = number[made]
        np.maximum.at(lowest, reader, stage)
        np.minimum.at(highest, reader, stage + (link[stage] == value))
        chosen = np.minimum.accumulate(highest)
        wrong = lowest > chosen
        if not wrong.any():
            return ChainStages(graph, part.nodes, number, backward, chosen, link)
        change = np.zeros(ends.size + 2, np.int64)
        np.add.at(change, chosen[wrong], 1)
        np.add.at(change, lowest[wrong], -1)
        ends = ends[np.cumsum(change)[: ends.size] == 0]
    return None


def _latest_places(graph: ComputationGraph, place: Int64, index: Int64, count: int, last: int) -> Int64:
    """The last forward place whose stage each backward node may join: an update waits for all earlier reads."""
    latest = np.full(count, last, np.int64)
    if graph.updates.any():
        reader, parameter = changeable_reads(graph)
        earliest = np.full(int(parameter.max(initial=-1)) + 1, last, np.int64)
        forward = place[reader] >= 0
        np.minimum.at(earliest, parameter[forward], place[reader[forward]])
        update = graph.updates[reader] & (index[reader] >= 0)
        np.minimum.at(latest, index[reader[update]], earliest[parameter[update]])
    return latest


# ---------------------------------------------------------------- memory


@dataclass(frozen=True, slots=True, eq=False)
class _StageReads:
    """The reads of a chain by kind: within a stage, of its input, by its backward nodes.

    `inner` and `entry` are reads of forward nodes, `saved` and `entry_saved` of backward nodes: (reader, value) of
    values of the stage, and of the input. `stage` is that of each node, -1 for others.
    """

    stages: ChainStages
    stage: Int64
    inner: tuple[Int64, Int64]
    entry: tuple[Int64, Int64]
    saved: tuple[Int64, Int64]
    entry_saved: tuple[Int64, Int64]

    @classmethod
    def of(cls, stages: ChainStages) -> "_StageReads":
        graph = stages.graph
        number = np.full(graph.n_nodes, -1, np.int64)
        number[stages.nodes] = stages.stage
        number[stages.backward_nodes] = stages.backward_stage
        reader = row_of(graph.read_indptr)
        value = graph.read_indices.astype(np.int64)
        producer = graph.producer[value]
        counted = (number[reader] >= 0) & (number[producer] >= 0) & graph.forward[producer]
        reader, value, producer = reader[counted], value[counted], producer[counted]
        own, forward = number[reader] == number[producer], graph.forward[reader]
        kinds = own & forward, ~own & forward, own & ~forward, ~own & ~forward
        inner, entry, saved, entry_saved = ((reader[kind], value[kind]) for kind in kinds)
        return cls(stages, number, inner, entry, saved, entry_saved)

    def closures(self, there: Bool) -> tuple[Bool, Bool, Bool]:
        """bool[n] each: nodes that the link of their stage needs, that its backward nodes and outputs need, and leaves.

        A leaf needs what the backward nodes need; a link that stays and values of nodes in `there` are live already.
        """
        graph, links = self.stages.graph, self.stages.link
        passed, kept = _flags(graph.n_values, links[links >= 0]), _flags(graph.n_values, links[self.stays])
        targets = self.is_saved | (graph.output & graph.forward[graph.producer])
        missing = ~there[graph.producer]
        saved = self._ancestors(targets, missing)
        leaf = self._ancestors(targets & ~kept, missing & ~kept) if kept.any() else saved
        return self._ancestors(passed, missing), saved, leaf

    @property
    def stays(self) -> Bool:
        """bool[k]: links that the backward nodes of their own stage read, and that stay until these have run.

        Not if the node of the link must run again for another of its values.
        """
        graph, links, saved = self.stages.graph, self.stages.link, self.is_saved
        stays = (links >= 0) & saved[links]
        if np.diff(graph.value_indptr)[graph.producer[links[stays]]].max(initial=1) > 1:
            kept = _flags(graph.n_values, links[stays])
            stays &= ~self._ancestors(saved & ~kept, ~kept)[graph.producer[links]]
        return stays

    @property
    def is_saved(self) -> Bool:
        """bool[n_values]: values that the backward nodes of their stage read."""
        return _flags(self.stages.graph.n_values, self.saved[1])

    @property
    def needs_input(self) -> Bool:
        """bool[k]: stages whose backward nodes read their input."""
        return _flags(len(self.stages), self.stage[self.entry_saved[0]])

    def unread_inputs(self, leaves: Bool) -> Int64:
        """The values that enter a stage although neither its leaf nor its backward nodes read them."""
        k, reader, forward = len(self.stages), self.entry[0], self.stages.graph.forward
        leaf_reads = _flags(k, self.stage[reader[leaves[reader]]])
        leaf_runs = _flags(k, self.stage[leaves & forward & (self.stage >= 0)])
        early = self.stages.link[:-1][(leaf_runs & ~leaf_reads & ~self.needs_input)[1:]]
        return early[early >= 0]

    def _ancestors(self, targets: Bool, missing: Bool) -> Bool:
        """bool[n]: missing nodes of the same stage that values need."""
        graph, (reader, value) = self.stages.graph, self.inner
        reader, value = reader[missing[value]], value[missing[value]]
        indptr = np.searchsorted(reader, np.arange(graph.n_nodes + 1))
        flags = (targets & missing).view(np.uint8)
        found = needed_nodes(
            value_indptr=graph.value_indptr,
            read_indptr=indptr,
            read_indices=value.astype(np.int32),
            producer=graph.producer,
            output=flags,
        )
        return found.view(np.bool_) & graph.forward & graph.needed


def _memory(stages: ChainStages, *, upper: bool) -> StageMemory:
    """The bytes of each stage; the estimates differ where the rest of the schedule decides when a value dies.

    This concerns values of nodes that are computed once, inputs that no leaf reads, and inputs that the backward nodes
    of the stage before read too, unless they stay. The upper estimate keeps them.
    """
    graph, links, lasting, k = stages.graph, stages.link, stages.lasting, len(stages)
    read = _StageReads.of(stages)
    number = np.where(graph.forward, read.stage, -1)
    inside = (number >= 0)[graph.producer]
    saved, passes, stays_on = read.is_saved, _flags(graph.n_values, links[links >= 0]), read.stays
    pinned = graph.output & inside
    readable = _flags(graph.n_values, *(values for _, values in (read.inner, read.entry, read.saved, read.entry_saved)))
    stays = lasting[graph.producer] & readable & ~pinned & inside
    sweep, saved_nodes, leaf_nodes = read.closures(np.zeros(graph.n_nodes, bool) if upper else lasting)
    size = np.where(pinned, 0, graph.memory)
    if not upper:
        size[read.unread_inputs(leaf_nodes)] = 0
    others = np.where(stays, 0, size)  # without what is computed once
    fixed = _sums(number[graph.producer], size, stays & upper, k)
    fixed[-1] = 0  # the last stage is never swept
    link_size = np.where(links >= 0, others[links], 0)
    input_size = np.append(0, link_size[:-1])
    retained = np.append(False, (stays_on | ((links >= 0) & saved[links] & upper))[:-1])  # inputs needed afterwards
    counted, freed = np.where(read.needs_input | retained, 0, input_size), np.where(retained, 0, input_size)
    again, once = _Profile(stages, read, others), _Profile(stages, read, size if upper else others)
    every, kept = sweep | saved_nodes, saved | passes
    leaf = again.forward(leaf_nodes, saved & ~_flags(graph.n_values, links[stays_on]), counted)
    leaf[-1] = once.forward(saved_nodes, saved, counted)[-1]
    backward, gradients = _Profile(stages, read, size).backward(saved, np.where(read.needs_input, freed, 0))
    keep = _sums(number[graph.producer], size, (saved | (passes & (upper | ~stays))) & inside, k)
    return StageMemory(
        link=link_size,
        keep=keep - counted,
        again=ForwardPeaks(*again.swept(sweep, passes, input_size), again.forward(every, kept, counted) - counted),
        once=ForwardPeaks(*once.swept(sweep, passes | stays, input_size), once.forward(every, kept, counted) - counted),
        leaf=leaf - counted,
        backward=backward - freed,
        gradients=gradients + np.where(stays_on, link_size, 0),
        fixed=fixed,
        pinned=int(graph.memory[pinned].sum()) if upper else 0,
    )


class _Profile:
    """Peaks of the stages, by the lifetimes of their values."""

    def __init__(self, stages: ChainStages, read: _StageReads, size: Int64) -> None:
        self.stages, self.read, self.size = stages, read, size
        graph = stages.graph
        self.place = np.full(graph.n_nodes, -1, np.int64)
        self.place[stages.nodes] = np.arange(stages.nodes.size)
        self.index = np.full(graph.n_nodes, -1, np.int64)
        self.index[stages.backward_nodes] = np.arange(stages.backward_nodes.size)
        self.begin = np.searchsorted(stages.stage, np.arange(len(stages)))
        self.last = np.append(self.begin[1:], stages.nodes.size) - 1

    def forward(self, member: Bool, kept: Bool, input_size: ArrayLike = 0) -> Int64:
        """int64[k]: peak of the member nodes of each stage, with what is kept to its end, and its input."""
        stages, graph = self.stages, self.stages.graph
        values = np.flatnonzero(member[graph.producer])
        made = self.place[graph.producer[values]]
        until = np.full(graph.n_values, -1, np.int64)
        until[values] = made
        reader, value = self.read.inner
        inside = member[reader]
        np.maximum.at(until, value[inside], self.place[reader[inside]])
        until[values] = np.where(kept[values], self.last[stages.stage[made]], until[values])
        live = _live(made, until[values], self.size[values], stages.nodes.size)
        entered = np.broadcast_to(np.asarray(input_size, np.int64), len(stages))
        reader = self.read.entry[0]
        last_read = self.begin - 1
        reader = reader[member[reader]]
        np.maximum.at(last_read, stages.stage[self.place[reader]], self.place[reader])
        alive = last_read >= self.begin
        live += _live(self.begin[alive], last_read[alive], entered[alive], stages.nodes.size)
        live += graph.workspace[stages.nodes]
        return _maxima(live, stages.stage, member[stages.nodes], len(stages))

    def swept(self, member: Bool, kept: Bool, input_size: Int64) -> tuple[Int64, Int64]:
        """`forward` where the input stays, and where it is counted."""
        return self.forward(member, kept), self.forward(member, kept, input_size)

    def backward(self, saved: Bool, input_size: Int64) -> tuple[Int64, Int64]:
        """(int64[k], int64[k]): peak of the backward nodes of each stage, and the gradients live before them."""
        stages, graph = self.stages, self.stages.graph
        number, count = stages.backward_stage, stages.backward_nodes.size
        start = np.searchsorted(-number, -np.arange(len(stages)))
        until = np.full(graph.n_values, -1, np.int64)
        reader = row_of(graph.read_indptr)
        inside = self.index[reader] >= 0
        np.maximum.at(until, graph.read_indices[inside], self.index[reader[inside]])
        made = self.index[graph.producer]
        until = np.where(graph.output, count, np.maximum(until, made))
        own = np.flatnonzero(made >= 0)
        live = _live(made[own], until[own], self.size[own], count)
        gradients = _live(made[own] + 1, until[own], self.size[own], count + 1)[start]
        values = np.unique(self.read.saved[1])
        place = self.place[graph.producer[values]]
        live += _live(start[stages.stage[place]], until[values], self.size[values], count)
        reader = self.index[self.read.entry_saved[0]]
        last_read = start - 1
        np.maximum.at(last_read, number[reader], reader)
        alive = last_read >= start
        live += _live(start[alive], last_read[alive], input_size[alive], count)
        live += graph.workspace[stages.backward_nodes]
        return _maxima(live, number, np.ones(count, bool), len(stages)), gradients


def _flags(count: int, *members: Int64) -> Bool:
    """bool[count]: which numbers are members."""
    flags = np.zeros(count, bool)
    for each in members:
        flags[each] = True
    return flags


def _sums(number: Int64, amount: Int64, member: Bool, count: int) -> Int64:
    """int64[count]: the sum over the members of each stage."""
    sums = np.zeros(count, np.int64)
    np.add.at(sums, number[member], amount[member])
    return sums


def _live(begin: Int64, last: Int64, size: Int64, length: int) -> Int64:
    """int64[length]: bytes at each place of what is live from `begin` to `last`, both included."""
    change = np.zeros(length + 2, np.int64)
    some = last >= begin
    np.add.at(change, begin[some], size[some])
    np.subtract.at(change, last[some] + 1, size[some])
    return np.cumsum(change)[:length]


def _maxima(live: Int64, number: Int64, member: Bool, count: int) -> Int64:
    """int64[count]: the maximum over the members of each stage; 0 for an empty stage."""
    peaks = np.zeros(count, np.int64)
    np.maximum.at(peaks, number[member], live[member])
    return peaks


def baseline_operations(count: int) -> list[tuple[int, int]]:
    """The operations without recomputation."""
    forward = [*((EVERY, a) for a in range(count - 1)), (LEAF, count - 1)]
    return [*forward, *((BACKWARD, a) for a in reversed(range(count)))]
