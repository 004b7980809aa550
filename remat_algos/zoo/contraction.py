"""A graph with one node per block, for granularity="layer"."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from remat_algos.errors import GraphError
from remat_algos.ir.arrays import NO_PAIRS, NO_TRIPLES, Bool, Int8, Int32, Int64, group_rows, row_of
from remat_algos.ir.differentiate import PARAMETER, differentiate, everything_saved, gradient_pairs
from remat_algos.ir.graph import ComputationGraph
from remat_algos.ir.parts import KEEP, RECOMPUTE, Backward, Labels, Resident
from remat_algos.kernels.lifetimes import instance_lifetimes


def contract(graph: ComputationGraph, block: Sequence[str]) -> ComputationGraph:
    """Contract each block of the forward graph to one node, so that it is kept or recomputed as a whole.

    `block[v]` is the name of node v's block, "" for a single node. Consecutive nodes of a block become a node of that
    name; if they are not consecutive, they become several: `b`, `b#2`, ... The node's values are the outputs and those
    read outside, under their names, and `BLOCK:inner`, the bytes of the others that gradients read; other bytes of its
    run are workspace. So the bytes live between forward and backward part are the same, and the peak without
    rematerialization is not lower.

    A `once` node stays single: one that reads no value (a dropout mask) moves before its block, any other splits it. A
    block that reads no value with a gradient is split where gradients begin, since it would have none. Gradients cost
    `factor` times the compute of the block; if a node has a `grad_compute`, those of the others cost twice their
    compute.
    """
    if graph.forward_of is not None:
        raise GraphError("the graph has a backward part; contract the graph that it was made from, then differentiate")
    if len(block) != graph.n_nodes:
        raise GraphError(
            'block has {n_block} entries, expected {n_nodes} (one per node, "" for none)',
            n_block=len(block),
            n_nodes=graph.n_nodes,
        )
    if not any(block):
        return graph
    rules = graph.backward or everything_saved(graph)
    blocks = _Contraction.of(graph, rules, block)
    reader = row_of(graph.read_indptr)
    outer = blocks.group[reader] != blocks.home[graph.read_indices]
    read_indptr, read_indices = blocks.rows(reader[outer], blocks.value[graph.read_indices[outer]])
    backward = _backward(graph, rules, blocks) if graph.backward is not None or blocks.merged.any() else None
    contracted = ComputationGraph(
        value_indptr=blocks.value_indptr,
        read_indptr=read_indptr,
        read_indices=read_indices,
        memory=blocks.of_values(graph.memory, blocks.inner),
        compute=blocks.sums(graph.compute),
        workspace=blocks.sums(np.where(blocks.alone, graph.workspace, 0)),
        once=blocks.sums(graph.once) > 0,
        output=graph.output[blocks.origin] & (blocks.origin >= 0),
        backward=backward,
        resident=_resident(graph, blocks),
        mark=_mark(graph, blocks),
        labels=_labels(graph, blocks, block),
    )
    if backward is None:
        return contracted
    workspace, grad_workspace = _workspaces(replace(graph, backward=rules), contracted, blocks.group)
    return replace(
        contracted,
        workspace=contracted.workspace + workspace,
        backward=replace(backward, grad_workspace=backward.grad_workspace + grad_workspace),
    )


def able(graph: ComputationGraph, rules: Backward) -> Bool:
    """bool[n]: True for a node that can have a gradient, because it reads a parameter or a value that has one."""
    flags = np.zeros(graph.n_nodes, bool)
    flags[row_of(graph.read_indptr)[(rules.grad_memory >= 0)[graph.read_indices]]] = True
    if graph.resident is not None:
        is_parameter = (graph.resident.role == PARAMETER)[graph.resident.read_indices]
        flags[row_of(graph.resident.read_indptr)[is_parameter]] = True
    return flags


@dataclass(frozen=True, slots=True, eq=False)
class _Contraction:
    """The block of each node, and what becomes of each value, by ids of the original graph."""

    group: Int64  # [n] the block of each node
    size: Int64  # [blocks] number of its nodes
    home: Int64  # [n_values] the block of a value
    kept: Bool  # [n_values] True for a value of its block
    inner: Int64  # [blocks] bytes of the others that gradients read, -1 without any
    origin: Int64  # [new values] the old value, -1 for inner ones
    value_indptr: Int64  # [blocks + 1]
    value: Int32  # [n_values] the new value that contains it, -1: none

    @classmethod
    def of(cls, graph: ComputationGraph, rules: Backward, block: Sequence[str]) -> _Contraction:
        group = _groups(graph, rules, block)
        size = np.bincount(group)
        home = group[graph.producer]
        kept = _kept(graph, group, size > 1)
        saver = row_of(rules.saved_indptr)
        hidden = np.unique(rules.saved_indices[able(graph, rules)[saver] & ~kept[rules.saved_indices]])
        inner = np.full(size.size, -1)
        inner[home[hidden]] = 0
        np.add.at(inner, home[hidden], graph.memory[hidden])
        old, with_inner = np.flatnonzero(kept), np.flatnonzero(inner >= 0)
        owner = np.append(home[old], with_inner)
        order = np.argsort(owner, kind="stable")  # old values by id, then the inner ones
        origin = np.append(old, np.full(with_inner.size, -1))[order]
        value_indptr = np.searchsorted(owner[order], np.arange(size.size + 1))
        value = np.full(graph.n_values, -1, np.int32)
        value[origin[origin >= 0]] = np.flatnonzero(origin >= 0)
        value[hidden] = value_indptr[home[hidden] + 1] - 1
        return cls(group, size, home, kept, inner, origin, value_indptr, value)

    @property
    def merged(self) -> Bool:
        """bool[blocks]: True for a block of more than one node."""
        return self.size > 1

    @property
    def alone(self) -> Bool:
        """bool[n]: True for a node that is the only one of its block."""
        return ~self.merged[self.group]

    def sums(self, amounts: Int64 | Bool) -> Int64:
        """int64[blocks]: the sum of the amounts of each block's nodes."""
        total = np.zeros(self.size.size, np.int64)
        np.add.at(total, self.group, amounts)
        return total

    def of_values(self, old: Int64, inner: Int64) -> Int64:
        """int64[new values]: `old` of the value that stays, or `inner` of the block whose inner values are one."""
        owner = row_of(self.value_indptr)
        return np.where(self.origin >= 0, old[self.origin], inner[owner])

    def rows(self, node: Int64, entry: Int32) -> tuple[Int64, Int32]:
        """(indptr, entries): the distinct entries of each block's nodes, in order of first appearance."""
        row = self.group[node]
        _, first = np.unique((row << 32) + entry, return_index=True)
        first.sort()
        return group_rows(row[first], entry[first], self.size.size)


def _groups(graph: ComputationGraph, rules: Backward, block: Sequence[str]) -> Int64:
    """int64[n]: the block of each node; blocks are numbered in topological order."""
    codes: dict[str, int] = {}
    code = np.array([codes.setdefault(name, len(codes)) for name in block])
    alone = graph.once | (code == codes.get("", -1))
    moved = graph.once & (np.diff(graph.read_indptr) == 0)
    rest = np.flatnonzero(~moved)
    begins = np.ones(rest.size, bool)
    begins[1:] = (code[rest[1:]] != code[rest[:-1]]) | alone[rest[1:]] | alone[rest[:-1]]
    run = np.zeros(graph.n_nodes, np.int64)
    run[rest] = np.cumsum(begins)
    begins[np.searchsorted(rest, _first_fed(graph, rules, np.where(moved, 0, run)))] = True
    run[rest] = np.cumsum(begins)
    following = np.append(run[rest], run.max() + 1)[np.searchsorted(rest, np.flatnonzero(moved))]
    place = 2 * run  # even for nodes that stay, one less for nodes that move before them
    place[moved] = 2 * following - 1
    order = np.argsort(place, kind="stable")
    group = np.empty(graph.n_nodes, np.int64)
    group[order] = np.cumsum((np.diff(place[order], prepend=0) > 0) | moved[order]) - 1
    return group


def _first_fed(graph: ComputationGraph, rules: Backward, run: Int64) -> Int64:
    """int64[...]: where gradients begin in runs of nodes that read no value with a gradient from outside the run."""
    reader = row_of(graph.read_indptr)
    bears = rules.grad_memory[graph.read_indices] >= 0
    reader, source = reader[bears], graph.producer[graph.read_indices[bears]]
    inside = run[source] == run[reader]
    runs, first = np.unique(run[reader[inside]], return_index=True)
    return reader[inside][first[~np.isin(runs, run[reader[~inside]])]]


def _kept(graph: ComputationGraph, group: Int64, merged: Bool) -> Bool:
    """bool[n_values]: True for a value that stays one: of a single node, an output, or read outside its block."""
    home, reader = group[graph.producer], group[row_of(graph.read_indptr)]
    kept = graph.output | ~merged[home]
    kept[graph.read_indices[home[graph.read_indices] != reader]] = True
    last = np.zeros(merged.size, np.int64)
    np.maximum.at(last, group, np.arange(graph.n_nodes))
    silent = ~np.isin(np.arange(merged.size), home[kept])
    kept[graph.value_indptr[last[silent]]] = True  # every node has a value
    return kept


def _backward(graph: ComputationGraph, rules: Backward, blocks: _Contraction) -> Backward:
    """The gradients of blocks, without the workspace of those of several nodes."""
    saver = row_of(rules.saved_indptr)
    can = able(graph, rules)
    saves = (can | blocks.alone)[saver]
    saved_indptr, saved_indices = blocks.rows(saver[saves], blocks.value[rules.saved_indices[saves]])
    grad_compute = rules.grad_compute
    twice = np.where(grad_compute < 0, 2 * graph.compute, grad_compute) * can
    explicit = np.where(blocks.merged, blocks.sums(twice), blocks.sums(grad_compute))
    return Backward(
        saved_indptr=saved_indptr,
        saved_indices=saved_indices,
        grad_memory=blocks.of_values(rules.grad_memory, np.full(blocks.size.size, -1)),
        grad_compute=np.where(blocks.sums(grad_compute >= 0) > 0, explicit, -1),
        grad_workspace=blocks.sums(np.where(blocks.alone, rules.grad_workspace, 0)),
    )


def _resident(graph: ComputationGraph, blocks: _Contraction) -> Resident | None:
    resident = graph.resident
    if resident is None:
        return None
    reader = row_of(resident.read_indptr)
    read_indptr, read_indices = blocks.rows(reader, resident.read_indices)
    return replace(resident, read_indptr=read_indptr, read_indices=read_indices)


def _mark(graph: ComputationGraph, blocks: _Contraction) -> Int8 | None:
    """A mark that all nodes of a block share."""
    if graph.mark is None:
        return None
    keep, recompute = (blocks.sums(graph.mark == wish) == blocks.size for wish in (KEEP, RECOMPUTE))
    return (KEEP * keep + RECOMPUTE * recompute).astype(np.int8)


def _labels(graph: ComputationGraph, blocks: _Contraction, block: Sequence[str]) -> Labels:
    first = np.unique(blocks.group, return_index=True)[1].tolist()
    node_names, value_names = graph.node_names(), graph.value_names()
    views = _views(graph, blocks.kept, node_names, value_names)
    wishes = ["" if graph.once[v] else block[v] for v in first]
    names_of_values = ["" if x < 0 else value_names[x] for x in blocks.origin.tolist()]
    names = _UniqueNames({*names_of_values, *graph.resident_names, *views})
    names.used.update(node_names[v] for v, wish in zip(first, wishes, strict=True) if not wish)
    own = [
        names.free(wish, names_of_values[x]) if wish else node_names[v]
        for v, wish, x in zip(first, wishes, blocks.value_indptr.tolist(), strict=False)
    ]
    for x, home in zip(np.flatnonzero(blocks.origin < 0).tolist(), np.flatnonzero(blocks.inner >= 0), strict=True):
        names_of_values[x] = names.free(f"{own[home]}:inner")
    ops = ["Block" if merged else graph.labels.op(v) for v, merged in zip(first, blocks.merged.tolist(), strict=True)]
    return replace(
        graph.labels, names=tuple(own), value_names=dict(enumerate(names_of_values)), ops=tuple(ops), views=views
    )


def _views(
    graph: ComputationGraph, kept: Bool, node_names: Sequence[str], value_names: Sequence[str]
) -> dict[str, str]:
    """Views of remaining values and of residents."""
    if not graph.labels.views:
        return {}
    value = dict(zip(node_names, graph.value_indptr[:-1].tolist(), strict=True))
    value |= {name: x for x, name in enumerate(value_names)}
    views = {}
    for name, base in graph.labels.views.items():
        if base not in value:
            views[name] = base
        elif kept[value[base]]:
            views[name] = value_names[value[base]]
    return views


@dataclass(frozen=True, slots=True)
class _UniqueNames:
    """Names in use, and the last number of each."""

    used: set[str]
    numbers: dict[str, int] = field(default_factory=dict)

    def free(self, name: str, own: str = "") -> str:
        """The name or, if anything but its own first value has it, the next of name#2, name#3, ..."""
        candidate = name
        while candidate in self.used and candidate != own:
            self.numbers[name] = self.numbers.get(name, 1) + 1
            candidate = f"{name}#{self.numbers[name]}"
        self.used.add(candidate)
        return candidate


def _workspaces(fine: ComputationGraph, coarse: ComputationGraph, group: Int64) -> tuple[Int64, Int64]:
    """int64[blocks] twice: scratch bytes of each block and of its gradients, the peak inside minus its own bytes.

    Both graphs are differentiated (every output with a gradient is a loss), with and without gradients of parameters,
    and simulated in id order; the larger figure counts. It is 0 for a block of one node.
    """
    span = _spans(group)
    home = np.full(coarse.n_nodes, -1)
    home[group] = span
    workspace, grad_workspace = np.zeros((2, coarse.n_nodes), np.int64)
    resident = fine.resident
    learned = resident is not None and bool((resident.role == PARAMETER).any())
    for parameter_gradients in (False, True)[: 1 + learned]:
        nodes, blocks = (_IdOrderSteps.of(graph, parameter_gradients) for graph in (fine, coarse))
        own = home[blocks.owner] == blocks.owner  # no single node in between
        for scratch, backward in ((workspace, False), (grad_workspace, True)):
            inside = nodes.rise(coarse.n_nodes, span, nodes.backward == backward)
            # a seed has no workspace
            without = blocks.rise(coarse.n_nodes, home, blocks.backward == backward, own & ~blocks.seed)
            np.maximum(scratch, np.where(without >= 0, inside - without, 0), out=scratch)
    return workspace, grad_workspace


def _spans(group: Int64) -> Int64:
    """int64[n]: the block of several nodes whose span of ids contains the node, or -1."""
    node = np.arange(group.size)
    first = np.full(group.max() + 1, group.size)
    last = np.zeros(first.size, np.int64)
    np.minimum.at(first, group, node)
    np.maximum.at(last, group, node)
    several = np.flatnonzero(first < last)
    several = several[np.argsort(first[several])]
    before = np.append(several, -1)[np.searchsorted(first[several], node, side="right") - 1]
    return np.where((before >= 0) & (node <= last[before]), before, -1)


@dataclass(frozen=True, slots=True, eq=False)
class _IdOrderSteps:
    """A differentiated graph simulated in id order; an entry for each step."""

    owner: Int64  # the forward node that runs, whose gradient runs, or whose value is the loss of a seed
    backward: Bool
    seed: Bool
    live: Int64  # bytes
    before: Int64  # bytes that are live both before and during the step

    @classmethod
    def of(cls, graph: ComputationGraph, parameter_gradients: bool) -> _IdOrderSteps:
        bare = replace(graph, compute=np.zeros(graph.n_nodes, np.int64), mark=None, labels=Labels())
        owner, training = np.arange(graph.n_nodes), bare
        seed = np.zeros(graph.n_nodes, bool)
        if graph.backward is not None and (graph.output & (graph.backward.grad_memory >= 0)).any():
            training = differentiate(bare, parameter_gradients=parameter_gradients)
            target, reader = gradient_pairs(bare, parameter_gradients=parameter_gradients)
            of_loss = graph.producer[np.where(reader < 0, target, 0)]
            owner = np.append(owner, np.where(reader < 0, of_loss, reader))
            seed = np.append(seed, reader < 0)
        order = np.flatnonzero(training.needed)
        *_, live = instance_lifetimes(training.arrays, order.astype(np.int32), NO_PAIRS, NO_TRIPLES, NO_PAIRS)
        before = live - (training.node_memory + training.workspace)[order]
        return cls(owner[order], order >= graph.n_nodes, seed[order], live, before)

    def rise(self, n_blocks: int, home: Int64, part: Bool, counted: Bool | None = None) -> Int64:
        """int64[blocks]: the highest live bytes of a block's steps, minus those before its first; -1 without steps.

        `home` int64[n] is the block of each forward node or -1; only steps in `part`, and `counted` if given, count.
        """
        steps = np.flatnonzero(part & (home[self.owner] >= 0))
        highest, before = np.full((2, n_blocks), -1, np.int64)
        before[home[self.owner[steps[::-1]]]] = self.before[steps[::-1]]  # the first step is written last
        if counted is not None:
            steps = steps[counted[steps]]
        np.maximum.at(highest, home[self.owner[steps]], self.live[steps])
        return np.where(highest >= 0, highest - before, -1)
