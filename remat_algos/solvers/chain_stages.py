"""Divide a training graph into a chain of stages, for dynamic programs over chains."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from remat_algos.ir.arrays import Bool, Int32, Int64, interval_sums, row_of
from remat_algos.ir.graph import ComputationGraph, changeable_reads, derived, runs_once
from remat_algos.kernels.graph import needed_nodes
from remat_algos.schedule.schedule import Schedule, emit
from remat_algos.solvers import tuning
from remat_algos.solvers.registry import training_graph
from remat_algos.structure.cuts import ForwardPart

SWEEP, EVERY, LEAF, BACKWARD = range(4)
"""Operations on a stage. The names that the papers use for them are in parentheses.

The values of a stage that later stages read are its link. SWEEP computes only the link (F_ck and F_none). EVERY
computes the link and all values that the backward nodes read (F_all). LEAF computes the values that the backward nodes
read, directly before these run. BACKWARD runs the backward nodes of the stage.
"""

NO_CHAIN = "the forward part is not a chain: it cannot be cut in two places where one value passes; use another solver"

Operations = Iterable[tuple[int, int]]


def chain_of_stages(graph: ComputationGraph) -> str | None:
    """Return the reason why solvers for chains refuse a graph, or None."""
    reason = training_graph(graph)
    if reason is None and ((stages := stages_of(graph)) is None or len(stages) < tuning.MIN_STAGES):
        return NO_CHAIN
    return reason


def stages_of(graph: ComputationGraph) -> "ChainStages | None":
    """Return the cached stages of a training graph, or None if there are fewer than two."""
    stages: ChainStages | None = derived(graph, "chain_stages", lambda: _recognised(graph))
    return stages


class ForwardPeaks(NamedTuple):
    """Peaks of the forward nodes of each stage, int64[k] each.

    first : peak of a sweep whose input stays live; the bytes of the input are not counted
    following : peak of a sweep whose input is counted, and freed after its last read
    every : peak of a run that keeps the link and everything that the backward nodes read
    """

    first: Int64
    following: Int64
    every: Int64


@dataclass(frozen=True, slots=True, eq=False)
class StageMemory:
    """Bytes that each stage needs, int64[k] each: an upper or a lower estimate.

    While stages a..b run, the input of stage a is live; its bytes are not counted.

    link : values that pass from the stage to later ones; 0 for the last stage
    keep : values that stay live from the forward nodes to the backward nodes of the stage, including its link, minus
        bytes that are already counted as input; negative if the stage frees its input
    again : peaks when the stage is recomputed
    once : peaks when the stage runs for the first time and computes its values that are never recomputed
    leaf : `again.every` without the link
    backward : peak of the backward nodes, including the gradients
    gradients : gradients that are live when the backward nodes of the stage start, plus the link if these nodes read it
    fixed : values that are never recomputed; they are live from the first sweep over the stage until it runs in full
    pinned : all outputs of the forward part together
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
        """All arrays, in the order that the kernel expects."""
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
        return self.pinned == other.pinned and all(map(np.array_equal, self.arrays, other.arrays))


@dataclass(frozen=True, slots=True, eq=False)
class ChainStages:
    """The forward part, cut at places that few values cross, and the backward nodes of each stage.

    The values that cross a cut are called the state of the stage before the cut; they are the input of the next stage.
    A state is one value in a chain of layers, and k values in a recurrence that reads the last k steps. Backward nodes
    stay in id order. The backward nodes of each stage run after those of the next stage. They read forward values only
    from their own stage and from its input.

    `nodes`, int64[f], are the needed forward nodes, in order of increasing `stage`. `backward_nodes`, int64[g], are the
    needed backward nodes, in order of decreasing `backward_stage`. `state`, int64[p], lists the states of all stages,
    in order of increasing `state_stage`.
    """

    graph: ComputationGraph
    nodes: Int64
    stage: Int64
    backward_nodes: Int64
    backward_stage: Int64
    state_stage: Int64
    state: Int64

    def __len__(self) -> int:
        return int(self.stage[-1]) + 1

    @property
    def is_narrow(self) -> bool:
        return bool((np.bincount(self.state_stage) <= 1).all())

    def joined(self, count: int) -> "ChainStages":
        """Join neighbouring stages into two to `count` stages with about equal numbers of nodes."""
        if len(self) <= count:
            return self
        last_node = np.flatnonzero(np.diff(self.stage, append=len(self)))
        goals = (np.arange(1, count) * self.nodes.size) // count
        # The last stage may contain most of the nodes. Leave it out here, so that at least two stages remain.
        before_last = np.searchsorted(last_node[:-2], goals)
        ends = np.unique(np.append(before_last, len(self) - 1))
        return self._at(ends)

    def _at(self, ends: Int64) -> "ChainStages":
        """Join stages; each new stage ends with one of the old stages in `ends`."""
        number = np.searchsorted(ends, np.arange(len(self)))
        passing = np.isin(self.state_stage, ends)
        state = number[self.state_stage[passing]], self.state[passing]
        stages = number[self.stage], self.backward_nodes, number[self.backward_stage], *state
        return ChainStages(self.graph, self.nodes, *stages)

    @property
    def lasting(self) -> Bool:
        """bool[n]: forward nodes that are never recomputed, because of a mark or because they compute an output."""
        graph = self.graph
        makes_output = _flags(graph.n_nodes, graph.producer[graph.output])
        return (runs_once(graph) | makes_output) & graph.forward

    @property
    def exact(self) -> bool:
        """True if every forward node may be recomputed; only then are `costs` exact."""
        return not bool(self.lasting[self.nodes].any())

    def costs(self) -> tuple[Int64, Int64, Int64, int]:
        """Return the compute of `SWEEP`, `EVERY` and `LEAF` for each stage, and of all nodes that run only once."""
        read, lasting = _StageReads.of(self), self.lasting
        compute = self.graph.compute[self.nodes]
        sweep, saved, leaf = read.closures(lasting)
        fixed = int(self.graph.compute[self.backward_nodes].sum() + compute[lasting[self.nodes]].sum())
        runs = (nodes[self.nodes] for nodes in (sweep, sweep | saved, leaf))
        swept, every, leaves = (_sums(self.stage, compute, each, len(self)) for each in runs)
        return swept, every, leaves, fixed

    @property
    def upper(self) -> StageMemory:
        return _memory(self, upper=True)

    @property
    def lower(self) -> StageMemory:
        return _memory(self, upper=False)

    def schedule(self, operations: Operations) -> Schedule:
        return emit(self.graph, np.concatenate([[], *self._runs(operations)]).astype(np.int32))

    def _runs(self, operations: Operations) -> Iterator[Int64]:
        read, lasting = _StageReads.of(self), self.lasting
        starts = np.searchsorted(self.stage, np.arange(len(self) + 1))
        ends = np.searchsorted(-self.backward_stage, -np.arange(len(self)), side="right")
        begins = np.searchsorted(-self.backward_stage, -np.arange(len(self)))
        has_lasting = _flags(len(self), self.stage[lasting[self.nodes]])
        # `has_run` marks the nodes that have run and must not be recomputed.
        has_run, none = np.zeros(self.graph.n_nodes, bool), np.zeros(0, bool)
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


def _recognised(graph: ComputationGraph) -> ChainStages | None:
    """Return the stages of a chain. Cuts that several values cross are used only if they give many more stages."""
    part = ForwardPart.of(graph)
    backward = np.flatnonzero(~graph.forward & graph.needed)
    if part.nodes.size == 0 or backward.size == 0:
        return None
    chain, widest = _divided(part, backward, 1), _divided(part, backward, tuning.MAX_STATE)
    n_chain, n_widest = (0 if each is None else len(each) for each in (chain, widest))
    steps = n_widest >= max(tuning.MIN_STEPS, part.nodes.size / tuning.MAX_STEP_NODES)
    if not steps or n_chain >= max(tuning.MIN_STAGES, n_widest / tuning.MORE_STAGES):
        return chain
    divided = (_divided(part, backward, width) for width in range(2, tuning.MAX_STATE))
    fewest = max(tuning.MIN_STEPS, n_widest / 3)
    return next((each for each in divided if each is not None and len(each) >= fewest), widest)


def _divided(part: ForwardPart, backward: Int64, width: int) -> ChainStages | None:
    """Return the finest stages whose states have at most `width` values; None if there are fewer than two."""
    graph = part.graph
    values, begin, end = part.lives
    places = np.flatnonzero(part.width[:-1] <= width)
    # Places that are crossed by the same values count as one cut. A set of values is hashed as a sum of random numbers.
    marks = np.random.default_rng(0).integers(2**62, size=values.size)
    passing = interval_sums(begin, end, marks, part.nodes.size)[places]
    first = np.zeros(places.size, bool)
    first[np.unique(passing, return_index=True)[1]] = True
    ends = places[first | (part.width[places] == 0)]
    place = np.full(graph.n_nodes, -1, np.int64)
    place[part.nodes] = np.arange(part.nodes.size)
    last_read = place[graph.producer]
    last_read[values] = end
    index = np.full(graph.n_nodes, -1, np.int64)
    index[backward] = np.arange(backward.size)
    reader = row_of(graph.read_indptr)
    inside = (index[reader] >= 0) & graph.forward[graph.producer[graph.read_indices]]
    reader, value = index[reader[inside]], graph.read_indices[inside].astype(np.int64)
    made = place[graph.producer[value]]
    latest = _latest_places(graph, place, index, backward.size, part.nodes.size - 1)
    while ends.size:
        number = np.searchsorted(ends, np.arange(part.nodes.size))
        lowest, highest = np.zeros(backward.size, np.int64), number[latest]
        np.maximum.at(lowest, reader, number[made])
        np.minimum.at(highest, reader, number[last_read[value]])
        chosen = np.minimum.accumulate(highest)
        wrong = lowest > chosen
        if not wrong.any():
            spans = number[end] - number[begin]
            passed = np.arange(int(spans.sum())) - np.repeat(np.cumsum(spans) - spans, spans)
            state_stage = np.repeat(number[begin], spans) + passed
            order = np.argsort(state_stage, kind="stable")
            state = np.repeat(values, spans)[order]
            return ChainStages(graph, part.nodes, number, backward, chosen, state_stage[order], state)
        change = np.zeros(ends.size + 2, np.int64)
        np.add.at(change, chosen[wrong], 1)
        np.add.at(change, lowest[wrong], -1)
        ends = ends[np.cumsum(change)[: ends.size] == 0]
    return None


def _latest_places(graph: ComputationGraph, place: Int64, index: Int64, count: int, last: int) -> Int64:
    """Return the last position whose stage each backward node may join. Updates come after all reads of a parameter."""
    latest = np.full(count, last, np.int64)
    if graph.updates.any():
        reader, parameter = changeable_reads(graph)
        earliest = np.full(int(parameter.max(initial=-1)) + 1, last, np.int64)
        forward = place[reader] >= 0
        np.minimum.at(earliest, parameter[forward], place[reader[forward]])
        update = graph.updates[reader] & (index[reader] >= 0)
        np.minimum.at(latest, index[reader[update]], earliest[parameter[update]])
    return latest


@dataclass(frozen=True, slots=True, eq=False)
class _StageReads:
    """The reads of forward values in each stage, as pairs (reader, value).

    Forward nodes read values of their own stage (`inner`) and of its input (`entry`). Backward nodes read values of
    their own stage (`saved`) and of its input (`entry_saved`). `stage` is the stage of each node, or -1.
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
        """Return three masks of nodes, bool[n]: needed for links, needed by backward nodes, and run by leaves.

        The values of nodes marked in `there` are already live. A leaf runs the nodes that the backward nodes need, but
        it does not recompute values of a link that stay live.
        """
        graph, stays = self.stages.graph, self.stays
        passed = _flags(graph.n_values, self.stages.state)
        targets = self.is_saved | (graph.output & graph.forward[graph.producer])
        missing = ~there[graph.producer]
        saved = self._ancestors(targets, missing)
        leaf = self._ancestors(targets & ~stays, missing & ~stays) if stays.any() else saved
        return self._ancestors(passed, missing), saved, leaf

    @property
    def stays(self) -> Bool:
        """bool[n_values]: values of a state that stay live because backward nodes of their own stage read them.

        A value is excluded if the node that computes it must be recomputed anyway, to restore another value.
        """
        graph, saved = self.stages.graph, self.is_saved
        stays = _flags(graph.n_values, self.stages.state) & saved
        if np.diff(graph.value_indptr)[graph.producer[stays]].max(initial=1) > 1:
            stays &= ~self._ancestors(saved & ~stays, ~stays)[graph.producer]
        return stays

    @property
    def is_saved(self) -> Bool:
        """bool[n_values]: values that a backward node of the same stage reads."""
        return _flags(self.stages.graph.n_values, self.saved[1])

    @property
    def inputs(self) -> tuple[Int64, Int64]:
        """(int64[p], int64[p]): pairs of a stage and a value of its input."""
        return self.stages.state_stage + 1, self.stages.state

    def among_inputs(self, reads: tuple[Int64, Int64]) -> Bool:
        """Mark the inputs that a node of their own stage reads, bool[p]; `reads` are pairs (reader, value)."""
        return np.isin(self._key(*self.inputs), self._key(self.stage[reads[0]], reads[1]))

    def last_reads(self, reads: tuple[Int64, Int64], place: Int64) -> Int64:
        """For each input, return the last position in its stage that reads it, int64[p]; -1 for an unread input."""
        keys = self._key(*self.inputs)
        order, last = np.argsort(keys), np.full(keys.size, -1, np.int64)
        where = np.searchsorted(keys[order], self._key(self.stage[reads[0]], reads[1]))
        np.maximum.at(last, order[where], place[reads[0]])
        return last

    @property
    def passes_on(self) -> Bool:
        """bool[p]: inputs that are also inputs of the next stage."""
        return np.isin(self._key(*self.inputs), self._key(self.stages.state_stage, self.stages.state))

    def _key(self, stage: Int64, value: Int64) -> Int64:
        return stage * self.stages.graph.n_values + value

    def unread_inputs(self, leaves: Bool) -> Int64:
        """Return the inputs that neither the leaf nor the backward nodes of their stage read."""
        k, forward = len(self.stages), self.stages.graph.forward
        by_leaf = leaves[self.entry[0]]
        read = self.among_inputs((self.entry[0][by_leaf], self.entry[1][by_leaf])) | self.among_inputs(self.entry_saved)
        leaf_runs = _flags(k, self.stage[leaves & forward & (self.stage >= 0)])
        stage, value = self.inputs
        return value[leaf_runs[stage] & ~read]

    def _ancestors(self, targets: Bool, missing: Bool) -> Bool:
        """Mark the nodes that must run in the stage of the targets, bool[n]. All values except `missing` are live."""
        graph, (reader, value) = self.stages.graph, self.inner
        reader, value = reader[missing[value]], value[missing[value]]
        indptr = np.searchsorted(reader, np.arange(graph.n_nodes + 1))
        flags = (targets & missing).view(np.uint8)
        ancestors = needed_nodes(
            value_indptr=graph.value_indptr,
            read_indptr=indptr,
            read_indices=value.astype(np.int32),
            producer=graph.producer,
            output=flags,
        )
        return ancestors.view(np.bool_) & graph.forward & graph.needed


def _memory(stages: ChainStages, *, upper: bool) -> StageMemory:
    """Return an upper or a lower estimate of the bytes of each stage.

    The two estimates differ only for values that other stages may keep live. These are values of nodes that are never
    recomputed, inputs that no leaf reads, and inputs that the backward nodes of the previous stage also read. The upper
    estimate keeps them; the lower estimate frees them unless they must stay live.
    """
    graph, lasting, k = stages.graph, stages.lasting, len(stages)
    read = _StageReads.of(stages)
    number = np.where(graph.forward, read.stage, -1)
    inside = (number >= 0)[graph.producer]
    saved, passes, stays_on = read.is_saved, _flags(graph.n_values, stages.state), read.stays
    pinned = graph.output & inside
    readable = _flags(graph.n_values, *(values for _, values in (read.inner, read.entry, read.saved, read.entry_saved)))
    stays = lasting[graph.producer] & readable & ~pinned & inside
    sweep, saved_nodes, leaf_nodes = read.closures(np.zeros(graph.n_nodes, bool) if upper else lasting)
    size = np.where(pinned, 0, graph.memory)
    if not upper:
        size[read.unread_inputs(leaf_nodes)] = 0
    others = np.where(stays, 0, size)  # 0 for values never recomputed
    fixed = _sums(number[graph.producer], size, stays & upper, k)
    fixed[-1] = 0  # last stage has no sweep
    input_stage, entering = read.inputs
    input_size = others[entering]
    link_size = np.bincount(stages.state_stage, input_size, k).astype(np.int64)
    read_back = read.among_inputs(read.entry_saved)
    # An input outlives the backward nodes of the stage if it is an input of the next stage too, or if backward nodes of
    # an earlier stage read it.
    earliest = np.full(graph.n_values, k, np.int64)
    np.minimum.at(earliest, read.entry_saved[1], read.stage[read.entry_saved[0]])
    retained = read.passes_on | stays_on[entering] | (saved & upper)[entering] | (earliest[entering] < input_stage)
    entered, freed = np.where(read_back | retained, 0, input_size), np.where(retained, 0, input_size)
    counted, all_freed = (np.bincount(input_stage, each, k).astype(np.int64) for each in (entered, freed))
    again, once = _Profile(stages, read, others), _Profile(stages, read, size if upper else others)
    every, kept = sweep | saved_nodes, saved | passes
    leaf = again.forward(leaf_nodes, saved & ~stays_on, entered)
    leaf[-1] = once.forward(saved_nodes, saved, entered)[-1]
    backward, gradients = _Profile(stages, read, size).backward(saved, np.where(read_back, freed, 0))
    keep = _sums(number[graph.producer], size, (saved | (passes & (upper | ~stays))) & inside, k)
    staying = _sums(number[graph.producer], others, stays_on & inside, k)
    return StageMemory(
        link=link_size,
        keep=keep - counted,
        again=ForwardPeaks(*again.swept(sweep, passes, input_size), again.forward(every, kept, entered) - counted),
        once=ForwardPeaks(*once.swept(sweep, passes | stays, input_size), once.forward(every, kept, entered) - counted),
        leaf=leaf - counted,
        backward=backward - all_freed,
        gradients=gradients + staying,
        fixed=fixed,
        pinned=int(graph.memory[pinned].sum()) if upper else 0,
    )


class _Profile:
    """Computes peaks of the stages from the lifetimes of their values."""

    def __init__(self, stages: ChainStages, read: _StageReads, size: Int64) -> None:
        self.stages, self.read, self.size = stages, read, size
        graph = stages.graph
        self.place = np.full(graph.n_nodes, -1, np.int64)
        self.place[stages.nodes] = np.arange(stages.nodes.size)
        self.index = np.full(graph.n_nodes, -1, np.int64)
        self.index[stages.backward_nodes] = np.arange(stages.backward_nodes.size)
        self.begin = np.searchsorted(stages.stage, np.arange(len(stages)))
        self.last = np.append(self.begin[1:], stages.nodes.size) - 1

    def forward(self, member: Bool, kept: Bool, input_size: Int64 | None = None) -> Int64:
        """Return the peak over the member nodes of each stage, int64[k]; `kept` values stay live to its end."""
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
        if input_size is not None:
            reader, value = self.read.entry
            inside, stage = member[reader], self.read.inputs[0]
            last_read = self.read.last_reads((reader[inside], value[inside]), self.place)
            last_read = np.where(self.read.passes_on, self.last[stage], last_read)
            live += _live(self.begin[stage], last_read, input_size, stages.nodes.size)
        live += graph.workspace[stages.nodes]
        return _maxima(live, stages.stage, member[stages.nodes], len(stages))

    def swept(self, member: Bool, kept: Bool, input_size: Int64) -> tuple[Int64, Int64]:
        return self.forward(member, kept), self.forward(member, kept, input_size)

    def backward(self, saved: Bool, input_size: Int64) -> tuple[Int64, Int64]:
        """Return for each stage the peak of its backward nodes, and the bytes of gradients live when they start."""
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
        last_read = self.read.last_reads(self.read.entry_saved, self.index)
        live += _live(start[self.read.inputs[0]], last_read, input_size, count)
        live += graph.workspace[stages.backward_nodes]
        return _maxima(live, number, np.ones(count, bool), len(stages)), gradients


def _flags(count: int, *members: Int32 | Int64) -> Bool:
    flags = np.zeros(count, bool)
    for each in members:
        flags[each] = True
    return flags


def _sums(number: Int64, amount: Int64, member: Bool, count: int) -> Int64:
    sums = np.zeros(count, np.int64)
    np.add.at(sums, number[member], amount[member])
    return sums


def _live(begin: Int64, last: Int64, size: Int64, length: int) -> Int64:
    return interval_sums(begin, np.minimum(last + 1, length), size, length)


def _maxima(live: Int64, number: Int64, member: Bool, count: int) -> Int64:
    peaks = np.zeros(count, np.int64)
    np.maximum.at(peaks, number[member], live[member])
    return peaks
