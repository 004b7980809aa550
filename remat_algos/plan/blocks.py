"""Blocks of a model: the forward nodes under a module path, and how eager PyTorch recomputes them."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from remat_algos.arguments import as_list, checked_arguments
from remat_algos.errors import ArgumentError, PlanError
from remat_algos.ir.arrays import (
    NO_PAIRS,
    NO_TRIPLES,
    Bool,
    Int32,
    Int64,
    brief,
    by_fields,
    frozen,
    row_of,
    wrong_length,
)
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.parts import KEEP as MARKED_KEEP
from remat_algos.schedule.schedule import Schedule

DECISIONS = KEEP, RECOMPUTE, OFFLOAD = ("keep", "recompute", "offload")
SEMANTICS = EAGER, GRAPH = ("eager", "graph")
NO_NODES = np.zeros(0, np.int32)


@dataclass(frozen=True, slots=True, eq=False)
class Blocks:
    """Blocks of forward nodes that may be checkpointed, in the order in which they run.

    All fields except the last three contain one entry per block. A checkpointed block keeps its inputs, and the outputs
    of the operators that a policy saves. Eager PyTorch recomputes all other operators before the first gradient of the
    block, up to the last tensor that autograd saves in the block.

    names : module paths
    members : forward nodes, ascending
    kinds : id of each block's kind; blocks of one kind have equal operations, bytes, costs and reads
    rerun_end : node id; members with this id or a higher id are not recomputed
    inputs : values that the checkpoint keeps as its inputs
    trigger : backward node before which the block is recomputed, or -1 if gradients do not need the block
    release : backward node after which the checkpoint frees its inputs and its unread saved outputs, or -1
    draws : members that draw random numbers
    fixed : members that a policy must not save, for example since a later member changes their values in place
    refusals : blocks that can only be kept, each with the reason

    >>> import remat_algos as ra
    >>> graph = ra.differentiate("model:llama_7b?depth=2")
    >>> blocks = Blocks.of(graph, "layers.*")
    >>> blocks.names, blocks.kinds.tolist(), [len(members) for members in blocks.members]
    (('layers.0', 'layers.1'), [0, 0], [16, 16])
    """

    names: tuple[str, ...]
    members: tuple[Int32, ...]
    kinds: Int32
    rerun_end: Int32
    inputs: tuple[Int32, ...]
    trigger: Int32
    release: Int32
    draws: Int32 = field(default_factory=NO_NODES.copy)
    fixed: Int32 = field(default_factory=NO_NODES.copy)
    refusals: Mapping[int, str] = field(default_factory=dict)

    __repr__ = brief
    __reduce__ = by_fields

    def __post_init__(self) -> None:
        count = len(self.names)
        for name in ("kinds", "rerun_end", "trigger", "release"):
            object.__setattr__(self, name, frozen(getattr(self, name), np.int32, name, count, "block"))
        for name in ("draws", "fixed"):
            object.__setattr__(self, name, frozen(getattr(self, name), np.int32, name))
        for name in ("members", "inputs"):
            rows = getattr(self, name)
            if len(rows) != count:
                raise wrong_length(name, len(rows), count, "block")
            object.__setattr__(self, name, tuple(frozen(row, np.int32, name) for row in rows))
        for name, members in zip(self.names, self.members, strict=True):
            if (np.diff(members) <= 0).any():
                raise PlanError("the members of block {name!r} must be in ascending order", name=name)
        nodes, times = np.unique(np.concatenate([*self.members, NO_NODES]), return_counts=True)
        if (times > 1).any():
            raise PlanError("node {node} is a member of two blocks", node=int(nodes[times > 1][0]))
        object.__setattr__(self, "refusals", MappingProxyType(dict(self.refusals)))

    def __len__(self) -> int:
        return len(self.names)

    @classmethod
    @checked_arguments
    def of(cls, graph: ComputationGraph, pattern: str | Sequence[str]) -> Blocks:
        """Return the blocks of a graph whose node names are dotted paths.

        `pattern` is a module path such as "layers.*", where `*` stands for one part of a name. Models with several
        stacks need several paths, as a sequence or separated by commas. Raise PlanError if the pattern matches nothing,
        if blocks overlap, or if a node outside of a block is on a path between two of its members.
        """
        texts = [pattern] if isinstance(pattern, str) else as_list(pattern, "pattern")
        patterns = [part.strip() for text in texts for part in str(text).split(",")]
        if "" in patterns:
            raise PlanError('the pattern {pattern!r} has an empty part; write for example "layers.*"', pattern=pattern)
        nodes_of = _matched(graph, patterns)
        names = tuple(sorted(nodes_of, key=lambda name: nodes_of[name][0]))
        members = [np.array(nodes_of[name], np.int32) for name in names]
        for name, block in zip(names, members, strict=True):
            _check_contiguous(graph, name, block)
        return cls.from_members(graph, names, members)

    @classmethod
    def from_members(cls, graph: ComputationGraph, names: Sequence[str], members: Sequence[ArrayLike]) -> Blocks:
        """Return blocks with these members; the other fields are derived from the edges of the graph."""
        blocks = [np.asarray(block, np.int32) for block in members]
        n, count = graph.n_nodes, len(blocks)
        block_of = _block_of(graph, blocks)
        reader, value = row_of(graph.read_indptr), graph.read_indices
        maker = graph.producer[value]
        counted = graph.needed[reader]
        forward = graph.forward[reader] & counted
        made_in, read_in = block_of[maker], block_of[reader]
        leaves = np.zeros(graph.n_values, bool)
        leaves[value[forward & (read_in != made_in)]] = True
        inputs = [np.unique(value[forward & (read_in == b) & (made_in != b)]) for b in range(count)]
        own = ~graph.forward[reader] & counted & (made_in >= 0) & ~leaves[value]
        end = np.array([block[0] for block in blocks], np.int32)
        first, last = np.full(count, n, np.int32), np.full(count, -1, np.int32)
        np.maximum.at(end, made_in[own], maker[own] + 1)
        np.minimum.at(first, made_in[own], reader[own])
        np.maximum.at(last, made_in[own], reader[own])
        trigger = np.where(first < n, first, -1)
        numbers: dict[Any, int] = {}
        kinds = [
            numbers.setdefault((block_signature(graph, *parts), begin >= 0, until - begin), len(numbers))
            for *parts, begin, until in zip(blocks, inputs, end, trigger.tolist(), last.tolist(), strict=True)
        ]
        return cls(tuple(names), tuple(blocks), np.array(kinds, np.int32), end, tuple(inputs), trigger, last)


@dataclass(frozen=True, slots=True, eq=False)
class Holds:
    """How long Python and autograd keep values alive after their last read, in eager PyTorch.

    `live_until`, int32[n_values], is the last node during which a local variable, an argument of a caller or the cache
    of autocast keeps the value alive, or -1 if nothing keeps it after its last read. `saved` consists of four arrays,
    int32[k], with one entry per reference from autograd to a value: (1) the value; (2) a node of the block that saves
    the value, or -1; (3) the last node during which the reference exists; (4) the last such node if the block is
    recomputed, because a gradient then frees each saved value after unpacking it.
    """

    live_until: Int32
    saved: tuple[Int32, ...]

    __repr__ = brief
    __reduce__ = by_fields

    def __post_init__(self) -> None:
        object.__setattr__(self, "live_until", frozen(self.live_until, np.int32, "live_until"))
        object.__setattr__(self, "saved", tuple(frozen(column, np.int32, "saved") for column in self.saved))


def block_schedule(
    graph: ComputationGraph,
    blocks: Blocks,
    decisions: Sequence[str],
    saved: Bool,
    semantics: str = EAGER,
    holds: Holds | None = None,
) -> Schedule:
    """Return the schedule of a policy: each checkpointed block is recomputed before its first gradient.

    `decisions` contains one of `DECISIONS` for each block, and `saved`, bool[n], marks nodes whose outputs stay. With
    the semantics "eager" all other members are recomputed, and values outlive their last read. With "graph" only
    members that gradients need are recomputed.
    """
    if semantics not in SEMANTICS:
        raise ArgumentError("semantics is {semantics!r}; use eager or graph", semantics=semantics)
    for name, decision in zip(blocks.names, decisions, strict=True):
        if decision not in DECISIONS:
            raise ArgumentError(
                "the decision of block {name!r} is {decision!r}; use keep, recompute or offload",
                name=name,
                decision=decision,
            )
    saved = saved | not_rerun(graph)
    again, start = (_eager_reruns if semantics == EAGER else _graph_reruns)(graph, blocks, saved)
    treated = [b for b, decision in enumerate(decisions) if decision != KEEP and blocks.trigger[b] >= 0]
    treated.sort(key=lambda b: (start[b], -b))
    reruns = [blocks.members[b][again[blocks.members[b]]] for b in treated]
    needed = np.flatnonzero(graph.needed).astype(np.int32)
    forward, backward = needed[graph.forward[needed]], needed[~graph.forward[needed]]
    sizes = np.array([nodes.size for nodes in reruns], np.int64)
    ahead = np.searchsorted(backward, start[treated])
    run_again = np.concatenate([*reruns, NO_NODES])
    order = np.concatenate([forward, np.insert(backward, np.repeat(ahead, sizes), run_again)])
    step = np.full(graph.n_nodes, -1)
    step[order[::-1]] = np.arange(order.size)[::-1]  # step of the first run
    # The first step of the rerun of each block. The additional last entry serves nodes outside of blocks, with index
    # -1.
    at = np.full(len(blocks) + 1, -1)
    at[treated] = forward.size + ahead + np.cumsum(sizes) - sizes
    away = offloaded(graph, blocks, decisions, semantics) if OFFLOAD in decisions else []
    loads = [(at[b], x) for b in treated if away for x in away[b]]
    stays = NO_TRIPLES
    if semantics == EAGER:
        stays = _lingering(graph, blocks, saved, step, at, run_again, loads, holds)
    return Schedule(order, np.array(loads or NO_PAIRS), stays)


def not_rerun(graph: ComputationGraph) -> Bool:
    """Return bool[n]: the nodes that must not be recomputed."""
    return graph.once if graph.mark is None else graph.once | (graph.mark == MARKED_KEEP)


def _eager_reruns(graph: ComputationGraph, blocks: Blocks, saved: Bool) -> tuple[Bool, Int32]:
    """Return the nodes that eager PyTorch recomputes in checkpointed blocks, and the gradient before each rerun."""
    again = np.zeros(graph.n_nodes, bool)
    for members, end in zip(blocks.members, blocks.rerun_end, strict=True):
        again[members[members < end]] = True
    return again & ~saved, blocks.trigger


def _graph_reruns(graph: ComputationGraph, blocks: Blocks, saved: Bool) -> tuple[Bool, Int32]:
    """Return the nodes to recompute for gradients, and for each block the first gradient that reads such a node."""
    reads = member_reads(graph, blocks)
    again = needed_again(reads.required, ~saved & ~reads.leaves, reads.inside)
    first = np.full(len(blocks), graph.n_nodes, np.int32)
    maker, reader = reads.gradients[again[reads.gradients[:, 0]]].T
    np.minimum.at(first, reads.block[maker], reader)
    return again, np.where(first < graph.n_nodes, first, blocks.trigger)


def _block_of(graph: ComputationGraph, blocks: Sequence[Int32]) -> Int64:
    block = np.full(graph.n_nodes, -1)
    for b, members in enumerate(blocks):
        block[members] = b
    return block


class MemberReads(NamedTuple):
    """The values of block members that other nodes read.

    `block`, int64[n], is the block of each node, or -1. `required`, bool[n], marks members that gradients read, and
    `leaves`, bool[n], members that forward nodes outside of their block read. `gradients`, int64[g, 2], contains pairs
    (producer, reader) whose reader is in the backward part. `inside`, int64[e, 2], contains pairs (producer, reader)
    within a block, in descending order of the producer.
    """

    block: Int64
    required: Bool
    leaves: Bool
    gradients: Int64
    inside: Int64


def member_reads(graph: ComputationGraph, blocks: Blocks) -> MemberReads:
    """Return which nodes read the values of block members. Readers that are not needed are ignored."""
    block = _block_of(graph, blocks.members)
    pairs = np.stack([graph.producer[graph.read_indices], row_of(graph.read_indptr)], axis=1)
    pairs = pairs[(block[pairs[:, 0]] >= 0) & graph.needed[pairs[:, 1]]]
    forward = graph.forward[pairs[:, 1]]
    gradients, others = pairs[~forward], pairs[forward]
    apart = block[others[:, 0]] != block[others[:, 1]]
    required, leaves = np.zeros((2, graph.n_nodes), bool)
    required[gradients[:, 0]] = True
    leaves[others[apart, 0]] = True
    inside = others[~apart]
    return MemberReads(block, required, leaves, gradients, inside[np.argsort(-inside[:, 0], kind="stable")])


def needed_again(required: Bool, allowed: Bool, inside: Int64) -> Bool:
    """Return the members among `allowed` that must be recomputed for gradients; arrays are [k] or [k, n_sets]."""
    again, (maker, reader) = required & allowed, inside.T
    while True:
        at, *sets = np.nonzero(again[reader] & allowed[maker] & ~again[maker])
        if not at.size:
            return again
        again[(maker[at], *sets)] = True


def offloaded(graph: ComputationGraph, blocks: Blocks, decisions: Sequence[str], semantics: str) -> list[Int32]:
    """Return the inputs of each offloaded block that go to the host. Graph outputs and shared inputs stay."""
    kept = np.append(np.array([each == KEEP for each in decisions]) | (blocks.trigger < 0), True)
    stays = graph.output | (graph.memory == 0)
    stays |= np.bincount(np.concatenate([*blocks.inputs, NO_NODES]), minlength=graph.n_values) > 1
    # Autograd keeps a value on the device if a gradient outside of the checkpoints reads it.
    if semantics == EAGER:
        reads = ~graph.forward & graph.needed & kept[_block_of(graph, blocks.members)[graph.owner]]
        stays[graph.read_indices[reads[row_of(graph.read_indptr)]]] = True
    return [row[~stays[row] & (each == OFFLOAD)] for row, each in zip(blocks.inputs, decisions, strict=True)]


def _lingering(
    graph: ComputationGraph,
    blocks: Blocks,
    saved: Bool,
    step: Int64,
    at: Int64,
    again: Int32,
    loads: Sequence[tuple[int, int]],
    holds: Holds | None,
) -> Int64:
    """Return rows for `Schedule.lingering`: values that checkpoints, Python or autograd keep after the last read."""
    n, producer, block = graph.n_nodes, graph.producer, _block_of(graph, blocks.members)
    made_again, loaded = np.full(n, -1), np.full(graph.n_values, -1)
    places = np.sort(block[again] * n + again)  # recomputed nodes, sorted by block

    def rank(b: Int64, v: Int32 | Int64, side: Literal["left", "right"]) -> Int64:
        """Return the step of a node in the rerun of block b, or its insertion point if it is not recomputed."""
        return at[b] + np.searchsorted(places, b * n + v, side) - np.searchsorted(places, b * n)

    def in_rerun(b: Int64, last: Int32) -> Int64:
        """Return the step after node `last` in the rerun of block b, or the end of the rerun if `last` is not in b."""
        return rank(b, np.where(block[last] == b, last, n - 1), "right")

    made_again[again] = rank(block[again], again, "left")
    loaded[[x for _, x in loads]] = [begin for begin, _ in loads]
    release = step[np.append(blocks.release, -1)] + 1
    inputs = np.concatenate([*blocks.inputs, NO_NODES])
    taker = np.repeat(np.arange(len(blocks)), [row.size for row in blocks.inputs])
    inputs, taker = inputs[at[taker] >= 0], taker[at[taker] >= 0]
    # Checkpoints refer to their inputs, and to each saved output until the rerun reaches the operator that computed it.
    rows = [(inputs, np.where(loaded[inputs] >= 0, loaded[inputs], step[producer[inputs]]), release[taker])]
    x = np.flatnonzero(saved[producer] & (at[block[producer]] >= 0))
    v, b = producer[x], block[producer[x]]
    rows.append((x, step[v], np.where(v >= blocks.rerun_end[b], release[b], rank(b, v, "left"))))
    if holds is not None:
        x = np.flatnonzero((holds.live_until >= 0) & (step[producer] >= 0))
        v, b, last = producer[x], block[producer[x]], holds.live_until[x]
        rows.append((x, step[v], step[last] + 1))
        first = np.where(made_again[v] >= 0, made_again[v], step[v])
        comes = (at[b] >= 0) & (v < blocks.rerun_end[b])  # recomputed
        rows.append((x[comes], first[comes], in_rerun(b, last)[comes]))
        x, place, kept, last = np.stack(holds.saved)[:, step[producer[holds.saved[0]]] >= 0]
        v, c = producer[x], np.append(block, -1)[place]
        # In a branch without a gradient, for example after a detached value, the rerun frees values after the same node
        # as the forward part.
        until = np.where(graph.forward[last], in_rerun(c, last), step[last] + 1)
        newest = np.where(at[c] < 0, -1, np.where(block[v] == c, made_again[v], loaded[x]))
        rows.append((x, np.where(newest < 0, step[v], newest), np.where(at[c] < 0, step[kept] + 1, until)))
    lingering = np.concatenate([np.stack(row, axis=1) for row in rows])
    return lingering[lingering[:, 2] > lingering[:, 1]]


def _matched(graph: ComputationGraph, patterns: Sequence[str]) -> dict[str, list[int]]:
    names = graph.node_names()
    forward = np.flatnonzero(graph.forward & graph.needed).tolist()
    found: dict[str, set[int]] = {}
    for pattern in patterns:
        path = re.compile(r"\.".join("[^.]+" if part == "*" else re.escape(part) for part in pattern.split(".")))
        matched = {v: path.match(names[v] + ".") for v in forward}
        hits = {v: match[0] for v, match in matched.items() if match and names[v][match.end() :].startswith(".")}
        if not hits:
            paths = dict.fromkeys(re.sub(r"\.\d+(?=\.|$)", ".*", names[v].rpartition(".")[0]) for v in forward)
            raise PlanError(
                "no node belongs to a module that matches {pattern!r}; the modules are {modules!l}"
                if any(paths)
                else "no node belongs to a module that matches {pattern!r}; the names of nodes have no dots",
                pattern=pattern,
                modules=[path for path in paths if path],
            )
        for v, name in hits.items():
            found.setdefault(name, set()).add(v)
    owner: dict[int, str] = {}
    for name, block in found.items():
        for v in block:
            if owner.setdefault(v, name) != name:
                raise PlanError(
                    "{node} is in the blocks {one!r} and {other!r}; give patterns whose blocks do not overlap",
                    node=names[v],
                    one=owner[v],
                    other=name,
                )
    return {name: sorted(block) for name, block in found.items()}


def _check_contiguous(graph: ComputationGraph, name: str, block: Int32) -> None:
    """Raise PlanError if a node outside of a block is on a path between two of its nodes."""
    inside, after = set(block.tolist()), set[int]()
    producer = graph.producer
    for v in range(int(block[0]), int(block[-1]) + 1):
        between = [u for u in (int(producer[x]) for x in graph.reads(v)) if u in after]
        if v not in inside:
            if between or any(int(producer[x]) in inside for x in graph.reads(v)):
                after.add(v)
        elif between:
            raise PlanError(
                "block {block!r} cannot be recomputed as a whole: {node}, outside the block, lies between its nodes",
                block=name,
                node=graph.labels[between[0]],
            )


def block_signature(
    graph: ComputationGraph, members: Int32, inputs: Int32, end: int, marks: Sequence[Container[int]] = ()
) -> Any:
    """Return a key that is equal for blocks with equal operators, bytes, costs, marks and reads."""
    not_again = not_rerun(graph)
    place = {int(x): (-1, i) for i, x in enumerate(inputs)}
    place |= {x: (i, k) for i, v in enumerate(members.tolist()) for k, x in enumerate(graph.values(v))}
    nodes = (
        (
            graph.labels.op(v),
            int(graph.compute[v]),
            int(graph.workspace[v]),
            bool(not_again[v]),
            v < end,
            *(v in mark for mark in marks),
            tuple(int(graph.memory[x]) for x in graph.values(v)),
            tuple(place[x] for x in graph.reads(v)),
        )
        for v in members.tolist()
    )
    return tuple(nodes), tuple(graph.memory[inputs].tolist())
